/* SPDX-License-Identifier: Apache-2.0 */
/* far_risk.h : attention over sure keys and a far field of independent keys: its limit and its mean
 * square error, exactly (THEORY 20).
 *
 * A query of a decoder has keys that are what they are (sinks and near keys) and far keys, of which
 * `draws` are drawn independently from each stratum (a range of distances). With W = e^score and
 * values v, the limit replaces the sums over far keys by their expectations,
 *
 *     y_lim = (N_AB + sum_D draws_D E_D[W v]) / (Z_AB + sum_D draws_D E_D[W]),             (F1)
 *
 * and the mean square distance of the output from it is one integral, exact for any number of draws
 * and any weights and values of the strata's keys:
 *
 *     E|y - y_lim|^2 = int l e^{-l Z_AB} prod_D a_D^m [|N + sum_D m b_D/a_D|^2
 *                                                     + sum_D m (d_D/a_D - |b_D/a_D|^2)] dl, (F2)
 *
 * m = draws_D, a_D = E e^{-lW}, b_D = E[W u e^{-lW}], d_D = E[W^2 |u|^2 e^{-lW}], u = v - y_lim.
 * Expectations are means over the keys that the stratum lists, by their probabilities.
 *
 *     es_far_risk_of(&query, 1e-4, budget, limit, &risk, &err);
 */
#ifndef ES_RISK_FAR_RISK_H
#define ES_RISK_FAR_RISK_H

#include <esscher/exec.h>
#include <esscher/status.h>
#include <esscher/view.h>

/* Keys with their values: scores (count), finite or -inf; values (count, width). */
typedef struct es_far_keys {
    int64_t count;
    const double *scores, *values;
} es_far_keys;

/* Far keys at some distances: `draws` of them are drawn from `keys` with replacement. */
typedef struct es_far_stratum {
    double draws; /* at least 1 */
    es_far_keys keys;
    const double *shares; /* (keys.count) their probabilities, which add up to 1; NULL: equal */
    double scatter;       /* variance of values around those listed, summed over channels */
} es_far_stratum;

/*! es_far_share() : returns the probability of key j of a stratum. */
static inline double es_far_share(const es_far_stratum *s, int64_t j)
{
    return s->shares ? s->shares[j] : 1.0 / (double)s->keys.count;
}

/* One query. */
typedef struct es_far_query {
    int64_t width;
    es_far_keys sure; /* sinks and near keys; a learned sink has a value of 0. None is fine */
    const es_far_stratum *strata;
    int64_t n_strata; /* 0: the output is its limit */
} es_far_query;

/* What the far field does to the output. */
typedef struct es_far_risk {
    es_num square;   /* E|y - y_lim|^2 and a bound on its error, within the tolerance */
    double bias2;    /* |E y - y_lim|^2 */
    double sampling; /* the first-order form of `square`: sum_D m Var_D(W u) / (E Z)^2 */
    double far_mass; /* weight of the far field in the limit */
    double empty;    /* probability that no key has weight; the first two are given the rest */
} es_far_risk;

/*! es_far_risk_of() : limit (width) and the risk of one query, within `tolerance` of the risk, from
 *  1e-10 to 0.01. O(keys width nodes), some 60 nodes for 1e-10 and 25 for 1e-4. Thread-safe.
 *  @return : ES_OK; ES_E_RANGE (far.tolerance, far.draws); ES_E_NONFINITE (far.score) for a score
 *  that is NaN or +inf; ES_E_EMPTY (far.empty) if no key has weight; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_far_risk_of(const es_far_query *query, double tolerance, es_mem_limit *budget,
                         double *limit, es_far_risk *out, es_error *err);

/* ---- Gaussian keys ---- */

enum { ES_FAR_NODES = 192 }; /* keys that stand for a Gaussian law, at most */

/* Memory of the keys that stand for one. */
typedef struct es_far_nodes {
    double *scores, *values, *shares; /* (ES_FAR_NODES), (ES_FAR_NODES, width), (ES_FAR_NODES) */
    double *mean, *slope;             /* (width) scratch */
} es_far_nodes;

/*! es_far_gaussian() : returns the stratum whose scores and values are jointly Gaussian, with the
 *  mean and covariance of those of `from`, as keys at evenly spaced scores: sums over them are
 *  integrals over the Gaussian law within 1e-4 up to a standard deviation of 5 nats of the scores.
 *  The result points into `nodes`. All scores of `from` that have a share are finite. */
es_far_stratum es_far_gaussian(const es_far_stratum *from, int64_t width,
                               const es_far_nodes *nodes);

#endif
