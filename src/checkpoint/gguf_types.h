/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_types.h : the number types of GGUF tensors, and how they become f32.
 *
 * A quantised type stores a row of numbers in blocks of 32 to 256: one or two scales in f16, small
 * integers, and for some types the places of a few numbers in a fixed grid. The formula of a type
 * is above its decode function: gguf_legacy.c has blocks of 32 to 128, gguf_k.c and gguf_iq.c have
 * blocks of 256.
 *
 * Decoding is exact. Every product in a formula has at most 24 significant bits, so it is an f32
 * in any order of multiplication. Types with a minimum add two such products and round once. */
#ifndef ES_CHECKPOINT_GGUF_TYPES_H
#define ES_CHECKPOINT_GGUF_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/half.h"
#include "checkpoint/safetensors.h"

/* Decodes `blocks` blocks that follow each other. Thread-safe; O(blocks). */
typedef void es_gguf_decoder(const unsigned char *restrict raw, int64_t blocks,
                             float *restrict out);

typedef struct es_gguf_type {
    const char *name;        /* NULL: an id that is not in use */
    int numbers;             /* in a block, at most ES_GGUF_BLOCK */
    int bytes;               /* of a block */
    es_gguf_decoder *decode; /* NULL: tensors of this type are listed and not read */
} es_gguf_type;

enum { ES_GGUF_BLOCK = 256 }; /* the most numbers in a block of any type */

/*! es_gguf_type_at() : returns the type with this id in a file, NULL if there is none.
 *  es_gguf_type_of() : the same by name. */
const es_gguf_type *es_gguf_type_at(uint64_t id);
const es_gguf_type *es_gguf_type_of(const char *name);

/*! es_gguf_types_hint() : writes a hint that lists all types that can be read; returns it. */
enum { ES_GGUF_HINT = 256 };
const char *es_gguf_types_hint(char hint[ES_GGUF_HINT]);

/*! es_gguf_decode() : converts `count` numbers, a multiple of the type's block, from the bytes of
 *  the file (any alignment) to `dtype`, and adds what is odd about them to *seen (may be NULL);
 *  `first` is the index of the first one. For f32 without the checks, call type->decode(). */
void es_gguf_decode(const es_gguf_type *type, const unsigned char *raw, int64_t first,
                    int64_t count, es_dtype dtype, void *out, es_st_seen *seen);

/* ---- quantised types ---- */

/* One row for each type: its id in files, its name, the end of the name of its decode function,
 * numbers and bytes of a block. Blocks of 32 to 128 numbers are decoded in gguf_legacy.c, blocks of
 * 256 numbers in gguf_k.c and, where numbers come from a grid, in gguf_iq.c. */
#define ES_GGUF_QUANTISED(X)                                                                       \
    X(2, "Q4_0", q4_0, 32, 18)                                                                     \
    X(3, "Q4_1", q4_1, 32, 20)                                                                     \
    X(6, "Q5_0", q5_0, 32, 22)                                                                     \
    X(7, "Q5_1", q5_1, 32, 24)                                                                     \
    X(8, "Q8_0", q8_0, 32, 34)                                                                     \
    X(10, "Q2_K", q2_k, 256, 84)                                                                   \
    X(11, "Q3_K", q3_k, 256, 110)                                                                  \
    X(12, "Q4_K", q4_k, 256, 144)                                                                  \
    X(13, "Q5_K", q5_k, 256, 176)                                                                  \
    X(14, "Q6_K", q6_k, 256, 210)                                                                  \
    X(16, "IQ2_XXS", iq2_xxs, 256, 66)                                                             \
    X(17, "IQ2_XS", iq2_xs, 256, 74)                                                               \
    X(18, "IQ3_XXS", iq3_xxs, 256, 98)                                                             \
    X(19, "IQ1_S", iq1_s, 256, 50)                                                                 \
    X(20, "IQ4_NL", iq4_nl, 32, 18)                                                                \
    X(21, "IQ3_S", iq3_s, 256, 110)                                                                \
    X(22, "IQ2_S", iq2_s, 256, 82)                                                                 \
    X(23, "IQ4_XS", iq4_xs, 256, 136)                                                              \
    X(29, "IQ1_M", iq1_m, 256, 56)                                                                 \
    X(34, "TQ1_0", tq1_0, 256, 54)                                                                 \
    X(35, "TQ2_0", tq2_0, 256, 66)                                                                 \
    X(39, "MXFP4", mxfp4, 32, 17)                                                                  \
    X(40, "NVFP4", nvfp4, 64, 36)                                                                  \
    X(41, "Q1_0", q1_0, 128, 18)                                                                   \
    X(42, "Q2_0", q2_0, 64, 18)

#define ES_GGUF_DECLARE(id, name, function, numbers, bytes)                                        \
    es_gguf_decoder es_gguf_decode_##function;
ES_GGUF_QUANTISED(ES_GGUF_DECLARE)

/* The 16 values of IQ4_NL and IQ4_XS (gguf_legacy.c). */
extern const int8_t es_gguf_iq4_values[16];

/* The grids (gguf_grids.c says how an entry is packed). */
extern const uint16_t es_gguf_grid_iq1[2048], es_gguf_grid_iq2xxs[256], es_gguf_grid_iq2xs[512],
    es_gguf_grid_iq2s[1024], es_gguf_grid_iq3xxs[256], es_gguf_grid_iq3s[512];

/* ---- numbers in a block ---- */

/* Returns the 16-bit word at any address. Files and machines are little-endian (es_st_host()). */
static inline uint16_t es_gguf_u16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }

/* Returns the 32-bit word at any address. */
static inline uint32_t es_gguf_u32(const unsigned char *p)
{
    return (uint32_t)es_gguf_u16(p) | (uint32_t)es_gguf_u16(p + 2) << 16;
}

/* Returns the f16 at any address as f32. */
static inline float es_gguf_half(const unsigned char *p)
{
    return es_half_to_float(es_gguf_u16(p));
}

#endif
