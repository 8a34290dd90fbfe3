/* SPDX-License-Identifier: Apache-2.0 */
/* run_pairs.h : figures of two runs that belong together: rows with the same keys, columns with a
 * standard error in both. */
#ifndef ES_EXPERIMENTS_KIT_RUN_PAIRS_H
#define ES_EXPERIMENTS_KIT_RUN_PAIRS_H

#include "stats/multiple.h"
#include <esscher/run.h>

#include "driver/job.h"

/* One of the two runs. */
typedef struct es_run_side {
    es_run *run;
    double freedom; /* of a standard error; NaN: unknown */
} es_run_side;

/* One figure of both. */
typedef struct es_figure_pair {
    const char *table, *at, *quantity; /* the job's */
    es_grouped first, second;
    es_welch_test test;
    double p;      /* corrected */
    int64_t found; /* in this order: that of equal t */
} es_figure_pair;

/* Both runs and all pairs of numbers found in them. */
typedef struct compare_state {
    es_run_side sides[2];
    es_figure_pair *pairs; /* (count) */
    double *p;             /* (count) space for numbers of pairs */
    int64_t count, capacity;
    int64_t alone; /* rows without a partner */
} compare_state;

/*! es_run_pairs() : every pair of job->state, a compare_state whose sides are open: tested by
 *  Welch's t, corrected by Holm, each figure once, the largest t first. */
es_status es_run_pairs(es_job *job, es_error *err);

#endif
