/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_rows.c : rows of attention with something changed, against another program's output.
 *
 * Plain f64 loops over one head at a time: the fast kernels support few of the changes, and a few
 * rows are enough. Rows are computed in parallel and added in their order. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "base/vectors.h"
#include "base/view.h"
#include "experiments/measure/oracle.h"

/* ---- which rows ---- */

/* Returns the heads of the variant: swapped arrays have rows for heads. */
static int64_t heads_of(const compare_case *c, const compare_variant *v)
{
    return v->swapped ? measure_queries(c->s, 0) : c->s->heads;
}

int64_t compare_queries(const compare_case *c, const compare_variant *v)
{
    return v->swapped ? c->s->heads : measure_queries(c->s, 0);
}

/* Returns the distance from one head that is looked at to the next. */
static int64_t head_step(const compare_case *c, const compare_variant *v)
{
    enum { GLANCED = 4 };
    const int64_t heads = heads_of(c, v);
    return c->glance && heads > GLANCED ? (heads + GLANCED - 1) / GLANCED : 1;
}

double compare_row_flops(const compare_case *c)
{
    const measure_state *s = c->s;
    return (double)s->opts.prefixes[0] * (2.0 * (double)s->d + 8.0 * (double)s->dv + 20.0);
}

compare_variant compare_asked(const compare_case *c)
{
    const measure_params *p = c->s->p;
    return (compare_variant){.scale = c->s->opts.scales[0],
                             .mask = p->causal   ? (p->window ? COMPARE_WINDOW : COMPARE_CAUSAL)
                                     : p->window ? COMPARE_BAND
                                                 : COMPARE_ALL,
                             .shift = measure_shift(c->s),
                             .width = p->window,
                             .keys = c->s->opts.prefixes[0],
                             .exclude_self = c->s->opts.exclude_self,
                             .own = measure_shift(c->s),
                             .sinks = c->s->sinks,
                             .cap = c->s->opts.score_cap,
                             .factor = 1.0};
}

bool compare_as_asked(const compare_case *c, const compare_variant *v)
{
    const compare_variant asked = compare_asked(c);
    return v->mask == asked.mask && v->shift == asked.shift && v->width == asked.width &&
           v->keys == asked.keys && v->skipped == asked.skipped;
}

/* Returns row `at` of `count` that are spread evenly over `rows`. */
static int64_t spread_row(int64_t at, int64_t count, int64_t rows)
{
    return count < 2 ? rows - 1 : at * (rows - 1) / (count - 1);
}

/* ---- one head ---- */

/* A head of the variant, all of it f64, and what its rows need. */
typedef struct head_rows {
    compare_case *c;
    const compare_variant *v;
    int64_t head, keys, rows, count; /* `count` of `rows` are looked at */
    es_view q;
    double *k, *values;      /* (keys, d), (keys, dv) */
    double longest;          /* max |k| */
    double *scratch;         /* for each thread: scores (keys), q (d), o, slope, y (dv each) */
    int64_t each;            /* doubles of it */
    double *ours, *theirs;   /* (count, dv), NULL: not wanted */
    struct row_found *found; /* (count) */
} head_rows;

/* Sums over one row that decide whether two outputs agree. */
typedef struct row_found {
    bool seen; /* some key is */
    int64_t nonfinite;
    double squares, expected;
    double along, slope2, theirs_ours, ours2;
} row_found;

/* Returns a layout with heads and rows exchanged. */
static es_array_layout swap_layout(es_array_layout l)
{
    return (es_array_layout){.heads = l.rows,
                             .rows = l.heads,
                             .cols = l.cols,
                             .first = l.first,
                             .head_stride = l.row_stride,
                             .row_stride = l.head_stride};
}

/* Returns Q, K and V of a head of the variant. */
static void views_of(const compare_case *c, const compare_variant *v, int64_t head, es_view out[3])
{
    const measure_state *s = c->s;
    if (v->swapped) {
        for (int i = 0; i < 3; i++) {
            const es_array_layout l = swap_layout(s->at[i]);
            out[i] = es_array_head(&s->arrays[i], &l, head);
        }
        return;
    }
    measure_views(s, head, out);
    if (v->tiled || v->one_head) {
        const int64_t kv = v->tiled ? head % s->kv_heads : v->one_head - 1;
        es_view other[3];
        measure_views(s, kv * (s->heads / s->kv_heads), other);
        out[MEASURE_K] = other[MEASURE_K];
        out[MEASURE_V] = other[MEASURE_V];
    }
}

/* Reads their row for row i of our head. */
static void read_theirs(const head_rows *h, int64_t i, double *out)
{
    const measure_state *s = h->c->s;
    const es_array_layout *l = &s->at[MEASURE_Y];
    int64_t head = h->v->place ? h->v->place[h->head] : h->head, row = i;
    if (h->v->swapped) {
        head = i;
        row = h->head;
    } else if (h->v->swapped_output) {
        const int64_t flat = i * s->heads + h->head;
        head = flat / l->rows;
        row = flat % l->rows;
    } else if (h->v->flat_output) {
        const int64_t flat = h->head * l->rows + i;
        head = flat % l->heads;
        row = flat / l->heads;
    }
    const es_view y = es_array_head(&s->arrays[MEASURE_Y], l, head);
    es_view_read_row(&y, row, out);
}

/* Reads a row, rounded to the format if the variant rounds its inputs. */
static void read_rounded(const head_rows *h, const es_view *view, int64_t row, double *out)
{
    es_view_read_row(view, row, out);
    for (int64_t j = 0; h->v->inputs && j < view->cols; j++)
        out[j] = compare_round(h->v->inputs, out[j]);
}

/* Reads the value of key j, which may be that of another key. */
static void read_value(const head_rows *h, const es_view *values, int64_t j, double *out)
{
    const int64_t n = h->keys;
    int64_t from = j + h->v->values_by;
    if (h->v->edge == COMPARE_ZERO && (from < 0 || from >= n)) {
        memset(out, 0, (size_t)values->cols * sizeof *out);
        return;
    }
    if (h->v->edge == COMPARE_CLAMP)
        from = from < 0 ? 0 : from >= n ? n - 1 : from;
    read_rounded(h, values, (from + n) % n, out);
}

/* Copies keys and values of a head as f64. */
static es_status load_head(head_rows *h, int64_t head, es_error *err)
{
    const measure_state *s = h->c->s;
    es_view views[3];
    views_of(h->c, h->v, head, views);
    h->head = head;
    h->q = views[MEASURE_Q];
    h->longest = 0.0;
    for (int64_t j = 0; j < h->keys; j++) {
        double *k = h->k + j * s->d;
        read_rounded(h, &views[MEASURE_K], j, k);
        read_value(h, &views[MEASURE_V], j, h->values + j * s->dv);
        h->longest = fmax(h->longest, sqrt(es_dot_in_four(k, k, s->d)));
    }
    return measure_stop(&h->c->exec)
               ? es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request")
               : ES_OK;
}

/* ---- one row ---- */

/* Finds the keys [*first, *last) that query i sees. */
static void seen_by(const head_rows *h, int64_t i, int64_t *first, int64_t *last)
{
    const compare_variant *v = h->v;
    const int64_t at = i + v->shift;
    *first = 0;
    *last = h->keys;
    if (v->mask == COMPARE_WINDOW)
        *first = at - v->width + 1;
    if (v->mask == COMPARE_BAND)
        *first = at - v->width;
    if (v->mask != COMPARE_ALL)
        *last = at + 1 + (v->mask == COMPARE_BAND ? v->width : 0);
    if (v->block && at >= 0)
        *last = (at + (v->ahead ? v->block : v->whole ? 1 : 0)) / v->block * v->block;
    *first = *first < v->skipped ? v->skipped : *first;
    *last = *last > h->keys ? h->keys : *last;
}

/* Returns the score of query q and key j. */
static double score(const head_rows *h, const double *q, int64_t j)
{
    const compare_variant *v = h->v;
    const compare_format *f = h->c->format;
    const double product = es_dot_in_four(q, h->k + j * h->c->s->d, h->c->s->d);
    const double s = v->round_scores ? compare_round(f, v->scale * compare_round(f, product))
                                     : v->scale * product;
    return v->cap > 0.0 ? v->cap * tanh(s / v->cap) : s;
}

/* Returns ALiBi's slope of a head: powers of 2^(-8/p) for the largest power of two p of heads, and
 * for the rest every other power of its root. */
static double alibi_slope(int64_t head, int64_t heads)
{
    int64_t p = 1;
    while (2 * p <= heads)
        p *= 2;
    return head < p ? exp2(-8.0 * (double)(head + 1) / (double)p)
                    : exp2(-4.0 * (double)(2 * (head - p) + 1) / (double)p);
}

/* Fills scores of query i with keys [first, last), and returns the largest |score|. */
static double fill_scores(const head_rows *h, int64_t i, int64_t first, int64_t last,
                          const double *q, double *w)
{
    const double slope = h->v->alibi ? alibi_slope(h->head, h->c->s->heads) : 0.0;
    double largest = 0.0;
    for (int64_t j = first; j < last; j++) {
        w[j] = score(h, q, j) - slope * fabs((double)(i + h->v->own - j));
        largest = fmax(largest, fabs(w[j]));
    }
    return largest;
}

/* Returns the logit of the head's learned sink, -inf if it has none. */
static double sink_logit(const head_rows *h)
{
    return h->v->sinks ? h->v->sinks[h->head] : -INFINITY;
}

/* Turns scores into weights, in place; a key that is not seen has none, and the sink of the given
 * logit takes its share. *times is what they are to be multiplied with to be those of the variant's
 * norm. @return : false if no key is seen and there is no sink. */
static bool weigh(const compare_variant *v, int64_t i, int64_t first, int64_t last, double logit,
                  double *w, double *times)
{
    double most = logit, total = 0.0;
    for (int64_t j = first; j < last; j++)
        if (!(v->exclude_self && j == i + v->own))
            most = fmax(most, w[j]);
    if (most == -INFINITY)
        return false;
    for (int64_t j = first; j < last; j++) {
        w[j] = v->exclude_self && j == i + v->own ? 0.0 : exp(w[j] - most);
        total += w[j];
    }
    total += exp(logit - most) + (v->sink > 0.0 ? v->sink * exp(-most) : 0.0);
    for (int64_t j = first; j < last; j++)
        w[j] /= total;
    *times = v->factor * (v->norm == COMPARE_SUM   ? total * exp(most)
                          : v->norm == COMPARE_MAX ? total
                                                   : 1.0);
    return true;
}

/* Computes the output and its derivative by ln(scale) of weights w, whose logarithms are the scores
 * but for a constant; and what its error depends on. */
static void sum_row(const head_rows *h, int64_t first, int64_t last, const double *w, double *o,
                    double *slope, compare_row *about)
{
    const int64_t dv = h->c->s->dv;
    double mean = 0.0, spread2 = 0.0, share2 = 0.0;
    memset(o, 0, (size_t)dv * sizeof *o);
    memset(slope, 0, (size_t)dv * sizeof *slope);
    for (int64_t j = first; j < last; j++) {
        mean += w[j] > 0.0 ? w[j] * log(w[j]) : 0.0;
        for (int64_t c = 0; c < dv; c++)
            o[c] += w[j] * h->values[j * dv + c];
    }
    for (int64_t j = first; j < last; j++) {
        const double off = w[j] > 0.0 ? w[j] * (log(w[j]) - mean) : 0.0;
        double far2 = 0.0;
        for (int64_t c = 0; c < dv; c++) {
            const double away = h->values[j * dv + c] - o[c];
            far2 += away * away;
            slope[c] += off * away;
        }
        spread2 += w[j] * w[j] * far2;
        share2 += w[j] * w[j];
    }
    *about = (compare_row){.length = sqrt(es_dot_in_four(o, o, dv)),
                           .spread = sqrt(spread2),
                           .share = sqrt(share2),
                           .focus = compare_focus(-mean, last - first),
                           .keys = last - first,
                           .cols = dv};
}

/* Compares row y of theirs with our row o, times a factor. */
static void compare_row_with(const head_rows *h, const double *y, double *o, const double *slope,
                             double times, double expected, row_found *out)
{
    const int64_t dv = h->c->s->dv;
    if (h->v->row_factor)
        times = es_dot_in_four(y, o, dv) / es_dot_in_four(o, o, dv);
    *out = (row_found){.seen = true, .expected = expected * fabs(times)};
    for (int64_t c = 0; c < dv; c++) {
        o[c] *= times;
        const double off = y[c] - o[c];
        if (!isfinite(off)) {
            out->nonfinite++;
            continue;
        }
        out->squares += off * off;
        out->along += off * times * slope[c];
        out->slope2 += times * times * slope[c] * slope[c];
        out->theirs_ours += y[c] * o[c];
        out->ours2 += o[c] * o[c];
    }
}

/* ---- rows that are lost or changed at random ---- */

/* Returns whether all numbers of the row are zero. */
static bool is_zero(const double *y, int64_t count)
{
    for (int64_t c = 0; c < count; c++)
        if (y[c] != 0.0)
            return false;
    return true;
}

/* Returns whether a number of the row is not finite, or all are zero. */
static bool is_broken(const double *y, int64_t count)
{
    for (int64_t c = 0; c < count; c++)
        if (!isfinite(y[c]))
            return true;
    return is_zero(y, count);
}

es_status compare_zero_rows(compare_case *c, int64_t *count, es_error *err)
{
    const measure_state *s = c->s;
    double *y;
    *count = 0;
    ES_TRY(ES_ARENA_NEW(&c->arena, y, s->dv, "a row", err));
    for (int64_t head = 0; head < s->heads; head++) {
        const es_view rows = es_array_head(&s->arrays[MEASURE_Y], &s->at[MEASURE_Y], head);
        for (int64_t i = 0; i < measure_queries(s, 0); i++) {
            es_view_read_row(&rows, i, y);
            *count += is_zero(y, s->dv);
        }
    }
    return ES_OK;
}

/* Decides a row of a kernel that overflows: it must be lost where exp() of one of its scores
 * overflows, and may be where a sum could, or the score of a key that is masked afterwards. Returns
 * false if the row is to be compared as usual. */
static bool overflows(const head_rows *h, int64_t first, int64_t last, const double *q,
                      const double *w, const double *y, row_found *out)
{
    const double limit = h->v->overflow, margin = 3.0; /* values of up to e^3 in the numerator */
    const bool broken = is_broken(y, h->c->s->dv);
    double most = -INFINITY, reach = -INFINITY, sum = 0.0;
    for (int64_t j = first; j < last; j++)
        most = fmax(most, w[j]);
    for (int64_t j = first; j < last; j++)
        sum += exp(w[j] - most);
    for (int64_t j = 0; broken && j < h->keys; j++)
        reach = fmax(reach, score(h, q, j));
    if (broken ? fmax(most + log(sum) + margin, reach) < limit : most <= limit + 0.01)
        return false;
    *out = (row_found){.seen = true, .nonfinite = broken ? 0 : 1, .ours2 = 1.0};
    return true;
}

/* Returns the squared distance of y from the output over the keys of a set of bits, from `first`
 * on, with weights over 1 - p. */
static double subset_distance(const head_rows *h, int64_t first, unsigned set, const double *w,
                              const double *y)
{
    const int64_t dv = h->c->s->dv;
    double sum = 0.0;
    for (int64_t c = 0; c < dv; c++) {
        double o = 0.0;
        for (int64_t j = 0; set >> j; j++)
            if (set >> j & 1)
                o += w[first + j] * h->values[(first + j) * dv + c] / (1.0 - h->v->dropout);
        sum += (y[c] - o) * (y[c] - o);
    }
    return sum;
}

/* Compares a row of weights w whose dropped ones are unknown. Of up to MOST keys every set of keys
 * is tried; that no key is left of FEW or more is no sign of dropout. A row of more keys says
 * nothing, unless it is off by much more or much less than dropout does. */
static void compare_dropped(const head_rows *h, int64_t first, int64_t last, const double *w,
                            const double *o, const double *y, double expected, row_found *out)
{
    enum { MOST = 8, FEW = 3 };
    const int64_t keys = last - first, dv = h->c->s->dv;
    const double p = h->v->dropout;
    double off = 0.0, variance = 0.0;
    *out = (row_found){.expected = expected / (1.0 - p), .ours2 = es_dot_in_four(o, o, dv)};
    if (keys <= MOST) {
        out->seen = true;
        out->squares = INFINITY;
        for (unsigned set = keys < FEW ? 0 : 1; set < 1u << keys; set++)
            out->squares = fmin(out->squares, subset_distance(h, first, set, w, y));
        return;
    }
    for (int64_t c = 0; c < dv; c++)
        off += (y[c] - o[c]) * (y[c] - o[c]);
    for (int64_t j = first; j < last; j++)
        variance += w[j] * w[j] * es_dot_in_four(h->values + j * dv, h->values + j * dv, dv) * p /
                    (1.0 - p);
    out->seen = !(off <= 25.0 * variance && off >= 1e-4 * variance);
    out->nonfinite = out->seen ? 1 : 0;
}

/* What a thread computes a row in. */
typedef struct row_work {
    int64_t i; /* the row */
    double *w, *q, *o, *slope,
        *y; /* weights (keys), query (d), our output, its slope, theirs (dv) */
} row_work;

/* Compares a row with the output over keys [first, last). Returns false if there is no key, nor a
 * sink. */
static bool compare_keys(const head_rows *h, const row_work *r, int64_t first, int64_t last,
                         row_found *out)
{
    const compare_variant *v = h->v;
    compare_row about;
    double times;
    const double largest = fill_scores(h, r->i, first, last, r->q, r->w);
    if (v->overflow > 0.0 && overflows(h, first, last, r->q, r->w, r->y, out))
        return true;
    if (!weigh(v, r->i, first, last, sink_logit(h), r->w, &times))
        return false;
    sum_row(h, first, last, r->w, r->o, r->slope, &about);
    about.reach = v->scale * sqrt(es_dot_in_four(r->q, r->q, h->c->s->d)) * h->longest;
    about.stored = v->round_scores ? largest : 0.0;
    const double expected = compare_expected(v->format ? v->format : h->c->format, &about, h->c->z);
    if (v->dropout > 0.0)
        compare_dropped(h, first, last, r->w, r->o, r->y, expected, out);
    else
        compare_row_with(h, r->y, r->o, r->slope, times, expected, out);
    return true;
}

/* Compares a row whose keys the kernel misses, all of them. Zeros and NaN prove nothing: most
 * kernels write them. One that avoids them may give the query all keys up to its own, or that one
 * alone. Anything else speaks against the mistake. */
static void compare_lost(const head_rows *h, const row_work *r, row_found *out)
{
    const int64_t own = r->i + h->v->shift;
    row_found alone;
    if (is_broken(r->y, h->c->s->dv))
        return;
    *out = (row_found){.seen = true, .nonfinite = 1};
    if (own < 0 || own >= h->keys || !compare_keys(h, r, 0, own + 1, out))
        return;
    if (compare_keys(h, r, own, own + 1, &alone) && alone.squares < out->squares)
        *out = alone;
}

/* Computes and compares row `at` of those looked at. */
static es_status do_row(void *job, int64_t at, int thread, es_error *err)
{
    head_rows *h = job;
    const int64_t d = h->c->s->d, dv = h->c->s->dv;
    double *w = h->scratch + thread * h->each, *q = w + h->keys, *o = q + d;
    const row_work r = {spread_row(at, h->count, h->rows), w, q, o, o + dv, o + 2 * dv};
    int64_t first, last;
    (void)err;
    h->found[at] = (row_found){0};
    read_rounded(h, &h->q, r.i, r.q);
    read_theirs(h, r.i, r.y);
    if (h->v->zero_rows && is_zero(r.y, dv))
        return ES_OK;
    seen_by(h, r.i, &first, &last);
    if (!compare_keys(h, &r, first, last, &h->found[at])) {
        if (h->v->block || h->v->skipped)
            compare_lost(h, &r, &h->found[at]);
        return ES_OK;
    }
    if (h->ours) {
        memcpy(h->ours + at * dv, r.o, (size_t)dv * sizeof *r.o);
        memcpy(h->theirs + at * dv, r.y, (size_t)dv * sizeof *r.y);
    }
    return ES_OK;
}

/* ---- all heads ---- */

/* Allocates a matrix. */
static es_status new_matrix(es_arena *arena, int64_t rows, int64_t cols, double **out,
                            es_error *err)
{
    ES_TRY(ES_ARENA_NEW_2D(arena, *out, rows, cols, "rows to compare", err));
    return ES_OK;
}

/* Allocates what rows of a head need. */
static es_status start_rows(compare_case *c, const compare_variant *v, int64_t per_head,
                            es_arena *arena, head_rows *h, es_error *err)
{
    const int64_t d = c->s->d, dv = c->s->dv, rows = compare_queries(c, v);
    *h = (head_rows){.c = c,
                     .v = v,
                     .keys = v->swapped ? c->s->kv_heads : v->keys,
                     .rows = rows,
                     .count = per_head < rows ? per_head : rows};
    h->each = (h->keys + d + 3 * dv + 7) / 8 * 8;
    ES_TRY(new_matrix(arena, h->keys, d, &h->k, err));
    ES_TRY(new_matrix(arena, h->keys, dv, &h->values, err));
    ES_TRY(new_matrix(arena, es_parallel_threads(&c->exec, h->count), h->each, &h->scratch, err));
    ES_TRY(ES_ARENA_NEW(arena, h->found, h->count, "rows to compare", err));
    return ES_OK;
}

/* Adds the rows of a head to the sums, in their order. */
static void add_rows(const head_rows *h, compare_sum *sum)
{
    const double dv = (double)h->c->s->dv;
    for (int64_t at = 0; at < h->count; at++) {
        const row_found *f = &h->found[at];
        const double error = f->nonfinite ? (double)INFINITY : sqrt(f->squares / dv);
        if (!f->seen)
            continue;
        const double ratio = error == 0.0 ? 0.0 : isinf(error) ? error : error / f->expected;
        if (ratio > sum->ratio || sum->rows == 0) {
            sum->ratio = ratio;
            sum->expected = f->expected;
            sum->head = h->head;
            sum->row = spread_row(at, h->count, h->rows);
        }
        sum->rows++;
        sum->rounded += error >= f->expected / 50.0;
        sum->elements += h->c->s->dv;
        sum->nonfinite += f->nonfinite;
        sum->squares += f->squares;
        sum->largest = fmax(sum->largest, error);
        sum->along += f->along;
        sum->slope2 += f->slope2;
        sum->theirs_ours += f->theirs_ours;
        sum->ours2 += f->ours2;
        sum->allowed += f->expected * f->expected * dv;
    }
}

/* Computes and compares rows of all heads. */
static es_status each_head(compare_case *c, const compare_variant *v, int64_t per_head,
                           es_arena *arena, compare_sum *out, double *ours, double *theirs,
                           es_error *err)
{
    head_rows h;
    es_exec exec = c->exec;
    *out = (compare_sum){0};
    ES_TRY(start_rows(c, v, per_head, arena, &h, err));
    if ((double)h.count * compare_row_flops(c) < 2e7) /* waking threads would take longer */
        exec.threads = 1;
    for (int64_t head = 0; head < heads_of(c, v); head += head_step(c, v)) {
        ES_TRY(load_head(&h, head, err));
        h.ours = ours ? ours + head * h.count * c->s->dv : NULL;
        h.theirs = ours ? theirs + head * h.count * c->s->dv : NULL;
        ES_TRY(es_parallel_run(&exec, h.count, do_row, &h, err));
        add_rows(&h, out);
    }
    return ES_OK;
}

es_status compare_rows(compare_case *c, const compare_variant *v, int64_t per_head,
                       compare_sum *out, es_error *err)
{
    es_arena arena = {.budget = c->arena.budget};
    const es_status status = each_head(c, v, per_head, &arena, out, NULL, NULL, err);
    es_arena_free(&arena);
    return status;
}

/* Returns our row for theirs: the inverse of read_theirs(). */
static compare_place ours_for(const compare_case *c, const compare_variant *v, compare_place theirs)
{
    const int64_t heads = c->s->heads;
    compare_place ours = theirs;
    if (v->swapped)
        return (compare_place){theirs.row, theirs.head};
    if (v->swapped_output) {
        const int64_t flat = theirs.head * c->s->at[MEASURE_Y].rows + theirs.row;
        return (compare_place){flat % heads, flat / heads};
    }
    if (v->flat_output) {
        const int64_t flat = theirs.row * heads + theirs.head, rows = c->s->at[MEASURE_Y].rows;
        return (compare_place){flat / rows, flat % rows};
    }
    for (int64_t h = 0; v->place && h < heads; h++)
        if (v->place[h] == theirs.head)
            ours.head = h;
    return ours;
}

/* Computes and compares one row of ours. */
static es_status one_row(compare_case *c, const compare_variant *v, compare_place at,
                         es_arena *arena, compare_sum *out, es_error *err)
{
    head_rows h;
    ES_TRY(start_rows(c, v, 1, arena, &h, err));
    h.rows = at.row + 1; /* so that row at.row is the last one */
    ES_TRY(load_head(&h, at.head, err));
    ES_TRY(do_row(&h, 0, 0, err));
    add_rows(&h, out);
    return ES_OK;
}

es_status compare_row_at(compare_case *c, const compare_variant *v, compare_place theirs,
                         compare_sum *out, es_error *err)
{
    es_arena arena = {.budget = c->arena.budget};
    const es_status status = one_row(c, v, ours_for(c, v, theirs), &arena, out, err);
    es_arena_free(&arena);
    return status;
}

es_status compare_outputs(compare_case *c, const compare_variant *v, int64_t per_head, double *ours,
                          double *theirs, es_error *err)
{
    es_arena arena = {.budget = c->arena.budget};
    compare_sum ignored;
    const es_status status = each_head(c, v, per_head, &arena, &ignored, ours, theirs, err);
    es_arena_free(&arena);
    return status;
}

/* ---- windows ---- */

/* Adds the distances of row i from attention over ever more keys: a key is added to numerator and
 * denominator, so that all widths cost as much as one. */
static void add_widths(const head_rows *h, int64_t i, compare_growth growth, double *out)
{
    const int64_t d = h->c->s->d, dv = h->c->s->dv;
    const int64_t at = growth == COMPARE_FIRSTS  ? 0
                       : growth == COMPARE_LASTS ? h->keys - 1
                                                 : i + h->v->shift;
    const int64_t way = growth == COMPARE_FIRSTS ? 1 : -1;
    double *w = h->scratch, *q = w + h->keys, *sum = q + d, *y = sum + dv;
    double total, most = sink_logit(h), squares = 0.0;
    read_rounded(h, &h->q, i, q);
    read_theirs(h, i, y);
    memset(sum, 0, (size_t)dv * sizeof *sum);
    for (int64_t j = 0; j < h->keys; j++) {
        w[j] = score(h, q, j);
        most = fmax(most, w[j]);
    }
    total = exp(sink_logit(h) - most);
    for (int64_t step = 0; step < h->keys; step++) {
        for (int side = 0; side < (growth == COMPARE_AROUND && step ? 2 : 1); side++) {
            const int64_t j = at + (side ? step : way * step);
            if (j < 0 || j >= h->keys || (h->v->exclude_self && j == i + h->v->own))
                continue;
            const double p = exp(w[j] - most);
            total += p;
            for (int64_t c = 0; c < dv; c++)
                sum[c] += p * h->values[j * dv + c];
        }
        squares = 0.0;
        for (int64_t c = 0; c < dv; c++) {
            const double off = y[c] - (total > 0.0 ? sum[c] / total : 0.0);
            squares += off * off;
        }
        out[step] += squares;
    }
}

/* Adds up add_widths() over late rows of the heads. */
static es_status widths_in(compare_case *c, const compare_variant *v, compare_growth growth,
                           es_arena *arena, double *out, es_error *err)
{
    enum { LATE = 3 };
    head_rows h;
    ES_TRY(start_rows(c, v, LATE, arena, &h, err));
    for (int64_t head = 0; head < heads_of(c, v); head += head_step(c, v)) {
        ES_TRY(load_head(&h, head, err));
        /* late rows see most keys: only they tell wide windows apart */
        for (int64_t at = 0; at < h.count; at++)
            add_widths(&h, h.rows - 1 - at * (h.rows / 4), growth, out);
    }
    return ES_OK;
}

es_status compare_widths(compare_case *c, const compare_variant *v, compare_growth growth,
                         double *out, es_error *err)
{
    es_arena arena = {.budget = c->arena.budget};
    memset(out, 0, (size_t)v->keys * sizeof *out);
    const es_status status = widths_in(c, v, growth, &arena, out, err);
    es_arena_free(&arena);
    return status;
}
