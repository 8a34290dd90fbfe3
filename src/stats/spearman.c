/* SPDX-License-Identifier: Apache-2.0 */
/* spearman.c : rank correlation within groups. Ranks are centred in each group, so that
 * differences between groups do not count as correlation. */
#include "stats/spearman.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "stats/special.h"

/* A value and where it stood. */
typedef struct place {
    double value;
    int64_t at;
} place;

/* Compares two places by value, then by number, for qsort(). */
static int by_value(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Ranks from 1 on, ties sharing the mean of theirs. */
static void rank(const double *x, int64_t n, place *places, double *out)
{
    for (int64_t i = 0; i < n; i++)
        places[i] = (place){x[i], i};
    qsort(places, (size_t)n, sizeof *places, by_value);
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && places[end].value == places[i].value;)
            end++;
        for (int64_t j = i; j < end; j++)
            out[places[j].at] = 0.5 * (double)(i + 1 + end);
    }
}

/* Ranks, less the mean of their group. @return : how many groups there are. */
static int64_t centre(double *ranks, const int64_t *groups, int64_t n)
{
    int64_t last = 0, found = 0;
    for (int64_t i = 0; groups && i < n; i++)
        last = groups[i] > last ? groups[i] : last;
    for (int64_t g = 0; g <= last; g++) {
        double sum = 0.0, count = 0.0;
        for (int64_t i = 0; i < n; i++)
            if (!groups || groups[i] == g) {
                sum += ranks[i];
                count += 1.0;
            }
        for (int64_t i = 0; i < n; i++)
            if (!groups || groups[i] == g)
                ranks[i] -= sum / count;
        found += count > 0.0;
    }
    return found;
}

/* Returns the correlation of two columns of ranks and its interval by Fisher's z; each group
 * costs one degree of freedom. */
static es_spearman correlate(const double *a, const double *b, int64_t n, int64_t groups)
{
    const double freedom = (double)(n - groups - 1);
    double aa = 0.0, bb = 0.0, ab = 0.0;
    es_spearman out = {.count = n, .value = NAN, .low = NAN, .high = NAN, .p = NAN};
    for (int64_t i = 0; i < n; i++) {
        aa += a[i] * a[i];
        bb += b[i] * b[i];
        ab += a[i] * b[i];
    }
    /* ranks are halves of whole numbers, so that 0 is 0; means of groups may leave some rounding */
    if (freedom < 2.0 || aa < 1e-9 || bb < 1e-9)
        return out;
    out.value = fmax(-1.0, fmin(1.0, ab / sqrt(aa * bb)));
    const double r = out.value, rest = 1.0 - r * r;
    const double half = 1.959963984540054 * sqrt((1.0 + r * r / 2.0) / (freedom - 1.0));
    out.low = rest > 0.0 ? tanh(atanh(r) - half) : r;
    out.high = rest > 0.0 ? tanh(atanh(r) + half) : r;
    out.p = rest > 0.0 ? 2.0 * es_student_tail(freedom, fabs(r) * sqrt(freedom / rest)) : 0.0;
    return out;
}

es_status es_spearman_of(const double *x, const double *y, const int64_t *groups, int64_t count,
                         es_mem_limit *budget, es_spearman *out, es_error *err)
{
    es_arena arena = {.budget = budget};
    double *ranks;
    place *places;
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i]) || !isfinite(y[i]))
            return es_fail_at(err, ES_E_NONFINITE, i, -1, "spearman.finite", "leave it out",
                              "pair %lld is not finite", (long long)i);
    es_status status = ES_ARENA_NEW(&arena, places, count, "values to sort", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW_2D(&arena, ranks, count, 2, "ranks", err);
    if (status == ES_OK) {
        double *a = ranks, *b = a + count;
        rank(x, count, places, a);
        rank(y, count, places, b);
        const int64_t found = centre(a, groups, count);
        centre(b, groups, count);
        *out = correlate(a, b, count, found);
    }
    es_arena_free(&arena);
    return status;
}
