/* SPDX-License-Identifier: Apache-2.0 */
/* far_forecast.c : the tables forecast and forecast_errors: what heads do at contexts that were not
 * run, and how wrong such forecasts are. */
#include <math.h>
#include <stddef.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/far_question.h"
#include "experiments/probe/question.h"

#define ERRORS "; its error is that of forecasts of what was run (see forecast_errors)"

/* A head at a context that was not run. */
typedef struct row {
    const char *domain;
    int64_t layer, head, n;
    es_measured entropy, ess, far_mass, sink_mass, local_mass, top_weight, context, limit_error;
    es_measured entropy_measured, ess_measured, far_mass_measured, sink_mass_measured,
        local_mass_measured, top_weight_measured, context_measured, limit_error_measured;
} row;

static const es_column columns[] = {
    ES_COL(row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(row, n, ES_FORMAT_COUNT, "n", "keys", "context that is forecast"),
    ES_COL(row, entropy, ES_FORMAT_REAL, "entropy", "nats", "of a query's weights, mean" ERRORS),
    ES_COL(row, ess, ES_FORMAT_REAL, "ESS", "keys",
           "effective number of keys of the typical query: exp of the mean logarithm" ERRORS),
    ES_COL(row, far_mass, ES_FORMAT_REAL, "far mass", "share", "weight on the far field" ERRORS),
    ES_COL(row, sink_mass, ES_FORMAT_REAL, "sink mass", "share", "weight on the first keys" ERRORS),
    ES_COL(row, local_mass, ES_FORMAT_REAL, "local", "share", "weight on the last keys" ERRORS),
    ES_COL(row, top_weight, ES_FORMAT_REAL, "top weight", "share", "largest weight" ERRORS),
    ES_COL(row, context, ES_FORMAT_REAL, "effective context", "keys",
           "last keys that give outputs within --error, beside the first ones" ERRORS),
    ES_COL(row, limit_error, ES_FORMAT_REAL, "exact error", "",
           "root mean square distance of the output from its limit if far keys are independent, "
           "over the standard deviation of outputs of the longest blocks" ERRORS,
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(row, entropy_measured, ES_FORMAT_REAL, "measured", "nats",
           "as it was when that context was run (--verify); standard errors over blocks"),
    ES_COL(row, ess_measured, ES_FORMAT_REAL, "measured", "keys", "likewise"),
    ES_COL(row, far_mass_measured, ES_FORMAT_REAL, "measured", "share", "likewise"),
    ES_COL(row, sink_mass_measured, ES_FORMAT_REAL, "measured", "share", "likewise"),
    ES_COL(row, local_mass_measured, ES_FORMAT_REAL, "measured", "share", "likewise"),
    ES_COL(row, top_weight_measured, ES_FORMAT_REAL, "measured", "share", "likewise"),
    ES_COL(row, context_measured, ES_FORMAT_REAL, "measured", "keys", "likewise"),
    ES_COL(row, limit_error_measured, ES_FORMAT_REAL, "measured", "",
           "the exact error of queries and keys of that context",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
const es_table_spec probe_forecast_table = {
    "forecast", columns,
    ES_VIEW("Forecast of heads at longer contexts",
            "domain layer head n entropy entropy_measured ess ess_measured far_mass "
            "far_mass_measured sink_mass sink_mass_measured context context_measured"),
    ES_ROW(row), .keys = "domain layer head n"};

/* The statistics of a row: name, and offsets of forecast and measurement. */
enum { KINDS = PROBE_FAR_KINDS };
static const struct {
    const char *name;
    size_t value, measured; /* of row */
    bool log;
} kinds[KINDS] = {
    {"entropy", offsetof(row, entropy), offsetof(row, entropy_measured), false},
    {"ln ESS", offsetof(row, ess), offsetof(row, ess_measured), true},
    {"far mass", offsetof(row, far_mass), offsetof(row, far_mass_measured), false},
    {"sink mass", offsetof(row, sink_mass), offsetof(row, sink_mass_measured), false},
    {"local mass", offsetof(row, local_mass), offsetof(row, local_mass_measured), false},
    {"top weight", offsetof(row, top_weight), offsetof(row, top_weight_measured), false},
    {"ln context", offsetof(row, context), offsetof(row, context_measured), true},
    {"ln exact error", offsetof(row, limit_error), offsetof(row, limit_error_measured), true},
};

/* Forecasts against what was run, over all heads. */
typedef struct error_row {
    int64_t from, n;
    const char *statistic;
    int64_t heads;
    double bias, sd, rms, covered;
} error_row;

static const es_column error_columns[] = {
    ES_COL(error_row, from, ES_FORMAT_COUNT, "from", "keys", "longest context that was used"),
    ES_COL(error_row, n, ES_FORMAT_COUNT, "to", "keys", "context that was forecast and run"),
    ES_COL(error_row, statistic, ES_FORMAT_TEXT, "statistic", ""),
    ES_COL(error_row, heads, ES_FORMAT_COUNT, "heads", "", "that have it, in both"),
    ES_COL(error_row, bias, ES_FORMAT_SHORT, "mean error", "", "forecast less truth, over heads"),
    ES_COL(error_row, sd, ES_FORMAT_SHORT, "sd over heads", "", "its standard deviation"),
    ES_COL(error_row, rms, ES_FORMAT_SHORT, "rms", "", "its root mean square"),
    ES_COL(error_row, covered, ES_FORMAT_SHORT, "within 2 se", "share",
           "of heads whose forecast is within two standard errors, of forecast and measurement "
           "together, "
           "of what was measured"),
    {0}};
static const es_table_spec errors_table = {"forecast_errors", error_columns,
                                           ES_VIEW("Forecasts of contexts that were run"),
                                           ES_ROW(error_row), .keys = "from n statistic"};

/* ---- numbers of cells ---- */

/* Returns the cells of a head's verification. */
static probe_far_cells verified_cells(const probe_far_head *h)
{
    const probe_far *far = h->far;
    return (probe_far_cells){
        h->job, far->verify_stage,        h->domain * far->verify_blocks, far->verify_blocks,
        h->at,  es_far_rows(&far->verify)};
}

/* Returns the row of contexts of n keys; -1: not measured. */
static int64_t size_row(const es_far_spec *spec, int64_t n)
{
    for (int64_t s = 0; s < spec->sizes; s++)
        if (spec->size[s] == n)
            return s;
    return -1;
}

/* Returns a backtest's forecast minus the measured value; NaN: not known. */
static double backtest(const probe_far_head *h, int number, probe_far_kind kind)
{
    const es_far_spec *spec = &h->far->spec;
    const probe_far_cells cells = probe_far_cells_of(h);
    const int64_t n = es_far_backtest_of(spec, number).to;
    const probe_far_at real = {size_row(spec, n), n, false, h->far->error};
    const probe_far_at drawn = {spec->sizes + spec->targets + number, n, true, h->far->error};
    return probe_far_value(&cells, &drawn, kind) - probe_far_value(&cells, &real, kind);
}

/* Returns a forecast with its error over blocks. */
static es_measured forecast_of(const probe_far_head *h, int64_t target, probe_far_kind kind)
{
    const es_far_spec *spec = &h->far->spec;
    const probe_far_cells cells = probe_far_cells_of(h);
    const probe_far_at at = {spec->sizes + target, spec->target[target], true, h->far->error};
    return probe_far_measured(&cells, &at, kind, h->scratch);
}

/* Returns what was measured where a forecast was run. */
static es_measured verified(const probe_far_head *h, int64_t target, probe_far_kind kind)
{
    const probe_far_cells cells = verified_cells(h);
    const probe_far_at at = {target, h->far->verify.size[target], false, h->far->error};
    return probe_far_measured(&cells, &at, kind, h->scratch);
}

/* ---- stated errors ---- */

/* A forecast with its stated error, and what was measured: NaN without --verify. */
typedef struct outcome {
    es_measured forecast, truth;
} outcome;

/* Backtests, by their number in es_far_backtest_of(). */
enum { HALF_TO_ALL, QUARTER_TO_ALL, QUARTER_TO_HALF };

/* Backtests and forecasts of all heads. */
typedef struct work {
    double *backtests; /* (heads, ES_FAR_BACKTESTS, KINDS) */
    outcome *outcomes; /* (heads, targets, KINDS) */
    int64_t targets;
} work;

static double backtest_of(const work *w, int64_t head, int number, int kind)
{
    return w->backtests[(head * ES_FAR_BACKTESTS + number) * KINDS + kind];
}

static outcome *outcome_of(const work *w, int64_t head, int64_t target, int kind)
{
    return &w->outcomes[(head * w->targets + target) * KINDS + kind];
}

/* Moves the numbers that are not NaN to the front and returns how many there are. */
static int64_t drop_missing(double *values, int64_t count)
{
    int64_t known = 0;
    for (int64_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            values[known++] = values[i];
    return known;
}

/* Computes backtests, forecasts and what was measured. */
static es_status compute(probe_far_summary *m, work *w, es_error *err)
{
    w->targets = m->far->spec.targets;
    ES_TRY(ES_JOB_NEW_2D(m->job, w->backtests, m->count, ES_FAR_BACKTESTS * KINDS, err));
    ES_TRY(ES_JOB_NEW_2D(m->job, w->outcomes, m->count, (w->targets + 1) * KINDS, err));
    for (int64_t i = 0; i < m->count; i++) {
        const probe_far_head *h = &m->heads[i];
        for (int b = 0; b < ES_FAR_BACKTESTS; b++)
            for (int k = 0; k < KINDS; k++)
                w->backtests[(i * ES_FAR_BACKTESTS + b) * KINDS + k] =
                    backtest(h, b, (probe_far_kind)k);
        for (int64_t t = 0; t < w->targets; t++)
            for (int k = 0; k < KINDS; k++)
                *outcome_of(w, i, t, k) =
                    (outcome){forecast_of(h, t, (probe_far_kind)k),
                              m->far->n_verify ? verified(h, t, (probe_far_kind)k)
                                               : (es_measured){(double)NAN, (double)NAN}};
    }
    return ES_OK;
}

/* Returns the root mean square of a backtest over the heads of a domain that have it, or over one
 * layer of them (-1: all); NaN: none has. */
static double backtest_rms(const probe_far_summary *m, const work *w, int64_t domain, int64_t layer,
                           int number, int kind)
{
    double squares = 0.0, count = 0.0;
    for (int64_t i = 0; i < m->count; i++) {
        const double x = backtest_of(w, i, number, kind);
        if (m->heads[i].domain != domain || (layer >= 0 && m->heads[i].layer != layer) || isnan(x))
            continue;
        squares += x * x;
        count += 1.0;
    }
    return sqrt(squares / count);
}

/* Returns by what factor errors of forecasts over an octave grow if they start an octave later:
 * that of the last octave that was run over that of the one before, over all heads; at least 1,
 * also where it is not known. */
static double growth_of(const probe_far_summary *m, const work *w, int64_t domain, int kind)
{
    const double late = backtest_rms(m, w, domain, -1, HALF_TO_ALL, kind);
    const double early = backtest_rms(m, w, domain, -1, QUARTER_TO_HALF, kind);
    return early > 0.0 ? fmax(late / early, 1.0) : 1.0;
}

/* Returns the error that a forecast is expected to have besides the scatter over blocks: that of
 * the backtest over as many octaves, root mean square over the layer, times the growth of errors
 * over the octaves by which the forecast starts later. Two octaves have at least the error of one:
 * that backtest starts from the shortest contexts and may be right by chance. Without it they have
 * twice that error (THEORY 20, F5). */
static double expected_error(const probe_far_summary *m, const work *w, const probe_far_head *h,
                             int64_t target, int kind)
{
    const es_far_spec *spec = &m->far->spec;
    const double growth = growth_of(m, w, h->domain, kind);
    const double one = growth * backtest_rms(m, w, h->domain, h->layer, HALF_TO_ALL, kind);
    const double two =
        growth * growth * backtest_rms(m, w, h->domain, h->layer, QUARTER_TO_ALL, kind);
    if (spec->target[target] <= 2 * spec->length)
        return one;
    return isnan(two) ? 2.0 * one : fmax(one, two);
}

/* Adds stated errors to those over blocks. */
static void state_errors(const probe_far_summary *m, work *w)
{
    for (int64_t i = 0; i < m->count; i++)
        for (int64_t t = 0; t < w->targets; t++)
            for (int k = 0; k < KINDS; k++) {
                outcome *o = outcome_of(w, i, t, k);
                const double error = expected_error(m, w, &m->heads[i], t, k);
                o->forecast.se = hypot(o->forecast.se, error);
            }
}

/* ---- tables ---- */

/* Adds the rows of a head. */
static es_status add_rows(probe_far_summary *m, es_table *table, const work *w, int64_t head,
                          es_error *err)
{
    const probe_far_head *h = &m->heads[head];
    for (int64_t t = 0; t < m->far->spec.targets; t++) {
        row *r = es_rows_add(table, row);
        if (!r)
            return es_answer_status(m->answer, err);
        r->domain = h->name;
        r->layer = h->layer;
        r->head = h->head;
        r->n = m->far->spec.target[t];
        for (int k = 0; k < KINDS; k++) {
            const outcome *o = outcome_of(w, head, t, k);
            *(es_measured *)((char *)r + kinds[k].value) =
                kinds[k].log ? probe_exp(o->forecast) : o->forecast;
            *(es_measured *)((char *)r + kinds[k].measured) =
                kinds[k].log ? probe_exp(o->truth) : o->truth;
        }
    }
    return ES_OK;
}

/* Adds a row of errors over heads; m->values has those of the statistic, NaN of heads without. */
static es_status add_error(probe_far_summary *m, es_table *table, es_far_backtest test, int kind,
                           double covered, es_error *err)
{
    const int64_t heads = drop_missing(m->values, m->count);
    error_row *r = heads ? es_rows_add(table, error_row) : NULL;
    if (!r)
        return es_answer_status(m->answer, err);
    const probe_over_heads over = probe_over(m->values, heads);
    *r = (error_row){test.from, test.to, kinds[kind].name, heads,
                     over.mean, over.sd, over.rms,         covered / (double)heads};
    return ES_OK;
}

/* Adds what backtests found. */
static es_status add_backtests(probe_far_summary *m, es_table *table, const work *w, es_error *err)
{
    const es_far_spec *spec = &m->far->spec;
    for (int b = ES_FAR_BACKTESTS - 1; b >= 0; b--) {
        const es_far_backtest test = es_far_backtest_of(spec, b);
        if (!es_far_forecasts(spec, test.from) || size_row(spec, test.to) < 0)
            continue;
        for (int k = 0; k < KINDS; k++) {
            for (int64_t i = 0; i < m->count; i++)
                m->values[i] = backtest_of(w, i, b, k);
            ES_TRY(add_error(m, table, test, k, (double)NAN, err));
        }
    }
    return ES_OK;
}

/* Adds the comparison of forecasts with the contexts that --verify ran. */
static es_status add_verified(probe_far_summary *m, es_table *table, const work *w, es_error *err)
{
    const es_far_spec *spec = &m->far->spec;
    for (int64_t t = 0; t < spec->targets && m->far->n_verify; t++)
        for (int k = 0; k < KINDS; k++) {
            double within = es_far_forecasts(spec, spec->length / 2) ? 0.0 : (double)NAN;
            for (int64_t i = 0; i < m->count; i++) {
                const outcome *o = outcome_of(w, i, t, k);
                m->values[i] = o->forecast.value - o->truth.value;
                within += fabs(m->values[i]) <= 2.0 * hypot(o->forecast.se, o->truth.se);
            }
            const es_far_backtest test = {spec->length, spec->target[t]};
            ES_TRY(add_error(m, table, test, k, within, err));
        }
    return ES_OK;
}

/* ---- sentences ---- */

/* Returns the share of all forecasts to the farthest length, of all statistics, that are within two
 * standard errors, of forecast and measurement together, of what was measured. */
static double covered_at(const probe_far_summary *m, const work *w, int64_t target)
{
    double within = 0.0, count = 0.0;
    for (int64_t i = 0; i < m->count; i++)
        for (int k = 0; k < KINDS; k++) {
            const outcome *o = outcome_of(w, i, target, k);
            const double error = fabs(o->forecast.value - o->truth.value);
            within += error <= 2.0 * hypot(o->forecast.se, o->truth.se);
            count += !isnan(error);
        }
    return within / count;
}

/* Adds a finding about the farthest forecast and its error. */
static void report_farthest(probe_far_summary *m, const work *w)
{
    const es_far_spec *spec = &m->far->spec;
    const int64_t last = spec->targets - 1;
    char mass[ES_SAY_SIZE], error[ES_SAY_SIZE];
    double mean = 0.0, squares = 0.0;
    for (int64_t i = 0; i < m->count; i++) {
        const outcome *o = outcome_of(w, i, last, PROBE_FAR_FAR);
        mean += o->forecast.value / (double)m->count;
        squares += o->forecast.se * o->forecast.se / (double)m->count;
    }
    es_answer_add_finding(
        m->answer,
        "At n = %lld, heads will put a share of %s of their weight on far keys (forecast, mean "
        "over heads). Of a single head the error is %s (root mean square, from forecasts of "
        "n = %lld). That of the mean may be as large: heads can err in the same direction.",
        (long long)spec->target[last], es_say_number(mean, (double)NAN, mass),
        es_say_number(sqrt(squares), (double)NAN, error), (long long)spec->length);
    if (m->far->n_verify) {
        const double covered = covered_at(m, w, last);
        es_answer_real(m->answer, "forecast_covered", covered);
        es_answer_add_finding(m->answer,
                              "%.0f %% of the forecasts of n = %lld are within two standard "
                              "errors, of forecast and measurement together, of what was measured "
                              "(all heads and statistics); with right errors 95 %% are.",
                              100.0 * covered, (long long)spec->target[last]);
    }
}

/* Adds a caution if the farthest forecast has distances that the model was not trained on. */
static void report_untrained(probe_far_summary *m)
{
    const probe_state *s = m->job->state;
    const es_far_spec *spec = &m->far->spec;
    const int64_t last = spec->target[spec->targets - 1], positions = s->pools.config->positions;
    if (last > positions)
        es_answer_add_finding(
            m->answer,
            "Caution: a forecast of n = %lld has distances beyond the %lld positions that the "
            "model states. It was not trained on them.",
            (long long)last, (long long)positions);
}

/* Adds the findings about forecasts, and how far they may be trusted. */
static void add_findings(probe_far_summary *m, const work *w)
{
    const es_far_spec *spec = &m->far->spec;
    if (es_far_forecasts(spec, spec->length / 2))
        report_farthest(m, w);
    else
        es_answer_add_finding(m->answer,
                              "Caution: blocks of %lld tokens are too short to try a forecast on: "
                              "its error is unknown. Take longer blocks (--block).",
                              (long long)spec->length);
    if (spec->target[spec->targets - 1] > 2 * spec->length)
        es_answer_add_finding(
            m->answer,
            "Caution: a forecast of more than twice the longest blocks (%lld tokens) may be "
            "further off than stated, because queries change with their place (table drift): "
            "in MiniMind2-Small 72 %% of heads (ESS) and 78 %% (entropy) were within two standard "
            "errors of forecast and measurement together, not 95 %%.",
            (long long)spec->length);
    report_untrained(m);
}

es_status probe_far_put_forecast(probe_far_summary *m, es_error *err)
{
    work w;
    es_table *forecast = es_answer_table(m->answer, &probe_forecast_table);
    es_table *table = es_answer_table(m->answer, &errors_table);
    ES_TRY(compute(m, &w, err));
    state_errors(m, &w);
    for (int64_t i = 0; i < m->count; i++)
        ES_TRY(add_rows(m, forecast, &w, i, err));
    ES_TRY(add_backtests(m, table, &w, err));
    ES_TRY(add_verified(m, table, &w, err));
    if (w.targets)
        add_findings(m, &w);
    return ES_OK;
}
