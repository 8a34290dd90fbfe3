/* SPDX-License-Identifier: Apache-2.0 */
/* sphere_spectrum.c : expectations over a weighted sum of Dirichlet coordinates, by merging
 * measures.
 *
 * A block of coordinates of total mass a has a law of s = sum sigma_k^2 T_k/(sum T_k). Two blocks
 * merge as s = W s_a + (1-W) s_b with W ~ Beta(a, b) independent of both. Each law is represented
 * by a Gauss rule of N points; a merge produces N^3 points and compresses them to N, exact up to
 * degree 2N-1. By the Dirichlet identity E[T_i g] = (1/q) E_i[g], where E_i gives coordinate i the
 * mass 3/2, lambda_i needs the law of all coordinates but i. Blocks form a binary tree: the
 * coordinates outside a block are those outside its parent, merged with its sibling. 3 merges per
 * coordinate.
 */
#include "limit/limit_map.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "law/law_row.h"

enum { MOST = 40 }; /* points of a rule */

/* Weight, of 1 in all, up to which a point of a product is left out: 64 000 of them have less than
 * rounding, and most points of a product of fine rules are in their tails. */
#define LEAST 1e-32

/* The law of a block. mass 0: no coordinate at all. */
typedef struct rule {
    double mass;
    int n;
    double node[MOST], weight[MOST];
} rule;

/* Leaves of the tree are at [leaves, 2*leaves), children of k at 2k and 2k+1, the root at 1. */
typedef struct tree {
    const double *sigma; /* (count), padded by a block of zeros */
    int64_t count, leaves, q;
    double R;
    int N;
    rule *inside, *outside; /* (2*leaves) */
    double *scratch;        /* (threads, per_thread) */
    int64_t per_thread;
    double *lambda;
    int64_t first; /* of the level under way */
} tree;

/* Points of Beta, points and weights of the product, basis of the compression. */
static int64_t scratch_size(int64_t N) { return 6 * N + (N + 3) * N * N * N; }

/* Combines the quadrature rules of two subtrees into one with at most N nodes. A subtree with no
 * mass is the identity. */
static es_status merge(const tree *t, const rule *a, const rule *b, double *scratch, rule *out,
                       es_error *err)
{
    if (a->mass == 0.0 || b->mass == 0.0) {
        *out = a->mass == 0.0 ? *b : *a;
        return ES_OK;
    }
    const int N = t->N;
    const int64_t product = (int64_t)N * a->n * b->n;
    double *beta = scratch, *beta_weight = beta + N, *off = beta_weight + N;
    double *x = off + 2 * N, *w = x + product, *basis = w + product;
    ES_TRY(es_gauss_beta(a->mass, b->mass, N, beta, off, beta_weight, err));
    int64_t at = 0;
    for (int i = 0; i < a->n; i++) {
        for (int j = 0; j < b->n; j++) {
            for (int k = 0; k < N; k++) {
                x[at] = b->node[j] + beta[k] * (a->node[i] - b->node[j]);
                w[at] = a->weight[i] * b->weight[j] * beta_weight[k];
                at += w[at] > LEAST;
            }
        }
    }
    out->mass = a->mass + b->mass;
    return es_gauss_compress(x, w, at, N, basis, off, out->node, out->weight, &out->n, err);
}

/* f(s) = A_q(R^2 sqrt s)^2 / s, which is R^4/q^2 at 0. */
static double f_of(const tree *t, double s)
{
    const double root = sqrt(fmax(s, 0.0)), q = (double)t->q, R2 = t->R * t->R;
    es_num A, slope;
    if (R2 * root < 1e-150)
        return R2 / q * (R2 / q);
    es_bessel_ratio_slope(t->q, R2 * root, &A, &slope);
    return A.val / root * (A.val / root);
}

/* (R^2 sigma^2 / q) E f(s), s the merger of an atom sigma^2 of mass 3/2 with `others`. */
static es_status expectation(const tree *t, double sigma, const rule *others, double *scratch,
                             double *out, es_error *err)
{
    const double atom = sigma * sigma, scale = t->R * t->R * atom / (double)t->q;
    const int n = 2 * t->N; /* no compression follows: points are cheap here */
    double *beta = scratch, *beta_weight = beta + n, *off = beta_weight + n, sum = 0.0;
    if (others->mass == 0.0 || sigma == 0.0) {
        *out = sigma == 0.0 ? 0.0 : scale * f_of(t, atom);
        return ES_OK;
    }
    ES_TRY(es_gauss_beta(1.5, others->mass, n, beta, off, beta_weight, err));
    for (int j = 0; j < others->n; j++) {
        for (int k = 0; k < n; k++)
            sum += others->weight[j] * beta_weight[k] *
                   f_of(t, others->node[j] + beta[k] * (atom - others->node[j]));
    }
    *out = scale * sum;
    return ES_OK;
}

/* ---- the tree ---- */

/* Sets the leaves: each value sigma_i^2 with mass 1/2, the Dirichlet mass of one coordinate. */
static void plant(tree *t)
{
    memset(t->inside, 0, (size_t)(2 * t->leaves) * sizeof(rule));
    memset(t->outside, 0, (size_t)(2 * t->leaves) * sizeof(rule));
    for (int64_t i = 0; i < t->count; i++)
        t->inside[t->leaves + i] =
            (rule){.mass = 0.5, .n = 1, .node = {t->sigma[i] * t->sigma[i]}, .weight = {1.0}};
    if (t->q > t->count)
        t->inside[t->leaves + t->count] =
            (rule){.mass = 0.5 * (double)(t->q - t->count), .n = 1, .weight = {1.0}};
}

/* Merges the two children of a node, from the leaves to the root. */
static es_status up(void *job, int64_t unit, int thread, es_error *err)
{
    tree *t = job;
    const int64_t k = t->first + unit;
    return merge(t, &t->inside[2 * k], &t->inside[2 * k + 1], t->scratch + thread * t->per_thread,
                 &t->inside[k], err);
}

/* Merges the coordinates outside a node's parent with its sibling: the coordinates outside the
 * node. */
static es_status down(void *job, int64_t unit, int thread, es_error *err)
{
    tree *t = job;
    const int64_t k = t->first + unit;
    return merge(t, &t->outside[k / 2], &t->inside[k ^ 1], t->scratch + thread * t->per_thread,
                 &t->outside[k], err);
}

/* Computes one eigenvalue of the limit from the rule of everything outside its leaf. */
static es_status gather(void *job, int64_t unit, int thread, es_error *err)
{
    tree *t = job;
    return expectation(t, t->sigma[unit], &t->outside[t->leaves + unit],
                       t->scratch + thread * t->per_thread, &t->lambda[unit], err);
}

/* Runs one pass up and one down the tree, then all leaves: O(d) merges instead of O(d^2). */
static es_status evaluate(tree *t, const es_exec *exec, es_error *err)
{
    plant(t);
    for (t->first = t->leaves / 2; t->first >= 1; t->first /= 2)
        ES_TRY(es_parallel_run(exec, t->first, up, t, err));
    for (t->first = 2; t->first <= t->leaves; t->first *= 2)
        ES_TRY(es_parallel_run(exec, t->first, down, t, err));
    return es_parallel_run(exec, t->count, gather, t, err);
}

/* ---- finer and finer rules ---- */

/* Returns the largest difference between two spectra, the error estimate of refine(). */
static double change(const double *a, const double *b, int64_t n)
{
    double worst = 0.0;
    for (int64_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(a[i] - b[i]));
    return worst;
}

/* Repeats the computation with more nodes until the spectrum no longer changes; *error is the
 * last change. */
static es_status refine(tree *t, const es_exec *exec, double *lambda, double *error, es_error *err)
{
    static const int sizes[] = {8, 12, 18, 26, MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        t->N = sizes[i];
        t->per_thread = scratch_size(t->N);
        const int threads = es_parallel_threads(exec, t->leaves);
        ES_TRY(ES_MEM_NEW_2D(exec->budget, t->scratch, threads, t->per_thread, "quadrature", err));
        const es_status status = evaluate(t, exec, err);
        es_mem_free(exec->budget, t->scratch);
        if (status != ES_OK)
            return status;
        const double largest = change(t->lambda, t->lambda + t->count, t->count);
        *error =
            i == 0 ? largest : change(t->lambda, lambda, t->count) + 64 * DBL_EPSILON * largest;
        memcpy(lambda, t->lambda, (size_t)t->count * sizeof *lambda);
        if (i > 0 && *error <= 1e-11 * largest) /* the finer rule is far better than that */
            break;
    }
    return ES_OK;
}

es_status es_sphere_spectrum(const double *sigma, int64_t count, int64_t q, double R,
                             const es_exec *exec, double *lambda, double *error, es_error *err)
{
    tree t = {.sigma = sigma, .count = count, .leaves = 1, .q = q, .R = R};
    es_arena arena = {.budget = exec->budget};
    while (t.leaves < count + 1)
        t.leaves *= 2;
    es_status status = ES_ARENA_NEW(&arena, t.inside, 2 * t.leaves, "quadrature", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW(&arena, t.outside, 2 * t.leaves, "quadrature", err);
    if (status == ES_OK) /* the second half stays 0: what change() measures sizes against */
        status = ES_ARENA_NEW_2D(&arena, t.lambda, 2, count, "quadrature", err);
    if (status == ES_OK)
        status = refine(&t, exec, lambda, error, err);
    es_arena_free(&arena);
    return status;
}
