/* SPDX-License-Identifier: Apache-2.0 */
/* policy_terms.h : a choice's risk, in the form in which it is integrated (THEORY 13).
 *
 * With Z_F, N_F of the sure keys, n_F = N_F/Z_F, x_j = l c_j w_j and x_F = l Z_F, an outcome S of
 * chance has
 *
 *     l Z = x_F + sum_S x_j,   l N = x_F n_F + sum_S x_j u_j,
 *
 * and the risk is the integral over t = ln l of E |lN|^2 e^{-lZ}. A *node* is that mean at one t,
 * under the law of S tilted by e^{-lZ}, beside the mean of e^{-lZ} itself:
 *
 *     policy_nodes.c     draws with replacement; each key on its own, of which
 *     each_text.h        is the pass over keys, several nodes at a time
 *     policy_without.c   draws without replacement
 *     policy_risk.c      the integral, whatever the nodes; the question from outside
 */
#ifndef ES_RISK_POLICY_TERMS_H
#define ES_RISK_POLICY_TERMS_H

#include <esscher/policy.h>

/* The tilted means at one node. */
typedef struct es_risk_node {
    double log_mean; /* ln E e^{-lZ} without the sure keys' e^{-x_F} */
    double square;   /* tilted mean of |lN|^2 */
    double *mean;    /* (width) tilted mean of lN */
    double some; /* tilted number of keys of chance that have weight, at least P(there is one) */
    double once; /* tilted mean of lZ without x_F */
} es_risk_node;

enum {
    ES_RISK_BATCH = 8, /* angles that policy_without.c looks at together */
    ES_RISK_NODES = 4, /* nodes that each_text.h does */
    ES_RISK_LANES = 8, /* of its sums: terms are filled up with keys that are never kept */
};

/* Sure keys summed up, and the random ones in arrays. */
typedef struct es_risk_terms {
    int64_t count, width;
    int64_t padded; /* count, filled up to whole lanes: s -inf, u2 and p 0 */
    es_chance chance;
    double draws;
    double *s;       /* (count) ln(c w), -inf of no weight */
    const double *u; /* (padded, width) in units of `unit`; what is beyond `count` does not count */
    double *u2;      /* (count) |u|^2 */
    double *along;   /* (count) u . n_F */
    double *p;       /* (count) of EACH */
    double log_sure; /* ln Z_F, -inf of none */
    double *sure;    /* (width) n_F */
    double sure2;    /* |n_F|^2 */
    double unit;     /* a power of two: squares neither over- nor underflow */
    double reach;    /* largest |u| of a key that has weight and may be kept */
    double *scratch; /* of nodes without replacement: 4 (count), 2 ES_RISK_BATCH + 1 (width) */
    double saddle;   /* of the last node without replacement */
    double log_choose; /* ln (number of sets), as policy_without.c sums it */
} es_risk_terms;

/*! es_risk_nodes_at() : the nodes at t, t + step, ..., es_risk_nodes_of() of them, 1 or
 *  ES_RISK_NODES. out[i].mean (width) is the caller's. log_mean is -inf, and all else 0, where
 *  nothing is left. */
int64_t es_risk_nodes_of(const es_risk_terms *terms);
void es_risk_nodes_at(es_risk_terms *terms, double t, double step, es_risk_node *out);

/* Of keys kept each on its own (each_text.h): ES_RISK_NODES nodes, without what is sure. means are
 * added to. The same bits from all of them. */
typedef void es_risk_each_fn(const es_risk_terms *terms, double t, double step, es_risk_node *out);
es_risk_each_fn es_risk_each_portable, es_risk_each_avx2, es_risk_each_avx512;

/* Of draws without replacement. es_risk_without_begin() : once, before the first node. */
void es_risk_without_begin(es_risk_terms *terms);
void es_risk_without_at(es_risk_terms *terms, double t, es_risk_node *out);

#endif
