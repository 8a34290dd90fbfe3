/* SPDX-License-Identifier: Apache-2.0 */
/* ranks_inside.h : the parts of the executor over ranks.
 *
 *     rank_messages.c messages between ranks
 *     ranks.c         the executor: sharing bytes, agreeing; a failure of one rank ends all
 *     coordinator.c   the work of rank 0: distributes pieces, collects results, computes as well
 *     worker.c        the work of any other rank
 *
 * All ranks make the same collective calls in the same order; each call is a *round*. A message
 * belongs to a round: one that is early waits, one that is late is dropped. Failures belong to
 * every round. */
#ifndef ES_RANKS_INSIDE_H
#define ES_RANKS_INSIDE_H

#include <esscher/executor.h>

typedef enum es_message_kind {
    ES_MESSAGE_NONE = 0,
    ES_MESSAGE_READY,   /* to rank 0: ready for pieces, `count` at a time */
    ES_MESSAGE_WORK,    /* from rank 0: pieces, as es_rank_piece */
    ES_MESSAGE_RESULTS, /* to rank 0: `count` times es_rank_piece and numbers */
    ES_MESSAGE_FAILED,  /* to rank 0: a piece, es_rank_piece, that failed; es_error */
    ES_MESSAGE_MEET,    /* to rank 0: status; es_error and the text that must be equal */
    ES_MESSAGE_VERDICT, /* from rank 0: status of all ranks; es_error. Ends a round */
    ES_MESSAGE_SHARE    /* bytes of es_executor.share, from any rank that has them */
} es_message_kind;

/* A piece in a message. `order` is its position in the list of rank 0. */
typedef struct es_rank_piece {
    int64_t order, piece;
    double seconds; /* computing time */
} es_rank_piece;

typedef struct es_message_header {
    uint32_t magic, kind;
    int64_t round, count;
    double waited;  /* seconds that the sender waited for work since its last message */
    int64_t status; /* of FAILED, MEET and VERDICT */
} es_message_header;

typedef struct es_rank_message {
    es_message_header head;
    int from;
    void *memory; /* the whole message, to be freed; NULL: none arrived */
    const char *body;
    size_t size; /* of the body */
} es_rank_message;

/* Counts and times of rank 0, which show how many ranks it can serve. */
typedef struct es_ranks_tally {
    int64_t pieces;       /* done by other ranks */
    int64_t own;          /* done by rank 0 */
    double serve_seconds; /* time of rank 0 for messages and results of other ranks */
    double wait_seconds;  /* sum of the times that other ranks waited for a piece */
} es_ranks_tally;

typedef struct es_ranks {
    es_executor executor;
    const es_fabric *fabric;
    int64_t round;
    es_rank_message *early; /* (n_early) messages of later rounds */
    int64_t n_early, early_capacity;
    bool over; /* some rank has failed: every later call returns `status` */
    es_status status;
    es_error error;
    es_ranks_tally tally;
} es_ranks;

/*! es_ranks_tally_of() : returns the counts and times of an executor made by es_ranks_new(). */
es_ranks_tally es_ranks_tally_of(const es_executor *executor);

/* ---- rank_messages.c ---- */

/*! es_rank_send() : sends a message of this round. */
es_status es_rank_send(es_ranks *r, int to, es_message_header head, const void *body, size_t size,
                       es_error *err);

/*! es_rank_send_buffer() : sends `bytes`, whose first bytes are reserved for the header. Avoids a
 *  copy of large bodies. */
es_status es_rank_send_buffer(es_ranks *r, int to, es_message_header head, void *bytes, size_t size,
                              es_error *err);

/*! es_rank_receive() : waits up to `seconds` for a message of this round or a failure of any round;
 *  its kind is NONE if none arrives. One thread at a time. Free it by es_rank_message_free(). */
es_status es_rank_receive(es_ranks *r, double seconds, es_rank_message *out, es_error *err);
void es_rank_message_free(es_rank_message *message);

/*! es_rank_message_error() : copies the failure that a message reports to *err; for a failure of
 * another rank the text names it. */
es_status es_rank_message_error(const es_ranks *r, const es_rank_message *message, es_error *err);

/*! es_rank_name() : "rank 3 on node7" */
const char *es_rank_name(const es_ranks *r, int rank, char *out, size_t size);

/* ---- ranks.c ---- */

/*! es_verdict_send() : sends the result of rank 0 to all others. A failure ends all rounds. */
es_status es_verdict_send(es_ranks *r, es_status status, es_error *err);

/*! es_verdict_take() : returns the status in a verdict of rank 0 and records a failure. */
es_status es_verdict_take(es_ranks *r, const es_rank_message *message, es_error *err);

/* ---- coordinator.c, worker.c ---- */

es_status es_coordinator_run(es_ranks *r, const es_work *work, const es_exec *exec, es_error *err);
es_status es_worker_run(es_ranks *r, const es_work *work, const es_exec *exec, es_error *err);

#endif
