/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c : the line through errors on logarithmic axes, and the psi_2 norm of a sample. Replicates
 * of such lines are in replicates.c. */
#include "stats/fit.h"

#include <math.h>

#include "base/error.h"
#include "stats/special.h"

enum { LEAST_POINTS = 3 };
static const double least_variance = 1e-18; /* of ln err: 1e-9 of the error */

unsigned es_fit_flags_of(double error, double floor, double reference)
{
    return (error < 10.0 * floor ? (unsigned)ES_FIT_FLOOR : 0u) |
           (reference > 0.1 * error ? (unsigned)ES_FIT_REFERENCE : 0u);
}

/* ---- what can be fitted ---- */

/* Checks one point of a power-law fit: finite, n and error positive, standard error not negative.
 */
static es_status check_point(const es_fit_point *p, int64_t i, es_error *err)
{
    if (!isfinite(p->n) || !isfinite(p->error) || !isfinite(p->se))
        return es_fail_at(err, ES_E_NONFINITE, i, -1, "fit.finite", "leave the point out",
                          "point %lld has n = %g, error %g, standard error %g", (long long)i, p->n,
                          p->error, p->se);
    if (p->n < 1.0)
        return es_fail_at(err, ES_E_RANGE, i, -1, "fit.n", "n counts tokens",
                          "point %lld has n = %g", (long long)i, p->n);
    if (p->error <= 0.0)
        return es_fail_at(err, ES_E_RANGE, i, -1, "fit.error",
                          "a power law has no zeros: flag points at the rounding floor",
                          "point %lld has the error %g, which has no logarithm", (long long)i,
                          p->error);
    if (p->se < 0.0)
        return es_fail_at(err, ES_E_RANGE, i, -1, "fit.se", "",
                          "point %lld has the standard error %g", (long long)i, p->se);
    return ES_OK;
}

/* Checks all points that are not flagged and counts them; a line needs different values of n. */
static es_status check_points(const es_fit_point *points, int64_t count, int64_t *used,
                              es_error *err)
{
    double least = INFINITY, most = 0.0;
    *used = 0;
    for (int64_t i = 0; i < count; i++) {
        if (points[i].flags)
            continue;
        ES_TRY(check_point(&points[i], i, err));
        least = fmin(least, points[i].n);
        most = fmax(most, points[i].n);
        ++*used;
    }
    if (*used < LEAST_POINTS)
        return es_fail(err, ES_E_EMPTY, "fit.points", "give more values of n",
                       "a line needs %d points; %lld usable, %lld left out", LEAST_POINTS,
                       (long long)*used, (long long)(count - *used));
    if (log(most) - log(least) <= 0.0)
        return es_fail(err, ES_E_RANGE, "fit.equal", "give different values of n",
                       "all points have n = %g", least);
    return ES_OK;
}

/* ---- the line ---- */

/* Returns the weight of a point in ln error: 1/(se/error)^2, the inverse variance by the delta
 * method, bounded so that a tiny se does not decide alone. */
static double weight_of(const es_fit_point *p)
{
    const double relative = p->se / p->error;
    return 1.0 / fmax(relative * relative, least_variance);
}

/* Returns 1: the unweighted fit. */
static double unit_weight(const es_fit_point *p)
{
    (void)p;
    return 1.0;
}

/* y = intercept + slope x by least squares with these weights. */
typedef struct line {
    double slope, intercept;
    double sum_w, mean_x, sxx; /* weighted: sum, mean of x, sum of squares around it */
    double chi2;               /* sum of w (y - line)^2 */
} line;

/* Everything is taken around the weighted means: the normal equations in x itself would lose the
 * digits that ln n of a narrow grid has in common. */
static line draw_line(const es_fit_point *points, int64_t count,
                      double (*weight)(const es_fit_point *))
{
    line l = {0};
    double mean_y = 0.0, sxy = 0.0;
    for (int64_t i = 0; i < count; i++) {
        if (points[i].flags)
            continue;
        const double w = weight(&points[i]);
        l.sum_w += w;
        l.mean_x += w * log(points[i].n);
        mean_y += w * log(points[i].error);
    }
    l.mean_x /= l.sum_w;
    mean_y /= l.sum_w;
    for (int64_t i = 0; i < count; i++) {
        if (points[i].flags)
            continue;
        const double w = weight(&points[i]), x = log(points[i].n) - l.mean_x;
        l.sxx += w * x * x;
        sxy += w * x * (log(points[i].error) - mean_y);
    }
    l.slope = sxy / l.sxx;
    l.intercept = mean_y - l.slope * l.mean_x;
    for (int64_t i = 0; i < count; i++) {
        if (points[i].flags)
            continue;
        const double r = log(points[i].error) - mean_y - l.slope * (log(points[i].n) - l.mean_x);
        l.chi2 += weight(&points[i]) * r * r;
    }
    return l;
}

es_status es_fit_power(const es_fit_point *points, int64_t count, es_fit *out, es_error *err)
{
    int64_t used;
    ES_TRY(check_points(points, count, &used, err));
    const line weighted = draw_line(points, count, weight_of);
    const line plain = draw_line(points, count, unit_weight);
    if (!isfinite(weighted.slope) || !isfinite(weighted.intercept) || !(weighted.sxx > 0.0))
        return es_fail(err, ES_E_NUMERIC, "fit.weights", "look at the standard errors",
                       "the weights of the points leave no line");
    const double scatter = weighted.chi2 / (double)(used - 2);
    const double x2 = weighted.mean_x * weighted.mean_x;
    *out = (es_fit){
        .rate = -weighted.slope,
        .intercept = weighted.intercept,
        .rate_se = sqrt(scatter / weighted.sxx),
        .intercept_se = sqrt(scatter * (1.0 / weighted.sum_w + x2 / weighted.sxx)),
        .rate_se_known = sqrt(1.0 / weighted.sxx),
        .chi2 = weighted.chi2,
        .p_value = es_chi2_tail((double)(used - 2), weighted.chi2),
        .ols_rate = -plain.slope,
        .ols_intercept = plain.intercept,
        .used = used,
        .left_out = count - used,
    };
    return ES_OK;
}

/* ---- the psi_2 norm ---- */

/* ln mean exp(x^2/s^2) for s = top * exp(log_s), top the largest |x|: the exponents are scaled
 * before they are squared, and the largest is taken out. */
static double log_mean(const double *x, int64_t count, double top, double log_s)
{
    const double most = exp(-2.0 * log_s);
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double r = x[i] / top;
        sum += exp(most * (r * r - 1.0));
    }
    return most + log(sum / (double)count);
}

es_status es_psi2_norm(const double *x, int64_t count, double *out, es_error *err)
{
    if (count < 1)
        return es_fail(err, ES_E_EMPTY, "psi2.count", "", "the sample is empty");
    double top = 0.0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return es_fail_at(err, ES_E_NONFINITE, i, -1, "psi2.finite", "", "x[%lld] is %g",
                              (long long)i, x[i]);
        top = fmax(top, fabs(x[i]));
    }
    if (top == 0.0) {
        *out = 0.0;
        return ES_OK;
    }
    /* If all x were as large as the largest, s^2 = top^2 / ln 2; if all others were 0, at least
     * top^2 / ln(2 count). */
    const double log_2 = 0.69314718055994530942;
    double low = -0.5 * log(log(2.0 * (double)count)), high = -0.5 * log(log_2);
    while (high - low > 1e-15) {
        const double middle = 0.5 * (low + high);
        if (middle <= low || middle >= high)
            break;
        *(log_mean(x, count, top, middle) > log_2 ? &low : &high) = middle;
    }
    *out = top * exp(high);
    return ES_OK;
}
