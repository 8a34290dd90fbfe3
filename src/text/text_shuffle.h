/* SPDX-License-Identifier: Apache-2.0 */
/* text_shuffle.h : words, sentences or blocks of a text in another order.
 *
 * What may change places is noted while a text is read: es_text_units_bytes() sees its bytes before
 * they are tokenized, es_text_units_word() the tokens of each word, es_text_units_token() each that
 * is kept. Then es_text_units_shuffle() fills the blocks anew. Words are tokenized one by one, so
 * that shuffling them as tokens is shuffling them as text, and no character is ever cut.
 */
#ifndef ES_TEXT_TEXT_SHUFFLE_H
#define ES_TEXT_TEXT_SHUFFLE_H

#include "text/blocks.h"

typedef struct es_text_units {
    const es_tokenizer *tokenizer;
    es_text_shuffle how;
    es_mem_limit *budget;

    int64_t *start; /* (count) of units among the tokens kept, specials not counted */
    int64_t count, capacity;
    int64_t kept; /* tokens */
    bool begins;  /* the next token kept begins a unit */

    /* sentences: */
    int64_t *blank; /* (blanks) where blank lines of the text have ended, but for `passed` */
    int64_t blanks, blank_capacity, passed;
    bool line_blank; /* nothing but white space since the last line feed */
    bool ended;      /* the last word ends a sentence, if white space follows */
    int64_t end;     /* of the last word in the text */
} es_text_units;

es_status es_text_units_bytes(es_text_units *u, uint64_t at, const char *bytes, size_t size,
                              es_error *err);
void es_text_units_word(es_text_units *u, const es_token *tokens, int64_t count);
es_status es_text_units_token(es_text_units *u, es_error *err);

/*! es_text_units_shuffle() : the blocks' ids in another order, a pure function of seed, kind and
 *  number of units. Words and sentences fill blocks of the lengths there are; blocks take theirs
 *  along. O(ids) time; memory of the ids. */
es_status es_text_units_shuffle(const es_text_units *u, uint64_t seed, es_blocks *blocks,
                                es_error *err);
void es_text_units_free(es_text_units *u);

#endif
