/* SPDX-License-Identifier: Apache-2.0 */
/* replicates.c : rates from replicates: summaries, the fitted line, its interval and its test.
 *
 * Points of a replicate are prefixes of one sample and depend on each other in an unknown way;
 * replicates are independent. So everything is a jackknife over replicates (THEORY 4.7): the line
 * is fitted with one replicate left out, the variation of the rate gives its standard error, and
 * the variation of the bends gives the test of a power law. Weights are estimated again each time,
 * because with few replicates they are most of the noise.
 */
#include "stats/fit.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "stats/average.h"
#include "stats/multiple.h"
#include "stats/special.h"

enum { MOST_REPLICATES = 1 << 18 };
enum { MOST_BENDS = 3 };        /* a curve that is no line shows in its second to fourth degree */
enum { REPLICATES_A_BEND = 4 }; /* fewer, and the covariance of the bends is mostly noise */

/* Count, mean and sum of squares around it; two are joined without a difference of squares. */
typedef struct bundle {
    double count, mean, scatter;
} bundle;

/* Replicates that are left out one at a time, by threads. */
typedef struct job {
    const double *errors; /* (R, P) */
    const double *n;      /* (P) */
    const unsigned *flags;
    int64_t R, P;
    double *column;         /* (R) errors of a point, in increasing order; rates without one */
    bundle *before, *after; /* (R + 1) replicates up to one, and from one on */
    es_fit_point *medians;  /* (P) */
    es_fit_point *all;      /* (P) means of all replicates, */
    es_fit_point *without;  /* (R, P) and without one */
    double *bends;          /* (R, MOST_BENDS) pseudo-values, see bends_of() */
} job;

/* ---- one point ---- */

/* Merges count, mean and sum of squares of two groups (Chan, Golub and LeVeque). */
static bundle join(bundle a, bundle b)
{
    const double count = a.count + b.count, apart = b.mean - a.mean;
    if (count == 0.0)
        return a;
    return (bundle){count, a.mean + apart * (b.count / count),
                    a.scatter + b.scatter + apart * apart * (a.count * b.count / count)};
}

/* Standard error of a mean. One replicate has no spread, and 0 makes all points weigh alike. */
static double error_of(bundle b)
{
    return b.count > 1.0 ? sqrt(b.scatter / (b.count - 1.0) / b.count) : 0.0;
}

/* Returns a point of the fit: mean and standard error over the replicates of a bundle. */
static es_fit_point point_of(const job *j, int64_t p, bundle b)
{
    return (es_fit_point){
        .n = j->n[p], .error = b.mean, .se = error_of(b), .flags = j->flags ? j->flags[p] : 0u};
}

/* Means of all replicates and of all but one. */
static bundle gather(job *j, int64_t p)
{
    j->before[0] = j->after[j->R] = (bundle){0};
    for (int64_t r = 0; r < j->R; r++) {
        const bundle one = {1.0, j->errors[r * j->P + p], 0.0};
        const int64_t back = j->R - 1 - r;
        j->before[r + 1] = join(j->before[r], one);
        j->after[back] = join((bundle){1.0, j->errors[back * j->P + p], 0.0}, j->after[back + 1]);
    }
    for (int64_t r = 0; r < j->R; r++)
        j->without[r * j->P + p] = point_of(j, p, join(j->before[r], j->after[r + 1]));
    return j->before[j->R];
}

/* Root mean square over replicates at point p. The error is that of the mean square, through
 * d sqrt(x) = dx / (2 sqrt(x)). */
static void add_rms(const job *j, int64_t p, es_fit_summary *out)
{
    bundle squares = {0};
    for (int64_t r = 0; r < j->R; r++) {
        const double e = j->errors[r * j->P + p];
        squares = join(squares, (bundle){1.0, e * e, 0.0});
    }
    out->rms = sqrt(squares.mean);
    out->rms_se = j->R > 1 ? error_of(squares) / (2.0 * out->rms) : (double)NAN;
}

/* Returns mean, standard error and median of the replicates at point p. */
static es_fit_summary summarise(job *j, int64_t p)
{
    const bundle all = gather(j, p);
    for (int64_t r = 0; r < j->R; r++)
        j->column[r] = j->errors[r * j->P + p];
    if (!isnan(all.mean)) /* of a flagged point, which may hold anything */
        es_sort_reals(j->column, j->R);
    es_fit_summary s = {.mean = all.mean,
                        .median = isnan(all.mean) ? all.mean : es_median_of(j->column, j->R),
                        .sd = sqrt(all.scatter / all.count),
                        .se = j->R > 1 ? error_of(all) : (double)NAN};
    add_rms(j, p, &s);
    j->all[p] = j->medians[p] = point_of(j, p, all);
    j->medians[p].error = s.median;
    return s;
}

/* ---- the interval ---- */

static const es_fit no_line = {.rate = NAN,
                               .intercept = NAN,
                               .rate_se = NAN,
                               .intercept_se = NAN,
                               .rate_se_known = NAN,
                               .chi2 = NAN,
                               .p_value = NAN,
                               .ols_rate = NAN,
                               .ols_intercept = NAN};

/* The jackknife over replicates and Student's t of R - 1 degrees (THEORY 4.7). */
static void find_interval(const job *j, double level, es_rate *rate)
{
    for (int64_t r = 0; r < j->R; r++) {
        es_fit line;
        if (es_fit_power(j->without + r * j->P, j->P, &line, NULL) != ES_OK) {
            snprintf(rate->reason, sizeof rate->reason,
                     "without replicate %lld there is no line, so there is no interval",
                     (long long)r);
            return; /* a median that is 0 follows from the same zeros */
        }
        j->column[r] = line.rate;
    }
    const es_grouped all = es_jackknife(rate->mean.rate, j->column, j->R);
    const double half = all.se * es_student_quantile(all.freedom, 0.5 * (1.0 - level));
    rate->se = all.se;
    rate->freedom = all.freedom;
    rate->low = all.value - half;
    rate->high = all.value + half;
}

/* ---- is it a power law? ----
 * On a line the means' logarithms have no component along polynomials of degree 2 and more in ln n.
 * Hotelling's test of that needs their covariance over replicates: from pseudo-values
 * R y - (R-1) y_without, whose mean is the component and whose scatter its error (THEORY 4.7). */

/* Orthonormal polynomials of ln n over the points in use, by Gram and Schmidt, twice for the digits
 * that the first pass loses. q (degrees, P), 0 at points that are left out. */
static void polynomials(const job *j, int64_t degrees, double *q)
{
    double low = INFINITY, high = -INFINITY;
    for (int64_t p = 0; p < j->P; p++)
        if (!j->all[p].flags) {
            low = fmin(low, log(j->n[p]));
            high = fmax(high, log(j->n[p]));
        }
    for (int64_t d = 0; d < degrees; d++) {
        double *mine = q + d * j->P;
        for (int64_t p = 0; p < j->P; p++)
            mine[p] = j->all[p].flags
                          ? 0.0
                          : pow((2.0 * log(j->n[p]) - low - high) / (high - low), (double)d);
        for (int64_t i = 0; i < 2 * d; i++) {
            const double *other = q + i % d * j->P;
            double dot = 0.0;
            for (int64_t p = 0; p < j->P; p++)
                dot += mine[p] * other[p];
            for (int64_t p = 0; p < j->P; p++)
                mine[p] -= dot * other[p];
        }
        double square = 0.0;
        for (int64_t p = 0; p < j->P; p++)
            square += mine[p] * mine[p];
        for (int64_t p = 0; p < j->P; p++)
            mine[p] /= sqrt(square);
    }
}

/* Components of ln error along `count` polynomials. */
static void bends_of(const job *j, const es_fit_point *points, const double *q, int64_t count,
                     double *out)
{
    for (int64_t d = 0; d < count; d++) {
        out[d] = 0.0;
        for (int64_t p = 0; p < j->P; p++)
            if (!points[p].flags)
                out[d] += q[(d + 2) * j->P + p] * log(points[p].error);
    }
}

/* z' S^-1 z by Cholesky's factor of S (k, k); NaN if S has none. */
static double quadratic(double *S, const double *z, int64_t k)
{
    double y[MOST_BENDS], sum = 0.0;
    for (int64_t i = 0; i < k; i++) {
        for (int64_t c = 0; c <= i; c++) {
            double rest = S[i * k + c];
            for (int64_t l = 0; l < c; l++)
                rest -= S[i * k + l] * S[c * k + l];
            if (i == c && !(rest > 1e-13 * S[i * k + i]))
                return (double)NAN;
            S[i * k + c] = i == c ? sqrt(rest) : rest / S[c * k + c];
        }
        y[i] = z[i];
        for (int64_t l = 0; l < i; l++)
            y[i] -= S[i * k + l] * y[l];
        y[i] /= S[i * k + i];
        sum += y[i] * y[i];
    }
    return sum;
}

/* Returns how many bends of the line are tested: each costs replicates for its covariance. */
static int64_t bends_to_test(const job *j, const es_rate *rate)
{
    const int64_t enough = j->R / REPLICATES_A_BEND, there = rate->mean.used - 2;
    const int64_t most = there < MOST_BENDS ? there : MOST_BENDS;
    return enough < most ? enough : most;
}

/* The first reason is kept. */
static void say_why(es_rate *rate, const char *why)
{
    if (!rate->reason[0])
        snprintf(rate->reason, sizeof rate->reason, "%s", why);
}

/* Tests the power law with Hotelling's T^2 on orthogonal polynomials of ln n: means of the
 * replicates' bends against their covariance. */
static void test_line(job *j, double *q, es_rate *rate)
{
    const int64_t k = bends_to_test(j, rate);
    const double R = (double)j->R;
    double z[MOST_BENDS], mean[MOST_BENDS] = {0}, S[MOST_BENDS * MOST_BENDS] = {0};
    rate->bends = k;
    if (k < 1) {
        say_why(rate, "fewer than 4 replicates cannot tell a power law from another curve");
        return;
    }
    polynomials(j, k + 2, q);
    bends_of(j, j->all, q, k, z);
    for (int64_t r = 0; r < j->R; r++) {
        double *mine = j->bends + r * MOST_BENDS;
        bends_of(j, j->without + r * j->P, q, k, mine);
        for (int64_t d = 0; d < k; d++) {
            mine[d] = R * z[d] - (R - 1.0) * mine[d];
            mean[d] += mine[d] / R;
        }
    }
    for (int64_t r = 0; r < j->R; r++)
        for (int64_t a = 0; a < k; a++)
            for (int64_t b = 0; b < k; b++)
                S[a * k + b] += (j->bends[r * MOST_BENDS + a] - mean[a]) *
                                (j->bends[r * MOST_BENDS + b] - mean[b]) / (R - 1.0);
    const double free = R - (double)k, t2 = R * quadratic(S, z, k);
    rate->power_p = es_f_tail((double)k, free, t2 * free / ((R - 1.0) * (double)k));
    if (isnan(rate->power_p))
        say_why(rate, "replicates do not differ enough to tell a power law from another curve");
}

/* ---- all of it ---- */

/* Checks shapes, the level and that errors are distances. */
static es_status check_job(const job *j, double level, es_error *err)
{
    if (j->R < 1 || j->P < 1 || j->R > MOST_REPLICATES)
        return es_fail(err, ES_E_SHAPE, "fit.shape", "at most 262144 replicates",
                       "errors of %lld replicates at %lld points", (long long)j->R,
                       (long long)j->P);
    if (!(level > 0.0 && level < 1.0))
        return es_fail(err, ES_E_ARGUMENT, "fit.level", "a level in (0,1)",
                       "an interval of level %g", level);
    for (int64_t r = 0; r < j->R; r++) {
        for (int64_t p = 0; p < j->P; p++) {
            const double e = j->errors[r * j->P + p];
            if ((j->flags && j->flags[p]) || (isfinite(e) && e >= 0.0))
                continue;
            return es_fail_at(err, isfinite(e) ? ES_E_RANGE : ES_E_NONFINITE, r, p, "fit.error",
                              "an error is a distance; flag the point to leave it out",
                              "replicate %lld has the error %g at point %lld", (long long)r, e,
                              (long long)p);
        }
    }
    return ES_OK;
}

/* Allocates the buffers of a fit. */
static es_status new_job(job *j, es_arena *arena, double **q, es_error *err)
{
    const int64_t degrees = MOST_BENDS + 2;
    ES_TRY(ES_ARENA_NEW_2D(arena, j->column, j->R, 1 + MOST_BENDS, "replicates", err));
    j->bends = j->column + j->R;
    ES_TRY(ES_ARENA_NEW_2D(arena, j->before, 2, j->R + 1, "replicates", err));
    j->after = j->before + j->R + 1;
    ES_TRY(ES_ARENA_NEW_2D(arena, j->without, j->R + 2, j->P, "means without a replicate", err));
    j->all = j->without + j->R * j->P;
    j->medians = j->all + j->P;
    return ES_ARENA_NEW_2D(arena, *q, degrees, j->P, "polynomials", err);
}

/* One replicate: its line, without anything that would need a spread. */
static void forget_spread(es_rate *rate)
{
    rate->mean.rate_se_known = rate->mean.chi2 = rate->mean.p_value = (double)NAN;
    rate->median.rate_se_known = rate->median.chi2 = rate->median.p_value = (double)NAN;
    snprintf(rate->reason, sizeof rate->reason,
             "one replicate says nothing about how much replicates differ");
}

/* Summarises every point, fits the line, its interval by the jackknife over replicates, and tests
 * it. */
static es_status run_job(job *j, double level, double *q, es_fit_summary *summary, es_rate *out,
                         es_error *err)
{
    es_rate rate = {.median = no_line, .low = NAN, .high = NAN, .se = NAN, .power_p = NAN};
    for (int64_t p = 0; p < j->P; p++) {
        const es_fit_summary s = summarise(j, p);
        if (summary)
            summary[p] = s;
    }
    ES_TRY(es_fit_power(j->all, j->P, &rate.mean, err));
    if (es_fit_power(j->medians, j->P, &rate.median, NULL) != ES_OK)
        snprintf(rate.reason, sizeof rate.reason, "a median is 0, which has no logarithm");
    if (j->R == 1) {
        forget_spread(&rate);
    } else {
        find_interval(j, level, &rate);
        test_line(j, q, &rate);
    }
    *out = rate;
    return ES_OK;
}

es_status es_fit_replicates(const double *errors, int64_t replicates, int64_t points,
                            const double *n, const unsigned *flags, const es_rate_opts *opts,
                            es_fit_summary *summary, es_rate *out, es_error *err)
{
    static const es_rate_opts standard = {0};
    opts = opts ? opts : &standard;
    job j = {.errors = errors, .n = n, .flags = flags, .R = replicates, .P = points};
    const double level = opts->level == 0.0 ? 0.95 : opts->level;
    es_arena arena = {.budget = opts->budget};
    double *q;
    ES_TRY(check_job(&j, level, err));
    es_status status = new_job(&j, &arena, &q, err);
    if (status == ES_OK)
        status = run_job(&j, level, q, summary, out, err);
    es_arena_free(&arena);
    return status;
}
