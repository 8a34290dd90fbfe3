#include "attention/pack.h"

#include <string.h>

#include "base/view_at.h"

typedef float v4f __attribute__((vector_size(16), aligned(4)));

/* out (4, 4) = transpose of the 4 x 4 corner at x, whose rows are `row` floats apart. */
static inline void transpose_4x4(const float *x, int64_t row, float *out)
{
    const v4f a = *(const v4f *)x, b = *(const v4f *)(x + row), c = *(const v4f *)(x + 2 * row),
              d = *(const v4f *)(x + 3 * row);
    const v4f ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
              AB = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const v4f cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
              CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(v4f *)out = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(v4f *)(out + 4) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(v4f *)(out + 8) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
    *(v4f *)(out + 12) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
}

/* out (4, 4) = the same corner as it is. */
static inline void copy_4x4(const float *x, int64_t row, float *out)
{
    const v4f a = *(const v4f *)x, b = *(const v4f *)(x + row), c = *(const v4f *)(x + 2 * row),
              d = *(const v4f *)(x + 3 * row);
    *(v4f *)out = a;
    *(v4f *)(out + 4) = b;
    *(v4f *)(out + 8) = c;
    *(v4f *)(out + 12) = d;
}

/* Whole groups of 4 rows of aligned f32, the case of nearly every key and value. Either neighbours
 * in memory are neighbours in a row (keys) or they are neighbours in a column (values); both loops
 * read memory from front to back, because the rows come from far away and the packed copy is near.
 * Returns how many groups were done. */
static int64_t pack_f32_groups_of_4(const es_view *v, float *out)
{
    const bool aligned =
        (uintptr_t)v->data % sizeof(float) == 0 && v->row_stride % 4 == 0 && v->col_stride % 4 == 0;
    if (v->dtype != ES_F32 || !aligned)
        return 0;
    const int64_t groups = v->rows / 4, row = v->row_stride / 4, col = v->col_stride / 4;
    const float *x = v->data;
    if (row == 1) {
        int64_t j = 0;
        for (; j + 4 <= v->cols; j += 4) /* a cache line of `out` at a time */
            for (int64_t g = 0; g < groups; g++)
                copy_4x4(x + j * col + 4 * g, col, out + (g * v->cols + j) * 4);
        for (; j < v->cols; j++)
            for (int64_t g = 0; g < groups; g++)
                memcpy(out + (g * v->cols + j) * 4, x + j * col + 4 * g, 4 * sizeof *out);
        return groups;
    }
    if (col != 1)
        return 0;
    for (int64_t g = 0; g < groups; g++) {
        const float *r0 = x + 4 * g * row, *r1 = r0 + row, *r2 = r1 + row, *r3 = r2 + row;
        int64_t j = 0;
        for (; j + 4 <= v->cols; j += 4, out += 16)
            transpose_4x4(r0 + j, row, out);
        for (; j < v->cols; j++, out += 4) {
            out[0] = r0[j];
            out[1] = r1[j];
            out[2] = r2[j];
            out[3] = r3[j];
        }
    }
    return groups;
}

void es_pack(const es_view *v, int64_t group, double factor, es_dtype dtype, void *out)
{
    const int64_t groups = (v->rows + group - 1) / group;
    int64_t done = 0;
    if (group == 4 && factor == 1.0 && dtype == ES_F32)
        done = pack_f32_groups_of_4(v, out);
    for (int64_t g = done; g < groups; g++) {
        for (int64_t r = 0; r < group; r++) {
            const int64_t row = g * group + r;
            for (int64_t j = 0; j < v->cols; j++) {
                const double x = row < v->rows ? factor * es_view_at(v, row, j) : 0.0;
                const int64_t at = (g * v->cols + j) * group + r;
                if (dtype == ES_F32)
                    ((float *)out)[at] = (float)x;
                else
                    ((double *)out)[at] = x;
            }
        }
    }
}

const void *es_pack_rows(const es_view *v, int64_t first, int64_t count, es_dtype dtype, void *copy,
                         int64_t *stride)
{
    const es_view rows = es_view_rows(v, first, count);
    const int64_t real = (int64_t)es_dtype_size(dtype);
    if (v->dtype == dtype && v->col_stride == real && v->row_stride % real == 0 &&
        (uintptr_t)v->data % (uintptr_t)real == 0) {
        *stride = v->row_stride / real;
        return rows.data;
    }
    *stride = v->cols;
    if (copy)
        es_pack(&rows, 1, 1.0, dtype, copy);
    return copy;
}
