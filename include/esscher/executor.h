/* SPDX-License-Identifier: Apache-2.0 */
/* executor.h : who does a list of pieces of work.
 *
 * Work that can be shared is a list of *pieces*: each makes some numbers and is a pure function of
 * its number, so that any thread, any process, any machine may do it, in any order. An executor
 * does all of them. There is always one, the threads of this process; es_exec may name another,
 * whose processes (*ranks*) all run the same program and come to the same work at the same time.
 *
 *     const es_work work = {.pieces = missing, .count = n, .numbers = 12, .user = me,
 *                           .compute = compute, .done = keep};
 *     es_work_run(&work, exec, &err);
 *
 * compute() is called wherever a piece is done, done() on rank 0 alone, with the numbers.
 */
#ifndef ESSCHER_EXECUTOR_H
#define ESSCHER_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/exec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct es_work {
    const char *noun;      /* plural of the pieces, for people: "replicates" */
    const int64_t *pieces; /* (count) their numbers; what rank 0 has is done */
    int64_t count;
    int64_t numbers;          /* that a piece makes */
    bool one_thread_per_cell; /* pieces run side by side, one thread each; otherwise all threads of
                                 a process work on one piece */
    int64_t window; /* so many pieces from the first that is not done are begun at most: those that
                       come early have to wait somewhere. 0: no limit */
    void *user;
    /* How much work a piece is, among the others: large ones are begun first. NULL: all alike. */
    double (*weight)(void *user, int64_t piece);
    /* Where its numbers finally belong on rank 0: compute() writes there. NULL: nowhere yet. */
    double *(*room)(void *user, int64_t piece);
    /* The numbers of a piece into out; exec says on how many threads. Of pieces that work alone
     * several calls are under way at a time, and exec->progress is NULL. */
    es_status (*compute)(void *user, int64_t piece, const es_exec *exec, double *out,
                         es_error *err);
    /* The numbers are there: on rank 0, once for each piece, in any order, never from two threads
     * at once. */
    es_status (*done)(void *user, int64_t piece, const double *numbers, es_error *err);
} es_work;

struct es_executor {
    const char *name;
    int rank, ranks; /* this process among those that share the work: 0 of 1 if it is alone */

    /* All pieces. exec->progress is that of the list: of pieces that work alone it counts those
     * that are done; else it is handed to compute(), and done() may tell of it.
     * @return : ES_OK when every piece is done, on every rank; of the pieces that failed, the
     * failure of the one that was begun first; ES_E_INTERRUPTED when exec->progress of any rank
     * asked to stop. */
    es_status (*run)(const es_executor *self, const es_work *work, const es_exec *exec,
                     es_error *err);

    /* The bytes of rank 0 become everybody's. */
    es_status (*share)(const es_executor *self, void *bytes, size_t size, es_error *err);

    /* All ranks meet. `status` and *err are what became of this one, `same` is a text, lines of
     * "key: value", that must be the same for all. @return : on every rank ES_OK, or the failure of
     * the lowest rank that failed, or ES_E_ARGUMENT (ranks.differ) for the lowest whose text
     * differs, naming it and the first line. */
    es_status (*agree)(const es_executor *self, es_status status, const char *same, es_error *err);
    void *state;
};

/*! es_work_run(), es_work_agree() : run() and agree() of the executor that `exec` names. Every rank
 *  must call them, in the same order. */
ES_API es_status es_work_run(const es_work *work, const es_exec *exec, es_error *err);
ES_API es_status es_work_agree(const es_exec *exec, es_status status, const char *same,
                               es_error *err);

/* ---- one run on many processes ---- */

/* One run on many processes.
 *
 * Processes that run the same program with the same arguments, *ranks*, share its work: rank 0
 * hands out pieces as ranks ask for them and keeps what they send back; it works, too. The numbers
 * have the same bits for any number of ranks.
 *
 *     es_fabric *fabric;
 *     es_executor *executor;
 *     es_fabric_load(NULL, &fabric, &err);             messages by MPI; all ranks meet
 *     es_ranks_new(fabric, &executor, &err);
 *     ... es_study_run() with exec.executor = executor ...
 *     es_ranks_free(executor);
 *     fabric->close(fabric, status == ES_OK);
 *
 * How messages travel is the *fabric*'s: a table of functions, so that the hand-out knows nothing
 * of MPI, and MPI nothing of it. The one over MPI is a library of its own, libesscher-mpi.so, which
 * is looked for only when it is asked for.
 *
 * When a rank dies, is cut off or fails, the others are told and end, naming it; rank 0 keeps what
 * it has, and the run can be resumed.
 */

typedef struct es_message {
    int from;
    void *bytes; /* NULL: none came; else whoever received it calls free() */
    size_t size;
} es_message;

/* Processes and the messages between them. Functions may be called from several threads. */
typedef struct es_fabric es_fabric;
struct es_fabric {
    const char *name; /* "Open MPI 4.1.4" */
    int rank, ranks;
    void *state;

    /* Where a rank runs, for people: the name of its machine. */
    const char *(*host)(const es_fabric *self, int rank);

    /* Bytes to another rank, which are copied; returns before they have arrived. Messages from one
     * rank to another arrive in the order in which they were sent.
     * @return : ES_OK; ES_E_MEMORY; ES_E_IO (ranks.lost) naming the rank that is gone. */
    es_status (*send)(const es_fabric *self, int to, const void *bytes, size_t size, es_error *err);

    /* The next message from anybody, waiting for it up to `seconds` without taking a processor's
     * time. @return : ES_OK, also if none came; ES_E_IO (ranks.lost) if a rank is gone and what it
     * sent before has been received: it died, or nothing was heard of it for too long. */
    es_status (*receive)(const es_fabric *self, double seconds, es_message *out, es_error *err);

    /* The end. `well`: waits until all ranks are here; otherwise the others are ended, too, after
     * what was sent to them has gone out. Frees the fabric.
     * Every rank calls it, after a failure as well: once all have come, each process goes on and
     * ends by itself. If one is lost, or does not come for a few seconds after a failure, whatever
     * is left of the job is ended by force, this process included, with `exit_code`: what should
     * be written is written before. */
    void (*close)(es_fabric *self, bool well);

    int sharing;   /* ranks that may run on the same processors as this one, itself included */
    int exit_code; /* of processes that close() ends by force; 0: 1 */
};

/* ---- the fabric of MPI ---- */

/* What started this process along with others, as its environment tells. */
typedef struct es_launcher {
    const char *name; /* "mpirun of Open MPI"; NULL: nobody was seen */
    int rank, ranks;  /* 0 of 1 if nobody was */
    int local_rank;   /* among those of the same machine */
} es_launcher;

/*! es_launcher_seen() : mpirun or srun, if one of them started more than one process; where the
 *  environment variable ESSCHER_NO_MPI is set and not empty, nobody. */
ES_API es_launcher es_launcher_seen(void);

typedef struct es_fabric_opts {
    double patience; /* seconds without a word of a rank after which it is lost; 0: never */
    int expect;      /* there must be as many ranks; 0: any number */
} es_fabric_opts;

#define ES_FABRIC_PATIENCE 60.0 /* unless told otherwise */

/*! es_fabric_load() : the processes that MPI knows. Loads libesscher-mpi-openmpi.so or -mpich.so,
 *  as fits the launcher, or libesscher-mpi.so, from beside this library, the folder esscher there,
 *  or where the system looks; or the file that the environment variable ESSCHER_MPI_PLUGIN names.
 *  All ranks must call it, once in the life of a process, which must not use MPI otherwise. MPI is
 *  called from one thread, made here. opts may be NULL. End with (*out)->close().
 *  @return : ES_OK; ES_E_UNSUPPORTED if no plugin can be loaded (mpi.plugin) or MPI has fewer
 *  threads than needed (mpi.threads); ES_E_ARGUMENT if launcher and MPI do not belong together
 *  (mpi.launcher) or there are not as many ranks as expected (mpi.ranks); ES_E_IO (ranks.lost);
 *  ES_E_MEMORY. Then *out is NULL. */
ES_API es_status es_fabric_load(const es_fabric_opts *opts, es_fabric **out, es_error *err);

/* ---- the executor ---- */

/*! es_ranks_new() : an executor of the processes of a fabric, which must outlive it. Every rank
 *  makes one. @return : ES_OK; ES_E_MEMORY. */
ES_API es_status es_ranks_new(const es_fabric *fabric, es_executor **out, es_error *err);
ES_API void es_ranks_free(es_executor *executor); /* NULL is fine */

/* What rank 0 did, for those who ask how many ranks it can serve. */
typedef struct es_ranks_tally {
    int64_t pieces;       /* done by other ranks */
    int64_t own;          /* done by rank 0 */
    double serve_seconds; /* spent handing out pieces and keeping their numbers */
    double wait_seconds;  /* of other ranks, waiting for a piece, all together */
} es_ranks_tally;
ES_API es_ranks_tally es_ranks_tally_of(const es_executor *executor);

#ifdef __cplusplus
}
#endif
#endif
