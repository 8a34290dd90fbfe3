/* SPDX-License-Identifier: Apache-2.0 */
/* blocks_text.h : the kernels of blocks.h, included once per instruction set.
 *
 * The including file defines ES_KERNELS, the name of the table. Philox needs the 64-bit product of
 * 32-bit numbers, an instruction that compilers find in scalar code only; the macros below name it.
 * The rest is plain loops over a tile, which compilers vectorise.
 */
#include "random/blocks.h"

#include <math.h>

#include <Random123/philox.h>

#include "random/elementary.h"

#if defined(__AVX2__)
#include <immintrin.h>
typedef uint64_t es_pack __attribute__((vector_size(32)));
#define PACK_MULTIPLY(a, b) ((es_pack)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#elif defined(__SSE2__)
#include <emmintrin.h>
typedef uint64_t es_pack __attribute__((vector_size(16)));
#define PACK_MULTIPLY(a, b) ((es_pack)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#elif defined(__aarch64__)
#include <arm_neon.h>
typedef uint64_t es_pack __attribute__((vector_size(16)));
#define PACK_MULTIPLY(a, b)                                                                        \
    ((es_pack)vmull_u32(vmovn_u64((uint64x2_t)(a)), vmovn_u64((uint64x2_t)(b))))
#else
typedef uint64_t es_pack __attribute__((vector_size(16)));
#define PACK_MULTIPLY(a, b) (((a)&UINT32_MAX) * ((b)&UINT32_MAX))
#endif

enum {
    ROUNDS = 10,
    WIDTH = sizeof(es_pack) / sizeof(uint64_t),
    STREAMS = 2 /* packs in flight: two hide the latency and still fit the registers */
};

/* The round keys of Philox for several blocks at once. */
typedef struct key_schedule {
    es_pack first[ROUNDS], second[ROUNDS];
} key_schedule;

/* Computes the round keys of Philox4x32-10 for a seed, once for many blocks. */
static void schedule(uint64_t seed, key_schedule *key)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int r = 0; r < ROUNDS; r++) {
        key->first[r] = (es_pack){0} + k0;
        key->second[r] = (es_pack){0} + k1;
        k0 += PHILOX_W32_0;
        k1 += PHILOX_W32_1;
    }
}

/* A word of the state sits in the lower half of a 64-bit element; the upper half is left dirty,
 * since the multiplication does not read it. */
static inline void philox(const key_schedule *key, uint64_t high, const uint64_t *at,
                          uint64_t *words0, uint64_t *words1)
{
    const es_pack m0 = (es_pack){0} + PHILOX_M4x32_0, m1 = (es_pack){0} + PHILOX_M4x32_1;
    es_pack c0[STREAMS], c1[STREAMS], c2[STREAMS], c3[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        memcpy(&c0[i], at + i * WIDTH, sizeof c0[i]);
        c1[i] = c0[i] >> 32;
        c2[i] = (es_pack){0} + high;
        c3[i] = c2[i] >> 32;
    }
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < STREAMS; i++) {
            const es_pack p0 = PACK_MULTIPLY(c0[i], m0), p1 = PACK_MULTIPLY(c2[i], m1);
            c0[i] = (p1 >> 32) ^ c1[i] ^ key->first[r];
            c1[i] = p1;
            c2[i] = (p0 >> 32) ^ c3[i] ^ key->second[r];
            c3[i] = p0;
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        const es_pack w0 = c1[i] << 32 | (c0[i] & UINT32_MAX);
        const es_pack w1 = c3[i] << 32 | (c2[i] & UINT32_MAX);
        memcpy(words0 + i * WIDTH, &w0, sizeof w0);
        memcpy(words1 + i * WIDTH, &w1, sizeof w1);
    }
}

/* Encrypts ES_TILE counters at once: STREAMS independent vectors hide the latency of the
 * multiplications. */
static inline void philox_tile(const key_schedule *key, uint64_t high, const uint64_t *at,
                               uint64_t *words0, uint64_t *words1)
{
    for (int i = 0; i < ES_TILE; i += STREAMS * WIDTH)
        philox(key, high, at + i, words0 + i, words1 + i);
}

/* Fills out (2 count) with random 64-bit words, two for each address. */
static void words(uint64_t seed, uint64_t high, const uint64_t *at, int64_t count, uint64_t *out)
{
    key_schedule key;
    uint64_t w0[ES_TILE], w1[ES_TILE];
    schedule(seed, &key);
    for (int64_t b = 0; b < count; b += ES_TILE) {
        philox_tile(&key, high, at + b, w0, w1);
        for (int i = 0; i < ES_TILE; i++) {
            out[2 * (b + i)] = w0[i];
            out[2 * (b + i) + 1] = w1[i];
        }
    }
}

/* Fills out (2 count) with uniforms of the open interval (0, 1). */
static void uniforms(uint64_t seed, uint64_t high, const uint64_t *at, int64_t count, double *out)
{
    key_schedule key;
    uint64_t w0[ES_TILE], w1[ES_TILE];
    schedule(seed, &key);
    for (int64_t b = 0; b < count; b += ES_TILE) {
        philox_tile(&key, high, at + b, w0, w1);
        for (int i = 0; i < ES_TILE; i++) {
            out[2 * (b + i)] = es_open_unit(w0[i]);
            out[2 * (b + i) + 1] = es_open_unit(w1[i]);
        }
    }
}

/* Fills out (2 count) with exponentials, -ln U. */
static void exponentials(uint64_t seed, uint64_t high, const uint64_t *at, int64_t count,
                         double *out)
{
    key_schedule key;
    uint64_t w0[ES_TILE], w1[ES_TILE];
    schedule(seed, &key);
    for (int64_t b = 0; b < count; b += ES_TILE) {
        philox_tile(&key, high, at + b, w0, w1);
        for (int i = 0; i < ES_TILE; i++) {
            out[2 * (b + i)] = es_negative_log(es_open_unit(w0[i]));
            out[2 * (b + i) + 1] = es_negative_log(es_open_unit(w1[i]));
        }
    }
}

/* Fills out (2 count) with normals by Box and Muller: sqrt(-2 ln U) times cosine and sine of 2 pi
 * V. */
static void normals(uint64_t seed, uint64_t high, const uint64_t *at, int64_t count, double *out)
{
    key_schedule key;
    uint64_t w0[ES_TILE], w1[ES_TILE];
    double radius[ES_TILE];
    schedule(seed, &key);
    for (int64_t b = 0; b < count; b += ES_TILE) {
        philox_tile(&key, high, at + b, w0, w1);
        /* Two short loops rather than a long one: more of their turns are in flight at a time. */
        for (int i = 0; i < ES_TILE; i++)
            radius[i] = sqrt(2.0 * es_negative_log(es_open_unit(w0[i])));
        for (int i = 0; i < ES_TILE; i++) {
            double cosine, sine;
            es_turn(es_open_unit(w1[i]), &cosine, &sine);
            out[2 * (b + i)] = radius[i] * cosine;
            out[2 * (b + i) + 1] = radius[i] * sine;
        }
    }
}

const es_block_kernels ES_KERNELS = {
    .uniforms = uniforms, .exponentials = exponentials, .normals = normals, .words = words};
