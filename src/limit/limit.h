/* SPDX-License-Identifier: Apache-2.0 */
/* limit.h : what attention does to infinitely many tokens.
 *
 * A head with score matrix A and value matrix V, shown n tokens y_1..y_n of a law, answers a query
 * x with a softmax average. As n grows that average becomes
 *
 *     Gamma(x) = V grad K(A x),      K(t) = ln E exp<t, Y>,
 *
 * the mean of the tokens after an exponential tilt by t = A x (Esscher's transform). For most laws
 * of law.h K is a closed form, so the limit needs no sample at all; what is an average over a
 * sample says so, with its standard error.
 *
 *     es_law sphere = {.kind = ES_LAW_SPHERE, .dim = 3, .size = 1.0};
 *     double grad[3];
 *     es_log_mgf out = {.grad = grad};
 *     es_limit_log_mgf(&sphere, t, NULL, &out, &err);      out.val.val within out.val.err
 *
 * A law is Y = mean + B Z, for mixtures and empirical laws too: their parts or points make Z. Then
 * K_Y(t) = K_Z(B't) + <mean, t>.
 *
 * Matrices are row-major f64. Every function is thread-safe, keeps its scratch memory within the
 * caller's budget, and may return what es_law_check() does, ES_E_NONFINITE for NaN or Inf in an
 * argument, ES_E_OVERFLOW if a result does not fit, ES_E_MEMORY and ES_E_LIMIT; only what goes
 * beyond that is listed below.
 */
#ifndef ES_LIMIT_LIMIT_H
#define ES_LIMIT_LIMIT_H

#include "law/bessel.h"
#include <esscher/exec.h>
#include <esscher/view.h>

#include "law/law.h"

/* ---- the log-MGF of a law ---- */

/* K and its derivatives at one t. The caller sets grad and hess to arrays, or NULL. */
typedef struct es_log_mgf {
    es_num val;        /* K(t) */
    double *grad;      /* (dim) tilted mean */
    double grad_error; /* bound on the Euclidean norm of its error */
    double *hess;      /* (dim, dim) tilted covariance */
    double hess_error; /* bound on the error of an element */
} es_log_mgf;

/*! es_limit_log_mgf() : K, grad K and Hess K of the law at t (dim). O(dim^2), O(dim^3) if hess is
 *  asked for and the law has a factor; times the parts of a mixture; O(N dim), or O(N dim^2) with
 *  hess, for N points. Errors are first-order bounds on rounding.
 *  @return : ES_E_RANGE where K is infinite: Student's t for every t != 0 and, because the tilt is
 *  undefined, for t = 0 as well; laws with exponential tails, such as
 *  Laplace, unless size |(B't)_i| < 1 for all i. */
es_status es_limit_log_mgf(const es_law *law, const double *t, es_mem_limit *budget,
                           es_log_mgf *out, es_error *err);

/* N(mean, sd^2) given that it lies in [low, high], on the line. */
typedef struct es_truncated {
    double mean, sd, low, high;
} es_truncated;

/*! es_limit_truncated() : K(t), K'(t), K''(t) of a truncated normal into out[0..3).
 *  @return : ES_E_RANGE unless sd > 0 and low < high. */
es_status es_limit_truncated(const es_truncated *law, double t, es_num out[3], es_error *err);

/* ---- the limit map ---- */

/* A head as the limit uses it. */
typedef struct es_limit_head {
    const double *A; /* (dim, dim) scores x'A'y, scale included; NULL: identity */
    const double *V; /* (dv, dim) values; NULL: identity, and dv is dim */
    int64_t dv;
} es_limit_head;

/*! es_limit_map() : out (m, dv), row i being Gamma(x_i) for row i of x (m, dim); log_mgf (m) gets
 *  K(A x_i), error (m) a bound on the Euclidean error of row i; both may be NULL. Rows are shared
 *  out to exec->threads threads. O(dim^2) a row, O(N dim) for an empirical law.
 *  @return : ES_E_SHAPE; as es_limit_log_mgf(), err->row naming the query. */
es_status es_limit_map(const es_law *law, const es_limit_head *head, const es_view *x,
                       const es_exec *exec, double *out, es_num *log_mgf, double *error,
                       es_error *err);

/* ---- moments ---- */

/*! es_limit_token_moments() : mean (dim), covariance (dim, dim) of one token; either may be NULL.
 *  They are grad K(0) and Hess K(0), and of Student's t what its density says.
 *  @return : ES_E_RANGE if they are infinite (freedom <= 1 for the mean, <= 2 for the covariance).
 */
es_status es_limit_token_moments(const es_law *law, es_mem_limit *budget, double *mean, double *cov,
                                 es_error *err);

/* How a limit was computed, which says what its error is. */
typedef enum es_limit_method {
    ES_LIMIT_EXACT = 1,      /* a closed form, or a sum over all points: errors are rounding */
    ES_LIMIT_QUADRATURE = 2, /* errors are differences between two rules, the finer one taken */
    ES_LIMIT_SAMPLED = 3     /* errors are standard errors */
} es_limit_method;

/* How the moments were found and how far off an element may be. */
typedef struct es_limit_accuracy {
    es_limit_method method;
    double mean, cov;
} es_limit_accuracy;

/*! es_limit_method_name() : "exact", "quadrature", "sampled". */
const char *es_limit_method_name(es_limit_method method);

/*! es_limit_moments() : mean (dv) and covariance (dv, dv) of Gamma(X) for a query X that is itself
 *  a token. In closed form for the Gaussian; as a sum for an empirical law, O(N^2 dim); by
 *  quadrature for the sphere and the ball around 0 in any dimension (also with a factor) and, for
 *  dim 1, for every law whose Gamma is finite. Any other law needs `points` (m, dim), m >= 2:
 *  independent draws from the law, e.g. from tokens.h, over which Gamma is averaged; the divisor of
 *  the covariance is then m - 1. `points` may be NULL and is not looked at where it is not needed.
 *  O(dim^3), quadrature on exec->threads threads O(dim) times a constant more, m maps.
 *  @return : ES_E_UNSUPPORTED if points are needed and not given; ES_E_RANGE for laws that
 *  are not ES_LAW_ENTIRE, whose Gamma is infinite with positive probability. */
es_status es_limit_moments(const es_law *law, const es_limit_head *head, const es_view *points,
                           const es_exec *exec, double *mean, double *cov,
                           es_limit_accuracy *accuracy, es_error *err);

#endif
