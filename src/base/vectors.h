/* SPDX-License-Identifier: Apache-2.0 */
/* vectors.h : inner products and distances of short vectors, summed in a fixed order. */
#ifndef ES_BASE_VECTORS_H
#define ES_BASE_VECTORS_H

#include <math.h>
#include <stdint.h>

/*! es_dot() : returns sum_i a_i b_i, summed in order. */
static inline double es_dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/*! es_dot_in_four() : returns sum_i a_i b_i in four sums, of every fourth term each. They do not
 * wait for each other, and a compiler may not make four of one. */
static inline double es_dot_in_four(const double *a, const double *b, int64_t n)
{
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/*! es_distance_squared() : returns |a - b|^2. */
static inline double es_distance_squared(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/*! es_distance() : returns |a - b|. */
static inline double es_distance(const double *a, const double *b, int64_t n)
{
    return sqrt(es_distance_squared(a, b, n));
}

#endif
