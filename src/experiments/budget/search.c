/* SPDX-License-Identifier: Apache-2.0 */
/* search.c : finds the target of a plan for which the model itself, not only the sum of risks,
 * stays within --error or --loss.
 *
 * A given amount is the target. A tolerance is met by trial: plans run through the model on
 * the calibration blocks, each block under the plan made from the other blocks, so that the result
 * holds for new text. The ratio of asked to measured corrects the next target:
 *
 *   error   of each layer: the allowed computed error is multiplied by asked / measured
 *   loss    the cost at which the computed loss is asked / measured times the previous one
 *
 * Both are fixed-point steps along a curve of known shape: measured / computed changes little from
 * one plan to the next. The measured loss is KL, which has a fraction of the noise of token losses;
 * or the extra loss minus its standard error, if that is larger, because text that the model does
 * not expect costs more than KL. */
#include <math.h>

#include "base/error.h"
#include "experiments/budget/question.h"

/* ---- plans ---- */

es_status budget_plan_for(const budget_state *s, const budget_means *a, const budget_target *target,
                          es_arena *arena, budget_choice *choices, es_error *err)
{
    const budget_strategy how = budget_strategy_of(s, BUDGET_OURS, target->total);
    return target->tolerance
               ? budget_min_keys_for_error(s, a, target->tolerance, arena, choices, err)
               : budget_allocate(s, a, &how, arena, choices, err);
}

es_status budget_plan_without(const es_job *job, int64_t block, const budget_target *target,
                              const es_exec *exec, es_arena *arena, budget_choice *choices,
                              es_error *err)
{
    const budget_state *s = job->state;
    const budget_subset others = {block, block + 1, s->text.count > 1};
    budget_means means;
    ES_TRY(budget_average(job, others, exec, arena, &means, err));
    return budget_plan_for(s, &means, target, arena, choices, err);
}

/* ---- targets ---- */

/* Allocates a tolerance for each layer. */
static es_status new_tolerance(const budget_state *s, es_arena *arena, double **out, es_error *err)
{
    return ES_ARENA_NEW(arena, *out, s->config->layers, "tolerances", err);
}

/* Returns the first target: the amount given, or the smallest that should meet --error or
 * --loss by prediction. */
static es_status first_target(const es_job *job, const budget_means *all, es_arena *arena,
                              budget_target *out, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    double *tolerance;
    *out = (budget_target){.total = budget_asked(p, s)};
    if (!isnan(p->loss))
        return budget_min_keys_for_loss(s, all, p->loss, arena, &out->total, err);
    if (isnan(p->error))
        return ES_OK;
    ES_TRY(new_tolerance(s, arena, &tolerance, err));
    for (int64_t l = 0; l < s->config->layers; l++)
        tolerance[l] = p->error;
    out->tolerance = tolerance;
    return ES_OK;
}

/* Computes the error of a layer measured in a step, over its spread: *out. */
static es_status found_error(const es_job *job, int step, int64_t layer, const es_exec *exec,
                             double *out, es_error *err)
{
    const budget_state *s = job->state;
    double error2 = 0.0, spread2 = 0.0;
    for (int64_t b = 0; b < s->text.count; b++) {
        const double *cell;
        ES_TRY(es_job_fetch(job, BUDGET_SEARCH + step, b, exec, &cell, err));
        const es_plan_trial t = budget_trial_at(s, cell);
        error2 += t.own2[layer];
        spread2 += t.out2[layer];
    }
    *out = sqrt(error2 / spread2);
    return ES_OK;
}

/* Computes the loss measured in a step: *out. KL is NaN where distributions do not fit into memory.
 */
static es_status found_loss(const es_job *job, int step, const es_exec *exec, es_arena *arena,
                            double *out, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t B = s->text.count;
    double kl = 0.0;
    double *extra;
    ES_TRY(ES_ARENA_NEW(arena, extra, B, "losses", err));
    for (int64_t b = 0; b < B; b++) {
        const double *cell;
        ES_TRY(es_job_fetch(job, BUDGET_SEARCH + step, b, exec, &cell, err));
        const es_plan_trial t = budget_trial_at(s, cell);
        kl += t.ends[ES_END_KL] / (double)B;
        extra[b] = t.ends[ES_END_LOSS];
    }
    const es_measured loss = es_measured_mean(extra, B);
    *out = isnan(kl) ? loss.value : fmax(kl, B > 1 ? loss.value - loss.se : kl);
    return ES_OK;
}

/* Corrects the tolerances by the ratio of wanted to measured error, layer by layer. */
static es_status correct_errors(const es_job *job, int step, const es_exec *exec, es_arena *arena,
                                budget_target *target, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    double *tolerance;
    ES_TRY(new_tolerance(s, arena, &tolerance, err));
    for (int64_t l = 0; l < s->config->layers; l++) {
        double found;
        ES_TRY(found_error(job, step, l, exec, &found, err));
        tolerance[l] = target->tolerance[l] * (found > 0.0 ? p->error / found : 1.0);
    }
    target->tolerance = tolerance;
    return ES_OK;
}

/* Corrects the predicted loss by the ratio of measured to predicted, and solves for the cost again.
 */
static es_status correct_loss(const es_job *job, int step, const budget_means *all,
                              const es_exec *exec, es_arena *arena, budget_target *target,
                              es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    double found;
    budget_choice *choices;
    ES_TRY(ES_ARENA_NEW(arena, choices, s->units, "choices", err));
    ES_TRY(budget_plan_for(s, all, target, arena, choices, err));
    ES_TRY(found_loss(job, step, exec, arena, &found, err));
    const double computed = budget_loss(s, all, choices);
    if (!(found > 0.0 && computed > 0.0)) /* nothing is lost: keep the target */
        return ES_OK;
    return budget_min_keys_for_loss(s, all, computed * p->loss / found, arena, &target->total, err);
}

/* Reads a stored target under the lock; returns false if it is not known yet. */
static bool load_target(budget_state *s, int steps, budget_target *out)
{
    pthread_mutex_lock(&s->lock);
    const bool known = s->target_known[steps];
    *out = s->targets[steps];
    pthread_mutex_unlock(&s->lock);
    return known;
}

/* Stores a target. Threads that compute it at the same time get the same result. */
static es_status store_target(const es_job *job, int steps, const budget_target *target,
                              es_error *err)
{
    budget_state *s = job->state;
    double *tolerance = NULL;
    es_status status = ES_OK;
    pthread_mutex_lock(&s->lock);
    if (!s->target_known[steps] && target->tolerance) {
        s->memory.budget = job->exec.budget;
        status = new_tolerance(s, &s->memory, &tolerance, err);
        for (int64_t l = 0; l < s->config->layers && status == ES_OK; l++)
            tolerance[l] = target->tolerance[l];
    }
    if (!s->target_known[steps] && status == ES_OK) {
        s->targets[steps] = (budget_target){target->total, tolerance};
        s->target_known[steps] = true;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

es_status budget_target_after(const es_job *job, int steps, const budget_means *all,
                              const es_exec *exec, es_arena *arena, budget_target *out,
                              es_error *err)
{
    if (load_target(job->state, steps, out))
        return ES_OK;
    if (steps == 0) {
        ES_TRY(first_target(job, all, arena, out, err));
    } else {
        ES_TRY(budget_target_after(job, steps - 1, all, exec, arena, out, err));
        ES_TRY(out->tolerance ? correct_errors(job, steps - 1, exec, arena, out, err)
                              : correct_loss(job, steps - 1, all, exec, arena, out, err));
    }
    return store_target(job, steps, out, err);
}
