/* regimes.h : a query among n keys on the sphere: attention that averages, selects, or freezes.
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
 *     few keys share the weight, at random for ever (es_weights_critical, es_critical_sample).
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
#ifndef ESSCHER_REGIMES_H
#define ESSCHER_REGIMES_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/num.h>
#include <esscher/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ---- */

#define ES_KEYS_MOST_DIM   INT64_C(4096)
#define ES_KEYS_MOST_N     INT64_C(1000000000000000000)
#define ES_KEYS_MOST_KAPPA 1e4
#define ES_KEYS_MOST_BETA  1e60

/* A von Mises-Fisher part: density proportional to exp(kappa <mu, k>), <mu, q> = cosine. */
typedef struct es_keys_part {
    double weight; /* > 0, used after division by the sum */
    double kappa;  /* 0 .. 10^4; 0: uniform */
    double cosine; /* -1 .. 1 */
} es_keys_part;

/* A law of keys on S^{dim-1}, as seen from q. Keys that fill only a sphere S^m through q have
 * dim = m + 1, whatever space that sphere is in. */
typedef struct es_keys {
    int64_t dim;               /* 2 .. 4096 */
    double vanish;             /* p in [0, 1000]: density proportional to |k - q|^p */
    const es_keys_part *parts; /* (n_parts) a mixture; NULL: uniform, or as `vanish` says */
    int64_t n_parts;
    bool planted; /* one of the n keys is q itself */
} es_keys;

/*! es_keys_check() : is this a law? O(n_parts).
 *  @return : ES_OK; ES_E_ARGUMENT (keys.null; keys.parts: parts together with `vanish`);
 *  ES_E_RANGE (keys.dim, keys.vanish, keys.weight, keys.kappa, keys.cosine), NaN included. */
ES_API es_status es_keys_check(const es_keys *keys, es_error *err);

/* P(T <= t) ~ c t^alpha. A planted key is not counted. */
typedef struct es_cap_exponent {
    double alpha;
    double log_c; /* c itself overflows from dimension 2100 on */
} es_cap_exponent;

/*! es_keys_exponent() : alpha = (dim-1)/2 + vanish/2 and ln c, to 1e-14 (1 + |ln c|). O(n_parts).
 *  @return : as es_keys_check(). */
ES_API es_status es_keys_exponent(const es_keys *keys, es_cap_exponent *out, es_error *err);

/*! es_cap_constant() : c_d of uniform keys, 2^{(d-3)/2} Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)).
 * Infinite from d = 2100 on, NaN for d < 2. */
ES_API double es_cap_constant(int64_t dim);

/*! es_cap_probability() : P(T <= t) of uniform keys, t in [0, 2], with a bound on its error that is
 * relative also where the probability is 1e-300.
 *  @return : ES_OK; ES_E_RANGE. */
ES_API es_status es_cap_probability(int64_t dim, double t, es_num *out, es_error *err);

/* ---- expectations over the weights ---- */

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
 * one. A bound on the error comes with each number, some 3e-9 of it. 20 to 50 ms.
 * With parts whose cosine is not 1 or -1, tangential lacks the square of the mean's tangential
 * part.
 *  @return : ES_OK; as es_keys_check(); ES_E_RANGE unless 1 <= n <= 10^18 and 0 < beta <= 1e60;
 *  ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_weights_exact(const es_keys *keys, int64_t n, double beta, es_budget *budget,
                                  es_weights *out, es_error *err);

/*! es_weights_critical() : the limit n -> infinity at b' (`scaled`). Lengths are in units of the
 * limit: `deficit` is lim beta E(1 - <output, q>) = E sum w s, `tangential` lim beta E|...|^2 =
 * E sum w^2 2s. The identity is E sum w s = alpha + E sum w^2 s.
 *  @return : ES_OK; ES_E_RANGE unless alpha is in [1/16, 4096] and scaled in [1e-12, 1e12], or if
 * more than 10^15 keys would share the weight; ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_weights_critical(double alpha, double scaled, es_budget *budget,
                                     es_weights *out, es_error *err);

/*! es_weights_supercritical() : leading terms for b' -> infinity,
 *     1 - E w_max ~ ln 2 (alpha/b') Gamma(2 - 1/alpha),   1 - E sum w^2 ~ (alpha/b') Gamma(...);
 * NaN for alpha <= 1/2, where a logarithm enters. */
ES_API void es_weights_supercritical(double alpha, double scaled, double *top, double *squares);

/*! es_critical_scale() : b' = beta (n c)^{-1/alpha}. */
ES_API double es_critical_scale(const es_cap_exponent *cap, double n, double beta);

/*! es_critical_mean() : lambda = Gamma(alpha+1) b'^{-alpha}, the expected sum of exp(-s): how many
 * keys are within reach. */
ES_API double es_critical_mean(double alpha, double scaled);

/*! es_freezing_scale() : the beta at which n keys freeze, one formula for all dimensions:
 * 2 alpha x sqrt(1 - 1/x) with x = n^{1/alpha}. It becomes (d-1) n^{2/(d-1)} for ln n >> d and
 * sqrt(2 d ln n) for d >> ln n. A heuristic: E sum w^2 there is 0.23 to 0.8. 0 for n <= 1. */
ES_API double es_freezing_scale(double alpha, double n);

/* ---- the subcritical regime, uniform keys ---- */

typedef struct es_average {
    es_num mean;       /* A_d(beta): the output is mean * q */
    double series;     /* 1 - (d-1)/(2 beta) + (d-1)(d-3)/(8 beta^2) + (d-1)(d-3)/(8 beta^3) */
    es_num spread;     /* D = n / effective number of keys */
    es_num tangential; /* n times the variance of the output in one tangential direction */
    es_num radial;     /* n times that of <output, q> */
} es_average;

/*! es_average_at() : bias and fluctuations, to leading order in 1/n, for dim in [2, 2049] and beta
 * in (0, 1e10]. Constant time. @return : ES_OK; ES_E_RANGE; ES_E_OVERFLOW if D does not fit. */
ES_API es_status es_average_at(int64_t dim, double beta, es_average *out, es_error *err);

/* ---- naming the regime ---- */

typedef enum es_regime {
    ES_REGIME_SUBCRITICAL = 1,
    ES_REGIME_CRITICAL = 2,
    ES_REGIME_SUPERCRITICAL = 3
} es_regime;

typedef struct es_regime_finding {
    es_regime regime;
    char reason[160];
} es_regime_finding;

/*! es_regime_of() : supercritical if the largest weight is above 0.9 on average; subcritical if
 * 100 keys or more share the weight, or all of fewer do (n E sum w^2 < 1.5); else critical. The
 * reason is a sentence. Pure function. */
ES_API void es_regime_of(double n, double top, double squares, es_regime_finding *out);

/*! es_regime_name() : "subcritical", "critical", "supercritical"; "?" otherwise. */
ES_API const char *es_regime_name(es_regime regime);

/*! es_critical_needs() : the n from which on, at the same b, the critical limit of E sum w^2 is off
 * by at most `share` (0.05: 5 %). To first order it is off by 1.5 (B-1)/2 alpha/beta, B =
 * (dim-1)/2, because the sphere is curved; that is the right size in the subcritical and critical
 * regime, too much by up to 3 beyond. 0 in 3 dimensions, where caps are exact; infinite if n does
 * not fit. NaN for what es_keys_check() refuses, and for parts. */
ES_API double es_critical_needs(const es_keys *keys, double n, double beta, double share);

/* ---- simulation ---- */

enum { ES_REGIMES_TOP = 8 }; /* ordered weights that a draw keeps */

/* How keys come about. */
typedef enum es_regimes_method {
    /* Distances in increasing order: uniform order statistics from exponential spacings, sent
     * through the quantile of T. Exact for the nearest keys, until the others together weigh less
     * than 1e-16 of the first, or `nearest` of them are there; the sum over the others, known to
     * be farther, is then drawn as a Gaussian vector with its exact conditional mean and
     * covariance. Time does not depend on n. */
    ES_REGIMES_NEAREST = 0,
    ES_REGIMES_BRUTE = 1, /* all n keys as vectors, one after the other */
} es_regimes_method;

#define ES_REGIMES_MOST_KEYS INT64_C(1000000000) /* that brute force draws in a replicate */

typedef struct es_regimes_opts {
    uint64_t seed;
    es_regimes_method method;
    const es_keys *keys;
    const es_view *points; /* (N, dim) keys to choose n from, without replacement, in place of a
                              law; scaled to norm 1. `keys` is not looked at. Brute force. */
    const double *query;   /* (dim) for points, scaled to norm 1; NULL: in each replicate a point
                              that is not among its keys */
    int64_t replicates;    /* 0: 1000 */
    int64_t nearest;       /* 0: 2048. All keys are ordered if there are at most twice as many. */
    const es_exec *exec;   /* NULL: all threads, no limits */
} es_regimes_opts;

/* What one replicate gives. */
typedef struct es_regimes_draw {
    double top[ES_REGIMES_TOP]; /* w_(1) >= w_(2) >= ...; 0 beyond n */
    double squares, entropy, deficit;
    double tangential; /* norm of the output's part orthogonal to q */
    double one;        /* one coordinate of it */
    double bulk;       /* share of the weight that the Gaussian sum has; 0: every key was drawn */
    double normality;  /* Berry-Esseen bound on how far that sum is from Gaussian, in probability */
} es_regimes_draw;

/*! es_regimes_sample() : draws (replicates) at one n and beta. Numbers stand at experiments 30 to
 * 34; a replicate at another beta has the same keys, at another n or dim its own (brute force:
 * prefixes).
 * Same bits for any number of threads. O(replicates nearest), or O(replicates n dim).
 *  @return : ES_OK; as es_keys_check(); ES_E_ARGUMENT for NULL; ES_E_RANGE for n outside [1, 10^18]
 * ([1, 10^9] and below N + 1 where keys are drawn), beta not in (0, 1e60], replicates outside
 * [1, 10^7], nearest outside [64, 10^6]; ES_E_NONFINITE (row, column) for points or query;
 * ES_E_SHAPE for points of other than 2 to 4096 columns; ES_E_NUMERIC (regimes.zero) for a query
 * or, with err->row, a point that is 0; ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
ES_API es_status es_regimes_sample(const es_regimes_opts *opts, int64_t n, double beta,
                                   es_regimes_draw *draws, es_error *err);

/*! es_critical_sample() : ordered weights of the critical limit, draws (replicates); `top` and
 * `squares` are filled, the other members are NaN. Its own experiment number, so that it is
 * independent of es_regimes_sample(). Points in order until those left out weigh 1e-16 of the
 * first; of more than 4096 the sum over the others is a Gaussian number.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE as es_weights_critical(); ES_E_INTERRUPTED. */
ES_API es_status es_critical_sample(uint64_t seed, double alpha, double scaled, int64_t replicates,
                                    const es_exec *exec, es_regimes_draw *draws, es_error *err);

/* A mean over replicates and its standard error, NaN of a single replicate. */
typedef struct es_estimate {
    double mean, se;
} es_estimate;

/* Kolmogorov and Smirnov's distance and the probability of a larger one; NaN where none is made. */
typedef struct es_agreement {
    double distance, p;
} es_agreement;

typedef struct es_regimes_row {
    es_estimate top[ES_REGIMES_TOP];
    es_estimate squares, entropy, deficit, tangential; /* the last: mean square, as es_weights */
    double bulk, normality;                            /* largest over the replicates */
    es_agreement law[ES_REGIMES_TOP];  /* of w_(k) with the critical limit, two samples */
    es_estimate limit[ES_REGIMES_TOP]; /* mean of w_(k) in that limit; NaN where none is made */
    es_agreement normal[2];            /* of the output with the Gaussian of es_average_at(), its
                                          variance included: radial, tangential */
} es_regimes_row;

/*! es_regimes_run() : draws, averages and tests. `law` is made for keys of a law without a planted
 * one, against a sample of the same size. `normal` is made for uniform keys, from 20 replicates on,
 * if nearly all the weight is that of keys that were drawn: a Gaussian sum would be found Gaussian.
 *  @return : as es_regimes_sample(). */
ES_API es_status es_regimes_run(const es_regimes_opts *opts, int64_t n, double beta,
                                es_regimes_row *out, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
