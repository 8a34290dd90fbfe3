/* SPDX-License-Identifier: Apache-2.0 */
/* esscher report : run files as one page to look at, or their figures as files. */
#include <esscher/report.h>

#include <stdio.h>
#include <string.h>

#include "command.h"
#include "talk.h"

enum { MOST_PATH = 4096 };

typedef struct report_options {
    cli_strings runs;
    const char *out, *title, *figures;
    bool force, no_figures, compare;
} report_options;

static const cli_option operand = {
    "run",
    0,
    ES_PARAM_FILES,
    "RUN",
    "run files. A comparison comes first, those of real models next, then experiments on "
    "synthetic tokens, claims, selfcheck; else in this order",
    .field = offsetof(report_options, runs)};

static const cli_option options[] = {
    {"out", 'o', ES_PARAM_OUTPUT, "PAGE", "HTML file to write",
     .field = offsetof(report_options, out), .default_note = "report.html, or none with --figures"},
    {"title", 0, CLI_STRING, "TEXT", "title of the page", .field = offsetof(report_options, title),
     .default_note = "model and text, or what it is about"},
    {"no-figures", 0, CLI_FLAG, NULL, "tables only: no figures, no JavaScript",
     .field = offsetof(report_options, no_figures)},
    {"compare", 0, CLI_FLAG, NULL,
     "compare two runs: the page begins with the numbers that differ by more than their errors; "
     "the comparison is also stored as a run file beside the page",
     .field = offsetof(report_options, compare)},
    {"figures", 0, ES_PARAM_OUTPUT, "DIR",
     "write every figure as SVG, PDF, Vega-Lite and CSV into this directory; needs Node.js",
     .field = offsetof(report_options, figures)},
    {"force", 0, CLI_FLAG, NULL, "overwrite the page, the figures, the comparison",
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
    {"unknown", "unknown characters", "", ES_FORMAT_COUNT,
     .definition =
         "of its PDF: question marks there, because no font of every PDF reader has them"},
    {0}};
static const es_table_view figure_views[] = {
    {"Figures", "figure rows bytes title",
     "each is four files: .svg, .pdf, .vl.json and .csv; the CSV has 7 digits, esscher export all"},
    {0}};
static const es_table_spec figure_table = {"figures", figure_columns, figure_views};

/* JSON and CSV have this table even if it is empty; text output has a sentence instead. */
static const es_table_view no_figure_views[] = {{"Figures", .only_with_full = true}, {0}};
static const es_table_spec no_figure_table = {"figures", figure_columns, no_figure_views};

static const char standard_page[] = "report.html";

/* ---- the page ---- */

static es_status report_page(cli_session *session, const char *path, const es_report_size *size,
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
    const char *path = o->out ? o->out : standard_page;
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
    return status == ES_OK ? report_page(session, path, &size, err) : status;
}

/* ---- figures ---- */

/* A row for each figure, whose files come one after the other. */
typedef struct figure_list {
    es_answer *answer;
    es_table *table; /* of the answer, from the first figure on */
    int64_t count;
    double bytes;    /* of the last one */
    int64_t unknown; /* of the last one */
    int64_t unsure;  /* how many have unknown characters */
    char last[256];
} figure_list;

static void add_file(void *user, const es_report_file *file)
{
    figure_list *list = user;
    if (!list->table)
        list->table = es_answer_table(list->answer, &figure_table);
    if (list->count == 0 || strcmp(list->last, file->figure) != 0) {
        es_table_row(list->table);
        es_table_text(list->table, list->count, "figure", file->figure);
        es_table_text(list->table, list->count, "title", file->title);
        es_table_count(list->table, list->count++, "rows", file->rows);
        snprintf(list->last, sizeof list->last, "%s", file->figure);
        list->bytes = 0.0;
        list->unknown = 0;
    }
    list->bytes += (double)file->bytes;
    list->unknown += file->unknown;
    list->unsure += file->unknown > 0; /* of its files the PDF alone has any */
    es_table_count(list->table, list->count - 1, "unknown", list->unknown);
    es_table_count(list->table, list->count - 1, "bytes", (int64_t)list->bytes);
}

static void report_unknown(cli_session *session, const figure_list *list)
{
    if (list->unsure > 0)
        es_answer_add_finding(
            cli_result(session),
            "%lld of %lld figures have characters that no font of the PDF has: they are "
            "question marks there; the SVG files have them.",
            (long long)list->unsure, (long long)list->count);
}

static void report_none(cli_session *session, int64_t runs)
{
    es_answer_table(cli_result(session), &no_figure_table);
    es_answer_add_finding(cli_result(session),
                          runs == 1
                              ? "This run has no figure: `esscher export` gives its tables."
                              : "These runs have no figures: `esscher export` gives their tables.");
}

static bool wants_to_stop(void *user, double done, double total)
{
    (void)user, (void)done, (void)total;
    return cli_interrupted();
}

static es_status write_figures(cli_session *session, const report_options *o, es_error *err)
{
    figure_list list = {.answer = cli_result(session)};
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
    if (status != ES_OK)
        return status;
    report_unknown(session, &list);
    if (list.count == 0)
        report_none(session, o->runs.count);
    return es_answer_status(session->result, err);
}

/* ---- two runs side by side ---- */

/* "both.html" has "both.compare.run" beside it. */
static es_status name_comparison(const char *page, char *out, size_t size, es_error *err)
{
    const char *end = strrchr(page, '.'), *slash = strrchr(page, '/');
    const size_t length = end && (!slash || end > slash) ? (size_t)(end - page) : strlen(page);
    const int used = snprintf(out, size, "%.*s.compare.run", (int)length, page);
    return used >= 0 && (size_t)used < size
               ? ES_OK
               : cli_fail(err, ES_E_ARGUMENT, NULL, "report.options", "choose a shorter name",
                          "the name of the page is too long");
}

static bool stop_is_asked(void *user, const es_progress *now)
{
    (void)user, (void)now;
    return cli_interrupted();
}

/* What `esscher compare` would do; what it found is found here, too. */
static es_status compare_runs(cli_session *session, const report_options *o, const char *path,
                              es_error *err)
{
    const es_study *study = es_study_find("compare");
    char line[MOST_PATH];
    const char *finding;
    es_params *params;
    es_answer *answer;
    es_status status = es_params_new(study->params, study->size, &params, err);
    for (int64_t i = 0; status == ES_OK && i < o->runs.count; i++)
        status = es_params_set(params, study->operand, o->runs.at[i], err);
    snprintf(line, sizeof line, "esscher compare %s %s", o->runs.at[0],
             o->runs.count > 1 ? o->runs.at[1] : "");
    if (status == ES_OK)
        status = es_study_run(study, params,
                              &(es_study_opts){.exec = session->exec,
                                               .max_memory = (size_t)session->common.max_memory,
                                               .out = path,
                                               .force = o->force,
                                               .line = line,
                                               .progress = stop_is_asked},
                              &answer, err);
    es_params_free(params);
    for (int64_t i = 0; status == ES_OK && (finding = es_answer_finding(answer, i)); i++)
        es_answer_add_finding(cli_result(session), "%s", finding);
    if (status == ES_OK)
        es_answer_free(answer);
    return status;
}

/* The comparison becomes the first of three runs. `buffer` (MOST_PATH) holds its name. */
static es_status take_comparison(cli_session *session, report_options *o, char *buffer,
                                 es_error *err)
{
    es_status status = name_comparison(o->out ? o->out : standard_page, buffer, MOST_PATH, err);
    if (status == ES_OK)
        status = compare_runs(session, o, buffer, err);
    if (status != ES_OK)
        return status;
    o->runs.at[2] = o->runs.at[1]; /* there are two: others were refused */
    o->runs.at[1] = o->runs.at[0];
    o->runs.at[0] = buffer;
    o->runs.count = 3;
    return ES_OK;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    report_options *o = given;
    char comparison[MOST_PATH];
    es_status status = ES_OK;
    if (o->runs.count == 0)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "report.options",
                        "esscher report RUN... -o report.html", "missing run file");
    if (o->figures && o->no_figures)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "report.options", "leave one of them out",
                        "--figures and --no-figures exclude each other");
    session->budget.limit = (size_t)session->common.max_memory;
    if (o->compare)
        status = take_comparison(session, o, comparison, err);
    if (status == ES_OK && o->figures)
        status = write_figures(session, o, err);
    if (status == ES_OK && (o->out || !o->figures))
        status = write_page(session, o, err);
    return status;
}

static const char *const examples[] = {
    "esscher report converge.run",
    "esscher report claims.run converge.run hardmax.run -o all.html --title 'All of it'",
    "esscher report alice.run moby-dick.run --compare -o both.html",
    "esscher report converge.run --no-figures --force",
    "esscher report probe.run --figures figures",
    NULL};

const cli_command cli_report = {
    .name = "report",
    .summary = "one HTML page with figures, tables and provenance from run files",
    .group = ES_GROUP_RESULTS,
    .usage = "RUN... [-o PAGE] [--figures DIR] [options]",
    .about =
        "Writes one HTML file that works without a network, on paper and on a phone. Every figure "
        "shows its numbers under the pointer and can be saved as SVG, PNG or CSV. Tables can be "
        "read without JavaScript. Parameters, provenance and the command to repeat each run are at "
        "the bottom. Long tables are shortened, and the page says so. The run may still be in "
        "progress.\n\n"
        "--figures instead writes every figure as files for papers and notebooks, without a "
        "browser: SVG, PDF, Vega-Lite with its data, and CSV. It needs Node.js, 18 or later, as "
        "node on PATH.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_MEMORY,
    .size = sizeof(report_options),
    .run = run,
};
