/* search.c : what a plan has to be made for so that the model, not only the sum of its
 * risks, stays within what was asked for.
 *
 * A number of keys is what it is. A tolerance is met by trial: plans are run through the model on
 * the calibration's blocks, each block under the plan that the other blocks make, so that what is
 * found is what text has to expect that nobody has seen. What was computed for the plan, over what
 * was found, corrects what is asked of the next:
 *
 *   error   of each layer: the computed error that plans may have, times asked / found
 *   loss    the total at which the computed loss is asked / found times that of the last total
 *
 * Both are fixed-point steps along a curve whose shape is known: found/computed changes little
 * from one plan to the next. The loss that is found is KL, which has a fraction of the noise that
 * losses of tokens have; or the extra loss less its standard error, if that is larger: text that is
 * not as the model expects it costs more than KL. */
#include <math.h>

#include "base/error.h"
#include "experiments/budget/question.h"

/* ---- plans ---- */

es_status budget_make(const budget_state *s, const budget_means *a, const budget_target *aim,
                      es_arena *arena, budget_choice *picks, es_error *err)
{
    return aim->tolerance ? budget_min_keys_for_error(s, a, aim->tolerance, arena, picks, err)
                          : budget_share(s, a, BUDGET_OURS, aim->total, NULL, arena, picks, err);
}

es_status budget_fold(const es_job *job, int64_t block, const budget_target *aim,
                      const es_exec *exec, es_arena *arena, budget_choice *picks, es_error *err)
{
    const budget_state *s = job->state;
    const budget_subset others = {block, block + 1, s->text.count > 1};
    budget_means means;
    ES_TRY(budget_average(job, others, exec, arena, &means, err));
    return budget_make(s, &means, aim, arena, picks, err);
}

/* ---- aims ---- */

static es_status new_tolerance(const budget_state *s, es_arena *arena, double **out, es_error *err)
{
    return ES_ARENA_NEW(arena, *out, s->config->layers, "tolerances", err);
}

static es_status first_aim(const es_job *job, const budget_means *all, es_arena *arena,
                           budget_target *out, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    double *tolerance;
    *out = (budget_target){.total = p->keys ? (double)p->keys : p->ratio * budget_everything(s)};
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

/* A layer's error as found in a step, in spreads. */
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

/* What is lost as found in a step. Where distributions do not fit there is no KL. */
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

static es_status correct_errors(const es_job *job, int step, const es_exec *exec, es_arena *arena,
                                budget_target *aim, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    double *tolerance;
    ES_TRY(new_tolerance(s, arena, &tolerance, err));
    for (int64_t l = 0; l < s->config->layers; l++) {
        double found;
        ES_TRY(found_error(job, step, l, exec, &found, err));
        tolerance[l] = aim->tolerance[l] * (found > 0.0 ? p->error / found : 1.0);
    }
    aim->tolerance = tolerance;
    return ES_OK;
}

static es_status correct_loss(const es_job *job, int step, const budget_means *all,
                              const es_exec *exec, es_arena *arena, budget_target *aim,
                              es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    double found;
    budget_choice *picks;
    ES_TRY(ES_ARENA_NEW(arena, picks, s->units, "picks", err));
    ES_TRY(budget_make(s, all, aim, arena, picks, err));
    ES_TRY(found_loss(job, step, exec, arena, &found, err));
    const double computed = budget_loss(s, all, picks);
    if (!(found > 0.0 && computed > 0.0)) /* nothing is lost: no key too few */
        return ES_OK;
    return budget_min_keys_for_loss(s, all, computed * p->loss / found, arena, &aim->total, err);
}

static bool recall_aim(budget_state *s, int steps, budget_target *out)
{
    pthread_mutex_lock(&s->lock);
    const bool known = s->aimed[steps];
    *out = s->aims[steps];
    pthread_mutex_unlock(&s->lock);
    return known;
}

/* Threads that found it at the same time found the same. */
static es_status remember_aim(const es_job *job, int steps, const budget_target *aim, es_error *err)
{
    budget_state *s = job->state;
    double *tolerance = NULL;
    es_status status = ES_OK;
    pthread_mutex_lock(&s->lock);
    if (!s->aimed[steps] && aim->tolerance) {
        s->memory.budget = job->exec.budget;
        status = new_tolerance(s, &s->memory, &tolerance, err);
        for (int64_t l = 0; l < s->config->layers && status == ES_OK; l++)
            tolerance[l] = aim->tolerance[l];
    }
    if (!s->aimed[steps] && status == ES_OK) {
        s->aims[steps] = (budget_target){aim->total, tolerance};
        s->aimed[steps] = true;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

es_status budget_target_after(const es_job *job, int steps, const budget_means *all,
                              const es_exec *exec, es_arena *arena, budget_target *out,
                              es_error *err)
{
    if (recall_aim(job->state, steps, out))
        return ES_OK;
    if (steps == 0) {
        ES_TRY(first_aim(job, all, arena, out, err));
    } else {
        ES_TRY(budget_target_after(job, steps - 1, all, exec, arena, out, err));
        ES_TRY(out->tolerance ? correct_errors(job, steps - 1, exec, arena, out, err)
                              : correct_loss(job, steps - 1, all, exec, arena, out, err));
    }
    return remember_aim(job, steps, out, err);
}
