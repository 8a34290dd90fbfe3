#include "lab/probe.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

es_probe_layout es_probe_layout_of(const es_probe_spec *spec)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const int64_t H = c->hidden;
    es_probe_layout at = {.mean = 0};
    at.cov = at.mean + H;
    at.limit = at.cov + H * H;
    at.about = at.limit + es_probe_queries_of(spec) * H;
    at.count = at.about + ES_PROBE_ABOUT * c->heads;
    return at;
}

int64_t es_probe_numbers(const es_probe_spec *spec) { return es_probe_layout_of(spec).count; }

/* What can be asked of any pool of so many tokens. */
static es_status check_question(const es_probe_spec *spec, int64_t tokens, es_error *err)
{
    if (!spec || !spec->model || !spec->sizes || spec->n_sizes < 1)
        return es_fail(err, ES_E_ARGUMENT, "probe.null", "", "model or sizes are missing");
    if (spec->queries < 0)
        return es_fail(err, ES_E_RANGE, "probe.queries", "1 or more; 0 for 1024", "%lld queries",
                       (long long)spec->queries);
    for (int64_t i = 0; i < spec->n_sizes; i++)
        if (spec->sizes[i] < 2 || spec->sizes[i] > ES_PROBE_SIZE_MOST ||
            (i && spec->sizes[i] <= spec->sizes[i - 1]))
            return es_fail(err, ES_E_RANGE, "probe.sizes", "2 to 2^40, increasing",
                           "size %lld is %lld", (long long)i, (long long)spec->sizes[i]);
    if (spec->without_replacement && spec->sizes[spec->n_sizes - 1] > tokens)
        return es_fail(err, ES_E_RANGE, "probe.sizes", "a larger pool, or draw with replacement",
                       "%lld distinct tokens of a pool of %lld",
                       (long long)spec->sizes[spec->n_sizes - 1], (long long)tokens);
    return ES_OK;
}

es_status es_probe_check(const es_probe_spec *spec, int64_t layer, es_error *err)
{
    if (!spec || !spec->pool)
        return es_fail(err, ES_E_ARGUMENT, "probe.null", "", "the pool is missing");
    const es_pool_info pool = es_pool_about(spec->pool);
    ES_TRY(check_question(spec, pool.tokens, err));
    const es_model_config *c = es_model_config_of(spec->model);
    if (pool.hidden != c->hidden || pool.layers != c->layers || pool.heads != c->heads)
        return es_fail(err, ES_E_SHAPE, "probe.pool", "make a pool of this model",
                       "the pool has %lld layers of width %lld, the model %lld of %lld",
                       (long long)pool.layers, (long long)pool.hidden, (long long)c->layers,
                       (long long)c->hidden);
    if (layer < 0 || layer >= c->layers)
        return es_fail(err, ES_E_RANGE, "probe.layer", "count from 0", "layer %lld of %lld",
                       (long long)layer, (long long)c->layers);
    return ES_OK;
}

es_status es_probe_check_head(const es_probe *probe, int64_t head, es_error *err)
{
    if (head < 0 || head >= probe->weights.heads)
        return es_fail(err, ES_E_RANGE, "probe.head", "count from 0", "head %lld of %lld",
                       (long long)head, (long long)probe->weights.heads);
    return ES_OK;
}

es_status es_probe_check_replicate(int64_t replicate, es_error *err)
{
    if (replicate < 0 || replicate > UINT32_MAX) /* what its address has room for */
        return es_fail(err, ES_E_RANGE, "probe.replicate", "0 to 2^32 - 1", "replicate %lld",
                       (long long)replicate);
    return ES_OK;
}

es_status es_probe_cost_of(const es_probe_spec *spec, int64_t tokens, es_probe_cost *out,
                           es_error *err)
{
    ES_TRY(check_question(spec, tokens, err));
    const es_model_config *c = es_model_config_of(spec->model);
    const double H = (double)c->hidden, k = H / (double)c->heads, N = (double)tokens;
    const double n = (double)spec->sizes[spec->n_sizes - 1], P = (double)spec->n_sizes;
    const double m = (double)es_probe_queries_among(spec, tokens);
    const double keys = fmin(N, ES_PROBE_KEYS);
    const double heads = (double)c->heads;
    /* both products of attention, that with values for every scale, and an exponential, which takes
     * as long as some 40 operations */
    const double once = m * (4.0 * H + 40.0 * heads), twice = m * (6.0 * H + 80.0 * heads);
    *out = (es_probe_cost){
        /* keys, values and covariance (in f64, counted twice) */
        .limit_flops = N * (4.0 * H * H + 4.0 * H * H + twice),
        /* and errors of moments, of all heads together, of each alone, in f64 */
        .replicate_flops = n * (4.0 * H * H + once) + P * m * H * (2.0 * H + 16.0 * k),
        /* drawing a normal takes as long as some 100 operations */
        .control_flops = n * (H * (8.0 * k + 200.0) + once) + P * m * H * 8.0 * k,
        /* tables of exact expectations, 100 points of 1 ms for each size */
        .open_flops = 1.5e10 * P,
        /* drawn tokens, keys, values, or Gaussian ones of a head, or keys among which neighbours
         * are sought; errors and outputs; numbers of a layer twice; engine */
        .bytes = (size_t)(fmax(fmax(12.0 * n * H + 8.0 * n, 16.0 * n * k + 128.0 * k * k),
                               8.0 * keys * (H + 1.0)) +
                          16.0 * P * m * H + 16.0 * (m + H) * H + 24.0 * H * (H + k) + 64e6)};
    return ES_OK;
}

static es_status open_layer(es_probe *p, const double *numbers, es_error *err)
{
    const es_probe_layout at = es_probe_layout_of(&p->spec);
    for (int64_t i = 0; i < at.about; i++)
        if (!isfinite(numbers[i]))
            return es_fail(err, ES_E_NONFINITE, "probe.numbers", "measure the layer again",
                           "number %lld of layer %lld is not finite", (long long)i,
                           (long long)p->layer);
    ES_TRY(es_mem_array(p->exec.budget, at.count, 1, sizeof(double), "numbers of a layer",
                        (void **)&p->numbers, err));
    memcpy(p->numbers, numbers, (size_t)at.count * sizeof(double));
    p->mean = p->numbers + at.mean;
    p->cov = p->numbers + at.cov;
    p->limit = p->numbers + at.limit;
    p->about = p->numbers + at.about;
    ES_TRY(es_mem_array(p->exec.budget, p->spec.n_sizes, 1, sizeof *p->tables, "tables of a probe",
                        (void **)&p->tables, err));
    ES_TRY(es_probe_weights_new(&p->spec, p->layer, &p->weights, err));
    ES_TRY(es_mem_array(p->exec.budget, p->queries, p->weights.hidden, sizeof(float), "queries",
                        (void **)&p->q, err));
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
    ES_TRY(es_mem_new(es_probe_budget(spec), sizeof *p, "a probe", (void **)&p, err));
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
    es_budget *budget = probe->exec.budget;
    es_mem_free(budget, probe->grams);
    es_mem_free(budget, probe->q);
    es_probe_weights_free(&probe->spec, &probe->weights);
    es_mem_free(budget, probe->tables);
    es_mem_free(budget, probe->numbers);
    es_mem_free(budget, probe);
}
