/* SPDX-License-Identifier: Apache-2.0 */
/* policy_window.c : the nearest keys and nothing else. */
#include "policy/policy_row.h"

/* Chooses the nearest keys. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    es_keep_window(choice, query, es_part_window(spec, query->causal, spec->keys));
}

/* Sets the window to the number of keys; a window on both sides has an odd number of keys. */
static void fit(es_policy_spec *spec, bool causal)
{
    spec->window = es_part_or(spec->window, causal ? spec->keys : (spec->keys - 1) / 2);
}

const es_policy es_policy_row_window = {.name = "window",
                                        .parts = ES_PART_WINDOW,
                                        .amount = ES_PART_WINDOW,
                                        .deployable = true,
                                        .fit = fit,
                                        .choose = choose};
