/* SPDX-License-Identifier: Apache-2.0 */
/* npy_header.h : the header of a .npy file, taken apart in memory.
 *
 * These functions see bytes and a file size, no file, so that a fuzzer can drive them and so that
 * what they refuse is refused before anything is allocated. */
#ifndef ES_STORE_NPY_HEADER_H
#define ES_STORE_NPY_HEADER_H

#include <esscher/npy.h>

#include "store/file.h"

enum {
    ES_NPY_PREFIX = ES_FOREIGN_PREFIX, /* bytes that always suffice for es_npy_extent() */
    ES_NPY_HEADER_MOST = 1 << 20,      /* longest header text; NumPy itself stops at 10000 */
    ES_NPY_RANK_MOST = 64,             /* more than any version of NumPy allows */
};

/* Where the numbers are and what to do with them. */
typedef struct es_npy_layout {
    es_npy_info info;
    size_t item;          /* bytes of one number in the file: 2, 4 or 8; 1, too, if whole */
    bool swap;            /* the file has the other byte order */
    bool bf16;            /* two bytes are a bfloat16, not an f2 */
    char whole;           /* 'i' or 'u': integers; 0: floats */
    int64_t count;        /* numbers */
    uint64_t data_offset; /* of the first one */
} es_npy_layout;

/*! es_npy_extent() : from the first `have` bytes of a file of `file_size` bytes, how many bytes its
 *  magic, version and header take: *extent <= min(file_size, ES_NPY_HEADER_MOST + 12).
 *  `have` is at least min(file_size, ES_NPY_PREFIX). `file` is for messages. */
es_status es_npy_extent(const unsigned char *bytes, size_t have, uint64_t file_size,
                        const char *file, size_t *extent, es_error *err);

/*! es_npy_parse() : parses the header in bytes[0 .. extent), with extent from es_npy_extent(), and
 *  checks that the numbers it announces are exactly the rest of the file. */
es_status es_npy_parse(const unsigned char *bytes, size_t extent, uint64_t file_size,
                       const char *file, es_npy_raw raw, es_npy_layout *out, es_error *err);

/*! es_npy_bytes() : memory that an array takes, 0 if a dimension is 0. Dimensions of 0 are left out
 *  of the overflow check's product: next to a 0, a shape that overflows would still make strides
 *  overflow. @return : false if that product is above 2^63 - 1. */
bool es_npy_bytes(es_dtype dtype, int rank, const int64_t *shape, int64_t *bytes);

/*! es_npy_header_write() : the header of a file of floating-point numbers of `item` bytes, native
 *  order, version 1.0: magic, length, dictionary, spaces and a newline up to a multiple of 64
 * bytes.
 *  @return : its size. */
enum { ES_NPY_WRITTEN_MOST = 192 }; /* four dimensions of 13 digits stay far below */
size_t es_npy_header_write(size_t item, int rank, const int64_t *shape,
                           char header[ES_NPY_WRITTEN_MOST]);

/*! es_npy_decode() : `count` numbers as they are in the file to what they are in memory. `raw` and
 *  `out` may be the same memory unless the file has f2 or integers. */
void es_npy_decode(const es_npy_layout *layout, const unsigned char *raw, size_t count, void *out);

#endif
