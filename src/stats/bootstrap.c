/* Rates from replicates: summaries, the line, and the bootstrap over whole rows.
 *
 * A resample is kept as how often each row was drawn. Means and deviations are then sums over the
 * rows with these counts, and a median is found by walking along the column, sorted once, until
 * half of the counts have been passed: no resample is ever written down, none is sorted.
 */
#include <esscher/fit.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "stats/average.h"

enum { UNIT = 16 };                 /* resamples that one thread does in a row */
enum { MOST_REPLICATES = 1 << 18 }; /* lanes of the address: 64 for each row drawn */
static const int64_t most_resamples = 10000000;

typedef struct entry {
    double value;
    int64_t row;
} entry;

typedef struct job {
    const double *errors; /* (R, P) */
    const double *n;      /* (P) */
    const unsigned *flags;
    int64_t R, P, B;
    es_address address;
    entry *sorted;        /* (P, R): columns in increasing order */
    int64_t *draws;       /* (threads, R) */
    int64_t *counts;      /* (threads, R) */
    es_fit_point *points; /* (threads, 2, P) */
    double *rates;        /* (B), of means; NaN: refused */
    double *median_rates; /* (B) */
} job;

static unsigned flags_of(const job *j, int64_t p) { return j->flags ? j->flags[p] : 0u; }

/* ---- one point ---- */

/* The k-th smallest, from 0, of a column in which each row stands as often as counts says. */
static double order_statistic(const entry *sorted, const int64_t *counts, int64_t k)
{
    int64_t i = 0;
    for (int64_t passed = counts[sorted[0].row]; passed <= k; passed += counts[sorted[i].row])
        i++;
    return sorted[i].value;
}

static es_fit_summary summarise(const job *j, const int64_t *counts, int64_t p)
{
    const double R = (double)j->R;
    double sum = 0.0, squares = 0.0;
    for (int64_t r = 0; r < j->R; r++)
        sum += (double)counts[r] * j->errors[r * j->P + p];
    const double mean = sum / R;
    for (int64_t r = 0; r < j->R; r++) {
        const double off = j->errors[r * j->P + p] - mean;
        squares += (double)counts[r] * off * off;
    }
    const entry *column = j->sorted + p * j->R;
    const double median = 0.5 * (order_statistic(column, counts, (j->R - 1) / 2) +
                                 order_statistic(column, counts, j->R / 2));
    const double sd = sqrt(squares / R);
    return (es_fit_summary){.mean = mean, .median = median, .sd = sd, .se = sd / sqrt(R)};
}

/* Root mean square over replicates at point p. The error is that of the mean square, through
 * d sqrt(x) = dx / (2 sqrt(x)). */
static void add_rms(const job *j, int64_t p, es_fit_summary *out)
{
    const double R = (double)j->R;
    double sum = 0.0, off = 0.0;
    for (int64_t r = 0; r < j->R; r++)
        sum += j->errors[r * j->P + p] * j->errors[r * j->P + p];
    const double mean = sum / R;
    for (int64_t r = 0; r < j->R; r++) {
        const double x = j->errors[r * j->P + p] * j->errors[r * j->P + p] - mean;
        off += x * x;
    }
    out->rms = sqrt(mean);
    out->rms_se = j->R > 1 ? sqrt(off / (R - 1.0) / R) / (2.0 * sqrt(mean)) : (double)NAN;
}

static const es_fit no_line = {.rate = NAN,
                               .intercept = NAN,
                               .rate_se = NAN,
                               .intercept_se = NAN,
                               .rate_se_known = NAN,
                               .chi2 = NAN,
                               .p_value = NAN,
                               .ols_rate = NAN,
                               .ols_intercept = NAN};

/* The lines through means and medians of the rows with these counts; points (2, P) is scratch. A
 * line that cannot be drawn is NaN, and a failure only if it is that of the means. */
static es_status fit_both(const job *j, const int64_t *counts, es_fit_point *points, es_fit *mean,
                          es_fit *median, es_error *err)
{
    es_fit_point *means = points, *medians = points + j->P;
    for (int64_t p = 0; p < j->P; p++) {
        means[p] = medians[p] = (es_fit_point){.n = j->n[p], .flags = flags_of(j, p)};
        if (means[p].flags)
            continue;
        const es_fit_summary s = summarise(j, counts, p);
        means[p].error = s.mean;
        medians[p].error = s.median;
        means[p].se = medians[p].se = s.se;
    }
    *mean = *median = no_line;
    es_error ignored;
    (void)es_fit_power(medians, j->P, median, &ignored);
    return es_fit_power(means, j->P, mean, err);
}

/* ---- resamples ---- */

static es_status resample(void *user, int64_t unit, int thread, es_error *err)
{
    const job *j = user;
    int64_t *draws = j->draws + thread * j->R, *counts = j->counts + thread * j->R;
    es_fit_point *points = j->points + thread * 2 * j->P;
    for (int64_t b = unit * UNIT; b < j->B && b < (unit + 1) * UNIT; b++) {
        es_address at = j->address;
        at.token = (uint64_t)b;
        ES_TRY(es_integer_rows(&at, 1, j->R, j->R, draws, err));
        memset(counts, 0, (size_t)j->R * sizeof *counts);
        for (int64_t r = 0; r < j->R; r++)
            counts[draws[r]]++;
        es_fit mean, median;
        es_error ignored; /* a resample without a line is counted, not a failure */
        (void)fit_both(j, counts, points, &mean, &median, &ignored);
        j->rates[b] = mean.rate;
        j->median_rates[b] = median.rate;
    }
    return ES_OK;
}

static int by_value(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (isnan(x->value) || isnan(y->value)) /* of a flagged point; last */
        return isnan(x->value) - isnan(y->value);
    return x->value != y->value ? (x->value > y->value) - (x->value < y->value)
                                : (x->row > y->row) - (x->row < y->row);
}

/* Quantile p of sorted values, between neighbours on a straight line (type 7). */
static double quantile(const double *sorted, int64_t count, double p)
{
    const double at = p * (double)(count - 1);
    const int64_t i = (int64_t)at < count - 1 ? (int64_t)at : count - 2;
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

/* The percentile interval of the values that are numbers, which are sorted to the front. Returns
 * how many are not. */
static int64_t interval(double *values, int64_t count, double level, double *low, double *high)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            values[kept++] = values[i];
    *low = *high = (double)NAN;
    if (kept >= 2) {
        es_sort_reals(values, kept);
        *low = quantile(values, kept, 0.5 * (1.0 - level));
        *high = quantile(values, kept, 0.5 * (1.0 + level));
    }
    return count - kept;
}

/* ---- all of it ---- */

static es_status check_job(const job *j, double level, es_error *err)
{
    if (j->R < 1 || j->P < 1 || j->R > MOST_REPLICATES)
        return es_fail(err, ES_E_SHAPE, "fit.shape", "at most 262144 replicates",
                       "errors of %lld replicates at %lld points", (long long)j->R,
                       (long long)j->P);
    if (!(level > 0.0 && level < 1.0) || j->B < 2 || j->B > most_resamples)
        return es_fail(err, ES_E_ARGUMENT, "fit.bootstrap",
                       "a level in (0,1), 2 to 10000000 resamples",
                       "an interval of level %g from %lld resamples", level, (long long)j->B);
    for (int64_t r = 0; r < j->R; r++) {
        for (int64_t p = 0; p < j->P; p++) {
            const double e = j->errors[r * j->P + p];
            if (flags_of(j, p) || (isfinite(e) && e >= 0.0))
                continue;
            return es_fail_at(err, isfinite(e) ? ES_E_RANGE : ES_E_NONFINITE, r, p, "fit.error",
                              "an error is a distance; flag the point to leave it out",
                              "replicate %lld has the error %g at point %lld", (long long)r, e,
                              (long long)p);
        }
    }
    es_address last = j->address;
    last.token = (uint64_t)(j->B - 1);
    return es_address_check(&last, err);
}

static es_status new_job(job *j, es_budget *budget, int threads, es_error *err)
{
    ES_TRY(es_mem_array(budget, j->R, j->P, sizeof *j->sorted, "sorted errors", (void **)&j->sorted,
                        err));
    ES_TRY(es_mem_array(budget, threads, j->R, sizeof *j->draws, "a resample", (void **)&j->draws,
                        err));
    ES_TRY(es_mem_array(budget, threads, j->R, sizeof *j->counts, "a resample", (void **)&j->counts,
                        err));
    ES_TRY(es_mem_array(budget, threads, 2 * j->P, sizeof *j->points, "points", (void **)&j->points,
                        err));
    ES_TRY(es_mem_array(budget, j->B, 1, sizeof *j->rates, "rates", (void **)&j->rates, err));
    ES_TRY(es_mem_array(budget, j->B, 1, sizeof *j->median_rates, "rates",
                        (void **)&j->median_rates, err));
    for (int64_t p = 0; p < j->P; p++) {
        entry *column = j->sorted + p * j->R;
        for (int64_t r = 0; r < j->R; r++)
            column[r] = (entry){.value = j->errors[r * j->P + p], .row = r};
        qsort(column, (size_t)j->R, sizeof *column, by_value);
    }
    return ES_OK;
}

static void free_job(job *j, es_budget *budget)
{
    es_mem_free(budget, j->sorted);
    es_mem_free(budget, j->draws);
    es_mem_free(budget, j->counts);
    es_mem_free(budget, j->points);
    es_mem_free(budget, j->rates);
    es_mem_free(budget, j->median_rates);
}

/* One replicate: its line, without anything that would need a spread. */
static void forget_spread(es_rate *rate)
{
    rate->mean.rate_se_known = rate->mean.chi2 = rate->mean.p_value = (double)NAN;
    rate->median.rate_se_known = rate->median.chi2 = rate->median.p_value = (double)NAN;
    snprintf(rate->reason, sizeof rate->reason,
             "one replicate says nothing about how much replicates differ");
}

static es_status run_job(job *j, double level, const es_exec *exec, es_fit_summary *summary,
                         es_rate *out, es_error *err)
{
    es_rate rate = {.low = NAN, .high = NAN, .se = NAN, .median_low = NAN, .median_high = NAN};
    for (int64_t r = 0; r < j->R; r++)
        j->counts[r] = 1;
    for (int64_t p = 0; summary && p < j->P; p++) {
        summary[p] = summarise(j, j->counts, p);
        add_rms(j, p, &summary[p]);
        if (j->R == 1)
            summary[p].se = (double)NAN;
    }
    ES_TRY(fit_both(j, j->counts, j->points, &rate.mean, &rate.median, err));
    if (j->R == 1) {
        forget_spread(&rate);
        *out = rate;
        return ES_OK;
    }
    ES_TRY(es_parallel_run(exec, (j->B + UNIT - 1) / UNIT, resample, j, err));
    rate.resamples = j->B;
    rate.refused = interval(j->rates, j->B, level, &rate.low, &rate.high);
    rate.se = (rate.high - rate.low) / (2.0 * ES_SIGMAS_95);
    if (!isnan(rate.median.rate))
        interval(j->median_rates, j->B, level, &rate.median_low, &rate.median_high);
    else
        snprintf(rate.reason, sizeof rate.reason, "a median is 0, which has no logarithm");
    *out = rate;
    return ES_OK;
}

es_status es_fit_replicates(const double *errors, int64_t replicates, int64_t points,
                            const double *n, const unsigned *flags, const es_rate_opts *opts,
                            es_fit_summary *summary, es_rate *out, es_error *err)
{
    if (!errors || !n || !opts || !out)
        return es_fail(err, ES_E_ARGUMENT, "fit.null", "", "errors, n, opts or out is NULL");
    job j = {.errors = errors,
             .n = n,
             .flags = flags,
             .R = replicates,
             .P = points,
             .B = opts->resamples ? opts->resamples : 1000,
             .address = {.seed = opts->seed, .experiment = opts->experiment, .cell = opts->cell}};
    const double level = opts->level == 0.0 ? 0.95 : opts->level;
    ES_TRY(check_job(&j, level, err));
    es_budget *budget = opts->exec ? opts->exec->budget : NULL;
    const int threads = es_parallel_threads(opts->exec, (j.B + UNIT - 1) / UNIT);
    es_status status = new_job(&j, budget, threads, err);
    if (status == ES_OK)
        status = run_job(&j, level, opts->exec, summary, out, err);
    free_job(&j, budget);
    return status;
}
