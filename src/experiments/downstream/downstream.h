/* SPDX-License-Identifier: Apache-2.0 */
/* downstream.h : what a model answers about texts while some of its heads keep only some of their
 * keys, and how far that answer is from the full model's.
 *
 *     cells.c     answers to texts, horizons of heads, nearest neighbours
 *     question.c  parameters, settings, stages, cost
 *     compare.c   one setting beside the full model: the columns that tables share
 *     rows.c      every policy and amount
 *     strata.c    thirds of the heads by horizon
 *     heads.c     heads one by one */
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
    const unsigned char *heads; /* (L, h) not 0: thinned; NULL: all are */
} es_thinning;

/*! es_thinning_keys() : keys that a query of a text of n tokens is to keep: the share of them
 *  rounded to the nearest whole number, 1 at least; n at most. ES_POLICY_UNSET: the policy's parts
 *  say. */
int64_t es_thinning_keys(const es_thinning *thinning, int64_t n);

/*! es_thinning_cache() : returns what the cache does to a text of n tokens: its prompt and keys. */
es_cache_setting es_thinning_cache(const es_thinning *thinning, int64_t n);

/*! es_downstream_outputs() : numbers of one text's answer: labels, or H. */
int64_t es_downstream_outputs(const es_downstream *d);

/*! es_downstream_run() : texts first .. first + count - 1, one by thread. out (count, outputs + 1):
 *  the answer, and keys that a query of a thinned head kept, mean over these heads; all that it
 *  sees with `thinning` NULL, the model as it is. Text t has the cells from t
 *  es_model_sparse_cells() on of ES_EXPERIMENT_DOWNSTREAM whatever is thinned: two thinnings are
 *  compared on equal chance. @return : as es_model_forward(). */
es_status es_downstream_run(const es_downstream *d, const es_thinning *thinning, int64_t first,
                            int64_t count, const es_exec *exec, double *out, es_error *err);

/*! es_downstream_horizons() : out (L, h) the horizon of each head, |S^1/2 A S^1/2| (THEORY 2), with
 *  S the covariance of its layer's input over all tokens of the texts. One walk through the texts;
 *  L H^2 numbers of memory beside it. @return : as es_model_forward() and es_horizons_of(). */
es_status es_downstream_horizons(const es_downstream *d, const es_exec *exec, double *out,
                                 es_error *err);

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
    int64_t concat, most, least, layer;
    bool strata, ablate, allow_trailing;
} downstream_params;

/* Stages: horizons of all heads, one cell; answers to a slice of the texts in one setting. */
enum { DOWNSTREAM_HORIZONS, DOWNSTREAM_ANSWERS };

enum { DOWNSTREAM_STRATA = 3 }; /* tertiles of the horizon: fast, middle, slow */

/* What is done to the model. A row is a policy and a number of keys; in some settings only the
 * heads of one stratum, or one head, are thinned. */
typedef struct downstream_setting {
    int64_t row;     /* of the policies and amounts; -1: the model as it is */
    int64_t stratum; /* -1: not by stratum */
    int64_t head;    /* among all heads; -1: not one by one */
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
    int64_t n_settings;
    downstream_work work;
    int64_t *neighbours; /* (count) of embeddings: the full model's, for the summary */
} downstream_state;

/*! downstream_in_scope() : may this head be thinned? */
bool downstream_in_scope(const downstream_state *s, int64_t head);

/*! downstream_answer() : of a text in a setting: the answer, then the keys kept. */
const double *downstream_answer(const es_job *job, int64_t setting, int64_t text);

/*! downstream_stratum() : strata (heads) of the horizons (heads): 0 fast, 1 middle, 2 slow; -1: not
 *  in scope. Thirds of the heads, equal horizons in their order. */
void downstream_stratum(const downstream_state *s, const double *horizons, int *strata);

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

/*! downstream_nearest() : nearest (count): for each text in setting `setting`, the nearest other
 *  text in setting `among`. */
es_status downstream_nearest(const es_job *job, int64_t setting, int64_t among, int64_t *nearest,
                             es_error *err);

/*! downstream_compare() : what a setting costs; costs (count) gets KL or 1 - cosine of each text.
 *  lost_p is that of one test: downstream_correct() when all rows are there. */
es_status downstream_compare(es_job *job, int64_t setting, downstream_cost *out, double *costs,
                             es_error *err);

/*! downstream_keys() : keys that a query kept in thinned heads, mean over texts.
 *  downstream_fill_asked() : those, and the policy and amount of a setting. */
double downstream_keys(const es_job *job, int64_t setting);
void downstream_fill_asked(const es_job *job, int64_t setting, es_table *table,
                           downstream_asked *out);

/*! downstream_correct() : corrects the p-values that p (count) point to for their number, by Holm
 *  (multiple.h); NaN stays. */
es_status downstream_correct(es_job *job, double *const *p, int64_t count, es_error *err);

/*! downstream_say_row() : "top at 1/8 of the keys", for findings; downstream_say_keep() : its
 * second half. downstream_word() : "bigbird+inverse", "plan p.json", "h2o in q4_0", as in
 * parameters. Return out. */
enum { DOWNSTREAM_SIZE = 128 };
const char *downstream_say_row(const downstream_state *s, int64_t row, char out[DOWNSTREAM_SIZE]);
const char *downstream_say_keep(const es_thinning *t, char out[DOWNSTREAM_SIZE]);
const char *downstream_word(const downstream_state *s, int64_t row, char out[DOWNSTREAM_SIZE]);

/*! downstream_only_rounds() : does it round keys and values and drop none? */
static inline bool downstream_only_rounds(const es_thinning *t)
{
    return t->cache && !t->cache->unit.evict.policy;
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
        ES_COL_KEY(row, asked.keys, "keys", ES_FORMAT_SHORT, "keys", "keys",                       \
                   "kept by a query in thinned heads, repeated draws counted; mean over texts")

#define DOWNSTREAM_COST_COLUMNS(row)                                                               \
    ES_COL_KEY(row, cost.accuracy, "accuracy", ES_FORMAT_REAL, "accuracy", "",                     \
               "share of the texts that are labelled right"),                                      \
        ES_COL_KEY(row, cost.accuracy_low, "accuracy_ci.0", ES_FORMAT_REAL, "accuracy from", "",   \
                   "95 % interval, Wilson's"),                                                     \
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

/*! downstream_put_strata(), downstream_put_heads() : tables of strata, and of heads one by one,
 * with their findings. */
es_status downstream_put_strata(es_job *job, es_answer *answer, es_error *err);
es_status downstream_put_heads(es_job *job, es_answer *answer, es_error *err);

#endif
