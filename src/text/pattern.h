/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h : the regular expressions of a tokenizer.json, matched by PCRE2.
 *
 * Patterns come from a file, so nothing about them is trusted: their length is bounded, and a match
 * that takes too many steps, or goes too deep, or matches that together take more than the text can
 * justify, fail and name the pattern. Hugging Face's own
 * matcher is Oniguruma; what is written alike and means another thing there is translated (\s is
 * White_Space, ^ and $ stand at every line) or refused (\h, && in a class).
 */
#ifndef ES_TEXT_PATTERN_H
#define ES_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include <esscher/exec.h>

enum { ES_PATTERN_MOST_BYTES = 8192 };

typedef struct es_pattern es_pattern;

/*! es_pattern_open() : compile a regular expression, or a text that is meant literally.
 *  @return : ES_OK; ES_E_UNSUPPORTED (tokenizer.pattern) with `path` and what PCRE2 says;
 *  ES_E_LIMIT, ES_E_MEMORY. Then *out is NULL. */
es_status es_pattern_open(const char *text, bool literal, const char *path, es_mem_limit *budget,
                          es_pattern **out, es_error *err);
void es_pattern_close(es_pattern *pattern);

/*! es_pattern_streams() : returns whether a match does not depend on the text before its beginning.
 *  Then text that has been matched may be forgotten. */
bool es_pattern_streams(const es_pattern *pattern);

/* Memory that matching needs; belongs to one thread at a time. */
typedef struct es_matcher es_matcher;

es_status es_matcher_open(es_mem_limit *budget, es_matcher **out, es_error *err);
void es_matcher_close(es_matcher *matcher);

/*! es_matcher_work() : what all matches so far have looked at beyond their words, in bytes and
 * steps. A text of n bytes may take 4 M + 64 n of it. */
double es_matcher_work(const es_matcher *matcher);

typedef enum es_found {
    ES_FOUND_NONE,  /* no match from here to the end */
    ES_FOUND_MATCH, /* [begin, end), which may be empty */
    ES_FOUND_WAIT   /* what follows the text could change the answer; not if it is the last */
} es_found;

/*! es_pattern_find() : the first match in text[from, bytes), which is UTF-8. `last`: nothing
 *  follows it. @return : ES_OK; ES_E_LIMIT (tokenizer.pattern) if it takes too long. */
es_status es_pattern_find(const es_pattern *pattern, es_matcher *matcher, const unsigned char *text,
                          size_t bytes, size_t from, bool last, es_found *found, size_t *begin,
                          size_t *end, es_error *err);

#endif
