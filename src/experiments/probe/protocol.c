/* protocol.c : `probe --protocol paper`: experiment 2 of Token Sample Complexity beside the
 * default protocol (probe_paper.h): its stage, its curves and rates. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/paper.h"
#include "experiments/probe/question.h"

/* The public code has one passage. Rates are of it alone; a few more, spread over the pool, show
 * how much another would change. */
enum { PASSAGES = PROBE_PASSAGES, MEAN = 0, COV = 1, ERRORS = 2 };

static bool is_asked(const es_job *job) { return ((const probe_params *)job->params)->paper == 1; }

/* As many passages as that, or as the smallest pool has blocks. */
static int64_t passages_of(const probe_state *s)
{
    int64_t least = PASSAGES;
    for (int64_t d = 0; d < s->pools.n_domains; d++) {
        const int64_t blocks = es_pool_about(s->pools.domains[d].pool).blocks;
        least = blocks < least ? blocks : least;
    }
    return least;
}

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

/* The passage of that number among those of all places; opened anew only when another comes. */
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

static es_status run_paper(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    const int64_t R = ((const probe_params *)job->params)->replicates;
    probe_state *s = job->state;
    ES_TRY(open_passage(job, cell / R, exec, err));
    ES_TRY(es_probe_paper_draw(s->paper, cell % R, s->paper_cells, err));
    for (int64_t i = 0; i < s->spec.n_sizes; i++) {
        out[i * ERRORS + MEAN] = s->paper_cells[i].mean_error;
        out[i * ERRORS + COV] = s->paper_cells[i].cov_error;
    }
    return ES_OK;
}

es_status probe_add_paper(es_job *job, es_error *err)
{
    static const char *const columns[ERRORS] = {"mean_error", "cov_error"};
    const probe_params *p = job->params;
    probe_state *s = job->state;
    es_probe_price open;
    const es_stage stage = {
        "paper",
        .phase = "drawing tokens that attend over each other",
        .noun = "draws of a passage",
        .cells = is_asked(job) ? probe_places(s) * passages_of(s) * p->replicates : 0,
        .rows = s->spec.n_sizes,
        .cols = ERRORS,
        .columns = columns,
        .reports_progress = true,
        .flops = es_probe_paper_price(&s->spec, s->pools.config->positions, &open).flops,
        .run = run_paper};
    ES_TRY(ES_JOB_NEW(job, s->paper_cells, s->spec.n_sizes, err));
    return es_job_stage(job, &stage, err);
}

/* ---- columns ---- */

static const es_column rate_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"block", "block", "", ES_FORMAT_COUNT, "of the pool: the passage that stands for the law"},
    {"tokens", "tokens", "tokens", ES_FORMAT_COUNT, "of the passage"},
    {"horizon_unscaled_all_heads", "H all heads", "", ES_FORMAT_SHORT,
     "of the passage, of all heads as one and without 1/sqrt(k), as public code reports it"},
    PROBE_RATE_COLUMNS("rate_mean", "mean rate",
                       "error of the mean of the concatenated outputs ~ n^-rate; every n has draws "
                       "of its own, and queries are the sample"),
    PROBE_RATE_COLUMNS("rate_cov", "cov rate", "of their covariance"),
    {0}};
const es_table_spec probe_paper_rates_table = {
    "paper_rates", rate_columns,
    ES_VIEW("Protocol of Token Sample Complexity: rates",
            "domain layer block tokens horizon_unscaled_all_heads rate_mean rate_cov"),
    .keys = "domain layer block"};

static const es_column row_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"block", "block", "", ES_FORMAT_COUNT},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"mean_error", "mean error", "", ES_FORMAT_REAL,
     "|m_n - m| of all heads' outputs side by side, mean over draws", .error = "mean_error_se"},
    {"cov_error", "cov error", "", ES_FORMAT_REAL, "|C_n - C| in Frobenius norm",
     .error = "cov_error_se"},
    {0}};
const es_table_spec probe_paper_rows_table = {
    "paper_rows", row_columns,
    ES_VIEW("Protocol of Token Sample Complexity", .only_with_full = true),
    .keys = "domain layer block n"};

/* ---- summary ---- */

typedef struct paper_tables {
    es_table *rates, *rows;
} paper_tables;

static void name_row(const probe_state *s, int64_t number, es_table *t, int64_t row)
{
    const int64_t passages = passages_of(s), place = number / passages;
    es_pools_name(&s->pools, place / s->layers, t, row);
    es_table_count(t, row, "layer", place % s->layers);
    es_table_count(t, row, "block", block_of(s, place, number % passages));
}

/* One error of one passage: its means into the rows, its rate into the row of rates. */
static es_status sum_up(es_job *job, int64_t number, int which, es_series *series, paper_tables *t,
                        es_error *err)
{
    static const char *const names[ERRORS][2] = {{"mean_error", "rate_mean"},
                                                 {"cov_error", "rate_cov"}};
    const probe_state *s = job->state;
    const int64_t sizes = series->points, R = series->replicates;
    for (int64_t i = 0; i < sizes; i++)
        series->at[i] = (double)s->spec.sizes[i];
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < sizes; i++)
            series->errors[r * sizes + i] =
                es_job_numbers(job, PROBE_PAPER, number * R + r)[i * ERRORS + which];
    ES_TRY(es_series_fit(series, err));
    for (int64_t i = 0; i < sizes; i++)
        es_put_under(t->rows, number * sizes + i, names[which][0], {"", series->summary[i].mean},
                     {"_se", series->summary[i].se});
    probe_put_rate(t->rates, number, names[which][1], series);
    return ES_OK;
}

static es_status sum_up_passage(es_job *job, int64_t number, es_series series[ERRORS],
                                paper_tables *t, es_error *err)
{
    probe_state *s = job->state;
    es_probe_passage about;
    ES_TRY(open_passage(job, number, &job->exec, err));
    ES_TRY(es_probe_paper_about(s->paper, &about, err));
    name_row(s, number, t->rates, es_table_row(t->rates));
    es_table_count(t->rates, number, "tokens", about.tokens);
    es_table_real(t->rates, number, "horizon_unscaled_all_heads", about.horizon);
    for (int64_t i = 0; i < s->spec.n_sizes; i++) {
        const int64_t row = es_table_row(t->rows);
        name_row(s, number, t->rows, row);
        es_table_count(t->rows, row, "n", s->spec.sizes[i]);
    }
    for (int which = 0; which < ERRORS; which++)
        ES_TRY(sum_up(job, number, which, &series[which], t, err));
    return ES_OK;
}

static void tell_rates(const es_table *t, es_answer *a)
{
    static const char *const keys[ERRORS] = {"rate_mean", "rate_cov"};
    double low[ERRORS] = {INFINITY, INFINITY}, high[ERRORS] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < es_table_rows(t); i++)
        for (int which = 0; which < ERRORS; which++) {
            low[which] = fmin(low[which], es_table_get(t, i, keys[which]));
            high[which] = fmax(high[which], es_table_get(t, i, keys[which]));
        }
    if (low[MEAN] <= high[MEAN] && low[COV] <= high[COV])
        es_answer_add_finding(
            a,
            "By the protocol of Token Sample Complexity (queries are the sample, heads "
            "concatenated, a passage is the law) rates of %lld pairs of a layer and a passage are "
            "%.3g to %.3g of the mean and %.3g to %.3g of the covariance.",
            (long long)es_table_rows(t), low[MEAN], high[MEAN], low[COV], high[COV]);
}

/* A sample that is larger than its law repeats tokens, and says how often rather than how the law
 * is approached. */
static void caution_passages(const probe_state *s, const es_table *t, es_answer *a)
{
    const double n = (double)s->spec.sizes[s->spec.n_sizes - 1];
    long long shorter = 0;
    double shortest = (double)INFINITY;
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        shorter += es_table_get(t, i, "tokens") < n;
        shortest = fmin(shortest, es_table_get(t, i, "tokens"));
    }
    if (shorter)
        es_answer_add_finding(
            a,
            "Caution: n up to %.8g is more than the passage has, which stands for the "
            "law, in %lld of %lld cases (the shortest: %.0f tokens): smaller --n.",
            n, shorter, (long long)es_table_rows(t), shortest);
}

es_status probe_sum_up_paper(es_job *job, es_answer *answer, es_error *err)
{
    const probe_params *p = job->params;
    probe_state *s = job->state;
    es_series series[ERRORS];
    if (!is_asked(job))
        return ES_OK;
    paper_tables t = {es_answer_table(answer, &probe_paper_rates_table),
                      es_answer_table(answer, &probe_paper_rows_table)};
    for (int which = 0; which < ERRORS; which++)
        ES_TRY(es_series_new(&job->arena, p->replicates, s->spec.n_sizes, &series[which], err));
    for (int64_t i = 0; i < probe_places(s) * passages_of(s); i++)
        ES_TRY(sum_up_passage(job, i, series, &t, err));
    tell_rates(t.rates, answer);
    caution_passages(s, t.rates, answer);
    return ES_OK;
}
