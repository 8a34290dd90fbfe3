/* SPDX-License-Identifier: Apache-2.0 */
/* evict_random.c : keys at random, the same for the same seed, layer, unit and place. */
#include "cache/evict_row.h"

/* The finaliser of SplitMix64. */
static uint64_t mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static es_status score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err)
{
    const uint64_t unit =
        mix(mix(mix((uint64_t)spec->seed) ^ (uint64_t)p->layer) ^ (uint64_t)p->unit);
    (void)err;
    for (int64_t j = 0; j < p->prompt; j++)
        score[j] = (double)(mix(unit ^ (uint64_t)j) >> 11) * 0x1p-53;
    return ES_OK;
}

const es_eviction es_eviction_row_random = {.name = "random",
                                            .about = "keys at random, for comparison",
                                            .source = "kvpress RandomPress",
                                            .takes = ES_TAKES_SEED,
                                            .score = score};
