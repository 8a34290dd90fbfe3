#include "linalg/gemm.h"

#include <cblas.h>

void es_gemm_add(es_dtype dtype, int64_t m, int64_t n, int64_t k, const void *x, const void *w,
                 void *y)
{
    const int rows = (int)m, cols = (int)n, inner = (int)k;
    if (dtype == ES_F32)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, inner, 1.0f, x, inner, w,
                    inner, 1.0f, y, cols);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, inner, 1.0, x, inner, w,
                    inner, 1.0, y, cols);
}
