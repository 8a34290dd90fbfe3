/* SPDX-License-Identifier: Apache-2.0 */
/* esscher paper : the experiments of the papers. Without a name it lists them; with one it becomes
 * the command line of a study, before any option is read: main() calls cli_paper_expand(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/executor.h>

#include "command.h"
#include "options.h"
#include "papers.h"
#include "shell_words.h"
#include "talk.h"

typedef struct paper_options {
    const char *name;
    bool quick;
} paper_options;

static const cli_option operand = {"name",
                                   0,
                                   CLI_STRING,
                                   "NAME",
                                   "an experiment of the list",
                                   .field = offsetof(paper_options, name)};

static const cli_option options[] = {{"quick", 0, CLI_FLAG, NULL,
                                      "a small size that takes seconds, to see what comes out",
                                      .field = offsetof(paper_options, quick)},
                                     {0}};

/* ---- a name becomes a command line ---- */

/* A command line under construction, and the user's words that follow the name. */
typedef struct line {
    const cli_command *command;
    const char **words;
    int count;
    char **given;
    int given_count;
} line;

/* Returns true if the words argv (argc) give this option. */
static bool has(const cli_command *command, char **argv, int argc, const cli_option *wanted)
{
    const cli_option *option;
    bool common;
    for (int at = 0, words; at < argc; at += words) {
        words = cli_option_words(command, argc, argv, at, &option, &common);
        if (words && option == wanted)
            return true;
        words = words ? words : 1;
    }
    return false;
}

/* Returns the number of words of a NULL-ended list. */
static int length(const char *const *list)
{
    int count = 0;
    while (list[count])
        count++;
    return count;
}

/* Adds the options of a row's list that neither `other`, a NULL-ended list, nor the user gives. */
static void add_options(line *l, const char *const *list, const char *const *other)
{
    char **from = (char **)(uintptr_t)list, **before = (char **)(uintptr_t)other;
    const int count = length(list), others = other ? length(other) : 0;
    const cli_option *option;
    bool common;
    for (int at = 0, words; at < count; at += words) {
        words = cli_option_words(l->command, count, from, at, &option, &common);
        const bool replaced = words && (has(l->command, l->given, l->given_count, option) ||
                                        (others && has(l->command, before, others, option)));
        words = words ? words : 1;
        for (int i = 0; i < words && !replaced; i++)
            l->words[l->count++] = list[at + i];
    }
}

/* Returns true if the user gives the first of the options that an experiment needs, "--model BERT
 * --text FILE" for instance. */
static bool has_inputs(const line *l, const char *inputs)
{
    char name[32];
    const cli_option *option = NULL;
    bool common;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(inputs, " "), inputs);
    char *words[] = {name, name};
    return !cli_option_words(l->command, 2, words, 0, &option, &common) ||
           has(l->command, l->given, l->given_count, option);
}

/* Returns true if the user gives a word, "--quiet" for instance. */
static bool is_given(const line *l, const char *word)
{
    for (int i = 0; i < l->given_count; i++)
        if (strcmp(l->given[i], word) == 0)
            return true;
    return false;
}

/* Returns the run file that the user asks for; NULL if there will be none. */
static const char *run_file(const line *l)
{
    const cli_option *option;
    bool common;
    for (int at = 0, words; at < l->given_count && !is_given(l, "--dry-run"); at += words) {
        const char *word = l->given[at], *equals = strchr(word, '=');
        words = cli_option_words(l->command, l->given_count, l->given, at, &option, &common);
        if (words && strcmp(option->name, "out") == 0)
            return words > 1 ? l->given[at + 1] : equals ? equals + 1 : NULL;
        words = words ? words : 1;
    }
    return NULL;
}

/* Prints a command line of words (count) after a message. */
static void print_words(const char *message, int count, const char *const *words)
{
    char *text = cli_shell_join(count, words);
    char *shown = cli_escape_new(text);
    fprintf(stderr, "esscher paper: %s%s", message, shown);
    free(shown);
    free(text);
}

/* Prints the line that a row stands for, the inputs that are missing, and how to draw the paper's
 * figure from the run file, unless the user asked for no messages or another rank prints. */
static void print_line(const line *l, const cli_paper_row *row)
{
    if (is_given(l, "--quiet") || es_launcher_seen().rank > 0)
        return;
    print_words("the same as: ", l->count - 1, l->words + 1);
    fputc('\n', stderr);
    if (row->inputs && !has_inputs(l, row->inputs))
        fprintf(stderr, "esscher paper: %s takes %s\n", row->name, row->inputs);
    const char *run = run_file(l);
    if (!run || !row->figure)
        return;
    print_words("", 4, (const char *[]){"report", run, "--figures", "DIR"});
    fprintf(stderr, " draws \"%s\"\n", row->figure);
}

char **cli_paper_expand(int *argc, char ***argv)
{
    const cli_paper_row *row =
        *argc > 2 && strcmp((*argv)[1], "paper") == 0 ? cli_paper_find((*argv)[2]) : NULL;
    if (!row)
        return NULL;
    line l = {.command = cli_command_find(row->words[0])};
    bool quick = false;
    l.words = cli_alloc_array((size_t)(*argc + 2 * CLI_PAPER_WORDS), sizeof *l.words);
    l.given = cli_alloc_array((size_t)*argc, sizeof *l.given);
    for (int i = 3; i < *argc; i++)
        if (strcmp((*argv)[i], "--quick") == 0)
            quick = true;
        else
            l.given[l.given_count++] = (*argv)[i];
    l.words[l.count++] = (*argv)[0];
    l.words[l.count++] = row->words[0];
    add_options(&l, row->words + 1, quick ? row->quick : NULL);
    if (quick)
        add_options(&l, row->quick, NULL);
    for (int i = 0; i < l.given_count; i++)
        l.words[l.count++] = l.given[i];
    l.words[l.count] = NULL;
    print_line(&l, row);
    free((void *)l.given);
    *argc = l.count;
    *argv = (char **)(uintptr_t)l.words;
    return *argv;
}

/* ---- the list ---- */

static const es_column columns[] = {
    {"name", "experiment", "", ES_FORMAT_TEXT},
    {"paper", "arXiv", "", ES_FORMAT_TEXT},
    {"about", "what is measured", "", ES_FORMAT_TEXT},
    {"study", "command", "", ES_FORMAT_TEXT},
    {"parameters", "stands for", "", ES_FORMAT_TEXT,
     "the command line with the paper's parameters"},
    {"inputs", "needs", "", ES_FORMAT_TEXT},
    {"figure", "figure", "", ES_FORMAT_TEXT},
    {"cost", "time", "", ES_FORMAT_TEXT,
     "of the full size, about; --dry-run estimates it for this machine"},
    {0}};
static const es_table_view views[] = {{"Experiments of the papers", "name paper cost about"}, {0}};
static const es_table_spec spec = {"papers", columns, views};

/* Fills the table of experiments. */
static void list_rows(cli_session *session)
{
    es_table *t = es_answer_table(cli_result(session), &spec);
    for (int i = 0; cli_paper_at(i); i++) {
        const cli_paper_row *row = cli_paper_at(i);
        const int64_t at = es_table_row(t);
        es_table_text(t, at, "name", row->name);
        es_table_text(t, at, "paper", row->paper);
        es_table_text(t, at, "about", row->about);
        es_table_text(t, at, "study", row->words[0]);
        char *parameters = cli_shell_join(length(row->words), row->words);
        es_table_text(t, at, "parameters", parameters);
        free(parameters);
        es_table_text(t, at, "inputs", row->inputs ? row->inputs : "");
        es_table_text(t, at, "figure", row->figure ? row->figure : "");
        es_table_text(t, at, "cost", row->cost);
    }
}

/* Fails for a name that is not in the list; the hint names the nearest, or where the list is. */
static es_status fail_unknown(const char *name, es_error *err)
{
    const char *names[64];
    char hint[96] = "esscher paper lists them";
    int count = 0;
    for (; cli_paper_at(count) && count < 64; count++)
        names[count] = cli_paper_at(count)->name;
    const char *nearest = es_nearest(name, names, count);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    return cli_fail(err, ES_E_ARGUMENT, NULL, "paper.unknown", hint, "unknown experiment \"%s\"",
                    name);
}

/* Lists the experiments. A name that is in the list never gets here. */
static es_status run(cli_session *session, void *given, es_error *err)
{
    const paper_options *o = given;
    if (o->name && cli_paper_find(o->name))
        return cli_fail(err, ES_E_ARGUMENT, NULL, "paper.name", "esscher paper NAME [options]",
                        "the name of an experiment comes before options");
    if (o->name)
        return fail_unknown(o->name, err);
    if (o->quick)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "paper.name", "esscher paper lists the names",
                        "--quick needs the name of an experiment");
    list_rows(session);
    return ES_OK;
}

static const char *const examples[] = {
    "esscher paper",
    "esscher paper tsc-gaussian --quick",
    "esscher paper tsc-gaussian --dry-run",
    "esscher paper tsc-gaussian --replicates 20 --out gaussian.run",
    "esscher paper tsc-bert --model models/minilm --text wiki.txt --out bert.run",
    NULL};

const cli_command cli_paper = {
    .name = "paper",
    .summary = "the experiments of the papers by name, with the papers' parameters",
    .group = ES_GROUP_LAB,
    .usage = "[NAME [--quick] [options of its command]]",
    .about =
        "Without a name, lists the experiments: paper, what is measured, what it needs, and its "
        "time. With a name, runs the study that measures it, with the paper's parameters, and "
        "prints the command line that it stands for. Options that follow the name are those of "
        "that command, and replace the paper's.\n\n"
        "Experiments on models take --model and --text, and run on any checkpoint of the kind. "
        "`esscher report RUN --figures DIR` draws the figures of a run file. docs/PAPERS.md has "
        "the results, and says where papers and measurements differ.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_ROWS,
    .size = sizeof(paper_options),
    .run = run,
};
