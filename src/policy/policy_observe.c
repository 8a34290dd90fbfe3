/* SPDX-License-Identifier: Apache-2.0 */
/* policy_observe.c : keys that the last few queries attended to (SnapKV).
 *
 * The last `span` keys are always kept: 32 by default, all of them if `keys` are fewer, half on
 * either side of a query that sees both. Every other key gets the largest weight that the last
 * `span` queries gave to it or to one of its `pool` neighbours on either side (3 by default): a
 * maximum pooling, so that the context of an important key is kept with it. The largest of these
 * weights fill up `keys`. */
#include "policy/policy_row.h"

enum { NEIGHBOURS = 3 };

/* Computes the pooled weight of every key outside the window into choice->kept, which is free here
 * because this policy draws no keys. */
static void judge(const double *observed, int64_t pool, es_choice *choice)
{
    es_keep_others(choice);
    for (int64_t i = 0; i < choice->rest_count; i++) {
        const int64_t key = choice->rest[i];
        double most = observed[key];
        for (int64_t k = i - pool; k <= i + pool; k++) {
            if (k < 0 || k >= choice->rest_count)
                continue;
            const int64_t other = choice->rest[k]; /* the window may stand between */
            if (other >= key - pool && other <= key + pool && observed[other] > most)
                most = observed[other];
        }
        choice->kept[key] = most;
    }
}

/* Chooses the window, then the keys with the largest pooled weight from the last queries. */
static void choose(const es_policy_spec *spec, const es_policy_query *query, es_choice *choice)
{
    const int64_t span = es_part_or(spec->span, ES_POLICY_SPAN);
    const int64_t near = span < spec->keys ? span : spec->keys;
    es_keep_window(choice, query, es_part_window(spec, query->causal, near));
    judge(query->observed, es_part_or(spec->pool, NEIGHBOURS), choice);
    es_keep_best(choice, choice->kept, spec->keys - choice->sure_count);
}

/* On two sides a window has an odd number of keys. Keys beyond it make up for that, if any. */
static void fit(es_policy_spec *spec, bool causal)
{
    spec->span = es_part_or(spec->span, ES_POLICY_SPAN);
    spec->pool = es_part_or(spec->pool, NEIGHBOURS);
    if (spec->keys > spec->span)
        spec->window = es_part_window(spec, causal, spec->span);
    else
        spec->window = es_part_or(spec->window, causal ? spec->keys : (spec->keys - 1) / 2);
}

const es_policy es_policy_row_observe = {.name = "observe",
                                         .alias = "snapkv",
                                         .needs = ES_POLICY_OBSERVED,
                                         .parts = ES_PART_WINDOW | ES_PART_SPAN | ES_PART_POOL,
                                         .deployable = true,
                                         .fit = fit,
                                         .choose = choose};
