/* SPDX-License-Identifier: Apache-2.0 */
/* head_rows.c : queries, keys and values of one head, from what its attention is given. */
#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "linalg/linalg.h"
#include "model/model.h"
#include "model/model_inside.h"

/* out (n, k) = x w' + b. */
static es_status project(const es_view *x, const es_view *w, const es_view *b, es_mem_limit *budget,
                         double *out, es_error *err)
{
    const es_view down = es_view_transpose(w);
    ES_TRY(es_mat_multiply(x, &down, budget, out, err));
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < w->rows; j++)
            out[i * w->rows + j] += es_view_get(b, 0, j);
    return ES_OK;
}

/* A head's norm, whose scale is in the model's precision, on rows in f64. `scale` (k) is scratch.
 */
static void norm_rows(const es_model *m, const es_linear *norm, const es_head_rows *rows,
                      double *scale)
{
    const es_view view = {
        norm->w, m->precision, 1, rows->k, 0, (int64_t)es_dtype_size(m->precision)};
    if (!norm->w)
        return;
    es_view_read_row(&view, 0, scale);
    const es_linear wide = {scale, NULL};
    es_row_kernels_f64.norm_heads(&wide, m->config.layer_norm_eps, rows);
}

es_status es_model_head_rows(const es_model *model, int64_t layer, int64_t head, const es_view *x,
                             es_mem_limit *budget, double *q, double *k, double *v, es_error *err)
{
    const es_model_config *c = &model->config;
    const int64_t n = x->rows, half = c->rotary.width / 2;
    const es_head_rows queries = {q, n, c->head_dim, 1, c->head_dim};
    const es_head_rows keys = {k, n, c->head_dim, 1, c->head_dim};
    es_model_head h;
    double *memory;
    ES_TRY(es_model_head_of(model, layer, head, &h, err));
    if (half && n > c->positions)
        return es_fail(err, ES_E_RANGE, "forward.length", "cut the text into blocks",
                       "a block has %lld tokens; the model has %lld positions", (long long)n,
                       (long long)c->positions);
    ES_TRY(project(x, &h.wq, &h.bq, budget, q, err));
    ES_TRY(project(x, &h.wk, &h.bk, budget, k, err));
    ES_TRY(project(x, &h.wv, &h.bv, budget, v, err));
    ES_TRY(ES_MEM_NEW(budget, memory, 2 * n * half + c->head_dim, "angles", err));
    double *cosines = memory, *sines = cosines + n * half, *scale = sines + n * half;
    norm_rows(model, &model->layers[layer].norm_q, &queries, scale);
    norm_rows(model, &model->layers[layer].norm_k, &keys, scale);
    if (half) {
        es_rotary_angles(c, n, cosines, sines);
        es_row_kernels_f64.turn(&queries, c->rotary.width, cosines, sines);
        es_row_kernels_f64.turn(&keys, c->rotary.width, cosines, sines);
    }
    es_mem_free(budget, memory);
    return ES_OK;
}
