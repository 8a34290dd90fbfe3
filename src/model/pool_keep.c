/* SPDX-License-Identifier: Apache-2.0 */
/* pool_keep.c : which rows a sparse pool holds: lists of their numbers, one for each layer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/pool_files.h"

/* ---- making a list ---- */

/* Compares two row numbers. */
static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the rows of a layer and removes duplicates. */
static es_status tidy(es_pool_kept *kept, int64_t layer, int64_t tokens, es_error *err)
{
    int64_t count = 0;
    if (kept->count == 0)
        return es_fail(err, ES_E_EMPTY, "pool.keep", "keep at least one row of every layer",
                       "no row of layer %lld is kept", (long long)layer);
    qsort(kept->rows, (size_t)kept->count, sizeof *kept->rows, by_value);
    if (kept->rows[0] < 0 || kept->rows[kept->count - 1] >= tokens)
        return es_fail(err, ES_E_RANGE, "pool.keep", "count from 0",
                       "rows %lld to %lld of layer %lld, which has %lld", (long long)kept->rows[0],
                       (long long)kept->rows[kept->count - 1], (long long)layer, (long long)tokens);
    for (int64_t i = 0; i < kept->count; i++)
        if (i == 0 || kept->rows[i] != kept->rows[i - 1])
            kept->rows[count++] = kept->rows[i];
    kept->count = count;
    return ES_OK;
}

/* Asks for the rows of one layer: first for their number, then for the rows; sorts them and
 * removes duplicates. */
static es_status keep_layer(const es_pool_spec *spec, const es_pool_info *about,
                            const int64_t *starts, int64_t layer, es_arena *arena,
                            es_pool_kept *out, es_error *err)
{
    int64_t most;
    ES_TRY(spec->keep(spec->keep_user, about, starts, layer, NULL, &most, err));
    ES_TRY(ES_ARENA_NEW(arena, out->rows, most, "kept rows", err));
    out->count = most;
    ES_TRY(spec->keep(spec->keep_user, about, starts, layer, out->rows, &out->count, err));
    return tidy(out, layer, about->tokens, err);
}

es_status es_pool_kept_make(const es_pool_spec *spec, const es_pool_text *text, es_arena *arena,
                            es_pool_kept *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const es_pool_info about = {.tokens = text->rows,
                                .hidden = c->hidden,
                                .layers = c->layers,
                                .heads = c->heads,
                                .blocks = text->blocks.count,
                                .length = es_pool_length(spec),
                                .specials = es_pool_has_specials(spec),
                                .store = spec->store,
                                .repeats = text->blocks.repeats,
                                .sparse = true};
    int64_t *starts;
    ES_TRY(es_pool_text_starts(text, arena->budget, &starts, err));
    es_status status = ES_OK;
    for (int64_t l = 0; l < c->layers && status == ES_OK; l++)
        status = keep_layer(spec, &about, starts, l, arena, &out[l], err);
    es_mem_free(arena->budget, starts);
    return status;
}

int64_t es_pool_kept_find(const es_pool_kept *kept, int64_t row)
{
    int64_t low = 0, high = kept->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (kept->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t es_pool_kept_hash(const es_pool_kept *kept, int64_t layers)
{
    uint64_t h = 0;
    for (int64_t l = 0; l < layers; l++)
        h = es_pool_chain(h, es_sum(kept[l].rows, (size_t)kept[l].count * sizeof *kept[l].rows));
    return h;
}

/* ---- in pool.run ---- */

enum { NAME = 32 };

/* Writes the name of the table of a layer. */
static void name_of(int64_t layer, char out[NAME])
{
    snprintf(out, NAME, "kept-%lld", (long long)layer);
}

es_status es_pool_kept_put(es_run *run, int64_t layer, const es_pool_kept *kept, es_error *err)
{
    char name[NAME];
    double *rows;
    name_of(layer, name);
    ES_TRY(ES_MEM_NEW(NULL, rows, kept->count, "kept rows", err));
    for (int64_t i = 0; i < kept->count; i++)
        rows[i] = (double)kept->rows[i];
    const es_run_column column = {"row", ES_RUN_REAL, rows, NULL};
    const es_run_table table = {.name = name, .rows = kept->count, .cols = 1, .columns = &column};
    const es_status status = es_run_put_table(run, &table, err);
    es_mem_free(NULL, rows);
    return status;
}

/* A file that anybody may have edited: rows increase, and all of them are of the pool. */
es_status es_pool_kept_get(es_run *run, int64_t layer, int64_t tokens, es_arena *arena,
                           es_pool_kept *out, es_error *err)
{
    char name[NAME];
    es_run_table table;
    name_of(layer, name);
    ES_TRY(es_run_get_table(run, name, NULL, &table, err));
    bool sound = table.rows >= 1 && table.cols == 1 && table.columns[0].kind == ES_RUN_REAL;
    es_status status = ES_OK;
    if (sound)
        status = ES_ARENA_NEW(arena, out->rows, table.rows, "kept rows", err);
    for (int64_t i = 0; sound && status == ES_OK && i < table.rows; i++) {
        const double row = table.columns[0].reals[i];
        sound = row >= 0.0 && row < (double)tokens && row == floor(row) &&
                (i == 0 || row > (double)out->rows[i - 1]);
        out->rows[i] = sound ? (int64_t)row : 0;
    }
    out->count = table.rows;
    es_run_table_free(&table);
    if (status == ES_OK && !sound)
        status =
            es_fail(err, ES_E_FORMAT, "pool.shape", "build the pool again",
                    "pool.run has an invalid list of kept rows for layer %lld", (long long)layer);
    return status;
}
