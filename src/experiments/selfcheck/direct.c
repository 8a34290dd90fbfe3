/* SPDX-License-Identifier: Apache-2.0 */
/* direct.c : intervals that are checked without a study: error bars of single outputs,
 * and rates of the heads of a real layer, whose queries must stay while draws change. */
#include <math.h>
#include <string.h>

#include <esscher/attend.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/selfcheck/question.h"
#include "random/experiment.h"
#include "stats/error_bar.h"
#include "stats/fit.h"

/* ---- error bars ----
 * Keys are standard normal, and their own values: the output of infinitely many is the query times
 * the score scale (THEORY 1). Autocorrelation changes no law of a single key, and no limit. */

enum { CONTEXT = 4096, WIDTH = 4, ASKING = 4, BLOCK = 64 };

/* Normals become an autoregression of the same law, channel by channel. */
static void correlate(double *x, double memory)
{
    const double fresh = sqrt(1.0 - memory * memory);
    for (int64_t i = 1; i < CONTEXT; i++)
        for (int64_t l = 0; l < WIDTH; l++)
            x[i * WIDTH + l] = memory * x[(i - 1) * WIDTH + l] + fresh * x[i * WIDTH + l];
}

/* Computes error bars of outputs over one context, autocorrelated by `memory`. */
static es_status bars(uint64_t seed, double memory, const es_exec *exec, es_estimate *out,
                      es_error *err)
{
    static const double scale = 1.0;
    double queries[ASKING * WIDTH], output[ASKING * WIDTH], spread[ASKING * WIDTH];
    double powers[ASKING * 3], entropy[ASKING], *keys;
    const es_address at = {.seed = seed, .experiment = ES_EXPERIMENT_SELFCHECK};
    ES_TRY(ES_MEM_NEW_2D(exec->budget, keys, CONTEXT, WIDTH, "keys", err));
    es_status status = es_normal_rows(&at, CONTEXT, WIDTH, keys, err);
    if (status == ES_OK)
        correlate(keys, memory);
    for (int i = 0; i < ASKING * WIDTH; i++) /* along the diagonals of a box, lengths .25 to 1 */
        queries[i] = 0.125 * (double)(1 + i / WIDTH) * (i >> i % WIDTH & 1 ? 1.0 : -1.0);
    const es_view q = es_view_f64(queries, ASKING, WIDTH), k = es_view_f64(keys, CONTEXT, WIDTH);
    const es_attend_opts opts = {ES_F64, .scales = &scale, .n_scales = 1, .block = BLOCK,
                                 .exec = exec};
    const es_attend_out into = {
        .output = output, .entropy = entropy, .block_spread2 = spread, .block_powers = powers};
    if (status == ES_OK)
        status = es_attend(&q, &k, &k, &opts, &into, err);
    es_mem_free(exec->budget, keys);
    ES_TRY(status);
    for (int64_t i = 0; i < ASKING * WIDTH; i++) {
        const es_error_bar bar =
            es_error_bar_of(powers + i / WIDTH * 3, CONTEXT, entropy[i / WIDTH]);
        const double half = bar.t * sqrt(bar.factor * spread[i]);
        if (bar.valid)
            out[i] = (es_estimate){output[i] - scale * queries[i], -half, half};
    }
    return ES_OK;
}

es_status es_direct_bars(const es_job *job, const es_setting *setting, int64_t trial, uint64_t seed,
                         const es_exec *exec, es_estimate *out, es_error *err)
{
    (void)job;
    (void)trial;
    return bars(seed, setting->dependent ? 0.8 : 0.0, exec, out, err);
}

/* ---- a real layer ---- */

static const int64_t sizes[] = {32, 64, 128, 256, 512, 1024};
enum { SIZES = sizeof sizes / sizeof sizes[0], QUERIES = 128, ERRORS = 3 };

es_status es_checked_layer_open(es_job *job, es_checked_layer *layer, es_error *err)
{
    const int64_t middle = layer->pools.config->layers / 2;
    ES_TRY(es_pools_build(job, &layer->pools, err));
    layer->heads = layer->pools.config->heads;
    layer->exec = (es_exec){.threads = 1, .isa = job->exec.isa, .budget = job->exec.budget};
    layer->spec = (es_probe_spec){layer->pools.model, .pool = layer->pools.domains[0].pool,
                                  .sizes = sizes,     .n_sizes = SIZES,
                                  .queries = QUERIES, .draws_only = true,
                                  .seed = job->seed,  .exec = &job->exec};
    ES_TRY(ES_JOB_NEW(job, layer->numbers, es_probe_numbers(&layer->spec), err));
    es_job_phase(job, "attending over the pool", 1.0);
    ES_TRY(es_probe_measure(&layer->spec, middle, layer->numbers, err));
    layer->spec.exec = &layer->exec; /* cells run side by side */
    return es_probe_open(&layer->spec, middle, layer->numbers, &layer->probe, err);
}

void es_checked_layer_close(es_checked_layer *layer)
{
    es_probe_close(layer->probe);
    if (layer->pools.model)
        es_pools_close(&layer->pools);
}

/* Errors of all replicates, (heads, errors, replicates, sizes), as rates with their intervals. */
static es_status fit_heads(const double *errors, int64_t heads, int64_t replicates,
                           es_estimate *out, es_error *err)
{
    double at[SIZES];
    for (int i = 0; i < SIZES; i++)
        at[i] = (double)sizes[i];
    for (int64_t h = 0; h < heads && h < ES_FIGURE_ROWS; h++)
        for (int e = 0; e < ERRORS; e++) {
            es_rate rate;
            ES_TRY(es_fit_replicates(errors + (h * ERRORS + e) * replicates * SIZES, replicates,
                                     SIZES, at, NULL, NULL, NULL, &rate, err));
            out[e * ES_FIGURE_ROWS + h] = (es_estimate){rate.mean.rate, rate.low - rate.mean.rate,
                                                        rate.high - rate.mean.rate};
        }
    return ES_OK;
}

/* Copies the errors of draw r into errors (heads, errors, replicates, sizes). */
static void keep(const es_probe_cell *cells, int64_t heads, int64_t replicates, int64_t r,
                 double *errors)
{
    for (int64_t h = 0; h < heads; h++)
        for (int i = 0; i < SIZES; i++) {
            const es_probe_cell *c = &cells[h * SIZES + i];
            const double three[ERRORS] = {c->mean_error, c->cov_error, c->map_error};
            for (int e = 0; e < ERRORS; e++)
                errors[((h * ERRORS + e) * replicates + r) * SIZES + i] = three[e];
        }
}

/* Draws the replicates of a trial and fits the rates of all heads. */
static es_status draw_all(const es_checked_layer *layer, int64_t trial, int64_t replicates,
                          bool control, es_estimate *out, es_error *err)
{
    es_mem_limit *budget = layer->exec.budget;
    const int64_t points = layer->heads * SIZES;
    es_probe_joint joint[SIZES];
    es_probe_cell *cells;
    double *errors = NULL;
    ES_TRY(ES_MEM_NEW(budget, cells, points, "errors", err));
    es_status status = ES_MEM_NEW_2D(budget, errors, points * ERRORS, replicates, "errors", err);
    for (int64_t r = 0; r < replicates && status == ES_OK; r++) {
        const int64_t which = trial * replicates + r;
        status = control ? es_probe_control(layer->probe, which, cells, err)
                         : es_probe_replicate(layer->probe, which, cells, joint, err);
        if (status == ES_OK)
            keep(cells, layer->heads, replicates, r, errors);
    }
    if (status == ES_OK)
        status = fit_heads(errors, layer->heads, replicates, out, err);
    es_mem_free(budget, errors);
    es_mem_free(budget, cells);
    return status;
}

es_status es_direct_rates(const es_job *job, const es_setting *setting, int64_t trial,
                          uint64_t seed, const es_exec *exec, es_estimate *out, es_error *err)
{
    const selfcheck_state *s = job->state;
    (void)seed; /* draws differ by their number, because queries must be the same */
    (void)exec;
    return draw_all(&s->layer, trial, setting->replicates, setting->control, out, err);
}
