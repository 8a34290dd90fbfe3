/* SPDX-License-Identifier: Apache-2.0 */
/* principal.c : principal components: the directions in which rows vary most, and where the rows
 * lie along them. */
#include "linalg/linalg.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"

/* An eigenvector is known up to its sign: the element of largest magnitude, the first of equal
 * ones, is made positive, so that a picture does not turn over between two machines. */
static void fix_sign(double *axis, int64_t d)
{
    int64_t most = 0;
    for (int64_t j = 1; j < d; j++)
        if (fabs(axis[j]) > fabs(axis[most]))
            most = j;
    for (int64_t j = 0; j < d && axis[most] < 0.0; j++)
        if (j != most)
            axis[j] = -axis[j];
    axis[most] = fabs(axis[most]);
}

/* Memory for principal components. */
typedef struct components {
    double *row, *mean, *values; /* (d) */
    double *cov, *vectors;       /* (d, d) */
} components;

/* Scores of all rows, each as one sum over channels in their order. */
static void project_rows(const es_view *x, const components *c, int64_t count, double *scores)
{
    const int64_t d = x->cols;
    for (int64_t i = 0; i < x->rows; i++) {
        es_view_read_row(x, i, c->row);
        for (int64_t a = 0; a < count; a++) {
            const double *axis = c->vectors + (d - 1 - a) * d;
            double sum = 0.0;
            for (int64_t j = 0; j < d; j++)
                sum += (c->row[j] - c->mean[j]) * axis[j];
            scores[i * count + a] = sum;
        }
    }
}

/* Computes the leading eigenvectors of the covariance of x. */
static es_status find(const es_view *x, int64_t count, const es_exec *exec, components *c,
                      es_principal *out, es_error *err)
{
    const int64_t d = x->cols;
    ES_TRY(es_cov_estimate(x, false, exec, c->mean, c->cov, err));
    const es_view cov = es_view_f64(c->cov, d, d);
    ES_TRY(es_sym_eigen(&cov, exec ? exec->budget : NULL, c->values, c->vectors, err));
    out->total = 0.0;
    for (int64_t j = 0; j < d; j++)
        out->total += c->cov[j * (d + 1)];
    for (int64_t a = 0; a < count; a++) { /* eigenvalues increase */
        double *axis = c->vectors + (d - 1 - a) * d;
        fix_sign(axis, d);
        if (out->variances) /* rounding may take one of a singular covariance below 0 */
            out->variances[a] = fmax(c->values[d - 1 - a], 0.0);
        if (out->axes)
            memcpy(out->axes + a * d, axis, (size_t)d * sizeof *axis);
    }
    if (out->scores)
        project_rows(x, c, count, out->scores);
    return ES_OK;
}

es_status es_principal_find(const es_view *x, int64_t count, const es_exec *exec, es_principal *out,
                            es_error *err)
{
    es_mem_limit *budget = exec ? exec->budget : NULL;
    double *memory;
    ES_TRY(es_view_check(x, "x", err));
    const int64_t d = x->cols;
    if (count < 1 || count > d)
        return es_fail(err, ES_E_SHAPE, "principal.count", "1 to the number of columns",
                       "%lld components of %lld columns", (long long)count, (long long)d);
    ES_TRY(ES_MEM_NEW_2D(budget, memory, 2 * d + 3, d, "principal components", err));
    components c = {.row = memory, .mean = memory + d, .values = memory + 2 * d};
    c.cov = memory + 3 * d;
    c.vectors = c.cov + d * d;
    const es_status status = find(x, count, exec, &c, out, err);
    es_mem_free(budget, memory);
    return status;
}
