/* collapse.h : tokens at nearly equal angles, drawn: do they stay apart?
 *
 * The random model of Critical attention scaling in long-context transformers (arXiv 2510.05554;
 * THEORY.md 7) as an experiment. equiangular.h has what exactly equal angles give.
 */
#ifndef ES_EXPERIMENTS_COLLAPSE_COLLAPSE_H
#define ES_EXPERIMENTS_COLLAPSE_COLLAPSE_H

#include <stdint.h>

#include <esscher/exec.h>

#include "theory/equiangular.h"

/* x_i along sqrt(rho) z_0 + sqrt(1 - rho) z_i for standard normal z, of norm sqrt(q). Their cosines
 * spread around a realised mean that itself varies by rho (1-rho) sqrt(2/dim), so compare with
 * es_collapse_exact() at the realised one. */
typedef struct es_collapse_opts {
    uint64_t seed;
    uint16_t experiment;
    int64_t dim;    /* 0: 128 */
    int64_t tokens; /* that are looked at as queries, among all n; 0: 64 */
    int64_t rows;   /* of these, whose gradient is computed; 0: 4; -1: none */
    double alpha;
    double square;       /* q; 0: 1 */
    const es_exec *exec; /* NULL: all threads, no limits */
} es_collapse_opts;

/* What one replicate gives at one beta. All members are doubles. */
typedef struct es_collapse_draw {
    double rho;         /* mean cosine over all pairs of tokens */
    double cosine;      /* mean over pairs of the outputs looked at */
    double angle_ratio; /* mean angle of their pairs over that of the tokens' */
    double self_weight; /* means over the tokens looked at */
    double ess;
    double gradient; /* NaN if rows is -1 */
} es_collapse_draw;

/* Mean over replicates and standard error, NaN of one replicate. */
typedef struct es_collapse_row {
    es_collapse_draw mean, se;
} es_collapse_row;

/*! es_collapse_sample() : draws (count, betas) of replicates first .. first+count-1. Numbers stand
 * at (seed, experiment, cell = replicate): any cut into calls gives the same draws, and a smaller n
 * is a prefix. Same bits for any number of threads. O(count n dim (tokens + 3 rows) betas).
 *  @return : ES_OK; ES_E_ARGUMENT for NULL; ES_E_EMPTY if count or betas < 1; ES_E_RANGE for n
 * outside [2, 10^7], rho outside [0, 1), a beta, alpha or square that is negative or not finite,
 * dim outside [2, 4096], tokens outside [2, n], rows outside [1, tokens], replicates outside
 * [0, 2^48); ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
es_status es_collapse_sample(const es_collapse_opts *opts, int64_t n, double rho,
                             const double *beta, int64_t betas, int64_t first, int64_t count,
                             es_collapse_draw *draws, es_error *err);

/*! es_collapse_average() : rows (betas) from draws (count, betas). */
void es_collapse_average(const es_collapse_draw *draws, int64_t count, int64_t betas,
                         es_collapse_row *rows);

#endif
