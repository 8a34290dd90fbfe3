/* SPDX-License-Identifier: Apache-2.0 */
/* weigh_text.h : the pass of weigh.h, as text to be compiled once per instruction set. The
 * including file defines ES_WEIGH, the function's name. Sums are taken in lanes, whose order is
 * fixed. */
#include "stats/weigh.h"

#include "random/elementary.h"

enum { LANES = 8 };

/* Computes w = exp(scores - most) without branches; below -708 the result is 0. */
static void exp_row(const double *scores, double most, int64_t n, double *w)
{
    for (int64_t j = 0; j < n; j++) {
        const double s = scores[j] - most, in = s < -708.0 ? -708.0 : s, e = es_exp_normal(in);
        w[j] = s < -708.0 ? 0.0 : e;
    }
}

/* Computes the softmax numerators of a row and returns their sum, added in LANES lanes in a fixed
 * order. */
double ES_WEIGH(const double *scores, double most, int64_t n, double *w)
{
    double lane[LANES] = {0}, sum = 0.0;
    int64_t j = 0;
    exp_row(scores, most, n, w);
    for (; j + LANES <= n; j += LANES)
        for (int64_t l = 0; l < LANES; l++)
            lane[l] += w[j + l];
    for (int64_t l = 0; l < LANES; l++)
        sum += lane[l];
    for (; j < n; j++)
        sum += w[j];
    return sum;
}
