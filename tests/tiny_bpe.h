/* SPDX-License-Identifier: Apache-2.0 */
/* tiny_bpe.h : small tokenizers of byte pairs, with the parts that a test changes. */
#ifndef ES_TESTS_TINY_BPE_H
#define ES_TESTS_TINY_BPE_H

#include "tiny_tokenizer.h"

/* A tokenizer.json whose model has these pieces and merges, and these other parts: members of the
 * file's object, each with a comma behind it. */
#define BPE(vocab, merges, flags, parts)                                                           \
    "{" parts "\"model\":{\"type\":\"BPE\"," flags "\"vocab\":{" vocab "},\"merges\":[" merges "]" \
    "}"                                                                                            \
    "}"

#define SPLIT(pattern, behavior)                                                                   \
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern                      \
    "\"},\"behavior\":\"" behavior "\"},"

/* a 0, b 1, c 2, "-" 3, " " 4, ab 5, abc 6, <unk> 7 */
#define ABC        "\"a\":0,\"b\":1,\"c\":2,\"-\":3,\" \":4,\"ab\":5,\"abc\":6,\"<unk>\":7,\"<0x64>\":8"
#define ABC_MERGES "\"a b\",[\"ab\",\"c\"]"

static inline void check_ids_plain(const es_tokenizer *t, const char *text, size_t bytes,
                                   const int *want, int64_t count)
{
    const es_encode_opts opts = {.no_specials = true};
    es_token_list list = {0};
    assert_ok(es_tokenizer_encode(t, text, bytes, &opts, &list, &err));
    for (int64_t i = 0; i < list.count && i < count; i++)
        if (list.tokens[i].id != want[i])
            fail_msg("\"%s\": token %lld is %d, expected %d", text, (long long)i, list.tokens[i].id,
                     want[i]);
    assert_int_equal(list.count, count);
    es_token_list_free(&list);
}

/* Ids of a text by a tokenizer.json, opened for it. */
#define assert_bpe(json, text, ...)                                                                \
    do {                                                                                           \
        static const int want_[] = {__VA_ARGS__};                                                  \
        es_tokenizer *t_ = open_json(json);                                                        \
        check_ids_plain(t_, text, sizeof(text) - 1, want_, sizeof want_ / sizeof want_[0]);        \
        es_tokenizer_free(t_);                                                                     \
    } while (0)

#endif
