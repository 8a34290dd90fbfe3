/* execute.h : a command line from its words to its answer. */
#ifndef CLI_EXECUTE_H
#define CLI_EXECUTE_H

#include "command.h"

/* Read the options in argv[2 ..] (argv[0] is the program, argv[1] the command), run, and print the
 * answer; or, if `answer` is not NULL, hand it over there (NULL after a failure), for whoever runs
 * several commands. Complaints go to stderr either way. Returns the exit code. */
int cli_execute(const cli_command *command, int argc, char **argv, es_answer **answer);

#endif
