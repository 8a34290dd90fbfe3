/* The commands of the program, in the order in which help lists them. */
#include <string.h>

#include "command.h"

const cli_command *const cli_commands[] = {
    &cli_demo,   &cli_claims,   &cli_converge, &cli_ball,        &cli_hardmax,  &cli_regimes,
    &cli_heat,   &cli_collapse, &cli_exponent, &cli_context_fit, &cli_rope,     &cli_limit,
    &cli_theory, &cli_probe,    &cli_tails,    &cli_measure,     &cli_tokenize, &cli_encode,
    &cli_report, &cli_export,   &cli_info,     &cli_bench,       NULL};

const cli_command *cli_command_find(const char *name)
{
    for (const cli_command *const *c = cli_commands; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}
