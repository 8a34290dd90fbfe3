/* SPDX-License-Identifier: Apache-2.0 */
/* equiangular.h : tokens at equal angles, and the score scale at which they stay apart.
 *
 * n tokens x_i of norm sqrt(q), any two at the same angle: <y_i, y_j> = rho for y_i = x_i/|x_i|.
 * One layer of self-attention without matrices, with an optional residual,
 *
 *     x_i' = sum_j A_ij y_j + alpha x_i,      A_ij proportional to exp(beta <y_i, y_j>),
 *
 * leaves them at equal angles again. A token sees itself with a score that is beta (1 - rho) above
 * the others', and there are n - 1 of those; so with beta = gamma ln n everything is decided by
 * gamma against gamma_c = 1/(1 - rho):
 *
 *     gamma < gamma_c   attention averages, all tokens become one direction: collapse
 *     gamma > gamma_c   a token sees itself alone: attention is the identity
 *     between           a window of relative width about 2/ln n in which p, the weight of a token
 *                       on itself, climbs from 0.1 to 0.9
 *
 * (Critical attention scaling in long-context transformers, arXiv 2510.05554; THEORY.md 7.) Here
 * are the exact values at finite n, the threshold for tokens of finite dimension, and the factors
 * by which models in use scale their scores. collapse.h is the experiment.
 */
#ifndef ES_THEORY_EQUIANGULAR_H
#define ES_THEORY_EQUIANGULAR_H

#include <stdint.h>

#include <esscher/status.h>

#define ES_COLLAPSE_MOST_N INT64_C(1000000000000000000)

/* ---- exactly equal angles: pure functions ---- */

/* Tokens of equal mutual cosines (THEORY 7). */
typedef struct es_equiangular {
    int64_t n;     /* 2 .. 10^18 */
    double rho;    /* cosine between any two tokens, in [0, 1) */
    double beta;   /* score scale, >= 0 */
    double alpha;  /* residual, >= 0 */
    double square; /* q = |x_i|^2; 0: 1 */
    int64_t dim;   /* of a token, for `gradient` alone; 0: none is asked for */
} es_equiangular;

/* What attention does to such tokens. */
typedef enum es_collapse_phase {
    ES_COLLAPSE_MERGED = 0, /* p < 0.1: attention averages */
    ES_COLLAPSE_WINDOW = 1, /* between */
    ES_COLLAPSE_APART = 2   /* p > 0.9: a token sees itself */
} es_collapse_phase;

/* The closed forms of THEORY 7. */
typedef struct es_collapse {
    double self_weight;  /* p = A_ii */
    double other_weight; /* s = A_ij */
    double cosine;       /* cos' between two outputs */
    double
        angle_ratio; /* angle between outputs over angle between tokens: 0 collapse, 1 identity */
    double norm2;    /* |x_i'|^2 */
    double ess;      /* 1/sum_j A_ij^2 */
    double entropy;  /* of a row of A, in nats */
    double gradient; /* eta = |dX'/dX|_F^2/(n dim); NaN if dim < n: no such tokens exist */
    double gradient_limit; /* the same for dim to infinity: (p^2 + (n-1) s^2)/q + 2 alpha p/sqrt q +
                              alpha^2 */
    es_collapse_phase phase;
} es_collapse;

/*! es_collapse_exact() : everything above in closed form, to 1e-13 of itself. O(1), thread-safe.
 * Nothing cancels: where outputs nearly coincide the angle is as exact as elsewhere.
 *  @return : ES_OK; ES_E_RANGE for a number outside its
 * interval above. */
es_status es_collapse_exact(const es_equiangular *tokens, es_collapse *out, es_error *err);

/*! es_collapse_phase_name() : "merged", "window", "apart"; "?" for another number. */
const char *es_collapse_phase_name(es_collapse_phase phase);

/*! es_collapse_threshold() : gamma_c. dim = 0: 1/(1 - rho). Tokens of finite dimension have
 * cosines that spread, the largest of n neighbours' scores is above their mean, and a token needs
 * more to win against them: with B = beta (1 - rho), B = L + kappa B^2/(2 dim), L = ln n, kappa =
 * 1 + rho - rho^2/2. That is a heuristic, good to a few per cent. NaN if dim < 2 kappa L: no beta
 * lets a token see itself alone before it freezes onto its nearest neighbours. NaN also for n < 2
 * or rho outside [0, 1). */
double es_collapse_threshold(int64_t n, double rho, int64_t dim);

/*! es_collapse_self_weight() : p by the same argument, 1/(1 + (n-1) exp(-B + kappa B^2/(2 dim))).
 * dim = 0: exact, for equal angles. NaN where the argument fails: beyond B = dim/kappa, and where
 * the sum over the neighbours is no longer its mean, B^2 kappa/dim > 2 ln n. */
double es_collapse_self_weight(int64_t n, double rho, double beta, int64_t dim);

/* ---- what models in use do to their scores beyond the context they were trained for ---- */

/*! es_scaling_yarn() : (coefficient ln(n/train) + 1)^2, 1 below train. YaRN multiplies queries and
 * keys by 0.1 ln(s) + 1 each, s the extension of the context, hence the square on scores. */
double es_scaling_yarn(double n, double train, double coefficient);

/*! es_scaling_logn() : ln n/ln train, 1 below train: scores that grow like log_train(n), as in
 * Qwen's option of that name. It keeps gamma at what it was at train tokens. */
double es_scaling_logn(double n, double train);

#endif
