/* SPDX-License-Identifier: Apache-2.0 */
/* quadrature.h : integrals of smooth functions, and the nodes and weights to take them oneself. */
#ifndef ES_THEORY_QUADRATURE_H
#define ES_THEORY_QUADRATURE_H

#include <stdint.h>

typedef double (*es_integrand)(const void *context, double t);

/*! es_integrate() : over [low, high] in `panels` equal panels of 16 Gauss points. Exact to rounding
 * where the function is a polynomial of degree 31 on a panel; the caller knows how many panels
 * his function needs for that to be nearly so. */
double es_integrate(es_integrand f, const void *context, double low, double high, int panels);

/*! es_legendre() : the Gauss rule with `count` nodes x and weights w on [a, b]. */
void es_legendre(int count, double a, double b, double *x, double *w);

/*! es_chi_density() : density of |z|, z ~ N(0, I_d), at r > 0. */
double es_chi_density(double r, int64_t d);

#endif
