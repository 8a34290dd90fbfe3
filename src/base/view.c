/* SPDX-License-Identifier: Apache-2.0 */
/* view.c : views of matrices: checks, element access, transposition, scans for NaN and largest
 * values. */
#include <esscher/view.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/view.h"
#include "base/view_at.h"

size_t es_dtype_size(es_dtype dtype) { return dtype == ES_F32 ? 4 : dtype == ES_F64 ? 8 : 0; }

const char *es_dtype_name(es_dtype dtype)
{
    return dtype == ES_F32 ? "f32" : dtype == ES_F64 ? "f64" : "?";
}

/* Returns a view of a row-major matrix. */
static es_view contiguous(const void *data, es_dtype dtype, int64_t rows, int64_t cols)
{
    const int64_t size = (int64_t)es_dtype_size(dtype);
    /* The view is const-correct by contract, not by type: see view.h. */
    union {
        const void *in;
        void *out;
    } pun = {.in = data};
    return (es_view){.data = pun.out,
                     .dtype = dtype,
                     .rows = rows,
                     .cols = cols,
                     .row_stride = cols * size,
                     .col_stride = size};
}

es_view es_view_f32(const float *data, int64_t rows, int64_t cols)
{
    return contiguous(data, ES_F32, rows, cols);
}

es_view es_view_f64(const double *data, int64_t rows, int64_t cols)
{
    return contiguous(data, ES_F64, rows, cols);
}

es_view es_view_rows(const es_view *v, int64_t first, int64_t count)
{
    es_view part = *v;
    part.data = (char *)v->data + first * v->row_stride;
    part.rows = count;
    return part;
}

es_view es_view_transpose(const es_view *v)
{
    return (es_view){.data = v->data,
                     .dtype = v->dtype,
                     .rows = v->cols,
                     .cols = v->rows,
                     .row_stride = v->col_stride,
                     .col_stride = v->row_stride};
}

double es_view_get(const es_view *v, int64_t row, int64_t col) { return es_view_at(v, row, col); }

void es_view_set(const es_view *v, int64_t row, int64_t col, double value)
{
    char *at = (char *)v->data + row * v->row_stride + col * v->col_stride;
    if (v->dtype == ES_F32) {
        const float f = (float)value;
        memcpy(at, &f, sizeof f);
    } else {
        memcpy(at, &value, sizeof value);
    }
}

void es_view_read_row(const es_view *v, int64_t row, double *out)
{
    for (int64_t j = 0; j < v->cols; j++)
        out[j] = es_view_at(v, row, j);
}

es_status es_view_check(const es_view *v, const char *name, es_error *err)
{
    if (!v || !v->data)
        return es_fail(err, ES_E_ARGUMENT, "view.data", "pass a matrix", "%s is missing", name);
    if (!es_dtype_size(v->dtype))
        return es_fail(err, ES_E_ARGUMENT, "view.dtype", "use ES_F32 or ES_F64",
                       "%s has unknown dtype %d", name, (int)v->dtype);
    if (v->rows < 0 || v->cols < 0 || v->rows > ES_MAX_ROWS || v->cols > ES_MAX_ROWS)
        return es_fail(err, ES_E_SHAPE, "view.shape", "dimensions go from 0 to 2^40",
                       "%s has shape (%lld, %lld)", name, (long long)v->rows, (long long)v->cols);
    return ES_OK;
}

/* Sum of squares of a row, scaled so that it neither overflows nor underflows to zero. */
static double row_norm(const es_view *v, int64_t row, double max_abs)
{
    if (max_abs == 0.0)
        return 0.0;
    double sum = 0.0;
    for (int64_t j = 0; j < v->cols; j++) {
        const double t = es_view_at(v, row, j) / max_abs;
        sum += t * t;
    }
    return max_abs * sqrt(sum);
}

/* Fast path of a scan: one contiguous f32 row. Squares in f64 cannot overflow for f32 input, and
 * NaN or Inf anywhere makes the sum non-finite. Returns a negative number when the row needs a
 * closer look. */
static double f32_row_norm(const float *x, int64_t cols, double *max_abs)
{
    double sum = 0.0;
    float largest = 0.0f;
    for (int64_t j = 0; j < cols; j++) {
        const float a = fabsf(x[j]);
        sum += (double)x[j] * (double)x[j];
        largest = a > largest ? a : largest;
    }
    *max_abs = (double)largest;
    return isfinite(sum) ? sqrt(sum) : -1.0;
}

es_status es_view_scan(const es_view *v, const char *name, es_scan *out, es_error *err)
{
    *out = (es_scan){0};
    const bool direct = v->dtype == ES_F32 && v->col_stride == 4 && v->row_stride % 4 == 0 &&
                        (uintptr_t)v->data % sizeof(float) == 0;
    for (int64_t i = 0; i < v->rows; i++) {
        double max_abs = 0.0, norm = -1.0;
        if (direct)
            norm = f32_row_norm(
                (const float *)(const void *)((const char *)v->data + i * v->row_stride), v->cols,
                &max_abs);
        if (norm < 0.0) {
            max_abs = 0.0;
            for (int64_t j = 0; j < v->cols; j++) {
                const double x = es_view_at(v, i, j);
                if (!isfinite(x))
                    return es_fail_at(err, ES_E_NONFINITE, i, j, "view.finite",
                                      "remove or replace the value", "%s[%lld, %lld] is %s", name,
                                      (long long)i, (long long)j,
                                      isnan(x) ? "NaN"
                                      : x > 0  ? "+Inf"
                                               : "-Inf");
                max_abs = fmax(max_abs, fabs(x));
            }
            norm = row_norm(v, i, max_abs);
        }
        out->max_norm = fmax(out->max_norm, norm);
        out->max_abs = fmax(out->max_abs, max_abs);
        if (v->row_stride == 0)
            break; /* a broadcast row is the same every time */
    }
    return ES_OK;
}
