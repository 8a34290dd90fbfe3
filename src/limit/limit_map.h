/* SPDX-License-Identifier: Apache-2.0 */
/* limit_map.h : what the files of the limit map and its moments share: the checked map, the line,
 * Gauss rules (laws made of a few weighted points), output moments over tokens on a sphere. */
#ifndef ES_LIMIT_LIMIT_MAP_H
#define ES_LIMIT_LIMIT_MAP_H

#include "limit/limit.h"

/*! es_limit_check() : es_law_check(), and a head whose matrices are finite. */
es_status es_limit_check(const es_law *law, const es_limit_head *head, es_error *err);

/*! es_limit_dv() : channels of the output. */
int64_t es_limit_dv(const es_law *law, const es_limit_head *head);

/*! es_limit_rows() : es_limit_map() after es_limit_check(). */
es_status es_limit_rows(const es_law *law, const es_limit_head *head, const es_view *x,
                        const es_exec *exec, double *out, es_num *log_mgf, double *error,
                        es_error *err);

/*! es_limit_line() : mean and variance of K'(a X), X of a law on the line, by Gauss rules of more
 *  and more points. Errors are the change by the last refinement. */
es_status es_limit_line(const es_law *law, double a, const es_exec *exec, es_num *mean,
                        es_num *variance, es_error *err);

/*! es_gauss_rule() : the rule whose Jacobi matrix has diagonal `node` (n) and off-diagonal `off`
 *  (n, the last one unused), by the QL iteration of Golub and Welsch. On return node holds the
 *  points, weight (n) the weights, which sum to 1; off is spent. O(n^2).
 *  LAPACK would compute n^2 eigenvector elements of which one row is used, and is not called from
 *  parallel units.
 *  @return : ES_E_NUMERIC if the iteration does not converge. */
es_status es_gauss_rule(int n, double *node, double *off, double *weight, es_error *err);

/*! es_gauss_beta() : the n-point rule of the law Beta(a, b) on [0, 1]; Beta(1, 1) is uniform. off
 *  (n) is scratch. */
es_status es_gauss_beta(double a, double b, int n, double *node, double *off, double *weight,
                        es_error *err);

/*! es_gauss_compress() : the Gauss rule of at most n points for the law with `count` points x and
 *  weights w, by Lanczos with full reorthogonalisation: moments up to degree 2n-1 are kept. `basis`
 *  (n + 1, count) and off (n) are scratch. *out_n < n if the law has fewer points. O(count n^2). */
es_status es_gauss_compress(const double *x, const double *w, int64_t count, int n, double *basis,
                            double *off, double *node, double *weight, int *out_n, es_error *err);

/*! es_sphere_spectrum() : eigenvalues lambda (count) of Cov Gamma(X), V = I, for X uniform on the
 *  sphere of radius R in R^q: lambda_i = R^2 sigma_i^2 E[T_i f(s)], where T ~ Dirichlet(1/2, ...,
 *  1/2) are the squared coordinates of X/R along the right singular vectors of A, s = sum sigma_k^2
 *  T_k and f(s) = A_q(R^2 sqrt s)^2 / s (THEORY.md 1.2). sigma (count), decreasing, are the
 *  singular values of A; the q - count others are 0. *error bounds the error of a lambda by the
 *  difference between the last two rules. */
es_status es_sphere_spectrum(const double *sigma, int64_t count, int64_t q, double R,
                             const es_exec *exec, double *lambda, double *error, es_error *err);

#endif
