/* SPDX-License-Identifier: Apache-2.0 */
/* test_theory_rem.c : exact expectations over n Gaussian scores. */
#include "golden.h"

#include "theory/theory.h"

static void rem_is_the_golden_one(void **state)
{
    (void)state;
    json_t *group = golden("rem"), *rows = json_object_get(group, "items");
    double worst = 0.0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        es_rem r;
        assert_ok(es_rem_moments(golden_real(row, "n"), golden_real(row, "q"), NULL, &r, &err));
        const double P = golden_real(row, "P"), v = golden_real(row, "v");
        assert_close(r.participation, P, 1e-10);
        assert_close(r.error, v, 1e-10);
        assert_close(r.mean, golden_real(row, "EG"), 1e-9);
        worst = fmax(worst, fmax(fabs(r.participation / P - 1), fabs(r.error / v - 1)));
    }
    print_message("%zu golden values, largest relative difference %.1e\n", json_array_size(rows),
                  worst);
    json_decref(group);
}

static void rem_values_known_by_heart(void **state)
{
    (void)state;
    const struct {
        double n, q, P, v;
    } known[] = {{100, .5, .01278390043, .015913133778},
                 {100, 2, .12626214875, .26035677482},
                 {100, 4, .42289972015, 3.1062807582},
                 {100, 10, .75178397025, 56.715579150},
                 {1e6, 2, 5.431492332e-5, NAN},
                 {1e6, 4, .04334116836, .12478618607},
                 {1e6, 10, .52070535461, NAN}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        es_rem r;
        assert_ok(es_rem_moments(known[i].n, known[i].q, NULL, &r, &err));
        assert_close(r.participation, known[i].P, 3e-10);
        if (!isnan(known[i].v))
            assert_close(r.error, known[i].v, 3e-10);
        assert_below(r.defect, 1e-13);
    }
}

/* Two tokens: P = E[s^2 + (1-s)^2], s = logistic(q sqrt2 g), a one-dimensional integral. */
static void two_tokens_agree_with_their_own_integral(void **state)
{
    (void)state;
    const double qs[] = {0.01, 0.3, 1, 3, 7, 11.9, 12.1, 40};
    for (int i = 0; i < 8; i++) {
        const double h = fmin(0.05, 0.1 / qs[i]);
        double P = 0.0;
        for (double g = -9.0; g <= 9.0; g += h) {
            const double s = 1 / (1 + exp(-qs[i] * sqrt(2.0) * g));
            P += h * exp(-0.5 * g * g) / sqrt(2 * 3.14159265358979323846) *
                 (s * s + (1 - s) * (1 - s));
        }
        es_rem r;
        assert_ok(es_rem_moments(2, qs[i], NULL, &r, &err));
        assert_close(r.participation, P, 1e-12);
    }
}

/* One token has all the weight; at q = 0 all have the same; small q joins on smoothly. */
static void rem_at_the_ends(void **state)
{
    (void)state;
    es_rem r, s;
    assert_ok(es_rem_moments(1, 3, NULL, &r, &err));
    assert_close(r.participation, 1.0, 1e-13);
    assert_close(r.error, 10.0, 1e-13);
    assert_near(r.entropy, 0, 1e-13);
    assert_ok(es_rem_moments(1000, 0, NULL, &r, &err));
    assert_close(r.participation, 1e-3, 1e-15);
    assert_close(r.entropy, log(1000.0), 1e-14);
    assert_ok(es_rem_moments(1000, 0.999e-3, NULL, &r, &err));
    assert_ok(es_rem_moments(1000, 1.001e-3, NULL, &s, &err));
    assert_close(r.participation, s.participation, 5e-9);
    /* first order of the CLT: P = e^{q^2}/n, v = e^{q^2}(1+q^2)/n for n -> infinity */
    assert_ok(es_rem_moments(1e16, 1.5, NULL, &r, &err));
    assert_close(r.participation, exp(2.25) / 1e16, 1e-10);
    assert_close(r.error, exp(2.25) * 3.25 / 1e16, 1e-10);
    /* frozen: q (1-P) -> E max of the g_i, 1.5388 for ten of them */
    assert_ok(es_rem_moments(10, 4096, NULL, &r, &err));
    assert_close(r.mean, 1.538752730835173, 1e-6);
    assert_int_equal(es_rem_moments(0, 1, NULL, &r, &err), ES_E_RANGE);
    assert_int_equal(es_rem_moments(2.5, 1, NULL, &r, &err), ES_E_RANGE);
    assert_int_equal(es_rem_moments(1e17, 1, NULL, &r, &err), ES_E_RANGE);
    assert_int_equal(es_rem_moments(10, -1, NULL, &r, &err), ES_E_RANGE);
    assert_int_equal(es_rem_moments(10, NAN, NULL, &r, &err), ES_E_RANGE);
    assert_int_equal(es_rem_moments(10, 5000, NULL, &r, &err), ES_E_RANGE);
}

/* (I4): entropy = L + int_0^q s (1 - P(s)) ds - q^2 (1 - P(q)), by Simpson's rule. */
static void entropy_keeps_its_identity(void **state)
{
    (void)state;
    const double n = 1000, q = 2.5;
    enum { STEPS = 200 };
    double integral = 0.0;
    es_rem r;
    for (int i = 0; i <= STEPS; i++) {
        const double s = q * i / STEPS;
        assert_ok(es_rem_moments(n, s, NULL, &r, &err));
        integral += (i == 0 || i == STEPS ? 1 : i % 2 ? 4 : 2) * s * (1 - r.participation);
    }
    integral *= q / STEPS / 3;
    assert_close(r.entropy, log(n) + integral - q * q * (1 - r.participation), 1e-9);
    assert_near(r.entropy, 4.1645, 1e-4);
}

/* A random extra token is one of n + 1: averages over its score are those of n + 1 tokens. */
static void extra_token_averages_to_one_token_more(void **state)
{
    (void)state;
    const double qs[] = {0.2, 1, 3, 15}, ns[] = {1, 40, 1e5};
    enum { POINTS = 1201 };
    static double a[POINTS];
    static es_rem_extra x[POINTS];
    for (int i = 0; i < 12; i++) {
        const double q = qs[i % 4], n = ns[i / 4], h = 18.0 / (POINTS - 1);
        for (int j = 0; j < POINTS; j++)
            a[j] = q * (-9.0 + h * j);
        assert_ok(es_rem_extra_at(n, q, a, POINTS, NULL, x, &err));
        double W = 0, W2 = 0, P = 0, mean = 0, square = 0;
        for (int j = 0; j < POINTS; j++) {
            const double g = a[j] / q, f = 0.3989422804014327 * h * exp(-0.5 * g * g);
            const double others = x[j].others + q * (1 - x[j].weight);
            W += f * x[j].weight;
            W2 += f * x[j].weight_squared;
            P += f * (x[j].weight_squared + x[j].participation);
            mean += f * (x[j].weight * g + others);
            /* (w_a (g-q) + sum over others)^2 */
            square += f * (x[j].weight_squared * (g - q) * (g - q) - 2 * (g - q) * q * x[j].cross +
                           x[j].others_squared);
        }
        es_rem r;
        assert_ok(es_rem_moments(n + 1, q, NULL, &r, &err));
        assert_close(W, 1 / (n + 1), 1e-9);
        assert_close(W2 * (n + 1), r.participation, 1e-9);
        assert_close(P, r.participation, 1e-9);
        assert_near(mean, r.mean, 1e-9);
        assert_close(square, r.error, 1e-8);
    }
    const double far = 1e7;
    es_rem_extra one;
    assert_int_equal(es_rem_extra_at(10, 1, &far, 1, NULL, &one, &err), ES_E_RANGE);
}

TEST_FILE(theory_rem)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rem_is_the_golden_one),
        cmocka_unit_test(rem_values_known_by_heart),
        cmocka_unit_test(two_tokens_agree_with_their_own_integral),
        cmocka_unit_test(rem_at_the_ends),
        cmocka_unit_test(entropy_keeps_its_identity),
        cmocka_unit_test(extra_token_averages_to_one_token_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
