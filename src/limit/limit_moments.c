/* SPDX-License-Identifier: Apache-2.0 */
/* limit_moments.c : mean and covariance of Gamma(X) when the query X is a token, too (THEORY 1.2).
 *
 * X ~ N(m, S): Gamma is the affine map V (m + S A x), so mean and covariance are its. X = B Z with
 * Z on a sphere: Gamma = VB grad K_Z(B'AB Z) is odd, its mean 0, and along the singular vectors of
 * B'AB its covariance is diagonal (sphere_spectrum.c). Otherwise sums over points. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "law/law_row.h"
#include "limit/limit_map.h"
#include "linalg/linalg.h"

#define EPS DBL_EPSILON

const char *es_limit_method_name(es_limit_method method)
{
    static const char *const names[] = {[ES_LIMIT_EXACT] = "exact",
                                        [ES_LIMIT_QUADRATURE] = "quadrature",
                                        [ES_LIMIT_SAMPLED] = "sampled"};
    return method >= ES_LIMIT_EXACT && method <= ES_LIMIT_SAMPLED ? names[method] : "?";
}

/* What every way to the moments is given, and where it puts them. */
typedef struct request {
    const es_law *law;
    const es_limit_head *head;
    const es_exec *exec;
    int64_t d, dv;
    double *mean, *cov;
    es_limit_accuracy *accuracy;
} request;

/* Returns the Frobenius norm of `count` numbers. */
static double frobenius(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* ---- scratch matrices ---- */

/* Scratch matrices of one computation. After a failure the functions below do nothing. */
typedef struct scratch {
    es_arena arena;
    es_error *err;
    es_status status;
} scratch;

/* Allocates a matrix that clear() frees; after the first failure it returns NULL, so that callers
 * check once. */
static double *take(scratch *k, int64_t rows, int64_t cols)
{
    double *memory = NULL;
    if (k->status == ES_OK)
        k->status = ES_ARENA_NEW_2D(&k->arena, memory, rows, cols, "limit moments", k->err);
    return memory;
}

/* A new a b. */
static double *product(scratch *k, es_view a, es_view b)
{
    double *out = take(k, a.rows, b.cols);
    if (k->status == ES_OK)
        k->status = es_mat_multiply(&a, &b, k->arena.budget, out, k->err);
    return out;
}

/* m, or an identity matrix if it is NULL. */
static const double *given(scratch *k, const double *m, int64_t d)
{
    if (m)
        return m;
    double *out = take(k, d, d);
    for (int64_t i = 0; k->status == ES_OK && i < d; i++)
        out[i * d + i] = 1.0;
    return out;
}

/* Frees all matrices of take() and returns the first failure. */
static es_status clear(scratch *k)
{
    es_arena_free(&k->arena);
    return k->status;
}

/* Views d x d numbers as a matrix. */
static es_view square(const double *m, int64_t d) { return es_view_f64(m, d, d); }

/* Views numbers as the transpose of a (rows, cols) matrix. */
static es_view turned(const double *m, int64_t rows, int64_t cols)
{
    const es_view v = es_view_f64(m, rows, cols);
    return es_view_transpose(&v);
}

/* r->cov = g g' for g (dv, d): symmetric to the bit. */
static void outer(const request *r, const double *g, scratch *k)
{
    const es_view a = es_view_f64(g, r->dv, r->d), b = turned(g, r->dv, r->d);
    if (k->status == ES_OK)
        k->status = es_mat_multiply(&a, &b, k->arena.budget, r->cov, k->err);
    for (int64_t i = 0; k->status == ES_OK && i < r->dv; i++) {
        for (int64_t j = 0; j < i; j++)
            r->cov[j * r->dv + i] = r->cov[i * r->dv + j];
    }
}

/* ---- closed forms ---- */

/* N(m, S): mean V (m + S A m), covariance g g' with g = V S A size B, S = size^2 BB'. */
static es_status gaussian_moments(const request *r, es_error *err)
{
    const int64_t d = r->d, dv = r->dv;
    const double size2 = r->law->size * r->law->size;
    scratch k = {.arena.budget = r->exec->budget, .err = err};
    const double *A = given(&k, r->head->A, d), *V = given(&k, r->head->V, d);
    const double *B = given(&k, r->law->factor, d);
    const double *VB = product(&k, es_view_f64(V, dv, d), square(B, d));
    const double *VS = product(&k, es_view_f64(VB, dv, d), turned(B, d, d));
    const double *VSA = product(&k, es_view_f64(VS, dv, d), square(A, d));
    double *g = product(&k, es_view_f64(VSA, dv, d), square(B, d));
    const double scale = size2 * r->law->size;
    for (int64_t i = 0; k.status == ES_OK && i < dv * d; i++)
        g[i] *= scale;
    outer(r, g, &k);
    if (k.status == ES_OK) {
        const double *m = r->law->mean, sizes = frobenius(V, dv * d);
        const double S = size2 * frobenius(B, d * d) * frobenius(B, d * d);
        const double gain = S * frobenius(A, d * d), norm = m ? frobenius(m, d) : 0.0;
        memset(r->mean, 0, (size_t)dv * sizeof *r->mean);
        for (int64_t i = 0; m && i < dv * d; i++)
            r->mean[i / d] += (V[i] + size2 * VSA[i]) * m[i % d];
        const double rounding = 4.0 * (double)(d + 2) * EPS;
        *r->accuracy = (es_limit_accuracy){.method = ES_LIMIT_EXACT,
                                           .mean = rounding * sizes * (1.0 + gain) * norm,
                                           .cov = rounding * sizes * sizes * gain * gain * S};
    }
    return clear(&k);
}

/* Sphere or ball of radius R around 0, Y = B Z: Gamma(B z) = VB grad K_Z(B'AB z). The ball is the
 * shadow of a sphere in two dimensions more. */
static es_status sphere_moments(const request *r, es_error *err)
{
    const int64_t d = r->d, dv = r->dv, q = d + es_law_row_of(r->law->kind)->above;
    scratch k = {.arena.budget = r->exec->budget, .err = err};
    const double *A = given(&k, r->head->A, d), *V = given(&k, r->head->V, d);
    const double *B = given(&k, r->law->factor, d);
    const double *AB = product(&k, square(A, d), square(B, d));
    const double *BAB = product(&k, turned(B, d, d), square(AB, d));
    const double *VB = product(&k, es_view_f64(V, dv, d), square(B, d));
    double *sigma = take(&k, 2, d), *u = take(&k, d, d), *vt = take(&k, d, d);
    double bound = 0.0, error = 0.0, *lambda = sigma ? sigma + d : NULL;
    const es_view core = square(BAB, d);
    if (k.status == ES_OK)
        k.status = es_svd_factor(&core, k.arena.budget, sigma, u, vt, &bound, err);
    for (int64_t i = 0; k.status == ES_OK && i < d; i++)
        sigma[i] = sigma[i] > bound ? sigma[i] : 0.0;
    if (k.status == ES_OK)
        k.status = es_sphere_spectrum(sigma, d, q, r->law->size, r->exec, lambda, &error, err);
    double *g = product(&k, es_view_f64(VB, dv, d), square(u, d));
    for (int64_t i = 0; k.status == ES_OK && i < dv * d; i++)
        g[i] *= sqrt(lambda[i % d]);
    outer(r, g, &k);
    if (k.status == ES_OK) {
        const double size = frobenius(VB, dv * d);
        memset(r->mean, 0, (size_t)dv * sizeof *r->mean);
        error += 16.0 * (double)d * EPS * lambda[0];
        *r->accuracy =
            (es_limit_accuracy){.method = ES_LIMIT_QUADRATURE, .cov = size * size * error};
    }
    return clear(&k);
}

/* On the line Gamma is a number times V (dv, 1). */
static es_status line_moments(const request *r, es_error *err)
{
    es_num mean, variance;
    double largest = 1.0;
    ES_TRY(es_limit_line(r->law, r->head->A ? *r->head->A : 1.0, r->exec, &mean, &variance, err));
    for (int64_t i = 0; i < r->dv; i++) {
        const double vi = r->head->V ? r->head->V[i] : 1.0;
        largest = i == 0 ? fabs(vi) : fmax(largest, fabs(vi));
        r->mean[i] = vi * mean.val;
        for (int64_t j = 0; j < r->dv; j++)
            r->cov[i * r->dv + j] = vi * (r->head->V ? r->head->V[j] : 1.0) * variance.val;
    }
    *r->accuracy = (es_limit_accuracy){.method = ES_LIMIT_QUADRATURE,
                                       .mean = largest * mean.err,
                                       .cov = largest * largest * variance.err};
    return ES_OK;
}

/* ---- averages over points ---- */

/* Largest standard errors of an element of the mean and of the covariance of y (m, dv). */
static void standard_errors(const request *r, const double *y, int64_t m)
{
    double mean2 = 0.0, cov2 = 0.0;
    const double n = (double)m;
    for (int64_t i = 0; i < r->dv; i++) {
        mean2 = fmax(mean2, r->cov[i * r->dv + i]);
        for (int64_t j = 0; j <= i; j++) {
            double fourth = 0.0;
            const double c = r->cov[i * r->dv + j];
            for (int64_t l = 0; l < m; l++) {
                const double p = (y[l * r->dv + i] - r->mean[i]) * (y[l * r->dv + j] - r->mean[j]);
                fourth += (p - c) * (p - c);
            }
            cov2 = fmax(cov2, fourth / n);
        }
    }
    r->accuracy->mean = sqrt(mean2 / n);
    r->accuracy->cov = sqrt(cov2 / n);
}

/* Over draws, or over all there is: then the errors are those of the rows. */
static es_status point_moments(const request *r, const es_view *points, bool all, es_error *err)
{
    es_mem_limit *budget = r->exec->budget;
    ES_TRY(es_view_check(points, "points", err));
    const int64_t m = points->rows;
    double *memory;
    ES_TRY(ES_MEM_NEW_2D(budget, memory, m > 0 ? m : 0, r->dv + 1, "outputs", err));
    double *y = memory, *errors = y + m * r->dv;
    const es_view outputs = es_view_f64(y, m, r->dv);
    es_status status =
        es_limit_rows(r->law, r->head, points, r->exec, y, NULL, all ? errors : NULL, err);
    if (status == ES_OK)
        status = es_cov_estimate(&outputs, !all, r->exec, r->mean, r->cov, err);
    if (status == ES_OK && !all) {
        r->accuracy->method = ES_LIMIT_SAMPLED;
        standard_errors(r, y, m);
    } else if (status == ES_OK) {
        double worst = 0.0, spread = 0.0;
        for (int64_t i = 0; i < m; i++)
            worst = fmax(worst, errors[i]);
        for (int64_t i = 0; i < r->dv; i++)
            spread = fmax(spread, r->cov[i * r->dv + i]);
        *r->accuracy = (es_limit_accuracy){.method = ES_LIMIT_EXACT,
                                           .mean = worst + 64.0 * EPS * frobenius(r->mean, r->dv),
                                           .cov = 4.0 * sqrt(spread) * worst + 64.0 * EPS * spread};
    }
    es_mem_free(budget, memory);
    return status;
}

/* ---- which way ---- */

/* Fails for a law, or a part of a mixture, with infinite exponential moments: outputs of queries
 * drawn from it have no moments. */
static es_status refuse_infinite(const es_law *law, es_error *err)
{
    const bool mixed = es_law_uses(law->kind) & ES_LAW_USES_PARTS;
    for (int64_t j = 0; j < (mixed ? law->n_parts : 1); j++) {
        const es_law *part = mixed ? &law->parts[j] : law;
        if (!(es_law_traits(part->kind) & ES_LAW_ENTIRE))
            return es_fail(err, ES_E_RANGE, "limit.infinite",
                           "use a law with lighter tails, or map bounded queries",
                           "queries drawn from a %s law meet infinite exponential moments: the "
                           "output has no moments",
                           es_law_name(part->kind));
    }
    return ES_OK;
}

/* Returns true if the mean of the law is zero. */
static bool centred(const es_law *law)
{
    for (int64_t i = 0; law->mean && i < law->dim; i++) {
        if (law->mean[i] != 0.0)
            return false;
    }
    return true;
}

es_status es_limit_moments(const es_law *law, const es_limit_head *head, const es_view *points,
                           const es_exec *exec, double *mean, double *cov,
                           es_limit_accuracy *accuracy, es_error *err)
{
    const es_exec plain = {0};
    ES_TRY(es_limit_check(law, head, err));
    ES_TRY(refuse_infinite(law, err));
    const request r = {.law = law,
                       .head = head,
                       .exec = exec ? exec : &plain,
                       .d = law->dim,
                       .dv = es_limit_dv(law, head),
                       .mean = mean,
                       .cov = cov,
                       .accuracy = accuracy};
    const es_law_row *row = es_law_row_of(law->kind);
    const bool finite = row->uses & ES_LAW_USES_POINTS;
    if (row->traits & ES_LAW_QUADRATIC)
        return gaussian_moments(&r, err);
    if ((row->traits & ES_LAW_SHADOW) && centred(law))
        return sphere_moments(&r, err);
    if (finite && !law->mean && !law->factor)
        return point_moments(&r, law->points, true, err);
    if (law->dim == 1 && !finite)
        return line_moments(&r, err);
    if (points)
        return point_moments(&r, points, false, err);
    return es_fail(err, ES_E_UNSUPPORTED, "limit.points", "give points drawn from the law",
                   "output moments of a %s law of dimension %lld have no closed form",
                   es_law_name(law->kind), (long long)law->dim);
}
