/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c : a finished pool, read. */
#include "model/pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/run.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/pool_files.h"
#include "stats/average.h"
#include "store/npy_rows.h"
#include "store/run.h"

/* ---- what it is ---- */

/* Returns a number of a table of one row by its name, NaN if it is missing. Nothing in a pool's
 * folder is trusted: it may have been edited. */
static double column(const es_run_table *table, const char *name)
{
    for (int64_t i = 0; i < table->cols; i++)
        if (strcmp(table->columns[i].name, name) == 0 && table->columns[i].kind == ES_RUN_REAL &&
            table->rows == 1)
            return table->columns[i].reals[0];
    return (double)NAN;
}

/* Returns a count that a file states, -1 if it is not a count. */
static int64_t count_of(const es_run_table *table, const char *name, double most)
{
    const double value = column(table, name);
    return value >= 0.0 && value <= most && value == floor(value) ? (int64_t)value : -1;
}

/* Before anything else is read: a later version may mean something else by the same names. */
es_status es_pool_check_format(const es_run *run, const char *path, es_error *err)
{
    const es_run_about about = es_run_info(run);
    const char *format = "1";
    for (int64_t i = 0; i < about.params_count; i++)
        if (strcmp(about.params[i].key, ES_POOL_FORMAT_KEY) == 0)
            format = about.params[i].text;
    if (strcmp(about.command, "pool") == 0 && strcmp(format, ES_POOL_FORMAT) != 0)
        return es_fail_file(err, ES_E_UNSUPPORTED, path, -1, "pool.version",
                            "remove the pool's folder; the next run builds it again",
                            "the pool was built by another version: its format is %.20s, and this "
                            "program's is " ES_POOL_FORMAT,
                            format);
    return ES_OK;
}

/* Sizes become memory further down, so each has a bound here that a real pool is far below. */
static es_status read_info(es_run *run, const char *folder, es_pool *pool, es_error *err)
{
    es_pool_info *out = &pool->info;
    es_run_table table;
    const es_status status = es_run_get_table(run, ES_POOL_TABLE, NULL, &table, err);
    if (status == ES_E_EMPTY)
        return es_fail_file(err, status, folder, -1, "pool.unfinished",
                            "run the command that started it again: it continues",
                            "the pool is unfinished");
    ES_TRY(status);
    *out = (es_pool_info){.tokens = count_of(&table, "tokens", 0x1p40),
                          .hidden = count_of(&table, "hidden", 65536.0),
                          .layers = count_of(&table, "layers", 4096.0),
                          .heads = count_of(&table, "heads", 4096.0),
                          .blocks = count_of(&table, "blocks", 0x1p40),
                          .length = count_of(&table, "length", 0x1p30),
                          .specials = count_of(&table, "specials", 1.0) == 1,
                          .repeats = count_of(&table, "repeats", 0x1p40)};
    pool->dropped = count_of(&table, "dropped", (double)ES_TOKENIZER_SPECIALS * 2.0);
    out->sparse = count_of(&table, "sparse", 1.0) == 1;
    es_run_table_free(&table);
    if (out->tokens < 1 || out->hidden < 1 || out->layers < 1 || out->heads < 1 ||
        out->blocks < 1 || out->length < 1 || pool->dropped < 0)
        return es_fail_file(err, ES_E_FORMAT, folder, -1, "pool.shape", "build it again",
                            "pool.run does not describe a pool");
    return ES_OK;
}

/* Returns whether block i may start at row `first`: blocks follow each other from row 0 to the
 * last, and none has more than `length` rows, which readers allocate. */
static bool starts_at(const es_pool_info *info, const int64_t *starts, int64_t i, double first)
{
    if (first != floor(first) || first < 0.0 || first > (double)info->tokens)
        return false;
    if (i == 0)
        return first == 0.0;
    const double rows = first - (double)starts[i - 1];
    return rows >= 1.0 && rows <= (double)info->length &&
           (i < info->blocks || first == (double)info->tokens);
}

/* Reads where blocks begin. Rows must increase from 0 to the number of tokens. */
static es_status read_starts(es_run *run, es_pool *pool, es_error *err)
{
    es_run_table table;
    ES_TRY(es_run_get_table(run, ES_POOL_BLOCKS, NULL, &table, err));
    const int64_t count = pool->info.blocks + 1;
    bool sound = table.rows == count && table.cols == 1 && table.columns[0].kind == ES_RUN_REAL;
    es_status status = ES_OK;
    if (sound)
        status = ES_ARENA_NEW(&pool->arena, pool->starts, count, "blocks", err);
    for (int64_t i = 0; sound && status == ES_OK && i < count; i++) {
        const double first = table.columns[0].reals[i];
        sound = starts_at(&pool->info, pool->starts, i, first);
        pool->starts[i] = sound ? (int64_t)first : 0;
    }
    es_run_table_free(&table);
    if (status == ES_OK && !sound)
        status = es_fail(err, ES_E_FORMAT, "pool.shape", "build the pool again",
                         "the blocks of pool.run do not fit its tokens");
    return status;
}

/* Returns a hash from the parameters of pool.run, 0 if it is missing. */
static uint64_t hash_of(const es_run *run, const char *key)
{
    const es_run_about about = es_run_info(run);
    for (int64_t i = 0; i < about.params_count; i++)
        if (strcmp(about.params[i].key, key) == 0)
            return strtoull(about.params[i].text, NULL, 16);
    return 0;
}

/* Reads which rows a sparse pool holds, and the hashes of its text and model. */
static es_status read_kept(es_run *run, es_pool *pool, es_error *err)
{
    pool->ids = hash_of(run, ES_POOL_IDS_KEY);
    pool->weights = hash_of(run, ES_POOL_MODEL_KEY);
    if (!pool->info.sparse)
        return ES_OK;
    ES_TRY(ES_ARENA_NEW(&pool->arena, pool->kept, pool->info.layers, "kept rows", err));
    for (int64_t l = 0; l < pool->info.layers; l++)
        ES_TRY(es_pool_kept_get(run, l, pool->info.tokens, &pool->arena, &pool->kept[l], err));
    return ES_OK;
}

/* Returns the number of rows in the file of a layer. */
static int64_t rows_in_file(const es_pool *pool, int64_t layer)
{
    return pool->kept ? pool->kept[layer].count : pool->info.tokens;
}

/* Opens the file of each layer. All fd are -1 first, so that closing works at any stage. */
static es_status open_layers(es_pool *pool, const char *folder, es_error *err)
{
    char path[ES_POOL_PATH];
    ES_TRY(ES_ARENA_NEW(&pool->arena, pool->layers, pool->info.layers, "layers", err));
    for (int64_t l = 0; l < pool->info.layers; l++)
        pool->layers[l].fd = -1;
    for (int64_t l = 0; l < pool->info.layers; l++) {
        es_npy_rows *file = &pool->layers[l];
        es_pool_layer_path(folder, l, path);
        ES_TRY(es_npy_rows_open(path, file, err));
        if (file->rows != rows_in_file(pool, l) || file->cols != pool->info.hidden ||
            file->half != pool->layers[0].half)
            return es_fail_file(err, ES_E_FORMAT, path, -1, "pool.shape", "build the pool again",
                                "the file has (%lld, %lld) numbers; pool.run says (%lld, %lld)",
                                (long long)file->rows, (long long)file->cols,
                                (long long)rows_in_file(pool, l), (long long)pool->info.hidden);
    }
    pool->info.store = pool->layers[0].half ? ES_POOL_F16 : ES_POOL_F32;
    return ES_OK;
}

/* ---- attention in the blocks ---- */

/* One statistic of one head over the blocks, in their order: sums of w x and of (w y)^2 and what it
 * takes to centre them, y = x - first, w being the queries of a block. */
typedef struct tally {
    int64_t count;
    double first, weight, sum;
    double squares, cross, scatter; /* of w^2, w^2 y, w^2 y^2 */
} tally;

/* Adds a value with its weight, relative to the first value: sums of squares of numbers that are
 * all near 6 would lose half of their digits in the difference that mean_of() takes. */
static void tally_add(tally *t, double weight, double x)
{
    if (t->count == 0)
        t->first = x;
    const double y = x - t->first, square = weight * weight;
    t->count++;
    t->weight += weight;
    t->sum += weight * y;
    t->squares += square;
    t->cross += square * y;
    t->scatter += square * y * y;
}

typedef struct reading {
    const es_pool *pool;
    int64_t heads;  /* of all layers */
    tally *tallies; /* (heads, ES_POOL_SEEN) */
} reading;

/* Adds the statistics of a batch. Blocks are weighted by their queries, dropped special tokens
 * included, because the statistics are over these. Batches come in order, so that sums have the
 * same bits on every reading. */
static es_status tally_batch(void *user, int64_t index, const double *values, es_error *err)
{
    const reading *r = user;
    (void)err;
    for (int64_t i = 0; i < ES_POOL_BATCH; i++) {
        const int64_t block = index * ES_POOL_BATCH + i;
        if (block < 0 || block >= r->pool->info.blocks)
            break; /* rows of no block */
        const int64_t rows = r->pool->starts[block + 1] - r->pool->starts[block];
        const double queries = (double)(rows + r->pool->dropped);
        for (int64_t s = 0; s < r->heads * ES_POOL_SEEN; s++)
            tally_add(&r->tallies[s], queries, values[i * r->heads * ES_POOL_SEEN + s]);
    }
    return ES_OK;
}

/* Computes the weighted mean and its standard error. */
static void mean_of(const tally *t, double *mean, double *se)
{
    const double off = t->sum / t->weight;
    const double scatter = t->scatter - 2.0 * off * t->cross + off * off * t->squares;
    *mean = t->first + off;
    *se = es_block_se(scatter, t->weight, t->count);
}

/* Statistics of 72 heads over thousands of blocks become means and errors while they pass by;
 * the cells themselves are not kept. */
static es_status read_context(es_run *run, es_pool *pool, es_error *err)
{
    const int64_t heads = pool->info.layers * pool->info.heads;
    reading r = {.pool = pool, .heads = heads};
    es_run_stage stage;
    ES_TRY(es_run_get_stage(run, ES_POOL_STAGE_ID, &stage, err));
    if (stage.rows != ES_POOL_BATCH * heads || stage.cols != ES_POOL_SEEN)
        return es_fail(err, ES_E_FORMAT, "pool.shape", "build the pool again",
                       "cells of pool.run have an unexpected shape");
    ES_TRY(ES_ARENA_NEW(&pool->arena, pool->context, heads, "attention statistics", err));
    ES_TRY(ES_MEM_NEW_2D(NULL, r.tallies, heads, ES_POOL_SEEN, "attention statistics", err));
    es_status status = es_run_each_cell(run, ES_POOL_STAGE_ID, tally_batch, &r, err);
    if (status == ES_OK && r.tallies[0].count != pool->info.blocks)
        status = es_fail(err, ES_E_FORMAT, "pool.shape", "build the pool again: this repairs it",
                         "pool.run holds statistics of %lld blocks of %lld",
                         (long long)r.tallies[0].count, (long long)pool->info.blocks);
    for (int64_t h = 0; h < heads; h++) {
        es_pool_context *c = &pool->context[h];
        const tally *t = r.tallies + h * ES_POOL_SEEN;
        mean_of(&t[0], &c->entropy, &c->entropy_se);
        mean_of(&t[1], &c->top_weight, &c->top_weight_se);
        mean_of(&t[2], &c->sum_squares, &c->sum_squares_se);
        mean_of(&t[3], &c->ess, &c->ess_se);
    }
    es_mem_free(NULL, r.tallies);
    return status;
}

/* ---- checksums ---- */

typedef struct sums_reading {
    es_pool *pool;
    int64_t rows; /* read so far */
    float *row;   /* (hidden) */
} sums_reading;

/* Sets [*first, *last) to the rows of a batch. */
static es_status rows_of_batch(const es_pool *pool, int64_t batch, int64_t *first, int64_t *last,
                               es_error *err)
{
    const int64_t blocks = pool->info.blocks;
    if (batch < 0 || batch >= es_pool_batches(blocks))
        return es_fail(err, ES_E_FORMAT, "pool.shape", "build the pool again",
                       "pool.run has checksums of rows that the pool does not have");
    const int64_t next = (batch + 1) * ES_POOL_BATCH;
    *first = pool->starts[batch * ES_POOL_BATCH];
    *last = pool->starts[next < blocks ? next : blocks];
    return ES_OK;
}

/* Stores the checksums of the rows of a batch, from order (row, layer) to (layer, row). */
static es_status keep_sums(void *user, int64_t batch, const double *values, es_error *err)
{
    sums_reading *r = user;
    es_pool *pool = r->pool;
    const int64_t L = pool->info.layers;
    int64_t first = 0, last = 0;
    ES_TRY(rows_of_batch(pool, batch, &first, &last, err));
    for (int64_t i = 0; i < last - first; i++)
        for (int64_t l = 0; l < L; l++)
            memcpy(&pool->sums[pool->sums_at[l] + first + i], &values[i * L + l],
                   sizeof *pool->sums);
    r->rows += last - first;
    return ES_OK;
}

/* Computes the checksums of the rows that a sparse pool has of a batch, and compares their chain
 * with pool.run. */
static es_status sum_kept(void *user, int64_t batch, const double *values, es_error *err)
{
    sums_reading *r = user;
    es_pool *pool = r->pool;
    const int64_t H = pool->info.hidden;
    int64_t first = 0, last = 0;
    ES_TRY(rows_of_batch(pool, batch, &first, &last, err));
    for (int64_t l = 0; l < pool->info.layers; l++) {
        const es_pool_kept *kept = &pool->kept[l];
        const es_npy_rows *file = &pool->layers[l];
        const int64_t from = es_pool_kept_find(kept, first), to = es_pool_kept_find(kept, last);
        uint64_t chain = 0, want;
        memcpy(&want, &values[l], sizeof want);
        for (int64_t i = from; i < to; i++) {
            ES_TRY(es_npy_rows_read(file, i, 1, r->row, err));
            const uint64_t sum = es_pool_sum(r->row, H);
            pool->sums[pool->sums_at[l] + i] = sum;
            chain = es_pool_chain(chain, sum);
        }
        if (chain != want)
            return es_fail_file(err, ES_E_FORMAT, file->path, -1, "pool.checksum",
                                "check the disk; remove the pool's folder and build it again",
                                "rows %lld to %lld of layer %lld are damaged: a checksum differs",
                                (long long)first, (long long)last - 1, (long long)l);
    }
    r->rows += last - first;
    return ES_OK;
}

/* Allocates one checksum for each row in the files. */
static es_status make_sums(es_pool *pool, es_error *err)
{
    const int64_t L = pool->info.layers;
    int64_t rows = 0;
    ES_TRY(ES_ARENA_NEW(&pool->arena, pool->sums_at, L, "checksums", err));
    for (int64_t l = 0; l < L; l++) {
        pool->sums_at[l] = rows;
        rows += rows_in_file(pool, l);
    }
    return ES_ARENA_NEW(&pool->arena, pool->sums, rows, "checksums", err);
}

/* Reads a checksum for each row of each layer, 8 bytes per about 1500: a flipped bit is found when
 * its row is read, without reading a gigabyte before. */
static es_status read_sums(es_run *run, es_pool *pool, es_error *err)
{
    const es_pool_info *info = &pool->info;
    es_run_stage stage = {0};
    sums_reading r = {.pool = pool};
    if (es_run_info(run).stages_count > ES_POOL_SUMS_ID)
        ES_TRY(es_run_get_stage(run, ES_POOL_SUMS_ID, &stage, err));
    /* a batch of blocks that are as long as starts_at() lets them be fits its cell, and space is
     * made only for what is there */
    if (stage.rows != (info->sparse ? 1 : ES_POOL_BATCH * info->length) ||
        stage.cols != info->layers)
        return es_fail(err, ES_E_FORMAT, "pool.shape",
                       "remove the pool's folder and build it again",
                       "pool.run has no checksums, or checksums of other rows");
    if (stage.cells != (info->blocks - 1) / ES_POOL_BATCH + 1)
        return es_fail(err, ES_E_FORMAT, "pool.shape", "build the pool again: this repairs it",
                       "pool.run does not hold the checksums of all rows");
    ES_TRY(make_sums(pool, err));
    ES_TRY(ES_MEM_NEW(NULL, r.row, info->hidden, "a row", err));
    const es_status status =
        es_run_each_cell(run, ES_POOL_SUMS_ID, info->sparse ? sum_kept : keep_sums, &r, err);
    es_mem_free(NULL, r.row);
    ES_TRY(status);
    if (r.rows != info->tokens)
        return es_fail(err, ES_E_FORMAT, "pool.shape", "build the pool again: this repairs it",
                       "pool.run holds checksums of %lld rows of %lld", (long long)r.rows,
                       (long long)info->tokens);
    return ES_OK;
}

/* Fails unless rows [first, first + count) of a layer's file, as they have been read, match their
 * checksums. */
static es_status check_rows(const es_pool *pool, int64_t layer, int64_t first, int64_t count,
                            const float *rows, es_error *err)
{
    const es_npy_rows *file = &pool->layers[layer];
    const uint64_t *sums = pool->sums + pool->sums_at[layer] + first;
    for (int64_t i = 0; i < count; i++)
        if (es_pool_sum(rows + i * file->cols, file->cols) != sums[i]) {
            const int64_t item = file->half ? 2 : 4;
            return es_fail_file(
                err, ES_E_FORMAT, file->path,
                (int64_t)file->offset + (first + i) * file->cols * item, "pool.checksum",
                "check the disk; remove the pool's folder and build it again",
                "row %lld of layer %lld is damaged: its checksum differs",
                (long long)(pool->kept ? pool->kept[layer].rows[first + i] : first + i),
                (long long)layer);
        }
    return ES_OK;
}

/* ---- opening and closing ---- */

/* In this order each step can rely on the sizes that the one before has checked. */
es_status es_pool_open(const char *folder, es_pool **out, es_error *err)
{
    char path[ES_POOL_PATH];
    es_run *run;
    es_pool *pool;
    *out = NULL;
    es_pool_run_path(folder, path);
    ES_TRY(es_run_open(path, &run, err));
    es_status status = ES_MEM_NEW(NULL, pool, 1, "a pool", err);
    if (status == ES_OK)
        status = es_pool_check_format(run, path, err);
    if (status == ES_OK)
        status = read_info(run, folder, pool, err);
    if (status == ES_OK)
        status = read_starts(run, pool, err);
    if (status == ES_OK)
        status = read_kept(run, pool, err);
    if (status == ES_OK)
        status = open_layers(pool, folder, err);
    if (status == ES_OK)
        status = read_context(run, pool, err);
    if (status == ES_OK)
        status = read_sums(run, pool, err);
    es_run_close(run, NULL);
    if (status == ES_OK)
        *out = pool;
    else
        es_pool_close(pool);
    return status;
}

void es_pool_close(es_pool *pool)
{
    if (!pool)
        return;
    for (int64_t l = 0; pool->layers && l < pool->info.layers; l++)
        es_npy_rows_close(&pool->layers[l]);
    es_arena_free(&pool->arena);
    es_blocks_free(&pool->text.blocks);
    es_mem_free(NULL, pool);
}

es_pool_info es_pool_about(const es_pool *pool) { return pool->info; }

/* ---- rows ---- */

es_status es_pool_check_layer(const es_pool *pool, int64_t layer, es_error *err)
{
    if (layer < 0 || layer >= pool->info.layers)
        return es_fail(err, ES_E_RANGE, "pool.layer", "count from 0",
                       "layer %lld of a pool of %lld", (long long)layer,
                       (long long)pool->info.layers);
    return ES_OK;
}

/* Sets *at to the position of rows [first, first + count) in the layer's file. */
static es_status place_of(const es_pool *pool, int64_t layer, int64_t first, int64_t count,
                          int64_t *at, es_error *err)
{
    *at = first;
    if (!pool->kept || count <= 0 || first < 0 || first > pool->info.tokens - count)
        return ES_OK;
    const es_pool_kept *kept = &pool->kept[layer];
    *at = es_pool_kept_find(kept, first);
    /* rows increase: if the last is where it should be, so are all between */
    if (*at + count <= kept->count && kept->rows[*at] == first &&
        kept->rows[*at + count - 1] == first + count - 1)
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "pool.dropped", "read only rows that the pool keeps",
                   "the pool does not hold all of rows %lld to %lld of layer %lld",
                   (long long)first, (long long)(first + count - 1), (long long)layer);
}

es_status es_pool_rows(const es_pool *pool, int64_t layer, int64_t first, int64_t count, float *out,
                       es_error *err)
{
    int64_t at;
    ES_TRY(es_pool_check_layer(pool, layer, err));
    ES_TRY(place_of(pool, layer, first, count, &at, err));
    ES_TRY(es_npy_rows_read(&pool->layers[layer], at, count, out, err));
    return check_rows(pool, layer, at, count, out, err);
}

/* Row by row; es_pool_rows() checks each against its sum. */
es_status es_pool_gather(const es_pool *pool, int64_t layer, const int64_t *rows, int64_t count,
                         float *out, es_error *err)
{
    ES_TRY(es_pool_check_layer(pool, layer, err));
    for (int64_t i = 0; i < count; i++)
        ES_TRY(es_pool_rows(pool, layer, rows[i], 1, out + i * pool->info.hidden, err));
    return ES_OK;
}

es_status es_pool_block(const es_pool *pool, int64_t block, int64_t *first, int64_t *count,
                        es_error *err)
{
    if (block < 0 || block >= pool->info.blocks)
        return es_fail(err, ES_E_RANGE, "pool.block", "count from 0", "block %lld of %lld",
                       (long long)block, (long long)pool->info.blocks);
    *first = pool->starts[block];
    *count = pool->starts[block + 1] - *first;
    return ES_OK;
}

es_status es_pool_context_of(const es_pool *pool, int64_t layer, int64_t head, es_pool_context *out,
                             es_error *err)
{
    ES_TRY(es_pool_check_layer(pool, layer, err));
    if (head < 0 || head >= pool->info.heads)
        return es_fail(err, ES_E_RANGE, "pool.head", "count from 0", "head %lld of %lld",
                       (long long)head, (long long)pool->info.heads);
    *out = pool->context[layer * pool->info.heads + head];
    return ES_OK;
}
