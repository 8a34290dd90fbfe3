/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors_header.c : headers of safetensors files. ST01 .. ST27: each bad one with its
 * status and rule, each odd but valid one with what is read of it. */
#include "testing.h"

#include "st_writer.h"
#include "steps.h"

/* ---- length and first byte ---- */

static void ST01_files_shorter_than_a_length(void **state)
{
    (void)state;
    for (size_t size = 0; size < 8; size++)
        refuse(write_file("x.safetensors", "\2\0\0\0\0\0\0", size), ES_E_FORMAT,
               "safetensors.short", (int64_t)size);
}

static void ST02_header_longer_than_the_file(void **state)
{
    (void)state;
    refuse(write_st_raw("x.safetensors", 3, "{}", 2, NULL, 0), ES_E_FORMAT,
           "safetensors.header.size", 0);
    refuse(write_st_raw("x.safetensors", 0, "", 0, NULL, 0), ES_E_FORMAT,
           "safetensors.header.begin", 8); /* exactly 8 bytes */
}

static void ST03_header_lengths_that_wrap(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 8,
                                       UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        refuse(write_st_raw("x.safetensors", lengths[i], "{}", 2, NULL, 0), ES_E_FORMAT,
               "safetensors.header.size", 0);
}

static void ST04_header_over_the_limit(void **state)
{
    (void)state;
    const es_st_opts small = {.header_most = 40};
    const char *path = write_st(ONE("F32", "[0]", "[0,0]"), NULL, 0);
    refuse_with(path, &small, ES_E_FORMAT, "safetensors.header.limit", 0);
    /* The default is 100 million; the file is sparse, so its length costs nothing. */
    path = write_st_raw("x.safetensors", 100000001, "{", 1, NULL, 0);
    assert_int_equal(truncate(path, 100000100), 0);
    refuse(path, ES_E_FORMAT, "safetensors.header.limit", 0);
}

static void ST05_no_header(void **state)
{
    (void)state;
    refuse(write_st("", NULL, 0), ES_E_FORMAT, "safetensors.header.begin", 8);
    refuse(write_st_raw("x.safetensors", 0, "", 0, NULL, 16), ES_E_FORMAT,
           "safetensors.header.begin", 8);
    es_st *st = open_ok(write_st("{}", NULL, 0)); /* no tensors: fine */
    assert_int_equal(es_st_count(st), 0);
    assert_null(es_st_find(st, ""));
    es_st_close(st);
}

static void ST06_header_begins_with_a_brace(void **state)
{
    (void)state;
    refuse_header(" {}", 0, "safetensors.header.begin");
    refuse_header("\xef\xbb\xbf{}", 0, "safetensors.header.begin");
    refuse_header("\n{}", 0, "safetensors.header.begin");
}

/* ---- JSON ---- */

static void ST07_invalid_characters(void **state)
{
    (void)state;
    static const char *const names[] = {"\x80", "\xc0\xaf",         "\xe0\x80\xaf",
                                        "\xff", "\xed\xa0\x80",     "\xf4\x90\x80\x80",
                                        "\xc3", "\xf0\x80\x80\xaf", "\xe2\x82"};
    char header[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(header, sizeof header, "{\"%s\":" ENTRY("F32", "[0]", "[0,0]") "}", names[i]);
        refuse(write_st(header, NULL, 0), ES_E_FORMAT, "safetensors.utf8", 10);
    }
    refuse_header("{\"a\tb\":" ENTRY("F32", "[0]", "[0,0]") "}", 0, "safetensors.json");
    static const char nul[] = "{\"a\0b\":" ENTRY("F32", "[0]", "[0,0]") "}";
    refuse(write_st_raw("x.safetensors", sizeof nul - 1, nul, sizeof nul - 1, NULL, 0), ES_E_FORMAT,
           "safetensors.json", 11);
    refuse_header("{\"a\\u0000b\":" ENTRY("F32", "[0]", "[0,0]") "}", 0, "safetensors.name");
    static const char *const escapes[] = {"\\ud800",        "\\udc00", "\\ud800\\u0041",
                                          "\\x41",          "\\u12g4", "\\u12",
                                          "\\ud800\\udbff", "\\",      "\\uD83D\\u00e9"};
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        snprintf(header, sizeof header, "{\"%s\":" ENTRY("F32", "[0]", "[0,0]") "}", escapes[i]);
        refuse_header(header, 0, "safetensors.json");
    }
}

static void ST08_not_json(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{ ",
        "{}x",
        "{}{}",
        "{\"a\":" ENTRY("F32", "[0]", "[0,0]") ",}",
        "{\"a\" " ENTRY("F32", "[0]", "[0,0]") "}",
        "{'a':" ENTRY("F32", "[0]", "[0,0]") "}",
        "{/* c */}",
        "{a:" ENTRY("F32", "[0]", "[0,0]") "}",
        ONE("F32", "[0,]", "[0,0]"),
        ONE("F32", "[,0]", "[0,0]"),
        ONE("F32", "[0 0]", "[0,0]"),
        ONE("F32", "[NaN]", "[0,0]"),
        ONE("F32", "[00]", "[0,0]"),
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":NaN}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":01}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":1.}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":1e}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":tru}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":[1}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\"}}",
        "{\"a",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        refuse_header(headers[i], 0, "safetensors.json");
}

static void ST09_top_level_is_no_object(void **state)
{
    (void)state;
    refuse_header("[]", 0, "safetensors.header.begin");
    refuse_header("123", 0, "safetensors.header.begin");
    refuse_header("\"abc\"", 0, "safetensors.header.begin");
    refuse_header("null", 0, "safetensors.header.begin");
}

static void ST10_deep_nesting(void **state)
{
    (void)state;
    enum { DEEP = 1000000 };
    char *header = malloc(DEEP + 6);
    assert_non_null(header);
    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', DEEP);
    header[DEEP + 5] = '\0';
    refuse_header(header, 0, "safetensors.json"); /* an array where an entry should be */
    memcpy(header, "{\"__metadata__\":{\"x\":", 21);
    refuse_header(header, 0, "safetensors.metadata");
    memset(header, '[', 21);
    memcpy(header, "{\"a\":{\"x\":", 10);
    refuse_header(header, 0, "safetensors.depth");
    for (size_t i = 10; i + 5 <= DEEP; i += 5)
        memcpy(header + i, "{\"x\":", 5);
    refuse_header(header, 0, "safetensors.depth");
    free(header);
}

/* ---- entries ---- */

static void ST11_duplicate_names(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",\"a\":" ENTRY("U8", "[1]", "[1,2]") "}",
        "{\"a\":" ENTRY("U8", "[2]", "[0,2]") ",\"\\u0061\":" ENTRY("U8", "[2]", "[0,2]") "}",
        "{\"\\ud83d\\ude00\":" ENTRY("U8", "[0]", "[0,0]") ",\"\xf0\x9f\x98\x80\":" ENTRY(
            "U8", "[2]", "[0,2]") "}",
        "{\"a\\/b\":" ENTRY("U8", "[0]", "[0,0]") ",\"a/b\":" ENTRY("U8", "[2]", "[0,2]") "}",
        "{\"__metadata__\":{},\"__metadata__\":{}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"shape\":[2]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"\\u0073hape\":[2]}}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        refuse_header(headers[i], 2, "safetensors.duplicate");
        assert_non_null(strstr(err.message, "duplicate"));
    }
    refuse(write_st(headers[0], NULL, 2), ES_E_FORMAT, "safetensors.duplicate", 8 + 54);
}

static int remarks;
static void count_remark(void *user, es_log_level level, const char *message)
{
    (void)user;
    (void)message;
    remarks += level == ES_LOG_WARN;
}

static void ST12_missing_and_extra_keys(void **state)
{
    (void)state;
    refuse_header("{\"a\":{\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "safetensors.entry");
    assert_non_null(strstr(err.message, "'dtype'"));
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,0]}}", 0, "safetensors.entry");
    assert_non_null(strstr(err.message, "'shape'"));
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[0]}}", 0, "safetensors.entry");
    assert_non_null(strstr(err.message, "'data_offsets'"));
    refuse_header("{\"a\":{}}", 0, "safetensors.entry");
    refuse_header("{\"a\":null}", 0, "safetensors.json");
    refuse_header("{\"a\":\"F32\"}", 0, "safetensors.json");
    refuse_header("{\"a\":{\"dtype\":32,\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
                  "safetensors.json");
    remarks = 0;
    es_log_set(count_remark, NULL, ES_LOG_WARN);
    es_st_close(open_ok(write_st("{\"a\":{\"dtype\":\"F32\",\"x\":{\"y\":[1,-2.5e+3,null]},"
                                 "\"shape\":[0],\"data_offsets\":[0,0]}}",
                                 NULL, 0)));
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    assert_int_equal(remarks, 1);
}

static void ST13_offsets_that_are_no_offsets(void **state)
{
    (void)state;
    static const char *const json[] = {"[-1,4]",
                                       "[0,-4]",
                                       "[0.0,4]",
                                       "[0,4.0]",
                                       "[0,4e0]",
                                       "[0,1e3]",
                                       "[+0,4]",
                                       "[\"0\",4]",
                                       "[null,4]",
                                       "[0,9223372036854775808]",
                                       "[0,18446744073709551620]",
                                       "[-0,4]",
                                       "{\"0\":4}",
                                       "4",
                                       "[true,4]"};
    static const char *const rule[] = {"[]", "[0]", "[0,4,4]"};
    char header[160];
    for (size_t i = 0; i < sizeof json / sizeof json[0]; i++) {
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":%s}}", json[i]);
        refuse_header(header, 4, "safetensors.json");
    }
    for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++) {
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":%s}}", rule[i]);
        refuse_header(header, 4, "safetensors.offsets");
    }
    refuse_header(ONE("F32", "[-1]", "[0,4]"), 4, "safetensors.json");
    refuse_header(ONE("F32", "[1.0]", "[0,4]"), 4, "safetensors.json");
}

static void ST14_end_before_begin(void **state)
{
    (void)state;
    refuse_header(ONE("F32", "[1]", "[4,0]"), 4, "safetensors.offsets");
    refuse_header(ONE("F32", "[0]", "[9223372036854775807,0]"), 4, "safetensors.offsets");
}

static void ST15_end_past_the_data(void **state)
{
    (void)state;
    refuse_header(ONE("F32", "[2]", "[0,8]"), 7, "safetensors.range");
    refuse_header(ONE("F32", "[2]", "[4,12]"), 8, "safetensors.range");
    refuse_header(ONE("U8", "[9223372036854775807]", "[0,9223372036854775807]"), 8,
                  "safetensors.range");
    refuse_header(ONE("F99", "[1]", "[0,9]"), 8, "safetensors.range"); /* ST21: checked as well */
}

static void ST16_overlap(void **state)
{
    (void)state;
    refuse_header("{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "[3,7]") "}",
                  7, "safetensors.overlap");
    refuse_header("{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "[0,4]") "}",
                  4, "safetensors.overlap");
    refuse_header("{\"a\":" ENTRY("U8", "[8]", "[0,8]") ",\"b\":" ENTRY("U8", "[0]", "[4,4]") "}",
                  8, "safetensors.overlap"); /* an empty one inside another */
}

static void ST17_hole(void **state)
{
    (void)state;
    refuse_header("{\"a\":" ENTRY("U8", "[2]", "[0,2]") ",\"b\":" ENTRY("U8", "[2]", "[3,5]") "}",
                  5, "safetensors.hole");
    refuse_header(ONE("U8", "[2]", "[1,3]"), 3, "safetensors.hole");
}

static void ST18_trailing_bytes(void **state)
{
    (void)state;
    const es_st_opts lenient = {.allow_trailing = true};
    es_st *st;
    const char *path = write_st(ONE("U8", "[2]", "[0,2]"), NULL, 5);
    refuse(path, ES_E_FORMAT, "safetensors.trailing", -2);
    remarks = 0;
    es_log_set(count_remark, NULL, ES_LOG_WARN);
    assert_ok(es_st_open(path, &lenient, &st, &err));
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    assert_int_equal(remarks, 1);
    es_st_close(st);
    refuse_header("{}", 1, "safetensors.trailing");
}

static void ST19_shapes_that_overflow(void **state)
{
    (void)state;
    static const char *const shapes[] = {
        "[4294967296,4294967296]", "[9223372036854775807,2]", "[2305843009213693952]",
        "[0,4294967296,4294967296]", /* empty, but its strides overflow */
        "[65536,65536,65536,65536]"};
    char header[160];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        snprintf(header, sizeof header, "{\"a\":" ENTRY("F64", "%s", "[0,0]") "}", shapes[i]);
        refuse_header(header, 0, "safetensors.shape.overflow");
    }
}

static void ST20_bytes_are_not_what_the_shape_needs(void **state)
{
    (void)state;
    refuse_header(ONE("F32", "[2]", "[0,7]"), 7, "safetensors.size");
    refuse_header(ONE("F32", "[2]", "[0,4]"), 4, "safetensors.size");
    refuse_header(ONE("F16", "[2,3]", "[0,24]"), 24, "safetensors.size");
    refuse_header(ONE("F32", "[0]", "[0,4]"), 4, "safetensors.size");
    refuse_header(ONE("F32", "[]", "[0,0]"), 0, "safetensors.size");
    refuse_header(ONE("F4", "[3]", "[0,2]"), 2, "safetensors.size"); /* 12 bits */
}

static void expect_unsupported(const char *header, size_t data, const char *named)
{
    double out[8];
    es_st *st = open_ok(write_st(header, NULL, data));
    assert_int_equal(es_st_read(st, es_st_at(st, 0), ES_F64, out, NULL, &err), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "safetensors.dtype");
    assert_non_null(strstr(err.message, named));
    assert_non_null(strstr(err.message, "'a'"));
    es_st_close(st);
}

static void ST21_unknown_dtype_is_listed(void **state)
{
    (void)state;
    expect_unsupported(ONE("F99", "[3]", "[0,5]"), 5, "F99");
    expect_unsupported(ONE("", "[3]", "[0,5]"), 5, "unknown");
    expect_unsupported(ONE("a long name for a dtype", "[3]", "[0,5]"), 5, "a long name");
    expect_unsupported(ONE("f32", "[1]", "[0,4]"), 4, "f32");
    expect_unsupported(ONE("I64", "[1]", "[0,8]"), 8, "integers");
}

static void ST22_small_floats_are_named(void **state)
{
    (void)state;
    expect_unsupported(ONE("F8_E4M3", "[3]", "[0,3]"), 3, "F8_E4M3 (8-bit floats)");
    expect_unsupported(ONE("F8_E5M2", "[3]", "[0,3]"), 3, "F8_E5M2 (8-bit floats)");
    expect_unsupported(ONE("F4", "[4]", "[0,2]"), 2, "F4 (4-bit floats)");
    expect_unsupported(ONE("F6_E2M3", "[4]", "[0,3]"), 3, "F6_E2M3 (6-bit floats)");
}

static void ST23_rank_0_and_dimensions_of_0(void **state)
{
    (void)state;
    static const float seven = 7.0f;
    float f[2] = {-1.0f, -1.0f};
    es_st *st =
        open_ok(write_st("{\"s\":" ENTRY("F32", "[]", "[0,4]") ",\"e\":" ENTRY(
                             "F32", "[3,0,2]", "[4,4]") ",\"f\":" ENTRY("F16", "[0]", "[0,0]") "}",
                         &seven, 4));
    const es_st_tensor *s = es_st_find(st, "s"), *e = es_st_find(st, "e");
    assert_equals(s->rank, 0);
    assert_equals(s->count, 1);
    assert_equals(e->rank, 3);
    assert_equals(e->count, 0);
    assert_ok(es_st_read(st, s, ES_F32, f, NULL, &err));
    assert_ok(es_st_read(st, e, ES_F32, f + 1, NULL, &err));
    assert_equals(f[0], 7.0f);
    assert_equals(f[1], -1.0f);
    es_st_close(st);
}

static void ST24_rank_above_8(void **state)
{
    (void)state;
    es_st_close(open_ok(write_st(ONE("U8", "[1,1,1,1,1,1,1,1]", "[0,1]"), NULL, 1)));
    refuse(write_st(ONE("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), NULL, 1), ES_E_UNSUPPORTED,
           "safetensors.rank", -2);
}

/* Opens a file of `count` empty tensors whose names are not in order, in memory that is a small
 * multiple of the header, and tests that less is refused. Returns the steps that opening it takes
 * (steps.h). */
static uint64_t steps_to_open(int count)
{
    char *header = malloc(80 * (size_t)count);
    size_t size = 0;
    assert_non_null(header);
    for (int i = 0; i < count; i++)
        size += (size_t)sprintf(header + size, "%c\"%x\":" ENTRY("F32", "[0]", "[0,0]"),
                                i ? ',' : '{', (int)((int64_t)i * 7919 % count));
    header[size++] = '}';
    const char *path = write_st_raw("x.safetensors", size, header, size, NULL, 0);
    free(header);
    es_mem_limit budget = {.limit = 5 * size};
    const es_st_opts opts = {.budget = &budget};
    es_st *st;
    const uint64_t before = steps_so_far();
    assert_ok(es_st_open(path, &opts, &st, &err));
    const uint64_t steps = steps_so_far() - before;
    assert_at_least(steps, size); /* the sources are counted */
    assert_int_equal(es_st_count(st), count);
    assert_non_null(es_st_find(st, "3e7"));
    es_st_close(st);
    assert_int_equal(budget.used, 0);
    budget.limit = 2 * size; /* too little is refused, not taken */
    assert_int_equal(es_st_open(path, &opts, &st, &err), ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
    return steps;
}

/* The format's limit on headers bounds their number; here 200 thousand. Sorting n names takes
 * n log n comparisons, 12 times as many for 10 times the names; comparing each with each would take
 * 100 times as many. */
static void ST25_very_many_tensors(void **state)
{
    (void)state;
    const uint64_t tenth = steps_to_open(20000);
    assert_below(steps_to_open(200000), 15 * tenth);
}

/* Members that are no tensors must not make us allocate for tensors: five bytes of file each. */
static void ST25_cheap_members_cost_nothing(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    char *header = malloc(6 * MANY + 2);
    assert_non_null(header);
    size_t size = 0;
    for (int i = 0; i < MANY; i++, size += 6)
        memcpy(header + size, i ? ",\"\":{}" : "{\"\":{}", 6);
    header[size++] = '}';
    es_mem_limit budget = {0};
    const es_st_opts opts = {.budget = &budget};
    es_st *st;
    const char *path = write_st_raw("x.safetensors", size, header, size, NULL, 0);
    free(header);
    assert_int_equal(es_st_open(path, &opts, &st, &err), ES_E_FORMAT);
    assert_below(budget.peak, size + 4096);
}

static void ST26_odd_names(void **state)
{
    (void)state;
    es_st *st = open_ok(
        write_st("{\"../../etc/x\\u001b[2J\\n\":" ENTRY("I8", "[1]", "[0,1]") "}", NULL, 1));
    float f;
    assert_string_equal(es_st_at(st, 0)->name, "../../etc/x\033[2J\n");
    assert_int_equal(es_st_read(st, es_st_at(st, 0), ES_F32, &f, NULL, &err), ES_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "x\\x1b[2J\\x0a"));
    assert_null(strpbrk(err.message, "\033\n"));
    es_st_close(st);

    enum { LONG = 1 << 20 };
    char *header = malloc(LONG + 100), *name = malloc(LONG + 1);
    assert_true(header && name);
    memset(name, 'n', LONG);
    name[LONG] = '\0';
    const size_t size = (size_t)sprintf(header, "{\"%s\":" ENTRY("I8", "[1]", "[0,1]") "}", name);
    st = open_ok(write_st_raw("x.safetensors", size, header, size, NULL, 1));
    assert_non_null(es_st_find(st, name));
    assert_int_equal(es_st_read(st, es_st_at(st, 0), ES_F32, &f, NULL, &err), ES_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "I8"));
    es_st_close(st);
    free(header);
    free(name);
}

static void ST27_metadata_is_an_object_of_strings(void **state)
{
    (void)state;
    refuse_header("{\"__metadata__\":{\"a\":1}}", 0, "safetensors.metadata");
    refuse_header("{\"__metadata__\":{\"a\":\"b\",\"c\":null}}", 0, "safetensors.metadata");
    refuse_header("{\"__metadata__\":{\"a\":{}}}", 0, "safetensors.metadata");
    refuse_header("{\"__metadata__\":[]}", 0, "safetensors.metadata");
    refuse_header("{\"__metadata__\":\"pt\"}", 0, "safetensors.metadata");
    es_st *st = open_ok(write_st("{\"__metadata__\":{\"a\":\"\",\"\":\"b\"}}", NULL, 0));
    assert_int_equal(es_st_count(st), 0);
    es_st_close(st);
}

TEST_FILE(safetensors_header)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ST01_files_shorter_than_a_length),
        cmocka_unit_test(ST02_header_longer_than_the_file),
        cmocka_unit_test(ST03_header_lengths_that_wrap),
        cmocka_unit_test(ST04_header_over_the_limit),
        cmocka_unit_test(ST05_no_header),
        cmocka_unit_test(ST06_header_begins_with_a_brace),
        cmocka_unit_test(ST07_invalid_characters),
        cmocka_unit_test(ST08_not_json),
        cmocka_unit_test(ST09_top_level_is_no_object),
        cmocka_unit_test(ST10_deep_nesting),
        cmocka_unit_test(ST11_duplicate_names),
        cmocka_unit_test(ST12_missing_and_extra_keys),
        cmocka_unit_test(ST13_offsets_that_are_no_offsets),
        cmocka_unit_test(ST14_end_before_begin),
        cmocka_unit_test(ST15_end_past_the_data),
        cmocka_unit_test(ST16_overlap),
        cmocka_unit_test(ST17_hole),
        cmocka_unit_test(ST18_trailing_bytes),
        cmocka_unit_test(ST19_shapes_that_overflow),
        cmocka_unit_test(ST20_bytes_are_not_what_the_shape_needs),
        cmocka_unit_test(ST21_unknown_dtype_is_listed),
        cmocka_unit_test(ST22_small_floats_are_named),
        cmocka_unit_test(ST23_rank_0_and_dimensions_of_0),
        cmocka_unit_test(ST24_rank_above_8),
        cmocka_unit_test(ST25_very_many_tensors),
        cmocka_unit_test(ST25_cheap_members_cost_nothing),
        cmocka_unit_test(ST26_odd_names),
        cmocka_unit_test(ST27_metadata_is_an_object_of_strings),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
