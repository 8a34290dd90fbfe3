/* SPDX-License-Identifier: Apache-2.0 */
/* test_hardmax.c : attention at infinite score scale: exact values, asymptotic forms, and whether
 * the simulation, which never draws a token, follows the law of those that do. */
#include "testing.h"

#include <esscher/random.h>

#include "experiments/hardmax/hardmax.h"
#include "experiments/kit/cell_kit.h"
#include "golden.h"
#include "stats/special.h"

static double exact(es_hardmax_queries queries, int64_t n)
{
    es_num value;
    assert_ok(es_hardmax_exact(queries, n, 1.0, &value, &err));
    assert_above(value.err, 0.0);
    return value.val;
}

/* ---- theory ---- */

static void exact_means_have_their_reference_values(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        double value;
    } population[] = {{1, 0.79788456080286535588},
                      {2, 0.56418958354775628695}, /* 1/sqrt(pi) */
                      {10, 0.341962962985987595},
                      {1000, 0.193974421674267951},
                      {1000000, 0.13566393225652892},
                      {INT64_C(1000000000), 0.11016150892311332336},
                      {INT64_C(1000000000000), 0.095070916059124829693},
                      {INT64_C(1000000000000000), 0.084826195728466605292},
                      {INT64_C(1000000000000000000), 0.077293752857054510772}};
    for (size_t i = 0; i < sizeof population / sizeof population[0]; i++)
        assert_close(exact(ES_HARDMAX_POPULATION, population[i].n), population[i].value, 1e-13);
    assert_close(exact(ES_HARDMAX_SELF, 1), 0.79788456080286535588, 1e-12);
    assert_close(exact(ES_HARDMAX_SELF, 10), 0.5971389454585718, 1e-9);
    assert_close(exact(ES_HARDMAX_SELF, 1000), 0.21350819486410652, 1e-9);
    assert_close(exact(ES_HARDMAX_SELF, 1000000), 0.1357266083927063, 1e-9);
    assert_close(exact(ES_HARDMAX_SELF, ES_HARDMAX_MOST_N), 0.077293752857054510772, 1e-9);
    es_num scaled;
    assert_ok(es_hardmax_exact(ES_HARDMAX_POPULATION, 10, 2.5, &scaled, &err));
    assert_close(scaled.val, 2.5 * 0.341962962985987595, 1e-12);
}

static void check_table(const json_t *table, es_hardmax_queries queries, double tolerance)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)table, key, value)
    {
        /* The reference sum of this one stops at 5.7 standard deviations of k, which is 1.3e-8 of
         * it too early; ours is the same for steps 1 to 32 and 7 or 9 deviations. */
        const bool cut = queries == ES_HARDMAX_SELF && strcmp(key, "10000") == 0;
        assert_close(exact(queries, strtoll(key, NULL, 10)), json_number_value(value),
                     cut ? 2e-8 : tolerance);
    }
}

static void everything_agrees_with_theory_json(void **state)
{
    (void)state;
    json_t *known = golden("hardmax_d1"), *value;
    check_table(json_object_get(known, "pop"), ES_HARDMAX_POPULATION, 1e-12);
    check_table(json_object_get(known, "emp"), ES_HARDMAX_SELF, 1e-9);
    const char *key;
    json_object_foreach(json_object_get(known, "lead"), key, value) assert_close(
        es_hardmax_leading(strtoll(key, NULL, 10), 1.0), json_number_value(value), 1e-13);
    json_object_foreach(json_object_get(known, "second"), key, value) assert_close(
        es_hardmax_second(strtoll(key, NULL, 10), 1.0), json_number_value(value), 1e-12);
    json_decref(known);
}

static void asymptotic_forms_are_as_near_as_stated(void **state)
{
    (void)state;
    for (int64_t n = 1000; n <= ES_HARDMAX_MOST_N / 1000; n *= 1000) {
        const double value = exact(ES_HARDMAX_POPULATION, n), b2 = 2.0 * log((double)n);
        assert_near(es_hardmax_leading(n, 1.0) / value, 1.0, 0.56 / b2 + 0.01);
        assert_near(es_hardmax_second(n, 1.0) / value, 1.0, 3.0 / (b2 * b2));
    }
    assert_nan(es_hardmax_leading(1, 1.0));
    assert_nan(es_hardmax_second(0, 1.0));
}

static void steiner_constants(void **state)
{
    (void)state;
    static const double J[] = {0, 1.6449340668482264, 6.7764286441, 29.5002446056, 132.665401670};
    double constant;
    for (int d = 1; d <= 4; d++) { /* mpmath; the notes have four digits */
        assert_ok(es_hardmax_steiner(d, &constant, &err));
        assert_close(constant, J[d], 1e-9);
    }
    /* One dimension: (G - G')/(2b) of two Gumbel variables. */
    assert_close(es_hardmax_rms(1, 1000, 1.0, J[1]), sqrt(J[1] / 2.0) / sqrt(2.0 * log(1000.0)),
                 1e-14);
    assert_near(es_hardmax_rms(2, 1000, 1.0, J[2]), 0.290, 1e-3);
    assert_near(es_hardmax_rms(3, 100000, 3.0, J[3]), 3.0 * 0.200, 3e-3);
    assert_nan(es_hardmax_rms(2, 1, 1.0, J[2]));
    assert_int_equal(es_hardmax_steiner(0, &constant, &err), ES_E_RANGE);
    assert_int_equal(es_hardmax_steiner(65, &constant, &err), ES_E_RANGE);
}

/* ---- simulation in one dimension ---- */

enum { DRAWS = 4000 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The p-value of Kolmogorov and Smirnov's test that two samples of DRAWS are of one law. */
static double ks_p(double *x, double *y)
{
    qsort(x, DRAWS, sizeof *x, by_size);
    qsort(y, DRAWS, sizeof *y, by_size);
    double most = 0.0;
    for (int i = 0, j = 0; i < DRAWS && j < DRAWS;) {
        if (x[i] <= y[j])
            i++;
        else
            j++;
        most = fmax(most, fabs((double)(i - j)) / DRAWS);
    }
    const double z = most * sqrt(DRAWS / 2.0);
    double p = 0.0;
    for (int k = 1; k <= 50; k++)
        p += (k % 2 ? 2.0 : -2.0) * exp(-2.0 * k * k * z * z);
    return z < 0.2 ? 1.0 : p;
}

/* Gbar of n tokens that are drawn one by one. */
static double brute_force(es_hardmax_queries queries, int64_t n, int64_t replicate)
{
    double x[300], max = -INFINITY, min = INFINITY;
    const es_address at = {.seed = 11, .cell = (uint64_t)replicate};
    assert_ok(es_normal_rows(&at, 1, n, x, &err));
    int64_t positive = 0;
    for (int64_t i = 0; i < n; i++) {
        max = fmax(max, x[i]);
        min = fmin(min, x[i]);
        positive += x[i] > 0.0;
    }
    const double share = (double)positive / (double)n;
    return queries == ES_HARDMAX_POPULATION ? 0.5 * (max + min) : share * max + (1 - share) * min;
}

static void extremes_have_the_law_of_tokens_drawn(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 10, 65, 300};
    static es_hardmax_draw draws[DRAWS];
    static double fast[DRAWS], slow[DRAWS];
    for (int queries = 0; queries < 2; queries++)
        for (int i = 0; i < 6; i++) {
            const es_hardmax_opts opts = {
                .seed = 12, .queries = (es_hardmax_queries)queries, .replicates = DRAWS};
            assert_ok(es_hardmax_sample(&opts, &sizes[i], 1, draws, &err));
            for (int r = 0; r < DRAWS; r++) {
                fast[r] = draws[r].value;
                slow[r] = brute_force(opts.queries, sizes[i], r);
            }
            const double p = ks_p(fast, slow);
            if (!(p > 1e-3))
                fail_msg("n = %d, queries %d: p = %g", (int)sizes[i], queries, p);
        }
}

/* Coins against their probabilities, cells of expected count above 10; the rest is one cell. */
static double coins_p(int64_t n, int draws)
{
    enum { MOST = 1024 };
    int seen[MOST] = {0};
    const int64_t low = n / 2 - MOST / 2;
    for (int r = 0; r < draws; r++) {
        int64_t k;
        const es_address at = {.seed = 9, .token = (uint64_t)r};
        assert_ok(es_coins_draw(at, n, &k, &err));
        assert_at_least(k, 0);
        assert_at_most(k, n);
        assert_at_least(k, low);
        assert_below(k, low + MOST);
        seen[k - low]++;
    }
    double chi2 = 0.0, rest = 0.0, rest_seen = 0.0, cells = 0.0;
    for (int i = 0; i < MOST; i++) {
        if (low + i < 0 || low + i > n)
            continue;
        const double expected = draws * exp(es_log_coins(n, low + i));
        if (expected > 10.0) {
            chi2 += (seen[i] - expected) * (seen[i] - expected) / expected;
            cells += 1.0;
        } else {
            rest += expected;
            rest_seen += seen[i];
        }
    }
    chi2 += rest > 0.0 ? (rest_seen - rest) * (rest_seen - rest) / rest : 0.0;
    return es_chi2_tail(rest > 0.0 ? cells : cells - 1.0, chi2);
}

static void coins_fall_as_they_should(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 64, 65, 66, 1001, 10000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const double p = coins_p(sizes[i], 100000);
        if (!(p > 1e-3))
            fail_msg("%d coins: p = %g", (int)sizes[i], p);
    }
    /* So many that only mean and variance can be looked at. */
    const int64_t n = ES_HARDMAX_MOST_N;
    double sum = 0.0, squares = 0.0;
    for (int r = 0; r < 20000; r++) {
        int64_t k;
        const es_address at = {.seed = 10, .token = (uint64_t)r};
        assert_ok(es_coins_draw(at, n, &k, &err));
        const double z = (double)(2 * k - n) / 1e9;
        sum += z;
        squares += z * z;
    }
    assert_near(sum / sqrt(20000.0), 0.0, 4.0);
    assert_near((squares - 20000.0) / sqrt(40000.0), 0.0, 4.0);
}

/* Means against the exact ones, at every size up to where only the logarithms still work. */
static void means_agree_with_the_exact_ones(void **state)
{
    (void)state;
    int64_t n[18];
    es_hardmax_row rows[18];
    for (int i = 0; i < 18; i++)
        n[i] = i ? n[i - 1] * 10 : 10;
    for (int queries = 0; queries < 2; queries++) {
        const es_hardmax_opts opts = {
            .seed = 77, .queries = (es_hardmax_queries)queries, .replicates = 4000};
        assert_ok(es_hardmax_run(&opts, n, 18, rows, &err));
        double chi2 = 0.0;
        for (int i = 0; i < 18; i++) {
            const double z =
                (rows[i].mean_abs.value - exact(opts.queries, n[i])) / rows[i].mean_abs.se;
            assert_near(z, 0.0, 4.0);
            chi2 += z * z;
        }
        const double p = es_chi2_tail(18.0, chi2);
        print_message("queries %d: chi2 = %.1f of 18, p = %.3f\n", queries, chi2, p);
        assert_between(p, 1e-3, 0.999);
    }
}

static void draws_depend_on_n_and_replicate_alone(void **state)
{
    (void)state;
    const int64_t many[] = {10, 1000, INT64_C(1000000000000000)}, one = many[2];
    es_hardmax_draw a[600 * 3], b[700];
    for (int queries = 0; queries < 2; queries++)
        for (int threads = 1; threads <= 3; threads++) {
            const es_exec exec = {.threads = threads};
            es_hardmax_opts opts = {.seed = 5,
                                    .queries = (es_hardmax_queries)queries,
                                    .replicates = 600,
                                    .exec = &exec};
            assert_ok(es_hardmax_sample(&opts, many, 3, a, &err));
            opts.replicates = 700;
            opts.sigma = 2.0;
            assert_ok(es_hardmax_sample(&opts, &one, 1, b, &err));
            for (int r = 0; r < 600; r++)
                assert_equals(2.0 * a[r * 3 + 2].value, b[r].value);
        }
}

/* ---- simulation in several dimensions ---- */

static void hulls_shrink_as_the_notes_say(void **state)
{
    (void)state;
    const int64_t n[] = {100, 1000};
    const double expected[2][2] = {{.368, .277}, {.398, .290}}; /* Monte Carlo of the notes */
    es_hardmax_row rows[2];
    for (int d = 2; d <= 3; d++) {
        const es_hardmax_opts opts = {.seed = 3, .dim = d, .replicates = 400, .directions = 128};
        assert_ok(es_hardmax_run(&opts, n, 2, rows, &err));
        for (int p = 0; p < 2; p++) {
            print_message("d = %d, n = %d: %.4f +- %.4f\n", d, (int)n[p], rows[p].rms.value,
                          rows[p].rms.se);
            assert_near(rows[p].rms.value, expected[d - 2][p], 4.0 * rows[p].rms.se + 0.004);
            assert_below(rows[p].mean_abs.value, 1.1 * rows[p].rms.value);
        }
    }
}

/* The estimate of |Gbar|^2 must not depend on how many directions stand for all. */
static void few_directions_are_not_a_bias(void **state)
{
    (void)state;
    const int64_t n = 50;
    es_hardmax_row few, many;
    es_hardmax_opts opts = {.seed = 4, .dim = 2, .replicates = 4000, .directions = 4};
    assert_ok(es_hardmax_run(&opts, &n, 1, &few, &err));
    opts = (es_hardmax_opts){.seed = 5, .dim = 2, .replicates = 1000, .directions = 256};
    assert_ok(es_hardmax_run(&opts, &n, 1, &many, &err));
    assert_near(few.rms.value, many.rms.value, 4.0 * hypot(few.rms.se, many.rms.se));
    assert_above(few.mean_abs.value, 1.1 * many.mean_abs.value); /* while this one does */
}

static void hulls_do_not_depend_on_threads_or_the_grid(void **state)
{
    (void)state;
    const int64_t n[] = {7, 100, 333}, last = 333;
    es_hardmax_draw first[20 * 3], again[20 * 3], alone[20];
    for (int threads = 1; threads <= 3; threads++) {
        const es_exec exec = {.threads = threads};
        const es_hardmax_opts opts = {.dim = 3, .replicates = 20, .directions = 32, .exec = &exec};
        assert_ok(es_hardmax_sample(&opts, n, 3, threads == 1 ? first : again, &err));
        if (threads > 1)
            assert_memory_equal(first, again, sizeof first);
        assert_ok(es_hardmax_sample(&opts, &last, 1, alone, &err));
        for (int r = 0; r < 20; r++)
            assert_equals(alone[r].value, first[r * 3 + 2].value);
    }
}

/* Replicate r is replicate r, whichever call draws it; averages are those of a run. */
static void replicates_can_be_drawn_one_by_one(void **state)
{
    (void)state;
    static const int64_t n[] = {7, 100, 333};
    for (int64_t dim = 1; dim <= 3; dim += 2) {
        es_hardmax_opts opts = {.seed = 9, .dim = dim, .replicates = 20, .directions = 32};
        es_hardmax_draw all[20 * 3], one[3];
        es_hardmax_row run[3], rows[3];
        assert_ok(es_hardmax_run(&opts, n, 3, run, &err));
        assert_ok(es_hardmax_sample(&opts, n, 3, all, &err));
        opts.replicates = 1;
        for (opts.first = 0; opts.first < 20; opts.first++) {
            assert_ok(es_hardmax_sample(&opts, n, 3, one, &err));
            assert_memory_equal(one, all + 3 * opts.first, sizeof one);
        }
        for (int i = 0; i < 60; i++)
            all[i].value = fabs(all[i].value);
        es_hardmax_average(all, 20, n, 3, rows);
        assert_memory_equal(rows, run, sizeof rows);
    }
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const struct {
        es_hardmax_opts opts;
        int64_t n[2];
        es_status status;
    } bad[] = {{{0}, {0, 10}, ES_E_RANGE},
               {{0}, {10, ES_HARDMAX_MOST_N + 1}, ES_E_RANGE},
               {{0}, {10, 10}, ES_E_ARGUMENT},
               {{.dim = 2}, {10, ES_HARDMAX_MOST_TOKENS + 1}, ES_E_RANGE},
               {{.dim = 65}, {10, 20}, ES_E_RANGE},
               {{.dim = -1}, {10, 20}, ES_E_RANGE},
               {{.dim = 2, .queries = ES_HARDMAX_SELF}, {10, 20}, ES_E_UNSUPPORTED},
               {{.queries = (es_hardmax_queries)7}, {10, 20}, ES_E_ARGUMENT},
               {{.sigma = -1.0}, {10, 20}, ES_E_RANGE},
               {{.sigma = NAN}, {10, 20}, ES_E_RANGE},
               {{.replicates = -5}, {10, 20}, ES_E_RANGE},
               {{.first = -1}, {10, 20}, ES_E_RANGE},
               {{.directions = 1}, {10, 20}, ES_E_RANGE}};
    es_hardmax_row rows[2];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(es_hardmax_run(&bad[i].opts, bad[i].n, 2, rows, &err), bad[i].status);
        assert_true(*err.message);
    }
    es_num value;
    assert_int_equal(es_hardmax_exact(ES_HARDMAX_SELF, 0, 1.0, &value, &err), ES_E_RANGE);
    assert_int_equal(es_hardmax_exact(ES_HARDMAX_SELF, 5, 0.0, &value, &err), ES_E_RANGE);
    es_mem_limit little = {.limit = 1000};
    const es_exec exec = {.budget = &little};
    const es_hardmax_opts opts = {.exec = &exec};
    assert_int_equal(es_hardmax_run(&opts, bad[4].n, 2, rows, &err), ES_E_LIMIT);
    const es_hardmax_opts single = {.replicates = 1};
    assert_ok(es_hardmax_run(&single, bad[4].n, 2, rows, &err));
    assert_nan(rows[0].mean_abs.se);
}

TEST_FILE(hardmax)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_means_have_their_reference_values),
        cmocka_unit_test(everything_agrees_with_theory_json),
        cmocka_unit_test(asymptotic_forms_are_as_near_as_stated),
        cmocka_unit_test(steiner_constants),
        cmocka_unit_test(extremes_have_the_law_of_tokens_drawn),
        cmocka_unit_test(coins_fall_as_they_should),
        cmocka_unit_test(means_agree_with_the_exact_ones),
        cmocka_unit_test(draws_depend_on_n_and_replicate_alone),
        cmocka_unit_test(hulls_shrink_as_the_notes_say),
        cmocka_unit_test(few_directions_are_not_a_bias),
        cmocka_unit_test(hulls_do_not_depend_on_threads_or_the_grid),
        cmocka_unit_test(replicates_can_be_drawn_one_by_one),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
