/* SPDX-License-Identifier: Apache-2.0 */
/* head_plan_read.c : plans from files: strict JSON.
 *
 * Objects are tables of fields: which keys there are, what stands there, and how large it may be.
 * A key that no table has is refused, for a plan that is half understood would be run as another.
 * Keys may come in any order, so what depends on several of them is checked at the end. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/json.h"
#include "model/head_plan.h"
#include "model/plan.h"
#include "policy/policy.h"
#include "store/file.h"

enum { WORD_MOST = 64, FIELDS_MOST = 16, NONE = -1 };

#define FIRST_SCHEMA "esscher-plan/1" /* parts of policies may be left out */
static const char HINT[] = "plan files are described in docs/FILES.md";

/* ---- reading: tables of fields ---- */

typedef struct reading reading;

typedef enum kind {
    WHOLE, /* int64_t */
    RISK,  /* double; null is NaN */
    TOTAL, /* double, a whole number */
    WORD,  /* char[WORD_MOST] */
    TEXT,  /* char[ES_PLAN_TEXT] */
    NOTE,  /* char[ES_PLAN_NOTE] */
    TRUTH, /* bool */
    OBJECT /* whatever `take` makes of it */
} kind;

typedef struct field {
    const char *key;
    kind kind;
    size_t at; /* in the struct that is filled */
    double min, max;
    const char *rule; /* of a number out of range; NULL: plan.range */
    bool optional;
    es_status (*take)(reading *r);
} field;

/* One head as it stands in the file. */
typedef struct said {
    int64_t head, group, keys, window, sinks, random, span, pool;
    char policy[WORD_MOST], correction[WORD_MOST];
    bool with_replacement;
    double risk;
} said;

/* A file being read. Heads are gathered as they come, at most as many as the file has bytes for. */
struct reading {
    es_json j;
    bool complete; /* its version leaves no part of a policy out */
    es_plan *plan;
    int64_t count, room; /* heads so far */
    int64_t *at, *group; /* (count) where they stand, which group they say */
    int64_t room_at, room_group;
    int64_t layers, in_layer; /* layers so far; heads of the present one */
    int64_t layer, window;    /* the numbers it says; window NONE: it says none */
    int64_t room_windows;
};

static es_status fail_at(reading *r, int64_t at, const char *rule, const char *hint,
                         const char *fmt, ...) ES_PRINTF(5, 6);

/* Fails with a byte of the file. */
static es_status fail_at(reading *r, int64_t at, const char *rule, const char *hint,
                         const char *fmt, ...)
{
    char what[sizeof r->j.err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, at, rule, hint, "%s", what);
}

/* Writes "layer 3, head 2: ", or as much of it as is known. */
static const char *where(const reading *r, char out[WORD_MOST])
{
    out[0] = '\0';
    if (r->in_layer >= 0)
        snprintf(out, WORD_MOST, "layer %lld, head %lld: ", (long long)r->layers,
                 (long long)r->in_layer);
    return out;
}

/* Fails because of a number out of range. */
static es_status bad_number(reading *r, size_t at, const field *f, const char *is)
{
    char place[WORD_MOST];
    return fail_at(r, (int64_t)at, f->rule ? f->rule : "plan.range", HINT,
                   "%s%s is %s; it should be a %snumber from %.15g to %.15g", where(r, place),
                   f->key, is, f->kind == RISK ? "" : "whole ", f->min, f->max);
}

/* Reads a number of a plan. The risk of a head may be null: not known. */
static es_status take_number(reading *r, const field *f, double *out)
{
    const unsigned char first = es_json_kind(&r->j);
    const size_t at = r->j.at;
    if (first == 'n' && f->kind == RISK) {
        *out = NAN;
        return es_json_skip(&r->j);
    }
    if (first != '-' && (first < '0' || first > '9'))
        return bad_number(r, at, f, first == '"' ? "text" : first == 'n' ? "null" : "no number");
    ES_TRY(es_json_number(&r->j, out));
    const bool whole = f->kind == RISK || (fabs(*out) <= 9e15 && *out == floor(*out));
    if (!whole || !(*out >= f->min && *out <= f->max))
        return bad_number(r, at, f,
                          *out < 0    ? "negative"
                          : *out == 0 ? "0"
                          : !whole    ? "not whole"
                                      : "too large");
    return ES_OK;
}

/* Reads a string, cut at size - 1 bytes. */
static es_status take_text(reading *r, char *out, size_t size)
{
    es_json_text text;
    ES_TRY(es_json_string(&r->j, &text));
    es_json_copy(&text, out, size);
    return ES_OK;
}

/* Reads one value by the kind of its field. */
static es_status take_value(reading *r, const field *f, void *into)
{
    void *out = (char *)into + f->at;
    double number;
    switch (f->kind) {
    case WHOLE:
        ES_TRY(take_number(r, f, &number));
        *(int64_t *)out = (int64_t)number;
        return ES_OK;
    case RISK:
    case TOTAL:
        return take_number(r, f, out);
    case WORD:
        return take_text(r, out, WORD_MOST);
    case TEXT:
        return take_text(r, out, ES_PLAN_TEXT);
    case NOTE:
        return take_text(r, out, ES_PLAN_NOTE);
    case TRUTH:
        return es_json_boolean(&r->j, out);
    default:
        return f->take(r);
    }
}

/* Fails because of a key that is not known. */
static es_status unknown_key(reading *r, const es_json_text *key)
{
    char word[WORD_MOST], place[WORD_MOST];
    es_json_copy(key, word, sizeof word);
    return fail_at(r, (int64_t)key->at, "plan.unknown", HINT, "%sunknown key \"%s\"",
                   where(r, place), word);
}

/* Reads one object by its table of fields. */
static es_status take_object(reading *r, const field *fields, void *into)
{
    es_json_list list;
    es_json_text key;
    bool seen[FIELDS_MOST] = {0};
    char place[WORD_MOST];
    const size_t begin = (es_json_kind(&r->j), r->j.at);
    ES_TRY(es_json_begin(&r->j, '{', &list));
    for (;;) {
        int which = 0;
        ES_TRY(es_json_next(&r->j, &list, &key));
        if (list.done)
            break;
        while (fields[which].key && !es_json_same(&key, fields[which].key))
            which++;
        if (!fields[which].key)
            return unknown_key(r, &key);
        if (seen[which])
            return fail_at(r, (int64_t)key.at, "plan.duplicate", "keep one of them",
                           "%sduplicate key %s", where(r, place), fields[which].key);
        seen[which] = true;
        ES_TRY(take_value(r, &fields[which], into));
    }
    for (int i = 0; fields[i].key; i++)
        if (!seen[i] && !fields[i].optional)
            return fail_at(r, (int64_t)begin, "plan.missing", HINT, "%smissing %s", where(r, place),
                           fields[i].key);
    return ES_OK;
}

/* ---- reading: heads ---- */

#define SAID(member) offsetof(said, member)
static const field head_fields[] = {
    {"head", WHOLE, SAID(head), 0, ES_PLAN_UNITS, "plan.heads", false, NULL},
    {"group", WHOLE, SAID(group), 0, ES_PLAN_UNITS, "plan.group", false, NULL},
    {"policy", WORD, SAID(policy), 0, 0, NULL, false, NULL},
    {"keys", WHOLE, SAID(keys), 1, ES_PLAN_CONTEXT, "plan.keys", false, NULL},
    {"window", WHOLE, SAID(window), 0, ES_PLAN_CONTEXT, "plan.keys", true, NULL},
    {"sinks", WHOLE, SAID(sinks), 0, ES_PLAN_CONTEXT, "plan.keys", true, NULL},
    {"random", WHOLE, SAID(random), 0, ES_PLAN_CONTEXT, "plan.keys", true, NULL},
    {"span", WHOLE, SAID(span), 1, ES_PLAN_CONTEXT, "plan.keys", true, NULL},
    {"pool", WHOLE, SAID(pool), 0, ES_POLICY_MOST_POOL, "plan.keys", true, NULL},
    {"correction", WORD, SAID(correction), 0, 0, NULL, false, NULL},
    {"with_replacement", TRUTH, SAID(with_replacement), 0, 0, NULL, true, NULL},
    {"risk", RISK, SAID(risk), 0, 1e300, NULL, true, NULL},
    {0}};

/* Fails with the list of all policies as the hint. */
static es_status unknown_policy(reading *r, size_t at, const char *name)
{
    char hint[sizeof r->j.err->hint] = "there are", place[WORD_MOST];
    for (int64_t i = 0; es_policy_at(i); i++) {
        const size_t used = strlen(hint);
        snprintf(hint + used, sizeof hint - used, "%s %s", i ? "," : "",
                 es_policy_name(es_policy_at(i)));
    }
    return fail_at(r, (int64_t)at, "plan.policy", hint, "%sthere is no policy \"%s\"",
                   where(r, place), name);
}

/* Reads the correction. A policy that draws no keys at random has none: only "none" is accepted. */
static es_status take_correction(reading *r, size_t at, const char *word, es_policy_spec *spec)
{
    char place[WORD_MOST];
    const bool chance = es_policy_parts(spec->policy) & ES_PART_CORRECTION;
    if (strcmp(word, "own") == 0 || (strcmp(word, "none") == 0 && !chance))
        spec->correction = ES_CORRECTION_OWN;
    else if (strcmp(word, "none") == 0)
        spec->correction = ES_CORRECTION_NONE;
    else if (strcmp(word, "inverse") == 0)
        spec->correction = ES_CORRECTION_INVERSE;
    else
        return fail_at(r, (int64_t)at, "plan.correction", "own, none or inverse",
                       "%sthere is no correction \"%s\"", where(r, place), word);
    return ES_OK;
}

/* Turns what the file states about a head into its policy. The number of keys of "full" is set at
 * the end. */
static es_status understand_head(reading *r, size_t at, const said *s, es_plan_head *out)
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

/* Makes space for another head. */
static es_status make_room(reading *r)
{
    es_mem_limit *b = r->plan->budget;
    const int64_t needed = r->count + 1;
    es_error *err = r->j.err;
    ES_TRY(ES_MEM_GROW(b, r->plan->head, &r->room, needed, "heads of a plan", err));
    ES_TRY(ES_MEM_GROW(b, r->at, &r->room_at, needed, "places", err));
    return ES_MEM_GROW(b, r->group, &r->room_group, needed, "groups", err);
}

/* Reads one head. Parts of its policy that are not stated keep the defaults of the policy. */
static es_status take_head(reading *r)
{
    said s = {.window = ES_POLICY_UNSET,
              .sinks = ES_POLICY_UNSET,
              .random = ES_POLICY_UNSET,
              .span = ES_POLICY_UNSET,
              .pool = ES_POLICY_UNSET,
              .risk = NAN};
    const size_t at = (es_json_kind(&r->j), r->j.at);
    ES_TRY(take_object(r, head_fields, &s));
    if (s.head != r->in_layer)
        return fail_at(r, (int64_t)at, "plan.heads", "list every head once, in order",
                       "layer %lld: found head %lld instead of head %lld", (long long)r->layers,
                       (long long)s.head, (long long)r->in_layer);
    ES_TRY(make_room(r));
    ES_TRY(understand_head(r, at, &s, &r->plan->head[r->count]));
    r->at[r->count] = (int64_t)at;
    r->group[r->count++] = s.group;
    return ES_OK;
}

/* ---- reading: layers ---- */

/* Reads the heads of one layer, in order. */
static es_status take_heads(reading *r)
{
    es_json_list list;
    ES_TRY(es_json_begin(&r->j, '[', &list));
    for (r->in_layer = 0;; r->in_layer++) {
        ES_TRY(es_json_next(&r->j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(take_head(r));
    }
}

static const field layer_fields[] = {
    {"layer", WHOLE, offsetof(reading, layer), 0, ES_PLAN_UNITS, "plan.layers", false, NULL},
    {"window", WHOLE, offsetof(reading, window), 0, 1 << 30, NULL, true, NULL},
    {"heads", OBJECT, 0, 0, 0, NULL, false, take_heads},
    {0}};

/* Reads one layer. All layers have as many heads as the first; their order gives their numbers. */
static es_status take_layer(reading *r)
{
    const int64_t before = r->count;
    const size_t at = (es_json_kind(&r->j), r->j.at);
    r->in_layer = -1;
    r->window = NONE;
    ES_TRY(take_object(r, layer_fields, r));
    r->in_layer = -1;
    if (r->layer != r->layers)
        return fail_at(r, (int64_t)at, "plan.layers", "list every layer once, in order",
                       "found layer %lld instead of layer %lld", (long long)r->layer,
                       (long long)r->layers);
    const int64_t first = r->layers ? before / r->layers : r->count;
    if (r->count == before || r->count - before != first)
        return fail_at(r, (int64_t)at, "plan.heads", "list every head once, in order",
                       "layer %lld has %lld heads, layer 0 %lld", (long long)r->layer,
                       (long long)(r->count - before), (long long)first);
    ES_TRY(ES_MEM_GROW(r->plan->budget, r->plan->windows, &r->room_windows, r->layers + 1,
                       "layers of a plan", r->j.err));
    r->plan->windows[r->layers++] = r->window;
    return ES_OK;
}

/* Reads all layers, in order. */
static es_status take_layers(reading *r)
{
    es_json_list list;
    ES_TRY(es_json_begin(&r->j, '[', &list));
    for (;;) {
        ES_TRY(es_json_next(&r->j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(take_layer(r));
    }
}

/* ---- reading: the whole ---- */

#define PLAN(member) offsetof(es_plan, member)
static const field model_fields[] = {
    {"model_type", WORD, PLAN(model_type), 0, 0, NULL, false, NULL},
    {"layers", WHOLE, PLAN(layers), 1, ES_PLAN_UNITS, NULL, false, NULL},
    {"heads", WHOLE, PLAN(heads), 1, ES_PLAN_UNITS, NULL, false, NULL},
    {"kv_heads", WHOLE, PLAN(kv_heads), 1, ES_PLAN_UNITS, NULL, false, NULL},
    {"head_dim", WHOLE, PLAN(head_dim), 1, 1 << 20, NULL, false, NULL},
    {"hidden", WHOLE, PLAN(hidden), 1, 1 << 24, NULL, false, NULL},
    {"vocab", WHOLE, PLAN(vocab), 1, 1 << 30, NULL, false, NULL},
    {"window", WHOLE, PLAN(window), 0, 1 << 30, NULL, false, NULL},
    {"causal", TRUTH, PLAN(causal), 0, 0, NULL, false, NULL},
    {0}};

/* Reads what the plan states about the model. */
static es_status take_model(reading *r) { return take_object(r, model_fields, r->plan); }

/* Reads the schema. Plans of the first version lack some fields, which complete_heads() fills
 * in. */
static es_status take_schema(reading *r)
{
    const size_t at = (es_json_kind(&r->j), r->j.at);
    char schema[WORD_MOST];
    ES_TRY(take_text(r, schema, sizeof schema));
    r->complete = strcmp(schema, ES_PLAN_SCHEMA) == 0;
    if (r->complete || strcmp(schema, FIRST_SCHEMA) == 0)
        return ES_OK;
    return fail_at(r, (int64_t)at, "plan.schema",
                   "this program reads " FIRST_SCHEMA " and " ES_PLAN_SCHEMA,
                   "the schema is \"%s\"", schema);
}

static const field plan_fields[] = {
    {"schema", OBJECT, 0, 0, 0, NULL, false, take_schema},
    {"model", OBJECT, 0, 0, 0, NULL, false, take_model},
    {"context", WHOLE, PLAN(context), 1, ES_PLAN_CONTEXT, "plan.context", false, NULL},
    {"text", TEXT, PLAN(text), 0, 0, NULL, true, NULL},
    {"note", NOTE, PLAN(note), 0, 0, NULL, true, NULL},
    {"keys_kept", TOTAL, PLAN(keys_kept), 0, 9e15, "plan.total", false, NULL},
    {"keys_all", TOTAL, PLAN(keys_all), 0, 9e15, "plan.total", false, NULL},
    {"layers", OBJECT, 0, 0, 0, NULL, false, take_layers},
    {0}};

/* Fails unless every layer and head is listed and groups have equal sizes. */
static es_status check_counts(reading *r)
{
    const es_plan *p = r->plan;
    if (r->layers != p->layers)
        return fail_at(r, -1, "plan.layers", "list every layer once, in order",
                       "the model has %lld layers, but %lld are listed", (long long)p->layers,
                       (long long)r->layers);
    if (r->count != p->layers * p->heads)
        return fail_at(r, -1, "plan.heads", "list every head once, in order",
                       "the model has %lld heads in each layer, but %lld are listed",
                       (long long)p->heads, (long long)(r->count / r->layers));
    if (p->heads % p->kv_heads)
        return fail_at(r, -1, "plan.group", "all groups of heads must have the same size",
                       "%lld heads share the keys and values of %lld", (long long)p->heads,
                       (long long)p->kv_heads);
    return ES_OK;
}

/* Gives layers that state no window the model's. */
static void complete_windows(es_plan *p)
{
    for (int64_t l = 0; l < p->layers; l++)
        if (p->windows[l] == NONE)
            p->windows[l] = p->window;
}

/* Checks what each head states about its group, and the number of keys where it keeps all. */
static es_status check_heads(reading *r)
{
    es_plan *p = r->plan;
    const int64_t size = p->heads / p->kv_heads;
    for (int64_t i = 0; i < r->count; i++) {
        es_policy_spec *spec = &p->head[i].spec;
        const long long l = i / p->heads, h = i % p->heads;
        const int64_t sees = es_plan_sees(p, l, p->context);
        if (r->group[i] != h / size)
            return fail_at(r, r->at[i], "plan.group", "a group is head / (heads / kv_heads)",
                           "layer %lld, head %lld: group is %lld and should be %lld", l, h,
                           (long long)r->group[i], (long long)(h / size));
        if (spec->policy)
            continue;
        if (spec->keys != sees)
            return fail_at(r, r->at[i], "plan.keys", "policy full keeps every key",
                           "layer %lld, head %lld: full keeps %lld keys, but keys is %lld", l, h,
                           (long long)sees, (long long)spec->keys);
        spec->keys = ES_POLICY_UNSET;
    }
    return ES_OK;
}

/* Fails unless the stated totals are the sums over heads: otherwise the file was edited by hand
 * and one of the two is wrong. */
static es_status check_totals(reading *r)
{
    es_plan *p = r->plan;
    const double kept = p->keys_kept, all = p->keys_all;
    es_plan_count(p);
    if (kept != p->keys_kept || all != p->keys_all)
        return fail_at(r, -1, "plan.total", "was the file edited? Totals are sums over groups",
                       "%s is %.15g, but the heads add up to %.15g",
                       kept != p->keys_kept ? "keys_kept" : "keys_all",
                       kept != p->keys_kept ? kept : all,
                       kept != p->keys_kept ? p->keys_kept : p->keys_all);
    return ES_OK;
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
static es_status complete_heads(reading *r)
{
    const es_plan *p = r->plan;
    for (int64_t i = 0; i < r->count; i++) {
        es_policy_spec *spec = &p->head[i].spec;
        const es_policy_spec read = *spec;
        es_policy_spec_fit(spec, p->causal);
        if (r->complete && !es_policy_spec_same(&read, spec))
            return fail_at(r, r->at[i], "plan.missing", HINT,
                           "layer %lld, head %lld: missing %s of policy %s",
                           (long long)(i / p->heads), (long long)(i % p->heads),
                           part_that_differs(&read, spec), es_policy_name(spec->policy));
    }
    return ES_OK;
}

/* Reads a plan and checks everything that does not need the model. */
static es_status take_plan(reading *r)
{
    r->in_layer = -1;
    ES_TRY(take_object(r, plan_fields, r->plan));
    ES_TRY(es_json_end(&r->j));
    ES_TRY(check_counts(r));
    complete_windows(r->plan);
    ES_TRY(check_heads(r));
    ES_TRY(es_plan_obey(r->plan, (es_plan_origin){r->j.file, r->at}, r->j.err));
    ES_TRY(complete_heads(r));
    return check_totals(r);
}

es_status es_plan_parse(const void *text, size_t size, const char *file, es_mem_limit *budget,
                        es_plan **out, es_error *err)
{
    reading r = {.j = {.bytes = text, .end = size, .file = file, .rule = "plan", .err = err}};
    *out = NULL;
    ES_TRY(ES_MEM_NEW(budget, r.plan, 1, "a plan", err));
    r.plan->budget = budget;
    const es_status status = take_plan(&r);
    es_mem_free(budget, r.at);
    es_mem_free(budget, r.group);
    if (status != ES_OK)
        es_plan_free(r.plan);
    else
        *out = r.plan;
    return status;
}

es_status es_plan_load(const char *path, es_mem_limit *budget, es_plan **out, es_error *err)
{
    void *text;
    size_t size;
    *out = NULL;
    ES_TRY(es_file_load(path, ES_PLAN_BYTES, budget, &text, &size, err));
    const es_status status = es_plan_parse(text, size, path, budget, out, err);
    es_mem_free(budget, text);
    return status;
}
