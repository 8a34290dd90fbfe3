/* SPDX-License-Identifier: Apache-2.0 */
/* esscher export : what a run file holds, as tables, CSV or JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/run.h>

#include "export_files.h"
#include "json_text.h"
#include "options.h"
#include "talk.h"

typedef struct export_options {
    const char *run, *table;
    bool sql, tidy;
} export_options;

static const cli_option operand = {
    "run", 0, ES_PARAM_FILE, "RUN", "a run file", .field = offsetof(export_options, run)};

static const cli_option options[] = {
    {"table", 0, CLI_STRING, "TABLE",
     "the table to print (default: list the tables; with --json print all)",
     .field = offsetof(export_options, table)},
    {"sql", 0, CLI_FLAG, NULL, "print SQL that creates and fills all tables, or the one of --table",
     .field = offsetof(export_options, sql)},
    {"tidy", 0, CLI_FLAG, NULL,
     "print CSV with one number per row: its place (layer, head, n ...), quantity, unit, value and "
     "standard error",
     .field = offsetof(export_options, tidy)},
    {0}};

/* ---- what there is, for people ---- */

static const es_column run_columns[] = {{"command", "command", "", ES_FORMAT_TEXT},
                                        {"created", "created", "", ES_FORMAT_TEXT},
                                        {"updated", "updated", "", ES_FORMAT_TEXT},
                                        {"starts", "starts", "", ES_FORMAT_COUNT},
                                        {0}};
static const es_table_view run_views[] = {{"Run"}, {0}};
static const es_table_spec run_table = {"run", run_columns, run_views, .record = true};

static const es_column list_columns[] = {{"name", "table", "", ES_FORMAT_TEXT},
                                         {"size", "rows", "", ES_FORMAT_COUNT},
                                         {"width", "columns", "", ES_FORMAT_COUNT},
                                         {0}};
static const es_table_view list_views[] = {
    {"Tables", NULL, "print one with --table TABLE, or as CSV with --csv"}, {0}};
static const es_table_spec list_table = {"tables", list_columns, list_views};

static const es_column stage_columns[] = {{"name", "stage", "", ES_FORMAT_TEXT},
                                          {"cells", "cells done", "", ES_FORMAT_COUNT},
                                          {"size", "rows", "", ES_FORMAT_COUNT},
                                          {"width", "columns", "", ES_FORMAT_COUNT},
                                          {0}};
static const es_table_view stage_views[] = {{"Cells"}, {0}};
static const es_table_spec stage_table = {"stages", stage_columns, stage_views};

static int64_t starts_of(const es_run_about *about)
{
    return about->facts_count ? about->facts[about->facts_count - 1].session + 1 : 0;
}

static void put_run(const es_run *run, es_answer *a)
{
    const es_run_about about = es_run_info(run);
    es_table *t = es_answer_table(a, &run_table);
    es_table_row(t);
    es_table_text(t, 0, "command", about.command);
    es_table_text(t, 0, "created", about.created);
    es_table_text(t, 0, "updated", about.updated);
    es_table_count(t, 0, "starts", starts_of(&about));
}

static es_status put_stages(es_run *run, es_answer *a, es_error *err)
{
    es_table *t = es_answer_table(a, &stage_table);
    es_status status = ES_OK;
    for (int64_t i = 0; i < es_run_info(run).stages_count && status == ES_OK; i++) {
        es_run_stage stage;
        status = es_run_get_stage(run, i, &stage, err);
        if (status != ES_OK)
            break;
        if (stage.scratch)
            continue;
        const int64_t row = es_table_row(t);
        es_table_text(t, row, "name", stage.name);
        es_table_count(t, row, "cells", stage.cells);
        es_table_count(t, row, "size", stage.rows);
        es_table_count(t, row, "width", stage.cols);
    }
    return status;
}

static void list_one(void *user, const es_table *table)
{
    es_table *t = user;
    const int64_t row = es_table_row(t);
    es_table_text(t, row, "name", es_table_about(table)->key);
    es_table_count(t, row, "size", es_table_rows(table));
    es_table_count(t, row, "width", es_table_columns(table));
}

/* ---- the same as JSON ---- */

static void json_names(FILE *out, const char *const *names, int64_t count)
{
    putc('[', out);
    for (int64_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", out);
        cli_json_text(out, names[i]);
    }
    putc(']', out);
}

static void json_pair(FILE *out, const char *key, const char *text, bool *first, int depth)
{
    cli_json_key(out, key, first, depth);
    cli_json_text(out, text);
}

static void json_sessions(FILE *out, const es_run_about *about)
{
    putc('[', out);
    bool inside = true;
    for (int64_t i = 0; i < about->facts_count; i++) {
        const es_run_fact *fact = &about->facts[i];
        const bool fresh = i == 0 || fact->session != fact[-1].session;
        if (fresh) {
            fputs(i ? "\n      }, {" : "{", out);
            inside = true;
        }
        json_pair(out, fact->key, fact->text, &inside, 4);
    }
    fputs(about->facts_count ? "\n      }]" : "]", out);
}

static void json_run(FILE *out, const es_run *run, bool *first)
{
    const es_run_about about = es_run_info(run);
    bool members = true, params = true;
    cli_json_key(out, "run", first, 1);
    putc('{', out);
    json_pair(out, "command", about.command, &members, 2);
    cli_json_key(out, "schema", &members, 2);
    fprintf(out, "%d", about.schema);
    json_pair(out, "created", about.created, &members, 2);
    json_pair(out, "updated", about.updated, &members, 2);
    cli_json_key(out, "starts", &members, 2);
    fprintf(out, "%lld", (long long)starts_of(&about));
    cli_json_key(out, "parameters", &members, 2);
    putc('{', out);
    for (int64_t i = 0; i < about.params_count; i++)
        json_pair(out, about.params[i].key, about.params[i].text, &params, 3);
    fputs("\n    }", out);
    cli_json_key(out, "sessions", &members, 2);
    json_sessions(out, &about);
    fputs("\n  }", out);
}

static void json_rows(FILE *out, const es_table *table)
{
    es_table_column c;
    putc('[', out);
    for (int64_t i = 0; i < es_table_rows(table); i++) {
        bool first = true;
        fputs(i ? ", {" : "{", out);
        for (int64_t j = 0; es_table_column_at(table, j, &c); j++) {
            const char *text = es_column_text(&c, i);
            cli_json_key(out, c.key, &first, 3);
            if (c.format == ES_FORMAT_TEXT)
                cli_json_text(out, text ? text : "");
            else
                cli_json_real(out, es_column_real(&c, i));
        }
        fputs("\n    }", out);
    }
    putc(']', out);
}

static void json_shape(FILE *out, const char *name, int64_t rows, int64_t cols, bool *first)
{
    json_pair(out, "name", name, first, 3);
    cli_json_key(out, "size", first, 3);
    fprintf(out, "%lld", (long long)rows);
    cli_json_key(out, "width", first, 3);
    fprintf(out, "%lld", (long long)cols);
    cli_json_key(out, "columns", first, 3);
}

static void json_table(void *user, const es_table *table)
{
    cli_json *json = user;
    es_table_column c;
    FILE *out = json->out;
    bool first = true;
    fputs(json->first ? "{" : ", {", out);
    json->first = false;
    json_shape(out, es_table_about(table)->key, es_table_rows(table), es_table_columns(table),
               &first);
    putc('[', out);
    for (int64_t j = 0; es_table_column_at(table, j, &c); j++) {
        fputs(j ? ", " : "", out);
        cli_json_text(out, c.key);
    }
    putc(']', out);
    cli_json_key(out, "rows", &first, 3);
    json_rows(out, table);
    fputs("\n    }", out);
}

static es_status json_stages(FILE *out, es_run *run, es_error *err)
{
    es_status status = ES_OK;
    int64_t put = 0;
    putc('[', out);
    for (int64_t i = 0; i < es_run_info(run).stages_count && status == ES_OK; i++) {
        es_run_stage stage;
        bool first = true;
        status = es_run_get_stage(run, i, &stage, err);
        if (status != ES_OK)
            break;
        if (stage.scratch)
            continue;
        fputs(put++ ? ", {" : "{", out);
        json_shape(out, stage.name, stage.rows, stage.cols, &first);
        json_names(out, stage.columns, stage.cols);
        cli_json_key(out, "cells", &first, 3);
        fprintf(out, "%lld", (long long)stage.cells);
        fputs("\n    }", out);
    }
    putc(']', out);
    return status;
}

static es_status print_json(cli_session *session, es_run *run, const es_table *one, es_error *err)
{
    cli_json json;
    bool first = false;
    es_status status = cli_json_begin(session, &json, err);
    if (status != ES_OK)
        return cli_json_end(&json, status);
    json_run(json.out, run, &first);
    if (one) {
        json_pair(json.out, "table", es_table_about(one)->key, &first, 1);
        cli_json_key(json.out, "rows", &first, 1);
        json_rows(json.out, one);
        return cli_json_end(&json, ES_OK);
    }
    cli_json_key(json.out, "stages", &first, 1);
    status = json_stages(json.out, run, err);
    cli_json_key(json.out, "tables", &first, 1);
    putc('[', json.out);
    json.first = true;
    if (status == ES_OK)
        status = cli_each_table(run, NULL, &session->budget, json_table, &json, err);
    putc(']', json.out);
    return cli_json_end(&json, status);
}

/* ---- one table ---- */

static es_status fail_table(es_run *run, const export_options *o, es_error *err)
{
    int64_t count = 0;
    int64_t shard, shards;
    char names[32][256], hint[320] = "the run has no tables yet: it is not complete";
    if (es_run_shard(run, &shard, &shards))
        snprintf(hint, sizeof hint,
                 "it is shard %lld of %lld, which has no tables: esscher merge joins them all",
                 (long long)shard, (long long)shards);
    const char *list[32];
    int known = 0;
    es_run_tables_count(run, &count, NULL);
    for (; known < 32 && known < count; known++) {
        list[known] = names[known];
        es_run_table_name(run, known, names[known], NULL);
    }
    const char *nearest = es_nearest(o->table, list, known);
    if (count)
        snprintf(hint, sizeof hint, nearest ? "did you mean %s?" : "leave --table out for a list",
                 nearest);
    return cli_fail(err, ES_E_ARGUMENT, o->run, "export.table", hint, "there is no table %s",
                    o->table);
}

static es_status show_table(cli_session *session, es_run *run, const export_options *o,
                            es_error *err)
{
    es_answer *answer;
    es_status status = es_run_answer(run, o->table, &session->budget, &answer, err);
    if (status == ES_E_EMPTY)
        return fail_table(run, o, err);
    if (status != ES_OK)
        return status;
    if (!session->common.json) { /* printed like the answer of any command */
        session->result = answer;
        return ES_OK;
    }
    status = print_json(session, run, es_answer_at(answer, 0), err);
    es_answer_free(answer);
    return status;
}

/* Why there are no tables. */
static void report_shard(es_run *run, es_answer *a)
{
    int64_t shard, shards, tables = 0;
    es_run_tables_count(run, &tables, NULL);
    if (tables == 0 && es_run_shard(run, &shard, &shards))
        es_answer_add_finding(
            a,
            "This is a part of a run, shard %lld of %lld: it has cells, and no tables; "
            "esscher merge joins all parts and makes them.",
            (long long)shard, (long long)shards);
}

static es_status show_list(cli_session *session, es_run *run, es_error *err)
{
    if (session->common.json)
        return print_json(session, run, NULL, err);
    es_answer *a = cli_result(session);
    report_shard(run, a);
    es_status status =
        cli_each_table(run, NULL, &session->budget, list_one, es_answer_table(a, &list_table), err);
    if (status == ES_OK)
        status = put_stages(run, a, err);
    put_run(run, a);
    return status;
}

/* Forms that other tools load, printed as they are made. */
static es_status show_files(cli_session *session, es_run *run, const export_options *o,
                            es_error *err)
{
    const cli_common *c = &session->common;
    if (c->sort || c->top || c->layers.count || c->heads.count)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.conflict",
                        "choose rows of --csv, or in what reads the file",
                        "--sql and --tidy hold every row: --layer, --head, --sort and --top do not "
                        "apply");
    if (o->sql + o->tidy + c->json + c->csv + c->markdown + c->latex > 1)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.conflict", "choose one",
                        "two of --sql, --tidy and --format at once");
    session->printed = true;
    const es_status status = o->sql ? cli_export_sql(run, o->table, &session->budget, err)
                                    : cli_export_tidy(run, o->table, &session->budget, err);
    return status == ES_E_EMPTY && o->table ? fail_table(run, o, err) : status;
}

static es_status run(cli_session *session, void *opts, es_error *err)
{
    const export_options *o = opts;
    es_run *run;
    if (!o->run)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "export.options", "esscher export RUN",
                        "missing run file");
    es_status status = es_run_open(o->run, &run, err);
    if (status != ES_OK)
        return status;
    status = o->sql || o->tidy ? show_files(session, run, o, err)
             : o->table        ? show_table(session, run, o, err)
                               : show_list(session, run, err);
    es_run_close(run, NULL);
    return status;
}

static const char *const examples[] = {"esscher export converge.run",
                                       "esscher export converge.run --table rows --csv",
                                       "esscher export converge.run --table rows --tidy",
                                       "esscher export converge.run --sql | sqlite3 results.db",
                                       "esscher export converge.run --json",
                                       NULL};

const cli_command cli_export = {
    .name = "export",
    .summary = "tables, parameters and provenance of a run file as CSV, SQL or JSON",
    .group = ES_GROUP_RESULTS,
    .usage = "RUN [--table TABLE] [options]",
    .about =
        "Reads a run file and prints one of its tables, or without --table a list of its tables "
        "and the progress of the run. The JSON holds the run's parameters and the provenance of "
        "each start. Numbers are printed with all their digits; NaN and infinities are empty in "
        "CSV and null in JSON. The run may still be in progress.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_ROWS | CLI_TAKES_HEADS,
    .size = sizeof(export_options),
    .run = run,
};
