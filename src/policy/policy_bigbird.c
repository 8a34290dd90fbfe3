/* policy_bigbird.c : global tokens, the nearest keys, and some others at random.
 *
 * 4 global tokens unless told otherwise (that they see every key themselves is left out: their own
 * queries would have no error). Of what `keys` leaves, half is window and the others are random,
 * so that near an end of the context, where the window has less, more are random. Random keys count
 * as they are, as published; corrected, each stands for |R|/m keys (THEORY 13). */
#include "policy/policy_row.h"

enum { GLOBAL = 4 };

static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    const int64_t global = es_part_sinks(spec, GLOBAL), left = spec->keys - global;
    const int64_t window = es_part_window(
        spec, query, spec->random == ES_POLICY_UNSET ? left / 2 : left - spec->random);
    es_keep_range(choice, 0, global);
    es_keep_window(choice, query, window);
    const int64_t draws = es_part_or(spec->random, spec->keys - choice->sure_count);
    es_chance_draws(spec, choice, draws);
}

/* The query's own key is in any window, and where global tokens are all, one too many. */
static void fit(es_policy_spec *spec)
{
    if (spec->keys <= GLOBAL && spec->sinks == ES_POLICY_UNSET)
        spec->sinks = spec->keys - 1;
}

const es_policy es_policy_row_bigbird = {
    .name = "bigbird",
    .about = "global tokens, the nearest keys, others at random (BigBird)",
    .needs = ES_POLICY_CHANCE,
    .parts =
        ES_PART_WINDOW | ES_PART_SINKS | ES_PART_RANDOM | ES_PART_CORRECTION | ES_PART_REPLACEMENT,
    .amount = ES_PART_WINDOW | ES_PART_RANDOM,
    .deployable = true,
    .fit = fit,
    .choose = choose};
