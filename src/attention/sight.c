/* SPDX-License-Identifier: Apache-2.0 */
/* sight.c : which keys of a tile the queries of a panel see: none, all, or some; only the last
 * case costs work per score. */
#include "attention/sight.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

/* Returns the smaller of two numbers. */
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the larger of two numbers. */
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Queries of a panel that exist. */
static int64_t panel_queries(const es_block *b, int64_t panel)
{
    return least(b->kernels->lanes, b->count - panel * b->kernels->lanes);
}

/* What all of queries [first, last) of the block see. */
static es_sight common_sight(const es_block *b, int64_t first, int64_t last)
{
    es_sight all = {.sinks = INT64_MAX, .to = INT64_MAX};
    for (int64_t i = first; i < last; i++) {
        all.sinks = least(all.sinks, b->sights[i].sinks);
        all.from = most(all.from, b->sights[i].from);
        all.to = least(all.to, b->sights[i].to);
    }
    return all;
}

/* Returns true if a query sees all keys [from, to). */
static bool sees_all(const es_sight *s, int64_t from, int64_t to)
{
    return (to <= s->sinks) | ((s->from <= from) & (to <= s->to));
}

void es_sight_begin(es_block *b)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t i = 0; i < b->count; i++)
        b->sights[i] = es_mask_sight(b->p->mask, b->first + i);
    for (int64_t panel = 0; panel < b->panels; panel++)
        b->common[panel] = common_sight(b, panel * lanes, panel * lanes + panel_queries(b, panel));
}

/* ---- tiles of consecutive keys ---- */

/* Lists are met in the order of the keys where blocks of keys are summed; else keys are gathered.
 */
static bool lists_in_order(const es_block *b) { return b->p->mask->list_queries && b->p->block; }

/* Finds the lists of keys that the queries [from, to) of a block use. */
static void block_lists(const es_block *b, int64_t from, int64_t to, int64_t *first, int64_t *last)
{
    *first = (b->first + from) / b->p->mask->list_queries;
    *last = (b->first + to - 1) / b->p->mask->list_queries + 1;
}

int64_t es_sight_next(const es_block *b, int64_t from, int64_t to)
{
    int64_t next = to;
    for (int64_t i = 0; i < b->count; i++) {
        const es_sight *s = &b->sights[i];
        const int64_t near = from < s->to ? most(from, s->from) : to;
        next = least(next, from < s->sinks ? from : near);
    }
    if (!lists_in_order(b))
        return next;
    int64_t first, last;
    block_lists(b, 0, b->count, &first, &last);
    for (int64_t l = first; l < last; l++) {
        const es_list list = es_mask_list(b->p->mask, l);
        const int64_t at = es_keys_below(list.keys, list.count, from);
        if (at < list.count)
            next = least(next, list.keys[at]);
    }
    return next;
}

int64_t es_sight_end(const es_block *b, int64_t from, int64_t to)
{
    int64_t end = from;
    for (int64_t i = 0; i < b->count; i++) {
        const es_sight *s = &b->sights[i];
        const int64_t near = s->from < to ? least(s->to, to) : from;
        end = most(end, most(near, least(s->sinks, to)));
    }
    return lists_in_order(b) ? to : end;
}

/* Returns whether a list of the panel has a key of [from, to). */
static bool lists_meet(const es_block *b, int64_t panel, int64_t from, int64_t to)
{
    int64_t first, last;
    es_sight_lists(b, panel, &first, &last);
    for (int64_t l = first; l < last; l++) {
        const es_list list = es_mask_list(b->p->mask, l);
        const int64_t at = es_keys_below(list.keys, list.count, from);
        if (at < list.count && list.keys[at] < to)
            return true;
    }
    return false;
}

es_seen es_sight_of(const es_block *b, int64_t panel, es_tile_keys *keys)
{
    const int64_t here = panel_queries(b, panel), from = keys->first, to = from + keys->count;
    const es_sight *s = b->sights + panel * b->kernels->lanes;
    int64_t first = to, last = from;
    bool all = true;
    if (sees_all(&b->common[panel], from, to))
        return ES_SEEN_ALL;
    for (int64_t i = 0; i < here; i++) {
        const bool sink = from < s[i].sinks, near = (s[i].from < to) & (from < s[i].to);
        const int64_t begin = sink ? from : near ? most(from, s[i].from) : to;
        const int64_t end = near ? least(to, s[i].to) : sink ? least(to, s[i].sinks) : from;
        first = least(first, begin);
        last = most(last, end);
        all &= sees_all(&s[i], from, to);
    }
    if (all) /* some as sinks, some near */
        return ES_SEEN_ALL;
    if (lists_in_order(b) && lists_meet(b, panel, from, to))
        return ES_SEEN_SOME;
    if (first >= last)
        return ES_SEEN_NONE;
    if (b->p->block)
        return ES_SEEN_SOME;
    const int64_t skip = (first - from) / ES_GROUP * ES_GROUP;
    *keys = (es_tile_keys){
        .row = keys->row + skip, .first = from + skip, .count = last - from - skip, .skip = skip};
    return ES_SEEN_SOME;
}

/* ---- scores that are hidden ---- */

/* Returns the row of a tile at which keys from `key` on begin. */
static int32_t row_of(const es_tile_keys *keys, int64_t key)
{
    return (int32_t)(keys->numbers ? es_keys_below(keys->numbers, keys->count, key)
                                   : least(most(key - keys->first, 0), keys->count));
}

/* Rows [a, b) and [c, d) are what lane `lane` sees. */
static void set_ranges(es_block *b, int64_t lane, int32_t from, int32_t to, int32_t from2,
                       int32_t to2)
{
    const int64_t lanes = b->kernels->lanes;
    b->ranges[lane] = from;
    b->ranges[lanes + lane] = to;
    b->ranges[2 * lanes + lane] = from2;
    b->ranges[3 * lanes + lane] = to2;
}

/* What is not in a query's ranges is hidden. */
static void hide_by_range(es_block *b, int64_t panel, const es_tile_keys *keys)
{
    const int64_t lanes = b->kernels->lanes, here = panel_queries(b, panel);
    const es_sight *s = b->sights + panel * lanes;
    for (int64_t lane = 0; lane < here; lane++)
        set_ranges(b, lane, 0, row_of(keys, s[lane].sinks), row_of(keys, s[lane].from),
                   row_of(keys, s[lane].to));
    b->kernels->see(b->scores, keys->count, b->ranges);
}

/* What is in a query's ranges, or behind its end, is hidden. Mostly that is nothing, which is found
 * out first: lists are made of keys that windows leave out. */
static void hide_met(es_block *b, int64_t panel, const es_tile_keys *keys, char *scores)
{
    const int64_t lanes = b->kernels->lanes, here = panel_queries(b, panel);
    const es_sight *s = b->sights + panel * lanes;
    es_sight hull = {.sinks = 0, .from = INT64_MAX, .to = 0};
    int64_t end = INT64_MAX;
    for (int64_t lane = 0; lane < here; lane++) {
        hull.sinks = most(hull.sinks, s[lane].sinks);
        hull.from = least(hull.from, s[lane].from);
        hull.to = most(hull.to, s[lane].to);
        end = least(end, es_mask_end(b->p->mask, b->first + panel * lanes + lane));
    }
    if (row_of(keys, hull.sinks) == 0 && row_of(keys, hull.from) >= row_of(keys, hull.to) &&
        row_of(keys, end) == keys->count)
        return;
    for (int64_t lane = 0; lane < here; lane++)
        set_ranges(b, lane, row_of(keys, s[lane].sinks), row_of(keys, s[lane].from),
                   row_of(keys, s[lane].to),
                   row_of(keys, es_mask_end(b->p->mask, b->first + panel * lanes + lane)));
    b->kernels->see(scores, keys->count, b->ranges);
}

/* Stores a factor on weights as base-2 logarithm, the unit of the kernels' scores. */
static void set_raise(const es_block *b, int64_t row, double nats)
{
    if (b->kernels->dtype == ES_F32)
        ((float *)(void *)b->list_raise)[row] = (float)(nats * ES_LOG2_E);
    else
        ((double *)(void *)b->list_raise)[row] = nats * ES_LOG2_E;
}

/* Keys that are not in a query's list are hidden; those that are get its factor. Queries of one
 * list are neighbours. */
static void hide_by_list(es_block *b, int64_t panel, const es_tile_keys *keys, char *scores)
{
    const es_mask *mask = b->p->mask;
    const int64_t row = b->first + panel * b->kernels->lanes;
    int64_t first, last;
    es_sight_lists(b, panel, &first, &last);
    for (int64_t l = first; l < last; l++) {
        const bool met = !keys->numbers || (l >= keys->list && l < keys->list_end);
        const es_list list = met ? es_mask_list(mask, l) : (es_list){0};
        const double factor = mask->list_factors ? mask->list_factors[l] : 0.0;
        int64_t at = es_keys_below(list.keys, list.count, es_tile_keys_at(keys, 0));
        for (int64_t r = 0; r < keys->count; r++) {
            const int64_t key = es_tile_keys_at(keys, r);
            while (at < list.count && list.keys[at] < key)
                at++;
            set_raise(b, r, at < list.count && list.keys[at] == key ? factor : (double)NAN);
        }
        b->kernels->raise(scores, keys->count, b->list_raise, most(l * mask->list_queries - row, 0),
                          least((l + 1) * mask->list_queries - row, panel_queries(b, panel)));
    }
}

/* Where a score is hidden, the one from the list, which may be hidden, too. */
static void take_listed(es_block *b, int64_t count)
{
    float *s = (float *)(void *)b->scores, *l = (float *)(void *)b->listed;
    double *s64 = (double *)(void *)b->scores, *l64 = (double *)(void *)b->listed;
    if (b->kernels->dtype == ES_F32)
        for (int64_t i = 0; i < count; i++)
            s[i] = s[i] == s[i] ? s[i] : l[i];
    else
        for (int64_t i = 0; i < count; i++)
            s64[i] = s64[i] == s64[i] ? s64[i] : l64[i];
}

void es_sight_hide(es_block *b, int64_t panel, const es_tile_keys *keys)
{
    const int64_t lanes = b->kernels->lanes, all = keys->count * lanes;
    for (int64_t lane = panel_queries(b, panel); lane < lanes; lane++)
        set_ranges(b, lane, 0, (int32_t)keys->count, 0, 0);
    if (keys->numbers) {
        hide_by_list(b, panel, keys, b->scores);
        hide_met(b, panel, keys, b->scores);
        return;
    }
    if (lists_in_order(b)) {
        memcpy(b->listed, b->scores, (size_t)all * b->real);
        hide_by_list(b, panel, keys, b->listed);
        hide_met(b, panel, keys, b->listed);
    }
    hide_by_range(b, panel, keys);
    if (lists_in_order(b))
        take_listed(b, all);
}

int64_t es_sight_own(const es_block *b, int64_t query, const es_tile_keys *keys)
{
    const int64_t own = es_mask_place(b->p->mask, b->first + query);
    if (own < es_tile_keys_at(keys, 0) || own > es_tile_keys_at(keys, keys->count - 1))
        return -1;
    const int64_t row = row_of(keys, own);
    return es_tile_keys_at(keys, row) == own ? row : -1;
}

/* ---- lists ---- */

void es_sight_lists(const es_block *b, int64_t panel, int64_t *first, int64_t *last)
{
    const int64_t row = panel * b->kernels->lanes;
    block_lists(b, row, row + panel_queries(b, panel), first, last);
}

void es_list_walk_begin(es_list_walk *w, const es_block *b, int64_t list, int64_t list_end,
                        int64_t from, int64_t to)
{
    const int64_t queries = b->p->mask->list_queries;
    const int64_t row = most(list * queries - b->first, 0);
    const int64_t row_end = least(list_end * queries - b->first, b->count);
    int64_t end = 0;
    w->count = list_end - list;
    w->all = common_sight(b, row, row_end);
    for (int64_t i = row; i < row_end; i++)
        end = most(end, es_mask_end(b->p->mask, b->first + i));
    for (int64_t l = 0; l < w->count; l++) {
        const es_list all = es_mask_list(b->p->mask, list + l);
        const int64_t skip = es_keys_below(all.keys, all.count, from);
        const int64_t stop = es_keys_below(all.keys, all.count, least(to, end));
        w->lists[l] = (es_list){all.keys ? all.keys + skip : NULL, most(stop - skip, 0)};
    }
}

int64_t es_list_walk_next(es_list_walk *w, int64_t most_keys, int64_t *keys)
{
    int64_t count = 0;
    while (count < most_keys) {
        int64_t next = INT64_MAX;
        for (int64_t l = 0; l < w->count; l++)
            if (w->lists[l].count)
                next = least(next, w->lists[l].keys[0]);
        if (next == INT64_MAX)
            break;
        for (int64_t l = 0; l < w->count; l++)
            if (w->lists[l].count && w->lists[l].keys[0] == next)
                w->lists[l] = (es_list){w->lists[l].keys + 1, w->lists[l].count - 1};
        if (!sees_all(&w->all, next, next + 1))
            keys[count++] = next;
    }
    return count;
}
