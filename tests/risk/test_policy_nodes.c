/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_nodes.c : nodes of keys kept each on its own, one formula against another; the same
 * bits from all instruction sets; and what coarser integrals state of themselves. */
#include "risk_checks.h"

#include "numbers.h"
#include "risk/damping.h"
#include "risk/policy_risk.h"
#include "risk/policy_terms.h"

enum { MOST = 300, WIDTH = 5, PADDED = MOST + ES_RISK_LANES };

/* ---- one node ---- */

static double s[PADDED], u[PADDED * WIDTH], u2[PADDED], p[PADDED], means[2 * ES_RISK_NODES * WIDTH];

/* Scores over a range of `span`, as they come; every seventh key surely, every ninth weightless. */
static es_risk_terms terms_of(int64_t count, double span)
{
    es_risk_terms r = {.count = count, .width = WIDTH, .chance = ES_CHANCE_EACH};
    r.padded = (count + ES_RISK_LANES - 1) / ES_RISK_LANES * ES_RISK_LANES;
    for (int64_t j = 0; j < r.padded; j++) {
        s[j] = j >= count || j % 9 == 8 ? -(double)INFINITY : span * (uniform() - 1.0);
        p[j] = j >= count ? 0.0 : j % 7 == 6 ? 1.0 : uniform();
        u2[j] = 0.0;
        for (int64_t l = 0; l < WIDTH; l++) {
            u[j * WIDTH + l] = uniform() - 0.5; /* of those that fill up, too */
            u2[j] += j < count ? u[j * WIDTH + l] * u[j * WIDTH + l] : 0.0;
        }
    }
    r.s = s;
    r.u = u;
    r.u2 = u2;
    r.p = p;
    return r;
}

static void place_means(es_risk_node *nodes, double *at)
{
    for (int64_t i = 0; i < ES_RISK_NODES * WIDTH; i++)
        at[i] = 0.0;
    for (int64_t i = 0; i < ES_RISK_NODES; i++)
        nodes[i].mean = at + i * WIDTH;
}

/* E e^{-lZ}, and of lN and |lN|^2 under the tilted law, key by key in more digits. */
typedef struct plain {
    long double log_mean, mean[WIDTH], square, some, once, most; /* most: of all x */
} plain;

static plain plainly(const es_risk_terms *r, double t)
{
    plain n = {0};
    for (int64_t j = 0; j < r->count; j++) {
        const long double x = expl((long double)t + r->s[j]), kept = expl(-x);
        const long double d = 1.0L - r->p[j] + r->p[j] * kept, q = r->p[j] * kept / d;
        n.log_mean += logl(d);
        n.most = fmaxl(n.most, x);
        n.some += x > 0.0L ? q : 0.0L;
        n.once += q * x;
        n.square += q * (1.0L - q) * x * x * r->u2[j];
        for (int64_t l = 0; l < WIDTH; l++)
            n.mean[l] += q * x * r->u[j * WIDTH + l];
    }
    return n;
}

/* Sums of n positive terms, relative to what would be there without signs: n roundings, ten of a
 * term's own, and those of x, its square and e^{-x}: four and that of its logarithm, t + s. */
static void a_node_is_a_sum_over_keys(void **state)
{
    (void)state;
    static const double spans[] = {0.1, 8.0, 300.0};
    es_risk_node nodes[ES_RISK_NODES];
    state_of_rng = 21;
    for (int i = 0; i < 3; i++) {
        for (int64_t count = 1; count <= MOST; count += count < 20 ? 1 : 93) {
            const es_risk_terms r = terms_of(count, spans[i]);
            for (double t = -6.0; t < spans[i]; t += 0.21 * spans[i] + 0.9) {
                place_means(nodes, means);
                es_risk_each_portable(&r, t, 0.4, nodes);
                for (int k = 0; k < ES_RISK_NODES; k++) {
                    const plain n = plainly(&r, t + 0.4 * k);
                    const double most = fmin((double)n.most, 708.0);
                    const double error = 2.3e-16 * (10.0 + (double)count +
                                                    (2.0 + most) * (4.0 + fabs(t) + spans[i]));
                    if (n.log_mean < -600.0L) /* as good as nothing */
                        continue;
                    assert_near(nodes[k].log_mean, (double)n.log_mean,
                                error * (1.0 + fabs((double)n.log_mean)));
                    assert_near(nodes[k].some, (double)n.some, error * (double)n.some);
                    assert_near(nodes[k].once, (double)n.once, error * (double)n.once);
                    assert_near(nodes[k].square, (double)n.square, error * (double)n.square);
                    for (int64_t l = 0; l < WIDTH; l++)
                        assert_near(nodes[k].mean[l], (double)n.mean[l], error * (double)n.once);
                }
            }
        }
    }
}

static void instruction_sets_give_the_same_bits(void **state)
{
    (void)state;
    es_risk_each_fn *const others[] = {es_risk_each_avx2, es_risk_each_avx512};
    static const es_isa isas[] = {ES_ISA_AVX2, ES_ISA_AVX512};
    es_risk_node a[ES_RISK_NODES], b[ES_RISK_NODES];
    double *second = means + ES_RISK_NODES * WIDTH;
    int compared = 0;
    state_of_rng = 22;
    for (int i = 0; i < 2; i++) {
        for (int64_t count = 1; count <= MOST && es_isa_available(isas[i]); count += 13) {
            const es_risk_terms r = terms_of(count, 12.0);
            for (double t = -8.0; t < 20.0; t += 0.7) {
                place_means(a, means);
                place_means(b, second);
                es_risk_each_portable(&r, t, 0.3125, a);
                others[i](&r, t, 0.3125, b);
                assert_memory_equal(means, second, ES_RISK_NODES * WIDTH * sizeof *means);
                for (int k = 0; k < ES_RISK_NODES; k++) {
                    assert_equals(a[k].log_mean, b[k].log_mean);
                    assert_equals(a[k].square, b[k].square);
                    assert_equals(a[k].some, b[k].some);
                    assert_equals(a[k].once, b[k].once);
                }
                compared++;
            }
        }
    }
    if (compared == 0)
        skip_test("this CPU has neither AVX2 nor AVX-512");
}

/* ---- coarser integrals ---- */

/* int (lZ)^2 e^{-lZ} dt = 1: the trapezoid rule's worst error over where its nodes lie is what
 * es_damping_rule() says, and no more. */
static void the_rule_is_off_by_what_it_says(void **state)
{
    (void)state;
    assert_below(es_damping_rule(ES_DAMPING_STEP), ES_DAMPING_RULE);
    for (double h = 0.45; h < 1.2; h += 0.15) {
        const double rule = es_damping_rule(h);
        double worst = 0.0;
        for (int shift = 0; shift < 16; shift++) {
            long double sum = 0.0L;
            for (int k = -200; k < 20; k++) {
                const long double x = expl((long double)h * (k + shift / 16.0L));
                sum += (long double)h * x * x * expl(-x);
            }
            worst = fmax(worst, (double)fabsl(sum - 1.0L));
        }
        /* 1e-16: what is left below k = -200; harmonics add less than rule^2. */
        assert_at_most(worst, rule * (1.0 + rule) + 1e-16);
        assert_above(worst, 0.95 * rule); /* 16 shifts miss the worst by 1 - cos(pi/16) at most */
    }
}

/* Every kind of chance, from nearly equal weights to nearly all on one key: within the tolerance of
 * the fine integral, and a bound that is no larger than it. */
static void tolerances_are_kept(void **state)
{
    (void)state;
    enum { N = 150 };
    static const char *const names[] = {"random", "retention", "bigbird"};
    state_of_rng = 23;
    double *scores = normals(N), *values = normals(4 * N), *hot = normals(N), worst = 0.0;
    const es_view view = es_view_f64(values, N, 4);
    for (double scale = 0.1; scale < 40.0; scale *= 5.0) {
        es_risk_query query;
        for (int64_t j = 0; j < N; j++)
            hot[j] = scale * scores[j];
        assert_ok(es_risk_query_new(hot, N, &view, NULL, &query, &err));
        for (int kind = 0; kind < 6; kind++) {
            es_policy_spec spec = spec_of(names[kind % 3], ES_POLICY_UNSET);
            const es_policy_query q = {.n = N, .position = 70};
            spec.random = kind < 3 ? 9 : 60;
            spec.with_replacement = kind == 3;
            assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
            const es_policy_risk fine = risk_of(&query, &choice);
            for (double tolerance = 1e-2; tolerance > 1e-9; tolerance *= 0.01) {
                es_policy_risk risk;
                assert_ok(es_policy_risk_near(&query, &choice, tolerance, NULL, &risk, &err));
                const double off = fabs(risk.square.val - fine.square.val);
                assert_at_most(off, risk.square.err + fine.square.err);
                assert_at_most(risk.square.err, tolerance * fine.square.val + fine.square.err);
                assert_near(risk.bias2, fine.bias2, 20.0 * tolerance * fine.square.val);
                worst = fmax(worst, off / (tolerance * fine.square.val));
            }
        }
        es_risk_query_free(&query, NULL);
    }
    print_message("largest error: %.3f of the tolerance\n", worst);
    assert_above(worst, 0.01); /* or the tolerance buys nothing */
    free(scores);
    free(values);
    free(hot);
}

static void tolerances_out_of_range_are_refused(void **state)
{
    (void)state;
    static const double wrong[] = {0.0, 1e-11, 0.011, -1.0, (double)NAN};
    const double scores[2] = {0.0, 1.0}, values[2] = {1.0, 2.0};
    const es_view view = es_view_f64(values, 2, 1);
    int64_t keys[2] = {0, 1};
    const es_choice c = {.n = 2, .sure_count = 2, .sure = keys, .factor = 1.0};
    es_risk_query query;
    es_policy_risk risk;
    assert_ok(es_risk_query_new(scores, 2, &view, NULL, &query, &err));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(es_policy_risk_near(&query, &c, wrong[i], NULL, &risk, &err), ES_E_RANGE);
        assert_string_equal(err.rule, "risk.tolerance");
    }
    es_risk_query_free(&query, NULL);
}

TEST_FILE(policy_nodes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_a_sum_over_keys),
        optional_test(instruction_sets_give_the_same_bits),
        cmocka_unit_test(the_rule_is_off_by_what_it_says),
        cmocka_unit_test(tolerances_are_kept),
        cmocka_unit_test(tolerances_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_choice);
}
