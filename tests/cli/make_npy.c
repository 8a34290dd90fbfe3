/* SPDX-License-Identifier: Apache-2.0 */
/* make_npy : arrays for the tests of the program.
 *
 *     make_npy FILE f32|f64 ROWSxCOLS normal SEED     standard normal numbers
 *     make_npy FILE f32|f64 ROWSxCOLS constant X      the same number everywhere (nan, inf too)
 *     make_npy FILE f32|f64 ROWSxCOLS index           0, 1, 2, ...
 *     make_npy FILE add X IN                          a copy of IN with X added to its last element
 *     make_npy FILE as ROWSxCOLS IN                   the numbers of IN in another shape
 *     make_npy FILE swap x IN                         (a, b, c) of IN as (b, a, c)
 *     make_npy FILE bf16 DESCR IN                     f32 IN cut to bfloat16, with the dtype DESCR,
 * e.g. <u2
 *     make_npy FILE whole DESCR SHAPE X...            whole numbers, <i8, <i4, <u2 and so on; 0
 * where there are fewer
 *
 * Shapes may have more dimensions: 2x300x16.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/npy.h>
#include <esscher/random.h>

static es_error err;

static int fail(const char *what)
{
    fprintf(stderr, "make_npy: %s: %s\n", what, err.message);
    return 1;
}

static int shape_of(const char *text, int64_t *shape, int64_t *count)
{
    int rank = 0;
    *count = 1;
    for (char *p = (char *)(uintptr_t)text; *p && rank < ES_ARRAY_RANK; p += *p == 'x') {
        shape[rank] = strtoll(p, &p, 10);
        *count *= shape[rank++];
    }
    return rank;
}

static int reshape(const char *path, const char *shape, const char *from)
{
    es_array a;
    int64_t now[ES_ARRAY_RANK], count;
    if (es_npy_load(from, NULL, &a, &err) != ES_OK)
        return fail(from);
    const int rank = shape_of(shape, now, &count);
    const es_status status = es_npy_save(path, a.dtype, rank, now, a.data, true, &err);
    es_array_free(&a);
    return status == ES_OK ? 0 : fail(path);
}

static int swap(const char *path, const char *from)
{
    es_array a;
    if (es_npy_load(from, NULL, &a, &err) != ES_OK || a.rank != 3)
        return fail(from);
    const int64_t A = a.shape[0], B = a.shape[1], shape[] = {B, A, a.shape[2]};
    const size_t size = (size_t)a.shape[2] * es_dtype_size(a.dtype);
    char *out = malloc((size_t)(A * B) * size);
    if (!out)
        return fail("memory");
    for (int64_t i = 0; i < A; i++)
        for (int64_t j = 0; j < B; j++)
            memcpy(out + (size_t)(j * A + i) * size, (char *)a.data + (size_t)(i * B + j) * size,
                   size);
    const es_status status = es_npy_save(path, a.dtype, 3, shape, out, true, &err);
    es_array_free(&a);
    free(out);
    return status == ES_OK ? 0 : fail(path);
}

/* What NumPy writes of a dtype that es_npy_save() does not know. NULL: it cannot be written. */
static FILE *begin_file(const char *path, const char *descr, int rank, const int64_t *shape)
{
    char text[112] = "", header[128];
    int used =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < rank; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%lld, ", (long long)shape[i]);
    snprintf(text + used, sizeof text - (size_t)used, "), }");
    snprintf(header, sizeof header, "%-117s\n", text);
    FILE *f = fopen(path, "wb");
    if (!f)
        return NULL;
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f);
    fwrite(header, 1, 118, f);
    return f;
}

static int bf16(const char *path, const char *descr, const char *from)
{
    es_array a;
    int64_t count = 1;
    if (es_npy_load(from, NULL, &a, &err) != ES_OK || a.dtype != ES_F32)
        return fail(from);
    for (int i = 0; i < a.rank; i++)
        count *= a.shape[i];
    FILE *f = begin_file(path, descr, a.rank, a.shape);
    if (!f)
        return fail(path);
    for (int64_t i = 0; i < count; i++)
        fwrite((char *)a.data + 4 * i + 2, 1, 2, f); /* the upper half, little endian */
    es_array_free(&a);
    return fclose(f) == 0 ? 0 : fail(path);
}

static int whole(const char *path, const char *descr, const char *shape, char **numbers)
{
    int64_t now[ES_ARRAY_RANK], count;
    const size_t size = (size_t)(descr[2] - '0');
    const int rank = shape_of(shape, now, &count);
    FILE *f = begin_file(path, descr, rank, now);
    if (!f)
        return fail(path);
    for (int64_t i = 0; i < count; i++) {
        const int64_t value = *numbers ? strtoll(*numbers++, NULL, 10) : 0;
        fwrite(&value, 1, size, f); /* the lower bytes, little endian */
    }
    return fclose(f) == 0 ? 0 : fail(path);
}

static int copy_with(const char *path, double add, const char *from)
{
    es_array a;
    if (es_npy_load(from, NULL, &a, &err) != ES_OK)
        return fail(from);
    int64_t last = -1;
    int64_t count = 1;
    for (int i = 0; i < a.rank; i++)
        count *= a.shape[i];
    last += count;
    if (a.dtype == ES_F32)
        ((float *)a.data)[last] += (float)add;
    else
        ((double *)a.data)[last] += add;
    const es_status status = es_npy_save(path, a.dtype, a.rank, a.shape, a.data, true, &err);
    es_array_free(&a);
    return status == ES_OK ? 0 : fail(path);
}

static void fill(double *x, int64_t rows, int64_t cols, const char *kind, const char *parameter)
{
    if (strcmp(kind, "normal") == 0) {
        const es_address at = {.seed = strtoull(parameter, NULL, 10)};
        es_normal_rows(&at, rows, cols, x, &err);
        return;
    }
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = strcmp(kind, "index") == 0 ? (double)i : strtod(parameter, NULL);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[2], "add") == 0)
        return copy_with(argv[1], strtod(argv[3], NULL), argv[4]);
    if (argc == 5 && strcmp(argv[2], "as") == 0)
        return reshape(argv[1], argv[3], argv[4]);
    if (argc == 5 && strcmp(argv[2], "swap") == 0)
        return swap(argv[1], argv[4]);
    if (argc == 5 && strcmp(argv[2], "bf16") == 0)
        return bf16(argv[1], argv[3], argv[4]);
    if (argc >= 5 && strcmp(argv[2], "whole") == 0)
        return whole(argv[1], argv[3], argv[4], argv + 5);
    if (argc < 5)
        return fail("usage: see make_npy.c");
    int64_t shape[ES_ARRAY_RANK], count;
    const int rank = shape_of(argv[3], shape, &count);
    double *x = malloc((size_t)count * sizeof *x + 8);
    float *f = malloc((size_t)count * sizeof *f + 8);
    if (!x || !f)
        return fail("memory");
    const int64_t cols = shape[rank - 1];
    fill(x, cols ? count / cols : 0, cols, argv[4], argc > 5 ? argv[5] : "0");
    for (int64_t i = 0; i < count; i++)
        f[i] = (float)x[i];
    const int single = strcmp(argv[2], "f32") == 0;
    const es_status status = es_npy_save(argv[1], single ? ES_F32 : ES_F64, rank, shape,
                                         single ? (void *)f : (void *)x, true, &err);
    free(x);
    free(f);
    return status == ES_OK ? 0 : fail(argv[1]);
}
