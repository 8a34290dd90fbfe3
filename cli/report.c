/* esscher report : run files as one page to look at. */
#include <esscher/report.h>

#include <stdio.h>
#include <string.h>

#include "command.h"
#include "talk.h"

typedef struct report_options {
    cli_strings runs;
    const char *out, *title;
    bool force, no_figures;
} report_options;

static const cli_option operand = {
    "run",
    0,
    CLI_STRINGS,
    "RUN",
    "run files. Those of real models come first on the page, then experiments on "
    "synthetic tokens, claims, selfcheck; else in this order",
    .field = offsetof(report_options, runs)};

static const cli_option options[] = {
    {"out", 'o', CLI_STRING, "PAGE", "the page", .field = offsetof(report_options, out),
     .standard = "report.html"},
    {"title", 0, CLI_STRING, "TEXT", "its title", .field = offsetof(report_options, title),
     .otherwise = "model and text, or the commands"},
    {"no-figures", 0, CLI_FLAG, NULL, "tables only: no figures, no JavaScript",
     .field = offsetof(report_options, no_figures)},
    {"force", 0, CLI_FLAG, NULL, "overwrite the page", .field = offsetof(report_options, force)},
    {0}};

static const es_column columns[] = {
    {"path", "page", "", ES_FORMAT_TEXT},        {"bytes", "size", "", ES_FORMAT_BYTES},
    {"runs", "runs", "", ES_FORMAT_COUNT},       {"tables", "tables", "", ES_FORMAT_COUNT},
    {"rows", "table rows", "", ES_FORMAT_COUNT}, {0}};
static const es_table_view views[] = {
    {"Report", NULL, "open it in a browser; it is one file and needs no network"}, {0}};
static const es_table_spec table = {"report", columns, views, .record = true};

static es_status run(cli_session *session, void *given, es_error *err)
{
    const report_options *o = given;
    es_report_size size;
    if (o->runs.count == 0)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "report.options",
                        "esscher report RUN... -o report.html", "no run file is named");
    session->budget.limit = (size_t)session->common.max_memory;
    const es_report_opts opts = {.title = o->title,
                                 .overwrite = o->force,
                                 .tables_only = o->no_figures,
                                 .budget = &session->budget};
    const es_status status = es_report_write(o->runs.at, o->runs.count, o->out, &opts, &size, err);
    if (status == ES_E_EXISTS)
        return cli_fail(err, status, o->out, "file.exists",
                        "choose another name, or overwrite it with --force",
                        "the file exists already");
    if (status == ES_E_UNSUPPORTED && strcmp(err->rule, "report.figures") == 0)
        return cli_fail(err, status, NULL, "report.figures",
                        "install nodejs and npm and build again, or take --no-figures",
                        "this build draws no figures: %s", es_report_missing());
    if (status != ES_OK)
        return status;
    es_table *t = es_answer_table(cli_result(session), &table);
    es_table_row(t);
    es_table_text(t, 0, "path", o->out);
    es_table_count(t, 0, "bytes", size.bytes);
    es_table_count(t, 0, "runs", size.runs);
    es_table_count(t, 0, "tables", size.tables);
    es_table_count(t, 0, "rows", size.rows);
    return es_answer_status(session->result, err);
}

static const char *const examples[] = {
    "esscher report converge.run",
    "esscher report claims.run converge.run hardmax.run -o all.html --title 'All of it'",
    "esscher report converge.run --no-figures --force", NULL};

const cli_command cli_report = {
    .name = "report",
    .summary = "run files as one page with figures, tables and provenance",
    .usage = "RUN... [-o PAGE] [options]",
    .about =
        "Writes one HTML file that needs nothing else: it works from a disk, without a network, "
        "on paper and on a phone. Every figure says its numbers under the pointer and saves itself "
        "as SVG, PNG or CSV; tables can be read without JavaScript; parameters, provenance and the "
        "command to repeat each run are at the bottom. Long tables are summed up, and the page "
        "says so. A run may be looked at while it is going on.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_MEMORY,
    .size = sizeof(report_options),
    .run = run,
};
