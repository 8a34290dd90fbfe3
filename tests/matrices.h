/* SPDX-License-Identifier: Apache-2.0 */
/* matrices.h : matrices to test with, and what they should multiply to. */
#ifndef ES_TESTS_MATRICES_H
#define ES_TESTS_MATRICES_H

#include "testing.h"

#include <float.h>

#include <esscher/view.h>

#define EPS DBL_EPSILON

static uint64_t seed_state;

static inline double uniform(void) /* in (-1, 1); splitmix64 */
{
    uint64_t z = seed_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)(int64_t)(z ^ z >> 31) * 0x1p-63;
}

static inline double normal(void)
{
    return sqrt(-2.0 * log(0.5 + 0.5 * uniform() + 0x1p-60)) * cos(3.14159265358979 * uniform());
}

/* A (rows, cols) matrix of normals that the test frees. */
static inline double *normals(uint64_t seed, int64_t rows, int64_t cols)
{
    double *x = malloc((size_t)(rows * cols) * sizeof *x);
    assert_non_null(x);
    seed_state = seed;
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = normal();
    return x;
}

static inline double *zeros(int64_t rows, int64_t cols)
{
    double *x = calloc((size_t)(rows * cols), sizeof *x);
    assert_non_null(x);
    return x;
}

/* max |a b - c| over all elements, summed in long double. a (m, k), b (k, n), as views. */
static inline double product_error(es_view a, es_view b, es_view c)
{
    double worst = 0.0;
    for (int64_t i = 0; i < c.rows; i++) {
        for (int64_t j = 0; j < c.cols; j++) {
            long double sum = 0.0L;
            for (int64_t l = 0; l < a.cols; l++)
                sum += (long double)es_view_get(&a, i, l) * es_view_get(&b, l, j);
            worst = fmax(worst, fabs((double)(sum - (long double)es_view_get(&c, i, j))));
        }
    }
    return worst;
}

static inline double *identity(int64_t d)
{
    double *x = zeros(d, d);
    for (int64_t i = 0; i < d; i++)
        x[i * d + i] = 1.0;
    return x;
}

/* The second difference matrix (2 on the diagonal, -1 beside it): eigenvalues
 * 2 - 2 cos(pi j/(d + 1)), j = 1..d, crowded at both ends. */
static inline double *second_difference(int64_t d)
{
    double *x = zeros(d, d);
    for (int64_t i = 0; i < d; i++) {
        x[i * d + i] = 2.0;
        if (i > 0)
            x[i * d + i - 1] = x[(i - 1) * d + i] = -1.0;
    }
    return x;
}

static inline double *hilbert(int64_t d)
{
    double *x = zeros(d, d);
    for (int64_t i = 0; i < d * d; i++)
        x[i] = 1.0 / (double)(i / d + i % d + 1);
    return x;
}

/* g g'/cols of a (d, cols) matrix g: positive semidefinite, of rank <= cols. */
static inline double *wishart(uint64_t seed, int64_t d, int64_t cols)
{
    double *g = normals(seed, d, cols), *a = zeros(d, d);
    for (int64_t i = 0; i < d; i++) {
        for (int64_t j = 0; j < d; j++) {
            for (int64_t l = 0; l < cols; l++)
                a[i * d + j] += g[i * cols + l] * g[j * cols + l] / (double)cols;
        }
    }
    free(g);
    return a;
}

#endif
