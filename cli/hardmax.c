/* esscher hardmax : infinite score scale, where attention converges like 1/sqrt(log n). */
#include <esscher/experiment.h>
#include <esscher/hardmax.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "grid.h"
#include "run_file.h"
#include "talk.h"

typedef struct hardmax_options {
    cli_grid n;
    int64_t replicates, dim, directions;
    double sigma;
    int queries;
    cli_run_options run;
} hardmax_options;

static const hardmax_options defaults = {.dim = 1, .directions = 256, .sigma = 1.0};

static const char *const queries_names[] = {"population", "self", NULL};

static const cli_option options[] = {
    {"n", 'n', CLI_COUNTS, "GRID",
     "tokens (default: 10..1e9*9, or 10..1e5*5 where they are drawn, in several dimensions). Up to "
     "1e18 in one dimension, 1e7 in several",
     .field = offsetof(hardmax_options, n), .min = 1, .max = 1e18, .increasing = true},
    {"replicates", 'r', CLI_WHOLE, "R",
     "independent samples (default: 10000; 200 in several dimensions)",
     .field = offsetof(hardmax_options, replicates), .min = 1, .max = 1e8},
    {"dim", 'd', CLI_WHOLE, "D", "dimensions of a token (default: 1)",
     .field = offsetof(hardmax_options, dim), .min = 1, .max = 64},
    {"sigma", 0, CLI_NUMBER, "S", "standard deviation of each coordinate (default: 1)",
     .field = offsetof(hardmax_options, sigma), .min = 1e-100, .max = 1e100},
    {"queries", 0, CLI_CHOICE, "WHICH",
     "population: infinitely many, of the tokens' law (default); self: the tokens themselves, in "
     "one dimension",
     .field = offsetof(hardmax_options, queries), .choices = queries_names},
    {"directions", 0, CLI_WHOLE, "M",
     "in several dimensions: random directions that stand for all (default: 256)",
     .field = offsetof(hardmax_options, directions), .min = 2, .max = 65536},
    CLI_RUN_OPTIONS(hardmax_options, run),
    {0}};

static const cli_column columns[] = {
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"mean_abs", "mean |G|", "", .format = CLI_REAL, .error = "mean_abs_se",
     .definition = "size of the mean output over all queries, averaged over replicates, +- one "
                   "standard error; the limit is 0"},
    {"rms", "rms |G|", "", .format = CLI_REAL, .error = "rms_se",
     .definition = "root of its mean square; in several dimensions without the bias that finitely "
                   "many directions give the mean"},
    {"exact", "exact", "", .format = CLI_REAL,
     .definition = "expected value of |G|, by quadrature (one dimension)"},
    {"z", "z", "errors", .format = CLI_SHORT,
     .definition = "mean |G| minus exact, in standard errors"},
    {"asymptotic", "leading", "", .format = CLI_REAL,
     .definition = "leading term for large n: of the mean, sigma ln 2 / sqrt(2 ln n), in one "
                   "dimension; of the rms, of order (ln n)^(-(d+1)/4), in several"},
    {"second_order", "second order", "", .format = CLI_REAL,
     .definition = "sigma ln 2 / hazard of the normal law where the largest token is (one "
                   "dimension, population queries)"},
    {0}};

static const cli_table table = {
    .rows = "rows", .title = "Attention at infinite score scale", .columns = columns};
static const cli_table *const views[] = {&table, NULL};

/* ---- what is asked ---- */

/* Options that contradict each other, and defaults that depend on another option. */
static es_status complete(hardmax_options *o, es_error *err)
{
    char why[64];
    const cli_grid_rule rule = {.min = 1, .max = 1e18, .increasing = true};
    if (o->dim > 1 && o->queries == ES_HARDMAX_SELF)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "hardmax.options", "leave --dim or --queries out",
                        "--queries self works in one dimension");
    if (!o->replicates)
        o->replicates = o->dim > 1 ? 200 : 10000;
    if (!o->n.count)
        cli_grid_parse(o->dim > 1 ? "10..1e5*5" : "10..1e9*9", true, &rule, &o->n, why,
                       (int)sizeof why);
    if (o->dim > 1 && o->n.counts[o->n.count - 1] > ES_HARDMAX_MOST_TOKENS)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "hardmax.options", "up to 1e7, or one dimension",
                        "--n %.10g: in several dimensions the tokens are drawn",
                        o->n.reals[o->n.count - 1]);
    return ES_OK;
}

/* Draws are kept, and each thread has its directions. A draw in one dimension costs some two
 * thousand operations: logarithms, and the quantile by Newton's method. */
static cli_cost estimate(const cli_session *session, const hardmax_options *o)
{
    const double draws = (double)o->replicates * (double)o->n.count;
    const double d = (double)o->dim, M = (double)o->directions;
    cli_cost cost = {.output_bytes = 256.0 * (double)o->n.count,
                     .work_bytes = draws * sizeof(es_hardmax_draw) + 4096.0,
                     .flops = 2000.0 * draws};
    if (o->dim > 1) {
        cost.flops = 2.0 * (double)o->replicates * o->n.reals[o->n.count - 1] * M * (d + 1.0);
        cost.work_bytes += (double)session->exec.threads * 8.0 * (64.0 * d + d * M + 3.0 * M);
    }
    return cost;
}

/* ---- the answer ---- */

static es_status put_theory(const hardmax_options *o, double constant, const es_hardmax_row *r,
                            json_t *row, es_error *err)
{
    es_num exact = {.val = NAN, .err = NAN};
    double asymptotic = es_hardmax_rms(o->dim, r->n, o->sigma, constant), second = (double)NAN;
    if (o->dim == 1) {
        const es_status status =
            es_hardmax_exact((es_hardmax_queries)o->queries, r->n, o->sigma, &exact, err);
        if (status != ES_OK)
            return status;
        asymptotic = es_hardmax_leading(r->n, o->sigma);
        if (o->queries == ES_HARDMAX_POPULATION)
            second = es_hardmax_second(r->n, o->sigma);
    }
    json_object_set_new(row, "exact", cli_real(exact.val));
    json_object_set_new(row, "exact_error", cli_real(exact.err));
    json_object_set_new(row, "z", cli_real((r->mean_abs - exact.val) / r->mean_abs_se));
    json_object_set_new(row, "asymptotic", cli_real(asymptotic));
    json_object_set_new(row, "second_order", cli_real(second));
    return ES_OK;
}

static es_status put_rows(cli_session *session, const hardmax_options *o,
                          const es_hardmax_row *rows, es_error *err)
{
    double constant = (double)NAN;
    es_status status = o->dim > 1 ? es_hardmax_steiner(o->dim, &constant, err) : ES_OK;
    json_t *list = json_array();
    json_object_set_new(session->answer, "rows", list);
    for (int64_t i = 0; i < o->n.count && status == ES_OK; i++) {
        json_t *row = json_object();
        json_object_set_new(row, "n", json_integer(rows[i].n));
        json_object_set_new(row, "mean_abs", cli_real(rows[i].mean_abs));
        json_object_set_new(row, "mean_abs_se", cli_real(rows[i].mean_abs_se));
        json_object_set_new(row, "rms", cli_real(rows[i].rms));
        json_object_set_new(row, "rms_se", cli_real(rows[i].rms_se));
        status = put_theory(o, constant, &rows[i], row, err);
        json_array_append_new(list, row);
        if (status == ES_OK && cli_interrupted())
            status = ES_E_INTERRUPTED;
    }
    return status;
}

static void put_question(cli_session *session, const hardmax_options *o)
{
    json_object_set_new(session->answer, "dim", json_integer(o->dim));
    json_object_set_new(session->answer, "sigma", cli_real(o->sigma));
    json_object_set_new(session->answer, "queries", json_string(queries_names[o->queries]));
    json_object_set_new(session->answer, "replicates", json_integer(o->replicates));
    json_object_set_new(session->answer, "directions",
                        o->dim > 1 ? json_integer(o->directions) : json_null());
}

/* ---- the simulation, in cells ---- */

enum { NUMBERS = 4 };

/* In one dimension a cell is one n, whose draws depend on no other n; in several, where the n are
 * prefixes of one sample, all of them together. */
static es_status simulate_cell(cli_session *session, const hardmax_options *o, int64_t first,
                               int64_t count, es_hardmax_row *rows, es_error *err)
{
    const es_hardmax_opts opts = {.seed = session->common.seed,
                                  .experiment = ES_EXPERIMENT_HARDMAX,
                                  .queries = (es_hardmax_queries)o->queries,
                                  .dim = o->dim,
                                  .sigma = o->sigma,
                                  .replicates = o->replicates,
                                  .directions = o->directions,
                                  .exec = &session->exec};
    return es_hardmax_run(&opts, o->n.counts + first, count, rows, err);
}

static void pack(const es_hardmax_row *row, double *out)
{
    const double numbers[NUMBERS] = {row->mean_abs, row->mean_abs_se, row->rms, row->rms_se};
    memcpy(out, numbers, sizeof numbers);
}

static es_hardmax_row unpack(const double *from, int64_t n)
{
    return (es_hardmax_row){
        .n = n, .mean_abs = from[0], .mean_abs_se = from[1], .rms = from[2], .rms_se = from[3]};
}

static es_status simulate(cli_session *session, const hardmax_options *o, cli_run_file *file,
                          es_hardmax_row *rows, es_error *err)
{
    static const char *const names[NUMBERS] = {"mean_abs", "mean_abs_se", "rms", "rms_se"};
    const int64_t count = o->dim > 1 ? o->n.count : 1, cells = o->n.count / count;
    double *numbers = cli_alloc_array((size_t)(NUMBERS * count), sizeof *numbers);
    int64_t stage, cell = 0;
    session->progress.parts = (double)cells;
    es_status status =
        cli_run_stage(file, o->dim > 1 ? "all n" : "n", count, NUMBERS, names, &stage, err);
    for (; cell < cells && status == ES_OK; cell++) {
        bool done;
        session->progress.part = (double)cell;
        status = cli_run_find(file, stage, cell, numbers, &done, err);
        if (status == ES_OK && !done) {
            status = simulate_cell(session, o, cell * count, count, rows + cell * count, err);
            for (int64_t i = 0; i < count && status == ES_OK; i++)
                pack(&rows[cell * count + i], numbers + NUMBERS * i);
            if (status == ES_OK)
                status = cli_run_keep(file, stage, cell, numbers, err);
        }
        for (int64_t i = 0; i < count && status == ES_OK; i++)
            rows[cell * count + i] = unpack(numbers + NUMBERS * i, o->n.counts[cell * count + i]);
        if (status == ES_E_INTERRUPTED)
            status =
                cli_run_interrupted(file, cell, cells, o->dim > 1 ? "runs" : "values of n", err);
    }
    free(numbers);
    return status;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    hardmax_options *o = given;
    es_status status = complete(o, err);
    if (status != ES_OK)
        return status;
    const cli_cost cost = estimate(session, o);
    status = cli_cost_admit(session, &cost, err);
    if (status != ES_OK)
        return status;
    cli_run_file file;
    es_hardmax_row *rows = cli_alloc_array((size_t)o->n.count, sizeof *rows);
    status = cli_run_open(session, o, &o->run, &file, err);
    if (status == ES_OK)
        status = simulate(session, o, &file, rows, err);
    if (status == ES_OK) {
        put_question(session, o);
        status = put_rows(session, o, rows, err);
    }
    free(rows);
    return cli_run_close(&file, session, status, err);
}

static const char *const examples[] = {
    "esscher hardmax", "esscher hardmax --n 10..1e15*15 --replicates 1e6 --out hardmax.run",
    "esscher hardmax --queries self --json", "esscher hardmax --dim 3 --n 100,1000,10000", NULL};

const cli_command cli_hardmax = {
    .name = "hardmax",
    .summary = "infinite score scale: convergence like 1/sqrt(log n)",
    .usage = "[options]",
    .about =
        "At infinite score scale a query sees only the token of the largest score. Gaussian "
        "tokens: the mean output G over all queries goes to 0, but only like 1/sqrt(log n). "
        "Simulates it and sets the exact value and the asymptotic forms beside it.\n\n"
        "In one dimension the extremes of n tokens are drawn and not the tokens, so that any n "
        "costs the same. In several dimensions the tokens are drawn, and the values of n are "
        "prefixes of one sample.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_SEED | CLI_TAKES_MEMORY |
              CLI_TAKES_PROGRESS,
    .defaults = &defaults,
    .size = sizeof(hardmax_options),
    .views = views,
    .run = run,
};
