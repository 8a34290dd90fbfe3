/* SPDX-License-Identifier: Apache-2.0 */
/* heat.h : the study `heat`: attention as heat run backwards.
 *
 * Tokens that move by their own attention output climb the density of the others (heat_drift.h has
 * the exact drift and the reason): one step is the heat equation backwards, d_t f = -Laplace f, for
 * the time 1/beta, and many steps sharpen f into points.
 *
 *     question.c    parameters, help, the density of the keys; which questions a run asks
 *     drift.c       first question: the drift of a query among n keys
 *     particles.c   second question, --particles: tokens that move by their own attention
 *     cells.c       the computations behind both
 */
#ifndef ES_EXPERIMENTS_HEAT_HEAT_H
#define ES_EXPERIMENTS_HEAT_HEAT_H

#include "driver/job.h"
#include "theory/heat_drift.h"

/* ---- drift among n keys ---- */

/* What is drawn. */
typedef struct es_heat_opts {
    const es_law *law;
    uint64_t seed;
    uint16_t experiment; /* keys have the address (seed, experiment, cell = replicate) */
    int64_t n;           /* keys; 0: 100000 */
    const es_exec *exec;
} es_heat_opts;

/* One replicate at one beta, over all queries. All members are doubles. */
typedef struct es_heat_draw {
    double slope;  /* sum <beta drift, grad log f>/sum |grad log f|^2: 1 in the limit; NaN if f is
                      uniform */
    double radial; /* mean of 1 - <output, q> */
    double noise2; /* mean of |beta (drift - exact drift)|^2 */
    double ess;    /* mean of 1/sum of squared weights */
} es_heat_draw;

/* Means over replicates and their standard errors, NaN for one replicate. */
typedef struct es_heat_row {
    es_heat_draw mean, se;
} es_heat_row;

/*! es_heat_sample() : computes draws (count, betas) of replicates first .. first+count-1 at queries
 * (m, dim). Same bits for any number of threads and any division into calls. O(count n m dim
 * betas); memory of n dim per thread.
 *  @return : as es_heat_at(); ES_E_EMPTY if m, betas or count < 1; ES_E_RANGE for n outside
 * [2, 10^7]; ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
es_status es_heat_sample(const es_heat_opts *opts, const double *queries, int64_t m,
                         const double *beta, int64_t betas, int64_t first, int64_t count,
                         es_heat_draw *draws, es_error *err);

/*! es_heat_average() : averages draws (count, betas) into rows (betas). */
void es_heat_average(const es_heat_draw *draws, int64_t count, int64_t betas, es_heat_row *rows);

/* ---- particles ---- */

/*! es_heat_step() : moves all particles x (n, dim), unit vectors, at once: each attends to all of
 * them at beta, moves by the tangential part of its output, and is scaled back onto the sphere.
 * O(n^2 dim) time, O(n dim) memory. Same bits for any number of threads.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE for dim outside [2, 64], n < 1 or beta; as
 * es_attend(). */
es_status es_heat_step(double *x, int64_t n, int64_t dim, double beta, const es_exec *exec,
                       es_error *err);

/* Clusters of particles. */
typedef struct es_heat_clusters {
    int64_t count;   /* leaders: particles chosen greedily, pairwise farther apart than the angle */
    int64_t largest; /* largest number of particles with the same nearest leader */
} es_heat_clusters;

/*! es_heat_clusters_of() : counts clusters of particles x (n, dim), unit vectors. In their order,
 * each particle becomes a leader unless a leader is within `angle`. So every particle is within
 * that angle of a leader, and no two leaders are. For points that either coincide or are farther
 * apart than the angle it is the number of distinct points. Chains, which single linkage would
 * join, are divided: a cloud without clusters counts as many as it can hold, and the count falls as
 * it sharpens. The kernel e^{beta <x, y>} has width 1/sqrt(beta): particles within such an angle
 * attract at once, others wait e^{beta angle^2/2} times as long. O(n count dim) time, O(n) memory.
 *  @return : ES_OK; ES_E_RANGE for dim outside [2, 64], n < 1 or an angle outside (0, pi];
 * ES_E_LIMIT, ES_E_MEMORY. */
es_status es_heat_clusters_of(const double *x, int64_t n, int64_t dim, double angle,
                              es_mem_limit *budget, es_heat_clusters *out, es_error *err);

/*! es_heat_histogram() : computes the density of particles x (n, dim) relative to the uniform law,
 * density (bins). dim 2: by the angle from -pi to pi, 0 along the first axis. dim > 2: by the
 * cosine with the first axis, in bins of equal width from -1 to 1.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE for dim outside [2, 64], bins outside [1, 10^4]. */
es_status es_heat_histogram(const double *x, int64_t n, int64_t dim, int64_t bins, double *density,
                            es_error *err);

/* ---- the study ---- */

/* The options of both questions. */
typedef struct heat_params {
    int keys;
    const char *modes;
    int64_t dim, n, queries, replicates, particles, sets, steps, bins;
    double kappa, step_beta, cluster_angle;
    es_grid beta;
} heat_params;

enum { HEAT_UNIFORM, HEAT_VMF, HEAT_MIXTURE }; /* --key-law */
enum { HEAT_REPLICATES, HEAT_PARTICLES };      /* stages, in the order of the questions */

/* A question has its own stage, cost, tables and findings. cost() does not include what the other
 * question takes; begin() may be NULL. */
typedef struct heat_question {
    es_status (*open)(es_job *job, es_error *err);
    es_status (*cost)(es_job *job, es_cost *out, es_error *err);
    es_status (*begin)(es_job *job, es_error *err);
    es_status (*summarise)(es_job *job, es_answer *answer, es_error *err);
} heat_question;

extern const heat_question heat_drift, heat_particles;

/* What the options make: questions, density of the keys and queries. */
typedef struct heat_state {
    const heat_question *questions[2];
    int n_questions;
    es_law law; /* points into the following */
    es_law *parts;
    double *weights;
    es_matrix modes;
    double *queries;        /* (queries, dim) */
    es_heat_exact *exact;   /* (betas) */
    es_heat_finite *finite; /* (betas) */
} heat_state;

#endif
