/* tokenizer_inside.h : a tokenizer from the inside, and the steps in which one is made.
 *
 * A reader (vocab.txt, tokenizer.json) fills an es_vocab_list with strings that still live in the
 * file's own memory, and the rules; es_tokenizer_build() turns them into tables.
 */
#ifndef ES_MODEL_TOKENIZER_INSIDE_H
#define ES_MODEL_TOKENIZER_INSIDE_H

#include <esscher/tokenizer.h>

#include "model/trie.h"

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

/*! es_tokenizer_read_json() : from the bytes of a tokenizer.json. */
es_status es_tokenizer_read_json(const char *data, size_t bytes, const char *path,
                                 es_budget *budget, es_tokenizer **out, es_error *err);

#endif
