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
 *  the file (any alignment) to `dtype`, and adds what is odd about them to *seen; `first` is the
 *  index of the first one. For f32 without the checks, call type->decode(). */
void es_gguf_decode(const es_gguf_type *type, const unsigned char *raw, int64_t first,
                    int64_t count, es_dtype dtype, void *out, es_st_seen *seen);

/* ---- decode functions ---- */

/* Blocks of 32, 64 and 128 numbers (gguf_legacy.c). */
es_gguf_decoder es_gguf_decode_q4_0, es_gguf_decode_q4_1, es_gguf_decode_q5_0, es_gguf_decode_q5_1,
    es_gguf_decode_q8_0, es_gguf_decode_iq4_nl, es_gguf_decode_mxfp4, es_gguf_decode_nvfp4,
    es_gguf_decode_q1_0, es_gguf_decode_q2_0;

/* Blocks of 256 numbers without a grid (gguf_k.c). */
es_gguf_decoder es_gguf_decode_q2_k, es_gguf_decode_q3_k, es_gguf_decode_q4_k, es_gguf_decode_q5_k,
    es_gguf_decode_q6_k, es_gguf_decode_iq4_xs, es_gguf_decode_tq1_0, es_gguf_decode_tq2_0;

/* Blocks of 256 numbers from a grid (gguf_iq.c). */
es_gguf_decoder es_gguf_decode_iq1_s, es_gguf_decode_iq1_m, es_gguf_decode_iq2_xxs,
    es_gguf_decode_iq2_xs, es_gguf_decode_iq2_s, es_gguf_decode_iq3_xxs, es_gguf_decode_iq3_s;

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
