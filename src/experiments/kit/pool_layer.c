/* SPDX-License-Identifier: Apache-2.0 */
/* pool_layer.c : the matrices of a layer, all heads side by side, and products with them; checks;
 * rows of a pool. */
#include "experiments/kit/pool_layer.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "experiments/kit/cell_kit.h"
#include "linalg/dense.h"
#include "model/layer_heads.h"
#include "random/random.h"

/* ---- matrices of all heads ---- */

/* Copies a matrix of any type, times a factor, to f32 rows of a wider matrix. */
static void copy_rows(const es_view *from, double factor, float *to, int64_t stride)
{
    for (int64_t i = 0; i < from->rows; i++)
        for (int64_t j = 0; j < from->cols; j++)
            to[i * stride + j] = (float)(factor * es_view_get(from, i, j));
}

es_status es_probe_weights_new(const es_probe_spec *spec, int64_t layer, es_probe_weights *out,
                               es_error *err)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const int64_t H = c->hidden, k = c->head_dim, Q = c->query_width;
    *out = (es_probe_weights){.hidden = H, .heads = c->heads, .width = k, .all = Q};
    ES_TRY(
        ES_MEM_NEW_2D(es_probe_budget(spec), out->wq, 4 * H + Q + 1, Q, "weights of a layer", err));
    out->wk = out->wq + Q * H;
    out->wv = out->wk + Q * H;
    out->gram = out->wv + Q * H;
    out->bq = out->gram + Q * Q;
    /* scores here are q.k / sqrt(k): another divisor of the model's becomes a factor of queries */
    const double factor = sqrt((double)k) / c->score_divisor;
    float *wo = out->bq + Q; /* transposed: row j is what channel j of the heads adds */
    es_layer_heads *heads;
    ES_TRY(es_layer_heads_open(spec->model, layer, spec->exec, &heads, err));
    for (int64_t h = 0; h < c->heads; h++) {
        const es_model_head head = es_layer_heads_at(heads, h);
        copy_rows(&head.wq, factor, out->wq + h * k * H, H);
        copy_rows(&head.wk, 1.0, out->wk + h * k * H, H);
        copy_rows(&head.wv, 1.0, out->wv + h * k * H, H);
        if (head.bq.data)
            copy_rows(&head.bq, factor, out->bq + h * k, k);
        for (int64_t i = 0; i < H; i++)
            for (int64_t j = 0; j < k; j++)
                wo[(h * k + j) * H + i] = (float)es_view_get(&head.wo, i, j);
    }
    es_layer_heads_close(heads);
    return es_probe_project(spec->exec, wo, Q, wo, NULL, Q, H, out->gram, err);
}

void es_probe_weights_free(const es_probe_spec *spec, es_probe_weights *weights)
{
    es_mem_free(es_probe_budget(spec), weights->wq);
    *weights = (es_probe_weights){0};
}

/* ---- products ---- */

enum { STRIP = 1024 }; /* rows of a unit of work */

/* A product that threads share by strips of tokens. */
typedef struct projection {
    const float *x, *w, *bias;
    int64_t n, outputs, hidden;
    float *out;
} projection;

/* Projects a strip of tokens: x W' plus bias. */
static es_status project_strip(void *user, int64_t unit, int thread, es_error *err)
{
    const projection *p = user;
    const int64_t m = p->outputs, first = unit * STRIP;
    const int64_t rows = p->n - first < STRIP ? p->n - first : STRIP;
    float *out = p->out + first * m;
    (void)thread;
    (void)err;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < m; j++)
            out[i * m + j] = p->bias ? p->bias[j] : 0.0f;
    es_gemm_add(ES_F32, rows, m, p->hidden, p->x + first * p->hidden, p->w, out);
    return ES_OK;
}

es_status es_probe_project(const es_exec *exec, const float *x, int64_t n, const float *w,
                           const float *bias, int64_t outputs, int64_t hidden, float *out,
                           es_error *err)
{
    projection p = {
        .x = x, .w = w, .bias = bias, .n = n, .outputs = outputs, .hidden = hidden, .out = out};
    const es_exec quiet = es_exec_quiet(exec);
    const int64_t strips = (n + STRIP - 1) / STRIP;
    ES_TRY(es_blas_scratch_for(es_parallel_threads(&quiet, strips), err));
    es_blas_enter();
    const es_status status = es_parallel_run(&quiet, strips, project_strip, &p, err);
    es_blas_leave();
    return status;
}

es_status es_probe_queries(const es_probe_spec *spec, int64_t layer, const es_probe_weights *w,
                           float *out, es_error *err)
{
    const int64_t m = es_probe_queries_of(spec), H = w->hidden;
    int64_t *rows;
    float *x = NULL;
    es_status status = ES_MEM_NEW(es_probe_budget(spec), rows, m, "rows of queries", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(es_probe_budget(spec), x, m, H, "queries", err);
    if (status == ES_OK)
        status = es_probe_query_rows(spec, es_pool_about(spec->pool).tokens, layer, rows, err);
    if (status == ES_OK)
        status = es_pool_gather(spec->pool, layer, rows, m, x, err);
    if (status == ES_OK)
        status = es_probe_project(spec->exec, x, m, w->wq, w->bq, w->all, H, out, err);
    es_mem_free(es_probe_budget(spec), x);
    es_mem_free(es_probe_budget(spec), rows);
    return status;
}

/* ---- checks ---- */

es_status es_probe_check_question(const es_probe_spec *spec, int64_t tokens, es_error *err)
{
    if (spec->n_sizes < 1)
        return es_fail(err, ES_E_RANGE, "probe.sizes", "give one size at least", "no sizes");
    if (es_model_config_of(spec->model)->head_norms)
        return es_fail(
            err, ES_E_UNSUPPORTED, "probe.norms",
            "esscher probe --look positions has horizons of queries and keys as they are",
            "heads of %s norm their queries and keys: limits and horizons here are computed for "
            "scores of the form x'A'y, which these are not",
            es_model_config_of(spec->model)->model_type);
    if (es_model_config_of(spec->model)->score_cap > 0.0)
        return es_fail(
            err, ES_E_UNSUPPORTED, "probe.cap",
            "esscher probe --look positions measures heads as they are",
            "scores of %s are capped: limits and horizons here are computed for scores of the "
            "form x'A'y, which these are not",
            es_model_config_of(spec->model)->model_type);
    if (es_model_config_of(spec->model)->sinks)
        return es_fail(
            err, ES_E_UNSUPPORTED, "probe.sinks",
            "esscher probe --look positions measures heads as they are",
            "heads of %s have learned sinks: the sink's weight falls to 0 as the number of keys "
            "grows, so that the limit is that of a head without it",
            es_model_config_of(spec->model)->model_type);
    if (spec->queries < 0 || spec->exact < 0)
        return es_fail(err, ES_E_RANGE, "probe.queries",
                       "1 or more; 0 for 1024, of which 64 exactly", "%lld queries, %lld exactly",
                       (long long)spec->queries, (long long)spec->exact);
    for (int64_t i = 0; i < spec->n_sizes; i++)
        if (spec->sizes[i] < 2 || spec->sizes[i] > ES_PROBE_SIZE_MOST ||
            (i && spec->sizes[i] <= spec->sizes[i - 1]))
            return es_fail(err, ES_E_RANGE, "probe.sizes", "2 to 2^40, increasing",
                           "size %lld is %lld", (long long)i, (long long)spec->sizes[i]);
    if (spec->without_replacement && spec->sizes[spec->n_sizes - 1] > tokens)
        return es_fail(err, ES_E_RANGE, "probe.sizes", "a larger pool, or draw with replacement",
                       "%lld distinct tokens of a pool of %lld",
                       (long long)spec->sizes[spec->n_sizes - 1], (long long)tokens);
    return ES_OK;
}

es_status es_probe_check(const es_probe_spec *spec, int64_t layer, es_error *err)
{
    const es_pool_info pool = es_pool_about(spec->pool);
    ES_TRY(es_probe_check_question(spec, pool.tokens, err));
    const es_model_config *c = es_model_config_of(spec->model);
    if (pool.hidden != c->hidden || pool.layers != c->layers || pool.heads != c->heads)
        return es_fail(err, ES_E_SHAPE, "probe.pool", "make a pool of this model",
                       "the pool has %lld layers of width %lld, the model %lld of %lld",
                       (long long)pool.layers, (long long)pool.hidden, (long long)c->layers,
                       (long long)c->hidden);
    if (layer < 0 || layer >= c->layers)
        return es_fail(err, ES_E_RANGE, "probe.layer", "count from 0", "layer %lld of %lld",
                       (long long)layer, (long long)c->layers);
    return ES_OK;
}

/* ---- rows of a pool ---- */

enum { STRIP_MOST = 4096, STRIPS_LEAST = 16 }; /* tokens read at a time */

/* Strips alternate between the halves: an even number of them, all of one length but the last, so
 * that the halves are alike in size, and enough of them that both see all of the text. */
int64_t es_probe_strip(int64_t tokens)
{
    const int64_t wanted = 2 * ((tokens + 2 * STRIP_MOST - 1) / (2 * STRIP_MOST));
    const int64_t strips = wanted < STRIPS_LEAST ? STRIPS_LEAST : wanted;
    return (tokens + strips - 1) / strips;
}

es_status es_probe_shuffled_rows(const es_address *at, int64_t tokens, int64_t n, int64_t *rows,
                                 es_error *err)
{
    es_permutation shuffle;
    ES_TRY(es_permutation_init(at, tokens, &shuffle, err));
    for (int64_t i = 0; i < n; i++)
        rows[i] = es_permutation_at(&shuffle, i);
    return ES_OK;
}

es_status es_probe_query_rows(const es_probe_spec *spec, int64_t tokens, int64_t layer,
                              int64_t *rows, es_error *err)
{
    const es_address at = {
        .seed = spec->seed, .experiment = ES_PROBE_QUERIES, .cell = (uint64_t)layer};
    return es_probe_shuffled_rows(&at, tokens, es_probe_queries_among(spec, tokens), rows, err);
}

es_status es_probe_draw_rows(const es_probe_spec *spec, int64_t tokens, int64_t layer,
                             int64_t replicate, int64_t *rows, es_error *err)
{
    const int64_t n = spec->sizes[spec->n_sizes - 1];
    const es_address at = {.seed = spec->seed,
                           .experiment = ES_PROBE_TOKENS,
                           .cell = (uint64_t)layer << 32 | (uint64_t)replicate};
    return spec->without_replacement ? es_probe_shuffled_rows(&at, tokens, n, rows, err)
                                     : es_integer_rows(&at, n, 1, tokens, rows, err);
}
