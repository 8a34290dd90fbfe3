/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h : how many keys each head of a model keeps, and by which policy, as a file.
 *
 * A *plan* is a table: for every layer and head a policy (policy.h), a number of keys, a factor on
 * keys that are kept by chance. `esscher budget` makes one, `loss`, `downstream` and `sparse` run a
 * model by it, and other programs may read it: it is JSON of a stated version (docs/FILES.md).
 * A plan that was read is complete: every head's spec has all numbers of its policy, so that it
 * keeps the same keys whatever the defaults of the program that runs it.
 *
 *     es_plan *plan;
 *     es_plan_load("pebble.plan.json", NULL, &plan, &err);
 *     es_plan_check(plan, es_model_config_of(model), &err);        is it a plan of this model?
 *     es_plan_specs(plan, n, specs);                               (layers, heads)
 *     es_model_sparse sparse = {.heads = specs, .at = at};         what a block of n tokens is
 * given es_plan_free(plan);
 *
 * Heads that share keys and values have one spec, and keep one set (model.h).
 *
 * To make one: es_plan_new(), set head[].spec and head[].risk, es_plan_count(), es_plan_save().
 *
 * A plan belongs to models of one shape: type, layers, heads, widths, vocabulary. Weights are not
 * compared, so a plan can be tried on a fine-tuned copy; whether it holds there is for verification
 * to say. Functions here only read the plan, unless said otherwise, and are thread-safe then.
 */
#ifndef ESSCHER_PLAN_H
#define ESSCHER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/model.h>
#include <esscher/policy.h>
#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ES_PLAN_SCHEMA "esscher-plan/2"
enum {
    ES_PLAN_CONTEXT = 1 << 22, /* longest context that a plan may be for */
    ES_PLAN_UNITS = 1 << 16,   /* most layers, and most heads of a layer */
    ES_PLAN_TEXT = 256,        /* bytes of `text`, its NUL included */
    ES_PLAN_NOTE = 512         /* bytes of `note`, likewise */
};

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
    bool causal;
    double keys_kept, keys_all; /* sums over layers and key-value heads at `context`:
                                   es_plan_count() */
    char text[ES_PLAN_TEXT];    /* what it was calibrated on, for people; UTF-8 */
    char note[ES_PLAN_NOTE];    /* what to know before running it, for people; UTF-8 */
    int64_t *windows;           /* (layers) window of each layer, 0: none */
    es_plan_head *head;         /* (layers, heads) */
    es_mem_limit *budget;
} es_plan;

/*! es_plan_new() : a plan for models like this one in which every head keeps everything and no risk
 *  is known. O(layers heads) memory. Release with es_plan_free().
 *  @return : ES_OK; ES_E_ARGUMENT (plan.null); ES_E_RANGE (plan.context) unless 1 <= context <=
 *  positions and ES_PLAN_CONTEXT; ES_E_RANGE (plan.model) for a model beyond ES_PLAN_UNITS;
 *  ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_plan_new(const es_model_config *config, int64_t context, es_mem_limit *budget,
                             es_plan **out, es_error *err);
ES_API void es_plan_free(es_plan *plan); /* NULL is fine */

/*! es_plan_load() : read a plan file. Every number and name in it is checked, and nothing is
 *  ignored: what this version does not know it cannot run by. Files of version 1 may leave parts of
 *  a policy out; they get what that version meant by it (es_policy_spec_fit()).
 *  O(file + keys that are kept) time.
 *  @return : ES_OK; ES_E_IO; ES_E_LIMIT (file.size) beyond 16 MB, or over budget; ES_E_FORMAT with
 *  err->offset where there is one: plan.json, plan.utf8, plan.depth (no JSON), plan.schema (of
 *  another kind or version), plan.unknown (a key that there is not), plan.duplicate, plan.missing
 *  (a key, or in version 2 a part of a head's policy), plan.range (a number that is none, or not of
 * the size it should be), plan.layers, plan.heads (not as many as it says, or not in order),
 * plan.group (heads of a group that keep different keys), plan.policy (no policy of that name),
 * plan.keys (none, or more than the context has), plan.parts (window, sinks and so on hold another
 * number of keys than `keys` says), plan.total (keys_kept or keys_all is not the sum); policy.part,
 * policy.keys of es_policy_spec_check(); ES_E_UNSUPPORTED: policy.causal, plan.policy (one that
 * keeps no set of keys). Messages name layer and head. */
ES_API es_status es_plan_load(const char *path, es_mem_limit *budget, es_plan **out, es_error *err);

/*! es_plan_save() : write it, under a temporary name until it is on disk; totals are counted anew,
 *  risks have 15 digits, and parts that are unset are written as es_policy_spec_fit() sets them.
 *  @return : ES_OK; ES_E_EXISTS unless `force`; ES_E_IO; rules of
 *  es_plan_load() that the plan breaks, and then nothing is written. */
ES_API es_status es_plan_save(const es_plan *plan, const char *path, bool force, es_error *err);

/*! es_plan_check() : is it a plan for this model? @return : ES_OK; ES_E_SHAPE: plan.model (of
 *  another type, width or vocabulary), plan.layers, plan.heads, plan.context (for blocks that are
 *  longer than the model takes); ES_E_UNSUPPORTED (policy.causal) for policies that see the future
 *  in a causal model. Both sides are named. */
ES_API es_status es_plan_check(const es_plan *plan, const es_model_config *config, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
