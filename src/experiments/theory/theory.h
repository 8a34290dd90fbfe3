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

/* One question: its parts of the descriptor es_study. */
typedef struct theory_question {
    es_status (*open)(es_job *job, es_error *err);
    es_status (*summarise)(es_job *job, es_answer *answer, es_error *err);
} theory_question;

typedef struct theory_state {
    const theory_question *question;
    es_matrix cov;
    es_head_data head;
    es_draw_input input;
    es_matrix scores, values; /* (queries, keys), (keys, channels) */
    int64_t *sizes;           /* n, then powers of two */
} theory_state;

/*! theory_draws_asked() : returns whether weights or scores are given. */
bool theory_draws_asked(const theory_params *p);

/* The error of attention over n keys that are drawn from those given, for every n. */
extern const theory_question theory_draws;

#endif
