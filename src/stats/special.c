/* SPDX-License-Identifier: Apache-2.0 */
/* special.c : normal, gamma, coins, beta, Student and Fisher; Kolmogorov and Smirnov; the minimum
 * of a function. */
#define _DEFAULT_SOURCE /* lgamma_r() */
#include "stats/special.h"

#include <float.h>
#include <math.h>

#include "stats/average.h"

static const double half_log_2pi = 0.91893853320467274178;
static const double log_2 = 0.69314718055994530942;

/* ---- the normal law ---- */

double es_mills(double x)
{
    /* Up to 5 erfc() times exp(x^2/2): the rounding of x^2 costs 12 eps. Beyond, the continued
     * fraction x + 1/(x + 2/(x + 3/...)), whose 40 terms leave less than 1e-16 at 5. */
    if (x < 5.0)
        return 1.25331413731550025121 * exp(0.5 * x * x) * erfc(x * 0.70710678118654752440);
    double f = x;
    for (int k = 40; k >= 1; k--)
        f = x + k / f;
    return 1.0 / f;
}

double es_log_normal_tail(double x)
{
    if (x < -1.0)
        return log1p(-0.5 * erfc(-x * 0.70710678118654752440));
    return x < 5.0 ? log(0.5 * erfc(x * 0.70710678118654752440))
                   : log(es_mills(x)) - 0.5 * x * x - half_log_2pi;
}

double es_normal_tail_quantile(double log_tail)
{
    if (log_tail > -log_2 && log_tail < -log_2 + 1e-15)
        return 0.0; /* a half, as logarithms round it */
    if (!(log_tail <= -log_2 && log_tail >= -1e15))
        return (double)NAN;
    /* Newton on ln Q, which is concave: from the right of the root every step stays there. The
     * start solves Q(x) <= exp(-x^2/2)/2 and is exact at x = 0. */
    double x = sqrt(-2.0 * (log_tail + log_2));
    for (int i = 0; i < 60; i++) {
        const double step = (es_log_normal_tail(x) - log_tail) * es_mills(x);
        x += step;
        if (fabs(step) <= 4e-16 * (x + 0.1))
            break;
    }
    return x > 0.0 ? x : 0.0;
}

/* ---- the gamma law ---- */

double es_log_gamma(double a)
{
    int sign;
    return lgamma_r(a, &sign);
}

double es_stirling_error(double a)
{
    /* Bernoulli numbers over 2j (2j-1), for a >= 10; below, ln Gamma(a+1) is brought there by its
     * recurrence, whose logarithms are gathered in one. */
    static const double c[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                               1.0 / 1188, -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400};
    double shift = 0.0;
    while (a < 10.0) { /* e(a) = e(a+1) + (a + 1/2) ln(1 + 1/a) - 1 */
        shift += (a + 0.5) * log1p(1.0 / a) - 1.0;
        a += 1.0;
    }
    const double r = 1.0 / (a * a);
    double sum = 0.0;
    for (int j = 7; j >= 0; j--)
        sum = sum * r + c[j];
    return sum / a + shift;
}

/* x^a exp(-x) / Gamma(a+1) = exp(-a D(x/a)) / sqrt(2 pi a) / exp(stirling error), with
 * D(1+u) = u - ln(1+u): no large logarithms are subtracted where the result is not small. */
static double gamma_factor(double a, double x)
{
    const double u = (x - a) / a;
    double d = u - log1p(u);
    if (fabs(u) < 0.1) { /* the difference as a series: u^2/2 - u^3/3 + ... */
        d = 0.0;
        for (int j = 18; j >= 2; j--)
            d = (j % 2 ? -1.0 : 1.0) / j + u * d;
        d *= u * u;
    }
    return exp(-a * d - es_stirling_error(a) - half_log_2pi - 0.5 * log(a));
}

/* P(a,x) = factor * (1 + x/(a+1) + x^2/((a+1)(a+2)) + ...), for x < a + 1. */
static double lower_series(double a, double x)
{
    double term = 1.0, sum = 1.0;
    for (double k = 1.0; term > 1e-17 * sum; k += 1.0) {
        term *= x / (a + k);
        sum += term;
    }
    return sum;
}

/* Q(a,x) = factor * a * 1/(x+1-a- 1(1-a)/(x+3-a- 2(2-a)/(x+5-a- ...))), for x >= a + 1; Lentz. */
static double upper_fraction(double a, double x)
{
    double b = x + 1.0 - a, c = 1e300, d = 1.0 / b, h = d;
    for (double k = 1.0; k < 1e5; k += 1.0) {
        const double numerator = -k * (k - a);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        h *= c * d;
        if (fabs(c * d - 1.0) <= DBL_EPSILON) /* less may never come: the product is rounded */
            break;
    }
    return h;
}

double es_gamma_tail(double a, double x)
{
    if (!(a > 0.0 && a <= 1e6 && x >= 0.0))
        return (double)NAN;
    if (x == 0.0)
        return 1.0;
    if (isinf(x))
        return 0.0;
    const double factor = gamma_factor(a, x);
    return x < a + 1.0 ? 1.0 - factor * lower_series(a, x) : factor * a * upper_fraction(a, x);
}

double es_chi2_tail(double freedom, double x) { return es_gamma_tail(0.5 * freedom, 0.5 * x); }

/* ---- coins ---- */

/* n KL(delta), the large deviations of coins: ((1+delta) ln(1+delta) + (1-delta) ln(1-delta)) n/2
 * with delta = excess/n. The terms of order delta cancel, so a small delta takes the series. */
static double coin_deviance(double n, double excess)
{
    const double delta = excess / n;
    if (fabs(delta) >= 0.1)
        return 0.5 * n * ((1.0 + delta) * log1p(delta) + (1.0 - delta) * log1p(-delta));
    double sum = 0.0;
    for (int j = 8; j >= 1; j--)
        sum = sum * delta * delta + 1.0 / (2 * j * (2 * j - 1));
    return sum * excess * delta;
}

double es_log_coins(int64_t n, int64_t k)
{
    if (k == 0 || k == n)
        return -log_2 * (double)n;
    const double size = (double)n, excess = (double)(2 * k - n), delta = excess / size;
    return es_stirling_error(size) - es_stirling_error((double)k) -
           es_stirling_error((double)(n - k)) - coin_deviance(size, excess) - half_log_2pi -
           0.5 * log(0.25 * size * (1.0 - delta) * (1.0 + delta));
}

/* ---- the beta law ---- */

/* ln Beta(a, b) less a ln(a/(a+b)) + b ln(b/(a+b)), its large part: what Stirling's formula leaves
 * of the three gamma functions. */
static double beta_rest(double a, double b)
{
    return es_stirling_error(a) + es_stirling_error(b) - es_stirling_error(a + b) + half_log_2pi +
           0.5 * log((a + b) / a / b);
}

double es_log_beta(double a, double b)
{
    return beta_rest(a, b) + a * log(a / (a + b)) + b * log(b / (a + b));
}

/* I_x(a,b) = x^a (1-x)^b / (a Beta(a,b)) * 1/(1 + d_1/(1 + d_2/(1 + ...))), Lentz; it converges
 * fast for x below the mean of the law. */
static double lower_fraction(double a, double b, double x)
{
    double c = 1.0, d = 1.0 / (1.0 - (a + b) * x / (a + 1.0)), h = d;
    for (double m = 1.0; m < 1e5; m += 1.0) {
        double term = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / (1.0 + term * d);
        c = 1.0 + term / c;
        h *= c * d;
        term = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / (1.0 + term * d);
        c = 1.0 + term / c;
        h *= c * d;
        if (fabs(c * d - 1.0) < 1e-16)
            break;
    }
    return h;
}

double es_log_beta_lower(double a, double b, double x, double rest)
{
    if (x > (a + 1.0) / (a + b + 2.0))
        return rest > 0.0 ? log1p(-exp(es_log_beta_lower(b, a, rest, x))) : 0.0;
    const double log_factor =
        a * log(x * (a + b) / a) + b * log(rest * (a + b) / b) - beta_rest(a, b);
    return log_factor + log(lower_fraction(a, b, x) / a);
}

/* ---- laws of ratios ----
 * t^2/(freedom + t^2) and above F/(below + above F) follow beta laws. Both parts of 1 are made from
 * their own numerators, so neither tail loses digits. */

double es_f_tail(double above, double below, double x)
{
    if (!(above > 0.0 && below > 0.0 && x >= 0.0))
        return (double)NAN;
    if (x == 0.0)
        return 1.0;
    if (isinf(x))
        return 0.0;
    const double rest = 1.0 / (1.0 + below / (above * x));
    return exp(es_log_beta_lower(0.5 * below, 0.5 * above, 1.0 / (1.0 + above * x / below), rest));
}

double es_student_tail(double freedom, double t)
{
    return t >= 0.0 ? 0.5 * es_f_tail(1.0, freedom, t * t) : (double)NAN;
}

double es_student_quantile(double freedom, double tail)
{
    if (!(freedom > 0.0 && tail > 0.0 && tail <= 0.5))
        return (double)NAN;
    double low = 0.0, high = 1.0;
    while (es_student_tail(freedom, high) > tail && high < 1e150)
        low = high, high *= 2.0;
    for (;;) { /* until two neighbouring numbers are left */
        const double middle = 0.5 * (low + high);
        if (middle <= low || middle >= high)
            return high;
        *(es_student_tail(freedom, middle) > tail ? &low : &high) = middle;
    }
}

double es_log_half_beta(double a, double x)
{
    /* x^a (1-x)^a/a sum_j (2a)_j/(a+1)_j x^j: every term is positive. Terms shrink from where
     * x (2a+j) < a+1+j on; 1-x is at least 1e-12 or so, but then a tail of the law is not local. */
    double term = 1.0, sum = 1.0;
    for (int j = 0; j < 100000 && term > 1e-17 * sum; j++) {
        term *= x * (2.0 * a + j) / (a + 1.0 + j);
        sum += term;
    }
    return a * (log(x) + log1p(-x)) - log(a) + log(sum);
}

/* ---- Kolmogorov and Smirnov's tests ---- */

/* 2 sum (-1)^{k-1} e^{-2 k^2 z^2}, or below 1 its image under the theta transformation, which is
 * the one that converges there. */
double es_ks_tail(double z)
{
    const double pi = 3.14159265358979323846;
    double sum = 0.0;
    if (!(z > 0.04)) /* e^{-pi^2/(8 z^2)} is 0 */
        return isnan(z) ? z : 1.0;
    if (z < 1.0) {
        for (int k = 1; k <= 7; k += 2)
            sum += exp(-k * k * pi * pi / (8.0 * z * z));
        return 1.0 - sqrt(2.0 * pi) / z * sum;
    }
    for (int k = 1; k <= 5; k++)
        sum += (k % 2 ? 2.0 : -2.0) * exp(-2.0 * k * k * z * z);
    return sum;
}

/* Returns the p-value of a Kolmogorov-Smirnov distance with Stephens' correction for finite
 * samples: (sqrt n + 0.12 + 0.11/sqrt n) D. */
static es_ks judge_distance(double distance, double size)
{
    const double root = sqrt(size);
    return (es_ks){.distance = distance, .p = es_ks_tail((root + 0.12 + 0.11 / root) * distance)};
}

/* Kolmogorov-Smirnov distance of two samples: the largest difference of their distribution
 * functions; equal values are stepped over together. */
es_ks es_ks_two(double *x, int64_t m, double *y, int64_t n)
{
    es_sort_reals(x, m);
    es_sort_reals(y, n);
    double most = 0.0;
    for (int64_t i = 0, j = 0; i < m && j < n;) {
        const double at = fmin(x[i], y[j]); /* step over all that are equal before looking */
        while (i < m && x[i] == at)
            i++;
        while (j < n && y[j] == at)
            j++;
        most = fmax(most, fabs((double)i / (double)m - (double)j / (double)n));
    }
    return judge_distance(most, (double)m * (double)n / (double)(m + n));
}

/* Kolmogorov-Smirnov distance from the standard normal law: at each point both one-sided limits
 * of the empirical distribution function count. */
es_ks es_ks_normal(double *x, int64_t n)
{
    es_sort_reals(x, n);
    double most = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double below = 0.5 * erfc(-x[i] * 0.70710678118654752440);
        most = fmax(most, fmax(below - (double)i / (double)n, (double)(i + 1) / (double)n - below));
    }
    return judge_distance(most, (double)n);
}

/* ---- minimum ---- */

/* Golden-section search: the bracket shrinks by 0.618 per evaluation, without derivatives. */
double es_minimum(es_objective f, const void *context, double low, double high, int steps)
{
    const double ratio = 0.6180339887498949;
    double a = high - ratio * (high - low), b = low + ratio * (high - low);
    double fa = f(context, a), fb = f(context, b);
    for (int i = 0; i < steps; i++) {
        if (fa <= fb) {
            high = b;
            b = a, fb = fa;
            a = high - ratio * (high - low);
            fa = f(context, a);
        } else {
            low = a;
            a = b, fa = fb;
            b = low + ratio * (high - low);
            fb = f(context, b);
        }
    }
    return fa <= fb ? a : b;
}

/* ---- root ----
 * The secant through the ends of the bracket; where the same end stays twice its value is halved
 * (the Illinois method), and where that does not halve the bracket in three steps, it is halved. */

/* Regula falsi with the Illinois rule: if one end stays twice, its value is halved, which restores
 * superlinear convergence. Every third step bisects if the bracket has not halved since. */
double es_root(es_objective f, const void *context, double low, double high, double within)
{
    double f_low = f(context, low), f_high = f(context, high), width = high - low;
    int stayed = 0; /* -1: low stayed, 1: high */
    if (!(f_low * f_high <= 0.0))
        return (double)NAN;
    for (int i = 0; high - low > within && f_low != 0.0 && f_high != 0.0; i++) {
        double at = (f_high * low - f_low * high) / (f_high - f_low);
        if (i % 3 == 2) {
            at = high - low > 0.5 * width ? 0.5 * (low + high) : at;
            width = high - low;
        }
        at = fmin(fmax(at, low + 0.4 * within), high - 0.4 * within);
        const double here = f(context, at);
        if (isnan(here))
            return (double)NAN;
        if ((here > 0.0) == (f_low > 0.0)) {
            low = at;
            f_low = here;
            f_high *= stayed == 1 ? 0.5 : 1.0;
            stayed = 1;
        } else {
            high = at;
            f_high = here;
            f_low *= stayed == -1 ? 0.5 : 1.0;
            stayed = -1;
        }
    }
    return f_low == 0.0 ? low : f_high == 0.0 ? high : 0.5 * (low + high);
}
