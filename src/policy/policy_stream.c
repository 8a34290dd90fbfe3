/* SPDX-License-Identifier: Apache-2.0 */
/* policy_stream.c : the first keys and the nearest ones (StreamingLLM).
 *
 * The default is 4 sinks and a window of all other keys. */
#include "policy/policy_row.h"

enum { SINKS = 4 };

/* Chooses the first keys (attention sinks) and the nearest ones. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    const int64_t sinks = es_part_sinks(spec, SINKS);
    es_keep_range(choice, 0, sinks);
    es_keep_window(choice, query, es_part_window(spec, query->causal, spec->keys - sinks));
}

/* Sets the number of sinks and the window from the number of keys. */
static void fit(es_policy_spec *spec, bool causal) { es_fit_window(spec, SINKS, causal); }

const es_policy es_policy_row_stream = {.name = "stream",
                                        .alias = "streamingllm",
                                        .parts = ES_PART_WINDOW | ES_PART_SINKS,
                                        .amount = ES_PART_WINDOW,
                                        .deployable = true,
                                        .fit = fit,
                                        .choose = choose};
