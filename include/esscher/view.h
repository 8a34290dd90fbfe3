/* view.h : a matrix somebody else owns.
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

/*! es_view_rows() : rows first .. first+count-1 of v. The range must lie inside v. */
ES_API es_view es_view_rows(const es_view *v, int64_t first, int64_t count);

/*! es_view_transpose() : the same numbers with rows and columns exchanged. */
ES_API es_view es_view_transpose(const es_view *v);

/*! es_view_get(), es_view_set() : one element, converted to or from double; data may be unaligned.
 */
ES_API double es_view_get(const es_view *v, int64_t row, int64_t col);
ES_API void es_view_set(const es_view *v, int64_t row, int64_t col, double value);

/*! es_view_read_row() : row `row` of v, converted to double, into out[0..cols). */
ES_API void es_view_read_row(const es_view *v, int64_t row, double *out);

/*! es_view_check() : is v a matrix one can read?
 *  @return : ES_OK; ES_E_ARGUMENT if data is NULL or the dtype unknown; ES_E_SHAPE if a dimension
 * is negative or above 2^40. `name` is how messages call the matrix. */
ES_API es_status es_view_check(const es_view *v, const char *name, es_error *err);

/* What one pass over a matrix finds out about it. */
typedef struct es_scan {
    double max_norm; /* largest Euclidean norm of a row, exact to rounding, never overflowing */
    double max_abs;  /* largest magnitude of an element */
} es_scan;

/*! es_view_scan() : look at every element once; O(rows*cols), no allocation.
 *  @return : ES_OK; ES_E_NONFINITE with err->row, err->col at the first NaN or Inf in row-major
 * order. */
ES_API es_status es_view_scan(const es_view *v, const char *name, es_scan *out, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
