/* SPDX-License-Identifier: Apache-2.0 */
/* allocate.c : divides keys among units where they lower the risk most (THEORY 14). */
#include "risk/allocate.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

/* ---- checks and sums ---- */

/* Fails because a curve is not as it must be. */
static es_status bad_curve(int64_t unit, int64_t option, const char *what, es_error *err)
{
    return es_fail_at(err, ES_E_RANGE, unit, option, "allocate.curve",
                      "options in increasing keys, risks and weights that are not negative",
                      "unit %lld: %s", (long long)unit, what);
}

/* Fails unless keys increase strictly and weight * risk is finite and not negative at every
 * option. The limit 1e300 keeps sums over units finite. */
static es_status check_curve(const es_curve *c, int64_t unit, es_error *err)
{
    if (c->count < 1 || !c->keys || !c->risk)
        return bad_curve(unit, -1, "the unit has no option", err);
    if (!(c->weight >= 0.0 && c->weight <= 1e300))
        return bad_curve(unit, -1, "the weight is negative or NaN", err);
    for (int64_t i = 0; i < c->count; i++) {
        if (!(c->keys[i] >= 0.0 && c->keys[i] <= 1e15) || (i && !(c->keys[i] > c->keys[i - 1])))
            return bad_curve(unit, i, "keys do not increase", err);
        if (!(c->risk[i] >= 0.0 && c->weight * c->risk[i] <= 1e300))
            return bad_curve(unit, i, "a risk is negative or NaN", err);
    }
    return ES_OK;
}

/* Checks all curves. */
static es_status check_curves(const es_curve *curves, int64_t units, const void *out, es_error *err)
{
    if (!curves || units < 1 || !out)
        return es_fail(err, ES_E_ARGUMENT, "allocate.null",
                       "pass curves and an array for the choice", "an argument is missing");
    for (int64_t u = 0; u < units; u++)
        ES_TRY(check_curve(&curves[u], u, err));
    return ES_OK;
}

/* Returns the keys of a choice. */
static double keys_of(const es_curve *curves, int64_t units, const int64_t *chosen)
{
    double sum = 0.0;
    for (int64_t u = 0; u < units; u++)
        sum += curves[u].keys[chosen[u]];
    return sum;
}

/* Returns the weighted risk of a choice. */
static double risk_of(const es_curve *curves, int64_t units, const int64_t *chosen)
{
    double sum = 0.0;
    for (int64_t u = 0; u < units; u++)
        sum += curves[u].weight * curves[u].risk[chosen[u]];
    return sum;
}

/* Writes keys and risk of a choice where they are wanted. */
static void write_totals(const es_curve *curves, int64_t units, const int64_t *chosen, double *used,
                         double *risk)
{
    if (used)
        *used = keys_of(curves, units, chosen);
    if (risk)
        *risk = risk_of(curves, units, chosen);
}

/* Fails if the smallest options already have more keys than allowed. */
static es_status check_least(const es_curve *curves, int64_t units, double keys, es_error *err)
{
    double least = 0.0;
    for (int64_t u = 0; u < units; u++)
        least += curves[u].keys[0];
    return keys >= least
               ? ES_OK
               : es_fail(err, ES_E_RANGE, "allocate.keys",
                         "allow more keys, or add options with fewer keys",
                         "%g keys are allowed; the smallest options need %g", keys, least);
}

/* ---- hulls ---- */

/* A side of a unit's hull. */
typedef struct step {
    double worth; /* weighted risk that it takes off, for each of its keys */
    double keys, drop;
    int64_t unit, to;
} step;

/* From a corner of the hull the next one is where the line falls most steeply; of several on one
 * line the last. */
static bool next_step(const es_curve *c, int64_t unit, int64_t from, step *out)
{
    *out = (step){.unit = unit};
    for (int64_t i = from + 1; i < c->count; i++) {
        const double keys = c->keys[i] - c->keys[from];
        const double drop = c->weight * (c->risk[from] - c->risk[i]), worth = drop / keys;
        if (worth > 0.0 && worth >= out->worth)
            *out = (step){worth, keys, drop, unit, i};
    }
    return out->worth > 0.0;
}

/* What is worth most first; units in their order, and steps of a unit in theirs. */
static int by_worth(const void *a, const void *b)
{
    const step *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth > y->worth ? -1 : 1;
    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* All sides of all hulls, in the order in which they are taken. Release with es_mem_free(). */
static es_status make_steps(const es_curve *curves, int64_t units, step **out, int64_t *count,
                            es_error *err)
{
    int64_t most = 0;
    for (int64_t u = 0; u < units; u++)
        most += curves[u].count - 1;
    ES_TRY(ES_MEM_NEW(NULL, *out, most, "steps", err));
    *count = 0;
    for (int64_t u = 0; u < units; u++) {
        double before = INFINITY;
        step s;
        for (int64_t at = 0; next_step(&curves[u], u, at, &s); at = s.to) {
            /* a hull is convex, but where it is nearly a line rounding can make a step worth more
             * than the one before, and a step begins where that one ends: it has to wait */
            s.worth = before = fmin(before, s.worth);
            (*out)[(*count)++] = s;
        }
    }
    qsort(*out, (size_t)*count, sizeof **out, by_worth);
    return ES_OK;
}

/* Starts with the smallest option of every unit. */
static void begin(int64_t units, int64_t *chosen)
{
    for (int64_t u = 0; u < units; u++)
        chosen[u] = 0;
}

/* ---- for a number of keys ---- */

/* Of all options that fit into what is left, on a hull or not, the one that is worth most per key;
 * until none is. */
static void spend(const es_curve *curves, int64_t units, double left, int64_t *chosen)
{
    for (;;) {
        step best = {0};
        for (int64_t u = 0; u < units; u++) {
            const es_curve *c = &curves[u];
            const int64_t from = chosen[u];
            for (int64_t i = from + 1; i < c->count && c->keys[i] - c->keys[from] <= left; i++) {
                const double keys = c->keys[i] - c->keys[from];
                const double worth = c->weight * (c->risk[from] - c->risk[i]) / keys;
                if (worth > best.worth)
                    best = (step){.worth = worth, .keys = keys, .unit = u, .to = i};
            }
        }
        if (!(best.worth > 0.0))
            return;
        chosen[best.unit] = best.to;
        left -= best.keys;
    }
}

/* Steps in their order, up to the first that does not fit. @return : the keys that are left. */
static double climb(const step *steps, int64_t count, double left, int64_t *chosen)
{
    for (int64_t i = 0; i < count && steps[i].keys <= left; i++) {
        chosen[steps[i].unit] = steps[i].to;
        left -= steps[i].keys;
    }
    return left;
}

/* Steps along the lower convex hulls in the order of risk removed per key until the next step
 * does not fit; then spends the keys that are left on steps that do (THEORY 14). At every total
 * where the order stops exactly this is the best choice there is. */
es_status es_allocate_keys(const es_curve *curves, int64_t units, double keys, int64_t *chosen,
                           double *used, double *risk, es_error *err)
{
    step *steps;
    int64_t count;
    ES_TRY(check_curves(curves, units, chosen, err));
    ES_TRY(check_least(curves, units, keys, err));
    ES_TRY(make_steps(curves, units, &steps, &count, err));
    begin(units, chosen);
    const double left = climb(steps, count, keys - keys_of(curves, units, chosen), chosen);
    es_mem_free(NULL, steps);
    spend(curves, units, left, chosen);
    write_totals(curves, units, chosen, used, risk);
    return ES_OK;
}

/* Returns a lower bound of the risk with this number of keys: the last step of the order is taken
 * in part, which no choice of options can do (THEORY 14). */
es_status es_allocate_bound(const es_curve *curves, int64_t units, double keys, double *out,
                            es_error *err)
{
    step *steps;
    int64_t count;
    double left = keys, risk = 0.0;
    ES_TRY(check_curves(curves, units, out, err));
    ES_TRY(check_least(curves, units, keys, err));
    ES_TRY(make_steps(curves, units, &steps, &count, err));
    for (int64_t u = 0; u < units; u++) {
        left -= curves[u].keys[0];
        risk += curves[u].weight * curves[u].risk[0];
    }
    for (int64_t i = 0; i < count && left > 0.0; i++) {
        risk -= steps[i].drop * fmin(1.0, left / steps[i].keys); /* a part of the last one */
        left -= steps[i].keys;
    }
    es_mem_free(NULL, steps);
    *out = fmax(0.0, risk);
    return ES_OK;
}

/* ---- so much risk ---- */

/* Of all options with fewer keys that stay within `most`, the one that gives back the most keys;
 * until none does. Of several that give back as many, the one that costs least. */
static void give_back(const es_curve *curves, int64_t units, double most, int64_t *chosen)
{
    for (;;) {
        const double left = most - risk_of(curves, units, chosen);
        step best = {0};
        for (int64_t u = 0; u < units; u++)
            for (int64_t i = 0; i < chosen[u]; i++) {
                const es_curve *c = &curves[u];
                const double keys = c->keys[chosen[u]] - c->keys[i];
                const double cost = c->weight * (c->risk[i] - c->risk[chosen[u]]);
                if (cost <= left && (keys > best.keys || (keys == best.keys && cost < best.drop)))
                    best = (step){.keys = keys, .drop = cost, .unit = u, .to = i};
            }
        if (!(best.keys > 0.0))
            return;
        const int64_t before = chosen[best.unit];
        chosen[best.unit] = best.to;
        if (risk_of(curves, units, chosen) > most) { /* the last bit of a sum */
            chosen[best.unit] = before;
            return;
        }
    }
}

/* Takes steps in the same order until the risk is low enough, then gives back keys that turn
 * out not to be needed. The risk is summed anew after each step, because subtracting drops
 * would gather rounding errors. */
es_status es_allocate_risk(const es_curve *curves, int64_t units, double most, int64_t *chosen,
                           double *used, double *risk, es_error *err)
{
    step *steps;
    int64_t count, at = 0;
    ES_TRY(check_curves(curves, units, chosen, err));
    ES_TRY(make_steps(curves, units, &steps, &count, err));
    begin(units, chosen);
    double left = risk_of(curves, units, chosen);
    for (; left > most && at < count; at++) {
        chosen[steps[at].unit] = steps[at].to;
        left = risk_of(curves, units, chosen); /* not less the drop, which would gather rounding */
    }
    es_mem_free(NULL, steps);
    if (!(left <= most))
        return es_fail(err, ES_E_RANGE, "allocate.risk",
                       "allow a larger risk, or add options with more keys",
                       "the allowed risk is %g; with all keys it is %g", most, left);
    give_back(curves, units, most, chosen);
    write_totals(curves, units, chosen, used, risk);
    return ES_OK;
}

/* ---- rivals ---- */

/* Returns a number of keys limited to the options of a unit. */
static double within(const es_curve *c, double keys)
{
    return fmin(c->keys[c->count - 1], fmax(c->keys[0], keys));
}

/* What a unit is to have, times `scale`. */
static double part_of(const es_curve *c, double share, double scale)
{
    return within(c, share > 0.0 ? scale * share : 0.0);
}

/* Returns the keys that all units would get at this scale. */
static double parts_of(const es_curve *curves, int64_t units, const double *share, double scale)
{
    double sum = 0.0;
    for (int64_t u = 0; u < units; u++)
        sum += part_of(&curves[u], share[u], scale);
    return sum;
}

/* The scale at which all parts together have `keys`: their sum only grows with it, so halving finds
 * it, between nothing and where every unit that has a share has its last option. */
static double find_scale(const es_curve *curves, int64_t units, const double *share, double keys)
{
    enum { HALVINGS = 200 };
    double low = 0.0, high = 0.0;
    for (int64_t u = 0; u < units; u++)
        if (share[u] > 0.0)
            high = fmax(high, curves[u].keys[curves[u].count - 1] / share[u]);
    if (parts_of(curves, units, share, high) <= keys)
        return high;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = low + 0.5 * (high - low);
        *(parts_of(curves, units, share, middle) <= keys ? &low : &high) = middle;
    }
    return low;
}

/* The unit that is furthest below its part among those whose next option fits; -1: none. */
static int64_t furthest(const es_curve *curves, int64_t units, const double *share, double scale,
                        double left, const int64_t *chosen)
{
    int64_t found = -1;
    double most = -(double)INFINITY;
    for (int64_t u = 0; u < units; u++) {
        const es_curve *c = &curves[u];
        const double has = c->keys[chosen[u]], below = part_of(c, share[u], scale) - has;
        if (share[u] > 0.0 && chosen[u] + 1 < c->count && c->keys[chosen[u] + 1] - has <= left &&
            below > most) {
            most = below;
            found = u;
        }
    }
    return found;
}

/* Shares are numbers >= 0 of which one at least is not 0. */
static es_status share_out(const es_curve *curves, int64_t units, double keys, const double *share,
                           int64_t *chosen, double *used, double *risk, es_error *err)
{
    ES_TRY(check_least(curves, units, keys, err));
    const double scale = find_scale(curves, units, share, keys);
    begin(units, chosen);
    for (int64_t u = 0; u < units; u++)
        while (chosen[u] + 1 < curves[u].count &&
               curves[u].keys[chosen[u] + 1] <= part_of(&curves[u], share[u], scale))
            chosen[u]++;
    for (;;) {
        const double left = keys - keys_of(curves, units, chosen);
        const int64_t u = furthest(curves, units, share, scale, left, chosen);
        if (u < 0)
            break;
        chosen[u]++;
    }
    write_totals(curves, units, chosen, used, risk);
    return ES_OK;
}

/* Allocates in proportion to `need`, for example the number of keys that hold a given mass, or the
 * rule of Ada-KV. */
es_status es_allocate_mass(const es_curve *curves, int64_t units, double keys, const double *need,
                           int64_t *chosen, double *used, double *risk, es_error *err)
{
    double most = 0.0;
    ES_TRY(check_curves(curves, units, chosen, err));
    for (int64_t u = 0; need && u < units; u++) {
        if (!(need[u] >= 0.0 && need[u] <= 1e300))
            return es_fail_at(err, ES_E_RANGE, u, -1, "allocate.need", "numbers of keys",
                              "unit %lld needs %g", (long long)u, need[u]);
        most = fmax(most, need[u]);
    }
    if (!(most > 0.0))
        return es_fail(err, ES_E_RANGE, "allocate.need",
                       "give the number of keys that each unit needs", "all units need 0 keys");
    return share_out(curves, units, keys, need, chosen, used, risk, err);
}

/* Allocates by shares that are a line over the layers. */
static es_status by_layer(const es_curve *curves, int64_t units, double keys, const int64_t *layer,
                          int64_t layers, double last, int64_t *chosen, double *used, double *risk,
                          es_error *err)
{
    double *share;
    ES_TRY(ES_MEM_NEW(NULL, share, units, "shares", err));
    for (int64_t u = 0; u < units; u++) {
        const double depth = layers > 1 ? (double)layer[u] / (double)(layers - 1) : 0.5;
        share[u] = (2.0 - last) - 2.0 * (1.0 - last) * depth;
    }
    const es_status status = share_out(curves, units, keys, share, chosen, used, risk, err);
    es_mem_free(NULL, share);
    return status;
}

/* Allocates by depth: falling linearly from the first layer to `last` times the mean in the
 * last one (PyramidKV). */
es_status es_allocate_pyramid(const es_curve *curves, int64_t units, double keys,
                              const int64_t *layer, int64_t layers, double last, int64_t *chosen,
                              double *used, double *risk, es_error *err)
{
    ES_TRY(check_curves(curves, units, chosen, err));
    if (!(last > 0.0 && last <= 1.0))
        return es_fail(err, ES_E_RANGE, "allocate.layer", "use a fraction from 0 to 1",
                       "the fraction of the last layer is %g", last);
    for (int64_t u = 0; u < units; u++)
        if (layer[u] < 0 || layer[u] >= layers)
            return es_fail_at(err, ES_E_RANGE, u, -1, "allocate.layer", "count layers from 0",
                              "unit %lld is in layer %lld of %lld", (long long)u,
                              (long long)layer[u], (long long)layers);
    return by_layer(curves, units, keys, layer, layers, last, chosen, used, risk, err);
}
