/* esscher report : run files as one page to look at. */
#include <esscher/report.h>

#include <stdio.h>
#include <string.h>

#include "command.h"
#include "talk.h"

enum { MOST_PATH = 4096 };

typedef struct report_options {
    cli_strings runs;
    const char *out, *title;
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
    {"out", 'o', ES_PARAM_OUTPUT, "PAGE", "the page", .field = offsetof(report_options, out),
     .standard = "report.html"},
    {"title", 0, CLI_STRING, "TEXT", "its title", .field = offsetof(report_options, title),
     .otherwise = "model and text, or the commands"},
    {"no-figures", 0, CLI_FLAG, NULL, "tables only: no figures, no JavaScript",
     .field = offsetof(report_options, no_figures)},
    {"compare", 0, CLI_FLAG, NULL,
     "two runs side by side: which figures differ by more than their errors comes first, and is "
     "kept as a run file beside the page",
     .field = offsetof(report_options, compare)},
    {"force", 0, CLI_FLAG, NULL, "overwrite the page", .field = offsetof(report_options, force)},
    {0}};

static const es_column columns[] = {
    {"path", "page", "", ES_FORMAT_TEXT},        {"bytes", "size", "", ES_FORMAT_BYTES},
    {"runs", "runs", "", ES_FORMAT_COUNT},       {"tables", "tables", "", ES_FORMAT_COUNT},
    {"rows", "table rows", "", ES_FORMAT_COUNT}, {0}};
static const es_table_view views[] = {
    {"Report", NULL, "open it in a browser; it is one file and needs no network"}, {0}};
static const es_table_spec table = {"report", columns, views, .record = true};

/* ---- two runs side by side ---- */

/* "both.html" has "both.compare.run" beside it. */
static void name_comparison(const char *page, char *out, size_t size)
{
    const char *end = strrchr(page, '.'), *slash = strrchr(page, '/');
    const size_t length = end && (!slash || end > slash) ? (size_t)(end - page) : strlen(page);
    snprintf(out, size, "%.*s.compare.run", (int)length, page);
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
        status = es_study_run(
            study, params,
            &(es_study_opts){.exec = session->exec, .out = path, .force = o->force, .line = line},
            &answer, err);
    es_params_free(params);
    for (int64_t i = 0; status == ES_OK && (finding = es_answer_finding(answer, i)); i++)
        es_answer_tell(cli_result(session), "%s", finding);
    if (status == ES_OK)
        es_answer_free(answer);
    return status;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    report_options *o = given;
    char comparison[MOST_PATH];
    es_report_size size;
    if (o->runs.count == 0)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "report.options",
                        "esscher report RUN... -o report.html", "no run file is named");
    session->budget.limit = (size_t)session->common.max_memory;
    if (o->compare) {
        name_comparison(o->out, comparison, sizeof comparison);
        const es_status compared = compare_runs(session, o, comparison, err);
        if (compared != ES_OK)
            return compared;
        o->runs.at[2] = o->runs.at[1]; /* there are two: others were refused */
        o->runs.at[1] = o->runs.at[0];
        o->runs.at[0] = comparison;
        o->runs.count = 3;
    }
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
    "esscher report alice.run moby-dick.run --compare -o both.html",
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
