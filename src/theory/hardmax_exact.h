/* SPDX-License-Identifier: Apache-2.0 */
/* hardmax_exact.h : attention at infinite score scale, where convergence is logarithmic.
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
 * Here are the exact expectation by quadrature and its asymptotic forms; hardmax.h simulates.
 */
#ifndef ES_THEORY_HARDMAX_EXACT_H
#define ES_THEORY_HARDMAX_EXACT_H

#include <stdint.h>

#include <esscher/view.h>
#include <esscher/status.h>

/* Which queries select tokens. */
typedef enum es_hardmax_queries {
    ES_HARDMAX_POPULATION = 0, /* queries of the same law, infinitely many */
    ES_HARDMAX_SELF = 1        /* the n tokens themselves */
} es_hardmax_queries;

#define ES_HARDMAX_MOST_N      INT64_C(1000000000000000000)
#define ES_HARDMAX_MOST_TOKENS INT64_C(10000000) /* where tokens are drawn: dim > 1 */
#define ES_HARDMAX_MOST_DIM    INT64_C(64)

/*! es_hardmax_exact() : E|Gbar| in one dimension, for n in [1, 10^18] and sigma > 0, with a bound
 * on its error: 1e-12 of it for population queries, 1e-9 for queries = tokens. A tenth
 * of a millisecond; ten milliseconds for queries = tokens.
 *  @return : ES_OK; ES_E_RANGE for another n or sigma; ES_E_ARGUMENT for other queries. */
es_status es_hardmax_exact(es_hardmax_queries queries, int64_t n, double sigma, es_num *out,
                           es_error *err);

/*! es_hardmax_leading() : sigma ln 4 / (2 sqrt(2 ln n)), the papers' leading term; 4 % low at
 * n = 10^3, 2 % at 10^9. NaN for n < 2. */
double es_hardmax_leading(int64_t n, double sigma);

/*! es_hardmax_second() : sigma ln 2 / h(b), h the normal hazard, b the level that a token passes
 * with probability exp(-gamma)/(sqrt(2) n): 1.1 % low at n = 10^3, 0.14 % at 10^9. NaN for n < 1.
 */
double es_hardmax_second(int64_t n, double sigma);

/*! es_hardmax_steiner() : J_d, the constant of the next function, by quadrature to 1e-9. A tenth of
 * a second. @return : ES_OK; ES_E_RANGE unless dim is in [1, 64]. */
es_status es_hardmax_steiner(int64_t dim, double *constant, es_error *err);

/*! es_hardmax_rms() : the leading term of the root mean square of |Gbar| in d dimensions,
 *     sigma (d/b) sqrt(J_d/omega_d) b^{-(d-1)/2},   b = sqrt(2 ln n),
 * omega_d the area of the unit sphere, `constant` J_d. It comes from a heuristic argument, and
 * nears the truth slowly. NaN for n < 2 or dim < 1. */
double es_hardmax_rms(int64_t dim, int64_t n, double sigma, double constant);

#endif
