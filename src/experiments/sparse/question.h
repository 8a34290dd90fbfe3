/* SPDX-License-Identifier: Apache-2.0 */
/* question.h : the parts of the study `sparse`.
 *
 * A run combines a question with a source, both chosen once in open():
 *
 *     questions  policies.c  errors of eviction policies: rows.c, agreement.c, heads.c
 *                paper.c     --preset paper: the protocol of Token Sample Complexity
 *     sources    arrays.c    --q, --k, --v
 *                model.c     --model, --text
 *                drawn.c     normal tokens and a random head, for the papers' protocol
 *
 * question.c has parameters, help and cost; plans.c turns policies and numbers of keys into plans;
 * inputs.c chooses heads and queries. cells.c, query.c, linformer.c and replicate.c compute cells
 * (sparse.h).
 */
#ifndef ES_EXPERIMENTS_SPARSE_QUESTION_H
#define ES_EXPERIMENTS_SPARSE_QUESTION_H

#include "head/head.h"
#include <esscher/npy.h>
#include <esscher/policy.h>

#include "experiments/kit/answer_kit.h"
#include "experiments/kit/plan_params.h"
#include "experiments/kit/policy_params.h"
#include "experiments/kit/pool_params.h"
#include "experiments/kit/array_layout.h"
#include "experiments/sparse/sparse.h"
#include "theory/key_weights.h"

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

extern const sparse_source sparse_arrays, sparse_model, sparse_drawn;

/* What is asked of them. */
typedef struct sparse_question {
    const sparse_source *without_input; /* the source if none is given; NULL: one must be */
    int64_t context;                    /* tokens of a context unless given; 0: the source's */
    bool every_query;                   /* default: all queries of a context */
    bool refuses_causal;
    es_status (*plan)(es_job *job, es_error *err);      /* s->specs, s->plans */
    es_status (*add_stage)(es_job *job, es_error *err); /* adds the one stage of cells */
    double (*more_bytes)(const es_job *job);            /* of a cell; NULL: none */
    es_status (*summarise)(es_job *job, es_answer *answer, es_error *err);
} sparse_question;

extern const sparse_question sparse_policies, sparse_paper;

/* What the options make: source of heads, policies and groups of queries. */
typedef struct sparse_state {
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
    double scale;
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
} sparse_state;

/* ---- inputs.c ---- */

/*! sparse_inputs_open() : opens the source and chooses heads and queries. */
es_status sparse_inputs_open(es_job *job, es_error *err);

/*! sparse_head_of() : makes a head over a context; it points into `arena`, or into the state. */
es_status sparse_head_of(const es_job *job, int64_t place, int64_t context, es_arena *arena,
                         es_sparse_head *out, es_error *err);

/*! sparse_head_bytes(), sparse_head_flops() : cost of making one. */
double sparse_head_bytes(const sparse_state *s);
double sparse_head_flops(const sparse_state *s);

/* ---- plans.c ---- */

/*! sparse_plans_read() : fills s->plans for n keys. @return : ES_OK; as es_policies_read(),
 *  es_policy_spec_check(); ES_E_ARGUMENT (sparse.keys). */
es_status sparse_plans_read(es_job *job, es_error *err);

/*! sparse_spec_of() : returns the policy of the head at a place under a plan. sparse_asked() : as
 *  it was asked for, "bigbird+inverse". sparse_keys() : its number of keys; 0: parts decide. */
const es_policy_spec *sparse_spec_of(const sparse_state *s, int64_t place, int64_t plan);
const char *sparse_asked(const sparse_state *s, int64_t place, int64_t plan,
                         char out[ES_POLICY_ROOM]);
int64_t sparse_keys(const sparse_state *s, int64_t place, int64_t plan);

/*! sparse_looks_back() : does a policy use what earlier queries attended to? */
bool sparse_looks_back(const sparse_state *s);

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

/*! sparse_has_spread() : is there a unit of errors? Not where all weight is on equal values. */
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
const char *sparse_say_seen(const sparse_state *s, double kept, char out[ES_SAY_ROOM]);

#endif
