/* orthogonal.c : QR factorisation with the signs fixed, and uniform rotations from it. */
#include <esscher/linalg.h>

#include <float.h>
#include <lapacke.h>
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "linalg/dense.h"

/* t (m, n column-major) becomes q; r (n, n row-major), its diagonal made >= 0. */
static int factor_columns(double *t, int m, int n, double *tau, double *work, int size, double *r)
{
    int info = LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, m, n, t, m, tau, work, size);
    for (int64_t i = 0; i < n; i++) {
        const double sign = t[i * m + i] < 0.0 ? -1.0 : 1.0;
        for (int64_t j = 0; j < n; j++)
            r[i * n + j] = j < i ? 0.0 : sign * t[j * m + i];
        tau[n + i] = sign;
    }
    if (info == 0)
        info = LAPACKE_dorgqr_work(LAPACK_COL_MAJOR, m, n, n, t, m, tau, work, size);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++)
            t[j * m + i] *= tau[n + j];
    }
    return info;
}

es_status es_qr_factor(const es_view *a, es_budget *budget, double *q, double *r, es_error *err)
{
    ES_TRY(es_view_check(a, "the matrix", err));
    if (a->rows < a->cols)
        return es_fail(err, ES_E_SHAPE, "linalg.tall", "pass the transpose",
                       "the matrix has shape (%lld, %lld): more columns than rows",
                       (long long)a->rows, (long long)a->cols);
    const es_view columns = es_view_transpose(a);
    double *t, *work = NULL;
    ES_TRY(es_dense_copy(&columns, "the matrix", budget, &t, err));
    const int m = (int)a->rows, n = (int)a->cols, size = 64 * n; /* 64: LAPACK's widest panel */
    es_status status = es_dense_new(budget, size + 2 * n, 1, &work, err);
    if (status == ES_OK) {
        es_blas_enter();
        const int info = factor_columns(t, m, n, work + size, work, size, r);
        es_blas_leave();
        if (info != 0)
            status = es_fail(err, ES_E_NUMERIC, "linalg.qr", "", "LAPACK refused a (%d, %d) matrix",
                             m, n);
    }
    for (int64_t i = 0; i < m && status == ES_OK; i++) {
        for (int64_t j = 0; j < n; j++)
            q[i * n + j] = t[j * m + i];
    }
    es_mem_free(budget, t);
    es_mem_free(budget, work);
    return status;
}

es_status es_haar_make(const double *normals, int64_t d, es_budget *budget, double *q,
                       es_error *err)
{
    const es_view g = es_view_f64(normals, d, d);
    double *r;
    ES_TRY(es_view_check(&g, "normals", err));
    ES_TRY(es_dense_new(budget, d, d, &r, err));
    es_status status = es_qr_factor(&g, budget, q, r, err);
    double largest = 0.0;
    for (int64_t i = 0; i < d && status == ES_OK; i++)
        largest = fmax(largest, r[i * d + i]);
    for (int64_t i = 0; i < d && status == ES_OK; i++) {
        if (r[i * d + i] <= (double)d * DBL_EPSILON * largest)
            status = es_fail(err, ES_E_NUMERIC, "linalg.haar", "draw independent normals",
                             "the normals are not of full rank");
    }
    es_mem_free(budget, r);
    return status;
}
