/* SPDX-License-Identifier: Apache-2.0 */
/* bars.c : how far outputs are from those of infinitely many such keys, from the spread of
 * blocks of keys in this one context (stats/error_bar.h, THEORY 9 (E2), (E3)).
 *
 * For independent keys the delta method gives Var = sum w^2 |v - y|^2 (E1). Keys of a text depend
 * on each other, so consecutive keys are summed in blocks, Z_b = sum w, N_b = sum w v, and Var =
 * sum_b (N_b - Z_b y)^2; the ratio of both is the design effect of the context. With few effective
 * blocks the variance is corrected and Student's t has S_2^2/S_4 degrees of freedom, S_k = sum
 * Z_b^k. If the entropy is below (3/4) ln n, the largest weights decide and one context cannot show
 * its error: such queries are counted and left out. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/measure/measure.h"
#include "stats/average.h"
#include "stats/error_bar.h"

/* ---- of queries ---- */

const char *const measure_bar_names[MEASURE_BARS] = {"error_bar",     "error_bar_independent",
                                                     "design_effect", "error_bar_relative",
                                                     "error_bar_t",   "error_bar_valid"};

/* Returns the bar of query `at` of es_attend()'s results, which sees n keys. */
static measure_bar bar_of(const measure_state *s, const es_attend_out *o, int64_t at, int64_t n)
{
    const es_error_bar bar = es_error_bar_of(o->block_powers + 3 * at, n, o->entropy[at]);
    double blocks2 = 0.0, length2 = 0.0;
    for (int64_t c = at * s->dv; c < (at + 1) * s->dv; c++) {
        blocks2 += o->block_spread2[c];
        length2 += o->output[c] * o->output[c];
    }
    const double spread2 = bar.factor * blocks2;
    return (measure_bar){.error_bar = sqrt(spread2),
                         .error_bar_independent = sqrt(o->spread2[at] / (1.0 - o->sum_squares[at])),
                         .design_effect =
                             blocks2 / o->spread2[at], /* (E2)/(E1): neither is corrected */
                         .error_bar_relative = sqrt(spread2 / length2),
                         .error_bar_t = bar.t,
                         .error_bar_valid = bar.valid};
}

/* Returns the median of one member, `first` being that of the first query, over the queries with a
 * valid bar; `values` (count) is working memory. */
static double median_of(const measure_bar *bars, const double *first, int64_t count, double *values)
{
    int64_t valid = 0;
    for (int64_t i = 0; i < count; i++) {
        const double value = first[i * MEASURE_BARS];
        if (bars[i].error_bar_valid == 1.0 && isfinite(value))
            values[valid++] = value;
    }
    es_sort_reals(values, valid);
    return es_median_of(values, valid);
}

/* Returns medians over the queries with a valid bar, and their share. */
static measure_bar medians_of(const measure_bar *bars, int64_t count, double *values)
{
    int64_t valid = 0;
    for (int64_t i = 0; i < count; i++)
        valid += bars[i].error_bar_valid == 1.0;
    return (measure_bar){
        .error_bar = median_of(bars, &bars->error_bar, count, values),
        .error_bar_independent = median_of(bars, &bars->error_bar_independent, count, values),
        .design_effect = median_of(bars, &bars->design_effect, count, values),
        .error_bar_relative = median_of(bars, &bars->error_bar_relative, count, values),
        .error_bar_t = median_of(bars, &bars->error_bar_t, count, values),
        .error_bar_valid = (double)valid / (double)count};
}

es_status measure_bars(const measure_state *s, const es_attend_out *ours, es_arena *scratch,
                       double *cell, measure_bar **bars, es_error *err)
{
    static const measure_bar none = {NAN, NAN, NAN, NAN, NAN, NAN};
    measure_bar *all;
    double *values;
    *bars = NULL;
    if (!s->p->block)
        return ES_OK;
    ES_TRY(ES_ARENA_NEW(scratch, all, s->S * s->P * s->m, "error bars", err));
    ES_TRY(ES_ARENA_NEW(scratch, values, s->m, "error bars", err));
    for (int64_t at = 0; at < s->S * s->P; at++) {
        const int64_t count = measure_queries(s, at % s->P);
        measure_bar *here = all + at * s->m;
        for (int64_t i = 0; i < s->m; i++)
            here[i] =
                i < count ? bar_of(s, ours, at * s->m + i, measure_seen(s, i, at % s->P)) : none;
        measure_at(s, cell, at)->bars = medians_of(here, count, values);
    }
    *bars = all;
    return ES_OK;
}

/* ---- the table ---- */

/* One head at one scale and prefix. */
typedef struct bar_row {
    int64_t head;
    double scale;
    int64_t n;
    measure_bar bars;
} bar_row;

static const es_column columns[] = {
    ES_COL(bar_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(bar_row, scale, ES_FORMAT_REAL, "scale", "",
           "b of the weights w = exp(b q.k) / sum exp(b q.k)"),
    ES_COL(bar_row, n, ES_FORMAT_COUNT, "n", "keys"),
    ES_COL_KEY(
        bar_row, bars.error_bar, "error_bar", ES_FORMAT_SHORT, "error bar", "",
        "root mean square distance of a query's output from that of infinitely many such "
        "keys, from blocks of keys; all columns are medians over the queries with a valid bar",
        .standing = ES_STANDING_HEURISTIC),
    ES_COL_KEY(bar_row, bars.error_bar_relative, "error_bar_relative", ES_FORMAT_SHORT, "relative",
               "", "the same over the output's length"),
    ES_COL_KEY(bar_row, bars.error_bar_t, "error_bar_t", ES_FORMAT_SHORT, "t of 95 %", "",
               "a coordinate of the output is within t of its standard errors in 95 of 100 such "
               "contexts, the whole output within t error bars in at least as many"),
    ES_COL_KEY(
        bar_row, bars.error_bar_independent, "error_bar_independent", ES_FORMAT_SHORT,
        "if independent", "",
        "the error bar were keys independent: root of `sum w^2 |v - output|^2 / (1 - sum w^2)`"),
    ES_COL_KEY(bar_row, bars.design_effect, "design_effect", ES_FORMAT_SHORT, "design effect", "",
               "sum over blocks of `(N - Z output)^2` over `sum w^2 |v - output|^2` (THEORY 9): "
               "how many times the variance of independent keys"),
    ES_COL_KEY(bar_row, bars.error_bar_valid, "error_bar_valid", ES_FORMAT_SHORT, "valid queries",
               "share",
               "share of the queries with at least five effective blocks and an entropy above "
               "`(3/4) ln n`; for the others the largest weights decide, and one context does not "
               "determine the bar"),
    {0}};
static const es_table_spec bars_table = {
    "error_bars", columns,
    ES_VIEW("Error bars of outputs, from this one context", NULL,
            "Heuristic, to first order: right if blocks are longer than the distance over which "
            "keys are similar.\nBars that grow with longer blocks say that blocks are too short."),
    ES_ROW(bar_row), .keys = "head scale n"};

/* Reports the error of the median head with a valid bar, at the first scale and the longest prefix.
 */
static es_status report_bars(es_job *job, es_answer *a, es_error *err)
{
    const measure_state *s = job->state;
    char scale[ES_FORMAT_SIZE];
    double *relative, *t, valid = 0.0;
    int64_t count = 0;
    ES_TRY(ES_JOB_NEW(job, relative, s->heads, err));
    ES_TRY(ES_JOB_NEW(job, t, s->heads, err));
    for (int64_t h = 0; h < s->heads; h++) {
        const measure_bar *x = &measure_main(job, h)->bars;
        valid += x->error_bar_valid / (double)s->heads;
        if (isnan(x->error_bar_relative))
            continue;
        relative[count] = x->error_bar_relative;
        t[count++] = x->error_bar_t;
    }
    es_sort_reals(relative, count);
    es_sort_reals(t, count);
    const double bar = 100.0 * es_median_of(relative, count);
    measure_at_scale(s, scale);
    if (count)
        es_answer_add_finding(
            a,
            "Over infinitely many such keys the median query's output%s would differ by %.3g %% of "
            "its length (root mean square), and by less than %.3g %% in at least 95 of 100 such "
            "contexts.",
            scale, bar, bar * es_median_of(t, count));
    if (valid < 1.0)
        es_answer_add_finding(a,
                              "For %.3g %% of the queries%s one context does not determine the "
                              "error: fewer than five blocks have most of the weight, or the "
                              "entropy is below (3/4) ln n.",
                              100.0 * (1.0 - valid), scale);
    return ES_OK;
}

es_status measure_add_bars(es_job *job, es_answer *answer, es_error *err)
{
    const measure_state *s = job->state;
    es_table *t = es_answer_table(answer, &bars_table);
    for (int64_t i = 0; i < s->heads * s->S * s->P; i++) {
        const int64_t head = i / (s->S * s->P), at = i % (s->S * s->P);
        bar_row *r = es_rows_add(t, bar_row);
        if (!r)
            return es_answer_status(answer, err);
        r->head = head;
        r->scale = s->opts.scales[at / s->P];
        r->n = s->opts.prefixes[at % s->P];
        r->bars = measure_found(job, head, at)->bars;
    }
    return report_bars(job, answer, err);
}
