/* probe_answer.c : from errors of replicates to what is said about heads, layers and domains. */
#include "probe.h"

#include <math.h>
#include <stdlib.h>

#include <esscher/experiment.h>
#include <esscher/fit.h>

#include "answer.h"
#include "talk.h"

enum { MEAN, COV, MAP, MEASURES };

static const size_t field_of[MEASURES] = {offsetof(es_probe_cell, mean_error),
                                          offsetof(es_probe_cell, cov_error),
                                          offsetof(es_probe_cell, map_error)};

/* Tokens of the text, and Gaussian ones of the same covariance. */
enum { TEXT, GAUSSIAN, KINDS };

static const struct measure {
    const char *error, *rate;
} measures[KINDS][MEASURES] = {
    {{"mean_error", "rate_mean"}, {"cov_error", "rate_cov"}, {"map_error", "rate_map"}},
    {{"mean_error_gaussian", "rate_mean_gaussian"},
     {"cov_error_gaussian", "rate_cov_gaussian"},
     {"map_error_gaussian", "rate_map_gaussian"}}};

static void set(json_t *object, const char *prefix, const char *suffix, json_t *value)
{
    char key[64];
    snprintf(key, sizeof key, "%s%s", prefix, suffix);
    json_object_set_new(object, key, value);
}

static void set_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, cli_real(value));
}

static double error_of(const es_probe_cell *cell, int m)
{
    return *(const double *)(const void *)((const char *)cell + field_of[m]);
}

/* ---- one head ---- */

/* Everything that fits of one head share. */
typedef struct head_fit {
    probe_job *job;
    const probe_layer *layer;
    int64_t head;
    double *errors;          /* (replicates of either kind, sizes) */
    double *n;               /* (sizes) */
    es_fit_summary *summary; /* (sizes) */
    unsigned *flags;         /* (sizes) */
    const es_probe_head *about;
    const es_probe_local *local;
    json_t *row;   /* of the head */
    json_t **rows; /* (sizes) of the curves */
} head_fit;

static es_rate_opts bootstrap_of(const head_fit *f, int kind, int m)
{
    const int64_t place =
        (f->layer->domain * f->job->config->layers + f->layer->layer) * f->job->config->heads +
        f->head;
    return (es_rate_opts){.seed = f->job->session->common.seed,
                          .experiment = ES_EXPERIMENT_FIT,
                          .cell = (uint64_t)kind << 40 | (uint64_t)(place * MEASURES + m),
                          .exec = &f->job->quiet};
}

/* Tokens are drawn from the pool, so attention over the whole pool is the limit of theirs, exactly:
 * the pool's own error does not enter a rate. Rounding does, and so does a draw without replacement
 * that takes a good part of the pool. */
static void flag_points(head_fit *f, int kind)
{
    const double floor = 5e-7 * f->about->output_rms; /* rounding of the f32 kernels */
    const int64_t tokens = es_pool_about(f->job->domains[f->layer->domain].pool).tokens;
    for (int64_t i = 0; i < f->job->n_sizes; i++) {
        f->flags[i] = es_fit_flags_of(f->summary[i].mean, floor, 0.0);
        if (kind == TEXT && f->job->without_replacement && f->job->sizes[i] > tokens / 10)
            f->flags[i] |= ES_FIT_REFERENCE;
    }
}

/* What to think of a point: "floor" and "reference" are left out of the fit; "pool" is not, but
 * says more about this pool than about its text. */
static const char *flag_name(const head_fit *f, int64_t i, int m)
{
    const double own = error_of(&f->about->limit, m);
    return f->flags[i] & ES_FIT_FLOOR       ? "floor"
           : f->flags[i] & ES_FIT_REFERENCE ? "reference"
           : own > 0.1 * f->summary[i].mean ? "pool"
                                            : "";
}

static void put_rate(const head_fit *f, const char *name, es_status status, const es_rate *rate,
                     const es_error *why)
{
    const double interval[2] = {rate->low, rate->high};
    if (status != ES_OK) {
        set(f->row, name, "", json_null());
        set(f->row, name, "_reason", json_string(why->message));
        return;
    }
    set(f->row, name, "", cli_real(rate->mean.rate));
    set(f->row, name, "_se", cli_real((rate->high - rate->low) / (2.0 * 1.959963984540054)));
    set(f->row, name, "_ci", cli_reals(interval, 2));
    set(f->row, name, "_p", cli_real(rate->mean.p_value));
}

static es_status fit_measure(head_fit *f, int kind, int m, es_error *err)
{
    const int64_t sizes = f->job->n_sizes, heads = f->job->config->heads;
    const int64_t R = kind == TEXT ? f->job->replicates : f->job->control;
    const es_probe_cell *cells = kind == TEXT ? f->layer->cells : f->layer->control;
    const struct measure *name = &measures[kind][m];
    es_rate rate = {0};
    es_rate_opts opts = bootstrap_of(f, kind, m);
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < sizes; i++)
            f->errors[r * sizes + i] = error_of(&cells[(r * heads + f->head) * sizes + i], m);
    opts.resamples = 2; /* flags need the means first */
    (void)es_fit_replicates(f->errors, R, sizes, f->n, NULL, &opts, f->summary, &rate, err);
    flag_points(f, kind);
    opts.resamples = 0;
    const es_status status =
        es_fit_replicates(f->errors, R, sizes, f->n, f->flags, &opts, f->summary, &rate, err);
    for (int64_t i = 0; i < sizes; i++) {
        set(f->rows[i], name->error, "", cli_real(f->summary[i].mean));
        set(f->rows[i], name->error, "_se", cli_real(f->summary[i].se));
        if (kind == TEXT)
            set(f->rows[i], name->error, "_flag", json_string(flag_name(f, i, m)));
    }
    put_rate(f, name->rate, status, &rate, err);
    return status == ES_E_INTERRUPTED || status == ES_E_LIMIT || status == ES_E_MEMORY ? status
                                                                                       : ES_OK;
}

/* What Gaussian tokens of the same covariance would give, and the rate that would show. */
static es_status put_prediction(head_fit *f, es_error *err)
{
    const int64_t sizes = f->job->n_sizes;
    double *predicted = cli_alloc_array((size_t)sizes, sizeof *predicted);
    es_fit_point *points = cli_alloc_array((size_t)sizes, sizeof *points);
    es_error refused;
    es_fit fit;
    const es_status status = es_probe_predict(f->layer->probe, f->head, predicted, err);
    for (int64_t i = 0; status == ES_OK && i < sizes; i++) {
        set_real(f->rows[i], "map_error_predicted", predicted[i]);
        points[i] = (es_fit_point){
            .n = f->n[i], .error = predicted[i], .se = 0.01 * predicted[i], .flags = f->flags[i]};
    }
    if (status == ES_OK)
        set_real(f->row, "rate_map_predicted",
                 es_fit_power(points, sizes, &fit, &refused) == ES_OK ? fit.rate : (double)NAN);
    free(points);
    free(predicted);
    return status;
}

/* From how many tokens on the map error, sqrt(sampling / n), is a tenth of the outputs' spread. */
static double tokens_for_tenth(const es_probe_head *a, double sampling)
{
    return 100.0 * sampling / (a->output_rms * a->output_rms);
}

static es_status put_weights(const head_fit *f, es_error *err)
{
    const es_probe_head *a = f->about;
    es_exponents exponents;
    const es_status status = es_exponents_at(a->horizons.horizon.val, &exponents, err);
    set_real(f->row, "horizon", a->horizons.horizon.val);
    set_real(f->row, "horizon_error", a->horizons.horizon.err);
    set_real(f->row, "horizon_one_sided", a->horizons.one_sided.val);
    set_real(f->row, "horizon_unscaled", a->horizons.unscaled.val);
    set_real(f->row, "coupling", a->horizons.coupling.val);
    set_real(f->row, "frobenius", a->horizons.frobenius.val);
    set_real(f->row, "rate_horizon", a->horizons.rate_horizon);
    set_real(f->row, "rate_worst_case", a->horizons.rate_worst_case);
    set_real(f->row, "exponent_map", exponents.query_rms);
    set_real(f->row, "exponent_mean", exponents.mean_abs);
    set_real(f->row, "score_sd", a->score_sd);
    set_real(f->row, "score_sd_se", a->score_sd_se);
    set_real(f->row, "freezing", a->freezing);
    set_real(f->row, "frozen", a->frozen);
    set_real(f->row, "frozen_se", a->frozen_se);
    set_real(f->row, "output_rms", a->output_rms);
    set_real(f->row, "sampling", a->sampling);
    set_real(f->row, "sampling_error", a->sampling_error);
    set_real(f->row, "thin", a->thin);
    set_real(f->row, "tokens_for_tenth", tokens_for_tenth(a, a->sampling));
    set_real(f->row, "tokens_for_tenth_error", tokens_for_tenth(a, a->sampling_error));
    set_real(f->row, "local_exponent", f->local->exponent);
    set_real(f->row, "local_exponent_se", f->local->exponent_se);
    set_real(f->row, "beta", f->local->beta);
    set_real(f->row, "beta_frozen", f->local->beta_frozen);
    for (int m = 0; m < MEASURES; m++)
        set(f->row, measures[TEXT][m].error, "_limit", cli_real(error_of(&a->limit, m)));
    return status;
}

static es_status put_context(const head_fit *f, es_error *err)
{
    es_pool_context c;
    const es_status status = es_pool_context_of(f->job->domains[f->layer->domain].pool,
                                                f->layer->layer, f->head, &c, err);
    set_real(f->row, "entropy", c.entropy);
    set_real(f->row, "entropy_se", c.entropy_se);
    set_real(f->row, "top_mass", c.top_weight);
    set_real(f->row, "top_mass_se", c.top_weight_se);
    set_real(f->row, "ess", c.ess);
    set_real(f->row, "ess_se", c.ess_se);
    set_real(f->row, "inverse_ess", c.sum_squares);
    set_real(f->row, "inverse_ess_se", c.sum_squares_se);
    set_real(f->row, "sink_first", f->about->sink_first);
    set_real(f->row, "sink_first_se", f->about->sink_first_se);
    set_real(f->row, "sink_last", f->about->sink_last);
    set_real(f->row, "sink_last_se", f->about->sink_last_se);
    return status;
}

static void name_row(const probe_job *job, const probe_layer *layer, json_t *row)
{
    if (job->n_domains > 1)
        json_object_set_new(row, "domain", json_string(job->domains[layer->domain].name));
    json_object_set_new(row, "layer", json_integer(layer->layer));
}

/* What the pool's own weights say draws of it will show, once n is large. */
static void put_sampling(const head_fit *f)
{
    const double N = (double)es_pool_about(f->job->domains[f->layer->domain].pool).tokens;
    for (int64_t i = 0; i < f->job->n_sizes; i++) {
        const double left = f->job->without_replacement ? (N - f->n[i]) / (N - 1.0) : 1.0;
        set_real(f->rows[i], "map_error_sampling", sqrt(f->about->sampling * left / f->n[i]));
    }
}

/* Errors relative to the size of the head's outputs: comparable between heads. */
static void put_relative(const head_fit *f)
{
    const int64_t last = f->job->n_sizes - 1;
    double mean = 0.0, se = 0.0;
    for (int64_t i = 0; i <= last; i++) {
        mean = json_number_value(json_object_get(f->rows[i], "map_error"));
        se = json_number_value(json_object_get(f->rows[i], "map_error_se"));
        set_real(f->rows[i], "relative_error", mean / f->about->output_rms);
        set_real(f->rows[i], "relative_error_se", se / f->about->output_rms);
    }
    json_object_set(f->row, "relative_error", json_object_get(f->rows[last], "relative_error"));
    json_object_set(f->row, "relative_error_se",
                    json_object_get(f->rows[last], "relative_error_se"));
    double *rate =
        f->job->rates +
        2 * ((f->layer->domain * f->job->config->layers + f->layer->layer) * f->job->config->heads +
             f->head);
    rate[0] = log(mean / f->about->output_rms);
    rate[1] = se / mean;
}

static es_status fit_head(head_fit *f, es_error *err)
{
    es_status status = put_weights(f, err);
    for (int m = 0; m < MEASURES && status == ES_OK; m++)
        status = fit_measure(f, TEXT, m, err);
    if (status == ES_OK)
        status = put_prediction(f, err);
    for (int m = 0; m < MEASURES && status == ES_OK && f->job->control; m++)
        status = fit_measure(f, GAUSSIAN, m, err);
    if (status == ES_OK)
        status = put_context(f, err);
    if (status == ES_OK) {
        put_relative(f);
        put_sampling(f);
    }
    return status;
}

static es_status answer_head(probe_job *job, const probe_layer *layer, int64_t head,
                             const es_probe_local *local, json_t *nested, es_error *err)
{
    const size_t sizes = (size_t)job->n_sizes;
    const int64_t draws = job->control > job->replicates ? job->control : job->replicates;
    es_probe_head about;
    es_status status = es_probe_head_of(layer->probe, head, &about, err);
    if (status != ES_OK)
        return status;
    head_fit f = {.job = job,
                  .layer = layer,
                  .head = head,
                  .errors = cli_alloc_array((size_t)draws * sizes, sizeof(double)),
                  .n = cli_alloc_array(sizes, sizeof(double)),
                  .summary = cli_alloc_array(sizes, sizeof(es_fit_summary)),
                  .flags = cli_alloc_array(sizes, sizeof(unsigned)),
                  .rows = cli_alloc_array(sizes, sizeof(json_t *)),
                  .about = &about,
                  .local = local,
                  .row = json_object()};
    name_row(job, layer, f.row);
    json_object_set_new(f.row, "head", json_integer(head));
    for (int64_t i = 0; i < job->n_sizes; i++) {
        f.n[i] = (double)job->sizes[i];
        f.rows[i] = json_object();
        name_row(job, layer, f.rows[i]);
        json_object_set_new(f.rows[i], "head", json_integer(head));
        json_object_set_new(f.rows[i], "n", json_integer(job->sizes[i]));
        json_array_append_new(json_object_get(job->session->answer, "rows"), f.rows[i]);
    }
    json_array_append(json_object_get(job->session->answer, "heads"), f.row);
    json_array_append_new(nested, f.row);
    status = fit_head(&f, err);
    free(f.errors);
    free(f.n);
    free(f.summary);
    free(f.flags);
    free(f.rows);
    return status;
}

/* ---- one layer ---- */

/* Mean and standard error over replicates, at the largest n, of a field of es_probe_joint. */
static void put_joint(const probe_job *job, const probe_layer *layer, const char *name,
                      size_t field, json_t *row)
{
    const int64_t R = job->replicates, last = job->n_sizes - 1;
    double mean = 0.0, spread = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t r = 0; r < R; r++) {
            const char *joint = (const char *)&layer->joint[r * job->n_sizes + last];
            const double x = *(const double *)(const void *)(joint + field);
            if (pass == 0)
                mean += x / (double)R;
            else
                spread += pow(x - mean, 2.0);
        }
    set(row, name, "", cli_real(mean));
    set(row, name, "_se", cli_real(sqrt(spread / ((double)R * (double)(R - 1)))));
}

es_status probe_answer_layer(probe_job *job, const probe_layer *layer, es_error *err)
{
    es_probe_layer about;
    json_t *row = json_object(), *nested = json_array();
    es_status status = es_probe_layer_of(layer->probe, &about, err);
    name_row(job, layer, row);
    if (status == ES_OK) {
        set_real(row, "reach", about.reach.val);
        set_real(row, "reach_error", about.reach.err);
        set_real(row, "trace", about.trace);
        set_real(row, "participation", about.participation);
        set_real(row, "horizon_unscaled_all_heads", about.horizon_unscaled_all_heads);
        put_joint(job, layer, "coherence", offsetof(es_probe_joint, coherence), row);
        put_joint(job, layer, "layer_error", offsetof(es_probe_joint, map_error), row);
    }
    es_probe_local *local = cli_alloc_array((size_t)job->config->heads, sizeof *local);
    if (status == ES_OK)
        status = es_probe_local_of(layer->probe, local, err);
    for (int64_t h = 0; h < job->config->heads && status == ES_OK; h++)
        status = answer_head(job, layer, h, &local[h], nested, err);
    free(local);
    double most = 0.0, frozen = 0.0;
    const json_t *head;
    size_t i;
    json_array_foreach(nested, i, head)
    {
        most = fmax(most, json_number_value(json_object_get(head, "horizon")));
        frozen += json_number_value(json_object_get(head, "frozen")) / (double)job->config->heads;
    }
    set_real(row, "horizon", most);
    set_real(row, "frozen", frozen);
    json_object_set_new(row, "heads", nested);
    json_array_append_new(json_object_get(job->session->answer, "layers"), row);
    return status;
}

/* ---- domains ---- */

void probe_answer_domains(probe_job *job)
{
    const int64_t heads = job->config->heads, all = job->config->layers * heads;
    const double tests = (double)(all * (job->n_domains - 1));
    json_t *rows = json_array();
    for (int64_t d = 1; d < job->n_domains; d++)
        for (int64_t h = 0; h < all; h++) {
            const double *here = job->rates + 2 * (d * all + h), *first = job->rates + 2 * h;
            const double z = (here[0] - first[0]) / hypot(here[1], first[1]);
            /* two-sided, for as many tests as there are rows */
            const double p = fmin(1.0, tests * erfc(fabs(z) / sqrt(2.0)));
            json_t *row = json_object();
            json_object_set_new(row, "domain", json_string(job->domains[d].name));
            json_object_set_new(row, "against", json_string(job->domains[0].name));
            json_object_set_new(row, "layer", json_integer(h / heads));
            json_object_set_new(row, "head", json_integer(h % heads));
            set_real(row, "ratio", exp(here[0] - first[0]));
            set_real(row, "ratio_se", exp(here[0] - first[0]) * hypot(here[1], first[1]));
            set_real(row, "z", z);
            set_real(row, "p", p);
            json_object_set_new(row, "differs", json_string(p < 0.01 ? "yes" : "no"));
            json_array_append_new(rows, row);
        }
    json_object_set_new(job->session->answer, "differences", rows);
}
