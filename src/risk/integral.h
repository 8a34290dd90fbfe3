/* SPDX-License-Identifier: Apache-2.0 */
/* integral.h : E|N/Z|^2 as one integral over t = ln l (THEORY 13), by the trapezoid rule of
 * damping.h, whatever the nodes are of (policy_terms.h, far_risk.c).
 *
 * The integrand is a mean of positive numbers, so that nothing cancels. Its ends:
 *
 *   right   |N/Z| <= max|u| leaves at most max|u|^2 E (1 + lZ) e^{-lZ} beyond t, outcomes without
 *           weight apart: of those that have some, there are no more than keys with weight;
 *   left    e^{-lZ} is 1 but for lZ, so that the nodes below t add up to E|N|^2 times a geometric
 *           series, which is added, within E|N|^2 max Z times the next.
 */
#ifndef ES_RISK_INTEGRAL_H
#define ES_RISK_INTEGRAL_H

#include "risk/policy_terms.h"

#define ES_RISK_FINEST   1e-10 /* tolerances */
#define ES_RISK_COARSEST 1e-2

/* Step and error of the trapezoid rule. */
typedef struct es_risk_accuracy {
    double step; /* of the trapezoid rule, in t */
    double rule; /* what it may be off by, as a share of the risk */
    double ends; /* what each end may leave */
} es_risk_accuracy;

/*! es_risk_accuracy_of() : half of a tolerance for the rule, an eighth for each end. */
es_risk_accuracy es_risk_accuracy_of(double tolerance);

/* Moments of N and Z, which are closed forms and give the integral left of its first node; in units
 * of e^{log_unit}. */
typedef struct es_risk_moments {
    double log_unit;
    double *mean;     /* (width) E N */
    double z, most_z; /* E Z, and what Z never exceeds */
    double square;    /* E|N|^2 */
} es_risk_moments;

/* The integral of one query. */
typedef struct es_risk_integral {
    void *user;
    void (*begin)(void *user); /* before nodes far from the last ones; may be NULL */
    void (*nodes_at)(void *user, double t, double step, es_risk_node *out); /* `together` nodes */
    int64_t together;                                                       /* <= ES_RISK_NODES */
    int64_t width;
    double log_sure; /* ln Z_F, -inf of none */
    double reach;    /* at least the largest |u|, above 0 */
    es_risk_moments m;
    es_risk_accuracy a;
    es_risk_node
        node[ES_RISK_NODES]; /* of places first, first + 1, ...; mean (width) is scratch memory */
    int64_t first, count;
    double square, *bias; /* sums over nodes; (width); times a.step: the integrals */
    double end;           /* what is left of the square to the right, at most */
} es_risk_integral;

/*! es_risk_integrate() : sets square and bias, which are 0 before. */
void es_risk_integrate(es_risk_integral *in);

#endif
