/* SPDX-License-Identifier: Apache-2.0 */
/* test_text_frame.c : what stands around a block of text that a model reads: the specials of the
 * tokenizer's template, or the token that begins texts where the template has none; nothing else.
 */
#include "golden.h"
#include "model/pool.h"
#include "text/tokenizer.h"
#include "tiny_bpe.h"

#define PEBBLE ES_TESTS_DIR "/../models/pebble"

/* a 0, b 1, <s> 2, </s> 3 */
#define LETTERS "\"a\":0,\"b\":1,\"<s>\":2,\"</s>\":3"
#define TEMPLATE(single)                                                                           \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single                      \
    "],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[2]},\"</s>\":{\"id\":\"</s>\","        \
    "\"ids\":[3]}}},"
#define BOS  "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}"
#define EOS  "{\"SpecialToken\":{\"id\":\"</s>\",\"type_id\":0}}"
#define TEXT "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"

static const char gpt2_like[] = BPE(LETTERS, "", "", "");
static const char llama_like[] = BPE(LETTERS, "", "", TEMPLATE(BOS "," TEXT));
static const char both[] = BPE(LETTERS, "", "", TEMPLATE(BOS "," TEXT "," EOS));
static const char after[] = BPE(LETTERS, "", "", TEMPLATE(TEXT "," EOS));

/* A tokenizer of three files in the test's folder; NULL: there is no such file. */
static es_status open_files(const char *json, const char *tokenizer_config, const char *config,
                            es_mem_limit *budget, es_tokenizer **out)
{
    count_files(true);
    write_file("tokenizer.json", json, strlen(json));
    if (tokenizer_config)
        write_file("tokenizer_config.json", tokenizer_config, strlen(tokenizer_config));
    if (config)
        write_file("config.json", config, strlen(config));
    return es_tokenizer_open(folder, budget, out, &err);
}

/* Blocks of four ids of the text "ababa", one behind the other. */
static void check_blocks(const es_tokenizer *t, const int *want, int64_t count)
{
    char path[512];
    const char *const texts[] = {path};
    es_blocks b;
    write_file("text", "ababa", 5);
    snprintf(path, sizeof path, "%s/text", folder);
    const es_blocks_spec spec = {.tokenizer = t, .texts = texts, .n_texts = 1, .length = 4};
    assert_ok(es_blocks_read(&spec, NULL, &b, &err));
    assert_int_equal(b.start[b.count], count);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(b.ids[i], want[i]);
    es_blocks_free(&b);
}

#define assert_blocks(json, tokenizer_config, config, ...)                                         \
    do {                                                                                           \
        static const int want_[] = {__VA_ARGS__};                                                  \
        es_tokenizer *t_;                                                                          \
        assert_ok(open_files(json, tokenizer_config, config, NULL, &t_));                          \
        check_blocks(t_, want_, sizeof want_ / sizeof want_[0]);                                   \
        es_tokenizer_free(t_);                                                                     \
    } while (0)

static void TX03_blocks_have_the_specials_of_the_template_and_no_others(void **state)
{
    (void)state;
    assert_blocks(gpt2_like, NULL, NULL, 0, 1, 0, 1, 0);
    assert_blocks(llama_like, NULL, NULL, 2, 0, 1, 0, 2, 1, 0);
    assert_blocks(both, NULL, NULL, 2, 0, 1, 3, 2, 0, 1, 3, 2, 0, 3);
    assert_blocks(after, NULL, NULL, 0, 1, 0, 3, 1, 0, 3);
}

static void without_a_template_blocks_begin_as_the_other_files_say(void **state)
{
    (void)state;
    assert_blocks(gpt2_like, "{\"bos_token\":\"<s>\"}", NULL, 2, 0, 1, 0, 2, 1, 0);
    assert_blocks(gpt2_like, "{\"bos_token\":{\"content\":\"<s>\"}}", NULL, 2, 0, 1, 0, 2, 1, 0);
    assert_blocks(gpt2_like, NULL, "{\"bos_token_id\":2}", 2, 0, 1, 0, 2, 1, 0);
    assert_blocks(gpt2_like, "{\"model_max_length\":8}", "{\"bos_token_id\":2}", 2, 0, 1, 0, 2, 1,
                  0);
    /* null says that there is none, whatever id the model has for it: Qwen */
    assert_blocks(gpt2_like, "{\"bos_token\":null}", "{\"bos_token_id\":2}", 0, 1, 0, 1, 0);
    assert_blocks(gpt2_like, NULL, "{\"bos_token_id\":null}", 0, 1, 0, 1, 0);
    /* no token of the vocabulary: a remark */
    assert_blocks(gpt2_like, "{\"bos_token\":\"<t>\"}", "{\"bos_token_id\":2}", 0, 1, 0, 1, 0);
    assert_blocks(gpt2_like, NULL, "{\"bos_token_id\":4}", 0, 1, 0, 1, 0);
    assert_blocks(gpt2_like, NULL, "{\"bos_token_id\":-1}", 0, 1, 0, 1, 0);
    /* a template that puts something first is asked alone; one that does not is helped */
    assert_blocks(llama_like, "{\"bos_token\":\"</s>\"}", "{\"bos_token_id\":3}", 2, 0, 1, 0, 2, 1,
                  0);
    assert_blocks(after, "{\"bos_token\":\"<s>\"}", NULL, 2, 0, 1, 3, 2, 0, 1, 3, 2, 0, 3);
}

/* Specials count as tokens of a text that is asked for, the one that begins a block included. */
static void TX01_texts_shorter_than_asked_for(void **state)
{
    (void)state;
    char path[512];
    const char *const texts[] = {path};
    es_tokenizer *t;
    es_blocks b;
    assert_ok(open_files(gpt2_like, "{\"bos_token\":\"<s>\"}", NULL, NULL, &t));
    write_file("text", "ababa", 5);
    snprintf(path, sizeof path, "%s/text", folder);
    es_blocks_spec spec = {.tokenizer = t, .texts = texts, .n_texts = 1, .length = 4, .tokens = 7};
    assert_ok(es_blocks_read(&spec, NULL, &b, &err)); /* 5 of text, 2 that begin blocks */
    assert_int_equal(b.start[b.count], 7);
    es_blocks_free(&b);
    spec.tokens = 9;
    assert_int_equal(es_blocks_read(&spec, NULL, &b, &err), ES_E_EMPTY);
    assert_string_equal(err.rule, "pool.short");
    spec.repeat = true;
    assert_ok(es_blocks_read(&spec, NULL, &b, &err));
    assert_equals(b.repeats, 1);
    assert_equals(b.start[b.count], 9);
    assert_equals(b.ids[7], 2);
    assert_equals(b.ids[8], 0); /* from the first letter again */
    es_blocks_free(&b);
    es_tokenizer_free(t);
}

/* What `esscher tokenize` shows is the template's alone, as Hugging Face's tokenizers have it. */
static void texts_that_nobody_reads_do_not_begin_so(void **state)
{
    (void)state;
    es_tokenizer *t;
    assert_ok(open_files(gpt2_like, "{\"bos_token\":\"<s>\"}", NULL, NULL, &t));
    assert_int_equal(es_tokenizer_describe(t).begin, 2);
    assert_int_equal(es_tokenizer_describe(t).prefix_count, 0);
    assert_int_equal(es_tokenizer_frame(t).prefix_count, 1);
    assert_ids(t, "ab", 0, 1);
    es_tokenizer_free(t);
}

static void BP08_files_beside_the_tokenizer_are_distrusted(void **state)
{
    (void)state;
    static const struct {
        const char *tokenizer_config, *config, *rule;
    } bad[] = {{"{", NULL, "tokenizer.json"},
               {"[]", NULL, "tokenizer.json"},
               {"{\"bos_token\":7}", NULL, "tokenizer.key"},
               {"{\"bos_token\":{\"content\":7}}", NULL, "tokenizer.key"},
               {NULL, "{\"bos_token_id\":\"<s>\"}", "tokenizer.key"},
               {NULL, "{\"bos_token_id\":1.5}", "tokenizer.key"},
               {NULL, "{\"bos_token_id\":2,\"bos_token_id\":2}", "tokenizer.json"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        es_mem_limit budget = {0};
        es_tokenizer *t;
        assert_int_equal(open_files(gpt2_like, bad[i].tokenizer_config, bad[i].config, &budget, &t),
                         ES_E_FORMAT);
        assert_string_equal(err.rule, bad[i].rule);
        assert_non_null(strstr(err.file, bad[i].config ? "/config.json" : "tokenizer_config.json"));
        assert_null(t);
        assert_int_equal(budget.used, 0);
    }
}

/* Of the files beside it a key is read, and the rest may be as Python writes it. */
static void CF20_files_beside_the_tokenizer_as_other_programs_write_them(void **state)
{
    (void)state;
    static const char big[] = "\"model_max_length\": 1000000000000000019884624838656";
    static const char *const rest[] = {big, "\"x\": [NaN, -Infinity]", "\"x\": 1, \"x\": 2"};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        char first[256], second[256];
        es_tokenizer *t;
        snprintf(first, sizeof first, "\xef\xbb\xbf{%s, \"bos_token\": \"<s>\"}", rest[i]);
        snprintf(second, sizeof second, "{\"bos_token_id\": 3, %s}", rest[i]);
        assert_ok(open_files(gpt2_like, first, NULL, NULL, &t));
        assert_int_equal(es_tokenizer_frame(t).prefix_count, 1);
        assert_int_equal(es_tokenizer_frame(t).prefix[0], 2);
        es_tokenizer_free(t);
        assert_ok(open_files(gpt2_like, NULL, second, NULL, &t));
        assert_int_equal(es_tokenizer_frame(t).prefix[0], 3);
        es_tokenizer_free(t);
    }
    static const struct {
        const char *config, *rule;
    } bad[] = {{"{\"bos_token\": NaN}", "tokenizer.key"},
               {"{\"bos_token\": -Infinity}", "tokenizer.key"},
               {"{\"bos_token\": null, \"bos_token\": \"<s>\"}", "tokenizer.json"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        es_tokenizer *t;
        assert_int_equal(open_files(gpt2_like, bad[i].config, NULL, NULL, &t), ES_E_FORMAT);
        assert_string_equal(err.rule, bad[i].rule);
        assert_non_null(strstr(err.message, "bos_token"));
    }
}

/* id 0 stands before each block of the decoder in the box, whose template is empty; the ids of the
 * novel are those that its makers give. */
static void pebble_reads_what_its_makers_had_it_read(void **state)
{
    (void)state;
    const char *const texts[] = {PEBBLE "/alice.txt"};
    json_t *all = golden_file("pebble/expected.json");
    const json_t *want = json_object_get(json_object_get(all, "alice"), "first_ids");
    es_tokenizer *t;
    es_blocks b;
    assert_ok(es_tokenizer_open(PEBBLE, NULL, &t, &err));
    const es_blocks_spec spec = {.tokenizer = t,
                                 .texts = texts,
                                 .n_texts = 1,
                                 .length = 65,
                                 .tokens = 65,
                                 .from = ES_BLOCKS_START};
    assert_ok(es_blocks_read(&spec, NULL, &b, &err));
    assert_int_equal(json_array_size(want), 64);
    assert_int_equal(b.start[1], 65);
    assert_int_equal(b.ids[0], 0);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(b.ids[i + 1], json_integer_value(json_array_get(want, i)));
    es_blocks_free(&b);
    es_tokenizer_free(t);
    json_decref(all);
}

TEST_FILE(text_frame)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(TX03_blocks_have_the_specials_of_the_template_and_no_others),
        cmocka_unit_test(without_a_template_blocks_begin_as_the_other_files_say),
        cmocka_unit_test(TX01_texts_shorter_than_asked_for),
        cmocka_unit_test(texts_that_nobody_reads_do_not_begin_so),
        cmocka_unit_test(BP08_files_beside_the_tokenizer_are_distrusted),
        cmocka_unit_test(CF20_files_beside_the_tokenizer_as_other_programs_write_them),
        cmocka_unit_test(pebble_reads_what_its_makers_had_it_read),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
