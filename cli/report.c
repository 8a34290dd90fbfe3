/* esscher report : run files as one page to look at. */
#include <esscher/report.h>

#include <string.h>

#include "answer.h"
#include "command.h"
#include "talk.h"

typedef struct report_options {
    cli_strings runs;
    const char *out, *title;
    bool force, no_figures;
} report_options;

static const report_options defaults = {.out = "report.html"};

static const cli_option operand = {"run",
                                   0,
                                   CLI_STRINGS,
                                   "RUN",
                                   "run files, in the order of the page",
                                   .field = offsetof(report_options, runs)};

static const cli_option options[] = {
    {"out", 'o', CLI_STRING, "PAGE", "the page (default: report.html)",
     .field = offsetof(report_options, out)},
    {"title", 0, CLI_STRING, "TEXT", "its title (default: Esscher report)",
     .field = offsetof(report_options, title)},
    {"no-figures", 0, CLI_FLAG, NULL, "tables only: no figures, no JavaScript",
     .field = offsetof(report_options, no_figures)},
    {"force", 0, CLI_FLAG, NULL, "overwrite the page", .field = offsetof(report_options, force)},
    {0}};

static const cli_column columns[] = {
    {"path", "page", "", .format = CLI_TEXT},        {"bytes", "size", "", .format = CLI_BINARY},
    {"runs", "runs", "", .format = CLI_COUNT},       {"tables", "tables", "", .format = CLI_COUNT},
    {"rows", "table rows", "", .format = CLI_COUNT}, {0}};
static const cli_table table = {.rows = "report",
                                .title = "Report",
                                .columns = columns,
                                .note =
                                    "open it in a browser; it is one file and needs no network"};
static const cli_table *const views[] = {&table, NULL};

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
    json_t *report = json_object();
    json_object_set_new(report, "path", json_string(o->out));
    json_object_set_new(report, "bytes", json_integer(size.bytes));
    json_object_set_new(report, "runs", json_integer(size.runs));
    json_object_set_new(report, "tables", json_integer(size.tables));
    json_object_set_new(report, "rows", json_integer(size.rows));
    json_object_set_new(session->answer, "report", report);
    return ES_OK;
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
    .defaults = &defaults,
    .size = sizeof(report_options),
    .views = views,
    .run = run,
};
