/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c : operations and memory of the study `downstream`. */
#include <math.h>

#include <esscher/attend.h>

#include "experiments/downstream/downstream.h"
#include "model/layer_heads.h"

/* Short texts are small products, which run at a fifth of the speed that costs assume. */
#define SLOWNESS 5.0

/* Returns the work of all texts. Measured: a policy takes 2 microseconds per query and 40 ns per
 * key, at 25 operations per nanosecond. */
downstream_work downstream_work_of(const downstream_state *s)
{
    const es_model_config *c = s->config;
    downstream_work w = {0};
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t tokens = s->texts.blocks.start[i + 1] - s->texts.blocks.start[i];
        const es_model_cost cost = es_model_cost_of(c, ES_F32, tokens, 1, false);
        const double n = (double)tokens;
        w.forward += SLOWNESS * (cost.products + cost.attention);
        w.head += SLOWNESS * (n * n * 1000.0 + n * 50000.0);
    }
    return w;
}

/* Returns how many heads a setting thins query by query; a cache takes no longer than a pass. */
static double heads_of(const downstream_state *s, const downstream_setting *setting)
{
    if (setting->row < 0 || s->rows[setting->row].cache)
        return 0.0;
    const double all = (double)s->in_scope;
    return setting->head >= 0 ? 1.0 : setting->stratum >= 0 ? all / DOWNSTREAM_STRATA : all;
}

/* Returns the cost of a cell in units of a pass with full attention. */
double downstream_slice_weight(const es_job *job, int64_t cell)
{
    const downstream_state *s = job->state;
    return 1.0 + heads_of(s, downstream_of_cell(s, cell)) * s->work.head / s->work.forward;
}

/* Returns the operations of all settings. */
double downstream_flops(const downstream_state *s)
{
    double flops = 0.0;
    for (int64_t i = 0; i < s->n_settings; i++)
        flops += (double)s->settings[i].draws *
                 (s->work.forward + heads_of(s, &s->settings[i]) * s->work.head);
    return flops;
}

/* Returns the memory that the policies need for draws in the longest text. */
static double draw_bytes(const downstream_state *s)
{
    double most = 0.0;
    for (int64_t i = 0; i < s->n_rows; i++) {
        es_policy_spec spec = s->rows[i].spec;
        spec.keys = es_thinning_keys(&s->rows[i], s->texts.longest);
        most = fmax(most, es_policy_draw_bytes(&spec));
    }
    return most;
}

/* Returns the memory of the caches of a slice: each text's units, and weights of late queries. */
static double cache_bytes(const es_job *job)
{
    const downstream_state *s = job->state;
    const double units = (double)(s->config->layers * s->config->kv_heads);
    const double text = units * (2.0 * sizeof(es_cache_unit) + 8.0 * (double)s->texts.longest);
    double most = 0.0;
    for (int64_t i = 0; i < s->n_rows && s->rows[i].cache; i++)
        most = fmax(
            most, es_cache_bytes(s->rows[i].cache, s->config, job->precision, s->texts.longest, 1));
    return most > 0.0 ? most * (double)job->exec.threads + text * (double)s->slice : 0.0;
}

/* Returns the scratch memory of one slice. Horizons add the states of a few texts and a covariance
 * per layer, one of which is held twice at a time, with the matrices of the layer's heads. */
static double slice_bytes(const es_job *job, bool horizons)
{
    const downstream_params *p = job->params;
    const downstream_state *s = job->state;
    const es_model_config *c = s->config;
    const double H = (double)c->hidden, L = (double)c->layers;
    const double n = (double)s->texts.longest, item = (double)es_dtype_size(job->precision);
    const double slice = (double)s->slice, threads = (double)job->exec.threads;
    const double sparse =
        es_model_sparse_bytes(c, s->texts.longest, es_plan_span(&p->policy, s->plan));
    const es_model_cost cost =
        es_model_cost_of(c, job->precision, s->texts.longest, job->exec.threads, false);
    const double texts = slice * ((double)s->heads * 64.0 + 512.0 + 16.0 * (double)s->outputs) +
                         (s->lab.embed ? slice * n * H * item : 0.0);
    const double walk = horizons ? 8.0 * n * L * H * item + L * 8.0 * H * (H + 16.0) +
                                       8.0 * 8.0 * H * H +
                                       es_layer_heads_bytes(c, job->precision, &job->exec)
                                 : 0.0;
    const double measured = p->text_strata
                                ? es_downstream_text_bytes(&s->lab, p->strata_layer,
                                                           s->texts.longest, job->exec.threads) +
                                      es_layer_heads_bytes(c, job->precision, &job->exec)
                                : 0.0;
    return texts + walk + measured + (sparse + draw_bytes(s)) * threads + cost.bytes +
           cache_bytes(job);
}

/* Returns the work of finding nearest neighbours among all texts: once for the full model and twice
 * per draw of a setting. Measured: 35 operations per number compared. */
static double neighbour_flops(const downstream_state *s)
{
    const double texts = (double)s->count, looks = 1.0 + 2.0 * (double)s->n_draws;
    return s->lab.embed ? looks * 35.0 * texts * texts * (double)s->outputs : 0.0;
}

/* Returns the work of the horizons of texts: a pass, projections, and norms, which take about 20
 * n^3 operations of n tokens. */
static double text_horizon_flops(const downstream_state *s)
{
    const double H = (double)s->config->hidden,
                 width = (double)s->heads / (double)s->config->layers;
    double flops = s->work.forward;
    for (int64_t i = 0; i < s->count; i++) {
        const double n = (double)(s->texts.blocks.start[i + 1] - s->texts.blocks.start[i]);
        flops += 4.0 * n * H * width * (double)s->config->head_dim + 20.0 * n * n * n;
    }
    return flops;
}

/* Returns the cost of the settings, of horizons and of the search for neighbours. */
es_status downstream_cost_of(es_job *job, es_cost *out, es_error *err)
{
    const downstream_params *p = job->params;
    const downstream_state *s = job->state;
    const bool horizons = p->strata || p->ablate;
    /* an upper bound of the costs of single texts */
    const double costs = 16.0 * (double)(s->n_settings * s->count);
    const double H = (double)s->config->hidden, L = (double)s->config->layers;
    (void)err;
    *out = (es_cost){
        .flops = downstream_flops(s) + neighbour_flops(s) +
                 (horizons ? s->work.forward + 2.0 * L * H * H * (double)s->texts.ids : 0.0) +
                 (p->text_strata ? text_horizon_flops(s) : 0.0),
        .output_bytes = 4096.0 * (double)s->n_settings,
        .work_bytes = costs + slice_bytes(job, horizons) + 256.0 * (double)s->count + 1e6};
    return ES_OK;
}
