/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_iq.c : decodes quantised types with blocks of 256 numbers that are looked up, four or eight
 * at a time, in a grid (gguf_grids.c). Signs are stored apart.
 *
 * In the formulas d is f16, i is the index of a number in its block, members stand in the order of
 * their bytes, and r = i / 8, g = i / 32, k = i % 8. */
#include "checkpoint/gguf_types.h"

/* Returns eight signs from seven bits: the eighth makes the number of minus signs even. */
static inline unsigned eight_signs(uint32_t seven)
{
    unsigned odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return seven | (odd & 1) << 7;
}

/* Numbers of 2 or 3 bits are cut out of a 16-bit entry by a product that moves them to the top and
 * a shift by the same count for all: vectors cannot shift each of their numbers by another count.
 */
static const uint16_t top2[8] = {1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1 << 2, 1};
static const uint16_t top3[4] = {1 << 13, 1 << 10, 1 << 7, 1 << 4};
static const uint16_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};

/* Returns -v if any bit of `minus` is set, else v. */
static inline int16_t with_sign(int v, unsigned minus) { return (int16_t)(minus ? -v : v); }

/* Writes d v for the eight numbers v. */
static inline void put_eight(float d, const int16_t *restrict v, float *restrict out)
{
    for (int k = 0; k < 8; k++)
        out[k] = d * (float)v[k];
}

/* Writes d times the eight numbers of a grid entry of IQ2 (8, 25 or 43, as 2 bits each), with a
 * minus where bit k of `signs` is set. */
static inline void put_iq2(float d, uint16_t entry, unsigned signs, float *restrict out)
{
    int16_t v[8];
    for (int k = 0; k < 8; k++) {
        const int c = (uint16_t)(entry * top2[k]) >> 14;
        v[k] = with_sign(8 + 17 * c + (c >> 1), (uint16_t)signs & bit[k]);
    }
    put_eight(d, v, out);
}

/* IQ2_XXS: d, then for each g four bytes c and a word w of 32 bits. S = w >> 28;
 * x = d (2 S + 1) / 8 iq2xxs[c[r % 4]][k], signs: seven bits w >> 7 (r % 4) & 127. */
void es_gguf_decode_iq2_xxs(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 66, out += 256) {
        const float d = es_gguf_half(raw);
        for (int g = 0; g < 8; g++) {
            const unsigned char *c = raw + 2 + 8 * g;
            const uint32_t w = es_gguf_u32(c + 4);
            const float scale = d * (float)(2 * (w >> 28) + 1) * 0.125f;
            for (int r = 0; r < 4; r++)
                put_iq2(scale, es_gguf_grid_iq2xxs[c[r]], eight_signs(w >> 7 * r & 127),
                        out + 32 * g + 8 * r);
        }
    }
}

/* IQ2_XS: d, q[32] (16 bits each), s[8]. S = s[g] >> 4 (i / 16 % 2) & 15;
 * x = d (2 S + 1) / 8 iq2xs[q[r] & 511][k], signs: seven bits q[r] >> 9. */
void es_gguf_decode_iq2_xs(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 74, out += 256) {
        const float d = es_gguf_half(raw);
        for (int r = 0; r < 32; r++) {
            const unsigned q = es_gguf_u16(raw + 2 + 2 * r);
            const int S = raw[66 + r / 4] >> 4 * (r / 2 % 2) & 15;
            put_iq2(d * (float)(2 * S + 1) * 0.125f, es_gguf_grid_iq2xs[q & 511],
                    eight_signs(q >> 9), out + 8 * r);
        }
    }
}

/* IQ2_S: d, q[32], z[32], t[8], s[8]. S as in IQ2_XS;
 * x = d (2 S + 1) / 8 iq2s[q[r] | (t[g] >> 2 (r % 4) & 3) << 8][k], minus where bit k of z[r] is
 * set. */
void es_gguf_decode_iq2_s(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 82, out += 256) {
        const float d = es_gguf_half(raw);
        for (int r = 0; r < 32; r++) {
            const unsigned high = (unsigned)raw[66 + r / 4] >> 2 * (r % 4) & 3u;
            const unsigned entry = raw[2 + r] | high << 8;
            const int S = raw[74 + r / 4] >> 4 * (r / 2 % 2) & 15;
            put_iq2(d * (float)(2 * S + 1) * 0.125f, es_gguf_grid_iq2s[entry], raw[34 + r],
                    out + 8 * r);
        }
    }
}

/* IQ3_XXS: d, q[64], w[8] (32 bits each). S = w[g] >> 28;
 * x = d (2 S + 1) / 4 iq3xxs[q[i / 4]][i % 4], signs: seven bits w[g] >> 7 (r % 4) & 127. The
 * values 4, 12, ..., 52, 62 are 3 bits each. */
void es_gguf_decode_iq3_xxs(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 98, out += 256) {
        const float d = es_gguf_half(raw);
        for (int r = 0; r < 32; r++) {
            const uint32_t w = es_gguf_u32(raw + 66 + 4 * (r / 4));
            const unsigned signs = eight_signs(w >> 7 * (r % 4) & 127);
            const float scale = d * (float)(2 * (w >> 28) + 1) * 0.25f;
            int16_t v[8];
            for (int k = 0; k < 8; k++) {
                const uint16_t entry = es_gguf_grid_iq3xxs[raw[2 + 2 * r + k / 4]];
                const int c = (uint16_t)(entry * top3[k % 4]) >> 13;
                v[k] = with_sign(4 + 8 * c + (c == 7 ? 2 : 0), (uint16_t)signs & bit[k]);
            }
            put_eight(scale, v, out + 8 * r);
        }
    }
}

/* IQ3_S: d, q[64], t[8], z[32], s[4], c = i / 4. S = s[g / 2] >> 4 (g % 2) & 15;
 * x = d (2 S + 1) iq3s[q[c] | (t[c / 8] >> c % 8 & 1) << 8][i % 4], minus where bit k of z[r] is
 * set. The values 1, 3, ..., 15 are 3 bits each. */
void es_gguf_decode_iq3_s(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 110, out += 256) {
        const float d = es_gguf_half(raw);
        for (int r = 0; r < 32; r++) {
            const unsigned signs = raw[74 + r], high = (unsigned)raw[66 + r / 4] >> 2 * (r % 4);
            const int S = raw[106 + r / 8] >> 4 * (r / 4 % 2) & 15;
            const float scale = d * (float)(2 * S + 1);
            int16_t v[8];
            for (int k = 0; k < 8; k++) {
                const uint16_t entry =
                    es_gguf_grid_iq3s[raw[2 + 2 * r + k / 4] | (high >> k / 4 & 1) << 8];
                const int c = (uint16_t)(entry * top3[k % 4]) >> 13;
                v[k] = with_sign(1 + 2 * c, (uint16_t)signs & bit[k]);
            }
            put_eight(scale, v, out + 8 * r);
        }
    }
}

/* Writes d (v + shift) for the eight numbers v of a grid entry of IQ1 (-1, 0 or 1, as 2 bits
 * each). */
static inline void put_iq1(float d, float shift, uint16_t entry, float *restrict out)
{
    int16_t v[8];
    for (int k = 0; k < 8; k++)
        v[k] = (int16_t)(((uint16_t)(entry * top2[k]) >> 14) - 1);
    for (int k = 0; k < 8; k++)
        out[k] = d * ((float)v[k] + shift);
}

/* IQ1_S: d, q[32], t[8] (16 bits each). v = iq1[q[r] | (t[g] >> 3 (r % 4) & 7) << 8][k];
 * x = d (2 (t[g] >> 12 & 7) + 1) (v + 1/8), or v - 1/8 where bit 15 of t[g] is set. */
void es_gguf_decode_iq1_s(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 50, out += 256) {
        const float d = es_gguf_half(raw);
        for (int r = 0; r < 32; r++) {
            const unsigned t = es_gguf_u16(raw + 34 + 2 * (r / 4));
            const unsigned entry = raw[2 + r] | (t >> 3 * (r % 4) & 7) << 8;
            put_iq1(d * (float)(2 * (t >> 12 & 7) + 1), t & 0x8000 ? -0.125f : 0.125f,
                    es_gguf_grid_iq1[entry], out + 8 * r);
        }
    }
}

/* IQ1_M: q[32], t[16], w[4] (16 bits each). The top four bits of the w are the f16 d, lowest
 * first. With the nibble p = t[r / 2] >> 4 (r % 2) & 15 and c = i / 16:
 * v = iq1[q[r] | (p & 7) << 8][k], S = w[c / 4] >> 3 (c % 4) & 7; x = d (2 S + 1) (v + 1/8), or
 * v - 1/8 where p & 8. */
void es_gguf_decode_iq1_m(const unsigned char *restrict raw, int64_t blocks, float *restrict out)
{
    for (; blocks > 0; blocks--, raw += 56, out += 256) {
        unsigned half = 0;
        for (int j = 0; j < 4; j++)
            half |= (unsigned)es_gguf_u16(raw + 48 + 2 * j) >> 12 << 4 * j;
        const float d = es_half_to_float((uint16_t)half);
        for (int r = 0; r < 32; r++) {
            const unsigned p = (unsigned)raw[32 + r / 2] >> 4 * (r % 2) & 15u;
            const unsigned scales = es_gguf_u16(raw + 48 + 2 * (r / 8));
            const unsigned S = scales >> 3 * (r / 2 % 4) & 7u;
            put_iq1(d * (float)(2 * S + 1), p & 8 ? -0.125f : 0.125f,
                    es_gguf_grid_iq1[raw[r] | (p & 7) << 8], out + 8 * r);
        }
    }
}
