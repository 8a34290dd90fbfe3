/* SPDX-License-Identifier: Apache-2.0 */
/* test_bpe_files.c : tokenizer.json of byte pairs: what is read, and what is refused. BP01, BP02,
 * BP03, BP05 and BP06 of the list of bad inputs. */
#include "tiny_bpe.h"

#include <malloc.h>

#include "text/pattern.h"
#include "text/tokenizer.h"
#include "text/tokenizer_inside.h"

/* ---- the model ---- */

static void BP01_merges_of_what_the_vocabulary_lacks(void **state)
{
    (void)state;
    refuse_json(BPE("\"a\":0,\"ab\":1", "\"a b\"", "", ""), ES_E_FORMAT, "tokenizer.merge");
    refuse_json(BPE("\"b\":0,\"ab\":1", "\"a b\"", "", ""), ES_E_FORMAT, "tokenizer.merge");
    refuse_json(BPE("\"a\":0,\"b\":1", "\"a b\"", "", ""), ES_E_FORMAT, "tokenizer.merge");
    assert_non_null(strstr(err.message, "merge 0"));
    static const char *const none[] = {"\"ab\"",       "\"a b c\"", "\" b\"",    "\"a \"",
                                       "[\"a\"]",      "[\"a\",1]", "7",         "null",
                                       "[\"\",\"b\"]", "\"\"",      "{\"a\":1}", "[]"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, BPE("\"a\":0,\"b\":1,\"ab\":2", "%s", "", ""), none[i]);
        refuse_json(text, ES_E_FORMAT, "tokenizer.key");
    }
    refuse_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", ES_E_FORMAT, "tokenizer.key");
    refuse_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", ES_E_FORMAT,
                "vocab.empty");
}

static void BP02_ids_twice_and_out_of_range(void **state)
{
    (void)state;
    refuse_json(BPE("\"a\":0,\"b\":0", "", "", ""), ES_E_FORMAT, "tokenizer.id.clash");
    refuse_json(BPE("\"a\":0,\"b\":-1", "", "", ""), ES_E_FORMAT, "tokenizer.id.range");
    refuse_json(BPE("\"a\":0,\"b\":4000000000", "", "", ""), ES_E_FORMAT, "tokenizer.id.range");
    refuse_json(BPE("\"a\":0,\"b\":1.5", "", "", ""), ES_E_FORMAT, "tokenizer.key");
    refuse_json(BPE("\"a\":0", "", "", "\"added_tokens\":[{\"content\":\"x\",\"id\":0}],"),
                ES_E_FORMAT, "tokenizer.id.clash");
    refuse_json(BPE("\"a\":0", "", "\"unk_token\":\"<unk>\",", ""), ES_E_FORMAT,
                "tokenizer.special");
    es_tokenizer *t = open_json(BPE("\"a\":0,\"b\":9", "", "", "")); /* a hole is a remark */
    assert_int_equal(es_tokenizer_describe(t).size, 10);
    assert_int_equal(es_tokenizer_describe(t).unknown, -1);
    assert_string_equal(es_tokenizer_describe(t).model, "BPE");
    assert_null(es_tokenizer_token(t, 5));
    es_tokenizer_free(t);
}

static void merges_are_spelt_in_two_ways_and_models_told_by_them(void **state)
{
    (void)state;
    assert_bpe(BPE(ABC, ABC_MERGES, "", ""), "abcab", 6, 5);
    assert_bpe("{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}", "aab", 0,
               2);
}

/* ---- parts ---- */

/* The part, and the word that the message must have. */
static void refuse_part(const char *part, const char *rule, const char *name)
{
    char text[1024];
    snprintf(text, sizeof text, BPE("\"a\":0", "", "", "%s,"), part);
    refuse_json(text, ES_E_UNSUPPORTED, rule);
    if (!strstr(err.message, name))
        fail_msg("\"%s\" does not name %s", err.message, name);
}

static void BP05_what_is_unknown_is_refused_by_name(void **state)
{
    (void)state;
    refuse_part("\"normalizer\":{\"type\":\"Nmt\"}", "tokenizer.normalizer", "Nmt");
    refuse_part("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
                "{\"type\":\"StripAccents\"}]}",
                "tokenizer.normalizer", "StripAccents");
    refuse_part("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Sequence\"}]}",
                "tokenizer.normalizer", "Sequence");
    refuse_part("\"normalizer\":{}", "tokenizer.normalizer", "unknown");
    refuse_part("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}", "tokenizer.pretokenizer",
                "UnicodeScripts");
    refuse_part("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                "\"ByteLevel\"},{\"type\":\"Metaspace\"}]}",
                "tokenizer.pretokenizer", "behind ByteLevel");
    refuse_part("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
                "\"behavior\":\"Sideways\"}",
                "tokenizer.pretokenizer", "Sideways");
    refuse_part("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"last\"}",
                "tokenizer.pretokenizer", "last");
    refuse_part("\"decoder\":{\"type\":\"Rot13\"}", "tokenizer.decoder", "Rot13");
    refuse_part("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
                "{\"type\":\"CTC\"}]}",
                "tokenizer.decoder", "CTC");
    refuse_part("\"post_processor\":{\"type\":\"Mystery\"}", "tokenizer.postprocessor", "Mystery");
    refuse_part("\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":"
                "\"ByteLevel\"},{\"type\":\"Mystery\"}]}",
                "tokenizer.postprocessor", "Mystery");
}

/* RoBERTa's old way to say what stands around a text. */
static void a_pair_of_tokens_stands_around_a_text(void **state)
{
    (void)state;
    es_tokenizer *t = open_json(BPE(ABC, ABC_MERGES, "",
                                    "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":"
                                    "[\"-\",3],\"cls\":[\"<unk>\",7],\"trim_offsets\":true},"));
    const es_tokenizer_info info = es_tokenizer_describe(t);
    assert_int_equal(info.prefix_count, 1);
    assert_int_equal(info.prefix[0], 7);
    assert_int_equal(info.suffix_count, 1);
    assert_int_equal(info.suffix[0], 3);
    es_tokenizer_free(t);
}

static void BP05_models_with_more_to_them_are_refused(void **state)
{
    (void)state;
    static const char *const more[] = {"\"dropout\":0.1,", "\"continuing_subword_prefix\":\"##\",",
                                       "\"end_of_word_suffix\":\"</w>\",", "\"byte_order\":1,"};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, BPE("\"a\":0", "", "%s", ""), more[i]);
        refuse_json(text, ES_E_UNSUPPORTED, "tokenizer.model");
    }
    refuse_json(BPE("\"a\":0", "", "\"byte_fallback\":true,",
                    "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"),
                ES_E_UNSUPPORTED, "tokenizer.model");
    es_tokenizer_free(open_json(BPE("\"a\":0", "",
                                    "\"dropout\":null,"
                                    "\"continuing_subword_prefix\":\"\","
                                    "\"end_of_word_suffix\":\"\",",
                                    "")));
}

static void parts_of_another_form_are_refused(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "\"normalizer\":{\"type\":\"Prepend\"}",
        "\"normalizer\":{\"type\":\"Replace\",\"content\":\"\"}",
        "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\",\"Regex\":\"a\"},"
        "\"content\":\"\"}",
        "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}",
        "\"normalizer\":{\"type\":\"Sequence\"}",
        "\"normalizer\":{\"type\":\"Precompiled\"}",
        "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":7}",
        "\"normalizer\":{\"type\":\"Strip\",\"strip_left\":0}",
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":7}",
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":1}",
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"too long\"}",
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}",
        "\"decoder\":{\"type\":\"Sequence\"}",
        "\"post_processor\":{\"type\":\"Sequence\"}",
        "\"added_tokens\":[{\"id\":1}]",
        "\"added_tokens\":[{\"content\":\"x\",\"id\":1,\"lstrip\":\"yes\"}]"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, BPE("\"a\":0", "", "", "%s,"), parts[i]);
        refuse_json(text, ES_E_FORMAT, "tokenizer.key");
    }
}

static void BP06_json_that_is_no_unicode(void **state)
{
    (void)state;
    refuse_json(BPE("\"\\ud800\":0", "", "", ""), ES_E_FORMAT, "tokenizer.json");
    refuse_json(BPE("\"\\udc00x\":0", "", "", ""), ES_E_FORMAT, "tokenizer.json");
    refuse_json(BPE("\"\\u0000\":0", "", "", ""), ES_E_FORMAT, "tokenizer.json");
    refuse_json(BPE("\"a\xff\":0", "", "", ""), ES_E_FORMAT, "tokenizer.json");
    refuse_json(BPE("\"a\":0,\"\\u0061\":1", "", "", ""), ES_E_FORMAT, "tokenizer.json");
}

/* What malloc has handed out, pages of their own included. */
static size_t handed_out(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void a_tree_takes_no_more_than_is_charged_for_it(void **state)
{
    (void)state;
    static const char *const units[] = {"[]",       "{}",           "1", "\"\"", "[[]]",
                                        "{\"\":0}", "[\"a\",\"b\"]"};
    enum { COUNT = 66000 }; /* just over a power of two: tables have doubled */
    char *text = malloc(COUNT * 16 + 16);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        es_mem_limit budget = {0};
        es_settings s;
        char *end = text + sprintf(text, "{\"\":[");
        for (int k = 0; k < COUNT; k++)
            end += sprintf(end, "%s%s", k ? "," : "", units[i]);
        end += sprintf(end, "]}");
        const size_t before = handed_out();
        assert_ok(es_settings_open(&s, text, (size_t)(end - text), "x", &budget, &err));
        if (handed_out() != 0) /* 0: a sanitizer */
            assert_at_most(handed_out() - before, budget.used);
        es_settings_close(&s);
        assert_int_equal(budget.used, 0);
    }
    free(text);
}

/* ---- patterns ---- */

static void BP03_patterns_that_are_none(void **state)
{
    (void)state;
    static const char *const broken[] = {"(",      "[a",       "a{2,1}", "\\\\p{Nothing}",
                                         "\\\\h+", "[a&&b]",   "[a[b]]", "a\\\\Kb",
                                         "*",      "(?<=a+)b", "\\\\C",  ""};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, BPE("\"a\":0", "", "", SPLIT("%s", "Isolated")), broken[i]);
        refuse_json(text, ES_E_UNSUPPORTED, "tokenizer.pattern");
    }
    char *text = malloc(20000);
    assert_non_null(text);
    char *end = text + sprintf(text, "%s",
                               "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"");
    memset(end, 'a', 9000);
    strcpy(end + 9000, "\"},\"behavior\":\"Isolated\"},\"model\":{\"type\":\"BPE\",\"vocab\":{"
                       "\"a\":0},\"merges\":[]}}");
    refuse_json(text, ES_E_UNSUPPORTED, "tokenizer.pattern");
    free(text);
}

/* Returns the work of one search for `pattern` in the text (es_matcher_work()). */
static double work_of(const char *pattern, const char *text, size_t bytes)
{
    es_pattern *p;
    es_matcher *m;
    es_found found;
    size_t begin, end;
    assert_ok(es_pattern_open(pattern, false, "x", NULL, &p, &err));
    assert_ok(es_matcher_open(NULL, &m, &err));
    es_pattern_find(p, m, (const unsigned char *)text, bytes, 0, true, &found, &begin, &end, &err);
    const double work = es_matcher_work(m);
    es_matcher_close(m);
    es_pattern_close(p);
    return work;
}

/* (a|aa)+$ on a's and another letter tries every way to cut them up: 10^12 for 60. Patterns explode
 * for the machine code of PCRE2 and for its interpreter. PCRE2 counts its steps and stops at a
 * limit: 2^14, then 2^16, then 2^16 + 800 for 100 bytes, below 2^18 in all. */
static void BP03_a_pattern_that_explodes(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(a|aa)+$", "(?:a*)*c", "(a|a?)+b"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        char json[256], text[100];
        es_token_list list = {0};
        memset(text, 'a', sizeof text);
        text[99] = '-';
        snprintf(json, sizeof json, BPE(ABC, "", "", SPLIT("%s", "Isolated")), patterns[i]);
        es_tokenizer *t = open_json(json);
        assert_below(work_of(patterns[i], text, sizeof text), 1 << 18);
        const es_status status = es_tokenizer_encode(t, text, sizeof text, NULL, &list, &err);
        if (i == 0 || status != ES_OK) { /* PCRE2 sees through some of them */
            assert_int_equal(status, ES_E_LIMIT);
            assert_string_equal(err.rule, "tokenizer.pattern");
            assert_non_null(strstr(err.message, patterns[i]));
        }
        es_token_list_free(&list);
        es_tokenizer_free(t);
    }
}

/* a*b|a looks to the end of the text from every letter: each match is linear, all are quadratic.
 * The text is refused after 64 looks or so, not after 400 000; words by an honest pattern take next
 * to nothing of what they may. */
static void BP03_a_pattern_that_looks_at_everything_again_and_again(void **state)
{
    (void)state;
    enum { BYTES = 400000 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    static const char *const patterns[] = {"a*b|a", "(?=a*b)c|a", "(?:a|a?){9}b|a"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        char json[256];
        es_token_list list = {0};
        memset(text, 'a', BYTES);
        snprintf(json, sizeof json, BPE(ABC, "", "", SPLIT("%s", "Isolated")), patterns[i]);
        es_tokenizer *t = open_json(json);
        assert_int_equal(es_tokenizer_encode(t, text, BYTES, NULL, &list, &err), ES_E_LIMIT);
        assert_string_equal(err.rule, "tokenizer.pattern");
        assert_non_null(strstr(err.message, patterns[i]));
        assert_ok(es_tokenizer_encode(t, text, 50, NULL, &list, &err)); /* a short text is fine */
        es_token_list_free(&list);
        es_tokenizer_free(t);
    }
    free(text);
}

/* Text that is hard on honest patterns: runs of spaces, letters, digits and signs of every length
 * up to a line of 100 KB. Work is counted, not time. */
static void matches_of_honest_patterns_look_at_little(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "'s|'t| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
        "\\s+(?!\\S)|\\s+"};
    enum { BYTES = 1 << 20 };
    unsigned char *text = malloc(BYTES);
    assert_non_null(text);
    size_t used = 0;
    for (size_t run = 1; used < BYTES; run = run < 100000 ? run + 1 + run / 3 : 1)
        for (const char *kind = "a 1-\n \t"; *kind && used < BYTES; kind++)
            for (size_t i = 0; i < run && used < BYTES; i++)
                text[used++] = (unsigned char)*kind;
    for (int i = 0; i < 2; i++) {
        es_pattern *p;
        es_matcher *m;
        es_found found = ES_FOUND_MATCH;
        assert_ok(es_pattern_open(patterns[i], false, "x", NULL, &p, &err));
        assert_ok(es_matcher_open(NULL, &m, &err));
        for (size_t at = 0, begin, end = 0; found == ES_FOUND_MATCH && end < BYTES; at = end)
            assert_ok(es_pattern_find(p, m, text, BYTES, at, true, &found, &begin, &end, &err));
        assert_below(es_matcher_work(m), 16.0 * BYTES); /* measured: 2.6 and 4.8; 64 are allowed */
        es_matcher_close(m);
        es_pattern_close(p);
    }
    free(text);
}

static void behaviors_of_split(void **state)
{
    (void)state;
    /* one piece per word tells where words end: "--" is merged if it is in one word */
#define DASHES      "\"a\":0,\"-\":1,\"--\":2,\"a-\":3,\"-a\":4,\"aa\":5"
#define DASH_MERGES "\"- -\",\"a -\",\"- a\",\"a a\""
    assert_bpe(BPE(DASHES, DASH_MERGES, "", ""), "a--a", 0, 2, 0);
    assert_bpe(BPE(DASHES, DASH_MERGES, "", SPLIT("-", "Removed")), "aa--a", 5, 0);
    assert_bpe(BPE(DASHES, DASH_MERGES, "", SPLIT("-", "Isolated")), "aa--a", 5, 1, 1, 0);
    assert_bpe(BPE(DASHES, DASH_MERGES, "", SPLIT("-", "Contiguous")), "aa--a", 5, 2, 0);
    assert_bpe(BPE(DASHES, DASH_MERGES, "", SPLIT("-", "MergedWithPrevious")), "a--a", 3, 1, 0);
    assert_bpe(BPE(DASHES, DASH_MERGES, "", SPLIT("-", "MergedWithNext")), "a--a", 0, 1, 4);
    assert_bpe(BPE(DASHES, DASH_MERGES, "", SPLIT("-", "MergedWithNext")), "a--", 0, 1, 1);
    assert_bpe(BPE(DASHES, DASH_MERGES, "", SPLIT("x*", "Isolated")), "aa", 0, 0);
    assert_bpe(BPE(DASHES, DASH_MERGES, "",
                   "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},"
                   "\"behavior\":\"Removed\",\"invert\":true},"),
               "aa--a", 1, 1);
    /* looks back: what stands before a match has to be kept */
    assert_bpe(BPE(DASHES, DASH_MERGES, "", SPLIT("(?<=a)-", "Isolated")), "a--a", 0, 1, 4);
    assert_bpe(BPE(DASHES, DASH_MERGES, "", SPLIT("-$", "Isolated")), "a--", 3, 1);
}

static void digits_and_sequences(void **state)
{
    (void)state;
#define NUMBERS       "\"1\":0,\"2\":1,\"12\":2,\"a\":3,\"a1\":4,\"\\u00bd\":5,\"2\\u00bd\":6"
#define NUMBER_MERGES "\"1 2\",\"a 1\",\"2 \\u00bd\""
    assert_bpe(BPE(NUMBERS, NUMBER_MERGES, "",
                   "\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":true},"),
               "a12\xc2\xbd", 3, 0, 1, 5);
    assert_bpe(BPE(NUMBERS, NUMBER_MERGES, "", "\"pre_tokenizer\":{\"type\":\"Digits\"},"),
               "a12\xc2\xbd", 3, 2, 5);
    assert_bpe(
        BPE(NUMBERS, NUMBER_MERGES, "",
            "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
            "\"pattern\":{\"String\":\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"Digits\","
            "\"individual_digits\":true}]},"),
        "12a1", 0, 1, 3, 0);
}

static void normalizers_in_their_order(void **state)
{
    (void)state;
#define REPLACE(from, to) "{\"type\":\"Replace\",\"pattern\":{" from "},\"content\":\"" to "\"}"
    assert_bpe(BPE(ABC, ABC_MERGES, "",
                   "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
                   "\"prepend\":\"-\"}," REPLACE("\"Regex\":\"x+|y\"", "ab") "]},"),
               "xxc y", 3, 6, 4, 5);
    assert_bpe(BPE(ABC, ABC_MERGES, "", "\"normalizer\":" REPLACE("\"String\":\"xy\"", "") ","),
               "axybxyc", 6);
    assert_bpe(BPE(ABC, ABC_MERGES, "", "\"normalizer\":" REPLACE("\"Regex\":\"z*\"", "-") ","),
               "ab", 3, 0, 3, 1, 3);
}

TEST_FILE(bpe_files)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(BP01_merges_of_what_the_vocabulary_lacks),
        cmocka_unit_test(BP02_ids_twice_and_out_of_range),
        cmocka_unit_test(merges_are_spelt_in_two_ways_and_models_told_by_them),
        cmocka_unit_test(BP05_what_is_unknown_is_refused_by_name),
        cmocka_unit_test(a_pair_of_tokens_stands_around_a_text),
        cmocka_unit_test(BP05_models_with_more_to_them_are_refused),
        cmocka_unit_test(parts_of_another_form_are_refused),
        cmocka_unit_test(BP06_json_that_is_no_unicode),
        cmocka_unit_test(a_tree_takes_no_more_than_is_charged_for_it),
        cmocka_unit_test(BP03_patterns_that_are_none),
        cmocka_unit_test(BP03_a_pattern_that_explodes),
        cmocka_unit_test(BP03_a_pattern_that_looks_at_everything_again_and_again),
        cmocka_unit_test(matches_of_honest_patterns_look_at_little),
        cmocka_unit_test(behaviors_of_split),
        cmocka_unit_test(digits_and_sequences),
        cmocka_unit_test(normalizers_in_their_order),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
