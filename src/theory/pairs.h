/* pairs.h : two queries' influences multiplied and averaged over the token they share.
 *
 * With Q = S^{1/2} V'V S^{1/2} the metric of outputs, the variance of the mean over queries is
 * n E_{x,x'} E_eta <f_x(eta), Q f_x'(eta)>, and that of the covariance the same with tr(Q T_x Q
 * T_x'). E_eta follows from E :x_1..x_k: :y_1..y_k: = the permanent of <x_i, y_j> (Wick). Signs of
 * e and e' are averaged over, which leaves odd orders in the first and even ones in the second.
 */
#ifndef ES_THEORY_PAIRS_H
#define ES_THEORY_PAIRS_H

#include "theory/expansion.h"

/* All that is needed to know of directions e and f. */
typedef struct es_pair {
    double rho;           /* e'f */
    double ee, ff, ef;    /* e'Qe, f'Qf, e'Qf */
    double ee2, ff2, ef2; /* the same with Q^2 */
    double trace, trace2; /* tr Q, tr Q^2 */
} es_pair;

/*! es_pair_mean(), es_pair_cov() : E_eta of the products. */
double es_pair_mean(const es_pair *g, const es_expansion *a, const es_expansion *b);
double es_pair_cov(const es_pair *g, const es_expansion *a, const es_expansion *b);

#endif
