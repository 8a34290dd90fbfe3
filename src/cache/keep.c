/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c : sets of keys from their scores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cache/evict_row.h"

/* A key, and how much it is wanted. */
typedef struct ranked {
    double score;
    int64_t at; /* unit * prompt + place: of equal scores the lower unit and place come first */
} ranked;

static int better_first(const void *a_, const void *b_)
{
    const ranked *a = a_, *b = b_;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static int64_t at_most(int64_t a, int64_t most) { return a < most ? a : most > 0 ? most : 0; }

/* Returns how many first keys always stay, and how many last ones in addition. */
static int64_t first_of(const es_evict_spec *spec) { return at_most(spec->sinks, spec->keys); }
static int64_t last_of(const es_evict_spec *spec)
{
    const es_eviction *policy = spec->policy;
    return policy->last ? at_most(policy->last(spec), spec->keys - first_of(spec)) : 0;
}

bool es_evict_chooses(const es_evict_spec *spec)
{
    return !spec->policy->score || first_of(spec) + last_of(spec) < spec->keys;
}

/* Ranks all keys of a unit; those that always stay have the score +inf, and so come first. */
static void rank_unit(const es_evict_spec *spec, int64_t prompt, const double *score, int64_t unit,
                      ranked *out)
{
    const int64_t first = first_of(spec), last = last_of(spec);
    for (int64_t j = 0; j < prompt; j++) {
        const bool stays = j < first || j >= prompt - last;
        out[j] = (ranked){stays ? (double)INFINITY : score[j], unit * prompt + j};
    }
}

es_status es_evict_keep(const es_evict_spec *spec, int64_t prompt, const double *score,
                        uint8_t *kept, es_mem_limit *budget, es_error *err)
{
    ranked *order;
    memset(kept, spec->keys >= prompt, (size_t)prompt);
    if (spec->keys >= prompt)
        return ES_OK;
    ES_TRY(ES_MEM_NEW(budget, order, prompt, "the order of keys", err));
    rank_unit(spec, prompt, score, 0, order);
    qsort(order, (size_t)prompt, sizeof *order, better_first);
    for (int64_t i = 0; i < spec->keys; i++)
        kept[order[i].at] = 1;
    es_mem_free(budget, order);
    return ES_OK;
}

es_status es_evict_share(const es_evict_spec *spec, int64_t units, int64_t prompt,
                         const double *score, uint8_t *kept, es_mem_limit *budget, es_error *err)
{
    const int64_t own = (int64_t)floor(spec->alpha * (double)spec->keys);
    ranked *order;
    memset(kept, spec->keys >= prompt, (size_t)(units * prompt));
    if (spec->keys >= prompt)
        return ES_OK;
    ES_TRY(ES_MEM_NEW_2D(budget, order, units, prompt, "the order of keys", err));
    for (int64_t u = 0; u < units; u++) {
        ranked *unit = order + u * prompt;
        rank_unit(spec, prompt, score + u * prompt, u, unit);
        qsort(unit, (size_t)prompt, sizeof *unit, better_first);
        for (int64_t i = 0; i < own; i++)
            unit[i].score = (double)INFINITY;
    }
    qsort(order, (size_t)(units * prompt), sizeof *order, better_first);
    for (int64_t i = 0; i < units * spec->keys; i++)
        kept[order[i].at] = 1;
    es_mem_free(budget, order);
    return ES_OK;
}
