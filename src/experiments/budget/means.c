/* SPDX-License-Identifier: Apache-2.0 */
/* means.c : means over blocks of risks and transfers, and risks at any number of keys.
 *
 * A unit is a group of heads that share their keys (one head where none do). Its risk is that of
 * the sum of their errors; between the computed numbers of keys it is interpolated linearly in
 * logarithms. own2 of a layer is the sum over its units, since errors of heads are nearly
 * independent (THEORY 14). Errors of hidden states and the loss are proportional to own2 (THEORY
 * 15): measured with one sparse layer at a time, and added up. */
#include <math.h>

#include "base/error.h"
#include "experiments/budget/question.h"

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

/* Returns the layer of a unit, a key-value head. */
static int64_t layer_of(const budget_state *s, int64_t unit) { return unit / s->config->kv_heads; }

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

/* A cache that keeps all keys still rounds them. Only what dropping adds to that falls to 0. */
double budget_curve_at(const budget_state *s, int64_t layer, const double *curve, double m)
{
    const double rounded = s->mode == BUDGET_IDEAL ? 0.0 : curve[s->K - 1];
    double x0 = NAN, y0 = NAN;
    for (int64_t k = 0; k < s->K; k++) {
        const double x = (double)s->grids[layer].keys[k], y = curve[k] - rounded;
        if (isnan(y))
            continue;
        if (x >= m)
            return rounded + (isnan(x0) ? y : between(x0, y0, x, y, m));
        x0 = x;
        y0 = y;
    }
    return rounded + y0;
}

double budget_risk(const budget_state *s, const budget_means *a, int64_t unit, int64_t candidate,
                   double m)
{
    return budget_curve_at(s, layer_of(s, unit), a->risk + (unit * s->P + candidate) * s->K, m);
}

double budget_limit(const budget_state *s, const budget_means *a, int64_t unit, double m)
{
    return budget_curve_at(s, layer_of(s, unit), a->limit + unit * s->K, m);
}

double budget_weight(const budget_state *s, const budget_means *a, int64_t layer)
{
    const int64_t L = s->config->layers;
    return a->transfer[layer * (L + 1) + L];
}
