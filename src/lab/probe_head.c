/* probe_head.c : what the covariance of the tokens and the weights say about a head, and how its
 * attention looks in the text's own blocks. */
#include <math.h>

#include <esscher/attend.h>
#include <esscher/linalg.h>

#include "base/error.h"
#include "base/memory.h"
#include "lab/probe.h"
#include "stats/average.h"

/* ---- the layer ---- */

es_status es_probe_layer_of(const es_probe *probe, es_probe_layer *out, es_error *err)
{
    const int64_t H = probe->weights.hidden;
    const es_view cov = es_view_f64(probe->cov, H, H);
    const es_view wq = es_view_f32(probe->weights.wq, H, H);
    const es_view wk = es_view_f32(probe->weights.wk, H, H);
    es_horizons all;
    double trace = 0.0, squares = 0.0;
    ES_TRY(
        es_horizons_of(&cov, 0.0, &(es_head){.Wq = &wq, .Wk = &wk}, probe->exec.budget, &all, err));
    for (int64_t i = 0; i < H; i++)
        trace += probe->cov[i * H + i];
    for (int64_t i = 0; i < H * H; i++)
        squares += probe->cov[i] * probe->cov[i];
    *out = (es_probe_layer){.reach = all.reach,
                            .trace = trace,
                            .participation = trace * trace / squares,
                            .horizon_unscaled_all_heads = all.unscaled.val};
    return ES_OK;
}

/* ---- sinks ---- */

enum { SINK_BLOCKS = 16 };

/* Of one block: its queries, and the weight they give its first and its last token, on average. */
typedef struct sink {
    double queries, weight[2];
} sink;

static es_status sink_of(const es_probe *p, int64_t head, int64_t first, int64_t n, float *x,
                         double *lse, sink *out, es_error *err)
{
    const int64_t H = p->weights.hidden, k = p->weights.width;
    const double scale = 1.0 / sqrt((double)k);
    float *q = x + n * H, *keys = q + n * k; /* of this head: (n, k) each */
    es_exec exec = p->exec;
    exec.progress = NULL;
    const es_attend_opts opts = {.scales = &scale, .n_scales = 1, .exec = &exec};
    const es_probe_weights *w = &p->weights;
    const int64_t at = head * k;
    ES_TRY(es_pool_rows(p->spec.pool, p->layer, first, n, x, err));
    ES_TRY(es_probe_project(&exec, x, n, w->wq + at * H, w->bq + at, k, H, q, err));
    ES_TRY(es_probe_project(&exec, x, n, w->wk + at * H, NULL, k, H, keys, err));
    const es_view Q = es_view_f32(q, n, k), K = es_view_f32(keys, n, k);
    ES_TRY(es_attend(&Q, &K, &K, &opts, &(es_attend_out){.lse = lse}, err));
    *out = (sink){.queries = (double)n};
    for (int64_t i = 0; i < n; i++)
        for (int end = 0; end < 2; end++) {
            const float *key = keys + (end ? n - 1 : 0) * k;
            double score = 0.0;
            for (int64_t j = 0; j < k; j++)
                score += (double)q[i * k + j] * (double)key[j];
            out->weight[end] += exp(score * scale - lse[i]) / (double)n;
        }
    return ES_OK;
}

/* Mean over queries, and its standard error, blocks being independent. */
static void average(const sink *sinks, int64_t blocks, int end, double *mean, double *se)
{
    double queries = 0.0, sum = 0.0, scatter = 0.0;
    for (int64_t b = 0; b < blocks; b++) {
        queries += sinks[b].queries;
        sum += sinks[b].queries * sinks[b].weight[end];
    }
    *mean = sum / queries;
    for (int64_t b = 0; b < blocks; b++)
        scatter += pow(sinks[b].queries * (sinks[b].weight[end] - *mean), 2.0);
    *se = es_block_se(scatter, queries, blocks);
}

static es_status sinks_of(const es_probe *p, int64_t head, es_probe_head *out, es_error *err)
{
    const int64_t blocks = p->pool.blocks < SINK_BLOCKS ? p->pool.blocks : SINK_BLOCKS;
    sink sinks[SINK_BLOCKS];
    double *lse;
    float *x = NULL;
    out->sink_first = out->sink_last = out->sink_first_se = out->sink_last_se = (double)NAN;
    if (!p->pool.specials)
        return ES_OK;
    es_status status =
        es_mem_array(p->exec.budget, p->pool.length, 1, sizeof *lse, "a block", (void **)&lse, err);
    if (status == ES_OK)
        status =
            es_mem_array(p->exec.budget, p->pool.length, p->weights.hidden + 2 * p->weights.width,
                         sizeof *x, "a block", (void **)&x, err);
    for (int64_t b = 0; b < blocks && status == ES_OK; b++) {
        int64_t first, count;
        status = es_pool_block(p->spec.pool, b, &first, &count, err);
        if (status == ES_OK)
            status = sink_of(p, head, first, count, x, lse, &sinks[b], err);
    }
    if (status == ES_OK) {
        average(sinks, blocks, 0, &out->sink_first, &out->sink_first_se);
        average(sinks, blocks, 1, &out->sink_last, &out->sink_last_se);
    }
    es_mem_free(p->exec.budget, x);
    es_mem_free(p->exec.budget, lse);
    return status;
}

/* ---- the head ---- */

/* Root mean square distance of the limit's outputs from their mean. */
static double output_rms(const es_probe *p, int64_t head)
{
    const int64_t H = p->weights.hidden, k = p->weights.width, m = p->queries;
    double sum = 0.0;
    for (int64_t j = 0; j < k; j++) {
        double mean = 0.0;
        for (int64_t i = 0; i < m; i++)
            mean += p->limit[i * H + head * k + j] / (double)m;
        for (int64_t i = 0; i < m; i++)
            sum += pow(p->limit[i * H + head * k + j] - mean, 2.0) / (double)m;
    }
    return sqrt(sum);
}

es_status es_probe_head_of(const es_probe *probe, int64_t head, es_probe_head *out, es_error *err)
{
    const int64_t H = probe->weights.hidden, k = probe->weights.width;
    ES_TRY(es_probe_check_head(probe, head, err));
    const es_view cov = es_view_f64(probe->cov, H, H);
    const es_view wq = es_view_f32(probe->weights.wq + head * k * H, k, H);
    const es_view wk = es_view_f32(probe->weights.wk + head * k * H, k, H);
    const double *about = probe->about + ES_PROBE_ABOUT * head;
    *out = (es_probe_head){.limit = {about[0], about[1], about[2]},
                           .output_rms = output_rms(probe, head),
                           .sampling = about[3],
                           .sampling_error = about[4],
                           .thin = about[5]};
    ES_TRY(es_horizons_of(&cov, 0.0, &(es_head){.Wq = &wq, .Wk = &wk}, probe->exec.budget,
                          &out->horizons, err));
    ES_TRY(es_probe_freezing(probe, head, out, err));
    return sinks_of(probe, head, out, err);
}
