/* esscher claims : what the papers say, checked on this machine. */
#include <esscher/claims.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "options.h"
#include "run_file.h"
#include "talk.h"

typedef struct claims_options {
    int effort;
    const char *only;
    bool list, evidence;
    cli_run_options run;
} claims_options;

static const char *const efforts[] = {"quick", "paper", NULL};

static const claims_options defaults = {.effort = ES_EFFORT_QUICK};

static const cli_option options[] = {
    {"effort", 0, CLI_CHOICE, "HOW",
     "quick: all claims in less than two minutes on two cores (default); paper: the papers' sizes, "
     "hours",
     .field = offsetof(claims_options, effort), .choices = efforts},
    {"only", 0, CLI_STRING, "ID", "check this claim alone",
     .field = offsetof(claims_options, only)},
    {"evidence", 0, CLI_FLAG, NULL, "also show every piece of evidence",
     .field = offsetof(claims_options, evidence), .aside = true},
    {"list", 0, CLI_FLAG, NULL, "say which claims there are, and check none",
     .field = offsetof(claims_options, list), .aside = true},
    CLI_RUN_OPTIONS(claims_options, run),
    {0}};

/* ---- views ---- */

static const cli_column claim_columns[] = {
    {"id", "claim", "", .format = CLI_TEXT},
    {"source", "source", "", .format = CLI_TEXT, .hidden = true},
    {"statement", "statement", "", .format = CLI_TEXT, .hidden = true},
    {"relation", "is", "", .format = CLI_TEXT,
     .definition = "how measured should relate to predicted"},
    {"predicted", "predicted", "", .format = CLI_SHORT,
     .definition = "of the piece of evidence that decides: the worst, or the first if all agree"},
    {"measured", "measured", "", .format = CLI_REAL, .error = "measured_se",
     .definition = "the same, measured, +- one standard error where it is sampled"},
    {"low", "low", "", .format = CLI_REAL, .hidden = true, .definition = "95 % interval"},
    {"high", "high", "", .format = CLI_REAL, .hidden = true},
    {"verdict", "verdict", "", .format = CLI_TEXT,
     .definition = "from the standard errors alone: it does not hold where a piece of evidence is "
                   "off by more than 4 of them, and is not decided where they are too large"},
    {"expected", "expected", "", .format = CLI_TEXT,
     .definition = "some claims are known to mislead, and are here because people rely on them"},
    {"conclusion", "conclusion", "", .format = CLI_TEXT, .hidden = true},
    {0}};
static const cli_table claims_table = {
    .rows = "claims", .title = "What the papers say, checked here", .columns = claim_columns};

static const cli_column evidence_columns[] = {
    {"id", "claim", "", .format = CLI_TEXT},
    {"label", "what", "", .format = CLI_TEXT},
    {"relation", "is", "", .format = CLI_TEXT,
     .definition = "how measured should relate to predicted"},
    {"predicted", "predicted", "", .format = CLI_SHORT},
    {"slack", "slack", "", .format = CLI_SHORT,
     .definition = "what the prediction itself may be off by"},
    {"measured", "measured", "", .format = CLI_REAL, .error = "measured_se"},
    {"low", "low", "", .format = CLI_REAL, .hidden = true},
    {"high", "high", "", .format = CLI_REAL, .hidden = true},
    {"verdict", "verdict", "", .format = CLI_TEXT},
    {0}};
static const cli_table evidence_table = {
    .rows = "evidence", .title = "Evidence", .columns = evidence_columns};

static const cli_column conclusion_columns[] = {
    {"id", "claim", "", .format = CLI_TEXT},
    {"conclusion", "what to conclude", "", .format = CLI_TEXT},
    {0}};
static const cli_table conclusion_table = {
    .rows = "claims", .title = "Conclusions", .columns = conclusion_columns};

static const cli_column list_columns[] = {{"id", "claim", "", .format = CLI_TEXT},
                                          {"statement", "statement", "", .format = CLI_TEXT},
                                          {"source", "source", "", .format = CLI_TEXT},
                                          {0}};
static const cli_table list_table = {.rows = "list", .title = "Claims", .columns = list_columns};

static const cli_table *const views[] = {&list_table, &claims_table, &conclusion_table,
                                         &evidence_table, NULL};
static const cli_table *const short_views[] = {&list_table, &claims_table, &conclusion_table, NULL};

/* ---- one claim ---- */

/* A finding has no pointers, so its bytes are the cell of the run file. */
enum { CELL_NUMBERS = (sizeof(es_finding) + sizeof(double) - 1) / sizeof(double) };
typedef union claims_cell {
    es_finding found;
    double numbers[CELL_NUMBERS];
} claims_cell;

static const double two_sided_95 = 1.959963984540054;

static void set_interval(json_t *row, const es_evidence *e)
{
    json_object_set_new(row, "predicted", cli_real(e->predicted));
    json_object_set_new(row, "slack", cli_real(e->slack));
    json_object_set_new(row, "measured", cli_real(e->measured));
    /* what is computed, not sampled, has no error to show */
    json_object_set_new(row, "measured_se", cli_real(e->se > 0.0 ? e->se : (double)NAN));
    json_object_set_new(row, "low", cli_real(e->measured - two_sided_95 * e->se));
    json_object_set_new(row, "high", cli_real(e->measured + two_sided_95 * e->se));
}

static void put_claim(json_t *answer, const es_claim *claim, const es_finding *f)
{
    static const char *const relations[] = {"", "=", ">=", "<="};
    json_t *row = json_object();
    const es_relation relation = f->evidence[f->decisive].relation;
    json_object_set_new(row, "id", json_string(claim->id));
    json_object_set_new(row, "source", json_string(claim->source));
    json_object_set_new(row, "statement", json_string(claim->statement));
    json_object_set_new(row, "relation", json_string(relations[relation]));
    set_interval(row, &f->evidence[f->decisive]);
    json_object_set_new(row, "verdict", json_string(es_verdict_name(f->verdict)));
    json_object_set_new(row, "expected", json_string(es_verdict_name(claim->expected)));
    json_object_set_new(row, "conclusion", json_string(f->conclusion));
    json_array_append_new(json_object_get(answer, "claims"), row);
    for (int i = 0; i < f->count; i++) {
        const es_evidence *e = &f->evidence[i];
        json_t *piece = json_object();
        json_object_set_new(piece, "id", json_string(claim->id));
        json_object_set_new(piece, "label", json_string(e->label));
        json_object_set_new(piece, "relation", json_string(relations[e->relation]));
        set_interval(piece, e);
        json_object_set_new(piece, "verdict", json_string(es_verdict_name(e->verdict)));
        json_array_append_new(json_object_get(answer, "evidence"), piece);
    }
}

/* ---- all of them ---- */

/* A claim that the run file has is not checked again. */
static es_status find_or_check(const cli_run_file *file, int64_t stage, int64_t index,
                               const es_claim_opts *opts, claims_cell *cell, es_error *err)
{
    bool done;
    es_status status = cli_run_find(file, stage, index, cell->numbers, &done, err);
    if (status != ES_OK || done)
        return status;
    memset(cell, 0, sizeof *cell);
    status = es_claim_check(index, opts, &cell->found, err);
    return status == ES_OK ? cli_run_keep(file, stage, index, cell->numbers, err) : status;
}

static es_status check_all(cli_session *session, const claims_options *o, const cli_run_file *file,
                           int64_t stage, int64_t first, int64_t last, es_error *err)
{
    es_exec exec = session->exec;
    exec.progress = cli_progress_silent; /* a claim is many passes: progress counts claims */
    const es_claim_opts opts = {
        .effort = (es_effort)o->effort, .seed = session->common.seed, .exec = &exec};
    int64_t counts[3] = {0, 0, 0}, unexpected = 0;
    session->progress.parts = (double)(last - first);
    json_object_set_new(session->answer, "effort", json_string(efforts[o->effort]));
    json_object_set_new(session->answer, "claims", json_array());
    json_object_set_new(session->answer, "evidence", json_array());
    for (int64_t i = first; i < last; i++) {
        const es_claim *claim = es_claim_at(i);
        claims_cell cell;
        es_status status = find_or_check(file, stage, i, &opts, &cell, err);
        if (status == ES_E_INTERRUPTED)
            return cli_run_interrupted(file, i - first, last - first, "claims", err);
        if (status != ES_OK)
            return status;
        put_claim(session->answer, claim, &cell.found);
        counts[cell.found.verdict]++;
        unexpected += cell.found.verdict == ES_VERDICT_FAILS && claim->expected == ES_VERDICT_HOLDS;
        session->progress.part = (double)(i - first + 1);
        if (cli_progress_tell(&session->progress, 0.0, 1.0))
            return cli_run_interrupted(file, i - first + 1, last - first, "claims", err);
    }
    json_object_set_new(session->answer, "holds", json_integer(counts[ES_VERDICT_HOLDS]));
    json_object_set_new(session->answer, "fails", json_integer(counts[ES_VERDICT_FAILS]));
    json_object_set_new(session->answer, "undecided", json_integer(counts[ES_VERDICT_UNDECIDED]));
    json_object_set_new(session->answer, "unexpected", json_integer(unexpected));
    session->check_failed = unexpected > 0;
    return ES_OK;
}

static void list_claims(cli_session *session)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < es_claims_count(); i++) {
        const es_claim *claim = es_claim_at(i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "id", claim->id, "statement",
                                              claim->statement, "source", claim->source, "expected",
                                              es_verdict_name(claim->expected)));
    }
    json_object_set_new(session->answer, "list", list);
}

static es_status find_claim(const char *id, int64_t *index, es_error *err)
{
    const char *names[128];
    int count = 0;
    for (; count < 128 && es_claim_at(count); count++) {
        names[count] = es_claim_at(count)->id;
        if (strcmp(names[count], id) == 0) {
            *index = count;
            return ES_OK;
        }
    }
    char hint[128];
    const char *nearest = cli_nearest(id, names, count);
    snprintf(hint, sizeof hint, nearest ? "did you mean %s?" : "esscher claims --list", nearest);
    return cli_fail(err, ES_E_ARGUMENT, NULL, "claims.id", hint, "there is no claim %s", id);
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    claims_options *o = given;
    int64_t first = 0, last = es_claims_count();
    session->views = o->evidence ? views : short_views;
    if (o->list) {
        list_claims(session);
        return ES_OK;
    }
    if (o->only) {
        const es_status status = find_claim(o->only, &first, err);
        if (status != ES_OK)
            return status;
        last = first + 1;
    }
    static const char *const columns[] = {"finding"};
    cli_run_file file;
    int64_t stage;
    es_status status = cli_run_open(session, o, &o->run, &file, err);
    if (status == ES_OK)
        status = cli_run_stage(&file, "claim", CELL_NUMBERS, 1, columns, &stage, err);
    if (status == ES_OK)
        status = check_all(session, o, &file, stage, first, last, err);
    return cli_run_close(&file, session, status, err);
}

static const char *const examples[] = {"esscher claims", "esscher claims --list",
                                       "esscher claims --only hardmax-law --effort paper",
                                       "esscher claims --out claims.run", NULL};

const cli_command cli_claims = {
    .name = "claims",
    .summary = "what the papers say, checked on this machine",
    .usage = "[options]",
    .about = "Runs a small experiment for every claim: a statement of a paper, or a habit of "
             "published code. Each is set beside what was predicted, with its standard error, and "
             "gets a verdict from that error alone: it holds, it does not hold, or it is not "
             "decided at this effort. Exit code 1 if a claim that should hold does not.",
    .examples = examples,
    .options = options,
    .common =
        CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_ISA | CLI_TAKES_SEED | CLI_TAKES_PROGRESS,
    .defaults = &defaults,
    .size = sizeof(claims_options),
    .views = views,
    .run = run,
};
