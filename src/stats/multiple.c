/* SPDX-License-Identifier: Apache-2.0 */
/* multiple.c : differences of measurements with errors from few groups, and many of them. */
#include "stats/multiple.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "stats/special.h"

/* Welch's t test: se^2 = se_a^2 + se_b^2, with Satterthwaite's degrees of freedom (se_a^2 +
 * se_b^2)^2 / (se_a^4/nu_a + se_b^4/nu_b). */
es_welch_test es_welch(es_grouped a, es_grouped b)
{
    const double va = a.se * a.se, vb = b.se * b.se, both = va + vb;
    if (!(both > 0.0 && isfinite(both) && isfinite(a.value - b.value) && a.freedom > 0.0 &&
          b.freedom > 0.0))
        return (es_welch_test){(double)NAN, (double)NAN, (double)NAN};
    /* the chi^2 with as much variance, relative to its mean, as the sum of the two has */
    const double freedom = both * both / (va * va / a.freedom + vb * vb / b.freedom);
    const double t = (a.value - b.value) / sqrt(both);
    return (es_welch_test){t, freedom, fmin(1.0, 2.0 * es_student_tail(freedom, fabs(t)))};
}

/* Jackknife over B groups: se^2 = (B-1)/B sum_b (theta_b - mean)^2, theta_b the estimate without
 * group b; B - 1 degrees of freedom (THEORY 4.7). */
es_grouped es_jackknife(double whole, const double *without, int64_t count)
{
    const double B = (double)count;
    double mean = 0.0, squares = 0.0;
    for (int64_t b = 0; b < count; b++)
        mean += without[b] / B;
    for (int64_t b = 0; b < count; b++)
        squares += (without[b] - mean) * (without[b] - mean);
    return (es_grouped){whole, count > 1 ? sqrt((B - 1.0) / B * squares) : (double)NAN, B - 1.0};
}

/* ---- many tests ---- */

/* A p-value with its place, for sorting. */
typedef struct ranked {
    double p;
    int64_t at; /* its place among those given */
} ranked;

/* Compares two tests by p-value, then by number, for qsort(). */
static int by_p(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->p != y->p ? (x->p > y->p) - (x->p < y->p) : (x->at > y->at) - (x->at < y->at);
}

/* Sorts the p-values; NaN marks a test that was not made and does not count. */
static es_status rank(const double *p, int64_t count, ranked *order, int64_t *tests, es_error *err)
{
    *tests = 0;
    for (int64_t i = 0; i < count; i++) {
        if (p[i] < 0.0 || p[i] > 1.0) {
            const es_status status = es_fail(err, ES_E_RANGE, "multiple.p", "0 to 1",
                                             "p-value %lld is %g", (long long)i, p[i]);
            if (err)
                err->row = i;
            return status;
        }
        if (!isnan(p[i]))
            order[(*tests)++] = (ranked){p[i], i};
    }
    if (*tests > 1)
        qsort(order, (size_t)*tests, sizeof *order, by_p);
    return ES_OK;
}

/* Holm's step-down correction: with p-values in rising order, p'_k = max over j <= k of (tests -
 * j) p_j, j from 0, at most 1. Controls the chance of any false rejection without assumptions on
 * dependence. */
es_status es_holm(const double *p, int64_t count, double *out, es_error *err)
{
    ranked *order;
    int64_t tests;
    ES_TRY(ES_MEM_NEW(NULL, order, count, "p-values", err));
    const es_status status = rank(p, count, order, &tests, err);
    if (status == ES_OK) {
        double most = 0.0;
        for (int64_t i = 0; i < count; i++)
            out[i] = p[i]; /* those that are none */
        for (int64_t i = 0; i < tests; i++) {
            most = fmax(most, fmin(1.0, (double)(tests - i) * order[i].p));
            out[order[i].at] = most;
        }
    }
    es_mem_free(NULL, order);
    return status;
}
