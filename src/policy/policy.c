/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c : is a spec sound, and what does it choose for a query? */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "policy/policy.h"
#include "policy/policy_row.h"

/* ---- specs ---- */

void es_policy_spec_init(es_policy_spec *spec, const es_policy *policy)
{
    *spec = (es_policy_spec){.policy = policy,
                             .keys = ES_POLICY_UNSET,
                             .window = ES_POLICY_UNSET,
                             .sinks = ES_POLICY_UNSET,
                             .random = ES_POLICY_UNSET,
                             .span = ES_POLICY_UNSET,
                             .pool = ES_POLICY_UNSET};
}

/* Returns the policy of a spec; NULL stands for the first in the table, which keeps all keys. */
static const es_policy *policy_of(const es_policy_spec *spec)
{
    return spec->policy ? spec->policy : es_policy_at(0);
}

/* One number of keys: not too small, not too large to be doubled. */
static es_status check_number(int64_t number, int64_t least, const char *name, es_error *err)
{
    if (number == ES_POLICY_UNSET || (number >= least && number <= ES_POLICY_MOST))
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "policy.keys", "a number of keys, at most 2^40",
                   "%s is %lld; the minimum is %lld", name, (long long)number, (long long)least);
}

/* Fails if a part was given that the policy does not have: ignoring it would change what was
 * asked for. */
static es_status check_part(const es_policy_spec *spec, unsigned part, bool given, const char *name,
                            es_error *err)
{
    const es_policy *policy = policy_of(spec);
    if (!given || policy->parts & part)
        return ES_OK;
    return es_fail(err, ES_E_ARGUMENT, "policy.part", "leave it out, or use another policy",
                   "policy %s has no %s", policy->name, name);
}

/* Checks the range of every number of a spec. Draws with replacement are stored one by one, so
 * their number has its own limit. */
static es_status check_numbers(const es_policy_spec *spec, es_error *err)
{
    ES_TRY(check_number(spec->keys, 1, "keys", err));
    ES_TRY(check_number(spec->window, 0, "window", err));
    ES_TRY(check_number(spec->sinks, 0, "sinks", err));
    ES_TRY(check_number(spec->random, 0, "random", err));
    if (spec->with_replacement && (spec->keys > ES_POLICY_MOST_DRAWS ||
                                   spec->random > ES_POLICY_MOST_DRAWS)) /* each is remembered */
        return es_fail(err, ES_E_RANGE, "policy.keys", "draw fewer, or without replacement",
                       "%lld draws with replacement; the maximum is %d",
                       (long long)(spec->keys > spec->random ? spec->keys : spec->random),
                       ES_POLICY_MOST_DRAWS);
    if (spec->pool > ES_POLICY_MOST_POOL)
        return es_fail(err, ES_E_RANGE, "policy.keys", "a number of neighbours, at most 64",
                       "pool is %lld", (long long)spec->pool);
    ES_TRY(check_number(spec->pool, 0, "pool", err));
    return check_number(spec->span, 1, "span", err);
}

/* Checks that the policy has every part that was given. */
static es_status check_parts(const es_policy_spec *spec, es_error *err)
{
    const int64_t unset = ES_POLICY_UNSET;
    ES_TRY(check_part(spec, ES_PART_WINDOW, spec->window != unset, "window", err));
    ES_TRY(check_part(spec, ES_PART_SINKS, spec->sinks != unset, "sinks", err));
    ES_TRY(check_part(spec, ES_PART_RANDOM, spec->random != unset, "random keys", err));
    ES_TRY(check_part(spec, ES_PART_SPAN, spec->span != unset, "span", err));
    ES_TRY(check_part(spec, ES_PART_POOL, spec->pool != unset, "pool", err));
    ES_TRY(check_part(spec, ES_PART_CORRECTION, spec->correction != ES_CORRECTION_OWN,
                      "correction to choose", err));
    return check_part(spec, ES_PART_REPLACEMENT, spec->with_replacement, "draws with replacement",
                      err);
}

/* Fails unless the spec states the number of keys: a default would keep a number that was never
 * asked for. */
static es_status check_amount(const es_policy_spec *spec, es_error *err)
{
    const es_policy *policy = policy_of(spec);
    const int64_t unset = ES_POLICY_UNSET;
    const unsigned given = (spec->window != unset ? (unsigned)ES_PART_WINDOW : 0U) |
                           (spec->random != unset ? (unsigned)ES_PART_RANDOM : 0U) |
                           (spec->span != unset ? (unsigned)ES_PART_SPAN : 0U);
    if (policy == es_policy_at(0) || spec->keys != unset || policy->amount & given)
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "policy.keys", "say how many keys to keep",
                   "policy %s needs the number of keys to keep", policy->name);
}

es_status es_policy_spec_check(const es_policy_spec *spec, bool causal, es_error *err)
{
    if (!spec)
        return es_fail(err, ES_E_ARGUMENT, "policy.null", "a spec", "an argument is missing");
    if (spec->correction != ES_CORRECTION_OWN && spec->correction != ES_CORRECTION_NONE &&
        spec->correction != ES_CORRECTION_INVERSE)
        return es_fail(err, ES_E_ARGUMENT, "policy.part", "own, none or inverse", "correction %d",
                       (int)spec->correction);
    ES_TRY(check_numbers(spec, err));
    ES_TRY(check_parts(spec, err));
    ES_TRY(check_amount(spec, err));
    if (causal && policy_of(spec)->needs & ES_POLICY_FUTURE)
        return es_fail(err, ES_E_UNSUPPORTED, "policy.causal",
                       "use another policy, or a model that is not causal",
                       "policy %s uses keys after the query, which a causal model does not have",
                       policy_of(spec)->name);
    return ES_OK;
}

void es_policy_spec_fit(es_policy_spec *spec, bool causal)
{
    const es_policy *policy = policy_of(spec);
    if (spec->keys <= 0)
        return;
    if (policy->fit)
        policy->fit(spec, causal);
    if (policy->parts & ES_PART_CORRECTION)
        spec->correction = es_policy_corrects(spec) ? ES_CORRECTION_INVERSE : ES_CORRECTION_NONE;
}

bool es_policy_corrects(const es_policy_spec *spec)
{
    return spec->correction == ES_CORRECTION_OWN ? policy_of(spec)->corrects
                                                 : spec->correction == ES_CORRECTION_INVERSE;
}

/* Returns true for the policy that keeps all keys. */
static bool is_full(const es_policy_spec *spec) { return policy_of(spec) == es_policy_at(0); }

bool es_policy_spec_same(const es_policy_spec *a, const es_policy_spec *b)
{
    if (is_full(a) || is_full(b))
        return is_full(a) && is_full(b);
    return a->policy == b->policy && a->keys == b->keys && a->window == b->window &&
           a->sinks == b->sinks && a->random == b->random && a->span == b->span &&
           a->pool == b->pool && a->correction == b->correction &&
           a->with_replacement == b->with_replacement;
}

/* ---- queries ---- */

/* Checks the position of a query among its keys. A causal query is the last of the keys that it
 * sees. */
static es_status check_query(const es_policy_query *query, es_error *err)
{
    if (query->n < 1 || query->n > ES_POLICY_MOST)
        return es_fail(err, ES_E_RANGE, "policy.query", "1 to 2^40 keys", "%lld keys",
                       (long long)query->n);
    if (query->position < -1 || query->position >= query->n)
        return es_fail(err, ES_E_RANGE, "policy.query",
                       "a position among the keys, or -1 for a query that has none",
                       "position %lld of %lld keys", (long long)query->position,
                       (long long)query->n);
    if (query->causal && query->position >= 0 && query->position != query->n - 1)
        return es_fail(err, ES_E_RANGE, "policy.query",
                       "a causal query sees the keys up to its own: position = n - 1",
                       "position %lld of %lld keys", (long long)query->position,
                       (long long)query->n);
    return ES_OK;
}

/* Fails if an array that the policy reads is missing or holds a NaN, which would make the order
 * of keys depend on the sort. */
static es_status check_need(const es_policy *policy, unsigned need, const double *numbers,
                            int64_t n, const char *name, es_error *err)
{
    if (!(policy->needs & need))
        return ES_OK;
    if (!numbers)
        return es_fail(err, ES_E_ARGUMENT, "policy.needs", "give the query what its policy needs",
                       "policy %s needs %s", policy->name, name);
    for (int64_t j = 0; j < n; j++)
        if (isnan(numbers[j]))
            return es_fail_at(err, ES_E_NONFINITE, 0, j, "policy.needs", "remove the NaN",
                              "one of the %s is not a number", name);
    return ES_OK;
}

/* Checks the arrays that the policy reads: scores, distances, accumulated and observed weights. */
static es_status check_needs(const es_policy *policy, const es_policy_query *query, es_error *err)
{
    const int64_t n = query->n;
    ES_TRY(check_need(policy, ES_POLICY_SCORES, query->scores, n, "scores", err));
    ES_TRY(check_need(policy, ES_POLICY_REACH, query->reach, n, "distances of values", err));
    ES_TRY(check_need(policy, ES_POLICY_HISTORY, query->history, n, "weights had before", err));
    return check_need(policy, ES_POLICY_OBSERVED, query->observed, n, "weights observed", err);
}

/* ---- choices ---- */

/* Reserves space for n keys in a choice, which is reused from query to query, and empties it. */
static es_status allocate(es_choice *choice, int64_t n, es_mem_limit *budget, es_error *err)
{
    if (choice->capacity < n) {
        es_choice_free(choice);
        choice->budget = budget;
        ES_TRY(ES_MEM_NEW(budget, choice->sure, n, "keys", err));
        ES_TRY(ES_MEM_NEW(budget, choice->rest, n, "keys", err));
        ES_TRY(ES_MEM_NEW(budget, choice->kept, n, "probabilities", err));
        ES_TRY(ES_MEM_NEW(budget, choice->factors, n, "factors", err));
        choice->capacity = n;
    }
    choice->n = n;
    choice->sure_count = choice->rest_count = choice->draws = 0;
    choice->chance = ES_CHANCE_NONE;
    choice->factor = 1.0;
    return ES_OK;
}

es_status es_policy_choose(const es_policy_spec *spec, const es_policy_query *query,
                           es_mem_limit *budget, es_choice *choice, es_error *err)
{
    if (!spec || !query || !choice)
        return es_fail(err, ES_E_ARGUMENT, "policy.null", "a spec, a query and a choice",
                       "an argument is missing");
    const es_policy *policy = policy_of(spec);
    ES_TRY(check_query(query, err));
    ES_TRY(es_policy_spec_check(spec, query->causal, err));
    if (!policy->choose)
        return es_fail(err, ES_E_UNSUPPORTED, "policy.measured",
                       "use es_linformer_project() instead", "policy %s keeps no set of keys",
                       policy->name);
    ES_TRY(check_needs(policy, query, err));
    ES_TRY(allocate(choice, query->n, budget, err));
    if (spec->keys >= query->n && !spec->with_replacement) /* n draws are not all n keys */
        es_keep_range(choice, 0, query->n);
    else
        policy->choose(spec, query, choice);
    return ES_OK;
}

void es_choice_free(es_choice *choice)
{
    es_mem_free(choice->budget, choice->sure);
    es_mem_free(choice->budget, choice->rest);
    es_mem_free(choice->budget, choice->kept);
    es_mem_free(choice->budget, choice->factors);
    *choice = (es_choice){0};
}

/* Returns the expected number of keys of a choice. */
double es_choice_keys(const es_choice *choice)
{
    double keys = (double)choice->sure_count;
    if (choice->chance == ES_CHANCE_EACH)
        for (int64_t i = 0; i < choice->rest_count; i++)
            keys += choice->kept[i];
    else
        keys += (double)choice->draws;
    return keys;
}
