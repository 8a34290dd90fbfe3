/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h : the parts of the driver.
 *
 *     params.c        parses values of parameters into a study's struct
 *     numbers.c       numbers and grids from text
 *     fingerprint.c   describes everything that determines the numbers of a run
 *     jobs.c          functions that a study may call: files, models, memory
 *     outputs.c       checks that no output overwrites an input
 *     keep.c          the run file: cells that exist, tables that are finished
 *     cells.c         cells of a stage, in memory or in a temporary file
 *     fold.c          stages whose cells are made of parts that are folded in order
 *     shards.c        runs a share of the cells while other processes run theirs
 *     driver.c        the run, from parameters to the answer
 */
#ifndef ES_DRIVER_DRIVER_H
#define ES_DRIVER_DRIVER_H

#include <pthread.h>

#include <esscher/run.h>

#include "driver/job.h"

/* Cells [from, to) of a stage. */
typedef struct es_share {
    int64_t from, to;
} es_share;

/* One run of a study. */
typedef struct es_driver {
    es_job job;
    const es_study_opts *opts;
    es_cost cost;
    es_run *run; /* NULL: nothing is kept */
    int64_t stage_ids[ES_MOST_STAGES];
    int files[ES_MOST_STAGES];      /* of stages whose cells are on disk; 0: none */
    int stage;                      /* under way; -1: none yet */
    int64_t done;                   /* cells of it that are there */
    int64_t cell;                   /* under way, where one comes after the other */
    double weight_done, weight_all; /* of its cells */
    bool stop;                      /* a stop was requested */
    const char *phase;
    double flops_phase, flops_left; /* of this phase; of it and of all that comes after it */
    double begun;                   /* share of the run that was done when the phase began */
    double share;                   /* last reported value: it never falls */
    double kept;                    /* of that, what the run file held */
    bool moved;                     /* this phase has reported progress */

    bool shared_out;                   /* this is a shard: what follows is set */
    es_share share_at[ES_MOST_STAGES]; /* its cells of each stage */
    bool *have[ES_MOST_STAGES];        /* (cells) numbers that are there */
    pthread_mutex_t needing;           /* one cell of another shard at a time */
} es_driver;

void es_driver_phase(es_driver *d, const char *phase, double flops);

/*! es_driver_report() : `done` of `total` of the phase under way is there. @return : stop? */
bool es_driver_report(es_driver *d, double done, double total);

/*! es_driver_resumed() : d->weight_done of d->weight_all of a stage was there before it began. */
void es_driver_resumed(es_driver *d);

/* ---- cells.c ---- */

/*! es_cells_new() : makes a place for the cells of stage s, zeros in memory or a temporary file.
 *  es_cells_close() : closes the files; fine in any case. @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY;
 *  ES_E_IO. */
es_status es_cells_new(es_driver *d, int s, es_error *err);
void es_cells_close(es_driver *d);

/*! es_cells_put() : stores a cell. es_cells_get() : copies `count` numbers of one, from `first` on.
 *  @return : ES_OK; ES_E_IO for a stage on disk. */
es_status es_cells_put(es_driver *d, int s, int64_t cell, const double *values, es_error *err);
es_status es_cells_get(const es_driver *d, int s, int64_t cell, int64_t first, int64_t count,
                       double *out, es_error *err);

/*! es_cells_load() : reads a cell from the run file, which has it. es_cells_share() : gives all
 *  ranks the cells of rank 0; every rank calls it. */
es_status es_cells_load(es_driver *d, int s, int64_t cell, es_error *err);
es_status es_cells_share(es_driver *d, int s, es_error *err);

/* ---- fold.c ---- */

/*! es_fold_stage() : the stage under way, computed in groups and parts; `missing` has space for all
 *  its cells. */
es_status es_fold_stage(es_driver *d, int64_t *missing, es_error *err);

/*! es_fold_needed() : the group that a cell of stage s is in, now, by this process. */
es_status es_fold_needed(es_driver *d, int s, int64_t cell, const es_exec *exec, es_error *err);

/* ---- fingerprint.c ---- */

/* Parameters as pairs of key and text; memory is the arena's. */
typedef struct es_fingerprint {
    es_run_pair *pairs;
    int64_t count;
} es_fingerprint;

es_status es_fingerprint_make(const es_job *job, const es_isa *isa, es_arena *arena,
                              es_fingerprint *out, es_error *err);

/*! es_fingerprint_text() : the same and the program itself as lines of "key: value", for ranks to
 *  compare; memory is the job's. */
es_status es_fingerprint_text(es_job *job, const char **out, es_error *err);

/* ---- shards.c ---- */

enum { ES_MOST_SHARDS = 1000000 };

/*! es_share_of() : the share of shard 1 <= shard <= shards of a stage; weight NULL: cells are
 *  alike. Every cell is in one of the shares, which follow each other; some may be empty. */
void es_share_of(int64_t cells, double (*weight)(void *user, int64_t cell), void *user,
                 int64_t shard, int64_t shards, es_share *out);

/*! es_share_check() : refuses shards that make no sense. */
es_status es_share_check(const es_study *study, const es_study_opts *opts, es_error *err);

/*! es_share_begin() : finds this shard's cells, once all stages are known, and notes them in the
 *  run file; a run without shards is left as it is. es_share_end() : frees them; fine in any case.
 */
es_status es_share_begin(es_driver *d, es_error *err);
void es_share_end(es_driver *d);

/*! es_share_at(), es_share_cells() : the share of stage s, and how many cells it has: all, if this
 *  is no shard. es_share_pick() : of the cells that are missing, those in it. */
es_share es_share_at(const es_driver *d, int s);
int64_t es_share_cells(const es_driver *d, int s);
void es_share_pick(const es_driver *d, int s, int64_t *missing, int64_t *count);

/*! es_share_report() : puts what a shard did into its answer, instead of a summary.
 * es_share_price() : reduces the cost of a dry run to this shard's part. */
void es_share_report(const es_driver *d);
void es_share_price(const es_driver *d);

/* ---- outputs.c ---- */

/*! es_outputs_check() : fails if the run would write a file that it reads.
 *  @return : ES_OK; ES_E_ARGUMENT (file.input). */
es_status es_outputs_check(es_job *job, es_error *err);

/* ---- keep.c ---- */

/*! es_keep_open() : create or resume the run file that opts->out names, if any. */
es_status es_keep_open(es_driver *d, es_error *err);

/*! es_keep_find() : cells of stage s that the file has, into their places; numbers of the others
 *  into missing (cells), and how many. */
es_status es_keep_find(es_driver *d, int s, int64_t *missing, int64_t *count, es_error *err);

es_status es_keep_cell(es_driver *d, int s, int64_t cell, const double *values, es_error *err);

/*! es_keep_tables() : stores every table of the answer, the descriptions of their columns, single
 *  results and findings. */
es_status es_keep_tables(es_run *run, const es_answer *answer, es_error *err);

#endif
