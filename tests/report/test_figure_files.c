/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as files: what the library does with what Node.js gives back. Node.js is played by small
 * shell scripts here; what the real one draws is tests/browser. */
#include "folder.h"

#include <signal.h>

#include <esscher/report.h>
#include <esscher/run.h>

static char run_path[512], out[512], bin[512], before_path[4096];

/* A `node` on PATH that does what `body` says. */
static void be_node(const char *body)
{
    char path[600];
    snprintf(path, sizeof path, "%s/node", bin);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", body);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
    snprintf(path, sizeof path, "%s:/bin:/usr/bin", bin);
    assert_int_equal(setenv("PATH", path, 1), 0);
}

static int begin(void **state)
{
    const double x[] = {1.0, 2.0};
    const es_run_spec spec = {"converge", NULL, 0, NULL, 0};
    const es_run_column columns[] = {{"n", ES_RUN_REAL, x, NULL}};
    const es_run_table table = {.name = "rows", .rows = 2, .cols = 1, .columns = columns};
    es_run *run;
    const int made = make_folder(state);
    snprintf(run_path, sizeof run_path, "%s", in_folder("a.run"));
    snprintf(out, sizeof out, "%s", in_folder("out"));
    snprintf(bin, sizeof bin, "%s", in_folder("bin"));
    snprintf(before_path, sizeof before_path, "%s", getenv("PATH"));
    assert_int_equal(mkdir(bin, 0700), 0);
    assert_ok(es_run_create(run_path, &spec, true, &run, &err));
    assert_ok(es_run_put_table(run, &table, &err));
    assert_ok(es_run_close(run, &err));
    return made;
}

static void empty(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

static int end(void **state)
{
    assert_int_equal(setenv("PATH", before_path, 1), 0);
    empty(out);
    empty(bin);
    return remove_folder(state);
}

static es_status draw(const es_figures_opts *opts)
{
    const char *runs[] = {run_path};
    if (*es_report_missing())
        skip_test("figures are not built in");
    return es_report_figures(runs, 1, out, opts, &err);
}

static const es_figures_opts plain = {0};

static int count_out(void)
{
    int count = 0;
    DIR *dir = opendir(out);
    for (struct dirent *e; dir && (e = readdir(dir));)
        count += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

static int64_t told;
static void tell(void *user, const es_report_file *file)
{
    (void)user;
    told++;
    assert_string_equal(file->figure, "a-b");
    assert_string_equal(file->title, "A title, with words");
    assert_int_equal(file->rows, 7);
    assert_int_equal(file->unknown, strcmp(file->kind, "pdf") == 0 ? 5 : 0);
}

static void files_are_written_as_they_come(void **state)
{
    (void)state;
    const es_figures_opts opts = {.wrote = tell};
    be_node("printf '4 7 0 a-b svg A title, with words\\n<a>\\n0 7 5 a-b pdf A title, with "
            "words\\n'");
    told = 0;
    assert_ok(draw(&opts));
    assert_int_equal(told, 2);
    assert_int_equal(count_out(), 2);
    char path[600], text[8] = "";
    snprintf(path, sizeof path, "%s/a-b.svg", out);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), 4);
    fclose(file);
    assert_memory_equal(text, "<a>\n", 4);
}

/* Descriptor 3 is the data, and what is for every Node.js is not passed on. */
static void the_child_finds_tables_and_no_options(void **state)
{
    (void)state;
    assert_int_equal(setenv("NODE_OPTIONS", "--bad", 1), 0);
    assert_int_equal(setenv("NODE_V8_COVERAGE", "bad", 1), 0);
    be_node("data=$(cat <&3)$NODE_OPTIONS$NODE_V8_COVERAGE; n=$(printf %s \"$data\" | wc -c); "
            "printf '%d 1 0 data csv t\\n%s' \"$n\" \"$data\"");
    assert_ok(draw(&plain));
    assert_int_equal(unsetenv("NODE_OPTIONS"), 0);
    assert_int_equal(unsetenv("NODE_V8_COVERAGE"), 0);
    char path[600], text[512] = "";
    snprintf(path, sizeof path, "%s/data.csv", out);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_above(fread(text, 1, sizeof text - 1, file), 0);
    fclose(file);
    assert_string_equal(text,
                        "[{\"name\":\"a\",\"command\":\"converge\",\"answer\":{},\n\"params\":{},\n"
                        "\"tables\":{\"rows\":{\"id\":\"\",\"rows\":2,\"shown\":2,"
                        "\"left\":\"\",\"columns\":{\"n\":[1,2]}}}}\n]");
}

static void nonsense_is_refused_and_nothing_is_written(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "printf '3 1 0 ../evil svg t\\nabc'",
        "printf '3 1 0 /evil svg t\\nabc'",
        "printf '3 1 0 .hidden svg t\\nabc'",
        "printf '3 1 0 a s/v t\\nabc'",
        "printf '4 1 0 a svg t\\nabc'",
        "printf -- '-1 1 0 a svg t\\nabc'",
        "printf '3 1 0 a svg t'",
        "printf 'hello\\n'",
        "printf '3 1 0 a svg t\\nabc3 1 0 A svg t\\nabc'",
        "printf '3 1 0 -a svg t\\nabc'",
        "printf '3 1 0 a exe t\\nabc'",
        "printf '3 1 0 a svg\\nabc'",
        "printf '3x 1 0 a svg t\\nabc'",
        "printf '3 1 a svg t\\nabc'",
        "printf '3 1 0  svg t\\nabc'",
        "printf '3 1 0 %0300d svg t\\nabc' 1",
        "printf '1 1 0 a svg t\\nx1 1 0 b svg t\\ny1 1 0 a svg u\\nz'"};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        be_node(bodies[i]);
        assert_int_equal(draw(&plain), ES_E_UNSUPPORTED);
        assert_string_equal(err.rule, "report.node");
        assert_int_equal(count_out(), 0);
    }
}

/* Titles are any text, of any length. */
static void a_long_title_is_no_nonsense(void **state)
{
    (void)state;
    be_node("printf '1 1 0 a svg %02000d\\nx1 1 0 a csv \\nx' 1");
    assert_ok(draw(&plain));
    assert_int_equal(count_out(), 2);
}

static void a_folder_whose_files_would_have_no_names_is_refused(void **state)
{
    (void)state;
    static char deep[4096];
    const char *runs[] = {run_path};
    assert_int_equal(es_report_figures(runs, 1, NULL, &plain, &err), ES_E_ARGUMENT);
    assert_int_equal(es_report_figures(runs, 1, "", &plain, &err), ES_E_ARGUMENT);
    memset(deep, '/', 4000);
    be_node("printf '1 1 0 a svg t\\nx'");
    assert_int_equal(es_report_figures(runs, 1, deep, &plain, &err), ES_E_LIMIT);
    assert_string_equal(err.rule, "file.path");
}

static void a_node_that_fails_says_why(void **state)
{
    (void)state;
    be_node("echo 'at line 3' >&2; echo 'TypeError: no such thing' >&2; exit 1");
    assert_int_equal(draw(&plain), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "report.node");
    assert_string_equal(err.message, "node failed: TypeError: no such thing");
    be_node("kill -9 $$");
    assert_int_equal(draw(&plain), ES_E_UNSUPPORTED);
    assert_string_equal(err.message, "node was ended by signal 9");
    assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);
    assert_int_equal(draw(&plain), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "report.node");
    assert_string_equal(err.hint, "install nodejs, 18 or later");
}

static void files_that_exist_stay_unless_asked(void **state)
{
    (void)state;
    const es_figures_opts over = {.overwrite = true};
    be_node("printf '1 1 0 a svg t\\nx1 1 0 b svg t\\ny'");
    assert_ok(draw(&plain));
    be_node("printf '1 1 0 c svg t\\nx1 1 0 b svg t\\ny'");
    assert_int_equal(draw(&plain), ES_E_EXISTS);
    assert_int_equal(count_out(), 2); /* not even c, which would have been new */
    assert_ok(draw(&over));
    assert_int_equal(count_out(), 3);
}

/* Asked every 20 ms: stop once the file is there, or after a minute without it. */
typedef struct waiting {
    const char *path;
    int asked;
} waiting;

static bool stop_when_there(void *user, double done, double total)
{
    (void)done, (void)total;
    waiting *w = user;
    return access(w->path, F_OK) == 0 || ++w->asked >= 3000;
}

/* The child is gone when the function returns: its process number is nobody's. */
static void a_caller_that_stops_leaves_no_child(void **state)
{
    (void)state;
    char body[2000], path[600];
    waiting wait = {.path = path};
    const es_figures_opts opts = {.progress = stop_when_there, .progress_user = &wait};
    snprintf(path, sizeof path, "%s/pid", bin);
    snprintf(body, sizeof body, "echo $$ >%s.new; mv %s.new %s; exec sleep 100", path, path, path);
    be_node(body);
    assert_int_equal(draw(&opts), ES_E_INTERRUPTED);
    FILE *file = fopen(path, "r");
    long pid = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pid), 1);
    fclose(file);
    assert_int_equal(kill((pid_t)pid, 0), -1);
    assert_int_equal(count_out(), 0);
}

static void runs_are_counted(void **state)
{
    (void)state;
    assert_int_equal(es_report_figures(NULL, 0, out, &plain, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "report.runs");
}

TEST_FILE(figure_files)
{
    const struct CMUnitTest tests[] = {
        optional_test_setup_teardown(files_are_written_as_they_come, begin, end),
        optional_test_setup_teardown(the_child_finds_tables_and_no_options, begin, end),
        optional_test_setup_teardown(nonsense_is_refused_and_nothing_is_written, begin, end),
        optional_test_setup_teardown(a_long_title_is_no_nonsense, begin, end),
        cmocka_unit_test_setup_teardown(a_folder_whose_files_would_have_no_names_is_refused, begin,
                                        end),
        optional_test_setup_teardown(a_node_that_fails_says_why, begin, end),
        optional_test_setup_teardown(files_that_exist_stay_unless_asked, begin, end),
        optional_test_setup_teardown(a_caller_that_stops_leaves_no_child, begin, end),
        cmocka_unit_test_setup_teardown(runs_are_counted, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
