/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_mpi.c : the fabric over MPI. Its functions may be called from any thread; they exchange
 * messages with the MPI thread (mpi_thread.h). */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "mpi/mpi_thread.h"
#include "ranks/fabric_plugin.h"

#define ABORT_SECONDS 3.0 /* time limit of MPI_Abort() */

/* Returns the name of the machine of a rank. */
static const char *host(const es_fabric *self, int rank)
{
    const mpi_thread *t = self->state;
    return t->peers[rank].info.host;
}

/* Queues a copy of the bytes for the MPI thread and returns at once. */
static es_status send_bytes(const es_fabric *self, int to, const void *bytes, size_t size,
                            es_error *err)
{
    mpi_thread *t = self->state;
    packet *one = packet_new(to, false, bytes, size);
    if (!one)
        return es_fail(err, ES_E_MEMORY, "memory.system", "",
                       "out of memory for a message of %zu bytes", size);
    pthread_mutex_lock(&t->lock);
    const es_status status = t->broken || t->peers[to].lost ? t->failed : ES_OK;
    if (status == ES_OK) {
        packets_add(&t->outbox, one);
        pthread_cond_signal(&t->wake);
    } else if (err) {
        *err = t->failure;
    }
    pthread_mutex_unlock(&t->lock);
    if (status != ES_OK)
        packet_free(one);
    return status;
}

/* Removes and returns the first message of the inbox. The caller holds the lock. */
static es_message take(mpi_thread *t)
{
    packet *one = t->inbox.first;
    t->inbox.first = one->next;
    if (!one->next)
        packets_init(&t->inbox);
    const es_message out = {.from = one->peer, .bytes = one->bytes, .size = one->size};
    free(one);
    return out;
}

/* Waits up to `seconds` for the next message. */
static es_status receive_bytes(const es_fabric *self, double seconds, es_message *out,
                               es_error *err)
{
    mpi_thread *t = self->state;
    const double most = 1e6, at = es_seconds() + (seconds < most ? seconds : most);
    const struct timespec until = mpi_thread_time(at);
    es_status status = ES_OK;
    *out = (es_message){.from = -1};
    pthread_mutex_lock(&t->lock);
    while (!t->inbox.first && t->failed == ES_OK && es_seconds() < at)
        pthread_cond_timedwait(&t->changed, &t->lock, &until);
    if (t->inbox.first) {
        *out = take(t);
    } else if (t->failed != ES_OK) { /* earlier messages have been received */
        status = t->failed;
        if (err)
            *err = t->failure;
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- start and end ---- */

/* Frees queues, peers and locks. */
static void free_thread(mpi_thread *t)
{
    packets_free(&t->inbox);
    packets_free(&t->outbox);
    packets_free(&t->in_flight);
    for (int r = 0; t->peers && r < t->fabric.ranks; r++) {
        free(t->peers[r].part);
        free(t->peers[r].whole);
        while (t->peers[r].first) {
            arrival *a = t->peers[r].first;
            t->peers[r].first = a->next;
            free(a);
        }
    }
    free(t->peers);
    pthread_cond_destroy(&t->wake);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* Ends the MPI thread, after a success or a failure, and waits for it. */
static void close_fabric(es_fabric *self, bool well)
{
    mpi_thread *t = self->state;
    pthread_mutex_lock(&t->lock);
    t->state = well ? CLOSING : CLOSING_FAILED;
    pthread_cond_signal(&t->wake);
    while (t->state != ENDED && t->state != ABORTING)
        pthread_cond_wait(&t->changed, &t->lock);
    /* MPI_Abort() of MPICH can hang when another rank is stopped */
    const struct timespec until = mpi_thread_time(es_seconds() + ABORT_SECONDS);
    while (t->state == ABORTING)
        if (pthread_cond_timedwait(&t->changed, &t->lock, &until) == ETIMEDOUT)
            _exit(mpi_thread_exit_code(t));
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    free_thread(t);
}

/* Allocates the state of the fabric; its condition variables use the monotonic clock. */
static mpi_thread *new_thread(const es_fabric_opts *opts)
{
    mpi_thread *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&t->wake, &attributes);
    pthread_cond_init(&t->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&t->lock, NULL);
    packets_init(&t->outbox);
    packets_init(&t->inbox);
    packets_init(&t->in_flight);
    t->opts = *opts;
    t->fabric = (es_fabric){.name = t->name,
                            .state = t,
                            .host = host,
                            .send = send_bytes,
                            .receive = receive_bytes,
                            .close = close_fabric};
    return t;
}

/* Starts the MPI thread with all signals blocked, which threads made by MPI inherit: the program's
 * own threads handle signals. Returns 0 or an error number. */
static int start_thread(mpi_thread *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int failed = pthread_create(&t->thread, NULL, mpi_thread_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* Returns true when the MPI thread has started or failed. Waits one second longer than that thread
 * does, which cannot time out inside MPI_Init_thread(). */
static bool has_started(mpi_thread *t, double limit)
{
    const struct timespec until = mpi_thread_time(es_seconds() + limit + 1.0);
    int late = 0;
    pthread_mutex_lock(&t->lock);
    while (t->state == STARTING && late != ETIMEDOUT)
        late = limit > 0.0 ? pthread_cond_timedwait(&t->changed, &t->lock, &until)
                           : pthread_cond_wait(&t->changed, &t->lock);
    const bool started = t->state != STARTING;
    pthread_mutex_unlock(&t->lock);
    return started;
}

/* Starts the MPI thread and waits until all ranks have met. */
static es_status open_fabric(const es_fabric_opts *opts, es_fabric **out, es_error *err)
{
    *out = NULL;
    mpi_thread *t = new_thread(opts);
    if (!t || start_thread(t) != 0) {
        if (t)
            free_thread(t);
        return es_fail(err, ES_E_MEMORY, "memory.system", "", "out of memory for another thread");
    }
    const double limit = START_FACTOR * opts->timeout;
    if (!has_started(t, limit)) /* the thread is inside MPI, and cannot be ended or freed */
        return es_fail(err, ES_E_IO, "ranks.lost", "--rank-timeout says how long to wait",
                       "MPI_Init_thread has waited for other ranks for more than %.3g s", limit);
    const es_status status = t->failed;
    if (status != ES_OK) {
        if (err)
            *err = t->failure;
        pthread_join(t->thread, NULL);
        if (status != ES_E_IO) /* else MPI may still write the communicator */
            free_thread(t);
        return status;
    }
    *out = &t->fabric;
    return ES_OK;
}

ES_API extern const es_fabric_plugin es_fabric_mpi;
const es_fabric_plugin es_fabric_mpi = {.abi = ES_FABRIC_ABI,
                                        .fabric_size = sizeof(es_fabric),
                                        .error_size = sizeof(es_error),
                                        .open = open_fabric};
