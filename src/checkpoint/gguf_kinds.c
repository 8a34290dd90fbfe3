/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_kinds.c : the number types of GGUF tensors, and how blocks of quantised ones are decoded.
 *
 * To add a type: a function that decodes one block, and its name in the row of `kinds`. */
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "checkpoint/gguf_inside.h"
#include "checkpoint/safetensors_inside.h"

/* ---- blocks ---- */

/* Q8_0: a scale s in f16, then 32 integers q of 8 bits; x = s q. */
static void decode_q8_0(const unsigned char *raw, float *out)
{
    uint16_t bits;
    memcpy(&bits, raw, sizeof bits);
    const float scale = es_half_to_float(bits);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)(int8_t)raw[2 + i];
}

/* ---- types ---- */

/* By their numbers in the file. Sizes are known for all types, also for those that cannot be
 * decoded: a tensor of a wrong size would shift all tensors after it. */
static const es_gguf_kind kinds[] = {
    [0] = {"F32", 1, 4, true},
    [1] = {"F16", 1, 2, true},
    [2] = {"Q4_0", 32, 18, false},
    [3] = {"Q4_1", 32, 20, false},
    [6] = {"Q5_0", 32, 22, false},
    [7] = {"Q5_1", 32, 24, false},
    [8] = {"Q8_0", 32, 34, true, decode_q8_0},
    [9] = {"Q8_1", 32, 36, false},
    [10] = {"Q2_K", 256, 84, false},
    [11] = {"Q3_K", 256, 110, false},
    [12] = {"Q4_K", 256, 144, false},
    [13] = {"Q5_K", 256, 176, false},
    [14] = {"Q6_K", 256, 210, false},
    [15] = {"Q8_K", 256, 292, false},
    [16] = {"IQ2_XXS", 256, 66, false},
    [17] = {"IQ2_XS", 256, 74, false},
    [18] = {"IQ3_XXS", 256, 98, false},
    [19] = {"IQ1_S", 256, 50, false},
    [20] = {"IQ4_NL", 32, 18, false},
    [21] = {"IQ3_S", 256, 110, false},
    [22] = {"IQ2_S", 256, 82, false},
    [23] = {"IQ4_XS", 256, 136, false},
    [24] = {"I8", 1, 1, false},
    [25] = {"I16", 1, 2, false},
    [26] = {"I32", 1, 4, false},
    [27] = {"I64", 1, 8, false},
    [28] = {"F64", 1, 8, false},
    [29] = {"IQ1_M", 256, 56, false},
    [30] = {"BF16", 1, 2, true},
    [34] = {"TQ1_0", 256, 54, false},
    [35] = {"TQ2_0", 256, 66, false},
    [39] = {"MXFP4", 32, 17, false},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

const es_gguf_kind *es_gguf_kind_at(uint64_t type)
{
    return type < KINDS && kinds[type].name ? &kinds[type] : NULL;
}

const es_gguf_kind *es_gguf_kind_of(const char *name)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].name && strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

const char *es_gguf_kinds_hint(char hint[ES_GGUF_HINT])
{
    size_t used = (size_t)snprintf(hint, ES_GGUF_HINT, "use a file in one of");
    for (int i = 0; i < KINDS && used < ES_GGUF_HINT; i++)
        if (kinds[i].read)
            used += (size_t)snprintf(hint + used, ES_GGUF_HINT - used, " %s", kinds[i].name);
    return hint;
}

void es_gguf_decode(const es_gguf_kind *kind, const unsigned char *raw, int64_t first,
                    int64_t count, es_dtype dtype, void *out, es_st_seen *seen)
{
    float block[ES_GGUF_BLOCK];
    if (kind->block == 1) {
        es_st_decode(kind->name, raw, first, count, dtype, out, seen);
        return;
    }
    for (int64_t i = 0; i < count; i += kind->block, raw += kind->bytes) {
        kind->decode(raw, block);
        es_st_decode("F32", (const unsigned char *)block, first + i, kind->block, dtype,
                     (char *)out + (size_t)i * es_dtype_size(dtype), seen);
    }
}
