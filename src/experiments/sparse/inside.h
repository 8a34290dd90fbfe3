/* inside.h : one query of a head, looked at: scores, the output over all keys, the output
 * over those that are kept. Plain loops in f64, none of them policy_risk.h's: what is measured must
 * not be what is predicted. */
#ifndef ES_EXPERIMENTS_SPARSE_INSIDE_H
#define ES_EXPERIMENTS_SPARSE_INSIDE_H

#include "experiments/sparse/sparse.h"

#include "base/memory.h"
#include "experiments/kit/cell_kit.h"

/* Experiments of the address space. */
enum {
    ES_SPARSE_DRAWS = ES_EXPERIMENT_SPARSE,          /* cell: query, draw */
    ES_SPARSE_REPLICATES = ES_EXPERIMENT_SPARSE + 1, /* cell: replicate, plan */
    ES_SPARSE_PROJECTIONS = ES_EXPERIMENT_SPARSE + 2 /* cell: draw */
};

/* A query that is looked at; arrays have room for all keys. */
typedef struct es_sparse_query {
    const es_sparse_head *head;
    int64_t row, position;
    int64_t n;                   /* keys that it sees */
    double *scores;              /* (n) */
    double *output;              /* (dv) over all of them */
    double *kept;                /* (dv) room for the output over some */
    double *key, *value, *query; /* room for a row of each */
    double top;                  /* the largest score */
    double sum_squares;          /* sum w^2 */
} es_sparse_query;

/*! es_sparse_query_new() : room. es_sparse_query_see() : look at row `row`. */
es_status es_sparse_query_new(const es_sparse_head *head, es_arena *arena, es_sparse_query *out,
                              es_error *err);
es_status es_sparse_query_see(es_sparse_query *q, int64_t row, es_error *err);

/*! es_sparse_kept_output() : softmax over what is kept, into q->kept. @return : false if nothing
 * is that has weight among all keys; policy_risk.h calls that empty, too. es_sparse_apart2() :
 * |q->kept - q->output|^2. */
bool es_sparse_kept_output(es_sparse_query *q, const es_kept *kept);
double es_sparse_apart2(const es_sparse_query *q);

/* What earlier queries attended to, for each query that is asked about. */
typedef struct es_sparse_past {
    int64_t n;
    double *history, *observed; /* (count, n); NULL: nobody asks */
} es_sparse_past;

/*! es_sparse_past_of() : for plans that need it. `Before` is by position, then by row. */
es_status es_sparse_past_of(const es_sparse_spec *spec, const es_sparse_head *head,
                            const int64_t *which, int64_t count, es_arena *arena,
                            es_sparse_past *out, es_error *err);

/*! es_sparse_shared_keys() : what es_sparse_replicate() keeps under a plan, of n keys: those of a
 * query at key n / 2, drawn once. *choice and *kept as es_policy_choose() and es_choice_draw() have
 * them, on the choice's budget. */
es_status es_sparse_shared_keys(const es_sparse_spec *spec, int64_t plan, int64_t n, int64_t number,
                                es_choice *choice, es_kept *kept, es_error *err);

/*! es_sparse_project() : Linformer: attention over `rows` random mixtures of all keys, into
 * q->kept. Draw number `draw` is the same for all queries, as a layer's projection is. */
es_status es_sparse_project(es_sparse_query *q, const es_sparse_spec *spec, int64_t rows,
                            int64_t draw, es_arena *scratch, es_error *err);

#endif
