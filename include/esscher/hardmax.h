/* hardmax.h : attention at infinite score scale, where convergence is logarithmic.
 *
 * With an infinite score scale a query sees only the token of the largest score. For tokens
 * x_1..x_n of N(0, sigma^2) in one dimension, a positive query gets the largest token and a
 * negative one the smallest, so that the mean output over queries is
 *
 *     population queries:   Gbar = (max + min)/2
 *     queries = tokens:     Gbar = (k/n) max - ((n-k)/n) |min|,   k tokens are positive
 *
 * whose limit is 0. It gets there at the rate 1/sqrt(ln n): E|Gbar| ~ sigma ln 2 / sqrt(2 ln n).
 * In d dimensions, with queries of every direction, Gbar is the Steiner point of the convex hull of
 * the tokens, of size (ln n)^{-(d+1)/4}. (Token Sample Complexity of Attention, section on
 * hardmax; the exact forms are derived in the project's notes.)
 *
 * Here are the exact expectation by quadrature, its asymptotic forms, and the simulation. In one
 * dimension the simulation draws the extremes of n tokens, not the tokens: two uniforms and the
 * quantile of the normal law, through logarithms, so that n = 10^15 costs what n = 10 does and is
 * as exact. In more dimensions the tokens are drawn.
 */
#ifndef ESSCHER_HARDMAX_H
#define ESSCHER_HARDMAX_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/num.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum es_hardmax_queries {
    ES_HARDMAX_POPULATION = 0, /* queries of the same law, infinitely many */
    ES_HARDMAX_SELF = 1        /* the n tokens themselves */
} es_hardmax_queries;

#define ES_HARDMAX_MOST_N      INT64_C(1000000000000000000)
#define ES_HARDMAX_MOST_TOKENS INT64_C(10000000) /* where tokens are drawn: dim > 1 */
#define ES_HARDMAX_MOST_DIM    INT64_C(64)

/* ---- theory: pure functions ---- */

/*! es_hardmax_exact() : E|Gbar| in one dimension, for n in [1, 10^18] and sigma > 0, with a bound
 * on its error: 1e-12 of it for population queries, 1e-9 for queries = tokens. A tenth
 * of a millisecond; ten milliseconds for queries = tokens.
 *  @return : ES_OK; ES_E_RANGE for another n or sigma; ES_E_ARGUMENT for other queries. */
ES_API es_status es_hardmax_exact(es_hardmax_queries queries, int64_t n, double sigma, es_num *out,
                                  es_error *err);

/*! es_hardmax_leading() : sigma ln 4 / (2 sqrt(2 ln n)), the papers' leading term; 4 % low at
 * n = 10^3, 2 % at 10^9. NaN for n < 2. */
ES_API double es_hardmax_leading(int64_t n, double sigma);

/*! es_hardmax_second() : sigma ln 2 / h(b), h the normal hazard, b the level that a token passes
 * with probability exp(-gamma)/(sqrt(2) n): 1.1 % low at n = 10^3, 0.14 % at 10^9. NaN for n < 1.
 */
ES_API double es_hardmax_second(int64_t n, double sigma);

/*! es_hardmax_uniform() : E|Gbar| of tokens uniform on [-1,1], population queries: 1/(n+1). The
 * logarithm belongs to Gaussian tails. */
ES_API double es_hardmax_uniform(int64_t n);

/*! es_hardmax_steiner() : J_d, the constant of the next function, by quadrature to 1e-9. A tenth of
 * a second. @return : ES_OK; ES_E_RANGE unless dim is in [1, 64]. */
ES_API es_status es_hardmax_steiner(int64_t dim, double *constant, es_error *err);

/*! es_hardmax_rms() : the leading term of the root mean square of |Gbar| in d dimensions,
 *     sigma (d/b) sqrt(J_d/omega_d) b^{-(d-1)/2},   b = sqrt(2 ln n),
 * omega_d the area of the unit sphere, `constant` J_d. It comes from a heuristic argument, and
 * nears the truth slowly. NaN for n < 2 or dim < 1. */
ES_API double es_hardmax_rms(int64_t dim, int64_t n, double sigma, double constant);

/* ---- simulation ---- */

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

/* Over the replicates at one n. Standard errors are NaN of a single replicate. */
typedef struct es_hardmax_row {
    int64_t n;
    double mean_abs, mean_abs_se;
    double rms, rms_se; /* root of the mean square; NaN if noise made the mean negative */
} es_hardmax_row;

/*! es_hardmax_sample() : draws (replicates, count) at n[0] < n[1] < ... Numbers stand at (seed,
 * experiment): in one dimension those of n at cell n mod 2^48, so that n in another grid has the
 * same draws and different n are independent; in more dimensions a replicate has a cell and the n
 * are prefixes of its tokens. Same bits for any number of threads.
 * O(replicates count), and O(replicates n directions dim) where tokens are drawn.
 *  @return : ES_OK; ES_E_ARGUMENT if a pointer is NULL, the n do not increase or queries are
 * unknown; ES_E_EMPTY if count < 1; ES_E_RANGE for n outside [1, 10^18] ([1, 10^7] if dim > 1),
 * dim outside [1, 64], replicates outside [1, 10^8], directions outside [2, 65536] or a sigma that
 * is not positive and finite; ES_E_UNSUPPORTED for queries = tokens and dim > 1; ES_E_LIMIT,
 * ES_E_MEMORY; ES_E_INTERRUPTED. */
ES_API es_status es_hardmax_sample(const es_hardmax_opts *opts, const int64_t *n, int64_t count,
                                   es_hardmax_draw *draws, es_error *err);

/*! es_hardmax_average() : draws (replicates, count) whose values have no sign to rows (count). */
ES_API void es_hardmax_average(const es_hardmax_draw *draws, int64_t replicates, const int64_t *n,
                               int64_t count, es_hardmax_row *rows);

/*! es_hardmax_run() : drawn and averaged: rows (count). Keeps the draws meanwhile. */
ES_API es_status es_hardmax_run(const es_hardmax_opts *opts, const int64_t *n, int64_t count,
                                es_hardmax_row *rows, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
