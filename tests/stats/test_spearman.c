/* SPDX-License-Identifier: Apache-2.0 */
/* test_spearman.c : correlations of ranks, shares and paired shares against values worked out by
 * hand. */
#include "testing.h"

#include "stats/proportion.h"
#include "stats/spearman.h"

static es_spearman of(const double *x, const double *y, const int64_t *groups, int64_t n)
{
    es_spearman s;
    assert_ok(es_spearman_of(x, y, groups, n, NULL, &s, &err));
    return s;
}

/* Without ties r = 1 - 6 sum d^2/(n (n^2 - 1)). */
static void spearman_is_the_formula_by_hand(void **state)
{
    (void)state;
    /* ranks of y: 2 1 4 3 5, d^2: 1 1 1 1 0, r = 1 - 24/120 */
    const double x[] = {1, 2, 3, 4, 5}, y[] = {0.2, -7, 1e9, 3, 2e9};
    assert_near(of(x, y, NULL, 5).value, 0.8, 1e-14);
    /* falling: -1, and p of 0 */
    const double down[] = {9, 8, 7, 6, 5};
    assert_near(of(x, down, NULL, 5).value, -1.0, 1e-14);
    /* ties share their mean: x ranks 1.5 1.5 3 4, y ranks 1 2 3.5 3.5; centred products
     * 1.5 + 0.5 + 0.5 + 1.5 = 4 over sqrt(4.5 * 4.5) */
    const double tx[] = {2, 2, 5, 9}, ty[] = {0, 1, 4, 4};
    assert_near(of(tx, ty, NULL, 4).value, 4.0 / 4.5, 1e-14);
    /* no variation, or too few: no number */
    const double same[] = {3, 3, 3, 3, 3};
    assert_nan(of(x, same, NULL, 5).value);
    assert_nan(of(x, same, NULL, 5).p);
    assert_nan(of(x, y, NULL, 3).value);
    es_spearman s;
    const double bad[] = {1, NAN, 3, 4, 5};
    assert_int_equal(es_spearman_of(x, bad, NULL, 5, NULL, &s, &err), ES_E_NONFINITE);
    assert_int_equal(err.row, 1);
}

/* r = 0.8 of 5: t = 0.8 sqrt(3/0.36) = 2.3094 with 3 degrees, p = 0.10409 (tables: t of 2.353 is
 * p = 0.1). Exactly, by the formula of t with 3 degrees,
 * p = 1 - 2/pi (u/(1 + u^2) + atan u), u = t/sqrt 3 = 4/3. The interval is tanh(atanh 0.8 -+ 1.96
 * sqrt(1.32/2)). */
static void spearman_has_its_p_and_interval(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4, 5}, y[] = {2, 1, 4, 3, 5}, u = 4.0 / 3.0;
    const es_spearman s = of(x, y, NULL, 5);
    assert_close(s.p, 1.0 - 2.0 / 3.141592653589793 * (u / (1.0 + u * u) + atan(u)), 1e-12);
    const double half = 1.959963984540054 * sqrt(1.32 / 2.0);
    assert_near(s.low, tanh(atanh(0.8) - half), 1e-12);
    assert_near(s.high, tanh(atanh(0.8) + half), 1e-12);
}

/* Two groups that rise inside and lie the other way round: over all pairs they fall. */
static void groups_take_their_means_off(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 11, 12, 13}, y[] = {11, 12, 13, 1, 2, 3};
    const int64_t groups[] = {0, 0, 0, 1, 1, 1};
    /* d = 3 for every pair: 1 - 6 * 54/210 */
    assert_near(of(x, y, NULL, 6).value, 1.0 - 324.0 / 210.0, 1e-14);
    assert_near(of(x, y, groups, 6).value, 1.0, 1e-12);
}

/* Wilson's interval at 10 of 100: (0.0552, 0.1744), as tables have it. */
static void shares_have_wilsons_interval(void **state)
{
    (void)state;
    const es_proportion p = es_proportion_of(10, 100), none = es_proportion_of(0, 20);
    assert_near(p.value, 0.1, 1e-15);
    assert_near(p.se, 0.03, 1e-15);
    assert_near(p.low, 0.0552, 5e-5);
    assert_near(p.high, 0.1744, 5e-5);
    assert_equals(none.low, 0.0);
    assert_equals(none.se, 0.0);
    assert_near(none.high, 3.8414588 / (20.0 + 3.8414588), 1e-7); /* z^2/(n + z^2) */
    assert_nan(es_proportion_of(0, 0).value);
}

/* 9 lost, 2 gained of 50: p = 2 (1 + 11 + 55)/2^11; Bonett and Price: a = 10/52, b = 3/52. */
static void changes_are_exact_and_never_certain(void **state)
{
    (void)state;
    const es_change c = es_change_of(9, 2, 50), still = es_change_of(0, 0, 50);
    assert_near(c.value, 0.14, 1e-15);
    assert_near(c.se, sqrt((0.22 - 0.0196) / 50.0), 1e-14);
    assert_close(c.p, 2.0 * 67.0 / 2048.0, 1e-11);
    const double half = 1.959963984540054 * sqrt((13.0 / 52.0 - 49.0 / 2704.0) / 52.0);
    assert_near(c.low, 7.0 / 52.0 - half, 1e-12);
    assert_near(c.high, 7.0 / 52.0 + half, 1e-12);
    assert_equals(still.p, 1.0);
    assert_below(still.low, -0.01);
    assert_above(still.high, 0.01);
    assert_near(es_change_of(3, 3, 10).p, 1.0, 1e-12);
    assert_near(es_change_of(1, 0, 10).p, 1.0, 1e-12);
}

TEST_FILE(spearman)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spearman_is_the_formula_by_hand),
        cmocka_unit_test(spearman_has_its_p_and_interval),
        cmocka_unit_test(groups_take_their_means_off),
        cmocka_unit_test(shares_have_wilsons_interval),
        cmocka_unit_test(changes_are_exact_and_never_certain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
