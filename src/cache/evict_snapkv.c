/* SPDX-License-Identifier: Apache-2.0 */
/* evict_snapkv.c : keys that the last queries of the prompt look at (SnapKV).
 *
 *     s_j = mean over heads of pool_j( (1/W) sum_{i = P-W}^{P-1} w_ij ),   j < P - W
 *
 * The last W keys stay. The mean pools with zeros beyond both ends and always divides by `kernel`;
 * the maximum has nothing beyond the ends. Heads are pooled one by one: for the maximum that is not
 * the pool of their mean. SnapKV keeps a set for each query head; here, as in kvpress, heads that
 * share keys have one. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cache/evict_row.h"

/* Returns the pool of votes (count) around key j. */
static double pool_at(const es_evict_spec *spec, const double *votes, int64_t count, int64_t j)
{
    const int64_t half = spec->kernel / 2;
    const int64_t from = j > half ? j - half : 0, to = j + half < count ? j + half + 1 : count;
    double sum = 0.0, most = votes[j];
    for (int64_t i = from; i < to; i++) {
        sum += votes[i];
        most = votes[i] > most ? votes[i] : most;
    }
    return spec->pooling ? most : sum / (double)spec->kernel;
}

/* Adds the pooled votes of all heads of the unit. */
static es_status add_heads(const es_evict_spec *spec, const es_evict_prompt *p, double *votes,
                           double *score, es_error *err)
{
    const int64_t count = p->prompt - spec->window;
    for (int64_t h = 0; h < p->count; h++) {
        memset(votes, 0, (size_t)p->prompt * sizeof *votes);
        ES_TRY(es_votes_add(p, &p->heads[p->first + h], count, p->prompt, votes, err));
        for (int64_t j = 0; j < count; j++)
            score[j] += pool_at(spec, votes, count, j) / (double)(spec->window * p->count);
    }
    return ES_OK;
}

/* A prompt within the window keeps its last keys, whatever they score. */
static es_status score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err)
{
    double *votes;
    memset(score, 0, (size_t)p->prompt * sizeof *score);
    if (p->prompt <= spec->window)
        return ES_OK;
    ES_TRY(ES_MEM_NEW(p->budget, votes, p->prompt, "votes of queries", err));
    const es_status status = add_heads(spec, p, votes, score, err);
    es_mem_free(p->budget, votes);
    return status;
}

static int64_t last(const es_evict_spec *spec) { return spec->window; }

const es_eviction es_eviction_row_snapkv = {
    .name = "snapkv",
    .about = "the last keys and those that the last queries of the prompt look at",
    .source = "SnapKV (arXiv 2404.14469), as in kvpress",
    .takes = ES_TAKES_WINDOW | ES_TAKES_KERNEL | ES_TAKES_POOLING,
    .own = {.window = 32, .kernel = 5},
    .score = score,
    .last = last};
