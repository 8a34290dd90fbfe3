/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : a block of text through a causal model that sees less of it. */
#include "experiments/loss/loss.h"

#include <math.h>
#include <string.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/kit/cell_kit.h"
#include "model/model.h"
#include "model/plan.h"
#include "theory/equiangular.h"

/* ---- what is done to it ---- */

double es_score_factor(const es_loss_setting *setting, int64_t i, int64_t n)
{
    const double keys = (double)i + 1.0;
    switch (setting->scale) {
    case ES_SCALE_LOG:
        return log(keys) / log(setting->reference);
    case ES_SCALE_LOGN:
        return es_scaling_logn(keys, setting->reference);
    case ES_SCALE_YARN:
        return es_scaling_yarn((double)n, setting->reference, 0.1);
    case ES_SCALE_FACTOR:
        return setting->factor;
    case ES_SCALE_LLAMA4:
        return 1.0 + setting->factor * log(1.0 + floor((double)i / setting->reference));
    default:
        return 1.0;
    }
}

/* The query at place i sees min(i + 1, window) keys of its window, and the sinks before those. */
double es_window_keys(const es_loss_setting *setting, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t last = setting->window && setting->window < i + 1 ? setting->window : i + 1;
        const int64_t left = i + 1 - last;
        sum += (double)(last + (setting->sinks < left ? setting->sinks : left));
    }
    return sum / (double)n;
}

/* Returns the keys that a query sees, mean over a block of n and over layers: those of the setting
 * that the layer itself sees. */
static double keys_seen(const es_model_config *c, const es_loss_setting *setting, int64_t n)
{
    double of[ES_MODEL_KINDS], sum = 0.0;
    for (int64_t i = 0; i < c->kinds; i++) {
        const int64_t own = c->kind[i].window;
        es_loss_setting seen = *setting;
        if (own && own < n && seen.window)
            seen.sinks = 0;
        if (own && (!seen.window || own < seen.window))
            seen.window = own;
        of[i] = es_window_keys(&seen, n);
    }
    if (c->kinds == 1)
        return of[0];
    for (int64_t l = 0; l < c->layers; l++)
        sum += of[c->layer_kind[l]];
    return sum / (double)c->layers;
}

/* ---- one block ---- */

/* Memory of one block's run. */
typedef struct work {
    es_arena arena;
    es_model_block block;
    es_mask mask;
    es_model_sparse sparse;
    es_cache cache;
    double *entropy, *kept; /* (L, h) */
} work;

/* Draws have the cells of the block, whatever is kept: settings are compared on equal chance. */
static es_status make_sparse(work *w, const es_loss_block *b, const es_loss_setting *setting,
                             es_error *err)
{
    const es_model_config *c = es_model_config_of(b->model);
    es_policy_spec *heads;
    ES_TRY(ES_ARENA_NEW(&w->arena, heads, c->layers * c->heads, "a block of text", err));
    for (int64_t h = 0; h < c->layers * c->heads; h++)
        heads[h] = setting->policy;
    if (setting->plan)
        es_plan_specs(setting->plan, b->n, heads);
    w->sparse =
        (es_model_sparse){.heads = heads,
                          .at = {.seed = b->seed,
                                 .experiment = ES_EXPERIMENT_LOSS,
                                 .cell = (uint64_t)(b->number * es_model_sparse_cells(b->model))}};
    w->block.sparse = &w->sparse;
    return ES_OK;
}

/* Computes the factor on the scores of each query, by its position. */
static es_status make_factors(work *w, const es_loss_setting *setting, es_error *err)
{
    double *factors;
    ES_TRY(ES_ARENA_NEW(&w->arena, factors, w->block.n, "a block of text", err));
    for (int64_t i = 0; i < w->block.n; i++)
        factors[i] = es_score_factor(setting, i, w->block.n);
    w->block.score_factor = factors;
    return ES_OK;
}

/* Makes what the cache does to every unit. Without a setting it does nothing but store the weights
 * of late queries. */
static es_status make_cache(work *w, const es_model_config *c, const es_cache_setting *setting,
                            const es_loss_pass *out, es_error *err)
{
    es_cache_unit *units;
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, units, c->layers, c->kv_heads, "a cache", err));
    w->cache = (es_cache){.units = units, .prompt = out->prompt, .late = out->late};
    w->block.cache = &w->cache;
    if (!setting)
        return ES_OK;
    es_cache_setting_units(setting, c, units);
    w->cache.mode = setting->mode;
    w->cache.prompt = setting->prompt;
    w->cache.oracle = out->oracle;
    return ES_OK;
}

/* A window is a mask, which the engine takes at the speed of the keys that are left; a policy is
 * asked for every query. */
static es_status prepare(work *w, const es_loss_block *b, const es_loss_setting *setting,
                         const es_loss_pass *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(b->model);
    ES_TRY(ES_ARENA_NEW(&w->arena, w->entropy, c->layers * c->heads, "a block of text", err));
    ES_TRY(ES_ARENA_NEW(&w->arena, w->kept, c->layers * c->heads, "a block of text", err));
    w->block.entropy = w->entropy;
    if (setting->policy.policy || setting->plan || setting->cache)
        w->block.kept = w->kept;
    if (setting->window) {
        w->mask = (es_mask){.causal = true, .window = setting->window, .sinks = setting->sinks};
        w->block.mask = &w->mask;
    }
    if (setting->policy.policy || setting->plan)
        ES_TRY(make_sparse(w, b, setting, err));
    if (setting->cache || out->late)
        ES_TRY(make_cache(w, c, setting->cache, out, err));
    return setting->scale ? make_factors(w, setting, err) : ES_OK;
}

/* Returns the mean of numbers. */
static double mean_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum / (double)count;
}

/* Runs a block in one setting. */
static es_status run_pass(work *w, const es_loss_block *b, const es_loss_setting *setting,
                          const es_exec *exec, const es_loss_pass *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(b->model);
    ES_TRY(prepare(w, b, setting, out, err));
    ES_TRY(es_model_forward(b->model, &w->block, 1, exec, err));
    for (int64_t l = 0; l < c->layers; l++)
        out->entropy[l] = mean_of(w->entropy + l * c->heads, c->heads);
    *out->keys =
        w->block.kept ? mean_of(w->kept, c->layers * c->heads) : keys_seen(c, setting, b->n);
    return ES_OK;
}

es_status es_loss_run_pass(const es_loss_block *b, const es_loss_setting *setting,
                           const es_exec *exec, const es_loss_pass *out, es_error *err)
{
    es_loss_block own = *b;
    own.model = setting->other ? setting->other : b->model;
    work w = {.arena = {.budget = exec ? exec->budget : NULL},
              .block = {.ids = b->ids,
                        .n = b->n,
                        .nll = out->nll,
                        .last = out->last,
                        .rotary = setting->rotary ? setting->rotary : b->rotary}};
    const es_status status = run_pass(&w, &own, setting, exec, out, err);
    es_arena_free(&w.arena);
    return status;
}

es_status es_loss_run(const es_loss_block *b, const es_loss_setting *setting, const es_exec *exec,
                      double *nll, double *entropy, double *keys, es_error *err)
{
    const es_loss_pass out = {.nll = nll, .entropy = entropy, .keys = keys};
    return es_loss_run_pass(b, setting, exec, &out, err);
}

/* ---- a text of the last tokens ---- */

/* Tokens [at, end) of the block as the last of a text that begins W before them. ids and losses
 * have space for the block. */
static es_status run_piece(const es_loss_block *b, const es_fresh_text *f, int64_t at, int64_t end,
                           int32_t *ids, double *losses, const es_exec *exec, double *nll,
                           es_error *err)
{
    const bool whole = at - f->window < f->n_start;
    const int64_t first = whole ? 0 : at - f->window, before = whole ? 0 : f->n_start;
    for (int64_t i = 0; i < before; i++)
        ids[i] = f->start[i];
    memcpy(ids + before, b->ids + first, (size_t)(end - first) * sizeof *ids);
    const es_model_block piece = {
        .ids = ids, .n = before + end - first, .nll = losses, .rotary = b->rotary};
    ES_TRY(es_model_forward(b->model, &piece, 1, exec, err));
    memcpy(nll, losses + before + at - first - 1, (size_t)(end - at) * sizeof *nll);
    return ES_OK;
}

es_status es_loss_fresh(const es_loss_block *b, const es_fresh_text *f, const es_exec *exec,
                        double *nll, es_error *err)
{
    es_arena arena = {.budget = exec ? exec->budget : NULL};
    double *losses;
    int32_t *ids;
    es_status status = ES_ARENA_NEW(&arena, ids, b->n, "a text", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW(&arena, losses, b->n, "a text", err);
    for (int64_t at = f->from; at < b->n && status == ES_OK; at += f->window) {
        const int64_t end = at + f->window < b->n ? at + f->window : b->n;
        status = run_piece(b, f, at, end, ids, losses, exec, nll + at - f->from, err);
    }
    es_arena_free(&arena);
    return status;
}
