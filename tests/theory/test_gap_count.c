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
        const int64_t n = 2 + (int64_t)(row * 37 % 120), m = row % 2 ? 2 : ES_GAP_GROUP;
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

TEST_FILE(gap_count)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(critical_temperature_is_the_largest_slope),
        cmocka_unit_test(no_row_breaks_the_bounds),
        cmocka_unit_test(two_keys_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
