/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h : a decoder whose key-value cache drops keys for good, and rounds those it keeps.
 *
 *     es_cache *cache;
 *     es_cache_opts opts = {.evict = "prompt", .prompt = 512, .policy = "snapkv:sinks=4",
 *                           .keys = 128, .k_type = "q8_0"};
 *     es_cache_new(es_model_config_of(model), &opts, n, NULL, &cache, &err);
 *     es_cache_look_ahead(cache, model, ids, NULL, &err);          only policy oracle needs it
 *     es_model_block block = {.ids = ids, .n = n, .token_logits = logits, .cache = cache};
 *     es_model_forward(model, &block, 1, NULL, &err);
 *     const int32_t *last = es_cache_last(cache);
 *     es_cache_free(cache);
 *
 * A cache is used by one block at a time.
 */
#ifndef ESSCHER_CACHE_H
#define ESSCHER_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct es_cache_opts {
    const char *evict;  /* "prompt": every key-value head keeps `keys` of the first `prompt` keys,
                           chosen once; "decode": it holds at most `keys` keys between two tokens;
                           NULL: no key is dropped */
    int64_t prompt;     /* tokens, of "prompt" */
    const char *policy; /* which keys go: NAME:option=value:option=value (docs/CACHE.md) */
    int64_t keys;
    const char *k_type; /* what keys and values are rounded to: "q8_0", "q4_0+hadamard", ...;
                           NULL: as the model computes */
    const char *v_type;
} es_cache_opts;

/*! es_cache_new() : a cache of a block of n tokens, the same for all layers and key-value heads,
 *  unless option beta of the policy gives layers numbers of their own. O(layers kv_heads n) memory.
 *  Release with es_cache_free().
 *  @return : ES_OK; ES_E_ARGUMENT: evict.mode (no such mode, or a policy without it), evict.policy,
 *  evict.option, kv_type.name and others of kv_type; ES_E_RANGE: evict.keys, cache.prompt (not 1 to
 *  n); ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_cache_new(const es_model_config *config, const es_cache_opts *opts, int64_t n,
                              es_mem_limit *budget, es_cache **out, es_error *err);
ES_API void es_cache_free(es_cache *cache); /* NULL is fine */

/*! es_cache_memory() : *bytes gets a bound on the memory of a cache and of a pass of a block of n
 *  tokens with it, beyond what es_model_cost_of() counts, on `threads` threads.
 *  @return : ES_OK; as es_cache_new(). */
ES_API es_status es_cache_memory(const es_model_config *config, const es_cache_opts *opts,
                                 int64_t n, es_dtype precision, int threads, double *bytes,
                                 es_error *err);

/*! es_cache_look_ahead() : for a policy that uses later queries of the full model, runs the model
 *  once on the block; for every other policy, does nothing. @return : as es_model_forward(). */
ES_API es_status es_cache_look_ahead(es_cache *cache, const es_model *model, const int32_t *ids,
                                     const es_exec *exec, es_error *err);

/*! es_cache_last() : (layers, kv_heads, n) of the last run: the last query that found each key. A
 *  key that stayed has n - 1; one that was dropped when the prompt ended, prompt - 1. */
ES_API const int32_t *es_cache_last(const es_cache *cache);

/*! es_cache_save() : what the last run kept, as JSON: "kept"[layer][kv head], the keys of the
 *  prompt that stayed; of decode mode "evicted"[layer][kv head][t], the key that was dropped after
 *  token t, -1: none. @return : ES_OK; ES_E_EXISTS unless `force`; ES_E_IO; ES_E_MEMORY. */
ES_API es_status es_cache_save(const es_cache *cache, const char *path, bool force, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
