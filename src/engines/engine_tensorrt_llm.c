/* SPDX-License-Identifier: Apache-2.0 */
/* engine_tensorrt_llm.c : a window for each layer, and sinks for all, for policy stream. */
#include <string.h>

#include "engines/engine.h"

/* Returns whether fp8 is fine enough for every unit. */
static bool takes_fp8(const es_engine_fit *fit)
{
    static const char *const fp8[] = {"fp8", NULL};
    const es_plan *p = fit->plan;
    const int64_t units = p->layers * p->kv_heads;
    return es_type_for(fp8, es_type_finest(fit, ES_KV_KEYS, 0, units), p->head_dim) &&
           es_type_for(fp8, es_type_finest(fit, ES_KV_VALUES, 0, units), p->head_dim);
}

/* Returns the most sinks of a unit: there is one number for all layers. */
static int64_t most_sinks(const es_engine_fit *fit)
{
    int64_t most = 0;
    for (int64_t u = 0; u < fit->plan->layers * fit->plan->kv_heads; u++)
        if (fit->runs[u].evict.policy && fit->runs[u].evict.sinks > most)
            most = fit->runs[u].evict.sinks;
    return most;
}

/* Gives all heads of a layer the keys of the one that keeps most. Returns how many have others by
 * that. */
static int64_t share_layer(es_engine_fit *fit, int64_t layer)
{
    const es_plan *p = fit->plan;
    const int64_t first = layer * p->kv_heads;
    int64_t most = first, changed = 0;
    for (int64_t u = first; u < first + p->kv_heads; u++)
        if (!fit->runs[u].evict.policy ||
            (fit->runs[most].evict.policy && fit->keys[u] > fit->keys[most]))
            most = u;
    for (int64_t u = first; u < first + p->kv_heads; u++) {
        changed += !es_evict_same(&fit->runs[u].evict, &fit->runs[most].evict) ||
                   fit->keys[u] != fit->keys[most];
        fit->runs[u].evict = fit->runs[most].evict;
        fit->keys[u] = fit->keys[most];
    }
    return changed;
}

/* Returns how many units drop keys; *fewer gets how many of them have fewer sinks than others. */
static int64_t count_dropping(const es_engine_fit *fit, int64_t *fewer)
{
    const int64_t sinks = most_sinks(fit);
    int64_t count = 0;
    *fewer = 0;
    for (int64_t u = 0; u < fit->plan->layers * fit->plan->kv_heads; u++)
        if (fit->runs[u].evict.policy) {
            *fewer += fit->runs[u].evict.sinks < sinks;
            count++;
        }
    return count;
}

static void fit_plan(es_engine_fit *fit)
{
    static const char *const stream[] = {"stream", NULL};
    const es_plan *p = fit->plan;
    const es_kv_type *type = es_kv_type_find(takes_fp8(fit) ? "fp8" : "f16");
    es_fit_drop_policies(fit, stream, "TensorRT-LLM, whose windows are sinks and newest keys");
    int64_t shared = 0, typed = 0, fewer;
    for (int64_t l = 0; l < p->layers; l++)
        shared += share_layer(fit, l);
    for (int64_t u = 0; u < p->layers * p->kv_heads; u++)
        typed += es_fit_types(fit, u, type, type);
    const int64_t dropping = count_dropping(fit, &fewer);
    if (shared || fewer)
        fprintf(fit->notes, "numbers of keys by head: a layer has one window, that of its largest "
                            "head, and all layers as many sinks\n");
    if (p->prompt && dropping)
        fprintf(fit->notes,
                "dropping keys of the prompt alone: windows slide, and have %lld tokens more for "
                "what follows the prompt up to the plan's context\n",
                (long long)(p->context - p->prompt));
    if (typed)
        fprintf(fit->notes, "number types by head: all have %s\n",
                type->largest > 0.0f ? "fp8" : "16 bits, since some head needs more than fp8");
}

/* Returns the window of a layer. A query of decode mode sees one key more than is held between two
 * tokens. Layers that keep everything have the whole context. */
static int64_t window_of(const es_engine_fit *fit, int64_t layer)
{
    const es_plan *p = fit->plan;
    const int64_t first = layer * p->kv_heads, sinks = most_sinks(fit);
    const es_evict_spec *spec = &fit->runs[first].evict;
    if (!spec->policy)
        return p->context;
    const int64_t later = p->prompt ? p->context - p->prompt : 1;
    const int64_t window = fit->keys[first] + sinks - spec->sinks + later;
    return window < p->context ? window : p->context;
}

static void write_options(const es_engine_fit *fit, FILE *out)
{
    const es_plan *p = fit->plan;
    const int64_t sinks = most_sinks(fit);
    fprintf(out, "kv_cache_config:\n  max_attention_window: [");
    for (int64_t l = 0; l < p->layers; l++)
        fprintf(out, "%s%lld", l ? ", " : "", (long long)window_of(fit, l));
    fprintf(out, "]\n");
    if (sinks)
        fprintf(out, "  sink_token_length: %lld\n", (long long)sinks);
    fprintf(out, "  dtype: %s\n",
            fit->runs[0].k.type && strcmp(fit->runs[0].k.type->name, "fp8") == 0 ? "fp8" : "auto");
}

const es_engine es_engine_row_tensorrt_llm = {
    .name = "tensorrt-llm",
    .title = "TensorRT-LLM",
    .checked = "Untested against TensorRT-LLM: fields are those of KvCacheConfig in its "
               "documentation (1.3).",
    .modes = 1u << ES_PLAN_PROMPT | 1u << ES_PLAN_DECODE | 1u << ES_PLAN_NONE,
    .fit = fit_plan,
    .write = write_options};
