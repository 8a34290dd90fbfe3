/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : outputs of one head for a fixed set of queries, over n tokens and in the limit.
 * Tokens come tile by tile, from a law or from a pool; only the state of attention is kept. */
#include "experiments/picture/picture.h"

#include <math.h>

#include <esscher/attend.h>

#include "attention/attend.h"
#include "base/error.h"
#include "base/memory.h"
#include "experiments/kit/cell_kit.h"
#include "experiments/kit/pool_layer.h"
#include "limit/limit.h"
#include "model/layer_heads.h"
#include "tokens/tokens.h"

enum { TILE = 8192 }; /* tokens that are held at a time */

enum { PICTURE_TOKENS = ES_EXPERIMENT_PICTURE, PICTURE_QUERIES = ES_EXPERIMENT_PICTURE + 1 };

/* Returns the memory limit of a spec; NULL: none. */
static es_mem_limit *budget_of_picture(const es_picture_spec *spec)
{
    return spec->exec ? spec->exec->budget : NULL;
}

int64_t es_picture_channels(const es_picture_spec *spec)
{
    if (spec->law)
        return es_head_channels(spec->head, spec->law->dim);
    const es_model_config *c = es_model_config_of(spec->model);
    return c->head_dim;
}

/* Makes the state of all queries before the first token. */
static es_status new_state(const es_picture_spec *spec, double scale, es_partial **out,
                           es_error *err)
{
    const es_exec quiet = es_exec_quiet(spec->exec);
    const es_attend_opts opts = {
        .precision = ES_F64, .scales = &scale, .n_scales = 1, .exec = &quiet};
    return es_partial_new(spec->queries, es_picture_channels(spec), &opts, out, err);
}

/* ==== tokens of a law ==== */

/* Attention over tokens of a law, tile by tile. */
typedef struct law_view {
    const es_picture_spec *spec;
    double *asking, *q;        /* (queries, dim) and what Wq makes of them */
    double *x, *keys, *values; /* of a tile of tokens */
    int64_t key_dim, channels;
} law_view;

/* Draws queries of the law and projects them. */
static es_status ask(law_view *v, es_arena *arena, es_error *err)
{
    const es_picture_spec *s = v->spec;
    const es_address at = {.seed = s->seed, .experiment = PICTURE_QUERIES};
    const es_exec quiet = es_exec_quiet(s->exec);
    const int64_t d = s->law->dim, m = s->queries;
    v->key_dim = es_head_key_dim(s->head, d);
    v->channels = es_head_channels(s->head, d);
    ES_TRY(ES_ARENA_NEW_2D(arena, v->asking, m, d + v->key_dim, "queries", err));
    v->q = v->asking + m * d;
    ES_TRY(es_tokens_fill(s->law, &at, m, &quiet, v->asking, err));
    return es_head_project(v->asking, m, d, s->head->Wq ? s->head->Wq : s->head->A, arena->budget,
                           v->q, err);
}

/* Draws a tile of tokens and adds it to the state of attention. */
static es_status meet_tile(const law_view *v, int64_t first, int64_t count, es_partial *state,
                           es_error *err)
{
    const es_picture_spec *s = v->spec;
    const es_address at = {.seed = s->seed, .experiment = PICTURE_TOKENS, .token = (uint64_t)first};
    const es_exec quiet = es_exec_quiet(s->exec);
    const int64_t d = s->law->dim;
    es_mem_limit *budget = budget_of_picture(s);
    ES_TRY(es_tokens_fill(s->law, &at, count, &quiet, v->x, err));
    ES_TRY(es_head_project(v->x, count, d, s->head->Wk, budget, v->keys, err));
    ES_TRY(es_head_project(v->x, count, d, s->head->V, budget, v->values, err));
    const es_view q = es_view_f64(v->q, s->queries, v->key_dim);
    const es_view keys = es_view_f64(v->keys, count, v->key_dim);
    const es_view values = es_view_f64(v->values, count, v->channels);
    return es_partial_attend(state, &q, &keys, &values, first, err);
}

/* Goes over n tokens tile by tile, so that memory does not grow with n. */
static es_status meet_law(law_view *v, int64_t n, es_arena *arena, es_partial *state, es_error *err)
{
    const int64_t tile = n < TILE ? n : TILE, d = v->spec->law->dim;
    ES_TRY(ES_ARENA_NEW_2D(arena, v->x, tile, d + v->key_dim + v->channels, "tokens", err));
    v->keys = v->x + tile * d;
    v->values = v->keys + tile * v->key_dim;
    for (int64_t first = 0; first < n; first += tile) {
        const int64_t count = n - first < tile ? n - first : tile;
        ES_TRY(meet_tile(v, first, count, state, err));
        ES_TRY(es_exec_report_progress(v->spec->exec, first + count, n, err));
    }
    return ES_OK;
}

/* Computes outputs over the first n tokens of a law. */
static es_status law_outputs(const es_picture_spec *spec, int64_t n, double *out, es_error *err)
{
    es_arena arena = {.budget = budget_of_picture(spec)};
    law_view v = {.spec = spec};
    es_partial *state = NULL;
    es_status status = ask(&v, &arena, err);
    if (status == ES_OK)
        status = new_state(spec, spec->scale * es_head_unit(spec->head), &state, err);
    if (status == ES_OK)
        status = meet_law(&v, n, &arena, state, err);
    if (status == ES_OK)
        status = es_partial_finish(state, &(es_attend_out){.output = out}, err);
    es_partial_free(state);
    es_arena_free(&arena);
    return status;
}

/* Computes the limit Gamma(x) of a law at the queries. */
static es_status map_limit(const es_picture_spec *spec, es_arena *arena, double *out, double *error,
                           es_error *err)
{
    const int64_t d = spec->law->dim;
    law_view v = {.spec = spec};
    double *a;
    ES_TRY(ask(&v, arena, err));
    ES_TRY(ES_ARENA_NEW_2D(arena, a, d + v.channels, d, "A and V", err));
    ES_TRY(es_head_write(spec->head, d, a, a + d * d, err));
    for (int64_t i = 0; i < d * d; i++)
        a[i] *= spec->scale;
    const es_limit_head head = {.A = a, .V = a + d * d, .dv = v.channels};
    const es_view queries = es_view_f64(v.asking, spec->queries, d);
    return es_limit_map(spec->law, &head, &queries, spec->exec, out, NULL, error, err);
}

/* Computes the limit of a law, with memory of its own. */
static es_status law_limit(const es_picture_spec *spec, double *out, double *error, es_error *err)
{
    es_arena arena = {.budget = budget_of_picture(spec)};
    const es_status status = map_limit(spec, &arena, out, error, err);
    es_arena_free(&arena);
    return status;
}

/* ==== a head of a model ==== */

/* Attention of a head over tokens of a pool. */
typedef struct pool_view {
    const es_picture_spec *spec;
    es_probe_spec probe; /* whose rows are looked at */
    es_probe_weights weights;
    float *q;                 /* (queries, Q) of all heads */
    float *x, *keys, *values; /* of a tile: (H), (k), (k) */
    es_partial *state[2];     /* over a draw; over the halves of the pool */
    int64_t strip;            /* rows of a strip: they alternate between the halves */
} pool_view;

/* Reads weights and queries of the head, and allocates a strip of tokens. */
static es_status open_pool(pool_view *v, const es_picture_spec *spec, const int64_t *n,
                           int64_t tile, es_arena *arena, es_error *err)
{
    const double scale = 1.0 / sqrt((double)es_picture_channels(spec));
    *v = (pool_view){.spec = spec, .strip = tile};
    v->probe = (es_probe_spec){.model = spec->model,
                               .pool = spec->pool,
                               .sizes = n,
                               .n_sizes = 1,
                               .queries = spec->queries,
                               .seed = spec->seed,
                               .exec = spec->exec};
    ES_TRY(es_probe_check(&v->probe, spec->layer, err));
    ES_TRY(es_probe_weights_new(&v->probe, spec->layer, &v->weights, err));
    const int64_t H = v->weights.hidden, k = v->weights.width;
    ES_TRY(ES_ARENA_NEW_2D(arena, v->q, spec->queries, v->weights.all, "queries", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, v->x, tile, H + 2 * k, "tokens", err));
    v->keys = v->x + tile * H;
    v->values = v->keys + tile * k;
    ES_TRY(es_probe_queries(&v->probe, spec->layer, &v->weights, v->q, err));
    for (int half = 0; half < 2; half++)
        ES_TRY(new_state(spec, scale, &v->state[half], err));
    return ES_OK;
}

/* Frees what open_pool() made, also after a failure. */
static void close_pool(pool_view *v)
{
    es_partial_free(v->state[0]);
    es_partial_free(v->state[1]);
    es_probe_weights_free(&v->probe, &v->weights);
}

/* Attends to tokens x (count, H), the first of which is number `first`. */
static es_status meet_rows(const pool_view *v, const float *x, int64_t first, int64_t count,
                           es_partial *state, es_error *err)
{
    const es_probe_weights *w = &v->weights;
    const int64_t H = w->hidden, k = w->width, at = v->spec->number * k;
    ES_TRY(es_probe_project(v->spec->exec, x, count, w->wk + at * H, NULL, k, H, v->keys, err));
    ES_TRY(es_probe_project(v->spec->exec, x, count, w->wv + at * H, NULL, k, H, v->values, err));
    es_view q = es_view_f32(v->q + at, v->spec->queries, k);
    q.row_stride = w->all * (int64_t)sizeof(float);
    const es_view keys = es_view_f32(v->keys, count, k), values = es_view_f32(v->values, count, k);
    return es_partial_attend(state, &q, &keys, &values, first, err);
}

/* Computes outputs over n tokens drawn from the pool. */
static es_status draw_pool(const pool_view *v, int64_t n, es_arena *arena, double *out,
                           es_error *err)
{
    const es_picture_spec *s = v->spec;
    int64_t *rows;
    ES_TRY(ES_ARENA_NEW(arena, rows, n, "a draw", err));
    ES_TRY(es_probe_draw_rows(&v->probe, es_pool_about(s->pool).tokens, s->layer, 0, rows, err));
    for (int64_t first = 0; first < n; first += v->strip) {
        const int64_t count = n - first < v->strip ? n - first : v->strip;
        ES_TRY(es_pool_gather(s->pool, s->layer, rows + first, count, v->x, err));
        ES_TRY(meet_rows(v, v->x, first, count, v->state[0], err));
        ES_TRY(es_exec_report_progress(s->exec, first + count, n, err));
    }
    return es_partial_finish(v->state[0], &(es_attend_out){.output = out}, err);
}

/* Adds a strip of the pool to its half. */
static es_status add_strip(void *user, int64_t layer, int64_t first, int64_t count, const float *x,
                           es_error *err)
{
    const pool_view *v = user;
    (void)layer;
    return meet_rows(v, x, first, count, v->state[first / v->strip % 2], err);
}

/* Computes outputs over the whole pool, and half the distance between those of its halves, which
 * are cut as in es_probe_measure(). */
static es_status walk_pool(pool_view *v, es_arena *arena, double *out, double *error, es_error *err)
{
    const es_picture_spec *s = v->spec;
    const int64_t k = v->weights.width, m = s->queries;
    const es_pool_range range = {
        .layer = s->layer, .layers = 1, .last = es_pool_about(s->pool).tokens, .strip = v->strip};
    double *halves;
    ES_TRY(ES_ARENA_NEW_2D(arena, halves, 2 * m, k, "outputs", err));
    ES_TRY(es_pool_walk(s->pool, &range, s->exec, add_strip, v, err));
    for (int half = 0; half < 2; half++)
        ES_TRY(es_partial_finish(v->state[half], &(es_attend_out){.output = halves + half * m * k},
                                 err));
    for (int64_t i = 0; i < m; i++)
        error[i] = 0.5 * es_distance(halves + i * k, halves + (m + i) * k, k);
    ES_TRY(es_partial_merge(v->state[0], v->state[1], err));
    return es_partial_finish(v->state[0], &(es_attend_out){.output = out}, err);
}

/* Computes outputs over n tokens of the pool; n = 0: the limit. */
static es_status pool_outputs(const es_picture_spec *spec, int64_t n, double *out, double *error,
                              es_error *err)
{
    es_arena arena = {.budget = budget_of_picture(spec)};
    const int64_t tokens = es_pool_about(spec->pool).tokens, size = n ? n : tokens;
    pool_view v = {0};
    es_status status = open_pool(&v, spec, &size,
                                 n == 0     ? es_probe_strip(tokens)
                                 : n < TILE ? n
                                            : TILE,
                                 &arena, err);
    if (status == ES_OK)
        status = n ? draw_pool(&v, n, &arena, out, err) : walk_pool(&v, &arena, out, error, err);
    close_pool(&v);
    es_arena_free(&arena);
    return status;
}

/* ==== either ==== */

/* Checks head and number of queries. */
static es_status check_model(const es_picture_spec *spec, es_error *err)
{
    const es_model_config *c = es_model_config_of(spec->model);
    if (spec->number < 0 || spec->number >= c->heads)
        return es_fail(err, ES_E_RANGE, "picture.head", "count from 0", "head %lld of %lld",
                       (long long)spec->number, (long long)c->heads);
    return es_check_range(spec->queries, 1, es_pool_about(spec->pool).tokens, "picture.queries",
                          err);
}

/* Checks a spec. */
static es_status check(const es_picture_spec *spec, int64_t n, es_error *err)
{
    ES_TRY(es_check_range(n, spec->law ? 1 : 2, INT64_C(1) << 40, "picture.sizes", err));
    if (!spec->law)
        return check_model(spec, err);
    ES_TRY(es_check_range(spec->queries, 1, INT64_C(1) << 24, "picture.queries", err));
    ES_TRY(es_law_check(spec->law, err));
    return es_head_check(spec->head, spec->law->dim, err);
}

es_status es_picture_outputs(const es_picture_spec *spec, int64_t n, double *out, es_error *err)
{
    ES_TRY(check(spec, n, err));
    return spec->law ? law_outputs(spec, n, out, err) : pool_outputs(spec, n, out, NULL, err);
}

es_status es_picture_limit(const es_picture_spec *spec, double *out, double *error, es_error *err)
{
    ES_TRY(check(spec, 2, err));
    return spec->law ? law_limit(spec, out, error, err) : pool_outputs(spec, 0, out, error, err);
}

/* Both products of attention and an exponential, which takes as long as some 40 operations, for
 * every pair; projections of a token; a normal number takes as long as some 100. Memory: queries
 * and their states, a tile, the engine. */
es_picture_cost es_picture_cost_of(const es_picture_spec *spec, int64_t n)
{
    const double m = (double)spec->queries, c = (double)es_picture_channels(spec), N = (double)n;
    const double tile = fmin(N, TILE);
    if (!spec->law) {
        const es_model_config *model = es_model_config_of(spec->model);
        const double H = (double)model->hidden;
        return (es_picture_cost){.flops = N * (4.0 * H * c + m * (4.0 * c + 40.0)),
                                 .bytes = 4.0 * H * (5.0 * H + 2.0 * m + 1.0) +
                                          4.0 * tile * (2.0 * H + 2.0 * c) + 8.0 * N +
                                          64.0 * m * (c + 8.0) + 64e6 +
                                          es_layer_heads_bytes(model, ES_F32, spec->exec)};
    }
    const double d = (double)spec->law->dim,
                 k = (double)es_head_key_dim(spec->head, spec->law->dim);
    return (es_picture_cost){
        .flops = N * (d * (100.0 + 2.0 * k + 2.0 * c + 2.0 * d) + m * (2.0 * k + 2.0 * c + 40.0)),
        .bytes = 8.0 * (m + 2.0 * tile) * (d + k + c) + 16.0 * d * (d + c) + 64.0 * m * (c + 8.0) +
                 64e6};
}
