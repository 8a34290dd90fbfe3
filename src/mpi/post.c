/* SPDX-License-Identifier: Apache-2.0 */
/* post.c : messages on their way out and in, by MPI calls that do not wait. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "mpi/courier.h"

enum { TAG = 1 }; /* one tag and one communicator: MPI keeps the order between two ranks */

/* ---- lists ---- */

/* Makes a queue empty. */
void letters_init(letters *list)
{
    list->first = NULL;
    list->end = &list->first;
}

/* Appends a message to a queue. */
void letters_add(letters *list, letter *one)
{
    one->next = NULL;
    *list->end = one;
    list->end = &one->next;
}

/* Frees a message. */
void letter_free(letter *one)
{
    free(one->bytes);
    free(one->under_way);
    free(one);
}

/* Frees all messages of a queue. */
void letters_free(letters *list)
{
    while (list->first) {
        letter *one = list->first;
        list->first = one->next;
        letter_free(one);
    }
    letters_init(list);
}

/* Makes a message with its head and a copy of the bytes; NULL without memory. */
letter *letter_new(int to, bool beat, const void *bytes, size_t size)
{
    const letter_head head = {.kind = beat ? LETTER_BEAT : LETTER_MESSAGE, .size = size};
    letter *one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    const bool whole = size + sizeof head <= PART;
    *one = (letter){.peer = to, .beat = beat, .size = size};
    one->parts = whole ? 1 : (int)(1 + (size + PART - 1) / PART);
    one->under_way = malloc((size_t)one->parts * sizeof *one->under_way);
    one->bytes = size <= SIZE_MAX - sizeof head ? malloc(size + sizeof head) : NULL;
    if (!one->bytes || !one->under_way) {
        letter_free(one);
        return NULL;
    }
    memcpy(one->bytes, &head, sizeof head);
    if (size)
        memcpy(one->bytes + sizeof head, bytes, size);
    return one;
}

/* ---- out ---- */

/* Starts the MPI sends of a message; long ones are split, because MPI counts bytes in an int. */
static void post(courier *c, letter *one)
{
    const size_t all = one->size + sizeof(letter_head);
    size_t at = 0, size = one->parts == 1 ? all : sizeof(letter_head);
    for (int i = 0; i < one->parts; i++) {
        one->under_way[i] = MPI_REQUEST_NULL;
        if (!c->broken)
            courier_check(c,
                          MPI_Isend(one->bytes + at, (int)size, MPI_BYTE, one->peer, TAG, c->comm,
                                    &one->under_way[i]),
                          "MPI_Isend");
        at += size;
        size = all - at < PART ? all - at : PART;
    }
    c->peers[one->peer].beats += one->beat;
    letters_add(&c->under_way, one);
}

/* Starts the sends of all queued messages; returns true if there were any. */
static bool post_all(courier *c)
{
    pthread_mutex_lock(&c->lock);
    letter *one = c->outbox.first;
    letters_init(&c->outbox);
    pthread_mutex_unlock(&c->lock);
    const bool any = one != NULL;
    while (one) {
        letter *next = one->next;
        post(c, one);
        one = next;
    }
    return any;
}

/* Has all of it gone? Where MPI fails, it may still read the parts that have not. */
static bool has_gone(courier *c, letter *one)
{
    int gone = 1;
    while (one->gone < one->parts && gone) {
        const int code = MPI_Test(&one->under_way[one->gone], &gone, MPI_STATUS_IGNORE);
        if (!courier_check(c, code, "MPI_Test"))
            return false;
        one->gone += gone;
    }
    return gone;
}

/* Letters that have gone are forgotten. */
static bool forget_gone(courier *c)
{
    letter *one = c->under_way.first;
    bool any = false;
    letters_init(&c->under_way);
    while (one) {
        letter *next = one->next;
        if (has_gone(c, one)) {
            c->peers[one->peer].beats -= one->beat;
            letter_free(one);
            any = true;
        } else {
            letters_add(&c->under_way, one);
        }
        one = next;
    }
    return any;
}

/* ---- in ---- */

/* Records that a message did not fit into memory. */
static void no_memory(courier *c, size_t size)
{
    es_error err;
    es_fail(&err, ES_E_MEMORY, "memory.system", "", "out of memory for a message of %zu bytes",
            size);
    courier_fail(c, ES_E_MEMORY, &err, NULL);
}

/* Takes a message of any rank off MPI's queue, so that those behind it become visible. */
static bool match(courier *c)
{
    MPI_Message message;
    MPI_Status status;
    int there = 0;
    if (!courier_check(c, MPI_Improbe(MPI_ANY_SOURCE, TAG, c->comm, &there, &message, &status),
                       "MPI_Improbe") ||
        !there)
        return false;
    arrival *a = malloc(sizeof *a);
    if (!a) {
        no_memory(c, sizeof *a);
        return false;
    }
    *a = (arrival){.message = message};
    MPI_Get_count(&status, MPI_BYTE, &a->size);
    peer *p = &c->peers[status.MPI_SOURCE];
    p->heard = es_seconds();
    if (!p->first)
        c->arriving++;
    *p->end = a;
    p->end = &a->next;
    return true;
}

/* Parts are at most as long as the head of their message has promised. */
static bool fits(courier *c, const peer *p, const arrival *a)
{
    es_error err;
    if (!p->whole || (size_t)a->size <= p->size - p->got)
        return true;
    es_fail(&err, ES_E_FORMAT, "ranks.letter",
            "use the same version of the program on all machines",
            "rank %d on %s: received %zu bytes of a message of %zu", (int)(p - c->peers),
            p->card.host, p->got + (size_t)a->size, p->size);
    courier_fail(c, ES_E_FORMAT, &err, NULL);
    return false;
}

/* The first arrival of a rank: its bytes into the message under way, or, if it begins one, where
 * its head can be read. */
static void begin_receiving(courier *c, peer *p)
{
    arrival *a = p->first;
    if (!fits(c, p, a))
        return;
    char *to = p->whole ? p->whole + p->got : malloc((size_t)a->size + 1);
    if (!p->whole && !to) {
        no_memory(c, (size_t)a->size);
        return;
    }
    p->part = p->whole ? NULL : to;
    courier_check(c, MPI_Imrecv(to, a->size, MPI_BYTE, &a->message, &p->receiving), "MPI_Imrecv");
}

/* Puts a received message into the queue of the reader and wakes it. */
static void deliver(courier *c, int from, char *bytes, size_t size)
{
    letter *one = calloc(1, sizeof *one);
    if (!one) {
        free(bytes);
        no_memory(c, size);
        return;
    }
    *one = (letter){.peer = from, .bytes = bytes, .size = size};
    pthread_mutex_lock(&c->lock);
    letters_add(&c->inbox, one);
    pthread_cond_broadcast(&c->news);
    pthread_mutex_unlock(&c->lock);
}

/* A part has come that begins with a head: all of a message, or the promise of its parts. */
static void open_part(courier *c, int from, size_t size)
{
    peer *p = &c->peers[from];
    char *part = p->part;
    letter_head head = {0};
    p->part = NULL;
    if (size >= sizeof head)
        memcpy(&head, part, sizeof head);
    if (head.kind == LETTER_MESSAGE && head.size == size - sizeof head) {
        memmove(part, part + sizeof head, head.size);
        deliver(c, from, part, head.size);
        return;
    }
    free(part);
    if (head.kind != LETTER_MESSAGE) /* a sign of life, which match() has noted */
        return;
    p->whole = malloc(head.size);
    p->size = head.size;
    p->got = 0;
    if (!p->whole)
        no_memory(c, head.size);
}

/* Finishes one receive: a part goes to its message, a whole message to the reader. */
static void end_receiving(courier *c, int from)
{
    peer *p = &c->peers[from];
    arrival *a = p->first;
    p->first = a->next;
    if (!p->first) {
        p->end = &p->first;
        c->arriving--;
    }
    if (p->part) {
        open_part(c, from, (size_t)a->size);
    } else if ((p->got += (size_t)a->size) == p->size) {
        char *whole = p->whole;
        p->whole = NULL;
        deliver(c, from, whole, p->size);
    }
    free(a);
}

/* Completes the receives from one rank that are ready, in order. */
static bool receive_from(courier *c, int from)
{
    peer *p = &c->peers[from];
    bool any = false;
    while (p->first && !c->broken) {
        int came = 0;
        if (p->receiving == MPI_REQUEST_NULL)
            begin_receiving(c, p);
        if (c->broken ||
            !courier_check(c, MPI_Test(&p->receiving, &came, MPI_STATUS_IGNORE), "MPI_Test") ||
            !came)
            return any;
        end_receiving(c, from);
        any = true;
    }
    return any;
}

/* Moves everything that can move without waiting; returns true if anything did. */
bool courier_carry(courier *c)
{
    bool moved = post_all(c);
    moved = forget_gone(c) || moved;
    while (!c->broken && match(c))
        moved = true;
    for (int r = 0; r < c->fabric.ranks && c->arriving > 0 && !c->broken; r++)
        moved = receive_from(c, r) || moved;
    return moved;
}
