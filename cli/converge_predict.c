/* converge_predict.c : measured errors beside what theory expects without having measured anything.
 */
#include "converge.h"

#include <math.h>
#include <stdlib.h>

#include <esscher/fit.h>
#include <esscher/limit.h>

#include "answer.h"
#include "talk.h"

/* ---- one prediction ---- */

/* What predictions are made from: covariance of a token, and the head with one scale in its Wq or
 * A. */
typedef struct ingredients {
    double *cov, *scaled;
    es_view cov_view, scaled_view;
    const es_view *unscaled; /* Wq or A of the head */
    es_head head;
    es_rotation rotation; /* 0: not isotropic, or queries are the tokens of one given rotation */
} ingredients;

/* Tokens N(0, s^2 I), A a multiple of a rotation O, V = I: quadrature without sampling. With the
 * tokens as queries the trace of O matters, which for a random one is averaged over there. */
static es_rotation rotation_of(const converge_job *job)
{
    const es_converge_spec *spec = &job->spec;
    if (spec->law->factor || spec->head->V || job->head_kind < HEAD_ROTATION)
        return (es_rotation)0;
    if (job->head_kind == HEAD_IDENTITY || spec->law->dim == 1)
        return ES_ROTATION_NONE;
    return spec->population ? ES_ROTATION_HAAR : (es_rotation)0;
}

static es_status ingredients_new(const converge_job *job, ingredients *in, es_error *err)
{
    const es_law *law = job->spec.law;
    const es_head *head = job->spec.head;
    const size_t d = (size_t)law->dim;
    const es_view *unscaled = head->A ? head->A : head->Wq;
    *in = (ingredients){.cov = cli_alloc_array(d * d, sizeof(double)),
                        .scaled = cli_alloc_array((size_t)unscaled->rows * d, sizeof(double)),
                        .unscaled = unscaled,
                        .head = *head,
                        .rotation = rotation_of(job)};
    in->cov_view = es_view_f64(in->cov, law->dim, law->dim);
    in->scaled_view = es_view_f64(in->scaled, unscaled->rows, unscaled->cols);
    return es_limit_token_moments(law, &job->session->budget, NULL, in->cov, err);
}

static void ingredients_free(ingredients *in)
{
    free(in->cov);
    free(in->scaled);
}

/* From tokens N(0, I) to N(0, s^2 I). */
static void stretch(es_predicted *p, double s)
{
    p->query_rms *= s;
    p->mean_rms *= s;
    p->mean_abs *= s;
    p->cov_bias *= s * s;
    p->cov_rms *= s * s;
}

static es_status predict_at(const converge_job *job, ingredients *in, double scale, int64_t n,
                            es_predicted *out, double *sampling, es_error *err)
{
    const double size = job->spec.law->size, horizon = scale * size * size;
    const es_predict_opts opts = {.samples = 256, .seed = job->spec.seed};
    es_budget *budget = &job->session->budget;
    es_prediction p;
    es_status status;
    if (in->rotation && horizon >= 1e-4 && horizon <= 1e3) {
        status = es_predict_isotropic(job->spec.law->dim, horizon, in->rotation, (double)n, budget,
                                      &p, NULL, err);
        stretch(&p.population, size);
        stretch(&p.self, size);
    } else {
        for (int64_t i = 0; i < in->unscaled->rows; i++)
            for (int64_t j = 0; j < in->unscaled->cols; j++)
                es_view_set(&in->scaled_view, i, j, scale * es_view_get(in->unscaled, i, j));
        if (in->head.A)
            in->head.A = &in->scaled_view;
        else
            in->head.Wq = &in->scaled_view;
        status = es_predict_general(&in->cov_view, 0.0, &in->head, (double)n, &opts, budget, &p,
                                    NULL, err);
    }
    *out = job->spec.population ? p.population : p.self;
    *sampling = p.sampling;
    return status;
}

es_status converge_predictable(const es_law *law, es_error *err)
{
    if (law->kind == ES_LAW_GAUSSIAN && !law->mean)
        return ES_OK;
    return cli_fail(err, ES_E_ARGUMENT, NULL, "converge.predict", "leave --predict out",
                    "predictions are for Gaussian tokens around 0");
}

/* ---- beside what was measured ---- */

static json_t *prediction_row(const json_t *measured, const es_predicted *p, double sampling)
{
    static const char *const copied[] = {"scale",
                                         "n",
                                         "mean_error",
                                         "mean_error_rms",
                                         "mean_error_rms_se",
                                         "cov_error",
                                         "cov_error_rms",
                                         "cov_error_rms_se",
                                         "map_error",
                                         "map_error_rms",
                                         "map_error_rms_se"};
    json_t *row = json_object();
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        json_object_set(row, copied[i], json_object_get(measured, copied[i]));
    json_object_set_new(row, "predicted_mean_error", cli_real(p->mean_abs));
    json_object_set_new(row, "predicted_mean_error_rms", cli_real(p->mean_rms));
    json_object_set_new(row, "predicted_cov_error", cli_real(p->cov_rms));
    json_object_set_new(row, "predicted_map_error", cli_real(p->query_rms));
    json_object_set_new(row, "sampling", cli_real(sampling));
    return row;
}

/* The line through predicted errors, with the weights and without the points that the measured ones
 * have. A single replicate gives no weights: all are equal. */
static double rate_of(const converge_job *job, const json_t *rows, int64_t s, const char *error,
                      const double *predicted)
{
    const int64_t sizes = job->spec.n_sizes;
    es_fit_point *points = cli_alloc_array((size_t)sizes, sizeof *points);
    for (int64_t i = 0; i < sizes; i++) {
        const json_t *row = json_array_get(rows, (size_t)(s * sizes + i));
        char key[64];
        snprintf(key, sizeof key, "%s_se", error);
        const json_t *se = json_object_get(row, key);
        const double mean = json_number_value(json_object_get(row, error));
        snprintf(key, sizeof key, "%s_flag", error);
        const char *flag = json_string_value(json_object_get(row, key));
        points[i] = (es_fit_point){.n = (double)job->spec.sizes[i],
                                   .error = predicted[i],
                                   .se = predicted[i] * (json_is_number(se) && mean > 0.0
                                                             ? json_number_value(se) / mean
                                                             : 1.0),
                                   .flags = flag && *flag ? ES_FIT_REFERENCE : 0};
    }
    es_fit line;
    es_error ignored;
    const es_status status = es_fit_power(points, sizes, &line, &ignored);
    free(points);
    return status == ES_OK ? line.rate : (double)NAN;
}

/* All sizes of scale s. `errors` (3, sizes): mean, as E|.|, which is what the measured fit is of;
 * covariance and map as root mean squares, which is what theory has. */
static es_status predict_scale(const converge_job *job, ingredients *in, int64_t s, double *errors,
                               json_t *out, es_error *err)
{
    const json_t *answer = job->session->answer, *rows = json_object_get(answer, "rows");
    const int64_t sizes = job->spec.n_sizes;
    for (int64_t i = 0; i < sizes; i++) {
        es_predicted p;
        double sampling;
        const es_status status =
            predict_at(job, in, job->spec.scales[s], job->spec.sizes[i], &p, &sampling, err);
        if (status != ES_OK)
            return status;
        const json_t *measured = json_array_get(rows, (size_t)(s * sizes + i));
        json_array_append_new(out, prediction_row(measured, &p, sampling));
        errors[i] = p.mean_abs;
        errors[sizes + i] = p.cov_rms;
        errors[2 * sizes + i] = p.query_rms;
        if (cli_interrupted())
            return ES_E_INTERRUPTED;
    }
    json_t *fit = json_array_get(json_object_get(answer, "fits"), (size_t)s);
    json_t *predicted = json_object_get(fit, "predicted");
    json_object_set_new(predicted, "rate_mean",
                        cli_real(rate_of(job, rows, s, "mean_error", errors)));
    json_object_set_new(predicted, "rate_cov",
                        cli_real(rate_of(job, rows, s, "cov_error", errors + sizes)));
    json_object_set_new(predicted, "rate_map",
                        cli_real(rate_of(job, rows, s, "map_error", errors + 2 * sizes)));
    return ES_OK;
}

es_status converge_predict(converge_job *job, es_error *err)
{
    ingredients in;
    json_t *out = json_array();
    double *errors = cli_alloc_array((size_t)(3 * job->spec.n_sizes), sizeof *errors);
    es_status status = ingredients_new(job, &in, err);
    for (int64_t s = 0; s < job->spec.n_scales && status == ES_OK; s++)
        status = predict_scale(job, &in, s, errors, out, err);
    json_object_set_new(job->session->answer, "predictions", out);
    ingredients_free(&in);
    free(errors);
    return status;
}

es_status converge_predict_once(converge_job *job, es_error *err)
{
    const es_converge_spec *spec = &job->spec;
    ingredients in;
    es_predicted p;
    double sampling;
    es_status status = ingredients_new(job, &in, err);
    if (status == ES_OK)
        status = predict_at(job, &in, spec->scales[spec->n_scales / 2],
                            spec->sizes[spec->n_sizes - 1], &p, &sampling, err);
    ingredients_free(&in);
    return status;
}
