/* SPDX-License-Identifier: Apache-2.0 */
/* pool_walk.c : all rows of some layers, strip by strip: from the files of a pool, or, where only
 * some rows are kept, by reading the text again. */
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/threads.h"
#include "model/model_inside.h"
#include "model/pool_files.h"

typedef struct walk {
    const es_pool *pool;
    const es_pool_range *range;
    const es_exec *exec;
    es_pool_visit visit;
    void *user;
    float *strips; /* (layers, strip, hidden); one of a pool that has its rows */
    float *hidden; /* (ES_POOL_BATCH, states, length, hidden) of a batch of blocks */
    int64_t states;
    int64_t at, filled; /* row that comes next; rows in the strips, the same of all layers */
} walk;

/* Reports progress; fails if the caller wants to stop. */
static es_status report(const walk *w, double done, double total, es_error *err)
{
    if (w->exec && w->exec->progress && w->exec->progress(w->exec->progress_user, done, total))
        return es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "interrupted");
    return ES_OK;
}

/* Returns the memory limit of the caller, NULL if there is none. */
static es_mem_limit *budget_of(const walk *w) { return w->exec ? w->exec->budget : NULL; }

/* ---- rows that are on disk ---- */

/* Walks through one layer's file, strip by strip. */
static es_status read_layer(walk *w, int64_t layer, es_error *err)
{
    const es_pool_range *r = w->range;
    const double rows = (double)(r->last - r->first), all = rows * (double)r->layers;
    for (int64_t at = r->first; at < r->last; at += r->strip) {
        const int64_t count = r->last - at < r->strip ? r->last - at : r->strip;
        ES_TRY(es_pool_rows(w->pool, layer, at, count, w->strips, err));
        ES_TRY(w->visit(w->user, layer, at, count, w->strips, err));
        ES_TRY(report(w, (double)(layer - r->layer) * rows + (double)(at + count - r->first), all,
                      err));
    }
    return ES_OK;
}

/* Walks through the files of all layers in turn: only one strip is in memory. */
static es_status read_all(walk *w, es_error *err)
{
    ES_TRY(ES_MEM_NEW_2D(budget_of(w), w->strips, w->range->strip, w->pool->info.hidden,
                         "a strip of the pool", err));
    for (int64_t l = 0; l < w->range->layers; l++)
        ES_TRY(read_layer(w, w->range->layer + l, err));
    return ES_OK;
}

/* ---- rows that the model makes again ---- */

/* Copies rows of one layer in the precision in which a pool would store them. */
static void copy_rows(const walk *w, const float *from, int64_t count, float *to)
{
    const int64_t numbers = count * w->pool->info.hidden;
    if (w->pool->info.store == ES_POOL_F32)
        memcpy(to, from, (size_t)numbers * sizeof *to);
    else
        for (int64_t i = 0; i < numbers; i++)
            to[i] = es_half_to_float(es_half_from_float(from[i]));
}

/* Adds the wanted rows of one layer of one block, from row `first` of the pool on, to the strip,
 * which holds *filled rows up to row *at. A full strip is passed to the visitor. */
static es_status add_rows(const walk *w, int64_t layer, int64_t first, int64_t count,
                          const float *rows, int64_t *at, int64_t *filled, es_error *err)
{
    const es_pool_range *r = w->range;
    const int64_t H = w->pool->info.hidden;
    float *strip = w->strips + (layer - r->layer) * r->strip * H;
    const int64_t end = first + count < r->last ? first + count : r->last;
    while (*at < end) {
        const int64_t fits = r->strip - *filled, left = end - *at;
        const int64_t take = left < fits ? left : fits;
        copy_rows(w, rows + (*at - first) * H, take, strip + *filled * H);
        *at += take;
        *filled += take;
        if (*filled == r->strip || *at == r->last) {
            ES_TRY(w->visit(w->user, layer, *at - *filled, *filled, strip, err));
            *filled = 0;
        }
    }
    return ES_OK;
}

/* Passes blocks [first, first + count), which have been run, to the visitor layer by layer. All
 * layers end at the same row. */
static es_status show_batch(walk *w, int64_t first, int64_t count, es_error *err)
{
    const es_pool_text *text = &w->pool->text;
    const int64_t H = w->pool->info.hidden, per_block = w->states * w->pool->info.length * H;
    int64_t at = w->at, filled = w->filled;
    for (int64_t l = 0; l < w->range->layers; l++) {
        at = w->at;
        filled = w->filled;
        for (int64_t i = 0; i < count; i++) {
            const int64_t n = text->blocks.start[first + i + 1] - text->blocks.start[first + i];
            const float *rows =
                w->hidden + i * per_block + ((w->range->layer + l) * n + text->prefix) * H;
            ES_TRY(add_rows(w, w->range->layer + l, w->pool->starts[first + i],
                            n - text->prefix - text->suffix, rows, &at, &filled, err));
        }
    }
    w->at = at;
    w->filled = filled;
    return ES_OK;
}

/* Running a batch is the first half of its rows' progress, looking at them the other. */
typedef struct relay {
    const walk *walk;
    double from, rows; /* done before; of the batch */
} relay;

/* Reports the forward pass as the first half of a batch's work. */
static bool relay_progress(void *user, double done, double total)
{
    const relay *r = user;
    const es_pool_range *range = r->walk->range;
    const es_exec *exec = r->walk->exec;
    const double part = total > 0.0 ? 0.5 * done / total : 0.0;
    return exec->progress(exec->progress_user, r->from + part * r->rows,
                          (double)(range->last - range->first));
}

/* Runs the model over a batch of blocks again and visits their rows. Where norms come first, rows
 * are stored after the norm, so that the visitor gets the same. */
static es_status run_batch(walk *w, int64_t first, int64_t count, es_error *err)
{
    const es_blocks *text = &w->pool->text.blocks;
    const int64_t per_block = w->states * w->pool->info.length * w->pool->info.hidden;
    const int64_t end = w->pool->starts[first + count];
    const double last = (double)(end < w->range->last ? end : w->range->last);
    const bool normed = w->pool->model->arch->order != ES_ORDER_POST; /* norms come first */
    es_model_block blocks[ES_POOL_BATCH];
    relay r = {w, (double)(w->at - w->range->first), last - (double)w->at};
    es_exec exec = w->exec ? *w->exec : (es_exec){0};
    exec.progress = exec.progress ? relay_progress : NULL;
    exec.progress_user = &r;
    for (int64_t i = 0; i < count; i++) {
        blocks[i] = (es_model_block){.ids = text->ids + text->start[first + i],
                                     .n = text->start[first + i + 1] - text->start[first + i]};
        /* inputs are those of layers that run; where they are hidden states, the last need not */
        blocks[i].states = w->states + (normed ? 1 : 0);
        *(normed ? &blocks[i].inputs : &blocks[i].hidden) = w->hidden + i * per_block;
    }
    ES_TRY(es_model_forward(w->pool->model, blocks, count, &exec, err));
    ES_TRY(show_batch(w, first, count, err));
    return report(w, last - (double)w->range->first, (double)(w->range->last - w->range->first),
                  err);
}

/* Returns the block that has row `row`. */
static int64_t block_of(const es_pool *pool, int64_t row)
{
    int64_t low = 0, high = pool->info.blocks;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (pool->starts[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Walks through a sparse pool, which does not hold all rows, by running the model over its text
 * again. */
static es_status run_all(walk *w, es_error *err)
{
    const es_pool_info *info = &w->pool->info;
    const es_pool_range *r = w->range;
    if (!w->pool->model)
        return es_fail(err, ES_E_RANGE, "pool.dropped", "call es_pool_stream() first",
                       "the pool does not hold all rows and has no text to compute them from");
    w->states = r->layer + r->layers;
    w->at = r->first;
    ES_TRY(ES_MEM_NEW_2D(budget_of(w), w->strips, r->layers * r->strip, info->hidden,
                         "strips of the pool", err));
    const int64_t together = es_pool_together(&w->pool->model->config, w->states, info->length,
                                              es_parallel_threads(w->exec, INT64_MAX));
    ES_TRY(ES_MEM_NEW_2D(budget_of(w), w->hidden, together * w->states, info->length * info->hidden,
                         "hidden states", err));
    int64_t block = block_of(w->pool, r->first);
    while (w->at < r->last) {
        const int64_t left = block_of(w->pool, r->last - 1) + 1 - block;
        const int64_t count = left < together ? left : together;
        ES_TRY(run_batch(w, block, count, err));
        block += count;
    }
    return ES_OK;
}

/* ---- either ---- */

es_status es_pool_walk(const es_pool *pool, const es_pool_range *range, const es_exec *exec,
                       es_pool_visit visit, void *user, es_error *err)
{
    const es_pool_range *r = range;
    ES_TRY(es_pool_check_layer(pool, r->layer, err));
    ES_TRY(es_pool_check_layer(pool, r->layer + r->layers - 1, err));
    if (r->layers < 1 || r->strip < 1 || r->first < 0 || r->first > r->last ||
        r->last > pool->info.tokens)
        return es_fail(err, ES_E_RANGE, "pool.walk",
                       "give rows of the pool, at least one at a time",
                       "rows %lld to %lld of %lld, %lld at a time", (long long)r->first,
                       (long long)r->last, (long long)pool->info.tokens, (long long)r->strip);
    walk w = {.pool = pool, .range = range, .exec = exec, .visit = visit, .user = user};
    if (r->first == r->last)
        return ES_OK;
    const es_status status = pool->kept ? run_all(&w, err) : read_all(&w, err);
    es_mem_free(budget_of(&w), w.hidden);
    es_mem_free(budget_of(&w), w.strips);
    return status;
}

double es_pool_walk_bytes(const es_model_config *c, int64_t ids, const es_pool_range *r,
                          bool sparse, int threads)
{
    const double H = (double)c->hidden, length = (double)ids;
    const int64_t states = r->layer + r->layers;
    if (!sparse)
        return 4.0 * (double)r->strip * H;
    const double together = (double)es_pool_together(c, states, ids, threads);
    return 4.0 * H * ((double)(r->layers * r->strip) + together * (double)states * length) +
           es_model_cost_of(c, ES_F32, ids, threads, false).bytes;
}

es_status es_pool_stream(es_pool *pool, const es_pool_spec *spec, es_error *err)
{
    es_blocks_free(&pool->text.blocks);
    pool->model = NULL;
    ES_TRY(es_pool_text_read(spec, NULL, true, &pool->text, err));
    if (pool->text.rows != pool->info.tokens || pool->text.blocks.count != pool->info.blocks ||
        es_pool_text_hash(&pool->text) != pool->ids)
        return es_fail(err, ES_E_ARGUMENT, "pool.stream",
                       "use the text and the model that the pool was built from",
                       "the pool was built from another text");
    uint64_t weights;
    ES_TRY(es_pool_hash_model(spec->model, NULL, &weights, err));
    if (es_model_config_of(spec->model)->hidden != pool->info.hidden ||
        es_model_config_of(spec->model)->layers != pool->info.layers || weights != pool->weights)
        return es_fail(err, ES_E_ARGUMENT, "pool.stream",
                       "use the text and the model that the pool was built from",
                       "the pool was built with another model");
    pool->model = spec->model;
    return ES_OK;
}
