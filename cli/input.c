#include "input.h"

#include <math.h>
#include <stdlib.h>

#include <esscher/npy.h>

#include "answer.h"
#include "talk.h"

es_status cli_input_cols(const char *path, int64_t *cols, es_error *err)
{
    es_npy_info info;
    const es_status status = es_npy_inspect(path, &info, err);
    if (status == ES_OK)
        *cols = info.shape[info.rank - 1];
    return status;
}

/* "3" or "any number of" */
static const char *count_text(int64_t count, char out[32])
{
    if (count < 0)
        return "any number of";
    snprintf(out, 32, "%lld", (long long)count);
    return out;
}

static es_status check_shape(const char *role, const char *path, const es_npy_info *info,
                             int64_t rows, int64_t cols, es_error *err)
{
    const int64_t has_cols = info->shape[info->rank - 1];
    const int64_t has_rows = info->rank == 2 ? info->shape[0] : 1;
    char want_rows[32], want_cols[32];
    if (info->rank > 2)
        return cli_fail(err, ES_E_SHAPE, path, "input.rank", "give one matrix",
                        "--%s has %d dimensions", role, info->rank);
    if (has_rows < 1 || has_cols < 1)
        return cli_fail(err, ES_E_EMPTY, path, "input.empty", "", "--%s holds nothing", role);
    if ((rows >= 0 && has_rows != rows) || (cols >= 0 && has_cols != cols))
        return cli_fail(err, ES_E_SHAPE, path, "input.shape", "all matrices share one dimension d",
                        "--%s is (%lld, %lld), but %s rows and %s columns are needed", role,
                        (long long)has_rows, (long long)has_cols, count_text(rows, want_rows),
                        count_text(cols, want_cols));
    return ES_OK;
}

static es_status copy_finite(const char *role, const char *path, const es_view *v, double *out,
                             es_error *err)
{
    es_scan scan;
    if (es_view_scan(v, role, &scan, err) != ES_OK) {
        const int64_t row = err->row, col = err->col;
        return cli_fail(err, ES_E_NONFINITE, path, "input.finite", "remove or replace the value",
                        "row %lld, column %lld is %s", (long long)row, (long long)col,
                        isnan(es_view_get(v, row, col)) ? "NaN" : "infinite");
    }
    for (int64_t i = 0; i < v->rows; i++)
        es_view_read_row(v, i, out + i * v->cols);
    return ES_OK;
}

es_status cli_input_read(cli_session *session, const char *role, const char *path, int64_t rows,
                         int64_t cols, cli_input *out, es_error *err)
{
    es_npy_info info;
    es_array array = {0};
    es_view view;
    *out = (cli_input){0};
    es_status status = es_npy_inspect(path, &info, err);
    if (status == ES_OK)
        status = check_shape(role, path, &info, rows, cols, err);
    if (status == ES_OK)
        status = es_npy_load(path, &session->budget, &array, err);
    if (status == ES_OK)
        status = es_array_view(&array, 0, &view, err);
    if (status == ES_OK) {
        cli_answer_input(session, role, path, &info);
        *out = (cli_input){cli_alloc_array((size_t)(view.rows * view.cols), sizeof(double)),
                           view.rows, view.cols};
        status = copy_finite(role, path, &view, out->data, err);
    }
    es_array_free(&array);
    if (status != ES_OK)
        cli_input_free(out);
    return status;
}

void cli_input_free(cli_input *input)
{
    free(input->data);
    *input = (cli_input){0};
}
