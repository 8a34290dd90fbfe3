/* gemm.h : the matrix product of a linear layer, for rooms that run many of them. */
#ifndef ES_LINALG_GEMM_H
#define ES_LINALG_GEMM_H

#include <stdint.h>

#include <esscher/view.h>

/*! es_gemm_add() : y (m, n) += x (m, k) w', w (n, k), all contiguous and of `dtype`; dimensions
 *  below 2^31. Call it between es_blas_enter() and es_blas_leave() (dense.h), from any thread: the
 *  product runs on the caller's thread, with the same bits each time. */
void es_gemm_add(es_dtype dtype, int64_t m, int64_t n, int64_t k, const void *x, const void *w,
                 void *y);

#endif
