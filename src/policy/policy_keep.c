/* SPDX-License-Identifier: Apache-2.0 */
/* policy_keep.c : the sets of keys that policies are made of. */
#include <stddef.h>

#include "policy/policy.h"
#include "policy/policy_row.h"

/* ---- parts ---- */

int64_t es_part_sinks(const es_policy_spec *spec, int64_t own)
{
    if (spec->keys != ES_POLICY_UNSET && spec->keys < own)
        own = spec->keys;
    return es_part_or(spec->sinks, own);
}

int64_t es_part_window(const es_policy_spec *spec, bool causal, int64_t count)
{
    return es_part_or(spec->window, causal ? count : count / 2);
}

void es_fit_window(es_policy_spec *spec, int64_t own, bool causal)
{
    const int64_t others = spec->keys - 1; /* without the query's own */
    if (causal || spec->window != ES_POLICY_UNSET) {
        spec->sinks = es_part_sinks(spec, own);
        spec->window = es_part_or(spec->window, spec->keys - spec->sinks);
        return;
    }
    const int64_t sinks = es_part_or(spec->sinks, own < others ? own : others);
    spec->window = others > sinks ? (others - sinks) / 2 : 0;
    if (spec->sinks == ES_POLICY_UNSET)
        spec->sinks = others - 2 * spec->window;
}

/* ---- ranges ---- */

void es_keep_range(es_choice *choice, int64_t from, int64_t to)
{
    const int64_t beyond =
        choice->sure_count > 0 ? choice->sure[choice->sure_count - 1] + 1 : (int64_t)0;
    if (from < beyond)
        from = beyond;
    if (to > choice->n)
        to = choice->n;
    for (int64_t key = from; key < to; key++)
        choice->sure[choice->sure_count++] = key;
}

/* Keeps the window of the query; a query without a position has none. */
void es_keep_window(es_choice *choice, const es_policy_query *query, int64_t window)
{
    const int64_t at = query->position;
    if (at < 0)
        return;
    if (query->causal)
        es_keep_range(choice, at + 1 - window, at + 1);
    else
        es_keep_range(choice, at - window, at + window + 1);
}

/* Merges the two rising lists: every key that is not sure belongs to the rest. */
void es_keep_others(es_choice *choice)
{
    int64_t next = 0;
    choice->rest_count = 0;
    for (int64_t key = 0; key < choice->n; key++) {
        if (next < choice->sure_count && choice->sure[next] == key)
            next++;
        else
            choice->rest[choice->rest_count++] = key;
    }
}

/* ---- the best ---- */

/* Orders two keys: the larger by[] first and, for equal values, the smaller key first. The tie
 * rule makes choices independent of the sort. */
static bool better(const double *by, int64_t a, int64_t b)
{
    if (by && by[a] != by[b])
        return by[a] > by[b];
    return a < b;
}

/* Exchanges two entries of a list of keys. */
static void swap(int64_t *keys, int64_t a, int64_t b)
{
    const int64_t key = keys[a];
    keys[a] = keys[b];
    keys[b] = key;
}

/* keys (count) is a heap whose root is the worst, but for keys[at], which may be too good for its
 * place. */
static void sift(const double *by, int64_t *keys, int64_t count, int64_t at)
{
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && better(by, keys[child], keys[child + 1]))
            child++;
        if (!better(by, keys[at], keys[child]))
            return;
        swap(keys, at, child);
        at = child;
    }
}

/* Keeps a heap of the `best` keys, whose root is the worst of them, runs through the others once,
 * and sorts the heap at the end. */
void es_best_first(const double *by, int64_t *keys, int64_t count, int64_t best)
{
    for (int64_t at = best / 2; at-- > 0;)
        sift(by, keys, best, at);
    for (int64_t i = best; i < count && best > 0; i++) {
        if (better(by, keys[i], keys[0])) {
            swap(keys, i, 0);
            sift(by, keys, best, 0);
        }
    }
    for (int64_t left = best; left-- > 1;) {
        swap(keys, 0, left);
        sift(by, keys, left, 0);
    }
}

/* Returns the median of three keys, the pivot of the quickselect below. */
static int64_t middle_of(const double *by, int64_t a, int64_t b, int64_t c)
{
    if (better(by, a, b))
        return better(by, b, c) ? b : better(by, a, c) ? c : a;
    return better(by, a, c) ? a : better(by, b, c) ? c : b;
}

/* Keys better than the pivot to the left, worse ones to the right: [low, *left) and [*right, high).
 */
static void divide(const double *by, int64_t *keys, int64_t low, int64_t high, int64_t *left,
                   int64_t *right)
{
    const int64_t pivot = middle_of(by, keys[low], keys[low + (high - low) / 2], keys[high - 1]);
    int64_t i = low, j = high - 1;
    while (i <= j) {
        while (better(by, keys[i], pivot))
            i++;
        while (better(by, pivot, keys[j]))
            j--;
        if (i <= j)
            swap(keys, i++, j--);
    }
    *left = j + 1;
    *right = i;
}

/* The worst of the `best` of keys (count), which lose their order. O(count), by Hoare's selection;
 * where its pivots are bad, and at the end, by the heap. */
static int64_t worst_of_best(const double *by, int64_t *keys, int64_t count, int64_t best)
{
    int64_t low = 0, high = count, left, right;
    for (int rounds = 0; rounds < 40 && high - low > 16; rounds++) {
        divide(by, keys, low, high, &left, &right);
        if (best > right)
            low = right;
        else if (best <= left)
            high = left;
        else
            return keys[best - 1]; /* the pivot, alone between the two */
    }
    es_best_first(by, keys + low, high - low, best - low);
    return keys[best - 1];
}

void es_keep_best(es_choice *choice, const double *by, int64_t count)
{
    es_keep_others(choice);
    int64_t *found = choice->rest, *sure = choice->sure, kept = choice->sure_count;
    if (count > choice->rest_count)
        count = choice->rest_count;
    if (count < 0)
        count = 0;
    if (count > 0 && count < choice->rest_count) {
        const int64_t worst = worst_of_best(by, found, choice->rest_count, count);
        es_keep_others(choice);
        for (int64_t from = 0, to = 0; to < count; from++)
            if (!better(by, worst, found[from]))
                found[to++] = found[from];
    }
    choice->rest_count = 0;
    choice->sure_count += count;
    for (int64_t to = choice->sure_count; count > 0;) /* both rise: the largest goes last */
        sure[--to] = kept > 0 && sure[kept - 1] > found[count - 1] ? sure[--kept] : found[--count];
}

/* ---- chance ---- */

/* Makes the choice all keys, with nothing left to chance. */
static void keep_all(es_choice *choice)
{
    choice->sure_count = choice->rest_count = 0;
    es_keep_range(choice, 0, choice->n);
}

void es_chance_draws(const es_policy_spec *spec, es_choice *choice, int64_t draws)
{
    if (draws <= 0 || choice->sure_count == choice->n)
        return;
    es_keep_others(choice);
    const int64_t rest = choice->rest_count;
    if (draws >= rest && !spec->with_replacement) {
        keep_all(choice);
        return;
    }
    choice->chance = spec->with_replacement ? ES_CHANCE_WITH : ES_CHANCE_WITHOUT;
    choice->draws = draws;
    choice->factor = es_policy_corrects(spec) ? (double)rest / (double)draws : 1.0;
}

void es_chance_each(const es_policy_spec *spec, es_choice *choice, double expected)
{
    if (!(expected > 0.0) || choice->sure_count == choice->n)
        return;
    es_keep_others(choice);
    const double p = expected / (double)choice->rest_count;
    if (p >= 1.0) {
        keep_all(choice);
        return;
    }
    choice->chance = ES_CHANCE_EACH;
    for (int64_t i = 0; i < choice->rest_count; i++) {
        choice->kept[i] = p;
        choice->factors[i] = es_policy_corrects(spec) ? 1.0 / p : 1.0;
    }
}
