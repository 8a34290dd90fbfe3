/* SPDX-License-Identifier: Apache-2.0 */
/* context_curve.h : the parts of the fit of loss against context.
 *
 *     context_fit.c        checks, intervals, the public functions
 *     context_curve.c      the best curve for given weights, and with Huber's
 */
#ifndef ES_STATS_CONTEXT_CURVE_H
#define ES_STATS_CONTEXT_CURVE_H

#include "stats/context.h"

/* Points, with contexts in units of their geometric mean, so that powers stay near 1. */
typedef struct es_points {
    const double *x;    /* (count) ln(c/mean) */
    const double *L;    /* (count) */
    const double *base; /* (count) 1/se, or 1 */
    double *w;          /* (count) robust weights, in (0,1] */
    double *r;          /* (count) scratch */
    int64_t count;
    double huber; /* tuning constant; INFINITY: least squares */
} es_points;

#define ES_CONTEXT_BETA_MIN 0.01
#define ES_CONTEXT_BETA_MAX 3.0

/* L = a exp(-beta x) + gamma */
typedef struct es_context_curve {
    double a, beta, gamma;
} es_context_curve;

/*! es_curve_fit() : the best curve and the scale of the residuals it leaves; weights into p->w.
 * The minimum may be at the edge of the range of beta. */
void es_curve_fit(const es_points *p, es_context_curve *curve, double *scale);

/*! es_curve_loss() : 2 sum rho(r/scale), Huber's objective, of the best curve with this beta and,
 * unless it is NaN, this gamma; both other parameters are chosen for it. p->w is overwritten. For
 * least squares the sum of squares over scale^2. */
double es_curve_loss(const es_points *p, double beta, double gamma, double scale);

/*! es_curve_loss_at_gamma() : the least es_curve_loss() over beta, near `beta`. */
double es_curve_loss_at_gamma(const es_points *p, double beta, double gamma, double scale);

/*! es_curve_residual() : of point i, over its se. */
double es_curve_residual(const es_points *p, const es_context_curve *curve, int64_t i);

/*! es_curve_covariance() : inverse of J'J over (a, beta, gamma), J the derivatives of the residuals
 * without robust weights; 0 if it is singular. */
int es_curve_covariance(const es_points *p, const es_context_curve *curve, double cov[3][3]);

#endif
