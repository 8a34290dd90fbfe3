/* SPDX-License-Identifier: Apache-2.0 */
/* ball.h : attention over n tokens against its limit, at the worst query of a ball.
 *
 * Gamma_n(x) is a head's output at query x over n tokens, Gamma(x) its limit (limit.h). The papers
 * bound
 *
 *     sup over |x| <= R of |Gamma_n(x) - Gamma(x)|   by   C(R) / sqrt(n),
 *
 * with a C(R) that grows like exp(R^2 H1^2), H1 = |S^{1/2} A|. (Token Sample Complexity of
 * Attention; THEORY.md section 3.) What one should see is in ball_field.h; this header measures.
 *
 *     es_ball *ball;
 *     es_ball_new(&spec, &ball, &err);
 *     es_ball_replicates(ball, 0, 100, cells, &err);     cells (100, sizes, radii)
 *     es_ball_free(ball);
 *
 * The supremum is found by ascent from many starts, so what is measured is a lower bound of it:
 * exact where the field has few maxima (low dimension), the best of those found elsewhere.
 *
 * Matrices are row-major f64. Every function is thread-safe.
 */
#ifndef ES_EXPERIMENTS_BALL_BALL_H
#define ES_EXPERIMENTS_BALL_BALL_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>

#include "head/head.h"
#include "law/law.h"
#include "random/experiment.h"
#include "theory/ball_field.h"

enum { ES_BALL_TOKENS = ES_EXPERIMENT_BALL, ES_BALL_STARTS = ES_EXPERIMENT_BALL + 1 };

/* What is measured: the largest error over queries |x| <= R, for each n and R. */
typedef struct es_ball_spec {
    const es_law *law;
    const es_head *head;
    const int64_t *sizes; /* (n_sizes) n_1 < n_2 < ...: prefixes of one sample */
    int64_t n_sizes;
    const double *radii; /* (n_radii) 0 < R_1 < R_2 < ... */
    int64_t n_radii;
    int64_t starts; /* random starts beside those the head and the tokens suggest; 0: 4 */
    uint64_t seed;
    const es_exec *exec; /* NULL: all threads, no limits */
} es_ball_spec;

/* One replicate at one n and R. */
typedef struct es_ball_cell {
    double sup;    /* largest |Gamma_n(x) - Gamma(x)| found, not decreasing in R */
    double radius; /* |x| where it is: R, or less if the maximum is inside */
} es_ball_cell;

/* The question, checked, and what is computed once: matrices, directions, a sampler. */
typedef struct es_ball es_ball;

/*! es_ball_new() : everything `spec` points to must outlive the ball. O(dim^3).
 *  @return : ES_OK; ES_E_ARGUMENT if sizes or radii do not increase;
 * ES_E_EMPTY for an empty grid; ES_E_RANGE for a radius that is not positive and finite, n < 1,
 * starts < 0, and where the law has no limit: Student's t, or a law that is not
 * ES_LAW_ENTIRE, such as Laplace, where the ball reaches too far; as es_head_write(),
 * es_sampler_new() and es_ball_directions(). On failure *out is NULL. */
es_status es_ball_new(const es_ball_spec *spec, es_ball **out, es_error *err);

/*! es_ball_free() : NULL is fine. */
void es_ball_free(es_ball *ball);

/*! es_ball_replicates() : replicates first .. first+count-1 into out (count, n_sizes, n_radii),
 *  shared out to the threads of spec->exec. A replicate is a pure function of (seed, its number):
 *  tokens stand at experiment ES_BALL_TOKENS, cell = replicate. An evaluation of the error and its
 *  gradient costs about 8 n dim operations and n exponentials; a supremum takes 50 (dim 1) to 400
 * (dim 20).
 *  @return : ES_OK; ES_E_ARGUMENT, ES_E_RANGE for numbers below 0; ES_E_LIMIT, ES_E_MEMORY;
 *  ES_E_INTERRUPTED; as es_sampler_rows() and es_limit_log_mgf(). */
es_status es_ball_replicates(const es_ball *ball, int64_t first, int64_t count, es_ball_cell *out,
                             es_error *err);

/* Cost of one replicate. */
typedef struct es_ball_cost {
    double flops; /* an estimate: how long an ascent takes is not known beforehand */
    size_t bytes; /* of memory, for each thread */
} es_ball_cost;

/*! es_ball_cost_of() : what one replicate of a valid ball will take. */
es_ball_cost es_ball_cost_of(const es_ball *ball);

#endif
