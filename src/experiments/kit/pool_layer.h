/* SPDX-License-Identifier: Apache-2.0 */
/* pool_layer.h : a layer of a model and the rows of its pool that queries and draws take; shared by
 * the experiments that let tokens of a pool attend over each other, probe and picture.
 *
 * Rows are pure functions of (seed, layer, number) and of the pool's size: a streamed pool can
 * store them in advance, and two experiments with one seed see the same tokens.
 */
#ifndef ES_EXPERIMENTS_KIT_POOL_LAYER_H
#define ES_EXPERIMENTS_KIT_POOL_LAYER_H

#include <esscher/random.h>

#include "model/pool.h"
#include "random/experiment.h"

/* Experiments of the address space that belong to it. */
enum {
    ES_PROBE_QUERIES = ES_EXPERIMENT_PROBE,
    ES_PROBE_TOKENS = ES_EXPERIMENT_PROBE + 1,
    ES_PROBE_CONTROL = ES_EXPERIMENT_PROBE + 2,
    ES_PROBE_LOCAL = ES_EXPERIMENT_PROBE + 3,
    ES_PROBE_WINDOW = ES_EXPERIMENT_PROBE + 4,
    ES_PROBE_SECTION_QUERIES = ES_EXPERIMENT_PROBE + 5,
    ES_PROBE_PAPER = ES_EXPERIMENT_PROBE + 6
};

/* Far beyond any memory, and products with it fit int64_t. */
#define ES_PROBE_SIZE_MOST (INT64_C(1) << 40)

/* Which sizes and queries of a pool are measured. */
typedef struct es_probe_spec {
    const es_model *model;
    const es_pool *pool;  /* of this model */
    const int64_t *sizes; /* (n_sizes) n_1 < ... < n_P: prefixes of one draw */
    int64_t n_sizes;
    int64_t queries;          /* 0: 1024; as many as the pool has tokens, if it has fewer */
    int64_t exact;            /* the first of them, whose error is computed; 0: 64 */
    bool without_replacement; /* tokens of a draw are distinct; sizes at most the pool's tokens */
    bool draws_only;          /* es_probe_predict() will not be called, which takes most of the
                                 time of opening a layer */
    int64_t part_tokens;      /* of a part of the limit, about; 0: 262144 */
    uint64_t seed;
    const es_exec *exec;
} es_probe_spec;

/* Weights of one layer, all heads: rows of head h are [h k, (h + 1) k). Heads that share their keys
 * and values have copies of the matrices they are made with. */
typedef struct es_probe_weights {
    int64_t hidden, heads, width; /* H, h, k */
    int64_t all;                  /* Q = h k: H of BERT, anything of others */
    float *wq, *wk, *wv;          /* (Q, H) */
    float *bq;                    /* (Q) */
    float *gram;                  /* (Q, Q) Wo'Wo, Wo having a block of columns per head: e' gram e
                                     is how much errors e of all heads change the layer's output */
} es_probe_weights;

static inline int64_t es_probe_queries_among(const es_probe_spec *spec, int64_t tokens)
{
    const int64_t wanted = spec->queries ? spec->queries : 1024;
    return wanted < tokens ? wanted : tokens;
}

static inline int64_t es_probe_queries_of(const es_probe_spec *spec)
{
    return es_probe_queries_among(spec, es_pool_about(spec->pool).tokens);
}

static inline es_mem_limit *es_probe_budget(const es_probe_spec *spec)
{
    return spec->exec ? spec->exec->budget : NULL;
}

/*! es_probe_strip() : tokens of a strip of the pool; strips alternate between its halves. */
int64_t es_probe_strip(int64_t tokens);

/*! es_probe_check() : checks a spec and its pool. es_probe_check_question() : the same for any pool
 *  of `tokens`. @return : ES_OK; ES_E_UNSUPPORTED (probe.norms, probe.cap, probe.sinks);
 *  ES_E_RANGE (probe.layer, probe.sizes, probe.queries); ES_E_SHAPE (probe.pool). */
es_status es_probe_check(const es_probe_spec *spec, int64_t layer, es_error *err);
es_status es_probe_check_question(const es_probe_spec *spec, int64_t tokens, es_error *err);

/*! es_probe_weights_new() : copies of the layer's matrices, in f32. */
es_status es_probe_weights_new(const es_probe_spec *spec, int64_t layer, es_probe_weights *out,
                               es_error *err);
void es_probe_weights_free(const es_probe_spec *spec, es_probe_weights *weights);

/*! es_probe_project() : out (n, outputs) = x (n, hidden) w' + bias on exec->threads threads; w is
 *  (outputs, hidden), bias (outputs) or NULL. */
es_status es_probe_project(const es_exec *exec, const float *x, int64_t n, const float *w,
                           const float *bias, int64_t outputs, int64_t hidden, float *out,
                           es_error *err);

/*! es_probe_queries() : the queries' rows of the pool, projected: out (queries, Q). */
es_status es_probe_queries(const es_probe_spec *spec, int64_t layer, const es_probe_weights *w,
                           float *out, es_error *err);

/* ---- rows of a pool of `tokens` ---- */

/*! es_probe_query_rows() : rows of the queries (es_probe_queries_among()). es_probe_draw_rows() :
 *  rows of a draw (n), n the largest size. es_probe_shuffled_rows() : the first n rows in random
 *  order. */
es_status es_probe_query_rows(const es_probe_spec *spec, int64_t tokens, int64_t layer,
                              int64_t *rows, es_error *err);
es_status es_probe_draw_rows(const es_probe_spec *spec, int64_t tokens, int64_t layer,
                             int64_t replicate, int64_t *rows, es_error *err);
es_status es_probe_shuffled_rows(const es_address *at, int64_t tokens, int64_t n, int64_t *rows,
                                 es_error *err);

#endif
