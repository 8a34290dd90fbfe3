/* SPDX-License-Identifier: Apache-2.0 */
/* dense.c : the terms on which BLAS is called, checked copies of what it is called with, products.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "linalg/dense.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/view.h"
#include "base/view_at.h"

/* ---- BLAS on one thread ---- */

/* Weak: another BLAS may take OpenBLAS's place at load time, and then there is nothing to set. */
#pragma weak openblas_get_num_threads
#pragma weak openblas_set_num_threads

static struct {
    char lock;
    int sections; /* under way */
    int threads;  /* the setting to restore */
} blas;

/* Takes the lock of the BLAS: OpenBLAS changes its thread count globally. */
static void lock_blas(void)
{
    while (__atomic_test_and_set(&blas.lock, __ATOMIC_ACQUIRE))
        sched_yield();
}

/* Releases the lock. */
static void unlock_blas(void) { __atomic_clear(&blas.lock, __ATOMIC_RELEASE); }

void es_blas_enter(void)
{
    if (!openblas_get_num_threads || !openblas_set_num_threads)
        return;
    lock_blas();
    if (blas.sections++ == 0) {
        blas.threads = openblas_get_num_threads();
        if (blas.threads != 1)
            openblas_set_num_threads(1);
    }
    unlock_blas();
}

void es_blas_leave(void)
{
    if (!openblas_get_num_threads || !openblas_set_num_threads)
        return;
    lock_blas();
    if (--blas.sections == 0 && blas.threads != 1)
        openblas_set_num_threads(blas.threads);
    unlock_blas();
}

/* Fails if OpenBLAS could not map `size` bytes under ulimit -v. OpenBLAS maps 128 MiB for each of
 * its threads and for each concurrent caller, and retries for ever if the system refuses. */
static es_status ask_for(size_t size, es_error *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return ES_OK;
    void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return es_fail(err, ES_E_MEMORY, "linalg.memory",
                       "raise the limit (ulimit -v), or set OPENBLAS_NUM_THREADS=1 and take fewer "
                       "threads",
                       "BLAS needs addresses for %.0f MiB, which a limit of %.0f MiB refuses",
                       (double)size / 1048576.0, (double)limit.rlim_cur / 1048576.0);
    munmap(at, size);
    return ES_OK;
}

enum { MIB = 1 << 20, BUFFER = 130 * MIB };

/* What a first call takes stays taken: once is enough. */
es_status es_blas_scratch(es_error *err)
{
    static char found;
    if (__atomic_load_n(&found, __ATOMIC_RELAXED))
        return ES_OK;
    const int threads = openblas_get_num_threads ? openblas_get_num_threads() : 1;
    ES_TRY(ask_for((size_t)(threads > 0 ? threads : 1) * BUFFER, err));
    __atomic_store_n(&found, 1, __ATOMIC_RELAXED);
    return ES_OK;
}

/* Fails if buffers for all callers but the first, with stack and heap of each thread, do not fit.
 * How many buffers OpenBLAS has already depends on which calls overlapped, so none is counted. */
es_status es_blas_scratch_for(int callers, es_error *err)
{
    ES_TRY(es_blas_scratch(err));
    const size_t more = callers > 1 ? (size_t)(callers - 1) : 0;
    return more ? ask_for(more * (BUFFER + (size_t)72 * MIB), err) : ES_OK;
}

/* ---- input ---- */

es_status es_dense_check(const es_view *a, const char *name, es_scan *scan, es_error *err)
{
    ES_TRY(es_view_check(a, name, err));
    const int64_t small = a->rows < a->cols ? a->rows : a->cols;
    const int64_t large = a->rows < a->cols ? a->cols : a->rows;
    if (small == 0)
        return es_fail(err, ES_E_EMPTY, "linalg.empty", "pass at least one row and one column",
                       "%s has shape (%lld, %lld)", name, (long long)a->rows, (long long)a->cols);
    if (small > ES_MAX_DIM || large >= INT64_C(1) << 24)
        return es_fail(err, ES_E_SHAPE, "linalg.dim", "dense algebra is for d <= 4096",
                       "%s has shape (%lld, %lld)", name, (long long)a->rows, (long long)a->cols);
    return es_view_scan(a, name, scan, err);
}

es_status es_dense_new(es_mem_limit *budget, int64_t rows, int64_t cols, double **out,
                       es_error *err)
{
    es_status status = es_blas_scratch(err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, *out, rows, cols, "linear algebra", err);
    return status;
}

es_status es_dense_copy(const es_view *a, const char *name, es_mem_limit *budget, double **out,
                        es_error *err)
{
    es_scan scan;
    *out = NULL;
    ES_TRY(es_dense_check(a, name, &scan, err));
    ES_TRY(es_dense_new(budget, a->rows, a->cols, out, err));
    for (int64_t i = 0; i < a->rows; i++)
        es_view_read_row(a, i, *out + i * a->cols);
    return ES_OK;
}

/* ---- symmetric matrices ---- */

#define ASYMMETRY_MOST 1e-6 /* a few roundings of f32, and no transposition mistake */

es_status es_sym_check(const es_view *a, const char *name, double *asymmetry, es_error *err)
{
    es_scan scan;
    if (asymmetry)
        *asymmetry = 0.0;
    ES_TRY(es_dense_check(a, name, &scan, err));
    if (a->rows != a->cols)
        return es_fail(err, ES_E_SHAPE, "linalg.square", "pass a (d, d) matrix",
                       "%s has shape (%lld, %lld)", name, (long long)a->rows, (long long)a->cols);
    double worst = 0.0;
    int64_t row = 0, col = 0;
    for (int64_t i = 0; i < a->rows; i++) {
        for (int64_t j = 0; j < i; j++) {
            /* Divided first: the difference of two huge numbers might overflow. */
            const double gap =
                scan.max_abs > 0.0
                    ? fabs(es_view_at(a, i, j) / scan.max_abs - es_view_at(a, j, i) / scan.max_abs)
                    : 0.0;
            if (gap > worst)
                worst = gap, row = i, col = j;
        }
    }
    if (asymmetry)
        *asymmetry = worst;
    if (worst > ASYMMETRY_MOST)
        return es_fail_at(err, ES_E_NUMERIC, row, col, "linalg.symmetric",
                          "a covariance is symmetric; was another matrix meant?",
                          "%s is not symmetric: [%lld, %lld] is %.6g, its mirror image %.6g", name,
                          (long long)row, (long long)col, es_view_at(a, row, col),
                          es_view_at(a, col, row));
    return ES_OK;
}

es_status es_dense_symmetric(const es_view *a, const char *name, es_mem_limit *budget, double **out,
                             es_error *err)
{
    *out = NULL;
    ES_TRY(es_sym_check(a, name, NULL, err));
    ES_TRY(es_dense_new(budget, a->rows, a->cols, out, err));
    for (int64_t i = 0; i < a->rows; i++) {
        for (int64_t j = 0; j <= i; j++) {
            const double x = 0.5 * es_view_at(a, i, j) + 0.5 * es_view_at(a, j, i);
            (*out)[i * a->cols + j] = (*out)[j * a->cols + i] = x;
        }
    }
    return ES_OK;
}

double es_psd_rounding(const double *a, int64_t d, double tolerance)
{
    double mean = 0.0;
    for (int64_t i = 0; i < d; i++)
        mean += a[i * d + i] / (double)d;
    const double relative = tolerance > 0.0 ? tolerance : 64.0 * (double)d * DBL_EPSILON;
    return mean > 0.0 ? relative * mean : 0.0;
}

es_status es_psd_refuse(double smallest, double largest, es_error *err)
{
    return es_fail(err, ES_E_NUMERIC, "linalg.positive",
                   "a covariance has no negative eigenvalue; if rounding to f32 made it, raise the "
                   "tolerance",
                   "smallest eigenvalue %.6g, largest %.6g: not positive semidefinite", smallest,
                   largest);
}

/* ---- products ---- */

void es_gemm_add_columns(es_dtype dtype, int64_t m, int64_t n, int64_t k, const void *x,
                         const void *w, void *y, int64_t stride)
{
    const int rows = (int)m, cols = (int)n, inner = (int)k, apart = (int)stride;
    if (dtype == ES_F32)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, inner, 1.0f, x, inner, w,
                    inner, 1.0f, y, apart);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, inner, 1.0, x, inner, w,
                    inner, 1.0, y, apart);
}

void es_gemm_add(es_dtype dtype, int64_t m, int64_t n, int64_t k, const void *x, const void *w,
                 void *y)
{
    es_gemm_add_columns(dtype, m, n, k, x, w, y, n);
}

void es_gemm_views(const es_view *x, const es_view *w, void *y, int64_t stride)
{
    const int64_t item = (int64_t)es_dtype_size(x->dtype);
    const int rows = (int)x->rows, cols = (int)w->rows, inner = (int)x->cols, apart = (int)stride;
    const int x_apart = (int)(x->row_stride / item), w_apart = (int)(w->row_stride / item);
    if (x->dtype == ES_F32)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, inner, 1.0f, x->data,
                    x_apart, w->data, w_apart, 0.0f, y, apart);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, inner, 1.0, x->data,
                    x_apart, w->data, w_apart, 0.0, y, apart);
}

void es_gemm_mix(const void *x, int64_t m, const es_view *w, void *y)
{
    const int64_t item = (int64_t)es_dtype_size(w->dtype);
    const int rows = (int)m, cols = (int)w->cols, inner = (int)w->rows;
    const int apart = (int)(w->row_stride / item);
    if (w->dtype == ES_F32)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, cols, inner, 1.0f, x, inner,
                    w->data, apart, 0.0f, y, cols);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, cols, inner, 1.0, x, inner,
                    w->data, apart, 0.0, y, cols);
}

es_status es_mat_multiply(const es_view *a, const es_view *b, es_mem_limit *budget, double *out,
                          es_error *err)
{
    double *left = NULL, *right = NULL;
    es_status status = es_dense_copy(a, "the left factor", budget, &left, err);
    if (status == ES_OK)
        status = es_dense_copy(b, "the right factor", budget, &right, err);
    if (status == ES_OK && a->cols != b->rows)
        status = es_fail(err, ES_E_SHAPE, "linalg.inner", "inner dimensions must agree",
                         "(%lld, %lld) times (%lld, %lld)", (long long)a->rows, (long long)a->cols,
                         (long long)b->rows, (long long)b->cols);
    if (status == ES_OK) {
        es_blas_enter();
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)a->rows, (int)b->cols,
                    (int)a->cols, 1.0, left, (int)a->cols, right, (int)b->cols, 0.0, out,
                    (int)b->cols);
        es_blas_leave();
        for (int64_t i = 0; i < a->rows * b->cols && status == ES_OK; i++) {
            if (!isfinite(out[i]))
                status = es_fail_at(err, ES_E_OVERFLOW, i / b->cols, i % b->cols, "linalg.overflow",
                                    "scale the matrices", "the product overflows");
        }
    }
    es_mem_free(budget, left);
    es_mem_free(budget, right);
    return status;
}
