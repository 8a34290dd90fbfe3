/* array_source.h : an array that the user names: a .npy file, or one tensor of a safetensors file
 * as FILE.safetensors:TENSOR. Without a name a file with a single tensor will do. */
#ifndef ES_STUDY_ARRAY_SOURCE_H
#define ES_STUDY_ARRAY_SOURCE_H

#include <esscher/npy.h>

/*! es_source_inspect() : shape and dtype, without the numbers. @return : as es_npy_inspect(); as
 *  es_st_open() and es_st_inspect(); ES_E_ARGUMENT (input.tensor) if the file has no such tensor,
 *  naming some. */
es_status es_source_inspect(const char *name, es_npy_info *out, es_error *err);

/*! es_source_load() : all of it; release with es_array_free(). @return : as es_source_inspect(),
 *  es_npy_load(), es_st_load(). */
es_status es_source_load(const char *name, es_budget *budget, es_array *out, es_error *err);

#endif
