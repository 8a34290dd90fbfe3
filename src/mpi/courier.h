/* SPDX-License-Identifier: Apache-2.0 */
/* courier.h : the only thread that calls MPI, and the state that it shares with the others.
 *
 * Threads that send put a message into the outbox. The MPI thread hands it to MPI, moves arriving
 * messages to the inbox, and sends signs of life to other ranks. It never blocks inside MPI, where
 * libraries spin: it polls and sleeps in between. */
#ifndef ES_MPI_COURIER_H
#define ES_MPI_COURIER_H

#include <mpi.h>
#include <pthread.h>
#include <sched.h>

#include <esscher/executor.h>

/* What precedes the bytes of every message. */
typedef struct letter_head {
    uint64_t kind; /* LETTER_... */
    uint64_t size; /* of what follows */
} letter_head;

enum { LETTER_MESSAGE = 0x657373636872, LETTER_BEAT };

/* A message larger than a part is its head alone, followed by its bytes in parts: a count of MPI is
 * an int. */
enum { PART = 1 << 24 };

typedef struct letter {
    struct letter *next;
    int peer;
    bool beat;              /* nothing but a sign of life */
    char *bytes;            /* on the way out: head and message; in the inbox: message */
    size_t size;            /* of the message */
    int parts;              /* on the way out: messages of MPI it is made of, */
    MPI_Request *under_way; /* (parts) what becomes of them, */
    int gone;               /* and how many have gone */
} letter;

typedef struct letters {
    letter *first, **end;
} letters;

/* A message of MPI that was matched, and waits for those of the same rank before it. */
typedef struct arrival {
    struct arrival *next;
    MPI_Message message;
    int size;
} arrival;

/* Another rank, or this one. What is sent of it to all others when ranks meet: */
typedef struct card {
    char host[64];
    int64_t pid;
    cpu_set_t processors;
} card;

typedef struct peer {
    card card;
    double heard; /* when something last came from it */
    int beats;    /* sent to it and still under way */
    bool lost;    /* under the courier's lock */
    arrival *first, **end;
    MPI_Request receiving; /* the bytes of the first arrival */
    char *part;            /* where they go, if it is a head; else into `whole` */
    char *whole;           /* the message under way, its size and what has come of it */
    size_t size, got;
} peer;

typedef enum courier_state {
    STARTING,
    RUNNING,
    REFUSED, /* to start */
    ENDING_WELL,
    ENDING_ILL,
    ENDED,
    ABORTING /* by force: this process ends, too */
} courier_state;

typedef struct courier {
    es_fabric fabric;
    es_fabric_opts opts;
    char name[64];
    pthread_t thread;
    peer *peers; /* (ranks) */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;  /* the courier: there is a letter, or an end */
    pthread_cond_t news;  /* the others: a letter came, or the state changed */
    courier_state state;
    letters outbox, inbox;
    es_status failed; /* what receive() says when the inbox is empty */
    es_error failure;
    bool broken; /* MPI itself failed, or memory: then nothing is sent either */

    /* the courier's own */
    MPI_Comm comm;
    letters under_way;     /* sent, and not yet gone */
    double active, turned; /* when something last moved, and when it last looked */
    double beaten;         /* time of the last sign of life */
    int arriving;          /* ranks of which something is being received */
} courier;

/* ---- post.c ---- */

void letters_init(letters *list);
void letters_add(letters *list, letter *one);
void letters_free(letters *list);

/*! letter_new() : a message for rank `to`, head included; NULL if there is no memory. */
letter *letter_new(int to, bool beat, const void *bytes, size_t size);
void letter_free(letter *one);

/*! courier_carry() : whatever can be done now without waiting. @return : did anything move? */
bool courier_carry(courier *c);

/* ---- courier.c ---- */

/* Ranks start at different times, so the timeout at the start is longer by this factor. */
#define START_PATIENCE 5.0

void *courier_main(void *courier); /* the thread */

struct timespec courier_time(double at); /* of es_seconds() */

/*! courier_exit_code() : with which a process ends by force. */
int courier_exit_code(const courier *c);

/*! courier_fail() : from now on nothing comes any more, and if it is not about one rank that is
 *  lost, nothing goes out; the first failure stays. */
void courier_fail(courier *c, es_status status, const es_error *err, peer *lost);

/*! courier_check() : is a call of MPI well? */
bool courier_check(courier *c, int code, const char *call);

#endif
