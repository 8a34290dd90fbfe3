/* SPDX-License-Identifier: Apache-2.0 */
/* evict_expected.c : keys by the weight that queries to come are expected to give them (Expected
 * Attention, KVPress).
 *
 * With S sinks, queries q0_i before rotary positions have mean mu and covariance C over S <= i < P.
 * R is the mean of the rotary matrix over the next `future` places, mu' = R mu, C' = R C R'. If a
 * query to come is normal with these moments, its score on k_j has the log-MGF
 *
 *     t_j = scale k_j.mu' + (scale^2 / 2) k_j' C' k_j,       e = softmax of t over S <= j < P,
 *     s_j = (mean over heads of e_j + eps) |v_j|
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "cache/evict_row.h"
#include "linalg/dense.h"
#include "stats/weigh.h"

/* What one head's expectation is computed in. */
typedef struct scratch {
    double *mean;    /* (d) mu, then mu' */
    double *cov;     /* (d, d) C, then C' */
    double *turn;    /* (d, d) R */
    double *other;   /* (d, d) R', then R C */
    double *row;     /* (d) */
    double *columns; /* (d, P) queries less their mean, by channel */
    double *keys;    /* (P, d) */
    double *product; /* (P, d) keys times C' */
    double *t, *e;   /* (P) */
    double *memory;
} scratch;

static es_status scratch_new(const es_evict_prompt *p, scratch *r, es_error *err)
{
    const int64_t d = p->k.cols, P = p->prompt;
    ES_TRY(ES_MEM_NEW(p->budget, r->memory, d * (3 * d + 2) + P * (3 * d + 2), "expected queries",
                      err));
    r->mean = r->memory;
    r->cov = r->mean + d;
    r->turn = r->cov + d * d;
    r->other = r->turn + d * d;
    r->row = r->other + d * d;
    r->columns = r->row + d;
    r->keys = r->columns + P * d;
    r->product = r->keys + P * d;
    r->t = r->product + P * d;
    r->e = r->t + P;
    for (int64_t j = 0; j < P; j++)
        es_view_read_row(&p->k, j, r->keys + j * d);
    return ES_OK;
}

/* Mean and covariance of a head's queries from place S on. */
static void moments(const es_evict_prompt *p, const es_evict_head *h, int64_t S, const scratch *r)
{
    const int64_t d = p->k.cols, count = p->prompt - S;
    const es_view columns = es_view_f64(r->columns, d, count);
    memset(r->mean, 0, (size_t)d * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        es_view_read_row(&h->plain_q, S + i, r->row);
        for (int64_t c = 0; c < d; c++) {
            r->columns[c * count + i] = r->row[c];
            r->mean[c] += r->row[c] / (double)count;
        }
    }
    for (int64_t i = 0; i < d * count; i++)
        r->columns[i] -= r->mean[i / count];
    es_gemm_views(&columns, &columns, r->cov, d);
    for (int64_t i = 0; i < d * d; i++)
        r->cov[i] /= (double)count;
}

/* Finds R, the same for all heads: it turns the unit vectors, which gives the rows of R'. */
static es_status find_turn(const es_evict_spec *spec, const es_evict_prompt *p, const scratch *r,
                           es_error *err)
{
    const int64_t d = p->k.cols;
    if (!p->turn)
        return ES_OK;
    memset(r->other, 0, (size_t)(d * d) * sizeof(double));
    for (int64_t i = 0; i < d; i++)
        r->other[i * d + i] = 1.0;
    ES_TRY(p->turn(p->context, p->prompt, spec->future, d, r->other, err));
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++)
            r->turn[j * d + i] = r->other[i * d + j];
    return ES_OK;
}

/* mu becomes R mu, and C becomes R C R'. */
static void turn_moments(const es_evict_prompt *p, const scratch *r)
{
    const int64_t d = p->k.cols;
    const es_view turn = es_view_f64(r->turn, d, d), cov = es_view_f64(r->cov, d, d);
    const es_view other = es_view_f64(r->other, d, d), mean = es_view_f64(r->mean, 1, d);
    if (!p->turn)
        return;
    es_gemm_views(&turn, &cov, r->other, d); /* C is symmetric */
    es_gemm_views(&other, &turn, r->cov, d);
    es_gemm_views(&mean, &turn, r->row, d);
    memcpy(r->mean, r->row, (size_t)d * sizeof(double));
}

/* t (P) of all keys from S on. */
static void log_mgf(const es_evict_spec *spec, const es_evict_prompt *p, int64_t S,
                    const scratch *r)
{
    const int64_t d = p->k.cols;
    const es_view keys = es_view_f64(r->keys, p->prompt, d), cov = es_view_f64(r->cov, d, d);
    if (spec->covariance)
        es_gemm_views(&keys, &cov, r->product, d); /* C' is symmetric */
    for (int64_t j = S; j < p->prompt; j++) {
        const double *k = r->keys + j * d, *ck = r->product + j * d;
        double linear = 0.0, quadratic = 0.0;
        for (int64_t c = 0; c < d; c++) {
            linear += k[c] * r->mean[c];
            quadratic += spec->covariance ? k[c] * ck[c] : 0.0;
        }
        r->t[j] = p->scale * linear + 0.5 * p->scale * p->scale * quadratic;
    }
}

static double value_norm(const es_evict_prompt *p, int64_t j, double *row)
{
    double squares = 0.0;
    es_view_read_row(&p->v, j, row);
    for (int64_t c = 0; c < p->v.cols; c++)
        squares += row[c] * row[c];
    return sqrt(squares);
}

/* Adds e of all heads of the unit to score (P). */
static es_status add_heads(const es_evict_spec *spec, const es_evict_prompt *p, int64_t S,
                           const scratch *r, double *score, es_error *err)
{
    ES_TRY(find_turn(spec, p, r, err));
    for (int64_t h = 0; h < p->count; h++) {
        moments(p, &p->heads[p->first + h], S, r);
        turn_moments(p, r);
        log_mgf(spec, p, S, r);
        es_weigh(r->t + S, p->prompt - S, r->e + S);
        for (int64_t j = S; j < p->prompt; j++)
            score[j] += r->e[j] / (double)p->count;
    }
    return ES_OK;
}

static es_status score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                       es_error *err)
{
    const int64_t S = spec->sinks;
    scratch r;
    memset(score, 0, (size_t)p->prompt * sizeof *score);
    if (S >= p->prompt)
        return ES_OK;
    ES_TRY(scratch_new(p, &r, err));
    const es_status status = add_heads(spec, p, S, &r, score, err);
    for (int64_t j = S; j < p->prompt && status == ES_OK; j++)
        score[j] = (score[j] + spec->eps * (double)(spec->vnorm > 0)) *
                   (spec->vnorm ? value_norm(p, j, r.row) : 1.0);
    es_mem_free(p->budget, r.memory);
    return status;
}

static int64_t last(const es_evict_spec *spec) { return spec->recent; }

const es_eviction es_eviction_row_expected = {
    .name = "expected",
    .about = "keys that queries to come are expected to look at",
    .source = "Expected Attention (arXiv 2510.00636), as in kvpress",
    .takes =
        ES_TAKES_RECENT | ES_TAKES_FUTURE | ES_TAKES_COVARIANCE | ES_TAKES_VNORM | ES_TAKES_EPS,
    .own = {.sinks = 4, .future = 512, .covariance = 1, .vnorm = 1},
    .plain = true,
    .score = score,
    .last = last};
