/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h : the hidden states of a text, layer by layer, on disk.
 *
 * A model reads text in blocks of [CLS] + ids + [SEP], each at its own length. What its layers are
 * given, hidden states 0 .. L-1 or, where norms come first, those after their norm, is a sample of
 * the law of real tokens: the pool. A million tokens of a small model are gigabytes, so a pool is a
 * folder:
 *
 *     pool.run            what was asked, what is finished, how attention looked in the blocks
 *     layer-0.npy ...     (tokens, hidden), f16 or f32: the input of layer 0, ...
 *
 * Building it can be killed at any moment; asked for again with the same parameters it goes on
 * where it stopped, and a finished pool is taken as it is. Rows of a block are in the order of its
 * tokens. pool.run knows a checksum of every row, and each row that is read is compared with it: a
 * bit that a disk has turned is an error, never a number.
 *
 *     es_pool_spec spec = {.model = m, .tokenizer = t, .texts = files, .n_texts = 2,
 *                          .tokens = 1000000, .folder = "pool"};
 *     es_pool_build(&spec, &exec, &err);
 *     es_pool_open("pool", &pool, &err);
 *     es_pool_rows(pool, 3, 0, 4096, x, &err);        inputs of layer 3, the first 4096 tokens
 */
#ifndef ES_MODEL_POOL_H
#define ES_MODEL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/model.h>
#include <esscher/status.h>
#include <esscher/tokenizer.h>

#include "text/blocks.h"

/* ---- blocks become a pool ---- */

typedef enum es_pool_store { ES_POOL_F32 = 0, ES_POOL_F16 = 1 } es_pool_store;

typedef struct es_pool_info {
    int64_t tokens, hidden, layers, heads;
    int64_t blocks, length; /* number of blocks; ids of a full block, specials included */
    bool specials;          /* rows of all [CLS] and [SEP] are among the tokens */
    es_pool_store store;
    int64_t repeats;
    bool sparse; /* only some rows are kept */
} es_pool_info;

/* Chooses the rows that a sparse pool stores of a layer: a pure function of its arguments. `about`
 * is the pool, as it will be, and starts (blocks + 1) are the rows where blocks begin. It is asked
 * twice: with rows NULL, for the most there will be, into *count; then for rows (*count), in any
 * order, repeats allowed, and how many it has written. */
typedef es_status (*es_pool_keep_fn)(void *user, const es_pool_info *about, const int64_t *starts,
                                     int64_t layer, int64_t *rows, int64_t *count, es_error *err);

typedef struct es_pool_spec {
    const es_model *model;
    const es_tokenizer *tokenizer;
    const char *const *texts;
    int64_t n_texts;
    const es_text_part *parts; /* (n_parts) a mixture, instead of texts; 0: none */
    int64_t n_parts;
    int64_t tokens;
    int64_t length; /* ids of a block, specials included; 0: as many as the model takes */
    es_blocks_from from;
    bool repeat;
    bool drop_specials; /* leave the rows of [CLS] and [SEP] out of the pool */
    int64_t skip;       /* leave out the first `skip` rows of every block, specials included,
                           and blocks that have no others; 0: none. At most ES_TOKENIZER_SPECIALS */
    es_text_invalid invalid;
    es_pool_store store;
    const char *folder;
    es_text_shuffle shuffle; /* before the model reads it */
    uint64_t seed;           /* of the shuffle */
    /* A sparse pool: the rows that keep() wants of each layer, and no others, so that disk and
     * memory hardly depend on the pool's size. NULL: all. */
    es_pool_keep_fn keep;
    void *keep_user;
} es_pool_spec;

/* Size and cost of a pool. */
typedef struct es_pool_cost {
    int64_t tokens;    /* rows of each layer's file */
    double flops;      /* of the forward pass: es_model_work() */
    double disk_bytes; /* of all layers, and of run_bytes */
    double run_bytes;  /* of pool.run: checksums, attention statistics, which rows are kept */
    double held_bytes; /* of memory while the pool is open: a checksum for each row of each layer;
                          of a sparse pool also its number, and the ids of the text */
    size_t bytes;      /* upper bound on memory at one time, the model's weights not counted */
    es_text_used parts[ES_TEXT_PARTS]; /* of a mixture: what each part has in it */
    es_text_facts text;
} es_pool_cost;

/*! es_pool_cost_of() : tokenizes the text and returns its cost. @return : as es_blocks_read(). */
es_status es_pool_cost_of(const es_pool_spec *spec, const es_exec *exec, es_pool_cost *out,
                          es_error *err);

/*! es_pool_build() : make the pool, or what is missing of it. The folder is created if its parent
 *  exists. Progress counts batches of ES_POOL_BATCH blocks, and parts of them. Rows have the same
 *  bits for any number of threads. One process at a time builds a pool, or the ranks of
 *  exec->executor together, which must all see the folder: else ES_E_IO (pool.shared).
 *  @return : ES_OK; as es_blocks_read() and es_model_forward(); ES_E_ARGUMENT (run.parameters) if
 *  the folder holds a pool of something else, with the difference; ES_E_UNSUPPORTED (pool.version)
 *  if it holds one of another version; ES_E_FORMAT (pool.damaged) if files of what was finished are
 *  gone; ES_E_ARGUMENT (pool.precision) for an f64 model; ES_E_IO; ES_E_INTERRUPTED. */
enum { ES_POOL_BATCH = 32 };
es_status es_pool_build(const es_pool_spec *spec, const es_exec *exec, es_error *err);

/* ---- reading it ---- */

typedef struct es_pool es_pool;

/*! es_pool_open() : a finished pool. @return : ES_OK; as es_run_open() and es_npy_inspect();
 *  ES_E_EMPTY (pool.unfinished); ES_E_UNSUPPORTED (pool.version) for a pool of another version;
 *  ES_E_FORMAT (pool.shape) for files that do not fit together. Takes 8 bytes of memory for each
 *  row of each layer. */
es_status es_pool_open(const char *folder, es_pool **out, es_error *err);
void es_pool_close(es_pool *pool); /* NULL is fine */
es_pool_info es_pool_about(const es_pool *pool);

/*! es_pool_stream() : for walks through a sparse pool: the model and the text it was made of, which
 *  is read again. spec->model must outlive the pool. Takes 4 to 8 bytes for each token of the text.
 *  @return : as es_blocks_read(); ES_E_ARGUMENT (pool.stream) for another text, or
 *  a model of other weights. */
es_status es_pool_stream(es_pool *pool, const es_pool_spec *spec, es_error *err);

/*! es_pool_rows() : rows [first, first + count) of a layer's input into out (count, hidden).
 *  Thread-safe. @return : ES_OK; ES_E_RANGE; ES_E_IO; ES_E_MEMORY; ES_E_FORMAT (pool.checksum) with
 *  the byte where it begins if a row is not as it was written; ES_E_RANGE (pool.dropped) for a row
 *  that a sparse pool does not hold. */
es_status es_pool_rows(const es_pool *pool, int64_t layer, int64_t first, int64_t count, float *out,
                       es_error *err);

/*! es_pool_gather() : the rows with these numbers, in this order, repeats allowed. Thread-safe.
 *  @return : as es_pool_rows(). */
es_status es_pool_gather(const es_pool *pool, int64_t layer, const int64_t *rows, int64_t count,
                         float *out, es_error *err);

/* All rows [first, last) of `layers` layers from `layer` on. */
typedef struct es_pool_range {
    int64_t layer, layers, first, last;
    int64_t strip; /* rows that are shown at a time */
} es_pool_range;

/* Rows [first, first + count) of a layer's input, x (count, hidden), valid during the call. */
typedef es_status (*es_pool_visit)(void *user, int64_t layer, int64_t first, int64_t count,
                                   const float *x, es_error *err);

/*! es_pool_walk() : show rows strip by strip, those of a layer in their order; the last strip may
 *  be shorter. A sparse pool has them no more: the model reads the text again (es_pool_stream()),
 *  as far as the last of these layers, and shows the bits that a full pool would have stored. Takes
 *  memory for a strip, and then for a strip of every layer and ES_POOL_BATCH blocks. Progress
 *  counts rows. @return : ES_OK; what `visit` returns; as es_pool_rows(), es_model_forward().
 */
es_status es_pool_walk(const es_pool *pool, const es_pool_range *range, const es_exec *exec,
                       es_pool_visit visit, void *user, es_error *err);

/*! es_pool_walk_bytes() : memory that it takes beside the pool, for a pool of such a model, in
 *  blocks of `length` ids. */
double es_pool_walk_bytes(const es_model_config *config, int64_t length, const es_pool_range *range,
                          bool sparse, int threads);

/*! es_pool_block() : the rows of block 0 <= block < blocks, in the order of the text.
 *  @return : ES_OK; ES_E_RANGE. */
es_status es_pool_block(const es_pool *pool, int64_t block, int64_t *first, int64_t *count,
                        es_error *err);

/* How a head's attention looked in the text's own blocks: means over all queries, [CLS] and [SEP]
 * among them even where their rows were dropped, and standard errors from their scatter between
 * blocks (NaN of a single one). */
typedef struct es_pool_context {
    double entropy, entropy_se; /* nats */
    double top_weight, top_weight_se;
    double sum_squares, sum_squares_se; /* sum w^2 */
    double ess, ess_se;                 /* effective number of keys, 1/sum w^2 */
} es_pool_context;

/*! es_pool_context_of() : of head `head` of layer `layer`. @return : ES_OK; ES_E_RANGE. */
es_status es_pool_context_of(const es_pool *pool, int64_t layer, int64_t head, es_pool_context *out,
                             es_error *err);

#endif
