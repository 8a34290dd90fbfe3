/* question.h : the parts of the study `sparse`.
 *
 *     sparse/question.c     parameters, stages, cells, the order of things
 *     sparse/plans.c     which policies, with which parts, at which numbers of keys
 *     sparse/inputs.c    where queries, keys and values come from: files, a model, drawn tokens
 *     sparse/rows.c   rows of heads and plans, agreement of theory and measurement
 *     sparse/heads.c     the best policy of a head, regimes, sentences
 *     sparse/paper.c     the papers' protocol: its stage, its rates
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
#include "experiments/measure/question.h"
#include "experiments/sparse/sparse.h"

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

/* How (layer, head) pairs become matrices. */
enum { SPARSE_FILES, SPARSE_MODEL, SPARSE_DRAWN };

typedef struct sparse_place {
    int64_t layer, head;
} sparse_place;

typedef struct sparse_state {
    const sparse_params *p;
    int source;
    bool causal; /* as asked, or as the model is */
    /* files */
    es_npy_info info[3];
    es_array arrays[3];
    measure_layout at[3];
    int64_t kv_heads;
    int64_t *positions; /* (m); NULL: query i stands at i */
    /* a model */
    es_pools pools;
    /* drawn tokens: one head of them */
    es_head_data drawn;
    /* what is asked */
    sparse_place *places; /* (n_places) layers and heads */
    int64_t n_places;
    int64_t contexts, m, n, d, dv; /* m queries over n keys in each context */
    double scale;
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

/* Stages. */
enum { SPARSE_QUERIES, SPARSE_PAPER };
enum { SPARSE_NUMBERS = sizeof(es_sparse_cell) / sizeof(double) };

/* ---- sparse/plans.c ---- */

/*! sparse_plans_read() : s->plans from what was asked, for n keys. @return : ES_OK; as
 *  es_policies_read(), es_policy_spec_check(); ES_E_ARGUMENT (sparse.keys). */
es_status sparse_plans_read(es_job *job, es_error *err);

/*! sparse_spec_of() : what the head at a place keeps under a plan. sparse_asked() : what it was
 *  asked as, "bigbird+inverse". sparse_keys() : how many keys that are; 0: parts decide. */
const es_policy_spec *sparse_spec_of(const sparse_state *s, int64_t place, int64_t plan);
const char *sparse_asked(const sparse_state *s, int64_t place, int64_t plan,
                         char out[ES_POLICY_ROOM]);
int64_t sparse_keys(const sparse_state *s, int64_t place, int64_t plan);

/* ---- sparse/inputs.c ---- */

/*! sparse_inputs_open() : what there is and whether it fits, without its numbers. _begin() : load
 * it. _close() : give it back. */
es_status sparse_inputs_open(es_job *job, es_error *err);
es_status sparse_inputs_begin(es_job *job, es_error *err);
void sparse_inputs_close(sparse_state *s);

/*! sparse_head_of() : a head over a context; what it points to is in `arena`, or the state's. */
es_status sparse_head_of(const es_job *job, int64_t place, int64_t context, es_arena *arena,
                         es_sparse_head *out, es_error *err);

/*! sparse_head_bytes(), sparse_head_flops() : of making one. */
double sparse_head_bytes(const sparse_state *s);
double sparse_head_flops(const sparse_state *s);

/* ---- sparse/rows.c ---- */

/* What one plan does to one head: means over queries and contexts. */
typedef struct sparse_row {
    double mse, mse_se;
    double exact, exact_se; /* se: over contexts, or over queries of one */
    double relative, relative_se;
    double limit, bias2, variance, first_order, mass, kept, empty, corrected;
    double spread2, ess, n; /* of the head; ess: median over queries */
} sparse_row;

/*! sparse_error2() : what a plan is judged by: the exact error where there is one. */
static inline double sparse_error2(const sparse_row *r)
{
    return r->exact == r->exact ? r->exact : r->mse;
}

/*! sparse_has_spread() : is there a unit of errors? Not where all weight is on equal values. */
static inline bool sparse_has_spread(const sparse_row *r) { return r->spread2 > 0.0; }

/*! sparse_say_seen() : "the 257 to 512 keys that a query sees (17 %)", or "512 keys (12 %)" where
 *  all queries see as many; the share is that of `kept` keys. */
const char *sparse_say_seen(const sparse_state *s, double kept, char out[ES_SAY_ROOM]);

es_status sparse_summarise(es_job *job, es_answer *answer, es_error *err);

/* ---- sparse/heads.c ---- */

extern const es_table_spec sparse_heads_table, sparse_best_table, sparse_changes_table;

/*! sparse_put_heads() : the tables of heads, from rows (places, plans), and sentences about them.
 */
es_status sparse_put_heads(es_job *job, const sparse_row *rows, es_answer *answer, es_error *err);

/*! sparse_regime() : the word of es_regime_name() for the ESS of the median query. */
const char *sparse_regime(const sparse_row *row);

/*! sparse_plan_of() : the plan of a word at s->grid[at]; -1: none. */
int64_t sparse_plan_of(const sparse_state *s, const char *word, int64_t at);

/* ---- sparse/paper.c ---- */

bool sparse_is_paper(const es_job *job);
es_status sparse_paper_plans(es_job *job, es_error *err);
es_status sparse_add_paper(es_job *job, es_error *err);
es_status sparse_put_paper(es_job *job, es_answer *answer, es_error *err);

#endif
