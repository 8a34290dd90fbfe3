/* SPDX-License-Identifier: Apache-2.0 */
/* test_special.c : special functions against values of 50 digits (mpmath). */
#include "testing.h"

#include "stats/special.h"

static void tails_of_the_normal_law(void **state)
{
    (void)state;
    static const struct {
        double x, log_tail, mills;
    } golden[] = {
        {-7.5, -3.1908916729109471367e-14, 4107922463093.5283638},
        {-3, -0.0013508099647481937988, 225.33489622034912058},
        {-0.5, -0.36894641528865639307, 1.9640174953579937537},
        {0, -0.69314718055994530942, 1.2533141373155002512},
        {0.25, -0.91306176481113505517, 1.0378245758537268123},
        {1, -1.8410216450092635058, 0.65567954241879847154},
        {3, -6.6077262215103495433, 0.30459029871010329573},
        {4.9375, -14.742730717059104945, 0.19508126593399170226},
        {5, -15.064998393988725736, 0.19280810471531576488},
        {5.5, -17.779376352625260511, 0.17632298575710270488},
        {8.75, -41.381902152945091525, 0.11284798632010301476},
        {12, -75.410673001568795939, 0.082766286501369177252},
        {38, -726.5572160188201301, 0.026297602974252964378},
        {1000, -500007.82669481218431, 0.000999999000002999985},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        assert_close(es_log_normal_tail(golden[i].x), golden[i].log_tail, 1e-14);
        assert_close(es_mills(golden[i].x), golden[i].mills, golden[i].x < -5 ? 1e-12 : 1e-14);
        if (golden[i].x >= 0)
            assert_near(es_normal_tail_quantile(golden[i].log_tail), golden[i].x,
                        1e-14 * fmax(golden[i].x, 1.0));
    }
    assert_near(es_normal_tail_quantile(log(0.025)), 1.9599639845400542355, 1e-14);
    assert_nan(es_normal_tail_quantile(-0.1));
    assert_nan(es_normal_tail_quantile(NAN));
}

static void tails_of_the_gamma_law(void **state)
{
    (void)state;
    static const struct {
        double a, x, tail;
    } golden[] = {
        {0.5, 0.01, 0.88753708398171510663},   {0.5, 2, 0.045500263896358414401},
        {0.5, 30, 9.4857375710738483885e-15},  {1, 1, 0.3678794411714423216},
        {4, 0.5, 0.99824837744370917635},      {4, 12, 0.00229179120779142224},
        {10, 10, 0.45792971447185220831},      {49.5, 40, 0.91918787359809011626},
        {50, 120, 1.6008226793344828707e-13},  {1000, 1050, 0.058671111377318077098},
        {10000, 9900, 0.84134880780643534304}, {10000, 10500, 4.2758724550596472692e-7},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
        assert_close(es_gamma_tail(golden[i].a, golden[i].x), golden[i].tail,
                     golden[i].a <= 50 ? 2e-13 : 1e-11);
    assert_near(es_gamma_tail(3.0, 0.0), 1.0, 0.0);
    assert_near(es_gamma_tail(3.0, INFINITY), 0.0, 0.0);
    assert_nan(es_gamma_tail(0.0, 1.0));
    assert_nan(es_gamma_tail(1.0, -1.0));
    assert_nan(es_gamma_tail(1.0, NAN));
    assert_close(es_chi2_tail(2.0, 3.0), exp(-1.5), 1e-14);
}

/* ln (n - 1)!, ln Gamma(1/2) = ln(pi)/2, and the bits of lgamma(). */
static void logarithms_of_gamma(void **state)
{
    (void)state;
    double sum = 0.0;
    for (int n = 1; n <= 170; sum += log(n), n++)
        assert_near(es_log_gamma(n), sum, 1e-15 * (n + sum)); /* n roundings of the sum */
    assert_near(es_log_gamma(0.5), 0.57236494292470008707, 1e-15);
    for (double a = 1e-3; a < 1e6; a *= 1.07)
        assert_near(es_log_gamma(a), lgamma(a), 0.0);
}

static void errors_of_stirling(void **state)
{
    (void)state;
    static const double golden[][2] = {
        {0.25, 0.27251040121343206088}, {1, 0.08106146679532725822},
        {2.5, 0.033162873519936287485}, {9.5, 0.008768700134139385463},
        {10, 0.0083305634333628712565}, {100, 0.00083333055563491468338},
        {1e6, 8.3333333333330555556e-8}};
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
        assert_near(es_stirling_error(golden[i][0]), golden[i][1], 1e-15);
}

/* Closed forms: 1 degree is Cauchy's law, 2 an algebraic one; F with 2 degrees above is a power.
 * Quantiles as every table has them, here to more digits. */
static void tails_of_student_and_fisher(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    for (double t = 1e-3; t < 1e6; t *= 7.0) {
        assert_close(es_student_tail(1.0, t), atan2(1.0, t) / pi, 1e-13);
        const double root = sqrt(2.0 + t * t);
        assert_close(es_student_tail(2.0, t), 1.0 / (root * (root + t)), 1e-13);
        assert_close(es_f_tail(2.0, 7.0, t), pow(1.0 + 2.0 * t / 7.0, -3.5), 1e-13);
        assert_close(es_f_tail(1.0, 9.0, t * t), 2.0 * es_student_tail(9.0, t), 1e-15);
    }
    assert_close(es_student_quantile(3.0, 0.025), 3.182446305283710, 1e-14);
    assert_close(es_student_quantile(7.0, 0.025), 2.364624251592785, 1e-14);
    assert_close(es_student_quantile(31.0, 0.025), 2.039513446396408, 1e-14);
    assert_near(es_student_quantile(5.0, 0.5), 0.0, 1e-15);
    assert_nan(es_student_tail(0.0, 1.0));
    assert_nan(es_student_quantile(3.0, 0.6));
    assert_nan(es_f_tail(1.0, 1.0, -1.0));
}

static double cube(const void *context, double t) { return t * t * t - *(const double *)context; }
static double steep(const void *context, double t)
{
    return expm1(40.0 * (t - *(const double *)context));
}
static double none(const void *context, double t)
{
    (void)context;
    return t > 0.5 ? (double)NAN : -1.0;
}

static void roots_are_found(void **state)
{
    (void)state;
    const double two = 2.0, place = 0.123;
    assert_near(es_root(cube, &two, -10.0, 50.0, 1e-12), cbrt(2.0), 1e-12);
    assert_near(es_root(steep, &place, -3.0, 9.0, 1e-9), place, 1e-9);
    assert_near(es_root(cube, &two, cbrt(2.0), 50.0, 1e-12), cbrt(2.0), 1e-12);
    assert_nan(es_root(cube, &two, 2.0, 3.0, 1e-9));
    assert_nan(es_root(none, NULL, 0.0, 1.0, 1e-9));
}

TEST_FILE(special)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tails_of_the_normal_law),     cmocka_unit_test(tails_of_the_gamma_law),
        cmocka_unit_test(logarithms_of_gamma),         cmocka_unit_test(errors_of_stirling),
        cmocka_unit_test(tails_of_student_and_fisher), cmocka_unit_test(roots_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
