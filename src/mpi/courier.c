/* SPDX-License-Identifier: Apache-2.0 */
/* courier.c : the life of the thread that calls MPI: it meets the other ranks, carries letters,
 * watches whether the others are alive, and ends. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "mpi/courier.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

/* Seconds. Naps are an eighth of the time in which nothing happened, so that an answer that took t
 * to make waits t/8 at most; the longest take one or two percent of a processor. While
 * bytes are on their way there are none, as MPI moves them in pieces and only when it is called. */
#define SPIN       60e-6
#define SPIN_BYTES 0.5
#define SHORTEST   50e-6
#define LONGEST    2e-3
#define BEAT       1.0
#define FLUSH_ILL  1.0 /* for letters to go out after a failure */
#define GATHER_ILL 5.0 /* for the other ranks to come after a failure */

/* ---- failures ---- */

/* Records the first failure and wakes the threads that wait for messages. `lost`: the rank that
 * is gone; NULL: MPI itself failed. */
void courier_fail(courier *c, es_status status, const es_error *err, peer *lost)
{
    pthread_mutex_lock(&c->lock);
    if (lost)
        lost->lost = true;
    else
        c->broken = true;
    if (c->failed == ES_OK) {
        c->failed = status;
        c->failure = *err;
    }
    pthread_cond_broadcast(&c->news);
    pthread_mutex_unlock(&c->lock);
}

/* Returns true for MPI_SUCCESS; otherwise records the failure with the text of MPI. */
bool courier_check(courier *c, int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    es_error err;
    if (code == MPI_SUCCESS)
        return true;
    MPI_Error_string(code, text, &length);
    es_fail(&err, ES_E_IO, "ranks.lost", "a rank died, or its machine or network is gone",
            "rank %d: %s: %.200s", c->fabric.rank, call, text);
    courier_fail(c, ES_E_IO, &err, NULL);
    return false;
}

/* ---- sleep ---- */

/* Converts seconds to a timespec. */
struct timespec courier_time(double at)
{
    return (struct timespec){.tv_sec = (time_t)at,
                             .tv_nsec = (long)(1e9 * (at - (double)(time_t)at))};
}

/* Sleeps between two rounds: briefly while messages are under way, longer the longer nothing has
 * moved. MPI has no blocking wait for "any message or a local request". */
static void rest(courier *c, bool moved)
{
    const double now = es_seconds();
    const bool bytes = c->under_way.first || c->arriving > 0;
    if (moved)
        c->active = now;
    const double idle = now - c->active;
    if (idle < (bytes ? SPIN_BYTES : SPIN)) {
        sched_yield();
        return;
    }
    const double nap = fmin(fmax(idle / 8.0, SHORTEST), LONGEST);
    const struct timespec until = courier_time(now + nap);
    pthread_mutex_lock(&c->lock);
    if (!c->outbox.first)
        pthread_cond_timedwait(&c->wake, &c->lock, &until);
    pthread_mutex_unlock(&c->lock);
}

/* ---- signs of life ---- */

/* Rank 0 watches all ranks, and all ranks watch rank 0, which reports the loss of any of them. */
static bool watches(const courier *c, int rank)
{
    return rank != c->fabric.rank && (c->fabric.rank == 0 || rank == 0);
}

/* Sends a sign of life to the other ranks at regular intervals. */
static void beat(courier *c, double now)
{
    const double patience = c->opts.patience;
    const double every = patience > 0.0 && patience < 8.0 * BEAT ? patience / 8.0 : BEAT;
    if (now - c->beaten < every)
        return;
    c->beaten = now;
    for (int r = 0; r < c->fabric.ranks; r++) {
        letter *one = watches(c, r) && !c->peers[r].beats ? letter_new(r, true, NULL, 0) : NULL;
        if (!one)
            continue;
        pthread_mutex_lock(&c->lock);
        letters_add(&c->outbox, one);
        pthread_mutex_unlock(&c->lock);
    }
}

/* Declares a rank lost that has been silent for --rank-timeout seconds. Time during which this
 * process itself was stopped does not count. */
static void look_around(courier *c, double now)
{
    const double slept = now - c->turned;
    c->turned = now;
    for (int r = 0; r < c->fabric.ranks && c->opts.patience > 0.0; r++) {
        peer *p = &c->peers[r];
        if (slept > BEAT) /* it was this process that was stopped; they may have spoken */
            p->heard += slept;
        if (!watches(c, r) || p->lost || now - p->heard <= c->opts.patience)
            continue;
        es_error err;
        es_fail(&err, ES_E_IO, "ranks.lost",
                "it died, or its machine or network is gone; --rank-timeout says how long to wait, "
                "and --resume goes on with a run file",
                "rank %d on %s (pid %lld): nothing heard for %.3g s", r, p->card.host,
                (long long)p->card.pid, c->opts.patience);
        courier_fail(c, ES_E_IO, &err, p);
    }
}

/* Runs one round: move messages, send signs of life, check the others, sleep. */
static void turn(courier *c)
{
    const bool moved = courier_carry(c);
    const double now = es_seconds();
    beat(c, now);
    look_around(c, now);
    rest(c, moved);
}

/* ---- the beginning ---- */

/* Fails with the error of an MPI call. */
static es_status refuse_mpi(courier *c, int code, const char *call, es_error *err)
{
    courier_check(c, code, call);
    *err = c->failure;
    return c->failed;
}

/* A request of all ranks, waited for in naps, as rank 0 may be late. */
static es_status meet(courier *c, MPI_Request *request, es_error *err)
{
    const double began = es_seconds(), limit = START_PATIENCE * c->opts.patience;
    int done = 0;
    c->active = began;
    for (;;) {
        const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            return refuse_mpi(c, code, "MPI_Test", err);
        if (done)
            return ES_OK;
        if (limit > 0.0 && es_seconds() - began > limit)
            return es_fail(err, ES_E_IO, "ranks.lost", "--rank-timeout says how long to wait",
                           "rank %d: some ranks did not arrive within %.3g s", c->fabric.rank,
                           limit);
        rest(c, false);
    }
}

/* "Open MPI 4.1.4" of "Open MPI v4.1.4, package: ...", "MPICH 4.0.2" of "MPICH Version: 4.0.2". */
static void read_name(courier *c)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    const char *number = text + strcspn(text, "0123456789");
    int name = (int)(number - text);
    while (name > 0 && strchr(" \t:v", text[name - 1]))
        name--;
    if (name > 8 && strncmp(text + name - 8, " Version", 8) == 0)
        name -= 8;
    snprintf(c->name, sizeof c->name, "%.*s %.24s", name < 32 ? name : 32, text, number);
}

/* Fails if the MPI does not allow a process to have threads. */
static es_status check_threads(int provided, es_error *err)
{
    static const char *const names[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                        "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
    const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                          MPI_THREAD_MULTIPLE};
    const char *got = "an unknown level";
    for (int i = 0; i < 4; i++)
        got = provided == levels[i] ? names[i] : got;
    if (provided >= MPI_THREAD_FUNNELED)
        return ES_OK;
    return es_fail(
        err, ES_E_UNSUPPORTED, "mpi.threads", "use an MPI that was built with threads",
        "MPI provides %s instead of MPI_THREAD_FUNNELED, so that a process cannot use threads",
        got);
}

/* Every rank's card, and how many of them have the processors of this one. The card that is sent
 * is after the last that is received: after a failure MPI may still read and write them all. */
static es_status exchange_cards(courier *c, es_error *err)
{
    const int ranks = c->fabric.ranks, size = (int)sizeof(card);
    card *cards = calloc((size_t)ranks + 1, sizeof *cards);
    c->peers = calloc((size_t)ranks, sizeof *c->peers);
    if (!cards || !c->peers) {
        free(cards);
        return es_fail(err, ES_E_MEMORY, "memory.system", "", "out of memory for %d ranks", ranks);
    }
    card *own = &cards[ranks];
    own->pid = getpid();
    gethostname(own->host, sizeof own->host - 1);
    sched_getaffinity(0, sizeof own->processors, &own->processors);
    MPI_Request request;
    const int code = MPI_Iallgather(own, size, MPI_BYTE, cards, size, MPI_BYTE, c->comm, &request);
    const es_status status =
        code == MPI_SUCCESS ? meet(c, &request, err) : refuse_mpi(c, code, "MPI_Iallgather", err);
    const double now = es_seconds();
    for (int r = 0; r < ranks && status == ES_OK; r++) {
        cpu_set_t both;
        c->peers[r] = (peer){.card = cards[r], .heard = now, .receiving = MPI_REQUEST_NULL};
        c->peers[r].end = &c->peers[r].first;
        CPU_AND(&both, &own->processors, &cards[r].processors);
        c->fabric.sharing += CPU_COUNT(&both) > 0 && strcmp(own->host, cards[r].host) == 0;
    }
    if (status == ES_OK)
        free(cards);
    return status;
}

/* Initialises MPI on this thread and exchanges the cards of all ranks: host, pid, version. */
static es_status start(courier *c, bool *begun, es_error *err)
{
    int provided = 0, there = 0;
    MPI_Initialized(&there);
    if (there)
        return es_fail(err, ES_E_ARGUMENT, "mpi.used",
                       "load the fabric once, and use no other MPI in this process",
                       "this process already uses MPI");
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS)
        return refuse_mpi(c, code, "MPI_Init_thread", err);
    *begun = true;
    read_name(c);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &c->fabric.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c->fabric.ranks);
    ES_TRY(check_threads(provided, err));
    MPI_Request request;
    code = MPI_Comm_idup(MPI_COMM_WORLD, &c->comm, &request);
    if (code != MPI_SUCCESS)
        return refuse_mpi(c, code, "MPI_Comm_idup", err);
    ES_TRY(meet(c, &request, err));
    MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    return exchange_cards(c, err);
}

/* ---- the end ---- */

/* Returns the exit code for MPI_Abort(). */
int courier_exit_code(const courier *c) { return c->fabric.exit_code ? c->fabric.exit_code : 1; }

/* Reads the state under the lock. */
static courier_state state_of(courier *c)
{
    pthread_mutex_lock(&c->lock);
    const courier_state state = c->state;
    pthread_mutex_unlock(&c->lock);
    return state;
}

/* Sets the state and wakes the threads that wait for it. */
static void set_state(courier *c, courier_state state)
{
    pthread_mutex_lock(&c->lock);
    c->state = state;
    pthread_cond_broadcast(&c->news);
    pthread_mutex_unlock(&c->lock);
}

/* Carries on until everything has gone out, for at most `seconds` (0: for ever). */
static bool flush(courier *c, double seconds)
{
    const double began = es_seconds();
    for (;;) {
        turn(c);
        pthread_mutex_lock(&c->lock);
        const bool waiting = c->outbox.first != NULL;
        pthread_mutex_unlock(&c->lock);
        if (!waiting && !c->under_way.first)
            return c->failed == ES_OK;
        if (c->failed != ES_OK && (seconds <= 0.0 || seconds > FLUSH_ILL))
            seconds = FLUSH_ILL;
        if (seconds > 0.0 && es_seconds() - began > seconds)
            return false;
    }
}

/* Waits until all ranks have arrived, for at most `seconds` (0: for ever). Messages that still
 * arrive are accepted, so that their senders can continue. */
static bool gather(courier *c, double seconds)
{
    const double began = es_seconds();
    MPI_Request request;
    int done = 0;
    if (MPI_Ibarrier(c->comm, &request) != MPI_SUCCESS)
        return false;
    while (!done && c->failed == ES_OK) {
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (!done && seconds > 0.0 && es_seconds() - began > seconds)
            return false;
        if (!done)
            turn(c);
    }
    return done != 0;
}

/* Ends MPI: after a success when all messages have been sent, after a failure by MPI_Abort(). */
static void end(courier *c)
{
    const bool well = c->state == ENDING_WELL;
    /* rank 0 may still be summing up: wait for every rank that is alive */
    const bool all = flush(c, well ? 0.0 : FLUSH_ILL) && gather(c, well ? 0.0 : GATHER_ILL);
    if (all) {
        MPI_Finalize();
        set_state(c, ENDED);
        return;
    }
    fflush(NULL);
    set_state(c, ABORTING);
    MPI_Abort(c->comm, courier_exit_code(c));
    _exit(courier_exit_code(c));
}

/* Runs on its own thread, the only one that calls MPI (MPI_THREAD_FUNNELED), from MPI_Init to
 * MPI_Finalize. */
void *courier_main(void *user)
{
    courier *c = user;
    es_error err = {0};
    bool begun = false;
    prctl(PR_SET_TIMERSLACK, 1000L); /* ns that naps of this thread may last longer, for 50000 */
    const es_status status = start(c, &begun, &err);
    if (begun && status != ES_OK && status != ES_E_IO) /* or it would wait */
        MPI_Finalize();
    pthread_mutex_lock(&c->lock);
    c->state = status == ES_OK ? RUNNING : REFUSED;
    c->failed = status;
    c->failure = err;
    pthread_cond_broadcast(&c->news);
    pthread_mutex_unlock(&c->lock);
    if (status != ES_OK)
        return NULL;
    c->active = c->turned = es_seconds();
    while (state_of(c) == RUNNING)
        turn(c);
    end(c);
    return NULL;
}
