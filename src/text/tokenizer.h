/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.h : what the library alone needs beside <esscher/tokenizer.h>. */
#ifndef ES_TEXT_TOKENIZER_H
#define ES_TEXT_TOKENIZER_H

#include <esscher/tokenizer.h>

es_tokenizer_info es_tokenizer_describe(const es_tokenizer *tokenizer);

/*! es_tokenizer_find() : the id of a token, -1 if there is none of this text. O(its length). */
int32_t es_tokenizer_find(const es_tokenizer *tokenizer, const char *token);

#endif
