/* SPDX-License-Identifier: Apache-2.0 */
/* test_theory_predict.c : finite-n predictions against golden values and limits. */
#include "golden.h"

#include "theory/theory.h"

static es_prediction isotropic(int64_t d, double H, double n)
{
    es_prediction p;
    assert_ok(es_predict_isotropic(d, H, ES_ROTATION_HAAR, n, NULL, &p, NULL, &err));
    return p;
}

static void predictions_are_the_golden_ones(void **state)
{
    (void)state;
    json_t *group = golden("prediction"), *rows = json_object_get(group, "items");
    double worst = 0.0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const es_prediction p =
            isotropic((int64_t)golden_real(row, "d"), golden_real(row, "H"), golden_real(row, "n"));
        const double sd = sqrt(p.population.cov_rms * p.population.cov_rms -
                               p.population.cov_bias * p.population.cov_bias);
        const double got[] = {p.population.query_rms,
                              p.population.mean_rms,
                              p.self.mean_rms,
                              p.population.cov_bias,
                              sd,
                              p.self.cov_rms};
        static const char *const keys[] = {"rms_query",  "rms_mean_pop", "rms_mean_self",
                                           "cov_bias_F", "cov_sd_pop",   "rms_cov_self"};
        /* The golden values are of first order. (1) In self mode they count a query's own token
         * twice: for H -> 0 their variance of the mean is (n + 2)/n^2, not 1/n, and how much others
         * get of a token does not depend on the query's own weight; 2.4e-3
         * of the mean and 4.6e-3 of the covariance at d = 1, n = 1000. (2)
         * What pairs of tokens do, and the spread of sum w^2, are added here to the covariance. */
        const struct {
            double below, above;
        } allowed[] = {{2e-3, 2e-3}, {2e-3, 2e-3}, {3e-3, 2e-3},
                       {2e-3, 2e-3}, {2e-3, 2e-2}, {6e-3, 2e-2}};
        for (int k = 0; k < 6; k++) {
            const double ratio = got[k] / golden_real(row, keys[k]) - 1;
            if (!(ratio >= -allowed[k].below && ratio <= allowed[k].above))
                fail_msg("%s of item %zu: %.3e", keys[k], i, ratio);
            if (k < 4)
                worst = fmax(worst, fabs(ratio));
        }
    }
    print_message("largest relative difference %.1e\n", worst);
    json_decref(group);
}

/* THEORY 4.5 quotes these two; of self mode and the covariance see above. */
static void predictions_known_by_heart(void **state)
{
    (void)state;
    es_prediction p = isotropic(1, 1, 1000);
    assert_close(p.population.query_rms, .12188, 1e-4);
    assert_close(p.self.mean_rms, .07467, 6e-3);
    assert_close(p.self.cov_rms, .17672, 2e-2);
    p = isotropic(50, 1, 1000);
    assert_close(p.population.query_rms, 6.5203, 1e-4);
    assert_close(p.self.mean_rms, .36523, 1e-3);
    assert_close(p.self.cov_rms, 2.9994, 2e-2);
}

/* For n -> infinity and H < 1 the variance of the mean is that of the CLT. */
static void mean_approaches_its_clt(void **state)
{
    (void)state;
    const double h[3] = {.4, .4, .4};
    double want;
    assert_ok(es_mean_clt(h, 3, &want, &err));
    es_prediction p = isotropic(3, .4, 1e7);
    assert_close(p.population.mean_rms * p.population.mean_rms * 1e7, want, 1e-4);
    /* random rotation: |M|_F^2 more; none: 2 tr M more than that */
    assert_close(p.self.mean_rms * p.self.mean_rms * 1e7, want + 3 * .16, 1e-4);
    assert_ok(es_predict_isotropic(3, .4, ES_ROTATION_NONE, 1e7, NULL, &p, NULL, &err));
    assert_close(p.self.mean_rms * p.self.mean_rms * 1e7, want + 3 * .16 + 2 * 3 * .4, 1e-4);
    /* d = 1, H = 1/2: variance of the covariance, 4.4 */
    p = isotropic(1, .5, 1e7);
    assert_close(p.population.cov_rms * p.population.cov_rms * 1e7, .6059067279, 2e-3);
    assert_close(p.self.cov_rms * p.self.cov_rms * 1e7, 1.2309067279, 2e-3);
}

static void slopes_are_those_of_the_table(void **state)
{
    (void)state;
    es_prediction p, s;
    assert_ok(es_predict_isotropic(50, .5, ES_ROTATION_HAAR, 5000, NULL, &p, &s, &err));
    assert_near(s.population.query_rms, .149, .03); /* 4.5: n = 1e3 .. 3e4 */
    assert_near(s.self.mean_rms, .446, .03);
    assert_ok(es_predict_isotropic(1, .2, ES_ROTATION_NONE, 1e5, NULL, &p, &s, &err));
    assert_near(s.population.query_rms, .5, .002);
    assert_near(s.self.mean_rms, .5, .002);
    assert_near(s.self.cov_rms, .5, .002);
}

/* No weights at all: outputs are the plain mean, whose variance is d/n, whoever asks. */
static void without_scores_the_mean_is_exact(void **state)
{
    (void)state;
    static const es_rotation rotations[] = {ES_ROTATION_NONE, ES_ROTATION_HAAR};
    for (int64_t d = 1; d <= 10; d += 9)
        for (int i = 0; i < 2; i++) {
            es_prediction p;
            assert_ok(es_predict_isotropic(d, 1e-3, rotations[i], 100, NULL, &p, NULL, &err));
            /* H = 1e-3, and q from 1e-3 on, add 2 tr M / n at most */
            assert_close(p.self.mean_rms, sqrt((double)d / 100), 2e-3);
            assert_close(p.population.mean_rms, sqrt((double)d / 100), 1e-5);
            assert_close(p.self.query_rms, sqrt((double)d / 100), 1.1e-3);
        }
}

/* `slope` is the derivative: against the secant between n/1.1 and 1.1 n, whose error is of second
 * order in log 1.1 times a curvature of order 0.1. Equal seeds ask equal queries, so that sampling
 * does not enter. */
static void slopes_are_derivatives(void **state)
{
    (void)state;
    const double S[9] = {2, .3, 0, .3, 1, 0, 0, 0, .5}, A[9] = {.5, .2, 0, -.3, .4, .1, 0, .6, .2};
    const es_view cov = es_view_f64(S, 3, 3), a = es_view_f64(A, 3, 3);
    const es_head head = {.A = &a};
    const es_predict_opts opts = {.samples = 64, .seed = 5};
    es_prediction at[3], slope;
    static const double n[3] = {1000, 1100, 1210};
    for (int i = 0; i < 3; i++)
        assert_ok(es_predict_general(&cov, 0, &head, n[i], &opts, NULL, &at[i],
                                     i == 1 ? &slope : NULL, &err));
    const double step = log(1.21);
    assert_near(slope.self.query_rms, log(at[0].self.query_rms / at[2].self.query_rms) / step,
                5e-3);
    assert_near(slope.self.mean_rms, log(at[0].self.mean_rms / at[2].self.mean_rms) / step, 5e-3);
    assert_near(slope.self.cov_rms, log(at[0].self.cov_rms / at[2].self.cov_rms) / step, 5e-3);
    assert_near(slope.population.cov_rms,
                log(at[0].population.cov_rms / at[2].population.cov_rms) / step, 5e-3);
    for (int i = 0; i < 3; i++)
        assert_ok(es_predict_isotropic(3, .8, ES_ROTATION_NONE, n[i], NULL, &at[i],
                                       i == 1 ? &slope : NULL, &err));
    assert_near(slope.self.mean_rms, log(at[0].self.mean_rms / at[2].self.mean_rms) / step, 5e-3);
    assert_near(slope.self.cov_rms, log(at[0].self.cov_rms / at[2].self.cov_rms) / step, 5e-3);
}

/* The general road on an isotropic head whose rotation has no trace, within its sampling error. */
static void general_agrees_with_isotropic(void **state)
{
    (void)state;
    enum { D = 8 };
    double A[D * D] = {0}, S[D * D] = {0};
    for (int i = 0; i < D; i++) {
        S[i * D + i] = 2.0;
        A[i * D + (i + 1) % D] = i % 2 ? 0.4 : -0.4; /* M = 0.8 O */
    }
    const es_view cov = es_view_f64(S, D, D), a = es_view_f64(A, D, D);
    const es_head head = {.A = &a};
    const es_predict_opts opts = {.samples = 256, .seed = 3};
    es_prediction p, again, slope, want = isotropic(D, .8, 2000);
    assert_ok(es_predict_general(&cov, 0, &head, 2000, &opts, NULL, &p, &slope, &err));
    assert_ok(es_predict_general(&cov, 0, &head, 2000, &opts, NULL, &again, NULL, &err));
    assert_memory_equal(&p, &again, sizeof p);
    assert_between(p.sampling, 0, 0.06);
    const double unit = sqrt(2.0);                /* outputs are sqrt(2) times whitened ones */
    const double allowed = 3 * p.sampling + 0.02; /* and pairs of tokens, which it leaves out */
    assert_close(p.population.query_rms, unit * want.population.query_rms, allowed);
    assert_close(p.population.mean_rms, unit * want.population.mean_rms, allowed);
    assert_close(p.self.mean_rms, unit * want.self.mean_rms, allowed);
    assert_close(p.population.cov_rms, 2 * want.population.cov_rms, allowed);
    assert_close(p.self.cov_rms, 2 * want.self.cov_rms, allowed);
    /* values enter through V S V': V = 3 scales what is linear by 3, the covariance by 9 */
    double V[D * D] = {0};
    for (int i = 0; i < D; i++)
        V[i * D + i] = 3.0;
    const es_view v = es_view_f64(V, D, D);
    const es_head valued = {.A = &a, .V = &v};
    assert_ok(es_predict_general(&cov, 0, &valued, 2000, &opts, NULL, &again, NULL, &err));
    assert_close(again.self.mean_rms, 3 * p.self.mean_rms, 1e-10);
    assert_close(again.self.cov_rms, 9 * p.self.cov_rms, 1e-10);
    assert_above(slope.self.mean_rms, 0.3);
    assert_at_most(slope.self.mean_rms, 0.51);
}

/* No scores: the output is the mean of n tokens. */
static void general_without_scores_is_a_plain_mean(void **state)
{
    (void)state;
    const double S[9] = {1, 0, 0, 0, 2, 0, 0, 0, 3}, A[9] = {0};
    const es_view cov = es_view_f64(S, 3, 3), a = es_view_f64(A, 3, 3);
    const es_head head = {.A = &a};
    const es_predict_opts opts = {.samples = 64};
    es_prediction p;
    assert_ok(es_predict_general(&cov, 0, &head, 600, &opts, NULL, &p, NULL, &err));
    assert_close(p.population.query_rms, .1, 1e-3); /* sqrt(tr S / n) */
    assert_close(p.population.mean_rms, .1, 1e-3);
    assert_close(p.self.mean_rms, .1, 2e-3);
    const double none[9] = {0};
    const es_view zero = es_view_f64(none, 3, 3);
    assert_int_equal(es_predict_general(&zero, 0, &head, 600, &opts, NULL, &p, NULL, &err),
                     ES_E_NUMERIC);
    const es_predict_opts few = {.samples = 3};
    assert_int_equal(es_predict_general(&cov, 0, &head, 600, &few, NULL, &p, NULL, &err),
                     ES_E_RANGE);
    es_mem_limit tiny = {.limit = 300000};
    assert_int_equal(es_predict_general(&cov, 0, &head, 600, &opts, &tiny, &p, NULL, &err),
                     ES_E_LIMIT);
    assert_int_equal(tiny.used, 0);
}

static void predictions_refuse_what_they_cannot_do(void **state)
{
    (void)state;
    es_prediction p;
    const struct {
        int64_t d;
        double H, n;
    } bad[] = {{0, 1, 100}, {5000, 1, 100}, {2, -1, 100}, {2, NAN, 100}, {2, 1, 2}, {2, 1, 10.5}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(es_predict_isotropic(bad[i].d, bad[i].H, ES_ROTATION_HAAR, bad[i].n, NULL,
                                              &p, NULL, &err),
                         ES_E_RANGE);
    assert_int_equal(es_predict_isotropic(2, 1, (es_rotation)7, 100, NULL, &p, NULL, &err),
                     ES_E_ARGUMENT);
    es_mem_limit tiny = {.limit = 1000};
    assert_int_equal(es_predict_isotropic(2, 1, ES_ROTATION_HAAR, 100, &tiny, &p, NULL, &err),
                     ES_E_LIMIT);
    assert_int_equal(tiny.used, 0);
}

/* E (S^k - 1)^2 for the variance S of n standard normals, divided by n: n S is chi^2 of n - 1. */
static double spread_of_power(int k, double n)
{
    double one = 1.0, two = 1.0;
    for (int i = 0; i < 2 * k; i++) {
        two *= (n - 1.0 + 2.0 * i) / n;
        if (i < k)
            one *= (n - 1.0 + 2.0 * i) / n;
    }
    return two - 2.0 * one + 1.0;
}

/* A tiny head of one dimension: outputs are y_mean + H S x with S the tokens' variance, so that
 * their variance is H^2 S^3 over the tokens themselves and H^2 S^2 over independent queries; the
 * limit is H^2. The prediction keeps first order and pairs: what it lacks is of relative order
 * 1/sqrt(n) / 2, some 5 % at n = 100 and 0.5 % at 10^4. */
static void covariance_of_a_tiny_head_is_known(void **state)
{
    static const double sizes[] = {100, 10000}, allowed[] = {0.05, 0.005};
    (void)state;
    for (int i = 0; i < 2; i++)
        for (double H = 0.05; H > 1e-3; H /= 10.0) {
            es_prediction p;
            assert_ok(es_predict_isotropic(1, H, ES_ROTATION_NONE, sizes[i], NULL, &p, NULL, &err));
            const double self = H * H * sqrt(spread_of_power(3, sizes[i]));
            const double population = H * H * sqrt(spread_of_power(2, sizes[i]));
            assert_near(p.self.cov_rms / self, 1.0, allowed[i]);
            assert_near(p.population.cov_rms / population, 1.0, allowed[i]);
        }
}

/* The same head and its covariance, given as matrices, however small. */
static void general_knows_tiny_heads(void **state)
{
    enum { DIM = 10 };
    double identity[DIM * DIM] = {0}, A[DIM * DIM] = {0};
    (void)state;
    for (int i = 0; i < DIM; i++)
        identity[i * DIM + i] = 1.0;
    const es_view cov = es_view_f64(identity, DIM, DIM), view = es_view_f64(A, DIM, DIM);
    for (double H = 0.02; H > 1e-4; H /= 100.0) {
        es_prediction one, other;
        for (int i = 0; i < DIM; i++)
            A[i * DIM + i] = H;
        const es_head head = {.A = &view};
        const es_predict_opts few = {.samples = 128};
        assert_ok(es_predict_general(&cov, 0.0, &head, 1000, &few, NULL, &one, NULL, &err));
        assert_ok(es_predict_isotropic(DIM, H, ES_ROTATION_NONE, 1000, NULL, &other, NULL, &err));
        /* the general path samples queries and leaves pairs out: some per cent */
        assert_near(one.self.cov_rms / other.self.cov_rms, 1.0, 0.1);
    }
}

TEST_FILE(theory_predict)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_the_golden_ones),
        cmocka_unit_test(predictions_known_by_heart),
        cmocka_unit_test(mean_approaches_its_clt),
        cmocka_unit_test(slopes_are_those_of_the_table),
        cmocka_unit_test(without_scores_the_mean_is_exact),
        cmocka_unit_test(slopes_are_derivatives),
        cmocka_unit_test(general_agrees_with_isotropic),
        cmocka_unit_test(general_without_scores_is_a_plain_mean),
        cmocka_unit_test(covariance_of_a_tiny_head_is_known),
        cmocka_unit_test(general_knows_tiny_heads),
        cmocka_unit_test(predictions_refuse_what_they_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
