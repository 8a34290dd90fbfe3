/* SPDX-License-Identifier: Apache-2.0 */
/* far_forecast.c : the tables forecast, forecast_errors and drift: what heads do at contexts that
 * were not run, how wrong such forecasts are, and how queries and keys move with their place. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/far_question.h"
#include "experiments/probe/question.h"

#define ERRORS                                                                                     \
    "; its error contains that of forecasting the longest blocks from half of their length, for "  \
    "more than twice the length from a quarter (root mean square over the heads of the layer)"

/* A head at a context that was not run. */
typedef struct row {
    const char *domain;
    int64_t layer, head, n;
    es_measured entropy, ess, far_mass, sink_mass, local_mass, top_weight;
    es_measured entropy_measured, ess_measured, far_mass_measured, sink_mass_measured,
        local_mass_measured, top_weight_measured;
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
    ES_COL(row, entropy_measured, ES_FORMAT_REAL, "measured", "nats",
           "as it was when that context was run (--verify); standard errors over blocks"),
    ES_COL(row, ess_measured, ES_FORMAT_REAL, "measured", "keys", "likewise"),
    ES_COL(row, far_mass_measured, ES_FORMAT_REAL, "measured", "share", "likewise"),
    ES_COL(row, sink_mass_measured, ES_FORMAT_REAL, "measured", "share", "likewise"),
    ES_COL(row, local_mass_measured, ES_FORMAT_REAL, "measured", "share", "likewise"),
    ES_COL(row, top_weight_measured, ES_FORMAT_REAL, "measured", "share", "likewise"),
    {0}};
const es_table_spec probe_forecast_table = {
    "forecast", columns,
    ES_VIEW("Forecast of heads at longer contexts",
            "domain layer head n entropy entropy_measured ess ess_measured far_mass "
            "far_mass_measured sink_mass sink_mass_measured"),
    ES_ROW(row), .keys = "domain layer head n"};

/* Statistics of a forecast, in the order of the row. */
enum { KINDS = 6 };
static const es_far_stat stats[KINDS] = {ES_FAR_ENTROPY, ES_FAR_LOG_ESS, ES_FAR_FAR,
                                         ES_FAR_SINK,    ES_FAR_NEAR,    ES_FAR_TOP};
static const char *const names[KINDS] = {"entropy",   "ln ESS",     "far mass",
                                         "sink mass", "local mass", "top weight"};

/* Forecasts against what was run, over all heads. */
typedef struct error_row {
    int64_t from, n;
    const char *statistic;
    double bias, sd, rms, covered;
} error_row;

static const es_column error_columns[] = {
    ES_COL(error_row, from, ES_FORMAT_COUNT, "from", "keys", "longest context that was used"),
    ES_COL(error_row, n, ES_FORMAT_COUNT, "to", "keys", "context that was forecast and run"),
    ES_COL(error_row, statistic, ES_FORMAT_TEXT, "statistic", ""),
    ES_COL(error_row, bias, ES_FORMAT_SHORT, "mean error", "", "forecast less truth, over heads"),
    ES_COL(error_row, sd, ES_FORMAT_SHORT, "sd over heads", "", "its standard deviation"),
    ES_COL(error_row, rms, ES_FORMAT_SHORT, "rms", "", "its root mean square"),
    ES_COL(error_row, covered, ES_FORMAT_SHORT, "within 2 se", "share",
           "of heads whose forecast is within two stated standard errors of what was measured"),
    {0}};
static const es_table_spec errors_table = {"forecast_errors", error_columns,
                                           ES_VIEW("Forecasts of contexts that were run"),
                                           ES_ROW(error_row), .keys = "from n statistic"};

/* Queries and keys of a layer at some places. */
typedef struct drift_row {
    const char *domain;
    int64_t layer, from, to;
    es_measured q_norm, q_growth, q_cos, k_norm, k_growth, k_cos;
} drift_row;

static const es_column drift_columns[] = {
    ES_COL(drift_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(drift_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(drift_row, from, ES_FORMAT_COUNT, "from", "keys", "places of the block, from this"),
    ES_COL(drift_row, to, ES_FORMAT_COUNT, "to", "keys", "up to this"),
    ES_COL(drift_row, q_norm, ES_FORMAT_REAL, "|q|", "",
           "root mean square length of queries, mean over heads; standard errors over blocks"),
    ES_COL(drift_row, q_growth, ES_FORMAT_REAL, "|q| growth", "share",
           "since the octave before, where that is among the rows"),
    ES_COL(drift_row, q_cos, ES_FORMAT_REAL, "direction of q", "",
           "cosine of the mean query and that of the octave before, before rotation; mean over "
           "heads"),
    ES_COL(drift_row, k_norm, ES_FORMAT_REAL, "|k|", "", "the same of keys"),
    ES_COL(drift_row, k_growth, ES_FORMAT_REAL, "|k| growth", "share", "the same of keys"),
    ES_COL(drift_row, k_cos, ES_FORMAT_REAL, "direction of k", "", "the same of keys"),
    {0}};
static const es_table_spec drift_table = {
    "drift", drift_columns,
    ES_VIEW("How queries and keys move with their place",
            "domain layer to q_norm q_growth q_cos k_norm k_growth k_cos", .only_with_full = true),
    ES_ROW(drift_row), .keys = "domain layer to"};

/* ---- numbers of cells ---- */

/* Row of the backtest from half (0) or a quarter (1) of the length. */
static int64_t backtest_row(const probe_far *far, int number)
{
    return far->spec.sizes + far->spec.targets + number;
}

/* Forecast of the length from a part of it, less what it was; NaN: blocks are too short. */
static double backtest(const probe_far_head *h, int number, es_far_stat stat)
{
    return probe_far_drawn(h, backtest_row(h->far, number), stat).value -
           probe_far_real(h, h->far->spec.sizes - 1, stat).value;
}

/* Root mean square error of a backtest over the heads of the head's layer. */
static double layer_error(const probe_far_summary *m, const probe_far_head *h, int number,
                          es_far_stat stat)
{
    double squares = 0.0, count = 0.0;
    for (int64_t i = 0; i < m->count; i++)
        if (m->heads[i].layer == h->layer && m->heads[i].domain == h->domain) {
            squares += pow(backtest(&m->heads[i], number, stat), 2.0);
            count += 1.0;
        }
    return sqrt(squares / count);
}

/* Returns which backtest stands for a forecast: 0, or 1 beyond twice the length, if it could be
 * made. */
static int backtest_for(const probe_far *far, int64_t target)
{
    const es_far_spec *spec = &far->spec;
    return spec->target[target] > 2 * spec->length && es_far_forecasts(spec, spec->length / 4);
}

/* The error that a forecast is expected to have: that of its backtest, or twice that over one
 * octave for two. */
static double expected_error(const probe_far_summary *m, const probe_far_head *h, int64_t target,
                             es_far_stat stat)
{
    const es_far_spec *spec = &m->far->spec;
    const int number = backtest_for(m->far, target);
    const bool twice = spec->target[target] > 2 * spec->length && number == 0;
    return (twice ? 2.0 : 1.0) * layer_error(m, h, number, stat);
}

/* What was measured where a forecast was run. */
static es_measured verified(const probe_far_head *h, int64_t target, es_far_stat stat)
{
    const probe_far *far = h->far;
    const int64_t rows = es_far_rows(&far->verify);
    double mean = 0.0, squares = 0.0;
    if (!far->n_verify)
        return (es_measured){(double)NAN, (double)NAN};
    const double count = (double)far->verify_blocks;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t b = 0; b < far->verify_blocks; b++) {
            const es_far_cell *cells =
                es_job_cell(h->job, far->verify_stage, h->domain * far->verify_blocks + b);
            const double x = cells[h->at * rows + target].real[stat];
            *(pass ? &squares : &mean) += pass ? (x - mean) * (x - mean) : x / count;
        }
    return (es_measured){mean, count > 1.0 ? sqrt(squares / (count - 1.0) / count) : (double)NAN};
}

/* The forecast of a statistic with its error. */
static es_measured forecast_of(const probe_far_head *h, int64_t target, es_far_stat stat,
                               double error)
{
    const es_measured x = probe_far_drawn(h, h->far->spec.sizes + target, stat);
    return (es_measured){x.value, sqrt(x.se * x.se + error * error)};
}

/* ---- forecast ---- */

/* Adds the row of a head at one target; errors (KINDS) are those of its layer. */
static es_status add_row(probe_far_summary *m, es_table *table, const probe_far_head *h,
                         int64_t target, const double *errors, es_error *err)
{
    row *r = es_rows_add(table, row);
    if (!r)
        return es_answer_status(m->answer, err);
    r->domain = h->name;
    r->layer = h->layer;
    r->head = h->head;
    r->n = m->far->spec.target[target];
    es_measured *const values[KINDS] = {&r->entropy,   &r->ess,        &r->far_mass,
                                        &r->sink_mass, &r->local_mass, &r->top_weight};
    es_measured *const truths[KINDS] = {&r->entropy_measured,    &r->ess_measured,
                                        &r->far_mass_measured,   &r->sink_mass_measured,
                                        &r->local_mass_measured, &r->top_weight_measured};
    for (int s = 0; s < KINDS; s++) {
        const bool log = stats[s] == ES_FAR_LOG_ESS;
        const es_measured x = forecast_of(h, target, stats[s], errors[s]);
        *values[s] = log ? probe_exp(x) : x;
        if (!m->far->n_verify)
            continue;
        const es_measured truth = verified(h, target, stats[s]);
        *truths[s] = log ? probe_exp(truth) : truth;
    }
    return ES_OK;
}

/* Adds the rows of all heads, and of what was forecast and run. */
static es_status add_rows(probe_far_summary *m, es_table *table, double *layer_errors,
                          es_error *err)
{
    for (int64_t i = 0; i < m->count; i++)
        for (int64_t t = 0; t < m->far->spec.targets; t++) {
            double *errors = layer_errors + (i * m->far->spec.targets + t) * KINDS;
            for (int s = 0; s < KINDS; s++)
                errors[s] = expected_error(m, &m->heads[i], t, stats[s]);
            ES_TRY(add_row(m, table, &m->heads[i], t, errors, err));
        }
    return ES_OK;
}

/* Adds rows of errors over all heads; m->values has those of the statistic. */
static es_status add_error(probe_far_summary *m, es_table *table, int64_t from, int64_t n, int stat,
                           double covered, es_error *err)
{
    error_row *r = es_rows_add(table, error_row);
    if (!r)
        return es_answer_status(m->answer, err);
    const probe_over_heads over = probe_over(m->values, m->count);
    *r = (error_row){from, n, names[stat], over.mean, over.sd, over.rms, covered};
    return ES_OK;
}

/* Adds what backtests from half and a quarter found. */
static es_status add_backtests(probe_far_summary *m, es_table *table, es_error *err)
{
    const es_far_spec *spec = &m->far->spec;
    for (int b = ES_FAR_BACKTESTS - 1; b >= 0; b--)
        for (int s = 0; s < KINDS && es_far_forecasts(spec, spec->length >> (1 + b)); s++) {
            for (int64_t i = 0; i < m->count; i++)
                m->values[i] = backtest(&m->heads[i], b, stats[s]);
            ES_TRY(add_error(m, table, spec->length >> (1 + b), spec->length, s, (double)NAN, err));
        }
    return ES_OK;
}

/* Adds how forecasts compare with what --verify ran. */
static es_status add_verified(probe_far_summary *m, es_table *table, const double *layer_errors,
                              es_error *err)
{
    const es_far_spec *spec = &m->far->spec;
    for (int64_t t = 0; t < spec->targets && m->far->n_verify; t++)
        for (int s = 0; s < KINDS; s++) {
            double within = es_far_forecasts(spec, spec->length / 2) ? 0.0 : (double)NAN;
            for (int64_t i = 0; i < m->count; i++) {
                const double error = layer_errors[(i * spec->targets + t) * KINDS + s];
                const es_measured x = forecast_of(&m->heads[i], t, stats[s], error);
                const es_measured truth = verified(&m->heads[i], t, stats[s]);
                m->values[i] = x.value - truth.value;
                within += fabs(m->values[i]) <= 2.0 * hypot(x.se, truth.se) ? 1.0 : 0.0;
            }
            ES_TRY(add_error(m, table, spec->length, spec->target[t], s, within / (double)m->count,
                             err));
        }
    return ES_OK;
}

/* ---- drift ---- */

/* Mean over the heads of a layer in block b, of number `which` of a cell. */
enum { Q_NORM, Q_COS, K_NORM, K_COS };
static double layer_mean(const probe_far_summary *m, int64_t first, int64_t heads, int64_t b,
                         int64_t size, int which)
{
    double sum = 0.0;
    for (int64_t i = first; i < first + heads; i++) {
        const es_far_cell *c = probe_far_cell(&m->heads[i], b, size);
        const double all[] = {c->q_norm, c->q_cos, c->k_norm, c->k_cos};
        sum += all[which] / (double)heads;
    }
    return sum;
}

/* The same over blocks; `before` is the size to compare with, -1: none. */
static es_measured drift_of(const probe_far_summary *m, int64_t first, int64_t heads, int64_t size,
                            int64_t before, int which)
{
    const probe_far_head *h = &m->heads[first];
    for (int64_t b = 0; b < h->blocks; b++) {
        h->scratch[b] = layer_mean(m, first, heads, b, size, which);
        if (before >= 0)
            h->scratch[b] /= layer_mean(m, first, heads, b, before, which);
    }
    es_measured x = es_average_column(h->scratch, h->blocks, 1);
    x.value -= before >= 0 ? 1.0 : 0.0;
    return x;
}

/* Adds the rows of one layer. */
static es_status add_drift(probe_far_summary *m, es_table *table, int64_t first, int64_t heads,
                           es_error *err)
{
    const es_far_spec *spec = &m->far->spec;
    for (int64_t s = 0; s < spec->sizes; s++) {
        const int64_t before = s > 0 && spec->size[s - 1] == spec->size[s] / 2 ? s - 1 : -1;
        drift_row *r = es_rows_add(table, drift_row);
        if (!r)
            return es_answer_status(m->answer, err);
        r->domain = m->heads[first].name;
        r->layer = m->heads[first].layer;
        r->from = spec->size[s] / 2;
        r->to = spec->size[s];
        r->q_norm = drift_of(m, first, heads, s, -1, Q_NORM);
        r->k_norm = drift_of(m, first, heads, s, -1, K_NORM);
        r->q_cos = drift_of(m, first, heads, s, -1, Q_COS);
        r->k_cos = drift_of(m, first, heads, s, -1, K_COS);
        if (before < 0)
            continue;
        r->q_growth = drift_of(m, first, heads, s, before, Q_NORM);
        r->k_growth = drift_of(m, first, heads, s, before, K_NORM);
    }
    return ES_OK;
}

/* ---- sentences ---- */

/* Adds a finding about the farthest forecast and how wrong such forecasts were. */
static void tell_farthest(probe_far_summary *m)
{
    const es_far_spec *spec = &m->far->spec;
    const int64_t last = spec->targets - 1;
    char mass[ES_SAY_ROOM], error[ES_SAY_ROOM];
    const int number = backtest_for(m->far, last);
    for (int64_t i = 0; i < m->count; i++)
        m->values[i] = backtest(&m->heads[i], number, ES_FAR_FAR);
    const double rms = probe_over(m->values, m->count).rms;
    for (int64_t i = 0; i < m->count; i++)
        m->values[i] = probe_far_drawn(&m->heads[i], spec->sizes + last, ES_FAR_FAR).value;
    const double mean = probe_over(m->values, m->count).mean;
    es_answer_add_finding(
        m->answer,
        "At n = %lld heads put %s of their weight on far keys (forecast, mean over heads); "
        "forecasting n = %lld from %lld was off by %s in a head (root mean square).",
        (long long)spec->target[last], es_say_number(mean, (double)NAN, mass),
        (long long)spec->length, (long long)(spec->length >> (1 + number)),
        es_say_number(rms, (double)NAN, error));
}

/* Adds the findings about forecasts, and how far they may be trusted. */
static void tell(probe_far_summary *m)
{
    const es_far_spec *spec = &m->far->spec;
    if (es_far_forecasts(spec, spec->length / 2))
        tell_farthest(m);
    else
        es_answer_add_finding(m->answer,
                              "Caution: blocks of %lld tokens are too short to try a forecast on: "
                              "its error is unknown. Take longer blocks (--block).",
                              (long long)spec->length);
    if (spec->target[spec->targets - 1] > 2 * spec->length)
        es_answer_add_finding(m->answer,
                              "Caution: a forecast of more than twice the longest blocks (%lld "
                              "tokens) rests on queries that may have changed by then; see table "
                              "drift.",
                              (long long)spec->length);
}

es_status probe_far_put_forecast(probe_far_summary *m, es_error *err)
{
    const probe_state *s = m->job->state;
    double *errors;
    es_table *forecast = es_answer_table(m->answer, &probe_forecast_table);
    es_table *table = es_answer_table(m->answer, &errors_table);
    es_table *drift = es_answer_table(m->answer, &drift_table);
    ES_TRY(ES_JOB_NEW_2D(m->job, errors, m->count * (m->far->spec.targets + 1), KINDS, err));
    ES_TRY(add_rows(m, forecast, errors, err));
    ES_TRY(add_backtests(m, table, err));
    ES_TRY(add_verified(m, table, errors, err));
    for (int64_t first = 0; first < m->count; first += s->heads)
        ES_TRY(add_drift(m, drift, first, s->heads, err));
    if (m->far->spec.targets)
        tell(m);
    return ES_OK;
}
