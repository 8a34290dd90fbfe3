/* SPDX-License-Identifier: Apache-2.0 */
/* position_walk.c : one head over one block of text, as sums over bins of places and of distances
 * (THEORY 16). */
#include "experiments/probe/positions.h"

#include <math.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "linalg/linalg.h"
#include "stats/average.h"
#include "stats/weigh.h"
#include "theory/gap_count.h"

/* A head that is being summed up. */
typedef struct work {
    const es_positions_spec *spec;
    const es_model_seen *seen;
    es_exec exec;
    es_positions_grid grid;
    int64_t n, k, dv;
    int64_t sinks; /* keys that windows have beside the last: none where the model's own window is
                      shorter than the block, for its far queries do not see the first keys */
    int64_t *positions; /* (n) 0, 1, ... */
    int64_t *bin_of;    /* (n) the bin of each place */
    double *q, *key;    /* (n, k) queries and keys in f64, real or plain */
    double *sums;       /* (n + 1, k) sum of the keys before each */
    double *output;     /* (n, dv) of a window */
    double *lse;        /* (n) likewise */
    double *out;        /* (grid.numbers) */
} work;

/* Returns the memory limit of this cell. */
static es_mem_limit *budget_of(const work *w) { return w->exec.budget; }

/* ---- scratch ---- */

/* Fails if the forward pass did not compute what is summed up here. */
static es_status check_seen(const work *w, es_error *err)
{
    const es_model_seen *s = w->seen;
    if (!s->output || !s->entropy || !s->top_weight || !s->sum_squares || !s->lse)
        return es_fail(err, ES_E_ARGUMENT, "positions.statistics", "set visit.statistics",
                       "the head ran without its statistics");
    if (s->q.rows != w->n || s->k.rows != w->n || s->v.rows != w->n || s->k.cols != s->q.cols)
        return es_fail(err, ES_E_SHAPE, "positions.shape", "",
                       "queries, keys and values of %lld, %lld and %lld rows; the block has %lld",
                       (long long)s->q.rows, (long long)s->k.rows, (long long)s->v.rows,
                       (long long)w->n);
    return ES_OK;
}

/* Allocates rows of one head in f64 and finds the bin of each position. */
static es_status allocate(work *w, es_error *err)
{
    es_mem_limit *b = budget_of(w);
    const int64_t n = w->n;
    ES_TRY(ES_MEM_NEW(b, w->positions, n, "places", err));
    ES_TRY(ES_MEM_NEW(b, w->bin_of, n, "places", err));
    ES_TRY(ES_MEM_NEW_2D(b, w->q, n, w->k, "queries", err));
    ES_TRY(ES_MEM_NEW_2D(b, w->key, n, w->k, "keys", err));
    ES_TRY(ES_MEM_NEW_2D(b, w->sums, n + 1, w->k, "sums of keys", err));
    ES_TRY(ES_MEM_NEW_2D(b, w->output, n, w->dv, "outputs", err));
    ES_TRY(ES_MEM_NEW(b, w->lse, n, "outputs", err));
    for (int64_t i = 0, bin = 0; i < n; i++) {
        bin += i + 1 > w->grid.to[bin] ? 1 : 0;
        w->positions[i] = i;
        w->bin_of[i] = bin;
    }
    return ES_OK;
}

/* Frees what one head used. */
static void free_scratch(work *w)
{
    void *const all[] = {w->positions, w->bin_of, w->q, w->key, w->sums, w->output, w->lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        es_mem_free(budget_of(w), all[i]);
}

/* Adds x to a statistic in the bin of position i. */
static void add(work *w, int64_t i, es_positions_stat stat, double x)
{
    w->out[es_positions_at(&w->grid, w->bin_of[i], stat)] += x;
}

/* Keys 0 .. i that query i does not see, because the model's window is shorter. */
static int64_t unseen(const work *w, int64_t i)
{
    const int64_t window = w->seen->window;
    return window && i + 1 > window ? i + 1 - window : 0;
}

/* ---- statistics of the forward pass ---- */

/* Sums the statistics that attention itself returns: entropy, effective number of keys, largest
 * weight. */
static void sum_weights(work *w)
{
    const es_model_seen *s = w->seen;
    for (int64_t i = 0; i < w->n; i++) {
        const double ess = 1.0 / s->sum_squares[i];
        add(w, i, ES_POSITIONS_COUNT, 1.0);
        add(w, i, ES_POSITIONS_PLACES, log((double)(i + 1)));
        add(w, i, ES_POSITIONS_ENTROPY, s->entropy[i]);
        add(w, i, ES_POSITIONS_ESS, ess);
        add(w, i, ES_POSITIONS_LOG_ESS, log(ess));
        add(w, i, ES_POSITIONS_TOP, s->top_weight[i]);
        add(w, i, ES_POSITIONS_SQUARES, s->sum_squares[i]);
    }
}

/* Distances of outputs from their mean over the whole block: what errors are compared with. */
static void sum_spread(work *w)
{
    const double *y = w->seen->output;
    double *mean = w->output; /* not in use yet */
    for (int64_t c = 0; c < w->dv; c++)
        mean[c] = 0.0;
    for (int64_t i = 0; i < w->n; i++)
        for (int64_t c = 0; c < w->dv; c++)
            mean[c] += y[i * w->dv + c] / (double)w->n;
    for (int64_t i = 0; i < w->n; i++) {
        const double apart = es_distance(y + i * w->dv, mean, w->dv);
        add(w, i, ES_POSITIONS_SPREAD, apart * apart);
    }
}

/* ---- queries and keys ---- */

/* Reads queries and keys, and prefix sums of keys for means over windows. */
static void read_rows(work *w, const es_view *q, const es_view *k)
{
    for (int64_t i = 0; i < w->n; i++) {
        es_view_read_row(q, i, w->q + i * w->k);
        es_view_read_row(k, i, w->key + i * w->k);
        for (int64_t c = 0; c < w->k; c++)
            w->sums[(i + 1) * w->k + c] = w->sums[i * w->k + c] + w->key[i * w->k + c];
    }
}

/* Returns the weight of the head's learned sink for query i; 0: it has none. */
static double learned(const work *w, int64_t i)
{
    return w->seen->sink ? exp(*w->seen->sink - w->seen->lse[i]) : 0.0;
}

/* Adds the weight on the first keys, from their scores (THEORY 16.1, K1), and whether query i puts
 * its weight on one key, which may be one of them. ESS < 2 means sum w^2 > 1/2; the largest weight
 * is at least sum w^2, so exactly one key has more than half. A learned sink, which counts in sum
 * w^2, is on the side of the first keys there. */
static void sum_sinks(work *w)
{
    for (int64_t i = 0; i < w->n; i++) {
        double mass = 0.0, most = learned(w, i);
        for (int64_t j = unseen(w, i); j <= i && j < ES_POSITIONS_SINKS; j++) {
            double score = w->seen->scale * es_dot(w->q + i * w->k, w->key + j * w->k, w->k);
            es_cap_scores(w->seen->cap, 1, &score);
            const double weight = exp(score - w->seen->lse[i]);
            mass += weight;
            most = fmax(most, weight);
        }
        add(w, i, ES_POSITIONS_SINK, mass);
        if (w->seen->sum_squares[i] > 0.5)
            add(w, i, most > 0.5 ? ES_POSITIONS_ON_SINK : ES_POSITIONS_SINGLE, 1.0);
    }
}

/* Pairs of query i with keys [first, last), and the sum of their scores: q_i . sum of the keys
 * (THEORY 16.1, K2). */
static void add_scores(work *w, int64_t i, int64_t first, int64_t last, int64_t distance,
                       es_positions_score what)
{
    const double *q = w->q + i * w->k, *low = w->sums + first * w->k, *high = w->sums + last * w->k;
    double *out = w->out + es_positions_score_at(&w->grid, distance, ES_POSITIONS_PAIRS);
    double sum = 0.0;
    if (last <= first)
        return;
    for (int64_t c = 0; c < w->k; c++)
        sum += q[c] * (high[c] - low[c]);
    out[what] += w->seen->scale * sum;
    if (what == ES_POSITIONS_REAL)
        out[ES_POSITIONS_PAIRS] += (double)(last - first);
}

/* Returns x limited to [low, high]. */
static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Scores by distance, and of the sinks apart. */
static void sum_scores(work *w, es_positions_score what)
{
    const int64_t windows = w->grid.windows;
    for (int64_t i = 0; i < w->n; i++) {
        const int64_t far = unseen(w, i);
        const int64_t first = far < ES_POSITIONS_SINKS ? ES_POSITIONS_SINKS : far;
        for (int64_t c = 0; c <= windows; c++) {
            const int64_t near = c ? w->grid.window[c - 1] : 0;
            const int64_t to = c < windows ? w->grid.window[c] : w->n;
            add_scores(w, i, clamp(i + 1 - to, first, i + 1), clamp(i + 1 - near, first, i + 1), c,
                       what);
        }
        add_scores(w, i, far, clamp(ES_POSITIONS_SINKS, far, i + 1), windows + 1, what);
    }
}

/* ---- spread of scores ---- */

/* Sum of squares of a query's products with the keys whose sum of squares is `c` (k, k), and with
 * their mean: their variance. */
static double variance(const double *q, const double *c, const double *low, const double *high,
                       int64_t k, double count)
{
    double square = 0.0, mean = 0.0;
    for (int64_t a = 0; a < k; a++) {
        square += q[a] * es_dot(c + a * k, q, k);
        mean += q[a] * (high[a] - low[a]);
    }
    mean /= count;
    return count > 1.0 ? fmax(square / count - mean * mean, 0.0) : 0.0;
}

/* Adds or removes one key's square in a sliding covariance. */
static void add_square(double *c, const double *key, int64_t k, double sign)
{
    for (int64_t a = 0; a < k; a++)
        for (int64_t b = 0; b < k; b++)
            c[a * k + b] += sign * key[a] * key[b];
}

/* Standard deviation q of each query's scores (THEORY 16.1, K3) and u = q/sqrt(2 ln n)
 * (THEORY 4.3): sum_j (q.k_j)^2 is q'(sum k k')q, and the sum grows by a key at a time. */
static es_status sum_deviations(work *w, es_error *err)
{
    double *c;
    ES_TRY(ES_MEM_NEW_2D(budget_of(w), c, w->k, w->k, "squares of keys", err));
    for (int64_t i = 0; i < w->n; i++) {
        const int64_t first = unseen(w, i);
        const double count = (double)(i + 1 - first);
        add_square(c, w->key + i * w->k, w->k, 1.0);
        if (first > 0)
            add_square(c, w->key + (first - 1) * w->k, w->k, -1.0);
        const double sd = w->seen->scale * sqrt(variance(w->q + i * w->k, c, w->sums + first * w->k,
                                                         w->sums + (i + 1) * w->k, w->k, count));
        const double u = count > 1.0 ? sd / sqrt(2.0 * log(count)) : 0.0;
        add(w, i, ES_POSITIONS_SCORE_SD, sd);
        add(w, i, ES_POSITIONS_FREEZING, u);
        add(w, i, ES_POSITIONS_ABOVE_ONE, u > 1.0 ? 1.0 : 0.0);
    }
    es_mem_free(budget_of(w), c);
    return ES_OK;
}

/* ---- gap counting ---- */

enum {
    GAP_QUERIES = 16, /* of a bin, spaced evenly */
    GAP_KEYS = 16     /* that the bin's first query must see */
};

/* Writes 1/L_8 of the scores of query i with all keys and without the first ones (THEORY 21); 0 if
 * 8 keys share the largest score. */
static void critical_temperatures(work *w, int64_t i, double *all, double *rest)
{
    double *scores = w->lse; /* not in use yet */
    const int64_t first = unseen(w, i), keys = i + 1 - first;
    const int64_t sinks = clamp(ES_POSITIONS_SINKS, first, i) - first;
    for (int64_t j = 0; j < keys; j++)
        scores[j] = w->seen->scale * es_dot(w->q + i * w->k, w->key + (first + j) * w->k, w->k);
    es_cap_scores(w->seen->cap, keys, scores);
    *rest = 1.0 / es_gap_count_of(scores + sinks, keys - sinks, ES_GAP_GROUP).critical;
    *all = 1.0 / es_gap_count_of(scores, keys, ES_GAP_GROUP).critical;
}

/* Adds the critical temperatures of a bin's queries: those that see from `from` keys on. */
static void sum_critical(work *w, int64_t bin, int64_t from)
{
    const int64_t places = w->grid.to[bin] + 1 - from;
    const int64_t count = places < GAP_QUERIES ? places : GAP_QUERIES;
    double all[GAP_QUERIES], rest[GAP_QUERIES];
    for (int64_t c = 0; c < count; c++) {
        const int64_t i = from - 1 + c * places / count;
        critical_temperatures(w, i, &all[c], &rest[c]);
    }
    es_sort_reals(all, count);
    es_sort_reals(rest, count);
    add(w, from - 1, ES_POSITIONS_CRITICAL, (double)places * es_median_of(all, count));
    add(w, from - 1, ES_POSITIONS_CRITICAL_REST, (double)places * es_median_of(rest, count));
}

/* Sums critical temperatures of the bins whose queries see enough keys. */
static void sum_gaps(work *w)
{
    const bool narrow = w->seen->window && w->seen->window < GAP_KEYS;
    for (int64_t bin = 1; bin < w->grid.bins && !narrow; bin++)
        if (w->grid.to[bin - 1] + 1 >= GAP_KEYS)
            sum_critical(w, bin, w->grid.to[bin - 1] + 1);
}

/* ---- horizons ---- */

/* Lower factors of the covariances of rows, (k, k). */
static es_status factor(const work *w, const double *rows, double *cov, double *l, es_error *err)
{
    const es_view x = es_view_f64(rows, w->n, w->k), c = es_view_f64(cov, w->k, w->k);
    ES_TRY(es_cov_estimate(&x, false, &w->exec, NULL, cov, err));
    return es_chol_factor(&c, 0.0, budget_of(w), l, NULL, err);
}

/* H = scale sqrt(lmax(Cq Ck)) (THEORY 16.1, K5): with C = L L' it is scale |Lq' Lk|. */
static es_status put_horizon(work *w, bool plain, es_error *err)
{
    const int64_t k = w->k, size = k * k;
    double *scratch;
    es_num norm = {0};
    ES_TRY(ES_MEM_NEW_2D(budget_of(w), scratch, 4, size, "covariances", err));
    const es_view lq = es_view_f64(scratch + size, k, k),
                  lk = es_view_f64(scratch + 2 * size, k, k);
    const es_view turned = es_view_transpose(&lq), product = es_view_f64(scratch + 3 * size, k, k);
    es_status status = factor(w, w->q, scratch, scratch + size, err);
    if (status == ES_OK)
        status = factor(w, w->key, scratch, scratch + 2 * size, err);
    if (status == ES_OK)
        status = es_mat_multiply(&turned, &lk, budget_of(w), scratch + 3 * size, err);
    if (status == ES_OK)
        status = es_norm_spectral(&product, budget_of(w), &norm, err);
    w->out[es_positions_horizon_at(&w->grid, plain)] = w->seen->scale * norm.val;
    es_mem_free(budget_of(w), scratch);
    return status;
}

/* ---- windows ---- */

/* Queries from `first` on over what `mask` leaves them: w->lse and, if wanted, w->output, from
 * place `first` on. With outputs the learned sink is one of what is left. */
static es_status attend(work *w, int64_t first, es_mask mask, bool outputs, es_error *err)
{
    const es_model_seen *s = w->seen;
    const es_view q = es_view_rows(&s->q, first, w->n - first);
    const es_attend_out out = {.lse = w->lse + first,
                               .output = outputs ? w->output + first * w->dv : NULL};
    mask.causal = true;
    mask.positions = w->positions + first;
    const es_attend_opts opts = {.precision = s->q.dtype,
                                 .scales = &s->scale,
                                 .n_scales = 1,
                                 .score_cap = s->cap,
                                 .sink = outputs ? s->sink : NULL,
                                 .mask = &mask,
                                 .exec = &w->exec};
    return es_attend(&q, &s->k, &s->v, &opts, &out, err);
}

/* Weight of what was seen in w->lse (THEORY 16.1, K1); kernels in f32 may round it above 1. */
static double mass(const work *w, int64_t i) { return fmin(exp(w->lse[i] - w->seen->lse[i]), 1.0); }

/* The last keys alone. Queries that have no others are not asked: all but the learned sink's weight
 * is on theirs. */
static es_status sum_near(work *w, es_error *err)
{
    const bool narrow = w->seen->window && w->seen->window <= ES_POSITIONS_LOCAL;
    const int64_t first = narrow ? w->n : clamp(ES_POSITIONS_LOCAL, 0, w->n);
    for (int64_t i = 0; i < first; i++)
        add(w, i, ES_POSITIONS_NEAR, 1.0 - learned(w, i));
    if (first == w->n)
        return ES_OK;
    ES_TRY(attend(w, first, (es_mask){.window = ES_POSITIONS_LOCAL}, false, err));
    for (int64_t i = first; i < w->n; i++)
        add(w, i, ES_POSITIONS_NEAR, mass(w, i));
    return ES_OK;
}

/* One window with the sinks: what it has of the weights, and how far off its outputs are. The risk
 * of a policy that leaves nothing to chance is the error itself (THEORY 13). */
static es_status sum_window(work *w, int64_t c, es_error *err)
{
    const bool all = w->seen->window && w->seen->window <= w->grid.window[c];
    const int64_t first = all ? w->n : clamp(w->grid.window[c] + w->sinks, 0, w->n);
    for (int64_t i = 0; i < first; i++)
        w->out[es_positions_mass_at(&w->grid, w->bin_of[i], c)] += 1.0;
    if (first == w->n)
        return ES_OK;
    const es_mask mask = {.window = w->grid.window[c], .sinks = w->sinks};
    ES_TRY(attend(w, first, mask, true, err));
    for (int64_t i = first; i < w->n; i++) {
        const double off = es_distance(w->output + i * w->dv, w->seen->output + i * w->dv, w->dv);
        w->out[es_positions_mass_at(&w->grid, w->bin_of[i], c)] += mass(w, i);
        w->out[es_positions_error_at(&w->grid, w->bin_of[i], c)] += off * off;
    }
    return ES_OK;
}

/* ---- all together ---- */

/* Queries and keys without the rotation; a model that has none gives no such views. */
static es_status sum_plain(work *w, es_error *err)
{
    const es_model_seen *s = w->seen;
    if (s->plain_q.data && s->plain_k.data)
        read_rows(w, &s->plain_q, &s->plain_k);
    sum_scores(w, ES_POSITIONS_PLAIN);
    return put_horizon(w, true, err);
}

/* Sums up one head: weights, spread, sinks, scores, horizon, then windows of the last keys. */
static es_status sum_up(work *w, es_error *err)
{
    ES_TRY(allocate(w, err));
    for (int64_t i = 0; i < w->grid.numbers; i++)
        w->out[i] = 0.0;
    sum_weights(w);
    sum_spread(w);
    read_rows(w, &w->seen->q, &w->seen->k);
    sum_sinks(w);
    sum_scores(w, ES_POSITIONS_REAL);
    ES_TRY(sum_deviations(w, err));
    sum_gaps(w);
    ES_TRY(put_horizon(w, false, err));
    ES_TRY(sum_near(w, err));
    for (int64_t c = 0; c < w->grid.windows; c++)
        ES_TRY(sum_window(w, c, err));
    return sum_plain(w, err);
}

es_status es_positions_head(const es_positions_spec *spec, const es_model_seen *seen,
                            const es_exec *exec, double *numbers, es_error *err)
{
    work w = {.spec = spec,
              .seen = seen,
              .exec = es_exec_quiet(exec),
              .n = spec->length,
              .k = seen->q.cols,
              .dv = seen->v.cols,
              .out = numbers};
    ES_TRY(es_positions_grid_of(spec, &w.grid, err));
    w.sinks = seen->window && seen->window < spec->length ? 0 : ES_POSITIONS_SINKS;
    ES_TRY(check_seen(&w, err));
    const es_status status = sum_up(&w, err);
    free_scratch(&w);
    return status;
}
