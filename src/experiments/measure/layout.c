/* layout.c : which numbers of an array are a head's rows.
 *
 * Programs keep heads in two orders: (batch, heads, n, d), as Hugging Face's caches do, and
 * (batch, n, heads, d), as flash-attention does. Either is read where it stands: a head is a view
 * with strides. Arrays of fewer dimensions leave the batch, and then the heads, out. */
#include "base/error.h"
#include "experiments/measure/question.h"

enum { BATCH_FIRST = 4 }; /* dimensions of an array that has a batch */

/* Which of the batch is meant: the only one, or the one that was asked for. */
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

es_status measure_layout_of(const es_npy_info *info, measure_order order, int64_t batch,
                            const char *path, measure_layout *out, es_error *err)
{
    const int64_t *shape = info->shape + info->rank - 2; /* of the last two */
    const int64_t third = info->rank > 2 ? info->shape[info->rank - 3] : 1;
    int64_t chosen;
    ES_TRY(batch_of(info, batch, path, &chosen, err));
    const bool rows_first = order == MEASURE_BNHD && info->rank > 2;
    *out = (measure_layout){.heads = rows_first ? shape[0] : third,
                            .rows = rows_first ? third : shape[0],
                            .cols = shape[1]};
    out->head_stride = rows_first ? out->cols : out->rows * out->cols;
    out->row_stride = rows_first ? out->heads * out->cols : out->cols;
    out->first = chosen * out->heads * out->rows * out->cols;
    return ES_OK;
}

void measure_layout_split(measure_layout *l, int64_t heads)
{
    l->heads = heads;
    l->cols /= heads;
    l->head_stride = l->cols;
}

es_view measure_view(const es_array *array, const measure_layout *l, int64_t head)
{
    const int64_t size = (int64_t)es_dtype_size(array->dtype);
    return (es_view){.data = (char *)array->data + (l->first + head * l->head_stride) * size,
                     .dtype = array->dtype,
                     .rows = l->rows,
                     .cols = l->cols,
                     .row_stride = l->row_stride * size,
                     .col_stride = size};
}
