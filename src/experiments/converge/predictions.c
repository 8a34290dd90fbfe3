/* SPDX-License-Identifier: Apache-2.0 */
/* predictions.c : --predict: the errors that theory expects from the law and the head, without
 * measuring anything (THEORY 4.5), beside the measured ones. */
#include <math.h>

#include "base/error.h"
#include "experiments/converge/converge.h"
#include "experiments/kit/answer_kit.h"
#include "limit/limit.h"
#include "stats/average.h"

/* ---- theory ---- */

/* Returns the kind of rotation for which quadrature needs no sampling: tokens N(0, s^2 I), A a
 * multiple of a rotation O, V = I. In self mode the trace of O matters; only population mode may
 * average over a random O. */
static es_rotation rotation_of(const converge_params *p, const converge_state *s)
{
    if (s->law.law.factor || s->head.head.V || p->head.kind < ES_HEAD_ROTATION)
        return (es_rotation)0;
    if (p->head.kind == ES_HEAD_IDENTITY || s->law.law.dim == 1)
        return ES_ROTATION_NONE;
    return s->spec.population ? ES_ROTATION_HAAR : (es_rotation)0;
}

es_status converge_predictable(const es_law *law, es_error *err)
{
    if ((es_law_traits(law->kind) & ES_LAW_QUADRATIC) && !law->mean)
        return ES_OK;
    return es_refuse(err, "converge.predict", "leave --predict out",
                     "--predict needs Gaussian tokens with mean 0");
}

es_status converge_theory_new(es_job *job, converge_theory *out, es_error *err)
{
    const converge_state *s = job->state;
    const int64_t d = s->law.law.dim;
    *out = (converge_theory){.rotation = rotation_of(job->params, s)};
    ES_TRY(ES_JOB_NEW_2D(job, out->cov, d, d, err));
    out->cov_view = es_view_f64(out->cov, d, d);
    return es_limit_token_moments(&s->law.law, job->exec.budget, NULL, out->cov, err);
}

/* Converts predictions for tokens N(0, I) to N(0, s^2 I): errors scale like tokens, covariances
 * like their squares. */
static void stretch(es_predicted *p, double s)
{
    p->query_rms *= s;
    p->mean_rms *= s;
    p->mean_abs *= s;
    p->cov_bias *= s * s;
    p->cov_rms *= s * s;
}

/* Predicts for any covariance, by sampling queries; the scale goes into the head's Wq or A. */
static es_status predict_general(const es_job *job, const converge_theory *t, double scale,
                                 int64_t n, es_prediction *out, es_error *err)
{
    const converge_state *s = job->state;
    const es_predict_opts opts = {.samples = 256, .seed = job->seed};
    es_head_data scaled = {0};
    es_status status =
        es_head_scaled(&s->head.head, ES_HEAD_WQ, scale, 1.0, job->exec.budget, &scaled, err);
    if (status == ES_OK)
        status = es_predict_general(&t->cov_view, 0.0, &scaled.head, (double)n, &opts,
                                    job->exec.budget, out, NULL, err);
    es_head_data_free(&scaled);
    return status;
}

es_status converge_predict(const es_job *job, const converge_theory *t, double scale, int64_t n,
                           es_predicted *out, double *sampling, es_error *err)
{
    const converge_state *s = job->state;
    const double size = s->law.law.size, horizon = scale * size * size;
    es_prediction p;
    if (t->rotation && horizon >= 1e-4 && horizon <= 1e3) {
        ES_TRY(es_predict_isotropic(s->law.law.dim, horizon, t->rotation, (double)n,
                                    job->exec.budget, &p, NULL, err));
        stretch(&p.population, size);
        stretch(&p.self, size);
    } else {
        ES_TRY(predict_general(job, t, scale, n, &p, err));
    }
    *out = s->spec.population ? p.population : p.self;
    *sampling = p.sampling;
    return ES_OK;
}

/* ---- the table ---- */

/* One scale and n. Theory gives root mean squares over replicates, so the measured side has them
 * too. */
typedef struct prediction_row {
    double scale;
    int64_t n;
    double mean_error;
    es_measured mean_error_rms;
    double predicted_mean_error_rms, predicted_mean_error;
    double cov_error;
    es_measured cov_error_rms;
    double predicted_cov_error;
    double map_error;
    es_measured map_error_rms;
    double predicted_map_error, sampling;
} prediction_row;

static const es_column prediction_columns[] = {
    ES_COL(prediction_row, scale, ES_FORMAT_REAL, "scale", ""),
    ES_COL(prediction_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(prediction_row, mean_error, ES_FORMAT_REAL, "mean of mean errors", ""),
    ES_COL(prediction_row, mean_error_rms, ES_FORMAT_REAL, "mean error", "",
           "root mean square over replicates, as predictions are; rare replicates dominate it for "
           "H above 0.7"),
    ES_COL(prediction_row, predicted_mean_error_rms, ES_FORMAT_SHORT, "predicted", "",
           "from the law and the head, nothing measured (THEORY 4.5)",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(prediction_row, predicted_mean_error, ES_FORMAT_SHORT, "predicted mean", "",
           "the same for the mean over replicates", .standing = ES_STANDING_HEURISTIC),
    ES_COL(prediction_row, cov_error, ES_FORMAT_REAL, "mean of cov errors", ""),
    ES_COL(prediction_row, cov_error_rms, ES_FORMAT_REAL, "cov error", ""),
    ES_COL(prediction_row, predicted_cov_error, ES_FORMAT_SHORT, "predicted", "",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(prediction_row, map_error, ES_FORMAT_REAL, "mean of map errors", ""),
    ES_COL(prediction_row, map_error_rms, ES_FORMAT_REAL, "map error", ""),
    ES_COL(prediction_row, predicted_map_error, ES_FORMAT_SHORT, "predicted", "",
           .standing = ES_STANDING_PROVED),
    ES_COL(prediction_row, sampling, ES_FORMAT_SHORT, "sampling", "",
           "relative standard error of the predictions, from sampling queries"),
    {0}};
static const es_table_spec predictions_table = {
    "predictions", prediction_columns,
    ES_VIEW("Measured beside predicted",
            "scale n mean_error_rms predicted_mean_error_rms cov_error_rms predicted_cov_error "
            "map_error_rms predicted_map_error sampling"),
    ES_ROW(prediction_row), .keys = "scale n"};

/* Fills measured errors beside the predicted ones at one n. */
static void fill_row(prediction_row *r, const es_series *series, int64_t i, const es_predicted *p)
{
    const es_fit_summary *mean = &series[CONVERGE_MEAN].summary[i],
                         *cov = &series[CONVERGE_COV].summary[i],
                         *map = &series[CONVERGE_MAP].summary[i];
    r->mean_error = mean->mean;
    r->mean_error_rms = (es_measured){mean->rms, mean->rms_se};
    r->predicted_mean_error_rms = p->mean_rms;
    r->predicted_mean_error = p->mean_abs;
    r->cov_error = cov->mean;
    r->cov_error_rms = (es_measured){cov->rms, cov->rms_se};
    r->predicted_cov_error = p->cov_rms;
    r->map_error = map->mean;
    r->map_error_rms = (es_measured){map->rms, map->rms_se};
    r->predicted_map_error = p->query_rms;
}

/* The predicted rate of the mean is fitted through E|.|, as the measured rate is. For covariance
 * and map theory has only root mean squares. */
es_status converge_predict_scale(es_job *job, const converge_theory *theory, int64_t scale,
                                 const es_series *series, es_answer *answer,
                                 converge_predicted_rates *out, es_error *err)
{
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    const int64_t sizes = spec->n_sizes;
    es_table *t = es_answer_table(answer, &predictions_table);
    double *mean, *cov, *map;
    ES_TRY(ES_JOB_NEW(job, mean, sizes, err));
    ES_TRY(ES_JOB_NEW(job, cov, sizes, err));
    ES_TRY(ES_JOB_NEW(job, map, sizes, err));
    for (int64_t i = 0; i < sizes; i++) {
        es_predicted p;
        double sampling;
        ES_TRY(
            converge_predict(job, theory, spec->scales[scale], spec->sizes[i], &p, &sampling, err));
        prediction_row *r = es_rows_add(t, prediction_row);
        if (!r)
            return es_answer_status(answer, err);
        r->scale = spec->scales[scale];
        r->n = spec->sizes[i];
        fill_row(r, series, i, &p);
        r->sampling = sampling;
        mean[i] = p.mean_abs;
        cov[i] = p.cov_rms;
        map[i] = p.query_rms;
        ES_TRY(es_job_tick(job, scale * sizes + i + 1, sizes * spec->n_scales));
    }
    *out = (converge_predicted_rates){es_series_rate(&series[CONVERGE_MEAN], mean),
                                      es_series_rate(&series[CONVERGE_COV], cov),
                                      es_series_rate(&series[CONVERGE_MAP], map)};
    return ES_OK;
}

/* ---- the finding ---- */

es_status converge_report_predictions(es_job *job, es_answer *answer, es_error *err)
{
    const es_table *t = es_answer_table(answer, &predictions_table);
    const prediction_row *rows = es_rows(t, prediction_row);
    double *percent;
    int64_t count = 0;
    ES_TRY(ES_JOB_NEW_2D(job, percent, 3, es_table_rows(t), err));
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        const prediction_row *r = &rows[i];
        const double ratios[] = {r->predicted_mean_error_rms / r->mean_error_rms.value,
                                 r->predicted_cov_error / r->cov_error_rms.value,
                                 r->predicted_map_error / r->map_error_rms.value};
        for (size_t k = 0; k < sizeof ratios / sizeof *ratios; k++)
            if (isfinite(ratios[k]))
                percent[count++] = 100.0 * fabs(ratios[k] - 1.0);
    }
    es_sort_reals(percent, count);
    if (count)
        es_answer_add_finding(answer,
                              "Theory predicts the root mean square errors within %.2g %% in the "
                              "median (%.2g %% at worst), from the law and the head alone.",
                              percent[count / 2], percent[count - 1]);
    return ES_OK;
}
