/* SPDX-License-Identifier: Apache-2.0 */
/* policy_strided.c : the nearest keys and every s-th, counted from the query (Sparse Transformer).
 *
 * s is `span`, and the window is as long unless it is given. With `keys` alone, s is the smallest
 * stride for which at most half of the keys are strided, and the window has the others. */
#include "policy/policy_row.h"

/* Chooses every stride-th key and a window. Without a given stride, half of the keys are strided.
 */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    const int64_t n = query->n, at = query->position, others = spec->keys - spec->keys / 2;
    const int64_t stride = es_part_or(spec->span, others > 0 ? (n + others - 1) / others : n);
    const int64_t strided = (n + stride - 1) / stride; /* at most */
    const int64_t window = es_part_window(
        spec, query->causal, spec->keys == ES_POLICY_UNSET ? stride : spec->keys - strided);
    const int64_t near = at < 0 ? n : at + (query->causal ? 1 : 0) - window;
    int64_t key = at < 0 ? 0 : at % stride;
    for (; key < near && key < n; key += stride)
        es_keep_range(choice, key, key + 1);
    es_keep_window(choice, query, window);
    for (; key < n; key += stride)
        es_keep_range(choice, key, key + 1);
}

const es_policy es_policy_row_strided = {.name = "strided",
                                         .parts = ES_PART_WINDOW | ES_PART_SPAN,
                                         .amount = ES_PART_SPAN,
                                         .deployable = true,
                                         .choose = choose};
