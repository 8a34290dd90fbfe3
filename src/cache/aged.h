/* SPDX-License-Identifier: Apache-2.0 */
/* aged.h : attention over a cache in which old places are coarse and new ones fine (KIVI). */
#ifndef ES_CACHE_AGED_H
#define ES_CACHE_AGED_H

#include <esscher/attend.h>

#include "cache/kv_type.h"
#include "cache/softmax.h"

/* Keys or values of a head, twice; fine is used where the format is by query. */
typedef struct es_aged_side {
    const es_kv_format *format;
    es_view coarse, fine; /* (n, d) */
} es_aged_side;

/* One causal head. */
typedef struct es_aged {
    es_view q; /* (n, d) */
    es_aged_side k, v;
    es_softmax softmax;
    int64_t window; /* 0: none */
    es_mem_limit *budget;
} es_aged;

/*! es_aged_attend() : every query over the keys up to its own, each coarse or fine as the query
 *  finds it (es_kv_coarse_places()). Of `out`: output, entropy, top_weight and sum_squares. Between
 *  es_blas_enter() and es_blas_leave(). @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_aged_attend(const es_aged *head, const es_attend_out *out, es_error *err);

#endif
