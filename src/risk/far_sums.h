/* SPDX-License-Identifier: Apache-2.0 */
/* far_sums.h : sums over the keys of one stratum of a far field at one t = ln l (F2): the inner
 * loop of far_risk.c, compiled once per instruction set. */
#ifndef ES_RISK_FAR_SUMS_H
#define ES_RISK_FAR_SUMS_H

#include <stdint.h>

enum {
    ES_FAR_LANES = 8, /* of the sums: strata are filled up with keys of share 0 */
    ES_FAR_STEPS = 4, /* values of t that one pass over the keys serves */
};

/* The keys of a stratum. */
typedef struct es_far_terms {
    int64_t count;                /* a multiple of ES_FAR_LANES */
    int64_t width;                /* of values */
    const double *s, *share, *u2; /* (count) ln W, -inf of no weight; probability; |u|^2 */
    const double *u;              /* (count, width) v - y_lim */
} es_far_terms;

/* With x = l W = e^{t + s} of each key. */
typedef struct es_far_sums {
    double kept;   /* a_D = E e^{-x} */
    double some;   /* the same over keys that have weight */
    double once;   /* E x e^{-x} */
    double square; /* d_D = E x^2 |u|^2 e^{-x} */
    double *mean;  /* (width) b_D = E x u e^{-x}; memory of the caller */
} es_far_sums;

/*! es_far_sums_portable() : sets out[i] to the sums at t + i step, for i < ES_FAR_STEPS. All
 * versions give the same bits. */
typedef void es_far_sums_fn(const es_far_terms *terms, double t, double step, es_far_sums *out);
es_far_sums_fn es_far_sums_portable, es_far_sums_avx2, es_far_sums_avx512;

#endif
