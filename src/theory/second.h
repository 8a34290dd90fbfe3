/* second.h : what two tokens do together to the covariance of outputs, beyond what each does.
 *
 * Gamma Gamma' = sum w_j w_k y_j y_k'. Given two tokens y and z, the part that neither explains
 * alone is, to leading order in 1/d, E[w_y w_z] (y z' + z y') less the same of the mean, c(y) c(z)'
 * + c(z) c(y)'. With g(y) = s e^-s y, E[w_y w_z] y z' = int phi^{n-2} g(y) g(z)' dl (4.2), so that
 * its square, averaged over y and z for two queries at rho = <e, e'>, follows from the traces of
 * E_y g g'', which are the series of pairs.h in Hermite coefficients of g. */
#ifndef ES_THEORY_SECOND_H
#define ES_THEORY_SECOND_H

#include <esscher/theory.h>

/* Orders k = 1 .. ES_SECOND_ORDERS; of each the coefficient of g along e, h_k, and across, h_{k-1}.
 */
enum { ES_SECOND_ORDERS = 16, ES_LETTERS = 2 * ES_SECOND_ORDERS };

/* E_q int phi^{n-2} a b dl for letters a and b; letter 2(k-1) is along, 2(k-1)+1 across. */
typedef struct es_second {
    double at[ES_LETTERS][ES_LETTERS];
} es_second;

/*! es_second_add() : += factor * (at this q among n tokens; one of the others is at r e unless r is
 *  NaN). Some 1 ms. */
es_status es_second_add(double n, double q, double r, double factor, es_budget *budget,
                        es_second *out, es_error *err);

/*! es_second_variance() : n^2 times the average square, directions e uniform in d dimensions, with
 *  c(y) = w y. */
double es_second_variance(const es_second *s, int64_t d, double n, double w);

#endif
