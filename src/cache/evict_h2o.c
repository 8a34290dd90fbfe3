/* SPDX-License-Identifier: Apache-2.0 */
/* evict_h2o.c : heavy hitters, keys of the largest summed weight, and the last ones (H2O).
 *
 * Prompt: s_j = sum over heads and queries j <= i < P of w_ij. Decode: a held key's sum grows with
 * each step, over the keys that are held; of those that are not among the `recent` newest, the one
 * with the smallest sum goes, and its sum with it. */
#include "cache/evict_row.h"

static es_status score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err)
{
    (void)spec; /* the mean over heads has the order of the sum */
    return es_group_mean(p, 0, p->prompt, score, err);
}

static void resolve(es_evict_spec *spec, es_evict_mode mode)
{
    (void)mode;
    if (spec->recent == ES_EVICT_UNSET)
        spec->recent = spec->keys / 2;
}

static int64_t last(const es_evict_spec *spec) { return spec->recent; }

const es_eviction es_eviction_row_h2o = {.name = "h2o",
                                         .alias = "heavy",
                                         .about =
                                             "the last keys and those of the largest summed weight",
                                         .source = "H2O (arXiv 2306.14048)",
                                         .takes = ES_TAKES_RECENT,
                                         .decode = ES_DECODE_BY_SUM,
                                         .score = score,
                                         .resolve = resolve,
                                         .last = last};
