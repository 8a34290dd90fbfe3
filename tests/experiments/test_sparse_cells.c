/* SPDX-License-Identifier: Apache-2.0 */
/* test_sparse_cells.c : what a cell of `sparse` computes, against enumeration and plain loops. */
#include "testing.h"

#include "experiments/sparse/sparse.h"
#include "policy/policy.h"

enum { N = 7, D = 3, DV = 2, ROWS = 5 };

static double q_[ROWS * D], k_[N * D], v_[N * DV];

static const int64_t stands[ROWS] = {3, 1, 5, 0, 6};

static es_sparse_head small_head(void)
{
    uint64_t state = 5;
    double *const to[] = {q_, k_, v_};
    const int counts[] = {ROWS * D, N * D, N * DV};
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < counts[a]; i++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            to[a][i] = (double)(state >> 11) / 0x1p52 - 1.0;
        }
    return (es_sparse_head){.queries = es_view_f64(q_, ROWS, D),
                            .keys = es_view_f64(k_, N, D),
                            .values = es_view_f64(v_, N, DV),
                            .positions = stands,
                            .scale = 1.5};
}

/* The output of query `row` over a set of keys, a bit each. */
static void plain_output(int row, unsigned set, double out[DV])
{
    double sum = 0.0;
    out[0] = out[1] = 0.0;
    for (int j = 0; j < N; j++) {
        double score = 0.0;
        for (int c = 0; c < D; c++)
            score += 1.5 * q_[row * D + c] * k_[j * D + c];
        const double w = set >> j & 1 ? exp(score) : 0.0;
        sum += w;
        for (int c = 0; c < DV; c++)
            out[c] += w * v_[j * DV + c];
    }
    for (int c = 0; c < DV; c++)
        out[c] /= sum;
}

/* All 35 sets of 3 keys of 7 alike: nothing but the definition. */
static void draws_without_replacement_are_subsets(void **state)
{
    (void)state;
    const es_sparse_head head = small_head();
    es_policy_spec plan;
    es_sparse_cell cell;
    es_policy_spec_init(&plan, es_policy_find("random"));
    plan.keys = 3;
    const es_sparse_spec spec = {&plan, .n_plans = 1, .draws = 4000, .seed = 3};
    assert_ok(es_sparse_measure(&spec, &head, (const int64_t[]){2}, 1, 0, &cell, &err));
    double full[DV], some[DV], sum = 0.0, mean[DV] = {0};
    plain_output(2, (1u << N) - 1, full);
    for (unsigned set = 0; set < 1u << N; set++) {
        if (__builtin_popcount(set) != 3)
            continue;
        plain_output(2, set, some);
        for (int c = 0; c < DV; c++) {
            sum += (some[c] - full[c]) * (some[c] - full[c]) / 35.0;
            mean[c] += some[c] / 35.0;
        }
    }
    assert_close(cell.exact, sum, 1e-7);
    assert_near(cell.mse, sum, 4.0 * sqrt(cell.mse_var)); /* once in 16000 seeds beyond */
    assert_below(sqrt(cell.mse_var), 0.03 * sum);
    assert_close(cell.bias2, pow(mean[0] - full[0], 2.0) + pow(mean[1] - full[1], 2.0), 1e-6);
    assert_close(cell.bias2 + cell.variance, cell.exact, 1e-12);
    assert_near(cell.mass, 3.0 / 7.0, 1e-12); /* every key alike */
    assert_equals(cell.kept, 3.0);
    assert_equals(cell.n, 7.0);
    assert_equals(cell.corrected, 0.0);
}

/* A window whose keys are e^-2000 of the weight: what is kept surely is attended to, and the error
 * is that of a softmax over it, as attention under that mask would have. */
static void sure_keys_without_weight_are_attended_to(void **state)
{
    (void)state;
    const double q = 1.0, k[4] = {2000.0, 0.0, -1.0, 2000.0}, v[4] = {1.0, 2.0, 4.0, 1.0};
    const int64_t stands_at = 1;
    const es_sparse_head head = {.queries = es_view_f64(&q, 1, 1),
                                 .keys = es_view_f64(k, 4, 1),
                                 .values = es_view_f64(v, 4, 1),
                                 .positions = &stands_at,
                                 .scale = 1.0,
                                 .causal = false};
    es_policy_spec plan;
    es_sparse_cell cell;
    es_policy_spec_init(&plan, es_policy_find("window"));
    plan.window = 0; /* itself */
    const es_sparse_spec spec = {&plan, .n_plans = 1, .draws = 2, .seed = 3};
    assert_ok(es_sparse_measure(&spec, &head, (const int64_t[]){0}, 1, 0, &cell, &err));
    assert_near(cell.mse, 1.0, 1e-15); /* 2 instead of 1 */
    assert_near(cell.exact, 1.0, 1e-14);
    assert_equals(cell.mass, 0.0);
    assert_equals(cell.empty, 0.0);
    assert_equals(cell.kept, 1.0);
    assert_equals(cell.mse_var, 0.0);
}

/* One key has all of the weight that f64 can hold: an outcome without it keeps nothing, for those
 * who simulate as for those who integrate, and one with it is off by nothing. */
static void outcomes_without_weight_are_empty(void **state)
{
    (void)state;
    es_sparse_head head = small_head();
    es_policy_spec plan;
    es_sparse_cell cell;
    head.scale = 1e6;
    es_policy_spec_init(&plan, es_policy_find("random"));
    plan.keys = 3;
    const es_sparse_spec spec = {&plan, .n_plans = 1, .draws = 64, .seed = 3};
    assert_ok(es_sparse_measure(&spec, &head, (const int64_t[]){2}, 1, 0, &cell, &err));
    assert_near(cell.empty, 4.0 / 7.0, 1e-12); /* 20 of the 35 sets */
    assert_equals(cell.exact, 0.0);
    assert_equals(cell.mse, 0.0);
    assert_equals(cell.ess, 1.0);
}

/* Query `row` of the small head: its weights on the keys it sees. */
static void plain_weights(int row, int64_t n, double out[N])
{
    double sum = 0.0;
    for (int j = 0; j < n; j++) {
        double score = 0.0;
        for (int c = 0; c < D; c++)
            score += 1.5 * q_[row * D + c] * k_[j * D + c];
        sum += out[j] = exp(score);
    }
    for (int j = 0; j < n; j++)
        out[j] /= sum;
}

/* Rows stand at 3 1 5 0 6: before row 2, at 5, come rows 3, 1, 0, in that order. */
static void the_past_is_what_came_before_by_position(void **state)
{
    (void)state;
    es_policy_spec plans[2];
    es_arena arena = {0};
    es_sparse_past past;
    es_policy_spec_init(&plans[0], es_policy_find("heavy"));
    es_policy_spec_init(&plans[1], es_policy_find("observe"));
    plans[0].keys = plans[1].keys = 2;
    plans[1].span = 2;
    const es_sparse_spec spec = {plans, .n_plans = 2, .draws = 2};
    for (int causal = 0; causal < 2; causal++) {
        es_sparse_head head = small_head();
        head.causal = causal;
        assert_ok(es_sparse_past_of(&spec, &head, (const int64_t[]){2, 3}, 2, &arena, &past, &err));
        double all[N] = {0}, last[N] = {0}, w[N];
        for (int i = 0; i < 3; i++) {
            const int row = (int[]){3, 1, 0}[i];
            const int64_t n = causal ? head.positions[row] + 1 : N;
            plain_weights(row, n, w);
            for (int64_t j = 0; j < n; j++) {
                all[j] += w[j];
                last[j] += i > 0 ? w[j] : 0.0; /* the last two */
            }
        }
        for (int j = 0; j < N; j++) {
            assert_near(past.history[j], all[j], 1e-14);
            assert_near(past.observed[j], last[j], 1e-14);
            assert_equals(past.history[N + j], 0.0); /* row 3 stands first */
        }
        es_arena_free(&arena);
        arena = (es_arena){0};
    }
}

/* E itself is what the identity is projected to. */
static void linformer_attends_over_mixtures(void **state)
{
    (void)state;
    enum { MIXTURES = 4, DRAWS = 3 };
    const es_sparse_head head = small_head();
    es_policy_spec plan;
    es_sparse_cell cell;
    es_policy_spec_init(&plan, es_policy_find("linformer"));
    plan.keys = MIXTURES;
    const es_sparse_spec spec = {&plan, .n_plans = 1, .draws = DRAWS, .seed = 9};
    assert_ok(es_sparse_measure(&spec, &head, (const int64_t[]){1}, 1, 0, &cell, &err));
    double unit[N * N] = {0}, E[MIXTURES * N], full[DV], sum = 0.0;
    for (int i = 0; i < N; i++)
        unit[i * N + i] = 1.0;
    plain_output(1, (1u << N) - 1, full);
    for (int r = 0; r < DRAWS; r++) {
        const es_view identity = es_view_f64(unit, N, N);
        const es_address at = {.seed = 9, .experiment = ES_SPARSE_PROJECTIONS, .cell = (uint64_t)r};
        double total = 0.0, out[DV] = {0};
        assert_ok(es_linformer_project(&identity, MIXTURES, &at, NULL, E, &err));
        for (int i = 0; i < MIXTURES; i++) {
            double score = 0.0, value[DV] = {0};
            for (int j = 0; j < N; j++) {
                for (int c = 0; c < D; c++)
                    score += 1.5 * q_[D + c] * E[i * N + j] * k_[j * D + c];
                for (int c = 0; c < DV; c++)
                    value[c] += E[i * N + j] * v_[j * DV + c];
            }
            total += exp(score);
            for (int c = 0; c < DV; c++)
                out[c] += exp(score) * value[c];
        }
        for (int c = 0; c < DV; c++)
            sum += pow(out[c] / total - full[c], 2.0) / DRAWS;
    }
    assert_close(cell.mse, sum, 1e-12);
    assert_nan(cell.exact);
    assert_equals(cell.kept, MIXTURES);
}

/* ---- one set of keys for all queries ---- */

enum { TOKENS = 25, MIDDLE = 12, HALF = 4, OTHERS = 3, DRAWN = 9 };

/* Tokens that are queries and keys, as the papers' protocol has them. */
static double tokens[TOKENS * D], values[TOKENS * DV];

static es_sparse_head text_head(void)
{
    for (int i = 0; i < TOKENS * D; i++)
        tokens[i] = sin(1.0 + 2.3 * i);
    for (int i = 0; i < TOKENS * DV; i++)
        values[i] = cos(5.1 * i);
    return (es_sparse_head){.queries = es_view_f64(tokens, TOKENS, D),
                            .keys = es_view_f64(tokens, TOKENS, D),
                            .values = es_view_f64(values, TOKENS, DV),
                            .scale = 1.5};
}

/* The output of token `row` over keys (count), which may be repeated. */
static void output_over(int64_t row, const int64_t *keys, int64_t count, double out[DV])
{
    double sum = 0.0;
    memset(out, 0, DV * sizeof *out);
    for (int64_t i = 0; i < count; i++) {
        double score = 0.0;
        for (int c = 0; c < D; c++)
            score += 1.5 * tokens[row * D + c] * tokens[keys[i] * D + c];
        sum += exp(score);
        for (int c = 0; c < DV; c++)
            out[c] += exp(score) * values[keys[i] * DV + c];
    }
    for (int c = 0; c < DV; c++)
        out[c] /= sum;
}

/* Mean and covariance of the outputs of tokens `keys` over each other. */
static void moments_over(const int64_t *keys, int64_t count, double mean[DV], double cov[DV][DV])
{
    double y[TOKENS][DV];
    memset(mean, 0, DV * sizeof *mean);
    memset(cov, 0, DV * sizeof *cov);
    for (int64_t i = 0; i < count; i++) {
        output_over(keys[i], keys, count, y[i]);
        for (int c = 0; c < DV; c++)
            mean[c] += y[i][c] / (double)count;
    }
    for (int64_t i = 0; i < count; i++)
        for (int a = 0; a < DV; a++)
            for (int b = 0; b < DV; b++)
                cov[a][b] += (y[i][a] - mean[a]) * (y[i][b] - mean[b]) / (double)count;
}

/* The three plans: all keys, a window with random keys, draws with replacement. */
static void shared_plans(es_policy_spec plans[3])
{
    es_policy_spec_init(&plans[0], NULL);
    es_policy_spec_init(&plans[1], es_policy_find("bigbird"));
    plans[1].sinks = 0;
    plans[1].window = HALF;
    plans[1].random = OTHERS;
    plans[1].correction = ES_CORRECTION_NONE;
    es_policy_spec_init(&plans[2], es_policy_find("random"));
    plans[2].random = DRAWN;
    plans[2].with_replacement = true;
}

/* Which keys the queries of the papers' protocol see: |j - n/2| <= w and so many others, each once;
 * the others change from draw to draw, the window does not. */
static void the_papers_window_is_in_the_middle(void **state)
{
    (void)state;
    es_policy_spec plans[3];
    es_choice choice = {0};
    es_kept kept = {0};
    unsigned others = 0;
    shared_plans(plans);
    const es_sparse_spec spec = {plans, .n_plans = 3, .seed = 4};
    for (int64_t number = 0; number < 40; number++) {
        int inside = 0;
        assert_ok(es_sparse_shared_keys(&spec, 1, TOKENS, number, &choice, &kept, &err));
        assert_int_equal(kept.count, 2 * HALF + 1 + OTHERS);
        for (int64_t i = 0; i < kept.count; i++) {
            assert_equals(kept.log_factor[i], 0.0);
            if (i != 0)
                assert_above(kept.keys[i], kept.keys[i - 1]);
            const bool near = llabs(kept.keys[i] - MIDDLE) <= HALF;
            inside += near;
            others |= near ? 0u : 1u << kept.keys[i];
        }
        assert_int_equal(inside, 2 * HALF + 1);
    }
    /* one of the 16 others is missed by 40 draws of 3 with probability (13/16)^40 = 2e-4 */
    assert_int_equal(__builtin_popcount(others), TOKENS - 2 * HALF - 1);
    assert_ok(es_sparse_shared_keys(&spec, 2, TOKENS, 0, &choice, &kept, &err));
    assert_int_equal(kept.count, DRAWN);
    es_choice_free(&choice);
    es_kept_free(&kept);
}

/* The papers' errors, written out: moments of the kept tokens over each other against those of all
 * over all; outputs of the queries asked about over the kept keys. The kernels are f32, and errors
 * are differences of outputs near 1: 1e-5. */
static void replicates_are_the_papers_errors(void **state)
{
    (void)state;
    const es_sparse_head head = text_head();
    const int64_t which[] = {0, 7, 24}, number = 5;
    es_policy_spec plans[3];
    es_sparse_errors out[3];
    es_choice choice = {0};
    es_kept kept = {0};
    int64_t all[TOKENS];
    double mean[2][DV], cov[2][DV][DV];
    shared_plans(plans);
    const es_sparse_spec spec = {plans, .n_plans = 3, .seed = 4};
    for (int i = 0; i < TOKENS; i++)
        all[i] = i;
    moments_over(all, TOKENS, mean[0], cov[0]);
    assert_ok(es_sparse_replicate(&spec, &head, which, 3, number, out, &err));
    for (int p = 0; p < 3; p++) {
        double apart = 0.0, squares = 0.0, mse = 0.0, y[2][DV];
        assert_ok(es_sparse_shared_keys(&spec, p, TOKENS, number, &choice, &kept, &err));
        moments_over(kept.keys, kept.count, mean[1], cov[1]);
        for (int a = 0; a < DV; a++) {
            apart += pow(mean[1][a] - mean[0][a], 2.0);
            for (int b = 0; b < DV; b++)
                squares += pow(cov[1][a][b] - cov[0][a][b], 2.0);
        }
        for (int i = 0; i < 3; i++) {
            output_over(which[i], all, TOKENS, y[0]);
            output_over(which[i], kept.keys, kept.count, y[1]);
            for (int c = 0; c < DV; c++)
                mse += pow(y[1][c] - y[0][c], 2.0) / 3.0;
        }
        assert_near(out[p].mean_error, sqrt(apart), 1e-5);
        assert_near(out[p].cov_error, sqrt(squares), 1e-5);
        assert_near(out[p].mse, mse, 1e-5);
        if (p) {
            assert_above(mse, 1e-3);
            assert_above(apart, 1e-6);
        } else
            assert_equals(mse, 0.0);
    }
    /* corrected keys, queries that see one side or stand elsewhere */
    plans[1].correction = ES_CORRECTION_INVERSE;
    assert_int_equal(es_sparse_replicate(&spec, &head, which, 3, 0, out, &err), ES_E_UNSUPPORTED);
    es_sparse_head other = head;
    other.causal = true;
    assert_int_equal(es_sparse_replicate(&spec, &other, which, 3, 0, out, &err), ES_E_UNSUPPORTED);
    other = head;
    other.positions = all;
    assert_int_equal(es_sparse_replicate(&spec, &other, which, 3, 0, out, &err), ES_E_UNSUPPORTED);
    assert_int_equal(es_sparse_replicate(&spec, &head, (const int64_t[]){25}, 1, 0, out, &err),
                     ES_E_RANGE);
    es_choice_free(&choice);
    es_kept_free(&kept);
}

/* No policy keeps a key after its query: nothing but the keys before changes a causal output
 * (PL04).
 */
static void PL04_keys_after_the_query_change_nothing(void **state)
{
    (void)state;
    const es_sparse_head head = small_head();
    es_sparse_head causal = head;
    causal.causal = true;
    for (int64_t at = 0; es_policy_at(at); at++) {
        es_policy_spec plan;
        es_sparse_cell before, after;
        es_policy_spec_init(&plan, es_policy_at(at));
        plan.keys = 3;
        if (es_policy_inputs(plan.policy) & ES_POLICY_FUTURE)
            continue;
        const es_sparse_spec spec = {&plan, .n_plans = 1, .draws = 4, .seed = 1};
        assert_ok(es_sparse_measure(&spec, &causal, (const int64_t[]){2}, 1, 0, &before, &err));
        k_[6 * D] += 3.0; /* key 6 stands after query 2, at 5 */
        v_[6 * DV] -= 2.0;
        assert_ok(es_sparse_measure(&spec, &causal, (const int64_t[]){2}, 1, 0, &after, &err));
        assert_memory_equal(&before, &after, sizeof before);
        k_[6 * D] -= 3.0;
        v_[6 * DV] += 2.0;
    }
}

TEST_FILE(sparse_cells)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_without_replacement_are_subsets),
        cmocka_unit_test(outcomes_without_weight_are_empty),
        cmocka_unit_test(sure_keys_without_weight_are_attended_to),
        cmocka_unit_test(the_past_is_what_came_before_by_position),
        cmocka_unit_test(linformer_attends_over_mixtures),
        cmocka_unit_test(the_papers_window_is_in_the_middle),
        cmocka_unit_test(replicates_are_the_papers_errors),
        cmocka_unit_test(PL04_keys_after_the_query_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
