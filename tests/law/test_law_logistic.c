/* SPDX-License-Identifier: Apache-2.0 */
/* test_law_logistic.c : the logistic law: its sampler, and K against integrals in long double. */
#include "token_sample.h"

#include "experiments/ball/ball.h"
#include "law/law_row.h"
#include "limit/limit.h"

#define PI 3.14159265358979323846264338327950288L

/* ---- drawing ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov's distance times sqrt(count) of z from 1/(1 + e^-z): above 2.1 once in 3000. */
static double distance(double *z, int count)
{
    double d = 0.0;
    qsort(z, (size_t)count, sizeof *z, ascending);
    for (int i = 0; i < count; i++) {
        const double F = 1.0 / (1.0 + exp(-z[i]));
        d = fmax(d, fmax(F - (double)i / count, (double)(i + 1) / count - F));
    }
    return d * sqrt(count);
}

static void has_its_moments_and_distribution(void **state)
{
    (void)state;
    static double y[N];
    const double size = 0.7, pi2 = (double)(PI * PI);
    const es_law law = {.kind = ES_LAW_LOGISTIC, .dim = 3, .size = size};
    double *x = tokens_of(&law, N, 900);
    for (int j = 0; j < 3; j++) {
        for (int power = 1; power <= 4; power++) {
            const double want[] = {0, 0, pi2 / 3.0, 0, 7.0 * pi2 * pi2 / 15.0};
            for (int i = 0; i < N; i++)
                y[i] = pow(x[3 * i + j] / size, power);
            assert_mean(y, N, want[power], "a moment", ES_LAW_LOGISTIC);
        }
        for (int i = 0; i < N; i++)
            y[i] = x[3 * i + j] * x[3 * i + (j + 1) % 3];
        assert_mean(y, N, 0.0, "a product of two coordinates", ES_LAW_LOGISTIC);
        for (int i = 0; i < N; i++)
            y[i] = x[3 * i + j] / size;
        assert_below(distance(y, N), 2.1);
    }
    free(x);
}

/* Token by token the quantile of the uniform at its address; our own logarithm, so the same bits
 * everywhere: within the rounding of a division and a logarithm of the truth. */
static void is_the_quantile_of_a_uniform(void **state)
{
    (void)state;
    enum { COUNT = 4000 };
    static double u[COUNT], x[COUNT];
    const es_address at = {.seed = 3, .experiment = 2, .cell = 901};
    const es_law law = {.kind = ES_LAW_LOGISTIC, .dim = 2, .size = 1.0};
    assert_ok(es_uniform_rows(&at, COUNT / 2, 2, u, &err));
    assert_ok(es_tokens_rows(&law, &at, COUNT / 2, x, &err));
    for (int i = 0; i < COUNT; i++) {
        const long double want = logl((long double)u[i] / (1.0L - (long double)u[i]));
        assert_near(x[i], (double)want, 2.3e-16 * (1.0 + fabs((double)want)));
    }
}

/* ---- tilting ---- */

/* int e^{tz} z^k e^-z/(1+e^-z)^2 dz, k = 0, 1, 2, by the trapezoidal rule: the integrand is
 * analytic for |Im z| < pi, so a step of 1/4 leaves e^{-8 pi^2}; it falls like e^{-(1-|t|)|z|}. */
static void integrals(long double t, long double out[3])
{
    const long double step = 0.25L, reach = 48.0L / (1.0L - fabsl(t));
    out[0] = out[1] = out[2] = 0.0L;
    for (long double i = 0; i * step <= reach; i++) {
        for (int side = i == 0 ? 1 : 0; side < 2; side++) {
            const long double z = side ? i * step : -i * step, e = expl(-fabsl(z));
            const long double f = step * expl(t * z - fabsl(z)) / ((1.0L + e) * (1.0L + e));
            out[0] += f;
            out[1] += f * z;
            out[2] += f * z * z;
        }
    }
}

/* K and derivatives of size Z at t/size, on the line: within what they claim, and within `eps`. */
static void expect(double t, double size, long double K, long double grad, long double hess,
                   double eps)
{
    const es_law law = {.kind = ES_LAW_LOGISTIC, .dim = 1, .size = size};
    double g, h;
    es_log_mgf out = {.grad = &g, .hess = &h};
    const double at = t / size; /* sizes here are powers of two */
    assert_ok(es_limit_log_mgf(&law, &at, NULL, &out, &err));
    assert_near(out.val.val, (double)K, out.val.err);
    assert_near(g, size * (double)grad, out.grad_error);
    assert_near(h, size * size * (double)hess, out.hess_error);
    assert_close(out.val.val, (double)K, eps);
    assert_close(g, size * (double)grad, eps);
    assert_close(h, size * size * (double)hess, eps);
}

static void is_the_log_of_an_integral(void **state)
{
    (void)state;
    static const double tilts[] = {0.0625, 0.2, -0.35, 0.499, 0.5, -0.501, 0.75, 0.9, -0.97, 0.995};
    for (size_t i = 0; i < sizeof tilts / sizeof *tilts; i++) {
        long double m[3];
        integrals(tilts[i], m);
        const long double mean = m[1] / m[0];
        expect(tilts[i], 1.0, logl(m[0]), mean, m[2] / m[0] - mean * mean, 4e-15);
        expect(tilts[i], 0.25, logl(m[0]), mean, m[2] / m[0] - mean * mean, 4e-15);
    }
}

/* Next to 0 two terms of the series, zeta(2) = pi^2/6 and zeta(4) = pi^4/90; next to the edge, at
 * 1 - e with e exact, sin(pi t) = sin(pi e). */
static void keeps_its_digits_at_both_ends(void **state)
{
    (void)state;
    const long double z2 = PI * PI / 6.0L, z4 = PI * PI * PI * PI / 90.0L;
    for (double t = 1e-3; t > 1e-150; t *= 1e-3) {
        const long double x = t, z6 = PI * PI * PI * PI * PI * PI / 945.0L;
        expect(t, 1.0, z2 * x * x + z4 * x * x * x * x / 2.0L + z6 * powl(x, 6) / 3.0L,
               2.0L * (z2 * x + z4 * x * x * x + z6 * powl(x, 5)),
               2.0L * (z2 + 3.0L * z4 * x * x + 5.0L * z6 * powl(x, 4)), 1e-15);
    }
    for (int bits = 2; bits < 50; bits += 3) {
        const long double e = ldexpl(1.0L, -bits), t = 1.0L - e, s = sinl(PI * e);
        expect((double)t, 1.0, logl(PI * t / s), 1.0L / t + PI * cosl(PI * e) / s,
               PI * PI / (s * s) - 1.0L / (t * t), 4e-15);
    }
}

static void moments_of_a_token(void **state)
{
    (void)state;
    const es_law law = {.kind = ES_LAW_LOGISTIC, .dim = 2, .size = 2.0};
    double mean[2], cov[4];
    assert_ok(es_limit_token_moments(&law, NULL, mean, cov, &err));
    assert_equals(mean[0], 0.0);
    assert_equals(cov[1], 0.0);
    assert_close(cov[0], (double)(4.0L * PI * PI / 3.0L), 1e-15);
}

/* ---- refused ---- */

static void ends_where_its_tails_do(void **state)
{
    (void)state;
    const es_law law = {.kind = ES_LAW_LOGISTIC, .dim = 2, .size = 0.5};
    const double edges[][2] = {{0.0, 2.0}, {-2.0, 0.0}, {3.0, 0.0}};
    es_log_mgf out = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(es_limit_log_mgf(&law, edges[i], NULL, &out, &err), ES_E_RANGE);
        assert_string_equal(err.rule, "limit.logistic");
    }
    const es_limit_head head = {0};
    es_limit_accuracy accuracy;
    double mean[2], cov[4];
    assert_int_equal(es_limit_moments(&law, &head, NULL, NULL, mean, cov, &accuracy, &err),
                     ES_E_RANGE);
    assert_string_equal(err.rule, "limit.infinite");
    /* a ball that reaches beyond |x| = 1/size, and one that does not */
    const double A[4] = {1.0, 0.0, 0.0, 1.0}, radii[] = {1.0, 2.0};
    const es_view a = es_view_f64(A, 2, 2);
    const es_head one = {.A = &a};
    const int64_t n = 10;
    es_ball_spec spec = {
        .law = &law, .head = &one, .sizes = &n, .n_sizes = 1, .radii = radii, .n_radii = 2};
    es_ball *ball;
    assert_int_equal(es_ball_new(&spec, &ball, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "ball.reach");
    spec.n_radii = 1;
    assert_ok(es_ball_new(&spec, &ball, &err));
    es_ball_free(ball);
}

TEST_FILE(law_logistic)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(has_its_moments_and_distribution),
                                       cmocka_unit_test(is_the_quantile_of_a_uniform),
                                       cmocka_unit_test(is_the_log_of_an_integral),
                                       cmocka_unit_test(keeps_its_digits_at_both_ends),
                                       cmocka_unit_test(moments_of_a_token),
                                       cmocka_unit_test(ends_where_its_tails_do)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
