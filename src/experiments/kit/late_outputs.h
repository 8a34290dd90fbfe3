/* SPDX-License-Identifier: Apache-2.0 */
/* late_outputs.h : es_late_see() collects the heads of a layer from a visitor; es_late_run()
 * computes outputs of late queries of one key-value head under many caches at once: types x
 * policies x keys.
 *
 *     visit.head = see;  visit.plain = es_late_plain(&spec);
 *     see():    es_late_see(&layer, seen);                     views stay valid until the last head
 *               if (seen->head == config->heads - 1)           of the layer: then, for each unit,
 *                   ES_TRY(es_late_run(&layer, unit, &spec, budget, &out, err));
 *
 * A *unit* is a key-value head with the query heads that read it. Rows are those of the full model
 * in this layer, so that errors of different units do not mix; what a cache does to them is what
 * model/forward_cache.c does (THEORY 18, 19): all rows are rounded, policies and queries look at
 * what is held. Prompt mode: kept sets grow with the number of keys, so that sums of w and w v over
 * the keys that come in give the outputs for all numbers of keys in O(P d) per query (C1). Decode
 * mode runs cache/decode.c for each number of keys. */
#ifndef ES_EXPERIMENTS_KIT_LATE_OUTPUTS_H
#define ES_EXPERIMENTS_KIT_LATE_OUTPUTS_H

#include <esscher/model.h>

#include "base/memory.h"
#include "cache/cache.h"

/* All heads of one layer of a block, as the full model ran them. */
typedef struct es_late_layer {
    const es_model_config *config;
    int64_t layer, n;
    es_view *q, *plain_q; /* (heads) each (n, d) */
    double *sinks;        /* (heads) logits; -inf: none */
    es_view *k, *v;       /* (kv_heads) each (n, d) */
    double scale, cap;
    int64_t window; /* 0: none */
} es_late_layer;

/* Number types of a unit's keys and values. */
typedef struct es_late_types {
    es_kv_format k, v;
} es_late_types;

/* What is asked. Outputs with every key kept are there for all types, with n_policies 0 as well. */
typedef struct es_late_spec {
    es_evict_mode mode;            /* of policies; ES_EVICT_NOTHING: there are none */
    int64_t prompt;                /* P, of prompt mode */
    const int64_t *queries;        /* (n_queries) places, increasing; from P on in prompt mode */
    int64_t n_queries;             /* 1 or more */
    const es_late_types *types;    /* (n_types) */
    int64_t n_types;               /* 1 or more */
    const es_evict_spec *policies; /* (n_policies) `keys` is not looked at */
    int64_t n_policies;
    const int64_t *keys; /* (n_keys) numbers of keys to keep, increasing; P or more: all */
    int64_t n_keys;
} es_late_spec;

/* What rounding does to the output of one query and head, with every key kept (THEORY 18). Sums are
 * over the keys that it sees, with the full model's weights w and output y; ds and dv are what
 * rounding does to a score and to a value. */
typedef struct es_late_rounding {
    double square;      /* |y_rounded - y|^2 */
    double first_order; /* sum w^2 (ds^2 |v - y|^2 + |dv|^2)      (Q2) */
    double linear;      /* |sum w ((v - y) ds + dv)|^2: first order as it is    (Q1) */
    double noise2;      /* sum w ds^2: mean square score noise by weight */
    double shift;       /* sum w ds: a common shift of scores changes nothing */
    double keys;        /* sum w^2 |v - y|^2: risk of dropping keys over the odds 1/p - 1 */
    double values;      /* sum w^2 |dv|^2 */
    double spread2;     /* sum w |v - y|^2, a sink's value 0 included: the unit of errors */
    double squares;     /* sum w^2, a sink's included: 1/ESS */
} es_late_rounding;

/* What is found for a unit; heads are those that read it, d their width. `mass`, `full_lse` and
 * `rounding` may be NULL: not wanted. */
typedef struct es_late_out {
    double *full;     /* (queries, heads, d) outputs of the full model */
    double *rounded;  /* (types, queries, heads, d) every key kept, rounded */
    double *outputs;  /* (types, policies, keys, queries, heads, d) */
    double *mass;     /* (types, policies, keys, queries, heads) the full model's weight of what is
                         kept; a sink's is always kept */
    double *full_lse; /* (queries, heads) ln sum e^score of the full model, the sink included */
    es_late_rounding *rounding; /* (types, queries, heads) */
} es_late_out;

/*! es_late_layer_new() : memory for the heads of a layer, in `arena`. */
es_status es_late_layer_new(const es_model_config *config, es_arena *arena, es_late_layer *out,
                            es_error *err);

/*! es_late_see() : notes a head that a visitor is shown; head 0 begins a layer. */
void es_late_see(es_late_layer *layer, const es_model_seen *seen);

/*! es_late_plain() : returns whether a policy uses queries before rotary positions. If so, set
 * visit.plain. */
bool es_late_plain(const es_late_spec *spec);

/*! es_late_check() : fails unless it can be run on blocks of n tokens. @return : ES_OK; ES_E_RANGE
 *  (late.prompt, late.queries, late.keys); ES_E_UNSUPPORTED (late.together) for policies whose
 *  heads or layers share keys (alpha, beta) and for kivi types with eviction; as es_evict_check().
 */
es_status es_late_check(const es_late_spec *spec, int64_t n, es_error *err);

/*! es_late_run() : all settings on one unit; es_late_check() holds. One thread's work, thread-safe,
 *  the same bits whatever other threads do. Prompt mode takes, for each K type and policy, its
 *  scores (h2o, observed, oracle: O(P^2 d) per head), and O(P d) per query, head and setting of
 *  types and policy; decode mode O(n keys d) per head and setting, for tova with scope=layer of all
 *  heads of the layer. @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_late_run(const es_late_layer *layer, int64_t unit, const es_late_spec *spec,
                      es_mem_limit *budget, const es_late_out *out, es_error *err);

/*! es_late_bytes() : memory of es_late_run() at most, without what it writes to. */
double es_late_bytes(const es_model_config *config, es_dtype precision, int64_t n,
                     const es_late_spec *spec);

#endif
