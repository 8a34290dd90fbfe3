/* SPDX-License-Identifier: Apache-2.0 */
/* growth.c : the question without a limit: how does the output grow with n, and how few tokens
 * carry the weight? Its replicates, tables and findings, beside extreme-value theory (THEORY 9). */
#include <math.h>

#include "base/error.h"
#include "experiments/converge/converge.h"
#include "experiments/kit/answer_kit.h"
#include "stats/average.h"
#include "stats/special.h"

/* ---- replicates ---- */

static const es_cell_field cell_fields[] = {ES_FIELD(es_converge_failure, log_norm),
                                            ES_FIELD(es_converge_failure, norm),
                                            ES_FIELD(es_converge_failure, top_weight),
                                            ES_FIELD(es_converge_failure, sum_squares),
                                            ES_FIELD(es_converge_failure, ess),
                                            ES_FIELD(es_converge_failure, beyond),
                                            ES_FIELD(es_converge_failure, predicted_squares),
                                            ES_FIELD(es_converge_failure, predicted_step),
                                            {0}};

/* Runs one replicate of a law without a limit. */
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, void *out,
                               es_error *err)
{
    es_converge_spec spec = ((const converge_state *)job->state)->spec;
    spec.exec = exec;
    return es_converge_failing(&spec, cell, out, err);
}

/* Opens the question for laws without a limit: how outputs grow. It uses f64, because long tails
 * make large scores. */
static es_status open_question(es_job *job, es_error *err)
{
    const converge_params *p = job->params;
    converge_state *s = job->state;
    es_converge_cost one;
    if (s->spec.reference)
        return es_converge_no_limit(err, "leave --reference out");
    if (s->spec.independent)
        return es_refuse(err, "converge.no_limit", "leave --independent out",
                         "--independent needs a law with a limit: growth is measured along one "
                         "sample");
    if (!job->precision_given)
        job->precision = s->spec.precision = ES_F64; /* long tails make large scores */
    ES_TRY(es_converge_failing_cost(&s->spec, &one, err));
    return es_job_stage(job,
                        &(es_stage){"failing", .phase = "drawing tokens", .noun = "replicates",
                                    .cells = p->replicates,
                                    .rows = p->scales.count * p->sizes.count,
                                    ES_RECORD(es_converge_failure, cell_fields), .flops = one.flops,
                                    .run = run_replicate},
                        err);
}

/* Returns the cost of all replicates. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const converge_params *p = job->params;
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    const double R = (double)p->replicates;
    es_converge_cost one;
    ES_TRY(es_converge_failing_cost(spec, &one, err));
    *out = (es_cost){.flops = R * one.flops,
                     .output_bytes = R * (double)(spec->n_scales * spec->n_sizes) *
                                     (double)sizeof(es_converge_failure),
                     .work_bytes = (double)one.bytes};
    return ES_OK;
}

/* ---- averages over replicates ---- */

/* What the functions that fill rows share. */
typedef struct summary_ctx {
    es_job *job;
    es_answer *answer;
    const converge_params *p;
    const es_converge_spec *spec;
    double *column; /* (replicates) scratch */
    double *x, *y;  /* (sizes) ln n, and scratch */
    es_table *rows, *growth;
} summary_ctx;

/* Returns the stored numbers of a replicate at one scale and size. */
static const es_converge_failure *cell_at(const summary_ctx *g, int64_t r, int64_t scale,
                                          int64_t size)
{
    const es_converge_failure *cells = es_job_cell(g->job, 0, r);
    return &cells[scale * g->spec->n_sizes + size];
}

/* Returns the number of a cell at an offset; NUMBER() checks the member's name. */
static double number_at(const es_converge_failure *cell, size_t offset)
{
    return *(const double *)(const void *)((const char *)cell + offset);
}
#define NUMBER(member) offsetof(es_converge_failure, member)

/* Returns the mean over `count` numbers in g->column; NaN without any. */
static es_measured mean_of_column(const summary_ctx *g, int64_t count)
{
    return count ? es_measured_mean(g->column, count) : (es_measured){(double)NAN, (double)NAN};
}

/* Returns the mean of a number over the replicates that have queries without a limit. */
static es_measured mean_of(const summary_ctx *g, int64_t scale, int64_t size, size_t number)
{
    int64_t count = 0;
    for (int64_t r = 0; r < g->p->replicates; r++) {
        const es_converge_failure *cell = cell_at(g, r, scale, size);
        if (cell->beyond > 0.0)
            g->column[count++] = number_at(cell, number);
    }
    return mean_of_column(g, count);
}

/* Returns the fraction of queries without a limit, over all replicates. Without variation between
 * replicates it has no standard error. */
static es_measured beyond_of(const summary_ctx *g, int64_t scale)
{
    for (int64_t r = 0; r < g->p->replicates; r++)
        g->column[r] = cell_at(g, r, scale, 0)->beyond;
    es_measured beyond = mean_of_column(g, g->p->replicates);
    if (!(beyond.se > 0.0))
        beyond.se = (double)NAN;
    return beyond;
}

/* Returns the slope of a number on ln n: the mean of the slopes of single replicates, because sizes
 * are nested and replicates are not. All replicates have the same weight, so that one with an
 * outlier does not dominate. */
static es_measured slope_of(const summary_ctx *g, int64_t scale, size_t number)
{
    const int64_t sizes = g->spec->n_sizes;
    int64_t count = 0;
    for (int64_t r = 0; r < g->p->replicates && sizes > 1; r++) {
        if (!(cell_at(g, r, scale, 0)->beyond > 0.0))
            continue;
        for (int64_t i = 0; i < sizes; i++)
            g->y[i] = number_at(cell_at(g, r, scale, i), number);
        g->column[count++] = es_measured_slope(g->x, g->y, sizes).value;
    }
    return mean_of_column(g, count);
}

/* ---- rows: one scale and n ---- */

/* A row of the table of outputs: their norm and weights at one scale and n. */
typedef struct output_row {
    double scale;
    int64_t n;
    es_measured output_norm, top_weight, sum_squares, ess;
} output_row;

static const es_column row_columns[] = {
    ES_COL(output_row, scale, ES_FORMAT_REAL, "scale", "", "factor on `A = Wk'Wq/sqrt(k)`"),
    ES_COL(output_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(output_row, output_norm, ES_FORMAT_REAL, "|output|", "",
           "geometric mean of `|Gamma_n(x)|` over replicates and the queries without a limit"),
    ES_COL(output_row, top_weight, ES_FORMAT_REAL, "largest weight", "", "mean over the same"),
    ES_COL(output_row, sum_squares, ES_FORMAT_REAL, "sum w^2", "", "mean over the same"),
    ES_COL(output_row, ess, ES_FORMAT_REAL, "ESS", "tokens",
           "effective tokens `1/sum w^2`, mean over the same"),
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW("Attention without a limit", NULL,
            "Standard errors are over replicates. Sizes of one replicate are nested."),
    ES_ROW(output_row), .keys = "scale n"};

/* Adds the rows of a scale: norm of the output as a geometric mean, and the weights. */
static es_status add_rows(const summary_ctx *g, int64_t scale, es_error *err)
{
    for (int64_t i = 0; i < g->spec->n_sizes; i++) {
        const es_measured log_norm = mean_of(g, scale, i, NUMBER(log_norm));
        const double norm = exp(log_norm.value);
        output_row *r = es_rows_add(g->rows, output_row);
        if (!r)
            return es_answer_status(g->answer, err);
        r->scale = g->spec->scales[scale];
        r->n = g->spec->sizes[i];
        r->output_norm = (es_measured){norm, norm * log_norm.se};
        r->top_weight = mean_of(g, scale, i, NUMBER(top_weight));
        r->sum_squares = mean_of(g, scale, i, NUMBER(sum_squares));
        r->ess = mean_of(g, scale, i, NUMBER(ess));
    }
    return ES_OK;
}

/* ---- growth: one scale ---- */

/* A row of the table of growth: slope of the output's norm on ln n, beside its prediction. */
typedef struct growth_row {
    double scale;
    es_measured beyond, growth;
    double predicted_growth, predicted_growth_limit;
    es_measured step;
    double predicted_step;
    es_measured top_weight, sum_squares;
    double predicted_squares;
} growth_row;

static const es_column growth_columns[] = {
    ES_COL(growth_row, scale, ES_FORMAT_REAL, "scale", ""),
    ES_COL(growth_row, beyond, ES_FORMAT_REAL, "beyond", "",
           "fraction of the queries without a limit: the log-MGF is infinite at their tilt"),
    ES_COL(growth_row, growth, ES_FORMAT_REAL, "growth", "",
           "`|output| ~ n^growth`: slope of `ln|output|` on `ln n`, mean over replicates"),
    ES_COL(growth_row, predicted_growth, ES_FORMAT_SHORT, "predicted", "",
           "for a power tail at these n, from the quantiles of the largest score; extreme-value "
           "theory (THEORY 9)",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(growth_row, predicted_growth_limit, ES_FORMAT_SHORT, "n to infinity", "",
           "1/freedom, likewise", .standing = ES_STANDING_HEURISTIC),
    ES_COL(growth_row, step, ES_FORMAT_REAL, "per ln n", "",
           "`|output| ~ step ln n`: slope of `|output|` on `ln n`, mean over replicates"),
    ES_COL(growth_row, predicted_step, ES_FORMAT_SHORT, "predicted", "",
           "for exponential tails and n to infinity, likewise", .standing = ES_STANDING_HEURISTIC),
    ES_COL(growth_row, top_weight, ES_FORMAT_REAL, "largest weight", "", "at the largest n"),
    ES_COL(growth_row, sum_squares, ES_FORMAT_REAL, "sum w^2", "", "at the largest n"),
    ES_COL(growth_row, predicted_squares, ES_FORMAT_SHORT, "predicted", "",
           "for n to infinity: 1 for a power tail; 1 - alpha for weights with tail index alpha",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_spec growth_table = {"growth", growth_columns,
                                           ES_VIEW("Growth instead of convergence"),
                                           ES_ROW(growth_row), .keys = "scale"};

/* Returns the slope on ln n that the largest of n projections of Student's t shows at these n. Its
 * logarithm is close to that of the upper quantile e^-gamma/n of a projection. */
static double student_growth(const summary_ctx *g)
{
    for (int64_t i = 0; i < g->spec->n_sizes; i++)
        g->y[i] = log(es_student_quantile(g->spec->law->freedom,
                                          fmin(0.49, 0.5614594835668852 * exp(-g->x[i]))));
    return g->spec->n_sizes > 1 ? es_measured_slope(g->x, g->y, g->spec->n_sizes).value
                                : (double)NAN;
}

/* Returns true for a power tail, where the largest token takes all the weight. */
static bool has_power_tail(const summary_ctx *g) { return g->spec->law->kind == ES_LAW_STUDENT; }

/* Adds the fitted growth of a scale and what theory predicts for its weights. */
static es_status add_growth(const summary_ctx *g, int64_t scale, es_error *err)
{
    const int64_t last = g->spec->n_sizes - 1;
    growth_row *r = es_rows_add(g->growth, growth_row);
    if (!r)
        return es_answer_status(g->answer, err);
    r->scale = g->spec->scales[scale];
    r->beyond = beyond_of(g, scale);
    r->growth = slope_of(g, scale, NUMBER(log_norm));
    r->step = slope_of(g, scale, NUMBER(norm));
    r->top_weight = mean_of(g, scale, last, NUMBER(top_weight));
    r->sum_squares = mean_of(g, scale, last, NUMBER(sum_squares));
    r->predicted_squares = mean_of(g, scale, 0, NUMBER(predicted_squares)).value;
    if (has_power_tail(g)) {
        r->predicted_growth = student_growth(g);
        r->predicted_growth_limit = 1.0 / g->spec->law->freedom;
    } else {
        r->predicted_step = mean_of(g, scale, 0, NUMBER(predicted_step)).value;
    }
    return ES_OK;
}

/* ---- findings ---- */

/* Says how outputs grow under a power tail. Theory holds once one token has most of the weight. */
static void report_power(const summary_ctx *g, const growth_row *r)
{
    const char *law = es_law_name(g->spec->law->kind);
    char growth[ES_SAY_SIZE];
    if (g->spec->n_sizes < 2)
        es_answer_add_finding(
            g->answer,
            "At scale %.3g attention has no limit: exponential moments of the %s law "
            "are infinite for every query. Growth needs several n.",
            r->scale, law);
    else
        es_answer_add_finding(
            g->answer,
            "At scale %.3g attention has no limit: exponential moments of the %s law are infinite "
            "for every query. Outputs change like n to the power %s. Extreme-value theory "
            "[heuristic] predicts %.3g%s.",
            r->scale, law, es_say_number(r->growth.value, r->growth.se, growth),
            r->predicted_growth,
            r->top_weight.value > 0.5
                ? ""
                : " once one token has most of the weight, which none has at these n");
}

/* Says how outputs grow under exponential tails. */
static void report_step(const summary_ctx *g, const growth_row *r)
{
    const char *law = es_law_name(g->spec->law->kind);
    char beyond[ES_SAY_SIZE], step[ES_SAY_SIZE];
    if (!(r->beyond.value > 0.0))
        es_answer_add_finding(g->answer,
                              "At scale %.3g the output of every query drawn here has a limit. Its "
                              "mean over all queries has none, because the %s law has exponential "
                              "moments only up to an edge, and rare queries are beyond it.",
                              r->scale, law);
    else if (g->spec->n_sizes < 2)
        es_answer_add_finding(g->answer,
                              "At scale %.3g a fraction of %.3g of the queries has no limit: "
                              "exponential moments of the %s law are infinite there. Growth needs "
                              "several n.",
                              r->scale, r->beyond.value, law);
    else
        es_answer_add_finding(
            g->answer,
            "At scale %.3g a fraction of %s of the queries has no limit: exponential moments of "
            "the %s law are infinite there. Their outputs change by %s when ln n grows by 1; "
            "extreme-value theory [heuristic] predicts %.3g for n to infinity.",
            r->scale, es_say_number(r->beyond.value, r->beyond.se, beyond), law,
            es_say_number(r->step.value, r->step.se, step), r->predicted_step);
}

/* Fills the tables and adds the findings about growth. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const converge_state *s = job->state;
    summary_ctx g = {.job = job, .answer = answer, .p = job->params, .spec = &s->spec};
    ES_TRY(ES_JOB_NEW(job, g.column, g.p->replicates, err));
    ES_TRY(ES_JOB_NEW(job, g.x, g.spec->n_sizes, err));
    ES_TRY(ES_JOB_NEW(job, g.y, g.spec->n_sizes, err));
    for (int64_t i = 0; i < g.spec->n_sizes; i++)
        g.x[i] = log((double)g.spec->sizes[i]);
    g.rows = es_answer_table(answer, &rows_table);
    g.growth = es_answer_table(answer, &growth_table);
    for (int64_t scale = 0; scale < g.spec->n_scales; scale++) {
        ES_TRY(add_rows(&g, scale, err));
        ES_TRY(add_growth(&g, scale, err));
    }
    const growth_row *rows = es_rows(g.growth, growth_row);
    for (int64_t i = 0; i < g.spec->n_scales; i += es_say_step(g.spec->n_scales))
        has_power_tail(&g) ? report_power(&g, &rows[i]) : report_step(&g, &rows[i]);
    return ES_OK;
}

const converge_question converge_growth = {open_question, cost, NULL, summarise};
