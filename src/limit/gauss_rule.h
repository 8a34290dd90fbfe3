/* gauss_rule.h : Gauss rules: probability laws on the line, made of a few weighted points. */
#ifndef ES_LIMIT_GAUSS_RULE_H
#define ES_LIMIT_GAUSS_RULE_H

#include <esscher/limit.h>

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

#endif
