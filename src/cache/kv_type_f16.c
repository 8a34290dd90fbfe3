/* SPDX-License-Identifier: Apache-2.0 */
/* kv_type_f16.c : cache numbers of 16 bits: f16 and bf16, to nearest, ties to even. */
#include "cache/kv_row.h"

void es_kv_round_f16(float *x, int64_t n, float scale)
{
    (void)scale;
    for (int64_t i = 0; i < n; i++)
        x[i] = es_kv_f16(x[i]);
}

/* Keeps the upper 16 bits, rounded; NaN stays NaN. */
static void round_bf16(float *x, int64_t n, float scale)
{
    (void)scale;
    for (int64_t i = 0; i < n; i++) {
        const int32_t size = es_kv_bits(x[i]) & ES_KV_SIZE_BITS;
        int32_t bits = es_kv_keep_upper(size, 16);
        bits = size > ES_KV_INF_BITS ? ES_KV_NAN_BITS : bits;
        x[i] = es_kv_copy_sign(es_kv_float(bits), x[i]);
    }
}

const es_kv_type es_kv_row_f16 = {
    .name = "f16", .about = "IEEE half precision", .bits = 16, .round = es_kv_round_f16};

const es_kv_type es_kv_row_bf16 = {
    .name = "bf16", .about = "bfloat16, the upper half of f32", .bits = 16, .round = round_bf16};
