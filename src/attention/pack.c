/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c : copies rows of any layout and type into the layout of the kernels; rows that already
 * have it are used in place. */
#include "attention/pack.h"

#include <string.h>

#include "base/view_at.h"

/* Returns whether the columns of v are contiguous and its elements aligned. */
static bool lies_in_rows(const es_view *v)
{
    const int64_t size = (int64_t)es_dtype_size(v->dtype);
    return v->col_stride == size && v->row_stride % size == 0 &&
           (uintptr_t)v->data % (uintptr_t)size == 0;
}

/* Column r of a group: row `row` of v times factor, zeros if there is none. The case of nearly
 * every query has a loop of its own. */
static void pack_row(const es_view *v, int64_t row, int64_t group, double factor, es_dtype dtype,
                     void *out)
{
    if (dtype == ES_F32 && v->dtype == ES_F32 && row < v->rows && lies_in_rows(v)) {
        const float *x = (const float *)(const void *)((const char *)v->data + row * v->row_stride);
        for (int64_t j = 0; j < v->cols; j++)
            ((float *)out)[j * group] = (float)(factor * (double)x[j]);
        return;
    }
    for (int64_t j = 0; j < v->cols; j++) {
        const double x = row < v->rows ? factor * es_view_at(v, row, j) : 0.0;
        if (dtype == ES_F32)
            ((float *)out)[j * group] = (float)x;
        else
            ((double *)out)[j * group] = x;
    }
}

void es_pack(const es_view *v, int64_t group, double factor, es_dtype dtype, void *out)
{
    const int64_t real = (int64_t)es_dtype_size(dtype), groups = (v->rows + group - 1) / group;
    for (int64_t row = 0; row < groups * group; row++)
        pack_row(v, row, group, factor, dtype,
                 (char *)out + (row / group * v->cols * group + row % group) * real);
}

/* One row, whose elements are neighbours. */
static void copy_row(const void *row, es_dtype from, int64_t count, es_dtype dtype, void *out)
{
    if (from == dtype)
        memcpy(out, row, (size_t)count * es_dtype_size(dtype));
    else if (dtype == ES_F64)
        for (int64_t j = 0; j < count; j++)
            ((double *)out)[j] = (double)((const float *)row)[j];
    else
        for (int64_t j = 0; j < count; j++)
            ((float *)out)[j] = (float)((const double *)row)[j];
}

/* Copies a row whose elements are not next to each other. */
static void copy_apart(const es_view *v, int64_t row, es_dtype dtype, void *out)
{
    for (int64_t j = 0; j < v->cols; j++) {
        if (dtype == ES_F32)
            ((float *)out)[j] = (float)es_view_at(v, row, j);
        else
            ((double *)out)[j] = es_view_at(v, row, j);
    }
}

void es_copy_rows(const es_view *v, int64_t first, const int64_t *numbers, int64_t count,
                  int64_t width, es_dtype dtype, void *out)
{
    const size_t real = es_dtype_size(dtype);
    const bool in_rows = lies_in_rows(v);
    char *to = out;
    for (int64_t i = 0; i < count; i++, to += (size_t)width * real) {
        const int64_t row = numbers ? numbers[i] : first + i;
        if (in_rows)
            copy_row((const char *)v->data + row * v->row_stride, v->dtype, v->cols, dtype, to);
        else
            copy_apart(v, row, dtype, to);
        memset(to + (size_t)v->cols * real, 0, (size_t)(width - v->cols) * real);
    }
}

const void *es_pack_rows(const es_view *v, int64_t first, int64_t count, int64_t width,
                         es_dtype dtype, void *copy, int64_t *stride)
{
    if (v->dtype == dtype && v->cols == width && lies_in_rows(v)) {
        *stride = v->row_stride / (int64_t)es_dtype_size(dtype);
        return (const char *)v->data + first * v->row_stride;
    }
    *stride = width;
    if (copy)
        es_copy_rows(v, first, NULL, count, width, dtype, copy);
    return copy;
}
