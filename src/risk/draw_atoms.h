/* SPDX-License-Identifier: Apache-2.0 */
/* draw_atoms.h : keys of one query, gathered for the integral of draw_risk.h.
 *
 * The integral needs sums over keys of smooth functions of s = ln w, times 1, w, wu and w^2|u|^2.
 * Few keys are *atoms* as they are. Many are spread over the points i/64 of a grid of s, each key
 * over the four around it with the coefficients of the cubic through them: sums of a smooth f come
 * out right to 0.023 f'''' / 64^4, some 1e-9, whatever the values are, and a pool of any size
 * becomes some thousand atoms.
 *
 *     es_draw_grid grid;                            streamed: one per query, or per half of a pool
 *     es_draw_grid_init(&grid, budget, width, center);
 *     es_draw_grid_add(&grid, scores, values, n, err);        as often as one likes
 *     es_draw_atoms_of(&grid, 1, &atoms, err);                several grids are one set of keys
 *     es_draw_solve(&atoms, sizes, n_sizes, risks, &about, err);
 *
 * Functions below trust their arguments: scores are finite or -inf, at most ES_DRAW_MOST_SCORE.
 * Not thread-safe for one grid; grids know nothing of each other. */
#ifndef ES_RISK_DRAW_ATOMS_H
#define ES_RISK_DRAW_ATOMS_H

#include "risk/draw_risk.h"

/* Points of the grid in a unit of s, and as many between two nodes of the integral: h = 20/64. */
enum { ES_DRAW_POINTS = 64, ES_DRAW_STRIDE = 20 };

/* A row of an atom at s: over its keys, sums of 1, w/e^s, (w/e^s)^2 |u|^2, (w/e^s) u (width). */
enum { ES_DRAW_COUNT, ES_DRAW_WEIGHT, ES_DRAW_SQUARE, ES_DRAW_VALUE };

/* Keys in bins of the logarithm of their weight, which makes millions of them a few hundred. */
typedef struct es_draw_grid {
    es_mem_limit *budget;
    int64_t width;
    const double *center; /* (width) what values are measured from, the caller's: near the output,
                             or |u|^2 comes from a difference of larger numbers */
    double *off;          /* (width) a value less the center */
    int64_t keys, zeros;  /* added so far, and those of weight zero among them */
    double top, reach2;   /* largest score; largest |v - center|^2 */
    int64_t first, capacity; /* blocks[b]: points of [first + b, first + b + 1), NULL if none */
    void *blocks;            /* double *(capacity) */
} es_draw_grid;

/*! es_draw_grid_init() : an empty grid; es_draw_grid_free() whatever comes. */
es_status es_draw_grid_init(es_draw_grid *grid, es_mem_limit *budget, int64_t width,
                            const double *center, es_error *err);
es_status es_draw_grid_add(es_draw_grid *grid, const double *scores, const double *values,
                           int64_t n, es_error *err);
void es_draw_grid_free(es_draw_grid *grid);

/* The bins that hold keys, as the integrals use them. */
typedef struct es_draw_atoms {
    es_mem_limit *budget;
    int64_t width, count;
    double keys, zeros; /* all of them; of weight zero, which are in no atom */
    double top;         /* largest score of a key */
    double reach;       /* at least the largest |u| */
    double *center;     /* (width) what u is measured from: the output, once solved */
    int64_t *point;     /* (count) s in 1/64, or NULL: keys as they are */
    double *s;          /* (count) */
    double *rows;       /* (count, ES_DRAW_VALUE + width) */
} es_draw_atoms;

/*! es_draw_atoms_of() : the keys of `n` grids together, which must have the same center and width.
 *  There must be one of positive weight. */
es_status es_draw_atoms_of(const es_draw_grid *const *grids, int64_t n, es_draw_atoms *out,
                           es_error *err);

/*! es_draw_atoms_exactly() : every key an atom of its own; values (n, width), measured from center
 *  (width), any value near the output. */
es_status es_draw_atoms_exactly(const double *scores, const double *values, int64_t n,
                                int64_t width, const double *center, es_mem_limit *budget,
                                es_draw_atoms *out, es_error *err);
void es_draw_atoms_free(es_draw_atoms *atoms);

/*! es_draw_solve() : move u to the output of these keys (atoms->center), say what the weights say,
 *  and take the integral for every size: out (n_sizes). */
es_status es_draw_solve(es_draw_atoms *atoms, const int64_t *sizes, int64_t n_sizes,
                        es_draw_risk *out, es_draw_query *about, es_error *err);

#endif
