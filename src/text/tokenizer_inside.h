/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_inside.h : a tokenizer from the inside, from its characters to the steps in which one
 * is made.
 *
 * A reader (vocab.txt, tokenizer.json) fills an es_vocab_list with strings that still live in the
 * file's own memory, and the rules; es_tokenizer_build() turns them into tables; a stream cuts text
 * with those. How words are found and cut is described by a kind of tokenizer, es_token_kind; all
 * other code is the same for every kind.
 */
#ifndef ES_TEXT_TOKENIZER_INSIDE_H
#define ES_TEXT_TOKENIZER_INSIDE_H

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
    uint32_t slots, nodes, capacity;
    es_mem_limit *budget;
} es_trie;

enum { ES_TRIE_ROOT = 1, ES_TRIE_NOWHERE = 0 };

/*! es_trie_open() : an empty trie. Fine to close after a failure. */
es_status es_trie_open(es_trie *trie, es_mem_limit *budget, es_error *err);
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

/* ---- tokens by their text (vocabulary.c) ----
 *
 * What is asked is the id of a whole text, or of the texts of two tokens one after the other. A
 * hash is a polynomial of the bytes, so that that of two texts together follows from theirs; memory
 * is 20 to 28 bytes for each token, however long it is. */

typedef struct es_names {
    int32_t *slots;   /* (mask + 1) ids by open addressing, at most half of them; -1: empty */
    uint64_t *hashes; /* (size) of the text of an id */
    uint32_t *bytes;  /* (size) of the text of an id */
    size_t longest;   /* of `bytes` */
    uint64_t mask;
} es_names;

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

/* Tokens that are taken out of the text before all else. */
typedef struct es_added {
    es_trie trie;
    bool first[256]; /* bytes that one of them begins with */
    size_t longest;
} es_added;

/* How an added token is matched. */
enum {
    ES_ADDED_LSTRIP = 1,      /* takes the white space before it along */
    ES_ADDED_RSTRIP = 2,      /* and that behind it */
    ES_ADDED_SINGLE_WORD = 4, /* not where a letter or digit touches it */
    ES_ADDED_NORMALIZED = 8   /* looked for in the text that the normalizer has made */
};

/* What is WordPiece's own. */
typedef struct es_wordpiece_rules {
    es_trie pieces;      /* the whole vocabulary */
    uint32_t continuing; /* node of `pieces` that "##" leads to, or ES_TRIE_NOWHERE */
    unsigned char ascii_class[128], ascii_lower[128];
} es_wordpiece_rules;

typedef struct es_token_kind es_token_kind;

struct es_tokenizer {
    const es_token_kind *kind;
    es_mem_limit *budget;
    es_tokenizer_info info;
    es_names names;  /* the whole vocabulary */
    es_added added;  /* matched in the text as it stands */
    char *text;      /* all tokens, each NUL-terminated */
    uint64_t *start; /* (size) where in text; UINT64_MAX: no token of this id */
    es_wordpiece_rules wordpiece;
    struct es_bpe *bpe;
};

/*! es_tokenizer_id() : returns the id of a text of `bytes` bytes, -1 if it is not a token.
 *  O(bytes). es_tokenizer_joined() : returns the id of the texts of two tokens one after the
 *  other. O(1), and O(bytes) if that token exists. */
int32_t es_tokenizer_id(const es_tokenizer *t, const char *text, size_t bytes);
int32_t es_tokenizer_joined(const es_tokenizer *t, int32_t left, int32_t right);

/* A token as a reader found it. */
typedef struct es_vocab_entry {
    const char *text;
    size_t bytes;
    int64_t id;
    bool added;          /* also matched in the text, before it is cut into words */
    unsigned char flags; /* ES_ADDED_... */
} es_vocab_entry;

/* What a reader found out. Strings belong to the reader's source. */
typedef struct es_vocab_list {
    const char *path; /* for messages */
    const es_token_kind *kind;
    es_vocab_entry *entries;
    int64_t count, capacity;
    const char *unknown, *continuing; /* unknown may be NULL where the kind needs none */
    es_tokenizer_info rules;          /* specials, max_chars and the normalizer's options */
    es_mem_limit *budget;
} es_vocab_list;

es_status es_vocab_list_add(es_vocab_list *list, es_vocab_entry entry, es_error *err);
void es_vocab_list_free(es_vocab_list *list);

/*! es_added_put() : one more added token. Its length is how far a stream has to look ahead, so it
 * is bounded. @return : ES_OK; ES_E_UNSUPPORTED (tokenizer.added); ES_E_LIMIT, ES_E_MEMORY. */
es_status es_added_put(es_added *added, const char *text, size_t bytes, int32_t id,
                       const char *path, es_error *err);

/* What is in a list, for a bound of the memory that its tables take. */
typedef struct es_tokenizer_size {
    int64_t tokens, merges;
    size_t text;  /* bytes of all tokens */
    size_t added; /* bytes of those that go into a trie */
} es_tokenizer_size;

/*! es_tokenizer_most() : bytes that are taken at most at a time while a tokenizer is made, without
 *  those of the file. */
size_t es_tokenizer_most(const es_tokenizer_size *size);

/*! es_tokenizer_build() : tables from a list; every id is checked. */
es_status es_tokenizer_build(const es_vocab_list *list, es_tokenizer **out, es_error *err);

/*! es_tokenizer_read_vocab() : from the bytes of a vocab.txt, and those of the
 *  tokenizer_config.json beside it (config NULL: none). */
es_status es_tokenizer_read_vocab(const char *data, size_t bytes, const char *path,
                                  const char *config, size_t config_bytes, es_mem_limit *budget,
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
    es_mem_limit *budget;
    size_t charged;
} es_settings;

/*! es_settings_open() : parse `bytes` bytes that hold one JSON object; a key twice is refused, a
 *  byte order mark is skipped, integers become f64.
 *  @return : ES_OK; ES_E_FORMAT (tokenizer.json) with the byte; ES_E_LIMIT. */
es_status es_settings_open(es_settings *s, const char *data, size_t bytes, const char *path,
                           es_mem_limit *budget, es_error *err);

/*! es_settings_pick() : as es_settings_open(), but only the members named in `wanted`, which ends
 *  with NULL. For configuration files, of which we use a few keys: what the others hold is checked
 *  to be JSON, or NaN or Infinity, and they may repeat. */
es_status es_settings_pick(es_settings *s, const char *data, size_t bytes, const char *path,
                           const char *const *wanted, es_mem_limit *budget, es_error *err);
void es_settings_close(es_settings *s);

/* Values of a key; where the key is missing or null *out stays as it is. Another type is
 * ES_E_FORMAT (tokenizer.key). */
es_status es_settings_bool(const es_settings *s, const json_t *object, const char *key, bool *out,
                           es_error *err);
es_status es_settings_text(const es_settings *s, const json_t *object, const char *key,
                           const char **out, es_error *err);

es_status es_settings_int(const es_settings *s, const json_t *object, const char *key, int64_t *out,
                          es_error *err);

/*! es_settings_fail() : the value of `key` is not what the format says: ES_E_FORMAT
 *  (tokenizer.key). */
es_status es_settings_fail(const es_settings *s, const char *key, const char *wanted,
                           es_error *err);

/*! es_settings_refuse() : fails for a valid file that uses a feature which is not supported;
 *  the hint lists those that are. `found` is its name, NULL: none. ES_E_UNSUPPORTED with the
 *  rule. */
es_status es_settings_refuse(const es_settings *s, const char *rule, const char *what,
                             const char *found, const char *known, es_error *err);

/*! es_settings_type() : the "type" of a part, NULL where there is none, as in a part that is
 *  null. */
const char *es_settings_type(const json_t *part);
bool es_settings_is(const json_t *part, const char *type);

/*! es_settings_only() : fails for a key of the model that is not in `known`, which ends with NULL:
 *  one that we do not know may change every id. ES_E_UNSUPPORTED (tokenizer.model). */
es_status es_settings_only(const es_settings *s, json_t *model, const char *const *known,
                           es_error *err);

/* Parts that every kind has. */
es_status es_settings_vocab(const es_settings *s, const json_t *model, es_vocab_list *list,
                            es_error *err);
es_status es_settings_added(const es_settings *s, es_vocab_list *list, es_error *err);
es_status es_settings_template(const es_settings *s, es_tokenizer_info *rules, es_error *err);

/*! es_tokenizer_read_json() : from the bytes of a tokenizer.json. */
es_status es_tokenizer_read_json(const char *data, size_t bytes, const char *path,
                                 es_mem_limit *budget, es_tokenizer **out, es_error *err);

/*! es_tokenizer_find_begin() : info.begin, from the files beside the tokenizer.json of this path.
 *  @return : ES_OK; ES_E_FORMAT (tokenizer.json, tokenizer.key) naming the file; ES_E_IO,
 *  ES_E_LIMIT, ES_E_MEMORY. */
es_status es_tokenizer_find_begin(es_tokenizer *t, const char *json, es_error *err);

/* ---- kinds ---- */

struct es_token_stream {
    const es_tokenizer *tokenizer;
    es_encode_opts opts;
    es_token_sink sink;
    void *user;
    es_mem_limit *budget;
    void *state;   /* of the kind */
    int64_t texts; /* finished */
    struct {
        int64_t count, text, at; /* of the first */
    } replaced;
    bool begun;
    es_status status; /* of the text; a failure sticks until it is finished */
    es_error failure;
};

/*! es_stream_put() : tokens to the sink, unless the text has failed already. */
void es_stream_put(es_token_stream *s, const es_token *tokens, int64_t count);

/*! es_stream_replace() : byte `at` of the text is no UTF-8; may U+FFFD stand for it? If not, the
 *  text has failed. */
bool es_stream_replace(es_token_stream *s, int64_t at, unsigned char byte);

/* A kind of tokenizer. A stream's functions leave failures in stream->status; all but `close` are
 * called only while that is ES_OK, except `finish`, which makes it ready for another text. */
struct es_token_kind {
    const char *type; /* of the model in tokenizer.json */
    const char *sign; /* a key of the model that identifies its type in old files without one */
    es_status (*read)(const es_settings *s, es_vocab_list *list, es_tokenizer **out, es_error *err);
    es_status (*prepare)(es_tokenizer *t, const es_vocab_list *list, es_error *err); /* tables */
    void (*free)(es_tokenizer *t);
    es_status (*open)(es_token_stream *s, es_error *err); /* closed after a failure, too */
    void (*write)(es_token_stream *s, const unsigned char *p, size_t bytes);
    void (*finish)(es_token_stream *s);
    void (*close)(es_token_stream *s);
};

extern const es_token_kind es_kind_wordpiece, es_kind_bpe, es_kind_unigram;

/*! es_wordpiece_read(), es_bpe_read(), es_unigram_read() : the rules of a tokenizer.json, whose
 * kind is known. */
es_status es_wordpiece_read(const es_settings *s, es_vocab_list *list, es_tokenizer **out,
                            es_error *err);
es_status es_bpe_read(const es_settings *s, es_vocab_list *list, es_tokenizer **out, es_error *err);
es_status es_unigram_read(const es_settings *s, es_vocab_list *list, es_tokenizer **out,
                          es_error *err);

#endif
