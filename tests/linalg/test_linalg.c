/* SPDX-License-Identifier: Apache-2.0 */
/* test_linalg.c : linear algebra against closed forms, identities and plain long double loops.
 * Tolerances are c n eps times the size of what is compared, with c stated at each place. */
#include "testing.h"

#include <cblas.h>

#include "base/threads.h"
#include "base/view.h"
#include "linalg/dense.h"
#include "linalg/linalg.h"
#include "matrices.h"

/* ---- products and moments ---- */

static void multiply_agrees_with_long_double(void **state)
{
    (void)state;
    double *a = normals(1, 37, 53), *b = normals(2, 53, 29), *c = zeros(53, 53);
    const es_view va = es_view_f64(a, 37, 53), vb = es_view_f64(b, 53, 29);
    assert_ok(es_mat_multiply(&va, &vb, NULL, c, &err));
    assert_below(product_error(va, vb, es_view_f64(c, 37, 29)), 53 * 53 * EPS);
    const es_view ta = es_view_transpose(&va); /* a'a: a view is transposed for free */
    assert_ok(es_mat_multiply(&ta, &va, NULL, c, &err));
    assert_below(product_error(ta, va, es_view_f64(c, 53, 53)), 37 * 53 * EPS);
    assert_int_equal(es_mat_multiply(&va, &va, NULL, c, &err), ES_E_SHAPE);
    const double huge[1] = {1e200};
    const es_view h = es_view_f64(huge, 1, 1);
    assert_int_equal(es_mat_multiply(&h, &h, NULL, c, &err), ES_E_OVERFLOW);
    free(a), free(b), free(c);
}

static void covariance_of_four_points(void **state)
{
    (void)state;
    const float x[8] = {1, 2, 3, 4, 5, 10, 7, 0}; /* means 4, 4 */
    const es_view v = es_view_f32(x, 4, 2);
    double mean[2], cov[4];
    assert_ok(es_cov_estimate(&v, false, NULL, mean, cov, &err));
    assert_equals(mean[0], 4.0);
    assert_equals(mean[1], 4.0);
    assert_equals(cov[0], 5.0);
    assert_equals(cov[1], 0.0);
    assert_equals(cov[2], 0.0);
    assert_equals(cov[3], 14.0);
    assert_ok(es_cov_estimate(&v, true, NULL, NULL, cov, &err));
    assert_close(cov[0], 20.0 / 3, EPS);
    assert_close(cov[3], 56.0 / 3, EPS);
}

static void covariance_agrees_with_long_double_far_from_zero(void **state)
{
    (void)state;
    enum { N = 1000, D = 70 };
    double *x = normals(3, N, D), *cov = zeros(D, D), mean[D];
    for (int i = 0; i < N * D; i++)
        x[i] += 1e6; /* E x^2 - (E x)^2 would lose 12 of 16 digits here */
    const es_view v = es_view_f64(x, N, D);
    assert_ok(es_cov_estimate(&v, false, NULL, mean, cov, &err));
    for (int a = 0; a < D; a++) {
        for (int b = 0; b < D; b++) {
            long double ma = 0, mb = 0, c = 0;
            for (int i = 0; i < N; i++)
                ma += x[i * D + a], mb += x[i * D + b];
            for (int i = 0; i < N; i++)
                c += (x[i * D + a] - ma / N) * (x[i * D + b] - mb / N);
            assert_near(cov[a * D + b], (double)(c / N), 100 * EPS);
            assert_equals(cov[a * D + b], cov[b * D + a]);
        }
    }
    free(x), free(cov);
}

static void covariance_has_the_same_bits_for_any_thread_count(void **state)
{
    (void)state;
    enum { N = 700, D = 200 };
    double *x = normals(4, N, D), *one = zeros(D, D), *many = zeros(D, D);
    const es_view v = es_view_f64(x, N, D);
    const es_exec single = {.threads = 1};
    assert_ok(es_cov_estimate(&v, false, &single, NULL, one, &err));
    for (int threads = 2; threads <= 8; threads++) {
        const es_exec exec = {.threads = threads};
        assert_ok(es_cov_estimate(&v, false, &exec, NULL, many, &err));
        assert_memory_equal(one, many, D * D * sizeof *one);
    }
    free(x), free(one), free(many);
}

static void NU06_identical_tokens_have_no_covariance(void **state)
{
    (void)state;
    const double row[3] = {0.1, 1e9 / 3, -7e-5};
    es_view v = es_view_f64(row, 1, 3);
    v.rows = 1001, v.row_stride = 0;
    double cov[9], mean[3];
    assert_ok(es_cov_estimate(&v, false, NULL, mean, cov, &err));
    for (int i = 0; i < 9; i++)
        assert_near(cov[i], 0.0, 1e-13); /* (1e9 eps)^2 */
    v.rows = 1;
    assert_ok(es_cov_estimate(&v, false, NULL, mean, cov, &err));
    for (int i = 0; i < 9; i++)
        assert_equals(cov[i], 0.0);
    assert_int_equal(es_cov_estimate(&v, true, NULL, mean, cov, &err), ES_E_EMPTY);
    v.rows = 0;
    assert_int_equal(es_cov_estimate(&v, false, NULL, mean, cov, &err), ES_E_EMPTY);
    const double huge[2] = {1e200, -1e200};
    v = es_view_f64(huge, 2, 1);
    assert_int_equal(es_cov_estimate(&v, false, NULL, mean, cov, &err), ES_E_OVERFLOW);
}

/* ---- symmetric matrices ---- */

static void symmetry_is_checked_and_the_worst_pair_named(void **state)
{
    (void)state;
    double a[9] = {1, 2, 3, 2, 5, 6, 3, 6, 9}, gap;
    es_view v = es_view_f64(a, 3, 3);
    assert_ok(es_sym_check(&v, "S", &gap, &err));
    assert_equals(gap, 0.0);
    a[7] = 6.0 * (1 + 1e-7); /* rounding of an f32 file */
    assert_ok(es_sym_check(&v, "S", &gap, &err));
    assert_close(gap, 6e-7 / 9, 1e-6);
    a[7] = 6.5;
    assert_int_equal(es_sym_check(&v, "S", &gap, &err), ES_E_NUMERIC);
    assert_equals(err.row, 2);
    assert_equals(err.col, 1);
    v.cols = 2;
    assert_int_equal(es_sym_check(&v, "S", &gap, &err), ES_E_SHAPE);
}

static void eigenvalues_of_closed_forms(void **state)
{
    (void)state;
    const double two[4] = {3, 1, 1, 2};
    es_view v = es_view_f64(two, 2, 2);
    double w[64];
    assert_ok(es_sym_eigen(&v, NULL, w, NULL, &err));
    assert_close(w[0], (5 - sqrt(5.0)) / 2, 8 * EPS);
    assert_close(w[1], (5 + sqrt(5.0)) / 2, 8 * EPS);
    enum { D = 64 };
    double *a = second_difference(D), *vectors = zeros(D, D), *scaled = zeros(D, D);
    v = es_view_f64(a, D, D);
    assert_ok(es_sym_eigen(&v, NULL, w, vectors, &err));
    for (int j = 0; j < D; j++)
        assert_near(w[j], 2 - 2 * cos(3.14159265358979323846 * (j + 1) / (D + 1)), 4 * D * EPS);
    for (int j = 0; j < D * D; j++)
        scaled[j] = w[j / D] * vectors[j];
    const es_view rows = es_view_f64(vectors, D, D), cols = es_view_transpose(&rows);
    double *one = identity(D);
    assert_below(product_error(rows, cols, es_view_f64(one, D, D)), D * EPS * 4);
    assert_below(product_error(cols, es_view_f64(scaled, D, D), v), D * EPS * 4 * 4);
    free(a), free(vectors), free(scaled), free(one);
}

static void cholesky_of_closed_forms(void **state)
{
    (void)state;
    const double a[4] = {4, 2, 2, 5};
    const es_view v = es_view_f64(a, 2, 2);
    double l[4], jitter = 9;
    assert_ok(es_chol_factor(&v, 0, NULL, l, &jitter, &err));
    assert_equals(l[0], 2.0);
    assert_equals(l[1], 0.0);
    assert_equals(l[2], 1.0);
    assert_equals(l[3], 2.0);
    assert_equals(jitter, 0.0);
    enum { D = 90 };
    double *w = wishart(5, D, 200), *big = zeros(D, D);
    const es_view vw = es_view_f64(w, D, D), lower = es_view_f64(big, D, D);
    assert_ok(es_chol_factor(&vw, 0, NULL, big, &jitter, &err));
    assert_equals(jitter, 0.0);
    assert_below(product_error(lower, es_view_transpose(&lower), vw), 4 * D * EPS);
    free(w), free(big);
}

/* l l' - a is jitter I, up to rounding, and the jitter is rounding itself. */
static void expect_jitter(const double *a, int64_t d, bool wanted)
{
    double *l = zeros(d, d), *target = zeros(d, d), jitter, trace = 0.0;
    const es_view v = es_view_f64(a, d, d), lower = es_view_f64(l, d, d);
    assert_ok(es_chol_factor(&v, 0, NULL, l, &jitter, &err));
    memcpy(target, a, (size_t)(d * d) * sizeof *a);
    for (int64_t i = 0; i < d; i++) {
        target[i * d + i] += jitter;
        trace += a[i * d + i];
    }
    assert_at_least(jitter, 0.0);
    assert_at_most(jitter, 64 * EPS * trace);
    if (wanted)
        assert_above(jitter, 0.0);
    assert_below(product_error(lower, es_view_transpose(&lower), es_view_f64(target, d, d)),
                 4 * (double)d * EPS * trace);
    free(l), free(target);
}

static void NU07_singular_covariance_gets_a_reported_jitter(void **state)
{
    (void)state;
    const double ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    expect_jitter(ones, 3, true);
    for (int64_t d = 8; d <= 40; d += 4) { /* condition 1e10 .. far beyond 1e16 */
        double *h = hilbert(d);
        expect_jitter(h, d, d >= 16);
        free(h);
    }
    double *deficient = wishart(6, 60, 20); /* fewer tokens than dimensions */
    expect_jitter(deficient, 60, true);
    free(deficient);
    const double none[4] = {0};
    const es_view v = es_view_f64(none, 2, 2);
    double l[4] = {7, 7, 7, 7}, jitter = 7;
    assert_ok(es_chol_factor(&v, 0, NULL, l, &jitter, &err));
    assert_equals(l[0], 0);
    assert_equals(l[1], 0);
    assert_equals(l[2], 0);
    assert_equals(l[3], 0);
    assert_equals(jitter, 0);
}

static void NU07_indefinite_matrix_is_refused_naming_its_eigenvalue(void **state)
{
    (void)state;
    const double a[4] = {1, 2, 2, 1}; /* eigenvalues -1, 3 */
    es_view v = es_view_f64(a, 2, 2);
    double out[4], jitter;
    assert_int_equal(es_chol_factor(&v, 0, NULL, out, &jitter, &err), ES_E_NUMERIC);
    assert_string_equal(err.message,
                        "smallest eigenvalue -1, largest 3: not positive semidefinite");
    assert_int_equal(es_sym_sqrt(&v, 0, NULL, out, NULL, &err), ES_E_NUMERIC);
    assert_string_equal(err.rule, "linalg.positive");
    const double minus[4] = {-1, 0, 0, -1};
    v = es_view_f64(minus, 2, 2);
    assert_int_equal(es_chol_factor(&v, 0, NULL, out, &jitter, &err), ES_E_NUMERIC);
    /* Indefinite by the rounding of f32: refused, unless the caller says that f32 it was. */
    const double single[4] = {1, 1 + 1e-7, 1 + 1e-7, 1};
    v = es_view_f64(single, 2, 2);
    assert_int_equal(es_chol_factor(&v, 0, NULL, out, &jitter, &err), ES_E_NUMERIC);
    assert_ok(es_chol_factor(&v, 1e-5, NULL, out, &jitter, &err));
    assert_between(jitter, 1e-7, 1e-5);
    es_clipped clipped;
    assert_ok(es_sym_sqrt(&v, 1e-5, NULL, out, &clipped, &err));
    assert_int_equal(clipped.count, 1);
    assert_close(clipped.most, 1e-7, 1e-6);
}

static void square_root_of_closed_forms(void **state)
{
    (void)state;
    const double a[4] = {3, 1, 1, 2}; /* sqrt(M) = (M + sqrt(det) I) / sqrt(tr + 2 sqrt(det)) */
    es_view v = es_view_f64(a, 2, 2);
    const double root_det = sqrt(5.0), scale = sqrt(5.0 + 2 * root_det);
    double r[4];
    es_clipped clipped;
    assert_ok(es_sym_sqrt(&v, 0, NULL, r, &clipped, &err));
    assert_int_equal(clipped.count, 0);
    assert_close(r[0], (3 + root_det) / scale, 8 * EPS);
    assert_close(r[1], 1 / scale, 8 * EPS);
    assert_close(r[3], (2 + root_det) / scale, 8 * EPS);
    assert_equals(r[1], r[2]);
    enum { D = 60 };
    double *w = wishart(6, D, 20), *root = zeros(D, D); /* rank 20 */
    v = es_view_f64(w, D, D);
    assert_ok(es_sym_sqrt(&v, 0, NULL, root, &clipped, &err));
    assert_in_range(clipped.count, 1, D - 20); /* about half of the zeros come out below 0 */
    assert_between(clipped.most, 0.0, 64 * D * EPS);
    const es_view vr = es_view_f64(root, D, D);
    assert_below(product_error(vr, vr, v), 64 * D * EPS);
    free(w), free(root);
}

/* ---- general rules ---- */

static void blas_threads_change_no_bit_and_are_given_back(void **state)
{
    (void)state;
    enum { D = 300 };
    double *a = wishart(14, D, 320), *l[2], *s[2], *root[2], *product[2], jitter;
    es_num norm[2];
    const es_view v = es_view_f64(a, D, D);
    for (int i = 0; i < 2; i++) {
        openblas_set_num_threads(i ? 4 : 1);
        const int before = openblas_get_num_threads();
        l[i] = zeros(D, D), root[i] = zeros(D, D), product[i] = zeros(D, D), s[i] = zeros(D, 1);
        assert_ok(es_chol_factor(&v, 0, NULL, l[i], &jitter, &err));
        assert_ok(es_sym_sqrt(&v, 0, NULL, root[i], NULL, &err));
        assert_ok(es_mat_multiply(&v, &v, NULL, product[i], &err));
        assert_ok(es_svd_factor(&v, NULL, s[i], NULL, NULL, NULL, &err));
        assert_ok(es_norm_spectral(&v, NULL, &norm[i], &err));
        assert_int_equal(openblas_get_num_threads(), before);
    }
    assert_memory_equal(l[0], l[1], D * D * sizeof *a);
    assert_memory_equal(root[0], root[1], D * D * sizeof *a);
    assert_memory_equal(product[0], product[1], D * D * sizeof *a);
    assert_memory_equal(s[0], s[1], D * sizeof *a);
    assert_memory_equal(&norm[0], &norm[1], sizeof norm[0]);
    for (int i = 0; i < 2; i++)
        free(l[i]), free(root[i]), free(product[i]), free(s[i]);
    free(a);
}

/* Many sections at once, opened and closed in any order: inside each BLAS has one thread, and the
 * last to leave restores the setting. */
static es_status factor_unit(void *context, int64_t unit, int thread, es_error *error)
{
    (void)unit, (void)thread;
    double *l = zeros(60, 60);
    const es_view v = es_view_f64(context, 60, 60);
    es_blas_enter();
    const es_status status = es_chol_factor(&v, 0, NULL, l, NULL, error);
    const int inside = openblas_get_num_threads();
    es_blas_leave();
    free(l);
    return inside == 1 ? status : ES_E_NUMERIC;
}

static void blas_sections_may_overlap(void **state)
{
    (void)state;
    double *a = wishart(15, 60, 90);
    const es_exec exec = {.threads = 4};
    openblas_set_num_threads(3);
    const int before = openblas_get_num_threads();
    assert_ok(es_parallel_run(&exec, 200, factor_unit, a, &err));
    assert_int_equal(openblas_get_num_threads(), before);
    free(a);
}

/* Every function on one (4, 4) matrix, in turn. */
static es_status call(int which, const es_view *a, es_mem_limit *budget)
{
    static double out[16], more[16], few[4], x;
    const es_exec exec = {.budget = budget};
    es_num num;
    switch (which) {
    case 0:
        return es_mat_multiply(a, a, budget, out, &err);
    case 1:
        return es_cov_estimate(a, false, &exec, few, out, &err);
    case 2:
        return es_sym_eigen(a, budget, few, out, &err);
    case 3:
        return es_chol_factor(a, 0, budget, out, &x, &err);
    case 4:
        return es_sym_sqrt(a, 0, budget, out, NULL, &err);
    case 5:
        return es_svd_factor(a, budget, few, out, more, &x, &err);
    case 6:
        return es_norm_spectral(a, budget, &num, &err);
    case 7:
        return es_norm_certified(a, 4, budget, &num, &err);
    case 8:
        return es_qr_factor(a, budget, out, more, &err);
    default:
        return es_haar_make(a->data, 4, budget, out, &err);
    }
}

static void every_function_locates_nan_and_counts_its_memory(void **state) /* NU03 */
{
    (void)state;
    double a[16];
    for (int i = 0; i < 16; i++)
        a[i] = (i % 5 == 0 ? 4.0 : 1.0) + 0.1 * (i % 5 == 0 ? i : 0);
    const es_view v = es_view_f64(a, 4, 4);
    for (int which = 0; which <= 9; which++) {
        es_mem_limit open = {0}, tight = {0};
        assert_ok(call(which, &v, &open));
        assert_int_equal(open.used, 0);
        assert_above(open.peak, 0);
        /* Refuse each allocation in turn: nothing leaks, nothing is used half made. */
        for (tight.limit = 1; tight.limit < open.peak; tight.limit += 64) {
            assert_int_equal(call(which, &v, &tight), ES_E_LIMIT);
            assert_int_equal(tight.used, 0);
        }
        const double kept = a[14];
        a[14] = NAN;
        assert_int_equal(call(which, &v, &open), ES_E_NONFINITE);
        assert_true((err.row == 3 && err.col == 2) || (err.row == 2 && err.col == 3));
        assert_int_equal(open.used, 0);
        a[14] = kept;
        const es_view none = es_view_f64(a, 0, 4),
                      missing = {.dtype = ES_F64, .rows = 1, .cols = 1};
        if (which < 9) {
            const es_status status = call(which, &none, NULL);
            assert_true(status == ES_E_EMPTY || status == ES_E_SHAPE);
            assert_int_equal(call(which, &missing, NULL), ES_E_ARGUMENT);
        }
    }
}

static void dimensions_above_the_limit_are_refused(void **state)
{
    (void)state;
    const double x[1] = {1};
    es_view v = es_view_f64(x, 5000, 5000);
    v.row_stride = v.col_stride = 0; /* nobody has to store it */
    for (int which = 0; which <= 8; which++)
        assert_int_equal(call(which, &v, NULL), ES_E_SHAPE);
}

/* Horizons of THEORY.md: reach = largest eigenvalue of S, |S^1/2 A| and |S^1/2 A S^1/2|, as golden
 * values computed elsewhere (golden/theory.json, group horizons, cases 0 and 2). */
static void horizons_agree_with_golden_values(void **state)
{
    (void)state;
    static const struct {
        int d;
        double a[9], s[9], reach, one_sided, two_sided;
    } cases[] = {
        {2,
         {0.5, -0.2, 0.1, 0.8},
         {1.0, 0.4, 0.4, 2.0},
         2.1403124237432847,
         1.1136923900766087,
         1.623925663127828},
        {3,
         {1.0, 2.0, 0.0, 0.0, -1.0, 0.5, 0.3, 0.0, 2.0},
         {1.0, 0.3, 0.0, 0.3, 0.8, -0.2, 0.0, -0.2, 0.5},
         1.235889894354067,
         2.138519284685595,
         2.1817193173125595},
    };
    for (int c = 0; c < 2; c++) {
        const int d = cases[c].d;
        const es_view a = es_view_f64(cases[c].a, d, d), s = es_view_f64(cases[c].s, d, d);
        double root[9], half[9], full[9], values[3];
        const es_view r = es_view_f64(root, d, d), h = es_view_f64(half, d, d);
        const es_view f = es_view_f64(full, d, d);
        es_num num;
        assert_ok(es_sym_eigen(&s, NULL, values, NULL, &err));
        assert_close(values[d - 1], cases[c].reach, 16 * EPS);
        assert_ok(es_sym_sqrt(&s, 0, NULL, root, NULL, &err));
        assert_ok(es_mat_multiply(&r, &a, NULL, half, &err));
        assert_ok(es_norm_spectral(&h, NULL, &num, &err));
        assert_close(num.val, cases[c].one_sided, 32 * EPS);
        assert_ok(es_mat_multiply(&h, &r, NULL, full, &err));
        assert_ok(es_norm_spectral(&f, NULL, &num, &err));
        assert_close(num.val, cases[c].two_sided, 32 * EPS);
    }
}

TEST_FILE(linalg)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multiply_agrees_with_long_double),
        cmocka_unit_test(covariance_of_four_points),
        cmocka_unit_test(covariance_agrees_with_long_double_far_from_zero),
        cmocka_unit_test(covariance_has_the_same_bits_for_any_thread_count),
        cmocka_unit_test(NU06_identical_tokens_have_no_covariance),
        cmocka_unit_test(symmetry_is_checked_and_the_worst_pair_named),
        cmocka_unit_test(eigenvalues_of_closed_forms),
        cmocka_unit_test(cholesky_of_closed_forms),
        cmocka_unit_test(NU07_singular_covariance_gets_a_reported_jitter),
        cmocka_unit_test(NU07_indefinite_matrix_is_refused_naming_its_eigenvalue),
        cmocka_unit_test(square_root_of_closed_forms),
        cmocka_unit_test(blas_threads_change_no_bit_and_are_given_back),
        cmocka_unit_test(blas_sections_may_overlap),
        cmocka_unit_test(every_function_locates_nan_and_counts_its_memory),
        cmocka_unit_test(dimensions_above_the_limit_are_refused),
        cmocka_unit_test(horizons_agree_with_golden_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
