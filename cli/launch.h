/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h : a study on several processes that mpirun or srun started together.
 *
 * Rank 0 prints and writes the run file; the other ranks only compute and end with the same exit
 * code. Commands that are not studies run on rank 0 alone, without MPI.
 */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "command.h"

/* Returns true if this process prints to the user; works before and without MPI. */
bool cli_speaks(const cli_common *common);

/* mpirun ends all processes when one fails: a silent one that fails before it has met the others
 * leaves rank 0 the time to say why. */
void cli_leave_last(void);

/* Meets the other ranks if there are any, or --mpi is given: session->fabric and executor are then
 * there. Says why if it fails. */
es_status cli_ranks_join(cli_session *session, es_error *err);

/* Threads of this rank, unless --threads says: its share of the processors that it may use. */
int cli_ranks_threads(const cli_session *session);

/* How many ranks there are, on stderr; and as provenance of the answer. */
void cli_ranks_say(const cli_session *session);
void cli_ranks_facts(const cli_session *session, es_answer *answer);

/* Returns true if this rank prints the error itself. */
bool cli_ranks_says(const cli_session *session, const es_error *err);

/* The end, after everything was printed: `code` is what this process ends with. */
void cli_ranks_leave(cli_session *session, bool well, int code);

#endif
