/* st_header.h : the header of a safetensors file, taken apart in memory.
 *
 * These functions see bytes and a file size, no file, so that a fuzzer can drive them and so that
 * what they refuse is refused before anything is allocated from it. */
#ifndef ES_MODEL_ST_HEADER_H
#define ES_MODEL_ST_HEADER_H

#include <stddef.h>

#include <esscher/safetensors.h>

#include "store/foreign.h"

enum { ES_ST_PREFIX = ES_FOREIGN_PREFIX }; /* bytes that always suffice for es_st_extent() */

/*! es_st_host() : refuse a machine whose byte order is not the format's. */
es_status es_st_host(bool little_endian, const char *file, es_error *err);

/*! es_st_extent() : from the first `have` >= min(file_size, ES_ST_PREFIX) bytes of a file, how many
 *  bytes its length and header take: *extent <= min(file_size, 8 + opts->header_most). */
es_status es_st_extent(const unsigned char *bytes, size_t have, uint64_t file_size,
                       const char *file, const es_st_opts *opts, uint64_t *extent, es_error *err);

/*! es_st_parse() : the tensors of the header bytes[8 .. header_end), in order of their names, as
 * new memory of opts->budget, never NULL on success. Names are decoded and terminated in place, so
 *  `bytes` is changed and must live as long as the tensors. */
es_status es_st_parse(unsigned char *bytes, size_t header_end, uint64_t file_size, const char *file,
                      const es_st_opts *opts, es_st_tensor **tensors, int64_t *count,
                      es_error *err);

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

/*! es_st_by_name() : order of tensors for qsort(). */
int es_st_by_name(const void *a, const void *b);

#endif
