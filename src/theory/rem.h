/* rem.h : the integrals of rem.c on tables that are there already. */
#ifndef ES_THEORY_REM_H
#define ES_THEORY_REM_H

#include <esscher/theory.h>

#include "theory/scores.h"

/* Densities in l of the other tokens, to be met by the kernel of an extra one: phi^n, that of sum
 * w_i^2, of its square, and that of (sum w_i (g_i - q))^2. They live in the tables. The density of
 * sum w_i (g_i - q) is -q times that of sum w_i^2. */
typedef struct es_rem_density {
    double *all, *one, *four, *two;
} es_rem_density;

/*! es_rem_integrate() : the moments of s->n tokens. */
void es_rem_integrate(const es_scores *s, es_rem *out);

/*! es_rem_others() : densities of s->n others; they take the place of m1, m4 and e2 in the tables.
 */
void es_rem_others(es_scores *s, es_rem_density *out);

/*! es_rem_with() : expectations with an extra token of score a. */
void es_rem_with(const es_scores *s, const es_rem_density *f, double a, es_rem_extra *out);

#endif
