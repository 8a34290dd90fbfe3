/* SPDX-License-Identifier: Apache-2.0 */
/* test_unigram.c : SentencePiece's Unigram against a Python program, whose ids are in
 * tests/golden/unigram; its table of replacements; files that are refused. */
#include "golden_bpe.h"

#include "text/charsmap.h"
#include "text/tokenizer.h"
#include "text/tokenizer_inside.h"

/* ---- ids ---- */

/* Opens a tokenizer of tests/golden/unigram. */
static es_tokenizer *open_unigram(const char *name)
{
    char rest[64];
    es_tokenizer *t = NULL;
    snprintf(rest, sizeof rest, "unigram/%s", name);
    assert_ok(es_tokenizer_open(golden_path(rest), NULL, &t, &err));
    return t;
}

/* Compares the ids of a row, and those of the text in pieces. */
static void check_row(const es_tokenizer *t, const char *text, const json_t *ids)
{
    const es_encode_opts plain = {.no_specials = true};
    const size_t bytes = strlen(text);
    es_token_list list = {0};
    assert_ok(es_tokenizer_encode(t, text, bytes, NULL, &list, &err));
    for (int64_t i = 0; i < list.count && i < (int64_t)json_array_size(ids); i++)
        if (list.tokens[i].id != json_integer_value(json_array_get(ids, (size_t)i)))
            fail_msg("\"%s\": token %lld is %d, expected %lld", text, (long long)i,
                     list.tokens[i].id,
                     (long long)json_integer_value(json_array_get(ids, (size_t)i)));
    assert_int_equal(list.count, json_array_size(ids));
    assert_ok(es_tokenizer_encode(t, text, bytes, &plain, &list, &err));
    check_stream(t, text, bytes, 1, &list);
    es_token_list_free(&list);
}

static void ids_are_those_of_another_program(void **state)
{
    (void)state;
    static char line[65536];
    char open[32] = "";
    es_tokenizer *t = NULL;
    int count = 0;
    FILE *rows = fopen(golden_path("unigram/ids.jsonl"), "rb");
    assert_non_null(rows);
    for (; fgets(line, sizeof line, rows); count++) {
        json_t *row = json_loads(line, 0, NULL);
        const char *name = json_string_value(json_object_get(row, "tokenizer"));
        if (strcmp(name, open) != 0) {
            es_tokenizer_free(t);
            t = open_unigram(name);
            snprintf(open, sizeof open, "%s", name);
        }
        check_row(t, json_string_value(json_object_get(row, "text")), json_object_get(row, "ids"));
        json_decref(row);
    }
    es_tokenizer_free(t);
    fclose(rows);
    assert_int_equal(count, 549);
}

/* A long text passes the edges of what a stream holds at a time, with words that are in the cache
 * and replacements on the edges. */
static void a_long_text_in_pieces_has_the_same_ids(void **state)
{
    (void)state;
    static const char *const models[] = {"xlmr-like", "bytes-like", "ties"};
    static const char unit[] = "The \xef\xac\x81rst cafe\xcc\x81\xcc\x81 \xef\xbd\xb6\xef\xbe\x9e "
                               "\xe4\xb8\xad\xe6\x96\x87\xf0\x9f\x98\x80 ababab\r\n";
    enum { TIMES = 1500 };
    const size_t bytes = TIMES * (sizeof unit - 1);
    const es_encode_opts plain = {.no_specials = true};
    char *text = malloc(bytes);
    assert_non_null(text);
    for (int i = 0; i < TIMES; i++)
        memcpy(text + (size_t)i * (sizeof unit - 1), unit, sizeof unit - 1);
    for (int i = 0; i < 3; i++) {
        es_tokenizer *t = open_unigram(models[i]);
        es_token_list list = {0};
        assert_ok(es_tokenizer_encode(t, text, bytes, &plain, &list, &err));
        check_stream(t, text, bytes, 4093, &list);
        es_token_list_free(&list);
        es_tokenizer_free(t);
    }
    free(text);
}

/* Tokens know the bytes that they were made from: all three of U+FB01, both parts of a letter with
 * its mark. */
static void tokens_know_their_place(void **state)
{
    (void)state;
    es_tokenizer *t = open_unigram("xlmr-like");
    const es_encode_opts plain = {.no_specials = true};
    es_token_list list = {0};
    const char text[] = "\xef\xac\x81 e\xcc\x81";
    assert_ok(es_tokenizer_encode(t, text, sizeof text - 1, &plain, &list, &err));
    assert_at_least(list.count, 2);
    for (int64_t i = 0; i < list.count; i++)
        if (list.tokens[i].begin != 0)
            assert_int_equal(list.tokens[i].begin, 4);
    assert_int_equal(list.tokens[list.count - 1].end, 7);
    assert_string_equal(es_tokenizer_describe(t).model, "Unigram");
    assert_int_equal(es_tokenizer_describe(t).unknown, 3);
    es_token_list_free(&list);
    es_tokenizer_free(t);
}

/* ---- models that are refused ---- */

#define UNIGRAM(flags, vocab, parts)                                                               \
    "{" parts "\"model\":{\"type\":\"Unigram\"," flags "\"vocab\":[" vocab "]}}"
#define AB "[\"<unk>\",0],[\"a\",-1.5],[\"b\",-2]"

static void UG01_models_that_make_no_sense(void **state)
{
    (void)state;
    static const char *const vocabs[] = {"7",     "\"a\"",        "[\"a\"]",     "[\"a\",\"1\"]",
                                         "[1,2]", "[\"a\",null]", "[\"a\",1,2]", "{\"a\":1}"};
    for (size_t i = 0; i < sizeof vocabs / sizeof vocabs[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, UNIGRAM("\"unk_id\":0,", "%s", ""), vocabs[i]);
        refuse_json(text, ES_E_FORMAT, "tokenizer.key");
    }
    refuse_json("{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":{\"a\":1}}}", ES_E_FORMAT,
                "tokenizer.key");
    refuse_json(UNIGRAM("\"unk_id\":0,", "", ""), ES_E_FORMAT, "vocab.empty");
    refuse_json(UNIGRAM("\"unk_id\":0,", "[\"a\",NaN]", ""), ES_E_FORMAT, "tokenizer.json");
    refuse_json(UNIGRAM("\"unk_id\":0,", "[\"a\",-1e999]", ""), ES_E_FORMAT, "tokenizer.json");
    refuse_json(UNIGRAM("", AB, ""), ES_E_FORMAT, "tokenizer.special");
    refuse_json(UNIGRAM("\"unk_id\":null,", AB, ""), ES_E_FORMAT, "tokenizer.special");
    refuse_json(UNIGRAM("\"unk_id\":3,", AB, ""), ES_E_FORMAT, "tokenizer.special");
    refuse_json(UNIGRAM("\"unk_id\":-1,", AB, ""), ES_E_FORMAT, "tokenizer.special");
    refuse_json(UNIGRAM("\"unk_id\":0.5,", AB, ""), ES_E_FORMAT, "tokenizer.key");
    refuse_json(UNIGRAM("\"unk_id\":0,\"byte_fallback\":1,", AB, ""), ES_E_FORMAT, "tokenizer.key");
    refuse_json(UNIGRAM("\"unk_id\":0,\"alpha\":0.1,", AB, ""), ES_E_UNSUPPORTED,
                "tokenizer.model");
    refuse_json(UNIGRAM("\"unk_id\":0,", AB, "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"),
                ES_E_UNSUPPORTED, "tokenizer.pretokenizer");
}

/* Scores whose sums overflow are compared all the same, and there is always a path. */
static void UG01_scores_of_any_size(void **state)
{
    (void)state;
    assert_bpe(UNIGRAM("\"unk_id\":0,", "[\"<unk>\",0],[\"a\",-1e308],[\"aa\",1e308]", ""),
               "aaaaax", 2, 2, 1, 0);
    assert_bpe(UNIGRAM("\"unk_id\":0,", "[\"<unk>\",0],[\"a\",1e308],[\"b\",-1e308]", ""),
               "aaabbbbx", 1, 1, 1, 2, 2, 2, 2, 0);
    assert_bpe("{\"model\":{\"unk_id\":0,\"vocab\":[" AB "]}}", "abx", 1, 2, 0); /* no type */
}

/* ---- the table of replacements ---- */

typedef struct table {
    uint32_t units[512];
    uint32_t size; /* bytes of units, as the table says */
    char texts[32];
    size_t texts_size;
} table;

/* Unit 0x161 is the child 'a' of the root, whose children begin at 256; its own begin at 0x80,
 * where its value is: "bc". */
static table make_table(void)
{
    table t = {.size = 2048, .texts = "x\0bc\0", .texts_size = 5};
    t.units[0] = 256u << 10;
    t.units[0x161] = (0x161u ^ 0x80u) << 10 | 0x100 | 'a';
    t.units[0x80] = 0x80000000u | 2;
    return t;
}

/* Returns a table in base64, of which only the first `bytes` bytes are written. */
static const char *encode(const table *t, size_t bytes)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char out[4096];
    static unsigned char raw[4096];
    size_t used = 0, count = 4;
    memset(raw, 0, sizeof raw);
    memcpy(raw, &t->size, 4);
    memcpy(raw + count, t->units, sizeof t->units);
    count += sizeof t->units;
    memcpy(raw + count, t->texts, t->texts_size);
    count = bytes < count + t->texts_size ? bytes : count + t->texts_size;
    for (size_t at = 0; at < count; at += 3) {
        const unsigned bits = (unsigned)raw[at] << 16 |
                              (at + 1 < count ? (unsigned)raw[at + 1] << 8 : 0) |
                              (at + 2 < count ? raw[at + 2] : 0);
        for (int i = 0; i < 4; i++)
            out[used++] = at + (size_t)i > count ? '=' : letters[bits >> (18 - 6 * i) & 63];
    }
    out[used] = '\0';
    return out;
}

static void a_table_replaces_the_shortest_beginning(void **state)
{
    (void)state;
    table t = make_table();
    es_charsmap map;
    for (int far = 0; far < 2; far++) { /* the same place, written in units of 256 */
        t.units[0] = far ? 1u << 10 | 0x200 : 256u << 10;
        assert_ok(es_charsmap_open(&map, encode(&t, SIZE_MAX), "x", NULL, &err));
        assert_string_equal(es_charsmap_find(&map, (const unsigned char *)"a", 1), "bc");
        assert_string_equal(es_charsmap_find(&map, (const unsigned char *)"ab", 2), "bc");
        assert_null(es_charsmap_find(&map, (const unsigned char *)"b", 1));
        assert_null(es_charsmap_find(&map, (const unsigned char *)"\0a", 2));
        assert_null(es_charsmap_find(&map, (const unsigned char *)"", 0));
        es_charsmap_close(&map);
    }
}

/* Refuses a table by the rule, and by a word of the message. */
static void refuse_table(const char *base64, const char *word)
{
    es_mem_limit budget = {0};
    es_charsmap map;
    assert_int_equal(es_charsmap_open(&map, base64, "x", &budget, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "tokenizer.charsmap");
    if (!strstr(err.message, word))
        fail_msg("\"%s\" does not say %s", err.message, word);
    es_charsmap_close(&map);
    assert_int_equal(budget.used, 0);
}

static void UG02_tables_that_lead_astray(void **state)
{
    (void)state;
    table t = make_table();
    t.units[0x161] = 0x1fffffu << 10 | 0x100 | 'a';
    refuse_table(encode(&t, SIZE_MAX), "children are out of range");
    t = make_table();
    t.units[0] = 512u << 10;
    refuse_table(encode(&t, SIZE_MAX), "children are out of range");
    t = make_table();
    t.units[0x161] = (0x161u ^ 0x100u) << 10 | 'a'; /* its own child */
    refuse_table(encode(&t, SIZE_MAX), "loop");
    t = make_table();
    t.units[0x80] = 0x80000000u | 6;
    refuse_table(encode(&t, SIZE_MAX), "replacement out of range");
    t = make_table();
    memcpy(t.texts, "x\0\xc3\xa9\0", 5); /* the value is the second byte of a character */
    t.units[0x80] = 0x80000000u | 3;
    refuse_table(encode(&t, SIZE_MAX), "replacement out of range");
    t = make_table();
    t.texts[0] = '\xff';
    refuse_table(encode(&t, SIZE_MAX), "UTF-8");
}

static void UG02_tables_that_are_cut_off(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 2, 2047, 2056, UINT32_MAX};
    table t = make_table();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        t.size = sizes[i];
        refuse_table(encode(&t, SIZE_MAX), "cut off");
    }
    t = make_table();
    for (size_t bytes = 0; bytes < 2052; bytes += 57)
        refuse_table(encode(&t, bytes), "cut off");
    t.size = 1024; /* the first half: children of the root are beyond it */
    refuse_table(encode(&t, 1028), "children are out of range");
    refuse_table("A", "base64");
    refuse_table("AAAA====", "base64");
    refuse_table("AA=A", "base64");
    refuse_table("AA\xc3\xa9", "base64");
    char *much = malloc(ES_CHARSMAP_MOST_BYTES + 5);
    assert_non_null(much);
    memset(much, 'A', ES_CHARSMAP_MOST_BYTES + 4);
    much[ES_CHARSMAP_MOST_BYTES + 4] = '\0';
    es_charsmap map;
    assert_int_equal(es_charsmap_open(&map, much, "x", NULL, &err), ES_E_LIMIT);
    assert_string_equal(err.rule, "tokenizer.charsmap");
    free(much);
}

TEST_FILE(unigram)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_another_program),
        cmocka_unit_test(a_long_text_in_pieces_has_the_same_ids),
        cmocka_unit_test(tokens_know_their_place),
        cmocka_unit_test(UG01_models_that_make_no_sense),
        cmocka_unit_test(UG01_scores_of_any_size),
        cmocka_unit_test(a_table_replaces_the_shortest_beginning),
        cmocka_unit_test(UG02_tables_that_lead_astray),
        cmocka_unit_test(UG02_tables_that_are_cut_off),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
