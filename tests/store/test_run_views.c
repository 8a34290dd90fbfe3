/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_views.c : run files in the hands of others: plain SQL, and files of earlier versions. */
#include "testing.h"

#include <math.h>
#include <sqlite3.h>

#include "folder.h"
#include "runs.h"
#include "store/run.h"

static char path[512];

static void start(void)
{
    count_files(true);
    snprintf(path, sizeof path, "%s", in_folder("a.run"));
}

/* The one value that a query gives, by a connection that knows nothing of us. */
static double ask(const char *query)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    const double value =
        sqlite3_column_type(s, 0) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(s, 0);
    sqlite3_finalize(s);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return value;
}

static void put(const char *name, int64_t rows, const double *n)
{
    static const char *const verdicts[3] = {"pass", "", "fail, \"by far\"\n"};
    const es_run_column columns[] = {{"n", ES_RUN_REAL, n, NULL},
                                     {"rate_ci.0", ES_RUN_REAL, n, NULL},
                                     {"odd \" name", ES_RUN_TEXT, NULL, verdicts}};
    const es_run_table table = {.name = name, .rows = rows, .cols = 3, .columns = columns};
    es_run *run;
    assert_ok(es_run_resume(path, &spec, &run, &err));
    assert_ok(es_run_put_table(run, &table, &err));
    assert_ok(es_run_close(run, &err));
}

static void a_table_is_a_view_with_real_columns(void **state)
{
    (void)state;
    static const double n[3] = {1000.25, NAN, -4.0}, less[1] = {7.0};
    es_run *run;
    start();
    assert_ok(es_run_create(path, &spec, false, &run, &err));
    assert_ok(es_run_close(run, &err));
    put("rows", 3, n);
    put("run", 3, n); /* a name of our own: readable by the library, without a view */
    assert_equals(ask("SELECT count(*) FROM rows"), 3.0);
    assert_equals(ask("SELECT n FROM rows LIMIT 1"), 1000.25);
    assert_nan(ask("SELECT n FROM rows LIMIT 1 OFFSET 1"));
    assert_equals(ask("SELECT sum(\"rate_ci.0\") FROM rows"), 996.25);
    assert_equals(ask("SELECT length(\"odd \"\" name\") FROM rows LIMIT 1 OFFSET 2"), 15.0);
    assert_true(ask("SELECT count(*) FROM sqlite_master WHERE type = 'view'") == 1.0);
    put("rows", 1, less); /* replaced as a whole */
    assert_equals(ask("SELECT sum(n) FROM rows"), 7.0);
    es_run_table back;
    assert_ok(es_run_open(path, &run, &err));
    assert_ok(es_run_get_table(run, "run", NULL, &back, &err));
    assert_int_equal(back.rows, 3);
    es_run_table_free(&back);
    assert_ok(es_run_close(run, &err));
}

/* Files of version 0.1.0 (schema 1), written by that program; the numbers are what it printed. */
static void files_of_earlier_versions_stay_readable(void **state)
{
    (void)state;
    static const struct {
        const char *file, *command, *column;
        int64_t rows, col;
        double first;
    } old[] = {{"converge.run", "converge", "mean_error", 8, 2, 0.22925165975411446},
               {"hardmax.run", "hardmax", "mean_abs", 5, 1, 0.35069164568941563}};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        char file[1024];
        es_run *run;
        es_run_table rows;
        bool found = false;
        snprintf(file, sizeof file, "%s/old_runs/%s", ES_TESTS_DIR, old[i].file);
        assert_ok(es_run_open(file, &run, &err));
        assert_int_equal(es_run_info(run).schema, 1);
        assert_string_equal(es_run_info(run).command, old[i].command);
        assert_ok(es_run_get_table(run, "rows", NULL, &rows, &err));
        assert_int_equal(rows.rows, old[i].rows);
        for (int64_t j = 0; j < rows.cols; j++)
            if (strcmp(rows.columns[j].name, old[i].column) == 0) {
                assert_equals(rows.columns[j].reals[0], old[i].first);
                found = true;
            }
        assert_true(found);
        es_run_table_free(&rows);
        assert_ok(es_run_close(run, &err));
    }
}

TEST_FILE(run_views)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_a_view_with_real_columns),
        cmocka_unit_test(files_of_earlier_versions_stay_readable),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
