/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : the question with a limit: how fast do errors fall as n grows? Its replicates, and the
 * tables of errors, rates and reference samples.
 *
 * A replicate draws n tokens and compares attention with its limit: mean and covariance of the
 * outputs over queries, and the map itself, |Gamma_n(x) - Gamma(x)|. Sizes are prefixes of one
 * sample, so errors at different n are correlated; the rate is a weighted fit of ln error on ln n
 * whose error is the jackknife's over replicates, and whose p tests whether an exact power law
 * would bend as much (THEORY 4.7). Points whose error is mostly that of the reference sample, or of
 * rounding, have a flag and are in no fit. Theory gives 1/2 below horizon 1 and exponents in H
 * above it (THEORY 4.4), beside the papers' worst-case rates. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/converge/converge.h"
#include "experiments/kit/answer_kit.h"
#include "limit/limit.h"

/* ---- replicates ---- */

static const es_cell_field cell_fields[] = {ES_FIELD(es_converge_cell, mean_error),
                                            ES_FIELD(es_converge_cell, cov_frobenius),
                                            ES_FIELD(es_converge_cell, cov_spectral),
                                            ES_FIELD(es_converge_cell, map_error),
                                            {0}};

/* Computes one replicate: a record for each scale and size. */
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, void *out,
                               es_error *err)
{
    const converge_state *s = job->state;
    es_converge_spec spec = s->spec;
    spec.exec = exec;
    return es_converge_replicate(&spec, s->limit, cell, out, err);
}

/* Computes the horizons at scale 1. They are linear in the scale, so those of a row are products.
 */
static es_status make_horizons(es_job *job, converge_state *s, es_error *err)
{
    const int64_t d = s->law.law.dim;
    double *cov;
    ES_TRY(ES_JOB_NEW_2D(job, cov, d, d, err));
    const es_view view = es_view_f64(cov, d, d);
    ES_TRY(es_limit_token_moments(&s->law.law, job->exec.budget, NULL, cov, err));
    return es_horizons_of(&view, 0.0, &s->head.head, job->exec.budget, &s->horizons, err);
}

/* Opens the question for laws with a limit and adds its stage. */
static es_status open_question(es_job *job, es_error *err)
{
    const converge_params *p = job->params;
    converge_state *s = job->state;
    es_converge_cost one;
    ES_TRY(make_horizons(job, s, err));
    ES_TRY(es_converge_cost_of(&s->spec, &one, err));
    return es_job_stage(job,
                        &(es_stage){"replicate", .phase = "drawing tokens", .noun = "replicates",
                                    .cells = p->replicates,
                                    .rows = p->scales.count * p->sizes.count,
                                    ES_RECORD(es_converge_cell, cell_fields), .flops = one.flops,
                                    .run = run_replicate},
                        err);
}

/* Computes the limit of each scale: in closed form, by quadrature, or from a reference sample. */
static es_status begin(es_job *job, es_error *err)
{
    converge_state *s = job->state;
    return es_converge_limit_new(&s->spec, &s->limit, err);
}

/* Returns the cost of limit and replicates; a dry run also measures the speed of this machine. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const converge_params *p = job->params;
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    const double R = (double)p->replicates;
    es_converge_cost one;
    ES_TRY(es_converge_cost_of(spec, &one, err));
    *out = (es_cost){.flops = R * one.flops + one.limit_flops,
                     .begin_flops = one.limit_flops,
                     .output_bytes = R * (double)(spec->n_scales * spec->n_sizes) *
                                     (double)sizeof(es_converge_cell),
                     .work_bytes = (double)one.bytes + (double)one.limit_bytes};
    return job->dry_run ? converge_duration(job, out->flops, one.flops, &out->seconds, err) : ES_OK;
}

/* ---- rows: errors at one scale and n ---- */

/* One kind of error over replicates. Theory predicts the root mean square and the papers plot the
 * mean; where they differ, rare replicates dominate. */
typedef struct error_stats {
    es_measured mean;
    double median;
    es_measured rms;
    const char *flag;
} error_stats;

/* A row of the table of errors: all errors at one scale and n. */
typedef struct converge_row {
    double scale;
    int64_t n;
    error_stats of[CONVERGE_ERRORS];
    const char *flag;
} converge_row;

#define ERROR_COLUMNS(which, key, title, definition)                                               \
    ES_COL_KEY(converge_row, of[which].mean, key, ES_FORMAT_REAL, title, "", definition),          \
        ES_COL_KEY(converge_row, of[which].median, key "_median", ES_FORMAT_REAL, title " median", \
                   ""),                                                                            \
        ES_COL_KEY(converge_row, of[which].rms, key "_rms", ES_FORMAT_REAL, title " rms", "",      \
                   "root mean square over replicates"),                                            \
        ES_COL_KEY(converge_row, of[which].flag, key "_flag", ES_FORMAT_TEXT, title " flag", "",   \
                   "why it is left out of the fit")

static const es_column row_columns[] = {
    ES_COL(converge_row, scale, ES_FORMAT_REAL, "scale", "", "factor on `A = Wk'Wq/sqrt(k)`"),
    ES_COL(converge_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ERROR_COLUMNS(CONVERGE_MEAN, "mean_error", "mean error", "|m_n - m|, mean over replicates"),
    ERROR_COLUMNS(CONVERGE_COV, "cov_error", "cov error", "|C_n - C| in Frobenius norm"),
    ERROR_COLUMNS(CONVERGE_SPECTRAL, "cov_spectral_error", "spectral", "the same in spectral norm"),
    ERROR_COLUMNS(CONVERGE_MAP, "map_error", "map error",
                  "root mean square over queries of |Gamma_n(x) - Gamma(x)|"),
    ES_COL(converge_row, flag, ES_FORMAT_TEXT, "flag", "",
           "errors left out of the fits: floor, they are rounding; reference, more than a tenth is "
           "the error of what they are compared with"),
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW("Distance from the infinite-token limit",
            "scale n mean_error cov_error map_error flag cov_spectral_error",
            "Standard errors are over replicates. Sizes of one replicate are nested, so rows are "
            "dependent, unless --independent."),
    ES_ROW(converge_row), .keys = "scale n"};

/* ---- fits: rates at one scale ---- */

/* A fitted rate, error ~ n^-rate, with its interval and test. */
typedef struct rate_stats {
    es_measured rate;
    double from, to, se_known, median, intercept, p, predicted;
    const char *reason;
} rate_stats;

/* A row of the table of fits: rates of one scale beside the horizon and the theoretical exponents.
 * */
typedef struct converge_fit {
    double scale, horizon, horizon_unscaled, frobenius;
    double rate_worst_case, rate_coupling, exponent_mean, exponent_map;
    rate_stats of[CONVERGE_ERRORS]; /* `predicted` of CONVERGE_SPECTRAL is no column */
    double rate_horizon, limit_mean_error, limit_cov_error;
} converge_fit;

#define RATE_COLUMNS(which, key, title, definition)                                                \
    ES_COL_KEY(converge_fit, of[which].rate, key, ES_FORMAT_REAL, title, "", definition),          \
        ES_COL_KEY(converge_fit, of[which].from, key "_ci.0", ES_FORMAT_REAL, title " from", "",   \
                   "95 % interval, Student's t over replicates"),                                  \
        ES_COL_KEY(converge_fit, of[which].to, key "_ci.1", ES_FORMAT_REAL, title " to", ""),      \
        ES_COL_KEY(converge_fit, of[which].se_known, key "_se_known", ES_FORMAT_SHORT,             \
                   title " se known", "", "standard error if rows were independent"),              \
        ES_COL_KEY(converge_fit, of[which].median, key "_median", ES_FORMAT_REAL,                  \
                   title " of medians", ""),                                                       \
        ES_COL_KEY(converge_fit, of[which].intercept, key "_intercept", ES_FORMAT_REAL,            \
                   title " intercept", "", "of the fit: ln error = intercept - rate `ln n`"),      \
        ES_COL_KEY(converge_fit, of[which].reason, key "_reason", ES_FORMAT_TEXT, title " reason", \
                   "", "why there is no rate")

static const es_column fit_columns[] = {
    ES_COL(converge_fit, scale, ES_FORMAT_REAL, "scale", ""),
    ES_COL(converge_fit, horizon, ES_FORMAT_SHORT, "H", "", "two-sided horizon `|S^1/2 A S^1/2|`"),
    ES_COL(converge_fit, horizon_unscaled, ES_FORMAT_SHORT, "H unscaled", "",
           "without the `1/sqrt(k)` in A, as the papers' code reports it"),
    ES_COL(converge_fit, frobenius, ES_FORMAT_SHORT, "F", "",
           "Frobenius norm of the same matrix, which decides at finite n"),
    ES_COL_KEY(converge_fit, rate_worst_case, "predicted.rate_worst_case", ES_FORMAT_SHORT,
               "1/(2(1+32 Psi))", "", "the exponent of the paper's first version",
               .standing = ES_STANDING_CITED),
    ES_COL_KEY(converge_fit, rate_coupling, "predicted.rate_coupling", ES_FORMAT_SHORT,
               "1/(2(1+Psi))", "", "between its neighbours, since `H^2 <= Psi`",
               .standing = ES_STANDING_PROVED),
    ES_COL_KEY(converge_fit, rate_horizon, "predicted.rate_horizon", ES_FORMAT_SHORT,
               "1/(2(1+H^2))", "", "the paper's exponent, a bound", .standing = ES_STANDING_CITED),
    ES_COL_KEY(converge_fit, exponent_mean, "predicted.exponent_mean", ES_FORMAT_SHORT,
               "mean exponent", "", "of the mean for n to infinity",
               .standing = ES_STANDING_HEURISTIC),
    ES_COL_KEY(converge_fit, exponent_map, "predicted.exponent_map", ES_FORMAT_SHORT,
               "map exponent", "", "of one output for n to infinity",
               .standing = ES_STANDING_HEURISTIC),
    RATE_COLUMNS(CONVERGE_MEAN, "rate_mean", "mean rate",
                 "error ~ n^-rate, weighted fit; standard error by the jackknife over replicates"),
    ES_COL_KEY(converge_fit, of[CONVERGE_MEAN].predicted, "predicted.rate_mean", ES_FORMAT_SHORT,
               "predicted", "", "the same fit, with the same weights, through the predicted errors",
               .standing = ES_STANDING_HEURISTIC),
    ES_COL_KEY(converge_fit, of[CONVERGE_MEAN].p, "rate_mean_p", ES_FORMAT_SHORT, "p", "",
               "of a power law on this range: probability that replicates of one bend more "
               "(Hotelling's test over replicates). None with fewer than 4 replicates"),
    RATE_COLUMNS(CONVERGE_COV, "rate_cov", "cov rate", NULL),
    ES_COL_KEY(converge_fit, of[CONVERGE_COV].predicted, "predicted.rate_cov", ES_FORMAT_SHORT,
               "predicted", "", .standing = ES_STANDING_HEURISTIC),
    ES_COL_KEY(converge_fit, of[CONVERGE_COV].p, "rate_cov_p", ES_FORMAT_SHORT, "p", ""),
    RATE_COLUMNS(CONVERGE_SPECTRAL, "rate_cov_spectral", "spectral rate", NULL),
    ES_COL_KEY(converge_fit, of[CONVERGE_SPECTRAL].p, "rate_cov_spectral_p", ES_FORMAT_SHORT, "p",
               ""),
    RATE_COLUMNS(CONVERGE_MAP, "rate_map", "map rate", NULL),
    ES_COL_KEY(converge_fit, of[CONVERGE_MAP].predicted, "predicted.rate_map", ES_FORMAT_SHORT,
               "predicted", "", .standing = ES_STANDING_PROVED),
    ES_COL_KEY(converge_fit, of[CONVERGE_MAP].p, "rate_map_p", ES_FORMAT_SHORT, "p", ""),
    ES_COL(converge_fit, rate_horizon, ES_FORMAT_SHORT, "1/(2(1+H^2))", "",
           "the paper's exponent, a bound for n to infinity", .standing = ES_STANDING_CITED),
    ES_COL(converge_fit, limit_mean_error, ES_FORMAT_SHORT, "limit mean error", "",
           "bound on the error of what means are compared with"),
    ES_COL(converge_fit, limit_cov_error, ES_FORMAT_SHORT, "limit cov error", "",
           "the same for covariances"),
    {0}};
static const es_table_spec fits_table = {
    "fits", fit_columns,
    ES_VIEW("Rates",
            "scale horizon rate_mean rate_mean_p predicted.rate_mean rate_cov rate_cov_p "
            "predicted.rate_cov rate_map rate_map_p predicted.rate_map rate_horizon frobenius"),
    ES_ROW(converge_fit), .keys = "scale"};

/* ---- references: the sample that replaces the limit, at one scale ---- */

/* The row about a reference sample, which stands for the limit and has an error of its own. */
typedef struct reference_row {
    double scale;
    int64_t tokens;
    double limit_mean_error, limit_cov_error;
    es_measured of[CONVERGE_MAP]; /* rates; the map is always compared with the limit */
} reference_row;

static const es_column reference_columns[] = {
    ES_COL(reference_row, scale, ES_FORMAT_REAL, "scale", ""),
    ES_COL(reference_row, tokens, ES_FORMAT_COUNT, "tokens", "",
           "of the sample whose moments replace those of the limit"),
    ES_COL(reference_row, limit_mean_error, ES_FORMAT_SHORT, "mean off by", "",
           "distance of the sample from the limit, which is known"),
    ES_COL(reference_row, limit_cov_error, ES_FORMAT_SHORT, "cov off by", ""),
    ES_COL_KEY(reference_row, of[CONVERGE_MEAN], "rate_mean", ES_FORMAT_REAL, "mean rate", "",
               "fit through all rows that takes the sample for the limit: not a rate of "
               "convergence"),
    ES_COL_KEY(reference_row, of[CONVERGE_COV], "rate_cov", ES_FORMAT_REAL, "cov rate", ""),
    ES_COL_KEY(reference_row, of[CONVERGE_SPECTRAL], "rate_cov_spectral", ES_FORMAT_REAL,
               "spectral rate", ""),
    {0}};
static const es_table_spec references_table = {"references", reference_columns,
                                               ES_VIEW("The reference sample"),
                                               ES_ROW(reference_row), .keys = "scale"};

/* ---- one kind of error at one scale ---- */

/* Where the summary of one scale goes. The three tables differ, so their rows stay in place until
 * the scale is done. */
typedef struct summary_ctx {
    es_job *job;
    const converge_state *s;
    es_answer *answer;
    es_table *rows, *fits;
    converge_row *row;             /* (sizes) rows of the scale */
    converge_fit *fit;             /* of the scale */
    reference_row *reference;      /* of the scale; NULL without a reference sample */
    es_series of[CONVERGE_ERRORS]; /* of the scale */
} summary_ctx;

/* Returns one of the four errors of a cell. */
static double error_of(const es_converge_cell *cell, converge_error which)
{
    const double errors[CONVERGE_ERRORS] = {[CONVERGE_MEAN] = cell->mean_error,
                                            [CONVERGE_COV] = cell->cov_frobenius,
                                            [CONVERGE_SPECTRAL] = cell->cov_spectral,
                                            [CONVERGE_MAP] = cell->map_error};
    return errors[which];
}

/* Copies error `which` at one scale from cells (replicates, scales, sizes) into the series. */
static void gather(const es_converge_spec *spec, const es_converge_cell *cells, int64_t scale,
                   converge_error which, es_series *to)
{
    const int64_t sizes = spec->n_sizes, all = spec->n_scales * sizes;
    for (int64_t i = 0; i < sizes; i++) {
        to->at[i] = (double)spec->sizes[i];
        for (int64_t r = 0; r < to->replicates; r++)
            to->errors[r * sizes + i] = error_of(&cells[r * all + scale * sizes + i], which);
    }
}

/* Flags points at which rounding of the kernels or the error of the limit dominates. Rounding is
 * relative to the size of an output, which at small n is mostly error; for a covariance one of the
 * two factors is the spread. Fresh queries (population) are compared with the limit at the same
 * queries, whose error is negligible. */
static void flag_points(const summary_ctx *m, int64_t scale, converge_error which,
                        es_series *series)
{
    const double rounding = m->s->spec.precision == ES_F64 ? 1e-14 : 5e-7;
    double mean, cov, rms, spread, largest = 0.0;
    es_converge_limit_error(m->s->limit, scale, &mean, &cov);
    es_converge_limit_size(m->s->limit, scale, &rms, &spread);
    for (int64_t i = 0; i < series->points; i++)
        largest = fmax(largest, series->summary[i].mean);
    const bool is_cov = which == CONVERGE_COV || which == CONVERGE_SPECTRAL;
    const double floor = rounding * (is_cov ? rms * spread : rms + largest);
    const double reference = m->s->spec.population || which == CONVERGE_MAP ? 0.0
                             : is_cov                                       ? cov
                                                                            : mean;
    for (int64_t i = 0; i < series->points; i++)
        series->flags[i] = es_fit_flags_of(series->summary[i].mean, floor, reference);
}

/* Returns why a point is in no fit: the reference's own error, or rounding. */
static const char *flag_name(unsigned flags)
{
    return flags & ES_FIT_REFERENCE ? "reference" : flags & ES_FIT_FLOOR ? "floor" : "";
}

/* Copies the summary of an error at one n to its columns. */
static void put_error(error_stats *out, const es_fit_summary *x, unsigned flags)
{
    out->mean = (es_measured){x->mean, x->se};
    out->median = x->median;
    out->rms = (es_measured){x->rms, x->rms_se};
    out->flag = flag_name(flags);
}

/* The standard error is that of the jackknife over replicates, because the fit's own assumes that
 * nested sizes are independent. */
static void put_rate(es_table *fits, rate_stats *out, const es_series *s)
{
    const es_fit *line = &s->rate.mean;
    if (s->status != ES_OK) {
        out->reason = es_table_format(fits, "%s", s->reason);
        return;
    }
    out->rate = (es_measured){line->rate, s->rate.se};
    out->from = s->rate.low;
    out->to = s->rate.high;
    out->se_known = line->rate_se_known;
    out->median = s->rate.median.rate;
    out->intercept = line->intercept;
    out->p = s->rate.power_p;
}

/* Fits all points, as if the reference sample were the limit. */
static es_status fit_reference(reference_row *out, es_series *s, converge_error which,
                               es_error *err)
{
    ES_TRY(es_series_fit(s, err));
    if (s->status == ES_OK && which != CONVERGE_MAP)
        out->of[which] = (es_measured){s->rate.mean.rate, s->rate.se};
    return ES_OK;
}

/* Summarises one kind of error at one scale: its part of the rows, and its rate. */
static es_status summarise_error(summary_ctx *m, int64_t scale, converge_error which, es_error *err)
{
    es_series *s = &m->of[which];
    gather(&m->s->spec, es_job_cell(m->job, 0, 0), scale, which, s);
    for (int64_t i = 0; i < s->points; i++)
        s->flags[i] = 0;
    if (m->reference)
        ES_TRY(fit_reference(m->reference, s, which, err));
    else
        ES_TRY(es_series_means(s, err));
    flag_points(m, scale, which, s); /* flags need the means first */
    ES_TRY(es_series_fit(s, err));
    for (int64_t i = 0; i < s->points; i++)
        put_error(&m->row[i].of[which], &s->summary[i], s->flags[i]);
    put_rate(m->fits, &m->fit->of[which], s);
    return ES_OK;
}

/* ---- one scale ---- */

/* Fills the exponents that the papers and the asymptotic theory give for n to infinity (THEORY 2
 * and 4.4). Fitted rates at the n of this run may differ. */
static es_status put_exponents(const summary_ctx *m, int64_t scale, es_error *err)
{
    const es_horizons *at1 = &m->s->horizons;
    const double c = m->s->spec.scales[scale], coupling = c * c * at1->coupling.val;
    converge_fit *fit = m->fit;
    es_exponents e;
    ES_TRY(es_exponents_at(c * at1->horizon.val, &e, err));
    fit->scale = c;
    fit->horizon = c * at1->horizon.val;
    fit->horizon_unscaled = c * at1->unscaled.val;
    fit->frobenius = c * at1->frobenius.val;
    fit->rate_worst_case = 1.0 / (2.0 * (1.0 + 32.0 * coupling)); /* THEORY 2, [S:A1] */
    fit->rate_coupling = 0.5 / (1.0 + coupling);
    fit->exponent_mean = e.mean_abs;
    fit->exponent_map = e.query_rms;
    fit->rate_horizon = e.paper;
    es_converge_limit_error(m->s->limit, scale, &fit->limit_mean_error, &fit->limit_cov_error);
    return ES_OK;
}

/* Returns "mean, cov: reference": which errors of a row are in no fit, for people. */
static const char *flags_of(es_table *rows, const converge_row *row)
{
    static const char *const names[CONVERGE_ERRORS] = {
        [CONVERGE_MEAN] = "mean", [CONVERGE_COV] = "cov", [CONVERGE_MAP] = "map"};
    const char *last = NULL;
    char text[64] = "";
    size_t used = 0;
    for (int which = 0; which < CONVERGE_ERRORS; which++)
        if (names[which] && *row->of[which].flag) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                     names[which]);
            last = row->of[which].flag;
        }
    return last ? es_table_format(rows, "%s: %s", text, last) : "";
}

/* Adds the rows of one scale to the tables. */
static es_status add_rows(summary_ctx *m, int64_t scale, es_error *err)
{
    const es_converge_spec *spec = &m->s->spec;
    for (int64_t i = 0; i < spec->n_sizes; i++) {
        converge_row *row = es_rows_add(m->rows, converge_row);
        if (!row)
            return es_answer_status(m->answer, err);
        row->scale = spec->scales[scale];
        row->n = spec->sizes[i];
    }
    m->row = es_rows(m->rows, converge_row) + scale * spec->n_sizes;
    m->fit = es_rows_add(m->fits, converge_fit);
    if (spec->reference)
        m->reference = es_rows_add(es_answer_table(m->answer, &references_table), reference_row);
    return es_answer_status(m->answer, err);
}

/* Fills all rows of one scale: errors, theoretical exponents and fits. */
static es_status summarise_scale(summary_ctx *m, int64_t scale, es_error *err)
{
    const es_converge_spec *spec = &m->s->spec;
    ES_TRY(add_rows(m, scale, err));
    ES_TRY(put_exponents(m, scale, err));
    if (m->reference) {
        m->reference->scale = spec->scales[scale];
        m->reference->tokens = spec->reference;
        m->reference->limit_mean_error = m->fit->limit_mean_error;
        m->reference->limit_cov_error = m->fit->limit_cov_error;
    }
    for (int which = 0; which < CONVERGE_ERRORS; which++)
        ES_TRY(summarise_error(m, scale, (converge_error)which, err));
    for (int64_t i = 0; i < spec->n_sizes; i++)
        m->row[i].flag = flags_of(m->rows, &m->row[i]);
    return ES_OK;
}

/* ---- all scales ---- */

/* Says how fast the mean error falls at the first and the last scale. */
static void report_rates(es_answer *a, const es_table *fits)
{
    const converge_fit *fit = es_rows(fits, converge_fit);
    const int64_t count = es_table_rows(fits);
    for (int64_t i = 0; i < count; i += es_say_step(count)) {
        const es_measured rate = fit[i].of[CONVERGE_MEAN].rate;
        char power[ES_SAY_SIZE];
        es_answer_add_finding(a,
                              "At scale %.3g (horizon H = %.3g) %s%s; the paper guarantees n^-%.3g "
                              "or faster for n to "
                              "infinity.",
                              fit[i].scale, fit[i].horizon,
                              isfinite(rate.value)
                                  ? "the error of the mean output falls like "
                                  : "no power law could be fitted to the error of the mean output",
                              isfinite(rate.value) ? es_say_power(rate.value, rate.se, power) : "",
                              fit[i].rate_horizon);
    }
}

/* Fills all tables and adds the findings. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const converge_params *p = job->params;
    const converge_state *s = job->state;
    summary_ctx m = {.job = job,
                     .s = s,
                     .answer = answer,
                     .rows = es_answer_table(answer, &rows_table),
                     .fits = es_answer_table(answer, &fits_table)};
    converge_theory theory;
    if (p->predict)
        ES_TRY(converge_theory_new(job, &theory, err));
    for (int which = 0; which < CONVERGE_ERRORS; which++)
        ES_TRY(es_series_new(&job->arena, p->replicates, s->spec.n_sizes, &m.of[which], err));
    for (int64_t scale = 0; scale < s->spec.n_scales; scale++) {
        converge_predicted_rates rates;
        ES_TRY(summarise_scale(&m, scale, err));
        if (!p->predict)
            continue;
        ES_TRY(converge_predict_scale(job, &theory, scale, m.of, answer, &rates, err));
        m.fit->of[CONVERGE_MEAN].predicted = rates.mean;
        m.fit->of[CONVERGE_COV].predicted = rates.cov;
        m.fit->of[CONVERGE_MAP].predicted = rates.map;
    }
    report_rates(answer, m.fits);
    return p->predict ? converge_report_predictions(job, answer, err) : ES_OK;
}

const converge_question converge_to_limit = {open_question, cost, begin, summarise};
