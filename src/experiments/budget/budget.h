/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h : the error of every head of a model with fewer keys, and the model's behaviour when its
 * heads keep fewer keys (THEORY 13 to 15).
 *
 *   curves   runs a block through the full model; computes, for some queries of every head, the
 *            exact risk of each policy at each number of keys, through the head's part of Wo
 *   gains    lets one layer at a time keep fewer keys; measures its error, and the resulting errors
 *            of later hidden states and of the model's answer
 *   trial    runs all layers under a plan
 *
 * Averages over a block are over its *late* positions, from es_late_begin() on: in a causal model
 * the second half, where the cache holds more than half of the context; in an encoder all
 * positions. All functions are thread-safe; random draws are a function of seed and block. */
#ifndef ES_EXPERIMENTS_BUDGET_BUDGET_H
#define ES_EXPERIMENTS_BUDGET_BUDGET_H

#include <stdbool.h>

#include "model/model.h"

/* One block of token ids. */
typedef struct es_token_block {
    const es_model *model;
    const int32_t *ids; /* (n) */
    int64_t n;
    int64_t number; /* of the block: its draws */
    uint64_t seed;
} es_token_block;

/* ---- curves ---- */

/* Which policies are computed at which numbers of keys. */
typedef struct es_curves_spec {
    const es_policy_spec *policies; /* (n_policies); their keys are set here, and parts that fit */
    int64_t n_policies;
    const int64_t *keys; /* (n_keys) increasing; the last are all that a query sees */
    int64_t n_keys;
    int64_t queries; /* per block: one at a random position in each of that many equal parts */
    bool by_layer;   /* policies (L, n_policies) and keys (L, n_keys), which may repeat their last
                        number: layers see different numbers of keys */
} es_curves_spec;

/* Facts about a head beside its risks: means over the queries. */
enum {
    ES_FACT_ESS,     /* effective number of keys, 1 / sum w^2, a learned sink's included */
    ES_FACT_SINKS,   /* weight of the first four keys; none where a window leaves them out */
    ES_FACT_KEYS_95, /* keys that hold 95 % of the weight of all keys */
    ES_FACT_SPREAD,  /* sum w |u|^2, u through Wo: mean square error of one random key */
    ES_FACTS
};
enum { ES_BUDGET_SINKS = 4 };
#define ES_BUDGET_MASS 0.95

/* Results of es_curves_block(), all written. Risks are E|Wo_h (y_S - y)|^2, means over the queries,
 * of the set S that all heads of a group keep (model.h). */
typedef struct es_curves {
    double *group; /* (L, kv, n_policies, n_keys) of the sum over a group's heads, E|sum Wo_h (y_S -
                      y)|^2: their errors add up, as they miss the same keys. Where chance decides,
                      the sum of `risk` times a ratio of first order. NaN as in risk */
    double *risk;  /* (L, h, n_policies, n_keys); NaN: not looked at, because the policy leaves keys
                      to chance, whose integral is dear and smooth: every other number of keys is,
                      and the first and the last */
    double *limit; /* (L, h, n_keys) of keys kept independently, first order (policy_risk.h); of a
                      group's heads their parts of what is least in sum */
    double *facts; /* (L, h, ES_FACTS) */
    double *spread2; /* (L) of the layer's attention output, after Wo: mean |a - mean a|^2 */
} es_curves;

/*! es_curves_block() : computes the curves of one block. Keys drawn without replacement are taken
 * as retained each with the same probability, which is high where few are kept (THEORY 13: 4 % at
 * 16 of 400; 15 % at 7 of 128, by simulation). O(L h n^2 k), and O(n k nodes) for each query,
 * number of keys and policy of chance. @return : as es_model_forward(), es_policy_choose() and
 * es_policy_risk_of(); ES_E_RANGE (budget.queries). */
es_status es_curves_block(const es_curves_spec *spec, const es_token_block *block,
                          const es_exec *exec, const es_curves *out, es_error *err);

/*! es_curves_bytes() : returns the memory it needs on `threads` threads beside the forward pass. */
double es_curves_bytes(const es_model_config *config, int64_t n, int threads);

/* ---- running a plan ---- */

/* Changes of the model's answer: means over late positions of a decoder unless noted, or the one
 * answer of a classifier to the block. NaN: the model has none. */
enum {
    ES_END_LOSS,  /* extra nats per token; of a classifier: KL of its labels */
    ES_END_WHOLE, /* the same over all positions */
    ES_END_KL,    /* of the next token's distribution, or of the labels */
    ES_END_AGREE, /* share of most likely next tokens, or labels, that stay the same */
    ES_END_BINS,  /* extra nats in each of ES_BUDGET_BINS equal parts of the block */
    ES_BUDGET_BINS = 8,
    ES_ENDS = ES_END_BINS + ES_BUDGET_BINS
};

/* Results of one layer that keeps fewer keys, from the full model's state. */
typedef struct es_gain {
    double own2; /* |a_S - a|^2 of its attention output, after Wo */
    double loss; /* KL of the next token's distribution, or of the labels: what is lost in nats on
                    text that is as the model expects it, with a fraction of the noise that losses
                    of single tokens have. Where distributions do not fit: as ES_END_LOSS */
    double *error2; /* (L + 1) |x_S - x|^2 of every hidden state */
} es_gain;

/*! es_gains_block() : runs each layer alone under the policies heads (L, h): out (L); spread2 (L +
 * 1) of the hidden states. Takes as long as L / 2 forward passes with one sparse layer each. */
es_status es_gains_block(const es_token_block *block, const es_policy_spec *heads,
                         const es_exec *exec, es_gain *out, double *spread2, es_error *err);

/* Results of a run in which all layers keep fewer keys. */
typedef struct es_plan_trial {
    double *error2, *spread2; /* (L + 1) of every hidden state, as above */
    double *own2, *out2; /* (L) of the attention outputs, each layer from the full model's state:
                            |a_S - a|^2 and |a - mean a|^2; NULL: not wanted */
    double *kept;        /* (L, h) keys of a query, mean over the block */
    double *ends;        /* (ES_ENDS) */
    double *logits;      /* (2, labels) full and sparse, of a classifier; NULL: not wanted */
} es_plan_trial;

/*! es_plan_trial_block() : runs a block under the policies heads (L, h). Compares the distributions
 *  of next tokens if the logits of both runs take at most ES_TRIAL_BYTES, of which a quarter is in
 *  memory; otherwise ES_END_KL and ES_END_AGREE are NaN. */
#define ES_TRIAL_BYTES 1e9
es_status es_plan_trial_block(const es_token_block *block, const es_policy_spec *heads,
                              const es_exec *exec, const es_plan_trial *out, es_error *err);

/*! es_plan_trial_bytes() : returns the memory of a trial or of gains on `threads` threads, with the
 *  forward passes. */
double es_plan_trial_bytes(const es_model *model, int64_t n, int threads);

#endif
