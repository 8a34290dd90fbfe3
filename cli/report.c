/* esscher report : run files as one page to look at, or their figures as files. */
#include <esscher/report.h>

#include <stdio.h>
#include <string.h>

#include "command.h"
#include "talk.h"

typedef struct report_options {
    cli_strings runs;
    const char *out, *title, *figures;
    bool force, no_figures;
} report_options;

static const cli_option operand = {"run",
                                   0,
                                   CLI_STRINGS,
                                   "RUN",
                                   "run files, in the order of the page",
                                   .field = offsetof(report_options, runs)};

static const cli_option options[] = {
    {"out", 'o', CLI_STRING, "PAGE", "the page", .field = offsetof(report_options, out),
     .otherwise = "report.html, or none with --figures"},
    {"title", 0, CLI_STRING, "TEXT", "its title", .field = offsetof(report_options, title),
     .otherwise = "Esscher report"},
    {"no-figures", 0, CLI_FLAG, NULL, "tables only: no figures, no JavaScript",
     .field = offsetof(report_options, no_figures)},
    {"figures", 0, CLI_STRING, "DIR",
     "every figure as SVG, PDF, Vega-Lite and CSV in this folder, drawn by Node.js",
     .field = offsetof(report_options, figures)},
    {"force", 0, CLI_FLAG, NULL, "overwrite the page or the figures",
     .field = offsetof(report_options, force)},
    {0}};

static const es_column columns[] = {
    {"path", "page", "", ES_FORMAT_TEXT},        {"bytes", "size", "", ES_FORMAT_BYTES},
    {"runs", "runs", "", ES_FORMAT_COUNT},       {"tables", "tables", "", ES_FORMAT_COUNT},
    {"rows", "table rows", "", ES_FORMAT_COUNT}, {0}};
static const es_table_view views[] = {
    {"Report", NULL, "open it in a browser; it is one file and needs no network"}, {0}};
static const es_table_spec table = {"report", columns, views, .record = true};

static const es_column figure_columns[] = {
    {"figure", "figure", "", ES_FORMAT_TEXT},
    {"rows", "rows", "", ES_FORMAT_COUNT, .definition = "of its CSV: what is drawn"},
    {"bytes", "size", "", ES_FORMAT_BYTES, .definition = "of its four files"},
    {"title", "title", "", ES_FORMAT_TEXT},
    {0}};
static const es_table_view figure_views[] = {
    {"Figures", NULL, "each is four files: .svg, .pdf, .vl.json and .csv"}, {0}};
static const es_table_spec figure_table = {"figures", figure_columns, figure_views};

/* ---- the page ---- */

static es_status tell_page(cli_session *session, const char *path, const es_report_size *size,
                           es_error *err)
{
    es_table *t = es_answer_table(cli_result(session), &table);
    es_table_row(t);
    es_table_text(t, 0, "path", path);
    es_table_count(t, 0, "bytes", size->bytes);
    es_table_count(t, 0, "runs", size->runs);
    es_table_count(t, 0, "tables", size->tables);
    es_table_count(t, 0, "rows", size->rows);
    return es_answer_status(session->result, err);
}

static es_status write_page(cli_session *session, const report_options *o, es_error *err)
{
    const char *path = o->out ? o->out : "report.html";
    es_report_size size;
    const es_report_opts opts = {.title = o->title,
                                 .overwrite = o->force,
                                 .tables_only = o->no_figures,
                                 .budget = &session->budget};
    const es_status status = es_report_write(o->runs.at, o->runs.count, path, &opts, &size, err);
    if (status == ES_E_EXISTS)
        return cli_fail(err, status, path, "file.exists",
                        "choose another name, or overwrite it with --force",
                        "the file exists already");
    if (status == ES_E_UNSUPPORTED && strcmp(err->rule, "report.figures") == 0)
        return cli_fail(err, status, NULL, "report.figures",
                        "install nodejs and npm and build again, or take --no-figures",
                        "this build draws no figures: %s", es_report_missing());
    return status == ES_OK ? tell_page(session, path, &size, err) : status;
}

/* ---- figures ---- */

/* A row for each figure, whose files come one after the other. */
typedef struct figure_list {
    es_table *table;
    int64_t count;
    double bytes; /* of the last one */
    char last[256];
} figure_list;

static void add_file(void *user, const es_report_file *file)
{
    figure_list *list = user;
    if (list->count == 0 || strcmp(list->last, file->figure) != 0) {
        es_table_row(list->table);
        es_table_text(list->table, list->count, "figure", file->figure);
        es_table_text(list->table, list->count, "title", file->title);
        es_table_count(list->table, list->count++, "rows", file->rows);
        snprintf(list->last, sizeof list->last, "%s", file->figure);
        list->bytes = 0.0;
    }
    list->bytes += (double)file->bytes;
    es_table_count(list->table, list->count - 1, "bytes", (int64_t)list->bytes);
}

static bool wants_to_stop(void *user, double done, double total)
{
    (void)user, (void)done, (void)total;
    return cli_interrupted();
}

static es_status write_figures(cli_session *session, const report_options *o, es_error *err)
{
    figure_list list = {.table = es_answer_table(cli_result(session), &figure_table)};
    const es_figures_opts opts = {.overwrite = o->force,
                                  .budget = &session->budget,
                                  .progress = wants_to_stop,
                                  .wrote = add_file,
                                  .wrote_user = &list};
    const es_status status = es_report_figures(o->runs.at, o->runs.count, o->figures, &opts, err);
    char file[sizeof err->file];
    snprintf(file, sizeof file, "%s", status == ES_E_EXISTS ? err->file : "");
    if (status == ES_E_EXISTS)
        return cli_fail(err, status, file, "file.exists",
                        "choose another folder, or overwrite it with --force",
                        "the file exists already; no figure was written");
    return status == ES_OK ? es_answer_status(session->result, err) : status;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    const report_options *o = given;
    es_status status = ES_OK;
    if (o->runs.count == 0)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "report.options",
                        "esscher report RUN... -o report.html", "no run file is named");
    if (o->figures && o->no_figures)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "report.options", "leave one of them out",
                        "--figures and --no-figures exclude each other");
    session->budget.limit = (size_t)session->common.max_memory;
    if (o->figures)
        status = write_figures(session, o, err);
    if (status == ES_OK && (o->out || !o->figures))
        status = write_page(session, o, err);
    return status;
}

static const char *const examples[] = {
    "esscher report converge.run",
    "esscher report claims.run converge.run hardmax.run -o all.html --title 'All of it'",
    "esscher report converge.run --no-figures --force",
    "esscher report probe.run --figures figures", NULL};

const cli_command cli_report = {
    .name = "report",
    .summary = "run files as one page with figures, tables and provenance",
    .usage = "RUN... [-o PAGE] [--figures DIR] [options]",
    .about =
        "Writes one HTML file that needs nothing else: it works from a disk, without a network, "
        "on paper and on a phone. Every figure says its numbers under the pointer and saves itself "
        "as SVG, PNG or CSV; tables can be read without JavaScript; parameters, provenance and the "
        "command to repeat each run are at the bottom. Long tables are summed up, and the page "
        "says so. A run may be looked at while it is going on. --figures writes every figure as "
        "files for papers and notebooks instead, without a browser: SVG, PDF, Vega-Lite with its "
        "data, and CSV. It needs Node.js, 18 or later, as node on PATH.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_MEMORY,
    .size = sizeof(report_options),
    .run = run,
};
