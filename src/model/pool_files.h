/* pool_files.h : what a pool's folder is called inside, shared by those who write and read it. */
#ifndef ES_MODEL_POOL_FILES_H
#define ES_MODEL_POOL_FILES_H

#include <stdio.h>

#include <esscher/pool.h>

/* More than a system allows, so that a name that had to be cut is one it refuses. */
enum { ES_POOL_PATH = 8192 };

/* Cells of the run file: one per batch, a row per block. Columns: `ES_POOL_SEEN` numbers per layer
 * and head, mean over the block's queries. */
#define ES_POOL_STAGE "batch"
enum { ES_POOL_SEEN = 3 }; /* entropy, top weight, sum of squares */

/* The table that says the pool is finished, and what it is; and the one with the blocks' rows. */
#define ES_POOL_TABLE  "pool"
#define ES_POOL_BLOCKS "blocks"

static inline void es_pool_run_path(const char *folder, char out[ES_POOL_PATH])
{
    snprintf(out, ES_POOL_PATH, "%s/pool.run", folder);
}

static inline void es_pool_layer_path(const char *folder, int64_t layer, char out[ES_POOL_PATH])
{
    snprintf(out, ES_POOL_PATH, "%s/layer-%lld.npy", folder, (long long)layer);
}

#endif
