/* SPDX-License-Identifier: Apache-2.0 */
/* policy_random.c : keys at random, from all that are not in the window and not sinks.
 *
 * Nothing is sure unless a window or sinks are given. `random` draws, or as many as `keys` leaves;
 * without replacement unless asked; every random key counts as it is unless asked, which matters
 * only where some keys are sure. */
#include "policy/policy_row.h"

/* Chooses sinks and window if they were given, and draws the other keys uniformly. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    es_keep_range(choice, 0, es_part_or(spec->sinks, 0));
    if (spec->window != ES_POLICY_UNSET)
        es_keep_window(choice, query, spec->window);
    const int64_t draws = es_part_or(spec->random, spec->keys - choice->sure_count);
    es_chance_draws(spec, choice, draws);
}

/* Without a window nothing near is sure, and random keys are what `keys` leaves: both stay unset.
 */
static void fit(es_policy_spec *spec, bool causal)
{
    (void)causal;
    spec->sinks = es_part_or(spec->sinks, 0);
}

const es_policy es_policy_row_random = {.name = "random",
                                        .needs = ES_POLICY_CHANCE,
                                        .parts = ES_PART_WINDOW | ES_PART_SINKS | ES_PART_RANDOM |
                                                 ES_PART_CORRECTION | ES_PART_REPLACEMENT,
                                        .amount = ES_PART_RANDOM,
                                        .deployable = true,
                                        .fit = fit,
                                        .choose = choose};
