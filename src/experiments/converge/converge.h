/* converge.h : how fast attention on n tokens finds its infinite-token limit, measured.
 *
 * Tokens x_1 .. x_n are drawn from a law; a head maps them to Gamma_n(x_i), its output when the n
 * tokens are queries, keys and values at once (self mode), or for fresh queries of the same law
 * (population). As n grows the mean m_n and the covariance C_n of the outputs tend to those of
 * Gamma(X), which limit.h knows. Measured, per score scale and n:
 *
 *     mean error |m_n - m|_2,  covariance error |C_n - C| in Frobenius and spectral norm,
 *     map error: root mean square of |Gamma_n(x) - Gamma(x)|_2 over the first queries.
 *
 * A *replicate* is one draw of n_max tokens: prefixes n_1 < ... < n_P of it give every n, and one
 * pass gives every scale, so errors of one replicate at different n or scales are dependent, and
 * replicates are what is left out in turn. A replicate is a pure function of (seed, its number):
 * any thread, any order, any machine. With `independent` every n has tokens of its own: errors at
 * different n are then independent (at different scales still not), which standard errors of a
 * straight line take for granted, and a replicate costs sum n_i^2 instead of n_P^2.
 *
 * With `reference` the moments of one sample of that many tokens, in self mode, stand for those of
 * the limit, as in the public code of the papers. What is measured is then in part the sample's own
 * distance from the limit; how large a part, es_converge_limit_error() says. The map error is still
 * against the limit.
 */
#ifndef ES_EXPERIMENTS_CONVERGE_CONVERGE_H
#define ES_EXPERIMENTS_CONVERGE_CONVERGE_H

#include <esscher/exec.h>

#include "law/law.h"
#include "theory/theory.h"

/* What is measured of one replicate at one scale and n. */
typedef struct es_converge_cell {
    double mean_error, cov_frobenius, cov_spectral, map_error;
} es_converge_cell;

typedef struct es_converge_spec {
    const es_law *law;
    const es_head *head;
    const double *scales; /* (n_scales) factors on A */
    int64_t n_scales;
    const int64_t *sizes; /* (n_sizes) n_1 < ... < n_P */
    int64_t n_sizes;
    uint64_t seed;
    es_dtype precision; /* of the attention kernels; tokens, limits and errors are f64. 0: ES_F32 */
    bool population;    /* fresh queries instead of the tokens themselves */
    bool independent;   /* tokens of its own for every n */
    int64_t reference;  /* tokens of the sample that stands for the limit, self mode only; 0: the
                           limit itself */
    int64_t queries;    /* how many of those; 0: 4096 */
    int64_t
        map_queries; /* queries the map error is averaged over; 0: 256, at most the smallest size */
    const es_exec *exec;
} es_converge_spec;

/* Limits that a run is measured against, one per scale. */
typedef struct es_converge_limit es_converge_limit;

/*! es_converge_limit_new() : mean and covariance of the limit for every scale, with their error;
 * computed once per run. Where there is no closed form they are averages of the limit map over
 * 65536 draws.
 *  @return : ES_OK; ES_E_RANGE where the law has no limit for queries of its own (those that are
 * not ES_LAW_ENTIRE: Student, Laplace), also for a reference
 * sample, which would stand for nothing; ES_E_SHAPE, ES_E_ARGUMENT for a spec that makes no sense.
 * Release with es_converge_limit_free(). */
es_status es_converge_limit_new(const es_converge_spec *spec, es_converge_limit **out,
                                es_error *err);
void es_converge_limit_free(es_converge_limit *limit);

/*! es_converge_limit_error() : bound on the error of the limit at scale s: in the mean (2-norm) and
 * covariance (Frobenius); of a reference sample, its distance from the limit and the limit's bound.
 * Measured errors near it say something about the limit, not about attention. */
void es_converge_limit_error(const es_converge_limit *limit, int64_t s, double *mean, double *cov);

/*! es_converge_limit_size() : of the limit at scale s: `rms`, root mean square norm of an output,
 * and `spread`, root of the trace of the outputs' covariance. Rounding errors are in proportion to
 * these. */
void es_converge_limit_size(const es_converge_limit *limit, int64_t s, double *rms, double *spread);

/*! es_converge_replicate() : one replicate: out (n_scales, n_sizes). Threads of spec->exec work on
 * it together. O(n_max^2 (k + n_scales channels)) time, O(n_max dim) memory.
 *  @return : what es_converge_limit_new(), es_tokens_fill() and es_attend() do; ES_E_RANGE for a
 * negative number and, with independent sizes, one of 2^18 or more or n of 2^30 or more. Scores
 * that can pass 2^20 are ES_E_RANGE in f32, which rounds them by 1/16: converge.scores. */
es_status es_converge_replicate(const es_converge_spec *spec, const es_converge_limit *limit,
                                int64_t replicate, es_converge_cell *out, es_error *err);

/* ---- laws without a limit ----
 * Student's t has no exponential moments, laws with exponential tails (Laplace, logistic) none
 * beyond an edge, and some of their own tokens ask from beyond it. Attention over such tokens does
 * not converge: its largest terms decide, and the output grows with n. */

/* What is measured of one replicate at one scale and n, averaged over those of the first
 * map_queries queries at whose tilt the log-MGF is infinite; all 0 if there are none. */
typedef struct es_converge_failure {
    double log_norm, norm; /* means of ln|Gamma_n(x)| and |Gamma_n(x)| */
    double top_weight, sum_squares, ess;
    double beyond; /* share of the queries that have no limit */
    /* what extreme-value theory says of the same queries for n to infinity, heuristic (THEORY 9) */
    double predicted_squares; /* of sum_squares */
    double predicted_step;    /* growth of |Gamma_n| when ln n grows by 1; 0: a power of n */
} es_converge_failure;

/*! es_converge_fails() : is this a law without a limit for queries of its own? */
bool es_converge_fails(const es_law *law);

/*! es_converge_failing() : one replicate of such a law: out (n_scales, n_sizes). `independent` and
 *  `reference` of the spec are not looked at. Queries are the first tokens, or fresh ones.
 *  O(n_max map_queries (k + n_scales channels)) time, O(n_max dim) memory.
 *  @return : as es_converge_replicate(); ES_E_ARGUMENT (converge.failing) for other laws.
 *  es_converge_failing_cost() : what one takes; nothing is due before the first. */
es_status es_converge_failing(const es_converge_spec *spec, int64_t replicate,
                              es_converge_failure *out, es_error *err);

/* Operations of attention, as es_attend_plan counts them, and upper bounds on memory at one time.
 */
typedef struct es_converge_cost {
    double flops;       /* of a replicate */
    size_t bytes;       /* of a replicate */
    double limit_flops; /* of the reference sample; 0 without one */
    size_t limit_bytes; /* of the limits and what it takes to find them */
} es_converge_cost;

/*! es_converge_cost_of() : what replicates and limits will take; checks the spec as
 * es_converge_limit_new() does. */
es_status es_converge_cost_of(const es_converge_spec *spec, es_converge_cost *out, es_error *err);
es_status es_converge_failing_cost(const es_converge_spec *spec, es_converge_cost *out,
                                   es_error *err);

#endif
