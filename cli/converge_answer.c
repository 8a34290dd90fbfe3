/* converge_answer.c : from the errors of all replicates to rows, rates and what was predicted. */
#include "converge.h"

#include <math.h>
#include <stdlib.h>

#include <esscher/fit.h>

#include "answer.h"
#include "talk.h"

/* The four errors of a cell, as they are called in the answer. */
static const struct measure {
    const char *error, *rate;
    size_t field;
} measures[] = {
    {"mean_error", "rate_mean", offsetof(es_converge_cell, mean_error)},
    {"cov_error", "rate_cov", offsetof(es_converge_cell, cov_frobenius)},
    {"cov_spectral_error", "rate_cov_spectral", offsetof(es_converge_cell, cov_spectral)},
    {"map_error", "rate_map", offsetof(es_converge_cell, map_error)}};

enum { MEASURES = sizeof measures / sizeof measures[0], MEAN = 0, COV = 1, SPECTRAL = 2, MAP = 3 };

static void set(json_t *object, const char *prefix, const char *suffix, json_t *value)
{
    char key[64];
    snprintf(key, sizeof key, "%s%s", prefix, suffix);
    json_object_set_new(object, key, value);
}

/* Errors of one measure at one scale, (replicates, sizes). */
static void gather(const converge_job *job, int64_t s, const struct measure *m, double *out)
{
    const int64_t sizes = job->spec.n_sizes, scales = job->spec.n_scales;
    for (int64_t r = 0; r < job->replicates; r++)
        for (int64_t i = 0; i < sizes; i++) {
            const es_converge_cell *cell = &job->cells[(r * scales + s) * sizes + i];
            out[r * sizes + i] = *(const double *)(const void *)((const char *)cell + m->field);
        }
}

/* A point is left out of a fit where rounding of the kernels or the error of the limit is what was
 * measured. Rounding is relative to the size of an output, which at small n is mostly error; in a
 * covariance one factor of two is the spread. Population queries are compared with the limit at the
 * very same queries, which has no error to speak of. */
static void flag_points(const converge_job *job, int64_t s, int m, const es_fit_summary *summary,
                        unsigned *flags)
{
    const double rounding = job->spec.precision == ES_F64 ? 1e-14 : 5e-7;
    double mean, cov, rms, spread, largest = 0.0;
    es_converge_limit_error(job->limit, s, &mean, &cov);
    es_converge_limit_size(job->limit, s, &rms, &spread);
    for (int64_t i = 0; i < job->spec.n_sizes; i++)
        largest = fmax(largest, summary[i].mean);
    const bool is_cov = m == COV || m == SPECTRAL;
    const double floor = rounding * (is_cov ? rms * spread : rms + largest);
    const double reference = job->spec.population || m == MAP ? 0.0 : is_cov ? cov : mean;
    for (int64_t i = 0; i < job->spec.n_sizes; i++)
        flags[i] = es_fit_flags_of(summary[i].mean, floor, reference);
}

static void add_fit(json_t *fit, const struct measure *m, const es_rate *rate)
{
    const double interval[2] = {rate->low, rate->high};
    set(fit, m->rate, "", cli_real(rate->mean.rate));
    set(fit, m->rate, "_ci", cli_reals(interval, 2));
    /* of the bootstrap over replicates; the fit's own takes the nested sizes for independent */
    set(fit, m->rate, "_se", cli_real((rate->high - rate->low) / (2.0 * 1.959963984540054)));
    set(fit, m->rate, "_se_known", cli_real(rate->mean.rate_se_known));
    set(fit, m->rate, "_p", cli_real(rate->mean.p_value));
    set(fit, m->rate, "_median", cli_real(rate->median.rate));
}

/* One measure at one scale: its columns in the rows, its rate in the fit. */
static es_status summarise(converge_job *job, int64_t s, int m, json_t *rows, json_t *fit,
                           es_error *err)
{
    const int64_t sizes = job->spec.n_sizes;
    double *errors = cli_alloc_array((size_t)(job->replicates * sizes), sizeof *errors);
    double *n = cli_alloc_array((size_t)sizes, sizeof *n);
    es_fit_summary *summary = cli_alloc_array((size_t)sizes, sizeof *summary);
    unsigned *flags = cli_alloc_array((size_t)sizes, sizeof *flags);
    es_rate rate;
    es_rate_opts opts = {.seed = job->spec.seed,
                         .experiment = 100,
                         .cell = (uint64_t)(s * MEASURES + m),
                         .resamples = 2,
                         .exec = &job->session->exec};
    gather(job, s, &measures[m], errors);
    for (int64_t i = 0; i < sizes; i++)
        n[i] = (double)job->spec.sizes[i];
    /* Flags need the means first; a fit that is refused for lack of points still leaves a summary.
     */
    (void)es_fit_replicates(errors, job->replicates, sizes, n, NULL, &opts, summary, &rate, err);
    flag_points(job, s, m, summary, flags);
    opts.resamples = 0;
    const es_status status =
        es_fit_replicates(errors, job->replicates, sizes, n, flags, &opts, summary, &rate, err);
    for (int64_t i = 0; i < sizes; i++) {
        json_t *row = json_array_get(rows, (size_t)(s * sizes + i));
        set(row, measures[m].error, "", cli_real(summary[i].mean));
        set(row, measures[m].error, "_se", cli_real(summary[i].se));
        set(row, measures[m].error, "_median", cli_real(summary[i].median));
        set(row, measures[m].error, "_flag",
            json_string(flags[i] & ES_FIT_REFERENCE ? "reference"
                        : flags[i] & ES_FIT_FLOOR   ? "floor"
                                                    : ""));
    }
    if (status == ES_OK)
        add_fit(fit, &measures[m], &rate);
    else
        set(fit, measures[m].rate, "_reason", json_string(err->message));
    free(errors);
    free(n);
    free(summary);
    free(flags);
    return status == ES_E_INTERRUPTED || status == ES_E_LIMIT || status == ES_E_MEMORY ? status
                                                                                       : ES_OK;
}

/* What the papers and the asymptotic theory say, from the weights alone. */
static es_status predict(const converge_job *job, int64_t s, json_t *fit, es_error *err)
{
    const double c = job->spec.scales[s], h = c * job->horizons.horizon.val;
    const double coupling = c * c * job->horizons.coupling.val;
    es_exponents exponents;
    const es_status status = es_exponents_at(h, &exponents, err);
    if (status != ES_OK)
        return status;
    json_t *predicted = json_object();
    json_object_set_new(fit, "horizon", cli_real(h));
    json_object_set_new(fit, "horizon_unscaled", cli_real(c * job->horizons.unscaled.val));
    json_object_set_new(fit, "frobenius", cli_real(c * job->horizons.frobenius.val));
    json_object_set_new(predicted, "rate_worst_case",
                        cli_real(1.0 / (2.0 * (1.0 + 32.0 * coupling))));
    json_object_set_new(predicted, "rate_horizon", cli_real(exponents.paper));
    json_object_set_new(predicted, "exponent_mean", cli_real(exponents.mean_abs));
    json_object_set_new(predicted, "exponent_map", cli_real(exponents.query_rms));
    json_object_set_new(fit, "rate_horizon", cli_real(exponents.paper));
    json_object_set_new(fit, "predicted", predicted);
    return ES_OK;
}

es_status converge_answer(converge_job *job, es_error *err)
{
    json_t *rows = json_array(), *fits = json_array();
    es_status status = ES_OK;
    for (int64_t s = 0; s < job->spec.n_scales; s++)
        for (int64_t i = 0; i < job->spec.n_sizes; i++) {
            json_t *row = json_object();
            json_object_set_new(row, "scale", cli_real(job->spec.scales[s]));
            json_object_set_new(row, "n", json_integer(job->spec.sizes[i]));
            json_array_append_new(rows, row);
        }
    for (int64_t s = 0; s < job->spec.n_scales && status == ES_OK; s++) {
        json_t *fit = json_object();
        json_object_set_new(fit, "scale", cli_real(job->spec.scales[s]));
        status = predict(job, s, fit, err);
        for (int m = 0; m < MEASURES && status == ES_OK; m++)
            status = summarise(job, s, m, rows, fit, err);
        json_array_append_new(fits, fit);
    }
    json_object_set_new(job->session->answer, "rows", rows);
    json_object_set_new(job->session->answer, "fits", fits);
    return status;
}

/* ---- views ---- */

static const cli_column row_columns[] = {
    {"scale", "scale", "", .format = CLI_REAL, .definition = "factor on A = Wk'Wq/sqrt(k)"},
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"mean_error", "mean error", "", .format = CLI_REAL, .error = "mean_error_se",
     .definition = "|m_n - m|, mean over replicates"},
    {"cov_error", "cov error", "", .format = CLI_REAL, .error = "cov_error_se",
     .definition = "|C_n - C| in Frobenius norm"},
    {"map_error", "map error", "", .format = CLI_REAL, .error = "map_error_se",
     .definition = "root mean square over queries of |Gamma_n(x) - Gamma(x)|"},
    {"cov_error_flag", "flag", "", .format = CLI_TEXT,
     .definition = "cov error is left out of the fit: floor, it is rounding; reference, it is the "
                   "limit's own error"},
    {0}};

const cli_table converge_rows_table = {.rows = "rows",
                                       .title = "Distance from the infinite-token limit",
                                       .columns = row_columns,
                                       .note = "Standard errors are over replicates. Sizes of one "
                                               "replicate are nested, so rows are dependent."};

static const cli_column fit_columns[] = {
    {"scale", "scale", "", .format = CLI_REAL},
    {"horizon", "H", "", .format = CLI_SHORT, .definition = "two-sided horizon |S^1/2 A S^1/2|"},
    {"frobenius", "F", "", .format = CLI_SHORT,
     .definition = "Frobenius norm of the same matrix: what decides at finite n"},
    {"rate_mean", "mean rate", "", .format = CLI_REAL, .error = "rate_mean_se",
     .definition =
         "error ~ n^-rate, weighted fit; the error is that of a bootstrap over replicates"},
    {"rate_mean_p", "p", "", .format = CLI_SHORT,
     .definition = "of chi^2: is it a power law on this range?"},
    {"rate_cov", "cov rate", "", .format = CLI_REAL, .error = "rate_cov_se"},
    {"rate_cov_p", "p", "", .format = CLI_SHORT},
    {"rate_map", "map rate", "", .format = CLI_REAL, .error = "rate_map_se"},
    {"rate_map_p", "p", "", .format = CLI_SHORT},
    {"rate_horizon", "1/(2(1+H^2))", "", .format = CLI_SHORT,
     .definition = "the paper's exponent, a bound for n to infinity"},
    {0}};

const cli_table converge_fits_table = {.rows = "fits", .title = "Rates", .columns = fit_columns};
