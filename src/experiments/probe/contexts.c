/* SPDX-License-Identifier: Apache-2.0 */
/* contexts.c : the tables contexts, context_heads and windows: windows of the text compared with
 * tokens drawn from it. The *design effect* is what the order of the text costs a head; it says how
 * many independent tokens a context is worth. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"
#include "stats/average.h"
#include "stats/multiple.h"
#include "stats/special.h"

/* ---- rows ---- */

/* All heads of a domain at one n. */
typedef struct context_row {
    const char *domain;
    int64_t n, windows;
    es_measured design_effect;
    double design_effect_low, design_effect_high, design_effect_most;
    int64_t above, below;
    double effective_tokens, effective_tokens_low, effective_tokens_high, lost;
} context_row;

static const es_column context_columns[] = {
    ES_COL(context_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(context_row, n, ES_FORMAT_COUNT, "n", "tokens",
           "of a context: consecutive tokens of the text"),
    ES_COL(context_row, windows, ES_FORMAT_COUNT, "apart", "",
           "windows of n tokens that the pool has side by side"),
    ES_COL(context_row, design_effect, ES_FORMAT_REAL, "design effect", "",
           "mean square error of windows over that of n independent tokens, median over heads; its "
           "error "
           "by the jackknife over windows and draws, for all heads see the same windows"),
    ES_COL(context_row, design_effect_low, ES_FORMAT_SHORT, "10 %", "",
           "of heads have less than that"),
    ES_COL(context_row, design_effect_high, ES_FORMAT_SHORT, "90 %", "",
           "of heads have less than that"),
    ES_COL(context_row, design_effect_most, ES_FORMAT_SHORT, "most", "", "over heads"),
    ES_COL(context_row, above, ES_FORMAT_COUNT, "above 1", "heads",
           "whose 95 % interval is above 1"),
    ES_COL(context_row, below, ES_FORMAT_COUNT, "below 1", "heads",
           "whose 95 % interval is below 1"),
    ES_COL(context_row, effective_tokens, ES_FORMAT_SHORT, "worth", "tokens",
           "independent tokens with the error of a window of n, median over heads"),
    ES_COL(context_row, effective_tokens_low, ES_FORMAT_SHORT, "10 %", "tokens",
           "of heads have less than that"),
    ES_COL(context_row, effective_tokens_high, ES_FORMAT_SHORT, "90 %", "tokens",
           "of heads have less than that"),
    ES_COL(context_row, lost, ES_FORMAT_SHORT, "lost", "share",
           "part of the mean square error that is missing because a window is part of the limit, "
           "median "
           "over heads: at least n over the pool's tokens; the design effect is low by as much"),
    {0}};
static const es_table_spec contexts_table = {
    "contexts", context_columns, ES_VIEW("Contexts: what the order of the text costs, all heads"),
    ES_ROW(context_row), .keys = "domain n"};

/* One head. */
typedef struct context_head_row {
    const char *domain;
    int64_t layer, head, n;
    es_measured design_effect;
    double effective_tokens, effective_tokens_low, effective_tokens_high, lost;
    const char *flag;
    es_measured growth, rate_map_window;
    double rate_map_window_low, rate_map_window_high;
    const char *rate_map_window_reason;
    es_measured rate_map;
} context_head_row;

static const es_column head_columns[] = {
    ES_COL(context_head_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(context_head_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(context_head_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(context_head_row, n, ES_FORMAT_COUNT, "n", "tokens",
           "the largest without the flag pool; the smallest, where all have it"),
    ES_COL(context_head_row, design_effect, ES_FORMAT_REAL, "design effect", "", "at this n"),
    ES_COL(context_head_row, effective_tokens, ES_FORMAT_SHORT, "worth", "tokens",
           "independent tokens with the error of a window of n"),
    ES_COL_KEY(context_head_row, effective_tokens_low, "effective_tokens_ci.0", ES_FORMAT_SHORT,
               "worth from", "tokens", "95 % interval"),
    ES_COL_KEY(context_head_row, effective_tokens_high, "effective_tokens_ci.1", ES_FORMAT_SHORT,
               "worth to", "tokens"),
    ES_COL(context_head_row, lost, ES_FORMAT_SHORT, "lost", "share",
           "of the mean square error of windows that is missing because they are part of the "
           "limit, at "
           "least"),
    ES_COL(context_head_row, flag, ES_FORMAT_TEXT, "flag", "",
           "pool: more than a tenth is lost at every n, so that the design effect is a lower "
           "bound; take "
           "a larger pool"),
    ES_COL(context_head_row, growth, ES_FORMAT_REAL, "growth", "",
           "the design effect grows like n to this power: twice the difference of the rates"),
    ES_COL(context_head_row, rate_map_window, ES_FORMAT_REAL, "window rate", "",
           "map error of windows ~ `n^-rate`, points with the flag pool left out"),
    ES_COL_KEY(context_head_row, rate_map_window_low, "rate_map_window_ci.0", ES_FORMAT_REAL,
               "window rate from", "", "95 % interval, windows that overlap counted once"),
    ES_COL_KEY(context_head_row, rate_map_window_high, "rate_map_window_ci.1", ES_FORMAT_REAL,
               "window rate to", ""),
    ES_COL(context_head_row, rate_map_window_reason, ES_FORMAT_TEXT, "window rate reason", "",
           "why there is no rate"),
    ES_COL(context_head_row, rate_map, ES_FORMAT_REAL, "independent rate", "",
           "of independent tokens at the same n"),
    {0}};
static const es_table_spec heads_table = {
    "context_heads", head_columns,
    ES_VIEW("Contexts: heads", "domain layer head n design_effect effective_tokens "
                               "effective_tokens_ci.0 effective_tokens_ci.1 lost flag growth "
                               "rate_map_window rate_map"),
    ES_ROW(context_head_row), .keys = "domain layer head"};

/* One head at one n. */
typedef struct window_row {
    const char *domain;
    int64_t layer, head, n;
    es_measured window_error, independent_error, design_effect;
    double design_effect_low, design_effect_high;
    double effective_tokens, effective_tokens_low, effective_tokens_high;
    es_measured design_effect_mean, design_effect_cov;
    double lost;
    const char *flag;
} window_row;

static const es_column window_columns[] = {
    ES_COL(window_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(window_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(window_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(window_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(window_row, window_error, ES_FORMAT_REAL, "window error", "",
           "map error of windows, root mean square over replicates"),
    ES_COL(window_row, independent_error, ES_FORMAT_REAL, "independent", "",
           "that of independent tokens"),
    ES_COL(window_row, design_effect, ES_FORMAT_REAL, "design effect", "",
           "ratio of their squares"),
    ES_COL_KEY(window_row, design_effect_low, "design_effect_ci.0", ES_FORMAT_SHORT, "design from",
               "",
               "95 % interval: Student's t on the logarithm, windows that overlap counted once"),
    ES_COL_KEY(window_row, design_effect_high, "design_effect_ci.1", ES_FORMAT_SHORT, "design to",
               ""),
    ES_COL(window_row, effective_tokens, ES_FORMAT_SHORT, "worth", "tokens",
           "independent tokens with the error of a window of n"),
    ES_COL_KEY(window_row, effective_tokens_low, "effective_tokens_ci.0", ES_FORMAT_SHORT,
               "worth from", "tokens", "95 % interval"),
    ES_COL_KEY(window_row, effective_tokens_high, "effective_tokens_ci.1", ES_FORMAT_SHORT,
               "worth to", "tokens"),
    ES_COL(window_row, design_effect_mean, ES_FORMAT_REAL, "of the mean", "",
           "design effect of the mean of outputs over queries"),
    ES_COL(window_row, design_effect_cov, ES_FORMAT_REAL, "of the covariance", "",
           "and of their covariance"),
    ES_COL(window_row, lost, ES_FORMAT_SHORT, "lost", "share",
           "of the mean square error of windows that is missing because they are part of the "
           "limit, at "
           "least: n over the pool's tokens, or by the difference between the pool's halves"),
    ES_COL(
        window_row, flag, ES_FORMAT_TEXT, "flag", "",
        "pool: more than a tenth is lost, take a larger pool or a smaller n. beyond: worth fewer "
        "tokens than the smallest n, or more than the largest, by a power law"),
    {0}};
static const es_table_spec windows_table = {
    "windows", window_columns,
    ES_VIEW("Contexts: windows against independent tokens",
            "domain layer head n window_error independent_error design_effect design_effect_ci.0 "
            "design_effect_ci.1 effective_tokens lost flag"),
    ES_ROW(window_row), .keys = "domain layer head n"};

/* ---- squares and their ratio ---- */

/* State that the functions that fill rows share. */
typedef struct summary_ctx {
    es_job *job;
    const probe_params *p;
    const probe_state *s;
    const probe_head_row *known; /* (places, heads) */
    es_table *contexts, *heads, *windows;
    int64_t place, head, tokens;
    double *scratch;    /* (replicates) squares of one point */
    double *total;      /* (2, heads of all layers) sums of squares: of draws, of windows */
    double *log_n;      /* (sizes) */
    double *log_square; /* (sizes) of independent draws */
    es_series series;   /* map errors of windows */
} summary_ctx;

/* Squared errors: their mean over replicates, and over how many independent ones. */
typedef struct square {
    es_measured mean;
    double count;
} square;

/* Number of independent windows: those that fit into the pool without sharing tokens. */
static double apart_of(const summary_ctx *m, int64_t i)
{
    return fmin((double)m->p->replicates, (double)m->tokens / (double)m->s->spec.sizes[i]);
}

/* Returns one error of a head in replicate r at size i. */
static double error_at(const summary_ctx *m, int stage, int64_t r, int64_t i, int which)
{
    return probe_error(probe_draw_at(m->job, stage, m->place, r, m->head, i), which);
}

/* Returns the mean square of an error over replicates. `count` is the number of independent ones:
 * windows overlap, so their standard error is larger than that of as many draws. */
static square square_of(const summary_ctx *m, int stage, int64_t i, int which, double count)
{
    for (int64_t r = 0; r < m->p->replicates; r++)
        m->scratch[r] = pow(error_at(m, stage, r, i, which), 2.0);
    es_measured mean = es_average_column(m->scratch, m->p->replicates, 1);
    mean.se *= sqrt((double)m->p->replicates / count);
    return (square){mean, count};
}

/* Returns the mean square error of windows of the text. */
static square square_of_windows(const summary_ctx *m, int64_t i, int which)
{
    return square_of(m, m->s->window_stage, i, which, apart_of(m, i));
}

/* Returns the mean square error of independent draws. */
static square square_of_draws(const summary_ctx *m, int64_t i, int which)
{
    return square_of(m, PROBE_DRAW, i, which, (double)m->p->replicates);
}

/* Returns the design effect: mean square error of windows over that of draws, with its error. */
static es_mean_ratio design_effect(square windows, square draws)
{
    return es_ratio_of_means(windows.mean, windows.count, draws.mean, draws.count);
}

/* ---- effective tokens ---- */

/* Returns how many independent tokens have this mean square error, at least one: interpolated on
 * the measured curve, linearly in logarithms, and extrapolated with the slope of all points. */
static double tokens_worth(const summary_ctx *m, double mean_square, bool *beyond)
{
    const int64_t last = m->s->spec.n_sizes - 1;
    const double *x = m->log_n, *y = m->log_square, target = log(mean_square);
    *beyond = !(target <= y[0] && target >= y[last]);
    for (int64_t i = last; i > 0; i--)
        if (target <= y[i - 1] && target >= y[i])
            return exp(x[i] + (target - y[i]) * (x[i - 1] - x[i]) / (y[i - 1] - y[i]));
    const double slope = es_measured_slope(x, y, last + 1).value;
    const int64_t from = target > y[0] ? 0 : last;
    const double tokens = exp(x[from] + (target - y[from]) / slope);
    /* ten times beyond what was measured no power law is known to hold */
    return slope < 0.0 && tokens < 10.0 * exp(x[last]) ? fmax(1.0, tokens) : (double)NAN;
}

/* ---- windows ---- */

/* Share of the mean square error of a window that is missing because the window is part of the
 * limit (THEORY 9): n/N of the pool, or own^2 of the pool's own error, from its halves. A lower
 * bound: far tokens are alike, too. */
static double lost_at(const summary_ctx *m, int64_t i, double mean_square)
{
    const double own = m->known[m->place * m->s->heads + m->head].map_error_limit;
    const double share = (double)m->s->spec.sizes[i] / (double)m->tokens;
    return fmax(share, own * own / (own * own + mean_square));
}

/* Returns the root of a mean square with its error, d sqrt(x) = dx / (2 sqrt(x)). */
static es_measured root_of(es_measured mean)
{
    const double root = sqrt(mean.value);
    return (es_measured){root, mean.se / (2.0 * root)};
}

/* Design effect of another error: that of the mean or of the covariance. */
static es_measured effect_of(const summary_ctx *m, int64_t i, int which)
{
    const es_mean_ratio d =
        design_effect(square_of_windows(m, i, which), square_of_draws(m, i, which));
    return (es_measured){d.value, d.se};
}

/* Fills one head at one n: both errors, their ratio of squares, and what it is worth. */
static void fill_window(const summary_ctx *m, int64_t i, window_row *r)
{
    const square w = square_of_windows(m, i, PROBE_MAP), d = square_of_draws(m, i, PROBE_MAP);
    const es_mean_ratio effect = design_effect(w, d);
    bool beyond, other;
    r->domain = es_pools_domain(&m->s->pools, m->place / m->s->layers, m->windows);
    r->layer = m->place % m->s->layers;
    r->head = m->head;
    r->n = m->s->spec.sizes[i];
    r->lost = lost_at(m, i, w.mean.value);
    r->window_error = root_of(w.mean);
    r->independent_error = root_of(d.mean);
    r->design_effect = (es_measured){effect.value, effect.se};
    r->design_effect_low = effect.low;
    r->design_effect_high = effect.high;
    r->effective_tokens = tokens_worth(m, w.mean.value, &beyond);
    /* the interval of the design effect is that of the mean square error */
    r->effective_tokens_low = tokens_worth(m, d.mean.value * effect.high, &other);
    r->effective_tokens_high = tokens_worth(m, d.mean.value * effect.low, &other);
    r->design_effect_mean = effect_of(m, i, PROBE_MEAN);
    r->design_effect_cov = effect_of(m, i, PROBE_COV);
    r->flag = r->lost > 0.1 ? "pool" : beyond ? "beyond" : "";
}

/* ---- heads ---- */

/* Map errors of windows or draws at the points that a rate is fitted to; the largest of them.
 * `points` (sizes) are the head's rows of windows. */
static int64_t fill_series(summary_ctx *m, int stage, const window_row *points)
{
    es_series *s = &m->series;
    int64_t largest = 0;
    for (int64_t i = 0; i < s->points; i++) {
        s->at[i] = (double)m->s->spec.sizes[i];
        s->flags[i] = points[i].lost > 0.1 ? ES_FIT_REFERENCE : 0;
        largest = s->flags[i] ? largest : i;
        for (int64_t r = 0; r < s->replicates; r++)
            s->errors[r * s->points + i] = error_at(m, stage, r, i, PROBE_MAP);
    }
    return largest;
}

/* The rate of windows, where overlapping ones count once at the largest n; and that of independent
 * draws at the same points. */
static es_status fill_rates(summary_ctx *m, const window_row *points, context_head_row *r,
                            es_error *err)
{
    es_series *s = &m->series;
    fill_series(m, PROBE_DRAW, points);
    ES_TRY(es_series_fit(s, err));
    const es_rate draws = s->rate;
    const double apart = apart_of(m, fill_series(m, m->s->window_stage, points));
    if (s->status == ES_OK)
        ES_TRY(es_series_fit(s, err));
    if (s->status != ES_OK) {
        r->rate_map_window_reason = es_table_format(m->heads, "%s", s->reason);
        return ES_OK;
    }
    const double rate = s->rate.mean.rate, se = s->rate.se * sqrt((double)s->replicates / apart);
    const double half = apart > 1.0 ? se * es_student_quantile(apart - 1.0, 0.025) : (double)NAN;
    r->rate_map_window = (es_measured){rate, se};
    r->rate_map_window_low = rate - half;
    r->rate_map_window_high = rate + half;
    r->rate_map = (es_measured){draws.mean.rate, draws.se};
    r->growth = (es_measured){2.0 * (draws.mean.rate - rate), 2.0 * hypot(draws.se, se)};
    return ES_OK;
}

/* Fills the row of a head, for the largest n at which little of the mean square is missing. */
static es_status sum_up_head(summary_ctx *m, es_error *err)
{
    const int64_t sizes = m->s->spec.n_sizes;
    for (int64_t i = 0; i < sizes; i++)
        m->log_square[i] = log(square_of_draws(m, i, PROBE_MAP).mean.value);
    for (int64_t i = 0; i < sizes; i++) {
        window_row *w = es_rows_add(m->windows, window_row);
        if (!w)
            return es_answer_status(m->job->answer, err);
        fill_window(m, i, w);
    }
    const window_row *points = es_rows(m->windows, window_row) + es_table_rows(m->windows) - sizes;
    int64_t best = sizes - 1;
    while (best > 0 && points[best].lost > 0.1)
        best--;
    context_head_row *r = es_rows_add(m->heads, context_head_row);
    if (!r)
        return es_answer_status(m->job->answer, err);
    r->domain = points[best].domain;
    r->layer = points[best].layer;
    r->head = m->head;
    r->n = points[best].n;
    r->design_effect = points[best].design_effect;
    r->effective_tokens = points[best].effective_tokens;
    r->effective_tokens_low = points[best].effective_tokens_low;
    r->effective_tokens_high = points[best].effective_tokens_high;
    r->lost = points[best].lost;
    r->flag = r->lost > 0.1 ? "pool" : "";
    return fill_rates(m, points, r, err);
}

/* ---- contexts ---- */

/* Sorts the finite values of a double of the row, at one n of a domain, into out; returns their
 * number. */
static int64_t sort_at(const summary_ctx *m, int64_t domain, int64_t i, size_t offset, double *out)
{
    const int64_t heads = m->s->layers * m->s->heads, sizes = m->s->spec.n_sizes;
    const window_row *rows = es_rows(m->windows, window_row);
    int64_t count = 0;
    for (int64_t h = 0; h < heads; h++) {
        memcpy(&out[count], (const char *)&rows[(domain * heads + h) * sizes + i] + offset,
               sizeof(double));
        count += isfinite(out[count]) ? 1 : 0;
    }
    es_sort_reals(out, count);
    return count;
}

/* Sums over replicates of squares at one n, for every head of a domain. */
static void add_totals(summary_ctx *m, int64_t domain, int64_t i)
{
    const int64_t heads = m->s->layers * m->s->heads;
    for (int64_t h = 0; h < 2 * heads; h++) {
        const int stage = h < heads ? PROBE_DRAW : m->s->window_stage;
        m->place = domain * m->s->layers + h % heads / m->s->heads;
        m->head = h % m->s->heads;
        m->total[h] = 0.0;
        for (int64_t r = 0; r < m->p->replicates; r++)
            m->total[h] += pow(error_at(m, stage, r, i, PROBE_MAP), 2.0);
    }
}

/* ln of the median design effect without replicate r of the draws, or of the windows. */
static double log_median_without(summary_ctx *m, int64_t domain, int64_t i, int stage, int64_t r,
                                 double *scratch)
{
    const int64_t heads = m->s->layers * m->s->heads;
    const double R = (double)m->p->replicates;
    for (int64_t h = 0; h < heads; h++) {
        m->place = domain * m->s->layers + h / m->s->heads;
        m->head = h % m->s->heads;
        const double left = pow(error_at(m, stage, r, i, PROBE_MAP), 2.0);
        const double draws = m->total[h], windows = m->total[heads + h];
        scratch[h] = stage == PROBE_DRAW ? windows / (draws - left) * (R - 1.0) / R
                                         : (windows - left) / draws * R / (R - 1.0);
    }
    es_sort_reals(scratch, heads);
    return log(es_median_of(scratch, heads));
}

/* Relative standard error of the median design effect, by the jackknife over replicates: all heads
 * see the same windows, so that their errors are not independent. Overlapping windows count once.
 */
static double median_se(summary_ctx *m, int64_t domain, int64_t i, double *scratch)
{
    const int stages[2] = {PROBE_DRAW, m->s->window_stage};
    const int64_t R = m->p->replicates;
    double variance = 0.0;
    add_totals(m, domain, i);
    for (int k = 0; k < 2; k++) {
        for (int64_t r = 0; r < R; r++)
            m->scratch[r] = log_median_without(m, domain, i, stages[k], r, scratch);
        const double se = es_jackknife(0.0, m->scratch, R).se;
        variance += se * se * (double)R / (k ? apart_of(m, i) : (double)R);
    }
    return sqrt(variance);
}

/* Sets the median over heads and the 10 % and 90 % quantiles; unset where no head has a number. */
static void fill_quantiles(const summary_ctx *m, int64_t domain, int64_t i, size_t offset,
                           double *scratch, double *const to[3])
{
    const int64_t count = sort_at(m, domain, i, offset, scratch);
    if (count == 0)
        return;
    *to[0] = es_median_of(scratch, count);
    *to[1] = scratch[(count - 1) / 10];
    *to[2] = scratch[9 * (count - 1) / 10];
}

#define WINDOW(member) offsetof(window_row, member)

/* Fills one n of a domain: quantiles over its heads. */
static void fill_context(summary_ctx *m, int64_t domain, int64_t i, double *scratch, context_row *r)
{
    const int64_t tokens = es_pool_about(m->s->pools.domains[domain].pool).tokens;
    m->tokens = tokens;
    r->domain = es_pools_domain(&m->s->pools, domain, m->contexts);
    r->n = m->s->spec.sizes[i];
    r->windows = tokens / r->n;
    fill_quantiles(
        m, domain, i, WINDOW(design_effect.value), scratch,
        (double *const[]){&r->design_effect.value, &r->design_effect_low, &r->design_effect_high});
    fill_quantiles(m, domain, i, WINDOW(effective_tokens), scratch,
                   (double *const[]){&r->effective_tokens, &r->effective_tokens_low,
                                     &r->effective_tokens_high});
    r->above = r->below = 0;
    int64_t count = sort_at(m, domain, i, WINDOW(design_effect_low), scratch);
    for (int64_t h = 0; h < count; h++)
        r->above += scratch[h] > 1.0;
    count = sort_at(m, domain, i, WINDOW(design_effect_high), scratch);
    for (int64_t h = 0; h < count; h++)
        r->below += scratch[h] < 1.0;
    count = sort_at(m, domain, i, WINDOW(design_effect.value), scratch);
    r->design_effect_most = count ? scratch[count - 1] : (double)NAN;
    const double se = median_se(m, domain, i, scratch);
    r->design_effect.se = count ? r->design_effect.value * se : (double)NAN;
    r->lost = es_median_of(scratch, sort_at(m, domain, i, WINDOW(lost), scratch));
}

/* ---- findings ---- */

/* Median over the heads of a domain of the growth of their design effect; NaN of none. */
static double median_growth(const summary_ctx *m, int64_t domain, double *scratch)
{
    const int64_t heads = m->s->layers * m->s->heads;
    const context_head_row *rows = es_rows(m->heads, context_head_row) + domain * heads;
    int64_t count = 0;
    for (int64_t h = 0; h < heads; h++) {
        scratch[count] = rows[h].growth.value;
        count += isfinite(scratch[count]) ? 1 : 0;
    }
    es_sort_reals(scratch, count);
    return es_median_of(scratch, count);
}

/* Adds the finding about the largest context that is a small part of the pool. */
static void report_domain(const summary_ctx *m, int64_t domain, double *scratch, es_answer *a)
{
    const context_row *first = es_rows(m->contexts, context_row) + domain * m->s->spec.n_sizes;
    const context_row *r = first + m->s->spec.n_sizes - 1;
    while (r > first && r->lost > 0.1)
        r--;
    char worth[ES_SAY_SIZE], effect[ES_SAY_SIZE], growth[ES_SAY_SIZE] = "";
    const double power = median_growth(m, domain, scratch);
    if (isfinite(power))
        snprintf(growth, sizeof growth, "; that ratio changes like n^%.2g", power);
    es_answer_add_finding(
        a,
        "A context of %lld tokens of this text%s%s is worth %s independent tokens to the median "
        "head: the mean square error of its windows is %s times that of independent tokens%s%s.",
        (long long)r->n, r->domain ? ", " : "", r->domain ? r->domain : "",
        es_say_size(rint(r->effective_tokens), worth),
        es_say_number(r->design_effect.value, r->design_effect.se, effect), growth,
        r->lost > 0.1 ? ", and is more against a larger pool" : "");
}

/* States how many windows there are and what part of their error is missing. */
static void report_windows(const summary_ctx *m, es_answer *a)
{
    const int64_t n = m->s->spec.sizes[m->s->spec.n_sizes - 1], R = m->p->replicates;
    const int64_t tokens = m->s->pools.cost.tokens;
    es_answer_add_finding(
        a,
        "%lld windows of %lld tokens were measured%s. They are part of the pool that stands for "
        "the "
        "limit, so their mean square error is too small by at least %.2g %%.",
        (long long)R, (long long)n,
        R * n > tokens ? "; they overlap, but standard errors treat them as independent" : "",
        100.0 * (double)n / (double)tokens);
}

/* ---- all together ---- */

/* Allocates what one head needs and computes ln n of the sizes. */
static es_status prepare(summary_ctx *m, es_error *err)
{
    const int64_t sizes = m->s->spec.n_sizes, R = m->p->replicates;
    ES_TRY(ES_JOB_NEW(m->job, m->scratch, R > sizes ? R : sizes, err));
    ES_TRY(ES_JOB_NEW_2D(m->job, m->log_n, 2, sizes, err));
    m->log_square = m->log_n + sizes;
    ES_TRY(ES_JOB_NEW_2D(m->job, m->total, 2, m->s->layers * m->s->heads, err));
    for (int64_t i = 0; i < sizes; i++)
        m->log_n[i] = log((double)m->s->spec.sizes[i]);
    return es_series_new(&m->job->arena, R, sizes, &m->series, err);
}

es_status probe_put_contexts(es_job *job, const es_table *heads, es_answer *answer, es_error *err)
{
    summary_ctx m = {
        .job = job, .p = job->params, .s = job->state, .known = es_rows(heads, probe_head_row)};
    const int64_t domains = m.s->pools.n_domains, all = m.s->layers * m.s->heads;
    double *scratch;
    m.contexts = es_answer_table(answer, &contexts_table);
    m.heads = es_answer_table(answer, &heads_table);
    m.windows = es_answer_table(answer, &windows_table);
    ES_TRY(prepare(&m, err));
    ES_TRY(ES_JOB_NEW(job, scratch, all, err));
    for (m.place = 0; m.place < domains * m.s->layers; m.place++) {
        m.tokens = es_pool_about(m.s->pools.domains[m.place / m.s->layers].pool).tokens;
        for (m.head = 0; m.head < m.s->heads; m.head++)
            ES_TRY(sum_up_head(&m, err));
    }
    for (int64_t d = 0; d < domains; d++)
        for (int64_t i = 0; i < m.s->spec.n_sizes; i++) {
            context_row *r = es_rows_add(m.contexts, context_row);
            if (!r)
                return es_answer_status(answer, err);
            fill_context(&m, d, i, scratch, r);
        }
    for (int64_t d = 0; d < domains; d++)
        report_domain(&m, d, scratch, answer);
    report_windows(&m, answer);
    return ES_OK;
}
