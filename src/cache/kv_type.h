/* SPDX-License-Identifier: Apache-2.0 */
/* kv_type.h : the number types of a KV cache, and what a cache gives back for the rows it is given.
 *
 * A cache stores the key rows (after rotary positions, norms and biases) and the value rows of a
 * head in few bits. Attention then reads what the cache gives back. An es_kv_format says how:
 * a type, its options, and whether rows are rotated by a Hadamard matrix before they are stored.
 * K and V of a head may have different formats.
 *
 *     es_kv_format format;
 *     ES_TRY(es_kv_format_parse("q4_0+hadamard", &format, err));
 *     es_kv_round(&format, ES_KV_KEYS, 0.0, &keys);           every row, in place
 *
 * Rows are rounded to f32 first. All arithmetic is f32, each operation rounded to nearest, ties to
 * even; scales are f16. Rotations are f64. A block is 32 consecutive numbers of one head's row; the
 * last block of a row may be shorter. The formula of a type is above its function, in kv_type_*.c.
 *
 * Numbers that are not finite. f16 and bf16 give them back. fp8 gives NaN back and saturates Inf,
 * as engines do. Types with blocks or groups give back NaN or Inf for every number that shares a
 * scale with one. So NaN never becomes finite, and attention reports it (ES_E_NONFINITE).
 *
 * To add a type: its function and its row in the file of its family, and its name in the list
 * ES_KV_TYPES. Help, errors and documents list the rows. */
#ifndef ES_CACHE_KV_TYPE_H
#define ES_CACHE_KV_TYPE_H

#include <esscher/view.h>

/* Every type once, in the order in which help lists them: GROUPED for those with round_keys, TYPE
 * for the others. */
#define ES_KV_TYPES(TYPE, GROUPED)                                                                 \
    TYPE(f16)                                                                                      \
    TYPE(bf16)                                                                                     \
    TYPE(fp8)                                                                                      \
    TYPE(q8_0)                                                                                     \
    TYPE(q5_1)                                                                                     \
    TYPE(q5_0)                                                                                     \
    TYPE(q4_1)                                                                                     \
    TYPE(q4_0)                                                                                     \
    TYPE(iq4_nl)                                                                                   \
    GROUPED(kivi4)                                                                                 \
    GROUPED(kivi2)

/* Names of types for help, with a comma before each, to go after "f32": of all types, of those that
 * are not grouped, and of those that are. */
#define ES_KV_LISTED_(name) ", " #name
#define ES_KV_SKIPPED_(name)
#define ES_KV_LIST         ES_KV_TYPES(ES_KV_LISTED_, ES_KV_LISTED_)
#define ES_KV_PLAIN_LIST   ES_KV_TYPES(ES_KV_LISTED_, ES_KV_SKIPPED_)
#define ES_KV_GROUPED_LIST ES_KV_TYPES(ES_KV_SKIPPED_, ES_KV_LISTED_)

typedef enum es_kv_side { ES_KV_KEYS = 0, ES_KV_VALUES = 1 } es_kv_side;

/* Rounds one row of n numbers in place. `scale` is used by types that have a scale, like fp8. */
typedef void es_kv_row_rounder(float *x, int64_t n, float scale);

/* Rounds a group of places of all channels in place; its rows hold numbers of type f16. */
typedef void es_kv_group_rounder(const es_view *group);

/* One type. `round_keys` is NULL unless keys share scales over places, as in KIVI. Such a type
 * holds the newest places in f16, and what a query finds depends on how old a key is. */
typedef struct es_kv_type {
    const char *name;
    const char *about;               /* one line for help */
    int bits;                        /* of one number */
    int scale_bits;                  /* of the scales of a block or group; 0: none */
    float largest;                   /* of types with one scale for all rows, before it; else 0 */
    es_kv_row_rounder *round;        /* of a row; with round_keys: of a row of values */
    es_kv_group_rounder *round_keys; /* of a group of places of keys */
} es_kv_type;

/* How the keys or the values of a head are stored. All zero: as the model computes them. */
typedef struct es_kv_format {
    const es_kv_type *type; /* NULL: "f32", rows stay as they are */
    bool hadamard;          /* rotate rows before they are stored, and back when they are read */
    double scale;           /* of types with one scale for all rows: 1 unless the caller set it */
    bool scale_of_tensor;   /* of the same: the scale is max |x| of the layer over type->largest */
    int64_t group;          /* of types with round_keys: places of keys that share a scale */
    int64_t residual;       /* of the same: newest places that are held in f16 */
} es_kv_format;

/* ---- types ---- */

enum { ES_KV_BLOCK = 32 }; /* numbers that share a scale */

/*! es_kv_type_at() : returns a type by its number, from 0 on; NULL past the last one.
 *  es_kv_type_find() : returns a type by its name; NULL if there is none. */
const es_kv_type *es_kv_type_at(int64_t at);
const es_kv_type *es_kv_type_find(const char *name);

/* ---- formats ---- */

/*! es_kv_format_parse() : reads a format: "f32", a type, or a type with options: "q4_0+hadamard",
 *  also "q4_0+h"; "fp8:tensor" and "fp8:0.5"; "kivi2:group=32:residual=128".
 *  @return : ES_OK; ES_E_ARGUMENT: kv_type.name, kv_type.option, kv_type.scale, kv_type.group,
 *  kv_type.residual, kv_type.rotation. *out is set only on success. */
es_status es_kv_format_parse(const char *text, es_kv_format *out, es_error *err);

/*! es_kv_format_name() : writes the format as es_kv_format_parse() reads it, without options that
 *  have their default values; returns out. ES_KV_NAME bytes hold any. */
enum { ES_KV_NAME = 96 };
char *es_kv_format_name(const es_kv_format *format, char *out, size_t size);

/*! es_kv_format_bits() : returns the bits per number of a row of head_dim numbers, scales included
 *  (32 for "f32"). Not counted: the one scale per layer of fp8, and the f16 of KIVI's newest
 *  places. */
double es_kv_format_bits(const es_kv_format *format, es_kv_side side, int64_t head_dim);

/*! es_kv_format_by_query() : returns whether a query finds old places coarse and new places fine.
 */
bool es_kv_format_by_query(const es_kv_format *format);

/* ---- rows ----
 * Views are (places, head_dim) in f32 or f64, head_dim at most ES_MAX_DIM, with numbers of a row
 * next to each other and aligned; row strides are any. All functions are thread-safe, allocate
 * nothing and take O(places head_dim), rotations O(places head_dim log head_dim). */

/*! es_kv_peak() : returns max |x| of the rows as they are stored, rotated if the format rotates;
 *  NaN does not count. For formats with scale_of_tensor, take the largest over all heads of a
 *  layer. */
double es_kv_peak(const es_kv_format *format, const es_view *rows);

/*! es_kv_round() : replaces rows (out) by what the cache gives back. `peak` is the largest
 *  es_kv_peak() of the layer's keys or values; used only with scale_of_tensor.
 *  With es_kv_format_by_query(): by the coarse rows. Row 0 must then be a multiple of
 * format->group; keys of an incomplete last group are held fine. */
void es_kv_round(const es_kv_format *format, es_kv_side side, double peak, const es_view *rows);

/*! es_kv_round_fine() : replaces rows (out) by f16(row), rotated if the format rotates: what a
 *  query finds at new places with es_kv_format_by_query(). */
void es_kv_round_fine(const es_kv_format *format, const es_view *rows);

/*! es_kv_coarse_places() : returns how many places, from place 0 on, the query at place `query`
 *  finds coarse, with es_kv_format_by_query(): R floor(query / R) of K and query - R of V,
 *  R = format->residual. It finds all others fine, its own included. */
int64_t es_kv_coarse_places(const es_kv_format *format, es_kv_side side, int64_t query);

#endif
