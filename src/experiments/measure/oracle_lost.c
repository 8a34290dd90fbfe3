/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_lost.c : rows of an output that are lost or changed at random: zeros and NaN, rows whose
 * scores overflow or whose keys a kernel misses, dropout. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/vectors.h"
#include "base/view.h"
#include "experiments/measure/oracle_row.h"

bool compare_is_zero(const double *y, int64_t count)
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
    return compare_is_zero(y, count);
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
            *count += compare_is_zero(y, s->dv);
        }
    }
    return ES_OK;
}

bool compare_overflow_row(const compare_head_rows *h, int64_t first, int64_t last, const double *q,
                          const double *w, const double *y, compare_row_found *out)
{
    const double limit = h->v->overflow, margin = 3.0; /* values of up to e^3 in the numerator */
    const bool broken = is_broken(y, h->c->s->dv);
    double most = -INFINITY, reach = -INFINITY, sum = 0.0;
    for (int64_t j = first; j < last; j++)
        most = fmax(most, w[j]);
    for (int64_t j = first; j < last; j++)
        sum += exp(w[j] - most);
    for (int64_t j = 0; broken && j < h->keys; j++)
        reach = fmax(reach, compare_score(h, q, j));
    if (broken ? fmax(most + log(sum) + margin, reach) < limit : most <= limit + 0.01)
        return false;
    *out = (compare_row_found){.seen = true, .nonfinite = broken ? 0 : 1, .ours2 = 1.0};
    return true;
}

/* Returns the squared distance of y from the output over the keys of a set of bits, from `first`
 * on, with weights over 1 - p. */
static double subset_distance(const compare_head_rows *h, int64_t first, unsigned set,
                              const double *w, const double *y)
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

void compare_dropped_row(const compare_head_rows *h, int64_t first, int64_t last, const double *w,
                         const double *o, const double *y, double expected, compare_row_found *out)
{
    enum { MOST = 8, FEW = 3 };
    const int64_t keys = last - first, dv = h->c->s->dv;
    const double p = h->v->dropout;
    double off = 0.0, variance = 0.0;
    *out = (compare_row_found){.expected = expected / (1.0 - p), .ours2 = es_dot_in_four(o, o, dv)};
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

void compare_lost_row(const compare_head_rows *h, const compare_row_work *r, compare_row_found *out)
{
    const int64_t own = r->i + h->v->shift;
    compare_row_found alone;
    if (is_broken(r->y, h->c->s->dv))
        return;
    *out = (compare_row_found){.seen = true, .nonfinite = 1};
    if (own < 0 || own >= h->keys || !compare_over_keys(h, r, 0, own + 1, out))
        return;
    if (compare_over_keys(h, r, own, own + 1, &alone) && alone.squares < out->squares)
        *out = alone;
}
