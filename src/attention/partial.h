/* SPDX-License-Identifier: Apache-2.0 */
/* partial.h : what queries know about the keys they have met, one row per query, in f64.
 *
 * All scores are kept in units of log 2: x = log2(e) * scale * q.k, so that weights are powers of
 * two. A weight is stored relative to the query's offset, an integer near its largest x; moving an
 * offset multiplies by a power of two, which is exact, and so is bringing two states to the same
 * offset before they are added. */
#ifndef ES_ATTENTION_PARTIAL_H
#define ES_ATTENTION_PARTIAL_H

#include "attention/attend.h"
#include "attention/kernels.h"
#include "attention/problem.h"

/* Sums over the keys met, for one query at one scale; x and w = 2^(x - offset) of each key. */
typedef struct es_sums {
    double offset;    /* an integer, or -inf while no key has been met */
    double weight;    /* sum w */
    double tilted;    /* sum w (x - offset): gives the entropy */
    double squares;   /* sum w^2 */
    double top;       /* w of the key with the largest score */
    double open;      /* sum w of the block of keys that has begun */
    double blocks[3]; /* sums over the blocks before of the powers 2, 3, 4 of their sum w */
} es_sums;

/*! es_sums_close() : a block of keys with sum `open` of weights has ended. */
void es_sums_close(es_sums *s, double open);

/*! es_sums_move() : express the sums relative to another offset (an integer).
 *  @return : the factor that the query's output must be multiplied with. */
double es_sums_move(es_sums *s, double offset);

struct es_partial {
    int64_t queries, channels, scales, kept;
    int64_t around, in_blocks; /* channels + 1 where spreads are wanted, channels where blocks are;
                                  0 elsewhere */
    es_sums *sums;             /* (scales, queries) */
    double *output;            /* (scales, queries, channels), sum w v */
    double *spread; /* (scales, queries, around) sum w^2 (v - centre), then of |v - centre|^2 */
    double *cross;  /* (scales, queries, in_blocks) sum over blocks of keys of Z_b N_b */
    double *square; /* (scales, queries, in_blocks) sum_b N_b^2 */
    double *best; /* (queries) largest score of all, in units of the largest scale; -inf at first */
    int64_t *best_index; /* (queries) its key; -1 at first */
    double *kept_scores; /* (queries, kept) the largest scores, as a heap with the smallest on top;
                            -inf where fewer */

    /* Options of es_partial_new(), for the states that users hold (partial_held.c); unused inside
     * the engine. */
    es_dtype precision;
    double *own_scales; /* (scales) */
    double score_cap, sink;
    int64_t *own_top_k; /* (n_top_k) */
    int64_t n_top_k;
    int64_t *own_positions; /* (queries), or NULL */
    es_mask mask;           /* ranges alone, with own_positions */
    es_exec exec;

    es_mem_limit *budget;
};

/*! es_partial_init() : `queries` queries that have met nothing; memory is charged to p's budget. */
es_status es_partial_init(es_partial *partial, const es_problem *p, int64_t queries, es_error *err);
void es_partial_clear(es_partial *partial); /* gives the memory back */

/*! es_partial_bytes() : memory es_partial_init() takes. */
double es_partial_bytes(const es_problem *p, int64_t queries);

/*! es_partial_forget() : back to having met nothing. */
void es_partial_forget(es_partial *partial);

/*! es_partial_join() : rows [from_row, from_row+count) of `from` are added to rows [row, row+count)
 * of `into`. */
void es_partial_join(es_partial *into, int64_t row, const es_partial *from, int64_t from_row,
                     int64_t count);

/*! es_heap_offer() : keep `score` if it is among the `kept` largest offered so far. */
void es_heap_offer(double *heap, int64_t kept, double score);

/*! es_by_falling_value() : for qsort() of doubles, largest first. */
int es_by_falling_value(const void *a, const void *b);

/* Working space of es_partial_emit(), one per thread. */
typedef struct es_emit_scratch {
    double *rows;   /* (queries, channels) */
    double *sorted; /* (kept) */
} es_emit_scratch;

es_status es_emit_scratch_new(es_emit_scratch *scratch, const es_problem *p, int64_t queries,
                              es_error *err);
void es_emit_scratch_free(es_emit_scratch *scratch, es_mem_limit *budget);

/*! es_partial_emit() : results of rows [row, row+count) written as queries first, first+1, ... of
 * prefix `prefix` in *out. Outputs are also added to `moments` (one per scale) unless that is NULL.
 */
void es_partial_emit(const es_partial *partial, const es_problem *p, int64_t row, int64_t count,
                     int64_t first, int64_t prefix, const es_attend_out *out, es_moments *moments,
                     const es_emit_scratch *scratch);

#endif
