/* SPDX-License-Identifier: Apache-2.0 */
/* view.h : a matrix in memory that belongs to the caller.
 *
 * An es_view describes rows x cols numbers at `data`, with strides in bytes, so that a slice, a
 * transpose, a broadcast row (stride 0) and a matrix inside a file mapping that starts at an odd
 * byte are all views. A view never owns memory. A function writes through a view only where its
 * documentation says "out".
 */
#ifndef ESSCHER_VIEW_H
#define ESSCHER_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum es_dtype { ES_F32 = 1, ES_F64 = 2 } es_dtype;

typedef struct es_view {
    void *data;
    es_dtype dtype;
    int64_t rows, cols;
    int64_t row_stride, col_stride; /* bytes; may be 0 or negative */
} es_view;

/*! es_dtype_size() : 4 or 8; 0 for a number that is no dtype. */
ES_API size_t es_dtype_size(es_dtype dtype);

/*! es_dtype_name() : "f32" or "f64". */
ES_API const char *es_dtype_name(es_dtype dtype);

/*! es_view_f32(), es_view_f64() : a contiguous row-major (rows, cols) matrix. */
ES_API es_view es_view_f32(const float *data, int64_t rows, int64_t cols);
ES_API es_view es_view_f64(const double *data, int64_t rows, int64_t cols);

/*! es_view_get() : one element, converted to double; data may be unaligned. */
ES_API double es_view_get(const es_view *v, int64_t row, int64_t col);

/* ---- a number with a bound on its error ---- */

/* |true value - val| <= err. The tests check the claim, not only the value. */
typedef struct es_num {
    double val, err;
} es_num;

#ifdef __cplusplus
}
#endif
#endif
