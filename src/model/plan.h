/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h : what the library alone needs beside <esscher/plan.h>. */
#ifndef ES_MODEL_PLAN_H
#define ES_MODEL_PLAN_H

#include <esscher/plan.h>

/*! es_plan_sees() : most keys that a query of `n` tokens sees in a layer: n, or what its window
 *  holds. */
int64_t es_plan_sees(const es_plan *plan, int64_t layer, int64_t n);

/*! es_plan_keys() : keys that head `head` of `layer` keeps of `n` tokens, at most what it sees. */
int64_t es_plan_keys(const es_plan *plan, int64_t layer, int64_t head, int64_t n);

/*! es_plan_count() : set keys_kept and keys_all from the heads. Heads that share keys and values
 *  keep the same, so one of each group counts. */
void es_plan_count(es_plan *plan);

/*! es_plan_check_context() : does it make sense to run it on blocks of `n` tokens? Where n is not
 *  what the plan was made for, that is a remark (es_log_set()): keys stay the numbers they are.
 *  @return : ES_OK; ES_E_SHAPE (plan.context) if it drops keys at its own context and none at
 *  this one: what would be measured is the full model. */
es_status es_plan_check_context(const es_plan *plan, int64_t n, es_error *err);

/*! es_plan_specs() : what the heads keep of blocks of n tokens, out (layers, heads), for
 *  es_model_sparse. Numbers of keys stay as they are; a head that would keep all keys that
 *  its layer sees, or more, keeps everything, as one of policy NULL. Parts that are unset are made
 * to fit (es_policy_spec_fit()).
 */
void es_plan_specs(const es_plan *plan, int64_t n, es_policy_spec *out);

#endif
