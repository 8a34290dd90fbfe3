/* SPDX-License-Identifier: Apache-2.0 */
/* late_inside.h : what the files of late_outputs.h share. */
#ifndef ES_EXPERIMENTS_KIT_LATE_INSIDE_H
#define ES_EXPERIMENTS_KIT_LATE_INSIDE_H

#include "experiments/kit/late_outputs.h"
#include "model/forward_inside.h"

enum { ES_LATE_CHUNK = 16 }; /* queries whose scores are one product */

/* Keys or values of the unit as a cache holds them, in f64. */
typedef struct es_late_side {
    const es_kv_format *format;
    double *rows; /* (n, d) */
    double *fine; /* (n, d) as new places find them; used where the format differs by age */
} es_late_side;

/* One unit. A row is a query of one of its heads: rows of a query lie side by side. */
typedef struct es_late_work {
    const es_late_layer *layer;
    const es_late_spec *spec;
    const es_late_out *out;
    es_mem_limit *budget;
    es_arena arena;
    int64_t unit, each, n, d; /* each: heads that read the unit */
    bool joint;               /* a policy has one set for all units of the layer */
    es_dtype dtype;           /* of the model */
    char *held[2];        /* (units, n, d) keys and values as held, in the model's precision; of the
                             unit alone unless joint */
    es_view *views[2];    /* (kv_heads) of the same; rows of other units as they are unless joint */
    char *joined;         /* (n, heads, d) queries side by side, of the unit or of the layer */
    es_evict_head *heads; /* (heads) of the layer; k as held */
    double *q;            /* (queries, each, d) */
    double *k, *v;        /* (n, d) of the full model */
    es_late_side side[2]; /* of the present types */
    /* of the present chunk */
    int64_t first, count, keys; /* queries; keys up to the last one's place */
    double *full_scores;        /* (CHUNK each, n) of the full model, -inf: not seen */
    double *full_weights;       /* (CHUNK each, n) */
    double *scores;             /* (CHUNK each, n) over what is held */
    double *weights, *other;    /* (CHUNK each, n) */
    double *partial;            /* (CHUNK each, d) */
} es_late_work;

/* Sums over the keys that a row keeps so far. */
typedef struct es_late_state {
    double *sum;    /* (rows, d) of e^(score - offset) v */
    double *total;  /* (rows) of e^(score - offset), the sink included */
    double *offset; /* (rows) the largest score */
    double *mass;   /* (rows) of the full model's weights, the sink's included */
} es_late_state;

/* What prompt mode needs. */
typedef struct es_late_prompt {
    double *scores;         /* (types, policies, P) */
    int64_t *listed;        /* (policies, P) keys in the order in which they come in */
    int64_t *ends;          /* (policies, keys) how many have come in */
    uint8_t *kept;          /* (2, P) */
    double *values;         /* (P, d) of keys that come in */
    double *given;          /* (P) scores of policies that look at later queries */
    bool looked;            /* they are known */
    es_late_state state[2]; /* of keys after the prompt; of a policy */
    es_cache_turn turn;
} es_late_prompt;

/*! es_late_hold() : rounds the rows of the unit, or of all units of the layer, to types `type`. */
void es_late_hold(es_late_work *w, int64_t type);

/*! es_late_chunk() : begins the chunk of queries from number `first` on, with the full model's
 *  scores and weights. es_late_scores() : scores of its rows over what is held. */
void es_late_chunk(es_late_work *w, int64_t first);
void es_late_scores(es_late_work *w);

/*! es_late_rounded() : outputs of the chunk with every key kept and rounded, and what rounding does
 *  to them. es_late_full() : outputs of the full model. */
void es_late_rounded(es_late_work *w, int64_t type);
void es_late_full(es_late_work *w);

/*! es_late_prompt_new() : memory of prompt mode. es_late_prompt_run(), es_late_decode() : outputs
 * of all policies and numbers of keys, with rows as they are held. */
es_status es_late_prompt_new(es_late_work *w, es_late_prompt *p, es_error *err);
es_status es_late_prompt_run(es_late_work *w, es_late_prompt *p, int64_t type, es_error *err);
es_status es_late_decode(es_late_work *w, int64_t type, es_error *err);

/*! es_late_row_sink() : the sink's logit of row r of the chunk; -inf: none. es_late_place() : its
 *  query's place. */
static inline double es_late_row_sink(const es_late_work *w, int64_t r)
{
    return w->layer->sinks[w->unit * w->each + r % w->each];
}
static inline int64_t es_late_place(const es_late_work *w, int64_t r)
{
    return w->spec->queries[w->first + r / w->each];
}

#endif
