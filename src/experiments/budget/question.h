/* SPDX-License-Identifier: Apache-2.0 */
/* question.h : the study `budget`. question.c asks (parameters, help, study); texts.c reads texts;
 * candidates.c lists what a unit may keep; cells.c computes cells, sums.c their sums over blocks,
 * means.c their means; options.c lists what a unit may choose from, plan.c chooses, search.c meets
 * a tolerance, forecast.c predicts; outcomes.c reads trials; rows.c, heads.c, units.c,
 * allocations.c, frontier.c, calibration.c and verified.c fill tables; findings.c adds sentences.
 *
 * A *unit* is a key-value head of a layer. It keeps m keys under a *candidate*: a policy and, in a
 * cache, number types of keys and values. A candidate costs bytes for each key and has a risk at
 * each m. That is all that allocation, rehearsal and verification know of a mode.
 *
 * A cell belongs to a block of text. There are three kinds: risks of all heads (curves); how later
 * layers pass on one layer's error (gains); the model under an allocation (trials: to meet a
 * tolerance, to rehearse the plan, to verify it). All answers are computed from these. */
#ifndef ES_EXPERIMENTS_BUDGET_QUESTION_H
#define ES_EXPERIMENTS_BUDGET_QUESTION_H

#include <pthread.h>

#include <esscher/allocate.h>
#include <esscher/plan.h>
#include <esscher/tokenizer.h>

#include "driver/job.h"
#include "experiments/budget/budget.h"
#include "experiments/kit/policy_params.h"
#include "model/pool.h"
#include "model/tasks.h"
#include "stats/average.h"

/* Blocks of a text, at most. */
#define BUDGET_MOST_BLOCKS 1000000

/* When keys are dropped: words of --evict, in this order. */
typedef enum budget_mode {
    BUDGET_PROMPT, /* once, when the prompt has been read */
    BUDGET_DECODE, /* one key after each token */
    BUDGET_IDEAL,  /* never: each query chooses from all keys */
    BUDGET_NONE    /* never: numbers are rounded */
} budget_mode;

/* Units that share one candidate and number of keys: words of --granularity, in this order. */
typedef enum budget_granularity {
    BUDGET_BY_HEAD,
    BUDGET_BY_LAYER,
    BUDGET_BY_MODEL
} budget_granularity;
extern const char *const budget_granularities[];

/* The options. */
typedef struct budget_params {
    const char *model, *policy, *tasks, *out_plan;
    es_texts kv_types; /* each one or several number types, with commas */
    es_texts texts, verify, others;
    int64_t context, verify_context, blocks, verify_blocks, queries, keys, concat;
    double ratio, error, loss;
    int64_t bytes;            /* 0: not given */
    es_grid frontier, prompt; /* prompt: one number, or none */
    int evict;                /* a budget_mode; -1: not given */
    int granularity;          /* a budget_granularity */
    int64_t round;
    int cache;   /* index into budget_dtypes */
    int invalid; /* as es_text_invalid */
    bool no_query_scores, rivals, everywhere, allow_trailing;
} budget_params;

/* Stages. Trials of a calibration block run the plan made from the other blocks. */
enum {
    BUDGET_CURVES,
    BUDGET_OTHERS, /* curves of another text */
    BUDGET_GAINS,
    BUDGET_SEARCH, /* trials of calibration's blocks, BUDGET_STEPS stages of them */
    BUDGET_STEPS = 2,
    BUDGET_REHEARSAL = BUDGET_SEARCH + BUDGET_STEPS, /* the same of what was found */
    BUDGET_TRIALS                                    /* of other text: verification */
};

/* How keys are divided among units. */
typedef enum budget_allocation {
    BUDGET_OURS,    /* by marginal risk */
    BUDGET_UNIFORM, /* ideal mode: the same share for all, each under its best policy; a cache: the
                       best single candidate and share */
    BUDGET_PYRAMID, /* falling with depth; a cache: as PyramidKV, under the best single candidate */
    BUDGET_MASS,    /* ideal mode: within a layer by the keys that hold the weight */
    BUDGET_ADA,     /* prompt mode: heads of a layer share their keys as Ada-KV, under the same */
    BUDGET_LUKV,    /* by marginal risk of a unit's output, as LU-KV (2602.08585): what later layers
                       make of it does not count */
    BUDGET_ONE_TYPE, /* by marginal risk, with one pair of number types for all units */
    BUDGET_ALLOCATIONS
} budget_allocation;
extern const char *const budget_allocation_names[BUDGET_ALLOCATIONS];

/* An allocation at a number of keys, to run on held-out text. */
typedef struct budget_setting {
    budget_allocation allocation;
    double ratio; /* of the cost of all keys; 0: as much as the plan costs */
} budget_setting;

/* A setting of a unit, apart from the number of keys. */
typedef struct budget_candidate {
    es_cache_unit unit; /* of a cache; evict.keys is not set */
    double bytes;       /* of one key and its value */
    double cost;        /* of one key: bytes, or 1 where --keys counts keys */
} budget_candidate;

/* The chosen blocks of a text. */
typedef struct budget_text {
    es_blocks blocks;
    es_task_blocks tasks; /* instead, with labels */
    int64_t *chosen;      /* (count) numbers of the blocks */
    int64_t count, length;
} budget_text;

/* The target of a plan. */
typedef struct budget_target {
    double total;            /* cost; NaN: as much as the tolerances need */
    const double *tolerance; /* (L) of the computed error of attention outputs, in spreads */
} budget_target;

/* Numbers of keys in one layer. */
typedef struct budget_grid {
    int64_t sees; /* most keys that a query sees: n, or what the layer's window holds */
    const int64_t
        *keys;        /* (K) where risks are computed, increasing up to `sees`, which may repeat */
    int64_t *options; /* (n_options) that a unit may have, increasing, the last is `sees` */
    int64_t n_options;
} budget_grid;

/* The state of the study. */
typedef struct budget_state {
    es_model *model;
    const es_model_config *config;
    es_tokenizer *tokenizer;
    es_tasks tasks;
    budget_text text, verify, others;
    int64_t n; /* context of the plan */
    budget_mode mode;
    int64_t prompt; /* tokens of the prompt; late positions follow it. 0: ideal mode */
    budget_granularity granularity;
    int64_t round;                     /* numbers of keys are multiples of it, or all keys */
    budget_grid *grids;                /* (L) numbers of keys of a layer */
    budget_candidate *candidates;      /* (P): policies, each with every pair of types */
    budget_candidate full;             /* all keys as they are, in --cache-dtype */
    es_cache_curves_spec cache_curves; /* the same candidates, of a cache */
    es_policy_spec *policies; /* (L, P) of ideal mode; those of layers differ in their sinks only */
    int64_t P;
    int64_t types; /* pairs of number types: candidate p has pair p % types */
    budget_allocation ways[BUDGET_ALLOCATIONS]; /* (n_ways) that this mode compares, ours first */
    int64_t n_ways;
    int64_t *keys; /* (L, K) where risks are computed; see budget_grid */
    int64_t K;
    int64_t units; /* key-value heads of all layers: layer unit / kv_heads, group unit % kv_heads */
    int64_t n_options;        /* of a unit, at most */
    budget_setting *settings; /* (n_settings); the first is the plan */
    int64_t n_settings;
    int steps;       /* trials that a tolerance takes: BUDGET_STEPS, or 0 */
    double *scratch; /* (2, blocks) for summaries */

    /* Computed once for all cells of later stages (sums.c, search.c), by any thread under the
     * lock. */
    pthread_mutex_t lock;
    es_arena memory;
    const double
        *sums[BUDGET_GAINS + 1]; /* of each stage (2, blocks + 1, numbers); NULL: not yet */
    budget_target targets[BUDGET_STEPS + 1]; /* by number of steps */
    bool target_known[BUDGET_STEPS + 1];
} budget_state;

/*! budget_asked() : cost that --ratio, --bytes or --keys ask for; NaN: none of them does.
 *  budget_ways() : allocations that run on held-out text at the plan's own cost. */
double budget_asked(const budget_params *p, const budget_state *s);
int64_t budget_ways(const budget_params *p, const budget_state *s);

/*! budget_block() : block `at` of a text, as budget.h takes it. */
es_token_block budget_block(const es_job *job, const budget_text *text, int64_t at);

/* ---- budget/texts.c ---- */

es_status budget_read_texts(es_job *job, es_error *err);

/* ---- budget/candidates.c ---- */

extern const char *const budget_modes[];

/*! budget_read_candidates() : what units may keep, from --evict, --policy and --kv-type.
 *  budget_make_grids() : numbers of keys of all layers, once the context is known.
 *  budget_candidate_policy(), budget_candidate_types() : "h2o:sinks=4", "q8_0,q4_0"; return out. */
enum { BUDGET_SIZE = 256 };
es_status budget_read_candidates(es_job *job, es_error *err);
es_status budget_make_grids(es_job *job, es_error *err);
const char *budget_candidate_policy(const budget_state *s, int64_t candidate,
                                    char out[BUDGET_SIZE]);
const char *budget_candidate_types(const budget_state *s, int64_t candidate, char out[BUDGET_SIZE]);

/*! budget_evict_mode() : the mode as the forward pass knows it. */
es_evict_mode budget_evict_mode(const budget_state *s);

/* ---- budget/cells.c ---- */

/*! budget_curves_at(), budget_gain_at(), budget_trial_at() : the numbers of a cell by name. The
 *  pointers point into the cell. */
int64_t budget_curves_rows(const budget_state *s);
int64_t budget_gains_rows(const budget_state *s);
int64_t budget_trial_rows(const budget_state *s);
es_curves budget_curves_at(const budget_state *s, const double *cell);
es_gain budget_gain_at(const budget_state *s, const double *cell, int64_t layer);
es_plan_trial budget_trial_at(const budget_state *s, const double *cell);

enum { BUDGET_POINTS = 10 }; /* numbers of keys at which risks are computed, at most, and all */

/*! budget_work() : operations of a run with such a context and numbers of blocks; before texts are
 *  read, for default sizes. */
double budget_work(const es_job *job, int64_t context, int64_t blocks, int64_t verify_blocks);

/*! budget_stages() : all stages of the job. budget_cost() : what they take. */
es_status budget_stages(es_job *job, es_error *err);
es_status budget_cost(es_job *job, es_cost *out, es_error *err);

/* ---- budget/sums.c ---- */

/* Which blocks: [from, to), or all but those. */
typedef struct budget_subset {
    int64_t from, to;
    bool others;
} budget_subset;

/*! budget_sum() : sums over some blocks of BUDGET_CURVES or BUDGET_OTHERS (risk, limit, need and
 * out2 as in budget_means) or BUDGET_GAINS (spread2 (L + 1), own2 (L), loss (L), error2 (L, L +
 * 1)), into out (budget_sum_numbers()). Each block is read once for all sums that leave blocks out,
 * or begin with the first. Any thread. budget_sums_bytes() : memory. */
int64_t budget_sum_numbers(const budget_state *s, int stage);
es_status budget_sum(const es_job *job, int stage, budget_subset of, const es_exec *exec,
                     double *out, es_error *err);
double budget_sums_bytes(const budget_state *s);

/* ---- budget/means.c ---- */

/* Means over the calibration's blocks. */
typedef struct budget_means {
    double *risk;     /* (units, P, K) of the sum over a group's heads; NaN: not looked at */
    double *limit;    /* (units, K); this and the next two follow on each other in memory. 0 in a
                         cache, and so is need */
    double *need;     /* (units) keys that hold most of the weight, mean over heads */
    double *out2;     /* (L) spread2 of attention outputs */
    double *transfer; /* (L, L + 1) error2 of a state over own2 of the layer */
    double *spread2;  /* (L + 1) of hidden states */
    double *loss;     /* (L) extra loss over own2 */
} budget_means;

/*! budget_all() : all blocks. budget_average() : means over some, with gains.
 * budget_average_risks() : without them, of blocks of the text of a stage, BUDGET_CURVES or
 * BUDGET_OTHERS. budget_copy_gains() : gains of other means take their place. Memory is the
 * arena's. */
budget_subset budget_all(const budget_state *s);
es_status budget_average(const es_job *job, budget_subset of, const es_exec *exec, es_arena *arena,
                         budget_means *out, es_error *err);
es_status budget_average_risks(const es_job *job, int stage, budget_subset of, const es_exec *exec,
                               es_arena *arena, budget_means *out, es_error *err);
void budget_copy_gains(const budget_means *from, budget_means *to);

/* The candidate and the keys of a unit. */
typedef struct budget_choice {
    int64_t candidate; /* -1: every key, as it is */
    int64_t keys;
    double risk;
} budget_choice;

/*! budget_risk() : of a unit and candidate at m keys, between the points of the grid on a line of
 *  logarithms. budget_limit() : the least risk of independent choices. */
double budget_risk(const budget_state *s, const budget_means *a, int64_t unit, int64_t candidate,
                   double m);
double budget_limit(const budget_state *s, const budget_means *a, int64_t unit, double m);
double budget_curve_at(const budget_state *s, int64_t layer, const double *curve, double m);

/*! budget_weight() : how much own2 of a layer counts: its transfer to the last hidden state. */
double budget_weight(const budget_state *s, const budget_means *a, int64_t layer);

/* ---- budget/options.c ---- */

/* How a plan is made. */
typedef struct budget_strategy {
    bool asked; /* as the target of the run says; the rest is not read */
    budget_allocation allocation;
    double total;     /* cost that it may have */
    const bool *only; /* (P) candidates that may be used; NULL: all */
    budget_granularity granularity;
    int64_t round;
} budget_strategy;

/* What units may choose from, as es_allocate_...() takes it: a unit alone, or all units of a layer
 * together. */
typedef struct budget_offer {
    int64_t groups, size;   /* units of a group; group g has units g size ... */
    int64_t most;           /* options of a group, at most */
    es_curve *curves;       /* (groups) their `keys` are costs */
    double *cost, *risk;    /* (groups, most) of all units of a group together */
    budget_choice *options; /* (groups, most) for each of its units */
    int64_t *chosen;        /* (groups) out: numbers of options */
} budget_offer;

/*! budget_offer_new() : allocates and fills an offer for a strategy: every candidate at every
 * number of keys, by cost; of options of equal cost the one of least risk. Risks count by weight
 * (L); NULL: 1. budget_offer_take() : choices (units) from what was chosen. budget_fit_keys() : the
 *  number of keys that a unit of a layer may have, m or less: 1 or `round` at least. */
es_status budget_offer_new(const budget_state *s, const budget_means *a, const budget_strategy *how,
                           const double *weight, es_arena *arena, budget_offer *out, es_error *err);
void budget_offer_take(const budget_state *s, const budget_means *a, const budget_offer *offer,
                       budget_choice *choices);
int64_t budget_fit_keys(const budget_state *s, int64_t layer, int64_t round, double m);

/* ---- budget/plan.c ---- */

/*! budget_strategy_of() : an allocation of a total as the options ask for it. budget_allocate() :
 *  divides by a strategy: choices (units). */
budget_strategy budget_strategy_of(const budget_state *s, budget_allocation allocation,
                                   double total);
es_status budget_allocate(const budget_state *s, const budget_means *a, const budget_strategy *how,
                          es_arena *arena, budget_choice *choices, es_error *err);

/*! budget_allocate_limit() : the least weighted risk that the limits allow for a total. own2 (L)
 * gets each layer's. */
es_status budget_allocate_limit(const budget_state *s, const budget_means *a, double total,
                                es_arena *arena, double *own2, es_error *err);

/*! budget_min_keys_for_error() : the least cost that leaves the risk of each layer within tolerance
 * (L), in spreads of its attention output. budget_loss() : of choices, as means predict it.
 *  budget_min_keys_for_loss() : the least cost, to half a per cent of all, whose predicted loss is
 * within a tolerance: *total. */
es_status budget_min_keys_for_error(const budget_state *s, const budget_means *a,
                                    const double *tolerance, es_arena *arena,
                                    budget_choice *choices, es_error *err);
double budget_loss(const budget_state *s, const budget_means *a, const budget_choice *choices);
es_status budget_min_keys_for_loss(const budget_state *s, const budget_means *a, double loss,
                                   es_arena *arena, double *total, es_error *err);

/*! budget_choice_cost() : cost of a choice. budget_total() : of all. budget_keys(), budget_bytes()
 * : their keys, and bytes. budget_all_keys() : keys of all units. budget_all_cost(),
 * budget_least_cost() : cost of all keys as they are, and of the smallest plan of a strategy.
 * budget_most_seen() : most keys of a unit of any layer. */
double budget_choice_cost(const budget_state *s, const budget_choice *choice);
double budget_total(const budget_state *s, const budget_choice *choices);
double budget_keys(const budget_state *s, const budget_choice *choices);
double budget_bytes(const budget_state *s, const budget_choice *choices);
double budget_all_keys(const budget_state *s);
double budget_all_cost(const budget_state *s);
double budget_least_cost(const budget_state *s, const budget_strategy *how);
int64_t budget_most_seen(const budget_state *s);

/*! budget_specs() : writes the policies of all heads under choices, out (L, h), in ideal mode.
 *  budget_units() : writes what all units of a cache keep, out (units). budget_kept() : either, as
 *  trials take it; memory is the arena's. */
void budget_specs(const budget_state *s, const budget_choice *choices, es_policy_spec *out);
void budget_units(const budget_state *s, const budget_choice *choices, es_cache_unit *out);
es_status budget_kept(const budget_state *s, const budget_choice *choices,
                      budget_allocation allocation, es_arena *arena, es_kept_keys *out,
                      es_error *err);

/* Predicted errors of choices. */
typedef struct budget_forecast {
    double *own;   /* (L) error of the attention output, in its spreads */
    double *state; /* (L + 1) of the hidden states, in theirs */
    double loss;
} budget_forecast;

/* Factors on sums of risks and on errors through transfers, all of mean squares; NULL: 1. */
typedef struct budget_factors {
    double *optimism;  /* (L) risk on blocks that a plan was not made from */
    double *heads;     /* (L) a layer's error over the sum of its heads' risks */
    double *coherence; /* (L + 1) a hidden state's over the sum of the layers' */
    double loss;       /* the same of the loss; 0: 1 */
} budget_factors;

/*! budget_own2() : a layer's risk under choices. budget_predict() : from means; own2 (L) NULL: of
 * the choices; factors may be NULL. */
double budget_own2(const budget_state *s, const budget_means *a, const budget_choice *choices,
                   int64_t layer);
void budget_predict(const budget_state *s, const budget_means *a, const budget_choice *choices,
                    const double *own2, const budget_factors *factors, budget_forecast *out);

/* ---- budget/search.c ---- */

/*! budget_target_after() : returns the target after `steps` refinements, computed once; all: from
 *  means over all blocks. budget_plan_for() : makes the plan for it from those means.
 *  budget_plan_without() : makes the plan that is tested on calibration block b, from the other
 *  blocks if there are any. */
es_status budget_target_after(const es_job *job, int steps, const budget_means *all,
                              const es_exec *exec, es_arena *arena, budget_target *out,
                              es_error *err);
es_status budget_plan_for(const budget_state *s, const budget_means *a, const budget_target *target,
                          es_arena *arena, budget_choice *choices, es_error *err);
es_status budget_plan_without(const es_job *job, int64_t block, const budget_target *target,
                              const es_exec *exec, es_arena *arena, budget_choice *choices,
                              es_error *err);

/* ---- budget/forecast.c ---- */

/* Results of block b under the plan made from the other blocks. */
typedef struct budget_fold_result {
    double *in, *out; /* (L) risk on the others, and on the block */
    double *found;    /* (L) own2 of its layers, each from the full model's state */
    double *error2;   /* (L + 1) of hidden states */
    double kl;        /* loss */
} budget_fold_result;

/* Everything that the tables are filled from. */
typedef struct budget_context {
    es_arena *arena;
    budget_means all;
    budget_means *without, *alone; /* (folds) without block b; of block b alone, gains of all */
    int64_t folds;                 /* blocks, 0 if there is one */
    budget_target target;
    budget_choice *plan;              /* (units) */
    budget_fold_result *fold_results; /* (blocks) */
    budget_fold_result sum;           /* over them */
    budget_factors factors, factors_se;
    budget_forecast forecast, forecast_se; /* of the plan; errors by leaving blocks out */
    double *computed, *computed_se;        /* (L) own, without what the rehearsal says */
} budget_context;

/*! budget_fill_context() : everything but the arena. budget_apply() : the plan of a recipe from
 * means. budget_optimism() : of its plans, out (L). */
es_status budget_fill_context(es_job *job, budget_context *k, es_error *err);
es_status budget_apply(const es_job *job, const budget_context *k, const budget_strategy *r,
                       const budget_means *means, es_arena *arena, budget_choice *choices,
                       es_error *err);
es_status budget_optimism(const es_job *job, const budget_context *k, const budget_strategy *r,
                          double *out, es_error *err);
es_status budget_forecast_new(const budget_state *s, es_arena *arena, budget_forecast *out,
                              es_error *err);

/*! budget_forecast_strategy() : allocates and computes the choices (units) of a strategy and what
 *  they are predicted to cost. The factors of the plan do not hold for another strategy: its own
 *  optimism is used. Memory is that of the job's answer and of k->arena. */
es_status budget_forecast_strategy(es_job *job, const budget_context *k, const budget_strategy *how,
                                   budget_choice **choices, budget_forecast *forecast,
                                   es_error *err);

/* ---- budget/outcomes.c ---- */

/* Trials of blocks. */
typedef struct budget_runs {
    int stage;
    int64_t first, count; /* cells */
} budget_runs;

/*! budget_verify_runs() : trials of a setting on held-out text. budget_rehearsal_runs() : trials on
 * the calibration text. budget_trial_of() : the numbers of one of them. */
budget_runs budget_verify_runs(const budget_state *s, int64_t setting);
budget_runs budget_rehearsal_runs(const budget_state *s);
es_plan_trial budget_trial_of(const es_job *job, budget_runs runs, int64_t block);

/*! budget_layer_error() : error of a layer's attention output, over its spread.
 *  budget_state_error() : the same of a hidden state. budget_answer_change() : mean of an ES_END_
 * over blocks. All have standard errors over blocks. */
es_measured budget_layer_error(const es_job *job, budget_runs runs, int64_t layer);
es_measured budget_state_error(const es_job *job, budget_runs runs, int64_t state);
es_measured budget_answer_change(const es_job *job, budget_runs runs, int end);

/*! budget_predicts_kl() : true if the predicted change of the model's answer is a KL divergence;
 *  false if it is the extra loss, because distributions of the next token do not fit into memory.
 */
bool budget_predicts_kl(const es_job *job);

/* Changes of the model's answer, in rows of several tables. Members stay unset where the model has
 * no such number. */
typedef struct budget_outcome {
    es_measured loss, kl, agreement;
} budget_outcome;

void budget_set_outcome(const es_job *job, budget_runs runs, budget_outcome *out);

/*! budget_set_accuracy() : share of labelled texts that are right; *out stays as it is without
 *  labels. */
typedef enum budget_model_kind { BUDGET_FULL_MODEL, BUDGET_SPARSE_MODEL } budget_model_kind;
void budget_set_accuracy(const es_job *job, int64_t setting, budget_model_kind which,
                         es_measured *out);

/* ---- tables ---- */

/*! budget_put_...() : add tables to the answer, each in the file of its name; rehearsal, verified
 *  and positions in verified.c, domains in calibration.c. budget_add_verdict() : whether the plan
 *  meets --error or --loss on held-out text, if given. */
es_status budget_put_heads(const es_job *job, const budget_context *k, es_answer *a, es_error *err);
es_status budget_put_units(const es_job *job, const budget_context *k, es_answer *a, es_error *err);
es_status budget_put_granularity(es_job *job, const budget_context *k, es_answer *a, es_error *err);
es_status budget_put_rehearsal(const es_job *job, es_answer *a, es_error *err);
es_status budget_put_allocations(es_job *job, const budget_context *k, es_answer *a, es_error *err);
es_status budget_put_frontier(es_job *job, const budget_context *k, es_answer *a, es_error *err);
es_status budget_put_calibration(es_job *job, const budget_context *k, es_answer *a, es_error *err);
es_status budget_put_domains(es_job *job, const budget_context *k, es_answer *a, es_error *err);
es_status budget_put_verified(es_job *job, es_answer *answer, es_error *err);
es_status budget_add_verdict(es_job *job, es_answer *a, es_error *err);
es_status budget_summarise(es_job *job, es_answer *answer, es_error *err);

/*! budget_setting_of() : number of the setting with that allocation and ratio; -1: none.
 *  budget_is_reachable() : false if a share of the cost is below that of the smallest plan.
 *  budget_head_risk() : a head's risk under the plan, mean over blocks. budget_unit_risk() : a
 *  unit's, with its error over blocks. */
int64_t budget_setting_of(const budget_state *s, budget_allocation allocation, double ratio);
bool budget_is_reachable(const budget_state *s, double ratio);
double budget_head_risk(const es_job *job, const budget_context *k, int64_t head);
es_measured budget_unit_risk(const es_job *job, const budget_context *k, int64_t unit);

/*! budget_broken() : returns the layer whose error exceeds `most` by most, counting the lower ends
 *  of the 95 % intervals over blocks of all `count` layers together; -1 if none does. */
int64_t budget_broken(const es_measured *layers, int64_t count, int64_t blocks, double most);

/* ---- budget/findings.c ---- */

es_status budget_add_findings(es_job *job, const budget_context *k, es_answer *a, es_error *err);
void budget_add_cautions(const es_job *job, const budget_context *k, es_answer *a);

/*! budget_eviction_note() : the note of the plan file on policies that bring dropped keys back; ""
 *  if the plan has none. */
void budget_eviction_note(const es_job *job, const budget_context *k, char out[ES_PLAN_NOTE]);

extern const char *const budget_dtypes[];

#endif
