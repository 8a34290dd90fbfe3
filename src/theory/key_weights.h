/* SPDX-License-Identifier: Apache-2.0 */
/* key_weights.h : a query among n keys on the sphere: averaging, selective, single-key attention.
 *
 * Keys k_1..k_n lie on the unit sphere S^{d-1}, the query q does too, and weights are softmax of
 * beta <q, k_i>. What matters of a key is how far it is from the query, T_i = 1 - <q, k_i> in
 * [0, 2]: near the query P(T <= t) ~ c t^alpha, where alpha = (d-1)/2 for keys that are uniform.
 * The nearest of n keys is at a distance of about (n c)^{-1/alpha}, so what decides is
 *
 *     b' = beta (n c)^{-1/alpha}        (b' = b c^{-1/alpha} where beta = b n^{1/alpha})
 *
 *   - b' -> 0, subcritical: many keys share the weight; the output is the limit A_d(beta) q plus
 *     Gaussian fluctuations of order n^{-1/2} (es_average_at).
 *   - b' fixed, critical: {beta T_i} becomes a Poisson process of intensity d(s/b')^alpha, and a
 *     few keys share the weight, at random for ever (es_weights_critical; regimes.h samples).
 *   - b' -> infinity, supercritical: the nearest key takes all (es_weights_supercritical).
 *
 * (Scaling Limits of Long-Context Transformers; formulas and proofs in THEORY.md, 6 and 4.2.) In
 * high dimension these limits are reached at no n that exists: es_weights_exact() has the same
 * expectations for n keys, not for infinitely many, and es_regime_of() says in which regime they
 * are.
 *
 *     es_keys keys = {.dim = 5};
 *     es_weights w;
 *     es_weights_exact(&keys, 10000, 100.0, NULL, &w, &err);    w.top.val = 0.28
 *
 * Every function is thread-safe. Logarithms are natural.
 */
#ifndef ES_THEORY_KEY_WEIGHTS_H
#define ES_THEORY_KEY_WEIGHTS_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/view.h>

#include "tokens/keys.h"

/* Expected weights of n keys, with bounds of the integrals' errors. */
typedef struct es_weights {
    es_num top;        /* E w_max; of planted keys the weight of the planted one */
    es_num squares;    /* E sum w^2, one over the effective number of keys */
    es_num entropy;    /* E of -sum w ln w */
    es_num deficit;    /* E (1 - <output, q>) */
    es_num tangential; /* E |output - <output, q> q|^2, if the keys' law is symmetric around q */
    double identity;   /* relative defect of an identity that ties these (below); NaN: none */
} es_weights;

/*! es_weights_exact() : for n keys and any inverse temperature beta, by quadrature. The identity is
 * (dim-1) E<output, q> = beta E sum w (1-w) (1-u^2), u = <q, k>, for uniform keys without a planted
 * one. A bound on the error comes with each number, some 3e-9 of it. 20 to 50 ms. With parts whose
 * cosine is not 1 or -1, tangential leaves out the square of the mean's tangential part.
 *  @return : ES_OK; as es_keys_check(); ES_E_RANGE unless 1 <= n <= 10^18 and 0 < beta <= 1e60;
 *  ES_E_LIMIT, ES_E_MEMORY. */
es_status es_weights_exact(const es_keys *keys, int64_t n, double beta, es_mem_limit *budget,
                           es_weights *out, es_error *err);

/*! es_weights_round() : the same for keys uniform on a sphere of 2 alpha dimensions, T/2 ~
 * Beta(alpha, alpha), where neither 2 alpha nor n has to be a whole number: what keys of a file are
 * like near a query (freezing.h). No identity.
 *  @return : ES_OK; ES_E_RANGE unless alpha is in [1/16, 4096], n in [1, 10^18], beta as above;
 *  ES_E_LIMIT, ES_E_MEMORY. */
es_status es_weights_round(double alpha, double n, double beta, es_mem_limit *budget,
                           es_weights *out, es_error *err);

/*! es_weights_critical() : the limit n -> infinity at b' (`scaled`). Lengths are in units of the
 * limit: `deficit` is lim beta E(1 - <output, q>) = E sum w s, `tangential` lim beta E|...|^2 =
 * E sum w^2 2s. The identity is E sum w s = alpha + E sum w^2 s.
 *  @return : ES_OK; ES_E_RANGE unless alpha is in [1/16, 4096] and scaled in [1e-12, 1e12], or if
 * more than 10^15 keys would share the weight; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_weights_critical(double alpha, double scaled, es_mem_limit *budget, es_weights *out,
                              es_error *err);

/*! es_weights_supercritical() : leading terms for b' -> infinity,
 *     1 - E w_max ~ ln 2 (alpha/b') Gamma(2 - 1/alpha),   1 - E sum w^2 ~ (alpha/b') Gamma(...);
 * NaN for alpha <= 1/2, where a logarithm enters. */
void es_weights_supercritical(double alpha, double scaled, double *top, double *squares);

/*! es_critical_scale() : b' = beta (n c)^{-1/alpha}. */
double es_critical_scale(const es_cap_exponent *cap, double n, double beta);

/*! es_critical_mean() : lambda = Gamma(alpha+1) b'^{-alpha}, the expected sum of exp(-s): how many
 * keys are within reach. */
double es_critical_mean(double alpha, double scaled);

/* ---- the subcritical regime, uniform keys ---- */

/* The output over infinitely many uniform keys, and its fluctuations. */
typedef struct es_average {
    es_num mean;       /* A_d(beta): the output is mean * q */
    double series;     /* 1 - (d-1)/(2 beta) + (d-1)(d-3)/(8 beta^2) + (d-1)(d-3)/(8 beta^3) */
    es_num spread;     /* D = n / effective number of keys */
    es_num tangential; /* n times the variance of the output in one tangential direction */
    es_num radial;     /* n times that of <output, q> */
} es_average;

/*! es_average_at() : bias and fluctuations, to leading order in 1/n, for dim in [2, 2049] and beta
 * in (0, 1e10]. Constant time. @return : ES_OK; ES_E_RANGE; ES_E_OVERFLOW if D does not fit. */
es_status es_average_at(int64_t dim, double beta, es_average *out, es_error *err);

/* ---- the subcritical regime, keys with parts, and values ---- */

enum { ES_AVERAGE_MOST_DIM = 512 };

/* The output V sum w k while many keys share the weight. The caller sets the arrays. */
typedef struct es_output_law {
    double *limit; /* (dv) of infinitely many keys: V times the mean of their law, tilted */
    double *mean;  /* (dv) of n keys: limit - D V (m_2 - m_1)/n, to order 1/n */
    double *cov;   /* (dv, dv) n times the covariance, leading order in 1/n */
    double spread; /* D = n / effective number of keys, leading order */
} es_output_law;

/*! es_average_of() : for uniform keys, vMF and mixtures, and values V (dv, dim), NULL: the
 * identity. The query is the first basis vector, the parts' directions lie in the plane of the
 * first two, (cosine, sine, 0, ...). Limit and leading covariance are proved (law of large numbers,
 * delta method); they are close while D is small beside n. O(dim^2 (dim + parts)).
 *  @return : ES_OK; as es_keys_check(); ES_E_UNSUPPORTED (average.keys) for keys that are planted
 * or vanish at the query; ES_E_RANGE for dim above 512, beta not in (0, 1e6], n < 1; ES_E_SHAPE for
 * V; ES_E_OVERFLOW if D does not fit; ES_E_NONFINITE, ES_E_LIMIT, ES_E_MEMORY. */
es_status es_average_of(const es_keys *keys, double n, double beta, const es_view *V,
                        es_mem_limit *budget, es_output_law *out, es_error *err);

/* ---- naming the regime ---- */

/* One word for how many keys share the weight, ESS = 1/(E sum w^2). Every command that names the
 * concentration of attention takes its words and cut-offs from here:
 *
 *     averaging    ESS >= 100 (or two thirds of all n keys, where those are fewer)
 *     selective    between
 *     single-key   ESS < 2: E sum w^2 > 1/2, so that the nearest key has more than half of the
 *                  weight on average, for w_max >= sum w^2
 *     undecided    the interval of an estimated ESS contains a cut-off
 *
 * The cut-offs are a convention; E sum w^2 is exact, and grows with beta (proved: for fixed keys
 * d/dbeta sum w^2 = 2 sum w^2 (u - mean u) >= 0, since w grows with u), so each word has one
 * interval of beta. freezing.h solves for its ends. Attention over up to 3 keys is never selective:
 * it is averaging, or single-key from n E sum w^2 = 1.5 on. */
#define ES_AVERAGES_KEYS 100.0
#define ES_FROZEN_KEYS   2.0

/* How many keys share the weight. */
typedef enum es_regime {
    ES_REGIME_UNDECIDED = 0,
    ES_REGIME_AVERAGING = 1,
    ES_REGIME_SELECTIVE = 2,
    ES_REGIME_SINGLE_KEY = 3
} es_regime;
enum { ES_REGIMES = 4 };

/* A regime with its reason as a sentence. */
typedef struct es_regime_finding {
    es_regime regime;
    char reason[160]; /* a sentence with ESS and, unless averaging, the largest weight */
} es_regime_finding;

/*! es_averages_squares(), es_frozen_squares() : the E sum w^2 up to which attention over n keys is
 *  averaging, and above which it is single-key. Pure functions. */
double es_averages_squares(double n);
double es_frozen_squares(double n);

/*! es_regime_of() : the word for n keys whose largest weight is `top` and whose sum of squares is
 * `squares` on average. Pure function. */
void es_regime_of(double n, double top, double squares, es_regime_finding *out);

/*! es_regime_within() : the word for n keys whose ESS lies between `low` and `high`; undecided if
 *  a cut-off lies between them, or if one is NaN. Pure function. */
es_regime es_regime_within(double n, double low, double high);

/*! es_regime_name() : "undecided", "averaging", "selective", "single-key"; "?" otherwise. */
const char *es_regime_name(es_regime regime);

/*! es_critical_needs() : the n from which on, at the same b, the critical limit of E sum w^2 is off
 * by at most `share` (0.05: 5 %). To first order it is off by 1.5 (B-1)/2 alpha/beta, B =
 * (dim-1)/2, because the sphere is curved; that is the right size in the subcritical and critical
 * regime, too much by up to 3 beyond. 0 in 3 dimensions, where caps are exact; infinite if n does
 * not fit. NaN for what es_keys_check() refuses, and for parts. */
double es_critical_needs(const es_keys *keys, double n, double beta, double share);

#endif
