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

#include <esscher/npy.h>
#include <esscher/policy.h>

#include "base/memory.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/array_layout.h"
#include "experiments/kit/cache_params.h"
#include "experiments/kit/cell_kit.h"
#include "experiments/kit/late_outputs.h"
#include "experiments/kit/plan_params.h"
#include "experiments/kit/policy_params.h"
#include "experiments/kit/pool_params.h"
#include "head/head.h"
#include "theory/key_weights.h"

/* One head over one context. Scores are scale q.k, or cap tanh(scale q.k / cap); query i stands at
 * positions[i] among the keys, and sees those up to it if the head is causal, all of them
 * otherwise; with a window, es_past_begin() to es_past_end() of them (sparse_head.h). */
typedef struct es_sparse_head {
    es_view queries;          /* (m, d): all of them, because some policies use what earlier
                                 queries attended to */
    es_view keys, values;     /* (n, d), (n, dv) */
    const int64_t *positions; /* (m), -1: it has none; NULL: query i stands at i */
    double scale, cap;        /* cap 0: none */
    const double *sink;       /* logit of its learned sink: one more key of value 0, which every
                                 policy keeps and no count of keys has; NULL: it has none */
    int64_t window;           /* 0: none */
    bool causal;
} es_sparse_head;

typedef struct es_sparse_spec {
    const es_policy_spec *plans; /* (n_plans) */
    int64_t n_plans;
    int64_t draws; /* per query and plan that leaves something to chance */
    uint64_t seed;
    const es_exec *exec; /* budget; the work is one thread's */
} es_sparse_spec;

/* Results of one query under one plan. NaN: none. */
typedef struct es_sparse_cell {
    double mse;         /* |y_S - y|^2, mean over draws */
    double mse_var;     /* variance of that mean; 0 where nothing is left to chance */
    double exact;       /* E |y_S - y|^2 */
    double bias2;       /* |E y_S - y|^2 */
    double variance;    /* the rest */
    double first_order; /* the large-m form of `exact` */
    double limit;       /* what no independent unbiased policy of as many keys falls below */
    double mass;        /* of the weights that are kept, expected; a sink's is always kept */
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
    int64_t begin, n;            /* keys that it sees: n of the head's, from `begin` on */
    double *scores;              /* (n) */
    double *output;              /* (dv) over all of them */
    double *kept;                /* (dv) over the keys that are kept */
    double *key, *value, *query; /* a row of each */
    double sink;                 /* logit; -inf: the head has none */
    double top;                  /* the largest score, the sink's included */
    double sum_squares;          /* sum w^2, the sink's included */
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

/* Weights of earlier queries, for each query that is measured. */
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

/* ---- the study ---- */

/* the parts of the study `sparse`.
 *
 * A run combines a question with a source, both chosen once in open():
 *
 *     questions  policies.c  errors of eviction policies: rows.c, agreement.c, heads.c
 *                caches.c    --evict, --kv-type: errors of caches: cache_cells.c, cache_rows.c,
 *                            precision.c
 *                paper.c     --preset paper: the protocol of Token Sample Complexity
 *     sources    arrays.c    --q, --k, --v
 *                model.c     --model, --text: hidden states, or blocks that the model runs
 *                drawn.c     normal tokens and a random head, for the papers' protocol
 *
 * question.c has parameters, help and cost; plans.c turns policies and numbers of keys into plans;
 * inputs.c chooses heads and queries. cells.c, query.c, linformer.c and replicate.c compute cells
 * (sparse.h).
 */

/* The options. */
typedef struct sparse_params {
    const char *paths[3]; /* Q, K, V */
    const char *positions;
    double scale; /* NaN: not given */
    bool causal, bf16;
    int layout;
    int64_t batch;
    es_pool_params pool;
    int64_t context, contexts, queries; /* 0: not given */
    es_grid layers, heads;
    es_policy_params policy;
    es_cache_params cache;
    const char *plan;
    int64_t draws;
    bool per_query;
    int preset;
    int64_t replicates;
} sparse_params;

/* A policy at one number of keys, or with parts that say how many. */
typedef struct sparse_plan {
    const char *word; /* as it was asked for: "bigbird+inverse" */
    int64_t policy;   /* number among the words */
    int64_t keys;     /* asked for; 0: parts decide */
    bool deployable;
} sparse_plan;

/* A head that is looked at. */
typedef struct sparse_place {
    int64_t layer, head;
    int64_t window; /* of its layer; 0: none */
} sparse_place;

/* Where queries, keys and values come from. */
typedef struct sparse_source {
    const char *name; /* in the answer */
    int64_t queries;  /* of each context at most, unless given */
    /* Finds sizes and checks that they fit, without reading numbers. */
    es_status (*open)(es_job *job, es_error *err);
    es_status (*begin)(es_job *job, es_error *err); /* reads them; NULL: nothing to read */
    /* Makes the matrices of a head over a context, in `arena` or in the state. */
    es_status (*head)(const es_job *job, int64_t place, int64_t context, es_arena *arena,
                      es_sparse_head *out, es_error *err);
} sparse_source;

extern const sparse_source sparse_arrays, sparse_model, sparse_blocks, sparse_drawn;

struct sparse_state;
typedef struct sparse_state sparse_state;

/* A question about these heads: its sizes, and the functions of its phases. */
typedef struct sparse_question {
    const sparse_source *without_input; /* the source if none is given; NULL: one must be */
    const sparse_source *of_model;      /* the source if a model is given */
    int64_t context;                    /* tokens of a context unless given; 0: the source's */
    int64_t longest;                    /* the same, at most; 0: the source's */
    bool every_query;                   /* default: all queries of a context */
    bool refuses_causal;
    es_status (*plan)(es_job *job, es_error *err);      /* s->specs, s->plans */
    es_status (*add_stage)(es_job *job, es_error *err); /* adds the one stage of cells */
    /* Operations of one head in a context of n tokens, for default sizes; NULL: they are fixed. */
    double (*work)(const sparse_state *s, int64_t n, int64_t queries);
    double (*more_bytes)(const es_job *job); /* of a cell; NULL: none */
    double (*all_bytes)(const es_job *job);  /* of all threads together, instead of what cells of
                                                policies take; NULL: these */
    es_status (*summarise)(es_job *job, es_answer *answer, es_error *err);
} sparse_question;

extern const sparse_question sparse_policies, sparse_caches, sparse_paper;

/* Settings of caches: types, then policies, then numbers of keys. */
typedef struct sparse_cache {
    es_evict_mode mode;
    int64_t prompt; /* tokens; queries after them are looked at */
    es_late_types *types;
    es_evict_spec *policies;
    int64_t *keys;
    int64_t n_types, n_policies, n_keys; /* n_policies 0: caches only round */
    bool rounds;                         /* --kv-type is given */
} sparse_cache;

/* The state of the study: source of heads, policies and groups of queries. */
struct sparse_state {
    const sparse_params *p;
    const sparse_source *source;
    const sparse_question *question;
    bool causal; /* as asked, or as the model is */
    /* arrays */
    es_npy_info info[3];
    es_array arrays[3];
    es_array_layout at[3];
    int64_t kv_heads;
    int64_t *positions; /* (m); NULL: query i stands at i */
    /* a model */
    es_pools pools;
    /* drawn tokens: one head of them */
    es_head_data drawn;
    /* of any source */
    int64_t layers, heads;         /* that there are */
    int64_t contexts, m, n, d, dv; /* m queries over n keys in each context */
    int64_t first;                 /* first query of a context that may be asked about */
    int64_t hidden;                /* columns of the states that heads are made of; 0: none */
    double scale, cap;             /* cap 0: none */
    /* what is asked */
    sparse_place *places; /* (n_places) layers and heads */
    int64_t n_places;
    int64_t queries;       /* of each context that are asked about */
    int64_t *which;        /* (contexts, queries) their rows, increasing */
    int64_t seen[2];       /* fewest and most keys that one of them sees */
    double mean_seen;      /* mean over all of them */
    es_policy_spec *specs; /* (n_plans); of a plan file (n_places), one for each head */
    sparse_plan *plans;    /* (n_plans); of a plan file one, without a number of keys */
    es_plan *file;         /* the plan file; NULL: none was given */
    int64_t n_plans, n_words;
    int64_t *grid, n_grid; /* numbers of keys that plans share */
    int64_t group, groups; /* queries of a cell; cells of a (head, context) */
    sparse_cache cache;
    es_blocks text; /* blocks of tokens, where the model runs */
};

/* ---- inputs.c ---- */

/*! sparse_inputs_open() : opens the source and chooses heads and queries. */
es_status sparse_inputs_open(es_job *job, es_error *err);

/*! sparse_head_of() : makes a head over a context; it points into `arena`, or into the state. */
es_status sparse_head_of(const es_job *job, int64_t place, int64_t context, es_arena *arena,
                         es_sparse_head *out, es_error *err);

/*! sparse_head_bytes() : memory of making one. sparse_head_flops() : operations, over n keys. */
double sparse_head_bytes(const sparse_state *s);
double sparse_head_flops(const sparse_state *s, int64_t n);

/*! sparse_group() : queries of a cell, of `queries` in a context. Cells have more where policies
 * use past attention, which every cell computes anew. */
int64_t sparse_group(const sparse_state *s, int64_t queries);

/* ---- plans.c ---- */

/*! sparse_plans_read() : fills s->plans for n keys. @return : ES_OK; as es_policies_read(),
 *  es_policy_spec_check(); ES_E_ARGUMENT (sparse.keys). */
es_status sparse_plans_read(es_job *job, es_error *err);

/*! sparse_spec_of() : returns the policy of the head at a place under a plan. sparse_asked() : as
 *  it was asked for, "bigbird+inverse". sparse_keys() : its number of keys; 0: parts decide. */
const es_policy_spec *sparse_spec_of(const sparse_state *s, int64_t place, int64_t plan);
const char *sparse_asked(const sparse_state *s, int64_t place, int64_t plan,
                         char out[ES_POLICY_SIZE]);
int64_t sparse_keys(const sparse_state *s, int64_t place, int64_t plan);

/*! sparse_looks_back() : returns whether a policy uses the weights of earlier queries. */
bool sparse_looks_back(const sparse_state *s);

/* ---- caches.c, cache_cells.c ---- */

/*! sparse_caches_check() : fails for options of caches that exclude each other or others.
 *  @return : ES_OK; as es_cache_params_check(); ES_E_ARGUMENT (sparse.options). */
es_status sparse_caches_check(es_job *job, es_error *err);

/* Shares of keys that are dropped at random, at which the exact risk of a head is known. */
enum { SPARSE_SHARES = 8 };
extern const double sparse_shares[SPARSE_SHARES];

/* Results of a head in one context: means over queries. Rows of a head are settings of eviction,
 * then types with every key kept, then SPARSE_SHARES risks if caches round. */
typedef struct sparse_cache_cell {
    double mse;         /* |y_S - y|^2; of a share: the exact risk */
    double mass;        /* the full model's weight of what is kept */
    double spread2;     /* sum w |v - y|^2 */
    double ess;         /* 1/sum w^2 */
    double first_order; /* of types: (Q2) */
    double linear;      /* of types: (Q1) */
    double noise2;      /* of types: sum w ds^2 */
    double key_risk;    /* of types: sum w^2 |v - y|^2 */
} sparse_cache_cell;

/*! sparse_cache_rows() : rows of a head. sparse_cache_cell_of() : what was found for one of them.
 */
int64_t sparse_cache_rows(const sparse_state *s);
const sparse_cache_cell *sparse_cache_cell_of(const es_job *job, int64_t place, int64_t context,
                                              int64_t row);

/*! sparse_cache_run() : one context through the full model, all settings; es_stage.run.
 *  sparse_cache_bytes() : its memory. */
es_status sparse_cache_run(es_job *job, int64_t context, const es_exec *exec, void *record,
                           es_error *err);
double sparse_cache_bytes(const es_job *job);

/*! sparse_cache_setting() : setting `at` of eviction, or of rounding alone: "h2o", "q4_0". */
es_cache_setting sparse_cache_setting(const sparse_state *s, int64_t at);

/* ---- cache_rows.c, precision.c ---- */

/*! sparse_cache_ratio() : the sum over contexts of a member of sparse_cache_cell, given by its
 *  offset, over that of another, or over the number of contexts if `below` is SIZE_MAX; without the
 *  context `left_out`, -1: with all. */
double sparse_cache_ratio(const es_job *job, int64_t place, int64_t row, size_t above, size_t below,
                          int64_t left_out);

/*! sparse_cache_mean() : the same of all contexts, with its standard error from the residuals of
 *  contexts; unset of a single one. */
es_measured sparse_cache_mean(const es_job *job, int64_t place, int64_t row, size_t above,
                              size_t below);

/*! sparse_jackknife() : a statistic over all contexts, and its standard error from the values
 *  without one of them; unset of a single context. */
typedef double sparse_statistic(const es_job *job, const void *user, int64_t left_out);
es_measured sparse_jackknife(const es_job *job, sparse_statistic *of, const void *user);

/*! sparse_quantile() : the value that a share of sorted values (count) is below, linear between
 *  neighbours; count > 0. */
double sparse_quantile(const double *sorted, int64_t count, double share);

/*! sparse_put_caches() : the tables `rows` and `settings`. sparse_put_precision() : the tables
 *  `types` and `precision`. Both add findings. */
es_status sparse_put_caches(es_job *job, es_answer *answer, es_error *err);
es_status sparse_put_precision(es_job *job, es_answer *answer, es_error *err);

/* ---- rows.c ---- */

/* What a row is about. */
typedef struct sparse_name {
    int64_t layer, head;
    const char *policy, *correction, *asked;
    int64_t keys;
} sparse_name;

/* A row of the table `rows`: what one plan does to one head, means over queries and contexts. */
typedef struct sparse_row {
    sparse_name name;
    double kept, seen, share;
    es_measured relative_error; /* se: over contexts, or over queries of one */
    double relative_limit, over_limit, mass;
    es_measured mse;       /* se: of the draws */
    es_measured mse_exact; /* se: over contexts, or over queries of one */
    double mse_limit, bias2, variance, first_order, z, empty;
    double spread2, ess; /* of the head; ess: median over queries */
    const char *regime;
} sparse_row;

/*! sparse_error2() : returns what a plan is judged by: the exact error where there is one. */
static inline double sparse_error2(const sparse_row *r)
{
    return r->mse_exact.value == r->mse_exact.value ? r->mse_exact.value : r->mse.value;
}

/*! sparse_has_spread() : returns whether errors have a unit: not where all weight is on equal
 * values. */
static inline bool sparse_has_spread(const sparse_row *r) { return r->spread2 > 0.0; }

/*! sparse_rows_make() : computes (places, plans) rows; name.asked is unset. */
es_status sparse_rows_make(es_job *job, sparse_row **out, es_error *err);

/*! sparse_put_rows() : fills the tables `rows` and `per_query`. */
es_status sparse_put_rows(es_job *job, const sparse_row *rows, es_answer *answer, es_error *err);

/* ---- agreement.c ---- */

/*! sparse_put_agreement() : fills the table `agreement`. `scratch` has (places) numbers. */
void sparse_put_agreement(const sparse_state *s, const sparse_row *rows, double *scratch,
                          es_answer *answer);

/* ---- heads.c ---- */

/*! sparse_put_heads() : fills the tables of heads from rows (places, plans) and adds findings. */
es_status sparse_put_heads(es_job *job, const sparse_row *rows, es_answer *answer, es_error *err);

/*! sparse_regime_of() : returns the regime by the ESS of the median query. */
es_regime sparse_regime_of(const sparse_row *row);

/* ---- policies.c ---- */

/*! sparse_say_seen() : "the 257 to 512 keys that a query sees (17 %)", or "512 keys (12 %)" where
 *  all queries see as many; the share is that of `kept` keys. */
const char *sparse_say_seen(const sparse_state *s, double kept, char out[ES_SAY_SIZE]);

#endif
