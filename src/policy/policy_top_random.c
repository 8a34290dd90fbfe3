/* SPDX-License-Identifier: Apache-2.0 */
/* policy_top_random.c : the keys of largest weight, and random ones that represent the rest.
 *
 * Half of `keys` are top keys unless `random` is given. Random keys are corrected by default:
 * without correction they would have almost no influence beside the top keys. */
#include "policy/policy_row.h"

/* Chooses the largest scores and draws the other keys uniformly from the rest. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    const int64_t top =
        spec->random == ES_POLICY_UNSET ? spec->keys / 2 : spec->keys - spec->random;
    es_keep_best(choice, query->scores, top);
    const int64_t draws = es_part_or(spec->random, spec->keys - choice->sure_count);
    es_chance_draws(spec, choice, draws);
}

/* Sets the number of random keys to half of all, rounded up. */
static void fit(es_policy_spec *spec, bool causal)
{
    (void)causal;
    spec->random = es_part_or(spec->random, spec->keys - spec->keys / 2);
}

const es_policy es_policy_row_top_random = {.name = "top-random",
                                            .needs = ES_POLICY_SCORES | ES_POLICY_CHANCE,
                                            .parts = ES_PART_RANDOM | ES_PART_CORRECTION |
                                                     ES_PART_REPLACEMENT,
                                            .corrects = true,
                                            .fit = fit,
                                            .choose = choose};
