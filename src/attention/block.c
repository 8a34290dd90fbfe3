/* SPDX-License-Identifier: Apache-2.0 */
/* block.c : a block of queries that meets keys tile by tile (online softmax).
 *
 * For each query the block keeps an offset m >= all scores seen, Z = sum exp(s_j - m), sum
 * exp(s_j - m) v_j and the sums of the statistics. When a larger score arrives, m moves and the
 * sums are multiplied by exp(m_old - m_new). Weights of a tile are summed in the kernels'
 * precision, tiles in double precision. */
#include "attention/block.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attend.h"
#include "attention/pack.h"
#include "attention/sight.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "base/view_at.h"

/* ---- memory ---- */

/* A buffer of a block: the field that points to it, and its size. */
typedef struct block_buffer {
    size_t field;
    int64_t count;
    size_t element;
} block_buffer;

enum {
    BUFFERS = 33,
    FEW_ROWS = 4 /* a quarter of the keys of a tile is few: only they are weighed */
};

/* Lists the buffers of a block with their sizes; allocation, cost and release use the same list. */
static void list_buffers(const es_problem *p, const es_kernels *kernels, int64_t queries,
                         int64_t tile, block_buffer out[BUFFERS])
{
    const int64_t lanes = kernels->lanes, rows = (queries + lanes - 1) / lanes * lanes;
    const int64_t channels4 = (p->dv + ES_GROUP - 1) / ES_GROUP * ES_GROUP;
    const int64_t around4 = p->spread ? (p->dv + ES_GROUP) / ES_GROUP * ES_GROUP : 0;
    const int64_t all = p->n_scales * rows, in_blocks = p->block ? all * channels4 : 0;
    const int64_t tile4 = (tile + ES_GROUP - 1) / ES_GROUP * ES_GROUP;
    const size_t real = es_dtype_size(kernels->dtype);
    const bool masks = p->mask, lists = p->mask && p->mask->list_queries;
    const block_buffer list[BUFFERS] = {
        {offsetof(es_block, queries), rows * p->d, real},
        {offsetof(es_block, keys), tile4 * p->d, real},
        {offsetof(es_block, values), tile4 * channels4, real},
        {offsetof(es_block, scores), tile4 * lanes, real},
        {offsetof(es_block, weights), p->n_scales > 1 ? tile4 * lanes : 0, real},
        {offsetof(es_block, rows), tile4, sizeof(int64_t)},
        {offsetof(es_block, row_weights), tile4 / FEW_ROWS * lanes, real},
        {offsetof(es_block, row_values), tile4 / FEW_ROWS * channels4, real},
        {offsetof(es_block, tile_top), lanes, sizeof(double)},
        {offsetof(es_block, tile_sums), 3 * lanes, sizeof(double)},
        {offsetof(es_block, offsets), all, real},
        {offsetof(es_block, output), all * channels4, real},
        {offsetof(es_block, folded), all * channels4, sizeof(double)},
        {offsetof(es_block, weights2), p->spread ? tile4 * lanes : 0, real},
        {offsetof(es_block, values_around), tile4 * around4, real},
        {offsetof(es_block, spread), all * around4, real},
        {offsetof(es_block, spread_folded), all * around4, sizeof(double)},
        {offsetof(es_block, cross), in_blocks, sizeof(double)},
        {offsetof(es_block, square), in_blocks, sizeof(double)},
        {offsetof(es_block, open), lanes, sizeof(double)},
        {offsetof(es_block, sums), all, sizeof(es_sums)},
        {offsetof(es_block, best), rows, sizeof(double)},
        {offsetof(es_block, best_index), rows, sizeof(int64_t)},
        {offsetof(es_block, kept), rows * p->kept, sizeof(double)},
        {offsetof(es_block, since_fold), rows / lanes, sizeof(int64_t)},
        {offsetof(es_block, met_block), rows / lanes, sizeof(int64_t)},
        {offsetof(es_block, sights), masks ? rows : 0, sizeof(es_sight)},
        {offsetof(es_block, common), masks ? rows / lanes : 0, sizeof(es_sight)},
        {offsetof(es_block, ranges), masks ? 4 * lanes : 0, sizeof(int32_t)},
        {offsetof(es_block, raise), masks ? tile4 : 0, real},
        {offsetof(es_block, list_raise), lists ? tile4 : 0, real},
        {offsetof(es_block, listed), lists && p->block ? tile4 * lanes : 0, real},
        {offsetof(es_block, numbers), lists ? tile4 : 0, sizeof(int64_t)}};
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
                    .around4 = p->spread ? (p->dv + ES_GROUP) / ES_GROUP * ES_GROUP : 0,
                    .real = es_dtype_size(kernels->dtype)};
    block_buffer list[BUFFERS];
    list_buffers(p, kernels, queries, tile, list);
    for (int i = 0; i < BUFFERS; i++) {
        const es_status status = es_mem_array(p->budget, list[i].count, 1, list[i].element,
                                              "a block of queries", (char *)b + list[i].field, err);
        if (status != ES_OK) {
            es_block_free(b);
            return status;
        }
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

/* Reads a number of a buffer in the precision of the kernels. */
static double real_get(const es_block *b, const char *buffer, int64_t at)
{
    return b->kernels->dtype == ES_F32 ? (double)((const float *)(const void *)buffer)[at]
                                       : ((const double *)(const void *)buffer)[at];
}

/* Writes a number to a buffer in the precision of the kernels. */
static void real_set(const es_block *b, char *buffer, int64_t at, double value)
{
    if (b->kernels->dtype == ES_F32)
        ((float *)(void *)buffer)[at] = (float)value;
    else
        ((double *)(void *)buffer)[at] = value;
}

/* Returns the address of a number in a buffer. */
static char *real_at(const es_block *b, char *buffer, int64_t at)
{
    return buffer + at * (int64_t)b->real;
}

/* Returns the address of a row. */
static const char *row_at(const es_block *b, const void *rows, int64_t row, int64_t stride)
{
    return (const char *)rows + row * stride * (int64_t)b->real;
}

/* ---- queries enter ---- */

void es_block_begin(es_block *b, int64_t first, int64_t count)
{
    const es_problem *p = b->p;
    const int64_t lanes = b->kernels->lanes;
    b->first = first;
    b->count = count;
    b->panels = (count + lanes - 1) / lanes;
    const es_view queries = es_view_rows(p->q, first, count);
    es_pack(&queries, lanes, p->largest_scale * ES_LOG2_E, b->kernels->dtype, b->queries);

    const int64_t rows = b->panels * lanes;
    for (int64_t i = 0; i < p->n_scales * rows; i++)
        b->sums[i] = (es_sums){.offset = -INFINITY};
    memset(b->output, 0, (size_t)(p->n_scales * rows * b->channels4) * b->real);
    memset(b->folded, 0, (size_t)(p->n_scales * rows * b->channels4) * sizeof *b->folded);
    if (p->spread) {
        memset(b->spread, 0, (size_t)(p->n_scales * rows * b->around4) * b->real);
        memset(b->spread_folded, 0,
               (size_t)(p->n_scales * rows * b->around4) * sizeof *b->spread_folded);
    }
    if (p->block) {
        memset(b->cross, 0, (size_t)(p->n_scales * rows * b->channels4) * sizeof *b->cross);
        memset(b->square, 0, (size_t)(p->n_scales * rows * b->channels4) * sizeof *b->square);
    }
    for (int64_t i = 0; i < rows; i++) {
        b->best[i] = -INFINITY;
        b->best_index[i] = -1;
    }
    for (int64_t i = 0; i < rows * p->kept; i++)
        b->kept[i] = -INFINITY;
    for (int64_t panel = 0; panel < b->panels; panel++) {
        b->since_fold[panel] = 0;
        b->met_block[panel] = -1;
    }
    if (p->mask)
        es_sight_begin(b);
}

/* ---- keys come ---- */

/* The tile's rows of x, of `width` elements, *stride apart: as they lie, or a copy in `buffer`. */
static const void *take_rows(const es_block *b, const es_view *x, const es_tile_keys *keys,
                             bool copy, int64_t width, char *buffer, int64_t *stride)
{
    const es_dtype dtype = b->kernels->dtype;
    if (!keys->numbers && !copy)
        return es_pack_rows(x, keys->row, keys->count, width, dtype, buffer, stride);
    es_copy_rows(x, keys->row, keys->numbers, keys->count, width, dtype, buffer);
    *stride = width;
    return buffer;
}

/* Of values four channels of all keys are read, then the next four: rows each in a page of its own
 * are better copied. So are rows that end within four channels. */
static void take_values(es_block *b, const es_tile_keys *keys)
{
    enum { PAGE = 4096 };
    const es_problem *p = b->p;
    b->tile_values = take_rows(b, p->v, keys, llabs(p->v->row_stride) >= PAGE, b->channels4,
                               b->values, &b->values_stride);
    if (p->spread)
        b->kernels->centre(b->tile_values, b->values_stride, keys->count, p->dv, p->centre,
                           b->values_around);
}

/* ---- one tile of keys against one panel of queries ---- */

/* The self token of each query that has it in this tile becomes NaN, which every kernel takes as
 * weight zero. */
static void mask_self(es_block *b, int64_t panel, const es_tile_keys *keys)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t lane = 0; lane < lanes && panel * lanes + lane < b->count; lane++) {
        const int64_t row = es_sight_own(b, panel * lanes + lane, keys);
        if (row >= 0)
            real_set(b, b->scores, row * lanes + lane, NAN);
    }
}

/* Where a tile's largest score beats the query's record, look up which key that was. New records
 * become rare after a few tiles, so that a plain search is the fastest of those tried. Gathered
 * keys come after others that they stand before: of equal scores the first key's counts. */
static void note_records(es_block *b, int64_t panel, const es_tile_keys *keys)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t lane = 0; lane < lanes; lane++) {
        const int64_t query = panel * lanes + lane;
        const double top = b->tile_top[lane];
        const bool equal = keys->numbers && top == b->best[query] && top > -INFINITY;
        if (!(top > b->best[query]) && !equal)
            continue;
        int64_t row = 0;
        while (real_get(b, b->scores, row * lanes + lane) != top)
            row++;
        const int64_t key = es_tile_keys_at(keys, row);
        if (equal && b->best_index[query] < key)
            continue;
        b->best[query] = top;
        b->best_index[query] = key;
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

/* Lane `lane` of `count` sums in f64 (NULL: none), and of those in the kernel's precision, times a
 * power of two. */
static void scale_lane(const es_block *b, double *wide, char *narrow, int64_t count, int64_t lane,
                       double factor)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t c = lane; c < count * lanes; c += lanes) {
        wide[c] *= factor;
        if (narrow)
            real_set(b, narrow, c, factor * real_get(b, narrow, c));
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
        const int64_t first = at * b->channels4;
        scale_lane(b, b->folded + first, real_at(b, b->output, first), b->channels4, lane, factor);
        if (b->p->spread)
            scale_lane(b, b->spread_folded + at * b->around4,
                       real_at(b, b->spread, at * b->around4), b->around4, lane, factor * factor);
        if (b->p->block) {
            scale_lane(b, b->cross + first, NULL, b->channels4, lane, factor * factor);
            scale_lane(b, b->square + first, NULL, b->channels4, lane, factor * factor);
        }
    }
}

/* Adds the sums of a tile to the running sums of its queries, in double precision. */
static void add_tile_sums(es_block *b, int64_t at)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t lane = 0; lane < lanes; lane++) {
        es_sums *sums = &b->sums[at + lane];
        sums->weight += b->tile_sums[lane];
        if (b->p->block)
            sums->open += b->tile_sums[lane];
        if (b->plain)
            continue;
        sums->tilted += b->tile_sums[lanes + lane];
        sums->squares += b->tile_sums[2 * lanes + lane];
    }
}

/* ---- spreads ---- */

/* Returns how many keys from `at` on, below `end`, belong to one block of keys; all of them if
 * there are no blocks. */
static int64_t keys_together(const es_problem *p, int64_t at, int64_t end)
{
    const int64_t rest = p->block ? p->block - at % p->block : end - at;
    return rest < end - at ? rest : end - at;
}

/* spread += (weights^2)' (values around the centre). */
static void add_spread(es_block *b, int64_t at, const char *weights, const char *values,
                       int64_t keys)
{
    b->kernels->square(weights, keys, b->weights2);
    b->kernels->product(b->weights2, values, b->around4, keys, b->around4 / ES_GROUP, true,
                        real_at(b, b->spread, at * b->around4));
}

/* A block of keys has ended: what it added is squared before it joins the rest. That is known when
 * the first key of another comes: a panel need not see the last key of the one before. */
static void close_keys(es_block *b, int64_t at)
{
    const int64_t lanes = b->kernels->lanes, first = at * b->channels4;
    for (int64_t lane = 0; lane < lanes; lane++) {
        es_sums *sums = &b->sums[at + lane];
        b->open[lane] = sums->open;
        es_sums_close(sums, sums->open);
    }
    b->kernels->close(real_at(b, b->output, first), b->open, b->channels4, b->folded + first,
                      b->cross + first, b->square + first);
}

/* Scores of one tile, in units of log 2: capped, corrected, and hidden where the query does not see
 * the key. */
static void score(es_block *b, int64_t panel, const es_tile_keys *keys, es_seen seen)
{
    const es_problem *p = b->p;
    const es_kernels *kernels = b->kernels;
    const int64_t lanes = kernels->lanes;
    kernels->scores(real_at(b, b->queries, panel * p->d * lanes), p->d,
                    row_at(b, b->tile_keys, keys->skip, b->keys_stride), b->keys_stride,
                    keys->count, b->scores);
    if (p->cap > 0.0)
        kernels->cap(b->scores, keys->count, p->cap);
    if (b->raised)
        kernels->raise(b->scores, keys->count, real_at(b, b->raise, keys->skip), 0, lanes);
    if (seen == ES_SEEN_SOME)
        es_sight_hide(b, panel, keys);
    if (p->exclude_self)
        mask_self(b, panel, keys);
}

/* Returns true if a lane's largest score of the tile has a weight at one scale. */
static bool lane_counts(const es_block *b, int64_t at, int64_t lane, double relative_scale)
{
    return es_problem_rescale(b->p, relative_scale, b->tile_top[lane]) - b->sums[at + lane].offset >
           ES_LEAST_POWER;
}

/* Counts the queries of a panel that give a key of the tile a weight. Where scores are far apart,
 * as at large scales, that is none in nearly all tiles. */
static int64_t count_lanes(const es_block *b, int64_t panel, int64_t at, double relative_scale)
{
    const int64_t lanes = b->kernels->lanes, rest = b->count - panel * lanes;
    int64_t count = 0;
    for (int64_t lane = 0; lane < (rest < lanes ? rest : lanes); lane++)
        count += lane_counts(b, at, lane, relative_scale);
    return count;
}

/* Lists the rows of a tile's keys that have a weight for some query in b->rows, in order, and
 * returns how many they are. */
static int64_t find_rows(const es_block *b, int64_t panel, int64_t at, double relative_scale,
                         int64_t keys)
{
    const int64_t lanes = b->kernels->lanes, rest = b->count - panel * lanes;
    int64_t count = 0;
    memset(b->rows, 0, (size_t)keys * sizeof *b->rows);
    for (int64_t lane = 0; lane < (rest < lanes ? rest : lanes); lane++) {
        if (!lane_counts(b, at, lane, relative_scale))
            continue;
        const double offset = b->sums[at + lane].offset;
        for (int64_t row = 0; row < keys; row++) {
            const double score = real_get(b, b->scores, row * lanes + lane);
            b->rows[row] |=
                es_problem_rescale(b->p, relative_scale, score) - offset > ES_LEAST_POWER;
        }
    }
    for (int64_t row = 0; row < keys; row++)
        if (b->rows[row])
            b->rows[count++] = row;
    return count;
}

/* Weights of `count` keys of a tile, those in b->rows, and what they add. Keys without a weight add
 * exact zeros in f32, so that leaving them out changes no bit. */
static void weigh_rows(es_block *b, const es_tile_keys *keys, int64_t at, double relative_scale,
                       int64_t count)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = b->rows[i];
        memcpy(real_at(b, b->row_weights, i * lanes), real_at(b, b->scores, row * lanes),
               (size_t)lanes * b->real);
        b->rows[i] = keys->numbers ? keys->numbers[row] : keys->row + row;
    }
    es_copy_rows(b->p->v, 0, b->rows, count, b->channels4, b->kernels->dtype, b->row_values);
    b->kernels->tilt(b->row_weights, count, relative_scale, real_at(b, b->offsets, at), b->plain,
                     b->row_weights, b->tile_sums);
    add_tile_sums(b, at);
    b->kernels->product(b->row_weights, b->row_values, b->channels4, count, b->channels4 / ES_GROUP,
                        true, real_at(b, b->output, at * b->channels4));
}

/* Weights of one tile at one scale, and what they add, block of keys by block of keys. */
static void weigh_tile(es_block *b, int64_t panel, const es_tile_keys *keys, int64_t at,
                       double relative_scale, bool skip, char *weights)
{
    const es_problem *p = b->p;
    const es_kernels *kernels = b->kernels;
    const int64_t lanes = kernels->lanes;
    int64_t met_block = b->met_block[panel];
    for (int64_t key = 0, some; key < keys->count; key += some) {
        some = keys_together(p, keys->row + key, keys->row + keys->count);
        if (p->block && met_block >= 0 && met_block != (keys->row + key) / p->block)
            close_keys(b, at);
        met_block = p->block ? (keys->row + key) / p->block : -1;
        if (skip)
            continue;
        char *w = real_at(b, weights, key * lanes);
        kernels->tilt(real_at(b, b->scores, key * lanes), some, relative_scale,
                      real_at(b, b->offsets, at), b->plain, w, b->tile_sums);
        add_tile_sums(b, at);
        kernels->product(w, row_at(b, b->tile_values, keys->skip + key, b->values_stride),
                         b->values_stride, some, b->channels4 / ES_GROUP, true,
                         real_at(b, b->output, at * b->channels4));
        if (p->spread)
            add_spread(b, at, w, row_at(b, b->values_around, keys->skip + key, b->around4), some);
    }
}

/* Weighs a tile at one scale: all of its keys, or the few that have a weight, or none. */
static void weigh(es_block *b, int64_t panel, const es_tile_keys *keys, int64_t s, char *weights)
{
    const es_problem *p = b->p;
    const int64_t lanes = b->kernels->lanes, at = (s * b->panels + panel) * lanes;
    const double relative_scale = es_problem_relative_scale(p, s);
    move_offsets(b, panel, s, relative_scale);
    const int64_t queries = count_lanes(b, panel, at, relative_scale);
    if (queries == 0 && !p->block)
        return;
    if (queries <= lanes / FEW_ROWS && !p->block && !p->spread) {
        const int64_t rows = find_rows(b, panel, at, relative_scale, keys->count);
        if (rows <= keys->count / FEW_ROWS) {
            weigh_rows(b, keys, at, relative_scale, rows);
            return;
        }
    }
    if (!b->tile_values)
        take_values(b, &b->tile_all);
    weigh_tile(b, panel, keys, at, relative_scale, queries == 0, weights);
}

/* Outputs of a panel go to f64. Those of blocks of keys do so where a block ends. */
static void fold(es_block *b, int64_t panel)
{
    const int64_t lanes = b->kernels->lanes;
    for (int64_t s = 0; s < b->p->n_scales; s++) {
        const int64_t at = (s * b->panels + panel) * lanes;
        if (!b->p->block)
            b->kernels->fold(real_at(b, b->output, at * b->channels4), lanes * b->channels4,
                             b->folded + at * b->channels4);
        if (b->p->spread)
            b->kernels->fold(real_at(b, b->spread, at * b->around4), lanes * b->around4,
                             b->spread_folded + at * b->around4);
    }
    b->since_fold[panel] = 0;
}

/* Scores (keys, lanes) are computed once; per scale, weights (keys, lanes) overwrite the previous
 * scale's. pass 1: scores = q.k' in units of log 2. pass 2: weights = 2^(score - offset). pass 3:
 * output += weights' v. Passes 2 and 3 go block by block, if there are blocks of keys. */
static void meet(es_block *b, int64_t panel, const es_tile_keys *keys, es_seen seen)
{
    const es_problem *p = b->p;
    score(b, panel, keys, seen);
    b->kernels->top(b->scores, keys->count, b->tile_top);
    if (!b->plain)
        note_records(b, panel, keys);
    if (p->kept)
        keep_largest(b, panel, keys->count);
    for (int64_t s = 0; s < p->n_scales; s++)
        weigh(b, panel, keys, s, p->n_scales > 1 ? b->weights : b->scores);
    if (p->block)
        b->met_block[panel] = (keys->row + keys->count - 1) / p->block;
    b->since_fold[panel] += keys->count;
    if (b->since_fold[panel] >= ES_FOLD_KEYS)
        fold(b, panel);
}

/* ---- tiles of keys, one after the other ---- */

/* Factors of the keys' classes, in units of log 2. */
static void take_factors(es_block *b, const es_tile_keys *keys)
{
    const es_mask *mask = b->p->mask;
    b->raised = false;
    for (int64_t i = 0; mask && mask->n_classes && i < keys->count; i++) {
        const double factor = mask->class_factors[mask->classes[es_tile_keys_at(keys, i)]];
        real_set(b, b->raise, i, factor * ES_LOG2_E);
        b->raised |= factor != 0.0;
    }
}

/* Packs the keys and factors of a tile in the order in which the kernels read them; values follow
 * when a panel needs all of them. */
static void take(es_block *b, const es_tile_keys *keys)
{
    b->tile_all = *keys;
    b->tile_keys = take_rows(b, b->p->k, keys, false, b->p->d, b->keys, &b->keys_stride);
    b->tile_values = NULL;
    take_factors(b, keys);
}

/* Keys of lists [list, list_end) meet panels [panel, panel_end). */
static void stream_list(es_block *b, int64_t list, int64_t list_end, int64_t panel,
                        int64_t panel_end, int64_t from, int64_t to)
{
    es_list_walk walk;
    es_tile_keys keys = {.numbers = b->numbers, .list = list, .list_end = list_end};
    es_list_walk_begin(&walk, b, list, list_end, from, to);
    while ((keys.count = es_list_walk_next(&walk, b->tile, b->numbers)) > 0) {
        take(b, &keys);
        for (int64_t i = panel; i < panel_end; i++)
            meet(b, i, &keys, ES_SEEN_SOME);
    }
}

/* The lists' keys of [from, to). A list of many queries is gathered once, for all panels that have
 * some of them; of lists of few queries those of a panel are gathered together. */
static void stream_lists(es_block *b, int64_t from, int64_t to)
{
    const int64_t lanes = b->kernels->lanes, queries = b->p->mask->list_queries;
    const int64_t last = (b->first + b->count - 1) / queries;
    if (queries >= lanes / 2) {
        for (int64_t list = b->first / queries; list <= last; list++) {
            const int64_t row = list * queries - b->first, end = row + queries;
            stream_list(b, list, list + 1, row > 0 ? row / lanes : 0,
                        end < b->count ? (end - 1) / lanes + 1 : b->panels, from, to);
        }
        return;
    }
    for (int64_t panel = 0; panel < b->panels; panel++) {
        int64_t list, list_end;
        es_sight_lists(b, panel, &list, &list_end);
        stream_list(b, list, list_end, panel, panel + 1, from, to);
    }
}

/* The next tile of keys from row `row` on, below `to`; under a mask it begins and ends with keys
 * that some query sees. */
static es_tile_keys next_tile(const es_block *b, int64_t row, int64_t to, int64_t index_base)
{
    if (b->p->mask)
        row = es_sight_next(b, index_base + row, index_base + to) - index_base;
    int64_t end = row + (b->p->block ? b->tile - row % b->tile : b->tile); /* they nest */
    end = end < to ? end : to;
    if (b->p->mask)
        end = es_sight_end(b, index_base + row, index_base + end) - index_base;
    return (es_tile_keys){.row = row, .first = index_base + row, .count = end - row};
}

void es_block_stream(es_block *b, int64_t from, int64_t to, int64_t index_base)
{
    const es_mask *mask = b->p->mask;
    es_tile_keys keys = next_tile(b, from, to, index_base);
    for (; keys.count > 0; keys = next_tile(b, keys.row + keys.count, to, index_base)) {
        take(b, &keys);
        for (int64_t panel = 0; panel < b->panels; panel++) {
            es_tile_keys here = keys;
            const es_seen seen = mask ? es_sight_of(b, panel, &here) : ES_SEEN_ALL;
            if (seen != ES_SEEN_NONE)
                meet(b, panel, &here, seen);
        }
    }
    if (mask && mask->list_queries && !b->p->block)
        stream_lists(b, from, to);
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

/* Sums (channels, lanes) as rows of queries (here, channels). */
static void store_lanes(const double *from, int64_t lanes, int64_t here, int64_t channels,
                        double *to)
{
    for (int64_t c = 0; c < channels; c++)
        for (int64_t lane = 0; lane < here; lane++)
            to[lane * channels + c] = from[c * lanes + lane];
}

/* What spreads and blocks are made of. A block of keys that has begun counts as it is; the state
 * takes a copy, so that the block can go on. */
static void store_spreads(const es_block *b, es_partial *out, int64_t at, int64_t here, int64_t to)
{
    const int64_t lanes = b->kernels->lanes, dv = b->p->dv, first = at * b->channels4;
    if (b->p->spread)
        store_lanes(b->spread_folded + at * b->around4, lanes, here, dv + 1,
                    out->spread + to * (dv + 1));
    if (!b->p->block)
        return;
    store_lanes(b->cross + first, lanes, here, dv, out->cross + to * dv);
    store_lanes(b->square + first, lanes, here, dv, out->square + to * dv);
    for (int64_t lane = 0; lane < here; lane++) {
        const int64_t query = to + lane;
        const double open = b->sums[at + lane].open;
        es_sums_close(&out->sums[query], open);
        for (int64_t c = 0; c < dv; c++) {
            const double n = real_get(b, b->output, first + c * lanes + lane);
            out->output[query * dv + c] += n;
            out->cross[query * dv + c] += open * n;
            out->square[query * dv + c] += n * n;
        }
    }
}

void es_block_store(es_block *b, es_partial *out, int64_t row)
{
    const es_problem *p = b->p;
    const int64_t lanes = b->kernels->lanes, dv = p->dv;
    for (int64_t panel = 0; panel < b->panels; panel++)
        fold(b, panel);
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
            store_lanes(b->folded + at * b->channels4, lanes, here, dv, out->output + to * dv);
            store_spreads(b, out, at, here, to);
        }
    }
    memcpy(out->best + row, b->best, (size_t)b->count * sizeof *b->best);
    memcpy(out->best_index + row, b->best_index, (size_t)b->count * sizeof *b->best_index);
    memcpy(out->kept_scores + row * p->kept, b->kept,
           (size_t)(b->count * p->kept) * sizeof *b->kept);
}
