/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"
#include "testing.h"
#include "theory/rope.h"

static void scores_agree_with_theory_json(void **state)
{
    (void)state;
    json_t *rows = golden("rope"), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const es_rope rope = {.dim = (int64_t)golden_real(row, "d"),
                              .base = golden_real(row, "base")};
        const double D = golden_real(row, "delta");
        assert_near(es_rope_score(&rope, D), golden_real(row, "score"), 1e-11);
        assert_near(es_rope_continuum(&rope, D), golden_real(row, "cont"), 1e-11);
    }
    assert_at_least(i, 6);
    json_decref(rows);
}

/* Values of 30 digits from Abramowitz and Stegun's tables and from a computer algebra system. */
static void integrals_have_their_values(void **state)
{
    (void)state;
    static const struct {
        double x, ci, si;
    } known[] = {{0.5, -0.17778407880661287, 0.49310741804306669},
                 {1.0, 0.33740392290096813, 0.94608307036718302},
                 {2.0, 0.42298082877486500, 1.6054129768026948},
                 {10.0, -0.045456433004455373, 1.6583475942188740}};
    for (int i = 0; i < 4; i++) {
        assert_near(es_cosine_integral(known[i].x), known[i].ci, 4e-16);
        assert_near(es_sine_integral(known[i].x), known[i].si, 8e-16);
    }
    assert_nan(es_cosine_integral(0.0));
    assert_nan(es_cosine_integral(-1.0));
    assert_equals(es_sine_integral(0.0), 0.0);
    assert_equals(es_cosine_integral(INFINITY), 0.0);
}

/* Against their integrals, by Simpson's rule over short steps: error h^4/180 of a step 0.01. */
static void integrals_have_their_derivatives(void **state)
{
    (void)state;
    const double h = 0.005;
    double ci = 0.0, si = 0.0, x = 0.25;
    const double c0 = es_cosine_integral(x), s0 = es_sine_integral(x);
    for (int i = 0; i < 3000; i++, x += 2.0 * h) {
        ci += h / 3.0 * (cos(x) / x + 4.0 * cos(x + h) / (x + h) + cos(x + 2 * h) / (x + 2 * h));
        si += h / 3.0 * (sin(x) / x + 4.0 * sin(x + h) / (x + h) + sin(x + 2 * h) / (x + 2 * h));
        assert_near(es_cosine_integral(x + 2 * h) - c0, ci, 2e-8);
        assert_near(es_sine_integral(x + 2 * h) - s0, si, 2e-8);
    }
    /* The two methods meet at 4. */
    assert_near(es_cosine_integral(4.0), es_cosine_integral(nextafter(4.0, 0.0)), 2e-15);
    assert_near(es_sine_integral(4.0), es_sine_integral(nextafter(4.0, 0.0)), 2e-15);
}

/* The sum is a Riemann sum of the integral with step 2/d; Euler and Maclaurin say what it misses:
 * (cos D - cos(D/b))/d, and then (D ln b) sin D/(3 d^2). */
static void many_dimensions_are_the_continuum(void **state)
{
    (void)state;
    const es_rope r = {.dim = 1 << 14, .base = 1e4};
    const double d = (double)r.dim;
    for (double D = 1.0; D < 1000.0; D *= 1.7) {
        const double off = (es_rope_score(&r, D) - es_rope_continuum(&r, D)) / sqrt(d);
        assert_near(off, (cos(D) - cos(D / 1e4)) / d, D * log(1e4) / (3.0 * d * d) * 1.2 + 1e-13);
    }
}

static void reach_is_0_6165_of_the_base(void **state)
{
    (void)state;
    const double zero = 0.6165054856207162;
    assert_near(es_cosine_integral(zero), 0.0, 1e-15);
    const es_rope usual = {.dim = 128, .base = 1e4}, raised = {.dim = 128, .base = 5e5};
    /* Ci(D), at most 1/D, moves the zero by 1/(D cos(zero)) of itself. */
    assert_close(es_rope_reach(&usual), zero * 1e4, 1.0 / (0.81 * 6165.0));
    assert_close(es_rope_reach(&raised), zero * 5e5, 1.0 / (0.81 * 308250.0));
    const es_rope stretched = {.dim = 128, .base = 1e4, .scale = 8.0};
    assert_close(es_rope_reach(&stretched), 8.0 * es_rope_reach(&usual), 1e-12);
    assert_near(es_rope_continuum(&usual, es_rope_reach(&usual)), 0.0, 1e-8);
    /* Nothing before it is negative: looked at on a fine grid. Small bases swing the most. */
    for (double base = 1.5; base < 2000.0; base *= 3.0) {
        const es_rope r = {.dim = 64, .base = base};
        const double reach = es_rope_reach(&r);
        for (int i = 1; i < 2000; i++)
            assert_above(es_rope_continuum(&r, reach * i / 2000.0), -1e-9);
        assert_below(es_rope_continuum(&r, reach * (1.0 + 1e-6)), 1e-9);
    }
}

static void scores_at_the_ends(void **state)
{
    (void)state;
    const es_rope r = {.dim = 128, .base = 1e4};
    assert_close(es_rope_score(&r, 0.0), sqrt(128.0), 1e-14);
    assert_close(es_rope_continuum(&r, 0.0), sqrt(128.0), 1e-14);
    assert_near(es_rope_continuum(&r, 1e-7), sqrt(128.0), 1e-12);
    const int64_t first = es_rope_first_negative(&r, 10000);
    assert_above(first, 1);
    assert_below(es_rope_score(&r, (double)first), 0.0);
    for (int64_t D = 1; D < first; D++)
        assert_at_least(es_rope_score(&r, (double)D), 0.0);
    assert_int_equal(es_rope_first_negative(&r, first - 1), 0);
    const es_rope half = {.dim = 128, .base = 1e4, .scale = 2.0};
    assert_close(es_rope_score(&half, 200.0), es_rope_score(&r, 100.0), 1e-13);
}

static void granularity_is_that_of_the_notes(void **state)
{
    (void)state;
    const es_rope r = {.dim = 1 << 16, .base = 1e4}, small = {.dim = 128, .base = 1e4};
    /* (2/d) sum of a decreasing function: above its integral by at most the first term, 2/d. */
    assert_near(es_rope_granularity(&r), es_rope_granularity_limit(&r), 2.0 / 65536);
    assert_near(es_rope_granularity_limit(&small), (0.9460830703671830 - 1e-4) / log(1e4), 1e-12);
    const es_rope raised = {.dim = 128, .base = 5e5}, stretched = {128, 1e4, 32.0};
    /* What the paper is about: a raised base costs less of it than interpolation. */
    assert_above(es_rope_granularity(&raised), 5.0 * es_rope_granularity(&stretched));
}

static void what_makes_no_sense_is_nan(void **state)
{
    (void)state;
    static const es_rope bad[] = {{3, 1e4, 1},    {0, 1e4, 1},   {128, 1.0, 1},
                                  {128, 1e4, .5}, {128, NAN, 1}, {128, INFINITY, 1}};
    for (int i = 0; i < 6; i++) {
        assert_nan(es_rope_score(&bad[i], 1.0));
        assert_nan(es_rope_continuum(&bad[i], 1.0));
        assert_nan(es_rope_reach(&bad[i]));
        assert_nan(es_rope_granularity(&bad[i]));
        assert_int_equal(es_rope_first_negative(&bad[i], 10), 0);
    }
    const es_rope good = {.dim = 8, .base = 100};
    assert_nan(es_rope_score(&good, -1.0));
    assert_nan(es_rope_continuum(&good, INFINITY));
}

TEST_FILE(rope)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_agree_with_theory_json),
        cmocka_unit_test(integrals_have_their_values),
        cmocka_unit_test(integrals_have_their_derivatives),
        cmocka_unit_test(many_dimensions_are_the_continuum),
        cmocka_unit_test(reach_is_0_6165_of_the_base),
        cmocka_unit_test(scores_at_the_ends),
        cmocka_unit_test(granularity_is_that_of_the_notes),
        cmocka_unit_test(what_makes_no_sense_is_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
