/* SPDX-License-Identifier: Apache-2.0 */
/* kv_round.c : rows as a cache gives them back: rotate, round, rotate back. */
#include <math.h>

#include "base/limits.h"
#include "cache/hadamard.h"
#include "cache/kv_row.h"

/* Reads a row as it is stored, before it is rounded to the type: f32, rotated if the format
 * rotates. */
static void enter(const es_kv_format *format, const es_view *rows, int64_t row, float *x)
{
    const int64_t n = rows->cols;
    if (!format->hadamard) {
        es_kv_load(rows, row, 0, n, x);
        return;
    }
    double wide[ES_MAX_DIM];
    const char *at = (const char *)rows->data + row * rows->row_stride;
    for (int64_t i = 0; rows->dtype == ES_F32 && i < n; i++)
        wide[i] = (double)((const float *)(const void *)at)[i];
    if (rows->dtype == ES_F64)
        memcpy(wide, at, (size_t)n * sizeof *wide);
    es_hadamard(wide, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)wide[i];
}

/* Writes a stored row, rotated back if the format rotates. */
static void leave(const es_kv_format *format, const es_view *rows, int64_t row, const float *x)
{
    const int64_t n = rows->cols;
    if (!format->hadamard) {
        es_kv_store(rows, row, 0, n, x);
        return;
    }
    double wide[ES_MAX_DIM];
    for (int64_t i = 0; i < n; i++)
        wide[i] = (double)x[i];
    es_hadamard(wide, n);
    char *at = (char *)rows->data + row * rows->row_stride;
    for (int64_t i = 0; rows->dtype == ES_F32 && i < n; i++)
        ((float *)(void *)at)[i] = (float)wide[i];
    if (rows->dtype == ES_F64)
        memcpy(at, wide, (size_t)n * sizeof *wide);
}

/* Replaces every row by what `round` makes of it. */
static void round_rows(const es_kv_format *format, es_kv_row_rounder *round, float scale,
                       const es_view *rows)
{
    float x[ES_MAX_DIM];
    for (int64_t row = 0; row < rows->rows; row++) {
        enter(format, rows, row, x);
        round(x, rows->cols, scale);
        leave(format, rows, row, x);
    }
}

/* Replaces keys by what comes back where places share scales. Both dtypes hold f16, so that stored
 * rows wait in place for the rest of their group. */
static void round_groups(const es_kv_format *format, const es_view *rows)
{
    float x[ES_MAX_DIM];
    for (int64_t row = 0; row < rows->rows; row++) {
        enter(format, rows, row, x);
        es_kv_round_f16(x, rows->cols, 1.0f);
        es_kv_store(rows, row, 0, rows->cols, x);
    }
    es_view group = *rows;
    group.rows = format->group;
    for (int64_t first = 0; first + format->group <= rows->rows; first += format->group) {
        group.data = (char *)rows->data + first * rows->row_stride;
        format->type->round_keys(&group);
    }
    for (int64_t row = 0; format->hadamard && row < rows->rows; row++) {
        es_kv_load(rows, row, 0, rows->cols, x);
        leave(format, rows, row, x);
    }
}

double es_kv_peak(const es_kv_format *format, const es_view *rows)
{
    float x[ES_MAX_DIM], peak = 0.0f;
    for (int64_t row = 0; row < rows->rows; row++) {
        enter(format, rows, row, x);
        for (int64_t i = 0; i < rows->cols; i++)
            peak = fabsf(x[i]) > peak ? fabsf(x[i]) : peak;
    }
    return (double)peak;
}

void es_kv_round(const es_kv_format *format, es_kv_side side, double peak, const es_view *rows)
{
    const es_kv_type *type = format->type;
    if (!type)
        return;
    if (side == ES_KV_KEYS && type->round_keys) {
        round_groups(format, rows);
        return;
    }
    const float scale =
        format->scale_of_tensor ? (float)peak / type->largest : (float)format->scale;
    round_rows(format, type->round, scale, rows);
}

void es_kv_round_fine(const es_kv_format *format, const es_view *rows)
{
    round_rows(format, es_kv_round_f16, 1.0f, rows);
}

int64_t es_kv_coarse_places(const es_kv_format *format, es_kv_side side, int64_t query)
{
    const int64_t residual = format->residual;
    if (side == ES_KV_KEYS)
        return query - query % residual;
    return query > residual ? query - residual : 0;
}
