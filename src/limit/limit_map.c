/* SPDX-License-Identifier: Apache-2.0 */
/* limit_map.c : K of a law, the limit map, and the moments of one token.
 *
 * Softmax weights of the scores <Ax, y_i> are e^{<Ax,y_i>} over their sum: as n grows numerator and
 * denominator become expectations, and V E[Y e^{<s,Y>}]/E e^{<s,Y>} = V grad K(s) at s = Ax. At
 * s = 0 gradient and Hessian are mean and covariance of a token (THEORY 1). */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "law/law_row.h"
#include "limit/limit_map.h"

#define EPS DBL_EPSILON

int64_t es_limit_dv(const es_law *law, const es_limit_head *head)
{
    return head->V ? head->dv : law->dim;
}

/* Checks that a matrix, if there is one, is finite. */
static es_status check_matrix(const double *x, int64_t rows, int64_t cols, const char *name,
                              es_error *err)
{
    es_scan scan;
    const es_view v = es_view_f64(x, rows, cols);
    return x ? es_view_scan(&v, name, &scan, err) : ES_OK;
}

es_status es_limit_check(const es_law *law, const es_limit_head *head, es_error *err)
{
    ES_TRY(es_law_check(law, err));
    if (head->V && (head->dv < 1 || head->dv > ES_MAX_DIM))
        return es_fail(err, ES_E_SHAPE, "limit.values", "1 <= dv <= 4096", "V has %lld rows",
                       (long long)head->dv);
    ES_TRY(check_matrix(head->A, law->dim, law->dim, "A", err));
    return check_matrix(head->V, head->dv, law->dim, "V", err);
}

/* ---- the log-MGF ---- */

es_status es_limit_log_mgf(const es_law *law, const double *t, es_mem_limit *budget,
                           es_log_mgf *out, es_error *err)
{
    es_scan scan;
    double *own = NULL;
    ES_TRY(es_law_check(law, err));
    const es_view v = es_view_f64(t, 1, law->dim);
    ES_TRY(es_view_scan(&v, "t", &scan, err));
    if (!out->grad)
        ES_TRY(ES_MEM_NEW(budget, own, law->dim, "log-MGF", err));
    es_tilt tilt = {.grad = out->grad ? out->grad : own, .hess = out->hess};
    const es_status status = es_tilt_law(law, t, budget, &tilt, err);
    out->val = (es_num){tilt.K, tilt.K_err};
    out->grad_error = tilt.grad_err;
    out->hess_error = tilt.hess_err;
    es_mem_free(budget, own);
    return status;
}

/* ---- one query ---- */

/* out (rows) = m (rows, d) v, or v itself if m is NULL; returns a bound on the rounding error in
 * Euclidean norm. */
static double apply(const double *m, int64_t rows, int64_t d, const double *v, double *out)
{
    double error2 = 0.0;
    if (!m) {
        memcpy(out, v, (size_t)d * sizeof *out);
        return 0.0;
    }
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0.0, size = 0.0;
        for (int64_t j = 0; j < d; j++) {
            sum += m[i * d + j] * v[j];
            size += fabs(m[i * d + j] * v[j]);
        }
        out[i] = sum;
        error2 += (double)(d * d) * EPS * EPS * size * size;
    }
    return sqrt(error2);
}

/* Returns the Euclidean norm of x (n). */
static double norm_of(const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* Queries that threads share. */
typedef struct map_job {
    const es_law *law;
    const es_limit_head *head;
    const es_view *x;
    es_mem_limit *budget;
    double V_norm;   /* bound on the spectral norm of V */
    double *scratch; /* (threads, 3, d) */
    double *out, *error;
    es_num *log_mgf;
} map_job;

/* Computes the limit of one query: tilt t = A x, output V grad K(t), with the error that rounding
 * of t contributes. */
static es_status map_row(void *user, int64_t row, int thread, es_error *err)
{
    const map_job *job = user;
    const int64_t d = job->law->dim, dv = es_limit_dv(job->law, job->head);
    double *x = job->scratch + 3 * d * thread, *t = x + d;
    es_tilt tilt = {.grad = t + d};
    es_view_read_row(job->x, row, x);
    const double t_err = apply(job->head->A, d, d, x, t);
    const es_status status = es_tilt_law(job->law, t, job->budget, &tilt, err);
    if (status != ES_OK) {
        if (err)
            err->row = row;
        return status;
    }
    const double V_err = apply(job->head->V, dv, d, tilt.grad, job->out + row * dv);
    if (job->log_mgf)
        job->log_mgf[row] =
            (es_num){tilt.K, tilt.K_err + t_err * (norm_of(tilt.grad, d) + tilt.curvature * t_err)};
    if (job->error)
        job->error[row] = V_err + job->V_norm * (tilt.grad_err + tilt.curvature * t_err);
    return ES_OK;
}

es_status es_limit_rows(const es_law *law, const es_limit_head *head, const es_view *x,
                        const es_exec *exec, double *out, es_num *log_mgf, double *error,
                        es_error *err)
{
    es_scan scan;
    const int64_t d = law->dim;
    ES_TRY(es_view_check(x, "x", err));
    if (x->cols != d || x->rows < 1)
        return es_fail(err, ES_E_SHAPE, "limit.queries", "queries are rows of dimension dim",
                       "%lld queries of dimension %lld for a law of dimension %lld",
                       (long long)x->rows, (long long)x->cols, (long long)d);
    ES_TRY(es_view_scan(x, "x", &scan, err));
    double *memory;
    ES_TRY(ES_MEM_NEW_2D(exec->budget, memory, es_parallel_threads(exec, x->rows), 3 * d,
                         "limit map", err));
    map_job job = {.law = law,
                   .head = head,
                   .x = x,
                   .budget = exec->budget,
                   .V_norm = head->V ? norm_of(head->V, head->dv * d) : 1.0,
                   .scratch = memory,
                   .out = out,
                   .log_mgf = log_mgf,
                   .error = error};
    const es_status status = es_parallel_run(exec, x->rows, map_row, &job, err);
    es_mem_free(exec->budget, memory);
    return status;
}

es_status es_limit_map(const es_law *law, const es_limit_head *head, const es_view *x,
                       const es_exec *exec, double *out, es_num *log_mgf, double *error,
                       es_error *err)
{
    const es_exec plain = {0};
    ES_TRY(es_limit_check(law, head, err));
    return es_limit_rows(law, head, x, exec ? exec : &plain, out, log_mgf, error, err);
}

/* ---- one token ---- */

es_status es_limit_token_moments(const es_law *law, es_mem_limit *budget, double *mean, double *cov,
                                 es_error *err)
{
    ES_TRY(es_law_check(law, err));
    const es_law_row *row = es_law_row_of(law->kind);
    if (row->moments)
        return row->moments(law, mean, cov, err);
    double *zero;
    ES_TRY(ES_MEM_NEW_2D(budget, zero, 2, law->dim, "token moments", err));
    es_tilt tilt = {.grad = mean ? mean : zero + law->dim, .hess = cov};
    const es_status status = es_tilt_law(law, zero, budget, &tilt, err);
    es_mem_free(budget, zero);
    return status;
}
