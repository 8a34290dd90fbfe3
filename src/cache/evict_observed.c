/* SPDX-License-Identifier: Apache-2.0 */
/* evict_observed.c : keys by the mean weight that they got from the queries that see them:
 *
 *     s_j = mean over heads of (1/(P - j)) sum_{i = j}^{P-1} w_ij
 */
#include "base/error.h"
#include "cache/evict_row.h"

static es_status score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err)
{
    (void)spec;
    ES_TRY(es_group_mean(p, 0, p->prompt, score, err));
    for (int64_t j = 0; j < p->prompt; j++)
        score[j] /= (double)(p->prompt - j);
    return ES_OK;
}

const es_eviction es_eviction_row_observed = {.name = "observed",
                                              .about =
                                                  "keys of the largest mean weight over the prompt",
                                              .source = "kvpress ObservedAttentionPress",
                                              .score = score};
