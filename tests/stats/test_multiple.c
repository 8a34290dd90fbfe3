/* SPDX-License-Identifier: Apache-2.0 */
/* test_multiple.c : tests of differences, and many at once. */
#include "testing.h"

#include <stdbool.h>

#include <esscher/random.h>

#include "stats/multiple.h"

/* Holm's procedure as he states it: reject p_(1), p_(2), ... as long as p_(i) <= level/(m - i + 1).
 * The corrected p is the least level at which a test is rejected. */
static bool rejected_at(const double *p, int count, int which, double level)
{
    bool gone[16] = {false};
    for (int step = 0; step < count; step++) {
        int least = -1;
        for (int i = 0; i < count; i++)
            if (!gone[i] && (least < 0 || p[i] < p[least]))
                least = i;
        if (p[least] > level / (double)(count - step))
            return false;
        gone[least] = true;
        if (least == which)
            return true;
    }
    return false;
}

static void holm_is_the_least_level_that_rejects(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    double p[COUNT], out[COUNT];
    const es_address at = {.seed = 3, .experiment = 1};
    assert_int_equal(es_uniform_rows(&at, 1, COUNT, p, NULL), ES_OK);
    for (int i = 0; i < COUNT; i++)
        p[i] = p[i] * p[i] * p[i] * 0.3; /* some small, some not */
    p[7] = p[2];                         /* a tie */
    assert_int_equal(es_holm(p, COUNT, out, NULL), ES_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_at_least(out[i], p[i]);
        assert_at_most(out[i], 1.0);
        assert_true(!rejected_at(p, COUNT, i, out[i] * (1.0 - 1e-12)));
        assert_true(out[i] == 1.0 || rejected_at(p, COUNT, i, out[i] * (1.0 + 1e-12)));
    }
}

static void holm_by_hand(void **state)
{
    (void)state;
    /* 3 tests and one that was not carried out: 3 * .01, max(.03, 2 * .02), max(.04, .03) */
    double p[] = {0.03, 0.01, NAN, 0.02};
    assert_int_equal(es_holm(p, 4, p, NULL), ES_OK);
    assert_near(p[1], 0.03, 1e-15);
    assert_near(p[3], 0.04, 1e-15);
    assert_near(p[0], 0.04, 1e-15);
    assert_nan(p[2]);
    assert_int_equal(es_holm(p, 0, p, NULL), ES_OK);
    const double bad[] = {0.5, 1.5};
    assert_int_equal(es_holm(bad, 2, p, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "multiple.p");
    assert_int_equal(err.row, 1);
}

static void welch_against_closed_forms(void **state)
{
    (void)state;
    /* equal errors of f degrees each have 2f together; t of 2 degrees has the two-sided tail
     * 1 - t/sqrt(2 + t^2) */
    const es_grouped a = {1.5, 0.3, 1.0}, b = {0.7, 0.3, 1.0};
    const es_welch_test w = es_welch(a, b);
    const double t = 0.8 / hypot(0.3, 0.3);
    assert_close(w.t, t, 1e-14);
    assert_close(w.freedom, 2.0, 1e-14);
    assert_close(w.p, 1.0 - t / sqrt(2.0 + t * t), 1e-12);
    assert_near(es_welch(b, a).t, -w.t, 1e-15);
    assert_near(es_welch(b, a).p, w.p, 1e-15);
    /* one without error: the other's degrees, and with 1 of them Cauchy's tail */
    const es_welch_test one = es_welch(a, (es_grouped){1.2, 0.0, 9.0});
    assert_close(one.freedom, 1.0, 1e-14);
    assert_close(one.p, 0.5, 1e-12); /* t = 1: 1 - 2 atan(1)/pi */
    assert_nan(es_welch(a, (es_grouped){1.2, NAN, 9.0}).p);
    assert_nan(es_welch((es_grouped){1, 0, 3}, (es_grouped){2, 0, 3}).p);
}

/* Of a mean the jackknife is its standard error, exactly. */
static void jackknife_of_a_mean(void **state)
{
    (void)state;
    const double x[] = {3, 1, 4, 1, 5, 9, 2, 6};
    enum { B = 8 };
    double sum = 0.0, squares = 0.0, without[B];
    for (int i = 0; i < B; i++)
        sum += x[i];
    for (int i = 0; i < B; i++) {
        without[i] = (sum - x[i]) / (B - 1);
        squares += pow(x[i] - sum / B, 2.0);
    }
    const es_grouped j = es_jackknife(sum / B, without, B);
    assert_close(j.se, sqrt(squares / (B - 1) / B), 1e-14);
    assert_near(j.freedom, B - 1, 0.0);
    assert_near(j.value, sum / B, 0.0);
    assert_nan(es_jackknife(1.0, without, 1).se);
}

TEST_FILE(multiple)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holm_is_the_least_level_that_rejects),
        cmocka_unit_test(holm_by_hand),
        cmocka_unit_test(welch_against_closed_forms),
        cmocka_unit_test(jackknife_of_a_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
