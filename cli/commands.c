/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c : the table of commands, sorted by the groups in which help shows them.
 *
 * A study of the library becomes a command by itself. Any other command is listed in `before` or
 * `after`, according to whether it comes before or after the studies of its group. */
#include <string.h>

#include "command.h"

const cli_group cli_groups[] = {
    {ES_GROUP_MODEL, "Your model"}, {ES_GROUP_ARRAYS, "Your arrays and kernels"},
    {ES_GROUP_LAB, "Theory lab"},   {ES_GROUP_RESULTS, "Results"},
    {ES_GROUP_MORE, "More"},        {0, NULL}};

static const cli_command *const before[] = {&cli_demo, &cli_tokenize, &cli_encode, &cli_report};
static const cli_command *const after[] = {&cli_bench, &cli_paper, &cli_export, &cli_merge,
                                           &cli_plan,  &cli_info,  &cli_help};
enum { BEFORE = sizeof before / sizeof *before, AFTER = sizeof after / sizeof *after, MOST = 64 };

/* Describes a study as a command: which common options it takes follows from what it declares. */
static void describe(const es_study *study, cli_command *out)
{
    unsigned common =
        CLI_TAKES_FORMAT | CLI_TAKES_ROWS | CLI_TAKES_MEMORY | CLI_TAKES_PROGRESS | CLI_TAKES_RANKS;
    common |= study->takes & ES_TAKES_SEED ? CLI_TAKES_SEED : 0;
    common |= study->takes & ES_TAKES_THREADS ? CLI_TAKES_THREADS : 0;
    common |= study->takes & ES_TAKES_ISA ? CLI_TAKES_ISA : 0;
    common |= study->takes & ES_TAKES_PRECISION ? CLI_TAKES_PRECISION : 0;
    common |= study->takes & ES_TAKES_HEADS ? CLI_TAKES_HEADS : 0;
    common |= study->cost ? CLI_TAKES_DRY_RUN : 0;
    common |= study->keeps_nothing ? 0 : CLI_TAKES_RUN;
    *out = (cli_command){.name = study->name,
                         .summary = study->summary,
                         .usage = study->usage,
                         .about = study->about,
                         .examples = study->examples,
                         .options = study->params,
                         .operand =
                             study->operand ? es_param_find(study->params, study->operand) : NULL,
                         .common = common,
                         .size = study->size,
                         .study = study,
                         .group = study->group,
                         .main_options = study->main_options};
}

/* The commands sorted by group. */
typedef struct table {
    cli_command studies[MOST];
    const cli_command *at[MOST];
    int count;
} table;

/* Appends a command to the table if it belongs to the group. */
static void append(table *t, const cli_command *command, es_study_group group)
{
    if (command->group == group && t->count < MOST)
        t->at[t->count++] = command;
}

/* Fills the table group by group: own commands that come first, studies, own commands that come
 * last. */
static void fill(table *t)
{
    int studies = 0;
    for (; studies < MOST && es_study_at(studies); studies++)
        describe(es_study_at(studies), &t->studies[studies]);
    for (const cli_group *g = cli_groups; g->title; g++) {
        for (int i = 0; i < BEFORE; i++)
            append(t, before[i], g->group);
        for (int i = 0; i < studies; i++)
            append(t, &t->studies[i], g->group);
        for (int i = 0; i < AFTER; i++)
            append(t, after[i], g->group);
    }
}

const cli_command *cli_command_at(int at)
{
    static table commands; /* filled by the first call, before there are threads */
    if (commands.count == 0)
        fill(&commands);
    return at >= 0 && at < commands.count ? commands.at[at] : NULL;
}

const cli_command *cli_command_find(const char *name)
{
    const cli_command *command;
    for (int i = 0; (command = cli_command_at(i)); i++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}
