/* loss.h : how well a causal model predicts a block of text while its heads see less, or weigh
 * scores otherwise, than they were trained to (THEORY 16). */
#ifndef ES_EXPERIMENTS_LOSS_LOSS_H
#define ES_EXPERIMENTS_LOSS_LOSS_H

#include <esscher/model.h>
#include <esscher/plan.h>

/* Factors on the scores of the query at place i, counted from 0, which sees i + 1 keys. */
typedef enum es_score_scale {
    ES_SCALE_NONE = 0,  /* 1 */
    ES_SCALE_LOG = 1,   /* ln(i + 1) / ln(reference): THEORY 16 (S1) */
    ES_SCALE_LOGN = 2,  /* the same, and 1 up to the reference: es_scaling_logn() */
    ES_SCALE_YARN = 3,  /* (1 + 0.1 ln max(1, n / reference))^2, n the block: THEORY 16 (S2) */
    ES_SCALE_FACTOR = 4 /* the same number for all */
} es_score_scale;

/* What is done to the model. Zeros: nothing. */
typedef struct es_loss_setting {
    int64_t window;        /* the last `window` keys, the query's own included; 0: all */
    int64_t sinks;         /* the first keys, beside a window */
    es_policy_spec policy; /* what every head keeps, instead of a window; policy NULL: all */
    const es_plan *plan;   /* what each head keeps, instead of both; NULL: none */
    es_score_scale scale;
    double factor;    /* of ES_SCALE_FACTOR */
    double reference; /* context at which ES_SCALE_LOG is 1, and up to which the others are; > 1 */
} es_loss_setting;

/*! es_score_factor() : of place i in a block of n. */
double es_score_factor(const es_loss_setting *setting, int64_t i, int64_t n);

/*! es_window_keys() : keys that a query sees under a window, mean over a block of n. */
double es_window_keys(const es_loss_setting *setting, int64_t n);

/* One block in one setting. */
typedef struct es_loss_block {
    const es_model *model;
    const int32_t *ids; /* (n), n >= 2 */
    int64_t n;
    int64_t number; /* of the block: keys that are kept by chance have its cells, the same in every
                       setting, of ES_EXPERIMENT_LOSS */
    uint64_t seed;
} es_loss_block;

/*! es_loss_run() : nll (n - 1) gets -ln p(ids[i + 1] | ids[0 .. i]) in nats; entropy (L) that of
 * the attention weights, mean over a layer's heads and the block's queries; *keys the keys of a
 * query, mean over all heads. O(n) memory beside es_model_forward(). @return : as
 * es_model_forward(). */
es_status es_loss_run(const es_loss_block *block, const es_loss_setting *setting,
                      const es_exec *exec, double *nll, double *entropy, double *keys,
                      es_error *err);

/* What a model reads that is given nothing but the last tokens, as a text of its own. */
typedef struct es_fresh_text {
    int64_t window;       /* W: a token is predicted from W to 2 W - 1 tokens before it */
    int64_t from;         /* the first token that is predicted, from >= W */
    const int32_t *start; /* (n_start) ids that begin a text, as they begin the block */
    int64_t n_start;
} es_fresh_text;

/*! es_loss_fresh() : nll (n - from) gets -ln p of the block's tokens at places `from` .. n - 1. W
 * of them at a time are the second half of a text of 2 W tokens that begins with `start`; where
 * that would begin before the block does, it is the block. Takes about the time of es_loss_run() on
 *  2 (n - from) tokens. @return : as es_model_forward(). */
es_status es_loss_fresh(const es_loss_block *block, const es_fresh_text *fresh, const es_exec *exec,
                        double *nll, es_error *err);

#endif
