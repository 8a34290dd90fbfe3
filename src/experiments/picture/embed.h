/* SPDX-License-Identifier: Apache-2.0 */
/* embed.h : points of many dimensions in the plane, to be looked at.
 *
 * t-SNE (van der Maaten and Hinton, 2008) gives every point a law over the others, p_{j|i}
 * proportional to exp(-b_i |x_i - x_j|^2), b_i such that the law is as wide as a uniform one over
 * `perplexity` points, makes it symmetric, p_ij = (p_{j|i} + p_{i|j}) / 2N, and moves points of the
 * plane until q_ij, proportional to 1/(1 + |y_i - y_j|^2), is near it:
 *
 *     KL(p|q) = sum p_ij ln(p_ij / q_ij),
 *     dKL/dy_i = 4 sum_j (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2) .
 *
 * Neighbours are kept; distances, the sizes of groups and the gaps between them are not, and have
 * no meaning. Report es_embed_trust() with every picture: it measures how far it can be trusted.
 *
 *     es_principal_find(&x, 2, exec, &(es_principal){.scores = start}, &err);       linalg.h
 *     es_tsne_embed(&x, start, NULL, exec, y, &facts, &err);                        y (n, 2)
 *     es_embed_trust(&x, y, 12, exec, &trust, &err);
 *
 * Exact: all N^2 pairs, in f64. No chance has part in it: where points begin is the caller's, and
 * sums have a fixed order, so that the bits are the same for any number of threads. They depend on
 * the CPU where the start does (LAPACK) or exp() does; descent is a long road, and a last bit at
 * its beginning can become another picture, as good as the first, at its end.
 *
 * Thread-safe; memory counts against exec->budget. Beside what is listed, functions may return
 * ES_E_ARGUMENT, ES_E_SHAPE, ES_E_NONFINITE, ES_E_LIMIT, ES_E_MEMORY and ES_E_INTERRUPTED.
 */
#ifndef ES_EXPERIMENTS_PICTURE_EMBED_H
#define ES_EXPERIMENTS_PICTURE_EMBED_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>
#include <esscher/view.h>

/* Points of one picture, at most: 8 N^2 bytes are 72 MB. */
enum { ES_TSNE_MOST = 3000 };

/* The options of t-SNE. */
typedef struct es_tsne_opts {
    double perplexity; /* of every point's law; above 1 and below N - 1. 0: 30 */
    int64_t steps;     /* of descent, the first quarter with p exaggerated 12 times; 0: 1000 */
} es_tsne_opts;

/* How far a t-SNE picture has converged. */
typedef struct es_tsne_facts {
    double divergence;     /* KL(p|q) at the end, nats */
    double slope;          /* norm of its gradient there */
    double perplexity_off; /* largest relative distance of a point's perplexity from the one asked
                              for: below 1e-8 for all but the following */
    int64_t tied;          /* points whose nearest neighbours, all at one distance, are as many as
                              that or more: their law is uniform over these */
} es_tsne_facts;

/*! es_tsne_embed() : points x (N, d) in the plane, y (N, 2), from `start` (N, 2), of which only the
 *  shape matters: it is centred, and scaled until its first column has standard deviation 1e-4.
 *  Points that are equal in both stay together. Momentum 0.5, then 0.8; gains as in the paper;
 *  learning rate max(N/48, 50). O(N^2 (d + steps)) time: 3000 points of 64 dimensions take 31 s of
 *  processor time on an AMD EPYC, shared by the threads; O(N^2) memory. opts may be NULL. Progress
 *  counts steps.
 *  @return : ES_E_SHAPE (tsne.points) unless 4 <= N <= ES_TSNE_MOST; ES_E_RANGE (tsne.perplexity,
 *  tsne.steps). */
es_status es_tsne_embed(const es_view *x, const double *start, const es_tsne_opts *opts,
                        const es_exec *exec, double *y, es_tsne_facts *facts, es_error *err);

/*! es_tsne_bytes() : memory that it takes, beside its arguments. */
double es_tsne_bytes(int64_t points, int64_t dim);

/* How far neighbours in a picture are neighbours (Venna and Kaski, 2001): with r(i, j) the rank of
 * j among the others by distance from i,
 *
 *     1 - 2/(N k (2N - 3k - 1)) sum_i sum_j (r(i, j) - k)
 *
 * over those j that are among the k nearest in one space and not in the other, r counting in the
 * other. 1: none is; a picture without any sense has about 1/2. */
typedef struct es_trust {
    double trustworthiness; /* neighbours in the plane that are none among the points */
    double continuity;      /* neighbours among the points that are none in the plane */
} es_trust;

/*! es_embed_trust() : of points x (N, d) at y (N, 2), by their k nearest; of equal distances the
 *  one with the lower number is nearer. O(N^2 (d + k)) time, O(N) memory for each thread.
 *  @return : ES_E_RANGE (trust.neighbours) unless 1 <= k < N/2. */
es_status es_embed_trust(const es_view *x, const double *y, int64_t k, const es_exec *exec,
                         es_trust *out, es_error *err);

#endif
