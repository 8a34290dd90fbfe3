/* SPDX-License-Identifier: Apache-2.0 */
/* evict_row.h : the descriptor (row) of an eviction policy.
 *
 * To add one: its file evict_NAME.c, which ends with its row, and an entry of the list ES_EVICTIONS
 * in evict.h. */
#ifndef ES_CACHE_EVICT_ROW_H
#define ES_CACHE_EVICT_ROW_H

#include "cache/evict.h"

/* By which number of a key decode mode finds the key that goes: the smallest, and of equal ones the
 * higher place. */
typedef enum es_decode_by {
    ES_DECODE_BY_NOTHING = 0, /* the policy has no decode mode */
    ES_DECODE_BY_PLACE = 1,   /* the oldest goes */
    ES_DECODE_BY_SUM = 2,     /* weight that it has had while it was held, of all heads */
    ES_DECODE_BY_WEIGHT = 3   /* weight of the present query */
} es_decode_by;

/* Options that a policy may take beside sinks, alpha and beta. */
enum {
    ES_TAKES_RECENT = 1,
    ES_TAKES_PROTECT = 2,
    ES_TAKES_WINDOW = 4,
    ES_TAKES_KERNEL = 8,
    ES_TAKES_POOLING = 16,
    ES_TAKES_SCOPE = 32,
    ES_TAKES_FUTURE = 64,
    ES_TAKES_COVARIANCE = 128,
    ES_TAKES_VNORM = 256,
    ES_TAKES_SEED = 512,
    ES_TAKES_EPS = 1024
};

struct es_eviction {
    const char *name, *about;
    const char *alias;  /* another name in use; NULL: none */
    const char *source; /* what it follows */
    unsigned takes;     /* ES_TAKES_ */
    es_evict_spec own;  /* options that are not given */
    bool plain;         /* looks at queries before rotary positions */
    bool full;          /* scores come from a pass of the full model */
    es_decode_by decode;
    /* Scores of a prompt; NULL: none. */
    es_status (*score)(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err);
    /* Sets options whose default depends on others; NULL: none. */
    void (*resolve)(es_evict_spec *spec, es_evict_mode mode);
    /* How many last keys of a prompt stay whatever they score, at most; NULL: none. */
    int64_t (*last)(const es_evict_spec *spec);
};

/*! es_group_mean() : score (P) = sum over the unit's heads of sums(head) / heads, where sums are
 *  the weights that queries from .. to - 1 of the head gave. */
es_status es_group_mean(const es_evict_prompt *p, int64_t from, int64_t to, double *score,
                        es_error *err);

#endif
