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

/* Makes what the cache does to every unit; `oracle` is es_cache.oracle. */
static es_status make_cache(work *w, const es_model_config *c, const es_cache_setting *setting,
                            const double *oracle, es_error *err)
{
    es_cache_unit *units;
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, units, c->layers, c->kv_heads, "a cache", err));
    es_cache_setting_units(setting, c, units);
    w->cache = (es_cache){
        .mode = setting->mode, .prompt = setting->prompt, .units = units, .oracle = oracle};
    w->block.cache = &w->cache;
    return ES_OK;
}

/* A window is a mask, which the engine takes at the speed of the keys that are left; a policy is
 * asked for every query. */
static es_status prepare(work *w, const es_loss_block *b, const es_loss_setting *setting,
                         const double *oracle, es_error *err)
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
    if (setting->cache)
        ES_TRY(make_cache(w, c, setting->cache, oracle, err));
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

/* What is wanted of one pass. */
typedef struct pass {
    const double *oracle; /* in: es_cache.oracle; NULL: not needed */
    double *nll, *entropy, *keys;
    char *last; /* (n, hidden) the last hidden state; NULL: not wanted */
} pass;

/* Runs a block in one setting. */
static es_status run_pass(const es_loss_block *b, const es_loss_setting *setting,
                          const es_exec *exec, const pass *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(b->model);
    work w = {.arena = {.budget = exec ? exec->budget : NULL},
              .block = {.ids = b->ids,
                        .n = b->n,
                        .nll = out->nll,
                        .last = out->last,
                        .rotary = setting->rotary ? setting->rotary : b->rotary}};
    es_status status = prepare(&w, b, setting, out->oracle, err);
    if (status == ES_OK)
        status = es_model_forward(b->model, &w.block, 1, exec, err);
    if (status == ES_OK) {
        for (int64_t l = 0; l < c->layers; l++)
            out->entropy[l] = mean_of(w.entropy + l * c->heads, c->heads);
        *out->keys = w.block.sparse || w.block.cache ? mean_of(w.kept, c->layers * c->heads)
                                                     : keys_seen(c, setting, b->n);
    }
    es_arena_free(&w.arena);
    return status;
}

es_status es_loss_run(const es_loss_block *b, const es_loss_setting *setting, const es_exec *exec,
                      double *nll, double *entropy, double *keys, es_error *err)
{
    return run_pass(b, setting, exec, &(pass){.nll = nll, .entropy = entropy, .keys = keys}, err);
}

/* ---- two runs of a block ---- */

/* Memory of two runs. */
typedef struct beside {
    es_arena arena;
    es_loss_block other; /* the block in the setting's own model */
    char *state[2];      /* (n, hidden) of each run */
    double *late;        /* (layers, kv_heads, prompt) weights of late queries; NULL: not needed */
    double *entropy;     /* (layers) of the setting's own model */
} beside;

/* Allocates the states of both runs and what a policy needs to know of the full model. */
static es_status beside_new(beside *r, const es_loss_block *b, const es_loss_setting *setting,
                            es_error *err)
{
    const es_model *models[] = {b->model, setting->other ? setting->other : b->model};
    const es_cache_setting *cache = setting->cache;
    r->other = *b;
    r->other.model = models[1];
    for (int m = 0; m < 2; m++) {
        const int64_t item = (int64_t)es_dtype_size(es_model_precision(models[m]));
        ES_TRY(ES_ARENA_NEW_2D(&r->arena, r->state[m], b->n,
                               es_model_config_of(models[m])->hidden * item, "hidden states", err));
    }
    const es_model_config *c = es_model_config_of(models[1]);
    ES_TRY(ES_ARENA_NEW(&r->arena, r->entropy, c->layers, "entropies", err));
    if (cache && es_eviction_full(cache->unit.evict.policy))
        ES_TRY(ES_ARENA_NEW_2D(&r->arena, r->late, c->layers * c->kv_heads, cache->prompt,
                               "weights of late queries", err));
    return ES_OK;
}

/* Runs the full model to its last hidden state, and notes the weights of late queries. */
static es_status run_full(beside *r, const es_loss_block *b, const es_loss_setting *setting,
                          const es_exec *exec, es_error *err)
{
    const es_model_config *c = es_model_config_of(b->model);
    es_model_block block = {.ids = b->ids, .n = b->n, .last = r->state[0], .rotary = b->rotary};
    es_cache_unit *units;
    es_cache cache = {.late = r->late};
    if (r->late) {
        ES_TRY(ES_ARENA_NEW_2D(&r->arena, units, c->layers, c->kv_heads, "a cache", err));
        cache.units = units;
        cache.prompt = setting->cache->prompt;
        block.cache = &cache;
    }
    return es_model_forward(b->model, &block, 1, exec, err);
}

/* Runs both, then compares their last states from change->from on. */
static es_status run_both(beside *r, const es_loss_block *b, const es_loss_setting *setting,
                          const es_exec *exec, const pass *out, const es_loss_change *change,
                          es_error *err)
{
    ES_TRY(beside_new(r, b, setting, err));
    ES_TRY(run_full(r, b, setting, exec, err));
    pass own = *out;
    own.entropy = r->entropy;
    own.last = r->state[1];
    own.oracle = r->late;
    ES_TRY(run_pass(&r->other, setting, exec, &own, err));
    const int64_t layers = es_model_config_of(b->model)->layers;
    if (layers == es_model_config_of(r->other.model)->layers)
        memcpy(out->entropy, r->entropy, (size_t)layers * sizeof *r->entropy);
    const es_divergence pair = {.model = {b->model, r->other.model},
                                .state = {r->state[0], r->state[1]},
                                .from = change->from,
                                .n = b->n,
                                .rotary = b->rotary};
    return es_divergence_run(&pair, exec, change->kl, change->agree, err);
}

es_status es_loss_run_beside(const es_loss_block *b, const es_loss_setting *setting,
                             const es_exec *exec, double *nll, double *entropy, double *keys,
                             const es_loss_change *change, es_error *err)
{
    beside r = {.arena = {.budget = exec ? exec->budget : NULL}};
    const pass out = {.nll = nll, .entropy = entropy, .keys = keys};
    const es_status status = run_both(&r, b, setting, exec, &out, change, err);
    es_arena_free(&r.arena);
    return status;
}

/* ---- a text of the last tokens ---- */

/* Tokens [at, end) of the block as the last of a text that begins W before them. ids and losses
 * have room for the block. */
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
