/* SPDX-License-Identifier: Apache-2.0 */
/* head.c : is a head a head? Its matrices, written out. */
#include "head/head.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/view.h"
#include "linalg/linalg.h"

/* ---- checks ---- */

/* Fails because a matrix does not have the shape `want` for tokens of dimension d. */
static es_status fail_shape(const char *name, const es_view *v, const char *want, int64_t d,
                            es_error *err)
{
    return es_fail(err, ES_E_SHAPE, "theory.shape", "tokens have as many columns as cov",
                   "%s is (%lld, %lld), not %s with d = %lld", name, (long long)v->rows,
                   (long long)v->cols, want, (long long)d);
}

/* Checks that a matrix has rows and columns and only finite numbers. */
static es_status check_finite(const es_view *v, const char *name, es_error *err)
{
    es_scan scan;
    ES_TRY(es_view_check(v, name, err));
    if (v->rows < 1 || v->cols < 1)
        return es_fail(err, ES_E_EMPTY, "theory.empty", "give at least one row and column",
                       "%s is (%lld, %lld)", name, (long long)v->rows, (long long)v->cols);
    return es_view_scan(v, name, &scan, err);
}

es_status es_head_check(const es_head *head, int64_t d, es_error *err)
{
    if (!head)
        return es_fail(err, ES_E_ARGUMENT, "theory.head", "", "no head");
    const bool two = head->Wq && head->Wk, any = head->Wq || head->Wk;
    if (head->A ? any : !two)
        return es_fail(err, ES_E_ARGUMENT, "theory.head", "give A, or both Wq and Wk",
                       "a head is one matrix A, or Wq and Wk");
    if (head->A) {
        ES_TRY(check_finite(head->A, "A", err));
        if (head->A->rows != d || head->A->cols != d)
            return fail_shape("A", head->A, "(d, d)", d, err);
    } else {
        ES_TRY(check_finite(head->Wq, "Wq", err));
        ES_TRY(check_finite(head->Wk, "Wk", err));
        if (head->Wq->cols != d)
            return fail_shape("Wq", head->Wq, "(k, d)", d, err);
        if (head->Wk->cols != d || head->Wk->rows != head->Wq->rows)
            return es_fail(err, ES_E_SHAPE, "theory.shape", "Wq and Wk have one shape, (k, d)",
                           "Wk is (%lld, %lld), Wq (%lld, %lld)", (long long)head->Wk->rows,
                           (long long)head->Wk->cols, (long long)head->Wq->rows,
                           (long long)head->Wq->cols);
    }
    if (head->V) {
        ES_TRY(check_finite(head->V, "V", err));
        if (head->V->cols != d)
            return fail_shape("V", head->V, "(dv, d)", d, err);
    }
    return ES_OK;
}

int64_t es_head_key_dim(const es_head *head, int64_t d) { return head->Wq ? head->Wq->rows : d; }

int64_t es_head_channels(const es_head *head, int64_t d) { return head->V ? head->V->rows : d; }

/* THEORY 2: the 1/sqrt(k) belongs inside A, because the softmax uses it. */
double es_head_unit(const es_head *head)
{
    return head->Wq ? 1.0 / sqrt((double)head->Wq->rows) : 1.0;
}

es_status es_head_project(const double *x, int64_t rows, int64_t dim, const es_view *w,
                          es_mem_limit *budget, double *out, es_error *err)
{
    if (!w) {
        memcpy(out, x, (size_t)(rows * dim) * sizeof *out);
        return ES_OK;
    }
    const es_view vx = es_view_f64(x, rows, dim), transposed = es_view_transpose(w);
    return es_mat_multiply(&vx, &transposed, budget, out, err);
}

/* ---- written out ---- */

es_status es_head_write(const es_head *head, int64_t d, double *A, double *V, es_error *err)
{
    if (d < 1 || d > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "theory.shape", "1 <= d <= 4096", "d is %lld",
                       (long long)d);
    ES_TRY(es_head_check(head, d, err));
    const es_view *Wq = head->Wq, *Wk = head->Wk;
    const double scale = es_head_unit(head);
    for (int64_t i = 0; A && i < d; i++)
        for (int64_t j = 0; j < d; j++) {
            double sum = head->A ? es_view_get(head->A, i, j) : 0.0;
            for (int64_t r = 0; !head->A && r < Wq->rows; r++)
                sum += es_view_get(Wk, r, i) * es_view_get(Wq, r, j);
            A[i * d + j] = scale * sum;
        }
    const int64_t dv = es_head_channels(head, d);
    for (int64_t c = 0; V && c < dv; c++)
        for (int64_t j = 0; j < d; j++)
            V[c * d + j] = head->V ? es_view_get(head->V, c, j) : (double)(c == j);
    return ES_OK;
}
