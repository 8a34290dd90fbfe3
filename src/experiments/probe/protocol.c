/* SPDX-License-Identifier: Apache-2.0 */
/* protocol.c : `probe --protocol paper`: experiment 2 of Token Sample Complexity (paper.h) in
 * addition to the default protocol: its stage and the tables paper_rates and paper_rows. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/paper.h"
#include "experiments/probe/question.h"

/* The public code has one passage. Rates are of it alone; a few more, spread over the pool, show
 * how much another would change. */
enum { PASSAGES = PROBE_PASSAGES, MEAN = 0, COV = 1, ERRORS = 2 };

/* Returns whether --protocol paper was given. */
static bool is_asked(const es_job *job) { return ((const probe_params *)job->params)->paper == 1; }

/* Returns the number of passages: at most PASSAGES, and no more than the smallest pool has blocks.
 */
static int64_t passages_of(const probe_state *s)
{
    int64_t least = PASSAGES;
    for (int64_t d = 0; d < s->pools.n_domains; d++) {
        const int64_t blocks = es_pool_about(s->pools.domains[d].pool).blocks;
        least = blocks < least ? blocks : least;
    }
    return least;
}

/* Returns the number of a passage's block in the pool. */
static int64_t block_of(const probe_state *s, int64_t place, int64_t passage)
{
    const es_pool *pool = s->pools.domains[place / s->layers].pool;
    return es_pool_about(pool).blocks * passage / passages_of(s);
}

/* ---- the stage ---- */

es_probe_price probe_paper_price(const es_job *job, const probe_state *s)
{
    const probe_params *p = job->params;
    es_probe_price open, draw;
    if (!is_asked(job))
        return (es_probe_price){0};
    draw = es_probe_paper_price(&s->spec, s->pools.config->positions, &open);
    return (es_probe_price){.flops =
                                PASSAGES * (2.0 * open.flops + (double)p->replicates * draw.flops),
                            .bytes = draw.bytes > open.bytes ? draw.bytes : open.bytes};
}

/* Opens the passage of that number among those of all places, unless it is the open one. */
static es_status open_passage(es_job *job, int64_t number, const es_exec *exec, es_error *err)
{
    probe_state *s = job->state;
    const int64_t passages = passages_of(s), place = number / passages;
    s->exec = *exec;
    if (s->paper && s->passage == number)
        return ES_OK;
    es_probe_paper_close(s->paper);
    s->paper = NULL;
    s->passage = number;
    const es_probe_spec spec = probe_spec_at(s, place, &s->exec);
    return es_probe_paper_open(&spec, place % s->layers, block_of(s, place, number % passages),
                               &s->paper, err);
}

/* Cell: one draw of a passage, at every n. */
static es_status run_paper(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err)
{
    const int64_t R = ((const probe_params *)job->params)->replicates;
    probe_state *s = job->state;
    ES_TRY(open_passage(job, cell / R, exec, err));
    return es_probe_paper_draw(s->paper, cell % R, out, err);
}

es_status probe_add_paper(es_job *job, es_error *err)
{
    static const es_cell_field fields[] = {
        ES_FIELD(es_probe_paper_cell, mean_error), ES_FIELD(es_probe_paper_cell, cov_error), {0}};
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    es_probe_price open;
    const es_stage stage = {
        .name = "paper",
        .phase = "drawing tokens that attend over each other",
        .noun = "draws of a passage",
        .cells = is_asked(job) ? probe_places(s) * passages_of(s) * p->replicates : 0,
        .rows = s->spec.n_sizes,
        ES_RECORD(es_probe_paper_cell, fields),
        .reports_progress = true,
        .flops = es_probe_paper_price(&s->spec, s->pools.config->positions, &open).flops,
        .run = run_paper};
    return es_job_stage(job, &stage, err);
}

/* ---- rows ---- */

/* A passage of a layer. */
typedef struct rate_row {
    const char *domain;
    int64_t layer, block, tokens;
    double horizon_unscaled_all_heads;
    es_rate_cells rate_mean, rate_cov;
} rate_row;

static const es_column rate_columns[] = {
    ES_COL(rate_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(rate_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(rate_row, block, ES_FORMAT_COUNT, "block", "",
           "of the pool: the passage that stands for the law"),
    ES_COL(rate_row, tokens, ES_FORMAT_COUNT, "tokens", "tokens", "of the passage"),
    ES_COL(
        rate_row, horizon_unscaled_all_heads, ES_FORMAT_SHORT, "H all heads", "",
        "of the passage, of all heads as one and without `1/sqrt(k)`, as public code reports it"),
    ES_RATE_COLUMNS(rate_row, rate_mean, "mean rate",
                    "error of the mean of the concatenated outputs ~ n^-rate; every n has draws "
                    "of its own, and queries are the sample"),
    ES_RATE_COLUMNS(rate_row, rate_cov, "cov rate", "of their covariance"),
    {0}};
static const es_table_spec rates_table = {
    "paper_rates", rate_columns,
    ES_VIEW("Protocol of Token Sample Complexity: rates",
            "domain layer block tokens horizon_unscaled_all_heads rate_mean rate_cov"),
    ES_ROW(rate_row), .keys = "domain layer block"};

/* A passage at one n. */
typedef struct point_row {
    const char *domain;
    int64_t layer, block, n;
    es_measured mean_error, cov_error;
} point_row;

static const es_column point_columns[] = {
    ES_COL(point_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(point_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(point_row, block, ES_FORMAT_COUNT, "block", ""),
    ES_COL(point_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(point_row, mean_error, ES_FORMAT_REAL, "mean error", "",
           "`|m_n - m|` of all heads' outputs side by side, mean over draws"),
    ES_COL(point_row, cov_error, ES_FORMAT_REAL, "cov error", "", "`|C_n - C|` in Frobenius norm"),
    {0}};
static const es_table_spec points_table = {
    "paper_rows", point_columns,
    ES_VIEW("Protocol of Token Sample Complexity", .only_with_full = true), ES_ROW(point_row),
    .keys = "domain layer block n"};

/* ---- summary ---- */

/* State that the functions that fill rows share. */
typedef struct summary_ctx {
    es_job *job;
    es_table *rates, *points;
    es_series series[ERRORS];
    int64_t number;   /* of the passage, among those of all places */
    rate_row *rate;   /* its row */
    point_row *point; /* (sizes) its rows */
} summary_ctx;

/* Fits one error of the passage: means into its points, the rate into its row of rates. */
static es_status fill_errors(summary_ctx *m, int which, es_error *err)
{
    const probe_state *s = m->job->state;
    es_series *series = &m->series[which];
    const int64_t sizes = series->points, R = series->replicates;
    for (int64_t i = 0; i < sizes; i++)
        series->at[i] = (double)s->spec.sizes[i];
    for (int64_t r = 0; r < R; r++) {
        const es_probe_paper_cell *cell = es_job_cell(m->job, PROBE_PAPER, m->number * R + r);
        for (int64_t i = 0; i < sizes; i++)
            series->errors[r * sizes + i] = which == MEAN ? cell[i].mean_error : cell[i].cov_error;
    }
    ES_TRY(es_series_fit(series, err));
    for (int64_t i = 0; i < sizes; i++)
        *(which == MEAN ? &m->point[i].mean_error : &m->point[i].cov_error) =
            (es_measured){series->summary[i].mean, series->summary[i].se};
    es_rate_cells_fill(which == MEAN ? &m->rate->rate_mean : &m->rate->rate_cov, series, m->rates);
    return ES_OK;
}

/* Adds the rows of a passage. */
static es_status add_rows(summary_ctx *m, const es_probe_passage *about, es_error *err)
{
    const probe_state *s = m->job->state;
    const int64_t passages = passages_of(s), place = m->number / passages, sizes = s->spec.n_sizes;
    rate_row *r = m->rate = es_rows_add(m->rates, rate_row);
    if (!r)
        return es_answer_status(m->job->answer, err);
    r->domain = es_pools_domain(&s->pools, place / s->layers, m->rates);
    r->layer = place % s->layers;
    r->block = block_of(s, place, m->number % passages);
    r->tokens = about->tokens;
    r->horizon_unscaled_all_heads = about->horizon;
    for (int64_t i = 0; i < sizes; i++) {
        point_row *point = es_rows_add(m->points, point_row);
        if (!point)
            return es_answer_status(m->job->answer, err);
        point->domain = r->domain;
        point->layer = r->layer;
        point->block = r->block;
        point->n = s->spec.sizes[i];
    }
    m->point = es_rows(m->points, point_row) + es_table_rows(m->points) - sizes;
    return ES_OK;
}

/* Fills the rows of one passage: about the passage, then its errors at each size. */
static es_status sum_up_passage(summary_ctx *m, es_error *err)
{
    const probe_state *s = m->job->state;
    es_probe_passage about;
    ES_TRY(open_passage(m->job, m->number, &m->job->exec, err));
    ES_TRY(es_probe_paper_about(s->paper, &about, err));
    ES_TRY(add_rows(m, &about, err));
    for (int which = 0; which < ERRORS; which++)
        ES_TRY(fill_errors(m, which, err));
    return ES_OK;
}

/* States the range of rates over passages. */
static void report_rates(const es_table *t, es_answer *a)
{
    const rate_row *rows = es_rows(t, rate_row);
    double low[ERRORS] = {INFINITY, INFINITY}, high[ERRORS] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        const double rates[ERRORS] = {rows[i].rate_mean.rate.value, rows[i].rate_cov.rate.value};
        for (int which = 0; which < ERRORS; which++) {
            low[which] = fmin(low[which], rates[which]);
            high[which] = fmax(high[which], rates[which]);
        }
    }
    if (low[MEAN] <= high[MEAN] && low[COV] <= high[COV])
        es_answer_add_finding(
            a,
            "By the protocol of Token Sample Complexity (queries are the sample, heads "
            "concatenated, a passage is the law) the rates of %lld pairs of a layer and a passage "
            "are %.3g to %.3g for the mean and %.3g to %.3g for the covariance.",
            (long long)es_table_rows(t), low[MEAN], high[MEAN], low[COV], high[COV]);
}

/* A sample that is larger than the passage repeats tokens: its rate is not that of the law. */
static void caution_passages(const probe_state *s, const es_table *t, es_answer *a)
{
    const rate_row *rows = es_rows(t, rate_row);
    const double n = probe_largest_n(s);
    long long shorter = 0;
    double shortest = (double)INFINITY;
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        shorter += (double)rows[i].tokens < n;
        shortest = fmin(shortest, (double)rows[i].tokens);
    }
    if (shorter)
        es_answer_add_finding(
            a,
            "Caution: n up to %.8g is more than the passage has, which stands for the "
            "law, in %lld of %lld cases (the shortest: %.0f tokens). Take smaller --n.",
            n, shorter, (long long)es_table_rows(t), shortest);
}

es_status probe_sum_up_paper(es_job *job, es_answer *answer, es_error *err)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    if (!is_asked(job))
        return ES_OK;
    summary_ctx m = {.job = job};
    m.rates = es_answer_table(answer, &rates_table);
    m.points = es_answer_table(answer, &points_table);
    for (int which = 0; which < ERRORS; which++)
        ES_TRY(es_series_new(&job->arena, p->replicates, s->spec.n_sizes, &m.series[which], err));
    for (m.number = 0; m.number < probe_places(s) * passages_of(s); m.number++)
        ES_TRY(sum_up_passage(&m, err));
    report_rates(m.rates, answer);
    caution_passages(s, m.rates, answer);
    return ES_OK;
}
