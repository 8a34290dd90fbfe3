/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"
#include "golden.h"
#include "numbers.h"
#include "testing.h"

#include <esscher/npy.h>
#include <esscher/random.h>
#include <esscher/study.h>

#include "random/random.h"
#include "stats/exponent.h"
#include "stats/special.h"

/* ---- the integral ---- */

static void half_beta_has_its_closed_forms(void **state)
{
    (void)state;
    /* a = 1: x. a = 2: x^2/2 - x^3/3. a = 1/2: 2 asin sqrt x. x = 1/2: half of B(a,a). */
    for (double x = 0.01; x < 0.95; x += 0.07) {
        assert_near(es_log_half_beta(1.0, x), log(x), 1e-13);
        assert_near(es_log_half_beta(2.0, x), log(x * x / 2.0 - x * x * x / 3.0), 1e-13);
        assert_near(es_log_half_beta(0.5, x), log(2.0 * asin(sqrt(x))), 1e-13);
    }
    for (double a = 0.1; a < 400.0; a *= 1.7)
        assert_near(es_log_half_beta(a, 0.5), 2.0 * lgamma(a) - lgamma(2.0 * a) - log(2.0),
                    1e-12 * (1.0 + a));
}

/* ---- uniform keys on a sphere: T/2 is Beta(a,a), a = (d-1)/2 ---- */

enum { N = 20000, K = 100, R = 100 };

static void sphere_gaps(int d, int replicate, int64_t n, double *T)
{
    const es_address at = {.seed = 40, .cell = (uint64_t)replicate, .token = 0};
    const double a = 0.5 * (d - 1);
    assert_ok(es_beta_rows(&at, n, 1, a, a, T, &err));
    for (int64_t i = 0; i < n; i++)
        T[i] *= 2.0;
}

static double log_c_sphere(int d) /* THEORY.md 6 */
{
    return 0.5 * (d - 3) * log(2.0) + lgamma(0.5 * d) - 0.5 * log(3.141592653589793) -
           lgamma(0.5 * (d + 1));
}

/* Unbiased, with the standard error it claims: over R samples the mean is within four of its
 * standard errors, and z^2 has mean 1 within four of sqrt(2/R). Hill's estimate is biased where the
 * sphere is curved over the neighbours' reach; the corrected one is not. */
static void known_dimensions_are_found_within_their_errors(void **state)
{
    (void)state;
    static double T[N];
    static const int dims[] = {2, 3, 5, 10, 20};
    for (int i = 0; i < 5; i++) {
        const double truth = 0.5 * (dims[i] - 1);
        double sum = 0.0, z2 = 0.0, hill = 0.0, log_c = 0.0, log_c2 = 0.0;
        for (int r = 0; r < R; r++) {
            es_exponent e;
            sphere_gaps(dims[i], r, N, T);
            assert_ok(es_exponent_estimate(T, N, K, &e, &err));
            const double z = (e.alpha - truth) / e.alpha_se;
            const double off = e.log_c - log_c_sphere(dims[i]);
            sum += e.alpha;
            hill += e.hill;
            z2 += z * z;
            log_c += off;
            log_c2 += off * off;
        }
        const double se = truth / sqrt(K - 2.0) / sqrt(R);
        print_message("d %d: alpha %.4f, Hill %.4f, true %.1f; z^2 %.2f; ln c off %.3f\n", dims[i],
                      sum / R, hill / R, truth, z2 / R, log_c / R);
        assert_near(sum / R, truth, 4.0 * se);
        assert_near(z2 / R, 1.0, 4.0 * sqrt(2.0 / R));
        assert_near(log_c / R, 0.0, 4.0 * sqrt(log_c2) / R + 0.02);
        if (dims[i] <= 3)
            assert_near(hill / R, truth, 4.0 * se);
        if (dims[i] >= 10)
            assert_below(hill / R, truth - 4.0 * se); /* the curvature the notes speak of */
    }
}

static void constants_agree_with_theory_json(void **state)
{
    (void)state;
    json_t *group = golden("c_d"), *value;
    const char *key;
    json_object_foreach(group, key, value)
        assert_close(log_c_sphere(atoi(key)), log(json_number_value(value)), 1e-10);
    json_decref(group);
}

/* ---- keys as vectors ---- */

/* Keys (n, d) on the great sphere of the first `inside` coordinates, of any length. */
static double *keys_inside(int64_t n, int64_t d, int64_t inside, uint64_t seed)
{
    double *x = calloc((size_t)(n * d), sizeof *x), *row = malloc((size_t)inside * sizeof *row);
    for (int64_t i = 0; i < n; i++) {
        const es_address at = {.seed = seed, .token = (uint64_t)i};
        assert_ok(es_normal_rows(&at, 1, inside, row, &err));
        memcpy(x + i * d, row, (size_t)inside * sizeof *row);
    }
    free(row);
    return x;
}

/* A great sphere of 4 coordinates inside 16 has 3 dimensions, whatever the space: alpha = 3/2 by
 * the keys among themselves. Neighbourhoods of 200 keys overlap little among 4000. */
static void a_surface_has_its_own_dimension(void **state)
{
    (void)state;
    double *x = keys_inside(4000, 16, 4, 3);
    const es_view keys = es_view_f64(x, 4000, 16);
    es_exponent_pool pool, again;
    es_exponent_opts opts = {.k = 30, .self = true, .count = 200};
    assert_ok(es_exponent_queries(&keys, NULL, &opts, NULL, &pool, &err));
    print_message("alpha %.3f +- %.3f, Hill %.3f, two nearest %.3f +- %.3f\n", pool.alpha,
                  pool.alpha_se, pool.hill, pool.two_nn, pool.two_nn_se);
    assert_int_equal(pool.queries, 200);
    assert_near(pool.alpha, 1.5, 4.0 * pool.alpha_se);
    assert_near(pool.two_nn, 3.0, 4.0 * pool.two_nn_se);
    assert_near(pool.alpha_se, 1.5 / sqrt(200.0 * 28.0), 0.5 * 1.5 / sqrt(200.0 * 28.0));
    assert_finite(pool.log_c);
    assert_above(pool.log_c_se, 0.0);
    for (int threads = 1; threads <= 3; threads++) {
        const es_exec exec = {.threads = threads};
        opts.exec = &exec;
        assert_ok(es_exponent_queries(&keys, NULL, &opts, NULL, &again, &err));
        assert_memory_equal(&again, &pool, sizeof pool);
    }
    free(x);
}

static void gaps_are_exact_where_small(void **state)
{
    (void)state;
    const double query[2] = {3e200, 0.0};
    double keys[6] = {1e-200, 0.0, 5.0, 5e-8, -2.0, 0.0}, T[3];
    const es_view k = es_view_f64(keys, 3, 2);
    assert_ok(es_exponent_gaps(&k, query, T, &err));
    assert_equals(T[0], 0.0);
    assert_equals(T[2], 2.0);
    assert_close(T[1], 0.5e-16, 1e-7); /* 1 - cos of an angle of 1e-8 */
}

/* A power law of any exponent: T = U^{1/alpha}, small so that no curvature matters. */
static void any_power_is_found(void **state)
{
    (void)state;
    static double T[5000];
    state_of_rng = 8;
    for (double alpha = 0.3; alpha < 40.0; alpha *= 2.0) {
        es_exponent e;
        for (int i = 0; i < 5000; i++)
            T[i] = 1e-3 * pow(uniform(), 1.0 / alpha);
        assert_ok(es_exponent_estimate(T, 5000, 400, &e, &err));
        assert_near(e.hill, alpha, 4.0 * e.hill_se);
        assert_near(e.alpha, alpha, 4.0 * e.alpha_se);
        assert_close(e.alpha_se, e.alpha / sqrt(398.0), 0.01);
        /* P(T <= t) = (1000 t)^alpha; ln c = alpha ln 1000, known through alpha alone. */
        assert_near(e.log_c, alpha * log(1000.0), 4.0 * e.alpha_se * log(1000.0) + 4.0 / 20.0);
    }
}

/* ---- the study ---- */

static es_answer *ask(const double *keys, int64_t n, int64_t d, const char *name, const char *value)
{
    const es_study *study = es_study_find("exponent");
    const int64_t shape[2] = {n, d};
    es_params *p;
    es_answer *a;
    assert_ok(es_npy_save(in_folder("k.npy"), ES_F64, 2, shape, keys, true, &err));
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    assert_ok(es_params_set(p, "keys", in_folder("k.npy"), &err));
    assert_ok(es_params_set(p, "sample", "40", &err));
    assert_ok(es_params_set(p, name, value, &err));
    assert_ok(es_study_run(study, p, &(es_study_opts){0}, &a, &err));
    es_params_free(p);
    return a;
}

/* As it runs, a head scores q.k, and long keys weigh more than their cosines say. With --scale ESS
 * is that of these scores, by plain loops; with --beta that of cosines. Both are f64: 1e-9. */
static void scores_are_those_of_the_vectors(void **state)
{
    (void)state;
    enum { KEYS = 400, D = 4, SAMPLE = 40 };
    double *x = keys_inside(KEYS, D, D, 9), lengths = 0.0, squares[2] = {0};
    char beta[32];
    for (int i = 0; i < KEYS * D; i++)
        x[i] *= i / D % 3 == 0 ? 4.0 : 1.0;
    for (int i = 0; i < KEYS; i++)
        lengths += sqrt(x[i * D] * x[i * D] + x[i * D + 1] * x[i * D + 1] +
                        x[i * D + 2] * x[i * D + 2] + x[i * D + 3] * x[i * D + 3]) /
                   KEYS;
    for (int which = 0; which < 2; which++)
        for (int q = 0; q < SAMPLE; q++) {
            double sum = 0.0, sum2 = 0.0;
            for (int k = 0; k < KEYS; k++) {
                double dot = 0.0, qq = 0.0, kk = 0.0;
                for (int c = 0; c < D && k != q; c++) {
                    dot += x[q * D + c] * x[k * D + c];
                    qq += x[q * D + c] * x[q * D + c];
                    kk += x[k * D + c] * x[k * D + c];
                }
                const double score =
                    which ? 0.5 * lengths * lengths * dot / sqrt(qq * kk) : 0.5 * dot;
                const double w = k == q ? 0.0 : exp(score);
                sum += w;
                sum2 += w * w;
            }
            squares[which] += sum2 / (sum * sum) / SAMPLE;
        }
    snprintf(beta, sizeof beta, "%.17g", 0.5 * lengths * lengths);
    assert_above(fabs(log(squares[0] / squares[1])), 0.3); /* or nothing is told apart */
    for (int which = 0; which < 2; which++) {
        es_answer *a = ask(x, KEYS, D, which ? "beta" : "scale", which ? beta : "0.5");
        const es_table *runs = es_answer_find(a, "runs"), *t = es_answer_find(a, "freezing");
        assert_close(es_table_get(runs, 0, "beta"), 0.5 * lengths * lengths, 1e-12);
        assert_close(es_table_get(runs, 0, "ess"), 1.0 / squares[which], 1e-9);
        assert_close(es_table_get(t, 0, "ess"), 1.0 / squares[which], 1e-9);
        es_answer_free(a);
    }
    free(x);
}

/* Pairs of keys that nearly coincide, each pair far from the others: near a query there is one key,
 * and farther out a sphere. The two nearest say a dimension near 0, many say that of the sphere,
 * and no number is in the headline. Of keys uniform on a sphere there is one. */
static void methods_that_disagree_make_no_headline(void **state)
{
    (void)state;
    enum { KEYS = 2000, D = 6 };
    double *x = keys_inside(KEYS, D, D, 4);
    for (int pairs = 0; pairs < 2; pairs++) {
        for (int i = 1; i < KEYS && pairs; i += 2)
            for (int c = 0; c < D; c++)
                x[i * D + c] = x[(i - 1) * D + c] * (1.0 + 1e-6 * c);
        es_answer *a = ask(x, KEYS, D, "beta", "10");
        const char *said = es_answer_finding(a, 0);
        assert_true((strstr(said, "These keys have no local exponent") != NULL) == pairs);
        assert_true((strstr(said, "The local exponent is alpha = ") != NULL) == !pairs);
        es_answer_free(a);
    }
    free(x);
}

/* ---- degenerate keys ---- */

static void NU06_copies_and_ties(void **state)
{
    (void)state;
    double T[30];
    es_exponent e;
    for (int i = 0; i < 30; i++)
        T[i] = i < 5 ? 0.0 : 0.01 * (i - 4);
    assert_ok(es_exponent_estimate(T, 30, 10, &e, &err));
    assert_int_equal(e.copies, 5);
    assert_equals(e.nearest[0], 0.01);
    assert_equals(e.nearest[1], 0.02);
    assert_above(e.alpha, 0.0);
    for (int i = 0; i < 30; i++)
        T[i] = 0.5;
    assert_int_equal(es_exponent_estimate(T, 30, 10, &e, &err), ES_E_NUMERIC);
    assert_string_equal(err.rule, "exponent.ties");
    memset(T, 0, sizeof T);
    assert_int_equal(es_exponent_estimate(T, 30, 10, &e, &err), ES_E_EMPTY);
    /* All keys alike. */
    double keys[40];
    for (int i = 0; i < 40; i++)
        keys[i] = i % 4 + 1.0;
    const es_view k = es_view_f64(keys, 10, 4);
    es_exponent_pool pool;
    const es_exponent_opts self = {.self = true};
    assert_int_equal(es_exponent_queries(&k, NULL, &self, NULL, &pool, &err), ES_E_NUMERIC);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    double T[10] = {.1, .2, .3, .4, .5, .6, .7, .8, .9, 1.0}, keys[20], query[2] = {1.0, 0.0};
    es_exponent e;
    assert_int_equal(es_exponent_estimate(T, 10, 10, &e, &err), ES_E_RANGE);
    assert_int_equal(es_exponent_estimate(T, 10, 2, &e, &err), ES_E_RANGE);
    assert_int_equal(es_exponent_estimate(T, 3, 0, &e, &err), ES_E_EMPTY);
    assert_int_equal(es_exponent_estimate(T, 0, 0, &e, &err), ES_E_EMPTY);
    T[4] = -0.1;
    assert_int_equal(es_exponent_estimate(T, 10, 0, &e, &err), ES_E_RANGE);
    T[4] = (double)NAN;
    assert_int_equal(es_exponent_estimate(T, 10, 0, &e, &err), ES_E_RANGE);
    for (int i = 0; i < 20; i++)
        keys[i] = i + 1.0;
    const es_view k = es_view_f64(keys, 10, 2), q = es_view_f64(query, 1, 2);
    keys[7] = (double)NAN;
    assert_int_equal(es_exponent_gaps(&k, query, T, &err), ES_E_NONFINITE);
    assert_equals(err.row, 3);
    assert_equals(err.col, 1);
    keys[6] = keys[7] = 0.0;
    assert_int_equal(es_exponent_gaps(&k, query, T, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "exponent.zero");
    es_exponent_pool pool;
    assert_int_equal(es_exponent_queries(&k, &q, NULL, NULL, &pool, &err), ES_E_RANGE);
    keys[7] = 1.0;
    assert_ok(es_exponent_queries(&k, &q, NULL, &e, &pool, &err));
    assert_equals(pool.queries, 1);
    assert_nan(pool.alpha_se);
    assert_nan(pool.two_nn);
    query[0] = 0.0;
    assert_int_equal(es_exponent_queries(&k, &q, NULL, NULL, &pool, &err), ES_E_RANGE);
    const es_view wide = es_view_f64(keys, 6, 3);
    assert_int_equal(es_exponent_queries(&wide, &q, NULL, NULL, &pool, &err), ES_E_SHAPE);
}

TEST_FILE(exponent)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_beta_has_its_closed_forms),
        cmocka_unit_test(known_dimensions_are_found_within_their_errors),
        cmocka_unit_test(constants_agree_with_theory_json),
        cmocka_unit_test(a_surface_has_its_own_dimension),
        cmocka_unit_test(gaps_are_exact_where_small),
        cmocka_unit_test(any_power_is_found),
        cmocka_unit_test(scores_are_those_of_the_vectors),
        cmocka_unit_test(methods_that_disagree_make_no_headline),
        cmocka_unit_test(NU06_copies_and_ties),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
