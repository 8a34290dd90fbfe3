/* SPDX-License-Identifier: Apache-2.0 */
/* policy_top.c : the keys of largest weight. Needs all scores of the query: an ideal, not
 * deployable. */
#include "policy/policy_row.h"

/* Chooses the keys with the largest scores. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    es_keep_best(choice, query->scores, spec->keys);
}

const es_policy es_policy_row_top = {.name = "top", .needs = ES_POLICY_SCORES, .choose = choose};
