/* SPDX-License-Identifier: Apache-2.0 */
/* array_layout.c : layouts of arrays of heads; array_layout.h explains them. */
#include "experiments/kit/array_layout.h"

#include <stdio.h>

#include "base/error.h"
#include "base/view.h"
#include "driver/job.h"

enum { BATCH_FIRST = 4 }; /* dimensions of an array that has a batch */

/* Finds which element of the batch is meant: the only one, or the one asked for. */
static es_status batch_of(const es_npy_info *info, int64_t asked, const char *path, int64_t *out,
                          es_error *err)
{
    const long long count = (long long)info->shape[0];
    *out = 0;
    if (info->rank < BATCH_FIRST || count <= 1) /* nothing to choose */
        return ES_OK;
    *out = asked;
    if (asked >= 0 && asked < count)
        return ES_OK;
    if (asked < 0)
        return es_fail_file(err, ES_E_SHAPE, path, -1, "measure.batch",
                            "choose one of them: --batch 0 is the first",
                            "the array holds a batch of %lld", count);
    return es_fail_file(err, ES_E_SHAPE, path, -1, "measure.batch", "the first is --batch 0",
                        "--batch %lld of an array that holds %lld", (long long)asked, count);
}

es_status es_array_layout_of(const es_npy_info *info, es_array_order order, int64_t batch,
                             const char *path, es_array_layout *out, es_error *err)
{
    const int64_t *shape = info->shape + info->rank - 2; /* of the last two */
    const int64_t third = info->rank > 2 ? info->shape[info->rank - 3] : 1;
    int64_t chosen;
    ES_TRY(batch_of(info, batch, path, &chosen, err));
    const bool rows_first = order == ES_ARRAY_BNHD && info->rank > 2;
    *out = (es_array_layout){.heads = rows_first ? shape[0] : third,
                             .rows = rows_first ? third : shape[0],
                             .cols = shape[1]};
    out->head_stride = rows_first ? out->cols : out->rows * out->cols;
    out->row_stride = rows_first ? out->heads * out->cols : out->cols;
    out->first = chosen * out->heads * out->rows * out->cols;
    return ES_OK;
}

void es_array_layout_split(es_array_layout *l, int64_t heads)
{
    l->heads = heads;
    l->cols /= heads;
    l->head_stride = l->cols;
}

es_view es_array_head(const es_array *array, const es_array_layout *l, int64_t head)
{
    const int64_t size = (int64_t)es_dtype_size(array->dtype);
    return (es_view){.data = (char *)array->data + (l->first + head * l->head_stride) * size,
                     .dtype = array->dtype,
                     .rows = l->rows,
                     .cols = l->cols,
                     .row_stride = l->row_stride * size,
                     .col_stride = size};
}

es_status es_array_scan(const es_array *array, const es_array_layout *l, const char *path,
                        es_error *err)
{
    char head[48] = "";
    for (int64_t h = 0; h < l->heads; h++) {
        es_scan scan;
        es_error found = {0};
        const es_view view = es_array_head(array, l, h);
        if (es_view_scan(&view, "input", &scan, &found) == ES_OK)
            continue;
        if (array->rank > 2)
            snprintf(head, sizeof head, "head %lld, ", (long long)h);
        return es_blame_number(path, "measure.finite", head, &view, &found, err);
    }
    return ES_OK;
}
