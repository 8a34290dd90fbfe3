/* SPDX-License-Identifier: Apache-2.0 */
/* array_source.h : an array that the user names: a .npy file, or one tensor of a safetensors file
 * as FILE.safetensors:TENSOR; without a name a file with a single tensor will do. */
#ifndef ES_EXPERIMENTS_KIT_ARRAY_SOURCE_H
#define ES_EXPERIMENTS_KIT_ARRAY_SOURCE_H

#include <stdbool.h>

#include <esscher/npy.h>

/*! es_source_inspect() : its shape and dtype, without its numbers. es_source_load() : all of it.
 * With `bf16` two-byte items of a .npy file are bfloat16. @return : as es_npy_inspect_as(),
 *  es_npy_load_as(), es_st_open(); ES_E_ARGUMENT (input.tensor) naming the tensors there are. */
es_status es_source_inspect(const char *name, bool bf16, es_npy_info *out, es_error *err);
es_status es_source_load(const char *name, bool bf16, es_mem_limit *budget, es_array *out,
                         es_error *err);

#endif
