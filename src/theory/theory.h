/* SPDX-License-Identifier: Apache-2.0 */
/* theory.h : what the papers predict from the covariance of the tokens and the weights of a head.
 *
 * Tokens y_1..y_n ~ N(0, S), a query x, scores <Ax, y_i>, weights w = softmax, output V sum w_i
 * y_i, whose limit for n -> infinity is V S A x. How fast it gets there is decided by one number
 * per query, q = |S^{1/2} A x|, the standard deviation of its scores, against sqrt(2 log n). This
 * header goes from the coarse to the fine:
 *
 *   1. horizons: norms of M = S^{1/2} A S^{1/2} and the exponents that hold for
 *      n -> infinity (es_horizons_of, es_exponents_at, es_mean_clt);
 *   2. exact finite-n expectations for one query: sum of squared weights, error, entropy
 *      (es_rem_moments), also with one given token among them (es_rem_extra_at);
 *   3. what an experiment on n tokens will measure, from the law and the head
 *      (es_predict_isotropic, es_predict_general).
 *
 *     es_horizons h;
 *     es_horizons_of(&cov, 0, &head, NULL, &h, &err);      h.horizon.val, within h.horizon.err
 *     es_rem r;
 *     es_rem_moments(1e6, 4.0, NULL, &r, &err);            r.participation = 0.0433
 *
 * Formulas and their standing (proved, heuristic, checked) are in THEORY.md, whose sections are
 * named below. All functions are thread-safe. Logarithms are natural.
 */
#ifndef ES_THEORY_THEORY_H
#define ES_THEORY_THEORY_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/view.h>
#include <esscher/status.h>

#include "head/head.h"

/* ---- horizons (section 2) ---- */

/* The norms of THEORY 2 and the rates that follow from them. */
typedef struct es_horizons {
    es_num reach;           /* |S|, the largest eigenvalue */
    es_num one_sided;       /* H1 = |S^{1/2} A| */
    es_num horizon;         /* H = |S^{1/2} A S^{1/2}| = |M|, invariant under changes of basis */
    es_num unscaled;        /* H without the 1/sqrt(k); NaN if A was given and k is unknown */
    es_num coupling;        /* Psi = |S| H1^2 >= H^2 */
    es_num frobenius;       /* F = |M|_F; F^2 = E q^2 is what n is up against in high dimension */
    double trace;           /* tr M: what a token adds to its own score */
    double rate_worst_case; /* 1/(2 (1 + 32 Psi)) */
    double rate_coupling;   /* 1/(2 (1 + Psi)): between the two, since H^2 <= Psi */
    double rate_horizon;    /* 1/(2 (1 + H^2)) */
} es_horizons;

/*! es_horizons_of() : cov (d, d), symmetric positive semidefinite up to rounding (tolerance as in
 *  linalg.h). For Wq, Wk with k < d every norm is that of a (k, k) matrix. err covers rounding
 *  here and in linalg, also where a small eigenvalue of S amplifies it. O(d^3).
 *  @return : ES_E_ARGUMENT if A, Wq, Wk do not make one head; ES_E_SHAPE, ES_E_EMPTY,
 *  ES_E_NONFINITE, ES_E_LIMIT, ES_E_MEMORY; ES_E_NUMERIC if cov is not symmetric or indefinite;
 *  ES_E_OVERFLOW. */
es_status es_horizons_of(const es_view *cov, double tolerance, const es_head *head,
                         es_mem_limit *budget, es_horizons *out, es_error *err);

/* ---- exponents for n -> infinity (sections 4.3, 4.4) ---- */

/* error ~ n^-exponent, Gaussian tokens, averaged over queries x ~ N(0, S). */
typedef struct es_exponents {
    double paper;     /* 1/(2(1+H^2)), a lower bound */
    double query_rms; /* of one query's output, root mean square */
    double cov_bias;  /* of the expected covariance of outputs */
    double mean_rms;  /* of the mean over queries, root mean square */
    double mean_abs;  /* the same, E|.| or typical */
} es_exponents;

/*! es_exponents_at() : the exponents at horizon H >= 0. Pure function.
 *  @return : ES_OK; ES_E_RANGE if H is negative or not finite. */
es_status es_exponents_at(double horizon, es_exponents *out, es_error *err);

/*! es_mean_clt() : lim n E|m_n|^2 for S = V = I, population queries, H < 1: prod (1-h_i^4)^{-1/2}
 *  sum 1/(1-h_i^4) over the singular values h (count) of M. If the tokens are the queries add
 *  2 tr M + |M|_F^2.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE if an h is not in [0, 1). */
es_status es_mean_clt(const double *h, int64_t count, double *out, es_error *err);

/* ---- one query and n tokens, exactly (section 4.2) ---- */

/* Scores q g_i with g_i independent N(0, 1), i < n; G = sum w_i g_i, whose limit is q. */
typedef struct es_rem {
    double participation;         /* P = E sum w_i^2, 1/n .. 1 */
    double participation_squared; /* E (sum w_i^2)^2, P^2 .. P */
    double mean;                  /* E G = q (1 - P) */
    double error;                 /* v = E (G - q)^2 */
    double second;                /* E G^2 */
    double entropy;               /* E of -sum w log w */
    double defect; /* |E sum w_i - 1| of the same quadrature: a measure of its error */
} es_rem;

/*! es_rem_moments() : expectations by quadrature, relative error below 1e-10. n in [1, 1e16], a
 *  whole number; q in [0, 4096]. 0.1 to 1 ms.
 *  @return : ES_OK; ES_E_RANGE; ES_E_LIMIT; ES_E_MEMORY. */
es_status es_rem_moments(double n, double q, es_mem_limit *budget, es_rem *out, es_error *err);

/* The same with one token more, whose score a and value are given: the token itself in
 * self-attention, a sink, or the token on which one conditions (Hajek projections, 4.5). */
typedef struct es_rem_extra {
    double weight;                /* W = E w_a */
    double weight_squared;        /* W2 = E w_a^2 */
    double participation;         /* P_o = E sum over the others of w_i^2 */
    double participation_squared; /* E of the square of that sum */
    double cross;                 /* R = E w_a sum over the others of w_i^2 */
    double others_squared;        /* GG_o = E (sum over the others of w_i (g_i - q))^2 */
    double others;                /* G_o = E of that sum = -q P_o */
} es_rem_extra;

/*! es_rem_extra_at() : n others, q in [1e-3, 4096], count scores a (count), each below 1e6 in
 *  magnitude. @return : as es_rem_moments(). */
es_status es_rem_extra_at(double n, double q, const double *a, int64_t count, es_mem_limit *budget,
                          es_rem_extra *out, es_error *err);

/* ---- what n tokens will show (section 4.5) ---- */

/* Errors of outputs and of their moments over queries, against the limit. */
typedef struct es_predicted {
    double query_rms; /* root mean square error of one output, over queries and tokens */
    double mean_rms;  /* root mean square of |mean - limit| */
    double mean_abs;  /* its expectation, as if the error were Gaussian: a few per cent high when
                         rare samples dominate */
    double cov_bias;  /* norm of the expected error of the covariance, with the sign of its trace */
    double cov_rms;   /* root mean square of the Frobenius norm of the covariance's error */
} es_predicted;

/* Errors at finite n without a fitted constant (THEORY 4.5). */
typedef struct es_prediction {
    es_predicted population; /* infinitely many queries x ~ N(0, S), independent of the tokens */
    es_predicted self;       /* the n tokens are the queries */
    double sampling;         /* relative standard error that sampling of queries left in
                                population.mean_rms or cov_rms, the larger; 0 for quadrature */
} es_prediction;

/* How a rotation O relates queries to keys: what a token's score against itself looks like. */
typedef enum es_rotation {
    ES_ROTATION_NONE = 1, /* O = I: a token attends to itself; in one dimension always this */
    ES_ROTATION_HAAR = 2  /* O uniformly random: to itself no more than to others */
} es_rotation;

/*! es_predict_isotropic() : S = I, A = H O, V = I in d dimensions, n tokens. Expectations over
 *  queries and the tokens' first-order (Hajek) influence are integrated, in self mode with the
 *  query's own token among the keys; to the covariance is added, to leading order in 1/d, what
 * pairs of tokens do beyond the sum of their parts (its factor 1 - 1/d was chosen by simulation).
 * docs/TRUST.md compares with measurement: single outputs agree to 0.3 %; the mean comes out 1
 * to 5 % low once scores freeze in few dimensions (H >= 2, d <= 10), and the covariance within 3 %,
 * but some 10 % high where n H is below 10 (no rotation) or where the error is that small. d in [1,
 * 4096], n in [3, 1e12], H in [1e-4, 1e3]. Some 150 ms. `slope`, unless NULL, gets -d log / d log n
 * of each number.
 *  @return : ES_OK; ES_E_RANGE; ES_E_LIMIT; ES_E_MEMORY. */
es_status es_predict_isotropic(int64_t d, double horizon, es_rotation rotation, double n,
                               es_mem_limit *budget, es_prediction *out, es_prediction *slope,
                               es_error *err);

/* How queries are sampled. */
typedef struct es_predict_opts {
    int64_t samples; /* 16 .. 4096; 0: 512 */
    uint64_t seed;
} es_predict_opts;

/*! es_predict_general() : any covariance and head. Queries are sampled, at addresses of their own
 *  (random.h), so that equal arguments give equal bits: `samples` of them in pairs, and up to 65536
 *  one at a time, which also correct the pairs for the queries they happened to be. The average
 * over the tokens two queries share is exact, by Hermite series of order 40; in fewer than about 4
 *  dimensions those converge slowly once scores freeze. Of a query's own token only the part along
 *  its scores' direction is followed to other tokens, and what pairs of tokens do beyond the sum of
 *  their parts is left out: the mean comes out 1 to 6 % low where scores freeze, the covariance
 *  within 4 % (docs/TRUST.md). O(samples^2 (d + 4000)) time, 48 samples^2 + 25000 samples
 * bytes and more; a second for 512 samples. opts may be NULL.
 *  @return : as es_horizons_of() and es_predict_isotropic(). */
es_status es_predict_general(const es_view *cov, double tolerance, const es_head *head, double n,
                             const es_predict_opts *opts, es_mem_limit *budget, es_prediction *out,
                             es_prediction *slope, es_error *err);

#endif
