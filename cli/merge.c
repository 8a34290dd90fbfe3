/* SPDX-License-Identifier: Apache-2.0 */
/* esscher merge : the run files of shards as one, and the answer of the whole run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/machine.h>
#include <esscher/run.h>

#include "execute.h"
#include "options.h"
#include "shell_words.h"
#include "talk.h"

typedef struct merge_options {
    cli_strings runs;
    const char *out, *pool;
    bool force, partial;
} merge_options;

static const cli_option operand = {"run",
                                   0,
                                   ES_PARAM_FILES,
                                   "RUN",
                                   "run files of all shards of a run",
                                   .field = offsetof(merge_options, runs)};

static const cli_option options[] = {
    {"out", 'o', ES_PARAM_OUTPUT, "RUN", "the joined run file",
     .field = offsetof(merge_options, out)},
    {"force", 0, CLI_FLAG, NULL, "overwrite the run file of --out",
     .field = offsetof(merge_options, force)},
    {"pool-dir", 0, ES_PARAM_OUTPUT, "DIR",
     "for commands that have this option: directory of the shards' hidden states (default: compute "
     "them again)",
     .field = offsetof(merge_options, pool)},
    {"partial", 0, CLI_FLAG, NULL,
     "join the files although cells are missing, and print no tables; prints the command that "
     "computes the rest with --resume",
     .field = offsetof(merge_options, partial)},
    {0}};

/* ---- the command that the shards were part of ---- */

/* What ends the run: the command of a shard, with other options for where and how. */
typedef struct ending {
    const cli_command *command; /* NULL: no line of this program made the shards */
    char **from;                /* words of a shard's line */
    const char **words;         /* argv of the command that ends the run */
    int count;
    char *line;         /* the same without options that only show it, for people */
    char *record;       /* the run as if it had never been in parts, for the new file */
    char left_out[256]; /* " --option" of the shard's line for each file that it writes */
} ending;

static void free_ending(ending *e)
{
    free(e->from);
    free((void *)(uintptr_t)e->words);
    free(e->line);
    free(e->record);
}

static void add_word(ending *e, const char *word) { e->words[e->count++] = word; }

/* The newest line that worked on the file, as a copy. */
static es_status read_line(const char *path, char **out, es_error *err)
{
    es_run *run;
    const es_status status = es_run_open(path, &run, err);
    if (status != ES_OK)
        return status;
    const es_run_about about = es_run_info(run);
    const char *line = "";
    for (int64_t i = 0; i < about.facts_count; i++)
        if (strcmp(about.facts[i].key, "command") == 0)
            line = about.facts[i].text;
    *out = cli_alloc(strlen(line) + 1);
    memcpy(*out, line, strlen(line) + 1);
    es_run_close(run, NULL);
    return ES_OK;
}

/* Options of ours that say how the answer is shown: those that every command has. */
static void add_views(ending *e, const cli_session *session)
{
    const cli_option *option;
    bool common;
    for (int at = 1, words; at < session->argc; at += words) {
        words =
            cli_option_words(session->command, session->argc, session->argv, at, &option, &common);
        for (int i = 0; i < words && common; i++) /* without an option `common` says nothing */
            add_word(e, session->argv[at + i]);
        words = words ? words : 1;
    }
}

/* Returns true if an option of a study names a file to write. merge ignores the names stored in a
 * shard, which may come from another user, and writes only to names on its own command line. */
static bool writes(const cli_option *o, bool common)
{
    return !common && o->kind == ES_PARAM_OUTPUT;
}

/* Returns whether the option sets what is computed, rather than where, how fast, or how it is
 * shown.
 */
static bool determines(const cli_option *o, bool common)
{
    return (!common && !writes(o, common)) || strcmp(o->name, "seed") == 0 ||
           strcmp(o->name, "precision") == 0 || strcmp(o->name, "isa") == 0;
}

/* Words of a shard's line that the whole run has, too. They come last: they may end in files. */
static void add_kept(ending *e, int count)
{
    const cli_option *option;
    bool common;
    e->left_out[0] = '\0';
    for (int at = 2, words; at < count; at += words) {
        const bool files = strcmp(e->from[at], "--") == 0; /* whatever they begin with */
        words = files ? 0 : cli_option_words(e->command, count, e->from, at, &option, &common);
        const bool kept = words == 0 || determines(option, common);
        const size_t used = strlen(e->left_out);
        if (words > 0 && writes(option, common))
            snprintf(e->left_out + used, sizeof e->left_out - used, " --%s", option->name);
        words = files ? count - at : words == 0 ? 1 : words;
        for (int i = 0; kept && i < words; i++)
            add_word(e, e->from[at + i]);
    }
}

enum { FOR_RECORD, FOR_PEOPLE, FOR_TRYING, FOR_GOOD };

static void compose(ending *e, const cli_session *session, const merge_options *o, int count,
                    int what)
{
    e->count = 0;
    add_word(e, "esscher");
    add_word(e, e->command->name);
    if (what >= FOR_TRYING)
        add_views(e, session);
    if (what == FOR_TRYING && !session->common.quiet)
        add_word(e, "--quiet");
    add_word(e, "--out");
    add_word(e, o->out);
    if (what != FOR_RECORD)
        add_word(e, "--resume");
    if (what != FOR_RECORD && o->force)
        add_word(e, "--force");
    if (o->pool) {
        add_word(e, "--pool-dir");
        add_word(e, o->pool);
    }
    add_kept(e, count);
}

/* What the command would refuse is refused before anything is written. */
static es_status try_ending(const merge_options *o, const ending *e, es_error *err)
{
    cli_options read;
    cli_help_kind help = CLI_HELP_NONE;
    es_status status = cli_options_parse(e->command, e->count - 2,
                                         (char **)(uintptr_t)(e->words + 2), &read, &help, err);
    for (const es_param *p = e->command->options; p && p->name && status == ES_OK; p++)
        if (p->kind == ES_PARAM_OUTPUT && es_params_given(read.own, p->name) &&
            !(o->pool && strcmp(p->name, "pool-dir") == 0))
            status =
                cli_fail(err, ES_E_ARGUMENT, NULL, "merge.output", "were they made by esscher?",
                         "--%s is not left out of the command", p->name);
    cli_options_free(&read);
    if (status == ES_OK)
        return ES_OK;
    const es_error why = *err;
    return cli_fail(err, status, NULL, why.rule, why.hint, "shards of %s: %s", e->command->name,
                    why.message);
}

/* The line of a shard taken apart and put together again. Where it is not one of this program's,
 * e->command stays NULL. */
static es_status make_ending(const cli_session *session, const merge_options *o, ending *e,
                             es_error *err)
{
    char *line;
    int count;
    es_status status = read_line(o->runs.at[0], &line, err);
    if (status != ES_OK)
        return status;
    e->from = cli_shell_split(line, &count);
    free(line);
    e->command = count > 1 ? cli_command_find(e->from[1]) : NULL;
    if (!e->command || !e->command->study) {
        e->command = NULL;
        return ES_OK;
    }
    e->words = cli_alloc_array((size_t)(count + session->argc + 10), sizeof *e->words);
    compose(e, session, o, count, FOR_RECORD);
    e->record = cli_shell_join(e->count - 1, e->words + 1);
    compose(e, session, o, count, FOR_PEOPLE);
    e->line = cli_shell_join(e->count - 1, e->words + 1);
    compose(e, session, o, count, FOR_TRYING);
    status = try_ending(o, e, err);
    compose(e, session, o, count, FOR_GOOD);
    return status;
}

/* Says which files of the shards the merge does not write, and how to have them. */
static void report_left_out(const cli_session *session, const merge_options *o, const ending *e)
{
    if (session->common.quiet || !e->left_out[0])
        return;
    char *line = cli_escape_new(e->line);
    fprintf(stderr,
            "esscher merge: left out of the shards' command:%s. Merging writes %s alone.\n"
            "  hint: %sto write such a file, add the option to\n"
            "  %s\n",
            e->left_out, o->out,
            strstr(e->left_out, "--pool-dir") ? "give merge a --pool-dir of its own; " : "", line);
    free(line);
}

/* ---- joining ---- */

/* "a.run, b.run": where the cells are from. */
static char *name_files(const cli_strings *runs)
{
    size_t size = 1, used = 0;
    for (int64_t i = 0; i < runs->count; i++)
        size += strlen(runs->at[i]) + 2;
    char *text = cli_alloc(size);
    text[0] = '\0';
    for (int64_t i = 0; i < runs->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", runs->at[i]);
    return text;
}

static es_status join(const cli_session *session, const merge_options *o, const ending *e,
                      es_run_joined *joined, es_error *err)
{
    const es_build build = es_build_info();
    char *files = name_files(&o->runs);
    const es_run_pair facts[] = {{"command", e->record ? e->record : ""},
                                 {"version", build.version},
                                 {"compiler", build.compiler},
                                 {"cpu", es_cpu_name()},
                                 {"blas", build.blas},
                                 {"joined", files}};
    const es_run_join_opts opts = {.facts = facts,
                                   .facts_count = sizeof facts / sizeof facts[0],
                                   .overwrite = o->force,
                                   .partial = o->partial,
                                   .progress = session->exec.progress,
                                   .progress_user = session->exec.progress_user};
    const es_status status = es_run_join(o->runs.at, o->runs.count, o->out, &opts, joined, err);
    free(files);
    if (status == ES_E_EXISTS)
        return cli_fail(err, status, o->out, "file.exists",
                        "choose another name, or overwrite it with --force",
                        "the file exists already");
    return status;
}

static bool is_finished(const char *path)
{
    es_run *run;
    int64_t tables = 0;
    if (es_run_open(path, &run, NULL) != ES_OK)
        return false;
    es_run_tables_count(run, &tables, NULL);
    es_run_close(run, NULL);
    return tables > 0;
}

/* The command finds every cell, makes its tables of them, and prints them. Where it cannot, as when
 * a text has moved, the cells are safe. */
static void end_run(cli_session *session, const merge_options *o, const ending *e)
{
    char *line;
    session->printed = true;
    cli_progress_wipe(&session->progress);
    setenv("ESSCHER_NO_MPI", "1", 1); /* other ranks have gone: merging is no study */
    session->code = cli_execute(e->command, e->count, (char **)(uintptr_t)e->words, NULL);
    if (session->code == 0 || is_finished(o->out))
        return;
    line = cli_escape_new(e->line);
    fprintf(stderr,
            "esscher merge: all cells are in %s; with its inputs in place this ends the run:\n"
            "  %s\n",
            o->out, line);
    free(line);
}

static void report_joined(cli_session *session, const merge_options *o, const ending *e,
                          const es_run_joined *j)
{
    es_answer *a = cli_result(session);
    es_answer_text(a, "run", o->out);
    es_answer_count(a, "files", j->files);
    es_answer_count(a, "cells", j->cells);
    es_answer_count(a, "missing", j->missing);
    es_answer_text(a, "gaps", j->gaps);
    es_answer_add_finding(a, "%lld cells of %lld files are in %s.", (long long)j->cells,
                          (long long)j->files, o->out);
    if (j->missing)
        es_answer_add_finding(a, "%lld are missing: %s.", (long long)j->missing, j->gaps);
    if (e->command)
        es_answer_add_finding(a, "%s: %s",
                              j->missing ? "This computes them" : "This makes the tables", e->line);
    else
        es_answer_add_finding(
            a, "No command line is known that makes its tables: es_study_run() does, "
               "with .resume.");
}

static es_status check_options(const merge_options *o, es_error *err)
{
    const char *line = "esscher merge part-*.run -o all.run";
    if (o->runs.count == 0)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "merge.options", line, "missing run file");
    if (!o->out)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "merge.options", line,
                        "missing --out, the joined run file");
    return ES_OK;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    const merge_options *o = given;
    ending e = {0};
    es_run_joined joined;
    es_status status = check_options(o, err);
    if (status == ES_OK)
        status = make_ending(session, o, &e, err);
    if (status == ES_OK)
        status = join(session, o, &e, &joined, err);
    if (status == ES_OK)
        report_left_out(session, o, &e);
    if (status == ES_OK && (o->partial || !e.command))
        report_joined(session, o, &e, &joined);
    else if (status == ES_OK)
        end_run(session, o, &e);
    free_ending(&e);
    return status;
}

static const char *const examples[] = {
    "esscher merge part-*.run -o all.run", "esscher merge part-*.run -o all.run --json >all.json",
    "esscher merge part-1.run part-4.run -o some.run --partial", NULL};

const cli_command cli_merge = {
    .name = "merge",
    .summary = "join the run files of shards (--shard I/K) into one run",
    .group = ES_GROUP_RESULTS,
    .usage = "RUN... -o RUN [--partial] [options]",
    .about =
        "Joins the run files of shards that were computed by independent processes: tasks of a job "
        "array, or machines without a common file system.\n\n"
        "First the files are checked: command and parameters are the same in all, every cell is in "
        "at least one file, and cells that several files have are the same to the last bit. Then "
        "the cells are joined, and the command of the shards prints its tables from them, with the "
        "same bits as a single run.\n\n"
        "The new file gets its name only when it has all cells. The files of the shards are never "
        "changed. No other file is written: options of the shards' command that name output files "
        "are left out and listed.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_ROWS | CLI_TAKES_HEADS | CLI_TAKES_THREADS |
              CLI_TAKES_MEMORY | CLI_TAKES_PROGRESS,
    .size = sizeof(merge_options),
    .run = run,
};
