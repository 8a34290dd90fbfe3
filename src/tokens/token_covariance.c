/* SPDX-License-Identifier: Apache-2.0 */
/* token_covariance.c : covariances to draw tokens with: described by a few numbers, or brought. */
#include "tokens/spectrum.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <esscher/npy.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "base/view_at.h"
#include "linalg/linalg.h"
#include "random/elementary.h"

/* ---- matrix, factor and eigenvalues ---- */

/* All zero. On failure *out may be freed. */
static es_status new_covariance(int64_t dim, es_mem_limit *budget, es_covariance *out,
                                es_error *err)
{
    *out = (es_covariance){.dim = dim, .budget = budget};
    ES_TRY(ES_MEM_NEW_2D(budget, out->matrix, dim, dim, "a covariance", err));
    ES_TRY(ES_MEM_NEW_2D(budget, out->factor, dim, dim, "a factor", err));
    ES_TRY(ES_MEM_NEW(budget, out->values, dim, "eigenvalues", err));
    return ES_OK;
}

void es_covariance_free(es_covariance *c)
{
    es_mem_free(c->budget, c->matrix);
    es_mem_free(c->budget, c->factor);
    es_mem_free(c->budget, c->values);
    *c = (es_covariance){0};
}

/* Compares two doubles for qsort(), the larger first. */
static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Sorts the eigenvalues in falling order. */
static void sort_values(es_covariance *c)
{
    qsort(c->values, (size_t)c->dim, sizeof *c->values, descending);
}

/* From the matrix, by LAPACK. */
static es_status find_values(es_covariance *c, es_error *err)
{
    const es_view matrix = es_view_f64(c->matrix, c->dim, c->dim);
    ES_TRY(es_sym_eigen(&matrix, c->budget, c->values, NULL, err));
    sort_values(c);
    return ES_OK;
}

/* ---- is it a spectrum? ---- */

/* Fails with `rule` and `hint` unless `fine`. */
static es_status demand(bool fine, const char *rule, const char *hint, double value, es_error *err)
{
    return fine ? ES_OK : es_fail(err, ES_E_RANGE, rule, hint, "%s is %g", rule, value);
}

/* The rows of block 0, which is the largest or as large as any. */
static int64_t largest_block(const es_spectrum *s)
{
    int64_t first, last;
    es_part(s->dim, s->blocks, 0, &first, &last);
    return last - first;
}

/* Checks the correlation for which a Toeplitz or block matrix is positive definite. */
static es_status check_correlation(const es_spectrum *s, es_error *err)
{
    const double r = s->correlation;
    if (s->kind == ES_SPECTRUM_TOEPLITZ)
        return demand(r > -1.0 && r < 1.0, "spectrum.correlation", "-1 < correlation < 1", r, err);
    ES_TRY(demand(s->blocks >= 1 && s->blocks <= s->dim, "spectrum.blocks", "1 <= blocks <= dim",
                  (double)s->blocks, err));
    const double others = (double)(largest_block(s) - 1);
    return demand(r <= 1.0 && r * others >= -1.0, "spectrum.correlation",
                  "from -1/(m-1), for blocks of m rows, to 1", r, err);
}

/* Checks a given diagonal: finite and not negative. */
static es_status check_diagonal(const es_spectrum *s, es_error *err)
{
    es_scan scan;
    const es_view v = es_view_f64(s->diagonal, 1, s->dim);
    if (!s->diagonal)
        return es_fail(err, ES_E_ARGUMENT, "spectrum.diagonal", "give an array", "no diagonal");
    ES_TRY(es_view_scan(&v, "diagonal", &scan, err));
    for (int64_t i = 0; i < s->dim; i++)
        ES_TRY(demand(s->diagonal[i] >= 0.0, "spectrum.diagonal", "variances are not negative",
                      s->diagonal[i], err));
    return ES_OK;
}

/* Checks the parameters of the kind of spectrum that was asked for. */
static es_status check_shape(const es_spectrum *s, es_error *err)
{
    if (s->kind == ES_SPECTRUM_DIAGONAL)
        return check_diagonal(s, err);
    ES_TRY(demand(s->level > 0.0 && isfinite(s->level), "spectrum.level", "use a positive number",
                  s->level, err));
    switch (s->kind) {
    case ES_SPECTRUM_POWER:
    case ES_SPECTRUM_EXPONENTIAL:
        return demand(s->decay >= 0.0 && isfinite(s->decay), "spectrum.decay",
                      "use 0 or a positive number", s->decay, err);
    case ES_SPECTRUM_LOW_RANK:
        ES_TRY(demand(s->rank >= 1 && s->rank <= s->dim, "spectrum.rank", "1 <= rank <= dim",
                      (double)s->rank, err));
        return demand(s->floor >= 0.0 && isfinite(s->floor), "spectrum.floor",
                      "use 0 or a positive number", s->floor, err);
    case ES_SPECTRUM_TOEPLITZ:
    case ES_SPECTRUM_BLOCK:
        return check_correlation(s, err);
    default:
        return ES_OK;
    }
}

/* Checks a whole spectrum before memory is allocated for it. */
static es_status check(const es_spectrum *s, es_error *err)
{
    if (s->kind < ES_SPECTRUM_SCALAR || s->kind > ES_SPECTRUM_BLOCK)
        return es_fail(err, ES_E_ARGUMENT, "spectrum.kind", "use one of es_spectrum_kind",
                       "unknown spectrum %d", (int)s->kind);
    if (s->dim < 1 || s->dim > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "spectrum.dim", "1 <= dim <= 4096", "dimension %lld",
                       (long long)s->dim);
    if (s->scale < ES_SPECTRUM_AS_IS || s->scale > ES_SPECTRUM_TOP)
        return es_fail(err, ES_E_ARGUMENT, "spectrum.scale", "use one of es_spectrum_scale",
                       "unknown scale %d", (int)s->scale);
    ES_TRY(demand(s->scale == ES_SPECTRUM_AS_IS || (s->target > 0.0 && isfinite(s->target)),
                  "spectrum.target", "use a positive number", s->target, err));
    return check_shape(s, err);
}

/* ---- shapes ---- */

/* Eigenvalue i, from 0, of those that make a diagonal matrix. Own exp and log, within 1e-14, for
 * the same bits everywhere. */
static double diagonal_value(const es_spectrum *s, int64_t i)
{
    switch (s->kind) {
    case ES_SPECTRUM_DIAGONAL:
        return s->diagonal[i];
    case ES_SPECTRUM_POWER:
        return s->level * es_exp(s->decay * es_negative_log((double)(i + 1)));
    case ES_SPECTRUM_EXPONENTIAL:
        return s->level * es_exp(-s->decay * (double)i);
    case ES_SPECTRUM_LOW_RANK:
        return i < s->rank ? s->level : s->floor;
    default:
        return s->level;
    }
}

/* Fills a diagonal covariance, its square root and its eigenvalues. */
static void make_diagonal(const es_spectrum *s, es_covariance *c)
{
    const int64_t d = s->dim;
    for (int64_t i = 0; i < d; i++) {
        c->values[i] = c->matrix[i * d + i] = diagonal_value(s, i);
        c->factor[i * d + i] = sqrt(c->values[i]);
    }
}

/* x_0 = sqrt(c) z_0, x_i = r x_{i-1} + sqrt(c (1-r^2)) z_i has this covariance: B is what it says.
 */
static es_status make_toeplitz(const es_spectrum *s, es_covariance *c, es_error *err)
{
    const int64_t d = s->dim;
    const double r = s->correlation;
    for (int64_t j = 0; j < d; j++) {
        double power = 1.0;
        const double step = sqrt(j == 0 ? s->level : s->level * (1.0 - r) * (1.0 + r));
        for (int64_t i = j; i < d; i++, power *= r) {
            c->matrix[i * d + j] = c->matrix[j * d + i] = s->level * power;
            c->factor[i * d + j] = step * power;
        }
    }
    return find_values(c, err);
}

/* The root of (1-r) I + r 11' in m dimensions: sqrt(1-r) I + (sqrt(1+(m-1)r) - sqrt(1-r))/m 11'. */
static void make_block(const es_spectrum *s, int64_t first, int64_t last, es_covariance *c)
{
    const int64_t d = s->dim;
    const double m = (double)(last - first), r = s->correlation;
    const double along = s->level * fmax(0.0, 1.0 + (m - 1.0) * r), across = s->level * (1.0 - r);
    const double mean = (sqrt(along) - sqrt(across)) / m;
    for (int64_t i = first; i < last; i++) {
        for (int64_t j = first; j < last; j++) {
            c->matrix[i * d + j] = s->level * (i == j ? 1.0 : r);
            c->factor[i * d + j] = mean + (i == j ? sqrt(across) : 0.0);
        }
        c->values[i] = i == first ? along : across;
    }
}

/* Fills the covariance of the kind that was asked for, before rescaling and rotation. */
static es_status make_shape(const es_spectrum *s, es_covariance *c, es_error *err)
{
    if (s->kind == ES_SPECTRUM_TOEPLITZ)
        return make_toeplitz(s, c, err);
    if (s->kind != ES_SPECTRUM_BLOCK)
        make_diagonal(s, c);
    for (int64_t b = 0; s->kind == ES_SPECTRUM_BLOCK && b < s->blocks; b++) {
        int64_t first, last;
        es_part(s->dim, s->blocks, b, &first, &last);
        make_block(s, first, last, c);
    }
    sort_values(c);
    return ES_OK;
}

/* ---- scale and rotation ---- */

/* Multiplies the covariance so that its largest eigenvalue or its trace is the given level. */
static es_status rescale(const es_spectrum *s, es_covariance *c, es_error *err)
{
    const int64_t d = s->dim;
    double size = s->scale == ES_SPECTRUM_TOP ? c->values[0] : 0.0, sum = 0.0;
    for (int64_t i = 0; i < d; i++)
        sum += c->values[i];
    if (!isfinite(sum))
        return es_fail(err, ES_E_OVERFLOW, "spectrum.overflow", "use a smaller level",
                       "the trace overflows");
    if (s->scale == ES_SPECTRUM_AS_IS)
        return ES_OK;
    size = s->scale == ES_SPECTRUM_TRACE ? sum : size;
    const double by = s->target / size, root = sqrt(by);
    ES_TRY(demand(size > 0.0 && isfinite(by), "spectrum.target", "the zero matrix has no scale",
                  s->target, err));
    for (int64_t i = 0; i < d * d; i++) {
        c->matrix[i] *= by;
        c->factor[i] *= root;
    }
    for (int64_t i = 0; i < d; i++)
        c->values[i] *= by;
    return ES_OK;
}

/* factor = Q factor, matrix = factor factor'. `scratch` holds two matrices. */
static es_status rotate_in(const es_spectrum *s, double *scratch, es_covariance *c, es_error *err)
{
    const int64_t d = s->dim;
    double *q = scratch, *product = scratch + d * d;
    ES_TRY(es_normal_rows(s->rotation, d, d, product, err));
    ES_TRY(es_haar_make(product, d, c->budget, q, err));
    const es_view turn = es_view_f64(q, d, d), old = es_view_f64(c->factor, d, d);
    ES_TRY(es_mat_multiply(&turn, &old, c->budget, product, err));
    for (int64_t i = 0; i < d * d; i++)
        c->factor[i] = product[i];
    const es_view factor = es_view_f64(c->factor, d, d), transposed = es_view_transpose(&factor);
    ES_TRY(es_mat_multiply(&factor, &transposed, c->budget, product, err));
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++)
            c->matrix[i * d + j] = 0.5 * (product[i * d + j] + product[j * d + i]);
    return ES_OK;
}

/* Replaces Sigma by Q Sigma Q' with a random rotation Q, if one was asked for. */
static es_status rotate(const es_spectrum *s, es_covariance *c, es_error *err)
{
    double *scratch;
    if (!s->rotation)
        return ES_OK;
    ES_TRY(ES_MEM_NEW_2D(c->budget, scratch, 2 * s->dim, s->dim, "a rotation", err));
    const es_status status = rotate_in(s, scratch, c, err);
    es_mem_free(c->budget, scratch);
    return status;
}

es_status es_covariance_make(const es_spectrum *spectrum, es_mem_limit *budget, es_covariance *out,
                             es_error *err)
{
    *out = (es_covariance){0};
    ES_TRY(check(spectrum, err));
    es_status status = new_covariance(spectrum->dim, budget, out, err);
    if (status == ES_OK)
        status = make_shape(spectrum, out, err);
    if (status == ES_OK)
        status = rescale(spectrum, out, err);
    if (status == ES_OK)
        status = rotate(spectrum, out, err);
    if (status != ES_OK)
        es_covariance_free(out);
    return status;
}

/* ---- brought by others ---- */

/* Takes a given matrix as covariance: symmetrises it, checks that it is positive semidefinite
 * within the tolerance, and factors it. */
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
    return find_values(c, err);
}

/* Makes a covariance from the symmetric part of `matrix` (d, d). */
static es_status from_matrix(const es_view *matrix, double tolerance, es_mem_limit *budget,
                             es_covariance *out, es_error *err)
{
    *out = (es_covariance){0};
    ES_TRY(es_sym_check(matrix, "the covariance", NULL, err));
    es_status status = new_covariance(matrix->rows, budget, out, err);
    if (status == ES_OK)
        status = adopt(matrix, tolerance, out, err);
    if (status != ES_OK)
        es_covariance_free(out);
    return status;
}

/* Reads the covariance from an array of a file, which must have two dimensions. */
static es_status from_array(const es_array *array, double tolerance, es_mem_limit *budget,
                            es_covariance *out, es_error *err)
{
    es_view matrix;
    if (array->rank != 2)
        return es_fail(err, ES_E_SHAPE, "spectrum.rank", "a covariance is a matrix",
                       "an array of %d dimensions", array->rank);
    ES_TRY(es_array_view(array, 0, &matrix, err));
    return from_matrix(&matrix, tolerance, budget, out, err);
}

es_status es_covariance_load(const char *path, double tolerance, es_mem_limit *budget,
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
