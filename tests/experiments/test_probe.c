/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe.c : the probe of real models against plain loops (probe_truth.h): limit, halves,
 * errors of a draw, coherence; the same bits on any machine. */
#include "probe_truth.h"

#include "random/random.h"

/* ---- limit and halves ---- */

static void limit_and_moments_are_those_of_the_whole_pool(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    const es_probe_layout at = es_probe_layout_of(&spec);
    double *numbers = new_numbers(&spec);
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        assert_ok(es_probe_measure(&spec, layer, numbers, &err));
        for (int i = 0; i < H; i++)
            assert_near(numbers[at.mean + i], t.mean[i], 1e-12);
        for (int i = 0; i < H * H; i++)
            assert_near(numbers[at.cov + i], t.cov[i], 1e-12);
        for (int i = 0; i < QUERIES * H; i++)
            assert_near(numbers[at.limit + i], t.limit[i], tolerance_of[layer]);
        free(t.x);
    }
    free(numbers);
}

/* n sum w^2 |v - output|^2 over tokens rows[0 .. n), mean over queries; *thin counts queries with
 * 1/sum w^2 below 100. */
static double sampling_of(const truth *t, const int64_t *rows, int64_t n, int h, double *thin)
{
    double *w = malloc((size_t)n * sizeof *w), outputs[QUERIES * H], mean = 0.0;
    attend(t, rows, n, outputs);
    *thin = 0.0;
    for (int i = 0; i < QUERIES; i++) {
        double squares = 0.0;
        weights_of(t, i, h, rows, n, w);
        for (int64_t j = 0; j < n; j++) {
            squares += w[j] * w[j];
            for (int c = h * K; c < (h + 1) * K; c++)
                mean += (double)n * w[j] * w[j] *
                        pow(t->values[rows[j] * H + c] - outputs[i * H + c], 2.0) / QUERIES;
        }
        *thin += squares > 0.01;
    }
    free(w);
    return mean;
}

/* As a sum of squares it is what f32 makes of outputs, twice, times the tokens' number where one
 * token has all weight and the distance from it is a difference of rounded numbers. */
static void sampling_is_what_a_drawn_token_changes(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec);
    int64_t *all = malloc((size_t)tokens * sizeof *all);
    for (int64_t i = 0; i < tokens; i++)
        all[i] = i;
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        for (int h = 0; h < HEADS; h++) {
            double thin;
            const double want = sampling_of(&t, all, tokens, h, &thin);
            es_probe_head about;
            assert_ok(es_probe_head_of(probe, h, &about, &err));
            assert_near(about.sampling, want, want * 20.0 * tolerance_of[layer]);
            assert_near(about.thin, thin / QUERIES, 1e-12);
            assert_at_least(about.sampling_error, 0.0);
            if (layer <= 0)
                assert_below(about.sampling_error, 0.2 * want);
        }
        es_probe_close(probe);
        free(t.x);
    }
    free(all);
    free(numbers);
}

/* Where scores are small the error of n tokens is that, over n: E of its square, to 1/n. */
static void sampling_predicts_the_error_of_draws(void **state)
{
    (void)state;
    enum { DRAWS = 100 };
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec), squares[HEADS][DRAWS];
    es_probe *probe = probe_of(&spec, 0, numbers);
    for (int r = 0; r < DRAWS; r++) {
        es_probe_cell cells[HEADS * SIZES];
        es_probe_joint joint[SIZES];
        assert_ok(es_probe_replicate(probe, r, cells, joint, &err));
        for (int h = 0; h < HEADS; h++)
            squares[h][r] = pow(cells[h * SIZES + 1].map_error, 2.0) * (double)sizes[1];
    }
    for (int h = 0; h < HEADS; h++) {
        double mean = 0.0, spread = 0.0;
        es_probe_head about;
        assert_ok(es_probe_head_of(probe, h, &about, &err));
        for (int r = 0; r < DRAWS; r++)
            mean += squares[h][r] / DRAWS;
        for (int r = 0; r < DRAWS; r++)
            spread += pow(squares[h][r] - mean, 2.0) / DRAWS / (DRAWS - 1);
        /* three heads: 4 standard errors; the next order is a few over n */
        assert_near(mean, about.sampling, 4.0 * sqrt(spread) + 5.0 / 600.0 * about.sampling);
    }
    es_probe_close(probe);
    free(numbers);
}

/* Strips of at most 4096 tokens, 16 or an even number above it, alternate between the halves. */
static void own_error_is_half_the_distance_of_the_halves(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    const es_probe_layout at = es_probe_layout_of(&spec);
    double *numbers = new_numbers(&spec), out[2][QUERIES * H];
    int64_t *rows[2], count[2] = {0, 0};
    const int64_t strips = 16;
    assert_at_least(strips * 4096, tokens);
    for (int s = 0; s < 2; s++)
        rows[s] = malloc((size_t)tokens * sizeof **rows);
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t s = i / ((tokens + strips - 1) / strips) % 2;
        rows[s][count[s]++] = i;
    }
    assert_below(llabs(count[0] - count[1]), strips);
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        assert_ok(es_probe_measure(&spec, layer, numbers, &err));
        for (int s = 0; s < 2; s++)
            attend(&t, rows[s], count[s], out[s]);
        for (int h = 0; h < HEADS; h++) {
            const double *halves = numbers + at.about + ES_PROBE_ABOUT * h;
            es_probe_cell want = errors_of(out[0], out[1], h);
            want.mean_error /= 2, want.cov_error /= 2, want.map_error /= 2;
            same_errors((es_probe_cell){halves[0], halves[1], halves[2]}, want,
                        tolerance_of[layer]);
        }
        free(t.x);
    }
    free(rows[0]);
    free(rows[1]);
    free(numbers);
}

/* ---- a draw ---- */

/* Errors of every head and of all together against loops over the drawn rows. */
static void check_draw(const es_probe *probe, const truth *t, const int64_t *rows, int64_t r,
                       double tolerance)
{
    es_probe_cell cells[HEADS * SIZES];
    es_probe_joint joint[SIZES];
    double out[QUERIES * H];
    assert_ok(es_probe_replicate(probe, r, cells, joint, &err));
    for (int s = 0; s < SIZES; s++) {
        double together = 0.0, alone = 0.0, own[HEADS] = {0.0};
        attend(t, rows, sizes[s], out);
        for (int h = 0; h < HEADS; h++)
            same_errors(cells[h * SIZES + s], errors_of(out, t->limit, h), tolerance);
        for (int i = 0; i < QUERIES; i++)
            for (int o = 0; o < H; o++) { /* channel o of Wo e, of each head and of all */
                double sum = 0.0;
                for (int h = 0; h < HEADS; h++) {
                    double one = 0.0;
                    for (int c = h * K; c < (h + 1) * K; c++)
                        one += t->wo[o * H + c] * (out[i * H + c] - t->limit[i * H + c]);
                    alone += one * one;
                    own[h] += one * one;
                    sum += one;
                }
                together += sum * sum;
            }
        assert_near(joint[s].map_error, sqrt(together / QUERIES), tolerance);
        assert_near(joint[s].coherence, together / alone, 1e-3);
        for (int h = 0; h < HEADS; h++)
            assert_near(cells[h * SIZES + s].after_wo, sqrt(own[h] / QUERIES), tolerance);
    }
}

static void errors_of_a_draw_are_what_the_loops_say(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec);
    int64_t rows[600];
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        for (int64_t r = 0; r < 3; r += 2) {
            const es_address at = {.seed = 11,
                                   .experiment = ES_PROBE_TOKENS,
                                   .cell = (uint64_t)layer << 32 | (uint64_t)r};
            assert_ok(es_integer_rows(&at, 600, 1, tokens, rows, &err));
            check_draw(probe, &t, rows, r, tolerance_of[layer]);
        }
        es_probe_close(probe);
        free(t.x);
    }
    free(numbers);
}

/* Distinct tokens; and all of them are the limit, whatever their order. */
static void without_replacement(void **state)
{
    (void)state;
    const int64_t whole[SIZES] = {600, tokens};
    es_probe_spec spec = spec_of(NULL);
    spec.without_replacement = true;
    spec.sizes = whole;
    double *numbers = new_numbers(&spec);
    es_probe *probe = probe_of(&spec, 1, numbers);
    es_probe_cell cells[HEADS * SIZES];
    es_probe_joint joint[SIZES];
    assert_ok(es_probe_replicate(probe, 0, cells, joint, &err));
    for (int h = 0; h < HEADS; h++) {
        assert_above(cells[h * SIZES].map_error, 1e-3);
        assert_below(cells[h * SIZES + 1].map_error, 1e-5);
    }
    assert_above(joint[0].map_error, 1e-3);
    assert_below(joint[1].map_error, 1e-5);
    es_probe_close(probe);
    const int64_t more[SIZES] = {600, tokens + 1};
    spec.sizes = more;
    assert_int_equal(es_probe_measure(&spec, 1, numbers, &err), ES_E_RANGE);
    free(numbers);
}

/* ---- the machine ---- */

static void same_bits_for_any_threads_within_the_stated_memory(void **state)
{
    (void)state;
    double *numbers[2];
    es_probe_cell cells[2][HEADS * SIZES];
    es_probe_joint joint[2][SIZES];
    es_probe_cell control[2][HEADS * SIZES];
    es_probe_local local[2][HEADS];
    for (int i = 0; i < 2; i++) {
        es_mem_limit budget = {0};
        const es_exec exec = {.threads = i ? 3 : 1, .budget = &budget};
        const es_probe_spec spec = spec_of(&exec);
        es_probe_cost cost;
        numbers[i] = new_numbers(&spec);
        assert_ok(es_probe_cost_of(&spec, tokens, &cost, &err));
        es_probe *probe = probe_of(&spec, 1, numbers[i]);
        assert_ok(es_probe_replicate(probe, 1, cells[i], joint[i], &err));
        assert_ok(es_probe_control(probe, 1, control[i], &err));
        assert_ok(es_probe_local_of(probe, local[i], &err));
        es_probe_close(probe);
        assert_int_equal(budget.used, 0);
        assert_at_most(budget.peak, cost.bytes);
        budget.limit = 20000;
        assert_int_equal(es_probe_measure(&spec, 1, numbers[i], &err), ES_E_LIMIT);
        assert_int_equal(es_probe_open(&spec, 1, numbers[i], &probe, &err), ES_E_LIMIT);
        assert_null(probe);
        assert_int_equal(budget.used, 0);
    }
    const es_probe_spec spec = spec_of(NULL);
    assert_memory_equal(numbers[0], numbers[1],
                        (size_t)es_probe_numbers(&spec) * sizeof *numbers[0]);
    assert_memory_equal(cells[0], cells[1], sizeof cells[0]);
    assert_memory_equal(joint[0], joint[1], sizeof joint[0]);
    assert_memory_equal(control[0], control[1], sizeof control[0]);
    assert_memory_equal(local[0], local[1], sizeof local[0]);
    free(numbers[0]);
    free(numbers[1]);
}

static bool stop(void *user, double done, double total)
{
    (void)done;
    (void)total;
    return *(bool *)user;
}

static void interrupted(void **state)
{
    (void)state;
    bool now = false;
    const es_exec exec = {.progress = stop, .progress_user = &now};
    const es_probe_spec spec = spec_of(&exec);
    double *numbers = new_numbers(&spec);
    es_probe_cell cells[HEADS * SIZES];
    es_probe_joint joint[SIZES];
    es_probe *probe = probe_of(&spec, 0, numbers);
    now = true;
    assert_int_equal(es_probe_measure(&spec, 0, numbers, &err), ES_E_INTERRUPTED);
    assert_int_equal(es_probe_replicate(probe, 0, cells, joint, &err), ES_E_INTERRUPTED);
    es_probe_close(probe);
    free(numbers);
}

static void questions_that_make_no_sense(void **state)
{
    (void)state;
    const es_probe_spec good = spec_of(NULL);
    double *numbers = new_numbers(&good), predicted[SIZES];
    es_probe_cell cells[HEADS * SIZES];
    es_probe_joint joint[SIZES];
    es_probe_head about;
    es_probe *probe = probe_of(&good, 0, numbers), *none;
    assert_int_equal(es_probe_measure(&good, 3, numbers, &err), ES_E_RANGE);
    assert_int_equal(es_probe_measure(&good, -1, numbers, &err), ES_E_RANGE);
    assert_int_equal(es_probe_head_of(probe, 3, &about, &err), ES_E_RANGE);
    assert_int_equal(es_probe_predict(probe, -1, predicted, &err), ES_E_RANGE);
    assert_int_equal(es_probe_replicate(probe, -1, cells, joint, &err), ES_E_RANGE);
    assert_int_equal(es_probe_replicate(probe, INT64_C(1) << 32, cells, joint, &err), ES_E_RANGE);
    assert_int_equal(es_probe_control(probe, -1, cells, &err), ES_E_RANGE);
    es_probe_close(probe);
    es_probe_close(NULL);
    static const int64_t bad[][SIZES] = {{1, 9}, {9, 9}, {9, 8}, {-5, 9}, {9, INT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        es_probe_spec spec = good;
        spec.sizes = bad[i];
        assert_int_equal(es_probe_measure(&spec, 0, numbers, &err), ES_E_RANGE);
        assert_string_equal(err.rule, "probe.sizes");
    }
    es_probe_spec spec = good;
    spec.queries = -1;
    assert_int_equal(es_probe_measure(&spec, 0, numbers, &err), ES_E_RANGE);
    spec = good;
    spec.n_sizes = 0;
    assert_int_equal(es_probe_measure(&spec, 0, numbers, &err), ES_E_RANGE);
    numbers[3] = NAN;
    assert_int_equal(es_probe_open(&good, 0, numbers, &none, &err), ES_E_NONFINITE);
    assert_null(none);
    free(numbers);
    /* more queries than tokens: as many as there are */
    spec = good;
    spec.queries = tokens + 5;
    assert_int_equal(es_probe_numbers(&spec),
                     H + H * H + tokens * (H + HEADS) + ES_PROBE_ABOUT * HEADS);
}

TEST_FILE(probe)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limit_and_moments_are_those_of_the_whole_pool),
        cmocka_unit_test(sampling_is_what_a_drawn_token_changes),
        cmocka_unit_test(sampling_predicts_the_error_of_draws),
        cmocka_unit_test(own_error_is_half_the_distance_of_the_halves),
        cmocka_unit_test(errors_of_a_draw_are_what_the_loops_say),
        cmocka_unit_test(without_replacement),
        cmocka_unit_test(same_bits_for_any_threads_within_the_stated_memory),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(questions_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
