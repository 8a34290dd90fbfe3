#include "tokens/factored.h"

#include <stdio.h>
#include <stdlib.h>

#include <esscher/linalg.h>
#include <esscher/npy.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view_at.h"

es_status es_covariance_new(int64_t dim, es_budget *budget, es_covariance *out, es_error *err)
{
    void *memory;
    *out = (es_covariance){.dim = dim, .budget = budget};
    ES_TRY(es_mem_array(budget, dim, dim, sizeof(double), "a covariance", &memory, err));
    out->matrix = memory;
    ES_TRY(es_mem_array(budget, dim, dim, sizeof(double), "a factor", &memory, err));
    out->factor = memory;
    ES_TRY(es_mem_array(budget, dim, 1, sizeof(double), "eigenvalues", &memory, err));
    out->values = memory;
    return ES_OK;
}

void es_covariance_free(es_covariance *c)
{
    es_mem_free(c->budget, c->matrix);
    es_mem_free(c->budget, c->factor);
    es_mem_free(c->budget, c->values);
    *c = (es_covariance){0};
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

void es_covariance_sort(es_covariance *c)
{
    qsort(c->values, (size_t)c->dim, sizeof *c->values, descending);
}

es_status es_covariance_eigen(es_covariance *c, es_error *err)
{
    const es_view matrix = es_view_f64(c->matrix, c->dim, c->dim);
    ES_TRY(es_sym_eigen(&matrix, c->budget, c->values, NULL, err));
    es_covariance_sort(c);
    return ES_OK;
}

/* ---- brought by others ---- */

static es_status adopt(const es_view *m, double tolerance, es_covariance *c, es_error *err)
{
    const int64_t d = c->dim;
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++)
            c->matrix[i * d + j] = 0.5 * es_view_at(m, i, j) + 0.5 * es_view_at(m, j, i);
    const es_view matrix = es_view_f64(c->matrix, d, d);
    if (tolerance == 0.0 && m->dtype == ES_F32)
        tolerance = 1e-5; /* what rounding to f32 does to eigenvalues, and some */
    ES_TRY(es_chol_factor(&matrix, tolerance, c->budget, c->factor, &c->jitter, err));
    return es_covariance_eigen(c, err);
}

es_status es_covariance_from(const es_view *matrix, double tolerance, es_budget *budget,
                             es_covariance *out, es_error *err)
{
    *out = (es_covariance){0};
    ES_TRY(es_sym_check(matrix, "the covariance", NULL, err));
    es_status status = es_covariance_new(matrix->rows, budget, out, err);
    if (status == ES_OK)
        status = adopt(matrix, tolerance, out, err);
    if (status != ES_OK)
        es_covariance_free(out);
    return status;
}

static es_status from_array(const es_array *array, double tolerance, es_budget *budget,
                            es_covariance *out, es_error *err)
{
    es_view matrix;
    if (array->rank != 2)
        return es_fail(err, ES_E_SHAPE, "spectrum.rank", "a covariance is a matrix",
                       "an array of %d dimensions", array->rank);
    ES_TRY(es_array_view(array, 0, &matrix, err));
    return es_covariance_from(&matrix, tolerance, budget, out, err);
}

es_status es_covariance_load(const char *path, double tolerance, es_budget *budget,
                             es_covariance *out, es_error *err)
{
    es_array array;
    *out = (es_covariance){0};
    ES_TRY(es_npy_load(path, budget, &array, err));
    const es_status status = from_array(&array, tolerance, budget, out, err);
    es_array_free(&array);
    if (status != ES_OK && err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return status;
}
