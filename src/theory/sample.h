/* sample.h : whitened queries of a head, and every inner product between them. */
#ifndef ES_THEORY_SAMPLE_H
#define ES_THEORY_SAMPLE_H

#include <esscher/theory.h>

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
    es_budget *budget;
    void *memory;
} es_sample;

es_status es_sample_make(const es_view *cov, double tolerance, const es_head *head, int64_t count,
                         uint64_t seed, es_budget *budget, es_sample *out, es_error *err);
void es_sample_free(es_sample *s);

/*! es_sample_normalise() : row M z (d), number j, becomes e; returns q. */
double es_sample_normalise(double *row, int64_t d, int64_t j);

#endif
