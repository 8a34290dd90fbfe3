/* SPDX-License-Identifier: Apache-2.0 */
/* golden_bpe.h : the small tokenizers of tests/golden/bpe, and streams that must agree with them.
 */
#ifndef ES_TESTS_GOLDEN_BPE_H
#define ES_TESTS_GOLDEN_BPE_H

#include "golden.h"
#include "tiny_bpe.h"

enum { SMALL = 6, BIG = 8, TEXTS = 926 };

static const char *const names[SMALL + BIG] = {
    "pebble", "sentencepiece", "metaspace", "llama3-like", "qwen-like", "prefixed", "gpt2",
    "llama3", "qwen2_5",       "mistral",   "deepseek_v3", "gpt4o",     "gemma3",   "command_r"};

/* A path below tests/golden/bpe. Valid until the next call. */
static inline const char *golden_model(const char *name)
{
    char rest[64];
    snprintf(rest, sizeof rest, "bpe/%s", name);
    return golden_path(rest);
}

static inline es_tokenizer *open_golden(const char *name)
{
    es_tokenizer *t = NULL;
    assert_ok(es_tokenizer_open(golden_model(name), NULL, &t, &err));
    return t;
}

/* Tokens come a word at a time. The room doubles: under AddressSanitizer every realloc() copies all
 * of it, which for each word is minutes. */
static inline es_status collect(void *user, const es_token *tokens, int64_t count, es_error *e)
{
    es_token_list *list = user;
    (void)e;
    if (list->count + count > list->capacity) {
        list->capacity = 2 * (list->count + count);
        list->tokens = realloc(list->tokens, (size_t)list->capacity * sizeof *tokens);
        assert_non_null(list->tokens);
    }
    memcpy(list->tokens + list->count, tokens, (size_t)count * sizeof *tokens);
    list->count += count;
    return ES_OK;
}

/* The same text in pieces of `step` bytes must give the same tokens at the same places. */
static inline void check_stream(const es_tokenizer *t, const char *text, size_t bytes, size_t step,
                                const es_token_list *want)
{
    const es_encode_opts opts = {.no_specials = true};
    es_token_list got = {0};
    es_token_stream *s;
    assert_ok(es_token_stream_open(t, &opts, collect, &got, &s, &err));
    for (size_t at = 0; at < bytes; at += step)
        assert_ok(es_token_stream_write(s, text + at, bytes - at < step ? bytes - at : step, &err));
    assert_ok(es_token_stream_finish(s, &err));
    es_token_stream_close(s);
    assert_int_equal(got.count, want->count);
    for (int64_t i = 0; i < got.count; i++)
        if (got.tokens[i].id != want->tokens[i].id ||
            got.tokens[i].begin != want->tokens[i].begin ||
            got.tokens[i].end != want->tokens[i].end)
            fail_msg("in pieces of %zu bytes: token %lld differs", step, (long long)i);
    free(got.tokens);
}

#endif
