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
    if ((es_law_traits(law->kind) & ES_LAW_QUADRATIC) && !law->mean)
        return ES_OK;
    return es_refuse(err, "converge.predict", "leave --predict out",
                     "predictions are for Gaussian tokens around 0");
}

es_status converge_theory_new(es_job *job, converge_theory *out, es_error *err)
{
    const converge_state *s = job->state;
    const int64_t d = s->law.law.dim;
    *out = (converge_theory){.rotation = rotation_of(job->params, s)};
    ES_TRY(es_job_array(job, d, d, sizeof(double), &out->cov, err));
    out->cov_view = es_view_f64(out->cov, d, d);
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
