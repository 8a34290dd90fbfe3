/* help.h : help, made from the descriptions of the commands. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "command.h"

/* All commands in a line each; everything about one; its options alone, for who forgot a name. */
void cli_help_program(FILE *out);
void cli_help_command(const cli_command *command, FILE *out);
void cli_help_short(const cli_command *command, FILE *out);

/* What an option does, and what happens without it, into `out`, which is returned. */
const char *cli_help_of(const cli_option *option, char *out, size_t size);

/* Fails, naming the command that was probably meant. */
es_status cli_command_unknown(const char *name, es_error *err);

#endif
