/* SPDX-License-Identifier: Apache-2.0 */
/* splitter.h : where words are, the pre-tokenizers of a tokenizer.json: ByteLevel, Split,
 * Metaspace, Digits, Punctuation, WhitespaceSplit.
 *
 * All of them are one thing with other settings: text is put before the first word, spaces are
 * spelt otherwise, and a pattern divides what is there. Several make a chain, each dividing the
 * words of the one before it; the last hands words to a sink.
 */
#ifndef ES_TEXT_SPLITTER_H
#define ES_TEXT_SPLITTER_H

#include "text/normalizer.h"

/* What becomes of the text that a pattern matches. */
typedef enum es_split_behavior {
    ES_SPLIT_REMOVED,
    ES_SPLIT_ISOLATED,
    ES_SPLIT_MERGED_WITH_PREVIOUS,
    ES_SPLIT_MERGED_WITH_NEXT,
    ES_SPLIT_CONTIGUOUS
} es_split_behavior;

typedef enum es_split_prefix {
    ES_PREFIX_NEVER,
    ES_PREFIX_FIRST, /* where the text begins, not behind an added token */
    ES_PREFIX_ALWAYS
} es_split_prefix;

typedef struct es_splitter {
    es_split_prefix prefix;
    char space[8];       /* what a space becomes, and what goes before the text */
    es_pattern *pattern; /* NULL: words stay whole */
    es_split_behavior behavior;
    bool invert; /* words are what matches; the behaviour is that of the rest */
    bool spells; /* the first behind ByteLevel: its pattern sees a letter for each byte */
} es_splitter;

enum { ES_SPLITTERS_MOST = 16 };

typedef struct es_splitters {
    es_splitter steps[ES_SPLITTERS_MOST];
    int count;
    bool byte_level; /* the vocabulary is spelt in bytes */
    bool spelt;      /* some step spells */
    es_mem_limit *budget;
} es_splitters;

/*! es_splitters_read() : the part "pre_tokenizer" of a tokenizer.json; null is none. Close it after
 * a failure, too. @return : ES_OK; ES_E_UNSUPPORTED (tokenizer.pretokenizer, tokenizer.pattern),
 *  ES_E_FORMAT (tokenizer.key). */
es_status es_splitters_read(es_splitters *p, const es_settings *s, es_error *err);
void es_splitters_close(es_splitters *p);

/* Takes bytes [begin, end) of a text, which hold a word; all of it if nothing follows (last), else
 * as much as what follows cannot change. *taken is how far it got. */
typedef es_status (*es_word_sink)(void *user, const es_aligned *text, size_t begin, size_t end,
                                  bool last, size_t *taken, es_error *err);

/* What dividing needs; belongs to one thread. Begin with zeros and what is named below. */
typedef struct es_splitting {
    const es_splitters *chain;
    es_matcher *matcher;
    es_word_sink sink;
    void *user;
    es_aligned rewritten[ES_SPLITTERS_MOST]; /* text that a step has changed */
    es_aligned bytes;                        /* a word whose letters are bytes again */
    bool begun;                              /* words of this section have gone to the sink */
    es_mem_limit *budget;
} es_splitting;

void es_splitting_free(es_splitting *work);

/*! es_splitting_run() : words of a text, from its beginning; *taken bytes of it are done with, all
 *  if it is the `last` of its section, behind which a new one begins. */
es_status es_splitting_run(es_splitting *work, const es_aligned *text, bool last, size_t *taken,
                           es_error *err);

#endif
