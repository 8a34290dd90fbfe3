/* Speed as a share of the machine's own peak, which is measured before and after every repetition:
 * the clock of a shared machine moves, the ratio hardly does. */
#include <math.h>
#include <stdlib.h>

#include <esscher/experiment.h>
#include <esscher/peak.h>
#include <esscher/random.h>

#include "bench.h"
#include "talk.h"

static const cli_column columns[] = {
    {"precision", "kernels", "", .format = CLI_TEXT},
    {"d", "d", "", .format = CLI_COUNT},
    {"m", "queries", "", .format = CLI_COUNT},
    {"n", "keys", "", .format = CLI_COUNT},
    {"threads", "threads", "", .format = CLI_COUNT},
    {"seconds", "time", "s", .format = CLI_SHORT},
    {"gflops", "speed", "GF/s", .format = CLI_SHORT,
     .definition = "4 m n d operations per time; median of the repetitions"},
    {"peak_gflops", "peak", "GF/s", .format = CLI_SHORT,
     .definition = "multiply-adds in registers, measured beside each repetition; median"},
    {"percent_of_peak", "of peak", "%", .format = CLI_SHORT,
     .definition = "median over repetitions of speed / peak"},
    {"percent_of_peak_min", "least", "%", .format = CLI_SHORT},
    {"percent_of_peak_max", "most", "%", .format = CLI_SHORT},
    {"relative_error", "error", "", .format = CLI_SHORT,
     .definition = "relative L2 of 16 output rows: f32 against the f64 engine, f64 against the "
                   "reference"},
    {0}};

const cli_table bench_speed_table = {
    .rows = "rows", .title = "Attention: output alone", .columns = columns};

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
        *arrays[i] = cli_alloc_array((size_t)(rows * d), sizeof(float));
        es_normal_rows_f32(&at, rows, d, *arrays[i], &err);
        data->views[i] = es_view_f32(*arrays[i], rows, d);
    }
    data->output = cli_alloc_array((size_t)(sets * m * d), sizeof(double));
}

void bench_data_free(bench_data *data)
{
    free(data->q);
    free(data->k);
    free(data->v);
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

static json_t *make_row(const bench_data *data, int threads, es_dtype precision, int64_t count,
                        double *seconds, double *peaks, double error)
{
    const double gigaflops = 4e-9 * (double)data->m * (double)data->n * (double)data->d;
    double *percents = cli_alloc_array((size_t)count, sizeof *percents);
    for (int64_t i = 0; i < count; i++)
        percents[i] = 100.0 * gigaflops / seconds[i] / peaks[i];
    const bench_spread time = bench_spread_of(seconds, count), peak = bench_spread_of(peaks, count),
                       percent = bench_spread_of(percents, count);
    free(percents);
    json_t *row = json_object();
    json_object_set_new(row, "precision", json_string(es_dtype_name(precision)));
    json_object_set_new(row, "d", json_integer(data->d));
    json_object_set_new(row, "m", json_integer(data->m));
    json_object_set_new(row, "n", json_integer(data->n));
    json_object_set_new(row, "threads", json_integer(threads));
    json_object_set_new(row, "repeats", json_integer(count));
    json_object_set_new(row, "seconds", cli_real(time.median));
    json_object_set_new(row, "gflops", cli_real(gigaflops / time.median));
    json_object_set_new(row, "peak_gflops", cli_real(peak.median));
    json_object_set_new(row, "percent_of_peak", cli_real(percent.median));
    json_object_set_new(row, "percent_of_peak_min", cli_real(percent.min));
    json_object_set_new(row, "percent_of_peak_max", cli_real(percent.max));
    json_object_set_new(row, "percent_of_peak_spread", cli_real(percent.max - percent.min));
    json_object_set_new(row, "relative_error", cli_real(error));
    return row;
}

es_status bench_speed(cli_session *session, const bench_options *o, const bench_data *data,
                      int threads, es_dtype precision, json_t *rows, es_error *err)
{
    es_exec exec = session->exec;
    exec.threads = threads;
    const es_attend_opts opts = {.precision = precision, .exec = &exec};
    double *seconds = cli_alloc_array((size_t)o->repeat, sizeof *seconds);
    double *peaks = cli_alloc_array((size_t)o->repeat, sizeof *peaks);
    double error = NAN;
    es_status status = repeat(session, data, &opts, o->quick, o->repeat, seconds, peaks, err);
    if (status == ES_OK)
        status = sample_error(data, &opts, &error, err);
    if (status == ES_OK)
        json_array_append_new(rows,
                              make_row(data, threads, precision, o->repeat, seconds, peaks, error));
    free(seconds);
    free(peaks);
    return status;
}
