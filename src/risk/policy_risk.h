/* SPDX-License-Identifier: Apache-2.0 */
/* policy_risk.h : what the library alone needs beside <esscher/policy_risk.h>. */
#ifndef ES_RISK_POLICY_RISK_H
#define ES_RISK_POLICY_RISK_H

#include <esscher/policy_risk.h>

/*! es_risk_query_with_sink() : as es_risk_query_new(), with a learned sink of logit `sink` in the
 *  denominator of the softmax (THEORY 13): out->n is n + 1. -inf: there is none, and out->n is n.
 *  @return : as es_risk_query_new(); ES_E_NONFINITE (risk.score) for a sink that is NaN or +inf. */
es_status es_risk_query_with_sink(const double *scores, int64_t n, const es_view *values,
                                  double sink, es_mem_limit *budget, es_risk_query *out,
                                  es_error *err);

/*! es_policy_risk_near() : the same within `tolerance` of the risk, from 1e-10 to 0.01; out->square
 *  says what was kept of it. 1e-4 takes a third of the nodes. Without chance there is nothing to
 *  save. @return : as es_policy_risk_of(); ES_E_RANGE (risk.tolerance). */
es_status es_policy_risk_near(const es_risk_query *query, const es_choice *choice, double tolerance,
                              es_mem_limit *budget, es_policy_risk *out, es_error *err);

/*! es_kept_output() : the output over one outcome's keys, out (dv). O(keys dv).
 *  @return : ES_OK; ES_E_ARGUMENT (risk.null, risk.choice); ES_E_EMPTY (risk.empty) if none of them
 *  has weight. */
es_status es_kept_output(const es_risk_query *query, const es_kept *kept, double *out,
                         es_error *err);

/*! es_policy_limit() : the smallest first-order error of rules that keep m keys on average, each
 *  on its own with probability p_j and factor 1/p_j (THEORY 13); *sure (may be NULL) says how many
 *  keys the best of them keeps surely. 0 for m >= n. Rules that are biased (top) or whose keys
 *  depend on each other may have less. O(n log n).
 *  @return : ES_OK; ES_E_RANGE (risk.keys) unless m > 0; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_policy_limit(const es_risk_query *query, double m, es_mem_limit *budget, double *out,
                          int64_t *sure, es_error *err);

#endif
