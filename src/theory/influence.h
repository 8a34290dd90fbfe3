/* influence.h : what one token among n does to the output of a query, as a function of t.
 *
 * Whitened, a query is a direction e and the standard deviation q of its scores; the token is eta,
 * and t = <e, eta>. Given eta, with n - 1 others random (4.5 ii, iii),
 *
 *     E[Gamma]        = W eta + K e
 *     E[Gamma Gamma'] = W2 eta eta' + X (eta e' + e eta') + Y e e' + P (I - e e')
 *
 * with W, K, W2, X, Y, P functions of q and t. K is given without its mean over tokens, q (1 -
 * P_n).
 */
#ifndef ES_THEORY_INFLUENCE_H
#define ES_THEORY_INFLUENCE_H

#include <esscher/theory.h>

#define ES_INFLUENCE_STEP 0.05

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
es_status es_influence_add(double n, double q, double factor, es_budget *budget,
                           es_influence_table *table, es_rem *moments, es_error *err);

/*! es_influence_add_beside() : the same where one of the other n - 1 tokens is given too, and lies
 *  at r e: the query itself, when tokens attend to themselves. */
es_status es_influence_add_beside(double n, double q, double r, double factor, es_budget *budget,
                                  es_influence_table *table, es_error *err);

/*! es_influence_at() : between the points, by cubic interpolation; |t| within the table. */
es_influence es_influence_at(const es_influence_table *table, double t);

/*! es_influence_of() : from the expectations with an extra token. `participation` is P_n. */
es_influence es_influence_of(const es_rem_extra *x, double q, double participation);

#endif
