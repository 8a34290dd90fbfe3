/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c : the spectral norm, with an error that holds.
 *
 * An iteration alone cannot promise the norm: a small residual |a'a u - s^2 u| says that some
 * singular value is near s, not that it is the largest. So the two sides are bounded separately.
 *
 *   below:  |a u| <= |a| for any unit vector u; Lanczos on g = a'a finds a good one.
 *   above:  t^2 I - g has a Cholesky factor only if it is positive definite, that is if t > |a|.
 *           It is tried for t a little above |a u|, then less and less little.
 *
 * g is a'a or a a', the smaller one, (k, k), from sums of `long` products. With u = 2^-53, |a|_F
 * the Frobenius norm: |g computed - g| <= (long + 2) u |a|_F^2, and a Cholesky factorisation that
 * ends well proves definiteness up to (k + 2) u trace <= (k + 2) u k t^2 (Higham, Accuracy and
 * Stability, 10.1). Both go into err. */
#include <cblas.h>
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "linalg/dense.h"

#define UNIT_ROUNDOFF (0.5 * DBL_EPSILON)
#define ERROR_MOST    1e-6 /* relative; above it the answer comes with ES_E_NUMERIC */

enum { SVD_MOST = 256 }; /* up to this dimension the SVD takes milliseconds */

/* The smaller Gram matrix, whose largest eigenvalue is the squared norm. */
typedef struct gram {
    double *a;         /* (rows, cols), scaled so that its largest element is in [0.5, 1) */
    double *g;         /* (k, k), both triangles */
    double frobenius;  /* |a|_F */
    int rows, cols, k; /* k = min(rows, cols) */
    double *basis;     /* (steps, k): Lanczos vectors as rows */
    double *work;      /* (k, k): t^2 I - g; before that, small things of the iteration */
} gram;

/* ---- below: Lanczos ---- */

/* A start that is the same everywhere and close to orthogonal to nothing in particular. */
static void start_vector(double *v, int k)
{
    uint64_t state = 0;
    for (int i = 0; i < k; i++) { /* splitmix64 */
        uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        v[i] = (double)(int64_t)(z ^ z >> 31) * 0x1p-63;
    }
    cblas_dscal(k, 1.0 / cblas_dnrm2(k, v, 1), v, 1);
}

/* Largest eigenvalue of the tridiagonal matrix (alpha, beta) of j steps; y (j) is its vector. z has
 * space for j*j + 4*j numbers. @return : the eigenvalue, or -1 if LAPACK did not converge. */
static double ritz(const double *alpha, const double *beta, int j, double *z, double *y)
{
    double *diagonal = z + j * j, *off = diagonal + j, *work = off + j;
    memcpy(diagonal, alpha, (size_t)j * sizeof *z);
    memcpy(off, beta, (size_t)j * sizeof *z);
    if (LAPACKE_dstev_work(LAPACK_COL_MAJOR, 'V', j, diagonal, off, z, j, work) != 0)
        return -1.0;
    memcpy(y, z + (j - 1) * j, (size_t)j * sizeof *y);
    return diagonal[j - 1];
}

/* Take out of w its components along the first j Lanczos vectors, twice, because once leaves
 * rounding that the iteration would magnify. c has space for j numbers. */
static void orthogonalise(const gram *m, int j, double *w, double *c)
{
    for (int pass = 0; pass < 2; pass++) {
        cblas_dgemv(CblasRowMajor, CblasNoTrans, j, m->k, 1.0, m->basis, m->k, w, 1, 0.0, c, 1);
        cblas_dgemv(CblasRowMajor, CblasTrans, j, m->k, -1.0, m->basis, m->k, c, 1, 1.0, w, 1);
    }
}

/* Lanczos on g with full orthogonalisation, until the residual of the largest Ritz pair,
 * beta_j |y_j|, is rounding, or `steps`. small has space for steps*(steps + 8) + k numbers.
 * u (k): the Ritz vector, normalised. */
static void largest_ritz_vector(const gram *m, int steps, double *small, double *u)
{
    double *alpha = small, *beta = alpha + steps, *y = beta + steps, *c = y + steps;
    double *w = c + steps, *z = w + m->k;
    int j = 0, length = 1;
    start_vector(m->basis, m->k);
    y[0] = 1.0;
    for (bool done = false; !done;) {
        const double *v = m->basis + (int64_t)j * m->k;
        cblas_dsymv(CblasRowMajor, CblasLower, m->k, 1.0, m->g, m->k, v, 1, 0.0, w, 1);
        alpha[j] = cblas_ddot(m->k, v, 1, w, 1);
        orthogonalise(m, ++j, w, c);
        beta[j - 1] = cblas_dnrm2(m->k, w, 1);
        const double noise = m->k * DBL_EPSILON * m->frobenius * m->frobenius;
        const bool stuck = beta[j - 1] <= noise; /* the space is invariant: nothing new in w */
        if (j % 8 == 0 || stuck || j == steps) {
            const double theta = ritz(alpha, beta, j, z, y);
            if (theta >= 0.0)
                length = j;
            done = stuck || j == steps || beta[j - 1] * fabs(y[j - 1]) <= DBL_EPSILON * theta;
        }
        if (!done) {
            double *next = m->basis + (int64_t)j * m->k;
            memcpy(next, w, (size_t)m->k * sizeof *next);
            cblas_dscal(m->k, 1.0 / beta[j - 1], next, 1);
        }
    }
    cblas_dgemv(CblasRowMajor, CblasTrans, length, m->k, 1.0, m->basis, m->k, y, 1, 0.0, u, 1);
    cblas_dscal(m->k, 1.0 / cblas_dnrm2(m->k, u, 1), u, 1);
}

/* |a u|, or |a'u| where g is a a'. product has space for the larger dimension. */
static double image_norm(const gram *m, const double *u, double *product)
{
    const bool tall = m->rows >= m->cols;
    cblas_dgemv(CblasRowMajor, tall ? CblasNoTrans : CblasTrans, m->rows, m->cols, 1.0, m->a,
                m->cols, u, 1, 0.0, product, 1);
    return cblas_dnrm2(tall ? m->rows : m->cols, product, 1);
}

/* ---- above: Cholesky ---- */

/* Returns true if t exceeds the spectral norm: t^2 I - G has a Cholesky factor exactly then (G
 * the Gram matrix). */
static bool exceeds_norm(const gram *m, double t)
{
    const int64_t k = m->k;
    for (int64_t i = 0; i < k * k; i++)
        m->work[i] = -m->g[i];
    for (int64_t i = 0; i < k; i++)
        m->work[i * k + i] += t * t;
    return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', m->k, m->work, m->k) == 0;
}

/* An upper bound of |a| from the lower bound s; the Frobenius norm if nothing smaller is proved. */
static double upper_bound(const gram *m, double s)
{
    const double f2 = m->frobenius * m->frobenius, k = (double)m->k;
    const double length = (double)(m->rows > m->cols ? m->rows : m->cols);
    double t = 2.0 * m->frobenius;
    for (double above = 1e-12; above < 1.0; above *= 32.0) {
        if (exceeds_norm(m, s * (1.0 + above))) {
            t = s * (1.0 + above);
            break;
        }
    }
    const double rounding = UNIT_ROUNDOFF * ((length + 2.0) * f2 + (k + 2.0) * k * t * t);
    return fmin(sqrt(t * t + rounding), m->frobenius * (1.0 + length * k * UNIT_ROUNDOFF));
}

/* ---- together ---- */

/* Computes the Gram matrix of the shorter side: k = min(rows, cols). */
static void form_gram(gram *m)
{
    const bool tall = m->rows >= m->cols;
    cblas_dsyrk(CblasRowMajor, CblasLower, tall ? CblasTrans : CblasNoTrans, m->k,
                tall ? m->rows : m->cols, 1.0, m->a, m->cols, 0.0, m->g, m->k);
    m->frobenius = 0.0;
    for (int64_t i = 0; i < m->k; i++) {
        m->frobenius += m->g[i * m->k + i];
        for (int64_t j = 0; j < i; j++)
            m->g[j * m->k + i] = m->g[i * m->k + j];
    }
    m->frobenius = sqrt(m->frobenius);
}

/* Encloses the spectral norm: from below by the image of a Ritz vector, from above by
 * exceeds_norm(). */
static es_num bracket(gram *m, int steps, double *small, double *u)
{
    form_gram(m);
    largest_ritz_vector(m, steps, small, u);
    const double s = image_norm(m, u, u + m->k), t = upper_bound(m, s);
    const double rounding = (double)(m->rows + m->cols) * UNIT_ROUNDOFF * s;
    return (es_num){.val = s, .err = fmax(t - s, 0.0) + rounding};
}

/* Allocates what bracket() works in: g and work (k, k), basis (steps, k), small and u. */
static es_status scratch(gram *m, int steps, es_arena *arena, double **small, double **u,
                         es_error *err)
{
    const char *what = "linear algebra";
    ES_TRY(ES_ARENA_NEW_2D(arena, m->g, m->k, m->k, what, err));
    ES_TRY(ES_ARENA_NEW_2D(arena, m->work, m->k, m->k, what, err));
    ES_TRY(ES_ARENA_NEW_2D(arena, m->basis, steps, m->k, what, err));
    ES_TRY(ES_ARENA_NEW(arena, *small, steps * (int64_t)(steps + 8) + m->k, what, err));
    return ES_ARENA_NEW(arena, *u, m->rows + m->cols, what, err);
}

es_status es_norm_certified(const es_view *a, int steps, es_mem_limit *budget, es_num *out,
                            es_error *err)
{
    es_scan scan;
    *out = (es_num){0};
    ES_TRY(es_dense_check(a, "the matrix", &scan, err));
    if (scan.max_abs == 0.0)
        return ES_OK;
    const int64_t count = a->rows * a->cols, k = a->rows < a->cols ? a->rows : a->cols;
    int exponent;
    frexp(scan.max_abs, &exponent);
    gram m = {.rows = (int)a->rows, .cols = (int)a->cols, .k = (int)k};
    if (steps > m.k)
        steps = m.k;

    double *small, *u;
    es_arena arena = {.budget = budget};
    ES_TRY(es_dense_copy(a, "the matrix", budget, &m.a, err));
    es_status status = scratch(&m, steps, &arena, &small, &u, err);
    if (status == ES_OK) {
        for (int64_t i = 0; i < count; i++) /* by a power of 2: exact, and squares stay in range */
            m.a[i] = ldexp(m.a[i], -exponent);
        es_blas_enter();
        const es_num scaled = bracket(&m, steps, small, u);
        es_blas_leave();
        *out = (es_num){.val = ldexp(scaled.val, exponent), .err = ldexp(scaled.err, exponent)};
    }
    es_arena_free(&arena);
    es_mem_free(budget, m.a);
    if (status == ES_OK && !isfinite(out->val + out->err))
        status = es_fail(err, ES_E_OVERFLOW, "linalg.overflow", "scale the matrix",
                         "the spectral norm overflows");
    if (status == ES_OK && !(out->err <= ERROR_MOST * out->val))
        status = es_fail(err, ES_E_NUMERIC, "linalg.norm", "use the bound that was returned",
                         "the spectral norm is only known to be in [%.6g, %.6g]",
                         fmax(out->val - out->err, 0.0), out->val + out->err);
    return status;
}

es_status es_norm_spectral(const es_view *a, es_mem_limit *budget, es_num *out, es_error *err)
{
    *out = (es_num){0};
    ES_TRY(es_view_check(a, "the matrix", err));
    const int64_t k = a->rows < a->cols ? a->rows : a->cols;
    if (k == 0 || k > SVD_MOST)
        return es_norm_certified(a, ES_NORM_STEPS, budget, out, err);
    double *s;
    ES_TRY(es_dense_new(budget, k, 1, &s, err));
    const es_status status = es_svd_factor(a, budget, s, NULL, NULL, &out->err, err);
    out->val = status == ES_OK ? s[0] : 0.0;
    es_mem_free(budget, s);
    return status;
}
