/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_head.c : attention where each query keeps some of the block's keys.
 *
 * In f64 whatever the model computes in, and with all scores of a few queries at a time: policies
 * that look at scores need them all, and what is measured here is what dropping keys costs, not how
 * much time it saves. Per position i, with scores s_gj = q_gi.k_j / sqrt(dk) of the heads g that
 * share their keys, one of them or more:
 *   1  the policy chooses, once for all g: keys kept surely, keys left to chance
 *   2  chance decides, once; a key of factor c has ln c added to its score
 *   3  for each g: softmax over what is kept, and the weighted sum of its values
 * Several heads are to a policy what one would be whose weights are the sum of theirs: history and
 * observation are sums over them, the present scores ln of the mean weight. Reach is such that mean
 * weight times reach is root sum_g (w_gj |u_gj|)^2: that is what keeping a key at random costs all
 * of them together (THEORY 13). A query that keeps nothing, which retention without sure keys may
 * do, attends to its own token. A sink is one more outcome of the softmax with the value 0, which
 * every query keeps. */
#include "model/sparse_head.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "linalg/dense.h"
#include "policy/policy.h"
#include "stats/weigh.h"

enum { CHUNK = 64 }; /* queries whose scores are one product */

/* ---- memory ---- */

es_status es_sparse_room_new(int64_t n, int64_t dk, int64_t size, es_mem_limit *budget,
                             es_sparse_room *room, es_error *err)
{
    *room = (es_sparse_room){.budget = budget, .size = size, .longest = n};
    const int64_t numbers = n * ((size + 2) * dk + size * CHUNK + 6) + dk;
    ES_TRY(ES_MEM_NEW(budget, room->heads, size, "heads that share keys", err));
    ES_TRY(ES_MEM_NEW(budget, room->memory, numbers + n, "a sparse head", err));
    room->q = room->memory;
    room->k = room->q + size * n * dk;
    room->v = room->k + n * dk;
    room->scores = room->v + n * dk;
    room->weights = room->scores + size * n * CHUNK;
    room->joint = room->weights + n;
    room->history = room->joint + n;
    room->observed = room->history + n;
    room->reach = room->observed + n;
    room->each = room->reach + n;
    room->mean = room->each + n;
    room->keys = (int64_t *)(void *)(room->mean + dk);
    return ES_OK;
}

void es_sparse_room_free(es_sparse_room *room)
{
    es_choice_free(&room->choice);
    es_kept_free(&room->kept);
    es_mem_free(room->budget, room->memory);
    es_mem_free(room->budget, room->heads);
    *room = (es_sparse_room){0};
}

/* ---- scores ---- */

/* Keys that one query may see; members of the room that are of keys are of all of the block's. */
typedef struct keys_seen {
    int64_t begin, n;
} keys_seen;

/* Returns the range of keys that query i sees. */
static keys_seen seen_by(es_past past, int64_t i, int64_t n)
{
    const int64_t begin = es_past_begin(past, i);
    return (keys_seen){begin, es_past_end(past, i, n) - begin};
}

/* Copies rows to f64. */
static void read_rows(const es_view *from, double *to)
{
    for (int64_t i = 0; i < from->rows; i++)
        es_view_read_row(from, i, to + i * from->cols);
}

/* Queries of a head, and scores of a chunk's, where they are. */
static double *queries_of(const es_sparse_room *room, int64_t g, int64_t dk)
{
    return room->q + g * room->longest * dk;
}

/* Returns the scores of head g. */
static double *scores_of(const es_sparse_room *room, int64_t g)
{
    return room->scores + g * room->longest * CHUNK;
}

/* Reads keys and values of a group of heads once, scaled by 1/divisor, and checks that they are
 * finite. */
static es_status read_heads(es_sparse_room *room, int64_t count, const es_view *k, const es_view *v,
                            es_error *err)
{
    const int64_t n = k->rows, dk = k->cols;
    const double scale = 1.0 / room->divisor;
    es_scan scan;
    ES_TRY(es_view_scan(k, "a sparse head", &scan, err));
    ES_TRY(es_view_scan(v, "a sparse head", &scan, err));
    read_rows(k, room->k);
    read_rows(v, room->v);
    for (int64_t g = 0; g < count; g++) {
        double *q = queries_of(room, g, dk);
        ES_TRY(es_view_scan(&room->heads[g].q, "a sparse head", &scan, err));
        read_rows(&room->heads[g].q, q);
        for (int64_t i = 0; i < n * dk; i++)
            q[i] *= scale;
    }
    return ES_OK;
}

/* Computes the scores of `rows` queries from `first` on. Chunks start at multiples of CHUNK for
 * every caller, so that the product has the same shape, and the same bits, each time. */
static void score_chunk(es_sparse_room *room, int64_t count, int64_t first, int64_t rows, int64_t n,
                        int64_t dk)
{
    for (int64_t g = 0; g < count; g++) {
        memset(scores_of(room, g), 0, (size_t)(rows * n) * sizeof(double));
        es_gemm_add(ES_F64, rows, n, dk, queries_of(room, g, dk) + first * dk, room->k,
                    scores_of(room, g));
        es_cap_scores(room->cap, rows * n, scores_of(room, g));
    }
}

/* The request for a group of heads, and the scores of the present query. */
typedef struct asked {
    const es_policy_spec *spec;
    unsigned needs;
    es_past past;
    const es_address *first;
    int64_t count, n, dk;
    const double *scores; /* (keys) of the first head; the others' are as far into their chunks */
} asked;

/* Returns the scores of the present query of head g. */
static const double *row_of(const es_sparse_room *room, const asked *a, int64_t g)
{
    return a->scores + g * room->longest * CHUNK;
}

/* ---- what policies may look at ---- */

/* Allocates the past of queries: the weights, over all keys, that earlier queries gave, as in
 * `sparse` (what a cache would know). Queries are in blocks of `span`. Row i % span of `recent` is
 * what query i gave. When a block is full, each row becomes the sum of itself and those after it,
 * until the next block replaces it. So the last `span` queries are one such row plus the sum of
 * the present block (the row beyond): three additions instead of `span`. */
static es_status begin_past(es_sparse_room *room, int64_t span, int64_t n, es_error *err)
{
    room->span = span < n ? span : n;
    memset(room->history, 0, (size_t)n * sizeof(double));
    return ES_MEM_NEW_2D(room->budget, room->recent, room->span + 1, n,
                         "queries that were observed", err);
}

/* Computes the weight that the last queries before query i gave each key. */
static void observe(es_sparse_room *room, int64_t i, int64_t n)
{
    const double *before = room->recent + i % room->span * n;
    const double *present = room->recent + room->span * n;
    for (int64_t j = 0; j < n; j++)
        room->observed[j] = before[j] + present[j];
}

/* Turns the rows of a finished block of `span` queries into suffix sums and clears the sum of the
 * present block, so that a sum over the last `span` queries is one suffix and one prefix. */
static void end_block(es_sparse_room *room, int64_t n)
{
    for (int64_t row = room->span - 2; row >= 0; row--) {
        double *to = room->recent + row * n;
        const double *next = to + n;
        for (int64_t j = 0; j < n; j++)
            to[j] += next[j];
    }
    memset(room->recent + room->span * n, 0, (size_t)n * sizeof(double));
}

/* Adds the weights that query i of all heads gave to the keys it saw. */
static void remember(es_sparse_room *room, const asked *a, int64_t i, keys_seen seen)
{
    const int64_t n = a->n, end = seen.begin + seen.n;
    double *row = room->recent + i % room->span * n, *present = room->recent + room->span * n;
    memset(row, 0, (size_t)n * sizeof(double));
    es_weigh_beside(room->heads[0].sink, a->scores + seen.begin, seen.n, row + seen.begin);
    for (int64_t g = 1; g < a->count; g++) {
        es_weigh_beside(room->heads[g].sink, row_of(room, a, g) + seen.begin, seen.n,
                        room->weights + seen.begin);
        for (int64_t j = seen.begin; j < end; j++)
            row[j] += room->weights[j];
    }
    for (int64_t j = seen.begin; j < end; j++) {
        room->history[j] += row[j];
        present[j] += row[j];
    }
    if (i % room->span == room->span - 1)
        end_block(room, n);
}

/* Frees the past of queries. */
static void end_past(es_sparse_room *room)
{
    es_mem_free(room->budget, room->recent);
    room->recent = NULL;
}

/* Computes the distance of each visible value from the output over all of them, for these scores.
 */
static void measure_reach(es_sparse_room *room, double sink, const double *scores, keys_seen seen,
                          int64_t dk, double *reach)
{
    const int64_t end = seen.begin + seen.n;
    es_weigh_beside(sink, scores + seen.begin, seen.n, room->weights + seen.begin);
    memset(room->mean, 0, (size_t)dk * sizeof(double));
    for (int64_t j = seen.begin; j < end; j++)
        for (int64_t c = 0; c < dk; c++)
            room->mean[c] += room->weights[j] * room->v[j * dk + c];
    for (int64_t j = seen.begin; j < end; j++) {
        double sum = 0.0;
        for (int64_t c = 0; c < dk; c++) {
            const double off = room->v[j * dk + c] - room->mean[c];
            sum += off * off;
        }
        reach[j] = sqrt(sum);
    }
}

/* Combines several heads: joint is the logarithm of their mean weight, reach what belongs to it. */
static void join_scores(es_sparse_room *room, const asked *a, keys_seen seen)
{
    const int64_t end = seen.begin + seen.n;
    const bool reach = a->needs & ES_POLICY_REACH;
    for (int64_t j = seen.begin; j < end; j++)
        room->joint[j] = room->reach[j] = 0.0;
    for (int64_t g = 0; g < a->count; g++) {
        const double *scores = row_of(room, a, g);
        if (reach) /* makes the weights, too */
            measure_reach(room, room->heads[g].sink, scores, seen, a->dk, room->each);
        else
            es_weigh_beside(room->heads[g].sink, scores + seen.begin, seen.n,
                            room->weights + seen.begin);
        for (int64_t j = seen.begin; j < end; j++) {
            const double cost = reach ? room->weights[j] * room->each[j] : 0.0;
            room->joint[j] += room->weights[j];
            room->reach[j] += cost * cost;
        }
    }
    for (int64_t j = seen.begin; j < end; j++) {
        const double mean = room->joint[j] / (double)a->count;
        room->reach[j] = mean > 0.0 ? sqrt(room->reach[j]) / mean : 0.0;
        room->joint[j] = log(mean);
    }
}

/* ---- one query ---- */

/* Steps 1 and 2. A policy knows the keys that the query may see as 0, 1, ... */
static es_status keep_keys(es_sparse_room *room, const asked *a, int64_t i, keys_seen seen,
                           es_error *err)
{
    const int64_t first = seen.begin;
    const bool present = a->needs & (ES_POLICY_SCORES | ES_POLICY_REACH);
    const double *scores = a->scores;
    es_address at = *a->first;
    at.cell += (uint64_t)i;
    if (present && a->count > 1) {
        join_scores(room, a, seen);
        scores = room->joint;
    } else if (a->needs & ES_POLICY_REACH) {
        measure_reach(room, room->heads[0].sink, scores, seen, a->dk, room->reach);
    }
    const es_policy_query query = {
        .n = seen.n,
        .position = i - first,
        .causal = a->past.causal,
        .scores = scores + first,
        .reach = a->needs & ES_POLICY_REACH ? room->reach + first : NULL,
        .history = a->needs & ES_POLICY_HISTORY ? room->history + first : NULL,
        .observed = a->needs & ES_POLICY_OBSERVED ? room->observed + first : NULL};
    ES_TRY(es_policy_choose(a->spec, &query, room->budget, &room->choice, err));
    ES_TRY(es_choice_draw(&room->choice, &at, &room->kept, err));
    for (int64_t t = 0; t < room->kept.count; t++)
        room->kept.keys[t] += first;
    return ES_OK;
}

/* Computes unnormalised weights of the distinct keys that were kept, in room->keys and
 * room->weights; a key that was drawn twice has the weight of both draws. *sink is a logit and
 * becomes its weight. Returns the number of distinct keys. */
static int64_t weigh_kept(es_sparse_room *room, const double *scores, double *sink)
{
    const es_kept *kept = &room->kept;
    double most = *sink;
    int64_t different = 0;
    for (int64_t t = 0; t < kept->count; t++)
        most = fmax(most, scores[kept->keys[t]] + kept->log_factor[t]);
    for (int64_t t = 0; t < kept->count; t++) {
        const int64_t key = kept->keys[t];
        const double w = exp(scores[key] + kept->log_factor[t] - most);
        if (different && room->keys[different - 1] == key) {
            room->weights[different - 1] += w;
        } else {
            room->keys[different] = key;
            room->weights[different++] = w;
        }
    }
    *sink = kept->count ? exp(*sink - most) : *sink;
    return different;
}

/* Computes the results of query i over `count` distinct keys and a sink of weight `sink` (step 3).
 */
static void mix_values(const es_sparse_room *room, int64_t i, int64_t count, int64_t dk,
                       double sink, const es_attend_out *out)
{
    double *y = out->output + i * dk, sum = sink;
    for (int64_t t = 0; t < count; t++)
        sum += room->weights[t];
    const double rest = sink / sum; /* its weight; it counts in all but the output */
    double squares = rest * rest, entropy = rest > 0.0 ? -rest * log(rest) : 0.0, most = rest;
    memset(y, 0, (size_t)dk * sizeof(double));
    for (int64_t t = 0; t < count; t++) {
        const double w = room->weights[t] / sum, *v = room->v + room->keys[t] * dk;
        for (int64_t c = 0; c < dk; c++)
            y[c] += w * v[c];
        squares += w * w;
        entropy -= out->entropy && w > 0.0 ? w * log(w) : 0.0;
        most = fmax(most, w);
    }
    if (out->entropy)
        out->entropy[i] = entropy;
    if (out->top_weight)
        out->top_weight[i] = most;
    if (out->sum_squares)
        out->sum_squares[i] = squares;
}

/* Runs all three steps for a query; a query that keeps no key attends to itself. */
static es_status attend_query(es_sparse_room *room, const asked *a, int64_t i,
                              es_sparse_found *found, es_error *err)
{
    ES_TRY(keep_keys(room, a, i, seen_by(a->past, i, a->n), err));
    found->kept += (double)room->kept.count / (double)a->n;
    found->empty += !room->kept.count;
    for (int64_t g = 0; g < a->count; g++) {
        double sink = room->heads[g].sink;
        int64_t different = weigh_kept(room, row_of(room, a, g), &sink);
        if (!different) {
            const double score = row_of(room, a, g)[i], most = fmax(score, sink);
            room->keys[different] = i;
            room->weights[different++] = exp(score - most);
            sink = exp(sink - most);
        }
        mix_values(room, i, different, a->dk, sink, &room->heads[g].out);
    }
    return ES_OK;
}

/* ---- no choice of keys ---- */

/* Attends to Linformer's mixtures instead of the keys and values, one set for all queries of the
 * heads: as many as keys were to be kept, at most as many as there are. */
static es_status attend_mixtures(es_sparse_room *room, const asked *a, const es_view *k_,
                                 const es_view *v_, es_sparse_found *found, es_error *err)
{
    const int64_t n = a->n, dk = a->dk, rows = a->spec->keys < n ? a->spec->keys : n;
    double *memory;
    ES_TRY(ES_MEM_NEW_2D(room->budget, memory, 2 * rows, dk, "mixtures", err));
    double *k = memory, *v = k + rows * dk;
    es_status status = es_linformer_project(k_, rows, a->first, room->budget, k, err);
    if (status == ES_OK)
        status = es_linformer_project(v_, rows, a->first, room->budget, v, err);
    if (status == ES_OK) {
        memcpy(room->k, k, (size_t)(rows * dk) * sizeof(double));
        memcpy(room->v, v, (size_t)(rows * dk) * sizeof(double));
    }
    es_mem_free(room->budget, memory);
    ES_TRY(status);
    for (int64_t j = 0; j < rows; j++)
        room->keys[j] = j;
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t count = n - first < CHUNK ? n - first : CHUNK;
        score_chunk(room, a->count, first, count, rows, dk);
        for (int64_t g = 0; g < a->count; g++)
            for (int64_t i = 0; i < count; i++) {
                const double *scores = scores_of(room, g) + i * rows;
                es_weigh(scores, rows, room->weights);
                const double sink = es_weigh_sink(room->heads[g].sink, scores, rows, room->weights);
                mix_values(room, first + i, rows, dk, sink, &room->heads[g].out);
            }
    }
    found->kept = (double)rows;
    return ES_OK;
}

/* ---- all queries ---- */

/* Computes all queries of a group in chunks: scores of a chunk by one product, then each
 * query's choice of keys and its output. */
static es_status attend_queries(es_sparse_room *room, asked *a, es_sparse_found *found,
                                es_error *err)
{
    const int64_t n = a->n;
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        const int64_t rows = n - begin < CHUNK ? n - begin : CHUNK;
        const int64_t keys = es_past_end(a->past, begin + rows - 1, n); /* that one of them sees */
        score_chunk(room, a->count, begin, rows, keys, a->dk);
        for (int64_t i = begin; i < begin + rows; i++) {
            a->scores = room->scores + (i - begin) * keys;
            if (a->needs & ES_POLICY_OBSERVED)
                observe(room, i, n);
            ES_TRY(attend_query(room, a, i, found, err));
            if (room->recent)
                remember(room, a, i, seen_by(a->past, i, n));
        }
    }
    return ES_OK;
}

es_status es_sparse_attend(es_sparse_room *room, int64_t count, const es_policy_spec *spec,
                           es_past past, const es_address *first, const es_view *k,
                           const es_view *v, es_sparse_found *found, es_error *err)
{
    const unsigned needs = es_policy_inputs(spec->policy);
    asked a = {.spec = spec,
               .needs = needs,
               .past = past,
               .first = first,
               .count = count,
               .n = k->rows,
               .dk = k->cols};
    *found = (es_sparse_found){0};
    ES_TRY(read_heads(room, count, k, v, err));
    if (needs & ES_POLICY_MEASURED)
        return attend_mixtures(room, &a, k, v, found, err);
    if (needs & (ES_POLICY_HISTORY | ES_POLICY_OBSERVED))
        ES_TRY(begin_past(room, spec->span > 0 ? spec->span : ES_POLICY_SPAN, a.n, err));
    const es_status status = attend_queries(room, &a, found, err);
    end_past(room);
    return status;
}
