/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h : a mask, checked, and what it lets one query see, as ranges of keys. */
#ifndef ES_ATTENTION_MASK_H
#define ES_ATTENTION_MASK_H

#include "attention/problem.h"

/* Keys that a query sees whatever its list says: [0, sinks) and [from, to). A window and a block of
 * its own both hold the query's place, so that they are one range; where the sinks reach it, too,
 * all are one, and sinks = 0. */
typedef struct es_sight {
    int64_t sinks;
    int64_t from, to;
} es_sight;

/*! es_mask_check() : fails unless the mask fits m queries and n keys. n = 0: keys come later
 * (partial states), so that places must be given. */
es_status es_mask_check(const es_mask *mask, int64_t m, int64_t n, es_error *err);

/*! es_mask_check_sight() : fails unless every query sees a key at every prefix at which it exists.
 */
es_status es_mask_check_sight(const es_problem *p, es_error *err);

/*! es_mask_is_given() : returns whether it hides a key or corrects a score. */
bool es_mask_is_given(const es_mask *mask);

/*! es_mask_has_factors() : returns whether it corrects scores. */
static inline bool es_mask_has_factors(const es_mask *mask)
{
    return mask && (mask->n_classes || (mask->list_queries && mask->list_factors));
}

/*! es_mask_place() : returns the position of query i among the keys. */
static inline int64_t es_mask_place(const es_mask *mask, int64_t i)
{
    return mask && mask->positions ? mask->positions[i] : i;
}

/*! es_mask_end() : query i sees no key from here on. */
static inline int64_t es_mask_end(const es_mask *mask, int64_t i)
{
    return mask->causal ? es_mask_place(mask, i) + 1 : INT64_MAX;
}

/*! es_mask_sight() : the ranges that query i sees; `to` may lie beyond the last key. */
es_sight es_mask_sight(const es_mask *mask, int64_t i);

/* Keys of a list. */
typedef struct es_list {
    const int64_t *keys;
    int64_t count;
} es_list;

/*! es_mask_list() : list number `list`. */
static inline es_list es_mask_list(const es_mask *mask, int64_t list)
{
    const int64_t first = mask->list_offsets[list];
    return (es_list){.keys = mask->list_keys ? mask->list_keys + first : NULL,
                     .count = mask->list_offsets[list + 1] - first};
}

/*! es_keys_below() : how many of `count` increasing keys lie below `key`. */
int64_t es_keys_below(const int64_t *keys, int64_t count, int64_t key);

/*! es_mask_pairs() : pairs of a query and a key that it sees at the last prefix. O(m), times the
 * logarithm of their lengths where there are lists. */
double es_mask_pairs(const es_problem *p);

#endif
