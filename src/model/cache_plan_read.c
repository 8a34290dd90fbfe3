/* SPDX-License-Identifier: Apache-2.0 */
/* cache_plan_read.c : plans of caches from files, version 3. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/head_plan.h"
#include "model/plan_reading.h"

/* ---- units ---- */

/* One key-value head as it stands in the file. */
typedef struct said {
    int64_t kv_head;
    es_plan_unit unit;
} said;

#define SAID(member) offsetof(said, member)
static const es_plan_field unit_fields[] = {
    {"kv_head", ES_PLAN_WHOLE, SAID(kv_head), 0, ES_PLAN_UNITS, "plan.heads", false, NULL},
    {"policy", ES_PLAN_CHARS, SAID(unit.policy), 0, ES_PLAN_POLICY, "plan.policy", false, NULL},
    {"keys", ES_PLAN_WHOLE, SAID(unit.keys), 1, ES_PLAN_CONTEXT, "plan.keys", false, NULL},
    {"k_type", ES_PLAN_CHARS, SAID(unit.k_type), 0, ES_PLAN_TYPE, "plan.types", false, NULL},
    {"v_type", ES_PLAN_CHARS, SAID(unit.v_type), 0, ES_PLAN_TYPE, "plan.types", false, NULL},
    {"risk", ES_PLAN_RISK, SAID(unit.risk), 0, 1e300, NULL, true, NULL},
    {0}};

/* Reads one key-value head. */
static es_status take_unit(es_plan_reading *r)
{
    said s = {.unit = {.risk = NAN}};
    const size_t at = (es_json_kind(&r->j), r->j.at);
    ES_TRY(es_plan_object(r, unit_fields, &s));
    if (s.kv_head != r->in_layer)
        return es_plan_fail(r, (int64_t)at, "plan.heads", "list every head once, in order",
                            "layer %lld: found key-value head %lld instead of %lld",
                            (long long)r->layers, (long long)s.kv_head, (long long)r->in_layer);
    ES_TRY(ES_MEM_GROW(r->plan->budget, r->plan->unit, &r->capacity, r->count + 1,
                       "heads of a plan", r->j.err));
    r->plan->unit[r->count] = s.unit;
    return es_plan_place(r, at, s.kv_head);
}

/* Reads the key-value heads of one layer, in order. */
static es_status take_units(es_plan_reading *r) { return es_plan_heads(r, take_unit); }

static const es_plan_field layer_fields[] = {
    {"layer", ES_PLAN_WHOLE, offsetof(es_plan_reading, layer), 0, ES_PLAN_UNITS, "plan.layers",
     false, NULL},
    {"window", ES_PLAN_WHOLE, offsetof(es_plan_reading, window), 0, 1 << 30, NULL, true, NULL},
    {"kv_heads", ES_PLAN_OBJECT, 0, 0, 0, NULL, false, take_units},
    {0}};

/* Reads all layers, in order. */
static es_status take_layers(es_plan_reading *r) { return es_plan_layers(r, layer_fields); }

/* ---- the whole ---- */

/* Reads the mode. */
static es_status take_mode(es_plan_reading *r)
{
    const size_t at = (es_json_kind(&r->j), r->j.at);
    char word[ES_PLAN_WORD];
    es_json_text text;
    ES_TRY(es_json_string(&r->j, &text));
    es_json_copy(&text, word, sizeof word);
    for (int m = ES_PLAN_PROMPT; m <= ES_PLAN_NONE; m++)
        if (strcmp(word, es_plan_mode_name((es_plan_mode)m)) == 0) {
            r->plan->mode = (es_plan_mode)m;
            return ES_OK;
        }
    return es_plan_fail(r, (int64_t)at, "plan.mode",
                        "prompt, decode or none; plans of ideal mode have version 2",
                        "there is no mode \"%s\"", word);
}

/* Reads 16 hexadecimal digits. */
static es_status take_fingerprint(es_plan_reading *r)
{
    const size_t at = (es_json_kind(&r->j), r->j.at);
    char word[ES_PLAN_WORD];
    es_json_text text;
    ES_TRY(es_json_string(&r->j, &text));
    es_json_copy(&text, word, sizeof word);
    r->plan->fingerprint = strtoull(word, NULL, 16);
    if (strlen(word) == 16 && strspn(word, "0123456789abcdef") == 16 && r->plan->fingerprint)
        return ES_OK;
    return es_plan_fail(r, (int64_t)at, "plan.fingerprint",
                        "16 hexadecimal digits; leave it out to run the plan on any checkpoint",
                        "the fingerprint is \"%.40s\"", word);
}

#define PLAN(member) offsetof(es_plan, member)
static const es_plan_field plan_fields[] = {
    {"schema", ES_PLAN_OBJECT, 0, 0, 0, NULL, false, es_plan_skip},
    {"mode", ES_PLAN_OBJECT, 0, 0, 0, NULL, false, take_mode},
    {"model", ES_PLAN_OBJECT, 0, 0, 0, NULL, false, es_plan_take_model},
    {"fingerprint", ES_PLAN_OBJECT, 0, 0, 0, NULL, true, take_fingerprint},
    {"context", ES_PLAN_WHOLE, PLAN(context), 1, ES_PLAN_CONTEXT, "plan.context", false, NULL},
    {"prompt", ES_PLAN_WHOLE, PLAN(prompt), 1, ES_PLAN_CONTEXT, "plan.prompt", true, NULL},
    {"cache", ES_PLAN_CHARS, PLAN(cache), 0, ES_PLAN_TYPE, "plan.types", true, NULL},
    {"text", ES_PLAN_CHARS, PLAN(text), 0, ES_PLAN_TEXT, NULL, true, NULL},
    {"note", ES_PLAN_CHARS, PLAN(note), 0, ES_PLAN_NOTE, NULL, true, NULL},
    {"keys_kept", ES_PLAN_COUNT, PLAN(keys_kept), 0, 9e15, "plan.total", false, NULL},
    {"keys_all", ES_PLAN_COUNT, PLAN(keys_all), 0, 9e15, "plan.total", false, NULL},
    {"bytes_before", ES_PLAN_REAL, PLAN(bytes_before), 0, 1e300, "plan.total", false, NULL},
    {"bytes_after", ES_PLAN_REAL, PLAN(bytes_after), 0, 1e300, "plan.total", false, NULL},
    {"layers", ES_PLAN_OBJECT, 0, 0, 0, NULL, false, take_layers},
    {0}};

/* Fails unless the stated totals are the sums over units. */
static es_status check_totals(es_plan_reading *r)
{
    const es_plan stated = *r->plan;
    const es_plan *p = r->plan;
    es_plan_count(r->plan);
    ES_TRY(es_plan_check_total(r, "keys_kept", stated.keys_kept, p->keys_kept));
    ES_TRY(es_plan_check_total(r, "keys_all", stated.keys_all, p->keys_all));
    ES_TRY(es_plan_check_total(r, "bytes_before", stated.bytes_before, p->bytes_before));
    return es_plan_check_total(r, "bytes_after", stated.bytes_after, p->bytes_after);
}

es_status es_plan_read_cache(es_plan_reading *r)
{
    strcpy(r->plan->cache, ES_PLAN_CACHE_TYPE);
    ES_TRY(es_plan_object(r, plan_fields, r->plan));
    ES_TRY(es_json_end(&r->j));
    ES_TRY(es_plan_check_counts(r));
    ES_TRY(es_plan_obey(r->plan, (es_plan_origin){r->j.file, r->at}, r->j.err));
    return check_totals(r);
}
