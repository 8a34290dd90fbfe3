/* SPDX-License-Identifier: Apache-2.0 */
/* linalg.h : the dense linear algebra that attention needs, on matrices of at most 4096 columns.
 *
 * Covariance of tokens, factors and roots of it, singular values, the spectral norm in which
 * horizons are stated (THEORY.md), random rotations. The work is done by BLAS and LAPACK in f64;
 * this layer adds what they leave to the caller:
 *
 *  - Input is an es_view: f32 or f64, any strides, so a transpose costs nothing to say. It is
 * looked at first, and NaN or Inf is refused with its row and column (ES_E_NONFINITE).
 *  - Output is plain row-major f64 that the caller has allocated. It may not overlap the input.
 *  - What rounding did is reported: the jitter a Cholesky factor needed, the eigenvalues a square
 *    root clipped, the error a norm may have. What rounding cannot explain is refused.
 *  - The same bits for any number of threads: BLAS runs on one thread inside these calls (and gets
 *    its own setting back afterwards), because its sums depend on how it splits them. They still
 *    depend on the CPU, whose kernels BLAS chooses.
 *
 *     es_num h;                                      |S^1/2 A S^1/2|, the horizon of a head
 *     es_sym_sqrt(&cov, 0, NULL, root, NULL, &err);
 *     ...
 *     es_norm_spectral(&product, NULL, &h, &err);    h.val, within h.err
 *
 * Every function is thread-safe, counts its scratch memory against `budget` (may be NULL), and may
 * return ES_E_ARGUMENT, ES_E_SHAPE, ES_E_EMPTY (a dimension is 0), ES_E_NONFINITE, ES_E_LIMIT or
 * ES_E_MEMORY; only what goes beyond that is listed below. d, m, n, k are dimensions.
 */
#ifndef ES_LINALG_LINALG_H
#define ES_LINALG_LINALG_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/view.h>
#include <esscher/status.h>

/* ---- products and moments ---- */

/*! es_mat_multiply() : out (m, n) = a (m, k) b (k, n). O(mkn).
 *  @return : ES_E_SHAPE if the inner dimensions differ; ES_E_OVERFLOW if the product does. */
es_status es_mat_multiply(const es_view *a, const es_view *b, es_mem_limit *budget, double *out,
                          es_error *err);

/*! es_cov_estimate() : mean (d), may be NULL, and covariance (d, d) of the rows of x (n, d). Two
 *  passes, centred in f64, so that a mean far from 0 costs no digits; the divisor is n, or n - 1 if
 *  `unbiased`. Exactly symmetric. O(n d^2) on exec->threads threads, O(d^2) memory.
 *  @return : ES_E_EMPTY if unbiased and n is 1; ES_E_OVERFLOW; ES_E_INTERRUPTED. */
es_status es_cov_estimate(const es_view *x, bool unbiased, const es_exec *exec, double *mean,
                          double *cov, es_error *err);

/* ---- symmetric matrices ----
 * Each function below takes a (d, d) that is symmetric up to the rounding of f32 files, and works
 * on its symmetric part (a + a')/2. */

/*! es_sym_check() : fails unless a is symmetric. *asymmetry (may be NULL) gets max |a - a'| / max
 *  |a|.
 *  @return : ES_E_SHAPE if a is not square; ES_E_NUMERIC with the position of the worst pair if the
 *  asymmetry is above 1e-6. `name` is how messages call the matrix. */
es_status es_sym_check(const es_view *a, const char *name, double *asymmetry, es_error *err);

/*! es_sym_eigen() : eigenvalues (d) in increasing order, and, unless NULL, vectors (d, d): row j is
 *  the unit eigenvector of values[j], so a = sum_j values[j] v_j v_j'. O(d^3).
 *  @return : ES_E_NUMERIC if LAPACK does not converge. */
es_status es_sym_eigen(const es_view *a, es_mem_limit *budget, double *values, double *vectors,
                       es_error *err);

/* The directions in which rows vary most. The caller sets the arrays it wants, NULL for others. */
typedef struct es_principal {
    double *axes;      /* (count, d) unit vectors; of each the element of largest magnitude, the
                          first of equal ones, is positive */
    double *variances; /* (count) along them, decreasing, with divisor n */
    double *scores;    /* (n, count) rows less their mean, along the axes */
    double total;      /* variance in all directions: what shares are shares of */
} es_principal;

/*! es_principal_find() : the first `count` principal components of the rows of x (n, d), from the
 *  eigenvectors of their covariance. Axes of equal variances are any basis of their plane. O(n d^2
 *  + d^3), O(d^2) memory.
 *  @return : ES_E_SHAPE (principal.count) unless 1 <= count <= d; as es_cov_estimate() and
 *  es_sym_eigen(). */
es_status es_principal_find(const es_view *x, int64_t count, const es_exec *exec, es_principal *out,
                            es_error *err);

/* What is "rounding" for a matrix that ought to be positive semidefinite: `tolerance` times its
 * mean eigenvalue trace/d. 0 stands for 64 d eps, right for a matrix computed in f64; one that
 * passed through f32 may need 1e-5. */

/*! es_chol_factor() : lower triangular l (d, d) with l l' = a + jitter I. jitter is 0 if that
 * works; else eps trace/d, growing by 4 as long as it stays rounding; *jitter (may be NULL) says
 * what was used. The zero matrix has the factor 0. O(d^3).
 *  @return : ES_E_NUMERIC, naming the smallest eigenvalue, if a is indefinite beyond rounding. */
es_status es_chol_factor(const es_view *a, double tolerance, es_mem_limit *budget, double *l,
                         double *jitter, es_error *err);

/* Which eigenvalues a square root took for 0. */
typedef struct es_clipped {
    int64_t count; /* eigenvalues below 0, all of them rounding */
    double most;   /* largest magnitude among them, 0 if none */
} es_clipped;

/*! es_sym_sqrt() : the symmetric positive semidefinite root (d, d), root root = a. *clipped may be
 *  NULL. O(d^3).
 *  @return : ES_E_NUMERIC, naming the smallest eigenvalue, if a is indefinite beyond rounding. */
es_status es_sym_sqrt(const es_view *a, double tolerance, es_mem_limit *budget, double *root,
                      es_clipped *clipped, es_error *err);

/* ---- any matrix ---- */

/*! es_svd_factor() : a (m, n) = u diag(s) vt with k = min(m, n): s (k) in decreasing order; u (m,
 * k) and vt (k, n), both NULL or both not. Every singular value is within *bound (may be NULL),
 * which is a few (m + n) eps s[0]. O(m n k).
 *  @return : ES_E_NUMERIC if LAPACK does not converge; ES_E_OVERFLOW if s[0] does. */
es_status es_svd_factor(const es_view *a, es_mem_limit *budget, double *s, double *u, double *vt,
                        double *bound, es_error *err);

/*! es_norm_spectral() : the largest singular value of a (m, n), whatever its rank. Small matrices
 * go through the SVD. Larger ones through Lanczos iteration, whose |a u| is a lower bound, and a
 *  Cholesky factor of t^2 I - a'a, which exists only if t is an upper one: err covers both and the
 *  rounding in between, so it holds even where the iteration missed the largest value. O(m k^2).
 *  @return : ES_E_NUMERIC if err stayed above 1e-6 val: *out is a valid bound even then;
 *  ES_E_OVERFLOW. */
es_status es_norm_spectral(const es_view *a, es_mem_limit *budget, es_num *out, es_error *err);

/*! es_qr_factor() : a (m, n), m >= n, as q (m, n) with orthonormal columns times r (n, n), upper
 *  triangular with a diagonal >= 0, which makes it unique for full rank. O(m n^2). */
es_status es_qr_factor(const es_view *a, es_mem_limit *budget, double *q, double *r, es_error *err);

/*! es_haar_make() : the orthogonal matrix q (d, d) in the QR factorisation of d*d independent
 * normals that the caller has drawn. With the sign of R fixed, q is uniform on O(d) (Haar);
 * without, it would not be.
 *  @return : ES_E_NUMERIC if the normals are not of full rank, which chance does not do. */
es_status es_haar_make(const double *normals, int64_t d, es_mem_limit *budget, double *q,
                       es_error *err);

#endif
