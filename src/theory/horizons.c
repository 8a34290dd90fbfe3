/* horizons.c : norms of S^{1/2} A S^{1/2} (THEORY 2).
 *
 * Scores of x = S^{1/2} z against tokens S^{1/2} w are <M z, w>, M = S^{1/2} A S^{1/2}: q = |M z|,
 * so |M| is the largest q of a unit z and |M|_F^2 = E q^2. With A = Wk'Wq/sqrt(k) all norms are
 * those of (Wk S^{1/2})' (Wq S^{1/2}), which QR of both factors makes a (k, k) matrix. */
#include <esscher/theory.h>

#include <float.h>
#include <math.h>

#include <esscher/linalg.h>

#include "base/error.h"
#include "base/memory.h"
#include "theory/horizons.h"

/* ---- what is asked, checked and multiplied out ---- */

static es_status check_covariance(const es_view *cov, es_error *err)
{
    es_scan scan;
    ES_TRY(es_view_check(cov, "cov", err));
    if (cov->rows < 1 || cov->cols < 1)
        return es_fail(err, ES_E_EMPTY, "theory.empty", "give at least one row and column",
                       "cov is (%lld, %lld)", (long long)cov->rows, (long long)cov->cols);
    ES_TRY(es_view_scan(cov, "cov", &scan, err));
    if (cov->rows != cov->cols)
        return es_fail(err, ES_E_SHAPE, "theory.shape", "tokens have as many columns as cov",
                       "cov is (%lld, %lld), not (d, d) with d = %lld", (long long)cov->rows,
                       (long long)cov->cols, (long long)cov->cols);
    return ES_OK;
}

es_status es_horizons_check(const es_view *cov, const es_head *head, es_error *err)
{
    if (!cov || !head)
        return es_fail(err, ES_E_ARGUMENT, "theory.head", "", "no covariance or no head");
    ES_TRY(check_covariance(cov, err));
    return es_head_check(head, cov->cols, err);
}

/* M = left' right, where either left = S^{1/2}, right = A S^{1/2} (d rows), or left = Wk S^{1/2},
 * right = Wq S^{1/2} / sqrt(k) (k rows). */
typedef struct factors {
    int64_t rows, d;
    double scale;                 /* 1/sqrt(k), or 1 */
    double *root;                 /* S^{1/2} (d, d) */
    double *left, *right, *plain; /* (rows, d); plain: right without its S^{1/2} */
    double *small, *q, *r1, *r2;  /* (d, d) at most, scratch */
    es_budget *budget;
} factors;

static void free_factors(factors *f)
{
    double *arrays[] = {f->root, f->left, f->right, f->plain, f->small, f->q, f->r1, f->r2};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        es_mem_free(f->budget, arrays[i]);
}

static es_status new_factors(const es_view *cov, const es_head *head, es_budget *budget, factors *f,
                             es_error *err)
{
    const int64_t d = cov->rows, rows = es_head_key_dim(head, d);
    *f = (factors){.rows = rows, .d = d, .budget = budget};
    f->scale = es_head_unit(head);
    const int64_t least = rows < d ? rows : d;
    double **arrays[] = {&f->root,  &f->left, &f->right, &f->plain,
                         &f->small, &f->q,    &f->r1,    &f->r2};
    const int64_t sizes[] = {d * d,         rows * d, rows * d,      rows * d,
                             least * least, d * rows, least * least, least * least};
    for (int i = 0; i < 8; i++) {
        void *memory;
        ES_TRY(es_mem_array(budget, sizes[i], 1, sizeof(double), "horizons", &memory, err));
        *arrays[i] = memory;
    }
    return ES_OK;
}

static es_status fill_factors(const es_view *cov, double tolerance, const es_head *head, factors *f,
                              es_error *err)
{
    const int64_t d = f->d;
    ES_TRY(es_sym_sqrt(cov, tolerance, f->budget, f->root, NULL, err));
    const es_view root = es_view_f64(f->root, d, d);
    const es_view *asking = head->A ? head->A : head->Wq;
    for (int64_t i = 0; i < f->rows; i++) {
        es_view_read_row(asking, i, f->plain + i * d);
        for (int64_t j = 0; j < d; j++)
            f->plain[i * d + j] *= f->scale;
    }
    const es_view plain = es_view_f64(f->plain, f->rows, d);
    ES_TRY(es_mat_multiply(&plain, &root, f->budget, f->right, err));
    if (!head->A)
        return es_mat_multiply(head->Wk, &root, f->budget, f->left, err);
    for (int64_t i = 0; i < d * d; i++)
        f->left[i] = f->root[i];
    return ES_OK;
}

/* ---- norms of a product ---- */

/* |left' right| and |left' right|_F for left, right (rows, d). With rows < d through QR: left' =
 * Q1 R1, right' = Q2 R2, and the norms are those of R1 R2' (rows, rows). */
static es_status product_norm(factors *f, const double *left, const double *right, es_num *norm,
                              double *frobenius, es_error *err)
{
    const int64_t d = f->d, rows = f->rows, size = rows < d ? rows : d;
    const es_view a = es_view_f64(left, rows, d), b = es_view_f64(right, rows, d);
    const es_view at = es_view_transpose(&a), bt = es_view_transpose(&b);
    if (rows < d) {
        ES_TRY(es_qr_factor(&at, f->budget, f->q, f->r1, err));
        ES_TRY(es_qr_factor(&bt, f->budget, f->q, f->r2, err));
        const es_view r1 = es_view_f64(f->r1, rows, rows), r2 = es_view_f64(f->r2, rows, rows);
        const es_view r2t = es_view_transpose(&r2);
        ES_TRY(es_mat_multiply(&r1, &r2t, f->budget, f->small, err));
    } else {
        ES_TRY(es_mat_multiply(&at, &b, f->budget, f->small, err));
    }
    double squares = 0.0;
    for (int64_t i = 0; i < size * size; i++)
        squares += f->small[i] * f->small[i];
    *frobenius = sqrt(squares);
    const es_view small = es_view_f64(f->small, size, size);
    return es_norm_spectral(&small, f->budget, norm, err);
}

static double frobenius_of(const double *a, int64_t count)
{
    double squares = 0.0;
    for (int64_t i = 0; i < count; i++)
        squares += a[i] * a[i];
    return sqrt(squares);
}

/* How far rounding may have moved a norm N whose square depends linearly on S: `slope` is |dN^2| /
 * |dS|/|S|. Where N is small against it, its square root is the bound. */
static double rounding(double norm, double slope, double relative)
{
    const double most = sqrt(relative * slope);
    return norm > most ? relative * slope / norm : most;
}

static es_status measure(const es_view *cov, factors *f, es_horizons *out, es_error *err)
{
    const int64_t d = f->d, rows = f->rows;
    ES_TRY(es_norm_spectral(cov, f->budget, &out->reach, err));
    double ignored, frobenius;
    ES_TRY(product_norm(f, f->left, f->plain, &out->one_sided, &ignored, err));
    ES_TRY(product_norm(f, f->left, f->right, &out->horizon, &frobenius, err));
    out->frobenius.val = frobenius;
    out->trace = 0.0;
    for (int64_t i = 0; i < rows * d; i++)
        out->trace += f->left[i] * f->right[i];
    /* |S^{1/2} Wk'| |Wq| bounds every intermediate result of the one-sided norm; another
     * sqrt(reach) those of the two-sided one. */
    const double relative = 16.0 * (double)(d + rows) * DBL_EPSILON;
    const double one = frobenius_of(f->left, rows * d) * frobenius_of(f->plain, rows * d);
    const double two = frobenius_of(f->left, rows * d) * frobenius_of(f->right, rows * d);
    out->one_sided.err += rounding(out->one_sided.val, one * one, relative);
    out->horizon.err += rounding(out->horizon.val, two * two, relative);
    out->frobenius.err = rounding(frobenius, two * two, relative);
    return ES_OK;
}

static void derive(double scale, bool unscaled, es_horizons *out)
{
    const double h1 = out->one_sided.val, reach = out->reach.val, H = out->horizon.val;
    out->coupling.val = reach * h1 * h1;
    out->coupling.err = out->reach.err * h1 * h1 + 2.0 * reach * h1 * out->one_sided.err +
                        4.0 * DBL_EPSILON * out->coupling.val;
    out->unscaled.val = unscaled ? H / scale : (double)NAN;
    out->unscaled.err = unscaled ? out->horizon.err / scale : (double)NAN;
    out->rate_worst_case = 0.5 / (1.0 + 32.0 * out->coupling.val);
    out->rate_horizon = 0.5 / (1.0 + H * H);
}

es_status es_horizons_of(const es_view *cov, double tolerance, const es_head *head,
                         es_budget *budget, es_horizons *out, es_error *err)
{
    ES_TRY(es_horizons_check(cov, head, err));
    factors f;
    es_status status = new_factors(cov, head, budget, &f, err);
    if (status == ES_OK)
        status = fill_factors(cov, tolerance, head, &f, err);
    if (status == ES_OK)
        status = measure(cov, &f, out, err);
    if (status == ES_OK)
        derive(f.scale, !head->A, out);
    free_factors(&f);
    return status;
}
