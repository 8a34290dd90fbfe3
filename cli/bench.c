/* esscher bench : speed against the machine's own peak. */
#include "bench.h"

#include <stdlib.h>

#include <esscher/experiment.h>
#include <esscher/machine.h>
#include <esscher/random.h>

#include "talk.h"

static const cli_option options[] = {
    {"quick", 0, CLI_FLAG, NULL, "smaller shapes: seconds instead of minutes",
     .field = offsetof(bench_options, quick)},
    {"d", 0, CLI_COUNTS, "LIST", "head dimensions (default: 32,50,64,128)",
     .field = offsetof(bench_options, d), .min = 1, .max = 4096, .increasing = true},
    {"n", 'n', CLI_WHOLE, "N",
     "queries and keys of the square shapes (default: 16384; quick: 4096)",
     .field = offsetof(bench_options, n), .min = 64, .max = 0x1p24},
    {"repeat", 'r', CLI_WHOLE, "R", "repetitions of everything (default: 5)",
     .field = offsetof(bench_options, repeat), .min = 1, .max = 1000},
    {"threads", 't', CLI_COUNTS, "LIST", "numbers of threads (default: 1 and all processors)",
     .field = offsetof(bench_options, threads), .min = 1, .max = 1024, .increasing = true},
    {"model", 'm', CLI_STRING, "MODEL",
     "instead: the forward pass of this BERT, against its matrix products alone",
     .field = offsetof(bench_options, model)},
    {0}};

static const bench_options defaults = {.repeat = 5};

/* ---- random numbers ---- */

static const cli_column normals_columns[] = {
    {"per_second", "normal numbers", "per second and core", .format = CLI_SHORT},
    {"per_second_min", "least", "", .format = CLI_SHORT},
    {"per_second_max", "most", "", .format = CLI_SHORT},
    {0}};

static const cli_table normals_table = {
    .rows = "normals", .title = "Random numbers, f32, one thread", .columns = normals_columns};

static es_status measure_normals(cli_session *session, const bench_options *o, es_error *err)
{
    enum { ROWS = 4096, COLS = 64 };
    float *x = cli_alloc_array((size_t)ROWS * COLS, sizeof *x);
    double *rates = cli_alloc_array((size_t)o->repeat, sizeof *rates);
    es_status status = ES_OK;
    es_address at = {.seed = session->common.seed, .experiment = ES_EXPERIMENT_BENCH};
    for (int64_t i = 0; i < o->repeat && status == ES_OK; i++) {
        const double start = cli_seconds();
        double count = 0.0;
        for (; status == ES_OK && cli_seconds() - start < 0.05; count += ROWS * COLS, at.cell++)
            status = es_normal_rows_f32(&at, ROWS, COLS, x, err);
        rates[i] = count / (cli_seconds() - start);
    }
    const bench_spread rate = bench_spread_of(rates, o->repeat);
    free(rates);
    free(x);
    json_t *normals = json_object();
    json_object_set_new(normals, "per_second", cli_real(rate.median));
    json_object_set_new(normals, "per_second_min", cli_real(rate.min));
    json_object_set_new(normals, "per_second_max", cli_real(rate.max));
    json_object_set_new(session->answer, "normals", normals);
    json_object_set_new(session->answer, "normals_per_second", cli_real(rate.median));
    return status;
}

/* ---- all of it ---- */

static const cli_table *const views[] = {&cli_cost_table, &bench_speed_table, &bench_costs_table,
                                         &normals_table,  &bench_model_table, NULL};

/* The shapes: one square for each d, and few queries against many keys. */
typedef struct shape {
    int64_t m, n, d;
} shape;

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

static double larger(double a, double b) { return a > b ? a : b; }

/* All calls of es_attend() that will be made, and the most memory they take at one time. */
static cli_cost estimate(const cli_session *session, const bench_options *o, double *calls)
{
    const double n = (double)o->n, runs = (double)(2 * o->threads.count * o->repeat);
    const double passes = 6.0 + 24.0 / 4.0; /* of the costs: six whole, 24 of a quarter */
    cli_cost cost = {.flops = 4.0 * n * n * 64.0 * passes * (double)o->repeat,
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
    *calls = runs * (double)(o->d.count + 1) + 19.0 * (double)o->repeat;
    return cost;
}

static es_status run_shapes(cli_session *session, const bench_options *o, json_t *rows,
                            es_error *err)
{
    static const es_dtype precisions[] = {ES_F32, ES_F64};
    es_status status = ES_OK;
    for (int64_t i = 0; i <= o->d.count && status == ES_OK; i++) {
        const shape s = shape_at(o, i);
        bench_data data;
        bench_data_new(&data, session->common.seed, s.m, s.n, s.d, 1);
        for (int p = 0; p < 2; p++)
            for (int64_t t = 0; t < o->threads.count && status == ES_OK; t++)
                status = bench_speed(session, o, &data, (int)o->threads.counts[t], precisions[p],
                                     rows, err);
        bench_data_free(&data);
    }
    return status;
}

/* The peak that stands for the machine: f32, most threads, from the first shape. */
static json_t *peak_of(const json_t *rows, int64_t threads)
{
    const json_t *row = json_array_get(rows, (size_t)threads - 1);
    return json_incref(json_object_get(row, "peak_gflops"));
}

/* Defaults that depend on other options or on the machine. */
static void complete(bench_options *o, const cli_session *session)
{
    char why[64];
    const cli_grid_rule rule = {.min = 1, .max = 4096, .increasing = true};
    const int all = session->exec.threads;
    if (!o->n)
        o->n = o->quick ? 4096 : 16384;
    if (!o->d.count)
        cli_grid_parse("32,50,64,128", true, &rule, &o->d, why, (int)sizeof why);
    if (!es_build_info().openmp) /* whatever was asked for, one thread will work */
        cli_grid_free(&o->threads);
    if (!o->threads.count) {
        char text[32];
        snprintf(text, sizeof text, all > 1 ? "1,%d" : "%d", all);
        cli_grid_parse(text, true, &rule, &o->threads, why, (int)sizeof why);
    }
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    bench_options *o = given;
    complete(o, session);
    session->exec.threads = (int)o->threads.counts[o->threads.count - 1];
    if (o->model && session->common.dry_run)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "bench.options", "esscher encode --dry-run",
                        "--dry-run is for attention, not for --model");
    if (o->model)
        return bench_model(session, o, err);
    double calls;
    const cli_cost cost = estimate(session, o, &calls);
    if (session->common.dry_run)
        return cli_cost_answer(session, &cost, err);
    es_status status = cli_cost_admit(session, &cost, err);
    if (status != ES_OK)
        return status;
    session->progress.parts = calls;
    json_t *rows = json_array(), *costs = json_array();
    json_object_set_new(session->answer, "rows", rows);
    json_object_set_new(session->answer, "costs", costs);
    status = run_shapes(session, o, rows, err);
    if (status == ES_OK)
        status = bench_costs(session, o, costs, err);
    if (status == ES_OK)
        status = measure_normals(session, o, err);
    if (status == ES_OK)
        json_object_set_new(session->answer, "peak_gflops", peak_of(rows, o->threads.count));
    return status;
}

static const char *const examples[] = {"esscher bench --quick", "esscher bench --d 64 --threads 1",
                                       "esscher bench --json > bench.json",
                                       "esscher bench --model models/minilm", NULL};

const cli_command cli_bench = {
    .name = "bench",
    .summary = "speed of attention against the machine's own peak",
    .usage = "[options]",
    .about = "Times exact attention on standard normal inputs and states it as a share of the "
             "multiply-add peak of this machine, which is measured beside every repetition; with "
             "the error of what was computed. Then what statistics, prefixes and score scales "
             "cost beside the output alone, and how fast random numbers come.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_ISA | CLI_TAKES_SEED | CLI_TAKES_MEMORY |
              CLI_TAKES_DRY_RUN | CLI_TAKES_PROGRESS,
    .defaults = &defaults,
    .size = sizeof(bench_options),
    .views = views,
    .run = run,
};
