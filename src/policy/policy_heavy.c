/* SPDX-License-Identifier: Apache-2.0 */
/* policy_heavy.c : the nearest keys and heavy hitters, H2O's rule.
 *
 * Half of `keys` is the window unless it is given; the others are those of the remaining keys that
 * queries before this one have given the most weight in all. */
#include "policy/policy_row.h"

/* Chooses a window, then the remaining keys with the largest accumulated weight. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    es_keep_window(choice, query, es_part_window(spec, query->causal, spec->keys / 2));
    es_keep_best(choice, query->history, spec->keys - choice->sure_count);
}

/* Sets the window to half of the keys. */
static void fit(es_policy_spec *spec, bool causal)
{
    spec->window = es_part_window(spec, causal, spec->keys / 2);
}

const es_policy es_policy_row_heavy = {.name = "heavy",
                                       .alias = "h2o",
                                       .needs = ES_POLICY_HISTORY,
                                       .parts = ES_PART_WINDOW,
                                       .deployable = true,
                                       .fit = fit,
                                       .choose = choose};
