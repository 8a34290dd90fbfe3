/* converge_theory.c : the errors that theory expects, without having measured anything. */
#include <esscher/limit.h>

#include "base/error.h"
#include "study/converge_study.h"

/* Tokens N(0, s^2 I), A a multiple of a rotation O, V = I: quadrature without sampling. With the
 * tokens as queries the trace of O matters, which for a random one is averaged over there. */
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
    if (law->kind == ES_LAW_GAUSSIAN && !law->mean)
        return ES_OK;
    return es_refuse(err, "converge.predict", "leave --predict out",
                     "predictions are for Gaussian tokens around 0");
}

es_status converge_theory_new(es_job *job, converge_theory *out, es_error *err)
{
    const converge_state *s = job->state;
    const int64_t d = s->law.law.dim;
    const es_view *unscaled = s->head.head.A ? s->head.head.A : s->head.head.Wq;
    *out = (converge_theory){
        .unscaled = unscaled, .head = s->head.head, .rotation = rotation_of(job->params, s)};
    ES_TRY(es_job_array(job, d, d, sizeof(double), &out->cov, err));
    ES_TRY(es_job_array(job, unscaled->rows, d, sizeof(double), &out->scaled, err));
    out->cov_view = es_view_f64(out->cov, d, d);
    out->scaled_view = es_view_f64(out->scaled, unscaled->rows, unscaled->cols);
    return es_limit_token_moments(&s->law.law, job->exec.budget, NULL, out->cov, err);
}

/* From tokens N(0, I) to N(0, s^2 I): errors scale like tokens, covariances like their squares. */
static void stretch(es_predicted *p, double s)
{
    p->query_rms *= s;
    p->mean_rms *= s;
    p->mean_abs *= s;
    p->cov_bias *= s * s;
    p->cov_rms *= s * s;
}

/* The head with the scale in its Wq or A, any covariance: queries are sampled. */
static es_status predict_general(const es_job *job, converge_theory *t, double scale, int64_t n,
                                 es_prediction *out, es_error *err)
{
    const es_predict_opts opts = {.samples = 256, .seed = job->seed};
    for (int64_t i = 0; i < t->unscaled->rows; i++)
        for (int64_t j = 0; j < t->unscaled->cols; j++)
            es_view_set(&t->scaled_view, i, j, scale * es_view_get(t->unscaled, i, j));
    if (t->head.A)
        t->head.A = &t->scaled_view;
    else
        t->head.Wq = &t->scaled_view;
    return es_predict_general(&t->cov_view, 0.0, &t->head, (double)n, &opts, job->exec.budget, out,
                              NULL, err);
}

es_status converge_predict(const es_job *job, converge_theory *t, double scale, int64_t n,
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
