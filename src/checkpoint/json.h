/* SPDX-License-Identifier: Apache-2.0 */
/* json.h : a strict reader of JSON that builds nothing.
 *
 * A model file's header may name ten million tensors, and a tree of it would take twenty times its
 * size; so the text is walked once, value by value, and the caller keeps what it wants. RFC 8259 to
 * the letter: no comments, no trailing commas, valid UTF-8 only, surrogates in pairs, nesting up to
 * ES_JSON_DEPTH; NaN and Infinity only where the caller allows them. The caller, which knows the
 * keys, checks whether they repeat.
 *
 *     es_json_list members;
 *     es_json_text key;
 *     ES_TRY(es_json_begin(&j, '{', &members));
 *     for (;;) {
 *         ES_TRY(es_json_next(&j, &members, &key));
 *         if (members.done)
 *             break;
 *         ES_TRY(es_json_same(&key, "size") ? es_json_whole(&j, &size) : es_json_skip(&j));
 *     }
 */
#ifndef ES_CHECKPOINT_JSON_H
#define ES_CHECKPOINT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/status.h>

enum { ES_JSON_DEPTH = 64 }; /* objects and arrays inside each other */

/* A text and where we are in it. Failures name `at`, so `bytes` is the whole file, or its
 * beginning, and `at` where in it the text begins. */
typedef struct es_json {
    const unsigned char *bytes;
    size_t at, end;
    const char *file; /* for messages */
    const char *rule; /* first part of the rules' names: "safetensors" gives "safetensors.json" */
    es_error *err;
    int depth;
    bool nonfinite; /* NaN, Infinity and -Infinity are numbers, as Python writes them */
} es_json;

/* A string as it stands in the text, without its quotes; valid, escapes still in it. */
typedef struct es_json_text {
    size_t at, size;
    const unsigned char *bytes; /* bytes[at .. at + size) */
} es_json_text;

/* An object or array being walked. */
typedef struct es_json_list {
    unsigned char close;
    bool any, done;
} es_json_list;

/*! es_json_kind() : the first byte of the next value ('{', '[', '"', '-', a digit, 't', 'f', 'n';
 *  'N' and 'I' of NaN and Infinity), 0 at the end; anything else is no value. White space before it
 *  is skipped. */
unsigned char es_json_kind(es_json *j);

/*! es_json_begin() : step into an object ('{') or an array ('['); ES_E_FORMAT if the next value is
 *  none. Then es_json_next() until list->done. */
es_status es_json_begin(es_json *j, unsigned char open, es_json_list *list);

/*! es_json_next() : to the next member, whose key is read (NULL for arrays); the caller then reads
 *  or skips its value. Sets list->done after the last. */
es_status es_json_next(es_json *j, es_json_list *list, es_json_text *key);

/* One value of the named kind; ES_E_FORMAT with its offset if it is another. */
es_status es_json_string(es_json *j, es_json_text *out);
es_status es_json_whole(es_json *j, uint64_t *out); /* digits only, below 2^63; no 1e3, 1.0, -0 */
es_status es_json_number(es_json *j, double *out);  /* correctly rounded up to 15 digits */
es_status es_json_boolean(es_json *j, bool *out);
es_status es_json_skip(es_json *j); /* whatever it is, checked all the same */

/*! es_json_end() : nothing but white space is left. */
es_status es_json_end(es_json *j);

/*! es_json_decode() : the string with its escapes replaced, into `out`, which has space for
 *  text->size bytes; may be where the text stands. @return : bytes written, no terminator. */
size_t es_json_decode(const es_json_text *text, char *out);

/*! es_json_same() : returns whether it equals `word` once its escapes are replaced. */
bool es_json_same(const es_json_text *text, const char *word);

/*! es_json_copy() : decoded and terminated, cut to `size` bytes at the end of a character. */
void es_json_copy(const es_json_text *text, char *out, size_t size);

#endif
