/* SPDX-License-Identifier: Apache-2.0 */
/* regimes.h : the study `regimes`: a query among n keys on the sphere, and its weights.
 *
 * theory/key_weights.h defines the regimes and what to expect in them, tokens/keys.h the laws of
 * the keys. Here weights are drawn, for n up to 10^18, averaged, and tested against the limits.
 *
 *     question.c       parameters, help, cost
 *     draw.c           one replicate
 *     cells.c          all replicates of one dim, n and beta: means and tests
 *     rows.c           table "rows": measured weights beside the laws
 *     curve.c          table "curve": the exact largest weight against beta
 *     output_cells.c   outputs as vectors: means and variances over replicates
 *     outputs.c        table "outputs": these beside their prediction
 *
 * es_ functions are thread-safe.
 */
#ifndef ES_EXPERIMENTS_REGIMES_REGIMES_H
#define ES_EXPERIMENTS_REGIMES_REGIMES_H

#include <math.h>

#include "driver/job.h"
#include "theory/key_weights.h"
#include "tokens/keys.h"

/* ---- one n and beta ---- */

enum { ES_REGIMES_TOP = 8 }; /* ordered weights that a draw holds */

/* How keys are drawn. */
typedef enum es_regimes_method {
    /* Distances in increasing order: uniform order statistics from exponential spacings, mapped by
     * the quantile of T. Exact for the nearest keys, until the others together weigh less than
     * 1e-16 of the first or `nearest` of them are drawn. The sum over the others, given that they
     * are farther, is then a Gaussian vector with its exact conditional mean and covariance. Time
     * does not depend on n. */
    ES_REGIMES_NEAREST = 0,
    ES_REGIMES_BRUTE = 1, /* all n keys as vectors */
} es_regimes_method;

#define ES_REGIMES_MOST_KEYS INT64_C(1000000000) /* of a replicate drawn by brute force */

/* What is drawn. */
typedef struct es_regimes_opts {
    uint64_t seed;
    es_regimes_method method;
    const es_keys *keys;
    const es_view *points; /* (N, dim) keys to choose n from, without replacement, in place of a
                              law; scaled to norm 1. `keys` is not used. Brute force. */
    const double *query;   /* (dim) for points, scaled to norm 1; NULL: in each replicate a point
                              that is not among its keys */
    int64_t replicates;    /* 0: 1000 */
    int64_t nearest;       /* 0: 2048. All keys are ordered if there are at most twice as many. */
    double *outputs;       /* (replicates, dim) of brute force: sum w k of each, the query being the
                              first basis vector; NULL: none */
    const es_exec *exec;   /* NULL: all threads, no limits */
} es_regimes_opts;

/* One replicate. */
typedef struct es_regimes_draw {
    double top[ES_REGIMES_TOP]; /* w_(1) >= w_(2) >= ...; 0 beyond n */
    double squares, entropy, deficit;
    double tangential; /* norm of the output's part orthogonal to q */
    double one;        /* one coordinate of it */
    double bulk;       /* share of the weight in the Gaussian sum; 0: every key was drawn */
    double normality;  /* Berry-Esseen bound on how far that sum is from Gaussian, in probability */
} es_regimes_draw;

/*! es_regimes_sample() : computes draws (replicates) at one n and beta. Random numbers have
 * experiments 30 to 34 of the address space. A replicate has the same keys at every beta and other
 * keys at another n or dim (brute force: prefixes).
 * Same bits for any number of threads. O(replicates nearest), or O(replicates n dim).
 *  @return : ES_OK; as es_keys_check(); ES_E_ARGUMENT for NULL; ES_E_RANGE for n outside [1, 10^18]
 * ([1, 10^9] and below N + 1 where keys are drawn), beta not in (0, 1e60], replicates outside
 * [1, 10^7], nearest outside [64, 10^6]; ES_E_NONFINITE (row, column) for points or query;
 * ES_E_SHAPE for points of other than 2 to 4096 columns; ES_E_NUMERIC (regimes.zero) for a query
 * or, with err->row, a point that is 0; ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
es_status es_regimes_sample(const es_regimes_opts *opts, int64_t n, double beta,
                            es_regimes_draw *draws, es_error *err);

/*! es_critical_sample() : draws ordered weights of the critical limit into draws (replicates);
 * `top` and `squares` are filled, the other members are NaN. It has its own experiment number and
 * so is independent of es_regimes_sample(). Points are drawn in order until the rest weighs 1e-16
 * of the first; beyond 4096 points the sum over the rest is a Gaussian number.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE as es_weights_critical(); ES_E_INTERRUPTED. */
es_status es_critical_sample(uint64_t seed, double alpha, double scaled, int64_t replicates,
                             const es_exec *exec, es_regimes_draw *draws, es_error *err);

/* Kolmogorov-Smirnov test: the distance and the probability of a larger one; NaN without a test. */
typedef struct es_agreement {
    double distance, p;
} es_agreement;

/* Means over replicates with standard errors, NaN for a single replicate; and tests. */
typedef struct es_regimes_row {
    es_measured top[ES_REGIMES_TOP];
    es_measured squares, entropy, deficit, tangential; /* tangential: mean square, as es_weights */
    es_measured radial;                /* of deficit - tangential^2/2, paired within a replicate */
    double bulk, normality;            /* largest over the replicates */
    es_agreement law[ES_REGIMES_TOP];  /* of w_(k) with the critical limit, two samples */
    es_measured limit[ES_REGIMES_TOP]; /* mean of w_(k) in that limit; NaN without a limit */
    es_agreement normal[2];            /* of the output with the Gaussian of es_average_at(), its
                                          variance included: radial, tangential */
} es_regimes_row;

/*! es_regimes_run() : draws, averages and tests. `law` exists for keys of a law without a planted
 * key, against a sample of the same size. `normal` exists for uniform keys, from 20 replicates on,
 * if nearly all the weight is on keys that were drawn: a Gaussian sum would pass the test
 * trivially.
 *  @return : as es_regimes_sample(). */
es_status es_regimes_run(const es_regimes_opts *opts, int64_t n, double beta, es_regimes_row *out,
                         es_error *err);

/* Outputs V sum w k along directions f_0, f_1, f_2 of unit length, over replicates. */
enum { ES_OUTPUT_ALONG, ES_OUTPUT_ACROSS, ES_OUTPUT_LARGEST, ES_OUTPUT_DIRECTIONS };

/* Moments of outputs over replicates. */
typedef struct es_output_row {
    es_measured mean[ES_OUTPUT_DIRECTIONS];     /* of <f, output> */
    es_measured variance[ES_OUTPUT_DIRECTIONS]; /* n times that of <f, output> */
    es_measured trace;                          /* n times that of the output, all coordinates */
} es_output_row;

/*! es_regimes_outputs() : draws all n keys of a law as vectors; V (dv, dim), NULL: the
 * identity; directions (3, dv), a direction 0 giving 0. Draws are those of es_regimes_sample().
 * From 2 replicates on.
 *  @return : as es_regimes_sample(); ES_E_ARGUMENT for points; ES_E_SHAPE (regimes.values) for V.
 */
es_status es_regimes_outputs(const es_regimes_opts *opts, int64_t n, double beta, const es_view *V,
                             const double *directions, es_output_row *out, es_error *err);

/*! es_regimes_normal_p() : returns one p for both tests of row->normal: 1 - (1 - p)^2 of the
 * smaller p, which is uniform if both are Gaussian, because they are then independent. NaN without
 * tests. */
double es_regimes_normal_p(const es_regimes_row *row);

/* ---- the study ---- */

/* Values of --law, in the order of its words. */
enum {
    REGIMES_UNIFORM,
    REGIMES_VMF,
    REGIMES_MIXTURE,
    REGIMES_SUBSPHERE,
    REGIMES_VANISHING,
    REGIMES_PLANTED,
    REGIMES_FILE
};

/* The options. */
typedef struct regimes_params {
    es_grid dim, n, b, beta, kappa, cosine, weights;
    int law;
    int64_t replicates, nearest, manifold;
    double power, alpha;
    const char *points, *query, *V;
    bool brute;
} regimes_params;

/* What the options make: keys of a mixture or of a file, and values. */
typedef struct regimes_state {
    es_keys_part *parts; /* (kappa.count) of a mixture */
    es_matrix points, query, V;
} regimes_state;

/* One dim, n and beta, and what is known about them before anything is drawn. */
typedef struct regimes_cell {
    es_keys keys; /* not of a file */
    int64_t dim, n;
    double b, beta;      /* b is NaN without a critical scale */
    es_cap_exponent cap; /* keys of a file: --alpha, and NaN */
} regimes_cell;

/*! regimes_cell_of() : describes cell i of the grid (dim, n, b or beta), the last running fastest.
 */
es_status regimes_cell_of(const es_job *job, int64_t i, regimes_cell *cell, es_error *err);

/*! regimes_stage() : adds the stage in which the weights are drawn; its cells are es_regimes_row.
 */
es_status regimes_stage(es_job *job, es_error *err);

/*! regimes_largest_dim() : returns the largest dimension of the keys. */
double regimes_largest_dim(const es_job *job);

/* Cost of computing the laws of a row, in operations of attention: 20 to 50 ms. */
static const double regimes_law_flops = 3e8;
enum { REGIMES_CURVE_LAWS = 33 }; /* of the table of the curve */

/* Distances of measured means from their expectations, in standard errors: how many are finite, and
 * the largest. */
typedef struct regimes_distances {
    int count;
    double most;
} regimes_distances;

static inline void regimes_add_distance(regimes_distances *d, es_measured measured, double expected)
{
    const double z = fabs(measured.value - expected) / measured.se;
    d->most = isfinite(z) ? fmax(d->most, z) : d->most;
    d->count += isfinite(z);
}

/*! regimes_fill_rows() : fills the table of weights and reports counts and one setting. */
es_status regimes_fill_rows(es_job *job, es_answer *answer, regimes_distances *out, es_error *err);

/*! regimes_fill_curve() : fills the exact largest weight of a cell's keys against beta, for the
 * figure of regimes that end at `averages` and `frozen`; no table if these are no numbers. A
 * second. */
es_status regimes_fill_curve(es_job *job, es_answer *answer, const regimes_cell *cell,
                             double averages, double frozen, es_error *err);

/*! regimes_has_outputs() : returns whether the keys have a law of outputs: vMF keys and mixtures,
 * and uniform keys with --Wv. regimes_add_outputs() : adds the stage in which outputs are drawn,
 * the second. regimes_fill_outputs() : fills their table; distances are those of settings that
 *  average. */
bool regimes_has_outputs(const es_job *job);
es_status regimes_add_outputs(es_job *job, es_error *err);
es_status regimes_fill_outputs(es_job *job, es_answer *answer, regimes_distances *out,
                               es_error *err);

#endif
