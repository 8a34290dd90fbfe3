/* SPDX-License-Identifier: Apache-2.0 */
/* lanes_text.h : loops over keys that each_text.h and far_text.h share. They are compiled with
 * these, once per instruction set. */
#ifndef ES_RISK_LANES_TEXT_H
#define ES_RISK_LANES_TEXT_H

#include <stdint.h>

#include "random/elementary.h"

enum {
    LANES = 8,         /* of sums, whose order is fixed */
    CHUNK = 8 * LANES, /* keys: their numbers stay in the first cache */
    KEYS = 4,          /* whose values are added together */
};

/* Computes x = e^{t + s} where e^{-x} is neither 1 nor 0 in f64; elsewhere x is 0 or e^9. */
static void begin_chunk(const double *s, double t, int64_t count, double *x)
{
    for (int64_t j = 0; j < count; j++) {
        const double log_x = t + s[j];
        const double most = log_x > 9.0 ? 9.0 : log_x, in = most < -708.0 ? -708.0 : most;
        const double e = es_exp_normal(in);
        x[j] = log_x < -708.0 ? 0.0 : e;
    }
}

/* Adds the values of KEYS keys, times their coefficients at two steps, which stay in registers. */
static void mix_two(const double *u, int64_t width, const double *a, const double *b,
                    double *restrict to, double *restrict also)
{
    const double *u0 = u, *u1 = u + width, *u2 = u + 2 * width, *u3 = u + 3 * width;
    for (int64_t l = 0; l < width; l++) {
        to[l] += (a[0] * u0[l] + a[1] * u1[l]) + (a[2] * u2[l] + a[3] * u3[l]);
        also[l] += (b[0] * u0[l] + b[1] * u1[l]) + (b[2] * u2[l] + b[3] * u3[l]);
    }
}

/* Adds up the lanes in order. */
static double sum_of(const double *lane)
{
    double sum = 0.0;
    for (int64_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

#endif
