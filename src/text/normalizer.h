/* SPDX-License-Identifier: Apache-2.0 */
/* normalizer.h : text that knows where it came from, and the steps that change it before words are
 * looked for: NFC, NFKC, Precompiled, Strip, Prepend, Replace.
 *
 * A text may come in pieces. es_normalizers_cut() says where one may be cut so that its parts,
 * normalized one by one, are what the whole would have become.
 */
#ifndef ES_TEXT_NORMALIZER_H
#define ES_TEXT_NORMALIZER_H

#include "text/charsmap.h"
#include "text/pattern.h"
#include "text/tokenizer_inside.h"

/* ---- text with places ---- */

/* Each byte was made from bytes [from, to) of the text as it was written; from = to for one that a
 * step put there. Begin with {.budget = ...}. */
typedef struct es_aligned {
    unsigned char *bytes;
    int64_t *from, *to;
    size_t used;
    int64_t bytes_capacity, from_capacity, to_capacity;
    es_mem_limit *budget;
} es_aligned;

/*! es_aligned_put() : append bytes that were all made from [from, to). */
es_status es_aligned_put(es_aligned *a, const void *bytes, size_t count, int64_t from, int64_t to,
                         es_error *err);

/*! es_aligned_text() : append bytes of the text as it is written, the first of which is its byte
 *  `at`. */
es_status es_aligned_text(es_aligned *a, const unsigned char *bytes, size_t count, int64_t at,
                          es_error *err);

/*! es_aligned_copy() : append bytes [begin, end) of another text, places included. */
es_status es_aligned_copy(es_aligned *a, const es_aligned *b, size_t begin, size_t end,
                          es_error *err);

/*! es_aligned_drop() : forget the first `count` bytes. */
void es_aligned_drop(es_aligned *a, size_t count);
void es_aligned_free(es_aligned *a);

/* ---- steps ---- */

/*! es_settings_pattern() : the "pattern" of a part, {"String": ...} or {"Regex": ...}. *single: it
 *  is one character. @return : as es_pattern_open(); ES_E_FORMAT (tokenizer.key). */
es_status es_settings_pattern(const es_settings *s, const json_t *part, es_mem_limit *budget,
                              es_pattern **out, bool *single, es_error *err);

enum { ES_NORMALIZERS_MOST = 16 };

typedef struct es_normalizer_kind es_normalizer_kind;

typedef struct es_normalizer {
    const es_normalizer_kind *kind;
    es_pattern *pattern;   /* what is replaced */
    char *text;            /* by what; or what is prepended */
    es_charsmap map;       /* of Precompiled */
    bool at_begin, at_end; /* where Strip takes white space away */
} es_normalizer;

typedef struct es_normalizers {
    es_normalizer steps[ES_NORMALIZERS_MOST];
    int count;
    bool whole; /* text cannot be cut */
    es_mem_limit *budget;
} es_normalizers;

/*! es_normalizers_read() : the part "normalizer" of a tokenizer.json; null is none. Close it after
 * a failure, too. @return : ES_OK; ES_E_UNSUPPORTED (tokenizer.normalizer, tokenizer.pattern),
 *  ES_E_FORMAT (tokenizer.key, tokenizer.charsmap). */
es_status es_normalizers_read(es_normalizers *n, const es_settings *s, es_error *err);
void es_normalizers_close(es_normalizers *n);

/* What steps need to work with; belongs to one thread. Begin with zeros and a matcher. */
typedef struct es_normalizing {
    es_matcher *matcher;
    es_aligned first, second; /* between steps */
    int32_t *run;             /* characters that may compose, and as much space again */
    int64_t run_capacity;
    es_mem_limit *budget;
} es_normalizing;

void es_normalizing_free(es_normalizing *work);

/*! es_normalizers_cut() : the most bytes, of those given, after which the text may be cut. */
size_t es_normalizers_cut(const es_normalizers *n, const unsigned char *text, size_t bytes);

/*! es_normalizers_run() : work->first, which holds the text, normalized, is appended to `out`. It
 * is then empty. `fresh`: nothing of this text went before. */
es_status es_normalizers_run(const es_normalizers *n, es_normalizing *work, bool fresh,
                             es_aligned *out, es_error *err);

#endif
