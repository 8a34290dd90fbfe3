/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h : what a key-value cache does to a model: which keys it drops, and to what it rounds.
 *
 * A *unit* is a key-value head of a layer. Units may differ in everything but the mode. */
#ifndef ES_CACHE_CACHE_H
#define ES_CACHE_CACHE_H

#include "cache/evict.h"
#include "cache/kv_type.h"

/* What a unit keeps, and as what. */
typedef struct es_cache_unit {
    es_evict_spec evict; /* policy NULL: every key */
    es_kv_format k, v;   /* type NULL: as the model computes */
} es_cache_unit;

typedef struct es_cache es_cache; /* also in model.h, for blocks */

/* A cache of a model, and what became of the keys of one block. */
struct es_cache {
    es_evict_mode mode;
    int64_t prompt;             /* tokens, of ES_EVICT_PROMPT; a block that is shorter drops none */
    const es_cache_unit *units; /* (layers, kv_heads) */
    const double *oracle; /* (layers, kv_heads, prompt) es_votes_late() of the full model, where a
                             unit has such a policy (es_eviction_full()) */
    double *late;  /* (layers, kv_heads, prompt) out: es_votes_late() of this pass, whose mode
                      is ES_EVICT_NOTHING; NULL: not wanted */
    int32_t *last; /* (layers, kv_heads, n) out: the last query that finds key j; NULL: not
                      wanted */
    int32_t *gone; /* (layers, kv_heads) out: the key that goes after the last token, -1: none;
                      of ES_EVICT_DECODE; NULL: not wanted */
};

/*! es_cache_fill() : out (layers, kv_heads), all as `like`; a policy with beta gives each layer a
 *  number of keys of its own (es_pyramid_keys()), of a prompt of `prompt` tokens. */
void es_cache_fill(const es_cache_unit *like, int64_t prompt, int64_t layers, int64_t kv_heads,
                   es_cache_unit *out);

#endif
