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
 * compute() is called wherever a piece is done, done() on rank 0 alone, with the numbers. What the
 * other ranks need of them later is sent with es_work_share().
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
    int64_t numbers; /* that a piece makes */
    bool alone;     /* a piece takes one thread, and several are done side by side; else all threads
                       of a process work on one piece */
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

/*! es_executor_threads : the threads of this process. */
ES_API extern const es_executor es_executor_threads;

/*! es_executor_of() : who works for `exec` (NULL: threads). */
ES_API const es_executor *es_executor_of(const es_exec *exec);

/*! es_work_run(), es_work_share(), es_work_agree() : run(), share() and agree() of whoever that
 * is. Every rank must come by, in the same order. */
ES_API es_status es_work_run(const es_work *work, const es_exec *exec, es_error *err);
ES_API es_status es_work_share(const es_exec *exec, void *bytes, size_t size, es_error *err);
ES_API es_status es_work_agree(const es_exec *exec, es_status status, const char *same,
                               es_error *err);

#ifdef __cplusplus
}
#endif
#endif
