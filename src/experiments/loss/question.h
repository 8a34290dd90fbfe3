/* question.h : the study `loss`: what it asks and runs is in loss/question.c, its text in
 * loss/text.c, means and their errors in loss/means.c, what becomes of them in loss/rows.c, what
 * context is worth in loss/context.c, the power law in loss/fits.c.
 *
 * A cell of the first stage is a block of text in a setting, one of the second a block of which the
 * model reads the last tokens only, as a fresh text. Both hold the loss of each token: whatever is
 * said is made of those, and a run file can be asked again without the model. */
#ifndef ES_EXPERIMENTS_LOSS_QUESTION_H
#define ES_EXPERIMENTS_LOSS_QUESTION_H

#include "model/pool.h"

#include "driver/job.h"
#include "experiments/loss/loss.h"
#include "experiments/kit/plan_params.h"
#include "experiments/kit/policy_params.h"
#include "experiments/kit/pool_params.h"

typedef struct loss_params {
    const char *model, *ids, *start, *plan, *score_scale, *per_token;
    es_texts texts;
    int64_t block, blocks, reference;
    int from; /* es_blocks_from */
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

/* Losses of some tokens of one block. */
typedef struct loss_sum {
    double sum, count;
} loss_sum;

typedef struct loss_state {
    es_model *model;
    const es_model_config *config;
    es_tokenizer *tokenizer; /* NULL of ids, unless they are to be read as fresh texts */
    es_plan *plan;           /* NULL: none was given */
    es_blocks text;
    int32_t start[ES_TOKENIZER_SPECIALS]; /* (n_start) what begins a block of text; of ids, all of
                                             them, if the model's files say so, else nothing */
    int64_t n_start;
    int64_t longest;        /* ids of the longest block */
    int64_t tokens, bytes;  /* that are predicted; bytes of the text they stand for, 0: not known */
    loss_setting *settings; /* (count); the first is the model as it is */
    int64_t count;
    int64_t
        asked; /* the setting that the answer is about: the only one asked for, else the first */
    int64_t *fresh; /* (n_fresh) windows below half a block: texts of so many last tokens */
    int64_t n_fresh;
    loss_sum *sums; /* (blocks) room for means, one at a time */
} loss_state;

/* ---- loss/text.c ---- */

/*! loss_read_text() : text or ids as blocks, into the state. */
es_status loss_read_text(es_job *job, es_error *err);

/* ---- loss/question.c ---- */

/* Stages. */
enum { LOSS_BLOCKS = 0, LOSS_FRESH = 1 };

/*! loss_late() : the first place of the second half of a block, whose tokens are *late*: every
 *  window up to half a block takes something from each of them. */
int64_t loss_late(const loss_state *s);

/*! loss_length() : ids of a block; it predicts one fewer. */
int64_t loss_length(const loss_state *s, int64_t block);

/*! loss_tokens() : loss (length - 1) of a block's tokens in a setting, that at place 1 first.
 *  loss_entropy() : of attention, (layers) mean over heads and queries. loss_keys() : of a query.
 */
const double *loss_tokens(const es_job *job, int64_t setting, int64_t block);
const double *loss_entropy(const es_job *job, int64_t setting, int64_t block);
double loss_keys(const es_job *job, int64_t setting, int64_t block);

/*! loss_fresh() : loss (length - late) of a block's late tokens, each predicted from the last W to
 *  2 W - 1 tokens as a fresh text, W the window number `fresh`. */
const double *loss_fresh(const es_job *job, int64_t fresh, int64_t block);

/* ---- loss/means.c ---- */

/* A mean over tokens, its standard error over blocks (es_block_se()), and the 95 % interval by
 * Student's t of as many blocks as have such tokens. NaN where there is none; no error of one
 * block. */
typedef struct loss_mean {
    double value, se, low, high;
    int64_t tokens, blocks;
} loss_mean;

/*! loss_mean_of() : over blocks (count), of which those without tokens do not count. */
loss_mean loss_mean_of(const loss_sum *blocks, int64_t count);

/*! loss_over() : of a setting, over tokens at places [from, to) of their blocks. loss_cost() : the
 *  same less the loss of the model as it is, token by token. */
loss_mean loss_over(const es_job *job, int64_t setting, int64_t from, int64_t to);
loss_mean loss_cost(const es_job *job, int64_t setting, int64_t from, int64_t to);

/*! loss_less() : the loss of late tokens in a setting less that in setting `base`, token by token.
 *  loss_fresh_cost() : of a fresh text less that of the model as it is. */
loss_mean loss_less(const es_job *job, int64_t setting, int64_t base);
loss_mean loss_fresh_cost(const es_job *job, int64_t fresh);

/*! loss_without() : the same of all blocks but `skip` (-1: of all), less setting `base` (-1:
 * nothing); for jackknives. */
loss_mean loss_without(const es_job *job, int64_t skip, int64_t setting, int64_t base, int64_t from,
                       int64_t to);

/*! loss_fall() : the loss at places [from, to) less that at [then, end), of the same blocks. */
loss_mean loss_fall(const es_job *job, int64_t setting, int64_t from, int64_t to, int64_t then,
                    int64_t end);

/* How alike neighbouring blocks are: the lag-1 autocorrelation of the mean losses of whole blocks,
 * in the order of the text. */
typedef struct loss_neighbours {
    double correlation; /* NaN of fewer than four blocks */
    double chance;      /* its standard deviation if blocks were independent, by Moran's formula */
    double apart;       /* ids from the start of a block to that of the next, mean */
    bool positive;      /* above 0 with 95 % confidence */
} loss_neighbours;

/*! loss_neighbours_of() : of a setting. */
loss_neighbours loss_neighbours_of(const es_job *job, int64_t setting);

/* Places of a row of the answer: [1, 64), [64, 128), [128, 256), ..., up to the block. */
typedef struct loss_bin {
    int64_t from, to;
} loss_bin;

enum { LOSS_BINS = 64, LOSS_FIRST_BIN = 64 };

/*! loss_bins() : of blocks of `length` ids, bins (LOSS_BINS); how many. */
int loss_bins(int64_t length, loss_bin *bins);

/* ---- loss/rows.c, loss/context.c, loss/fits.c ---- */

es_status loss_summarise(es_job *job, es_answer *answer, es_error *err);

/*! loss_put_context() : if windows were asked for: what the context beyond them is worth, which
 * part of a cost is that of lost sinks, what a fresh text costs, and which window is enough.
 *  loss_put_fits() : the power law of loss against context, by position and by window.
 */
es_status loss_put_context(es_job *job, es_answer *answer, es_error *err);
es_status loss_put_fits(es_job *job, es_answer *answer, es_error *err);

/* Settings whose windows are all that they differ in, increasing. */
enum { LOSS_WINDOWS = 256 };
typedef struct loss_group {
    int64_t count, at[LOSS_WINDOWS]; /* numbers of the settings */
    const loss_setting *like;        /* the first of them */
} loss_group;

/*! loss_find_group() : the group that begins with setting `first`; false if that is no window, or
 *  belongs to an earlier one. loss_window_at() : window of its setting number i. */
bool loss_find_group(const loss_state *s, int64_t first, loss_group *out);
int64_t loss_window_at(const loss_state *s, const loss_group *g, int64_t i);

#endif
