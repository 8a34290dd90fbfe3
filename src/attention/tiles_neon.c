/* SPDX-License-Identifier: Apache-2.0 */
/* tiles_neon.c : tiles for 64-bit Arm, every one of which has NEON with FMA and 32 registers.
 *
 * A register of the template is two of the CPU's: 24 accumulators, 6 registers of A and an element
 * of B fill the 32. Twelve chains of FMAs are too few for CPUs that begin four at a time and take
 * four cycles for each. */
#include "attention/tiles.h"

#if defined(__aarch64__) || defined(ES_EMULATED)
#include <arm_neon.h>

typedef struct pair_f32 {
    float32x4_t lo, hi;
} pair_f32;

typedef struct pair_f64 {
    float64x2_t lo, hi;
} pair_f64;

/* Not left to gcc, which would see that the chains of burn() are equal. The element by which a
 * register is multiplied stays where a scalar load puts it: to copy it into every lane first takes
 * a place in the pipes that multiply. */
#ifdef __aarch64__
#define FMA_PS(c, a, b)     __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b))
#define FMA_PD(c, a, b)     __asm__("fmla %0.2d, %1.2d, %2.2d" : "+w"(c) : "w"(a), "w"(b))
#define FMA_ONE_PS(c, a, x) __asm__("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(c) : "w"(a), "w"(x))
#define FMA_ONE_PD(c, a, x) __asm__("fmla %0.2d, %1.2d, %2.d[0]" : "+w"(c) : "w"(a), "w"(x))
#else /* emulated, by a test */
#define FMA_PS(c, a, b)     ((c) = vfmaq_f32(c, a, b))
#define FMA_PD(c, a, b)     ((c) = vfmaq_f64(c, a, b))
#define FMA_ONE_PS(c, a, x) ((c) = vfmaq_f32(c, a, vdupq_n_f32(x)))
#define FMA_ONE_PD(c, a, x) ((c) = vfmaq_f64(c, a, vdupq_n_f64(x)))
#endif

/* Loads eight numbers as two registers. */
static inline pair_f32 load_f32(const float *p)
{
    return (pair_f32){vld1q_f32(p), vld1q_f32(p + 4)};
}

/* Loads four numbers as two registers. */
static inline pair_f64 load_f64(const double *p)
{
    return (pair_f64){vld1q_f64(p), vld1q_f64(p + 2)};
}

/* Stores eight numbers. */
static inline void store_f32(float *p, pair_f32 v)
{
    vst1q_f32(p, v.lo);
    vst1q_f32(p + 4, v.hi);
}

/* Stores four numbers. */
static inline void store_f64(double *p, pair_f64 v)
{
    vst1q_f64(p, v.lo);
    vst1q_f64(p + 2, v.hi);
}

/* The first `count` elements at p, of which no more are read; zeros beyond. */
static inline float32x4_t part_half_f32(const float *p, int count)
{
    if (count >= 4)
        return vld1q_f32(p);
    float32x4_t v = vdupq_n_f32(0.0f);
    if (count > 0)
        v = vld1q_lane_f32(p, v, 0);
    if (count > 1)
        v = vld1q_lane_f32(p + 1, v, 1);
    if (count > 2)
        v = vld1q_lane_f32(p + 2, v, 2);
    return v;
}

/* Loads the first `count` numbers, zeros after them. */
static inline float64x2_t part_half_f64(const double *p, int count)
{
    if (count >= 2)
        return vld1q_f64(p);
    const float64x2_t v = vdupq_n_f64(0.0);
    return count > 0 ? vld1q_lane_f64(p, v, 0) : v;
}

/* Multiplies p by 2^t: adds t to the exponent bits. */
static inline float32x4_t exp2i_f32(float32x4_t p, float32x4_t t)
{
    const int32x4_t shifted = vshlq_n_s32(vreinterpretq_s32_f32(t), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), shifted));
}

/* Multiplies p by 2^t: adds t to the exponent bits. */
static inline float64x2_t exp2i_f64(float64x2_t p, float64x2_t t)
{
    const int64x2_t shifted = vshlq_n_s64(vreinterpretq_s64_f64(t), 52);
    return vreinterpretq_f64_s64(vaddq_s64(vreinterpretq_s64_f64(p), shifted));
}

/* An operation on both halves. */
#define ON_PAIRS(name, pair, op)                                                                   \
    static inline pair name(pair a, pair b) { return (pair){op(a.lo, b.lo), op(a.hi, b.hi)}; }
ON_PAIRS(add_f32, pair_f32, vaddq_f32)
ON_PAIRS(add_f64, pair_f64, vaddq_f64)
ON_PAIRS(sub_f32, pair_f32, vsubq_f32)
ON_PAIRS(sub_f64, pair_f64, vsubq_f64)
ON_PAIRS(mul_f32, pair_f32, vmulq_f32)
ON_PAIRS(mul_f64, pair_f64, vmulq_f64)
ON_PAIRS(div_f32, pair_f32, vdivq_f32)
ON_PAIRS(div_f64, pair_f64, vdivq_f64)
ON_PAIRS(max_f32, pair_f32, vmaxnmq_f32) /* a number, where the other is NaN */
ON_PAIRS(max_f64, pair_f64, vmaxnmq_f64)
ON_PAIRS(power_f32, pair_f32, exp2i_f32)
ON_PAIRS(power_f64, pair_f64, exp2i_f64)

/* Returns a b + c with one rounding. */
static inline pair_f32 fma_f32(pair_f32 a, pair_f32 b, pair_f32 c)
{
    return (pair_f32){vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}

/* Returns a b + c with one rounding. */
static inline pair_f64 fma_f64(pair_f64 a, pair_f64 b, pair_f64 c)
{
    return (pair_f64){vfmaq_f64(c.lo, a.lo, b.lo), vfmaq_f64(c.hi, a.hi, b.hi)};
}

/* Sums each of four vectors; out (4). */
static inline void sum4_f32(pair_f32 a, pair_f32 b, pair_f32 c, pair_f32 d, float *out)
{
    const float32x4_t ab = vpaddq_f32(vaddq_f32(a.lo, a.hi), vaddq_f32(b.lo, b.hi));
    const float32x4_t cd = vpaddq_f32(vaddq_f32(c.lo, c.hi), vaddq_f32(d.lo, d.hi));
    vst1q_f32(out, vpaddq_f32(ab, cd));
}

/* Sums each of four vectors; out (4). */
static inline void sum4_f64(pair_f64 a, pair_f64 b, pair_f64 c, pair_f64 d, double *out)
{
    vst1q_f64(out, vpaddq_f64(vaddq_f64(a.lo, a.hi), vaddq_f64(b.lo, b.hi)));
    vst1q_f64(out + 2, vpaddq_f64(vaddq_f64(c.lo, c.hi), vaddq_f64(d.lo, d.hi)));
}

#define TILE_F32
#define TILE(name)     neon_f32_##name
#define REAL           float
#define WIDTH          8
#define V              pair_f32
#define V_ZERO()       ((V){vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)})
#define V_ALL(x)       ((V){vdupq_n_f32(x), vdupq_n_f32(x)})
#define V_LOAD(p)      load_f32(p)
#define V_STORE(p, v)  store_f32(p, v)
#define V_FMA(a, b, c) fma_f32(a, b, c)
#define V_FMA_INTO(c, a, b)                                                                        \
    do {                                                                                           \
        FMA_PS((c).lo, (a).lo, (b).lo);                                                            \
        FMA_PS((c).hi, (a).hi, (b).hi);                                                            \
    } while (0)
#define V_ONE     float
#define V_TAKE(x) (x)
#define V_FMA_ONE(c, a, x)                                                                         \
    do {                                                                                           \
        FMA_ONE_PS((c).lo, (a).lo, x);                                                             \
        FMA_ONE_PS((c).hi, (a).hi, x);                                                             \
    } while (0)
#define V_ADD(a, b)   add_f32(a, b)
#define V_SUB(a, b)   sub_f32(a, b)
#define V_MUL(a, b)   mul_f32(a, b)
#define V_DIV(a, b)   div_f32(a, b)
#define V_MAX(a, b)   max_f32(a, b)
#define V_EXP2I(p, t) power_f32(p, t)
#define V_LOADU(p)    load_f32(p)
#define MASK          int
#define V_MASK(count) (count)
#define V_PART(p, m)  ((V){part_half_f32(p, m), part_half_f32((p) + 4, (m)-4)})
#define V_SUM4        sum4_f32
#include "attention/tile_template.h"

#define TILE_F64
#define TILE(name)     neon_f64_##name
#define REAL           double
#define WIDTH          4
#define V              pair_f64
#define V_ZERO()       ((V){vdupq_n_f64(0.0), vdupq_n_f64(0.0)})
#define V_ALL(x)       ((V){vdupq_n_f64(x), vdupq_n_f64(x)})
#define V_LOAD(p)      load_f64(p)
#define V_STORE(p, v)  store_f64(p, v)
#define V_FMA(a, b, c) fma_f64(a, b, c)
#define V_FMA_INTO(c, a, b)                                                                        \
    do {                                                                                           \
        FMA_PD((c).lo, (a).lo, (b).lo);                                                            \
        FMA_PD((c).hi, (a).hi, (b).hi);                                                            \
    } while (0)
#define V_ONE     double
#define V_TAKE(x) (x)
#define V_FMA_ONE(c, a, x)                                                                         \
    do {                                                                                           \
        FMA_ONE_PD((c).lo, (a).lo, x);                                                             \
        FMA_ONE_PD((c).hi, (a).hi, x);                                                             \
    } while (0)
#define V_ADD(a, b)   add_f64(a, b)
#define V_SUB(a, b)   sub_f64(a, b)
#define V_MUL(a, b)   mul_f64(a, b)
#define V_DIV(a, b)   div_f64(a, b)
#define V_MAX(a, b)   max_f64(a, b)
#define V_EXP2I(p, t) power_f64(p, t)
#define V_LOADU(p)    load_f64(p)
#define MASK          int
#define V_MASK(count) (count)
#define V_PART(p, m)  ((V){part_half_f64(p, m), part_half_f64((p) + 2, (m)-2)})
#define V_SUM4        sum4_f64
#include "attention/tile_template.h"

const es_kernels es_kernels_neon[2] = {ES_TILES(neon_f32, ES_ISA_NEON, ES_F32),
                                       ES_TILES(neon_f64, ES_ISA_NEON, ES_F64)};
#endif
