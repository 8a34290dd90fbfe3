/* SPDX-License-Identifier: Apache-2.0 */
/* rope.h : how far rotary positions let a query see.
 *
 * A rotary embedding turns pair j of a head's d dimensions by the angle (position) base^{-2j/d}. A
 * query and a key that are all ones then have, at distance D, the score
 *
 *     s(D) = (2/sqrt d) sum_{j < d/2} cos(D base^{-2j/d}),        s(0) = sqrt d,
 *
 * the attenuation that position alone imposes. For many dimensions the sum is an integral,
 *
 *     s(D) = sqrt d (Ci(D) - Ci(D/base))/ln base,
 *
 * which falls like the logarithm of D and first crosses zero near D_0 = 0.6165 base: for base 10^4
 * at 6165 tokens, the reach that Effective Long-Context Scaling of Foundation Models (arXiv
 * 2309.16039) found before it raised the base. (THEORY.md 8.) Two ways of going further:
 *
 *     position interpolation   distances are divided by a scale: s(D/scale)
 *     another base ("ABF")     base 500000 instead of 10000
 *
 * and what each costs: granularity, how far neighbouring positions are apart. All functions are
 * pure and thread-safe; where an argument makes no sense they return NaN.
 */
#ifndef ES_THEORY_ROPE_H
#define ES_THEORY_ROPE_H

#include <stdint.h>

/* One embedding: dim even and >= 2, base > 1, scale >= 1 (0: 1). */
typedef struct es_rope {
    int64_t dim;
    double base;
    double scale; /* of position interpolation: distances are divided by it */
} es_rope;

/*! es_rope_score() : s(D), the sum itself, for D >= 0. O(dim). To 1e-13 sqrt(dim), as far as the
 * angle D is known: beyond D = 10^8 or so the fastest pairs are noise. */
double es_rope_score(const es_rope *rope, double distance);

/*! es_rope_continuum() : the integral, to 1e-13 sqrt(dim). O(1). */
double es_rope_continuum(const es_rope *rope, double distance);

/*! es_rope_reach() : D_0, the first zero of the integral, to 1e-10 of itself; times the scale. It
 * is 0.6165 base to a part in base/2: the swings of Ci(D) move it by so much. */
double es_rope_reach(const es_rope *rope);

/*! es_rope_first_negative() : the first whole distance in [1, most] at which the sum is below 0; 0
 * if there is none. It oscillates around the integral with a standard deviation of about
 * sqrt(ln D/ln base), so it may be there long before D_0. O(dim) for each distance. */
int64_t es_rope_first_negative(const es_rope *rope, int64_t most);

/*! es_rope_granularity() : (2/d) sum_j sin(base^{-2j/d}/scale), how far the embeddings of
 * neighbouring positions turn, in the mean over pairs. */
double es_rope_granularity(const es_rope *rope);

/*! es_rope_granularity_limit() : the same as an integral, (Si(1/scale) - Si(1/(scale base)))/ln
 * base. */
double es_rope_granularity_limit(const es_rope *rope);

/*! es_cosine_integral(), es_sine_integral() : Ci(x) = gamma + ln x + int_0^x (cos t - 1)/t dt for x
 * > 0 and Si(x) = int_0^x sin t/t dt for x >= 0; absolute error below 4e-16 times the larger of 1
 * and the result. */
double es_cosine_integral(double x);
double es_sine_integral(double x);

#endif
