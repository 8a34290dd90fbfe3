/* SPDX-License-Identifier: Apache-2.0 */
/* pool_files.h : names of the files in a pool's folder, for writing and reading. */
#ifndef ES_MODEL_POOL_FILES_H
#define ES_MODEL_POOL_FILES_H

#include <stdio.h>

#include <esscher/run.h>

#include "base/memory.h"
#include "model/pool.h"
#include "store/checksum.h"
#include "store/npy_rows.h"

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

/* Returns the checksum of a row as floats, to which halves convert without loss. */
static inline uint64_t es_pool_sum(const float *row, int64_t hidden)
{
    return es_sum(row, (size_t)hidden * sizeof *row);
}

/* A sparse pool has one checksum for each batch and layer, (1, layers), of the rows that are kept:
 * there are few of them, and all are read when it is opened. */

/* The table that says the pool is finished, and what it is; and the one with the blocks' rows. */
#define ES_POOL_TABLE  "pool"
#define ES_POOL_BLOCKS "blocks"

/* What the folder holds and what its numbers mean, as a parameter of the run: a pool of another
 * format can neither be read nor continued. Counted up with every change; before 2 it was not
 * stated. */
#define ES_POOL_FORMAT_KEY "format"
#define ES_POOL_IDS_KEY    "ids"   /* es_pool_text_hash() */
#define ES_POOL_MODEL_KEY  "model" /* es_pool_hash_model() */
#define ES_POOL_FORMAT     "2"

/*! es_pool_check_format() : fails for another version's format. @return : ES_OK; ES_E_UNSUPPORTED
 *  (pool.version). In pool.c. */
es_status es_pool_check_format(const es_run *run, const char *path, es_error *err);

/* ---- pool_text.c ---- */

/* Ids of a full block. */
static inline int64_t es_pool_length(const es_pool_spec *spec)
{
    const int64_t most = es_model_config_of(spec->model)->positions;
    return spec->length && spec->length < most ? spec->length : most;
}

/* The text of a pool, cut into blocks. */
typedef struct es_pool_text {
    es_blocks blocks;
    es_text_used parts[ES_TEXT_PARTS];
    int64_t prefix, suffix; /* rows at either end of a block that are left out */
    int64_t rows;           /* of a layer */
} es_pool_text;

/*! es_pool_text_read() : `counted` as in es_blocks_spec; es_blocks_free(&out->blocks). Of exec,
 * which may be NULL, budget and progress are used. es_pool_text_starts() : first rows of blocks,
 * (blocks + 1); es_mem_free(). */
es_status es_pool_text_read(const es_pool_spec *spec, const es_exec *exec, bool counted,
                            es_pool_text *out, es_error *err);
es_status es_pool_text_starts(const es_pool_text *text, es_mem_limit *budget, int64_t **out,
                              es_error *err);

/*! es_pool_has_specials() : returns whether rows of all special tokens are in the pool. */
static inline bool es_pool_has_specials(const es_pool_spec *spec)
{
    return !spec->drop_specials && !spec->skip;
}

/*! es_pool_text_hash() : of the ids, as pool.run states it. */
uint64_t es_pool_text_hash(const es_pool_text *text);

/* First row of a block in a layer. */
static inline int64_t es_pool_text_row(const es_pool_text *text, int64_t block)
{
    return text->blocks.start[block] - block * (text->prefix + text->suffix);
}

/* A batch is what is written at a time: large enough for all threads, small enough to be lost in a
 * crash. */
static inline int64_t es_pool_batches(int64_t blocks)
{
    return (blocks + ES_POOL_BATCH - 1) / ES_POOL_BATCH;
}

/*! es_pool_together() : returns how many blocks of a batch are computed at a time: as many as have
 *  512 MiB of hidden states, `states` of each of `length` tokens, but one, or one for each thread
 *  where blocks are too short to be shared. */
int64_t es_pool_together(const es_model_config *config, int64_t states, int64_t length,
                         int threads);

/* ---- pool_keep.c ---- */

/* Rows of a layer that a sparse pool holds, increasing. */
typedef struct es_pool_kept {
    int64_t *rows;
    int64_t count;
} es_pool_kept;

/*! es_pool_kept_make() : asks spec->keep for the rows of every layer, out (layers), in `arena`.
 *  @return : ES_OK; ES_E_RANGE (pool.keep) for a row that the pool does not have; ES_E_EMPTY
 *  (pool.keep) for a layer without rows; what spec->keep returns. */
es_status es_pool_kept_make(const es_pool_spec *spec, const es_pool_text *text, es_arena *arena,
                            es_pool_kept *out, es_error *err);

/*! es_pool_kept_find() : the place of the first kept row that is `row` or comes after it. */
int64_t es_pool_kept_find(const es_pool_kept *kept, int64_t row);

/*! es_pool_kept_hash() : of all layers. */
uint64_t es_pool_kept_hash(const es_pool_kept *kept, int64_t layers);

/*! es_pool_kept_put(), es_pool_kept_get() : write and read the list of a layer in pool.run. */
es_status es_pool_kept_put(es_run *run, int64_t layer, const es_pool_kept *kept, es_error *err);
es_status es_pool_kept_get(es_run *run, int64_t layer, int64_t tokens, es_arena *arena,
                           es_pool_kept *out, es_error *err);

/* The sums of a batch's kept rows, one after the other, as one. */
static inline uint64_t es_pool_chain(uint64_t before, uint64_t sum)
{
    const uint64_t h = (before ^ sum) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/* ---- pool.c ---- */

struct es_pool {
    es_pool_info info;
    es_arena arena;           /* holds the arrays below */
    int64_t dropped;          /* rows of each block that were left out: queries all the same */
    es_npy_rows *layers;      /* (layers) */
    es_pool_context *context; /* (layers, heads) */
    int64_t *starts;          /* (blocks + 1) rows where blocks begin */
    uint64_t *sums;           /* of rows, layer after layer */
    int64_t *sums_at;         /* (layers) where those of a layer begin */
    es_pool_kept *kept;       /* (layers) of a sparse pool; else NULL */
    uint64_t ids;             /* es_pool_text_hash() of its text */
    uint64_t weights;         /* es_pool_hash_model() of its model */
    /* what es_pool_stream() adds, for walks through a sparse pool */
    const es_model *model; /* NULL: it was not called */
    es_pool_text text;
};

/*! es_pool_check_layer() : fails for a layer that does not exist. ES_E_RANGE (pool.layer). */
es_status es_pool_check_layer(const es_pool *pool, int64_t layer, es_error *err);

/* ---- pool_hash.c ---- */

/*! es_pool_hash_model() : a hash of everything that hidden states depend on; `exec` (may be NULL)
 *  reads a streamed model. @return : ES_OK; as es_slot_new(), es_slot_layer(). */
es_status es_pool_hash_model(const es_model *model, const es_exec *exec, uint64_t *out,
                             es_error *err);

/*! es_pool_hash_texts() : the bytes of the files, in their order, go on with *out, which begins as
 * 0.
 *  @return : ES_OK; ES_E_IO. */
es_status es_pool_hash_texts(const char *const *texts, int64_t count, uint64_t *out, es_error *err);

/* ---- names ---- */

static inline void es_pool_run_path(const char *folder, char out[ES_POOL_PATH])
{
    snprintf(out, ES_POOL_PATH, "%s/pool.run", folder);
}

/* The file by which ranks find out whether they see the same folder. */
#define ES_POOL_NONCE "pool.nonce"

static inline void es_pool_layer_path(const char *folder, int64_t layer, char out[ES_POOL_PATH])
{
    snprintf(out, ES_POOL_PATH, "%s/layer-%lld.npy", folder, (long long)layer);
}

static inline void es_pool_nonce_path(const char *folder, char out[ES_POOL_PATH])
{
    snprintf(out, ES_POOL_PATH, "%s/" ES_POOL_NONCE, folder);
}

#endif
