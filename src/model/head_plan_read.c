/* SPDX-License-Identifier: Apache-2.0 */
/* head_plan_read.c : plans of ideal mode from files, versions 1 and 2. Version 1 may leave parts of
 * policies out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/head_plan.h"
#include "model/plan_reading.h"
#include "policy/policy.h"

/* ---- heads ---- */

/* One head as it stands in the file. */
typedef struct said {
    int64_t head, group, keys, window, sinks, random, span, pool;
    char policy[ES_PLAN_WORD], correction[ES_PLAN_WORD];
    bool with_replacement;
    double risk;
} said;

#define SAID(member) offsetof(said, member)
static const es_plan_field head_fields[] = {
    {"head", ES_PLAN_WHOLE, SAID(head), 0, ES_PLAN_UNITS, "plan.heads", false, NULL},
    {"group", ES_PLAN_WHOLE, SAID(group), 0, ES_PLAN_UNITS, "plan.group", false, NULL},
    {"policy", ES_PLAN_CHARS, SAID(policy), 0, ES_PLAN_WORD, NULL, false, NULL},
    {"keys", ES_PLAN_WHOLE, SAID(keys), 1, ES_PLAN_CONTEXT, "plan.keys", false, NULL},
    {"window", ES_PLAN_WHOLE, SAID(window), 0, ES_PLAN_CONTEXT, "plan.keys", true, NULL},
    {"sinks", ES_PLAN_WHOLE, SAID(sinks), 0, ES_PLAN_CONTEXT, "plan.keys", true, NULL},
    {"random", ES_PLAN_WHOLE, SAID(random), 0, ES_PLAN_CONTEXT, "plan.keys", true, NULL},
    {"span", ES_PLAN_WHOLE, SAID(span), 1, ES_PLAN_CONTEXT, "plan.keys", true, NULL},
    {"pool", ES_PLAN_WHOLE, SAID(pool), 0, ES_POLICY_MOST_POOL, "plan.keys", true, NULL},
    {"correction", ES_PLAN_CHARS, SAID(correction), 0, ES_PLAN_WORD, NULL, false, NULL},
    {"with_replacement", ES_PLAN_TRUTH, SAID(with_replacement), 0, 0, NULL, true, NULL},
    {"risk", ES_PLAN_RISK, SAID(risk), 0, 1e300, NULL, true, NULL},
    {0}};

/* Fails with the list of all policies as the hint. */
static es_status unknown_policy(es_plan_reading *r, size_t at, const char *name)
{
    char hint[sizeof r->j.err->hint] = "there are", place[ES_PLAN_WORD];
    for (int64_t i = 0; es_policy_at(i); i++) {
        const size_t used = strlen(hint);
        snprintf(hint + used, sizeof hint - used, "%s %s", i ? "," : "",
                 es_policy_name(es_policy_at(i)));
    }
    return es_plan_fail(r, (int64_t)at, "plan.policy", hint, "%sthere is no policy \"%s\"",
                        es_plan_where(r, place), name);
}

/* Reads the correction. A policy that draws no keys at random has none: only "none" is accepted. */
static es_status take_correction(es_plan_reading *r, size_t at, const char *word,
                                 es_policy_spec *spec)
{
    char place[ES_PLAN_WORD];
    const bool chance = es_policy_parts(spec->policy) & ES_PART_CORRECTION;
    if (strcmp(word, "own") == 0 || (strcmp(word, "none") == 0 && !chance))
        spec->correction = ES_CORRECTION_OWN;
    else if (strcmp(word, "none") == 0)
        spec->correction = ES_CORRECTION_NONE;
    else if (strcmp(word, "inverse") == 0)
        spec->correction = ES_CORRECTION_INVERSE;
    else
        return es_plan_fail(r, (int64_t)at, "plan.correction", "own, none or inverse",
                            "%sthere is no correction \"%s\"", es_plan_where(r, place), word);
    return ES_OK;
}

/* Turns what the file states about a head into its policy. The number of keys of "full" is set at
 * the end. */
static es_status understand_head(es_plan_reading *r, size_t at, const said *s, es_plan_head *out)
{
    const es_policy *policy = es_policy_find(s->policy);
    if (!policy)
        return unknown_policy(r, at, s->policy);
    es_policy_spec_init(&out->spec, policy == es_policy_at(0) ? NULL : policy);
    out->spec.keys = s->keys;
    out->spec.window = s->window;
    out->spec.sinks = s->sinks;
    out->spec.random = s->random;
    out->spec.span = s->span;
    out->spec.pool = s->pool;
    out->spec.with_replacement = s->with_replacement;
    out->risk = s->risk;
    return take_correction(r, at, s->correction, &out->spec);
}

/* Reads one head. Parts of its policy that are not stated keep the defaults of the policy. */
static es_status take_head(es_plan_reading *r)
{
    said s = {.window = ES_POLICY_UNSET,
              .sinks = ES_POLICY_UNSET,
              .random = ES_POLICY_UNSET,
              .span = ES_POLICY_UNSET,
              .pool = ES_POLICY_UNSET,
              .risk = NAN};
    const size_t at = (es_json_kind(&r->j), r->j.at);
    ES_TRY(es_plan_object(r, head_fields, &s));
    if (s.head != r->in_layer)
        return es_plan_fail(r, (int64_t)at, "plan.heads", "list every head once, in order",
                            "layer %lld: found head %lld instead of head %lld",
                            (long long)r->layers, (long long)s.head, (long long)r->in_layer);
    ES_TRY(ES_MEM_GROW(r->plan->budget, r->plan->head, &r->capacity, r->count + 1,
                       "heads of a plan", r->j.err));
    ES_TRY(understand_head(r, at, &s, &r->plan->head[r->count]));
    return es_plan_place(r, at, s.group);
}

/* Reads the heads of one layer, in order. */
static es_status take_heads(es_plan_reading *r) { return es_plan_heads(r, take_head); }

static const es_plan_field layer_fields[] = {
    {"layer", ES_PLAN_WHOLE, offsetof(es_plan_reading, layer), 0, ES_PLAN_UNITS, "plan.layers",
     false, NULL},
    {"window", ES_PLAN_WHOLE, offsetof(es_plan_reading, window), 0, 1 << 30, NULL, true, NULL},
    {"heads", ES_PLAN_OBJECT, 0, 0, 0, NULL, false, take_heads},
    {0}};

/* Reads all layers, in order. */
static es_status take_layers(es_plan_reading *r) { return es_plan_layers(r, layer_fields); }

/* ---- the whole ---- */

#define PLAN(member) offsetof(es_plan, member)
static const es_plan_field plan_fields[] = {
    {"schema", ES_PLAN_OBJECT, 0, 0, 0, NULL, false, es_plan_skip},
    {"model", ES_PLAN_OBJECT, 0, 0, 0, NULL, false, es_plan_take_model},
    {"context", ES_PLAN_WHOLE, PLAN(context), 1, ES_PLAN_CONTEXT, "plan.context", false, NULL},
    {"text", ES_PLAN_CHARS, PLAN(text), 0, ES_PLAN_TEXT, NULL, true, NULL},
    {"note", ES_PLAN_CHARS, PLAN(note), 0, ES_PLAN_NOTE, NULL, true, NULL},
    {"keys_kept", ES_PLAN_COUNT, PLAN(keys_kept), 0, 9e15, "plan.total", false, NULL},
    {"keys_all", ES_PLAN_COUNT, PLAN(keys_all), 0, 9e15, "plan.total", false, NULL},
    {"layers", ES_PLAN_OBJECT, 0, 0, 0, NULL, false, take_layers},
    {0}};

/* Checks what each head states about its group, and the number of keys where it keeps all. */
static es_status check_heads(es_plan_reading *r)
{
    es_plan *p = r->plan;
    const int64_t size = p->heads / p->kv_heads;
    for (int64_t i = 0; i < r->count; i++) {
        es_policy_spec *spec = &p->head[i].spec;
        const long long l = i / p->heads, h = i % p->heads;
        const int64_t sees = es_plan_sees(p, l, p->context);
        if (r->group[i] != h / size)
            return es_plan_fail(r, r->at[i], "plan.group", "a group is head / (heads / kv_heads)",
                                "layer %lld, head %lld: group is %lld and should be %lld", l, h,
                                (long long)r->group[i], (long long)(h / size));
        if (spec->policy)
            continue;
        if (spec->keys != sees)
            return es_plan_fail(r, r->at[i], "plan.keys", "policy full keeps every key",
                                "layer %lld, head %lld: full keeps %lld keys, but keys is %lld", l,
                                h, (long long)sees, (long long)spec->keys);
        spec->keys = ES_POLICY_UNSET;
    }
    return ES_OK;
}

/* Fails unless the stated totals are the sums over heads: otherwise the file was edited by hand
 * and one of the two is wrong. */
static es_status check_totals(es_plan_reading *r)
{
    es_plan *p = r->plan;
    const double kept = p->keys_kept, all = p->keys_all;
    es_plan_count(p);
    ES_TRY(es_plan_check_total(r, "keys_kept", kept, p->keys_kept));
    return es_plan_check_total(r, "keys_all", all, p->keys_all);
}

/* Returns the key of the first part in which two policies differ. */
static const char *part_that_differs(const es_policy_spec *a, const es_policy_spec *b)
{
    return a->sinks != b->sinks     ? "sinks"
           : a->window != b->window ? "window"
           : a->random != b->random ? "random"
           : a->span != b->span     ? "span"
           : a->pool != b->pool     ? "pool"
                                    : "correction \"none\" or \"inverse\"";
}

/* Writes every number of the policy into its spec, so that a plan does not depend on default
 * values when it runs. */
static es_status complete_heads(es_plan_reading *r)
{
    const es_plan *p = r->plan;
    for (int64_t i = 0; i < r->count; i++) {
        es_policy_spec *spec = &p->head[i].spec;
        const es_policy_spec read = *spec;
        es_policy_spec_fit(spec, p->causal);
        if (r->version == 2 && !es_policy_spec_same(&read, spec))
            return es_plan_fail(r, r->at[i], "plan.missing", es_plan_hint,
                                "layer %lld, head %lld: missing %s of policy %s",
                                (long long)(i / p->heads), (long long)(i % p->heads),
                                part_that_differs(&read, spec), es_policy_name(spec->policy));
    }
    return ES_OK;
}

es_status es_plan_read_ideal(es_plan_reading *r)
{
    ES_TRY(es_plan_object(r, plan_fields, r->plan));
    ES_TRY(es_json_end(&r->j));
    ES_TRY(es_plan_check_counts(r));
    ES_TRY(check_heads(r));
    ES_TRY(es_plan_obey(r->plan, (es_plan_origin){r->j.file, r->at}, r->j.err));
    ES_TRY(complete_heads(r));
    return check_totals(r);
}
