/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_thread.c : the thread that calls MPI: it waits for the other ranks at the start, moves
 * messages, checks whether the other ranks are alive, and ends MPI. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "mpi/mpi_thread.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

/* Times in seconds. The thread sleeps for an eighth of the time since the last message, so an
 * answer that took t to compute waits at most t/8. At the longest sleep, polling takes one or two
 * percent of a CPU. The thread spins while bytes are in flight: MPI moves them only when called. */
#define SPIN           60e-6
#define SPIN_BYTES     0.5
#define SHORTEST       50e-6
#define LONGEST        2e-3
#define HEARTBEAT      1.0
#define FLUSH_FAILED   1.0 /* to send queued messages after a failure */
#define BARRIER_FAILED 5.0 /* to wait for the other ranks after a failure */

/* ---- failures ---- */

/* Records the first failure and wakes the threads that wait for messages. `lost`: the rank that
 * is gone; NULL: MPI itself failed. */
void mpi_thread_fail(mpi_thread *t, es_status status, const es_error *err, peer *lost)
{
    pthread_mutex_lock(&t->lock);
    if (lost)
        lost->lost = true;
    else
        t->broken = true;
    if (t->failed == ES_OK) {
        t->failed = status;
        t->failure = *err;
    }
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* Returns true for MPI_SUCCESS; otherwise records the failure with the text of MPI. */
bool mpi_thread_check(mpi_thread *t, int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    es_error err;
    if (code == MPI_SUCCESS)
        return true;
    MPI_Error_string(code, text, &length);
    es_fail(&err, ES_E_IO, "ranks.lost", "a rank died, or its machine or network is gone",
            "rank %d: %s: %.200s", t->fabric.rank, call, text);
    mpi_thread_fail(t, ES_E_IO, &err, NULL);
    return false;
}

/* ---- sleep ---- */

/* Converts seconds to a timespec. */
struct timespec mpi_thread_time(double at)
{
    return (struct timespec){.tv_sec = (time_t)at,
                             .tv_nsec = (long)(1e9 * (at - (double)(time_t)at))};
}

/* Sleeps between two rounds: briefly while messages are under way, longer the longer nothing has
 * moved. MPI has no blocking wait for "any message or a local request". */
static void sleep_briefly(mpi_thread *t, bool moved)
{
    const double now = es_seconds();
    const bool bytes = t->in_flight.first || t->arriving > 0;
    if (moved)
        t->last_move = now;
    const double idle = now - t->last_move;
    if (idle < (bytes ? SPIN_BYTES : SPIN)) {
        sched_yield();
        return;
    }
    const double nap = fmin(fmax(idle / 8.0, SHORTEST), LONGEST);
    const struct timespec until = mpi_thread_time(now + nap);
    pthread_mutex_lock(&t->lock);
    if (!t->outbox.first)
        pthread_cond_timedwait(&t->wake, &t->lock, &until);
    pthread_mutex_unlock(&t->lock);
}

/* ---- heartbeats ---- */

/* Returns true if this rank exchanges heartbeats with `rank`: rank 0 does with all, and reports the
 * loss of any of them to the others. */
static bool watches(const mpi_thread *t, int rank)
{
    return rank != t->fabric.rank && (t->fabric.rank == 0 || rank == 0);
}

/* Sends heartbeats at regular intervals. */
static void send_heartbeats(mpi_thread *t, double now)
{
    const double timeout = t->opts.timeout;
    const double every = timeout > 0.0 && timeout < 8.0 * HEARTBEAT ? timeout / 8.0 : HEARTBEAT;
    if (now - t->last_heartbeat < every)
        return;
    t->last_heartbeat = now;
    for (int r = 0; r < t->fabric.ranks; r++) {
        packet *one =
            watches(t, r) && !t->peers[r].heartbeats ? packet_new(r, true, NULL, 0) : NULL;
        if (!one)
            continue;
        pthread_mutex_lock(&t->lock);
        packets_add(&t->outbox, one);
        pthread_mutex_unlock(&t->lock);
    }
}

/* Declares a rank lost that has been silent for --rank-timeout seconds. Time during which this
 * process itself was stopped does not count. */
static void check_timeouts(mpi_thread *t, double now)
{
    const double slept = now - t->last_round;
    t->last_round = now;
    for (int r = 0; r < t->fabric.ranks && t->opts.timeout > 0.0; r++) {
        peer *p = &t->peers[r];
        if (slept > HEARTBEAT) /* this process was stopped; messages may be waiting */
            p->heard += slept;
        if (!watches(t, r) || p->lost || now - p->heard <= t->opts.timeout)
            continue;
        es_error err;
        es_fail(&err, ES_E_IO, "ranks.lost",
                "it died, or its machine or network is gone; --rank-timeout says how long to wait, "
                "and --resume goes on with a run file",
                "rank %d on %s (pid %lld): nothing heard for %.3g s", r, p->info.host,
                (long long)p->info.pid, t->opts.timeout);
        mpi_thread_fail(t, ES_E_IO, &err, p);
    }
}

/* Runs one round: moves messages, sends heartbeats, checks for lost ranks, sleeps. */
static void run_round(mpi_thread *t)
{
    const bool moved = mpi_thread_progress(t);
    const double now = es_seconds();
    send_heartbeats(t, now);
    check_timeouts(t, now);
    sleep_briefly(t, moved);
}

/* ---- start ---- */

/* Fails with the error of an MPI call. */
static es_status fail_mpi(mpi_thread *t, int code, const char *call, es_error *err)
{
    mpi_thread_check(t, code, call);
    *err = t->failure;
    return t->failed;
}

/* Waits for a collective request of all ranks; sleeps in between, because ranks start late. */
static es_status wait_for_all(mpi_thread *t, MPI_Request *request, es_error *err)
{
    const double began = es_seconds(), limit = START_FACTOR * t->opts.timeout;
    int done = 0;
    t->last_move = began;
    for (;;) {
        const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            return fail_mpi(t, code, "MPI_Test", err);
        if (done)
            return ES_OK;
        if (limit > 0.0 && es_seconds() - began > limit)
            return es_fail(err, ES_E_IO, "ranks.lost", "--rank-timeout says how long to wait",
                           "rank %d: some ranks did not arrive within %.3g s", t->fabric.rank,
                           limit);
        sleep_briefly(t, false);
    }
}

/* Stores the name of the MPI library: "Open MPI 4.1.4" from "Open MPI v4.1.4, package: ...",
 * "MPICH 4.0.2" from "MPICH Version: 4.0.2". */
static void read_name(mpi_thread *t)
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
    snprintf(t->name, sizeof t->name, "%.*s %.24s", name < 32 ? name : 32, text, number);
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

/* Exchanges the rank_info of all ranks and counts the ranks that share processors with this one.
 * The array has one more element, which this rank sends. After a failure it is not freed, because
 * MPI may still read and write it. */
static es_status exchange_cards(mpi_thread *t, es_error *err)
{
    const int ranks = t->fabric.ranks, size = (int)sizeof(rank_info);
    rank_info *infos = calloc((size_t)ranks + 1, sizeof *infos);
    t->peers = calloc((size_t)ranks, sizeof *t->peers);
    if (!infos || !t->peers) {
        free(infos);
        return es_fail(err, ES_E_MEMORY, "memory.system", "", "out of memory for %d ranks", ranks);
    }
    rank_info *own = &infos[ranks];
    own->pid = getpid();
    gethostname(own->host, sizeof own->host - 1);
    sched_getaffinity(0, sizeof own->processors, &own->processors);
    MPI_Request request;
    const int code = MPI_Iallgather(own, size, MPI_BYTE, infos, size, MPI_BYTE, t->comm, &request);
    const es_status status = code == MPI_SUCCESS ? wait_for_all(t, &request, err)
                                                 : fail_mpi(t, code, "MPI_Iallgather", err);
    const double now = es_seconds();
    for (int r = 0; r < ranks && status == ES_OK; r++) {
        cpu_set_t both;
        t->peers[r] = (peer){.info = infos[r], .heard = now, .receiving = MPI_REQUEST_NULL};
        t->peers[r].end = &t->peers[r].first;
        CPU_AND(&both, &own->processors, &infos[r].processors);
        t->fabric.sharing += CPU_COUNT(&both) > 0 && strcmp(own->host, infos[r].host) == 0;
    }
    if (status == ES_OK)
        free(infos);
    return status;
}

/* Initialises MPI on this thread and exchanges host, pid and processors of all ranks. */
static es_status start(mpi_thread *t, bool *begun, es_error *err)
{
    int provided = 0, there = 0;
    MPI_Initialized(&there);
    if (there)
        return es_fail(err, ES_E_ARGUMENT, "mpi.used",
                       "load the fabric once, and use no other MPI in this process",
                       "this process already uses MPI");
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS)
        return fail_mpi(t, code, "MPI_Init_thread", err);
    *begun = true;
    read_name(t);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &t->fabric.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t->fabric.ranks);
    ES_TRY(check_threads(provided, err));
    MPI_Request request;
    code = MPI_Comm_idup(MPI_COMM_WORLD, &t->comm, &request);
    if (code != MPI_SUCCESS)
        return fail_mpi(t, code, "MPI_Comm_idup", err);
    ES_TRY(wait_for_all(t, &request, err));
    MPI_Comm_set_errhandler(t->comm, MPI_ERRORS_RETURN);
    return exchange_cards(t, err);
}

/* ---- end ---- */

/* Returns the exit code for MPI_Abort(). */
int mpi_thread_exit_code(const mpi_thread *t)
{
    return t->fabric.exit_code ? t->fabric.exit_code : 1;
}

/* Reads the state under the lock. */
static mpi_thread_state state_of(mpi_thread *t)
{
    pthread_mutex_lock(&t->lock);
    const mpi_thread_state state = t->state;
    pthread_mutex_unlock(&t->lock);
    return state;
}

/* Sets the state and wakes the threads that wait for it. */
static void set_state(mpi_thread *t, mpi_thread_state state)
{
    pthread_mutex_lock(&t->lock);
    t->state = state;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* Runs rounds until all messages have been sent, for at most `seconds` (0: no limit). */
static bool flush(mpi_thread *t, double seconds)
{
    const double began = es_seconds();
    for (;;) {
        run_round(t);
        pthread_mutex_lock(&t->lock);
        const bool waiting = t->outbox.first != NULL;
        pthread_mutex_unlock(&t->lock);
        if (!waiting && !t->in_flight.first)
            return t->failed == ES_OK;
        if (t->failed != ES_OK && (seconds <= 0.0 || seconds > FLUSH_FAILED))
            seconds = FLUSH_FAILED;
        if (seconds > 0.0 && es_seconds() - began > seconds)
            return false;
    }
}

/* Waits until all ranks have arrived, for at most `seconds` (0: no limit). Messages that still
 * arrive are accepted, so that their senders can continue. */
static bool wait_at_barrier(mpi_thread *t, double seconds)
{
    const double began = es_seconds();
    MPI_Request request;
    int done = 0;
    if (MPI_Ibarrier(t->comm, &request) != MPI_SUCCESS)
        return false;
    while (!done && t->failed == ES_OK) {
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (!done && seconds > 0.0 && es_seconds() - began > seconds)
            return false;
        if (!done)
            run_round(t);
    }
    return done != 0;
}

/* Ends MPI: after a success when all messages have been sent, after a failure by MPI_Abort(). */
static void end(mpi_thread *t)
{
    const bool well = t->state == CLOSING;
    /* after a success rank 0 may still write its tables: wait without a limit */
    const bool all =
        flush(t, well ? 0.0 : FLUSH_FAILED) && wait_at_barrier(t, well ? 0.0 : BARRIER_FAILED);
    if (all) {
        MPI_Finalize();
        set_state(t, ENDED);
        return;
    }
    fflush(NULL);
    set_state(t, ABORTING);
    MPI_Abort(t->comm, mpi_thread_exit_code(t));
    _exit(mpi_thread_exit_code(t));
}

/* Runs on its own thread, the only one that calls MPI (MPI_THREAD_FUNNELED), from MPI_Init to
 * MPI_Finalize. */
void *mpi_thread_main(void *user)
{
    mpi_thread *t = user;
    es_error err = {0};
    bool begun = false;
    prctl(PR_SET_TIMERSLACK, 1000L); /* timer error in ns; the default is 50000 */
    const es_status status = start(t, &begun, &err);
    if (begun && status != ES_OK && status != ES_E_IO) /* after ES_E_IO it could block */
        MPI_Finalize();
    pthread_mutex_lock(&t->lock);
    t->state = status == ES_OK ? RUNNING : FAILED_START;
    t->failed = status;
    t->failure = err;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (status != ES_OK)
        return NULL;
    t->last_move = t->last_round = es_seconds();
    while (state_of(t) == RUNNING)
        run_round(t);
    end(t);
    return NULL;
}
