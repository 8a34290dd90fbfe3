/* SPDX-License-Identifier: Apache-2.0 */
/* esscher bench : speed against the machine's own peak. */
#include <math.h>
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include <esscher/machine.h>
#include <esscher/random.h>

#include "talk.h"

static const cli_option options[] = {
    {"quick", 0, CLI_FLAG, NULL, "smaller shapes: seconds instead of minutes",
     .field = offsetof(bench_options, quick)},
    {"dim", 'd', CLI_COUNTS, "LIST", "head dimensions", .field = offsetof(bench_options, d),
     .default_value = "32,50,64,128", .min = 1, .max = 4096, .increasing = true, .alias = "d"},
    {"n", 'n', CLI_WHOLE, "N", "number of queries and of keys; with --model, tokens of a block",
     .field = offsetof(bench_options, n), .min = 64, .max = 0x1p24,
     .default_note = "16384; quick: 4096; model: 512"},
    {"repetitions", 0, CLI_WHOLE, "R", "repetitions of every measurement",
     .field = offsetof(bench_options, repetitions), .default_value = "5", .min = 1, .max = 1000,
     .renamed_from = "repeat"},
    {"threads", 't', CLI_COUNTS, "LIST", "numbers of threads",
     .field = offsetof(bench_options, threads), .default_note = "1 and all processors", .min = 1,
     .max = 1024, .increasing = true},
    {"model", 'm', ES_PARAM_MODEL, "MODEL",
     "time the forward pass of this model instead, relative to its matrix products",
     .field = offsetof(bench_options, model)},
    {"compare-time", 0, CLI_NUMBER, "SECONDS",
     "time that your own kernel takes for --n queries and keys of one head of --dim: its speed "
     "beside ours and the machine's peak",
     .field = offsetof(bench_options, compare_time), .min = 1e-9, .max = 1e9,
     .default_note = "none"},
    {0}};

/* ---- random numbers ---- */

static const es_column normals_columns[] = {
    {"per_second", "normal numbers", "per second and core", ES_FORMAT_SHORT},
    {"per_second_min", "least", "", ES_FORMAT_SHORT},
    {"per_second_max", "most", "", ES_FORMAT_SHORT},
    {0}};

static const es_table_view normals_views[] = {{"Random numbers, f32, one thread"}, {0}};
static const es_table_spec normals_table = {"normals", normals_columns, normals_views,
                                            .record = true};

/* Measures how many random normals per second one thread and all threads draw. */
static es_status measure_normals(cli_session *session, const bench_options *o, es_error *err)
{
    enum { ROWS = 4096, COLS = 64 };
    float *x = cli_alloc_array((size_t)ROWS * COLS, sizeof *x);
    double *rates = cli_alloc_array((size_t)o->repetitions, sizeof *rates);
    es_status status = ES_OK;
    es_address at = {.seed = session->common.seed, .experiment = ES_EXPERIMENT_BENCH};
    for (int64_t i = 0; i < o->repetitions && status == ES_OK; i++) {
        const double start = cli_seconds();
        double count = 0.0;
        for (; status == ES_OK && cli_seconds() - start < 0.05; count += ROWS * COLS, at.cell++)
            status = es_normal_rows_f32(&at, ROWS, COLS, x, err);
        rates[i] = count / (cli_seconds() - start);
    }
    const bench_spread rate = bench_spread_of(rates, o->repetitions);
    free(rates);
    free(x);
    es_table *t = es_answer_table(cli_result(session), &normals_table);
    const int64_t at_row = es_table_row(t);
    es_table_real(t, at_row, "per_second", rate.median);
    es_table_real(t, at_row, "per_second_min", rate.min);
    es_table_real(t, at_row, "per_second_max", rate.max);
    es_answer_real(session->result, "normals_per_second", rate.median);
    return status;
}

/* ---- all of it ---- */

/* The shapes: one square for each d, and few queries against many keys. */
typedef struct shape {
    int64_t m, n, d;
} shape;

/* Returns shape i: square ones for each dimension, then one with few queries and many keys. */
static shape shape_at(const bench_options *o, int64_t i)
{
    if (i < o->d.count)
        return (shape){o->n, o->n, o->d.counts[i]};
    return (shape){1024, o->n * 16, 64};
}

/* The largest memory one call takes, counted for f64 kernels, which take more. */
static double work_of(const cli_session *session, shape s, int64_t prefixes)
{
    int64_t list[12];
    for (int64_t i = 0; i < 12; i++)
        list[i] = s.n - 11 + i;
    const es_attend_opts opts = {.precision = ES_F64,
                                 .prefixes = prefixes > 1 ? list : NULL,
                                 .n_prefixes = prefixes,
                                 .exec = &session->exec};
    es_attend_plan plan;
    es_error err;
    return es_attend_plan_for(s.m, s.n, s.d, s.d, &opts, prefixes == 1, &plan, &err) == ES_OK
               ? (double)plan.bytes
               : 0.0;
}

/* Returns the larger of two numbers. */
static double larger(double a, double b) { return a > b ? a : b; }

/* All calls of es_attend() that will be made, and the most memory they take at one time. */
static es_cost estimate(const cli_session *session, const bench_options *o, double *calls)
{
    const double n = (double)o->n, runs = (double)(2 * o->threads.count * o->repetitions);
    const double passes = 6.0 + 24.0 / 4.0; /* of the costs: six whole, 24 of a quarter */
    es_cost cost = {.flops = 4.0 * n * n * 64.0 * passes * (double)o->repetitions,
                    .output_bytes = (12.0 * 64.0 + 5.0) * n * 8.0,
                    .work_bytes = work_of(session, (shape){o->n, o->n, 64}, 12)};
    for (int64_t i = 0; i <= o->d.count; i++) {
        const shape s = shape_at(o, i);
        const double m = (double)s.m, d = (double)s.d;
        cost.flops += 4.0 * m * (double)s.n * d * runs;
        cost.input_bytes = larger(cost.input_bytes, 4.0 * (m + 2.0 * (double)s.n) * d);
        cost.output_bytes = larger(cost.output_bytes, 8.0 * m * d);
        cost.work_bytes = larger(cost.work_bytes, work_of(session, s, 1));
    }
    *calls = runs * (double)(o->d.count + 1) + 19.0 * (double)o->repetitions +
             (double)(BENCH_DECODE_SHAPES * o->threads.count * o->repetitions);
    return cost;
}

/* Times every shape in both precisions. */
static es_status run_shapes(cli_session *session, const bench_options *o, es_error *err)
{
    static const es_dtype precisions[] = {ES_F32, ES_F64};
    es_status status = ES_OK;
    for (int64_t i = 0; i <= o->d.count && status == ES_OK; i++) {
        const shape s = shape_at(o, i);
        bench_data data;
        bench_data_new(&data, session->common.seed, s.m, s.n, s.d, 1);
        for (int p = 0; p < 2; p++)
            for (int64_t t = 0; t < o->threads.count && status == ES_OK; t++)
                status =
                    bench_speed(session, o, &data, (int)o->threads.counts[t], precisions[p], err);
        bench_data_free(&data);
    }
    return status;
}

/* Defaults that depend on other options or on the machine: 1 and all processors. */
static void complete(bench_options *o, const cli_session *session, int64_t threads[2],
                     double same[2])
{
    const int all = session->exec.threads;
    if (!o->n && !o->model)
        o->n = o->quick ? 4096 : 16384;
    if (o->threads.count && es_build_info().openmp)
        return;
    threads[0] = all > 1 && es_build_info().openmp ? 1 : all; /* without OpenMP one works */
    threads[1] = all;
    same[0] = (double)threads[0];
    same[1] = (double)all;
    o->threads = (es_grid){.count = threads[0] == all ? 1 : 2, .counts = threads, .reals = same};
}

/* Runs all measurements, or only the model's. */
static es_status run_all(cli_session *session, const bench_options *o, es_error *err)
{
    session->exec.threads = (int)o->threads.counts[o->threads.count - 1];
    if (!isnan(o->compare_time) && (o->model || o->d.count != 1))
        return cli_fail(err, ES_E_ARGUMENT, NULL, "bench.options",
                        "--compare-time 0.5 --dim 64 --n 16384",
                        o->model ? "--compare-time is for attention, not for --model"
                                 : "--compare-time needs one --dim: that of your kernel's run");
    if (o->model && session->common.dry_run)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "bench.options", "esscher encode --dry-run",
                        "--dry-run is for attention, not for --model");
    if (o->model)
        return bench_model(session, o, err);
    double calls;
    bool done;
    const es_cost cost = estimate(session, o, &calls);
    es_status status = cli_admit(session, &cost, &done, err);
    if (status != ES_OK || done)
        return status;
    session->progress.parts = calls;
    es_answer_name(cli_result(session), session->command->name, (int64_t)session->common.seed);
    status = run_shapes(session, o, err);
    if (status == ES_OK && !isnan(o->compare_time))
        bench_compare_time(session, o);
    if (status == ES_OK) {
        const shape many = shape_at(o, o->d.count);
        status = bench_decode(session, o, many.n, many.d, err);
    }
    if (status == ES_OK)
        status = bench_costs(session, o, err);
    if (status == ES_OK)
        status = measure_normals(session, o, err);
    if (status == ES_OK)
        /* the headline figure: f32, most threads, from the first shape */
        es_answer_real(session->result, "peak_gflops",
                       es_table_get(es_answer_find(session->result, "rows"), o->threads.count - 1,
                                    "peak_gflops"));
    return status;
}

/* Completes the options and runs the measurements. */
static es_status run(cli_session *session, void *given, es_error *err)
{
    bench_options *o = given;
    int64_t threads[2];
    double same[2];
    const es_grid given_threads = o->threads; /* freed at the end */
    complete(o, session, threads, same);
    const es_status status = run_all(session, o, err);
    o->threads = given_threads;
    return status;
}
static const char *const examples[] = {
    "esscher bench --quick",
    "esscher bench --dim 64 --threads 1",
    "esscher bench --json > bench.json",
    "esscher bench --model models/minilm",
    "esscher bench --dim 64 --n 16384 --threads 1 --compare-time 0.5",
    NULL};

const cli_command cli_bench = {
    .name = "bench",
    .summary = "how fast attention runs here, relative to the machine's peak",
    .group = ES_GROUP_ARRAYS,
    .usage = "[options]",
    .about = "Times exact attention on standard normal inputs, as a share of the multiply-add peak "
             "of this machine, which is measured next to every repetition. Also prints the error "
             "of the computed output, the extra cost of statistics, prefixes and score scales, and "
             "the speed of the random numbers.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_ISA | CLI_TAKES_SEED | CLI_TAKES_MEMORY |
              CLI_TAKES_DRY_RUN | CLI_TAKES_PROGRESS,
    .size = sizeof(bench_options),
    .run = run,
};
