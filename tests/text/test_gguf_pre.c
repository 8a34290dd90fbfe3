/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_pre.c : words by the pre-tokenizers that GGUF files name, against those of Python's
 * regex module in tests/golden/pre. */
#include "golden.h"
#include "tiny_bpe.h"

#include "base/unicode.h"
#include "text/bpe.h"
#include "text/gguf_pre.h"

/* ---- words of a text ---- */

typedef struct words {
    int64_t lengths[512];
    int count;
} words;

/* Receives a word from the splitters. */
static es_status take(void *user, const es_aligned *text, size_t begin, size_t end, bool last,
                      size_t *taken, es_error *e)
{
    words *w = user;
    (void)text, (void)e;
    *taken = last ? end - begin : 0;
    if (!last)
        return ES_OK;
    assert_below(w->count, 512);
    w->lengths[w->count++] = (int64_t)(end - begin);
    return ES_OK;
}

/* Divides a text by the parts of a tokenizer.json; in pieces of `step` bytes of normalized text. */
static words divide(json_t *rules, const char *text, size_t step)
{
    es_settings s = {.root = rules, .path = "rules"};
    es_normalizers normalizers = {0};
    es_splitters splitters = {0};
    es_matcher *matcher;
    words w = {0};
    assert_ok(es_normalizers_read(&normalizers, &s, &err));
    assert_ok(es_splitters_read(&splitters, &s, &err));
    assert_ok(es_matcher_open(NULL, &matcher, &err));
    es_normalizing normalizing = {.matcher = matcher};
    es_aligned all = {0}, part = {0};
    assert_ok(
        es_aligned_text(&normalizing.first, (const unsigned char *)text, strlen(text), 0, &err));
    assert_ok(es_normalizers_run(&normalizers, &normalizing, true, &all, &err));
    es_splitting splitting = {.chain = &splitters, .matcher = matcher, .sink = take, .user = &w};
    for (size_t at = 0, taken; at < all.used;) {
        size_t end = step < all.used - at ? at + step : all.used;
        while (end < all.used && (all.bytes[end] & 0xc0) == 0x80)
            end++;
        assert_ok(es_aligned_copy(&part, &all, at, end, &err));
        assert_ok(es_splitting_run(&splitting, &part, end == all.used, &taken, &err));
        es_aligned_drop(&part, taken);
        at = end;
    }
    es_aligned_free(&all);
    es_aligned_free(&part);
    es_splitting_free(&splitting);
    es_normalizing_free(&normalizing);
    es_matcher_close(matcher);
    es_splitters_close(&splitters);
    es_normalizers_close(&normalizers);
    return w;
}

/* Compares the words of a text with a list of lengths, as a whole and byte by byte. */
static void check_words(json_t *rules, const char *name, const char *text, const json_t *want)
{
    for (size_t step = 1; step < 2048; step += 2046) {
        const words got = divide(rules, text, step);
        for (int i = 0; i < got.count && i < (int)json_array_size(want); i++)
            if (got.lengths[i] != json_integer_value(json_array_get(want, (size_t)i)))
                fail_msg("%s, \"%s\": word %d has %lld bytes, expected %lld", name, text, i,
                         (long long)got.lengths[i],
                         (long long)json_integer_value(json_array_get(want, (size_t)i)));
        assert_int_equal(got.count, json_array_size(want));
    }
}

/* Calls check_words() for each text of the golden file. */
static void check_all(json_t *rules, const char *name)
{
    static char line[65536];
    FILE *rows = fopen(golden_path("pre/words.jsonl"), "rb");
    int count = 0;
    assert_non_null(rows);
    for (; fgets(line, sizeof line, rows); count++) {
        json_t *row = json_loads(line, 0, NULL);
        const json_t *want = json_object_get(row, name);
        assert_true(json_is_array(want));
        check_words(rules, name, json_string_value(json_object_get(row, "text")), want);
        json_decref(row);
    }
    fclose(rows);
    assert_int_equal(count, 47);
}

/* ---- the table ---- */

static void patterns_give_the_words_of_another_program(void **state)
{
    (void)state;
    int patterns = 0;
    for (int i = 0; es_gguf_pre_at(i); i++) {
        const es_gguf_pre *pre = es_gguf_pre_at(i);
        if (!es_gguf_pre_first(pre))
            continue;
        json_t *rules = es_gguf_pre_rules(pre);
        assert_non_null(rules);
        check_all(rules, pre->name);
        json_decref(rules);
        patterns++;
    }
    assert_int_equal(patterns, 12);
}

static void other_steps_give_the_words_of_another_program(void **state)
{
    (void)state;
    static const char *const steps[][2] = {
        {"Punctuation Isolated", "{\"pre_tokenizer\":{\"type\":\"Punctuation\"}}"},
        {"Punctuation Contiguous",
         "{\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}}"},
        {"Falcon", "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                   "\"Punctuation\",\"behavior\":\"Contiguous\"},{\"type\":\"ByteLevel\","
                   "\"add_prefix_space\":false},{\"type\":\"Digits\",\"individual_digits\":false},"
                   "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[0-9][0-9][0-9]\"},"
                   "\"behavior\":\"Isolated\",\"invert\":false}]}}"},
        {"Digits behind ByteLevel",
         "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\","
         "\"add_prefix_space\":false,\"use_regex\":false},{\"type\":\"Digits\","
         "\"individual_digits\":true}]}}"},
        {"WhitespaceSplit", "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}}"}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        json_t *rules = json_loads(steps[i][1], 0, NULL);
        check_all(rules, steps[i][0]);
        json_decref(rules);
    }
}

/* Aliases follow the row that they are equal to, and no name is there twice. */
static void names_are_in_the_table_once(void **state)
{
    (void)state;
    char list[256];
    for (int i = 0; es_gguf_pre_at(i); i++) {
        const es_gguf_pre *pre = es_gguf_pre_at(i);
        assert_ptr_equal(es_gguf_pre_find(pre->name, strlen(pre->name)), pre);
        for (int k = 0; k < i && es_gguf_pre_first(pre); k++)
            assert_ptr_not_equal(es_gguf_pre_at(k)->pattern, pre->pattern);
    }
    assert_null(es_gguf_pre_find("gpt-", 4));
    assert_null(es_gguf_pre_find("kimi-k2", 7));
    es_gguf_pre_list(list, sizeof list);
    assert_non_null(strstr(list, "gpt-2, llama-bpe, qwen2, qwen35, smollm, tekken, gpt-4o, "));
    assert_non_null(strstr(list, "default and 48 aliases"));
}

/* What the issue and llama.cpp say about a few aliases. */
static void aliases_have_the_pattern_of_their_model(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"mpt", "gpt-2"},         {"olmo", "gpt-2"},     {"exaone4", "gpt-2"},
        {"command-r", "smollm"},  {"refact", "smollm"},  {"starcoder", "smollm"},
        {"falcon3", "llama-bpe"}, {"lfm2", "llama-bpe"}, {"pixtral", "llama-bpe"},
        {"glm4", "llama-bpe"},    {"dbrx", "llama-bpe"}, {"deepseek-r1-qwen", "qwen2"},
        {"stablelm2", "qwen2"},   {"llama4", "gpt-4o"}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        assert_ptr_equal(es_gguf_pre_find(same[i][0], strlen(same[i][0]))->pattern,
                         es_gguf_pre_find(same[i][1], strlen(same[i][1]))->pattern);
}

/* docs/MODELS.md has a row for each pattern: its name, and the names that are its aliases. */
static void documents_list_the_names_of_the_table(void **state)
{
    (void)state;
    char path[4200], *text = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "%s/../docs/MODELS.md", ES_TESTS_DIR);
    FILE *doc = fopen(path, "rb");
    assert_non_null(doc);
    const ssize_t length = getdelim(&text, &capacity, '\0', doc);
    assert_above(length, 0);
    fclose(doc);
    for (int i = 0; es_gguf_pre_at(i); i++) {
        char row[1024];
        int used = snprintf(row, sizeof row, "| `%s` | ", es_gguf_pre_at(i)->name);
        const char *comma = "";
        for (; es_gguf_pre_at(i + 1) && !es_gguf_pre_first(es_gguf_pre_at(i + 1)); i++) {
            used += snprintf(row + used, sizeof row - (size_t)used, "%s`%s`", comma,
                             es_gguf_pre_at(i + 1)->name);
            comma = ", ";
        }
        snprintf(row + used, sizeof row - (size_t)used, "%s|\n", *comma ? " " : "");
        if (!strstr(text, row))
            fail_msg("docs/MODELS.md lacks the row: %s", row);
    }
    free(text);
}

TEST_FILE(gguf_pre)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_give_the_words_of_another_program),
        cmocka_unit_test(other_steps_give_the_words_of_another_program),
        cmocka_unit_test(names_are_in_the_table_once),
        cmocka_unit_test(aliases_have_the_pattern_of_their_model),
        cmocka_unit_test(documents_list_the_names_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
