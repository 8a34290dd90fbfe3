/* head.c : a head's matrices, written out. */
#include "theory/head.h"

#include <math.h>

#include "base/error.h"
#include "base/limits.h"

es_status es_head_write(const es_head *head, int64_t d, double *A, double *V, es_error *err)
{
    static const double one = 1.0;
    if (d < 1 || d > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "theory.shape", "1 <= d <= 4096", "d is %lld",
                       (long long)d);
    es_view any = es_view_f64(&one, d, d); /* a covariance's shape is what the check looks at */
    any.row_stride = any.col_stride = 0;
    ES_TRY(es_head_check(&any, head, err));
    const es_view *Wq = head->Wq, *Wk = head->Wk;
    const double scale = head->A ? 1.0 : 1.0 / sqrt((double)Wq->rows);
    for (int64_t i = 0; A && i < d; i++)
        for (int64_t j = 0; j < d; j++) {
            double sum = head->A ? es_view_get(head->A, i, j) : 0.0;
            for (int64_t r = 0; !head->A && r < Wq->rows; r++)
                sum += es_view_get(Wk, r, i) * es_view_get(Wq, r, j);
            A[i * d + j] = scale * sum;
        }
    const int64_t dv = head->V ? head->V->rows : d;
    for (int64_t c = 0; V && c < dv; c++)
        for (int64_t j = 0; j < d; j++)
            V[c * d + j] = head->V ? es_view_get(head->V, c, j) : (double)(c == j);
    return ES_OK;
}
