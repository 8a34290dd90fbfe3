/* SPDX-License-Identifier: Apache-2.0 */
/* dense.h : what the files of linalg share: a checked f64 copy of the input, BLAS on one thread,
 * the product of a linear layer, and the road es_norm_spectral() takes for large matrices. */
#ifndef ES_LINALG_DENSE_H
#define ES_LINALG_DENSE_H

#include <stdint.h>

#include <esscher/view.h>

#include "base/view.h"
#include "linalg/linalg.h"

/*! es_dense_check() : fails unless a can be processed. Its smaller dimension must be in [1,
 * ES_MAX_DIM], its larger one below 2^24 so that LAPACK's 32-bit indices do, and all of it finite.
 */
es_status es_dense_check(const es_view *a, const char *name, es_scan *scan, es_error *err);

/*! es_dense_copy() : es_dense_check(), then a as contiguous row-major f64. Free with es_mem_free().
 */
es_status es_dense_copy(const es_view *a, const char *name, es_mem_limit *budget, double **out,
                        es_error *err);

/*! es_dense_symmetric() : es_sym_check(), then the symmetric part as contiguous f64. */
es_status es_dense_symmetric(const es_view *a, const char *name, es_mem_limit *budget, double **out,
                             es_error *err);

/*! es_dense_new() : `count` f64 of scratch, and es_blas_scratch(). */
es_status es_dense_new(es_mem_limit *budget, int64_t rows, int64_t cols, double **out,
                       es_error *err);

/*! es_psd_rounding() : how far below 0 an eigenvalue of `a` (d, d) may be by rounding; see
 *  linalg.h on tolerance. */
double es_psd_rounding(const double *a, int64_t d, double tolerance);

/*! es_psd_refuse() : the failure of a matrix that is indefinite beyond rounding. */
es_status es_psd_refuse(double smallest, double largest, es_error *err);

/*! es_blas_scratch() : checks that BLAS may be called; call it, or es_dense_new(), once before.
 *  Thread-safe. @return : ES_OK; ES_E_MEMORY if a limit on the address space leaves too little,
 *  because BLAS would hang. */
es_status es_blas_scratch(es_error *err);

/*! es_blas_scratch_for() : the same, each time before `callers` threads of ours call it at once. */
es_status es_blas_scratch_for(int callers, es_error *err);

/*! es_blas_enter(), es_blas_leave() : between the two, BLAS uses one thread. How BLAS splits a sum
 *  over its threads changes the last bits of the result, and running on several threads is our own
 *  affair (base/threads.h). The setting is one per process, so nested and concurrent sections are
 *  counted: the first saves it, the last restores it. */
void es_blas_enter(void);
void es_blas_leave(void);

/*! es_gemm_add() : y (m, n) += x (m, k) w', w (n, k), all contiguous and of `dtype`; dimensions
 *  below 2^31. Call it between es_blas_enter() and es_blas_leave(), from any thread: the
 *  product runs on the caller's thread, with the same bits each time. */
void es_gemm_add(es_dtype dtype, int64_t m, int64_t n, int64_t k, const void *x, const void *w,
                 void *y);

/*! es_gemm_add_columns() : the same where rows of y are `stride` >= n numbers apart. */
void es_gemm_add_columns(es_dtype dtype, int64_t m, int64_t n, int64_t k, const void *x,
                         const void *w, void *y, int64_t stride);

/*! es_gemm_views() : y (m, n) = x w', x (m, k) and w (n, k) views of one dtype whose columns lie
 *  side by side, rows of y `stride` >= n numbers apart. es_gemm_mix() : y (m, n) = x w, x (m, k)
 * and y contiguous, w (k, n) such a view. As es_gemm_add(). */
void es_gemm_views(const es_view *x, const es_view *w, void *y, int64_t stride);
void es_gemm_mix(const void *x, int64_t m, const es_view *w, void *y);

enum {
    ES_NORM_STEPS = 320
}; /* Lanczos steps: enough for the edge of a random (4096, 4096) matrix */

/*! es_norm_certified() : es_norm_spectral() by Lanczos iteration of at most `steps` steps and a
 *  Cholesky certificate. */
es_status es_norm_certified(const es_view *a, int steps, es_mem_limit *budget, es_num *out,
                            es_error *err);

#endif
