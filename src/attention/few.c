/* SPDX-License-Identifier: Apache-2.0 */
/* few.c : attention for few queries, as in decoding. Time is spent reading keys and values, so
 * threads divide the keys, and each value is read once for all queries. */
#include "attention/few.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "attention/attend.h"
#include "attention/block.h"
#include "attention/cut.h"
#include "attention/pack.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"

enum {
    MOST_QUERIES = 24,     /* the smallest panel of a fast CPU: above, a second one is as fast */
    TILE_KEYS = 192,       /* its quarter is a multiple of every panel's lanes, and of 4 */
    TILE_BYTES = 64 * 1024 /* keys of a tile, or its values: near when they are read again */
};

/* Working space of one thread. The kernel's precision in `char *` buffers. */
typedef struct few {
    const es_problem *p;
    const es_kernels *kernels;
    bool plain;            /* nothing but the output and lse is wanted */
    int64_t tile;          /* keys per tile, a multiple of lanes */
    int64_t pitch;         /* from one query's row of `output` to the next */
    size_t real;           /* bytes per element of the kernel's precision */
    char *queries;         /* (m, d) times log2(e) and the largest scale */
    char *keys, *values;   /* (tile, d), (tile, dv): copies where rows cannot be read as they lie */
    char *scores;          /* (m, tile) */
    char *weights;         /* (m, tile); the same buffer as scores when there is one scale */
    char *output;          /* (m, pitch) of one tile */
    char *offset;          /* (lanes) all the same */
    double *tops;          /* (m) largest score of each query in the tile */
    double *lanes;         /* (3, lanes) what a kernel finds, lane by lane */
    double keys2, values2; /* sums of the squares of what has been read */
} few;

bool es_few_suits(const es_problem *p)
{
    return p->m <= MOST_QUERIES && !p->self && !p->exclude_self && !p->spread && !p->block &&
           !p->mask;
}

int64_t es_few_tile(const es_problem *p, const es_kernels *kernels)
{
    const int64_t longest = p->d > p->dv ? p->d : p->dv;
    const int64_t keys = TILE_BYTES / (longest * (int64_t)es_dtype_size(kernels->dtype));
    return keys >= TILE_KEYS ? TILE_KEYS : keys >= TILE_KEYS / 2 ? TILE_KEYS / 2 : TILE_KEYS / 4;
}

/* ---- memory ---- */

enum { BUFFERS = 9 };

/* One array of the scratch memory. */
typedef struct few_buffer {
    size_t field;
    int64_t count;
    size_t element;
} few_buffer;

/* Returns the distance between two outputs: channels rounded up to whole groups. */
static int64_t output_pitch(const es_problem *p)
{
    return (p->dv + ES_FEW_CHANNELS - 1) / ES_FEW_CHANNELS * ES_FEW_CHANNELS;
}

/* Lists the buffers with their sizes; allocation and release use the same list. */
static void list_buffers(const es_problem *p, const es_kernels *kernels, few_buffer out[BUFFERS])
{
    const int64_t tile = es_few_tile(p, kernels), lanes = kernels->lanes;
    const size_t real = es_dtype_size(kernels->dtype);
    const few_buffer list[BUFFERS] = {
        {offsetof(few, queries), p->m * p->d, real},
        {offsetof(few, keys), tile * p->d, real},
        {offsetof(few, values), tile * p->dv, real},
        {offsetof(few, scores), p->m * tile, real},
        {offsetof(few, weights), p->n_scales > 1 ? p->m * tile : 0, real},
        {offsetof(few, output), p->m * output_pitch(p), real},
        {offsetof(few, offset), lanes, real},
        {offsetof(few, tops), p->m, sizeof(double)},
        {offsetof(few, lanes), 3 * lanes, sizeof(double)}};
    memcpy(out, list, sizeof list);
}

double es_few_bytes(const es_problem *p, const es_kernels *kernels)
{
    few_buffer list[BUFFERS];
    list_buffers(p, kernels, list);
    double bytes = sizeof(few);
    for (int i = 0; i < BUFFERS; i++)
        bytes += (double)list[i].count * (double)list[i].element + 2 * ES_ALIGN;
    return bytes;
}

/* Frees the buffers of few_new(). */
static void few_free(few *f)
{
    if (!f->p)
        return;
    few_buffer list[BUFFERS];
    list_buffers(f->p, f->kernels, list); /* for the fields alone */
    for (int i = 0; i < BUFFERS; i++) {
        void *memory;
        memcpy(&memory, (char *)f + list[i].field, sizeof memory);
        es_mem_free(f->p->budget, memory);
    }
    *f = (few){0};
}

/* Allocates the buffers of one thread. */
static es_status few_new(few *f, const es_problem *p, const es_kernels *kernels, bool plain,
                         es_error *err)
{
    *f = (few){.p = p,
               .kernels = kernels,
               .plain = plain,
               .tile = es_few_tile(p, kernels),
               .pitch = output_pitch(p),
               .real = es_dtype_size(kernels->dtype)};
    few_buffer list[BUFFERS];
    list_buffers(p, kernels, list);
    for (int i = 0; i < BUFFERS; i++) {
        ES_TRY(es_mem_array(p->budget, list[i].count, 1, list[i].element, "a few queries",
                            (char *)f + list[i].field, err));
    }
    es_pack(p->q, 1, p->largest_scale * ES_LOG2_E, kernels->dtype, f->queries);
    return ES_OK;
}

/* ---- the kernel's precision, element by element ---- */

/* Reads a number of a buffer in the precision of the kernels. */
static double real_get(const few *f, const char *buffer, int64_t at)
{
    return f->kernels->dtype == ES_F32 ? (double)((const float *)(const void *)buffer)[at]
                                       : ((const double *)(const void *)buffer)[at];
}

/* Fills part of a buffer with one value. */
static void real_fill(const few *f, char *buffer, int64_t from, int64_t to, double value)
{
    for (int64_t i = from; i < to; i++) {
        if (f->kernels->dtype == ES_F32)
            ((float *)(void *)buffer)[i] = (float)value;
        else
            ((double *)(void *)buffer)[i] = value;
    }
}

/* Returns the address of the scores of one query. */
static char *row_of(const few *f, char *buffer, int64_t row)
{
    return buffer + row * f->tile * (int64_t)f->real;
}

/* ---- one tile of keys ---- */

/* The largest of the lanes, or their sum, in an order that is the same for every number of lanes
 * that is a multiple of three: three chains, because one would wait for each of its additions. */
static double lanes_top(const double *x, int64_t lanes)
{
    double a = x[0], b = x[1], c = x[2];
    for (int64_t i = 3; i < lanes; i += 3) {
        a = x[i] > a ? x[i] : a;
        b = x[i + 1] > b ? x[i + 1] : b;
        c = x[i + 2] > c ? x[i + 2] : c;
    }
    a = b > a ? b : a;
    return c > a ? c : a;
}

/* Adds the lanes of a vector in three sums, in a fixed order. */
static double lanes_sum(const double *x, int64_t lanes)
{
    double a = x[0], b = x[1], c = x[2];
    for (int64_t i = 3; i < lanes; i += 3) {
        a += x[i];
        b += x[i + 1];
        c += x[i + 2];
    }
    return a + b + c;
}

/* The first key with the tile's largest score, if that is the query's record; and the heap. */
static void note_scores(few *f, es_partial *state, int64_t query, int64_t keys, int64_t first_index)
{
    const char *scores = row_of(f, f->scores, query);
    const int64_t kept = f->p->kept;
    double *heap = state->kept_scores + query * kept;
    if (f->tops[query] > state->best[query]) {
        int64_t key = 0;
        while (key + 1 < keys && real_get(f, scores, key) != f->tops[query])
            key++;
        state->best[query] = f->tops[query];
        state->best_index[query] = first_index + key;
    }
    if (kept && f->tops[query] > heap[0])
        for (int64_t key = 0; key < keys; key++)
            es_heap_offer(heap, kept, real_get(f, scores, key));
}

/* Scores of all queries, in units of log 2; up to the end of a row of lanes they are masked. */
static void score(few *f, es_partial *state, const void *k, int64_t stride, int64_t keys,
                  int64_t first_index)
{
    const es_problem *p = f->p;
    const int64_t lanes = f->kernels->lanes, rows = (keys + lanes - 1) / lanes;
    f->keys2 += f->kernels->dots(f->queries, p->m, p->d, k, stride, keys, f->scores, f->tile);
    for (int64_t query = 0; query < p->m; query++) {
        char *scores = row_of(f, f->scores, query);
        if (p->cap > 0.0)
            f->kernels->cap(scores, rows, p->cap);
        real_fill(f, scores, keys, rows * lanes, NAN);
        f->kernels->top(scores, rows, f->lanes);
        f->tops[query] = lanes_top(f->lanes, lanes);
        if (!f->plain)
            note_scores(f, state, query, keys, first_index);
    }
}

/* Row `row` of the state: its offset follows the tile's largest score (block.c says how), then the
 * query's scores become weights. */
static void tilt(few *f, es_partial *state, int64_t query, int64_t row, double relative_scale,
                 int64_t rows, char *weights)
{
    const int64_t lanes = f->kernels->lanes, channels = state->channels;
    es_sums *sums = &state->sums[row];
    const double top = es_problem_rescale(f->p, relative_scale, f->tops[query]);
    if (top > sums->offset + ES_OFFSET_SLACK) {
        const double factor = es_sums_move(sums, ceil(top));
        for (int64_t c = row * channels; c < (row + 1) * channels; c++)
            state->output[c] *= factor;
    }
    real_fill(f, f->offset, 0, lanes, sums->offset);
    f->kernels->tilt(row_of(f, f->scores, query), rows, relative_scale, f->offset, f->plain,
                     row_of(f, weights, query), f->lanes);
    sums->weight += lanes_sum(f->lanes, lanes);
    if (!f->plain) {
        sums->tilted += lanes_sum(f->lanes + lanes, lanes);
        sums->squares += lanes_sum(f->lanes + 2 * lanes, lanes);
    }
}

/* Weights (m, keys) and outputs (m, dv) of every scale. A tile's outputs are sums in the kernel's
 * precision, all tiles' are sums in f64. */
static void weigh(few *f, es_partial *state, const void *v, int64_t stride, int64_t keys)
{
    const es_problem *p = f->p;
    const int64_t lanes = f->kernels->lanes, rows = (keys + lanes - 1) / lanes;
    char *weights = p->n_scales > 1 ? f->weights : f->scores;
    for (int64_t s = 0; s < p->n_scales; s++) {
        for (int64_t query = 0; query < p->m; query++)
            tilt(f, state, query, s * p->m + query, es_problem_relative_scale(p, s), rows, weights);
        const double squares =
            f->kernels->mix(weights, f->tile, p->m, v, stride, keys, p->dv, f->output, f->pitch);
        f->values2 += s == 0 ? squares : 0.0; /* every scale sees the same values */
        for (int64_t query = 0; query < p->m; query++)
            f->kernels->fold(f->output + query * f->pitch * (int64_t)f->real, p->dv,
                             state->output + (s * p->m + query) * p->dv);
    }
}

/* The weight of each query's best key, by the kernel that has summed it: of a single key it is
 * exactly 1. */
static void weigh_best(few *f, es_partial *state)
{
    const int64_t lanes = f->kernels->lanes;
    for (int64_t row = 0; row < f->p->n_scales * f->p->m; row++) {
        real_fill(f, f->offset, 0, lanes, state->sums[row].offset);
        real_fill(f, f->scores, 0, lanes, state->best[row % f->p->m]);
        f->kernels->tilt(f->scores, 1, es_problem_relative_scale(f->p, row / f->p->m), f->offset,
                         true, f->scores, f->lanes);
        state->sums[row].top = real_get(f, f->scores, 0);
    }
}

/* ---- all of it ---- */

/* Segments of keys that threads share when there are few queries. */
typedef struct job {
    const es_problem *p;
    const es_attend_plan *plan;
    few *threads;
    es_partial *states; /* (segments) */
    int64_t index_base;
} job;

/* Computes all queries over one segment of the keys. */
static es_status meet_segment(void *job_, int64_t segment, int thread, es_error *err)
{
    const job *j = job_;
    few *f = &j->threads[thread];
    es_partial *state = &j->states[segment];
    const int64_t end = es_cut_key(j->p, j->plan, segment + 1);
    (void)err;
    for (int64_t key = es_cut_key(j->p, j->plan, segment), keys; key < end; key += keys) {
        keys = end - key < f->tile ? end - key : f->tile;
        int64_t stride;
        const void *k =
            es_pack_rows(j->p->k, key, keys, j->p->d, f->kernels->dtype, f->keys, &stride);
        score(f, state, k, stride, keys, j->index_base + key);
        const void *v =
            es_pack_rows(j->p->v, key, keys, j->p->dv, f->kernels->dtype, f->values, &stride);
        weigh(f, state, v, stride, keys);
    }
    if (!f->plain)
        weigh_best(f, state);
    return ES_OK;
}

/* Runs all segments with all threads. */
static es_status meet(job *j, const es_kernels *kernels, bool plain, es_error *err)
{
    for (int t = 0; t < j->plan->threads; t++)
        ES_TRY(few_new(&j->threads[t], j->p, kernels, plain, err));
    ES_TRY(es_parallel_run(j->p->exec, j->plan->segments, meet_segment, j, err));
    double keys2 = 0.0, values2 = 0.0;
    for (int t = 0; t < j->plan->threads; t++) {
        keys2 += j->threads[t].keys2;
        values2 += j->threads[t].values2;
    }
    return es_problem_scan_bounds(j->p, es_kernels_squares(kernels, j->p->q), keys2, values2, err);
}

es_status es_few_attend(const es_problem *p, const es_attend_plan *plan, const es_kernels *kernels,
                        bool plain, int64_t index_base, es_partial *states, es_error *err)
{
    few *memory;
    ES_TRY(ES_MEM_NEW(p->budget, memory, plan->threads, "threads", err));
    job j = {.p = p, .plan = plan, .threads = memory, .states = states, .index_base = index_base};
    const es_status status = meet(&j, kernels, plain, err);
    for (int t = 0; t < plan->threads; t++)
        few_free(&j.threads[t]);
    es_mem_free(p->budget, j.threads);
    return status;
}
