/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h : the attention output of a layer as a sum over heads; groups of heads that share keys.
 */
#ifndef ES_EXPERIMENTS_BUDGET_INSIDE_H
#define ES_EXPERIMENTS_BUDGET_INSIDE_H

#include "random/experiment.h"
#include <esscher/model.h>
#include <esscher/policy_risk.h>

#include "base/memory.h"
#include "experiments/budget/budget.h"

/* Random streams of the experiment. */
enum {
    ES_BUDGET_QUERIES = ES_EXPERIMENT_BUDGET,   /* cell: block */
    ES_BUDGET_GAINS = ES_EXPERIMENT_BUDGET + 1, /* randomly kept keys; cells as in model.h */
    ES_BUDGET_TRIAL = ES_EXPERIMENT_BUDGET + 2, /* likewise */
    ES_BUDGET_OWN = ES_EXPERIMENT_BUDGET + 3    /* likewise, each layer alone */
};

/* ---- budget/branch.c ---- */

/* How a layer's attention is added to the state: `factor` times the norm of it, if there is one. */
typedef struct es_branch {
    const es_model *model;
    int64_t hidden;
    bool has_norm;
    double *scale; /* (2, H) of the norm; scratch */
    double *along; /* (k) scratch */
    double factor, eps;
} es_branch;

/*! es_branch_new() : allocates it in the arena. es_branch_at() : reads that of a layer.
 *  es_branch_norms() : returns whether a layer has such a norm. es_branch_add_bias() : adds the
 * bias (1, H) of Wo to outputs (n, H) if they are normed. es_branch_apply() : turns outputs into
 * what is added to the state. es_branch_slope() : out (H, dk) = J wo at the output a (H), which is
 * not read without a norm; out may be wo. */
es_status es_branch_new(const es_model *model, es_arena *arena, es_branch *out, es_error *err);
void es_branch_at(es_branch *branch, int64_t layer);
bool es_branch_norms(const es_model *model);
void es_branch_add_bias(const es_branch *branch, const es_view *bias, int64_t n, double *rows);
void es_branch_apply(const es_branch *branch, int64_t n, double *rows);
void es_branch_slope(const es_branch *branch, const double *a, const double *wo, int64_t dk,
                     double *out);

/* ---- outputs of layers (budget/trial.c) ---- */

/* What a layer's attention adds to the state at late positions: the branch of a = sum over heads of
 * Wo_h y_h. */
typedef struct es_wo_sum {
    const es_model *model;
    int64_t n, from;
    double *wo;       /* (H, k) of the head that was added last */
    double *rows;     /* (n - from, H) */
    es_branch branch; /* of the layer that is summed */
    bool plain;       /* wanted: a itself */
} es_wo_sum;

/*! es_wo_sum_new() : allocates sums for a block in the arena. es_wo_sum_add() : adds a head of
 *  a layer; head 0 starts a new sum, and the last head completes it. es_wo_sum_spread2() : mean
 *  |a - mean a|^2. es_wo_sum_bytes() : memory of `late` positions. */
es_status es_wo_sum_new(const es_token_block *block, es_arena *arena, es_wo_sum *out,
                        es_error *err);
void es_wo_sum_add(es_wo_sum *sum, const es_model_seen *seen);
double es_wo_sum_spread2(const es_wo_sum *sum);
double es_wo_sum_bytes(const es_model_config *config, int64_t late);

/* ---- budget/group.c ---- */

enum { ES_GROUP_CHUNK = 64 }; /* keys whose values go through Wo together */

/* Heads that share keys and values, at one position. */
typedef struct es_group {
    int64_t size, dk, hidden;
    double *wo;                 /* (size, H, dk), to be filled in */
    const double *values;       /* (n, dk) of the keys that are seen, as they are */
    const es_risk_query *query; /* (size) */
    double *mean;               /* (size, dk) outputs */
    double *bias, *mass;      /* (size, dk), (size) of a choice: mean of N over that of Z, which is
                                 mass */
    double *x;                /* (size, ES_GROUP_CHUNK, dk) that goes through Wo */
    double *each, *sum;       /* (ES_GROUP_CHUNK, H) of one head, of all */
    double *together, *apart; /* (ES_GROUP_CHUNK) |sum Wo_g x_g|^2 and sum |Wo_g x_g|^2 */
} es_group;

/*! es_group_new() : allocates the group from the arena. es_group_begin() : starts a position.
 *  es_group_put() : sets row r of x of head g to `times` (v_key - y - off); off (dk) may be NULL.
 *  es_group_apply() : multiplies `rows` rows of x by Wo. es_group_ratio() : returns the risk of the
 *  group under a choice over the sum of the risks of its heads, to first order: the square of the
 *  expected error, plus the squares of what each key that is kept by chance adds. */
es_status es_group_new(const es_model_config *config, es_arena *arena, es_group *out,
                       es_error *err);
double es_group_bytes(const es_model_config *config);
void es_group_begin(es_group *group, const double *values, const es_risk_query *query);
void es_group_put(es_group *group, int64_t g, int64_t r, int64_t key, double times,
                  const double *off);
void es_group_apply(es_group *group, int64_t rows);
double es_group_ratio(es_group *group, const es_choice *choice);

#endif
