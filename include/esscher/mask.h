/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h : which keys each query of an attention call may see. */
#ifndef ESSCHER_MASK_H
#define ESSCHER_MASK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which keys a query may see, and what is added to their scores. Zero-initialise: all, and nothing.
 *
 * Query i stands at the place p of a key. With j <= p where `causal` is set, it sees
 *   - every key, if neither window, sinks, local nor lists are given;
 *   - else each key that one of them lets it see. What several let it see it sees once.
 *
 * Keys that no query of a block sees are neither read nor multiplied: time is that of the pairs
 * that are seen, rounded up to what some 48 neighbouring queries see together. For the same reason
 * a list is that of consecutive queries, best of a hundred or more: lists of single queries are
 * correct, but cost what the union of 48 of them costs. Where blocks of keys are asked for
 * (opts.block) listed keys are not gathered: every tile with one of them is multiplied.
 *
 * Factors are logarithms, in nats, added to a score after the scale: exp(factor) multiplies the
 * weight. Every statistic is then that of the corrected weights w_ij ~ exp(b q_i.k_j + factor):
 * lse, entropy, the largest weight and its key, which may be another one at another scale. Several
 * scales with factors are computed one after the other. */
typedef struct es_mask {
    const int64_t *positions; /* (m) p of each query, 0 <= p < n, in any order; NULL: query i stands
                                 at key i, with m <= n, and m = n where causal is set */
    bool causal;              /* no key behind p */
    int64_t window;           /* 0: none. |j - p| <= window; causal: the last `window` keys, its own
                                 included, p - window < j <= p */
    int64_t sinks;            /* 0: none. Keys j < sinks */
    int64_t local;            /* 0: none. Keys of its own block, j / local = p / local */
    int64_t list_queries;     /* 0: no lists. Queries i of one list: i / list_queries */
    const int64_t *list_offsets; /* (lists + 1) list b is list_keys[list_offsets[b]], ... , to
                                    before list_offsets[b + 1]; lists = ceil(m / list_queries) */
    const int64_t *list_keys;    /* increasing in each list; may be none */
    const double *list_factors;  /* (lists) added to the scores of keys that a query sees by its
                                    list alone: ln(|R| / r) makes r keys drawn from |R| stand for
                                    all of them; NULL: 0 */
    int64_t n_classes;           /* 0: no classes of keys. At most 256 */
    const uint8_t *classes;      /* (n) class of each key */
    const double *class_factors; /* (n_classes) added to the scores of its keys */
} es_mask;

#ifdef __cplusplus
}
#endif
#endif
