/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c : pieces of work done by the threads of this process. */
#include <esscher/executor.h>

#include <pthread.h>

#include "base/error.h"
#include "base/executor.h"
#include "base/memory.h"
#include "base/threads.h"

/* The threads that run a list of pieces. */
typedef struct team {
    const es_work *work;
    es_exec one;          /* one thread and no progress, for pieces that run side by side */
    double *scratch;      /* (threads, numbers), if work->destination is NULL */
    pthread_mutex_t lock; /* done() is called by one thread at a time */
} team;

/* Computes one piece and hands it to the owner under a lock; owners need no locks of their own. */
static es_status one_piece(team *t, int64_t piece, int thread, const es_exec *exec, es_error *err)
{
    const es_work *w = t->work;
    double *numbers =
        t->scratch ? t->scratch + thread * w->numbers : w->destination(w->user, piece);
    ES_TRY(w->compute(w->user, piece, exec, numbers, err));
    pthread_mutex_lock(&t->lock);
    const es_status status = w->done(w->user, piece, numbers, err);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* Computes the piece of unit `at`, with one thread. */
static es_status unit(void *job, int64_t at, int thread, es_error *err)
{
    team *t = job;
    return one_piece(t, t->work->pieces[at], thread, &t->one, err);
}

/* Runs pieces side by side, one thread each, or one after the other with all threads. */
static es_status do_all(team *t, const es_exec *exec, es_error *err)
{
    if (t->work->one_thread_per_cell)
        return es_parallel_run(exec, t->work->count, unit, t, err);
    for (int64_t i = 0; i < t->work->count; i++)
        ES_TRY(one_piece(t, t->work->pieces[i], 0, exec, err));
    return ES_OK;
}

/* Runs all pieces on the threads of this process: one piece per thread, or all threads on each
 * piece in turn. */
static es_status run_threads(const es_executor *self, const es_work *work, const es_exec *exec,
                             es_error *err)
{
    (void)self;
    team t = {.work = work, .one = *exec, .lock = PTHREAD_MUTEX_INITIALIZER};
    t.one.threads = 1;
    t.one.progress = NULL;
    t.one.executor = NULL;
    const int threads = work->one_thread_per_cell ? es_parallel_threads(exec, work->count) : 1;
    if (!work->destination)
        ES_TRY(ES_MEM_NEW_2D(exec->budget, t.scratch, threads, work->numbers, "numbers", err));
    const es_status status = do_all(&t, exec, err);
    pthread_mutex_destroy(&t.lock);
    es_mem_free(exec->budget, t.scratch);
    return status;
}

/* A single process always agrees with itself. */
static es_status share_alone(const es_executor *self, void *bytes, size_t size, es_error *err)
{
    (void)self, (void)bytes, (void)size, (void)err;
    return ES_OK;
}

/* Returns the status of the only process there is. */
static es_status agree_alone(const es_executor *self, es_status status, const char *same,
                             es_error *err)
{
    (void)self, (void)same, (void)err;
    return status;
}

const es_executor es_executor_threads = {
    .name = "threads", .ranks = 1, .run = run_threads, .share = share_alone, .agree = agree_alone};

const es_executor *es_executor_of(const es_exec *exec)
{
    return exec && exec->executor ? exec->executor : &es_executor_threads;
}

es_status es_work_run(const es_work *work, const es_exec *exec, es_error *err)
{
    const es_executor *by = es_executor_of(exec);
    return by->run(by, work, exec, err);
}

es_status es_work_share(const es_exec *exec, void *bytes, size_t size, es_error *err)
{
    const es_executor *by = es_executor_of(exec);
    return by->share(by, bytes, size, err);
}

es_status es_work_agree(const es_exec *exec, es_status status, const char *same, es_error *err)
{
    const es_executor *by = es_executor_of(exec);
    return by->agree(by, status, same, err);
}
