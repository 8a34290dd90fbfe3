/* SPDX-License-Identifier: Apache-2.0 */
/* job.h : a study while it runs: what its functions find and what they may ask for. */
#ifndef ES_DRIVER_JOB_H
#define ES_DRIVER_JOB_H

#include <esscher/model.h>
#include <esscher/study.h>

#include "base/memory.h"

enum { ES_MOST_STAGES = 8, ES_JOB_MODELS = 2 };

struct es_job {
    const es_study *study;
    void *params;     /* the study's struct; open() completes it */
    void *state;      /* the study's own */
    es_params *given; /* for es_params_given() */
    uint64_t seed;
    es_dtype
        precision; /* ES_F32 unless asked otherwise; open() may change it if !precision_given */
    bool precision_given;
    bool dry_run;      /* only the cost is asked for: it may be measured by trials */
    size_t max_memory; /* 0: no limit */
    es_exec exec;      /* for begin() and summarise(): its progress is that of their phase */
    es_answer *answer;
    const char *out; /* run file; NULL: none */
    bool force;      /* files that exist are overwritten */
    int64_t shards;  /* of this run, which may all be at work on its files right now; 0: none */
    es_arena arena;  /* freed after close() */

    es_stage stages[ES_MOST_STAGES];
    double *cells[ES_MOST_STAGES]; /* (cells, rows, cols) of each stage, once they are there; NULL
                                      of one that is on disk */
    int n_stages;
    es_model *models[ES_JOB_MODELS]; /* (n_models) of es_job_model() */
    int n_models;
    double matrix_bytes; /* of all es_job_matrix() */

    void *driver; /* of the run that this job is part of */
};

/*! ES_JOB_NEW(), ES_JOB_NEW_2D() : as ES_ARENA_NEW(), from the job's arena; a message names the
 *  study. */
#define ES_JOB_NEW(job, ptr, count, err) ES_JOB_NEW_2D(job, ptr, count, 1, err)
#define ES_JOB_NEW_2D(job, ptr, rows, cols, err)                                                   \
    es_job_array((job), (rows), (cols), sizeof *(ptr), &(ptr), (err))

es_status es_job_array(es_job *job, int64_t rows, int64_t cols, size_t element, void *out,
                       es_error *err);

/*! es_job_model() : open a model of the study, in open(); ES_JOB_MODELS of them at most. Its
 * configuration and the headers of its weights are read now, and what the weights take counts as
 * used in the job's budget. The driver reads the weights once the run is admitted, before begin();
 * a dry run never does. Close it with es_model_close(). @return : as es_model_open(); ES_E_LIMIT
 * (memory.limit) if the weights alone are above job->max_memory. */
es_status es_job_model(es_job *job, const char *name, const es_model_opts *opts, es_model **out,
                       es_error *err);

/*! es_job_stage() : one more kind of cell; call it in open() or begin(), in the order in which
 *  stages are computed. A stage without cells is fine. */
es_status es_job_stage(es_job *job, const es_stage *stage, es_error *err);

/*! es_job_cell() : the records (rows) of a finished cell, in summarise(). es_job_numbers() : the
 *  numbers (rows, cols) of a cell that has no record. */
const void *es_job_cell(const es_job *job, int stage, int64_t cell);
const double *es_job_numbers(const es_job *job, int stage, int64_t cell);

/*! es_job_fetch() : stores the address of a finished cell of an earlier stage in *out, a pointer to
 *  its records or numbers; for functions that compute a cell of a later stage. A shard that does
 * not have the cell computes it now, with `exec`, and stores it. Any thread.
 *  @return : ES_OK; what computing or storing it returns. */
es_status es_job_fetch(const es_job *job, int stage, int64_t cell, const es_exec *exec, void *out,
                       es_error *err);

/*! es_job_read() : copies `count` numbers of a finished cell, from number `first` on, to out. The
 *  only way to cells of a stage that is on disk; otherwise as es_job_fetch(), also in summarise().
 *  @return : as es_job_fetch(); ES_E_IO. */
es_status es_job_read(const es_job *job, int stage, int64_t cell, int64_t first, int64_t count,
                      const es_exec *exec, double *out, es_error *err);

/*! es_job_window() : returns how many parts of a stage may be computed ahead of the next one to be
 *  folded: the number of states that rank 0 has to hold at most. */
int64_t es_job_window(const es_job *job);

/*! es_job_phase() : what begin() or summarise() is about to do, and how much of the run's work it
 *  is; progress of job->exec counts within it. */
void es_job_phase(es_job *job, const char *phase, double flops);

/* Numbers of a .npy file as f64, row-major; `data` is the job's. */
typedef struct es_matrix {
    double *data; /* NULL: not given */
    int64_t rows, cols;
    es_view view;
} es_matrix;

/*! es_job_matrix() : read a matrix; one dimension is one row. `rows` and `cols` are what it must
 *  have, -1: anything. The file becomes part of the answer's provenance. A NULL path leaves an
 *  empty matrix. @return : what es_npy_load() does; ES_E_SHAPE (input.shape) naming both. */
es_status es_job_matrix(es_job *job, const char *role, const char *path, int64_t rows, int64_t cols,
                        es_matrix *out, es_error *err);

/*! es_matrix_cols() : columns that a file has, without reading its numbers. */
es_status es_matrix_cols(const char *path, int64_t *cols, es_error *err);

/*! es_blame_number() : a number of the file `path` is not finite: the place that es_view_scan()
 *  `found` in view v, of `head` ("head 2, ", or ""). @return : ES_E_NONFINITE. */
es_status es_blame_number(const char *path, const char *rule, const char *head, const es_view *v,
                          const es_error *found, es_error *err);

/*! es_blame_file() : turns a refusal of numbers that came from a file (NULL: from none) into
 *  ES_E_FORMAT with its name: a matrix that is no covariance, weights below 0, a key of length 0.
 *  NaN, infinities and answers that do not exist keep their status and get the name. @return : the
 *  status to continue with. */
es_status es_blame_file(es_status status, const char *path, es_error *err);

/*! es_refuse() : parameters that contradict each other: ES_E_ARGUMENT. */
#define es_refuse(err, rule, hint, ...) es_fail(err, ES_E_ARGUMENT, rule, hint, __VA_ARGS__)

#endif
