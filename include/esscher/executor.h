/* SPDX-License-Identifier: Apache-2.0 */
/* executor.h : runs a list of pieces of work on threads or processes.
 *
 * A *piece* is a pure function of its number and makes some numbers, so any thread, process or
 * machine can compute it, in any order. An executor runs all pieces of a list. The default executor
 * uses the threads of this process. es_exec may name another one, whose processes (*ranks*) all run
 * the same program and make the same calls in the same order.
 *
 *     const es_work work = {.pieces = missing, .count = n, .numbers = 12, .user = me,
 *                           .compute = compute, .done = keep};
 *     es_work_run(&work, exec, &err);
 *
 * compute() runs on the rank that computes the piece, done() on rank 0 only, with the numbers.
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
    const char *noun;      /* plural of the pieces, for messages: "replicates" */
    const int64_t *pieces; /* (count) numbers of the pieces; the list of rank 0 is used */
    int64_t count;
    int64_t numbers;          /* count of numbers per piece */
    bool one_thread_per_cell; /* pieces run side by side, one thread each; otherwise all threads of
                                 a process work on one piece */
    int64_t window; /* at most this many pieces are started after the first unfinished one, because
                       early results must be stored. 0: no limit */
    void *user;
    /* Returns the relative cost of a piece; the most expensive start first. NULL: equal costs. */
    double (*weight)(void *user, int64_t piece);
    /* Returns where rank 0 stores the numbers of a piece; compute() writes there. NULL: compute()
     * writes to a temporary buffer. */
    double *(*destination)(void *user, int64_t piece);
    /* Writes the numbers of a piece to out, on exec->threads threads. With one_thread_per_cell
     * several calls run at a time, and exec->progress is NULL. */
    es_status (*compute)(void *user, int64_t piece, const es_exec *exec, double *out,
                         es_error *err);
    /* Receives the numbers of a piece: on rank 0, once for each piece, in any order, never from two
     * threads at once. */
    es_status (*done)(void *user, int64_t piece, const double *numbers, es_error *err);
} es_work;

struct es_executor {
    const char *name;
    int rank, ranks; /* number of this process, and of processes that share the work; alone: 0, 1 */

    /* Runs all pieces. With one_thread_per_cell, exec->progress gets the number of finished pieces;
     * otherwise it is passed to compute().
     * @return : on every rank ES_OK when every piece is done; if pieces fail, the failure of the
     * one that started first; ES_E_INTERRUPTED when exec->progress of any rank returns true. */
    es_status (*run)(const es_executor *self, const es_work *work, const es_exec *exec,
                     es_error *err);

    /* Copies the bytes of rank 0 to all ranks. */
    es_status (*share)(const es_executor *self, void *bytes, size_t size, es_error *err);

    /* Waits for all ranks and returns the same status on each. `status` and *err are the result of
     * this rank so far; `same` is a text of lines "key: value" that must be equal on all ranks.
     * @return : ES_OK, or the failure of the lowest rank that failed, or ES_E_ARGUMENT
     * (ranks.differ) for the lowest rank whose text differs; the message names it and the line. */
    es_status (*agree)(const es_executor *self, es_status status, const char *same, es_error *err);
    void *state;
};

/*! es_work_run(), es_work_agree() : run() and agree() of the executor that `exec` names. Every rank
 *  must call them, in the same order. */
ES_API es_status es_work_run(const es_work *work, const es_exec *exec, es_error *err);
ES_API es_status es_work_agree(const es_exec *exec, es_status status, const char *same,
                               es_error *err);

/* ---- one run on many processes ---- */

/* Processes that run the same program with the same arguments, *ranks*, share its work. Rank 0
 * sends pieces to the others, stores their results and computes pieces itself. The numbers have the
 * same bits for any number of ranks.
 *
 *     es_fabric *fabric;
 *     es_executor *executor;
 *     es_fabric_load(NULL, &fabric, &err);             messages by MPI; waits for all ranks
 *     es_ranks_new(fabric, &executor, &err);
 *     ... es_study_run() with exec.executor = executor ...
 *     es_ranks_free(executor);
 *     fabric->close(fabric, status == ES_OK);
 *
 * A *fabric* is a table of functions that send and receive messages; it separates the distribution
 * of work from MPI. The fabric over MPI is a library of its own, libesscher-mpi.so, which is loaded
 * only when it is needed.
 *
 * When a rank fails, dies or loses its connection, all other ranks end with an error that names it.
 * Rank 0 stores the results it has, and the run can be resumed.
 */

typedef struct es_message {
    int from;
    void *bytes; /* NULL: none arrived; otherwise the receiver calls free() */
    size_t size;
} es_message;

/* Connects processes by messages. Its functions may be called from several threads. */
typedef struct es_fabric es_fabric;
struct es_fabric {
    const char *name; /* "Open MPI 4.1.4" */
    int rank, ranks;
    void *state;

    /* Returns the host name of a rank. */
    const char *(*host)(const es_fabric *self, int rank);

    /* Sends a copy of the bytes to another rank; returns before they arrive. Messages from one rank
     * to another arrive in the order in which they were sent.
     * @return : ES_OK; ES_E_MEMORY; ES_E_IO (ranks.lost) naming the rank that is gone. */
    es_status (*send)(const es_fabric *self, int to, const void *bytes, size_t size, es_error *err);

    /* Waits up to `seconds` for a message of any rank, without using CPU time.
     * @return : ES_OK, also if none arrived; ES_E_IO (ranks.lost) if a rank died or sent no
     * heartbeat within the timeout, once its earlier messages have been received. */
    es_status (*receive)(const es_fabric *self, double seconds, es_message *out, es_error *err);

    /* Closes and frees the fabric. Every rank calls it, after a failure as well. With `well` it
     * waits for all ranks without a limit; otherwise for a few seconds, after queued messages have
     * been sent. If a rank is lost or does not arrive, all processes of the job are ended by
     * MPI_Abort() with `exit_code`, this one included: write your files before. */
    void (*close)(es_fabric *self, bool well);

    int sharing;   /* number of ranks that may run on the CPUs of this one, itself included */
    int exit_code; /* of processes that close() aborts; 0 means 1 */
};

/* ---- the fabric of MPI ---- */

/* The program that started this process along with others, found from the environment. */
typedef struct es_launcher {
    const char *name; /* "mpirun of Open MPI"; NULL: none was found */
    int rank, ranks;  /* 0 and 1 without a launcher */
    int local_rank;   /* number of this process among those of its machine */
} es_launcher;

/*! es_launcher_seen() : returns mpirun or srun if it started more than one process, otherwise a
 *  launcher without a name. A non-empty environment variable ESSCHER_NO_MPI hides launchers. */
ES_API es_launcher es_launcher_seen(void);

typedef struct es_fabric_opts {
    double timeout; /* seconds without a heartbeat after which a rank is lost; 0: no limit */
    int expect;     /* required number of ranks; 0: any number */
} es_fabric_opts;

#define ES_FABRIC_TIMEOUT 60.0 /* default of es_fabric_opts.timeout */

/*! es_fabric_load() : loads the MPI plugin and connects the ranks. The plugin is the file that the
 *  environment variable ESSCHER_MPI_PLUGIN names, or libesscher-mpi-openmpi.so, -mpich.so or
 *  libesscher-mpi.so, whichever fits the launcher: first in the directory of this library, then in
 *  its subdirectory esscher, then where the system looks. All ranks must call it once; the process
 *  must not use MPI otherwise. One new thread calls MPI. opts may be NULL. End with
 * (*out)->close().
 *  @return : ES_OK; ES_E_UNSUPPORTED if no plugin can be loaded (mpi.plugin) or MPI has fewer
 *  threads than needed (mpi.threads); ES_E_ARGUMENT if launcher and MPI do not belong together
 *  (mpi.launcher) or there are not as many ranks as expected (mpi.ranks); ES_E_IO (ranks.lost);
 *  ES_E_MEMORY. Then *out is NULL. */
ES_API es_status es_fabric_load(const es_fabric_opts *opts, es_fabric **out, es_error *err);

/* ---- the executor ---- */

/*! es_ranks_new() : makes an executor over the processes of a fabric, which must outlive it. Every
 *  rank makes one. @return : ES_OK; ES_E_MEMORY. */
ES_API es_status es_ranks_new(const es_fabric *fabric, es_executor **out, es_error *err);
ES_API void es_ranks_free(es_executor *executor); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
