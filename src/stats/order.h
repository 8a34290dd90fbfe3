/* order.h : numbers in order, and the one in the middle. */
#ifndef ES_STATS_ORDER_H
#define ES_STATS_ORDER_H

#include <stdint.h>

/*! es_sort_reals() : increasing; there must be no NaN among them. */
void es_sort_reals(double *values, int64_t count);

/*! es_median_of() : of values that are in order, the mean of the middle two where their number is
 *  even; NaN of none. */
double es_median_of(const double *sorted, int64_t count);

#endif
