/* SPDX-License-Identifier: Apache-2.0 */
/* test_far_risk.c : limit and error of a far field of independent keys, against the risks of draws
 * and of policies where those are the same, all outcomes one by one, and simulation. */
#include "testing.h"

#include <esscher/policy_risk.h>

#include "numbers.h"
#include "risk/draw_risk.h"
#include "risk/far_risk.h"

enum { WIDTH = 5 };

static double limit[WIDTH];

static es_far_risk risk_of(const es_far_query *q)
{
    es_far_risk out;
    assert_ok(es_far_risk_of(q, 1e-10, NULL, limit, &out, &err));
    assert_at_most(out.bias2, out.square.val);
    return out;
}

/* Scores of standard deviation `sd` and values around a mean that depends on the score. */
static es_far_keys keys_of(int64_t count, double sd)
{
    double *scores = normals(count), *values = normals(count * WIDTH);
    for (int64_t j = 0; j < count; j++) {
        scores[j] *= sd;
        values[j * WIDTH] += scores[j];
    }
    return (es_far_keys){count, scores, values};
}

static void free_keys(es_far_keys *keys)
{
    free((void *)keys->scores);
    free((void *)keys->values);
}

/* ---- special cases ---- */

static void one_stratum_and_nothing_sure_are_draws(void **state)
{
    (void)state;
    state_of_rng = 11;
    es_far_keys keys = keys_of(60, 2.0);
    for (int64_t m = 1; m <= 1000; m *= 10) {
        const es_view s = es_view_f64(keys.scores, 1, 60), v = es_view_f64(keys.values, 60, WIDTH);
        const es_far_stratum stratum = {.draws = (double)m, .keys = keys};
        const es_far_risk r = risk_of(&(es_far_query){WIDTH, {0}, &stratum, 1});
        es_draw_risk expected;
        es_draw_query about;
        assert_ok(es_draw_risks(&s, ES_DRAW_SCORES, &v, &m, 1, NULL, &expected, &about, &err));
        /* both state 1e-10 of the risk */
        assert_close(r.square.val, expected.square.val, 3e-10);
        assert_close(sqrt(r.bias2), expected.bias, 1e-8);
        assert_close(r.sampling, about.sampling / (double)m, 1e-10);
        assert_close(r.far_mass, 1.0, 1e-15);
    }
    free_keys(&keys);
}

/* A policy that keeps F surely and draws m of the rest with the factor |R|/m has the full output as
 * its limit. */
static void one_stratum_is_a_policy_with_replacement(void **state)
{
    (void)state;
    enum { N = 50, SURE = 7, DRAWS = 12 };
    state_of_rng = 12;
    es_far_keys keys = keys_of(N, 1.5);
    double far[N];
    int64_t sure[SURE], rest[N - SURE];
    for (int64_t j = 0; j < N; j++) {
        far[j] = keys.scores[j] + log((double)(N - SURE) / DRAWS);
        *(j < SURE ? &sure[j] : &rest[j - SURE]) = j;
    }
    const es_far_stratum stratum = {.draws = DRAWS,
                                    .keys = {N - SURE, far + SURE, keys.values + SURE * WIDTH}};
    const es_far_risk r =
        risk_of(&(es_far_query){WIDTH, {SURE, keys.scores, keys.values}, &stratum, 1});
    const es_view values = es_view_f64(keys.values, N, WIDTH);
    const es_choice choice = {.n = N,
                              .sure = sure,
                              .sure_count = SURE,
                              .chance = ES_CHANCE_WITH,
                              .rest = rest,
                              .rest_count = N - SURE,
                              .draws = DRAWS,
                              .factor = (double)(N - SURE) / DRAWS};
    es_risk_query query;
    es_policy_risk expected;
    assert_ok(es_risk_query_new(keys.scores, N, &values, NULL, &query, &err));
    assert_ok(es_policy_risk_of(&query, &choice, NULL, &expected, &err));
    for (int64_t c = 0; c < WIDTH; c++)
        assert_near(limit[c], query.output[c], 1e-13);
    assert_close(r.square.val, expected.square.val, 3e-10);
    assert_close(r.bias2, expected.bias2, 1e-8);
    assert_close(r.sampling, expected.first_order, 1e-10);
    es_risk_query_free(&query, NULL);
    free_keys(&keys);
}

/* ---- all outcomes ---- */

/* |y - limit|^2 of the sure keys and some far ones, picked[d] of stratum d. */
static double error_of(const es_far_query *q, const int64_t *stratum_of, const int64_t *picked,
                       int64_t count)
{
    double n[WIDTH] = {0}, z = 0.0, square = 0.0;
    for (int64_t j = 0; j < q->sure.count; j++) {
        z += exp(q->sure.scores[j]);
        for (int64_t c = 0; c < WIDTH; c++)
            n[c] += exp(q->sure.scores[j]) * q->sure.values[j * WIDTH + c];
    }
    for (int64_t i = 0; i < count; i++) {
        const es_far_keys *keys = &q->strata[stratum_of[i]].keys;
        const double w = exp(keys->scores[picked[i]]);
        z += w;
        for (int64_t c = 0; c < WIDTH; c++)
            n[c] += w * keys->values[picked[i] * WIDTH + c];
    }
    for (int64_t c = 0; c < WIDTH; c++)
        square += pow(n[c] / z - limit[c], 2.0);
    return square;
}

static void every_outcome_of_few_keys_is_counted(void **state)
{
    (void)state;
    static const int64_t stratum_of[] = {0, 0, 1};
    state_of_rng = 13;
    es_far_keys sure = keys_of(2, 1.0), a = keys_of(4, 3.0), b = keys_of(3, 1.0);
    const es_far_stratum strata[] = {{.draws = 2.0, .keys = a}, {.draws = 1.0, .keys = b}};
    for (int64_t with = 0; with <= 2; with += 2) {
        sure.count = with;
        const es_far_query q = {WIDTH, sure, strata, 2};
        const es_far_risk r = risk_of(&q);
        double mean = 0.0;
        for (int64_t i = 0; i < 4 * 4 * 3; i++) {
            const int64_t picked[] = {i % 4, i / 4 % 4, i / 16};
            mean += error_of(&q, stratum_of, picked, 3) / 48.0;
        }
        assert_close(r.square.val, mean, 2e-10);
    }
    free_keys(&sure), free_keys(&a), free_keys(&b);
}

/* ---- simulation ---- */

static void simulated_far_fields_have_this_error(void **state)
{
    (void)state;
    enum { STRATA = 6, DRAWS = 1000 };
    state_of_rng = 14;
    for (int trial = 0; trial < 8; trial++) {
        es_far_keys sure = keys_of(10, 1.0);
        es_far_stratum strata[STRATA];
        int64_t stratum_of[256], picked[256], count = 0;
        for (int64_t d = 0; d < STRATA; d++) { /* scores become narrower with distance */
            strata[d] = (es_far_stratum){
                .draws = (double)(2 << d),
                .keys = keys_of(40, (0.5 + 0.4 * trial) / (1.0 + 0.3 * (double)d))};
            for (int64_t i = 0; i < 2 << d; i++)
                stratum_of[count++] = d;
        }
        const es_far_query q = {WIDTH, sure, strata, STRATA};
        const es_far_risk r = risk_of(&q);
        double sum = 0.0, squares = 0.0;
        for (int draw = 0; draw < DRAWS; draw++) {
            for (int64_t i = 0; i < count; i++)
                picked[i] = between(0, 39);
            const double e = error_of(&q, stratum_of, picked, count);
            sum += e, squares += e * e;
        }
        const double mean = sum / DRAWS, se = sqrt((squares / DRAWS - mean * mean) / DRAWS);
        assert_near(r.square.val, mean, 4.0 * se);
        assert_at_most(se, 0.15 * mean); /* the comparison says something */
        es_far_risk coarse;
        assert_ok(es_far_risk_of(&q, 1e-4, NULL, limit, &coarse, &err));
        assert_close(coarse.square.val, r.square.val, 1e-4);
        assert_at_least(coarse.square.err, fabs(coarse.square.val - r.square.val));
        free_keys(&sure);
        for (int64_t d = 0; d < STRATA; d++)
            free_keys(&strata[d].keys);
    }
}

/* ---- probabilities, and Gaussian keys ---- */

static void a_key_of_three_shares_is_three_keys(void **state)
{
    (void)state;
    static const double shares[] = {0.25, 0.75, 0.0};
    state_of_rng = 18;
    es_far_keys sure = keys_of(3, 1.0), two = keys_of(3, 2.0), four = keys_of(4, 0.0);
    for (int64_t j = 0; j < 4; j++) {
        ((double *)four.scores)[j] = two.scores[j > 0];
        for (int64_t c = 0; c < WIDTH; c++)
            ((double *)four.values)[j * WIDTH + c] = two.values[(j > 0) * WIDTH + c];
    }
    const es_far_stratum by_shares = {.draws = 7.0, .keys = two, .shares = shares};
    const es_far_stratum by_keys = {.draws = 7.0, .keys = four};
    const es_far_risk a = risk_of(&(es_far_query){WIDTH, sure, &by_shares, 1});
    const es_far_risk b = risk_of(&(es_far_query){WIDTH, sure, &by_keys, 1});
    assert_close(a.square.val, b.square.val, 1e-9);
    assert_close(a.bias2, b.bias2, 1e-8);
    assert_close(a.sampling, b.sampling, 1e-12);
    assert_close(a.far_mass, b.far_mass, 1e-12);
    free_keys(&sure), free_keys(&two), free_keys(&four);
}

enum { GAUSSIAN_DRAWS = 20, FIELDS = 20000 };

/* A Gaussian law of scores s and values a + b s + noise, stated by two keys at s = -sd and sd. */
typedef struct gaussian {
    double sd, noise, a[WIDTH], b[WIDTH], scores[2], values[2 * WIDTH];
} gaussian;

/* |y - limit|^2 of one field of GAUSSIAN_DRAWS such keys beside a sure one of score 0 and value 0.
 */
static double gaussian_error(const gaussian *g)
{
    double n[WIDTH] = {0}, z = 1.0, square = 0.0;
    double *x = normals(GAUSSIAN_DRAWS * (WIDTH + 1));
    for (int64_t j = 0; j < GAUSSIAN_DRAWS; j++) {
        const double *e = x + j * (WIDTH + 1), s = g->sd * e[WIDTH], w = exp(s);
        z += w;
        for (int64_t c = 0; c < WIDTH; c++)
            n[c] += w * (g->a[c] + g->b[c] * s + g->noise * e[c]);
    }
    for (int64_t c = 0; c < WIDTH; c++)
        square += pow(n[c] / z - limit[c], 2.0);
    free(x);
    return square;
}

/* Limit of Gaussian keys: E e^s = e^(sd^2/2), under which E s = sd^2. */
static void check_gaussian(const gaussian *g)
{
    double scores[ES_FAR_NODES], values[ES_FAR_NODES * WIDTH], shares[ES_FAR_NODES], mean[WIDTH];
    double slope[WIDTH], zero[WIDTH] = {0}, none = 0.0, sum = 0.0, squares = 0.0;
    const es_far_nodes nodes = {scores, values, shares, mean, slope};
    const es_far_stratum keys = {.draws = GAUSSIAN_DRAWS,
                                 .keys = {2, g->scores, g->values},
                                 .scatter = WIDTH * g->noise * g->noise};
    const es_far_stratum stratum = es_far_gaussian(&keys, WIDTH, &nodes);
    const es_far_risk r = risk_of(&(es_far_query){WIDTH, {1, &none, zero}, &stratum, 1});
    const double far = GAUSSIAN_DRAWS * exp(0.5 * g->sd * g->sd), mass = far / (1.0 + far);
    assert_close(r.far_mass, mass, 1e-4);
    for (int64_t c = 0; c < WIDTH; c++)
        assert_near(limit[c], mass * (g->a[c] + g->b[c] * g->sd * g->sd), 1e-3);
    for (int i = 0; i < FIELDS; i++) {
        const double e = gaussian_error(g);
        sum += e, squares += e * e;
    }
    const double average = sum / FIELDS;
    assert_near(r.square.val, average, 4.0 * sqrt((squares / FIELDS - average * average) / FIELDS));
}

static void gaussian_keys_have_the_error_of_their_draws(void **state)
{
    (void)state;
    state_of_rng = 19;
    for (int trial = 0; trial < 4; trial++) {
        gaussian g = {.sd = 0.3 + 0.9 * trial, .noise = 0.5};
        for (int64_t c = 0; c < WIDTH; c++) {
            g.a[c] = 2.0 * uniform() - 1.0;
            g.b[c] = (2.0 * uniform() - 1.0) / (1.0 + trial);
        }
        for (int64_t j = 0; j < 2; j++) {
            g.scores[j] = j ? g.sd : -g.sd;
            for (int64_t c = 0; c < WIDTH; c++)
                g.values[j * WIDTH + c] = g.a[c] + g.b[c] * g.scores[j];
        }
        check_gaussian(&g);
    }
}

/* ---- ends ---- */

static void without_a_far_field_the_output_is_the_limit(void **state)
{
    (void)state;
    state_of_rng = 15;
    es_far_keys sure = keys_of(9, 1.0);
    const es_far_query q = {WIDTH, sure, NULL, 0};
    const es_far_risk r = risk_of(&q);
    assert_equals(r.square.val, 0.0);
    assert_equals(r.far_mass, 0.0);
    assert_near(error_of(&q, NULL, NULL, 0), 0.0, 1e-28);
    free_keys(&sure);
}

/* Shifting all scores changes nothing, however far: weights are relative. */
static void scores_of_any_size_are_fine(void **state)
{
    (void)state;
    state_of_rng = 16;
    es_far_keys sure = keys_of(3, 1.0), far = keys_of(20, 2.0);
    const es_far_stratum stratum = {.draws = 30.0, .keys = far};
    const es_far_query q = {WIDTH, sure, &stratum, 1};
    const double before = risk_of(&q).square.val;
    for (int64_t j = 0; j < 3; j++)
        ((double *)sure.scores)[j] += 2000.0;
    for (int64_t j = 0; j < 20; j++)
        ((double *)far.scores)[j] += 2000.0;
    assert_close(risk_of(&q).square.val, before, 1e-9); /* 2000 costs 11 bits of the scores */
    free_keys(&sure), free_keys(&far);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    state_of_rng = 17;
    es_far_keys keys = keys_of(4, 1.0);
    es_far_stratum stratum = {.draws = 0.5, .keys = keys};
    es_far_query q = {WIDTH, keys, &stratum, 1};
    es_far_risk out;
    assert_int_equal(es_far_risk_of(&q, 1e-4, NULL, limit, &out, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "far.draws");
    stratum.draws = 2.0;
    assert_int_equal(es_far_risk_of(&q, 1.0, NULL, limit, &out, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "far.tolerance");
    ((double *)keys.scores)[1] = NAN;
    assert_int_equal(es_far_risk_of(&q, 1e-4, NULL, limit, &out, &err), ES_E_NONFINITE);
    for (int64_t j = 0; j < 4; j++)
        ((double *)keys.scores)[j] = -(double)INFINITY;
    assert_int_equal(es_far_risk_of(&q, 1e-4, NULL, limit, &out, &err), ES_E_EMPTY);
    free_keys(&keys);
}

TEST_FILE(far_risk)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stratum_and_nothing_sure_are_draws),
        cmocka_unit_test(one_stratum_is_a_policy_with_replacement),
        cmocka_unit_test(every_outcome_of_few_keys_is_counted),
        cmocka_unit_test(simulated_far_fields_have_this_error),
        cmocka_unit_test(a_key_of_three_shares_is_three_keys),
        cmocka_unit_test(gaussian_keys_have_the_error_of_their_draws),
        cmocka_unit_test(without_a_far_field_the_output_is_the_limit),
        cmocka_unit_test(scores_of_any_size_are_fine),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
