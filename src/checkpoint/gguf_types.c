/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_types.c : the list of number types of GGUF tensors; F32, F16 and BF16; decoding with checks.
 *
 * To add a quantised type: a decode function in the file of its family, and a row of
 * ES_GGUF_QUANTISED. */
#include <stdio.h>
#include <string.h>

#include "checkpoint/gguf_types.h"

/* ---- types that are not quantised ---- */

/* Copies numbers of type F32. */
static void decode_f32(const unsigned char *restrict raw, int64_t count, float *restrict out)
{
    memcpy(out, raw, (size_t)count * sizeof *out);
}

/* Equals es_half_to_float() without branches, and with signed integers, so that the loop becomes
 * vector code. */
static void decode_f16(const unsigned char *restrict raw, int64_t count, float *restrict out)
{
    for (int64_t i = 0; i < count; i++) {
        const int32_t half = es_gguf_u16(raw + 2 * i), size = half & 0x7fff;
        const float small = (float)size * 0x1p-24f; /* a subnormal number */
        int32_t bits, small_bits;
        memcpy(&small_bits, &small, sizeof bits);
        bits = size < 0x0400 ? small_bits : (size << 13) + 0x38000000;
        bits |= size < 0x7c00 ? 0 : 0x7f800000;
        const uint32_t all = (uint32_t)bits | (uint32_t)(half & 0x8000) << 16;
        memcpy(&out[i], &all, sizeof all);
    }
}

/* Decodes bfloat16: the upper half of an f32. */
static void decode_bf16(const unsigned char *restrict raw, int64_t count, float *restrict out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = es_bf16_to_float(es_gguf_u16(raw + 2 * i));
}

/* ---- the list ---- */

#define ROW(id, name, function, numbers, bytes)                                                    \
    [id] = {name, numbers, bytes, es_gguf_decode_##function},

/* By their ids in files. Ids without a row were removed from the format, or are used only inside
 * llama.cpp (9 and 15). */
static const es_gguf_type types[] = {
    [0] = {"F32", 1, 4, decode_f32}, [1] = {"F16", 1, 2, decode_f16},    [24] = {"I8", 1, 1, NULL},
    [25] = {"I16", 1, 2, NULL},      [26] = {"I32", 1, 4, NULL},         [27] = {"I64", 1, 8, NULL},
    [28] = {"F64", 1, 8, NULL},      [30] = {"BF16", 1, 2, decode_bf16}, ES_GGUF_QUANTISED(ROW)};
enum { TYPES = sizeof types / sizeof types[0] };

const es_gguf_type *es_gguf_type_at(uint64_t id)
{
    return id < TYPES && types[id].name ? &types[id] : NULL;
}

const es_gguf_type *es_gguf_type_of(const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].name && strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const char *es_gguf_types_hint(char hint[ES_GGUF_HINT])
{
    size_t used = (size_t)snprintf(hint, ES_GGUF_HINT, "use a file in one of");
    for (int i = 0; i < TYPES && used < ES_GGUF_HINT; i++)
        if (types[i].decode)
            used += (size_t)snprintf(hint + used, ES_GGUF_HINT - used, " %s", types[i].name);
    return hint;
}

/* ---- decoding with checks ---- */

/* Adds what is odd about `count` numbers to *seen. `least` is the smallest normal number of their
 * type. The first loop is vector code; the second runs only if a number is not finite. */
static void look(const float *x, int64_t count, float least, int64_t first, es_st_seen *seen)
{
    uint32_t least_bits, odd = 0, small = 0;
    memcpy(&least_bits, &least, sizeof least_bits);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= UINT32_C(0x7fffffff);
        odd |= bits >= UINT32_C(0x7f800000);
        small += bits != 0 && bits < least_bits;
    }
    seen->subnormals += small;
    for (int64_t i = 0; odd && i < count; i++) {
        const bool nan = x[i] != x[i], infinite = x[i] - x[i] != 0 && !nan;
        seen->nans += nan;
        seen->infinities += infinite;
        if ((nan || infinite) && seen->first < 0)
            seen->first = first + i;
    }
}

void es_gguf_decode(const es_gguf_type *type, const unsigned char *raw, int64_t first,
                    int64_t count, es_dtype dtype, void *out, es_st_seen *seen)
{
    enum { PIECE = 4096 };
    const float least = type->decode == decode_f16 ? 0x1p-14f : 0x1p-126f;
    float numbers[PIECE];
    for (int64_t i = 0; i < count; i += PIECE) {
        const int64_t n = count - i < PIECE ? count - i : PIECE, blocks = n / type->numbers;
        float *to = dtype == ES_F32 ? (float *)out + i : numbers;
        type->decode(raw, blocks, to);
        if (seen)
            look(to, n, least, first + i, seen);
        for (int64_t k = 0; dtype == ES_F64 && k < n; k++)
            ((double *)out)[i + k] = (double)numbers[k];
        raw += blocks * type->bytes;
    }
}
