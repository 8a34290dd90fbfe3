/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_risk_golden.c : exact risks of choices on the arrays of golden/sparse, against
 * another program's integrals, closed forms and draws; and what those arrays say of the limit. */
#include "risk_checks.h"

#include <esscher/npy.h>

#include "base/view.h"
#include "risk/policy_risk.h"
#include "golden.h"

/* ---- golden/sparse ---- */

typedef struct golden_set {
    es_array q, k, v;
    es_view Q, K, V;
    json_t *all;
    double *scores;
} golden_set;

static golden_set open_golden(void)
{
    golden_set g;
    g.all = golden_file("sparse/expected.json");
    assert_ok(es_npy_load(golden_path("sparse/q.npy"), NULL, &g.q, &err));
    assert_ok(es_npy_load(golden_path("sparse/k.npy"), NULL, &g.k, &err));
    assert_ok(es_npy_load(golden_path("sparse/v.npy"), NULL, &g.v, &err));
    assert_ok(es_array_view(&g.q, 0, &g.Q, &err));
    assert_ok(es_array_view(&g.k, 0, &g.K, &err));
    assert_ok(es_array_view(&g.v, 0, &g.V, &err));
    g.scores = malloc((size_t)g.K.rows * sizeof *g.scores);
    return g;
}

static void close_golden(golden_set *g)
{
    es_array_free(&g->q);
    es_array_free(&g->k);
    es_array_free(&g->v);
    json_decref(g->all);
    free(g->scores);
}

static es_risk_query golden_query(golden_set *g, int64_t query, double scale, int64_t n)
{
    es_risk_query q;
    for (int64_t j = 0; j < n; j++) {
        g->scores[j] = 0.0;
        for (int64_t l = 0; l < g->K.cols; l++)
            g->scores[j] += scale * es_view_get(&g->Q, query, l) * es_view_get(&g->K, j, l);
    }
    const es_view values = es_view_rows(&g->V, 0, n);
    assert_ok(es_risk_query_new(g->scores, n, &values, NULL, &q, &err));
    return q;
}

static double named(const json_t *row, const char *form, int64_t m)
{
    char name[64];
    snprintf(name, sizeof name, form, (int)m);
    return golden_real(row, name);
}

/* The integrals of another program, of 4000 nodes. */
static void golden_integrals(void **state)
{
    (void)state;
    golden_set g = open_golden();
    const json_t *exact = json_object_get(g.all, "exact");
    int with = 0, alone = 0;
    for (size_t i = 0; i < json_array_size(exact); i++) {
        const json_t *row = json_array_get(exact, i);
        const bool window = !json_is_null(json_object_get(row, "position"));
        es_policy_query q = {.n = g.K.rows, .position = -1};
        es_policy_spec spec = spec_of("random", ES_POLICY_UNSET);
        es_risk_query query = golden_query(&g, (int64_t)golden_real(row, "query"),
                                           golden_real(row, "scale"), g.K.rows);
        if (window) {
            q.position = (int64_t)golden_real(row, "position");
            spec.sinks = (int64_t)golden_real(row, "sinks");
            spec.window = (int64_t)golden_real(row, "window");
        }
        spec.random = (int64_t)golden_real(row, "random");
        spec.with_replacement = true;
        spec.correction =
            golden_real(row, "correction") == 1.0 ? ES_CORRECTION_NONE : ES_CORRECTION_INVERSE;
        assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
        assert_near(choice.factor, golden_real(row, "correction"), 1e-12);
        assert_close(risk_of(&query, &choice).square.val, golden_real(row, "with_replacement"),
                     1e-9);
        with++;
        if (json_object_get(row, "bernoulli")) {
            spec.policy = es_policy_find("retention");
            spec.with_replacement = false;
            assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
            assert_close(risk_of(&query, &choice).square.val, golden_real(row, "bernoulli"), 1e-9);
            alone++;
        }
        es_risk_query_free(&query, NULL);
    }
    assert_int_equal(with, 72);
    assert_int_equal(alone, 48);
    close_golden(&g);
}

/* Deterministic policies, first-order forms, the limit; one query, full or causal. */
static void check_golden_row(const json_t *row, const es_risk_query *query, es_policy_query *q)
{
    static const int64_t sizes[] = {8, 32, 96};
    const int64_t n = q->n;
    double limit;
    assert_close(query->spread2, golden_real(row, "spread2"), 1e-9);
    for (int64_t l = 0; l < query->dv; l++)
        assert_near(query->output[l],
                    json_number_value(json_array_get(json_object_get(row, "output"), (size_t)l)),
                    1e-9);
    assert_ok(es_policy_limit(query, 0.5, NULL, &limit, NULL, &err)); /* no key is sure */
    double squares = 0.0;
    for (int64_t j = 0; j < n; j++)
        squares += query->weights[j] * query->weights[j] * query->reach[j] * query->reach[j];
    assert_close(0.5 * (limit + squares), golden_real(row, "optimal"), 1e-9);
    for (int i = 0; i < 3; i++) {
        const int64_t m = sizes[i];
        es_policy_spec spec = spec_of("top", m);
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        const es_policy_risk top = risk_of(query, &choice);
        assert_close(top.square.val, named(row, "top_%d", m), 1e-9);
        assert_close(top.mass, named(row, "top_%d_mass", m), 1e-9);
        assert_nan(top.first_order);
        assert_equals(top.bias2, top.square.val);
        spec = spec_of("stream", m);
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        assert_int_equal(choice.sure_count, (int64_t)named(row, "window_%d_kept", m));
        assert_close(risk_of(query, &choice).square.val, named(row, "window_%d", m), 1e-9);
        spec = spec_of("top-random", m);
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        assert_close(risk_of(query, &choice).first_order, named(row, "top_random_%d", m), 1e-9);
        spec = spec_of("random", m);
        spec.with_replacement = true;
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        assert_close(risk_of(query, &choice).first_order * (double)m, golden_real(row, "sampling"),
                     1e-9);
        assert_equals(risk_of(query, &choice).keys, (double)m);
    }
}

/* BigBird without replacement, of which the other program drew; z is summed up by the caller. */
static void check_golden_bigbird(const json_t *row, const es_risk_query *query,
                                 const es_policy_query *q, int64_t m, double *z2, int *count)
{
    es_policy_spec spec = spec_of("bigbird", ES_POLICY_UNSET);
    spec.window = q->causal ? m - 4 : (m - 4) / 2;
    spec.random = m;
    for (int corrected = 0; corrected < 2; corrected++) {
        char name[64];
        snprintf(name, sizeof name, "bigbird_%d_%ssimulated", (int)m,
                 corrected ? "corrected_" : "");
        const json_t *drawn = json_object_get(row, name);
        const double mean = json_number_value(json_array_get(drawn, 0));
        const double se = json_number_value(json_array_get(drawn, 1));
        spec.correction = corrected ? ES_CORRECTION_INVERSE : ES_CORRECTION_NONE;
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        assert_int_equal(choice.chance, ES_CHANCE_WITHOUT);
        const es_policy_risk risk = risk_of(query, &choice);
        assert_near(risk.square.val, mean, 4.0 * se);
        *z2 += (risk.square.val - mean) * (risk.square.val - mean) / (se * se);
        ++*count;
        if (corrected) {
            assert_close(risk.first_order, named(row, "bigbird_%d_corrected", m), 1e-9);
            continue;
        }
        /* E N and E Z: the first-order bias */
        double z = 0.0, mean2 = 0.0, off = named(row, "bigbird_%d_bias2", m);
        for (int64_t j = 0; j < choice.sure_count; j++)
            z += query->weights[choice.sure[j]];
        const double f = (double)m / (double)choice.rest_count;
        for (int64_t l = 0; l < query->dv; l++) {
            double sum = 0.0;
            for (int64_t j = 0; j < choice.sure_count; j++)
                sum += query->weights[choice.sure[j]] * query->off[choice.sure[j] * query->dv + l] *
                       (1.0 - f);
            mean2 += sum * sum;
        }
        assert_close(mean2 / ((z + f * (1.0 - z)) * (z + f * (1.0 - z))), off, 1e-9);
    }
}

static void golden_policies_full_and_causal(void **state)
{
    (void)state;
    golden_set g = open_golden();
    const json_t *positions = json_object_get(g.all, "positions");
    const double scale = golden_real(g.all, "scale");
    double z2 = 0.0;
    int count = 0;
    for (size_t i = 0; i < json_array_size(positions); i++) {
        const int64_t at = (int64_t)json_integer_value(json_array_get(positions, i));
        for (int causal = 0; causal < 2; causal++) {
            const int64_t n = causal ? at + 1 : g.K.rows;
            const json_t *rows = json_object_get(g.all, causal ? "causal" : "full");
            const json_t *row = json_array_get(rows, i);
            es_risk_query query = golden_query(&g, (int64_t)i, scale, n);
            es_policy_query q = {
                .n = n, .position = at, .causal = causal, .scores = g.scores, .reach = query.reach};
            check_golden_row(row, &query, &q);
            check_golden_bigbird(row, &query, &q, 8, &z2, &count);
            check_golden_bigbird(row, &query, &q, 32, &z2, &count);
            check_golden_bigbird(row, &query, &q, 96, &z2, &count);
            es_risk_query_free(&query, NULL);
        }
    }
    assert_int_equal(count, 240);
    /* All together: the mean square of 240 deviations, in standard errors. Its own error is
     * sqrt(2/240) = .09 were they independent; outcomes of one query are shared by some. */
    print_message("BigBird: %d simulations, mean square deviation %.3f se^2\n", count,
                  z2 / (double)count);
    assert_below(z2 / (double)count, 1.5);
    close_golden(&g);
}

/* ---- the limit, and keys on their own ---- */

/* Biased rules may be below it, as top keys are on real weights; so may rules whose keys depend on
 * each other: of values +1 and -1 of equal weight, as many of each have no error at all. */
static void what_the_limit_does_not_say(void **state)
{
    (void)state;
    enum { N = 100 };
    static double scores[N], values[N];
    double limit;
    for (int64_t j = 0; j < N; j++) { /* equal weights, values +1 and -1 */
        scores[j] = 0.0;
        values[j] = j % 2 ? 1.0 : -1.0;
    }
    const es_view view = es_view_f64(values, N, 1);
    es_risk_query query;
    assert_ok(es_risk_query_new(scores, N, &view, NULL, &query, &err));
    const es_policy_query q = {.n = N, .position = 50, .scores = scores};
    assert_ok(es_policy_limit(&query, 10.0, NULL, &limit, NULL, &err));
    assert_close(limit, 1.0 / 10.0 - 1.0 / N, 1e-12);
    es_policy_spec spec = spec_of("top", 10); /* the first ten: five of each */
    assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
    assert_near(risk_of(&query, &choice).square.val, 0.0, 1e-30);
    es_risk_query_free(&query, NULL);
    golden_set g = open_golden();
    int below = 0;
    for (int64_t i = 0; i < 20; i++) {
        query = golden_query(&g, i, 0.35, g.K.rows);
        const json_t *row = json_array_get(json_object_get(g.all, "full"), (size_t)i);
        assert_ok(es_policy_limit(&query, 8.0, NULL, &limit, NULL, &err));
        below += named(row, "top_%d", 8) < limit;
        es_risk_query_free(&query, NULL);
    }
    print_message("top keys are below the limit for %d of 20 queries\n", below);
    assert_above(below, 0);
    close_golden(&g);
}

/* Keys on their own stand in for draws without replacement: a few per cent more (THEORY 13). */
static void retention_is_a_little_worse(void **state)
{
    (void)state;
    golden_set g = open_golden();
    double least = 1.0, most = 0.0;
    for (int64_t i = 0; i < 6; i++) {
        es_risk_query query = golden_query(&g, i, 0.35, g.K.rows);
        const es_policy_query q = {.n = g.K.rows, .position = -1};
        for (int64_t m = 16; m <= 64; m += 48) {
            es_policy_spec spec = spec_of("random", m);
            assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
            const double without = risk_of(&query, &choice).square.val;
            spec.policy = es_policy_find("retention");
            assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
            const double ratio = risk_of(&query, &choice).square.val / without - 1.0;
            least = fmin(least, ratio);
            most = fmax(most, ratio);
        }
        es_risk_query_free(&query, NULL);
    }
    print_message("retention above draws without replacement: %.4f to %.4f\n", least, most);
    assert_above(least, 0.0);
    assert_below(most, 0.08);
    close_golden(&g);
}

TEST_FILE(policy_risk_golden)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_integrals),
        cmocka_unit_test(golden_policies_full_and_causal),
        cmocka_unit_test(what_the_limit_does_not_say),
        cmocka_unit_test(retention_is_a_little_worse),
    };
    return cmocka_run_group_tests(tests, NULL, free_choice);
}
