/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer.c : text becomes tokens. TK07 to TK12 and TX04 of the list of bad inputs; ids
 * against a second implementation (tests/wordpiece) and Hugging Face's own
 * (tests/golden/wordpiece.jsonl). */
#include "golden.h"
#include "real.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

/* ---- words ---- */

static void words_are_cut_greedily(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    assert_ids(t, "Hello, world!", CLS, HELLO, COMMA, WORLD, BANG, SEP);
    assert_ids(t, "unaffable", CLS, UN, AFF, ABLE, SEP);
    assert_ids(t, "unaffables", CLS, UNK, SEP); /* one piece fails, the whole word is unknown */
    assert_ids(t, "un##aff", CLS, UN, UNK, UNK, UNK, SEP); /* the sign # is not in it */
    assert_string_equal(es_tokenizer_token(t, ABLE), "##able");
    assert_int_equal(es_tokenizer_find(t, "##able"), ABLE);
    assert_int_equal(es_tokenizer_find(t, "##abl"), -1);
    es_tokenizer_free(t);
}

static void TK07_words_of_more_than_100_characters(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    char text[512];
    int want[128] = {CLS, A};
    for (int accent = 0; accent < 2; accent++) { /* characters are counted, not bytes */
        for (int chars = 99; chars <= 102; chars++) {
            size_t used = 0;
            for (int i = 0; i < chars; i++) {
                memcpy(text + used, accent ? "\xc3\xa1" : "a", accent ? 2 : 1);
                used += accent ? 2 : 1;
            }
            for (int i = 2; i <= chars; i++)
                want[i] = CONT_A;
            want[chars + 1] = SEP;
            if (chars <= 100)
                check_ids(t, text, used, want, chars + 2);
            else
                check_ids(t, text, used, (int[]){CLS, UNK, SEP}, 3);
        }
    }
    es_tokenizer_free(t);
}

typedef struct tally {
    int64_t count, last_end;
    int32_t last;
} tally;

static es_status add_up(void *user, const es_token *tokens, int64_t count, es_error *e)
{
    tally *sum = user;
    (void)e;
    sum->count += count;
    sum->last = tokens[count - 1].id;
    sum->last_end = tokens[count - 1].end;
    return ES_OK;
}

/* `unit` over and over, up to so many bytes; the stream's memory must not depend on them. */
static void stream_much(const es_tokenizer *t, const char *unit, int64_t bytes, tally *sum)
{
    static char block[1 << 16];
    const size_t length = strlen(unit), full = sizeof block / length * length;
    es_mem_limit budget = {0};
    const es_encode_opts opts = {.no_specials = true, .budget = &budget};
    es_token_stream *s;
    for (size_t i = 0; i < full; i++)
        block[i] = unit[i % length];
    *sum = (tally){0};
    assert_ok(es_token_stream_open(t, &opts, add_up, sum, &s, &err));
    for (int64_t done = 0; done < bytes; done += (int64_t)full)
        assert_ok(es_token_stream_write(s, block, full, &err));
    assert_ok(es_token_stream_finish(s, &err));
    es_token_stream_close(s);
    assert_below(budget.peak, 32768);
    assert_int_equal(budget.used, 0);
}

static void TK08_a_gigabyte_without_white_space(void **state)
{
    (void)state;
    const int64_t bytes = getenv("ESSCHER_QUICK_TESTS") ? 1 << 23 : 1 << 30;
    es_tokenizer *t = open_small(NULL);
    tally sum;
    stream_much(t, "a", bytes, &sum); /* one word */
    assert_equals(sum.count, 1);
    assert_equals(sum.last, UNK);
    assert_at_least(sum.last_end, bytes);
    stream_much(t, "a,", bytes / 64, &sum); /* as many words as bytes */
    assert_equals(sum.count, sum.last_end);
    assert_equals(sum.last, COMMA);
    stream_much(t, "\xe4\xb8\xad", bytes / 64, &sum);
    assert_equals(sum.count * 3, sum.last_end);
    assert_equals(sum.last, CHINESE);
    stream_much(t, "[MAS", bytes / 64, &sum); /* nearly an added token */
    assert_equals(sum.last, UNK);
    es_tokenizer_free(t);
}

/* ---- bytes ---- */

static void TK09_invalid_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        int64_t offset, ends; /* where it is refused; ends of all a's in the text */
    } cases[] = {{"a\xff"
                  "a",
                  3, 1, 3},
                 {"a \xc3", 3, 2, 1},
                 {"\xed\xa0\x80"
                  "a",
                  4, 0, 4},
                 {"a\xe4\xb8"
                  "a",
                  4, 1, 4},
                 {"a\xc0\xaf"
                  "a",
                  4, 1, 4},
                 {"\xf4\x90\x80\x80"
                  "a",
                  5, 0, 5},
                 {"a\xf0\x9f\x98"
                  "a",
                  5, 1, 5},
                 {"\x80", 1, 0, 0}};
    es_tokenizer *t = open_small(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        es_token_list list = {0};
        es_encode_opts opts = {.invalid = ES_TEXT_ERROR, .no_specials = true};
        assert_int_equal(es_tokenizer_encode(t, cases[i].text, cases[i].bytes, &opts, &list, &err),
                         ES_E_FORMAT);
        assert_string_equal(err.rule, "text.utf8");
        assert_int_equal(err.offset, cases[i].offset);
        assert_int_equal(list.count, 0);
        opts.invalid = ES_TEXT_REPLACE; /* U+FFFD, which cleaning drops: "aa" is one word */
        assert_ok(es_tokenizer_encode(t, cases[i].text, cases[i].bytes, &opts, &list, &err));
        assert_int_equal(list.count ? list.tokens[list.count - 1].end : 0, cases[i].ends);
        es_token_list_free(&list);
    }
    es_tokenizer_free(t);
    /* Each maximal part of a broken character is one U+FFFD, as Python and browsers have it. */
    t = open_json(JSON(",\"\\ufffd\":3,\"##\\ufffd\":4", "",
                       "{\"type\":\"BertNormalizer\",\"clean_text\":false}"));
    assert_ids(t, "\xe4\xb8", 1, 3, 2);
    assert_ids(t, "\xed\xa0\x80", 1, 3, 4, 4, 2);
    assert_ids(t, "\xf0\x9f\x98\xff", 1, 3, 4, 2);
    assert_ids(t, "\xc0\xaf", 1, 3, 4, 2);
    es_tokenizer_free(t);
}

static void TK10_odd_characters(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    assert_ids(t, "a\0a", CLS, A, CONT_A, SEP); /* NUL is cleaned away */
    assert_ids(t,
               "a\xef\xbf\xbe"
               "a",
               CLS, UNK, SEP); /* U+FFFE, no character */
    assert_ids(t,
               "a\xcd\xb8"
               "a",
               CLS, UNK, SEP); /* U+0378, unassigned */
    assert_ids(t,
               "a\xe2\x80\x8d"
               "a",
               CLS, A, CONT_A, SEP); /* a joiner */
    assert_ids(t,
               "\xe2\x80\xae"
               "a\xe2\x80\xac",
               CLS, A, SEP); /* right to left */
    assert_ids(t,
               "\xef\xbb\xbf"
               "a",
               CLS, A, SEP); /* a byte order mark */
    assert_ids(t,
               "a\xee\x80\x80"
               "a",
               CLS, A, CONT_A, SEP); /* private use */
    tally sum;
    stream_much(t, "e\xcc\x81", 90, &sum);     /* accents are stripped */
    stream_much(t, "\xcc\x81", 2000000, &sum); /* a storm of a million */
    assert_int_equal(sum.count, 0);
    stream_much(t, "\xe3\x80\xae\xf0\x9d\x85\xa5", 2000000, &sum); /* of marks that stay */
    assert_equals(sum.count, 1);
    assert_equals(sum.last, UNK);
    es_tokenizer_free(t);
}

/* Marks that are no accents are put in canonical order: 216 (U+1D165) before 224 (U+302E). */
static void TK10_marks_in_canonical_order(void **state)
{
    (void)state;
    es_tokenizer *t =
        open_json(JSON(",\"a\\ud834\\udd65\\u302eb\":3,\"a\\u302e\\ud834\\udd65b\":4", "", BERT));
    assert_ids(t,
               "a\xe3\x80\xae\xf0\x9d\x85\xa5"
               "b",
               1, 3, 2);
    assert_ids(t,
               "a\xf0\x9d\x85\xa5\xe3\x80\xae"
               "b",
               1, 3, 2);
    assert_ids(t,
               "a\xe3\x80\xae\xcc\x81\xf0\x9d\x85\xa5"
               "b",
               1, 3, 2); /* around an accent */
    es_tokenizer_free(t);
    t = open_json(JSON(",\"a\\ud834\\udd65\\u302eb\":3,\"a\\u302e\\ud834\\udd65b\":4", "",
                       "{\"type\":\"BertNormalizer\",\"strip_accents\":false}"));
    assert_ids(t,
               "a\xe3\x80\xae\xf0\x9d\x85\xa5"
               "b",
               1, 4, 2); /* nothing is decomposed */
    es_tokenizer_free(t);
}

static void TK11_text_without_words(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    assert_ids(t, "", CLS, SEP);
    assert_ids(t, " \t\r\n\xc2\xa0\xe3\x80\x80", CLS, SEP);
    assert_ids(t, "\x01\x02\xe2\x80\x8b\xc2\x85", CLS, SEP);
    es_token_list list = {0};
    const es_encode_opts opts = {.no_specials = true};
    assert_ok(es_tokenizer_encode(t, NULL, 0, &opts, &list, &err));
    assert_int_equal(list.count, 0);
    es_token_list_free(&list);
    es_tokenizer_free(t);
}

/* ---- offsets and streams ---- */

static void offsets_are_bytes_of_the_text(void **state)
{
    (void)state;
    static const char text[] = "  H\xc3\xa9llo unAffa\xcc\x81"
                               "ble\xe4\xb8\xad[MASK]";
    static const es_token want[] = {{CLS, 0, 0},    {HELLO, 2, 8},  {UN, 9, 11},
                                    {AFF, 11, 14},  {ABLE, 14, 20}, {CHINESE, 20, 23},
                                    {MASK, 23, 29}, {SEP, 0, 0}};
    es_tokenizer *t = open_small(NULL);
    es_token_list list = {0};
    assert_ok(es_tokenizer_encode(t, text, sizeof text - 1, NULL, &list, &err));
    assert_int_equal(list.count, sizeof want / sizeof want[0]);
    for (int64_t i = 0; i < list.count; i++) {
        assert_int_equal(list.tokens[i].id, want[i].id);
        assert_int_equal(list.tokens[i].begin, want[i].begin);
        assert_int_equal(list.tokens[i].end, want[i].end);
    }
    es_token_list_free(&list);
    es_tokenizer_free(t);
}

typedef struct sequence {
    es_token tokens[64];
    int64_t count;
} sequence;

static es_status keep(void *user, const es_token *tokens, int64_t count, es_error *e)
{
    sequence *kept = user;
    (void)e;
    memcpy(kept->tokens + kept->count, tokens, (size_t)count * sizeof *tokens);
    kept->count += count;
    return ES_OK;
}

static void a_stream_may_be_cut_anywhere(void **state)
{
    (void)state;
    static const char text[] = "un[MASK]aff\xc3\xa9 \xe4\xb8\xad[MAS][SEP]a\xe4\xb8 hello,[CLS";
    es_tokenizer *t = open_small(NULL);
    es_token_list whole = {0};
    es_token_stream *s;
    sequence kept;
    assert_ok(es_tokenizer_encode(t, text, sizeof text - 1, NULL, &whole, &err));
    assert_int_equal(whole.count, 15); /* counted by hand */
    assert_ok(es_token_stream_open(t, NULL, keep, &kept, &s, &err));
    for (size_t step = 1; step < sizeof text; step++) {
        kept.count = 0;
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            const size_t left = sizeof text - 1 - at;
            assert_ok(es_token_stream_write(s, text + at, left < step ? left : step, &err));
        }
        assert_ok(es_token_stream_finish(s, &err));
        assert_int_equal(kept.count, whole.count);
        for (int64_t i = 0; i < kept.count; i++) {
            assert_int_equal(kept.tokens[i].id, whole.tokens[i].id);
            assert_int_equal(kept.tokens[i].begin, whole.tokens[i].begin);
            assert_int_equal(kept.tokens[i].end, whole.tokens[i].end);
        }
    }
    es_token_stream_close(s);
    es_token_list_free(&whole);
    es_tokenizer_free(t);
}

static es_status refuse(void *user, const es_token *tokens, int64_t count, es_error *e)
{
    (void)user;
    (void)count;
    *e = (es_error){.code = ES_E_INTERRUPTED, .message = "enough"};
    return tokens[0].id == WORLD ? ES_E_INTERRUPTED : ES_OK;
}

static void a_stream_hands_on_a_refusal_and_begins_anew(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    es_token_stream *s;
    assert_ok(es_token_stream_open(t, NULL, refuse, NULL, &s, &err));
    assert_int_equal(es_token_stream_write(s, "hello world hello hello", 23, &err),
                     ES_E_INTERRUPTED);
    assert_string_equal(err.message, "enough");
    assert_int_equal(es_token_stream_write(s, "hello", 5, &err), ES_E_INTERRUPTED);
    assert_int_equal(es_token_stream_finish(s, &err), ES_E_INTERRUPTED);
    assert_ok(es_token_stream_write(s, "hello", 5, &err));
    assert_ok(es_token_stream_finish(s, &err));
    es_token_stream_close(s);
    assert_int_equal(es_token_stream_open(t, NULL, NULL, NULL, &s, &err), ES_E_ARGUMENT);
    es_tokenizer_free(t);
    assert_int_equal(es_tokenizer_open(NULL, NULL, &t, &err), ES_E_ARGUMENT);
    assert_null(t);
}

static es_status ignore(void *user, const es_token *tokens, int64_t count, es_error *error)
{
    (void)user, (void)tokens, (void)count, (void)error;
    return ES_OK;
}

static void TK09_a_stream_counts_what_it_replaces(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    es_token_stream *s;
    int64_t text = -1, at = -1;
    assert_ok(es_token_stream_open(t, NULL, ignore, NULL, &s, &err));
    assert_ok(es_token_stream_write(s, "h\xc3\xa9llo", 6, &err));
    assert_ok(es_token_stream_finish(s, &err));
    assert_int_equal(es_token_stream_replaced(s, NULL, NULL), 0);
    assert_ok(es_token_stream_write(s, "hello \xc3", 7, &err)); /* whole, were a byte to follow */
    assert_ok(es_token_stream_write(s, "\xff world \xff", 9, &err));
    assert_ok(es_token_stream_finish(s, &err));
    assert_int_equal(es_token_stream_replaced(s, &text, &at), 3);
    assert_int_equal(text, 1);
    assert_int_equal(at, 6);
    es_token_stream_close(s);
    es_tokenizer_free(t);
}

static void TX04_files_that_are_no_text(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t bytes;
        const char *rule;
    } cases[] = {{"\x1f\x8b\x08\0\0\0\0\0", 8, "text.compressed"},
                 {"PK\x03\x04", 4, "text.compressed"},
                 {"\xfd"
                  "7zXZ\0",
                  6, "text.compressed"},
                 {"\x28\xb5\x2f\xfd", 4, "text.compressed"},
                 {"BZh91AY&SY", 10, "text.compressed"},
                 {"\xff\xfe"
                  "a\0",
                  4, "text.encoding"},
                 {"\xfe\xff\0a", 4, "text.encoding"},
                 {"\0\0\xfe\xff\0\0\0a", 8, "text.encoding"},
                 {"h\0e\0l\0l\0o\0", 10, "text.encoding"},
                 {"\0h\0e\0l\0l\0o", 10, "text.encoding"},
                 {"h\0\0\0e\0\0\0l\0\0\0", 12, "text.encoding"},
                 {"", 0, NULL},
                 {"BZh is how", 10, NULL},
                 {"\xef\xbb\xbfhello", 8, NULL},
                 {"a NUL \0 in it", 13, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const es_status got = es_text_check(cases[i].data, cases[i].bytes, "x", &err);
        assert_int_equal(got, cases[i].rule ? ES_E_UNSUPPORTED : ES_OK);
        if (cases[i].rule)
            assert_string_equal(err.rule, cases[i].rule);
    }
}

/* ---- parity ---- */

/* Every line {"text", "ids", ...} of a file; `t` NULL: the line's options choose the tokenizer. */
static int64_t compare_lines(FILE *file, const es_tokenizer *t, es_tokenizer *const by_options[8])
{
    char *line = NULL;
    size_t capacity = 0;
    int64_t count = 0, wrong = 0;
    while (getline(&line, &capacity, file) > 0) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        const json_t *text = json_object_get(row, "text"), *ids = json_object_get(row, "ids");
        const int options = 4 * json_is_true(json_object_get(row, "lower")) +
                            2 * json_is_true(json_object_get(row, "strip")) +
                            json_is_true(json_object_get(row, "cjk"));
        es_token_list list = {0};
        assert_ok(es_tokenizer_encode(t ? t : by_options[options], json_string_value(text),
                                      json_string_length(text), NULL, &list, &err));
        bool same = (size_t)list.count == json_array_size(ids);
        for (int64_t i = 0; i < list.count && same; i++)
            same = json_integer_value(json_array_get(ids, (size_t)i)) == list.tokens[i].id;
        if (!same)
            print_message("differs: %s", line);
        wrong += !same;
        count++;
        es_token_list_free(&list);
        json_decref(row);
    }
    free(line);
    assert_int_equal(wrong, 0);
    return count;
}

static void TK12_parity_with_a_second_implementation(void **state)
{
    (void)state;
    es_tokenizer *by_options[8] = {NULL};
    FILE *vocab = fopen(ES_TESTS_DIR "/wordpiece/vocab.txt", "rb");
    FILE *rows = fopen(ES_TESTS_DIR "/wordpiece/parity.jsonl", "rb");
    static char bytes[65536];
    assert_true(vocab && rows);
    const size_t size = fread(bytes, 1, sizeof bytes, vocab);
    fclose(vocab);
    assert_below(size, sizeof bytes);
    count_files(true);
    write_file("vocab.txt", bytes, size);
    for (int i = 0; i < 8; i++) {
        static const char *const flag[] = {"false", "true"};
        char config[160];
        snprintf(config, sizeof config,
                 "{\"do_lower_case\":%s,\"strip_accents\":%s,\"tokenize_chinese_chars\":%s}",
                 flag[i >> 2], flag[i >> 1 & 1], flag[i & 1]);
        write_file("tokenizer_config.json", config, strlen(config));
        assert_ok(es_tokenizer_open(folder, NULL, &by_options[i], &err));
    }
    assert_int_equal(compare_lines(rows, NULL, by_options), 775);
    fclose(rows);
    for (int i = 0; i < 8; i++)
        es_tokenizer_free(by_options[i]);
}

static void compare_with_hugging_face(const char *path)
{
    es_tokenizer *t;
    FILE *rows = fopen(golden_path("wordpiece.jsonl"), "rb");
    assert_non_null(rows);
    assert_ok(es_tokenizer_open(path, NULL, &t, &err));
    assert_int_equal(compare_lines(rows, t, NULL), 926);
    es_tokenizer_free(t);
    fclose(rows);
}

static void TK12_parity_with_hugging_face(void **state)
{
    (void)state;
    char vocab[REAL_PATH];
    snprintf(vocab, sizeof vocab, "%s", golden_path("bert-uncased/vocab.txt"));
    compare_with_hugging_face(vocab);
}

/* The other way to the same ids; such a file is too large for the repository. */
static void TK12_parity_with_hugging_face_by_tokenizer_json(void **state)
{
    (void)state;
    char model[REAL_PATH];
    real_model("minilm-l6-v2-f16", model); /* has no vocab.txt */
    compare_with_hugging_face(model);
}

TEST_FILE(tokenizer)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_cut_greedily),
        cmocka_unit_test(TK07_words_of_more_than_100_characters),
        cmocka_unit_test(TK08_a_gigabyte_without_white_space),
        cmocka_unit_test(TK09_invalid_utf8),
        cmocka_unit_test(TK10_odd_characters),
        cmocka_unit_test(TK10_marks_in_canonical_order),
        cmocka_unit_test(TK11_text_without_words),
        cmocka_unit_test(offsets_are_bytes_of_the_text),
        cmocka_unit_test(a_stream_may_be_cut_anywhere),
        cmocka_unit_test(a_stream_hands_on_a_refusal_and_begins_anew),
        cmocka_unit_test(TK09_a_stream_counts_what_it_replaces),
        cmocka_unit_test(TX04_files_that_are_no_text),
        cmocka_unit_test(TK12_parity_with_a_second_implementation),
        cmocka_unit_test(TK12_parity_with_hugging_face),
        optional_test(TK12_parity_with_hugging_face_by_tokenizer_json),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
