/* SPDX-License-Identifier: Apache-2.0 */
/* random.h : random numbers that have an address.
 *
 * There are no streams. A number is a pure function of its address,
 *
 *     (seed, experiment, cell, token, lane)
 *
 * so that it has the same bits on one thread or on sixty-four ranks, after a restart, and in a
 * prefix of a longer run; and on every CPU and compiler, since the whole path from address to
 * number uses integer operations and + - * / sqrt alone, with polynomials of our own where other
 * libraries would call log or cos.
 *
 *     es_address at = {.seed = 7, .cell = 12};
 *     es_normal_rows(&at, n, d, x, &err);        // tokens 0 .. n-1 of cell 12, (n,d)
 *     at.token = 1000;
 *     es_normal_rows(&at, 10, d, y, &err);       // the same numbers as rows 1000 .. 1009 of x
 *
 * The generator is Philox4x32-10 (Salmon et al., SC 2011; Random123). Its 64-bit key is the seed;
 * its 128-bit counter is, from the top bit down,
 *
 *     experiment 16 | cell 48 | token 40 | lane 24
 *
 * where the first of the four 32-bit counter words is the lowest. A field too large for its bits
 * would be the address of another number, so it is refused: ES_E_RANGE.
 *
 * A block, one value of the counter, yields two 64-bit words. From lane `first->lane` on,
 *   - uniform, exponential, normal and sphere rows use one lane for two elements: element j of a
 *     token is number j%2 of lane j/2. Fewer tokens, fewer elements, or a start at another token
 *     (or at a lane j/2, for even j) give the same numbers.
 *   - gamma, chi and integer rows, whose methods may reject, use 64 lanes for each element, beta
 *     rows 128. What one element rejects does not move the next.
 * Two calls at the same address see the same bits: a uniform and a normal drawn at one address are
 * functions of each other. Give separate purposes separate cells, experiments (experiment.h lists
 * those that are taken) or lanes.
 *
 * All functions are thread-safe and reentrant, allocate nothing, and cost O(tokens * dim). `out`
 * belongs to the caller, is row-major (tokens, dim) without padding, and is untouched on failure.
 * The functions that fill rows share these errors: ES_E_ARGUMENT if a pointer is NULL; ES_E_SHAPE
 * if tokens < 0, dim < 1 or tokens*dim does not fit; ES_E_RANGE if an address on the way leaves
 * its field, or a parameter of the law its stated interval. tokens = 0 is fine and does nothing.
 */
#ifndef ESSCHER_RANDOM_H
#define ESSCHER_RANDOM_H

#include <stdint.h>

#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct es_address {
    uint64_t seed;
    uint16_t experiment;
    uint64_t cell;  /* below 2^48 */
    uint64_t token; /* below 2^40 */
    uint32_t lane;  /* below 2^24 */
} es_address;

/* ---- rows of the basic laws ---- */

/*! es_uniform_rows() : uniform on the open interval (0,1): odd multiples of 2^-53, 52 random bits;
 * never 0, never 1. */
ES_API es_status es_uniform_rows(const es_address *first, int64_t tokens, int64_t dim, double *out,
                                 es_error *err);

/*! es_normal_rows() : standard normal, by Box and Muller: a block with uniforms u, v gives
 * sqrt(-2 log u) cos(2 pi v) and sqrt(-2 log u) sin(2 pi v), each within 3.5 ulp. Never 0; never
 * beyond 8.58 in magnitude (which the exact law exceeds once in 10^17). */
ES_API es_status es_normal_rows(const es_address *first, int64_t tokens, int64_t dim, double *out,
                                es_error *err);

/*! es_normal_rows_f32() : the same numbers, rounded to float. */
ES_API es_status es_normal_rows_f32(const es_address *first, int64_t tokens, int64_t dim,
                                    float *out, es_error *err);

/* ---- experiment numbers ---- */

/* Experiment numbers for programs; the library's own are in src/random/experiment.h. Yours may
 * start at ES_EXPERIMENT_FREE. */
enum {
    ES_EXPERIMENT_BENCH = 6,
    ES_EXPERIMENT_BENCH_INPUTS = 7, /* cell 0, 1, 2: queries, keys, values */
    ES_EXPERIMENT_FREE = 0x8000     /* from here on: programs that use the library */
};

#ifdef __cplusplus
}
#endif
#endif
