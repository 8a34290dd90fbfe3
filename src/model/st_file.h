/* st_file.h : what an open safetensors file, or all shards of an index, consist of. */
#ifndef ES_MODEL_ST_FILE_H
#define ES_MODEL_ST_FILE_H

#include <stddef.h>

#include <esscher/safetensors.h>

#include "store/file.h"

typedef struct es_st_one {
    es_file file;
    char *path;
    unsigned char *header; /* names of tensors stand in it */
    size_t header_end;
} es_st_one;

struct es_st {
    es_st_one *files;
    int n_files;
    es_st_tensor *tensors; /* in order of their names */
    int64_t count;
    es_budget *budget;
};

/*! es_st_files_new() : room for `files` files, none open, and no tensors. Release with
 *  es_st_close() at any stage. */
es_status es_st_files_new(int files, es_budget *budget, es_st **out, es_error *err);

/*! es_st_file_load() : open `path` as file `index` of st and read its header into *tensors, new
 *  memory of the budget. */
es_status es_st_file_load(es_st *st, int index, const char *path, const es_st_opts *opts,
                          es_st_tensor **tensors, int64_t *count, es_error *err);

#endif
