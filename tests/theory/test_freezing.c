/* SPDX-License-Identifier: Apache-2.0 */
/* test_freezing.c : the inverse temperatures at which the words change, against another integral,
 * closed forms of two keys, and keys that are drawn. */
#include "testing.h"

#include <esscher/random.h>

#include "random/random.h"
#include "theory/freezing.h"

static double squares_at(const es_keys *keys, int64_t n, double beta)
{
    es_weights w;
    assert_ok(es_weights_exact(keys, n, beta, NULL, &w, &err));
    return w.squares.val;
}

/* E sum w^2 given the nearest key (key_weights.c) shares no code with the one integral that the
 * search uses. ln E sum w^2 over ln beta has a slope below 10 here, so beta to 1e-6 is 1e-5 of it.
 */
static void scales_are_where_another_integral_passes_the_cut_offs(void **state)
{
    (void)state;
    static const es_keys_part parts[] = {{1.0, 0.0, 1.0}, {2.0, 20.0, 0.3}};
    static const es_keys_part hole = {1.0, 1000.0, -1.0};
    static const struct {
        es_keys keys;
        int64_t n;
    } cases[] = {{{.dim = 2}, 1000},
                 {{.dim = 3}, 10},
                 {{.dim = 8}, 1000000},
                 {{.dim = 32}, 10000},
                 {{.dim = 64}, 1000000},
                 {{.dim = 512}, 1000000000000},
                 {{.dim = 4, .vanish = 7.0}, 100000},
                 {{.dim = 6, .parts = parts, .n_parts = 2}, 100000},
                 {{.dim = 4, .parts = &hole, .n_parts = 1}, 100000},
                 {{.dim = 6, .planted = true}, 100000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double n = (double)cases[i].n;
        es_scales s;
        assert_ok(es_scales_of(&cases[i].keys, cases[i].n, NULL, &s, &err));
        assert_close(squares_at(&cases[i].keys, cases[i].n, s.frozen), fmax(0.5, 1.5 / n), 1e-5);
        assert_close(squares_at(&cases[i].keys, cases[i].n, s.averages), fmax(0.01, 1.5 / n), 1e-5);
    }
}

/* Two keys in three dimensions: T uniform on [0, 2], D = T_1 - T_2 of density (2 - |D|)/4, and
 * sum w^2 = (1 + tanh^2(beta D/2))/2. Frozen from 3/4 on: half of what there is between 1/2 and 1.
 */
static void two_keys_by_hand(void **state)
{
    (void)state;
    const es_keys keys = {.dim = 3};
    enum { STEPS = 20000 };
    es_scales s;
    assert_ok(es_scales_of(&keys, 2, NULL, &s, &err));
    double sum = 0.0;
    for (int i = 0; i < STEPS; i++) {
        const double D = 2.0 * (i + 0.5) / STEPS, t = tanh(0.5 * s.frozen * D);
        sum += 0.5 * (2.0 - D) * 0.5 * (1.0 + t * t) * 2.0 / STEPS;
    }
    assert_close(sum, 0.75, 2e-6);
    assert_close(s.averages, s.frozen, 3e-6); /* of two keys none is selected */
}

/* A sphere of 2 alpha dimensions is the sphere where that is whole; n need not be. */
static void round_keys_are_the_sphere(void **state)
{
    (void)state;
    es_scales s, r, more;
    es_weights w, v;
    assert_ok(es_scales_of(&(es_keys){.dim = 12}, 5000, NULL, &s, &err));
    assert_ok(es_scales_round(5.5, 5000.0, NULL, &r, &err));
    assert_ok(es_scales_round(5.5, 5000.5, NULL, &more, &err));
    assert_close(r.frozen, s.frozen, 1e-12);
    assert_close(r.averages, s.averages, 1e-12);
    assert_between(more.frozen, r.frozen, r.frozen * 1.001);
    assert_ok(es_weights_exact(&(es_keys){.dim = 12}, 5000, 20.0, NULL, &w, &err));
    assert_ok(es_weights_round(5.5, 5000.0, 20.0, NULL, &v, &err));
    assert_close(v.squares.val, w.squares.val, 1e-12);
    assert_close(v.top.val, w.top.val, 1e-12);
}

/* ---- keys that are drawn ---- */

/* Mean over replicates of sum w^2, and its standard error: T/2 is Beta(a, a). */
static void drawn_squares(int dim, int64_t n, double beta, int replicates, double *mean, double *se)
{
    const double a = 0.5 * (dim - 1);
    double *T = malloc((size_t)n * sizeof *T), sum = 0.0, square = 0.0;
    for (int r = 0; r < replicates; r++) {
        const es_address at = {.seed = 71, .cell = (uint64_t)(1000 * dim + r), .token = 0};
        double z = 0.0, zz = 0.0, least = 2.0;
        assert_ok(es_beta_rows(&at, n, 1, a, a, T, &err));
        for (int64_t i = 0; i < n; i++)
            least = fmin(least, 2.0 * T[i]);
        for (int64_t i = 0; i < n; i++) {
            const double e = exp(-beta * (2.0 * T[i] - least));
            z += e;
            zz += e * e;
        }
        sum += zz / (z * z);
        square += pow(zz / (z * z), 2.0);
    }
    *mean = sum / replicates;
    *se = sqrt((square / replicates - *mean * *mean) / (replicates - 1));
    free(T);
}

static void drawn_keys_freeze_there(void **state)
{
    (void)state;
    static const int dims[] = {8, 32, 64};
    for (int i = 0; i < 3; i++)
        for (int64_t n = 1000; n <= 10000; n *= 10) {
            const es_keys keys = {.dim = dims[i]};
            es_scales s;
            double mean, se;
            assert_ok(es_scales_of(&keys, n, NULL, &s, &err));
            drawn_squares(dims[i], n, s.frozen, n == 1000 ? 300 : 60, &mean, &se);
            print_message("d %d, n %d: frozen from %.4g on, E sum w^2 %.4f +- %.4f; averages "
                          "below %.4g\n",
                          dims[i], (int)n, s.frozen, mean, se, s.averages);
            assert_near(mean, 0.5, 4.0 * se);
            drawn_squares(dims[i], n, s.averages, n == 1000 ? 100 : 20, &mean, &se);
            assert_near(mean, 0.01, 4.0 * se);
        }
}

/* ---- estimates ---- */

static void estimate_of(int dim, int replicate, int64_t n, double *T, es_exponent *e)
{
    const double a = 0.5 * (dim - 1);
    const es_address at = {.seed = 72, .cell = (uint64_t)replicate, .token = (uint64_t)dim << 32};
    assert_ok(es_beta_rows(&at, n, 1, a, a, T, &err));
    for (int64_t i = 0; i < n; i++)
        T[i] *= 2.0;
    assert_ok(es_exponent_estimate(T, n, 100, e, &err));
}

/* From 10^4 keys to 10^6: unbiased within its error, z^2 has mean 1 within four of sqrt(2/R), and
 * what curvature of a logarithm adds. */
static void estimates_tell_where_more_keys_freeze(void **state)
{
    (void)state;
    enum { R = 12, N = 10000 };
    static double T[N];
    static const int dims[] = {8, 32};
    for (int i = 0; i < 2; i++) {
        es_scales truth, s, se;
        double z2 = 0.0, sum = 0.0, tokens;
        assert_ok(es_scales_of(&(es_keys){.dim = dims[i]}, 1000000, NULL, &truth, &err));
        for (int r = 0; r < R; r++) {
            es_exponent e;
            estimate_of(dims[i], r, N, T, &e);
            assert_ok(es_exponent_scales(&e, 1e6, NULL, &s, &se, &err));
            const double off = log(s.frozen / truth.frozen);
            sum += off;
            z2 += off * off / (se.frozen * se.frozen);
            if (r > 0)
                continue;
            assert_ok(es_exponent_tokens(&e, s.frozen, NULL, &tokens, &err));
            assert_close(tokens, 1e6, 1e-4); /* the same equation, solved for n */
        }
        print_message("d %d: ln of frozen off by %.3f on average, z^2 %.2f\n", dims[i], sum / R,
                      z2 / R);
        assert_near(z2 / R, 1.0, 4.0 * sqrt(2.0 / R));
    }
}

static void estimates_have_their_weights(void **state)
{
    (void)state;
    /* an estimate that is the truth: 31 dimensions, c of the sphere */
    es_cap_exponent cap;
    assert_ok(es_keys_exponent(&(es_keys){.dim = 32}, &cap, &err));
    const es_exponent e = {
        .alpha = 15.5, .alpha_se = 0.1, .log_c = cap.log_c, .log_c_se = 0.01, .reach = 0.5};
    es_local_weights w;
    es_weights law;
    assert_close(es_exponent_keys(&e, 1e4), 1e4, 1e-10);
    assert_ok(es_exponent_weights(&e, 1e4, 10.0, NULL, &w, &err));
    assert_ok(es_weights_exact(&(es_keys){.dim = 32}, 10000, 10.0, NULL, &law, &err));
    assert_close(w.squares, law.squares.val, 1e-8);
    assert_close(w.top, law.top.val, 1e-8);
    assert_between(w.log_se, 0.009, 0.2);
    /* half as dense is half as many */
    es_exponent thin = e;
    thin.log_c -= log(2.0);
    es_scales a, b;
    assert_ok(es_exponent_scales(&thin, 2e4, NULL, &a, NULL, &err));
    assert_ok(es_exponent_scales(&e, 1e4, NULL, &b, NULL, &err));
    assert_close(a.frozen, b.frozen, 3e-6);
}

static void bad_questions(void **state)
{
    (void)state;
    es_scales s;
    es_weights w;
    double tokens;
    const es_exponent e = {.alpha = 2.0, .reach = 0.1}, odd = {.alpha = NAN, .reach = 0.1};
    assert_int_equal(es_scales_of(&(es_keys){.dim = 1}, 10, NULL, &s, &err), ES_E_RANGE);
    assert_int_equal(es_scales_of(&(es_keys){.dim = 3}, 1, NULL, &s, &err), ES_E_RANGE);
    assert_int_equal(es_scales_round(0.01, 10.0, NULL, &s, &err), ES_E_RANGE);
    assert_int_equal(es_scales_round(NAN, 10.0, NULL, &s, &err), ES_E_RANGE);
    assert_int_equal(es_scales_round(2.0, 1.0, NULL, &s, &err), ES_E_RANGE);
    assert_int_equal(es_weights_round(2.0, 0.5, 1.0, NULL, &w, &err), ES_E_RANGE);
    assert_int_equal(es_weights_round(2.0, 10.0, NAN, NULL, &w, &err), ES_E_RANGE);
    assert_int_equal(es_exponent_tokens(&e, -1.0, NULL, &tokens, &err), ES_E_RANGE);
    assert_ok(es_exponent_tokens(&e, 1e-3, NULL, &tokens, &err));
    assert_equals(tokens, 0.0); /* three keys are shared equally */
    assert_ok(es_exponent_tokens(&e, 1e49, NULL, &tokens, &err));
    assert_infinite(tokens);
    assert_ok(es_exponent_tokens(&odd, 1.0, NULL, &tokens, &err));
    assert_ok(es_exponent_scales(&odd, 100.0, NULL, &s, NULL, &err));
    assert_nan(tokens);
    assert_nan(s.frozen);
    assert_nan(s.averages);
    es_mem_limit little = {.limit = 100};
    assert_int_equal(es_scales_round(2.0, 10.0, &little, &s, &err), ES_E_LIMIT);
    assert_equals(little.used, 0);
}

TEST_FILE(freezing)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_are_where_another_integral_passes_the_cut_offs),
        cmocka_unit_test(two_keys_by_hand),
        cmocka_unit_test(round_keys_are_the_sphere),
        cmocka_unit_test(drawn_keys_freeze_there),
        cmocka_unit_test(estimates_tell_where_more_keys_freeze),
        cmocka_unit_test(estimates_have_their_weights),
        cmocka_unit_test(bad_questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
