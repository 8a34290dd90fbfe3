/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"
#include "numbers.h"
#include "stats/context.h"
#include "testing.h"

enum { MOST = 64 };

static int64_t array_of(const json_t *group, const char *key, double *out)
{
    const json_t *list = json_object_get(group, key);
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = json_number_value(json_array_get(list, i));
    return (int64_t)json_array_size(list);
}

/* Reference fits of an optimiser that stopped at relative 1e-6 or so. */
static void fits_agree_with_theory_json(void **state)
{
    (void)state;
    json_t *group = golden("context_fit");
    double c[MOST], L[MOST], off[MOST], weights[MOST];
    const int64_t m = array_of(group, "c", c);
    assert_int_equal(array_of(group, "L", L), m);
    assert_int_equal(array_of(group, "L_outlier", off), m);
    const es_context_opts squares = {.huber = -1.0}, robust = {.span = 5.0};
    const json_t *want = json_object_get(group, "fit");
    es_context_fit fit;
    assert_ok(es_context_fit_points(c, L, NULL, m, &squares, NULL, NULL, &fit, &err));
    assert_close(fit.beta, golden_real(want, "beta"), 1e-7);
    assert_close(fit.gamma, golden_real(want, "gamma"), 1e-7);
    assert_close(fit.A, golden_real(want, "A"), 1e-7);
    assert_close(fit.alpha, golden_real(want, "alpha"), 1e-6);
    assert_close(fit.beta_se, golden_real(want, "se_beta"), 1e-5);
    assert_close(fit.gamma_se, golden_real(want, "se_gamma"), 1e-5);
    want = json_object_get(group, "fit_outlier_ls");
    assert_ok(es_context_fit_points(c, off, NULL, m, &squares, NULL, NULL, &fit, &err));
    assert_close(fit.beta, golden_real(want, "beta"), 1e-6);
    assert_close(fit.gamma, golden_real(want, "gamma"), 1e-6);
    assert_close(fit.beta_se, golden_real(want, "se_beta"), 1e-5);
    /* Robust fits differ in how they measure the scatter: the reference takes the median of all
     * residuals, and what the moved point may pull is proportional to it. The beta of least squares
     * is 14 standard errors away. */
    want = json_object_get(group, "fit_outlier_huber1345");
    assert_ok(es_context_fit_points(c, off, NULL, m, &robust, NULL, weights, &fit, &err));
    print_message("Huber: beta %.10f, reference %.10f; se %.5f, reference %.5f\n", fit.beta,
                  golden_real(want, "beta"), fit.beta_se, golden_real(want, "se_beta"));
    assert_near(fit.beta, golden_real(want, "beta"), 0.3 * fit.beta_se);
    assert_near(fit.gamma, golden_real(want, "gamma"), 0.3 * fit.gamma_se);
    assert_int_equal(fit.outliers, 1);
    assert_below(weights[5], 0.1); /* the point that was moved */
    json_decref(group);
}

static double truth(double c) { return pow(17.9 / c, 0.51) + 1.35; }

static void exact_points_give_the_curve_back(void **state)
{
    (void)state;
    double c[14], L[14];
    es_context_fit fit;
    for (int i = 0; i < 14; i++)
        L[i] = truth(c[i] = exp2(i + 2));
    for (int huber = -1; huber <= 1; huber += 2) {
        const es_context_opts opts = {.huber = huber < 0 ? -1.0 : 0.0};
        assert_ok(es_context_fit_points(c, L, NULL, 14, &opts, NULL, NULL, &fit, &err));
        /* Rounding of 1e-16 in L, times a condition of 1e3 or so. */
        assert_close(fit.beta, 0.51, 1e-12);
        assert_close(fit.gamma, 1.35, 1e-12);
        assert_close(fit.alpha, 17.9, 1e-10);
        assert_close(fit.halving, exp2(-0.51), 1e-12);
        assert_at_most(fit.beta_low, fit.beta);
        assert_at_most(fit.beta, fit.beta_high);
        double se;
        assert_close(es_context_predict(&fit, 1e6, &se), truth(1e6), 1e-11);
        assert_at_least(se, 0.0);
        assert_below(se, 1e-9);
    }
}

/* Order, the unit of c and a common factor on se change nothing but their own parameter. */
static void units_and_order_do_not_matter(void **state)
{
    (void)state;
    double c[16], L[16], se[16], other_c[16], other_L[16], other_se[16];
    es_context_fit a, b;
    state_of_rng = 5;
    for (int i = 0; i < 16; i++) {
        c[i] = exp2(i);
        se[i] = 0.01 + 0.001 * i;
        L[i] = truth(c[i]) + se[i] * normal();
        other_c[15 - i] = 1000.0 * c[i];
        other_L[15 - i] = L[i];
        other_se[15 - i] = 7.0 * se[i];
    }
    assert_ok(es_context_fit_points(c, L, se, 16, NULL, NULL, NULL, &a, &err));
    assert_ok(es_context_fit_points(other_c, other_L, other_se, 16, NULL, NULL, NULL, &b, &err));
    assert_close(b.beta, a.beta, 1e-10);
    assert_close(b.gamma, a.gamma, 1e-10);
    assert_close(b.alpha, 1000.0 * a.alpha, 1e-8);
    assert_close(b.scatter, a.scatter / 7.0, 1e-8);
    assert_close(b.beta_low, a.beta_low, 1e-7);
    assert_close(b.gamma_high, a.gamma_high, 1e-7);
    double se_a, se_b;
    assert_close(es_context_predict(&b, 4e6, &se_b), es_context_predict(&a, 4e3, &se_a), 1e-10);
    assert_close(se_b, se_a, 1e-7);
}

/* Where the profile interval ends, the F statistic of restricted against free least squares is its
 * quantile: t(13; 0.975)^2 = 2.160369^2. Restricted fits by a search of our own. */
static double squares_at(const double *c, const double *L, double beta)
{
    double least = INFINITY;
    double lo = 0.5, hi = 2.0; /* gamma; A in closed form */
    for (int round = 0; round < 200; round++) {
        const double g[2] = {lo + (hi - lo) / 3.0, hi - (hi - lo) / 3.0};
        double ss[2];
        for (int k = 0; k < 2; k++) {
            double ff = 0.0, fL = 0.0;
            for (int i = 0; i < 16; i++) {
                ff += pow(c[i], -2.0 * beta);
                fL += pow(c[i], -beta) * (L[i] - g[k]);
            }
            ss[k] = 0.0;
            for (int i = 0; i < 16; i++)
                ss[k] += pow(L[i] - g[k] - fL / ff * pow(c[i], -beta), 2.0);
        }
        least = fmin(ss[0], ss[1]);
        *(ss[0] < ss[1] ? &hi : &lo) = ss[0] < ss[1] ? g[1] : g[0];
    }
    return least;
}

static void intervals_end_at_the_quantile(void **state)
{
    (void)state;
    double c[16], L[16];
    es_context_fit fit;
    state_of_rng = 6;
    for (int i = 0; i < 16; i++)
        L[i] = truth(c[i] = exp2(i)) + 0.02 * normal();
    const es_context_opts squares = {.huber = -1.0};
    assert_ok(es_context_fit_points(c, L, NULL, 16, &squares, NULL, NULL, &fit, &err));
    const double least = squares_at(c, L, fit.beta), limit = 2.160368656461013;
    assert_close(13.0 * (squares_at(c, L, fit.beta_low) / least - 1.0), limit * limit, 1e-6);
    assert_close(13.0 * (squares_at(c, L, fit.beta_high) / least - 1.0), limit * limit, 1e-6);
}

/* Few points with normal errors have no outliers: of 300 tables of 7 points 1.7 % have a weight
 * below 0.5 (5 of 300; 16 is five standard deviations more), and the scale is theirs within a
 * fifth. With all residuals in its median it is 0.66 times theirs, and 37 % of the tables have
 * outliers. */
static void few_points_have_no_outliers(void **state)
{
    (void)state;
    enum { TRIES = 300, POINTS = 7 };
    int outliers = 0;
    double scale = 0.0;
    state_of_rng = 11;
    for (int t = 0; t < TRIES; t++) {
        double c[POINTS], L[POINTS];
        for (int i = 0; i < POINTS; i++)
            L[i] = truth(c[i] = exp2(3 * i)) + 0.01 * normal();
        es_context_fit fit;
        assert_ok(es_context_fit_points(c, L, NULL, POINTS, NULL, NULL, NULL, &fit, &err));
        outliers += fit.outliers > 0;
        scale += fit.scatter / 0.01 / TRIES;
    }
    print_message("outliers in %d of %d, scale %.3f\n", outliers, TRIES, scale);
    assert_at_most(outliers, 16);
    assert_between(scale, 0.95, 1.4);
}

/* Of 95 % intervals over normal noise, 95 % hold the truth: of 150, 142 +- 2.7; four standard
 * deviations are allowed. With a fifth of the points ten times as noisy the robust ones should
 * still hold it about as often; theory is asymptotic there, so the allowance is wider. */
static void intervals_cover(void **state)
{
    (void)state;
    enum { TRIES = 150 };
    static const struct {
        double huber, bad;
        int count, least, most;
    } cases[] = {{-1.0, 0.0, 18, 131, 150},
                 {0.0, 0.0, 18, 130, 150},
                 {0.0, 0.15, 18, 125, 150},
                 {0.0, 0.0, 8, 125, 150}};
    for (int k = 0; k < 4; k++) {
        int beta = 0, gamma = 0, fitted = 0;
        state_of_rng = 77;
        for (int t = 0; t < TRIES; t++) {
            double c[18], L[18];
            for (int i = 0; i < cases[k].count; i++)
                L[i] = truth(c[i] = pow(131072.0, i / (cases[k].count - 1.0))) +
                       0.01 * normal() * (uniform() < cases[k].bad ? 10.0 : 1.0);
            const es_context_opts opts = {.huber = cases[k].huber};
            es_context_fit fit;
            assert_ok(
                es_context_fit_points(c, L, NULL, cases[k].count, &opts, NULL, NULL, &fit, &err));
            fitted++;
            beta += fit.beta_low <= 0.51 && 0.51 <= fit.beta_high;
            gamma += fit.gamma_low <= 1.35 && 1.35 <= fit.gamma_high;
        }
        print_message("%d points, huber %g, %g bad: beta %d, gamma %d of %d\n", cases[k].count,
                      cases[k].huber, cases[k].bad, beta, gamma, fitted);
        assert_in_range(beta, cases[k].least, cases[k].most);
        assert_in_range(gamma, cases[k].least, cases[k].most);
    }
}

static void refused(es_status status, const char *rule, const double *c, const double *L,
                    const double *se, int64_t count)
{
    es_context_fit fit;
    assert_int_equal(es_context_fit_points(c, L, se, count, NULL, NULL, NULL, &fit, &err), status);
    assert_string_equal(err.rule, rule);
    assert_true(*err.message && *err.hint);
}

static void NU10_what_cannot_be_fitted_is_refused(void **state)
{
    (void)state;
    double c[20], L[20], se[20];
    for (int i = 0; i < 20; i++) {
        c[i] = exp2(i);
        L[i] = truth(c[i]);
        se[i] = 0.01;
    }
    refused(ES_E_EMPTY, "context.points", c, L, NULL, 3);
    refused(ES_E_EMPTY, "context.points", c, L, NULL, 0);
    refused(ES_E_NUMERIC, "context.span", c, L, NULL, 5); /* 16^0.51 = 4.1 */
    se[3] = 0.0;
    refused(ES_E_RANGE, "context.range", c, L, se, 20);
    assert_int_equal(err.row, 3);
    se[3] = (double)NAN;
    refused(ES_E_NONFINITE, "context.finite", c, L, se, 20);
    double bad[20];
    memcpy(bad, c, sizeof c);
    bad[7] = -1.0;
    refused(ES_E_RANGE, "context.range", bad, L, NULL, 20);
    for (int i = 0; i < 20; i++)
        bad[i] = 2.0;
    refused(ES_E_EMPTY, "context.points", bad, L, NULL, 20); /* one context, twenty times */
    refused(ES_E_NUMERIC, "context.flat", c, bad, NULL, 20); /* constant loss */
    for (int i = 0; i < 20; i++)
        bad[i] = 1.0 + 0.1 * i;
    refused(ES_E_NUMERIC, "context.flat", c, bad, NULL, 20); /* growing loss */
    /* Noise as large as the signal leaves beta open. */
    state_of_rng = 3;
    for (int i = 0; i < 20; i++)
        bad[i] = 1.0 + 0.3 * pow(c[i], -0.5) + 0.2 * normal();
    es_context_fit fit;
    assert_int_equal(es_context_fit_points(c, bad, NULL, 20, NULL, NULL, NULL, &fit, &err),
                     ES_E_NUMERIC);
    const es_context_opts level = {.level = 1.5};
    assert_int_equal(es_context_fit_points(c, L, NULL, 20, &level, NULL, NULL, &fit, &err),
                     ES_E_ARGUMENT);
}

TEST_FILE(context)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_agree_with_theory_json),
        cmocka_unit_test(exact_points_give_the_curve_back),
        cmocka_unit_test(units_and_order_do_not_matter),
        cmocka_unit_test(intervals_end_at_the_quantile),
        cmocka_unit_test(few_points_have_no_outliers),
        cmocka_unit_test(intervals_cover),
        cmocka_unit_test(NU10_what_cannot_be_fitted_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
