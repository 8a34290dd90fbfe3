/* SPDX-License-Identifier: Apache-2.0 */
/* question.h : what the experiment on a ball is asked, shared by question.c and rows.c. */
#ifndef ES_EXPERIMENTS_BALL_QUESTION_H
#define ES_EXPERIMENTS_BALL_QUESTION_H

#include "experiments/ball/ball.h"
#include "experiments/kit/setting_params.h"

/* The options. */
typedef struct ball_params {
    es_law_params law;
    es_head_params head;
    es_grid sizes, radii;
    int64_t replicates, starts;
} ball_params;

/* What the options make: law, head and the constants of each radius. */
typedef struct ball_state {
    es_law_data law;
    es_head_data head;
    es_ball_spec spec;
    es_exec alone; /* what a replicate is given: one thread, silent */
    es_ball *ball;
    double h1;                   /* H1 = |S^{1/2} A| */
    es_ball_constant *constants; /* (radii) of the worst single query */
    es_num *sups;                /* (radii) of the supremum, in at most 2 dimensions; else NaN */
} ball_state;

/*! ball_summarise() : makes rows, the rate in n for each R, the growth in R for each n, findings. A
 *  cell is a replicate, es_ball_cell at each (size, radius). */
es_status ball_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
