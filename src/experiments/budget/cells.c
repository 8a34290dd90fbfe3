/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : computes the cells of all stages, and estimates their cost. The width of a cell depends
 * on the model and the policies: budget_curves_at(), budget_gain_at() and budget_trial_at() read
 * and write its numbers by name. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "experiments/budget/inside.h"
#include "experiments/budget/question.h"
#include "model/forward_cache.h"

/* ---- layout of cells ---- */

int64_t budget_curves_rows(const budget_state *s)
{
    const es_model_config *c = s->config;
    const int64_t heads =
        s->mode == BUDGET_IDEAL ? c->layers * c->heads * (s->P * s->K + s->K + ES_FACTS) : 0;
    return s->units * s->P * s->K + heads + c->layers;
}

es_curves budget_curves_at(const budget_state *s, const double *cell)
{
    const int64_t heads = s->config->layers * s->config->heads;
    double *at = (double *)(uintptr_t)cell;
    if (s->mode != BUDGET_IDEAL) /* risks of single heads are not known */
        return (es_curves){.group = at, .spread2 = at + s->units * s->P * s->K};
    es_curves c = {.group = at, .risk = at + s->units * s->P * s->K};
    c.limit = c.risk + heads * s->P * s->K;
    c.facts = c.limit + heads * s->K;
    c.spread2 = c.facts + heads * ES_FACTS;
    return c;
}

int64_t budget_gains_rows(const budget_state *s)
{
    const int64_t L = s->config->layers;
    return (L + 1) * (L + 1) + 2 * L;
}

/* A cell holds spread2 (L + 1), then for each layer error2 (L + 1), own2 and loss. */
es_gain budget_gain_at(const budget_state *s, const double *cell, int64_t layer)
{
    const int64_t L = s->config->layers;
    double *at = (double *)(uintptr_t)cell + (L + 1) + layer * (L + 3);
    return (es_gain){.own2 = at[L + 1], .loss = at[L + 2], .error2 = at};
}

/* Writes the members of a gain that are no pointers. */
static void store_gain(const budget_state *s, const es_gain *gain)
{
    const int64_t L = s->config->layers;
    gain->error2[L + 1] = gain->own2;
    gain->error2[L + 2] = gain->loss;
}

int64_t budget_trial_rows(const budget_state *s)
{
    const es_model_config *c = s->config;
    return 2 * (c->layers + 1) + 2 * c->layers + c->layers * c->heads + ES_ENDS + 2 * c->labels;
}

es_plan_trial budget_trial_at(const budget_state *s, const double *cell)
{
    const es_model_config *c = s->config;
    es_plan_trial t = {.error2 = (double *)(uintptr_t)cell};
    t.spread2 = t.error2 + c->layers + 1;
    t.own2 = t.spread2 + c->layers + 1;
    t.out2 = t.own2 + c->layers;
    t.kept = t.out2 + c->layers;
    t.ends = t.kept + c->layers * c->heads;
    t.logits = t.ends + ES_ENDS;
    return t;
}

/* ---- curves ---- */

/* Computes the risk curves of one block: every policy at every number of keys, for every unit. Only
 * late queries count: the first ones see few keys. */
static es_status curves_cell(es_job *job, const budget_text *text, int64_t cell,
                             const es_exec *exec, double *out, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const es_token_block block = budget_block(job, text, cell);
    const int64_t late = s->n - es_block_late(&block);
    if (s->mode != BUDGET_IDEAL)
        return es_cache_curves_block(
            &s->cache_curves, &block, exec,
            &(es_curves){.group = out, .spread2 = budget_curves_at(s, out).spread2}, err);
    const es_curves_spec spec = {.policies = s->policies,
                                 .n_policies = s->P,
                                 .keys = s->keys,
                                 .n_keys = s->K,
                                 .queries = p->queries < late ? p->queries : late,
                                 .by_layer = true};
    const es_curves to = budget_curves_at(s, out);
    return es_curves_block(&spec, &block, exec, &to, err);
}

/* Runs a cell of the calibration text. */
static es_status run_curves(es_job *job, int64_t cell, const es_exec *exec, void *record,
                            es_error *err)
{
    const budget_state *s = job->state;
    return curves_cell(job, &s->text, cell, exec, record, err);
}

/* Runs a cell of the second domain. */
static es_status run_others(es_job *job, int64_t cell, const es_exec *exec, void *record,
                            es_error *err)
{
    const budget_state *s = job->state;
    return curves_cell(job, &s->others, cell, exec, record, err);
}

/* ---- gains ---- */

/* Makes the choices under which gains are measured: a uniform allocation of what is asked for, of a
 * quarter of all for a tolerance, and of half of it at most. */
static es_status gain_choices(const es_job *job, const es_exec *exec, es_arena *arena,
                              budget_choice **out, es_error *err)
{
    const budget_state *s = job->state;
    const double all = budget_all_cost(s), asked = budget_asked(job->params, s);
    budget_strategy how = budget_strategy_of(s, BUDGET_UNIFORM, NAN);
    how.total = fmax(fmin(isnan(asked) ? all / 4.0 : asked, all / 2.0), budget_least_cost(s, &how));
    budget_means means;
    ES_TRY(ES_ARENA_NEW(arena, *out, s->units, "choices", err));
    ES_TRY(budget_average_risks(job, BUDGET_CURVES, budget_all(s), exec, arena, &means, err));
    for (int64_t l = 0; l < s->config->layers; l++) /* transfers are not known yet */
        means.transfer[l * (s->config->layers + 1) + s->config->layers] = 1.0;
    return budget_allocate(s, &means, &how, arena, *out, err);
}

/* Measures on one block how an error of each layer changes the last hidden state and the loss. */
static es_status gain_cell(es_job *job, int64_t cell, const es_exec *exec, es_arena *arena,
                           double *out, es_error *err)
{
    const budget_state *s = job->state;
    const es_token_block block = budget_block(job, &s->text, cell);
    const int64_t L = s->config->layers;
    budget_choice *choices;
    es_kept_keys keys;
    es_gain *gains;
    ES_TRY(gain_choices(job, exec, arena, &choices, err));
    ES_TRY(budget_kept(s, choices, BUDGET_UNIFORM, arena, &keys, err));
    ES_TRY(ES_ARENA_NEW(arena, gains, L, "gains", err));
    for (int64_t l = 0; l < L; l++)
        gains[l] = budget_gain_at(s, out, l);
    ES_TRY(es_gains_block(&block, &keys, exec, gains, out, err)); /* spread2 comes first */
    for (int64_t l = 0; l < L; l++)
        store_gain(s, &gains[l]);
    return ES_OK;
}

/* Runs a cell of the stage of gains, with memory that is freed at its end. */
static es_status run_gains(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    es_arena arena = {.budget = exec->budget};
    const es_status status = gain_cell(job, cell, exec, &arena, record, err);
    es_arena_free(&arena);
    return status;
}

/* ---- trials ---- */

/* Runs the model on a block with the chosen keys and writes how states and loss change. Errors of
 * single layers cost one more pass each and are optional. */
static es_status try_choices(const es_job *job, const es_token_block *block,
                             const budget_choice *choices, budget_allocation allocation,
                             bool layers, const es_exec *exec, es_arena *arena, double *out,
                             es_error *err)
{
    const budget_state *s = job->state;
    es_plan_trial to = budget_trial_at(s, out);
    es_kept_keys keys;
    ES_TRY(budget_kept(s, choices, allocation, arena, &keys, err));
    memset(out, 0, (size_t)budget_trial_rows(s) * sizeof *out);
    if (!layers)
        to.own2 = NULL;
    return es_plan_trial_block(block, &keys, exec, &to, err);
}

/* Runs block b of the calibration text after `steps` steps of the search. Its random draws differ
 * from those of every other step and of verification. */
static es_status try_fold(es_job *job, int steps, bool layers, int64_t b, const es_exec *exec,
                          es_arena *arena, double *out, es_error *err)
{
    const budget_state *s = job->state;
    es_token_block block = budget_block(job, &s->text, b);
    budget_means all;
    budget_target target;
    budget_choice *choices;
    block.number += (steps + 1) * (int64_t)BUDGET_MOST_BLOCKS;
    ES_TRY(ES_ARENA_NEW(arena, choices, s->units, "choices", err));
    ES_TRY(budget_average(job, budget_all(s), exec, arena, &all, err));
    ES_TRY(budget_target_after(job, steps, &all, exec, arena, &target, err));
    ES_TRY(budget_plan_without(job, b, &target, exec, arena, choices, err));
    return try_choices(job, &block, choices, BUDGET_OURS, layers, exec, arena, out, err);
}

/* Tests on block b the plan made from all other blocks, with memory that is freed at its end. */
static es_status run_fold(es_job *job, int steps, bool layers, int64_t b, const es_exec *exec,
                          double *out, es_error *err)
{
    es_arena arena = {.budget = exec->budget};
    const es_status status = try_fold(job, steps, layers, b, exec, &arena, out, err);
    es_arena_free(&arena);
    return status;
}

/* Returns true if the search needs errors of layers (--error), false if it needs losses. */
static bool wants_layers(const es_job *job)
{
    const budget_params *p = job->params;
    return !isnan(p->error);
}

/* Runs a cell of the first correction of the target. */
static es_status run_first(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    return run_fold(job, 0, wants_layers(job), cell, exec, record, err);
}

/* Runs a cell of the second correction, which uses the first one's results. */
static es_status run_second(es_job *job, int64_t cell, const es_exec *exec, void *record,
                            es_error *err)
{
    return run_fold(job, 1, wants_layers(job), cell, exec, record, err);
}

/* Runs a cell of the rehearsal: the final plan without block b, on block b. It gives the factors
 * between prediction and measurement. */
static es_status run_rehearsal(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *err)
{
    const budget_state *s = job->state;
    return run_fold(job, s->steps, true, cell, exec, record, err);
}

/* Makes the choices (units) of a setting. */
static es_status setting_choices(const es_job *job, const budget_setting *setting,
                                 const es_exec *exec, es_arena *arena, budget_choice *choices,
                                 es_error *err)
{
    const budget_state *s = job->state;
    budget_means means;
    budget_target target;
    ES_TRY(budget_average(job, budget_all(s), exec, arena, &means, err));
    double total = setting->ratio * budget_all_cost(s);
    if (setting->ratio == 0.0) {
        ES_TRY(budget_target_after(job, s->steps, &means, exec, arena, &target, err));
        ES_TRY(budget_plan_for(s, &means, &target, arena, choices, err));
        total = budget_total(s, choices);
        if (setting->allocation == BUDGET_OURS)
            return ES_OK;
    }
    const budget_strategy how = budget_strategy_of(s, setting->allocation, total);
    return budget_allocate(s, &means, &how, arena, choices, err);
}

/* Runs one allocation on one held-out block. */
static es_status trial_cell(es_job *job, int64_t cell, const es_exec *exec, es_arena *arena,
                            double *out, es_error *err)
{
    const budget_state *s = job->state;
    const budget_setting *setting = &s->settings[cell / s->verify.count];
    const es_token_block block = budget_block(job, &s->verify, cell % s->verify.count);
    budget_choice *choices;
    ES_TRY(ES_ARENA_NEW(arena, choices, s->units, "choices", err));
    ES_TRY(setting_choices(job, setting, exec, arena, choices, err));
    /* errors of single layers are predicted, hence measured, for our allocation only */
    return try_choices(job, &block, choices, setting->allocation,
                       setting->allocation == BUDGET_OURS, exec, arena, out, err);
}

/* Runs a cell of the verification, with memory that is freed at its end. */
static es_status run_trial(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    es_arena arena = {.budget = exec->budget};
    const es_status status = trial_cell(job, cell, exec, &arena, record, err);
    es_arena_free(&arena);
    return status;
}

/* ---- cost ---- */

/* Operations of a cell, from timings: a sparse head takes 2 microseconds per query and 40 ns per
 * key; an integral has 60 nodes of 4 operations for each number of the values, at a tenth of the
 * speed of products; the model does 25 operations per nanosecond. */
typedef struct work {
    double curves, gains, trial, rehearsal;
} work;

/* Returns the operations of one pass through the model. */
static double pass_flops(const budget_state *s, int64_t n)
{
    const es_model_cost c = es_model_cost_of(s->config, ES_F32, n, 1, s->config->predicts);
    return es_model_work(&c);
}

/* Returns the operations of choosing and applying a policy in one head; the constants are
 * measured. */
static double thin_flops(const budget_state *s, int64_t n)
{
    const double N = (double)n;
    return (s->config->causal ? 0.5 : 1.0) * N * N * 1000.0 + N * 50000.0;
}

/* Returns the operations of testing a plan on a block: full pass, sparse pass, and one more for the
 * layers. */
static double trial_flops(const budget_state *s, int64_t n)
{
    const double heads = (double)(s->config->layers * s->config->heads);
    const double sparse = s->mode == BUDGET_IDEAL    ? 2.0 * heads * thin_flops(s, n)
                          : s->mode == BUDGET_DECODE ? 4.0 * pass_flops(s, n)
                                                     : 0.5 * pass_flops(s, n);
    return n ? 3.0 * pass_flops(s, n) + sparse : 0.0;
}

/* Returns the operations of the errors of one query in heads that share their keys: values go
 * through Wo in f64, for every key once and again for each of K numbers of keys of a policy with
 * random keys (`random` of them; about 0.4 K, since every other number is computed), and one row
 * for each policy and number. Measured: three times the operations, one row counting as 16. */
static double shared_flops(const budget_state *s, double n, double K, double random)
{
    const es_model_config *c = s->config;
    const double keys = c->causal ? 0.75 * n : n; /* of late queries */
    const double rows = keys * (1.0 + 0.4 * K * random) + 16.0 * K * (double)s->P;
    return c->heads == c->kv_heads ? 0.0 : 3.0 * 2.0 * (double)(c->hidden * c->head_dim) * rows;
}

/* Returns the operations of the risks of a block under caches: scores of policies for each K type,
 * outputs of late queries, and their way through Wo. In decode mode every number of keys is run. */
static double cache_flops(const es_job *job, double n)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const es_model_config *c = s->config;
    const double d = (double)c->head_dim, T = (double)s->types, Q = (double)p->queries;
    const double K = s->K ? (double)s->K : BUDGET_POINTS + 1;
    const double policies = (double)s->P / T, units = (double)(c->layers * c->kv_heads);
    const double heads = (double)(c->layers * c->heads), row = d * heads / units;
    const double scores = sqrt(T) * policies * 0.25 * n * n * (2.0 * d + 40.0);
    const double outputs = T * (policies + 1.0) * Q * n * (20.0 * d);
    const double decode = s->mode == BUDGET_DECODE ? T * policies * 3.0 * n * n * 8.0 * d : 0.0;
    return heads * (scores + outputs + decode) +
           units * Q * T * policies * K * 4.0 * row * (double)c->hidden;
}

/* Returns the operations of a cell of each stage of a cache. */
static work cache_work(const es_job *job, int64_t context, int64_t verified)
{
    const budget_state *s = job->state;
    const double passes = s->mode == BUDGET_DECODE ? 4.0 : 1.2;
    return (work){.curves = pass_flops(s, context) + cache_flops(job, (double)context),
                  .gains =
                      passes * (0.5 * (double)s->config->layers + 2.0) * pass_flops(s, context),
                  .trial = trial_flops(s, verified),
                  .rehearsal = trial_flops(s, context)};
}

/* Returns the operations of a cell of each stage, for a context to calibrate on and one to verify
 * on. Constants stand for the exact risk of a policy with random keys (an integral per number of
 * keys) and without. */
static work work_at(const es_job *job, int64_t context, int64_t verified)
{
    if (((const budget_state *)job->state)->mode != BUDGET_IDEAL)
        return cache_work(job, context, verified);
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const double heads = (double)(s->config->layers * s->config->heads), n = (double)context;
    const double k = (double)s->config->head_dim, Q = (double)p->queries;
    const double K = s->K ? (double)s->K : BUDGET_POINTS + 1;
    double query = 0.0, random = 0.0;
    for (int64_t i = 0; i < s->P; i++) {
        const bool chance = es_policy_inputs(s->policies[i].policy) & ES_POLICY_CHANCE;
        query += chance ? 0.5 * K * n * k * 60.0 * 40.0 : K * n * (k * 40.0 + 1000.0);
        random += chance;
    }
    query += shared_flops(s, n, K, random);
    const double passes = es_branch_norms(s->model) ? 2.0 : 1.0;
    return (work){.curves = passes * pass_flops(s, context) +
                            heads * (Q * query + n * n * (4.0 * k + 200.0)),
                  .gains = (0.5 * (double)s->config->layers + 2.0) * pass_flops(s, context) +
                           heads * thin_flops(s, context),
                  .trial = trial_flops(s, verified),
                  .rehearsal = trial_flops(s, context)};
}

/* Returns the operations of a cell of each stage, for the texts that were read. */
static work work_of(const es_job *job)
{
    const budget_state *s = job->state;
    return work_at(job, s->n, s->verify.length);
}

double budget_work(const es_job *job, int64_t context, int64_t blocks, int64_t verify_blocks)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const work w = work_at(job, context, p->verify_context ? p->verify_context : context);
    const bool searches = !isnan(p->error) || !isnan(p->loss);
    const double texts = p->others.count ? 2.0 : 1.0;
    const double block =
        texts * w.curves + w.gains + (searches ? BUDGET_STEPS + 1 : 1) * w.rehearsal;
    const int64_t plans = budget_ways(p, s);
    const int64_t ratios = 1 + (p->everywhere ? p->frontier.count : 0);
    const bool verifies = p->verify.count || p->tasks;
    return (double)blocks * block +
           (verifies ? (double)(verify_blocks * plans * ratios) * w.trial : 0.0);
}

/* Returns the tokens of the longest block. */
static int64_t longest(const budget_state *s)
{
    return s->verify.length > s->n ? s->verify.length : s->n;
}

/* Returns whether all threads work on one cell: they then share the decoded weights. */
static bool shares_block(const budget_state *s)
{
    return es_model_shares_block(s->config, longest(s));
}

/* Returns the memory of the norms after Wo on `threads` threads: outputs of all layers at the
 * queries, and for each thread Wo of a group and of a head. */
static double branch_bytes(const es_job *job, int threads)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const es_model_config *c = s->config;
    const double size = (double)(c->heads / c->kv_heads), k = (double)c->head_dim;
    const double each = fmin(threads, (double)c->kv_heads) * (size + 1.0) * k;
    return es_branch_norms(s->model)
               ? 8.0 * (double)c->hidden * ((double)(c->layers * p->queries) + each)
               : 0.0;
}

/* Returns the memory of a cell. */
static double cell_bytes(const es_job *job)
{
    const budget_state *s = job->state;
    const int threads = shares_block(s) ? es_parallel_threads(&job->exec, INT64_MAX) : 1;
    const bool ideal = s->mode == BUDGET_IDEAL;
    const int64_t from = ideal ? es_late_begin(s->config, s->n) : s->prompt;
    const double curves =
        ideal ? es_curves_bytes(s->config, s->n, threads) + branch_bytes(job, threads)
              : es_cache_curves_bytes(&s->cache_curves, s->model, s->n, from, threads);
    double cache = 0.0;
    for (int64_t p = 0; p < s->P && !ideal; p++)
        cache = fmax(cache,
                     es_model_cache_bytes(&s->candidates[p].unit, budget_evict_mode(s), s->prompt,
                                          s->config, job->precision, longest(s), threads));
    return fmax(curves + es_model_cost_of(s->config, job->precision, s->n, threads, false).bytes,
                es_plan_trial_bytes(s->model, longest(s), from, threads) + cache);
}

es_status budget_cost(es_job *job, es_cost *out, es_error *err)
{
    const budget_state *s = job->state;
    const work w = work_of(job);
    const double blocks = (double)s->text.count, others = (double)s->others.count;
    const double trials = (double)(s->n_settings * s->verify.count),
                 folds = blocks * (double)(s->steps + 1);
    const double means = 16.0 * (double)(s->units * (s->P + 2) * (s->K + s->n_options));
    const double folds_means = 20.0 * blocks * (double)(s->units * (s->P + 2) * s->K);
    (void)err;
    *out = (es_cost){.flops = (blocks + others) * w.curves + blocks * w.gains +
                              folds * w.rehearsal + trials * w.trial,
                     .output_bytes = 4096.0 * (double)(s->config->layers * s->config->heads),
                     .work_bytes = 40.0 * means + folds_means + budget_sums_bytes(s) + 4e6 +
                                   (shares_block(s) ? cell_bytes(job) + 8.0 * means : 0.0),
                     .thread_bytes = shares_block(s) ? 0.0 : cell_bytes(job) + 8.0 * means};
    return ES_OK;
}

/* ---- stages ---- */

static const char *const columns[] = {"number"};

es_status budget_stages(es_job *job, es_error *err)
{
    const budget_state *s = job->state;
    const work w = work_of(job);
    const int64_t B = s->text.count, searched = s->steps ? B : 0;
    const int64_t curves = budget_curves_rows(s), trial = budget_trial_rows(s);
    const struct {
        const char *name, *phase, *noun;
        int64_t cells, rows;
        double flops;
        es_status (*run)(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err);
    } stages[] = {
        [BUDGET_CURVES] = {"curves", "computing risks", "blocks", B, curves, w.curves, run_curves},
        [BUDGET_OTHERS] = {"others", "computing risks of the other text", "blocks", s->others.count,
                           curves, w.curves, run_others},
        [BUDGET_GAINS] = {"gains", "following errors through the layers", "blocks", B,
                          budget_gains_rows(s), w.gains, run_gains},
        [BUDGET_SEARCH] = {"search", "looking for the plan", "blocks", searched, trial, w.rehearsal,
                           run_first},
        [BUDGET_SEARCH + 1] = {"search_again", "looking for the plan", "blocks", searched, trial,
                               w.rehearsal, run_second},
        [BUDGET_REHEARSAL] = {"rehearsal", "rehearsing", "blocks", B, trial, w.rehearsal,
                              run_rehearsal},
        [BUDGET_TRIALS] = {"trials", "verifying", "blocks and plans",
                           s->n_settings * s->verify.count, trial, w.trial, run_trial}};
    for (int i = 0; i <= BUDGET_TRIALS; i++)
        ES_TRY(es_job_stage(job,
                            &(es_stage){stages[i].name, .phase = stages[i].phase,
                                        .noun = stages[i].noun, .cells = stages[i].cells,
                                        .rows = stages[i].rows, .cols = 1, .columns = columns,
                                        .one_thread_per_cell = !shares_block(s),
                                        .shared = i < BUDGET_REHEARSAL, .flops = stages[i].flops,
                                        .run = stages[i].run},
                            err));
    return ES_OK;
}
