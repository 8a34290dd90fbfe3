/* influence.c : tables of a token's influence, on the lattice of scores.h. */
#include "theory/influence.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "theory/rem.h"

#define FAR 36.0 /* e^-FAR is nothing */

/* Expectations given the score of a token: its weight w and w^2, the others' sum of w_i^2, and of
 * S = sum over the others of w_i (g_i - q): S, w S, S^2. */
typedef struct given {
    double weight, weight_squared, part, others, cross, others_squared;
} given;

/* Gamma = w eta + (S + q (1 - w)) e + what is across; `mean` is E S before eta was given. */
static es_influence influence(const given *x, double q, double mean)
{
    const double W = x->weight, W2 = x->weight_squared;
    return (es_influence){.weight = W,
                          .along = x->others - mean - q * W,
                          .weight_squared = W2,
                          .cross = x->cross + q * (W - W2),
                          .square = x->others_squared + 2.0 * q * (x->others - x->cross) +
                                    q * q * (1.0 - 2.0 * W + W2),
                          .part = x->part};
}

es_influence es_influence_of(const es_rem_extra *x, double q, double participation)
{
    const given g = {x->weight, x->weight_squared, x->participation,
                     x->others, -q * x->cross,     x->others_squared};
    return influence(&g, q, -q * participation);
}

/* ---- densities of the others ---- */

/* In l, to be met by the kernel of a token: of everything, of sum w_i^2, of S and S^2; and their
 * sums from above, which is what remains where the kernel is 1. */
typedef struct density {
    const double *all, *part, *first, *two;
    double *part_above, *first_above, *two_above;
    void *memory;
} density;

static void sum_from_top(const double *from, int64_t count, double *to)
{
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++)
        to[j] = sum += from[j];
}

/* A token r e joins the others, with score a = q r and g = r: each density f becomes that of f with
 * its weight w_a added, which has the kernel e^{k(a-l)} e^{-e^{a-l}} for w_a^k. */
static void join(const es_scores *s, const es_rem_density *f, double r, double *first)
{
    const double q = s->q, more = r - q;
    double l = s->top;
    for (int64_t j = 0; j < s->count; j++, l -= s->step) {
        const double e = exp(q * r - l), k0 = exp(-e), all = f->all[j], part = f->one[j];
        const double k1 = k0 > 0.0 ? e * k0 : 0.0, k2 = k0 > 0.0 ? e * k1 : 0.0;
        first[j] = more * k1 * all - q * k0 * part;
        f->two[j] = k0 * f->two[j] + more * more * k2 * all - 2.0 * q * more * k1 * part;
        f->one[j] *= k0;
        f->all[j] *= k0;
    }
}

/* Of s->n others, and of a token at r e unless r is NaN. */
static es_status density_make(es_scores *s, double r, density *out, es_error *err)
{
    void *memory;
    ES_TRY(es_mem_array(s->budget, s->count, 4, sizeof(double), "influence", &memory, err));
    double *first = memory;
    es_rem_density f;
    es_rem_others(s, &f);
    if (isnan(r))
        for (int64_t j = 0; j < s->count; j++)
            first[j] = -s->q * f.one[j];
    else
        join(s, &f, r, first);
    *out = (density){.all = f.all, .part = f.one, .first = first, .two = f.two, .memory = memory};
    out->part_above = first + s->count;
    out->first_above = out->part_above + s->count;
    out->two_above = out->first_above + s->count;
    sum_from_top(out->part, s->count, out->part_above);
    sum_from_top(out->first, s->count, out->first_above);
    sum_from_top(out->two, s->count, out->two_above);
    return ES_OK;
}

/* ---- tables ---- */

/* Expectations given a token of score index * delta. Kernels come from the tables of scores.h. */
static given with_lattice(const es_scores *s, const density *f, int64_t index)
{
    const int64_t far = (int64_t)(FAR / s->delta);
    int64_t j = (s->top_index - index - far + s->stride - 1) / s->stride;
    j = j < 0 ? 0 : j > s->count ? s->count : j;
    given g = {0};
    if (j > 0) {
        g.part = f->part_above[j - 1];
        g.others = f->first_above[j - 1];
        g.others_squared = f->two_above[j - 1];
    }
    for (; j < s->count; j++) {
        const int64_t x = index - s->top_index + j * s->stride;
        if (x > s->kernel_high)
            break;
        const double k0 = 1.0 - s->kernel[0][x - s->kernel_low];
        const double k1 = s->kernel[1][x - s->kernel_low];
        g.weight += k1 * f->all[j];
        g.weight_squared += s->kernel[2][x - s->kernel_low] * f->all[j];
        g.part += k0 * f->part[j];
        g.others += k0 * f->first[j];
        g.cross += k1 * f->first[j];
        g.others_squared += k0 * f->two[j];
    }
    double *all[] = {&g.weight, &g.weight_squared, &g.part, &g.others, &g.cross, &g.others_squared};
    for (int i = 0; i < ES_INFLUENCES; i++)
        *all[i] *= s->step;
    return g;
}

/* table += factor * influence among `others`, and a token at r e unless r is NaN; `mean` as in
 * influence(). */
static es_status add(double others, double q, double r, double mean, double factor,
                     es_budget *budget, es_influence_table *table, es_error *err)
{
    const double widest = (double)table->half * ES_INFLUENCE_STEP;
    const es_scores_grid grid = {.extra_most = q * fmax(widest, isnan(r) ? 0.0 : r),
                                 .extra_space = ES_INFLUENCE_STEP};
    es_scores s;
    density f;
    ES_TRY(es_scores_make(others, q, &grid, budget, &s, err));
    const es_status status = density_make(&s, r, &f, err);
    const int64_t space = (int64_t)round(q * ES_INFLUENCE_STEP / s.delta);
    for (int64_t i = 0; i < table->count && status == ES_OK; i++) {
        const given g = with_lattice(&s, &f, (i - table->half) * space);
        const es_influence here = influence(&g, q, mean);
        const double *from = (const double *)&here;
        double *to = (double *)&table->at[i];
        for (int k = 0; k < ES_INFLUENCES; k++)
            to[k] += factor * from[k];
    }
    if (status == ES_OK)
        es_mem_free(budget, f.memory);
    es_scores_free(&s);
    return status;
}

es_status es_influence_add(double n, double q, double factor, es_budget *budget,
                           es_influence_table *table, es_rem *moments, es_error *err)
{
    ES_TRY(es_rem_moments(n, q, budget, moments, err));
    return add(n - 1.0, q, NAN, -q * moments->participation, factor, budget, table, err);
}

es_status es_influence_add_beside(double n, double q, double r, double factor, es_budget *budget,
                                  es_influence_table *table, es_error *err)
{
    const double a = q * r;
    es_rem_extra x;
    ES_TRY(es_rem_extra_at(n - 1.0, q, &a, 1, budget, &x, err));
    const double mean = x.others + (r - q) * x.weight;
    return add(n - 2.0, q, r, mean, factor, budget, table, err);
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
