/* SPDX-License-Identifier: Apache-2.0 */
/* test_budget_sums.c : means over blocks and what tolerances have become are made once: every block
 * of an earlier stage is read once, however many cells ask. Blocks are numbers made up here; after
 * the first question they are spoiled, and whoever reads them again answers nonsense. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "numbers.h"
#include "experiments/budget/question.h"

enum { BLOCKS = 7, LAYERS = 3, HEADS = 4, KV = 2, POLICIES = 2, KEYS = 3, UNITS = LAYERS * KV };

static const es_model_config config = {
    .layers = LAYERS, .heads = HEADS, .kv_heads = KV, .causal = true};
static int64_t keys[] = {2, 8, 32}, options[] = {2, 4, 8, 16, 32};
static budget_grid grids[LAYERS] = {
    {32, keys, options, 5}, {32, keys, options, 5}, {32, keys, options, 5}};
static es_policy_spec policies[LAYERS * POLICIES];
static budget_candidate candidates[POLICIES] = {{.cost = 1.0}, {.cost = 1.0}};

/* A job whose cells are there: stages that budget reads, of numbers between 1 and 2. */
typedef struct made_up {
    es_driver driver;
    budget_state state;
    budget_params params;
} made_up;

static void fill_stage(es_job *job, int stage, int64_t rows)
{
    job->stages[stage] = (es_stage){.cells = BLOCKS, .rows = rows, .cols = 1};
    job->cells[stage] = malloc((size_t)(BLOCKS * rows) * sizeof(double));
    assert_non_null(job->cells[stage]);
    for (int64_t i = 0; i < BLOCKS * rows; i++)
        job->cells[stage][i] = 1.0 + uniform();
}

static es_job *make_job(made_up *m)
{
    es_job *job = &m->driver.job;
    *m = (made_up){.params = {.ratio = NAN, .loss = NAN, .error = 0.1}};
    m->state = (budget_state){.config = &config,
                              .text.count = BLOCKS,
                              .n = 32,
                              .grids = grids,
                              .mode = BUDGET_IDEAL,
                              .policies = policies,
                              .candidates = candidates,
                              .full.cost = 1.0,
                              .P = POLICIES,
                              .keys = keys,
                              .K = KEYS,
                              .units = UNITS,
                              .n_options = 5,
                              .steps = BUDGET_STEPS,
                              .lock = PTHREAD_MUTEX_INITIALIZER};
    job->state = &m->state;
    job->params = &m->params;
    job->driver = &m->driver;
    state_of_rng = 20261117;
    fill_stage(job, BUDGET_CURVES, budget_curves_rows(&m->state));
    fill_stage(job, BUDGET_GAINS, budget_gains_rows(&m->state));
    for (int step = 0; step < BUDGET_STEPS; step++)
        fill_stage(job, BUDGET_SEARCH + step, budget_trial_rows(&m->state));
    return job;
}

static void spoil_stage(es_job *job, int stage)
{
    for (int64_t i = 0; i < BLOCKS * job->stages[stage].rows; i++)
        job->cells[stage][i] = NAN;
}

static void free_job(es_job *job, budget_state *s)
{
    for (int stage = 0; stage < ES_MOST_STAGES; stage++)
        free(job->cells[stage]);
    es_arena_free(&s->memory);
    pthread_mutex_destroy(&s->lock);
}

/* The definition: sums over blocks, one after the other. */
static void check_means(const budget_means *a, budget_subset of, const double *curves,
                        const double *gains, const budget_state *s)
{
    const int64_t rows = budget_curves_rows(s), gain_rows = budget_gains_rows(s);
    double risk = 0.0, limit = 0.0, need = 0.0, own2 = 0.0, later = 0.0, loss = 0.0, count = 0.0;
    const int64_t unit = 3, layer = 1, k = 1, first = unit * (HEADS / KV); /* of its two heads */
    for (int64_t b = 0; b < BLOCKS; b++) {
        if ((b >= of.from && b < of.to) == of.others)
            continue;
        const es_curves c = budget_curves_at(s, curves + b * rows);
        const double *g = gains + b * gain_rows + (LAYERS + 1) + layer * (LAYERS + 3);
        count++;
        risk += c.group[(unit * POLICIES + 1) * KEYS + k];
        for (int64_t h = first; h < first + 2; h++) {
            limit += c.limit[h * KEYS + k];
            need += 0.5 * c.facts[h * ES_FACTS + ES_FACT_KEYS_95];
        }
        later += g[LAYERS];
        own2 += g[LAYERS + 1];
        loss += g[LAYERS + 2];
    }
    /* at most seven numbers of one sign are added in two orders: a few units in the last place */
    assert_near(a->risk[(unit * POLICIES + 1) * KEYS + k], risk / count, 1e-14 * risk);
    assert_near(a->limit[unit * KEYS + k], limit / count, 1e-14 * limit);
    assert_near(a->need[unit], need / count, 1e-14 * need);
    assert_near(a->transfer[layer * (LAYERS + 1) + LAYERS], later / own2, 1e-14);
    assert_near(a->loss[layer], loss / own2, 1e-14);
}

static void every_block_is_read_once(void **state)
{
    (void)state;
    made_up m;
    es_job *job = make_job(&m);
    const budget_state *s = &m.state;
    const size_t sizes[] = {(size_t)(BLOCKS * budget_curves_rows(s)) * sizeof(double),
                            (size_t)(BLOCKS * budget_gains_rows(s)) * sizeof(double)};
    double *curves = malloc(sizes[0]), *gains = malloc(sizes[1]);
    es_arena arena = {0};
    budget_means means;
    assert_true(curves && gains);
    memcpy(curves, job->cells[BUDGET_CURVES], sizes[0]);
    memcpy(gains, job->cells[BUDGET_GAINS], sizes[1]);
    assert_ok(budget_average(job, budget_all(s), &job->exec, &arena, &means, &err));
    check_means(&means, budget_all(s), curves, gains, s);
    spoil_stage(job, BUDGET_CURVES);
    spoil_stage(job, BUDGET_GAINS);
    for (int64_t b = 0; b < BLOCKS; b++) {
        const budget_subset cases[] = {{b, b + 1, true}, {0, b + 1, false}, {0, BLOCKS, false}};
        for (int i = 0; i < 3; i++) {
            assert_ok(budget_average(job, cases[i], &job->exec, &arena, &means, &err));
            check_means(&means, cases[i], curves, gains, s);
        }
    }
    es_arena_free(&arena);
    free(curves);
    free(gains);
    free_job(job, &m.state);
}

/* Blocks in the middle alone are read as they are: they are no end of the text. */
static void blocks_in_the_middle_are_added_up(void **state)
{
    (void)state;
    made_up m;
    es_job *job = make_job(&m);
    es_arena arena = {0};
    budget_means means;
    const budget_subset middle = {2, 5, false};
    assert_ok(budget_average(job, middle, &job->exec, &arena, &means, &err));
    check_means(&means, middle, job->cells[BUDGET_CURVES], job->cells[BUDGET_GAINS], &m.state);
    es_arena_free(&arena);
    free_job(job, &m.state);
}

/* asked / found of each layer, once for each step, of the last target. */
static void tolerances_are_corrected_once(void **state)
{
    (void)state;
    made_up m;
    es_job *job = make_job(&m);
    es_arena arena = {0};
    budget_means all;
    budget_target target, again;
    double expected = 0.1;
    assert_ok(budget_average(job, budget_all(&m.state), &job->exec, &arena, &all, &err));
    for (int step = 0; step < BUDGET_STEPS; step++) {
        double error2 = 0.0, spread2 = 0.0;
        for (int64_t b = 0; b < BLOCKS; b++) {
            const es_plan_trial t = budget_trial_at(&m.state, job->cells[BUDGET_SEARCH + step] +
                                                                  b * budget_trial_rows(&m.state));
            error2 += t.own2[1];
            spread2 += t.out2[1];
        }
        expected *= 0.1 / sqrt(error2 / spread2);
    }
    assert_ok(budget_target_after(job, BUDGET_STEPS, &all, &job->exec, &arena, &target, &err));
    assert_near(target.tolerance[1], expected, 1e-14);
    for (int step = 0; step < BUDGET_STEPS; step++)
        spoil_stage(job, BUDGET_SEARCH + step);
    assert_ok(budget_target_after(job, BUDGET_STEPS, &all, &job->exec, &arena, &again, &err));
    assert_equals(again.tolerance[1], target.tolerance[1]);
    es_arena_free(&arena);
    free_job(job, &m.state);
}

TEST_FILE(budget_sums)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_is_read_once),
        cmocka_unit_test(blocks_in_the_middle_are_added_up),
        cmocka_unit_test(tolerances_are_corrected_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
