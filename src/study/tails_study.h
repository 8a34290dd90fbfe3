/* tails_study.h : the parts of the study `tails`.
 *
 *     tails_study.c     parameters, pools, directions of a layer: what is asked and measured
 *     tails_summary.c   what is said about directions, kinds of directions, and all of them
 */
#ifndef ES_STUDY_TAILS_STUDY_H
#define ES_STUDY_TAILS_STUDY_H

#include <esscher/tails.h>

#include "study/pool_params.h"

typedef struct tails_params {
    es_pool_params pool;
    const char *tokens;
    int64_t principal, random, queries, draws;
} tails_params;

/* What is looked at: layers of pools, or one matrix. */
typedef struct tails_state {
    es_pools pools;
    es_matrix tokens;   /* data NULL: there are pools */
    es_tails_spec spec; /* of any layer; pool and exec are the layer's */
    int64_t layers, n_domains;
    int64_t count, dim, heads; /* of tokens, where there are pools of the smallest */
    es_tails_row *rows;        /* (directions) room for a layer */
    es_tails_control gaussian; /* of so many tokens, once it is known; 0: not yet */
    int64_t gaussian_tokens;
} tails_state;

/* The numbers of a direction in a run file, by their names. */
enum { TAILS_NUMBERS = 19 };

/*! tails_spec_at() : what is asked of the layer of a cell; exec is not set. */
es_tails_spec tails_spec_at(const tails_state *s, int64_t cell);

/*! tails_unpack() : a direction out of the TAILS_NUMBERS that a cell has of it. */
es_tails_row tails_unpack(const double *numbers);

es_status tails_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
