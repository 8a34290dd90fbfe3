/* SPDX-License-Identifier: Apache-2.0 */
/* completion.h : completion of command lines for shells, made from the option tables. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include <stdbool.h>
#include <stdio.h>

extern const char *const cli_completion_shells[]; /* "bash", "zsh", "fish", NULL */

/* The script of one of these shells, for `esscher help --completion SHELL`. */
void cli_completion(const char *shell, FILE *out);

#endif
