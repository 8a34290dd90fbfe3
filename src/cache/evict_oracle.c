/* SPDX-License-Identifier: Apache-2.0 */
/* evict_oracle.c : keys by the weight that later queries of the full model give them. No cache can
 * know that; it is a bound for policies that rank keys by weight, not for all policies. */
#include <string.h>

#include "cache/evict_row.h"

static es_status score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err)
{
    (void)spec;
    (void)err;
    memcpy(score, p->given, (size_t)p->prompt * sizeof *score);
    return ES_OK;
}

const es_eviction es_eviction_row_oracle = {
    .name = "oracle",
    .about = "keys that later queries look at: no cache can know them",
    .source = "none: a bound for policies that rank keys by weight",
    .full = true,
    .score = score};
