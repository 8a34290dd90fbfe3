/* launch.h : a study on processes that mpirun or srun started together. Rank 0 talks, prints and
 * keeps the run file; the others work, and end as it does. Commands that are no studies are done by
 * rank 0 alone, and MPI is not touched. */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "command.h"

/* Is this the process that talks to people, before and without any MPI? */
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

/* Of a failure that only this rank has seen, or machine: does it say so itself? */
bool cli_ranks_says(const cli_session *session, const es_error *err);

/* The end, after everything was printed: `code` is what this process ends with. */
void cli_ranks_leave(cli_session *session, bool well, int code);

#endif
