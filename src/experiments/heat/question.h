/* question.h : the study `heat`: what it asks and the drift of attention are in heat/question.c,
 * particles that move by it in heat/particles.c. */
#ifndef ES_EXPERIMENTS_HEAT_QUESTION_H
#define ES_EXPERIMENTS_HEAT_QUESTION_H

#include "experiments/heat/heat.h"

#include "driver/job.h"

typedef struct heat_params {
    int keys;
    const char *modes;
    int64_t dim, n, queries, replicates, particles, sets, steps, bins;
    double kappa, step_beta, cluster_angle;
    es_grid beta;
} heat_params;

enum { HEAT_UNIFORM, HEAT_VMF, HEAT_MIXTURE }; /* --key-law */
enum { HEAT_REPLICATES, HEAT_PARTICLES };      /* stages */

typedef struct heat_state {
    es_law law; /* points into the rest */
    es_law *parts;
    double *weights;
    es_matrix modes;
    double *queries;        /* (queries, dim) */
    es_heat_exact *exact;   /* (betas) */
    es_heat_finite *finite; /* (betas) */
} heat_state;

/*! heat_particle_stage() : sets of particles as cells, none if none are asked for. */
es_status heat_particle_stage(es_job *job, es_error *err);

/*! heat_particle_cost() : of all sets; zeros if none are asked for. */
es_status heat_particle_cost(es_job *job, es_cost *out, es_error *err);

/*! heat_put_particles() : their tables and findings. */
es_status heat_put_particles(es_job *job, es_answer *answer, es_error *err);

#endif
