/* SPDX-License-Identifier: Apache-2.0 */
/* kv_type_fp8.c : cache numbers of 8 bits in e4m3fn, as in vLLM.
 *
 * y = x/s, saturated at +-448, rounded to 4 significant bits, ties to even; back y s. Below 2^-6
 * numbers are multiples of 2^-9. s is 1, a number, or max |x|/448 over the layer. */
#include "cache/kv_row.h"

/* Returns the e4m3fn nearest to y. A number at or above 2^14 is a multiple of 2^-9, so that a sum
 * with 2^14 is rounded to one. */
static inline float nearest_e4m3(float y)
{
    const int32_t size = es_kv_bits(y) & ES_KV_SIZE_BITS;
    const int32_t most = 0x43e00000; /* 448 */
    const int32_t saturated = size < most ? size : most;
    const int32_t small = es_kv_bits((es_kv_float(saturated) + 0x1p14f) - 0x1p14f);
    int32_t bits = es_kv_keep_upper(saturated, 20);
    bits = saturated < 0x3c800000 ? small : bits; /* 2^-6 */
    bits = size > ES_KV_INF_BITS ? ES_KV_NAN_BITS : bits;
    return es_kv_copy_sign(es_kv_float(bits), y);
}

/* Rounds a row; a scale of 0, of rows that are all 0, gives 0. */
static void round_fp8(float *x, int64_t n, float scale)
{
    if (scale == 0.0f) {
        for (int64_t i = 0; i < n; i++)
            x[i] *= 0.0f;
        return;
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = nearest_e4m3(x[i] / scale) * scale;
}

const es_kv_type es_kv_row_fp8 = {
    .name = "fp8",
    .about = "e4m3 with one scale: 1, fp8:tensor (max |x|/448 of the layer) or fp8:NUMBER",
    .bits = 8,
    .largest = 448.0f,
    .round = round_fp8};
