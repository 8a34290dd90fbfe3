/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_legacy.c : decodes quantised types with blocks of 32, 64 and 128 numbers.
 *
 * In the formulas d and m are f16, i is the index of a number in its block, and members stand in
 * the order of their bytes. "Nibbles of q[H]": the low nibble of byte j is number j, its high
 * nibble is number j + H. */
#include "checkpoint/gguf_types.h"

/* Q4_0: d, q[16]. n = nibbles of q; x = d (n - 8). */
void es_gguf_decode_q4_0(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 18, out += 32) {
        const float d = es_gguf_half(raw);
        for (int j = 0; j < 16; j++)
            out[j] = d * (float)((raw[2 + j] & 15) - 8);
        for (int j = 0; j < 16; j++)
            out[16 + j] = d * (float)((raw[2 + j] >> 4) - 8);
    }
}

/* Q4_1: d, m, q[16]. n = nibbles of q; x = d n + m. */
void es_gguf_decode_q4_1(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 20, out += 32) {
        const float d = es_gguf_half(raw), m = es_gguf_half(raw + 2);
        for (int j = 0; j < 16; j++)
            out[j] = d * (float)(raw[4 + j] & 15) + m;
        for (int j = 0; j < 16; j++)
            out[16 + j] = d * (float)(raw[4 + j] >> 4) + m;
    }
}

/* Bit i of a word: a table, because vectors cannot shift each of their numbers by another count. */
static const int32_t bit[16] = {0x0001, 0x0002, 0x0004, 0x0008, 0x0010, 0x0020, 0x0040, 0x0080,
                                0x0100, 0x0200, 0x0400, 0x0800, 0x1000, 0x2000, 0x4000, 0x8000};

/* Writes the 32 numbers of 5 bits of Q5_0 and Q5_1: nibbles of q[16], plus 16 where bit i of h is
 * set. */
static inline void take_q5(const unsigned char *restrict h, const unsigned char *restrict q,
                           int32_t *restrict n)
{
    const int32_t low = es_gguf_u16(h), high = es_gguf_u16(h + 2);
    for (int j = 0; j < 16; j++)
        n[j] = (q[j] & 15) + (low & bit[j] ? 16 : 0);
    for (int j = 0; j < 16; j++)
        n[16 + j] = (q[j] >> 4) + (high & bit[j] ? 16 : 0);
}

/* Q5_0: d, h[4], q[16]. n = nibbles of q, plus 16 where bit i of h is set; x = d (n - 16). */
void es_gguf_decode_q5_0(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 22, out += 32) {
        const float d = es_gguf_half(raw);
        int32_t n[32];
        take_q5(raw + 2, raw + 6, n);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)(n[j] - 16);
    }
}

/* Q5_1: d, m, h[4], q[16]. n as in Q5_0; x = d n + m. */
void es_gguf_decode_q5_1(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 24, out += 32) {
        const float d = es_gguf_half(raw), m = es_gguf_half(raw + 2);
        int32_t n[32];
        take_q5(raw + 4, raw + 8, n);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)n[j] + m;
    }
}

/* Q8_0: d, q[32] signed. x = d q. */
void es_gguf_decode_q8_0(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 34, out += 32) {
        const float d = es_gguf_half(raw);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)(int8_t)raw[2 + j];
    }
}

const int8_t es_gguf_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};

/* Numbers of 4 bits in floating point, E2M1, times 2. Number 8 is +0. */
static const int8_t e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Writes d V[n] for the nibbles n of q[half]. */
static inline void look_up(float d, const int8_t *values, const unsigned char *restrict q, int half,
                           float *restrict out)
{
    float x[16];
    for (int n = 0; n < 16; n++)
        x[n] = d * (float)values[n];
    for (int j = 0; j < half; j++) {
        out[j] = x[q[j] & 15];
        out[half + j] = x[q[j] >> 4];
    }
}

/* IQ4_NL: d, q[16]. n = nibbles of q; x = d V[n] with the 16 values V. */
void es_gguf_decode_iq4_nl(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 18, out += 32)
        look_up(es_gguf_half(raw), es_gguf_iq4_values, raw + 2, 16, out);
}

/* Returns 2^(e - 128), a subnormal number for e < 2. e = 255 is NaN, as the format of the Open
 * Compute Project has it; llama.cpp takes it for 2^127. */
static float mx_scale(unsigned e)
{
    const uint32_t bits = e == 255 ? UINT32_C(0x7fc00000)
                          : e < 2  ? UINT32_C(0x00200000) << e
                                   : (uint32_t)(e - 1) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* MXFP4: e, q[16]. n = nibbles of q; x = 2^(e - 128) E[n] with E = e2m1. */
void es_gguf_decode_mxfp4(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 17, out += 32)
        look_up(mx_scale(raw[0]), e2m1, raw + 1, 16, out);
}

/* Returns the scale of a byte of NVFP4: with e = s >> 3 & 15 and f = s & 7 it is f 2^-10 for e = 0,
 * else (8 + f) 2^(e - 11). 0x7f is 0, and bit 7 does not count. */
static float nv_scale(unsigned s)
{
    const unsigned e = s >> 3 & 15, f = s & 7;
    if ((s & 127) == 127)
        return 0;
    return e == 0 ? (float)f * 0x1p-10f : (float)((8 + f) << e) * 0x1p-11f;
}

/* NVFP4: s[4], q[32], 64 numbers in groups g of 16. n = nibbles of q[8 g ... 8 g + 7];
 * x = scale(s[g]) E[n] with E = e2m1. */
void es_gguf_decode_nvfp4(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 36, out += 64)
        for (int g = 0; g < 4; g++)
            look_up(nv_scale(raw[g]), e2m1, raw + 4 + 8 * g, 8, out + 16 * g);
}

/* Q1_0: d, q[16], 128 numbers. x = d where bit i % 8 of q[i / 8] is set, else -d. */
void es_gguf_decode_q1_0(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 18, out += 128) {
        const float d = es_gguf_half(raw);
        for (int j = 0; j < 8; j++) {
            const int32_t q = es_gguf_u16(raw + 2 + 2 * j);
            for (int k = 0; k < 16; k++)
                out[16 * j + k] = d * (float)(q & bit[k] ? 1 : -1);
        }
    }
}

/* Q2_0: d, q[16], 64 numbers. x = d ((q[i / 4] >> 2 (i % 4) & 3) - 1). */
void es_gguf_decode_q2_0(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 18, out += 64) {
        const float d = es_gguf_half(raw);
        for (int j = 0; j < 16; j++)
            for (int k = 0; k < 4; k++)
                out[4 * j + k] = d * (float)((raw[2 + j] >> 2 * k & 3) - 1);
    }
}
