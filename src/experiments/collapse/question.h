/* question.h : the study `collapse`: what it asks and draws is in collapse/question.c, what it
 * makes of it in collapse/rows.c. */
#ifndef ES_EXPERIMENTS_COLLAPSE_QUESTION_H
#define ES_EXPERIMENTS_COLLAPSE_QUESTION_H

#include "experiments/collapse/collapse.h"

#include "driver/job.h"

typedef struct collapse_params {
    es_grid n, rho, gamma, times, contexts;
    int64_t dim, replicates, queries, train;
    double alpha, square, train_gamma, yarn;
    bool phase, curves;
} collapse_params;

typedef struct collapse_state {
    int64_t gammas; /* of each (n, rho) */
    int64_t pairs;  /* (n, rho) that are drawn, n before rho: the first of all pairs */
} collapse_state;

/*! collapse_gamma() : score scale number g at rho. */
double collapse_gamma(const collapse_params *p, double rho, int64_t g);

es_status collapse_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
