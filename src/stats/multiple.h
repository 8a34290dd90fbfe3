/* SPDX-License-Identifier: Apache-2.0 */
/* multiple.h : do two measurements differ, and which of many do?
 *
 * A measurement that comes with a standard error from few groups is compared by Welch's t: its
 * error is itself uncertain, and the t law is wider by as much. Among many pairs some p are below
 * 0.01 by chance; es_holm() turns p-values into ones that hold for all of them together: calling
 * "different" what is at most 0.01 afterwards is wrong anywhere at all with probability 0.01 at
 * most, however the tests depend on each other (Holm 1979).
 *
 *     for (i = 0; i < heads; i++)
 *         p[i] = es_welch(a[i], b[i]).p;
 *     es_holm(p, heads, p, &err);
 *
 * All functions are pure and thread-safe.
 */
#ifndef ES_STATS_MULTIPLE_H
#define ES_STATS_MULTIPLE_H

#include <stdint.h>

#include <esscher/status.h>

/* A value with the standard error that `freedom` + 1 groups give it. */
typedef struct es_grouped {
    double value, se, freedom;
} es_grouped;

/* Welch's test of the difference of two means. */
typedef struct es_welch_test {
    double t;       /* difference a - b over its standard error */
    double freedom; /* of t, by Welch and Satterthwaite */
    double p;       /* two-sided */
} es_welch_test;

/*! es_welch() : tests whether a and b, independent of each other, have the same expectation. All
 *  NaN where an input is not finite or there is no error at all to compare with. */
es_welch_test es_welch(es_grouped a, es_grouped b);

/*! es_jackknife() : `whole` with the error that leaving out one group at a time gives it:
 *  se^2 = (B - 1)/B sum (x_b - mean x)^2, x = without (count), the B estimates without a group,
 * groups being alike in size. freedom is B - 1. An estimate that is no mean should be brought to a
 *  scale on which it is nearly one, such as its logarithm. se is NaN for fewer than 2 groups. */
es_grouped es_jackknife(double whole, const double *without, int64_t count);

/*! es_holm() : out (count) are the p-values p (count) corrected for their number, by Holm: of the
 *  i-th smallest of m, the largest of (m - j + 1) p_(j), j <= i, at most 1. `out` may be `p`. NaN
 *  is a test that was not carried out: it is not counted, and stays. O(count ln count).
 *  @return : ES_OK; ES_E_RANGE (multiple.p), with err->row, for a p outside [0, 1]; ES_E_MEMORY. */
es_status es_holm(const double *p, int64_t count, double *out, es_error *err);

#endif
