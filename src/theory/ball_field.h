/* SPDX-License-Identifier: Apache-2.0 */
/* ball_field.h : how far attention over n tokens is from its limit, at every query of a ball.
 *
 * sqrt(n) (Gamma_n - Gamma) tends to a Gaussian field, whose size at x is known for every law, and
 * whose growth for Gaussian tokens is half of the exponent that the papers' bound C(R) has (Token
 * Sample Complexity of Attention; THEORY.md section 3). ball.h measures the same.
 *
 * Matrices are row-major f64. Every function is thread-safe.
 */
#ifndef ES_THEORY_BALL_FIELD_H
#define ES_THEORY_BALL_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/view.h>

#include "head/head.h"
#include "law/law.h"

/* The field at one query, s = Ax. */
typedef struct es_ball_point {
    double log_mse; /* ln lim n E|Gamma_n(x) - Gamma(x)|^2; Inf where e^{2<s,Y>} has no mean */
    double log_ess; /* ln D, D = e^{K(2s) - 2K(s)}: n/D tokens are what the softmax sees */
    double entropy; /* <2s, K'(2s)> - K(2s): relative entropy of the law tilted by 2s. The tokens
                       that make the error's variance are of that law; n e^-entropy of n are */
} es_ball_point;

/*! es_ball_point_at() : the field at x (dim), for every law whose K is finite at Ax:
 *     n MSE = D tr V [K''(2s) + (K'(2s) - K'(s)) (K'(2s) - K'(s))'] V',
 *  for Gaussian tokens e^{q^2} (tr VSV' + |VSAx|^2), q^2 = x'A'SAx. A (dim, dim) and V (dv, dim)
 *  are written out, see es_head_write(). Costs two log-MGF of limit.h and O(dv dim^2).
 *  @return : ES_OK; as es_limit_log_mgf(). */
es_status es_ball_point_at(const es_law *law, const double *A, const double *V, int64_t dv,
                           const double *x, es_mem_limit *budget, es_ball_point *out,
                           es_error *err);

/*! es_ball_directions() : the queries a head is most sensitive to: row k of vectors (dim, dim) is
 *  the right singular vector of S^{1/2}A with singular value values[k], decreasing; S is the
 *  covariance of the law. O(dim^3).
 *  @return : ES_OK; as es_limit_token_moments() and es_svd_factor(). */
es_status es_ball_directions(const es_law *law, const double *A, es_mem_limit *budget,
                             double *values, double *vectors, es_error *err);

/* What theory expects on one ball. */
typedef struct es_ball_constant {
    double rms;     /* largest sqrt(n MSE(x)) on the ball. sqrt(n) times the root mean square of
                       the supremum is at least this, its mean at least sqrt(2/pi) of it */
    double radius;  /* |x| where it is */
    double entropy; /* largest met on the ball; 2 R^2 H1^2 for Gaussian tokens */
} es_ball_constant;

/*! es_ball_predict() : constants (n_radii) of the balls of increasing radii > 0. The maximum is
 *  searched along the leading singular directions and, for Gaussian tokens in every dimension and
 *  for other laws in at most 64, improved by ascent; from ball to ball it does not decrease. A
 *  maximum elsewhere may be missed: `rms` is then a lower bound of itself. Milliseconds; up to a
 *  second a radius for laws without closed gradient in 64 dimensions.
 *  @return : ES_OK; ES_E_RANGE for a radius that is not positive and finite, or not above the one
 *  before, and where the law has no limit; as es_head_write() and es_limit_log_mgf(). */
es_status es_ball_predict(const es_law *law, const es_head *head, const double *radii,
                          int64_t n_radii, es_mem_limit *budget, es_ball_constant *out,
                          es_error *err);

/*! es_ball_saturated() : returns whether n is too small for the constant to be visible. True unless
 *  e^entropy <= 0.05 n, for Gaussian tokens e^{2 R^2 H1^2} <= 0.05 n: a sample must hold some of
 *  the tokens that make the variance. Beyond, the supremum stops growing with R: freezing, not
 *  failure. */
bool es_ball_saturated(const es_ball_constant *constant, double n);

/*! es_ball_sup() : lim sqrt(n) E sup in one or two dimensions: 4096 draws of the limit field on a
 *  grid of the ball, with the standard error of their mean. The grid's gaps make it some 0.5 % low
 *  for Gaussian tokens with H1 R up to 3. Draws are a function of the seed. 10 to 100 milliseconds.
 *  @return : ES_OK; ES_E_UNSUPPORTED for more than 2 dimensions; ES_E_RANGE as es_ball_predict(),
 *  and where the field has no variance; ES_E_NUMERIC if its covariance is too ill-conditioned. */
es_status es_ball_sup(const es_law *law, const es_head *head, double R, uint64_t seed,
                      es_mem_limit *budget, es_num *out, es_error *err);

/*! es_ball_line() : (2/sqrt(pi)) sqrt(v) e^{q^2/2} sqrt(1+q^2), v the variance V S V' of a value:
 *  sqrt(n) E sup in one dimension, Gaussian tokens, q = H1 R, if the two ends of [-R, R] were
 *  independent and the rest did not matter; both become true as q grows. NaN unless q >= 0, v >= 0.
 */
double es_ball_line(double q, double v);

#endif
