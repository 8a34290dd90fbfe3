/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them. */
#include "testing.h"

#include <esscher/format.h>

#include "base/format.h"
#include "experiments/kit/answer_kit.h"

static char out[ES_FORMAT_SIZE];

static const char *form(es_format format, double value, double error)
{
    return es_format_number(format, value, error, out, sizeof out);
}

static void an_error_has_two_digits_and_the_value_ends_where_it_does(void **state)
{
    (void)state;
    assert_string_equal(form(ES_FORMAT_REAL, 0.51234, 0.0312), "0.512 ± 0.031");
    assert_string_equal(form(ES_FORMAT_REAL, 1234.5, 12.0), "1234 ± 12"); /* to even, like printf */
    assert_string_equal(form(ES_FORMAT_REAL, 12345678.0, 1234.0), "(1.23457 ± 0.00012)e+07");
    assert_string_equal(form(ES_FORMAT_REAL, 0.5, NAN), "0.5");
    assert_string_equal(form(ES_FORMAT_REAL, 0.5, INFINITY), "0.5");
    assert_string_equal(form(ES_FORMAT_SHORT, 0.51234, 0.01), "0.512"); /* has none */
}

static void counts_are_whole_whatever_their_size(void **state)
{
    (void)state;
    assert_string_equal(form(ES_FORMAT_COUNT, 16000000.0, NAN), "16000000");
    assert_string_equal(form(ES_FORMAT_COUNT, 1e18, NAN), "1000000000000000000");
    assert_string_equal(form(ES_FORMAT_COUNT, 2.5, NAN), "2.5");
    assert_string_equal(form(ES_FORMAT_COUNT, 1e300, NAN), "1.00e+300");
}

/* The cells of a column, with a space between them. */
static const char *column(es_format format, const double *values, const double *errors,
                          int64_t rows)
{
    static char all[512];
    const es_format_form f = es_format_choose(format, values, errors, rows);
    all[0] = '\0';
    for (int64_t i = 0; i < rows; i++) {
        es_format_put(f, values[i], errors ? errors[i] : (double)NAN, out, sizeof out);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " | " : "", out);
    }
    return all;
}
#define COLUMN(format, ...)                                                                        \
    column(format, (const double[]){__VA_ARGS__}, NULL,                                            \
           (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

static void numbers_of_a_column_share_a_form(void **state)
{
    (void)state;
    const es_format S = ES_FORMAT_SHORT, R = ES_FORMAT_REAL, C = ES_FORMAT_COUNT;
    /* whole numbers */
    assert_string_equal(COLUMN(S, 1000, 7, 1234567), "1000 | 7 | 1234567");
    assert_string_equal(COLUMN(R, -3, 0, 9999999), "-3 | 0 | 9999999");
    assert_string_equal(COLUMN(S, 1000, 1e12), "1.00e+03 | 1.00e+12");
    assert_string_equal(COLUMN(C, 1000, 1e12), "1000 | 1000000000000");
    /* with a point: no more decimals than are needed, and the same where the numbers are close */
    assert_string_equal(COLUMN(R, 0.5, 1, 2), "0.5 | 1.0 | 2.0");
    assert_string_equal(COLUMN(S, 0.9834, 1.02, 0.99), "0.983 | 1.020 | 0.990");
    assert_string_equal(COLUMN(S, 0.0312, 12.3456, 512.34), "0.0312 | 12.3 | 512");
    assert_string_equal(COLUMN(S, 0.0312, 12.3456, 20), "0.0312 | 12.3 | 20.0");
    assert_string_equal(COLUMN(S, 0.0005, 0.00158, 0.0158), "0.000500 | 0.00158 | 0.0158");
    assert_string_equal(COLUMN(R, 0.0005, 0.02, 3), "0.0005 | 0.0200 | 3.0000");
    assert_string_equal(COLUMN(R, 0.123456789, 1.23456789), "0.12346 | 1.23457");
    assert_string_equal(COLUMN(R, 0.25, 4, 1000), "0.25 | 4.00 | 1000.00");
    assert_string_equal(COLUMN(S, 9.996, 2.5), "10.0 | 2.5"); /* rounded before it is judged */
    assert_string_equal(COLUMN(S, 0.0001234, 123456.7), "0.000123 | 123457");
    /* one number outside makes all scientific */
    assert_string_equal(COLUMN(S, 0.00000000336, 0.5), "3.36e-09 | 5.00e-01");
    assert_string_equal(COLUMN(S, 1e6, 0.5, 0), "1.00e+06 | 5.00e-01 | 0");
    assert_string_equal(COLUMN(R, 1.23456e-9, 1), "1.23456e-09 | 1.00000e+00");
    assert_string_equal(COLUMN(R, NAN, 1e9, INFINITY), "- | 1.00e+09 | -");
    assert_string_equal(COLUMN(R, NAN, NAN), "- | -");
}

static void errors_of_a_column_share_its_form(void **state)
{
    (void)state;
    const double near[] = {0.512, 12.3456, 1e-9}, near_se[] = {0.0312, 0.996, 0.012};
    assert_string_equal(column(ES_FORMAT_REAL, near, near_se, 3),
                        "0.512 ± 0.031 | 12.3 ± 1.0 | 0.000 ± 0.012");
    const double far[] = {3.36e-9, 0.5, 1e12}, far_se[] = {0.12e-9, 0.021, (double)NAN};
    assert_string_equal(column(ES_FORMAT_REAL, far, far_se, 3),
                        "(3.36 ± 0.12)e-09 | (5.00 ± 0.21)e-01 | 1.00e+12");
    const double sure[] = {0.5, 0.25}, sure_se[] = {0.0, 1e-20};
    assert_string_equal(column(ES_FORMAT_REAL, sure, sure_se, 2), "0.50 ± 0 | 0.25 ± 1.0e-20");
    assert_non_null(strstr(form(ES_FORMAT_REAL, 0.0, 4.9e-324), ")e-300")); /* 10^-324 is 0 */
    assert_null(strstr(out, "n"));                                          /* no nan, no inf */
    assert_string_equal(column(ES_FORMAT_SHORT, near, near_se, 2), "0.512 | 12.3"); /* has none */
}

static void sizes_and_times_have_their_units(void **state)
{
    (void)state;
    assert_string_equal(form(ES_FORMAT_BYTES, 512.0, NAN), "512 B");
    assert_string_equal(form(ES_FORMAT_BYTES, 1536.0, NAN), "1.5 KiB");
    assert_string_equal(form(ES_FORMAT_DURATION, 90.0, NAN), "90 s");
    assert_string_equal(form(ES_FORMAT_DURATION, 3600.0, NAN), "60.0 min");
    assert_string_equal(form(ES_FORMAT_DURATION, 86400.0, NAN), "24.0 h");
}

/* ES_FORMAT_SIZE holds any number: more space changes nothing. Powers of ten and digits that are
 * all there, of both signs, under every format and error. */
static void any_number_fits(void **state)
{
    (void)state;
    static const double sizes[] = {0.0,  4.9e-324, 1.2345678901234567e-300, 1e-20,
                                   1e-5, 0.37,     123456.78901234567,      9.87654321e18,
                                   1e19, 7e150,    1.7976931348623157e308};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    static char wide[1024];
    for (int f = ES_FORMAT_TEXT; f <= ES_FORMAT_FLAG; f++)
        for (int i = 0; i < 2 * SIZES; i++)
            for (int j = 0; j <= SIZES; j++) {
                const double value = i < SIZES ? sizes[i] : -sizes[i - SIZES];
                const double error = j < SIZES ? sizes[j] : (double)NAN;
                es_format_number((es_format)f, value, error, wide, sizeof wide);
                assert_string_equal(form((es_format)f, value, error), wide);
                const es_format_form other = es_format_choose((es_format)f, sizes + 5, NULL, 1);
                es_format_put(other, value, error, wide, sizeof wide);
                assert_string_equal(es_format_put(other, value, error, out, sizeof out), wide);
            }
    assert_string_equal(form(ES_FORMAT_COUNT, 0.0, 7e150), "(0.0 ± 7.0)e+150");
    assert_string_equal(form(ES_FORMAT_BYTES, -5e112, NAN), "-4.4e+97 PiB"); /* 5e112 / 2^50 */
    assert_string_equal(form(ES_FORMAT_DURATION, 3.6e300, NAN), "1.0e+297 h");
}

static void names_come_back(void **state)
{
    (void)state;
    for (int i = ES_FORMAT_TEXT; i <= ES_FORMAT_DURATION; i++) {
        es_format back;
        assert_true(es_format_parse(es_format_name((es_format)i), &back));
        assert_int_equal(back, i);
    }
    es_format untouched = ES_FORMAT_REAL;
    assert_false(es_format_parse("REAL", &untouched));
    assert_int_equal(untouched, ES_FORMAT_REAL);
    assert_string_equal(es_format_name((es_format)99), "text");
}

static void findings_say_numbers_in_words(void **state)
{
    (void)state;
    char text[ES_SAY_SIZE];
    assert_string_equal(es_say_size(4096.0, text), "4096");
    assert_string_equal(es_say_size(1e9, text), "1e9");
    assert_string_equal(es_say_size(3.2e8, text), "3.2e8");
    /* whole numbers below 10^7 have all their digits; what is no whole number has three */
    assert_string_equal(es_say_size(1234567.0, text), "1234567");
    assert_string_equal(es_say_size(9999999.0, text), "9999999");
    assert_string_equal(es_say_size(1e7, text), "1e7");
    assert_string_equal(es_say_size(9.9996e8, text), "1e9"); /* not 10e8 */
    assert_string_equal(es_say_size(1e12, text), "1e12");
    assert_string_equal(es_say_size(12345.6, text), "12300");
    assert_string_equal(es_say_size(9999.7, text), "10000");
    assert_string_equal(es_say_size(9996000.5, text), "1e7");
    assert_string_equal(es_say_size(99.96, text), "100");
    assert_string_equal(es_say_size(45.678, text), "45.7");
    assert_string_equal(es_say_size(0.0, text), "0");
    assert_string_equal(es_say_size(0.000123, text), "0.000123");
    assert_string_equal(es_say_size(1e-5, text), "1e-05");
    assert_string_equal(es_say_power(0.512, 0.031, text), "n^-0.512 (± 0.031)");
    assert_string_equal(es_say_power(-0.25, (double)NAN, text), "n^0.25");
    assert_string_equal(es_say_power((double)NAN, 0.1, text), "no power that could be fitted");
    assert_string_equal(es_say_number(0.5, 0.012, text), "0.500 ± 0.012");
    assert_string_equal(es_say_number(2.0 / 3.0, (double)NAN, text), "0.667");
}

static const char *told(const char *text)
{
    static char sentence[256];
    es_answer *a;
    assert_int_equal(es_answer_new(NULL, &a, NULL), ES_OK);
    es_answer_add_finding(a, "%s", text);
    snprintf(sentence, sizeof sentence, "%s", es_answer_finding(a, 0));
    es_answer_free(a);
    return sentence;
}

static void findings_have_no_padded_powers(void **state)
{
    (void)state;
    assert_string_equal(told("512 of 1e+04 keys at n = 1.04858e+06, +2.5e+01"),
                        "512 of 10000 keys at n = 1048580, +25");
    assert_string_equal(told("1e+07, 3.2e+08; 1e+12."), "1e7, 3.2e8; 1e12.");
    assert_string_equal(told("2e-09 and n^-1.5e-05, 1.2345e+02"), "2e-9 and n^-1.5e-5, 123.45");
    assert_string_equal(told("(1.23457 ± 0.00012)e+07"), "(1.23457 ± 0.00012)e7");
    /* what is no number of printf's stays: names, and powers as sentences have them */
    assert_string_equal(told("run1e+04.txt, a/1e+04, 1e9, 1e+5, e+04, 0.5, 12"),
                        "run1e+04.txt, a/1e+04, 1e9, 1e+5, e+04, 0.5, 12");
    assert_string_equal(told("lr-1e-05.npy, sweep-3e+02.run, 1e+03.csv at 1e+03."),
                        "lr-1e-05.npy, sweep-3e+02.run, 1e+03.csv at 1000.");
    assert_string_equal(told(""), "");
}

/* Longer than any buffer one would set aside, and every number of it grows. */
static void findings_are_never_cut(void **state)
{
    (void)state;
    enum { TIMES = 1000 };
    static char given[6 * TIMES + 1], want[8 * TIMES + 1];
    es_answer *a;
    for (int i = 0; i < TIMES; i++) {
        memcpy(given + 6 * i, "1e+06 ", 6);
        memcpy(want + 8 * i, "1000000 ", 8);
    }
    assert_int_equal(es_answer_new(NULL, &a, NULL), ES_OK);
    es_answer_add_finding(a, "%s", given);
    assert_string_equal(es_answer_finding(a, 0), want);
    es_answer_free(a);
}

TEST_FILE(numbers_for_people)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_has_two_digits_and_the_value_ends_where_it_does),
        cmocka_unit_test(counts_are_whole_whatever_their_size),
        cmocka_unit_test(numbers_of_a_column_share_a_form),
        cmocka_unit_test(errors_of_a_column_share_its_form),
        cmocka_unit_test(sizes_and_times_have_their_units),
        cmocka_unit_test(any_number_fits),
        cmocka_unit_test(names_come_back),
        cmocka_unit_test(findings_say_numbers_in_words),
        cmocka_unit_test(findings_have_no_padded_powers),
        cmocka_unit_test(findings_are_never_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
