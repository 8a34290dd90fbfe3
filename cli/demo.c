/* esscher demo : the tour: claims checked, a few experiments, a report to look at. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <esscher/report.h>

#include "answer.h"
#include "execute.h"
#include "progress.h"
#include "talk.h"

typedef struct demo_options {
    const char *folder, *model, *text;
} demo_options;

static const demo_options defaults = {.folder = "demo"};

static const cli_option options[] = {
    {"folder", 0, CLI_STRING, "DIR", "where run files and report go (default: demo)",
     .field = offsetof(demo_options, folder)},
    {"model", 'm', CLI_STRING, "MODEL", "also probe a real model: a BERT checkpoint's folder",
     .field = offsetof(demo_options, model)},
    {"text", 0, CLI_STRING, "FILE", "on this text", .field = offsetof(demo_options, text)},
    {0}};

/* ---- the stops of the tour ---- */

enum { MOST_WORDS = 24 };

typedef struct stop {
    const char *title;
    const char *words[MOST_WORDS]; /* of the command line, after "esscher" */
} stop;

static const stop stops[] = {
    {"the papers' claims, checked on this machine", {"claims"}},
    {"how fast attention finds its limit, measured and predicted",
     {"converge", "--dim", "10", "--head", "rotation", "--scales", "0.2,0.7,1.5", "--predict"}},
    {"the worst query of a ball", {"ball"}},
    {"infinite score scale", {"hardmax"}},
    {"keys on the sphere: averaging, selecting, freezing", {"regimes"}},
    {"do tokens merge?", {"collapse", "--phase", "--curves"}},
    {"attention as heat running backwards", {"heat"}},
};
enum { STOPS = sizeof stops / sizeof stops[0] };

/* ---- views ---- */

static const cli_column claim_columns[] = {
    {"id", "claim", "", .format = CLI_TEXT},
    {"verdict", "verdict", "", .format = CLI_TEXT},
    {"conclusion", "what to conclude", "", .format = CLI_TEXT},
    {0}};
static const cli_table claims_table = {
    .rows = "claims", .title = "What the papers say, checked here", .columns = claim_columns};

static const cli_column stop_columns[] = {{"title", "seen", "", .format = CLI_TEXT},
                                          {"seconds", "time", "", .format = CLI_DURATION},
                                          {"run", "run file", "", .format = CLI_TEXT},
                                          {0}};
static const cli_table stops_table = {
    .rows = "stops", .title = "The tour", .columns = stop_columns};

static const cli_column report_columns[] = {{"page", "open in a browser", "", .format = CLI_TEXT},
                                            {0}};
static const cli_table report_table = {
    .rows = "report",
    .title = "The report",
    .columns = report_columns,
    .note = "Try next:\n"
            "  esscher converge --law sphere --dim 3 --scales 1,4,16   other tokens\n"
            "  esscher theory --Wq Wq.npy --Wk Wk.npy --cov S.npy      horizons of your own head\n"
            "  esscher measure --q Q.npy --k K.npy --v V.npy           attention on your own data\n"
            "  esscher probe --model MODEL --text FILE                 every head of a real model\n"
            "  esscher help                                            everything else"};

static const cli_table *const views[] = {&stops_table, &claims_table, &report_table, NULL};

/* ---- running them ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static es_status stop_failed(const stop *s, es_error *err)
{
    return cli_fail(err, cli_interrupted() ? ES_E_INTERRUPTED : ES_E_NUMERIC, NULL, "demo.stop",
                    "the complaint above says why", "the tour ends at: %s", s->title);
}

/* One command line, its run file written over; its claims, if it has any, into our answer. */
static es_status visit(cli_session *session, const demo_options *o, const stop *s, int number,
                       int total, char *run, size_t size, es_error *err)
{
    char threads[24];
    const char *argv[MOST_WORDS + 8] = {"esscher"};
    int argc = 1;
    json_t *answer, *entry = json_object();
    for (; s->words[argc - 1]; argc++)
        argv[argc] = s->words[argc - 1];
    snprintf(run, size, "%s/%s.run", o->folder, s->words[0]);
    snprintf(threads, sizeof threads, "%d", session->exec.threads);
    argv[argc++] = "--out";
    argv[argc++] = run;
    argv[argc++] = "--force";
    argv[argc++] = "--threads";
    argv[argc++] = threads;
    if (session->common.quiet)
        argv[argc++] = "--quiet";
    else
        fprintf(stderr, "esscher demo: %d of %d: %s\n", number, total, s->title);
    const double before = seconds();
    const int code =
        cli_execute(cli_command_find(s->words[0]), argc, (char **)(uintptr_t)argv, &answer);
    if (code == CLI_CHECK)
        session->check_failed = true;
    if (!answer) {
        json_decref(entry);
        return stop_failed(s, err);
    }
    json_object_set_new(entry, "title", json_string(s->title));
    json_object_set_new(entry, "seconds", cli_real(seconds() - before));
    json_object_set_new(entry, "run", json_string(run));
    json_array_append_new(json_object_get(session->answer, "stops"), entry);
    if (json_object_get(answer, "claims"))
        json_object_set(session->answer, "claims", json_object_get(answer, "claims"));
    json_decref(answer);
    return ES_OK;
}

static es_status write_report(cli_session *session, const demo_options *o, const char *const *runs,
                              int64_t count, es_error *err)
{
    char page[4200];
    es_report_size size;
    const es_report_opts opts = {.title = "A tour of Esscher",
                                 .overwrite = true,
                                 .tables_only = es_report_missing()[0] != 0};
    snprintf(page, sizeof page, "%s/report.html", o->folder);
    if (opts.tables_only && !session->common.quiet)
        fprintf(stderr, "esscher demo: the report has no figures: %s\n", es_report_missing());
    const es_status status = es_report_write(runs, count, page, &opts, &size, err);
    if (status == ES_OK)
        json_object_set_new(session->answer, "report", json_pack("{s:s}", "page", page));
    return status;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    const demo_options *o = given;
    const stop real = {"a real model, head by head",
                       {"probe", "--model", o->model, "--text", o->text, "--pool", "8192", "--n",
                        "100..2000*4", "--replicates", "4"}};
    const bool model = o->model && o->text;
    char runs[STOPS + 1][4200];
    const char *paths[STOPS + 1];
    if (!o->model != !o->text)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "demo.options", "give both, or neither",
                        "--model and --text belong together");
    if (strlen(o->folder) > 4000)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "demo.folder", "a shorter one",
                        "the name of the folder is too long");
    mkdir(o->folder, 0777); /* the first run file tells if that failed */
    json_object_set_new(session->answer, "stops", json_array());
    const int total = STOPS + (model ? 1 : 0);
    es_status status = ES_OK;
    for (int i = 0; i < total && status == ES_OK; i++) {
        paths[i] = runs[i];
        status = visit(session, o, i < STOPS ? &stops[i] : &real, i + 1, total, runs[i],
                       sizeof runs[i], err);
    }
    return status == ES_OK ? write_report(session, o, paths, total, err) : status;
}

static const char *const examples[] = {
    "esscher demo", "esscher demo --folder tour --model models/minilm --text alice.txt", NULL};

const cli_command cli_demo = {
    .name = "demo",
    .summary = "the tour: the papers' claims and a few experiments, with a report to look at",
    .usage = "[options]",
    .about = "Checks the papers' claims at quick effort, runs a few experiments, and writes a page "
             "with figures: DIR/report.html, beside the run files it is made from. Two minutes on "
             "two cores. What was there of an earlier tour is written over. Exit code 1 if a claim "
             "that should hold does not.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS,
    .defaults = &defaults,
    .size = sizeof(demo_options),
    .views = views,
    .run = run,
};
