/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c : makes a plan from risks by number of keys, and predicts its errors.
 *
 * A unit is a group of heads that share their keys (one head where none do). Its risk is that of
 * the sum of their errors, under one policy and one number of keys; between the computed numbers of
 * keys it is interpolated linearly in logarithms. own2 of a layer is the sum over its units, since
 * errors of heads are nearly independent (THEORY 14). Errors of hidden states and the loss are
 * proportional to own2 (THEORY 15): measured with one sparse layer at a time, and added up. */
#include <math.h>
#include <string.h>

#include <esscher/allocate.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "policy/policy.h"

const char *const budget_allocation_names[BUDGET_ALLOCATIONS] = {"ours", "uniform", "pyramid",
                                                                 "mass"};

#define PYRAMID_LAST                                                                               \
    0.25 /* keys of the last layer, in means: PyramidKV's slope is of that size                    \
          */

/* Returns the layer of a unit, a key-value head. */
static int64_t layer_of(const budget_state *s, int64_t unit) { return unit / s->config->kv_heads; }

/* Returns the numbers of keys that a unit may have. */
static const budget_grid *grid_of(const budget_state *s, int64_t unit)
{
    return &s->grids[layer_of(s, unit)];
}

/* ---- means over blocks ---- */

/* Allocates means over blocks. */
static es_status take(es_arena *arena, int64_t a, int64_t b, double **out, es_error *err)
{
    return ES_ARENA_NEW_2D(arena, *out, a, b, "means over blocks", err);
}

/* Allocates means; risk, limit, need and out2 are one array in this order. */
static es_status means_new(const budget_state *s, es_arena *arena, budget_means *out, es_error *err)
{
    const int64_t L = s->config->layers;
    ES_TRY(take(arena, budget_sum_numbers(s, BUDGET_CURVES), 1, &out->risk, err));
    out->limit = out->risk + s->units * s->P * s->K;
    out->need = out->limit + s->units * s->K;
    out->out2 = out->need + s->units;
    ES_TRY(take(arena, L, L + 1, &out->transfer, err));
    ES_TRY(take(arena, L + 1, 1, &out->spread2, err));
    return take(arena, L, 1, &out->loss, err);
}

/* Returns 1 / number of blocks in the subset. */
static double share_of(budget_subset of, int64_t blocks)
{
    const int64_t inside = of.to - of.from;
    return 1.0 / (double)(of.others ? blocks - inside : inside);
}

/* Computes ratios of sums over blocks: error2 and loss over own2 of the sparse layer, as measured.
 */
static es_status average_gains(const es_job *job, budget_subset of, const es_exec *exec,
                               es_arena *arena, budget_means *out, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    const double share = share_of(of, s->text.count);
    double *sum;
    ES_TRY(take(arena, budget_sum_numbers(s, BUDGET_GAINS), 1, &sum, err));
    ES_TRY(budget_sum(job, BUDGET_GAINS, of, exec, sum, err));
    const double *own2 = sum + L + 1, *loss = own2 + L, *error2 = loss + L;
    for (int64_t j = 0; j <= L; j++)
        out->spread2[j] = share * sum[j];
    for (int64_t l = 0; l < L; l++) {
        out->loss[l] = own2[l] > 0.0 ? loss[l] / own2[l] : 0.0;
        for (int64_t j = l * (L + 1); j < (l + 1) * (L + 1); j++)
            out->transfer[j] = own2[l] > 0.0 ? error2[j] / own2[l] : share * error2[j];
    }
    return ES_OK;
}

budget_subset budget_all(const budget_state *s) { return (budget_subset){.to = s->text.count}; }

es_status budget_average_risks(const es_job *job, int stage, budget_subset of, const es_exec *exec,
                               es_arena *arena, budget_means *out, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t blocks = stage == BUDGET_OTHERS ? s->others.count : s->text.count;
    ES_TRY(means_new(s, arena, out, err));
    ES_TRY(budget_sum(job, stage, of, exec, out->risk, err));
    for (int64_t i = 0; i < budget_sum_numbers(s, stage); i++)
        out->risk[i] *= share_of(of, blocks);
    return ES_OK;
}

es_status budget_average(const es_job *job, budget_subset of, const es_exec *exec, es_arena *arena,
                         budget_means *out, es_error *err)
{
    ES_TRY(budget_average_risks(job, BUDGET_CURVES, of, exec, arena, out, err));
    return average_gains(job, of, exec, arena, out, err);
}

void budget_copy_gains(const budget_means *from, budget_means *to)
{
    to->transfer = from->transfer;
    to->spread2 = from->spread2;
    to->loss = from->loss;
}

/* ---- risks at any number of keys ---- */

/* Interpolates between (x0, y0) and (x1, y1): linear in ln x and ln y, or in x and y if y is not
 * positive. */
static double between(double x0, double y0, double x1, double y1, double x)
{
    if (!(x1 > x0))
        return y0;
    if (!(y0 > 0.0 && y1 > 0.0))
        return y0 + (y1 - y0) * ((x - x0) / (x1 - x0)); /* the share first: 1 at x1, so y1 there */
    return y0 * exp(log(y1 / y0) * log(x / x0) / log(x1 / x0));
}

double budget_curve_at(const budget_state *s, int64_t layer, const double *curve, double m)
{
    double x0 = NAN, y0 = NAN;
    for (int64_t k = 0; k < s->K; k++) {
        const double x = (double)s->grids[layer].keys[k], y = curve[k];
        if (isnan(y))
            continue;
        if (x >= m)
            return isnan(x0) ? y : between(x0, y0, x, y, m);
        x0 = x;
        y0 = y;
    }
    return y0;
}

double budget_risk(const budget_state *s, const budget_means *a, int64_t unit, int64_t policy,
                   double m)
{
    return budget_curve_at(s, layer_of(s, unit), a->risk + (unit * s->P + policy) * s->K, m);
}

double budget_limit(const budget_state *s, const budget_means *a, int64_t unit, double m)
{
    return budget_curve_at(s, layer_of(s, unit), a->limit + unit * s->K, m);
}

budget_choice budget_best(const budget_state *s, const budget_means *a, int64_t unit, int64_t m,
                          const bool *only)
{
    budget_choice best = {.policy = -1, .keys = m};
    if (m >= grid_of(s, unit)->sees)
        return best;
    for (int64_t p = 0; p < s->P; p++) {
        const double risk = budget_risk(s, a, unit, p, (double)m);
        if ((only && !only[p]) || (best.policy >= 0 && !(risk < best.risk)))
            continue;
        best.policy = p;
        best.risk = risk;
    }
    return best;
}

double budget_weight(const budget_state *s, const budget_means *a, int64_t layer)
{
    const int64_t L = s->config->layers;
    return a->transfer[layer * (L + 1) + L];
}

/* ---- allocation ---- */

/* The options of all units, as es_allocate_...() takes them. */
typedef struct offer {
    es_curve *curves;
    double *keys, *risk;
    int64_t *layer, *chosen;
    double *share;
} offer;

/* Allocates what an allocator chooses from: numbers of keys, risks of each unit, weights of
 * layers. */
static es_status offer_new(const budget_state *s, es_arena *arena, offer *o, es_error *err)
{
    ES_TRY(take(arena, s->config->layers, s->n_options, &o->keys, err));
    ES_TRY(take(arena, s->units, s->n_options, &o->risk, err));
    ES_TRY(take(arena, s->units, 1, &o->share, err));
    ES_TRY(ES_ARENA_NEW_2D(arena, o->layer, s->units, 2, "units", err));
    o->chosen = o->layer + s->units;
    ES_TRY(ES_ARENA_NEW(arena, o->curves, s->units, "units", err));
    for (int64_t l = 0; l < s->config->layers; l++)
        for (int64_t i = 0; i < s->grids[l].n_options; i++)
            o->keys[l * s->n_options + i] = (double)s->grids[l].options[i];
    return ES_OK;
}

/* Fills the risk of every unit at every number of keys with that of its best policy (of those in
 * `only`), weighted by how much its layer matters. */
static void fill_offer(const budget_state *s, const budget_means *a, const bool *only, offer *o)
{
    for (int64_t u = 0; u < s->units; u++) {
        const budget_grid *grid = grid_of(s, u);
        double *risk = o->risk + u * s->n_options;
        for (int64_t i = 0; i < grid->n_options; i++)
            risk[i] = budget_best(s, a, u, grid->options[i], only).risk;
        o->layer[u] = layer_of(s, u);
        o->curves[u] = (es_curve){grid->n_options, o->keys + o->layer[u] * s->n_options, risk,
                                  budget_weight(s, a, o->layer[u])};
    }
}

/* Returns the keys that a query of the unit's layer sees, over the most of any layer: a fair share
 * of a layer with a window. */
static double fair_share(const budget_state *s, int64_t unit)
{
    return (double)grid_of(s, unit)->sees / (double)budget_most_seen(s);
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

/* Allocates keys by the named rule; the default minimises the sum of weighted risks. */
static es_status allocate(const budget_state *s, const budget_means *a,
                          budget_allocation allocation, double total, offer *o, es_error *err)
{
    switch (allocation) {
    case BUDGET_UNIFORM: /* the same share of what each sees */
        for (int64_t u = 0; u < s->units; u++)
            o->share[u] = fair_share(s, u);
        return es_allocate_mass(o->curves, s->units, total, o->share, o->chosen, NULL, NULL, err);
    case BUDGET_PYRAMID:
        return es_allocate_pyramid(o->curves, s->units, total, o->layer, s->config->layers,
                                   PYRAMID_LAST, o->chosen, NULL, NULL, err);
    case BUDGET_MASS:
        share_by_mass(s, a, o->share);
        return es_allocate_mass(o->curves, s->units, total, o->share, o->chosen, NULL, NULL, err);
    default:
        return es_allocate_keys(o->curves, s->units, total, o->chosen, NULL, NULL, err);
    }
}

/* Reads an allocation back as policy and number of keys of each unit. */
static void take_chosen(const budget_state *s, const budget_means *a, const bool *only,
                        const offer *o, budget_choice *choices)
{
    for (int64_t u = 0; u < s->units; u++)
        choices[u] = budget_best(s, a, u, grid_of(s, u)->options[o->chosen[u]], only);
}

es_status budget_allocate(const budget_state *s, const budget_means *a,
                          budget_allocation allocation, double total, const bool *only,
                          es_arena *arena, budget_choice *choices, es_error *err)
{
    offer o;
    ES_TRY(offer_new(s, arena, &o, err));
    fill_offer(s, a, only, &o);
    ES_TRY(allocate(s, a, allocation, total, &o, err));
    take_chosen(s, a, only, &o, choices);
    return ES_OK;
}

es_status budget_allocate_limit(const budget_state *s, const budget_means *a, double total,
                                es_arena *arena, double *own2, es_error *err)
{
    offer o;
    ES_TRY(offer_new(s, arena, &o, err));
    fill_offer(s, a, NULL, &o);
    for (int64_t u = 0; u < s->units; u++)
        for (int64_t i = 0; i < grid_of(s, u)->n_options; i++)
            o.risk[u * s->n_options + i] = budget_limit(s, a, u, o.curves[u].keys[i]);
    ES_TRY(es_allocate_keys(o.curves, s->units, total, o.chosen, NULL, NULL, err));
    memset(own2, 0, (size_t)s->config->layers * sizeof *own2);
    for (int64_t u = 0; u < s->units; u++)
        own2[layer_of(s, u)] += o.risk[u * s->n_options + o.chosen[u]];
    return ES_OK;
}

/* ---- tolerances ---- */

es_status budget_min_keys_for_error(const budget_state *s, const budget_means *a,
                                    const double *tolerance, es_arena *arena,
                                    budget_choice *choices, es_error *err)
{
    const int64_t groups = s->config->kv_heads;
    offer o;
    ES_TRY(offer_new(s, arena, &o, err));
    fill_offer(s, a, NULL, &o);
    for (int64_t l = 0; l < s->config->layers; l++) {
        es_curve *own = o.curves + l * groups;
        const double most = tolerance[l] * tolerance[l] * a->out2[l];
        for (int64_t g = 0; g < groups; g++)
            own[g].weight = 1.0;
        ES_TRY(es_allocate_risk(own, groups, most, o.chosen + l * groups, NULL, NULL, err));
    }
    take_chosen(s, a, NULL, &o, choices);
    return ES_OK;
}

double budget_loss(const budget_state *s, const budget_means *a, const budget_choice *choices)
{
    double loss = 0.0;
    for (int64_t u = 0; u < s->units; u++)
        loss += a->loss[layer_of(s, u)] * choices[u].risk;
    return loss;
}

es_status budget_min_keys_for_loss(const budget_state *s, const budget_means *a, double loss,
                                   es_arena *arena, double *total, es_error *err)
{
    const double all = budget_all_keys(s);
    double low = budget_least_keys(s), high = all;
    budget_choice *choices;
    ES_TRY(ES_ARENA_NEW(arena, choices, s->units, "choices", err));
    ES_TRY(budget_allocate(s, a, BUDGET_OURS, low, NULL, arena, choices, err));
    if (budget_loss(s, a, choices) <= loss)
        high = low;
    while (high - low > 0.005 * all) {
        const double middle = 0.5 * (low + high);
        ES_TRY(budget_allocate(s, a, BUDGET_OURS, middle, NULL, arena, choices, err));
        *(budget_loss(s, a, choices) <= loss ? &high : &low) = middle;
    }
    *total = high;
    return ES_OK;
}

double budget_total(const budget_state *s, const budget_choice *choices)
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

int64_t budget_most_seen(const budget_state *s)
{
    int64_t most = 0;
    for (int64_t l = 0; l < s->config->layers; l++)
        most = s->grids[l].sees > most ? s->grids[l].sees : most;
    return most;
}

double budget_least_keys(const budget_state *s)
{
    double sum = 0.0;
    for (int64_t l = 0; l < s->config->layers; l++)
        sum += (double)(s->config->kv_heads * s->grids[l].options[0]);
    return sum;
}

void budget_specs(const budget_state *s, const budget_choice *choices, es_policy_spec *out)
{
    const int64_t size = s->config->heads / s->config->kv_heads;
    for (int64_t h = 0; h < s->config->layers * s->config->heads; h++) {
        const budget_choice *choice = &choices[h / size];
        es_policy_spec_init(&out[h], NULL);
        if (choice->policy < 0)
            continue;
        out[h] = s->policies[h / s->config->heads * s->P + choice->policy];
        out[h].keys = choice->keys;
        es_policy_spec_fit(&out[h], s->config->causal);
    }
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
        if (choices[u].policy >= 0)
            sum += budget_risk(s, a, u, choices[u].policy, (double)choices[u].keys);
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
