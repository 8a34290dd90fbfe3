/* SPDX-License-Identifier: Apache-2.0 */
/* test_weigh.c : softmax weights of a row, against more digits, and from all instruction sets. */
#include "testing.h"

#include <esscher/exec.h>

#include "numbers.h"
#include "stats/weigh.h"

enum { MOST = 300 };

/* exp has 1.1 roundings (elementary.h), its argument one of its own size, a sum of n positive
 * numbers n, the quotient one. */
static void weights_are_softmax(void **state)
{
    (void)state;
    double scores[MOST], w[MOST];
    state_of_rng = 31;
    for (int64_t n = 1; n <= MOST; n += 1 + n / 4) {
        for (double scale = 0.1; scale < 1000.0; scale *= 10.0) {
            long double total = 0.0L, most = -INFINITY;
            for (int64_t j = 0; j < n; j++) {
                scores[j] = j % 11 == 10 ? -(double)INFINITY : 50.0 + scale * normal();
                most = fmaxl(most, scores[j]);
            }
            for (int64_t j = 0; j < n; j++)
                total += expl(scores[j] - most);
            es_weigh(scores, n, w);
            for (int64_t j = 0; j < n; j++) {
                const long double exact = expl(scores[j] - most) / total;
                const double arg = fmin(fabs((double)(scores[j] - most)), 708.0);
                assert_near(w[j], (double)exact,
                            2.3e-16 * (double)exact * (4.0 + (double)n + arg) + 4e-308);
            }
        }
    }
}

static void weights_have_the_same_bits(void **state)
{
    (void)state;
    double scores[MOST], w[2][MOST];
    if (!es_isa_available(ES_ISA_AVX2))
        skip_test("this CPU has no AVX2");
    state_of_rng = 32;
    for (int64_t n = 1; n <= MOST; n++) {
        for (int64_t j = 0; j < n; j++)
            scores[j] = -800.0 * uniform();
        assert_equals(es_weigh_portable(scores, 0.0, n, w[0]), es_weigh_avx2(scores, 0.0, n, w[1]));
        assert_memory_equal(w[0], w[1], (size_t)n * sizeof(double));
    }
}

TEST_FILE(weigh)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_softmax),
        optional_test(weights_have_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
