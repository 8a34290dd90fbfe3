/* ball_study.h : the parts of the study `ball`.
 *
 *     ball_study.c     parameters, replicates: what is asked and measured
 *     ball_summary.c   from suprema of all replicates to rows, rates in n, growth in R, findings
 */
#ifndef ES_STUDY_BALL_STUDY_H
#define ES_STUDY_BALL_STUDY_H

#include <esscher/ball.h>

#include "study/head_params.h"
#include "study/law_params.h"

typedef struct ball_params {
    es_law_params law;
    es_head_params head;
    es_grid sizes, radii;
    int64_t replicates, starts;
} ball_params;

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

/* Columns of a cell, whose rows are (sizes, radii). */
enum { BALL_SUP, BALL_RADIUS, BALL_COLUMNS };

es_status ball_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
