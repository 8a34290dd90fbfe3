/* SPDX-License-Identifier: Apache-2.0 */
/* picture.h : the outputs of one head for some queries, over n tokens and in the limit: what a
 * picture of convergence is made of.
 *
 * A head is one of a law's tokens (converge.h) or one of a real model (probe.h):
 *
 *     law     queries and tokens are drawn from the law; the limit is Gamma(x), which limit.h knows
 *     pool    queries are tokens of the pool, those that `probe` with the same seed asks first; n
 *             tokens are drawn with replacement, those of its replicate 0; the limit is attention
 *             over the whole pool, which is a sample itself: half of what its halves differ by is
 *             given beside it
 *
 *     es_picture_spec spec = {.law = &law, .head = &head, .scale = 1.0, .queries = 300, .seed = 7};
 *     es_picture_outputs(&spec, 1024, y, &err);              y (queries, es_picture_channels())
 *     es_picture_limit(&spec, limit, error, &err);
 *
 * The tokens of a smaller n are the first of those of a larger one. Outputs are pure functions of
 * (seed, n) with the same bits for any number of threads; kernels are those of f64. Memory is
 * O((queries + tile) width), beside 8 n bytes for the rows of a pool.
 */
#ifndef ES_EXPERIMENTS_PICTURE_PICTURE_H
#define ES_EXPERIMENTS_PICTURE_PICTURE_H

#include <esscher/exec.h>

#include "experiments/kit/pool_params.h"
#include "experiments/kit/setting_params.h"
#include "head/head.h"
#include "law/law.h"
#include "model/pool.h"

/* Whose outputs are shown: a law's or a head's. */
typedef struct es_picture_spec {
    const es_law *law; /* tokens of a law, seen by `head` with scores times `scale` >= 0 */
    const es_head *head;
    double scale;
    const es_model *model; /* or, law being NULL: head `number` of a layer of this model, and a
                              pool of its tokens */
    const es_pool *pool;
    int64_t layer, number;
    int64_t queries; /* of a pool at most its tokens */
    uint64_t seed;
    const es_exec *exec;
} es_picture_spec;

/*! es_picture_channels() : numbers of an output; without the pool, which need not exist yet. */
int64_t es_picture_channels(const es_picture_spec *spec);

/*! es_picture_outputs() : outputs over the first n >= 1 tokens, out (queries, channels). O(n
 *  (queries + width) width) time. Progress counts tokens.
 *  @return : ES_OK; ES_E_RANGE (picture.queries, picture.sizes, picture.head, probe.layer);
 *  ES_E_SHAPE (probe.pool); as es_tokens_fill(), es_pool_gather() and es_attend(). */
es_status es_picture_outputs(const es_picture_spec *spec, int64_t n, double *out, es_error *err);

/*! es_picture_limit() : the limit's outputs, out (queries, channels), and error (queries): a bound
 *  on the Euclidean error of each; of a pool, half of the distance between its halves' outputs.
 *  @return : likewise; as es_limit_map(): ES_E_RANGE for laws that have no limit at a query. */
es_status es_picture_limit(const es_picture_spec *spec, double *out, double *error, es_error *err);

/*! es_picture_cost_of() : operations of es_picture_outputs() at n, and memory that it takes at
 * most; of a pool of `tokens` with n = tokens, those of es_picture_limit(). */
typedef struct es_picture_cost {
    double flops, bytes;
} es_picture_cost;
es_picture_cost es_picture_cost_of(const es_picture_spec *spec, int64_t n);

/* ---- the study ---- */

/* what the files of the study `picture` share: parameters, cells and state.
 * question.c asks and computes, rows.c makes tables and findings. */

/* The options. */
typedef struct picture_params {
    es_law_params law;
    es_head_params head;
    es_pool_params pool;
    const char *which; /* --head: a kind, or a number */
    double scale, perplexity;
    int64_t layer, queries, steps;
    es_grid sizes;
    int method;
} picture_params;

enum { PICTURE_TSNE = 0, PICTURE_PCA = 1 };

enum { PICTURE_OUTPUT, PICTURE_PLANE }; /* stages */

/* The plane is one cell: a record for each point, and after them the plane's quality, which run
 * files hold as four more records. */
typedef struct picture_place {
    double x, y;
} picture_place;

/* How far the picture can be trusted. */
typedef struct picture_quality {
    double shares[2]; /* of the variance that the first two principal components have */
    double trustworthiness, continuity;
    double divergence, slope; /* of t-SNE, at the end of descent; 0 otherwise */
    double perplexity_off, tied;
} picture_quality;

enum { PICTURE_QUALITY_RECORDS = sizeof(picture_quality) / sizeof(picture_place) };

/* What the options make: sizes, outputs and layout. */
typedef struct picture_state {
    es_law_data law;
    es_head_data head;
    es_pools pools; /* of a model */
    es_picture_spec spec;
    int64_t channels, sets, points; /* sets: all n, and the limit, which is the last */
    int64_t neighbours;             /* of trust */
} picture_state;

/*! picture_outputs() : outputs (queries, channels + 1) of a set in a finished run, the last column
 *  being their error. picture_quality_of() : the quality of its plane. */
static inline const double *picture_outputs(const es_job *job, int64_t set)
{
    return es_job_numbers(job, PICTURE_OUTPUT, set);
}

static inline const picture_quality *picture_quality_of(const es_job *job)
{
    const picture_state *s = job->state;
    const picture_place *plane = es_job_cell(job, PICTURE_PLANE, 0);
    return (const picture_quality *)(const void *)(plane + s->points);
}

es_status picture_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
