/* SPDX-License-Identifier: Apache-2.0 */
/* cache_params.h : what a key-value cache drops and rounds (cache/cache.h) as parameters; the same
 * in every study that runs a decoder with a cache.
 *
 *     typedef struct my_params { es_policy_params policy; es_cache_params cache; ... } my_params;
 *     static const es_param params[] = {ES_POLICY_PARAMS(my_params, policy, NULL),
 *                                       ES_CACHE_PARAMS(my_params, cache), ..., {0}};
 *
 *     open():   ES_TRY(es_cache_params_check(job, &p->cache, &p->policy, err));
 *               if (es_cache_asked(&p->cache))
 *                   ES_TRY(es_cache_settings_make(job, &p->cache, &p->policy, n, &settings, err));
 *     a cell:   es_cache_setting_units(&settings.at[i], config, units);
 *
 * Three modes. Prompt and decode mode drop keys for good (cache/evict.h). Ideal mode is sparse
 * attention, --policy without --evict: keys are chosen anew for every query, no memory is saved. */
#ifndef ES_EXPERIMENTS_KIT_CACHE_PARAMS_H
#define ES_EXPERIMENTS_KIT_CACHE_PARAMS_H

#include <esscher/model.h>
#include <esscher/plan.h>

#include "base/memory.h"
#include "cache/cache.h"
#include "driver/job.h"
#include "experiments/kit/policy_params.h"

/* Words of --evict, in this order. */
enum { ES_CACHE_PROMPT = 0, ES_CACHE_DECODE = 1, ES_CACHE_IDEAL = 2 };
extern const char *const es_cache_modes[]; /* "prompt", "decode", "ideal" */

/* The options that describe caches. Policies and numbers of keys are es_policy_params. */
typedef struct es_cache_params {
    int evict;         /* index into es_cache_modes; -1: not given */
    es_grid prompt;    /* one number, or none: half of a block. A grid, because run files that are
                          older than the option have no text for a whole number that is not given */
    es_grid ratio;     /* instead of --keys */
    es_texts kv_types; /* each "K" or "K,V" */
} es_cache_params;

/* clang-format off */
#define ES_CACHE_PARAMS(type, cache)                                                               \
    {"evict", 0, ES_PARAM_CHOICE, "MODE",                                                          \
     "when a policy drops keys; prompt: at its end (" ES_EVICTION_LIST "); decode: after each "    \
     "token (" ES_EVICTION_DECODE_LIST "); ideal: never. Dropped keys never return. With ideal "   \
     "each query chooses from all keys, which saves no memory. Options of a policy follow its "    \
     "name: --policy snapkv:window=16:sinks=4,h2o",                                                \
     .field = offsetof(type, cache.evict), .choices = es_cache_modes,                              \
     .default_note = "ideal"},                                                                     \
    {"prompt", 0, ES_PARAM_COUNTS, "P",                                                            \
     "tokens of the prompt; only what is predicted after them is compared",                        \
     .field = offsetof(type, cache.prompt), .min = 1, .max = 1e12, .unit = "tokens",               \
     .default_note = "half of a block"},                                                           \
    {"ratio", 0, ES_PARAM_REALS, "GRID",                                                           \
     "with --evict, instead of --keys: the share of keys to keep; of the prompt in prompt mode, "  \
     "of a block in decode mode",                                                                  \
     .field = offsetof(type, cache.ratio), .min = 1e-9, .max = 1.0, .increasing = true},           \
    {"kv-type", 0, ES_PARAM_TEXTS, "K[,V]",                                                        \
     "number types of cached keys and values: q8_0, or q4_0,q8_0; f32" ES_KV_LIST ", one for "     \
     "both or K,V; q4_0+hadamard rotates rows first. Several settings: --kv-type q8_0 q4_0,q8_0",  \
     .field = offsetof(type, cache.kv_types), .several = true}
/* clang-format on */

/* What a cache does to every key-value head of a model. */
typedef struct es_cache_setting {
    es_evict_mode mode;         /* ES_EVICT_NOTHING: it only rounds */
    int64_t prompt;             /* tokens */
    es_cache_unit unit;         /* every key-value head; evict.policy NULL: every key is kept */
    const es_cache_unit *units; /* (layers, kv_heads) of a plan, instead of `unit`; NULL: none */
    double keys;                /* of a plan: mean over key-value heads */
} es_cache_setting;

/* The settings that the options ask for: types, then policies, then numbers of keys. */
typedef struct es_cache_settings {
    es_cache_setting *at; /* (count) */
    int64_t count;
    int64_t prompt; /* tokens */
} es_cache_settings;

/*! es_cache_asked() : returns whether the options ask for a cache that evicts or rounds. */
bool es_cache_asked(const es_cache_params *asked);

/*! es_cache_prompt() : returns the number of --prompt; 0: it is not given. */
static inline int64_t es_cache_prompt(const es_cache_params *asked)
{
    return asked->prompt.count ? asked->prompt.counts[0] : 0;
}

/*! es_cache_policies() : returns the options of policies without a default list where a cache is
 *  asked for: such lists are for sparse attention. */
es_policy_params es_cache_policies(const es_job *job, const es_cache_params *asked,
                                   const es_policy_params *policy);

/*! es_cache_params_check() : fails for options that exclude each other, before anything is read.
 *  @return : ES_OK; ES_E_ARGUMENT (cache.options), naming the option and what to do. */
es_status es_cache_params_check(const es_job *job, const es_cache_params *asked,
                                const es_policy_params *policy, es_error *err);

/*! es_cache_settings_make() : every setting for blocks of n tokens; memory is the job's.
 *  @return : ES_OK; ES_E_ARGUMENT: cache.prompt (no token after the prompt), cache.keys,
 *  cache.repeated, cache.together; as es_evict_parse(), es_evict_check(), es_kv_format_parse(). */
es_status es_cache_settings_make(es_job *job, const es_cache_params *asked,
                                 const es_policy_params *policy, int64_t n, es_cache_settings *out,
                                 es_error *err);

/*! es_cache_plan_setting() : the setting of a plan of a cache for blocks of n tokens, of a model of
 *  this configuration; memory is the job's. Predictions are compared after the plan's prompt, or
 *  after that of --prompt where the plan has none. @return : ES_OK; ES_E_ARGUMENT: plan.options,
 *  cache.prompt; as es_plan_units(). */
es_status es_cache_plan_setting(es_job *job, const es_cache_params *asked, const es_plan *plan,
                                int64_t n, es_cache_settings *out, es_error *err);

/*! es_cache_setting_units() : out (layers, kv_heads), what the cache does to every unit. */
void es_cache_setting_units(const es_cache_setting *setting, const es_model_config *config,
                            es_cache_unit *out);

/*! es_cache_bytes() : memory of a block of n tokens with a cache, beyond what es_model_cost_of()
 *  reports, on `threads` threads. */
double es_cache_bytes(const es_cache_setting *setting, const es_model_config *config,
                      es_dtype precision, int64_t n, int threads);

/*! es_cache_say() : "snapkv:window=16, 128 keys, q4_0,q8_0", for names of settings; "full" if it
 *  changes nothing. es_cache_policy() : "snapkv:window=16". es_cache_types() : "q4_0", or
 *  "q4_0,q8_0". Return out. */
enum { ES_CACHE_SIZE = 256 };
const char *es_cache_say(const es_cache_setting *setting, char out[ES_CACHE_SIZE]);
const char *es_cache_policy(const es_cache_setting *setting, char out[ES_CACHE_SIZE]);
const char *es_cache_types(const es_cache_setting *setting, char out[ES_CACHE_SIZE]);

/*! es_cache_caution() : adds a finding if the setting has a number type that rounds nothing in
 *  blocks of up to n tokens, because the newest places stay fine (kivi). Returns whether it did. */
bool es_cache_caution(const es_cache_setting *setting, int64_t n, es_answer *answer);

/*! es_cache_mode_name() : "prompt", "decode", or "none" of a cache that only rounds. */
const char *es_cache_mode_name(es_evict_mode mode);

/*! es_cache_check_model() : fails where options ask for the cache of an encoder, which has none.
 *  @return : ES_OK; ES_E_ARGUMENT (cache.causal). */
es_status es_cache_check_model(const es_job *job, const es_cache_params *asked,
                               const es_model_config *config, es_error *err);

/*! es_cache_build() : a cache for one block of n tokens, in memory of the arena: units of layer
 *  `layer` (-1: of all) as the setting says, the others drop and round nothing. A prompt that
 *  leaves no token of the block drops nothing, either. A policy that looks ahead takes one pass of
 *  the full model over ids. @return : ES_OK; as es_model_forward(). */
es_status es_cache_build(const es_cache_setting *setting, const es_model *model, int64_t layer,
                         const int32_t *ids, int64_t n, const es_exec *exec, es_arena *arena,
                         es_cache *out, es_error *err);

/* ---- what a typed row is about ---- */

/* Columns that describe a cache; policy and number of keys are columns of their own. */
typedef struct es_cache_cells {
    const char *evict;
    int64_t prompt;
    const char *k_type, *v_type;
} es_cache_cells;

/* Columns evict, prompt, k_type and v_type of the member `member` of a row. */
#define ES_CACHE_CELL_COLUMNS(row, member)                                                         \
    ES_COL_KEY(                                                                                    \
        row, member.evict, "evict", ES_FORMAT_TEXT, "evict", "",                                   \
        "when the cache drops keys for good: prompt, decode, or none; ideal: never, queries "      \
        "choose from all keys, which is a bound"),                                                 \
        ES_COL_KEY(row, member.prompt, "prompt", ES_FORMAT_COUNT, "prompt", "tokens",              \
                   "tokens of the prompt"),                                                        \
        ES_COL_KEY(row, member.k_type, "k_type", ES_FORMAT_TEXT, "K type", "",                     \
                   "number type of cached keys"),                                                  \
        ES_COL_KEY(row, member.v_type, "v_type", ES_FORMAT_TEXT, "V type", "",                     \
                   "number type of cached values")

/*! es_cache_cells_fill() : fills mode and types of a cache; setting NULL: of sparse attention,
 * which is ideal. `prompt` stays unset. `table` is that of the row. */
void es_cache_cells_fill(es_cache_cells *cells, const es_cache_setting *setting, es_table *table);

#endif
