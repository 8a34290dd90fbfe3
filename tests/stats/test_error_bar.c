/* SPDX-License-Identifier: Apache-2.0 */
/* test_error_bar.c : what error bars claim, over many contexts whose limit is known.
 *
 * Tokens are standard normal, the query q is of length r along the first axis: the limit is q.
 * Tokens of AR(1) with coefficient a are normal as well, and to first order (the exponential tilt
 * of the pair x_0, x_h, whose correlation is a^h)
 *
 *     n Cov(output) = sum over h of e^{r^2 a^|h|} (a^|h| I + a^{2|h|} q q') ,
 *
 * of which independent tokens have the term h = 0: the design effect is known, too. */
#include "testing.h"

#include <esscher/attend.h>

#include "numbers.h"
#include "stats/error_bar.h"

enum { D = 8, CONTEXTS = 400 };

typedef struct coverage {
    double variance, independent, block; /* of the output: measured, and as the bars say, means */
    double inside, inside_along;         /* shares of channels across q and along q */
    double told;                         /* share of contexts */
} coverage;

static void draw_context(float *x, int64_t n, double a)
{
    double *noise = normals(n * D), state[D] = {0.0};
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < D; c++) {
            const double z = noise[i * D + c];
            state[c] = i ? a * state[c] + sqrt(1.0 - a * a) * z : z;
            x[i * D + c] = (float)state[c];
        }
    free(noise);
}

static void add_context(const float *x, int64_t n, double r, int64_t block, coverage *sum)
{
    double q[D] = {r}, o[D], s[D], powers[3], entropy, spread2, squares;
    const double scale = 1.0;
    const es_view vq = es_view_f64(q, 1, D), vx = es_view_f32((float *)(uintptr_t)x, n, D);
    const es_exec one = {.threads = 1};
    const es_attend_opts opts = {
        .scales = &scale, .n_scales = 1, .spread = true, .block = block, .exec = &one};
    const es_attend_out out = {.output = o,
                               .entropy = &entropy,
                               .sum_squares = &squares,
                               .spread2 = &spread2,
                               .block_spread2 = s,
                               .block_powers = powers};
    assert_ok(es_attend(&vq, &vx, &vx, &opts, &out, &err));
    const es_error_bar bar = es_error_bar_of(powers, n, entropy);
    sum->told += bar.valid / (double)CONTEXTS;
    sum->independent += spread2 / (1.0 - squares) / CONTEXTS;
    for (int c = 0; c < D; c++) {
        const double off = o[c] - q[c], se = sqrt(bar.factor * s[c]);
        sum->variance += off * off / CONTEXTS;
        sum->block += se * se / CONTEXTS;
        if (c == 0)
            sum->inside_along += (fabs(off) <= bar.t * se) / (double)CONTEXTS;
        else
            sum->inside += (fabs(off) <= bar.t * se) / (double)(CONTEXTS * (D - 1));
    }
}

static coverage cover(int64_t n, double r, double a, int64_t block)
{
    float *x = malloc((size_t)(n * D) * sizeof *x);
    coverage sum = {0};
    for (int i = 0; i < CONTEXTS; i++) {
        draw_context(x, n, a);
        add_context(x, n, r, block, &sum);
    }
    free(x);
    print_message("n %lld, |q| %g, a %.3g, blocks of %lld: variance %.3g, blocks say %.3g of it, "
                  "keys %.3g; coverage %.3f, along q %.3f; told %.3f\n",
                  (long long)n, r, a, (long long)block, sum.variance, sum.block / sum.variance,
                  sum.independent / sum.variance, sum.inside, sum.inside_along, sum.told);
    return sum;
}

/* Standard errors of shares: 7 x 400 nearly independent channels across q, .004; 400 along it,
 * .011. Four of them around .95; along q errors are skew, .93 +- .02 is what theory leaves open.
 * The variance is a mean over 400 x 8 squares of normals: 2.5 %, four of which are 10. */
static void independent_tokens_are_covered(void **state)
{
    (void)state;
    state_of_rng = 1201;
    const coverage c = cover(2048, 1.0, 0.0, 64);
    assert_near(c.inside, 0.95, 0.016);
    assert_between(c.inside_along, 0.93 - 0.02 - 0.044, 0.95 + 0.044);
    assert_near(c.block / c.variance, 1.0, 0.1);
    assert_near(c.independent / c.variance, 1.0, 0.1);
    assert_near(c.variance * 2048.0, exp(1.0) * (D + 1.0), 0.15 * exp(1.0) * (D + 1.0));
    assert_above(c.told, 0.999);
}

/* sum_h e^{r^2 a^h} (D a^h + r^2 a^2h) over both signs of h, over its term h = 0. */
static double design_effect(double r, double a)
{
    double sum = 0.0;
    for (int h = -200; h <= 200; h++) {
        const double c = pow(a, abs(h));
        sum += exp(r * r * c) * (D * c + r * r * c * c);
    }
    return sum / (exp(r * r) * (D + r * r));
}

/* Tokens that remember 5 others: bars of independent keys are too small by the design effect, those
 * of blocks of 128 lack what neighbours of different blocks share: 2a/((1-a^2) B) = 4 % of the
 * variance for r = 0, less beyond. */
static void dependent_tokens_need_blocks(void **state)
{
    (void)state;
    const double a = exp(-0.2), effect = design_effect(0.7, a);
    state_of_rng = 1202;
    const coverage c = cover(4096, 0.7, a, 128);
    print_message("design effect %.3f, measured %.3f\n", effect, c.block / c.independent);
    assert_above(effect, 6.0);
    assert_near(c.variance / c.independent, effect, 0.15 * effect);
    assert_near(c.block / c.variance, 0.97, 0.1);
    assert_near(c.inside, 0.945, 0.018); /* 4 % of the variance: half a point of coverage */
    assert_between(c.inside_along, 0.87, 0.99);
    assert_above(c.told, 0.999);
}

/* A query near the freezing scale, and a context of three blocks: the bar says that it cannot tell.
 */
static void what_cannot_be_told_is_not(void **state)
{
    (void)state;
    state_of_rng = 1203;
    assert_below(cover(512, 3.0, 0.0, 16).told, 0.01);
    assert_below(cover(192, 0.5, 0.0, 64).told, 0.01);
}

/* G equal blocks: factor G/(G-1), G - 1 degrees; one block: nothing is known. */
static void equal_blocks_are_the_textbook(void **state)
{
    (void)state;
    for (int G = 2; G <= 30; G += 7) {
        const double g = G, powers[3] = {1.0 / g, 1.0 / (g * g), 1.0 / (g * g * g)};
        const es_error_bar bar = es_error_bar_of(powers, 1000, log(1000.0));
        assert_near(bar.factor, g / (g - 1.0), 1e-12);
        assert_near(bar.freedom, g - 1.0, 1e-12);
        assert_int_equal(bar.valid, G >= 5);
    }
    assert_near(es_error_bar_of((double[]){0.5, 0.25, 0.125}, 9, 2.0).t, 12.7062047361747, 1e-9);
    const es_error_bar none = es_error_bar_of((double[]){1.0, 1.0, 1.0}, 1000, 0.0);
    assert_nan(none.factor);
    assert_nan(none.t);
    assert_false(none.valid);
    assert_equals(none.freedom, 0.0);
    const double even[3] = {1e-2, 1e-4, 1e-6};
    assert_true(es_error_bar_of(even, 10000, 0.76 * log(1e4)).valid);
    assert_false(es_error_bar_of(even, 10000, 0.74 * log(1e4)).valid);
}

TEST_FILE(error_bar)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(independent_tokens_are_covered),
        cmocka_unit_test(dependent_tokens_need_blocks),
        cmocka_unit_test(what_cannot_be_told_is_not),
        cmocka_unit_test(equal_blocks_are_the_textbook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
