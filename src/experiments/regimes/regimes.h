/* regimes.h : a query among n keys on the sphere, simulated: its weights in every regime.
 *
 * key_weights.h says which regimes there are and what to expect in them, keys.h which keys. Here
 * weights are drawn, for n up to 10^18, averaged, and tested against the limits.
 *
 * Every function is thread-safe.
 */
#ifndef ES_EXPERIMENTS_REGIMES_REGIMES_H
#define ES_EXPERIMENTS_REGIMES_REGIMES_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/view.h>

#include "theory/key_weights.h"
#include "tokens/keys.h"

enum { ES_REGIMES_TOP = 8 }; /* ordered weights that a draw keeps */

/* How keys come about. */
typedef enum es_regimes_method {
    /* Distances in increasing order: uniform order statistics from exponential spacings, sent
     * through the quantile of T. Exact for the nearest keys, until the others together weigh less
     * than 1e-16 of the first, or `nearest` of them are there; the sum over the others, known to
     * be farther, is then drawn as a Gaussian vector with its exact conditional mean and
     * covariance. Time does not depend on n. */
    ES_REGIMES_NEAREST = 0,
    ES_REGIMES_BRUTE = 1, /* all n keys as vectors, one after the other */
} es_regimes_method;

#define ES_REGIMES_MOST_KEYS INT64_C(1000000000) /* that brute force draws in a replicate */

typedef struct es_regimes_opts {
    uint64_t seed;
    es_regimes_method method;
    const es_keys *keys;
    const es_view *points; /* (N, dim) keys to choose n from, without replacement, in place of a
                              law; scaled to norm 1. `keys` is not looked at. Brute force. */
    const double *query;   /* (dim) for points, scaled to norm 1; NULL: in each replicate a point
                              that is not among its keys */
    int64_t replicates;    /* 0: 1000 */
    int64_t nearest;       /* 0: 2048. All keys are ordered if there are at most twice as many. */
    double *outputs;       /* (replicates, dim) of brute force: sum w k of each, the query being the
                              first basis vector; NULL: not wanted */
    const es_exec *exec;   /* NULL: all threads, no limits */
} es_regimes_opts;

/* What one replicate gives. */
typedef struct es_regimes_draw {
    double top[ES_REGIMES_TOP]; /* w_(1) >= w_(2) >= ...; 0 beyond n */
    double squares, entropy, deficit;
    double tangential; /* norm of the output's part orthogonal to q */
    double one;        /* one coordinate of it */
    double bulk;       /* share of the weight that the Gaussian sum has; 0: every key was drawn */
    double normality;  /* Berry-Esseen bound on how far that sum is from Gaussian, in probability */
} es_regimes_draw;

/*! es_regimes_sample() : draws (replicates) at one n and beta. Numbers stand at experiments 30 to
 * 34; a replicate at another beta has the same keys, at another n or dim its own (brute force:
 * prefixes).
 * Same bits for any number of threads. O(replicates nearest), or O(replicates n dim).
 *  @return : ES_OK; as es_keys_check(); ES_E_ARGUMENT for NULL; ES_E_RANGE for n outside [1, 10^18]
 * ([1, 10^9] and below N + 1 where keys are drawn), beta not in (0, 1e60], replicates outside
 * [1, 10^7], nearest outside [64, 10^6]; ES_E_NONFINITE (row, column) for points or query;
 * ES_E_SHAPE for points of other than 2 to 4096 columns; ES_E_NUMERIC (regimes.zero) for a query
 * or, with err->row, a point that is 0; ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
es_status es_regimes_sample(const es_regimes_opts *opts, int64_t n, double beta,
                            es_regimes_draw *draws, es_error *err);

/*! es_critical_sample() : ordered weights of the critical limit, draws (replicates); `top` and
 * `squares` are filled, the other members are NaN. Its own experiment number, so that it is
 * independent of es_regimes_sample(). Points in order until those left out weigh 1e-16 of the
 * first; of more than 4096 the sum over the others is a Gaussian number.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE as es_weights_critical(); ES_E_INTERRUPTED. */
es_status es_critical_sample(uint64_t seed, double alpha, double scaled, int64_t replicates,
                             const es_exec *exec, es_regimes_draw *draws, es_error *err);

/* A mean over replicates and its standard error, NaN of a single replicate. */
typedef struct es_estimate {
    double mean, se;
} es_estimate;

/* Kolmogorov and Smirnov's distance and the probability of a larger one; NaN where none is made. */
typedef struct es_agreement {
    double distance, p;
} es_agreement;

typedef struct es_regimes_row {
    es_estimate top[ES_REGIMES_TOP];
    es_estimate squares, entropy, deficit, tangential; /* the last: mean square, as es_weights */
    double bulk, normality;                            /* largest over the replicates */
    es_agreement law[ES_REGIMES_TOP];  /* of w_(k) with the critical limit, two samples */
    es_estimate limit[ES_REGIMES_TOP]; /* mean of w_(k) in that limit; NaN where none is made */
    es_agreement normal[2];            /* of the output with the Gaussian of es_average_at(), its
                                          variance included: radial, tangential */
} es_regimes_row;

/*! es_regimes_run() : draws, averages and tests. `law` is made for keys of a law without a planted
 * one, against a sample of the same size. `normal` is made for uniform keys, from 20 replicates on,
 * if nearly all the weight is that of keys that were drawn: a Gaussian sum would be found Gaussian.
 *  @return : as es_regimes_sample(). */
es_status es_regimes_run(const es_regimes_opts *opts, int64_t n, double beta, es_regimes_row *out,
                         es_error *err);

/* Outputs V sum w k along directions f_0, f_1, f_2 of unit length, over replicates. */
enum { ES_OUTPUT_ALONG, ES_OUTPUT_ACROSS, ES_OUTPUT_LARGEST, ES_OUTPUT_DIRECTIONS };

typedef struct es_output_row {
    es_estimate mean[ES_OUTPUT_DIRECTIONS];     /* of <f, output> */
    es_estimate variance[ES_OUTPUT_DIRECTIONS]; /* n times that of <f, output> */
    es_estimate trace;                          /* n times that of the output, all coordinates */
} es_output_row;

/*! es_regimes_outputs() : all n keys drawn as vectors, for keys of a law; V (dv, dim), NULL: the
 * identity; directions (3, dv), a direction 0 giving 0. Draws are those of es_regimes_sample().
 * From 2 replicates on.
 *  @return : as es_regimes_sample(); ES_E_ARGUMENT for points; ES_E_SHAPE (regimes.values) for V.
 */
es_status es_regimes_outputs(const es_regimes_opts *opts, int64_t n, double beta, const es_view *V,
                             const double *directions, es_output_row *out, es_error *err);

/*! es_regimes_normal_p() : one p of row->normal, both tests together: 1 - (1 - p)^2 of the smaller,
 * which is uniform where both are Gaussian, because they are then independent. NaN without tests.
 */
double es_regimes_normal_p(const es_regimes_row *row);

#endif
