/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokens_moments.c : moments of the laws, to fourth order, against their exact values. */
#include "token_sample.h"

/* E z_i^2, E z_i^4 and E z_i^2 z_j^2 of the base laws of size 1; odd moments are 0. */
static void even_moments(const es_law *law, double m[3])
{
    const double d = (double)law->dim, nu = law->freedom;
    const double student = nu * nu / ((nu - 2) * (nu - 4)), sphere = 1 / (d * (d + 2));
    const double ball = 1 / ((d + 2) * (d + 4));
    const double table[][3] = {[ES_LAW_GAUSSIAN] = {1, 3, 1},
                               [ES_LAW_SPHERE] = {1 / d, 3 * sphere, sphere},
                               [ES_LAW_BALL] = {1 / (d + 2), 3 * ball, ball},
                               [ES_LAW_CUBE] = {1.0 / 3, 1.0 / 5, 1.0 / 9},
                               [ES_LAW_RADEMACHER] = {1, 1, 1},
                               [ES_LAW_LAPLACE] = {2, 24, 4},
                               [ES_LAW_STUDENT] = {nu / (nu - 2), 3 * student, student}};
    const double s2 = law->size * law->size;
    m[0] = table[law->kind][0] * s2;
    m[1] = table[law->kind][1] * s2 * s2;
    m[2] = table[law->kind][2] * s2 * s2;
}

static void check_moments(const es_law *law)
{
    double *x = tokens_of(law, N, (uint64_t)law->kind), *y = malloc(N * sizeof *y), even[3];
    const int64_t d = law->dim;
    assert_non_null(y);
    even_moments(law, even);
    for (int64_t a = 0; a < d; a++) {
        for (int64_t b = 0; b < d; b++) {
            static const struct {
                const char *what;
                int p, q; /* powers of coordinates a and b; E depends on which is even */
            } cases[] = {{"E z", 1, 0},
                         {"E z z'", 1, 1},
                         {"E z^2 z'", 2, 1},
                         {"E z^3 z'", 3, 1},
                         {"E z^2 z'^2", 2, 2}};
            for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
                const int p = cases[k].p, q = cases[k].q, sum = p + q;
                for (int64_t i = 0; i < N; i++)
                    y[i] = pow(x[i * d + a], p) * pow(x[i * d + b], q);
                double expected = 0.0;
                if (sum == 2 && a == b)
                    expected = even[0];
                if (sum == 4 && a == b)
                    expected = even[1];
                if (p == 2 && q == 2 && a != b)
                    expected = even[2];
                assert_mean(y, N, expected, cases[k].what, (int)law->kind);
            }
        }
    }
    free(x);
    free(y);
}

static void base_laws_have_their_moments(void **state)
{
    (void)state;
    for (int kind = ES_LAW_GAUSSIAN; kind <= ES_LAW_STUDENT; kind++) {
        const es_law law = {.kind = (es_law_kind)kind, .dim = 4, .size = 1.5, .freedom = 20};
        check_moments(&law);
    }
    const es_law odd = {.kind = ES_LAW_BALL, .dim = 1, .size = 2};
    check_moments(&odd);
}

/* Mean and covariance of mean + B z are `mean` and m2 B B'. */
static void images_have_their_covariance(void **state)
{
    (void)state;
    enum { D = 11 };
    static double b[D * D], mean[D], y[N];
    assert_ok(es_normal_rows(&(es_address){.seed = 8}, D, D, b, &err));
    assert_ok(es_normal_rows(&(es_address){.seed = 9}, 1, D, mean, &err));
    for (int kind = ES_LAW_GAUSSIAN; kind <= ES_LAW_STUDENT; kind++) {
        const es_law law = {.kind = (es_law_kind)kind,
                            .dim = D,
                            .size = 0.5,
                            .freedom = 20,
                            .mean = mean,
                            .factor = b};
        double *x = tokens_of(&law, N, 100 + (uint64_t)kind), even[3];
        even_moments(&law, even);
        for (int i = 0; i < D; i++) {
            for (int r = 0; r < N; r++)
                y[r] = x[r * D + i];
            assert_mean(y, N, mean[i], "mean of an image", kind);
            for (int j = 0; j <= i; j++) {
                double expected = 0.0;
                for (int k = 0; k < D; k++)
                    expected += even[0] * b[i * D + k] * b[j * D + k];
                for (int r = 0; r < N; r++)
                    y[r] = (x[r * D + i] - mean[i]) * (x[r * D + j] - mean[j]);
                assert_mean(y, N, expected, "covariance of an image", kind);
            }
        }
        free(x);
    }
}

/* vMF in three dimensions: mean A mu, A = coth kappa - 1/kappa; covariance (A/kappa)(I - mu mu') +
 * (1 - A^2 - 2A/kappa) mu mu'. */
static void vmf_has_its_mean_and_covariance(void **state)
{
    (void)state;
    static const double mu[3] = {2.0 / 3, -2.0 / 3, 1.0 / 3}, kappas[] = {0.5, 4, 60};
    static double y[N];
    for (int k = 0; k < 3; k++) {
        const double kappa = kappas[k], a = 1 / tanh(kappa) - 1 / kappa;
        const es_law law = {
            .kind = ES_LAW_VMF, .dim = 3, .size = 2, .concentration = kappa, .direction = mu};
        double *x = tokens_of(&law, N, 200 + (uint64_t)k);
        for (int i = 0; i < 3; i++) {
            for (int r = 0; r < N; r++)
                y[r] = x[3 * r + i];
            assert_mean(y, N, 2 * a * mu[i], "mean", ES_LAW_VMF);
            for (int j = 0; j <= i; j++) {
                for (int r = 0; r < N; r++)
                    y[r] = (x[3 * r + i] - 2 * a * mu[i]) * (x[3 * r + j] - 2 * a * mu[j]);
                const double along = 1 - a * a - 3 * a / kappa;
                const double cov = along * mu[i] * mu[j] + (i == j ? a / kappa : 0.0);
                assert_mean(y, N, 4 * cov, "covariance", ES_LAW_VMF);
            }
        }
        free(x);
    }
}

TEST_FILE(tokens_moments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_laws_have_their_moments),
        cmocka_unit_test(images_have_their_covariance),
        cmocka_unit_test(vmf_has_its_mean_and_covariance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
