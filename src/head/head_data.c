/* SPDX-License-Identifier: Apache-2.0 */
/* head_data.c : heads that own their matrices: drawn from a seed, or another head's, scaled. */
#include <math.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "head/head.h"
#include "linalg/linalg.h"

/* ---- storage ---- */

es_status es_head_data_add(es_head_data *data, es_head_matrix which, int64_t rows, int64_t cols,
                           double **numbers, es_error *err)
{
    const es_view **const slots[ES_HEAD_MATRICES] = {&data->head.Wq, &data->head.Wk, &data->head.V,
                                                     &data->head.A};
    double *memory;
    ES_TRY(ES_MEM_NEW_2D(data->budget, memory, rows, cols, "a matrix of a head", err));
    es_mem_free(data->budget, data->numbers[which]);
    *numbers = data->numbers[which] = memory;
    data->view[which] = es_view_f64(memory, rows, cols);
    *slots[which] = &data->view[which];
    return ES_OK;
}

void es_head_data_free(es_head_data *data)
{
    for (int i = 0; i < ES_HEAD_MATRICES; i++)
        es_mem_free(data->budget, data->numbers[i]);
    *data = (es_head_data){0};
}

/* ---- from a seed ---- */

const char *es_head_kind_name(es_head_kind kind)
{
    static const char *const names[] = {"random", "rotation", "identity"};
    return kind >= ES_HEAD_RANDOM && kind <= ES_HEAD_IDENTITY ? names[kind] : "?";
}

es_status es_head_fill_random(const es_address *at, int64_t d, double *out, es_error *err)
{
    ES_TRY(es_normal_rows(at, d, d, out, err));
    for (int64_t i = 0; i < d * d; i++)
        out[i] /= sqrt((double)d);
    return ES_OK;
}

es_status es_head_fill_rotation(const es_address *at, int64_t d, es_mem_limit *budget, double *out,
                                es_error *err)
{
    double *normals;
    ES_TRY(ES_MEM_NEW_2D(budget, normals, d, d, "a rotation", err));
    es_status status = es_normal_rows(at, d, d, normals, err);
    if (status == ES_OK)
        status = es_haar_make(normals, d, budget, out, err);
    es_mem_free(budget, normals);
    return status;
}

/* Draws Wq, Wk and Wv with entries N(0, 1/d), each from a cell of the address of its own. */
static es_status draw_projections(const es_address *at, int64_t d, es_head_data *out, es_error *err)
{
    for (int i = ES_HEAD_WQ; i <= ES_HEAD_WV; i++) {
        es_address here = *at;
        double *numbers;
        here.cell += (uint64_t)i;
        ES_TRY(es_head_data_add(out, (es_head_matrix)i, d, d, &numbers, err));
        ES_TRY(es_head_fill_random(&here, d, numbers, err));
    }
    return ES_OK;
}

es_status es_head_draw(es_head_kind kind, const es_address *at, int64_t d, es_mem_limit *budget,
                       es_head_data *out, es_error *err)
{
    *out = (es_head_data){.budget = budget};
    if (kind < ES_HEAD_RANDOM || kind > ES_HEAD_IDENTITY)
        return es_fail(err, ES_E_ARGUMENT, "head.kind", "use one of es_head_kind",
                       "unknown kind of head %d", (int)kind);
    if (d < 1 || d > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "head.dim", "1 <= d <= 4096", "d is %lld", (long long)d);
    if (kind == ES_HEAD_RANDOM)
        return draw_projections(at, d, out, err);
    double *A;
    ES_TRY(es_head_data_add(out, ES_HEAD_A, d, d, &A, err));
    if (kind == ES_HEAD_ROTATION)
        return es_head_fill_rotation(at, d, budget, A, err);
    for (int64_t i = 0; i < d; i++)
        A[i * d + i] = 1.0;
    return ES_OK;
}

/* ---- from another head ---- */

es_status es_head_scaled(const es_head *head, es_head_matrix into, double times, double over,
                         es_mem_limit *budget, es_head_data *out, es_error *err)
{
    const es_head_matrix which = head->A ? ES_HEAD_A : into == ES_HEAD_WQ ? ES_HEAD_WQ : ES_HEAD_WK;
    const es_view *from = head->A ? head->A : which == ES_HEAD_WQ ? head->Wq : head->Wk;
    double *numbers;
    *out = (es_head_data){.head = *head, .budget = budget};
    ES_TRY(es_head_data_add(out, which, from->rows, from->cols, &numbers, err));
    for (int64_t i = 0; i < from->rows; i++)
        for (int64_t j = 0; j < from->cols; j++)
            numbers[i * from->cols + j] = times * es_view_get(from, i, j) / over;
    return ES_OK;
}
