/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_tokenizer.h : the tokenizer that a GGUF carries with it. */
#ifndef ES_TEXT_GGUF_TOKENIZER_H
#define ES_TEXT_GGUF_TOKENIZER_H

#include <esscher/tokenizer.h>

#include "checkpoint/gguf_inside.h"

/*! es_gguf_tokenizer() : made from the values "tokenizer.ggml.*" of a header, which is not needed
 *  afterwards; release it with es_tokenizer_free(). O(bytes of tokens and merges), and of pieces
 *  with scores O(tokens log tokens); memory a few times the header.
 *  @return : ES_OK; ES_E_FORMAT: gguf.missing, gguf.value, gguf.token, vocab.empty,
 *  tokenizer.merge, tokenizer.id.clash, tokenizer.special; ES_E_UNSUPPORTED: gguf.tokenizer (a
 *  model or a pre-tokenizer by name), gguf.token, tokenizer.added; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_gguf_tokenizer(const es_gguf_header *h, es_mem_limit *budget, es_tokenizer **out,
                            es_error *err);

/*! es_gguf_tokenizer_memory() : bytes that it takes at most at a time. O(tokens). */
size_t es_gguf_tokenizer_memory(const es_gguf_header *h);

#endif
