/* SPDX-License-Identifier: Apache-2.0 */
/* collapse.h : the study `collapse`: do tokens at nearly equal angles stay apart?
 *
 * The random model of Critical attention scaling in long-context transformers (arXiv 2510.05554;
 * THEORY 7). theory/equiangular.h has the closed form for exactly equal angles.
 *
 *     question.c     parameters, help, cost
 *     cells.c        the random model: one replicate, all replicates of one n and rho
 *     rows.c         tables "rows" and "phase": every n, rho and gamma
 *     thresholds.c   table "thresholds": where the window of gamma lies
 *     curves.c       table "curves": score scalings in use
 */
#ifndef ES_EXPERIMENTS_COLLAPSE_COLLAPSE_H
#define ES_EXPERIMENTS_COLLAPSE_COLLAPSE_H

#include <stdint.h>

#include "driver/job.h"
#include "theory/equiangular.h"

/* ---- the random model ---- */

/* Token x_i points along sqrt(rho) z_0 + sqrt(1 - rho) z_i, z standard normal, and has norm
 * sqrt(q). Cosines scatter around a realised mean, which varies by rho (1-rho) sqrt(2/dim) itself:
 * compare with es_collapse_exact() at the realised mean. */
typedef struct es_collapse_opts {
    uint64_t seed;
    uint16_t experiment;
    int64_t dim;    /* 0: 128 */
    int64_t tokens; /* number of queries among the n tokens; 0: 64 */
    int64_t rows;   /* number of queries whose gradient is computed; 0: 4; -1: none */
    bool realised;  /* multiply each beta by (1-rho)/(1-rho^), rho^ the mean cosine of the replicate
                     */
    double alpha;
    double square;       /* q; 0: 1 */
    const es_exec *exec; /* NULL: all threads, no limits */
} es_collapse_opts;

/* One replicate at one beta. All members are doubles. */
typedef struct es_collapse_draw {
    double rho;         /* mean cosine over all pairs of tokens */
    double cosine;      /* mean cosine over pairs of the queries' outputs */
    double angle_ratio; /* mean angle between these outputs over that between their tokens */
    double self_weight; /* mean over the queries, as is ess */
    double ess;
    double gradient; /* NaN if rows is -1 */
} es_collapse_draw;

/* Means over replicates and their standard errors, NaN for one replicate. */
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

/*! es_collapse_average() : averages draws (count, betas) into rows (betas). */
void es_collapse_average(const es_collapse_draw *draws, int64_t count, int64_t betas,
                         es_collapse_row *rows);

/* Unit tokens y (n, dim) and the attention of token i over them. */
typedef struct es_jacobian_row {
    const double *y;
    int64_t n, dim, i;
    double beta, alpha, square; /* q > 0 */
    const double *m;            /* (dim) sum_j A_ij y_j */
    double lse;                 /* log-sum-exp of the scores beta <y_i, y_j> */
    const double *probe;        /* (dim) a random vector z with E zz' = I */
    double *scratch;            /* (2 dim) */
} es_jacobian_row;

/*! es_jacobian_row2() : returns sum_k |dx_i'/dx_k|_F^2. The squared norm of C Q, the only matrix
 * that is not of low rank, is estimated by |C Q z|^2, which is unbiased over the probe z.
 * O(n dim). */
double es_jacobian_row2(const es_jacobian_row *row);

/* ---- the study ---- */

/* The options. */
typedef struct collapse_params {
    es_grid n, rho, gamma, times, contexts;
    int64_t dim, replicates, queries, train;
    double alpha, square, train_gamma, yarn;
    bool phase, curves, realised;
} collapse_params;

/* The sizes of the grids. */
typedef struct collapse_state {
    int64_t gammas; /* score scales of each (n, rho) */
    int64_t pairs;  /* pairs (n, rho) that are drawn: the first of all pairs, rho running fastest */
} collapse_state;

/*! collapse_gamma() : returns score scale number g at rho. */
double collapse_gamma(const collapse_params *p, double rho, int64_t g);

/*! collapse_stage() : adds the stage in which the random model is drawn, a cell for each drawn
 *  pair. collapse_flops() : returns the work of all its cells. */
es_status collapse_stage(es_job *job, es_error *err);
double collapse_flops(const collapse_params *p, const collapse_state *s);

/* What summarise() hands to the functions that fill tables. */
typedef struct summary_ctx {
    es_job *job;
    const collapse_params *p;
    const collapse_state *s;
    es_answer *answer;
    es_table *rows, *thresholds;     /* once filled */
    const es_collapse_row *measured; /* (pairs, gammas) */
} summary_ctx;

/*! collapse_measured() : returns the averages of score scale g at a pair; NULL if the pair was not
 *  drawn. */
const es_collapse_row *collapse_measured(const summary_ctx *m, int64_t pair, int64_t g);

/*! collapse_exact() : the closed form at beta = gamma ln n (THEORY 7). */
es_status collapse_exact(const collapse_params *p, int64_t n, double rho, double gamma,
                         es_collapse *out, es_error *err);

/* The window of gamma in which the weight p of a token on itself goes from 0.1 to 0.9. */
typedef struct collapse_window {
    double gamma_c, low, high;
} collapse_window;
collapse_window collapse_window_at(int64_t n, double rho);

/*! collapse_fill_rows() : fills the table of all n, gamma and rho. collapse_fill_phase() : arranges
 *  its angle ratios as a diagram, which people see in place of the other tables. */
es_status collapse_fill_rows(summary_ctx *m, es_error *err);
es_status collapse_fill_phase(const summary_ctx *m, es_error *err);

/*! collapse_fill_thresholds(), collapse_fill_curves() : fill a table and report its findings. */
es_status collapse_fill_thresholds(summary_ctx *m, es_error *err);
es_status collapse_fill_curves(const summary_ctx *m, es_error *err);

#endif
