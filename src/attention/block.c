#include "attention/block.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "attention/pack.h"
#include "base/error.h"
#include "base/memory.h"

/* ---- memory ---- */

/* A buffer of a block: the field that points to it, and its size. */
typedef struct block_buffer {
    size_t field;
    int64_t count;
    size_t element;
} block_buffer;

enum { BUFFERS = 14 };

static void list_buffers(const es_problem *p, const es_kernels *kernels, int64_t queries,
                         int64_t tile, block_buffer out[BUFFERS])
{
    const int64_t lanes = kernels->lanes, rows = (queries + lanes - 1) / lanes * lanes;
    const int64_t channels4 = (p->dv + ES_GROUP - 1) / ES_GROUP * ES_GROUP;
    const int64_t tile4 = (tile + ES_GROUP - 1) / ES_GROUP * ES_GROUP;
    const size_t real = es_dtype_size(kernels->dtype);
    const block_buffer list[BUFFERS] = {
        {offsetof(es_block, queries), rows * p->d, real},
        {offsetof(es_block, keys), tile4 * p->d, real},
        {offsetof(es_block, values), tile4 * channels4, real},
        {offsetof(es_block, scores), tile4 * lanes, real},
        {offsetof(es_block, weights), p->n_scales > 1 ? tile4 * lanes : 0, real},
        {offsetof(es_block, tile_top), lanes, sizeof(double)},
        {offsetof(es_block, tile_sums), 3 * lanes, sizeof(double)},
        {offsetof(es_block, offsets), p->n_scales * rows, real},
        {offsetof(es_block, output), p->n_scales * rows * channels4, real},
        {offsetof(es_block, folded), p->n_scales * rows * channels4, sizeof(double)},
        {offsetof(es_block, sums), p->n_scales * rows, sizeof(es_sums)},
        {offsetof(es_block, best), rows, sizeof(double)},
        {offsetof(es_block, best_index), rows, sizeof(int64_t)},
        {offsetof(es_block, kept), rows * p->kept, sizeof(double)}};
    memcpy(out, list, sizeof list);
}

double es_block_bytes(const es_problem *p, const es_kernels *kernels, int64_t queries, int64_t tile)
{
    block_buffer list[BUFFERS];
    list_buffers(p, kernels, queries, tile, list);
    double bytes = 0.0;
    for (int i = 0; i < BUFFERS; i++)
        bytes += (double)list[i].count * (double)list[i].element + 2 * ES_ALIGN;
    return bytes;
}

es_status es_block_new(es_block *b, const es_problem *p, const es_kernels *kernels, int64_t queries,
                       int64_t tile, bool plain, es_error *err)
{
    const int64_t lanes = kernels->lanes;
    *b = (es_block){.p = p,
                    .kernels = kernels,
                    .plain = plain,
                    .tile = tile,
                    .panels = (queries + lanes - 1) / lanes,
                    .channels4 = (p->dv + ES_GROUP - 1) / ES_GROUP * ES_GROUP,
                    .real = es_dtype_size(kernels->dtype)};
    block_buffer list[BUFFERS];
    list_buffers(p, kernels, queries, tile, list);
    for (int i = 0; i < BUFFERS; i++) {
        void *memory;
        const es_status status = es_mem_array(p->budget, list[i].count, 1, list[i].element,
                                              "a block of queries", &memory, err);
        if (status != ES_OK) {
            es_block_free(b);
            return status;
        }
        memcpy((char *)b + list[i].field, &memory, sizeof memory);
    }
    return ES_OK;
}

void es_block_free(es_block *b)
{
    if (!b->p)
        return;
    block_buffer list[BUFFERS];
    list_buffers(b->p, b->kernels, 0, 0, list); /* for the fields alone */
    for (int i = 0; i < BUFFERS; i++) {
        void *memory;
        memcpy(&memory, (char *)b + list[i].field, sizeof memory);
        es_mem_free(b->p->budget, memory);
    }
    *b = (es_block){0};
}

/* ---- the kernel's precision, element by element, where speed does not matter ---- */

static double real_get(const es_block *b, const char *buffer, int64_t at)
{
    return b->kernels->dtype == ES_F32 ? (double)((const float *)(const void *)buffer)[at]
                                       : ((const double *)(const void *)buffer)[at];
}

static void real_set(const es_block *b, char *buffer, int64_t at, double value)
{
    if (b->kernels->dtype == ES_F32)
        ((float *)(void *)buffer)[at] = (float)value;
    else
        ((double *)(void *)buffer)[at] = value;
}

static char *real_at(const es_block *b, char *buffer, int64_t at)
{
    return buffer + at * (int64_t)b->real;
}

/* ---- queries enter ---- */

void es_block_begin(es_block *b, int64_t first, int64_t count)
{
    const es_problem *p = b->p;
    const int64_t lanes = b->kernels->lanes;
    b->first = first;
    b->count = count;
    b->panels = (count + lanes - 1) / lanes;
    b->since_fold = 0;
    const es_view queries = es_view_rows(p->q, first, count);
    es_pack(&queries, lanes, p->largest_scale * ES_LOG2_E, b->kernels->dtype, b->queries);

    const int64_t rows = b->panels * lanes;
    for (int64_t i = 0; i < p->n_scales * rows; i++)
        b->sums[i] = (es_sums){.offset = -INFINITY};
    memset(b->output, 0, (size_t)(p->n_scales * rows * b->channels4) * b->real);
    memset(b->folded, 0, (size_t)(p->n_scales * rows * b->channels4) * sizeof *b->folded);
    for (int64_t i = 0; i < rows; i++) {
        b->best[i] = -INFINITY;
        b->best_index[i] = -1;
    }
    for (int64_t i = 0; i < rows * p->kept; i++)
        b->kept[i] = -INFINITY;
}

/* ---- one tile of keys against one panel of queries ---- */

/* The self token of each query that has it in this tile becomes NaN, which every kernel takes as
 * weight zero. */
static void mask_self(es_block *b, int64_t panel, int64_t from, int64_t keys)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t lane = 0; lane < lanes; lane++) {
        const int64_t row = b->first + panel * lanes + lane - from;
        if (row >= 0 && row < keys)
            real_set(b, b->scores, row * lanes + lane, NAN);
    }
}

/* Where a tile's largest score beats the query's record, look up which key that was. New records
 * become rare after a few tiles, so that a plain search is the fastest of those tried. */
static void note_records(es_block *b, int64_t panel, int64_t first_index)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t lane = 0; lane < lanes; lane++) {
        const int64_t query = panel * lanes + lane;
        if (!(b->tile_top[lane] > b->best[query]))
            continue;
        int64_t key = 0;
        while (real_get(b, b->scores, key * lanes + lane) != b->tile_top[lane])
            key++;
        b->best[query] = b->tile_top[lane];
        b->best_index[query] = first_index + key;
    }
}

/* Offer the tile's scores to the heaps of the queries where one of them could enter. */
static void keep_largest(es_block *b, int64_t panel, int64_t keys)
{
    const int64_t lanes = b->kernels->lanes, kept = b->p->kept;
    for (int64_t lane = 0; lane < lanes; lane++) {
        double *heap = b->kept + (panel * lanes + lane) * kept;
        if (b->tile_top[lane] > heap[0])
            for (int64_t key = 0; key < keys; key++)
                es_heap_offer(heap, kept, real_get(b, b->scores, key * lanes + lane));
    }
}

/* Move the offsets of the queries whose largest score in this tile is too far above. An offset is
 * an integer, so the move multiplies everything summed so far by a power of two. */
static void move_offsets(es_block *b, int64_t panel, int64_t scale, double relative_scale)
{
    const int64_t lanes = b->kernels->lanes, at = (scale * b->panels + panel) * lanes;
    char *offsets = real_at(b, b->offsets, at);
    for (int64_t lane = 0; lane < lanes; lane++) {
        es_sums *sums = &b->sums[at + lane];
        const double top = es_problem_rescale(b->p, relative_scale, b->tile_top[lane]);
        if (!(top > sums->offset + ES_OFFSET_SLACK))
            continue;
        const double factor = es_sums_move(sums, ceil(top));
        real_set(b, offsets, lane, sums->offset);
        char *output = real_at(b, b->output, at * b->channels4);
        double *folded = b->folded + at * b->channels4;
        for (int64_t c = 0; c < b->channels4; c++) {
            real_set(b, output, c * lanes + lane, factor * real_get(b, output, c * lanes + lane));
            folded[c * lanes + lane] *= factor;
        }
    }
}

static void add_tile_sums(es_block *b, int64_t at)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t lane = 0; lane < lanes; lane++) {
        es_sums *sums = &b->sums[at + lane];
        sums->weight += b->tile_sums[lane];
        if (b->plain)
            continue;
        sums->tilted += b->tile_sums[lanes + lane];
        sums->squares += b->tile_sums[2 * lanes + lane];
    }
}

/* Scores (keys, lanes) are computed once; per scale, weights (keys, lanes) overwrite the previous
 * scale's. pass 1: scores = q.k' in units of log 2. pass 2: weights = 2^(score - offset). pass 3:
 * output += weights' v. */
static void meet(es_block *b, int64_t panel, int64_t from, int64_t keys, int64_t first_index)
{
    const es_problem *p = b->p;
    const es_kernels *kernels = b->kernels;
    const int64_t lanes = kernels->lanes, groups = (keys + ES_GROUP - 1) / ES_GROUP;
    kernels->product(real_at(b, b->queries, panel * p->d * lanes), b->keys, p->d, groups, false,
                     b->scores);
    if (p->exclude_self)
        mask_self(b, panel, from, keys);
    kernels->top(b->scores, keys, b->tile_top);
    if (!b->plain)
        note_records(b, panel, first_index);
    if (p->kept)
        keep_largest(b, panel, keys);

    char *weights = p->n_scales > 1 ? b->weights : b->scores;
    for (int64_t s = 0; s < p->n_scales; s++) {
        const int64_t at = (s * b->panels + panel) * lanes;
        const double relative_scale = es_problem_relative_scale(p, s);
        move_offsets(b, panel, s, relative_scale);
        kernels->tilt(b->scores, keys, relative_scale, real_at(b, b->offsets, at), b->plain,
                      weights, b->tile_sums);
        add_tile_sums(b, at);
        kernels->product(weights, b->values, keys, b->channels4 / ES_GROUP, true,
                         real_at(b, b->output, at * b->channels4));
    }
}

static void fold(es_block *b)
{
    b->kernels->fold(b->output, b->p->n_scales * b->panels * b->kernels->lanes * b->channels4,
                     b->folded);
    b->since_fold = 0;
}

void es_block_stream(es_block *b, int64_t from, int64_t to, int64_t index_base)
{
    const es_problem *p = b->p;
    for (int64_t key = from; key < to; key += b->tile) {
        const int64_t keys = to - key < b->tile ? to - key : b->tile;
        const es_view k = es_view_rows(p->k, key, keys), v = es_view_rows(p->v, key, keys);
        const es_view channels = es_view_transpose(&v);
        es_pack(&k, ES_GROUP, 1.0, b->kernels->dtype, b->keys);
        es_pack(&channels, ES_GROUP, 1.0, b->kernels->dtype, b->values);
        for (int64_t panel = 0; panel < b->panels; panel++)
            meet(b, panel, key, keys, index_base + key);
        b->since_fold += keys;
        if (b->since_fold >= ES_FOLD_KEYS)
            fold(b);
    }
}

/* ---- queries leave ---- */

/* The weight of each query's best key, computed by the same kernel as when it was summed, so that a
 * query with a single key has top weight exactly 1. One row, left in b->scores. */
static void weigh_best(es_block *b, int64_t panel, int64_t at, double relative_scale)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t lane = 0; lane < lanes; lane++)
        real_set(b, b->scores, lane, b->best[panel * lanes + lane]);
    b->kernels->tilt(b->scores, 1, relative_scale, real_at(b, b->offsets, at), true, b->scores,
                     b->tile_sums);
}

void es_block_store(es_block *b, es_partial *out, int64_t row)
{
    const es_problem *p = b->p;
    const int64_t lanes = b->kernels->lanes, dv = p->dv;
    fold(b);
    for (int64_t s = 0; s < p->n_scales; s++) {
        const double relative_scale = es_problem_relative_scale(p, s);
        for (int64_t panel = 0; panel < b->panels; panel++) {
            const int64_t at = (s * b->panels + panel) * lanes, rest = b->count - panel * lanes;
            const int64_t here = rest < lanes ? rest : lanes;
            const int64_t to = s * out->queries + row + panel * lanes;
            if (!b->plain)
                weigh_best(b, panel, at, relative_scale);
            for (int64_t lane = 0; lane < here; lane++) {
                out->sums[to + lane] = b->sums[at + lane];
                out->sums[to + lane].top = b->plain ? 0.0 : real_get(b, b->scores, lane);
            }
            for (int64_t c = 0; c < dv; c++)
                for (int64_t lane = 0; lane < here; lane++)
                    out->output[(to + lane) * dv + c] =
                        b->folded[at * b->channels4 + c * lanes + lane];
        }
    }
    memcpy(out->best + row, b->best, (size_t)b->count * sizeof *b->best);
    memcpy(out->best_index + row, b->best_index, (size_t)b->count * sizeof *b->best_index);
    memcpy(out->kept_scores + row * p->kept, b->kept,
           (size_t)(b->count * p->kept) * sizeof *b->kept);
}
