/* SPDX-License-Identifier: Apache-2.0 */
/* horizons.c : norms of S^{1/2} A S^{1/2} (THEORY 2), the exponents that follow from them, and the
 * slopes of predictions at finite n.
 *
 * Scores of x = S^{1/2} z against tokens S^{1/2} w are <M z, w>, M = S^{1/2} A S^{1/2}: q = |M z|,
 * so |M| is the largest q of a unit z and |M|_F^2 = E q^2. With A = Wk'Wq/sqrt(k) all norms are
 * those of (Wk S^{1/2})' (Wq S^{1/2}), which QR of both factors makes a (k, k) matrix. */
#include "theory/predict.h"

#include <float.h>
#include <math.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/view.h"
#include "linalg/linalg.h"
#include "stats/special.h"

/* ---- what is asked, checked and multiplied out ---- */

/* Fails unless the covariance is square, finite and not empty. */
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
        return es_fail(err, ES_E_ARGUMENT, "theory.head", "", "missing covariance or head");
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
    es_mem_limit *budget;
} factors;

/* Frees the factors. */
static void free_factors(factors *f)
{
    double *arrays[] = {f->root, f->left, f->right, f->plain, f->small, f->q, f->r1, f->r2};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        es_mem_free(f->budget, arrays[i]);
}

/* Allocates the factors of a horizon. */
static es_status new_factors(const es_view *cov, const es_head *head, es_mem_limit *budget,
                             factors *f, es_error *err)
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
        ES_TRY(ES_MEM_NEW(budget, *arrays[i], sizes[i], "horizons", err));
    }
    return ES_OK;
}

/* Computes S^1/2 and its products with both sides of A, on which all norms rest. */
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

/* Returns the Frobenius norm. */
static double frobenius_of(const double *a, int64_t count)
{
    double squares = 0.0;
    for (int64_t i = 0; i < count; i++)
        squares += a[i] * a[i];
    return sqrt(squares);
}

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
    *frobenius = frobenius_of(f->small, size * size);
    const es_view small = es_view_f64(f->small, size, size);
    return es_norm_spectral(&small, f->budget, norm, err);
}

/* How far rounding may have moved a norm N whose square depends linearly on S: `slope` is |dN^2| /
 * |dS|/|S|. Where N is small against it, its square root is the bound. */
static double rounding(double norm, double slope, double relative)
{
    const double most = sqrt(relative * slope);
    return norm > most ? relative * slope / norm : most;
}

/* Computes reach, one-sided and two-sided horizon with bounds of their rounding errors. */
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

/* Computes coupling and rates from the norms: 1/(2 (1 + 32 Psi)), 1/(2 (1 + Psi)), 1/(2 (1 +
 * H^2)). */
static void derive(double scale, bool unscaled, es_horizons *out)
{
    const double h1 = out->one_sided.val, reach = out->reach.val, H = out->horizon.val;
    out->coupling.val = reach * h1 * h1;
    out->coupling.err = out->reach.err * h1 * h1 + 2.0 * reach * h1 * out->one_sided.err +
                        4.0 * DBL_EPSILON * out->coupling.val;
    out->unscaled.val = unscaled ? H / scale : (double)NAN;
    out->unscaled.err = unscaled ? out->horizon.err / scale : (double)NAN;
    out->rate_worst_case = 0.5 / (1.0 + 32.0 * out->coupling.val);
    out->rate_coupling = 0.5 / (1.0 + out->coupling.val);
    out->rate_horizon = 0.5 / (1.0 + H * H);
}

es_status es_horizons_of(const es_view *cov, double tolerance, const es_head *head,
                         es_mem_limit *budget, es_horizons *out, es_error *err)
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

/* ==== exponents: powers of n for n -> infinity (THEORY 4.3, 4.4), and constants of the CLT ====
 * One query, q = u sqrt(2 ln n): n e^{-g^2/2} tokens have score q g, up to g = sqrt(2 ln n), and
 * whichever g makes the error largest decides: inside that range (exponent 1/2 - u^2) or at its
 * end, where a few tokens have all the weight. Averaging e^{-theta ln n} over x ~ N(0, S), whose
 * largest q grow like H |x|, is one more maximum, which is where H enters. Heuristic; checked by
 * rem.c. */

es_status es_exponents_at(double horizon, es_exponents *out, es_error *err)
{
    if (!(horizon >= 0.0) || isinf(horizon))
        return es_fail(err, ES_E_RANGE, "theory.horizon", "a norm is finite and not negative",
                       "the horizon is %g", horizon);
    const double h2 = horizon * horizon;
    /* sqrt(1+x) - 1 without cancellation */
    const double four = 4.0 / h2 / (sqrt(1.0 + 4.0 / h2) + 1.0);
    const double eight = 8.0 / h2 / (sqrt(1.0 + 8.0 / h2) + 1.0);
    out->paper = 0.5 / (1.0 + h2);
    out->query_rms = h2 <= 0.5 ? 0.5 : 0.25 * four;
    out->cov_bias = 2.0 * out->query_rms;
    out->mean_rms = h2 <= 1.0 ? 0.5 : 0.25 * eight;
    out->mean_abs = fmin(0.5, 1.0 / (1.0 + h2));
    return ES_OK;
}

/* THEORY 4.4, constants: n E|m_n|^2 -> E|c(eta)|^2, c(eta) = E_z (eta - Mz) e^{<Mz,eta> -
 * |Mz|^2/2}. In the singular directions that is (1+h^2)^{-3/2} eta e^{k eta^2/2}, k = h^2/(1+h^2),
 * and its mean square (1-h^4)^{-3/2}; another direction's weight alone gives (1-h^4)^{-1/2}. */
es_status es_mean_clt(const double *h, int64_t count, double *out, es_error *err)
{
    if (count < 1)
        return es_fail(err, ES_E_ARGUMENT, "theory.clt", "give the singular values of M",
                       "no singular values");
    double log_product = 0.0, sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double h2 = h[i] * h[i], rest = (1.0 - h2) * (1.0 + h2);
        if (!(h[i] >= 0.0 && h[i] < 1.0))
            return es_fail_at(err, ES_E_RANGE, i, 0, "theory.clt", "the CLT holds for H < 1",
                              "a singular value is %g", h[i]);
        log_product += log(rest);
        sum += 1.0 / rest;
    }
    *out = exp(-0.5 * log_product) * sum;
    return ES_OK;
}

/* ==== what both kinds of finite-n prediction share ==== */

es_status es_predict_check(int64_t d, double n, es_error *err)
{
    if (d < 1 || d > ES_MAX_DIM)
        return es_fail(err, ES_E_RANGE, "theory.predict.dim", "use 1 to 4096 dimensions",
                       "%lld dimensions", (long long)d);
    if (!(n >= 3.0 && n <= 1e12 && n == floor(n)))
        return es_fail(err, ES_E_RANGE, "theory.predict.n", "use a whole number from 3 to 1e12",
                       "a prediction for %g tokens", n);
    return ES_OK;
}

/* Scales the covariance's errors of a head by ratio^2: they are of second order in A where A is
 * small, and would be lost in rounding if computed directly. */
void es_predict_shrink(es_prediction *small, const es_prediction *larger, double ratio)
{
    const double square = ratio * ratio;
    small->population.cov_bias = square * larger->population.cov_bias;
    small->population.cov_rms = square * larger->population.cov_rms;
    small->self.cov_bias = square * larger->self.cov_bias;
    small->self.cov_rms = square * larger->self.cov_rms;
}

double es_norm_ratio(int64_t d)
{
    const double half = 0.5 * (double)d;
    return exp(es_log_gamma(half + 0.5) - es_log_gamma(half) - 0.5 * log(half));
}

double es_predict_next(double n) { return ceil(1.02 * n); }

/* Returns the slope of ln|x| between two points. */
static double slope_of(double here, double next, double distance)
{
    return log(fabs(here) / fabs(next)) / distance;
}

/* Writes the local slopes -d ln error/d ln n of all errors between two n. */
static void slopes_of(const es_predicted *here, const es_predicted *next, double distance,
                      es_predicted *out)
{
    out->query_rms = slope_of(here->query_rms, next->query_rms, distance);
    out->mean_rms = slope_of(here->mean_rms, next->mean_rms, distance);
    out->mean_abs = slope_of(here->mean_abs, next->mean_abs, distance);
    out->cov_bias = slope_of(here->cov_bias, next->cov_bias, distance);
    out->cov_rms = slope_of(here->cov_rms, next->cov_rms, distance);
}

void es_predict_slope(const es_prediction *here, const es_prediction *next, double distance,
                      es_prediction *out)
{
    slopes_of(&here->population, &next->population, distance, &out->population);
    slopes_of(&here->self, &next->self, distance, &out->self);
    out->sampling = here->sampling;
}
