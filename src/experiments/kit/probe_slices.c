/* SPDX-License-Identifier: Apache-2.0 */
/* probe_slices.c : the error that n tokens drawn independently from the pool give some queries of
 * every head: the exact integral over the weights that a query gives the pool (THEORY 13).
 *
 * Weights on 10^5 tokens are not kept: a query's tokens are gathered on a grid of scores while the
 * pool goes by (risk/draw_atoms.h), those of either half of the pool apart. Grids of a few heads
 * at a time, a slice: more take more memory, fewer read the pool more often. */
#include "experiments/kit/probe_inside.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "risk/draw_atoms.h"

enum { ALL, EVEN, ODD, SETS = ES_PROBE_SETS, GROUP = ES_PROBE_SLICE };

/* Returns the number of queries whose errors are computed exactly. */
static int64_t few_of(const es_probe_spec *spec)
{
    return es_probe_exact_of(spec, es_probe_queries_of(spec));
}

int64_t es_probe_exact_numbers(const es_probe_spec *spec)
{
    return es_model_config_of(spec->model)->heads * few_of(spec) * SETS *
           es_probe_exact_sizes(spec);
}

int64_t es_probe_slices(const es_probe_spec *spec)
{
    return (es_model_config_of(spec->model)->heads + GROUP - 1) / GROUP;
}

int64_t es_probe_slice_numbers(const es_probe_spec *spec)
{
    return GROUP * few_of(spec) * SETS * es_probe_exact_sizes(spec);
}

int64_t es_probe_centers(const es_probe_spec *spec, int64_t *count)
{
    *count = few_of(spec) * es_model_config_of(spec->model)->query_width;
    return es_probe_layout_of(spec).limit;
}

/* ---- the walk ---- */

/* A layer of a walk. */
typedef struct exact_layer {
    es_probe_weights weights;
    float *q; /* (queries, Q) */
} exact_layer;

/* Up to GROUP heads of a layer. */
typedef struct exact_slice {
    int64_t layer, first, heads; /* the layer among those of the walk, head */
    double *center;              /* (GROUP, few, k) outputs of the limit */
    es_draw_grid *grids;         /* (GROUP, few, 2) */
    double *out;                 /* (GROUP, few, SETS, sizes) */
} exact_slice;

/* A pass over the pool that gathers scores for exact errors. */
typedef struct exact_walk {
    const es_probe_spec *spec;
    int64_t layer, layers, count; /* of the walk; slices */
    int64_t few, strip;           /* queries; tokens of a strip */
    int64_t width, hidden, all;   /* k, H, Q */
    exact_layer *of;              /* (layers) */
    exact_slice *slices;          /* (count) */
    float *projected;             /* (strip, GROUP k) */
    double *keys, *values;        /* (GROUP, k, strip) and (GROUP, strip, k) */
    double *scores;               /* (threads, strip) */
    int64_t *sizes;               /* (es_probe_exact_sizes()) */
    es_draw_risk *risks;          /* (threads, sizes) */
    exact_slice *slice;           /* under way, */
    int64_t n;                    /* tokens of its strip, */
    int half;                     /* and the half they belong to */
} exact_walk;

/* Returns the number of threads that share a slice, for the size of their buffers. */
static int threads_of(const exact_walk *w)
{
    const es_exec quiet = es_exec_quiet(w->spec->exec);
    return es_parallel_threads(&quiet, GROUP * w->few);
}

/* Outputs of the limit, `limit` (few, Q), are what values are measured from. */
static es_status open_slice(const exact_walk *w, int64_t number, const double *limit, double *out,
                            exact_slice *slice, es_error *err)
{
    es_mem_limit *budget = es_probe_budget(w->spec);
    const int64_t per = es_probe_slices(w->spec), heads = es_model_config_of(w->spec->model)->heads;
    const int64_t k = w->width, first = number % per * GROUP;
    *slice = (exact_slice){.layer = number / per - w->layer,
                           .first = first,
                           .heads = heads - first < GROUP ? heads - first : GROUP,
                           .out = out};
    ES_TRY(ES_MEM_NEW_2D(budget, slice->center, GROUP * w->few, k, "outputs", err));
    ES_TRY(ES_MEM_NEW_2D(budget, slice->grids, GROUP * w->few, 2, "grids of scores", err));
    for (int64_t unit = 0; unit < slice->heads * w->few; unit++) {
        double *center = slice->center + unit * k;
        for (int64_t l = 0; l < k; l++)
            center[l] = limit[unit % w->few * w->all + (first + unit / w->few) * k + l];
        for (int half = 0; half < 2; half++)
            ES_TRY(es_draw_grid_init(&slice->grids[2 * unit + half], budget, k, center, err));
    }
    return ES_OK;
}

/* Allocates buffers for a strip of the pool and for the integrals of each thread. */
static es_status make_buffers(exact_walk *w, es_error *err)
{
    es_mem_limit *budget = es_probe_budget(w->spec);
    const int64_t k = w->width, threads = threads_of(w), all = es_probe_exact_sizes(w->spec);
    ES_TRY(ES_MEM_NEW(budget, w->of, w->layers, "layers", err));
    ES_TRY(ES_MEM_NEW(budget, w->slices, w->count, "slices", err));
    ES_TRY(ES_MEM_NEW_2D(budget, w->projected, w->strip, GROUP * k, "a strip of the pool", err));
    ES_TRY(
        ES_MEM_NEW_2D(budget, w->keys, w->strip, 2 * GROUP * k + threads, "keys and values", err));
    w->values = w->keys + w->strip * GROUP * k;
    w->scores = w->values + w->strip * GROUP * k;
    ES_TRY(ES_MEM_NEW(budget, w->sizes, all, "sizes", err));
    ES_TRY(ES_MEM_NEW_2D(budget, w->risks, all, threads, "errors", err));
    for (int64_t i = 0; i < all; i++)
        w->sizes[i] =
            i < w->spec->n_sizes ? w->spec->sizes[i] : INT64_C(1) << (i - w->spec->n_sizes);
    return ES_OK;
}

/* Prepares weights, queries and centres of all slices. */
static es_status prepare(exact_walk *w, int64_t first, const double *centers, double *out,
                         es_error *err)
{
    es_mem_limit *budget = es_probe_budget(w->spec);
    const int64_t queries = es_probe_queries_of(w->spec), per = es_probe_slices(w->spec);
    ES_TRY(make_buffers(w, err));
    for (int64_t l = 0; l < w->layers; l++) {
        exact_layer *of = &w->of[l];
        ES_TRY(es_probe_weights_new(w->spec, w->layer + l, &of->weights, err));
        ES_TRY(ES_MEM_NEW_2D(budget, of->q, queries, w->all, "queries", err));
        ES_TRY(es_probe_queries(w->spec, w->layer + l, &of->weights, of->q, err));
    }
    for (int64_t i = 0; i < w->count; i++)
        ES_TRY(open_slice(w, first + i, centers + ((first + i) / per - w->layer) * w->few * w->all,
                          out + i * es_probe_slice_numbers(w->spec), &w->slices[i], err));
    return ES_OK;
}

/* Frees the walk over slices; grids of slices that failed may still be there. */
static void release_exact(exact_walk *w)
{
    es_mem_limit *budget = es_probe_budget(w->spec);
    for (int64_t i = 0; w->slices && i < w->count; i++) {
        for (int64_t g = 0; w->slices[i].grids && g < 2 * GROUP * w->few; g++)
            es_draw_grid_free(&w->slices[i].grids[g]);
        es_mem_free(budget, w->slices[i].grids);
        es_mem_free(budget, w->slices[i].center);
    }
    for (int64_t l = 0; w->of && l < w->layers; l++) {
        es_mem_free(budget, w->of[l].q);
        es_probe_weights_free(w->spec, &w->of[l].weights);
    }
    es_mem_free(budget, w->risks);
    es_mem_free(budget, w->sizes);
    es_mem_free(budget, w->keys);
    es_mem_free(budget, w->projected);
    es_mem_free(budget, w->slices);
    es_mem_free(budget, w->of);
}

/* ---- a strip ---- */

/* Keys or values of the slice's heads: channel by channel, so that the scores of a query are a sum
 * of rows, or token by token. */
static es_status project_group(exact_walk *w, const float *x, const float *matrix, bool by_channel,
                               double *to, es_error *err)
{
    const int64_t H = w->hidden, k = w->width, heads = w->slice->heads, n = w->n;
    ES_TRY(es_probe_project(w->spec->exec, x, n, matrix + w->slice->first * k * H, NULL, heads * k,
                            H, w->projected, err));
    for (int64_t h = 0; h < heads; h++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < k; l++)
                to[h * k * w->strip + (by_channel ? l * w->strip + j : j * k + l)] =
                    (double)w->projected[(j * heads + h) * k + l];
    return ES_OK;
}

/* Computes scores of a query over a strip and adds them to its grid: weights and values in bins of
 * the score. */
static es_status gather_query(void *user, int64_t unit, int thread, es_error *err)
{
    const exact_walk *w = user;
    const exact_slice *slice = w->slice;
    const int64_t k = w->width, head = unit / w->few, i = unit % w->few, n = w->n;
    const float *q = w->of[slice->layer].q + i * w->all + (slice->first + head) * k;
    const double *keys = w->keys + head * k * w->strip;
    double *scores = w->scores + thread * w->strip;
    for (int64_t j = 0; j < n; j++)
        scores[j] = 0.0;
    for (int64_t l = 0; l < k; l++) {
        const double scaled = (double)q[l] / sqrt((double)k);
        for (int64_t j = 0; j < n; j++)
            scores[j] += scaled * keys[l * w->strip + j];
    }
    for (int64_t j = 0; j < n; j++)
        if (!(fabs(scores[j]) <= ES_DRAW_MOST_SCORE))
            return es_fail(err, ES_E_RANGE, "probe.score", "weights of the model are damaged",
                           "a score is %g", scores[j]);
    return es_draw_grid_add(&slice->grids[2 * unit + w->half], scores,
                            w->values + head * k * w->strip, n, err);
}

/* Adds a strip of the pool to all slices of a layer. Strips alternate between two halves, as in
 * limit.c. */
static es_status gather_strip(void *user, int64_t layer, int64_t first, int64_t count,
                              const float *x, es_error *err)
{
    exact_walk *w = user;
    const es_exec quiet = es_exec_quiet(w->spec->exec);
    w->n = count;
    w->half = (int)(first / w->strip % 2);
    for (int64_t i = 0; i < w->count; i++) {
        w->slice = &w->slices[i];
        if (w->slice->layer != layer - w->layer)
            continue;
        const es_probe_weights *p = &w->of[w->slice->layer].weights;
        ES_TRY(project_group(w, x, p->wk, true, w->keys, err));
        ES_TRY(project_group(w, x, p->wv, false, w->values, err));
        ES_TRY(es_parallel_run(&quiet, w->slice->heads * w->few, gather_query, w, err));
    }
    return ES_OK;
}

/* ---- a query ---- */

/* Computes the exact expected error at all sizes over one set of keys, by one integral for each
 * size (THEORY 13). */
static es_status solve_set(const exact_walk *w, const es_draw_grid *const *grids, int64_t n,
                           es_draw_risk *risks, double *out, es_error *err)
{
    es_draw_atoms atoms;
    const int64_t all = es_probe_exact_sizes(w->spec);
    int64_t keys = 0;
    for (int64_t g = 0; g < n; g++)
        keys += grids[g]->keys;
    for (int64_t s = 0; s < all; s++)
        out[s] = (double)NAN;
    if (keys == 0)
        return ES_OK; /* a pool of one token has no other half */
    ES_TRY(es_draw_atoms_of(grids, n, &atoms, err));
    const es_status status = es_draw_solve(&atoms, w->sizes, all, risks, NULL, err);
    es_draw_atoms_free(&atoms);
    for (int64_t s = 0; s < all && status == ES_OK; s++)
        out[s] = risks[s].square.val;
    return status;
}

/* Computes a query over all keys and over each half; the halves give the pool's own error. */
static es_status solve_query(void *user, int64_t unit, int thread, es_error *err)
{
    const exact_walk *w = user;
    const int64_t all = es_probe_exact_sizes(w->spec);
    es_draw_grid *grids = w->slice->grids + 2 * unit;
    const es_draw_grid *const both[2] = {&grids[0], &grids[1]};
    es_draw_risk *risks = w->risks + thread * all;
    double *out = w->slice->out + unit * SETS * all;
    ES_TRY(solve_set(w, both, 2, risks, out + ALL * all, err));
    ES_TRY(solve_set(w, both, 1, risks, out + EVEN * all, err));
    ES_TRY(solve_set(w, both + 1, 1, risks, out + ODD * all, err));
    es_draw_grid_free(&grids[0]);
    es_draw_grid_free(&grids[1]);
    return ES_OK;
}

/* ---- all of them ---- */

/* Gathers all slices in one walk over the pool and then solves them one after the other. */
static es_status walk_slices(exact_walk *w, es_error *err)
{
    const int64_t tokens = es_pool_about(w->spec->pool).tokens;
    const es_pool_range range = {
        .layer = w->layer, .layers = w->layers, .last = tokens, .strip = w->strip};
    /* gathering is to solving as es_probe_cost_of() has it */
    const double gathering = es_probe_gathering((double)tokens), each = 1.0 / (double)w->count;
    es_exec_part gather = {w->spec->exec, 0.0, gathering};
    const es_exec gathered = es_exec_of_part(&gather);
    ES_TRY(es_pool_walk(w->spec->pool, &range, &gathered, gather_strip, w, err));
    for (int64_t i = 0; i < w->count; i++) {
        es_exec_part solve = {w->spec->exec, gathering + (1.0 - gathering) * (double)i * each,
                              gathering + (1.0 - gathering) * (double)(i + 1) * each};
        const es_exec solved = es_exec_of_part(&solve);
        w->slice = &w->slices[i];
        ES_TRY(es_parallel_run(&solved, w->slice->heads * w->few, solve_query, w, err));
        const int64_t left = GROUP - w->slice->heads; /* heads that there are not */
        for (int64_t j = 0; j < left * w->few * SETS * es_probe_exact_sizes(w->spec); j++)
            w->slice->out[es_probe_exact_at(w->spec, w->few, w->slice->heads, 0) + j] = 0.0;
    }
    return ES_OK;
}

es_status es_probe_exact_slices(const es_probe_spec *spec, int64_t first, int64_t count,
                                const double *centers, double *out, es_error *err)
{
    ES_TRY(es_probe_check(spec, 0, err));
    const es_model_config *c = es_model_config_of(spec->model);
    const int64_t per = es_probe_slices(spec);
    if (first < 0 || count < 1 || first > c->layers * per - count)
        return es_fail(err, ES_E_RANGE, "probe.slices", "count from 0",
                       "slices %lld to %lld of %lld", (long long)first,
                       (long long)(first + count - 1), (long long)(c->layers * per));
    exact_walk w = {.spec = spec,
                    .layer = first / per,
                    .layers = (first + count - 1) / per + 1 - first / per,
                    .count = count,
                    .few = few_of(spec),
                    .strip = es_probe_strip(es_pool_about(spec->pool).tokens),
                    .width = c->head_dim,
                    .hidden = c->hidden,
                    .all = c->query_width};
    es_status status = prepare(&w, first, centers, out, err);
    if (status == ES_OK)
        status = walk_slices(&w, err);
    release_exact(&w);
    return status;
}

/* One slice after the other; the last may have heads that there are not. */
static es_status exact_layer_of(const es_probe_spec *spec, int64_t layer, const double *centers,
                                double *scratch, double *exact, es_error *err)
{
    const int64_t per = es_probe_slices(spec), size = es_probe_slice_numbers(spec);
    const int64_t all = es_probe_exact_numbers(spec);
    for (int64_t i = 0; i < per; i++) {
        es_exec_part share = {spec->exec, (double)i / (double)per, (double)(i + 1) / (double)per};
        const es_exec exec = es_exec_of_part(&share);
        es_probe_spec of_slice = *spec;
        of_slice.exec = &exec;
        ES_TRY(es_probe_exact_slices(&of_slice, layer * per + i, 1, centers, scratch, err));
        const int64_t left = all - i * size;
        memcpy(exact + i * size, scratch, (size_t)(left < size ? left : size) * sizeof *scratch);
    }
    return ES_OK;
}

es_status es_probe_exact(const es_probe_spec *spec, int64_t layer, const double *numbers,
                         double *exact, es_error *err)
{
    ES_TRY(es_probe_check(spec, layer, err));
    es_mem_limit *budget = es_probe_budget(spec);
    int64_t count;
    double *scratch;
    ES_TRY(ES_MEM_NEW(budget, scratch, es_probe_slice_numbers(spec), "errors", err));
    const es_status status =
        exact_layer_of(spec, layer, numbers + es_probe_centers(spec, &count), scratch, exact, err);
    es_mem_free(budget, scratch);
    return status;
}
