/* SPDX-License-Identifier: Apache-2.0 */
/* test_compare_runs.c : two runs side by side: who is whose partner, what differs, and what is
 * refused. Runs are made by hand, so that every t and p can be computed on paper. */
#include "testing.h"

#include <math.h>

#include <esscher/run.h>
#include <esscher/study.h>

#include "folder.h"

static char paths[2][512];
static bool repeated; /* runs also have a table "best" with the first row again */

/* A run with a table "rows": keys n and law, a quantity with its error, one without. */
static void make_run(int which, const char *command, const char *replicates, int64_t rows,
                     const double *n, const char *const *laws, const double *value,
                     const double *error)
{
    static const char *const tables[] = {"rows", "rows", "rows", "rows",
                                         "rows", "best", "best", "best"};
    static const char *const keys[] = {"n",     "law", "value", "value_se",
                                       "other", "n",   "law",   "value"};
    static const char *const errors[] = {"", "", "value_se", "", "", "", "", "value_se"};
    static const char *const roles[] = {"key",   "key", "value", "error",
                                        "value", "key", "key",   "value"};
    const es_run_column said[] = {{"table", ES_RUN_TEXT, NULL, tables},
                                  {"key", ES_RUN_TEXT, NULL, keys},
                                  {"error", ES_RUN_TEXT, NULL, errors},
                                  {"role", ES_RUN_TEXT, NULL, roles}};
    const es_run_column columns[] = {{"n", ES_RUN_REAL, n, NULL},
                                     {"law", ES_RUN_TEXT, NULL, laws},
                                     {"value", ES_RUN_REAL, value, NULL},
                                     {"value_se", ES_RUN_REAL, error, NULL},
                                     {"other", ES_RUN_REAL, value, NULL}};
    const es_run_table about = {.name = "_columns", .rows = 8, .cols = 4, .columns = said};
    const es_run_table table = {.name = "rows", .rows = rows, .cols = 5, .columns = columns};
    const es_run_pair params[] = {{"replicates", replicates}, {"seed", which ? "2" : "1"}};
    const es_run_spec spec = {command, params, 2, NULL, 0};
    es_run *run;
    snprintf(paths[which], sizeof paths[which], "%s/%d.run", folder, which);
    assert_ok(es_run_create(paths[which], &spec, true, &run, &err));
    assert_ok(es_run_put_table(run, &about, &err));
    assert_ok(es_run_put_table(run, &table, &err));
    if (repeated) {
        const es_run_table again = {.name = "best", .rows = 1, .cols = 5, .columns = columns};
        assert_ok(es_run_put_table(run, &again, &err));
    }
    assert_ok(es_run_close(run, &err));
}

static es_status compare(const char *a, const char *b, es_answer **out)
{
    const es_study *study = es_study_find("compare");
    es_params *p;
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    assert_ok(es_params_set(p, "runs", a, &err));
    if (b)
        assert_ok(es_params_set(p, "runs", b, &err));
    const es_status status = es_study_run(study, p, &(es_study_opts){0}, out, &err);
    es_params_free(p);
    return status;
}

/* The partner of row 0 stands last, one row has none, and rows differ by 3, 0.5 and no errors.
 * Errors 0.03 and 0.04 make 0.05; with 10 replicates each Welch's freedom is
 * (9 + 16)^2/(81/9 + 256/9) = 16.69. */
static void figures_meet_their_partners(void **state)
{
    (void)state;
    static const double n[4] = {100, 200, 400, 800}, value[4] = {1.0, 2.0, 3.0, 4.0},
                        error[4] = {0.03, 0.03, NAN, 0.03};
    static const char *const laws[4] = {"a", "b", "a", "a"};
    static const double n2[3] = {200, 400, 100}, value2[3] = {2.025, 7.0, 1.15},
                        error2[3] = {0.04, 0.04, 0.04};
    static const char *const laws2[3] = {"b", "a", "a"};
    es_answer *a;
    make_run(0, "converge", "10", 4, n, laws, value, error);
    make_run(1, "converge", "10", 3, n2, laws2, value2, error2);
    assert_ok(compare(paths[0], paths[1], &a));
    const es_table *t = es_answer_find(a, "differences");
    assert_int_equal(es_table_rows(t), 2); /* that without an error is not compared */
    assert_string_equal(es_table_get_text(t, 0, "at"), "n=100 law=a");
    assert_string_equal(es_table_get_text(t, 0, "quantity"), "value");
    assert_near(es_table_get(t, 0, "t"), 3.0, 1e-12);
    assert_near(es_table_get(t, 0, "difference_se"), 0.05, 1e-15);
    assert_near(es_table_get(t, 0, "freedom"), 625.0 * 9.0 / 337.0, 1e-9);
    assert_near(es_table_get(t, 1, "t"), 0.5, 1e-12);
    /* Student's t of 16.69 degrees exceeds 3 in magnitude with probability 0.0081793 (by
     * quadrature of its density), twice that after Holm for two; 0.5 with 0.623603, left by Holm */
    assert_near(es_table_get(t, 0, "p_alone"), 0.0081793, 1e-6);
    assert_near(es_table_get(t, 0, "p"), 0.0163587, 1e-6);
    assert_near(es_table_get(t, 1, "p"), 0.623603, 1e-6);
    assert_equals(es_table_get(t, 0, "differs"), 1.0);
    assert_equals(es_table_get(t, 1, "differs"), 0.0);
    const es_table *q = es_answer_find(a, "quantities");
    assert_int_equal(es_table_rows(q), 1);
    assert_equals(es_table_get(q, 0, "figures"), 2.0);
    assert_equals(es_table_get(q, 0, "differ"), 1.0);
    assert_near(es_table_get(q, 0, "ratio"), 0.5 * (1.15 + 1.0125), 1e-12);
    const es_table *asked = es_answer_find(a, "parameters");
    assert_int_equal(es_table_rows(asked), 1);
    assert_string_equal(es_table_get_text(asked, 0, "parameter"), "seed");
    assert_non_null(strstr(es_answer_finding(a, 0), " of 2 numbers"));
    assert_non_null(strstr(es_answer_finding(a, 1), "1.000 ± 0.030"));
    assert_non_null(strstr(es_answer_finding(a, 2), "1 row of the first")); /* n = 800 */
    assert_non_null(strstr(es_answer_finding(a, 3), "Caution: the seeds differ"));
    es_answer_free(a);
}

static void a_run_does_not_differ_from_itself(void **state)
{
    (void)state;
    static const double n[3] = {100, 200, NAN}, value[3] = {1.0, 2.0, 3.0},
                        error[3] = {0.03, 0.1, 0.1}; /* the last row has no n: NaN is a key, too */
    static const char *const laws[3] = {"a", "a", "a"};
    es_answer *a;
    make_run(0, "converge", "10", 3, n, laws, value, error);
    assert_ok(compare(paths[0], paths[0], &a));
    const es_table *t = es_answer_find(a, "differences");
    assert_int_equal(es_table_rows(t), 3);
    for (int64_t i = 0; i < 3; i++) {
        assert_equals(es_table_get(t, i, "t"), 0.0);
        assert_equals(es_table_get(t, i, "p"), 1.0);
    }
    assert_non_null(strstr(es_answer_finding(a, 2), "have the same parameters"));
    es_answer_free(a);
}

static void a_figure_is_counted_once(void **state)
{
    (void)state;
    static const double n[2] = {100, 200}, value[2] = {1.0, 2.0}, error[2] = {0.03, 0.1},
                        other[2] = {1.5, 2.0};
    static const char *const laws[2] = {"a", "a"};
    es_answer *a;
    repeated = true;
    make_run(0, "converge", "10", 2, n, laws, value, error);
    make_run(1, "converge", "10", 2, n, laws, other, error);
    repeated = false;
    assert_ok(compare(paths[0], paths[1], &a));
    assert_int_equal(es_table_rows(es_answer_find(a, "differences")), 2);
    es_answer_free(a);
}

static void what_cannot_be_compared_is_refused(void **state)
{
    (void)state;
    static const double n[1] = {100}, value[1] = {1.0}, error[1] = {0.03};
    static const char *const laws[1] = {"a"};
    es_answer *a;
    es_run *run;
    make_run(0, "converge", "10", 1, n, laws, value, error);
    make_run(1, "ball", "10", 1, n, laws, value, error);
    assert_int_equal(compare(paths[0], paths[1], &a), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "compare.command");
    assert_int_equal(compare(paths[0], NULL, &a), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "compare.runs");
    assert_int_equal(compare(paths[0], "/nowhere/x.run", &a), ES_E_IO);
    const es_run_spec spec = {"converge", NULL, 0, NULL, 0};
    assert_ok(es_run_create(in_folder("1.run"), &spec, true, &run, &err));
    assert_ok(es_run_close(run, &err));
    assert_int_equal(compare(paths[0], in_folder("1.run"), &a), ES_E_EMPTY);
    assert_string_equal(err.rule, "compare.unfinished");
}

/* What a file says about its columns may be numbers, and an error may be a text: no figure then,
 * and no crash. */
static void odd_files_are_believed_in_nothing(void **state)
{
    (void)state;
    static const double n[2] = {100, 200};
    static const char *const words[2] = {"rows", "rows"}, *const keys[2] = {"n", "value"},
                             *const errors[2] = {"", "value_se"};
    for (int odd = 0; odd < 2; odd++) {
        const es_run_column said[] = {
            {"table", odd ? ES_RUN_REAL : ES_RUN_TEXT, odd ? n : NULL, odd ? NULL : words},
            {"key", ES_RUN_TEXT, NULL, keys},
            {"error", ES_RUN_TEXT, NULL, errors}};
        const es_run_column columns[] = {{"n", ES_RUN_REAL, n, NULL},
                                         {"value", ES_RUN_REAL, n, NULL},
                                         {"value_se", ES_RUN_TEXT, NULL, words}};
        const es_run_table about = {.name = "_columns", .rows = 2, .cols = 3, .columns = said};
        const es_run_table table = {.name = "rows", .rows = 2, .cols = 3, .columns = columns};
        const es_run_spec spec = {"converge", NULL, 0, NULL, 0};
        es_answer *a;
        es_run *run;
        snprintf(paths[0], sizeof paths[0], "%s/odd.run", folder);
        assert_ok(es_run_create(paths[0], &spec, true, &run, &err));
        assert_ok(es_run_put_table(run, &about, &err));
        assert_ok(es_run_put_table(run, &table, &err));
        assert_ok(es_run_close(run, &err));
        assert_ok(compare(paths[0], paths[0], &a));
        assert_non_null(strstr(es_answer_finding(a, 0), "no number with an error in common"));
        es_answer_free(a);
    }
}

/* 3000 rows in the opposite order, every second without a partner: each finds its own, and figures
 * with the same t stand in the order of the first run. */
static void many_rows_find_their_partners(void **state)
{
    (void)state;
    enum { ROWS = 3000 };
    static double n[2][ROWS], value[2][ROWS], error[ROWS];
    static const char *laws[ROWS];
    es_answer *a;
    for (int i = 0; i < ROWS; i++) {
        n[0][i] = i;
        n[1][ROWS - 1 - i] = i % 2 ? i + 1e6 : i;
        value[0][i] = i;
        value[1][ROWS - 1 - i] = i;
        error[i] = 1.0;
        laws[i] = "a";
    }
    make_run(0, "converge", "10", ROWS, n[0], laws, value[0], error);
    make_run(1, "converge", "10", ROWS, n[1], laws, value[1], error);
    assert_ok(compare(paths[0], paths[1], &a));
    const es_table *t = es_answer_find(a, "differences");
    assert_int_equal(es_table_rows(t), ROWS / 2);
    for (int64_t i = 0; i < ROWS / 2; i++) {
        assert_equals(es_table_get(t, i, "t"), 0.0);
        assert_equals(es_table_get(t, i, "first"), (double)(2 * i));
    }
    es_answer_free(a);
}

static void a_comparison_does_not_overwrite_what_it_compares(void **state)
{
    (void)state;
    static const double n[1] = {100}, value[1] = {1.0}, error[1] = {0.03};
    static const char *const laws[1] = {"a"};
    const es_study *study = es_study_find("compare");
    es_params *p;
    es_answer *a;
    make_run(0, "converge", "10", 1, n, laws, value, error);
    make_run(1, "converge", "10", 1, n, laws, value, error);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    assert_ok(es_params_set(p, "runs", paths[0], &err));
    assert_ok(es_params_set(p, "runs", paths[1], &err));
    const es_study_opts opts = {.out = paths[1], .force = true};
    assert_int_equal(es_study_run(study, p, &opts, &a, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "compare.out");
    es_params_free(p);
}

TEST_FILE(compare_runs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_meet_their_partners),
        cmocka_unit_test(a_run_does_not_differ_from_itself),
        cmocka_unit_test(a_figure_is_counted_once),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
        cmocka_unit_test(odd_files_are_believed_in_nothing),
        cmocka_unit_test(many_rows_find_their_partners),
        cmocka_unit_test(a_comparison_does_not_overwrite_what_it_compares),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
