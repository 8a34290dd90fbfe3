/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.h : weights of the keys of one query, in f64, from products in the model's precision. */
#ifndef ES_CACHE_SOFTMAX_H
#define ES_CACHE_SOFTMAX_H

#include <stdint.h>

#include <esscher/view.h>

/* How products become weights: scores are scale * product, capped, and a sink is one more outcome
 * of value 0. */
typedef struct es_softmax {
    double scale, cap; /* cap 0: none */
    double sink;       /* -inf: none */
} es_softmax;

/* What a query's weights are like. */
typedef struct es_softmax_found {
    double entropy, top_weight, sum_squares; /* the sink counts as a key */
} es_softmax_found;

/*! es_softmax_row() : w (count) from products (count) of `dtype`; a product of -inf has the weight
 *  0, and one at least is above. */
void es_softmax_row(const es_softmax *s, es_dtype dtype, const void *products, int64_t count,
                    double *w);

/*! es_softmax_look() : statistics of weights w (count) and of the sink. */
es_softmax_found es_softmax_look(const double *w, int64_t count);

#endif
