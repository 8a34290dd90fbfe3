/* question.c : what more context is worth, from a table of losses. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "driver/job.h"
#include "experiments/kit/answer_kit.h"
#include "stats/context.h"
#include "store/csv.h"

typedef struct context_params {
    const char *file, *context, *loss, *se;
    bool least_squares;
    double level, span;
    es_grid at;
} context_params;

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
     .default_note = "se if there is one; else all points weigh the same"},
    {"at", 0, ES_PARAM_REALS, "GRID", "contexts to predict the loss for", FIELD(at), .min = 1e-9,
     .max = 1e18, .increasing = true, .unit = "tokens"},
    {"level", 0, ES_PARAM_NUMBER, "P", "of the intervals", FIELD(level), .min = 0.01, .max = 0.9999,
     .default_value = "0.95"},
    {"least-squares", 0, ES_PARAM_FLAG, NULL, "plain least squares instead of Huber's weights",
     FIELD(least_squares)},
    {"min-span", 0, ES_PARAM_NUMBER, "X",
     "refuse unless the excess loss falls by this factor over the data", FIELD(span), .min = 1.0,
     .max = 1e6, .default_value = "10"},
    {0}};

/* ---- tables ---- */

static const es_column fit_columns[] = {
    {"beta", "beta", "", ES_FORMAT_REAL, "exponent of L(c) = A c^-beta + gamma",
     .error = "beta_se"},
    {"gamma", "gamma", "", ES_FORMAT_REAL, "loss that no context removes", .error = "gamma_se"},
    {"A", "A", "", ES_FORMAT_REAL, "alpha^beta", .error = "A_se"},
    {"alpha", "alpha", "", ES_FORMAT_SHORT,
     "context at which the excess is 1; badly determined by any data"},
    {"log_alpha_se", "error of ln alpha", "", ES_FORMAT_SHORT,
     "standard error of the logarithm of alpha"},
    {"doubling", "doubling", "", ES_FORMAT_REAL,
     "2^-beta: the part of the excess L - gamma that is left when the context doubles"},
    {"scatter", "scatter", "", ES_FORMAT_SHORT,
     "standard deviation of the points around the curve, in units of their standard errors if "
     "given"},
    {"span", "span", "", ES_FORMAT_SHORT,
     "excess at the shortest context over that at the longest"},
    {"points", "points", "", ES_FORMAT_COUNT},
    {"outliers", "outliers", "", ES_FORMAT_COUNT, "points that got less than half their weight"},
    {0}};
static const es_table_spec fit_table = {
    "fit", fit_columns,
    ES_VIEW("Loss against context", "beta gamma A alpha doubling scatter span outliers"),
    .record = true};

static const es_column interval_columns[] = {{"parameter", "parameter", "", ES_FORMAT_TEXT},
                                             {"low", "low", "", ES_FORMAT_REAL},
                                             {"value", "value", "", ES_FORMAT_REAL},
                                             {"high", "high", "", ES_FORMAT_REAL},
                                             {0}};
static const es_table_spec interval_table = {
    "intervals", interval_columns,
    ES_VIEW("Intervals", NULL,
            "From the profile of the fit, at the level of --level: they may be lopsided.",
            .only_with_full = true),
    .keys = "parameter"};

static const es_column prediction_columns[] = {
    {"context", "context", "tokens", ES_FORMAT_REAL},
    {"loss", "loss", "", ES_FORMAT_REAL, "of the curve, with its standard error to first order",
     .error = "loss_se"},
    {"excess", "excess", "", ES_FORMAT_SHORT, "loss - gamma"},
    {"beyond", "beyond", "", ES_FORMAT_SHORT,
     "context over the longest one measured: above 1 the model is taken on trust"},
    {0}};
static const es_table_spec prediction_table = {"predictions", prediction_columns,
                                               ES_VIEW("Predictions"), .keys = "context"};

static const es_column point_columns[] = {
    {"context", "context", "tokens", ES_FORMAT_REAL},
    {"loss", "loss", "", ES_FORMAT_REAL},
    {"fitted", "fitted", "", ES_FORMAT_REAL},
    {"residual", "residual", "", ES_FORMAT_SHORT},
    {"weight", "weight", "", ES_FORMAT_SHORT, "Huber's: 1 near the curve, less for points off it"},
    {0}};
static const es_table_spec point_table = {"points", point_columns,
                                          ES_VIEW("Points", .only_with_full = true)};

/* ---- the data ---- */

/* A file with other names is no error of its own: the hint lists what there is. */
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

static es_status open_study(es_job *job, es_error *err)
{
    const context_params *p = job->params;
    es_csv table = {0};
    if (!p->file)
        return es_refuse(err, "context.file",
                         "esscher context-fit FILE.csv, with the columns context,loss",
                         "no table is named");
    ES_TRY(es_csv_load(p->file, job->exec.budget, &table, err));
    const es_status status = take_columns(job, &table, err);
    es_csv_free(&table);
    return status;
}

/* ---- what it says ---- */

static void put_fit(es_answer *a, const es_context_fit *f)
{
    const struct {
        const char *name;
        double low, value, high;
    } intervals[] = {{"beta", f->beta_low, f->beta, f->beta_high},
                     {"gamma", f->gamma_low, f->gamma, f->gamma_high},
                     {"doubling", f->halving_low, f->halving, f->halving_high}};
    es_table *fit = es_answer_table(a, &fit_table), *list = es_answer_table(a, &interval_table);
    es_table_row(fit);
    es_put(fit, 0, {"A", f->A}, {"A_se", f->A_se}, {"beta", f->beta}, {"beta_se", f->beta_se},
           {"gamma", f->gamma}, {"gamma_se", f->gamma_se}, {"alpha", f->alpha},
           {"log_alpha_se", f->log_alpha_se}, {"doubling", f->halving}, {"scatter", f->scatter},
           {"span", f->span}, {"points", (double)f->points}, {"outliers", (double)f->outliers});
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
        const int64_t row = es_table_row(list);
        es_table_text(list, row, "parameter", intervals[i].name);
        es_put(list, row, {"low", intervals[i].low}, {"value", intervals[i].value},
               {"high", intervals[i].high});
    }
}

static void put_points(es_answer *a, const context_state *s, const es_context_fit *f)
{
    es_table *t = es_answer_table(a, &point_table);
    for (int64_t i = 0; i < s->rows; i++) {
        const int64_t row = es_table_row(t);
        const double fitted = es_context_predict(f, s->c[i], NULL);
        es_put(t, row, {"context", s->c[i]}, {"loss", s->L[i]}, {"fitted", fitted},
               {"residual", s->L[i] - fitted}, {"weight", s->weights[i]});
    }
}

static double longest_context(const context_state *s)
{
    double longest = 0.0;
    for (int64_t i = 0; i < s->rows; i++)
        longest = fmax(longest, s->c[i]);
    return longest;
}

static void put_predictions(es_answer *a, const es_grid *at, double longest,
                            const es_context_fit *f)
{
    es_table *t = es_answer_table(a, &prediction_table);
    for (int64_t i = 0; i < at->count; i++) {
        const int64_t row = es_table_row(t);
        double se;
        const double loss = es_context_predict(f, at->reals[i], &se);
        es_put(t, row, {"context", at->reals[i]}, {"loss", loss}, {"loss_se", se},
               {"excess", loss - f->gamma}, {"beyond", at->reals[i] / longest});
    }
}

/* Doubling is what an engineer decides by, so it comes with its interval and in per cent. */
static void tell_fit(es_answer *a, const context_params *p, const es_context_fit *f, double longest)
{
    char beta[ES_FORMAT_ROOM], gamma[ES_FORMAT_ROOM], loss[ES_FORMAT_ROOM];
    es_format_number(ES_FORMAT_REAL, f->beta, f->beta_se, beta, sizeof beta);
    es_format_number(ES_FORMAT_REAL, f->gamma, f->gamma_se, gamma, sizeof gamma);
    es_answer_add_finding(
        a,
        "The loss falls like L(c) = A c^-beta + gamma with beta = %s and gamma = %s: doubling the "
        "context leaves %.3g %% of the excess over gamma (%.3g to %.3g %% at level %g).",
        beta, gamma, 100.0 * f->halving, 100.0 * f->halving_low, 100.0 * f->halving_high, p->level);
    if (p->at.count) {
        const double c = p->at.reals[p->at.count - 1];
        double se;
        const double value = es_context_predict(f, c, &se);
        es_format_number(ES_FORMAT_REAL, value, se, loss, sizeof loss);
        es_answer_add_finding(
            a,
            "At a context of %.8g, %.3g times the longest one measured, the curve has a "
            "loss of %s.",
            c, c / longest, loss);
        if (c > 100.0 * longest)
            es_answer_add_finding(
                a,
                "Caution: contexts were measured up to %.8g; %.8g is more than 100 times "
                "that, and the error has no room for a curve that bends in between.",
                longest, c);
    }
    if (f->outliers)
        es_answer_add_finding(
            a, "Off the curve, with less than half their weight: %lld of %lld points.",
            (long long)f->outliers, (long long)f->points);
}

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
        if (status != ES_E_MEMORY) /* what is wrong is in the table */
            snprintf(err->file, sizeof err->file, "%s", p->file);
        return status == ES_E_RANGE || status == ES_E_NONFINITE || status == ES_E_EMPTY
                   ? (err->code = ES_E_FORMAT)
                   : status;
    }
    const double longest = longest_context(s);
    es_answer_real(answer, "level", p->level);
    es_answer_flag(answer, "robust", !p->least_squares);
    put_fit(answer, &fit);
    if (p->at.count)
        put_predictions(answer, &p->at, longest, &fit);
    put_points(answer, s, &fit);
    tell_fit(answer, p, &fit, longest);
    return ES_OK;
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
    .summary = "what more context is worth: fits L(c) = (alpha/c)^beta + gamma to a table",
    .group = ES_GROUP_LAB,
    .usage = "FILE.csv [options]",
    .about =
        "Fits the loss of a language model against its context length by L(c) = A c^-beta + "
        "gamma, which describes what was seen [numerical]. beta says what doubling the context "
        "leaves of the excess over gamma: 2^-beta. Points that lie off the curve get less "
        "weight (Huber). Data that cannot tell beta from gamma are refused with the reason, "
        "exit code 6: too few contexts, a loss that does not fall, an excess that falls by "
        "less than --min-span, or so much noise that any beta would do.",
    .examples = examples,
    .params = params,
    .size = sizeof(context_params),
    .operand = "file",
    .state = sizeof(context_state),
    .open = open_study,
    .summarise = summarise};
