/* SPDX-License-Identifier: Apache-2.0 */
/* test_limit_golden.c : the module `limit` against golden values, made by other means (mpmath,
 * SciPy).
 */
#include "golden.h"

#include <float.h>

#include "limit/limit.h"
#include "linalg/linalg.h"

/* All numbers of a nested array, row by row. Returns how many. */
static int64_t flatten(const json_t *list, double *out)
{
    int64_t count = 0;
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (json_is_array(item))
            count += flatten(item, out + count);
        else
            out[count++] = json_number_value(item);
    }
    return count;
}

static void expect_num(es_num got, double want, double relative)
{
    assert_close(got.val, want, relative);
    /* The file holds 16 digits, which is an error of its own. */
    assert_near(got.val, want, got.err + 2 * DBL_EPSILON * fabs(want));
}

static void bessel_ratio(void **state)
{
    (void)state;
    size_t i;
    json_t *item, *group = golden("bessel_ratio");
    json_array_foreach(json_object_get(group, "items"), i, item)
    {
        const int64_t d = (int64_t)golden_real(item, "d");
        const double r = golden_real(item, "r");
        es_num out;
        assert_ok(es_bessel_ratio(d, r, &out, &err));
        expect_num(out, golden_real(item, "A"), 1e-14);
        assert_ok(es_bessel_slope(d, r, &out, &err));
        expect_num(out, golden_real(item, "A1"), 1e-11);
        assert_ok(es_bessel_log_mgf(d, r, &out, &err));
        expect_num(out, golden_real(item, "K"), 1e-13);
    }
    assert_above(i, 20);
    json_decref(group);
}

/* ---- laws ---- */

static bool is(const json_t *item, const char *law)
{
    return strcmp(json_string_value(json_object_get(item, "law")), law) == 0;
}

static void expect_law(const es_law *law, const json_t *item)
{
    double t[8], want[64], grad[8], hess[64];
    es_log_mgf out = {.grad = grad, .hess = hess};
    flatten(json_object_get(item, "t"), t);
    assert_ok(es_limit_log_mgf(law, t, NULL, &out, &err));
    expect_num(out.val, golden_real(item, "K"), 1e-11);
    const int64_t d = flatten(json_object_get(item, "grad"), want);
    assert_int_equal(d, law->dim);
    for (int64_t j = 0; j < d; j++)
        assert_near(grad[j], want[j], fmin(1e-11, out.grad_error + 4 * DBL_EPSILON));
    assert_int_equal(flatten(json_object_get(item, "hess"), want), d * d);
    for (int64_t j = 0; j < d * d; j++)
        assert_near(hess[j], want[j], fmin(1e-11, out.hess_error + 4 * DBL_EPSILON));
}

static void expect_gaussian(const json_t *item)
{
    double m[8], cov[64], l[64];
    const int64_t d = flatten(json_object_get(item, "m"), m);
    flatten(json_object_get(item, "Sigma"), cov);
    const es_view v = es_view_f64(cov, d, d);
    assert_ok(es_chol_factor(&v, 0, NULL, l, NULL, &err));
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = d, .size = 1.0, .mean = m, .factor = l};
    expect_law(&law, item);
}

static void expect_truncated(const json_t *item)
{
    static const char *const keys[] = {"K", "grad", "hess"};
    const es_truncated law = {golden_real(item, "m"), golden_real(item, "s"),
                              golden_real(item, "lo"), golden_real(item, "hi")};
    es_num out[3];
    assert_ok(es_limit_truncated(&law, golden_real(item, "t"), out, &err));
    for (int i = 0; i < 3; i++)
        expect_num(out[i], golden_real(item, keys[i]), 1e-11);
}

static void laws(void **state)
{
    (void)state;
    size_t i;
    json_t *item, *group = golden("laws");
    json_array_foreach(group, i, item)
    {
        double points[64], t[8];
        const int64_t d = flatten(json_object_get(item, "t"), t);
        es_law law = {.dim = d};
        const es_view view =
            es_view_f64(points, d ? flatten(json_object_get(item, "Y"), points) / d : 0, d);
        if (is(item, "gauss")) {
            expect_gaussian(item);
        } else if (is(item, "sphere") || is(item, "ball")) {
            law.kind = is(item, "ball") ? ES_LAW_BALL : ES_LAW_SPHERE;
            law.size = golden_real(item, "R");
            expect_law(&law, item);
        } else if (is(item, "rademacher")) {
            law.kind = ES_LAW_RADEMACHER;
            law.size = golden_real(item, "a");
            expect_law(&law, item);
        } else if (is(item, "empirical")) {
            law.kind = ES_LAW_EMPIRICAL;
            law.points = &view;
            expect_law(&law, item);
        } else if (is(item, "truncgauss1")) {
            expect_truncated(item);
        } else {
            fail_msg("nobody knows the law of item %zu", i);
        }
    }
    assert_at_least(i, 7);
    json_decref(group);
}

/* ---- moments ---- */

static void gaussian_moments(void **state)
{
    (void)state;
    json_t *item = golden("gaussian_moments");
    double A[64], S[64], V[64], m[8], want[64], l[64], mean[8], cov[64];
    const int64_t d = flatten(json_object_get(item, "m"), m);
    flatten(json_object_get(item, "A"), A);
    flatten(json_object_get(item, "Sigma"), S);
    const es_limit_head head = {A, V, flatten(json_object_get(item, "V"), V) / d};
    const es_view v = es_view_f64(S, d, d);
    es_limit_accuracy accuracy;
    assert_ok(es_chol_factor(&v, 0, NULL, l, NULL, &err));
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = d, .size = 1.0, .mean = m, .factor = l};
    assert_ok(es_limit_moments(&law, &head, NULL, NULL, mean, cov, &accuracy, &err));
    assert_int_equal(accuracy.method, ES_LIMIT_EXACT);
    flatten(json_object_get(item, "mean"), want);
    for (int64_t i = 0; i < head.dv; i++)
        assert_near(mean[i], want[i], fmin(1e-14, accuracy.mean));
    flatten(json_object_get(item, "cov"), want);
    for (int64_t i = 0; i < head.dv * head.dv; i++)
        assert_near(cov[i], want[i], fmin(1e-13, accuracy.cov));
    json_decref(item);
}

static void expect_sphere_cov(const json_t *item)
{
    double A[64], want[64], cov[64], mean[8], lambda[8];
    const int64_t d = flatten(json_object_get(item, "lam"), lambda);
    flatten(json_object_get(item, "A"), A);
    flatten(json_object_get(item, "cov"), want);
    const es_limit_head head = {.A = A};
    const es_law law = {.kind = ES_LAW_SPHERE, .dim = d, .size = golden_real(item, "R")};
    es_limit_accuracy accuracy;
    assert_ok(es_limit_moments(&law, &head, NULL, NULL, mean, cov, &accuracy, &err));
    assert_at_most(accuracy.cov, 1e-10 * lambda[0]);
    for (int64_t i = 0; i < d; i++)
        assert_equals(mean[i], 0.0);
    for (int64_t i = 0; i < d * d; i++)
        assert_near(cov[i], want[i], accuracy.cov + 4 * DBL_EPSILON * lambda[0]);
}

static void sphere_cov(void **state)
{
    (void)state;
    size_t i;
    json_t *item, *group = golden("sphere_cov");
    json_array_foreach(json_object_get(group, "items"), i, item) { expect_sphere_cov(item); }
    assert_above(i, 1);
    json_decref(group);
}

TEST_FILE(limit_golden)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bessel_ratio), cmocka_unit_test(laws),
                                       cmocka_unit_test(gaussian_moments),
                                       cmocka_unit_test(sphere_cov)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
