/* SPDX-License-Identifier: Apache-2.0 */
/* plan_read.c : plans from files: strict JSON. What both kinds of plan share: the schema, the
 * model, lists of layers, totals.
 *
 * A key that no table has is refused, for a plan that is half understood would be run as another.
 * Keys may come in any order, so what depends on several of them is checked at the end. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "model/head_plan.h"
#include "model/plan_reading.h"
#include "store/file.h"

/* ---- lists ---- */

es_status es_plan_place(es_plan_reading *r, size_t at, int64_t group)
{
    es_mem_limit *b = r->plan->budget;
    ES_TRY(ES_MEM_GROW(b, r->at, &r->scratch_at, r->count + 1, "places", r->j.err));
    ES_TRY(ES_MEM_GROW(b, r->group, &r->scratch_group, r->count + 1, "groups", r->j.err));
    r->at[r->count] = (int64_t)at;
    r->group[r->count++] = group;
    return ES_OK;
}

es_status es_plan_heads(es_plan_reading *r, es_status (*take)(es_plan_reading *r))
{
    es_json_list list;
    ES_TRY(es_json_begin(&r->j, '[', &list));
    for (r->in_layer = 0;; r->in_layer++) {
        ES_TRY(es_json_next(&r->j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(take(r));
    }
}

/* Reads one layer. All layers have as many heads as the first; their order gives their numbers. */
static es_status take_layer(es_plan_reading *r, const es_plan_field *fields)
{
    const int64_t before = r->count;
    const size_t at = (es_json_kind(&r->j), r->j.at);
    r->in_layer = -1;
    r->window = ES_PLAN_NO_WINDOW;
    ES_TRY(es_plan_object(r, fields, r));
    r->in_layer = -1;
    if (r->layer != r->layers)
        return es_plan_fail(r, (int64_t)at, "plan.layers", "list every layer once, in order",
                            "found layer %lld instead of layer %lld", (long long)r->layer,
                            (long long)r->layers);
    const int64_t first = r->layers ? before / r->layers : r->count;
    if (r->count == before || r->count - before != first)
        return es_plan_fail(r, (int64_t)at, "plan.heads", "list every head once, in order",
                            "layer %lld has %lld heads, layer 0 %lld", (long long)r->layer,
                            (long long)(r->count - before), (long long)first);
    ES_TRY(ES_MEM_GROW(r->plan->budget, r->plan->windows, &r->scratch_windows, r->layers + 1,
                       "layers of a plan", r->j.err));
    r->plan->windows[r->layers++] = r->window;
    return ES_OK;
}

es_status es_plan_layers(es_plan_reading *r, const es_plan_field *fields)
{
    es_json_list list;
    ES_TRY(es_json_begin(&r->j, '[', &list));
    for (;;) {
        ES_TRY(es_json_next(&r->j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(take_layer(r, fields));
    }
}

/* Gives layers that state no window the model's. */
static void complete_windows(es_plan *p)
{
    for (int64_t l = 0; l < p->layers; l++)
        if (p->windows[l] == ES_PLAN_NO_WINDOW)
            p->windows[l] = p->window;
}

es_status es_plan_check_counts(es_plan_reading *r)
{
    es_plan *p = r->plan;
    const bool units = r->version == 3;
    const int64_t heads = units ? p->kv_heads : p->heads;
    if (r->layers != p->layers)
        return es_plan_fail(r, -1, "plan.layers", "list every layer once, in order",
                            "the model has %lld layers, but %lld are listed", (long long)p->layers,
                            (long long)r->layers);
    if (r->count != p->layers * heads)
        return es_plan_fail(r, -1, "plan.heads", "list every head once, in order",
                            "the model has %lld %sheads in each layer, but %lld are listed",
                            (long long)heads, units ? "key-value " : "",
                            (long long)(r->count / r->layers));
    if (p->heads % p->kv_heads)
        return es_plan_fail(r, -1, "plan.group", "all groups of heads must have the same size",
                            "%lld heads share the keys and values of %lld", (long long)p->heads,
                            (long long)p->kv_heads);
    complete_windows(p);
    return ES_OK;
}

es_status es_plan_check_total(es_plan_reading *r, const char *key, double stated, double counted)
{
    if (fabs(stated - counted) <= 1e-12 * counted) /* bytes of some types are no whole numbers */
        return ES_OK;
    return es_plan_fail(r, -1, "plan.total", "was the file edited? Totals are sums over groups",
                        "%s is %.15g, but the heads add up to %.15g", key, stated, counted);
}

/* ---- the model ---- */

#define PLAN(member) offsetof(es_plan, member)
static const es_plan_field model_fields[] = {
    {"model_type", ES_PLAN_CHARS, PLAN(model_type), 0, ES_PLAN_WORD, NULL, false, NULL},
    {"layers", ES_PLAN_WHOLE, PLAN(layers), 1, ES_PLAN_UNITS, NULL, false, NULL},
    {"heads", ES_PLAN_WHOLE, PLAN(heads), 1, ES_PLAN_UNITS, NULL, false, NULL},
    {"kv_heads", ES_PLAN_WHOLE, PLAN(kv_heads), 1, ES_PLAN_UNITS, NULL, false, NULL},
    {"head_dim", ES_PLAN_WHOLE, PLAN(head_dim), 1, 1 << 20, NULL, false, NULL},
    {"hidden", ES_PLAN_WHOLE, PLAN(hidden), 1, 1 << 24, NULL, false, NULL},
    {"vocab", ES_PLAN_WHOLE, PLAN(vocab), 1, 1 << 30, NULL, false, NULL},
    {"window", ES_PLAN_WHOLE, PLAN(window), 0, 1 << 30, NULL, false, NULL},
    {"causal", ES_PLAN_TRUTH, PLAN(causal), 0, 0, NULL, false, NULL},
    {0}};

es_status es_plan_take_model(es_plan_reading *r)
{
    return es_plan_object(r, model_fields, r->plan);
}

/* ---- the whole ---- */

#define FIRST_SCHEMA "esscher-plan/1" /* parts of policies may be left out */
static const char *const schemas[] = {FIRST_SCHEMA, ES_PLAN_SCHEMA, ES_PLAN_CACHE_SCHEMA};

/* Reads the schema, which may be the last key, from a copy of the reader: the other keys depend on
 * it. */
static es_status find_version(es_plan_reading *r)
{
    es_json j = r->j;
    es_json_list list;
    es_json_text key;
    char schema[ES_PLAN_WORD];
    const size_t begin = (es_json_kind(&j), j.at);
    ES_TRY(es_json_begin(&j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(&j, &list, &key));
        if (list.done)
            return es_plan_fail(r, (int64_t)begin, "plan.missing", es_plan_hint, "missing schema");
        if (es_json_same(&key, "schema"))
            break;
        ES_TRY(es_json_skip(&j));
    }
    const size_t at = (es_json_kind(&j), j.at);
    ES_TRY(es_json_string(&j, &key));
    es_json_copy(&key, schema, sizeof schema);
    for (int i = 0; i < 3; i++)
        if (strcmp(schema, schemas[i]) == 0)
            r->version = i + 1;
    if (r->version)
        return ES_OK;
    return es_plan_fail(r, (int64_t)at, "plan.schema",
                        "this program reads " FIRST_SCHEMA ", " ES_PLAN_SCHEMA
                        " and " ES_PLAN_CACHE_SCHEMA,
                        "the schema is \"%s\"", schema);
}

es_status es_plan_skip(es_plan_reading *r) { return es_json_skip(&r->j); }

es_status es_plan_parse(const void *text, size_t size, const char *file, es_mem_limit *budget,
                        es_plan **out, es_error *err)
{
    es_plan_reading r = {
        .j = {.bytes = text, .end = size, .file = file, .rule = "plan", .err = err},
        .in_layer = -1};
    *out = NULL;
    if (es_json_kind(&r.j) != '{')
        return es_fail_file(err, ES_E_FORMAT, file, (int64_t)r.j.at, "plan.json",
                            "name a file that esscher budget --out-plan wrote",
                            "this is not a plan file");
    ES_TRY(find_version(&r));
    ES_TRY(ES_MEM_NEW(budget, r.plan, 1, "a plan", err));
    r.plan->budget = budget;
    const es_status status = r.version == 3 ? es_plan_read_cache(&r) : es_plan_read_ideal(&r);
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
