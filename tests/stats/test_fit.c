/* SPDX-License-Identifier: Apache-2.0 */
/* test_fit.c : rates of power laws: reference values, refusals, and whether intervals hold what
 * they promise. */
#include "testing.h"

#include "golden.h"
#include "numbers.h"
#include "stats/average.h"
#include "stats/fit.h"

/* ---- one line ---- */

static const es_fit_point sample[] = {{1000, .10, .02, 0},
                                      {2000, .072, .015, 0},
                                      {4000, .049, .011, 0},
                                      {8000, .036, .007, 0},
                                      {16000, .0243, .006, 0}};

static void a_line_has_its_reference_values(void **state)
{
    (void)state;
    es_fit_point p[5];
    memcpy(p, sample, sizeof p);
    for (int i = 0; i < 5; i++)
        p[i].se /= sqrt(200.0);
    es_fit fit;
    assert_ok(es_fit_power(p, 5, &fit, &err));
    assert_close(fit.rate, 0.5058592626240017, 1e-12);
    assert_close(fit.intercept, 1.199632626816693, 1e-12);
    assert_close(fit.rate_se, 0.01050796523566689, 1e-11);
    assert_close(fit.rate_se_known, 0.006983609809327416, 1e-12);
    assert_close(fit.chi2, 6.792014066631413, 1e-11);
    assert_close(fit.p_value, 0.0788308935998629, 1e-10); /* Q(3/2, chi2/2), mpmath */
    assert_close(fit.ols_rate, 0.5081943562112617, 1e-12);
    assert_int_equal(fit.used, 5);
}

static void lines_agree_with_theory_json(void **state)
{
    (void)state;
    json_t *cases = golden("wls");
    size_t i;
    json_t *c;
    json_array_foreach(cases, i, c)
    {
        es_fit_point p[16];
        const json_t *n = json_object_get(c, "n");
        const int64_t count = (int64_t)json_array_size(n);
        assert_in_range(count, 3, 16);
        for (size_t k = 0; k < (size_t)count; k++)
            p[k] = (es_fit_point){
                .n = json_number_value(json_array_get(n, k)),
                .error = json_number_value(json_array_get(json_object_get(c, "err"), k)),
                .se = json_number_value(json_array_get(json_object_get(c, "std"), k)) /
                      sqrt(golden_real(c, "k"))};
        es_fit fit;
        assert_ok(es_fit_power(p, count, &fit, &err));
        assert_close(-fit.rate, golden_real(c, "slope"), 1e-10);
        assert_close(fit.intercept, golden_real(c, "intercept"), 1e-10);
        assert_close(fit.rate_se, golden_real(c, "slope_se"), 1e-10);
        assert_close(fit.intercept_se, golden_real(c, "intercept_se"), 1e-10);
        assert_close(fit.rate_se_known, golden_real(c, "slope_se_known"), 1e-10);
        assert_close(fit.chi2, golden_real(c, "chi2"), 1e-10);
        assert_close(-fit.ols_rate, golden_real(c, "ols_slope"), 1e-10);
        assert_close(fit.ols_intercept, golden_real(c, "ols_intercept"), 1e-10);
    }
    json_decref(cases);
}

static void a_narrow_grid_far_out_keeps_its_digits(void **state)
{
    (void)state;
    es_fit_point p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = (es_fit_point){.n = 1e12 * (1.0 + 1e-3 * i)};
        p[i].error = exp(2.0 - 0.25 * log(p[i].n));
        p[i].se = p[i].error * (i + 1);
    }
    es_fit fit;
    assert_ok(es_fit_power(p, 4, &fit, &err));
    assert_near(fit.rate, 0.25, 1e-10);
}

static es_status refused(const es_fit_point *p, int64_t count, const char *rule)
{
    es_fit fit;
    const es_status status = es_fit_power(p, count, &fit, &err);
    assert_string_equal(err.rule, rule);
    return status;
}

static void NU10_what_has_no_line_is_refused(void **state)
{
    (void)state;
    es_fit_point p[5];
    assert_int_equal(refused(sample, 2, "fit.points"), ES_E_EMPTY);
    memcpy(p, sample, sizeof p);
    p[0].flags = p[1].flags = p[2].flags = ES_FIT_FLOOR;
    assert_int_equal(refused(p, 5, "fit.points"), ES_E_EMPTY);
    memcpy(p, sample, sizeof p);
    for (int i = 0; i < 5; i++)
        p[i].n = 77;
    assert_int_equal(refused(p, 5, "fit.equal"), ES_E_RANGE);
    const es_fit_point hopeless[] = {{10, 1e-300, 1, 0}, {20, 1e-300, 1, 0}, {30, 1e-300, 1, 0}};
    assert_int_equal(refused(hopeless, 3, "fit.weights"), ES_E_NUMERIC);
    static const struct {
        es_fit_point point;
        const char *rule;
        es_status status;
    } bad[] = {{{4000, 0.0, .1, 0}, "fit.error", ES_E_RANGE},
               {{4000, -1.0, .1, 0}, "fit.error", ES_E_RANGE},
               {{4000, NAN, .1, 0}, "fit.finite", ES_E_NONFINITE},
               {{4000, INFINITY, .1, 0}, "fit.finite", ES_E_NONFINITE},
               {{4000, 1.0, NAN, 0}, "fit.finite", ES_E_NONFINITE},
               {{4000, 1.0, -.1, 0}, "fit.se", ES_E_RANGE},
               {{0, 1.0, .1, 0}, "fit.n", ES_E_RANGE},
               {{NAN, 1.0, .1, 0}, "fit.finite", ES_E_NONFINITE}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(p, sample, sizeof p);
        p[2] = bad[i].point;
        assert_int_equal(refused(p, 5, bad[i].rule), bad[i].status);
        assert_int_equal(err.row, 2);
        p[2].flags = ES_FIT_REFERENCE; /* and left out it does no harm */
        es_fit fit;
        assert_ok(es_fit_power(p, 5, &fit, &err));
        assert_int_equal(fit.used, 4);
        assert_int_equal(fit.left_out, 1);
    }
}

static void NU11_NU12_points_that_show_something_else_are_flagged(void **state)
{
    (void)state;
    assert_int_equal(es_fit_flags_of(1e-15, 2e-16, 0.0), ES_FIT_FLOOR);
    assert_int_equal(es_fit_flags_of(1e-3, 2e-16, 2e-4), ES_FIT_REFERENCE);
    assert_int_equal(es_fit_flags_of(1e-15, 2e-16, 1.0), ES_FIT_FLOOR | ES_FIT_REFERENCE);
    assert_int_equal(es_fit_flags_of(1e-3, 2e-16, 9e-5), 0);
    assert_int_equal(es_fit_flags_of(0.0, 0.0, 0.0), 0);
}

/* ---- replicates ---- */

enum { R = 40, P = 12 };
static const double grid[P] = {64, 80, 100, 125, 156, 195, 244, 305, 381, 477, 596, 745};

/* |mean of n standard normals| for prefixes of one sample, exactly: S_m = S_n + sqrt(m-n) Z. Rate
 * 1/2. With fresh = true every prefix has a sample of its own. */
static void draw_errors(double errors[R * P], bool fresh)
{
    for (int r = 0; r < R; r++) {
        double sum = 0.0;
        for (int p = 0; p < P; p++) {
            const double from = fresh || p == 0 ? 0.0 : grid[p - 1];
            sum = (from > 0.0 ? sum : 0.0) + sqrt(grid[p] - from) * normal();
            errors[r * P + p] = fabs(sum) / grid[p];
        }
    }
}

static void summaries_are_what_they_say(void **state)
{
    (void)state;
    const double errors[4 * 3] = {1, 8, 1, 2, 4, 1, 3, 2, 1, 10, 2, 2}, n[3] = {1, 10, 100};
    es_fit_summary s[3];
    es_rate rate;
    assert_ok(es_fit_replicates(errors, 4, 3, n, NULL, NULL, s, &rate, &err));
    assert_near(s[0].mean, 4.0, 0.0);
    assert_near(s[0].median, 2.5, 0.0);
    assert_close(s[0].sd, sqrt(12.5), 1e-15);
    assert_close(s[0].se, sqrt(50.0 / 3.0) / 2.0, 1e-15);
    assert_close(s[0].rms, sqrt(28.5), 1e-15);
    assert_near(s[2].median, 1.0, 0.0);
    es_fit_point p[3];
    for (int i = 0; i < 3; i++)
        p[i] = (es_fit_point){.n = n[i], .error = s[i].mean, .se = s[i].se};
    es_fit fit;
    assert_ok(es_fit_power(p, 3, &fit, &err));
    assert_near(rate.mean.rate, fit.rate, 0.0);
    assert_near(rate.mean.chi2, fit.chi2, 0.0);
    assert_string_equal(rate.reason, "");
}

/* ---- intervals and tests, against their definitions ---- */

/* The line through the means of some of the rows, written down as the header says it. */
static double line_without(const double *errors, int rows, int out)
{
    es_fit_point p[P];
    for (int i = 0; i < P; i++) {
        double sum = 0.0, squares = 0.0;
        const double m = rows - (out >= 0);
        for (int r = 0; r < rows; r++)
            sum += r == out ? 0.0 : errors[r * P + i] / m;
        for (int r = 0; r < rows; r++)
            squares += r == out ? 0.0 : pow(errors[r * P + i] - sum, 2.0);
        p[i] = (es_fit_point){.n = grid[i], .error = sum, .se = sqrt(squares / (m - 1.0) / m)};
    }
    es_fit fit;
    assert_ok(es_fit_power(p, P, &fit, &err));
    return fit.rate;
}

static void intervals_are_the_jackknife_with_students_t(void **state)
{
    (void)state;
    state_of_rng = 3;
    double errors[R * P], without[8], mean = 0.0, squares = 0.0;
    draw_errors(errors, false);
    for (int r = 0; r < 8; r++)
        mean += (without[r] = line_without(errors, 8, r)) / 8.0;
    for (int r = 0; r < 8; r++)
        squares += pow(without[r] - mean, 2.0);
    const double se = sqrt(squares * 7.0 / 8.0);
    es_rate rate, wide;
    assert_ok(es_fit_replicates(errors, 8, P, grid, NULL, NULL, NULL, &rate, &err));
    assert_close(rate.mean.rate, line_without(errors, 8, -1), 1e-12);
    assert_close(rate.se, se, 1e-9); /* differences of rates that share their first digits */
    assert_close(rate.high - rate.mean.rate, 2.364624251592785 * se, 1e-9); /* t of 7 degrees */
    assert_close(rate.mean.rate - rate.low, 2.364624251592785 * se, 1e-9);
    assert_near(rate.freedom, 7.0, 0.0);
    const es_rate_opts wider = {.level = 0.99};
    assert_ok(es_fit_replicates(errors, 8, P, grid, NULL, &wider, NULL, &wide, &err));
    assert_close(wide.high - wide.mean.rate, 3.499483297350494 * se, 1e-9);
}

/* With 4 replicates one bend is tested, along the second Legendre-like polynomial, by Student's t
 * of the pseudo-values: here from a grid on which that polynomial is (1, -2, 1). */
static void the_test_of_a_power_law_is_hotellings(void **state)
{
    (void)state;
    const double n[3] = {1, 10, 100};
    const double e[4][3] = {{1, 0.5, 0.2}, {1.2, 0.4, 0.3}, {0.9, 0.6, 0.22}, {1.1, 0.55, 0.24}};
    double all = 0.0, pseudo[4], sum[3] = {0}, spread = 0.0, average = 0.0;
    for (int r = 0; r < 4; r++)
        for (int p = 0; p < 3; p++)
            sum[p] += e[r][p];
    all = log(sum[0]) - 2.0 * log(sum[1]) + log(sum[2]);
    for (int r = 0; r < 4; r++) {
        const double out =
            log(sum[0] - e[r][0]) - 2.0 * log(sum[1] - e[r][1]) + log(sum[2] - e[r][2]);
        average += (pseudo[r] = 4.0 * all - 3.0 * out) / 4.0;
    }
    for (int r = 0; r < 4; r++)
        spread += pow(pseudo[r] - average, 2.0) / 3.0;
    const double t = all / sqrt(spread / 4.0), root = sqrt(3.0), pi = 3.14159265358979323846;
    /* the tail of Student's law with 3 degrees, both sides */
    const double p = 1.0 - 2.0 / pi * (fabs(t) / root / (1.0 + t * t / 3.0) + atan(fabs(t) / root));
    es_rate rate;
    assert_ok(es_fit_replicates(e[0], 4, 3, n, NULL, NULL, NULL, &rate, &err));
    assert_int_equal(rate.bends, 1);
    assert_close(rate.power_p, p, 1e-10);
    assert_ok(es_fit_replicates(e[0], 3, 3, n, NULL, NULL, NULL, &rate, &err));
    assert_nan(rate.power_p);
    assert_equals(rate.bends, 0);
    assert_above(rate.se, 0.0);
}

/* ---- how often they are right ---- */

/* Over `trials` draws of `rows` replicates: how often an interval holds the true rate 1/2, also the
 * one that takes points for independent; how often a power law is doubted at 5 %. */
typedef struct coverage {
    double held, naive, doubted;
} coverage;

static coverage cover(int trials, int rows, bool fresh)
{
    int held = 0, naive = 0, doubted = 0;
    for (int t = 0; t < trials; t++) {
        double errors[R * P];
        draw_errors(errors, fresh);
        es_rate rate;
        assert_ok(es_fit_replicates(errors, rows, P, grid, NULL, NULL, NULL, &rate, &err));
        held += rate.low <= 0.5 && 0.5 <= rate.high;
        naive += fabs(rate.mean.rate - 0.5) <= 1.96 * rate.mean.rate_se_known;
        doubted += rate.power_p < 0.05;
    }
    return (coverage){(double)held / trials, (double)naive / trials, (double)doubted / trials};
}

/* 2000 draws see 95 % within 4 standard errors, 2 %; 5 % likewise. Points that are independent make
 * the weights of 3 replicates so noisy that intervals from 4 are too wide: 97.5 %. */
static void intervals_cover_the_true_rate_from_4_replicates_on(void **state)
{
    (void)state;
    state_of_rng = 2024;
    static const int rows[] = {4, 8, 40};
    for (int fresh = 0; fresh < 2; fresh++) {
        for (int i = 0; i < 3; i++) {
            const coverage c = cover(2000, rows[i], fresh);
            print_message("%d %s: %.4f, known variance %.3f, doubted %.4f\n", rows[i],
                          fresh ? "independent points" : "prefixes", c.held, c.naive, c.doubted);
            assert_near(c.held, fresh && rows[i] == 4 ? 0.975 : 0.95, 0.02);
            assert_near(c.doubted, 0.05, 0.02);
            if (!fresh)
                assert_below(c.naive, 0.88); /* what believing in independence costs */
        }
    }
}

/* A curve that bends is found out: error = n^-1/2 (1 + 64/n) with the fluctuations of prefixes. */
static void a_curve_that_bends_is_no_power_law(void **state)
{
    (void)state;
    state_of_rng = 77;
    int doubted = 0;
    for (int t = 0; t < 200; t++) {
        double errors[R * P];
        for (int r = 0; r < R; r++) {
            double sum = 0.0, last = 0.0;
            for (int p = 0; p < P; p++) {
                sum += sqrt(grid[p] - last) * normal();
                last = grid[p];
                errors[r * P + p] =
                    (1.0 + 0.1 * sum / sqrt(grid[p])) * (1.0 + 64.0 / grid[p]) / sqrt(grid[p]);
            }
        }
        es_rate rate;
        assert_ok(es_fit_replicates(errors, R, P, grid, NULL, NULL, NULL, &rate, &err));
        doubted += rate.power_p < 0.05;
    }
    assert_int_equal(doubted, 200);
}

static void one_replicate_has_a_rate_but_no_interval(void **state)
{
    (void)state;
    double errors[P];
    for (int p = 0; p < P; p++)
        errors[p] = 3.0 * pow(grid[p], -0.3);
    es_rate rate;
    es_fit_summary s[P];
    assert_ok(es_fit_replicates(errors, 1, P, grid, NULL, NULL, s, &rate, &err));
    assert_near(rate.mean.rate, 0.3, 1e-12);
    assert_near(rate.median.rate, 0.3, 1e-12);
    assert_nan(rate.low);
    assert_nan(rate.high);
    assert_nan(rate.power_p);
    assert_nan(rate.mean.chi2);
    assert_nan(rate.mean.rate_se_known);
    assert_nan(s[0].se);
    assert_non_null(strstr(rate.reason, "one replicate"));
}

static void zeros_and_flags_among_replicates(void **state)
{
    (void)state;
    /* Point 3 is flagged and may hold anything; at point 2 two of three replicates are 0: without
     * the third there is no line. */
    const double errors[3 * 5] = {8, 4, 0, NAN, 1, 8, 5, 0, -1, 1, 9, 4, 6, 0, 1.5};
    const double n[5] = {1, 10, 100, 1000, 1e4};
    const unsigned flags[5] = {0, 0, 0, ES_FIT_FLOOR, 0};
    es_rate rate;
    assert_ok(es_fit_replicates(errors, 3, 5, n, flags, NULL, NULL, &rate, &err));
    assert_int_equal(rate.mean.used, 4);
    assert_nan(rate.median.rate);
    assert_nan(rate.low);
    assert_nan(rate.se);
    assert_non_null(strstr(rate.reason, "without replicate 2"));

    assert_int_equal(es_fit_replicates(errors, 3, 5, n, NULL, NULL, NULL, &rate, &err),
                     ES_E_NONFINITE);
    assert_int_equal(err.row, 0);
    assert_int_equal(err.col, 3);
    assert_int_equal(es_fit_replicates(errors, 0, 5, n, NULL, NULL, NULL, &rate, &err), ES_E_SHAPE);
    assert_int_equal(es_fit_replicates(errors, 1, 2, n, NULL, NULL, NULL, &rate, &err), ES_E_EMPTY);
    const es_rate_opts bad[] = {{.level = 1.0}, {.level = NAN}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(es_fit_replicates(errors, 3, 5, n, flags, &bad[i], NULL, &rate, &err),
                         ES_E_ARGUMENT);
    es_mem_limit little = {.limit = 300};
    const es_rate_opts limited = {.budget = &little};
    assert_int_equal(es_fit_replicates(errors, 3, 5, n, flags, &limited, NULL, &rate, &err),
                     ES_E_LIMIT);
    assert_int_equal(little.used, 0);
}

/* ---- psi_2 ---- */

static void psi2_norms_of_known_laws(void **state)
{
    (void)state;
    enum { N = 100000 };
    double *x = malloc(N * sizeof *x), norm;
    for (int i = 0; i < N; i++)
        x[i] = i % 2 ? 1.0 : -1.0;
    assert_ok(es_psi2_norm(x, N, &norm, &err));
    assert_close(norm, 1.2011224087864498, 1e-14);
    for (int i = 0; i < N; i++)
        x[i] = -1.0 + (2.0 * i + 1.0) / N;
    assert_ok(es_psi2_norm(x, N, &norm, &err));
    assert_close(norm, 0.7727077921631287, 1e-9); /* the grid's own error */
    for (int i = 0; i < N; i++)
        x[i] *= 1e200;
    assert_ok(es_psi2_norm(x, N, &norm, &err));
    assert_close(norm, 0.7727077921631287e200, 1e-9);
    memset(x, 0, N * sizeof *x);
    assert_ok(es_psi2_norm(x, N, &norm, &err));
    assert_near(norm, 0.0, 0.0);
    x[17] = -3.0; /* one of many: 3 / sqrt(ln(N+1)) */
    assert_ok(es_psi2_norm(x, N, &norm, &err));
    assert_close(norm, 3.0 / sqrt(log(N + 1.0)), 1e-12);
    x[5] = NAN;
    assert_int_equal(es_psi2_norm(x, N, &norm, &err), ES_E_NONFINITE);
    assert_int_equal(err.row, 5);
    assert_int_equal(es_psi2_norm(x, 0, &norm, &err), ES_E_EMPTY);
    free(x);
}

static void a_refused_line_leaves_its_summary(void **state)
{
    (void)state;
    const double errors[4] = {1.0, 4.0, 3.0, 8.0}, n[2] = {10.0, 20.0};
    es_fit_summary summary[2] = {{0}};
    es_rate rate;
    assert_int_equal(es_fit_replicates(errors, 2, 2, n, NULL, NULL, summary, &rate, &err),
                     ES_E_EMPTY);
    assert_equals(summary[0].mean, 2.0);
    assert_equals(summary[1].mean, 6.0);
    assert_equals(summary[1].sd, 2.0);
}

static void psi2_constants_are_those_of_theory_json(void **state)
{
    (void)state;
    json_t *known = golden("psi2");
    assert_close(golden_real(known, "uniform_m1_1"), 0.7727077921631287, 1e-14);
    assert_close(golden_real(known, "rademacher"), 1.0 / sqrt(log(2.0)), 1e-14);
    json_decref(known);
}

/* Mean, root mean square and line of one column, by hand; `stride` passes over what is between. */
static void one_column_has_its_mean_and_line(void **state)
{
    (void)state;
    const double x[] = {1.0, 9.0, 2.0, 9.0, 6.0}, dense[] = {1.0, 2.0, 6.0};
    const es_spread s = es_spread_of(x, 3, 2);
    assert_close(s.mean, 3.0, 1e-15);
    assert_close(s.squares, 14.0, 1e-15);
    const es_measured mean = es_measured_mean(dense, 3), column = es_average_column(x, 3, 2);
    assert_close(mean.se, sqrt(7.0 / 3.0), 1e-15);
    assert_close(column.value, 3.0, 1e-15);
    assert_close(column.se, sqrt(7.0 / 3.0), 1e-15);
    assert_nan(es_average_column(x, 1, 1).se);
    const es_measured rms = es_measured_rms(x, 3, 2); /* squares 1, 4, 36 */
    assert_close(rms.value, sqrt(41.0 / 3.0), 1e-15);
    assert_close(rms.se, sqrt((1313.0 - 1681.0 / 3.0) / 6.0) / (2.0 * rms.value), 1e-14);
    const double at[] = {0.0, 1.0, 2.0, 3.0}, y[] = {1.0, 3.0, 5.0, 7.0}, off[] = {0, 1, 1, 0};
    assert_close(es_measured_slope(at, y, 4).value, 2.0, 1e-15);
    assert_below(es_measured_slope(at, y, 4).se, 1e-15);
    assert_below(fabs(es_measured_slope(at, off, 4).value), 1e-15);
    assert_close(es_measured_slope(at, off, 4).se, sqrt(0.5 / 5.0), 1e-14);
}

TEST_FILE(fit)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_its_reference_values),
        cmocka_unit_test(one_column_has_its_mean_and_line),
        cmocka_unit_test(lines_agree_with_theory_json),
        cmocka_unit_test(a_narrow_grid_far_out_keeps_its_digits),
        cmocka_unit_test(NU10_what_has_no_line_is_refused),
        cmocka_unit_test(NU11_NU12_points_that_show_something_else_are_flagged),
        cmocka_unit_test(summaries_are_what_they_say),
        cmocka_unit_test(intervals_are_the_jackknife_with_students_t),
        cmocka_unit_test(the_test_of_a_power_law_is_hotellings),
        cmocka_unit_test(intervals_cover_the_true_rate_from_4_replicates_on),
        cmocka_unit_test(a_curve_that_bends_is_no_power_law),
        cmocka_unit_test(one_replicate_has_a_rate_but_no_interval),
        cmocka_unit_test(zeros_and_flags_among_replicates),
        cmocka_unit_test(psi2_norms_of_known_laws),
        cmocka_unit_test(psi2_constants_are_those_of_theory_json),
        cmocka_unit_test(a_refused_line_leaves_its_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
