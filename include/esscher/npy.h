/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h : matrices that come in and go out as NumPy's .npy files.
 *
 * An es_array is a block of numbers we own, read whole from a file; an es_view of it is what the
 * rest of the library works on.
 *
 *     es_array keys;
 *     es_view k;
 *     if (es_npy_load("K.npy", NULL, &keys, &err) == ES_OK) {
 *         es_array_view(&keys, 0, &k, &err);       (n, d), or head 0 of (heads, n, d)
 *         ...
 *         es_array_free(&keys);
 *     }
 *
 * What is read: versions 1.0, 2.0 and 3.0 of the format, C order, f4 and f8 of either byte order,
 * and f2, which becomes f32 without loss; one to four dimensions, any of which may be 0. NumPy has
 * no bfloat16: a caller that stores it as two-byte items names the type (es_npy_raw). What is not
 * read: integers (unless they are known to count something), booleans and complex numbers (which
 * precision they should get is not ours to guess), Fortran order, and Python objects, because
 * reading a pickle runs code out of the file.
 *
 * Nothing in the file is trusted. Its header is parsed by a grammar that knows the three keys of
 * the format; every size it declares is checked against the real size of the file before anything
 * is allocated; an error names the file, the byte and the rule, "npy.header.shape" for example.
 * Rules are stable names, listed beside each function. */
#ifndef ESSCHER_NPY_H
#define ESSCHER_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>
#include <esscher/view.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ES_ARRAY_RANK = 4 }; /* most dimensions an array may have */

/* An array that owns its numbers: native byte order, C order, aligned to 64 bytes. */
typedef struct es_array {
    es_dtype dtype;
    int rank;                     /* 1 .. ES_ARRAY_RANK */
    int64_t shape[ES_ARRAY_RANK]; /* shape[0 .. rank); the rest is 1 */
    void *data;                   /* never NULL after a successful load, even for no elements */
    es_mem_limit *budget;         /* the memory is counted here; must outlive the array */
} es_array;

/* What a file holds, found out without reading its numbers. */
typedef struct es_npy_info {
    es_dtype dtype; /* what the array has in memory: f32 for f2 and f4, f64 for f8 */
    int rank;
    int64_t shape[ES_ARRAY_RANK];
    int64_t bytes; /* that the array takes in memory */
    char descr[8]; /* dtype as the file spells it, e.g. "<f2" */
} es_npy_info;

/* What items that are no floating-point numbers stand for, where the caller knows. */
typedef enum es_npy_raw {
    ES_NPY_RAW_REFUSED = 0,
    /* <u2, <i2, and the |V2 that ml_dtypes' bfloat16 is saved as are bfloat16: they become f32
     * without loss; descr is "BF16" */
    ES_NPY_RAW_BF16 = 1,
    /* integers, signed or not, of 1, 2, 4 or 8 bytes are numbers of things: they become f64,
     * without loss up to 2^53 */
    ES_NPY_RAW_WHOLE = 2
} es_npy_raw;

/*! es_npy_inspect_as() : shape and dtype of a file, with every check es_npy_load() makes before it
 *  allocates; like es_npy_load_as() it also takes what `raw` says. Costs O(header).
 * Thread-safe.
 *  @return : ES_OK;
 *   ES_E_IO (file.open, file.regular, file.read): missing, unreadable, a directory, a FIFO; opening
 *     never blocks;
 *   ES_E_FORMAT with err->offset: npy.magic, npy.truncated, npy.header.size, npy.header.dict,
 *     npy.header.key, npy.header.duplicate, npy.header.missing, npy.header.descr,
 *     npy.header.fortran_order, npy.header.shape, npy.header.end, npy.shape.overflow,
 *     npy.data.short, npy.data.trailing;
 *   ES_E_UNSUPPORTED: npy.magic.other (an .npz, a pickle, safetensors, ... , named), npy.version,
 *     npy.dtype, npy.pickle, npy.fortran, npy.rank. */
ES_API es_status es_npy_inspect_as(const char *path, es_npy_raw raw, es_npy_info *out,
                                   es_error *err);

/*! es_npy_load() : the whole array, counted against `budget` (may be NULL). On success release it
 *  with es_array_free(); on failure *out is empty and may be freed too. O(bytes). Thread-safe. NaN
 *  and Inf are loaded as they are: the caller decides whether to accept them.
 *  @return : as es_npy_inspect_as(); ES_E_LIMIT over the budget; ES_E_MEMORY; ES_E_IO
 * (file.changed) if the file shrinks while it is read. */
ES_API es_status es_npy_load(const char *path, es_mem_limit *budget, es_array *out, es_error *err);
ES_API es_status es_npy_load_as(const char *path, es_npy_raw raw, es_mem_limit *budget,
                                es_array *out, es_error *err);

/*! es_npy_save() : write `data` (C order, native byte order) as version 1.0. The numbers go to a
 *  temporary file in the same folder, which takes the final name only when all of it is on disk:
 *  after a failure, a full disk or a crash `path` is what it was before. A symbolic link at `path`
 *  is replaced, not followed. `data` may be NULL if some dimension is 0.
 *  @return : ES_OK; ES_E_EXISTS if `path` exists and overwrite is false (nothing is touched);
 *  ES_E_ARGUMENT, ES_E_SHAPE, ES_E_OVERFLOW for a bad dtype, rank or shape; ES_E_IO. */
ES_API es_status es_npy_save(const char *path, es_dtype dtype, int rank, const int64_t *shape,
                             const void *data, bool overwrite, es_error *err);

/*! es_array_free() : give the memory back and empty the array; fine on an empty one. */
ES_API void es_array_free(es_array *array);

/*! es_array_view() : matrix `index` of the array, its last two dimensions; one dimension is one
 *  row. The view is valid until es_array_free().
 *  @return : ES_OK; ES_E_RANGE unless 0 <= index < es_array_slices(); ES_E_ARGUMENT if empty. */
ES_API es_status es_array_view(const es_array *array, int64_t index, es_view *out, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
