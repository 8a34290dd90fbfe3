/* SPDX-License-Identifier: Apache-2.0 */
/* options.c : what units may choose from: every candidate at every number of keys, with its cost
 * and its risk, in the order of cost. Units that must share a setting are one group, with the sums
 * of their costs and risks. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "experiments/budget/question.h"

/* One option while a group's are sorted. */
typedef struct option {
    double cost, risk;
    int64_t candidate, keys;
} option;

/* Orders options by cost, then risk, then candidate. */
static int compare_options(const void *a, const void *b)
{
    const option *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    if (x->risk != y->risk)
        return x->risk < y->risk ? -1 : 1;
    return (x->candidate > y->candidate) - (x->candidate < y->candidate);
}

int64_t budget_fit_keys(const budget_state *s, int64_t layer, int64_t round, double m)
{
    const int64_t sees = s->grids[layer].sees, step = round > 1 ? round : 1;
    if (m >= (double)sees)
        return sees;
    const int64_t keys = (int64_t)floor(m / (double)step) * step;
    const int64_t fits = keys < step ? step : keys;
    return fits < sees ? fits : sees;
}

/* Returns the sum of the risks of a group's units under a candidate with `keys` keys each. */
static double group_risk(const budget_state *s, const budget_means *a, const budget_offer *o,
                         int64_t group, int64_t candidate, int64_t keys)
{
    double sum = 0.0;
    for (int64_t u = group * o->size; u < (group + 1) * o->size; u++)
        sum += budget_risk(s, a, u, candidate, (double)keys);
    return fmax(sum, 0.0);
}

/* Lists the options of a group: out (o->most). Returns how many there are. In ideal mode all keys
 * are one option without a risk; a cache has one for each candidate. */
static int64_t list_options(const budget_state *s, const budget_means *a,
                            const budget_strategy *how, const budget_offer *o, int64_t group,
                            option *out)
{
    const int64_t layer = group * o->size / s->config->kv_heads;
    const budget_grid *grid = &s->grids[layer];
    const bool ideal = s->mode == BUDGET_IDEAL;
    const double size = (double)o->size;
    int64_t count = 0;
    for (int64_t p = 0; p < s->P; p++) {
        int64_t last = 0;
        for (int64_t i = 0; i < grid->n_options && (!how->only || how->only[p]); i++) {
            const int64_t keys = budget_fit_keys(s, layer, how->round, (double)grid->options[i]);
            if (keys == last || (ideal && keys >= grid->sees))
                continue;
            last = keys;
            out[count++] = (option){size * (double)keys * s->candidates[p].cost,
                                    group_risk(s, a, o, group, p, keys), p, keys};
        }
    }
    if (ideal)
        out[count++] = (option){size * (double)grid->sees * s->full.cost, 0.0, -1, grid->sees};
    return count;
}

/* Fills a group's curve from its options; of equal costs the first is the best. Those of a cache
 * are many, and most cost more than another without a smaller risk: they are left out. */
static void fill_curve(budget_offer *o, int64_t group, double weight, bool cache, option *list,
                       int64_t count)
{
    double *cost = o->cost + group * o->most, *risk = o->risk + group * o->most;
    budget_choice *options = o->options + group * o->most;
    int64_t used = 0;
    qsort(list, (size_t)count, sizeof *list, compare_options);
    for (int64_t i = 0; i < count; i++) {
        if (used && (list[i].cost == cost[used - 1] || (cache && list[i].risk >= risk[used - 1])))
            continue;
        cost[used] = list[i].cost;
        risk[used] = list[i].risk;
        options[used++] = (budget_choice){list[i].candidate, list[i].keys, list[i].risk};
    }
    o->curves[group] = (es_curve){used, cost, risk, weight};
}

es_status budget_offer_new(const budget_state *s, const budget_means *a, const budget_strategy *how,
                           const double *weight, es_arena *arena, budget_offer *o, es_error *err)
{
    const int64_t kv = s->config->kv_heads;
    option *list;
    *o = (budget_offer){.size = how->granularity == BUDGET_BY_HEAD ? 1 : kv,
                        .most = s->P * s->n_options + 1};
    o->groups = s->units / o->size;
    ES_TRY(ES_ARENA_NEW(arena, list, o->most, "options", err));
    ES_TRY(ES_ARENA_NEW(arena, o->curves, o->groups, "units", err));
    ES_TRY(ES_ARENA_NEW(arena, o->chosen, o->groups, "units", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, o->cost, o->groups, o->most, "options", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, o->risk, o->groups, o->most, "options", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, o->options, o->groups, o->most, "options", err));
    for (int64_t g = 0; g < o->groups; g++) {
        const int64_t count = list_options(s, a, how, o, g, list);
        fill_curve(o, g, weight ? weight[g * o->size / kv] : 1.0, s->mode != BUDGET_IDEAL, list,
                   count);
    }
    return ES_OK;
}

void budget_offer_take(const budget_state *s, const budget_means *a, const budget_offer *o,
                       budget_choice *choices)
{
    for (int64_t u = 0; u < s->units; u++) {
        const int64_t group = u / o->size;
        choices[u] = o->options[group * o->most + o->chosen[group]];
        if (choices[u].candidate >= 0)
            choices[u].risk = budget_risk(s, a, u, choices[u].candidate, (double)choices[u].keys);
    }
}
