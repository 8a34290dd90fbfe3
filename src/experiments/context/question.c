/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : how the loss of a language model falls with its context, from a table of losses.
 * stats/context.h has the curve and the fit (THEORY 8). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "driver/job.h"
#include "experiments/kit/answer_kit.h"
#include "stats/context.h"
#include "store/csv.h"
#include "table/table.h"

/* The options. */
typedef struct context_params {
    const char *file, *context, *loss, *se;
    bool least_squares;
    double level, span;
    es_grid at;
} context_params;

/* The points: context, loss and its error. */
typedef struct context_state {
    int64_t rows;
    double *c, *L, *weights;
    double *se; /* NULL: not known */
} context_state;

#define FIELD(member) .field = offsetof(context_params, member)
static const es_param params[] = {
    {"file", 0, ES_PARAM_FILE, "FILE.csv", "a table whose first line names its columns",
     FIELD(file)},
    {"context", 0, ES_PARAM_TEXT, "NAME", "column of context lengths", FIELD(context),
     .default_value = "context"},
    {"loss", 0, ES_PARAM_TEXT, "NAME", "column of losses", FIELD(loss), .default_value = "loss"},
    {"se", 0, ES_PARAM_TEXT, "NAME", "column of the losses' standard errors", FIELD(se),
     .default_note = "se if the file has it; otherwise all points weigh the same"},
    {"at", 0, ES_PARAM_REALS, "GRID", "contexts at which to predict the loss", FIELD(at),
     .min = 1e-9, .max = 1e18, .increasing = true, .unit = "tokens"},
    {"level", 0, ES_PARAM_NUMBER, "P", "confidence level of the intervals", FIELD(level),
     .min = 0.01, .max = 0.9999, .default_value = "0.95"},
    {"least-squares", 0, ES_PARAM_FLAG, NULL, "plain least squares instead of Huber's weights",
     FIELD(least_squares)},
    {"min-span", 0, ES_PARAM_NUMBER, "X",
     "refuse unless the excess loss falls by this factor over the data", FIELD(span), .min = 1.0,
     .max = 1e6, .default_value = "10"},
    {0}};

/* ---- data ---- */

/* Copies a column into the job. Fails if the file has none of that name; the hint lists its
 * columns. */
static es_status take_column(es_job *job, const es_csv *table, const char *name, double **out,
                             es_error *err)
{
    const context_params *p = job->params;
    const int64_t column = es_csv_column(table, name);
    if (column < 0) {
        char hint[200] = "its columns are:";
        for (int64_t i = 0; i < table->cols && strlen(hint) < 120; i++)
            snprintf(hint + strlen(hint), sizeof hint - strlen(hint), " %s", table->names[i]);
        return es_fail_file(err, ES_E_FORMAT, p->file, -1, "context.column", hint,
                            "there is no column \"%s\"", name);
    }
    ES_TRY(ES_JOB_NEW(job, *out, table->rows, err));
    for (int64_t i = 0; i < table->rows; i++)
        (*out)[i] = table->data[i * table->cols + column];
    return ES_OK;
}

/* Copies contexts, losses and, where there are any, their standard errors. */
static es_status take_columns(es_job *job, const es_csv *table, es_error *err)
{
    const context_params *p = job->params;
    context_state *s = job->state;
    const char *se = p->se ? p->se : es_csv_column(table, "se") >= 0 ? "se" : NULL;
    s->rows = table->rows;
    es_answer_input(job->answer, "file", p->file, 2, (const int64_t[]){table->rows, table->cols},
                    "csv");
    ES_TRY(take_column(job, table, p->context, &s->c, err));
    ES_TRY(take_column(job, table, p->loss, &s->L, err));
    if (se)
        ES_TRY(take_column(job, table, se, &s->se, err));
    return ES_JOB_NEW(job, s->weights, table->rows, err);
}

/* Reads contexts, losses and their errors into the job. */
static es_status open_study(es_job *job, es_error *err)
{
    const context_params *p = job->params;
    es_csv table = {0};
    if (!p->file)
        return es_refuse(err, "context.file",
                         "esscher context-fit FILE.csv, with columns context and loss",
                         "missing FILE.csv");
    ES_TRY(es_csv_load(p->file, job->exec.budget, &table, err));
    const es_status status = take_columns(job, &table, err);
    es_csv_free(&table);
    return status;
}

/* ---- the fit ---- */

/* The row of the fit L(c) = A c^-beta + gamma. */
typedef struct fit_row {
    es_measured beta, gamma, A;
    double alpha, log_alpha_se, doubling, scatter, span;
    int64_t points, outliers;
} fit_row;

static const es_column fit_columns[] = {
    ES_COL(fit_row, beta, ES_FORMAT_REAL, "beta", "", "exponent of `L(c) = A c^-beta + gamma`"),
    ES_COL(fit_row, gamma, ES_FORMAT_REAL, "gamma", "", "loss that no context removes"),
    ES_COL(fit_row, A, ES_FORMAT_REAL, "A", "", "`alpha^beta`"),
    ES_COL(fit_row, alpha, ES_FORMAT_SHORT, "alpha", "",
           "context at which the excess is 1; poorly determined by any data"),
    ES_COL(fit_row, log_alpha_se, ES_FORMAT_SHORT, "error of ln alpha", "",
           "standard error of the logarithm of `alpha`"),
    ES_COL(fit_row, doubling, ES_FORMAT_REAL, "doubling", "",
           "`2^-beta`: fraction of the excess `L - gamma` that remains when the context doubles"),
    ES_COL(fit_row, scatter, ES_FORMAT_SHORT, "scatter", "",
           "standard deviation of the points around the curve, in units of their standard errors "
           "if given"),
    ES_COL(fit_row, span, ES_FORMAT_SHORT, "span", "",
           "excess at the shortest context over that at the longest"),
    ES_COL(fit_row, points, ES_FORMAT_COUNT, "points", ""),
    ES_COL(fit_row, outliers, ES_FORMAT_COUNT, "outliers", "",
           "points that got less than half their weight"),
    {0}};
static const es_table_spec fit_table = {
    "fit", fit_columns,
    ES_VIEW("Loss against context", "beta gamma A alpha doubling scatter span outliers"),
    ES_ROW(fit_row), .record = true};

/* Fills the fit L(c) = A c^-beta + gamma; doubling is 2^-beta. */
static void fill_fit(es_answer *a, const es_context_fit *f)
{
    fit_row *r = es_rows_add(es_answer_table(a, &fit_table), fit_row);
    if (!r)
        return;
    *r = (fit_row){.beta = {f->beta, f->beta_se},
                   .gamma = {f->gamma, f->gamma_se},
                   .A = {f->A, f->A_se},
                   .alpha = f->alpha,
                   .log_alpha_se = f->log_alpha_se,
                   .doubling = f->halving,
                   .scatter = f->scatter,
                   .span = f->span,
                   .points = f->points,
                   .outliers = f->outliers};
}

/* Reports the effect of doubling the context first: that is what people decide by. */
static void report_fit(es_answer *a, const context_params *p, const es_context_fit *f)
{
    char beta[ES_SAY_SIZE], outliers[80] = "";
    if (f->outliers)
        snprintf(outliers, sizeof outliers, " Outliers: %lld of %lld points.",
                 (long long)f->outliers, (long long)f->points);
    es_answer_add_finding(a,
                          "Doubling the context leaves %.3g %% of the loss above gamma (%g %% "
                          "interval %.3g to %.3g %%): "
                          "the loss is A c^-beta + gamma with beta = %s.%s",
                          100.0 * f->halving, 100.0 * p->level, 100.0 * f->halving_low,
                          100.0 * f->halving_high, es_say_number(f->beta, f->beta_se, beta),
                          outliers);
}

/* ---- intervals ---- */

/* A row of the table of intervals. */
typedef struct interval_row {
    const char *parameter;
    double low, value, high;
} interval_row;

static const es_column interval_columns[] = {
    ES_COL(interval_row, parameter, ES_FORMAT_TEXT, "parameter", ""),
    ES_COL(interval_row, low, ES_FORMAT_REAL, "low", ""),
    ES_COL(interval_row, value, ES_FORMAT_REAL, "value", ""),
    ES_COL(interval_row, high, ES_FORMAT_REAL, "high", ""),
    {0}};
static const es_table_spec interval_table = {
    "intervals", interval_columns,
    ES_VIEW("Intervals", NULL,
            "Profile intervals of the fit at the level of --level; they need not be symmetric.",
            .only_with_full = true),
    ES_ROW(interval_row), .keys = "parameter"};

/* Fills the profile intervals of the parameters. */
static void fill_intervals(es_answer *a, const es_context_fit *f)
{
    const interval_row intervals[] = {{"beta", f->beta_low, f->beta, f->beta_high},
                                      {"gamma", f->gamma_low, f->gamma, f->gamma_high},
                                      {"doubling", f->halving_low, f->halving, f->halving_high}};
    es_table *t = es_answer_table(a, &interval_table);
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
        interval_row *r = es_rows_add(t, interval_row);
        if (r)
            *r = intervals[i];
    }
}

/* ---- predictions ---- */

/* A row of the table of predictions: the loss at another context. */
typedef struct prediction_row {
    double context;
    es_measured loss;
    double excess, beyond;
} prediction_row;

static const es_column prediction_columns[] = {
    ES_COL(prediction_row, context, ES_FORMAT_REAL, "context", "tokens"),
    ES_COL(prediction_row, loss, ES_FORMAT_REAL, "loss", "",
           "of the curve, with its standard error to first order"),
    ES_COL(prediction_row, excess, ES_FORMAT_SHORT, "excess", "", "`loss - gamma`"),
    ES_COL(prediction_row, beyond, ES_FORMAT_SHORT, "beyond", "",
           "context over the longest one measured: above 1 the curve is extrapolated"),
    {0}};
static const es_table_spec prediction_table = {"predictions", prediction_columns,
                                               ES_VIEW("Predictions"), ES_ROW(prediction_row),
                                               .keys = "context"};

/* Returns the longest context measured, beyond which predictions extrapolate. */
static double longest_context(const context_state *s)
{
    double longest = 0.0;
    for (int64_t i = 0; i < s->rows; i++)
        longest = fmax(longest, s->c[i]);
    return longest;
}

/* Reports the longest context, and warns where it is far beyond the data. */
static void report_prediction(es_answer *a, const prediction_row *r, double longest)
{
    char loss[ES_SAY_SIZE];
    es_answer_add_finding(
        a, "Predicted loss at a context of %.8g: %s (%.3g times the longest context measured).",
        r->context, es_say_number(r->loss.value, r->loss.se, loss), r->beyond);
    if (r->context > 100.0 * longest)
        es_answer_add_finding(a,
                              "Caution: %.8g is more than 100 times the longest context measured, "
                              "%.8g. The error assumes that the curve holds that far.",
                              r->context, longest);
}

/* Fills a row for each context of --at, and reports the last, which is the longest. */
static void fill_predictions(es_answer *a, const es_grid *at, double longest,
                             const es_context_fit *f)
{
    es_table *t = es_answer_table(a, &prediction_table);
    for (int64_t i = 0; i < at->count; i++) {
        prediction_row *r = es_rows_add(t, prediction_row);
        if (!r)
            return;
        r->context = at->reals[i];
        r->loss.value = es_context_predict(f, r->context, &r->loss.se);
        r->excess = r->loss.value - f->gamma;
        r->beyond = r->context / longest;
        if (i + 1 == at->count)
            report_prediction(a, r, longest);
    }
}

/* ---- points ---- */

/* A row of the table of points: measured and fitted loss. */
typedef struct point_row {
    double context, loss, fitted, residual, weight;
} point_row;

static const es_column point_columns[] = {
    ES_COL(point_row, context, ES_FORMAT_REAL, "context", "tokens"),
    ES_COL(point_row, loss, ES_FORMAT_REAL, "loss", ""),
    ES_COL(point_row, fitted, ES_FORMAT_REAL, "fitted", ""),
    ES_COL(point_row, residual, ES_FORMAT_SHORT, "residual", ""),
    ES_COL(point_row, weight, ES_FORMAT_SHORT, "weight", "",
           "Huber's: 1 near the curve, less for points far from it"),
    {0}};
static const es_table_spec point_table = {
    "points", point_columns, ES_VIEW("Points", .only_with_full = true), ES_ROW(point_row)};

/* Fills the points with their residuals and Huber weights. */
static void fill_points(es_answer *a, const context_state *s, const es_context_fit *f)
{
    es_table *t = es_answer_table(a, &point_table);
    for (int64_t i = 0; i < s->rows; i++) {
        point_row *r = es_rows_add(t, point_row);
        if (!r)
            return;
        r->context = s->c[i];
        r->loss = s->L[i];
        r->fitted = es_context_predict(f, s->c[i], NULL);
        r->residual = r->loss - r->fitted;
        r->weight = s->weights[i];
    }
}

/* ---- the study ---- */

/* Fits the curve, then fills and reports the tables. Invalid points are errors of the file: they
 * become ES_E_FORMAT, and all errors but those of memory name it. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const context_params *p = job->params;
    const context_state *s = job->state;
    const es_context_opts opts = {
        .huber = p->least_squares ? -1.0 : 0.0, .level = p->level, .span = p->span};
    es_context_fit fit;
    const es_status status = es_context_fit_points(s->c, s->L, s->se, s->rows, &opts,
                                                   job->exec.budget, s->weights, &fit, err);
    if (status != ES_OK) {
        if (status != ES_E_MEMORY) /* the table caused every other error */
            snprintf(err->file, sizeof err->file, "%s", p->file);
        return status == ES_E_RANGE || status == ES_E_NONFINITE || status == ES_E_EMPTY
                   ? (err->code = ES_E_FORMAT)
                   : status;
    }
    es_answer_real(answer, "level", p->level);
    es_answer_flag(answer, "robust", !p->least_squares);
    fill_fit(answer, &fit);
    report_fit(answer, p, &fit);
    fill_intervals(answer, &fit);
    if (p->at.count)
        fill_predictions(answer, &p->at, longest_context(s), &fit);
    fill_points(answer, s, &fit);
    return es_answer_status(answer, err);
}

static const char *const examples[] = {
    "esscher context-fit loss.csv",
    "esscher context-fit loss.csv --at 65536,131072,1048576",
    "esscher context-fit eval.csv --context ctx --loss nll --se stderr --json",
    "esscher context-fit loss.csv --at 1e5,1e6 --out loss.run",
    "printf 'context,loss\\n1,5.7\\n4,3.5\\n16,2.4\\n64,1.88\\n256,1.6\\n1024,1.47\\n4096,1.4\\n' "
    ">l.csv; esscher context-fit l.csv",
    NULL};

const es_study es_study_context_fit = {
    "context-fit",
    .summary = "what more context is worth: fits L(c) = A c^-beta + gamma to a table",
    .group = ES_GROUP_LAB,
    .usage = "FILE.csv [options]",
    .about =
        "Fits the loss of a language model against its context length by L(c) = A c^-beta + gamma, "
        "an empirical law [numerical]. Doubling the context leaves 2^-beta of the excess over "
        "gamma. Points further from the curve than 1.345 times the usual residual get less weight "
        "(Huber). The fit is refused with the reason, exit code "
        "6, if the data cannot separate beta from gamma: too few contexts, a loss that does not "
        "fall, an excess that falls by less than --min-span, or noise that allows any beta.",
    .examples = examples,
    .params = params,
    .size = sizeof(context_params),
    .operand = "file",
    .state = sizeof(context_state),
    .open = open_study,
    .summarise = summarise};
