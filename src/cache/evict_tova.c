/* SPDX-License-Identifier: Apache-2.0 */
/* evict_tova.c : keys by the weight that the present query gives them (TOVA).
 *
 * One set for all heads of a layer, by the mean of their weights; with scope=kv one for each unit.
 * The original protects no key, kvpress the last one of a prompt. */
#include <string.h>

#include "base/error.h"
#include "cache/evict_row.h"

/* A unit that scores for the whole layer. */
static es_evict_prompt whole_layer(const es_evict_prompt *p)
{
    es_evict_prompt all = *p;
    all.first = 0;
    all.count = p->all;
    return all;
}

static es_status score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err)
{
    const es_evict_prompt all = whole_layer(p);
    return es_group_mean(spec->scope ? p : &all, p->prompt - 1, p->prompt, score, err);
}

static void resolve(es_evict_spec *spec, es_evict_mode mode)
{
    if (spec->protect == ES_EVICT_UNSET)
        spec->protect = mode == ES_EVICT_PROMPT;
}

static int64_t last(const es_evict_spec *spec) { return spec->protect; }

const es_eviction es_eviction_row_tova = {.name = "tova",
                                          .about = "keys that the present query looks at",
                                          .source = "TOVA (arXiv 2401.06104)",
                                          .takes = ES_TAKES_SCOPE | ES_TAKES_PROTECT,
                                          .decode = ES_DECODE_BY_WEIGHT,
                                          .score = score,
                                          .resolve = resolve,
                                          .last = last};
