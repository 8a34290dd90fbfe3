/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_thread.h : the only thread that calls MPI, and the state that it shares with the others.
 *
 * Threads that send put a message into the outbox. The MPI thread hands it to MPI, moves arriving
 * messages to the inbox, and sends heartbeats to other ranks. It never blocks inside MPI, where
 * libraries spin: it polls and sleeps in between. */
#ifndef ES_MPI_THREAD_H
#define ES_MPI_THREAD_H

#include <mpi.h>
#include <pthread.h>
#include <sched.h>

#include <esscher/executor.h>

/* Precedes the bytes of every message. */
typedef struct packet_header {
    uint64_t kind; /* PACKET_... */
    uint64_t size; /* bytes after the header */
} packet_header;

enum { PACKET_MESSAGE = 0x657373636872, PACKET_HEARTBEAT };

/* A larger message is sent as its header, followed by its bytes in parts of this size, because MPI
 * counts bytes in an int. */
enum { PART = 1 << 24 };

typedef struct packet {
    struct packet *next;
    int peer;
    bool heartbeat;        /* has no bytes */
    char *bytes;           /* outgoing: header and message; in the inbox: message */
    size_t size;           /* of the message */
    int parts;             /* outgoing: number of MPI messages */
    MPI_Request *requests; /* (parts) of the sends */
    int sent;              /* how many parts were sent */
} packet;

typedef struct packet_queue {
    packet *first, **end;
} packet_queue;

/* An MPI message that was matched and waits for earlier ones of the same rank. */
typedef struct arrival {
    struct arrival *next;
    MPI_Message message;
    int size;
} arrival;

/* What all ranks exchange at the start. */
typedef struct rank_info {
    char host[64];
    int64_t pid;
    cpu_set_t processors;
} rank_info;

/* The state of one rank, seen from this one. */
typedef struct peer {
    rank_info info;
    double heard;   /* time of its last message */
    int heartbeats; /* to it, in flight */
    bool lost;      /* protected by the lock */
    arrival *first, **end;
    MPI_Request receiving; /* of the first arrival */
    char *part;            /* buffer for a part that begins with a header; NULL: `whole` */
    char *whole;           /* message in several parts, its size and bytes received */
    size_t size, got;
} peer;

typedef enum mpi_thread_state {
    STARTING,
    RUNNING,
    FAILED_START,
    CLOSING,
    CLOSING_FAILED,
    ENDED,
    ABORTING /* MPI_Abort() was called: this process ends, too */
} mpi_thread_state;

typedef struct mpi_thread {
    es_fabric fabric;
    es_fabric_opts opts;
    char name[64];
    pthread_t thread;
    peer *peers; /* (ranks) */

    pthread_mutex_t lock;   /* protects the members below */
    pthread_cond_t wake;    /* wakes the MPI thread: there is a packet to send, or it must end */
    pthread_cond_t changed; /* wakes the others: a packet arrived, or the state changed */
    mpi_thread_state state;
    packet_queue outbox, inbox;
    es_status failed; /* result of receive() once the inbox is empty */
    es_error failure;
    bool broken; /* MPI or an allocation failed: nothing more is sent */

    /* used by the MPI thread only */
    MPI_Comm comm;
    packet_queue in_flight;       /* handed to MPI, not yet sent */
    double last_move, last_round; /* times of the last message moved and the last round */
    double last_heartbeat;        /* time when they were last sent */
    int arriving;                 /* ranks with an unfinished receive */
} mpi_thread;

/* ---- mpi_packets.c ---- */

void packets_init(packet_queue *list);
void packets_add(packet_queue *list, packet *one);
void packets_free(packet_queue *list);

/*! packet_new() : returns a packet for rank `to`, with its header; NULL if out of memory. */
packet *packet_new(int to, bool heartbeat, const void *bytes, size_t size);
void packet_free(packet *one);

/*! mpi_thread_progress() : sends and receives what it can without waiting.
 *  @return : true if anything moved */
bool mpi_thread_progress(mpi_thread *t);

/* ---- mpi_thread.c ---- */

/* Ranks start at different times, so the timeout at the start is longer by this factor. */
#define START_FACTOR 5.0

/*! mpi_thread_main() : the function of the thread; takes an mpi_thread. */
void *mpi_thread_main(void *user);

/*! mpi_thread_time() : converts a time of es_seconds() for pthread_cond_timedwait(). */
struct timespec mpi_thread_time(double at);

/*! mpi_thread_exit_code() : returns the exit code after MPI_Abort(). */
int mpi_thread_exit_code(const mpi_thread *t);

/*! mpi_thread_fail() : records a failure; the first one is reported. Nothing is received from then
 *  on. `lost` is the rank that is gone; if NULL, nothing is sent either. */
void mpi_thread_fail(mpi_thread *t, es_status status, const es_error *err, peer *lost);

/*! mpi_thread_check() : returns true for MPI_SUCCESS; otherwise records the failure. */
bool mpi_thread_check(mpi_thread *t, int code, const char *call);

#endif
