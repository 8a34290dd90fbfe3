/* SPDX-License-Identifier: Apache-2.0 */
/* special.h : numerics of fits, extreme values and tests of fit: a few special functions, the tests
 * of Kolmogorov and Smirnov, minimum and root of a function of one variable.
 *
 * Tails of the normal law are computed as logarithms: ln Q(40) is representable, Q(40) is not. The
 * accuracies below are those that tests/stats/test_special.c checks against values of 50 digits.
 * All functions are pure.
 */
#ifndef ES_STATS_SPECIAL_H
#define ES_STATS_SPECIAL_H

#include <stdint.h>

/*! es_mills() : Q(x)/phi(x), the tail of the standard normal law over its density, which is 1 over
 * its hazard. Relative error below 1e-14 for x >= 0; meant for x >= -5, where it is below
 * 1e-13. */
double es_mills(double x);

/*! es_log_normal_tail() : ln Q(x). Relative error below 1e-14 for x in [-8, 1e8]; below -38 it is
 * zero. */
double es_log_normal_tail(double x);

/*! es_normal_tail_quantile() : the x with ln Q(x) = log_tail, for a tail of at most a half:
 * log_tail in [-1e15, -ln 2]. Relative error below 1e-14, absolute near x = 0. NaN outside. */
double es_normal_tail_quantile(double log_tail);

/*! es_gamma_tail() : the regularised upper incomplete gamma function Q(a, x) for a in (0, 1e6] and
 * x >= 0; NaN outside. Relative error below 2e-13 for a <= 50, 1e-11 for a <= 1e4, where the
 * result is above 1e-200. */
double es_gamma_tail(double a, double x);

/*! es_chi2_tail() : the probability that a chi^2 variable of `freedom` degrees exceeds x. */
double es_chi2_tail(double freedom, double x);

/*! es_log_gamma() : ln Gamma(a) for a > 0: the bits of lgamma(), which threads may not call at the
 * same time because it writes the sign to a global variable. */
double es_log_gamma(double a);

/*! es_stirling_error() : ln Gamma(a + 1) - (a + 1/2) ln a + a - ln(2 pi)/2, for a > 0: what
 * Stirling's formula leaves out. Absolute error below 1e-15. */
double es_stirling_error(double a);

/*! es_log_coins() : ln P(k of n fair coins show heads), n >= 1, 0 <= k <= n <= 4e18. Absolute error
 * below 1e-13 within ten standard deviations of n/2. */
double es_log_coins(int64_t n, int64_t k);

/*! es_log_beta() : ln of Euler's beta function of a, b > 0. Absolute error below 1e-14 for sums up
 * to 10, 3e-16 of a + b beyond. */
double es_log_beta(double a, double b);

/*! es_log_beta_lower() : ln of the regularised incomplete beta function I_x(a, b), for a, b > 0 and
 * x in (0, 1], given 1 - x beside it. Absolute error, which is the relative error of I itself,
 * below 1e-13 (1 + a + b) / 10. */
double es_log_beta_lower(double a, double b, double x, double rest);

/*! es_student_tail() : the probability that Student's t of `freedom` > 0 degrees exceeds t >= 0;
 * NaN outside. Relative error below 1e-13 (1 + freedom) / 10. */
double es_student_tail(double freedom, double t);

/*! es_student_quantile() : the t that Student's law exceeds with probability `tail` in (0, 1/2];
 * NaN outside. es_student_quantile(3, 0.025) = 3.18 is what a 95 % interval takes for 1.96. */
double es_student_quantile(double freedom, double tail);

/*! es_f_tail() : the probability that Fisher's F of (above, below) > 0 degrees exceeds x >= 0; NaN
 * outside. */
double es_f_tail(double above, double below, double x);

/*! es_log_half_beta() : ln int_0^x (u(1-u))^{a-1} du for a > 0 and x in (0,1). Relative error of
 * the integral below 1e-13 for x <= 0.9 and a <= 500. */
double es_log_half_beta(double a, double x);

/* A Kolmogorov-Smirnov test. */
typedef struct es_ks {
    double distance; /* largest difference of the distribution functions */
    double p;        /* probability of a larger one; that of infinite samples, with Stephens' (1970)
                        correction for finite ones, good to 0.01 from 20 on. Ties make it too
                        large */
} es_ks;

/*! es_ks_tail() : P(sup of a Brownian bridge > z), to 1e-12. 1 for z <= 0. */
double es_ks_tail(double z);

/*! es_ks_two() : two samples (m), (n), both >= 1, which are sorted. O((m+n) log(m+n)). */
es_ks es_ks_two(double *x, int64_t m, double *y, int64_t n);

/*! es_ks_normal() : one sample (n), which is sorted, against the standard normal law. */
es_ks es_ks_normal(double *x, int64_t n);

typedef double (*es_objective)(const void *context, double t);

/*! es_minimum() : by golden section on [low, high], where f has one minimum; `steps` evaluations
 * shrink the interval by 0.618 each. What can be reached is the square root of f's rounding. */
double es_minimum(es_objective f, const void *context, double low, double high, int steps);

/*! es_root() : by secants that keep a bracket (the Illinois method), where f, continuous, changes
 * its sign on [low, high]; to `within`, absolute. NaN if it does not change it, or where f is NaN.
 */
double es_root(es_objective f, const void *context, double low, double high, double within);

#endif
