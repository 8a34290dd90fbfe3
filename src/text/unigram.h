/* SPDX-License-Identifier: Apache-2.0 */
/* unigram.h : SentencePiece's Unigram. Each piece of the vocabulary has a score, the logarithm of
 * its probability; a word is cut into the pieces whose scores have the largest sum.
 *
 * What is around the cutting of words (added tokens, normalizers, splitters, streams) is that of
 * byte pairs: bpe.h.
 */
#ifndef ES_TEXT_UNIGRAM_H
#define ES_TEXT_UNIGRAM_H

#include "text/bpe.h"

typedef struct es_unigram {
    es_trie pieces;
    double *scores;       /* (pieces of the model) */
    double worst;         /* the lowest of them */
    double unknown_score; /* of a character that is no piece */
    es_mem_limit *budget;
} es_unigram;

void es_unigram_close(es_unigram *unigram);

/*! es_unigram_open() : makes the empty tables of a tokenizer with ids 0 ... count - 1.
 *  es_unigram_put() : makes a token a piece. es_unigram_finish() : the score of an unknown
 *  character, 10 below the worst piece, as in SentencePiece. @return : ES_OK; ES_E_LIMIT,
 *  ES_E_MEMORY. */
es_status es_unigram_open(es_tokenizer *t, int64_t count, es_error *err);
es_status es_unigram_put(es_tokenizer *t, int64_t id, const char *text, size_t bytes, double score,
                         es_error *err);
void es_unigram_finish(es_tokenizer *t, int64_t unknown);

/* The best way to cut the first bytes of a word. */
typedef struct es_best_path {
    double score;
    int32_t begin; /* where its last piece begins, -1: no path comes here */
    int32_t id;    /* of that piece */
} es_best_path;

/*! es_unigram_cut() : cuts a word of 1 to 2^31 - 1 bytes; its pieces go to work->pieces. Of paths
 *  with equal scores the one whose last piece is longest is taken, place by place. O(bytes L), L
 * the longest piece. @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_unigram_cut(es_cutting *work, const unsigned char *word, size_t bytes, es_error *err);

#endif
