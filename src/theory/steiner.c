/* The size of the Steiner point of a Gaussian sample's hull, for large n.
 *
 * Near the level b = sqrt(2 ln n) the support function of the hull, seen in directions v/b around
 * one, is b + (Gumbel field)/b, a Huesler-Reiss field with covariance Cov(|v|). Gbar is d times
 * the average of h(u) u, so its mean square is an integral of that covariance:
 *
 *     J_d = int_{R^{d-1}} Cov(|v|) dv,   Cov(a) = pi^2/6 - E D^2 / 2,
 *     P(D > z) = r / (r + e^z),   r = Phi(a/2 - z/a) / Phi(a/2 + z/a).
 */
#include <esscher/hardmax_exact.h>

#include <math.h>

#include "base/error.h"
#include "stats/special.h"
#include "theory/quadrature.h"

static const double pi = 3.14159265358979323846;

static double tail(double x) { return exp(es_log_normal_tail(x)); }

/* z P(D > z). */
static double near_integrand(const void *context, double z)
{
    const double a = *(const double *)context;
    const double r = tail(z / a - 0.5 * a) / tail(-z / a - 0.5 * a);
    return z * r / (r + exp(z));
}

/* z (P(L > z) - P(D > z)), L logistic, which D is for a = infinity: E L^2 = pi^2/3. */
static double far_integrand(const void *context, double z)
{
    const double a = *(const double *)context;
    const double above = tail(-z / a - 0.5 * a); /* Phi(a/2 + z/a) */
    const double lost = (tail(0.5 * a - z / a) - tail(0.5 * a + z / a)) / above; /* 1 - r */
    const double e = exp(-z);
    return z * e * lost / ((1.0 + e) * (1.0 + e * (1.0 - lost)));
}

/* E D^2 = 4 int z P(D > z) dz. For small a, D lives on the scale a; for large a, Cov is a small
 * difference, taken inside the integral. */
static double covariance(double a)
{
    if (a < 1.0)
        return pi * pi / 6.0 - 2.0 * es_integrate(near_integrand, &a, 0.0, a * (0.5 * a + 9.0), 8);
    return 2.0 * es_integrate(far_integrand, &a, 0.0, 96.0, 48);
}

static double shell(const void *context, double a)
{
    return covariance(a) * pow(a, *(const double *)context);
}

/* Area of the unit sphere in d dimensions; 2 for the two points of d = 1. */
static double sphere_area(double d)
{
    /* ln Gamma(d/2) through ln Gamma(h + 1) - ln h. */
    const double h = 0.5 * d;
    const double log_gamma = (h - 0.5) * log(h) - h + 0.5 * log(2.0 * pi) + es_stirling_error(h);
    return 2.0 * exp(h * log(pi) - log_gamma);
}

static double constant_of(double d)
{
    if (d == 1.0)
        return pi * pi / 6.0;
    const double power = d - 2.0, end = 2.0 * sqrt(d) + 20.0;
    return sphere_area(d - 1.0) * (es_integrate(shell, &power, 0.0, 1.0, 2) +
                                   es_integrate(shell, &power, 1.0, end, (int)end));
}

es_status es_hardmax_steiner(int64_t dim, double *constant, es_error *err)
{
    if (dim < 1 || dim > ES_HARDMAX_MOST_DIM)
        return es_fail(err, ES_E_RANGE, "hardmax.dim", "dim from 1 to 64", "dim is %lld",
                       (long long)dim);
    *constant = constant_of((double)dim);
    return ES_OK;
}

double es_hardmax_rms(int64_t dim, int64_t n, double sigma, double constant)
{
    if (n < 2 || dim < 1)
        return (double)NAN;
    const double d = (double)dim, b = sqrt(2.0 * log((double)n));
    return sigma * d / b * sqrt(constant / sphere_area(d)) * pow(b, -0.5 * (d - 1.0));
}
