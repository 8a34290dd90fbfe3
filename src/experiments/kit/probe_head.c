/* SPDX-License-Identifier: Apache-2.0 */
/* probe_head.c : what the covariance of the tokens and the weights say about a head: the scores
 * that its queries would give Gaussian tokens, how wide they are and the error that follows exactly
 * (THEORY 4.2, 9); then its horizons, and how its attention looks in the text's own blocks. */
#include "experiments/kit/probe_inside.h"

#include <math.h>
#include <string.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "linalg/linalg.h"
#include "stats/average.h"

/* Fails for a head that the layer does not have. */
static es_status check_head(const es_probe *probe, int64_t head, es_error *err)
{
    if (head < 0 || head >= probe->weights.heads)
        return es_fail(err, ES_E_RANGE, "probe.head", "count from 0", "head %lld of %lld",
                       (long long)head, (long long)probe->weights.heads);
    return ES_OK;
}

/* ---- keys and values ---- */

/* S b' row by row, b the head's k rows of a matrix (Q, H), and from it G (k, k) = a S b' for up to
 * two a. `scratch` is (H + 1, k): b' itself, so that sums over channels, each in its own order, run
 * k at a time and four terms in one go; and a row of S b'. */
static void sandwich(const es_probe *p, int64_t head, const float *b, const float *const a[2],
                     double *const G[2], double *scratch)
{
    const int64_t H = p->weights.hidden, k = p->weights.width, first = head * k * H;
    double *sb = scratch + H * k;
    for (int64_t c = 0; c < H; c++)
        for (int64_t j = 0; j < k; j++)
            scratch[c * k + j] = (double)b[first + j * H + c];
    for (int64_t r = 0; r < H; r++) {
        const double *S = p->cov + r * H;
        memset(sb, 0, (size_t)k * sizeof *sb);
        int64_t c = 0;
        for (; c + 4 <= H; c += 4)
            for (int64_t j = 0; j < k; j++) {
                const double *t = scratch + c * k + j;
                sb[j] = sb[j] + S[c] * t[0] + S[c + 1] * t[k] + S[c + 2] * t[2 * k] +
                        S[c + 3] * t[3 * k];
            }
        for (; c < H; c++)
            for (int64_t j = 0; j < k; j++)
                sb[j] += S[c] * scratch[c * k + j];
        for (int side = 0; side < 2 && a[side]; side++)
            for (int64_t i = 0; i < k; i++)
                for (int64_t j = 0; j < k; j++)
                    G[side][i * k + j] += (double)a[side][first + i * H + r] * sb[j];
    }
}

/* Computes Wk S Wk', Wv S Wk' and Wv S Wv' of a head, on which all Gaussian predictions rest. */
static es_status fill_grams(void *user, int64_t head, int thread, es_error *err)
{
    es_probe *p = user;
    const es_probe_weights *w = &p->weights;
    const int64_t size = w->width * w->width;
    double *at = p->grams + 3 * size * head, *scratch; /* zeroed, as all memory is */
    (void)thread;
    ES_TRY(
        ES_MEM_NEW_2D(p->exec.budget, scratch, w->hidden + 1, w->width, "weights of a head", err));
    sandwich(p, head, w->wk, (const float *const[]){w->wk, w->wv}, (double *const[]){at, at + size},
             scratch);
    sandwich(p, head, w->wv, (const float *const[]){w->wv, NULL},
             (double *const[]){at + 2 * size, NULL}, scratch);
    es_mem_free(p->exec.budget, scratch);
    return ES_OK;
}

es_status es_probe_grams_fill(es_probe *probe, es_error *err)
{
    const int64_t k = probe->weights.width;
    const es_exec quiet = es_exec_quiet(&probe->exec);
    ES_TRY(ES_MEM_NEW_2D(probe->exec.budget, probe->grams, 3 * probe->weights.heads, k * k,
                         "covariances of keys and values", err));
    return es_parallel_run(&quiet, probe->weights.heads, fill_grams, probe, err);
}

es_probe_gram es_probe_gram_of(const es_probe *probe, int64_t head)
{
    const int64_t size = probe->weights.width * probe->weights.width;
    const double *at = probe->grams + 3 * size * head;
    return (es_probe_gram){.kk = at, .vk = at + size, .vv = at + 2 * size};
}

/* ---- scores ---- */

/* Of each query: q, the standard deviation of its scores over Gaussian tokens of covariance S, and
 * the squared length of V S t / q, t = Wk'(Wq x + bq)/sqrt(k): the part of an output's error that
 * lies along the limit. */
typedef struct scores {
    double *q, *along; /* (queries) */
    double total;      /* tr V S V' */
} scores;

/* Computes the standard deviation of the scores of each query under Gaussian tokens, and how far
 * the output moves along it. */
static es_status scores_of(const es_probe *p, int64_t head, scores *out, es_error *err)
{
    const int64_t k = p->weights.width, Q = p->weights.all, m = p->queries;
    const es_probe_gram gram = es_probe_gram_of(p, head);
    double *scratch;
    ES_TRY(ES_MEM_NEW_2D(p->exec.budget, scratch, 2, m, "scores of a head", err));
    *out = (scores){.q = scratch, .along = scratch + m};
    for (int64_t i = 0; i < k; i++)
        out->total += gram.vv[i * k + i];
    for (int64_t i = 0; i < m; i++) {
        const float *x = p->q + i * Q + head * k;
        double variance = 0.0, along = 0.0;
        for (int64_t a = 0; a < k; a++) {
            double score = 0.0, value = 0.0;
            for (int64_t b = 0; b < k; b++) {
                score += gram.kk[a * k + b] * (double)x[b];
                value += gram.vk[a * k + b] * (double)x[b];
            }
            variance += score * (double)x[a];
            along += value * value;
        }
        out->q[i] = sqrt(fmax(variance, 0.0) / (double)k);
        out->along[i] = variance > 0.0 ? along / variance : 0.0;
    }
    return ES_OK;
}

/* score_sd, freezing and gaussian_frozen of `out`. */
static es_status freezing_of(const es_probe *probe, int64_t head, es_probe_head *out, es_error *err)
{
    const double n = (double)probe->spec.sizes[probe->spec.n_sizes - 1], edge = sqrt(2.0 * log(n));
    const int64_t m = probe->queries;
    double square = 0.0, scatter = 0.0; /* means over queries */
    int64_t frozen = 0;
    scores s;
    ES_TRY(scores_of(probe, head, &s, err));
    for (int64_t i = 0; i < m; i++) {
        square += s.q[i] * s.q[i] / (double)m;
        frozen += s.q[i] > edge;
    }
    for (int64_t i = 0; i < m; i++)
        scatter += pow(s.q[i] * s.q[i] - square, 2.0) / (double)m;
    es_sort_reals(s.q, m);
    out->score_sd = sqrt(square);
    out->score_sd_se = square > 0.0 ? sqrt(scatter / (double)m / square) / 2.0 : 0.0;
    out->freezing = es_median_of(s.q, m) / edge;
    out->gaussian_frozen = (double)frozen / (double)m;
    /* none, or all, of m queries is not certainty: half a query more on either side */
    const double share = ((double)frozen + 0.5) / ((double)m + 1.0);
    out->gaussian_frozen_se = sqrt(share * (1.0 - share) / (double)m);
    es_mem_free(probe->exec.budget, s.q);
    return ES_OK;
}

/* ---- prediction ---- */

/* P_n and v_n on a grid of q, geometric from Q_LOW on; their logarithms are smooth in that of q. */
static const double Q_LOW = 1e-2, Q_STEP = 1.06; /* up to 3900; es_rem_moments() goes to 4096 */

/* Where q is on the grid, counted in points; 0 for all below it. */
static double place_of(double q)
{
    return fmin(fmax(log(q / Q_LOW) / log(Q_STEP), 0.0), ES_PROBE_GRID - 1);
}

/* The first of the four points around a place. */
static int first_of(double place)
{
    return (int)fmin(fmax(floor(place) - 1.0, 0.0), ES_PROBE_GRID - 4);
}

/* Points of the tables that threads fill. */
typedef struct filling {
    es_probe *probe;
    int first, count; /* points of the grid that are needed */
} filling;

/* Fills one point of the table of random energy model moments: participation and error at n tokens
 * and score deviation q. */
static es_status fill_point(void *user, int64_t unit, int thread, es_error *err)
{
    const filling *f = user;
    const int64_t s = unit / f->count, i = f->first + unit % f->count;
    es_rem r;
    (void)thread;
    ES_TRY(es_rem_moments((double)f->probe->spec.sizes[s], Q_LOW * pow(Q_STEP, (double)i),
                          f->probe->exec.budget, &r, err));
    f->probe->tables[s].log_p[i] = log(r.participation);
    f->probe->tables[s].log_v[i] = log(r.error);
    return ES_OK;
}

es_status es_probe_tables_fill(es_probe *probe, es_error *err)
{
    double least = INFINITY, most = 0.0;
    for (int64_t h = 0; h < probe->weights.heads; h++) {
        scores s;
        ES_TRY(scores_of(probe, h, &s, err));
        for (int64_t i = 0; i < probe->queries; i++) {
            least = fmin(least, s.q[i]);
            most = fmax(most, s.q[i]);
        }
        es_mem_free(probe->exec.budget, s.q);
    }
    filling f = {.probe = probe, .first = first_of(place_of(least))};
    f.count = first_of(place_of(most)) + 4 - f.first;
    return es_parallel_run(&probe->exec, probe->spec.n_sizes * f.count, fill_point, &f, err);
}

/* The cubic through four points of the grid: below the edge ln P is q^2 - ln n, so curved that a
 * line between two points would be off by 2 % at q = 4; the cubic is off by less than 1e-4. Below
 * the grid both are what they are at q = 0. */
static double look_up(const double *log_f, double q)
{
    const int first = first_of(place_of(q));
    const double t = place_of(q) - first, *f = log_f + first;
    const double a = 1.0 - t, b = 2.0 - t, c = 3.0 - t;
    return exp(f[0] * a * b * c / 6.0 + f[1] * t * b * c / 2.0 - f[2] * t * a * c / 2.0 +
               f[3] * t * a * b / 6.0);
}

es_status es_probe_predict(const es_probe *probe, int64_t head, double *out, es_error *err)
{
    scores s;
    ES_TRY(check_head(probe, head, err));
    if (probe->spec.draws_only)
        return es_fail(err, ES_E_ARGUMENT, "probe.predict", "open the layer without draws_only",
                       "the layer is open for draws only");
    ES_TRY(scores_of(probe, head, &s, err));
    for (int64_t i = 0; i < probe->spec.n_sizes; i++) {
        const es_probe_table *table = &probe->tables[i];
        double sum = 0.0;
        for (int64_t j = 0; j < probe->queries; j++)
            sum += s.along[j] * look_up(table->log_v, s.q[j]) +
                   (s.total - s.along[j]) * look_up(table->log_p, s.q[j]);
        out[i] = sqrt(sum / (double)probe->queries);
    }
    es_mem_free(probe->exec.budget, s.q);
    return ES_OK;
}

/* ==== layers, heads and sinks ==== */

/* ---- the layer ---- */

es_status es_probe_layer_of(const es_probe *probe, es_probe_layer *out, es_error *err)
{
    const int64_t H = probe->weights.hidden;
    const es_view cov = es_view_f64(probe->cov, H, H);
    const es_view wq = es_view_f32(probe->weights.wq, probe->weights.all, H);
    const es_view wk = es_view_f32(probe->weights.wk, probe->weights.all, H);
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

/* Of one block: its queries, and the weight they give its first and its last token, on average. */
typedef struct sink {
    double queries, weight[2];
} sink;

/* Computes which share of attention goes to the first and the last token of one block. */
static es_status sink_of(const es_probe *p, int64_t head, int64_t first, int64_t n, float *x,
                         double *lse, sink *out, es_error *err)
{
    const int64_t H = p->weights.hidden, k = p->weights.width;
    const double scale = 1.0 / sqrt((double)k);
    float *q = x + n * H, *keys = q + n * k; /* of this head: (n, k) each */
    const es_exec exec = es_exec_quiet(&p->exec);
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

/* Averages that over some blocks. Causal models have their own measure, by position; where queries
 * and keys turn, a limit without positions does not know their scores. */
static es_status sinks_of(const es_probe *p, int64_t head, es_probe_head *out, es_error *err)
{
    const int64_t blocks = p->pool.blocks < ES_PROBE_SINKS ? p->pool.blocks : ES_PROBE_SINKS;
    sink sinks[ES_PROBE_SINKS];
    double *lse;
    float *x = NULL;
    out->sink_first = out->sink_last = out->sink_first_se = out->sink_last_se = (double)NAN;
    const es_model_config *config = es_model_config_of(p->spec.model);
    if (!p->pool.specials || config->causal || config->rotary.width)
        return ES_OK; /* causal models: see positions.h */
    es_status status = ES_MEM_NEW(p->exec.budget, lse, p->pool.length, "a block", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(p->exec.budget, x, p->pool.length,
                               p->weights.hidden + 2 * p->weights.width, "a block", err);
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
    const int64_t Q = p->weights.all, k = p->weights.width, m = p->queries;
    double sum = 0.0;
    for (int64_t j = 0; j < k; j++) {
        double mean = 0.0;
        for (int64_t i = 0; i < m; i++)
            mean += p->limit[i * Q + head * k + j] / (double)m;
        for (int64_t i = 0; i < m; i++)
            sum += pow(p->limit[i * Q + head * k + j] - mean, 2.0) / (double)m;
    }
    return sqrt(sum);
}

es_status es_probe_head_of(const es_probe *probe, int64_t head, es_probe_head *out, es_error *err)
{
    const int64_t H = probe->weights.hidden, k = probe->weights.width;
    ES_TRY(check_head(probe, head, err));
    const es_view cov = es_view_f64(probe->cov, H, H);
    const es_view wq = es_view_f32(probe->weights.wq + head * k * H, k, H);
    const es_view wk = es_view_f32(probe->weights.wk + head * k * H, k, H);
    const double *about = probe->about + ES_PROBE_ABOUT * head;
    *out = (es_probe_head){.limit = {about[0], about[1], about[2]},
                           .output_rms = output_rms(probe, head),
                           .sampling = about[3],
                           .sampling_error = about[4],
                           .thin = about[5],
                           .focus = {about[6], about[7], about[8], about[9]}};
    ES_TRY(es_horizons_of(&cov, 0.0, &(es_head){.Wq = &wq, .Wk = &wk}, probe->exec.budget,
                          &out->horizons, err));
    ES_TRY(freezing_of(probe, head, out, err));
    return sinks_of(probe, head, out, err);
}
