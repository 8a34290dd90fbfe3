/* help.h : help and man pages, made from the descriptions of the commands. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "command.h"

void cli_help_program(FILE *out);
void cli_help_command(const cli_command *command, FILE *out);
void cli_help_man(const cli_command *command, FILE *out);

/* `esscher help [--man] [COMMAND]` and `esscher help --completion SHELL`; returns the exit code. */
int cli_help_run(int argc, char **argv);

/* Complain about a command that does not exist; returns the exit code. */
int cli_help_unknown(const char *name);

#endif
