/* SPDX-License-Identifier: Apache-2.0 */
/* view.h : what the library alone needs beside <esscher/view.h>. */
#ifndef ES_BASE_VIEW_H
#define ES_BASE_VIEW_H

#include <esscher/view.h>

/*! es_view_rows() : rows first .. first+count-1 of v. The range must lie inside v. */
es_view es_view_rows(const es_view *v, int64_t first, int64_t count);

/*! es_view_transpose() : the same numbers with rows and columns exchanged. */
es_view es_view_transpose(const es_view *v);

/*! es_view_set() : writes one element, converted from double; data may be unaligned. */
void es_view_set(const es_view *v, int64_t row, int64_t col, double value);

/*! es_view_read_row() : row `row` of v, converted to double, into out[0..cols). */
void es_view_read_row(const es_view *v, int64_t row, double *out);

/*! es_view_check() : fails unless v is a readable matrix.
 *  @return : ES_OK; ES_E_ARGUMENT if data is NULL or the dtype unknown; ES_E_SHAPE if a dimension
 * is negative or above 2^40. `name` is how messages call the matrix. */
es_status es_view_check(const es_view *v, const char *name, es_error *err);

/* What one pass over a matrix finds out about it. */
typedef struct es_scan {
    double max_norm; /* largest Euclidean norm of a row, exact to rounding, never overflowing */
    double max_abs;  /* largest magnitude of an element */
} es_scan;

/*! es_view_scan() : look at every element once; O(rows*cols), no allocation.
 *  @return : ES_OK; ES_E_NONFINITE with err->row, err->col at the first NaN or Inf in row-major
 * order. */
es_status es_view_scan(const es_view *v, const char *name, es_scan *out, es_error *err);

#endif
