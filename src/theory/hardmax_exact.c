/* SPDX-License-Identifier: Apache-2.0 */
/* hardmax_exact.c : expectations of |Gbar| in one dimension, its size in several (THEORY 5). sigma
 * is a factor, so everything is done for 1. */
#include "theory/hardmax_exact.h"

#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "stats/special.h"
#include "theory/quadrature.h"

static const double log_2 = 0.69314718055994530942;

/* Returns the normal tail P(Z > t), by its logarithm so that it does not underflow early. */
static double normal_tail(double t) { return exp(es_log_normal_tail(t)); }

/* Where the largest of n tokens no longer is: n Q(t) = exp(-42), below what a double shows. */
static double far_out(double n) { return es_normal_tail_quantile(-log(n) - 42.0); }

/* Panels of a quarter: near the largest of 10^18 tokens the law of the maximum changes over 1/9. */
static int panels_of(double length) { return (int)(4.0 * length) + 1; }

/* ---- population queries ---- */

/* |max + min| = 2 max|X| - (max - min), so that by symmetry
 *     E|Gbar| = E max|X| - E max X = int_0^inf Phi^n - (2 Phi - 1)^n + Q^n dt.
 * The difference is Phi^n (1 - ((1-2Q)/(1-Q))^n), in which nothing cancels. */
static double population_integrand(const void *context, double t)
{
    const double n = *(const double *)context, q = normal_tail(t);
    const double both = exp(n * log1p(-q)) * -expm1(-n * log1p(q / (1.0 - 2.0 * q)));
    return both + exp(n * log(q));
}

/* Returns the expected output for queries of the population, by one integral. */
static double population(double n)
{
    const double end = far_out(n);
    return es_integrate(population_integrand, &n, 0.0, end, panels_of(end));
}

/* ---- queries = tokens ---- */

/* k positive tokens: Gbar = a M - (1-a) M' with a = k/n, M and M' maxima of k and n-k half-normals.
 * E|Gbar| = int_0^inf F (1-F') + F' (1-F) dt, F and F' the laws of a M and (1-a) M'. */
typedef struct split {
    double k[2]; /* positive, negative */
    double share[2];
} split;

/* ln P(share M <= t) of side i; a side without tokens stays at 0. */
static double log_law(const split *s, int i, double t)
{
    if (s->k[i] == 0.0)
        return 0.0;
    return s->k[i] * log1p(-2.0 * normal_tail(t / s->share[i]));
}

/* Returns the integrand for queries that are the tokens, which a sign splits into two groups. */
static double split_integrand(const void *context, double t)
{
    const split *s = context;
    const double a = log_law(s, 0, t), b = log_law(s, 1, t);
    return -exp(a) * expm1(b) - exp(b) * expm1(a);
}

/* Where side i no longer is, and its unit of length. */
static double side_end(const split *s, int i)
{
    return s->k[i] == 0.0 ? 0.0 : s->share[i] * far_out(2.0 * s->k[i]);
}

/* Integrates split_integrand() for k tokens on one side and n - k on the other. The smaller side
 * has the finer structure, so that its range gets panels of its own. */
static double split_mean(int64_t n, int64_t k)
{
    const double size = (double)n;
    split s = {.k = {(double)k, (double)(n - k)}};
    s.share[0] = s.k[0] / size;
    s.share[1] = s.k[1] / size;
    const double end[2] = {side_end(&s, 0), side_end(&s, 1)};
    const int small = end[0] < end[1] ? 0 : 1, large = 1 - small;
    double sum = 0.0;
    if (s.k[small] > 0.0) /* the smaller side has the finer structure */
        sum = es_integrate(split_integrand, &s, 0.0, end[small],
                           panels_of(end[small] / s.share[small]));
    return sum + es_integrate(split_integrand, &s, end[small], end[large],
                              panels_of((end[large] - end[small]) / s.share[large]));
}

/* The sum over k, with binomial weights. For large n every s-th k is enough: the weights are smooth
 * on the scale of their standard deviation, sqrt(n)/2, and a sum of a smooth function in steps of
 * half of that is off by exp(-8 pi^2). */
static double self(int64_t n)
{
    const double deviation = 0.5 * sqrt((double)n);
    const int64_t step = deviation < 4.0 ? 1 : (int64_t)(0.5 * deviation);
    const int64_t reach = (int64_t)(9.0 * deviation / (double)step) + 1;
    double sum = 0.0, weights = 0.0;
    for (int64_t j = -reach; j <= reach; j++) {
        const int64_t k = n / 2 + j * step;
        if (k < 0 || k > n)
            continue;
        const double w = exp(es_log_coins(n, k));
        weights += w;
        sum += w > 1e-20 ? w * split_mean(n, k) : 0.0;
    }
    return sum / weights;
}

es_status es_hardmax_exact(es_hardmax_queries queries, int64_t n, double sigma, es_num *out,
                           es_error *err)
{
    if (queries != ES_HARDMAX_POPULATION && queries != ES_HARDMAX_SELF)
        return es_fail(err, ES_E_ARGUMENT, "hardmax.queries", "population or self",
                       "unknown kind of queries: %d", (int)queries);
    if (n < 1 || n > ES_HARDMAX_MOST_N)
        return es_fail(err, ES_E_RANGE, "hardmax.n", "n from 1 to 10^18", "n is %lld",
                       (long long)n);
    if (!(sigma > 0.0 && isfinite(sigma)))
        return es_fail(err, ES_E_RANGE, "hardmax.sigma", "a positive number", "sigma is %g", sigma);
    const bool own = queries == ES_HARDMAX_SELF;
    const double value = sigma * (own ? self(n) : population((double)n));
    *out = (es_num){.val = value, .err = (own ? 1e-9 : 1e-12) * value};
    return ES_OK;
}

/* ---- asymptotic forms ---- */

double es_hardmax_leading(int64_t n, double sigma)
{
    return n < 2 ? (double)NAN : sigma * log_2 / sqrt(2.0 * log((double)n));
}

double es_hardmax_second(int64_t n, double sigma)
{
    const double euler = 0.57721566490153286061;
    if (n < 1)
        return (double)NAN;
    return sigma * log_2 * es_mills(es_normal_tail_quantile(-euler - 0.5 * log_2 - log((double)n)));
}

/* ==== several dimensions: the size of the Steiner point of a Gaussian sample's hull, for large n
 * ==== Near the level b = sqrt(2 ln n) the support function of the hull, seen in directions v/b
 * around one, is b + (Gumbel field)/b, a Huesler-Reiss field with covariance Cov(|v|). Gbar is d
 * times the average of h(u) u, so its mean square is an integral of that covariance:
 *
 *     J_d = int_{R^{d-1}} Cov(|v|) dv,   Cov(a) = pi^2/6 - E D^2 / 2,
 *     P(D > z) = r / (r + e^z),   r = Phi(a/2 - z/a) / Phi(a/2 + z/a). */

static const double pi = 3.14159265358979323846;

/* z P(D > z). */
static double near_integrand(const void *context, double z)
{
    const double a = *(const double *)context;
    const double r = normal_tail(z / a - 0.5 * a) / normal_tail(-z / a - 0.5 * a);
    return z * r / (r + exp(z));
}

/* z (P(L > z) - P(D > z)), L logistic, which D is for a = infinity: E L^2 = pi^2/3. */
static double far_integrand(const void *context, double z)
{
    const double a = *(const double *)context;
    const double above = normal_tail(-z / a - 0.5 * a); /* Phi(a/2 + z/a) */
    const double lost =
        (normal_tail(0.5 * a - z / a) - normal_tail(0.5 * a + z / a)) / above; /* 1 - r */
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

/* Returns the covariance of the field at distance a times the area of the shell. */
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

/* Returns the constant of the leading term in d dimensions; pi^2/6 for d = 1. */
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
