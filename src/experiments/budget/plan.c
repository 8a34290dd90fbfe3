/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c : divides a cost among units and predicts the errors of the result (THEORY 14). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "policy/policy.h"
#include "risk/allocate.h"

const char *const budget_allocation_names[BUDGET_ALLOCATIONS] = {
    "ours", "uniform", "pyramid", "mass", "ada", "lu-kv", "one type"};

/* Ideal mode: keys of the last layer, in means; PyramidKV's slope is of that size. Caches: options
 * of PyramidKV and Ada-KV as published in kvpress. */
#define PYRAMID_LAST 0.25
#define PYRAMID_BETA 20.0
#define ADA_ALPHA    0.2

/* Returns the layer of a unit, a key-value head. */
static int64_t layer_of(const budget_state *s, int64_t unit) { return unit / s->config->kv_heads; }

budget_strategy budget_strategy_of(const budget_state *s, budget_allocation allocation,
                                   double total)
{
    return (budget_strategy){
        .allocation = allocation, .total = total, .granularity = s->granularity, .round = s->round};
}

/* ---- cost ---- */

/* Returns the candidate of a choice. */
static const budget_candidate *candidate_of(const budget_state *s, const budget_choice *choice)
{
    return choice->candidate < 0 ? &s->full : &s->candidates[choice->candidate];
}

double budget_choice_cost(const budget_state *s, const budget_choice *choice)
{
    return (double)choice->keys * candidate_of(s, choice)->cost;
}

double budget_total(const budget_state *s, const budget_choice *choices)
{
    double sum = 0.0;
    for (int64_t u = 0; u < s->units; u++)
        sum += budget_choice_cost(s, &choices[u]);
    return sum;
}

double budget_bytes(const budget_state *s, const budget_choice *choices)
{
    double sum = 0.0;
    for (int64_t u = 0; u < s->units; u++)
        sum += (double)choices[u].keys * candidate_of(s, &choices[u])->bytes;
    return sum;
}

double budget_keys(const budget_state *s, const budget_choice *choices)
{
    double sum = 0.0;
    for (int64_t u = 0; u < s->units; u++)
        sum += (double)choices[u].keys;
    return sum;
}

double budget_all_keys(const budget_state *s)
{
    double sum = 0.0;
    for (int64_t l = 0; l < s->config->layers; l++)
        sum += (double)(s->config->kv_heads * s->grids[l].sees);
    return sum;
}

double budget_all_cost(const budget_state *s) { return budget_all_keys(s) * s->full.cost; }

double budget_least_cost(const budget_state *s, const budget_strategy *how)
{
    double least = INFINITY, keys = 0.0;
    for (int64_t p = 0; p < s->P; p++)
        if (!how->only || how->only[p])
            least = fmin(least, s->candidates[p].cost);
    for (int64_t l = 0; l < s->config->layers; l++)
        keys += (double)(s->config->kv_heads *
                         budget_fit_keys(s, l, how->round, (double)s->grids[l].options[0]));
    return keys * least;
}

int64_t budget_most_seen(const budget_state *s)
{
    int64_t most = 0;
    for (int64_t l = 0; l < s->config->layers; l++)
        most = s->grids[l].sees > most ? s->grids[l].sees : most;
    return most;
}

/* ---- rules in use ---- */

/* Returns the keys that a query of the unit's layer sees, over the most of any layer: a fair share
 * of a layer with a window. */
static double fair_share(const budget_state *s, int64_t unit)
{
    return (double)s->grids[layer_of(s, unit)].sees / (double)budget_most_seen(s);
}

/* Divides the layers' fair parts among their units in proportion to the keys they need. */
static void share_by_mass(const budget_state *s, const budget_means *a, double *share)
{
    const int64_t groups = s->config->kv_heads;
    for (int64_t first = 0; first < s->units; first += groups) {
        double sum = 0.0;
        for (int64_t u = first; u < first + groups; u++)
            sum += a->need[u];
        for (int64_t u = first; u < first + groups; u++)
            share[u] = fair_share(s, u) * (a->need[u] / sum);
    }
}

/* Divides keys of ideal mode by a rule in use, each unit under its best policy. */
static es_status allocate_ideal(const budget_state *s, const budget_means *a,
                                const budget_strategy *how, es_arena *arena, budget_offer *o,
                                es_error *err)
{
    double *share;
    int64_t *layer;
    ES_TRY(ES_ARENA_NEW(arena, share, s->units, "units", err));
    ES_TRY(ES_ARENA_NEW(arena, layer, s->units, "units", err));
    for (int64_t u = 0; u < s->units; u++) {
        layer[u] = layer_of(s, u);
        share[u] = fair_share(s, u);
    }
    if (how->allocation == BUDGET_PYRAMID)
        return es_allocate_pyramid(o->curves, s->units, how->total, layer, s->config->layers,
                                   PYRAMID_LAST, o->chosen, NULL, NULL, err);
    if (how->allocation == BUDGET_MASS)
        share_by_mass(s, a, share);
    return es_allocate_mass(o->curves, s->units, how->total, share, o->chosen, NULL, NULL, err);
}

/* Gives all units one candidate, and the same share of the keys that they see. Returns the sum of
 * weighted risks, or -1 if the total does not suffice for it. */
static double try_single(const budget_state *s, const budget_means *a, const budget_strategy *how,
                         const double *weight, int64_t candidate, budget_choice *choices)
{
    const double cost = s->candidates[candidate].cost,
                 share = how->total / (cost * budget_all_keys(s));
    double risk = 0.0, used = 0.0;
    for (int64_t u = 0; u < s->units; u++) {
        const budget_grid *grid = &s->grids[layer_of(s, u)];
        const int64_t keys = grid->n_options == 1
                                 ? grid->sees
                                 : budget_fit_keys(s, layer_of(s, u), how->round,
                                                   share * (double)grid->sees * (1.0 + 1e-12));
        choices[u] =
            (budget_choice){candidate, keys, budget_risk(s, a, u, candidate, (double)keys)};
        used += (double)keys * cost;
        risk += weight[layer_of(s, u)] * choices[u].risk;
    }
    return used <= how->total * (1.0 + 1e-9) ? risk : -1.0;
}

/* Finds the best single setting of a cache: one candidate for all units. */
static es_status allocate_single(const budget_state *s, const budget_means *a,
                                 const budget_strategy *how, const double *weight, es_arena *arena,
                                 budget_choice *choices, es_error *err)
{
    double best = -1.0;
    budget_choice *trial;
    ES_TRY(ES_ARENA_NEW(arena, trial, s->units, "choices", err));
    for (int64_t p = 0; p < s->P; p++) {
        const double risk =
            how->only && !how->only[p] ? -1.0 : try_single(s, a, how, weight, p, trial);
        if (risk < 0.0 || (best >= 0.0 && risk >= best))
            continue;
        best = risk;
        memcpy(choices, trial, (size_t)s->units * sizeof *choices);
    }
    if (best >= 0.0)
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "allocate.keys", "a larger --ratio, or smaller types",
                   "no single setting of all key-value heads costs as little as %.15g", how->total);
}

/* Changes the keys of a single setting to PyramidKV's: fewer with depth. */
static void make_pyramid(const budget_state *s, const budget_means *a, const budget_strategy *how,
                         budget_choice *choices)
{
    const es_evict_spec spec =
        es_evict_resolve(&s->candidates[choices[0].candidate].unit.evict, budget_evict_mode(s));
    const int64_t window = spec.window > 0 ? spec.window : 0;
    for (int64_t u = 0; u < s->units; u++) {
        const int64_t l = layer_of(s, u), sees = s->grids[l].sees;
        const int64_t keys =
            es_pyramid_keys(choices[u].keys, PYRAMID_BETA, window, sees, l, s->config->layers);
        choices[u].keys = budget_fit_keys(s, l, how->round, (double)keys);
        choices[u].risk = budget_risk(s, a, u, choices[u].candidate, (double)choices[u].keys);
    }
}

/* ---- allocation ---- */

/* Returns the sum of weighted risks of choices. */
static double weighted_risk(const budget_state *s, const double *weight,
                            const budget_choice *choices)
{
    double sum = 0.0;
    for (int64_t u = 0; u < s->units; u++)
        sum += weight[layer_of(s, u)] * choices[u].risk;
    return sum;
}

/* Divides the total so that the sum of weighted risks is least. */
static es_status allocate_best(const budget_state *s, const budget_means *a,
                               const budget_strategy *how, const double *weight, es_arena *arena,
                               budget_choice *choices, es_error *err)
{
    budget_offer o;
    if (how->granularity == BUDGET_BY_MODEL && s->mode != BUDGET_IDEAL)
        return allocate_single(s, a, how, weight, arena, choices, err);
    ES_TRY(budget_offer_new(s, a, how, weight, arena, &o, err));
    ES_TRY(es_allocate_keys(o.curves, o.groups, how->total, o.chosen, NULL, NULL, err));
    budget_offer_take(s, a, &o, choices);
    return ES_OK;
}

/* Divides the total with one pair of types for all units: the pair of least risk. */
static es_status allocate_one_type(const budget_state *s, const budget_means *a,
                                   const budget_strategy *how, const double *weight,
                                   es_arena *arena, budget_choice *choices, es_error *err)
{
    budget_strategy one = *how;
    budget_choice *trial;
    bool *only, found = false;
    es_error none;
    ES_TRY(ES_ARENA_NEW(arena, trial, s->units, "choices", err));
    ES_TRY(ES_ARENA_NEW(arena, only, s->P, "candidates", err));
    one.only = only;
    for (int64_t type = 0; type < s->types; type++) {
        for (int64_t p = 0; p < s->P; p++)
            only[p] = p % s->types == type && (!how->only || how->only[p]);
        if (allocate_best(s, a, &one, weight, arena, trial, &none) != ES_OK)
            continue; /* this type is too large for the total */
        if (!found || weighted_risk(s, weight, trial) < weighted_risk(s, weight, choices))
            memcpy(choices, trial, (size_t)s->units * sizeof *choices);
        found = true;
    }
    return found ? ES_OK
                 : es_fail(err, ES_E_RANGE, "allocate.keys", "a larger --ratio",
                           "no type is small enough for a cost of %.15g", how->total);
}

/* Divides the cost of a cache by a rule in use. */
static es_status allocate_cache(const budget_state *s, const budget_means *a,
                                const budget_strategy *how, const double *weight, es_arena *arena,
                                budget_choice *choices, es_error *err)
{
    if (how->allocation == BUDGET_ONE_TYPE)
        return allocate_one_type(s, a, how, weight, arena, choices, err);
    ES_TRY(allocate_single(s, a, how, weight, arena, choices, err));
    if (how->allocation == BUDGET_PYRAMID)
        make_pyramid(s, a, how, choices);
    return ES_OK;
}

es_status budget_allocate(const budget_state *s, const budget_means *a, const budget_strategy *how,
                          es_arena *arena, budget_choice *choices, es_error *err)
{
    double *weight;
    budget_offer o;
    ES_TRY(ES_ARENA_NEW(arena, weight, s->config->layers, "layers", err));
    for (int64_t l = 0; l < s->config->layers; l++)
        weight[l] = how->allocation == BUDGET_LUKV ? 1.0 : budget_weight(s, a, l);
    if (how->allocation == BUDGET_OURS || how->allocation == BUDGET_LUKV)
        return allocate_best(s, a, how, weight, arena, choices, err);
    if (s->mode != BUDGET_IDEAL)
        return allocate_cache(s, a, how, weight, arena, choices, err);
    ES_TRY(budget_offer_new(s, a, how, weight, arena, &o, err));
    ES_TRY(allocate_ideal(s, a, how, arena, &o, err));
    budget_offer_take(s, a, &o, choices);
    return ES_OK;
}

es_status budget_allocate_limit(const budget_state *s, const budget_means *a, double total,
                                es_arena *arena, double *own2, es_error *err)
{
    const budget_strategy how = {.allocation = BUDGET_OURS, .total = total};
    budget_offer o;
    ES_TRY(budget_offer_new(s, a, &how, NULL, arena, &o, err));
    for (int64_t u = 0; u < s->units; u++) {
        double *risk = o.risk + u * o.most;
        for (int64_t i = 0; i < o.curves[u].count; i++)
            risk[i] = budget_limit(s, a, u, (double)o.options[u * o.most + i].keys);
        o.curves[u].weight = budget_weight(s, a, layer_of(s, u));
    }
    ES_TRY(es_allocate_keys(o.curves, s->units, total, o.chosen, NULL, NULL, err));
    memset(own2, 0, (size_t)s->config->layers * sizeof *own2);
    for (int64_t u = 0; u < s->units; u++)
        own2[layer_of(s, u)] += o.risk[u * o.most + o.chosen[u]];
    return ES_OK;
}

/* ---- tolerances ---- */

es_status budget_min_keys_for_error(const budget_state *s, const budget_means *a,
                                    const double *tolerance, es_arena *arena,
                                    budget_choice *choices, es_error *err)
{
    const budget_strategy how = budget_strategy_of(s, BUDGET_OURS, NAN);
    budget_offer o;
    ES_TRY(budget_offer_new(s, a, &how, NULL, arena, &o, err));
    const int64_t groups = o.groups / s->config->layers; /* of a layer */
    for (int64_t l = 0; l < s->config->layers; l++) {
        const es_status status = es_allocate_risk(o.curves + l * groups, groups,
                                                  tolerance[l] * tolerance[l] * a->out2[l],
                                                  o.chosen + l * groups, NULL, NULL, err);
        if (status == ES_E_RANGE && s->mode != BUDGET_IDEAL)
            return es_fail(err, ES_E_RANGE, "budget.types",
                           "allow a larger --error, or give finer types, as in --kv-type f16,q8_0",
                           "rounding alone changes layer %lld by more than --error allows",
                           (long long)l);
        ES_TRY(status);
    }
    budget_offer_take(s, a, &o, choices);
    return ES_OK;
}

double budget_loss(const budget_state *s, const budget_means *a, const budget_choice *choices)
{
    return weighted_risk(s, a->loss, choices);
}

es_status budget_min_keys_for_loss(const budget_state *s, const budget_means *a, double loss,
                                   es_arena *arena, double *total, es_error *err)
{
    const double all = budget_all_cost(s);
    budget_strategy how = budget_strategy_of(s, BUDGET_OURS, NAN);
    double low = how.total = budget_least_cost(s, &how), high = all;
    budget_choice *choices;
    ES_TRY(ES_ARENA_NEW(arena, choices, s->units, "choices", err));
    ES_TRY(budget_allocate(s, a, &how, arena, choices, err));
    if (budget_loss(s, a, choices) <= loss)
        high = low;
    while (high - low > 0.005 * all) {
        how.total = 0.5 * (low + high);
        ES_TRY(budget_allocate(s, a, &how, arena, choices, err));
        *(budget_loss(s, a, choices) <= loss ? &high : &low) = how.total;
    }
    *total = high;
    return ES_OK;
}

/* ---- what trials run ---- */

void budget_specs(const budget_state *s, const budget_choice *choices, es_policy_spec *out)
{
    const int64_t size = s->config->heads / s->config->kv_heads;
    for (int64_t h = 0; h < s->config->layers * s->config->heads; h++) {
        const budget_choice *choice = &choices[h / size];
        es_policy_spec_init(&out[h], NULL);
        if (choice->candidate < 0)
            continue;
        out[h] = s->policies[h / s->config->heads * s->P + choice->candidate];
        out[h].keys = choice->keys;
        es_policy_spec_fit(&out[h], s->config->causal);
    }
}

void budget_units(const budget_state *s, const budget_choice *choices, es_cache_unit *out)
{
    for (int64_t u = 0; u < s->units; u++) {
        out[u] = s->candidates[choices[u].candidate].unit;
        out[u].evict.keys = choices[u].keys;
        if (choices[u].keys >= s->grids[layer_of(s, u)].sees)
            es_evict_init(&out[u].evict, NULL);
    }
}

es_status budget_kept(const budget_state *s, const budget_choice *choices,
                      budget_allocation allocation, es_arena *arena, es_kept_keys *out,
                      es_error *err)
{
    const es_model_config *c = s->config;
    es_policy_spec *specs;
    es_cache_unit *units;
    *out = (es_kept_keys){.mode = budget_evict_mode(s), .prompt = s->prompt};
    if (s->mode == BUDGET_IDEAL) {
        ES_TRY(ES_ARENA_NEW_2D(arena, specs, c->layers, c->heads, "specs", err));
        budget_specs(s, choices, specs);
        out->heads = specs;
        return ES_OK;
    }
    ES_TRY(ES_ARENA_NEW(arena, units, s->units, "units", err));
    budget_units(s, choices, units);
    for (int64_t u = 0; u < s->units && allocation == BUDGET_ADA; u++)
        units[u].evict.alpha = ADA_ALPHA;
    out->units = units;
    return ES_OK;
}

/* ---- prediction ---- */

/* Returns a root mean square error in units of the spread; NaN for a spread of 0. */
static double relative(double error2, double spread2)
{
    return spread2 > 0.0 ? sqrt(fmax(0.0, error2) / spread2) : (double)NAN;
}

double budget_own2(const budget_state *s, const budget_means *a, const budget_choice *choices,
                   int64_t layer)
{
    const int64_t groups = s->config->kv_heads;
    double sum = 0.0;
    for (int64_t u = layer * groups; u < (layer + 1) * groups; u++)
        if (choices[u].candidate >= 0)
            sum += budget_risk(s, a, u, choices[u].candidate, (double)choices[u].keys);
    return sum;
}

/* Predicts what the plan `choices` does (THEORY 14 (B1), (B2), (B3)):
 *
 *     own_l^2    = sum_u R_u(m_u) * optimism_l * heads_l           error of layer l's own output
 *     e_j^2      = c_j sum_l t_{l->j} own_l^2                      error of hidden state j
 *     extra loss = f->loss * sum_l lambda_l own_l^2
 *
 * own2 (L) replaces the sums of risks if it is not NULL. The factors come from runs of the
 * calibration blocks: optimism_l = R on the block/R on the others, heads_l = own_l^2 found/R on the
 * block, c_j = coherence[j]. A factor that is missing counts as 1. Errors of the outputs and states
 * are written relative to their spread, sqrt(e_j^2/spread_j^2). */
void budget_predict(const budget_state *s, const budget_means *a, const budget_choice *choices,
                    const double *own2, const budget_factors *f, budget_forecast *out)
{
    const int64_t L = s->config->layers;
    out->loss = 0.0;
    for (int64_t j = 0; j <= L; j++)
        out->state[j] = 0.0;
    for (int64_t l = 0; l < L; l++) {
        const double own = (own2 ? own2[l] : budget_own2(s, a, choices, l)) *
                           (f && f->optimism ? f->optimism[l] : 1.0) *
                           (f && f->heads ? f->heads[l] : 1.0);
        out->own[l] = relative(own, a->out2[l]);
        out->loss += a->loss[l] * own * (f && f->loss > 0.0 ? f->loss : 1.0);
        for (int64_t j = 0; j <= L; j++)
            out->state[j] += a->transfer[l * (L + 1) + j] * own;
    }
    for (int64_t j = 0; j <= L; j++)
        out->state[j] =
            relative(out->state[j] * (f && f->coherence ? f->coherence[j] : 1.0), a->spread2[j]);
}
