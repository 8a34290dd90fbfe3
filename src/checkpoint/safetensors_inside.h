/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_inside.h : safetensors from the inside: headers in memory, files, an index of shards.
 *
 * Functions that take things apart see bytes and a file size, no file, so that a fuzzer can drive
 * them and so that what they refuse is refused before anything is allocated from it. */
#ifndef ES_CHECKPOINT_SAFETENSORS_INSIDE_H
#define ES_CHECKPOINT_SAFETENSORS_INSIDE_H

#include <stddef.h>

#include "checkpoint/safetensors.h"
#include "store/file.h"

/* ---- the header of one file (safetensors_header.c) ---- */

enum { ES_ST_PREFIX = ES_FOREIGN_PREFIX }; /* bytes that always suffice for es_st_extent() */

/* Longest header, and longest index, taken without being asked to: what the format's own reader
 * accepts. It bounds the memory that a file can make us ask for. */
#define ES_ST_HEADER_MOST UINT64_C(100000000)

/*! es_st_host() : refuse a machine whose byte order is not the format's. */
es_status es_st_host(bool little_endian, const char *file, es_error *err);

/*! es_st_extent() : from the first `have` >= min(file_size, ES_ST_PREFIX) bytes of a file, how many
 *  bytes its length and header take: *extent <= min(file_size, 8 + opts->header_most). */
es_status es_st_extent(const unsigned char *bytes, size_t have, uint64_t file_size,
                       const char *file, const es_st_opts *opts, uint64_t *extent, es_error *err);

/*! es_st_parse() : the tensors of the header bytes[8 .. header_end), in order of their names, as
 *  new memory of opts->budget, never NULL on success. Names are decoded and terminated in place, so
 *  `bytes` is changed and must live as long as the tensors. */
es_status es_st_parse(unsigned char *bytes, size_t header_end, uint64_t file_size, const char *file,
                      const es_st_opts *opts, es_st_tensor **tensors, int64_t *count,
                      es_error *err);

/*! es_st_by_name() : order of tensors for qsort(). */
int es_st_by_name(const void *a, const void *b);

/* ---- dtypes ---- */

/* What is known about a dtype. */
typedef struct es_st_kind {
    const char *name; /* in the file; NULL: unknown */
    int bits;         /* of one element */
    const char *what; /* for messages; NULL: it is read */
} es_st_kind;

/*! es_st_kind_of() : by the name in the file; NULL for one we do not know. */
const es_st_kind *es_st_kind_of(const char *dtype);

/*! es_st_decode() : `count` numbers from the bytes of the file (any alignment) to `dtype`, which
 *  es_st_read() has found possible, adding to *seen; `first` is the index of the first one. */
void es_st_decode(const char *from, const unsigned char *raw, int64_t first, int64_t count,
                  es_dtype dtype, void *out, es_st_seen *seen);

/* ---- files (safetensors.c) ---- */

typedef struct es_st_one {
    es_file file;
    char *path;
    unsigned char *header; /* names of tensors stand in it */
    size_t header_end;
} es_st_one;

/* An open file is one shard of one; so there is one kind of es_st. */
struct es_st {
    es_st_one *files;
    int n_files;
    es_st_tensor *tensors; /* in order of their names */
    int64_t count;
    struct es_gguf *gguf; /* source and reader of the tensors, if not `files` */
    es_mem_limit *budget;
};

/*! es_st_of_gguf() : the tensors of an open GGUF (gguf_inside.h), which belongs to it from then on,
 *  also after a failure. */
es_status es_st_of_gguf(struct es_gguf *gguf, es_st **out, es_error *err);

/* ---- model.safetensors.index.json, which says which shard holds which tensor ---- */

typedef struct es_st_place {
    const char *tensor, *shard; /* in the text of the index */
} es_st_place;

/*! es_st_index_parse() : the places of the index, by shard and then by tensor, as new memory of
 *  `budget`. `bytes` (size of them) is changed: names are decoded and terminated in place. A shard
 *  is a plain file name and a tensor has one place. */
es_status es_st_index_parse(unsigned char *bytes, size_t size, const char *file,
                            es_mem_limit *budget, es_st_place **places, int64_t *count,
                            es_error *err);

#endif
