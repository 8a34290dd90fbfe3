/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : the table of attention, its findings, and the order of the answer. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/measure/oracle.h"
#include "stats/average.h"
#include "table/table.h"

/* ---- the table ---- */

/* One head at one scale and prefix. */
typedef struct attention_row {
    int64_t head;
    double scale;
    int64_t n, queries;
    es_measured entropy, perplexity, ess, sum_squares, top_weight;
    es_measured *top_mass; /* one for each k */
    es_measured lse, output_mean_norm;
    double output_cov_trace;
    es_numbers mean, cov; /* with --moments */
} attention_row;

static const es_column columns[] = {
    ES_COL(attention_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(attention_row, scale, ES_FORMAT_REAL, "scale", "",
           "b of the weights w = exp(b q.k) / sum exp(b q.k)"),
    ES_COL(attention_row, n, ES_FORMAT_COUNT, "n", "keys"),
    ES_COL(attention_row, queries, ES_FORMAT_COUNT, "queries", ""),
    ES_COL(attention_row, entropy, ES_FORMAT_REAL, "entropy", "nats",
           "`-sum w ln w`, mean over queries"),
    ES_COL(attention_row, perplexity, ES_FORMAT_REAL, "perplexity", "keys",
           "`exp(entropy)`, mean over queries"),
    ES_COL(attention_row, ess, ES_FORMAT_REAL, "ESS", "keys",
           "effective number of keys `1 / sum w^2`, mean over queries"),
    ES_COL(attention_row, sum_squares, ES_FORMAT_REAL, "sum w^2", "",
           "participation: mean over queries"),
    ES_COL(attention_row, top_weight, ES_FORMAT_REAL, "top weight", "",
           "largest weight, mean over queries"),
    ES_COL(attention_row, top_mass, ES_FORMAT_REAL, "top", "mass",
           "mass of the k largest weights, mean over queries"),
    ES_COL(attention_row, lse, ES_FORMAT_REAL, "lse", "nats",
           "ln sum exp(b q.k), a learned sink included, mean over queries"),
    ES_COL(attention_row, output_mean_norm, ES_FORMAT_REAL, "|mean output|", "",
           "norm of the mean output over queries"),
    ES_COL(attention_row, output_cov_trace, ES_FORMAT_REAL, "tr cov", "",
           "trace of the covariance of the outputs over queries (divisor: queries)"),
    ES_COL(attention_row, mean, ES_FORMAT_REAL, "mean output", "", "(dv), with --moments"),
    ES_COL(attention_row, cov, ES_FORMAT_REAL, "covariance of outputs", "",
           "(dv, dv), with --moments"),
    {0}};
#define ROWS_VIEW                                                                                  \
    "Attention weights and outputs",                                                               \
        "head n ess entropy top_weight scale queries top_mass lse output_mean_norm "               \
        "output_cov_trace",                                                                        \
        "A standard error is the spread over queries / sqrt(queries). The queries share one set "  \
        "of keys: the error is that of the mean over queries, not that of other keys.\n"           \
        "Averaging: ESS of 100 or more, or of two thirds of n where n is below 150; single-key: "  \
        "below 2; this ESS is 1/(mean sum w^2), under a mask the mean. Equal weights have an "     \
        "entropy of ln n, n the keys that a query sees."
static const es_table_spec rows_table = {"rows", columns, ES_VIEW(ROWS_VIEW), ES_ROW(attention_row),
                                         .keys = "head scale n"};
/* Beside a verdict, which was asked for first. */
static const es_table_spec rows_aside = {"rows", columns,
                                         ES_VIEW(ROWS_VIEW, .only_with_full = true),
                                         ES_ROW(attention_row), .keys = "head scale n"};

/* Adds the row of a head at scale `at` / P and prefix `at` % P. */
static es_status add_row(const es_job *job, int64_t head, int64_t at, es_answer *answer,
                         es_table *t, es_error *err)
{
    const measure_state *s = job->state;
    const measure_numbers *x = measure_found(job, head, at);
    const double *mass = measure_masses(x), *moments = mass + 2 * s->K;
    attention_row *r = es_rows_add(t, attention_row);
    if (!r)
        return es_answer_status(answer, err);
    r->head = head;
    r->scale = s->opts.scales[at / s->P];
    r->n = s->opts.prefixes[at % s->P];
    r->queries = measure_queries(s, at % s->P);
    r->entropy = x->entropy;
    r->perplexity = x->perplexity;
    r->ess = x->ess;
    r->sum_squares = x->sum_squares;
    r->top_weight = x->top_weight;
    for (int64_t k = 0; k < s->K; k++)
        r->top_mass[k] = (es_measured){mass[k], mass[s->K + k]};
    r->lse = x->lse;
    r->output_mean_norm = x->output_mean_norm;
    r->output_cov_trace = x->output_cov_trace;
    if (s->p->moments) {
        r->mean = es_table_numbers(t, moments, 0, s->dv);
        r->cov = es_table_numbers(t, moments + s->dv, s->dv, s->dv);
    }
    return ES_OK;
}

/* Adds a row for each head, scale and prefix. */
static es_status add_rows(es_job *job, es_answer *answer, es_error *err)
{
    const measure_state *s = job->state;
    es_table *t = es_answer_table(answer, s->p->compare ? &rows_aside : &rows_table);
    ES_TRY(es_label_columns(job, t, "top_mass", s->p->top_k.reals, s->K, err));
    for (int64_t head = 0; head < s->heads; head++)
        for (int64_t at = 0; at < s->S * s->P; at++)
            ES_TRY(add_row(job, head, at, answer, t, err));
    return ES_OK;
}

/* ---- findings ---- */

const char *measure_at_scale(const measure_state *s, char out[ES_FORMAT_SIZE])
{
    out[0] = '\0';
    if (s->S > 1)
        snprintf(out, ES_FORMAT_SIZE, ", at scale %.6g,", s->opts.scales[0]);
    return out;
}

/* Writes a mean with its error. Equal queries differ by rounding, which says nothing about how well
 * a mean is known: then without error. */
static const char *say_mean(es_measured x, char out[ES_FORMAT_SIZE])
{
    const double se = x.se > 1e-9 * fabs(x.value) ? x.se : (double)NAN;
    return es_format_number(ES_FORMAT_REAL, x.value, se, out, ES_FORMAT_SIZE);
}

/* Writes "90 keys", or "the 45.5 keys that it sees on average". */
static const char *say_keys(const measure_state *s, char out[ES_FORMAT_SIZE])
{
    const int64_t n = s->opts.prefixes[s->P - 1];
    if (measure_masked(s->p))
        snprintf(out, ES_FORMAT_SIZE, "the %.4g keys that it sees on average",
                 measure_mean_seen(s, s->P - 1, NULL));
    else
        snprintf(out, ES_FORMAT_SIZE, "%lld key%s", (long long)n, n == 1 ? "" : "s");
    return out;
}

/* Reports how many keys the heads use. */
static es_status report_keys(es_job *job, es_answer *a, es_error *err)
{
    const measure_state *s = job->state;
    const int64_t heads = s->heads;
    char scale[ES_FORMAT_SIZE], keys[ES_FORMAT_SIZE];
    double *ess;
    if (heads == 1) {
        const measure_numbers *x = measure_main(job, 0);
        char used[ES_FORMAT_SIZE], weight[ES_FORMAT_SIZE];
        es_answer_add_finding(
            a, "A query%s uses %s of %s (effective number, ESS); its largest weight is %s.",
            measure_at_scale(s, scale), say_mean(x->ess, used), say_keys(s, keys),
            say_mean(x->top_weight, weight));
        return ES_OK;
    }
    ES_TRY(ES_JOB_NEW(job, ess, heads, err));
    for (int64_t h = 0; h < heads; h++)
        ess[h] = measure_main(job, h)->ess.value;
    es_sort_reals(ess, heads);
    es_answer_add_finding(
        a, "In the median head a query%s uses %.3g of %s (ESS; %.3g to %.3g over heads).",
        measure_at_scale(s, scale), es_median_of(ess, heads), say_keys(s, keys), ess[0],
        ess[heads - 1]);
    return ES_OK;
}

/* Reports how many heads average, select, or look at a single key. */
static void report_regimes(const es_job *job, es_answer *a)
{
    const measure_state *s = job->state;
    char scale[ES_FORMAT_SIZE];
    long long count[ES_REGIMES] = {0};
    for (int64_t h = 0; h < s->heads; h++)
        count[measure_regime(job, h)]++;
    es_answer_add_finding(a,
                          "%lld of %lld heads%s %s averaging, %lld selective, %lld single-key (by "
                          "ESS; see the note below the table).",
                          count[ES_REGIME_AVERAGING], (long long)s->heads,
                          measure_at_scale(s, scale),
                          count[ES_REGIME_AVERAGING] == 1 ? "is" : "are",
                          count[ES_REGIME_SELECTIVE], count[ES_REGIME_SINGLE_KEY]);
}

/* ---- all of it ---- */

es_status measure_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const measure_state *s = job->state;
    const double seconds = es_seconds() - s->start;
    ES_TRY(measure_files_finish(job, err));
    if (s->p->compare)
        ES_TRY(compare_summarise(job, answer, err));
    ES_TRY(report_keys(job, answer, err));
    ES_TRY(measure_add_sinks(job, answer, err));
    if (s->heads > 1 && s->n > 1 && !s->p->compare && !s->sinks)
        report_regimes(job, answer);
    ES_TRY(add_rows(job, answer, err));
    if (s->p->block)
        ES_TRY(measure_add_bars(job, answer, err));
    ES_TRY(measure_add_heads(job, answer, err));
    if (measure_counts_gaps(s))
        ES_TRY(measure_add_gaps(job, answer, err));
    ES_TRY(measure_add_accuracy(job, answer, err));
    es_answer_provenance_real(answer, "seconds", seconds);
    es_log(ES_LOG_INFO, "%.3g s, %.3g GF/s", seconds,
           1e-9 * (s->cost.flops - s->tokens.flops) / seconds);
    return ES_OK;
}
