/* SPDX-License-Identifier: Apache-2.0 */
/* probe_cells.c : a layer of a real model, ready for questions, and what that costs. */
#include "experiments/kit/probe_inside.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "model/layer_heads.h"

es_probe_layout es_probe_layout_of(const es_probe_spec *spec)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const int64_t H = c->hidden, Q = c->query_width;
    es_probe_layout at = {.mean = 0};
    at.cov = at.mean + H;
    at.limit = at.cov + H * H;
    at.about = at.limit + es_probe_queries_of(spec) * Q;
    at.sampling = at.about + ES_PROBE_ABOUT * c->heads;
    at.count = at.sampling + es_probe_queries_of(spec) * c->heads;
    return at;
}

int64_t es_probe_numbers(const es_probe_spec *spec) { return es_probe_layout_of(spec).count; }

#define GATHER 3600.0 /* operations for each token of a query of a head: 120 ns */
#define SOLVE  1.5e8  /* and for each query of a head: 5 ms */

double es_probe_gathering(double tokens) { return GATHER * tokens / (GATHER * tokens + SOLVE); }

es_status es_probe_cost_of(const es_probe_spec *spec, int64_t tokens, es_probe_cost *out,
                           es_error *err)
{
    ES_TRY(es_probe_check_question(spec, tokens, err));
    const es_model_config *c = es_model_config_of(spec->model);
    /* one width for inputs and heads together, the larger */
    const double k = (double)c->head_dim, N = (double)tokens;
    const double H = fmax((double)c->hidden, k * (double)c->heads);
    const double n = (double)spec->sizes[spec->n_sizes - 1], P = (double)spec->n_sizes;
    const double m = (double)es_probe_queries_among(spec, tokens);
    const double keys = fmin(N, ES_PROBE_KEYS);
    const double few = (double)es_probe_exact_of(spec, es_probe_queries_among(spec, tokens));
    const double heads = (double)c->heads;
    /* both products of attention, that with values for every scale, and an exponential, which takes
     * as long as some 40 operations */
    const double once = m * (4.0 * H + 40.0 * heads), twice = m * (6.0 * H + 80.0 * heads);
    *out = (es_probe_cost){
        .parts = es_probe_parts_among(spec, tokens),
        /* keys, values and covariance (in f64, counted twice) */
        .limit_flops = N * (4.0 * H * H + 4.0 * H * H + twice),
        /* and errors of moments, of all heads together, of each alone, in f64 */
        .replicate_flops = n * (4.0 * H * H + once) + P * m * H * (2.0 * H + 16.0 * k),
        /* drawing a normal takes as long as some 100 operations */
        .control_flops = n * (H * (8.0 * k + 200.0) + once) + P * m * H * 8.0 * k,
        /* tables of exact expectations, 100 points of 1 ms for each size */
        .open_flops = 1.5e10 * P,
        /* in f64 */
        .exact_flops = N * 4.0 * H * H + heads * few * (GATHER * N + SOLVE),
        .exact_numbers = heads * few * ES_PROBE_SETS * (P + ES_PROBE_POWERS),
        /* drawn tokens, keys, values, or Gaussian ones of a head, or keys among which neighbours
         * are sought; errors and outputs; numbers of a layer twice; engine */
        .bytes = (size_t)(fmax(fmax(12.0 * n * H + 8.0 * n, 16.0 * n * k + 128.0 * k * k),
                               8.0 * keys * (H + 1.0)) +
                          16.0 * P * m * H + 16.0 * (m + H) * H + 24.0 * H * (H + k) + 64e6)};
    /* queries whose policies are compared, one on each thread */
    const es_exec quiet = es_exec_quiet(spec->exec);
    out->bytes += (size_t)((double)es_parallel_threads(&quiet, ES_PROBE_POLICY_QUERIES) *
                           es_probe_policy_bytes(c->head_dim));
    /* grids of scores, 64 points in a unit, of both halves */
    out->slice_bytes = fmin(heads, ES_PROBE_SLICE) * few * (k + 3.0) * 8.0 * 4096.0;
    /* of either half and every head, as it is, as numbers, and folded; moments; matrices, and
     * queries */
    out->state_bytes =
        3.0 * 8.0 * (2.0 * heads * m * (2.0 * (k + 8.0) + 2.0) + H * H) + 4.0 * H * (5.0 * H + m);
    out->bytes += (size_t)(fmax(out->slice_bytes, out->state_bytes) +
                           es_layer_heads_bytes(c, ES_F32, spec->exec));
    return ES_OK;
}

/* Restores a layer from its stored numbers; fails if one is not finite, as in a damaged file. */
static es_status open_layer(es_probe *p, const double *numbers, es_error *err)
{
    const es_probe_layout at = es_probe_layout_of(&p->spec);
    for (int64_t i = 0; i < at.about; i++)
        if (!isfinite(numbers[i]))
            return es_fail(err, ES_E_NONFINITE, "probe.numbers", "measure the layer again",
                           "number %lld of layer %lld is not finite", (long long)i,
                           (long long)p->layer);
    ES_TRY(ES_MEM_NEW(p->exec.budget, p->numbers, at.count, "numbers of a layer", err));
    memcpy(p->numbers, numbers, (size_t)at.count * sizeof(double));
    p->mean = p->numbers + at.mean;
    p->cov = p->numbers + at.cov;
    p->limit = p->numbers + at.limit;
    p->about = p->numbers + at.about;
    p->sampling = p->numbers + at.sampling;
    ES_TRY(ES_MEM_NEW(p->exec.budget, p->tables, p->spec.n_sizes, "tables of a probe", err));
    ES_TRY(es_probe_weights_new(&p->spec, p->layer, &p->weights, err));
    ES_TRY(ES_MEM_NEW_2D(p->exec.budget, p->q, p->queries, p->weights.all, "queries", err));
    ES_TRY(es_probe_queries(&p->spec, p->layer, &p->weights, p->q, err));
    ES_TRY(es_probe_grams_fill(p, err));
    return p->spec.draws_only ? ES_OK : es_probe_tables_fill(p, err);
}

es_status es_probe_open(const es_probe_spec *spec, int64_t layer, const double *numbers,
                        es_probe **out, es_error *err)
{
    es_probe *p;
    *out = NULL;
    ES_TRY(es_probe_check(spec, layer, err));
    ES_TRY(ES_MEM_NEW(es_probe_budget(spec), p, 1, "a probe", err));
    p->spec = *spec;
    p->exec = spec->exec ? *spec->exec : (es_exec){0};
    p->pool = es_pool_about(spec->pool);
    p->layer = layer;
    p->queries = es_probe_queries_of(spec);
    const es_status status = open_layer(p, numbers, err);
    if (status == ES_OK)
        *out = p;
    else
        es_probe_close(p);
    return status;
}

void es_probe_close(es_probe *probe)
{
    if (!probe)
        return;
    es_mem_limit *budget = probe->exec.budget;
    es_mem_free(budget, probe->grams);
    es_mem_free(budget, probe->q);
    es_probe_weights_free(&probe->spec, &probe->weights);
    es_mem_free(budget, probe->tables);
    es_mem_free(budget, probe->numbers);
    es_mem_free(budget, probe);
}
