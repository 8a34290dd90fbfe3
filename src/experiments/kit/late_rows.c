/* SPDX-License-Identifier: Apache-2.0 */
/* late_rows.c : rows of a unit as a cache holds them, scores of late queries over them, and what
 * rounding does to outputs (THEORY 18). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/late_inside.h"
#include "linalg/dense.h"
#include "stats/weigh.h"

/* ---- rows ---- */

/* Returns the largest number that the layer's rows hold, for a format with one scale for all. */
static double peak_of(const es_late_work *w, int side, const es_kv_format *format)
{
    const es_view *rows = side ? w->layer->v : w->layer->k;
    double peak = 0.0;
    for (int64_t u = 0; format->scale_of_tensor && u < w->layer->config->kv_heads; u++)
        peak = fmax(peak, es_kv_peak(format, &rows[u]));
    return peak;
}

/* Copies the rows of unit u to where the cache holds them; returns them. */
static es_view copy_rows(const es_late_work *w, int side, int64_t u)
{
    const es_view *from = side ? &w->layer->v[u] : &w->layer->k[u];
    const int64_t item = (int64_t)es_dtype_size(w->dtype), row = w->d * item;
    char *to = w->held[side] + (w->joint ? u : 0) * w->n * row;
    for (int64_t i = 0; i < w->n; i++)
        memcpy(to + i * row, (const char *)from->data + i * from->row_stride, (size_t)row);
    return (es_view){to, w->dtype, w->n, w->d, row, item};
}

/* Reads rows as f64. */
static void widen(const es_view *rows, double *to)
{
    for (int64_t i = 0; i < rows->rows; i++)
        es_view_read_row(rows, i, to + i * rows->cols);
}

/* Holds keys or values. */
static void hold_side(es_late_work *w, int side, const es_kv_format *format)
{
    const double peak = peak_of(w, side, format);
    es_late_side *s = &w->side[side];
    s->format = format;
    if (es_kv_format_by_query(format)) {
        const es_view fine = copy_rows(w, side, w->unit);
        es_kv_round_fine(format, &fine);
        widen(&fine, s->fine);
    }
    for (int64_t u = 0; u < w->layer->config->kv_heads; u++) {
        w->views[side][u] = side ? w->layer->v[u] : w->layer->k[u];
        if (u != w->unit && !w->joint)
            continue;
        w->views[side][u] = copy_rows(w, side, u);
        es_kv_round(format, (es_kv_side)side, peak, &w->views[side][u]);
    }
    widen(&w->views[side][w->unit], s->rows);
}

void es_late_hold(es_late_work *w, int64_t type)
{
    const es_late_types *types = &w->spec->types[type];
    hold_side(w, ES_KV_KEYS, &types->k);
    hold_side(w, ES_KV_VALUES, &types->v);
    for (int64_t h = 0; h < w->layer->config->heads; h++)
        w->heads[h].k = w->views[ES_KV_KEYS][h / w->each];
}

/* Returns how many places query i finds coarse. */
static int64_t coarse_of(const es_late_side *side, es_kv_side which, int64_t i)
{
    if (!es_kv_format_by_query(side->format))
        return i + 1;
    const int64_t count = es_kv_coarse_places(side->format, which, i);
    return count < i + 1 ? count : i + 1;
}

/* ---- scores ---- */

/* Scores (rows, keys) of the chunk over keys k: scaled, capped, -inf where a query does not see. */
static void score_rows(const es_late_work *w, const double *k, double *scores)
{
    const int64_t rows = w->count * w->each, window = w->layer->window;
    const es_view q = es_view_f64(w->q + w->first * w->each * w->d, rows, w->d);
    const es_view keys = es_view_f64((double *)(uintptr_t)k, w->keys, w->d);
    es_gemm_views(&q, &keys, scores, w->keys);
    for (int64_t i = 0; i < rows * w->keys; i++)
        scores[i] *= w->layer->scale;
    es_cap_scores(w->layer->cap, rows * w->keys, scores);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t end = es_late_place(w, r) + 1;
        const int64_t begin = window && end > window ? end - window : 0;
        for (int64_t j = 0; j < begin; j++)
            scores[r * w->keys + j] = -(double)INFINITY;
        for (int64_t j = end; j < w->keys; j++)
            scores[r * w->keys + j] = -(double)INFINITY;
    }
}

/* Weights of every row of the chunk from its scores; a sink takes its part. */
static void weigh_rows(const es_late_work *w, const double *scores, double *weights)
{
    for (int64_t r = 0; r < w->count * w->each; r++)
        es_weigh_beside(es_late_row_sink(w, r), scores + r * w->keys, w->keys,
                        weights + r * w->keys);
}

void es_late_chunk(es_late_work *w, int64_t first)
{
    const int64_t left = w->spec->n_queries - first;
    w->first = first;
    w->count = left < ES_LATE_CHUNK ? left : ES_LATE_CHUNK;
    w->keys = w->spec->queries[first + w->count - 1] + 1;
    score_rows(w, w->k, w->full_scores);
    weigh_rows(w, w->full_scores, w->full_weights);
}

void es_late_scores(es_late_work *w)
{
    const es_late_side *k = &w->side[ES_KV_KEYS];
    score_rows(w, k->rows, w->scores);
    if (!es_kv_format_by_query(k->format))
        return;
    score_rows(w, k->fine, w->other);
    for (int64_t r = 0; r < w->count * w->each; r++) {
        const int64_t split = coarse_of(k, ES_KV_KEYS, es_late_place(w, r));
        memcpy(w->scores + r * w->keys + split, w->other + r * w->keys + split,
               (size_t)(w->keys - split) * sizeof(double));
    }
}

/* ---- outputs with every key kept ---- */

/* out (rows, d) = weights (rows, keys) times values. */
static void mix(const es_late_work *w, const double *weights, const double *values, double *out)
{
    const es_view v = es_view_f64((double *)(uintptr_t)values, w->keys, w->d);
    es_gemm_mix(weights, w->count * w->each, &v, out);
}

void es_late_full(es_late_work *w)
{
    const int64_t rows = w->count * w->each, at = w->first * w->each;
    mix(w, w->full_weights, w->v, w->out->full + at * w->d);
    for (int64_t r = 0; w->out->full_lse && r < rows; r++) {
        const double *s = w->full_scores + r * w->keys;
        const double sink = es_late_row_sink(w, r);
        double most = sink, sum = 0.0;
        for (int64_t j = 0; j < w->keys; j++)
            most = s[j] > most ? s[j] : most;
        for (int64_t j = 0; j < w->keys; j++)
            sum += exp(s[j] - most);
        w->out->full_lse[at + r] = most + log(sum + exp(sink - most));
    }
}

/* Adds what weights of places that are held fine give. */
static void mix_fine(es_late_work *w, double *out)
{
    const es_late_side *v = &w->side[ES_KV_VALUES];
    memset(w->other, 0, (size_t)(w->count * w->each * w->keys) * sizeof(double));
    for (int64_t r = 0; r < w->count * w->each; r++) {
        const int64_t split = coarse_of(v, ES_KV_VALUES, es_late_place(w, r));
        for (int64_t j = split; j < w->keys; j++) {
            w->other[r * w->keys + j] = w->weights[r * w->keys + j];
            w->weights[r * w->keys + j] = 0.0;
        }
    }
    mix(w, w->other, v->fine, w->partial);
    mix(w, w->weights, v->rows, out);
    for (int64_t i = 0; i < w->count * w->each * w->d; i++)
        out[i] += w->partial[i];
}

/* Returns |a - b|^2. */
static double apart2(const double *a, const double *b, int64_t d)
{
    double sum = 0.0;
    for (int64_t c = 0; c < d; c++)
        sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
}

/* Computes what rounding does to row r, whose outputs are y and, rounded, z. */
static es_late_rounding round_row(const es_late_work *w, int64_t r, const double *y,
                                  const double *z)
{
    const es_late_side *v = &w->side[ES_KV_VALUES];
    const int64_t i = es_late_place(w, r), split = coarse_of(v, ES_KV_VALUES, i);
    const double *weight = w->full_weights + r * w->keys;
    es_late_rounding out = {.square = apart2(y, z, w->d)};
    for (int64_t j = 0; j <= i; j++) {
        if (weight[j] == 0.0)
            continue;
        const double ds = w->scores[r * w->keys + j] - w->full_scores[r * w->keys + j];
        const double *value = w->v + j * w->d;
        const double away = apart2(value, y, w->d), square = weight[j] * weight[j];
        const double dv = apart2(value, (j < split ? v->rows : v->fine) + j * w->d, w->d);
        out.first_order += square * (ds * ds * away + dv);
        out.noise2 += weight[j] * ds * ds;
        out.shift += weight[j] * ds;
        out.keys += square * away;
        out.values += square * dv;
    }
    return out;
}

void es_late_rounded(es_late_work *w, int64_t type)
{
    const int64_t rows = w->count * w->each;
    const int64_t from = w->first * w->each, at = type * w->spec->n_queries * w->each + from;
    double *out = w->out->rounded + at * w->d;
    weigh_rows(w, w->scores, w->weights);
    if (es_kv_format_by_query(w->side[ES_KV_VALUES].format))
        mix_fine(w, out);
    else
        mix(w, w->weights, w->side[ES_KV_VALUES].rows, out);
    for (int64_t r = 0; w->out->rounding && r < rows; r++)
        w->out->rounding[at + r] =
            round_row(w, r, w->out->full + (from + r) * w->d, out + r * w->d);
}
