/* SPDX-License-Identifier: Apache-2.0 */
/* aged.c : attention where what a query finds depends on how old a key is.
 *
 * A chunk of queries that find the same keys coarse takes two products for its scores, one with the
 * coarse keys and one with the fine. Where values become fine differs by query, so that a query's
 * weights are in one row for the coarse values and in another for the fine ones, with zeros. */
#include "cache/aged.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "linalg/dense.h"

enum { CHUNK = 64 }; /* queries at most */

/* What a chunk is computed in. */
typedef struct scratch {
    double *w;                        /* (n) of one query */
    char *products, *coarse, *fine;   /* (CHUNK, n) scores, then weights */
    char *from_coarse, *from_fine;    /* (CHUNK, d) parts of the output */
    int64_t first, rows, keys, split; /* queries; keys up to the last one's; keys that are coarse */
    int64_t item;
} scratch;

/* Returns how many places query i finds coarse; of a format that is the same for all, all. */
static int64_t coarse_of(const es_aged_side *side, es_kv_side which, int64_t i)
{
    if (!es_kv_format_by_query(side->format))
        return i + 1;
    const int64_t count = es_kv_coarse_places(side->format, which, i);
    return count < 0 ? 0 : count < i + 1 ? count : i + 1;
}

/* Returns rows of a view. */
static es_view rows_of(const es_view *v, int64_t first, int64_t rows)
{
    es_view out = *v;
    out.data = (char *)v->data + first * v->row_stride;
    out.rows = rows;
    return out;
}

/* Begins the chunk at query r->first: it ends where the number of coarse keys changes. */
static void begin_chunk(const es_aged *h, scratch *r)
{
    const int64_t n = h->q.rows;
    r->split = coarse_of(&h->k, ES_KV_KEYS, r->first);
    for (r->rows = 1; r->rows < CHUNK && r->first + r->rows < n; r->rows++)
        if (es_kv_format_by_query(h->k.format) &&
            coarse_of(&h->k, ES_KV_KEYS, r->first + r->rows) != r->split)
            break;
    r->keys = r->first + r->rows;
    if (!es_kv_format_by_query(h->k.format))
        r->split = r->keys;
}

/* Products of the chunk's queries with its keys, coarse ones first. */
static void multiply_keys(const es_aged *h, const scratch *r)
{
    const es_view q = rows_of(&h->q, r->first, r->rows);
    const es_view coarse = rows_of(&h->k.coarse, 0, r->split);
    if (r->split > 0)
        es_gemm_views(&q, &coarse, r->products, r->keys);
    if (r->split == r->keys)
        return;
    const es_view fine = rows_of(&h->k.fine, r->split, r->keys - r->split);
    es_gemm_views(&q, &fine, r->products + r->split * r->item, r->keys);
}

/* Writes w, the weights of keys begin .. end - 1, into a row of zeros for the coarse values and one
 * for the fine ones, which begin at `split`. */
static void place_weights(const scratch *r, int64_t row, int64_t begin, int64_t end, int64_t split)
{
    for (int64_t j = begin; j < end; j++) {
        char *to = (j < split ? r->coarse : r->fine) + (row * r->keys + j) * r->item;
        if (r->item == (int64_t)sizeof(float))
            *(float *)(void *)to = (float)r->w[j - begin];
        else
            *(double *)(void *)to = r->w[j - begin];
    }
}

/* Weights of the chunk's queries, and what they are like. */
static void weigh_rows(const es_aged *h, const scratch *r, const es_attend_out *out)
{
    const size_t bytes = (size_t)(r->rows * r->keys * r->item);
    memset(r->coarse, 0, bytes);
    memset(r->fine, 0, bytes);
    for (int64_t row = 0; row < r->rows; row++) {
        const int64_t i = r->first + row, end = i + 1;
        const int64_t begin = h->window && end > h->window ? end - h->window : 0;
        es_softmax_row(&h->softmax, h->q.dtype, r->products + (row * r->keys + begin) * r->item,
                       end - begin, r->w);
        place_weights(r, row, begin, end, coarse_of(&h->v, ES_KV_VALUES, i));
        const es_softmax_found found = es_softmax_look(r->w, end - begin);
        if (out->entropy)
            out->entropy[i] = found.entropy;
        if (out->top_weight)
            out->top_weight[i] = found.top_weight;
        if (out->sum_squares)
            out->sum_squares[i] = found.sum_squares;
    }
}

/* Outputs of the chunk's queries. */
static void mix_values(const es_aged *h, const scratch *r, double *output)
{
    const int64_t d = h->q.cols, first = r->first * d;
    const es_view coarse = rows_of(&h->v.coarse, 0, r->keys),
                  fine = rows_of(&h->v.fine, 0, r->keys);
    const bool both = es_kv_format_by_query(h->v.format);
    es_gemm_mix(r->coarse, r->rows, &coarse, r->from_coarse);
    if (both)
        es_gemm_mix(r->fine, r->rows, &fine, r->from_fine);
    for (int64_t i = 0; i < r->rows * d; i++) {
        const bool narrow = h->q.dtype == ES_F32;
        const double a = narrow ? (double)((float *)(void *)r->from_coarse)[i]
                                : ((double *)(void *)r->from_coarse)[i];
        const double b = !both    ? 0.0
                         : narrow ? (double)((float *)(void *)r->from_fine)[i]
                                  : ((double *)(void *)r->from_fine)[i];
        output[first + i] = a + b;
    }
}

es_status es_aged_attend(const es_aged *h, const es_attend_out *out, es_error *err)
{
    const int64_t n = h->q.rows, item = (int64_t)es_dtype_size(h->q.dtype);
    scratch r = {.item = item};
    ES_TRY(ES_MEM_BYTES(h->budget, r.w, (size_t)(8 * n + CHUNK * (3 * n + 2 * h->q.cols) * item),
                        "weights of a rounded cache", err));
    r.products = (char *)(r.w + n);
    r.coarse = r.products + CHUNK * n * item;
    r.fine = r.coarse + CHUNK * n * item;
    r.from_coarse = r.fine + CHUNK * n * item;
    r.from_fine = r.from_coarse + CHUNK * h->q.cols * item;
    for (r.first = 0; r.first < n; r.first += r.rows) {
        begin_chunk(h, &r);
        multiply_keys(h, &r);
        weigh_rows(h, &r, out);
        mix_values(h, &r, out->output);
    }
    es_mem_free(h->budget, r.w);
    return ES_OK;
}
