/* SPDX-License-Identifier: Apache-2.0 */
/* man_page.h : man pages, made from the descriptions of the commands. */
#ifndef CLI_MAN_PAGE_H
#define CLI_MAN_PAGE_H

#include <stdio.h>

#include "command.h"

/* The page of a command, or with NULL that of the program, which lists them all. */
void cli_man_page(const cli_command *command, FILE *out);

#endif
