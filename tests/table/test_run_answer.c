/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_answer.c : an answer read from its run file gives the views of the one that was written;
 * python/tests/test_opened.py asks the same of every study. Files that make no sense are refused.
 */
#include "folder.h"

#include <math.h>

#include <esscher/run.h>
#include <esscher/table.h>

#include "driver/driver.h"
#include "table/answer.h"
#include "table/table.h"

typedef struct text {
    char bytes[1 << 16];
    size_t used;
} text;

static bool collect(void *user, const char *bytes, size_t count)
{
    text *t = user;
    if (t->used + count >= sizeof t->bytes)
        return false;
    memcpy(t->bytes + t->used, bytes, count);
    t->bytes[t->used += count] = '\0';
    return true;
}

static const char *write_as(const es_answer *a, es_answer_form form, const es_answer_opts *opts,
                            text *out)
{
    out->used = 0;
    out->bytes[0] = '\0';
    assert_ok(es_answer_write(a, form, opts, collect, out, &err));
    return out->bytes;
}

/* ---- an answer with everything that a run file keeps ---- */

static const es_column row_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"name", "name", "", ES_FORMAT_TEXT},
    {"error", "error", "tokens", ES_FORMAT_REAL, "of `n^-1/2`", .error = "error_se"},
    {"share", "share at", "", ES_FORMAT_REAL, "at each size", .error = "share_se", .each = true},
    {"exact", "exact", "", ES_FORMAT_SHORT, .standing = ES_STANDING_PROVED},
    {"long", "remark", "", ES_FORMAT_TEXT},
    {"unused", "unused", "", ES_FORMAT_REAL},
    {0}};
static const es_table_view row_views[] = {{"Errors", "layer name error share exact", "a note"},
                                          {"Names", "name layer", .only_with_full = true},
                                          {"Never", "name"},
                                          {0}};
static const es_table_spec row_table = {"rows", row_columns, row_views, .keys = "layer name"};

static const es_column one_columns[] = {
    {"verdict", "verdict", "", ES_FORMAT_TEXT}, {"size", "size", "", ES_FORMAT_BYTES}, {0}};
static const es_table_view one_views[] = {{"Verdict"}, {0}};
static const es_table_spec one_table = {"verdict", one_columns, one_views, .record = true};

static const es_column inner_columns[] = {{"layer", "layer", "", ES_FORMAT_COUNT},
                                          {"x.low", "low", "", ES_FORMAT_REAL},
                                          {"x.high", "high", "", ES_FORMAT_REAL},
                                          {0}};
static const es_table_spec inner_table = {"inner",
                                          inner_columns,
                                          NULL,
                                          .inside = "rows",
                                          .link = "layer",
                                          .nested = "points",
                                          .only_inside = true};

static const es_table_view empty_views[] = {{"Empty"}, {0}};
static const es_table_spec empty_table = {"empty", one_columns, empty_views};

static void fill_rows(es_answer *a)
{
    static const char *const labels[] = {"100", "1000"};
    static const char *const shown[] = {"Errors", "Names", NULL};
    es_table *t = es_answer_table(a, &row_table);
    es_table_each(t, "share", labels, 2);
    es_table_show(t, shown);
    for (int i = 0; i < 3; i++) {
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "layer", i);
        es_table_text(t, row, "name", i == 1 ? "a \"b\", \xc3\xa9" : "");
        es_table_real(t, row, "error", i == 2 ? (double)NAN : 1.0 / (3.0 + i));
        es_table_real(t, row, "error_se", 0.01);
        es_table_real(t, row, "share.1", -0.0);
        es_table_real(t, row, "share_se.1", 1e-300);
        es_table_real(t, row, "exact", (double)INFINITY);
        es_table_text(t, row, "long", i ? "a remark" : NULL);
    }
}

static es_answer *make_answer(void)
{
    static const double numbers[] = {1.5, NAN, 3, 4, 5, 6};
    static const char *const words[] = {"one", "two"};
    static const int64_t shape[] = {3, 4};
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_answer_name(a, "something", 7);
    es_answer_count(a, "first", 1LL << 52);
    fill_rows(a);
    es_answer_reals(a, "list", numbers, 3);
    es_table *one = es_answer_table(a, &one_table);
    es_table_row(one);
    es_table_text(one, 0, "verdict", "consistent");
    es_table_count(one, 0, "size", 1 << 20);
    es_table *inner = es_answer_table(a, &inner_table);
    for (int i = 0; i < 4; i++) {
        const int64_t row = es_table_row(inner);
        es_table_count(inner, row, "layer", i % 3);
        es_table_real(inner, row, "x.low", i);
        es_table_real(inner, row, "x.high", i + 0.1);
    }
    es_answer_table(a, &empty_table);
    es_answer_matrix(a, "matrix", numbers, 2, 3);
    es_answer_flag(a, "flag", true);
    es_answer_text(a, "words", "some \"words\"");
    es_answer_texts(a, "texts", words, 2);
    es_answer_real(a, "none", (double)NAN);
    es_answer_provenance(a, "cpu", "a <CPU>");
    es_answer_provenance_real(a, "seconds", 0.1);
    es_answer_provenance_flag(a, "openmp", false);
    es_answer_input(a, "q", "a b.npy", 2, shape, "f32");
    es_answer_add_finding(a, "It is %g.", 0.25);
    es_answer_add_finding(a, "%s", es_answer_plain(a, "It falls like `n^-1/2`."));
    es_answer_add_finding(a, "Caution: 100 %% of \xc2\xb1.");
    es_answer_fail_check(a);
    return a;
}

static es_run *keep_and_open(const es_answer *a)
{
    static const es_run_pair params[] = {{"seed", "7"}};
    static const es_run_pair facts[] = {{"command", "esscher something 'a b.npy' --seed 7"}};
    const es_run_spec spec = {"something", params, 1, facts, 1};
    es_run *run;
    assert_ok(es_run_create(in_folder("a.run"), &spec, true, &run, &err));
    assert_ok(es_keep_tables(run, a, &err));
    assert_ok(es_run_close(run, &err));
    assert_ok(es_run_open(in_folder("a.run"), &run, &err));
    return run;
}

/* ---- what is read ---- */

static void every_view_is_that_of_the_fresh_answer(void **state)
{
    (void)state;
    static const char *const argv[] = {"something", "a b.npy", "--seed", "7"};
    static text x, y;
    const es_answer_opts opts[] = {{.width = 80, .most_rows = 2, .rest = "--full"},
                                   {.full = true},
                                   {.sort = "-layer", .top = 2},
                                   {.table = "inner"}};
    es_answer *fresh = make_answer(), *read;
    es_run *run = keep_and_open(fresh);
    es_answer_provenance_list(fresh, "argv", argv, 4); /* as the program does, after it was kept */
    assert_ok(es_run_answer(run, NULL, NULL, &read, &err));
    assert_ok(es_run_close(run, &err));
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++)
        for (es_answer_form form = ES_ANSWER_TEXT; form <= ES_ANSWER_LATEX; form++) {
            if ((form == ES_ANSWER_CSV && i == 2) || (form != ES_ANSWER_CSV && i == 3))
                continue;
            assert_string_equal(write_as(read, form, &opts[i], &x),
                                write_as(fresh, form, &opts[i], &y));
        }
    assert_true(es_answer_check_failed(read));
    assert_string_equal(es_answer_finding(read, 1), "It falls like n^-1/2.");
    assert_string_equal(es_answer_marked(read, "It falls like n^-1/2."), "It falls like `n^-1/2`.");
    assert_string_equal(es_table_about(es_answer_find(read, "rows"))->keys, "layer name");
    es_answer_free(read);
    es_answer_free(fresh);
}

static void one_table_is_read_with_all_its_views(void **state)
{
    (void)state;
    static text x;
    es_answer *fresh = make_answer(), *read;
    es_run *run = keep_and_open(fresh);
    es_mem_limit budget = {0};
    assert_ok(es_run_answer(run, "rows", &budget, &read, &err));
    assert_null(es_answer_at(read, 1));
    assert_null(es_answer_finding(read, 0));
    write_as(read, ES_ANSWER_TEXT, &(es_answer_opts){0}, &x);
    assert_non_null(strstr(x.bytes, "Errors\n"));
    assert_non_null(strstr(x.bytes, "Names\n"));
    assert_non_null(strstr(x.bytes, "Never\n"));
    es_answer_free(read);
    assert_ok(es_run_answer(run, "_findings", &budget, &read, &err));
    write_as(read, ES_ANSWER_CSV, &(es_answer_opts){0}, &x);
    assert_string_equal(
        x.bytes, "sentence\nIt is 0.25.\nIt falls like n^-1/2.\nCaution: 100 % of \xc2\xb1.\n");
    es_answer_free(read);
    assert_ok(es_run_answer(run, "", &budget, &read, &err)); /* everything but the tables */
    assert_null(es_answer_at(read, 0));
    assert_string_equal(es_answer_finding(read, 0), "It is 0.25.");
    es_answer_free(read);
    assert_int_equal(es_run_answer(run, "nothing", &budget, &read, &err), ES_E_EMPTY);
    assert_null(read);
    assert_int_equal(budget.used, 0);
    assert_ok(es_run_close(run, &err));
    es_answer_free(fresh);
}

/* Files of version 0.1 say less about their tables. */
static void old_files_are_read(void **state)
{
    (void)state;
    char path[1024];
    es_run *run;
    es_answer *a;
    es_table_column c;
    snprintf(path, sizeof path, "%s/old_runs/converge.run", ES_TESTS_DIR);
    assert_ok(es_run_open(path, &run, &err));
    assert_ok(es_run_answer(run, NULL, NULL, &a, &err));
    assert_string_equal(es_table_about(es_answer_at(a, 0))->key, "rows");
    const es_table *rows = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(rows), 8);
    assert_true(es_table_find(rows, "mean_error", &c));
    assert_string_equal(c.title, "mean error");
    assert_equals(es_column_real(&c, 0), 0.22925165975411446); /* what that program printed */
    assert_true(es_table_find(rows, "mean_error_se", &c) && c.is_error);
    es_answer_free(a);
    assert_ok(es_run_close(run, &err));
}

/* ---- what is refused ---- */

static void json_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "{", "{}", "nan", "1e999", "[[1], [2, 3]]", "[1, \"a\"]", "[[[1]]]", "\"\\ud800\""};
    static const char *const keys[] = {"x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const es_run_column columns[] = {{"key", ES_RUN_TEXT, NULL, keys},
                                         {"json", ES_RUN_TEXT, NULL, &bad[i]}};
        const es_run_table table = {.name = "_answer", .rows = 1, .cols = 2, .columns = columns};
        const es_run_spec spec = {"something", NULL, 0, NULL, 0};
        es_answer *a;
        es_run *run;
        assert_ok(es_run_create(in_folder("b.run"), &spec, true, &run, &err));
        assert_ok(es_run_put_table(run, &table, &err));
        assert_ok(es_run_close(run, &err));
        assert_ok(es_run_open(in_folder("b.run"), &run, &err));
        assert_int_equal(es_run_answer(run, NULL, NULL, &a, &err), ES_E_FORMAT);
        assert_string_equal(err.rule, "run.answer");
        assert_null(a);
        assert_ok(es_run_close(run, &err));
    }
}

TEST_FILE(run_answer)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_view_is_that_of_the_fresh_answer),
        cmocka_unit_test(one_table_is_read_with_all_its_views),
        cmocka_unit_test(old_files_are_read),
        cmocka_unit_test(json_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
