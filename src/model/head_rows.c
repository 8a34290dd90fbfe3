/* SPDX-License-Identifier: Apache-2.0 */
/* head_rows.c : queries, keys and values of one head, from what its attention is given. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "linalg/linalg.h"
#include "model/model.h"
#include "model/model_inside.h"

/* Computes out (n, k) = x w' + b. */
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

/* One side of a head: its queries or its keys, while they are made. */
typedef struct side {
    const es_model *model;
    const es_view *x; /* what attention is given */
    es_mem_limit *budget;
    const es_linear *norm;
    int64_t layer, head, heads; /* the head, and how many have queries or keys of their own */
    bool keys;
} side;

/* Returns a view of `count` numbers of a norm's scale, from `first` on. */
static es_view scale_of(const side *s, int64_t first, int64_t count)
{
    const int64_t item = (int64_t)es_dtype_size(s->model->precision);
    return (es_view){(char *)s->norm->w + first * item, s->model->precision, 1, count, 0, item};
}

/* Computes squares (n), the sums over all heads of the squares of a row, for a norm over all
 * heads. */
static es_status sum_squares(const side *s, double *squares, double *rows, es_error *err)
{
    const es_model_config *c = &s->model->config;
    const int64_t n = s->x->rows, k = c->head_dim, group = c->heads / s->heads;
    for (int64_t i = 0; i < n; i++)
        squares[i] = 0.0;
    for (int64_t g = 0; g < s->heads; g++) {
        es_model_head h;
        ES_TRY(es_model_head_of(s->model, s->layer, g * group, &h, err));
        ES_TRY(
            project(s->x, s->keys ? &h.wk : &h.wq, s->keys ? &h.bk : &h.bq, s->budget, rows, err));
        for (int64_t i = 0; i < n * k; i++)
            squares[i / k] += rows[i] * rows[i];
    }
    return ES_OK;
}

/* Normalises rows (n, k) of the head by the squares of all heads. */
static es_status norm_wide(const side *s, const es_head_rows *rows, double *scale, es_error *err)
{
    const es_model_config *c = &s->model->config;
    const int64_t n = rows->n, k = rows->k;
    double *squares, *x = rows->x;
    ES_TRY(ES_MEM_NEW_2D(s->budget, squares, n, k + 1, "norms of queries and keys", err));
    const es_status status = sum_squares(s, squares, squares + n, err);
    for (int64_t i = 0; i < n * k && status == ES_OK; i++) {
        const double mean = squares[i / k] / (double)(s->heads * k);
        x[i] = x[i] / sqrt(mean + c->layer_norm_eps) * scale[i % k];
    }
    es_mem_free(s->budget, squares);
    return status;
}

/* Applies a head's norm, whose scale is in the model's precision, to rows in f64. */
static es_status norm_rows(const side *s, const es_head_rows *rows, es_error *err)
{
    const es_arch *arch = s->model->arch;
    const int64_t k = rows->k;
    double *scale;
    if (!s->norm->w)
        return ES_OK;
    ES_TRY(ES_MEM_NEW_2D(s->budget, scale, 2, k, "the scale of a norm", err));
    const es_view view = scale_of(s, arch->head_norm == ES_HEAD_NORM_SHARED ? 0 : s->head * k, k);
    es_view_read_row(&view, 0, scale);
    es_status status = ES_OK;
    if (arch->head_norm == ES_HEAD_NORM_WIDE)
        status = norm_wide(s, rows, scale, err);
    else /* no norm of heads has a shift */
        es_row_kernels_f64.norm_heads(arch, &(es_linear){scale, scale + k},
                                      s->model->config.layer_norm_eps, rows);
    es_mem_free(s->budget, scale);
    return status;
}

/* Turns queries and keys, and scales queries by their place, as the layer does. */
static es_status turn_rows(const es_model *model, int64_t layer, const es_head_rows *queries,
                           const es_head_rows *keys, es_mem_limit *budget, es_error *err)
{
    const es_model_config *c = &model->config;
    const es_rotary *rotary = es_model_rotary(c, es_model_layer(c, layer));
    const int64_t n = queries->n, half = rotary ? rotary->width / 2 : 0;
    double *memory;
    ES_TRY(ES_MEM_NEW(budget, memory, 2 * n * half + n, "angles", err));
    double *cosines = memory, *sines = cosines + n * half, *factor = sines + n * half;
    if (rotary) {
        es_rotary_angles(rotary, n, cosines, sines);
        es_row_kernels_f64.turn(queries, rotary, cosines, sines);
        es_row_kernels_f64.turn(keys, rotary, cosines, sines);
    }
    if (c->rotary.query_beta != 0.0) {
        es_rotary_query_factors(&c->rotary, n, factor);
        es_row_kernels_f64.scale(queries, factor);
    }
    es_mem_free(budget, memory);
    return ES_OK;
}

es_status es_model_head_rows(const es_model *model, int64_t layer, int64_t head, const es_view *x,
                             es_mem_limit *budget, double *q, double *k, double *v, es_error *err)
{
    const es_model_config *c = &model->config;
    const int64_t n = x->rows, group = c->heads / c->kv_heads;
    const es_head_rows queries = {q, n, c->head_dim, 1, c->head_dim};
    const es_head_rows keys = {k, n, c->head_dim, 1, c->head_dim};
    es_model_head h;
    ES_TRY(es_model_head_of(model, layer, head, &h, err));
    if (c->rotary.width && n > c->positions)
        return es_fail(err, ES_E_RANGE, "forward.length", "cut the text into blocks",
                       "a block has %lld tokens; the model has %lld positions", (long long)n,
                       (long long)c->positions);
    const es_layer *l = &model->layers[layer];
    const side asking = {model, x, budget, &l->norm_q, layer, head, c->heads, false};
    const side asked = {model, x, budget, &l->norm_k, layer, head / group, c->kv_heads, true};
    ES_TRY(project(x, &h.wq, &h.bq, budget, q, err));
    ES_TRY(project(x, &h.wk, &h.bk, budget, k, err));
    ES_TRY(project(x, &h.wv, &h.bv, budget, v, err));
    ES_TRY(norm_rows(&asking, &queries, err));
    ES_TRY(norm_rows(&asked, &keys, err));
    return turn_rows(model, layer, &queries, &keys, budget, err);
}
