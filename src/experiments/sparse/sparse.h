/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.h : the error of one head's outputs when a policy keeps some of its keys, measured and
 * computed.
 *
 * Measured: a policy (policy.h) chooses keys, chance decides, softmax over the kept keys gives an
 * output y_S, and |y_S - y|^2 is averaged over draws. Computed (policy_risk.h, no shared code): the
 * exact mean square error, its parts, and the limit of independent policies (THEORY 13).
 *
 *     es_sparse_spec spec = {.plans = plans, .n_plans = 9, .draws = 64, .seed = 7};
 *     es_sparse_head head = {.queries = q, .keys = k, .values = v, .scale = 0.125};
 *     es_sparse_measure(&spec, &head, which, 4, 0, cells, &err);         (4, n_plans)
 *
 * Heads are given as matrices. A cell is a pure function of its arguments.
 */
#ifndef ES_EXPERIMENTS_SPARSE_SPARSE_H
#define ES_EXPERIMENTS_SPARSE_SPARSE_H

#include <esscher/policy.h>

#include "base/memory.h"
#include "experiments/kit/cell_kit.h"

/* One head over one context. Scores are scale q.k, or cap tanh(scale q.k / cap); query i stands at
 * positions[i] among the keys, and sees those up to it if the head is causal, all of them
 * otherwise. */
typedef struct es_sparse_head {
    es_view queries;          /* (m, d): all of them, because some policies use what earlier
                                 queries attended to */
    es_view keys, values;     /* (n, d), (n, dv) */
    const int64_t *positions; /* (m), -1: it has none; NULL: query i stands at i */
    double scale, cap;        /* cap 0: none */
    bool causal;
} es_sparse_head;

typedef struct es_sparse_spec {
    const es_policy_spec *plans; /* (n_plans) */
    int64_t n_plans;
    int64_t draws; /* per query and plan that leaves something to chance */
    uint64_t seed;
    const es_exec *exec; /* budget; the work is one thread's */
} es_sparse_spec;

/* What is found for one query under one plan. NaN: there is none. */
typedef struct es_sparse_cell {
    double mse;         /* |y_S - y|^2, mean over draws */
    double mse_var;     /* variance of that mean; 0 where nothing is left to chance */
    double exact;       /* E |y_S - y|^2 */
    double bias2;       /* |E y_S - y|^2 */
    double variance;    /* the rest */
    double first_order; /* the large-m form of `exact` */
    double limit;       /* what no independent unbiased policy of as many keys falls below */
    double mass;        /* of the weights that are kept, expected */
    double kept;        /* keys that are kept, expected */
    double empty;       /* probability that nothing is kept */
    double corrected;   /* 1: weights of keys kept by chance are multiplied; 0: they are not */
    double spread2;     /* sum w |v - y|^2, of the query */
    double ess;         /* 1/sum w^2 */
    double n;           /* keys that it sees */
} es_sparse_cell;

/*! es_sparse_measure() : queries which (count), by their rows, into out (count, n_plans). `first`
 * is the number of the first of them among all queries of a run: draws have their address by it.
 *  O(n (d + dv)) and an integral or a few for each query and plan; O(m n d) more if a plan looks at
 *  what earlier queries attended to.
 *  @return : ES_OK; ES_E_SHAPE (sparse.shape) for matrices that do not fit; ES_E_RANGE
 * (sparse.query, sparse.position); as es_policy_choose(), es_policy_risk_of(). */
es_status es_sparse_measure(const es_sparse_spec *spec, const es_sparse_head *head,
                            const int64_t *which, int64_t count, int64_t first, es_sparse_cell *out,
                            es_error *err);

/* ---- one set of keys for all queries ---- */

/* What keeping a set of keys does to many outputs at once, against full attention over all tokens.
 */
typedef struct es_sparse_errors {
    double mean_error; /* |m_S - m| of the means: of the kept tokens' outputs over each other, and
                          of all tokens' outputs over all */
    double cov_error;  /* |C_S - C|_F of their covariances, likewise */
    double mse;        /* mean over the queries asked about of |y_S - y|^2 */
} es_sparse_errors;

/*! es_sparse_replicate() : the window experiment of Token Sample Complexity. Each plan keeps one
 * set of keys for all queries: what a query in the middle, at key n / 2, would keep, drawn once.
 * For `bigbird` without sinks that is a window around the middle of the text and random keys
 * outside it. head: as many queries as keys, not causal, without positions. Queries which (count),
 * by their rows, into out (n_plans). `number` is the replicate's, by which draws have their
 * address; spec's draws are not looked at. O((n + count) m (d + dv)) for each plan of m keys, f32
 * kernels.
 *  @return : ES_OK; ES_E_SHAPE (sparse.shape); ES_E_RANGE (sparse.query); ES_E_UNSUPPORTED
 *  (sparse.shared: causal, positions, corrected keys); as es_policy_choose(), es_attend(). */
es_status es_sparse_replicate(const es_sparse_spec *spec, const es_sparse_head *head,
                              const int64_t *which, int64_t count, int64_t number,
                              es_sparse_errors *out, es_error *err);

/*! es_sparse_replicate_bytes() : memory that it takes at most, on one thread. */
double es_sparse_replicate_bytes(int64_t n, int64_t d, int64_t dv, int64_t count);

/* Experiments of the address space. */
enum {
    ES_SPARSE_DRAWS = ES_EXPERIMENT_SPARSE,          /* cell: query, draw */
    ES_SPARSE_REPLICATES = ES_EXPERIMENT_SPARSE + 1, /* cell: replicate, plan */
    ES_SPARSE_PROJECTIONS = ES_EXPERIMENT_SPARSE + 2 /* cell: draw */
};

/* ---- one query ----
 *
 * Plain loops in f64 that share no code with policy_risk.h: what is measured must not be what is
 * predicted. */

/* The query that a cell works on; arrays hold up to all keys. */
typedef struct es_sparse_query {
    const es_sparse_head *head;
    int64_t row, position;
    int64_t n;                   /* keys that it sees */
    double *scores;              /* (n) */
    double *output;              /* (dv) over all of them */
    double *kept;                /* (dv) over the keys that are kept */
    double *key, *value, *query; /* a row of each */
    double top;                  /* the largest score */
    double sum_squares;          /* sum w^2 */
} es_sparse_query;

/*! es_sparse_query_new() : allocates the arrays. es_sparse_query_see() : computes scores, output
 * and sum of squares of row `row`. */
es_status es_sparse_query_new(const es_sparse_head *head, es_arena *arena, es_sparse_query *out,
                              es_error *err);
es_status es_sparse_query_see(es_sparse_query *q, int64_t row, es_error *err);

/*! es_sparse_kept_output() : computes softmax over the kept keys into q->kept. @return : false if
 * none of them has weight, which policy_risk.h calls empty, too. es_sparse_apart2() : returns
 * |q->kept - q->output|^2. */
bool es_sparse_kept_output(es_sparse_query *q, const es_kept *kept);
double es_sparse_apart2(const es_sparse_query *q);

/* What earlier queries attended to, for each query that is asked about. */
typedef struct es_sparse_past {
    int64_t n;
    double *history, *observed; /* (count, n); NULL: no plan uses it */
} es_sparse_past;

/*! es_sparse_past_of() : sums the weights of earlier queries, if a plan uses them. `Earlier` is by
 * position, then by row. */
es_status es_sparse_past_of(const es_sparse_spec *spec, const es_sparse_head *head,
                            const int64_t *which, int64_t count, es_arena *arena,
                            es_sparse_past *out, es_error *err);

/*! es_sparse_shared_keys() : draws the keys, of n, that es_sparse_replicate() keeps under a plan:
 * those of a query at key n / 2. *choice and *kept as es_policy_choose() and es_choice_draw() fill
 * them, on the choice's budget. */
es_status es_sparse_shared_keys(const es_sparse_spec *spec, int64_t plan, int64_t n, int64_t number,
                                es_choice *choice, es_kept *kept, es_error *err);

/*! es_sparse_project() : computes Linformer's output, attention over `rows` random mixtures of all
 * keys, into q->kept. Draw `draw` is the same for all queries, as a layer's projection is. */
es_status es_sparse_project(es_sparse_query *q, const es_sparse_spec *spec, int64_t rows,
                            int64_t draw, es_arena *scratch, es_error *err);

#endif
