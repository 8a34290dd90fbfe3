/* pool_files.h : what a pool's folder is called inside, shared by those who write and read it. */
#ifndef ES_MODEL_POOL_FILES_H
#define ES_MODEL_POOL_FILES_H

#include <stdio.h>

#include <esscher/pool.h>
#include <esscher/run.h>

#include "store/checksum.h"

/* More than a system allows, so that a name that had to be cut is one it refuses. */
enum { ES_POOL_PATH = 8192 };

/* Cells of the run file: one per batch, a row per block. Columns: `ES_POOL_SEEN` numbers per layer
 * and head, mean over the block's queries. */
#define ES_POOL_STAGE "batch"
enum { ES_POOL_SEEN = 4 }; /* entropy, top weight, sum of squares, its inverse */

/* And one more per batch with the checksums of its rows, (ES_POOL_BATCH * length, layers), 0 after
 * the last row. A checksum for each row, so that a row is checked wherever and however it is read,
 * and nothing has to be read for it. The cell holds the bits of a sum as those of a double. */
#define ES_POOL_SUMS "checksums"
enum { ES_POOL_STAGE_ID = 0, ES_POOL_SUMS_ID = 1 };

/* Of the floats that a reader gets: halves become floats without a loss. */
static inline uint64_t es_pool_sum(const float *row, int64_t hidden)
{
    return es_sum(row, (size_t)hidden * sizeof *row);
}

/* The table that says the pool is finished, and what it is; and the one with the blocks' rows. */
#define ES_POOL_TABLE  "pool"
#define ES_POOL_BLOCKS "blocks"

/* What the folder holds and what its numbers mean, as a parameter of the run: a pool of another
 * format can neither be read nor continued. Counted up with every change; before 2 it was not
 * stated. */
#define ES_POOL_FORMAT_KEY "format"
#define ES_POOL_FORMAT     "2"

/*! es_pool_check_format() : is it this version's? @return : ES_OK; ES_E_UNSUPPORTED (pool.version).
 *  In pool.c. */
es_status es_pool_check_format(const es_run *run, const char *path, es_error *err);

/* ---- pool_hash.c ---- */

/*! es_pool_hash_model() : everything that hidden states depend on. */
uint64_t es_pool_hash_model(const es_model *model);

/*! es_pool_hash_texts() : the bytes of the files, in their order, go on with *out, which begins as
 * 0.
 *  @return : ES_OK; ES_E_IO. */
es_status es_pool_hash_texts(const char *const *texts, int64_t count, uint64_t *out, es_error *err);

/* ---- names ---- */

static inline void es_pool_run_path(const char *folder, char out[ES_POOL_PATH])
{
    snprintf(out, ES_POOL_PATH, "%s/pool.run", folder);
}

static inline void es_pool_layer_path(const char *folder, int64_t layer, char out[ES_POOL_PATH])
{
    snprintf(out, ES_POOL_PATH, "%s/layer-%lld.npy", folder, (long long)layer);
}

#endif
