/* SPDX-License-Identifier: Apache-2.0 */
/* test_gap_count.c : critical inverse temperatures of rows of scores, against a search over all
 * gaps, and the bounds of the largest weight on random rows of five laws. */
#include "testing.h"

#include <esscher/random.h>

#include "theory/gap_count.h"

enum { MOST = 512 };

/* Fills scores (n) of a law: normal, exponential, uniform, cosines of keys on the sphere in 8
 * dimensions, or normal rounded to halves, which has many ties. */
static void draw(int law, int64_t n, es_address at, double *scores)
{
    double z[MOST][8];
    assert_ok(es_normal_rows(&at, n, 8, &z[0][0], &err));
    for (int64_t j = 0; j < n; j++) {
        double norm = 0.0;
        for (int c = 0; c < 8; c++)
            norm += z[j][c] * z[j][c];
        const double x = z[j][0], u = 0.5 * erfc(x / sqrt(2.0));
        const double of_law[] = {x, -log(u), u, 30.0 * x / sqrt(norm), 0.5 * round(2.0 * x)};
        scores[j] = of_law[law];
    }
}

/* Returns the largest weight of the row at inverse temperature b. */
static double top_weight(const double *scores, int64_t n, double b)
{
    double best = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < n; j++)
        best = fmax(best, scores[j]);
    for (int64_t j = 0; j < n; j++)
        sum += exp(b * (scores[j] - best));
    return 1.0 / sum;
}

/* Returns sup ln N(g)/g over gaps with N(g) >= m, by counting anew for every gap. */
static double brute_critical(const double *scores, int64_t n, int64_t m)
{
    double best = -INFINITY, sup = (double)NAN;
    for (int64_t j = 0; j < n; j++)
        best = fmax(best, scores[j]);
    for (int64_t j = 0; j < n; j++) {
        const double gap = best - scores[j];
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++)
            count += best - scores[i] <= gap;
        if (count >= m)
            sup = fmax(sup, gap > 0.0 ? log((double)count) / gap : INFINITY);
    }
    return sup;
}

static void critical_temperature_is_the_largest_slope(void **state)
{
    (void)state;
    double scores[MOST], copy[MOST];
    for (uint32_t row = 0; row < 200; row++) {
        const int64_t n = 2 + (int64_t)(row * 37 % (MOST - 2)), m = row % 2 ? 2 : ES_GAP_GROUP;
        draw((int)(row % 5), n, (es_address){.seed = 21, .cell = row}, scores);
        memcpy(copy, scores, (size_t)n * sizeof *copy);
        const es_gap_count found = es_gap_count_of(copy, n, m);
        const double expected = brute_critical(scores, n, m);
        if (isnan(expected))
            assert_nan(found.critical);
        else if (isinf(expected))
            assert_equals(found.critical, (double)INFINITY);
        else
            assert_close(found.critical, expected, 1e-15); /* the same divisions */
    }
}

/* (G1) and (G2) are theorems: no row of any law may break them. 20 000 rows of each law, each at
 * six temperatures around the critical one; 1e-12 allows for rounding of sums of 512 terms. */
static void no_row_breaks_the_bounds(void **state)
{
    (void)state;
    static const double ratios[] = {0.1, 0.5, 0.9, 1.1, 2.0, 10.0};
    double scores[MOST];
    for (uint32_t row = 0; row < 100000; row++) {
        const int64_t n = 8 + (int64_t)(row * 7919 % 57);
        draw((int)(row % 5), n, (es_address){.seed = 22, .cell = row}, scores);
        for (int64_t m = 2; m <= ES_GAP_GROUP; m += ES_GAP_GROUP - 2) {
            const es_gap_count found = es_gap_count_of(scores, n, m);
            for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
                const double b = isinf(found.critical) ? ratios[i] : ratios[i] * found.critical;
                const double top = top_weight(scores, n, b);
                assert_at_least(top, es_gap_top_least(&found, b) * (1.0 - 1e-12));
                assert_at_most(top, es_gap_top_most(&found, b) * (1.0 + 1e-12));
            }
        }
    }
}

/* Two keys at gap 1: L_2 = ln 2, and at b = 2 ln 2 the largest weight is 4/5, above one half. */
static void two_keys_by_hand(void **state)
{
    (void)state;
    double scores[] = {-1.0, 0.0};
    const es_gap_count found = es_gap_count_of(scores, 2, 2);
    assert_close(found.critical, log(2.0), 1e-15);
    assert_close(found.gap, 1.0, 1e-15);
    assert_int_equal(found.count, 2);
    assert_close(es_gap_top_least(&found, 2.0 * log(2.0)), 0.5, 1e-15);
    assert_close(es_gap_top_most(&found, 0.5 * log(2.0)), sqrt(0.5), 1e-15);
    assert_close(top_weight(scores, 2, 2.0 * log(2.0)), 0.8, 1e-15);
}

static double exponential_score(double e) { return e; }
static double uniform_score(double e) { return -exp(-e); }

/* Returns the mean over rows of the power of ln n by which L_8 grows from n/16 to n scores of a
 * law: 0 normal, 1 exponential, 2 uniform; its standard error in *se. */
static double mean_power(int law, int64_t n, int rows, double *se)
{
    double scores[MOST], part[MOST], sum = 0.0, squares = 0.0;
    for (int row = 0; row < rows; row++) {
        draw(law, n, (es_address){.seed = 23, .cell = (uint64_t)row}, scores);
        memcpy(part, scores, sizeof part);
        const double small = es_gap_count_of(part, n / 16, ES_GAP_GROUP).critical;
        const double large = es_gap_count_of(scores, n, ES_GAP_GROUP).critical;
        const double power = es_gap_power(small, large, (double)(n / 16), (double)n);
        sum += power;
        squares += power * power;
    }
    *se = sqrt((squares / rows - sum / rows * sum / rows) / rows);
    return sum / rows;
}

/* (G3) ignores that the largest score varies. For uniform scores it is exact: ln L grows by H_n -
 * H_{n/16}. For the others ln L scatters by 0.36, so that its mean may be off by half its variance,
 * 0.065, at either n. */
static void typical_scores_predict_the_growth(void **state)
{
    (void)state;
    const int64_t n = MOST;
    const double unit = log(log((double)n) / log((double)n / 16.0));
    const struct {
        int law;
        es_gap_score score;
        double allowed;
    } laws[] = {{0, es_gap_normal_score, 0.065 / unit},
                {1, exponential_score, 0.065 / unit},
                {2, uniform_score, 0.0}};
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        double se;
        const double measured = mean_power(laws[i].law, n, 4000, &se);
        const double predicted = es_gap_power(es_gap_typical(laws[i].score, n / 16, ES_GAP_GROUP),
                                              es_gap_typical(laws[i].score, n, ES_GAP_GROUP),
                                              (double)n / 16.0, (double)n);
        assert_near(measured, predicted, laws[i].allowed + 4.0 * se);
    }
    double harmonic = 0.0;
    for (int64_t j = n / 16 + 1; j <= n; j++)
        harmonic += 1.0 / (double)j;
    assert_close(es_gap_power(es_gap_typical(uniform_score, n / 16, ES_GAP_GROUP),
                              es_gap_typical(uniform_score, n, ES_GAP_GROUP), (double)n / 16.0,
                              (double)n),
                 harmonic / unit, 1e-12);
}

/* Eight exponential scores: the eighth gap is H_7 = 363/140, the only one that counts. */
static void typical_exponential_scores_by_hand(void **state)
{
    (void)state;
    assert_close(es_gap_typical(exponential_score, 8, 8), log(8.0) * 140.0 / 363.0, 1e-14);
}

/* The score that a normal variable exceeds with probability e^{-e}, in both tails and the middle.
 */
static void normal_scores_are_quantiles(void **state)
{
    (void)state;
    static const double at[] = {-6.0, -1.0, 0.0, 0.5, 3.0, 8.0};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        assert_near(es_gap_normal_score(-log(0.5 * erfc(at[i] / sqrt(2.0)))), at[i], 1e-6);
}

TEST_FILE(gap_count)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(critical_temperature_is_the_largest_slope),
        cmocka_unit_test(no_row_breaks_the_bounds),
        cmocka_unit_test(two_keys_by_hand),
        cmocka_unit_test(typical_scores_predict_the_growth),
        cmocka_unit_test(typical_exponential_scores_by_hand),
        cmocka_unit_test(normal_scores_are_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
