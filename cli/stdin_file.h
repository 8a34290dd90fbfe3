/* SPDX-License-Identifier: Apache-2.0 */
/* stdin_file.h : `-` as the file of an option, which reads standard input.
 *
 * Commands read their files several times and at any offset, so standard input is first copied
 * into a temporary file without a name, which then takes the place of descriptor 0. Memory stays
 * bounded for any length; the file is gone when the process ends, however it ends.
 */
#ifndef CLI_STDIN_FILE_H
#define CLI_STDIN_FILE_H

#include "command.h"

/* Counts the options of a command whose value is `-`.
 * @return : ES_OK; ES_E_ARGUMENT (option.stdin) for more than one, or with several MPI ranks, of
 * which only one has the standard input. */
es_status cli_stdin_check(const cli_session *session, es_params *own, es_error *err);

/* Copies standard input if an option asks for it, and makes the option name the copy. Fills
 * session->stdin_facts, for the provenance, with its size and hash: the same text as in the
 * parameters of a run file. @return : ES_OK; ES_E_INTERRUPTED; ES_E_IO. */
es_status cli_stdin_copy(cli_session *session, es_params *own, es_error *err);

#endif
