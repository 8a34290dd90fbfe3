/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c : the work of a rank other than 0. Its threads take pieces from those that rank 0
 * has sent; a thread that finds none reads messages for all. Results are collected while they are
 * small and more pieces are there, so that short pieces do not cost a message each. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "ranks/ranks_inside.h"

#define TICK  0.05 /* seconds between two checks for a stop request */
#define STALE 0.01 /* seconds after which results are sent, even if they are few */

enum { BATCH = 1 << 16 }; /* bytes of results that are sent at once */

typedef struct worker {
    es_ranks *r;
    const es_work *work;
    es_exec exec;    /* as given */
    double *numbers; /* (threads, numbers) */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reading;         /* a thread waits for messages, without the lock */
    es_rank_piece *tasks; /* (n_tasks) pieces received; those before `next` are taken */
    int64_t next, n_tasks, task_capacity;
    char *out; /* the next message: header, then out_count results */
    int64_t out_size, out_capacity, out_count;
    double out_since, waited, last_check;
    bool over; /* the round has ended on this rank, with `status` and `error` */
    es_status status;
    es_error error;
} worker;

/* ---- messages ---- */

/* Records the end of the work on this rank; the first status counts. */
static void finish(worker *self, es_status status, const es_error *err)
{
    if (self->over)
        return;
    self->over = true;
    self->status = status;
    self->error = *err;
}

/* Sends the finished pieces to rank 0 in one message. */
static es_status send_out(worker *self, es_error *err)
{
    if (!self->out_count)
        return ES_OK;
    const es_message_header head = {
        .kind = ES_MESSAGE_RESULTS, .count = self->out_count, .waited = self->waited};
    const es_status status =
        es_rank_send_buffer(self->r, 0, head, self->out, (size_t)self->out_size, err);
    self->out_count = 0;
    self->waited = 0.0;
    return status;
}

/* Receives new pieces to compute; fails for a message that is not a list of pieces. */
static es_status take_tasks(worker *self, const es_rank_message *l, es_error *err)
{
    const int64_t n = l->head.count;
    if (n < 0 || l->size % sizeof(es_rank_piece) || (size_t)n != l->size / sizeof(es_rank_piece))
        return es_fail(err, ES_E_FORMAT, "ranks.message",
                       "use the same version of the program on all machines",
                       "rank 0 sent work that cannot be read");
    if (self->next == self->n_tasks)
        self->next = self->n_tasks = 0;
    const es_status status =
        ES_MEM_GROW(NULL, self->tasks, &self->task_capacity, self->n_tasks + n, "pieces", err);
    if (status == ES_OK && n)
        memcpy(self->tasks + self->n_tasks, l->body, l->size);
    self->n_tasks += status == ES_OK ? n : 0;
    return status;
}

/* Receives and handles one message, waiting up to `seconds`. The caller holds the lock, which is
 * released while it waits. */
static void handle_message(worker *self, double seconds)
{
    es_rank_message message;
    es_error err = {0};
    self->reading = true;
    pthread_mutex_unlock(&self->lock);
    es_status status = es_rank_receive(self->r, seconds, &message, &err);
    pthread_mutex_lock(&self->lock);
    self->reading = false;
    if (status == ES_OK && message.head.kind == ES_MESSAGE_WORK)
        status = take_tasks(self, &message, &err);
    else if (status == ES_OK && message.head.kind == ES_MESSAGE_VERDICT)
        finish(self, es_verdict_take(self->r, &message, &err), &err);
    if (status != ES_OK)
        finish(self, status, &err);
    es_rank_message_free(&message);
    pthread_cond_broadcast(&self->changed);
}

/* Reports a failure of this rank to rank 0, whose verdict ends the round. */
static void report(worker *self, const es_rank_piece *task, es_status status, const es_error *err)
{
    struct {
        es_rank_piece task;
        es_error error;
    } body;
    es_error sending = {0};
    memset(&body, 0, sizeof body);
    body.task = *task;
    body.error = *err;
    const es_status sent =
        es_rank_send(self->r, 0, (es_message_header){.kind = ES_MESSAGE_FAILED, .status = status},
                     &body, sizeof body, &sending);
    if (sent != ES_OK)
        finish(self, sent, &sending);
    self->n_tasks = self->next; /* results after this are discarded */
}

/* Returns true if this rank was last_check to stop; then all ranks stop. The lock is held. */
static bool asked_to_stop(worker *self, double done, double total)
{
    es_error err = {0};
    const double now = es_seconds();
    if (!self->exec.progress || self->over || now - self->last_check < TICK)
        return self->over;
    self->last_check = now;
    if (!self->exec.progress(self->exec.progress_user, done, total))
        return false;
    es_fail(&err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request");
    report(self, &(es_rank_piece){.order = -1}, ES_E_INTERRUPTED, &err);
    finish(self, ES_E_INTERRUPTED, &err);
    return true;
}

/* ---- pieces ---- */

/* Returns true if the round has ended; called while a piece is computed. */
static bool piece_progress(void *user, double done, double total)
{
    worker *self = user;
    pthread_mutex_lock(&self->lock);
    const double before = self->last_check;
    bool stop = asked_to_stop(self, done, total);
    if (!stop && self->last_check != before && !self->reading)
        handle_message(self, 0.0);
    stop = stop || self->over;
    pthread_mutex_unlock(&self->lock);
    return stop;
}

/* Stores the next piece in *out, waiting for rank 0 to send it; returns false at the end. */
static bool next_piece(worker *self, es_rank_piece *out)
{
    es_error err = {0};
    pthread_mutex_lock(&self->lock);
    const double since = es_seconds();
    while (!self->over && self->next == self->n_tasks) {
        const es_status sent = send_out(self, &err);
        if (sent != ES_OK)
            finish(self, sent, &err);
        else if (self->reading)
            pthread_cond_wait(&self->changed, &self->lock);
        else
            handle_message(self, TICK);
        asked_to_stop(self, 0.0, 0.0);
    }
    self->waited += es_seconds() - since;
    const bool any = !self->over;
    if (any)
        *out = self->tasks[self->next++];
    pthread_mutex_unlock(&self->lock);
    return any;
}

/* Appends a finished piece to the next message. */
static es_status add_result(worker *self, const es_rank_piece *task, const double *numbers,
                            es_error *err)
{
    const int64_t size = self->work->numbers * (int64_t)sizeof *numbers;
    const int64_t all = size + (int64_t)sizeof *task;
    if (!self->out_count) {
        self->out_size = sizeof(es_message_header);
        self->out_since = es_seconds();
    }
    const es_status status = ES_MEM_GROW(NULL, self->out, &self->out_capacity, self->out_size + all,
                                         "numbers of pieces", err);
    ES_TRY(status);
    memcpy(self->out + self->out_size, task, sizeof *task);
    memcpy(self->out + self->out_size + sizeof *task, numbers, (size_t)size);
    self->out_size += all;
    self->out_count++;
    return self->out_size >= BATCH || es_seconds() - self->out_since > STALE ? send_out(self, err)
                                                                             : ES_OK;
}

/* Receives a piece that a thread of this rank has finished. */
static void finish_piece(worker *self, es_rank_piece *task, es_status status, const double *numbers,
                         es_error *err)
{
    pthread_mutex_lock(&self->lock);
    if (status != ES_OK && !self->over)
        report(self, task, status, err);
    else if (status == ES_OK && (status = add_result(self, task, numbers, err)) != ES_OK)
        finish(self, status, err);
    pthread_mutex_unlock(&self->lock);
}

/* Computes pieces on one thread until rank 0 has no more. */
static es_status compute_pieces(void *user, int64_t unit, int thread, es_error *err)
{
    worker *self = user;
    const es_work *work = self->work;
    es_exec exec = self->exec;
    double *numbers = self->numbers + thread * work->numbers;
    es_rank_piece task;
    (void)unit;
    exec.progress = work->one_thread_per_cell ? NULL : piece_progress;
    exec.progress_user = self;
    exec.threads = work->one_thread_per_cell ? 1 : exec.threads;
    while (next_piece(self, &task)) {
        const double since = es_seconds();
        const es_status status = work->compute(work->user, task.piece, &exec, numbers, err);
        task.seconds = es_seconds() - since;
        finish_piece(self, &task, status, numbers, err);
    }
    return ES_OK; /* failures are in worker.status */
}

/* ---- the whole list ---- */

/* Computes pieces with all threads of this rank. */
static es_status run_list(worker *self, int threads, es_error *err)
{
    es_error ignored;
    es_exec exec = self->exec;
    ES_TRY(ES_MEM_NEW_2D(exec.budget, self->numbers, threads, self->work->numbers, "numbers", err));
    ES_TRY(es_rank_send(self->r, 0, (es_message_header){.kind = ES_MESSAGE_READY, .count = threads},
                        NULL, 0, err));
    exec.progress = NULL;
    exec.threads = threads;
    if (threads > 1)
        es_parallel_run(&exec, threads, compute_pieces, self, &ignored);
    else
        compute_pieces(self, 0, 0, &ignored);
    *err = self->error;
    return self->status;
}

es_status es_worker_run(es_ranks *r, const es_work *work, const es_exec *exec, es_error *err)
{
    worker self = {.r = r,
                   .work = work,
                   .exec = *exec,
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .changed = PTHREAD_COND_INITIALIZER};
    const int threads = work->one_thread_per_cell ? es_parallel_threads(exec, INT64_MAX) : 1;
    const es_status status = run_list(&self, threads, err);
    pthread_cond_destroy(&self.changed);
    pthread_mutex_destroy(&self.lock);
    es_mem_free(NULL, self.out);
    es_mem_free(NULL, self.tasks);
    es_mem_free(exec->budget, self.numbers);
    return status;
}
