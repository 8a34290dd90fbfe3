/* SPDX-License-Identifier: Apache-2.0 */
/* draw_atoms.c : keys as atoms of the integral, one by one or gathered on a grid of ln w. */
#include "risk/draw_atoms.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* Returns the numbers of a bin: counts and sums, then the value. */
static int64_t row_of(int64_t width) { return ES_DRAW_VALUE + width; }

/* ---- the grid ---- */

es_status es_draw_grid_init(es_draw_grid *grid, es_mem_limit *budget, int64_t width,
                            const double *center, es_error *err)
{
    *grid = (es_draw_grid){
        .budget = budget, .width = width, .center = center, .top = -(double)INFINITY};
    return ES_MEM_NEW(budget, grid->off, width, "a value", err);
}

void es_draw_grid_free(es_draw_grid *grid)
{
    double **blocks = grid->blocks;
    for (int64_t b = 0; b < grid->capacity; b++)
        es_mem_free(grid->budget, blocks[b]);
    es_mem_free(grid->budget, grid->blocks);
    es_mem_free(grid->budget, grid->off);
    *grid = (es_draw_grid){0};
}

/* Space for block `at`, and some beside it, as scores come in any order. */
static es_status widen(es_draw_grid *grid, int64_t at, es_error *err)
{
    int64_t low = at - 8, high = at + 8;
    double **wider;
    if (grid->capacity) {
        low = at < grid->first ? at - grid->capacity / 2 - 1 : grid->first;
        high = at < grid->first ? grid->first + grid->capacity : at + grid->capacity / 2 + 2;
    }
    ES_TRY(ES_MEM_NEW(grid->budget, wider, high - low, "a grid of scores", err));
    if (grid->capacity)
        memcpy(wider + (grid->first - low), grid->blocks, (size_t)grid->capacity * sizeof *wider);
    es_mem_free(grid->budget, grid->blocks);
    grid->blocks = wider;
    grid->first = low;
    grid->capacity = high - low;
    return ES_OK;
}

/* Returns the row of point i; allocates its block if necessary. */
static es_status point_row(es_draw_grid *grid, int64_t i, double **row, es_error *err)
{
    const int64_t at = i >= 0 ? i / ES_DRAW_POINTS : -((ES_DRAW_POINTS - 1 - i) / ES_DRAW_POINTS);
    if (!grid->capacity || at < grid->first || at >= grid->first + grid->capacity)
        ES_TRY(widen(grid, at, err));
    double **block = (double **)grid->blocks + (at - grid->first);
    if (!*block)
        ES_TRY(ES_MEM_NEW_2D(grid->budget, *block, ES_DRAW_POINTS, row_of(grid->width),
                             "a grid of scores", err));
    *row = *block + (i - at * ES_DRAW_POINTS) * row_of(grid->width);
    return ES_OK;
}

/* e^z for 0 <= z <= 1/64, to rounding. */
static double small_exp(double z)
{
    return 1.0 +
           z * (1.0 +
                z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0 * (1.0 + z / 5.0 * (1.0 + z / 6.0)))));
}

/* e^(1/64), e^0, e^(-1/64), e^(-2/64): from the second of four points to each of them. */
static const double to_point[4] = {1.01574770858668574, 1.0, 0.98449643700540841,
                                   0.96923323447634408};

/* The cubic through four points -1, 0, 1, 2, at z in [0, 1]: a share for each. */
static void shares_at(double z, double share[4])
{
    share[0] = -z * (z - 1.0) * (z - 2.0) / 6.0;
    share[1] = (z + 1.0) * (z - 1.0) * (z - 2.0) / 2.0;
    share[2] = -(z + 1.0) * z * (z - 2.0) / 2.0;
    share[3] = (z + 1.0) * z * (z - 1.0) / 6.0;
}

/* Adds one key to the grid. Its weight is shared among the four points around s = ln w with the
 * coefficients of the cubic through them, so that sums over keys of a smooth f(s) come out
 * right to 0.023 f''''/64^4. A point stores sums of w/e^s, which is near 1, instead of w, which
 * may overflow. */
static es_status add_key(es_draw_grid *grid, double s, const double *value, es_error *err)
{
    const double place = s * ES_DRAW_POINTS, below = floor(place), z = place - below;
    const double grown = small_exp(z / ES_DRAW_POINTS);
    double share[4], square = 0.0, *row;
    for (int64_t l = 0; l < grid->width; l++) {
        grid->off[l] = value[l] - grid->center[l];
        square += grid->off[l] * grid->off[l];
    }
    grid->top = fmax(grid->top, s);
    grid->reach2 = fmax(grid->reach2, square);
    shares_at(z, share);
    for (int p = 0; p < 4; p++) {
        const double w = grown * to_point[p], part = share[p] * w;
        ES_TRY(point_row(grid, (int64_t)below - 1 + p, &row, err));
        row[ES_DRAW_COUNT] += share[p];
        row[ES_DRAW_WEIGHT] += part;
        row[ES_DRAW_SQUARE] += part * w * square;
        for (int64_t l = 0; l < grid->width; l++)
            row[ES_DRAW_VALUE + l] += part * grid->off[l];
    }
    return ES_OK;
}

es_status es_draw_grid_add(es_draw_grid *grid, const double *scores, const double *values,
                           int64_t n, es_error *err)
{
    grid->keys += n;
    for (int64_t j = 0; j < n; j++) {
        if (scores[j] > -(double)INFINITY)
            ES_TRY(add_key(grid, scores[j], values + j * grid->width, err));
        else
            grid->zeros++;
    }
    return ES_OK;
}

/* ---- atoms ---- */

/* Allocates `capacity` atoms, with their places on the grid if `points`. */
static es_status make(es_draw_atoms *atoms, int64_t capacity, bool points, es_error *err)
{
    const int64_t width = atoms->width;
    es_mem_limit *budget = atoms->budget;
    ES_TRY(ES_MEM_NEW(budget, atoms->center, width, "an output", err));
    ES_TRY(ES_MEM_NEW(budget, atoms->s, capacity, "scores", err));
    if (points)
        ES_TRY(ES_MEM_NEW(budget, atoms->point, capacity, "scores", err));
    return ES_MEM_NEW_2D(budget, atoms->rows, capacity, row_of(width), "keys of a query", err);
}

void es_draw_atoms_free(es_draw_atoms *atoms)
{
    es_mem_free(atoms->budget, atoms->rows);
    es_mem_free(atoms->budget, atoms->point);
    es_mem_free(atoms->budget, atoms->s);
    es_mem_free(atoms->budget, atoms->center);
    *atoms = (es_draw_atoms){0};
}

/* Returns a block of bins; NULL if no key fell into it. */
static const double *block_at(const es_draw_grid *grid, int64_t at)
{
    const bool inside = at >= grid->first && at < grid->first + grid->capacity;
    return inside ? ((double *const *)grid->blocks)[at - grid->first] : NULL;
}

/* Points of one unit of s, of all grids together, that have anything. */
static void take_block(const es_draw_grid *const *grids, int64_t n, int64_t at, es_draw_atoms *out)
{
    const int64_t size = row_of(out->width);
    bool there = false; /* rows are as many as there are blocks: without one there may be no more */
    for (int64_t g = 0; g < n; g++)
        there = there || block_at(grids[g], at);
    for (int64_t i = 0; there && i < ES_DRAW_POINTS; i++) {
        double *row = out->rows + out->count * size;
        bool any = false;
        for (int64_t g = 0; g < n; g++) {
            const double *block = block_at(grids[g], at);
            for (int64_t l = 0; block && l < size; l++)
                row[l] += block[i * size + l];
        }
        for (int64_t l = 0; l < ES_DRAW_VALUE; l++)
            any = any || row[l] != 0.0;
        if (!any)
            continue;
        out->point[out->count] = at * ES_DRAW_POINTS + i;
        out->s[out->count] = (double)out->point[out->count] / ES_DRAW_POINTS;
        out->count++;
    }
}

/* Collects the points of all grids that have any key. One array for all of them is large enough
 * if it has ES_DRAW_POINTS rows per block. */
es_status es_draw_atoms_of(const es_draw_grid *const *grids, int64_t n, es_draw_atoms *out,
                           es_error *err)
{
    int64_t low = INT64_MAX, high = INT64_MIN, blocks = 0;
    *out = (es_draw_atoms){
        .budget = grids[0]->budget, .width = grids[0]->width, .top = -(double)INFINITY};
    for (int64_t g = 0; g < n; g++) {
        const es_draw_grid *grid = grids[g];
        out->keys += (double)grid->keys;
        out->zeros += (double)grid->zeros;
        out->top = fmax(out->top, grid->top);
        out->reach = fmax(out->reach, sqrt(grid->reach2));
        low = grid->capacity && grid->first < low ? grid->first : low;
        high = grid->capacity && grid->first + grid->capacity > high ? grid->first + grid->capacity
                                                                     : high;
        for (int64_t b = 0; b < grid->capacity; b++)
            blocks += ((double *const *)grid->blocks)[b] != NULL;
    }
    const es_status status = make(out, blocks * ES_DRAW_POINTS, true, err);
    if (status != ES_OK) {
        es_draw_atoms_free(out);
        return status;
    }
    memcpy(out->center, grids[0]->center, (size_t)out->width * sizeof *out->center);
    for (int64_t at = low; at < high; at++)
        take_block(grids, n, at, out);
    return ES_OK;
}

/* Makes every key an atom: no interpolation error, at a price per key and node. Keys of weight
 * zero are only counted. */
es_status es_draw_atoms_exactly(const double *scores, const double *values, int64_t n,
                                int64_t width, const double *center, es_mem_limit *budget,
                                es_draw_atoms *out, es_error *err)
{
    *out = (es_draw_atoms){
        .budget = budget, .width = width, .keys = (double)n, .top = -(double)INFINITY};
    const es_status status = make(out, n, false, err);
    if (status == ES_OK)
        memcpy(out->center, center, (size_t)width * sizeof *center);
    for (int64_t j = 0; j < n && status == ES_OK; j++) {
        double *row = out->rows + out->count * row_of(width), square = 0.0;
        if (!(scores[j] > -(double)INFINITY)) {
            out->zeros += 1.0;
            continue;
        }
        for (int64_t l = 0; l < width; l++) {
            row[ES_DRAW_VALUE + l] = values[j * width + l] - center[l];
            square += row[ES_DRAW_VALUE + l] * row[ES_DRAW_VALUE + l];
        }
        row[ES_DRAW_COUNT] = row[ES_DRAW_WEIGHT] = 1.0;
        row[ES_DRAW_SQUARE] = square;
        out->s[out->count++] = scores[j];
        out->top = fmax(out->top, scores[j]);
        out->reach = fmax(out->reach, sqrt(square));
    }
    if (status != ES_OK)
        es_draw_atoms_free(out);
    return status;
}
