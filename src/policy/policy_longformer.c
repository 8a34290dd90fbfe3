/* SPDX-License-Identifier: Apache-2.0 */
/* policy_longformer.c : the nearest keys, and global tokens that every query sees.
 *
 * The default is 1 global token, such as [CLS]. Global tokens also see every key themselves; this
 * is left out, because their own queries would have no error. */
#include "policy/policy_row.h"

enum { GLOBAL = 1 };

/* Chooses the global keys and a window of what they leave. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    const int64_t global = es_part_sinks(spec, GLOBAL);
    es_keep_range(choice, 0, global);
    es_keep_window(choice, query, es_part_window(spec, query->causal, spec->keys - global));
}

/* Sets the number of global keys and the window from the number of keys. */
static void fit(es_policy_spec *spec, bool causal) { es_fit_window(spec, GLOBAL, causal); }

const es_policy es_policy_row_longformer = {.name = "longformer",
                                            .parts = ES_PART_WINDOW | ES_PART_SINKS,
                                            .amount = ES_PART_WINDOW,
                                            .deployable = true,
                                            .fit = fit,
                                            .choose = choose};
