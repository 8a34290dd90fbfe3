/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : one cell, a replicate of the experiment with a limit: attention over one sample at
 * every n and scale, and its errors against the limit. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "experiments/converge/converge.h"
#include "limit/limit.h"
#include "linalg/linalg.h"
#include "random/experiment.h"
#include "stats/moments.h"

/* ---- memory ---- */

/* Memory of a replicate beside its sample, in one struct so that it can be counted and freed. */
typedef struct replicate {
    es_converge_sample sample;
    double *memory;
    double *a;          /* (dim, dim) A at one scale */
    double *limit;      /* (m, channels) Gamma of every query that is compared, at one scale */
    double *output;     /* (n_scales, n_sizes, map queries, channels) */
    double *difference; /* (channels, channels) */
    double *expected;   /* (channels, channels) covariance of the limit over the queries, population
                           mode */
    double *eigen;      /* (channels) */
    es_moments *moments; /* (n_scales, n_sizes) */
    es_moments compared; /* of the limit over the queries, population mode */
    int64_t sets;
} replicate;

enum { PARTS = 6 };

/* Stores the number of doubles of each part and returns their sum. */
static int64_t count_parts(const es_converge_spec *spec, int64_t count[PARTS])
{
    const int64_t dv = channels_of(spec), d = spec->law->dim, few = map_queries_of(spec);
    const int64_t counts[PARTS] = {d * d,
                                   (spec->population ? queries_of(spec) : few) * dv,
                                   spec->n_scales * spec->n_sizes * few * dv,
                                   dv * dv,
                                   dv * dv,
                                   dv};
    int64_t total = 0;
    for (int i = 0; i < PARTS; i++)
        total += counts[i];
    memcpy(count, counts, sizeof counts);
    return total;
}

/* Frees a replicate. */
static void replicate_free(replicate *r, es_mem_limit *budget)
{
    es_converge_sample_free(&r->sample);
    es_mem_free(budget, r->memory);
    for (int64_t i = 0; r->moments && i < r->sets; i++)
        es_moments_free(&r->moments[i]);
    es_mem_free(budget, r->moments);
    es_moments_free(&r->compared);
    *r = (replicate){0};
}

/* Allocates a replicate in one piece, so that a run that does not fit fails before it starts. */
static es_status replicate_new(replicate *r, const es_converge_spec *spec, es_error *err)
{
    es_mem_limit *budget = budget_of(spec);
    int64_t count[PARTS];
    es_moments *moments = NULL;
    double *memory = NULL;
    *r = (replicate){.sets = spec->n_scales * spec->n_sizes};
    es_status status = ES_MEM_NEW(budget, memory, count_parts(spec, count), "a replicate", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(budget, moments, r->sets, "a replicate", err);
    r->memory = memory;
    r->moments = moments;
    double *next = memory,
           **parts[PARTS] = {&r->a, &r->limit, &r->output, &r->difference, &r->expected, &r->eigen};
    for (int i = 0; i < PARTS && memory; i++) {
        *parts[i] = next;
        next += count[i];
    }
    if (status == ES_OK)
        status = es_moments_new(channels_of(spec), budget, &r->compared, err);
    if (status != ES_OK)
        replicate_free(r, budget);
    return status;
}

/* ---- attention ---- */

/* Computes the moments over all queries, and the outputs of the first few over the same keys. */
static es_status attend(const es_converge_spec *spec, replicate *r, es_error *err)
{
    const es_converge_sample *x = &r->sample;
    const es_view first = es_view_rows(&x->q_view, 0, map_queries_of(spec));
    es_attend_opts opts = es_converge_attend_opts(spec, x->scales);
    const es_attend_out outputs = {.output = r->output}, moments = {.moments = r->moments};
    ES_TRY(es_attend(&first, &x->k_view, &x->v_view, &opts, &outputs, err));
    opts.self = !spec->population;
    return es_attend(&x->q_view, &x->k_view, &x->v_view, &opts, &moments, err);
}

/* ---- errors ---- */

/* Stores Gamma of the first `count` queries at scale s in r->limit. */
static es_status limit_maps(const es_converge_spec *spec, const es_converge_limit *limit,
                            replicate *r, int64_t s, int64_t count, es_error *err)
{
    const es_limit_head head = {.A = r->a, .V = limit->v, .dv = limit->channels};
    const es_view queries = es_view_f64(r->sample.asking, count, spec->law->dim);
    es_converge_scale_a(spec, limit, s, r->a);
    return es_limit_map(spec->law, &head, &queries, spec->exec, r->limit, NULL, NULL, err);
}

/* Returns the root mean square of |Gamma_n(x) - Gamma(x)| over the first queries. */
static double map_error(const es_converge_spec *spec, const replicate *r, int64_t set)
{
    const int64_t few = map_queries_of(spec), dv = channels_of(spec);
    const double *y = r->output + set * few * dv;
    double sum = 0.0;
    for (int64_t i = 0; i < few * dv; i++)
        sum += (y[i] - r->limit[i]) * (y[i] - r->limit[i]);
    return sqrt(sum / (double)few);
}

/* Computes |m_n - m|, and |C_n - C| in Frobenius and spectral norm. */
static es_status moment_errors(const es_converge_spec *spec, replicate *r, int64_t set,
                               const double *mean, const double *cov, es_converge_cell *out,
                               es_error *err)
{
    const int64_t dv = channels_of(spec);
    const es_moments *got = &r->moments[set];
    double sum = 0.0;
    for (int64_t c = 0; c < dv; c++)
        sum += (got->mean[c] - mean[c]) * (got->mean[c] - mean[c]);
    out->mean_error = sqrt(sum);
    es_moments_covariance(got, 0, r->difference);
    sum = 0.0;
    for (int64_t i = 0; i < dv * dv; i++) {
        r->difference[i] -= cov[i];
        sum += r->difference[i] * r->difference[i];
    }
    out->cov_frobenius = sqrt(sum);
    const es_view difference = es_view_f64(r->difference, dv, dv);
    ES_TRY(es_sym_eigen(&difference, budget_of(spec), r->eigen, NULL, err));
    out->cov_spectral = fmax(fabs(r->eigen[0]), fabs(r->eigen[dv - 1]));
    return ES_OK;
}

/* Computes the moments of the limit over the same fresh queries (population mode), so that the
 * finite number of queries cancels. */
static es_status compare_queries(const es_converge_spec *spec, replicate *r, es_error *err)
{
    es_moments_free(&r->compared);
    ES_TRY(es_moments_new(channels_of(spec), budget_of(spec), &r->compared, err));
    es_moments_add(&r->compared, r->limit, queries_of(spec));
    es_moments_covariance(&r->compared, 0, r->expected);
    return ES_OK;
}

/* Computes all errors of scale s, one cell for each size. */
static es_status errors_at_scale(const es_converge_spec *spec, const es_converge_limit *limit,
                                 replicate *r, int64_t s, es_converge_cell *out, es_error *err)
{
    const int64_t dv = channels_of(spec);
    const double *mean = limit->mean + s * dv, *cov = limit->cov + s * dv * dv;
    ES_TRY(limit_maps(spec, limit, r, s, spec->population ? queries_of(spec) : map_queries_of(spec),
                      err));
    if (spec->population) {
        ES_TRY(compare_queries(spec, r, err));
        mean = r->compared.mean;
        cov = r->expected;
    }
    for (int64_t i = 0; i < spec->n_sizes; i++) {
        const int64_t set = s * spec->n_sizes + i;
        out[set].map_error = map_error(spec, r, set);
        ES_TRY(moment_errors(spec, r, set, mean, cov, &out[set], err));
    }
    return ES_OK;
}

/* ---- a replicate, with nested or independent sizes ---- */

/* Measures all scales and sizes on prefixes of one sample. */
static es_status measure(const es_converge_spec *spec, const es_converge_limit *limit,
                         uint64_t cell, es_converge_cell *out, es_error *err)
{
    replicate r;
    ES_TRY(replicate_new(&r, spec, err));
    es_status status =
        es_converge_sample_draw(spec, ES_EXPERIMENT_CONVERGE_TOKENS, cell, &r.sample, err);
    if (status == ES_OK)
        status = attend(spec, &r, err);
    for (int64_t s = 0; s < spec->n_scales && status == ES_OK; s++)
        status = errors_at_scale(spec, limit, &r, s, out, err);
    replicate_free(&r, budget_of(spec));
    return status;
}

/* Returns the spec with size i as its only one. */
static es_converge_spec only_size(const es_converge_spec *spec, int64_t i)
{
    es_converge_spec one = *spec;
    one.sizes = &spec->sizes[i];
    one.n_sizes = 1;
    one.map_queries = map_queries_of(spec);
    return one;
}

enum { REPLICATE_BITS = 18 };

/* Measures each size on a sample of its own. The address is (n, replicate), so the tokens of n do
 * not depend on the grid. */
static es_status measure_independent(const es_converge_spec *spec, const es_converge_limit *limit,
                                     int64_t number, es_converge_cell *out, es_error *err)
{
    if (number >> REPLICATE_BITS || largest_size(spec) >> (48 - REPLICATE_BITS))
        return es_fail(err, ES_E_RANGE, "converge.independent",
                       "replicates below 2^18 and n below 2^30",
                       "replicate %lld of %lld tokens has no address for independent sizes",
                       (long long)number, (long long)largest_size(spec));
    es_converge_cell *cells;
    ES_TRY(ES_MEM_NEW(budget_of(spec), cells, spec->n_scales, "a replicate", err));
    es_status status = ES_OK;
    for (int64_t i = 0; i < spec->n_sizes && status == ES_OK; i++) {
        const es_converge_spec one = only_size(spec, i);
        const uint64_t cell = (uint64_t)spec->sizes[i] << REPLICATE_BITS | (uint64_t)number;
        status = measure(&one, limit, cell, cells, err);
        for (int64_t s = 0; s < spec->n_scales && status == ES_OK; s++)
            out[s * spec->n_sizes + i] = cells[s];
    }
    es_mem_free(budget_of(spec), cells);
    return status;
}

es_status es_converge_replicate(const es_converge_spec *spec, const es_converge_limit *limit,
                                int64_t number, es_converge_cell *out, es_error *err)
{
    ES_TRY(es_converge_check(spec, err));
    if (number < 0)
        return es_fail(err, ES_E_RANGE, "converge.replicate", "replicates count from 0",
                       "replicate %lld", (long long)number);
    return spec->independent ? measure_independent(spec, limit, number, out, err)
                             : measure(spec, limit, (uint64_t)number, out, err);
}

/* ---- cost ---- */

/* Adds the cost of the sizes of one sample to `out`. */
static es_status add_sample_cost(const es_converge_spec *spec, es_converge_cost *out, es_error *err)
{
    const int64_t n = largest_size(spec), dv = channels_of(spec), k = key_dim_of(spec);
    es_attend_opts opts = es_converge_attend_opts(spec, spec->scales); /* values do not matter */
    es_attend_plan outputs, moments;
    ES_TRY(es_attend_plan_for(map_queries_of(spec), n, k, dv, &opts, false, &outputs, err));
    opts.self = !spec->population;
    ES_TRY(es_attend_plan_for(queries_of(spec), n, k, dv, &opts, true, &moments, err));
    int64_t count[PARTS];
    const double sets = (double)(spec->n_scales * spec->n_sizes);
    const double bytes = (double)(outputs.bytes > moments.bytes ? outputs.bytes : moments.bytes) +
                         es_converge_sample_bytes(spec) + 8.0 * (double)count_parts(spec, count) +
                         sets * (double)(es_moments_bytes(dv) + sizeof(es_moments)) +
                         (double)es_moments_bytes(dv) +
                         (double)spec->n_scales * sizeof(es_converge_cell) + 8.0 * ES_ALIGN;
    out->flops += outputs.flops + moments.flops;
    out->bytes = out->bytes > (size_t)bytes ? out->bytes : (size_t)bytes;
    return ES_OK;
}

es_status es_converge_cost_of(const es_converge_spec *spec, es_converge_cost *out, es_error *err)
{
    ES_TRY(es_converge_check(spec, err));
    *out = (es_converge_cost){0};
    ES_TRY(es_converge_limit_cost(spec, out, err));
    if (!spec->independent)
        return add_sample_cost(spec, out, err);
    for (int64_t i = 0; i < spec->n_sizes; i++) {
        const es_converge_spec one = only_size(spec, i);
        ES_TRY(add_sample_cost(&one, out, err));
    }
    return ES_OK;
}
