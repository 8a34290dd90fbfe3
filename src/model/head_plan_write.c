/* SPDX-License-Identifier: Apache-2.0 */
/* head_plan_write.c : plans to files: the JSON that head_plan_read.c reads. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/unicode.h"
#include "model/head_plan.h"
#include "model/plan.h"
#include "policy/policy.h"
#include "store/file.h"

/* A draft with a buffer; after a failure nothing more is written. */
typedef struct writing {
    es_draft draft;
    es_status status;
    es_error *err;
    size_t used;
    char buffer[4096];
} writing;

/* Writes the buffer to the file. */
static void flush(writing *w)
{
    if (w->status == ES_OK)
        w->status = es_draft_write(&w->draft, w->buffer, w->used, w->err);
    w->used = 0;
}

static void put(writing *w, const char *fmt, ...) ES_PRINTF(2, 3);

/* Appends formatted text, which is short: a name or a number. */
static void put(writing *w, const char *fmt, ...)
{
    enum { PIECE = 1024 }; /* of a key-value head: policy, two types and numbers */
    va_list args;
    if (sizeof w->buffer - w->used < PIECE)
        flush(w);
    va_start(args, fmt);
    const int length = vsnprintf(w->buffer + w->used, PIECE, fmt, args);
    va_end(args);
    if (length > 0)
        w->used += (size_t)length < PIECE ? (size_t)length : PIECE - 1;
}

/* Appends a JSON string. Invalid UTF-8 becomes U+FFFD: the text comes from file names, which may
 * be any bytes. */
static void put_text(writing *w, const char *text)
{
    size_t left = strlen(text);
    put(w, "\"");
    for (const unsigned char *p = (const unsigned char *)text; left > 0;) {
        int32_t c;
        const size_t length = es_utf8_next(p, left, &c);
        if (c < 0)
            put(w, "\\ufffd");
        else if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            put(w, "\\u%04x", (unsigned)c);
        else
            put(w, "%.*s", (int)length, (const char *)p);
        p += length;
        left -= length;
    }
    put(w, "\"");
}

/* Appends a part of a policy, if it is stated. */
static void put_part(writing *w, const char *key, int64_t value)
{
    if (value != ES_POLICY_UNSET)
        put(w, ", \"%s\": %lld", key, (long long)value);
}

/* Ends a head with its risk. */
static void put_risk(writing *w, double risk)
{
    if (isnan(risk))
        put(w, ", \"risk\": null}");
    else
        put(w, ", \"risk\": %.15g}", risk);
}

/* Writes one head with all parts of its policy, so that the file does not depend on defaults of
 * a later version. */
static void put_head(writing *w, const es_plan *plan, int64_t layer, int64_t head)
{
    const es_plan_head *one = &plan->head[layer * plan->heads + head];
    es_policy_spec complete = one->spec;
    const es_policy_spec *spec = &complete;
    es_policy_spec_fit(&complete, plan->causal);
    put(w, "      {\"head\": %lld, \"group\": %lld, \"policy\": \"%s\", \"keys\": %lld",
        (long long)head, (long long)(head / (plan->heads / plan->kv_heads)),
        es_policy_name(spec->policy), (long long)es_plan_keys(plan, layer, head, plan->context));
    put_part(w, "sinks", spec->sinks);
    put_part(w, "window", spec->window);
    put_part(w, "random", spec->random);
    put_part(w, "span", spec->span);
    put_part(w, "pool", spec->pool);
    put(w, ", \"correction\": \"%s\"",
        spec->correction == ES_CORRECTION_INVERSE ? "inverse" : "none");
    if (es_policy_parts(spec->policy) & ES_PART_REPLACEMENT)
        put(w, ", \"with_replacement\": %s", spec->with_replacement ? "true" : "false");
    put_risk(w, one->risk);
}

/* Writes one key-value head with all options of its policy. */
static void put_unit(writing *w, const es_plan *plan, int64_t layer, int64_t kv_head)
{
    const es_plan_unit *one = &plan->unit[layer * plan->kv_heads + kv_head];
    es_cache_unit unit;
    const char *missing;
    char policy[ES_PLAN_POLICY] = "full";
    if (es_plan_unit_parse(one, plan->mode, &unit, &missing, w->err) == ES_OK)
        es_evict_write(&unit.evict, policy, sizeof policy);
    put(w,
        "      {\"kv_head\": %lld, \"policy\": \"%s\", \"keys\": %lld, \"k_type\": \"%s\", "
        "\"v_type\": \"%s\"",
        (long long)kv_head, policy, (long long)one->keys, one->k_type, one->v_type);
    put_risk(w, one->risk);
}

/* Writes the shape of the model that the plan was made for. */
static void put_model(writing *w, const es_plan *p)
{
    put(w, "  \"model\": {\"model_type\": ");
    put_text(w, p->model_type);
    put(w,
        ", \"layers\": %lld, \"heads\": %lld, \"kv_heads\": %lld, \"head_dim\": %lld, "
        "\"hidden\": %lld, \"vocab\": %lld, \"window\": %lld, \"causal\": %s},\n",
        (long long)p->layers, (long long)p->heads, (long long)p->kv_heads, (long long)p->head_dim,
        (long long)p->hidden, (long long)p->vocab, (long long)p->window,
        p->causal ? "true" : "false");
}

/* Writes mode and model. */
static void put_mode(writing *w, const es_plan *p)
{
    if (p->mode != ES_PLAN_IDEAL)
        put(w, "  \"mode\": \"%s\",\n", es_plan_mode_name(p->mode));
    put_model(w, p);
    if (p->mode != ES_PLAN_IDEAL && p->fingerprint)
        put(w, "  \"fingerprint\": \"%016llx\",\n", (unsigned long long)p->fingerprint);
    put(w, "  \"context\": %lld,\n", (long long)p->context);
    if (p->prompt)
        put(w, "  \"prompt\": %lld,\n", (long long)p->prompt);
}

/* Writes what the cache takes, before and after. */
static void put_bytes(writing *w, const es_plan *p)
{
    if (p->mode == ES_PLAN_IDEAL)
        return;
    put(w, "  \"cache\": \"%s\",\n  \"bytes_before\": %.15g,\n  \"bytes_after\": %.15g,\n",
        p->cache, p->bytes_before, p->bytes_after);
}

/* Writes one layer, a head per line, which diffs well. */
static void put_layer(writing *w, const es_plan *p, int64_t layer)
{
    const bool units = p->mode != ES_PLAN_IDEAL;
    const int64_t heads = units ? p->kv_heads : p->heads;
    put(w, "    {\"layer\": %lld, ", (long long)layer);
    if (p->windows[layer] != p->window)
        put(w, "\"window\": %lld, ", (long long)p->windows[layer]);
    put(w, units ? "\"kv_heads\": [\n" : "\"heads\": [\n");
    for (int64_t h = 0; h < heads; h++) {
        (units ? put_unit : put_head)(w, p, layer, h);
        put(w, h + 1 < heads ? ",\n" : "\n");
    }
    put(w, layer + 1 < p->layers ? "    ]},\n" : "    ]}\n");
}

/* Writes the plan as JSON. */
static void put_plan(writing *w, const es_plan *p)
{
    es_plan counted = *p;
    es_plan_count(&counted);
    put(w, "{\n  \"schema\": \"%s\",\n",
        p->mode == ES_PLAN_IDEAL ? ES_PLAN_SCHEMA : ES_PLAN_CACHE_SCHEMA);
    put_mode(w, p);
    put(w, "  \"text\": ");
    put_text(w, p->text);
    if (p->note[0]) {
        put(w, ",\n  \"note\": ");
        put_text(w, p->note);
    }
    put(w, ",\n  \"keys_kept\": %.0f,\n  \"keys_all\": %.0f,\n", counted.keys_kept,
        counted.keys_all);
    put_bytes(w, &counted);
    put(w, "  \"layers\": [\n");
    for (int64_t l = 0; l < p->layers; l++)
        put_layer(w, p, l);
    put(w, "  ]\n}\n");
    flush(w);
}

es_status es_plan_save(const es_plan *plan, const char *path, bool force, es_error *err)
{
    writing w = {.err = err};
    if (!plan || !path)
        return es_fail(err, ES_E_ARGUMENT, "plan.null", "a plan and a path",
                       "an argument is missing");
    ES_TRY(es_plan_obey(plan, (es_plan_origin){0}, err));
    ES_TRY(es_draft_open(path, force, &w.draft, err));
    put_plan(&w, plan);
    if (w.status == ES_OK)
        w.status = es_draft_publish(&w.draft, err);
    es_draft_discard(&w.draft);
    return w.status;
}
