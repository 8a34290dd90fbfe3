/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h : the parts of the experiment on a ball.
 *
 *     ball/cells.c            the question, checked; replicates; cost
 *     ball/supremum.c   Gamma_n - Gamma at several queries at once; the climb to its supremum
 */
#ifndef ES_EXPERIMENTS_BALL_INSIDE_H
#define ES_EXPERIMENTS_BALL_INSIDE_H

#include "experiments/ball/ball.h"

#include "tokens/tokens.h"

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

#endif
