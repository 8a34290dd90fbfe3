/* SPDX-License-Identifier: Apache-2.0 */
/* policy_row.h : the descriptor (row) of a policy, and the functions that policies share.
 *
 * A policy lives in a file of its own, src/policy/policy_NAME.c, which ends with its row;
 * the list ES_POLICIES of policy.h has each once. To add one: its file and an entry of that list.
 *
 *     policy.c          checks; a choice from a spec and a query
 *     policy_keep.c     sets of keys: ranges, windows, the best of the others, the rest
 *     policy_draw.c     one outcome of a choice
 */
#ifndef ES_POLICY_POLICY_ROW_H
#define ES_POLICY_POLICY_ROW_H

#include <esscher/policy.h>

struct es_policy {
    const char *name;
    const char *alias; /* its name in the literature, where that is another; NULL: none */
    unsigned needs;    /* ES_POLICY_ */
    unsigned parts;    /* ES_PART_: beside keys, which every policy has */
    unsigned amount;   /* ES_PART_: one of these, or keys, has to say how many; 0: keys alone */
    bool deployable;   /* needs no score of the present query, and no future one */
    bool corrects;     /* as published, keys kept by chance count over their probability */
    /* Sets the parts that are unset, for es_policy_spec_fit(); NULL: it has none to set. Queries
     * of a model that is not causal see both sides. */
    void (*fit)(es_policy_spec *spec, bool causal);
    /* *choice is empty, has space for query->n keys, and everything was checked: spec->keys is
     * below query->n. NULL: keeps no set of keys. */
    void (*choose)(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice);
};

/* ---- parts ---- */

/*! es_part_or() : a part as given, or `otherwise`, at least 0. */
static inline int64_t es_part_or(int64_t given, int64_t otherwise)
{
    if (given != ES_POLICY_UNSET)
        return given;
    return otherwise > 0 ? otherwise : 0;
}

/*! es_part_sinks() : as given, or `own`, but never more than there are keys to keep. */
int64_t es_part_sinks(const es_policy_spec *spec, int64_t own);

/*! es_part_window() : as given, or the window of about `count` keys: the last `count` if causal,
 *  count/2 on each side otherwise. */
int64_t es_part_window(const es_policy_spec *spec, bool causal, int64_t count);

/*! es_fit_window() : sets sinks, `own` unless given, and the widest window that goes with them. On
 *  two sides a window has an odd number of keys; what it leaves over is one more sink, unless sinks
 *  were given. */
void es_fit_window(es_policy_spec *spec, int64_t own, bool causal);

/* ---- sets ---- */

/*! es_keep_range() : keys from .. to-1, as far as there are any, that are beyond all keys kept so
 *  far. es_keep_window() : such keys of the query's window. */
void es_keep_range(es_choice *choice, int64_t from, int64_t to);
void es_keep_window(es_choice *choice, const es_policy_query *query, int64_t window);

/*! es_keep_best() : of the keys not kept so far the `count` of largest by[], the smaller key first
 *  where it is the same. Up to choice->n of them. */
void es_keep_best(es_choice *choice, const double *by, int64_t count);

/*! es_keep_others() : rest becomes all keys that are not kept. */
void es_keep_others(es_choice *choice);

/*! es_best_first() : the `best` of keys (count) with the largest by[key] come first, in falling
 *  order; by NULL: the smallest keys, in rising order. O(count log best), no memory. */
void es_best_first(const double *by, int64_t *keys, int64_t count, int64_t best);

/* ---- chance ---- */

/*! es_chance_draws() : `draws` of all other keys, with or without replacement as the spec says,
 *  corrected or not as es_policy_corrects() does. */
void es_chance_draws(const es_policy_spec *spec, es_choice *choice, int64_t draws);

/*! es_chance_each() : each of the other keys on its own, `expected` of them. */
void es_chance_each(const es_policy_spec *spec, es_choice *choice, double expected);

/* ---- the limit of THEORY 13 ---- */

/*! es_limit_sure() : how many of the largest by[], whose keys are falling (count), are kept surely
 *  when m keys may be kept on average, each on its own with probability min(1, tau by[]). `beyond`
 *  is the sum of by[] over all other keys. *rest becomes the sum over those that are not sure: tau
 *  is (m - sure)/rest. */
int64_t es_limit_sure(const double *by, const int64_t *falling, int64_t count, double beyond,
                      double m, double *rest);

#endif
