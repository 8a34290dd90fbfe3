/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_exact.c : exact errors of a layer's heads, against loops over all of the pool's tokens
 * and against draws; how many tokens a head needs; how many of them count. */
#include "probe_truth.h"

#include "experiments/sparse/sparse.h"
#include "risk/draw_atoms.h"
#include "stats/average.h"
#include "theory/gap_count.h"

enum { FEW = 6 };

static double *exact_of(const es_probe_spec *spec, int64_t layer, const double *numbers)
{
    double *exact = malloc((size_t)es_probe_exact_numbers(spec) * sizeof *exact);
    assert_non_null(exact);
    assert_ok(es_probe_exact(spec, layer, numbers, exact, &err));
    return exact;
}

/* Mean square errors of query i of head h over tokens rows[0 .. n), one key at a time. */
static void by_keys(const truth *t, int i, int h, const int64_t *rows, int64_t n, double *out)
{
    double *w = malloc((size_t)(n * (K + 1)) * sizeof *w), *v = w + n;
    es_draw_atoms atoms;
    es_draw_risk risks[SIZES];
    weights_of(t, i, h, rows, n, w);
    for (int64_t j = 0; j < n; j++) {
        w[j] = log(w[j]);
        memcpy(v + j * K, t->values + rows[j] * H + h * K, K * sizeof *v);
    }
    assert_ok(es_draw_atoms_exactly(w, v, n, K, t->limit + i * H + h * K, NULL, &atoms, &err));
    assert_ok(es_draw_solve(&atoms, sizes, SIZES, risks, NULL, &err));
    for (int s = 0; s < SIZES; s++)
        out[s] = risks[s].square.val;
    es_draw_atoms_free(&atoms);
    free(w);
}

/* All of the pool, its even strips and its odd ones. */
static void errors_are_those_of_the_weights(void **state)
{
    (void)state;
    es_probe_spec spec = spec_of(NULL);
    spec.exact = FEW;
    double *numbers = new_numbers(&spec);
    int64_t *rows = malloc((size_t)(3 * tokens) * sizeof *rows), count[3] = {0, 0, 0};
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t half = 1 + i / ((tokens + 15) / 16) % 2;
        rows[count[0]++] = i;
        rows[half * tokens + count[half]++] = i;
    }
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        assert_ok(es_probe_measure(&spec, layer, numbers, &err));
        double *exact = exact_of(&spec, layer, numbers), want[SIZES];
        const int64_t all = SIZES + ES_PROBE_POWERS;
        for (int h = 0; h < HEADS; h++)
            for (int set = 0; set < 3; set++) {
                const int i = (h + set) % FEW; /* one query of each: loops are slow */
                by_keys(&t, i, h, rows + set * tokens, count[set], want);
                for (int s = 0; s < SIZES; s++)
                    /* scores are sums in f64 of keys and queries rounded to f32 */
                    assert_close(exact[((h * FEW + i) * 3 + set) * all + s], want[s],
                                 20.0 * tolerance_of[layer]);
            }
        free(exact);
        free(t.x);
    }
    free(rows);
    free(numbers);
}

/* Draws of selecting heads: root mean squares of the same queries, where the form for large n is
 * far off. */
static void draws_have_the_exact_error(void **state)
{
    (void)state;
    enum { DRAWS = 60, LAYER = 2 };
    es_probe_spec spec = spec_of(NULL);
    spec.exact = FEW;
    double *numbers = new_numbers(&spec), few[HEADS * SIZES][DRAWS];
    es_probe *probe = probe_of(&spec, LAYER, numbers);
    double *exact = exact_of(&spec, LAYER, numbers);
    for (int r = 0; r < DRAWS; r++) {
        es_probe_cell cells[HEADS * SIZES];
        es_probe_joint joint[SIZES];
        assert_ok(es_probe_replicate(probe, r, cells, joint, &err));
        for (int c = 0; c < HEADS * SIZES; c++)
            few[c][r] = cells[c].few;
    }
    bool differs = false;
    for (int h = 0; h < HEADS; h++) {
        es_probe_point point[SIZES];
        es_probe_head about;
        assert_ok(es_probe_curve(probe, h, exact, point, &err));
        assert_ok(es_probe_head_of(probe, h, &about, &err));
        for (int s = 0; s < SIZES; s++) {
            const es_measured got = es_measured_rms(few[h * SIZES + s], DRAWS, 1);
            assert_near(got.value, point[s].few, 4.0 * got.se); /* six of them */
            const double large_n = sqrt(about.sampling / (double)sizes[s]);
            differs = differs || fabs(point[s].map_error / large_n - 1.0) > 0.3;
        }
    }
    assert_true(differs); /* or nothing was tested that `sampling` does not know */
    es_probe_close(probe);
    free(exact);
    free(numbers);
}

/* From some queries to all: within the error that is given; exactly, if all are computed. */
static void some_queries_speak_for_all(void **state)
{
    (void)state;
    es_probe_spec some = spec_of(NULL), all = spec_of(NULL);
    some.exact = 12;
    all.exact = QUERIES;
    double *numbers = new_numbers(&some);
    int far = 0;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        es_probe *probe[2];
        double *exact[2];
        probe[0] = probe_of(&some, layer, numbers);
        assert_ok(es_probe_open(&all, layer, numbers, &probe[1], &err));
        exact[0] = exact_of(&some, layer, numbers);
        exact[1] = exact_of(&all, layer, numbers);
        for (int h = 0; h < HEADS; h++) {
            es_probe_point point[2][SIZES];
            for (int i = 0; i < 2; i++)
                assert_ok(es_probe_curve(probe[i], h, exact[i], point[i], &err));
            for (int s = 0; s < SIZES; s++) {
                assert_close(point[1][s].map_error, point[1][s].few, 1e-12);
                assert_near(point[1][s].map_error_se, 0.0, 1e-12);
                far += fabs(point[0][s].map_error - point[1][s].map_error) >
                       3.0 * point[0][s].map_error_se;
            }
        }
        for (int i = 0; i < 2; i++) {
            es_probe_close(probe[i]);
            free(exact[i]);
        }
    }
    assert_at_most(far, 1); /* of 18, a t of 10 degrees: one of 75 is beyond 3 */
    free(numbers);
}

/* The n at which the curve has some value is where it had it. */
static void needs_are_read_off_the_curve(void **state)
{
    (void)state;
    es_probe_spec spec = spec_of(NULL);
    spec.exact = 2 * FEW;
    double *numbers = new_numbers(&spec);
    for (int64_t layer = 0; layer < 2; layer++) {
        es_probe *probe = probe_of(&spec, layer, numbers);
        double *exact = exact_of(&spec, layer, numbers);
        for (int h = 0; h < HEADS; h++) {
            es_probe_point point[SIZES];
            es_probe_need need;
            es_probe_head about;
            assert_ok(es_probe_curve(probe, h, exact, point, &err));
            for (int s = 0; s < SIZES; s++) {
                assert_ok(
                    es_probe_tokens_required(probe, h, exact, point[s].map_error, &need, &err));
                assert_close(need.tokens, (double)sizes[s], 0.01); /* lines between powers of 2 */
                assert_above(need.queries_se, 0.0);
                assert_at_least(need.pool_error, 0.0);
            }
            /* far beyond every power of two the curve is `sampling` over n; all queries have it */
            assert_ok(es_probe_head_of(probe, h, &about, &err));
            assert_ok(es_probe_tokens_required(probe, h, exact, 1e-6 * point[0].few, &need, &err));
            const double large_n = about.sampling / pow(1e-6 * point[0].few, 2.0);
            assert_close(need.tokens, large_n, 1e-3);
        }
        assert_int_equal(es_probe_tokens_required(probe, 0, exact, 0.0, NULL, &err), ES_E_RANGE);
        assert_int_equal(es_probe_curve(probe, HEADS, exact, NULL, &err), ES_E_RANGE);
        es_probe_close(probe);
        free(exact);
    }
    free(numbers);
}

/* ESS and largest weight over the pool, by loops. */
static void focus_is_that_of_the_weights(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec), *w = malloc((size_t)tokens * sizeof *w);
    int64_t *all = malloc((size_t)tokens * sizeof *all);
    for (int64_t i = 0; i < tokens; i++)
        all[i] = i;
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        for (int h = 0; h < HEADS; h++) {
            double ess[QUERIES], top[QUERIES], low = 0.0, high = 0.0;
            es_probe_head about;
            for (int i = 0; i < QUERIES; i++) {
                double squares = 0.0;
                top[i] = 0.0;
                weights_of(&t, i, h, all, tokens, w);
                for (int64_t j = 0; j < tokens; j++) {
                    squares += w[j] * w[j];
                    top[i] = fmax(top[i], w[j]);
                }
                ess[i] = 1.0 / squares;
                low += ess[i] < 2.0;
                high += top[i] > 0.5;
            }
            es_sort_reals(ess, QUERIES);
            es_sort_reals(top, QUERIES);
            assert_ok(es_probe_head_of(probe, h, &about, &err));
            /* the median of 1/ESS lies between the same two queries */
            assert_at_least(about.focus.ess, ess[QUERIES / 2 - 1] * (1.0 - 1e-3));
            assert_at_most(about.focus.ess, ess[QUERIES / 2] * (1.0 + 1e-3));
            assert_close(about.focus.top, es_median_of(top, QUERIES), 1e-3);
            assert_near(about.focus.ess_low, low / QUERIES, 1e-12);
            assert_near(about.focus.top_high, high / QUERIES, 1e-12);
        }
        es_probe_close(probe);
        free(t.x);
    }
    free(all);
    free(w);
    free(numbers);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    double *exact[2];
    for (int i = 0; i < 2; i++) {
        const es_exec exec = {.threads = 1 + 2 * i};
        es_probe_spec spec = spec_of(&exec);
        spec.exact = 3;
        double *numbers = new_numbers(&spec);
        assert_ok(es_probe_measure(&spec, 1, numbers, &err));
        exact[i] = exact_of(&spec, 1, numbers);
        free(numbers);
        if (i)
            assert_memory_equal(exact[0], exact[1],
                                (size_t)es_probe_exact_numbers(&spec) * sizeof *exact[0]);
    }
    free(exact[0]);
    free(exact[1]);
}

/* Critical scales and bounds of largest weights: medians over queries q (16, K) of what a count of
 * all gaps to keys k (n, K) says. Scores are of f32 numbers. */
static void check_gaps(const double *q, const double *k, int64_t n, const es_probe_policies *got)
{
    enum { ASKED = ES_PROBE_POLICY_QUERIES, MOST = 600 };
    double scores[MOST], critical[ASKED], least[ASKED], most[ASKED];
    for (int64_t i = 0; i < ASKED; i++) {
        for (int64_t j = 0; j < n; j++) {
            scores[j] = 0.0;
            for (int64_t c = 0; c < K; c++)
                scores[j] += q[i * K + c] * k[j * K + c] / sqrt((double)K);
        }
        const es_gap_count row = es_gap_count_of(scores, n, ES_GAP_GROUP);
        critical[i] = row.critical;
        least[i] = es_gap_top_least(&row, 1.0);
        most[i] = es_gap_top_most(&row, 1.0);
    }
    es_sort_reals(critical, ASKED);
    es_sort_reals(least, ASKED);
    es_sort_reals(most, ASKED);
    assert_close(got->critical, es_median_of(critical, ASKED), 1e-3);
    assert_near(got->top_least, es_median_of(least, ASKED), 1e-3);
    assert_near(got->top_most, es_median_of(most, ASKED), 1e-3);
}

/* The errors of policies are those that `sparse` finds for the same queries, keys and values, here
 * from f64 loops. Integrals are within 1e-3 of a square; keys and values in f32 move errors by some
 * 1e-6 of the spread. */
static void policies_are_those_of_sparse(void **state)
{
    (void)state;
    enum { N = 600, ASKED = ES_PROBE_POLICY_QUERIES, PLANS = ES_PROBE_POLICIES };
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec);
    es_policy_spec plans[PLANS];
    int64_t which[ASKED], nowhere[QUERIES], rows[N];
    for (int64_t i = 0; i < PLANS; i++) {
        es_policy_spec_init(&plans[i], es_policy_find(es_probe_policy_name(i)));
        plans[i].keys = N / 8;
    }
    for (int64_t i = 0; i < QUERIES; i++)
        nowhere[i] = -1;
    for (int64_t i = 0; i < ASKED; i++)
        which[i] = i;
    const es_sparse_spec sparse = {.plans = plans, .n_plans = PLANS, .draws = 2, .seed = 1};
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        es_probe_policies got[HEADS];
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        assert_ok(es_probe_policies_of(probe, got, &err));
        assert_ok(es_probe_key_rows(&spec, tokens, layer, N, rows, &err));
        for (int h = 0; h < HEADS; h++) {
            static double k[N * K], v[N * K], q[QUERIES * K];
            static es_sparse_cell cells[ASKED * PLANS];
            double mean[PLANS] = {0}, spread = 0.0;
            int64_t best = 0;
            for (int i = 0; i < N * K; i++) {
                k[i] = t.keys[rows[i / K] * H + h * K + i % K];
                v[i] = t.values[rows[i / K] * H + h * K + i % K];
            }
            for (int i = 0; i < QUERIES * K; i++)
                q[i] = t.q[i / K * H + h * K + i % K];
            const es_sparse_head head = {.queries = es_view_f64(q, QUERIES, K),
                                         .keys = es_view_f64(k, N, K),
                                         .values = es_view_f64(v, N, K),
                                         .positions = nowhere,
                                         .scale = 1.0 / sqrt((double)K)};
            assert_ok(es_sparse_measure(&sparse, &head, which, ASKED, 0, cells, &err));
            for (int i = 0; i < ASKED * PLANS; i++) {
                mean[i % PLANS] += cells[i].exact;
                spread += cells[i].spread2 / PLANS;
            }
            assert_equals(got[h].n, N);
            assert_equals(got[h].keys, N / 8);
            assert_equals(got[h].queries, ASKED);
            for (int64_t i = 0; i < PLANS; i++) {
                const double want = sqrt(mean[i] / spread);
                assert_near(got[h].error[i], want, 1e-3 * want + 1e-5);
                best = mean[i] < mean[best] ? i : best;
            }
            check_gaps(q, k, N, &got[h]);
            assert_int_equal(got[h].best, best);
            assert_equals(got[h].behind[best], 0.0);
            assert_equals(got[h].behind_se[best], 0.0);
        }
        es_probe_close(probe);
        free(t.x);
    }
    free(numbers);
}

/* A sixteenth of 96 keys is less than a group of 8: their critical scale is known, its growth with
 * the number of keys is not. */
static void few_keys_have_no_power(void **state)
{
    (void)state;
    static const int64_t few[] = {96};
    es_probe_spec spec = spec_of(NULL);
    spec.sizes = few;
    spec.n_sizes = 1;
    double *numbers = new_numbers(&spec);
    es_probe_policies got[HEADS];
    es_probe *probe = probe_of(&spec, 0, numbers);
    assert_ok(es_probe_policies_of(probe, got, &err));
    for (int h = 0; h < HEADS; h++) {
        assert_equals(got[h].n, 96);
        assert_true(got[h].critical > 0.0);
        assert_true(isnan(got[h].critical_power.value));
        assert_true(isnan(got[h].critical_power.se));
    }
    es_probe_close(probe);
    free(numbers);
}

TEST_FILE(probe_exact)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_those_of_the_weights),
        cmocka_unit_test(draws_have_the_exact_error),
        cmocka_unit_test(some_queries_speak_for_all),
        cmocka_unit_test(needs_are_read_off_the_curve),
        cmocka_unit_test(focus_is_that_of_the_weights),
        cmocka_unit_test(policies_are_those_of_sparse),
        cmocka_unit_test(few_keys_have_no_power),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
