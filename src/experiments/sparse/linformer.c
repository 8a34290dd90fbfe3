/* SPDX-License-Identifier: Apache-2.0 */
/* linformer.c : Linformer keeps no keys: it attends over k random mixtures of all of them
 * (es_linformer_project()). They behave like k fresh tokens of the keys' covariance, whatever n is
 * (THEORY 9); nothing here is a subset of keys, so it is measured and not computed. */
#include <math.h>

#include "base/error.h"
#include "experiments/sparse/sparse.h"
#include "policy/policy.h"
#include "stats/weigh.h"

/* Keys and values of one draw, mixed by the same matrix. */
static es_status mix(const es_sparse_query *q, const es_sparse_spec *spec, int64_t rows,
                     int64_t draw, es_arena *scratch, double **keys, double **values, es_error *err)
{
    const es_sparse_head *h = q->head;
    const es_address at = {
        .seed = spec->seed, .experiment = ES_SPARSE_PROJECTIONS, .cell = (uint64_t)draw};
    ES_TRY(ES_ARENA_NEW_2D(scratch, *keys, rows, h->keys.cols + h->values.cols, "mixtures of keys",
                           err));
    *values = *keys + rows * h->keys.cols;
    ES_TRY(es_linformer_project(&h->keys, rows, &at, scratch->budget, *keys, err));
    return es_linformer_project(&h->values, rows, &at, scratch->budget, *values, err);
}

/* Returns the score of a mixture of keys (d). */
static double score_of(const es_sparse_query *q, const double *key)
{
    double score = q->head->scale * es_dot(q->query, key, q->head->keys.cols);
    es_cap_scores(q->head->cap, 1, &score);
    return score;
}

es_status es_sparse_project(es_sparse_query *q, const es_sparse_spec *spec, int64_t rows,
                            int64_t draw, es_arena *scratch, es_error *err)
{
    const int64_t d = q->head->keys.cols, dv = q->head->values.cols;
    double *keys, *values, top = q->sink;
    ES_TRY(mix(q, spec, rows, draw, scratch, &keys, &values, err));
    memset(q->kept, 0, (size_t)dv * sizeof *q->kept);
    for (int64_t i = 0; i < rows; i++)
        top = fmax(top, score_of(q, keys + i * d));
    double sum = exp(q->sink - top);
    for (int64_t i = 0; i < rows; i++) {
        const double w = exp(score_of(q, keys + i * d) - top);
        sum += w;
        for (int64_t c = 0; c < dv; c++)
            q->kept[c] += w * values[i * dv + c];
    }
    for (int64_t c = 0; c < dv; c++)
        q->kept[c] /= sum;
    return ES_OK;
}
