/* SPDX-License-Identifier: Apache-2.0 */
/* test_sparse_head.c : a model whose heads keep some of their keys, against plain f64 loops
 * (tiny_model.h) that multiply weights by 0, 1 or what was drawn; and a forward pass that begins at
 * a hidden state. */
#include "testing.h"

#include "model/model.h"
#include "random/experiment.h"
#include "tiny_model.h"
#include <esscher/model.h>
#include <esscher/policy.h>

enum { H = 12, LAYERS = 3, HEADS = 3, N = 19, POSITIONS = 40, STATES = (LAYERS + 1) * N * H };
static const int32_t some_ids[N] = {1, 5, 30, 0, 7, 7, 12, 29, 3, 14, 15, 9, 26, 5, 3, 5, 8, 9, 7};

static tiny small;
static es_model *narrow, *wide; /* in f32 and in f64 */

static int set_up(void **state)
{
    (void)state;
    if (make_folder(state))
        return 1;
    small = tiny_default();
    tiny_draw(&small);
    tiny_write(&small);
    assert_ok(es_model_open(folder, &(es_model_opts){.precision = ES_F32}, &narrow, &err));
    assert_ok(es_model_open(folder, &(es_model_opts){.precision = ES_F64}, &wide, &err));
    return 0;
}

static int tear_down(void **state)
{
    es_model_close(narrow);
    es_model_close(wide);
    tiny_free(&small);
    return remove_folder(state);
}

/* ---- what is asked ---- */

static es_policy_spec specs[LAYERS * HEADS];
static es_model_sparse sparse = {.heads = specs,
                                 .at = {.seed = 5, .experiment = ES_EXPERIMENT_FREE, .cell = 7000}};

static es_policy_spec spec_of(const char *name, int64_t keys)
{
    es_policy_spec spec;
    assert_non_null(es_policy_find(name));
    es_policy_spec_init(&spec, es_policy_find(name));
    spec.keys = keys;
    return spec;
}

static void ask_all(es_policy_spec spec)
{
    for (int i = 0; i < LAYERS * HEADS; i++)
        specs[i] = spec;
}

typedef struct found {
    double hidden[STATES], stats[4][LAYERS * HEADS], kept[LAYERS * HEADS];
    int64_t empty[LAYERS * HEADS];
} found;

static void run(const es_model *m, const es_model_sparse *with, found *out)
{
    const es_model_block block = {.ids = some_ids,
                                  .n = N,
                                  .hidden = out->hidden,
                                  .entropy = out->stats[0],
                                  .top_weight = out->stats[1],
                                  .sum_squares = out->stats[2],
                                  .ess = out->stats[3],
                                  .sparse = with,
                                  .kept = out->kept,
                                  .empty = out->empty};
    memset(out, 0, sizeof *out);
    assert_ok(es_model_forward(m, &block, 1, &(es_exec){.threads = 1}, &err));
}

/* ---- everything is kept ---- */

/* Policies that keep all keys are attention as it was: to the rounding of the engine, 1e-6 of the
 * states' size for f32 kernels (attend.h), 1e-12 for f64. */
static void keeping_everything_is_attention(void **state)
{
    (void)state;
    static found plain, kept;
    const es_policy_spec all[] = {spec_of("full", ES_POLICY_UNSET), spec_of("top", N),
                                  spec_of("top", 1000), spec_of("window", 2 * N + 1),
                                  spec_of("random", N)};
    run(wide, NULL, &plain);
    for (size_t p = 0; p < sizeof all / sizeof all[0]; p++) {
        ask_all(all[p]);
        run(wide, &sparse, &kept);
        for (int i = 0; i < STATES; i++)
            assert_near(kept.hidden[i], plain.hidden[i], 1e-12);
        for (int i = 0; i < LAYERS * HEADS; i++) {
            assert_near(kept.kept[i], N, 1e-9);
            for (int s = 0; s < 4; s++)
                assert_near(kept.stats[s][i], plain.stats[s][i], 1e-11);
        }
    }
    static float narrow_plain[STATES], narrow_kept[STATES];
    es_model_block block = {.ids = some_ids, .n = N, .hidden = narrow_plain};
    double size = 0.0, off = 0.0;
    assert_ok(es_model_forward(narrow, &block, 1, NULL, &err));
    block.hidden = narrow_kept;
    block.sparse = &sparse;
    assert_ok(es_model_forward(narrow, &block, 1, NULL, &err));
    for (int i = 0; i < STATES; i++) {
        size = fmax(size, fabs((double)narrow_plain[i]));
        off = fmax(off, fabs((double)(narrow_plain[i] - narrow_kept[i])));
    }
    assert_at_most(off, 1e-6 * size);
}

/* Heads without a policy have the bits they had, whatever the others keep. */
static void heads_without_a_policy_are_as_before(void **state)
{
    (void)state;
    static found plain, other;
    run(narrow, NULL, &plain);
    ask_all((es_policy_spec){0});
    run(narrow, &sparse, &other);
    assert_memory_equal(&plain, &other, sizeof plain);
    for (int h = 0; h < HEADS; h++)
        specs[HEADS + h] = spec_of("top", 2); /* layer 1 */
    run(narrow, &sparse, &other);
    const size_t two = 2 * N * H * sizeof(float);
    assert_memory_equal(plain.hidden, other.hidden, two);
    assert_memory_not_equal((char *)plain.hidden + two, (char *)other.hidden + two, two);
    for (int h = 0; h < HEADS; h++) {
        assert_equals(other.stats[0][h], plain.stats[0][h]);
        assert_near(other.kept[h], N, 0.0);
        assert_near(other.kept[HEADS + h], 2.0, 1e-12);
    }
}

/* ---- some is kept ---- */

static double in_window(int64_t layer, int64_t head, const double *scores, int64_t n, int64_t i,
                        int64_t j)
{
    (void)layer, (void)head, (void)scores, (void)n;
    return (i > j ? i - j : j - i) <= 3 ? 1.0 : 0.0;
}

/* Among the 4 largest; of equal scores the smaller key counts as larger. */
static double in_top(int64_t layer, int64_t head, const double *scores, int64_t n, int64_t i,
                     int64_t j)
{
    int64_t above = 0;
    (void)layer, (void)head, (void)i;
    for (int64_t k = 0; k < n; k++)
        above += scores[k] > scores[j] || (scores[k] == scores[j] && k < j);
    return above < 4 ? 1.0 : 0.0;
}

/* What was drawn, at the address that model.h says: a key's factor as often as it is there. A query
 * that keeps nothing has its own token. */
static double as_drawn(int64_t layer, int64_t head, const double *scores, int64_t n, int64_t i,
                       int64_t j)
{
    const int64_t at = layer * HEADS + head;
    const es_policy_query query = {.n = n, .position = i, .scores = scores};
    es_address address = sparse.at;
    es_choice choice = {0};
    es_kept kept = {0};
    double factor = 0.0;
    address.cell += (uint64_t)(at * POSITIONS + i);
    assert_ok(es_policy_choose(&specs[at], &query, NULL, &choice, &err));
    assert_ok(es_choice_draw(&choice, &address, &kept, &err));
    for (int64_t t = 0; t < kept.count; t++)
        factor += kept.keys[t] == j ? exp(kept.log_factor[t]) : 0.0;
    if (!kept.count)
        factor = i == j ? 1.0 : 0.0;
    es_choice_free(&choice);
    es_kept_free(&kept);
    return factor;
}

/* A few hundred roundings of 2^-53 per layer, amplified by LayerNorm. */
static void compare_with_loops(found *got)
{
    static double want[STATES], stats[4 * LAYERS * HEADS], pooled[H];
    tiny_forward(&small, some_ids, N, want, stats, pooled, NULL);
    run(wide, &sparse, got);
    for (int i = 0; i < STATES; i++)
        assert_near(got->hidden[i], want[i], 1e-12);
    for (int i = 0; i < LAYERS * HEADS; i++)
        for (int s = 0; s < 4; s++)
            assert_near(got->stats[s][i], stats[4 * i + s], 1e-11);
}

static void windows_and_top_keys_are_what_the_loops_do(void **state)
{
    (void)state;
    static found got;
    es_policy_spec window = spec_of("window", ES_POLICY_UNSET);
    window.window = 3;
    ask_all(window);
    small.factor = in_window;
    compare_with_loops(&got);
    /* 7 keys, but for three queries at each end: 7 N less 2 (3 + 2 + 1) */
    assert_near(got.kept[0], (7.0 * N - 12.0) / N, 1e-12);
    ask_all(spec_of("top", 4));
    small.factor = in_top;
    compare_with_loops(&got);
    assert_near(got.kept[0], 4.0, 1e-12);
    small.factor = NULL;
}

static void draws_are_what_the_loops_do(void **state)
{
    (void)state;
    static found got;
    es_policy_spec again = spec_of("random", 6), few = spec_of("retention", ES_POLICY_UNSET);
    again.with_replacement = true;
    few.random = 2;
    ask_all(again);
    for (int h = 0; h < HEADS; h++)
        specs[HEADS + h] = few;
    small.factor = as_drawn;
    compare_with_loops(&got);
    small.factor = NULL;
    assert_near(got.kept[0], 6.0, 1e-12);
    /* each of 19 keys with probability 2/19: nothing in 12 % of 57 queries */
    assert_above(got.empty[HEADS] + got.empty[HEADS + 1] + got.empty[HEADS + 2], 0);
    assert_int_equal(got.empty[0], 0);
    static found other;
    es_model_sparse elsewhere = sparse;
    elsewhere.at.cell += (uint64_t)es_model_sparse_cells(wide);
    run(wide, &elsewhere, &other);
    assert_memory_not_equal(got.hidden + N * H, other.hidden + N * H, N * H * sizeof(double));
}

/* ---- policies that look at what others see ---- */

/* Layer 0, head 0 in plain loops, from its matrices and hidden state 0: weights of all keys for
 * every query, and values. */
static void first_head(const double *x, double weights[N][N], double values[N][H / HEADS])
{
    enum { D = H / HEADS };
    static double q[N][D], k[N][D];
    es_model_head head;
    assert_ok(es_model_head_of(wide, 0, 0, &head, &err));
    for (int i = 0; i < N; i++)
        for (int c = 0; c < D; c++) {
            q[i][c] = es_view_get(&head.bq, 0, c);
            k[i][c] = es_view_get(&head.bk, 0, c);
            values[i][c] = es_view_get(&head.bv, 0, c);
            for (int a = 0; a < H; a++) {
                q[i][c] += es_view_get(&head.wq, c, a) * x[i * H + a];
                k[i][c] += es_view_get(&head.wk, c, a) * x[i * H + a];
                values[i][c] += es_view_get(&head.wv, c, a) * x[i * H + a];
            }
        }
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int j = 0; j < N; j++) {
            double score = 0.0;
            for (int c = 0; c < D; c++)
                score += q[i][c] * k[j][c] / sqrt((double)D);
            sum += weights[i][j] = exp(score);
        }
        for (int j = 0; j < N; j++)
            weights[i][j] /= sum;
    }
}

/* sum w^2 over what `spec` keeps of a query, given what it may look at. */
static double squares_kept(const es_policy_spec *spec, const es_policy_query *query,
                           const double *weights)
{
    es_choice choice = {0};
    es_kept kept = {0};
    double sum = 0.0, squares = 0.0;
    es_address at = sparse.at;
    at.cell += (uint64_t)query->position;
    assert_ok(es_policy_choose(spec, query, NULL, &choice, &err));
    assert_ok(es_choice_draw(&choice, &at, &kept, &err));
    for (int64_t t = 0; t < kept.count; t++) {
        const double w = weights[kept.keys[t]] * exp(kept.log_factor[t]);
        sum += w;
        squares += w * w;
    }
    es_choice_free(&choice);
    es_kept_free(&kept);
    return squares / (sum * sum);
}

/* History is the sum of the weights of queries before, "observed" of the last of them, reach how
 * far values are from the full output: sum w^2 of the head tells whether the same keys were kept.
 */
static void history_observation_and_reach_are_what_loops_find(void **state)
{
    (void)state;
    enum { D = H / HEADS };
    static found got;
    enum { SPANS = 6 };
    static double weights[N][N], values[N][D], scores[N][N], history[N][N];
    static double observed[SPANS][N][N];
    static double reach[N][N];
    es_policy_spec asked[SPANS + 2] = {[SPANS] = spec_of("heavy", 5), spec_of("limit", 4)};
    for (int span = 1; span <= SPANS; span++) {
        asked[span - 1] = spec_of("observe", 6);
        asked[span - 1].span = span;
    }
    run(wide, NULL, &got);
    first_head(got.hidden, weights, values);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            for (int before = 0; before < i; before++) {
                history[i][j] += weights[before][j];
                for (int span = 1; span <= SPANS; span++)
                    observed[span - 1][i][j] += before >= i - span ? weights[before][j] : 0.0;
            }
            scores[i][j] = log(weights[i][j]);
            for (int c = 0; c < D; c++) {
                double y = 0.0;
                for (int k = 0; k < N; k++)
                    y += weights[i][k] * values[k][c];
                reach[i][j] += (values[j][c] - y) * (values[j][c] - y);
            }
            reach[i][j] = sqrt(reach[i][j]);
        }
    for (size_t p = 0; p < sizeof asked / sizeof asked[0]; p++) {
        double want = 0.0;
        ask_all((es_policy_spec){0});
        specs[0] = asked[p];
        run(wide, &sparse, &got);
        for (int i = 0; i < N; i++) {
            const es_policy_query query = {.n = N,
                                           .position = i,
                                           .scores = scores[i],
                                           .reach = reach[i],
                                           .history = history[i],
                                           .observed = observed[p % SPANS][i]};
            want += squares_kept(&asked[p], &query, weights[i]) / N;
        }
        assert_near(got.stats[2][0], want, 1e-11);
    }
}

/* Linformer: the head's mixtures are attended to in place of its keys. */
static void linformer_mixes_all_keys(void **state)
{
    (void)state;
    static found got, again;
    ask_all(spec_of("linformer", 5));
    run(wide, &sparse, &got);
    run(wide, &sparse, &again);
    assert_memory_equal(&got, &again, sizeof got);
    for (int i = 0; i < LAYERS * HEADS; i++) {
        assert_near(got.kept[i], 5.0, 0.0);
        assert_above(got.stats[0][i], 0.0);
        assert_at_most(got.stats[0][i], log(5.0)); /* of 5 weights */
    }
    specs[0].keys = ES_POLICY_UNSET;
    const es_model_block block = {.ids = some_ids, .n = N, .sparse = &sparse};
    assert_int_equal(es_model_forward(wide, &block, 1, NULL, &err), ES_E_RANGE);
}

static void same_bits_for_any_threads(void **state)
{
    (void)state;
    enum { BLOCKS = 7 };
    static float alone[BLOCKS][N * H], together[BLOCKS][N * H];
    es_model_block blocks[BLOCKS];
    es_model_sparse own[BLOCKS];
    ask_all(spec_of("random", 5));
    specs[4] = spec_of("top", 3);
    specs[5] = spec_of("heavy", 3);
    for (int i = 0; i < BLOCKS; i++) {
        own[i] = sparse;
        own[i].at.cell = (uint64_t)(i * es_model_sparse_cells(narrow));
        blocks[i] = (es_model_block){
            .ids = some_ids + i, .n = N - 2 * i, .last = alone[i], .sparse = &own[i]};
        assert_ok(es_model_forward(narrow, &blocks[i], 1, &(es_exec){.threads = 1}, &err));
        blocks[i].last = together[i];
    }
    for (int threads = 1; threads <= 4; threads++) {
        es_mem_limit budget = {0};
        memset(together, 0, sizeof together);
        assert_ok(es_model_forward(narrow, blocks, BLOCKS,
                                   &(es_exec){.threads = threads, .budget = &budget}, &err));
        assert_memory_equal(alone, together, sizeof alone);
        assert_int_equal(budget.used, 0);
    }
}

/* ---- from the middle ---- */

static void layers_can_be_run_from_a_state(void **state)
{
    (void)state;
    static float all[LAYERS + 1][N * H], some[LAYERS + 1][N * H];
    es_model_block block = {.ids = some_ids, .n = N, .hidden = all};
    assert_ok(es_model_forward(narrow, &block, 1, NULL, &err));
    for (int start = 0; start <= LAYERS; start++)
        for (int states = start + 1; states <= LAYERS + 1; states++) {
            memset(some, 0, sizeof some);
            block = (es_model_block){
                .n = N, .hidden = some, .start = start, .input = all[start], .states = states};
            assert_ok(es_model_forward(narrow, &block, 1, NULL, &err));
            assert_memory_equal(some, all[start], (size_t)(states - start) * sizeof all[0]);
            if (states <= LAYERS)
                assert_equals(some[states - start][0], 0.0f); /* nothing beyond */
        }
    double entropy[LAYERS * HEADS] = {0};
    block =
        (es_model_block){.n = N, .start = 1, .input = all[1], .last = some[0], .entropy = entropy};
    assert_ok(es_model_forward(narrow, &block, 1, NULL, &err));
    assert_memory_equal(some[0], all[LAYERS], sizeof all[0]);
    assert_equals(entropy[0], 0.0);
    assert_above(entropy[HEADS], 0.0);
}

static void refuse(es_model_block block, es_status status, const char *rule)
{
    assert_int_equal(es_model_forward(narrow, &block, 1, NULL, &err), status);
    assert_string_equal(err.rule, rule);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static float x[N * H];
    refuse((es_model_block){.ids = some_ids, .n = N, .start = 1}, ES_E_ARGUMENT, "forward.start");
    refuse((es_model_block){.n = N, .start = 2, .states = 2, .input = x}, ES_E_RANGE,
           "forward.states");
    refuse((es_model_block){.n = N, .start = LAYERS + 1, .input = x}, ES_E_RANGE, "forward.states");
    refuse((es_model_block){.n = N, .start = -1, .input = x}, ES_E_RANGE, "forward.states");
    refuse((es_model_block){.n = N}, ES_E_EMPTY, "forward.empty");
    es_model_sparse bad = {0};
    refuse((es_model_block){.ids = some_ids, .n = N, .sparse = &bad}, ES_E_ARGUMENT,
           "forward.sparse");
    bad = sparse;
    bad.at.cell = (UINT64_C(1) << 48) - 1;
    ask_all(spec_of("random", 5));
    assert_int_equal(es_model_forward(narrow,
                                      &(es_model_block){.ids = some_ids, .n = N, .sparse = &bad}, 1,
                                      NULL, &err),
                     ES_E_RANGE);
    specs[3].keys = 0;
    refuse((es_model_block){.ids = some_ids, .n = N, .sparse = &sparse}, ES_E_RANGE, "policy.keys");
    ask_all(spec_of("top", 5));
    x[3] = NAN;
    assert_int_equal(es_model_forward(narrow,
                                      &(es_model_block){.n = N, .input = x, .sparse = &sparse}, 1,
                                      NULL, &err),
                     ES_E_NONFINITE);
}

TEST_FILE(sparse_head)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeping_everything_is_attention),
        cmocka_unit_test(heads_without_a_policy_are_as_before),
        cmocka_unit_test(windows_and_top_keys_are_what_the_loops_do),
        cmocka_unit_test(draws_are_what_the_loops_do),
        cmocka_unit_test(history_observation_and_reach_are_what_loops_find),
        cmocka_unit_test(linformer_mixes_all_keys),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(layers_can_be_run_from_a_state),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
