/* SPDX-License-Identifier: Apache-2.0 */
/* downstream.h : what a model answers about texts while some of its heads keep only some of their
 * keys, and how far that answer is from the full model's.
 *
 *     cells.c          answers to texts, horizons of heads, nearest neighbours
 *     text_horizons.c  horizons of texts
 *     question.c       parameters, settings, stages
 *     cost.c           operations and memory
 *     compare.c        one setting beside the full model: the columns that tables share
 *     rows.c           every policy and amount
 *     strata.c         thirds of the heads by horizon
 *     text_strata.c    thirds of the texts by horizon
 *     heads.c          heads one by one */
#ifndef ES_EXPERIMENTS_DOWNSTREAM_DOWNSTREAM_H
#define ES_EXPERIMENTS_DOWNSTREAM_DOWNSTREAM_H

#include <stdbool.h>

#include <esscher/model.h>
#include <esscher/plan.h>

#include "driver/job.h"
#include "experiments/kit/cache_params.h"
#include "experiments/kit/plan_params.h"
#include "experiments/kit/policy_params.h"
#include "model/logits.h"
#include "model/pool.h"
#include "model/tasks.h"

/* ---- cells.c ---- */

/* A model and its texts: what a setting is run on. */
typedef struct es_downstream {
    const es_model *model;
    const es_blocks *texts;
    bool embed; /* answers are embeddings, the mean of a text's last hidden states; else logits */
    uint64_t seed; /* of keys that are kept by chance */
} es_downstream;

/* What is taken from the model: heads that keep some of their keys. */
typedef struct es_thinning {
    es_policy_spec spec;           /* keys: of every text, unless `share` says otherwise */
    double share;                  /* of each text's own number of tokens; 0: not by share */
    const es_plan *plan;           /* what each head keeps, instead of both; NULL: none */
    const es_cache_setting *cache; /* of a decoder, instead of spec; NULL: none. With `share`, keys
                                      are that share of the prompt, in decode mode of the text */
    bool half;                  /* the prompt is the first half of each text, not cache->prompt */
    int64_t layer;              /* the only one with the cache; -1: all have it */
    int64_t draw;               /* which draw of the keys that are kept by chance, from 0 */
    const unsigned char *heads; /* (L, h) not 0: thinned; NULL: all are */
} es_thinning;

/*! es_thinning_keys() : keys that a query of a text of n tokens is to keep: the share of them
 *  rounded to the nearest whole number, 1 at least; n at most. ES_POLICY_UNSET: the policy's parts
 *  say. */
int64_t es_thinning_keys(const es_thinning *thinning, int64_t n);

/*! es_downstream_outputs() : numbers of one text's answer: labels, or H. */
int64_t es_downstream_outputs(const es_downstream *d);

/*! es_downstream_run() : texts first .. first + count - 1, one by thread. out (count, outputs + 1):
 *  the answer, and keys that a query of a thinned head kept, mean over these heads; all that it
 *  sees with `thinning` NULL, the model as it is. Text t of T has the cells from (draw T + t)
 *  es_model_sparse_cells() on of ES_EXPERIMENT_DOWNSTREAM whatever is thinned: two thinnings are
 *  compared on equal chance. @return : as es_model_forward(); ES_E_RANGE if draws and texts need
 *  more cells than there are. */
es_status es_downstream_run(const es_downstream *d, const es_thinning *thinning, int64_t first,
                            int64_t count, const es_exec *exec, double *out, es_error *err);

/*! es_downstream_horizons() : out (L, h) the horizon of each head, |S^1/2 A S^1/2| (THEORY 2), with
 *  S the covariance of its layer's input over all tokens of the texts. One walk through the texts;
 *  L H^2 numbers of memory beside it. @return : as es_model_forward() and es_horizons_of(). */
es_status es_downstream_horizons(const es_downstream *d, const es_exec *exec, double *out,
                                 es_error *err);

/* ---- text_horizons.c ---- */

/*! es_downstream_text_horizons() : out (count) the horizon |S^1/2 A S^1/2| of texts first .. first
 *  + count - 1 by themselves: S the covariance of a text's own tokens at the input of the layer, A
 *  the sum of Wq'Wk over its heads, without the score scale, as the public code of *Token Sample
 *  Complexity* has it. O(n H^2 + n^3) operations for a text of n <= H tokens. @return : as
 *  es_model_forward(), es_layer_heads_open() and es_norm_spectral(). */
es_status es_downstream_text_horizons(const es_downstream *d, int64_t layer, int64_t first,
                                      int64_t count, const es_exec *exec, double *out,
                                      es_error *err);

/*! es_downstream_text_bytes() : returns a bound for its memory, the forward pass and the matrices
 *  of a streamed layer apart. */
double es_downstream_text_bytes(const es_downstream *d, int64_t layer, int64_t longest,
                                int threads);

/* ---- one answer beside another ---- */

/*! es_cosine() : of a and b (count); NaN if one is zero. */
double es_cosine(const double *a, const double *b, int64_t count);

/*! es_nearest_rows() : nearest (count): for row i, which other row of `among` has the largest
 * cosine with it: the first where several have, -1 where none has one. rows, among (count) point to
 *  `width` numbers each. Rows are handed out to threads; O(count^2 width), 16 count bytes.
 *  @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
es_status es_nearest_rows(const double *const *rows, const double *const *among, int64_t count,
                          int64_t width, const es_exec *exec, int64_t *nearest, es_error *err);

/* ---- question.c ---- */

/* The options. */
typedef struct downstream_params {
    const char *model, *tasks, *text, *plan;
    es_policy_params policy;
    es_cache_params cache;
    es_grid keep;
    int64_t concat, most, least, layer, draws, strata_layer;
    bool strata, text_strata, ablate, allow_trailing;
} downstream_params;

/* Stages: horizons of all heads, one cell; answers to a slice of the texts in one draw of a
 * setting; horizons of a slice of the texts. */
enum { DOWNSTREAM_HORIZONS, DOWNSTREAM_ANSWERS, DOWNSTREAM_TEXT_HORIZONS };

enum { DOWNSTREAM_STRATA = 3 }; /* tertiles of the horizon */

/* What is done to the model. A row is a policy and a number of keys; in some settings only the
 * heads of one stratum, or one head, are thinned. */
typedef struct downstream_setting {
    int64_t row;     /* of the policies and amounts; -1: the model as it is */
    int64_t stratum; /* -1: not by stratum */
    int64_t head;    /* among all heads; -1: not one by one */
    int64_t draws;   /* how often texts are answered: 1 where nothing is kept by chance */
    int64_t before;  /* draws of the settings before it */
} downstream_setting;

/* Operations of all texts through the model, and those that a thinned head adds to its own. */
typedef struct downstream_work {
    double forward, head;
} downstream_work;

/* What the options make: model, texts, policies and settings. */
typedef struct downstream_state {
    es_model *model;
    const es_model_config *config;
    es_tokenizer *tokenizer;
    const char *plan_path;
    es_plan *plan; /* NULL: none was given */
    es_tasks tasks;
    es_task_blocks texts;
    es_downstream lab;
    int64_t outputs, count, slice, slices; /* texts; texts of a slice */
    int64_t only;                          /* the layer that is thinned; -1: all */
    int64_t heads, in_scope;               /* of all layers; of those that are thinned */
    es_thinning *rows;                     /* (n_rows) without heads */
    int64_t n_rows;
    downstream_setting *settings; /* (n_settings); the first is the model as it is */
    int64_t n_settings, n_draws;  /* n_draws: of all settings */
    downstream_work work;
    int64_t *neighbours; /* (count) of embeddings: the full model's, for the summary */
} downstream_state;

/*! downstream_of_cell() : the setting that a cell of the stage of answers belongs to. */
const downstream_setting *downstream_of_cell(const downstream_state *s, int64_t cell);

/*! downstream_answer() : of a text in one draw of a setting: the answer, then the keys kept. */
const double *downstream_answer(const es_job *job, int64_t setting, int64_t draw, int64_t text);

/*! downstream_stratum() : strata (heads) of the horizons (heads): 0 fast, 1 middle, 2 slow; -1: not
 *  in scope. Thirds of the heads, equal horizons in their order. */
void downstream_stratum(const downstream_state *s, const double *horizons, int *strata);

/* ---- cost.c ---- */

/*! downstream_work_of() : the work of all texts. downstream_slice_weight() : the cost of a cell in
 *  units of a pass with full attention. downstream_flops() : operations of all settings.
 *  downstream_cost_of() : what the study takes. */
downstream_work downstream_work_of(const downstream_state *s);
double downstream_slice_weight(const es_job *job, int64_t cell);
double downstream_flops(const downstream_state *s);
es_status downstream_cost_of(es_job *job, es_cost *out, es_error *err);

/* ---- compare.c ---- */

/* Columns that every table begins with: what was asked for. */
typedef struct downstream_asked {
    es_cache_cells cache;
    const char *policy;
    double keep;
    int64_t keys_asked;
    double keys;
} downstream_asked;

/* Columns of what a setting costs, over all texts: of labels or of embeddings. */
typedef struct downstream_cost {
    es_measured accuracy;
    double accuracy_low, accuracy_high;
    es_measured lost;
    double lost_low, lost_high, lost_p;
    es_measured agreement, kl;
    double kl_low, kl_high;
    es_measured cosine, recall;
    double recall_low, recall_high;
    es_measured recall_query;
    es_measured per_text; /* KL, or 1 - cosine, mean over texts; no column */
} downstream_cost;

/* One text in a setting, beside the full model: means over draws. */
typedef struct downstream_text {
    bool was;                  /* the full model labels it right */
    double right, same;        /* share of draws that label it right; as the full model does */
    double cost;               /* KL, or 1 - cosine */
    double kept, kept_queries; /* share of draws that keep the nearest neighbour; among embeddings
                                  by the full model */
} downstream_text;

/*! downstream_nearest() : nearest (count): for each text in a draw of setting `setting`, the
 *  nearest other text, by the full model if `by_full`, else in the same draw. */
es_status downstream_nearest(const es_job *job, int64_t setting, int64_t draw, bool by_full,
                             int64_t *nearest, es_error *err);

/*! downstream_texts() : texts (count): each text in a setting. */
es_status downstream_texts(const es_job *job, int64_t setting, downstream_text *texts,
                           es_error *err);

/*! downstream_sum_up() : what a setting of `draws` draws costs these texts (count). With one draw a
 *  text is right or not: intervals and tests are those of proportions; with several they are
 *  Student's over texts. lost_p is that of one test: downstream_correct() when all rows are there.
 *  x (count) is scratch. */
void downstream_sum_up(const es_job *job, int64_t draws, const downstream_text *texts,
                       int64_t count, double *x, downstream_cost *out);

/*! downstream_compare() : both, over all texts; costs (count) gets KL or 1 - cosine of each text.
 */
es_status downstream_compare(es_job *job, int64_t setting, downstream_cost *out, double *costs,
                             es_error *err);

/*! downstream_keys() : keys that a query kept in thinned heads, mean over texts.
 *  downstream_fill_asked() : those, and the policy and amount of a setting. */
double downstream_keys(const es_job *job, int64_t setting);
void downstream_fill_asked(const es_job *job, int64_t setting, es_table *table,
                           downstream_asked *out);

/*! downstream_correct() : corrects the p-values of rows (count) of `size` bytes each, at offset
 *  `member`, for their number, by Holm (multiple.h); NaN stays. */
es_status downstream_correct(es_job *job, void *rows, size_t size, size_t member, int64_t count,
                             es_error *err);
#define DOWNSTREAM_CORRECT(job, rows, type, member, count, err)                                    \
    downstream_correct(job, rows, sizeof(type), offsetof(type, member), count, err)

/*! downstream_say_row() : "top at 1/8 of the keys", for findings; downstream_say_keep() : its
 * second half. downstream_word() : "bigbird+inverse", "plan p.json", "h2o in q4_0", as in
 * parameters. Return out. */
enum { DOWNSTREAM_SIZE = 128 };
const char *downstream_say_row(const downstream_state *s, int64_t row, char out[DOWNSTREAM_SIZE]);
const char *downstream_say_keep(const es_thinning *t, char out[DOWNSTREAM_SIZE]);
const char *downstream_word(const downstream_state *s, int64_t row, char out[DOWNSTREAM_SIZE]);

/*! downstream_only_rounds() : returns whether it rounds keys and values and drops none. */
static inline bool downstream_only_rounds(const es_thinning *t)
{
    return t->cache && t->cache->mode == ES_EVICT_NOTHING;
}

/* Columns of rows that have members `asked` and `cost`. */
#define DOWNSTREAM_ASKED_COLUMNS(row)                                                              \
    ES_CACHE_CELL_COLUMNS(row, asked.cache),                                                       \
        ES_COL_KEY(row, asked.policy, "policy", ES_FORMAT_TEXT, "policy", "",                      \
                   "which keys a query keeps; +inverse, +none: factor on the weights of randomly " \
                   "kept keys, if not the published one"),                                         \
        ES_COL_KEY(row, asked.keep, "keep", ES_FORMAT_SHORT, "keep", "share",                      \
                   "keys of a query as a share of its text's tokens, with --evict prompt of the "  \
                   "prompt's, as asked: rounded, at least 1 key"),                                 \
        ES_COL_KEY(row, asked.keys_asked, "keys_asked", ES_FORMAT_COUNT, "keys asked", "keys",     \
                   "if a number was asked for"),                                                   \
        ES_COL_KEY(                                                                                \
            row, asked.keys, "keys", ES_FORMAT_SHORT, "keys", "keys",                              \
            "kept by a query in heads that drop keys, repeated draws counted; mean over texts")

#define DOWNSTREAM_COST_COLUMNS(row)                                                               \
    ES_COL_KEY(row, cost.accuracy, "accuracy", ES_FORMAT_REAL, "accuracy", "",                     \
               "share of the texts that are labelled right"),                                      \
        ES_COL_KEY(row, cost.accuracy_low, "accuracy_ci.0", ES_FORMAT_REAL, "accuracy from", "",   \
                   "95 % interval, Wilson's; Student's t over texts with several draws, here and " \
                   "in the columns of shares and p-values below"),                                 \
        ES_COL_KEY(row, cost.accuracy_high, "accuracy_ci.1", ES_FORMAT_REAL, "accuracy to", ""),   \
        ES_COL_KEY(row, cost.lost, "lost", ES_FORMAT_REAL, "lost", "",                             \
                   "accuracy of the full model less this one, on the same texts"),                 \
        ES_COL_KEY(row, cost.lost_low, "lost_ci.0", ES_FORMAT_REAL, "lost from", "",               \
                   "95 % interval of Bonett and Price for paired shares"),                         \
        ES_COL_KEY(row, cost.lost_high, "lost_ci.1", ES_FORMAT_REAL, "lost to", ""),               \
        ES_COL_KEY(row, cost.lost_p, "lost_p", ES_FORMAT_SHORT, "p", "",                           \
                   "p-value of no change: exact, given the number of texts that changed "          \
                   "(McNemar); corrected for all rows by Holm"),                                   \
        ES_COL_KEY(row, cost.agreement, "agreement", ES_FORMAT_REAL, "agreement", "",              \
                   "share of the texts that get the full model's label"),                          \
        ES_COL_KEY(row, cost.kl, "kl", ES_FORMAT_REAL, "KL", "nats",                               \
                   "sum p ln(p/q) over labels, p of the full model, q of this one; mean over "     \
                   "texts"),                                                                       \
        ES_COL_KEY(row, cost.kl_low, "kl_ci.0", ES_FORMAT_REAL, "KL from", "nats",                 \
                   "95 % interval, Student's t over texts"),                                       \
        ES_COL_KEY(row, cost.kl_high, "kl_ci.1", ES_FORMAT_REAL, "KL to", "nats"),                 \
        ES_COL_KEY(row, cost.cosine, "cosine", ES_FORMAT_REAL, "cosine", "",                       \
                   "of the text's embedding with the full model's; mean over texts"),              \
        ES_COL_KEY(row, cost.recall, "recall", ES_FORMAT_REAL, "recall@1", "",                     \
                   "share of the texts with the same nearest other text as for the full model, "   \
                   "all embeddings by this setting"),                                              \
        ES_COL_KEY(row, cost.recall_low, "recall_ci.0", ES_FORMAT_REAL, "recall from", "",         \
                   "95 % interval, Wilson's"),                                                     \
        ES_COL_KEY(row, cost.recall_high, "recall_ci.1", ES_FORMAT_REAL, "recall to", ""),         \
        ES_COL_KEY(row, cost.recall_query, "recall_query", ES_FORMAT_REAL, "of queries", "",       \
                   "the same with only the query's embedding by this setting, the others by the "  \
                   "full model")

/* ---- rows.c, strata.c, heads.c ---- */

es_status downstream_summarise(es_job *job, es_answer *answer, es_error *err);

/*! downstream_middle() : the policy and amount that single findings are about: the first policy at
 *  the share nearest to 1/8, as in other studies; the first if none has a share. */
int64_t downstream_middle(const downstream_state *s);

/*! downstream_put_strata(), downstream_put_text_strata(), downstream_put_heads() : tables of thirds
 *  of the heads, of thirds of the texts, and of heads one by one, with their findings. */
es_status downstream_put_strata(es_job *job, es_answer *answer, es_error *err);
es_status downstream_put_text_strata(es_job *job, es_answer *answer, es_error *err);
es_status downstream_put_heads(es_job *job, es_answer *answer, es_error *err);

#endif
