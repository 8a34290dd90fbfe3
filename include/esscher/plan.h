/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h : what each key-value head of a model keeps, by which policy and in which number type, as
 * a file.
 *
 * A plan is JSON of a stated version (docs/FILES.md), so that other programs can read and write it.
 * It has one of four modes (docs/CACHE.md):
 *
 *     prompt, decode, none   what a cache does: for every layer and key-value head a policy that
 *                            drops keys for good, a number of keys, and number types of K and V.
 *                            "none" only rounds. Array `unit`, version 3 of the format
 *     ideal                  for every layer and query head a policy of sparse attention
 * (policy.h), which chooses keys anew for each query. Array `head`, version 2
 *
 * `esscher budget` makes plans, `encode` and `loss` run a model by them, `esscher plan export`
 * writes what other engines can do of one.
 * A plan that was read is complete: policies have all numbers, so that they keep the same keys
 * whatever the defaults of the program that runs it.
 *
 *     es_plan *plan;
 *     es_cache *cache;
 *     es_plan_load("pebble.plan.json", NULL, &plan, &err);
 *     es_plan_cache(plan, model, n, NULL, &cache, &err);     a cache of a block of n tokens
 * (cache.h) es_cache_free(cache); es_plan_free(plan);
 *
 * To make one: es_plan_new_cache(), set unit[]; or es_plan_new(), set head[].spec and head[].risk;
 * then es_plan_save().
 *
 * A plan belongs to models of one shape: type, layers, heads, widths, vocabulary. A plan with a
 * fingerprint belongs to one checkpoint. Functions here only read the plan, unless said otherwise,
 * and are thread-safe then.
 */
#ifndef ESSCHER_PLAN_H
#define ESSCHER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/cache.h>
#include <esscher/exec.h>
#include <esscher/model.h>
#include <esscher/policy.h>
#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ES_PLAN_SCHEMA       "esscher-plan/2" /* of ideal mode */
#define ES_PLAN_CACHE_SCHEMA "esscher-plan/3" /* of caches */
enum {
    ES_PLAN_CONTEXT = 1 << 22, /* longest context that a plan may be for */
    ES_PLAN_UNITS = 1 << 16,   /* most layers, and most heads of a layer */
    ES_PLAN_TEXT = 256,        /* bytes of `text`, its NUL included */
    ES_PLAN_NOTE = 512,        /* bytes of `note`, likewise */
    ES_PLAN_POLICY = 256,      /* bytes of a unit's policy, likewise */
    ES_PLAN_TYPE = 96          /* bytes of a number type, likewise */
};

/* When keys are dropped. */
typedef enum es_plan_mode {
    ES_PLAN_IDEAL = 0,  /* never: each query chooses from all keys, which saves no memory */
    ES_PLAN_PROMPT = 1, /* once, when the prompt has been read */
    ES_PLAN_DECODE = 2, /* one key after each token */
    ES_PLAN_NONE = 3    /* never: the cache only rounds */
} es_plan_mode;

/* A key-value head of a layer in a cache. */
typedef struct es_plan_unit {
    char policy[ES_PLAN_POLICY]; /* "snapkv:sinks=4:window=32:kernel=5:pooling=avg", every option
                                    set; "full": every key */
    int64_t keys;                /* that it keeps: of the prompt, or at any time in decode mode;
                                    "full": all that a query sees */
    char k_type[ES_PLAN_TYPE];   /* "q8_0", "q4_0+hadamard"; "f32": as the model computes */
    char v_type[ES_PLAN_TYPE];
    double risk; /* predicted E|Wo (y_S - y)|^2 of the unit's outputs, as the study that made the
                    plan defines it; NaN: unknown */
} es_plan_unit;

typedef struct es_plan_head {
    es_policy_spec spec; /* policy NULL: all keys; otherwise spec.keys is their number, and parts
                            that are set are numbers of keys at the plan's context */
    double risk;         /* predicted E|Wo (y_S - y)|^2 of the head's output, as the study that made
                            the plan defines it; NaN: unknown */
} es_plan_head;

typedef struct es_plan {
    char model_type[64];
    int64_t layers, heads, kv_heads, head_dim; /* of the model, as in es_model_config */
    int64_t hidden, vocab;
    int64_t window;  /* the widest window of a layer: keys that a causal query sees, or keys to
                        each side; 0: some layer has none */
    int64_t context; /* tokens that the plan was made for */
    int64_t prompt;  /* tokens of the prompt; 0 in other modes than prompt */
    es_plan_mode mode;
    bool causal;
    uint64_t fingerprint;       /* of the checkpoint's weights; 0: not stated, any checkpoint */
    double keys_kept, keys_all; /* sums over layers and key-value heads, of the prompt in prompt
                                   mode and of `context` tokens in other modes */
    double bytes_before, bytes_after; /* of these keys and their values: all of them in `cache`, and
                                         those that are kept in their types; 0 in ideal mode */
    char cache[ES_PLAN_TYPE];         /* number type of the cache that the plan replaces: "f16" */
    char text[ES_PLAN_TEXT];          /* what it was calibrated on, for people; UTF-8 */
    char note[ES_PLAN_NOTE];          /* what to know before running it, for people; UTF-8 */
    int64_t *windows;                 /* (layers) window of each layer, 0: none */
    es_plan_head *head;               /* (layers, heads) of ideal mode; else NULL */
    es_plan_unit *unit;               /* (layers, kv_heads) of the other modes; else NULL */
    es_mem_limit *budget;
} es_plan;

/*! es_plan_new() : an ideal plan for models like this one in which every head keeps everything and
 *  no risk is known. O(layers heads) memory. Release with es_plan_free().
 *  @return : ES_OK; ES_E_ARGUMENT (plan.null); ES_E_RANGE (plan.context) unless 1 <= context <=
 *  positions and ES_PLAN_CONTEXT; ES_E_RANGE (plan.model) for a model beyond ES_PLAN_UNITS;
 *  ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_plan_new(const es_model_config *config, int64_t context, es_mem_limit *budget,
                             es_plan **out, es_error *err);

/*! es_plan_new_cache() : a plan of another mode, in which every key-value head keeps everything as
 *  f16. `prompt` is 1 to context - 1 in prompt mode, else 0. Release with es_plan_free().
 *  @return : as es_plan_new(); ES_E_FORMAT (plan.prompt); ES_E_ARGUMENT (plan.mode) for ideal mode;
 *  ES_E_UNSUPPORTED (plan.causal) for an encoder, which has no cache. */
ES_API es_status es_plan_new_cache(const es_model_config *config, es_plan_mode mode, int64_t prompt,
                                   int64_t context, es_mem_limit *budget, es_plan **out,
                                   es_error *err);
ES_API void es_plan_free(es_plan *plan); /* NULL is fine */

/*! es_plan_load() : read a plan file. Checks every number and name in it. Unknown keys are errors,
 *  because this version could not follow them. Files of version 1 may leave parts of a policy out;
 *  they get what that version meant by it (es_policy_spec_fit()). O(file + keys that are kept)
 *  time.
 *  @return : ES_OK; ES_E_IO; ES_E_LIMIT (file.size) beyond 16 MB, or over budget; ES_E_FORMAT with
 *  err->offset where there is one: plan.json, plan.utf8, plan.depth (no JSON), plan.schema (of
 *  another kind or version), plan.unknown (an unknown key), plan.duplicate, plan.missing (a key, or
 *  in version 2 a part of a head's policy), plan.range (not a number, or one out of range),
 *  plan.layers, plan.heads (not as many as it says, or not in order), plan.group (heads of a group
 *  that keep different keys), plan.policy (no policy of that name), plan.keys (missing, or more
 *  than the context has), plan.parts (window, sinks and so on hold another number of keys than
 *  `keys` says), plan.total (keys_kept, keys_all, bytes_before or bytes_after is not the sum),
 *  plan.mode (no such mode, or a key of another mode), plan.prompt, plan.types (no such number
 *  type, or kivi with eviction), plan.fingerprint (not 16 hexadecimal digits); policy.part,
 *  policy.keys of es_policy_spec_check(); ES_E_UNSUPPORTED: policy.causal, plan.policy (one that
 *  keeps no set of keys). Messages name layer and head. */
ES_API es_status es_plan_load(const char *path, es_mem_limit *budget, es_plan **out, es_error *err);

/*! es_plan_save() : write it, under a temporary name until it is on disk; totals are counted anew,
 *  risks have 15 digits, and parts that are unset are written as es_policy_spec_fit() sets them,
 *  options of a unit's policy as its mode sets them.
 *  @return : ES_OK; ES_E_EXISTS unless `force`; ES_E_IO; rules of
 *  es_plan_load() that the plan breaks, and then nothing is written. */
ES_API es_status es_plan_save(const es_plan *plan, const char *path, bool force, es_error *err);

/*! es_plan_check() : fails unless the plan is for a model of this shape. @return : ES_OK;
 *  ES_E_SHAPE: plan.model (of another type, width or vocabulary), plan.layers, plan.heads,
 *  plan.context (for blocks that are longer than the model takes); ES_E_UNSUPPORTED (policy.causal)
 *  for policies that see the future in a causal model. Both sides are named. */
ES_API es_status es_plan_check(const es_plan *plan, const es_model_config *config, es_error *err);

/*! es_plan_cache() : the cache of a block of n tokens that the plan describes, for this model. A
 *  number of tokens that the plan was not made for is a warning (es_log_set()). Release with
 *  es_cache_free(). O(layers kv_heads n) memory.
 *  @return : ES_OK; as es_plan_check(); ES_E_SHAPE: plan.fingerprint (another checkpoint),
 *  plan.mode (an ideal plan), plan.context (n tokens, of which no key would be dropped);
 *  ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_plan_cache(const es_plan *plan, const es_model *model, int64_t n,
                               const es_exec *exec, es_cache **out, es_error *err);

/*! es_plan_memory() : as es_cache_memory(), of the cache that the plan describes.
 *  @return : ES_OK; as es_plan_check(); ES_E_SHAPE (plan.mode: an ideal plan); ES_E_MEMORY. */
ES_API es_status es_plan_memory(const es_plan *plan, const es_model_config *config, int64_t n,
                                es_dtype precision, int threads, double *bytes, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
