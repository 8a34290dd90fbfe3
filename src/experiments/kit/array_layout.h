/* SPDX-License-Identifier: Apache-2.0 */
/* array_layout.h : which numbers of an array are the rows of a head.
 *
 * Programs store heads in two orders: (batch, heads, n, d), as the caches of Hugging Face do, and
 * (batch, n, heads, d), as flash-attention does. Arrays of fewer dimensions leave out the batch,
 * and then the heads. Either is read in place: a head is a view with strides. */
#ifndef ES_EXPERIMENTS_KIT_ARRAY_LAYOUT_H
#define ES_EXPERIMENTS_KIT_ARRAY_LAYOUT_H

#include <esscher/npy.h>
#include <esscher/view.h>

typedef enum es_array_order { ES_ARRAY_BHND, ES_ARRAY_BNHD } es_array_order;

/* Where the rows of heads are in an array, in elements: head h, row i begins at
 * first + h head_stride + i row_stride. */
typedef struct es_array_layout {
    int64_t heads, rows, cols;
    int64_t first, head_stride, row_stride;
} es_array_layout;

/*! es_array_layout_of() : the layout of an array of two to four dimensions; of a batch, number
 *  `batch` (negative: not given). @return : ES_E_SHAPE (measure.batch), saying how to choose. */
es_status es_array_layout_of(const es_npy_info *info, es_array_order order, int64_t batch,
                             const char *path, es_array_layout *out, es_error *err);

/*! es_array_layout_split() : rows that hold the outputs of all heads side by side, as models
 *  concatenate them. The columns must be a multiple of `heads`. */
void es_array_layout_split(es_array_layout *layout, int64_t heads);

/*! es_array_head() : the rows of a head, in place. */
es_view es_array_head(const es_array *array, const es_array_layout *layout, int64_t head);

/*! es_array_scan() : checks that every number of the layout is finite; other elements of a batch
 * are not read. @return : ES_E_NONFINITE (measure.finite), naming file, head, row and column. */
es_status es_array_scan(const es_array *array, const es_array_layout *layout, const char *path,
                        es_error *err);

#endif
