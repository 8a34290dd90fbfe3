/* SPDX-License-Identifier: Apache-2.0 */
/* law_tilt.c : from one coordinate, or a radius, to K of any law: what the rows share.
 *
 * Independent coordinates add, K(s) = sum k(s_i). Rotation-invariant laws depend on |s| alone. And
 * for Y = mean + B Z, E e^{<t,Y>} = e^{<t,mean>} E e^{<B't,Z>}: K_Y(t) = K_Z(B't) + <mean, t>,
 * gradient mean + B grad K_Z, Hessian B Hess K_Z B' (THEORY 1). */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "law/law_row.h"
#include "linalg/linalg.h"

#define EPS DBL_EPSILON

/* ---- rotation-invariant laws ---- */

/* Returns |x| scaled by its largest element, so that squares neither overflow nor vanish. */
double es_tilt_norm(const double *x, int64_t d)
{
    double most = 0.0, sum = 0.0;
    for (int64_t i = 0; i < d; i++)
        most = fmax(most, fabs(x[i]));
    if (most == 0.0)
        return 0.0;
    for (int64_t i = 0; i < d; i++)
        sum += (x[i] / most) * (x[i] / most);
    return most * sqrt(sum);
}

/* Rotation-invariant law: K(v) = k(|v|) with k = ln of the Bessel function. Gradient A(r) v/r,
 * Hessian (A/r) I + (A' - A/r) v v'/r^2, where A = k' is the Bessel ratio. */
void es_tilt_radial(int64_t q, double R, const double *v, int64_t d, double v_err, es_tilt *out)
{
    es_num A, slope;
    const double r = es_tilt_norm(v, d);
    es_bessel_ratio_slope(q, r, &A, &slope);
    const es_num K = es_bessel_log(q, r);
    const double over = r > 0.0 ? A.val / r : 1.0 / (double)q; /* A/r, which is A'(0) at 0 */
    const double r_err = v_err + (double)(d + 4) * EPS * r;
    for (int64_t i = 0; i < d; i++)
        out->grad[i] = R * over * v[i];
    for (int64_t i = 0; out->hess && i < d; i++) {
        for (int64_t j = 0; j < d; j++) {
            const double uu = r > 0.0 ? (v[i] / r) * (v[j] / r) : 0.0;
            out->hess[i * d + j] = R * R * ((i == j ? over : 0.0) + (slope.val - over) * uu);
        }
    }
    out->K = K.val;
    out->K_err = K.err + A.val * r_err;
    out->curvature = R * R * fmax(over, slope.val);
    out->third = 2.0 * R * out->curvature; /* |E (Y-EY)^3| <= 2R E (Y-EY)^2 on the sphere */
    out->grad_err = R * (A.err + 4.0 * EPS * A.val) + out->curvature * r_err / R;
    out->hess_err = R * R * (slope.err + 16.0 * EPS * over) + out->third * r_err / R;
}

/* ---- independent coordinates ---- */

/* Beyond its edge the law has no exponential moment. */
static es_status check_edge(const es_law *law, int64_t i, double s, es_error *err)
{
    const es_law_row *row = es_law_row_of(law->kind);
    char rule[sizeof err->rule];
    if (row->edge == 0.0 || fabs(law->size * s) < row->edge)
        return ES_OK;
    snprintf(rule, sizeof rule, "limit.%s", row->name);
    return es_fail(err, ES_E_RANGE, rule, "keep size |(B't)_i| below 1",
                   "the %s law has no exponential moment at this tilt: coordinate "
                   "%lld is %g in units of 1/size",
                   row->title, (long long)i, law->size * s);
}

/* Independent coordinates: K(s) = sum K_1(s_i), so that the gradient is a vector and the Hessian
 * diagonal. */
es_status es_tilt_product(const es_law *law, const double *s, double *work, es_mem_limit *budget,
                          es_tilt *out, es_error *err)
{
    (void)work, (void)budget;
    const int64_t d = law->dim;
    double error2 = 0.0;
    *out = (es_tilt){.grad = out->grad, .hess = out->hess};
    if (out->hess)
        memset(out->hess, 0, (size_t)(d * d) * sizeof(double));
    for (int64_t i = 0; i < d; i++) {
        es_coordinate c;
        ES_TRY(check_edge(law, i, s[i], err));
        es_law_row_of(law->kind)->coordinate(law, s[i], &c);
        out->grad[i] = c.grad;
        if (out->hess)
            out->hess[i * d + i] = c.hess;
        out->K += c.K;
        out->K_err += c.K_err;
        error2 += c.grad_err * c.grad_err;
        out->hess_err = fmax(out->hess_err, c.hess_err);
        out->curvature = fmax(out->curvature, c.hess);
        out->third = fmax(out->third, c.third);
    }
    out->K_err += (double)d * EPS * out->K;
    out->grad_err = sqrt(error2);
    return ES_OK;
}

/* ---- Y = mean + B Z ---- */

/* s = B't, and a bound on the Euclidean norm of its rounding error. */
static double pull_back(const double *B, const double *t, int64_t d, double *s)
{
    double error2 = 0.0;
    for (int64_t j = 0; j < d; j++) {
        double sum = 0.0, size = 0.0;
        for (int64_t i = 0; i < d; i++) {
            sum += B[i * d + j] * t[i];
            size += fabs(B[i * d + j] * t[i]);
        }
        s[j] = sum;
        const double off = (double)d * EPS * size;
        error2 += off * off;
    }
    return sqrt(error2);
}

/* The derivatives at s become those at t: grad <- B grad, hess <- B hess B'. s_err is the error of
 * s, work (d) and square (d, d) are scratch. */
static es_status push_forward(const double *B, int64_t d, double s_err, double *work,
                              double *square, es_mem_limit *budget, es_tilt *z, es_error *err)
{
    double frobenius2 = 0.0, g2 = 0.0;
    for (int64_t i = 0; i < d * d; i++)
        frobenius2 += B[i] * B[i];
    for (int64_t i = 0; i < d; i++)
        g2 += z->grad[i] * z->grad[i];
    const double size = sqrt(frobenius2), rounding = (double)(d + 1) * EPS;
    z->K_err += (sqrt(g2) + z->curvature * s_err) * s_err;
    z->grad_err = size * (z->grad_err + z->curvature * s_err + rounding * sqrt(g2));
    z->hess_err =
        frobenius2 * ((double)d * z->hess_err + z->third * s_err + 2.0 * rounding * z->curvature);
    z->third *= frobenius2 * size;
    z->curvature *= frobenius2;
    for (int64_t i = 0; i < d; i++) {
        work[i] = 0.0;
        for (int64_t j = 0; j < d; j++)
            work[i] += B[i * d + j] * z->grad[j];
    }
    memcpy(z->grad, work, (size_t)d * sizeof *work);
    if (!z->hess)
        return ES_OK;
    const es_view b = es_view_f64(B, d, d), bt = es_view_transpose(&b);
    const es_view h = es_view_f64(z->hess, d, d), bh = es_view_f64(square, d, d);
    ES_TRY(es_mat_multiply(&b, &h, budget, square, err));
    return es_mat_multiply(&bh, &bt, budget, z->hess, err);
}

/* Adds mean.t to K and the mean to its gradient, with the rounding errors of both. */
static void add_mean(const double *mean, const double *t, int64_t d, es_tilt *out)
{
    double sum = 0.0, size = 0.0, norm2 = 0.0;
    for (int64_t i = 0; i < d; i++) {
        sum += mean[i] * t[i];
        size += fabs(mean[i] * t[i]);
        out->grad[i] += mean[i];
        norm2 += out->grad[i] * out->grad[i];
    }
    out->K += sum;
    out->K_err += (double)d * EPS * size + EPS * fabs(out->K);
    out->grad_err += EPS * sqrt(norm2);
}

/* Allocates a matrix of doubles. */
static es_status new_doubles(es_mem_limit *budget, int64_t rows, int64_t cols, double **out,
                             es_error *err)
{
    return ES_MEM_NEW_2D(budget, *out, rows, cols, "log-MGF", err);
}

/* Y = mean + B Z: K_Y(t) = mean.t + K_Z(B't), gradient mean + B grad K_Z, Hessian B (Hess K_Z)
 * B'. Rounding errors of B't propagate through the bounds on curvature. */
es_status es_tilt_law(const es_law *law, const double *t, es_mem_limit *budget, es_tilt *out,
                      es_error *err)
{
    const int64_t d = law->dim;
    double *vectors = NULL, *square = NULL, s_err = 0.0;
    ES_TRY(new_doubles(budget, 2, d, &vectors, err));
    double *s = vectors, *work = vectors + d;
    es_status status = ES_OK;
    if (law->factor && out->hess)
        status = new_doubles(budget, d, d, &square, err);
    if (law->factor)
        s_err = pull_back(law->factor, t, d, s);
    else
        memcpy(s, t, (size_t)d * sizeof *s);
    if (status == ES_OK)
        status = es_law_row_of(law->kind)->tilt(law, s, work, budget, out, err);
    if (status == ES_OK && law->factor)
        status = push_forward(law->factor, d, s_err, work, square, budget, out, err);
    if (status == ES_OK && law->mean)
        add_mean(law->mean, t, d, out);
    es_mem_free(budget, vectors);
    es_mem_free(budget, square);
    if (status == ES_OK && !(isfinite(out->K) && isfinite(out->curvature)))
        status = es_fail(err, ES_E_OVERFLOW, "limit.overflow", "scale the law or the tilt down",
                         "the log-MGF overflows");
    return status;
}
