/* question.h : the study `picture`: what is asked and computed is in picture/question.c, what the
 * answer makes of it in picture/rows.c. */
#ifndef ES_EXPERIMENTS_PICTURE_QUESTION_H
#define ES_EXPERIMENTS_PICTURE_QUESTION_H

#include "experiments/picture/picture.h"

#include "experiments/kit/pool_params.h"
#include "experiments/kit/setting_params.h"

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

/* Rows of the plane's one cell after the points. */
enum {
    PICTURE_SHARES,   /* of the variance that the first two principal components have */
    PICTURE_TRUST,    /* trustworthiness, continuity */
    PICTURE_DESCENT,  /* divergence, slope at the end */
    PICTURE_AFFINITY, /* perplexity_off, tied */
    PICTURE_FACTS
};

typedef struct picture_state {
    es_law_data law;
    es_head_data head;
    es_pools pools; /* of a model */
    es_picture_spec spec;
    int64_t channels, sets, points; /* sets: all n, and the limit, which is the last */
    int64_t neighbours;             /* of trust */
} picture_state;

/* Outputs (queries, channels + 1) of a set in a finished run, the last column being their error. */
static inline const double *picture_outputs(const es_job *job, int64_t set)
{
    return es_job_numbers(job, PICTURE_OUTPUT, set);
}

es_status picture_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
