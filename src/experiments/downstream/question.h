/* question.h : the study `downstream`: what it asks and runs is in downstream/question.c, what
 * becomes of the answers in downstream/rows.c, of strata and single heads in
 * downstream/heads.c. */
#ifndef ES_EXPERIMENTS_DOWNSTREAM_QUESTION_H
#define ES_EXPERIMENTS_DOWNSTREAM_QUESTION_H

#include "driver/job.h"
#include "experiments/downstream/downstream.h"
#include "model/tasks.h"
#include "stats/average.h"
#include "stats/proportion.h"
#include "experiments/kit/plan_params.h"
#include "experiments/kit/policy_params.h"

typedef struct downstream_params {
    const char *model, *tasks, *text, *plan;
    es_policy_params policy;
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

/* ---- downstream/rows.c ---- */

/* What a setting costs, over all texts. `texts` (count) are what it costs each: nats, or 1 -
 * cosine. */
typedef struct downstream_found {
    double keys;
    es_proportion accuracy, agreement, recall, recall_query;
    es_change lost;
    es_measured cost; /* KL, or cosine */
    const double *texts;
} downstream_found;

es_status downstream_measure(es_job *job, int64_t setting, downstream_found *out, es_error *err);

/*! downstream_put_setting() : columns policy, keep, keys of a row. */
void downstream_put_setting(const es_job *job, const downstream_setting *setting,
                            const downstream_found *found, es_table *table, int64_t row);

/*! downstream_correct() : the p-values of a column, in rows from `from` on, become ones for all of
 *  these rows together, by Holm (multiple.h). */
es_status downstream_correct(es_job *job, es_table *table, int64_t from, const char *column,
                             es_error *err);

/*! downstream_put_cost() : columns of DOWNSTREAM_COST_COLUMNS; downstream_correct() corrects lost_p
 *  when all rows are there. */
void downstream_put_cost(const es_job *job, const downstream_found *found, es_table *table,
                         int64_t row);

/*! downstream_say_row() : "top at 1/8 of the keys", for findings. Returns out. */
enum { DOWNSTREAM_ROOM = 128 };
const char *downstream_say_row(const downstream_state *s, int64_t row, char out[DOWNSTREAM_ROOM]);
const char *downstream_say_keep(const es_thinning *t, char out[DOWNSTREAM_ROOM]);

/*! downstream_word() : "bigbird+inverse", "plan p.json", as it would be asked for. Returns out. */
const char *downstream_word(const downstream_state *s, int64_t row, char out[ES_POLICY_ROOM]);

#define DOWNSTREAM_SETTING_COLUMNS                                                                 \
    {"policy", "policy", "", ES_FORMAT_TEXT,                                                       \
     "which keys a query keeps; +inverse, +none: factor on keys kept by chance, where it is not "  \
     "the published one"},                                                                         \
        {"keep", "keep", "share", ES_FORMAT_SHORT,                                                 \
         "keys of a query, of its text's tokens, as asked: rounded, 1 at least"},                  \
        {"keys_asked", "keys asked", "keys", ES_FORMAT_COUNT, "where a number was asked for"},     \
    {                                                                                              \
        "keys", "keys", "keys", ES_FORMAT_SHORT,                                                   \
            "that a query kept in heads that were thinned, as often as drawn; mean over texts"     \
    }

#define DOWNSTREAM_COST_COLUMNS                                                                    \
    {"accuracy",                                                                                   \
     "accuracy",                                                                                   \
     "",                                                                                           \
     ES_FORMAT_REAL,                                                                               \
     "share of the texts that are labelled right",                                                 \
     .error = "accuracy_se"},                                                                      \
        {"accuracy_ci.0", "accuracy from", "", ES_FORMAT_REAL, "95 % interval, Wilson's"},         \
        {"accuracy_ci.1", "accuracy to", "", ES_FORMAT_REAL},                                      \
        {"lost",                                                                                   \
         "lost",                                                                                   \
         "",                                                                                       \
         ES_FORMAT_REAL,                                                                           \
         "accuracy of the full model less this one, on the same texts",                            \
         .error = "lost_se"},                                                                      \
        {"lost_ci.0", "lost from", "", ES_FORMAT_REAL,                                             \
         "95 % interval of Bonett and Price for paired shares"},                                   \
        {"lost_ci.1", "lost to", "", ES_FORMAT_REAL},                                              \
        {"lost_p", "p", "", ES_FORMAT_SHORT,                                                       \
         "of no change: exact, given how many texts changed sides (McNemar); for all rows "        \
         "together, by Holm"},                                                                     \
        {"agreement",                                                                              \
         "agreement",                                                                              \
         "",                                                                                       \
         ES_FORMAT_REAL,                                                                           \
         "share of the texts that get the full model's label",                                     \
         .error = "agreement_se"},                                                                 \
        {"kl",                                                                                     \
         "KL",                                                                                     \
         "nats",                                                                                   \
         ES_FORMAT_REAL,                                                                           \
         "of the labels' distribution, full from this one: sum p ln(p/q); mean over texts",        \
         .error = "kl_se"},                                                                        \
        {"kl_ci.0", "KL from", "nats", ES_FORMAT_REAL, "95 % interval, Student's t over texts"},   \
        {"kl_ci.1", "KL to", "nats", ES_FORMAT_REAL},                                              \
        {"cosine",                                                                                 \
         "cosine",                                                                                 \
         "",                                                                                       \
         ES_FORMAT_REAL,                                                                           \
         "of the text's embedding with the full model's; mean over texts",                         \
         .error = "cosine_se"},                                                                    \
        {"recall",                                                                                 \
         "recall@1",                                                                               \
         "",                                                                                       \
         ES_FORMAT_REAL,                                                                           \
         "share of the texts whose nearest other text is the one it is for the full model, all "   \
         "embeddings being made like this",                                                        \
         .error = "recall_se"},                                                                    \
        {"recall_ci.0", "recall from", "", ES_FORMAT_REAL, "95 % interval, Wilson's"},             \
        {"recall_ci.1", "recall to", "", ES_FORMAT_REAL},                                          \
    {                                                                                              \
        "recall_query", "of queries", "", ES_FORMAT_REAL,                                          \
            "the same where only the query's embedding is made like this, the others in full",     \
            .error = "recall_query_se"                                                             \
    }

es_status downstream_summarise(es_job *job, es_answer *answer, es_error *err);

/* ---- downstream/heads.c ---- */

/*! downstream_put_strata(), downstream_put_heads() : tables of strata and of heads one by one, if
 *  they were asked for, and what is found in them. */
es_status downstream_put_strata(es_job *job, es_answer *answer, es_error *err);
es_status downstream_put_heads(es_job *job, es_answer *answer, es_error *err);

#endif
