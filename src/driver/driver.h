/* driver.h : the parts of the driver.
 *
 *     params.c        values out of text, in a study's struct
 *     fingerprint.c   what determines the numbers, as a run file knows it
 *     jobs.c          what a study may ask for
 *     executor.c      who computes cells
 *     keep.c          the run file: cells that are there, tables that are finished
 *     driver.c        the run, from parameters to the answer
 */
#ifndef ES_DRIVER_DRIVER_H
#define ES_DRIVER_DRIVER_H

#include <esscher/run.h>

#include "driver/job.h"

/* One run of a study. */
typedef struct es_driver {
    es_job job;
    const es_study_opts *opts;
    es_cost cost;
    es_run *run; /* NULL: nothing is kept */
    int64_t stage_ids[ES_MOST_STAGES];
    int stage;                      /* under way; -1: none yet */
    int64_t done;                   /* cells of it that are there */
    int64_t cell;                   /* under way, where one comes after the other */
    double weight_done, weight_all; /* of its cells */
    bool stop;                      /* somebody asked to */
    const char *phase;
    double flops_phase, flops_left; /* of this phase; of it and of all that comes after it */
    double begun;                   /* share of the run that was done when the phase began */
    double share;                   /* what was told last: it never falls */
    double kept;                    /* of that, what the run file held */
    bool moved;                     /* something of this phase was told */
} es_driver;

void es_driver_phase(es_driver *d, const char *phase, double flops);

/* ---- fingerprint.c ---- */

/* Parameters as pairs of key and text; memory is the arena's. */
typedef struct es_fingerprint {
    es_run_pair *pairs;
    int64_t count;
} es_fingerprint;

es_status es_fingerprint_make(const es_job *job, const es_isa *isa, es_arena *arena,
                              es_fingerprint *out, es_error *err);

/* ---- keep.c ---- */

/*! es_keep_open() : create or resume the run file that opts->out names, if any. */
es_status es_keep_open(es_driver *d, es_error *err);

/*! es_keep_find() : cells of stage s that the file has, into their places; numbers of the others
 *  into missing (cells), and how many. */
es_status es_keep_find(es_driver *d, int s, int64_t *missing, int64_t *count, es_error *err);

es_status es_keep_cell(es_driver *d, int s, int64_t cell, const double *values, es_error *err);

/*! es_keep_tables() : every table of the answer, what is said about their columns, results that
 *  stand alone, findings. */
es_status es_keep_tables(es_run *run, const es_answer *answer, es_error *err);

#endif
