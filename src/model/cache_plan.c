/* SPDX-License-Identifier: Apache-2.0 */
/* cache_plan.c : plans of caches in memory: new ones, their totals, what they must obey, and what a
 * block is given. cache_plan_read.c and head_plan_write.c are their files. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/head_plan.h"
#include "model/plan.h"

const char *es_plan_mode_name(es_plan_mode mode)
{
    static const char *const names[] = {"ideal", "prompt", "decode", "none"};
    return names[mode];
}

es_evict_mode es_plan_evicts(es_plan_mode mode)
{
    return mode == ES_PLAN_PROMPT   ? ES_EVICT_PROMPT
           : mode == ES_PLAN_DECODE ? ES_EVICT_DECODE
                                    : ES_EVICT_NOTHING;
}

/* ---- making one ---- */

int64_t es_plan_sees_all(const es_plan *plan, int64_t layer)
{
    return es_plan_sees(plan, layer, plan->mode == ES_PLAN_PROMPT ? plan->prompt : plan->context);
}

void es_plan_set_unit(es_plan *plan, int64_t layer, int64_t kv_head, const es_cache_unit *unit,
                      double risk)
{
    es_plan_unit *out = &plan->unit[layer * plan->kv_heads + kv_head];
    es_evict_spec spec = es_evict_resolve(&unit->evict, es_plan_evicts(plan->mode));
    const int64_t sees = es_plan_sees_all(plan, layer);
    spec.beta = ES_EVICT_UNSET; /* the number of keys says it */
    if (spec.policy && spec.keys >= sees)
        es_evict_init(&spec, NULL);
    es_evict_write(&spec, out->policy, sizeof out->policy);
    out->keys = spec.policy ? spec.keys : sees;
    es_kv_format_name(&unit->k, out->k_type, sizeof out->k_type);
    es_kv_format_name(&unit->v, out->v_type, sizeof out->v_type);
    out->risk = risk;
}

/* ---- units from texts ---- */

es_status es_plan_unit_parse(const es_plan_unit *unit, es_plan_mode mode, es_cache_unit *out,
                             const char **missing, es_error *err)
{
    *out = (es_cache_unit){0};
    *missing = NULL;
    es_evict_init(&out->evict, NULL);
    if (strcmp(unit->policy, "full") != 0) {
        ES_TRY(es_evict_parse(unit->policy, &out->evict, err));
        out->evict.keys = unit->keys;
        *missing = es_evict_missing(&out->evict);
        out->evict = es_evict_resolve(&out->evict, es_plan_evicts(mode));
    }
    ES_TRY(es_kv_format_parse(unit->k_type, &out->k, err));
    return es_kv_format_parse(unit->v_type, &out->v, err);
}

es_status es_plan_units(const es_plan *plan, es_cache_unit *out, es_error *err)
{
    const char *missing;
    for (int64_t i = 0; i < plan->layers * plan->kv_heads; i++)
        ES_TRY(es_plan_unit_parse(&plan->unit[i], plan->mode, &out[i], &missing, err));
    return ES_OK;
}

/* ---- counting ---- */

/* Returns the bytes of a key, or a value, in a number type; 0 if there is no such type. */
static double row_bytes(const es_plan *plan, const char *type, es_kv_side side)
{
    es_kv_format format;
    es_error ignored;
    if (es_kv_format_parse(type, &format, &ignored) != ES_OK)
        return 0.0;
    return es_kv_format_bits(&format, side, plan->head_dim) * (double)plan->head_dim / 8.0;
}

/* Returns the bytes of a key and its value. */
static double pair_bytes(const es_plan *plan, const char *k_type, const char *v_type)
{
    return row_bytes(plan, k_type, ES_KV_KEYS) + row_bytes(plan, v_type, ES_KV_VALUES);
}

void es_plan_count_cache(es_plan *plan)
{
    const double before = pair_bytes(plan, plan->cache, plan->cache);
    plan->keys_kept = plan->keys_all = plan->bytes_before = plan->bytes_after = 0.0;
    for (int64_t i = 0; i < plan->layers * plan->kv_heads; i++) {
        const es_plan_unit *unit = &plan->unit[i];
        const double sees = (double)es_plan_sees_all(plan, i / plan->kv_heads);
        plan->keys_all += sees;
        plan->keys_kept += (double)unit->keys;
        plan->bytes_before += sees * before;
        plan->bytes_after += (double)unit->keys * pair_bytes(plan, unit->k_type, unit->v_type);
    }
}

/* ---- what a plan must obey ---- */

/* A unit that is checked. */
typedef struct checking {
    const es_plan *plan;
    es_plan_origin origin;
    int64_t i;
    es_error *err;
} checking;

static es_status fail_unit(const checking *c, es_status code, const char *rule, const char *hint,
                           const char *fmt, ...) ES_PRINTF(5, 6);

/* Fails with layer and key-value head in the message, and the place in the file if the plan was
 * read from one. */
static es_status fail_unit(const checking *c, es_status code, const char *rule, const char *hint,
                           const char *fmt, ...)
{
    char what[sizeof c->err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return es_fail_file(c->err, code, c->origin.file, c->origin.at ? c->origin.at[c->i] : -1, rule,
                        hint, "layer %lld, key-value head %lld: %s",
                        (long long)(c->i / c->plan->kv_heads),
                        (long long)(c->i % c->plan->kv_heads), what);
}

/* Fails unless the number of keys is one that the unit can keep. */
static es_status check_keys(const checking *c, const es_cache_unit *unit)
{
    const es_plan_unit *u = &c->plan->unit[c->i];
    const int64_t sees = es_plan_sees_all(c->plan, c->i / c->plan->kv_heads);
    if (!unit->evict.policy && u->keys != sees)
        return fail_unit(c, ES_E_FORMAT, "plan.keys", "policy full keeps every key",
                         "full keeps %lld keys, but keys is %lld", (long long)sees,
                         (long long)u->keys);
    if (u->keys < 1 || u->keys > sees)
        return fail_unit(
            c, ES_E_FORMAT, "plan.keys", "use 1 to the number of keys that a query sees",
            "%lld keys of the %lld %s", (long long)u->keys, (long long)sees,
            c->plan->mode == ES_PLAN_PROMPT ? "of the prompt" : "that a query sees at the context");
    if (u->risk < 0.0 || isinf(u->risk))
        return fail_unit(c, ES_E_FORMAT, "plan.range", "a mean square, or null", "a risk of %g",
                         u->risk);
    return ES_OK;
}

/* Fails unless a cache of the plan's mode can run the policy. */
static es_status check_policy(const checking *c, const es_cache_unit *unit, const char *missing)
{
    const es_evict_spec *spec = &unit->evict;
    es_error why;
    if (!spec->policy)
        return ES_OK;
    if (missing && c->origin.file)
        return fail_unit(c, ES_E_FORMAT, "plan.missing", "state every option of a policy",
                         "missing option %s of policy %s", missing, es_eviction_name(spec->policy));
    if (c->plan->mode == ES_PLAN_NONE)
        return fail_unit(c, ES_E_FORMAT, "plan.mode", "use full, or mode prompt or decode",
                         "policy %s drops keys, but the mode is none",
                         es_eviction_name(spec->policy));
    if (es_eviction_full(spec->policy))
        return fail_unit(c, ES_E_UNSUPPORTED, "plan.policy", "use another policy",
                         "policy %s looks at tokens after the prompt; no cache can",
                         es_eviction_name(spec->policy));
    if (spec->beta != ES_EVICT_UNSET)
        return fail_unit(c, ES_E_FORMAT, "plan.policy", "remove it, and state keys",
                         "option beta: numbers of keys by layer are those that the plan states");
    if (es_evict_check(spec, es_plan_evicts(c->plan->mode), &why) != ES_OK)
        return fail_unit(c, ES_E_FORMAT, "plan.policy", why.hint, "%s", why.message);
    return ES_OK;
}

/* Fails where number types and eviction are not defined together. */
static es_status check_types(const checking *c, const es_cache_unit *unit)
{
    if (c->plan->mode == ES_PLAN_NONE ||
        (!es_kv_format_by_query(&unit->k) && !es_kv_format_by_query(&unit->v)))
        return ES_OK;
    return fail_unit(c, ES_E_UNSUPPORTED, "plan.types", "use another type, or mode none",
                     "kivi types and eviction at the same time are not defined");
}

/* Fails where units of a layer choose their keys together but differ. */
static es_status check_layer(const checking *c, const es_cache_unit *first,
                             const es_cache_unit *unit)
{
    const es_evict_mode mode = es_plan_evicts(c->plan->mode);
    const bool own = es_evict_together(&unit->evict, mode);
    const es_evict_spec *spec = own ? &unit->evict : &first->evict;
    if (!es_evict_together(spec, mode) || es_evict_same(&first->evict, &unit->evict))
        return ES_OK;
    return fail_unit(c, ES_E_FORMAT, "plan.group",
                     "give all key-value heads of the layer the same policy and number of keys",
                     "heads of the layer choose their keys together by %s, but this one has "
                     "another policy or number of keys than head 0",
                     es_eviction_name(spec->policy));
}

/* Checks one unit; `first` is the first of its layer. */
static es_status check_unit(const checking *c, es_cache_unit *first)
{
    const es_plan_unit *u = &c->plan->unit[c->i];
    es_cache_unit unit;
    const char *missing;
    es_error why;
    if (es_plan_unit_parse(u, c->plan->mode, &unit, &missing, &why) != ES_OK)
        return fail_unit(c, ES_E_FORMAT,
                         strncmp(why.rule, "evict", 5) == 0 ? "plan.policy" : "plan.types",
                         why.hint, "%s", why.message);
    ES_TRY(check_policy(c, &unit, missing));
    ES_TRY(check_keys(c, &unit));
    ES_TRY(check_types(c, &unit));
    if (c->i % c->plan->kv_heads == 0)
        *first = unit;
    return check_layer(c, first, &unit);
}

/* Checks what is said about all units. */
static es_status check_whole(const es_plan *plan, es_plan_origin origin, es_error *err)
{
    const bool prompts = plan->mode == ES_PLAN_PROMPT;
    es_kv_format format;
    es_error why;
    if (!plan->causal)
        return es_fail_file(err, ES_E_UNSUPPORTED, origin.file, -1, "plan.causal", "use a decoder",
                            "an encoder has no cache of keys and values");
    if (prompts && (plan->prompt < 1 || plan->prompt >= plan->context))
        return es_fail_file(err, ES_E_FORMAT, origin.file, -1, "plan.prompt",
                            "a prompt is shorter than the context",
                            "a prompt of %lld of %lld tokens", (long long)plan->prompt,
                            (long long)plan->context);
    if (!prompts && plan->prompt)
        return es_fail_file(err, ES_E_FORMAT, origin.file, -1, "plan.prompt", "remove it",
                            "only plans of mode prompt have a prompt; this one has mode %s",
                            es_plan_mode_name(plan->mode));
    if (es_kv_format_parse(plan->cache, &format, &why) != ES_OK)
        return es_fail_file(err, ES_E_FORMAT, origin.file, -1, "plan.types", why.hint, "cache: %s",
                            why.message);
    return ES_OK;
}

es_status es_plan_obey_cache(const es_plan *plan, es_plan_origin origin, es_error *err)
{
    es_cache_unit first = {0};
    ES_TRY(check_whole(plan, origin, err));
    for (int64_t i = 0; i < plan->layers * plan->kv_heads; i++)
        ES_TRY(check_unit(&(checking){plan, origin, i, err}, &first));
    return ES_OK;
}

/* ---- is it of these blocks? ---- */

/* Returns the fewest keys of a unit that drops some; 0: none does. */
static int64_t fewest_keys(const es_plan *plan)
{
    int64_t fewest = 0;
    for (int64_t i = 0; i < plan->layers * plan->kv_heads; i++) {
        const es_plan_unit *unit = &plan->unit[i];
        const bool drops = strcmp(unit->policy, "full") != 0;
        if (drops && (fewest == 0 || unit->keys < fewest))
            fewest = unit->keys;
    }
    return fewest;
}

es_status es_plan_check_cache_context(const es_plan *plan, int64_t n, es_error *err)
{
    const int64_t fewest = fewest_keys(plan);
    if (plan->mode == ES_PLAN_PROMPT && n <= plan->prompt)
        return es_fail(err, ES_E_SHAPE, "plan.context", "use longer blocks",
                       "the plan is for a prompt of %lld tokens, but blocks have %lld",
                       (long long)plan->prompt, (long long)n);
    if (plan->mode == ES_PLAN_DECODE && fewest && n <= fewest)
        return es_fail(err, ES_E_SHAPE, "plan.context",
                       "use longer blocks, or a plan that was made for short ones",
                       "every key-value head of the plan holds at least %lld keys, but blocks have "
                       "%lld tokens: no key would be dropped",
                       (long long)fewest, (long long)n);
    return ES_OK;
}
