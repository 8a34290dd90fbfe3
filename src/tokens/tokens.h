/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.h : tokens drawn from a law.
 *
 * Token i of a law at an address is a pure function of (law, seed, experiment, cell, i, lane): the
 * same bits in whatever calls the rows are asked for, on whatever thread, on every CPU, after a
 * restart, and in a prefix of a longer run. (The rotations of spectrum.h come from BLAS, whose
 * last bits depend on the CPU; a factor made by them hands that on.)
 *
 *     es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = d, .size = 1.0, .factor = cov.factor};
 *     es_address at = {.seed = 7, .experiment = ES_EXPERIMENT_FREE, .cell = 12};
 *     es_tokens_fill(&law, &at, n, NULL, x, &err);       tokens 0 .. n-1 of cell 12, (n, d)
 *
 * To stream, prepare the law once and then ask for rows as needed:
 *
 *     es_sampler *sampler;
 *     es_sampler_new(&law, budget, &sampler, &err);
 *     for (; at.token < n; at.token += tile)
 *         es_sampler_rows(sampler, &at, tile, x, &err);
 *     es_sampler_free(sampler);
 *
 * A token owns ES_TOKENS_LANES lanes from first->lane on. Code that draws twice in a cell, keys and
 * queries for example, gives the second set a lane ES_TOKENS_LANES further, or another experiment.
 *
 * How laws are drawn: sphere: a normal row over its norm. Ball: a sphere row times U^(1/dim).
 * Student: a normal row over sqrt(chi^2/freedom). Laplace and its like: the inverse of the
 * distribution function. vMF: Wood's (1994) rejection for the cosine, 0.65 or more of the attempts
 * succeeding, and a uniform direction orthogonal to it, turned by one reflection; concentration 0
 * is uniform, dim 1 has the two points +-direction. Mixture: one uniform picks the part, whose
 * own row follows. Empirical: an unbiased integer, or the place of the token in one permutation
 * per (seed, experiment, cell, lane). What a law needs beside its coordinates, a radius, a choice,
 * attempts, comes from lanes of its own.
 *
 * The image mean + B z is computed by our own loops, each element as mean_i + (((B_i0 z_0) +
 * B_i1 z_1) + ...), whatever the batch; leading and trailing zeros shared by eight rows of B are
 * skipped, which changes no bit, so a triangular B costs half.
 *
 * Speed in million tokens per second on one core of an AMD EPYC with AVX2 (shared with others;
 * best of 15), f64:
 *
 *     dim   Gaussian   full B   triangular B   sphere   vMF   mixture, full B
 *      50        5.0      2.1            2.4      3.9   2.2               1.6
 *      64        3.9      1.6            1.9      3.2   1.8               1.5
 *     256       0.97     0.22           0.31     0.80  0.54              0.20
 */
#ifndef ES_TOKENS_TOKENS_H
#define ES_TOKENS_TOKENS_H

#include "law/law.h"
#include <esscher/random.h>

enum { ES_TOKENS_LANES = 1 << 15 }; /* lanes that one token owns */

/* ---- a law, ready to be drawn from ---- */

/* A law that was checked, and what is computed once: B in panels, cumulative weights, constants.
 * Never written to after it was made: any number of threads may draw from it. */
typedef struct es_sampler es_sampler;

/*! es_sampler_new() : prepare `law`, whose arrays (not the es_law itself) must outlive the sampler.
 *  O(dim^2), for points O(N dim); memory is counted against `budget` (may be NULL). On
 *  failure *out is NULL.
 *  @return : ES_OK; what es_law_check() returns; ES_E_RANGE for tokens.freedom (Student's outside
 *  [0.125, 2e9]: below, a token need not be representable) and tokens.concentration (above 1e15);
 *  ES_E_LIMIT, ES_E_MEMORY. */
es_status es_sampler_new(const es_law *law, es_mem_limit *budget, es_sampler **out, es_error *err);

/*! es_sampler_free() : NULL is fine. */
void es_sampler_free(es_sampler *sampler);

/*! es_sampler_rows() : tokens first->token .. first->token+count-1 into out (count, dim),
 *  row-major, on the calling thread. O(count dim), with a factor O(count dim^2). Scratch for a few
 *  rows is counted against the sampler's budget. count = 0 is fine and does nothing. `out` is
 *  untouched on failure. A size, mean or factor that takes a token beyond the largest number
 *  gives Inf.
 *  @return : ES_OK; ES_E_SHAPE if count < 0 or
 *  count*dim does not fit (tokens.count); ES_E_RANGE if an address leaves its field
 *  (random.address), or if tokens beyond the N points of a law without replacement are asked for
 *  (tokens.points); ES_E_LIMIT, ES_E_MEMORY. */
es_status es_sampler_rows(const es_sampler *sampler, const es_address *first, int64_t count,
                          double *out, es_error *err);

/* ---- in one call ---- */

/*! es_tokens_rows() : es_sampler_new(), es_sampler_rows(), es_sampler_free().
 *  The law is looked at in every call, all points of an empirical one too: not for small tiles.
 *  @return : what those return. */
es_status es_tokens_rows(const es_law *law, const es_address *first, int64_t count, double *out,
                         es_error *err);

/*! es_tokens_fill() : the same rows, made by exec->threads threads (exec may be NULL), memory
 * counted against exec->budget; progress in units of ES_TOKENS_UNIT tokens.
 *  @return : also ES_E_INTERRUPTED; rows may then, and for want of memory, have been written. */
enum { ES_TOKENS_UNIT = 1024 };
es_status es_tokens_fill(const es_law *law, const es_address *first, int64_t count,
                         const es_exec *exec, double *out, es_error *err);

#endif
