/* sparse_head.c : attention of one head where each query keeps some of the block's keys.
 *
 * In f64 whatever the model computes in, and with all scores of a few queries at a time: policies
 * that look at scores need them all, and what is measured here is what dropping keys costs, not how
 * much time it saves. Per query i, with scores s_j = q_i.k_j / sqrt(dk):
 *   1  the policy chooses: keys kept surely, keys left to chance
 *   2  chance decides; a key of factor c has ln c added to its score
 *   3  softmax over what is kept, and the weighted sum of its values
 * A query that keeps nothing, which retention without sure keys may do, attends to its own token.
 */
#include "model/sparse_head.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "linalg/dense.h"

enum { CHUNK = 64 }; /* queries whose scores are one product */

enum { OBSERVED = 32 }; /* queries of an observation window, if nobody says (policy.h) */

/* ---- memory ---- */

es_status es_sparse_room_new(int64_t n, int64_t dk, es_budget *budget, es_sparse_room *room,
                             es_error *err)
{
    *room = (es_sparse_room){.budget = budget};
    const int64_t numbers = n * (3 * dk + CHUNK + 4) + dk;
    ES_TRY(
        es_mem_array(budget, numbers + n, 1, sizeof(double), "a sparse head", &room->memory, err));
    room->q = room->memory;
    room->k = room->q + n * dk;
    room->v = room->k + n * dk;
    room->scores = room->v + n * dk;
    room->weights = room->scores + n * CHUNK;
    room->history = room->weights + n;
    room->observed = room->history + n;
    room->reach = room->observed + n;
    room->mean = room->reach + n;
    room->keys = (int64_t *)(void *)(room->mean + dk);
    return ES_OK;
}

void es_sparse_room_free(es_sparse_room *room)
{
    es_choice_free(&room->choice);
    es_kept_free(&room->kept);
    es_mem_free(room->budget, room->memory);
    *room = (es_sparse_room){0};
}

/* ---- scores ---- */

/* Keys that one query may see; members of the room that are of keys are of all of the block's. */
typedef struct keys_seen {
    int64_t begin, n;
} keys_seen;

static keys_seen seen_by(es_past past, int64_t i, int64_t n)
{
    const int64_t begin = es_past_begin(past, i);
    return (keys_seen){begin, es_past_end(past, i, n) - begin};
}

static void read_head(es_sparse_room *room, const es_view qkv[3])
{
    const int64_t n = qkv[0].rows, dk = qkv[0].cols;
    const double scale = 1.0 / sqrt((double)dk);
    double *const to[3] = {room->q, room->k, room->v};
    for (int part = 0; part < 3; part++)
        for (int64_t i = 0; i < n; i++)
            es_view_read_row(&qkv[part], i, to[part] + i * dk);
    for (int64_t i = 0; i < n * dk; i++)
        room->q[i] *= scale;
}

/* Scores of `count` queries from `first` on. Chunks start at multiples of CHUNK whoever asks, so
 * that the product has the same shape, and the same bits, each time. */
static void score_chunk(es_sparse_room *room, int64_t first, int64_t count, int64_t n, int64_t dk)
{
    memset(room->scores, 0, (size_t)(count * n) * sizeof(double));
    es_gemm_add(ES_F64, count, n, dk, room->q + first * dk, room->k, room->scores);
}

static double largest_of(const double *x, int64_t n)
{
    double most = x[0];
    for (int64_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* w (n), of sum 1. */
static void full_weights(const double *scores, int64_t n, double *w)
{
    const double most = largest_of(scores, n);
    double sum = 0.0;
    for (int64_t j = 0; j < n; j++)
        sum += w[j] = exp(scores[j] - most);
    for (int64_t j = 0; j < n; j++)
        w[j] /= sum;
}

/* ---- what policies may look at ---- */

/* The past of a query is the weights, over all keys, of those that stand before it, as in `sparse`:
 * what a cache would know. `span` of them are kept one by one, for the observation window. */
static es_status begin_past(es_sparse_room *room, int64_t span, int64_t n, es_error *err)
{
    room->span = span < n ? span : n;
    memset(room->history, 0, (size_t)n * sizeof(double));
    return es_mem_array(room->budget, room->span, n, sizeof(double), "queries that were observed",
                        (void **)&room->recent, err);
}

/* What the last queries before query i gave each key, summed in their order. */
static void observe(es_sparse_room *room, int64_t i, int64_t n)
{
    memset(room->observed, 0, (size_t)n * sizeof(double));
    for (int64_t query = i > room->span ? i - room->span : 0; query < i; query++) {
        const double *row = room->recent + query % room->span * n;
        for (int64_t j = 0; j < n; j++)
            room->observed[j] += row[j];
    }
}

/* Query i has given its weights to the keys that it saw, and none to the others. */
static void remember(es_sparse_room *room, int64_t i, const double *scores, keys_seen seen,
                     int64_t n)
{
    double *row = room->recent + i % room->span * n;
    memset(row, 0, (size_t)n * sizeof(double));
    full_weights(scores + seen.begin, seen.n, row + seen.begin);
    for (int64_t j = seen.begin; j < seen.begin + seen.n; j++)
        room->history[j] += row[j];
}

static void end_past(es_sparse_room *room)
{
    es_mem_free(room->budget, room->recent);
    room->recent = NULL;
}

/* How far each value that is seen is from the output over all of them. */
static void measure_reach(es_sparse_room *room, const double *scores, keys_seen seen, int64_t dk)
{
    const int64_t end = seen.begin + seen.n;
    full_weights(scores + seen.begin, seen.n, room->weights + seen.begin);
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
        room->reach[j] = sqrt(sum);
    }
}

/* ---- one query ---- */

/* Steps 1 and 2. A policy knows the keys that the query may see as 0, 1, ... */
static es_status keep_keys(es_sparse_room *room, const es_policy_spec *spec, unsigned needs,
                           es_past past, const es_address *at, int64_t i, keys_seen seen,
                           const double *scores, es_error *err)
{
    const int64_t first = seen.begin;
    const es_policy_query query = {
        .n = seen.n,
        .position = i - first,
        .causal = past.causal,
        .scores = scores + first,
        .reach = needs & ES_POLICY_REACH ? room->reach + first : NULL,
        .history = needs & ES_POLICY_HISTORY ? room->history + first : NULL,
        .observed = needs & ES_POLICY_OBSERVED ? room->observed + first : NULL};
    ES_TRY(es_policy_choose(spec, &query, room->budget, &room->choice, err));
    ES_TRY(es_choice_draw(&room->choice, at, &room->kept, err));
    for (int64_t t = 0; t < room->kept.count; t++)
        room->kept.keys[t] += first;
    return ES_OK;
}

/* Unnormalised weights of the different keys that were kept, into room->keys and room->weights; a
 * key that was drawn twice has both draws' weight. @return : how many they are. */
static int64_t weigh_kept(es_sparse_room *room, const double *scores)
{
    const es_kept *kept = &room->kept;
    double most = -(double)INFINITY;
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
    return different;
}

/* Step 3: the results of query i over `count` different keys. */
static void mix_values(const es_sparse_room *room, int64_t i, int64_t count, int64_t dk,
                       const es_attend_out *out)
{
    double *y = out->output + i * dk, sum = 0.0, squares = 0.0, entropy = 0.0, most = 0.0;
    for (int64_t t = 0; t < count; t++)
        sum += room->weights[t];
    memset(y, 0, (size_t)dk * sizeof(double));
    for (int64_t t = 0; t < count; t++) {
        const double w = room->weights[t] / sum, *v = room->v + room->keys[t] * dk;
        for (int64_t c = 0; c < dk; c++)
            y[c] += w * v[c];
        squares += w * w;
        entropy -= w > 0.0 ? w * log(w) : 0.0;
        most = fmax(most, w);
    }
    if (out->entropy)
        out->entropy[i] = entropy;
    if (out->top_weight)
        out->top_weight[i] = most;
    if (out->sum_squares)
        out->sum_squares[i] = squares;
}

/* All three steps; a query that keeps nothing is left with itself. */
static es_status attend_query(es_sparse_room *room, const es_policy_spec *spec, unsigned needs,
                              es_past past, const es_address *first, const es_view *q, int64_t i,
                              const double *scores, const es_attend_out *out,
                              es_sparse_found *found, es_error *err)
{
    const keys_seen seen = seen_by(past, i, q->rows);
    es_address at = *first;
    at.cell += (uint64_t)i;
    if (needs & ES_POLICY_REACH)
        measure_reach(room, scores, seen, q->cols);
    ES_TRY(keep_keys(room, spec, needs, past, &at, i, seen, scores, err));
    int64_t different = weigh_kept(room, scores);
    found->kept += (double)room->kept.count / (double)q->rows;
    if (!different) {
        found->empty++;
        room->keys[different] = i;
        room->weights[different++] = 1.0;
    }
    mix_values(room, i, different, q->cols, out);
    return ES_OK;
}

/* ---- no choice of keys ---- */

/* Linformer's mixtures take the place of the keys and values, one set for all queries of the head;
 * as many as keys were to be kept, and no more than there are. */
static es_status attend_mixtures(es_sparse_room *room, int64_t keys, const es_address *at,
                                 const es_view qkv[3], const es_attend_out *out,
                                 es_sparse_found *found, es_error *err)
{
    const int64_t n = qkv[0].rows, dk = qkv[0].cols, rows = keys < n ? keys : n;
    void *memory;
    ES_TRY(es_mem_array(room->budget, 2 * rows, dk, sizeof(double), "mixtures", &memory, err));
    double *k = memory, *v = k + rows * dk;
    es_status status = es_linformer_project(&qkv[1], rows, at, room->budget, k, err);
    if (status == ES_OK)
        status = es_linformer_project(&qkv[2], rows, at, room->budget, v, err);
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
        score_chunk(room, first, count, rows, dk);
        for (int64_t i = 0; i < count; i++) {
            full_weights(room->scores + i * rows, rows, room->weights);
            mix_values(room, first + i, rows, dk, out);
        }
    }
    found->kept = (double)rows;
    return ES_OK;
}

/* ---- all queries ---- */

static es_status attend_queries(es_sparse_room *room, const es_policy_spec *spec, unsigned needs,
                                es_past past, const es_address *first, const es_view *q,
                                const es_attend_out *out, es_sparse_found *found, es_error *err)
{
    const int64_t n = q->rows;
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        const int64_t count = n - begin < CHUNK ? n - begin : CHUNK;
        const int64_t keys = es_past_end(past, begin + count - 1, n); /* that one of them sees */
        score_chunk(room, begin, count, keys, q->cols);
        for (int64_t i = begin; i < begin + count; i++) {
            const double *scores = room->scores + (i - begin) * keys;
            if (needs & ES_POLICY_OBSERVED)
                observe(room, i, n);
            ES_TRY(attend_query(room, spec, needs, past, first, q, i, scores, out, found, err));
            if (room->recent)
                remember(room, i, scores, seen_by(past, i, n), n);
        }
    }
    return ES_OK;
}

es_status es_sparse_attend(es_sparse_room *room, const es_policy_spec *spec, es_past past,
                           const es_address *first, const es_view qkv[3], const es_attend_out *out,
                           es_sparse_found *found, es_error *err)
{
    const unsigned needs = es_policy_needs(spec->policy);
    *found = (es_sparse_found){0};
    for (int part = 0; part < 3; part++) {
        es_scan scan;
        ES_TRY(es_view_scan(&qkv[part], "a sparse head", &scan, err));
    }
    read_head(room, qkv);
    if (needs & ES_POLICY_MEASURED)
        return attend_mixtures(room, spec->keys, first, qkv, out, found, err);
    if (needs & (ES_POLICY_HISTORY | ES_POLICY_OBSERVED))
        ES_TRY(begin_past(room, spec->span > 0 ? spec->span : OBSERVED, qkv[0].rows, err));
    const es_status status =
        attend_queries(room, spec, needs, past, first, &qkv[0], out, found, err);
    end_past(room);
    return status;
}
