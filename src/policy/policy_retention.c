/* SPDX-License-Identifier: Apache-2.0 */
/* policy_retention.c : each key is retained on its own, with the same probability.
 *
 * As random, but the number of keys is itself left to chance: `random`, or what `keys` leaves, is
 * its mean. */
#include "policy/policy_row.h"

/* Chooses sinks and window if they were given, and keeps each other key independently with one
 * probability. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    es_keep_range(choice, 0, es_part_or(spec->sinks, 0));
    if (spec->window != ES_POLICY_UNSET)
        es_keep_window(choice, query, spec->window);
    const int64_t mean = es_part_or(spec->random, spec->keys - choice->sure_count);
    es_chance_each(spec, choice, (double)mean);
}

/* Without a window nothing near is sure, and random keys are what `keys` leaves: both stay unset.
 */
static void fit(es_policy_spec *spec, bool causal)
{
    (void)causal;
    spec->sinks = es_part_or(spec->sinks, 0);
}

const es_policy es_policy_row_retention = {.name = "retention",
                                           .needs = ES_POLICY_CHANCE,
                                           .parts = ES_PART_WINDOW | ES_PART_SINKS |
                                                    ES_PART_RANDOM | ES_PART_CORRECTION,
                                           .amount = ES_PART_RANDOM,
                                           .deployable = true,
                                           .fit = fit,
                                           .choose = choose};
