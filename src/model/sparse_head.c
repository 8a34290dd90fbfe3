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

es_status es_sparse_scratch_new(int64_t n, int64_t dk, int64_t size, es_mem_limit *budget,
                                es_sparse_scratch *scratch, es_error *err)
{
    *scratch = (es_sparse_scratch){.budget = budget, .size = size, .longest = n};
    const int64_t numbers = n * ((size + 2) * dk + size * CHUNK + 6) + dk;
    ES_TRY(ES_MEM_NEW(budget, scratch->heads, size, "heads that share keys", err));
    ES_TRY(ES_MEM_NEW(budget, scratch->memory, numbers + n, "a sparse head", err));
    scratch->q = scratch->memory;
    scratch->k = scratch->q + size * n * dk;
    scratch->v = scratch->k + n * dk;
    scratch->scores = scratch->v + n * dk;
    scratch->weights = scratch->scores + size * n * CHUNK;
    scratch->joint = scratch->weights + n;
    scratch->history = scratch->joint + n;
    scratch->observed = scratch->history + n;
    scratch->reach = scratch->observed + n;
    scratch->each = scratch->reach + n;
    scratch->mean = scratch->each + n;
    scratch->keys = (int64_t *)(void *)(scratch->mean + dk);
    return ES_OK;
}

void es_sparse_scratch_free(es_sparse_scratch *scratch)
{
    es_choice_free(&scratch->choice);
    es_kept_free(&scratch->kept);
    es_mem_free(scratch->budget, scratch->memory);
    es_mem_free(scratch->budget, scratch->heads);
    *scratch = (es_sparse_scratch){0};
}

/* ---- scores ---- */

/* Keys that one query may see; members of the scratch memory that are of keys are of all of the
 * block's. */
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
static double *queries_of(const es_sparse_scratch *scratch, int64_t g, int64_t dk)
{
    return scratch->q + g * scratch->longest * dk;
}

/* Returns the scores of head g. */
static double *scores_of(const es_sparse_scratch *scratch, int64_t g)
{
    return scratch->scores + g * scratch->longest * CHUNK;
}

/* Reads keys and values of a group of heads once, scaled by 1/divisor, and checks that they are
 * finite. */
static es_status read_heads(es_sparse_scratch *scratch, int64_t count, const es_view *k,
                            const es_view *v, es_error *err)
{
    const int64_t n = k->rows, dk = k->cols;
    const double scale = 1.0 / scratch->divisor;
    es_scan scan;
    ES_TRY(es_view_scan(k, "a sparse head", &scan, err));
    ES_TRY(es_view_scan(v, "a sparse head", &scan, err));
    read_rows(k, scratch->k);
    read_rows(v, scratch->v);
    for (int64_t g = 0; g < count; g++) {
        double *q = queries_of(scratch, g, dk);
        ES_TRY(es_view_scan(&scratch->heads[g].q, "a sparse head", &scan, err));
        read_rows(&scratch->heads[g].q, q);
        for (int64_t i = 0; i < n * dk; i++)
            q[i] *= scale;
    }
    return ES_OK;
}

/* Computes the scores of `rows` queries from `first` on. Chunks start at multiples of CHUNK for
 * every caller, so that the product has the same shape, and the same bits, each time. */
static void score_chunk(es_sparse_scratch *scratch, int64_t count, int64_t first, int64_t rows,
                        int64_t n, int64_t dk)
{
    for (int64_t g = 0; g < count; g++) {
        memset(scores_of(scratch, g), 0, (size_t)(rows * n) * sizeof(double));
        es_gemm_add(ES_F64, rows, n, dk, queries_of(scratch, g, dk) + first * dk, scratch->k,
                    scores_of(scratch, g));
        es_cap_scores(scratch->cap, rows * n, scores_of(scratch, g));
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
static const double *row_of(const es_sparse_scratch *scratch, const asked *a, int64_t g)
{
    return a->scores + g * scratch->longest * CHUNK;
}

/* ---- what policies may look at ---- */

/* Allocates the past of queries: the weights, over all keys, that earlier queries gave, as in
 * `sparse` (what a cache would know). Queries are in blocks of `span`. Row i % span of `recent` is
 * what query i gave. When a block is full, each row becomes the sum of itself and those after it,
 * until the next block replaces it. So the last `span` queries are one such row plus the sum of
 * the present block (the row beyond): three additions instead of `span`. */
static es_status begin_past(es_sparse_scratch *scratch, int64_t span, int64_t n, es_error *err)
{
    scratch->span = span < n ? span : n;
    memset(scratch->history, 0, (size_t)n * sizeof(double));
    return ES_MEM_NEW_2D(scratch->budget, scratch->recent, scratch->span + 1, n,
                         "queries that were observed", err);
}

/* Computes the weight that the last queries before query i gave each key. */
static void observe(es_sparse_scratch *scratch, int64_t i, int64_t n)
{
    const double *before = scratch->recent + i % scratch->span * n;
    const double *present = scratch->recent + scratch->span * n;
    for (int64_t j = 0; j < n; j++)
        scratch->observed[j] = before[j] + present[j];
}

/* Turns the rows of a finished block of `span` queries into suffix sums and clears the sum of the
 * present block, so that a sum over the last `span` queries is one suffix and one prefix. */
static void end_block(es_sparse_scratch *scratch, int64_t n)
{
    for (int64_t row = scratch->span - 2; row >= 0; row--) {
        double *to = scratch->recent + row * n;
        const double *next = to + n;
        for (int64_t j = 0; j < n; j++)
            to[j] += next[j];
    }
    memset(scratch->recent + scratch->span * n, 0, (size_t)n * sizeof(double));
}

/* Adds the weights that query i of all heads gave to the keys it saw. */
static void remember(es_sparse_scratch *scratch, const asked *a, int64_t i, keys_seen seen)
{
    const int64_t n = a->n, end = seen.begin + seen.n;
    double *row = scratch->recent + i % scratch->span * n,
           *present = scratch->recent + scratch->span * n;
    memset(row, 0, (size_t)n * sizeof(double));
    es_weigh_beside(scratch->heads[0].sink, a->scores + seen.begin, seen.n, row + seen.begin);
    for (int64_t g = 1; g < a->count; g++) {
        es_weigh_beside(scratch->heads[g].sink, row_of(scratch, a, g) + seen.begin, seen.n,
                        scratch->weights + seen.begin);
        for (int64_t j = seen.begin; j < end; j++)
            row[j] += scratch->weights[j];
    }
    for (int64_t j = seen.begin; j < end; j++) {
        scratch->history[j] += row[j];
        present[j] += row[j];
    }
    if (i % scratch->span == scratch->span - 1)
        end_block(scratch, n);
}

/* Frees the past of queries. */
static void end_past(es_sparse_scratch *scratch)
{
    es_mem_free(scratch->budget, scratch->recent);
    scratch->recent = NULL;
}

/* Computes the distance of each visible value from the output over all of them, for these scores.
 */
static void measure_reach(es_sparse_scratch *scratch, double sink, const double *scores,
                          keys_seen seen, int64_t dk, double *reach)
{
    const int64_t end = seen.begin + seen.n;
    es_weigh_beside(sink, scores + seen.begin, seen.n, scratch->weights + seen.begin);
    memset(scratch->mean, 0, (size_t)dk * sizeof(double));
    for (int64_t j = seen.begin; j < end; j++)
        for (int64_t c = 0; c < dk; c++)
            scratch->mean[c] += scratch->weights[j] * scratch->v[j * dk + c];
    for (int64_t j = seen.begin; j < end; j++) {
        double sum = 0.0;
        for (int64_t c = 0; c < dk; c++) {
            const double off = scratch->v[j * dk + c] - scratch->mean[c];
            sum += off * off;
        }
        reach[j] = sqrt(sum);
    }
}

/* Combines several heads: joint is the logarithm of their mean weight, reach what belongs to it. */
static void join_scores(es_sparse_scratch *scratch, const asked *a, keys_seen seen)
{
    const int64_t end = seen.begin + seen.n;
    const bool reach = a->needs & ES_POLICY_REACH;
    for (int64_t j = seen.begin; j < end; j++)
        scratch->joint[j] = scratch->reach[j] = 0.0;
    for (int64_t g = 0; g < a->count; g++) {
        const double *scores = row_of(scratch, a, g);
        if (reach) /* makes the weights, too */
            measure_reach(scratch, scratch->heads[g].sink, scores, seen, a->dk, scratch->each);
        else
            es_weigh_beside(scratch->heads[g].sink, scores + seen.begin, seen.n,
                            scratch->weights + seen.begin);
        for (int64_t j = seen.begin; j < end; j++) {
            const double cost = reach ? scratch->weights[j] * scratch->each[j] : 0.0;
            scratch->joint[j] += scratch->weights[j];
            scratch->reach[j] += cost * cost;
        }
    }
    for (int64_t j = seen.begin; j < end; j++) {
        const double mean = scratch->joint[j] / (double)a->count;
        scratch->reach[j] = mean > 0.0 ? sqrt(scratch->reach[j]) / mean : 0.0;
        scratch->joint[j] = log(mean);
    }
}

/* ---- one query ---- */

/* Steps 1 and 2. A policy knows the keys that the query may see as 0, 1, ... */
static es_status keep_keys(es_sparse_scratch *scratch, const asked *a, int64_t i, keys_seen seen,
                           es_error *err)
{
    const int64_t first = seen.begin;
    const bool present = a->needs & (ES_POLICY_SCORES | ES_POLICY_REACH);
    const double *scores = a->scores;
    es_address at = *a->first;
    at.cell += (uint64_t)i;
    if (present && a->count > 1) {
        join_scores(scratch, a, seen);
        scores = scratch->joint;
    } else if (a->needs & ES_POLICY_REACH) {
        measure_reach(scratch, scratch->heads[0].sink, scores, seen, a->dk, scratch->reach);
    }
    const es_policy_query query = {
        .n = seen.n,
        .position = i - first,
        .causal = a->past.causal,
        .scores = scores + first,
        .reach = a->needs & ES_POLICY_REACH ? scratch->reach + first : NULL,
        .history = a->needs & ES_POLICY_HISTORY ? scratch->history + first : NULL,
        .observed = a->needs & ES_POLICY_OBSERVED ? scratch->observed + first : NULL};
    ES_TRY(es_policy_choose(a->spec, &query, scratch->budget, &scratch->choice, err));
    ES_TRY(es_choice_draw(&scratch->choice, &at, &scratch->kept, err));
    for (int64_t t = 0; t < scratch->kept.count; t++)
        scratch->kept.keys[t] += first;
    return ES_OK;
}

/* Computes unnormalised weights of the distinct keys that were kept, in scratch->keys and
 * scratch->weights; a key that was drawn twice has the weight of both draws. *sink is a logit and
 * becomes its weight. Returns the number of distinct keys. */
static int64_t weigh_kept(es_sparse_scratch *scratch, const double *scores, double *sink)
{
    const es_kept *kept = &scratch->kept;
    double most = *sink;
    int64_t different = 0;
    for (int64_t t = 0; t < kept->count; t++)
        most = fmax(most, scores[kept->keys[t]] + kept->log_factor[t]);
    for (int64_t t = 0; t < kept->count; t++) {
        const int64_t key = kept->keys[t];
        const double w = exp(scores[key] + kept->log_factor[t] - most);
        if (different && scratch->keys[different - 1] == key) {
            scratch->weights[different - 1] += w;
        } else {
            scratch->keys[different] = key;
            scratch->weights[different++] = w;
        }
    }
    *sink = kept->count ? exp(*sink - most) : *sink;
    return different;
}

/* Computes the results of query i over `count` distinct keys and a sink of weight `sink` (step 3).
 */
static void mix_values(const es_sparse_scratch *scratch, int64_t i, int64_t count, int64_t dk,
                       double sink, const es_attend_out *out)
{
    double *y = out->output + i * dk, sum = sink;
    for (int64_t t = 0; t < count; t++)
        sum += scratch->weights[t];
    const double rest = sink / sum; /* its weight; it counts in all but the output */
    double squares = rest * rest, entropy = rest > 0.0 ? -rest * log(rest) : 0.0, most = rest;
    memset(y, 0, (size_t)dk * sizeof(double));
    for (int64_t t = 0; t < count; t++) {
        const double w = scratch->weights[t] / sum, *v = scratch->v + scratch->keys[t] * dk;
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
static es_status attend_query(es_sparse_scratch *scratch, const asked *a, int64_t i,
                              es_sparse_found *found, es_error *err)
{
    ES_TRY(keep_keys(scratch, a, i, seen_by(a->past, i, a->n), err));
    found->kept += (double)scratch->kept.count / (double)a->n;
    found->empty += !scratch->kept.count;
    for (int64_t g = 0; g < a->count; g++) {
        double sink = scratch->heads[g].sink;
        int64_t different = weigh_kept(scratch, row_of(scratch, a, g), &sink);
        if (!different) {
            const double score = row_of(scratch, a, g)[i], most = fmax(score, sink);
            scratch->keys[different] = i;
            scratch->weights[different++] = exp(score - most);
            sink = exp(sink - most);
        }
        mix_values(scratch, i, different, a->dk, sink, &scratch->heads[g].out);
    }
    return ES_OK;
}

/* ---- no choice of keys ---- */

/* Attends to Linformer's mixtures instead of the keys and values, one set for all queries of the
 * heads: as many as keys were to be kept, at most as many as there are. */
static es_status attend_mixtures(es_sparse_scratch *scratch, const asked *a, const es_view *k_,
                                 const es_view *v_, es_sparse_found *found, es_error *err)
{
    const int64_t n = a->n, dk = a->dk, rows = a->spec->keys < n ? a->spec->keys : n;
    double *memory;
    ES_TRY(ES_MEM_NEW_2D(scratch->budget, memory, 2 * rows, dk, "mixtures", err));
    double *k = memory, *v = k + rows * dk;
    es_status status = es_linformer_project(k_, rows, a->first, scratch->budget, k, err);
    if (status == ES_OK)
        status = es_linformer_project(v_, rows, a->first, scratch->budget, v, err);
    if (status == ES_OK) {
        memcpy(scratch->k, k, (size_t)(rows * dk) * sizeof(double));
        memcpy(scratch->v, v, (size_t)(rows * dk) * sizeof(double));
    }
    es_mem_free(scratch->budget, memory);
    ES_TRY(status);
    for (int64_t j = 0; j < rows; j++)
        scratch->keys[j] = j;
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t count = n - first < CHUNK ? n - first : CHUNK;
        score_chunk(scratch, a->count, first, count, rows, dk);
        for (int64_t g = 0; g < a->count; g++)
            for (int64_t i = 0; i < count; i++) {
                const double *scores = scores_of(scratch, g) + i * rows;
                es_weigh(scores, rows, scratch->weights);
                const double sink =
                    es_weigh_sink(scratch->heads[g].sink, scores, rows, scratch->weights);
                mix_values(scratch, first + i, rows, dk, sink, &scratch->heads[g].out);
            }
    }
    found->kept = (double)rows;
    return ES_OK;
}

/* ---- all queries ---- */

/* Computes all queries of a group in chunks: scores of a chunk by one product, then each
 * query's choice of keys and its output. */
static es_status attend_queries(es_sparse_scratch *scratch, asked *a, es_sparse_found *found,
                                es_error *err)
{
    const int64_t n = a->n;
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        const int64_t rows = n - begin < CHUNK ? n - begin : CHUNK;
        const int64_t keys = es_past_end(a->past, begin + rows - 1, n); /* that one of them sees */
        score_chunk(scratch, a->count, begin, rows, keys, a->dk);
        for (int64_t i = begin; i < begin + rows; i++) {
            a->scores = scratch->scores + (i - begin) * keys;
            if (a->needs & ES_POLICY_OBSERVED)
                observe(scratch, i, n);
            ES_TRY(attend_query(scratch, a, i, found, err));
            if (scratch->recent)
                remember(scratch, a, i, seen_by(a->past, i, n));
        }
    }
    return ES_OK;
}

es_status es_sparse_attend(es_sparse_scratch *scratch, int64_t count, const es_policy_spec *spec,
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
    ES_TRY(read_heads(scratch, count, k, v, err));
    if (needs & ES_POLICY_MEASURED)
        return attend_mixtures(scratch, &a, k, v, found, err);
    if (needs & (ES_POLICY_HISTORY | ES_POLICY_OBSERVED))
        ES_TRY(begin_past(scratch, spec->span > 0 ? spec->span : ES_POLICY_SPAN, a.n, err));
    const es_status status = attend_queries(scratch, &a, found, err);
    end_past(scratch);
    return status;
}
