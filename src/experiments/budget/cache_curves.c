/* SPDX-License-Identifier: Apache-2.0 */
/* cache_curves.c : risks of the units of a cache by candidate and number of keys (THEORY 19).
 *
 * The full model runs and shows its heads. After the last head of a layer, outputs of late queries
 * under all types, policies and numbers of keys are computed for each unit (kit/late_outputs.h),
 * and their errors go through Wo:
 *
 *     R_u = mean over late queries of |sum over the unit's heads of J Wo_h (y_S - y)|^2,
 *
 * J the slope of a norm after Wo (branch.c). Nothing is random, and one kept set serves all queries
 * of a block, as it does when the plan runs. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/budget/budget.h"
#include "experiments/budget/inside.h"

/* One thread's memory. */
typedef struct work {
    es_group group;
    es_branch branch;
    double *wo;      /* (size, H, dk) as it is */
    double *full;    /* (queries, size, dk) outputs of the full model */
    double *rounded; /* (types, queries, size, dk) every key kept */
    double *outputs; /* (types, policies, keys, queries, size, dk) */
} work;

/* A block: the layer that was shown last, and a unit of it for each thread. */
typedef struct block_work {
    const es_cache_curves_spec *spec;
    const es_model_config *c;
    const es_curves *out;
    es_exec exec; /* threads that have a unit each */
    es_arena arena;
    int64_t *queries; /* (queries) places, increasing */
    es_late_layer layer;
    es_view *wo;          /* (heads) of the layer */
    es_wo_sum sum, plain; /* what the layer adds to the state; Wo's own output, if a norm follows */
    bool norms;
    work *works; /* (threads) */
} block_work;

/* ---- memory ---- */

/* Allocates the memory of one thread. */
static es_status work_new(block_work *all, const es_token_block *block, work *w, es_error *err)
{
    const es_model_config *c = all->c;
    const es_late_spec *late = &all->spec->late;
    const int64_t row = c->heads / c->kv_heads * c->head_dim, Q = all->spec->queries;
    ES_TRY(es_group_new(c, &all->arena, &w->group, err));
    ES_TRY(es_branch_new(block->model, &all->arena, &w->branch, err));
    ES_TRY(ES_ARENA_NEW_2D(&all->arena, w->wo, c->hidden, row, "Wo", err));
    ES_TRY(ES_ARENA_NEW_2D(&all->arena, w->full, Q, row, "outputs", err));
    ES_TRY(ES_ARENA_NEW_2D(&all->arena, w->rounded, late->n_types * Q, row, "outputs", err));
    return ES_ARENA_NEW_2D(&all->arena, w->outputs,
                           late->n_types * late->n_policies * all->spec->n_keys * Q + 1, row,
                           "outputs", err);
}

/* Allocates what all threads share, and their own memory. */
static es_status block_new(block_work *all, const es_token_block *block, es_error *err)
{
    ES_TRY(ES_ARENA_NEW(&all->arena, all->queries, all->spec->queries, "queries", err));
    ES_TRY(ES_ARENA_NEW(&all->arena, all->wo, all->c->heads, "heads", err));
    ES_TRY(ES_ARENA_NEW(&all->arena, all->works, all->exec.threads, "threads", err));
    ES_TRY(es_curves_queries(block, all->spec->queries, all->queries, err));
    ES_TRY(es_late_layer_new(all->c, &all->arena, &all->layer, err));
    ES_TRY(es_wo_sum_new(block, &all->arena, &all->sum, err));
    if (all->norms)
        ES_TRY(es_wo_sum_new(block, &all->arena, &all->plain, err));
    all->plain.plain = true;
    for (int t = 0; t < all->exec.threads; t++)
        ES_TRY(work_new(all, block, &all->works[t], err));
    return ES_OK;
}

double es_cache_curves_bytes(const es_cache_curves_spec *spec, const es_model *model, int64_t n,
                             int64_t from, int threads)
{
    const es_model_config *c = es_model_config_of(model);
    const es_late_spec *late = &spec->late;
    const double row = (double)(c->heads / c->kv_heads * c->head_dim), Q = (double)spec->queries;
    const double settings = (double)(late->n_types * (late->n_policies * spec->n_keys + 1) + 1);
    const double each = es_group_bytes(c) + 8.0 * row * ((double)c->hidden + Q * settings) +
                        es_late_bytes(c, es_model_precision(model), n, late) + 1e5;
    return fmin(threads, (double)c->kv_heads) * each +
           (es_branch_norms(model) ? 2.0 : 1.0) * es_wo_sum_bytes(c, n - from) + 1e6;
}

/* ---- one unit ---- */

/* Reads Wo of the unit's heads. */
static void read_wo(const block_work *all, int64_t unit, work *w)
{
    const int64_t H = all->c->hidden, dk = all->c->head_dim, size = w->group.size;
    for (int64_t g = 0; g < size; g++)
        for (int64_t r = 0; r < H; r++)
            es_view_read_row(&all->wo[unit * size + g], r, w->wo + (g * H + r) * dk);
}

/* Sets the group's matrices to J Wo at query q; without a norm they are the same for all. */
static void turn_wo(const block_work *all, int64_t q, work *w)
{
    const int64_t H = all->c->hidden, dk = all->c->head_dim;
    const double *a = all->norms ? all->plain.rows + (all->queries[q] - all->plain.from) * H : NULL;
    for (int64_t g = 0; g < w->group.size && (q == 0 || all->norms); g++)
        es_branch_slope(&w->branch, a, w->wo + g * H * dk, dk, w->group.wo + g * H * dk);
}

/* Puts the error of one output (size, dk) into row r of the group. */
static void put_error(work *w, int64_t r, const double *output, const double *full)
{
    const int64_t dk = w->group.dk;
    for (int64_t g = 0; g < w->group.size; g++) {
        double *x = w->group.x + (g * ES_GROUP_CHUNK + r) * dk;
        for (int64_t d = 0; d < dk; d++)
            x[d] = output[g * dk + d] - full[g * dk + d];
    }
}

/* Adds the squared errors of query q under all settings to risk (candidates, n_keys); `fewer` of
 * the numbers of keys leave keys out, at the others the cache only rounds. */
static void add_query(const block_work *all, int64_t q, int64_t fewer, work *w, double *risk)
{
    const es_late_spec *late = &all->spec->late;
    const int64_t Q = all->spec->queries, K = all->spec->n_keys, T = late->n_types;
    const int64_t policies = late->n_policies ? late->n_policies : 1;
    const int64_t row = w->group.size * w->group.dk, all_settings = policies * T * K;
    for (int64_t first = 0; first < all_settings; first += ES_GROUP_CHUNK) {
        const int64_t left = all_settings - first,
                      rows = left < ES_GROUP_CHUNK ? left : ES_GROUP_CHUNK;
        for (int64_t r = 0; r < rows; r++) {
            const int64_t k = (first + r) % K, t = (first + r) / K % T, p = (first + r) / K / T;
            const double *output =
                k < fewer ? w->outputs + (((t * late->n_policies + p) * fewer + k) * Q + q) * row
                          : w->rounded + (t * Q + q) * row;
            put_error(w, r, output, w->full + q * row);
        }
        es_group_apply(&w->group, rows);
        for (int64_t r = 0; r < rows; r++)
            risk[first + r] += w->group.together[r] / (double)Q;
    }
}

/* Computes the risks of one unit of the layer. */
static es_status run_unit(void *block, int64_t unit, int thread, es_error *err)
{
    const block_work *all = block;
    const es_cache_curves_spec *spec = all->spec;
    const int64_t kv = all->c->kv_heads, layer = all->layer.layer, K = spec->n_keys;
    const int64_t policies = spec->late.n_policies ? spec->late.n_policies : 1;
    const int64_t settings = policies * spec->late.n_types * K;
    double *risk = all->out->group + (layer * kv + unit) * settings;
    work *w = &all->works[thread];
    es_late_spec late = spec->late;
    late.queries = all->queries;
    late.n_queries = spec->queries;
    late.keys = spec->keys + layer * K;
    late.n_keys = 0;
    while (late.n_policies && late.n_keys < K && late.keys[late.n_keys] < late.keys[K - 1])
        late.n_keys++;
    if (!late.n_keys)
        late.n_policies = 0;
    ES_TRY(es_late_run(&all->layer, unit, &late, all->exec.budget,
                       &(es_late_out){.full = w->full,
                                      .rounded = w->rounded,
                                      .outputs = late.n_keys ? w->outputs : NULL},
                       err));
    memset(risk, 0, (size_t)settings * sizeof *risk);
    es_branch_at(&w->branch, layer);
    read_wo(all, unit, w);
    for (int64_t q = 0; q < spec->queries; q++) {
        turn_wo(all, q, w);
        add_query(all, q, late.n_keys, w, risk);
    }
    return ES_OK;
}

/* ---- a block ---- */

/* Receives a head of the forward pass; after the last head of a layer, computes its units. */
static es_status see_head(void *context, const es_model_seen *seen, es_error *err)
{
    block_work *all = context;
    es_late_see(&all->layer, seen);
    all->wo[seen->head] = seen->wo;
    es_wo_sum_add(&all->sum, seen);
    if (all->norms)
        es_wo_sum_add(&all->plain, seen);
    if (seen->head < all->c->heads - 1)
        return ES_OK;
    all->out->spread2[seen->layer] = es_wo_sum_spread2(&all->sum);
    return es_parallel_run(&all->exec, all->c->kv_heads, run_unit, all, err);
}

es_status es_cache_curves_block(const es_cache_curves_spec *spec, const es_token_block *block,
                                const es_exec *exec, const es_curves *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(block->model);
    es_mem_limit *budget = exec ? exec->budget : NULL;
    block_work all = {.spec = spec,
                      .c = c,
                      .out = out,
                      .norms = es_branch_norms(block->model),
                      .exec = {.threads = es_parallel_threads(exec, c->kv_heads), .budget = budget},
                      .arena = {.budget = budget}};
    const es_model_visit visit = {
        .head = see_head, .context = &all, .plain = es_late_plain(&spec->late)};
    const es_model_block b = {.ids = block->ids, .n = block->n, .visit = &visit};
    es_status status = block_new(&all, block, err);
    if (status == ES_OK)
        status = es_model_forward(block->model, &b, 1, exec, err);
    es_arena_free(&all.arena);
    return status;
}
