/* SPDX-License-Identifier: Apache-2.0 */
/* policy_draw.c : one outcome of a choice, a function of its address. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "policy/policy_row.h"
#include "random/random.h"

/* Uniforms of EACH: keys of one token, so that rows of them are made at a time. */
enum { KEYS_OF_TOKEN = 256 };

/* Reserves space for `count` keys and their factors; a buffer that is large enough is reused. */
static es_status allocate(es_kept *kept, int64_t count, es_mem_limit *budget, es_error *err)
{
    kept->count = 0;
    if (count <= kept->capacity)
        return ES_OK;
    es_kept_free(kept);
    kept->budget = budget;
    ES_TRY(ES_MEM_NEW(budget, kept->keys, count, "keys", err));
    ES_TRY(ES_MEM_NEW(budget, kept->log_factor, count, "factors", err));
    kept->capacity = count;
    return ES_OK;
}

void es_kept_free(es_kept *kept)
{
    es_mem_free(kept->budget, kept->keys);
    es_mem_free(kept->budget, kept->log_factor);
    *kept = (es_kept){0};
}

/* ---- what chance picks: kept->keys (count), increasing; log_factor beside them ---- */

/* Indices of R, in any order. */
static es_status pick_without(const es_choice *choice, const es_address *at, int64_t *picked,
                              es_error *err)
{
    es_permutation shuffle;
    ES_TRY(es_permutation_init(at, choice->rest_count, &shuffle, err));
    for (int64_t i = 0; i < choice->draws; i++)
        picked[i] = es_permutation_at(&shuffle, i);
    return ES_OK;
}

/* Draws `choice->draws` keys of the rest and sorts them. Every draw has the same factor |R|/m, or
 * 1 without correction. */
static es_status pick_draws(const es_choice *choice, const es_address *at, es_kept *kept,
                            es_error *err)
{
    const double log_factor = log(choice->factor);
    ES_TRY(choice->chance == ES_CHANCE_WITHOUT
               ? pick_without(choice, at, kept->keys, err)
               : es_integer_rows(at, choice->draws, 1, choice->rest_count, kept->keys, err));
    es_best_first(NULL, kept->keys, choice->draws, choice->draws); /* increasing, as R is */
    for (int64_t i = 0; i < choice->draws; i++) {
        kept->keys[i] = choice->rest[kept->keys[i]];
        kept->log_factor[i] = log_factor;
    }
    kept->count = choice->draws;
    return ES_OK;
}

/* A key's number is the same whatever else is in R. */
static es_status pick_each(const es_choice *choice, const es_address *at, es_kept *kept,
                           es_error *err)
{
    double uniform[KEYS_OF_TOKEN];
    int64_t made = -1; /* the token whose numbers are there */
    es_address here = *at;
    for (int64_t i = 0; i < choice->rest_count; i++) {
        const int64_t key = choice->rest[i];
        if (key / KEYS_OF_TOKEN != made) {
            made = key / KEYS_OF_TOKEN;
            here.token = (uint64_t)made;
            ES_TRY(es_uniform_rows(&here, 1, KEYS_OF_TOKEN, uniform, err));
        }
        if (uniform[key % KEYS_OF_TOKEN] < choice->kept[i]) {
            kept->keys[kept->count] = key;
            kept->log_factor[kept->count++] = log(choice->factors[i]);
        }
    }
    return ES_OK;
}

/* Sure keys among those that were picked: both increase, the largest goes last. */
static void merge(const es_choice *choice, es_kept *kept)
{
    int64_t picked = kept->count, sure = choice->sure_count, to = picked + sure;
    kept->count = to;
    while (sure > 0) {
        if (picked > 0 && kept->keys[picked - 1] > choice->sure[sure - 1]) {
            kept->keys[--to] = kept->keys[--picked];
            kept->log_factor[to] = kept->log_factor[picked];
        } else {
            kept->keys[--to] = choice->sure[--sure];
            kept->log_factor[to] = 0.0;
        }
    }
}

es_status es_choice_draw(const es_choice *choice, const es_address *at, es_kept *kept,
                         es_error *err)
{
    if (!choice || !at || !kept)
        return es_fail(err, ES_E_ARGUMENT, "policy.null", "a choice, an address and where to",
                       "an argument is missing");
    const es_address first = {.seed = at->seed, .experiment = at->experiment, .cell = at->cell};
    const bool each = choice->chance == ES_CHANCE_EACH;
    ES_TRY(es_address_check(&first, err));
    ES_TRY(allocate(kept, choice->sure_count + (each ? choice->rest_count : choice->draws),
                    choice->budget, err));
    if (each)
        ES_TRY(pick_each(choice, &first, kept, err));
    else if (choice->chance != ES_CHANCE_NONE)
        ES_TRY(pick_draws(choice, &first, kept, err));
    merge(choice, kept);
    return ES_OK;
}
