/* budget_study.h : the study `budget`: what it asks and runs is in budget_study.c, its texts in
 * budget_texts.c, curves, plans and predictions in budget_plan.c, what becomes of them in
 * budget_summary.c, verification in budget_verified.c.
 *
 * Three kinds of cells, each of a block of text: risks of all heads (curves), what later layers
 * make of one layer's error (gains), the model under an allocation (trials). Everything that is
 * said is made of those. */
#ifndef ES_STUDY_BUDGET_STUDY_H
#define ES_STUDY_BUDGET_STUDY_H

#include <esscher/plan.h>
#include <esscher/pool.h>
#include <esscher/tokenizer.h>

#include "driver/job.h"
#include "lab/budget.h"
#include "model/tasks.h"
#include "stats/average.h"
#include "study/policy_params.h"

typedef struct budget_params {
    const char *model, *policy, *tasks, *out_plan;
    es_texts texts, verify;
    int64_t context, verify_context, blocks, verify_blocks, queries, keys, concat;
    double ratio, error, loss;
    es_grid frontier;
    int cache; /* index into budget_dtypes */
    bool deployable, rivals, everywhere, allow_trailing;
} budget_params;

enum { BUDGET_CURVES, BUDGET_GAINS, BUDGET_TRIALS };

/* How keys are shared out. */
typedef enum budget_way {
    BUDGET_OURS,    /* by marginal risk */
    BUDGET_UNIFORM, /* the same for all */
    BUDGET_PYRAMID, /* falling with depth */
    BUDGET_MASS,    /* within a layer by the keys that hold the weight */
    BUDGET_WAYS
} budget_way;
extern const char *const budget_ways[BUDGET_WAYS];

/* What is tried on text: a way at a number of keys. */
typedef struct budget_setting {
    budget_way way;
    double ratio; /* of all keys; 0: as many as the plan has */
} budget_setting;

/* Blocks of text that are looked at. */
typedef struct budget_text {
    es_blocks blocks;
    es_task_blocks tasks; /* instead, with labels */
    int64_t *chosen;      /* (count) numbers of the blocks */
    int64_t count, length;
} budget_text;

typedef struct budget_state {
    es_model *model;
    const es_model_config *config;
    es_tokenizer *tokenizer;
    es_tasks tasks;
    budget_text text, verify;
    int64_t n;                /* context of the plan */
    es_policy_spec *policies; /* (P) candidates */
    int64_t P;
    int64_t *keys; /* (K) where risks are computed */
    int64_t K;
    int64_t units; /* key-value heads of all layers: layer unit / kv_heads, group unit % kv_heads */
    int64_t *options; /* (n_options) numbers of keys that a unit may have, the last is n */
    int64_t n_options;
    budget_setting *settings; /* (n_settings); the first is the plan */
    int64_t n_settings;
    double *room; /* (2, blocks of verification) for summaries */
} budget_state;

/*! budget_block() : block `at` of a text, for the laboratory. */
es_budget_block budget_block(const es_job *job, const budget_text *text, int64_t at);

/* ---- budget_texts.c ---- */

es_status budget_read_texts(es_job *job, es_error *err);

/* ---- cells ---- */

/*! budget_curves_at(), budget_gains_at(), budget_trial_at() : where the numbers of a cell are. The
 *  gains have no room for error2 of their own: it is found by budget_error2_at(). */
int64_t budget_curves_rows(const budget_state *s);
int64_t budget_gains_rows(const budget_state *s);
int64_t budget_trial_rows(const budget_state *s);
es_curves budget_curves_at(const budget_state *s, const double *cell);
void budget_gains_at(const budget_state *s, const double *cell, es_gain *gains, double **spread2);
es_trial budget_trial_at(const budget_state *s, const double *cell);

/* ---- budget_plan.c ---- */

/* Means over the calibration's blocks. */
typedef struct budget_means {
    double *risk;     /* (units, P, K) summed over the heads of a group; NaN: not looked at */
    double *limit;    /* (units, K) */
    double *need;     /* (units) keys that hold most of the weight, mean over heads */
    double *out2;     /* (L) spread2 of attention outputs */
    double *transfer; /* (L, L + 1) error2 of a state over own2 of the layer */
    double *spread2;  /* (L + 1) of hidden states */
    double *loss;     /* (L) extra loss over own2 */
} budget_means;

/* Which blocks: [from, to), without block `skip` (-1: with all of them). */
typedef struct budget_subset {
    int64_t from, to, skip;
} budget_subset;

/*! budget_all() : all blocks. budget_average() : means over some. `gains`: those, too. Memory is
 * the arena's. */
budget_subset budget_all(const budget_state *s);
es_status budget_average(const es_job *job, budget_subset of, bool gains, const es_exec *exec,
                         es_arena *arena, budget_means *out, es_error *err);

/* What a unit keeps. */
typedef struct budget_pick {
    int64_t policy; /* -1: everything */
    int64_t keys;
    double risk;
} budget_pick;

/*! budget_risk() : of a unit and policy at m keys, between the points of the grid on a line of
 *  logarithms. budget_best() : under the policy that is best there; only (P) says which may be
 * used, NULL: all. budget_limit() : the limit nobody beats. */
double budget_risk(const budget_state *s, const budget_means *a, int64_t unit, int64_t policy,
                   double m);
budget_pick budget_best(const budget_state *s, const budget_means *a, int64_t unit, int64_t m,
                        const bool *only);
double budget_limit(const budget_state *s, const budget_means *a, int64_t unit, double m);

/*! budget_weight() : how much own2 of a layer counts: its transfer to the last hidden state. */
double budget_weight(const budget_state *s, const budget_means *a, int64_t layer);

/*! budget_share() : `total` keys over the units by `way`: picks (units). */
es_status budget_share(const budget_state *s, const budget_means *a, budget_way way, double total,
                       const bool *only, es_arena *arena, budget_pick *picks, es_error *err);

/*! budget_share_limit() : the least weighted risk that the limits allow for `total` keys. own2 (L)
 *  gets each layer's. */
es_status budget_share_limit(const budget_state *s, const budget_means *a, double total,
                             es_arena *arena, double *own2, es_error *err);

/*! budget_make() : the plan that was asked for. */
es_status budget_make(const es_job *job, const budget_means *a, es_arena *arena, budget_pick *picks,
                      es_error *err);

double budget_total(const budget_state *s, const budget_pick *picks);

/*! budget_specs() : what picks mean for the heads, out (L, h). */
void budget_specs(const budget_state *s, const budget_pick *picks, es_policy_spec *out);

/* What is predicted of picks. */
typedef struct budget_forecast {
    double *own;   /* (L) error of the attention output, in its spreads */
    double *state; /* (L + 1) of the hidden states, in theirs */
    double loss;
} budget_forecast;

/*! budget_own2() : a layer's risk under picks. budget_predict() : from means; own2 (L) NULL: of the
 *  picks, times factor (L; NULL: 1). */
double budget_own2(const budget_state *s, const budget_means *a, const budget_pick *picks,
                   int64_t layer);
void budget_predict(const budget_state *s, const budget_means *a, const budget_pick *picks,
                    const double *own2, const double *factor, budget_forecast *out);

/* ---- answer ---- */

es_status budget_summarise(es_job *job, es_answer *answer, es_error *err);

/* What is known when tables are made. */
typedef struct budget_known {
    es_arena *arena;
    budget_means all;
    budget_means *without, *alone;         /* (folds) without block b; of block b alone */
    int64_t folds;                         /* blocks, 0 if there is one */
    double *optimism;                      /* (L) of the plan */
    budget_pick *plan;                     /* (units) */
    budget_forecast forecast, forecast_se; /* of the plan; errors by leaving blocks out */
} budget_known;

/*! budget_verified_own() : of the plan's layer, in spreads; budget_verified_state() : of a
 * setting's hidden state; budget_verified_end() : of ES_END_. Value and standard error over blocks.
 */
es_measured budget_verified_own(const es_job *job, int64_t setting, int64_t layer);
es_measured budget_verified_state(const es_job *job, int64_t setting, int64_t state);
es_measured budget_verified_end(const es_job *job, int64_t setting, int end);

/*! budget_accuracy() : share of labelled texts that are right, full (which 0) or under the setting
 *  (1); NaN without labels. */
es_measured budget_accuracy(const es_job *job, int64_t setting, int which);

/*! budget_put_ends() : what the model says in a setting, into columns loss, kl, agreement,
 * accuracy. budget_put_verified() : record, positions; the verdict if a tolerance was asked for. */
void budget_put_ends(const es_job *job, int64_t setting, es_table *table, int64_t row);
void budget_put_verified(es_job *job, es_answer *answer);

extern const char *const budget_dtypes[];
int64_t budget_dtype_bits(int dtype);

#endif
