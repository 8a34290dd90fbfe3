/* SPDX-License-Identifier: Apache-2.0 */
/* test_random_laws.c : do the numbers of random.h follow the laws they are named after?
 *
 * Seeds are fixed, so every test gives the same answer every time. Bounds are stated in standard
 * errors (SE) of the statistic under the exact law, or as a p-value. With about 150 statistics in
 * this file one expects the largest to lie near 2.9 SE; we allow 4.5, which happens by chance once
 * in 10^5. */
#include "testing.h"

#include <esscher/random.h>

#include "random/random.h"

static const double most_se = 4.5;
static const double least_p = 1e-4;

enum { N = 100000 };

/* ---- the laws, one table ---- */

typedef struct law law;
struct law {
    const char *name;
    es_status (*fill)(const law *l, const es_address *first, int64_t tokens, int64_t dim,
                      double *out);
    double (*moment)(const law *l, int k); /* E X^k */
    double (*cdf)(const law *l, double x);
    double a, b;
};

static es_status uniform_fill(const law *l, const es_address *f, int64_t n, int64_t d, double *out)
{
    (void)l;
    return es_uniform_rows(f, n, d, out, &err);
}
static double uniform_moment(const law *l, int k)
{
    (void)l;
    return 1.0 / (k + 1.0);
}
static double uniform_cdf(const law *l, double x)
{
    (void)l;
    return x;
}

static es_status exponential_fill(const law *l, const es_address *f, int64_t n, int64_t d,
                                  double *out)
{
    (void)l;
    return es_exponential_rows(f, n, d, out, &err);
}
static double exponential_moment(const law *l, int k)
{
    (void)l;
    return tgamma(k + 1.0);
}
static double exponential_cdf(const law *l, double x)
{
    (void)l;
    return -expm1(-x);
}

static es_status normal_fill(const law *l, const es_address *f, int64_t n, int64_t d, double *out)
{
    (void)l;
    return es_normal_rows(f, n, d, out, &err);
}
static double normal_moment(const law *l, int k)
{
    (void)l;
    double m = 1.0;
    for (int i = k - 1; i > 0; i -= 2)
        m *= i;
    return k % 2 ? 0.0 : m;
}
static double normal_cdf(const law *l, double x)
{
    (void)l;
    return 0.5 * erfc(-x * sqrt(0.5));
}

static es_status gamma_fill(const law *l, const es_address *f, int64_t n, int64_t d, double *out)
{
    return es_gamma_rows(f, n, d, l->a, out, &err);
}
static double gamma_moment(const law *l, int k)
{
    double m = 1.0;
    for (int i = 0; i < k; i++)
        m *= l->a + i;
    return m;
}
/* P(a,x) = x^a e^-x sum_n x^n / Gamma(a+n+1); all terms are positive, so the sum is accurate. */
static double gamma_cdf(const law *l, double x)
{
    if (x <= 0.0)
        return 0.0;
    double term = exp(l->a * log(x) - x - lgamma(l->a + 1.0)), sum = term;
    for (int n = 1; term > 1e-12 * sum || n < x; n++) {
        term *= x / (l->a + n);
        sum += term;
    }
    return sum < 1.0 ? sum : 1.0;
}

static es_status chi_fill(const law *l, const es_address *f, int64_t n, int64_t d, double *out)
{
    return es_chi_rows(f, n, d, l->a, out, &err);
}
static double chi_moment(const law *l, int k)
{
    return exp(0.5 * k * log(2.0) + lgamma(0.5 * (l->a + k)) - lgamma(0.5 * l->a));
}
static double chi_cdf(const law *l, double x)
{
    return gamma_cdf(&(law){.a = 0.5 * l->a}, 0.5 * x * x);
}

static es_status beta_fill(const law *l, const es_address *f, int64_t n, int64_t d, double *out)
{
    return es_beta_rows(f, n, d, l->a, l->b, out, &err);
}
static double beta_moment(const law *l, int k)
{
    double m = 1.0;
    for (int i = 0; i < k; i++)
        m *= (l->a + i) / (l->a + l->b + i);
    return m;
}
/* Closed forms: a power for b = 1, the arcsine law, a binomial tail for whole a and b. */
static double beta_cdf(const law *l, double x)
{
    if (l->b == 1.0)
        return pow(x, l->a);
    if (l->a == 0.5 && l->b == 0.5)
        return asin(sqrt(x)) / asin(1.0);
    const int trials = (int)(l->a + l->b) - 1;
    double sum = 0.0;
    for (int j = (int)l->a; j <= trials; j++)
        sum += exp(lgamma(trials + 1.0) - lgamma(j + 1.0) - lgamma(trials - j + 1.0)) * pow(x, j) *
               pow(1.0 - x, trials - j);
    return sum;
}

static const law laws[] = {
    {"uniform", uniform_fill, uniform_moment, uniform_cdf, 0, 0},
    {"exponential", exponential_fill, exponential_moment, exponential_cdf, 0, 0},
    {"normal", normal_fill, normal_moment, normal_cdf, 0, 0},
    {"gamma", gamma_fill, gamma_moment, gamma_cdf, 0.05, 0},
    {"gamma", gamma_fill, gamma_moment, gamma_cdf, 0.5, 0},
    {"gamma", gamma_fill, gamma_moment, gamma_cdf, 0.99, 0},
    {"gamma", gamma_fill, gamma_moment, gamma_cdf, 1.0, 0},
    {"gamma", gamma_fill, gamma_moment, gamma_cdf, 3.7, 0},
    {"gamma", gamma_fill, gamma_moment, gamma_cdf, 150.0, 0},
    {"chi", chi_fill, chi_moment, chi_cdf, 0.3, 0},
    {"chi", chi_fill, chi_moment, chi_cdf, 1.0, 0},
    {"chi", chi_fill, chi_moment, chi_cdf, 64.0, 0},
    {"beta", beta_fill, beta_moment, beta_cdf, 0.5, 0.5},
    {"beta", beta_fill, beta_moment, beta_cdf, 0.01, 1.0},
    {"beta", beta_fill, beta_moment, beta_cdf, 4.25, 1.0},
    {"beta", beta_fill, beta_moment, beta_cdf, 1.0, 7.0},
    {"beta", beta_fill, beta_moment, beta_cdf, 3.0, 5.0},
};
enum { LAWS = sizeof laws / sizeof laws[0] };

static const double *sample(const law *l)
{
    static double x[N];
    const es_address first = {.seed = 2026, .experiment = 1, .cell = (uint64_t)(l - laws)};
    assert_ok(l->fill(l, &first, N / 4, 4, x));
    return x;
}

static void moments_to_fourth_order(void **state)
{
    (void)state;
    for (const law *l = laws; l < laws + LAWS; l++) {
        const double *x = sample(l);
        for (int k = 1; k <= 4; k++) {
            double sum = 0.0;
            for (int i = 0; i < N; i++)
                sum += pow(x[i], k);
            /* Var(mean of X^k) = (E X^2k - (E X^k)^2) / N */
            const double m = l->moment(l, k), var = l->moment(l, 2 * k) - m * m;
            const double se = (sum / N - m) / sqrt(var / N);
            if (!(fabs(se) <= most_se))
                fail_msg("%s(%g, %g): moment %d is off by %.2f SE", l->name, l->a, l->b, k, se);
        }
    }
}

/* ---- Kolmogorov and Smirnov ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* P(sqrt(n) D > what we see), Kolmogorov's series with Stephens' correction for finite n. */
static double ks_p_value(const law *l, const double *x, int n)
{
    double *sorted = malloc((size_t)n * sizeof *sorted), d = 0.0, p = 0.0;
    assert_non_null(sorted);
    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    for (int i = 0; i < n; i++) {
        const double f = l->cdf(l, sorted[i]);
        d = fmax(d, fmax(f - (double)i / n, (double)(i + 1) / n - f));
    }
    free(sorted);
    const double t = (sqrt(n) + 0.12 + 0.11 / sqrt(n)) * d;
    for (int k = 1; k < 100; k++)
        p += (k % 2 ? 2.0 : -2.0) * exp(-2.0 * k * k * t * t);
    return p;
}

static void distribution_functions(void **state)
{
    (void)state;
    for (const law *l = laws; l < laws + LAWS; l++) {
        const double p = ks_p_value(l, sample(l), N);
        if (!(p >= least_p))
            fail_msg("%s(%g, %g): Kolmogorov-Smirnov p = %.2g", l->name, l->a, l->b, p);
    }
}

static void a_wrong_law_is_noticed(void **state)
{
    (void)state;
    /* The test above must be able to fail: a shape off by 3 % is seen. */
    law off = laws[7];
    const double *x = sample(&laws[7]);
    off.a *= 1.03;
    assert_below(ks_p_value(&off, x, N), 1e-6);
}

static void extreme_shapes_stay_in_range(void **state)
{
    (void)state;
    static double x[N];
    const es_address first = {.seed = 5};
    assert_ok(es_gamma_rows(&first, 1000, 1, 1e-9, x, &err)); /* nearly all underflow */
    for (int i = 0; i < 1000; i++) {
        assert_at_least(x[i], 0.0);
        assert_below(x[i], 100.0);
    }
    assert_ok(es_gamma_rows(&first, N, 1, 1e9, x, &err));
    double sum = 0.0, square = 0.0;
    for (int i = 0; i < N; i++) {
        const double z = (x[i] - 1e9) / sqrt(1e9);
        sum += z, square += z * z;
    }
    assert_near(sum / N, 0.0, most_se * sqrt(1.0 / N));
    assert_near(square / N, 1.0, most_se * sqrt(2.0 / N)); /* kurtosis 3 + 6e-9 */
    /* A beta of tiny shapes is a coin between 0 and 1, not 0/0. */
    assert_ok(es_beta_rows(&first, N, 1, 1e-6, 1e-6, x, &err));
    int ones = 0;
    for (int i = 0; i < N; i++) {
        assert_above(x[i], 0.0);
        assert_at_most(x[i], 1.0);
        ones += x[i] > 0.5;
    }
    assert_near(ones, 0.5 * N, most_se * sqrt(0.25 * N));
}

static void normal_tails(void **state)
{
    (void)state;
    enum { ROWS = 1000, DIM = 1000, CELLS = 20 };
    static double z[ROWS * DIM];
    const double total = (double)ROWS * DIM * CELLS;
    double beyond[4] = {0};
    for (uint64_t cell = 0; cell < CELLS; cell++) {
        const es_address first = {.seed = 77, .cell = cell};
        assert_ok(es_normal_rows(&first, ROWS, DIM, z, &err));
        for (int i = 0; i < ROWS * DIM; i++) {
            beyond[0] += z[i] > 4.0;
            beyond[1] += z[i] < -4.0;
            beyond[2] += z[i] > 5.0;
            beyond[3] += z[i] < -5.0;
        }
    }
    for (int k = 0; k < 4; k++) { /* counts are Poisson: 633.4 and 5.7 expected */
        const double expected = total * 0.5 * erfc((k < 2 ? 4.0 : 5.0) * sqrt(0.5));
        assert_near(beyond[k], expected, most_se * sqrt(expected));
    }
}

/* ---- independence ---- */

/* Sample correlation of two columns of known mean 0 and variance 1, in SE (= 1/sqrt(n)). */
static double correlation_se(const double *x, const double *y, int64_t n, int64_t stride)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i * stride] * y[i * stride];
    return sum / sqrt((double)n);
}

static void neighbours_are_uncorrelated(void **state)
{
    (void)state;
    enum { DIM = 8 };
    static double base[N * DIM], other[N * DIM];
    const es_address first = {.seed = 1, .experiment = 1, .cell = 1, .token = 1};
    assert_ok(es_normal_rows(&first, N, DIM, base, &err));
    for (int j = 0; j < DIM; j++) /* lanes, and the two numbers of one lane */
        for (int k = 0; k < j; k++)
            assert_near(correlation_se(base + j, base + k, N, DIM), 0.0, most_se);
    for (int lag = 1; lag <= 3; lag++) /* tokens */
        assert_near(correlation_se(base, base + lag * DIM, N - lag, DIM), 0.0, most_se);
    es_address moved[4] = {first, first, first, first};
    moved[0].cell++, moved[1].experiment++, moved[2].seed++, moved[3].seed ^= UINT64_C(1) << 32;
    for (int m = 0; m < 4; m++) {
        assert_ok(es_normal_rows(&moved[m], N, DIM, other, &err));
        for (int j = 0; j < DIM; j++)
            assert_near(correlation_se(base + j, other + j, N, DIM), 0.0, most_se);
    }
    /* Squares, too: (z^2-1)/sqrt(2) has mean 0 and variance 1. The two normals of a block share
     * their radius, which must not show. */
    for (int i = 0; i < N * DIM; i++)
        base[i] = (base[i] * base[i] - 1.0) * sqrt(0.5);
    for (int j = 1; j < DIM; j++)
        assert_near(correlation_se(base + j, base + j - 1, N, DIM), 0.0, most_se);
}

/* ---- the sphere ---- */

static void sphere_points_are_uniform(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 2, 3, 8, 64, 1000};
    static double x[64 * 5000];
    for (size_t s = 0; s < sizeof dims / sizeof dims[0]; s++) {
        const int64_t d = dims[s], rows = d > 64 ? 320 : 5000;
        const es_address first = {.seed = 51, .cell = s};
        double sum[4] = {0}, cross = 0.0;
        assert_ok(es_sphere_rows(&first, rows, d, x, &err));
        for (int64_t i = 0; i < rows; i++) {
            long double norm = 0.0L;
            for (int64_t j = 0; j < d; j++)
                norm += (long double)x[i * d + j] * (long double)x[i * d + j];
            assert_near((double)(sqrtl(norm) - 1.0L), 0.0, (2.0 + (double)d / 16.0) * 0x1p-53);
            const double first_x = x[i * d], last_x = x[i * d + d - 1];
            for (int k = 0; k < 4; k++)
                sum[k] += pow(first_x, k + 1);
            cross += first_x * last_x;
        }
        /* E x^2 = 1/d, E x^4 = 3/(d(d+2)), E x^6 and E x^8 on by the same rule; odd ones vanish. */
        double m[9] = {1.0};
        for (int k = 2; k <= 8; k += 2)
            m[k] = m[k - 2] * (double)(k - 1) / (double)(d + k - 2);
        for (int k = 1; k <= 4; k++) {
            const double mean = m[k], var = m[2 * k] - mean * mean;
            assert_near(sum[k - 1] / (double)rows, mean,
                        most_se * sqrt(var / (double)rows) + 1e-15 /* d = 1: x^2 is 1, exactly */);
        }
        if (d > 1) /* E (x y)^2 = 1/(d(d+2)) */
            assert_near(cross / (double)rows, 0.0, most_se * sqrt(m[4] / 3.0 / (double)rows));
    }
}

TEST_FILE(random_laws)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_to_fourth_order),
        cmocka_unit_test(distribution_functions),
        cmocka_unit_test(a_wrong_law_is_noticed),
        cmocka_unit_test(extreme_shapes_stay_in_range),
        cmocka_unit_test(normal_tails),
        cmocka_unit_test(neighbours_are_uncorrelated),
        cmocka_unit_test(sphere_points_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
