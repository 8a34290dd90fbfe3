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

/* Read argv[0..argc) into `common` and `own`; both hold their defaults already. *help is set when
 * help was asked for, and reading stops.
 * Returns ES_OK or ES_E_ARGUMENT with *err filled. */
es_status cli_options_parse(const cli_command *command, int argc, char **argv, cli_common *common,
                            void *own, bool *help, es_error *err);

/* Give back what grids own. */
void cli_options_free(const cli_command *command, void *own);

/* The name among the given ones that `text` was probably meant to be, or NULL. */
const char *cli_nearest(const char *text, const char *const *names, int count);

extern const cli_common cli_common_defaults;
extern const char *const cli_isa_choices[];

#endif
