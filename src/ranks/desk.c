/* SPDX-License-Identifier: Apache-2.0 */
/* desk.c : rank 0 at a list of work. A thread of its own, the *clerk*, reads letters, hands out
 * pieces and keeps the numbers that come; the caller's threads work on pieces like any other rank.
 *
 * A rank is given a piece for each of its threads, and more in advance only where pieces are so
 * short that it would wait for letters: so much as it does in LEAD seconds. Results are kept under
 * one lock, in the order in which they come. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "ranks/ranks_inside.h"

#define LEAD 0.02 /* seconds: some ten times what a letter and its answer take */
#define TICK 0.05 /* seconds between two checks for a stop request */

enum { MOST_AHEAD = 512 }; /* pieces that a rank has in hand */

typedef enum piece_state { WAITING, IN_HAND, DONE } piece_state;

/* What rank 0 knows of another. */
typedef struct hand {
    int64_t threads; /* that take a piece each; 0: it has not come yet */
    int64_t held;    /* pieces it has */
    double pace;     /* seconds that a piece took it lately; 0: unknown */
} hand;

typedef struct desk {
    es_ranks *r;
    const es_work *work;
    es_exec exec;         /* as given */
    int64_t *order;       /* (count) places in work->pieces, large pieces first */
    char *state;          /* (count) of order[i] */
    double *scratch;      /* (threads, numbers) where pieces have no place of their own */
    int64_t next, done;   /* handed out; kept */
    int64_t lowest;       /* place of the first that is not kept */
    hand *hands;          /* (ranks) */
    pthread_mutex_t lock; /* protects everything below, and calls of done() and progress */
    pthread_cond_t news;
    bool stop; /* nothing more is handed out: */
    es_status status;
    int64_t failed; /* place in the order of what failed; -1: all of it */
    es_error error;
    bool closed;              /* the clerk goes home */
    double told, part, whole; /* time of the last progress report; progress within a piece */
} desk;

/* ---- distributing pieces ---- */

/* Returns true when all pieces are done or, after a failure, when every piece before the failed
 * one is: the first failure in order is the one to report. */
static bool over(const desk *d)
{
    if (!d->stop)
        return d->done == d->work->count;
    for (int64_t i = 0; i < d->failed;
         i++) /* an earlier piece may fail, too, and would be the one to report */
        if (d->state[i] == IN_HAND)
            return false;
    return true;
}

/* The failure of the lowest piece; -1: of everything, at once. */
static void fail(desk *d, int64_t at, es_status status, const es_error *err)
{
    if (d->stop && at >= d->failed)
        return;
    d->stop = true;
    d->failed = at;
    d->status = status;
    d->error = *err;
    d->error.code = status;
}

/* Returns how many pieces a rank should hold, including those sent in advance. */
static int64_t ahead(const desk *d, const hand *h)
{
    const int64_t left = d->work->count - d->next, fair = left / (2 * d->r->fabric->ranks);
    double wanted = h->pace > 0.0 && h->pace < 10.0 * LEAD ? 1.0 + LEAD / h->pace : 0.0;
    wanted *= (double)h->threads;
    const int64_t more = wanted < MOST_AHEAD ? (int64_t)wanted : MOST_AHEAD;
    return h->threads + (more < fair ? more : fair);
}

/* Pieces before this one may be handed out. */
static int64_t open_to(const desk *d)
{
    const int64_t window = d->work->window;
    return window && window < d->work->count - d->lowest ? d->lowest + window : d->work->count;
}

/* Sends a rank as many pieces as it can compute until the next message arrives. */
static es_status give(desk *d, int rank, es_error *err)
{
    hand *h = &d->hands[rank];
    es_rank_piece tasks[MOST_AHEAD];
    int64_t n = 0;
    const int64_t most = ahead(d, h);
    if (h->held >= h->threads && h->held > most / 2)
        return ES_OK; /* letters of one piece each would be many */
    while (h->held < most && n < MOST_AHEAD && d->next < open_to(d) && !d->stop) {
        d->state[d->next] = IN_HAND;
        tasks[n++] = (es_rank_piece){.order = d->next, .piece = d->work->pieces[d->order[d->next]]};
        d->next++;
        h->held++;
    }
    return n ? es_post(d->r, rank, (es_letter_head){.kind = ES_LETTER_WORK, .count = n}, tasks,
                       (size_t)n * sizeof *tasks, err)
             : ES_OK;
}

/* ---- what comes back ---- */

/* Fails because a rank sent a message that does not fit the protocol. */
static es_status bad_letter(const desk *d, int from, es_error *err)
{
    char name[96];
    return es_fail(err, ES_E_FORMAT, "ranks.letter",
                   "use the same version of the program on all machines",
                   "%s sent an unexpected message", es_rank_name(d->r, from, name, sizeof name));
}

/* Is it a piece that this rank may have? */
static bool expected(const desk *d, const es_rank_piece *t)
{
    return t->order >= 0 && t->order < d->work->count && d->state[t->order] == IN_HAND &&
           d->work->pieces[d->order[t->order]] == t->piece;
}

/* Marks a piece as done and hands its numbers to the owner. */
static es_status keep(desk *d, int64_t order, const double *numbers, es_error *err)
{
    const es_work *w = d->work;
    d->state[order] = DONE;
    d->done++;
    const es_status status = w->done(w->user, w->pieces[d->order[order]], numbers, err);
    if (status != ES_OK)
        fail(d, -1, status, err);
    while (d->lowest < w->count && d->state[d->lowest] == DONE)
        d->lowest++;
    return status;
}

/* Ranks that had to wait until the window moved. */
static es_status give_all(desk *d, es_error *err)
{
    for (int rank = 1; d->work->window && rank < d->r->fabric->ranks; rank++)
        if (d->hands[rank].threads && d->hands[rank].held < d->hands[rank].threads)
            ES_TRY(give(d, rank, err));
    return ES_OK;
}

/* Receives finished pieces of a rank and gives it new ones. */
static es_status take_results(desk *d, const es_letter *l, es_error *err)
{
    const size_t each = sizeof(es_rank_piece) + (size_t)d->work->numbers * sizeof(double);
    hand *h = &d->hands[l->from];
    if (l->head.count < 0 || l->size % each || (size_t)l->head.count != l->size / each)
        return bad_letter(d, l->from, err);
    for (int64_t i = 0; i < l->head.count; i++) {
        const char *at = l->body + (size_t)i * each;
        es_rank_piece t;
        memcpy(&t, at, sizeof t);
        if (!expected(d, &t))
            return bad_letter(d, l->from, err);
        h->held--;
        h->pace += (h->pace > 0.0 ? 0.3 : 1.0) * (t.seconds - h->pace);
        d->r->tally.pieces++;
        /* sizes of heads and tasks are multiples of 8, and messages begin at such an address */
        ES_TRY(keep(d, t.order, (const double *)(const void *)(at + sizeof t), err));
    }
    d->r->tally.wait_seconds += l->head.waited;
    ES_TRY(give(d, l->from, err));
    return give_all(d, err);
}

/* Receives the failure of a rank: of one piece, or of the rank as a whole. */
static es_status take_failure(desk *d, const es_letter *l, es_error *err)
{
    es_rank_piece t = {.order = -1};
    if (l->head.kind == ES_LETTER_FAILED && l->size >= sizeof t)
        memcpy(&t, l->body, sizeof t);
    if (t.order >= d->work->count)
        return bad_letter(d, l->from, err);
    const es_status status = es_letter_error(d->r, l, err);
    if (t.order >= 0)
        d->state[t.order] = DONE;
    fail(d, status == ES_E_INTERRUPTED ? -1 : t.order, status, err);
    return ES_OK;
}

/* Handles one message by its kind. */
static es_status read_letter(desk *d, const es_letter *l, es_error *err)
{
    switch (l->head.kind) {
    case ES_LETTER_READY:
        d->hands[l->from].threads = l->head.count > 0 ? l->head.count : 1;
        return give(d, l->from, err);
    case ES_LETTER_RESULTS:
        return take_results(d, l, err);
    case ES_LETTER_FAILED:
    case ES_LETTER_MEET: /* it is not even here */
        return take_failure(d, l, err);
    default:
        return ES_OK;
    }
}

/* ---- the clerk ---- */

/* Somebody may ask to stop while rank 0 has nothing to do but wait. */
static void tick(desk *d)
{
    const es_exec *e = &d->exec;
    const double now = es_seconds();
    if (!e->progress || now - d->told < TICK)
        return;
    d->told = now;
    const bool alone = d->work->one_thread_per_cell;
    if (e->progress(e->progress_user, alone ? (double)d->done : d->part,
                    alone ? (double)d->work->count : d->whole)) {
        es_error err = {0};
        es_fail(&err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request");
        fail(d, -1, ES_E_INTERRUPTED, &err);
    }
}

/* Runs on its own thread of rank 0: answers the other ranks while the main threads compute. */
static void *clerk(void *user)
{
    desk *d = user;
    es_status status = ES_OK;
    pthread_mutex_lock(&d->lock);
    while (!d->closed && status == ES_OK) {
        es_letter letter;
        es_error err = {0};
        pthread_mutex_unlock(&d->lock);
        status = es_fetch(d->r, TICK, &letter, &err);
        const double since = es_seconds();
        pthread_mutex_lock(&d->lock);
        if (status == ES_OK && letter.head.kind)
            status = read_letter(d, &letter, &err);
        if (status != ES_OK)
            fail(d, -1, status, &err);
        tick(d);
        if (letter.head.kind)
            d->r->tally.serve_seconds += es_seconds() - since;
        pthread_cond_broadcast(&d->news);
        es_letter_free(&letter);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- rank 0's own pieces ---- */

/* Reports progress under the lock: the clerk and the main threads both call it. */
static bool locked_progress(void *user, double done, double total)
{
    desk *d = user;
    pthread_mutex_lock(&d->lock);
    const bool stop =
        d->exec.progress(d->exec.progress_user, done, total) || (d->stop && d->failed < 0);
    pthread_mutex_unlock(&d->lock);
    return stop;
}

/* A piece for this thread; -1: there is none left. */
static int64_t take(desk *d)
{
    pthread_mutex_lock(&d->lock);
    while (!d->stop && d->next < d->work->count && d->next >= open_to(d))
        pthread_cond_wait(&d->news, &d->lock);
    const bool any = !d->stop && d->next < d->work->count;
    const int64_t order = any ? d->next++ : -1;
    if (any)
        d->state[order] = IN_HAND;
    pthread_mutex_unlock(&d->lock);
    return order;
}

/* Receives a piece that this rank computed itself. */
static void put(desk *d, int64_t order, es_status status, const double *numbers, es_error *err)
{
    pthread_mutex_lock(&d->lock);
    d->r->tally.own++;
    if (status == ES_OK) {
        if (keep(d, order, numbers, err) == ES_OK && (status = give_all(d, err)) != ES_OK)
            fail(d, -1, status, err);
    } else {
        d->state[order] = DONE;
        fail(d, status == ES_E_INTERRUPTED ? -1 : order, status, err);
    }
    if (d->work->one_thread_per_cell)
        tick(d);
    pthread_cond_broadcast(&d->news);
    pthread_mutex_unlock(&d->lock);
}

/* One thread of those that take pieces. */
static es_status work_on(void *user, int64_t unit, int thread, es_error *err)
{
    desk *d = user;
    const es_work *w = d->work;
    es_exec exec = d->exec;
    (void)unit;
    exec.progress = exec.progress && !w->one_thread_per_cell ? locked_progress : NULL;
    exec.progress_user = d;
    exec.threads = w->one_thread_per_cell ? 1 : exec.threads;
    for (int64_t order; (order = take(d)) >= 0;) {
        const int64_t piece = w->pieces[d->order[order]];
        double *numbers = w->room ? w->room(w->user, piece) : d->scratch + thread * w->numbers;
        const es_status status = w->compute(w->user, piece, &exec, numbers, err);
        put(d, order, status, numbers, err);
    }
    return ES_OK; /* failures are the desk's */
}

/* Computes pieces on rank 0 until none is left to start. */
static void work_until_over(desk *d, int threads)
{
    es_error ignored;
    es_exec exec = d->exec;
    exec.progress = NULL;
    exec.threads = threads;
    if (threads > 1)
        es_parallel_run(&exec, threads, work_on, d, &ignored);
    else
        work_on(d, 0, 0, &ignored);
    pthread_mutex_lock(&d->lock);
    while (!over(d))
        pthread_cond_wait(&d->news, &d->lock);
    d->closed = true;
    pthread_mutex_unlock(&d->lock);
}

/* ---- the list ---- */

typedef struct weighed {
    double weight;
    int64_t at;
} weighed;

/* Compares two pieces by weight, the heavier first, for qsort(). */
static int by_falling_weight(const void *a, const void *b)
{
    const weighed *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->at < y->at ? -1 : 1;
}

/* Sorts pieces by falling weight: long pieces last would leave ranks idle at the end. */
static es_status put_in_order(desk *d, es_error *err)
{
    const es_work *w = d->work;
    if (!w->weight) {
        for (int64_t i = 0; i < w->count; i++)
            d->order[i] = i;
        return ES_OK;
    }
    weighed *all;
    ES_TRY(ES_MEM_NEW(NULL, all, w->count, "pieces", err));
    for (int64_t i = 0; i < w->count; i++)
        all[i] = (weighed){w->weight(w->user, w->pieces[i]), i};
    qsort(all, (size_t)w->count, sizeof *all, by_falling_weight);
    for (int64_t i = 0; i < w->count; i++)
        d->order[i] = all[i].at;
    es_mem_free(NULL, all);
    return ES_OK;
}

/* Allocates the lists of pieces and ranks. */
static es_status prepare(desk *d, int threads, es_error *err)
{
    const es_work *w = d->work;
    ES_TRY(ES_MEM_NEW(NULL, d->order, w->count, "pieces", err));
    ES_TRY(ES_MEM_NEW(NULL, d->state, w->count, "pieces", err));
    ES_TRY(ES_MEM_NEW(NULL, d->hands, d->r->fabric->ranks, "ranks", err));
    if (!w->room)
        ES_TRY(ES_MEM_NEW_2D(d->exec.budget, d->scratch, threads, w->numbers, "numbers", err));
    return put_in_order(d, err);
}

/* Distributes all pieces: starts the clerk, computes, and waits for the last results. */
static es_status run_list(desk *d, int threads, es_error *err)
{
    pthread_t served;
    ES_TRY(prepare(d, threads, err));
    if (pthread_create(&served, NULL, clerk, d) != 0)
        return es_fail(err, ES_E_MEMORY, "ranks.thread", "use fewer threads or processes",
                       "cannot start the thread that distributes work");
    work_until_over(d, threads);
    pthread_join(served, NULL);
    if (d->stop)
        *err = d->error;
    return d->stop ? d->status : ES_OK;
}

es_status es_desk_run(es_ranks *r, const es_work *work, const es_exec *exec, es_error *err)
{
    desk d = {.r = r,
              .work = work,
              .exec = *exec,
              .whole = 1.0,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .news = PTHREAD_COND_INITIALIZER};
    const int threads = work->one_thread_per_cell
                            ? es_parallel_threads(exec, work->count > 0 ? work->count : 1)
                            : 1;
    const es_status status = run_list(&d, threads, err);
    pthread_cond_destroy(&d.news);
    pthread_mutex_destroy(&d.lock);
    es_mem_free(exec->budget, d.scratch);
    es_mem_free(NULL, d.hands);
    es_mem_free(NULL, d.state);
    es_mem_free(NULL, d.order);
    return es_verdict_send(r, status, err);
}
