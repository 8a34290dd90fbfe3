/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c : the units of a cache that is the same for all heads. */
#include "cache/cache.h"

void es_cache_fill(const es_cache_unit *like, int64_t prompt, int64_t layers, int64_t kv_heads,
                   es_cache_unit *out)
{
    const es_evict_spec *spec = &like->evict;
    const es_evict_spec known = es_evict_resolve(spec, ES_EVICT_PROMPT);
    for (int64_t u = 0; u < layers * kv_heads; u++) {
        out[u] = *like;
        if (spec->policy && spec->beta != ES_EVICT_UNSET)
            out[u].evict.keys =
                es_pyramid_keys(spec->keys, spec->beta, known.window, prompt, u / kv_heads, layers);
    }
}
