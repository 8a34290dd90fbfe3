/* SPDX-License-Identifier: Apache-2.0 */
/* execute.h : a command line from its words to its answer. */
#ifndef CLI_EXECUTE_H
#define CLI_EXECUTE_H

#include "command.h"

/* A run that is one step of a tour. */
typedef struct cli_tour_step {
    const cli_progress *tour; /* whose progress it is part of */
    double from, to;          /* the shares of the tour that it goes from and to */
    es_answer *answer;        /* found; NULL after a failure */
} cli_tour_step;

/* Read the options in argv[2 ..] (argv[0] is the program, argv[1] the command), run, and print the
 * answer; or, if `step` is not NULL, hand it over there. Complaints go to stderr either way.
 * Returns the exit code. */
int cli_execute(const cli_command *command, int argc, char **argv, cli_tour_step *step);

#endif
