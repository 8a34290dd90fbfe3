/* cells.c : a layer of a real model, ready for questions: its matrices, all heads side by side, and
 * products with them; what was asked, checked; what it costs. */
#include "experiments/probe/inside.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "linalg/dense.h"
#include "model/model.h"

/* ---- matrices of all heads ---- */

static void copy_rows(const es_view *from, float *to, int64_t stride)
{
    for (int64_t i = 0; i < from->rows; i++)
        for (int64_t j = 0; j < from->cols; j++)
            to[i * stride + j] = (float)es_view_get(from, i, j);
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
    float *wo = out->bq + Q; /* transposed: row j is what channel j of the heads adds */
    for (int64_t h = 0; h < c->heads; h++) {
        es_model_head head;
        ES_TRY(es_model_head_of(spec->model, layer, h, &head, err));
        copy_rows(&head.wq, out->wq + h * k * H, H);
        copy_rows(&head.wk, out->wk + h * k * H, H);
        copy_rows(&head.wv, out->wv + h * k * H, H);
        if (head.bq.data)
            copy_rows(&head.bq, out->bq + h * k, k);
        for (int64_t i = 0; i < H; i++)
            for (int64_t j = 0; j < k; j++)
                wo[(h * k + j) * H + i] = (float)es_view_get(&head.wo, i, j);
    }
    return es_probe_project(spec->exec, wo, Q, wo, NULL, Q, H, out->gram, err);
}

void es_probe_weights_free(const es_probe_spec *spec, es_probe_weights *weights)
{
    es_mem_free(es_probe_budget(spec), weights->wq);
    *weights = (es_probe_weights){0};
}

/* ---- products ---- */

enum { STRIP = 1024 }; /* rows of a unit of work */

typedef struct projection {
    const float *x, *w, *bias;
    int64_t n, outputs, hidden;
    float *out;
} projection;

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
    const es_exec quiet = es_lab_quiet(exec);
    const int64_t strips = (n + STRIP - 1) / STRIP;
    ES_TRY(es_blas_room_for(es_parallel_threads(&quiet, strips), err));
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

/* ==== a layer ==== */

es_probe_layout es_probe_layout_of(const es_probe_spec *spec)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const int64_t H = c->hidden, Q = c->query_width;
    es_probe_layout at = {.mean = 0};
    at.cov = at.mean + H;
    at.limit = at.cov + H * H;
    at.about = at.limit + es_probe_queries_of(spec) * Q;
    at.sampling = at.about + ES_PROBE_ABOUT * c->heads;
    at.count = at.sampling + es_probe_queries_of(spec) * c->heads;
    return at;
}

int64_t es_probe_numbers(const es_probe_spec *spec) { return es_probe_layout_of(spec).count; }

/* What can be asked of any pool of so many tokens. */
static es_status check_question(const es_probe_spec *spec, int64_t tokens, es_error *err)
{
    if (!spec || !spec->model || !spec->sizes || spec->n_sizes < 1)
        return es_fail(err, ES_E_ARGUMENT, "probe.null", "", "model or sizes are missing");
    if (es_model_config_of(spec->model)->head_norms)
        return es_fail(
            err, ES_E_UNSUPPORTED, "probe.norms",
            "esscher probe --look positions has horizons of queries and keys as they are",
            "heads of %s norm their queries and keys: scores are no x'A'y, and have "
            "neither horizon nor limit without positions",
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
    ES_TRY(check_question(spec, pool.tokens, err));
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

#define GATHER 3600.0 /* operations for each token of a query of a head: 120 ns */
#define SOLVE  1.5e8  /* and for each query of a head: 5 ms */

double es_probe_gathering(double tokens) { return GATHER * tokens / (GATHER * tokens + SOLVE); }

es_status es_probe_cost_of(const es_probe_spec *spec, int64_t tokens, es_probe_cost *out,
                           es_error *err)
{
    ES_TRY(check_question(spec, tokens, err));
    const es_model_config *c = es_model_config_of(spec->model);
    /* one width for inputs and heads together, the larger */
    const double k = (double)c->head_dim, N = (double)tokens;
    const double H = fmax((double)c->hidden, k * (double)c->heads);
    const double n = (double)spec->sizes[spec->n_sizes - 1], P = (double)spec->n_sizes;
    const double m = (double)es_probe_queries_among(spec, tokens);
    const double keys = fmin(N, ES_PROBE_KEYS);
    const double few = (double)es_probe_exact_of(spec, es_probe_queries_among(spec, tokens));
    const double heads = (double)c->heads;
    /* both products of attention, that with values for every scale, and an exponential, which takes
     * as long as some 40 operations */
    const double once = m * (4.0 * H + 40.0 * heads), twice = m * (6.0 * H + 80.0 * heads);
    *out = (es_probe_cost){
        .parts = es_probe_parts_among(spec, tokens),
        /* keys, values and covariance (in f64, counted twice) */
        .limit_flops = N * (4.0 * H * H + 4.0 * H * H + twice),
        /* and errors of moments, of all heads together, of each alone, in f64 */
        .replicate_flops = n * (4.0 * H * H + once) + P * m * H * (2.0 * H + 16.0 * k),
        /* drawing a normal takes as long as some 100 operations */
        .control_flops = n * (H * (8.0 * k + 200.0) + once) + P * m * H * 8.0 * k,
        /* tables of exact expectations, 100 points of 1 ms for each size */
        .open_flops = 1.5e10 * P,
        /* in f64 */
        .exact_flops = N * 4.0 * H * H + heads * few * (GATHER * N + SOLVE),
        .exact_numbers = heads * few * ES_PROBE_SETS * (P + ES_PROBE_POWERS),
        /* drawn tokens, keys, values, or Gaussian ones of a head, or keys among which neighbours
         * are sought; errors and outputs; numbers of a layer twice; engine */
        .bytes = (size_t)(fmax(fmax(12.0 * n * H + 8.0 * n, 16.0 * n * k + 128.0 * k * k),
                               8.0 * keys * (H + 1.0)) +
                          16.0 * P * m * H + 16.0 * (m + H) * H + 24.0 * H * (H + k) + 64e6)};
    /* queries whose policies are compared, one on each thread */
    const es_exec quiet = es_lab_quiet(spec->exec);
    out->bytes +=
        (size_t)((double)es_parallel_threads(&quiet, ES_PROBE_POLICY_QUERIES) *
                 es_policy_query_bytes(ES_PROBE_POLICY_TOKENS, c->head_dim, c->head_dim, 1));
    /* grids of scores, 64 points in a unit, of both halves */
    out->slice_bytes = fmin(heads, ES_PROBE_SLICE) * few * (k + 3.0) * 8.0 * 4096.0;
    /* of either half and every head, as it is, as numbers, and folded; moments; matrices, and
     * queries */
    out->state_bytes =
        3.0 * 8.0 * (2.0 * heads * m * (2.0 * (k + 8.0) + 2.0) + H * H) + 4.0 * H * (5.0 * H + m);
    out->bytes += (size_t)fmax(out->slice_bytes, out->state_bytes);
    return ES_OK;
}

static es_status open_layer(es_probe *p, const double *numbers, es_error *err)
{
    const es_probe_layout at = es_probe_layout_of(&p->spec);
    for (int64_t i = 0; i < at.about; i++)
        if (!isfinite(numbers[i]))
            return es_fail(err, ES_E_NONFINITE, "probe.numbers", "measure the layer again",
                           "number %lld of layer %lld is not finite", (long long)i,
                           (long long)p->layer);
    ES_TRY(ES_MEM_NEW(p->exec.budget, p->numbers, at.count, "numbers of a layer", err));
    memcpy(p->numbers, numbers, (size_t)at.count * sizeof(double));
    p->mean = p->numbers + at.mean;
    p->cov = p->numbers + at.cov;
    p->limit = p->numbers + at.limit;
    p->about = p->numbers + at.about;
    p->sampling = p->numbers + at.sampling;
    ES_TRY(ES_MEM_NEW(p->exec.budget, p->tables, p->spec.n_sizes, "tables of a probe", err));
    ES_TRY(es_probe_weights_new(&p->spec, p->layer, &p->weights, err));
    ES_TRY(ES_MEM_NEW_2D(p->exec.budget, p->q, p->queries, p->weights.all, "queries", err));
    ES_TRY(es_probe_queries(&p->spec, p->layer, &p->weights, p->q, err));
    ES_TRY(es_probe_grams_fill(p, err));
    return p->spec.draws_only ? ES_OK : es_probe_tables_fill(p, err);
}

es_status es_probe_open(const es_probe_spec *spec, int64_t layer, const double *numbers,
                        es_probe **out, es_error *err)
{
    es_probe *p;
    *out = NULL;
    ES_TRY(es_probe_check(spec, layer, err));
    ES_TRY(ES_MEM_NEW(es_probe_budget(spec), p, 1, "a probe", err));
    p->spec = *spec;
    p->exec = spec->exec ? *spec->exec : (es_exec){0};
    p->pool = es_pool_about(spec->pool);
    p->layer = layer;
    p->queries = es_probe_queries_of(spec);
    const es_status status = open_layer(p, numbers, err);
    if (status == ES_OK)
        *out = p;
    else
        es_probe_close(p);
    return status;
}

void es_probe_close(es_probe *probe)
{
    if (!probe)
        return;
    es_mem_limit *budget = probe->exec.budget;
    es_mem_free(budget, probe->grams);
    es_mem_free(budget, probe->q);
    es_probe_weights_free(&probe->spec, &probe->weights);
    es_mem_free(budget, probe->tables);
    es_mem_free(budget, probe->numbers);
    es_mem_free(budget, probe);
}
