/* SPDX-License-Identifier: Apache-2.0 */
/* gap_count.c : gap counting of one row of scores (gap_count.h). */
#include "theory/gap_count.h"

#include <math.h>
#include <stdbool.h>

#include "stats/average.h"
#include "stats/special.h"

enum {
    BUCKETS = 64, /* of equal width, over the range of the gaps */
    FEW = 64      /* up to this many scores are sorted at once */
};

/* Scores in buckets by their gap. */
typedef struct buckets {
    double most, factor;         /* the largest score; buckets per gap, 0: all in the first */
    int64_t before[BUCKETS + 1]; /* scores in the buckets below this one */
    bool wanted[BUCKETS];        /* may hold the supremum */
} buckets;

/* Returns the bucket of a score. Equal scores are in one bucket, larger ones in none above it. */
static int bucket_of(const buckets *b, double score)
{
    return b->factor > 0.0 ? (int)((b->most - score) * b->factor) : 0;
}

/* Counts the scores (n) of each bucket. */
static void fill(buckets *b, const double *scores, int64_t n)
{
    double least = scores[0];
    b->most = scores[0];
    for (int64_t i = 1; i < n; i++) {
        b->most = scores[i] > b->most ? scores[i] : b->most;
        least = scores[i] < least ? scores[i] : least;
    }
    const double factor = BUCKETS * (1.0 - 1e-9) / (b->most - least);
    b->factor = n > FEW && isfinite(factor) ? factor : 0.0;
    for (int64_t i = 0; i < n; i++)
        b->before[bucket_of(b, scores[i]) + 1]++;
    for (int i = 0; i < BUCKETS; i++)
        b->before[i + 1] += b->before[i];
}

/* Marks the buckets that may hold the supremum. Bucket i has gaps from i to i + 1 widths, so that
 * ln N(g)/g is at least ln before[i+1]/((i+1) widths) at its end and at most ln before[i+1]/(i
 * widths) inside. 1e-9 is far above the rounding of both. */
static void mark(buckets *b, int64_t m)
{
    double most[BUCKETS] = {INFINITY}, least = 0.0;
    for (int i = 0; i < BUCKETS && b->factor > 0.0; i++) {
        const double slope = log((double)b->before[i + 1]) * b->factor;
        if (b->before[i + 1] >= m)
            least = fmax(least, slope / (i + 1));
        if (i > 0)
            most[i] = slope / i;
    }
    for (int i = 0; i < BUCKETS; i++)
        b->wanted[i] = b->before[i + 1] > b->before[i] && most[i] >= least * (1.0 - 1e-9);
}

/* Moves the scores of the marked buckets to the front, and returns how many they are. */
static int64_t gather(const buckets *b, double *scores, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const double score = scores[i];
        if (!b->wanted[bucket_of(b, score)])
            continue;
        scores[i] = scores[count];
        scores[count++] = score;
    }
    return count;
}

/* Between two gaps N(g) is constant and ln N(g)/g falls, so the supremum is attained at a gap, and
 * of equal gaps at the last, which counts them all. Only the scores of buckets that may hold it are
 * sorted: with 512 normal scores that is five times as fast as sorting all, with the same bits. */
es_gap_count es_gap_count_of(double *scores, int64_t n, int64_t m)
{
    es_gap_count best = {.critical = (double)NAN, .gap = (double)NAN, .count = 0, .least = m};
    buckets b = {0};
    if (n < m)
        return best;
    fill(&b, scores, n);
    mark(&b, m);
    const int64_t count = gather(&b, scores, n);
    es_sort_reals(scores, count);
    int64_t j = 0;
    int bucket = -1;
    for (int64_t i = count - 1; i >= 0; i--) {
        const int own = bucket_of(&b, scores[i]);
        j = own == bucket ? j + 1 : b.before[own] + 1;
        bucket = own;
        if (j < m || (i > 0 && scores[i - 1] == scores[i]))
            continue;
        const double gap = b.most - scores[i];
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
