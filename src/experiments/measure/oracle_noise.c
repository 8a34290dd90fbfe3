/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_noise.c : tells errors of rounding in a kernel from errors of changed values.
 *
 * The bound of a coarse format allows any error up to its size, so that V rounded to 4 bits would
 * pass for sums in bf16. Two things tell them apart: a sum of few terms is hardly rounded, and
 * every row is rounded on its own, whereas all rows see the same change of V. */
#include <math.h>

#include "base/error.h"
#include "base/vectors.h"
#include "experiments/measure/oracle.h"

/* ---- rows of few keys ---- */

enum { FEW_KEYS = 16, FEW_HEADS = 4 };

/* Adds the squared error of the row of a few keys to *squares, and to *model the square that
 * sums in the format have: .5 u |o| for each of the weights, the output and the partial sums. */
static es_status add_few(compare_case *c, const compare_variant *v, compare_place at,
                         double *squares, double *model, es_error *err)
{
    const double u = v->format->unit, keys = (double)(at.row + v->shift + 1);
    compare_sum sum = {0};
    ES_TRY(compare_row_at(c, v, at, &sum, err));
    *squares += sum.squares;
    *model += 0.25 * u * u * (2.0 + keys) * sum.ours2 +
              v->format->least * v->format->least * (2.0 + keys) * (double)sum.elements;
    return ES_OK;
}

/* Sets *small to whether rows of few keys, which a causal mask has, are off by as little as such
 * rounding explains. */
static es_status small_of_few(compare_case *c, const compare_variant *v, bool *small, es_error *err)
{
    const double most = 1.5; /* measured: .8 of sums in 16 bits, 2.1 and more of rounded inputs */
    const int64_t heads = c->s->heads, step = (heads + FEW_HEADS - 1) / FEW_HEADS;
    double squares = 0.0, model = 0.0;
    *small = true;
    if (!v->format || (v->mask != COMPARE_CAUSAL && v->mask != COMPARE_WINDOW))
        return ES_OK;
    for (int64_t h = 0; h < heads; h += step)
        for (int64_t i = 0; i < compare_queries(c, v) && i + v->shift < FEW_KEYS; i++)
            if (i + v->shift >= 0)
                ES_TRY(add_few(c, v, (compare_place){h, i}, &squares, &model, err));
    *small = squares <= most * most * model;
    return ES_OK;
}

/* ---- what rows have in common ---- */

/* Takes the part along a direction off x. */
static void remove_along(const double *direction, double *x, int64_t n)
{
    const double length2 = es_dot_in_four(direction, direction, n);
    const double along = length2 > 0.0 ? es_dot_in_four(direction, x, n) / length2 : 0.0;
    for (int64_t c = 0; c < n; c++)
        x[c] -= along * direction[c];
}

/* Adds up directions of the errors of `rows` rows of a head in `sum`, without what lies along the
 * row and along the mean row: a common denominator that is off, and the largest partial sums.
 * theirs becomes those errors. Returns |sum|^2 over the number of rows: 1 on average if they are
 * independent, up to the number of rows if all are the same; 0 if there is no error. */
static double common_of(const double *ours, double *theirs, int64_t rows, int64_t n, double *mean,
                        double *sum)
{
    int64_t count = 0;
    for (int64_t c = 0; c < n; c++)
        mean[c] = sum[c] = 0.0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++)
            mean[c] += ours[i * n + c];
    for (int64_t i = 0; i < rows; i++) {
        double *e = theirs + i * n;
        for (int64_t c = 0; c < n; c++)
            e[c] -= ours[i * n + c];
        remove_along(ours + i * n, e, n);
        remove_along(mean, e, n);
        const double length = sqrt(es_dot_in_four(e, e, n));
        for (int64_t c = 0; length > 0.0 && c < n; c++)
            sum[c] += e[c] / length;
        count += length > 0.0;
    }
    return count ? es_dot_in_four(sum, sum, n) / (double)count : 0.0;
}

/* Sets *own to whether errors of rows of a head have no more in common than chance explains. */
static es_status independent(compare_case *c, const compare_variant *v, bool *own, es_error *err)
{
    enum { ROWS = 48, LEAST = 3 };
    const int64_t heads = c->s->heads, n = c->s->dv, queries = compare_queries(c, v);
    const int64_t rows = queries < ROWS ? queries : ROWS;
    double *ours, *theirs, *mean, common = 0.0;
    *own = true;
    if (n <= LEAST || rows <= LEAST)
        return ES_OK;
    ES_TRY(ES_ARENA_NEW_2D(&c->arena, ours, heads * rows, n, "outputs", err));
    ES_TRY(ES_ARENA_NEW_2D(&c->arena, theirs, heads * rows, n, "outputs", err));
    ES_TRY(ES_ARENA_NEW_2D(&c->arena, mean, 2, n, "rows", err));
    ES_TRY(compare_outputs(c, v, rows, ours, theirs, err));
    for (int64_t h = 0; h < heads; h++)
        common += common_of(ours + h * rows * n, theirs + h * rows * n, rows, n, mean, mean + n) /
                  (double)heads;
    /* of independent rows: 1, standard deviation of a head sqrt(2 / (n - 2)); measured: 1.7 of sums
     * in 16 bits of 389 keys, 5.8 to 20 of rounded values */
    *own = common <= 2.5 + 5.0 * sqrt(2.0 / ((double)heads * (double)(n - 2)));
    return ES_OK;
}

/* ---- both ---- */

/* Sets *like to whether errors pass both tests. */
static es_status like_rounding(compare_case *c, const compare_variant *v, bool *like, es_error *err)
{
    ES_TRY(small_of_few(c, v, like, err));
    return *like ? independent(c, v, like, err) : ES_OK;
}

es_status compare_like_rounding(compare_case *c, const compare_variant *v, bool *like,
                                es_error *err)
{
    compare_variant all = *v;
    ES_TRY(like_rounding(c, v, like, err));
    if (*like || !v->format || v->format->unit <= c->format->unit)
        return ES_OK;
    all.inputs = v->format; /* a kernel in a coarser format rounds its inputs to it first */
    return like_rounding(c, &all, like, err);
}
