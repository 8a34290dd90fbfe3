/* bessel_unchecked.h : the functions of the sphere for callers that have checked d >= 1 and r >= 0.
 */
#ifndef ES_LAW_BESSEL_UNCHECKED_H
#define ES_LAW_BESSEL_UNCHECKED_H

#include <esscher/bessel.h>

/*! es_bessel_ratio_slope() : A_d(r) and A_d'(r), which share nearly all their work. */
void es_bessel_ratio_slope(int64_t dim, double r, es_num *ratio, es_num *slope);

/*! es_bessel_log() : K_d(r). */
es_num es_bessel_log(int64_t dim, double r);

#endif
