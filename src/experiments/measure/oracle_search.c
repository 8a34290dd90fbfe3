/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_search.c : which change of attention explains an output that is not what was asked for.
 *
 * Every hypothesis is tried on some rows of a few heads, then of each; the first in the list that
 * explains them is confirmed on all rows, or on as many as a few seconds allow. Where none does
 * alone, each is tried together with a causal mask, which is what most outputs of models have. */
#include <math.h>

#include "base/error.h"
#include "experiments/measure/oracle.h"

static const double sample_flops = 1e10;  /* of all hypotheses: some seconds */
static const double confirm_flops = 3e10; /* of the one that is believed */
enum { LEAST_ROWS = 3, MOST_ROWS = 64 };  /* of a head */

/* Returns how many rows of a head the operations allow, between two limits. */
static int64_t rows_for(const compare_case *c, double flops, int64_t least, int64_t most)
{
    const double fits = flops / (compare_row_flops(c) * (double)c->s->heads);
    return fits <= (double)least ? least : fits >= (double)most ? most : (int64_t)fits;
}

/* Returns how many hypotheses there are. */
static int64_t hypotheses(void)
{
    int64_t count = 0;
    while (compare_hypotheses[count].name)
        count++;
    return count;
}

int64_t compare_most_tries(void) { return hypotheses() * (1 + COMPARE_CAUSALS); }

/* Returns whether the variant explains its rows. Each must be within its expected error. Rounding
 * to a coarser format must be visible in most rows, and the outputs must be larger than their
 * errors, or anything would fit. */
static bool explains(const compare_variant *v, const compare_sum *sum)
{
    return sum->rows > 0 && sum->nonfinite == 0 && sum->ratio <= 1.0 &&
           sum->allowed <= sum->ours2 && (!v->format || 2 * sum->rounded > sum->rows);
}

/* Compares a few heads, and the row that is furthest from what was asked for, which a sample may
 * miss; if the variant explains those, rows of all heads. */
static es_status look(compare_case *c, const compare_variant *v, compare_sum *sum, es_error *err)
{
    const double each = sample_flops / (double)compare_most_tries();
    c->glance = true;
    const es_status status = compare_rows(c, v, LEAST_ROWS, sum, err);
    c->glance = false;
    ES_TRY(status);
    ES_TRY(compare_row_at(c, v, c->furthest, sum, err));
    return explains(v, sum) ? compare_rows(c, v, rows_for(c, each, LEAST_ROWS, MOST_ROWS), sum, err)
                            : ES_OK;
}

/* Tries one hypothesis, alone or with a causal mask; adds it to the list if it applies. */
static es_status try_one(compare_case *c, const compare_hypothesis *mask,
                         const compare_hypothesis *h, compare_found *found, es_error *err)
{
    compare_try *t = &found->tries[found->count];
    bool applies = true;
    *t = (compare_try){
        .mask = mask, .hypothesis = h, .variant = compare_asked(c), .at = found->count};
    if (mask)
        ES_TRY(mask->change(c, &t->variant, &applies, err));
    if (applies)
        ES_TRY(h->change(c, &t->variant, &applies, err));
    if (!applies)
        return ES_OK;
    ES_TRY(look(c, &t->variant, &t->sum, err));
    t->explains = explains(&t->variant, &t->sum);
    if (t->explains && h->noise)
        ES_TRY(compare_like_rounding(c, &t->variant, &t->explains, err));
    found->count += t->sum.rows > 0; /* else no query sees a key, and there is nothing to compare */
    return ES_OK;
}

/* Finds the first try from `first` on that explains all rows. */
static es_status confirm(compare_case *c, int64_t first, compare_found *found, es_error *err)
{
    for (int64_t i = first; i < found->count; i++) {
        compare_try *t = &found->tries[i];
        if (!t->explains)
            continue;
        const int64_t rows = rows_for(c, confirm_flops, MOST_ROWS, compare_queries(c, &t->variant));
        ES_TRY(compare_rows(c, &t->variant, rows, &t->sum, err));
        t->explains = t->confirmed = explains(&t->variant, &t->sum);
        if (t->confirmed) {
            found->match = t;
            return ES_OK;
        }
    }
    return ES_OK;
}

es_status compare_search(compare_case *c, compare_found *found, es_error *err)
{
    for (const compare_hypothesis *h = compare_hypotheses; h->name; h++)
        ES_TRY(try_one(c, NULL, h, found, err));
    ES_TRY(confirm(c, 0, found, err));
    const int64_t alone = found->count;
    for (int m = 0; m < COMPARE_CAUSALS && !found->match; m++)
        for (const compare_hypothesis *h = compare_hypotheses + COMPARE_CAUSALS; h->name; h++)
            ES_TRY(try_one(c, &compare_hypotheses[m], h, found, err));
    return found->match ? ES_OK : confirm(c, alone, found, err);
}
