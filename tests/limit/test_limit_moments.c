/* SPDX-License-Identifier: Apache-2.0 */
/* test_limit_moments.c : the limit map, moments of tokens and of outputs, against closed forms and
 * against each other. */
#include "testing.h"

#include <float.h>

#include "limit/limit.h"
#include "matrices.h"

static es_limit_accuracy accuracy;

static void map_of_a_gaussian_is_linear(void **state)
{
    (void)state;
    const double A[4] = {0.5, -0.2, 0.1, 0.8}, V[6] = {1.0, 0.5, -0.3, 0.7, 2.0, 0.0};
    const double B[4] = {1.0, 0.0, 0.4, 1.2}, m[2] = {0.2, -0.1}; /* S = {1, .4; .4, 1.6} */
    const float x[4] = {1.0F, 2.0F, -0.5F, 0.25F};
    const es_view queries = es_view_f32(x, 2, 2);
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = 2, .size = 1.0, .mean = m, .factor = B};
    const es_limit_head head = {A, V, 3};
    double out[6], error[2];
    es_num K[2];
    assert_ok(es_limit_map(&law, &head, &queries, NULL, out, K, error, &err));
    for (int i = 0; i < 2; i++) {
        const double *y = out + 3 * i, x0 = (double)x[2 * i], x1 = (double)x[2 * i + 1];
        const double t0 = 0.5 * x0 - 0.2 * x1, t1 = 0.1 * x0 + 0.8 * x1;
        const double g0 = 0.2 + t0 + 0.4 * t1, g1 = -0.1 + 0.4 * t0 + 1.6 * t1;
        assert_near(y[0], g0 + 0.5 * g1, error[i]);
        assert_near(y[1], -0.3 * g0 + 0.7 * g1, error[i]);
        assert_near(y[2], 2.0 * g0, error[i]);
        assert_below(error[i], 1e-13);
        assert_near(K[i].val, 0.2 * t0 - 0.1 * t1 + 0.5 * (t0 * t0 + 0.8 * t0 * t1 + 1.6 * t1 * t1),
                    K[i].err);
    }
    const es_view wide = es_view_f32(x, 1, 4);
    assert_int_equal(es_limit_map(&law, &head, &wide, NULL, out, NULL, NULL, &err), ES_E_SHAPE);
    const double nan2[2] = {0.0, (double)NAN};
    const es_view broken = es_view_f64(nan2, 1, 2);
    assert_int_equal(es_limit_map(&law, &head, &broken, NULL, out, NULL, NULL, &err),
                     ES_E_NONFINITE);
}

static void failing_query_is_named(void **state)
{
    (void)state;
    const double x[3] = {0.1, 0.5, 2.0};
    const es_view queries = es_view_f64(x, 3, 1);
    const es_law law = {.kind = ES_LAW_LAPLACE, .dim = 1, .size = 1.0};
    const es_limit_head head = {0};
    double out[3];
    assert_int_equal(es_limit_map(&law, &head, &queries, NULL, out, NULL, NULL, &err), ES_E_RANGE);
    assert_int_equal(err.row, 2);
}

static void moments_of_one_token(void **state)
{
    (void)state;
    static const double variance[] = {
        [ES_LAW_GAUSSIAN] = 4.0,           [ES_LAW_SPHERE] = 4.0 / 3.0, [ES_LAW_BALL] = 4.0 / 5.0,
        [ES_LAW_CUBE] = 4.0 / 3.0,         [ES_LAW_RADEMACHER] = 4.0,   [ES_LAW_LAPLACE] = 8.0,
        [ES_LAW_STUDENT] = 4.0 * 5.0 / 3.0};
    const double m[3] = {1.0, 2.0, 3.0};
    double mean[3], cov[9];
    for (int kind = ES_LAW_GAUSSIAN; kind <= ES_LAW_STUDENT; kind++) {
        es_law law = {.kind = (es_law_kind)kind, .dim = 3, .size = 2.0, .freedom = 5.0, .mean = m};
        assert_ok(es_limit_token_moments(&law, NULL, mean, cov, &err));
        for (int i = 0; i < 9; i++)
            assert_near(cov[i], i % 4 == 0 ? variance[kind] : 0.0, 1e-14);
        assert_memory_equal(mean, m, sizeof m);
        law.freedom = 1.5;
        assert_int_equal(es_limit_token_moments(&law, NULL, mean, cov, &err),
                         kind == ES_LAW_STUDENT ? ES_E_RANGE : ES_OK);
        assert_ok(es_limit_token_moments(&law, NULL, mean, NULL, &err));
    }
}

/* ---- sphere and ball ---- */

/* A = c I: |A x| is constant, so lambda = R^2 A_d(R^2 c)^2 / d, whatever d. */
static void isotropic_head_on_the_sphere(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 2, 3, 17, 64};
    for (size_t k = 0; k < sizeof dims / sizeof *dims; k++) {
        const int64_t d = dims[k];
        static double A[64 * 64], mean[64], cov[64 * 64];
        for (int64_t i = 0; i < d * d; i++)
            A[i] = i % (d + 1) == 0 ? 3.0 : 0.0;
        const es_law law = {.kind = ES_LAW_SPHERE, .dim = d, .size = 1.5};
        const es_limit_head head = {.A = A};
        es_num ratio;
        assert_ok(es_bessel_ratio(d, 2.25 * 3.0, &ratio, &err));
        assert_ok(es_limit_moments(&law, &head, NULL, NULL, mean, cov, &accuracy, &err));
        for (int64_t i = 0; i < d * d; i++)
            assert_near(cov[i], i % (d + 1) == 0 ? 2.25 * ratio.val * ratio.val / (double)d : 0.0,
                        accuracy.cov);
        assert_below(accuracy.cov, 1e-11);
    }
}

/* A of rank 1: s = sigma^2 T with T ~ Beta(1/2, (d-1)/2), an integral over one angle. */
static void head_of_rank_one_on_the_sphere(void **state)
{
    (void)state;
    enum { D = 6, STEPS = 4000 };
    const double sigma = 30.0, pi = 3.14159265358979324;
    double A[D * D] = {0}, mean[D], cov[D * D], top = 0.0, bottom = 0.0;
    A[2 * D + 1] = sigma;
    const es_law law = {.kind = ES_LAW_SPHERE, .dim = D, .size = 1.0};
    const es_limit_head head = {.A = A};
    assert_ok(es_limit_moments(&law, &head, NULL, NULL, mean, cov, &accuracy, &err));
    for (int i = 0; i < STEPS; i++) { /* periodic, smooth: the midpoint rule is exact */
        const double angle = pi * (i + 0.5) / STEPS, w = pow(sin(angle), D - 2);
        es_num ratio;
        assert_ok(es_bessel_ratio(D, sigma * fabs(cos(angle)), &ratio, &err));
        top += w * ratio.val * ratio.val;
        bottom += w;
    }
    assert_near(cov[2 * D + 2], top / bottom, accuracy.cov);
    assert_near(cov[2 * D + 2], top / bottom, 1e-10);
    assert_near(cov[0], 0.0, 1e-15);
}

/* General A and V against an average over many points; ball as the shadow of a sphere; the same
 * bits on one thread and on two. */
static void quadrature_agrees_with_sampling(void **state)
{
    (void)state;
    enum { D = 5, DV = 2, N = 20000 };
    double *A = normals(3, D, D), *V = normals(4, DV, D), *B = normals(6, D, D);
    double *points = normals(5, N, D + 2), mean[DV], cov[DV * DV], other[DV * DV];
    const es_limit_head head = {A, V, DV};
    for (int ball = 0; ball <= 1; ball++) {
        double *x = zeros(N, D), *y = zeros(N, DV);
        const int64_t q = ball ? D + 2 : D;
        for (int64_t i = 0; i < N; i++) {
            double norm2 = 0.0;
            for (int64_t j = 0; j < q; j++)
                norm2 += points[i * (D + 2) + j] * points[i * (D + 2) + j];
            for (int64_t j = 0; j < D; j++) {
                for (int64_t k = 0; k < D; k++)
                    x[i * D + j] += B[j * D + k] * 0.9 * points[i * (D + 2) + k] / sqrt(norm2);
            }
        }
        const es_law law = {
            .kind = ball ? ES_LAW_BALL : ES_LAW_SPHERE, .dim = D, .size = 0.9, .factor = B};
        es_exec exec = {.threads = 1};
        assert_ok(es_limit_moments(&law, &head, NULL, &exec, mean, cov, &accuracy, &err));
        assert_int_equal(accuracy.method, ES_LIMIT_QUADRATURE);
        assert_below(accuracy.cov, 1e-9);
        exec.threads = 2;
        assert_ok(es_limit_moments(&law, &head, NULL, &exec, mean, other, &accuracy, &err));
        assert_memory_equal(cov, other, sizeof cov);
        const es_view queries = es_view_f64(x, N, D);
        assert_ok(es_limit_map(&law, &head, &queries, NULL, y, NULL, NULL, &err));
        for (int k = 0; k < DV * DV; k++) { /* the true mean is 0 */
            double sum = 0.0, squares = 0.0;
            for (int64_t i = 0; i < N; i++) {
                const double p = y[i * DV + k / DV] * y[i * DV + k % DV];
                sum += p / N;
                squares += p * p / N;
            }
            assert_near(cov[k], sum, 4.5 * sqrt((squares - sum * sum) / N));
        }
        free(x), free(y);
    }
    free(A), free(V), free(B), free(points);
}

/* ---- one dimension, points ---- */

/* Gamma(x) = tanh(3x) for a sign; a cube is an integral of Langevin's function. */
static void quadrature_on_the_line(void **state)
{
    (void)state;
    const double a = 3.0, V[2] = {1.0, -2.0}, shift = 0.25;
    double mean[2], cov[4];
    const es_limit_head head = {&a, V, 2};
    const es_law sign = {.kind = ES_LAW_RADEMACHER, .dim = 1, .size = 1.0};
    assert_ok(es_limit_moments(&sign, &head, NULL, NULL, mean, cov, &accuracy, &err));
    assert_near(mean[0], 0.0, 1e-15);
    assert_near(cov[0], tanh(3.0) * tanh(3.0), 1e-14);
    assert_near(cov[1], -2.0 * cov[0], 1e-15);
    assert_near(cov[3], 4.0 * cov[0], 1e-15);

    const es_law cube = {.kind = ES_LAW_CUBE, .dim = 1, .size = 2.0, .mean = &shift};
    assert_ok(es_limit_moments(&cube, &head, NULL, NULL, mean, cov, &accuracy, &err));
    double want = 0.0, squares = 0.0;
    enum { STEPS = 20000 };
    for (int i = 0; i < STEPS; i++) {
        const double x = shift + 2.0 * (2.0 * (i + 0.5) / STEPS - 1.0), z = 2.0 * a * x;
        const double g = shift + 2.0 * (1.0 / tanh(z) - 1.0 / z);
        want += g / STEPS;
        squares += g * g / STEPS;
    }
    assert_near(mean[0], want, 1e-7);
    assert_near(cov[0], squares - want * want, 1e-6);
    assert_below(accuracy.cov, 1e-11);

    /* A mixture of one Gaussian is a Gaussian. */
    const double size = 0.7, one = 1.0;
    const es_law part = {.kind = ES_LAW_GAUSSIAN, .dim = 1, .size = size, .mean = &shift};
    const es_law mixture = {
        .kind = ES_LAW_MIXTURE, .dim = 1, .parts = &part, .weights = &one, .n_parts = 1};
    double mean2[2], cov2[4];
    assert_ok(es_limit_moments(&part, &head, NULL, NULL, mean, cov, &accuracy, &err));
    assert_ok(es_limit_moments(&mixture, &head, NULL, NULL, mean2, cov2, &accuracy, &err));
    assert_near(mean[0], mean2[0], 1e-13);
    assert_near(cov[3], cov2[3], 1e-12);
}

static void averages_over_points(void **state)
{
    (void)state;
    enum { N = 8 };
    double corners[N * 3], mean[3], cov[9], mean2[3], cov2[9];
    for (int i = 0; i < N * 3; i++)
        corners[i] = (i / 3) >> (i % 3) & 1 ? 1.0 : -1.0;
    const es_view points = es_view_f64(corners, N, 3);
    const es_law signs = {.kind = ES_LAW_RADEMACHER, .dim = 3, .size = 1.0};
    const es_law finite = {.kind = ES_LAW_EMPIRICAL, .dim = 3, .points = &points};
    const es_limit_head head = {0};
    assert_int_equal(es_limit_moments(&signs, &head, NULL, NULL, mean, cov, &accuracy, &err),
                     ES_E_UNSUPPORTED);
    /* Every corner once: the sample is the law, but for the divisor n - 1. */
    assert_ok(es_limit_moments(&signs, &head, &points, NULL, mean, cov, &accuracy, &err));
    assert_int_equal(accuracy.method, ES_LIMIT_SAMPLED);
    assert_near(accuracy.mean, tanh(1.0) / sqrt(N - 1.0), 1e-12);
    assert_ok(es_limit_moments(&finite, &head, NULL, NULL, mean2, cov2, &accuracy, &err));
    assert_int_equal(accuracy.method, ES_LIMIT_EXACT);
    for (int i = 0; i < 9; i++) {
        assert_near(cov2[i], i % 4 == 0 ? tanh(1.0) * tanh(1.0) : 0.0, accuracy.cov + 1e-15);
        assert_near(cov[i] * (N - 1) / N, cov2[i], 1e-14);
    }
    assert_string_equal(es_limit_method_name(ES_LIMIT_SAMPLED), "sampled");
}

static void outputs_without_moments_are_refused(void **state)
{
    (void)state;
    double mean[2], cov[4];
    const double weights[2] = {1.0, 1.0};
    const es_law parts[2] = {{.kind = ES_LAW_GAUSSIAN, .dim = 2, .size = 1.0},
                             {.kind = ES_LAW_LAPLACE, .dim = 2, .size = 1.0}};
    const es_law mixture = {
        .kind = ES_LAW_MIXTURE, .dim = 2, .parts = parts, .weights = weights, .n_parts = 2};
    const es_limit_head head = {0};
    assert_int_equal(es_limit_moments(&mixture, &head, NULL, NULL, mean, cov, &accuracy, &err),
                     ES_E_RANGE);
    es_mem_limit budget = {.limit = 1000};
    const es_exec exec = {.budget = &budget};
    const es_law sphere = {.kind = ES_LAW_SPHERE, .dim = 2, .size = 1.0};
    assert_int_equal(es_limit_moments(&sphere, &head, NULL, &exec, mean, cov, &accuracy, &err),
                     ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
    const double V[2] = {0.0, (double)NAN};
    const es_limit_head broken = {.V = V, .dv = 1};
    assert_int_equal(es_limit_moments(&sphere, &broken, NULL, NULL, mean, cov, &accuracy, &err),
                     ES_E_NONFINITE);
}

/* ---- the truncated normal ---- */

static void expect_num(es_num got, double want)
{
    assert_near(got.val, want, got.err + DBL_EPSILON * fabs(want));
    assert_at_most(got.err, 1e-11 * fabs(want));
}

/* Far out in the tail the law is nearly exponential; formulas that cancel fail here. Values from
 * mpmath at 60 digits. */
static void truncated_normal_in_its_tail(void **state)
{
    (void)state;
    es_num out[3];
    const es_truncated law_0 = {0.0, 1.0, -1.0, 2.0};
    assert_ok(es_limit_truncated(&law_0, -40.0, out, &err));
    expect_num(out[0], 35.117009729946918);
    expect_num(out[1], -0.97439258006989154);
    expect_num(out[2], 0.0006548827702932843);
    const es_truncated law_1 = {0.0, 1.0, -1.0, 2.0};
    assert_ok(es_limit_truncated(&law_1, 40.0, out, &err));
    expect_num(out[0], 73.642950275504332);
    expect_num(out[1], 1.973720533424131);
    expect_num(out[2], 0.00068965975346625887);
    const es_truncated law_2 = {0.3, 1.2, -1.0, 2.0};
    assert_ok(es_limit_truncated(&law_2, 1.5, out, &err));
    expect_num(out[0], 1.2620694292967896);
    expect_num(out[1], 1.2060960138076492);
    expect_num(out[2], 0.38004476605325795);
    const es_truncated law_3 = {0.0, 2.0, -50.0, 50.0};
    assert_ok(es_limit_truncated(&law_3, 3.0, out, &err));
    expect_num(out[0], 18.0);
    expect_num(out[1], 12.0);
    expect_num(out[2], 4.0);
    const es_truncated law_4 = {5.0, 1.0, 0.0, 1.0};
    assert_ok(es_limit_truncated(&law_4, 0.5, out, &err));
    expect_num(out[0], 0.396169138565741);
    expect_num(out[1], 0.80111559312735521);
    expect_num(out[2], 0.033589551515176672);
    const es_truncated reversed = {0, 1, 2, 1};
    assert_int_equal(es_limit_truncated(&reversed, 0.0, out, &err), ES_E_RANGE);
}

TEST_FILE(limit_moments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(map_of_a_gaussian_is_linear),
                                       cmocka_unit_test(failing_query_is_named),
                                       cmocka_unit_test(moments_of_one_token),
                                       cmocka_unit_test(isotropic_head_on_the_sphere),
                                       cmocka_unit_test(head_of_rank_one_on_the_sphere),
                                       cmocka_unit_test(quadrature_agrees_with_sampling),
                                       cmocka_unit_test(quadrature_on_the_line),
                                       cmocka_unit_test(averages_over_points),
                                       cmocka_unit_test(outputs_without_moments_are_refused),
                                       cmocka_unit_test(truncated_normal_in_its_tail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
