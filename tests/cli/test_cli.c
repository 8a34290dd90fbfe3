/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and grids of the command line, and the escaping of what users write. */
#include "testing.h"

#include <stdbool.h>

#include "driver/numbers.h"
#include "talk.h"

static void reals_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},       {"-1.5", -1.5},   {"+2", 2},    {".5", 0.5},   {"5.", 5},
                {"1e-3", 1e-3}, {"2^20", 0x1p20}, {"0.0e9", 0}, {"1E+2", 100}, {"10^3", 1000},
                {"1/4", 0.25},  {"-3/8", -0.375}, {"2^3/4", 2}, {"25%", 0.25}, {"0.7%", 0.007},
                {"100%", 1},    {"12.5%", 0.125}, {"0/5", 0},   {".5/2", 0.25}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double x = -7;
        assert_null(es_number_real(good[i].text, &x));
        assert_near(x, good[i].value, 0.0);
    }
    static const char *const bad[] = {
        "",         "nan",   "inf",  "-inf",  "0x10",   "1,5",   " 1", "1 ",    "1e",
        "e5",       ".",     "--1",  "1e999", "1e-400", "1_000", "2^", "^3",    "2^99999",
        "infinity", "1.2.3", "1f",   "1/0",   "0/0",    "1/",    "/4", "1/2/3", "1 /4",
        "%",        "25%%",  "25%x", "1e1%",  "2^3%",   "1/4%"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double x = -7;
        if (!es_number_real(bad[i], &x) || x != -7)
            fail_msg("\"%s\" was read as %g", bad[i], x);
    }
}

static void whole_numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"1e6", 1000000},
                {"2.5e3", 2500},
                {"2^40", INT64_C(1) << 40},
                {"2^62", INT64_C(1) << 62},
                {"10^18", INT64_C(1000000000000000000)},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775807", -INT64_MAX},
                {"-3", -3},
                {"+2.e1", 20},
                {"0e999999999999999999999", 0},
                {"0.000e-5", 0},
                {"1000e-3", 1},
                {"-1.50e+1", -15},
                {".00025e5", 25},
                /* beyond 2^53, where a double would be a neighbour */
                {"1e17", INT64_C(100000000000000000)},
                {"1e18", INT64_C(1000000000000000000)},
                {"9007199254740993e0", INT64_C(9007199254740993)},
                {"9.007199254740993e15", INT64_C(9007199254740993)},
                {"9.223372036854775807E18", INT64_MAX},
                {"92233720368547758070e-1", INT64_MAX}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t x = -7;
        assert_null(es_number_whole(good[i].text, &x));
        assert_int_equal(x, good[i].value);
    }
    static const char *const bad[] = {"1e30",
                                      "0.5",
                                      "2^63",
                                      "10^19",
                                      "9223372036854775808",
                                      "9.223372036854775808e18",
                                      "-1e19",
                                      "1e999999999999999999999",
                                      "1e-999999999999999999999",
                                      "1e-1",
                                      "1001e-3",
                                      "9007199254740993.5",
                                      "0x10",
                                      "",
                                      ".",
                                      "e5",
                                      "1e",
                                      "nan",
                                      "1,000"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t x = -7;
        if (!es_number_whole(bad[i], &x) || x != -7)
            fail_msg("\"%s\" was read as %lld", bad[i], (long long)x);
    }
}

static void seeds_and_sizes(void **state)
{
    (void)state;
    uint64_t seed;
    int64_t bytes;
    assert_null(es_number_seed("9223372036854775807", &seed));
    assert_non_null(es_number_seed("9223372036854775808", &seed));
    assert_non_null(es_number_seed("-1", &seed));
    assert_non_null(es_number_seed("1e3", &seed));
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"512", 512},
                {"1K", 1024},
                {"1.5M", 1572864},
                {"2GiB", INT64_C(2) << 30},
                {"1TB", INT64_C(1) << 40}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_null(es_number_bytes(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].value);
    }
    static const char *const bad[] = {"", "G", "1Q", "1GG", "-1G", "1e30", "nanG", "1 G", "0x1K"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_non_null(es_number_bytes(bad[i], &bytes));
}

static const es_grid_rule positive = {.min = 1, .max = 0x1p40, .increasing = true};
static char why[256];

static void expect_counts(const char *text, const int64_t *expected, int64_t count, int64_t merged)
{
    es_grid grid;
    if (!es_grid_parse(text, true, &positive, &grid, why, (int)sizeof why))
        fail_msg("\"%s\": %s", text, why);
    assert_int_equal(grid.count, count);
    assert_int_equal(grid.merged, merged);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(grid.counts[i], expected[i]);
    es_grid_free(&grid);
}

static void grids_of_counts(void **state)
{
    (void)state;
    expect_counts("4096", (int64_t[]){4096}, 1, 0);
    expect_counts("64,128,256", (int64_t[]){64, 128, 256}, 3, 0);
    expect_counts("1..8*4", (int64_t[]){1, 2, 4, 8}, 4, 0);
    expect_counts("1e3..1e5*3", (int64_t[]){1000, 10000, 100000}, 3, 0);
    expect_counts("1..3*8", (int64_t[]){1, 2, 3}, 3, 5); /* CL02: duplicates after rounding */
    expect_counts("7..7*1", (int64_t[]){7}, 1, 0);
}

static void grids_of_reals(void **state)
{
    (void)state;
    const es_grid_rule any = {.min = 0, .max = 1e30};
    es_grid grid;
    assert_true(es_grid_parse("0.5..8*5", false, &any, &grid, why, (int)sizeof why));
    assert_int_equal(grid.count, 5);
    for (int64_t i = 0; i < 5; i++)
        assert_close(grid.reals[i], ldexp(0.5, (int)i), 1e-15);
    assert_near(grid.reals[4], 8.0, 0.0);
    assert_null(grid.counts);
    es_grid_free(&grid);
    assert_true(es_grid_parse("3,0,1", false, &any, &grid, why, (int)sizeof why));
    es_grid_free(&grid);
}

static void bad_grids_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",       "0",      "-1",     "1e30",    "nan",      "1,,2",      "1,2,",     ",1",
        "2,1",    "1,1",    "9..3*4", "1..9",    "1..9*0",   "1..9*",     "..9*3",    "1..*3",
        "0..9*3", "1..9*1", "5..5*3", "1..9*-2", "1..9*2.5", "1..2..3*4", "1..9*1e9", "0x10,32"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        es_grid grid;
        why[0] = '\0';
        if (es_grid_parse(bad[i], true, &positive, &grid, why, (int)sizeof why))
            fail_msg("\"%s\" was accepted", bad[i]);
        assert_true(why[0] != '\0');
        assert_null(grid.reals);
    }
}

/* CL07: what is echoed cannot move a cursor, and is always valid UTF-8. */
static void escaping(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"plain", "plain"},
        {"a\nb\x1b[2J", "a\\x0ab\\x1b[2J"},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"\xff\xc3", "\\xff\\xc3"},
        {"\xc0\xaf", "\\xc0\\xaf"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {"\xe2\x80\xae", "\\xe2\\x80\\xae"},
        {"\xc2\x9b", "\\xc2\\x9b"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char *text = cli_escape_new(pairs[i][0]);
        assert_string_equal(text, pairs[i][1]);
        free(text);
    }
    char cut[6];
    assert_string_equal(cli_escape("abcdefgh", cut, sizeof cut), "abcde");
    assert_string_equal(cli_escape("ab\n", cut, sizeof cut), "ab");
}

static void every_status_has_an_exit_code(void **state)
{
    (void)state;
    assert_int_equal(cli_exit_of(ES_OK), 0);
    assert_int_equal(cli_exit_of(ES_E_ARGUMENT), 2);
    assert_int_equal(cli_exit_of(ES_E_EXISTS), 2);
    assert_int_equal(cli_exit_of(ES_E_SHAPE), 3);
    assert_int_equal(cli_exit_of(ES_E_IO), 4);
    assert_int_equal(cli_exit_of(ES_E_MEMORY), 5);
    assert_int_equal(cli_exit_of(ES_E_NONFINITE), 6);
    assert_int_equal(cli_exit_of(ES_E_INTERRUPTED), 130);
    for (int status = 1; status <= ES_E_EMPTY; status++)
        assert_true(cli_exit_of((es_status)status) >= 2);
}

TEST_FILE(cli)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals_are_read_strictly),
        cmocka_unit_test(whole_numbers_are_exact),
        cmocka_unit_test(seeds_and_sizes),
        cmocka_unit_test(grids_of_counts),
        cmocka_unit_test(grids_of_reals),
        cmocka_unit_test(bad_grids_are_refused),
        cmocka_unit_test(escaping),
        cmocka_unit_test(every_status_has_an_exit_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
