/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : infinite score scale, where attention converges like 1/sqrt(log n) (THEORY 5).
 *
 * Each query selects the token of its largest score, so the mean output over queries of the
 * population is Gbar = (max + min)/2 in one dimension. Exactly, for a symmetric law,
 *
 *     E |Gbar_n| = E max |X_i| - E max X_i = int [Phi^n - (2 Phi - 1)^n] dt + int Q^n dt,
 *
 * and to leading order sigma ln 4 / (2 sqrt(2 ln n)). Its local slope is 1/(2 ln n), .036 at
 * n = 1e6: two decades of n cannot distinguish it from a small power, so the table has the exact
 * value beside the measured one. In d > 1 dimensions the mean over directions is the Steiner point
 * of the convex hull, whose size has no closed form; only its leading order is known [heuristic].
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "driver/job.h"
#include "experiments/hardmax/hardmax.h"
#include "experiments/kit/answer_kit.h"
#include "random/experiment.h"

/* The options. */
typedef struct hardmax_params {
    es_grid n;
    int64_t replicates, dim, directions;
    double sigma;
    int queries;
} hardmax_params;

static const char *const queries_names[] = {"population", "self", NULL};

#define FIELD(member) .field = offsetof(hardmax_params, member)
static const es_param params[] = {
    {"n", 'n', ES_PARAM_COUNTS, "GRID",
     "numbers of tokens. Up to 1e18 in one dimension, 1e7 in several", FIELD(n), .min = 1,
     .max = 1e18, .increasing = true,
     .default_note = "10..1e9*9, or 10..1e5*5 where they are drawn, in several dimensions",
     .unit = "tokens"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent samples", FIELD(replicates), .min = 1,
     .max = 1e8, .default_note = "10000; 200 in several dimensions"},
    {"dim", 'd', ES_PARAM_WHOLE, "D", "dimensions of a token", FIELD(dim), .min = 1, .max = 64,
     .default_value = "1", .alias = "d"},
    {"sigma", 0, ES_PARAM_NUMBER, "S", "standard deviation of each coordinate", FIELD(sigma),
     .min = 1e-100, .max = 1e100, .default_value = "1"},
    {"queries", 0, ES_PARAM_CHOICE, "WHICH",
     "population: infinitely many queries with the law of the tokens; self: the tokens themselves, "
     "only in one dimension",
     FIELD(queries), .choices = queries_names, .default_value = "population"},
    {"directions", 0, ES_PARAM_WHOLE, "M",
     "in several dimensions: number of random query directions to average over", FIELD(directions),
     .min = 2, .max = 65536, .default_value = "256"},
    {0}};

/* ---- rows ---- */

/* A row of the table: the mean output at one n, measured, exact, and to leading order. */
typedef struct hardmax_row {
    int64_t n;
    es_measured mean_abs, rms;
    double exact, exact_error, z, asymptotic, second_order;
} hardmax_row;

static const es_column columns[] = {
    ES_COL(hardmax_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(hardmax_row, mean_abs, ES_FORMAT_REAL, "mean |G|", "",
           "size of the mean output over all queries, averaged over replicates; the limit is 0"),
    ES_COL(hardmax_row, rms, ES_FORMAT_REAL, "rms |G|", "",
           "root of its mean square; in several dimensions free of the bias that finitely many "
           "directions give the mean"),
    ES_COL(hardmax_row, exact, ES_FORMAT_REAL, "exact", "",
           "expected value of `|G|`, by quadrature (one dimension)",
           .standing = ES_STANDING_PROVED),
    ES_COL(hardmax_row, exact_error, ES_FORMAT_SHORT, "error of exact", "",
           "upper bound on the error of the exact value"),
    ES_COL(hardmax_row, z, ES_FORMAT_SHORT, "z", "errors",
           "mean `|G|` minus exact, in standard errors"),
    ES_COL(
        hardmax_row, asymptotic, ES_FORMAT_REAL, "leading", "",
        "leading term for large n: of the mean, `sigma ln 2 / sqrt(2 ln n)`, in one dimension; of "
        "the rms, of order `(ln n)^(-(d+1)/4)`, in several",
        .standing = ES_STANDING_HEURISTIC),
    ES_COL(hardmax_row, second_order, ES_FORMAT_REAL, "second order", "",
           "`sigma ln 2` / hazard of the normal law where the largest token is (one dimension, "
           "population queries)",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_spec rows_table = {
    "rows", columns,
    ES_VIEW("Attention at infinite score scale", "n mean_abs rms exact z asymptotic second_order"),
    ES_ROW(hardmax_row), .keys = "n"};

/* ---- what is asked ---- */

/* Parameters that contradict each other, and defaults that depend on another one. */
static es_status complete(es_job *job, hardmax_params *p, es_error *err)
{
    const bool several = p->dim > 1;
    if (several && p->queries == ES_HARDMAX_SELF)
        return es_refuse(err, "hardmax.options", "leave --dim or --queries out",
                         "--queries self works in one dimension");
    if (!p->replicates)
        p->replicates = several ? 200 : 10000;
    if (!p->n.count)
        ES_TRY(es_params_set(job->given, "n", several ? "10..1e5*5" : "10..1e9*9", err));
    if (several && p->n.counts[p->n.count - 1] > ES_HARDMAX_MOST_TOKENS)
        return es_refuse(err, "hardmax.options", "up to 1e7, or one dimension",
                         "--n %.10g: in several dimensions the tokens are drawn",
                         p->n.reals[p->n.count - 1]);
    return ES_OK;
}

/* Returns the options of a cell. */
static es_hardmax_opts opts_of(const es_job *job, int64_t first, int64_t replicates,
                               const es_exec *exec)
{
    const hardmax_params *p = job->params;
    return (es_hardmax_opts){job->seed,
                             .experiment = ES_EXPERIMENT_HARDMAX,
                             .queries = (es_hardmax_queries)p->queries,
                             .dim = p->dim,
                             .sigma = p->sigma,
                             .first = first,
                             .replicates = replicates,
                             .directions = p->directions,
                             .exec = exec};
}

/* ---- cells ---- */

/* In one dimension a cell is one n, whose draws depend on no other n. It holds averages: there may
 * be 10^8 draws of two numbers, which are cheap to draw again. */
typedef struct size_cell {
    es_measured mean_abs, rms;
} size_cell;

static const es_cell_field size_fields[] = {
    ES_FIELD(size_cell, mean_abs), ES_FIELD(size_cell, rms), {0}};

/* Runs all replicates at one n; in one dimension they need only a few numbers each. */
static es_status run_size(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err)
{
    const hardmax_params *p = job->params;
    const es_hardmax_opts opts = opts_of(job, 0, p->replicates, exec);
    es_hardmax_row row;
    ES_TRY(es_hardmax_run(&opts, &p->n.counts[cell], 1, &row, err));
    *(size_cell *)out = (size_cell){row.mean_abs, row.rms};
    return ES_OK;
}

/* In several dimensions the n are prefixes of one sample, and a cell is one sample: es_hardmax_draw
 * at each n. */
static const es_cell_field draw_fields[] = {
    ES_FIELD_AS(es_hardmax_draw, value, "size"), ES_FIELD(es_hardmax_draw, square), {0}};

/* Runs one replicate at all n; in several dimensions tokens are drawn once, and n are prefixes. */
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, void *out,
                               es_error *err)
{
    const hardmax_params *p = job->params;
    const es_hardmax_opts opts = opts_of(job, cell, 1, exec);
    return es_hardmax_sample(&opts, p->n.counts, p->n.count, out, err);
}

/* Operations of a cell, in units of what attention would do in the time: a draw in one dimension
 * takes one to four microseconds (logarithms, and the quantile by Newton's method), a token against
 * a direction a nanosecond and a third of one for each coordinate. */
static double flops_of(const hardmax_params *p)
{
    const double M = (double)p->directions, d = (double)p->dim;
    return p->dim > 1 ? p->n.reals[p->n.count - 1] * M * (70.0 + 28.0 * d)
                      : 1.5e5 * (double)p->replicates;
}

/* Opens the study and adds the stage that fits the dimension. */
static es_status open_study(es_job *job, es_error *err)
{
    hardmax_params *p = job->params;
    ES_TRY(complete(job, p, err));
    es_answer_count(job->answer, "dim", p->dim);
    es_answer_real(job->answer, "sigma", p->sigma);
    es_answer_text(job->answer, "queries", queries_names[p->queries]);
    es_answer_count(job->answer, "replicates", p->replicates);
    if (p->dim > 1)
        es_answer_count(job->answer, "directions", p->directions);
    else
        es_answer_real(job->answer, "directions", (double)NAN);
    const es_stage each_n = {"n",
                             .phase = "drawing extremes",
                             .noun = "values of n",
                             .cells = p->n.count,
                             .rows = 1,
                             ES_RECORD(size_cell, size_fields),
                             .reports_progress = true,
                             .flops = flops_of(p),
                             .run = run_size};
    const es_stage each_sample = {"replicate",
                                  .phase = "drawing tokens",
                                  .noun = "replicates",
                                  .cells = p->replicates,
                                  .rows = p->n.count,
                                  ES_RECORD(es_hardmax_draw, draw_fields),
                                  .one_thread_per_cell = true,
                                  .flops = flops_of(p),
                                  .run = run_replicate};
    return es_job_stage(job, p->dim > 1 ? &each_sample : &each_n, err);
}

/* Draws are kept: of one n, or in several dimensions of all, where each thread has its directions.
 */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const hardmax_params *p = job->params;
    const double d = (double)p->dim, M = (double)p->directions, R = (double)p->replicates;
    const double sizes = (double)p->n.count;
    (void)err;
    *out = (es_cost){.output_bytes = 256.0 * sizes,
                     .work_bytes = R * sizeof(es_hardmax_draw) + 32.0 * sizes + 65536.0,
                     .flops = sizes * flops_of(p)};
    if (p->dim > 1) {
        out->flops = R * flops_of(p);
        out->work_bytes = 8.0 * R + 65536.0;
        out->thread_bytes = 8.0 * (64.0 * d + d * M + 3.0 * M);
    }
    return ES_OK;
}

/* ---- the answer ---- */

/* Exact value and asymptotic forms; in several dimensions there is the leading term alone. */
static es_status add_theory(const hardmax_params *p, double constant, hardmax_row *r, es_error *err)
{
    es_num exact = {.val = (double)NAN, .err = (double)NAN};
    r->asymptotic = es_hardmax_rms(p->dim, r->n, p->sigma, constant);
    r->second_order = (double)NAN;
    if (p->dim == 1) {
        ES_TRY(es_hardmax_exact((es_hardmax_queries)p->queries, r->n, p->sigma, &exact, err));
        r->asymptotic = es_hardmax_leading(r->n, p->sigma);
        if (p->queries == ES_HARDMAX_POPULATION)
            r->second_order = es_hardmax_second(r->n, p->sigma);
    }
    r->exact = exact.val;
    r->exact_error = exact.err;
    r->z = (r->mean_abs.value - exact.val) / r->mean_abs.se;
    return ES_OK;
}

/* Says how much is left at the largest n. In several dimensions theory is about the root mean
 * square, so that is what it is compared with. */
static void report_last(es_answer *a, int64_t dim, const hardmax_row *r)
{
    char size[ES_SAY_SIZE], left[ES_SAY_SIZE];
    es_answer_add_finding(a,
                          "At n = %s the mean output still has size %s, though its limit is 0: it "
                          "falls like (ln n)^-%.3g only.",
                          es_say_size((double)r->n, size),
                          es_say_number(r->mean_abs.value, r->mean_abs.se, left),
                          0.25 * (double)(dim + 1));
    if (isfinite(r->exact) && isfinite(r->asymptotic))
        es_answer_add_finding(a,
                              "The exact expectation is %.4g (%.2g standard errors away); the "
                              "leading term for large n differs from it by %.2g %%.",
                              r->exact, fabs(r->z), 100.0 * fabs(r->asymptotic / r->exact - 1.0));
    else if (isfinite(r->rms.value) && isfinite(r->asymptotic))
        es_answer_add_finding(a,
                              "Its root mean square is %s; the leading term for large n is %.3g.",
                              es_say_number(r->rms.value, r->rms.se, left), r->asymptotic);
}

/* Fills the rows: measured, exact where known, and the leading term for large n. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const hardmax_params *p = job->params;
    es_table *t = es_answer_table(answer, &rows_table);
    es_hardmax_row *averages;
    double constant = (double)NAN;
    ES_TRY(ES_JOB_NEW(job, averages, p->n.count, err));
    if (p->dim > 1) {
        ES_TRY(es_hardmax_steiner(p->dim, &constant, err));
        es_hardmax_average(es_job_cell(job, 0, 0), p->replicates, p->n.counts, p->n.count,
                           averages);
    }
    hardmax_row *r = NULL;
    for (int64_t i = 0; i < p->n.count; i++) {
        const size_cell *one = es_job_cell(job, 0, p->dim == 1 ? i : 0);
        r = es_rows_add(t, hardmax_row);
        if (!r)
            return es_answer_status(answer, err);
        r->n = p->n.counts[i];
        r->mean_abs = p->dim == 1 ? one->mean_abs : averages[i].mean_abs;
        r->rms = p->dim == 1 ? one->rms : averages[i].rms;
        ES_TRY(add_theory(p, constant, r, err));
        ES_TRY(es_job_tick(job, i + 1, p->n.count));
    }
    if (r)
        report_last(answer, p->dim, r);
    return ES_OK;
}

static const char *const examples[] = {
    "esscher hardmax", "esscher hardmax --n 10..1e15*15 --replicates 1e6 --out hardmax.run",
    "esscher hardmax --queries self --json", "esscher hardmax --dim 3 --n 100,1000,10000", NULL};

const es_study es_study_hardmax = {
    "hardmax",
    .summary = "how slowly attention converges at infinite score scale: in powers of log n",
    .group = ES_GROUP_LAB,
    .usage = "[options]",
    .about =
        "At infinite score scale a query sees only the token with the largest score. For Gaussian "
        "tokens the mean output G over all queries goes to 0, but only like (ln n)^(-(d+1)/4). "
        "Compares a simulation with the exact value [proved] and with asymptotic forms, which are "
        "[heuristic] in several dimensions and to second order.\n\n"
        "In one dimension only the extremes of n tokens are drawn, so that any n costs the same. "
        "In several dimensions all tokens are drawn, and the values of n are prefixes of one "
        "sample.",
    .examples = examples,
    .params = params,
    .size = sizeof(hardmax_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS,
    .open = open_study,
    .cost = cost,
    .summarise = summarise};
