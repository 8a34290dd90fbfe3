/* heat.h : attention as heat run backwards.
 *
 * Keys of density f on the unit sphere S^{d-1}, a query q on it, inverse temperature beta.
 * Attention over infinitely many keys answers with a point near q, and the part of it that is
 * tangent to the sphere at q is exactly
 *
 *     (1/beta) grad log f_beta(q),      f_beta = f smoothed by the von Mises-Fisher law of
 *                                       concentration beta, log f_beta(q) = K(beta q) - K_d(beta),
 *
 * which for large beta is (1/beta) grad log f up to 1/beta^2. A token that moves by its own
 * attention output therefore climbs the density of the others: one step is the heat equation
 * backwards, d_t f = -Laplace f, for the time 1/beta, and many steps sharpen f into points (Scaling
 * Limits of Long-Context Transformers, arXiv 2605.08505; THEORY.md 6). While f is smooth, the mean
 * of the tokens grows like exp((d-1) t): the first harmonics are eigenfunctions.
 *
 * Laws of keys: the uniform law (ES_LAW_SPHERE), von Mises-Fisher (ES_LAW_VMF), and mixtures of
 * these, all with size 1, without mean and factor.
 */
#ifndef ESSCHER_HEAT_H
#define ESSCHER_HEAT_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/law.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ES_HEAT_MOST_DIM = 64 };

/* ---- exact: infinitely many keys ---- */

typedef struct es_heat_point {
    double log_density;  /* ln f(q), relative to the uniform law */
    double log_smoothed; /* ln f_beta(q) */
    double radial;       /* 1 - <output, q> */
} es_heat_point;

/*! es_heat_at() : at the unit vector q (dim): gradient (dim) gets grad log f, drift (dim) the
 * tangential part of the limit output; either may be NULL. O(parts dim). Thread-safe.
 *  @return : ES_OK; as es_law_check(); ES_E_UNSUPPORTED (heat.law) for another law; ES_E_RANGE for
 * dim outside [2, 64], beta not positive and finite, or a q whose norm is not 1 to 1e-9. */
ES_API es_status es_heat_at(const es_law *law, const double *q, double beta, double *gradient,
                            double *drift, es_heat_point *out, es_error *err);

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

/* What infinitely many keys give, over the same queries. */
typedef struct es_heat_exact {
    double slope, radial;
    double error; /* root mean square of beta drift - grad log f: falls like 1/beta */
    double size;  /* root mean square of grad log f */
} es_heat_exact;

/*! es_heat_exact_of() : exact (betas) over the queries (m, dim), unit vectors. */
ES_API es_status es_heat_exact_of(const es_law *law, const double *queries, int64_t m,
                                  const double *beta, int64_t betas, es_heat_exact *exact,
                                  es_error *err);

/*! es_heat_sample() : draws (count, betas) of replicates first .. first+count-1. Same bits for any
 * number of threads and any cut into calls. O(count n m dim betas); memory of n dim per thread.
 *  @return : as es_heat_at(); ES_E_EMPTY if m, betas or count < 1; ES_E_RANGE for n outside
 * [2, 10^7]; ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
ES_API es_status es_heat_sample(const es_heat_opts *opts, const double *queries, int64_t m,
                                const double *beta, int64_t betas, int64_t first, int64_t count,
                                es_heat_draw *draws, es_error *err);

/*! es_heat_average() : rows (betas) from draws (count, betas). */
ES_API void es_heat_average(const es_heat_draw *draws, int64_t count, int64_t betas,
                            es_heat_row *rows);

/* ---- particles ---- */

/*! es_heat_step() : every particle x (n, dim), unit vectors, attends to all of them at beta and
 * moves by the tangential part of its output, back onto the sphere; all at once. O(n^2 dim) time,
 * O(n dim) memory. Same bits for any number of threads.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE for dim outside [2, 64], n < 1 or beta; as
 * es_attend(). */
ES_API es_status es_heat_step(double *x, int64_t n, int64_t dim, double beta, const es_exec *exec,
                              es_error *err);

/*! es_heat_histogram() : density of particles x (n, dim) relative to the uniform law, density
 * (bins). dim 2: by the angle from -pi to pi, 0 along the first axis. dim > 2: by the cosine with
 * the first axis, in bins of equal width from -1 to 1.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE for dim outside [2, 64], bins outside [1, 10^4]. */
ES_API es_status es_heat_histogram(const double *x, int64_t n, int64_t dim, int64_t bins,
                                   double *density, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
