/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.c : the work of rank 0. One thread receives messages, sends pieces to the other ranks
 * and stores their results; the caller's threads compute pieces as well.
 *
 * Each rank gets one piece per thread. If pieces are so short that ranks would wait for messages,
 * it gets in advance as many as it computes in LEAD seconds. One lock protects the results, which
 * are stored in the order of arrival. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "ranks/ranks_inside.h"

#define LEAD 0.02 /* seconds: about ten times the round trip of a message */
#define TICK 0.05 /* seconds between two checks for a stop request */

enum { MAX_ASSIGNED = 512 }; /* pieces of one rank */

typedef enum piece_state { WAITING, ASSIGNED, DONE } piece_state;

/* What rank 0 stores about another rank. */
typedef struct rank_state {
    int64_t threads;  /* pieces that it computes at a time; 0: it has not arrived */
    int64_t assigned; /* pieces sent to it and not finished */
    double pace;      /* recent seconds per piece; 0: unknown */
} rank_state;

typedef struct coordinator {
    es_ranks *r;
    const es_work *work;
    es_exec exec;         /* as given */
    int64_t *order;       /* (count) places in work->pieces, large pieces first */
    char *state;          /* (count) of order[i] */
    double *scratch;      /* (threads, numbers), if work->destination is NULL */
    int64_t next, done;   /* number of pieces assigned; finished */
    int64_t first_open;   /* position of the first piece that is not done */
    rank_state *states;   /* (ranks) */
    pthread_mutex_t lock; /* protects everything below, and calls of done() and progress */
    pthread_cond_t changed;
    bool stop; /* no more pieces are assigned, because of: */
    es_status status;
    int64_t failed; /* position of the piece that failed; -1: the whole run */
    es_error error;
    bool closed;                     /* the thread of serve_ranks() ends */
    double last_report, part, whole; /* time of the last progress report; progress within a piece */
} coordinator;

/* ---- distributing pieces ---- */

/* Returns true when all pieces are done or, after a failure, when every piece before the failed
 * one is: the first failure in order is the one to report. */
static bool is_over(const coordinator *c)
{
    if (!c->stop)
        return c->done == c->work->count;
    for (int64_t i = 0; i < c->failed;
         i++) /* an earlier piece may fail, too, and would be the one to report */
        if (c->state[i] == ASSIGNED)
            return false;
    return true;
}

/* Records a failure of the piece at position `at` (-1: of the whole run); the lowest position is
 * the one to report. */
static void fail(coordinator *c, int64_t at, es_status status, const es_error *err)
{
    if (c->stop && at >= c->failed)
        return;
    c->stop = true;
    c->failed = at;
    c->status = status;
    c->error = *err;
    c->error.code = status;
}

/* Returns how many pieces a rank should hold, including those sent in advance. */
static int64_t target_count(const coordinator *c, const rank_state *s)
{
    const int64_t left = c->work->count - c->next, fair = left / (2 * c->r->fabric->ranks);
    double wanted = s->pace > 0.0 && s->pace < 10.0 * LEAD ? 1.0 + LEAD / s->pace : 0.0;
    wanted *= (double)s->threads;
    const int64_t more = wanted < MAX_ASSIGNED ? (int64_t)wanted : MAX_ASSIGNED;
    return s->threads + (more < fair ? more : fair);
}

/* Returns the position before which pieces may be assigned now. */
static int64_t window_end(const coordinator *c)
{
    const int64_t window = c->work->window;
    return window && window < c->work->count - c->first_open ? c->first_open + window
                                                             : c->work->count;
}

/* Sends a rank as many pieces as it can compute until the next message arrives. */
static es_status send_pieces(coordinator *c, int rank, es_error *err)
{
    rank_state *s = &c->states[rank];
    es_rank_piece tasks[MAX_ASSIGNED];
    int64_t n = 0;
    const int64_t most = target_count(c, s);
    if (s->assigned >= s->threads && s->assigned > most / 2)
        return ES_OK; /* avoids messages of one piece each */
    while (s->assigned < most && n < MAX_ASSIGNED && c->next < window_end(c) && !c->stop) {
        c->state[c->next] = ASSIGNED;
        tasks[n++] = (es_rank_piece){.order = c->next, .piece = c->work->pieces[c->order[c->next]]};
        c->next++;
        s->assigned++;
    }
    return n ? es_rank_send(c->r, rank, (es_message_header){.kind = ES_MESSAGE_WORK, .count = n},
                            tasks, (size_t)n * sizeof *tasks, err)
             : ES_OK;
}

/* ---- results ---- */

/* Fails because a rank sent a message that does not fit the protocol. */
static es_status bad_message(const coordinator *c, int from, es_error *err)
{
    char name[96];
    return es_fail(err, ES_E_FORMAT, "ranks.message",
                   "use the same version of the program on all machines",
                   "%s sent an unexpected message", es_rank_name(c->r, from, name, sizeof name));
}

/* Returns true if `t` is a piece that was assigned and is not done. */
static bool is_assigned(const coordinator *c, const es_rank_piece *t)
{
    return t->order >= 0 && t->order < c->work->count && c->state[t->order] == ASSIGNED &&
           c->work->pieces[c->order[t->order]] == t->piece;
}

/* Marks a piece as done and passes its numbers to done(). */
static es_status store_result(coordinator *c, int64_t order, const double *numbers, es_error *err)
{
    const es_work *w = c->work;
    c->state[order] = DONE;
    c->done++;
    const es_status status = w->done(w->user, w->pieces[c->order[order]], numbers, err);
    if (status != ES_OK)
        fail(c, -1, status, err);
    while (c->first_open < w->count && c->state[c->first_open] == DONE)
        c->first_open++;
    return status;
}

/* Sends pieces to the ranks that waited until the window moved. */
static es_status send_pieces_to_all(coordinator *c, es_error *err)
{
    for (int rank = 1; c->work->window && rank < c->r->fabric->ranks; rank++)
        if (c->states[rank].threads && c->states[rank].assigned < c->states[rank].threads)
            ES_TRY(send_pieces(c, rank, err));
    return ES_OK;
}

/* Receives finished pieces of a rank and gives it new ones. */
static es_status take_results(coordinator *c, const es_rank_message *l, es_error *err)
{
    const size_t each = sizeof(es_rank_piece) + (size_t)c->work->numbers * sizeof(double);
    rank_state *s = &c->states[l->from];
    if (l->head.count < 0 || l->size % each || (size_t)l->head.count != l->size / each)
        return bad_message(c, l->from, err);
    for (int64_t i = 0; i < l->head.count; i++) {
        const char *at = l->body + (size_t)i * each;
        es_rank_piece t;
        memcpy(&t, at, sizeof t);
        if (!is_assigned(c, &t))
            return bad_message(c, l->from, err);
        s->assigned--;
        s->pace += (s->pace > 0.0 ? 0.3 : 1.0) * (t.seconds - s->pace);
        c->r->tally.pieces++;
        /* sizes of heads and tasks are multiples of 8, and messages begin at such an address */
        ES_TRY(store_result(c, t.order, (const double *)(const void *)(at + sizeof t), err));
    }
    c->r->tally.wait_seconds += l->head.waited;
    ES_TRY(send_pieces(c, l->from, err));
    return send_pieces_to_all(c, err);
}

/* Receives the failure of a rank: of one piece, or of the rank as a whole. */
static es_status take_failure(coordinator *c, const es_rank_message *l, es_error *err)
{
    es_rank_piece t = {.order = -1};
    if (l->head.kind == ES_MESSAGE_FAILED && l->size >= sizeof t)
        memcpy(&t, l->body, sizeof t);
    if (t.order >= c->work->count)
        return bad_message(c, l->from, err);
    const es_status status = es_rank_message_error(c->r, l, err);
    if (t.order >= 0)
        c->state[t.order] = DONE;
    fail(c, status == ES_E_INTERRUPTED ? -1 : t.order, status, err);
    return ES_OK;
}

/* Handles one message by its kind. */
static es_status handle_message(coordinator *c, const es_rank_message *l, es_error *err)
{
    switch (l->head.kind) {
    case ES_MESSAGE_READY:
        c->states[l->from].threads = l->head.count > 0 ? l->head.count : 1;
        return send_pieces(c, l->from, err);
    case ES_MESSAGE_RESULTS:
        return take_results(c, l, err);
    case ES_MESSAGE_FAILED:
    case ES_MESSAGE_MEET: /* it failed before this round */
        return take_failure(c, l, err);
    default:
        return ES_OK;
    }
}

/* ---- the thread that serves other ranks ---- */

/* Reports progress every TICK seconds and stops the run on request, also while rank 0 only waits.
 */
static void check_stop(coordinator *c)
{
    const es_exec *e = &c->exec;
    const double now = es_seconds();
    if (!e->progress || now - c->last_report < TICK)
        return;
    c->last_report = now;
    const bool alone = c->work->one_thread_per_cell;
    if (e->progress(e->progress_user, alone ? (double)c->done : c->part,
                    alone ? (double)c->work->count : c->whole)) {
        es_error err = {0};
        es_fail(&err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request");
        fail(c, -1, ES_E_INTERRUPTED, &err);
    }
}

/* Runs on its own thread of rank 0: answers the other ranks while the main threads compute. */
static void *serve_ranks(void *user)
{
    coordinator *c = user;
    es_status status = ES_OK;
    pthread_mutex_lock(&c->lock);
    while (!c->closed && status == ES_OK) {
        es_rank_message message;
        es_error err = {0};
        pthread_mutex_unlock(&c->lock);
        status = es_rank_receive(c->r, TICK, &message, &err);
        const double since = es_seconds();
        pthread_mutex_lock(&c->lock);
        if (status == ES_OK && message.head.kind)
            status = handle_message(c, &message, &err);
        if (status != ES_OK)
            fail(c, -1, status, &err);
        check_stop(c);
        if (message.head.kind)
            c->r->tally.serve_seconds += es_seconds() - since;
        pthread_cond_broadcast(&c->changed);
        es_rank_message_free(&message);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- rank 0's own pieces ---- */

/* Reports progress under the lock, because the serving thread reports it as well. */
static bool locked_progress(void *user, double done, double total)
{
    coordinator *c = user;
    pthread_mutex_lock(&c->lock);
    const bool stop =
        c->exec.progress(c->exec.progress_user, done, total) || (c->stop && c->failed < 0);
    pthread_mutex_unlock(&c->lock);
    return stop;
}

/* Returns the position of the next piece for this thread, or -1 if none is left. */
static int64_t next_piece(coordinator *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->stop && c->next < c->work->count && c->next >= window_end(c))
        pthread_cond_wait(&c->changed, &c->lock);
    const bool any = !c->stop && c->next < c->work->count;
    const int64_t order = any ? c->next++ : -1;
    if (any)
        c->state[order] = ASSIGNED;
    pthread_mutex_unlock(&c->lock);
    return order;
}

/* Receives a piece that this rank computed itself. */
static void finish_piece(coordinator *c, int64_t order, es_status status, const double *numbers,
                         es_error *err)
{
    pthread_mutex_lock(&c->lock);
    c->r->tally.own++;
    if (status == ES_OK) {
        if (store_result(c, order, numbers, err) == ES_OK &&
            (status = send_pieces_to_all(c, err)) != ES_OK)
            fail(c, -1, status, err);
    } else {
        c->state[order] = DONE;
        fail(c, status == ES_E_INTERRUPTED ? -1 : order, status, err);
    }
    if (c->work->one_thread_per_cell)
        check_stop(c);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* Computes pieces on one thread until none is left. */
static es_status compute_pieces(void *user, int64_t unit, int thread, es_error *err)
{
    coordinator *c = user;
    const es_work *w = c->work;
    es_exec exec = c->exec;
    (void)unit;
    exec.progress = exec.progress && !w->one_thread_per_cell ? locked_progress : NULL;
    exec.progress_user = c;
    exec.threads = w->one_thread_per_cell ? 1 : exec.threads;
    for (int64_t order; (order = next_piece(c)) >= 0;) {
        const int64_t piece = w->pieces[c->order[order]];
        double *numbers =
            w->destination ? w->destination(w->user, piece) : c->scratch + thread * w->numbers;
        const es_status status = w->compute(w->user, piece, &exec, numbers, err);
        finish_piece(c, order, status, numbers, err);
    }
    return ES_OK; /* failures are in coordinator.status */
}

/* Computes pieces on rank 0 until none is left to start. */
static void compute_until_over(coordinator *c, int threads)
{
    es_error ignored;
    es_exec exec = c->exec;
    exec.progress = NULL;
    exec.threads = threads;
    if (threads > 1)
        es_parallel_run(&exec, threads, compute_pieces, c, &ignored);
    else
        compute_pieces(c, 0, 0, &ignored);
    pthread_mutex_lock(&c->lock);
    while (!is_over(c))
        pthread_cond_wait(&c->changed, &c->lock);
    c->closed = true;
    pthread_mutex_unlock(&c->lock);
}

/* ---- the whole list ---- */

typedef struct weighted {
    double weight;
    int64_t at;
} weighted;

/* Compares two pieces by weight, the heavier first, for qsort(). */
static int by_falling_weight(const void *a, const void *b)
{
    const weighted *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->at < y->at ? -1 : 1;
}

/* Sorts pieces by falling weight: long pieces last would leave ranks idle at the end. */
static es_status sort_pieces(coordinator *c, es_error *err)
{
    const es_work *w = c->work;
    if (!w->weight) {
        for (int64_t i = 0; i < w->count; i++)
            c->order[i] = i;
        return ES_OK;
    }
    weighted *all;
    ES_TRY(ES_MEM_NEW(NULL, all, w->count, "pieces", err));
    for (int64_t i = 0; i < w->count; i++)
        all[i] = (weighted){w->weight(w->user, w->pieces[i]), i};
    qsort(all, (size_t)w->count, sizeof *all, by_falling_weight);
    for (int64_t i = 0; i < w->count; i++)
        c->order[i] = all[i].at;
    es_mem_free(NULL, all);
    return ES_OK;
}

/* Allocates the lists of pieces and ranks. */
static es_status prepare(coordinator *c, int threads, es_error *err)
{
    const es_work *w = c->work;
    ES_TRY(ES_MEM_NEW(NULL, c->order, w->count, "pieces", err));
    ES_TRY(ES_MEM_NEW(NULL, c->state, w->count, "pieces", err));
    ES_TRY(ES_MEM_NEW(NULL, c->states, c->r->fabric->ranks, "ranks", err));
    if (!w->destination)
        ES_TRY(ES_MEM_NEW_2D(c->exec.budget, c->scratch, threads, w->numbers, "numbers", err));
    return sort_pieces(c, err);
}

/* Distributes all pieces: starts the serving thread, computes, and waits for the last results. */
static es_status run_list(coordinator *c, int threads, es_error *err)
{
    pthread_t server;
    ES_TRY(prepare(c, threads, err));
    if (pthread_create(&server, NULL, serve_ranks, c) != 0)
        return es_fail(err, ES_E_MEMORY, "ranks.thread", "use fewer threads or processes",
                       "cannot start the thread that distributes work");
    compute_until_over(c, threads);
    pthread_join(server, NULL);
    if (c->stop)
        *err = c->error;
    return c->stop ? c->status : ES_OK;
}

es_status es_coordinator_run(es_ranks *r, const es_work *work, const es_exec *exec, es_error *err)
{
    coordinator c = {.r = r,
                     .work = work,
                     .exec = *exec,
                     .whole = 1.0,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER};
    const int threads = work->one_thread_per_cell
                            ? es_parallel_threads(exec, work->count > 0 ? work->count : 1)
                            : 1;
    const es_status status = run_list(&c, threads, err);
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.lock);
    es_mem_free(exec->budget, c.scratch);
    es_mem_free(NULL, c.states);
    es_mem_free(NULL, c.state);
    es_mem_free(NULL, c.order);
    return es_verdict_send(r, status, err);
}
