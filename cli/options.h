/* SPDX-License-Identifier: Apache-2.0 */
/* options.h : reading a command line by the tables of command.h. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "command.h"

/* The options a command takes: those of its own table, then the common ones it asked for, each
 * with the struct it is stored in. */
typedef struct cli_option_list {
    struct {
        const cli_option *option;
        bool common;
        bool seen;
    } at[96];
    int count;
} cli_option_list;

void cli_options_of(const cli_command *command, cli_option_list *out);

/* What a command line says: the command's own struct, and the common one. */
typedef struct cli_options {
    es_params *own, *common, *operand; /* operand: of words without dashes, often `own` */
} cli_options;

/* Help instead of a run: -h, or --help. */
typedef enum cli_help_kind { CLI_HELP_NONE = 0, CLI_HELP_SHORT, CLI_HELP_ALL } cli_help_kind;

/* Read argv[0..argc). *help is set when help was asked for, and reading stops. Free in any case.
 * Returns ES_OK or ES_E_ARGUMENT with *err filled. */
es_status cli_options_parse(const cli_command *command, int argc, char **argv, cli_options *out,
                            cli_help_kind *help, es_error *err);
void cli_options_free(cli_options *options);

/* Returns how many words of a command line the option at argv[at] takes, with its values, and
 * which option it is; 0 if there is no option of the command. */
int cli_option_words(const cli_command *command, int argc, char **argv, int at,
                     const cli_option **option, bool *common);

extern const char *const cli_isa_choices[];

#endif
