/* converge_answer.c : from the errors of all replicates to rows, rates and what was predicted. */
#include "converge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/experiment.h>
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

/* Half the width of an interval of 95 %, as a standard error. */
static double spread_of(const es_rate *rate)
{
    return (rate->high - rate->low) / (2.0 * 1.959963984540054);
}

/* The standard error is that of the bootstrap over replicates, because the fit's own takes the
 * nested sizes for independent; where they are, it is the fit's own. */
static void add_fit(const converge_job *job, json_t *fit, const struct measure *m,
                    const es_rate *rate)
{
    const double interval[2] = {rate->low, rate->high};
    set(fit, m->rate, "", cli_real(rate->mean.rate));
    set(fit, m->rate, "_ci", cli_reals(interval, 2));
    set(fit, m->rate, "_se",
        cli_real(job->spec.independent ? rate->mean.rate_se_known : spread_of(rate)));
    set(fit, m->rate, "_se_known", cli_real(rate->mean.rate_se_known));
    set(fit, m->rate, "_p", cli_real(rate->mean.p_value));
    set(fit, m->rate, "_median", cli_real(rate->median.rate));
}

static const char *flag_name(unsigned flags)
{
    return flags & ES_FIT_REFERENCE ? "reference" : flags & ES_FIT_FLOOR ? "floor" : "";
}

/* Root mean square over replicates at point i, with its standard error to first order. */
static double rms_of(const double *errors, int64_t replicates, int64_t points, int64_t i,
                     double *se)
{
    const double R = (double)replicates;
    double sum = 0.0, off = 0.0;
    for (int64_t r = 0; r < replicates; r++)
        sum += errors[r * points + i] * errors[r * points + i];
    const double mean = sum / R;
    for (int64_t r = 0; r < replicates; r++) {
        const double x = errors[r * points + i] * errors[r * points + i] - mean;
        off += x * x;
    }
    *se = replicates > 1 ? sqrt(off / (R - 1.0) / R) / (2.0 * sqrt(mean)) : (double)NAN;
    return sqrt(mean);
}

/* What the replicates gave for one measure at one scale. */
typedef struct measured {
    double *errors; /* (replicates, sizes) */
    double *n;      /* (sizes) */
    es_fit_summary *summary;
    unsigned *flags;
} measured;

static void add_columns(const converge_job *job, int64_t s, int m, const measured *x, json_t *rows)
{
    const int64_t sizes = job->spec.n_sizes;
    const char *name = measures[m].error;
    for (int64_t i = 0; i < sizes; i++) {
        json_t *row = json_array_get(rows, (size_t)(s * sizes + i));
        double se;
        const double rms = rms_of(x->errors, job->replicates, sizes, i, &se);
        set(row, name, "", cli_real(x->summary[i].mean));
        set(row, name, "_se", cli_real(x->summary[i].se));
        set(row, name, "_median", cli_real(x->summary[i].median));
        set(row, name, "_rms", cli_real(rms));
        set(row, name, "_rms_se", cli_real(se));
        set(row, name, "_flag", json_string(flag_name(x->flags[i])));
    }
}

/* The rate that one would report who trusts the reference. */
static void add_trusting(const struct measure *m, const es_rate *rate, json_t *reference)
{
    set(reference, m->rate, "", cli_real(rate->mean.rate));
    set(reference, m->rate, "_se", cli_real(spread_of(rate)));
}

/* One measure at one scale: its columns in the rows, its rate in the fit; and in `reference`, if
 * there is one, its rate through all points. */
static es_status summarise(converge_job *job, int64_t s, int m, json_t *rows, json_t *fit,
                           json_t *reference, es_error *err)
{
    const int64_t sizes = job->spec.n_sizes, R = job->replicates;
    const measured x = {.errors = cli_alloc_array((size_t)(R * sizes), sizeof(double)),
                        .n = cli_alloc_array((size_t)sizes, sizeof(double)),
                        .summary = cli_alloc_array((size_t)sizes, sizeof(es_fit_summary)),
                        .flags = cli_alloc_array((size_t)sizes, sizeof(unsigned))};
    es_rate rate;
    es_rate_opts opts = {.seed = job->spec.seed,
                         .experiment = ES_EXPERIMENT_FIT,
                         .cell = (uint64_t)(s * MEASURES + m),
                         .resamples = reference ? 0 : 2,
                         .exec = &job->session->exec};
    gather(job, s, &measures[m], x.errors);
    for (int64_t i = 0; i < sizes; i++)
        x.n[i] = (double)job->spec.sizes[i];
    /* Flags need the means first; a fit that is refused for lack of points still leaves a summary.
     */
    es_status status =
        es_fit_replicates(x.errors, R, sizes, x.n, NULL, &opts, x.summary, &rate, err);
    if (status == ES_OK && reference && m != MAP)
        add_trusting(&measures[m], &rate, reference);
    flag_points(job, s, m, x.summary, x.flags);
    opts.resamples = 0;
    status = es_fit_replicates(x.errors, R, sizes, x.n, x.flags, &opts, x.summary, &rate, err);
    add_columns(job, s, m, &x, rows);
    if (status == ES_OK)
        add_fit(job, fit, &measures[m], &rate);
    else
        set(fit, measures[m].rate, "_reason", json_string(err->message));
    free(x.errors);
    free(x.n);
    free(x.summary);
    free(x.flags);
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

/* ---- all scales ---- */

/* "mean, cov: reference": which errors of a row are in no fit, for people. */
static void add_flag(json_t *row)
{
    char text[128] = "", key[64];
    const char *last = "";
    size_t used = 0;
    for (int m = 0; m < MEASURES; m++) {
        snprintf(key, sizeof key, "%s_flag", measures[m].error);
        const char *flag = json_string_value(json_object_get(row, key));
        if (!flag || !*flag || m == SPECTRAL)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                 measures[m].rate + strlen("rate_"));
        last = flag;
    }
    if (used)
        snprintf(text + used, sizeof text - used, ": %s", last);
    json_object_set_new(row, "flag", json_string(text));
}

static json_t *empty_rows(const converge_job *job)
{
    json_t *rows = json_array();
    for (int64_t s = 0; s < job->spec.n_scales; s++)
        for (int64_t i = 0; i < job->spec.n_sizes; i++) {
            json_t *row = json_object();
            json_object_set_new(row, "scale", cli_real(job->spec.scales[s]));
            json_object_set_new(row, "n", json_integer(job->spec.sizes[i]));
            json_array_append_new(rows, row);
        }
    return rows;
}

/* How far what is compared with is from the limit. */
static void add_limit_error(const converge_job *job, int64_t s, json_t *to)
{
    double mean, cov;
    es_converge_limit_error(job->limit, s, &mean, &cov);
    json_object_set_new(to, "limit_mean_error", cli_real(mean));
    json_object_set_new(to, "limit_cov_error", cli_real(cov));
}

static es_status add_scale(converge_job *job, int64_t s, json_t *rows, json_t *fits,
                           json_t *references, es_error *err)
{
    json_t *fit = json_object(), *reference = references ? json_object() : NULL;
    json_object_set_new(fit, "scale", cli_real(job->spec.scales[s]));
    es_status status = predict(job, s, fit, err);
    add_limit_error(job, s, fit);
    if (reference) {
        json_object_set_new(reference, "scale", cli_real(job->spec.scales[s]));
        json_object_set_new(reference, "tokens", json_integer(job->spec.reference));
        add_limit_error(job, s, reference);
        json_array_append_new(references, reference);
    }
    for (int m = 0; m < MEASURES && status == ES_OK; m++)
        status = summarise(job, s, m, rows, fit, reference, err);
    json_array_append_new(fits, fit);
    return status;
}

es_status converge_answer(converge_job *job, es_error *err)
{
    json_t *answer = job->session->answer, *rows = empty_rows(job), *fits = json_array(), *row;
    json_t *references = job->spec.reference ? json_array() : NULL;
    es_status status = ES_OK;
    size_t i;
    for (int64_t s = 0; s < job->spec.n_scales && status == ES_OK; s++)
        status = add_scale(job, s, rows, fits, references, err);
    json_array_foreach(rows, i, row) add_flag(row);
    json_object_set_new(answer, "rows", rows);
    json_object_set_new(answer, "fits", fits);
    if (references)
        json_object_set_new(answer, "references", references);
    return status;
}
