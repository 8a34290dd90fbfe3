/* heat.h : attention as heat run backwards, measured with n keys, and particles that move by it.
 *
 * Tokens that move by their own attention output climb the density of the others (heat_drift.h has
 * the exact drift and says why): one step is the heat equation backwards, d_t f = -Laplace f, for
 * the time 1/beta, and many steps sharpen f into points.
 */
#ifndef ES_EXPERIMENTS_HEAT_HEAT_H
#define ES_EXPERIMENTS_HEAT_HEAT_H

#include <stdint.h>

#include <esscher/exec.h>

#include "theory/heat_drift.h"

/* ---- measured: n keys ---- */

typedef struct es_heat_opts {
    const es_law *law;
    uint64_t seed;
    uint16_t experiment; /* keys stand at (seed, experiment, cell = replicate) */
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

/* Mean over replicates and standard error, NaN of one replicate. */
typedef struct es_heat_row {
    es_heat_draw mean, se;
} es_heat_row;

/*! es_heat_sample() : draws (count, betas) of replicates first .. first+count-1. Same bits for any
 * number of threads and any cut into calls. O(count n m dim betas); memory of n dim per thread.
 *  @return : as es_heat_at(); ES_E_EMPTY if m, betas or count < 1; ES_E_RANGE for n outside
 * [2, 10^7]; ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
es_status es_heat_sample(const es_heat_opts *opts, const double *queries, int64_t m,
                         const double *beta, int64_t betas, int64_t first, int64_t count,
                         es_heat_draw *draws, es_error *err);

/*! es_heat_average() : rows (betas) from draws (count, betas). */
void es_heat_average(const es_heat_draw *draws, int64_t count, int64_t betas, es_heat_row *rows);

/* ---- particles ---- */

/*! es_heat_step() : every particle x (n, dim), unit vectors, attends to all of them at beta and
 * moves by the tangential part of its output, back onto the sphere; all at once. O(n^2 dim) time,
 * O(n dim) memory. Same bits for any number of threads.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE for dim outside [2, 64], n < 1 or beta; as
 * es_attend(). */
es_status es_heat_step(double *x, int64_t n, int64_t dim, double beta, const es_exec *exec,
                       es_error *err);

/* Clusters of particles. */
typedef struct es_heat_clusters {
    int64_t count;   /* particles of a largest set, chosen greedily, that are pairwise farther apart
                        than the angle: its leaders */
    int64_t largest; /* most particles that have the same leader nearest */
} es_heat_clusters;

/*! es_heat_clusters_of() : clusters of particles x (n, dim), unit vectors. A particle, in their
 * order, leads unless one that leads is within `angle`. So no particle is farther than that from a
 * leader, no two leaders are nearer; of points that are apart by more than the angle, or by
 * nothing, it is the number of points. Chains, of which single linkage makes one cluster, are cut:
 * a cloud without clusters counts as many as it has room for, and the count falls as it sharpens.
 * The kernel e^{beta <x, y>} has width 1/sqrt(beta): an angle of that size tells what attracts at
 * once from what waits e^{beta angle^2/2} times as long. O(n count dim) time, O(n) memory.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE for dim outside [2, 64], n < 1 or an angle outside
 * (0, pi]; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_heat_clusters_of(const double *x, int64_t n, int64_t dim, double angle,
                              es_mem_limit *budget, es_heat_clusters *out, es_error *err);

/*! es_heat_histogram() : density of particles x (n, dim) relative to the uniform law, density
 * (bins). dim 2: by the angle from -pi to pi, 0 along the first axis. dim > 2: by the cosine with
 * the first axis, in bins of equal width from -1 to 1.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE for dim outside [2, 64], bins outside [1, 10^4]. */
es_status es_heat_histogram(const double *x, int64_t n, int64_t dim, int64_t bins, double *density,
                            es_error *err);

#endif
