/* SPDX-License-Identifier: Apache-2.0 */
/* block_cache.c : a cache from texts, for one block (cache.h). */
#include <esscher/cache.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cache/cache.h"
#include "model/forward_cache.h"
#include "model/plan.h"
#include "store/file.h"

/* A cache with the memory that it owns. */
typedef struct owned {
    es_cache cache; /* first: es_cache_free() gets its address */
    es_arena arena;
    es_cache_unit *units;
    double *late; /* (units, prompt), of a policy that looks ahead; else NULL */
    int64_t layers, kv_heads, n;
    bool planned; /* units are those of a plan */
} owned;

/* Allocates the units of a block of n tokens, and where their keys are noted. */
static es_status make_units(const es_model_config *c, int64_t n, owned *out, es_error *err)
{
    const int64_t units = c->layers * c->kv_heads;
    ES_TRY(ES_ARENA_NEW(&out->arena, out->units, units, "units of a cache", err));
    ES_TRY(ES_ARENA_NEW_2D(&out->arena, out->cache.last, units, n, "keys of a cache", err));
    ES_TRY(ES_ARENA_NEW(&out->arena, out->cache.gone, units, "keys of a cache", err));
    out->cache.units = out->units;
    out->layers = c->layers;
    out->kv_heads = c->kv_heads;
    out->n = n;
    return ES_OK;
}

/* Reads mode and policy. */
static es_status read_policy(const es_cache_opts *o, int64_t n, es_cache *cache,
                             es_evict_spec *spec, es_error *err)
{
    es_evict_init(spec, NULL);
    if (!o->evict)
        return o->policy ? es_fail(err, ES_E_ARGUMENT, "evict.mode", "add --evict prompt or decode",
                                   "policy %.40s without a mode", o->policy)
                         : ES_OK;
    cache->mode = strcmp(o->evict, "prompt") == 0 ? ES_EVICT_PROMPT : ES_EVICT_DECODE;
    if (cache->mode == ES_EVICT_DECODE && strcmp(o->evict, "decode") != 0)
        return es_fail(err, ES_E_ARGUMENT, "evict.mode", "prompt or decode",
                       "unknown mode \"%.40s\" of eviction", o->evict);
    if (!o->policy)
        return es_fail(err, ES_E_ARGUMENT, "evict.policy", "add --policy, for instance snapkv",
                       "eviction without a policy");
    cache->prompt = cache->mode == ES_EVICT_PROMPT ? o->prompt : 0;
    if (cache->mode == ES_EVICT_PROMPT && (o->prompt < 1 || o->prompt > n))
        return es_fail(err, ES_E_RANGE, "cache.prompt",
                       "a prompt has 1 to as many tokens as the "
                       "block",
                       "a prompt of %lld tokens in a block of %lld", (long long)o->prompt,
                       (long long)n);
    ES_TRY(es_evict_parse(o->policy, spec, err));
    spec->keys = o->keys;
    return es_evict_check(spec, cache->mode, err);
}

/* Reads mode, policy and types. */
static es_status read_opts(const es_cache_opts *o, int64_t n, es_cache *cache, es_cache_unit *like,
                           es_error *err)
{
    ES_TRY(read_policy(o, n, cache, &like->evict, err));
    if (o->k_type)
        ES_TRY(es_kv_format_parse(o->k_type, &like->k, err));
    return o->v_type ? es_kv_format_parse(o->v_type, &like->v, err) : ES_OK;
}

/* Reads everything, and allocates what a block of n tokens needs. */
static es_status fill(const es_model_config *c, const es_cache_opts *o, int64_t n, owned *out,
                      es_error *err)
{
    es_cache *cache = &out->cache;
    es_cache_unit like = {0};
    ES_TRY(read_opts(o, n, cache, &like, err));
    ES_TRY(make_units(c, n, out, err));
    if (es_eviction_full(like.evict.policy))
        ES_TRY(ES_ARENA_NEW_2D(&out->arena, out->late, c->layers * c->kv_heads, cache->prompt,
                               "later weights", err));
    es_cache_fill(&like, cache->prompt, c->layers, c->kv_heads, out->units);
    return ES_OK;
}

es_status es_cache_new(const es_model_config *config, const es_cache_opts *opts, int64_t n,
                       es_mem_limit *budget, es_cache **out, es_error *err)
{
    owned *cache;
    *out = NULL;
    ES_TRY(ES_MEM_NEW(budget, cache, 1, "a cache", err));
    cache->arena.budget = budget;
    const es_status status = fill(config, opts, n, cache, err);
    if (status == ES_OK)
        *out = &cache->cache;
    else
        es_cache_free(&cache->cache);
    return status;
}

es_status es_cache_memory(const es_model_config *config, const es_cache_opts *opts, int64_t n,
                          es_dtype precision, int threads, double *bytes, es_error *err)
{
    es_cache cache = {0};
    es_cache_unit like = {0};
    ES_TRY(read_opts(opts, n, &cache, &like, err));
    *bytes = es_model_cache_bytes(&like, cache.mode, cache.prompt, config, precision, n, threads);
    return ES_OK;
}

/* Fails unless the plan is one of a cache, and of a model of this shape. */
static es_status check_shape(const es_plan *plan, const es_model_config *config, es_error *err)
{
    ES_TRY(es_plan_check(plan, config, err));
    return plan->mode != ES_PLAN_IDEAL
               ? ES_OK
               : es_fail(err, ES_E_SHAPE, "plan.mode", "use a plan of mode prompt, decode or none",
                         "the plan has mode ideal: each query chooses from all keys, which is not "
                         "what a cache does");
}

/* Fails unless the plan is one of a cache, of this model and for blocks of n tokens. */
static es_status check_plan(const es_plan *plan, const es_model *model, int64_t n,
                            const es_exec *exec, es_error *err)
{
    ES_TRY(check_shape(plan, es_model_config_of(model), err));
    ES_TRY(es_plan_check_weights(plan, model, exec, err));
    return es_plan_check_context(plan, n, err);
}

es_status es_plan_cache(const es_plan *plan, const es_model *model, int64_t n, const es_exec *exec,
                        es_cache **out, es_error *err)
{
    es_mem_limit *budget = exec ? exec->budget : NULL;
    owned *cache;
    *out = NULL;
    ES_TRY(check_plan(plan, model, n, exec, err));
    ES_TRY(ES_MEM_NEW(budget, cache, 1, "a cache", err));
    cache->arena.budget = budget;
    cache->planned = true;
    cache->cache.mode = es_plan_evicts(plan->mode);
    cache->cache.prompt = plan->prompt;
    es_status status = make_units(es_model_config_of(model), n, cache, err);
    if (status == ES_OK)
        status = es_plan_units(plan, cache->units, err);
    if (status == ES_OK)
        *out = &cache->cache;
    else
        es_cache_free(&cache->cache);
    return status;
}

es_status es_plan_memory(const es_plan *plan, const es_model_config *c, int64_t n,
                         es_dtype precision, int threads, double *bytes, es_error *err)
{
    const int64_t count = c->layers * c->kv_heads;
    es_cache_unit *units;
    *bytes = 0.0;
    ES_TRY(check_shape(plan, c, err));
    ES_TRY(ES_MEM_NEW(NULL, units, count, "units of a cache", err));
    const es_status status = es_plan_units(plan, units, err);
    for (int64_t u = 0; u < count && status == ES_OK; u++)
        *bytes = fmax(*bytes, es_model_cache_bytes(&units[u], es_plan_evicts(plan->mode),
                                                   plan->prompt, c, precision, n, threads));
    es_mem_free(NULL, units);
    return status;
}

void es_cache_free(es_cache *cache)
{
    owned *o = (owned *)(void *)cache;
    if (!o)
        return;
    es_mem_limit *budget = o->arena.budget;
    es_arena_free(&o->arena);
    es_mem_free(budget, o);
}

es_status es_cache_look_ahead(es_cache *cache, const es_model *model, const int32_t *ids,
                              const es_exec *exec, es_error *err)
{
    const owned *o = (const owned *)(const void *)cache;
    const es_model_config *c = es_model_config_of(model);
    es_cache_unit *units;
    if (!o->late)
        return ES_OK;
    ES_TRY(ES_MEM_NEW_2D(o->arena.budget, units, c->layers, c->kv_heads, "units of a cache", err));
    const es_cache full = {.prompt = cache->prompt, .units = units, .late = o->late};
    const es_model_block block = {.ids = ids, .n = o->n, .cache = &full};
    const es_status status = es_model_forward(model, &block, 1, exec, err);
    es_mem_free(o->arena.budget, units);
    cache->oracle = o->late;
    return status;
}

const int32_t *es_cache_last(const es_cache *cache) { return cache->last; }

/* ---- as a file ---- */

/* Writes the keys of the prompt of unit u that stayed. */
static void write_kept(const owned *o, int64_t u, FILE *out)
{
    const int32_t *last = o->cache.last + u * o->n;
    const int64_t prompt = o->cache.mode == ES_EVICT_PROMPT ? o->cache.prompt : o->n;
    bool first = true;
    for (int64_t j = 0; j < prompt; j++) {
        if (last[j] != o->n - 1)
            continue;
        fprintf(out, "%s%lld", first ? "" : ",", (long long)j);
        first = false;
    }
}

/* Writes the key of unit u that went after each token. The last query finds keys that stay and the
 * one that goes after it. */
static void write_evicted(const owned *o, int64_t u, FILE *out)
{
    const int32_t *last = o->cache.last + u * o->n;
    for (int64_t t = 0; t < o->n - 1; t++) {
        int64_t gone = -1;
        for (int64_t j = 0; j <= t; j++)
            gone = last[j] == t ? j : gone;
        fprintf(out, "%lld,", (long long)gone);
    }
    fprintf(out, "%lld", (long long)o->cache.gone[u]);
}

/* Writes a list for each layer and key-value head. */
static void write_units(const owned *o, FILE *out)
{
    const bool decodes = o->cache.mode == ES_EVICT_DECODE;
    char policy[256] = "plan";
    if (!o->planned)
        es_evict_write(&o->units[0].evict, policy, sizeof policy);
    fprintf(out, "{\"evict\":\"%s\",\"prompt\":%lld,\"policy\":\"%s\",\"%s\":[",
            decodes                            ? "decode"
            : o->cache.mode == ES_EVICT_PROMPT ? "prompt"
                                               : "none",
            (long long)o->cache.prompt, policy, decodes ? "evicted" : "kept");
    for (int64_t u = 0; u < o->layers * o->kv_heads; u++) {
        const bool begins = u % o->kv_heads == 0, ends = (u + 1) % o->kv_heads == 0;
        fprintf(out, "%s%s[", u ? "," : "", begins ? "[" : "");
        (decodes ? write_evicted : write_kept)(o, u, out);
        fprintf(out, "]%s", ends ? "]" : "");
    }
    fprintf(out, "]}\n");
}

es_status es_cache_save(const es_cache *cache, const char *path, bool force, es_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return es_fail(err, ES_E_MEMORY, "memory", "free some memory", "no memory for %s", path);
    write_units((const owned *)(const void *)cache, out);
    if (fclose(out) != 0) {
        free(text);
        return es_fail(err, ES_E_MEMORY, "memory", "free some memory", "no memory for %s", path);
    }
    const es_status status = es_file_store(path, force, text, size, err);
    free(text);
    return status;
}
