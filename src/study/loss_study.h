/* loss_study.h : the study `loss`: what it asks and runs is in loss_study.c, its text in
 * loss_text.c, what becomes of the numbers in loss_summary.c, what context is worth in
 * loss_context.c.
 *
 * A cell is a block of text in a setting, and holds the loss of each of its tokens: whatever is
 * said is made of those, and a run file can be asked again without the model. */
#ifndef ES_STUDY_LOSS_STUDY_H
#define ES_STUDY_LOSS_STUDY_H

#include <esscher/pool.h>

#include "driver/job.h"
#include "lab/loss.h"
#include "study/plan_params.h"
#include "study/policy_params.h"

typedef struct loss_params {
    const char *model, *ids, *start, *plan, *score_scale, *per_token;
    es_texts texts;
    int64_t block, blocks, reference;
    es_grid window, sinks;
    es_policy_params policy;
    double enough;
    int invalid; /* as es_text_invalid */
    bool allow_trailing;
} loss_params;

enum { LOSS_ROOM = 128 };

/* What is done to the model, and how people call it. */
typedef struct loss_setting {
    es_loss_setting lab;
    char name[LOSS_ROOM];  /* of all of it: "window 256 + 4 sinks, scores times log" */
    char scale[LOSS_ROOM]; /* "none", "log", "yarn", "1.5" */
} loss_setting;

typedef struct loss_state {
    es_model *model;
    const es_model_config *config;
    es_tokenizer *tokenizer; /* NULL of ids */
    es_plan *plan;           /* NULL: none was given */
    es_blocks text;
    int64_t longest;        /* ids of the longest block */
    int64_t tokens, bytes;  /* that are predicted; bytes of the text they stand for, 0: not known */
    loss_setting *settings; /* (count); the first is the model as it is */
    int64_t count;
    int64_t
        asked; /* the setting that the answer is about: the only one asked for, else the first */
} loss_state;

/* ---- loss_text.c ---- */

/*! loss_read_text() : text or ids as blocks, into the state. */
es_status loss_read_text(es_job *job, es_error *err);

/* ---- numbers ---- */

/*! loss_length() : ids of a block; it predicts one fewer. */
int64_t loss_length(const loss_state *s, int64_t block);

/*! loss_tokens() : loss (length - 1) of a block's tokens in a setting, that at place 1 first.
 *  loss_entropy() : of attention, (layers) mean over heads and queries. loss_keys() : of a query.
 */
const double *loss_tokens(const es_job *job, int64_t setting, int64_t block);
const double *loss_entropy(const es_job *job, int64_t setting, int64_t block);
double loss_keys(const es_job *job, int64_t setting, int64_t block);

/* A mean over tokens, its standard error over blocks (es_block_se()), and the 95 % interval by
 * Student's t of as many blocks as have such tokens. NaN where there is none; no error of one
 * block. */
typedef struct loss_mean {
    double value, se, low, high;
    int64_t tokens, blocks;
} loss_mean;

/*! loss_over() : of a setting, over tokens at places [from, to) of their blocks. loss_cost() : the
 *  same less the loss of the model as it is, token by token. */
loss_mean loss_over(const es_job *job, int64_t setting, int64_t from, int64_t to);
loss_mean loss_cost(const es_job *job, int64_t setting, int64_t from, int64_t to);

/*! loss_without() : the same of all blocks but `skip` (-1: of all), less setting `base` (-1:
 * nothing); for jackknives. */
loss_mean loss_without(const es_job *job, int64_t skip, int64_t setting, int64_t base, int64_t from,
                       int64_t to);

/*! loss_fall() : the loss at places [from, to) less that at [then, end), of the same blocks. */
loss_mean loss_fall(const es_job *job, int64_t setting, int64_t from, int64_t to, int64_t then,
                    int64_t end);

/* Places of a row of the answer: [1, 64), [64, 128), [128, 256), ..., up to the block. */
typedef struct loss_bin {
    int64_t from, to;
} loss_bin;

enum { LOSS_BINS = 64, LOSS_FIRST_BIN = 64 };

/*! loss_bins() : of blocks of `length` ids, bins (LOSS_BINS); how many. */
int loss_bins(int64_t length, loss_bin *bins);

/* ---- loss_summary.c, loss_context.c ---- */

es_status loss_summarise(es_job *job, es_answer *answer, es_error *err);

/*! loss_put_context() : if windows were asked for: what the context beyond them is worth, and which
 *  is enough. loss_put_fits() : the power law of loss against context, by position and by window.
 */
es_status loss_put_context(es_job *job, es_answer *answer, es_error *err);
es_status loss_put_fits(es_job *job, es_answer *answer, es_error *err);

#endif
