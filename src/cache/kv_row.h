/* SPDX-License-Identifier: Apache-2.0 */
/* kv_row.h : what the files of cache number types share: bits of f32, rounding to f16, and numbers
 * of a view.
 *
 * Functions here have no branches and use signed integers, so that loops over them become vector
 * code on every CPU. */
#ifndef ES_CACHE_KV_ROW_H
#define ES_CACHE_KV_ROW_H

#include <string.h>

#include "cache/kv_type.h"

/* ---- bits ---- */

enum { ES_KV_INF_BITS = 0x7f800000, ES_KV_NAN_BITS = 0x7fc00000, ES_KV_SIZE_BITS = 0x7fffffff };

/* Returns the bits of x. */
static inline int32_t es_kv_bits(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Returns the number that has these bits. */
static inline float es_kv_float(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns |x| with the sign of `from`. */
static inline float es_kv_copy_sign(float x, float from)
{
    return es_kv_float((es_kv_bits(x) & ES_KV_SIZE_BITS) | (es_kv_bits(from) & ~ES_KV_SIZE_BITS));
}

/* Returns the bits of max |x|. Bits of positive numbers are ordered like the numbers, with NaN
 * above Inf, and integers have a vector maximum without -ffast-math. */
static inline int32_t es_kv_top_bits(const float *x, int64_t n)
{
    int32_t top = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t size = es_kv_bits(x[i]) & ES_KV_SIZE_BITS;
        top = size > top ? size : top;
    }
    return top;
}

/* Returns x inside [low, high], and low for NaN: it can be converted to an integer. */
static inline float es_kv_clamp(float x, float low, float high)
{
    x = x > low ? x : low;
    return x < high ? x : high;
}

/* Returns the bits of a positive number without the `low` lowest of them, rounded to nearest, ties
 * to even. The sum is unsigned: bits of NaN may overflow a signed one. */
static inline int32_t es_kv_keep_upper(int32_t size, int low)
{
    const uint32_t unit = (uint32_t)1 << low, bits = (uint32_t)size;
    return (int32_t)((bits + unit / 2 - 1 + (bits >> low & 1)) & ~(unit - 1));
}

/* Returns the nearest half, ties to even, Inf from 65520 on; NaN stays NaN. Equals
 * es_half_to_float(es_half_from_float(x)). Below 2^-14 halves are multiples of 2^-24, which is
 * what a sum with 1/2 is rounded to. */
static inline float es_kv_f16(float x)
{
    const int32_t size = es_kv_bits(x) & ES_KV_SIZE_BITS;
    const int32_t small = es_kv_bits((es_kv_float(size) + 0.5f) - 0.5f);
    int32_t bits = es_kv_keep_upper(size, 13);
    bits = size >= 0x477ff000 ? ES_KV_INF_BITS : bits;
    bits = size > ES_KV_INF_BITS ? ES_KV_NAN_BITS : bits;
    bits = size < 0x38800000 ? small : bits;
    return es_kv_copy_sign(es_kv_float(bits), x);
}

/* ---- numbers of a view ---- */

/* Copies n numbers of a row, from channel `first` on, rounded to f32. */
static inline void es_kv_load(const es_view *v, int64_t row, int64_t first, int64_t n,
                              float *restrict x)
{
    const char *at = (const char *)v->data + row * v->row_stride;
    if (v->dtype == ES_F32) {
        memcpy(x, (const float *)(const void *)at + first, (size_t)n * sizeof *x);
        return;
    }
    const double *from = (const double *)(const void *)at + first;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)from[i];
}

/* Writes n numbers into a row, from channel `first` on. */
static inline void es_kv_store(const es_view *v, int64_t row, int64_t first, int64_t n,
                               const float *restrict x)
{
    char *at = (char *)v->data + row * v->row_stride;
    if (v->dtype == ES_F32) {
        memcpy((float *)(void *)at + first, x, (size_t)n * sizeof *x);
        return;
    }
    double *to = (double *)(void *)at + first;
    for (int64_t i = 0; i < n; i++)
        to[i] = (double)x[i];
}

/* Rounds a row to f16 (kv_type_f16.c). */
es_kv_row_rounder es_kv_round_f16;

#endif
