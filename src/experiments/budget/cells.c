/* cells.c : the cells of the study `budget`, their stages, and what they take. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"

/* ---- where numbers are ---- */

int64_t budget_curves_rows(const budget_state *s)
{
    const es_model_config *c = s->config;
    return s->units * s->P * s->K + c->layers * c->heads * (s->P * s->K + s->K + ES_FACTS) +
           c->layers;
}

es_curves budget_curves_at(const budget_state *s, const double *cell)
{
    const int64_t heads = s->config->layers * s->config->heads;
    double *at = (double *)(uintptr_t)cell;
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

/* Rows: spread2 (L + 1); of each layer error2 (L + 1), own2 and loss. */
void budget_gains_at(const budget_state *s, const double *cell, es_gain *gains, double **spread2)
{
    const int64_t L = s->config->layers;
    double *at = (double *)(uintptr_t)cell;
    *spread2 = at;
    for (int64_t l = 0; l < L; l++) {
        double *own = at + (L + 1) + l * (L + 3);
        gains[l] = (es_gain){.own2 = own[L + 1], .loss = own[L + 2], .error2 = own};
    }
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

static es_status curves_cell(es_job *job, const budget_text *text, int64_t cell,
                             const es_exec *exec, double *out, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const es_mem_limit_block block = budget_block(job, text, cell);
    const int64_t late = s->n - es_late_begin(s->config, s->n);
    const es_curves_spec spec = {.policies = s->policies,
                                 .n_policies = s->P,
                                 .keys = s->keys,
                                 .n_keys = s->K,
                                 .queries = p->queries < late ? p->queries : late};
    const es_curves to = budget_curves_at(s, out);
    return es_curves_block(&spec, &block, exec, &to, err);
}

static es_status run_curves(es_job *job, int64_t cell, const es_exec *exec, void *record,
                            es_error *err)
{
    double *out = record;
    const budget_state *s = job->state;
    return curves_cell(job, &s->text, cell, exec, out, err);
}

static es_status run_others(es_job *job, int64_t cell, const es_exec *exec, void *record,
                            es_error *err)
{
    double *out = record;
    const budget_state *s = job->state;
    return curves_cell(job, &s->others, cell, exec, out, err);
}

/* ---- gains ---- */

/* Specs of picks; memory is the arena's. */
static es_status specs_of(const budget_state *s, const budget_choice *picks, es_arena *arena,
                          es_policy_spec **out, es_error *err)
{
    ES_TRY(ES_ARENA_NEW_2D(arena, *out, s->config->layers, s->config->heads, "specs", err));
    budget_specs(s, picks, *out);
    return ES_OK;
}

/* Gains are looked at near what is asked for: an even share of the keys, a quarter if not known. */
static es_status gain_specs(const es_job *job, const es_exec *exec, es_arena *arena,
                            es_policy_spec **out, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const double all = budget_everything(s);
    const double asked = p->keys ? (double)p->keys : isnan(p->ratio) ? all / 4.0 : p->ratio * all;
    const double total = fmin(asked, all / 2.0);
    budget_means means;
    budget_choice *picks;
    ES_TRY(ES_ARENA_NEW(arena, picks, s->units, "picks", err));
    ES_TRY(budget_average_risks(job, BUDGET_CURVES, budget_all(s), exec, arena, &means, err));
    ES_TRY(budget_share(s, &means, BUDGET_UNIFORM, total, NULL, arena, picks, err));
    return specs_of(s, picks, arena, out, err);
}

static es_status gain_cell(es_job *job, int64_t cell, const es_exec *exec, es_arena *arena,
                           double *out, es_error *err)
{
    const budget_state *s = job->state;
    const es_mem_limit_block block = budget_block(job, &s->text, cell);
    const int64_t L = s->config->layers;
    es_policy_spec *specs;
    double *spread2;
    ES_TRY(gain_specs(job, exec, arena, &specs, err));
    es_gain *g;
    ES_TRY(ES_ARENA_NEW(arena, g, L, "gains", err));
    budget_gains_at(s, out, g, &spread2);
    ES_TRY(es_gains_block(&block, specs, exec, g, spread2, err));
    for (int64_t l = 0; l < L; l++) {
        double *own = out + (L + 1) + l * (L + 3);
        own[L + 1] = g[l].own2;
        own[L + 2] = g[l].loss;
    }
    return ES_OK;
}

static es_status run_gains(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    es_arena arena = {.budget = exec->budget};
    const es_status status = gain_cell(job, cell, exec, &arena, out, err);
    es_arena_free(&arena);
    return status;
}

/* ---- trials ---- */

static es_status try_picks(const es_job *job, const es_mem_limit_block *block,
                           const budget_choice *picks, bool layers, const es_exec *exec,
                           es_arena *arena, double *out, es_error *err)
{
    const budget_state *s = job->state;
    es_plan_trial to = budget_trial_at(s, out);
    es_policy_spec *specs;
    ES_TRY(specs_of(s, picks, arena, &specs, err));
    memset(out, 0, (size_t)budget_trial_rows(s) * sizeof *out);
    if (!layers)
        to.own2 = NULL;
    return es_plan_trial_block(block, specs, exec, &to, err);
}

/* Blocks of the calibration after `steps` steps of the search. Each has draws of its own, which are
 * not those of verification and do not hang on whether there is one. */
static es_status try_fold(es_job *job, int steps, bool layers, int64_t b, const es_exec *exec,
                          es_arena *arena, double *out, es_error *err)
{
    const budget_state *s = job->state;
    es_mem_limit_block block = budget_block(job, &s->text, b);
    budget_means all;
    budget_target aim;
    budget_choice *picks;
    block.number += (steps + 1) * (int64_t)BUDGET_MOST_BLOCKS;
    ES_TRY(ES_ARENA_NEW(arena, picks, s->units, "picks", err));
    ES_TRY(budget_average(job, budget_all(s), exec, arena, &all, err));
    ES_TRY(budget_target_after(job, steps, &all, exec, arena, &aim, err));
    ES_TRY(budget_fold(job, b, &aim, exec, arena, picks, err));
    return try_picks(job, &block, picks, layers, exec, arena, out, err);
}

static es_status run_fold(es_job *job, int steps, bool layers, int64_t b, const es_exec *exec,
                          double *out, es_error *err)
{
    es_arena arena = {.budget = exec->budget};
    const es_status status = try_fold(job, steps, layers, b, exec, &arena, out, err);
    es_arena_free(&arena);
    return status;
}

/* What is looked for is an error of layers, or a loss. */
static bool wants_layers(const es_job *job)
{
    const budget_params *p = job->params;
    return !isnan(p->error);
}

static es_status run_first(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    return run_fold(job, 0, wants_layers(job), cell, exec, out, err);
}

static es_status run_second(es_job *job, int64_t cell, const es_exec *exec, void *record,
                            es_error *err)
{
    double *out = record;
    return run_fold(job, 1, wants_layers(job), cell, exec, out, err);
}

static es_status run_rehearsal(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *err)
{
    double *out = record;
    const budget_state *s = job->state;
    return run_fold(job, s->steps, true, cell, exec, out, err);
}

/* What a setting gives each unit. */
static es_status setting_picks(const es_job *job, const budget_setting *setting,
                               const es_exec *exec, es_arena *arena, budget_choice *picks,
                               es_error *err)
{
    const budget_state *s = job->state;
    budget_means means;
    budget_target aim;
    ES_TRY(budget_average(job, budget_all(s), exec, arena, &means, err));
    double total = setting->ratio * budget_everything(s);
    if (setting->ratio == 0.0) {
        ES_TRY(budget_target_after(job, s->steps, &means, exec, arena, &aim, err));
        ES_TRY(budget_make(s, &means, &aim, arena, picks, err));
        total = budget_total(s, picks);
        if (setting->way == BUDGET_OURS)
            return ES_OK;
    }
    return budget_share(s, &means, setting->way, total, NULL, arena, picks, err);
}

static es_status trial_cell(es_job *job, int64_t cell, const es_exec *exec, es_arena *arena,
                            double *out, es_error *err)
{
    const budget_state *s = job->state;
    const budget_setting *setting = &s->settings[cell / s->verify.count];
    const es_mem_limit_block block = budget_block(job, &s->verify, cell % s->verify.count);
    budget_choice *picks;
    ES_TRY(ES_ARENA_NEW(arena, picks, s->units, "picks", err));
    ES_TRY(setting_picks(job, setting, exec, arena, picks, err));
    /* what is predicted of single layers is checked with ours */
    return try_picks(job, &block, picks, setting->way == BUDGET_OURS, exec, arena, out, err);
}

static es_status run_trial(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    es_arena arena = {.budget = exec->budget};
    const es_status status = trial_cell(job, cell, exec, &arena, out, err);
    es_arena_free(&arena);
    return status;
}

/* ---- what it takes ---- */

/* Timed, as downstream has it: a thinned head takes 2 microseconds for each query and 40 ns for
 * each of its keys, an integral 60 nodes of 4 operations for each number of the values at a tenth
 * of the speed of products; the model does 25 operations in a nanosecond. */
typedef struct work {
    double curves, gains, trial, rehearsal;
} work;

static double pass_flops(const budget_state *s, int64_t n)
{
    const es_model_cost c = es_model_cost_of(s->config, ES_F32, n, 1, s->config->predicts);
    return 1.5 * (c.products + c.attention);
}

static double thin_flops(const budget_state *s, int64_t n)
{
    const double N = (double)n;
    return (s->config->causal ? 0.5 : 1.0) * N * N * 1000.0 + N * 50000.0;
}

static double trial_flops(const budget_state *s, int64_t n)
{
    const double heads = (double)(s->config->layers * s->config->heads);
    return n ? 3.0 * pass_flops(s, n) + 2.0 * heads * thin_flops(s, n) : 0.0;
}

static work work_of(const es_job *job)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const double heads = (double)(s->config->layers * s->config->heads), n = (double)s->n;
    const double k = (double)s->config->head_dim, Q = (double)p->queries;
    double query = 0.0;
    for (int64_t i = 0; i < s->P; i++)
        query += es_policy_inputs(s->policies[i].policy) & ES_POLICY_CHANCE
                     ? 0.5 * (double)s->K * n * k * 60.0 * 40.0
                     : (double)s->K * n * (k * 40.0 + 1000.0);
    return (work){.curves = pass_flops(s, s->n) + heads * (Q * query + n * n * (4.0 * k + 200.0)),
                  .gains = (0.5 * (double)s->config->layers + 2.0) * pass_flops(s, s->n) +
                           heads * thin_flops(s, s->n),
                  .trial = trial_flops(s, s->verify.length),
                  .rehearsal = trial_flops(s, s->n)};
}

es_status budget_cost(es_job *job, es_cost *out, es_error *err)
{
    const budget_state *s = job->state;
    const work w = work_of(job);
    const double blocks = (double)s->text.count, others = (double)s->others.count;
    const double trials = (double)(s->n_settings * s->verify.count),
                 folds = blocks * (double)(s->steps + 1);
    const int64_t longest = s->verify.length > s->n ? s->verify.length : s->n;
    const double curves = es_curves_bytes(s->config, s->n) +
                          es_model_cost_of(s->config, job->precision, s->n, 1, false).bytes;
    const double means = 16.0 * (double)(s->units * (s->P + 2) * (s->K + s->n_options));
    const double folds_means = 20.0 * blocks * (double)(s->units * (s->P + 2) * s->K);
    (void)err;
    *out = (es_cost){.flops = (blocks + others) * w.curves + blocks * w.gains +
                              folds * w.rehearsal + trials * w.trial,
                     .output_bytes = 4096.0 * (double)(s->config->layers * s->config->heads),
                     .work_bytes = 40.0 * means + folds_means + budget_sums_bytes(s) + 4e6,
                     .thread_bytes =
                         fmax(curves, es_plan_trial_bytes(s->model, longest)) + 8.0 * means};
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
                                        .one_thread_per_cell = true, .shared = i < BUDGET_REHEARSAL,
                                        .flops = stages[i].flops, .run = stages[i].run},
                            err));
    return ES_OK;
}
