/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_pre.h : the rules that the names of "tokenizer.ggml.pre" in GGUF files stand for.
 *
 * A GGUF does not say how text is divided into words, but names a pattern of llama.cpp's source.
 * The table here gives each name the parts that the tokenizer.json of the same model has.
 */
#ifndef ES_TEXT_GGUF_PRE_H
#define ES_TEXT_GGUF_PRE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

enum {
    ES_PRE_BEGINS = 1, /* a text begins with the token bos, unless the file says otherwise */
    ES_PRE_WHOLE = 2,  /* a word that is a token stays whole ("ignore_merges") */
    ES_PRE_NFC = 4     /* characters are composed first */
};

enum { ES_PRE_SPLITS = 8 };

/* How text is divided: each regular expression isolates its matches in what the former left. */
typedef struct es_pre_pattern {
    const char *splits[ES_PRE_SPLITS]; /* ends with NULL */
    bool gpt2_words;                   /* GPT-2's own expression comes last */
} es_pre_pattern;

/* One name. Several have one pattern; the first of them in the table gives it its name. */
typedef struct es_gguf_pre {
    const char *name;
    const es_pre_pattern *pattern;
    int flags; /* ES_PRE_... */
} es_gguf_pre;

/*! es_gguf_pre_at() : returns row i of the table, NULL behind the last. */
const es_gguf_pre *es_gguf_pre_at(int i);

/*! es_gguf_pre_find() : returns the row of a name of `bytes` bytes, NULL if there is none. */
const es_gguf_pre *es_gguf_pre_find(const char *name, size_t bytes);

/*! es_gguf_pre_first() : returns whether a row is the first of its pattern. */
bool es_gguf_pre_first(const es_gguf_pre *pre);

/*! es_gguf_pre_list() : writes the names of all patterns, and how many aliases there are. */
void es_gguf_pre_list(char *out, size_t capacity);

/*! es_gguf_pre_rules() : returns the parts of a tokenizer.json ("model" without a vocabulary,
 *  "normalizer", "pre_tokenizer") that a row stands for, NULL without memory. The caller releases
 *  it with json_decref(). */
json_t *es_gguf_pre_rules(const es_gguf_pre *pre);

#endif
