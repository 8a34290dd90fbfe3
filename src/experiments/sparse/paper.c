/* paper.c : `sparse --preset paper`: the BigBird experiments of Token Sample Complexity
 * (2512.10656), with the sizes and sets of keys of its public code.
 *
 * One set of keys serves all queries of a text: a window around its middle with random tokens from
 * outside it, or tokens drawn i.i.d. from it. Against full attention over the text: errors of the
 * mean and the covariance of the outputs of the chosen tokens over each other, and the mean square
 * error of the outputs of all tokens over the chosen keys; rates in the number of keys m. The
 * public code puts all heads of a layer side by side, here each has its rows; it has no mean square
 * error of i.i.d. tokens. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "stats/average.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/rate_columns.h"
#include "experiments/sparse/question.h"

enum { PAPER = 1, WINDOW = 0, IID, SCHEMES, POINTS = 12, RANDOM = 50 };
enum { MEAN, COV, MSE, ERRORS };
_Static_assert(sizeof(es_sparse_errors) == ERRORS * sizeof(double), "a row is its three errors");

static const char *const schemes[SCHEMES] = {"window+random", "iid"};
/* 12 geometric steps from 500 to 1500 and from 1000 to 3000, rounded down. */
static const int64_t half_widths[POINTS] = {500, 552,  610,  674,  745,  823,
                                            910, 1005, 1111, 1228, 1357, 1500};
static const int64_t iid_tokens[POINTS] = {1000, 1105, 1221, 1349, 1491, 1647,
                                           1820, 2011, 2223, 2456, 2714, 3000};

bool sparse_is_paper(const es_job *job)
{
    return ((const sparse_params *)job->params)->preset == PAPER;
}

/* ---- plans ---- */

static int64_t random_of(const es_job *job)
{
    return es_params_given(job->given, "random")
               ? ((const sparse_params *)job->params)->policy.random
               : RANDOM;
}

static es_status check(const es_job *job, es_error *err)
{
    static const char *const others[] = {
        "policy",           "keys",      "window",      "sinks",    "span", "correction",
        "with-replacement", "per-query", "simulations", "positions"};
    const sparse_state *s = job->state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (es_params_given(job->given, others[i]))
            return es_refuse(err, "sparse.options", "leave it out, or leave --preset paper out",
                             "--%s: the papers' protocol has its own", others[i]);
    if (((const sparse_params *)job->params)->causal)
        return es_refuse(err, "sparse.options", "leave it out",
                         "the papers' protocol is not causal");
    if (s->m != s->n)
        return es_refuse(err, "sparse.options", "a query for every key",
                         "the papers' protocol needs as many queries as keys");
    const int64_t most = 2 * half_widths[POINTS - 1] + 1 + random_of(job);
    if (s->n <= most)
        return es_refuse(err, "sparse.keys", "a context of 4096, or leave --preset paper out",
                         "the papers' protocol keeps up to %lld keys, and there are %lld",
                         (long long)most, (long long)s->n);
    return ES_OK;
}

static void add_plan(sparse_state *s, int scheme, int64_t at, int64_t random)
{
    es_policy_spec *spec = &s->specs[s->n_plans];
    sparse_plan *plan = &s->plans[s->n_plans++];
    es_policy_spec_init(spec, es_policy_find(scheme == IID ? "random" : "bigbird"));
    spec->random = scheme == IID ? iid_tokens[at] : random;
    spec->with_replacement = scheme == IID;
    if (scheme == WINDOW) {
        spec->window = half_widths[at];
        spec->sinks = 0;
        spec->correction = ES_CORRECTION_NONE;
    }
    *plan =
        (sparse_plan){.word = schemes[scheme],
                      .policy = scheme,
                      .keys = scheme == IID ? iid_tokens[at] : 2 * half_widths[at] + 1 + random};
}

es_status sparse_paper_plans(es_job *job, es_error *err)
{
    sparse_state *s = job->state;
    ES_TRY(check(job, err));
    ES_TRY(ES_JOB_NEW_2D(job, s->specs, SCHEMES, POINTS, err));
    ES_TRY(ES_JOB_NEW_2D(job, s->plans, SCHEMES, POINTS, err));
    for (int scheme = 0; scheme < SCHEMES; scheme++)
        for (int64_t at = 0; at < POINTS; at++)
            add_plan(s, scheme, at, random_of(job));
    s->n_words = SCHEMES;
    for (int64_t i = 0; i < s->n_plans; i++)
        ES_TRY(es_policy_spec_check(&s->specs[i], false, err));
    return ES_OK;
}

/* ---- the stage ---- */

/* A cell is one draw of every plan for a head over a context. */
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *err)
{
    double *out = record;
    const sparse_state *s = job->state;
    const int64_t unit = cell / s->p->replicates, context = unit % s->contexts;
    const es_sparse_spec spec = {s->specs, .n_plans = s->n_plans, .seed = job->seed, .exec = exec};
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
    double pairs = (double)s->n * (double)s->n;
    for (int64_t i = 0; i < s->n_plans; i++)
        pairs += (double)(s->plans[i].keys + s->queries) * (double)s->plans[i].keys;
    const es_stage stage = {
        "paper",
        .phase = "drawing keys",
        .noun = "draws",
        .cells = sparse_is_paper(job) ? s->n_places * s->contexts * s->p->replicates : 0,
        .rows = s->n_plans,
        .cols = ERRORS,
        .columns = columns,
        .one_thread_per_cell = true,
        .flops = sparse_head_flops(s) + 2.0 * pairs * (double)(s->d + s->dv),
        .run = run_replicate};
    return es_job_stage(job, &stage, err);
}

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"scheme", "scheme", "", ES_FORMAT_TEXT,
     "window+random: a window around the middle of the text and random tokens outside it; iid: "
     "tokens of the text drawn with replacement; either the same for all queries"},
    {"half_width", "half-width", "keys", ES_FORMAT_COUNT, "w of the window n/2 - w .. n/2 + w"},
    {"keys", "keys", "keys", ES_FORMAT_COUNT, "m: 2w + 1 and the random ones"},
    {"mean_error", "mean error", "", ES_FORMAT_REAL,
     "|m_S - m|: mean output of the kept tokens over each other, less that of all over all; mean "
     "over draws, standard error over contexts, or over the draws of one, which share its window",
     .error = "mean_error_se"},
    {"cov_error", "cov error", "", ES_FORMAT_REAL,
     "|C_S - C| of the outputs' covariances, Frobenius norm", .error = "cov_error_se"},
    {"mse", "mse", "", ES_FORMAT_REAL, "mean over the text's queries of |y_S - y|^2",
     .error = "mse_se"},
    {0}};
static const es_table_spec rows_table = {
    "paper_rows", row_columns,
    ES_VIEW("Protocol of Token Sample Complexity", .only_with_full = true),
    .keys = "layer head scheme keys"};

static const es_column rate_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"scheme", "scheme", "", ES_FORMAT_TEXT},
    ES_RATE_KEYS("rate_mean", "mean rate", "error of the outputs' mean ~ m^-rate"),
    ES_RATE_KEYS("rate_cov", "cov rate", "of their covariance"),
    ES_RATE_KEYS("rate_mse", "mse rate", "of their mean square error"),
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
    const int64_t each = s->contexts * s->p->replicates / R; /* draws that are one replicate */
    for (int64_t i = 0; i < POINTS; i++)
        series->at[i] = (double)s->plans[first + i].keys;
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < POINTS; i++) {
            double *mean = &series->errors[r * POINTS + i];
            *mean = 0.0;
            for (int64_t k = 0; k < each; k++)
                *mean += es_job_numbers(job, SPARSE_PAPER,
                                        (place * R + r) * each + k)[(first + i) * ERRORS + which] /
                         (double)each;
        }
    ES_TRY(es_series_fit(series, err));
    for (int64_t i = 0; i < POINTS; i++)
        es_put_under(rows, (place * SCHEMES + scheme) * POINTS + i, names[which][0],
                     {"", series->summary[i].mean}, {"_se", series->summary[i].se});
    es_put_rate(rates, place * SCHEMES + scheme, names[which][1], series);
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
        if (i >= 0 && scheme == WINDOW)
            es_table_count(t, row, "half_width", half_widths[i]);
    }
}

/* Writes "m^-0.97 ± 0.03" of one head, "m^-0.97 (0.84 to 1.2)" of several: the median and the
 * extremes of a rate of a scheme. */
static const char *say_rate(const es_table *rates, const char *key, int scheme, double *room,
                            char out[ES_SAY_ROOM])
{
    int64_t count = 0;
    char number[ES_SAY_ROOM], se[32];
    for (int64_t i = scheme; i < es_table_rows(rates); i += SCHEMES) {
        room[count] = es_table_get(rates, i, key);
        count += isfinite(room[count]);
    }
    snprintf(se, sizeof se, "%s_se", key);
    es_sort_reals(room, count);
    if (count == 0)
        snprintf(out, ES_SAY_ROOM, "no power of m");
    else if (es_table_rows(rates) == SCHEMES)
        snprintf(out, ES_SAY_ROOM, "m^-%.80s",
                 es_say_number(room[0], es_table_get(rates, scheme, se), number));
    else
        snprintf(out, ES_SAY_ROOM, "m^-%.3g (%.3g to %.3g)", es_median_of(room, count), room[0],
                 room[count - 1]);
    return out;
}

static void tell_rates(const es_job *job, const es_table *rates, double *room, es_answer *answer)
{
    const sparse_state *s = job->state;
    char mse[ES_SAY_ROOM], mean[ES_SAY_ROOM], cov[ES_SAY_ROOM];
    for (int k = 0; k < SCHEMES; k++) {
        say_rate(rates, "rate_mse", k, room, mse);
        say_rate(rates, "rate_mean", k, room, mean);
        say_rate(rates, "rate_cov", k, room, cov);
        if (k == IID)
            es_answer_add_finding(
                answer,
                "1000 to 3000 i.i.d. tokens: mean square error like %s, mean like %s, "
                "covariance like %s.",
                mse, mean, cov);
        else
            es_answer_add_finding(
                answer,
                "A window of half-width 500 to 1500 in the middle of %lld tokens, and "
                "%lld random ones: mean square error falls like %s, error of the mean "
                "like %s, of the covariance like %s.",
                (long long)s->n, (long long)random_of(job), mse, mean, cov);
    }
    es_answer_add_finding(
        answer, "All queries share these keys: those outside the window lose their "
                "neighbours. For a window around each query: --policy window or bigbird.");
}

es_status sparse_put_paper(es_job *job, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    es_series series;
    double *room;
    /* draws of one context share its window: contexts are replicates, if there are several */
    ES_TRY(es_series_new(&job->arena, s->contexts > 1 ? s->contexts : s->p->replicates, POINTS,
                         &series, err));
    ES_TRY(ES_JOB_NEW(job, room, s->n_places, err));
    es_table *rates = es_answer_table(answer, &rates_table);
    es_table *rows = es_answer_table(answer, &rows_table);
    for (int64_t i = 0; i < s->n_places; i++)
        for (int scheme = 0; scheme < SCHEMES; scheme++) {
            name_rows(s, i, scheme, rows, rates);
            for (int which = 0; which < ERRORS; which++)
                ES_TRY(sum_up(job, i, scheme, which, &series, rows, rates, err));
        }
    tell_rates(job, rates, room, answer);
    if (s->source == SPARSE_MODEL)
        es_pools_caution(&s->pools, answer);
    return es_answer_status(answer, err);
}
