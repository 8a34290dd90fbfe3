/* SPDX-License-Identifier: Apache-2.0 */
/* testing.h : what every test file starts with. */
#ifndef ES_TESTING_H
#define ES_TESTING_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <esscher/status.h>
#include <esscher/table.h>

/* The record every test hands to the calls it makes: foo(..., &err). */
static es_error err __attribute__((unused));

/* A call that must succeed; its error record is shown when it does not. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        const es_status assert_ok_status_ = (call);                                                \
        if (assert_ok_status_ != ES_OK)                                                            \
            fail_msg("%s: %s: %s", #call, es_status_name(assert_ok_status_), err.message);         \
    } while (0)

/* A misspelt key of es_table_get() is NaN, which some assertions accept: no test may end with an
 * answer in which one was kept. (es_answer_free)(a) frees an answer that failed on purpose. */
static inline void test_answer_free_(es_answer *answer)
{
    const es_status status = answer ? es_answer_status(answer, &err) : ES_OK;
    es_answer_free(answer);
    if (status != ES_OK)
        fail_msg("an answer is freed that failed: %s: %s", es_status_name(status), err.message);
}
#define es_answer_free(answer) test_answer_free_(answer)

/* |actual - expected| <= tolerance, NaN fails. */
#define assert_near(actual, expected, tolerance)                                                   \
    do {                                                                                           \
        const double near_a_ = (actual), near_e_ = (expected), near_t_ = (tolerance);              \
        if (!(fabs(near_a_ - near_e_) <= near_t_))                                                 \
            fail_msg("%s = %.17g, expected %.17g within %.3g (off by %.3g)", #actual, near_a_,     \
                     near_e_, near_t_, near_a_ - near_e_);                                         \
    } while (0)

/* |actual - expected| <= tolerance * |expected|. */
#define assert_close(actual, expected, relative)                                                   \
    assert_near(actual, expected, (relative)*fabs(expected))

/* Comparisons of numbers, which print both where they do not hold; NaN fails. The operands are
 * computed a second time to be printed. */
#define assert_compared_(a, op, b)                                                                 \
    do {                                                                                           \
        if (!((a)op(b)))                                                                           \
            fail_msg("not %s " #op " %s: %.17g, %.17g", #a, #b, (double)(a), (double)(b));         \
    } while (0)
#define assert_below(a, b)    assert_compared_(a, <, b)
#define assert_at_most(a, b)  assert_compared_(a, <=, b)
#define assert_above(a, b)    assert_compared_(a, >, b)
#define assert_at_least(a, b) assert_compared_(a, >=, b)
#define assert_equals(a, b)   assert_compared_(a, ==, b)
#define assert_differs(a, b)  assert_compared_(a, !=, b)

/* What a number is: NaN, infinite, or finite. Prints the number where it is something else. */
#define assert_kind_(is, a, kind)                                                                  \
    do {                                                                                           \
        if (!is(a))                                                                                \
            fail_msg("%s = %.17g is not " kind, #a, (double)(a));                                  \
    } while (0)
#define assert_nan(a)      assert_kind_(isnan, a, "NaN")
#define assert_infinite(a) assert_kind_(isinf, a, "infinite")
#define assert_finite(a)   assert_kind_(isfinite, a, "finite")

/* low < a < high. */
#define assert_between(a, low, high)                                                               \
    do {                                                                                           \
        if (!((a) > (low) && (a) < (high)))                                                        \
            fail_msg("%s = %.17g, not between %.17g and %.17g", #a, (double)(a), (double)(low),    \
                     (double)(high));                                                              \
    } while (0)

/* ---- files of tests ----
 * A file ends with TEST_FILE(NAME) { tests[] = ...; return cmocka_run_group_tests(tests, ...); },
 * where NAME is that of test_NAME.c. tests/main.c runs it. */

struct test_file {
    const char *name;
    int (*run)(const char *only); /* NULL: all tests, "-": all but the optional ones, or a name */
    struct test_file *next;
};
void list_test_file(struct test_file *file); /* main.c */

#define TEST_FILE(file_name)                                                                       \
    static int run_file_(const char *only_);                                                       \
    __attribute__((constructor)) static void list_file_(void)                                      \
    {                                                                                              \
        static struct test_file self = {#file_name, run_file_, NULL};                              \
        list_test_file(&self);                                                                     \
    }                                                                                              \
    static int run_file_(const char *only_)

/* ---- tests that need what may not be there ----
 * Such a test is listed with optional_test(f), and says skip_test("why") where it cannot go on. To
 * ctest it is a test of its own (FILE.f), so that its list shows what was skipped. No other test
 * may skip, and a program in which one did ends with 77, never as passed. */

static char optional_mark_ __attribute__((unused));
static int skipped_tests_ __attribute__((unused));

#define optional_test_setup_teardown(f, setup, teardown)                                           \
    {                                                                                              \
#f, f, setup, teardown, &optional_mark_                                                    \
    }
#define optional_test(f) optional_test_setup_teardown(f, NULL, NULL)

#define skip_test(...)                                                                             \
    do {                                                                                           \
        skipped_tests_++;                                                                          \
        print_message("skipped: " __VA_ARGS__);                                                    \
        print_message("\n");                                                                       \
        _skip(__FILE__, __LINE__);                                                                 \
    } while (0)

#undef skip /* without a reason */

/* Listed among the optional: quick tests leave it out. */
static inline void not_in_quick_tests(void)
{
    if (getenv("ESSCHER_QUICK_TESTS"))
        skip_test("ESSCHER_QUICK_TESTS is set");
}

static inline int run_chosen_tests(const char *only, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown)
{
    const int plain = only && strcmp(only, "-") == 0;
    struct CMUnitTest chosen[256];
    size_t n = 0;
    for (size_t i = 0; i < count && n < 256; i++) {
        const int optional = tests[i].initial_state == &optional_mark_;
        if (!only || (plain ? !optional : strcmp(only, tests[i].name) == 0))
            chosen[n++] = tests[i];
    }
    if (n == 0 || n == 256) {
        fprintf(stderr, "%zu tests are called '%s'\n", n, only ? only : "anything");
        return 1;
    }
    if (_cmocka_run_group_tests("tests", chosen, n, setup, teardown) != 0)
        return 1;
    if (plain && skipped_tests_) {
        fprintf(stderr, "a test that may skip is not listed with optional_test()\n");
        return 1;
    }
    return skipped_tests_ ? 77 : 0;
}

#undef cmocka_run_group_tests
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    run_chosen_tests(only_, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#endif
