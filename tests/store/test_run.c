/* SPDX-License-Identifier: Apache-2.0 */
/* test_run.c : run files as their users see them. */
#include "testing.h"

#include "base/threads.h"
#include "folder.h"
#include "runs.h"
#include "store/checksum.h"
#include "store/run.h"

static char path[512];

static void start(void)
{
    count_files(true);
    snprintf(path, sizeof path, "%s", in_folder("a.run"));
}

static void checksum_is_crc64_xz(void **state)
{
    (void)state;
    assert_equals(es_crc(0, "123456789", 9), 0x995dc9bbdf1939fau);
    assert_equals(es_crc(es_crc(0, "1234", 4), "56789", 5), 0x995dc9bbdf1939fau);
}

static void cells_keep_every_bit(void **state)
{
    (void)state;
    static const uint64_t bits[CELL] = {
        0x7ff8000000000001, 0xfff4000000dead00, /* NaN with payload, a signalling one */
        0x7ff0000000000000, 0xfff0000000000000, /* infinities */
        0x8000000000000000, 0x0000000000000001  /* -0, the smallest number */
    };
    double values[CELL], back[CELL];
    es_run *run;
    int64_t stage;
    bool there;
    memcpy(values, bits, sizeof values);
    start();
    assert_ok(es_run_create(path, &spec, false, &run, &err));
    assert_ok(es_run_add_stage(run, "error", ROWS, COLS, cell_columns, &stage, &err));
    assert_ok(es_run_put_cell(run, stage, INT64_MIN, values, &err));
    assert_ok(es_run_put_cell(run, stage, INT64_MAX, values, &err));
    assert_ok(es_run_has_cell(run, stage, INT64_MIN, &there, &err)); /* before the commit */
    assert_true(there);
    assert_ok(es_run_close(run, &err));
    assert_int_equal(count_files(false), 1); /* no journal, no lock */

    assert_ok(es_run_open(path, &run, &err));
    assert_ok(es_run_get_cell(run, 0, INT64_MAX, back, &err));
    assert_memory_equal(back, bits, sizeof bits);
    assert_int_equal(es_run_get_cell(run, 0, 5, back, &err), ES_E_EMPTY);
    assert_int_equal(es_run_get_cell(run, 1, 5, back, &err), ES_E_RANGE);
    assert_int_equal(es_run_put_cell(run, 0, 5, back, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.readonly");
    es_run_stage about;
    assert_ok(es_run_get_stage(run, 0, &about, &err));
    assert_string_equal(about.name, "error");
    assert_string_equal(about.columns[1], "se");
    assert_int_equal(about.rows, ROWS);
    assert_int_equal(about.cells, 2);
    assert_ok(es_run_close(run, &err));
    assert_ok(es_run_close(NULL, &err));
}

static void a_run_knows_what_it_is(void **state)
{
    (void)state;
    es_run *run;
    start();
    assert_ok(es_run_create(path, &spec, false, &run, &err));
    assert_ok(es_run_close(run, &err));
    assert_ok(es_run_resume(path, &spec, &run, &err));
    assert_ok(es_run_close(run, &err));
    assert_ok(es_run_open(path, &run, &err));
    const es_run_about about = es_run_info(run);
    assert_string_equal(about.command, "converge");
    assert_int_equal(about.schema, ES_RUN_SCHEMA);
    assert_int_equal(about.params_count, 3);
    assert_string_equal(about.params[2].key, "n");
    assert_string_equal(about.params[2].text, "1000,2000,4000");
    assert_int_equal(about.facts_count, 6); /* two sessions: started and two of our own */
    assert_string_equal(about.facts[3].key, "started");
    assert_int_equal(about.facts[5].session, 1);
    assert_string_equal(about.facts[5].text, "a quick one");
    assert_int_equal(strlen(about.created), strlen("2026-01-01T00:00:00Z"));
    assert_ok(es_run_close(run, &err));
}

static void CL05_a_run_that_exists_is_left_alone(void **state)
{
    (void)state;
    es_run *run;
    start();
    assert_ok(do_experiment(path, 5, 0, false, &err));
    assert_int_equal(es_run_create(path, &spec, false, &run, &err), ES_E_EXISTS);
    assert_null(run);
    assert_ok(es_run_open(path, &run, &err));
    es_run_stage stage;
    assert_ok(es_run_get_stage(run, 0, &stage, &err));
    assert_int_equal(stage.cells, 5);
    assert_ok(es_run_close(run, &err));
    write_file("a.run-journal", "left by another", 15);
    assert_ok(es_run_create(path, &spec, true, &run, &err));
    assert_int_equal(es_run_info(run).stages_count, 0);
    assert_ok(es_run_close(run, &err));
    assert_int_equal(count_files(false), 1);
}

static void CL05_resume_with_other_parameters_is_refused_with_a_diff(void **state)
{
    (void)state;
    static const es_run_pair other[] = {{"n", "1000,2000,4000"}, {"seed", "8"}, {"dim", "3"}};
    const es_run_spec changed = {"converge", other, 3, NULL, 0};
    es_run *run;
    char text[512];
    start();
    assert_ok(do_experiment(path, 2, 0, false, &err));
    assert_int_equal(es_run_resume(path, &changed, &run, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.parameters");
    assert_string_equal(err.message, "the run differs in 3: seed: 7 in the file, 8 now; law: "
                                     "gaussian in the file, absent now; dim: absent in the file, "
                                     "3 now");
    assert_ok(es_run_open(path, &run, &err));
    assert_int_equal(es_run_diff(run, &changed, text, sizeof text), 3);
    assert_string_equal(text, "seed: 7 in the file, 8 now\nlaw: gaussian in the file, absent now\n"
                              "dim: absent in the file, 3 now\n");
    assert_int_equal(es_run_diff(run, &changed, text, 9), 3);
    assert_string_equal(text, "seed: 7 ");
    assert_int_equal(es_run_diff(run, &changed, NULL, 0), 3);
    assert_int_equal(es_run_diff(run, &spec, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_ok(es_run_close(run, &err));

    /* a parameter that is not given is no difference from a file that is older than it */
    const es_run_pair more[] = {spec_params[0], spec_params[1], spec_params[2], {"cap", "nan"},
                                {"logits", ""}, {"full", "no"}, {"width", "0"}};
    const es_run_spec unset = {"converge", more, 6, NULL, 0}, set = {"converge", more, 7, NULL, 0};
    assert_ok(es_run_resume(path, &unset, &run, &err));
    assert_int_equal(es_run_diff(run, &set, text, sizeof text), 1);
    assert_ok(es_run_close(run, &err));

    es_run_spec command = spec;
    command.command = "ball";
    assert_int_equal(es_run_resume(path, &command, &run, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.command");
    const es_run_pair turned[] = {spec_params[2], spec_params[0], spec_params[1]};
    const es_run_spec order = {"converge", turned, 3, NULL, 0}; /* facts and order do not matter */
    assert_ok(es_run_resume(path, &order, &run, &err));
    assert_ok(es_run_close(run, &err));
}

/* Parameters as version 0.2.0 wrote them, and what must be asked now to mean the same: a row each
 * of command, key, text then, text now and whether they are the same. NULL: absent. */
static void runs_of_earlier_versions_are_resumed(void **state)
{
    (void)state;
    static const struct {
        const char *command, *key, *before, *now;
        bool same;
    } rows[] = {{"probe", "protocol", "house", "default", true},
                {"probe", "protocol", "house", "paper", false},
                {"probe", "sinks", NULL, "4", true},
                {"probe", "sinks", NULL, "5", false},
                {"probe", "sinks", "4", "5", false},
                {"probe", "near", NULL, "64", true},
                {"sparse", "near", NULL, "64", false},
                {"budget", "evict", NULL, "ideal", true},
                {"budget", "evict", NULL, "prompt", false}, /* it dropped no key for good */
                {"budget", "policy", "stream,heavy,observe,random,top", "", true},
                {"budget", "policy", "stream", "", false},
                {"budget", "granularity", NULL, "head", true},
                {"budget", "round", NULL, "1", true},
                {"budget", "round", NULL, "16", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        es_run *run;
        start();
        const es_run_pair then[] = {{"seed", "7"}, {rows[i].key, rows[i].before}};
        const es_run_pair now[] = {{"seed", "7"}, {rows[i].key, rows[i].now}};
        const es_run_spec old = {rows[i].command, then, rows[i].before ? 2 : 1, NULL, 0};
        const es_run_spec new = {rows[i].command, now, 2, NULL, 0};
        assert_ok(es_run_create(path, &old, false, &run, &err));
        assert_ok(es_run_close(run, &err));
        assert_int_equal(es_run_resume(path, &new, &run, &err),
                         rows[i].same ? ES_OK : ES_E_ARGUMENT);
        if (rows[i].same)
            assert_ok(es_run_close(run, &err));
    }
}

static void specs_stages_and_tables_are_checked(void **state)
{
    (void)state;
    static const es_run_pair twice[] = {{"seed", "7"}, {"seed", "8"}}, none[] = {{"seed", NULL}};
    static const char *const others[COLS] = {"mean", "sd"};
    const es_run_spec bad[] = {{NULL, spec_params, 3, NULL, 0}, {"", spec_params, 3, NULL, 0},
                               {"x", twice, 2, NULL, 0},        {"x", none, 1, NULL, 0},
                               {"x", NULL, 1, NULL, 0},         {"x", NULL, 0, NULL, -1}};
    es_run *run;
    int64_t stage;
    start();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(es_run_create(path, &bad[i], false, &run, &err), ES_E_ARGUMENT);
        assert_string_equal(err.rule, "run.spec");
    }
    assert_int_equal(es_run_create("", &spec, false, &run, &err), ES_E_ARGUMENT);
    assert_int_equal(count_files(false), 0);
    assert_ok(es_run_create(path, &spec, false, &run, &err));
    assert_ok(es_run_add_stage(run, "error", ROWS, COLS, cell_columns, &stage, &err));
    assert_ok(es_run_add_stage(run, "error", ROWS, COLS, cell_columns, &stage, &err));
    assert_int_equal(stage, 0);
    assert_int_equal(es_run_add_stage(run, "error", ROWS, COLS, others, &stage, &err),
                     ES_E_ARGUMENT);
    assert_int_equal(es_run_add_stage(run, "error", 4, COLS, cell_columns, &stage, &err),
                     ES_E_ARGUMENT);
    assert_int_equal(es_run_add_stage(run, "", 4, COLS, cell_columns, &stage, &err), ES_E_ARGUMENT);
    assert_int_equal(es_run_add_stage(run, "b", 0, COLS, cell_columns, &stage, &err), ES_E_SHAPE);
    assert_int_equal(es_run_add_stage(run, "b", INT64_MAX, COLS, cell_columns, &stage, &err),
                     ES_E_LIMIT);
    const es_run_column no_data = {.name = "x", .kind = ES_RUN_REAL};
    es_run_table table = {.name = "t", .rows = 1, .cols = 1, .columns = &no_data};
    assert_int_equal(es_run_put_table(run, &table, &err), ES_E_ARGUMENT);
    const es_run_column same_name[] = {no_data, no_data};
    const es_run_table doubled = {.name = "t", .rows = 0, .cols = 2, .columns = same_name};
    assert_int_equal(es_run_put_table(run, &doubled, &err), ES_E_ARGUMENT);
    table.rows = 0; /* a mistake of the caller does not spoil the run */
    assert_ok(es_run_put_table(run, &table, &err));
    assert_ok(es_run_close(run, &err));
}

static void tables_hold_numbers_and_texts(void **state)
{
    (void)state;
    static const double n[3] = {1000, NAN, -0.0};
    static const char *const verdicts[3] = {"pass", "", "fail, \"by far\"\n"};
    const es_run_column columns[] = {{"n", ES_RUN_REAL, n, NULL},
                                     {"verdict", ES_RUN_TEXT, NULL, verdicts}};
    const es_run_table table = {.name = "rows", .rows = 3, .cols = 2, .columns = columns};
    const es_run_table empty = {.name = "fits", .rows = 0, .cols = 2, .columns = columns};
    es_mem_limit budget = {0}, tight = {.limit = 16};
    es_run *run;
    es_run_table back;
    int64_t count;
    char name[256];
    start();
    assert_ok(es_run_create(path, &spec, false, &run, &err));
    assert_ok(es_run_put_table(run, &empty, &err));
    assert_ok(es_run_put_table(run, &empty, &err));
    assert_ok(es_run_put_table(run, &table, &err));
    assert_ok(es_run_close(run, &err));
    assert_ok(es_run_open(path, &run, &err));
    assert_ok(es_run_tables_count(run, &count, &err));
    assert_int_equal(count, 2);
    assert_ok(es_run_table_name(run, 1, name, &err));
    assert_string_equal(name, "rows");
    assert_int_equal(es_run_table_name(run, 2, name, &err), ES_E_RANGE);
    assert_int_equal(es_run_table_name(run, -1, name, &err), ES_E_RANGE);
    assert_int_equal(es_run_get_table(run, "nothing", NULL, &back, &err), ES_E_EMPTY);
    assert_int_equal(es_run_get_table(run, "rows", &tight, &back, &err), ES_E_LIMIT);
    assert_ok(es_run_get_table(run, "rows", &budget, &back, &err));
    assert_int_equal(back.rows, 3);
    assert_memory_equal(back.columns[0].reals, n, sizeof n);
    for (int i = 0; i < 3; i++)
        assert_string_equal(back.columns[1].texts[i], verdicts[i]);
    es_run_table_free(&back);
    assert_int_equal(budget.used, 0);
    assert_ok(es_run_get_table(run, "fits", NULL, &back, &err));
    assert_int_equal(back.rows, 0);
    assert_string_equal(back.columns[1].name, "verdict");
    es_run_table_free(&back);
    assert_ok(es_run_close(run, &err));
}

static void resume_goes_on_where_it_stopped(void **state)
{
    (void)state;
    es_run *run;
    es_run_table whole, parts;
    int64_t stage;
    start();
    assert_ok(do_experiment(path, 20, 0, false, &err));
    assert_ok(es_run_open(path, &run, &err));
    assert_ok(es_run_get_table(run, "rates", NULL, &whole, &err));
    assert_ok(es_run_close(run, &err));
    assert_ok(es_run_create(path, &spec, true, &run, &err));
    assert_ok(do_cells(run, 9, 0, &stage, &err));
    assert_ok(es_run_close(run, &err));
    assert_ok(do_experiment(path, 20, 0, true, &err));
    assert_ok(es_run_open(path, &run, &err));
    assert_ok(es_run_get_table(run, "rates", NULL, &parts, &err));
    assert_ok(es_run_close(run, &err));
    assert_int_equal(parts.rows, 20);
    assert_true(same_tables(&whole, &parts));
    es_run_table_free(&whole);
    es_run_table_free(&parts);
}

typedef struct crowd {
    es_run *run;
    int64_t stage;
} crowd;

static es_status put_from_thread(void *job, int64_t unit, int thread, es_error *e)
{
    const crowd *c = job;
    double values[CELL], back[CELL];
    int64_t stage;
    (void)thread;
    compute_cell(unit, values);
    es_status status = es_run_put_cell(c->run, c->stage, unit, values, e);
    if (status == ES_OK && unit % 10 == 0) /* the list of stages grows under our feet */
        status =
            es_run_add_stage(c->run, unit % 20 ? "other" : "third", 1, 1, cell_columns, &stage, e);
    if (status == ES_OK)
        status = es_run_get_cell(c->run, c->stage, unit, back, e);
    return status == ES_OK && memcmp(values, back, sizeof back) != 0 ? ES_E_NUMERIC : status;
}

static void threads_may_put_at_once(void **state)
{
    (void)state;
    const es_exec exec = {.threads = 8};
    crowd c;
    start();
    assert_ok(es_run_create(path, &spec, false, &c.run, &err));
    assert_ok(es_run_add_stage(c.run, "error", ROWS, COLS, cell_columns, &c.stage, &err));
    assert_ok(es_parallel_run(&exec, 500, put_from_thread, &c, &err));
    es_run_stage stage;
    assert_ok(es_run_get_stage(c.run, c.stage, &stage, &err));
    assert_int_equal(stage.cells, 500);
    assert_int_equal(es_run_info(c.run).stages_count, 3);
    assert_ok(es_run_close(c.run, &err));
}

TEST_FILE(run)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksum_is_crc64_xz),
        cmocka_unit_test(cells_keep_every_bit),
        cmocka_unit_test(a_run_knows_what_it_is),
        cmocka_unit_test(CL05_a_run_that_exists_is_left_alone),
        cmocka_unit_test(CL05_resume_with_other_parameters_is_refused_with_a_diff),
        cmocka_unit_test(runs_of_earlier_versions_are_resumed),
        cmocka_unit_test(specs_stages_and_tables_are_checked),
        cmocka_unit_test(tables_hold_numbers_and_texts),
        cmocka_unit_test(resume_goes_on_where_it_stopped),
        cmocka_unit_test(threads_may_put_at_once),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
