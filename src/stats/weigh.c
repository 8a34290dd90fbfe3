/* SPDX-License-Identifier: Apache-2.0 */
/* weigh.c : softmax weights of a row of scores in double precision, by the fastest kernel of this
 * CPU; all give the same bits. */
#define ES_WEIGH es_weigh_portable
#include "stats/weigh_text.h"

#include <math.h>

#include <esscher/exec.h>

void es_cap_scores(double cap, int64_t n, double *scores)
{
    for (int64_t j = 0; j < n && cap > 0.0; j++)
        scores[j] = cap * tanh(scores[j] / cap);
}

void es_weigh(const double *scores, int64_t n, double *w)
{
    double most = scores[0];
    for (int64_t j = 1; j < n; j++)
        most = scores[j] > most ? scores[j] : most;
    es_weigh_fn *const fn = es_isa_available(ES_ISA_AVX2) ? es_weigh_avx2 : es_weigh_portable;
    const double sum = fn(scores, most, n, w);
    for (int64_t j = 0; j < n; j++)
        w[j] /= sum;
}

/* The weight is e^(sink - s_j) w_j for any key j. The largest score is safe; a sink so far above it
 * that e^x overflows has all of the weight either way. */
double es_weigh_sink(double sink, const double *scores, int64_t n, const double *w)
{
    int64_t top = 0;
    if (sink == -(double)INFINITY)
        return 0.0;
    for (int64_t j = 1; j < n; j++)
        top = scores[j] > scores[top] ? j : top;
    return exp(fmin(sink - scores[top], 700.0)) * w[top];
}

void es_weigh_beside(double sink, const double *scores, int64_t n, double *w)
{
    es_weigh(scores, n, w);
    const double rest = es_weigh_sink(sink, scores, n, w);
    for (int64_t j = 0; j < n && rest > 0.0; j++)
        w[j] /= 1.0 + rest;
}
