/* SPDX-License-Identifier: Apache-2.0 */
/* influence.h : what one token among n does to the output of a query, as a function of t.
 *
 * Whitened, a query is a direction e and the standard deviation q of its scores; the token is eta,
 * and t = <e, eta>. Given eta, with n - 1 others random (THEORY 4.5 ii, iii),
 *
 *     E[Gamma]        = W eta + K e
 *     E[Gamma Gamma'] = W2 eta eta' + X (eta e' + e eta') + Y e e' + P (I - e e')
 *
 * with W, K, W2, X, Y, P functions of q and t. K is given without its mean over tokens, q (1 -
 * P_n).
 */
#ifndef ES_THEORY_INFLUENCE_H
#define ES_THEORY_INFLUENCE_H

#include "theory/theory.h"

#include "base/memory.h"

#define ES_INFLUENCE_STEP 0.05

/* How one token changes the outputs of the others, in the symbols of THEORY 4.5. */
typedef struct es_influence {
    double weight, along, weight_squared, cross, square, part; /* W, K, W2, X, Y, P */
} es_influence;

enum { ES_INFLUENCES = 6 }; /* as many doubles as es_influence has */

/* Tabulated at t = (i - half) ES_INFLUENCE_STEP, 0 <= i < count = 2 half + 1. */
typedef struct es_influence_table {
    int64_t half, count;
    es_influence *at;
} es_influence_table;

/*! es_influence_add() : table += factor * (influence at this q among n tokens). *moments gets those
 *  of n tokens. Some 0.3 ms. */
es_status es_influence_add(double n, double q, double factor, es_mem_limit *budget,
                           es_influence_table *table, es_rem *moments, es_error *err);

/*! es_influence_add_beside() : the same where one of the other n - 1 tokens is given too, and lies
 *  at r e: the query itself, when tokens attend to themselves. */
es_status es_influence_add_beside(double n, double q, double r, double factor, es_mem_limit *budget,
                                  es_influence_table *table, es_error *err);

/*! es_influence_at() : between the points, by cubic interpolation; |t| within the table. */
es_influence es_influence_at(const es_influence_table *table, double t);

/*! es_influence_of() : from the expectations with an extra token. `participation` is P_n. */
es_influence es_influence_of(const es_rem_extra *x, double q, double participation);

/* ==== expansions ====
 * A token's influence expanded in Hermite polynomials of t, tabulated over q.
 *
 * For a query (q, e) and a token eta, t = <e, eta>, eta_ = eta - t e:
 *
 *     E[Gamma | eta]        = A1(t) e + W(t) eta_
 *     E[Gamma Gamma' | eta] = A2(t) ee' + C2(t) (I-ee') + B2(t) (e eta_' + eta_ e') + W2(t) N,
 *
 * with N = eta_ eta_' - (I - ee'). Each is a series in the orthonormal h_k(t), and the
 * average over eta of a product of two of them, for two queries, is a series in rho = <e, e'>
 * (below). No sampling of tokens is needed, in which a rare one would carry everything.
 */

enum { ES_HERMITE = 40 }; /* highest order */

/* Hermite coefficients of the output of one query as a function of a token's score. */
typedef struct es_expansion {
    es_rem moments;
    double q;
    double A1[ES_HERMITE + 1], W[ES_HERMITE + 1];
    double A2[ES_HERMITE + 1], C2[ES_HERMITE + 1], B2[ES_HERMITE + 1], W2[ES_HERMITE + 1];
} es_expansion;

/* Everything above at `nodes` values of q, equally spaced in log q, for n tokens. */
typedef struct es_expansions {
    int64_t nodes;
    double n;
    double low, space; /* of log q */
    es_expansion *at;
    es_influence_table *tables;
    es_arena arena;
} es_expansions;

/*! es_expansions_make() : tables for q in [low, high], |t| <= widest. A few ms per node. */
es_status es_expansions_make(double n, double low, double high, double widest, es_mem_limit *budget,
                             es_expansions *out, es_error *err);
void es_expansions_free(es_expansions *s);

/*! es_expansions_at() : the expansion at q. */
void es_expansions_at(const es_expansions *s, double q, es_expansion *out);

/*! es_expansion_beside() : table and expansion for a query that is a token itself, at r e among n
 *  tokens; moments stay 0. table->at comes zeroed. */
es_status es_expansion_beside(double n, double q, double r, es_mem_limit *budget,
                              es_influence_table *table, es_expansion *out, es_error *err);

/*! es_expansions_moments() : those of n tokens at q. */
void es_expansions_moments(const es_expansions *s, double q, es_rem *out);

/*! es_expansions_influence() : the functions themselves at (q, t). */
es_influence es_expansions_influence(const es_expansions *s, double q, double t);

/* ==== pairs ====
 * Two queries' influences multiplied and averaged over the token they share.
 *
 * With Q = S^{1/2} V'V S^{1/2} the metric of outputs, the variance of the mean over queries is
 * n E_{x,x'} E_eta <f_x(eta), Q f_x'(eta)>, and that of the covariance the same with tr(Q T_x Q
 * T_x'). E_eta follows from E :x_1..x_k: :y_1..y_k: = the permanent of <x_i, y_j> (Wick). Signs of
 * e and e' are averaged over, which leaves odd orders in the first and even ones in the second.
 */

/* All that is needed to know of directions e and f. */
typedef struct es_direction_pair {
    double rho;           /* e'f */
    double ee, ff, ef;    /* e'Qe, f'Qf, e'Qf */
    double ee2, ff2, ef2; /* the same with Q^2 */
    double trace, trace2; /* tr Q, tr Q^2 */
} es_direction_pair;

/*! es_direction_pair_mean(), es_direction_pair_cov() : E_eta of the products. */
double es_direction_pair_mean(const es_direction_pair *g, const es_expansion *a,
                              const es_expansion *b);
double es_direction_pair_cov(const es_direction_pair *g, const es_expansion *a,
                             const es_expansion *b);

#endif
