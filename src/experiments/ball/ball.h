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

#include "experiments/kit/setting_params.h"
#include "head/head.h"
#include "law/law.h"
#include "random/experiment.h"
#include "theory/ball_field.h"
#include "tokens/tokens.h"

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
 *  divided among the threads of spec->exec. A replicate is a pure function of (seed, its number):
 *  tokens stand at experiment ES_BALL_TOKENS, cell = replicate. An evaluation of the error and its
 *  gradient costs about 8 n dim operations and n exponentials; a supremum takes 50 (dim 1) to 400
 *  (dim 20).
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

/* ---- inside the experiment ---- */

/* the parts of the experiment on a ball.
 *
 *     ball/cells.c            the question, checked; replicates; cost
 *     ball/supremum.c   Gamma_n - Gamma at several queries at once; the climb to its supremum
 */

enum {
    ES_BALL_LANES = 4,   /* queries that are looked at together */
    ES_BALL_PAIRS = 8,   /* starts +-R v_k, v_k the leading singular vectors */
    ES_BALL_LONGEST = 8, /* starts towards the tokens of largest norm */
    ES_BALL_RANDOM = 4
};

struct es_ball {
    es_ball_spec spec;
    int64_t d, dv, starts; /* starts: all of them, without the maximiser of the ball before */
    double *A, *V;         /* (d, d), (dv, d) */
    double *values;        /* (d) singular values of S^{1/2}A */
    double *directions;    /* (d, d) its right singular vectors, as rows */
    es_sampler *sampler;
    es_mem_limit *budget;
};

/* ---- the error ---- */

/* Tokens, the first n of them in use, and a look at up to ES_BALL_LANES queries. A *lane* array (m,
 * LANES) keeps the lanes of one index together, so that the loop over them is innermost. */
typedef struct es_ball_sample {
    const es_ball *ball;
    int64_t n;
    double *tokens;  /* (largest n, d), up to a few rows of zeros more */
    double *weights; /* (as many, LANES) scores, then unnormalised softmax weights */
    double *lanes;   /* (3, d, LANES): tilts Ax or z; sums of tokens; sums of their products */
    double *tilts;   /* (LANES, d) Ax */
    double *mean;    /* (LANES, d) softmax mean of tokens */
    double *off;     /* (LANES, dv) Gamma_n - Gamma */
    double *vector;  /* (2, d) */
    double *hess;    /* (d, d) */
    double total[ES_BALL_LANES]; /* sums of weights */
    double *memory;
} es_ball_sample;

es_status es_ball_sample_new(const es_ball *ball, es_ball_sample *out, es_error *err);
void es_ball_sample_free(es_ball_sample *sample);

/*! es_ball_sample_doubles() : how many numbers a sample holds. */
int64_t es_ball_sample_doubles(const es_ball *ball);

/*! es_ball_errors() : |Gamma_n(x) - Gamma(x)| into size (count) for the rows of x (count, d), count
 * <= ES_BALL_LANES. */
es_status es_ball_errors(es_ball_sample *s, const double *x, int64_t count, double *size,
                         es_error *err);

/*! es_ball_gradients() : the gradient of |Gamma_n - Gamma|^2/2 at the queries that es_ball_errors()
 * has just seen, into grad (count, d):
 *     A' (Cov_n(Ax) - K''(Ax)) V' (Gamma_n - Gamma). */
es_status es_ball_gradients(es_ball_sample *s, int64_t count, double *grad, es_error *err);

/* ---- the climb ---- */

/* A point on its way up. */
typedef struct es_ball_climber {
    double *x, *grad; /* (d) */
    double size;      /* |Gamma_n - Gamma| there */
    double step;
} es_ball_climber;

/* The search for the largest error over the ball: several climbers, of which the best counts. */
typedef struct es_ball_climb {
    es_ball_sample *sample;
    es_ball_climber *climbers; /* (starts + 1) */
    int64_t count;
    double *x, *grad; /* (LANES, d) trial points and gradients there */
    double *best;     /* (d) maximiser of the ball before, valid if best_size >= 0 */
    double best_size;
    int64_t *longest; /* (ES_BALL_LONGEST) tokens of largest norm among the first n */
    double *memory;
} es_ball_climb;

es_status es_ball_climb_new(es_ball_sample *sample, es_ball_climb *out, es_error *err);
void es_ball_climb_free(es_ball_climb *climb);

/*! es_ball_climb_doubles() : numbers that a climb holds. */
int64_t es_ball_climb_doubles(const es_ball *ball);

/*! es_ball_climb_prefix() : forget the maximiser; from now on the first n tokens are in use. */
void es_ball_climb_prefix(es_ball_climb *c, int64_t n);

/*! es_ball_climb_to() : the supremum on the ball of radius R, not smaller than the one before. */
es_status es_ball_climb_to(es_ball_climb *c, int64_t replicate, double R, es_ball_cell *out,
                           es_error *err);

/* ---- the study ---- */

/* what the experiment on a ball is asked, shared by question.c and rows.c. */

/* The options. */
typedef struct ball_params {
    es_law_params law;
    es_head_params head;
    es_grid sizes, radii;
    int64_t replicates, starts;
} ball_params;

/* What the options make: law, head and the constants of each radius. */
typedef struct ball_state {
    es_law_data law;
    es_head_data head;
    es_ball_spec spec;
    es_exec alone; /* what a replicate is given: one thread, silent */
    es_ball *ball;
    double h1;                   /* H1 = |S^{1/2} A| */
    es_ball_constant *constants; /* (radii) of the worst single query */
    es_num *sups;                /* (radii) of the supremum, in at most 2 dimensions; else NaN */
} ball_state;

/*! ball_summarise() : makes rows, the rate in n for each R, the growth in R for each n, findings. A
 *  cell is a replicate, es_ball_cell at each (size, radius). */
es_status ball_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
