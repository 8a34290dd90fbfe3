/* sphere_spectrum.h : output moments of a head over tokens on a sphere. */
#ifndef ES_LIMIT_SPHERE_SPECTRUM_H
#define ES_LIMIT_SPHERE_SPECTRUM_H

#include <esscher/limit.h>

/*! es_sphere_spectrum() : eigenvalues lambda (count) of Cov Gamma(X), V = I, for X uniform on the
 *  sphere of radius R in R^q: lambda_i = R^2 sigma_i^2 E[T_i f(s)], where T ~ Dirichlet(1/2, ...,
 *  1/2) are the squared coordinates of X/R along the right singular vectors of A, s = sum sigma_k^2
 *  T_k and f(s) = A_q(R^2 sqrt s)^2 / s (THEORY.md 1.2). sigma (count), decreasing, are the
 *  singular values of A; the q - count others are 0. *error bounds the error of a lambda by the
 *  difference between the last two rules. */
es_status es_sphere_spectrum(const double *sigma, int64_t count, int64_t q, double R,
                             const es_exec *exec, double *lambda, double *error, es_error *err);

#endif
