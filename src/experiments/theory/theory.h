/* SPDX-License-Identifier: Apache-2.0 */
/* theory.h : the study `theory` answers from a covariance and a head's matrices
 * (theory/question.c), or from weights and values as they are (theory/draws.c). */
#ifndef ES_EXPERIMENTS_THEORY_H
#define ES_EXPERIMENTS_THEORY_H

#include "risk/draw_risk.h"

#include "experiments/kit/setting_params.h"

typedef struct theory_params {
    es_law_params law; /* of it: dim, cov, rho */
    es_head_params head;
    double tolerance;
    es_grid n;
    int64_t samples;
    const char *scores, *weights, *values;
    double below;
} theory_params;

typedef struct theory_state {
    es_matrix cov;
    es_head_data head;
    es_draw_input input;
    es_matrix scores, values; /* (queries, keys), (keys, channels) */
    int64_t *sizes;           /* n, then powers of two */
} theory_state;

/*! theory_draws_asked() : returns whether weights or scores are given. */
bool theory_draws_asked(const theory_params *p);

/*! theory_draws_open(), theory_draws_summarise() : the error of attention over n keys that are
 *  drawn from those given, for every n. */
es_status theory_draws_open(es_job *job, es_error *err);
es_status theory_draws_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
