/* SPDX-License-Identifier: Apache-2.0 */
/* esscher demo : a tour of the program: a real model, a few experiments, the claims, one report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <esscher/machine.h>
#include <esscher/model.h>
#include <esscher/report.h>

#include "execute.h"
#include "progress.h"
#include "talk.h"

typedef struct demo_options {
    const char *folder, *model, *text, *decoder;
} demo_options;

static const cli_option options[] = {
    {"folder", 0, ES_PARAM_OUTPUT, "DIR", "directory for run files and report",
     .field = offsetof(demo_options, folder), .default_value = "demo"},
    {"model", 'm', ES_PARAM_MODEL, "MODEL", "also probe your model: its directory, with --text",
     .field = offsetof(demo_options, model)},
    {"text", 0, ES_PARAM_FILE, "FILE", "text for --model", .field = offsetof(demo_options, text)},
    {"decoder", 0, ES_PARAM_MODEL, "MODEL",
     "the causal model to measure, a folder with a text alice.txt in it (default: "
     "models/pebble, which comes with the program)",
     .field = offsetof(demo_options, decoder)},
    {0}};

/* ---- the steps of the tour ---- */

enum { MOST_WORDS = 24 };

typedef struct step {
    const char *title;
    double seconds;                /* on two cores, about: for progress */
    const char *words[MOST_WORDS]; /* of the command line, after "esscher" */
    const char *run;               /* name of its run file; NULL: its first word */
} step;

/* After the real models, which come first: from what an engineer asks to what a theorist does, and
 * the papers' claims at the end. */
static const step steps[] = {
    {"how fast attention finds its limit, measured and predicted",
     8.0,
     {"converge", "--dim", "10", "--head", "rotation", "--scales", "0.2,0.7,1.5", "--predict"}},
    {"keys on the sphere: averaging, selective, single-key", 4.0, {"regimes"}},
    {"do tokens merge?", 4.0, {"collapse", "--phase", "--curves"}},
    {"infinite score scale", 0.5, {"hardmax"}},
    {"the worst query of a ball", 5.0, {"ball"}},
    {"attention as heat running backwards", 1.5, {"heat"}},
    {"the papers' claims, checked on this machine", 55.0, {"claims"}},
};
enum { STEPS = sizeof steps / sizeof steps[0], MODEL_STEPS = 3, MOST_STEPS = STEPS + MODEL_STEPS };

/* ---- tables ---- */

static const es_column claim_columns[] = {{"id", "claim", "", ES_FORMAT_TEXT},
                                          {"verdict", "verdict", "", ES_FORMAT_TEXT},
                                          {"conclusion", "what to conclude", "", ES_FORMAT_TEXT},
                                          {0}};
static const es_table_view claim_views[] = {{"Claims and verdicts", .only_with_full = true}, {0}};
static const es_table_spec claims_table = {"claims", claim_columns, claim_views};

static const es_column step_columns[] = {{"title", "seen", "", ES_FORMAT_TEXT},
                                         {"seconds", "time", "", ES_FORMAT_DURATION},
                                         {"run", "run file", "", ES_FORMAT_TEXT},
                                         {0}};
static const es_table_view step_views[] = {{"The tour"}, {0}};
static const es_table_spec steps_table = {"steps", step_columns, step_views};

static const es_column report_columns[] = {{"page", "open in a browser", "", ES_FORMAT_TEXT}, {0}};
static const es_table_view report_views[] = {
    {"The report", NULL,
     "What next?\n"
     "  esscher probe --model MODEL --text FILE --out my.run   every head of a model\n"
     "  esscher loss --model MODEL --text FILE                 what context is worth\n"
     "  esscher measure --q Q.npy --k K.npy --v V.npy          a layer of any model\n"
     "  esscher theory --Wq Wq.npy --Wk Wk.npy --cov S.npy     horizons of weights\n"
     "  esscher converge --law sphere --dim 3 --scales 1,4,16  other tokens\n"
     "  esscher report my.run                                  a page of findings\n"
     "  esscher help                                           everything else"},
    {0}};
static const es_table_spec report_table = {"report", report_columns, report_views, .record = true};

/* ---- running them ---- */

/* Fails because a step of the demo failed; its own error was printed before. */
static es_status step_failed(const step *s, es_error *err)
{
    return cli_fail(err, cli_interrupted() ? ES_E_INTERRUPTED : ES_E_NUMERIC, NULL, "demo.step",
                    "see the error above", "demo stopped at: %s", s->title);
}

/* Verdicts, of the step that has any. */
static void put_claims(cli_session *session, const es_table *found)
{
    if (!found)
        return;
    es_table *t = es_answer_table(cli_result(session), &claims_table);
    for (int64_t i = 0; i < es_table_rows(found); i++) {
        es_table_row(t);
        for (const es_column *c = claim_columns; c->key; c++)
            es_table_text(t, i, c->key, es_table_get_text(found, i, c->key));
    }
}

/* The tour under way. */
typedef struct tour {
    cli_session *session;
    const demo_options *o;
    const step *steps[MOST_STEPS];
    int count;
    double seconds, passed; /* of all steps, and of those that are behind us */
    char runs[MOST_STEPS][4200];
} tour;

/* One command line, its run file written over; its claims, if it has any, into our answer. */
static es_status visit(tour *t, int at, es_error *err)
{
    cli_session *session = t->session;
    const step *s = t->steps[at];
    char threads[24], *run = t->runs[at];
    const char *argv[MOST_WORDS + 8] = {"esscher"};
    int argc = 1;
    cli_tour_step found = {.tour = &session->progress,
                           .from = t->passed / t->seconds,
                           .to = (t->passed + s->seconds) / t->seconds};
    for (; s->words[argc - 1]; argc++)
        argv[argc] = s->words[argc - 1];
    snprintf(run, sizeof t->runs[at], "%s/%s.run", t->o->folder, s->run ? s->run : s->words[0]);
    snprintf(threads, sizeof threads, "%d", session->exec.threads);
    argv[argc++] = "--out";
    argv[argc++] = run;
    argv[argc++] = "--force";
    argv[argc++] = "--threads";
    argv[argc++] = threads;
    if (session->common.quiet)
        argv[argc++] = "--quiet";
    else
        fprintf(stderr, "esscher demo: %d of %d: %s\n", at + 1, t->count, s->title);
    const double before = cli_seconds();
    const int code =
        cli_execute(cli_command_find(s->words[0]), argc, (char **)(uintptr_t)argv, &found);
    if (code == CLI_CHECK)
        session->check_failed = true;
    t->passed += s->seconds;
    if (!found.answer)
        return step_failed(s, err);
    es_table *table = es_answer_table(cli_result(session), &steps_table);
    const int64_t row = es_table_row(table);
    es_table_text(table, row, "title", s->title);
    es_table_real(table, row, "seconds", cli_seconds() - before);
    es_table_text(table, row, "run", run);
    if (es_answer_finding(found.answer, 0))
        es_answer_add_finding(cli_result(session), "%s: %s", s->run ? s->run : s->words[0],
                              es_answer_finding(found.answer, 0));
    put_claims(session, es_answer_find(found.answer, "claims"));
    es_answer_free(found.answer);
    return ES_OK;
}

/* Writes the page from all run files of the demo. */
static es_status write_report(cli_session *session, const demo_options *o, const char *const *runs,
                              int64_t count, es_error *err)
{
    char page[4200];
    es_report_size size;
    const es_report_opts opts = {.title = o->model ? NULL : "A tour of Esscher",
                                 .overwrite = true,
                                 .tables_only = es_report_missing()[0] != 0};
    snprintf(page, sizeof page, "%s/report.html", o->folder);
    if (opts.tables_only && !session->common.quiet)
        fprintf(stderr, "esscher demo: the report has no figures: %s\n", es_report_missing());
    const es_status status = es_report_write(runs, count, page, &opts, &size, err);
    es_table *t = es_answer_table(cli_result(session), &report_table);
    es_table_text(t, es_table_row(t), "page", page);
    return status;
}

/* ---- the decoder in the box ---- */

enum { PATH_SIZE = 4096 };

/* Returns true if a directory holds a file of this name. */
static bool is_file(const char *folder, const char *name)
{
    char path[PATH_SIZE + 32];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Beside the program: in share/ of an installation, wherever that was moved to, or in the tree that
 * the program was built in. False where neither has it, or the system does not say which file the
 * program is. */
static bool find_pebble(char folder[PATH_SIZE])
{
    static const char *const places[] = {"../share/esscher/models/pebble", "../../models/pebble"};
    char program[PATH_SIZE - 64];
    if (!es_program_path(program, sizeof program))
        return false;
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(folder, PATH_SIZE, "%s/%s", program, places[i]);
        if (is_file(folder, "model.safetensors") && is_file(folder, "alice.txt"))
            return true;
    }
    return false;
}

/* The folder of the decoder, and a text for it. */
static bool find_decoder(const cli_session *session, const demo_options *o, char folder[PATH_SIZE],
                         char text[PATH_SIZE + 16])
{
    const bool there = o->decoder ? snprintf(folder, PATH_SIZE, "%s", o->decoder) < PATH_SIZE
                                  : find_pebble(folder);
    snprintf(text, PATH_SIZE + 16, "%s/alice.txt", folder);
    if (!there && !session->common.quiet)
        fprintf(stderr, "esscher demo: going on without a decoder: models/pebble is not beside the "
                        "program; --decoder names it\n");
    return there;
}

/* ---- all of it ---- */

/* Lists the steps: those of the user's model first. */
static void plan(tour *t, const step *real, int count)
{
    for (int i = 0; i < count; i++)
        t->steps[t->count++] = &real[i];
    for (int i = 0; i < STEPS; i++)
        t->steps[t->count++] = &steps[i];
    for (int i = 0; i < t->count; i++)
        t->seconds += t->steps[i]->seconds;
}

/* Checks options that belong together. */
static es_status check_options(const demo_options *o, es_error *err)
{
    if (!o->model != !o->text)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "demo.options", "give both, or neither",
                        "give --model and --text together");
    if (strlen(o->folder) > 4000)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "demo.folder", "a shorter one",
                        "the name of the folder is too long");
    return ES_OK;
}

/* Returns true if the model is a decoder, for which more steps apply. */
static bool is_causal(const char *model)
{
    char folder[PATH_SIZE];
    es_model_config config;
    es_error ignored; /* the first step reports what is wrong with a model */
    return es_model_locate(model, folder, sizeof folder, &ignored) == ES_OK &&
           es_model_config_load(folder, &config, &ignored) == ES_OK && config.causal;
}

/* A model of the user's: of a decoder the heads by position, of others their limits. */
static step step_at(const demo_options *o)
{
    if (is_causal(o->model))
        return (step){"a real model, head by head",
                      32.0,
                      {"probe", "--model", o->model, "--text", o->text, "--pool", "8192"}};
    return (step){"a real model, head by head",
                  32.0,
                  {"probe", "--model", o->model, "--text", o->text, "--pool", "8192", "--n",
                   "100..2000*4", "--replicates", "4", "--query-count", "512", "--exact-queries",
                   "32"}};
}

/* The models that there are. @return : how many steps. */
static int plan_models(const cli_session *session, const demo_options *o, char folder[PATH_SIZE],
                       char text[PATH_SIZE + 16], step out[MODEL_STEPS])
{
    int count = 0;
    if (o->model)
        out[count++] = step_at(o);
    if (!find_decoder(session, o, folder, text))
        return count;
    out[count++] =
        (step){"a decoder: where its heads need to look",
               10.0,
               {"probe", "--model", folder, "--text", text, "--pool", "16384", "--block", "1024"},
               .run = "decoder"};
    out[count++] = (step){"what context is worth to it",
                          8.0,
                          {"loss", "--model", folder, "--text", text, "--blocks", "4", "--block",
                           "1024", "--window", "32,256", "--sinks", "4"}};
    return count;
}

/* Runs all steps and writes the report. */
static es_status run(cli_session *session, void *given, es_error *err)
{
    const demo_options *o = given;
    char folder[PATH_SIZE], text[PATH_SIZE + 16];
    step models[MODEL_STEPS];
    tour t = {.session = session, .o = o};
    const char *paths[MOST_STEPS];
    es_status status = check_options(o, err);
    if (status != ES_OK)
        return status;
    mkdir(o->folder, 0777); /* the first run file reports a failure */
    plan(&t, models, plan_models(session, o, folder, text, models));
    for (int i = 0; i < t.count && status == ES_OK; i++) {
        paths[i] = t.runs[i];
        status = visit(&t, i, err);
    }
    return status == ES_OK ? write_report(session, o, paths, t.count, err) : status;
}

static const char *const examples[] = {
    "esscher demo", "esscher demo --folder tour --model models/minilm --text alice.txt", NULL};

const cli_command cli_demo = {
    .name = "demo",
    .summary = "a tour: a real model, a few experiments, the papers' claims, one report",
    .usage = "[options]",
    .about = "Measures every head of a small decoder that comes with the program, and of your "
             "model if you name one; runs a few experiments; checks the papers' claims at quick "
             "effort. Writes run files and a page with figures, DIR/report.html. Takes two minutes "
             "on two cores and overwrites the files of an earlier demo. Exit code 1 means that a "
             "statement of a paper is contradicted or a result of this project is not confirmed.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS,
    .size = sizeof(demo_options),
    .run = run,
};
