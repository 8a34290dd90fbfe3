/* SPDX-License-Identifier: Apache-2.0 */
/* forecast.c : predicts what the plan does on new text, with standard errors.
 *
 * Risks are computed one head at a time, and gains one layer at a time. Their sums miss three
 * things, which are estimated from the rehearsal: each block b runs under the plan made from the
 * other blocks (cells.c). With sums over blocks b, all of mean squares:
 *
 *   optimism    risk on b over risk on the other blocks: a plan is chosen for small risks on the
 *               blocks it is made from
 *   heads       own2 of a layer measured on b over the sum of its heads' risks there: products of
 *               errors of different heads, queries that were not sampled, interpolation between
 *               numbers of keys
 *   coherence   error of a hidden state measured on b over the sum of the layers' measured own2
 *               times their transfers: products of errors of different layers, and transfers that
 *               hold for small errors only
 *
 * The three ratios telescope: each denominator is the previous numerator. [heuristic] */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"

/* Allocates numbers of a forecast. */
static es_status take(es_arena *arena, int64_t a, int64_t b, double **out, es_error *err)
{
    return ES_ARENA_NEW_2D(arena, *out, a, b, "a forecast", err);
}

es_status budget_forecast_new(const budget_state *s, es_arena *arena, budget_forecast *out,
                              es_error *err)
{
    ES_TRY(take(arena, 2 * s->config->layers + 1, 1, &out->own, err));
    out->state = out->own + s->config->layers;
    return ES_OK;
}

/* Allocates the factors between predicted and measured errors, one per layer and one for the
 * end. */
static es_status factors_new(const budget_state *s, es_arena *arena, budget_factors *out,
                             es_error *err)
{
    const int64_t L = s->config->layers;
    ES_TRY(take(arena, 3 * L + 1, 1, &out->optimism, err));
    out->heads = out->optimism + L;
    out->coherence = out->heads + L;
    return ES_OK;
}

/* ---- plans without a block ---- */

es_status budget_apply(const es_job *job, const budget_context *k, const budget_strategy *r,
                       const budget_means *means, es_arena *arena, budget_choice *choices,
                       es_error *err)
{
    return r->asked ? budget_plan_for(job->state, means, &k->target, arena, choices, err)
                    : budget_allocate(job->state, means, r, arena, choices, err);
}

/* Computes the means without each block, and of each block alone. */
static es_status make_folds(es_job *job, budget_context *k, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t B = s->text.count;
    k->folds = B > 1 ? B : 0;
    ES_TRY(ES_ARENA_NEW(k->arena, k->without, 2 * B, "folds", err));
    k->alone = k->without + B;
    for (int64_t b = 0; b < B; b++) {
        ES_TRY(budget_average(job, (budget_subset){b, b + 1, B > 1}, &job->exec, k->arena,
                              &k->without[b], err));
        ES_TRY(budget_average_risks(job, BUDGET_CURVES, (budget_subset){b, b + 1, false},
                                    &job->exec, k->arena, &k->alone[b], err));
        budget_copy_gains(&k->all, &k->alone[b]);
    }
    return ES_OK;
}

/* Adds the risks of the plan made without block b: on b to out (L), on the other blocks to in (L).
 */
static es_status fold_risks(const es_job *job, const budget_context *k, const budget_strategy *r,
                            int64_t b, es_arena *arena, double *in, double *out, es_error *err)
{
    const budget_state *s = job->state;
    budget_choice *choices;
    ES_TRY(ES_ARENA_NEW(arena, choices, s->units, "choices", err));
    ES_TRY(budget_apply(job, k, r, &k->without[b], arena, choices, err));
    for (int64_t l = 0; l < s->config->layers; l++) {
        out[l] += budget_own2(s, &k->alone[b], choices, l);
        in[l] += budget_own2(s, &k->without[b], choices, l);
    }
    return ES_OK;
}

es_status budget_optimism(const es_job *job, const budget_context *k, const budget_strategy *r,
                          double *factor, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    es_arena arena = {.budget = job->exec.budget};
    double *in = NULL;
    es_status status = take(&arena, 2, L, &in, err);
    for (int64_t b = 0; b < k->folds && status == ES_OK; b++)
        status = fold_risks(job, k, r, b, &arena, in, in + L, err);
    for (int64_t l = 0; l < L && status == ES_OK; l++)
        factor[l] = in[l] > 0.0 ? in[L + l] / in[l] : 1.0;
    es_arena_free(&arena);
    return status;
}

es_status budget_forecast_strategy(es_job *job, const budget_context *k, const budget_strategy *how,
                                   budget_choice **choices, budget_forecast *forecast,
                                   es_error *err)
{
    const budget_state *s = job->state;
    budget_factors own = {0};
    ES_TRY(ES_JOB_NEW(job, own.optimism, s->config->layers, err));
    ES_TRY(budget_forecast_new(s, k->arena, forecast, err));
    ES_TRY(ES_JOB_NEW(job, *choices, s->units, err));
    ES_TRY(budget_apply(job, k, how, &k->all, k->arena, *choices, err));
    ES_TRY(budget_optimism(job, k, how, own.optimism, err));
    budget_predict(s, &k->all, *choices, NULL, &own, forecast);
    return ES_OK;
}

/* ---- rehearsal ---- */

/* Returns the numbers of a fold's result: four for each layer, and the loss. */
static int64_t fold_result_numbers(const budget_state *s) { return 4 * s->config->layers + 1; }

/* Allocates in, out, found and error2 as one array. */
static es_status fold_result_new(const budget_state *s, es_arena *arena, budget_fold_result *out,
                                 es_error *err)
{
    const int64_t L = s->config->layers;
    ES_TRY(take(arena, fold_result_numbers(s), 1, &out->in, err));
    out->out = out->in + L;
    out->found = out->out + L;
    out->error2 = out->found + L;
    return ES_OK;
}

/* Fills the result of one fold: what was measured on block b, and what the plan without b predicted
 * for it inside and outside its own text. */
static es_status fill_fold_result(es_job *job, const budget_context *k, int64_t b,
                                  budget_fold_result *out, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t L = s->config->layers;
    const es_plan_trial t = budget_trial_at(s, es_job_numbers(job, BUDGET_REHEARSAL, b));
    es_arena arena = {.budget = job->exec.budget};
    ES_TRY(fold_result_new(s, k->arena, out, err));
    out->kl = isnan(t.ends[ES_END_KL]) ? t.ends[ES_END_LOSS] : t.ends[ES_END_KL];
    memcpy(out->found, t.own2, (size_t)L * sizeof *t.own2);
    memcpy(out->error2, t.error2, (size_t)(L + 1) * sizeof *t.error2);
    const es_status status =
        fold_risks(job, k, &(budget_strategy){.asked = true}, b, &arena, out->in, out->out, err);
    es_arena_free(&arena);
    return status;
}

/* Returns a ratio, or 1 where nothing was predicted: then there is nothing to correct. */
static double over(double above, double below) { return below > 0.0 ? above / below : 1.0; }

/* Sums the results of all blocks. */
static es_status sum_fold_results(const budget_state *s, budget_context *k, es_error *err)
{
    const int64_t numbers = fold_result_numbers(s);
    ES_TRY(fold_result_new(s, k->arena, &k->sum, err));
    for (int64_t b = 0; b < s->text.count; b++) {
        for (int64_t i = 0; i < numbers; i++)
            k->sum.in[i] += k->fold_results[b].in[i];
        k->sum.kl += k->fold_results[b].kl;
    }
    return ES_OK;
}

/* Computes the factors from the sums over all blocks minus those of one (`skip`; NULL: none), with
 * the transfers of `means`. found (L) is scratch memory. */
static void find_factors(const budget_state *s, const budget_context *k, const budget_means *means,
                         const budget_fold_result *skip, double *found, budget_factors *f)
{
    const int64_t L = s->config->layers;
    double sum = 0.0;
    for (int64_t l = 0; l < L; l++) {
        const double in = k->sum.in[l] - (skip ? skip->in[l] : 0.0);
        const double out = k->sum.out[l] - (skip ? skip->out[l] : 0.0);
        found[l] = k->sum.found[l] - (skip ? skip->found[l] : 0.0);
        f->optimism[l] = over(out, in);
        f->heads[l] = over(found[l], out);
        sum += means->loss[l] * found[l];
    }
    for (int64_t j = 0; j <= L; j++) {
        double sum2 = 0.0;
        for (int64_t l = 0; l < L; l++)
            sum2 += means->transfer[l * (L + 1) + j] * found[l];
        f->coherence[j] = over(k->sum.error2[j] - (skip ? skip->error2[j] : 0.0), sum2);
    }
    f->loss = over(k->sum.kl - (skip ? skip->kl : 0.0), sum);
}

/* ---- standard errors ---- */

/* Returns the number of values of a packed forecast: own (L), state (L + 1), computed (L), heads
 * (L), coherence (L
 * + 1), loss, its coherence. */
static int64_t numbers_of(const budget_state *s) { return 5 * s->config->layers + 4; }

/* Writes forecast and factors into one array, so that the jackknife treats all of them alike. */
static void pack(const budget_state *s, const budget_forecast *f, const double *computed,
                 const budget_factors *factors, double *to)
{
    const int64_t L = s->config->layers;
    memcpy(to, f->own, (size_t)L * sizeof *to);
    memcpy(to + L, f->state, (size_t)(L + 1) * sizeof *to);
    memcpy(to + 2 * L + 1, computed, (size_t)L * sizeof *to);
    memcpy(to + 3 * L + 1, factors->heads, (size_t)L * sizeof *to);
    memcpy(to + 4 * L + 1, factors->coherence, (size_t)(L + 1) * sizeof *to);
    to[5 * L + 2] = f->loss;
    to[5 * L + 3] = factors->loss;
}

/* Reads forecast and factors back, in the order of pack(). */
static void unpack(const budget_state *s, const double *from, budget_forecast *f, double *computed,
                   budget_factors *factors)
{
    const int64_t L = s->config->layers;
    memcpy(f->own, from, (size_t)L * sizeof *from);
    memcpy(f->state, from + L, (size_t)(L + 1) * sizeof *from);
    memcpy(computed, from + 2 * L + 1, (size_t)L * sizeof *from);
    memcpy(factors->heads, from + 3 * L + 1, (size_t)L * sizeof *from);
    memcpy(factors->coherence, from + 4 * L + 1, (size_t)(L + 1) * sizeof *from);
    f->loss = from[5 * L + 2];
    factors->loss = from[5 * L + 3];
}

/* Predicts without block b, for the same policies and keys. The risks are those of all blocks:
 * optimism has them in its denominator, so that they cancel. computed (L) is scratch memory first,
 * then a result. */
static void forecast_without(const budget_state *s, const budget_context *k, int64_t b,
                             budget_forecast *f, budget_factors *factors, double *computed)
{
    budget_means means = k->without[b];
    means.risk = k->all.risk;
    find_factors(s, k, &means, &k->fold_results[b], computed, factors);
    budget_predict(s, &means, k->plan, NULL, &(budget_factors){.optimism = factors->optimism}, f);
    memcpy(computed, f->own, (size_t)s->config->layers * sizeof *computed);
    budget_predict(s, &means, k->plan, NULL, factors, f);
}

/* Computes all standard errors by the jackknife over blocks, se^2 = (B - 1)/B sum (x_b - mean)^2.
 */
static es_status find_errors(es_job *job, budget_context *k, es_error *err)
{
    const budget_state *s = job->state;
    const int64_t numbers = numbers_of(s), B = s->text.count;
    budget_forecast f;
    budget_factors factors;
    double *all, *computed, *se;
    ES_TRY(budget_forecast_new(s, k->arena, &f, err));
    ES_TRY(factors_new(s, k->arena, &factors, err));
    ES_TRY(take(k->arena, s->config->layers, 1, &computed, err));
    ES_TRY(take(k->arena, B + 1, numbers, &all, err));
    se = all + B * numbers;
    for (int64_t b = 0; b < k->folds; b++) {
        forecast_without(s, k, b, &f, &factors, computed);
        pack(s, &f, computed, &factors, all + b * numbers);
    }
    for (int64_t i = 0; i < numbers; i++) {
        const es_spread spread = es_spread_of(all + i, B, numbers);
        se[i] = B > 1 ? sqrt(spread.squares * ((double)B - 1.0) / (double)B) : (double)NAN;
    }
    unpack(s, se, &k->forecast_se, k->computed_se, &k->factors_se);
    return ES_OK;
}

/* ---- context ---- */

/* Allocates the plan, its forecast, the factors and their errors. */
static es_status context_new(const budget_state *s, budget_context *k, es_error *err)
{
    const int64_t L = s->config->layers;
    ES_TRY(ES_ARENA_NEW(k->arena, k->plan, s->units, "the plan", err));
    ES_TRY(ES_ARENA_NEW(k->arena, k->fold_results, s->text.count, "blocks", err));
    ES_TRY(budget_forecast_new(s, k->arena, &k->forecast, err));
    ES_TRY(budget_forecast_new(s, k->arena, &k->forecast_se, err));
    ES_TRY(factors_new(s, k->arena, &k->factors, err));
    ES_TRY(factors_new(s, k->arena, &k->factors_se, err));
    ES_TRY(take(k->arena, 2, L, &k->computed, err));
    k->computed_se = k->computed + L;
    return ES_OK;
}

es_status budget_fill_context(es_job *job, budget_context *k, es_error *err)
{
    const budget_state *s = job->state;
    ES_TRY(context_new(s, k, err));
    ES_TRY(budget_average(job, budget_all(s), &job->exec, k->arena, &k->all, err));
    ES_TRY(budget_target_after(job, s->steps, &k->all, &job->exec, k->arena, &k->target, err));
    ES_TRY(budget_plan_for(s, &k->all, &k->target, k->arena, k->plan, err));
    ES_TRY(make_folds(job, k, err));
    for (int64_t b = 0; b < s->text.count; b++)
        ES_TRY(fill_fold_result(job, k, b, &k->fold_results[b], err));
    ES_TRY(sum_fold_results(s, k, err));
    find_factors(s, k, &k->all, NULL, k->computed, &k->factors);
    const budget_factors own = {.optimism = k->factors.optimism};
    budget_predict(s, &k->all, k->plan, NULL, &own, &k->forecast);
    memcpy(k->computed, k->forecast.own, (size_t)s->config->layers * sizeof *k->computed);
    budget_predict(s, &k->all, k->plan, NULL, &k->factors, &k->forecast);
    return find_errors(job, k, err);
}
