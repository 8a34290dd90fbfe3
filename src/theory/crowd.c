/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.c : queries for general.c (THEORY 4.5): a sample of them, whitened, with every inner
 * product; then many more, one at a time. */
#include "theory/crowd.h"

#include <math.h>
#include <string.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "linalg/linalg.h"
#include "random/experiment.h"
#include "theory/predict.h"
#include "theory/rem.h"

/* Allocates the arrays of a sample in one block and points its members into it: N queries,
 * their directions e and tokens z (N, d), M and Q (d, d), and the products of all pairs (N, N). */
static es_status carve(es_sample *s, es_error *err)
{
    const int64_t N = s->count, d = s->d;
    double **arrays[] = {&s->q,  &s->zQz, &s->zQQz, &s->e,  &s->z,   &s->M,   &s->Q,
                         &s->ee, &s->eQe, &s->eQQe, &s->ez, &s->eQz, &s->eQQz};
    const int64_t sizes[] = {N,     N,     N,     N * d, N * d, d * d, d * d,
                             N * N, N * N, N * N, N * N, N * N, N * N};
    int64_t total = 0;
    for (int i = 0; i < 13; i++)
        total += sizes[i];
    ES_TRY(ES_MEM_NEW(s->budget, s->memory, total, "prediction", err));
    double *next = s->memory;
    for (int i = 0; i < 13; i++) {
        *arrays[i] = next;
        next += sizes[i];
    }
    return ES_OK;
}

/* Scratch of the steps below: (d, d) three times, (rows, d) twice, (count, d) once. */
typedef struct scratch {
    double *root, *product, *A, *left, *right, *eQ;
} scratch;

/* M = S^{1/2} A S^{1/2} and Q. */
static es_status whiten(const es_view *cov, double tolerance, const es_head *head, es_sample *s,
                        scratch *w, es_error *err)
{
    const int64_t d = s->d;
    const es_view root = es_view_f64(w->root, d, d), product = es_view_f64(w->product, d, d);
    const es_view A = es_view_f64(w->A, d, d);
    ES_TRY(es_sym_sqrt(cov, tolerance, s->budget, w->root, NULL, err));
    if (head->A) {
        ES_TRY(es_mat_multiply(head->A, &root, s->budget, w->product, err));
    } else {
        const es_view keys = es_view_transpose(head->Wk);
        ES_TRY(es_mat_multiply(&keys, head->Wq, s->budget, w->A, err));
        for (int64_t i = 0; i < d * d; i++)
            w->A[i] /= sqrt((double)head->Wq->rows);
        ES_TRY(es_mat_multiply(&A, &root, s->budget, w->product, err));
    }
    ES_TRY(es_mat_multiply(&root, &product, s->budget, s->M, err));
    if (!head->V)
        return es_mat_multiply(&root, &root, s->budget, s->Q, err);
    const es_view output = es_view_f64(w->left, head->V->rows, d);
    const es_view transposed = es_view_transpose(&output);
    ES_TRY(es_mat_multiply(head->V, &root, s->budget, w->left, err));
    return es_mat_multiply(&transposed, &output, s->budget, s->Q, err);
}

/* Row M z (d), number j, becomes e; returns q. */
static double normalise(double *row, int64_t d, int64_t j)
{
    double square = 0.0;
    for (int64_t i = 0; i < d; i++)
        square += row[i] * row[i];
    const double q = sqrt(square);
    for (int64_t i = 0; i < d; i++) /* no scores at all: any direction will do */
        row[i] = square > 0.0 ? row[i] / q : (double)(i == j % d);
    return q;
}

/* Draws the sampled queries: z ~ N(0, I), e = M z/q, q = |M z|, the standard deviation of a
 * query's scores. Values of q below 0.05 are raised to it, because nothing depends on them by
 * more than q^2. */
static es_status draw(es_sample *s, uint64_t seed, es_error *err)
{
    const int64_t N = s->count, d = s->d;
    const es_address at = {.seed = seed, .experiment = ES_EXPERIMENT_PREDICT};
    ES_TRY(es_normal_rows(&at, N, d, s->z, err));
    const es_view z = es_view_f64(s->z, N, d), M = es_view_f64(s->M, d, d);
    const es_view transposed = es_view_transpose(&M);
    ES_TRY(es_mat_multiply(&z, &transposed, s->budget, s->e, err));
    for (int64_t j = 0; j < N; j++) {
        s->q[j] = normalise(s->e + j * d, d, j);
        s->highest = fmax(s->highest, s->q[j]);
    }
    /* Below 0.05 nothing depends on q by more than q^2. */
    s->lowest = fmax(ES_SCORES_MIN_Q, fmin(0.05, 0.05 * s->highest));
    s->highest = fmax(s->highest, s->lowest);
    for (int64_t j = 0; j < N; j++)
        s->q[j] = fmax(s->q[j], s->lowest);
    return ES_OK;
}

/* Inner products in the metric `left` / e: e_j' X e_k and e_j' X z_k with left_j = X e_j. */
static es_status products(es_sample *s, const double *left, double *with_e, double *with_z,
                          es_error *err)
{
    const es_view a = es_view_f64(left, s->count, s->d), e = es_view_f64(s->e, s->count, s->d);
    const es_view z = es_view_f64(s->z, s->count, s->d);
    const es_view et = es_view_transpose(&e), zt = es_view_transpose(&z);
    ES_TRY(es_mat_multiply(&a, &et, s->budget, with_e, err));
    return es_mat_multiply(&a, &zt, s->budget, with_z, err);
}

/* Computes the products that the prediction needs between all pairs of queries: <e, e>, <e, Q
 * e>, <e, Q^2 e> and the same of e with z (N, N), then z'Q z and z'Q^2 z of each, and tr Q and
 * tr Q^2. */
static es_status multiply(es_sample *s, scratch *w, es_error *err)
{
    const int64_t N = s->count, d = s->d;
    const es_view Q = es_view_f64(s->Q, d, d), e = es_view_f64(s->e, N, d);
    const es_view z = es_view_f64(s->z, N, d), eQ = es_view_f64(w->eQ, N, d);
    ES_TRY(products(s, s->e, s->ee, s->ez, err));
    ES_TRY(es_mat_multiply(&e, &Q, s->budget, w->eQ, err));
    ES_TRY(products(s, w->eQ, s->eQe, s->eQz, err));
    ES_TRY(es_mat_multiply(&eQ, &Q, s->budget, w->right, err));
    ES_TRY(products(s, w->right, s->eQQe, s->eQQz, err));
    ES_TRY(es_mat_multiply(&z, &Q, s->budget, w->eQ, err));
    for (int64_t j = 0; j < N; j++) {
        s->zQz[j] = es_dot(w->eQ + j * d, s->z + j * d, d);
        s->zQQz[j] = es_dot(w->eQ + j * d, w->eQ + j * d, d);
        s->widest = fmax(s->widest, fabs(s->ez[j * N + j]));
    }
    for (int64_t i = 0; i < d; i++)
        s->trace += s->Q[i * d + i];
    s->trace2 = es_dot(s->Q, s->Q, d * d);
    return ES_OK;
}

es_status es_sample_make(const es_view *cov, double tolerance, const es_head *head, int64_t count,
                         uint64_t seed, es_mem_limit *budget, es_sample *out, es_error *err)
{
    *out = (es_sample){.budget = budget};
    ES_TRY(es_horizons_check(cov, head, err));
    const int64_t d = cov->rows, values = head->V ? head->V->rows : 1;
    out->count = count;
    out->d = d;
    ES_TRY(carve(out, err));
    double *memory;
    es_status status =
        ES_MEM_NEW_2D(budget, memory, 3 * d + values + 2 * count, d, "prediction", err);
    if (status == ES_OK) {
        double *at = memory;
        scratch w = {.root = at, .product = at + d * d, .A = at + 2 * d * d};
        w.left = w.A + d * d;
        w.right = w.left + values * d;
        w.eQ = w.right + count * d;
        status = whiten(cov, tolerance, head, out, &w, err);
        if (status == ES_OK)
            status = draw(out, seed, err);
        if (status == ES_OK)
            status = multiply(out, &w, err);
        es_mem_free(budget, memory);
    }
    if (status != ES_OK)
        es_sample_free(out);
    return status;
}

void es_sample_free(es_sample *s)
{
    es_mem_free(s->budget, s->memory);
    s->memory = NULL;
}

/* ==== the crowd: queries drawn in blocks, forgotten once they are added up ==== */

enum { EXPERIMENT = ES_EXPERIMENT_CROWD, BLOCK = 512, LEAST = 2048, MOST = 65536 };

/* Returns a number of points that costs about as much as the pairs do. */
static int64_t crowd_size(int64_t d)
{
    const int64_t blocks = (INT64_C(1) << 26) / (d * d) / BLOCK, least = LEAST / BLOCK;
    return BLOCK * (blocks < least ? least : blocks > MOST / BLOCK ? MOST / BLOCK : blocks);
}

/* ---- blocks of queries ---- */

/* (BLOCK, d) each: z, e, and both times Q; `left` for weighted sums of them. */
typedef struct block {
    double *z, *e, *zQ, *eQ, *left, *sum; /* sum (d, d) */
    double q[BLOCK];
    double *memory;
} block;

/* Allocates the scratch arrays of BLOCK queries in one block of memory: z, e, z Q, e Q, left
 * (BLOCK, d) and sum (d, d). */
static es_status block_make(const es_sample *s, block *b, es_error *err)
{
    const int64_t size = BLOCK * s->d;
    ES_TRY(ES_MEM_NEW_2D(s->budget, b->memory, 5 * BLOCK + s->d, s->d, "prediction", err));
    b->z = b->memory;
    b->e = b->z + size;
    b->zQ = b->e + size;
    b->eQ = b->zQ + size;
    b->left = b->eQ + size;
    b->sum = b->left + size;
    return ES_OK;
}

/* Queries number `first` and on: z, q and e. */
static es_status draw_block(const es_sample *s, uint64_t seed, int64_t first, block *b,
                            es_error *err)
{
    const es_address at = {.seed = seed, .experiment = EXPERIMENT, .token = (uint64_t)first};
    const int64_t d = s->d;
    const es_view z = es_view_f64(b->z, BLOCK, d), M = es_view_f64(s->M, d, d);
    const es_view transposed = es_view_transpose(&M);
    ES_TRY(es_normal_rows(&at, BLOCK, d, b->z, err));
    ES_TRY(es_mat_multiply(&z, &transposed, s->budget, b->e, err));
    for (int64_t j = 0; j < BLOCK; j++)
        b->q[j] = normalise(b->e + j * d, d, j);
    return ES_OK;
}

es_status es_crowd_widen(es_sample *s, uint64_t seed, es_error *err)
{
    const int64_t count = crowd_size(s->d), d = s->d;
    block b;
    ES_TRY(block_make(s, &b, err));
    es_status status = ES_OK;
    for (int64_t first = 0; first < count && status == ES_OK; first += BLOCK) {
        status = draw_block(s, seed, first, &b, err);
        for (int64_t j = 0; j < BLOCK && status == ES_OK; j++) {
            s->highest = fmax(s->highest, b.q[j]);
            s->widest = fmax(s->widest, fabs(es_dot(b.e + j * d, b.z + j * d, d)));
        }
    }
    es_mem_free(s->budget, b.memory);
    return status;
}

/* ---- one query ---- */

es_asking es_ask(const es_expansions *s, const es_query *x, double trace)
{
    es_rem r;
    es_expansions_moments(s, x->q, &r);
    es_asking a = {.f = es_expansions_influence(s, x->q, x->ez)};
    a.m = a.f.along + r.mean;
    a.second = a.f.weight_squared * x->zQz + 2.0 * a.f.cross * x->eQz + a.f.square * x->eQe +
               a.f.part * (trace - x->eQe);
    a.missed = a.second + x->q * x->q * x->eQe - 2.0 * x->q * (a.f.weight * x->eQz + a.m * x->eQe);
    return a;
}

void es_query_features(const es_query *x, const es_rem *r, double out[ES_FEATURES])
{
    out[0] = x->q;
    out[1] = x->q * x->q;
    out[2] = r->participation;
    out[3] = r->error * x->eQe;
    out[4] = x->eQe;
}

/* tr(Q X Q X) of X = own zz' + cross (ze' + ez') + along ee' + part I. */
static double norm_of_one(const es_query *x, const es_influence *f, double trace2)
{
    const double own = f->weight_squared, cross = f->cross, along = f->along, part = f->part;
    /* C G with C = [own cross; cross along], G = [zz ze; ze ee] */
    const double a = own * x->zQz + cross * x->eQz, b = own * x->eQz + cross * x->eQe;
    const double c = cross * x->zQz + along * x->eQz, d = cross * x->eQz + along * x->eQe;
    return a * a + 2.0 * b * c + d * d + part * part * trace2 +
           2.0 * part * (own * x->zQQz + 2.0 * cross * x->eQQz + along * x->eQQe);
}

/* Variance of |Gamma|^2 across e: given the weights it is sum w^2 times a weighted chi-square, and
 * both vary. What all queries have in common, 1/n of sum w^2, is no part of their covariance. */
static double spread_of(const es_sample *s, const es_query *x, const es_rem *r, double n)
{
    const double T = s->trace - x->eQe, T2 = s->trace2 - 2.0 * x->eQQe + x->eQe * x->eQe;
    const double P = r->participation, own = fmax(P - 1.0 / n, 0.0);
    return fmax(r->participation_squared - P * P, 0.0) * (T * T + 2.0 * T2) + 2.0 * own * own * T2;
}

/* ---- sums ---- */

/* Sample sums of everything but the bias; f[0] and f[1] get what a query's second moment has beyond
 * its limit q^2 ee', which is taken out query by query, so that sampling noise is that of the
 * difference. */
static void add_query(es_crowd *c, const es_sample *s, const es_expansions *spectra,
                      const es_query *x, es_influence f[2])
{
    const double share = 1.0 / (double)c->count, q2 = x->q * x->q;
    const es_asking a = es_ask(spectra, x, s->trace);
    double features[ES_FEATURES];
    es_rem r;
    es_expansions_moments(spectra, x->q, &r);
    es_query_features(x, &r, features);
    for (int i = 0; i < ES_FEATURES; i++)
        c->features[i] += share * features[i];
    c->query += share * (x->eQe * r.error + (s->trace - x->eQe) * r.participation);
    c->missed += share * a.missed;
    c->second += share * a.second;
    c->fourth += share * (a.second * a.second + spread_of(s, x, &r, spectra->n));
    c->limit += share * q2 * x->eQe;
    c->reached += share * r.mean * r.mean * x->eQe;
    f[0] = (es_influence){.along = r.second - q2 - r.participation, .part = r.participation};
    f[1] = a.f;
    f[1].along = a.f.square - q2 - a.f.part;
    for (int mode = 0; mode < 2; mode++)
        c->noise[mode] += share * norm_of_one(x, &f[mode], s->trace2);
}

/* bias += (1/count) sum over the block of own zz' + cross (ze' + ez') + along ee' + part I, as
 * z'(own z + cross e) + e'(cross z + along e). */
static es_status add_bias(const es_crowd *c, const es_sample *s, const es_influence *f, int stride,
                          block *b, double *bias, es_error *err)
{
    const int64_t d = s->d;
    const es_view z = es_view_f64(b->z, BLOCK, d), e = es_view_f64(b->e, BLOCK, d);
    const es_view right[2] = {es_view_transpose(&z), es_view_transpose(&e)};
    const es_view left = es_view_f64(b->left, BLOCK, d);
    for (int side = 0; side < 2; side++) {
        for (int64_t j = 0; j < BLOCK; j++) {
            const es_influence *x = &f[j * stride];
            const double with_z = (side ? x->cross : x->weight_squared) / (double)c->count;
            const double with_e = (side ? x->along : x->cross) / (double)c->count;
            for (int64_t i = 0; i < d; i++)
                b->left[j * d + i] = with_z * b->z[j * d + i] + with_e * b->e[j * d + i];
        }
        ES_TRY(es_mat_multiply(&right[side], &left, s->budget, b->sum, err));
        for (int64_t i = 0; i < d * d; i++)
            bias[i] += b->sum[i];
    }
    for (int64_t j = 0; j < BLOCK; j++)
        for (int64_t i = 0; i < d; i++)
            bias[i * (d + 1)] += f[j * stride].part / (double)c->count;
    return ES_OK;
}

/* Adds BLOCK more queries to the averages of the crowd: the quadratic forms of each query, its
 * two influence functions (fresh, and as a token), and their contribution to the bias of the
 * covariance. */
static es_status add_block(es_crowd *c, const es_sample *s, const es_expansions *spectra, block *b,
                           es_error *err)
{
    const int64_t d = s->d;
    const es_view Q = es_view_f64(s->Q, d, d);
    const es_view z = es_view_f64(b->z, BLOCK, d), e = es_view_f64(b->e, BLOCK, d);
    es_influence f[2 * BLOCK];
    ES_TRY(es_mat_multiply(&z, &Q, s->budget, b->zQ, err));
    ES_TRY(es_mat_multiply(&e, &Q, s->budget, b->eQ, err));
    for (int64_t j = 0; j < BLOCK; j++) {
        const double *zj = b->z + j * d, *ej = b->e + j * d;
        const double *zQ = b->zQ + j * d, *eQ = b->eQ + j * d;
        const es_query x = {.q = fmax(b->q[j], s->lowest),
                            .ez = es_dot(ej, zj, d),
                            .eQe = es_dot(ej, eQ, d),
                            .eQz = es_dot(eQ, zj, d),
                            .zQz = es_dot(zj, zQ, d),
                            .eQQe = es_dot(eQ, eQ, d),
                            .eQQz = es_dot(eQ, zQ, d),
                            .zQQz = es_dot(zQ, zQ, d)};
        add_query(c, s, spectra, &x, f + 2 * j);
    }
    for (int mode = 0; mode < 2; mode++)
        ES_TRY(add_bias(c, s, f + mode, 2, b, c->bias[mode], err));
    return ES_OK;
}

es_status es_crowd_make(const es_sample *s, const es_expansions *spectra, uint64_t seed,
                        es_crowd *out, es_error *err)
{
    const int64_t d = s->d;
    block b;
    *out = (es_crowd){.count = crowd_size(d), .d = d, .budget = s->budget};
    ES_TRY(ES_MEM_NEW_2D(s->budget, out->memory, 2 * d, d, "prediction", err));
    out->bias[0] = out->memory;
    out->bias[1] = out->bias[0] + d * d;
    es_status status = block_make(s, &b, err);
    if (status == ES_OK) {
        for (int64_t first = 0; first < out->count && status == ES_OK; first += BLOCK) {
            status = draw_block(s, seed, first, &b, err);
            if (status == ES_OK)
                status = add_block(out, s, spectra, &b, err);
        }
        es_mem_free(s->budget, b.memory);
    }
    if (status != ES_OK)
        es_crowd_free(out);
    return status;
}

void es_crowd_free(es_crowd *c)
{
    es_mem_free(c->budget, c->memory);
    c->memory = NULL;
}

/* ---- the covariance of outputs ---- */

/* X (d, d) = bias + a I + b (M + M') + c MM', whitened. */
static es_status quadratic(const es_sample *s, const double *bias, double a, double b, double c,
                           double *X, es_error *err)
{
    const int64_t d = s->d;
    const double *M = s->M;
    const es_view view = es_view_f64(M, d, d), transposed = es_view_transpose(&view);
    ES_TRY(es_mat_multiply(&view, &transposed, s->budget, X, err));
    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k < d; k++)
            X[i * d + k] = bias[i * d + k] + c * X[i * d + k] + b * (M[i * d + k] + M[k * d + i]) +
                           (i == k ? a : 0.0);
    return ES_OK;
}

/* tr QX and tr QXQX. QX (d, d) is scratch. */
static es_status traces_of(const es_sample *s, const double *X, double *QX, double *one,
                           double *square, es_error *err)
{
    const int64_t d = s->d;
    const es_view Q = es_view_f64(s->Q, d, d), x = es_view_f64(X, d, d);
    ES_TRY(es_mat_multiply(&Q, &x, s->budget, QX, err));
    *one = *square = 0.0;
    for (int64_t i = 0; i < d; i++) {
        *one += QX[i * d + i];
        for (int64_t k = 0; k < d; k++)
            *square += QX[i * d + k] * QX[k * d + i];
    }
    return ES_OK;
}

es_status es_crowd_covariance(const es_crowd *c, const es_sample *s, int mode, double mean,
                              double k, es_expected *out, es_error *err)
{
    const int64_t d = s->d;
    const double N = (double)c->count, *bias = c->bias[mode];
    double *memory;
    ES_TRY(ES_MEM_NEW_2D(s->budget, memory, 4 * d, d, "prediction", err));
    double *zero = memory, *X = zero + d * d, *QX = X + d * d;
    double trace = 0.0, square = 0.0, plain = 0.0; /* of a step that fails, too */
    es_status status = quadratic(s, zero, 1.0, k, k * k, X, err);
    if (status == ES_OK)
        status = traces_of(s, X, QX, &trace, &square, err);
    const double scale = trace > 0.0 ? -mean / trace : 0.0;
    if (status == ES_OK)
        status = traces_of(s, bias, QX, &trace, &plain, err);
    if (status == ES_OK)
        status = quadratic(s, bias, scale, scale * k, scale * k * k, X, err);
    if (status == ES_OK)
        status = traces_of(s, X, QX, &out->trace, &square, err);
    /* |X_j + Cov m|^2 on average over queries */
    out->square = fmax((N * square - (c->noise[mode] + square - plain)) / (N - 1.0), 0.0);
    if (status == ES_OK)
        status = quadratic(s, bias, scale, scale * k, 1.0 + scale * k * k, X, err);
    if (status == ES_OK)
        status = traces_of(s, X, QX, &trace, &out->whole, err);
    es_mem_free(s->budget, memory);
    return status;
}
