/* SPDX-License-Identifier: Apache-2.0 */
/* question.h : what the files of the study `picture` share: parameters, cells and state.
 * question.c asks and computes, rows.c makes tables and findings. */
#ifndef ES_EXPERIMENTS_PICTURE_QUESTION_H
#define ES_EXPERIMENTS_PICTURE_QUESTION_H

#include "experiments/picture/picture.h"

#include "experiments/kit/pool_params.h"
#include "experiments/kit/setting_params.h"

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
extern const char *const picture_methods[]; /* "tsne", "pca" */

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
