/* SPDX-License-Identifier: Apache-2.0 */
/* test_theory.c : horizons and exponents against golden values and closed forms. */
#include "golden.h"

#include "base/view.h"
#include "linalg/linalg.h"
#include "matrices.h"
#include "theory/theory.h"

/* ---- horizons ---- */

static void expect(es_num got, double want, double relative)
{
    assert_near(got.val, want, relative * fabs(want));
    assert_near(got.val, want, got.err + 8 * EPS * fabs(want)); /* golden values round, too */
    assert_at_most(got.err, 1e-10 * fabs(want));
}

static void horizons_are_the_golden_ones(void **state)
{
    (void)state;
    json_t *rows = golden("horizons");
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        int64_t m = 0, d = 0, k = 0;
        double *A = golden_matrix(row, "A", &m, &d), *S = golden_matrix(row, "Sigma", &m, &d);
        double *Wq = golden_matrix(row, "Wq", &k, &m), *Wk = golden_matrix(row, "Wk", &k, &m);
        const es_view va = es_view_f64(A, d, d), vs = es_view_f64(S, d, d);
        es_view vq, vk;
        for (int way = 0; way < (Wq ? 2 : 1); way++) {
            es_head head = {.A = &va};
            if (way == 1) {
                vq = es_view_f64(Wq, k, d), vk = es_view_f64(Wk, k, d);
                head = (es_head){.Wq = &vq, .Wk = &vk};
            }
            es_horizons h;
            assert_ok(es_horizons_of(&vs, 0, &head, NULL, &h, &err));
            expect(h.reach, golden_real(row, "reach"), 1e-13);
            expect(h.one_sided, golden_real(row, "H_onesided"), 1e-13);
            expect(h.horizon, golden_real(row, "H_twosided"), 1e-13);
            expect(h.coupling, golden_real(row, "Psi"), 1e-13);
            expect(h.frobenius, golden_real(row, "F_twosided"), 1e-13);
            assert_close(h.rate_worst_case, golden_real(row, "beta_v1"), 1e-12);
            assert_close(h.rate_coupling, 1.0 / (2.0 * (1.0 + golden_real(row, "Psi"))), 1e-12);
            assert_close(h.rate_horizon, golden_real(row, "beta_v3"), 1e-12);
            if (way == 1)
                expect(h.unscaled, sqrt((double)k) * golden_real(row, "H_headtrick"), 1e-13);
            else
                assert_nan(h.unscaled.val);
            es_exponents x;
            assert_ok(es_exponents_at(h.horizon.val, &x, &err));
            assert_close(x.query_rms, golden_real(row, "beta_rms"), 1e-12);
            assert_close(x.mean_abs, golden_real(row, "beta_mean"), 1e-12);
        }
        free(A), free(S), free(Wq), free(Wk);
    }
    json_decref(rows);
}

/* S = [[1, .4], [.4, 2]], A = [[.5, -.2], [.1, .8]]: values that need no file. */
static void horizons_of_a_small_head(void **state)
{
    (void)state;
    const double S[4] = {1, .4, .4, 2}, A[4] = {.5, -.2, .1, .8};
    const es_view vs = es_view_f64(S, 2, 2), va = es_view_f64(A, 2, 2);
    const es_head head = {.A = &va};
    es_horizons h;
    assert_ok(es_horizons_of(&vs, 0, &head, NULL, &h, &err));
    expect(h.reach, 2.1403124237432847, 1e-13);
    expect(h.one_sided, 1.1136923900766087, 1e-13);
    expect(h.horizon, 1.623925663127828, 1e-13);
    expect(h.frobenius, 1.6922174801130019, 1e-13);
    assert_near(h.trace, 0.5 * 1 + (0.1 - 0.2) * 0.4 + 0.8 * 2, 1e-14); /* tr AS */
}

/* The (k, k) road against A = Wk'Wq/sqrt(k) multiplied out; k below and above d. */
static void horizons_agree_for_both_descriptions_of_a_head(void **state)
{
    (void)state;
    const int64_t d = 24, ks[] = {1, 5, 23, 24, 40};
    for (int i = 0; i < 5; i++) {
        const int64_t k = ks[i];
        double *S = wishart(5, d, i == 2 ? 10 : 60); /* also a singular covariance */
        double *Wq = normals(11, k, d), *Wk = normals(12, k, d), *A = zeros(d, d);
        const es_view vs = es_view_f64(S, d, d), va = es_view_f64(A, d, d);
        const es_view vq = es_view_f64(Wq, k, d), vk = es_view_f64(Wk, k, d);
        const es_view vkt = es_view_transpose(&vk);
        assert_ok(es_mat_multiply(&vkt, &vq, NULL, A, &err));
        for (int64_t j = 0; j < d * d; j++)
            A[j] /= sqrt((double)k);
        es_horizons one, two;
        const es_head matrix = {.A = &va}, head = {.Wq = &vq, .Wk = &vk};
        assert_ok(es_horizons_of(&vs, 0, &matrix, NULL, &one, &err));
        assert_ok(es_horizons_of(&vs, 0, &head, NULL, &two, &err));
        assert_near(one.one_sided.val, two.one_sided.val, one.one_sided.err + two.one_sided.err);
        assert_near(one.horizon.val, two.horizon.val, one.horizon.err + two.horizon.err);
        assert_near(one.frobenius.val, two.frobenius.val, one.frobenius.err + two.frobenius.err);
        assert_close(two.unscaled.val, two.horizon.val * sqrt((double)k), 1e-14);
        assert_near(one.trace, two.trace, 1e-10);
        assert_at_most(two.horizon.err, 1e-8 * two.horizon.val);
        assert_at_most(two.horizon.val * two.horizon.val, two.coupling.val * (1 + 1e-12));
        free(S), free(Wq), free(Wk), free(A);
    }
}

static void horizons_refuse_what_is_no_head(void **state)
{
    (void)state;
    double S[4] = {1, 0, 0, 2}, A[6] = {1, 2, 3, 4, 5, 6};
    const es_view s = es_view_f64(S, 2, 2), a = es_view_f64(A, 2, 2), wide = es_view_f64(A, 2, 3);
    const es_view tall = es_view_f64(A, 3, 2), none = es_view_f64(A, 0, 2);
    es_horizons h;
    const es_head ok = {.A = &a}, wrong = {.A = &wide}, both = {.A = &a, .Wq = &a, .Wk = &a};
    const es_head half = {.Wq = &a}, uneven = {.Wq = &a, .Wk = &tall};
    const es_head empty = {.Wq = &none, .Wk = &none}, value = {.A = &a, .V = &wide};
    assert_int_equal(es_horizons_of(&s, 0, &wrong, NULL, &h, &err), ES_E_SHAPE);
    assert_int_equal(es_horizons_of(&s, 0, &both, NULL, &h, &err), ES_E_ARGUMENT);
    assert_int_equal(es_horizons_of(&s, 0, &half, NULL, &h, &err), ES_E_ARGUMENT);
    assert_int_equal(es_horizons_of(&s, 0, &uneven, NULL, &h, &err), ES_E_SHAPE);
    assert_int_equal(es_horizons_of(&s, 0, &empty, NULL, &h, &err), ES_E_EMPTY);
    assert_int_equal(es_horizons_of(&s, 0, &value, NULL, &h, &err), ES_E_SHAPE);
    assert_int_equal(es_horizons_of(&wide, 0, &ok, NULL, &h, &err), ES_E_SHAPE);
    es_mem_limit tiny = {.limit = 64};
    assert_int_equal(es_horizons_of(&s, 0, &ok, &tiny, &h, &err), ES_E_LIMIT);
    assert_int_equal(tiny.used, 0);
    S[3] = -1;
    assert_int_equal(es_horizons_of(&s, 0, &ok, NULL, &h, &err), ES_E_NUMERIC);
    S[3] = 1, S[1] = 0.5;
    assert_int_equal(es_horizons_of(&s, 0, &ok, NULL, &h, &err), ES_E_NUMERIC);
    S[1] = NAN;
    assert_int_equal(es_horizons_of(&s, 0, &ok, NULL, &h, &err), ES_E_NONFINITE);
    S[1] = 0, A[2] = INFINITY;
    assert_int_equal(es_horizons_of(&s, 0, &ok, NULL, &h, &err), ES_E_NONFINITE);
    A[0] = A[1] = A[2] = A[3] = 0; /* no scores at all: every rate is 1/2 */
    assert_ok(es_horizons_of(&s, 0, &ok, NULL, &h, &err));
    assert_equals(h.horizon.val, 0);
    assert_equals(h.rate_horizon, 0.5);
    assert_equals(h.rate_worst_case, 0.5);
    assert_equals(h.rate_coupling, 0.5);
}

/* ---- exponents ---- */

static void exponents_are_the_golden_ones(void **state)
{
    (void)state;
    json_t *rows = golden("exponents");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        es_exponents x;
        assert_ok(es_exponents_at(golden_real(row, "H"), &x, &err));
        assert_close(x.paper, golden_real(row, "paper"), 1e-12);
        assert_close(x.query_rms, golden_real(row, "query_rms"), 1e-12);
        assert_close(x.mean_rms, golden_real(row, "mean_rms"), 1e-12);
        assert_close(x.mean_abs, golden_real(row, "mean_abs"), 1e-12);
    }
    json_decref(rows);
}

static void exponents_have_their_plateaus_and_join(void **state)
{
    (void)state;
    es_exponents x;
    assert_ok(es_exponents_at(0.0, &x, &err));
    assert_equals(x.paper, 0.5);
    assert_equals(x.query_rms, 0.5);
    assert_equals(x.mean_rms, 0.5);
    assert_equals(x.mean_abs, 0.5);
    assert_ok(es_exponents_at(sqrt(0.5) + 1e-9, &x, &err));
    assert_near(x.query_rms, 0.5, 1e-8);
    assert_ok(es_exponents_at(1 + 1e-9, &x, &err));
    assert_near(x.mean_rms, 0.5, 1e-8);
    assert_ok(es_exponents_at(1.5, &x, &err));
    assert_near(x.query_rms, 0.1666666667, 1e-9);
    assert_near(x.mean_rms, 0.2835936864527374, 1e-12);
    assert_int_equal(es_exponents_at(NAN, &x, &err), ES_E_RANGE);
    assert_int_equal(es_exponents_at(-1, &x, &err), ES_E_RANGE);
}

static void mean_clt_is_the_golden_one(void **state)
{
    (void)state;
    double got;
    const double half = 0.5, bad = 1.0;
    assert_ok(es_mean_clt(&half, 1, &got, &err));
    assert_close(got, pow(1 - 1.0 / 16, -1.5), 1e-14);
    assert_int_equal(es_mean_clt(&bad, 1, &got, &err), ES_E_RANGE);
    assert_int_equal(es_mean_clt(&half, 0, &got, &err), ES_E_ARGUMENT);
    json_t *rows = golden("mean_clt");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *h = json_object_get(row, "h");
        double values[64];
        const size_t count = json_array_size(h);
        for (size_t j = 0; j < count; j++)
            values[j] = json_number_value(json_array_get(h, j));
        assert_ok(es_mean_clt(values, (int64_t)count, &got, &err));
        assert_close(got, golden_real(row, "pop"), 1e-12);
    }
    json_decref(rows);
}

TEST_FILE(theory)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(horizons_are_the_golden_ones),
        cmocka_unit_test(horizons_of_a_small_head),
        cmocka_unit_test(horizons_agree_for_both_descriptions_of_a_head),
        cmocka_unit_test(horizons_refuse_what_is_no_head),
        cmocka_unit_test(exponents_are_the_golden_ones),
        cmocka_unit_test(exponents_have_their_plateaus_and_join),
        cmocka_unit_test(mean_clt_is_the_golden_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
