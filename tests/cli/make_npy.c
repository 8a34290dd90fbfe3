/* make_npy : arrays for the tests of the program.
 *
 *     make_npy FILE f32|f64 ROWSxCOLS normal SEED     standard normal numbers
 *     make_npy FILE f32|f64 ROWSxCOLS constant X      the same number everywhere (nan, inf too)
 *     make_npy FILE f32|f64 ROWSxCOLS index           0, 1, 2, ...
 *     make_npy FILE add X IN                          a copy of IN with X added to its last element
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
    if (argc < 5)
        return fail("usage: see make_npy.c");
    int64_t shape[ES_ARRAY_RANK], count = 1;
    int rank = 0;
    for (char *p = argv[3]; *p && rank < ES_ARRAY_RANK; p += *p == 'x') {
        shape[rank] = strtoll(p, &p, 10);
        count *= shape[rank++];
    }
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
