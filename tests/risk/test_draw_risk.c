/* SPDX-License-Identifier: Apache-2.0 */
/* test_draw_risk.c : the exact error of attention over drawn keys, against other programs' values,
 * closed forms, all draws one by one, and draws. */
#include "testing.h"

#include <esscher/npy.h>
#include <esscher/random.h>

#include "golden.h"
#include "random/random.h"
#include "risk/draw_atoms.h"
#include "risk/draw_risk.h"

/* ---- helpers ---- */

static es_draw_risk risk_of(const double *s, es_draw_input input, const double *v, int64_t N,
                            int64_t width, int64_t n)
{
    const es_view scores = es_view_f64(s, 1, N), values = es_view_f64(v, N, width);
    es_draw_risk out;
    assert_ok(es_draw_risks(&scores, input, &values, &n, 1, NULL, &out, NULL, &err));
    return out;
}

static double *normals(uint64_t cell, int64_t rows, int64_t cols)
{
    double *x = malloc((size_t)(rows * cols) * sizeof *x);
    const es_address at = {.seed = 12, .experiment = 77, .cell = cell};
    assert_non_null(x);
    assert_ok(es_normal_rows(&at, rows, cols, x, &err));
    return x;
}

/* y, and the mean of |u|^2 over keys that have weight. */
static void output_of(const double *w, const double *v, int64_t N, int64_t width, double *y)
{
    double total = 0.0;
    memset(y, 0, (size_t)width * sizeof *y);
    for (int64_t j = 0; j < N; j++)
        total += w[j];
    for (int64_t j = 0; j < N; j++)
        for (int64_t l = 0; l < width; l++)
            y[l] += w[j] / total * v[j * width + l];
}

/* ---- against another program ---- */

static void golden_values_are_met(void **state)
{
    (void)state;
    es_array q, k, v;
    json_t *all = golden_file("sparse/expected.json"), *exact = json_object_get(all, "exact");
    assert_ok(es_npy_load(golden_path("sparse/q.npy"), NULL, &q, &err));
    assert_ok(es_npy_load(golden_path("sparse/k.npy"), NULL, &k, &err));
    assert_ok(es_npy_load(golden_path("sparse/v.npy"), NULL, &v, &err));
    es_view Q, K, V;
    assert_ok(es_array_view(&q, 0, &Q, &err));
    assert_ok(es_array_view(&k, 0, &K, &err));
    assert_ok(es_array_view(&v, 0, &V, &err));
    int64_t met = 0;
    double *s = malloc((size_t)K.rows * sizeof *s);
    for (size_t i = 0; i < json_array_size(exact); i++) {
        const json_t *row = json_array_get(exact, i);
        if (!json_is_null(json_object_get(row, "position"))) /* others keep keys surely */
            continue;
        const int64_t query = (int64_t)golden_real(row, "query");
        const int64_t n = (int64_t)golden_real(row, "random");
        for (int64_t j = 0; j < K.rows; j++) {
            s[j] = 0.0;
            for (int64_t l = 0; l < K.cols; l++)
                s[j] +=
                    golden_real(row, "scale") * es_view_get(&Q, query, l) * es_view_get(&K, j, l);
        }
        const es_view scores = es_view_f64(s, 1, K.rows);
        es_draw_risk out;
        assert_ok(es_draw_risks(&scores, ES_DRAW_SCORES, &V, &n, 1, NULL, &out, NULL, &err));
        assert_close(out.square.val, golden_real(row, "with_replacement"), 1e-9);
        met++;
    }
    assert_int_equal(met, 24);
    free(s);
    es_array_free(&q);
    es_array_free(&k);
    es_array_free(&v);
    json_decref(all);
}

/* ---- all draws ---- */

/* Mean square and squared mean of y_S - y over the N^n draws that have weight; the share of those
 * that have none. */
typedef struct truth {
    double square, bias, empty;
} truth;

static truth all_draws(const double *w, const double *v, int64_t N, int64_t width, int64_t n)
{
    double y[8], bias[8] = {0.0}, draws = 1.0, with = 0.0;
    int64_t at[16] = {0};
    truth out = {0};
    output_of(w, v, N, width, y);
    for (int64_t i = 0; i < n; i++)
        draws *= (double)N;
    for (double d = 0.0; d < draws; d += 1.0) {
        double z = 0.0, sum[8] = {0.0};
        for (int64_t i = 0; i < n; i++) {
            z += w[at[i]];
            for (int64_t l = 0; l < width; l++)
                sum[l] += w[at[i]] * (v[at[i] * width + l] - y[l]);
        }
        for (int64_t l = 0; l < width && z > 0.0; l++) {
            out.square += sum[l] / z * (sum[l] / z);
            bias[l] += sum[l] / z;
        }
        with += z > 0.0;
        for (int64_t i = 0; i < n && ++at[i] == N; i++)
            at[i] = 0;
    }
    for (int64_t l = 0; l < width; l++)
        out.bias += bias[l] / with * (bias[l] / with);
    out.bias = sqrt(out.bias);
    out.square /= with;
    out.empty = 1.0 - with / draws;
    return out;
}

static void assert_truth(const double *w, const double *v, int64_t N, int64_t width, int64_t n)
{
    const truth t = all_draws(w, v, N, width, n);
    const es_draw_risk r = risk_of(w, ES_DRAW_WEIGHTS, v, N, width, n);
    assert_close(r.square.val, t.square, 1e-10);
    assert_near(r.square.val, t.square, r.square.err);
    assert_near(r.bias, t.bias, 1e-10 * sqrt(t.square));
    assert_near(r.empty, t.empty, 1e-14);
}

static void every_draw_of_few_keys_is_counted(void **state)
{
    (void)state;
    /* nearly equal, wide, one that has it all, zeros */
    static const double weights[][6] = {{1.0, 1.1, 0.9, 1.05, 1.0, 0.95},
                                        {1.0, 1e-3, 1e-6, 0.5, 1e-12, 30.0},
                                        {1e5, 1.0, 2.0, 1.0, 0.5, 1.0},
                                        {0.0, 1.0, 0.0, 2.0, 0.0, 0.0},
                                        {1e-200, 1e-300, 1e200, 1.0, 1e-100, 1e100}};
    double *v = normals(1, 6, 3);
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        for (int64_t n = 1; n <= 7; n++)
            assert_truth(weights[i], v, 6, 3, n);
    for (int64_t n = 1; n <= 14; n++)
        assert_truth((const double[]){0.7, 0.3}, v, 2, 3, n);
    free(v);
}

/* ---- closed forms ---- */

/* Equal weights: the mean of n draws, of variance var/n. */
static void equal_weights_are_a_mean(void **state)
{
    (void)state;
    enum { N = 50, WIDTH = 4 };
    double *v = normals(2, N, WIDTH), w[N], y[WIDTH], var = 0.0;
    for (int j = 0; j < N; j++)
        w[j] = 3.7;
    output_of(w, v, N, WIDTH, y);
    for (int j = 0; j < N * WIDTH; j++)
        var += (v[j] - y[j % WIDTH]) * (v[j] - y[j % WIDTH]) / N;
    static const int64_t sizes[] = {1, 2, 10, 1000, 1000000, 1000000000, 1000000000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const es_draw_risk r = risk_of(w, ES_DRAW_WEIGHTS, v, N, WIDTH, sizes[i]);
        assert_close(r.square.val, var / (double)sizes[i], 1e-10);
        assert_near(r.square.val, var / (double)sizes[i], r.square.err);
        assert_near(r.bias, 0.0, 1e-12); /* sums of signs, rounded */
    }
    free(v);
}

/* One draw is a key's value, whatever its weight: the plain mean of |u|^2, for scores that no
 * weight could hold. One key, or values that are all the same, leave no error. */
static void one_draw_and_one_key(void **state)
{
    (void)state;
    enum { N = 40, WIDTH = 3 };
    double *v = normals(3, N, WIDTH), s[N], mean = 0.0;
    for (int j = 0; j < N; j++)
        s[j] = 5000.0 - 250.0 * j; /* the output is the first value */
    for (int j = 0; j < N * WIDTH; j++)
        mean += pow(v[j] - v[j % WIDTH], 2.0) / N;
    assert_close(risk_of(s, ES_DRAW_SCORES, v, N, WIDTH, 1).square.val, mean, 1e-10);
    assert_equals(risk_of(s, ES_DRAW_SCORES, v, 1, WIDTH, 9).square.val, 0.0);
    for (int j = 0; j < N * WIDTH; j++)
        v[j] = 7.25;
    assert_equals(risk_of(s, ES_DRAW_SCORES, v, N, WIDTH, 9).square.val, 0.0);
    free(v);
}

/* Two keys whose values are 1 apart, one of them with all of the weight but e^-gap: y is r =
 * e^-gap/(1
 * + e^-gap) from its value, and y_S, with K draws of the other, K e^-gap/(n - K + K e^-gap). Errors
 * of order e^-gap are right although e^-gap is lost in y. */
static void a_hair_of_weight_counts(void **state)
{
    (void)state;
    static const double gaps[] = {1.0, 30.0, 60.0, 200.0};
    const double v[] = {1e3, 1e3 + 1.0};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (int64_t n = 1; n <= 200; n = 3 * n + 1) {
            const double s[] = {0.0, -gaps[g]}, e = exp(-gaps[g]), r = e / (1.0 + e);
            double square = 0.0, m = (double)n;
            for (double k = 0.0; k <= m; k += 1.0) {
                const double p =
                    exp(lgamma(m + 1.0) - lgamma(k + 1.0) - lgamma(m - k + 1.0) - m * log(2.0));
                const double share = k < m ? k * e / (m - k + k * e) : 1.0;
                square += p * (share - r) * (share - r);
            }
            assert_close(risk_of(s, ES_DRAW_SCORES, v, 2, 1, n).square.val, square, 1e-9);
        }
}

/* Scores so far apart that the best key of a draw is its output. Keys in order of their scores:
 * P(best of n is j) = ((N-j)/N)^n - ((N-j-1)/N)^n. */
static void far_scores_are_a_maximum(void **state)
{
    (void)state;
    enum { N = 30, WIDTH = 2 };
    double *v = normals(4, N, WIDTH), s[N];
    for (int j = 0; j < N; j++)
        s[j] = 7000.0 - 600.0 * j; /* squares of such weights are zero in any unit */
    static const int64_t sizes[] = {2, 5, 40, 300};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const double n = (double)sizes[i];
        double square = 0.0;
        for (int j = 0; j < N; j++) {
            const double p = pow((double)(N - j) / N, n) - pow((double)(N - j - 1) / N, n);
            square += p * (pow(v[j * WIDTH] - v[0], 2.0) + pow(v[j * WIDTH + 1] - v[1], 2.0));
        }
        assert_close(risk_of(s, ES_DRAW_SCORES, v, N, WIDTH, sizes[i]).square.val, square, 1e-9);
    }
    free(v);
}

/* Two values, 0 and 1, weights 1 and r: y_S = rK/(n - K + rK) with K binomial. */
static void two_values_are_binomial(void **state)
{
    (void)state;
    enum { N = 5000 }; /* enough for the grid */
    static double s[N], v[N];
    const double r = exp(3.3), share = 0.03, y = r * share / (1.0 - share + r * share);
    for (int j = 0; j < N; j++) {
        s[j] = j < share * N ? 3.3 - 1000.0 : -1000.0;
        v[j] = j < share * N ? 1e20 : 0.0; /* any unit */
    }
    static const int64_t sizes[] = {1, 3, 30, 300, 3000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const double n = (double)sizes[i];
        double square = 0.0, mean = 0.0;
        for (double k = 0.0; k <= n; k += 1.0) {
            const double p = exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) +
                                 k * log(share) + (n - k) * log1p(-share));
            const double off = r * k / (n - k + r * k) - y;
            square += p * off * off;
            mean += p * off;
        }
        const es_draw_risk out = risk_of(s, ES_DRAW_SCORES, v, N, 1, sizes[i]);
        assert_close(out.square.val, 1e40 * square, 1e-8); /* lgamma of 1e5 leaves 1e-10 */
        assert_near(out.square.val, 1e40 * square, out.square.err + 1e30 * square);
        assert_near(out.bias, 1e20 * fabs(mean), 1e12 * sqrt(square));
    }
}

/* ---- the grid ---- */

/* Keys on the grid against the same keys one by one, for wild weights and values that know about
 * the weights, for all n at once. */
static void grids_give_what_keys_give(void **state)
{
    (void)state;
    enum { N = 3000, WIDTH = 5, SIZES = 7 };
    static const int64_t sizes[SIZES] = {1, 2, 8, 64, 4096, 1000000, 1000000000};
    static const double widths[] = {0.0, 0.01, 1.0, 3.0, 8.0, 40.0};
    double *s = normals(5, N, 1), *v = normals(6, N, WIDTH), center[WIDTH];
    double worst = 0.0;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        double scores[N], weights[N];
        for (int j = 0; j < N; j++) {
            scores[j] = widths[w] * s[j] + 0.123;
            weights[j] = exp(scores[j]);
            v[j * WIDTH] = 4.0 + s[j] * s[j];
        }
        output_of(weights, v, N, WIDTH, center);
        center[1] += 0.01; /* near the output is enough */
        es_draw_risk on_grid[SIZES], exactly[SIZES];
        es_draw_query about[2];
        es_draw_atoms atoms;
        es_draw_grid grids[2];
        for (int half = 0; half < 2; half++) {
            const int from = half * N / 3, n = half ? N - N / 3 : N / 3;
            assert_ok(es_draw_grid_init(&grids[half], NULL, WIDTH, center, &err));
            assert_ok(es_draw_grid_add(&grids[half], scores + from, v + from * WIDTH, n, &err));
        }
        assert_ok(
            es_draw_atoms_of((const es_draw_grid *[]){&grids[0], &grids[1]}, 2, &atoms, &err));
        assert_ok(es_draw_solve(&atoms, sizes, SIZES, on_grid, &about[0], &err));
        es_draw_atoms_free(&atoms);
        es_draw_grid_free(&grids[0]);
        es_draw_grid_free(&grids[1]);
        assert_ok(es_draw_atoms_exactly(scores, v, N, WIDTH, center, NULL, &atoms, &err));
        assert_ok(es_draw_solve(&atoms, sizes, SIZES, exactly, &about[1], &err));
        es_draw_atoms_free(&atoms);
        for (int i = 0; i < SIZES; i++) {
            assert_near(on_grid[i].square.val, exactly[i].square.val, on_grid[i].square.err);
            assert_near(on_grid[i].bias, exactly[i].bias, 1e-7 * sqrt(exactly[i].square.val));
            worst = fmax(worst, fabs(on_grid[i].square.val / exactly[i].square.val - 1.0));
        }
        assert_close(about[0].ess, about[1].ess, 1e-7);
        assert_close(about[0].top, about[1].top, 1e-7);
        assert_close(about[0].sampling, about[1].sampling, 1e-7);
        assert_close(about[0].spread2, about[1].spread2, 1e-7);
        assert_close(about[0].output2, about[1].output2, 1e-7);
    }
    print_message("grid against keys: off by %.2g at most\n", worst);
    free(s);
    free(v);
}

/* ---- draws ---- */

/* Scores that fill every point of one block of the grid and touch no other: as many rows as there
 * is space for. The error of equal weights is nearly that of a mean, and the grid's that of the
 * keys. */
static void a_full_block_is_no_more_than_full(void **state)
{
    (void)state;
    enum { N = 6000 };
    static const int64_t sizes[1] = {16};
    double scores[N], *v = normals(9, N, 1), center[1] = {0.0};
    for (int j = 0; j < N; j++)
        scores[j] = (1.1 + 60.8 * j / (N - 1.0)) / 64.0;
    es_draw_grid grid;
    es_draw_atoms atoms;
    es_draw_risk on_grid, exactly;
    assert_ok(es_draw_grid_init(&grid, NULL, 1, center, &err));
    assert_ok(es_draw_grid_add(&grid, scores, v, N, &err));
    assert_ok(es_draw_atoms_of((const es_draw_grid *[]){&grid}, 1, &atoms, &err));
    assert_int_equal(atoms.count, 64);
    assert_ok(es_draw_solve(&atoms, sizes, 1, &on_grid, NULL, &err));
    es_draw_atoms_free(&atoms);
    es_draw_grid_free(&grid);
    assert_ok(es_draw_atoms_exactly(scores, v, N, 1, center, NULL, &atoms, &err));
    assert_ok(es_draw_solve(&atoms, sizes, 1, &exactly, NULL, &err));
    es_draw_atoms_free(&atoms);
    assert_close(on_grid.square.val, exactly.square.val, 2e-7);
    free(v);
}

static void draws_have_this_error(void **state)
{
    (void)state;
    enum { N = 500, WIDTH = 3, n = 20, DRAWS = 20000 };
    double *s = normals(7, N, 1), *v = normals(8, N, WIDTH), w[N], y[WIDTH];
    static int64_t rows[DRAWS * n];
    const es_address at = {.seed = 3, .experiment = 77, .cell = 9};
    assert_ok(es_integer_rows(&at, DRAWS, n, N, rows, &err));
    for (int j = 0; j < N; j++)
        w[j] = exp(1.5 * s[j]);
    output_of(w, v, N, WIDTH, y);
    double mean = 0.0, square = 0.0;
    for (int d = 0; d < DRAWS; d++) {
        double z = 0.0, sum[WIDTH] = {0.0}, off = 0.0;
        for (int i = 0; i < n; i++) {
            const int64_t j = rows[d * n + i];
            z += w[j];
            for (int l = 0; l < WIDTH; l++)
                sum[l] += w[j] * (v[j * WIDTH + l] - y[l]);
        }
        for (int l = 0; l < WIDTH; l++)
            off += sum[l] / z * (sum[l] / z);
        mean += off / DRAWS;
        square += off * off / DRAWS;
    }
    const double se = sqrt((square - mean * mean) / DRAWS);
    assert_near(risk_of(w, ES_DRAW_WEIGHTS, v, N, WIDTH, n).square.val, mean, 4.0 * se);
    free(s);
    free(v);
}

/* ---- refusals, threads ---- */

static void nonsense_is_refused(void **state)
{
    (void)state;
    const double v[] = {1.0, 2.0}, bad[][2] = {{NAN, 1.0}, {INFINITY, 1.0}, {2e6, 1.0}};
    const es_view values = es_view_f64(v, 2, 1), three = es_view_f64(v, 1, 1);
    es_view scores = es_view_f64(v, 1, 2);
    int64_t n = 3;
    es_draw_risk out;
    for (int i = 0; i < 3; i++) {
        scores.data = (void *)bad[i];
        assert_int_equal(
            es_draw_risks(&scores, ES_DRAW_SCORES, &values, &n, 1, NULL, &out, NULL, &err),
            i < 2 ? ES_E_NONFINITE : ES_E_RANGE);
        assert_string_equal(err.rule, "draw.score");
    }
    const double none[] = {0.0, 0.0}, negative[] = {1.0, -1e-300}, huge[] = {1e200, 1.0};
    scores.data = (void *)none;
    assert_int_equal(
        es_draw_risks(&scores, ES_DRAW_WEIGHTS, &values, &n, 1, NULL, &out, NULL, &err),
        ES_E_RANGE);
    scores.data = (void *)negative;
    assert_int_equal(
        es_draw_risks(&scores, ES_DRAW_WEIGHTS, &values, &n, 1, NULL, &out, NULL, &err),
        ES_E_RANGE);
    scores.data = (void *)v;
    assert_int_equal(es_draw_risks(&scores, ES_DRAW_SCORES, &three, &n, 1, NULL, &out, NULL, &err),
                     ES_E_SHAPE);
    const es_view large = es_view_f64(huge, 2, 1);
    assert_int_equal(es_draw_risks(&scores, ES_DRAW_SCORES, &large, &n, 1, NULL, &out, NULL, &err),
                     ES_E_RANGE);
    n = 0;
    assert_int_equal(es_draw_risks(&scores, ES_DRAW_SCORES, &values, &n, 1, NULL, &out, NULL, &err),
                     ES_E_RANGE);
    assert_string_equal(err.rule, "draw.sizes");
}

static void threads_change_nothing(void **state)
{
    (void)state;
    enum { N = 4500, WIDTH = 2, QUERIES = 5 };
    double *s = normals(10, QUERIES, N), *v = normals(11, N, WIDTH);
    const es_view scores = es_view_f64(s, QUERIES, N), values = es_view_f64(v, N, WIDTH);
    const int64_t sizes[] = {16, 1024};
    es_draw_risk out[2][QUERIES][2];
    for (int i = 0; i < 2; i++)
        assert_ok(es_draw_risks(&scores, ES_DRAW_SCORES, &values, sizes, 2,
                                &(es_exec){.threads = 1 + 2 * i}, &out[i][0][0], NULL, &err));
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    free(s);
    free(v);
}

TEST_FILE(draw_risk)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_values_are_met),
        cmocka_unit_test(every_draw_of_few_keys_is_counted),
        cmocka_unit_test(equal_weights_are_a_mean),
        cmocka_unit_test(one_draw_and_one_key),
        cmocka_unit_test(a_hair_of_weight_counts),
        cmocka_unit_test(far_scores_are_a_maximum),
        cmocka_unit_test(two_values_are_binomial),
        cmocka_unit_test(grids_give_what_keys_give),
        cmocka_unit_test(a_full_block_is_no_more_than_full),
        cmocka_unit_test(draws_have_this_error),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
