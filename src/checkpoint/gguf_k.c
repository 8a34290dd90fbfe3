/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_k.c : decodes quantised types with blocks of 256 numbers and a scale for each group of 16 or
 * 32 of them.
 *
 * In the formulas d and dmin are f16, i is the index of a number in its block, members stand in the
 * order of their bytes, and h = i / 128, j = i % 128 / 32, l = i % 32. "Nibbles of q[H]": the low
 * nibble of byte j is number j, its high nibble is number j + H. */
#include "checkpoint/gguf_types.h"

/* Q2_K: s[16], q[64], d, dmin. n = q[32 h + l] >> 2 j & 3; S = s[i / 16] & 15,
 * M = s[i / 16] >> 4; x = d S n - dmin M. */
void es_gguf_decode_q2_k(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 84, out += 256) {
        const float d = es_gguf_half(raw + 80), dmin = es_gguf_half(raw + 82);
        for (int g = 0; g < 16; g++) {
            const unsigned char *q = raw + 16 + 32 * (g / 8) + 16 * (g % 2);
            const int shift = 2 * (g % 8 / 2);
            const float scale = d * (float)(raw[g] & 15), least = dmin * (float)(raw[g] >> 4);
            for (int l = 0; l < 16; l++)
                out[16 * g + l] = scale * (float)(q[l] >> shift & 3) - least;
        }
    }
}

/* Returns scale k of the 16 scales of Q3_K, 6 bits each in s[12]: the low four bits are s[k] & 15
 * for k < 8, s[k - 8] >> 4 for k >= 8, the high two s[8 + k % 4] >> 2 (k / 4) & 3. */
static int q3_scale(const unsigned char *s, int k)
{
    const int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
    return low | (s[8 + k % 4] >> 2 * (k / 4) & 3) << 4;
}

/* Q3_K: t[32], q[64], s[12], d. n = (q[32 h + l] >> 2 j & 3) + 4 (t[l] >> i / 32 & 1) - 4;
 * S = scale i / 16; x = d (S - 32) n. */
void es_gguf_decode_q3_k(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 110, out += 256) {
        const float d = es_gguf_half(raw + 108);
        for (int g = 0; g < 16; g++) {
            const unsigned char *t = raw + 16 * (g % 2), *q = t + 32 + 32 * (g / 8);
            const int shift = 2 * (g % 8 / 2), bit = g / 2;
            const float scale = d * (float)(q3_scale(raw + 96, g) - 32);
            for (int l = 0; l < 16; l++)
                out[16 * g + l] = scale * (float)((q[l] >> shift & 3) + 4 * (t[l] >> bit & 1) - 4);
        }
    }
}

/* Writes scale S and minimum M of group g of the 8 of Q4_K and Q5_K, 6 bits each in s[12].
 * g < 4: S = s[g] & 63, M = s[g + 4] & 63. Else S = s[g + 4] & 15 | (s[g - 4] >> 6) << 4,
 * M = s[g + 4] >> 4 | (s[g] >> 6) << 4. */
static void q4_scale(const unsigned char *s, int g, int *S, int *M)
{
    if (g < 4) {
        *S = s[g] & 63;
        *M = s[g + 4] & 63;
    } else {
        *S = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        *M = s[g + 4] >> 4 | s[g] >> 6 << 4;
    }
}

/* Q4_K: d, dmin, s[12], q[128], groups g = i / 32. n = low nibble of q[32 (g / 2) + l] for even g,
 * high nibble for odd g; x = d S n - dmin M. */
void es_gguf_decode_q4_k(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 144, out += 256) {
        const float d = es_gguf_half(raw), dmin = es_gguf_half(raw + 2);
        for (int g = 0; g < 8; g++) {
            const unsigned char *q = raw + 16 + 32 * (g / 2);
            const int shift = 4 * (g % 2);
            int S, M;
            q4_scale(raw + 4, g, &S, &M);
            const float scale = d * (float)S, least = dmin * (float)M;
            for (int l = 0; l < 32; l++)
                out[32 * g + l] = scale * (float)(q[l] >> shift & 15) - least;
        }
    }
}

/* Q5_K: d, dmin, s[12], t[32], q[128]. As Q4_K, with n plus 16 where bit g of t[l] is set. */
void es_gguf_decode_q5_k(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 176, out += 256) {
        const float d = es_gguf_half(raw), dmin = es_gguf_half(raw + 2);
        const unsigned char *t = raw + 16;
        for (int g = 0; g < 8; g++) {
            const unsigned char *q = raw + 48 + 32 * (g / 2);
            const int shift = 4 * (g % 2);
            int S, M;
            q4_scale(raw + 4, g, &S, &M);
            const float scale = d * (float)S, least = dmin * (float)M;
            for (int l = 0; l < 32; l++)
                out[32 * g + l] =
                    scale * (float)((q[l] >> shift & 15) + 16 * (t[l] >> g & 1)) - least;
        }
    }
}

/* Q6_K: q[128], t[64], s[16] signed, d. n = nibble of q[64 h + 32 (j % 2) + l], the low one for
 * j < 2, the high one for j >= 2, plus 16 (t[32 h + l] >> 2 j & 3), minus 32;
 * x = d s[i / 16] n. */
void es_gguf_decode_q6_k(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 210, out += 256) {
        const float d = es_gguf_half(raw + 208);
        for (int g = 0; g < 16; g++) {
            const int h = g / 8, j = g % 8 / 2, shift = j < 2 ? 0 : 4;
            const unsigned char *q = raw + 64 * h + 32 * (j % 2) + 16 * (g % 2);
            const unsigned char *t = raw + 128 + 32 * h + 16 * (g % 2);
            const float scale = d * (float)(int8_t)raw[192 + g];
            for (int l = 0; l < 16; l++)
                out[16 * g + l] =
                    scale * (float)((q[l] >> shift & 15) + 16 * (t[l] >> 2 * j & 3) - 32);
        }
    }
}

/* IQ4_XS: d, t (16 bits), s[4], q[128], groups g = i / 32.
 * S = (s[g / 2] >> 4 (g % 2) & 15) + 16 (t >> 2 g & 3) - 32; n = nibbles of q[16 g ... 16 g + 15];
 * x = d S V[n] with the 16 values V of IQ4_NL. */
void es_gguf_decode_iq4_xs(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 136, out += 256) {
        const float d = es_gguf_half(raw);
        const unsigned t = es_gguf_u16(raw + 2);
        for (int g = 0; g < 8; g++) {
            const unsigned char *q = raw + 8 + 16 * g;
            const int S = (raw[4 + g / 2] >> 4 * (g % 2) & 15) + 16 * (int)(t >> 2 * g & 3) - 32;
            float x[16];
            for (int n = 0; n < 16; n++)
                x[n] = d * (float)S * (float)es_gguf_iq4_values[n];
            for (int l = 0; l < 16; l++) {
                out[32 * g + l] = x[q[l] & 15];
                out[32 * g + 16 + l] = x[q[l] >> 4];
            }
        }
    }
}

/* Writes d (digit k - 1) for `digits` digits k of base 3 of each of `count` bytes b, digit by
 * digit. A byte is a fraction: digit k is (b 3^k mod 256) 3 / 256, rounded down. */
static inline void take_digits(float d, const unsigned char *restrict b, int count, int digits,
                               float *restrict out)
{
    int power = 1;
    for (int k = 0; k < digits; k++, power *= 3)
        for (int c = 0; c < count; c++)
            out[count * k + c] = d * (float)(((b[c] * power & 255) * 3 >> 8) - 1);
}

/* TQ1_0: q[48], t[4], d. Numbers 32 k + c are digit k of q[c], c < 32; 160 + 16 k + c of q[32 + c],
 * c < 16; 240 + 4 k + c of t[c], c < 4, k < 4; x = d (digit - 1). */
void es_gguf_decode_tq1_0(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 54, out += 256) {
        const float d = es_gguf_half(raw + 52);
        take_digits(d, raw, 32, 5, out);
        take_digits(d, raw + 32, 16, 5, out + 160);
        take_digits(d, raw + 48, 4, 4, out + 240);
    }
}

/* TQ2_0: q[64], d. x = d ((q[32 h + l] >> 2 j & 3) - 1). */
void es_gguf_decode_tq2_0(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 66, out += 256) {
        const float d = es_gguf_half(raw + 64);
        for (int g = 0; g < 8; g++)
            for (int l = 0; l < 32; l++)
                out[32 * g + l] = d * (float)((raw[32 * (g / 4) + l] >> 2 * (g % 4) & 3) - 1);
    }
}
