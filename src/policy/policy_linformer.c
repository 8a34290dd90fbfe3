/* SPDX-License-Identifier: Apache-2.0 */
/* policy_linformer.c : attention over random mixtures of the keys, which is no choice of keys.
 *
 * E (rows, n) has independent entries N(0, 1/n), one matrix for keys and values (THEORY 9). A
 * mixture holds every key, those after the query too, so there is no causal form of it. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "policy/policy.h"
#include "policy/policy_row.h"
#include "random/random.h"

const es_policy es_policy_row_linformer = {
    .name = "linformer", .needs = ES_POLICY_FUTURE | ES_POLICY_MEASURED, .deployable = true};

/* Row j of x in all mixtures; E's column j is token j. */
static es_status add_row(const es_address *at, const double *x, int64_t dim, int64_t rows,
                         double scale, double *column, double *out, es_error *err)
{
    ES_TRY(es_normal_rows(at, 1, rows, column, err));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t l = 0; l < dim; l++)
            out[r * dim + l] += scale * column[r] * x[l];
    return ES_OK;
}

es_status es_linformer_project(const es_view *x, int64_t rows, const es_address *at,
                               es_mem_limit *budget, double *out, es_error *err)
{
    ES_TRY(es_view_check(x, "rows to mix", err));
    if (rows < 1 || x->rows < 1 || x->cols < 1)
        return es_fail(err, ES_E_SHAPE, "policy.shape", "one row and one mixture at least",
                       "%lld mixtures of %lld rows", (long long)rows, (long long)x->rows);
    const double scale = 1.0 / sqrt((double)x->rows);
    double *column;
    ES_TRY(ES_MEM_NEW(budget, column, rows + x->cols, "a column", err));
    es_address here = {.seed = at->seed, .experiment = at->experiment, .cell = at->cell};
    es_status status = es_address_check(at, err);
    for (int64_t i = 0; i < rows * x->cols; i++)
        out[i] = 0.0;
    for (int64_t j = 0; j < x->rows && status == ES_OK; j++) {
        es_view_read_row(x, j, column + rows);
        here.token = (uint64_t)j;
        status = add_row(&here, column + rows, x->cols, rows, scale, column, out, err);
    }
    es_mem_free(budget, column);
    return status;
}
