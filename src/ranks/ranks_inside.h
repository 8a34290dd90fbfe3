/* SPDX-License-Identifier: Apache-2.0 */
/* ranks_inside.h : the parts of the executor over ranks.
 *
 *     letters.c     messages between ranks
 *     ranks.c       the executor: sharing bytes, agreeing; a failure of one rank ends all
 *     desk.c        the work of rank 0: distributes pieces, collects results, computes as well
 *     workbench.c   the work of any other rank
 *
 * All ranks make the same collective calls in the same order; each call is a *round*. A message
 * belongs to a round: one that is early waits, one that is late is dropped. Failures belong to
 * every round. */
#ifndef ES_RANKS_INSIDE_H
#define ES_RANKS_INSIDE_H

#include <esscher/executor.h>

typedef enum es_letter_kind {
    ES_LETTER_NONE = 0,
    ES_LETTER_READY,   /* to rank 0: give me work; `count` threads take a piece each */
    ES_LETTER_WORK,    /* from rank 0: pieces, as es_rank_piece */
    ES_LETTER_RESULTS, /* to rank 0: `count` times es_rank_piece and numbers */
    ES_LETTER_FAILED,  /* to rank 0: a piece, es_rank_piece, that failed; es_error */
    ES_LETTER_MEET,    /* to rank 0: how I am; es_error and the text that must be the same */
    ES_LETTER_VERDICT, /* from rank 0: how we all are; es_error. Ends a round */
    ES_LETTER_SHARE    /* bytes of es_executor.share, from any rank that has them */
} es_letter_kind;

/* A piece on its way. `order` is its place in the list as rank 0 hands it out. */
typedef struct es_rank_piece {
    int64_t order, piece;
    double seconds; /* that it took */
} es_rank_piece;

typedef struct es_letter_head {
    uint32_t magic, kind;
    int64_t round, count;
    double waited;  /* by the sender, since its last letter, for work */
    int64_t status; /* of FAILED, MEET and VERDICT */
} es_letter_head;

typedef struct es_letter {
    es_letter_head head;
    int from;
    void *memory; /* the message; NULL: there was none */
    const char *body;
    size_t size; /* of the body */
} es_letter;

typedef struct es_ranks {
    es_executor executor;
    const es_fabric *fabric;
    int64_t round;
    es_letter *early; /* (n_early) of rounds to come */
    int64_t n_early, room_early;
    bool over; /* some rank has failed, and all know: */
    es_status status;
    es_error error;
    es_ranks_tally tally;
} es_ranks;

/* ---- letters.c ---- */

/*! es_post() : a letter of this round. */
es_status es_post(es_ranks *r, int to, es_letter_head head, const void *body, size_t size,
                  es_error *err);

/*! es_post_whole() : the same where the head's place is at the front of `bytes`, for large ones. */
es_status es_post_whole(es_ranks *r, int to, es_letter_head head, void *bytes, size_t size,
                        es_error *err);

/*! es_fetch() : the next letter of this round, or a failure of any, waiting up to `seconds`; kind
 *  NONE if there is none. One thread at a time. es_letter_free() it. */
es_status es_fetch(es_ranks *r, double seconds, es_letter *out, es_error *err);
void es_letter_free(es_letter *letter);

/*! es_letter_error() : copies the failure that a message reports to *err; for a failure of another
 *  rank the text names it. */
es_status es_letter_error(const es_ranks *r, const es_letter *letter, es_error *err);

/*! es_rank_name() : "rank 3 on node7" */
const char *es_rank_name(const es_ranks *r, int rank, char *out, size_t size);

/* ---- ranks.c ---- */

/*! es_verdict_send() : sends the result of rank 0 to all others. A failure ends all rounds. */
es_status es_verdict_send(es_ranks *r, es_status status, es_error *err);

/*! es_verdict_take() : what another rank makes of it. */
es_status es_verdict_take(es_ranks *r, const es_letter *letter, es_error *err);

/* ---- desk.c, workbench.c ---- */

es_status es_desk_run(es_ranks *r, const es_work *work, const es_exec *exec, es_error *err);
es_status es_workbench_run(es_ranks *r, const es_work *work, const es_exec *exec, es_error *err);

#endif
