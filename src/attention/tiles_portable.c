/* SPDX-License-Identifier: Apache-2.0 */
/* tiles_portable.c : tiles for any CPU, in the vector extension of gcc and clang: 16-byte
 * registers, which every 64-bit machine has, multiply and add rounded separately. */
#include "attention/tiles.h"

#include <string.h>

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef double v2d __attribute__((vector_size(16)));
typedef int64_t v2l __attribute__((vector_size(16)));

/* b where a is NaN, else the larger: comparisons give all-ones or all-zeros masks. */
static inline v4f max_v4f(v4f a, v4f b)
{
    const v4i mask = a > b;
    return (v4f)(((v4i)a & mask) | ((v4i)b & ~mask));
}

/* Returns the larger of each pair of elements. */
static inline v2d max_v2d(v2d a, v2d b)
{
    const v2l mask = a > b;
    return (v2d)(((v2l)a & mask) | ((v2l)b & ~mask));
}

/* Loads a vector from any address. */
static inline v4f loadu_v4f(const float *p)
{
    v4f v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Loads a vector from any address. */
static inline v2d loadu_v2d(const double *p)
{
    v2d v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Loads the first `count` numbers, zeros after them. */
static inline v4f part_v4f(const float *p, int count)
{
    float x[4] = {0};
    for (int i = 0; i < count; i++)
        x[i] = p[i];
    return loadu_v4f(x);
}

/* Loads the first `count` numbers, zeros after them. */
static inline v2d part_v2d(const double *p, int count)
{
    return (v2d){count > 0 ? p[0] : 0.0, count > 1 ? p[1] : 0.0};
}

/* Sums a vector in a fixed order. */
static inline float sum_v4f(v4f a) { return (a[0] + a[2]) + (a[1] + a[3]); }

/* Sums each of four vectors; out (4). */
static inline void sum4_v4f(v4f a, v4f b, v4f c, v4f d, float *out)
{
    const float sums[4] = {sum_v4f(a), sum_v4f(b), sum_v4f(c), sum_v4f(d)};
    memcpy(out, sums, sizeof sums);
}

/* Sums each of four vectors; out (4). */
static inline void sum4_v2d(v2d a, v2d b, v2d c, v2d d, double *out)
{
    const double sums[4] = {a[0] + a[1], b[0] + b[1], c[0] + c[1], d[0] + d[1]};
    memcpy(out, sums, sizeof sums);
}

#define TILE_F32
#define TILE(name)          portable_f32_##name
#define REAL                float
#define WIDTH               4
#define V                   v4f
#define V_ZERO()            ((v4f){0})
#define V_ALL(x)            ((v4f){(x), (x), (x), (x)})
#define V_LOAD(p)           (*(const v4f *)(p))
#define V_STORE(p, v)       (*(v4f *)(p) = (v))
#define V_FMA(a, b, c)      ((a) * (b) + (c))
#define V_FMA_INTO(c, a, b) ((c) += (a) * (b))
#define V_ADD(a, b)         ((a) + (b))
#define V_SUB(a, b)         ((a) - (b))
#define V_MUL(a, b)         ((a) * (b))
#define V_DIV(a, b)         ((a) / (b))
#define V_MAX(a, b)         max_v4f(a, b)
#define V_EXP2I(p, t)       ((v4f)((v4i)(p) + ((v4i)(t) << 23)))
#define V_LOADU(p)          loadu_v4f(p)
#define MASK                int
#define V_MASK(count)       (count)
#define V_PART(p, m)        part_v4f(p, m)
#define V_SUM4              sum4_v4f
#include "attention/tile_template.h"

#define TILE_F64
#define TILE(name)          portable_f64_##name
#define REAL                double
#define WIDTH               2
#define V                   v2d
#define V_ZERO()            ((v2d){0})
#define V_ALL(x)            ((v2d){(x), (x)})
#define V_LOAD(p)           (*(const v2d *)(p))
#define V_STORE(p, v)       (*(v2d *)(p) = (v))
#define V_FMA(a, b, c)      ((a) * (b) + (c))
#define V_FMA_INTO(c, a, b) ((c) += (a) * (b))
#define V_ADD(a, b)         ((a) + (b))
#define V_SUB(a, b)         ((a) - (b))
#define V_MUL(a, b)         ((a) * (b))
#define V_DIV(a, b)         ((a) / (b))
#define V_MAX(a, b)         max_v2d(a, b)
#define V_EXP2I(p, t)       ((v2d)((v2l)(p) + ((v2l)(t) << 52)))
#define V_LOADU(p)          loadu_v2d(p)
#define MASK                int
#define V_MASK(count)       (count)
#define V_PART(p, m)        part_v2d(p, m)
#define V_SUM4              sum4_v2d
#include "attention/tile_template.h"

const es_kernels es_kernels_portable[2] = {ES_TILES(portable_f32, ES_ISA_PORTABLE, ES_F32),
                                           ES_TILES(portable_f64, ES_ISA_PORTABLE, ES_F64)};
