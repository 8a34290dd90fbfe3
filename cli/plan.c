/* SPDX-License-Identifier: Apache-2.0 */
/* esscher plan : what a plan file says, and what another engine can run of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/plan_export.h>

#include "draft.h"
#include "options.h"
#include "talk.h"

typedef struct plan_options {
    cli_strings words; /* show FILE, or export FILE */
    int to;
    const char *out;
    bool force;
} plan_options;

static const char *const engines[] = {ES_PLAN_ENGINES, NULL};

static const cli_option operand = {"words",
                                   0,
                                   CLI_STRINGS,
                                   "ACTION PLAN.json",
                                   "show or export, and a plan file",
                                   .field = offsetof(plan_options, words)};

static const cli_option options[] = {
    {"to", 0, CLI_CHOICE, "ENGINE",
     "what to export to; kvpress, transformers: a Python file; tensorrt-llm: kv_cache_config in "
     "YAML; vllm, llama.cpp: arguments",
     .field = offsetof(plan_options, to), .choices = engines},
    {"out", 'o', ES_PARAM_OUTPUT, "FILE", "output file of export (default: print it)",
     .field = offsetof(plan_options, out)},
    {"force", 0, CLI_FLAG, NULL, "overwrite an existing file",
     .field = offsetof(plan_options, force)},
    {0}};

/* ---- show ---- */

static const char *const mode_names[] = {"ideal", "prompt", "decode", "none"};

static const es_column unit_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT, "key-value head; query head of ideal mode"},
    {"policy", "policy", "", ES_FORMAT_TEXT, "which keys stay; full: every key"},
    {"keys", "keys", "", ES_FORMAT_COUNT, "that are kept"},
    {"k_type", "K type", "", ES_FORMAT_TEXT, "number type of cached keys"},
    {"v_type", "V type", "", ES_FORMAT_TEXT, "number type of cached values"},
    {"risk", "risk", "", ES_FORMAT_REAL,
     "predicted mean square error of the head's output, as the plan states it"},
    {0}};
static const es_table_view unit_views[] = {{"What each head keeps"}, {0}};
static const es_table_spec units_table = {"heads", unit_columns, unit_views};

/* Adds the rows of a plan of a cache. */
static void put_units(const es_plan *p, es_table *t)
{
    for (int64_t i = 0; i < p->layers * p->kv_heads; i++) {
        const es_plan_unit *unit = &p->unit[i];
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "layer", i / p->kv_heads);
        es_table_count(t, row, "head", i % p->kv_heads);
        es_table_text(t, row, "policy", unit->policy);
        es_table_count(t, row, "keys", unit->keys);
        es_table_text(t, row, "k_type", unit->k_type);
        es_table_text(t, row, "v_type", unit->v_type);
        if (!isnan(unit->risk))
            es_table_real(t, row, "risk", unit->risk);
    }
}

/* Adds the rows of a plan of ideal mode. */
static void put_heads(const es_plan *p, es_table *t)
{
    for (int64_t i = 0; i < p->layers * p->heads; i++) {
        const es_plan_head *head = &p->head[i];
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "layer", i / p->heads);
        es_table_count(t, row, "head", i % p->heads);
        es_table_text(t, row, "policy",
                      head->spec.policy ? es_policy_name(head->spec.policy) : "full");
        if (head->spec.policy)
            es_table_count(t, row, "keys", head->spec.keys);
        if (!isnan(head->risk))
            es_table_real(t, row, "risk", head->risk);
    }
}

/* Adds the sentence about the whole plan. */
static void report_totals(const es_plan *p, es_answer *a)
{
    const double kept = 100.0 * p->keys_kept / p->keys_all;
    if (p->mode == ES_PLAN_IDEAL)
        es_answer_add_finding(a,
                              "Each query chooses from all keys and reads %.3g %% of them at %lld "
                              "tokens; a cache does not get smaller.",
                              kept, (long long)p->context);
    else
        es_answer_add_finding(
            a,
            "The cache keeps %.3g %% of the keys of %s%lld tokens in %.3g %% of the bytes of %s.",
            kept, p->prompt ? "a prompt of " : "", (long long)(p->prompt ? p->prompt : p->context),
            100.0 * p->bytes_after / p->bytes_before, p->cache);
}

/* Puts a plan into the answer. */
static void show(cli_session *session, const es_plan *p)
{
    es_answer *a = cli_result(session);
    char fingerprint[17];
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)p->fingerprint);
    report_totals(p, a);
    if (p->note[0])
        es_answer_add_finding(a, "Note: %s", p->note);
    es_answer_text(a, "mode", mode_names[p->mode]);
    es_answer_text(a, "model_type", p->model_type);
    if (p->fingerprint)
        es_answer_text(a, "fingerprint", fingerprint);
    es_answer_count(a, "context", p->context);
    if (p->prompt)
        es_answer_count(a, "prompt", p->prompt);
    if (p->text[0])
        es_answer_text(a, "text", p->text);
    es_answer_real(a, "keys_kept", p->keys_kept);
    es_answer_real(a, "keys_all", p->keys_all);
    if (p->mode != ES_PLAN_IDEAL) {
        es_answer_real(a, "bytes_before", p->bytes_before);
        es_answer_real(a, "bytes_after", p->bytes_after);
    }
    (p->mode == ES_PLAN_IDEAL ? put_heads : put_units)(p, es_answer_table(a, &units_table));
    cli_print(session); /* texts of the table are the plan's */
}

/* ---- export ---- */

/* Returns the file name without its directory. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Writes the text for an engine, or prints it. */
static es_status export(cli_session *session, const plan_options *o, const es_plan *plan,
                        es_error *err)
{
    const char *engine = engines[o->to], *name = name_of(o->words.at[1]);
    char *text;
    size_t size;
    if (o->out)
        return es_plan_export_file(plan, name, engine, o->out, o->force, err);
    const es_status status = es_plan_export(plan, name, engine, &text, &size, err);
    if (status != ES_OK)
        return status;
    session->printed = true;
    const bool failed = fwrite(text, 1, size, stdout) != size || fflush(stdout) != 0;
    es_plan_export_free(text);
    return failed ? cli_fail(err, ES_E_IO, "standard output", "output.write", "is the disk full?",
                             "cannot write")
                  : ES_OK;
}

/* ---- the command ---- */

/* Fails unless an action and a file are named, and options belong to the action. */
static es_status check_options(const plan_options *o, es_error *err)
{
    static const char usage[] =
        "esscher plan show PLAN.json, or esscher plan export PLAN.json --to llama.cpp";
    const char *action = o->words.count ? o->words.at[0] : "";
    const bool exports = strcmp(action, "export") == 0;
    if (o->words.count != 2 || (!exports && strcmp(action, "show") != 0))
        return cli_fail(err, ES_E_ARGUMENT, NULL, "plan.options", usage,
                        o->words.count ? "expected show or export, and one plan file"
                                       : "missing action and plan file");
    if (exports != (o->to >= 0))
        return cli_fail(err, ES_E_ARGUMENT, NULL, "plan.options", usage,
                        exports ? "missing --to" : "--to is for export");
    if (!exports && o->out)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "plan.options", usage, "--out is for export");
    return o->out ? cli_target_check(o->out, o->force, err) : ES_OK;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    const plan_options *o = given;
    es_plan *plan;
    es_status status = check_options(o, err);
    if (status != ES_OK)
        return status;
    status = es_plan_load(o->words.at[1], &session->budget, &plan, err);
    if (status != ES_OK)
        return status;
    if (o->to >= 0)
        status = export(session, o, plan, err);
    else
        show(session, plan);
    es_plan_free(plan);
    return status;
}

static const char *const examples[] = {
    "esscher plan show cache.plan.json",
    "esscher plan export cache.plan.json --to transformers --out plan_attention.py",
    "esscher plan export cache.plan.json --to llama.cpp", NULL};

const cli_command cli_plan = {
    .name = "plan",
    .summary = "what a plan file says, and what another engine can run of it",
    .group = ES_GROUP_RESULTS,
    .usage = "(show | export) PLAN.json [--to ENGINE] [--out FILE]",
    .about =
        "`plan show` checks a plan file and prints what each head keeps. `plan export` turns a "
        "plan "
        "for a KV cache into a configuration or code of another engine (docs/CACHE.md). No engine "
        "can do all that a plan says. A head that cannot run as planned keeps more keys or a finer "
        "number type, never "
        "less; comments at the beginning of the output list what the engine cannot do, the bytes "
        "that this costs, the predicted risk, and what the output was tested against.\n\n"
        "A plan file is made by `budget` and run by `encode` and `loss`. It is not a run file: "
        "`export` is for those.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_ROWS | CLI_TAKES_HEADS,
    .size = sizeof(plan_options),
    .run = run,
};
