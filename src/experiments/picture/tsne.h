/* SPDX-License-Identifier: Apache-2.0 */
/* tsne.h : internals of t-SNE that tests use. */
#ifndef ES_EXPERIMENTS_PICTURE_TSNE_H
#define ES_EXPERIMENTS_PICTURE_TSNE_H

#include "experiments/picture/embed.h"

/* Numbers of a row are handled four at a time, and so summed: lane l has columns l, l + 4, ... */
enum { ES_TSNE_LANES = 4 };

/* The state of t-SNE. */
typedef struct es_tsne {
    int64_t n, stride; /* points; numbers of a row, a multiple of ES_TSNE_LANES */
    double *p;         /* (n, stride) squared distances first, then p_ij; 0 beyond n */
    double *x, *y;     /* (stride) the plane; beyond n so far away that nothing is felt of it */
    double *pull;      /* (n, 2) sum_j p_ij w_ij (y_i - y_j), w_ij = 1/(1 + |y_i - y_j|^2), */
    double *push;      /* (n, 2) sum_j w_ij^2 (y_i - y_j), */
    double *near;      /* (n) sum_{j != i} w_ij: their sum is Z, and q_ij = w_ij / Z */
    double *entropy;   /* (n) of p_{.|i}, nats; then scratch */
    double *speed;     /* (2, n) last step of x and y, */
    double *gain;      /* (2, n) factor of the learning rate */
    double *memory;
    es_exec exec; /* without progress */
} es_tsne;

/*! es_tsne_new() : space for n points; free with es_tsne_free() in any case. */
es_status es_tsne_new(int64_t n, const es_exec *exec, es_tsne *out, es_error *err);
void es_tsne_free(es_tsne *t);

/*! es_tsne_affinities() : t->p of the rows of `points`. */
es_status es_tsne_affinities(es_tsne *t, const es_view *points, double perplexity,
                             es_tsne_facts *facts, es_error *err);

/*! es_tsne_forces() : pull, push and near at the points' places; *z is Z. The gradient of the
 *  divergence is 4 (pull - push / Z). */
es_status es_tsne_forces(es_tsne *t, double *z, es_error *err);

/*! es_tsne_divergence() : KL(p|q) at the points' places. */
es_status es_tsne_divergence(es_tsne *t, double *out, es_error *err);

#endif
