/* SPDX-License-Identifier: Apache-2.0 */
/* kv_type_ggml.c : the cache types of llama.cpp, in blocks of 32 numbers that share f16 scales.
 *
 * Codes are computed from the scale in f32, values from the scale in f16, as ggml's reference
 * quantisers do. A block with NaN or Inf has a scale that is not finite, and gives back no finite
 * number. All arguments of conversions to integers are clamped first, so that none overflows. */
#include "cache/kv_row.h"

/* Returns 1/d, and 0 for d = 0. */
static inline float inverse(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }

/* Returns the number of largest |x|, whose bits are `top`; of equal ones the first. */
static inline float first_largest(const float *x, int64_t n, int32_t top)
{
    int64_t i = 0;
    while (i < n - 1 && (es_kv_bits(x[i]) & ES_KV_SIZE_BITS) != top)
        i++;
    return x[i];
}

/* q8_0: d = max |x|/127; c = x/d, halves away from 0; back c f16(d). A code of 0 keeps the sign of
 * its x. */
static inline void block_q8_0(float *x, int64_t n)
{
    const int32_t top = es_kv_top_bits(x, n);
    const float d = es_kv_float(top) / 127.0f, id = inverse(d), back = es_kv_f16(d);
    for (int64_t i = 0; i < n; i++) {
        const float v = es_kv_clamp(x[i] * id, -127.0f, 127.0f);
        const float whole = (float)(int32_t)v, rest = v - whole;
        const float up = rest >= 0.5f ? 1.0f : 0.0f, down = rest <= -0.5f ? 1.0f : 0.0f;
        x[i] = es_kv_copy_sign(whole + up - down, v) * back;
    }
}

/* q4_0 (T = 8) and q5_0 (T = 16): m is the number of largest |x|; d = m/(-T);
 * c = min(2T - 1, trunc(x/d + T + 1/2)); back (c - T) f16(d). */
static inline void block_symmetric(float *x, int64_t n, float t)
{
    const int32_t top = es_kv_top_bits(x, n);
    const float d = first_largest(x, n, top) / -t, id = inverse(d), back = es_kv_f16(d);
    for (int64_t i = 0; i < n; i++) {
        const float v = es_kv_clamp(x[i] * id + (t + 0.5f), 0.0f, 2.0f * t - 1.0f);
        x[i] = ((float)(int32_t)v - t) * back;
    }
}

/* Returns an integer that is ordered like x; its own inverse for the bits of an ordered integer. */
static inline int32_t ordered(int32_t bits) { return bits ^ (bits >> 31 & ES_KV_SIZE_BITS); }

/* q4_1 (T = 15) and q5_1 (T = 31): d = (max - min)/T; c = min(T, trunc((x - min)/d + 1/2));
 * back c f16(d) + f16(min). */
static inline void block_affine(float *x, int64_t n, float t)
{
    int32_t low = ordered(es_kv_bits(x[0])), high = low;
    for (int64_t i = 1; i < n; i++) {
        const int32_t at = ordered(es_kv_bits(x[i]));
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    const float least = es_kv_float(ordered(low)), most = es_kv_float(ordered(high));
    const float d = (most - least) / t, id = inverse(d), back = es_kv_f16(d);
    const float base = es_kv_f16(least);
    for (int64_t i = 0; i < n; i++) {
        const float v = es_kv_clamp((x[i] - least) * id + 0.5f, 0.0f, t);
        x[i] = (float)(int32_t)v * back + base;
    }
}

/* Returns the level of iq4_nl nearest to v; of two equally near ones the upper. */
static inline float nearest_level(float v)
{
    static const float level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
    float nearest = level[0];
    for (int k = 0; k < 15; k++)
        nearest = v >= 0.5f * (level[k] + level[k + 1]) ? level[k + 1] : nearest;
    return nearest;
}

/* iq4_nl: d = m/(-127); c is the level nearest to x/d; d' = sum x^2 c x / sum x^2 c^2, in order, or
 * 0 if |m| < 1e-15; back c f16(d'). */
static inline void block_iq4_nl(float *x, int64_t n)
{
    const int32_t top = es_kv_top_bits(x, n);
    const float id = inverse(first_largest(x, n, top) / -127.0f);
    float code[ES_KV_BLOCK], with_x[ES_KV_BLOCK], with_code[ES_KV_BLOCK];
    for (int64_t i = 0; i < n; i++) {
        code[i] = nearest_level(x[i] * id);
        const float weighted = x[i] * x[i] * code[i];
        with_x[i] = weighted * x[i];
        with_code[i] = weighted * code[i];
    }
    float above = 0.0f, below = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        above += with_x[i];
        below += with_code[i];
    }
    const float d = es_kv_float(top) < 1e-15f ? 0.0f : above / below;
    const float back = es_kv_f16(d);
    for (int64_t i = 0; i < n; i++)
        x[i] = code[i] * back;
}

/* Defines the function that rounds a row block by block. The compiler makes code for 32 numbers of
 * the first call. */
#define ROUND_BLOCKS(type, block, ...)                                                             \
    static void round_##type(float *x, int64_t n, float scale)                                     \
    {                                                                                              \
        (void)scale;                                                                               \
        for (; n >= ES_KV_BLOCK; n -= ES_KV_BLOCK, x += ES_KV_BLOCK)                               \
            block(x, ES_KV_BLOCK __VA_ARGS__);                                                     \
        if (n > 0)                                                                                 \
            block(x, n __VA_ARGS__);                                                               \
    }
ROUND_BLOCKS(q8_0, block_q8_0)
ROUND_BLOCKS(q5_1, block_affine, , 31.0f)
ROUND_BLOCKS(q5_0, block_symmetric, , 16.0f)
ROUND_BLOCKS(q4_1, block_affine, , 15.0f)
ROUND_BLOCKS(q4_0, block_symmetric, , 8.0f)
ROUND_BLOCKS(iq4_nl, block_iq4_nl)

const es_kv_type es_kv_row_q8_0 = {.name = "q8_0",
                                   .about = "8-bit integers, a scale per 32 numbers",
                                   .bits = 8,
                                   .scale_bits = 16,
                                   .round = round_q8_0};

const es_kv_type es_kv_row_q5_1 = {.name = "q5_1",
                                   .about = "5-bit integers, a scale and a minimum per 32 numbers",
                                   .bits = 5,
                                   .scale_bits = 32,
                                   .round = round_q5_1};

const es_kv_type es_kv_row_q5_0 = {.name = "q5_0",
                                   .about = "5-bit integers, a scale per 32 numbers",
                                   .bits = 5,
                                   .scale_bits = 16,
                                   .round = round_q5_0};

const es_kv_type es_kv_row_q4_1 = {.name = "q4_1",
                                   .about = "4-bit integers, a scale and a minimum per 32 numbers",
                                   .bits = 4,
                                   .scale_bits = 32,
                                   .round = round_q4_1};

const es_kv_type es_kv_row_q4_0 = {.name = "q4_0",
                                   .about = "4-bit integers, a scale per 32 numbers",
                                   .bits = 4,
                                   .scale_bits = 16,
                                   .round = round_q4_0};

const es_kv_type es_kv_row_iq4_nl = {.name = "iq4_nl",
                                     .about = "16 uneven levels, a scale per 32 numbers",
                                     .bits = 4,
                                     .scale_bits = 16,
                                     .round = round_iq4_nl};
