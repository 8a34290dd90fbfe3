/* converge_predict.c : measured errors beside what theory expects without having measured anything.
 */
#include "converge.h"

#include <stdlib.h>

#include <esscher/limit.h>

#include "answer.h"
#include "talk.h"

/* What the prediction is made from: covariance of a token, and the head with one scale in its Wq.
 */
typedef struct ingredients {
    double *cov, *wq;
    es_view cov_view, wq_view;
    es_head head;
} ingredients;

static void scale_head(const es_converge_spec *spec, double scale, const ingredients *in)
{
    const es_view *wq = spec->head->Wq;
    for (int64_t i = 0; i < wq->rows; i++)
        for (int64_t j = 0; j < wq->cols; j++)
            es_view_set(&in->wq_view, i, j, scale * es_view_get(wq, i, j));
}

static void add_pair(json_t *row, const json_t *measured, const char *key,
                     const char *predicted_key, double predicted)
{
    json_t *value = json_object_get(measured, key);
    json_object_set(row, key, value);
    json_object_set_new(row, predicted_key, cli_real(predicted));
}

static es_status predict_row(converge_job *job, const ingredients *in, int64_t n,
                             const json_t *measured, json_t *out, es_error *err)
{
    es_prediction p;
    const es_predict_opts opts = {.samples = 256, .seed = job->spec.seed};
    const es_status status = es_predict_general(&in->cov_view, 0.0, &in->head, (double)n, &opts,
                                                &job->session->budget, &p, NULL, err);
    if (status != ES_OK)
        return status;
    const es_predicted *x = job->spec.population ? &p.population : &p.self;
    json_t *row = json_object();
    json_object_set(row, "scale", json_object_get(measured, "scale"));
    json_object_set(row, "n", json_object_get(measured, "n"));
    add_pair(row, measured, "mean_error", "predicted_mean_error", x->mean_abs);
    add_pair(row, measured, "cov_error", "predicted_cov_error", x->cov_rms);
    add_pair(row, measured, "map_error", "predicted_map_error", x->query_rms);
    json_object_set_new(row, "sampling", cli_real(p.sampling));
    json_array_append_new(out, row);
    return ES_OK;
}

es_status converge_predictable(const es_law *law, es_error *err)
{
    if (law->kind == ES_LAW_GAUSSIAN && !law->mean)
        return ES_OK;
    return cli_fail(err, ES_E_ARGUMENT, NULL, "converge.predict", "leave --predict out",
                    "predictions are for Gaussian tokens around 0");
}

es_status converge_predict(converge_job *job, es_error *err)
{
    const es_law *law = job->spec.law;
    const size_t d = (size_t)law->dim;
    const es_view *wq = job->spec.head->Wq;
    ingredients in = {.cov = cli_alloc_array(d * d, sizeof(double)),
                      .wq = cli_alloc_array((size_t)wq->rows * d, sizeof(double))};
    in.cov_view = es_view_f64(in.cov, law->dim, law->dim);
    in.wq_view = es_view_f64(in.wq, wq->rows, wq->cols);
    in.head = *job->spec.head;
    in.head.Wq = &in.wq_view;
    json_t *out = json_array(), *rows = json_object_get(job->session->answer, "rows");
    es_status status = es_limit_token_moments(law, &job->session->budget, NULL, in.cov, err);
    for (int64_t s = 0; s < job->spec.n_scales && status == ES_OK; s++) {
        scale_head(&job->spec, job->spec.scales[s], &in);
        for (int64_t i = 0; i < job->spec.n_sizes && status == ES_OK; i++)
            status =
                predict_row(job, &in, job->spec.sizes[i],
                            json_array_get(rows, (size_t)(s * job->spec.n_sizes + i)), out, err);
    }
    json_object_set_new(job->session->answer, "predictions", out);
    free(in.cov);
    free(in.wq);
    return status;
}

static const cli_column columns[] = {
    {"scale", "scale", "", .format = CLI_REAL},
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"mean_error", "mean error", "", .format = CLI_REAL},
    {"predicted_mean_error", "predicted", "", .format = CLI_REAL,
     .definition = "without any fitted constant"},
    {"cov_error", "cov error", "", .format = CLI_REAL},
    {"predicted_cov_error", "predicted", "", .format = CLI_REAL},
    {"map_error", "map error", "", .format = CLI_REAL},
    {"predicted_map_error", "predicted", "", .format = CLI_REAL},
    {"sampling", "sampling", "", .format = CLI_SHORT,
     .definition = "relative standard error that sampling of queries leaves in the predictions"},
    {0}};

const cli_table converge_predictions_table = {
    .rows = "predictions", .title = "Measured beside predicted", .columns = columns};
