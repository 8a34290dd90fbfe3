/* SPDX-License-Identifier: Apache-2.0 */
/* cap.h : the law of T = 1 - <q, k>, the distance of a key from the query, as density, distribution
 * function and quantile.
 *
 * T/2 = x has density x^{A-1} (1-x)^{B-1} h(x) / Beta(A, B), with B = (d-1)/2, A = B + p/2 and h
 * the tilt of a mixture. Everything is done in y = ln(x/(1-x)): there the density is smooth, falls
 * exponentially on both sides, and both P(T <= t) and P(T > t) are tabulated by their logarithms,
 * so that neither tail is ever a difference from 1.
 */
#ifndef ES_TOKENS_CAP_H
#define ES_TOKENS_CAP_H

#include <esscher/exec.h>

#include "tokens/keys.h"

/* A place on [0, 2], with its distance from either end. */
typedef struct es_cap_place {
    double t, rest; /* t + rest = 2 */
} es_cap_place;

/* The distance of a key from the query, T/2 ~ Beta(A, B), tabulated. */
typedef struct es_cap {
    const es_keys *keys;
    double A, B, log_beta; /* ln Beta(A, B) */
    double kappa;          /* the largest of the parts */
    double *log_weight;    /* (n_parts) of a part, less its log-MGF */
    double low, step;      /* y_j = low + j step, j < count */
    int64_t count;
    double *below, *above; /* ln P(y <= y_j), ln P(y > y_j) */
    double *slope;         /* dy / d ln(P/(1-P)) */
    es_mem_limit *budget;
    double *memory;
} es_cap;

/*! es_cap_make() : the table of a law that was checked and must outlive it. 1 to 100 ms. Release
 * with es_cap_free(). */
es_status es_cap_make(const es_keys *keys, es_mem_limit *budget, es_cap *out, es_error *err);
void es_cap_free(es_cap *cap);

/*! es_cap_make_round() : the same for keys uniform on a sphere of 2 alpha dimensions, which need
 * not be a whole number: T/2 ~ Beta(alpha, alpha). alpha in [1/16, 4096]. */
es_status es_cap_make_round(double alpha, es_mem_limit *budget, es_cap *out, es_error *err);

/*! es_cap_density() : of T at a place inside (0, 2). */
double es_cap_density(const es_cap *cap, es_cap_place at);

/*! es_cap_log_density() : ln of the density of y. */
double es_cap_log_density(const es_cap *cap, double y);

/*! es_cap_quantile() : where ln(P/(1-P)) is `logit`; relative error of t below 1e-9. *near is where
 * in the table the search starts and ends; 0 at first. Increasing logits cost O(1) each. */
es_cap_place es_cap_quantile(const es_cap *cap, double logit, int64_t *near);

/*! es_cap_refine() : the same after one step of Newton's method, relative error 1e-13 (1 + A). */
es_cap_place es_cap_refine(const es_cap *cap, double logit);

/*! es_cap_log_above() : ln P(T > t). */
double es_cap_log_above(const es_cap *cap, es_cap_place at);

/*! es_cap_place_of() : the place of y. */
es_cap_place es_cap_place_of(double y);

#endif
