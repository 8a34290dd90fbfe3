/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_source.h : the tokenizer of a GGUF while it is read: arrays of the file, and what all kinds
 * of tokenizers read alike. */
#ifndef ES_TEXT_GGUF_SOURCE_H
#define ES_TEXT_GGUF_SOURCE_H

#include "checkpoint/gguf_inside.h"
#include "text/tokenizer_inside.h"

#define ES_GGUF_TOKENS(name) "tokenizer.ggml." name

/* What a token is for, by its number in the file. */
typedef enum es_gguf_token_type {
    ES_GGUF_TOKEN_NORMAL = 1,
    ES_GGUF_TOKEN_UNKNOWN,
    ES_GGUF_TOKEN_CONTROL,
    ES_GGUF_TOKEN_USER_DEFINED,
    ES_GGUF_TOKEN_UNUSED,
    ES_GGUF_TOKEN_BYTE
} es_gguf_token_type;

typedef struct es_gguf_source {
    const es_gguf_header *h;
    const es_gguf_value *tokens, *types, *scores, *merges;
} es_gguf_source;

/*! es_gguf_source_open() : finds the arrays of the tokenizer and checks that they have one entry
 *  per token, each of a known type. @return : ES_OK; ES_E_FORMAT (gguf.missing, gguf.value,
 *  vocab.empty). */
es_status es_gguf_source_open(es_gguf_source *s, bool scores, bool merges, es_error *err);

static inline int es_gguf_source_type(const es_gguf_source *s, int64_t id)
{
    return (int)es_gguf_number(s->h, s->types, id);
}

/*! es_gguf_source_token() : returns the text of a token. O(id). */
es_gguf_text es_gguf_source_token(const es_gguf_source *s, int64_t id);

/*! es_gguf_source_check() : fails unless the text of token `id`, at `offset` of the file, is UTF-8.
 *  @return : ES_OK; ES_E_FORMAT (gguf.token). */
es_status es_gguf_source_check(const es_gguf_source *s, es_gguf_text text, int64_t id,
                               size_t offset, es_error *err);

/*! es_gguf_source_special() : puts a token around texts, if `add_key` says so, or, where it is
 *  missing, if `usual`: that of `id_key`, where it is missing `id`; -1: it must be there. */
es_status es_gguf_source_special(const es_gguf_source *s, const char *add_key, const char *id_key,
                                 bool usual, int64_t id, int *count, int32_t *ids, es_error *err);

/*! es_gguf_source_unknown() : writes the text of the unknown token, `usual` where no key names one.
 *  @return : ES_OK; ES_E_FORMAT (gguf.value); ES_E_UNSUPPORTED (gguf.tokenizer: a long one). */
enum { ES_GGUF_UNKNOWN = 64 };
es_status es_gguf_source_unknown(const es_gguf_source *s, int64_t usual, int64_t *id,
                                 char out[ES_GGUF_UNKNOWN], es_error *err);

/*! es_gguf_source_refuse() : fails because of the value of a key; `known` says what is supported.
 *  @return : ES_E_UNSUPPORTED (gguf.tokenizer). */
es_status es_gguf_source_refuse(const es_gguf_source *s, const char *key, es_gguf_text found,
                                const char *known, es_error *err);

/* ---- kinds with files of their own ---- */

/*! es_gguf_wordpiece() : builds the tokenizer of `model` "bert" (gguf_wordpiece.c).
 *  es_gguf_unigram() : builds that of `model` "t5" (gguf_unigram.c). */
es_status es_gguf_wordpiece(es_gguf_source *s, es_vocab_list *list, es_tokenizer **out,
                            es_error *err);
es_status es_gguf_unigram(es_gguf_source *s, es_vocab_list *list, es_tokenizer **out,
                          es_error *err);

#endif
