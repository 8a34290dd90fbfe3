/* SPDX-License-Identifier: Apache-2.0 */
/* tiny_tokenizer.h : small tokenizers, made in the test's folder, and their ids. */
#ifndef ES_TESTS_TINY_TOKENIZER_H
#define ES_TESTS_TINY_TOKENIZER_H

#include "folder.h"

#include <esscher/tokenizer.h>

static const char small[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nhello\n,\n"
                            "world\n!\na\n##a\ne\n\xc3\xa9\nE\n\xe4\xb8\xad\n\xc3\x89\n##b\n";
enum {
    PAD,
    UNK,
    CLS,
    SEP,
    MASK,
    UN,
    AFF,
    ABLE,
    HELLO,
    COMMA,
    WORLD,
    BANG,
    A,
    CONT_A,
    E,
    E_ACUTE,
    CAPITAL_E,
    CHINESE,
    CAPITAL_E_ACUTE,
    CONT_B
};

/* ---- making tokenizers ---- */

static inline es_tokenizer *open_bytes(const char *name, const void *data, size_t size)
{
    es_tokenizer *t = NULL;
    count_files(true);
    write_file(name, data, size);
    assert_ok(es_tokenizer_open(folder, NULL, &t, &err));
    return t;
}

static inline es_tokenizer *open_small(const char *config)
{
    es_tokenizer *t = NULL;
    count_files(true);
    write_file("vocab.txt", small, sizeof small - 1);
    if (config)
        write_file("tokenizer_config.json", config, strlen(config));
    assert_ok(es_tokenizer_open(folder, NULL, &t, &err));
    return t;
}

/* A refusal names its rule and the file, and leaves no memory behind. */
static inline void expect_refusal(const char *name, const void *data, size_t size, es_status status,
                                  const char *rule)
{
    es_mem_limit budget = {0};
    es_tokenizer *t;
    count_files(true);
    write_file(name, data, size);
    const es_status got = es_tokenizer_open(folder, &budget, &t, &err);
    if (got != status || strcmp(err.rule, rule) != 0)
        fail_msg("%s %s (%s), expected %s %s", es_status_name(got), err.rule, err.message,
                 es_status_name(status), rule);
    assert_null(t);
    assert_true(err.file[0] && err.message[0] && err.hint[0]);
    assert_int_equal(budget.used, 0);
}

static inline void refuse_json(const char *text, es_status status, const char *rule)
{
    expect_refusal("tokenizer.json", text, strlen(text), status, rule);
}

/* A tokenizer.json with the parts that a test changes. */
#define JSON(vocab, added, normalizer)                                                             \
    "{\"added_tokens\":[" added "],\"normalizer\":" normalizer ","                                 \
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"                                           \
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}" \
    ",\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,"           \
    "\"[CLS]\":1,\"[SEP]\":2" vocab "}}}"
#define BERT "{\"type\":\"BertNormalizer\"}"

static inline es_tokenizer *open_json(const char *text)
{
    return open_bytes("tokenizer.json", text, strlen(text));
}

/* ---- comparing ids ---- */

static inline void check_ids(const es_tokenizer *t, const char *text, size_t bytes, const int *want,
                             int64_t count)
{
    es_token_list list = {0};
    assert_ok(es_tokenizer_encode(t, text, bytes, NULL, &list, &err));
    for (int64_t i = 0; i < list.count && i < count; i++)
        if (list.tokens[i].id != want[i])
            fail_msg("\"%s\": token %lld is %d, expected %d", text, (long long)i, list.tokens[i].id,
                     want[i]);
    assert_int_equal(list.count, count);
    es_token_list_free(&list);
}

#define assert_ids(t, text, ...)                                                                   \
    do {                                                                                           \
        static const int want_[] = {__VA_ARGS__};                                                  \
        check_ids(t, text, sizeof(text) - 1, want_, sizeof want_ / sizeof want_[0]);               \
    } while (0)

#endif
