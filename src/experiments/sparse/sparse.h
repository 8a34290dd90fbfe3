/* sparse.h : what keeping some of the keys does to the outputs of one head, measured and computed.
 *
 * A policy (policy.h) says which keys a query keeps. Here it is done: keys are chosen, chance
 * decides, softmax over what is kept gives an output y_S, and |y_S - y|^2 is averaged over draws.
 * Beside it stands what theory says (policy_risk.h), which shares no code with that: the exact mean
 * square error, its parts, and the limit of independent policies (THEORY 13).
 *
 *     es_sparse_spec spec = {.plans = plans, .n_plans = 9, .draws = 64, .seed = 7};
 *     es_sparse_head head = {.queries = q, .keys = k, .values = v, .scale = 0.125};
 *     es_sparse_measure(&spec, &head, which, 4, 0, cells, &err);         (4, n_plans)
 *
 * Heads are given as matrices, whoever made them. A cell is a pure function of its arguments.
 */
#ifndef ES_EXPERIMENTS_SPARSE_SPARSE_H
#define ES_EXPERIMENTS_SPARSE_SPARSE_H

#include <esscher/policy.h>

/* One head over one context. Scores are scale q.k; query i stands at positions[i] among the keys,
 * and sees those up to it if the head is causal, all of them otherwise. */
typedef struct es_sparse_head {
    es_view queries;          /* (m, d): all of them, though some are asked about: policies that
                                 look back see what earlier ones attended to */
    es_view keys, values;     /* (n, d), (n, dv) */
    const int64_t *positions; /* (m), -1: it has none; NULL: query i stands at i */
    double scale;
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

/*! es_sparse_bytes() : memory that it takes at most. */
double es_sparse_bytes(int64_t n, int64_t d, int64_t dv, int64_t count);

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

#endif
