/* SPDX-License-Identifier: Apache-2.0 */
/* weigh.h : softmax weights of a row of scores in f64, by vector code with the same bits on every
 * machine (random/elementary.h). */
#ifndef ES_STATS_WEIGH_H
#define ES_STATS_WEIGH_H

#include <stdint.h>

/*! es_cap_scores() : each score s becomes cap tanh(s / cap); a cap of 0 leaves them. O(n). */
void es_cap_scores(double cap, int64_t n, double *scores);

/*! es_weigh() : w (n) of sum 1, proportional to e^scores; n > 0, and one score above -inf. Weights
 *  below e^-708 of the largest are 0. w may be scores. */
void es_weigh(const double *scores, int64_t n, double *w);

/*! es_weigh_sink() : returns the weight of a sink of logit `sink` beside weights w (n) of keys that
 *  sum to 1: e^(sink - lse); 0 for -inf. es_weigh_beside() : w (n) as es_weigh(), divided by 1 plus
 *  that weight, so that the sink has the rest to 1. */
double es_weigh_sink(double sink, const double *scores, int64_t n, const double *w);
void es_weigh_beside(double sink, const double *scores, int64_t n, double *w);

/* w = e^{scores - most}; their sum. */
typedef double es_weigh_fn(const double *scores, double most, int64_t n, double *w);
es_weigh_fn es_weigh_portable, es_weigh_avx2;

#endif
