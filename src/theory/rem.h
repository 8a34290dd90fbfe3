/* SPDX-License-Identifier: Apache-2.0 */
/* rem.h : expectations over one Gaussian score, the raw material of every finite-n integral.
 *
 * A token has score q g, g ~ N(0,1). With lambda = e^-l and s = e^{qg-l}, 1/Z^2 = int lambda
 * e^{-lambda Z} d lambda turns every expectation over softmax weights of n independent scores into
 * an integral over l of products of one-score expectations (THEORY 4.2): 1 - phi(l) = E[1-e^-s] and
 * m_k(l) = E[s^k e^-s]. Integration by parts gives E[(g-q) s e^-s] = -q m_2, so that no difference
 * of large numbers is ever taken.
 *
 * All integrands are analytic in the strip |Im l| < pi/2, |Im qg| < pi/2, so the trapezoidal rule
 * with step 1/4 is exact to 1e-14; and with l and qg on one lattice of step `delta`, functions of
 * qg - l are three tables.
 */
#ifndef ES_THEORY_REM_H
#define ES_THEORY_REM_H

#include "theory/theory.h"

#define ES_SCORES_MAX_Q 4096.0 /* scores this far apart are frozen for every n we allow */
#define ES_SCORES_MIN_Q 1e-3   /* below, everything is its value at 0 plus q^2 times a constant */
#define ES_SCORES_MAX_N 1e16

/* What is tabulated, at l_j = top - j step, j < count; l decreases until n (1 - phi) is so large
 * that phi^n is 0. */
typedef struct es_scores {
    double q, n; /* n is what the range of l was chosen for */
    double delta, step, top;
    int64_t count, stride; /* step = stride * delta */
    int64_t top_index;     /* top = top_index * delta */
    double *tail;          /* 1 - phi */
    double *m1, *m2;       /* E[s e^-s], E[s^2 e^-s] */
    double *m4;            /* E[s^4 e^-s] */
    double *e2;            /* E[(g-q)^2 s^2 e^-s] */
    double *power;         /* scratch of the same size, for the integrals */
    double *kernel[4]; /* 1-e^-s, s e^-s, s^2 e^-s, s^4 e^-s at s = e^{i delta}, kernel_low <= i */
    int64_t kernel_low, kernel_high;
    es_mem_limit *budget;
    double *memory;
} es_scores;

/* How the lattice is laid. */
typedef struct es_scores_grid {
    double extra_most;  /* largest score of an extra deterministic token; -INFINITY: none comes */
    double extra_space; /* q * extra_space will be a multiple of delta; 0: no wish */
} es_scores_grid;

/*! es_scores_make() : the tables for q in [ES_SCORES_MIN_Q, ES_SCORES_MAX_Q] and up to n tokens.
 *  Some 0.1 to 5 ms. Release with es_scores_free(). */
es_status es_scores_make(double n, double q, const es_scores_grid *grid, es_mem_limit *budget,
                         es_scores *out, es_error *err);
void es_scores_free(es_scores *s);

/* exp(count log phi), phi = 1 - tail. */
double es_scores_power(double tail, double count);

/* ---- integrals on tables that are there already ---- */

/* Densities in l of the other tokens, to be met by the kernel of an extra one: phi^n, that of sum
 * w_i^2, of its square, and that of (sum w_i (g_i - q))^2. They live in the tables. The density of
 * sum w_i (g_i - q) is -q times that of sum w_i^2. */
typedef struct es_rem_density {
    double *all, *one, *four, *two;
} es_rem_density;

/*! es_rem_others() : densities of s->n others; they take the place of m1, m4 and e2 in the tables.
 */
void es_rem_others(es_scores *s, es_rem_density *out);

#endif
