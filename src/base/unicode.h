/* SPDX-License-Identifier: Apache-2.0 */
/* unicode.h : UTF-8, and what tokenizers need to know about a character. */
#ifndef ES_BASE_UNICODE_H
#define ES_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ES_UTF8_MOST = 4, ES_DECOMPOSE_MOST = 8, ES_COMPATIBLE_MOST = 24, ES_LOWER_MOST = 2 };

/*! es_utf8_next() : the character that `bytes` > 0 bytes begin with; returns its length. *out is -1
 *  where they begin with no character; the length is then that of the maximal part of one, which is
 *  what decoders put one U+FFFD for (Unicode, section 3.9). */
size_t es_utf8_next(const unsigned char *p, size_t bytes, int32_t *out);

/*! es_utf8_put() : write a character; returns its length. */
size_t es_utf8_put(int32_t c, unsigned char out[ES_UTF8_MOST]);

/*! es_utf8_mark() : 3 if the bytes begin with a byte order mark, which is no text, else 0. */
size_t es_utf8_mark(const void *data, size_t bytes);

/*! es_utf8_invalid() : offset of the first byte that is no UTF-8, or -1. */
int64_t es_utf8_invalid(const char *text, size_t bytes);

bool es_char_space(int32_t c);       /* White_Space */
bool es_char_control(int32_t c);     /* Cc, Cf, Co, Cs, but not tab, newline, return */
bool es_char_punctuation(int32_t c); /* P, and every ASCII sign */
bool es_char_accent(int32_t c);      /* Mn */
bool es_char_word(int32_t c);        /* letters, marks, digits, connectors: \w of Unicode */
bool es_char_chinese(int32_t c);     /* an ideograph, by BERT's list of blocks */
int es_char_combining(int32_t c);    /* canonical combining class; 0: a starter */

/*! es_char_decompose() : its full canonical decomposition (NFD of it alone); returns the count. */
int es_char_decompose(int32_t c, int32_t out[ES_DECOMPOSE_MOST]);

/*! es_char_compatible() : its full compatibility decomposition (NFKD of it alone); returns the
 *  count, at most 18. */
int es_char_compatible(int32_t c, int32_t out[ES_COMPATIBLE_MOST]);

/*! es_grapheme_next() : returns the length of the grapheme cluster (what a reader takes for one
 *  character) that `bytes` > 0 bytes of UTF-8 begin with. es_grapheme_apart() : returns whether two
 *  neighbours are in different clusters whatever stands around them. False where that depends. */
size_t es_grapheme_next(const unsigned char *p, size_t bytes);
bool es_grapheme_apart(int32_t left, int32_t right);

/*! es_char_composed() : returns whether NFC leaves it unchanged if a boundary follows.
 *  es_char_boundary() : returns whether it neither composes with what precedes it nor moves before
 *  it. True of most characters, not of all that Unicode could name: where they say no,
 *  es_text_compose() has to look. */
bool es_char_composed(int32_t c);
bool es_char_boundary(int32_t c);

/*! es_text_compose() : NFC of `count` characters that are fully decomposed, in place; `scratch` has
 * as many places. Returns the new count. O(count), whatever the marks. */
int64_t es_text_compose(int32_t *text, int64_t count, int32_t *scratch);

/*! es_char_lower() : its full lower case without context; returns the count, 1 or 2. */
int es_char_lower(int32_t c, int32_t out[ES_LOWER_MOST]);

#endif
