/* array_file.h : an array that the user names: a .npy file, or one tensor of a safetensors file as
 * FILE.safetensors:TENSOR. Without a name a file with a single tensor will do. */
#ifndef CLI_ARRAY_FILE_H
#define CLI_ARRAY_FILE_H

#include <esscher/npy.h>

/* Shape and dtype, without the numbers. @return : as es_npy_inspect(); as es_st_open() and
 * es_st_inspect(); ES_E_ARGUMENT (input.tensor) if the file has no such tensor, naming some. */
es_status cli_array_inspect(const char *name, es_npy_info *out, es_error *err);

/* All of it. @return : as cli_array_inspect(), es_npy_load(), es_st_load(). */
es_status cli_array_load(const char *name, es_budget *budget, es_array *out, es_error *err);

#endif
