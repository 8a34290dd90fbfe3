/* SPDX-License-Identifier: Apache-2.0 */
/* charsmap.h : SentencePiece's table of replacements, "precompiled_charsmap" of a tokenizer.json.
 *
 * The table is a trie of UTF-8 strings and a text of replacements, each with a NUL behind it. The
 * trie is an array of 32-bit units (a double array, as the library Darts-clone writes it): a unit
 * has the byte that leads to it, and where the block of its children begins. The value of a string
 * is where its replacement begins.
 */
#ifndef ES_TEXT_CHARSMAP_H
#define ES_TEXT_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include <esscher/exec.h>

enum { ES_CHARSMAP_MOST_BYTES = 4 << 20 };

typedef struct es_charsmap {
    uint32_t *units; /* (count) */
    size_t count;
    char *texts; /* (bytes) replacements, and a NUL behind the last */
    size_t bytes;
    es_mem_limit *budget;
} es_charsmap;

/*! es_charsmap_open() : reads a table that is written in base64, and checks every unit that a
 *  lookup can come to. O(units). Close it after a failure, too.
 *  @return : ES_OK; ES_E_FORMAT (tokenizer.charsmap) if it is not base64, cut off, or has a unit or
 *  a replacement out of range, a trie with a loop, or replacements that are not UTF-8; ES_E_LIMIT
 *  (tokenizer.charsmap) over 4 MiB; ES_E_MEMORY. */
es_status es_charsmap_open(es_charsmap *map, const char *base64, const char *path,
                           es_mem_limit *budget, es_error *err);
void es_charsmap_close(es_charsmap *map);

/*! es_charsmap_find() : returns the replacement of the shortest string of the table that the text
 *  begins with, NULL if there is none. O(bytes). */
const char *es_charsmap_find(const es_charsmap *map, const unsigned char *text, size_t bytes);

#endif
