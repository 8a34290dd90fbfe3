/* exponent.h : the inside of the local exponent.
 *
 *     exponent.c            one query's gaps
 *     exponent_queries.c    gaps from keys; many queries
 */
#ifndef ES_STATS_EXPONENT_H
#define ES_STATS_EXPONENT_H

#include <esscher/exponent.h>

/*! es_log_half_beta() : ln int_0^x (u(1-u))^{a-1} du for a > 0 and x in (0,1). Relative error of
 * the integral below 1e-13 for x <= 0.9 and a <= 500. */
double es_log_half_beta(double a, double x);

/*! es_exponent_default_k() : sqrt(n), at least 20, at most n/2. */
int64_t es_exponent_default_k(int64_t n);

#endif
