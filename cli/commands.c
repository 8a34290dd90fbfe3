/* The commands of the program, in the order in which help lists them. */
#include <string.h>

#include "command.h"

/* The tour, then the studies of the library, then what is no study. */
static const cli_command *const first[] = {&cli_demo};
static const cli_command *const last[] = {&cli_tokenize, &cli_encode, &cli_report, &cli_export,
                                          &cli_merge,    &cli_info,   &cli_bench,  &cli_help};
enum { FIRST = sizeof first / sizeof *first, LAST = sizeof last / sizeof *last, MOST = 64 };

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
                         .study = study};
}

const cli_command *cli_command_at(int at)
{
    static cli_command studies[MOST];
    int count = 0;
    while (count < MOST && es_study_at(count))
        count++;
    if (at < FIRST)
        return at < 0 ? NULL : first[at];
    at -= FIRST;
    if (at >= count)
        return at - count < LAST ? last[at - count] : NULL;
    if (!studies[at].name)
        describe(es_study_at(at), &studies[at]);
    return &studies[at];
}

const cli_command *cli_command_find(const char *name)
{
    const cli_command *command;
    for (int i = 0; (command = cli_command_at(i)); i++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}
