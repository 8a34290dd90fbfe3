/* SPDX-License-Identifier: Apache-2.0 */
/* query.c : one query of a head in plain loops: its scores, its output over all keys and
 * over those that a draw has kept, and what queries before it attended to. */
#include "experiments/sparse/sparse.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/view.h"
#include "model/sparse_head.h"
#include "stats/weigh.h"

/* Returns the position of a query row: given by --positions, or its number. */
static int64_t position_of(const es_sparse_head *h, int64_t row)
{
    return h->positions ? h->positions[row] : row;
}

/* ---- one query ---- */

/* Allocates numbers for one query. */
static es_status new_numbers(es_arena *arena, int64_t count, double **out, es_error *err)
{
    ES_TRY(ES_ARENA_NEW(arena, *out, count, "a query", err));
    return ES_OK;
}

es_status es_sparse_query_new(const es_sparse_head *head, es_arena *arena, es_sparse_query *out,
                              es_error *err)
{
    const int64_t dv = head->values.cols, d = head->keys.cols;
    *out = (es_sparse_query){.head = head, .sink = head->sink ? *head->sink : -(double)INFINITY};
    ES_TRY(new_numbers(arena, head->keys.rows, &out->scores, err));
    ES_TRY(new_numbers(arena, dv, &out->output, err));
    ES_TRY(new_numbers(arena, dv, &out->kept, err));
    ES_TRY(new_numbers(arena, dv, &out->value, err));
    ES_TRY(new_numbers(arena, d, &out->key, err));
    return new_numbers(arena, d, &out->query, err);
}

/* Finds the place of row `row`, the keys that it sees, and its scores. */
static es_status look(es_sparse_query *q, int64_t row, es_error *err)
{
    const es_sparse_head *h = q->head;
    const int64_t keys = h->keys.rows;
    if (row < 0 || row >= h->queries.rows)
        return es_fail(err, ES_E_RANGE, "sparse.query", "count from 0", "query %lld of %lld",
                       (long long)row, (long long)h->queries.rows);
    q->row = row;
    q->position = position_of(h, row);
    if (q->position < (h->causal ? 0 : -1) || q->position >= keys)
        return es_fail(err, ES_E_RANGE, "sparse.position",
                       "a position is the number of a key, from 0",
                       "query %lld stands at %lld among %lld keys", (long long)row,
                       (long long)q->position, (long long)keys);
    const es_past past = {h->causal, h->window};
    q->begin = es_past_begin(past, q->position);
    q->n = es_past_end(past, q->position, keys) - q->begin;
    es_view_read_row(&h->queries, row, q->query);
    for (int64_t j = 0; j < q->n; j++) {
        es_view_read_row(&h->keys, q->begin + j, q->key);
        q->scores[j] = h->scale * es_dot(q->query, q->key, h->keys.cols);
    }
    es_cap_scores(h->cap, q->n, q->scores);
    return ES_OK;
}

/* Adds the value of key j of those that are seen: out += weight v_j. */
static void add_value(es_sparse_query *q, int64_t j, double weight, double *out)
{
    const int64_t dv = q->head->values.cols;
    es_view_read_row(&q->head->values, q->begin + j, q->value);
    for (int64_t c = 0; c < dv; c++)
        out[c] += weight * q->value[c];
}

/* Returns the largest of the scores, the sink's included. */
static double top_score(const es_sparse_query *q)
{
    double top = q->sink;
    for (int64_t j = 0; j < q->n; j++)
        top = fmax(top, q->scores[j]);
    return top;
}

/* Divides an output by its sum of weights. */
static void divide(double *out, int64_t dv, double sum)
{
    for (int64_t c = 0; c < dv; c++)
        out[c] /= sum;
}

es_status es_sparse_query_see(es_sparse_query *q, int64_t row, es_error *err)
{
    const int64_t dv = q->head->values.cols;
    ES_TRY(look(q, row, err));
    const double top = top_score(q), rest = exp(q->sink - top);
    double sum = rest, squares = rest * rest;
    memset(q->output, 0, (size_t)dv * sizeof *q->output);
    for (int64_t j = 0; j < q->n; j++) {
        const double w = exp(q->scores[j] - top);
        sum += w;
        squares += w * w;
        add_value(q, j, w, q->output);
    }
    divide(q->output, dv, sum);
    q->top = top;
    q->sum_squares = squares / (sum * sum);
    return ES_OK;
}

/* ---- over some of the keys ---- */

bool es_sparse_kept_output(es_sparse_query *q, const es_kept *kept)
{
    const int64_t dv = q->head->values.cols;
    double top = q->sink;
    bool weighty = exp(q->sink - q->top) > 0.0;
    for (int64_t i = 0; i < kept->count; i++) {
        top = fmax(top, q->scores[kept->keys[i]] + kept->log_factor[i]);
        weighty = weighty || exp(q->scores[kept->keys[i]] - q->top) > 0.0;
    }
    double sum = exp(q->sink - top);
    memset(q->kept, 0, (size_t)dv * sizeof *q->kept);
    for (int64_t i = 0; i < kept->count; i++) {
        const int64_t j = kept->keys[i];
        const double w = exp(q->scores[j] + kept->log_factor[i] - top);
        sum += w;
        add_value(q, j, w, q->kept);
    }
    divide(q->kept, dv, sum);
    return weighty;
}

double es_sparse_apart2(const es_sparse_query *q)
{
    const double apart = es_distance(q->kept, q->output, q->head->values.cols);
    return apart * apart;
}

/* ---- queries before ---- */

/* A query with its position. */
typedef struct placed {
    int64_t row, position;
} placed;

/* Compares two queries by position, then by row, for qsort(): ties keep the order of the rows. */
static int in_order(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* All queries in the order in which a model would have come to them. */
static es_status put_in_order(const es_sparse_head *h, es_arena *arena, placed **out, es_error *err)
{
    const int64_t m = h->queries.rows;
    ES_TRY(ES_ARENA_NEW(arena, *out, m, "the order of queries", err));
    for (int64_t i = 0; i < m; i++)
        (*out)[i] = (placed){i, position_of(h, i)};
    qsort(*out, (size_t)m, sizeof **out, in_order);
    return ES_OK;
}

/* Returns the rank of a row among the queries in order of position. */
static int64_t rank_of(const placed *order, int64_t m, int64_t row)
{
    int64_t rank = 0;
    while (rank < m && order[rank].row != row)
        rank++;
    return rank;
}

/* The weights of q into the past of query `of`. */
static void remember(const es_sparse_query *q, es_sparse_past *past, int64_t of, bool observed)
{
    const double top = top_score(q);
    double sum = exp(q->sink - top);
    for (int64_t j = 0; j < q->n; j++)
        sum += exp(q->scores[j] - top);
    for (int64_t j = 0; j < q->n; j++) {
        const int64_t at = of * past->n + q->begin + j;
        const double w = exp(q->scores[j] - top) / sum;
        if (past->history)
            past->history[at] += w;
        if (past->observed && observed)
            past->observed[at] += w;
    }
}

/* Returns how many earlier queries the policies use: all of them, or the last `span`. */
static void look_back(const es_sparse_spec *spec, bool *all, int64_t *span)
{
    *all = false;
    *span = 0;
    for (int64_t p = 0; p < spec->n_plans; p++) {
        const es_policy_spec *plan = &spec->plans[p];
        const unsigned needs = es_policy_inputs(plan->policy);
        *all = *all || (needs & ES_POLICY_HISTORY);
        if (needs & ES_POLICY_OBSERVED && *span == 0)
            *span = plan->span > 0 ? plan->span : ES_POLICY_SPAN;
    }
}

/* One walk through the queries: what each attended to goes to all that come later. ranks (count)
 * are theirs in `order`. */
static es_status fill_past(const placed *order, int64_t span, const int64_t *ranks, int64_t count,
                           es_sparse_query *q, es_sparse_past *past, es_error *err)
{
    int64_t last = 0, from = INT64_MAX;
    for (int64_t i = 0; i < count; i++) {
        const int64_t begin = past->history ? 0 : ranks[i] - span;
        last = ranks[i] > last ? ranks[i] : last;
        from = begin < from ? begin : from;
    }
    for (int64_t r = from > 0 ? from : 0; r < last; r++) {
        if (order[r].position < 0)
            continue; /* a query without a position has no later one */
        ES_TRY(look(q, order[r].row, err));
        for (int64_t i = 0; i < count; i++)
            if (r < ranks[i] && (past->history || r >= ranks[i] - span))
                remember(q, past, i, r >= ranks[i] - span);
    }
    return ES_OK;
}

es_status es_sparse_past_of(const es_sparse_spec *spec, const es_sparse_head *head,
                            const int64_t *which, int64_t count, es_arena *arena,
                            es_sparse_past *out, es_error *err)
{
    bool all;
    int64_t span;
    placed *order;
    es_sparse_query q;
    int64_t *ranks;
    look_back(spec, &all, &span);
    *out = (es_sparse_past){.n = head->keys.rows};
    if (all)
        ES_TRY(new_numbers(arena, count * out->n, &out->history, err));
    if (span)
        ES_TRY(new_numbers(arena, count * out->n, &out->observed, err));
    if (!all && !span)
        return ES_OK;
    ES_TRY(put_in_order(head, arena, &order, err));
    ES_TRY(es_sparse_query_new(head, arena, &q, err));
    ES_TRY(ES_ARENA_NEW(arena, ranks, count, "the order of queries", err));
    for (int64_t i = 0; i < count; i++)
        ranks[i] = rank_of(order, head->queries.rows, which[i]);
    return fill_past(order, span, ranks, count, &q, out, err);
}
