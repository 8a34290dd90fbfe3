/* probe_head.c : what the covariance of the tokens and the weights say about a head, and how its
 * attention looks in the text's own blocks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/attend.h>
#include <esscher/linalg.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "lab/probe.h"

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

/* ---- scores of the queries ---- */

/* G (k, k) = a S b' for blocks of k rows of two matrices (H, H), S the covariance. */
static void sandwich(const es_probe *p, int64_t head, const float *a, const float *b, double *G)
{
    const int64_t H = p->weights.hidden, k = p->weights.width;
    const float *left = a + head * k * H, *right = b + head * k * H;
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < k; i++)
            G[i * k + j] = 0.0;
    for (int64_t r = 0; r < H; r++)
        for (int64_t j = 0; j < k; j++) {
            double sb = 0.0; /* (S b')_{r j} */
            for (int64_t c = 0; c < H; c++)
                sb += p->cov[r * H + c] * (double)right[j * H + c];
            for (int64_t i = 0; i < k; i++)
                G[i * k + j] += (double)left[i * H + r] * sb;
        }
}

/* Of each query: q, the standard deviation of its scores over Gaussian tokens of covariance S, and
 * the squared length of V S t / q, t = Wk'(Wq x + bq)/sqrt(k): the part of an output's error that
 * lies along the limit. */
typedef struct scores {
    double *q, *along; /* (queries) */
    double total;      /* tr V S V' */
} scores;

static es_status scores_of(const es_probe *p, int64_t head, scores *out, es_error *err)
{
    const int64_t k = p->weights.width, H = p->weights.hidden, m = p->queries;
    double *room;
    ES_TRY(es_mem_array(p->exec.budget, 1, 2 * m + 3 * k * k, sizeof *room, "scores of a head",
                        (void **)&room, err));
    out->q = room;
    out->along = room + m;
    double *kk = room + 2 * m, *vk = kk + k * k, *vv = vk + k * k;
    sandwich(p, head, p->weights.wk, p->weights.wk, kk);
    sandwich(p, head, p->weights.wv, p->weights.wk, vk);
    sandwich(p, head, p->weights.wv, p->weights.wv, vv);
    out->total = 0.0;
    for (int64_t i = 0; i < k; i++)
        out->total += vv[i * k + i];
    for (int64_t i = 0; i < m; i++) {
        const float *x = p->q + i * H + head * k;
        double variance = 0.0, along = 0.0;
        for (int64_t a = 0; a < k; a++) {
            double score = 0.0, value = 0.0;
            for (int64_t b = 0; b < k; b++) {
                score += kk[a * k + b] * (double)x[b];
                value += vk[a * k + b] * (double)x[b];
            }
            variance += score * (double)x[a];
            along += value * value;
        }
        out->q[i] = sqrt(fmax(variance, 0.0) / (double)k);
        out->along[i] = variance > 0.0 ? along / variance : 0.0;
    }
    return ES_OK;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void freezing_of(const es_probe *p, scores *s, es_probe_head *out)
{
    const double n = (double)p->spec.sizes[p->spec.n_sizes - 1], edge = sqrt(2.0 * log(n));
    const int64_t m = p->queries;
    double squares = 0.0;
    int64_t frozen = 0;
    for (int64_t i = 0; i < m; i++) {
        squares += s->q[i] * s->q[i];
        frozen += s->q[i] > edge;
    }
    qsort(s->q, (size_t)m, sizeof *s->q, ascending);
    out->score_sd = sqrt(squares / (double)m);
    out->freezing = 0.5 * (s->q[(m - 1) / 2] + s->q[m / 2]) / edge;
    out->frozen = (double)frozen / (double)m;
}

/* ---- sinks ---- */

enum { SINK_BLOCKS = 16 };

/* Weight on the first and the last token of one block, averaged over its queries, added to `sum`.
 */
static es_status add_sinks(const es_probe *p, int64_t head, int64_t first, int64_t n, float *x,
                           double *lse, double sum[2], es_error *err)
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
    for (int64_t i = 0; i < n; i++)
        for (int end = 0; end < 2; end++) {
            const float *key = keys + (end ? n - 1 : 0) * k;
            double score = 0.0;
            for (int64_t j = 0; j < k; j++)
                score += (double)q[i * k + j] * (double)key[j];
            sum[end] += exp(score * scale - lse[i]) / (double)n;
        }
    return ES_OK;
}

static es_status sinks_of(const es_probe *p, int64_t head, es_probe_head *out, es_error *err)
{
    const int64_t blocks = p->pool.blocks < SINK_BLOCKS ? p->pool.blocks : SINK_BLOCKS;
    double sum[2] = {0.0, 0.0}, *lse;
    float *x = NULL;
    if (!p->pool.specials) {
        out->sink_first = out->sink_last = (double)NAN;
        return ES_OK;
    }
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
            status = add_sinks(p, head, first, count, x, lse, sum, err);
    }
    es_mem_free(p->exec.budget, x);
    es_mem_free(p->exec.budget, lse);
    out->sink_first = sum[0] / (double)blocks;
    out->sink_last = sum[1] / (double)blocks;
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

static es_status check_head(const es_probe *p, int64_t head, es_error *err)
{
    if (head < 0 || head >= p->weights.heads)
        return es_fail(err, ES_E_RANGE, "probe.head", "count from 0", "head %lld of %lld",
                       (long long)head, (long long)p->weights.heads);
    return ES_OK;
}

es_status es_probe_head_of(const es_probe *probe, int64_t head, es_probe_head *out, es_error *err)
{
    const int64_t H = probe->weights.hidden, k = probe->weights.width;
    ES_TRY(check_head(probe, head, err));
    const es_view cov = es_view_f64(probe->cov, H, H);
    const es_view wq = es_view_f32(probe->weights.wq + head * k * H, k, H);
    const es_view wk = es_view_f32(probe->weights.wk + head * k * H, k, H);
    const double *halves = probe->halves + 3 * head;
    scores s;
    *out = (es_probe_head){.limit = {halves[0], halves[1], halves[2]},
                           .output_rms = output_rms(probe, head)};
    ES_TRY(es_horizons_of(&cov, 0.0, &(es_head){.Wq = &wq, .Wk = &wk}, probe->exec.budget,
                          &out->horizons, err));
    ES_TRY(scores_of(probe, head, &s, err));
    freezing_of(probe, &s, out);
    es_mem_free(probe->exec.budget, s.q);
    return sinks_of(probe, head, out, err);
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

typedef struct filling {
    es_probe *probe;
    int first, count; /* points of the grid that are needed */
} filling;

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
    es_exec exec = probe->exec;
    exec.progress = NULL;
    return es_parallel_run(&exec, probe->spec.n_sizes * f.count, fill_point, &f, err);
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
