/* SPDX-License-Identifier: Apache-2.0 */
/* sight.h : what a block of queries sees of the keys that stream past it. */
#ifndef ES_ATTENTION_SIGHT_H
#define ES_ATTENTION_SIGHT_H

#include "attention/block.h"

/* Whether the queries of a panel see the keys of a tile. */
typedef enum es_seen {
    ES_SEEN_NONE, /* by no query of a panel: nothing is computed */
    ES_SEEN_SOME, /* scores that are not seen are hidden after the product */
    ES_SEEN_ALL   /* all queries see all keys: the mask changes nothing */
} es_seen;

/*! es_sight_begin() : ranges of the queries that have entered. */
void es_sight_begin(es_block *b);

/*! es_sight_next() : the first key of [from, to) that a query of the block sees by its ranges (and
 * its list, where lists are met in the order of the keys); `to` if there is none. */
int64_t es_sight_next(const es_block *b, int64_t from, int64_t to);

/*! es_sight_end() : behind the last key of [from, to) that one of them sees so; `from` if none. */
int64_t es_sight_end(const es_block *b, int64_t from, int64_t to);

/*! es_sight_of() : what a panel sees of consecutive keys, which become those from the first to the
 * last that one of its queries sees (to a group of keys; but for blocks of keys, which are met
 * whole). */
es_seen es_sight_of(const es_block *b, int64_t panel, es_tile_keys *keys);

/*! es_sight_hide() : scores (keys, lanes) of keys that a query of the panel does not see become
 * NaN; those it sees by its list alone are corrected. Of gathered keys a query sees those of its
 * list that its ranges leave out. */
void es_sight_hide(es_block *b, int64_t panel, const es_tile_keys *keys);

/*! es_sight_own() : the place of query `query` of the block among these keys; -1 if it is not
 * there. */
int64_t es_sight_own(const es_block *b, int64_t query, const es_tile_keys *keys);

/* ---- lists ---- */

/*! es_sight_lists() : the lists [*first, *last) of a panel's queries. */
void es_sight_lists(const es_block *b, int64_t panel, int64_t *first, int64_t *last);

/* A walk through the keys of several lists, each once, in increasing order. */
typedef struct es_list_walk {
    es_list lists[ES_MAX_LANES]; /* those that remain */
    int64_t count;
    es_sight all; /* ranges that every query sees: keys in there need no list */
} es_list_walk;

/*! es_list_walk_begin() : keys of [from, to) in lists [list, list_end), ES_MAX_LANES at most.
 *  es_list_walk_next() : at most `most` more of them. @return : how many. */
void es_list_walk_begin(es_list_walk *w, const es_block *b, int64_t list, int64_t list_end,
                        int64_t from, int64_t to);
int64_t es_list_walk_next(es_list_walk *w, int64_t most, int64_t *keys);

#endif
