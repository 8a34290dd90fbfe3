/* SPDX-License-Identifier: Apache-2.0 */
/* sinks.c : --sink-logits: reading them, and the table of the weight that sinks take. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "driver/numbers.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/array_source.h"
#include "experiments/measure/measure.h"
#include "stats/average.h"
#include "table/table.h"

/* ---- the logits ---- */

/* Fails unless there is one logit, or one for each head. */
static es_status check_count(const measure_state *s, int64_t count, es_error *err)
{
    if (count == 1 || count == s->heads)
        return ES_OK;
    return es_refuse(err, "measure.sinks", "give one number, or one for each query head",
                     "--sink-logits has %lld numbers, Q has %lld heads", (long long)count,
                     (long long)s->heads);
}

/* Stores logit `head`; -inf is a head without a sink. */
static es_status put(const measure_state *s, int64_t head, double logit, es_error *err)
{
    if (isnan(logit) || logit == INFINITY)
        return es_refuse(err, "measure.sinks", "a logit is a number of nats; -inf for no sink",
                         "sink logit %lld is %g", (long long)head, logit);
    s->sinks[head] = logit;
    return ES_OK;
}

/* Reads numbers, with commas between them. */
static es_status read_numbers(const measure_state *s, const es_grid *grid, es_error *err)
{
    ES_TRY(check_count(s, grid->count, err));
    for (int64_t h = 0; h < s->heads; h++)
        ES_TRY(put(s, h, grid->reals[grid->count > 1 ? h : 0], err));
    return ES_OK;
}

/* Reads an array of a file. */
static es_status read_file(es_job *job, const char *path, es_error *err)
{
    const measure_state *s = job->state;
    es_npy_info info;
    es_array array;
    es_status status = es_source_inspect(path, s->p->bf16, &info, err);
    if (status != ES_OK && err && strcmp(err->rule, "file.open") == 0)
        snprintf(err->hint, sizeof err->hint, "give numbers, or a file of one for each query head");
    ES_TRY(status);
    int64_t count = 1;
    for (int i = 0; i < info.rank; i++)
        count *= info.shape[i];
    ES_TRY(check_count(s, count, err));
    es_answer_input(job->answer, "sink-logits", path, info.rank, info.shape, info.descr);
    ES_TRY(es_source_load(path, s->p->bf16, job->exec.budget, &array, err));
    for (int64_t h = 0; h < s->heads && status == ES_OK; h++) {
        const int64_t at = count > 1 ? h : 0;
        status = put(s, h,
                     array.dtype == ES_F32 ? (double)((const float *)array.data)[at]
                                           : ((const double *)array.data)[at],
                     err);
    }
    es_array_free(&array);
    return status;
}

es_status measure_sinks_start(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    const char *text = s->p->sink_logits;
    const es_grid_rule any = {.min = -1e30, .max = 1e30};
    char why[128];
    es_grid grid;
    if (!text)
        return ES_OK;
    ES_TRY(ES_JOB_NEW(job, s->sinks, s->heads, err));
    s->opts.sink = s->sinks; /* of the first head: cost and masks ask whether there is one */
    if (!es_grid_parse(text, false, &any, &grid, why, sizeof why))
        return read_file(job, text, err);
    const es_status status = read_numbers(s, &grid, err);
    es_grid_free(&grid);
    return status;
}

/* ---- the table ---- */

typedef struct sink_row {
    int64_t head;
    double logit;
    int64_t n;
    es_measured weight;
} sink_row;

static const es_column columns[] = {
    ES_COL(sink_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(sink_row, logit, ES_FORMAT_REAL, "sink logit", "nats"),
    ES_COL(sink_row, n, ES_FORMAT_COUNT, "n", "keys", "the longest prefix"),
    ES_COL(sink_row, weight, ES_FORMAT_REAL, "sink weight", "",
           "exp(logit - lse), mean over queries; the keys have the rest"),
    {0}};
static const es_table_spec sinks_table = {
    "sinks", columns,
    ES_VIEW("Weight of the sinks", "head logit n weight",
            "A sink is one more key with value 0. Entropy, ESS, largest weight, top-k masses and "
            "lse of the other tables count it.",
            .only_with_full = true),
    ES_ROW(sink_row), .keys = "head"};

es_status measure_add_sinks(es_job *job, es_answer *a, es_error *err)
{
    const measure_state *s = job->state;
    char text[ES_FORMAT_SIZE];
    double *weights;
    if (!s->sinks)
        return ES_OK;
    es_table *t = es_answer_table(a, &sinks_table);
    ES_TRY(ES_JOB_NEW(job, weights, s->heads, err));
    for (int64_t h = 0; h < s->heads; h++) {
        const double *weight = measure_sink_weight(s, measure_main(job, h));
        sink_row *r = es_rows_add(t, sink_row);
        if (!r)
            return es_answer_status(a, err);
        *r = (sink_row){.head = h,
                        .logit = s->sinks[h],
                        .n = s->opts.prefixes[s->P - 1],
                        .weight = {weight[0], weight[1]}};
        weights[h] = weight[0];
    }
    es_sort_reals(weights, s->heads);
    if (s->heads == 1)
        es_answer_add_finding(a, "The sink takes %s of the weight.",
                              es_format_number(ES_FORMAT_REAL, weights[0],
                                               measure_sink_weight(s, measure_main(job, 0))[1],
                                               text, sizeof text));
    else
        es_answer_add_finding(
            a, "In the median head the sink takes %.3g of the weight (%.3g to %.3g).",
            es_median_of(weights, s->heads), weights[0], weights[s->heads - 1]);
    return ES_OK;
}
