/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_inside.h : GGUF files, the checkpoints of llama.cpp: one file with sizes, tokenizer and
 * weights.
 *
 *     "GGUF", version, number of tensors, number of values
 *     values: key, type, value; a value may be an array of values of one type
 *     tensors: name, dimensions (the contiguous one first), type, offset in the data
 *     padding, the data
 *
 * The header is everything before the data. Its length is not stated, so it is read in growing
 * parts until it is complete, and stays in memory: values are ranges of it and are walked in place.
 * Nothing in the file is trusted, as with safetensors (safetensors.h): every length is compared
 * with the size of the file before it is used, and every count with the least number of bytes its
 * items take; keys and names are unique; tensors fill the data without overlap or gap.
 *
 * A GGUF becomes a checkpoint like any other: an es_st whose tensors have the names, shapes and
 * order of rows of a Hugging Face checkpoint, an es_model_config, an es_tokenizer. */
#ifndef ES_CHECKPOINT_GGUF_INSIDE_H
#define ES_CHECKPOINT_GGUF_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/gguf_types.h"
#include "checkpoint/safetensors.h"
#include "store/file.h"

/* ---- the header (gguf_header.c) ---- */

/* Types of values, by their numbers in the file. */
typedef enum es_gguf_value_type {
    ES_GGUF_U8,
    ES_GGUF_I8,
    ES_GGUF_U16,
    ES_GGUF_I16,
    ES_GGUF_U32,
    ES_GGUF_I32,
    ES_GGUF_F32,
    ES_GGUF_BOOL,
    ES_GGUF_STRING,
    ES_GGUF_ARRAY,
    ES_GGUF_U64,
    ES_GGUF_I64,
    ES_GGUF_F64,
    ES_GGUF_TYPES
} es_gguf_value_type;

/* A string of the header: not terminated, and any bytes but NUL. */
typedef struct es_gguf_text {
    const char *at;
    size_t size;
} es_gguf_text;

typedef struct es_gguf_value {
    es_gguf_text key;
    es_gguf_value_type type;
    es_gguf_value_type item; /* of an array: what it is made of; else = type */
    int64_t count;           /* of an array; else 1 */
    size_t at;               /* offset of the value, or of the array's first */
} es_gguf_value;

typedef struct es_gguf_header {
    const unsigned char *bytes;
    const char *file;      /* for messages */
    es_gguf_value *values; /* in order of their keys */
    int64_t values_count;
    es_st_tensor *tensors; /* in order of their names; dtype is a type's name, shape is in C order
                              (the contiguous dimension last), offset that in the file */
    int64_t count;
    char *names;        /* of the tensors, terminated */
    uint64_t end, data; /* where the header ends and the data begins */
    es_mem_limit *budget;
} es_gguf_header;

enum { ES_GGUF_FIRST = 24, ES_GGUF_NAME_MOST = 255 }; /* bytes up to the counts; of a name */

/* The longest header taken. A vocabulary of 256 000 tokens with its merges has some 12 MB. */
#define ES_GGUF_HEADER_MOST UINT64_C(100000000)

/*! es_gguf_parse() : the header of a file of `size` bytes, of which the first `have` are here, as
 *  new memory of opts->budget. `bytes` must live as long as the header. Release it with
 *  es_gguf_header_free(), after a failure as well. O(header log(keys + tensors)).
 *
 *  If the header goes on behind `have`, nothing is made and *want > have says how many bytes are
 *  needed to get any further; *want <= size and <= ES_GGUF_HEADER_MOST. Else *want is 0.
 *  @return : ES_OK;
 *   ES_E_FORMAT with err->offset: gguf.magic, gguf.short (it ends within the header), gguf.counts,
 *     gguf.string, gguf.array, gguf.type, gguf.flag, gguf.name, gguf.duplicate, gguf.alignment,
 *     gguf.dimensions, gguf.overflow, gguf.block, gguf.offset, gguf.range, gguf.overlap, gguf.hole,
 *     gguf.trailing;
 *   ES_E_UNSUPPORTED: gguf.version (1, or of the future), gguf.endian, gguf.nested, gguf.kind;
 *   ES_E_LIMIT (gguf.limit: over ES_GGUF_HEADER_MOST; the budget), ES_E_MEMORY. */
es_status es_gguf_parse(const unsigned char *bytes, size_t have, uint64_t size, const char *file,
                        const es_st_opts *opts, es_gguf_header *out, uint64_t *want, es_error *err);
void es_gguf_header_free(es_gguf_header *header);

/* ---- values (gguf_values.c) ---- */

/* Bytes of a value of each type; 0: its length is its own. */
extern const int es_gguf_widths[ES_GGUF_TYPES];

static inline uint64_t es_gguf_little(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | p[bytes];
    return value;
}

int es_gguf_compare(es_gguf_text a, es_gguf_text b); /* their order, as of strcmp() */

/*! es_gguf_find() : returns the value of a key, NULL if it is missing. O(log values). */
const es_gguf_value *es_gguf_find(const es_gguf_header *h, const char *key);

bool es_gguf_text_is(es_gguf_text text, const char *word);

/* One value of a key; where there is none, *out stays as it is, unless `required`.
 * @return : ES_OK; ES_E_FORMAT: gguf.missing, gguf.value (of another type, out of [min, max]). */
typedef struct es_gguf_range {
    double min, max;
    bool required;
} es_gguf_range;

es_status es_gguf_whole(const es_gguf_header *h, const char *key, es_gguf_range range, int64_t *out,
                        es_error *err);
es_status es_gguf_real(const es_gguf_header *h, const char *key, es_gguf_range range, double *out,
                       es_error *err);
es_status es_gguf_flag(const es_gguf_header *h, const char *key, bool *out, es_error *err);
es_status es_gguf_string(const es_gguf_header *h, const char *key, bool required, es_gguf_text *out,
                         es_error *err);

/*! es_gguf_array() : the array of a key, whose items are of one of the two types; NULL if there is
 *  none and it is not required. @return : as above. */
es_status es_gguf_array(const es_gguf_header *h, const char *key, bool required,
                        es_gguf_value_type item, es_gguf_value_type other,
                        const es_gguf_value **out, es_error *err);

/*! es_gguf_next() : the string at offset *at of the header, which then is that of the next; begin
 *  with an array's `at`, `count` times at most. */
es_gguf_text es_gguf_next(const es_gguf_header *h, size_t *at);

/*! es_gguf_number() : number `i` of an array of numbers. O(1). */
double es_gguf_number(const es_gguf_header *h, const es_gguf_value *array, int64_t i);

/* ---- files (gguf.c) ---- */

/* One file of a model. */
typedef struct es_gguf_part {
    es_file file;
    char *path;
    unsigned char *bytes;  /* the header, and what was read with it; of the first part only */
    es_gguf_header header; /* used while the model is opened */
} es_gguf_part;

/* How the numbers of a tensor lie in the file, where that differs from a checkpoint. */
typedef struct es_gguf_layout {
    int64_t heads;      /* heads whose rows are rotary pairs side by side; 0: they are not */
    bool in_turn;       /* even rows are those of the tensor, odd rows those of `other` */
    es_st_tensor other; /* if in_turn */
    int64_t row;        /* numbers of a row, if heads or in_turn */
    double scale;       /* multiplies all numbers; 0: they stay */
} es_gguf_layout;

typedef struct es_gguf {
    es_gguf_part *parts; /* (n_parts) */
    int64_t n_parts;
    const char *path;        /* of the first part */
    es_gguf_header header;   /* of all parts */
    es_gguf_layout *layouts; /* (count); NULL: all tensors lie as in a checkpoint */
    es_mem_limit *budget;
} es_gguf;

/*! es_gguf_is() : returns whether this regular file begins like a GGUF or is named NAME.gguf.
 *  False, too, if it cannot be read. */
bool es_gguf_is(const char *path);

/*! es_gguf_open() : open a file, or all files of a split model by the first of them, and check the
 *  headers; the data is not read. Memory is a few times the headers, counted against opts->budget,
 *  which must outlive it. Release it with es_gguf_close().
 *  @return : as es_gguf_parse(), es_st_host(); ES_E_IO (file.open, ...); ES_E_FORMAT (gguf.split: a
 *  part is missing, is not the one that its name says, or is not the first). */
es_status es_gguf_open(const char *path, const es_st_opts *opts, es_gguf **out, es_error *err);
void es_gguf_close(es_gguf *g); /* NULL is fine */

/*! es_gguf_read() : the numbers of header.tensors[...], as es_st_read(); rows that are rotary pairs
 *  side by side (0 1 2 3 of a head: first of pair 0, second of it, first of pair 1, ...) are put
 *  first halves first, as Hugging Face's checkpoints have them, and so on for g->layouts.
 *  es_gguf_read_rows() : the same for rows first ... first + rows - 1 of a matrix or of several,
 *  into `out` (rows, columns); adds to *seen, whose indices are those of the whole tensor. A vector
 * is one row. O(bytes read).
 *  @return : as es_st_read(); ES_E_UNSUPPORTED (gguf.kind) for a type that is not read. */
es_status es_gguf_read(const es_gguf *g, const es_st_tensor *tensor, es_dtype dtype, void *out,
                       es_st_seen *seen, es_error *err);
es_status es_gguf_read_rows(const es_gguf *g, const es_st_tensor *tensor, int64_t first,
                            int64_t rows, es_dtype dtype, void *out, es_st_seen *seen,
                            es_error *err);

/* ---- models in several files (gguf_split.c) ----
 *
 * llama.cpp splits a model into NAME-00001-of-0000N.gguf and so on. The first file has the values
 * of the model; every file has some of the tensors, and values that say which part it is. */

typedef struct es_gguf_split {
    int64_t number, count; /* part `number` of `count`, from 0; 0 of 1 for a single file */
    int64_t tensors;       /* in all files; -1 if the file does not say */
} es_gguf_split;

/*! es_gguf_split_of() : reads what a file says about its place among the files of a model.
 *  @return : ES_OK; ES_E_FORMAT: gguf.value, gguf.missing, gguf.split (a part behind the last). */
es_status es_gguf_split_of(const es_gguf_header *h, es_gguf_split *out, es_error *err);

/*! es_gguf_split_path() : writes the path of part `number` of a model whose first file is `path`.
 *  @return : ES_OK; ES_E_FORMAT (gguf.split) if `path` is not the first file, or is not named so.
 */
es_status es_gguf_split_path(const char *path, const es_gguf_split *split, int64_t number,
                             char *out, size_t size, es_error *err);

/*! es_gguf_join() : makes g->header the header of all parts: values of the first, tensors of all
 *  in order of their names, whose `file` is the number of their part. Frees the parts' headers.
 *  @return : ES_OK; ES_E_FORMAT: gguf.duplicate, gguf.split (other than `tensors` in all);
 *  ES_E_LIMIT, ES_E_MEMORY. */
es_status es_gguf_join(es_gguf *g, int64_t tensors, es_error *err);

#endif
