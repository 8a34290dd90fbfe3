/* SPDX-License-Identifier: Apache-2.0 */
/* far_inside.h : one head of one block while its far field is replaced: what far_walk.c (sizes,
 * forecasts, drift), far_query.c (one query, its keys and weights) and far_limit.c (its limit and
 * exact error) share. */
#ifndef ES_EXPERIMENTS_PROBE_FAR_INSIDE_H
#define ES_EXPERIMENTS_PROBE_FAR_INSIDE_H

#include "experiments/probe/far.h"

#include "base/memory.h"

/* Rotations by every distance, for blocks of n tokens. */
typedef struct far_angles {
    int64_t n;
    double *cosines[2], *sines[2]; /* (n, width/2) of config.rotary and rotary_local */
} far_angles;

/* A head that is being measured. */
typedef struct far_work {
    const es_far_spec *spec;
    const es_far_text *text;
    const es_model_seen *seen;
    const es_model_config *c;
    const far_angles *angles;   /* (1 + targets) of the length and of every target */
    const double *query_factor; /* (longest) of places; NULL: 1 */
    const es_rotary *rotary;    /* of the layer; NULL: no rotation */
    bool by_place;              /* positions are in hidden states, hence in keys */
    es_mem_limit *budget;
    uint64_t cell; /* of random numbers */
    int64_t n, k, dv, kv_head;
    float *key, *value, *query; /* (n, k), (n, dv), (k) before rotation */
    float *turned;              /* (longest, k) the query, turned by every distance */
    double *score;              /* (longest + 1) of keys: sure ones first */
    const float **value_of;     /* (longest + 1) their values; NULL: 0 */
    double *uniform;            /* (2 longest) */
    double *y;                  /* (1 + ES_FAR_DRAWS, dv) outputs: real, drawn */
    double *window;             /* (ES_FAR_WINDOWS, dv) outputs over the last keys */
    double *row;                /* (k or dv) */
} far_work;

/* A query, and the context in which it is asked. */
typedef struct far_query {
    int64_t i;           /* its place in the block */
    int64_t at;          /* the place it is asked at: i, or a later one in a forecast */
    int64_t base;        /* far keys come from places below this of pools */
    int64_t table;       /* of angles */
    int64_t sinks, near; /* keys that it sees; a learned sink is beside them */
    int64_t far, from;   /* far keys, at distances from, from + 1, ... */
    int64_t sure;        /* sinks, near keys and a learned sink */
    double scale;        /* of scores of turned queries */
    uint64_t token;      /* of random numbers: token, token + 1, ... */
} far_query;

/*! far_query_begin() : reads the query at place i, turns it, and finds its sure keys. */
far_query far_query_begin(far_work *w, int64_t i, int64_t at, int64_t base, int64_t table,
                          uint64_t token);

/*! far_real() : the far keys of the block itself; q->at is q->i. far_draw() : far keys drawn from a
 *  pool, from part `part` of its blocks. */
void far_real(far_work *w, const far_query *q);
es_status far_draw(far_work *w, const far_query *q, const es_far_pool *pool, int part,
                   es_error *err);

/*! far_score() : returns the score of a key (before rotation) at a distance. */
double far_score(const far_work *w, const far_query *q, int64_t distance, const float *key);

/* Blocks of a pool that a far field may come from. */
typedef struct far_sources {
    const es_far_pool *pool;
    int64_t block[ES_FAR_BLOCKS], count;
} far_sources;

/*! far_sources_of() : lists the other blocks of part `part` of `parts` stretches of a pool, or all
 *  of them if it has none. The draws of a query come from different parts, so that they are
 *  independent. far_row() : returns the row of a pool that two uniform numbers choose: one of the
 *  blocks, and a place below q->base, or, where positions are in hidden states, the part of the
 *  block with `place`. far_uniforms() : draws the numbers w->uniform (2 count) of purpose `which`
 *  of the query. */
far_sources far_sources_of(const far_work *w, const es_far_pool *pool, int part, int parts);
int64_t far_row(const far_work *w, const far_query *q, const far_sources *s, int64_t place,
                const double *u);
es_status far_uniforms(far_work *w, const far_query *q, int which, int64_t count, es_error *err);

/*! far_weigh() : adds the statistics of the weights to stats (ES_FAR_STATS), the squared errors of
 *  windows to windows (ES_FAR_WINDOWS), and writes the output to y (dv). */
void far_weigh(far_work *w, const far_query *q, double *stats, double *windows, double *y);

/*! far_exact() : adds the numbers of (F3) to the cell: exact to gaussian. far_limit_error() : the
 *  squared error of the limit (F4). */
es_status far_exact(far_work *w, const far_query *q, es_far_cell *cell, es_error *err);
es_status far_limit_error(far_work *w, const far_query *q, double *out, es_error *err);

#endif
