/* esscher context-fit : what more context is worth, from a table of losses. */
#include <esscher/context.h>
#include <esscher/csv.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "grid.h"
#include "run_file.h"
#include "talk.h"

typedef struct context_options {
    const char *file, *context, *loss, *se;
    bool least_squares;
    double level, span;
    cli_grid at;
    cli_run_options run;
} context_options;

static const context_options defaults = {
    .context = "context", .loss = "loss", .level = 0.95, .span = 10.0};

static const cli_option operand = {"file",
                                   0,
                                   CLI_STRING,
                                   "FILE.csv",
                                   "a table whose first line names its columns",
                                   .field = offsetof(context_options, file)};

static const cli_option options[] = {
    {"context", 0, CLI_STRING, "NAME", "column of context lengths (default: context)",
     .field = offsetof(context_options, context)},
    {"loss", 0, CLI_STRING, "NAME", "column of losses (default: loss)",
     .field = offsetof(context_options, loss)},
    {"se", 0, CLI_STRING, "NAME",
     "column of the losses' standard errors (default: se if there is one; else all points weigh "
     "the same)",
     .field = offsetof(context_options, se)},
    {"at", 0, CLI_REALS, "GRID", "contexts to predict the loss for",
     .field = offsetof(context_options, at), .min = 1e-9, .max = 1e18, .increasing = true},
    {"level", 0, CLI_NUMBER, "P", "of the intervals (default: 0.95)",
     .field = offsetof(context_options, level), .min = 0.01, .max = 0.9999},
    {"least-squares", 0, CLI_FLAG, NULL, "plain least squares instead of Huber's weights",
     .field = offsetof(context_options, least_squares)},
    {"min-span", 0, CLI_NUMBER, "X",
     "refuse unless the excess loss falls by this factor over the data (default: 10)",
     .field = offsetof(context_options, span), .min = 1.0, .max = 1e6},
    CLI_RUN_OPTIONS(context_options, run),
    {0}};

/* ---- views ---- */

static const cli_column fit_columns[] = {
    {"beta", "beta", "", .format = CLI_REAL, .error = "beta_se",
     .definition = "exponent of L(c) = A c^-beta + gamma"},
    {"gamma", "gamma", "", .format = CLI_REAL, .error = "gamma_se",
     .definition = "loss that no context removes"},
    {"A", "A", "", .format = CLI_REAL, .error = "A_se", .definition = "alpha^beta"},
    {"alpha", "alpha", "", .format = CLI_SHORT,
     .definition = "context at which the excess is 1; badly determined by any data"},
    {"doubling", "doubling", "", .format = CLI_REAL,
     .definition = "2^-beta: the part of the excess L - gamma that is left when the context "
                   "doubles"},
    {"scatter", "scatter", "", .format = CLI_SHORT,
     .definition = "standard deviation of the points around the curve, in units of their standard "
                   "errors if given"},
    {"span", "span", "", .format = CLI_SHORT,
     .definition = "excess at the shortest context over that at the longest"},
    {"outliers", "outliers", "", .format = CLI_COUNT,
     .definition = "points that got less than half their weight"},
    {0}};
static const cli_table fit_table = {
    .rows = "fit", .title = "Loss against context", .columns = fit_columns};

static const cli_column interval_columns[] = {{"parameter", "parameter", "", .format = CLI_TEXT},
                                              {"low", "low", "", .format = CLI_REAL},
                                              {"value", "value", "", .format = CLI_REAL},
                                              {"high", "high", "", .format = CLI_REAL},
                                              {0}};
static const cli_table interval_table = {
    .rows = "intervals",
    .title = "Intervals",
    .columns = interval_columns,
    .note = "From the profile of the fit, at the level of --level: they may be lopsided."};

static const cli_column prediction_columns[] = {
    {"context", "context", "tokens", .format = CLI_REAL},
    {"loss", "loss", "", .format = CLI_REAL, .error = "loss_se",
     .definition = "of the curve, with its standard error to first order"},
    {"loss_se", "error of loss", "", .format = CLI_SHORT, .hidden = true},
    {"excess", "excess", "", .format = CLI_SHORT, .definition = "loss - gamma"},
    {"beyond", "beyond", "", .format = CLI_SHORT,
     .definition = "context over the longest one measured: above 1 the model is taken on trust"},
    {0}};
static const cli_table prediction_table = {
    .rows = "predictions", .title = "Predictions", .columns = prediction_columns};

static const cli_column point_columns[] = {
    {"context", "context", "tokens", .format = CLI_REAL},
    {"loss", "loss", "", .format = CLI_REAL},
    {"fitted", "fitted", "", .format = CLI_REAL},
    {"residual", "residual", "", .format = CLI_SHORT},
    {"weight", "weight", "", .format = CLI_SHORT,
     .definition = "Huber's: 1 near the curve, less for points off it"},
    {0}};
static const cli_table point_table = {
    .rows = "points", .title = "Points", .columns = point_columns};
static const cli_table *const views[] = {&fit_table, &interval_table, &prediction_table,
                                         &point_table, NULL};

/* ---- the table ---- */

typedef struct context_data {
    es_csv table;
    double *numbers; /* (4, rows) */
    double *c, *L, *se, *weights;
} context_data;

static es_status take_column(const context_options *o, const es_csv *table, const char *name,
                             double *out, es_error *err)
{
    const int64_t column = es_csv_column(table, name);
    if (column < 0) {
        char hint[200] = "its columns are:";
        for (int64_t i = 0; i < table->cols && strlen(hint) < 120; i++)
            snprintf(hint + strlen(hint), sizeof hint - strlen(hint), " %s", table->names[i]);
        return cli_fail(err, ES_E_FORMAT, o->file, "context.column", hint,
                        "there is no column \"%s\"", name);
    }
    for (int64_t i = 0; i < table->rows; i++)
        out[i] = table->data[i * table->cols + column];
    return ES_OK;
}

static es_status read_data(cli_session *session, const context_options *o, context_data *d,
                           es_error *err)
{
    if (!o->file)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "context.file",
                        "esscher context-fit FILE.csv, with the columns context,loss",
                        "no table is named");
    es_status status = es_csv_load(o->file, &session->budget, &d->table, err);
    if (status != ES_OK)
        return status;
    const size_t rows = (size_t)d->table.rows;
    const char *se = o->se ? o->se : es_csv_column(&d->table, "se") >= 0 ? "se" : NULL;
    d->numbers = cli_alloc_array(4 * rows, sizeof(double));
    d->c = d->numbers;
    d->L = d->c + rows;
    d->se = se ? d->L + rows : NULL;
    d->weights = d->L + 2 * rows;
    status = take_column(o, &d->table, o->context, d->c, err);
    if (status == ES_OK)
        status = take_column(o, &d->table, o->loss, d->L, err);
    if (status == ES_OK && se)
        status = take_column(o, &d->table, se, d->se, err);
    return status;
}

/* ---- the answer ---- */

static json_t *interval(const char *name, double low, double value, double high)
{
    json_t *row = json_object();
    json_object_set_new(row, "parameter", json_string(name));
    json_object_set_new(row, "low", cli_real(low));
    json_object_set_new(row, "value", cli_real(value));
    json_object_set_new(row, "high", cli_real(high));
    return row;
}

static void put_fit(json_t *answer, const es_context_fit *f)
{
    json_t *fit = json_object(), *intervals = json_array();
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"A", f->A},
                   {"A_se", f->A_se},
                   {"beta", f->beta},
                   {"beta_se", f->beta_se},
                   {"gamma", f->gamma},
                   {"gamma_se", f->gamma_se},
                   {"alpha", f->alpha},
                   {"log_alpha_se", f->log_alpha_se},
                   {"doubling", f->halving},
                   {"scatter", f->scatter},
                   {"span", f->span}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_object_set_new(fit, numbers[i].key, cli_real(numbers[i].value));
    json_object_set_new(fit, "points", json_integer(f->points));
    json_object_set_new(fit, "outliers", json_integer(f->outliers));
    json_array_append_new(intervals, interval("beta", f->beta_low, f->beta, f->beta_high));
    json_array_append_new(intervals, interval("gamma", f->gamma_low, f->gamma, f->gamma_high));
    json_array_append_new(intervals,
                          interval("doubling", f->halving_low, f->halving, f->halving_high));
    json_object_set_new(answer, "fit", fit);
    json_object_set_new(answer, "intervals", intervals);
}

static void put_points(json_t *answer, const context_data *d, const es_context_fit *f)
{
    json_t *points = json_array();
    for (int64_t i = 0; i < d->table.rows; i++) {
        json_t *row = json_object();
        const double fitted = es_context_predict(f, d->c[i], NULL);
        json_object_set_new(row, "context", cli_real(d->c[i]));
        json_object_set_new(row, "loss", cli_real(d->L[i]));
        json_object_set_new(row, "fitted", cli_real(fitted));
        json_object_set_new(row, "residual", cli_real(d->L[i] - fitted));
        json_object_set_new(row, "weight", cli_real(d->weights[i]));
        json_array_append_new(points, row);
    }
    json_object_set_new(answer, "points", points);
}

static void put_predictions(json_t *answer, const context_options *o, const context_data *d,
                            const es_context_fit *f)
{
    json_t *list = json_array();
    double longest = 0.0;
    for (int64_t i = 0; i < d->table.rows; i++)
        longest = fmax(longest, d->c[i]);
    for (int64_t i = 0; i < o->at.count; i++) {
        json_t *row = json_object();
        double se;
        const double loss = es_context_predict(f, o->at.reals[i], &se);
        json_object_set_new(row, "context", cli_real(o->at.reals[i]));
        json_object_set_new(row, "loss", cli_real(loss));
        json_object_set_new(row, "loss_se", cli_real(se));
        json_object_set_new(row, "excess", cli_real(loss - f->gamma));
        json_object_set_new(row, "beyond", cli_real(o->at.reals[i] / longest));
        json_array_append_new(list, row);
    }
    json_object_set_new(answer, "predictions", list);
}

static es_status answer(cli_session *session, const context_options *o, const context_data *d,
                        es_error *err)
{
    const es_context_opts opts = {
        .huber = o->least_squares ? -1.0 : 0.0, .level = o->level, .span = o->span};
    es_context_fit fit;
    es_status status = es_context_fit_points(d->c, d->L, d->se, d->table.rows, &opts,
                                             &session->budget, d->weights, &fit, err);
    if (status != ES_OK) {
        if (status != ES_E_MEMORY) /* what is wrong is in the table */
            snprintf(err->file, sizeof err->file, "%s", o->file);
        if (status == ES_E_RANGE || status == ES_E_NONFINITE || status == ES_E_EMPTY)
            err->code = status = ES_E_FORMAT;
        return status;
    }
    json_object_set_new(session->answer, "level", cli_real(o->level));
    json_object_set_new(session->answer, "robust", json_boolean(!o->least_squares));
    put_fit(session->answer, &fit);
    put_points(session->answer, d, &fit);
    if (o->at.count)
        put_predictions(session->answer, o, d, &fit);
    return ES_OK;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    const context_options *o = given;
    context_data data = {0};
    cli_run_file file;
    es_status status = read_data(session, o, &data, err);
    if (status == ES_OK)
        status = cli_run_open(session, o, &o->run, &file, err);
    if (status == ES_OK)
        status = cli_run_close(&file, session, answer(session, o, &data, err), err);
    free(data.numbers);
    es_csv_free(&data.table);
    return status;
}

static const char *const examples[] = {
    "esscher context-fit loss.csv",
    "esscher context-fit loss.csv --at 65536,131072,1048576",
    "esscher context-fit eval.csv --context ctx --loss nll --se stderr --json",
    "esscher context-fit loss.csv --at 1e5,1e6 --out loss.run",
    "printf 'context,loss\\n1,5.7\\n4,3.5\\n16,2.4\\n64,1.88\\n256,1.6\\n1024,1.47\\n4096,1.4\\n' "
    ">l.csv; "
    "esscher context-fit l.csv",
    NULL};

const cli_command cli_context_fit = {
    .name = "context-fit",
    .summary = "what more context is worth: L(c) = (alpha/c)^beta + gamma from a table",
    .usage = "FILE.csv [options]",
    .about =
        "Fits the loss of a language model against its context length. beta says what doubling the "
        "context leaves of the excess over gamma: 2^-beta. Points that lie off the curve get less "
        "weight (Huber). Data that cannot tell beta from gamma are refused with the reason, exit "
        "code 6: too few contexts, a loss that does not fall, an excess that falls by less than "
        "--min-span, or so much noise that any beta would do.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_MEMORY,
    .defaults = &defaults,
    .size = sizeof(context_options),
    .views = views,
    .run = run,
};
