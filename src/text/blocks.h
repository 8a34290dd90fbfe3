/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h : texts as blocks of token ids, the form in which a model reads them. */
#ifndef ES_TEXT_BLOCKS_H
#define ES_TEXT_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>
#include <esscher/tokenizer.h>

/* Token ids, cut into blocks: block b has ids[start[b] .. start[b + 1]), specials included. */
typedef struct es_blocks {
    int32_t *ids;
    int64_t *start; /* (count + 1) */
    int64_t count;
    int64_t repeats; /* how often the texts were begun again because they were too short */
    int64_t of;      /* whole blocks of the text that these were taken from evenly; 0: they are the
                        first, or all */
    int64_t *bytes; /* (count) of the text that a block's ids stand for, its first not counted: what
                       a model that predicts the next id is asked for. NULL unless `running` */
    es_mem_limit *budget;
} es_blocks;

/* A control for what the order of a text does: what was read is put into another order before the
 * model sees it. The same tokens in as many blocks as long as before, whatever the order. */
typedef enum es_text_shuffle {
    ES_SHUFFLE_NONE = 0,
    ES_SHUFFLE_WORD = 1,     /* words, as the tokenizer divides: punctuation is one, too */
    ES_SHUFFLE_SENTENCE = 2, /* sentences: up to . ! ? and what closes after it before white space,
                                or a blank line; abbreviations end one, too */
    ES_SHUFFLE_BLOCK = 3     /* blocks, which the model sees as they were */
} es_text_shuffle;

/* Which blocks are taken of a text that has more whole ones than are wanted. Neighbours are about
 * the same thing: errors over blocks are right for blocks that lie far apart. */
typedef enum es_blocks_from {
    ES_BLOCKS_EVEN = 0, /* evenly from all of the text: number j of B is block floor((j + 1/2) N/B)
                           of its N whole ones */
    ES_BLOCKS_START = 1 /* the first ones */
} es_blocks_from;

typedef struct es_blocks_spec {
    const es_tokenizer *tokenizer;
    const char *const *texts; /* (n_texts) files, UTF-8; each begins a new block */
    int64_t n_texts;
    int64_t length;          /* most ids of a block, specials included */
    int64_t tokens;          /* wanted in all, specials included; 0: all there are. A rest too short
                                for a token between specials is left out */
    bool repeat;             /* a text that is too short is read again, and it is recorded */
    es_text_invalid invalid; /* bytes that are no UTF-8 */
    int64_t vocab;           /* as in es_encode_opts */
    bool counted;            /* only count tokens: the warning about such bytes comes when
                                the blocks are read */
    es_text_shuffle shuffle; /* a pure function of seed and text */
    uint64_t seed;
    /* Pieces of running text, for models that predict what comes next: a block begins with the ids
     * of `start` (n_start, at most ES_TOKENIZER_SPECIALS) instead of what the tokenizer puts before
     * a text, and nothing ends it. Not with a shuffle. */
    bool running;
    const int32_t *start;
    int64_t n_start;
    int64_t most;        /* blocks; 0: all */
    es_blocks_from from; /* which, where `most` or `tokens` are fewer than the text has. Evenly: the
                            texts are read twice, once to be counted */
    /* Asked after each piece of a text, as that of es_exec: true stops reading. NULL: not asked */
    es_progress_fn progress;
    void *progress_user;
} es_blocks_spec;

/*! es_blocks_read() : tokenize the texts and cut them. The last block is as long as is needed.
 *  O(text) time; memory of the ids, six times as much while they are shuffled. Release with
 *  es_blocks_free().
 *  @return : ES_OK; ES_E_EMPTY (pool.short) if there are fewer tokens than wanted and repeat is
 *  false, or none at all; what es_text_check() and the tokenizer return; ES_E_IO; ES_E_RANGE
 *  (pool.length); ES_E_INTERRUPTED if spec->progress says so. */
es_status es_blocks_read(const es_blocks_spec *spec, es_mem_limit *budget, es_blocks *out,
                         es_error *err);
void es_blocks_free(es_blocks *blocks);

/* Texts that are a share of a mixture. */
typedef struct es_text_part {
    const char *const *texts; /* (n_texts), as in es_blocks_spec */
    int64_t n_texts;
    double share; /* of the tokens, specials included; those of all parts add up to 1 */
} es_text_part;

enum { ES_TEXT_PARTS = 64 }; /* at most */

/* What became of a part. */
typedef struct es_text_used {
    int64_t tokens, blocks, repeats;
} es_text_used;

/*! es_blocks_mix() : the same of parts (count), which have their shares of spec->tokens, or of as
 *  many as the part that is used up first allows; spec->texts is not looked at. Blocks of the parts
 *  take turns, so that any stretch of the result has the mixture, to a block. used (count) may be
 *  NULL. @return : ES_OK; ES_E_RANGE (pool.mix) for shares that are none, or too small for a block;
 *  as es_blocks_read(), a part that is too short included. */
es_status es_blocks_mix(const es_blocks_spec *spec, const es_text_part *parts, int64_t count,
                        es_mem_limit *budget, es_blocks *out, es_text_used *used, es_error *err);

/* How much text there is in what was read. */
typedef struct es_text_facts {
    int64_t tokens;  /* ids of the text itself: specials of blocks are not counted */
    int64_t unknown; /* of them, [UNK] */
    /* Share of the stretches of ES_TEXT_STRETCH ids, one from each id on, that stood before in the
     * same words: 0.999 of a line that comes a thousand times. Exact up to 65536 different ones;
     * beyond, to 1 % of the share that is new (one standard deviation is 0.6 %). */
    double repeated;
} es_text_facts;

enum { ES_TEXT_STRETCH = 16 };

/*! es_blocks_facts() : O(ids) time; at most 1.5 MiB of memory. A pure function of the ids.
 *  @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_blocks_facts(const es_blocks *blocks, const es_tokenizer *tokenizer,
                          es_text_facts *out, es_error *err);

#endif
