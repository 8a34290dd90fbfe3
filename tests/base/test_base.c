/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.c : status, checked arithmetic, memory, views, threads. */
#include "testing.h"

#include "base/checked.h"
#include "base/decimal.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/system.h"
#include "base/threads.h"
#include "base/view.h"
#include <esscher/view.h>

static void status_numbers_are_stable(void **state)
{
    (void)state;
    /* These numbers are ABI: a change here is a break for every program that switches on them. */
    assert_int_equal(ES_OK, 0);
    assert_int_equal(ES_E_NONFINITE, 4);
    assert_int_equal(ES_E_FORMAT, 9);
    assert_int_equal(ES_E_EMPTY, 14);
    assert_string_equal(es_status_name(ES_E_EMPTY), "ES_E_EMPTY");
    assert_string_equal(es_status_name((es_status)15), "ES_E_UNKNOWN");
    assert_string_equal(es_status_name((es_status)-1), "ES_E_UNKNOWN");
}

static void error_record_escapes_control_characters(void **state)
{
    (void)state;
    assert_int_equal(
        es_fail_file(&err, ES_E_FORMAT, "a\x1b[31m\n", 7, "r", "h", "name \"%s\"", "x\ty"),
        ES_E_FORMAT);
    assert_string_equal(err.file, "a\\x1b[31m\\x0a");
    assert_string_equal(err.message, "name \"x\\x09y\"");
    assert_int_equal(err.offset, 7);
    assert_int_equal(err.row, -1);
    assert_int_equal(es_fail(NULL, ES_E_IO, "", "", "nobody listens"), ES_E_IO);
}

static void error_record_truncates_long_text(void **state)
{
    (void)state;
    char longer[2000];
    memset(longer, '\n', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    es_fail_file(&err, ES_E_IO, longer, -1, longer, longer, "%s", longer);
    assert_below(strlen(err.message), sizeof err.message);
    assert_below(strlen(err.file), sizeof err.file);
    assert_below(strlen(err.rule), sizeof err.rule);
}

static void checked_arithmetic_refuses_to_wrap(void **state)
{
    (void)state;
    size_t s = 77;
    int64_t i = 77;
    assert_false(es_mul_size(SIZE_MAX, 2, &s));
    assert_false(es_add_size(SIZE_MAX, 1, &s));
    assert_false(es_mul_i64(INT64_MAX, 2, &i));
    assert_false(es_size_of_array(-1, 1, 1, 4, &s));
    assert_false(es_size_of_array(INT64_C(1) << 40, INT64_C(1) << 30, 1, 8, &s));
    assert_int_equal(s, 77);
    assert_int_equal(i, 77);
    assert_true(es_size_of_array(3, 5, 7, 8, &s));
    assert_int_equal(s, 840);
}

static void memory_is_aligned_zeroed_and_counted(void **state)
{
    (void)state;
    es_mem_limit budget = {.limit = 10000};
    void *a, *b;
    assert_ok(es_mem_new(&budget, 1000, "a", &a, &err));
    assert_int_equal((uintptr_t)a % ES_ALIGN, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(((char *)a)[i], 0);
    assert_int_equal(es_mem_new(&budget, 9500, "b", &b, &err), ES_E_LIMIT);
    assert_null(b);
    assert_int_equal(es_mem_array(&budget, INT64_MAX, 16, 8, "c", &b, &err), ES_E_OVERFLOW);
    assert_int_equal(es_mem_new(NULL, SIZE_MAX - 1000, "d", &b, &err), ES_E_MEMORY);
    assert_ok(es_mem_new(&budget, 0, "empty", &b, &err));
    assert_non_null(b);
    es_mem_free(&budget, a);
    es_mem_free(&budget, b);
    assert_int_equal(budget.used, 0);
    assert_at_least(budget.peak, 1000);
    assert_at_most(budget.peak, 10000);
}

static void view_reads_unaligned_strided_and_broadcast(void **state)
{
    (void)state;
    char raw[1 + 6 * sizeof(float)];
    const float x[6] = {1, 2, 3, 4, 5, 6};
    memcpy(raw + 1, x, sizeof x);
    es_view v = es_view_f32((const float *)(const void *)(raw + 1), 2, 3);
    assert_equals(es_view_get(&v, 1, 2), 6.0);
    const es_view t = es_view_transpose(&v);
    assert_equals(t.rows, 3);
    assert_equals(es_view_get(&t, 2, 0), 3.0);
    es_view again = v;
    again.row_stride = 0, again.rows = ES_OK + (INT64_C(1) << 33);
    assert_equals(es_view_get(&again, (INT64_C(1) << 33) - 1, 1), 2.0);
    es_scan scan;
    assert_ok(es_view_scan(&again, "x", &scan, &err)); /* returns at once: one row is looked at */
    assert_near(scan.max_norm, sqrt(14.0), 1e-15 * 4);
    es_view_set(&v, 0, 0, -9.5);
    assert_equals(es_view_get(&v, 0, 0), -9.5);
    es_view second = es_view_rows(&v, 1, 1);
    double row[3];
    es_view_read_row(&second, 0, row);
    assert_equals(row[0], 4.0);
    assert_equals(row[2], 6.0);
}

static void scan_locates_the_first_nonfinite(void **state) /* NU03 */
{
    (void)state;
    float x[12] = {0};
    es_view v = es_view_f32(x, 4, 3);
    es_scan scan;
    x[7] = NAN, x[8] = INFINITY, x[10] = -INFINITY;
    assert_int_equal(es_view_scan(&v, "K", &scan, &err), ES_E_NONFINITE);
    assert_int_equal(err.row, 2);
    assert_int_equal(err.col, 1);
    assert_string_equal(err.message, "K[2, 1] is NaN");
}

static void scan_norms_do_not_overflow(void **state)
{
    (void)state;
    const double huge[2] = {3e300, 4e300}, tiny[2] = {3e-320, 4e-320};
    es_view v = es_view_f64(huge, 1, 2);
    es_scan scan;
    assert_ok(es_view_scan(&v, "x", &scan, &err));
    assert_close(scan.max_norm, 5e300, 1e-15);
    v = es_view_f64(tiny, 1, 2);
    assert_ok(es_view_scan(&v, "x", &scan, &err));
    assert_close(scan.max_norm, 5e-320, 1e-3); /* denormals carry 13 bits here */
}

/* ---- threads ---- */

typedef struct job {
    int64_t visits[1000];
    int64_t fail_at[2];
} job;

static es_status visit(void *context, int64_t unit, int thread, es_error *error)
{
    job *j = context;
    (void)thread;
    j->visits[unit]++;
    if (unit == j->fail_at[0] || unit == j->fail_at[1])
        return es_fail(error, ES_E_NUMERIC, "test", "", "unit %d", (int)unit);
    return ES_OK;
}

static void every_unit_runs_once_for_any_thread_count(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 8; threads++) {
        job j = {.fail_at = {-1, -1}};
        const es_exec exec = {.threads = threads};
        assert_ok(es_parallel_run(&exec, 1000, visit, &j, &err));
        for (int i = 0; i < 1000; i++)
            assert_int_equal(j.visits[i], 1);
    }
}

static void the_lowest_failing_unit_is_reported(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 8; threads *= 2) {
        job j = {.fail_at = {17, 18}};
        const es_exec exec = {.threads = threads};
        assert_int_equal(es_parallel_run(&exec, 1000, visit, &j, &err), ES_E_NUMERIC);
        assert_string_equal(err.message, "unit 17");
    }
}

static bool stop_after_ten(void *user, double done, double total)
{
    (void)user;
    assert_equals(total, 1000.0);
    return done >= 10.0;
}

static void progress_can_stop_a_run(void **state)
{
    (void)state;
    job j = {.fail_at = {-1, -1}};
    const es_exec exec = {.threads = 2, .progress = stop_after_ten};
    assert_int_equal(es_parallel_run(&exec, 1000, visit, &j, &err), ES_E_INTERRUPTED);
    int64_t visited = 0;
    for (int i = 0; i < 1000; i++)
        visited += j.visits[i];
    assert_in_range(visited, 10, 11);
}

static void parts_cover_everything_once(void **state)
{
    (void)state;
    for (int64_t count = 0; count < 40; count++) {
        for (int64_t parts = 1; parts < 12; parts++) {
            int64_t next = 0, first, last;
            for (int64_t p = 0; p < parts; p++) {
                es_part(count, parts, p, &first, &last);
                assert_int_equal(first, next);
                assert_at_least(last - first, count / parts);
                assert_at_most(last - first, count / parts + 1);
                next = last;
            }
            assert_int_equal(next, count);
        }
    }
}

static void odd_thread_settings_are_ignored(void **state) /* CL08 */
{
    (void)state;
    const char *odd[] = {"0", "-3", "garbage", "1e6", "99999999999999999999", ""};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        setenv("OMP_NUM_THREADS", odd[i], 1);
        assert_in_range(es_threads_available(), 1, 1024);
    }
    setenv("OMP_NUM_THREADS", "3", 1);
    assert_int_equal(es_threads_available(), 3);
    unsetenv("OMP_NUM_THREADS");
}

static void isa_override_is_honoured_or_refused(void **state)
{
    (void)state;
    es_isa isa;
    setenv("ESSCHER_ISA", "portable", 1);
    assert_ok(es_isa_resolve(ES_ISA_AUTO, &isa, &err));
    assert_int_equal(isa, ES_ISA_PORTABLE);
    setenv("ESSCHER_ISA", "mmx", 1);
    assert_int_equal(es_isa_resolve(ES_ISA_AUTO, &isa, &err), ES_E_ARGUMENT);
    unsetenv("ESSCHER_ISA");
    for (int i = ES_ISA_PORTABLE; i <= ES_ISA_NEON; i++)
        assert_int_equal(es_isa_resolve((es_isa)i, &isa, &err),
                         es_isa_available((es_isa)i) ? ES_OK : ES_E_UNSUPPORTED);
}

/* Lists of an x86-64 and of an Arm machine, shortened; and none that we know. */
static void a_cpu_is_known_by_its_name_or_by_its_numbers(void **state)
{
    static const char *const lists[][2] = {
        {"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9R14\nflags\t: fpu\n",
         "AMD EPYC 9R14"},
        {"processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\n"
         "CPU part\t: 0xd0c\nCPU revision\t: 1\n",
         "Arm, implementer 0x41, part 0xd0c"},
        {"processor: 0\nmodel name\t:\nCPU part\n", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char name[64];
        FILE *list = tmpfile();
        assert_non_null(list);
        fputs(lists[i][0], list);
        rewind(list);
        assert_int_equal(es_system_cpu_listed(list, name, sizeof name), lists[i][1] != NULL);
        if (lists[i][1])
            assert_string_equal(name, lists[i][1]);
        fclose(list);
    }
}

static void keep_last(void *user, es_log_level level, const char *message)
{
    snprintf(user, 64, "%d:%s", (int)level, message);
}

static void decimal_numbers_are_read_strictly_and_written_shortly(void **state)
{
    static const struct {
        const char *text;
        double value;
    } right[] = {{"0", 0.0},      {"-1.5", -1.5},  {"+.5", 0.5}, {"2.", 2.0},
                 {"1e3", 1000.0}, {"2E-3", 0.002}, {"0.2", 0.2}, {"1e-320", 1e-320}};
    static const char *const wrong[] = {"",    ".",   "-",   "e3", "1e", "1e+", "0x10",
                                        "nan", "inf", "1,5", " 1", "1 ", "1_0", "--1"};
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        double value = NAN, again = NAN;
        char text[ES_DECIMAL_SIZE];
        assert_true(es_decimal_read(right[i].text, &value));
        assert_equals(value, right[i].value);
        if (isfinite(value)) {
            assert_true(es_decimal_read(es_decimal_write(value, text), &again));
            assert_equals(again, value);
        }
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        double value = 7.0;
        if (es_decimal_read(wrong[i], &value) || value != 7.0)
            fail_msg("\"%s\" was read as %g", wrong[i], value);
    }
    char text[ES_DECIMAL_SIZE], digits[98];
    assert_string_equal(es_decimal_write(0.2, text), "0.2");
    assert_string_equal(es_decimal_write(0.1 + 0.2, text), "0.30000000000000004");
    memset(digits, '1', sizeof digits);
    digits[96] = '\0';
    assert_false(es_decimal_read(digits, &(double){0.0}));
    digits[95] = '\0';
    assert_true(es_decimal_read(digits, &(double){0.0}));
}

static void log_respects_its_level(void **state)
{
    (void)state;
    char last[64] = "";
    es_log_set(keep_last, last, ES_LOG_WARN);
    es_log(ES_LOG_INFO, "not heard");
    assert_string_equal(last, "");
    es_log(ES_LOG_WARN, "heard %d", 5);
    assert_string_equal(last, "1:heard 5");
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    es_log(ES_LOG_ERROR, "into the void");
}

/* Contents stay, the capacity doubles, and a refusal leaves everything as it was. */
static void memory_grows(void **state)
{
    (void)state;
    es_mem_limit budget = {.limit = 100000};
    int32_t *x = NULL;
    int64_t capacity = 0;
    for (int64_t i = 0; i < 5000; i++) {
        assert_ok(es_mem_grow(&budget, (void **)&x, &capacity, i + 1, sizeof *x, "x", &err));
        assert_above(capacity, i);
        if (i != 0)
            assert_at_most(capacity, 2 * i + 128);
        x[i] = (int32_t)i;
    }
    assert_ok(
        es_mem_grow(&budget, (void **)&x, &capacity, 3, sizeof *x, "x", &err)); /* it has them */
    const int64_t before = capacity;
    assert_int_equal(es_mem_grow(&budget, (void **)&x, &capacity, 100000, sizeof *x, "x", &err),
                     ES_E_LIMIT);
    assert_int_equal(es_mem_grow(&budget, (void **)&x, &capacity, INT64_MAX, sizeof *x, "x", &err),
                     ES_E_OVERFLOW);
    assert_int_equal(capacity, before);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(x[i], i);
    es_mem_free(&budget, x);
    assert_int_equal(budget.used, 0);
}

TEST_FILE(base)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_numbers_are_stable),
        cmocka_unit_test(error_record_escapes_control_characters),
        cmocka_unit_test(error_record_truncates_long_text),
        cmocka_unit_test(checked_arithmetic_refuses_to_wrap),
        cmocka_unit_test(memory_is_aligned_zeroed_and_counted),
        cmocka_unit_test(memory_grows),
        cmocka_unit_test(view_reads_unaligned_strided_and_broadcast),
        cmocka_unit_test(scan_locates_the_first_nonfinite),
        cmocka_unit_test(scan_norms_do_not_overflow),
        cmocka_unit_test(every_unit_runs_once_for_any_thread_count),
        cmocka_unit_test(the_lowest_failing_unit_is_reported),
        cmocka_unit_test(progress_can_stop_a_run),
        cmocka_unit_test(parts_cover_everything_once),
        cmocka_unit_test(odd_thread_settings_are_ignored),
        cmocka_unit_test(isa_override_is_honoured_or_refused),
        cmocka_unit_test(a_cpu_is_known_by_its_name_or_by_its_numbers),
        cmocka_unit_test(decimal_numbers_are_read_strictly_and_written_shortly),
        cmocka_unit_test(log_respects_its_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
