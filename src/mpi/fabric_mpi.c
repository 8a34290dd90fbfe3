/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_mpi.c : messages over MPI, for threads that do not call it (courier.h does). */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "mpi/courier.h"
#include "ranks/fabric_plugin.h"

#define ABORT_SECONDS 3.0 /* that MPI_Abort may take */

/* Returns the name of the machine of a rank. */
static const char *host(const es_fabric *self, int rank)
{
    const courier *c = self->state;
    return c->peers[rank].card.host;
}

/* Queues a copy of the bytes for the MPI thread and returns at once. */
static es_status send_bytes(const es_fabric *self, int to, const void *bytes, size_t size,
                            es_error *err)
{
    courier *c = self->state;
    letter *one = letter_new(to, false, bytes, size);
    if (!one)
        return es_fail(err, ES_E_MEMORY, "memory.system", "",
                       "out of memory for a message of %zu bytes", size);
    pthread_mutex_lock(&c->lock);
    const es_status status = c->broken || c->peers[to].lost ? c->failed : ES_OK;
    if (status == ES_OK) {
        letters_add(&c->outbox, one);
        pthread_cond_signal(&c->wake);
    } else if (err) {
        *err = c->failure;
    }
    pthread_mutex_unlock(&c->lock);
    if (status != ES_OK)
        letter_free(one);
    return status;
}

/* The first letter of the inbox, which the caller holds the lock of. */
static es_message take(courier *c)
{
    letter *one = c->inbox.first;
    c->inbox.first = one->next;
    if (!one->next)
        letters_init(&c->inbox);
    const es_message out = {.from = one->peer, .bytes = one->bytes, .size = one->size};
    free(one);
    return out;
}

/* Waits up to `seconds` for the next message. */
static es_status receive_bytes(const es_fabric *self, double seconds, es_message *out,
                               es_error *err)
{
    courier *c = self->state;
    const double most = 1e6, at = es_seconds() + (seconds < most ? seconds : most);
    const struct timespec until = courier_time(at);
    es_status status = ES_OK;
    *out = (es_message){.from = -1};
    pthread_mutex_lock(&c->lock);
    while (!c->inbox.first && c->failed == ES_OK && es_seconds() < at)
        pthread_cond_timedwait(&c->news, &c->lock, &until);
    if (c->inbox.first) {
        *out = take(c);
    } else if (c->failed != ES_OK) { /* what came before it has been received */
        status = c->failed;
        if (err)
            *err = c->failure;
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- beginning and end ---- */

/* Frees queues, peers and locks. */
static void free_courier(courier *c)
{
    letters_free(&c->inbox);
    letters_free(&c->outbox);
    letters_free(&c->under_way);
    for (int r = 0; c->peers && r < c->fabric.ranks; r++) {
        free(c->peers[r].part);
        free(c->peers[r].whole);
        while (c->peers[r].first) {
            arrival *a = c->peers[r].first;
            c->peers[r].first = a->next;
            free(a);
        }
    }
    free(c->peers);
    pthread_cond_destroy(&c->wake);
    pthread_cond_destroy(&c->news);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Asks the MPI thread to end, well or after a failure, and waits for it. */
static void close_fabric(es_fabric *self, bool well)
{
    courier *c = self->state;
    pthread_mutex_lock(&c->lock);
    c->state = well ? ENDING_WELL : ENDING_ILL;
    pthread_cond_signal(&c->wake);
    while (c->state != ENDED && c->state != ABORTING)
        pthread_cond_wait(&c->news, &c->lock);
    /* MPI_Abort of MPICH was seen to wait for ever for a rank that is stopped */
    const struct timespec until = courier_time(es_seconds() + ABORT_SECONDS);
    while (c->state == ABORTING)
        if (pthread_cond_timedwait(&c->news, &c->lock, &until) == ETIMEDOUT)
            _exit(courier_exit_code(c));
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    free_courier(c);
}

/* Allocates the state of the fabric; its condition variables use the monotonic clock. */
static courier *new_courier(const es_fabric_opts *opts)
{
    courier *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->wake, &attributes);
    pthread_cond_init(&c->news, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&c->lock, NULL);
    letters_init(&c->outbox);
    letters_init(&c->inbox);
    letters_init(&c->under_way);
    c->opts = *opts;
    c->fabric = (es_fabric){.name = c->name,
                            .state = c,
                            .host = host,
                            .send = send_bytes,
                            .receive = receive_bytes,
                            .close = close_fabric};
    return c;
}

/* Signals are for the threads of the program: the courier, and threads that MPI makes, get none. */
static int start_thread(courier *c)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int failed = pthread_create(&c->thread, NULL, courier_main, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* Waits for as long as a second more than the courier does where it can. */
static bool has_started(courier *c, double limit)
{
    const struct timespec until = courier_time(es_seconds() + limit + 1.0);
    int late = 0;
    pthread_mutex_lock(&c->lock);
    while (c->state == STARTING && late != ETIMEDOUT)
        late = limit > 0.0 ? pthread_cond_timedwait(&c->news, &c->lock, &until)
                           : pthread_cond_wait(&c->news, &c->lock);
    const bool started = c->state != STARTING;
    pthread_mutex_unlock(&c->lock);
    return started;
}

/* Starts the MPI thread and waits until all ranks have met. */
static es_status open_fabric(const es_fabric_opts *opts, es_fabric **out, es_error *err)
{
    *out = NULL;
    courier *c = new_courier(opts);
    if (!c || start_thread(c) != 0) {
        if (c)
            free_courier(c);
        return es_fail(err, ES_E_MEMORY, "memory.system", "", "out of memory for another thread");
    }
    const double limit = START_PATIENCE * opts->patience;
    if (!has_started(c, limit)) /* the thread is inside MPI, and cannot be ended or freed */
        return es_fail(err, ES_E_IO, "ranks.lost", "--rank-timeout says how long to wait",
                       "MPI_Init_thread has waited for other ranks for more than %.3g s", limit);
    const es_status status = c->failed;
    if (status != ES_OK) {
        if (err)
            *err = c->failure;
        pthread_join(c->thread, NULL);
        if (status != ES_E_IO) /* else MPI may still write the communicator */
            free_courier(c);
        return status;
    }
    *out = &c->fabric;
    return ES_OK;
}

ES_API extern const es_fabric_plugin es_fabric_mpi;
const es_fabric_plugin es_fabric_mpi = {.abi = ES_FABRIC_ABI,
                                        .fabric_size = sizeof(es_fabric),
                                        .error_size = sizeof(es_error),
                                        .open = open_fabric};
