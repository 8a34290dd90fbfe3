/* SPDX-License-Identifier: Apache-2.0 */
/* policy_bigbird.c : global tokens, the nearest keys, and random keys.
 *
 * The default is 4 global tokens. (Global tokens also see every key themselves; this is left out,
 * because their own queries would have no error.) Half of the other keys are the window and half
 * are random; near an end of the context, where the window is shorter, more are random. As
 * published, random keys have factor 1; with correction each counts |R|/m times (THEORY 13). */
#include "policy/policy_row.h"

enum { GLOBAL = 4 };

/* Returns the window: half of the keys that the global ones leave, or all that the given number
 * of random keys leaves. */
static int64_t window_of(const es_policy_spec *spec, int64_t global, bool causal)
{
    const int64_t left = spec->keys - global;
    return es_part_window(spec, causal,
                          spec->random == ES_POLICY_UNSET ? left / 2 : left - spec->random);
}

/* Chooses global keys, a window, and random keys among the rest. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    const int64_t global = es_part_sinks(spec, GLOBAL);
    es_keep_range(choice, 0, global);
    es_keep_window(choice, query, window_of(spec, global, query->causal));
    const int64_t draws = es_part_or(spec->random, spec->keys - choice->sure_count);
    es_chance_draws(spec, choice, draws);
}

/* On two sides the query's own key is in any window, and where global tokens are all, one too many.
 * Random keys stay what `keys` leaves: near an end they are more. */
static void fit(es_policy_spec *spec, bool causal)
{
    if (!causal && spec->keys <= GLOBAL && spec->window == ES_POLICY_UNSET)
        spec->sinks = es_part_or(spec->sinks, spec->keys - 1);
    spec->sinks = es_part_sinks(spec, GLOBAL);
    spec->window = window_of(spec, spec->sinks, causal);
}

const es_policy es_policy_row_bigbird = {.name = "bigbird",
                                         .needs = ES_POLICY_CHANCE,
                                         .parts = ES_PART_WINDOW | ES_PART_SINKS | ES_PART_RANDOM |
                                                  ES_PART_CORRECTION | ES_PART_REPLACEMENT,
                                         .amount = ES_PART_WINDOW | ES_PART_RANDOM,
                                         .deployable = true,
                                         .fit = fit,
                                         .choose = choose};
