/* The commands of the program, in the order in which help lists them. */
#include <string.h>

#include "command.h"

/* A study of the library needs its name alone. */
static const struct {
    const char *name;
    const cli_command *command; /* NULL: a study */
} commands[] = {{"demo", &cli_demo},
                {"claims", &cli_claims},
                {"converge", NULL},
                {"ball", &cli_ball},
                {"hardmax", &cli_hardmax},
                {"regimes", &cli_regimes},
                {"heat", &cli_heat},
                {"collapse", &cli_collapse},
                {"exponent", &cli_exponent},
                {"context-fit", &cli_context_fit},
                {"rope", &cli_rope},
                {"limit", &cli_limit},
                {"theory", &cli_theory},
                {"probe", NULL},
                {"tails", NULL},
                {"measure", &cli_measure},
                {"tokenize", &cli_tokenize},
                {"encode", &cli_encode},
                {"report", &cli_report},
                {"export", &cli_export},
                {"info", &cli_info},
                {"bench", &cli_bench}};
enum { COUNT = sizeof commands / sizeof commands[0] };

static void describe(const es_study *study, cli_command *out)
{
    unsigned common = CLI_TAKES_FORMAT | CLI_TAKES_MEMORY | CLI_TAKES_PROGRESS;
    common |= study->takes & ES_TAKES_SEED ? CLI_TAKES_SEED : 0;
    common |= study->takes & ES_TAKES_THREADS ? CLI_TAKES_THREADS : 0;
    common |= study->takes & ES_TAKES_ISA ? CLI_TAKES_ISA : 0;
    common |= study->takes & ES_TAKES_PRECISION ? CLI_TAKES_PRECISION : 0;
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
    static cli_command studies[COUNT];
    if (at < 0 || at >= COUNT)
        return NULL;
    if (commands[at].command)
        return commands[at].command;
    if (!studies[at].name)
        describe(es_study_find(commands[at].name), &studies[at]);
    return &studies[at];
}

const cli_command *cli_command_find(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return cli_command_at(i);
    return NULL;
}
