/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h : many Philox blocks at a time, and the numbers made from them.
 *
 * One block is 128 random bits: two 64-bit words, hence two uniforms, or two exponentials, or (by
 * Box and Muller) two normals. The kernels below turn a list of block addresses into such numbers,
 * a tile at a time. Their text (blocks_text.h) is compiled twice, plainly and for AVX2; both give
 * the same bits, because both do the same IEEE operations in the same order.
 */
#ifndef ES_RANDOM_BLOCKS_H
#define ES_RANDOM_BLOCKS_H

#include <esscher/exec.h>
#include <esscher/random.h>

enum {
    ES_LANE_BITS = 24,
    ES_TILE = 16 /* blocks handled together: enough for the multiplier's latency to be hidden */
};

/* Block i has key `seed`, upper counter half `high` and lower counter half at[i]. `count` is a
 * multiple of ES_TILE. out (2*count) receives the two numbers of block i at 2i and 2i+1. */
typedef void es_blocks_fn(uint64_t seed, uint64_t high, const uint64_t *at, int64_t count,
                          double *out);

/* The kernels of one instruction set; all give the same bits. */
typedef struct es_block_kernels {
    es_blocks_fn *uniforms, *exponentials, *normals;
    void (*words)(uint64_t seed, uint64_t high, const uint64_t *at, int64_t count, uint64_t *out);
} es_block_kernels;

extern const es_block_kernels es_blocks_portable, es_blocks_avx2;

/*! es_blocks_best() : the fastest kernels this CPU runs. */
const es_block_kernels *es_blocks_best(void);

/* The two halves of the counter: experiment | cell and token | lane. */
static inline uint64_t es_address_high(const es_address *a)
{
    return (uint64_t)a->experiment << 48 | a->cell;
}

static inline uint64_t es_address_low(const es_address *a)
{
    return a->token << ES_LANE_BITS | a->lane;
}

/*! es_rows_check() : the errors that all functions that fill rows share. Two elements of a token
 * use `pair_lanes` lanes. */
es_status es_rows_check(const es_address *first, int64_t tokens, int64_t dim, int64_t pair_lanes,
                        const void *out, es_error *err);

/*! es_block_words() : one block, by Random123's own scalar code: the definition that the kernels
 * must reproduce. */
void es_block_words(uint64_t seed, uint64_t high, uint64_t low, uint64_t out[2]);

/*! es_block_normals() : Box and Muller on one block. */
void es_block_normals(const uint64_t words[2], double out[2]);

/* A walk through blocks: `lanes` of them, `step` lanes apart, for each token in turn. */
typedef struct es_block_cursor {
    uint64_t row, at; /* lower counter half of the first block of this token, and of the next one */
    uint64_t step;
    int64_t lane, lanes;
} es_block_cursor;

es_block_cursor es_blocks_begin(const es_address *first, int64_t lanes, int64_t step);

/*! es_blocks_list() : lists the addresses of the next `count` blocks, padded to a whole tile with
 *  addresses whose numbers are not used. @return : the padded count, for which `at` must have
 *  space. */
int64_t es_blocks_list(es_block_cursor *cursor, int64_t count, uint64_t *at);

/*! es_blocks_rows() : a (tokens, dim) matrix, row-major, whose element (i, j) is number j%2 of the
 * block of token i at lane j/2 counted from *first. The address has been checked. */
void es_blocks_rows(es_blocks_fn *fn, const es_address *first, int64_t tokens, int64_t dim,
                    double *out);

#endif
