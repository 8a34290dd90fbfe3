/* SPDX-License-Identifier: Apache-2.0 */
/* npy_rows.h : a .npy matrix whose rows are written and read piece by piece, at any place.
 *
 * The file has its final size from the start, so that pieces can arrive in any order and a killed
 * writer can go on. Rows that were never written are zeros: a caller that needs to know which rows
 * were written keeps a record beside the file. */
#ifndef ES_STORE_NPY_ROWS_H
#define ES_STORE_NPY_ROWS_H

#include <esscher/exec.h>
#include <esscher/npy.h>

/* An open .npy file whose rows are read or written in strips. */
typedef struct es_npy_rows {
    int fd; /* -1: not open */
    int64_t rows, cols;
    bool half; /* numbers are f16 in the file and f32 for callers */
    uint64_t offset;
    char *path; /* for messages; owned */
} es_npy_rows;

/*! es_npy_rows_create() : open `path` for writing; make it, if it is not there, with space for all
 *  rows. @return : ES_OK; ES_E_FORMAT (npy.rows) if it is there with another shape; ES_E_IO. */
es_status es_npy_rows_create(const char *path, int64_t rows, int64_t cols, bool half,
                             es_npy_rows *out, es_error *err);

/*! es_npy_rows_open() : an f2 or f4 matrix that es_npy_rows_create() made, for reading.
 *  @return : as es_npy_inspect(); ES_E_UNSUPPORTED (npy.rows) for another kind; ES_E_FORMAT
 *  (npy.rows.header) if a byte of its header is not as it was written. */
es_status es_npy_rows_open(const char *path, es_npy_rows *out, es_error *err);

/*! es_npy_rows_write(), es_npy_rows_read() : rows [first, first + count) from or to
 *  (count, cols) floats. Different rows may be written and read by several threads. Conversion
 *  happens in pieces on the stack. @return : ES_OK; ES_E_RANGE; ES_E_IO. */
es_status es_npy_rows_write(const es_npy_rows *file, int64_t first, int64_t count,
                            const float *rows, es_error *err);
es_status es_npy_rows_read(const es_npy_rows *file, int64_t first, int64_t count, float *rows,
                           es_error *err);

/*! es_npy_rows_sync() : waits until everything that was written is on disk. */
es_status es_npy_rows_sync(const es_npy_rows *file, es_error *err);

void es_npy_rows_close(es_npy_rows *file); /* fine if it is not open */

#endif
