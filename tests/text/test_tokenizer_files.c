/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_files.c : vocab.txt and tokenizer.json. TK01 to TK06 of the list of bad inputs. */
#include "testing.h"

#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

#include <esscher/model.h>

/* ---- vocab.txt ---- */

static void TK01_vocab_line_ends_and_mark(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        "[UNK]\n[CLS]\n[SEP]\na\n", "[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n", "[UNK]\n[CLS]\n[SEP]\na",
        "\xef\xbb\xbf[UNK]\n[CLS]\n[SEP]\na\n", "\xef\xbb\xbf[UNK]\r\n[CLS]\r\n[SEP]\r\na"};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        es_tokenizer *t = open_bytes("vocab.txt", spellings[i], strlen(spellings[i]));
        assert_int_equal(es_tokenizer_describe(t).size, 4);
        assert_string_equal(es_tokenizer_token(t, 3), "a");
        assert_ids(t, "a b", 1, 3, 0, 2);
        es_tokenizer_free(t);
    }
}

static int remarks;

static void count_remark(void *user, es_log_level level, const char *message)
{
    (void)user;
    (void)level;
    (void)message;
    remarks++;
}

static void TK01_blank_and_duplicate_lines_keep_their_numbers(void **state)
{
    (void)state;
    static const char vocab[] = "[UNK]\n[CLS]\n\n[SEP]\na\nb\na\n";
    remarks = 0;
    es_log_set(count_remark, NULL, ES_LOG_WARN);
    es_tokenizer *t = open_bytes("vocab.txt", vocab, sizeof vocab - 1);
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    assert_int_equal(remarks, 2);
    assert_int_equal(es_tokenizer_describe(t).size, 7);
    assert_string_equal(es_tokenizer_token(t, 2), "");
    assert_ids(t, "a b", 1, 6, 5, 3); /* the later of two, as in the readers of others */
    es_tokenizer_free(t);
}

static void TK01_what_is_no_vocabulary(void **state)
{
    (void)state;
    expect_refusal("vocab.txt", "", 0, ES_E_FORMAT, "vocab.empty");
    expect_refusal("vocab.txt", "[UNK]\n[C\0S]\n", 12, ES_E_FORMAT, "vocab.nul");
    assert_int_equal(err.offset, 8);
    expect_refusal("vocab.txt", "[UNK]\n\xc3\x28\n", 9, ES_E_FORMAT, "vocab.utf8");
    assert_int_equal(err.offset, 6);
}

static void TK02_missing_specials(void **state)
{
    (void)state;
    expect_refusal("vocab.txt", "[CLS]\n[SEP]\na\n", 14, ES_E_FORMAT, "tokenizer.special");
    expect_refusal("vocab.txt", "[UNK]\n[SEP]\na\n", 14, ES_E_FORMAT, "tokenizer.special");
    expect_refusal("vocab.txt", "[UNK]\n[CLS]\na\n", 14, ES_E_FORMAT, "tokenizer.special");
    refuse_json("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}},"
                "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}",
                ES_E_FORMAT, "tokenizer.special");
    /* Padding and mask are not needed to read text. */
    es_tokenizer *t = open_bytes("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n", 18);
    assert_int_equal(es_tokenizer_find(t, "[PAD]"), -1);
    assert_ids(t, "x", 1, 0, 2);
    es_tokenizer_free(t);
    /* Nor need they have these names. */
    count_files(true);
    static const char names[] =
        "{\"unk_token\":\"<u>\",\"cls_token\":{\"content\":\"<s>\"},\"sep_token\":\"</s>\"}";
    write_file("vocab.txt", "<u>\n<s>\n</s>\na\n", 15);
    write_file("tokenizer_config.json", names, sizeof names - 1);
    assert_ok(es_tokenizer_open(in_folder("vocab.txt"), NULL, &t, &err));
    assert_ids(t, "a b </s>", 1, 3, 0, 2, 2);
    es_tokenizer_free(t);
}

/* ---- tokenizer.json ---- */

static void TK03_other_models_are_refused(void **state)
{
    (void)state;
    refuse_json("{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", ES_E_UNSUPPORTED,
                "tokenizer.model");
    assert_non_null(strstr(err.message, "WordLevel"));
    refuse_json("{\"model\":{\"type\":\"Bigram\",\"vocab\":[]}}", ES_E_UNSUPPORTED,
                "tokenizer.model");
    refuse_json("{\"model\":{\"vocab\":{}}}", ES_E_UNSUPPORTED, "tokenizer.model");
    refuse_json(JSON("", "", "{\"type\":\"NFC\"}"), ES_E_UNSUPPORTED, "tokenizer.normalizer");
    refuse_json("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0}},"
                "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
                ES_E_UNSUPPORTED, "tokenizer.pretokenizer");
    refuse_json("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0}},"
                "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
                "\"post_processor\":{\"type\":\"PairProcessing\"}}",
                ES_E_UNSUPPORTED, "tokenizer.postprocessor");
    refuse_json("{\"model\":{\"type\":\"WordPiece\",\"max_input_chars_per_word\":1000000000,"
                "\"vocab\":{\"[UNK]\":0}},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}",
                ES_E_UNSUPPORTED, "tokenizer.word");
}

static void broken_json_is_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {"",
                                         "{",
                                         "[]",
                                         "{\"model\":{},\"model\":{}}",
                                         "{} x",
                                         "{\"a\":\"\\ud800\"}",
                                         "{\"a\":NaN}",
                                         "{'a':1}"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        refuse_json(broken[i], ES_E_FORMAT, "tokenizer.json");
    char *deep = malloc(1000001);
    assert_non_null(deep);
    memset(deep, '[', 1000000);
    deep[1000000] = 0;
    refuse_json(deep, ES_E_FORMAT, "tokenizer.json");
    free(deep);
    refuse_json("{}", ES_E_FORMAT, "tokenizer.key");
    refuse_json("{\"model\":{\"type\":\"WordPiece\"}}", ES_E_FORMAT, "tokenizer.key");
    refuse_json(JSON(",\"a\":1.5", "", BERT), ES_E_FORMAT, "tokenizer.key");
    refuse_json(JSON("", "", "{\"type\":\"BertNormalizer\",\"lowercase\":1}"), ES_E_FORMAT,
                "tokenizer.key");
    expect_refusal("nothing", "", 0, ES_E_IO, "tokenizer.missing");
}

/* Integers beyond 64 bits and a byte order mark, in both files; the ids stay what they are. */
static void CF20_files_of_tokenizers_as_other_programs_write_them(void **state)
{
    (void)state;
    es_tokenizer *t = open_json("\xef\xbb\xbf" JSON(",\"a\":3", "", BERT));
    assert_ids(t, "a b", 1, 3, 0, 2);
    es_tokenizer_free(t);
    t = open_json(
        JSON(",\"a\":3", "", BERT ",\"truncation\":{\"max_length\":18446744073709551615}"));
    assert_ids(t, "a b", 1, 3, 0, 2);
    es_tokenizer_free(t);
    refuse_json(JSON(",\"a\":1000000000000000019884624838656", "", BERT), ES_E_FORMAT,
                "tokenizer.key");
    assert_non_null(strstr(err.message, "\"a\""));
    t = open_small("\xef\xbb\xbf{\"do_lower_case\": false, \"x\": NaN, \"x\": 1, "
                   "\"model_max_length\": 1000000000000000019884624838656}");
    assert_ids(t, "E", CLS, CAPITAL_E, SEP);
    es_tokenizer_free(t);
}

static void a_file_that_is_too_large_is_not_read(void **state)
{
    (void)state;
    es_tokenizer *t;
    es_mem_limit budget = {0};
    count_files(true);
    write_file("tokenizer.json", "{", 1);
    assert_int_equal(truncate(in_folder("tokenizer.json"), (off_t)1 << 40), 0); /* sparse */
    assert_int_equal(es_tokenizer_open(folder, &budget, &t, &err), ES_E_LIMIT);
    assert_string_equal(err.rule, "tokenizer.size");
    assert_int_equal(budget.peak, 0);
    budget.limit = 4096; /* and a small one not beyond the budget */
    count_files(true);
    write_file("vocab.txt", small, sizeof small - 1);
    assert_int_equal(es_tokenizer_open(folder, &budget, &t, &err), ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
}

/* A folder with a tokenizer in another form is told so, and what to do. */
static void TK03_other_forms_are_named(void **state)
{
    (void)state;
    static const char *const files[] = {"tokenizer.model", "spiece.model", "vocab.json",
                                        "tekken.json"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        expect_refusal(files[i], "{}", 2, ES_E_UNSUPPORTED, "tokenizer.missing");
        assert_non_null(strstr(err.message, files[i]));
        assert_non_null(strstr(err.hint, "save_pretrained"));
    }
}

/* What es_tokenizer_memory() says is enough: many short tokens, a few long ones, and JSON. */
static void the_bound_of_memory_holds(void **state)
{
    (void)state;
    static char text[300000];
    for (int way = 0; way < 3; way++) {
        es_mem_limit budget = {0};
        es_tokenizer *t;
        size_t used = (size_t)sprintf(text, "[UNK]\n[CLS]\n[SEP]\n");
        if (way == 2)
            used = (size_t)sprintf(text, "%s", JSON("", "", BERT));
        for (int i = 0; i < (way ? 1000 : 30000) && way < 2; i++)
            used += (size_t)sprintf(text + used, way ? "%0200d\n" : "%d\n", i * 7919 % 100003);
        count_files(true);
        write_file(way == 2 ? "tokenizer.json" : "vocab.txt", text, used);
        assert_ok(es_tokenizer_open(folder, &budget, &t, &err));
        if (budget.peak > es_tokenizer_memory(folder))
            fail_msg("way %d: %zu bytes, bound %zu", way, budget.peak, es_tokenizer_memory(folder));
        es_tokenizer_free(t);
    }
}

static void TK04_normalizer_options(void **state)
{
    (void)state;
#define TEXT                                                                                       \
    "\xc3\x89 E \xe4\xb8\xad"                                                                      \
    "a" /* E-acute, E, an ideograph */
    es_tokenizer *t = open_small(NULL);
    assert_ids(t, TEXT, CLS, E, E, CHINESE, A, SEP);
    es_tokenizer_free(t);
    t = open_small("{\"strip_accents\":null,\"do_lower_case\":false}"); /* follows lower case */
    assert_ids(t, TEXT, CLS, CAPITAL_E_ACUTE, CAPITAL_E, CHINESE, A, SEP);
    es_tokenizer_free(t);
    t = open_small("{\"strip_accents\":false}");
    assert_ids(t, TEXT, CLS, E_ACUTE, E, CHINESE, A, SEP);
    es_tokenizer_free(t);
    t = open_small("{\"strip_accents\":true,\"do_lower_case\":false}");
    assert_ids(t, TEXT, CLS, CAPITAL_E, CAPITAL_E, CHINESE, A, SEP);
    es_tokenizer_free(t);
    t = open_small("{\"tokenize_chinese_chars\":false}");
    assert_ids(t, TEXT, CLS, E, E, CHINESE, CONT_A, SEP);
    es_tokenizer_free(t);

    t = open_json(JSON(",\"a\":3,\"##\\u200db\":4,\"##b\":5", "", BERT));
    assert_ids(t,
               "A\xe2\x80\x8d"
               "b",
               1, 3, 5, 2);
    es_tokenizer_free(t);
    t = open_json(JSON(",\"a\":3,\"##\\u200db\":4,\"##b\":5", "",
                       "{\"type\":\"BertNormalizer\",\"clean_text\":false}"));
    assert_ids(t,
               "A\xe2\x80\x8d"
               "b",
               1, 3, 4, 2);
    es_tokenizer_free(t);
    t = open_json(JSON(",\"E\":3,\"\\u00c9\":4", "",
                       "{\"type\":\"BertNormalizer\",\"strip_accents\":null,\"lowercase\":false}"));
    assert_ids(t, "E \xc3\x89", 1, 3, 4, 2);
    es_tokenizer_free(t);
    /* U+0130 is the one character whose lower case is two; its dot is an accent. */
    t = open_json(JSON(",\"i\":3,\"i\\u0307\":4", "",
                       "{\"type\":\"BertNormalizer\",\"strip_accents\":false}"));
    assert_ids(t, "I \xc4\xb0", 1, 3, 4, 2);
    es_tokenizer_free(t);
    t = open_json(JSON(",\"i\":3,\"i\\u0307\":4", "", BERT));
    assert_ids(t, "I \xc4\xb0", 1, 3, 3, 2);
    es_tokenizer_free(t);
    t = open_json(JSON(",\"a\":3,\"A\":4", "", "null")); /* no normalizer at all */
    assert_ids(t, "a A", 1, 3, 4, 2);
    es_tokenizer_free(t);
}

#define ADDED(id, text) "{\"id\":" id ",\"content\":\"" text "\",\"special\":true}"

static void TK05_added_tokens(void **state)
{
    (void)state;
    refuse_json(JSON("", ADDED("-1", "[X]"), BERT), ES_E_FORMAT, "tokenizer.id.range");
    refuse_json(JSON("", ADDED("99999999999", "[X]"), BERT), ES_E_FORMAT, "tokenizer.id.range");
    refuse_json(JSON("", ADDED("1", "[X]"), BERT), ES_E_FORMAT, "tokenizer.id.clash");
    refuse_json(JSON("", ADDED("3", "[CLS]"), BERT), ES_E_FORMAT, "tokenizer.id.clash");
    refuse_json(JSON("", ADDED("3", "x") "," ADDED("3", "y"), BERT), ES_E_FORMAT,
                "tokenizer.id.clash");
    refuse_json(JSON("", ADDED("3", ""), BERT), ES_E_UNSUPPORTED, "tokenizer.added");
    refuse_json(JSON("", "{\"id\":3,\"content\":\"x\",\"normalized\":true}", BERT),
                ES_E_UNSUPPORTED, "tokenizer.added");
    refuse_json(JSON("", "{\"id\":3}", BERT), ES_E_FORMAT, "tokenizer.key");
    es_tokenizer *t = open_json(
        JSON(",\"a\":3", ADDED("1", "[CLS]") "," ADDED("4", "<a>") "," ADDED("5", "<a>b"), BERT));
    assert_ids(t, "a<a>a", 1, 3, 4, 3, 2);            /* inside words, too */
    assert_ids(t, "<a>b<a><A>", 1, 5, 4, 0, 3, 0, 2); /* the longest; as it stands, not lowered */
    assert_ids(t, "[CLS][cls]", 1, 1, 0, 0, 0, 2);
    es_tokenizer_free(t);
}

/* Added tokens may lie beyond the model's embeddings as long as no text has them; tokens of the
 * vocabulary itself, and those around every text, may not. */
static void CF06_added_tokens_beyond_the_vocabulary(void **state)
{
    (void)state;
    es_model_config c = {.vocab = 31, .model_type = "bert"};
    const es_encode_opts opts = {.vocab = 31};
    static const char *const fine[] = {
        JSON(",\"a\":30", ADDED("31", "<x>"), BERT),
        JSON(",\"a\":30", ADDED("31", "<x>") "," ADDED("32", "<y>"), BERT),
        JSON(",\"a\":30,\"<x>\":31", ADDED("31", "<x>"), BERT)}; /* in both lists */
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        es_tokenizer *t = open_json(fine[i]);
        es_token_list list = {0};
        remarks = 0;
        es_log_set(count_remark, NULL, ES_LOG_WARN);
        assert_ok(es_model_check_tokenizer(&c, "folder", t, &err));
        es_log_set(NULL, NULL, ES_LOG_ERROR);
        assert_int_equal(remarks, 1);
        assert_ok(es_tokenizer_encode(t, "a a", 3, &opts, &list, &err));
        assert_int_equal(list.count, 4);
        assert_int_equal(es_tokenizer_encode(t, "a <x>", 5, &opts, &list, &err), ES_E_FORMAT);
        assert_string_equal(err.rule, "text.token");
        assert_true(strstr(err.message, "<x>") && strstr(err.message, "31"));
        assert_int_equal(err.offset, 2);
        assert_ok(es_tokenizer_encode(t, "a <x>", 5, NULL, &list, &err));
        es_token_list_free(&list);
        es_tokenizer_free(t);
    }
    static const char *const bad[] = {JSON(",\"a\":31", "", BERT),
                                      JSON(",\"a\":31", ADDED("30", "<x>"), BERT)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        es_tokenizer *t = open_json(bad[i]);
        assert_int_equal(es_model_check_tokenizer(&c, "folder", t, &err), ES_E_FORMAT);
        assert_string_equal(err.rule, "model.vocab");
        es_tokenizer_free(t);
    }
    c.vocab = 2;
    es_tokenizer *t = open_json(JSON("", ADDED("2", "[SEP]"), BERT));
    assert_int_equal(es_model_check_tokenizer(&c, "folder", t, &err), ES_E_FORMAT);
    es_tokenizer_free(t);
}

static void TK06_ids_with_gaps(void **state)
{
    (void)state;
    remarks = 0;
    es_log_set(count_remark, NULL, ES_LOG_WARN);
    es_tokenizer *t = open_json(JSON(",\"a\":9", "", BERT));
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    assert_int_equal(remarks, 1);
    assert_int_equal(es_tokenizer_describe(t).size, 10);
    assert_null(es_tokenizer_token(t, 5));
    assert_null(es_tokenizer_token(t, 10));
    assert_null(es_tokenizer_token(t, -1));
    assert_ids(t, "a", 1, 9, 2);
    es_tokenizer_free(t);
    /* Nothing is allocated because a file says so. */
    refuse_json(JSON(",\"a\":2000000000", "", BERT), ES_E_FORMAT, "tokenizer.id.range");
    refuse_json(JSON(",\"a\":1", "", BERT), ES_E_FORMAT, "tokenizer.id.clash");
}

TEST_FILE(tokenizer_files)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(TK01_vocab_line_ends_and_mark),
        cmocka_unit_test(TK01_blank_and_duplicate_lines_keep_their_numbers),
        cmocka_unit_test(TK01_what_is_no_vocabulary),
        cmocka_unit_test(TK02_missing_specials),
        cmocka_unit_test(TK03_other_models_are_refused),
        cmocka_unit_test(broken_json_is_refused),
        cmocka_unit_test(CF20_files_of_tokenizers_as_other_programs_write_them),
        cmocka_unit_test(a_file_that_is_too_large_is_not_read),
        cmocka_unit_test(TK03_other_forms_are_named),
        cmocka_unit_test(the_bound_of_memory_holds),
        cmocka_unit_test(TK04_normalizer_options),
        cmocka_unit_test(TK05_added_tokens),
        cmocka_unit_test(CF06_added_tokens_beyond_the_vocabulary),
        cmocka_unit_test(TK06_ids_with_gaps),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
