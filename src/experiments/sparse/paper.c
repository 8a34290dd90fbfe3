/* SPDX-License-Identifier: Apache-2.0 */
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
#include "experiments/sparse/sparse.h"

enum { WINDOW, IID, SCHEMES };
enum { POINTS = 12, RANDOM = 50 };
enum { MEAN, COV, MSE, ERRORS };

static const char *const schemes[SCHEMES] = {"window+random", "iid"};
/* 12 geometric steps from 500 to 1500 and from 1000 to 3000, rounded down. */
static const int64_t half_widths[POINTS] = {500, 552,  610,  674,  745,  823,
                                            910, 1005, 1111, 1228, 1357, 1500};
static const int64_t iid_tokens[POINTS] = {1000, 1105, 1221, 1349, 1491, 1647,
                                           1820, 2011, 2223, 2456, 2714, 3000};

/* ---- plans ---- */

/* Returns the number of random keys: --random, or that of the paper. */
static int64_t random_of(const es_job *job)
{
    return es_params_given(job->given, "random")
               ? ((const sparse_params *)job->params)->policy.random
               : RANDOM;
}

/* Fails on options that the protocol fixes, and on too few keys. */
static es_status check(const es_job *job, es_error *err)
{
    static const char *const others[] = {
        "policy",           "keys",      "window",      "sinks",    "span", "correction",
        "with-replacement", "per-query", "simulations", "positions"};
    const sparse_state *s = job->state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (es_params_given(job->given, others[i]))
            return es_refuse(err, "sparse.options", "leave it out, or leave --preset paper out",
                             "--%s: --preset paper has its own", others[i]);
    if (((const sparse_params *)job->params)->causal)
        return es_refuse(err, "sparse.options", "leave it out", "--preset paper is not causal");
    if (s->m != s->n)
        return es_refuse(err, "sparse.options", "give one query per key",
                         "--preset paper needs as many queries as keys");
    const int64_t most = 2 * half_widths[POINTS - 1] + 1 + random_of(job);
    if (s->n <= most)
        return es_refuse(err, "sparse.keys", "use a context of 4096, or leave --preset paper out",
                         "--preset paper keeps up to %lld keys: there are %lld", (long long)most,
                         (long long)s->n);
    return ES_OK;
}

/* Adds a policy of the paper's figures: a scheme at one window or number of random tokens. Only
 * here draws are with replacement and windows have no correction, as in the paper. */
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

/* Makes the policies of all schemes and sizes and checks them. */
static es_status make_plans(es_job *job, es_error *err)
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

/* Computes a cell: one draw of every plan for a head over a context. */
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *err)
{
    const sparse_state *s = job->state;
    const int64_t unit = cell / s->p->replicates, context = unit % s->contexts;
    const es_sparse_spec spec = {s->specs, .n_plans = s->n_plans, .seed = job->seed, .exec = exec};
    es_arena arena = {.budget = exec->budget};
    es_sparse_head head;
    es_status status = sparse_head_of(job, unit / s->contexts, context, &arena, &head, err);
    if (status == ES_OK)
        status = es_sparse_replicate(&spec, &head, s->which + context * s->queries, s->queries,
                                     cell, record, err);
    es_arena_free(&arena);
    return status;
}

static const es_cell_field cell_fields[] = {ES_FIELD(es_sparse_errors, mean_error),
                                            ES_FIELD(es_sparse_errors, cov_error),
                                            ES_FIELD(es_sparse_errors, mse),
                                            {0}};

/* Adds the stage: a cell draws keys once for one head and context, for all policies. Its cost
 * counts pairs of query and key. */
static es_status add_stage(es_job *job, es_error *err)
{
    const sparse_state *s = job->state;
    double pairs = (double)s->n * (double)s->n;
    for (int64_t i = 0; i < s->n_plans; i++)
        pairs += (double)(s->plans[i].keys + s->queries) * (double)s->plans[i].keys;
    const es_stage stage = {"paper",
                            .phase = "drawing keys",
                            .noun = "draws",
                            .cells = s->n_places * s->contexts * s->p->replicates,
                            .rows = s->n_plans,
                            ES_RECORD(es_sparse_errors, cell_fields),
                            .one_thread_per_cell = true,
                            .flops =
                                sparse_head_flops(s, s->n) + 2.0 * pairs * (double)(s->d + s->dv),
                            .run = run_replicate};
    return es_job_stage(job, &stage, err);
}

/* Returns the memory that one draw needs beside its head, for the cost. */
static double more_bytes(const es_job *job)
{
    const sparse_state *s = job->state;
    return es_sparse_replicate_bytes(s->n, s->d, s->dv, s->queries);
}

/* ---- paper_rows ---- */

/* A row of the paper's table: errors of one scheme at one size. */
typedef struct paper_row {
    int64_t layer, head;
    const char *scheme;
    int64_t half_width, keys;
    es_measured mean_error, cov_error, mse;
} paper_row;

static const es_column row_columns[] = {
    ES_COL(paper_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(paper_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(paper_row, scheme, ES_FORMAT_TEXT, "scheme", "",
           "window+random: a window around the middle of the text and random tokens outside it; "
           "iid: tokens of the text drawn with replacement; either the same for all queries"),
    ES_COL(paper_row, half_width, ES_FORMAT_COUNT, "half-width", "keys",
           "w of the window `n/2 - w` .. `n/2 + w`"),
    ES_COL(paper_row, keys, ES_FORMAT_COUNT, "keys", "keys", "m: 2w + 1 and the random ones"),
    ES_COL(paper_row, mean_error, ES_FORMAT_REAL, "mean error", "",
           "`|m_S - m|`: mean output of the kept tokens over each other, less that of all over "
           "all; mean over draws, standard error over contexts, or over the draws of one, which "
           "share its window"),
    ES_COL(paper_row, cov_error, ES_FORMAT_REAL, "cov error", "",
           "`|C_S - C|` of the outputs' covariances, Frobenius norm"),
    ES_COL(paper_row, mse, ES_FORMAT_REAL, "mse", "",
           "mean over the text's queries of `|y_S - y|^2`"),
    {0}};
static const es_table_spec rows_table = {
    "paper_rows", row_columns,
    ES_VIEW("Protocol of Token Sample Complexity", .only_with_full = true), ES_ROW(paper_row),
    .keys = "layer head scheme keys"};

/* ---- paper_rates ---- */

/* A row of the table of rates: how the three errors of a scheme fall with its keys. */
typedef struct rate_row {
    int64_t layer, head;
    const char *scheme;
    es_rate_cells rate_mean, rate_cov, rate_mse;
} rate_row;

static const es_column rate_columns[] = {
    ES_COL(rate_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(rate_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(rate_row, scheme, ES_FORMAT_TEXT, "scheme", ""),
    ES_RATE_COLUMNS(rate_row, rate_mean, "mean rate", "error of the outputs' mean ~ m^-rate"),
    ES_RATE_COLUMNS(rate_row, rate_cov, "cov rate", "of their covariance"),
    ES_RATE_COLUMNS(rate_row, rate_mse, "mse rate", "of their mean square error"),
    {0}};
static const es_table_spec rates_table = {"paper_rates", rate_columns,
                                          ES_VIEW("Protocol of Token Sample Complexity: rates in m",
                                                  "layer head scheme rate_mean rate_cov rate_mse"),
                                          ES_ROW(rate_row), .keys = "layer head scheme"};

/* Returns the fitted rate of one of the three errors in a row. */
static const es_rate_cells *rate_of(const rate_row *row, int which)
{
    const es_rate_cells *const all[ERRORS] = {&row->rate_mean, &row->rate_cov, &row->rate_mse};
    return all[which];
}

/* ---- filling both ---- */

/* Returns one of the three errors of a draw. */
static double error_of(const es_sparse_errors *errors, int which)
{
    const double all[ERRORS] = {errors->mean_error, errors->cov_error, errors->mse};
    return all[which];
}

/* Fits one of the errors of a scheme over the number of keys. */
static es_status fit_error(es_job *job, int64_t place, int scheme, int which, es_series *series,
                           es_error *err)
{
    const sparse_state *s = job->state;
    const int64_t R = series->replicates, first = scheme * POINTS;
    const int64_t each = s->contexts * s->p->replicates / R; /* draws that are one replicate */
    for (int64_t i = 0; i < POINTS; i++)
        series->at[i] = (double)s->plans[first + i].keys;
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < POINTS; i++) {
            double *mean = &series->errors[r * POINTS + i];
            *mean = 0.0;
            for (int64_t k = 0; k < each; k++) {
                const es_sparse_errors *cell = es_job_cell(job, 0, (place * R + r) * each + k);
                *mean += error_of(&cell[first + i], which) / (double)each;
            }
        }
    return es_series_fit(series, err);
}

/* Adds the rows of one scheme for a head: errors at each size, then the rate at which they fall. */
static es_status add_rows(es_job *job, int64_t place, int scheme, es_series *series, es_table *rows,
                          es_table *rates, es_error *err)
{
    const sparse_state *s = job->state;
    const sparse_place *at = &s->places[place];
    const int64_t first = es_table_rows(rows);
    rate_row *rate = es_rows_add(rates, rate_row);
    for (int64_t i = 0; i < POINTS && rate; i++) {
        paper_row *r = es_rows_add(rows, paper_row);
        if (!r)
            return es_answer_status(job->answer, err);
        r->layer = at->layer;
        r->head = at->head;
        r->scheme = schemes[scheme];
        r->keys = s->plans[scheme * POINTS + i].keys;
        if (scheme == WINDOW)
            r->half_width = half_widths[i];
    }
    if (!rate)
        return es_answer_status(job->answer, err);
    rate->layer = at->layer;
    rate->head = at->head;
    rate->scheme = schemes[scheme];
    es_rate_cells *const cells[ERRORS] = {&rate->rate_mean, &rate->rate_cov, &rate->rate_mse};
    paper_row *all = es_rows(rows, paper_row) + first;
    for (int which = 0; which < ERRORS; which++) {
        ES_TRY(fit_error(job, place, scheme, which, series, err));
        es_rate_cells_fill(cells[which], series, rates);
        for (int64_t i = 0; i < POINTS; i++) {
            es_measured *const to[ERRORS] = {&all[i].mean_error, &all[i].cov_error, &all[i].mse};
            *to[which] = (es_measured){series->summary[i].mean, series->summary[i].se};
        }
    }
    return ES_OK;
}

/* ---- findings ---- */

/* Writes a rate of a scheme: "m^-0.97 ± 0.03" of one head, "m^-0.97 (0.84 to 1.2)" of several, the
 * median and the extremes. */
static const char *say_rate(const es_table *rates, int which, int scheme, double *scratch,
                            char out[ES_SAY_SIZE])
{
    const rate_row *rows = es_rows(rates, rate_row);
    const int64_t all = es_table_rows(rates);
    int64_t count = 0;
    char number[ES_SAY_SIZE];
    for (int64_t i = scheme; i < all; i += SCHEMES) {
        scratch[count] = rate_of(&rows[i], which)->rate.value;
        count += isfinite(scratch[count]);
    }
    es_sort_reals(scratch, count);
    if (count == 0)
        snprintf(out, ES_SAY_SIZE, "no power of m");
    else if (all == SCHEMES)
        snprintf(out, ES_SAY_SIZE, "m^-%.80s",
                 es_say_number(scratch[0], rate_of(&rows[scheme], which)->rate.se, number));
    else
        snprintf(out, ES_SAY_SIZE, "m^-%.3g (%.3g to %.3g)", es_median_of(scratch, count),
                 scratch[0], scratch[count - 1]);
    return out;
}

/* Adds the finding that compares how fast the errors fall under each scheme. */
static void report_rates(const es_job *job, const es_table *rates, double *scratch,
                         es_answer *answer)
{
    const sparse_state *s = job->state;
    char mse[SCHEMES][ES_SAY_SIZE], mean[SCHEMES][ES_SAY_SIZE], cov[SCHEMES][ES_SAY_SIZE];
    for (int k = 0; k < SCHEMES; k++) {
        say_rate(rates, MSE, k, scratch, mse[k]);
        say_rate(rates, MEAN, k, scratch, mean[k]);
        say_rate(rates, COV, k, scratch, cov[k]);
    }
    es_answer_add_finding(answer,
                          "All queries keep the same m keys: a window of half-width 500 to 1500 in "
                          "the middle of %lld tokens, and %lld random ones. The mean square error "
                          "falls like %s, the error of the mean like %s, of the covariance like "
                          "%s.",
                          (long long)s->n, (long long)random_of(job), mse[WINDOW], mean[WINDOW],
                          cov[WINDOW]);
    es_answer_add_finding(answer,
                          "For comparison, m = 1000 to 3000 independent tokens: mean square error "
                          "like %s, mean like %s, covariance like %s.",
                          mse[IID], mean[IID], cov[IID]);
    es_answer_add_finding(answer,
                          "Queries outside this window lose their neighbours. For a window around "
                          "each query: --policy window or bigbird.");
}

/* Fills the tables of the paper's question and adds its findings. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    es_series series;
    double *scratch;
    /* draws of one context share its window: contexts are replicates, if there are several */
    ES_TRY(es_series_new(&job->arena, s->contexts > 1 ? s->contexts : s->p->replicates, POINTS,
                         &series, err));
    ES_TRY(ES_JOB_NEW(job, scratch, s->n_places, err));
    es_table *rates = es_answer_table(answer, &rates_table);
    es_table *rows = es_answer_table(answer, &rows_table);
    for (int64_t i = 0; i < s->n_places; i++)
        for (int scheme = 0; scheme < SCHEMES; scheme++)
            ES_TRY(add_rows(job, i, scheme, &series, rows, rates, err));
    report_rates(job, rates, scratch, answer);
    return ES_OK;
}

const sparse_question sparse_paper = {.without_input = &sparse_drawn,
                                      .of_model = &sparse_model,
                                      .context = 4096,
                                      .every_query = true,
                                      .refuses_causal = true,
                                      .plan = make_plans,
                                      .add_stage = add_stage,
                                      .more_bytes = more_bytes,
                                      .summarise = summarise};
