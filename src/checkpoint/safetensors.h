/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h : tensors in safetensors files, one or sharded over several.
 *
 * A file is eight bytes that say how long its header is, a header in JSON that gives each tensor a
 * name, dtype, shape and range of bytes, and the bytes. Opening reads the header only, so a file
 * larger than memory costs what its names cost; reading brings one tensor, as f32 or f64.
 *
 *     es_st *st;
 *     const es_st_tensor *t;
 *     if (es_st_open("model.safetensors", NULL, &st, &err) == ES_OK) {
 *         t = es_st_find(st, "embeddings.word_embeddings.weight");
 *         float *w = malloc((size_t)t->count * sizeof *w);
 *         es_st_read(st, t, ES_F32, w, NULL, &err);
 *         ...
 *         es_st_close(st);
 *     }
 *
 * The file is believed in nothing. The header must be strict JSON, an object from its first byte;
 * names are unique, also when one is spelt with escapes; ranges are where the shapes say and fill
 * the file without overlap, hole or rest. Sizes are compared with the real size of the file before
 * anything is allocated from them. Data is read with pread(), not mapped: a file that another
 * program cuts short meanwhile is an ES_E_IO, not a SIGBUS.
 *
 * What is read: F32, F16 and BF16 (each is an f32 exactly), as f32 or f64, and F64 as f64. Tensors
 * of other dtypes are listed and their ranges checked; only reading one is an error.
 */
#ifndef ES_CHECKPOINT_SAFETENSORS_H
#define ES_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/npy.h>
#include <esscher/status.h>
#include <esscher/view.h>

enum { ES_ST_RANK = 8 }; /* most dimensions of a tensor */

/* One tensor, as the header describes it. */
typedef struct es_st_tensor {
    const char *name;          /* decoded; may hold any character but NUL: escape before showing */
    char dtype[12];            /* as the file spells it, "F16"; longer ones are cut */
    int rank;                  /* 0 .. ES_ST_RANK */
    int64_t shape[ES_ST_RANK]; /* shape[0 .. rank); the rest is 1 */
    int64_t count;             /* elements: product of the shape, 1 for rank 0 */
    uint64_t offset, bytes;    /* in its file */
    int file;                  /* which shard, 0 when there is one file */
} es_st_tensor;

/* How strict to be. Zero-initialise; every zero means the default. */
typedef struct es_st_opts {
    uint64_t header_most; /* longest header accepted, bytes; 0: 100 million, as the format's own */
    bool allow_trailing;  /* bytes after the last tensor are a remark, not an error */
    es_mem_limit *budget; /* the names are counted here; must outlive the es_st */
} es_st_opts;

/* An open file, or all files of an index. Thread-safe for reading: reads share nothing. */
typedef struct es_st es_st;

/*! es_st_open() : open one file and check its header. O(header log tensors) time; memory at most
 *  five times the header, counted against opts->budget. Release with es_st_close().
 *  @return : ES_OK;
 *   ES_E_IO (file.open, file.read): missing;
 *   ES_E_FORMAT (file.regular, file.open): a directory, a FIFO, links in a circle, a file one may
 * not read; never blocks; ES_E_FORMAT with err->offset: safetensors.short, safetensors.header.size,
 *     safetensors.header.limit (longer than opts->header_most),
 *     safetensors.header.begin, safetensors.json, safetensors.utf8, safetensors.depth,
 *     safetensors.duplicate, safetensors.entry, safetensors.name, safetensors.metadata,
 *     safetensors.offsets, safetensors.range, safetensors.shape.overflow, safetensors.size,
 *     safetensors.overlap, safetensors.hole, safetensors.trailing;
 *   ES_E_UNSUPPORTED: safetensors.other (a pickle, GGUF, a zip, ... , named), safetensors.rank,
 *     safetensors.host (a big-endian machine);
 *   ES_E_LIMIT (memory.limit), ES_E_MEMORY. */
es_status es_st_open(const char *path, const es_st_opts *opts, es_st **out, es_error *err);

/*! es_st_open_index() : open every shard that an index (model.safetensors.index.json) names, as if
 *  they were one file. Shards lie in the folder of the index.
 *  @return : as es_st_open(), with the shard's name; and ES_E_FORMAT: index.json, index.utf8,
 *  index.depth, index.map (no "weight_map"), index.shard (a name with a path in it), index.file (a
 *  shard is not there), index.missing (a listed tensor is not in its shard), index.twice (a tensor
 * in two shards). */
es_status es_st_open_index(const char *path, const es_st_opts *opts, es_st **out, es_error *err);

void es_st_close(es_st *st); /* NULL is fine */

/*! es_st_is_gguf() : returns whether the tensors are those of a GGUF file. */
bool es_st_is_gguf(const es_st *st);

/*! es_st_count(), es_st_at(), es_st_file() : the tensors in order of their names, 0 <= index <
 *  count, and the path of a tensor's file. Valid until es_st_close(). */
int64_t es_st_count(const es_st *st);
const es_st_tensor *es_st_at(const es_st *st, int64_t index);
const char *es_st_file(const es_st *st, const es_st_tensor *tensor);

/*! es_st_find() : the tensor of this name, or NULL. O(log count). */
const es_st_tensor *es_st_find(const es_st *st, const char *name);

/* What was met among the numbers of a tensor. */
typedef struct es_st_seen {
    int64_t nans, infinities; /* elements */
    int64_t subnormals;       /* of the dtype in the file */
    int64_t first;            /* index of the first NaN or Inf, -1 if there is none */
} es_st_seen;

/*! es_st_read() : all numbers of a tensor, C order, into out (count) of `dtype`; *seen (may be
 *  NULL) says what is odd about them. NaN and Inf are read as they are. O(bytes).
 *  @return : ES_OK; ES_E_UNSUPPORTED (safetensors.dtype) for integers, 8-bit and smaller floats,
 *  unknown dtypes, and F64 asked for as f32; ES_E_IO (file.changed) if the file has become shorter.
 */
es_status es_st_read(const es_st *st, const es_st_tensor *tensor, es_dtype dtype, void *out,
                     es_st_seen *seen, es_error *err);

/*! es_st_read_rows() : the same for rows first ... first + rows - 1 of a tensor, which is not
 * empty, into `out` (rows, shape[rank - 1]); a vector is one row, and rows of the second matrix of
 * several follow those of the first. Adds to *seen (may be NULL),
 * whose indices are those of the whole tensor; begin with {.first = -1}. O(bytes read). */
es_status es_st_read_rows(const es_st *st, const es_st_tensor *tensor, int64_t first, int64_t rows,
                          es_dtype dtype, void *out, es_st_seen *seen, es_error *err);

/*! es_st_read_bytes() : bytes first ... first + count - 1 of a tensor as they are, out (count).
 *  O(count). @return : ES_OK; ES_E_UNSUPPORTED (safetensors.dtype) for a GGUF; as es_st_read(). */
es_status es_st_read_bytes(const es_st *st, const es_st_tensor *tensor, int64_t first,
                           int64_t count, void *out, es_error *err);

/*! es_st_inspect() : shape and dtype a tensor has as an array: f64 for F64, else f32; info->descr
 * is the file's dtype. @return : ES_OK; ES_E_UNSUPPORTED (safetensors.dtype, as es_st_read();
 *  safetensors.array unless it has one to four dimensions). */
es_status es_st_inspect(const es_st *st, const es_st_tensor *tensor, es_npy_info *info,
                        es_error *err);

/*! es_st_load() : a tensor as an array, counted against `budget` (may be NULL). On success release
 *  it with es_array_free(); on failure *out is empty. O(bytes). Thread-safe.
 *  @return : as es_st_inspect() and es_st_read(); ES_E_LIMIT, ES_E_MEMORY. */
es_status es_st_load(const es_st *st, const es_st_tensor *tensor, es_mem_limit *budget,
                     es_array *out, es_error *err);

#endif
