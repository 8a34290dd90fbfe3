/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_row.c : one row of one head of attention with something changed, against another program's
 * output, in plain f64 loops. */
#include "experiments/measure/oracle_row.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/vectors.h"
#include "base/view.h"

/* ---- a head ---- */

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

void compare_read_theirs(const compare_head_rows *h, int64_t i, double *out)
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
static void read_rounded(const compare_head_rows *h, const es_view *view, int64_t row, double *out)
{
    es_view_read_row(view, row, out);
    for (int64_t j = 0; h->v->inputs && j < view->cols; j++)
        out[j] = compare_round(h->v->inputs, out[j]);
}

void compare_read_query(const compare_head_rows *h, int64_t i, double *out)
{
    read_rounded(h, &h->q, i, out);
}

/* Reads the value of key j, which may be that of another key. */
static void read_value(const compare_head_rows *h, const es_view *values, int64_t j, double *out)
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

es_status compare_load_head(compare_head_rows *h, int64_t head, es_error *err)
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

void compare_seen_by(const compare_head_rows *h, int64_t i, int64_t *first, int64_t *last)
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

double compare_score(const compare_head_rows *h, const double *q, int64_t j)
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
static double fill_scores(const compare_head_rows *h, int64_t i, int64_t first, int64_t last,
                          const double *q, double *w)
{
    const double slope = h->v->alibi ? alibi_slope(h->head, h->c->s->heads) : 0.0;
    double largest = 0.0;
    for (int64_t j = first; j < last; j++) {
        w[j] = compare_score(h, q, j) - slope * fabs((double)(i + h->v->own - j));
        largest = fmax(largest, fabs(w[j]));
    }
    return largest;
}

double compare_sink_logit(const compare_head_rows *h)
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
static void sum_row(const compare_head_rows *h, int64_t first, int64_t last, const double *w,
                    double *o, double *slope, compare_row *about)
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
static void compare_row_with(const compare_head_rows *h, const double *y, double *o,
                             const double *slope, double times, double expected,
                             compare_row_found *out)
{
    const int64_t dv = h->c->s->dv;
    if (h->v->row_factor)
        times = es_dot_in_four(y, o, dv) / es_dot_in_four(o, o, dv);
    *out = (compare_row_found){.seen = true, .expected = expected * fabs(times)};
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

bool compare_over_keys(const compare_head_rows *h, const compare_row_work *r, int64_t first,
                       int64_t last, compare_row_found *out)
{
    const compare_variant *v = h->v;
    compare_row about;
    double times;
    const double largest = fill_scores(h, r->i, first, last, r->q, r->w);
    if (v->overflow > 0.0 && compare_overflow_row(h, first, last, r->q, r->w, r->y, out))
        return true;
    if (!weigh(v, r->i, first, last, compare_sink_logit(h), r->w, &times))
        return false;
    sum_row(h, first, last, r->w, r->o, r->slope, &about);
    about.reach = v->scale * sqrt(es_dot_in_four(r->q, r->q, h->c->s->d)) * h->longest;
    about.stored = v->round_scores ? largest : 0.0;
    const double expected = compare_expected(v->format ? v->format : h->c->format, &about, h->c->z);
    if (v->dropout > 0.0)
        compare_dropped_row(h, first, last, r->w, r->o, r->y, expected, out);
    else
        compare_row_with(h, r->y, r->o, r->slope, times, expected, out);
    return true;
}
