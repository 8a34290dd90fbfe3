/* SPDX-License-Identifier: Apache-2.0 */
/* policy_local.c : the context is cut into blocks of `span` keys; a query sees its own block.
 *
 * A block is as long as `keys` unless given. Early in its block a causal query sees little: this is
 * the price of blocks, and why windows are better. */
#include "policy/policy_row.h"

/* Chooses the block of `span` keys that contains the query's position. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    const int64_t span = es_part_or(spec->span, spec->keys), at = query->position;
    if (at >= 0)
        es_keep_range(choice, at / span * span, at / span * span + span);
}

/* Sets the length of a block to the number of keys. */
static void fit(es_policy_spec *spec, bool causal)
{
    (void)causal;
    spec->span = es_part_or(spec->span, spec->keys);
}

const es_policy es_policy_row_local = {.name = "local",
                                       .parts = ES_PART_SPAN,
                                       .amount = ES_PART_SPAN,
                                       .deployable = true,
                                       .fit = fit,
                                       .choose = choose};
