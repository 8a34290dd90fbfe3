/* question.c : infinite score scale, where attention converges like 1/sqrt(log n) (THEORY 5).
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "driver/job.h"
#include "experiments/hardmax/hardmax.h"
#include "experiments/kit/answer_kit.h"
#include "random/experiment.h"

typedef struct hardmax_params {
    es_grid n;
    int64_t replicates, dim, directions;
    double sigma;
    int queries;
} hardmax_params;

static const char *const queries_names[] = {"population", "self", NULL};

#define FIELD(member) .field = offsetof(hardmax_params, member)
static const es_param params[] = {
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "tokens. Up to 1e18 in one dimension, 1e7 in several",
     FIELD(n), .min = 1, .max = 1e18, .increasing = true,
     .default_note = "10..1e9*9, or 10..1e5*5 where they are drawn, in several dimensions",
     .unit = "tokens"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent samples", FIELD(replicates), .min = 1,
     .max = 1e8, .default_note = "10000; 200 in several dimensions"},
    {"dim", 'd', ES_PARAM_WHOLE, "D", "dimensions of a token", FIELD(dim), .min = 1, .max = 64,
     .default_value = "1", .alias = "d"},
    {"sigma", 0, ES_PARAM_NUMBER, "S", "standard deviation of each coordinate", FIELD(sigma),
     .min = 1e-100, .max = 1e100, .default_value = "1"},
    {"queries", 0, ES_PARAM_CHOICE, "WHICH",
     "population: infinitely many, of the tokens' law; self: the tokens themselves, in one "
     "dimension",
     FIELD(queries), .choices = queries_names, .default_value = "population"},
    {"directions", 0, ES_PARAM_WHOLE, "M",
     "in several dimensions: random directions that stand for all", FIELD(directions), .min = 2,
     .max = 65536, .default_value = "256"},
    {0}};

static const es_column columns[] = {
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"mean_abs", "mean |G|", "", ES_FORMAT_REAL,
     "size of the mean output over all queries, averaged over replicates; the limit is 0",
     .error = "mean_abs_se"},
    {"rms", "rms |G|", "", ES_FORMAT_REAL,
     "root of its mean square; in several dimensions without the bias that finitely many "
     "directions give the mean",
     .error = "rms_se"},
    {"exact", "exact", "", ES_FORMAT_REAL, "expected value of `|G|`, by quadrature (one dimension)",
     .standing = ES_STANDING_PROVED},
    {"exact_error", "error of exact", "", ES_FORMAT_SHORT, "bound on what that is off by"},
    {"z", "z", "errors", ES_FORMAT_SHORT, "mean `|G|` minus exact, in standard errors"},
    {"asymptotic", "leading", "", ES_FORMAT_REAL,
     "leading term for large n: of the mean, `sigma ln 2 / sqrt(2 ln n)`, in one dimension; of the "
     "rms, of order `(ln n)^(-(d+1)/4)`, in several",
     .standing = ES_STANDING_HEURISTIC},
    {"second_order", "second order", "", ES_FORMAT_REAL,
     "`sigma ln 2` / hazard of the normal law where the largest token is (one dimension, "
     "population queries)",
     .standing = ES_STANDING_HEURISTIC},
    {0}};
static const es_table_spec rows_table = {
    "rows", columns,
    ES_VIEW("Attention at infinite score scale", "n mean_abs rms exact z asymptotic second_order"),
    .keys = "n"};

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

/* In one dimension a cell is one n, whose draws depend on no other n: what is kept are averages,
 * because there may be 10^8 draws of two numbers that cost next to nothing. */
enum { MEAN_ABS, MEAN_ABS_SE, RMS, RMS_SE, AVERAGES };
static const char *const average_names[AVERAGES] = {"mean_abs", "mean_abs_se", "rms", "rms_se"};

static es_status run_size(es_job *job, int64_t cell, const es_exec *exec, double *out,
                          es_error *err)
{
    const hardmax_params *p = job->params;
    const es_hardmax_opts opts = opts_of(job, 0, p->replicates, exec);
    es_hardmax_row row;
    ES_TRY(es_hardmax_run(&opts, &p->n.counts[cell], 1, &row, err));
    out[MEAN_ABS] = row.mean_abs;
    out[MEAN_ABS_SE] = row.mean_abs_se;
    out[RMS] = row.rms;
    out[RMS_SE] = row.rms_se;
    return ES_OK;
}

/* In several dimensions the n are prefixes of one sample, and a cell is one of them. */
enum { SIZE, SQUARE, DRAWN };
static const char *const draw_names[DRAWN] = {"size", "square"};
_Static_assert(sizeof(es_hardmax_draw) == DRAWN * sizeof(double), "a draw is its two numbers");

static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, double *out,
                               es_error *err)
{
    const hardmax_params *p = job->params;
    const es_hardmax_opts opts = opts_of(job, cell, 1, exec);
    return es_hardmax_sample(&opts, p->n.counts, p->n.count, (es_hardmax_draw *)(void *)out, err);
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
                             .cols = AVERAGES,
                             .columns = average_names,
                             .reports_progress = true,
                             .flops = flops_of(p),
                             .run = run_size};
    const es_stage each_sample = {"replicate",           .phase = "drawing tokens",
                                  .noun = "replicates",  .cells = p->replicates,
                                  .rows = p->n.count,    .cols = DRAWN,
                                  .columns = draw_names, .one_thread_per_cell = true,
                                  .flops = flops_of(p),  .run = run_replicate};
    return es_job_stage(job, p->dim > 1 ? &each_sample : &each_n, err);
}

/* Draws are kept: of one n, or in several dimensions of all, where each thread has its directions.
 */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const hardmax_params *p = job->params;
    const double d = (double)p->dim, M = (double)p->directions, R = (double)p->replicates;
    const double sizes = (double)p->n.count, threads = (double)job->exec.threads;
    (void)err;
    *out = (es_cost){.output_bytes = 256.0 * sizes,
                     .work_bytes = R * sizeof(es_hardmax_draw) + 32.0 * sizes + 65536.0,
                     .flops = sizes * flops_of(p)};
    if (p->dim > 1) {
        out->flops = R * flops_of(p);
        out->work_bytes = R * (sizes * sizeof(es_hardmax_draw) + 8.0) + 65536.0 +
                          threads * 8.0 * (64.0 * d + d * M + 3.0 * M);
    }
    return ES_OK;
}

/* ---- the answer ---- */

static void get_row(const es_job *job, int64_t i, es_hardmax_row *out)
{
    const hardmax_params *p = job->params;
    const double *x = es_job_cell(job, 0, i);
    *out = (es_hardmax_row){p->n.counts[i], .mean_abs = x[MEAN_ABS], .mean_abs_se = x[MEAN_ABS_SE],
                            .rms = x[RMS], .rms_se = x[RMS_SE]};
}

/* Exact value and asymptotic forms; in several dimensions there is the leading term alone. */
static es_status put_theory(const hardmax_params *p, double constant, const es_hardmax_row *r,
                            es_table *t, int64_t row, es_error *err)
{
    es_num exact = {.val = (double)NAN, .err = (double)NAN};
    double asymptotic = es_hardmax_rms(p->dim, r->n, p->sigma, constant), second = (double)NAN;
    if (p->dim == 1) {
        ES_TRY(es_hardmax_exact((es_hardmax_queries)p->queries, r->n, p->sigma, &exact, err));
        asymptotic = es_hardmax_leading(r->n, p->sigma);
        if (p->queries == ES_HARDMAX_POPULATION)
            second = es_hardmax_second(r->n, p->sigma);
    }
    es_put(t, row, {"exact", exact.val}, {"exact_error", exact.err},
           {"z", (r->mean_abs - exact.val) / r->mean_abs_se}, {"asymptotic", asymptotic},
           {"second_order", second});
    return ES_OK;
}

/* The largest n: how much is left, and what theory says. In several dimensions it speaks of the
 * root mean square, and is compared with that. */
static void tell(es_answer *a, const es_table *t)
{
    char size[ES_SAY_ROOM], left[ES_SAY_ROOM], rest[2 * ES_SAY_ROOM] = "";
    const int64_t last = es_table_rows(t) - 1;
    const double exact = es_table_get(t, last, "exact"), rms = es_table_get(t, last, "rms");
    const double leading = es_table_get(t, last, "asymptotic");
    if (isfinite(exact) && isfinite(leading))
        snprintf(rest, sizeof rest,
                 " The exact expectation is %.4g (%.2g standard errors away); the leading term is "
                 "%.2g %% off.",
                 exact, fabs(es_table_get(t, last, "z")), 100.0 * fabs(leading / exact - 1.0));
    else if (isfinite(rms) && isfinite(leading))
        snprintf(rest, sizeof rest,
                 " Its root mean square is %s, whose leading term for large n is %.3g.",
                 es_say_number(rms, es_table_get(t, last, "rms_se"), left), leading);
    es_answer_add_finding(a,
                          "At n = %s the mean output still has size %s, though its limit is 0: "
                          "convergence is logarithmic.%s",
                          es_say_size(es_table_get(t, last, "n"), size),
                          es_say_number(es_table_get(t, last, "mean_abs"),
                                        es_table_get(t, last, "mean_abs_se"), left),
                          rest);
}

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const hardmax_params *p = job->params;
    es_table *t = es_answer_table(answer, &rows_table);
    es_hardmax_row *rows;
    double constant = (double)NAN;
    ES_TRY(es_job_array(job, p->n.count, 1, sizeof *rows, &rows, err));
    if (p->dim > 1) {
        ES_TRY(es_hardmax_steiner(p->dim, &constant, err));
        es_hardmax_average((const es_hardmax_draw *)(const void *)es_job_cell(job, 0, 0),
                           p->replicates, p->n.counts, p->n.count, rows);
    }
    for (int64_t i = 0; i < p->n.count; i++) {
        const int64_t row = es_table_row(t);
        if (p->dim == 1)
            get_row(job, i, &rows[i]);
        es_put(t, row, {"n", (double)rows[i].n}, {"mean_abs", rows[i].mean_abs},
               {"mean_abs_se", rows[i].mean_abs_se}, {"rms", rows[i].rms},
               {"rms_se", rows[i].rms_se});
        ES_TRY(put_theory(p, constant, &rows[i], t, row, err));
        ES_TRY(es_job_tick(job, i + 1, p->n.count));
    }
    tell(answer, t);
    return ES_OK;
}

static const char *const examples[] = {
    "esscher hardmax", "esscher hardmax --n 10..1e15*15 --replicates 1e6 --out hardmax.run",
    "esscher hardmax --queries self --json", "esscher hardmax --dim 3 --n 100,1000,10000", NULL};

const es_study es_study_hardmax = {
    "hardmax",
    .summary = "infinite score scale: convergence like 1/sqrt(log n)",
    .usage = "[options]",
    .about =
        "At infinite score scale a query sees only the token of the largest score. Gaussian "
        "tokens: the mean output G over all queries goes to 0, but only like 1/sqrt(log n). "
        "Simulates it and sets the exact value [proved] and the asymptotic forms (in several "
        "dimensions and to second order [heuristic]) beside it.\n\n"
        "In one dimension the extremes of n tokens are drawn and not the tokens, so that any n "
        "costs the same. In several dimensions the tokens are drawn, and the values of n are "
        "prefixes of one sample.",
    .examples = examples,
    .params = params,
    .size = sizeof(hardmax_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS,
    .open = open_study,
    .cost = cost,
    .summarise = summarise};
