/* SPDX-License-Identifier: Apache-2.0 */
/* npy_rows.c : a matrix on disk that is written and read row by row (npy_rows.h). */
#include "store/npy_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/system.h"
#include "store/file.h"
#include "store/npy_header.h"

/* Returns the bytes of one number. */
static size_t item_of(const es_npy_rows *file)
{
    return file->half ? sizeof(uint16_t) : sizeof(float);
}

/* Copies the file name, for later errors. */
static es_status copy_path(const char *path, es_npy_rows *out, es_error *err)
{
    return es_mem_text(NULL, path, "a file name", &out->path, err);
}

/* ---- opening ---- */

/* Compares every byte of the header with what was written. Changed padding would mean nothing to
 * NumPy, but shows a disk that should not be trusted. */
static es_status check_header(const unsigned char *header, const es_npy_layout *layout,
                              const char *path, es_error *err)
{
    char ours[ES_NPY_WRITTEN_MOST];
    const size_t size = es_npy_header_write(layout->item, 2, layout->info.shape, ours);
    if (size == layout->data_offset && memcmp(header, ours, size) == 0)
        return ES_OK;
    return es_fail_file(err, ES_E_FORMAT, path, 0, "npy.rows.header", "remove it, or its folder",
                        "its header has changed since it was written");
}

es_status es_npy_rows_open(const char *path, es_npy_rows *out, es_error *err)
{
    unsigned char header[ES_NPY_PREFIX + 4096];
    es_npy_layout layout;
    es_file file;
    size_t extent = 0;
    *out = (es_npy_rows){.fd = -1};
    ES_TRY(es_file_open(path, &file, err));
    const size_t have = file.size < sizeof header ? (size_t)file.size : sizeof header;
    es_status status = es_file_read(&file, 0, header, have, err);
    if (status == ES_OK)
        status = es_npy_extent(header, have, file.size, path, &extent, err);
    if (status == ES_OK && extent > have)
        status = es_fail_file(err, ES_E_UNSUPPORTED, path, 0, "npy.rows", "save it with NumPy",
                              "its header is too long");
    if (status == ES_OK)
        status = es_npy_parse(header, extent, file.size, path, ES_NPY_RAW_REFUSED, &layout, err);
    if (status == ES_OK && (layout.info.rank != 2 || layout.swap || layout.item > sizeof(float)))
        status = es_fail_file(err, ES_E_UNSUPPORTED, path, 0, "npy.rows",
                              "a matrix of f2 or f4, native byte order",
                              "not a matrix that is read row by row");
    if (status == ES_OK)
        status = check_header(header, &layout, path, err);
    if (status == ES_OK)
        status = copy_path(path, out, err);
    if (status != ES_OK) {
        es_file_close(&file);
        return status;
    }
    out->fd = file.fd;
    out->rows = layout.info.shape[0];
    out->cols = layout.info.shape[1];
    out->half = layout.item == sizeof(uint16_t);
    out->offset = layout.data_offset;
    return ES_OK;
}

/* A new file: header, then nothing but space for the rows. */
static es_status make(const char *path, int64_t rows, int64_t cols, bool half, es_error *err)
{
    char header[ES_NPY_WRITTEN_MOST];
    const int64_t shape[2] = {rows, cols};
    const size_t item = half ? sizeof(uint16_t) : sizeof(float);
    const size_t size = es_npy_header_write(item, 2, shape, header);
    int64_t bytes;
    if (!es_npy_bytes(ES_F32, 2, shape, &bytes))
        return es_fail(err, ES_E_OVERFLOW, "npy.shape.overflow", "", "the matrix is too large");
    const off_t whole = (off_t)size + (off_t)bytes / (off_t)sizeof(float) * (off_t)item;
    es_draft draft;
    ES_TRY(es_draft_open(path, false, &draft, err));
    es_status status = es_draft_write(&draft, header, size, err);
    if (status == ES_OK && ftruncate(draft.fd, whole) != 0)
        status = es_file_fail(err, path, "file.write", "free space on the disk", "extend", errno);
    if (status == ES_OK)
        return es_draft_publish(&draft, err);
    es_draft_discard(&draft);
    return status;
}

es_status es_npy_rows_create(const char *path, int64_t rows, int64_t cols, bool half,
                             es_npy_rows *out, es_error *err)
{
    *out = (es_npy_rows){.fd = -1};
    if (access(path, F_OK) != 0)
        ES_TRY(make(path, rows, cols, half, err));
    ES_TRY(es_npy_rows_open(path, out, err));
    es_status status = ES_OK;
    if (out->rows != rows || out->cols != cols || out->half != half)
        status = es_fail_file(err, ES_E_FORMAT, path, 0, "npy.rows", "remove it, or its folder",
                              "the file holds (%lld, %lld) numbers, not (%lld, %lld)",
                              (long long)out->rows, (long long)out->cols, (long long)rows,
                              (long long)cols);
    const int fd = status == ES_OK ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (status == ES_OK && fd < 0)
        status = es_file_fail(err, path, "file.open", "is it write-protected?", "open", errno);
    if (status != ES_OK) {
        es_npy_rows_close(out);
        return status;
    }
    close(out->fd);
    out->fd = fd;
    return ES_OK;
}

/* ---- rows ---- */

/* Fails for rows beyond the matrix. */
static es_status check_range(const es_npy_rows *file, int64_t first, int64_t count, es_error *err)
{
    if (first < 0 || count < 0 || first > file->rows || count > file->rows - first)
        return es_fail_file(err, ES_E_RANGE, file->path, -1, "npy.rows.range", "",
                            "rows %lld and %lld more of %lld", (long long)first, (long long)count,
                            (long long)file->rows);
    return ES_OK;
}

enum { PIECE = 8192 }; /* numbers converted at a time */

/* Reads or writes rows in pieces, converting to and from half precision. */
static es_status transfer(const es_npy_rows *file, int64_t first, int64_t count, float *rows,
                          bool writing, es_error *err)
{
    uint16_t halves[PIECE];
    ES_TRY(check_range(file, first, count, err));
    const int64_t total = count * file->cols; /* fits: the file has more */
    uint64_t at = file->offset + (uint64_t)(first * file->cols) * item_of(file);
    if (!file->half)
        return es_file_move(file->fd, file->path, at, rows, (size_t)total * sizeof(float), writing,
                            err);
    for (int64_t done = 0; done < total; done += PIECE) {
        const int64_t n = total - done < PIECE ? total - done : PIECE;
        for (int64_t i = 0; writing && i < n; i++)
            halves[i] = es_half_from_float(rows[done + i]);
        ES_TRY(es_file_move(file->fd, file->path, at, halves, (size_t)n * sizeof halves[0], writing,
                            err));
        for (int64_t i = 0; !writing && i < n; i++)
            rows[done + i] = es_half_to_float(halves[i]);
        at += (uint64_t)n * sizeof halves[0];
    }
    return ES_OK;
}

es_status es_npy_rows_write(const es_npy_rows *file, int64_t first, int64_t count,
                            const float *rows, es_error *err)
{
    return transfer(file, first, count, (float *)(uintptr_t)rows, true, err);
}

es_status es_npy_rows_read(const es_npy_rows *file, int64_t first, int64_t count, float *rows,
                           es_error *err)
{
    return transfer(file, first, count, rows, false, err);
}

es_status es_npy_rows_sync(const es_npy_rows *file, es_error *err)
{
    return es_system_flush(file->fd) == 0
               ? ES_OK
               : es_file_fail(err, file->path, "file.write", "is the disk full?", "sync", errno);
}

void es_npy_rows_close(es_npy_rows *file)
{
    if (file->fd >= 0)
        close(file->fd);
    es_mem_free(NULL, file->path);
    *file = (es_npy_rows){.fd = -1};
}
