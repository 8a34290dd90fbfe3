/* quadrature.h : integrals of smooth functions. */
#ifndef ES_THEORY_QUADRATURE_H
#define ES_THEORY_QUADRATURE_H

typedef double (*es_integrand)(const void *context, double t);

/*! es_integrate() : over [low, high] in `panels` equal panels of 16 Gauss points. Exact to rounding
 * where the function is a polynomial of degree 31 on a panel; the caller knows how many panels
 * his function needs for that to be nearly so. */
double es_integrate(es_integrand f, const void *context, double low, double high, int panels);

#endif
