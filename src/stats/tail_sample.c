/* SPDX-License-Identifier: Apache-2.0 */
/* tail_sample.c : how heavy the tails of one sample are (THEORY 9): proxy, Hill, psi_2, and the
 * same of Gaussian samples, against which they are judged. */
#include "stats/tail_sample.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "random/experiment.h"
#include "stats/average.h"
#include "stats/fit.h"
#include "stats/special.h"

/* ---- the proxy ---- */

/* A standardised sample under tilts of one sign. */
typedef struct tilted {
    const double *x; /* (n), mean 0 and variance 1 */
    int64_t n;
    double sign, most; /* the largest sign * x */
} tilted;

/* K_n(l) = ln mean e^{l x}, l >= 0; the largest exponent is taken out. */
static double log_mgf(const tilted *t, double l)
{
    double sum = 0.0;
    for (int64_t i = 0; i < t->n; i++)
        sum += exp(l * (t->sign * t->x[i] - t->most));
    return l * t->most + log(sum / (double)t->n);
}

/* Returns -2 K(l)/l^2, whose minimum over l is minus the sub-Gaussian proxy variance (K the log-
 * MGF of the sample). */
static double minus_proxy(const void *context, double l)
{
    return -2.0 * log_mgf(context, l) / (l * l);
}

/* ln of ESS / 30, where ESS = 1/sum w^2 = n e^{2 K(l) - K(2l)}. K is convex, so it falls with l. */
static double log_excess(const tilted *t, double l)
{
    return 2.0 * log_mgf(t, l) - log_mgf(t, 2.0 * l) + log((double)t->n / 30.0);
}

/* The largest l with ESS >= 30, where a heavy tail has its supremum: by regula falsi, which halves
 * the value at an end that stays twice (Illinois) and so moves both ends. */
static double last_tilt(const tilted *t)
{
    enum { TRIES = 10 };
    double low = 0.0, at_low = log((double)t->n / 30.0), high = 1.0, at_high;
    int moved = 0;
    while ((at_high = log_excess(t, high)) >= 0.0 && high < 1e3) {
        low = high;
        at_low = at_high;
        high *= 2.0;
    }
    for (int i = 0; i < TRIES && at_low > 0.0 && at_high < 0.0; i++) {
        const double between = low + (high - low) * at_low / (at_low - at_high);
        const double here = log_excess(t, between);
        const int side = here >= 0.0 ? -1 : 1;
        if (side < 0) {
            low = between;
            at_low = here;
            at_high *= moved == side ? 0.5 : 1.0;
        } else {
            high = between;
            at_high = here;
            at_low *= moved == side ? 0.5 : 1.0;
        }
        moved = side;
    }
    return low;
}

enum { TILTS = 16, STEPS = 14 }; /* looked at on each side, then the best one's neighbourhood */

/* Raises the proxy to its maximum over tilts of one sign: a grid up to the last tilt that the
 * sample supports, then a line search. */
static void raise_proxy(const double *x, int64_t n, double sign, es_tails *out)
{
    tilted t = {.x = x, .n = n, .sign = sign, .most = sign * x[0]};
    for (int64_t i = 1; i < n; i++)
        t.most = fmax(t.most, sign * x[i]);
    const double last = last_tilt(&t), step = last / TILTS;
    double best = 0.0, at = 0.0;
    for (int i = 1; i <= TILTS; i++) {
        const double here = -minus_proxy(&t, i * step);
        if (here > best) {
            best = here;
            at = i * step;
        }
    }
    if (at > step && at < last - 0.5 * step) {
        const double fine = es_minimum(minus_proxy, &t, at - step, at + step, STEPS);
        const double here = -minus_proxy(&t, fine);
        if (here > best) {
            best = here;
            at = fine;
        }
    }
    if (best > out->proxy) {
        out->proxy = best;
        out->tilt = sign * at;
    }
}

/* ---- Hill ---- */

int64_t es_tails_hill_count(int64_t n) { return llround(cbrt((double)n) * cbrt((double)n)); }

/* Compares two doubles for qsort(), the larger first. */
static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Of ordered numbers; NaN where the k largest do not stand above 0. */
static double hill_of(const double *ordered, int64_t n, int64_t k)
{
    double sum = 0.0;
    if (k < 1 || k >= n || !(ordered[k] > 0.0))
        return (double)NAN;
    for (int64_t i = 0; i < k; i++)
        sum += log(ordered[i] / ordered[k]);
    return sum / (double)k;
}

/* ---- all of it ---- */

/* Mean and scale of x, then y = (x - mean) / sd, by way of the largest |x - mean| so that no square
 * overflows. @return : false if all x are alike. */
static bool standardise(const double *x, int64_t n, double *y, es_tails *out)
{
    double mean = 0.0, top = 0.0, squares = 0.0, fourth = 0.0;
    for (int64_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    double rest = 0.0; /* what rounding left of the mean */
    for (int64_t i = 0; i < n; i++)
        rest += (x[i] - mean) / (double)n;
    mean += rest;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, fabs(x[i] - mean));
    out->mean = mean;
    /* less than rounding of the mean itself */
    if (!(top > 8.0 * 0x1p-52 * fabs(mean)))
        return false;
    for (int64_t i = 0; i < n; i++) {
        y[i] = (x[i] - mean) / top;
        squares += y[i] * y[i] / (double)n;
    }
    const double sd = sqrt(squares);
    for (int64_t i = 0; i < n; i++) {
        y[i] /= sd;
        fourth += y[i] * y[i] * y[i] * y[i] / (double)n;
    }
    out->variance = squares * top * top;
    out->kurtosis = fourth;
    return true;
}

/* Design effect of f = exp(3 y^2/8), whose mean psi2 is made of: the variance of its means over
 * blocks, times their length, over its own. (Plain squares are alike over longer distances than
 * tails are: theirs would be too large.) f is kept finite by its largest value. */
static double design_of(const double *y, int64_t n)
{
    enum { MOST = 64 };
    const int64_t blocks = n / 16 < MOST ? n / 16 : MOST, length = n / blocks;
    double mean[MOST], all = 0.0, between = 0.0, within = 0.0, top = 0.0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, y[i] * y[i]);
    for (int64_t b = 0; b < blocks; b++) {
        mean[b] = 0.0;
        for (int64_t i = b * length; i < (b + 1) * length; i++)
            mean[b] += exp(0.375 * (y[i] * y[i] - top)) / (double)length;
        all += mean[b] / (double)blocks;
    }
    for (int64_t i = 0; i < blocks * length; i++)
        within += pow(exp(0.375 * (y[i] * y[i] - top)) - all, 2.0) / (double)(blocks * length);
    for (int64_t b = 0; b < blocks; b++)
        between += (mean[b] - all) * (mean[b] - all) / (double)(blocks - 1);
    return fmax(1.0, (double)length * between / within); /* if y is +-1, NaN: 1 */
}

/* Fails for a sample that is too small to have a tail. */
static es_status check_count(int64_t n, es_error *err)
{
    if (n >= ES_TAILS_LEAST)
        return ES_OK;
    return es_fail(err, ES_E_EMPTY, "tails.count", "more tokens",
                   "a sample of %lld is too small for tails: at least %d", (long long)n,
                   ES_TAILS_LEAST);
}

/* Checks a sample: large enough, finite and, for norms, not negative. */
static es_status check_sample(const double *x, int64_t n, es_tails_side side, es_error *err)
{
    ES_TRY(check_count(n, err));
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return es_fail_at(err, ES_E_NONFINITE, i, -1, "tails.finite", "", "x[%lld] is %g",
                              (long long)i, x[i]);
        if (side == ES_TAILS_UPPER && x[i] < 0.0)
            return es_fail_at(err, ES_E_RANGE, i, -1, "tails.sign", "ES_TAILS_BOTH takes any sign",
                              "x[%lld] is %g, but a norm is not negative", (long long)i, x[i]);
    }
    return ES_OK;
}

es_status es_tails_of(const double *x, int64_t n, es_tails_side side, es_mem_limit *budget,
                      es_tails *out, es_error *err)
{
    const int64_t k = es_tails_hill_count(n);
    const double none = (double)NAN;
    double *y;
    ES_TRY(check_sample(x, n, side, err));
    *out = (es_tails){(double)n, 0.0, 0.0, none, none, none, none, none, none, none, none, none};
    ES_TRY(ES_MEM_NEW(budget, y, n, "a sample", err));
    es_status status = ES_OK;
    if (standardise(x, n, y, out)) {
        out->design = design_of(y, n);
        out->proxy = 1.0;
        out->tilt = 0.0;
        raise_proxy(y, n, 1.0, out);
        raise_proxy(y, n, -1.0, out);
        status = es_psi2_norm(y, n, &out->psi2, err);
        for (int64_t i = 0; i < n; i++)
            y[i] = side == ES_TAILS_UPPER ? x[i] : fabs(y[i]);
        qsort(y, (size_t)n, sizeof *y, descending);
        out->hill = hill_of(y, n, k);
        out->hill_se = out->hill / sqrt((double)k);
        out->hill_half = hill_of(y, n, k / 2);
        out->hill_twice = hill_of(y, n, 2 * k);
    }
    es_mem_free(budget, y);
    return status;
}

/* ---- the verdict ---- */

/* Returns how many standard deviations of the control a value lies above its mean. */
static double distance(double value, const es_tails_spread *control)
{
    return (value - control->mean) / control->sd;
}

/* Returns the probability that a new draw exceeds the last order by more than `excess` >= 0:
 *
 *     (k + 1)/(R + 1) (1 + excess/(k m))^-k                                       (THEORY 9)
 *
 * Of R draws the k = floor(R/4) largest exceed that order, by m = mean_excess on average. The first
 * factor is the probability of being among them. The second is the predictive law of exponential
 * excesses whose mean theta is unknown, e^(-excess/theta) averaged over theta given k excesses of
 * sum k m with the prior 1/theta: exact for exponential tails, too large for lighter ones. Without
 * a tail (k = 0) or with equal draws (m = 0) only the rank is left. */
static double tail_of(double excess, double mean_excess, double draws)
{
    const double k = floor(draws / 4.0), beyond = (k + 1.0) / (draws + 1.0);
    if (k < 1.0 || !(mean_excess > 0.0)) /* too few to have a tail, or all of them alike */
        return excess > 0.0 ? 1.0 / (draws + 1.0) : beyond;
    return beyond * pow(1.0 + excess / (k * mean_excess), -k);
}

double es_tails_above(double value, const es_tails_spread *c)
{
    enum { LAST = ES_TAILS_ORDERS - 1 };
    const double k = floor(c->draws / 4.0), all = c->draws + 1.0;
    if (!(value < c->order[LAST]))
        return isnan(value) ? value : tail_of(value - c->order[LAST], c->above, c->draws);
    if (value < c->order[0])
        return 1.0 - tail_of(c->order[0] - value, c->below, c->draws);
    int i = 0;
    while (value >= c->order[i + 1])
        i++;
    const double part = (value - c->order[i]) / (c->order[i + 1] - c->order[i]);
    const double steps = (all - 2.0 * (k + 1.0)) / LAST; /* ranks from one order to the next */
    return (all - (k + 1.0) - steps * ((double)i + part)) / all;
}

double es_tails_below(double value, const es_tails_spread *c)
{
    return value < c->order[0] ? tail_of(c->order[0] - value, c->below, c->draws)
                               : 1.0 - es_tails_above(value, c);
}

es_tails_p es_tails_compare(const es_tails *sample, const es_tails_control *control, es_tails_z *z)
{
    const es_tails_z d = {.kurtosis = distance(sample->kurtosis, &control->kurtosis),
                          .proxy = distance(sample->proxy, &control->proxy),
                          .psi2 = distance(sample->psi2, &control->psi2),
                          .hill = distance(sample->hill, &control->hill)};
    const double root = sqrt(sample->design);
#define NEARER(name) (control->name.mean + control->name.sd * d.name / root)
    const double proxy = es_tails_above(NEARER(proxy), &control->proxy);
    const double psi2 = es_tails_above(NEARER(psi2), &control->psi2);
    const double less = es_tails_below(NEARER(psi2), &control->psi2);
    const double hill = es_tails_below(NEARER(hill), &control->hill);
#undef NEARER
    if (z)
        *z = d;
    if (!(sample->variance > 0.0))
        return (es_tails_p){(double)NAN, (double)NAN};
    return (es_tails_p){.heavier = fmin(1.0, 2.0 * fmin(proxy, psi2)),
                        .lighter = fmin(1.0, 2.0 * fmin(less, hill))};
}

es_tails_verdict es_tails_decide(const es_tails *sample, const es_tails_control *control,
                                 es_tails_p p)
{
    const bool above =
        sample->proxy > 1.1 * control->proxy.mean || sample->psi2 > 1.1 * control->psi2.mean;
    const bool below =
        sample->psi2 < 0.9 * control->psi2.mean || sample->hill < 0.9 * control->hill.mean;
    if (!(sample->variance > 0.0))
        return ES_TAILS_CONSTANT;
    if (above && p.heavier <= ES_TAILS_LEVEL)
        return ES_TAILS_HEAVIER;
    return below && p.lighter <= ES_TAILS_LEVEL ? ES_TAILS_LIGHTER : ES_TAILS_GAUSSIAN;
}

es_tails_verdict es_tails_judge(const es_tails *sample, const es_tails_control *control)
{
    const es_tails_p p = es_tails_compare(sample, control, NULL);
    return es_tails_decide(sample, control, (es_tails_p){2.0 * p.heavier, 2.0 * p.lighter});
}

const char *es_tails_verdict_name(es_tails_verdict verdict)
{
    static const char *const names[] = {
        [ES_TAILS_GAUSSIAN] = "Gaussian-like",
        [ES_TAILS_LIGHTER] = "lighter than Gaussian",
        [ES_TAILS_HEAVIER] = "heavier than Gaussian",
        [ES_TAILS_CONSTANT] = "constant",
    };
    return (unsigned)verdict <= ES_TAILS_CONSTANT ? names[verdict] : "?";
}

/* ---- what all this says of Gaussian samples ---- */

enum { DRAWS = 64, STRIP = 64 }; /* a tail of 16 of them: p-values down to 1e-7 can be resolved */

/* Gaussian samples that threads draw. */
typedef struct controls {
    const double *spectrum; /* (dim) of norms; NULL: numbers */
    int64_t n, dim;
    uint64_t seed;
    es_mem_limit *budget;
    es_tails *draws;
} controls;

/* Norms of n Gaussian vectors in the axes of their covariance, STRIP at a time. */
static es_status draw_norms(const controls *c, es_address at, double *x, es_error *err)
{
    double *g;
    ES_TRY(ES_MEM_NEW_2D(c->budget, g, STRIP, c->dim, "vectors", err));
    es_status status = ES_OK;
    for (int64_t first = 0; first < c->n && status == ES_OK; first += STRIP) {
        const int64_t count = c->n - first < STRIP ? c->n - first : STRIP;
        at.token = (uint64_t)first;
        status = es_normal_rows(&at, count, c->dim, g, err);
        for (int64_t i = 0; i < count && status == ES_OK; i++) {
            double sum = 0.0;
            for (int64_t j = 0; j < c->dim; j++)
                sum += c->spectrum[j] * g[i * c->dim + j] * g[i * c->dim + j];
            x[first + i] = sqrt(sum);
        }
    }
    es_mem_free(c->budget, g);
    return status;
}

/* Computes the statistics of one control sample, Gaussian with the same size or spectrum. */
static es_status draw_one(void *user, int64_t unit, int thread, es_error *err)
{
    const controls *c = user;
    const es_address at = {.seed = c->seed,
                           .experiment = ES_EXPERIMENT_TAILS + (c->spectrum ? 1 : 0),
                           .cell = (uint64_t)unit};
    double *x;
    (void)thread;
    ES_TRY(ES_MEM_NEW(c->budget, x, c->n, "a control", err));
    es_status status =
        c->spectrum ? draw_norms(c, at, x, err) : es_normal_rows(&at, c->n, 1, x, err);
    if (status == ES_OK)
        status = es_tails_of(x, c->n, c->spectrum ? ES_TAILS_UPPER : ES_TAILS_BOTH, c->budget,
                             &c->draws[unit], err);
    es_mem_free(c->budget, x);
    return status;
}

/* Value of rank `at`, from 0, among those in order; between two of them if it is no whole number.
 */
static double order_of(const double *sorted, double at)
{
    const int64_t i = (int64_t)floor(at);
    const double part = at - (double)i;
    return part > 0.0 ? sorted[i] + part * (sorted[i + 1] - sorted[i]) : sorted[i];
}

/* What the member at `offset` of each draw does; `x` (count) is scratch. */
static es_tails_spread spread_of(const es_tails *draws, int64_t count, size_t offset, double *x)
{
    es_tails_spread s = {.draws = (double)count};
    const int64_t k = count / 4;
    for (int64_t r = 0; r < count; r++) {
        x[r] = *(const double *)(const void *)((const char *)&draws[r] + offset);
        s.mean += x[r] / (double)count;
    }
    for (int64_t r = 0; r < count; r++)
        s.sd += (x[r] - s.mean) * (x[r] - s.mean);
    s.sd = sqrt(s.sd / (double)(count - 1));
    es_sort_reals(x, count);
    for (int i = 0; i < ES_TAILS_ORDERS; i++)
        s.order[i] =
            order_of(x, (double)k + (double)(count - 1 - 2 * k) * i / (ES_TAILS_ORDERS - 1));
    for (int64_t r = 0; r < k; r++) {
        s.below += (s.order[0] - x[r]) / (double)k;
        s.above += (x[count - 1 - r] - s.order[ES_TAILS_ORDERS - 1]) / (double)k;
    }
    return s;
}

/* Draws all control samples with all threads and summarises each statistic. */
static es_status run_controls(controls *c, int64_t draws, const es_exec *exec,
                              es_tails_control *out, es_error *err)
{
    const int64_t count = draws ? draws : DRAWS;
    if (count < 2)
        return es_fail(err, ES_E_RANGE, "tails.draws", "2 or more, 0 for 64",
                       "%lld draws give no standard error", (long long)draws);
    ES_TRY(check_count(c->n, err));
    c->budget = exec ? exec->budget : NULL;
    double *x = NULL;
    ES_TRY(ES_MEM_NEW(c->budget, c->draws, count, "controls", err));
    es_status status = es_parallel_run(exec, count, draw_one, c, err);
    if (status == ES_OK)
        status = ES_MEM_NEW(c->budget, x, count, "controls", err);
    if (status == ES_OK)
        *out = (es_tails_control){.kurtosis =
                                      spread_of(c->draws, count, offsetof(es_tails, kurtosis), x),
                                  .proxy = spread_of(c->draws, count, offsetof(es_tails, proxy), x),
                                  .psi2 = spread_of(c->draws, count, offsetof(es_tails, psi2), x),
                                  .hill = spread_of(c->draws, count, offsetof(es_tails, hill), x)};
    es_mem_free(c->budget, x);
    es_mem_free(c->budget, c->draws);
    return status;
}

es_status es_tails_gaussian(int64_t n, int64_t draws, uint64_t seed, const es_exec *exec,
                            es_tails_control *out, es_error *err)
{
    controls c = {.n = n, .seed = seed};
    return run_controls(&c, draws, exec, out, err);
}

es_status es_tails_gaussian_norms(const double *spectrum, int64_t dim, int64_t n, int64_t draws,
                                  uint64_t seed, const es_exec *exec, es_tails_control *out,
                                  es_error *err)
{
    controls c = {.spectrum = spectrum, .dim = dim, .n = n, .seed = seed};
    if (dim < 1)
        return es_fail(err, ES_E_ARGUMENT, "tails.spectrum", "", "the spectrum is empty");
    for (int64_t j = 0; j < dim; j++)
        if (!(spectrum[j] >= 0.0) || isinf(spectrum[j]))
            return es_fail_at(err, ES_E_RANGE, j, -1, "tails.spectrum", "",
                              "eigenvalue %lld of a covariance is %g", (long long)j, spectrum[j]);
    return run_controls(&c, draws, exec, out, err);
}
