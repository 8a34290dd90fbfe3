/* SPDX-License-Identifier: Apache-2.0 */
/* help.h : help, made from the descriptions of the commands. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "command.h"

/* Print help: all commands by group, a line each; what many commands share (common options, forms
 * of values, words, exit codes); everything about one command; or one screen about it. */
void cli_help_program(FILE *out);
void cli_help_options(FILE *out);
void cli_help_command(const cli_command *command, FILE *out);
void cli_help_short(const cli_command *command, FILE *out);

/* How values are written on a command line, and words of findings and tables, for help and man
 * pages; both lists end with a NULL name. */
typedef struct cli_definition {
    const char *name, *text;
} cli_definition;
extern const cli_definition cli_value_forms[], cli_words[];

/* Writes the description of an option and its default into `out` and returns it. */
const char *cli_help_of(const cli_option *option, char *out, size_t size);

/* Fails with command.unknown; the hint names the nearest command. */
es_status cli_command_unknown(const char *name, es_error *err);

#endif
