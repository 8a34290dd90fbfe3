/* base_laws.c : K, gradient and Hessian of the base laws (THEORY.md, table 1).
 *
 * Three shapes cover all of them. Rotation-invariant laws are the sphere's functions of |v|; a
 * coordinate of the cube is a coordinate of the sphere in R^3 (Archimedes), a Rademacher sign the
 * sphere in R^1; Gaussian and Laplace are elementary. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "limit/bessel.h"
#include "limit/tilt.h"

#define EPS DBL_EPSILON

static double norm_of(const double *x, int64_t d)
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

static void clear_hess(es_tilt *out, int64_t d)
{
    if (out->hess)
        memset(out->hess, 0, (size_t)(d * d) * sizeof(double));
}

/* ---- Gaussian ---- */

static void gaussian(const es_law *law, const double *s, es_tilt *out)
{
    const int64_t d = law->dim;
    const double variance = law->size * law->size;
    double sum = 0.0;
    clear_hess(out, d);
    for (int64_t i = 0; i < d; i++) {
        sum += s[i] * s[i];
        out->grad[i] = variance * s[i];
        if (out->hess)
            out->hess[i * d + i] = variance;
    }
    out->K = 0.5 * variance * sum;
    out->K_err = (double)(d + 3) * EPS * out->K;
    out->grad_err = 2.0 * EPS * variance * sqrt(sum);
    out->hess_err = EPS * variance;
    out->curvature = variance;
    out->third = 0.0;
}

/* ---- rotation-invariant laws ---- */

/* K_q(|v|) for v (d) that depends on s as R s + constant and is known within `v_err`: gradient
 * R A u, Hessian R^2 [(A/r) I + (A' - A/r) uu'], u = v/r. */
static void radial(int64_t q, double R, const double *v, int64_t d, double v_err, es_tilt *out)
{
    es_num A, slope;
    const double r = norm_of(v, d);
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

/* Sphere, ball and von Mises-Fisher: v = kappa mu + R s, kappa = 0 but for the last. */
static void rotation_invariant(const es_law *law, const double *s, double *v, es_tilt *out)
{
    const int64_t d = law->dim, q = law->kind == ES_LAW_BALL ? d + 2 : d;
    const double kappa = law->kind == ES_LAW_VMF ? law->concentration : 0.0;
    const double length = kappa > 0.0 ? norm_of(law->direction, d) : 1.0;
    for (int64_t i = 0; i < d; i++)
        v[i] = law->size * s[i] + (kappa > 0.0 ? kappa * (law->direction[i] / length) : 0.0);
    const double v_err = EPS * (law->size * norm_of(s, d) + (double)(d + 6) * kappa);
    radial(q, law->size, v, d, v_err, out);
    if (kappa > 0.0) {
        const es_num zero = es_bessel_log(q, kappa);
        out->K -= zero.val;
        out->K_err += zero.err + EPS * fabs(out->K);
    }
}

/* ---- independent coordinates ---- */

/* Each coordinate is `size` times one of the sphere in R^q. */
static void separable(int64_t q, const es_law *law, const double *s, es_tilt *out)
{
    const int64_t d = law->dim;
    const double R = law->size;
    double error2 = 0.0;
    out->K = out->K_err = out->hess_err = out->curvature = 0.0;
    clear_hess(out, d);
    for (int64_t i = 0; i < d; i++) {
        es_num A, slope;
        const double r = fabs(R * s[i]);
        es_bessel_ratio_slope(q, r, &A, &slope);
        const es_num K = es_bessel_log(q, r);
        const double off = R * (A.err + EPS * (A.val + slope.val * r));
        out->grad[i] = copysign(R * A.val, s[i]);
        if (out->hess)
            out->hess[i * d + i] = R * R * slope.val;
        out->K += K.val;
        out->K_err += K.err + EPS * A.val * r;
        error2 += off * off;
        out->curvature = fmax(out->curvature, R * R * slope.val);
        out->hess_err =
            fmax(out->hess_err, R * R * (slope.err + 2.0 * EPS * slope.val * (1.0 + r)));
    }
    out->K_err += (double)d * EPS * out->K;
    out->grad_err = sqrt(error2);
    out->third = 2.0 * R * out->curvature;
}

static es_status laplace(const es_law *law, const double *s, es_tilt *out, es_error *err)
{
    const int64_t d = law->dim;
    const double b = law->size;
    double error2 = 0.0;
    *out = (es_tilt){.grad = out->grad, .hess = out->hess};
    clear_hess(out, d);
    for (int64_t i = 0; i < d; i++) {
        const double z = b * s[i], w = (1.0 - z) * (1.0 + z);
        if (!(fabs(z) < 1.0))
            return es_fail(err, ES_E_RANGE, "limit.laplace", "keep size |(B't)_i| below 1",
                           "the Laplace law has no exponential moment at this tilt: coordinate "
                           "%lld is %g in units of 1/size",
                           (long long)i, z);
        const double grad = 2.0 * b * z / w, hess = 2.0 * b * b * (1.0 + z * z) / (w * w);
        const double third = 4.0 * b * b * b * fabs(z) * (3.0 + z * z) / (w * w * w);
        const double off = EPS * (6.0 * fabs(grad) + hess * fabs(s[i]));
        out->grad[i] = grad;
        if (out->hess)
            out->hess[i * d + i] = hess;
        out->K -= log1p(-z) + log1p(z);
        out->K_err += EPS * (4.0 * fabs(log1p(-fabs(z))) + fabs(grad * s[i]));
        error2 += off * off;
        out->hess_err = fmax(out->hess_err, EPS * (8.0 * hess + third * fabs(s[i])));
        out->curvature = fmax(out->curvature, hess);
        out->third = fmax(out->third, third);
    }
    out->K_err += (double)d * EPS * out->K;
    out->grad_err = sqrt(error2);
    return ES_OK;
}

es_status es_tilt_base(const es_law *law, const double *s, double *work, es_tilt *out,
                       es_error *err)
{
    switch (law->kind) {
    case ES_LAW_GAUSSIAN:
        gaussian(law, s, out);
        return ES_OK;
    case ES_LAW_CUBE:
        separable(3, law, s, out);
        return ES_OK;
    case ES_LAW_RADEMACHER:
        separable(1, law, s, out);
        return ES_OK;
    case ES_LAW_LAPLACE:
        return laplace(law, s, out, err);
    case ES_LAW_SPHERE:
    case ES_LAW_BALL:
    case ES_LAW_VMF:
        rotation_invariant(law, s, work, out);
        return ES_OK;
    default:
        return es_fail(err, ES_E_RANGE, "limit.student", "use a law with lighter tails",
                       "Student's t has no exponential moments: attention over its tokens has no "
                       "limit");
    }
}
