/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c : the limits that replicates are compared with, or the moments of one finite sample in
 * their place; checks of a spec. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "experiments/converge/converge.h"
#include "experiments/kit/cell_kit.h"
#include "limit/limit.h"
#include "random/experiment.h"
#include "stats/moments.h"
#include "tokens/tokens.h"

/* ---- a reference sample ----
 * The public code of the papers compares with the moments of one sample of N tokens (THEORY 11).
 * That sample is as far from the limit as any sample of its size, which spoils slopes (THEORY 4.5):
 *     E|C_n - C_N|^2 = |b_n - b_N|^2 + Var_n + Var_N .
 * Its own error is not estimated but known, because the limit is known. */

/* Returns the spec with the size of the reference sample as its only one. */
static es_converge_spec reference_spec(const es_converge_spec *spec)
{
    es_converge_spec one = *spec;
    one.sizes = &spec->reference;
    one.n_sizes = 1;
    return one;
}

/* Replaces the moments of the limit at scale s by those of the sample, and adds their distance to
 * the errors; cov (dv, dv) is scratch. */
static void replace_limit(es_converge_limit *limit, int64_t s, const es_moments *moments,
                          double *cov)
{
    const int64_t dv = limit->channels;
    double *mean = limit->mean + s * dv, *exact = limit->cov + s * dv * dv;
    es_moments_covariance(moments, 0, cov);
    limit->error[2 * s] += es_distance(moments->mean, mean, dv);
    limit->error[2 * s + 1] += es_distance(cov, exact, dv * dv);
    for (int64_t i = 0; i < dv; i++)
        mean[i] = moments->mean[i];
    for (int64_t i = 0; i < dv * dv; i++)
        exact[i] = cov[i];
}

/* Computes the moments of the reference sample at every scale. */
static es_status attend_reference(const es_converge_spec *spec, es_moments *moments, es_error *err)
{
    const es_converge_spec one = reference_spec(spec);
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

/* Replaces the limit at every scale by the reference sample. */
static es_status use_reference(const es_converge_spec *spec, es_converge_limit *limit,
                               es_error *err)
{
    const int64_t dv = limit->channels;
    double *cov = NULL;
    es_moments *moments;
    es_status status = ES_MEM_NEW(limit->budget, moments, spec->n_scales, "the reference", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(limit->budget, cov, dv, dv, "the reference", err);
    if (status == ES_OK)
        status = attend_reference(spec, moments, err);
    for (int64_t s = 0; s < spec->n_scales && moments; s++) {
        if (status == ES_OK)
            replace_limit(limit, s, &moments[s], cov);
        es_moments_free(&moments[s]);
    }
    es_mem_free(limit->budget, cov);
    es_mem_free(limit->budget, moments);
    return status;
}

/* Returns operations and memory of the reference sample that stands for the limit. */
static es_status reference_cost(const es_converge_spec *spec, double *flops, double *bytes,
                                es_error *err)
{
    const es_converge_spec one = reference_spec(spec);
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

/* ---- checks ---- */

es_status es_converge_no_limit(es_error *err, const char *hint)
{
    return es_fail(err, ES_E_RANGE, "converge.no_limit", hint,
                   "a reference sample replaces the limit, and attention over tokens of this law "
                   "has no limit: as n grows, the largest token takes all weight");
}

/* Fails for a reference of one token, or together with fresh queries. */
static es_status check_reference(const es_converge_spec *spec, es_error *err)
{
    if (spec->reference == 0)
        return ES_OK;
    if (spec->reference < 2)
        return es_fail(err, ES_E_ARGUMENT, "converge.reference", "0 compares with the limit itself",
                       "a reference sample of %lld tokens", (long long)spec->reference);
    if (spec->population)
        return es_fail(err, ES_E_ARGUMENT, "converge.reference",
                       "leave one of the two out: fresh queries are compared with the limit at the "
                       "same queries",
                       "a reference sample together with fresh queries");
    return ES_OK;
}

es_status es_converge_check(const es_converge_spec *spec, es_error *err)
{
    ES_TRY(es_law_check(spec->law, err));
    ES_TRY(es_head_check(spec->head, spec->law->dim, err));
    if (spec->n_sizes < 1 || spec->n_scales < 1)
        return es_fail(err, ES_E_ARGUMENT, "converge.grid", "give at least one n and one scale",
                       "an empty grid");
    if (spec->sizes[0] < 2)
        return es_fail(err, ES_E_ARGUMENT, "converge.sizes", "start at two tokens",
                       "n = %lld has no covariance", (long long)spec->sizes[0]);
    if (spec->queries < 0 || spec->map_queries < 0)
        return es_fail(err, ES_E_ARGUMENT, "converge.queries", "0 is the default",
                       "a negative count");
    return check_reference(spec, err);
}

/* ---- limits ---- */

enum { LIMIT_DRAWS = 65536 }; /* for limits that have no closed form */

void es_converge_limit_free(es_converge_limit *limit)
{
    if (!limit)
        return;
    es_mem_limit *budget = limit->budget;
    es_mem_free(budget, limit->a);
    es_mem_free(budget, limit->v);
    es_mem_free(budget, limit->mean);
    es_mem_free(budget, limit->cov);
    es_mem_free(budget, limit->error);
    es_mem_free(budget, limit);
}

/* Computes the moments of Gamma(X) at one scale: a closed form or quadrature where there is one,
 * else an average over fresh tokens with its standard error. `points` (LIMIT_DRAWS, dim) is drawn
 * the first time it is needed. */
static es_status limit_at_scale(const es_converge_spec *spec, es_converge_limit *limit, int64_t s,
                                const double *a, double **points, es_error *err)
{
    const int64_t d = spec->law->dim, dv = limit->channels;
    const es_limit_head head = {.A = a, .V = limit->v, .dv = dv};
    double *mean = limit->mean + s * dv, *cov = limit->cov + s * dv * dv;
    es_limit_accuracy accuracy = {0};
    es_status status =
        es_limit_moments(spec->law, &head, NULL, spec->exec, mean, cov, &accuracy, err);
    if (status == ES_E_UNSUPPORTED) {
        if (!*points) {
            const es_address at = {.seed = spec->seed, .experiment = ES_EXPERIMENT_CONVERGE_LIMIT};
            ES_TRY(
                ES_MEM_NEW_2D(limit->budget, *points, LIMIT_DRAWS, d, "draws of the limit", err));
            ES_TRY(es_tokens_fill(spec->law, &at, LIMIT_DRAWS, spec->exec, *points, err));
        }
        const es_view draws = es_view_f64(*points, LIMIT_DRAWS, d);
        status = es_limit_moments(spec->law, &head, &draws, spec->exec, mean, cov, &accuracy, err);
    }
    /* from an error per element to one of the whole vector and matrix */
    limit->error[2 * s] = accuracy.mean * sqrt((double)dv);
    limit->error[2 * s + 1] = accuracy.cov * (double)dv;
    return status;
}

void es_converge_scale_a(const es_converge_spec *spec, const es_converge_limit *limit, int64_t s,
                         double *scaled)
{
    for (int64_t i = 0; i < spec->law->dim * spec->law->dim; i++)
        scaled[i] = spec->scales[s] * limit->a[i];
}

/* Computes A, V and the moments of every scale. */
static es_status fill_limits(const es_converge_spec *spec, es_converge_limit *limit, es_error *err)
{
    const int64_t d = spec->law->dim;
    double *a, *points = NULL;
    ES_TRY(es_head_write(spec->head, d, limit->a, limit->v, err));
    ES_TRY(ES_MEM_NEW_2D(limit->budget, a, d, d, "A", err));
    es_status status = ES_OK;
    for (int64_t s = 0; s < spec->n_scales && status == ES_OK; s++) {
        es_converge_scale_a(spec, limit, s, a);
        status = limit_at_scale(spec, limit, s, a, &points, err);
    }
    es_mem_free(limit->budget, a);
    es_mem_free(limit->budget, points);
    return status;
}

es_status es_converge_limit_new(const es_converge_spec *spec, es_converge_limit **out,
                                es_error *err)
{
    *out = NULL;
    ES_TRY(es_converge_check(spec, err));
    es_mem_limit *budget = budget_of(spec);
    const int64_t dv = channels_of(spec), d = spec->law->dim;
    const int64_t counts[5] = {d * d, dv * d, spec->n_scales * dv, spec->n_scales * dv * dv,
                               2 * spec->n_scales};
    es_converge_limit *limit;
    double *part[5] = {0};
    ES_TRY(ES_MEM_NEW(budget, limit, 1, "limits", err));
    es_status status = ES_OK;
    for (int i = 0; i < 5 && status == ES_OK; i++)
        status = ES_MEM_NEW(budget, part[i], counts[i], "limits", err);
    *limit = (es_converge_limit){.scales = spec->n_scales,
                                 .channels = dv,
                                 .a = part[0],
                                 .v = part[1],
                                 .mean = part[2],
                                 .cov = part[3],
                                 .error = part[4],
                                 .budget = budget};
    if (status == ES_OK)
        status = fill_limits(spec, limit, err);
    if (status == ES_E_RANGE && spec->reference)
        status = es_converge_no_limit(err, "choose a law with lighter tails");
    if (status == ES_OK && spec->reference)
        status = use_reference(spec, limit, err);
    if (status != ES_OK) {
        es_converge_limit_free(limit);
        return status;
    }
    *out = limit;
    return ES_OK;
}

es_status es_converge_limit_cost(const es_converge_spec *spec, es_converge_cost *out, es_error *err)
{
    const double d = (double)spec->law->dim, dv = (double)channels_of(spec);
    const double kept = 2.0 * d * d + dv * d + (double)spec->n_scales * (dv * dv + dv + 2.0);
    double flops = 0.0, reference = 0.0, find = 16.0 * (d + dv) * (d + dv);
    if (!(es_law_traits(spec->law->kind) &
          ES_LAW_QUADRATIC)) { /* points and their outputs; nodes of a quadrature */
        const es_view *points = spec->law->points;
        const double most =
            points && points->rows > LIMIT_DRAWS ? (double)points->rows : (double)LIMIT_DRAWS;
        find += most * (d + dv + 2.0) + 65536.0 * es_parallel_threads(spec->exec, 1024);
    }
    if (spec->reference)
        ES_TRY(reference_cost(spec, &flops, &reference, err));
    out->limit_flops = flops;
    out->limit_bytes = (size_t)(8.0 * kept + fmax(8.0 * find, reference) + 16.0 * ES_ALIGN);
    return ES_OK;
}

void es_converge_limit_error(const es_converge_limit *limit, int64_t s, double *mean, double *cov)
{
    *mean = limit->error[2 * s];
    *cov = limit->error[2 * s + 1];
}

void es_converge_limit_size(const es_converge_limit *limit, int64_t s, double *rms, double *spread)
{
    const int64_t dv = limit->channels;
    double trace = 0.0, square = 0.0;
    for (int64_t c = 0; c < dv; c++) {
        trace += limit->cov[(s * dv + c) * dv + c];
        square += limit->mean[s * dv + c] * limit->mean[s * dv + c];
    }
    *spread = sqrt(fmax(0.0, trace));
    *rms = sqrt(square + fmax(0.0, trace));
}
