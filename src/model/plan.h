/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h : what the library alone needs beside <esscher/plan.h>. */
#ifndef ES_MODEL_PLAN_H
#define ES_MODEL_PLAN_H

#include <esscher/plan.h>

#include "cache/cache.h"

/*! es_plan_sees() : most keys that a query of `n` tokens sees in a layer: n, or what its window
 *  holds. */
int64_t es_plan_sees(const es_plan *plan, int64_t layer, int64_t n);

/*! es_plan_keys() : keys that query head `head` of `layer` keeps of `n` tokens, at most what it
 *  sees. Of ideal plans. */
int64_t es_plan_keys(const es_plan *plan, int64_t layer, int64_t head, int64_t n);

/*! es_plan_count() : set keys_kept and keys_all from the heads, or from the units with bytes_before
 *  and bytes_after. Heads that share keys and values keep the same, so one of each group counts. */
void es_plan_count(es_plan *plan);

/*! es_plan_check_context() : fails if the plan does not fit blocks of `n` tokens. Where n is not
 *  what the plan was made for, that is a remark (es_log_set()): keys stay the numbers they are.
 *  @return : ES_OK; ES_E_SHAPE (plan.context) if it drops keys at its own context and none at
 *  this one: what would be measured is the full model. Of a cache: if n is not above the prompt,
 *  or not above the keys of any unit in decode mode. */
es_status es_plan_check_context(const es_plan *plan, int64_t n, es_error *err);

/*! es_plan_specs() : what the heads keep of blocks of n tokens, out (layers, heads), for
 *  es_model_sparse. Numbers of keys stay as they are; a head that would keep all keys that
 *  its layer sees, or more, keeps everything, as one of policy NULL. Parts that are unset are made
 * to fit (es_policy_spec_fit()).
 */
void es_plan_specs(const es_plan *plan, int64_t n, es_policy_spec *out);

/* ---- plans of caches ---- */

/*! es_plan_mode_name() : "ideal", "prompt", "decode", "none". es_plan_evicts() : the mode of the
 *  cache. */
const char *es_plan_mode_name(es_plan_mode mode);
es_evict_mode es_plan_evicts(es_plan_mode mode);

/*! es_plan_sees_all() : keys that a unit of `layer` holds if it keeps everything: of the prompt, or
 *  of the plan's context. */
int64_t es_plan_sees_all(const es_plan *plan, int64_t layer);

/*! es_plan_set_unit() : states what a unit does, with every option of its policy as the plan's mode
 *  sets it. Totals are the caller's (es_plan_count()). */
void es_plan_set_unit(es_plan *plan, int64_t layer, int64_t kv_head, const es_cache_unit *unit,
                      double risk);

/*! es_plan_unit_parse() : reads one unit of a plan of this mode. *missing gets the first option of
 *  its policy that is not stated; NULL: none. @return : ES_OK; as es_evict_parse(),
 *  es_kv_format_parse(). */
es_status es_plan_unit_parse(const es_plan_unit *unit, es_plan_mode mode, es_cache_unit *out,
                             const char **missing, es_error *err);

/*! es_plan_units() : the units of a cache, out (layers, kv_heads), of blocks of any length. A unit
 *  of policy "full" has none. @return : ES_OK; as es_plan_load(). */
es_status es_plan_units(const es_plan *plan, es_cache_unit *out, es_error *err);

/*! es_plan_check_weights() : fails unless the model is the checkpoint that the plan was made for. A
 *  plan without a fingerprint fits any. @return : ES_OK; ES_E_SHAPE (plan.fingerprint); as
 *  es_model_fingerprint(). */
es_status es_plan_check_weights(const es_plan *plan, const es_model *model, const es_exec *exec,
                                es_error *err);

#endif
