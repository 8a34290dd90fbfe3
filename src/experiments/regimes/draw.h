/* SPDX-License-Identifier: Apache-2.0 */
/* draw.h : one replicate of n keys: the nearest keys in order, or all keys. */
#ifndef ES_EXPERIMENTS_REGIMES_DRAW_H
#define ES_EXPERIMENTS_REGIMES_DRAW_H

#include <esscher/random.h>

#include "experiments/regimes/regimes.h"
#include "tokens/cap.h"
#include "tokens/tokens.h"

/* ---- the sum over keys beyond a distance ---- */

/* With X = exp(-beta (T - t)), Y = beta (T - t) given T > t: E X, E XY, E X^2, ... and E X^2 r^2.
 */
typedef struct es_bulk_moments {
    double x, xy, xx, xxy, xxyy, xxx, xxxy, xxxx, xxr;
} es_bulk_moments;

/* Moments of the keys that are not drawn, by their distance. */
typedef struct es_bulk {
    const es_cap *cap;
    double beta;
    es_bulk_moments *at; /* (cap->count) given y > y_j */
    es_mem_limit *budget;
} es_bulk;

es_status es_bulk_make(const es_cap *cap, double beta, es_mem_limit *budget, es_bulk *out,
                       es_error *err);
void es_bulk_free(es_bulk *bulk);

/* ---- one replicate ---- */

/* Draws of the nearest keys alone; all others enter by their moments. */
typedef struct es_nearest_job {
    es_cap cap;
    es_bulk bulk;
    uint64_t seed;
    int64_t n, ordered; /* keys that are not planted; most of them that are drawn in order */
    double beta;
    bool planted, turned; /* turned: directions are not uniform, so tangential parts are unknown */
    int64_t tangents;     /* dim - 1 */
    int64_t directions;   /* number of keys whose direction is drawn */
} es_nearest_job;

/*! es_nearest_draw() : draws one replicate; scratch (2 tangents). */
es_status es_nearest_draw(const es_nearest_job *job, int64_t replicate, double *scratch,
                          es_regimes_draw *out, es_error *err);

/* Draws of all keys. */
typedef struct es_brute {
    uint64_t seed;
    int64_t n, dim;
    double beta;
    bool planted;
    const es_keys *keys;
    const es_sampler *sampler; /* of the keys' law; NULL: points, or a vanishing density */
    const es_view *points;
    const double *query; /* (dim) of norm 1, or NULL */
    double *outputs;     /* (replicates, dim), or NULL */
} es_brute;

/*! es_brute_scratch() : returns the number of doubles of scratch that es_brute_draw() needs. */
int64_t es_brute_scratch(int64_t dim);
es_status es_brute_draw(const es_brute *job, int64_t replicate, double *scratch,
                        es_regimes_draw *out, es_error *err);

/*! es_unit_vector() : scales x (dim) to norm 1 without overflow. Returns false if it is 0. */
bool es_unit_vector(double *x, int64_t dim);

#endif
