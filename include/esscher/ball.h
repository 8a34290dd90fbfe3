/* ball.h : attention over n tokens against its limit, at the worst query of a ball.
 *
 * Gamma_n(x) is a head's output at query x over n tokens, Gamma(x) its limit (limit.h). The papers
 * bound
 *
 *     sup over |x| <= R of |Gamma_n(x) - Gamma(x)|   by   C(R) / sqrt(n),
 *
 * with a C(R) that grows like exp(R^2 H1^2), H1 = |S^{1/2} A|. (Token Sample Complexity of
 * Attention; THEORY.md section 3.) The first half of this header is what one should see: sqrt(n)
 * (Gamma_n - Gamma) tends to a Gaussian field, whose size at x is known for every law, and whose
 * growth for Gaussian tokens is half of the bound's exponent. The second half measures.
 *
 *     es_ball *ball;
 *     es_ball_new(&spec, &ball, &err);
 *     es_ball_replicates(ball, 0, 100, cells, &err);     cells (100, sizes, radii)
 *     es_ball_free(ball);
 *
 * The supremum is found by ascent from many starts, so what is measured is a lower bound of it:
 * exact where the field has few maxima (low dimension), the best of those found elsewhere.
 *
 * Matrices are row-major f64. Every function is thread-safe.
 */
#ifndef ESSCHER_BALL_H
#define ESSCHER_BALL_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/experiment.h>
#include <esscher/law.h>
#include <esscher/theory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- theory: the limit field ---- */

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
ES_API es_status es_ball_point_at(const es_law *law, const double *A, const double *V, int64_t dv,
                                  const double *x, es_budget *budget, es_ball_point *out,
                                  es_error *err);

/*! es_ball_directions() : the queries a head is most sensitive to: row k of vectors (dim, dim) is
 *  the right singular vector of S^{1/2}A with singular value values[k], decreasing; S is the
 *  covariance of the law. O(dim^3).
 *  @return : ES_OK; as es_limit_token_moments() and es_svd_factor(). */
ES_API es_status es_ball_directions(const es_law *law, const double *A, es_budget *budget,
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
ES_API es_status es_ball_predict(const es_law *law, const es_head *head, const double *radii,
                                 int64_t n_radii, es_budget *budget, es_ball_constant *out,
                                 es_error *err);

/*! es_ball_saturated() : is n too small for the constant to show? True unless e^entropy <= 0.05 n,
 *  for Gaussian tokens e^{2 R^2 H1^2} <= 0.05 n: a sample must hold some of the tokens that make
 *  the variance. Beyond, the supremum stops growing with R: freezing, not failure. */
ES_API bool es_ball_saturated(const es_ball_constant *constant, double n);

/*! es_ball_sup() : lim sqrt(n) E sup in one or two dimensions: 4096 draws of the limit field on a
 *  grid of the ball, with the standard error of their mean. The grid's gaps make it some 0.5 % low
 *  for Gaussian tokens with H1 R up to 3. Draws are a function of the seed. 10 to 100 milliseconds.
 *  @return : ES_OK; ES_E_UNSUPPORTED for more than 2 dimensions; ES_E_RANGE as es_ball_predict(),
 *  and where the field has no variance; ES_E_NUMERIC if its covariance is too ill-conditioned. */
ES_API es_status es_ball_sup(const es_law *law, const es_head *head, double R, uint64_t seed,
                             es_budget *budget, es_num *out, es_error *err);

/*! es_ball_line() : (2/sqrt(pi)) sqrt(v) e^{q^2/2} sqrt(1+q^2), v the variance V S V' of a value:
 *  sqrt(n) E sup in one dimension, Gaussian tokens, q = H1 R, if the two ends of [-R, R] were
 *  independent and the rest did not matter; both become true as q grows. NaN unless q >= 0, v >= 0.
 */
ES_API double es_ball_line(double q, double v);

/* ---- measurement ---- */

enum { ES_BALL_TOKENS = ES_EXPERIMENT_BALL, ES_BALL_STARTS = ES_EXPERIMENT_BALL + 1 };

typedef struct es_ball_spec {
    const es_law *law;
    const es_head *head;
    const int64_t *sizes; /* (n_sizes) n_1 < n_2 < ...: prefixes of one sample */
    int64_t n_sizes;
    const double *radii; /* (n_radii) 0 < R_1 < R_2 < ... */
    int64_t n_radii;
    int64_t starts; /* random starts beside those the head and the tokens suggest; 0: 4 */
    uint64_t seed;
    const es_exec *exec; /* NULL: all threads, no limits */
} es_ball_spec;

/* One replicate at one n and R. */
typedef struct es_ball_cell {
    double sup;    /* largest |Gamma_n(x) - Gamma(x)| found, not decreasing in R */
    double radius; /* |x| where it is: R, or less if the maximum is inside */
} es_ball_cell;

/* The question, checked, and what is computed once: matrices, directions, a sampler. */
typedef struct es_ball es_ball;

/*! es_ball_new() : everything `spec` points to must outlive the ball. O(dim^3).
 *  @return : ES_OK; ES_E_ARGUMENT if a pointer is NULL or sizes or radii do not increase;
 * ES_E_EMPTY for an empty grid; ES_E_RANGE for a radius that is not positive and finite, n < 1,
 * starts < 0, and where the law has no limit: Student's t, or Laplace where the ball reaches too
 * far; as es_head_write(), es_sampler_new() and es_ball_directions(). On failure *out is NULL. */
ES_API es_status es_ball_new(const es_ball_spec *spec, es_ball **out, es_error *err);

/*! es_ball_free() : NULL is fine. */
ES_API void es_ball_free(es_ball *ball);

/*! es_ball_replicates() : replicates first .. first+count-1 into out (count, n_sizes, n_radii),
 *  shared out to the threads of spec->exec. A replicate is a pure function of (seed, its number):
 *  tokens stand at experiment ES_BALL_TOKENS, cell = replicate. An evaluation of the error and its
 *  gradient costs about 8 n dim operations and n exponentials; a supremum takes 50 (dim 1) to 400
 * (dim 20).
 *  @return : ES_OK; ES_E_ARGUMENT, ES_E_RANGE for numbers below 0; ES_E_LIMIT, ES_E_MEMORY;
 *  ES_E_INTERRUPTED; as es_sampler_rows() and es_limit_log_mgf(). */
ES_API es_status es_ball_replicates(const es_ball *ball, int64_t first, int64_t count,
                                    es_ball_cell *out, es_error *err);

/* Cost of one replicate. */
typedef struct es_ball_cost {
    double flops; /* an estimate: how long an ascent takes is not known beforehand */
    size_t bytes; /* of memory, for each thread */
} es_ball_cost;

/*! es_ball_cost_of() : what one replicate of a valid ball will take. */
ES_API es_ball_cost es_ball_cost_of(const es_ball *ball);

#ifdef __cplusplus
}
#endif
#endif
