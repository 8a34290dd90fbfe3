/* SPDX-License-Identifier: Apache-2.0 */
/* tail_sample.h : is a sample sub-Gaussian?
 *
 * The theory asks that tokens are sub-Gaussian: K(l) - l m <= l^2 s^2/2 in every direction for some
 * variance proxy s^2, K the log-MGF of the tokens and m their mean. Of one sample x (n) there are
 * three views of that, none of which depends on unit or origin (THEORY.md, section 9):
 *
 *     proxy   sup_l 2 (K_n(l) - l m) / l^2 over the variance; 1 for Gaussian tokens. Only tilts l
 *             that leave an effective sample of 30 count: beyond, the largest token is measured
 *     psi2    the least s with mean exp(x^2/s^2) <= 2 over the standard deviation; sqrt(8/3)
 *     hill    mean of ln X_(i)/X_(k+1) over the k = n^(2/3) largest: 1/index of a power tail;
 *             1/(2 ln(n/k)) if there is none
 *
 * A finite sample bends all three, so each is compared with a *control*: the same numbers of
 * Gaussian samples of the same size, whose mean and spread say how many deviations z the sample is
 * from Gaussian, and whose order statistics give p, the probability of a Gaussian sample that is
 * further out. With many directions, correct p for their number (multiple.h).
 *
 *     es_tails_gaussian(n, 0, seed, NULL, &control, &err);
 *     es_tails_of(x, n, ES_TAILS_BOTH, NULL, &sample, &err);
 *     puts(es_tails_verdict_name(es_tails_judge(&sample, &control)));
 *
 * tails.h asks it of tokens, in the directions that matter to attention.
 */
#ifndef ES_STATS_TAIL_SAMPLE_H
#define ES_STATS_TAIL_SAMPLE_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>

/* ---- one sample ---- */

enum { ES_TAILS_LEAST = 64 }; /* numbers in a sample */

/* Which numbers Hill's estimate orders. */
typedef enum es_tails_side {
    ES_TAILS_BOTH = 0, /* |x - mean|: either tail */
    ES_TAILS_UPPER = 1 /* x itself, which is not negative: norms */
} es_tails_side;

/* The statistics of one sample (THEORY 9). */
typedef struct es_tails {
    double count, mean, variance; /* divisor n */
    double kurtosis;              /* mean of the fourth power over variance^2; 3 */
    double proxy;                 /* over the variance; at least 1, its limit for l -> 0 */
    double tilt;                  /* where it is, in standard deviations of l x; 0: in that limit */
    double psi2;                  /* over the standard deviation */
    double hill, hill_se;         /* xi and xi/sqrt(k) */
    double hill_half, hill_twice; /* with k/2 and 2k: a power tail has all three alike */
    double design; /* design effect of exp(3 y^2/8), y standardised, over up to 64 blocks of
                      consecutive x, at least 1: how many dependent x are worth one */
} es_tails;

/*! es_tails_hill_count() : the k of `hill`, round(n^(2/3)). */
int64_t es_tails_hill_count(int64_t n);

/*! es_tails_of() : of x (n). If all x are alike, variance is 0 and everything after it NaN.
 *  O(n log n), about 150 exp for each number; memory O(n). Thread-safe.
 *  @return : ES_OK; ES_E_EMPTY (tails.count) if n is below
 *  ES_TAILS_LEAST; ES_E_NONFINITE with err->row; ES_E_RANGE (tails.sign) for a negative x where
 *  side is ES_TAILS_UPPER; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_tails_of(const double *x, int64_t n, es_tails_side side, es_mem_limit *budget,
                      es_tails *out, es_error *err);

/* ---- its control ---- */

enum { ES_TAILS_ORDERS = 17 };

/* A statistic over Gaussian samples, with the order statistics of its tails. */
typedef struct es_tails_spread {
    double mean, sd;               /* over draws */
    double draws;                  /* R; the k = R/4 largest, and the k smallest, are the tails */
    double order[ES_TAILS_ORDERS]; /* what is between them, at evenly spaced ranks, the first and
                                      the last included; increasing */
    double below, above; /* mean distance of the k smallest from order[0], of the k largest from the
                            last */
} es_tails_spread;

/* The statistics over Gaussian samples of the same size. */
typedef struct es_tails_control {
    es_tails_spread kurtosis, proxy, psi2, hill;
} es_tails_control;

/*! es_tails_gaussian() : of `draws` (0: 64) samples of n Gaussian numbers. Draw r stands at cell r
 *  of experiment ES_EXPERIMENT_TAILS. O(draws n log n) on exec->threads threads.
 *  @return : ES_OK; ES_E_RANGE if draws is 1 or negative; as es_tails_of(); ES_E_INTERRUPTED. */
es_status es_tails_gaussian(int64_t n, int64_t draws, uint64_t seed, const es_exec *exec,
                            es_tails_control *out, es_error *err);

/*! es_tails_gaussian_norms() : of the norms of n Gaussian vectors whose covariance has the
 *  eigenvalues `spectrum` (dim), for ES_TAILS_UPPER. O(draws n dim).
 *  @return : as es_tails_gaussian(); ES_E_RANGE for a negative eigenvalue. */
es_status es_tails_gaussian_norms(const double *spectrum, int64_t dim, int64_t n, int64_t draws,
                                  uint64_t seed, const es_exec *exec, es_tails_control *out,
                                  es_error *err);

/* Standard deviations of the control between sample and control. */
typedef struct es_tails_z {
    double kurtosis, proxy, psi2, hill;
} es_tails_z;

/*! es_tails_above() : the probability that a Gaussian sample has at least this value: its rank
 * among the draws and itself, interpolated between the ranks that are kept; in the tail, a quarter
 * of them, the predictive law of exponential excesses, ((k+1)/(R+1)) (1 + e/(k m))^-k for a value e
 * beyond the last order, m the mean excess: exact for exponential tails, on the safe side for
 * lighter ones. es_tails_below() : at most. Both lie above 0. */
double es_tails_above(double value, const es_tails_spread *control);
double es_tails_below(double value, const es_tails_spread *control);

/* Probabilities that a Gaussian sample looks as heavy, or as light, in one number or the other:
 * twice the smaller p of two, at most 1. NaN of a constant. */
typedef struct es_tails_p {
    double heavier; /* proxy, psi2 above */
    double lighter; /* psi2, hill below; the proxy cannot be below 1 and never says so */
} es_tails_p;

/*! es_tails_compare() : z (may be NULL) and p. Distances that p belongs to are divided by
 *  sqrt(sample->design): neighbours in a text are alike, and n of them spread like fewer
 *  independent numbers. z is not divided. */
es_tails_p es_tails_compare(const es_tails *sample, const es_tails_control *control, es_tails_z *z);

/* What a direction's tails are, compared with Gaussian samples. */
typedef enum es_tails_verdict {
    ES_TAILS_GAUSSIAN = 0, /* neither of the others */
    ES_TAILS_LIGHTER = 1, /* not heavier; psi2 or hill is 10 % below the control, p.lighter small */
    ES_TAILS_HEAVIER = 2, /* proxy or psi2 is 10 % above the control, p.heavier small */
    ES_TAILS_CONSTANT = 3 /* no variance */
} es_tails_verdict;

#define ES_TAILS_LEVEL 0.01 /* p is small from here on */

/*! es_tails_decide() : the verdict, p being corrected for all that was tried. Both a distance and
 *  its significance are asked for. */
es_tails_verdict es_tails_decide(const es_tails *sample, const es_tails_control *control,
                                 es_tails_p p);

/*! es_tails_judge() : the same of one sample that was looked at alone; its two p count twice. */
es_tails_verdict es_tails_judge(const es_tails *sample, const es_tails_control *control);
/*! es_tails_verdict_name() : "Gaussian-like", "lighter than Gaussian", "heavier than Gaussian",
 *  "constant". */
const char *es_tails_verdict_name(es_tails_verdict verdict);

#endif
