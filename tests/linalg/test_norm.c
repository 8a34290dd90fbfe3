/* SPDX-License-Identifier: Apache-2.0 */
/* test_norm.c : singular values, the spectral norm and rotations, against closed forms. */
#include "testing.h"

#include "base/view.h"
#include "linalg/dense.h"
#include "linalg/linalg.h"
#include "matrices.h"

static void expect_svd(int64_t m, int64_t n)
{
    const int64_t k = m < n ? m : n;
    double *a = normals(7, m, n), *u = zeros(m, k), *vt = zeros(k, n), *s = zeros(k, 1);
    double *one = identity(k), *plain = zeros(k, 1), bound;
    const es_view va = es_view_f64(a, m, n), vu = es_view_f64(u, m, k), vv = es_view_f64(vt, k, n);
    assert_ok(es_svd_factor(&va, NULL, s, u, vt, &bound, &err));
    assert_ok(es_svd_factor(&va, NULL, plain, NULL, NULL, NULL, &err));
    assert_below(product_error(es_view_transpose(&vu), vu, es_view_f64(one, k, k)),
                 4 * (double)k * EPS);
    assert_below(product_error(vv, es_view_transpose(&vv), es_view_f64(one, k, k)),
                 4 * (double)k * EPS);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < k; j++)
            u[i * k + j] *= s[j];
    }
    assert_below(product_error(vu, vv, va), (double)(m + n) * EPS * s[0]);
    for (int64_t j = 0; j < k; j++) {
        if (j != 0)
            assert_at_most(s[j], s[j - 1]);
        assert_near(s[j], plain[j], bound);
    }
    free(a), free(u), free(vt), free(s), free(one), free(plain);
}

static void svd_rebuilds_the_matrix(void **state)
{
    (void)state;
    expect_svd(1, 1);
    expect_svd(40, 40);
    expect_svd(90, 17);
    expect_svd(17, 90);
    expect_svd(1, 50);
    const double rank_one[6] = {1, 2, 3, 2, 4, 6}; /* norm sqrt(5) sqrt(14) */
    const es_view v = es_view_f64(rank_one, 2, 3);
    double s[2], bound, u[4];
    assert_ok(es_svd_factor(&v, NULL, s, NULL, NULL, &bound, &err));
    assert_near(s[0], sqrt(70.0), bound);
    assert_near(s[1], 0.0, bound);
    assert_int_equal(es_svd_factor(&v, NULL, s, u, NULL, &bound, &err), ES_E_ARGUMENT);
}

/* Both roads to the norm must contain the true value in what they claim, and claim little. */
static void expect_norm(const es_view *a, double want, double claim)
{
    es_num got;
    assert_ok(es_norm_spectral(a, NULL, &got, &err));
    assert_near(got.val, want, got.err + 2 * EPS * want);
    assert_at_most(got.err, claim * want);
    assert_ok(es_norm_certified(a, ES_NORM_STEPS, NULL, &got, &err));
    assert_near(got.val, want, got.err + 2 * EPS * want);
    assert_at_most(got.err, claim * want);
}

static void norm_of_closed_forms_is_within_its_claim(void **state)
{
    (void)state;
    const double a[4] = {1, 2, 3, 4}; /* s^2 = (F^2 + sqrt(F^4 - 4 det^2)) / 2 */
    es_view v = es_view_f64(a, 2, 2);
    expect_norm(&v, sqrt((30 + sqrt(900.0 - 16)) / 2), 1e-10);
    const double one[1] = {-3};
    v = es_view_f64(one, 1, 1);
    expect_norm(&v, 3.0, 1e-10);
    enum { D = 300 };
    double *big = second_difference(D), *same = identity(D);
    v = es_view_f64(big, D, D); /* the two largest eigenvalues differ by 3e-4 */
    expect_norm(&v, 2 + 2 * cos(3.14159265358979323846 / (D + 1)), 1e-9);
    v = es_view_f64(same, D, D); /* every vector is an eigenvector: the iteration ends at once */
    expect_norm(&v, 1.0, 1e-9);
    free(big), free(same);
}

static void norm_agrees_with_svd_for_any_shape_and_scale(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{300, 300}, {900, 280}, {280, 900}, {5, 2000}, {260, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t m = shapes[i][0], n = shapes[i][1];
        double *a = normals(20 + i, m, n), *s = zeros(m + n, 1), bound;
        const es_view v = es_view_f64(a, m, n);
        for (int scale = -1; scale <= 1; scale++) {
            for (int64_t j = 0; j < m * n && scale != 0; j++)
                a[j] *= scale < 0 ? 1e-290 : 1e300; /* down, stay, up: the last is 1e10 */
            es_num got;
            assert_ok(es_svd_factor(&v, NULL, s, NULL, NULL, &bound, &err));
            assert_ok(es_norm_spectral(&v, NULL, &got, &err));
            assert_near(got.val, s[0], got.err + bound);
            assert_below(got.err, 1e-9 * got.val);
        }
        free(a), free(s);
    }
}

static void NU08_rank_deficient_and_zero_matrices_have_norms(void **state)
{
    (void)state;
    enum { D = 270 };
    double *u = normals(8, D, 1), *v = normals(9, D, 1), *a = zeros(D, D), uu = 0, vv = 0;
    for (int i = 0; i < D * D; i++)
        a[i] = u[i / D] * v[i % D];
    for (int i = 0; i < D; i++)
        uu += u[i] * u[i], vv += v[i] * v[i];
    es_view m = es_view_f64(a, D, D);
    expect_norm(&m, sqrt(uu) * sqrt(vv), 1e-10 * 10);
    memset(a, 0, D * D * sizeof *a);
    expect_norm(&m, 0.0, 0.0);
    a[D * 7 + 3] = -2.5; /* one element: g has a single eigenvalue that is not 0 */
    expect_norm(&m, 2.5, 1e-9);
    free(u), free(v), free(a);
    const double empty[1] = {0};
    es_num got;
    m = es_view_f64(empty, 0, 3);
    assert_int_equal(es_norm_spectral(&m, NULL, &got, &err), ES_E_EMPTY);
    const double huge[4] = {1e308, 1e308, 1e308, 1e308};
    m = es_view_f64(huge, 2, 2);
    assert_int_equal(es_norm_spectral(&m, NULL, &got, &err), ES_E_OVERFLOW);
    assert_int_equal(es_norm_certified(&m, 2, NULL, &got, &err), ES_E_OVERFLOW);
}

static void NU08_no_convergence_is_a_bound_and_a_status(void **state)
{
    (void)state;
    enum { D = 300 };
    double *a = second_difference(D);
    const es_view v = es_view_f64(a, D, D);
    const double want = 2 + 2 * cos(3.14159265358979323846 / (D + 1));
    double last = INFINITY;
    for (int steps = 1; steps <= 27; steps *= 3) {
        es_num got;
        assert_int_equal(es_norm_certified(&v, steps, NULL, &got, &err), ES_E_NUMERIC);
        assert_string_equal(err.rule, "linalg.norm");
        assert_near(got.val, want, got.err);
        assert_at_most(got.val, want * (1 + EPS));
        assert_at_most(got.err, last);
        last = got.err;
    }
    free(a);
}

static void NU08_a_start_that_misses_the_largest_value_is_noticed(void **state)
{
    (void)state;
    /* The iteration starts from the hash that uniform() copies. Make the largest singular vector
     * orthogonal to it: a = I + e e', e unit, e . start = 0. Lanczos sees only the identity. */
    enum { D = 300 };
    double start[D], e[D] = {0}, *a = identity(D);
    seed_state = 0;
    for (int i = 0; i < D; i++)
        start[i] = uniform();
    const double length = hypot(start[0], start[1]);
    e[0] = start[1] / length, e[1] = -start[0] / length;
    for (int i = 0; i < D * D; i++)
        a[i] += e[i / D] * e[i % D];
    const es_view v = es_view_f64(a, D, D);
    es_num got;
    assert_int_equal(es_norm_certified(&v, 3, NULL, &got, &err), ES_E_NUMERIC);
    assert_near(got.val, 1.0, 1e-6); /* a perfect eigenpair, of the wrong eigenvalue */
    assert_near(got.val, 2.0, got.err);
    free(a);
}

static void qr_is_unique_and_rebuilds_the_matrix(void **state)
{
    (void)state;
    enum { M = 80, N = 50 };
    double *a = normals(10, M, N), *q = zeros(M, N), *r = zeros(N, N), *one = identity(N);
    const es_view va = es_view_f64(a, M, N), vq = es_view_f64(q, M, N);
    assert_ok(es_qr_factor(&va, NULL, q, r, &err));
    assert_below(product_error(vq, es_view_f64(r, N, N), va), 4 * M * EPS);
    assert_below(product_error(es_view_transpose(&vq), vq, es_view_f64(one, N, N)), 4 * M * EPS);
    for (int i = 0; i < N; i++) {
        assert_above(r[i * N + i], 0.0);
        for (int j = 0; j < i; j++)
            assert_equals(r[i * N + j], 0.0);
    }
    const es_view wide = es_view_transpose(&va);
    assert_int_equal(es_qr_factor(&wide, NULL, q, r, &err), ES_E_SHAPE);
    free(a), free(q), free(r), free(one);
}

static void haar_rotates_with_its_normals(void **state)
{
    (void)state;
    /* What makes it uniform: q(o g) = o q(g) for every orthogonal o, and o g is as normal as g. */
    enum { D = 40 };
    double *g = normals(11, D, D), *h = normals(12, D, D), *q = zeros(D, D), *o = zeros(D, D);
    double *og = zeros(D, D), *q_of_og = zeros(D, D), *minus = identity(D);
    const es_view vg = es_view_f64(g, D, D), vo = es_view_f64(o, D, D), vq = es_view_f64(q, D, D);
    assert_ok(es_haar_make(g, D, NULL, q, &err));
    assert_ok(es_haar_make(h, D, NULL, o, &err));
    assert_ok(es_mat_multiply(&vo, &vg, NULL, og, &err));
    assert_ok(es_haar_make(og, D, NULL, q_of_og, &err));
    assert_below(product_error(vo, vq, es_view_f64(q_of_og, D, D)), 1e-12);
    for (int i = 0; i < D * D; i++)
        minus[i] *= -1.0;
    assert_ok(es_haar_make(minus, D, NULL, q, &err)); /* plain LAPACK signs would give I */
    for (int i = 0; i < D * D; i++)
        assert_near(q[i], minus[i], 4 * EPS);
    memcpy(g + D, g, D * sizeof *g);
    assert_int_equal(es_haar_make(g, D, NULL, q, &err), ES_E_NUMERIC);
    free(g), free(h), free(q), free(o), free(og), free(q_of_og), free(minus);
}

static void haar_has_the_moments_of_the_uniform_law(void **state)
{
    (void)state;
    /* E q_11 = 0, E q_11^2 = 1/d, E q_11^4 = 3/(d(d+2)), E tr q = 0; 4000 draws, 5 standard errors.
     */
    enum { D = 3, DRAWS = 4000 };
    double sum = 0, sum2 = 0, sum4 = 0, trace = 0, g[D * D], q[D * D];
    seed_state = 13;
    for (int draw = 0; draw < DRAWS; draw++) {
        for (int i = 0; i < D * D; i++)
            g[i] = normal();
        assert_ok(es_haar_make(g, D, NULL, q, &err));
        sum += q[0], sum2 += q[0] * q[0], sum4 += pow(q[0], 4);
        trace += q[0] + q[4] + q[8];
    }
    const double five = 5 / sqrt(DRAWS);
    assert_near(sum / DRAWS, 0.0, five * sqrt(1.0 / 3));
    assert_near(sum2 / DRAWS, 1.0 / 3, five * sqrt(3.0 / 15 - 1.0 / 9));
    assert_near(sum4 / DRAWS, 3.0 / 15, five * sqrt(1.0 / 9 - 9.0 / 225));
    assert_near(trace / DRAWS, 0.0, five);
}

TEST_FILE(norm)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(svd_rebuilds_the_matrix),
        cmocka_unit_test(norm_of_closed_forms_is_within_its_claim),
        cmocka_unit_test(norm_agrees_with_svd_for_any_shape_and_scale),
        cmocka_unit_test(NU08_rank_deficient_and_zero_matrices_have_norms),
        cmocka_unit_test(NU08_no_convergence_is_a_bound_and_a_status),
        cmocka_unit_test(NU08_a_start_that_misses_the_largest_value_is_noticed),
        cmocka_unit_test(qr_is_unique_and_rebuilds_the_matrix),
        cmocka_unit_test(haar_rotates_with_its_normals),
        cmocka_unit_test(haar_has_the_moments_of_the_uniform_law),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
