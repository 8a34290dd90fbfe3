/* SPDX-License-Identifier: Apache-2.0 */
/* test_moments.c : streamed means and covariances against the definition, in long double. */
#include "testing.h"

#include "stats/average.h"

#include <esscher/moments.h>
#include <esscher/random.h>

#include "numbers.h"
#include "random/experiment.h"
#include "stats/moments.h"

enum { DIM = 7 };

static void naive(const double *x, int64_t n, double *mean, double *cov)
{
    for (int a = 0; a < DIM; a++) {
        long double sum = 0.0L;
        for (int64_t i = 0; i < n; i++)
            sum += x[i * DIM + a];
        mean[a] = (double)(sum / (long double)n);
    }
    for (int a = 0; a < DIM; a++)
        for (int b = 0; b < DIM; b++) {
            long double sum = 0.0L;
            for (int64_t i = 0; i < n; i++)
                sum += ((long double)x[i * DIM + a] - mean[a]) *
                       ((long double)x[i * DIM + b] - mean[b]);
            cov[a * DIM + b] = (double)(sum / (long double)n);
        }
}

static void batches_and_merges_agree_with_the_definition(void **state)
{
    (void)state;
    enum { N = 1000 };
    for (int shifted = 0; shifted <= 1; shifted++) {
        state_of_rng = 17;
        double *x = normals(N * DIM), mean[DIM], cov[DIM * DIM], got[DIM * DIM];
        const double shift = shifted ? 1e6 : 0.0; /* a mean a million times the spread */
        for (int i = 0; i < N * DIM; i++)
            x[i] += shift;
        naive(x, N, mean, cov);
        es_moments all, part;
        assert_ok(es_moments_new(DIM, NULL, &all, &err));
        static const int64_t cuts[] = {0, 1, 9, 17, 400, 1000};
        for (int i = 0; i < 5; i++) {
            if (i % 2 == 0) {
                es_moments_add(&all, x + cuts[i] * DIM, cuts[i + 1] - cuts[i]);
                continue;
            }
            assert_ok(es_moments_new(DIM, NULL, &part, &err));
            es_moments_merge(&all, &part); /* merging nothing changes nothing */
            es_moments_add(&part, x + cuts[i] * DIM, cuts[i + 1] - cuts[i]);
            es_moments_merge(&all, &part);
            es_moments_free(&part);
        }
        assert_int_equal(all.count, N);
        es_moments_covariance(&all, 0, got);
        /* rounding of the data relative to the spread: eps * (shift + 1), and a few operations */
        const double tolerance = 8.0 * 0x1p-52 * (1.0 + shift);
        for (int a = 0; a < DIM; a++)
            assert_near(all.mean[a], mean[a], tolerance);
        for (int i = 0; i < DIM * DIM; i++)
            assert_near(got[i], cov[i], tolerance);
        es_moments_covariance(&all, 1, got);
        assert_near(got[0], cov[0] * N / (N - 1), tolerance);
        es_moments_free(&all);
        free(x);
    }
}

static void too_few_rows_have_no_covariance(void **state)
{
    (void)state;
    es_moments m;
    double cov[DIM * DIM], row[DIM] = {1, 2, 3, 4, 5, 6, 7};
    assert_ok(es_moments_new(DIM, NULL, &m, &err));
    es_moments_covariance(&m, 0, cov);
    assert_nan(cov[0]);
    es_moments_add(&m, row, 1);
    es_moments_covariance(&m, 0, cov);
    assert_equals(cov[0], 0.0);
    assert_equals(m.mean[6], 7.0);
    es_moments_covariance(&m, 1, cov);
    assert_nan(cov[8]);
    es_moments_free(&m);
    es_mem_limit budget = {.limit = 300};
    assert_int_equal(es_moments_new(DIM, &budget, &m, &err), ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
}

/* With equal weights it is the error of a mean, s / sqrt(n); a block that weighs twice counts as
 * much as two whose values are the same, but is one draw. */
static void the_error_of_a_mean_over_blocks(void **state)
{
    (void)state;
    const double x[] = {1.0, 4.0, 2.0, 5.0}, mean = 3.0;
    double scatter = 0.0;
    for (int i = 0; i < 4; i++)
        scatter += 9.0 * (x[i] - mean) * (x[i] - mean); /* weights of 3 */
    assert_near(es_block_se(scatter, 12.0, 4), sqrt(10.0 / 3.0 / 4.0), 1e-15);
    assert_near(es_block_se(2.0 * 2.0 * 1.0 + 2.0 * 2.0, 3.0, 2), sqrt(8.0 * 2.0) / 3.0, 1e-15);
    assert_equals(es_block_se(-1e-30, 5.0, 3), 0.0);
    assert_nan(es_block_se(1.0, 5.0, 1));
}

/* Means of numbers distributed like chi^2 of few degrees over few replicates, whose ratio is known:
 * the interval must cover it 95 times in 100. 4 standard errors of a count of 3000 are 1.6 points;
 * what the logarithm of so few numbers still lacks is 1.5. */
static void the_interval_of_a_ratio_covers_it(void **state)
{
    (void)state;
    enum { TRIALS = 3000 };
    static const struct {
        int64_t replicates, above, below; /* degrees of freedom */
    } cases[] = {{4, 4, 4}, {8, 3, 20}, {16, 8, 8}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const int64_t R = cases[c].replicates, a = cases[c].above, b = cases[c].below;
        double z[16 * 28], x[2][16];
        int covered = 0;
        for (uint64_t t = 0; t < TRIALS; t++) {
            const es_address at = {
                .seed = 5, .experiment = ES_EXPERIMENT_FREE, .cell = c, .token = t * 16};
            assert_ok(es_normal_rows(&at, R, a + b, z, &err));
            for (int64_t r = 0; r < R; r++) {
                x[0][r] = x[1][r] = 0.0;
                for (int64_t j = 0; j < a + b; j++)
                    x[j < a ? 0 : 1][r] += pow(z[r * (a + b) + j], 2.0);
            }
            const es_mean_ratio got = es_ratio_of_means(es_average_column(x[0], R, 1), (double)R,
                                                        es_average_column(x[1], R, 1), (double)R);
            covered += got.low <= (double)a / (double)b && (double)a / (double)b <= got.high;
        }
        assert_near(covered / (double)TRIALS, 0.95, 0.016 + 0.015);
    }
    /* by hand: freedom of equal spreads is that of both, t(6) = 2.4469 */
    const es_mean_ratio r =
        es_ratio_of_means((es_measured){6.0, 0.6}, 4.0, (es_measured){2.0, 0.2}, 4.0);
    assert_near(r.value, 3.0, 1e-15);
    assert_near(r.se, 3.0 * 0.1 * sqrt(2.0), 1e-15);
    assert_near(r.high, 3.0 * exp(2.446911851144969 * 0.1 * sqrt(2.0)), 1e-12);
    assert_near(r.low * r.high, 9.0, 1e-12);
    assert_nan(es_ratio_of_means((es_measured){6.0, 0.6}, 1.0, (es_measured){2.0, 0.2}, 4.0).high);
}

TEST_FILE(moments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_of_a_mean_over_blocks),
        cmocka_unit_test(the_interval_of_a_ratio_covers_it),
        cmocka_unit_test(batches_and_merges_agree_with_the_definition),
        cmocka_unit_test(too_few_rows_have_no_covariance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
