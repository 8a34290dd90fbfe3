/* SPDX-License-Identifier: Apache-2.0 */
/* workbench.c : the work of a rank other than 0. Its threads take pieces from those that rank 0
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
#define STALE 0.01 /* seconds after which numbers wait no longer for more of them */

enum { LETTER = 1 << 16 }; /* bytes from which on a letter is sent */

typedef struct workbench {
    es_ranks *r;
    const es_work *work;
    es_exec exec;    /* as given */
    double *numbers; /* (threads, numbers) */
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool reading;         /* a thread is reading letters, without the lock */
    es_rank_piece *tasks; /* (n_tasks) to be done, from next on */
    int64_t next, n_tasks, room_tasks;
    char *out; /* a letter under way: head, then results */
    int64_t out_size, out_room, out_count;
    double out_since, waited, asked;
    bool over; /* the round has ended, or this rank has: */
    es_status status;
    es_error error;
} workbench;

/* ---- letters ---- */

/* Records the end of the work on this rank; the first status counts. */
static void finish(workbench *b, es_status status, const es_error *err)
{
    if (b->over)
        return;
    b->over = true;
    b->status = status;
    b->error = *err;
}

/* Sends the finished pieces to rank 0 in one message. */
static es_status send_out(workbench *b, es_error *err)
{
    if (!b->out_count)
        return ES_OK;
    const es_letter_head head = {
        .kind = ES_LETTER_RESULTS, .count = b->out_count, .waited = b->waited};
    const es_status status = es_post_whole(b->r, 0, head, b->out, (size_t)b->out_size, err);
    b->out_count = 0;
    b->waited = 0.0;
    return status;
}

/* Receives new pieces to compute; fails for a message that is not a list of pieces. */
static es_status take_tasks(workbench *b, const es_letter *l, es_error *err)
{
    const int64_t n = l->head.count;
    if (n < 0 || l->size % sizeof(es_rank_piece) || (size_t)n != l->size / sizeof(es_rank_piece))
        return es_fail(err, ES_E_FORMAT, "ranks.letter",
                       "use the same version of the program on all machines",
                       "rank 0 sent work that cannot be read");
    if (b->next == b->n_tasks)
        b->next = b->n_tasks = 0;
    const es_status status =
        ES_MEM_GROW(NULL, b->tasks, &b->room_tasks, b->n_tasks + n, "pieces", err);
    if (status == ES_OK && n)
        memcpy(b->tasks + b->n_tasks, l->body, l->size);
    b->n_tasks += status == ES_OK ? n : 0;
    return status;
}

/* Reads letters for up to `seconds`, without the lock, which the caller has. */
static void read_letters(workbench *b, double seconds)
{
    es_letter letter;
    es_error err = {0};
    b->reading = true;
    pthread_mutex_unlock(&b->lock);
    es_status status = es_fetch(b->r, seconds, &letter, &err);
    pthread_mutex_lock(&b->lock);
    b->reading = false;
    if (status == ES_OK && letter.head.kind == ES_LETTER_WORK)
        status = take_tasks(b, &letter, &err);
    else if (status == ES_OK && letter.head.kind == ES_LETTER_VERDICT)
        finish(b, es_verdict_take(b->r, &letter, &err), &err);
    if (status != ES_OK)
        finish(b, status, &err);
    es_letter_free(&letter);
    pthread_cond_broadcast(&b->news);
}

/* Reports a failure of this rank to rank 0, whose verdict ends the round. */
static void report(workbench *b, const es_rank_piece *task, es_status status, const es_error *err)
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
        es_post(b->r, 0, (es_letter_head){.kind = ES_LETTER_FAILED, .status = status}, &body,
                sizeof body, &sending);
    if (sent != ES_OK)
        finish(b, sent, &sending);
    b->n_tasks = b->next; /* results after this are discarded */
}

/* Returns true if this rank was asked to stop; then all ranks stop. The lock is held. */
static bool asked_to_stop(workbench *b, double done, double total)
{
    es_error err = {0};
    const double now = es_seconds();
    if (!b->exec.progress || b->over || now - b->asked < TICK)
        return b->over;
    b->asked = now;
    if (!b->exec.progress(b->exec.progress_user, done, total))
        return false;
    es_fail(&err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request");
    report(b, &(es_rank_piece){.order = -1}, ES_E_INTERRUPTED, &err);
    finish(b, ES_E_INTERRUPTED, &err);
    return true;
}

/* ---- pieces ---- */

/* While a piece is computed: has the round ended? */
static bool piece_progress(void *user, double done, double total)
{
    workbench *b = user;
    pthread_mutex_lock(&b->lock);
    const double before = b->asked;
    bool stop = asked_to_stop(b, done, total);
    if (!stop && b->asked != before && !b->reading)
        read_letters(b, 0.0);
    stop = stop || b->over;
    pthread_mutex_unlock(&b->lock);
    return stop;
}

/* The next piece; false when there will be none. */
static bool take(workbench *b, es_rank_piece *out)
{
    es_error err = {0};
    pthread_mutex_lock(&b->lock);
    const double since = es_seconds();
    while (!b->over && b->next == b->n_tasks) {
        const es_status sent = send_out(b, &err);
        if (sent != ES_OK)
            finish(b, sent, &err);
        else if (b->reading)
            pthread_cond_wait(&b->news, &b->lock);
        else
            read_letters(b, TICK);
        asked_to_stop(b, 0.0, 0.0);
    }
    b->waited += es_seconds() - since;
    const bool any = !b->over;
    if (any)
        *out = b->tasks[b->next++];
    pthread_mutex_unlock(&b->lock);
    return any;
}

/* Appends a finished piece to the next message. */
static es_status add_result(workbench *b, const es_rank_piece *task, const double *numbers,
                            es_error *err)
{
    const int64_t size = b->work->numbers * (int64_t)sizeof *numbers;
    const int64_t all = size + (int64_t)sizeof *task;
    if (!b->out_count) {
        b->out_size = sizeof(es_letter_head);
        b->out_since = es_seconds();
    }
    const es_status status =
        ES_MEM_GROW(NULL, b->out, &b->out_room, b->out_size + all, "numbers of pieces", err);
    ES_TRY(status);
    memcpy(b->out + b->out_size, task, sizeof *task);
    memcpy(b->out + b->out_size + sizeof *task, numbers, (size_t)size);
    b->out_size += all;
    b->out_count++;
    return b->out_size >= LETTER || es_seconds() - b->out_since > STALE ? send_out(b, err) : ES_OK;
}

/* Receives a piece that a thread of this rank has finished. */
static void put(workbench *b, es_rank_piece *task, es_status status, const double *numbers,
                es_error *err)
{
    pthread_mutex_lock(&b->lock);
    if (status != ES_OK && !b->over)
        report(b, task, status, err);
    else if (status == ES_OK && (status = add_result(b, task, numbers, err)) != ES_OK)
        finish(b, status, err);
    pthread_mutex_unlock(&b->lock);
}

/* Computes pieces on one thread until rank 0 has no more. */
static es_status work_on(void *user, int64_t unit, int thread, es_error *err)
{
    workbench *b = user;
    const es_work *w = b->work;
    es_exec exec = b->exec;
    double *numbers = b->numbers + thread * w->numbers;
    es_rank_piece task;
    (void)unit;
    exec.progress = w->one_thread_per_cell ? NULL : piece_progress;
    exec.progress_user = b;
    exec.threads = w->one_thread_per_cell ? 1 : exec.threads;
    while (take(b, &task)) {
        const double since = es_seconds();
        const es_status status = w->compute(w->user, task.piece, &exec, numbers, err);
        task.seconds = es_seconds() - since;
        put(b, &task, status, numbers, err);
    }
    return ES_OK; /* failures are the workbench's */
}

/* ---- all of it ---- */

/* Computes pieces with all threads of this rank. */
static es_status run_list(workbench *b, int threads, es_error *err)
{
    es_error ignored;
    es_exec exec = b->exec;
    ES_TRY(ES_MEM_NEW_2D(exec.budget, b->numbers, threads, b->work->numbers, "numbers", err));
    ES_TRY(es_post(b->r, 0, (es_letter_head){.kind = ES_LETTER_READY, .count = threads}, NULL, 0,
                   err));
    exec.progress = NULL;
    exec.threads = threads;
    if (threads > 1)
        es_parallel_run(&exec, threads, work_on, b, &ignored);
    else
        work_on(b, 0, 0, &ignored);
    *err = b->error;
    return b->status;
}

es_status es_workbench_run(es_ranks *r, const es_work *work, const es_exec *exec, es_error *err)
{
    workbench b = {.r = r,
                   .work = work,
                   .exec = *exec,
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .news = PTHREAD_COND_INITIALIZER};
    const int threads = work->one_thread_per_cell ? es_parallel_threads(exec, INT64_MAX) : 1;
    const es_status status = run_list(&b, threads, err);
    pthread_cond_destroy(&b.news);
    pthread_mutex_destroy(&b.lock);
    es_mem_free(NULL, b.out);
    es_mem_free(NULL, b.tasks);
    es_mem_free(exec->budget, b.numbers);
    return status;
}
