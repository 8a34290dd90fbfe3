/* SPDX-License-Identifier: Apache-2.0 */
/* covariance.c : mean and covariance of rows, in two passes.
 *
 * pass 1: m = mean, summed in blocks of TALL rows, which keeps the chain of additions short.
 * pass 2: c = sum (x - m)(x - m)' and r = sum (x - m); cov = (c - r r'/n) / n. In exact arithmetic
 * r is 0; here it takes back what rounding did to m.
 *
 * The (d, d) result is cut into blocks of WIDE columns; a unit of work is one block on or below the
 * diagonal and goes through all rows. So nothing is summed across units, any number of threads
 * gives the same bits, and a thread needs two (TALL, WIDE) tiles. */
#include "linalg/linalg.h"

#include <cblas.h>
#include <math.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "base/view_at.h"
#include "linalg/dense.h"

enum { TALL = 256, WIDE = 64 };

/* Tiles of the covariance that threads share. */
typedef struct job {
    const es_view *x;
    const double *mean;
    double divisor;
    double *cov;
    double *scratch; /* per thread: two tiles and two sums */
} job;

enum { SCRATCH = 2 * TALL * WIDE + 2 * WIDE };

/* Computes column means in blocks of TALL rows, so that rounding errors grow slowly. */
static void column_means(const es_view *x, double *row, double *block, double *mean)
{
    for (int64_t j = 0; j < x->cols; j++)
        mean[j] = block[j] = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        es_view_read_row(x, i, row);
        const bool last = (i + 1) % TALL == 0 || i + 1 == x->rows;
        for (int64_t j = 0; j < x->cols; j++) {
            block[j] += row[j];
            if (last) {
                mean[j] += block[j];
                block[j] = 0.0;
            }
        }
    }
    for (int64_t j = 0; j < x->cols; j++)
        mean[j] /= (double)x->rows;
}

/* tile (count, WIDE) = rows first.. of x minus their mean, columns col.. col+width; sums += tile.
 */
static void centre(const job *w, int64_t first, int64_t count, int64_t col, int64_t width,
                   double *tile, double *sums)
{
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < width; j++) {
            const double c = es_view_at(w->x, first + i, col + j) - w->mean[col + j];
            tile[i * WIDE + j] = c;
            sums[j] += c;
        }
    }
}

/* Block number `unit`, counted along the rows of the lower triangle of blocks. */
static void block_of_unit(int64_t unit, int64_t *row, int64_t *col)
{
    *row = 0;
    while (unit > *row)
        unit -= ++*row;
    *col = unit;
}

/* Computes one block of the covariance; blocks are independent and their sums have a fixed order.
 */
static es_status block_covariance(void *context, int64_t unit, int thread, es_error *err)
{
    (void)err;
    const job *w = context;
    const int64_t n = w->x->rows, d = w->x->cols;
    int64_t block_i, block_j;
    block_of_unit(unit, &block_i, &block_j);
    const int64_t col_i = block_i * WIDE, col_j = block_j * WIDE;
    const int64_t width_i = d - col_i < WIDE ? d - col_i : WIDE;
    const int64_t width_j = d - col_j < WIDE ? d - col_j : WIDE;
    double *tile_i = w->scratch + (int64_t)thread * SCRATCH, *tile_j = tile_i + TALL * WIDE;
    double *sum_i = tile_j + TALL * WIDE, *sum_j = sum_i + WIDE;
    double *block = w->cov + col_i * d + col_j;

    for (int64_t j = 0; j < WIDE; j++)
        sum_i[j] = sum_j[j] = 0.0;
    for (int64_t first = 0; first < n; first += TALL) {
        const int64_t count = n - first < TALL ? n - first : TALL;
        centre(w, first, count, col_i, width_i, tile_i, sum_i);
        centre(w, first, count, col_j, width_j, tile_j, sum_j);
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)width_i, (int)width_j, (int)count,
                    1.0, tile_i, WIDE, tile_j, WIDE, first ? 1.0 : 0.0, block, (int)d);
    }
    for (int64_t i = 0; i < width_i; i++) {
        for (int64_t j = 0; j < width_j; j++)
            block[i * d + j] = (block[i * d + j] - sum_i[i] * (sum_j[j] / (double)n)) / w->divisor;
    }
    return ES_OK;
}

/* The lower triangle decides; an entry that is not finite is an overflow, the input being finite.
 */
static es_status mirror(double *cov, int64_t d, es_error *err)
{
    for (int64_t i = 0; i < d; i++) {
        for (int64_t j = 0; j <= i; j++) {
            if (!isfinite(cov[i * d + j]))
                return es_fail_at(err, ES_E_OVERFLOW, i, j, "linalg.overflow", "scale the tokens",
                                  "the covariance overflows");
            cov[j * d + i] = cov[i * d + j];
        }
    }
    return ES_OK;
}

es_status es_cov_estimate(const es_view *x, bool unbiased, const es_exec *exec, double *mean,
                          double *cov, es_error *err)
{
    es_scan scan;
    ES_TRY(es_view_check(x, "tokens", err));
    if (x->rows < (unbiased ? 2 : 1) || x->cols < 1)
        return es_fail(err, ES_E_EMPTY, "linalg.empty", "pass more tokens",
                       "the covariance of tokens of shape (%lld, %lld)", (long long)x->rows,
                       (long long)x->cols);
    if (x->cols > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "linalg.dim", "dense algebra is for d <= 4096",
                       "tokens of dimension %lld", (long long)x->cols);
    ES_TRY(es_view_scan(x, "tokens", &scan, err));

    const int64_t d = x->cols, blocks = (d + WIDE - 1) / WIDE, units = blocks * (blocks + 1) / 2;
    const int threads = es_parallel_threads(exec, units);
    es_mem_limit *budget = exec ? exec->budget : NULL;
    double *means = NULL, *scratch = NULL;
    es_status status = es_blas_scratch_for(threads, err);
    if (status == ES_OK)
        status = es_dense_new(budget, 3, d, &means, err);
    if (status == ES_OK)
        status = es_dense_new(budget, threads, SCRATCH, &scratch, err);
    if (status == ES_OK) {
        column_means(x, means + d, means + 2 * d, means);
        job w = {.x = x, .mean = means, .cov = cov, .scratch = scratch};
        w.divisor = (double)(unbiased ? x->rows - 1 : x->rows);
        es_blas_enter();
        status = es_parallel_run(exec, units, block_covariance, &w, err);
        es_blas_leave();
    }
    if (status == ES_OK)
        status = mirror(cov, d, err);
    for (int64_t j = 0; j < d && status == ES_OK && mean; j++)
        mean[j] = means[j];
    es_mem_free(budget, means);
    es_mem_free(budget, scratch);
    return status;
}
