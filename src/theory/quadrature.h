/* quadrature.h : nodes and weights. */
#ifndef ES_THEORY_QUADRATURE_H
#define ES_THEORY_QUADRATURE_H

#include <stdint.h>

/*! es_legendre() : the Gauss rule with `count` nodes x and weights w on [a, b]. */
void es_legendre(int count, double a, double b, double *x, double *w);

/*! es_chi_density() : density of |z|, z ~ N(0, I_d), at r > 0. */
double es_chi_density(double r, int64_t d);

#endif
