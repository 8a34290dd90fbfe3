/* SPDX-License-Identifier: Apache-2.0 */
/* gap_count.h : the inverse temperature at which attention over one row of scores becomes
 * selective, by counting the keys close to the best one (THEORY 21, after 2605.12697).
 *
 * Scores s_1 >= s_2 >= ... of one query, gaps g_j = s_1 - s_j, N(g) = #{j: g_j <= g}. At inverse
 * temperature b the sum is Z(b) = sum_j e^{-b g_j} and the largest weight is 1/Z(b). With
 *
 *     L_m = sup { ln N(g) / g : N(g) >= m }
 *
 * these bounds hold for every row and every n:
 *
 *     b > L_m:   Z(b) <= 1 / (1 - L_m/b) for m = 2, and at most m more otherwise        (G1)
 *     b < L_m:   Z(b) >= N(g*)^(1 - b/L_m), g* the gap that attains the supremum         (G2)
 *
 * L_2 is the critical inverse temperature of the row. A near tie of the two largest scores makes it
 * large without meaning; L_8 is the temperature at which groups of keys separate. */
#ifndef ES_THEORY_GAP_COUNT_H
#define ES_THEORY_GAP_COUNT_H

#include <stdint.h>

enum { ES_GAP_GROUP = 8 }; /* m of the critical temperature that is reported */

typedef struct es_gap_count {
    double critical; /* L_m; infinite if m keys share the largest score, NaN if n < m */
    double gap;      /* g* that attains it */
    int64_t count;   /* N(g*) */
    int64_t least;   /* m */
} es_gap_count;

/*! es_gap_count_of() : counts the gaps of finite scores (n), whose order changes. m >= 2.
 *  O(n log n) time at most, about O(n) where few keys are close to the supremum. Pure function. */
es_gap_count es_gap_count_of(double *scores, int64_t n, int64_t m);

/*! es_gap_top_least(), es_gap_top_most() : bounds (G1) and (G2) of the largest weight at inverse
 *  temperature b > 0: it is at least the one and at most the other. 0 and 1 where the theorem says
 *  nothing. */
double es_gap_top_least(const es_gap_count *row, double b);
double es_gap_top_most(const es_gap_count *row, double b);

/*! es_gap_power() : the power p with which a critical temperature grew, L ~ (ln n)^p, from `small`
 *  at `few` keys to `large` at n keys. NaN if either is infinite or zero. */
double es_gap_power(double small, double large, double few, double n);

/*! es_gap_typical() : L_m of n independent scores at their typical places (G3): the j-th largest is
 *  the score that a key exceeds with probability e^{-E_j}, with E_j = 1/j + ... + 1/n the mean of
 *  the j-th largest of n exponential variables. `score` returns the score for E. O(n). */
typedef double (*es_gap_score)(double exponential);
double es_gap_typical(es_gap_score score, int64_t n, int64_t m);

/*! es_gap_normal_score() : for es_gap_typical(): normal scores. es_gap_normal_power() : the power
 *  of ln n by which their L_m grows from `few` keys to n. */
double es_gap_normal_score(double exponential);
double es_gap_normal_power(int64_t few, int64_t n, int64_t m);

#endif
