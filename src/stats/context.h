/* SPDX-License-Identifier: Apache-2.0 */
/* context.h : what more context is worth: the loss of a language model against its context length.
 *
 *     L(c) = (alpha/c)^beta + gamma = A c^-beta + gamma,        A = alpha^beta
 *
 * (Effective Long-Context Scaling of Foundation Models, arXiv 2309.16039.) gamma is the loss that
 * no context removes, A c^-beta the excess; doubling the context multiplies the excess by 2^-beta,
 * which is what an engineer wants to know. alpha is badly determined by any data: A, beta and gamma
 * are what the fit is about.
 *
 * For a given beta the model is linear in (A, gamma). So beta is searched on a grid, refined by
 * golden section, and all three polished by Gauss-Newton steps; around that, Huber's weights bring
 * down points that lie off the curve by more than 1.345 of its scatter (THEORY.md 8).
 *
 * The interval of beta is where the profile of the objective, minimised over the rest, stays below
 * the quantile of its law under small noise: it is as lopsided as the data make it, which an
 * interval of +- standard errors cannot be. Beta and gamma trade against one another unless the
 * excess falls far; data that do not tell them apart are refused with the reason, not fitted.
 */
#ifndef ES_STATS_CONTEXT_H
#define ES_STATS_CONTEXT_H

#include <stdint.h>

#include <esscher/exec.h>

/* How L(c) = A c^-beta + gamma is fitted. */
typedef struct es_context_opts {
    double huber; /* tuning constant; 0: 1.345; negative: plain least squares */
    double level; /* of the intervals; 0: 0.95 */
    double span;  /* least ratio of the excesses at the shortest and longest context; 0: 10 */
} es_context_opts;

/* The fit with its errors; A is reported because alpha = A^(1/beta) is badly determined. */
typedef struct es_context_fit {
    double A, beta, gamma, alpha;
    double A_se, beta_se, gamma_se, log_alpha_se; /* to first order */
    double beta_low, beta_high;                   /* profile intervals */
    double gamma_low, gamma_high;
    double halving;                   /* 2^-beta: what doubling the context leaves of the excess */
    double halving_low, halving_high; /* its interval */
    double scatter;   /* standard deviation around the curve, in units of se if se is given */
    double span;      /* excess at the shortest context over that at the longest */
    double cov[3][3]; /* of (ln A, beta, gamma), to first order */
    int64_t points;
    int64_t outliers; /* points that got less than half their weight */
} es_context_fit;

/*! es_context_fit_points() : the curve through count points, context c > 0 in any unit and order,
 * loss L, and standard errors se of L or NULL: all the same, unknown. weights (count), or NULL,
 * gets Huber's weight of each point, in (0,1]. O(count) with a large constant: some milliseconds.
 * Thread-safe, deterministic.
 *  @return : ES_OK; ES_E_ARGUMENT if level is not in (0,1);
 *   ES_E_NONFINITE (context.finite), ES_E_RANGE (context.range) with err->row the point;
 *   ES_E_EMPTY (context.points): fewer than 4 different contexts;
 *   ES_E_NUMERIC when the data do not determine the curve: context.flat (the loss does not fall
 *     with the context), context.span (the excess falls by less than `span`), context.beta (the
 *     interval of beta does not end within (0.01, 3)); ES_E_LIMIT, ES_E_MEMORY: as es_mem_new(). */
es_status es_context_fit_points(const double *c, const double *L, const double *se, int64_t count,
                                const es_context_opts *opts, es_mem_limit *budget, double *weights,
                                es_context_fit *out, es_error *err);

/*! es_context_predict() : L(c) of a fit, and into *se (may be NULL) its standard error to first
 * order: that of the curve, to which the scatter of a measurement would add. Far beyond the longest
 * context it is gamma with gamma's error, if the model holds there. */
double es_context_predict(const es_context_fit *fit, double c, double *se);

#endif
