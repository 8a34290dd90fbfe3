/* SPDX-License-Identifier: Apache-2.0 */
/* votes.c : weights that queries gave to the keys of a prompt. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cache/evict_row.h"
#include "cache/softmax.h"
#include "linalg/dense.h"

enum { CHUNK = 64 }; /* queries whose scores are one product */

/* Queries whose products with keys are computed together. */
typedef struct chunk {
    int64_t first, rows, keys; /* keys: those that the last of them sees */
} chunk;

/* Adds the weights of `rows` queries from place `first` on, whose products with `keys` keys are
 * known, to sums; w (keys) is used. */
static void add_rows(const es_evict_prompt *p, const es_evict_head *head, chunk s,
                     const char *products, double *w, double *sums)
{
    const int64_t item = (int64_t)es_dtype_size(head->q.dtype);
    const es_softmax how = {p->scale, p->cap, head->sink};
    for (int64_t r = 0; r < s.rows; r++) {
        const int64_t end = s.first + r + 1, most = end < p->prompt ? end : p->prompt;
        const int64_t begin = p->window && end > p->window ? end - p->window : 0;
        es_softmax_row(&how, head->q.dtype, products + (r * s.keys + begin) * item, end - begin, w);
        for (int64_t j = begin; j < most; j++)
            sums[j] += w[j - begin];
    }
}

/* Returns rows first .. first + rows - 1 of a view. */
static es_view rows_of(const es_view *v, int64_t first, int64_t rows)
{
    es_view out = *v;
    out.data = (char *)v->data + first * v->row_stride;
    out.rows = rows;
    return out;
}

es_status es_votes_add(const es_evict_prompt *p, const es_evict_head *head, int64_t from,
                       int64_t to, double *sums, es_error *err)
{
    const int64_t item = (int64_t)es_dtype_size(head->q.dtype);
    double *w;
    ES_TRY(ES_MEM_BYTES(p->budget, w, (size_t)to * (sizeof *w + (size_t)(CHUNK * item)),
                        "scores of a prompt", err));
    char *products = (char *)(w + to);
    for (chunk c = {.first = from}; c.first < to; c.first += CHUNK) {
        c.rows = to - c.first < CHUNK ? to - c.first : CHUNK;
        c.keys = c.first + c.rows;
        const es_view q = rows_of(&head->q, c.first, c.rows), k = rows_of(&head->k, 0, c.keys);
        es_gemm_views(&q, &k, products, c.keys);
        add_rows(p, head, c, products, w, sums);
    }
    es_mem_free(p->budget, w);
    return ES_OK;
}

es_status es_group_mean(const es_evict_prompt *p, int64_t from, int64_t to, double *score,
                        es_error *err)
{
    memset(score, 0, (size_t)p->prompt * sizeof *score);
    for (int64_t h = 0; h < p->count; h++)
        ES_TRY(es_votes_add(p, &p->heads[p->first + h], from, to, score, err));
    for (int64_t j = 0; j < p->prompt; j++)
        score[j] /= (double)p->count;
    return ES_OK;
}

es_status es_votes_late(const es_evict_prompt *p, double *score, es_error *err)
{
    const int64_t n = p->k.rows;
    ES_TRY(es_group_mean(p, p->prompt, n, score, err));
    for (int64_t j = 0; j < p->prompt && n > p->prompt; j++)
        score[j] /= (double)(n - p->prompt);
    return ES_OK;
}

/* A policy without scores keeps keys by their place alone. */
es_status es_evict_score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                         es_error *err)
{
    if (spec->policy->score)
        return spec->policy->score(spec, p, score, err);
    for (int64_t j = 0; j < p->prompt; j++)
        score[j] = 0.0;
    return ES_OK;
}
