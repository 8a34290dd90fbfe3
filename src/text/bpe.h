/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.h : byte-pair encoding. A word begins as its characters, or its bytes; of all neighbours that
 * the list of merges has, the pair that stands first in it becomes one piece, the leftmost first,
 * until none is left.
 */
#ifndef ES_TEXT_BPE_H
#define ES_TEXT_BPE_H

#include "text/splitter.h"

/* ---- what a tokenizer knows ---- */

/* A set or map of 64-bit keys by open addressing; at most half of the slots are used. Keys are
 * never UINT64_MAX. */
typedef struct es_pair_table {
    uint64_t *keys;   /* (slots) UINT64_MAX: empty */
    uint64_t *values; /* (slots) */
    uint64_t slots;
} es_pair_table;

typedef struct es_bpe {
    es_pair_table merges; /* left and right piece: rank, and the piece they become */
    /* Of pieces with scores, instead of a list: any two pieces that together are one merge into it,
     * with its rank. (size) UINT32_MAX: a token that takes no part. NULL: there is a list */
    uint32_t *ranks;
    struct es_unigram *unigram; /* instead of merges, NULL: there are merges (unigram.h) */
    uint64_t *joints;   /* characters that some merge has on its two sides, and a few more; see
                           cuts and es_bpe_joins() */
    int32_t bytes[256]; /* piece of a byte: its letter, or <0xNN> to fall back on; -1: none */
    int32_t ascii[128]; /* piece of a character, -1: none */
    bool byte_level;    /* words are spelt in bytes, not characters */
    bool byte_fallback, fuse_unk, ignore_merges;
    bool cuts; /* words may be cut where no merge can join what stands on either side */
    es_normalizers normalizers;
    es_splitters splitters;
    es_added normalized;  /* added tokens that are looked for in normalized text */
    unsigned char *flags; /* (size) ES_ADDED_... of an id */
    bool lstrip;          /* some token takes white space before it */
} es_bpe;

es_status es_pair_table_open(es_pair_table *table, int64_t count, es_mem_limit *budget,
                             es_error *err);
void es_pair_table_close(es_pair_table *table, es_mem_limit *budget);
void es_pair_table_put(es_pair_table *table, uint64_t key, uint64_t value);

/*! es_pair_table_find() : the value of a key, UINT64_MAX: none. */
static inline uint64_t es_pair_table_find(const es_pair_table *table, uint64_t key)
{
    uint64_t slot = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 24;
    for (;; slot++) {
        const uint64_t found = table->keys[slot & (table->slots - 1)];
        if (found == key)
            return table->values[slot & (table->slots - 1)];
        if (found == UINT64_MAX)
            return UINT64_MAX;
    }
}

static inline uint64_t es_token_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Joints are bits by the hash of two characters. That two may share one only means fewer cuts, and
 * memory does not grow with the vocabulary. */
enum { ES_JOINT_BITS = 19 };

static inline uint64_t es_joint_of(int32_t left, int32_t right)
{
    return (es_token_pair(left, right) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - ES_JOINT_BITS);
}

/*! es_bpe_joins() : returns whether a merge may join what ends with `left` to what begins with
 * `right`. */
static inline bool es_bpe_joins(const es_bpe *bpe, int32_t left, int32_t right)
{
    const uint64_t bit = es_joint_of(left, right);
    return bpe->joints[bit / 64] >> bit % 64 & 1;
}

/*! es_byte_letter() : the character that stands for a byte where a vocabulary is spelt in bytes:
 *  itself if it is printable in Latin-1, else one from U+0100 on. es_letter_byte() : the byte that
 *  such a character stands for. */
int32_t es_byte_letter(unsigned char byte);
unsigned char es_letter_byte(int32_t letter);

/* ---- making one (bpe_json.c) ---- */

/* Two pieces that become one. */
typedef struct es_merge {
    const char *left, *right;
    size_t left_bytes, right_bytes;
} es_merge;

/* Puts all merges: es_bpe_scratch() for as many, then es_bpe_put() for each; or fills bpe->ranks
 * and puts joints; or makes bpe->unigram. */
typedef es_status (*es_merge_source)(es_tokenizer *t, const void *from, es_error *err);

es_status es_bpe_scratch(es_tokenizer *t, int64_t count, es_error *err);

/*! es_bpe_put_joints() : every two neighbouring characters of a text may be joined. Clears
 *  bpe->cuts if the text stands for something else, <0x0A> for a byte. */
void es_bpe_put_joints(es_bpe *bpe, const char *text, size_t bytes);

/*! es_bpe_put() : one merge. Those of smaller rank go first, of equal ranks the leftmost in a word.
 *  @return : ES_OK; ES_E_FORMAT (tokenizer.merge) if a piece is not in the vocabulary. */
es_status es_bpe_put(es_tokenizer *t, const char *path, int64_t rank, const es_merge *m,
                     es_error *err);

/*! es_bpe_build() : a tokenizer of byte pairs from a vocabulary, merges, and the rules of a
 *  tokenizer.json: flags of its model, normalizer and pre_tokenizer. */
es_status es_bpe_build(const es_settings *s, const es_vocab_list *list, es_merge_source merges,
                       const void *from, es_tokenizer **out, es_error *err);

/*! es_bpe_check_decoder() : fails for a decoder that is not known. Decoders only matter for turning
 *  tokens back into text, but an unknown one often means an unknown kind of vocabulary.
 *  @return : ES_OK; ES_E_UNSUPPORTED (tokenizer.decoder), ES_E_FORMAT (tokenizer.key). */
es_status es_bpe_check_decoder(const es_settings *s, es_error *err);

/* ---- cutting words ---- */

/* A piece of a word, and how many of its bytes it has. An id of -1 is no token: the bytes are left
 * out. */
typedef struct es_piece {
    int32_t id;
    uint32_t bytes;
} es_piece;

/* A symbol of a word that is being merged; in a list, for merging takes one out. */
typedef struct es_symbol {
    int32_t id;
    uint32_t bytes; /* 0: it was taken out */
    int32_t before, after;
} es_symbol;

/* What cutting needs; belongs to one thread. Begin with zeros, tokenizer and budget. */
typedef struct es_cutting {
    const es_tokenizer *tokenizer;
    es_mem_limit *budget;
    unsigned char *spelt; /* a word as the vocabulary spells it */
    es_symbol *symbols;
    uint64_t *queue;            /* pairs that may be merged: rank, place of the left one; a heap */
    struct es_best_path *paths; /* of Unigram: the best path to each byte */
    es_piece *pieces;
    int64_t spelt_capacity, symbols_count, symbols_capacity, queue_count, queue_capacity,
        pieces_count, pieces_capacity, paths_capacity;
    struct es_word_cache *cache; /* short words that were cut already, made when text is long */
    int64_t words;
} es_cutting;

/*! es_cutting_spells() : returns whether the vocabulary has a token for each of these bytes, to
 * fall back on. */
bool es_cutting_spells(const es_bpe *bpe, const unsigned char *p, size_t bytes);

/*! es_cutting_run() : the pieces of a word of 1 to 2^31 - 1 bytes, in work->pieces. O(bytes log
 *  bytes). @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_cutting_run(es_cutting *work, const unsigned char *word, size_t bytes, es_error *err);
void es_cutting_free(es_cutting *work);

#endif
