/* SPDX-License-Identifier: Apache-2.0 */
/* tile_template.h : the tiles of kernels.h, written once for every CPU and both precisions.
 *
 * The including file defines
 *     TILE(name)              name of a function of this instance
 *     REAL, WIDTH             float or double; elements per register
 *     V                       register type
 *     V_ZERO() V_ALL(x)       every element 0; every element x
 *     V_LOAD(p) V_STORE(p, v) aligned
 *     V_FMA(a, b, c)          a*b + c
 *     V_ADD V_SUB V_MUL V_DIV V_MAX arithmetic; V_MAX(a, b) is b when a is NaN
 *     V_EXP2I(p, t)           p * 2^n, p in [0.7, 1.42], t = n + V_MAGIC: n added to exponent bits
 *     V_ROUND(x) V_SCALE(p, n, x)   instead of that, where a CPU has them: the nearest integer; and
 *                             p * 2^n, exactly 0 where x is NaN or 2^x would be no normal number
 *     V_FMA_INTO(c, a, b)     c += a*b where c never moves: left to itself, gcc 12 destroys b
 *                             instead and spills c, which costs a quarter of the speed
 *     V_ONE V_TAKE(x) V_FMA_ONE(c, a, one)   where a CPU multiplies by one element without copying
 *                             it: what holds x, x in it, and c += a*x; else V, V_ALL, V_FMA_INTO
 *     V_LOADU MASK V_MASK V_PART V_SUM4   see few_template.h
 * and either TILE_F32 or TILE_F64; it includes this file and finds everything undefined afterwards.
 */
#include <math.h>

#include "attention/kernels.h"

enum { TILE(lanes) = 3 * WIDTH };

#ifndef V_ONE
#define V_ONE              V
#define V_TAKE(x)          V_ALL(x)
#define V_FMA_ONE(c, a, x) V_FMA_INTO(c, a, x)
#endif

/* One step t of the product: row t of A (3 registers) against the 4 broadcast elements of row t of
 * B. */
#define TILE_FMAS(r)                                                                               \
    do {                                                                                           \
        V_FMA_ONE(c##r##0, a0, each);                                                              \
        V_FMA_ONE(c##r##1, a1, each);                                                              \
        V_FMA_ONE(c##r##2, a2, each);                                                              \
    } while (0)
#define TILE_ROW(r, x)                                                                             \
    do {                                                                                           \
        const V_ONE each = V_TAKE(x);                                                              \
        TILE_FMAS(r);                                                                              \
    } while (0)
#define TILE_STEP(at, x0, x1, x2, x3)                                                              \
    do {                                                                                           \
        const V a0 = V_LOAD(at), a1 = V_LOAD((at) + WIDTH), a2 = V_LOAD((at) + 2 * WIDTH);         \
        TILE_ROW(0, x0);                                                                           \
        TILE_ROW(1, x1);                                                                           \
        TILE_ROW(2, x2);                                                                           \
        TILE_ROW(3, x3);                                                                           \
    } while (0)
#define TILE_OPEN(r)   V c##r##0 = V_ZERO(), c##r##1 = V_ZERO(), c##r##2 = V_ZERO()
#define TILE_PUT(p, v) V_STORE(p, add ? V_ADD(V_LOAD(p), v) : (v))
#define TILE_CLOSE(r)                                                                              \
    do {                                                                                           \
        TILE_PUT(c + (r)*lanes, c##r##0);                                                          \
        TILE_PUT(c + (r)*lanes + WIDTH, c##r##1);                                                  \
        TILE_PUT(c + (r)*lanes + 2 * WIDTH, c##r##2);                                              \
    } while (0)

/* Twelve named accumulators stay in registers over the whole depth; an array would be kept in
 * memory. They start at zero even when C is added to: a sum of sums loses less than one long sum.
 */
static void TILE(product)(const void *a_, const void *b_, int64_t stride, int64_t depth,
                          int64_t groups, bool add, void *c_)
{
    enum { lanes = TILE(lanes) };
    REAL *c = c_;
    for (int64_t g = 0; g < groups; g++) {
        const REAL *a = a_, *b = (const REAL *)b_ + g * ES_GROUP;
        TILE_OPEN(0);
        TILE_OPEN(1);
        TILE_OPEN(2);
        TILE_OPEN(3);
        int64_t t = 0;
        for (; t + 2 <= depth; t += 2) {
            TILE_STEP(a, b[0], b[1], b[2], b[3]);
            b += stride;
            TILE_STEP(a + lanes, b[0], b[1], b[2], b[3]);
            b += stride;
            a += 2 * lanes;
        }
        if (t < depth)
            TILE_STEP(a, b[0], b[1], b[2], b[3]);
        TILE_CLOSE(0);
        TILE_CLOSE(1);
        TILE_CLOSE(2);
        TILE_CLOSE(3);
        c += ES_GROUP * lanes;
    }
}

/* The same product with four keys: a key's elements are neighbours, so that four rows are read from
 * front to back. */
static void TILE(scores)(const void *a_, int64_t depth, const void *k_, int64_t stride,
                         int64_t keys, void *c_)
{
    enum { lanes = TILE(lanes) };
    const bool add = false;
    const REAL *k0 = k_;
    REAL *c = c_;
    for (int64_t key = 0; key < keys; key += ES_GROUP, k0 += ES_GROUP * stride) {
        const int64_t rest = keys - key - 1; /* the last key is repeated for missing ones */
        const REAL *k1 = k0 + (rest > 0 ? stride : 0), *k2 = k1 + (rest > 1 ? stride : 0),
                   *k3 = k2 + (rest > 2 ? stride : 0);
        const REAL *a = a_;
        TILE_OPEN(0);
        TILE_OPEN(1);
        TILE_OPEN(2);
        TILE_OPEN(3);
        int64_t t = 0;
        for (; t + 2 <= depth; t += 2) {
            TILE_STEP(a, k0[t], k1[t], k2[t], k3[t]);
            TILE_STEP(a + lanes, k0[t + 1], k1[t + 1], k2[t + 1], k3[t + 1]);
            a += 2 * lanes;
        }
        if (t < depth)
            TILE_STEP(a, k0[t], k1[t], k2[t], k3[t]);
        TILE_CLOSE(0);
        TILE_CLOSE(1);
        TILE_CLOSE(2);
        TILE_CLOSE(3);
        c += ES_GROUP * lanes;
    }
}

/* Elements of a register as doubles. The empty asm hides from gcc 12 that it could copy v, a double
 * already, in parts: for that it would keep v in memory in all of the loop that makes it. */
static inline void TILE(widen)(V v, double *out)
{
    _Alignas(64) REAL element[WIDTH];
    V_STORE(element, v);
    __asm__("" : "+m"(element));
    for (int i = 0; i < WIDTH; i++)
        out[i] = (double)element[i];
}

static void TILE(top)(const void *s_, int64_t rows, double *top)
{
    enum { lanes = TILE(lanes) };
    const REAL *s = s_;
    V m0 = V_ALL((REAL)-INFINITY), m1 = m0, m2 = m0;
    for (int64_t r = 0; r < rows; r++, s += lanes) {
        m0 = V_MAX(V_LOAD(s), m0);
        m1 = V_MAX(V_LOAD(s + WIDTH), m1);
        m2 = V_MAX(V_LOAD(s + 2 * WIDTH), m2);
    }
    TILE(widen)(m0, top);
    TILE(widen)(m1, top + WIDTH);
    TILE(widen)(m2, top + 2 * WIDTH);
}

/* 2^x for TILE_LOWEST <= x < 128 (1024): x = n + f with n the nearest integer, 2^f by a polynomial
 * with constant term exactly 1, so that x = TILE_LOWEST (n = -127 or -1023, f = 0) gives exponent
 * bits zero: an exact 0. V_SCALE() makes that zero itself. Relative error of the polynomials over
 * |f| <= 1/2, found by weighted least squares driven to minimax: degree 5: 9.1e-8 (f32, where
 * rounding is 6e-8), degree 11: 3.5e-18 (f64). */
#ifdef TILE_F32
#define TILE_LOWEST -127.0f
#define TILE_ROOT   0x1p-63f
#define V_MAGIC     0x1.8p23f
static const float TILE(series)[] = {0x1.5bba14p-10f, 0x1.3cea88p-7f, 0x1.c6b752p-5f,
                                     0x1.ebf9bcp-3f,  0x1.62e42ap-1f, 1.0f};
#else
#define TILE_LOWEST -1023.0
#define TILE_ROOT   0x1p-511
#define V_MAGIC     0x1.8p52
static const double TILE(series)[] = {
    0x1.e79a444922f47p-32, 0x1.e61b467f4e86ap-28, 0x1.b5267ca532ce7p-24, 0x1.62bfc7a0670cbp-20,
    0x1.ffcbfbaa3e203p-17, 0x1.4309130ed8e90p-13, 0x1.5d87fe78cd1b7p-10, 0x1.3b2ab6fba010fp-7,
    0x1.c6b08d7049febp-5,  0x1.ebfbdff82c5a4p-3,  0x1.62e42fefa39efp-1,  1.0};
#endif

#ifdef V_ROUND
#define TILE_NEAR(x)        V_ROUND(x)
#define TILE_WHOLE(t)       (t)
#define TILE_POWER(p, t, x) V_SCALE(p, t, x)
#define TILE_CLAMP(x)       (plain ? (x) : V_MAX(x, lowest)) /* only sums of x care */
#else
#define TILE_NEAR(x)        V_ADD(x, V_ALL(V_MAGIC))
#define TILE_WHOLE(t)       V_SUB(t, V_ALL(V_MAGIC))
#define TILE_POWER(p, t, x) V_EXP2I(p, t)
#define TILE_CLAMP(x)       V_MAX(x, lowest)
#endif

/* Two registers at once: the chains of dependent operations interleave. */
static inline void TILE(exp2)(V x0, V x1, V *e0, V *e1)
{
    const V t0 = TILE_NEAR(x0), t1 = TILE_NEAR(x1);
    const V f0 = V_SUB(x0, TILE_WHOLE(t0)), f1 = V_SUB(x1, TILE_WHOLE(t1));
    V p0 = V_ALL(TILE(series)[0]), p1 = p0;
    for (size_t i = 1; i < sizeof TILE(series) / sizeof TILE(series)[0]; i++) {
        p0 = V_FMA(p0, f0, V_ALL(TILE(series)[i]));
        p1 = V_FMA(p1, f1, V_ALL(TILE(series)[i]));
    }
    *e0 = TILE_POWER(p0, t0, x0);
    *e1 = TILE_POWER(p1, t1, x1);
}

/* Returns the exponent x of one register of scores. The product is rounded before the offset is
 * subtracted, although a multiply-add would be available: the offset comes from the rounded
 * product of the largest score, and the digits that a multiply-add keeps beyond it, up to 2^-24 |c
 * s|, would go into the exponent. */
#define TILE_X(p) TILE_CLAMP(V_ADD(unscaled ? V_LOAD(p) : V_MUL(V_LOAD(p), scale), shift))

/* Rows s0 and s1 of one column of registers: their weights, and what those add to the sums. */
#define TILE_TILT_PAIR(X1, STORE1)                                                                 \
    do {                                                                                           \
        const V x0 = TILE_X(s), x1 = (X1);                                                         \
        V e0, e1;                                                                                  \
        TILE(exp2)(x0, x1, &e0, &e1);                                                              \
        V_STORE(w, e0);                                                                            \
        STORE1;                                                                                    \
        weight = V_ADD(V_ADD(weight, e0), e1);                                                     \
        if (!plain) {                                                                              \
            V_FMA_INTO(tilted, e0, x0);                                                            \
            V_FMA_INTO(squares, e0, e0);                                                           \
            V_FMA_INTO(tilted, e1, x1);                                                            \
            V_FMA_INTO(squares, e1, e1);                                                           \
        }                                                                                          \
    } while (0)

/* One column of registers at a time, so that its sums stay in registers. */
static inline __attribute__((always_inline)) void TILE(tilt_column)(const REAL *s, int64_t rows,
                                                                    REAL c, bool unscaled,
                                                                    const REAL *offset, bool plain,
                                                                    REAL *w, double *sums)
{
    enum { lanes = TILE(lanes) };
    const V scale = V_ALL(c), lowest = V_ALL(TILE_LOWEST), shift = V_SUB(V_ZERO(), V_LOAD(offset));
    V weight = V_ZERO(), tilted = V_ZERO(), squares = V_ZERO();
    int64_t r = 0;
    for (; r + 2 <= rows; r += 2, s += 2 * lanes, w += 2 * lanes)
        TILE_TILT_PAIR(TILE_X(s + lanes), V_STORE(w + lanes, e1));
    if (r < rows)
        TILE_TILT_PAIR(lowest, (void)0); /* a row that is not there has weight zero */
    TILE(widen)(weight, sums);
    if (!plain) {
        TILE(widen)(tilted, sums + lanes);
        TILE(widen)(squares, sums + 2 * lanes);
    }
}

/* The flags are constants in each call, so that the loop inside has no branch. */
static void TILE(tilt)(const void *s_, int64_t rows, double c_, const void *offset_, bool plain,
                       void *w_, double *sums)
{
    const REAL *s = s_, *offset = offset_, c = (REAL)c_;
    REAL *w = w_;
    for (int i = 0; i < TILE(lanes); i += WIDTH) {
        if (c == 1 && plain)
            TILE(tilt_column)(s + i, rows, c, true, offset + i, true, w + i, sums + i);
        else if (c == 1)
            TILE(tilt_column)(s + i, rows, c, true, offset + i, false, w + i, sums + i);
        else if (plain)
            TILE(tilt_column)(s + i, rows, c, false, offset + i, true, w + i, sums + i);
        else
            TILE(tilt_column)(s + i, rows, c, false, offset + i, false, w + i, sums + i);
    }
}

/* Q of 2^f - 1 = f Q(f), |f| <= 1/2, interpolated at Chebyshev's points: relative error 2.3e-8 of
 * degree 5 (f32), 5.2e-17 of degree 10 (f64). From TILE_ONE on, tanh(t ln 2 / 2) rounds to 1. */
#ifdef TILE_F32
#define TILE_ONE 28.0f
static const float TILE(growth)[] = {0x1.44138ap-13f, 0x1.5f0890p-10f, 0x1.3b2a54p-7f,
                                     0x1.c6af6cp-5f,  0x1.ebfbe0p-3f,  0x1.62e430p-1f};
#else
#define TILE_ONE 57.0
static const double TILE(growth)[] = {
    0x1.e9d3fe3952179p-32, 0x1.e6063f7217bc6p-28, 0x1.b524fae627834p-24, 0x1.62bfd47773353p-20,
    0x1.ffcbfc670dcd4p-17, 0x1.430913096fd9fp-13, 0x1.5d87fe78a5276p-10, 0x1.3b2ab6fba1ddap-7,
    0x1.c6b08d704a0c2p-5,  0x1.ebfbdff82c598p-3,  0x1.62e42fefa39efp-1};
#endif

/* tanh(s / c) = -e / (2 + e) with e = 2^t - 1 and t = -2 log2(e) s / c. With t = n + f, n the
 * nearest integer, e = 2^n (2^f - 1) + (2^n - 1): small scores keep all their digits. */
static inline V TILE(cap_one)(V s, V slope, V height)
{
    const V least = V_ALL(-TILE_ONE);
    const V t = V_MAX(V_SUB(V_ZERO(), V_MAX(V_MUL(s, slope), least)), least);
    const V n = TILE_NEAR(t), f = V_SUB(t, TILE_WHOLE(n));
    const V power = TILE_POWER(V_ALL((REAL)1), n, t);
    V growth = V_ALL(TILE(growth)[0]);
    for (size_t i = 1; i < sizeof TILE(growth) / sizeof TILE(growth)[0]; i++)
        growth = V_FMA(growth, f, V_ALL(TILE(growth)[i]));
    const V e = V_FMA(V_MUL(growth, f), power, V_SUB(power, V_ALL((REAL)1)));
    return V_MUL(height, V_DIV(e, V_ADD(e, V_ALL((REAL)2))));
}

static void TILE(cap)(void *s_, int64_t rows, double c)
{
    REAL *s = s_;
    const V slope = V_ALL((REAL)(2.0 * ES_LOG2_E / c)), height = V_ALL((REAL)-c);
    for (int64_t i = 0; i < rows * TILE(lanes); i += WIDTH)
        V_STORE(s + i, TILE(cap_one)(V_LOAD(s + i), slope, height));
}

static void TILE(see)(void *s_, int64_t rows, const int32_t *restrict ranges)
{
    enum { lanes = TILE(lanes) };
    REAL *restrict s = s_;
    const int32_t *from = ranges, *to = from + lanes, *from2 = to + lanes, *to2 = from2 + lanes;
    for (int32_t r = 0; r < (int32_t)rows; r++, s += lanes)
        for (int lane = 0; lane < lanes; lane++) {
            const int seen =
                ((r >= from[lane]) & (r < to[lane])) | ((r >= from2[lane]) & (r < to2[lane]));
            s[lane] = seen ? s[lane] : (REAL)NAN;
        }
}

static void TILE(raise)(void *s_, int64_t rows, const void *raise_, int64_t first, int64_t last)
{
    REAL *restrict s = s_;
    const REAL *restrict raise = raise_;
    for (int64_t r = 0; r < rows; r++, s += TILE(lanes))
        for (int64_t lane = first; lane < last; lane++)
            s[lane] += raise[r];
}

static void TILE(fold)(void *narrow_, int64_t count, double *wide)
{
    REAL *narrow = narrow_;
    for (int64_t i = 0; i < count; i++) {
        wide[i] += (double)narrow[i];
        narrow[i] = 0;
    }
}

/* Weights below TILE_ROOT count as zero: their squares would be denormal, which is slow, and are
 * too small to matter beside the largest, which is at least 1/4. */
static void TILE(square)(const void *w_, int64_t rows, void *out_)
{
    const REAL *w = w_;
    REAL *out = out_;
    for (int64_t i = 0; i < rows * TILE(lanes); i++)
        out[i] = w[i] < TILE_ROOT ? 0 : w[i] * w[i];
}

static void TILE(centre)(const void *values_, int64_t stride, int64_t rows, int64_t channels,
                         const double *centre, void *out_)
{
    const REAL *values = values_;
    REAL *out = out_;
    const int64_t width = (channels + ES_GROUP) / ES_GROUP * ES_GROUP;
    for (int64_t r = 0; r < rows; r++, values += stride, out += width) {
        REAL length = 0, sum = 0; /* the sum of sums of four */
        for (int64_t c = 0; c < channels; c++) {
            out[c] = values[c] - (REAL)centre[c];
            sum += out[c] * out[c];
            if (c % ES_GROUP == ES_GROUP - 1) {
                length += sum;
                sum = 0;
            }
        }
        out[channels] = length + sum;
        for (int64_t c = channels + 1; c < width; c++)
            out[c] = 0;
    }
}

static void TILE(close)(void *n_, const double *restrict z, int64_t channels, double *restrict wide,
                        double *restrict cross, double *restrict square)
{
    enum { lanes = TILE(lanes) };
    REAL *restrict n = n_;
    for (int64_t c = 0; c < channels; c++) {
        for (int lane = 0; lane < lanes; lane++) {
            const double x = (double)n[lane];
            wide[lane] += x;
            cross[lane] += z[lane] * x;
            square[lane] += x * x;
            n[lane] = 0;
        }
        n += lanes;
        wide += lanes;
        cross += lanes;
        square += lanes;
    }
}

/* Twelve independent chains of FMAs that touch no memory: what the product tile would reach if
 * nothing else existed. */
static double TILE(burn)(int64_t steps)
{
    const V a0 = V_ALL((REAL)0.5), a1 = a0, a2 = a0;
    const V_ONE each = V_TAKE((REAL)0.25);
    V c00 = a0, c01 = a0, c02 = a0, c10 = a0, c11 = a0, c12 = a0;
    V c20 = a0, c21 = a0, c22 = a0, c30 = a0, c31 = a0, c32 = a0;
    for (int64_t t = 0; t < steps; t++) {
        TILE_FMAS(0);
        TILE_FMAS(1);
        TILE_FMAS(2);
        TILE_FMAS(3);
    }
    V sum = V_ADD(V_ADD(V_ADD(c00, c01), V_ADD(c02, c10)), V_ADD(V_ADD(c11, c12), V_ADD(c20, c21)));
    sum = V_ADD(sum, V_ADD(V_ADD(c22, c30), V_ADD(c31, c32)));
    double out[WIDTH];
    TILE(widen)(sum, out);
    return out[0];
}

#include "attention/few_template.h"

#undef TILE_FMAS
#undef TILE_ROW
#undef TILE_STEP
#undef TILE_OPEN
#undef TILE_CLOSE
#undef TILE_PUT
#undef TILE_X
#undef TILE_NEAR
#undef TILE_WHOLE
#undef TILE_POWER
#undef TILE_CLAMP
#undef TILE_TILT_PAIR
#undef TILE_LOWEST
#undef TILE_ONE
#undef TILE_ROOT
#undef TILE
#undef TILE_F32
#undef TILE_F64
#undef REAL
#undef WIDTH
#undef V
#undef V_ZERO
#undef V_ALL
#undef V_LOAD
#undef V_STORE
#undef V_FMA
#undef V_ADD
#undef V_SUB
#undef V_MUL
#undef V_DIV
#undef V_MAX
#undef V_EXP2I
#undef V_ROUND
#undef V_SCALE
#undef V_FMA_INTO
#undef V_ONE
#undef V_TAKE
#undef V_FMA_ONE
#undef V_MAGIC
#undef V_LOADU
#undef MASK
#undef V_MASK
#undef V_PART
#undef V_SUM4
