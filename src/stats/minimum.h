/* minimum.h : the minimum of a function of one variable. */
#ifndef ES_STATS_MINIMUM_H
#define ES_STATS_MINIMUM_H

typedef double (*es_objective)(const void *context, double t);

/*! es_minimum() : by golden section on [low, high], where f has one minimum; `steps` evaluations
 * shrink the interval by 0.618 each. What can be reached is the square root of f's rounding. */
double es_minimum(es_objective f, const void *context, double low, double high, int steps);

#endif
