/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c : the table of kernels by instruction set and precision. */
#include "attention/kernels.h"

#include <math.h>

#include "attention/pack.h"
#include "attention/tiles.h"

const es_kernels *es_kernels_find(es_isa isa, es_dtype dtype)
{
    const int i = dtype == ES_F64;
    switch (isa) {
    case ES_ISA_PORTABLE:
        return &es_kernels_portable[i];
#if defined(__x86_64__)
    case ES_ISA_AVX2:
        return &es_kernels_avx2[i];
    case ES_ISA_AVX512:
        return &es_kernels_avx512[i];
#elif defined(__aarch64__)
    case ES_ISA_NEON:
        return &es_kernels_neon[i];
#endif
    default:
        return NULL;
    }
}

double es_kernels_squares(const es_kernels *kernels, const es_view *v)
{
    enum { ELEMENTS = 65536 }; /* summed in the kernel's precision, which must not stand still */
    const int64_t some = ELEMENTS / v->cols + 1;
    const int64_t rows = v->row_stride ? v->rows : 1; /* a broadcast row is the same every time */
    int64_t stride;
    const char *x = es_pack_rows(v, 0, rows, v->cols, kernels->dtype, NULL, &stride);
    double sum = x ? 0.0 : NAN;
    for (int64_t row = 0; x && row < rows; row += some)
        sum += kernels->squares(x + row * v->row_stride, stride,
                                rows - row < some ? rows - row : some, v->cols);
    return sum;
}
