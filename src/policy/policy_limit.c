/* SPDX-License-Identifier: Apache-2.0 */
/* policy_limit.c : the keys that matter most, each with the probability that costs least.
 *
 * p_j = min(1, tau a_j) and c_j = 1/p_j with a_j = w_j |u_j|; tau is such that `keys` are kept on
 * average. To first order no other unbiased rule that keeps keys independently has a smaller error
 * (THEORY 13). A bound, not a policy for use: a_j needs the output, which the policy is meant to
 * save. */
#include <math.h>

#include "policy/policy_row.h"

static const double LEAST = 1e-300; /* probability; 1/p must be a number */

/* a = w |u| over the largest of them, (n). */
static void weigh(const es_policy_query *query, double *a)
{
    double most = -(double)INFINITY;
    for (int64_t j = 0; j < query->n; j++) {
        a[j] = query->scores[j] + log(query->reach[j]); /* -inf of 0 */
        most = fmax(most, a[j]);
    }
    for (int64_t j = 0; j < query->n; j++)
        a[j] = most > -(double)INFINITY ? exp(a[j] - most) : 0.0;
}

/* Returns the number of sure keys. With q - 1 of them, tau = (m - q + 1)/(sum of the others), and
 * the q-th is sure, too, if tau a_q >= 1, that is a_q (m - q) >= the sum of the keys beyond it. If
 * this holds for q it holds for every smaller q. So the search starts at the small end, where
 * adding small numbers first keeps the digits. */
int64_t es_limit_sure(const double *by, const int64_t *falling, int64_t count, double beyond,
                      double m, double *rest)
{
    int64_t sure = count;
    for (; sure > 0; sure--) {
        const double a = by[falling[sure - 1]];
        if (a > 0.0 && a * (m - (double)sure) >= beyond)
            break;
        beyond += a;
    }
    *rest = beyond;
    return sure;
}

/* a (n) is in choice->factors, where c_i replaces what has been read already. */
static void by_chance(es_choice *choice, double tau)
{
    int64_t count = 0;
    es_keep_others(choice);
    for (int64_t i = 0; i < choice->rest_count; i++) {
        const double p = fmin(1.0, tau * choice->factors[choice->rest[i]]);
        if (p < LEAST)
            continue;
        choice->rest[count] = choice->rest[i];
        choice->kept[count] = p;
        choice->factors[count++] = 1.0 / p;
    }
    choice->rest_count = count;
    choice->chance = count > 0 ? ES_CHANCE_EACH : ES_CHANCE_NONE;
}

/* Chooses keys with p_j = min(1, tau a_j) (THEORY 13): the largest a_j surely, the others by
 * chance. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    const double m = (double)spec->keys;
    double *a = choice->factors, beyond = 0.0, rest;
    weigh(query, a);
    es_keep_others(choice); /* all of them */
    es_best_first(a, choice->rest, query->n, spec->keys);
    for (int64_t i = spec->keys; i < query->n; i++)
        beyond += a[choice->rest[i]];
    const int64_t sure = es_limit_sure(a, choice->rest, spec->keys, beyond, m, &rest);
    es_keep_best(choice, a, sure);
    if (rest > 0.0)
        by_chance(choice, (m - (double)sure) / rest);
    else /* nothing else can move the output: what has weight, so that there is one */
        es_keep_best(choice, query->scores, spec->keys - sure);
}

const es_policy es_policy_row_limit = {.name = "limit",
                                       .needs =
                                           ES_POLICY_SCORES | ES_POLICY_REACH | ES_POLICY_CHANCE,
                                       .corrects = true,
                                       .choose = choose};
