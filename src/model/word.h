/* word.h : a word that is being spelt, and the pieces it is cut into. */
#ifndef ES_MODEL_WORD_H
#define ES_MODEL_WORD_H

#include "model/tokenizer_inside.h"

/* Up to max_chars characters; of a longer word only the place is kept. */
typedef struct es_word {
    const es_tokenizer *tokenizer;
    unsigned char *bytes; /* in UTF-8, normalized */
    int64_t *begin, *end; /* of each byte: the bytes of the text its character was made from */
    es_token *pieces;
    size_t used;
    int64_t chars, from, to; /* of the text, over the whole word */
    es_budget *budget;
} es_word;

es_status es_word_open(es_word *word, const es_tokenizer *tokenizer, es_budget *budget,
                       es_error *err);
void es_word_close(es_word *word);

/*! es_word_put() : one more character, made from bytes [begin, end) of the text. */
void es_word_put(es_word *word, int32_t c, int64_t begin, int64_t end);

/*! es_word_cut() : the pieces of the word, in word->pieces; returns how many, 0 of no word. The
 *  word is then empty. Greedy: the longest piece first, as WordPiece is defined. */
int64_t es_word_cut(es_word *word);

#endif
