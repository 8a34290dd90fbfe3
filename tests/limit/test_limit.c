/* SPDX-License-Identifier: Apache-2.0 */
/* test_limit.c : closed forms of the log-MGF against identities and a few values of 16 digits. */
#include "testing.h"

#include <float.h>

#include "limit/limit.h"

/* ---- the sphere ---- */

static double ratio_of(int64_t d, double r)
{
    es_num out;
    assert_ok(es_bessel_ratio(d, r, &out, &err));
    return out.val;
}

/* Both the tolerance and the error the library claims for itself. */
static void expect_num(es_num got, double want, double relative)
{
    assert_close(got.val, want, relative);
    assert_near(got.val, want, got.err + DBL_EPSILON * fabs(want)); /* want is rounded, too */
    assert_at_most(got.err, relative * fabs(want) + 2.0 * DBL_MIN);
}

static void expect_sphere(int64_t d, double r, double A, double slope, double K)
{
    es_num a, s, k;
    assert_ok(es_bessel_ratio(d, r, &a, &err));
    assert_ok(es_bessel_slope(d, r, &s, &err));
    assert_ok(es_bessel_log_mgf(d, r, &k, &err));
    expect_num(a, A, 1e-14);
    expect_num(s, slope, 1e-11);
    expect_num(k, K, 1e-13);
}

/* Made with mpmath at 120 digits. */
static void NU09_sphere_values(void **state)
{
    (void)state;
    expect_sphere(2, 1.0, 0.44638996589653451, 0.35434603245035625, 0.23591435850717865);
    expect_sphere(2, 0.001, 0.00049999993750001043, 0.49999981250005208, 2.4999998437500175e-7);
    expect_sphere(2, 80.75, 0.99378863729346724, 7.7164357991333041e-5, 77.636940184520762);
    expect_sphere(4, 60.5, 0.9753107948283885, 0.00040633473939614672, 54.113993269591188);
    expect_sphere(10, 1.0, 0.099178382399712559, 0.097558206867163358, 0.049793627086355341);
    expect_sphere(50, 1000.0, 0.97578812171736426, 2.3923551147457691e-5, 900.97331363278408);
    expect_sphere(64, 95.0, 0.72081585882412594, 0.0024097702369015964, 45.175099532047738);
    expect_sphere(768, 1000.0, 0.68739958031343786, 0.00024633888450266065, 441.90373735887437);
    expect_sphere(768, 20.0, 0.026024075630790436, 0.0012994470467496622, 0.26032867197413555);
    expect_sphere(768, 1000000.0, 0.99961657334444565, 3.8335331104072528e-10, 996865.22536269562);
    expect_sphere(4096, 3.0, 0.00073242148229046266, 0.00024414023229074328, 0.0010986325179677418);
    expect_sphere(4096, 300.0, 0.072853631211057704, 0.00024028238842553278, 10.957083249683935);
    expect_sphere(4096, 1000000000000.0, 0.9999999979525, 2.0474999958097912e-21,
                  999999958407.76396);
    expect_sphere(2, 1000000000000.0, 0.9999999999995, 5.0000000000025e-25, 999999999985.26555);
}

static void NU09_sphere_of_one_and_three_dimensions(void **state)
{
    (void)state;
    for (double r = 0.01; r < 300.0; r *= 1.17) {
        const double c = 1.0 / cosh(r), s = 1.0 / sinh(r);
        expect_sphere(1, r, tanh(r), c * c,
                      r < 1 ? log1p(2 * pow(sinh(r / 2), 2)) : r + log1p(exp(-2 * r)) - log(2.0));
        if (r > 1.0) /* elsewhere the elementary formulas cancel */
            expect_sphere(3, r, 1.0 / tanh(r) - 1.0 / r, 1.0 / (r * r) - s * s,
                          r + log1p(-exp(-2 * r)) - log(2.0 * r));
    }
}

/* Riccati's equation links ratio and slope, recurrence neighbouring dimensions; at the joints of
 * the algorithm nothing may jump. */
static void NU09_sphere_keeps_its_equations(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 3, 5, 17, 64, 191, 192, 193, 768, 4094, 4096};
    static const double radii[] = {1e-5, 0.003, 0.5, 7, 40, 95.99, 96.01, 300, 1e3, 1e4};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        for (size_t j = 0; j < sizeof radii / sizeof *radii; j++) {
            const double d = (double)dims[i], r = radii[j], A = ratio_of(dims[i], r);
            es_num slope;
            assert_ok(es_bessel_slope(dims[i], r, &slope, &err));
            assert_near(slope.val, 1.0 - A * A - (d - 1.0) * (A / r), 8 * DBL_EPSILON);
            assert_close(1.0 / A, d / r + ratio_of(dims[i] + 2, r), 8 * DBL_EPSILON);
        }
    }
}

static void NU09_sphere_at_the_ends(void **state)
{
    (void)state;
    es_num out;
    static const int64_t dims[] = {1, 2, 50, 4096};
    for (size_t i = 0; i < 4; i++) {
        const double d = (double)dims[i];
        assert_equals(ratio_of(dims[i], 0.0), 0.0);
        assert_ok(es_bessel_slope(dims[i], 0.0, &out, &err));
        assert_close(out.val, 1.0 / d, 1e-15);
        assert_ok(es_bessel_log_mgf(dims[i], 0.0, &out, &err));
        assert_equals(out.val, 0.0);
        assert_close(ratio_of(dims[i], 1e-200), 1e-200 / d, 1e-15);
        /* 1 - A = (d-1)/(2r) + O(r^-2) */
        assert_near(1.0 - ratio_of(dims[i], 1e12), (d - 1.0) / 2e12, 1e-16 + d * d * 1e-24);
        assert_ok(es_bessel_slope(dims[i], 1e12, &out, &err));
        assert_near(out.val, (d - 1.0) / 2e24, 1e-8 * (d - 1.0) / 2e24);
        assert_at_most(ratio_of(dims[i], 1e300), 1.0);
    }
    assert_int_equal(es_bessel_ratio(0, 1.0, &out, &err), ES_E_RANGE);
    assert_int_equal(es_bessel_ratio(4099, 1.0, &out, &err), ES_E_RANGE);
    assert_int_equal(es_bessel_slope(2, -1.0, &out, &err), ES_E_RANGE);
    assert_int_equal(es_bessel_log_mgf(2, (double)NAN, &out, &err), ES_E_RANGE);
    assert_int_equal(es_bessel_log_mgf(2, INFINITY, &out, &err), ES_E_RANGE);
}

/* ---- laws ---- */

enum { D = 3 };
static const double mean[D] = {0.1, -0.2, 0.3}, direction[D] = {1.0, 2.0, -2.0};
static const double factor[D * D] = {1.0, 0.2, 0.0, -0.3, 0.8, 0.1, 0.4, 0.0, 0.6};
static const double tilt[D] = {0.3, -0.7, 1.1};
static const double rows[4 * D] = {1, 0, 0.5, -0.5, 1, 0.2, 0.3, -0.8, -1, 2, 0.1, 0.1};
static const double weights[2] = {1.0, 3.0};

static double log_mgf(const es_law *law, const double *t, double *grad, double *hess)
{
    es_log_mgf out = {.grad = grad, .hess = hess};
    assert_ok(es_limit_log_mgf(law, t, NULL, &out, &err));
    assert_at_least(out.val.err, 0.0);
    assert_below(out.val.err, 1e-12);
    assert_at_least(out.grad_error, 0.0);
    assert_below(out.grad_error, 1e-11);
    assert_at_least(out.hess_error, 0.0);
    assert_below(out.hess_error, 1e-10);
    return out.val.val;
}

/* Gradient and Hessian are what K and the gradient change by. */
static void expect_derivatives(const es_law *law)
{
    double grad[D], hess[D * D], step = 1e-5;
    log_mgf(law, tilt, grad, hess);
    for (int i = 0; i < D; i++) {
        double up[D], down[D], g_up[D], g_down[D];
        memcpy(up, tilt, sizeof up);
        memcpy(down, tilt, sizeof down);
        up[i] += step;
        down[i] -= step;
        const double slope = log_mgf(law, up, g_up, NULL) - log_mgf(law, down, g_down, NULL);
        assert_near(grad[i], slope / (2 * step), 1e-9);
        for (int j = 0; j < D; j++) {
            assert_near(hess[i * D + j], (g_up[j] - g_down[j]) / (2 * step), 1e-8);
            assert_near(hess[i * D + j], hess[j * D + i], 1e-14);
        }
    }
}

static void derivatives_fit_together(void **state)
{
    (void)state;
    const es_view points = es_view_f64(rows, 4, D);
    const es_law parts[2] = {
        {.kind = ES_LAW_GAUSSIAN, .dim = D, .size = 0.5, .mean = mean, .factor = factor},
        {.kind = ES_LAW_CUBE, .dim = D, .size = 1.5, .mean = direction}};
    for (int kind = ES_LAW_GAUSSIAN; kind <= ES_LAW_LOGISTIC; kind++) {
        es_law law = {.kind = (es_law_kind)kind,
                      .dim = D,
                      .size = es_law_traits((es_law_kind)kind) & ES_LAW_ENTIRE ? 1.7 : 0.4,
                      .concentration = 2.5,
                      .direction = direction,
                      .parts = parts,
                      .weights = weights,
                      .n_parts = 2,
                      .points = &points};
        if (kind == ES_LAW_STUDENT)
            continue;
        expect_derivatives(&law);
        law.mean = mean;
        law.factor = factor;
        expect_derivatives(&law);
    }
}

static void laws_that_are_others_in_disguise(void **state)
{
    (void)state;
    double a[D], b[D], ha[D * D], hb[D * D];
    /* vMF without concentration is the sphere; corners of the cube are Rademacher signs. */
    const es_law sphere = {.kind = ES_LAW_SPHERE, .dim = D, .size = 1.7};
    const es_law vmf = {.kind = ES_LAW_VMF, .dim = D, .size = 1.7, .direction = direction};
    assert_near(log_mgf(&sphere, tilt, a, ha), log_mgf(&vmf, tilt, b, hb), 1e-15);
    assert_memory_equal(ha, hb, sizeof ha);
    double corners[8 * D];
    for (int i = 0; i < 8 * D; i++)
        corners[i] = (i / D) >> (i % D) & 1 ? 1.3 : -1.3;
    const es_view points = es_view_f64(corners, 8, D);
    const es_law signs = {.kind = ES_LAW_RADEMACHER, .dim = D, .size = 1.3};
    const es_law finite = {.kind = ES_LAW_EMPIRICAL, .dim = D, .points = &points};
    assert_near(log_mgf(&signs, tilt, a, ha), log_mgf(&finite, tilt, b, hb), 1e-14);
    for (int i = 0; i < D * D; i++)
        assert_near(ha[i], hb[i], 1e-14);
    /* A mixture of a law with itself is that law. */
    const es_law twice[2] = {sphere, sphere};
    const es_law both = {
        .kind = ES_LAW_MIXTURE, .dim = D, .parts = twice, .weights = weights, .n_parts = 2};
    assert_near(log_mgf(&both, tilt, b, hb), log_mgf(&sphere, tilt, a, ha), 1e-15);
    for (int i = 0; i < D * D; i++)
        assert_near(ha[i], hb[i], 1e-15);
}

/* A tilt so strong that nothing but the farthest point of the support is left. */
static void strong_tilts_do_not_overflow(void **state)
{
    (void)state;
    const double t[D] = {3e5, -4e5, 0.0};
    double grad[D];
    es_log_mgf out = {.grad = grad};
    static const es_law_kind kinds[] = {ES_LAW_SPHERE, ES_LAW_BALL, ES_LAW_CUBE, ES_LAW_RADEMACHER};
    for (size_t i = 0; i < 4; i++) {
        const es_law law = {.kind = kinds[i], .dim = D, .size = 2.0};
        assert_ok(es_limit_log_mgf(&law, t, NULL, &out, &err));
        assert_near(grad[0], i < 2 ? 1.2 : 2.0, 1e-4);
        assert_near(grad[1], i < 2 ? -1.6 : -2.0, 1e-4);
        assert_near(grad[2], 0.0, 1e-12);
    }
    const double huge[D] = {1e200, 0, 0};
    const es_law gaussian = {.kind = ES_LAW_GAUSSIAN, .dim = D, .size = 1.0};
    assert_int_equal(es_limit_log_mgf(&gaussian, huge, NULL, &out, &err), ES_E_OVERFLOW);
}

static void laws_without_a_limit_are_refused(void **state)
{
    (void)state;
    double grad[D];
    es_log_mgf out = {.grad = grad};
    const es_law student = {.kind = ES_LAW_STUDENT, .dim = D, .size = 1.0, .freedom = 5.0};
    assert_int_equal(es_limit_log_mgf(&student, tilt, NULL, &out, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "limit.student");
    const es_law laplace = {.kind = ES_LAW_LAPLACE, .dim = D, .size = 1.0};
    assert_int_equal(es_limit_log_mgf(&laplace, tilt, NULL, &out, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "limit.laplace");
    const es_law law = {.kind = ES_LAW_SPHERE, .dim = D, .size = 1.0};
    const double broken[D] = {0.0, (double)NAN, 1.0};
    assert_int_equal(es_limit_log_mgf(&law, broken, NULL, &out, &err), ES_E_NONFINITE);
    es_mem_limit budget = {.limit = 16};
    assert_int_equal(es_limit_log_mgf(&law, tilt, &budget, &out, &err), ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
}

TEST_FILE(limit)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(NU09_sphere_values),
                                       cmocka_unit_test(NU09_sphere_of_one_and_three_dimensions),
                                       cmocka_unit_test(NU09_sphere_keeps_its_equations),
                                       cmocka_unit_test(NU09_sphere_at_the_ends),
                                       cmocka_unit_test(derivatives_fit_together),
                                       cmocka_unit_test(laws_that_are_others_in_disguise),
                                       cmocka_unit_test(strong_tilts_do_not_overflow),
                                       cmocka_unit_test(laws_without_a_limit_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
