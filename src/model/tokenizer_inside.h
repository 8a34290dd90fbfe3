/* tokenizer_inside.h : a tokenizer from the inside, from its characters to the steps in which one
 * is made.
 *
 * A reader (vocab.txt, tokenizer.json) fills an es_vocab_list with strings that still live in the
 * file's own memory, and the rules; es_tokenizer_build() turns them into tables; a stream
 * (token_stream.c) spells words and cuts them with those.
 */
#ifndef ES_MODEL_TOKENIZER_INSIDE_H
#define ES_MODEL_TOKENIZER_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <esscher/exec.h>
#include <esscher/tokenizer.h>

/* ---- a set of strings with ids (vocabulary.c) ----
 *
 * What is asked is the longest string that a text begins with. Edges live in one hash table keyed
 * by (node, byte), so that a step is one probe or two whatever the alphabet, and memory is a few
 * words per distinct prefix: 2 MB for BERT's 30522 tokens. */

typedef struct es_trie {
    uint64_t *edges; /* node(28) byte(8) child(28); 0: empty */
    int32_t *ids;    /* (nodes) of the string that ends here, or -1 */
    uint32_t slots, nodes, room;
    es_budget *budget;
} es_trie;

enum { ES_TRIE_ROOT = 1, ES_TRIE_NOWHERE = 0 };

/*! es_trie_open() : an empty trie. Fine to close after a failure. */
es_status es_trie_open(es_trie *trie, es_budget *budget, es_error *err);
void es_trie_close(es_trie *trie);

/*! es_trie_put() : give a string an id; the one it had, or -1, goes to *before. O(bytes).
 *  @return : ES_OK; ES_E_LIMIT over 2^27 distinct prefixes, or the budget; ES_E_MEMORY. */
es_status es_trie_put(es_trie *trie, const char *text, size_t bytes, int32_t id, int32_t *before,
                      es_error *err);

/*! es_trie_step() : the node that a byte leads to, or ES_TRIE_NOWHERE. Inline: every byte of every
 *  text takes one. */
static inline uint32_t es_trie_step(const es_trie *trie, uint32_t node, unsigned char byte)
{
    const uint64_t key = (uint64_t)node << 8 | byte;
    uint64_t slot = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    for (;; slot++) {
        const uint64_t edge = trie->edges[slot & (trie->slots - 1)];
        if (edge >> 28 == key)
            return (uint32_t)(edge & 0xfffffff);
        if (edge == 0)
            return ES_TRIE_NOWHERE;
    }
}

/*! es_trie_walk() : the node that a string leads to from `node`, or ES_TRIE_NOWHERE. */
uint32_t es_trie_walk(const es_trie *trie, uint32_t node, const char *text, size_t bytes);

/*! es_trie_longest() : the longest string, not empty, that the text begins with, going on from
 *  `node`; its length, or 0 if there is none. O(length of the walk). */
size_t es_trie_longest(const es_trie *trie, uint32_t node, const unsigned char *text, size_t bytes,
                       int32_t *id);

/* ---- the tokenizer ---- */

/* Files are small (BERT's tokenizer.json has 0.5 MB), words are cut in O(length^2) at worst and
 * added tokens are looked ahead for: none of these may be chosen by a file. */
enum { ES_TOKENIZER_MOST_BYTES = 32 << 20, ES_WORD_MOST_CHARS = 10000, ES_ADDED_MOST_BYTES = 1024 };

/* What an ASCII character does to a word, options of the normalizer included. */
typedef enum es_ascii_class {
    ES_ASCII_LETTER,
    ES_ASCII_DROP,
    ES_ASCII_SPACE,
    ES_ASCII_SIGN
} es_ascii_class;

struct es_tokenizer {
    es_budget *budget;
    es_tokenizer_info info;
    es_trie pieces;        /* the whole vocabulary */
    uint32_t continuing;   /* node of `pieces` that "##" leads to, or ES_TRIE_NOWHERE */
    es_trie added;         /* tokens that are taken out of the text before all else */
    bool added_first[256]; /* bytes that one of them begins with */
    size_t added_longest;
    char *text;      /* all tokens, each NUL-terminated */
    uint64_t *start; /* (size) where in text; UINT64_MAX: no token of this id */
    unsigned char ascii_class[128], ascii_lower[128];
};

/* A token as a reader found it. */
typedef struct es_vocab_entry {
    const char *text;
    size_t bytes;
    int64_t id;
    bool added; /* matched in the text as it stands, before it is normalized */
} es_vocab_entry;

/* What a reader found out. Strings belong to the reader's source. */
typedef struct es_vocab_list {
    const char *path; /* for messages */
    es_vocab_entry *entries;
    int64_t count, capacity;
    const char *unknown, *continuing;
    es_tokenizer_info rules; /* specials, max_chars and the normalizer's options */
    es_budget *budget;
} es_vocab_list;

es_status es_vocab_list_add(es_vocab_list *list, es_vocab_entry entry, es_error *err);
void es_vocab_list_free(es_vocab_list *list);

/*! es_tokenizer_build() : tables from a list; every id is checked. */
es_status es_tokenizer_build(const es_vocab_list *list, es_tokenizer **out, es_error *err);

/*! es_tokenizer_read_vocab() : from the bytes of a vocab.txt, and those of the
 *  tokenizer_config.json beside it (config NULL: none). */
es_status es_tokenizer_read_vocab(const char *data, size_t bytes, const char *path,
                                  const char *config, size_t config_bytes, es_budget *budget,
                                  es_tokenizer **out, es_error *err);

/* ---- values of a tokenizer's JSON files (tokenizer_json.c) ----
 *
 * Here JSON becomes a tree, jansson's, while headers and config.json are walked (json.h). The parts
 * of a tokenizer.json refer to each other in any order (a template names special tokens, whose ids
 * stand elsewhere; what a normalizer's key means depends on its type), so that one would have to be
 * built anyway. Files are capped at ES_TOKENIZER_MOST_BYTES, which bounds the tree; a header of 100
 * MB has no such cap. */

/* A parsed file and what messages need. Its memory is charged to the budget by a bound. */
typedef struct es_settings {
    json_t *root; /* an object */
    const char *path;
    es_budget *budget;
    size_t charged;
} es_settings;

/*! es_settings_open() : parse `bytes` bytes that hold one JSON object; a key twice is refused.
 *  @return : ES_OK; ES_E_FORMAT (tokenizer.json) with the byte; ES_E_LIMIT. */
es_status es_settings_open(es_settings *s, const char *data, size_t bytes, const char *path,
                           es_budget *budget, es_error *err);
void es_settings_close(es_settings *s);

/* Values of a key; where the key is missing or null *out stays as it is. Another type is
 * ES_E_FORMAT (tokenizer.key). */
es_status es_settings_bool(const es_settings *s, const json_t *object, const char *key, bool *out,
                           es_error *err);
es_status es_settings_text(const es_settings *s, const json_t *object, const char *key,
                           const char **out, es_error *err);

/*! es_tokenizer_read_json() : from the bytes of a tokenizer.json. */
es_status es_tokenizer_read_json(const char *data, size_t bytes, const char *path,
                                 es_budget *budget, es_tokenizer **out, es_error *err);

#endif
