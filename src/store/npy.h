/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h : what the library alone needs beside <esscher/npy.h>. */
#ifndef ES_STORE_NPY_H
#define ES_STORE_NPY_H

#include <esscher/npy.h>

/*! es_npy_inspect() : es_npy_inspect_as() for ordinary dtypes. */
es_status es_npy_inspect(const char *path, es_npy_info *out, es_error *err);

/*! es_array_slices() : how many matrices es_array_view() can give: 1 for one or two dimensions,
 *  else the product of all but the last two, e.g. the heads of (heads, n, d). */
int64_t es_array_slices(const es_array *array);

#endif
