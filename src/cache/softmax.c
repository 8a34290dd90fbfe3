/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.c : weights of one query's keys. */
#include "cache/softmax.h"

#include <math.h>

#include "stats/weigh.h"

/* Returns the largest of w (count). */
static double largest(const double *w, int64_t count)
{
    double most = w[0];
    for (int64_t j = 1; j < count; j++)
        most = w[j] > most ? w[j] : most;
    return most;
}

/* A sink beside weights that sum to 1: its weight over theirs is e^(sink - lse), and the largest
 * weight is e^(top - lse). */
static void add_sink(double sink, double top, double *w, int64_t count)
{
    const double rest = exp(fmin(sink - top, 700.0)) * largest(w, count);
    for (int64_t j = 0; j < count; j++)
        w[j] /= 1.0 + rest;
}

/* Returns product j of a row. */
static double product_at(es_dtype dtype, const void *products, int64_t j)
{
    return dtype == ES_F32 ? (double)((const float *)products)[j] : ((const double *)products)[j];
}

/* A key that is hidden stays so: a cap would make -inf finite. */
void es_softmax_row(const es_softmax *s, es_dtype dtype, const void *products, int64_t count,
                    double *w)
{
    for (int64_t j = 0; j < count; j++)
        w[j] = s->scale * product_at(dtype, products, j);
    es_cap_scores(s->cap, count, w);
    for (int64_t j = 0; s->cap > 0.0 && j < count; j++)
        if (product_at(dtype, products, j) == -(double)INFINITY)
            w[j] = -(double)INFINITY;
    const double top = largest(w, count);
    es_weigh(w, count, w);
    if (s->sink > -(double)INFINITY)
        add_sink(s->sink, top, w, count);
}

es_softmax_found es_softmax_look(const double *w, int64_t count)
{
    es_softmax_found found = {0};
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++) {
        sum += w[j];
        found.entropy -= w[j] > 0.0 ? w[j] * log(w[j]) : 0.0;
        found.sum_squares += w[j] * w[j];
        found.top_weight = w[j] > found.top_weight ? w[j] : found.top_weight;
    }
    const double sink = 1.0 - sum;
    if (sink > 1e-15 * (double)count) { /* not rounding */
        found.entropy -= sink * log(sink);
        found.sum_squares += sink * sink;
        found.top_weight = sink > found.top_weight ? sink : found.top_weight;
    }
    return found;
}
