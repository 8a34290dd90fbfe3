/* SPDX-License-Identifier: Apache-2.0 */
/* policy_risk.h : the exact error of a query's output when a policy keeps some of its keys.
 *
 * With weights w_j of sum 1 over the n keys, values v_j, y = sum w_j v_j and u_j = v_j - y, what a
 * choice (policy.h) keeps gives an output off by N/Z (THEORY 13). Without chance that is a number.
 * With chance its mean square is one integral, without approximation:
 *
 *     draws with replacement, each on its own      one integral (THEORY 13)
 *     draws without replacement                    a coefficient of the generating function of
 *                                                  sets, by Cauchy's formula, in the integral
 *
 *     es_risk_query query;
 *     es_policy_risk risk;
 *     es_risk_query_new(scores, n, &values, NULL, &query, &err);
 *     es_policy_choose(&spec, &(es_policy_query){.n = n, .position = 201}, NULL, &choice, &err);
 *     es_policy_risk_of(&query, &choice, NULL, &risk, &err);     // risk.square.val +-
 * risk.square.err es_risk_query_free(&query, NULL);
 *
 * draw_risk.h is the special case of nothing sure and draws with replacement, for millions of keys.
 */
#ifndef ESSCHER_POLICY_RISK_H
#define ESSCHER_POLICY_RISK_H

#include <stdbool.h>

#include <esscher/view.h>
#include <esscher/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* With chance, numbers are given that a kept key has weight. Without it, weights of the kept keys
 * may be too small for a number: the output is still made from them. */
typedef struct es_policy_risk {
    es_num square;      /* E|y_S - y|^2 and a bound on its error: 1e-10 of it up to 10^4 keys, and
                           what rounding of the values leaves */
    double bias2;       /* |E y_S - y|^2 */
    double variance;    /* square - bias2 */
    double mass;        /* expected mass kept, sum over kept keys of w_j, each counted once */
    double keys;        /* expected number of keys kept, as es_choice_keys() */
    double first_order; /* the large-m form of `square` (THEORY 13); NaN where nothing is left to
                           chance */
    double empty;       /* probability that nothing with weight is kept */
} es_policy_risk;

/* One query with everything that the integrals need. */
typedef struct es_risk_query {
    int64_t n, dv;
    bool sink;       /* the last of the n keys is a learned sink: value 0, no position. Choices are
                        of the n - 1 others; every outcome keeps it, and no count of keys has it */
    double *weights; /* (n) of sum 1 */
    double *logs;    /* (n) their logarithms, of those as well that are too small for a number */
    double *values;  /* (n, dv) of the keys: as given */
    double *output;  /* (dv) */
    double *off;     /* (n, dv) u_j, and a few rows of scratch memory */
    double *reach;   /* (n) |u_j| */
    double spread2;  /* sum w |u|^2 */
} es_risk_query;

/*! es_risk_query_new() : weights from scores (n), in f64, -inf being a weight of zero; values
 *  (n, dv). Release with es_risk_query_free() and the same budget. O(n dv).
 *  @return : ES_OK; ES_E_ARGUMENT (risk.null); ES_E_SHAPE (risk.shape); ES_E_NONFINITE (risk.score,
 *  values); ES_E_RANGE (risk.value: beyond 1e150, whose square is no number); ES_E_EMPTY
 *  (risk.score) if no key has weight; ES_E_LIMIT, ES_E_MEMORY. After a failure *out is zero. */
ES_API es_status es_risk_query_new(const double *scores, int64_t n, const es_view *values,
                                   es_mem_limit *budget, es_risk_query *out, es_error *err);
ES_API void es_risk_query_free(es_risk_query *query, es_mem_limit *budget);

/*! es_policy_risk_of() : the risk of a choice for this query, which is only read. O(n dv nodes),
 *  some 60 nodes being usual, more where weights range over hundreds of orders; without replacement
 *  ten times that. 512 keys of 32 channels take 0.3 ms each on its own, 1 ms with replacement, 10
 *  ms without.
 *  @return : ES_OK; ES_E_ARGUMENT (risk.null; risk.choice: keys, draws, probabilities or factors
 *  that es_policy_choose() does not make); ES_E_SHAPE (risk.choice: a choice of another n);
 *  ES_E_EMPTY (risk.empty) if nothing is ever kept, or nothing but scores of -inf; ES_E_LIMIT,
 *  ES_E_MEMORY. */
ES_API es_status es_policy_risk_of(const es_risk_query *query, const es_choice *choice,
                                   es_mem_limit *budget, es_policy_risk *out, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
