/* sparse_paper.c : `sparse --preset paper`: BigBird's section of Token Sample Complexity.
 *
 * Attention of some tokens of a long context over i.i.d. subsamples of it, and over a window around
 * each and a few random keys, against attention over all of it: errors of the mean and the
 * covariance of the outputs, and their mean square error, with rates in the number of keys m. The
 * third scheme is the second with random keys corrected, which the papers do not have. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "stats/average.h"
#include "study/answer_kit.h"
#include "study/probe_study.h"
#include "study/sparse_study.h"

enum { PAPER = 1, IID = 0, WINDOW, CORRECTED, SCHEMES, POINTS = 5, RANDOM = 50 };
enum { MEAN, COV, MSE, ERRORS };
_Static_assert(sizeof(es_sparse_errors) == ERRORS * sizeof(double), "a row is its three errors");

static const char *const schemes[SCHEMES] = {"iid", "window+random", "window+random corrected"};
static const int64_t iid_keys[POINTS] = {1000, 1500, 2000, 2500, 3000};
static const int64_t windows[POINTS] = {500, 750, 1000, 1250, 1500};

bool sparse_is_paper(const es_job *job)
{
    return ((const sparse_params *)job->params)->preset == PAPER;
}

/* ---- plans ---- */

static es_status check(const es_job *job, es_error *err)
{
    static const char *const others[] = {
        "policy",           "keys",      "window",     "sinks", "span", "correction",
        "with-replacement", "per-query", "simulations"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (es_params_given(job->given, others[i]))
            return es_refuse(err, "sparse.options", "leave it out, or leave --preset paper out",
                             "--%s: the papers' protocol has its own", others[i]);
    if (((const sparse_params *)job->params)->causal)
        return es_refuse(err, "sparse.options", "leave it out",
                         "the papers' protocol is not causal");
    const int64_t n = ((const sparse_state *)job->state)->n, most = iid_keys[POINTS - 1];
    if (n <= most)
        return es_refuse(err, "sparse.keys", "a context of 4096, or leave --preset paper out",
                         "the papers' protocol keeps up to %lld keys, and there are %lld",
                         (long long)most, (long long)n);
    return ES_OK;
}

static void add_plan(sparse_state *s, int scheme, int64_t at, int64_t random)
{
    es_policy_spec *spec = &s->specs[s->n_plans];
    sparse_plan *plan = &s->plans[s->n_plans++];
    es_policy_spec_init(spec, es_policy_find(scheme == IID ? "random" : "bigbird"));
    spec->random = scheme == IID ? iid_keys[at] : random;
    spec->with_replacement = scheme == IID;
    if (scheme != IID) {
        spec->window = windows[at] / 2;
        spec->sinks = 0;
        spec->correction = scheme == CORRECTED ? ES_CORRECTION_INVERSE : ES_CORRECTION_NONE;
    }
    *plan =
        (sparse_plan){.word = schemes[scheme],
                      .policy = scheme,
                      .keys = scheme == IID ? iid_keys[at] : 2 * (windows[at] / 2) + 1 + random};
}

es_status sparse_paper_plans(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    const int64_t random = es_params_given(job->given, "random") ? p->policy.random : RANDOM;
    ES_TRY(check(job, err));
    ES_TRY(es_job_array(job, SCHEMES, POINTS, sizeof *s->specs, &s->specs, err));
    ES_TRY(es_job_array(job, SCHEMES, POINTS, sizeof *s->plans, &s->plans, err));
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (int64_t at = 0; at < POINTS; at++)
            add_plan(s, scheme, at, random);
    s->n_words = SCHEMES;
    for (int64_t i = 0; i < s->n_plans; i++)
        ES_TRY(es_policy_spec_check(&s->specs[i], false, err));
    return ES_OK;
}

/* ---- the stage ---- */

/* A cell is one draw of all plans for all queries of a head over a context. */
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, double *out,
                               es_error *err)
{
    const sparse_state *s = job->state;
    const int64_t unit = cell / s->p->replicates, context = unit % s->contexts;
    const es_sparse_spec spec = {s->specs, .n_plans = s->n_plans, .draws = 1, .seed = job->seed,
                                 .exec = exec};
    es_arena arena = {.budget = exec->budget};
    es_sparse_head head;
    es_status status = sparse_head_of(job, unit / s->contexts, context, &arena, &head, err);
    if (status == ES_OK)
        status = es_sparse_replicate(&spec, &head, s->which + context * s->queries, s->queries,
                                     cell, (es_sparse_errors *)(void *)out, err);
    es_arena_free(&arena);
    return status;
}

es_status sparse_add_paper(es_job *job, es_error *err)
{
    static const char *const columns[ERRORS] = {"mean_error", "cov_error", "mse"};
    const sparse_state *s = job->state;
    double keys = (double)s->n; /* plain loops: a fortieth of the speed of attention */
    for (int64_t i = 0; i < s->n_plans; i++)
        keys += (double)s->plans[i].keys;
    const es_stage stage = {
        "paper",
        .phase = "drawing keys",
        .noun = "draws",
        .cells = sparse_is_paper(job) ? s->n_places * s->contexts * s->p->replicates : 0,
        .rows = s->n_plans,
        .cols = ERRORS,
        .columns = columns,
        .alone = true,
        .flops = sparse_head_flops(s) + 160.0 * (double)s->queries * keys * (double)(s->d + s->dv),
        .run = run_replicate};
    return es_job_stage(job, &stage, err);
}

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"scheme", "scheme", "", ES_FORMAT_TEXT,
     "iid: keys of the context drawn with replacement, the same for all queries; window+random: "
     "the nearest keys and 50 others of each query; corrected: random keys over their probability"},
    {"keys", "keys", "keys", ES_FORMAT_COUNT, "m, of each query; fewer near an end of the context"},
    {"mean_error", "mean error", "", ES_FORMAT_REAL,
     "|m_S - m| of the outputs' means, mean over draws", .error = "mean_error_se"},
    {"cov_error", "cov error", "", ES_FORMAT_REAL, "|C_S - C| of their covariances, Frobenius norm",
     .error = "cov_error_se"},
    {"mse", "mse", "", ES_FORMAT_REAL, "mean over queries of |y_S - y|^2", .error = "mse_se"},
    {0}};
static const es_table_spec rows_table = {
    "paper_rows", row_columns, ES_VIEW("Protocol of Token Sample Complexity", .more = true),
    .keys = "layer head scheme keys"};

static const es_column rate_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"scheme", "scheme", "", ES_FORMAT_TEXT},
    PROBE_RATE_COLUMNS("rate_mean", "mean rate", "error of the outputs' mean ~ m^-rate"),
    PROBE_RATE_COLUMNS("rate_cov", "cov rate", "of their covariance"),
    PROBE_RATE_COLUMNS("rate_mse", "mse rate", "of their mean square error"),
    {0}};
static const es_table_spec rates_table = {"paper_rates", rate_columns,
                                          ES_VIEW("Protocol of Token Sample Complexity: rates in m",
                                                  "layer head scheme rate_mean rate_cov rate_mse"),
                                          .keys = "layer head scheme"};

/* ---- summary ---- */

static es_status sum_up(es_job *job, int64_t place, int scheme, int which, es_series *series,
                        es_table *rows, es_table *rates, es_error *err)
{
    static const char *const names[ERRORS][2] = {
        {"mean_error", "rate_mean"}, {"cov_error", "rate_cov"}, {"mse", "rate_mse"}};
    const sparse_state *s = job->state;
    const int64_t R = series->replicates, first = scheme * POINTS;
    for (int64_t i = 0; i < POINTS; i++)
        series->at[i] = (double)s->plans[first + i].keys;
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < POINTS; i++)
            series->errors[r * POINTS + i] =
                es_job_cell(job, SPARSE_PAPER, place * R + r)[(first + i) * ERRORS + which];
    ES_TRY(es_series_fit(series, err));
    for (int64_t i = 0; i < POINTS; i++)
        es_put_under(rows, (place * SCHEMES + scheme) * POINTS + i, names[which][0],
                     {"", series->summary[i].mean}, {"_se", series->summary[i].se});
    probe_put_rate(rates, place * SCHEMES + scheme, names[which][1], series);
    return ES_OK;
}

static void name_rows(const sparse_state *s, int64_t place, int scheme, es_table *rows,
                      es_table *rates)
{
    for (int64_t i = -1; i < POINTS; i++) {
        es_table *t = i < 0 ? rates : rows;
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "layer", s->places[place].layer);
        es_table_count(t, row, "head", s->places[place].head);
        es_table_text(t, row, "scheme", schemes[scheme]);
        if (i >= 0)
            es_table_count(t, row, "keys", s->plans[scheme * POINTS + i].keys);
    }
}

/* Median over heads of a column of a scheme's rows, `every` apart from row `first` on. */
static double median_at(const es_table *t, const char *key, int64_t first, int64_t every,
                        double *room)
{
    int64_t count = 0;
    for (int64_t i = first; i < es_table_rows(t); i += every) {
        room[count] = es_table_get(t, i, key);
        count += isfinite(room[count]);
    }
    es_sort_reals(room, count);
    return es_median_of(room, count);
}

static void tell_rates(const sparse_state *s, const es_table *rows, const es_table *rates,
                       double *room, es_answer *answer)
{
    char text[3 * 192] = "";
    for (int k = 0; k < SCHEMES; k++) {
        const size_t used = strlen(text);
        const double first = median_at(rows, "mse", k * POINTS, SCHEMES * POINTS, room);
        const double last = median_at(rows, "mse", k * POINTS + POINTS - 1, SCHEMES * POINTS, room);
        snprintf(text + used, sizeof text - used,
                 "%s %s: from %.3g to %.3g, like m^-%.3g (mean m^-%.3g, covariance m^-%.3g)",
                 k ? ";" : "", schemes[k], first, last,
                 median_at(rates, "rate_mse", k, SCHEMES, room),
                 median_at(rates, "rate_mean", k, SCHEMES, room),
                 median_at(rates, "rate_cov", k, SCHEMES, room));
    }
    es_answer_tell(answer,
                   "Mean square error against all %lld keys, median of %lld head%s, over 1000 to "
                   "3000 i.i.d. keys, and over windows of 500 to 1500 with random keys:%s.",
                   (long long)s->n, (long long)s->n_places, s->n_places == 1 ? "" : "s", text);
}

es_status sparse_put_paper(es_job *job, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    es_series series;
    double *room;
    ES_TRY(es_series_new(&job->arena, s->contexts * s->p->replicates, POINTS, &series, err));
    ES_TRY(es_job_array(job, s->n_places, 1, sizeof *room, &room, err));
    es_table *rates = es_answer_table(answer, &rates_table);
    es_table *rows = es_answer_table(answer, &rows_table);
    for (int64_t i = 0; i < s->n_places; i++)
        for (int scheme = 0; scheme < SCHEMES; scheme++) {
            name_rows(s, i, scheme, rows, rates);
            for (int which = 0; which < ERRORS; which++)
                ES_TRY(sum_up(job, i, scheme, which, &series, rows, rates, err));
        }
    tell_rates(s, rows, rates, room, answer);
    if (s->source == SPARSE_MODEL)
        es_pools_caution(&s->pools, answer);
    return es_answer_status(answer, err);
}
