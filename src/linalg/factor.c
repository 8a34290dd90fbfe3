/* SPDX-License-Identifier: Apache-2.0 */
/* factor.c : what a matrix is made of, by LAPACK: eigenvalues, Cholesky factor and square root of a
 * symmetric one; singular values and vectors; QR. LAPACK counts columns first; a symmetric matrix
 * does not care, and "upper" there is "lower" here. */
#include "linalg/linalg.h"

#include <cblas.h>
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "linalg/dense.h"

/* ---- eigenvalues ---- */

/* Eigenvalues of a (d, d), which is overwritten, by its eigenvectors as rows if they are wanted. */
static es_status eigen_in_place(double *a, int64_t d, bool vectors, es_mem_limit *budget,
                                double *values, es_error *err)
{
    const char job = vectors ? 'V' : 'N';
    const int n = (int)d;
    double best = 0.0, *work = NULL;
    int few = 0, *integers = NULL;
    es_blas_enter();
    int info =
        LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, job, 'U', n, a, n, values, &best, -1, &few, -1);
    es_status status = es_dense_new(budget, (int64_t)best, 1, &work, err);
    if (status == ES_OK)
        status = ES_MEM_NEW(budget, integers, few, "linear algebra", err);
    if (status == ES_OK)
        info = LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, job, 'U', n, a, n, values, work, (int)best,
                                   integers, few);
    es_blas_leave();
    es_mem_free(budget, work);
    es_mem_free(budget, integers);
    if (status == ES_OK && info != 0)
        status = es_fail(err, ES_E_NUMERIC, "linalg.converge", "",
                         "the eigenvalues of a (%d, %d) matrix did not converge (%d)", n, n, info);
    return status;
}

es_status es_sym_eigen(const es_view *a, es_mem_limit *budget, double *values, double *vectors,
                       es_error *err)
{
    double *copy;
    ES_TRY(es_dense_symmetric(a, "the matrix", budget, &copy, err));
    const int64_t d = a->rows;
    const es_status status = eigen_in_place(copy, d, vectors != NULL, budget, values, err);
    if (status == ES_OK && vectors)
        memcpy(vectors, copy, (size_t)(d * d) * sizeof *copy);
    es_mem_free(budget, copy);
    return status;
}

/* ---- Cholesky ---- */

/* l = factor of a + jitter I; false if the factorisation meets a pivot <= 0. */
static bool try_factor(const double *a, int64_t d, double jitter, double *l)
{
    memcpy(l, a, (size_t)(d * d) * sizeof *l);
    for (int64_t i = 0; i < d; i++)
        l[i * d + i] += jitter;
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (int)d, l, (int)d) != 0)
        return false;
    for (int64_t i = 0; i < d; i++) {
        for (int64_t j = i + 1; j < d; j++)
            l[i * d + j] = 0.0;
    }
    return true;
}

/* Fails with the smallest eigenvalue after Cholesky has failed. */
static es_status refuse_indefinite(double *a, int64_t d, es_mem_limit *budget, es_error *err)
{
    double *values;
    ES_TRY(es_dense_new(budget, d, 1, &values, err));
    es_status status = eigen_in_place(a, d, false, budget, values, err);
    if (status == ES_OK)
        status = es_psd_refuse(values[0], values[d - 1], err);
    es_mem_free(budget, values);
    return status;
}

/* Returns true if all numbers are 0. */
static bool all_zero(const double *a, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (a[i] != 0.0)
            return false;
    }
    return true;
}

es_status es_chol_factor(const es_view *a, double tolerance, es_mem_limit *budget, double *l,
                         double *jitter, es_error *err)
{
    double *copy;
    ES_TRY(es_dense_symmetric(a, "the matrix", budget, &copy, err));
    const int64_t d = a->rows;
    const double most = es_psd_rounding(copy, d, tolerance);
    const double unit = es_psd_rounding(copy, d, DBL_EPSILON); /* eps trace/d */
    double used = 0.0;
    bool done = all_zero(copy, d * d);
    if (done)
        memset(l, 0, (size_t)(d * d) * sizeof *l);

    es_blas_enter();
    done = done || try_factor(copy, d, 0.0, l);
    for (double next = unit; !done && next > 0.0 && next <= most; next *= 4.0)
        done = try_factor(copy, d, used = next, l);
    es_blas_leave();

    const es_status status = done ? ES_OK : refuse_indefinite(copy, d, budget, err);
    if (jitter)
        *jitter = done ? used : 0.0;
    es_mem_free(budget, copy);
    return status;
}

/* ---- square root ---- */

/* root = sum_j sqrt(w_j) v_j v_j', as b'b with rows b_j = w_j^(1/4) v_j: symmetric to the bit, and
 * positive semidefinite by construction. b comes in as the eigenvectors. */
static void root_of_eigen(double *b, const double *values, int64_t d, double *root)
{
    for (int64_t j = 0; j < d; j++) {
        const double fourth = values[j] > 0.0 ? sqrt(sqrt(values[j])) : 0.0;
        for (int64_t i = 0; i < d; i++)
            b[j * d + i] *= fourth;
    }
    es_blas_enter();
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)d, (int)d, 1.0, b, (int)d, 0.0, root,
                (int)d);
    es_blas_leave();
    for (int64_t i = 0; i < d; i++) {
        for (int64_t j = 0; j < i; j++)
            root[j * d + i] = root[i * d + j];
    }
}

es_status es_sym_sqrt(const es_view *a, double tolerance, es_mem_limit *budget, double *root,
                      es_clipped *clipped, es_error *err)
{
    double *copy, *values = NULL;
    ES_TRY(es_dense_symmetric(a, "the matrix", budget, &copy, err));
    const int64_t d = a->rows;
    const double most = es_psd_rounding(copy, d, tolerance);
    es_clipped cut = {0};
    es_status status = es_dense_new(budget, d, 1, &values, err);
    if (status == ES_OK)
        status = eigen_in_place(copy, d, true, budget, values, err);
    if (status == ES_OK && values[0] < -most)
        status = es_psd_refuse(values[0], values[d - 1], err);
    if (status == ES_OK) {
        while (cut.count < d && values[cut.count] < 0.0)
            cut.count++;
        cut.most = cut.count ? -values[0] : 0.0;
        root_of_eigen(copy, values, d, root);
    }
    if (clipped)
        *clipped = cut;
    es_mem_free(budget, copy);
    es_mem_free(budget, values);
    return status;
}

/* ---- singular values and vectors ---- */

/* What is row-major a here is column-major a' for LAPACK, whose factors of a' = v s u' land in
 * memory as our vt and u: no matrix is transposed. */

es_status es_svd_factor(const es_view *a, es_mem_limit *budget, double *s, double *u, double *vt,
                        double *bound, es_error *err)
{
    if (!u != !vt)
        return es_fail(err, ES_E_ARGUMENT, "linalg.svd", "ask for both or none",
                       "only one side of the singular vectors was asked for");
    double *copy, *work = NULL, best = 0.0;
    int *integers = NULL;
    ES_TRY(es_dense_copy(a, "the matrix", budget, &copy, err));
    const int m = (int)a->cols, n = (int)a->rows, k = m < n ? m : n; /* as LAPACK sees it */
    const char job = u ? 'S' : 'N';

    es_status status = ES_MEM_NEW_2D(budget, integers, 8, k, "linear algebra", err);
    es_blas_enter();
    int info = 0;
    if (status == ES_OK) {
        LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, m, n, copy, m, s, vt, m, u, k, &best, -1,
                            integers);
        status = es_dense_new(budget, (int64_t)best, 1, &work, err);
    }
    if (status == ES_OK)
        info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, m, n, copy, m, s, vt, m, u, k, work,
                                   (int)best, integers);
    es_blas_leave();
    if (status == ES_OK && info != 0)
        status =
            es_fail(err, ES_E_NUMERIC, "linalg.converge", "",
                    "the singular values of a (%d, %d) matrix did not converge (%d)", n, m, info);
    if (status == ES_OK && !isfinite(s[0]))
        status = es_fail(err, ES_E_OVERFLOW, "linalg.overflow", "scale the matrix",
                         "the largest singular value overflows");
    /* Backward stable: the exact values of a matrix within p(m, n) eps |a| of a (Weyl), p modest.
     */
    if (bound)
        *bound = status == ES_OK ? 2.0 * (double)(m + n) * DBL_EPSILON * s[0] : 0.0;
    es_mem_free(budget, copy);
    es_mem_free(budget, work);
    es_mem_free(budget, integers);
    return status;
}

/* ---- QR with the signs fixed, and uniform rotations from it ---- */

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

es_status es_qr_factor(const es_view *a, es_mem_limit *budget, double *q, double *r, es_error *err)
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

es_status es_haar_make(const double *normals, int64_t d, es_mem_limit *budget, double *q,
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
