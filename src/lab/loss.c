/* loss.c : a block of text through a causal model that sees less of it. */
#include "lab/loss.h"

#include <math.h>

#include <esscher/attend.h>
#include <esscher/equiangular.h>

#include "base/error.h"
#include "base/memory.h"
#include "lab/lab_inside.h"

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

/* ---- one block ---- */

typedef struct work {
    es_arena arena;
    es_model_block block;
    es_mask mask;
    es_model_sparse sparse;
    double *entropy, *kept; /* (L, h) */
} work;

static es_status take(work *w, int64_t count, size_t element, void *out, es_error *err)
{
    return es_arena_array(&w->arena, count, 1, element, "a block of text", (void **)out, err);
}

/* Draws have the cells of the block, whatever is kept: settings are compared on equal chance. */
static es_status make_sparse(work *w, const es_loss_block *b, const es_loss_setting *setting,
                             es_error *err)
{
    const es_model_config *c = es_model_config_of(b->model);
    es_policy_spec *heads;
    ES_TRY(take(w, c->layers * c->heads, sizeof *heads, &heads, err));
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
    w->block.kept = w->kept;
    return ES_OK;
}

static es_status make_factors(work *w, const es_loss_setting *setting, es_error *err)
{
    double *factors;
    ES_TRY(take(w, w->block.n, sizeof *factors, &factors, err));
    for (int64_t i = 0; i < w->block.n; i++)
        factors[i] = es_score_factor(setting, i, w->block.n);
    w->block.score_factor = factors;
    return ES_OK;
}

/* A window is a mask, which the engine takes at the speed of the keys that are left; a policy is
 * asked for every query. */
static es_status prepare(work *w, const es_loss_block *b, const es_loss_setting *setting,
                         double *nll, es_error *err)
{
    const es_model_config *c = es_model_config_of(b->model);
    w->block = (es_model_block){.ids = b->ids, .n = b->n, .nll = nll};
    ES_TRY(take(w, c->layers * c->heads, sizeof *w->entropy, &w->entropy, err));
    ES_TRY(take(w, c->layers * c->heads, sizeof *w->kept, &w->kept, err));
    w->block.entropy = w->entropy;
    if (setting->window) {
        w->mask = (es_mask){.causal = true, .window = setting->window, .sinks = setting->sinks};
        w->block.mask = &w->mask;
    }
    if (setting->policy.policy || setting->plan)
        ES_TRY(make_sparse(w, b, setting, err));
    return setting->scale ? make_factors(w, setting, err) : ES_OK;
}

static double mean_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum / (double)count;
}

es_status es_loss_run(const es_loss_block *b, const es_loss_setting *setting, const es_exec *exec,
                      double *nll, double *entropy, double *keys, es_error *err)
{
    const es_model_config *c = es_model_config_of(b->model);
    work w = {.arena = {.budget = exec ? exec->budget : NULL}};
    es_status status = prepare(&w, b, setting, nll, err);
    if (status == ES_OK)
        status = es_model_forward(b->model, &w.block, 1, exec, err);
    if (status == ES_OK) {
        es_loss_setting seen = *setting;
        if (!seen.window)
            seen.window = c->window; /* what the model itself sees */
        for (int64_t l = 0; l < c->layers; l++)
            entropy[l] = mean_of(w.entropy + l * c->heads, c->heads);
        *keys =
            w.block.sparse ? mean_of(w.kept, c->layers * c->heads) : es_window_keys(&seen, b->n);
    }
    es_arena_free(&w.arena);
    return status;
}
