/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h : random numbers for tests, from a small generator of their own, so that a failure of
 * the module `random` cannot hide or cause one elsewhere. Set state_of_rng before use. */
#ifndef ES_NUMBERS_H
#define ES_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static uint64_t state_of_rng __attribute__((unused));

static inline double uniform(void) /* xorshift64*, (0,1) */
{
    state_of_rng ^= state_of_rng >> 12;
    state_of_rng ^= state_of_rng << 25;
    state_of_rng ^= state_of_rng >> 27;
    return ((double)((state_of_rng * UINT64_C(2685821657736338717)) >> 11) + 0.5) * 0x1p-53;
}

static inline int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)(uniform() * (double)(high - low + 1));
}

static inline double normal(void)
{
    return sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static inline double *normals(int64_t count)
{
    double *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = (double)(float)normal(); /* so that f32 and f64 views can hold the same numbers */
    return x;
}

/* Uniform with unit variance: five times faster than normals() where there are many. */
static inline double *uniforms(int64_t count)
{
    double *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = (double)(float)(3.4641016151377546 * (uniform() - 0.5));
    return x;
}

#endif
