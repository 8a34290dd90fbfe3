/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokenize.c : any bytes at all, read as text. The first byte chooses the options and how the
 * text is cut; however it is cut, the tokens are those of the whole. */
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

static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\nab\n##ab\naba\n"
                            "e\n##e\n#\n[\n]\n!\n.\n\xe4\xb8\xad\n\xcf\x83\n##\xcf\x83\n\xc3\xa9\n"
                            "\xc3\x9f\n##\xc3\x9f\n\xe1\x84\x80\n##\xe1\x85\xa1\n";

static es_tokenizer *make_tokenizer(unsigned options)
{
    static es_tokenizer *kept[16];
    static const char *const flags[] = {"false", "true"};
    char config[256];
    if (kept[options])
        return kept[options];
    const char *strip = options & 8 ? flags[options & 1] : "null";
    char *end = config;
    const char *parts[] = {"{\"do_lower_case\":",
                           flags[options >> 1 & 1],
                           ",\"strip_accents\":",
                           strip,
                           ",\"tokenize_chinese_chars\":",
                           flags[options >> 2 & 1],
                           "}"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        memcpy(end, parts[i], strlen(parts[i]));
        end += strlen(parts[i]);
    }
    require(es_tokenizer_read_vocab(vocab, sizeof vocab - 1, "fuzz", config, (size_t)(end - config),
                                    NULL, &kept[options], NULL) == ES_OK);
    return kept[options];
}

/* What came out of the stream is compared as it comes. */
typedef struct check {
    const es_token_list *want;
    int64_t count;
} check;

static es_status compare(void *user, const es_token *tokens, int64_t count, es_error *err)
{
    check *c = user;
    (void)err;
    for (int64_t i = 0; i < count; i++, c->count++) {
        require(c->count < c->want->count);
        const es_token *want = &c->want->tokens[c->count];
        require(want->id == tokens[i].id && want->begin == tokens[i].begin &&
                want->end == tokens[i].end);
    }
    return ES_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const es_tokenizer *tokenizer = make_tokenizer(data[0] & 15);
    const size_t step = (size_t)(data[0] >> 4) + 1, bytes = size - 1;
    const char *text = (const char *)data + 1;
    es_mem_limit budget = {0};
    es_encode_opts opts = {.invalid = ES_TEXT_ERROR, .budget = &budget};
    es_token_list list = {0};
    es_error err = {0};
    es_token_stream *stream;
    const es_status strict = es_tokenizer_encode(tokenizer, text, bytes, &opts, &list, &err);
    require(strict == ES_OK || (strict == ES_E_FORMAT && err.offset < (int64_t)bytes));
    opts.invalid = ES_TEXT_REPLACE;
    require(es_tokenizer_encode(tokenizer, text, bytes, &opts, &list, &err) == ES_OK);
    for (int64_t i = 0; i < list.count; i++)
        require(list.tokens[i].begin <= list.tokens[i].end && list.tokens[i].end <= (int64_t)bytes);

    check c = {&list, 0};
    require(es_token_stream_open(tokenizer, &opts, compare, &c, &stream, &err) == ES_OK);
    for (size_t at = 0; at < bytes; at += step)
        require(es_token_stream_write(stream, text + at, bytes - at < step ? bytes - at : step,
                                      &err) == ES_OK);
    require(es_token_stream_finish(stream, &err) == ES_OK && c.count == list.count);
    es_token_stream_close(stream);
    es_token_list_free(&list);
    require(budget.used == 0);
    return 0;
}
