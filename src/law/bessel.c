/* bessel.c : one coordinate of the sphere under a tilt, for every d and r (THEORY.md 1.1).
 *
 * Library Bessel functions underflow long before d = 768; the ratio, its slope and the logarithm do
 * not, so they are computed as such. */
#include <esscher/bessel.h>

#include <float.h>
#include <math.h>

#include "base/error.h"
#include "base/limits.h"
#include "law/bessel_unchecked.h"
#include "law/bessel_terms.h"

/* Claimed errors. Against 50 digits, d = 1..4098 and r up to 1e12, the worst were 1.3 ulp of A, 1.9
 * ulp of K, and of A' 4 ulp, or 200 ulp (d = 2) where it comes down from LARGE_S: a step leaves an
 * error of an ulp of 2m/r^2, and A' itself may be as small as (d-1)/(2r^2). */
#define RATIO_ULPS 6.0
#define SLOPE_ULPS 16.0
#define LOG_ULPS   12.0

#define LN_2 0.69314718055994530942
#define PI   3.14159265358979323846

/* From here on the expansions in 1/S are exact to rounding. */
#define LARGE_S 96.0

static double polynomial(const double *c, int degree, double x)
{
    double sum = c[degree];
    for (int i = degree - 1; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/* ---- ratio and slope ---- */

/* A_d and A_d' for S >= LARGE_S:
 *     A = r/(S+h) sum e_k(p) S^-k,    A' = p/(S+h) sum q_k(p) S^-k. */
static void expand(double h, double r, double *ratio, double *slope)
{
    const double S = hypot(h, r), p = h / S;
    double e = 0.0, q = 0.0;
    for (int k = ES_BESSEL_TERMS - 1; k >= 0; k--) {
        e = e / S + polynomial(ratio_terms[k], 2 * k, p);
        q = q / S + polynomial(slope_terms[k], 2 * k, p);
    }
    *ratio = r / (S + h) * e;
    *slope = p / (S + h) * q;
}

/* Where S is small, expand at a higher order and come down: rho_m = I_{m+1}/I_m obeys
 *     rho_{m-1} = 1/(2m/r + rho_m),    rho_{m-1}' = rho_{m-1}^2 (2m/r^2 - rho_m').
 * Terms of the first are positive, and in the second an error shrinks by rho^2 a step. */
static void come_down(double d, double r, double *ratio, double *slope)
{
    const double h = 0.5 * (d - 1.0);
    const double steps = fmax(0.0, ceil(sqrt(fmax(0.0, LARGE_S * LARGE_S - r * r)) - h));
    expand(h + steps, r, ratio, slope);
    for (double m = 0.5 * d - 1.0 + steps; m >= 0.5 * d; m -= 1.0) {
        const double rho = 1.0 / (2.0 * m / r + *ratio);
        *slope = rho * rho * (2.0 * m / (r * r) - *slope);
        *ratio = rho;
    }
}

void es_bessel_ratio_slope(int64_t dim, double r, es_num *ratio, es_num *slope)
{
    const double d = (double)dim;
    if (dim == 1) {
        const double c = exp(-r), cosh2 = 1.0 + c * c;
        ratio->val = tanh(r);
        slope->val = 4.0 * (c / cosh2) * (c / cosh2);
    } else if (r < 1e-4 * sqrt(d)) {
        const double x = r * r / (d * (d + 2.0)), y = r * r / (d * (d + 4.0));
        ratio->val = r / d * (1.0 - x + 2.0 * x * y);
        slope->val = (1.0 - 3.0 * x + 10.0 * x * y) / d;
    } else {
        come_down(d, r, &ratio->val, &slope->val);
    }
    ratio->err = RATIO_ULPS * DBL_EPSILON * ratio->val;
    const double descent = dim > 1 && r < LARGE_S ? 8.0 * LARGE_S / (d - 1.0) : 0.0;
    /* the smallest normal number stands for what underflow may hide */
    slope->err = (SLOPE_ULPS + descent) * DBL_EPSILON * slope->val + DBL_MIN;
}

/* ---- logarithm ---- */

static double log_cosh(double r)
{
    if (r > 20.0)
        return r - LN_2 + log1p(exp(-2.0 * r));
    const double s = sinh(0.5 * r);
    return log1p(2.0 * s * s);
}

/* ln Gamma(nu+1) - nu ln nu + nu - ln(2 pi nu)/2 */
static double stirling(double nu)
{
    static const double c[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
    return polynomial(c, 4, 1.0 / (nu * nu)) / nu;
}

/* Debye: ln I_nu with S = sqrt(nu^2+r^2). With ln Gamma(nu+1) replaced by Stirling's series the
 * large parts cancel on paper instead of in arithmetic: S - nu = r^2/(S+nu). */
static double log_debye(double nu, double r)
{
    const double S = hypot(nu, r), p = nu / S;
    double u = 0.0;
    for (int k = ES_BESSEL_TERMS - 1; k >= 1; k--)
        u = (u + polynomial(debye_terms[k], k, p * p)) / S;
    if (nu < 20.0)
        return S - nu * log(0.5 * (nu + S)) + log(tgamma(nu + 1.0)) - 0.5 * log(2.0 * PI * S) +
               log1p(u);
    const double gap = r / (S + nu) * r;
    return gap - nu * log1p(0.5 * gap / nu) + 0.5 * log(p) + stirling(nu) + log1p(u);
}

/* log1p of sum_{k>=1} (r^2/4)^k / (k! (nu+1)_k): all terms positive. */
static double log_series(double nu, double r)
{
    const double x = 0.25 * r * r;
    double term = x / (nu + 1.0), sum = term;
    for (double k = 2.0; term > 0.25 * DBL_EPSILON * sum; k += 1.0) {
        term *= x / (k * (nu + k));
        sum += term;
    }
    return log1p(sum);
}

es_num es_bessel_log(int64_t dim, double r)
{
    const double nu = 0.5 * (double)dim - 1.0;
    double val;
    if (dim == 1)
        val = log_cosh(r);
    else if (r < 60.0 || r * r < 40.0 * (nu + 1.0))
        val = log_series(nu, r);
    else
        val = log_debye(nu, r);
    return (es_num){val, LOG_ULPS * DBL_EPSILON * val + DBL_MIN};
}

/* ---- public ---- */

static es_status check(int64_t d, double r, es_error *err)
{
    if (d < 1 || d > ES_MAX_DIM + 2)
        return es_fail(err, ES_E_RANGE, "bessel.dim", "1 <= d <= 4098", "dimension %lld",
                       (long long)d);
    if (!(r >= 0.0) || !isfinite(r))
        return es_fail(err, ES_E_RANGE, "bessel.argument", "r is finite and not negative",
                       "r is %g", r);
    return ES_OK;
}

es_status es_bessel_ratio(int64_t d, double r, es_num *out, es_error *err)
{
    es_num slope;
    ES_TRY(check(d, r, err));
    es_bessel_ratio_slope(d, r, out, &slope);
    return ES_OK;
}

es_status es_bessel_slope(int64_t d, double r, es_num *out, es_error *err)
{
    es_num ratio;
    ES_TRY(check(d, r, err));
    es_bessel_ratio_slope(d, r, &ratio, out);
    return ES_OK;
}

es_status es_bessel_log_mgf(int64_t d, double r, es_num *out, es_error *err)
{
    ES_TRY(check(d, r, err));
    *out = es_bessel_log(d, r);
    return ES_OK;
}
