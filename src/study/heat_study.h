/* heat_study.h : the parts of the study `heat`.
 *
 *     heat_study.c     parameters, the density, cells: sets of keys, and particles
 *     heat_summary.c   rows, steps, profiles and findings
 */
#ifndef ES_STUDY_HEAT_STUDY_H
#define ES_STUDY_HEAT_STUDY_H

#include <esscher/heat.h>

#include "driver/job.h"

typedef struct heat_params {
    int keys;
    const char *modes;
    int64_t dim, n, queries, replicates, particles, steps, bins;
    double kappa, step_beta;
    es_grid beta;
} heat_params;

extern const char *const heat_keys[]; /* "uniform", "vmf", "mixture" */

enum { HEAT_REPLICATES, HEAT_PARTICLES };         /* stages */
enum { HEAT_BLOCK = 16 };                         /* replicates of a cell */
enum { HEAT_DENSITY, HEAT_LENGTH, HEAT_NUMBERS }; /* of a bin of the particles after a step */

typedef struct heat_state {
    es_law law; /* points into the rest */
    es_law *parts;
    double *weights;
    es_matrix modes;
    double *queries;      /* (queries, dim) */
    es_heat_exact *exact; /* (betas) */
} heat_state;

es_status heat_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
