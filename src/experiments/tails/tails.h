/* SPDX-License-Identifier: Apache-2.0 */
/* tails.h : are tokens sub-Gaussian in the directions that matter to attention, as the theory
 * assumes? tail_sample.h tests one sample of numbers. Here the samples are projections of tokens:
 * those of a layer of a real model (pool.h), or of any origin.
 */
#ifndef ES_EXPERIMENTS_TAILS_TAILS_H
#define ES_EXPERIMENTS_TAILS_TAILS_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>
#include <esscher/view.h>

#include "driver/job.h"
#include "experiments/kit/pool_params.h"
#include "model/pool.h"
#include "stats/tail_sample.h"

typedef enum es_tails_kind {
    ES_TAILS_PRINCIPAL = 0, /* principal components, the leading ones */
    ES_TAILS_RANDOM = 1,    /* directions uniform on the sphere: the baseline */
    ES_TAILS_NORM = 2,      /* |x - mean|, against norms of Gaussian vectors of the covariance */
    ES_TAILS_KEY = 3,  /* of a head: the tilt A x of the query x that changes its scores most */
    ES_TAILS_SCORE = 4 /* of a head: scores of a query that is a token of the pool */
} es_tails_kind;

const char *es_tails_kind_name(es_tails_kind kind); /* "principal", "random", ... */

typedef struct es_tails_spec {
    const es_model *model; /* with its pool; both NULL where there are only tokens */
    const es_pool *pool;
    const es_view *tokens;            /* (n, d); NULL where there is a pool */
    int64_t principal, random;        /* how many; 0: 8 each, at most d */
    int64_t queries;                  /* for each head; 0: 4 */
    int64_t draws;                    /* of controls; 0: 64 */
    const es_tails_control *gaussian; /* of as many tokens, known already; NULL: drawn */
    uint64_t seed;
    const es_exec *exec;
} es_tails_spec;

/* A sample and its control. */
typedef struct es_tails_row {
    es_tails sample;
    es_tails_control control;
    es_tails_p p; /* es_tails_compare() of the two, not corrected for how many were tried */
} es_tails_row;

typedef struct es_tails_direction {
    es_tails_kind kind;
    int64_t head;  /* -1: of no head */
    int64_t index; /* among those of its kind and head */
} es_tails_direction;

/*! es_tails_rows() : directions of a layer. */
int64_t es_tails_rows(const es_tails_spec *spec);
/*! es_tails_direction_of() : what row 0 <= row < es_tails_rows() is. */
es_tails_direction es_tails_direction_of(const es_tails_spec *spec, int64_t row);

/* What a layer takes. */
typedef struct es_tails_cost {
    int64_t rows; /* es_tails_rows() */
    double flops; /* an exp counted as 20 */
    double bytes; /* upper bound on memory at one time */
} es_tails_cost;

/*! es_tails_cost_of() : of `tokens` tokens in `dim` dimensions, `heads` heads (0 without a model),
 *  whatever spec says of the tokens themselves. Where the limit of exec->budget, less what is in
 *  use, allows for less than 64 MiB of projections, `bytes` is what the measurement then takes. */
es_tails_cost es_tails_cost_of(const es_tails_spec *spec, int64_t tokens, int64_t dim,
                               int64_t heads);

/*! es_tails_measure() : every direction of the inputs of layer `layer` (0 of tokens) into out
 *  (es_tails_rows()). One walk through the tokens for their covariance, then one for each group of
 *  directions, whose projections are in memory: as many directions as 64 MiB and the budget hold,
 *  but at least 8, that is 64 n bytes; and 16 n for each thread. The same bits for any number of
 *  threads and any grouping. Progress counts up to 1, operations weighing as in es_tails_cost.
 *  @return : ES_OK; ES_E_ARGUMENT unless there is either a model with its pool or tokens;
 *  ES_E_SHAPE (tails.pool) if the pool is not of the model; ES_E_RANGE; as es_tails_of(),
 *  es_pool_rows() and es_sym_eigen(); ES_E_INTERRUPTED. */
es_status es_tails_measure(const es_tails_spec *spec, int64_t layer, es_tails_row *out,
                           es_error *err);

/* ---- the study ---- */

typedef struct tails_params {
    es_pool_params pool;
    const char *tokens;
    int64_t principal, random, queries, draws;
} tails_params;

typedef struct tails_state tails_state;

/* Where tokens come from: layers of pools, or one file. */
typedef struct tails_source {
    es_status (*open)(es_job *job, tails_params *p, tails_state *s, es_error *err);
    es_status (*begin)(es_job *job, tails_state *s, es_error *err);
    /* Completes the spec of a cell; returns its number of tokens. */
    int64_t (*tokens_of)(const tails_state *s, int64_t cell, es_tails_spec *spec);
} tails_source;

struct tails_state {
    const tails_source *source;
    es_pools pools;     /* empty where there is a file */
    es_matrix tokens;   /* of the file; data NULL: there are pools */
    es_tails_spec spec; /* of any layer; pool and exec are the layer's */
    int64_t layers, n_domains;
    int64_t count, dim, heads; /* of tokens; of the smallest pool */
    es_tails_row *rows;        /* (directions) scratch for a layer */
    es_tails_control gaussian; /* of gaussian_tokens tokens, once it is drawn */
    int64_t gaussian_tokens;   /* 0: not yet */
};

/* The record of a direction: an es_tails_row without the order statistics of its control. */
typedef struct tails_cell {
    double count, mean, variance, kurtosis, proxy, tilt, psi2;
    es_measured hill;
    double hill_half, hill_twice;
    double kurtosis_control, kurtosis_sd, proxy_control, proxy_sd; /* mean and sd over samples */
    double psi2_control, psi2_sd, hill_control, hill_sd;
    double design, p_heavier, p_lighter;
} tails_cell;

/*! tails_row_of() : the row that a record is of. */
es_tails_row tails_row_of(const tails_cell *cell);

/*! tails_spec_at() : the spec of a cell, a layer of a domain. */
es_tails_spec tails_spec_at(const tails_state *s, int64_t cell);

es_status tails_summarise(es_job *job, es_answer *answer, es_error *err); /* rows.c */

#endif
