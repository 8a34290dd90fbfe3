/* SPDX-License-Identifier: Apache-2.0 */
/* gap_count.c : gap counting of one row of scores (gap_count.h). */
#include "theory/gap_count.h"

#include <math.h>

#include "stats/average.h"
#include "stats/special.h"

/* Between two gaps N(g) is constant and ln N(g)/g falls, so the supremum is attained at a gap, and
 * of equal gaps at the last, which counts them all. */
es_gap_count es_gap_count_of(double *scores, int64_t n, int64_t m)
{
    es_gap_count best = {.critical = (double)NAN, .gap = (double)NAN, .count = 0, .least = m};
    es_sort_reals(scores, n);
    for (int64_t j = m; j <= n; j++) {
        const double gap = scores[n - 1] - scores[n - j];
        if (j < n && scores[n - j - 1] == scores[n - j])
            continue;
        const double slope = gap > 0.0 ? log((double)j) / gap : INFINITY; /* gap may be -0 */
        if (!(slope <= best.critical)) {
            best.critical = slope;
            best.gap = gap;
            best.count = j;
        }
    }
    return best;
}

double es_gap_top_least(const es_gap_count *row, double b)
{
    if (!(b > row->critical))
        return 0.0;
    const double most = 1.0 / (1.0 - row->critical / b);
    return 1.0 / (row->least > 2 ? most + (double)row->least : most);
}

double es_gap_top_most(const es_gap_count *row, double b)
{
    if (!(b < row->critical))
        return 1.0;
    return pow((double)row->count, b / row->critical - 1.0);
}

double es_gap_power(double small, double large, double few, double n)
{
    const double ratio = large / small;
    return ratio > 0.0 && isfinite(ratio) ? log(ratio) / log(log(n) / log(few)) : (double)NAN;
}

double es_gap_typical(es_gap_score score, int64_t n, int64_t m)
{
    double most = 0.0, critical = 0.0;
    for (int64_t i = 1; i <= n; i++)
        most += 1.0 / (double)i;
    const double best = score(most);
    for (int64_t j = 2; j <= n; j++) {
        most -= 1.0 / (double)(j - 1);
        if (j >= m)
            critical = fmax(critical, log((double)j) / (best - score(most)));
    }
    return critical;
}

/* The quantile is for tails of at most a half, e >= ln 2; the other half is its mirror image. */
double es_gap_normal_score(double e)
{
    const double below = log(-expm1(-e));
    return e >= -below ? es_normal_tail_quantile(-e) : -es_normal_tail_quantile(below);
}

double es_gap_normal_power(int64_t few, int64_t n, int64_t m)
{
    return es_gap_power(es_gap_typical(es_gap_normal_score, few, m),
                        es_gap_typical(es_gap_normal_score, n, m), (double)few, (double)n);
}
