/* tails.h : are tokens sub-Gaussian, in the directions that matter to attention?
 *
 * The theory asks that they are; tail_sample.h says how one sample of numbers answers. Here the
 * samples are projections: of layers of a real model (pool.h), or of tokens of any origin.
 */
#ifndef ES_EXPERIMENTS_TAILS_TAILS_H
#define ES_EXPERIMENTS_TAILS_TAILS_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>
#include <esscher/view.h>

#include "model/pool.h"
#include "stats/tail_sample.h"

typedef enum es_tails_kind {
    ES_TAILS_PRINCIPAL = 0, /* principal components, the leading ones */
    ES_TAILS_RANDOM = 1,    /* directions uniform on the sphere: the baseline */
    ES_TAILS_NORM = 2,      /* |x - mean|, against norms of Gaussian vectors of the covariance */
    ES_TAILS_KEY = 3,       /* of a head: the tilt A x of the queries x that move its scores most */
    ES_TAILS_SCORE = 4      /* of a head: scores of a query that is a token of the pool */
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

/* A sample and what it is compared with. */
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
 *  directions, whose projections are in memory: so many directions as 64 MiB and the budget hold,
 *  but at least 8, that is 64 n bytes; and 16 n for each thread. The same bits for any number of
 *  threads and any grouping. Progress counts up to 1, operations weighing as in es_tails_cost.
 *  @return : ES_OK; ES_E_ARGUMENT unless there is either a model with its pool or tokens;
 *  ES_E_SHAPE (tails.pool) if the pool is not of the model; ES_E_RANGE; as es_tails_of(),
 *  es_pool_rows() and es_sym_eigen(); ES_E_INTERRUPTED. */
es_status es_tails_measure(const es_tails_spec *spec, int64_t layer, es_tails_row *out,
                           es_error *err);

#endif
