/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.h : whitened queries of a head with every inner product between them, and averages over one
 * query at a time, over many more queries than pairs can be made of. */
#ifndef ES_THEORY_CROWD_H
#define ES_THEORY_CROWD_H

#include "base/vectors.h"
#include "theory/influence.h"

/* Row j is z_j ~ N(0, I); as a query it has M z_j = q_j e_j, as a token it is eta = z_j. Q =
 * S^{1/2} V'V S^{1/2} measures outputs. Matrices are (count, count), element [j, k] of e_j with
 * e_k or z_k. */
typedef struct es_sample {
    int64_t count, d;
    double *q;               /* (count) */
    double *e, *z;           /* (count, d) */
    double *ee, *eQe, *eQQe; /* e_j' e_k, e_j' Q e_k, e_j' Q^2 e_k */
    double *ez, *eQz, *eQQz; /* the same with z_k */
    double *zQz, *zQQz;      /* (count), z_j' Q z_j ... */
    double *M, *Q;           /* (d, d) */
    double trace, trace2;    /* tr Q, tr Q^2 */
    double lowest, highest;  /* q */
    double widest;           /* |e_j' z_j| */
    es_mem_limit *budget;
    double *memory;
} es_sample;

es_status es_sample_make(const es_view *cov, double tolerance, const es_head *head, int64_t count,
                         uint64_t seed, es_mem_limit *budget, es_sample *out, es_error *err);
void es_sample_free(es_sample *s);

/* Whitened geometry of a query z with M z = q e, in the metric Q of outputs. */
typedef struct es_query {
    double q, ez;
    double eQe, eQz, zQz;
    double eQQe, eQQz, zQQz;
} es_query;

/* A token in its role as query: Gamma = f.weight eta + m e on average, and its second moment is
 * that of influence.h. */
typedef struct es_asking {
    es_influence f;
    double m;
    double second; /* E |Gamma|^2 */
    double missed; /* E |Gamma - q e|^2 */
} es_asking;

/*! es_ask() : what a token gets when n tokens are the queries. trace = tr Q. */
es_asking es_ask(const es_expansions *s, const es_query *x, double trace);

/* What explains most of a query's share in averages over pairs. */
enum { ES_FEATURES = 5 };
void es_query_features(const es_query *x, const es_rem *r, double out[ES_FEATURES]);

/* Averages. `bias` (d, d) is E[Gamma Gamma'] beyond its limit, whitened; `noise` the mean over
 * queries of tr(Q X Q X), X being one query's share in the bias. First for fresh queries, then for
 * tokens as queries. */
typedef struct es_crowd {
    int64_t count, d;
    double query;                  /* E |Gamma - q e|^2 of a fresh query */
    double missed, second, fourth; /* of a token: es_asking, and E |Gamma|^4 */
    double limit;                  /* E q^2 e'Qe in the sample, which is tr Q M M' */
    double reached;                /* part of the limit's square that n tokens reach, on average */
    double features[ES_FEATURES];
    double *bias[2], noise[2];
    es_mem_limit *budget;
    double *memory;
} es_crowd;

/*! es_crowd_widen() : raises highest and widest of the sample to those of the crowd. */
es_status es_crowd_widen(es_sample *s, uint64_t seed, es_error *err);

/*! es_crowd_make() : the averages, among the n tokens that `spectra` was made for. O(count d^2).
 *  Release with es_crowd_free(). */
es_status es_crowd_make(const es_sample *s, const es_expansions *spectra, uint64_t seed,
                        es_crowd *out, es_error *err);
void es_crowd_free(es_crowd *c);

/* The expected covariance of outputs, and what it is off by. */
typedef struct es_expected {
    double trace;  /* tr Q (bias) */
    double square; /* tr (Q bias)^2, less that of sampling noise */
    double whole;  /* tr (Q C)^2 of the covariance C itself */
} es_expected;

/*! es_crowd_covariance() : from E[Gamma Gamma'] and E|m|^2 = mean, for fresh queries (mode 0) or
 *  tokens (1). Cov m is taken to have the shape (I + kM)(I + kM)', in which a token acts as a key
 *  and, k times as much, through what it asks. O(d^3). */
es_status es_crowd_covariance(const es_crowd *c, const es_sample *s, int mode, double mean,
                              double k, es_expected *out, es_error *err);

#endif
