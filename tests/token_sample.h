/* SPDX-License-Identifier: Apache-2.0 */
/* token_sample.h : samples, and how far their means may be off. Seeds are fixed, so a pass is a
 * pass for ever; bounds are wide enough that an honest sampler with other seeds would fail once in
 * some thousand runs. */
#ifndef ES_TESTS_TOKEN_SAMPLE_H
#define ES_TESTS_TOKEN_SAMPLE_H

#include "testing.h"

#include "tokens/tokens.h"

static const double most_se = 5.0;
enum { N = 20000 };

static inline double *tokens_of(const es_law *law, int64_t n, uint64_t cell)
{
    const es_address at = {.seed = 1, .experiment = 2, .cell = cell};
    double *x = malloc((size_t)(n * law->dim) * sizeof *x);
    assert_non_null(x);
    assert_ok(es_tokens_rows(law, &at, n, x, &err));
    return x;
}

/* The mean of `count` numbers against what it should be, in its own standard errors. */
static inline void assert_mean(const double *x, int count, double expected, const char *what,
                               int kind)
{
    double mean = 0.0, var = 0.0;
    for (int i = 0; i < count; i++)
        mean += x[i] / count;
    for (int i = 0; i < count; i++)
        var += (x[i] - mean) * (x[i] - mean) / count;
    /* Moments that are the same for every token (Rademacher's) must be right to rounding. */
    const double se = sqrt(var / count), bound = most_se * se + 1e-12 * (1.0 + fabs(expected));
    if (!(fabs(mean - expected) <= bound))
        fail_msg("%s, %s: %.6g, expected %.6g, SE %.2g", es_law_name((es_law_kind)kind), what, mean,
                 expected, se);
}

#endif
