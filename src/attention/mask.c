/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c : which keys a query sees: causal, window, sinks, local blocks, lists and classes with
 * factors. A mask is checked once; then each query has a range of keys and its sinks (es_sight). */
#include "attention/mask.h"

#include <math.h>

#include "base/error.h"
#include "base/limits.h"

#define MOST_FACTOR 1e6 /* nats: far from what added to a score could overflow in f32 */

/* ---- checks ---- */

/* Returns true if the mask depends on the positions of the queries. */
static bool uses_places(const es_mask *mask) { return mask->causal || mask->window || mask->local; }

/* Checks the positions of queries; without them they must follow from the numbers of queries and
 * keys. */
static es_status check_places(const es_mask *mask, int64_t m, int64_t n, es_error *err)
{
    const int64_t end = n ? n : ES_MAX_ROWS;
    for (int64_t i = 0; mask->positions && i < m; i++)
        if (mask->positions[i] < 0 || mask->positions[i] >= end)
            return es_fail_at(err, ES_E_RANGE, i, -1, "mask.position",
                              "the position of a query is the index of a key, from 0",
                              "query %lld has position %lld, with %lld keys", (long long)i,
                              (long long)mask->positions[i], (long long)end);
    if (mask->positions || !uses_places(mask))
        return ES_OK;
    if (!n)
        return es_fail(err, ES_E_ARGUMENT, "mask.positions", "give the position of each query",
                       "the positions of queries are unknown while keys are still to come");
    if (mask->causal && m != n)
        return es_fail(err, ES_E_ARGUMENT, "mask.positions",
                       "give the position of each query: 0, 1, ... if they belong to the first "
                       "keys, n-m, ..., n-1 if to the last",
                       "a causal mask for %lld queries and %lld keys is ambiguous", (long long)m,
                       (long long)n);
    if (m > n)
        return es_fail(err, ES_E_ARGUMENT, "mask.positions", "give the position of each query",
                       "query i cannot have position i with %lld queries and %lld keys",
                       (long long)m, (long long)n);
    return ES_OK;
}

/* Checks a factor on weights, given as its logarithm. */
static es_status check_factor(double factor, const char *of, int64_t which, es_error *err)
{
    if (!isfinite(factor))
        return es_fail(err, ES_E_ARGUMENT, "mask.factor",
                       "a factor is a finite logarithm; hide keys with ranges or lists",
                       "the factor of %s %lld is %g", of, (long long)which, factor);
    if (fabs(factor) > MOST_FACTOR)
        return es_fail(err, ES_E_RANGE, "mask.factor", "at most a million nats",
                       "the factor of %s %lld is %g", of, (long long)which, factor);
    return ES_OK;
}

/* Checks one list of keys: increasing, below n. */
static es_status check_list(const es_mask *mask, int64_t which, int64_t n, es_error *err)
{
    const int64_t first = mask->list_offsets[which], last = mask->list_offsets[which + 1];
    if (last < first || (which == 0 && first != 0))
        return es_fail(err, ES_E_ARGUMENT, "mask.list_offsets",
                       "offsets begin with 0 and do not decrease",
                       "list %lld goes from %lld to %lld", (long long)which, (long long)first,
                       (long long)last);
    int64_t before = -1;
    for (int64_t i = first; i < last; i++) {
        const int64_t key = mask->list_keys[i];
        if (key <= before || key >= n)
            return es_fail(err, ES_E_ARGUMENT, "mask.list",
                           "keys of a list increase strictly and are below n",
                           "list %lld has key %lld after %lld, with n = %lld", (long long)which,
                           (long long)key, (long long)before, (long long)n);
        before = key;
    }
    return mask->list_factors ? check_factor(mask->list_factors[which], "list", which, err) : ES_OK;
}

/* Checks the lists of keys of all groups of queries. */
static es_status check_lists(const es_mask *mask, int64_t m, int64_t n, es_error *err)
{
    if (!mask->list_queries)
        return ES_OK;
    if (!mask->list_offsets || (!mask->list_keys && mask->list_offsets[0] != 0))
        return es_fail(err, ES_E_ARGUMENT, "mask.list_offsets",
                       "give offsets and keys of the lists",
                       "lists of keys without offsets or keys");
    const int64_t lists = (m - 1) / mask->list_queries + 1;
    for (int64_t i = 0; i < lists; i++) {
        if (!mask->list_keys && mask->list_offsets[i + 1] != 0)
            return es_fail(err, ES_E_ARGUMENT, "mask.list", "give their keys",
                           "lists without keys");
        ES_TRY(check_list(mask, i, n, err));
    }
    return ES_OK;
}

/* Checks the classes of keys and their factors. */
static es_status check_classes(const es_mask *mask, int64_t n, es_error *err)
{
    if (mask->n_classes > 256 || (mask->n_classes && (!mask->classes || !mask->class_factors)))
        return es_fail(err, ES_E_ARGUMENT, "mask.classes",
                       "at most 256 classes, a class for each key, a factor for each class",
                       "%lld classes of keys", (long long)mask->n_classes);
    for (int64_t c = 0; c < mask->n_classes; c++)
        ES_TRY(check_factor(mask->class_factors[c], "class", c, err));
    for (int64_t j = 0; mask->n_classes && j < n; j++)
        if (mask->classes[j] >= mask->n_classes)
            return es_fail_at(err, ES_E_RANGE, j, -1, "mask.class", "classes count from 0",
                              "key %lld is of class %d, with %lld classes", (long long)j,
                              mask->classes[j], (long long)mask->n_classes);
    return ES_OK;
}

es_status es_mask_check(const es_mask *mask, int64_t m, int64_t n, es_error *err)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"window", mask->window},
                 {"sinks", mask->sinks},
                 {"local", mask->local},
                 {"list_queries", mask->list_queries},
                 {"n_classes", mask->n_classes}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 0 || sizes[i].value > ES_MAX_ROWS)
            return es_fail(err, ES_E_ARGUMENT, "mask.size", "0 for none, at most 2^40",
                           "%s of a mask is %lld", sizes[i].name, (long long)sizes[i].value);
    ES_TRY(check_places(mask, m, n, err));
    ES_TRY(check_lists(mask, m, n, err));
    return check_classes(mask, n, err);
}

/* ---- what a query sees ---- */

bool es_mask_is_given(const es_mask *mask)
{
    return mask && (mask->causal || mask->window || mask->sinks || mask->local ||
                    mask->list_queries || mask->n_classes || mask->positions);
}

/* Returns the smaller of two numbers. */
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the larger of two numbers. */
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

es_sight es_mask_sight(const es_mask *mask, int64_t i)
{
    const int64_t place = es_mask_place(mask, i), end = es_mask_end(mask, i);
    if (!mask->window && !mask->sinks && !mask->local && !mask->list_queries)
        return (es_sight){.to = end};
    es_sight s = {.from = place, .to = place};
    if (mask->window) {
        s.from = most(0, place - mask->window + (mask->causal ? 1 : 0));
        s.to = place + mask->window + 1;
    }
    if (mask->local) {
        const int64_t first = place / mask->local * mask->local;
        s.from = least(s.from, first);
        s.to = most(s.to, first + mask->local);
    }
    s.to = least(s.to, end);
    s.sinks = least(mask->sinks, end);
    if (s.from == s.to) /* nothing near */
        return (es_sight){.to = s.sinks};
    if (s.sinks >= s.from)
        return (es_sight){.to = most(s.to, s.sinks)};
    return s;
}

/* Returns how many keys of a rising list are below `key`, by bisection. */
int64_t es_keys_below(const int64_t *keys, int64_t count, int64_t key)
{
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first key of [from, to) that is not `own`; INT64_MAX if there is none. */
static int64_t first_but(int64_t from, int64_t to, int64_t own)
{
    from += from == own;
    return from < to ? from : INT64_MAX;
}

/* The first key that query i sees, whatever their number. */
static int64_t first_seen(const es_problem *p, int64_t i)
{
    const es_mask *mask = p->mask;
    const es_sight s = es_mask_sight(mask, i);
    const int64_t own = p->exclude_self ? es_mask_place(mask, i) : -1;
    int64_t first = least(first_but(0, s.sinks, own), first_but(s.from, s.to, own));
    if (mask->list_queries) {
        const es_list list = es_mask_list(mask, i / mask->list_queries);
        const int64_t at = list.count > 0 && list.keys[0] == own;
        if (at < list.count && list.keys[at] < es_mask_end(mask, i))
            first = least(first, list.keys[at]);
    }
    return first;
}

es_status es_mask_check_sight(const es_problem *p, es_error *err)
{
    const int64_t queries = es_problem_queries_at(p, p->n_prefixes - 1);
    int64_t prefix = 0;
    for (int64_t i = 0; i < queries; i++) {
        while (i >= es_problem_queries_at(p, prefix))
            prefix++; /* the first at which it exists; at later ones it sees no less */
        if (first_seen(p, i) >= p->prefixes[prefix])
            return es_fail_at(err, ES_E_EMPTY, i, -1, "mask.empty",
                              "let it see sinks or its own key, or begin with a longer prefix",
                              "query %lld sees none of the first %lld keys", (long long)i,
                              (long long)p->prefixes[prefix]);
    }
    return ES_OK;
}

/* Keys below n that query i sees by its list alone. */
static int64_t count_listed(const es_mask *mask, int64_t i, const es_sight *s, int64_t n)
{
    const es_list list = es_mask_list(mask, i / mask->list_queries);
    const int64_t end = least(n, es_mask_end(mask, i));
    const int64_t all = es_keys_below(list.keys, list.count, end);
    return all - es_keys_below(list.keys, all, s->sinks) -
           (es_keys_below(list.keys, all, s->to) - es_keys_below(list.keys, all, s->from));
}

double es_mask_pairs(const es_problem *p)
{
    const int64_t n = p->prefixes[p->n_prefixes - 1];
    const int64_t queries = es_problem_queries_at(p, p->n_prefixes - 1);
    double pairs = 0.0;
    for (int64_t i = 0; i < queries; i++) {
        const es_sight s = es_mask_sight(p->mask, i);
        pairs += (double)(least(s.sinks, n) + least(s.to, n) - least(s.from, n));
        if (p->mask->list_queries)
            pairs += (double)count_listed(p->mask, i, &s, n);
    }
    return pairs;
}
