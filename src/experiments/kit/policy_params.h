/* SPDX-License-Identifier: Apache-2.0 */
/* policy_params.h : policies, and how many keys they keep, as parameters; the same in every study
 * that asks what dropping keys costs.
 *
 *     typedef struct my_params { es_policy_params policy; ... } my_params;
 *     static const es_param params[] = {ES_POLICY_PARAMS(my_params, policy, "random,top"), ...,
 * {0}};
 *
 *     open():   es_policies_make(job, &p->policy, causal, &s->policies, err);
 *               s->policies.specs[0 .. count), policies in the order of the list, keys increasing
 */
#ifndef ES_EXPERIMENTS_KIT_POLICY_PARAMS_H
#define ES_EXPERIMENTS_KIT_POLICY_PARAMS_H

#include <esscher/policy.h>

#include "driver/job.h"
#include "policy/policy.h"

/* The options that describe policies. */
typedef struct es_policy_params {
    const char *names; /* with commas between them */
    es_grid keys;
    int64_t window, sinks, random, span;
    int correction; /* index into es_policy_corrections; -1: as published */
    bool with_replacement;
} es_policy_params;

extern const char *const es_policy_corrections[]; /* "none", "inverse" */

/* clang-format off */
/* Rows of a parameter list for member `policy` of struct `type`; `standard_names` is the list of
 * policies if none is given, `standard_keys` the text about --keys then. */
#define ES_POLICY_PARAMS(type, policy, standard_names)                                             \
    ES_POLICY_PARAMS_WITH(type, policy, standard_names,                                            \
                          "what --window, --sinks and --random add up to, or an eighth")
#define ES_POLICY_PARAMS_WITH(type, policy, standard_names, standard_keys)                         \
    ES_POLICY_LIST_PARAMS(type, policy, standard_names, standard_keys),                            \
    {"window", 0, ES_PARAM_WHOLE, "W",                                                             \
     "keys j with |i - j| <= W are kept; in a causal model the last W, the query's own included",  \
     .field = offsetof(type, policy.window), .min = 0, .max = 1e12, .unit = "keys",                \
     .default_note = "what --keys leaves"},                                                           \
    {"sinks", 0, ES_PARAM_WHOLE, "G", "keep the first G keys",                                     \
     .field = offsetof(type, policy.sinks), .min = 0, .max = 1e12, .unit = "keys",                 \
     .default_note = "what the policy is published with"},                                            \
    ES_POLICY_PART_PARAMS(type, policy)
/* The same in two lists, for a study whose --window and --sinks are its own; it sets these members
 * before es_policies_make(). */
#define ES_POLICY_LIST_PARAMS(type, policy, standard_names, standard_keys)                         \
    {"policy", 0, ES_PARAM_TEXT, "LIST",                                                           \
     "policies of --evict ideal: " ES_POLICY_LIST "; separated by commas. NAME+inverse and "       \
     "NAME+none set --correction for one policy, NAME+with draws with replacement",                \
     .field = offsetof(type, policy.names), .default_value = standard_names},                           \
    {"keys", 0, ES_PARAM_COUNTS, "GRID", "total number of keys that each query keeps",             \
     .field = offsetof(type, policy.keys), .min = 1, .max = 1e12, .unit = "keys",                  \
     .increasing = true, .default_note = standard_keys}
#define ES_POLICY_PART_PARAMS(type, policy)                                                        \
    {"random", 0, ES_PARAM_WHOLE, "R", "number of keys that are kept at random",                   \
     .field = offsetof(type, policy.random), .min = 0, .max = 1e12, .unit = "keys",                \
     .default_note = "what --keys leaves"},                                                           \
    {"span", 0, ES_PARAM_WHOLE, "N",                                                               \
     "local: keys per block; strided: distance between kept keys; observe: queries whose "         \
     "attention is observed",                                                                      \
     .field = offsetof(type, policy.span), .min = 1, .max = 1e12,                                  \
     .default_note = "what the policy is published with"},                                            \
    {"correction", 0, ES_PARAM_CHOICE, "HOW",                                                      \
     "factor on the weights of randomly kept keys: none, or inverse, which is 1 / (probability "   \
     "that the key is kept)",                                                                      \
     .field = offsetof(type, policy.correction), .choices = es_policy_corrections,                 \
     .default_note = "as the policy is published"},                                                   \
    {"with-replacement", 0, ES_PARAM_FLAG, NULL, "a key may be drawn more than once",              \
     .field = offsetof(type, policy.with_replacement)}
/* clang-format on */

/* A policy of the list, with the parts that were given; its keys are still open. */
enum { ES_POLICY_SIZE = 96 };
/* A policy with the words that asked for it. */
typedef struct es_policy_asked {
    char word[ES_POLICY_SIZE]; /* as it was asked for: "bigbird+inverse" */
    es_policy_spec spec;
} es_policy_asked;

/*! es_policies_read() : the list, out (*count) in its order; memory is the job's. @return : ES_OK;
 *  ES_E_ARGUMENT: policy.name (the hint is a name that is near), policy.repeated, policy.part (a
 *  part that none of the policies has). */
es_status es_policies_read(es_job *job, const es_policy_params *asked, es_policy_asked **out,
                           int64_t *count, es_error *err);

/* What is asked: each policy at each number of keys. A part goes to the policies that have it. */
typedef struct es_policies {
    int64_t count;
    es_policy_spec *specs; /* (count) */
} es_policies;

/*! es_policies_make() : of what was given. `n` is a context's number of keys, an eighth of which
 *  are kept where nothing says how many; 0: not known, and then something must. A policy that keeps
 *  everything is there once. Memory is the job's. @return : ES_OK; as es_policies_read();
 *  ES_E_ARGUMENT (policy.keys); as es_policy_spec_check(). */
es_status es_policies_make(es_job *job, const es_policy_params *asked, bool causal, int64_t n,
                           es_policies *out, es_error *err);

/*! es_policy_draw_bytes() : memory of one outcome's draws with replacement, of which there may be
 *  more than keys; 0 for policies that do not draw with replacement. The rest of an outcome is in
 *  what a study counts for each key. */
double es_policy_draw_bytes(const es_policy_spec *spec);

/*! es_policy_say() : "bigbird+inverse, 64 keys", for findings. Returns out. */
const char *es_policy_say(const es_policy_spec *spec, char out[ES_POLICY_SIZE]);

/*! es_policy_same() : returns whether the same word asks for both. */
bool es_policy_same(const es_policy_spec *a, const es_policy_spec *b);

/*! es_policy_rolls() : returns whether a cache that only appends and evicts can hold what it keeps.
 *  It can for windows, first keys and blocks: a key that one query does not see is seen by no later
 *  one. Other policies choose again for every query, which saves no memory: an ideal. */
bool es_policy_rolls(const es_policy_spec *spec);

/*! es_policy_word() : "bigbird+inverse", as it would be asked for. Returns out. */
const char *es_policy_word(const es_policy_spec *spec, char out[ES_POLICY_SIZE]);

/* ---- which policy a typed row is about ---- */

/* The columns that name a policy. */
typedef struct es_policy_cells {
    const char *policy;
    int64_t keys;
    const char *correction;
} es_policy_cells;

/* Columns policy, keys and correction of the member `member` of a row. */
#define ES_POLICY_CELL_COLUMNS(row, member)                                                        \
    ES_COL_KEY(row, member.policy, "policy", ES_FORMAT_TEXT, "policy", "",                         \
               "which keys a query keeps, as asked for"),                                          \
        ES_COL_KEY(row, member.keys, "keys", ES_FORMAT_COUNT, "keys", "keys",                      \
                   "number of keys a query is to keep"),                                           \
        ES_COL_KEY(row, member.correction, "correction", ES_FORMAT_TEXT, "correction", "",         \
                   "factor on the weights of randomly kept keys: none, or inverse to the "         \
                   "probability; as published unless --correction is given")

/*! es_policy_cells_fill() : fills the cells. `keys` stays unset where the policy has no number of
 *  keys, `correction` where it has no random keys. `table` is that of the row. */
void es_policy_cells_fill(es_policy_cells *cells, const es_policy_spec *spec, es_table *table);

#endif
