/* SPDX-License-Identifier: Apache-2.0 */
/* fit.h : how fast an error falls with n, and how sure one can be of it.
 *
 * An error that falls like a power, err(n) = exp(intercept) n^-rate, is a straight line in
 * logarithms. es_fit_power() draws it by weighted least squares: a point weighs 1/var with
 * var = (se/err)^2, the variance of ln err to first order. It gives two standard errors of the
 * rate: `rate_se`, scaled by the scatter around the line, as the public code of the papers does,
 * and `rate_se_known`, which takes the points' own standard errors at their word; and chi2 with its
 * p-value, the question whether a power law is what the points show. All three assume that the
 * points are independent.
 *
 * They usually are not: the points of a replicate are prefixes of one sample. es_fit_replicates()
 * therefore starts from the errors (replicates, points), and asks whole replicates: the line is
 * drawn without each of them in turn, and how much it moves is its standard error (the jackknife),
 * with Student's t for the interval. Whatever dependence the points of a replicate have, it is in
 * there. The same lines tell whether a power law is what they show: `power_p`, by Hotelling's test
 * of what bends. Intervals of level 0.95 cover 93 to 97 % from 4 replicates on, and power_p is
 * uniform where a power law holds; where errors of replicates are skew, as those of real heads, few
 * replicates cover 90 % (docs/data/CALIBRATION.md).
 *
 *     es_rate rate;
 *     es_fit_replicates(errors, R, P, n, NULL, NULL, NULL, &rate, &err);
 *     printf("%.3f [%.3f, %.3f]\n", rate.mean.rate, rate.low, rate.high);
 *
 * A point can be known not to belong to the line: its error has come down to what rounding leaves,
 * or to the error of the reference it is measured against. Such points carry a flag and are left
 * out; es_fit_flags_of() decides. All functions are thread-safe and leave `out` alone on failure.
 */
#ifndef ES_STATS_FIT_H
#define ES_STATS_FIT_H

#include <stdint.h>

#include <esscher/exec.h>

/* ---- points ---- */

/* Why a point is left out; 0: it is used. */
typedef enum es_fit_flag {
    ES_FIT_FLOOR = 1,     /* the error is what rounding leaves */
    ES_FIT_REFERENCE = 2, /* the error is mostly that of the reference */
    ES_FIT_SATURATED = 4  /* n is too small for the law that the line stands for */
} es_fit_flag;

/* A point of a fit of ln error on ln n. */
typedef struct es_fit_point {
    double n, error;
    double se;      /* standard error of `error` */
    unsigned flags; /* es_fit_flag, several may be set */
} es_fit_point;

/*! es_fit_flags_of() : ES_FIT_FLOOR if error is below 10 times `floor`, the error that rounding
 * alone makes; ES_FIT_REFERENCE if `reference`, the error of what was compared with, is above a
 * tenth of it. 0 for a floor or reference says there is none. */
unsigned es_fit_flags_of(double error, double floor, double reference);

/* ---- one line ---- */

/* A fitted power law. */
typedef struct es_fit {
    double rate, intercept; /* ln err = intercept - rate ln n */
    double rate_se, intercept_se;
    double rate_se_known;
    double chi2, p_value;           /* of used - 2 degrees of freedom */
    double ols_rate, ols_intercept; /* every point weighs the same */
    int64_t used, left_out;
} es_fit;

/*! es_fit_power() : the line through the points that carry no flag. O(count). A se of 0 is taken as
 * 1e-9 of the error.
 *  @return : ES_OK; ES_E_EMPTY with fewer than 3 usable points;
 * ES_E_RANGE if one of them has n < 1 or an error or se that is not positive (se: negative), or if
 * all n are equal; ES_E_NONFINITE for NaN and infinities, with err->row the point; ES_E_NUMERIC if
 * the standard errors are so far apart, or so large, that nothing finite comes out. */
es_status es_fit_power(const es_fit_point *points, int64_t count, es_fit *out, es_error *err);

/* ---- replicates ---- */

/* Half width of a 95 % interval in standard errors: the normal quantile of 0.975. */
#define ES_SIGMAS_95 1.959963984540054

/* Errors of all replicates at one point. */
typedef struct es_fit_summary {
    double mean, median;
    double sd; /* divided by the number of replicates, not one less: the papers' convention */
    double se; /* of the mean, sd / sqrt(replicates - 1): without bias; NaN of one replicate */
    double rms, rms_se; /* root mean square, and its standard error to first order; NaN likewise */
} es_fit_summary;

/* How a rate is fitted. */
typedef struct es_rate_opts {
    double level;         /* of the interval; 0: 0.95 */
    es_mem_limit *budget; /* NULL: no limit */
} es_rate_opts;

/* The rate of an error over replicates, with its interval and test (THEORY 4.7). */
typedef struct es_rate {
    es_fit mean;      /* line through the means */
    es_fit median;    /* through the medians, with the weights se/median */
    double low, high; /* interval of mean.rate */
    double se;        /* its standard error, by the jackknife; NaN: none */
    double freedom;   /* degrees of freedom of se: replicates - 1. rate/se follows Student's law,
                         not the normal one: with 4 replicates 95 % are 3.18 se, not 1.96 */
    double power_p;   /* of a power law: probability of means that bend more, were it one. NaN with
                         fewer than 4 replicates or 3 points, which cannot tell */
    int64_t bends;    /* degrees in ln n that were tested for it, from the second on */
    char reason[96];  /* why something here is NaN; empty if nothing is */
} es_rate;

/*! es_fit_replicates() : rate, interval and test from errors (replicates, points), row-major, at n
 * (points). `flags` (points), `opts` and `summary` (points, filled even if the line is refused) may
 * be NULL. O(replicates points) time and memory. One replicate has no interval: low and high, chi2
 * and the known standard error are NaN. Where a median is 0 so is the median line.
 *  @return : as es_fit_power(), about the means; ES_E_SHAPE if replicates or points is below 1, or
 * replicates above 2^18; ES_E_NONFINITE, ES_E_RANGE if an unflagged error is NaN, infinite or
 * negative (err->row, err->col); ES_E_ARGUMENT if level is not in (0,1); ES_E_LIMIT,
 * ES_E_MEMORY. */
es_status es_fit_replicates(const double *errors, int64_t replicates, int64_t points,
                            const double *n, const unsigned *flags, const es_rate_opts *opts,
                            es_fit_summary *summary, es_rate *out, es_error *err);

/* ---- tails ---- */

/*! es_psi2_norm() : the sub-Gaussian norm of a sample (count): the least s with mean exp(x^2/s^2)
 * <= 2. By bisection on ln s, through log-sum-exp, to 1e-12. O(count). 0 if every x is 0. It
 * underrates the norm of the law the sample is from, whose tail is not in the sample.
 *  @return : ES_OK; ES_E_EMPTY if count < 1; ES_E_NONFINITE
 * with err->row. */
es_status es_psi2_norm(const double *x, int64_t count, double *out, es_error *err);

#endif
