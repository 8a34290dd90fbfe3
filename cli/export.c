/* esscher export : what a run file holds, as tables, CSV or JSON. */
#include <stdlib.h>
#include <string.h>

#include <esscher/run.h>

#include "answer.h"
#include "options.h"
#include "talk.h"

typedef struct export_options {
    const char *run, *table;
} export_options;

static const cli_option operand = {
    "run", 0, CLI_STRING, "RUN", "a run file", .field = offsetof(export_options, run)};

static const cli_option options[] = {
    {"table", 0, CLI_STRING, "NAME",
     "the table to print (default: say which there are; with --json all of them)",
     .field = offsetof(export_options, table)},
    {0}};

/* ---- views ---- */

static const cli_column run_columns[] = {{"command", "command", "", .format = CLI_TEXT},
                                         {"created", "created", "", .format = CLI_TEXT},
                                         {"updated", "updated", "", .format = CLI_TEXT},
                                         {"starts", "starts", "", .format = CLI_COUNT},
                                         {0}};
static const cli_table run_table = {.rows = "run", .title = "Run", .columns = run_columns};

static const cli_column list_columns[] = {{"name", "table", "", .format = CLI_TEXT},
                                          {"size", "rows", "", .format = CLI_COUNT},
                                          {"width", "columns", "", .format = CLI_COUNT},
                                          {0}};
static const cli_table list_table = {.rows = "tables",
                                     .title = "Tables",
                                     .columns = list_columns,
                                     .note = "print one with --table NAME, or as CSV with --csv"};

static const cli_column stage_columns[] = {{"name", "stage", "", .format = CLI_TEXT},
                                           {"cells", "cells done", "", .format = CLI_COUNT},
                                           {"size", "rows", "", .format = CLI_COUNT},
                                           {"width", "columns", "", .format = CLI_COUNT},
                                           {0}};
static const cli_table stage_table = {.rows = "stages", .title = "Cells", .columns = stage_columns};

/* CSV is the first view that is there: without a table named, the list of tables. */
static const cli_table *const views[] = {&list_table, &stage_table, &run_table, NULL};

/* The table that was asked for has the columns that the file says; one per process. */
static cli_table chosen = {.rows = "rows"};
static const cli_table *const chosen_views[] = {&chosen, NULL};

/* ---- from the file to the answer ---- */

/* Texts of a run may be anything; JSON takes valid UTF-8 only. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char *safe = cli_escape_new(text);
    value = json_string(safe);
    free(safe);
    return value;
}

static void set_text(json_t *object, const char *key, const char *text)
{
    char *safe = cli_escape_new(key);
    json_object_set_new(object, safe, text_value(text));
    free(safe);
}

static json_t *describe_sessions(const es_run_about *about)
{
    json_t *sessions = json_array(), *session = NULL;
    for (int64_t i = 0; i < about->facts_count; i++) {
        const es_run_fact *fact = &about->facts[i];
        if (i == 0 || fact->session != fact[-1].session) {
            session = json_object();
            json_array_append_new(sessions, session);
        }
        set_text(session, fact->key, fact->text);
    }
    return sessions;
}

static json_t *describe_run(const es_run *run)
{
    const es_run_about about = es_run_info(run);
    json_t *object = json_object(), *parameters = json_object();
    for (int64_t i = 0; i < about.params_count; i++)
        set_text(parameters, about.params[i].key, about.params[i].text);
    json_t *sessions = describe_sessions(&about);
    set_text(object, "command", about.command);
    json_object_set_new(object, "schema", json_integer(about.schema));
    set_text(object, "created", about.created);
    set_text(object, "updated", about.updated);
    json_object_set_new(object, "starts", json_integer((json_int_t)json_array_size(sessions)));
    json_object_set_new(object, "parameters", parameters);
    json_object_set_new(object, "sessions", sessions);
    return object;
}

static es_status describe_stages(es_run *run, json_t *answer, es_error *err)
{
    json_t *stages = json_array();
    json_object_set_new(answer, "stages", stages);
    const int64_t count = es_run_info(run).stages_count;
    for (int64_t i = 0; i < count; i++) {
        es_run_stage stage;
        const es_status status = es_run_get_stage(run, i, &stage, err);
        if (status != ES_OK)
            return status;
        json_t *object = json_object(), *columns = json_array();
        for (int64_t j = 0; j < stage.cols; j++)
            json_array_append_new(columns, text_value(stage.columns[j]));
        set_text(object, "name", stage.name);
        json_object_set_new(object, "cells", json_integer(stage.cells));
        json_object_set_new(object, "size", json_integer(stage.rows));
        json_object_set_new(object, "width", json_integer(stage.cols));
        json_object_set_new(object, "columns", columns);
        json_array_append_new(stages, object);
    }
    return ES_OK;
}

static json_t *make_rows(const es_run_table *table)
{
    json_t *rows = json_array();
    for (int64_t i = 0; i < table->rows; i++) {
        json_t *row = json_object();
        for (int64_t j = 0; j < table->cols; j++) {
            const es_run_column *c = &table->columns[j];
            char *key = cli_escape_new(c->name);
            json_object_set_new(
                row, key, c->kind == ES_RUN_REAL ? cli_real(c->reals[i]) : text_value(c->texts[i]));
            free(key);
        }
        json_array_append_new(rows, row);
    }
    return rows;
}

/* An entry of the list of tables. Rows are for JSON only; a list for people needs none. */
static json_t *describe_table(const es_run_table *table, bool rows)
{
    json_t *object = json_object(), *columns = json_array();
    for (int64_t j = 0; j < table->cols; j++)
        json_array_append_new(columns, text_value(table->columns[j].name));
    set_text(object, "name", table->name);
    json_object_set_new(object, "size", json_integer(table->rows));
    json_object_set_new(object, "width", json_integer(table->cols));
    json_object_set_new(object, "columns", columns);
    if (rows)
        json_object_set_new(object, "rows", make_rows(table));
    return object;
}

static es_status list_tables(cli_session *session, es_run *run, es_error *err)
{
    int64_t count;
    es_status status = es_run_tables_count(run, &count, err);
    json_t *tables = json_array();
    json_object_set_new(session->answer, "tables", tables);
    for (int64_t i = 0; status == ES_OK && i < count; i++) {
        char name[256];
        es_run_table table;
        status = es_run_table_name(run, i, name, err);
        if (status == ES_OK)
            status = es_run_get_table(run, name, &session->budget, &table, err);
        if (status == ES_OK) {
            json_array_append_new(tables, describe_table(&table, session->common.json));
            es_run_table_free(&table);
        }
    }
    return status;
}

/* ---- one table ---- */

static es_status fail_table(es_run *run, const export_options *o, es_error *err)
{
    int64_t count = 0;
    char names[32][256], hint[320] = "the run has no tables yet: it is not complete";
    const char *list[32];
    int known = 0;
    es_run_tables_count(run, &count, NULL);
    for (; known < 32 && known < count; known++) {
        list[known] = names[known];
        es_run_table_name(run, known, names[known], NULL);
    }
    const char *nearest = cli_nearest(o->table, list, known);
    if (count)
        snprintf(hint, sizeof hint, nearest ? "did you mean %s?" : "leave --table out for a list",
                 nearest);
    return cli_fail(err, ES_E_ARGUMENT, o->run, "export.table", hint, "there is no table %s",
                    o->table);
}

static void choose_view(const es_run_table *table)
{
    cli_column *columns = cli_alloc_array((size_t)table->cols + 1, sizeof *columns);
    for (int64_t j = 0; j < table->cols; j++) {
        const bool real = table->columns[j].kind == ES_RUN_REAL;
        char *name = cli_escape_new(table->columns[j].name);
        columns[j] = (cli_column){name, name, "", .format = real ? CLI_REAL : CLI_TEXT};
    }
    columns[table->cols] = (cli_column){0};
    chosen.title = cli_escape_new(table->name);
    chosen.columns = columns;
}

static es_status show_table(cli_session *session, es_run *run, const export_options *o,
                            es_error *err)
{
    es_run_table table;
    const es_status status = es_run_get_table(run, o->table, &session->budget, &table, err);
    if (status == ES_E_EMPTY)
        return fail_table(run, o, err);
    if (status != ES_OK)
        return status;
    set_text(session->answer, "table", table.name);
    json_object_set_new(session->answer, "rows", make_rows(&table));
    choose_view(&table);
    session->views = chosen_views;
    es_run_table_free(&table);
    return ES_OK;
}

static es_status run(cli_session *session, void *opts, es_error *err)
{
    const export_options *o = opts;
    es_run *run;
    if (!o->run)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "export.options", "esscher export RUN",
                        "no run file is named");
    es_status status = es_run_open(o->run, &run, err);
    if (status != ES_OK)
        return status;
    json_object_set_new(session->answer, "run", describe_run(run));
    if (o->table) {
        status = show_table(session, run, o, err);
    } else {
        status = describe_stages(run, session->answer, err);
        if (status == ES_OK)
            status = list_tables(session, run, err);
    }
    es_run_close(run, NULL);
    return status;
}

static const char *const examples[] = {"esscher export converge.run",
                                       "esscher export converge.run --table rows --csv",
                                       "esscher export converge.run --json", NULL};

const cli_command cli_export = {
    .name = "export",
    .summary = "tables, parameters and provenance of a run file, as CSV or JSON",
    .usage = "RUN [--table NAME] [options]",
    .about =
        "Reads a run file and prints one of its tables, or says which it has and how far the run "
        "has come. The JSON holds the run's parameters and, for each start of it, its provenance. "
        "Numbers are printed with all their digits; NaN and infinities are empty in CSV and null "
        "in JSON. A run may be looked at while it is going on.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT,
    .size = sizeof(export_options),
    .views = views,
    .run = run,
};
