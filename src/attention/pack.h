/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h : a matrix rearranged so that a tile reads it from front to back. */
#ifndef ES_ATTENTION_PACK_H
#define ES_ATTENTION_PACK_H

#include <esscher/view.h>

/*! es_pack() : rows of v in groups, each group stored column by column:
 *      out (ceil(rows/group), cols, group),  out[g][j][r] = factor * v[g*group + r][j],
 *  zero where row g*group + r does not exist. `out` has elements of type `dtype`. Queries: group =
 * lanes. */
void es_pack(const es_view *v, int64_t group, double factor, es_dtype dtype, void *out);

/*! es_copy_rows() : rows numbers[0..count) of v, or from numbers[0] = `first` on where `numbers` is
 * NULL, side by side: out (count, width) of type `dtype`, zero beyond the columns of v. */
void es_copy_rows(const es_view *v, int64_t first, const int64_t *numbers, int64_t count,
                  int64_t width, es_dtype dtype, void *out);

/*! es_pack_rows() : rows [first, first+count) of v as a kernel of type `dtype` reads them, `width`
 * elements each, *stride elements apart: where they lie, if their type and layout allow it, or else
 * copied to `copy`, with space for (count, width); NULL if there is none. */
const void *es_pack_rows(const es_view *v, int64_t first, int64_t count, int64_t width,
                         es_dtype dtype, void *copy, int64_t *stride);

#endif
