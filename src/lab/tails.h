/* tails.h : the parts of the experiment on tails.
 *
 *     tails.c             the question, checked; projections of all tokens; their statistics
 *     tails_directions.c  covariance, and the directions that it and the weights suggest
 */
#ifndef ES_LAB_TAILS_H
#define ES_LAB_TAILS_H

#include <esscher/experiment.h>
#include <esscher/tails.h>

/* Experiments of the address space beside those of stats/tail_sample.c. */
enum { ES_TAILS_SPHERE = ES_EXPERIMENT_TAILS + 2, ES_TAILS_QUERIES = ES_EXPERIMENT_TAILS + 3 };

enum {
    ES_TAILS_STRIP = 2048, /* tokens read at a time */
    ES_TAILS_PANEL = 8 /* directions of one product, always so many: the same bits in any group */
};

/* The phase under way as part of the whole, which is 1. */
typedef struct es_tails_phase {
    const es_exec *exec;
    double before, share;
    bool stopped; /* the caller asked for it: a phase that was at its end then is not the last */
} es_tails_phase;

/* The question with its defaults filled in, and the answer under way. */
typedef struct es_tails_job {
    es_tails_spec spec;
    es_exec exec;         /* as the caller gave it */
    es_exec told;         /* the same, with progress of the phase */
    es_tails_phase phase; /* of `told` */
    int64_t layer, tokens, dim, heads, rows;
    int64_t group, first; /* directions projected in one walk, whole panels; the first of them */
    double *mean;         /* (d) */
    double *spectrum;     /* (d) eigenvalues of the covariance, decreasing, none below 0 */
    double *vectors;      /* (d, d) their unit vectors, as rows */
    double
        *directions; /* (whole panels of rows, d); the row of the norms is 0, and those after all */
    double *projected; /* (group, tokens) */
    es_tails_control gaussian, norms;
    es_tails_row *out;
} es_tails_job;

/*! es_tails_read() : tokens [first, first + count) into out (count, d). Thread-safe. */
es_status es_tails_read(const es_tails_job *job, int64_t first, int64_t count, double *out,
                        es_error *err);

/*! es_tails_tell() : progress of the phase. @return : ES_OK; ES_E_INTERRUPTED. */
es_status es_tails_tell(const es_tails_job *job, double done, double total, es_error *err);

/*! es_tails_spectrum() : mean, spectrum and vectors of the job. */
es_status es_tails_spectrum(es_tails_job *job, es_error *err);

/*! es_tails_directions() : the job's directions, from its spectrum and the weights. */
es_status es_tails_directions(es_tails_job *job, es_error *err);

#endif
