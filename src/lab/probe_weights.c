#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "lab/probe.h"
#include "linalg/dense.h"

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
    const int64_t H = c->hidden, k = H / c->heads;
    *out = (es_probe_weights){.hidden = H, .heads = c->heads, .width = k};
    ES_TRY(es_mem_array(es_probe_budget(spec), 5 * H + 1, H, sizeof(float), "weights of a layer",
                        (void **)&out->wq, err));
    out->wk = out->wq + H * H;
    out->wv = out->wk + H * H;
    out->gram = out->wv + H * H;
    out->bq = out->gram + H * H;
    float *wo = out->bq + H; /* transposed: row j is what channel j of the heads adds */
    for (int64_t h = 0; h < c->heads; h++) {
        es_model_head head;
        ES_TRY(es_model_head_of(spec->model, layer, h, &head, err));
        copy_rows(&head.wq, out->wq + h * k * H, H);
        copy_rows(&head.wk, out->wk + h * k * H, H);
        copy_rows(&head.wv, out->wv + h * k * H, H);
        copy_rows(&head.bq, out->bq + h * k, k);
        for (int64_t i = 0; i < H; i++)
            for (int64_t j = 0; j < k; j++)
                wo[(h * k + j) * H + i] = (float)es_view_get(&head.wo, i, j);
    }
    return es_probe_project(spec->exec, wo, H, wo, NULL, H, H, out->gram, err);
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
    es_exec quiet = exec ? *exec : (es_exec){0};
    quiet.progress = NULL; /* too short to be worth telling */
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
    const es_address at = {
        .seed = spec->seed, .experiment = ES_PROBE_QUERIES, .cell = (uint64_t)layer};
    es_permutation shuffle;
    int64_t *rows;
    float *x = NULL;
    ES_TRY(es_permutation_init(&at, es_pool_about(spec->pool).tokens, &shuffle, err));
    es_status status = es_mem_array(es_probe_budget(spec), m, 1, sizeof *rows, "rows of queries",
                                    (void **)&rows, err);
    if (status == ES_OK)
        status = es_mem_array(es_probe_budget(spec), m, H, sizeof *x, "queries", (void **)&x, err);
    for (int64_t i = 0; status == ES_OK && i < m; i++)
        rows[i] = es_permutation_at(&shuffle, i);
    if (status == ES_OK)
        status = es_pool_gather(spec->pool, layer, rows, m, x, err);
    if (status == ES_OK)
        status = es_probe_project(spec->exec, x, m, w->wq, w->bq, H, H, out, err);
    es_mem_free(es_probe_budget(spec), x);
    es_mem_free(es_probe_budget(spec), rows);
    return status;
}
