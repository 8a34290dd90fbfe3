/* context.c : windows of the text beside tokens drawn from it: what the order of a text costs
 * a head, as a design effect, and how many independent tokens a context is worth. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"
#include "stats/average.h"
#include "stats/multiple.h"
#include "stats/special.h"

/* ---- columns ---- */

static const es_column context_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"n", "n", "tokens", ES_FORMAT_COUNT, "of a context: consecutive tokens of the text"},
    {"windows", "apart", "", ES_FORMAT_COUNT, "windows of n tokens that the pool has side by side"},
    {"design_effect", "design effect", "", ES_FORMAT_REAL,
     "mean square error of windows over that of n independent tokens, median over heads; its error "
     "by the jackknife over windows and draws, for all heads see the same windows",
     .error = "design_effect_se"},
    {"design_effect_low", "10 %", "", ES_FORMAT_SHORT, "of heads have less than that"},
    {"design_effect_high", "90 %", "", ES_FORMAT_SHORT, "of heads have less than that"},
    {"design_effect_most", "most", "", ES_FORMAT_SHORT, "over heads"},
    {"above", "above 1", "heads", ES_FORMAT_COUNT, "whose 95 % interval is above 1"},
    {"below", "below 1", "heads", ES_FORMAT_COUNT, "whose 95 % interval is below 1"},
    {"effective_tokens", "worth", "tokens", ES_FORMAT_SHORT,
     "independent tokens with the error of a window of n, median over heads"},
    {"effective_tokens_low", "10 %", "tokens", ES_FORMAT_SHORT, "of heads have less than that"},
    {"effective_tokens_high", "90 %", "tokens", ES_FORMAT_SHORT, "of heads have less than that"},
    {"lost", "lost", "share", ES_FORMAT_SHORT,
     "of the mean square error that is missing because a window is part of the limit, median over "
     "heads: at least n over the pool's tokens; the design effect is low by as much"},
    {0}};
static const es_table_spec contexts_table = {
    "contexts", context_columns, ES_VIEW("Contexts: what the order of the text costs, all heads"),
    .keys = "domain n"};

static const es_column head_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"n", "n", "tokens", ES_FORMAT_COUNT,
     "the largest without the flag pool; the smallest, where all have it"},
    {"design_effect", "design effect", "", ES_FORMAT_REAL, "at this n",
     .error = "design_effect_se"},
    {"effective_tokens", "worth", "tokens", ES_FORMAT_SHORT,
     "independent tokens with the error of a window of n"},
    {"effective_tokens_ci.0", "worth from", "tokens", ES_FORMAT_SHORT, "95 % interval"},
    {"effective_tokens_ci.1", "worth to", "tokens", ES_FORMAT_SHORT},
    {"lost", "lost", "share", ES_FORMAT_SHORT,
     "of the mean square error of windows that is missing because they are part of the limit, at "
     "least"},
    {"flag", "flag", "", ES_FORMAT_TEXT,
     "pool: more than a tenth is lost at every n: the design effect is larger and a context worth "
     "less than it says; take a larger pool"},
    {"growth", "growth", "", ES_FORMAT_REAL,
     "the design effect grows like n to this power: twice the difference of the rates",
     .error = "growth_se"},
    {"rate_map_window", "window rate", "", ES_FORMAT_REAL,
     "map error of windows ~ n^-rate, points with the flag pool left out",
     .error = "rate_map_window_se"},
    {"rate_map_window_ci.0", "window rate from", "", ES_FORMAT_REAL,
     "95 % interval, windows that overlap counted once"},
    {"rate_map_window_ci.1", "window rate to", "", ES_FORMAT_REAL},
    {"rate_map_window_reason", "window rate reason", "", ES_FORMAT_TEXT, "why there is no rate"},
    {"rate_map", "independent rate", "", ES_FORMAT_REAL, "of independent tokens at the same n",
     .error = "rate_map_se"},
    {0}};
static const es_table_spec heads_table = {
    "context_heads", head_columns,
    ES_VIEW("Contexts: heads", "domain layer head n design_effect effective_tokens "
                               "effective_tokens_ci.0 effective_tokens_ci.1 lost flag growth "
                               "rate_map_window rate_map"),
    .keys = "domain layer head"};

static const es_column window_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"window_error", "window error", "", ES_FORMAT_REAL,
     "map error of windows, root mean square over replicates", .error = "window_error_se"},
    {"independent_error", "independent", "", ES_FORMAT_REAL, "that of independent tokens",
     .error = "independent_error_se"},
    {"design_effect", "design effect", "", ES_FORMAT_REAL, "ratio of their squares",
     .error = "design_effect_se"},
    {"design_effect_ci.0", "design from", "", ES_FORMAT_SHORT,
     "95 % interval: Student's t on the logarithm, windows that overlap counted once"},
    {"design_effect_ci.1", "design to", "", ES_FORMAT_SHORT},
    {"effective_tokens", "worth", "tokens", ES_FORMAT_SHORT,
     "independent tokens with the error of a window of n"},
    {"effective_tokens_ci.0", "worth from", "tokens", ES_FORMAT_SHORT, "95 % interval"},
    {"effective_tokens_ci.1", "worth to", "tokens", ES_FORMAT_SHORT},
    {"design_effect_mean", "of the mean", "", ES_FORMAT_REAL,
     "design effect of the mean of outputs over queries", .error = "design_effect_mean_se"},
    {"design_effect_cov", "of the covariance", "", ES_FORMAT_REAL, "and of their covariance",
     .error = "design_effect_cov_se"},
    {"lost", "lost", "share", ES_FORMAT_SHORT,
     "of the mean square error of windows that is missing because they are part of the limit, at "
     "least: n over the pool's tokens, or by the difference between the pool's halves"},
    {"flag", "flag", "", ES_FORMAT_TEXT,
     "pool: more than a tenth is lost, take a larger pool or a smaller n. beyond: worth fewer "
     "tokens than the smallest n, or more than the largest, by a power law"},
    {0}};
static const es_table_spec windows_table = {
    "windows", window_columns,
    ES_VIEW("Contexts: windows against independent tokens",
            "domain layer head n window_error independent_error design_effect design_effect_ci.0 "
            "design_effect_ci.1 effective_tokens lost flag"),
    .keys = "domain layer head n"};

/* ---- squares and their ratio ---- */

typedef struct summary_ctx {
    es_job *job;
    const probe_params *p;
    const probe_state *s;
    const es_table *known; /* of heads: rate_map, map_error_limit */
    es_table *contexts, *heads, *windows;
    int64_t place, head, tokens;
    double *room;       /* (replicates) squares of one point */
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

static int64_t number_of(const summary_ctx *m) { return m->place * m->s->heads + m->head; }

/* Windows that do not fit into the pool side by side share tokens, and so much of their scatter:
 * what counts is how many of them would. */
static double apart_of(const summary_ctx *m, int64_t i)
{
    return fmin((double)m->p->replicates, (double)m->tokens / (double)m->s->spec.sizes[i]);
}

static double error_at(const summary_ctx *m, int stage, int64_t r, int64_t i, int which)
{
    const double *cell = es_job_numbers(m->job, stage, m->place * m->p->replicates + r);
    return cell[(m->head * m->s->spec.n_sizes + i) * PROBE_COLUMNS + which];
}

static square square_of(const summary_ctx *m, int stage, int64_t i, int which, double count)
{
    for (int64_t r = 0; r < m->p->replicates; r++)
        m->room[r] = pow(error_at(m, stage, r, i, which), 2.0);
    es_measured mean = es_average_column(m->room, m->p->replicates, 1);
    mean.se *= sqrt((double)m->p->replicates / count);
    return (square){mean, count};
}

static square square_of_windows(const summary_ctx *m, int64_t i, int which)
{
    return square_of(m, m->s->window_stage, i, which, apart_of(m, i));
}

static square square_of_draws(const summary_ctx *m, int64_t i, int which)
{
    return square_of(m, PROBE_DRAW, i, which, (double)m->p->replicates);
}

static es_mean_ratio design_effect(square windows, square draws)
{
    return es_ratio_of_means(windows.mean, windows.count, draws.mean, draws.count);
}

/* ---- effective tokens ---- */

/* How many independent tokens have this mean square error: on the curve that was measured, straight
 * in logarithms between its points, and beyond them with the slope of all; one at least. */
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

/* ---- one head ---- */

/* A share of the error of a window that its own part of the limit hides. A window of n is n/N of
 * the pool; and the square of the pool's own error, from its halves, is what every mean square
 * error against the pool is short of (THEORY 9). Lower bounds, where far tokens are alike, too. */
static double lost_at(const summary_ctx *m, int64_t i, double mean_square)
{
    const double own = es_table_get(m->known, number_of(m), "map_error_limit");
    const double share = (double)m->s->spec.sizes[i] / (double)m->tokens;
    return fmax(share, own * own / (own * own + mean_square));
}

static void put_others(const summary_ctx *m, int64_t row, int64_t i)
{
    static const char *const keys[PROBE_MAP] = {"design_effect_mean", "design_effect_cov"};
    for (int which = 0; which < PROBE_MAP; which++) {
        const es_mean_ratio d =
            design_effect(square_of_windows(m, i, which), square_of_draws(m, i, which));
        es_put_under(m->windows, row, keys[which], {"", d.value}, {"_se", d.se});
    }
}

/* The root of a mean square, and its error through d sqrt(x) = dx / (2 sqrt(x)). */
static void put_root(const summary_ctx *m, int64_t row, const char *key, es_measured mean)
{
    const double root = sqrt(mean.value);
    es_put_under(m->windows, row, key, {"", root}, {"_se", mean.se / (2.0 * root)});
}

static void put_point(const summary_ctx *m, int64_t i)
{
    const int64_t row = es_table_row(m->windows);
    const square w = square_of_windows(m, i, PROBE_MAP), d = square_of_draws(m, i, PROBE_MAP);
    const es_mean_ratio effect = design_effect(w, d);
    const double lost = lost_at(m, i, w.mean.value);
    bool beyond, other;
    const double worth = tokens_worth(m, w.mean.value, &beyond);
    es_pools_name(&m->s->pools, m->place / m->s->layers, m->windows, row);
    es_put(m->windows, row, {"layer", (double)(m->place % m->s->layers)}, {"head", (double)m->head},
           {"n", (double)m->s->spec.sizes[i]}, {"lost", lost});
    put_root(m, row, "window_error", w.mean);
    put_root(m, row, "independent_error", d.mean);
    es_put_under(m->windows, row, "design_effect", {"", effect.value}, {"_se", effect.se},
                 {"_ci.0", effect.low}, {"_ci.1", effect.high});
    /* as far as the design effect may be off, so may the mean square error of independent tokens */
    es_put_under(m->windows, row, "effective_tokens", {"", worth},
                 {"_ci.0", tokens_worth(m, d.mean.value * effect.high, &other)},
                 {"_ci.1", tokens_worth(m, d.mean.value * effect.low, &other)});
    put_others(m, row, i);
    es_table_text(m->windows, row, "flag", lost > 0.1 ? "pool" : beyond ? "beyond" : "");
}

/* Map errors of windows or draws at the points that a rate is fitted to; the largest of them. */
static int64_t fill_series(summary_ctx *m, int stage)
{
    es_series *s = &m->series;
    const int64_t from = es_table_rows(m->windows) - s->points;
    int64_t largest = 0;
    for (int64_t i = 0; i < s->points; i++) {
        s->at[i] = (double)m->s->spec.sizes[i];
        s->flags[i] = es_table_get(m->windows, from + i, "lost") > 0.1 ? ES_FIT_REFERENCE : 0;
        largest = s->flags[i] ? largest : i;
        for (int64_t r = 0; r < s->replicates; r++)
            s->errors[r * s->points + i] = error_at(m, stage, r, i, PROBE_MAP);
    }
    return largest;
}

/* The rate of windows, those that overlap counted once at the largest n; and that of independent
 * draws at the same points. */
static es_status put_rates(summary_ctx *m, int64_t row, es_error *err)
{
    es_series *s = &m->series;
    fill_series(m, PROBE_DRAW);
    ES_TRY(es_series_fit(s, err));
    const es_rate draws = s->rate;
    const double apart = apart_of(m, fill_series(m, m->s->window_stage));
    if (s->status == ES_OK)
        ES_TRY(es_series_fit(s, err));
    if (s->status != ES_OK) {
        es_table_text(m->heads, row, "rate_map_window_reason", s->reason);
        return ES_OK;
    }
    const double rate = s->rate.mean.rate, se = s->rate.se * sqrt((double)s->replicates / apart);
    const double half = apart > 1.0 ? se * es_student_quantile(apart - 1.0, 0.025) : (double)NAN;
    es_put_under(m->heads, row, "rate_map_window", {"", rate}, {"_se", se}, {"_ci.0", rate - half},
                 {"_ci.1", rate + half});
    es_put(m->heads, row, {"rate_map", draws.mean.rate}, {"rate_map_se", draws.se},
           {"growth", 2.0 * (draws.mean.rate - rate)}, {"growth_se", 2.0 * hypot(draws.se, se)});
    return ES_OK;
}

static es_status sum_up_head(summary_ctx *m, es_error *err)
{
    static const char *const keys[] = {"n",
                                       "design_effect",
                                       "design_effect_se",
                                       "effective_tokens",
                                       "effective_tokens_ci.0",
                                       "effective_tokens_ci.1",
                                       "lost"};
    const int64_t sizes = m->s->spec.n_sizes, from = es_table_rows(m->windows);
    for (int64_t i = 0; i < sizes; i++)
        m->log_square[i] = log(square_of_draws(m, i, PROBE_MAP).mean.value);
    for (int64_t i = 0; i < sizes; i++)
        put_point(m, i);
    int64_t best = sizes - 1;
    while (best > 0 && es_table_get(m->windows, from + best, "lost") > 0.1)
        best--;
    const int64_t row = es_table_row(m->heads);
    es_pools_name(&m->s->pools, m->place / m->s->layers, m->heads, row);
    es_put(m->heads, row, {"layer", (double)(m->place % m->s->layers)}, {"head", (double)m->head});
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
        es_table_real(m->heads, row, keys[k], es_table_get(m->windows, from + best, keys[k]));
    es_table_text(m->heads, row, "flag",
                  es_table_get(m->windows, from + best, "lost") > 0.1 ? "pool" : "");
    return put_rates(m, row, err);
}

/* ---- all heads of a domain ---- */

/* The finite numbers of a column at one n of a domain, in order; how many. */
static int64_t sorted_at(const summary_ctx *m, int64_t domain, int64_t i, const char *key,
                         double *out)
{
    const int64_t heads = m->s->layers * m->s->heads, sizes = m->s->spec.n_sizes;
    int64_t count = 0;
    for (int64_t h = 0; h < heads; h++) {
        out[count] = es_table_get(m->windows, (domain * heads + h) * sizes + i, key);
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
                                 double *room)
{
    const int64_t heads = m->s->layers * m->s->heads;
    const double R = (double)m->p->replicates;
    for (int64_t h = 0; h < heads; h++) {
        m->place = domain * m->s->layers + h / m->s->heads;
        m->head = h % m->s->heads;
        const double left = pow(error_at(m, stage, r, i, PROBE_MAP), 2.0);
        const double draws = m->total[h], windows = m->total[heads + h];
        room[h] = stage == PROBE_DRAW ? windows / (draws - left) * (R - 1.0) / R
                                      : (windows - left) / draws * R / (R - 1.0);
    }
    es_sort_reals(room, heads);
    return log(es_median_of(room, heads));
}

/* All heads see the same windows and err together, so that a median over heads is hardly better
 * known than one of them. The jackknife over replicates has that in it; windows that overlap count
 * once. Relative. */
static double median_se(summary_ctx *m, int64_t domain, int64_t i, double *room)
{
    const int stages[2] = {PROBE_DRAW, m->s->window_stage};
    const int64_t R = m->p->replicates;
    double variance = 0.0;
    add_totals(m, domain, i);
    for (int k = 0; k < 2; k++) {
        for (int64_t r = 0; r < R; r++)
            m->room[r] = log_median_without(m, domain, i, stages[k], r, room);
        const double se = es_jackknife(0.0, m->room, R).se;
        variance += se * se * (double)R / (k ? apart_of(m, i) : (double)R);
    }
    return sqrt(variance);
}

static void put_quantiles(const summary_ctx *m, int64_t domain, int64_t i, const char *key,
                          double *room)
{
    const int64_t row = domain * m->s->spec.n_sizes + i;
    const int64_t count = sorted_at(m, domain, i, key, room);
    if (count > 0)
        es_put_under(m->contexts, row, key, {"", es_median_of(room, count)},
                     {"_low", room[(count - 1) / 10]}, {"_high", room[9 * (count - 1) / 10]});
}

static void put_context(summary_ctx *m, int64_t domain, int64_t i, double *room)
{
    const int64_t row = es_table_row(m->contexts), n = m->s->spec.sizes[i];
    const int64_t tokens = es_pool_about(m->s->pools.domains[domain].pool).tokens;
    int64_t above = 0, below = 0;
    m->tokens = tokens;
    es_pools_name(&m->s->pools, domain, m->contexts, row);
    put_quantiles(m, domain, i, "design_effect", room);
    put_quantiles(m, domain, i, "effective_tokens", room);
    int64_t count = sorted_at(m, domain, i, "design_effect_ci.0", room);
    for (int64_t h = 0; h < count; h++)
        above += room[h] > 1.0;
    count = sorted_at(m, domain, i, "design_effect_ci.1", room);
    for (int64_t h = 0; h < count; h++)
        below += room[h] < 1.0;
    count = sorted_at(m, domain, i, "design_effect", room);
    const double most = count ? room[count - 1] : (double)NAN;
    count = sorted_at(m, domain, i, "lost", room);
    es_put(m->contexts, row, {"n", (double)n}, {"windows", (double)(tokens / n)},
           {"design_effect_most", most}, {"above", (double)above}, {"below", (double)below},
           {"lost", es_median_of(room, count)},
           {"design_effect_se",
            es_table_get(m->contexts, row, "design_effect") * median_se(m, domain, i, room)});
}

/* ---- findings ---- */

static double median_growth(const summary_ctx *m, int64_t domain, double *room)
{
    const int64_t heads = m->s->layers * m->s->heads;
    int64_t count = 0;
    for (int64_t h = 0; h < heads; h++) {
        room[count] = es_table_get(m->heads, domain * heads + h, "growth");
        count += isfinite(room[count]) ? 1 : 0;
    }
    es_sort_reals(room, count);
    return es_median_of(room, count);
}

/* About the largest context that is a small part of the pool. */
static void tell_domain(const summary_ctx *m, int64_t domain, double *room, es_answer *a)
{
    static const char *const keys[] = {"effective_tokens", "effective_tokens_low",
                                       "effective_tokens_high"};
    const int64_t first = domain * m->s->spec.n_sizes;
    int64_t row = first + m->s->spec.n_sizes - 1;
    while (row > first && es_table_get(m->contexts, row, "lost") > 0.1)
        row--;
    char worth[3][ES_SAY_ROOM], effect[ES_SAY_ROOM], growth[ES_SAY_ROOM] = "";
    for (int k = 0; k < 3; k++)
        es_say_size(rint(es_table_get(m->contexts, row, keys[k])), worth[k]);
    const double power = median_growth(m, domain, room);
    if (isfinite(power))
        snprintf(growth, sizeof growth, "; it grows like n^%.2g", power);
    const char *name = es_table_get_text(m->contexts, row, "domain");
    es_answer_add_finding(
        a,
        "A context of %.0f tokens of this text%s%s is worth %s independent tokens to the median "
        "head, %s to %s to four fifths of them: the mean square error of its windows is %s times "
        "(%.3g to %.3g) that of independent tokens%s%s.",
        es_table_get(m->contexts, row, "n"), *name ? ", " : "", name, worth[0], worth[1], worth[2],
        es_say_number(es_table_get(m->contexts, row, "design_effect"),
                      es_table_get(m->contexts, row, "design_effect_se"), effect),
        es_table_get(m->contexts, row, "design_effect_low"),
        es_table_get(m->contexts, row, "design_effect_high"), growth,
        es_table_get(m->contexts, row, "lost") > 0.1 ? ", and is more against a larger pool" : "");
}

static void tell_windows(const summary_ctx *m, es_answer *a)
{
    const int64_t n = m->s->spec.sizes[m->s->spec.n_sizes - 1], R = m->p->replicates;
    const int64_t tokens = m->s->pools.cost.tokens;
    es_answer_add_finding(
        a,
        "The pool of %lld tokens has %lld windows of %lld side by side; %lld were taken%s. "
        "They are part of the limit they are compared with, so that at n = %lld at least "
        "%.2g %% of their mean square error is missing.",
        (long long)tokens, (long long)(tokens / n), (long long)n, (long long)R,
        R * n > tokens ? ", which overlap: errors count them as that many" : "", (long long)n,
        100.0 * (double)n / (double)tokens);
}

/* ---- all together ---- */

static es_status prepare(summary_ctx *m, es_error *err)
{
    const int64_t sizes = m->s->spec.n_sizes, R = m->p->replicates;
    ES_TRY(ES_JOB_NEW(m->job, m->room, R > sizes ? R : sizes, err));
    ES_TRY(ES_JOB_NEW_2D(m->job, m->log_n, 2, sizes, err));
    m->log_square = m->log_n + sizes;
    ES_TRY(ES_JOB_NEW_2D(m->job, m->total, 2, m->s->layers * m->s->heads, err));
    for (int64_t i = 0; i < sizes; i++)
        m->log_n[i] = log((double)m->s->spec.sizes[i]);
    return es_series_new(&m->job->arena, R, sizes, &m->series, err);
}

es_status probe_put_contexts(es_job *job, const es_table *heads, es_answer *answer, es_error *err)
{
    summary_ctx m = {.job = job, .p = job->params, .s = job->state, .known = heads};
    const int64_t domains = m.s->pools.n_domains, all = m.s->layers * m.s->heads;
    double *room;
    m.contexts = es_answer_table(answer, &contexts_table);
    m.heads = es_answer_table(answer, &heads_table);
    m.windows = es_answer_table(answer, &windows_table);
    ES_TRY(prepare(&m, err));
    ES_TRY(ES_JOB_NEW(job, room, all, err));
    for (m.place = 0; m.place < domains * m.s->layers; m.place++) {
        m.tokens = es_pool_about(m.s->pools.domains[m.place / m.s->layers].pool).tokens;
        for (m.head = 0; m.head < m.s->heads; m.head++)
            ES_TRY(sum_up_head(&m, err));
    }
    for (int64_t d = 0; d < domains; d++)
        for (int64_t i = 0; i < m.s->spec.n_sizes; i++)
            put_context(&m, d, i, room);
    for (int64_t d = 0; d < domains; d++)
        tell_domain(&m, d, room, answer);
    tell_windows(&m, answer);
    return ES_OK;
}
