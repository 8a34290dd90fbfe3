/* completion.h : completion of command lines for bash and zsh, made from the option tables. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include <stdbool.h>
#include <stdio.h>

/* The script of a shell, for `esscher help --completion SHELL`. Returns false for a shell that is
 * none of "bash" and "zsh". */
bool cli_completion(const char *shell, FILE *out);

#endif
