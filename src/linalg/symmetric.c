/* symmetric.c : eigenvalues, Cholesky factor and square root of a symmetric matrix. LAPACK counts
 * columns first; a symmetric matrix does not care, and "upper" there is "lower" here. */
#include <esscher/linalg.h>

#include <cblas.h>
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "linalg/dense.h"

/* ---- eigenvalues ---- */

/* Eigenvalues of a (d, d), which is overwritten, by its eigenvectors as rows if they are wanted. */
static es_status eigen_in_place(double *a, int64_t d, bool vectors, es_budget *budget,
                                double *values, es_error *err)
{
    const char job = vectors ? 'V' : 'N';
    const int n = (int)d;
    double best = 0.0, *work = NULL;
    void *integers = NULL;
    int few = 0;
    es_blas_enter();
    int info =
        LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, job, 'U', n, a, n, values, &best, -1, &few, -1);
    es_status status = es_dense_new(budget, (int64_t)best, 1, &work, err);
    if (status == ES_OK)
        status = es_mem_array(budget, few, 1, sizeof few, "linear algebra", &integers, err);
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

es_status es_sym_eigen(const es_view *a, es_budget *budget, double *values, double *vectors,
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
static bool factor(const double *a, int64_t d, double jitter, double *l)
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

static es_status refuse_indefinite(double *a, int64_t d, es_budget *budget, es_error *err)
{
    double *values;
    ES_TRY(es_dense_new(budget, d, 1, &values, err));
    es_status status = eigen_in_place(a, d, false, budget, values, err);
    if (status == ES_OK)
        status = es_psd_refuse(values[0], values[d - 1], err);
    es_mem_free(budget, values);
    return status;
}

static bool all_zero(const double *a, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (a[i] != 0.0)
            return false;
    }
    return true;
}

es_status es_chol_factor(const es_view *a, double tolerance, es_budget *budget, double *l,
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
    done = done || factor(copy, d, 0.0, l);
    for (double next = unit; !done && next > 0.0 && next <= most; next *= 4.0)
        done = factor(copy, d, used = next, l);
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

es_status es_sym_sqrt(const es_view *a, double tolerance, es_budget *budget, double *root,
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
