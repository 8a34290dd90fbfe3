/* Numbers as people read them. */
#include "testing.h"

#include <esscher/format.h>

#include "study/answer_kit.h"

static char out[ES_FORMAT_ROOM];

static const char *form(es_format format, double value, double error)
{
    return es_format_number(format, value, error, out, sizeof out);
}

static void an_error_has_two_digits_and_the_value_ends_where_it_does(void **state)
{
    (void)state;
    assert_string_equal(form(ES_FORMAT_REAL, 0.51234, 0.0312), "0.512 ± 0.031");
    assert_string_equal(form(ES_FORMAT_REAL, 1234.5, 12.0), "1234 ± 12"); /* to even, like printf */
    assert_string_equal(form(ES_FORMAT_REAL, 12345678.0, 1234.0), "1.235e+07 ± 1.2e+03");
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
    assert_string_equal(form(ES_FORMAT_COUNT, 1e300, NAN), "1e+300");
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
    char text[ES_SAY_ROOM];
    assert_string_equal(es_say_size(4096.0, text), "4096");
    assert_string_equal(es_say_size(1e9, text), "1e9");
    assert_string_equal(es_say_size(3.2e8, text), "3.2e8");
    assert_string_equal(es_say_power(0.512, 0.031, text), "n^-0.512 (± 0.031)");
    assert_string_equal(es_say_power(-0.25, (double)NAN, text), "n^0.25");
    assert_string_equal(es_say_power((double)NAN, 0.1, text), "no power that could be fitted");
    assert_string_equal(es_say_number(0.5, 0.012, text), "0.500 ± 0.012");
    assert_string_equal(es_say_number(2.0 / 3.0, (double)NAN, text), "0.667");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_has_two_digits_and_the_value_ends_where_it_does),
        cmocka_unit_test(counts_are_whole_whatever_their_size),
        cmocka_unit_test(sizes_and_times_have_their_units),
        cmocka_unit_test(names_come_back),
        cmocka_unit_test(findings_say_numbers_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
