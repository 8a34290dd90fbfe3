/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokens_laws.c : do the samplers have the laws they claim? Whole distribution functions, by
 * Kolmogorov and Smirnov. */
#include "token_sample.h"
#include "random/random.h"

static const double least_p = 1e-4;
enum { MOST = 768 };

/* Angles on [0, pi] with density proportional to sin^(d-2) t e^(kappa cos t): the angle between a
 * vMF token of dimension d and its direction; for kappa = 0 between a point of the sphere and an
 * axis. Tabulated by the trapezoidal rule on the part of [0, pi] that matters. */
enum { GRID = 20000 };
static struct {
    double end, cdf[GRID + 1], power[3]; /* power[k]: E (1 - cos t)^k */
} angle;

static void tabulate_angle(double d, double kappa)
{
    angle.end = fmin(acos(-1.0), 14.0 * sqrt(fmax(d, 10.0) / fmax(kappa, 1e-9)));
    /* The density relative to its peak, where sin^2 t / cos t = (d-2)/kappa. */
    const double ratio = (d - 2) / fmax(kappa, 1e-300);
    const double peak = kappa > 0 ? 2 / (ratio + hypot(ratio, 2)) : 0.0, c = fmin(peak, 1.0);
    const double log_sin = d > 2 ? 0.5 * log((1 - c) * (1 + c)) : 0.0;
    double before = 0.0, sum[4] = {0};
    for (int i = 0; i <= GRID; i++) {
        const double t = angle.end * i / GRID, v = 2 * sin(t / 2) * sin(t / 2);
        const double power = d == 2 ? 0.0 : (d - 2) * (log(sin(t)) - log_sin);
        const double f = sin(t) > 1e-12 || d == 2 ? exp(kappa * ((1 - v) - c) + power) : 0.0;
        sum[0] += i ? 0.5 * (before + f) : 0.0;
        angle.cdf[i] = sum[0];
        for (int k = 1; k <= 2; k++)
            sum[k] += f * pow(v, k);
        before = f;
    }
    for (int i = 0; i <= GRID; i++)
        angle.cdf[i] /= sum[0];
    for (int k = 1; k <= 2; k++)
        angle.power[k] = sum[k] / sum[0];
}

static double angle_cdf(double t)
{
    const double at = t / angle.end * GRID;
    if (at >= GRID)
        return 1.0;
    const int i = (int)at;
    return angle.cdf[i] + (at - i) * (angle.cdf[i + 1] - angle.cdf[i]);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* P(sqrt(n) D > what we see) for u, which should be uniform on (0,1); Kolmogorov's series with
 * Stephens' correction. Sorts u. */
static double uniform_p(double *u, int n)
{
    double d = 0.0, p = 0.0;
    qsort(u, (size_t)n, sizeof *u, ascending);
    for (int i = 0; i < n; i++)
        d = fmax(d, fmax(u[i] - (double)i / n, (double)(i + 1) / n - u[i]));
    const double t = (sqrt(n) + 0.12 + 0.11 / sqrt(n)) * d;
    for (int k = 1; k < 100; k++)
        p += (k % 2 ? 2.0 : -2.0) * exp(-2.0 * k * k * t * t);
    return t < 0.2 ? 1.0 : p;
}

static void assert_uniform(double *u, int n, const char *what, double a, double b)
{
    const double p = uniform_p(u, n);
    if (!(p >= least_p))
        fail_msg("%s (%g, %g): Kolmogorov-Smirnov p = %.2g", what, a, b, p);
}

static double norm_of(const double *x, int64_t d)
{
    double sum = 0.0;
    for (int64_t i = 0; i < d; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void sphere_and_ball(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 2, 3, 8, 64};
    static double u[N], v[N];
    for (int k = 0; k < 5; k++) {
        const int64_t d = dims[k];
        const es_law sphere = {.kind = ES_LAW_SPHERE, .dim = d, .size = 3};
        const es_law ball = {.kind = ES_LAW_BALL, .dim = d, .size = 3};
        double *x = tokens_of(&sphere, N, 300 + (uint64_t)k);
        if (d > 1)
            tabulate_angle((double)d, 0);
        for (int64_t i = 0; i < N; i++) {
            assert_near(norm_of(x + i * d, d), 3.0, 1e-14);
            u[i] = d > 1 ? angle_cdf(acos(fmax(-1, fmin(1, x[i * d + d - 1] / 3)))) : 0.0;
        }
        if (d > 1) /* (1 + z/3)/2 is Beta((d-1)/2, (d-1)/2) */
            assert_uniform(u, N, "sphere", (double)d, 0);
        free(x);
        x = tokens_of(&ball, N, 310 + (uint64_t)k);
        tabulate_angle((double)d + 2, 0); /* a coordinate of the sphere two dimensions up */
        for (int64_t i = 0; i < N; i++) {
            u[i] = pow(norm_of(x + i * d, d) / 3, (double)d);
            v[i] = angle_cdf(acos(x[i * d] / 3));
        }
        assert_uniform(u, N, "radius of the ball", (double)d, 0);
        assert_uniform(v, N, "coordinate of the ball", (double)d, 0);
        free(x);
    }
}

static void independent_coordinates(void **state)
{
    (void)state;
    static double u[N];
    for (int k = 0; k < 3; k++) {
        const es_law_kind kinds[] = {ES_LAW_GAUSSIAN, ES_LAW_CUBE, ES_LAW_LAPLACE};
        const es_law law = {.kind = kinds[k], .dim = 3, .size = 0.25};
        double *x = tokens_of(&law, N, 320 + (uint64_t)k);
        for (int j = 0; j < 3; j++) {
            for (int i = 0; i < N; i++) {
                const double z = x[3 * i + j] / 0.25;
                const double cdf[] = {0.5 * erfc(-z / sqrt(2.0)), 0.5 * (z + 1),
                                      z < 0 ? 0.5 * exp(z) : 1 - 0.5 * exp(-z)};
                u[i] = cdf[k];
            }
            assert_uniform(u, N, es_law_name(kinds[k]), j, 0);
        }
        free(x);
    }
}

/* t/sqrt(nu) is the tangent of an angle with density cos^(nu-1). */
static void student(void **state)
{
    (void)state;
    static const double freedoms[] = {1, 2, 3.5, 30, 1e6};
    static double u[N];
    for (int k = 0; k < 5; k++) {
        const double nu = freedoms[k];
        const es_law law = {.kind = ES_LAW_STUDENT, .dim = 6, .size = 2, .freedom = nu};
        double *x = tokens_of(&law, N, 330 + (uint64_t)k);
        tabulate_angle(nu + 1, 0);
        for (int i = 0; i < N; i++)
            u[i] = angle_cdf(acos(-1.0) / 2 + atan(x[6 * i + 5] / 2 / sqrt(nu)));
        assert_uniform(u, N, "student", nu, 0);
        free(x);
    }
}

static void heavy_tails_stay_finite(void **state)
{
    (void)state;
    const es_law law = {.kind = ES_LAW_STUDENT, .dim = 2, .size = 1, .freedom = 0.125};
    double *x = tokens_of(&law, 10 * N, 340);
    int large = 0;
    for (int i = 0; i < 2 * 10 * N; i++) {
        assert_finite(x[i]);
        large += fabs(x[i]) > 1e20;
    }
    assert_above(large, 0);
    free(x);
}

/* 1 - cosine with the direction, without the cancellation: |y - mu|^2 / 2. */
static double gap_of(const double *y, const double *mu, int64_t d)
{
    double sum = 0.0;
    for (int64_t i = 0; i < d; i++)
        sum += (y[i] - mu[i]) * (y[i] - mu[i]);
    return 0.5 * sum;
}

static double vmf_p(int64_t d, double kappa, double table_kappa, int n, double *tangent_p)
{
    static double mu[MOST], u[N], v[N], gaps[N];
    double along = 0.0;
    assert_ok(es_sphere_rows(&(es_address){.seed = 12, .cell = (uint64_t)d}, 1, d, mu, &err));
    const es_law law = {
        .kind = ES_LAW_VMF, .dim = d, .size = 1, .concentration = kappa, .direction = mu};
    double *x = tokens_of(&law, n, 400 + (uint64_t)d);
    /* A unit vector e orthogonal to mu: the last axis, less what it shares with mu. */
    const double shared = mu[d - 1], length = sqrt(1 - shared * shared);
    tabulate_angle((double)d, table_kappa);
    for (int i = 0; i < n; i++) {
        const double *y = x + (int64_t)i * d;
        assert_near(norm_of(y, d), 1.0, 1e-13);
        gaps[i] = gap_of(y, mu, d);
        u[i] = angle_cdf(2 * asin(fmin(1, sqrt(0.5 * gaps[i]))));
        const double cosine = 1 - gaps[i], sine = sqrt(gaps[i] * (2 - gaps[i]));
        along = (y[d - 1] - cosine * shared) / length / sine;
        v[i] = acos(fmax(-1, fmin(1, along)));
    }
    free(x);
    if (kappa == table_kappa) {
        assert_mean(gaps, n, angle.power[1], "E (1 - cosine)", ES_LAW_VMF);
        for (int i = 0; i < n; i++)
            gaps[i] *= gaps[i];
        assert_mean(gaps, n, angle.power[2], "E (1 - cosine)^2", ES_LAW_VMF);
    }
    *tangent_p = 1.0;
    if (d > 2) {
        tabulate_angle((double)d - 1, 0);
        for (int i = 0; i < n; i++)
            v[i] = angle_cdf(v[i]);
        *tangent_p = uniform_p(v, n);
    }
    return uniform_p(u, n);
}

static void vmf_cosine_and_tangent(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 3, 5, 32, MOST};
    static const double kappas[] = {0, 0.3, 2, 30, 1e3, 1e6};
    for (int k = 0; k < 5; k++) {
        for (int l = 0; l < 6; l++) {
            double tangent;
            const double p =
                vmf_p(dims[k], kappas[l], kappas[l], dims[k] > 99 ? 2000 : N, &tangent);
            if (!(p >= least_p && tangent >= least_p))
                fail_msg("vmf (%d, %g): p = %.2g and %.2g", (int)dims[k], kappas[l], p, tangent);
        }
    }
}

static void vmf_in_one_dimension(void **state)
{
    (void)state;
    const double down = -0.1;
    const es_law law = {
        .kind = ES_LAW_VMF, .dim = 1, .size = 2, .concentration = 0.7, .direction = &down};
    double *x = tokens_of(&law, N, 500);
    double plus = 0.0;
    for (int i = 0; i < N; i++) {
        assert_equals(fabs(x[i]), 2.0);
        plus += x[i] < 0;
    }
    const double p = 1 / (1 + exp(-1.4));
    assert_near(plus / N, p, most_se * sqrt(p * (1 - p) / N));
    free(x);
}

/* Along any axis a a Gaussian mixture is one on the line. */
static void mixture(void **state)
{
    (void)state;
    enum { D = 4 };
    static const double means[3][D] = {{0, 1, 2, 3}, {-4, 0, 0, 0}, {1, 1, 1, 1}};
    static const double weights[] = {3, 1, 6}, axis[D] = {1, -0.5, 0.25, 2};
    static double b[D * D], u[N];
    assert_ok(es_normal_rows(&(es_address){.seed = 20}, D, D, b, &err));
    es_law parts[3];
    for (int j = 0; j < 3; j++)
        parts[j] = (es_law){.kind = ES_LAW_GAUSSIAN,
                            .dim = D,
                            .size = 0.5 + j,
                            .mean = means[j],
                            .factor = j == 1 ? b : NULL};
    const es_law law = {
        .kind = ES_LAW_MIXTURE, .dim = D, .parts = parts, .weights = weights, .n_parts = 3};
    double *x = tokens_of(&law, N, 510);
    for (int i = 0; i < N; i++) {
        double t = 0.0, cdf = 0.0;
        for (int a = 0; a < D; a++)
            t += axis[a] * x[i * D + a];
        for (int j = 0; j < 3; j++) {
            double m = 0.0, s2 = 0.0;
            for (int k = 0; k < D; k++) {
                double column = j == 1 ? 0.0 : axis[k];
                for (int a = 0; j == 1 && a < D; a++)
                    column += b[a * D + k] * axis[a];
                m += means[j][k] * axis[k];
                s2 += column * column;
            }
            cdf += weights[j] / 10 * 0.5 * erfc(-(t - m) / ((0.5 + j) * sqrt(2 * s2)));
        }
        u[i] = cdf;
    }
    assert_uniform(u, N, "mixture", 0, 0);
    free(x);
}

/* The weight of a part is the share of its tokens, and says nothing about what they are. */
static void choice_is_independent_of_the_part(void **state)
{
    (void)state;
    static const double far_off[] = {100, 100}, weights[] = {1, 2};
    const es_law parts[] = {{.kind = ES_LAW_GAUSSIAN, .dim = 2, .size = 1},
                            {.kind = ES_LAW_GAUSSIAN, .dim = 2, .size = 1, .mean = far_off}};
    const es_law law = {
        .kind = ES_LAW_MIXTURE, .dim = 2, .parts = parts, .weights = weights, .n_parts = 2};
    static double u[2][N];
    int count[2] = {0};
    double *x = tokens_of(&law, N, 520);
    for (int i = 0; i < N; i++) {
        const int part = x[2 * i] > 50;
        u[part][count[part]++] = 0.5 * erfc(-(x[2 * i] - 100 * part) / sqrt(2.0));
    }
    assert_near(count[0], N / 3.0, most_se * sqrt(N * 2 / 9.0));
    assert_uniform(u[0], count[0], "first part", 0, 0);
    assert_uniform(u[1], count[1], "second part", 0, 0);
    free(x);
}

static void a_wrong_law_is_noticed(void **state)
{
    (void)state;
    double tangent;
    assert_below(vmf_p(5, 30, 31.5, N, &tangent), 1e-6);
}

TEST_FILE(tokens_laws)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sphere_and_ball),
        cmocka_unit_test(independent_coordinates),
        cmocka_unit_test(student),
        cmocka_unit_test(heavy_tails_stay_finite),
        cmocka_unit_test(vmf_cosine_and_tangent),
        cmocka_unit_test(vmf_in_one_dimension),
        cmocka_unit_test(mixture),
        cmocka_unit_test(choice_is_independent_of_the_part),
        cmocka_unit_test(a_wrong_law_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
