/* SPDX-License-Identifier: Apache-2.0 */
/* engines.c : the registry of engines, and the text that is exported to one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engines/engine.h"
#include "model/head_plan.h"
#include "model/plan.h"
#include "store/file.h"

/* Every engine, once, in the order in which help lists them. */
#define ENGINES(ROW)                                                                               \
    ROW(kvpress)                                                                                   \
    ROW(transformers)                                                                              \
    ROW(tensorrt_llm)                                                                              \
    ROW(vllm)                                                                                      \
    ROW(llama_cpp)

#define DECLARE(name) extern const es_engine es_engine_row_##name;
#define LIST(name)    &es_engine_row_##name,
ENGINES(DECLARE)
static const es_engine *const table[] = {ENGINES(LIST)};
static const int64_t count = sizeof table / sizeof *table;

const es_engine *es_engine_at(int64_t at) { return at >= 0 && at < count ? table[at] : NULL; }

/* Finds an engine that can run a part of the plan. */
static es_status find_engine(const es_plan *plan, const char *name, const es_engine **out,
                             es_error *err)
{
    char hint[160] = "";
    *out = NULL;
    for (int64_t i = 0; i < count; i++) {
        const size_t used = strlen(hint);
        snprintf(hint + used, sizeof hint - used, "%s%s", i ? ", " : "", table[i]->name);
        if (strcmp(name, table[i]->name) == 0)
            *out = table[i];
    }
    if (!*out)
        return es_fail(err, ES_E_ARGUMENT, "plan.engine", hint, "unknown engine \"%.40s\"", name);
    if ((*out)->modes & 1u << plan->mode)
        return ES_OK;
    return es_fail(err, ES_E_UNSUPPORTED, "plan.mode",
                   plan->mode == ES_PLAN_IDEAL ? "make a plan of a cache: mode prompt"
                                               : "use another engine, or a plan of mode prompt",
                   "%s cannot run any part of a plan of mode %s", name,
                   es_plan_mode_name(plan->mode));
}

/* ---- what the engine costs ---- */

/* Sums over units, by whether the engine runs them as planned. */
typedef struct account {
    int64_t units, as_planned;
    double bytes;         /* of what the engine holds */
    double risk, at_most; /* of units as planned; of units that keep more */
    bool unknown;         /* some risk is not known */
} account;

/* Counts what the engine runs. */
static account count_units(const es_engine_fit *fit)
{
    const es_plan *p = fit->plan;
    account a = {.units = p->layers * p->kv_heads};
    for (int64_t u = 0; u < a.units; u++) {
        const es_cache_unit *runs = &fit->runs[u], *asked = &fit->planned[u];
        const double bits = es_kv_format_bits(&runs->k, ES_KV_KEYS, p->head_dim) +
                            es_kv_format_bits(&runs->v, ES_KV_VALUES, p->head_dim);
        const bool planned =
            es_evict_same(&runs->evict, &asked->evict) && es_fit_same_format(&runs->k, &asked->k) &&
            es_fit_same_format(&runs->v, &asked->v) && fit->keys[u] == p->unit[u].keys;
        a.as_planned += planned;
        a.bytes += (double)fit->keys[u] * (double)p->head_dim * bits / 8.0;
        a.unknown = a.unknown || isnan(p->unit[u].risk);
        *(planned ? &a.risk : &a.at_most) += p->unit[u].risk;
    }
    return a;
}

/* ---- the comment ---- */

/* Writes the lines of `notes` as a list. */
static void write_notes(const char *notes, FILE *out)
{
    for (const char *at = notes; *at;) {
        const size_t length = strcspn(at, "\n");
        fprintf(out, "#   - %.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

/* Writes how much memory the setting takes. */
static void write_bytes(const es_engine *engine, const es_plan *p, const account *a, FILE *out)
{
    if (a->as_planned < a->units)
        fprintf(out, "# %lld of %lld key-value heads run as planned; the others keep more.\n",
                (long long)a->as_planned, (long long)a->units);
    if (engine->masks)
        fprintf(out, "# Keys are masked, not removed: this saves no memory.\n");
    else
        fprintf(out, "# This setting takes %.3g %% of the bytes of %s, the plan %.3g %%.\n",
                100.0 * a->bytes / p->bytes_before, p->cache,
                100.0 * p->bytes_after / p->bytes_before);
}

/* Writes what is known about the error. */
static void write_risk(const account *a, FILE *out)
{
    if (a->unknown) {
        fprintf(out, "# Predicted risk: unknown, the plan does not state all of it.\n");
        return;
    }
    if (a->as_planned == a->units)
        fprintf(out, "# Predicted risk, summed over key-value heads: %.4g, as in the plan.\n",
                a->risk);
    else
        fprintf(out,
                "# Predicted risk, summed over key-value heads: %.4g of heads that run as planned; "
                "of the others\n# at most %.4g, if keys and bits that are kept do not hurt.\n",
                a->risk, a->at_most);
    fprintf(out, "# A risk is the mean square error of a key-value head's part of the attention "
                 "output after Wo, in the\n# model's own units. It compares settings of one model "
                 "and is no loss in nats: loss --plan measures that.\n");
}

/* Writes a name of a file on one line. */
static void write_name(const char *name, FILE *out)
{
    for (const char *at = name; *at; at++)
        fputc((unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at, out);
}

/* Writes what the plan is, what of it the engine cannot do, and what that costs. */
static void write_comment(const es_engine *engine, const es_engine_fit *fit, const char *name,
                          const char *notes, FILE *out)
{
    const es_plan *p = fit->plan;
    const account a = count_units(fit);
    fprintf(out, "# Plan ");
    write_name(name, out);
    fprintf(out, " for %s, written by esscher plan export.\n", engine->title);
    fprintf(out, "# The plan: mode %s", es_plan_mode_name(p->mode));
    if (p->prompt)
        fprintf(out, ", a prompt of %lld tokens", (long long)p->prompt);
    fprintf(out, ", context %lld; it keeps %.3g %% of the keys.\n", (long long)p->context,
            100.0 * p->keys_kept / p->keys_all);
    fprintf(out, *notes ? "# What %s cannot do of it:\n" : "# %s can run all of it.\n",
            engine->title);
    write_notes(notes, out);
    write_bytes(engine, p, &a, out);
    write_risk(&a, out);
    fprintf(out, "# %s\n\n", engine->checked);
}

/* ---- the text ---- */

/* Memory of one export. */
typedef struct work {
    es_arena arena;
    es_engine_fit fit;
    char *notes, *text;
    size_t notes_size, size;
} work;

/* Allocates the units, as planned. */
static es_status begin(work *w, const es_plan *plan, es_error *err)
{
    const int64_t units = plan->layers * plan->kv_heads;
    es_cache_unit *planned;
    ES_TRY(ES_ARENA_NEW(&w->arena, planned, units, "units of a plan", err));
    ES_TRY(ES_ARENA_NEW(&w->arena, w->fit.runs, units, "units of a plan", err));
    ES_TRY(ES_ARENA_NEW(&w->arena, w->fit.keys, units, "units of a plan", err));
    ES_TRY(es_plan_units(plan, planned, err));
    memcpy(w->fit.runs, planned, (size_t)units * sizeof *planned);
    for (int64_t u = 0; u < units; u++)
        w->fit.keys[u] = plan->unit[u].keys;
    w->fit.plan = plan;
    w->fit.planned = planned;
    w->fit.notes = open_memstream(&w->notes, &w->notes_size);
    return w->fit.notes ? ES_OK
                        : es_fail(err, ES_E_MEMORY, "memory", "free some memory", "no memory");
}

/* Fits the plan to the engine, and writes the text. */
static es_status write_all(work *w, const es_engine *engine, const char *name, es_error *err)
{
    engine->fit(&w->fit);
    const bool noted = fclose(w->fit.notes) == 0;
    FILE *out = noted ? open_memstream(&w->text, &w->size) : NULL;
    if (!out)
        return es_fail(err, ES_E_MEMORY, "memory", "free some memory", "no memory");
    write_comment(engine, &w->fit, name, w->notes, out);
    engine->write(&w->fit, out);
    if (fclose(out) != 0)
        return es_fail(err, ES_E_MEMORY, "memory", "free some memory", "no memory");
    return ES_OK;
}

es_status es_plan_export(const es_plan *plan, const char *name, const char *engine, char **text,
                         size_t *size, es_error *err)
{
    const es_engine *row;
    work w = {.arena = {.budget = plan->budget}};
    es_plan counted = *plan;
    *text = NULL;
    ES_TRY(find_engine(plan, engine, &row, err));
    ES_TRY(es_plan_obey(plan, (es_plan_origin){0}, err));
    es_plan_count(&counted);
    es_status status = begin(&w, &counted, err);
    if (status == ES_OK)
        status = write_all(&w, row, name, err);
    free(w.notes);
    es_arena_free(&w.arena);
    if (status != ES_OK) {
        free(w.text);
        return status;
    }
    *text = w.text;
    *size = w.size;
    return ES_OK;
}

void es_plan_export_free(char *text) { free(text); }

es_status es_plan_export_file(const es_plan *plan, const char *name, const char *engine,
                              const char *path, bool force, es_error *err)
{
    char *text;
    size_t size;
    ES_TRY(es_plan_export(plan, name, engine, &text, &size, err));
    const es_status status = es_file_store(path, force, text, size, err);
    free(text);
    return status;
}
