/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding: a few queries over many keys read the keys and the values once, and cannot be faster
 * than memory gives them. That speed is measured before and after every repetition, with the same
 * keys and values. */
#include <stdlib.h>

#include <esscher/machine.h>

#include "bench.h"
#include "talk.h"

static const es_column columns[] = {
    {"precision", "kernels", "", ES_FORMAT_TEXT},
    {"d", "d", "", ES_FORMAT_COUNT},
    {"m", "queries", "", ES_FORMAT_COUNT},
    {"n", "keys", "", ES_FORMAT_COUNT},
    {"threads", "threads", "", ES_FORMAT_COUNT},
    {"seconds", "time", "s", ES_FORMAT_SHORT, "median of the repetitions"},
    {"gigabytes", "speed", "GB/s", ES_FORMAT_SHORT, "keys and values per time"},
    {"memory_gigabytes", "memory", "GB/s", ES_FORMAT_SHORT,
     "reading them and nothing else, measured beside each repetition; median"},
    {"percent_of_memory", "of memory", "%", ES_FORMAT_SHORT,
     "median over repetitions of speed / memory"},
    {"percent_of_memory_min", "least", "%", ES_FORMAT_SHORT},
    {"percent_of_memory_max", "most", "%", ES_FORMAT_SHORT},
    {"repeats", "repetitions", "", ES_FORMAT_COUNT},
    {0}};

static const es_table_view views[] = {
    {"Decoding: few queries, output alone",
     "precision d m n threads seconds gigabytes memory_gigabytes percent_of_memory "
     "percent_of_memory_min percent_of_memory_max"},
    {0}};
static const es_table_spec table = {"decoding", columns, views};

static const int64_t queries[BENCH_DECODE_SHAPES] = {1, 8, 24};

/* Memory, engine, memory: `count` times. */
static es_status repeat(cli_session *session, const bench_data *data, const es_attend_opts *opts,
                        bool quick, int64_t count, double *seconds, double *memory, es_error *err)
{
    const double span = quick ? 0.02 : 0.1;
    const size_t bytes = 2 * (size_t)(data->n * data->d) * sizeof(float);
    const es_attend_out out = {.output = data->output};
    for (int64_t i = 0; i < count; i++) {
        double before, after;
        es_status status = es_bandwidth_measure(opts->exec, data->k, bytes, span, &before, err);
        if (status == ES_OK)
            status = bench_time(session, data, opts, &out, &seconds[i], err);
        if (status == ES_OK)
            status = es_bandwidth_measure(opts->exec, data->k, bytes, span, &after, err);
        if (status != ES_OK)
            return status;
        memory[i] = 0.5 * (before + after);
    }
    return ES_OK;
}

/* Adds a row: time of a step and share of the memory bandwidth. */
static void put_row(es_table *t, const bench_data *data, int threads, int64_t count,
                    double *seconds, double *memory)
{
    const double gigabytes = 8e-9 * (double)data->n * (double)data->d;
    double *percents = cli_alloc_array((size_t)count, sizeof *percents);
    for (int64_t i = 0; i < count; i++)
        percents[i] = 100.0 * gigabytes / seconds[i] / memory[i];
    const bench_spread time = bench_spread_of(seconds, count),
                       most = bench_spread_of(memory, count),
                       percent = bench_spread_of(percents, count);
    free(percents);
    const int64_t at = es_table_row(t);
    es_table_text(t, at, "precision", es_dtype_name(ES_F32));
    es_table_count(t, at, "d", data->d);
    es_table_count(t, at, "m", data->m);
    es_table_count(t, at, "n", data->n);
    es_table_count(t, at, "threads", threads);
    es_table_count(t, at, "repeats", count);
    es_table_real(t, at, "seconds", time.median);
    es_table_real(t, at, "gigabytes", gigabytes / time.median);
    es_table_real(t, at, "memory_gigabytes", most.median);
    es_table_real(t, at, "percent_of_memory", percent.median);
    es_table_real(t, at, "percent_of_memory_min", percent.min);
    es_table_real(t, at, "percent_of_memory_max", percent.max);
}

es_status bench_decode(cli_session *session, const bench_options *o, int64_t n, int64_t d,
                       es_error *err)
{
    double *seconds = cli_alloc_array((size_t)(2 * o->repetitions), sizeof *seconds);
    double *memory = seconds + o->repetitions;
    bench_data data;
    bench_data_new(&data, session->common.seed, queries[BENCH_DECODE_SHAPES - 1], n, d, 1);
    es_status status = ES_OK;
    for (int i = 0; i < BENCH_DECODE_SHAPES; i++) {
        data.m = data.views[0].rows = queries[i];
        for (int64_t t = 0; t < o->threads.count && status == ES_OK; t++) {
            es_exec exec = session->exec;
            exec.threads = (int)o->threads.counts[t];
            const es_attend_opts opts = {.exec = &exec};
            status = repeat(session, &data, &opts, o->quick, o->repetitions, seconds, memory, err);
            if (status == ES_OK)
                put_row(es_answer_table(cli_result(session), &table), &data, exec.threads,
                        o->repetitions, seconds, memory);
        }
    }
    bench_data_free(&data);
    free(seconds);
    return status;
}
