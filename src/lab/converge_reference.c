/* converge_reference.c : moments of one finite sample in the place of the limit's.
 *
 * This is what the public code of the papers compares with (THEORY.md 11), and what slopes then
 * suffer from (4.5, end): the sample is as far from the limit as any sample of its size, so that
 *     E|C_n - C_N|^2 = |b_n - b_N|^2 + Var_n + Var_N .
 * Its own error is not estimated but known, because the limit is.
 */
#include <math.h>

#include <esscher/experiment.h>

#include "base/error.h"
#include "base/memory.h"
#include "lab/converge_sample.h"

static double distance(const double *a, const double *b, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

/* The same spec with the reference as its only size. */
static es_converge_spec one_sample(const es_converge_spec *spec)
{
    es_converge_spec one = *spec;
    one.sizes = &spec->reference;
    one.n_sizes = 1;
    return one;
}

/* Moments of the sample replace those of the limit at scale s; cov (dv, dv) is scratch. */
static void replace(es_converge_limit *limit, int64_t s, const es_moments *moments, double *cov)
{
    const int64_t dv = limit->channels;
    double *mean = limit->mean + s * dv, *exact = limit->cov + s * dv * dv;
    es_moments_covariance(moments, 0, cov);
    limit->error[2 * s] += distance(moments->mean, mean, dv);
    limit->error[2 * s + 1] += distance(cov, exact, dv * dv);
    for (int64_t i = 0; i < dv; i++)
        mean[i] = moments->mean[i];
    for (int64_t i = 0; i < dv * dv; i++)
        exact[i] = cov[i];
}

static es_status attend(const es_converge_spec *spec, es_moments *moments, es_error *err)
{
    const es_converge_spec one = one_sample(spec);
    es_converge_sample sample;
    ES_TRY(es_converge_sample_draw(&one, ES_EXPERIMENT_CONVERGE_REFERENCE, 0, &sample, err));
    es_attend_opts opts = es_converge_attend_opts(&one, sample.scales);
    opts.self = true;
    const es_attend_out out = {.moments = moments};
    const es_status status =
        es_attend(&sample.q_view, &sample.k_view, &sample.v_view, &opts, &out, err);
    es_converge_sample_free(&sample);
    return status;
}

es_status es_converge_refer(const es_converge_spec *spec, es_converge_limit *limit, es_error *err)
{
    const int64_t dv = limit->channels;
    void *sets = NULL, *cov = NULL;
    es_status status = es_mem_array(limit->budget, spec->n_scales, 1, sizeof(es_moments),
                                    "the reference", &sets, err);
    es_moments *moments = sets;
    if (status == ES_OK)
        status = es_mem_array(limit->budget, dv, dv, sizeof(double), "the reference", &cov, err);
    if (status == ES_OK)
        status = attend(spec, moments, err);
    for (int64_t s = 0; s < spec->n_scales && moments; s++) {
        if (status == ES_OK)
            replace(limit, s, &moments[s], cov);
        es_moments_free(&moments[s]);
    }
    es_mem_free(limit->budget, cov);
    es_mem_free(limit->budget, sets);
    return status;
}

es_status es_converge_refer_cost(const es_converge_spec *spec, double *flops, double *bytes,
                                 es_error *err)
{
    const es_converge_spec one = one_sample(spec);
    const int64_t dv = channels_of(spec);
    es_attend_opts opts = es_converge_attend_opts(&one, spec->scales);
    es_attend_plan plan;
    opts.self = true;
    ES_TRY(es_attend_plan_for(spec->reference, spec->reference, key_dim_of(spec), dv, &opts, true,
                              &plan, err));
    *flops = plan.flops;
    *bytes = (double)plan.bytes + es_converge_sample_bytes(&one) + 8.0 * (double)(dv * dv) +
             (double)spec->n_scales * (double)(es_moments_bytes(dv) + sizeof(es_moments)) +
             3.0 * ES_ALIGN;
    return ES_OK;
}
