/* influence.c : tables of a token's influence, on the lattice of scores.h. */
#include "theory/influence.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "theory/rem.h"

#define FAR 36.0 /* e^-FAR is nothing */

es_influence es_influence_of(const es_rem_extra *x, double q, double participation)
{
    const double W = x->weight, W2 = x->weight_squared, R = x->cross, P = x->participation;
    return (es_influence){.weight = W,
                          .along = -q * (W + P - participation),
                          .weight_squared = W2,
                          .cross = q * (W - W2 - R),
                          .square = x->others_squared - 2.0 * q * q * (P - R) +
                                    q * q * (1.0 - 2.0 * W + W2),
                          .part = P};
}

/* es_rem_with() for a = index * delta: kernels come from the tables of scores.h, and where a is
 * far below l its kernel is 1 and sums from above, `one` and `two`, are known. */
static es_rem_extra with_lattice(const es_scores *s, const es_rem_density *f, const double *one,
                                 const double *two, int64_t index)
{
    const int64_t far = (int64_t)(FAR / s->delta);
    int64_t first = (s->top_index - index - far + s->stride - 1) / s->stride;
    first = first < 0 ? 0 : first > s->count ? s->count : first;
    double W = 0.0, W2 = 0.0, R = 0.0, P = first ? one[first - 1] : 0.0,
           GG = first ? two[first - 1] : 0.0;
    for (int64_t j = first; j < s->count; j++) {
        const int64_t x = index - s->top_index + j * s->stride;
        if (x > s->kernel_high)
            break;
        const double k0 = 1.0 - s->kernel[0][x - s->kernel_low];
        const double k1 = s->kernel[1][x - s->kernel_low];
        W += k1 * f->all[j];
        W2 += s->kernel[2][x - s->kernel_low] * f->all[j];
        P += k0 * f->one[j];
        R += k1 * f->one[j];
        GG += k0 * f->two[j];
    }
    return (es_rem_extra){.weight = W * s->step,
                          .weight_squared = W2 * s->step,
                          .participation = P * s->step,
                          .cross = R * s->step,
                          .others_squared = GG * s->step,
                          .others = -s->q * P * s->step};
}

/* Sums of the densities from the top, in the two tables that es_rem_others() has freed for it. */
static void sum_from_top(const es_scores *s, const es_rem_density *f, double *one, double *two)
{
    double a = 0.0, b = 0.0;
    for (int64_t j = 0; j < s->count; j++) {
        one[j] = a += f->one[j];
        two[j] = b += f->two[j];
    }
}

es_status es_influence_add(double n, double q, double factor, es_budget *budget,
                           es_influence_table *table, es_rem *moments, es_error *err)
{
    ES_TRY(es_rem_moments(n, q, budget, moments, err));
    const es_scores_grid grid = {.extra_most = q * (double)table->half * ES_INFLUENCE_STEP,
                                 .extra_space = ES_INFLUENCE_STEP};
    es_scores s;
    ES_TRY(es_scores_make(n - 1.0, q, &grid, budget, &s, err));
    es_rem_density f;
    es_rem_others(&s, &f);
    sum_from_top(&s, &f, s.m2, s.tail);
    const int64_t space = (int64_t)round(q * ES_INFLUENCE_STEP / s.delta);
    for (int64_t i = 0; i < table->count; i++) {
        const es_rem_extra x = with_lattice(&s, &f, s.m2, s.tail, (i - table->half) * space);
        const es_influence here = es_influence_of(&x, q, moments->participation);
        const double *from = (const double *)&here;
        double *to = (double *)&table->at[i];
        for (int k = 0; k < ES_INFLUENCES; k++)
            to[k] += factor * from[k];
    }
    es_scores_free(&s);
    return ES_OK;
}

es_influence es_influence_at(const es_influence_table *table, double t)
{
    const double x = t / ES_INFLUENCE_STEP + (double)table->half;
    int64_t i = (int64_t)floor(x);
    i = i < 1 ? 1 : i > table->count - 3 ? table->count - 3 : i;
    const double u = x - (double)i;
    const double weights[4] = {-u * (u - 1) * (u - 2) / 6, (u + 1) * (u - 1) * (u - 2) / 2,
                               -(u + 1) * u * (u - 2) / 2, (u + 1) * u * (u - 1) / 6};
    es_influence out = {0};
    double *to = (double *)&out;
    for (int j = 0; j < 4; j++) {
        const double *from = (const double *)&table->at[i - 1 + j];
        for (int k = 0; k < ES_INFLUENCES; k++)
            to[k] += weights[j] * from[k];
    }
    return out;
}
