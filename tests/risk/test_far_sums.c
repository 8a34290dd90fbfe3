/* SPDX-License-Identifier: Apache-2.0 */
/* test_far_sums.c : sums over the keys of a far field against plain loops in more digits, and the
 * same bits from all instruction sets. */
#include "risk_checks.h"

#include "numbers.h"
#include "risk/far_sums.h"

enum { MOST = 304, WIDTH = 5, PADDED = MOST + ES_FAR_LANES };

static double s[PADDED], u[PADDED * WIDTH], u2[PADDED], share[PADDED];
static double means[2 * ES_FAR_STEPS * WIDTH];

/* Scores over a range of `span`; every ninth key has no weight; the last lanes are filled up. */
static es_far_terms terms_of(int64_t count, double span)
{
    es_far_terms r = {.width = WIDTH, .s = s, .share = share, .u2 = u2, .u = u};
    r.count = (count + ES_FAR_LANES - 1) / ES_FAR_LANES * ES_FAR_LANES;
    for (int64_t j = 0; j < r.count; j++) {
        s[j] = j >= count || j % 9 == 8 ? -(double)INFINITY : span * (uniform() - 1.0);
        share[j] = j >= count ? 0.0 : uniform();
        u2[j] = j >= count ? 0.0 : uniform();
        for (int64_t l = 0; l < WIDTH; l++)
            u[j * WIDTH + l] = j >= count ? 0.0 : uniform() - 0.5;
    }
    return r;
}

static void place_means(es_far_sums *sums, double *at)
{
    for (int64_t i = 0; i < ES_FAR_STEPS; i++)
        sums[i].mean = at + i * WIDTH;
}

typedef struct plain {
    long double kept, some, once, square, mean[WIDTH], most; /* most: of all x */
} plain;

static plain plainly(const es_far_terms *r, double t)
{
    plain n = {0};
    for (int64_t j = 0; j < r->count; j++) {
        const long double x = expl((long double)t + r->s[j]), kept = r->share[j] * expl(-x);
        n.most = fmaxl(n.most, x);
        n.kept += kept;
        n.some += x > 0.0L ? kept : 0.0L;
        n.once += x * kept;
        n.square += x * x * kept * r->u2[j];
        for (int64_t l = 0; l < WIDTH; l++)
            n.mean[l] += x * kept * r->u[j * WIDTH + l];
    }
    return n;
}

/* As in test_policy_nodes.c: n roundings of a sum, ten of a term's own, and those of x and e^{-x}:
 * four and that of the logarithm of x, t + s. e^{-708} counts as 0. */
static void sums_are_those_of_plain_loops(void **state)
{
    (void)state;
    static const double spans[] = {0.1, 8.0, 300.0};
    es_far_sums sums[ES_FAR_STEPS];
    place_means(sums, means);
    state_of_rng = 31;
    for (int i = 0; i < 3; i++)
        for (int64_t count = 1; count <= MOST; count += count < 20 ? 1 : 93) {
            const es_far_terms r = terms_of(count, spans[i]);
            for (double t = -6.0; t < spans[i]; t += 0.21 * spans[i] + 0.9) {
                es_far_sums_portable(&r, t, 0.4, sums);
                for (int k = 0; k < ES_FAR_STEPS; k++) {
                    const plain n = plainly(&r, t + 0.4 * k);
                    const double most = fmin((double)n.most, 708.0), tiny = 1e-300;
                    const double error = 2.3e-16 * (10.0 + (double)count +
                                                    (2.0 + most) * (4.0 + fabs(t) + spans[i]));
                    assert_near(sums[k].kept, (double)n.kept, error * (double)n.kept + tiny);
                    assert_near(sums[k].some, (double)n.some, error * (double)n.some + tiny);
                    assert_near(sums[k].once, (double)n.once, error * (double)n.once + tiny);
                    assert_near(sums[k].square, (double)n.square, error * (double)n.square + tiny);
                    for (int64_t l = 0; l < WIDTH; l++)
                        assert_near(sums[k].mean[l], (double)n.mean[l],
                                    error * (double)n.once + tiny);
                }
            }
        }
}

static void instruction_sets_give_the_same_bits(void **state)
{
    (void)state;
    es_far_sums_fn *const others[] = {es_far_sums_avx2, es_far_sums_avx512};
    static const es_isa isas[] = {ES_ISA_AVX2, ES_ISA_AVX512};
    es_far_sums a[ES_FAR_STEPS], b[ES_FAR_STEPS];
    double *second = means + ES_FAR_STEPS * WIDTH;
    int compared = 0;
    place_means(a, means);
    place_means(b, second);
    state_of_rng = 32;
    for (int i = 0; i < 2; i++)
        for (int64_t count = 1; count <= MOST && es_isa_available(isas[i]); count += 13) {
            const es_far_terms r = terms_of(count, 12.0);
            for (double t = -8.0; t < 20.0; t += 0.7) {
                es_far_sums_portable(&r, t, 0.3125, a);
                others[i](&r, t, 0.3125, b);
                assert_memory_equal(means, second, ES_FAR_STEPS * WIDTH * sizeof *means);
                for (int k = 0; k < ES_FAR_STEPS; k++) {
                    assert_equals(a[k].kept, b[k].kept);
                    assert_equals(a[k].some, b[k].some);
                    assert_equals(a[k].once, b[k].once);
                    assert_equals(a[k].square, b[k].square);
                }
                compared++;
            }
        }
    if (compared == 0)
        skip_test("this CPU has neither AVX2 nor AVX-512");
}

TEST_FILE(far_sums)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_plain_loops),
        optional_test(instruction_sets_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
