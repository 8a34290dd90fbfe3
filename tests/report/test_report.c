/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a report, as text: what is written, what is escaped, what is refused. How it looks
 * and works in a browser is tests/browser. */
#include "folder.h"

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>

#include <esscher/report.h>
#include <esscher/run.h>

#include "report/page_run.h"

static char run_path[512], page_path[512];
static char *page; /* what was read last */
static const es_report_opts tables_only = {.tables_only = true, .overwrite = true};

static int begin(void **state)
{
    const int made = make_folder(state);
    snprintf(run_path, sizeof run_path, "%s", in_folder("a.run"));
    snprintf(page_path, sizeof page_path, "%s", in_folder("a.html"));
    return made;
}

static int end(void **state)
{
    free(page);
    page = NULL;
    return remove_folder(state);
}

/* A run of `rows` rows with a column of numbers and one of texts. */
static void make_run(const char *command, int64_t rows, const double *x, const char *const *texts)
{
    const es_run_pair params[] = {{"seed", "7"}, {"left", ""}};
    const es_run_pair facts[] = {{"command", "esscher thing --out 'a b.run'"}, {"cpu", "<CPU>"}};
    const es_run_spec spec = {command, params, 2, facts, 2};
    const es_run_column columns[] = {{"x", ES_RUN_REAL, x, NULL}, {"t", ES_RUN_TEXT, NULL, texts}};
    const es_run_table table = {
        .name = "rows", .rows = rows, .cols = texts ? 2 : 1, .columns = columns};
    es_run *run;
    assert_ok(es_run_create(run_path, &spec, true, &run, &err));
    if (rows >= 0)
        assert_ok(es_run_put_table(run, &table, &err));
    assert_ok(es_run_close(run, &err));
}

static void read_page(void)
{
    FILE *file = fopen(page_path, "rb");
    struct stat st;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    free(page);
    page = calloc(1, (size_t)st.st_size + 1);
    assert_non_null(page);
    assert_int_equal(fread(page, 1, (size_t)st.st_size, file), st.st_size);
    fclose(file);
}

static void write_and_read(const es_report_opts *opts)
{
    const char *runs[] = {run_path};
    assert_ok(es_report_write(runs, 1, page_path, opts, NULL, &err));
    read_page();
}

static void assert_says(const char *text)
{
    if (!strstr(page, text))
        fail_msg("the page does not contain: %s", text);
}

/* ---- what is written ---- */

static void unknown_commands_have_tables_parameters_and_the_command_to_repeat(void **state)
{
    (void)state;
    static const double x[] = {0.5, 2.0};
    static const char *const texts[] = {"one", "two"};
    make_run("something", 2, x, texts);
    write_and_read(&tables_only);
    assert_says("<td class=\"n\">0.5</td><td>one</td>");
    assert_says("<th scope=\"row\">seed</th><td>7</td>");
    assert_says("<code>esscher thing --out &#39;a b.run&#39;</code>");
    assert_says("&#60;CPU&#62;");
    assert_null(strstr(page, "<script")); /* neither code nor data without figures */
    assert_null(strstr(page, ">left<"));  /* an option without a value */
}

/* Two views of one table, under two titles, in the order in which they are described; one hides a
 * number, which stays hidden, and a long text, which a page has space for. */
static void a_table_that_was_described_twice_is_shown_twice(void **state)
{
    (void)state;
    static const double x[] = {0.5}, y[] = {0.25};
    static const char *const texts[] = {"a sentence"};
    static const char *const table[] = {"rows", "rows", "rows"},
                             *const title[] = {"Zeta", "Zeta", "Alpha"},
                             *const key[] = {"x", "t", "y"}, *const header[] = {"EX", "TEE", "WHY"},
                             *const hidden[] = {"yes", "yes", "no"},
                             *const standing[] = {"", "", "heuristic"};
    const es_run_column columns[] = {
        {"x", ES_RUN_REAL, x, NULL}, {"y", ES_RUN_REAL, y, NULL}, {"t", ES_RUN_TEXT, NULL, texts}};
    const es_run_column said[] = {
        {"table", ES_RUN_TEXT, NULL, table},   {"title", ES_RUN_TEXT, NULL, title},
        {"key", ES_RUN_TEXT, NULL, key},       {"header", ES_RUN_TEXT, NULL, header},
        {"hidden", ES_RUN_TEXT, NULL, hidden}, {"standing", ES_RUN_TEXT, NULL, standing}};
    const es_run_spec spec = {"something", NULL, 0, NULL, 0};
    es_run *run;
    assert_ok(es_run_create(run_path, &spec, true, &run, &err));
    assert_ok(es_run_put_table(
        run, &(es_run_table){.name = "rows", .rows = 1, .cols = 3, .columns = columns}, &err));
    assert_ok(es_run_put_table(
        run, &(es_run_table){.name = "_columns", .rows = 3, .cols = 6, .columns = said}, &err));
    assert_ok(es_run_close(run, &err));
    write_and_read(&tables_only);
    const char *zeta = strstr(page, ">Zeta</span>"), *alpha = strstr(page, ">Alpha</span>");
    assert_true(zeta && alpha && zeta < alpha);
    assert_says("<details class=\"table\" id=\"run-1-table-1\" data-table=\"rows\">");
    assert_says("<span class=\"count\">1 row, 1 column</span>");
    assert_says("<th scope=\"col\">TEE</th>");
    assert_says("<th scope=\"col\" class=\"n\">WHY</th>");
    assert_null(strstr(page, ">EX</th>"));
    assert_says("<dt>WHY</dt><dd>[heuristic]</dd>");
    const char *runs[] = {run_path};
    es_report_size size;
    assert_ok(es_report_write(runs, 1, page_path, &tables_only, &size, &err));
    assert_int_equal(size.tables, 1);
    assert_int_equal(size.rows, 1);
}

/* Sentences are the study's own, plain text; the page shows them as they are. */
static void what_a_study_found_is_said_first(void **state)
{
    (void)state;
    static const double n[] = {100, 1000};
    static const char *const said[] = {"Of 11 heads <5> converge.",
                                       "The slowest is layer 0: n^-0.25 (± 0.1), no `n^0.5`.",
                                       "It falls (at n = 10) like (ln n)^-0.5."};
    const es_run_column rows[] = {{"n", ES_RUN_REAL, n, NULL}};
    const es_run_column sentences[] = {{"sentence", ES_RUN_TEXT, NULL, said}};
    const es_run_table tables[] = {
        {.name = "rows", .rows = 2, .cols = 1, .columns = rows},
        {.name = "_findings", .rows = 3, .cols = 1, .columns = sentences}};
    const es_run_spec spec = {"probe", NULL, 0, NULL, 0};
    es_run *run;
    assert_ok(es_run_create(run_path, &spec, true, &run, &err));
    for (int i = 0; i < 2; i++)
        assert_ok(es_run_put_table(run, &tables[i], &err));
    assert_ok(es_run_close(run, &err));
    write_and_read(&tables_only);
    assert_says("<p class=\"finding\">Of 11 heads &#60;5&#62; converge.</p>");
    assert_says("<p class=\"finding\">The slowest is layer 0: n^-0.25 (± 0.1), no <span "
                "class=\"formula\"><i>n</i><sup>0.5</sup></span>.</p>");
    assert_says("like <span class=\"formula\">(ln <i>n</i>)<sup>−0.5</sup></span>.</p>");
    assert_true(strstr(page, "The slowest") < strstr(page, "<table"));
    const char *once = strstr(page, "The slowest"); /* the page has one run */
    assert_null(strstr(once + 1, "The slowest"));
}

/* A run of `command` at `name`, of a model and texts if `line` says so. */
static void make_named(const char *name, const char *command, const char *model, const char *line)
{
    static const double x[] = {1.0};
    const es_run_pair params[] = {{"seed", "5"}, {"model", model}};
    const es_run_pair facts[] = {{"command", line}, {"version", "9.8.7"}};
    const es_run_spec spec = {command, params, 2, facts, 2};
    const es_run_column column = {"x", ES_RUN_REAL, x, NULL};
    es_run *run;
    assert_ok(es_run_create(in_folder(name), &spec, true, &run, &err));
    assert_ok(es_run_put_table(
        run, &(es_run_table){.name = "rows", .rows = 1, .cols = 1, .columns = &column}, &err));
    assert_ok(es_run_close(run, &err));
}

/* Real models, synthetic tokens, claims, selfcheck; as given among those of one kind. */
static void sections_stand_in_the_order_of_their_kinds(void **state)
{
    (void)state;
    static const char *const given[][2] = {
        {"s.run", "selfcheck"}, {"c.run", "claims"}, {"b.run", "rope"},  {"a.run", "ball"},
        {"m.run", "measure"},   {"p.run", "probe"},  {"t.run", "tails"},
    };
    static const char *const order[] = {"m.run", "p.run", "b.run", "a.run",
                                        "t.run", "c.run", "s.run"};
    enum { RUNS = sizeof given / sizeof *given };
    char paths[RUNS][512];
    const char *runs[RUNS];
    for (int i = 0; i < RUNS; i++) {
        const bool model = strcmp(given[i][1], "probe") == 0; /* tails has none here */
        make_named(given[i][0], given[i][1], model ? "config.json 12 bytes" : "",
                   model ? "esscher probe --model '/a b/minil'\\''m' --text=/x/alice.txt --out p"
                         : "");
        snprintf(paths[i], sizeof paths[i], "%s", in_folder(given[i][0]));
        runs[i] = paths[i];
    }
    assert_ok(es_report_write(runs, RUNS, page_path, &tables_only, NULL, &err));
    read_page();
    const char *before = page;
    for (int i = 0; i < RUNS; i++) {
        char origin[64];
        snprintf(origin, sizeof origin, "<p class=\"origin\">%s", order[i]);
        const char *at = strstr(before, origin);
        if (!at)
            fail_msg("%s is not behind %s", order[i], i ? order[i - 1] : "the beginning");
        before = at;
    }
    assert_says("<title>minil&#39;m on alice.txt</title>");
    assert_says("<dt>model</dt> <dd>minil&#39;m</dd>");
    assert_says("<dt>text</dt> <dd>alice.txt</dd>");
    assert_says("<dt>seed</dt> <dd>5</dd>");
    assert_says("<dt>computed by Esscher</dt> <dd>9.8.7</dd>");
    assert_says("p.run · minil&#39;m on alice.txt · 20"); /* and the date */
    assert_says("<a href=\"#run-7\">");
    assert_says("<section class=\"run\" id=\"run-7\"");
    assert_says("<section class=\"run card\" id=\"run-3\"");
}

static void a_model_may_be_given_by_its_letter(void **state)
{
    (void)state;
    make_named("m.run", "probe", "config.json 12 bytes",
               "esscher probe -mood x --mode y -m /a/minilm --text /x/alice.txt");
    const char *runs[] = {in_folder("m.run")};
    assert_ok(es_report_write(runs, 1, page_path, &tables_only, NULL, &err));
    read_page();
    assert_says("<title>How many tokens do the heads of minilm need?</title>");
}

static void pages_without_a_model_say_what_they_are_about(void **state)
{
    (void)state;
    static const double x[] = {1.0};
    make_run("something", 1, x, NULL);
    write_and_read(&tables_only);
    assert_says("<title>Esscher: something</title>");
    assert_says("<dt>seed</dt> <dd>7</dd>");
    make_run("heat", 1, x, NULL); /* its title is in web/about/heat.html */
    write_and_read(&tables_only);
    assert_says("<title>Is attention a step of backward heat flow?</title>");
    assert_says("<h1>Is attention a step of backward heat flow?</h1>");
    write_and_read(&(es_report_opts){.tables_only = true, .overwrite = true, .title = "Mine"});
    assert_says("<title>Mine</title>");
}

/* Version 0.1 wrote no findings. */
static void old_runs_make_a_page(void **state)
{
    (void)state;
    char converge[512], hardmax[512];
    snprintf(converge, sizeof converge, "%s/old_runs/converge.run", ES_TESTS_DIR);
    snprintf(hardmax, sizeof hardmax, "%s/old_runs/hardmax.run", ES_TESTS_DIR);
    const char *runs[] = {converge, hardmax};
    assert_ok(es_report_write(runs, 2, page_path, &tables_only, NULL, &err));
    read_page();
    assert_says("<title>Esscher: converge, hardmax</title>");
    assert_says("<details class=\"table\" id=\"run-2-table-1\"");
}

/* Columns that do not fit are in bands of their own, each with what names its rows. */
static void wide_tables_are_cut_into_bands(void **state)
{
    (void)state;
    enum { COLS = 40 };
    static const double x[] = {0.123456};
    char names[COLS][16];
    es_run_column columns[COLS];
    const es_run_spec spec = {"something", NULL, 0, NULL, 0};
    for (int j = 0; j < COLS; j++) {
        snprintf(names[j], sizeof names[j], "column_%d", j);
        columns[j] = (es_run_column){names[j], ES_RUN_REAL, x, NULL};
    }
    es_run *run;
    assert_ok(es_run_create(run_path, &spec, true, &run, &err));
    assert_ok(es_run_put_table(
        run, &(es_run_table){.name = "rows", .rows = 1, .cols = COLS, .columns = columns}, &err));
    assert_ok(es_run_close(run, &err));
    write_and_read(&tables_only);
    assert_says("1 row, 40 columns");
    int bands = 0, firsts = 0;
    for (const char *at = page; (at = strstr(at, "<thead>")); at++)
        bands++;
    for (const char *at = page; (at = strstr(at, ">column_0<")); at++)
        firsts++;
    assert_at_least(bands, 3);
    assert_int_equal(firsts, bands);
    for (int j = 1; j < COLS; j++) { /* every other column once */
        char head[32];
        snprintf(head, sizeof head, ">column_%d<", j);
        const char *at = strstr(page, head);
        assert_non_null(at);
        assert_null(strstr(at + 1, head));
    }
}

static void the_same_run_gives_the_same_bytes(void **state)
{
    (void)state;
    static const double x[] = {1.0};
    make_run("something", 1, x, NULL);
    const bool figures = !*es_report_missing();
    const es_report_opts opts = {.tables_only = !figures, .overwrite = true};
    write_and_read(&opts);
    char *first = page;
    page = NULL;
    write_and_read(&opts);
    assert_string_equal(first, page);
    free(first);
}

static void RP01_text_from_a_run_is_text_on_the_page(void **state)
{
    (void)state;
    static const char *const texts[] = {"</td><script>alert(1)</script>",
                                        "a\xe2\x80\xa8"
                                        "b\xe2\x80\xae"
                                        "c",
                                        "\xff\xc0\x80\xed\xa0\x80\x01", "\" onclick='x' & <"};
    static const double x[4];
    make_run("</h2><script>", 4, x, texts);
    write_and_read(&tables_only);
    assert_null(strstr(page, "<script"));
    assert_says("&#60;/td&#62;&#60;script&#62;alert(1)&#60;/script&#62;");
    assert_says("a\\u2028b\\u202ec");
    assert_says("\\xff\\xc0\\x80\\xed\\xa0\\x80\\u0001"); /* overlong and surrogate, byte by byte */
    assert_says("&#34; onclick=&#39;x&#39; &#38; &#60;");
}

static void needs_figures(void)
{
    if (*es_report_missing())
        skip_test("this build has no figures: %s", es_report_missing());
}

static void RP01_data_cannot_end_its_script(void **state)
{
    (void)state;
    static const char *const texts[] = {"</script><!--<script>", "a\xe2\x80\xa8"
                                                                 "b\\\"\n"};
    static const double x[2];
    needs_figures();
    make_run("something", 2, x, texts);
    write_and_read(&(es_report_opts){.overwrite = true});
    assert_says(
        "\"t\":[\"\\u003c/"
        "script\\u003e\\u003c!--\\u003cscript\\u003e\",\"a\\u2028b\\u005c\\u0022\\u000a\"]");
    const char *data = strstr(page, "type=\"application/json\"");
    assert_non_null(data);
    const char *close = strstr(data, "</script");
    assert_memory_equal(close - 2, "}}", 2); /* the first end of a script is its own */
}

static void RP02_what_is_no_number_is_noted_for_people(void **state)
{
    (void)state;
    static const double x[] = {1.0 / 3.0, NAN, INFINITY, -INFINITY};
    make_run("something", 4, x, NULL);
    write_and_read(&tables_only);
    assert_says("<td class=\"n\">–</td>");
    assert_says("<td class=\"n\">−∞</td>");
    assert_says("3 values are no finite number");
}

static void RP02_what_is_no_number_is_null_in_data(void **state)
{
    (void)state;
    static const double x[] = {1.0 / 3.0, NAN, INFINITY, -INFINITY};
    needs_figures();
    make_run("something", 4, x, NULL);
    write_and_read(&(es_report_opts){.overwrite = true});
    assert_says("\"x\":[0.3333333,null,null,null]");
}

/* `series` of `points` rows each, with the series' number, a column that is always 1, and n. */
static void make_series(int64_t series, int64_t points)
{
    const int64_t rows = series * points;
    const es_run_spec spec = {"something", NULL, 0, NULL, 0};
    double *values[4];
    for (int j = 0; j < 4; j++)
        values[j] = malloc(sizeof(double) * (size_t)rows);
    for (int64_t i = 0; i < rows; i++) { /* n outside, series inside: no series stands together */
        values[0][i] = 1.0;
        values[1][i] = (double)(i % series);
        values[2][i] = (double)(i / series);
        values[3][i] = (double)i + 0.5;
    }
    const es_run_column columns[] = {{"one", ES_RUN_REAL, values[0], NULL},
                                     {"layer", ES_RUN_REAL, values[1], NULL},
                                     {"n", ES_RUN_REAL, values[2], NULL},
                                     {"x", ES_RUN_REAL, values[3], NULL}};
    es_run *run;
    assert_ok(es_run_create(run_path, &spec, true, &run, &err));
    assert_ok(es_run_put_table(
        run, &(es_run_table){.name = "rows", .rows = rows, .cols = 4, .columns = columns}, &err));
    assert_ok(es_run_close(run, &err));
    for (int j = 0; j < 4; j++)
        free(values[j]);
}

/* How many numbers a column has in the page's data. */
static int64_t carried(const char *column)
{
    char key[32];
    int64_t count = 1;
    snprintf(key, sizeof key, "\"%s\":[", column);
    const char *at = strstr(page, key);
    assert_non_null(at);
    for (; *at && *at != ']'; at++)
        count += *at == ',';
    return count;
}

/* 1728 rows of 144 heads are all there; of what is beyond what a page holds, whole series: half of
 * ES_PAGE_VALUES are 31250 rows of 4 columns, 15 series of 2000 rows. */
static void RP03_a_page_carries_every_row_or_whole_series(void **state)
{
    (void)state;
    needs_figures();
    make_series(144, 12);
    write_and_read(&(es_report_opts){.overwrite = true});
    assert_says("\"rows\":1728,\"shown\":1728,\"left\":\"\"");
    assert_int_equal(carried("x"), 1728);
    assert_int_equal(carried("one"), 1); /* all alike */
    make_series(40, 2000);
    write_and_read(&(es_report_opts){.overwrite = true});
    assert_says("\"rows\":80000,\"shown\":30000,");
    assert_says("the first 15 of its 40 series are here, whole, 30000 of 80000 rows. Left out are "
                "those from one 1, layer 15 on.");
    assert_int_equal(carried("x"), 30000);
    assert_says("\"layer\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,0,1,");
    make_series(1, 200000);
    write_and_read(&(es_report_opts){.overwrite = true});
    assert_says("One series is too long for a page");
    assert_at_most(carried("x"), 3000);
    assert_above(carried("x"), 2000);
}

static void RP03_no_tables_no_rows_many_rows(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    double *x = malloc(sizeof *x * MANY);
    assert_non_null(x);
    for (int i = 0; i < MANY; i++) /* a permutation of 0 .. MANY-1: quartiles are known */
        x[i] = (double)((i * 7919LL) % MANY);
    make_run("something", -1, NULL, NULL);
    write_and_read(&tables_only);
    assert_says("This run has no tables yet");
    make_run("something", 0, x, NULL);
    write_and_read(&tables_only);
    assert_says("This table has no rows");
    make_run("something", MANY, x, NULL);
    write_and_read(&tables_only);
    assert_says(
        "These are the first 150 of 100000 rows. Every digit of all 100000 rows and 1 column: ");
    assert_says("<td class=\"n\">100000</td><td class=\"n\">0</td><td class=\"n\">24999</td>"
                "<td class=\"n\">49999</td><td class=\"n\">74999</td><td class=\"n\">99999</td>"
                "<td class=\"n\">49999.5</td>");
    assert_below(strlen(page), 100000);
    free(x);
}

static void a_choice_of_rows_has_the_first_the_last_and_not_too_many(void **state)
{
    (void)state;
    for (int64_t rows = 0; rows < 300; rows++)
        for (int64_t most = 2; most < 40; most++) {
            const es_page_run_pick pick = es_page_run_pick_rows(rows, most);
            assert_at_most(pick.count, (rows < most ? rows : most));
            assert_int_equal(pick.count == rows, pick.stride == 1 || rows <= 2);
            for (int64_t i = 0; i < pick.count; i++) {
                const int64_t row = es_page_run_row(&pick, i);
                assert_below(row, rows);
                if (i == 0)
                    assert_equals(row, 0);
                else
                    assert_above(row, es_page_run_row(&pick, i - 1));
            }
            if (rows > 0)
                assert_int_equal(es_page_run_row(&pick, pick.count - 1), rows - 1);
        }
}

/* ---- what is refused ---- */

static void refuse(const char *const *runs, int64_t count, const es_report_opts *opts,
                   es_status status, const char *rule)
{
    assert_int_equal(es_report_write(runs, count, page_path, opts, NULL, &err), status);
    assert_string_equal(err.rule, rule);
}

static void RP06_a_run_of_a_newer_schema_is_refused_and_named(void **state)
{
    (void)state;
    static const double x[1];
    const char *runs[] = {run_path};
    sqlite3 *db;
    make_run("something", 1, x, NULL);
    assert_int_equal(sqlite3_open(run_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 3", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    refuse(runs, 1, &tables_only, ES_E_UNSUPPORTED, "run.schema");
    assert_non_null(strstr(err.file, "a.run"));
    assert_int_equal(access(page_path, F_OK), -1);
}

static void runs_that_are_none_and_pages_that_exist(void **state)
{
    (void)state;
    static const double x[1];
    const char *runs[ES_REPORT_RUNS + 1] = {run_path};
    make_run("something", 1, x, NULL);
    refuse(runs, 0, &tables_only, ES_E_ARGUMENT, "report.runs");
    refuse(runs, ES_REPORT_RUNS + 1, &tables_only, ES_E_ARGUMENT, "report.runs");
    write_and_read(&tables_only);
    refuse(runs, 1, &(es_report_opts){.tables_only = true}, ES_E_EXISTS, "file.exists");
    runs[1] = in_folder("none.run");
    refuse(runs, 2, &tables_only, ES_E_IO, "file.open");
    write_file("text.run", "not a run", 9);
    runs[1] = in_folder("text.run");
    refuse(runs, 2, &tables_only, ES_E_FORMAT, "run.magic");
    if (*es_report_missing())
        refuse(runs, 1, &(es_report_opts){.overwrite = true}, ES_E_UNSUPPORTED, "report.figures");
}

static void a_page_does_not_replace_a_run(void **state)
{
    (void)state;
    static const double x[1];
    const char *runs[] = {run_path};
    char other[sizeof page_path];
    make_run("something", 1, x, NULL);
    snprintf(other, sizeof other, "%s", in_folder("link.html"));
    unlink(other);
    assert_int_equal(symlink(run_path, other), 0);
    const char *const pages[] = {run_path, other};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(es_report_write(runs, 1, pages[i], &tables_only, NULL, &err),
                         ES_E_ARGUMENT);
        assert_string_equal(err.rule, "report.out");
    }
    write_and_read(&tables_only); /* the run is still one */
}

static void memory_is_counted(void **state)
{
    (void)state;
    enum { ROWS = 10000 };
    double *x = calloc(ROWS, sizeof *x);
    const char *runs[] = {run_path};
    make_run("something", ROWS, x, NULL);
    es_mem_limit budget = {.limit = 100000}; /* the table alone takes 80000, the buffer 65536 */
    const es_report_opts opts = {.tables_only = true, .overwrite = true, .budget = &budget};
    assert_int_equal(es_report_write(runs, 1, page_path, &opts, NULL, &err), ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
    budget.limit = 0;
    assert_ok(es_report_write(runs, 1, page_path, &opts, NULL, &err));
    assert_int_equal(budget.used, 0);
    free(x);
}

static void FS04_a_full_disk_leaves_the_old_page_and_no_draft(void **state)
{
    (void)state;
    static const double x[1];
    const char *runs[] = {run_path};
    make_run("something", 1, x, NULL);
    write_and_read(&tables_only);
    const int files = count_files(false);
    struct rlimit before, tiny;
    getrlimit(RLIMIT_FSIZE, &before);
    tiny = before;
    tiny.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &tiny);
    const es_status status = es_report_write(runs, 1, page_path, &tables_only, NULL, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, ES_E_IO);
    assert_string_equal(err.rule, "file.write");
    assert_int_equal(count_files(false), files);
    char *old = page;
    page = NULL;
    read_page();
    assert_string_equal(page, old);
    free(old);
}

TEST_FILE(report)
{
#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        T(unknown_commands_have_tables_parameters_and_the_command_to_repeat),
        T(a_table_that_was_described_twice_is_shown_twice),
        T(what_a_study_found_is_said_first),
        T(sections_stand_in_the_order_of_their_kinds),
        T(a_model_may_be_given_by_its_letter),
        T(pages_without_a_model_say_what_they_are_about),
        T(old_runs_make_a_page),
        T(wide_tables_are_cut_into_bands),
        T(the_same_run_gives_the_same_bytes),
        T(RP01_text_from_a_run_is_text_on_the_page),
        T(RP02_what_is_no_number_is_noted_for_people),
        T(RP03_no_tables_no_rows_many_rows),
        T(a_choice_of_rows_has_the_first_the_last_and_not_too_many),
        T(RP06_a_run_of_a_newer_schema_is_refused_and_named),
        T(runs_that_are_none_and_pages_that_exist),
        T(a_page_does_not_replace_a_run),
        T(memory_is_counted),
        T(FS04_a_full_disk_leaves_the_old_page_and_no_draft),
        optional_test_setup_teardown(RP01_data_cannot_end_its_script, begin, end),
        optional_test_setup_teardown(RP02_what_is_no_number_is_null_in_data, begin, end),
        optional_test_setup_teardown(RP03_a_page_carries_every_row_or_whole_series, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
