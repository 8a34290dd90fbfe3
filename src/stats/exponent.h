/* SPDX-License-Identifier: Apache-2.0 */
/* exponent.h : how many keys lie near a query, and hence when one has the weight.
 *
 * For a query q and keys k on the unit sphere let T = 1 - <q, k>. What attention at a large inverse
 * temperature beta does, with n keys, depends on one thing: how the probability of a near key
 * vanishes,
 *
 *     P(T <= t) ~ c t^alpha.
 *
 * Keys spread over an m-dimensional surface through q have alpha = m/2; a density that vanishes at
 * q like distance^p has (m+p)/2; a key that is a copy of q has 0 (Scaling Limits of Long-Context
 * Transformers, arXiv 2605.08505; THEORY.md 6). freezing.h says from which beta on attention
 * over n such keys is single-key. Here alpha and c are estimated from keys that a user brings:
 *
 *   - Hill:       from the k nearest, (k-1)/sum ln(T_(k+1)/T_(i)). Twice it is the dimension by
 *                 Levina and Bickel, since distances are sqrt(2T). Unbiased for an exact power law.
 *   - corrected:  by maximum likelihood where T/2 has the density of keys uniform on a great sphere
 *                 through q, (x(1-x))^{alpha-1}: what Hill's estimate misses where the k nearest
 * are no longer near and the sphere has curved away (-8 % for alpha = 4.5, n = 2e4, k = 100).
 *   - two nearest neighbours (TwoNN, Facco et al. 2017): from T_(2)/T_(1) of many queries.
 *
 * Functions are thread-safe; results have the same bits for any number of threads.
 */
#ifndef ES_STATS_EXPONENT_H
#define ES_STATS_EXPONENT_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/view.h>

/* ---- one query ---- */

/* P(1 - cosine <= t) ~ c t^alpha around one query, or around several together. */
typedef struct es_exponent {
    int64_t n;      /* keys */
    int64_t copies; /* of them at T = 0, which are left out: they have alpha = 0 */
    int64_t k;      /* nearest keys that were used */
    double reach;   /* T_(k+1) */
    double hill, hill_se;
    double alpha, alpha_se; /* corrected */
    double log_c, log_c_se; /* ln c that goes with alpha; its error where alpha has none */
    double nearest[2];      /* T_(1), T_(2) without the copies */
} es_exponent;

/*! es_exponent_gaps() : T_i = 1 - cos(query, key i) into T (n), for keys (n, d) and query (d) of
 * any lengths, to rounding even where T is small. O(n d).
 *  @return : ES_OK; ES_E_ARGUMENT, ES_E_SHAPE; ES_E_NONFINITE with err->row, err->col; ES_E_RANGE
 * (exponent.zero) if the query or a key, err->row, is zero: it has no direction. */
es_status es_exponent_gaps(const es_view *keys, const double *query, double *T, es_error *err);

/*! es_exponent_estimate() : alpha and c from the gaps T (n), each in [0, 2], which get reordered. k
 * = 0: sqrt(n), at least 20. O(n + k log k).
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE (exponent.gap) for a T outside, (exponent.k) unless
 * 3 <= k < n - copies; ES_E_EMPTY (exponent.keys) with fewer than 4 keys that are no copies;
 * ES_E_NUMERIC (exponent.ties) if the k+1 nearest are all at one distance. */
es_status es_exponent_estimate(double *T, int64_t n, int64_t k, es_exponent *out, es_error *err);

/* ---- many queries ---- */

/* How many nearest keys are used. */
typedef struct es_exponent_opts {
    int64_t k;     /* 0: sqrt(n), at least 20 */
    bool self;     /* the queries are the first keys; a key is not its own neighbour */
    int64_t count; /* of self: how many; 0: all */
    const es_exec *exec;
} es_exponent_opts;

/* Over queries. Standard errors come from the scatter between queries; those of queries that
 * share their neighbours are too small. NaN of one query. */
typedef struct es_exponent_pool {
    int64_t queries; /* that gave an estimate */
    int64_t refused; /* that did not: ties */
    double hill, hill_se;
    double alpha, alpha_se;
    double log_c, log_c_se;   /* ln c at this alpha, mean over queries; its error at fixed alpha */
    double reach;             /* geometric mean of T_(k+1) */
    double two_nn, two_nn_se; /* dimension, twice alpha, from the two nearest; its error assumes
                                 independent queries */
} es_exponent_pool;

/*! es_exponent_queries() : each (queries) and the pool. queries (m, d), or NULL with opts->self.
 * each may be NULL. A query whose neighbours are all at one distance is counted as refused, with
 * NaN in each. O(m n d); memory of n numbers per thread.
 *  @return : ES_OK; as es_exponent_gaps() and es_exponent_estimate(), err->row naming the key, or
 * the query if it is its fault (exponent.query); ES_E_SHAPE if dimensions differ; ES_E_NUMERIC if
 * every query is refused; ES_E_LIMIT, ES_E_MEMORY, ES_E_INTERRUPTED. */
es_status es_exponent_queries(const es_view *keys, const es_view *queries,
                              const es_exponent_opts *opts, es_exponent *each,
                              es_exponent_pool *pool, es_error *err);

#endif
