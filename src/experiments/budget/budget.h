/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h : the error of every head of a model with fewer keys, and the model's behaviour when its
 * heads keep fewer keys (THEORY 13 to 15).
 *
 *   curves   runs a block through the full model; computes, for some queries of every head, the
 *            exact risk of each policy at each number of keys, through the head's part of Wo; of a
 *            cache the errors of what it holds
 *   gains    lets one layer at a time keep fewer keys; measures its error, and the resulting errors
 *            of later hidden states and of the model's answer
 *   trial    runs all layers under a plan
 *
 * Averages over a block are over its *late* positions, from es_block_late() on: in a causal model
 * what follows the prompt, or the second half, where the cache holds more than half of the context;
 * in an encoder all positions. All functions are thread-safe; random draws are a function of seed
 * and block. */
#ifndef ES_EXPERIMENTS_BUDGET_BUDGET_H
#define ES_EXPERIMENTS_BUDGET_BUDGET_H

#include <stdbool.h>

#include "cache/cache.h"
#include "experiments/kit/late_outputs.h"
#include "model/model.h"

/* One block of token ids. */
typedef struct es_token_block {
    const es_model *model;
    const int32_t *ids; /* (n) */
    int64_t n;
    int64_t number; /* of the block: its draws */
    uint64_t seed;
    int64_t late; /* the first late position; 0: es_late_begin() */
} es_token_block;

/*! es_block_late() : returns the first late position of a block. */
int64_t es_block_late(const es_token_block *block);

/* What heads of a model keep: keys that are chosen anew for each query (ideal mode), or what a
 * cache holds. */
typedef struct es_kept_keys {
    const es_policy_spec *heads; /* (L, h) of ideal mode; NULL: `units` say it */
    const es_cache_unit *units;  /* (L, kv) */
    es_evict_mode mode;          /* of the units */
    int64_t prompt;              /* tokens, of ES_EVICT_PROMPT */
} es_kept_keys;

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
    double *risk; /* (L, h, n_policies, n_keys); NaN: not computed. The risk of a policy with random
                     keys is an expensive and smooth integral, so it is computed at every other
                     number of keys, the first and the last included */
    double *limit;   /* (L, h, n_keys) of keys kept independently, first order (policy_risk.h); of a
                        group's heads their parts of what is least in sum */
    double *facts;   /* (L, h, ES_FACTS) */
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

/*! es_curves_queries() : writes the places of `count` queries of a block, one at a random position
 *  in each of that many equal parts of its late positions. @return : ES_OK; ES_E_RANGE
 *  (budget.queries). */
es_status es_curves_queries(const es_token_block *block, int64_t count, int64_t *out,
                            es_error *err);

/* Caches whose risks are computed: every policy with every pair of types. */
typedef struct es_cache_curves_spec {
    es_late_spec late;   /* mode, prompt, types, policies; the rest is set here */
    const int64_t *keys; /* (L, n_keys) increasing; the last are all, and may repeat */
    int64_t n_keys;
    int64_t queries; /* per block, as in es_curves_spec */
} es_cache_curves_spec;

/*! es_cache_curves_block() : computes the risks of units under caches, out->group (L, kv, policies,
 *  types, n_keys), and out->spread2. Without policies as with one. Other results are not written.
 *  Takes a forward pass and es_late_run() for each unit. @return : as es_model_forward() and
 *  es_late_run(); ES_E_RANGE (budget.queries). es_cache_curves_bytes() : its memory on `threads`
 *  threads beside the forward pass; late positions begin at `from`. */
es_status es_cache_curves_block(const es_cache_curves_spec *spec, const es_token_block *block,
                                const es_exec *exec, const es_curves *out, es_error *err);
double es_cache_curves_bytes(const es_cache_curves_spec *spec, const es_model *model, int64_t n,
                             int64_t from, int threads);

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

/*! es_gains_block() : runs each layer alone with fewer keys: out (L); spread2 (L + 1) of the hidden
 * states. Takes as long as L / 2 forward passes with one sparse layer each. */
es_status es_gains_block(const es_token_block *block, const es_kept_keys *keys, const es_exec *exec,
                         es_gain *out, double *spread2, es_error *err);

/* Results of a run in which all layers keep fewer keys. */
typedef struct es_plan_trial {
    double *error2, *spread2; /* (L + 1) of every hidden state, as above */
    double *own2, *out2; /* (L) of the attention outputs, each layer from the full model's state:
                            |a_S - a|^2 and |a - mean a|^2; NULL: not wanted */
    double *kept;        /* (L, h) keys of a query, mean over the block */
    double *ends;        /* (ES_ENDS) */
    double *logits;      /* (2, labels) full and sparse, of a classifier; NULL: not wanted */
} es_plan_trial;

/*! es_plan_trial_block() : runs a block with fewer keys in all layers. Compares the distributions
 *  of next tokens if the logits of both runs take at most ES_TRIAL_BYTES, of which a quarter is in
 *  memory; otherwise ES_END_KL and ES_END_AGREE are NaN. */
#define ES_TRIAL_BYTES 1e9
es_status es_plan_trial_block(const es_token_block *block, const es_kept_keys *keys,
                              const es_exec *exec, const es_plan_trial *out, es_error *err);

/*! es_plan_trial_bytes() : returns the memory of a trial or of gains on `threads` threads, with the
 *  forward passes but without a cache; late positions begin at `from`. */
double es_plan_trial_bytes(const es_model *model, int64_t n, int64_t from, int threads);

#endif
