/* SPDX-License-Identifier: Apache-2.0 */
/* hardmax.h : attention at infinite score scale, simulated (hardmax_exact.h says what to expect).
 *
 * In one dimension the extremes of n tokens are drawn, not the tokens: two uniforms and the
 * quantile of the normal law, through logarithms, so that n = 10^15 costs what n = 10 does and is
 * as exact. In more dimensions the tokens are drawn.
 */
#ifndef ES_EXPERIMENTS_HARDMAX_HARDMAX_H
#define ES_EXPERIMENTS_HARDMAX_HARDMAX_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/format.h>

#include "theory/hardmax_exact.h"

/* What is drawn. */
typedef struct es_hardmax_opts {
    uint64_t seed;
    uint16_t experiment;
    es_hardmax_queries queries; /* dim > 1: population only */
    int64_t dim;                /* 0: 1 */
    double sigma;               /* 0: 1 */
    int64_t first;              /* number of the first replicate */
    int64_t replicates;         /* 0: 1000 */
    int64_t directions;         /* dim > 1: how many stand for all; 0: 256 */
    const es_exec *exec;        /* NULL: all threads, no limits */
} es_hardmax_opts;

/* What one replicate gives at one n. */
typedef struct es_hardmax_draw {
    double value;  /* dim 1: Gbar with its sign; else |Gbar|, which the directions' noise raises */
    double square; /* dim 1: Gbar^2; else an estimate of |Gbar|^2 without that bias */
} es_hardmax_draw;

/* Averages over the replicates at one n. Standard errors of a single replicate are NaN. */
typedef struct es_hardmax_row {
    int64_t n;
    es_measured mean_abs;
    es_measured rms; /* root of the mean square; NaN if noise made the mean negative */
} es_hardmax_row;

/*! es_hardmax_sample() : draws (replicates, count) at n[0] < n[1] < ... Numbers stand at (seed,
 * experiment): in one dimension those of n at cell n mod 2^48, so that n in another grid has the
 * same draws and different n are independent; in more dimensions a replicate has a cell and the n
 * are prefixes of its tokens. Same bits for any number of threads.
 * O(replicates count), and O(replicates n directions dim) where tokens are drawn.
 *  @return : ES_OK; ES_E_ARGUMENT if the n do not increase or queries are
 * unknown; ES_E_EMPTY if count < 1; ES_E_RANGE for n outside [1, 10^18] ([1, 10^7] if dim > 1),
 * dim outside [1, 64], replicates outside [1, 10^8], directions outside [2, 65536] or a sigma that
 * is not positive and finite; ES_E_UNSUPPORTED for queries = tokens and dim > 1; ES_E_LIMIT,
 * ES_E_MEMORY; ES_E_INTERRUPTED. */
es_status es_hardmax_sample(const es_hardmax_opts *opts, const int64_t *n, int64_t count,
                            es_hardmax_draw *draws, es_error *err);

/*! es_hardmax_average() : draws (replicates, count) whose values have no sign to rows (count). */
void es_hardmax_average(const es_hardmax_draw *draws, int64_t replicates, const int64_t *n,
                        int64_t count, es_hardmax_row *rows);

/*! es_hardmax_run() : drawn and averaged: rows (count). Keeps the draws meanwhile. */
es_status es_hardmax_run(const es_hardmax_opts *opts, const int64_t *n, int64_t count,
                         es_hardmax_row *rows, es_error *err);

#endif
