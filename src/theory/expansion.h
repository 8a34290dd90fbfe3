/* expansion.h : a token's influence expanded in Hermite polynomials of t, tabulated over q.
 *
 * For a query (q, e) and a token eta, t = <e, eta>, eta_ = eta - t e (4.5, influence.h):
 *
 *     E[Gamma | eta]        = A1(t) e + W(t) eta_
 *     E[Gamma Gamma' | eta] = A2(t) ee' + C2(t) (I-ee') + B2(t) (e eta_' + eta_ e') + W2(t) :eta_
 * eta_':
 *
 * with :eta_ eta_': = eta_ eta_' - (I - ee'). Each is a series in the orthonormal h_k(t), and the
 * average over eta of a product of two of them, for two queries, is a series in rho = <e, e'>
 * (pairs.h). No sampling of tokens is needed, in which a rare one would carry everything.
 */
#ifndef ES_THEORY_EXPANSION_H
#define ES_THEORY_EXPANSION_H

#include "theory/influence.h"

enum { ES_HERMITE = 40 }; /* highest order */

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
    es_budget *budget;
} es_expansions;

/*! es_expansions_make() : tables for q in [low, high], |t| <= widest. A few ms per node. */
es_status es_expansions_make(double n, double low, double high, double widest, es_budget *budget,
                             es_expansions *out, es_error *err);
void es_expansions_free(es_expansions *s);

/*! es_expansions_at() : the expansion at q. */
void es_expansions_at(const es_expansions *s, double q, es_expansion *out);

/*! es_expansion_beside() : table and expansion for a query that is a token itself, at r e among n
 *  tokens; moments stay 0. table->at comes zeroed. */
es_status es_expansion_beside(double n, double q, double r, es_budget *budget,
                              es_influence_table *table, es_expansion *out, es_error *err);

/*! es_expansions_moments() : those of n tokens at q. */
void es_expansions_moments(const es_expansions *s, double q, es_rem *out);

/*! es_expansions_influence() : the functions themselves at (q, t). */
es_influence es_expansions_influence(const es_expansions *s, double q, double t);

#endif
