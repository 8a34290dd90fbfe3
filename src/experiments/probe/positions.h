/* SPDX-License-Identifier: Apache-2.0 */
/* positions.h : what the heads of a causal model do as their context grows.
 *
 * In a causal model the token at place i sees the keys 0 .. i: every place of a text is a context
 * of n = i + 1 tokens, and one pass over a block measures a head at every n (THEORY 16). For each
 * head, and places in geometric bins of n:
 *
 *     entropy, effective number of keys, largest weight,
 *     sink mass (weight on the first 4 keys), local mass (on the last 64),
 *     how many queries put their weight on one key, the first 4 counted apart,
 *     standard deviation of a query's scores, and u = sd / sqrt(2 ln n) (THEORY 4.3, 9),
 *     critical temperature of a query's scores, by gap counting (THEORY 21),
 *     |y_w - y|^2 for outputs y_w over the last w keys and the sinks, and the weight these have,
 *     for a geometric grid of w: the smallest w with a small error is the *effective context*;
 *
 * and over all places: mean score by distance i - j, of queries and keys as they are and as they
 * were before their rotation by rotary positions, and horizons of both.
 *
 *     es_positions_spec spec = {.model = m, .length = 2048};
 *     es_positions_grid grid;
 *     es_positions_grid_of(&spec, &grid, &err);
 *     es_positions_block(&spec, ids, &exec, numbers, &err);      (layers, heads, grid.numbers)
 *     numbers[es_positions_at(&grid, bin, ES_POSITIONS_ENTROPY)] / count
 *
 * Where the model caps its scores, weights are those of capped ones; mean and deviation of scores,
 * u and horizons are of scores before the cap.
 *
 * Numbers are sums over queries: those of several blocks are added, and their scatter between
 * blocks is what errors are made of. Nothing (n, n) is held: windows are masks of es_attend(), a
 * mass is exp(lse of some keys - lse of all), and sums of scores come from sums of keys.
 */
#ifndef ES_EXPERIMENTS_PROBE_POSITIONS_H
#define ES_EXPERIMENTS_PROBE_POSITIONS_H

#include <esscher/exec.h>
#include <esscher/model.h>
#include <esscher/status.h>

enum {
    ES_POSITIONS_SINKS = 4,  /* first keys of a text, which are counted separately */
    ES_POSITIONS_LOCAL = 64, /* last keys, the query's own among them */
    ES_POSITIONS_MOST = 64   /* bins of a grid */
};

/* What is measured position by position. */
typedef struct es_positions_spec {
    const es_model *model; /* causal; of es_positions_block() */
    int64_t length;        /* n of a block, 2 .. 2^24 */
    int64_t window;        /* the widest of the model's layers: a query sees the last `window` keys;
                              0: all. What a head's layer has is es_model_seen.window */
} es_positions_spec;

/* Sums over the queries of a bin; the first is their number. */
typedef enum es_positions_stat {
    ES_POSITIONS_COUNT,
    ES_POSITIONS_PLACES,   /* ln n */
    ES_POSITIONS_ENTROPY,  /* nats */
    ES_POSITIONS_ESS,      /* 1/sum w^2 */
    ES_POSITIONS_LOG_ESS,  /* its logarithm: exp of the mean is the typical query's */
    ES_POSITIONS_SINGLE,   /* queries with 1/sum w^2 below 2 whose heaviest key is none of 0 .. 3 */
    ES_POSITIONS_ON_SINK,  /* queries with 1/sum w^2 below 2 whose heaviest key is one of 0 .. 3 */
    ES_POSITIONS_TOP,      /* largest weight */
    ES_POSITIONS_SQUARES,  /* sum w^2 */
    ES_POSITIONS_SINK,     /* weight on keys 0 .. 3 */
    ES_POSITIONS_NEAR,     /* weight on the last 64 keys */
    ES_POSITIONS_SCORE_SD, /* standard deviation of a query's scores */
    ES_POSITIONS_FREEZING, /* u, that over sqrt(2 ln n); 0 of a single key */
    ES_POSITIONS_ABOVE_ONE, /* queries with u > 1 */
    ES_POSITIONS_SPREAD,    /* |y - mean of y over the block|^2 */
    /* Count times the median over 16 queries of 1/L_8, the critical temperature of a row of scores
     * (THEORY 21), of all its keys and without 0 .. 3; 0 where queries see fewer than 16 keys */
    ES_POSITIONS_CRITICAL,
    ES_POSITIONS_CRITICAL_REST,
    ES_POSITIONS_STATS
} es_positions_stat;

/* Sums over pairs of a query and a key at one distance. */
typedef enum es_positions_score {
    ES_POSITIONS_PAIRS, /* their number */
    ES_POSITIONS_REAL,  /* the score */
    ES_POSITIONS_PLAIN, /* without the rotation; of a model that rotates nothing the same */
    ES_POSITIONS_SCORES
} es_positions_score;

/* Bins and where their sums are among the numbers of a head. Edges are 1, 2, 3, 4, 6, 8, 11, 16,
 * 23, ...: powers of sqrt 2, rounded, whatever the length.
 *
 *     bin b of places:     from to[b - 1] + 1 to to[b] keys; the last ends with the length. What is
 *                          left of the length after an edge is a bin unless it is very short
 *     window c:            the last window[c] keys and the sinks, unless the model's own window is
 *                          shorter than the length
 *     bin c of distances:  window[c - 1] <= i - j < window[c], from 0 on; the last, c = windows,
 *                          has the rest. Sinks are no part of them
 */
typedef struct es_positions_grid {
    int64_t bins, windows;
    int64_t to[ES_POSITIONS_MOST], window[ES_POSITIONS_MOST];
    int64_t seen;    /* keys that a query sees, at most: the length, or the model's window */
    int64_t numbers; /* of a head */
} es_positions_grid;

/*! es_positions_grid_of() : of spec->length and spec->window. @return : ES_OK; ES_E_RANGE
 *  (positions.length, positions.window). */
es_status es_positions_grid_of(const es_positions_spec *spec, es_positions_grid *out,
                               es_error *err);

/*! es_positions_at() : place of a sum of bin `bin`. es_positions_error_at() : of the squared errors
 *  |y_w - y|^2 of window `window`; es_positions_mass_at() : of the weights it has;
 *  es_positions_score_at() : of distance bin 0 <= distance <= windows, or of the sinks, distance =
 *  windows + 1; es_positions_horizon_at() : of the horizon sqrt(lmax(Cq Ck)) scale (THEORY 2) of
 *  the covariances of queries and keys over the block, as they are or plain, which is no sum. */
static inline int64_t es_positions_bin(const es_positions_grid *grid)
{
    return ES_POSITIONS_STATS + 2 * grid->windows;
}

static inline int64_t es_positions_at(const es_positions_grid *grid, int64_t bin,
                                      es_positions_stat stat)
{
    return bin * es_positions_bin(grid) + (int64_t)stat;
}

static inline int64_t es_positions_error_at(const es_positions_grid *grid, int64_t bin,
                                            int64_t window)
{
    return bin * es_positions_bin(grid) + ES_POSITIONS_STATS + window;
}

static inline int64_t es_positions_mass_at(const es_positions_grid *grid, int64_t bin,
                                           int64_t window)
{
    return es_positions_error_at(grid, bin, grid->windows + window);
}

static inline int64_t es_positions_score_at(const es_positions_grid *grid, int64_t distance,
                                            es_positions_score score)
{
    return grid->bins * es_positions_bin(grid) + distance * ES_POSITIONS_SCORES + (int64_t)score;
}

static inline int64_t es_positions_horizon_at(const es_positions_grid *grid, bool plain)
{
    return es_positions_score_at(grid, grid->windows + 2, ES_POSITIONS_PAIRS) + (plain ? 1 : 0);
}

/*! es_positions_head() : the numbers (grid.numbers) of one head as it ran, with its statistics;
 *  seen->q has spec->length rows, and plain views without data stand for the same as q and k.
 *  O(n^2 (k + dv)) for the windows together, some four times the attention itself; memory O(n (k +
 *  dv)). exec->threads threads; the same bits for any number of them.
 *  @return : ES_OK; ES_E_ARGUMENT (positions.statistics) if the run kept none; ES_E_SHAPE
 *  (positions.shape); as es_attend(), es_cov_estimate(). */
es_status es_positions_head(const es_positions_spec *spec, const es_model_seen *seen,
                            const es_exec *exec, double *numbers, es_error *err);

/*! es_positions_block() : one block of spec->length ids through the model, numbers (layers, heads,
 *  grid.numbers). On exec->threads threads. A pure function of model and ids.
 *  @return : ES_OK; ES_E_ARGUMENT (positions.causal) for a model that sees what comes after; as
 *  es_model_forward() and es_positions_head(). */
es_status es_positions_block(const es_positions_spec *spec, const int32_t *ids, const es_exec *exec,
                             double *numbers, es_error *err);

/* What a block takes beside running the model over it. */
typedef struct es_positions_cost {
    double flops;
    size_t bytes; /* upper bound on memory at one time, the model's own run included */
} es_positions_cost;

es_status es_positions_cost_of(const es_positions_spec *spec, es_positions_cost *out,
                               es_error *err);

#endif
