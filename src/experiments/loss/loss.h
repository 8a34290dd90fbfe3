/* SPDX-License-Identifier: Apache-2.0 */
/* loss.h : how well a causal model predicts text while its heads see fewer keys, or scale scores
 * differently, than in training (THEORY 16).
 *
 *     cells.c     one block of text through the model in one setting
 *     divergence.c next-token distributions of two runs of a block, compared
 *     full.c      the full model's pass over a block, shared by all settings of the block
 *     question.c  parameters, stages, cost
 *     settings.c  the list of settings that the parameters ask for
 *     ropes.c     the stretchings of rotary positions that the parameters ask for
 *     sizes.c     default length and number of blocks
 *     text.c      text or ids as blocks
 *     means.c     means over tokens with errors over blocks
 *     compared.c  means of what a cache or another model changes
 *     rows.c      tables of settings, positions, layers and the text
 *     windows.c   what the context beyond a window is worth
 *     stretch.c   which stretching is best beyond the trained context
 *     fits.c      the power law of loss against context
 *     findings.c  sentences about settings and positions
 *
 * A cell of the first stage is a block in a setting; the settings of a block follow each other. A
 * cell of the second is a block of which the model reads only the last tokens, as a fresh text.
 * Both hold the loss of each token, so every table can be made from a run file without the model.
 */
#ifndef ES_EXPERIMENTS_LOSS_LOSS_H
#define ES_EXPERIMENTS_LOSS_LOSS_H

#include <esscher/model.h>
#include <esscher/plan.h>

#include "driver/job.h"
#include "experiments/kit/block_mean.h"
#include "experiments/kit/cache_params.h"
#include "experiments/kit/plan_params.h"
#include "experiments/kit/policy_params.h"
#include "experiments/kit/pool_params.h"
#include "model/model.h"
#include "model/pool.h"

/* ---- cells.c ---- */

/* Factors on the scores of the query at place i, counted from 0, which sees i + 1 keys. */
typedef enum es_score_scale {
    ES_SCALE_NONE = 0,   /* 1 */
    ES_SCALE_LOG = 1,    /* ln(i + 1) / ln(reference): THEORY 16 (S1) */
    ES_SCALE_LOGN = 2,   /* the same, and 1 up to the reference: es_scaling_logn() */
    ES_SCALE_YARN = 3,   /* (1 + 0.1 ln max(1, n / reference))^2, n the block: THEORY 16 (S2) */
    ES_SCALE_FACTOR = 4, /* the same number for all */
    ES_SCALE_LLAMA4 = 5  /* 1 + beta ln(1 + floor(i / n0)): THEORY 16 (S3) */
} es_score_scale;

/* A change of the model. Zeros: none. */
typedef struct es_loss_setting {
    int64_t window;        /* the last `window` keys, the query's own included; 0: all */
    int64_t sinks;         /* the first keys, beside a window */
    es_policy_spec policy; /* what every head keeps, instead of a window; policy NULL: all */
    const es_plan *plan;   /* what each head keeps, instead of both; NULL: none */
    const es_cache_setting *cache; /* what the cache drops and rounds, instead of all of them */
    const es_model *other;         /* --against: another model instead of this one */
    const es_rotary *rotary;       /* (2) stretched: es_model_block.rotary; NULL: the block's */
    es_score_scale scale;
    double factor;    /* of ES_SCALE_FACTOR; beta of ES_SCALE_LLAMA4 */
    double reference; /* context at which ES_SCALE_LOG is 1, and up to which the others are; > 1; n0
                         of ES_SCALE_LLAMA4 */
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
    const es_rotary *rotary; /* (2) the model's own, of blocks that may be longer than its
                                positions; NULL: they are not */
} es_loss_block;

/*! es_loss_run() : nll (n - 1) gets -ln p(ids[i + 1] | ids[0 .. i]) in nats; entropy (L) that of
 * the attention weights, mean over a layer's heads and the block's queries; *keys the keys of a
 * query, mean over all heads. O(n) memory beside es_model_forward(). @return : as
 * es_model_forward(). */
es_status es_loss_run(const es_loss_block *block, const es_loss_setting *setting,
                      const es_exec *exec, double *nll, double *entropy, double *keys,
                      es_error *err);

/* Inputs and results of one pass of a model. */
typedef struct es_loss_pass {
    const double *oracle;         /* in: es_cache.oracle; NULL: no policy needs it */
    double *late;                 /* (layers, kv_heads, prompt) es_cache.late; NULL: not wanted */
    int64_t prompt;               /* of late */
    double *nll, *entropy, *keys; /* as of es_loss_run() */
    char *last; /* (n, hidden) the last hidden state, in the model's precision; NULL: not wanted */
} es_loss_pass;

/*! es_loss_run_pass() : es_loss_run() with all that a pass may leave. It is that of the setting's
 *  own model, if the setting has one: entropy has the layers of that model. */
es_status es_loss_run_pass(const es_loss_block *block, const es_loss_setting *setting,
                           const es_exec *exec, const es_loss_pass *out, es_error *err);

/* ---- divergence.c ---- */

/* The last hidden states of a block in two runs. */
typedef struct es_divergence {
    const es_model *model[2]; /* of one vocabulary */
    const char *state[2];     /* (n, hidden) of each, in its precision */
    char *logits;    /* (n - from, vocab) of run 0 if these are one strip; NULL: made from state */
    int64_t from, n; /* places from .. n - 1 are compared */
    const es_rotary *rotary; /* es_loss_block.rotary, of both */
} es_divergence;

/*! es_divergence_run() : kl (n - from) gets KL(p || q) of the next token after each place, p of run
 *  0 and q of run 1, in nats; agree (n - from) 1 where both have the same most likely token, 0
 *  elsewhere. Logits are made strip by strip: memory is O(strip vocab). The same bits on any number
 *  of threads. @return : as es_model_forward(). */
es_status es_divergence_run(const es_divergence *pair, const es_exec *exec, double *kl,
                            double *agree, es_error *err);

/*! es_divergence_rows() : returns how many of n places are in a strip. */
int64_t es_divergence_rows(const es_model_config *config, int64_t n);

/*! es_divergence_logits() : out (rows, vocab) gets the logits of places `first` .. first + rows - 1
 *  of a block by its last hidden state (n, hidden). */
es_status es_divergence_logits(const es_model *model, const es_rotary *rotary, const char *state,
                               int64_t first, int64_t rows, const es_exec *exec, void *out,
                               es_error *err);

/*! es_divergence_bytes() : memory that it takes on `threads` threads. */
double es_divergence_bytes(const es_model_config *config, es_dtype precision, int64_t n,
                           int threads);

/* The last tokens of a block as a text of their own. */
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

/* ---- the study ---- */

typedef struct loss_fulls loss_fulls; /* of full.c */

/* The options. */
typedef struct loss_params {
    const char *model, *against, *ids, *start, *plan, *rope, *score_scale, *per_token;
    es_texts texts;
    int64_t block, blocks, reference;
    int from; /* es_blocks_from */
    es_grid window, sinks, context;
    es_policy_params policy;
    es_cache_params cache;
    double enough;
    int invalid; /* as es_text_invalid */
    bool kl, allow_trailing;
} loss_params;

enum { LOSS_SIZE = 320 };

/* A change of the model, and its names in tables. */
typedef struct loss_setting {
    es_loss_setting lab;
    char name[LOSS_SIZE];  /* of all of it: "window 256 + 4 sinks, scores times log" */
    char scale[LOSS_SIZE]; /* "none", "log", "yarn", "1.5" */
    const char *rope;      /* "ntk:4"; NULL: rotary positions are as the checkpoint has them */
} loss_setting;

enum { LOSS_ROPE_NAME = 32 };

/* A stretching of rotary positions. */
typedef struct loss_rope {
    char name[LOSS_ROPE_NAME]; /* "ntk:4" */
    es_stretch stretch;
    es_rotary rotary[2];
} loss_rope;

/* The state of the study: model, text, settings. */
typedef struct loss_state {
    es_model *model;
    const es_model_config *config;
    es_tokenizer *tokenizer; /* NULL of ids, unless they are to be read as fresh texts */
    es_plan *plan;           /* NULL: none was given */
    es_model *other;         /* of --against; NULL: none was given */
    es_cache_settings caches;
    double trained;    /* context that the model was trained on, or --reference */
    loss_rope *ropes;  /* (1 + n_ropes) as the checkpoint has it, then those of --rope */
    int64_t n_ropes;   /* 1 without --rope, which is "none" */
    bool compares;     /* distributions of settings are compared with those of the full model, */
    int64_t from;      /* from this place on */
    loss_fulls *fulls; /* of these; NULL: nothing is compared */
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
    int64_t
        *fresh; /* (n_fresh) windows below half a block; each is also run as a text of its own */
    int64_t n_fresh;
    es_block_sum *sums; /* (blocks) space for means, one at a time */
} loss_state;

/* ---- full.c ---- */

/* The full model's pass over a block. */
typedef struct es_loss_full {
    es_arena arena;
    char *state;  /* (n, hidden) the last hidden state, in the model's precision */
    char *logits; /* (n - from, vocab) of the places that are compared, if these are one strip: made
                     once for all settings; NULL: every comparison makes them strip by strip */
    double *late; /* (layers, kv_heads, prompt) es_cache.late; NULL: no setting needs it */
    double *nll, *entropy; /* (n - 1), (layers) as of es_loss_run() */
    double keys;
} es_loss_full;

/*! loss_fulls_new() : memory for the full model's passes over `most` blocks at a time, one for each
 *  thread that computes cells, into the state. loss_fulls_free() frees the passes; NULL is fine. */
es_status loss_fulls_new(es_job *job, int64_t most, es_error *err);
void loss_fulls_free(loss_fulls *fulls);

/*! loss_full_borrow() : *out is the full model's pass over a block. The first thread that asks
 * makes it, others wait for it; it stays as it is until loss_full_return(). A thread borrows one at
 * a time. Any thread. @return : as es_model_forward(); *out is then NULL. */
es_status loss_full_borrow(loss_fulls *fulls, const es_loss_block *block, const es_exec *exec,
                           const es_loss_full **out, es_error *err);
void loss_full_return(loss_fulls *fulls, const es_loss_full *full);

/* Members of a cell. */
typedef struct loss_cell {
    double *nll, *entropy, *keys; /* as of es_loss_run() */
    double *kl, *agree;           /* as of es_divergence_run() */
} loss_cell;

/*! loss_run_beside() : runs a setting on a block of more than s->from ids, and compares it with the
 *  full model from place s->from on. loss_copy_full() : the numbers of the full model, which agrees
 *  with itself. Any thread. @return : as es_model_forward(). */
es_status loss_run_beside(const loss_state *s, const es_loss_block *block,
                          const es_loss_setting *setting, const es_exec *exec, const loss_cell *out,
                          es_error *err);
es_status loss_copy_full(const loss_state *s, const es_loss_block *block, const es_exec *exec,
                         const loss_cell *out, es_error *err);

/* ---- text.c ---- */

/*! loss_read_text() : text or ids as blocks, into the state. */
es_status loss_read_text(es_job *job, es_error *err);

/* ---- settings.c ---- */

/*! loss_make_settings() : the settings that the parameters ask for and the windows of fresh texts,
 *  into the state; completes p->policy. The text must have been read. */
es_status loss_make_settings(es_job *job, es_error *err);

/* ---- ropes.c ---- */

/*! loss_read_ropes() : the trained context and the stretchings of --rope, into the state. @return :
 *  ES_OK; ES_E_ARGUMENT (loss.rope); as es_model_stretch(). */
es_status loss_read_ropes(es_job *job, es_error *err);

/*! loss_rope_parse() : reads "none", "linear:F", "ntk:F", "yarn:F" or "base:X"; out->trained is not
 *  set. @return : ES_OK; ES_E_ARGUMENT (loss.rope). */
es_status loss_rope_parse(const char *word, es_stretch *out, es_error *err);

/* ---- sizes.c ---- */

/*! loss_choose_sizes() : chooses the length of blocks and their number, unless given, so that the
 *  run takes no longer than a default run should, and adds a finding about it. The text must have
 *  been read with the model's positions, and settings made of it. Returns whether it changed the
 *  parameters: text and settings are then gone, and must be made again. */
bool loss_choose_sizes(es_job *job);

/* ---- question.c ---- */

/*! loss_block_work() : operations of a block of n ids in all settings, fresh texts included. */
double loss_block_work(const loss_state *s, int64_t n);

/* Stages. */
enum { LOSS_SETTINGS = 0, LOSS_FRESH = 1 };

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

/*! loss_change() : KL divergence (length - s->from) of a block's next tokens in a setting, from
 *  place s->from on, if s->compares; loss_agreement() : 1 where the most likely token is the same,
 *  0 elsewhere. */
const double *loss_change(const es_job *job, int64_t setting, int64_t block);
const double *loss_agreement(const es_job *job, int64_t setting, int64_t block);

/* ---- compared.c ---- */

/*! loss_kl() : of a setting, over places [from, to) of blocks, less that of setting `base` (-1:
 *  nothing). loss_agree() : share of places with the same most likely token. */
es_block_mean loss_kl(const es_job *job, int64_t setting, int64_t base, int64_t from, int64_t to);
es_block_mean loss_agree(const es_job *job, int64_t setting, int64_t from, int64_t to);

/*! loss_add_cache_findings() : what the best setting costs, which policy wins by how much more than
 *  its error, and what number types cost. */
void loss_add_cache_findings(const es_job *job, es_answer *answer);

/* ---- means.c ---- */

/*! loss_over() : of a setting, over tokens at places [from, to) of their blocks. loss_cost() : the
 *  same less the loss of the model as it is, token by token. */
es_block_mean loss_over(const es_job *job, int64_t setting, int64_t from, int64_t to);
es_block_mean loss_cost(const es_job *job, int64_t setting, int64_t from, int64_t to);

/*! loss_less() : the loss of late tokens in a setting less that in setting `base`, token by token.
 *  loss_fresh_cost() : of a fresh text less that of the model as it is. */
es_block_mean loss_less(const es_job *job, int64_t setting, int64_t base);
es_block_mean loss_fresh_cost(const es_job *job, int64_t fresh);

/*! loss_without() : the same of all blocks but `skip` (-1: of all), less setting `base` (-1:
 * nothing); for jackknives. */
es_block_mean loss_without(const es_job *job, int64_t skip, int64_t setting, int64_t base,
                           int64_t from, int64_t to);

/*! loss_fall() : the loss at places [from, to) less that at [then, end), of the same blocks. */
es_block_mean loss_fall(const es_job *job, int64_t setting, int64_t from, int64_t to, int64_t then,
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

/*! loss_bins() : of blocks of `length` ids, bins (LOSS_BINS); how many. A bin that holds place
 *  `cut` is divided there; 0: none is. */
int loss_bins(int64_t length, int64_t cut, loss_bin *bins);

/* ---- rows.c ---- */

/* A setting over all tokens. */
typedef struct loss_setting_row {
    const char *setting;
    int64_t window, sinks;
    const char *evict;
    int64_t prompt;
    const char *policy;
    int64_t keys_asked;
    const char *k_type, *v_type, *scale;
    es_measured nll;
    double nll_low, nll_high, bits_per_byte;
    es_measured cost;
    double cost_low, cost_high;
    es_measured loss, kl;
    double kl_low, kl_high;
    es_measured agreement, late;
    double keys;
    es_measured entropy;
} loss_setting_row;

/* Places [from, to) of blocks in a setting. */
typedef struct loss_position_row {
    const char *setting; /* a column of "positions" only */
    int64_t from, to, count;
    es_measured nll, cost, kl, agreement;
} loss_position_row;

es_status loss_summarise(es_job *job, es_answer *answer, es_error *err);

/*! loss_bits_per_byte() : a mean over all tokens in bits per byte of text; s->bytes > 0. */
double loss_bits_per_byte(const loss_state *s, const es_block_mean *m);

/* ---- findings.c ---- */

/*! loss_add_findings() : of rows `settings` (s->count; NULL of one setting) and `positions` (count)
 *  of the setting that was asked for. */
void loss_add_findings(const es_job *job, const loss_setting_row *settings,
                       const loss_position_row *positions, int64_t count, es_answer *answer);

/* ---- stretch.c ---- */

/*! loss_put_stretch() : if --rope was given: which setting is best beyond the trained context, and
 *  how sure that is. */
es_status loss_put_stretch(es_job *job, es_answer *answer, es_error *err);

/* ---- windows.c, fits.c ---- */

/*! loss_put_windows() : if windows were asked for: what the context beyond them is worth, which
 *  part of a cost is that of lost sinks, what a fresh text costs, and which window is enough.
 *  loss_put_fits() : the power law of loss against context, by position and by window. */
es_status loss_put_windows(es_job *job, es_answer *answer, es_error *err);
es_status loss_put_fits(es_job *job, es_answer *answer, es_error *err);

/* Settings whose windows are all that they differ in, increasing. */
enum { LOSS_WINDOWS = 256 };
/* Settings that differ in their window only. */
typedef struct loss_group {
    int64_t count, at[LOSS_WINDOWS]; /* numbers of the settings */
    const loss_setting *like;        /* the first of them */
} loss_group;

/*! loss_find_group() : the group that begins with setting `first`; false if that is no window, or
 *  belongs to an earlier one. loss_window_at() : window of its setting number i. */
bool loss_find_group(const loss_state *s, int64_t first, loss_group *out);
int64_t loss_window_at(const loss_state *s, const loss_group *g, int64_t i);

#endif
