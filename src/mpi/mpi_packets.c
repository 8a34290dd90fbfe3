/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_packets.c : queues of messages, sent and received by MPI calls that do not block. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "mpi/mpi_thread.h"

enum { TAG = 1 }; /* with one tag and communicator, messages between two ranks stay in order */

/* ---- queues ---- */

/* Makes a queue empty. */
void packets_init(packet_queue *list)
{
    list->first = NULL;
    list->end = &list->first;
}

/* Appends a message to a queue. */
void packets_add(packet_queue *list, packet *one)
{
    one->next = NULL;
    *list->end = one;
    list->end = &one->next;
}

/* Frees a message. */
void packet_free(packet *one)
{
    free(one->bytes);
    free(one->requests);
    free(one);
}

/* Frees all messages of a queue. */
void packets_free(packet_queue *list)
{
    while (list->first) {
        packet *one = list->first;
        list->first = one->next;
        packet_free(one);
    }
    packets_init(list);
}

/* Makes a packet of a header and a copy of the bytes; NULL if out of memory. */
packet *packet_new(int to, bool heartbeat, const void *bytes, size_t size)
{
    const packet_header head = {.kind = heartbeat ? PACKET_HEARTBEAT : PACKET_MESSAGE,
                                .size = size};
    packet *one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    const bool whole = size + sizeof head <= PART;
    *one = (packet){.peer = to, .heartbeat = heartbeat, .size = size};
    one->parts = whole ? 1 : (int)(1 + (size + PART - 1) / PART);
    one->requests = malloc((size_t)one->parts * sizeof *one->requests);
    one->bytes = size <= SIZE_MAX - sizeof head ? malloc(size + sizeof head) : NULL;
    if (!one->bytes || !one->requests) {
        packet_free(one);
        return NULL;
    }
    memcpy(one->bytes, &head, sizeof head);
    if (size)
        memcpy(one->bytes + sizeof head, bytes, size);
    return one;
}

/* ---- sending ---- */

/* Starts the MPI sends of a message; long ones are split, because MPI counts bytes in an int. */
static void start_send(mpi_thread *t, packet *one)
{
    const size_t all = one->size + sizeof(packet_header);
    size_t at = 0, size = one->parts == 1 ? all : sizeof(packet_header);
    for (int i = 0; i < one->parts; i++) {
        one->requests[i] = MPI_REQUEST_NULL;
        if (!t->broken)
            mpi_thread_check(t,
                             MPI_Isend(one->bytes + at, (int)size, MPI_BYTE, one->peer, TAG,
                                       t->comm, &one->requests[i]),
                             "MPI_Isend");
        at += size;
        size = all - at < PART ? all - at : PART;
    }
    t->peers[one->peer].heartbeats += one->heartbeat;
    packets_add(&t->in_flight, one);
}

/* Starts the sends of all queued messages; returns true if there were any. */
static bool start_sends(mpi_thread *t)
{
    pthread_mutex_lock(&t->lock);
    packet *one = t->outbox.first;
    packets_init(&t->outbox);
    pthread_mutex_unlock(&t->lock);
    const bool any = one != NULL;
    while (one) {
        packet *next = one->next;
        start_send(t, one);
        one = next;
    }
    return any;
}

/* Returns true if all parts of a packet were sent. After a failure of MPI it returns false, because
 * MPI may still read the other parts. */
static bool is_sent(mpi_thread *t, packet *one)
{
    int sent = 1;
    while (one->sent < one->parts && sent) {
        const int code = MPI_Test(&one->requests[one->sent], &sent, MPI_STATUS_IGNORE);
        if (!mpi_thread_check(t, code, "MPI_Test"))
            return false;
        one->sent += sent;
    }
    return sent;
}

/* Frees the packets that were sent; returns true if there were any. */
static bool free_sent(mpi_thread *t)
{
    packet *one = t->in_flight.first;
    bool any = false;
    packets_init(&t->in_flight);
    while (one) {
        packet *next = one->next;
        if (is_sent(t, one)) {
            t->peers[one->peer].heartbeats -= one->heartbeat;
            packet_free(one);
            any = true;
        } else {
            packets_add(&t->in_flight, one);
        }
        one = next;
    }
    return any;
}

/* ---- receiving ---- */

/* Records that a message did not fit into memory. */
static void no_memory(mpi_thread *t, size_t size)
{
    es_error err;
    es_fail(&err, ES_E_MEMORY, "memory.system", "", "out of memory for a message of %zu bytes",
            size);
    mpi_thread_fail(t, ES_E_MEMORY, &err, NULL);
}

/* Takes a message of any rank off MPI's queue, so that those behind it become visible. */
static bool match(mpi_thread *t)
{
    MPI_Message message;
    MPI_Status status;
    int there = 0;
    if (!mpi_thread_check(t, MPI_Improbe(MPI_ANY_SOURCE, TAG, t->comm, &there, &message, &status),
                          "MPI_Improbe") ||
        !there)
        return false;
    arrival *a = malloc(sizeof *a);
    if (!a) {
        no_memory(t, sizeof *a);
        return false;
    }
    *a = (arrival){.message = message};
    MPI_Get_count(&status, MPI_BYTE, &a->size);
    peer *p = &t->peers[status.MPI_SOURCE];
    p->heard = es_seconds();
    if (!p->first)
        t->arriving++;
    *p->end = a;
    p->end = &a->next;
    return true;
}

/* Returns whether a part is no longer than the missing rest of its message, by the size in its
 * header. */
static bool fits(mpi_thread *t, const peer *p, const arrival *a)
{
    es_error err;
    if (!p->whole || (size_t)a->size <= p->size - p->got)
        return true;
    es_fail(&err, ES_E_FORMAT, "ranks.message",
            "use the same version of the program on all machines",
            "rank %d on %s: received %zu bytes of a message of %zu", (int)(p - t->peers),
            p->info.host, p->got + (size_t)a->size, p->size);
    mpi_thread_fail(t, ES_E_FORMAT, &err, NULL);
    return false;
}

/* Starts to receive the first arrival of a rank: a part goes into its message, and the beginning of
 * a message into a buffer of its own, because its header says where the rest goes. */
static void begin_receiving(mpi_thread *t, peer *p)
{
    arrival *a = p->first;
    if (!fits(t, p, a))
        return;
    char *to = p->whole ? p->whole + p->got : malloc((size_t)a->size + 1);
    if (!p->whole && !to) {
        no_memory(t, (size_t)a->size);
        return;
    }
    p->part = p->whole ? NULL : to;
    mpi_thread_check(t, MPI_Imrecv(to, a->size, MPI_BYTE, &a->message, &p->receiving),
                     "MPI_Imrecv");
}

/* Puts a received message into the queue of the reader and wakes it. */
static void deliver(mpi_thread *t, int from, char *bytes, size_t size)
{
    packet *one = calloc(1, sizeof *one);
    if (!one) {
        free(bytes);
        no_memory(t, size);
        return;
    }
    *one = (packet){.peer = from, .bytes = bytes, .size = size};
    pthread_mutex_lock(&t->lock);
    packets_add(&t->inbox, one);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* Handles a part that begins with a header: a whole message, the start of a message in several
 * parts, or a heartbeat. */
static void open_part(mpi_thread *t, int from, size_t size)
{
    peer *p = &t->peers[from];
    char *part = p->part;
    packet_header head = {0};
    p->part = NULL;
    if (size >= sizeof head)
        memcpy(&head, part, sizeof head);
    if (head.kind == PACKET_MESSAGE && head.size == size - sizeof head) {
        memmove(part, part + sizeof head, head.size);
        deliver(t, from, part, head.size);
        return;
    }
    free(part);
    if (head.kind != PACKET_MESSAGE) /* a heartbeat; match() has stored its time */
        return;
    p->whole = malloc(head.size);
    p->size = head.size;
    p->got = 0;
    if (!p->whole)
        no_memory(t, head.size);
}

/* Finishes one receive: a part goes to its message, a whole message to the reader. */
static void end_receiving(mpi_thread *t, int from)
{
    peer *p = &t->peers[from];
    arrival *a = p->first;
    p->first = a->next;
    if (!p->first) {
        p->end = &p->first;
        t->arriving--;
    }
    if (p->part) {
        open_part(t, from, (size_t)a->size);
    } else if ((p->got += (size_t)a->size) == p->size) {
        char *whole = p->whole;
        p->whole = NULL;
        deliver(t, from, whole, p->size);
    }
    free(a);
}

/* Completes the receives from one rank that are ready, in order. */
static bool receive_from(mpi_thread *t, int from)
{
    peer *p = &t->peers[from];
    bool any = false;
    while (p->first && !t->broken) {
        int came = 0;
        if (p->receiving == MPI_REQUEST_NULL)
            begin_receiving(t, p);
        if (t->broken ||
            !mpi_thread_check(t, MPI_Test(&p->receiving, &came, MPI_STATUS_IGNORE), "MPI_Test") ||
            !came)
            return any;
        end_receiving(t, from);
        any = true;
    }
    return any;
}

/* Moves everything that can move without waiting; returns true if anything did. */
bool mpi_thread_progress(mpi_thread *t)
{
    bool moved = start_sends(t);
    moved = free_sent(t) || moved;
    while (!t->broken && match(t))
        moved = true;
    for (int r = 0; r < t->fabric.ranks && t->arriving > 0 && !t->broken; r++)
        moved = receive_from(t, r) || moved;
    return moved;
}
