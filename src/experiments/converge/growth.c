/* growth.c : the study `converge` where there is no limit: how the output grows with n,
 * and how few tokens it is made of, beside what extreme-value theory says. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "stats/average.h"
#include "stats/special.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/converge/question.h"

/* The numbers of es_converge_failure; also columns of a run file. */
enum { LOG_NORM, NORM, TOP_WEIGHT, SUM_SQUARES, ESS, BEYOND, SQUARES, STEP, NUMBERS };
static const char *const cell_columns[NUMBERS] = {
    "log_norm", "norm",   "top_weight",        "sum_squares",
    "ess",      "beyond", "predicted_squares", "predicted_step"};
_Static_assert(sizeof(es_converge_failure) == NUMBERS * sizeof(double), "a cell is its numbers");

/* ---- replicates ---- */

static es_status run_failing(es_job *job, int64_t cell, const es_exec *exec, void *record,
                             es_error *err)
{
    double *out = record;
    es_converge_spec spec = ((const converge_state *)job->state)->spec;
    spec.exec = exec;
    return es_converge_failing(&spec, cell, (es_converge_failure *)(void *)out, err);
}

es_status converge_growth_open(es_job *job, es_error *err)
{
    const converge_params *p = job->params;
    converge_state *s = job->state;
    es_converge_cost one;
    if (s->spec.reference)
        return es_fail(err, ES_E_RANGE, "converge.no_limit", "leave --reference out",
                       "a reference sample stands for a limit, and tokens of this law have none: "
                       "the more there are, the further out the largest, which gets all weight");
    if (s->spec.independent)
        return es_refuse(err, "converge.no_limit", "leave --independent out",
                         "without a limit, growth is measured along one sample");
    if (!job->precision_given)
        job->precision = s->spec.precision = ES_F64; /* tails are long, and so are scores */
    ES_TRY(es_converge_failing_cost(&s->spec, &one, err));
    return es_job_stage(job,
                        &(es_stage){"failing", .phase = "drawing tokens", .noun = "replicates",
                                    .cells = p->replicates,
                                    .rows = p->scales.count * p->sizes.count, .cols = NUMBERS,
                                    .columns = cell_columns, .flops = one.flops,
                                    .run = run_failing},
                        err);
}

es_status converge_growth_cost(const es_job *job, es_cost *out, es_error *err)
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

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"scale", "scale", "", ES_FORMAT_REAL, "factor on A = Wk'Wq/sqrt(k)"},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"output_norm", "|output|", "", ES_FORMAT_REAL,
     "geometric mean of |Gamma_n(x)| over replicates and the queries that have no limit",
     .error = "output_norm_se"},
    {"top_weight", "largest weight", "", ES_FORMAT_REAL, "mean over the same",
     .error = "top_weight_se"},
    {"sum_squares", "sum w^2", "", ES_FORMAT_REAL, "mean over the same", .error = "sum_squares_se"},
    {"ess", "ESS", "tokens", ES_FORMAT_REAL, "effective tokens 1/sum w^2, mean over the same",
     .error = "ess_se"},
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW("Attention that has no limit", NULL,
            "Standard errors are over replicates. Sizes of one replicate are nested."),
    .keys = "scale n"};

static const es_column growth_columns[] = {
    {"scale", "scale", "", ES_FORMAT_REAL},
    {"beyond", "beyond", "", ES_FORMAT_REAL,
     "share of the queries at whose tilt the log-MGF is infinite: those that have no limit",
     .error = "beyond_se"},
    {"growth", "growth", "", ES_FORMAT_REAL,
     "|output| ~ n^growth: slope of ln|output| on ln n, mean over replicates",
     .error = "growth_se"},
    {"predicted_growth", "predicted", "", ES_FORMAT_SHORT,
     "of a power tail at these n, by the quantiles of the largest score; extreme-value theory "
     "(THEORY 9)",
     .standing = ES_STANDING_HEURISTIC},
    {"predicted_growth_limit", "n to infinity", "", ES_FORMAT_SHORT, "1/freedom, likewise",
     .standing = ES_STANDING_HEURISTIC},
    {"step", "per ln n", "", ES_FORMAT_REAL,
     "|output| ~ step ln n: slope of |output| on ln n, mean over replicates", .error = "step_se"},
    {"predicted_step", "predicted", "", ES_FORMAT_SHORT,
     "of exponential tails for n to infinity, likewise", .standing = ES_STANDING_HEURISTIC},
    {"top_weight", "largest weight", "", ES_FORMAT_REAL, "at the largest n",
     .error = "top_weight_se"},
    {"sum_squares", "sum w^2", "", ES_FORMAT_REAL, "at the largest n", .error = "sum_squares_se"},
    {"predicted_squares", "predicted", "", ES_FORMAT_SHORT,
     "for n to infinity: 1 of a power tail; 1 - alpha of weights with tail index alpha",
     .standing = ES_STANDING_HEURISTIC},
    {0}};
static const es_table_spec growth_table = {
    "growth", growth_columns, ES_VIEW("Growth in place of convergence"), .keys = "scale"};

/* ---- numbers ---- */

/* What is being made. */
typedef struct summary_ctx {
    es_job *job;
    const converge_params *p;
    const es_converge_spec *spec;
    const double *cells; /* (replicates, scales, sizes, NUMBERS) */
    double *column;      /* (replicates) to work in */
    double *x, *y;       /* (sizes) likewise */
    es_table *rows, *growth;
} summary_ctx;

static const double *cell_at(const summary_ctx *g, int64_t r, int64_t scale, int64_t size)
{
    return g->cells + ((r * g->spec->n_scales + scale) * g->spec->n_sizes + size) * NUMBERS;
}

/* Mean over the replicates that have queries without a limit; of `beyond` over all. */
static es_measured mean_of(const summary_ctx *g, int64_t scale, int64_t size, int which)
{
    int64_t count = 0;
    for (int64_t r = 0; r < g->p->replicates; r++) {
        const double *cell = cell_at(g, r, scale, size);
        if (cell[BEYOND] > 0.0 || which == BEYOND)
            g->column[count++] = cell[which];
    }
    return count ? es_measured_mean(g->column, count) : (es_measured){(double)NAN, (double)NAN};
}

/* Slope of a number on ln n, replicate by replicate: sizes are nested, replicates are not. Every
 * replicate weighs the same, so that one with an outlier does not speak for all. */
static es_measured slope_of(const summary_ctx *g, int64_t scale, int which)
{
    const int64_t sizes = g->spec->n_sizes;
    int64_t count = 0;
    for (int64_t r = 0; r < g->p->replicates && sizes > 1; r++) {
        if (!(cell_at(g, r, scale, 0)[BEYOND] > 0.0))
            continue;
        for (int64_t i = 0; i < sizes; i++)
            g->y[i] = cell_at(g, r, scale, i)[which];
        g->column[count++] = es_measured_slope(g->x, g->y, sizes).value;
    }
    return count ? es_measured_mean(g->column, count) : (es_measured){(double)NAN, (double)NAN};
}

/* The largest of n projections of Student's t is near their quantile of e^-gamma/n, the median of
 * ln max up to constants: what slope does it show on these n? */
static double student_growth(const summary_ctx *g)
{
    for (int64_t i = 0; i < g->spec->n_sizes; i++)
        g->y[i] = log(es_student_quantile(g->spec->law->freedom,
                                          fmin(0.49, 0.5614594835668852 * exp(-g->x[i]))));
    return g->spec->n_sizes > 1 ? es_measured_slope(g->x, g->y, g->spec->n_sizes).value
                                : (double)NAN;
}

static bool has_power_tail(const summary_ctx *g) { return g->spec->law->kind == ES_LAW_STUDENT; }

static void put_rows(const summary_ctx *g, int64_t scale)
{
    static const struct {
        const char *key;
        int which;
    } shown[] = {{"top_weight", TOP_WEIGHT}, {"sum_squares", SUM_SQUARES}, {"ess", ESS}};
    for (int64_t i = 0; i < g->spec->n_sizes; i++) {
        const int64_t row = es_table_row(g->rows);
        const es_measured log_norm = mean_of(g, scale, i, LOG_NORM);
        const double norm = exp(log_norm.value);
        es_put(g->rows, row, {"scale", g->spec->scales[scale]}, {"n", (double)g->spec->sizes[i]},
               {"output_norm", norm}, {"output_norm_se", norm * log_norm.se});
        for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) {
            const es_measured m = mean_of(g, scale, i, shown[k].which);
            es_put_under(g->rows, row, shown[k].key, {"", m.value}, {"_se", m.se});
        }
    }
}

static void put_growth(const summary_ctx *g, int64_t scale)
{
    const int64_t row = es_table_row(g->growth), last = g->spec->n_sizes - 1;
    const es_measured beyond = mean_of(g, scale, 0, BEYOND), power = slope_of(g, scale, LOG_NORM),
                      step = slope_of(g, scale, NORM), top = mean_of(g, scale, last, TOP_WEIGHT),
                      squares = mean_of(g, scale, last, SUM_SQUARES);
    es_put(g->growth, row, {"scale", g->spec->scales[scale]}, {"beyond", beyond.value},
           {"beyond_se", beyond.se > 0.0 ? beyond.se : (double)NAN}, {"growth", power.value},
           {"growth_se", power.se}, {"step", step.value}, {"step_se", step.se},
           {"top_weight", top.value}, {"top_weight_se", top.se}, {"sum_squares", squares.value},
           {"sum_squares_se", squares.se},
           {"predicted_squares", mean_of(g, scale, 0, SQUARES).value});
    if (has_power_tail(g))
        es_put(g->growth, row, {"predicted_growth", student_growth(g)},
               {"predicted_growth_limit", 1.0 / g->spec->law->freedom});
    else
        es_put(g->growth, row, {"predicted_step", mean_of(g, scale, 0, STEP).value});
}

/* ---- findings ---- */

/* Theory speaks of the time when one token has the weight. */
static void tell_power(const summary_ctx *g, es_answer *a, int64_t row)
{
    const es_table *t = g->growth;
    char growth[ES_SAY_ROOM], top[ES_SAY_ROOM], n[ES_SAY_ROOM];
    const bool begun = es_table_get(t, row, "top_weight") > 0.5;
    if (g->spec->n_sizes < 2) {
        es_answer_add_finding(
            a,
            "There is no limit at scale %.3g: the log-MGF of the %s law is infinite for "
            "every query. How outputs grow takes several n to see.",
            es_table_get(t, row, "scale"), es_law_name(g->spec->law->kind));
        return;
    }
    es_answer_add_finding(
        a,
        "There is no limit at scale %.3g: the log-MGF of the %s law is infinite for every query. "
        "Outputs grow like n to the power %s and the largest weight is %s at n = %s%s; "
        "extreme-value theory, heuristic, says n to the power %.3g at these n and %.3g, 1/freedom, "
        "for n to infinity.",
        es_table_get(t, row, "scale"), es_law_name(g->spec->law->kind),
        es_say_number(es_table_get(t, row, "growth"), es_table_get(t, row, "growth_se"), growth),
        es_say_number(es_table_get(t, row, "top_weight"), es_table_get(t, row, "top_weight_se"),
                      top),
        es_say_size((double)g->spec->sizes[g->spec->n_sizes - 1], n),
        begun ? "" : ", so that many tokens still share it and failure has only begun",
        es_table_get(t, row, "predicted_growth"), es_table_get(t, row, "predicted_growth_limit"));
}

static void tell_step(const summary_ctx *g, es_answer *a, int64_t row)
{
    const es_table *t = g->growth;
    char beyond[ES_SAY_ROOM], step[ES_SAY_ROOM], squares[ES_SAY_ROOM], n[ES_SAY_ROOM];
    if (!(es_table_get(t, row, "beyond") > 0.0)) {
        es_answer_add_finding(
            a,
            "At scale %.3g none of the queries is beyond the edge of the %s law's "
            "log-MGF: each has a limit, though their moments have none.",
            es_table_get(t, row, "scale"), es_law_name(g->spec->law->kind));
        return;
    }
    if (g->spec->n_sizes < 2) {
        es_answer_add_finding(
            a,
            "At scale %.3g the log-MGF of the %s law is infinite for a share of %.3g of "
            "the queries, which have no limit. How outputs grow takes several n to see.",
            es_table_get(t, row, "scale"), es_law_name(g->spec->law->kind),
            es_table_get(t, row, "beyond"));
        return;
    }
    es_answer_add_finding(
        a,
        "At scale %.3g the log-MGF of the %s law is infinite for a share of %s of the queries, "
        "which have no limit: their outputs grow by %s when ln n grows by 1, and their sum of "
        "squared weights is %s at n = %s; extreme-value theory, heuristic, says %.3g and %.3g for "
        "n to infinity.",
        es_table_get(t, row, "scale"), es_law_name(g->spec->law->kind),
        es_say_number(es_table_get(t, row, "beyond"), es_table_get(t, row, "beyond_se"), beyond),
        es_say_number(es_table_get(t, row, "step"), es_table_get(t, row, "step_se"), step),
        es_say_number(es_table_get(t, row, "sum_squares"), es_table_get(t, row, "sum_squares_se"),
                      squares),
        es_say_size((double)g->spec->sizes[g->spec->n_sizes - 1], n),
        es_table_get(t, row, "predicted_step"), es_table_get(t, row, "predicted_squares"));
}

es_status converge_growth_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const converge_state *s = job->state;
    summary_ctx g = {
        .job = job, .p = job->params, .spec = &s->spec, .cells = es_job_numbers(job, 0, 0)};
    ES_TRY(ES_JOB_NEW(job, g.column, g.p->replicates, err));
    ES_TRY(ES_JOB_NEW(job, g.x, g.spec->n_sizes, err));
    ES_TRY(ES_JOB_NEW(job, g.y, g.spec->n_sizes, err));
    for (int64_t i = 0; i < g.spec->n_sizes; i++)
        g.x[i] = log((double)g.spec->sizes[i]);
    g.rows = es_answer_table(answer, &rows_table);
    g.growth = es_answer_table(answer, &growth_table);
    for (int64_t scale = 0; scale < g.spec->n_scales; scale++) {
        put_rows(&g, scale);
        put_growth(&g, scale);
    }
    const int64_t step = es_say_step(g.spec->n_scales);
    for (int64_t row = 0; row < g.spec->n_scales; row += step)
        has_power_tail(&g) ? tell_power(&g, answer, row) : tell_step(&g, answer, row);
    return ES_OK;
}
