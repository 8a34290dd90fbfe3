/* SPDX-License-Identifier: Apache-2.0 */
/* Speed as a share of the machine's own peak, which is measured before and after every repetition:
 * the clock of a shared machine moves, the ratio hardly does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <esscher/machine.h>
#include <esscher/random.h>

#include "bench.h"
#include "talk.h"

static const es_column columns[] = {
    {"precision", "kernels", "", ES_FORMAT_TEXT},
    {"d", "d", "", ES_FORMAT_COUNT},
    {"m", "queries", "", ES_FORMAT_COUNT},
    {"n", "keys", "", ES_FORMAT_COUNT},
    {"threads", "threads", "", ES_FORMAT_COUNT},
    {"seconds", "time", "s", ES_FORMAT_SHORT},
    {"gflops", "speed", "GF/s", ES_FORMAT_SHORT,
     "4 m n d operations per time; median of the repetitions"},
    {"peak_gflops", "peak", "GF/s", ES_FORMAT_SHORT,
     "multiply-adds in registers, measured beside each repetition; median"},
    {"percent_of_peak", "of peak", "%", ES_FORMAT_SHORT, "median over repetitions of speed / peak"},
    {"percent_of_peak_min", "least", "%", ES_FORMAT_SHORT},
    {"percent_of_peak_max", "most", "%", ES_FORMAT_SHORT},
    {"percent_of_peak_spread", "spread", "%", ES_FORMAT_SHORT, "most less least"},
    {"repeats", "repetitions", "", ES_FORMAT_COUNT},
    {"relative_error", "error", "", ES_FORMAT_SHORT,
     "relative L2 of 16 output rows: f32 against the f64 engine, f64 against the "
     "reference"},
    {0}};

static const es_table_view views[] = {
    {"Attention: output alone",
     "precision d m n threads seconds gflops peak_gflops percent_of_peak percent_of_peak_min "
     "percent_of_peak_max relative_error"},
    {0}};
const es_table_spec bench_speed_table = {"rows", columns, views};

/* Compares two doubles for qsort(). */
static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_spread bench_spread_of(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return (bench_spread){.median = 0.5 * (values[(count - 1) / 2] + values[count / 2]),
                          .min = values[0],
                          .max = values[count - 1]};
}

void bench_data_new(bench_data *data, uint64_t seed, int64_t m, int64_t n, int64_t d, int64_t sets)
{
    *data = (bench_data){.m = m, .n = n, .d = d};
    float **arrays[] = {&data->q, &data->k, &data->v};
    for (int i = 0; i < 3; i++) {
        const int64_t rows = i == 0 ? m : n;
        es_error err;
        const es_address at = {
            .seed = seed, .experiment = ES_EXPERIMENT_BENCH_INPUTS, .cell = (uint64_t)i};
        *arrays[i] =
            i == 2 ? data->k + n * d : cli_alloc_array((size_t)((1 + i) * rows * d), sizeof(float));
        es_normal_rows_f32(&at, rows, d, *arrays[i], &err);
        data->views[i] = es_view_f32(*arrays[i], rows, d);
    }
    data->output = cli_alloc_array((size_t)(sets * m * d), sizeof(double));
}

void bench_data_free(bench_data *data)
{
    free(data->q);
    free(data->k);
    free(data->output);
}

es_status bench_time(cli_session *session, const bench_data *data, const es_attend_opts *opts,
                     const es_attend_out *out, double *seconds, es_error *err)
{
    const double start = cli_seconds();
    const es_status status =
        es_attend(&data->views[0], &data->views[1], &data->views[2], opts, out, err);
    *seconds = cli_seconds() - start;
    session->progress.part += 1.0;
    return status;
}

/* Relative L2 error of 16 rows of data->output, spread over the queries. */
static es_status sample_error(const bench_data *data, const es_attend_opts *opts, double *error,
                              es_error *err)
{
    enum { ROWS = 16 };
    const int64_t rows = data->m < ROWS ? data->m : ROWS;
    const int64_t stride = rows > 1 ? (data->m - 1) / (rows - 1) : 1;
    es_view q = data->views[0];
    q.rows = rows;
    q.row_stride *= stride;
    double *exact = cli_alloc_array((size_t)(rows * data->d), sizeof(double));
    const es_attend_out out = {.output = exact};
    es_attend_opts judge = *opts;
    judge.precision = ES_F64;
    const es_status status = (opts->precision == ES_F32 ? es_attend : es_attend_reference)(
        &q, &data->views[1], &data->views[2], &judge, &out, err);
    double off = 0.0, total = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t c = 0; c < data->d; c++) {
            const double x = exact[i * data->d + c];
            const double y = data->output[i * stride * data->d + c];
            off += (x - y) * (x - y);
            total += x * x;
        }
    }
    *error = sqrt(off / total);
    free(exact);
    return status;
}

/* Peak, engine, peak: `count` times. */
static es_status repeat(cli_session *session, const bench_data *data, const es_attend_opts *opts,
                        bool quick, int64_t count, double *seconds, double *peaks, es_error *err)
{
    const double burn = quick ? 0.02 : 0.1;
    const es_attend_out out = {.output = data->output};
    for (int64_t i = 0; i < count; i++) {
        double before, after;
        es_status status = es_peak_measure(opts->exec, opts->precision, burn, &before, err);
        if (status == ES_OK)
            status = bench_time(session, data, opts, &out, &seconds[i], err);
        if (status == ES_OK)
            status = es_peak_measure(opts->exec, opts->precision, burn, &after, err);
        if (status != ES_OK)
            return status;
        peaks[i] = 0.5 * (before + after);
    }
    return ES_OK;
}

/* Adds a row: speed and share of the peak. */
static void put_row(es_table *t, const bench_data *data, int threads, es_dtype precision,
                    int64_t count, double *seconds, double *peaks, double error)
{
    const double gigaflops = 4e-9 * (double)data->m * (double)data->n * (double)data->d;
    double *percents = cli_alloc_array((size_t)count, sizeof *percents);
    for (int64_t i = 0; i < count; i++)
        percents[i] = 100.0 * gigaflops / seconds[i] / peaks[i];
    const bench_spread time = bench_spread_of(seconds, count), peak = bench_spread_of(peaks, count),
                       percent = bench_spread_of(percents, count);
    free(percents);
    const int64_t at = es_table_row(t);
    es_table_text(t, at, "precision", (es_dtype_name(precision)));
    es_table_count(t, at, "d", (data->d));
    es_table_count(t, at, "m", (data->m));
    es_table_count(t, at, "n", (data->n));
    es_table_count(t, at, "threads", (threads));
    es_table_count(t, at, "repeats", (count));
    es_table_real(t, at, "seconds", (time.median));
    es_table_real(t, at, "gflops", (gigaflops / time.median));
    es_table_real(t, at, "peak_gflops", (peak.median));
    es_table_real(t, at, "percent_of_peak", (percent.median));
    es_table_real(t, at, "percent_of_peak_min", (percent.min));
    es_table_real(t, at, "percent_of_peak_max", (percent.max));
    es_table_real(t, at, "percent_of_peak_spread", (percent.max - percent.min));
    es_table_real(t, at, "relative_error", (error));
}

es_status bench_speed(cli_session *session, const bench_options *o, const bench_data *data,
                      int threads, es_dtype precision, es_error *err)
{
    es_exec exec = session->exec;
    exec.threads = threads;
    const es_attend_opts opts = {.precision = precision, .exec = &exec};
    double *seconds = cli_alloc_array((size_t)o->repetitions, sizeof *seconds);
    double *peaks = cli_alloc_array((size_t)o->repetitions, sizeof *peaks);
    double error = NAN;
    es_status status = repeat(session, data, &opts, o->quick, o->repetitions, seconds, peaks, err);
    if (status == ES_OK)
        status = sample_error(data, &opts, &error, err);
    if (status == ES_OK)
        put_row(es_answer_table(cli_result(session), &bench_speed_table), data, threads, precision,
                o->repetitions, seconds, peaks, error);
    free(seconds);
    free(peaks);
    return status;
}

/* ---- another kernel ---- */

static const es_column theirs_columns[] = {
    {"precision", "ours in", "", ES_FORMAT_TEXT},
    {"threads", "threads", "", ES_FORMAT_COUNT},
    {"seconds", "yours", "s", ES_FORMAT_SHORT, "as --compare-time says"},
    {"gflops", "speed", "GF/s", ES_FORMAT_SHORT, "4 m n d operations per time"},
    {"percent_of_peak", "of peak", "%", ES_FORMAT_SHORT,
     "of the multiply-add peak of these threads in this precision"},
    {"our_seconds", "ours", "s", ES_FORMAT_SHORT},
    {"times_ours", "yours/ours", "", ES_FORMAT_SHORT, "time of yours over ours"},
    {0}};
static const es_table_view theirs_views[] = {{"Your kernel"}, {0}};
static const es_table_spec theirs_table = {"yours", theirs_columns, theirs_views};

void bench_compare_time(cli_session *session, const bench_options *o)
{
    const es_table *ours = es_answer_find(session->result, "rows");
    es_table *t = es_answer_table(session->result, &theirs_table);
    const double n = (double)o->n, d = (double)o->d.counts[0], time = o->compare_time;
    const double gflops = 4e-9 * n * n * d / time;
    for (int64_t i = 0; i < 2 * o->threads.count; i++) { /* both precisions of the first shape */
        const int64_t at = es_table_row(t);
        es_table_text(t, at, "precision", es_table_get_text(ours, i, "precision"));
        es_table_count(t, at, "threads", (int64_t)es_table_get(ours, i, "threads"));
        es_table_real(t, at, "seconds", time);
        es_table_real(t, at, "gflops", gflops);
        es_table_real(t, at, "percent_of_peak",
                      100.0 * gflops / es_table_get(ours, i, "peak_gflops"));
        es_table_real(t, at, "our_seconds", es_table_get(ours, i, "seconds"));
        es_table_real(t, at, "times_ours", time / es_table_get(ours, i, "seconds"));
    }
}
