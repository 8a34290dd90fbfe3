/* SPDX-License-Identifier: Apache-2.0 */
/* test_budget_lab.c : what the laboratory makes of a block for the study `budget`, on
 * models/pebble. Risks through Wo against the model's own sparse forward pass, whose code is
 * another; the limit, facts and spreads against plain loops; gains and trials beside each other. */
#include "folder.h"
#include "testing.h"

#include <errno.h>
#include <math.h>

#include "base/view.h"
#include "experiments/budget/budget.h"
#include "model/model.h"

static const char pebble[] = ES_TESTS_DIR "/../models/pebble";

enum { N = 48, LATE = N / 2, L = 4, HEADS = 6, DK = 32, H = 192, VOCAB = 4096 };
static es_model *model;
static int32_t ids[N];

static int open_model(void **state)
{
    for (int i = 0; i < N; i++)
        ids[i] = (int32_t)((uint32_t)i * 2654435761u % VOCAB);
    if (make_folder(state) != 0)
        return -1;
    return es_model_open(pebble, &(es_model_opts){.precision = ES_F64}, &model, &err) == ES_OK ? 0
                                                                                               : -1;
}

static int close_model(void **state)
{
    es_model_close(model);
    return remove_folder(state);
}

static es_token_block block_of(int64_t number)
{
    return (es_token_block){.model = model, .ids = ids, .n = N, .number = number, .seed = 5};
}

/* ---- outputs of the heads of layer 0, whose input no policy changes ---- */

static double outputs[2][HEADS][N][DK]; /* full, sparse */
static double weights[HEADS][N][N];

typedef struct collector {
    int which;
} collector;

static es_status collect(void *context, const es_model_seen *seen, es_error *e)
{
    const collector *c = context;
    double q[DK], k[DK];
    (void)e;
    if (seen->layer)
        return ES_OK;
    memcpy(outputs[c->which][seen->head], seen->output, sizeof outputs[0][0]);
    for (int i = 0; i < N && !c->which; i++) {
        double sum = 0.0, *w = weights[seen->head][i];
        es_view_read_row(&seen->q, i, q);
        for (int j = 0; j <= i; j++) {
            double score = 0.0;
            es_view_read_row(&seen->k, j, k);
            for (int d = 0; d < DK; d++)
                score += q[d] * k[d];
            sum += w[j] = exp(seen->scale * score);
        }
        for (int j = 0; j <= i; j++)
            w[j] /= sum;
    }
    return ES_OK;
}

static uint64_t seed = 1; /* of sparse heads */

static void run_model(int which, const es_policy_spec *spec)
{
    es_policy_spec heads[L * HEADS];
    collector c = {which};
    const es_model_visit visit = {.head = collect, .context = &c};
    const es_model_sparse sparse = {.heads = heads, .at = {.seed = seed, .experiment = 0x8000}};
    const es_model_block b = {
        .ids = ids, .n = N, .states = 2, .sparse = spec ? &sparse : NULL, .visit = &visit};
    for (int h = 0; h < L * HEADS && spec; h++)
        heads[h] = *spec;
    assert_ok(es_model_forward(model, &b, 1, NULL, &err));
}

/* Mean over late positions of |Wo_h (y_S - y)|^2, Wo as the checkpoint has it. */
static double error2_of(int head)
{
    es_model_head m;
    double row[DK], sum = 0.0;
    assert_ok(es_model_head_of(model, 0, head, &m, &err));
    for (int i = LATE; i < N; i++)
        for (int r = 0; r < H; r++) {
            double off = 0.0;
            es_view_read_row(&m.wo, r, row);
            for (int d = 0; d < DK; d++)
                off += row[d] * (outputs[1][head][i][d] - outputs[0][head][i][d]);
            sum += off * off / (N - LATE);
        }
    return sum;
}

/* ---- curves ---- */

enum { KEYS = 2, POLICIES = 4 };
static const int64_t grid[KEYS] = {6, 12};
static const char *const names[POLICIES] = {"stream", "heavy", "observe", "top"};
static double group[L][2][POLICIES][KEYS], risk[L][HEADS][POLICIES][KEYS], limit[L][HEADS][KEYS],
    facts[L][HEADS][ES_FACTS], spread2[L];

static void make_curves(int64_t queries)
{
    es_policy_spec specs[POLICIES];
    const es_token_block block = block_of(0);
    const es_curves out = {&group[0][0][0][0], &risk[0][0][0][0], &limit[0][0][0], &facts[0][0][0],
                           spread2};
    for (int p = 0; p < POLICIES; p++)
        es_policy_spec_init(&specs[p], es_policy_find(names[p]));
    const es_curves_spec spec = {specs, POLICIES, grid, KEYS, queries};
    assert_ok(es_curves_block(&spec, &block, NULL, &out, &err));
}

/* With every late position a query, the mean risk is the mean square error that the model's own
 * sparse heads make. Both are f64: 1e-9 is rounding. */
static void risks_are_the_errors_of_sparse_heads(void **state)
{
    (void)state;
    make_curves(N - LATE);
    run_model(0, NULL);
    for (int p = 0; p < POLICIES; p++)
        for (int m = 0; m < KEYS; m++) {
            es_policy_spec spec;
            es_policy_spec_init(&spec, es_policy_find(names[p]));
            spec.keys = grid[m];
            run_model(1, &spec);
            for (int h = 0; h < HEADS; h++) {
                const double want = error2_of(h);
                assert_above(want, 0.0);
                assert_near(risk[0][h][p][m], want, 1e-9 * want);
            }
        }
}

/* Draws with replacement leave keys out however many they are: late queries see 25 to 48 keys, and
 * 40 draws, or 48, of them are not all. Chance decides many times in the model's own sparse heads;
 * the mean of what it does is within four of its standard errors. */
static void as_many_draws_as_keys_have_a_risk(void **state)
{
    (void)state;
    enum { DRAWS = 2, RUNS = 200 };
    static const int64_t draws[DRAWS] = {40, 48};
    static double of_group[L][2][DRAWS], of_head[L][HEADS][DRAWS], limits[L][HEADS][DRAWS];
    const es_token_block block = block_of(0);
    const es_curves out = {&of_group[0][0][0], &of_head[0][0][0], &limits[0][0][0], &facts[0][0][0],
                           spread2};
    es_policy_spec with;
    es_policy_spec_init(&with, es_policy_find("random"));
    with.with_replacement = true;
    const es_curves_spec spec = {&with, 1, draws, DRAWS, N - LATE};
    assert_ok(es_curves_block(&spec, &block, NULL, &out, &err));
    run_model(0, NULL);
    for (int m = 0; m < DRAWS; m++) {
        double sum[HEADS] = {0}, squares[HEADS] = {0};
        with.keys = draws[m];
        for (seed = 1; seed <= RUNS; seed++) {
            run_model(1, &with);
            for (int h = 0; h < HEADS; h++) {
                sum[h] += error2_of(h);
                squares[h] += error2_of(h) * error2_of(h);
            }
        }
        for (int h = 0; h < HEADS; h++) {
            const double mean = sum[h] / RUNS, square = squares[h] / RUNS;
            const double se = sqrt((square - mean * mean) / RUNS);
            assert_below(se, 0.1 * mean);
            assert_near(of_head[0][h][m], mean, 4.0 * se);
        }
    }
    seed = 1;
}

static void facts_are_those_of_the_weights(void **state)
{
    (void)state;
    make_curves(N - LATE);
    run_model(0, NULL);
    for (int h = 0; h < HEADS; h++) {
        double ess = 0.0, sinks = 0.0;
        for (int i = LATE; i < N; i++) {
            double squares = 0.0;
            for (int j = 0; j <= i; j++)
                squares += weights[h][i][j] * weights[h][i][j];
            for (int j = 0; j < ES_BUDGET_SINKS; j++)
                sinks += weights[h][i][j] / (N - LATE);
            ess += 1.0 / squares / (N - LATE);
        }
        assert_near(facts[0][h][ES_FACT_ESS], ess, 1e-9 * ess);
        assert_near(facts[0][h][ES_FACT_SINKS], sinks, 1e-9);
        assert_at_least(facts[0][h][ES_FACT_KEYS_95], 1.0);
        assert_at_most(facts[0][h][ES_FACT_KEYS_95], N);
        assert_above(limit[0][h][0], limit[0][h][1]);
        assert_above(limit[0][h][1], 0.0);
        assert_above(facts[0][h][ES_FACT_SPREAD], limit[0][h][0]);
    }
}

static void the_layers_spread_is_that_of_the_summed_heads(void **state)
{
    (void)state;
    static double sum[N][H];
    double mean[H] = {0}, want = 0.0, row[DK];
    make_curves(4);
    run_model(0, NULL);
    memset(sum, 0, sizeof sum);
    for (int h = 0; h < HEADS; h++) {
        es_model_head m;
        assert_ok(es_model_head_of(model, 0, h, &m, &err));
        for (int r = 0; r < H; r++) {
            es_view_read_row(&m.wo, r, row);
            for (int i = LATE; i < N; i++)
                for (int d = 0; d < DK; d++)
                    sum[i][r] += row[d] * outputs[0][h][i][d];
        }
    }
    for (int r = 0; r < H; r++)
        for (int i = LATE; i < N; i++)
            mean[r] += sum[i][r] / (N - LATE);
    for (int r = 0; r < H; r++)
        for (int i = LATE; i < N; i++)
            want += (sum[i][r] - mean[r]) * (sum[i][r] - mean[r]) / (N - LATE);
    assert_near(spread2[0], want, 1e-9 * want);
}

/* Fewer queries are a sample of all of them: different blocks take others, the mean is near. */
static void few_queries_are_a_sample(void **state)
{
    (void)state;
    make_curves(N - LATE);
    const double all = risk[1][0][3][0];
    make_curves(8);
    assert_differs(risk[1][0][3][0], all);
    assert_between(risk[1][0][3][0], all / 5.0, 5.0 * all);
}

static void more_queries_than_positions_are_refused(void **state)
{
    (void)state;
    es_policy_spec top;
    const es_token_block block = block_of(0);
    const es_curves out = {&group[0][0][0][0], &risk[0][0][0][0], &limit[0][0][0], &facts[0][0][0],
                           spread2};
    es_policy_spec_init(&top, es_policy_find("top"));
    assert_int_equal(
        es_curves_block(&(es_curves_spec){&top, 1, grid, KEYS, N}, &block, NULL, &out, &err),
        ES_E_RANGE);
    assert_string_equal(err.rule, "budget.queries");
}

/* ---- runs ---- */

static double errors2[L][L + 1], states2[L + 1];
static es_gain gains[L];

static void make_gains(const es_policy_spec *heads)
{
    const es_token_block block = block_of(0);
    for (int l = 0; l < L; l++)
        gains[l].error2 = errors2[l];
    assert_ok(es_gains_block(&block, &(es_kept_keys){.heads = heads}, NULL, gains, states2, &err));
}

/* Nothing is dropped: nothing changes. The first layer alone: what later states lose is what a
 * trial of that layer says. */
static void one_layer_thinned_is_a_trial_of_that_layer(void **state)
{
    (void)state;
    const es_token_block block = block_of(0);
    es_policy_spec heads[L * HEADS] = {{0}};
    double error2[L + 1], spreads[L + 1], own2[L], out2[L], kept[L * HEADS], ends[ES_ENDS];
    const es_plan_trial out = {error2, spreads, own2, out2, kept, ends, NULL};
    assert_ok(es_plan_trial_block(&block, &(es_kept_keys){.heads = heads}, NULL, &out, &err));
    for (int l = 0; l <= L; l++) {
        assert_equals(error2[l], 0.0);
        assert_above(spreads[l], 0.0);
    }
    assert_equals(ends[ES_END_LOSS], 0.0);
    assert_above(ends[ES_END_AGREE], 0.999);
    assert_equals(ends[ES_END_KL], 0.0);
    for (int h = 0; h < HEADS; h++) {
        es_policy_spec_init(&heads[h], es_policy_find("stream"));
        heads[h].keys = 8;
    }
    make_gains(heads);
    assert_ok(es_plan_trial_block(&block, &(es_kept_keys){.heads = heads}, NULL, &out, &err));
    assert_near(gains[0].own2, own2[0], 1e-12 * own2[0]);
    assert_near(gains[0].loss, ends[ES_END_KL], 1e-12);
    assert_equals(own2[1], 0.0);
    assert_above(own2[0], 0.0);
    assert_above(ends[ES_END_KL], 0.0);
    for (int l = 0; l <= L; l++)
        assert_near(errors2[0][l], error2[l], 1e-12 * error2[l]);
    assert_near(out2[0], spread2[0], 1e-9 * out2[0]);
}

TEST_FILE(budget_lab)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(risks_are_the_errors_of_sparse_heads),
        cmocka_unit_test(as_many_draws_as_keys_have_a_risk),
        cmocka_unit_test(facts_are_those_of_the_weights),
        cmocka_unit_test(the_layers_spread_is_that_of_the_summed_heads),
        cmocka_unit_test(few_queries_are_a_sample),
        cmocka_unit_test(more_queries_than_positions_are_refused),
        cmocka_unit_test(one_layer_thinned_is_a_trial_of_that_layer),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
