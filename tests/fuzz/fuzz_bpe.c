/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_bpe.c : a tokenizer.json of byte pairs and a text for it, with a NUL between them. A text in
 * pieces must become what it becomes as a whole: the same ids, which the vocabulary has, at the
 * same places, which the text has. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

typedef struct comparison {
    const es_token_list *list;
    int64_t count;
} comparison;

static es_status compare(void *user, const es_token *tokens, int64_t count, es_error *err)
{
    comparison *c = user;
    (void)err;
    for (int64_t i = 0; i < count; i++, c->count++) {
        require(c->count < c->list->count);
        const es_token *t = &c->list->tokens[c->count];
        require(t->id == tokens[i].id && t->begin == tokens[i].begin && t->end == tokens[i].end);
    }
    return ES_OK;
}

/* What takes too long as a whole may be quick in pieces, or the other way round. */
static void encode(const es_tokenizer *tokenizer, const char *text, size_t bytes, size_t step,
                   es_mem_limit *budget)
{
    const es_encode_opts opts = {.budget = budget};
    es_error err = {0};
    es_token_list list = {0};
    es_token_stream *stream;
    es_status status = es_tokenizer_encode(tokenizer, text, bytes, &opts, &list, &err);
    require(status == ES_OK || (status == ES_E_LIMIT && err.rule[0] && list.count == 0));
    if (status != ES_OK)
        return;
    for (int64_t i = 0; i < list.count; i++) {
        const es_token *t = &list.tokens[i];
        require(es_tokenizer_token(tokenizer, t->id) != NULL);
        require(t->begin >= 0 && t->begin <= t->end && t->end <= (int64_t)bytes);
    }
    comparison c = {&list, 0};
    require(es_token_stream_open(tokenizer, &opts, compare, &c, &stream, &err) == ES_OK);
    for (size_t at = 0; at < bytes && status == ES_OK; at += step)
        status =
            es_token_stream_write(stream, text + at, bytes - at < step ? bytes - at : step, &err);
    status = es_token_stream_finish(stream, &err);
    require(status == ES_E_LIMIT || (status == ES_OK && c.count == list.count));
    es_token_stream_close(stream);
    es_token_list_free(&list);
}

/* Now and then the text is repeated, to pass the edge of what is kept at a time. */
static void encode_much(const es_tokenizer *tokenizer, const char *text, size_t bytes,
                        es_mem_limit *budget)
{
    enum { MUCH = 40000 };
    static char much[MUCH];
    for (size_t at = 0; at < MUCH; at++)
        much[at] = text[at % bytes];
    encode(tokenizer, much, MUCH, 9999, budget);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t json = nul ? (size_t)(nul - data) : size;
    const char *text = nul ? (const char *)nul + 1 : "ab \xc3\xa9<s>";
    const size_t bytes = nul ? size - json - 1 : strlen(text);
    es_error err = {0};
    es_mem_limit budget = {.limit = (size_t)1 << 28};
    es_tokenizer *tokenizer = NULL;
    const es_status status =
        es_tokenizer_read_json((const char *)data, json, "fuzz", &budget, &tokenizer, &err);
    if (status != ES_OK) {
        require(!tokenizer && status == err.code && err.rule[0] && err.message[0] && err.hint[0]);
        require(budget.used == 0);
        return 0;
    }
    encode(tokenizer, text, bytes, 1 + json % 7, &budget);
    if (bytes && bytes < 64 && json % 16 == 0)
        encode_much(tokenizer, text, bytes, &budget);
    es_tokenizer_free(tokenizer);
    require(budget.used == 0);
    return 0;
}
