/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_fit.c : fits changes of unknown size (a scale, a width, an order of heads) to a few rows.
 * One number could explain any small output: fits need at least ENOUGH elements. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/measure/oracle.h"

enum { ENOUGH = 32 }; /* elements that one fitted number has to explain */
enum { FEW = 4 };     /* rows of every head that fits look at */

/* Returns whether there are enough elements for a fitted number. */
static bool enough(const compare_case *c)
{
    return c->s->heads * measure_queries(c->s, 0) * c->s->dv >= ENOUGH;
}

/* ---- the scale ---- */

/* Refines the best scale of a grid by Gauss-Newton steps in ln b, which converge quadratically: an
 * f64 output is explained to its last digits. */
static es_status refine(compare_case *c, compare_variant *v, compare_sum *best, es_error *err)
{
    enum { STEPS = 12 };
    for (int i = 0; i < STEPS && best->slope2 > 0.0; i++) {
        compare_variant next = *v;
        compare_sum sum;
        /* the derivative is by ln(scale), but for scores of weights: d o / d ln b */
        next.scale *= exp(fmax(-0.5, fmin(0.5, best->along / best->slope2)));
        if (next.scale == v->scale)
            break;
        ES_TRY(compare_rows(c, &next, FEW, &sum, err));
        if (!(sum.squares < best->squares))
            break;
        *v = next;
        *best = sum;
    }
    return ES_OK;
}

/* Fits the scale: a grid of thirds of octaves, then refine(). */
static es_status fit_scale(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    enum { OCTAVES = 7, STEPS = 3 };
    const double scale = v->scale > 0.0 ? v->scale : 1.0 / sqrt((double)c->s->d);
    compare_variant best = *v;
    compare_sum found = {.squares = (double)INFINITY};
    *applies = enough(c);
    for (int i = -OCTAVES * STEPS; *applies && i <= OCTAVES * STEPS; i++) {
        compare_variant next = *v;
        compare_sum sum;
        next.scale = scale * exp2((double)i / STEPS);
        ES_TRY(compare_rows(c, &next, FEW, &sum, err));
        if (sum.squares < found.squares) {
            found = sum;
            best = next;
        }
    }
    if (!*applies)
        return ES_OK;
    ES_TRY(refine(c, &best, &found, err));
    *v = best;
    snprintf(v->note, sizeof v->note, "%.4g", v->scale);
    return ES_OK;
}

es_status compare_fit_scale(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    c->glance = true;
    const es_status status = fit_scale(c, v, applies, err);
    c->glance = false;
    return status;
}

/* ---- a cap of scores ---- */

/* Returns the squared distance of a few rows with the cap e^x. */
static es_status capped_distance(compare_case *c, const compare_variant *v, double x, double *out,
                                 es_error *err)
{
    compare_variant next = *v;
    compare_sum sum;
    next.cap = exp(x);
    ES_TRY(compare_rows(c, &next, FEW, &sum, err));
    *out = sum.squares;
    return ES_OK;
}

/* Narrows the minimum of an interval of ln(cap) by golden sections. */
static es_status narrow_cap(compare_case *c, const compare_variant *v, double low, double high,
                            double *best, es_error *err)
{
    enum { SECTIONS = 42 }; /* to the last digits of f32 */
    const double golden = 0.5 * (sqrt(5.0) - 1.0);
    double at[2] = {high - golden * (high - low), low + golden * (high - low)}, far[2];
    for (int i = 0; i < 2; i++)
        ES_TRY(capped_distance(c, v, at[i], &far[i], err));
    for (int i = 0; i < SECTIONS; i++) {
        const int side = far[0] < far[1] ? 0 : 1; /* of the minimum */
        *(side ? &low : &high) = at[!side];
        at[!side] = at[side];
        far[!side] = far[side];
        at[side] = side ? low + golden * (high - low) : high - golden * (high - low);
        ES_TRY(capped_distance(c, v, at[side], &far[side], err));
    }
    *best = 0.5 * (low + high);
    return ES_OK;
}

/* Fits the cap: a grid of half octaves, and sections where it halves the squared distance. */
static es_status fit_cap(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    enum { LEAST = 2, MOST = 13 }; /* half octaves: 2 to 90 */
    const double half = 0.5 * log(2.0);
    double none, least = INFINITY, best = 0.0, x;
    compare_sum sum;
    *applies = enough(c);
    if (!*applies)
        return ES_OK;
    ES_TRY(compare_rows(c, v, FEW, &sum, err));
    none = sum.squares;
    for (int i = LEAST; i <= MOST; i++) {
        ES_TRY(capped_distance(c, v, i * half, &x, err));
        if (x < least) {
            least = x;
            best = i * half;
        }
    }
    *applies = least < 0.5 * none;
    if (!*applies)
        return ES_OK;
    ES_TRY(narrow_cap(c, v, best - half, best + half, &best, err));
    v->cap = exp(best);
    snprintf(v->note, sizeof v->note, "%.4g", v->cap);
    return ES_OK;
}

es_status compare_fit_cap(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    c->glance = true;
    const es_status status = fit_cap(c, v, applies, err);
    c->glance = false;
    return status;
}

/* ---- a factor ---- */

es_status compare_fit_factor(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    compare_sum sum;
    *applies = enough(c);
    if (!*applies)
        return ES_OK;
    ES_TRY(compare_rows(c, v, FEW, &sum, err));
    *applies = sum.ours2 > 0.0 && isfinite(sum.theirs_ours);
    v->factor = *applies ? sum.theirs_ours / sum.ours2 : 1.0;
    snprintf(v->note, sizeof v->note, "%.4g", v->factor);
    return ES_OK;
}

/* ---- a width ---- */

/* Finds the step of the growth at which their output is nearest. */
static es_status nearest_step(compare_case *c, const compare_variant *v, compare_growth growth,
                              int64_t *best, es_error *err)
{
    double *far;
    ES_TRY(ES_ARENA_NEW(&c->arena, far, v->keys, "widths", err));
    c->glance = true;
    const es_status status = compare_widths(c, v, growth, far, err);
    c->glance = false;
    ES_TRY(status);
    *best = 0;
    for (int64_t i = 1; i < v->keys; i++)
        if (far[i] < far[*best])
            *best = i;
    return ES_OK;
}

/* Fits the width of a causal window, or of a band around each query. */
static es_status fit_width(compare_case *c, compare_variant *v, bool band, bool *applies,
                           es_error *err)
{
    const int64_t keys = v->keys, shift = keys - measure_queries(c->s, 0);
    int64_t best;
    *applies = enough(c) && keys > 2 && shift >= 0 && compare_as_asked(c, v);
    if (!*applies)
        return ES_OK;
    v->shift = shift; /* the last query stands at the last key */
    ES_TRY(nearest_step(c, v, band ? COMPARE_AROUND : COMPARE_BACK, &best, err));
    v->mask = band ? COMPARE_BAND : COMPARE_WINDOW;
    v->width = band ? best : best + 1;
    *applies = !compare_as_asked(c, v);
    snprintf(v->note, sizeof v->note, "%lld", (long long)v->width);
    return ES_OK;
}

es_status compare_fit_window(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return fit_width(c, v, false, applies, err);
}

es_status compare_fit_band(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return fit_width(c, v, true, applies, err);
}

/* ---- keys that are hidden ---- */

/* Fits how many first or last keys are hidden, as by padding that the file does not show. */
static es_status fit_hidden(compare_case *c, compare_variant *v, compare_growth growth,
                            bool *applies, es_error *err)
{
    int64_t best;
    *applies = enough(c) && v->keys > 2 && v->mask == COMPARE_ALL;
    if (!*applies)
        return ES_OK;
    ES_TRY(nearest_step(c, v, growth, &best, err));
    const int64_t hidden = v->keys - 1 - best;
    *applies = hidden > 0;
    if (growth == COMPARE_FIRSTS)
        v->keys -= hidden;
    else
        v->skipped = hidden;
    snprintf(v->note, sizeof v->note, "%lld", (long long)hidden);
    return ES_OK;
}

es_status compare_fit_firsts(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return fit_hidden(c, v, COMPARE_FIRSTS, applies, err);
}

es_status compare_fit_lasts(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    return fit_hidden(c, v, COMPARE_LASTS, applies, err);
}

/* ---- an order of heads ---- */

/* Returns the squared distance. */
static double distance2(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* Assigns each of our heads to the nearest of theirs. Returns false if two go to the same one, or
 * if all are in order. */
static bool find_places(const double *ours, const double *theirs, int64_t heads, int64_t each,
                        int64_t *place, bool *taken)
{
    bool moved = false;
    for (int64_t h = 0; h < heads; h++) {
        double best = INFINITY;
        place[h] = h;
        for (int64_t g = 0; g < heads; g++) {
            const double far = distance2(ours + h * each, theirs + g * each, each);
            if (far < best) {
                best = far;
                place[h] = g;
            }
        }
        if (taken[place[h]])
            return false;
        taken[place[h]] = true;
        moved = moved || place[h] != h;
    }
    return moved;
}

es_status compare_fit_order(compare_case *c, compare_variant *v, bool *applies, es_error *err)
{
    const int64_t heads = c->s->heads, queries = measure_queries(c->s, 0);
    const int64_t rows = queries < FEW ? queries : FEW;
    bool *taken;
    int64_t *place;
    double *ours, *theirs;
    *applies = heads > 1 && enough(c);
    if (!*applies)
        return ES_OK;
    const int64_t each = rows * c->s->dv;
    ES_TRY(ES_ARENA_NEW_2D(&c->arena, ours, heads, each, "outputs", err));
    ES_TRY(ES_ARENA_NEW_2D(&c->arena, theirs, heads, each, "outputs", err));
    ES_TRY(ES_ARENA_NEW(&c->arena, place, heads, "heads", err));
    ES_TRY(ES_ARENA_NEW(&c->arena, taken, heads, "heads", err));
    ES_TRY(compare_outputs(c, v, rows, ours, theirs, err));
    *applies = find_places(ours, theirs, heads, each, place, taken);
    v->place = place;
    return ES_OK;
}
