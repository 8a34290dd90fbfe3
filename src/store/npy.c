/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c : reads and writes .npy files as arrays of f32 or f64. */
#include <esscher/npy.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "store/file.h"
#include "store/npy.h"
#include "store/npy_header.h"

/* ---- reading ---- */

/* Reads and checks the header of an open file. */
static es_status read_layout(const es_file *file, es_npy_raw raw, es_npy_layout *out, es_error *err)
{
    unsigned char prefix[ES_NPY_PREFIX];
    const size_t have = file->size < sizeof prefix ? (size_t)file->size : sizeof prefix;
    size_t extent;
    unsigned char *header;
    ES_TRY(es_file_read(file, 0, prefix, have, err));
    ES_TRY(es_npy_extent(prefix, have, file->size, file->path, &extent, err));
    ES_TRY(ES_MEM_BYTES(NULL, header, extent, "the header of an .npy file", err));
    es_status status = es_file_read(file, 0, header, extent, err);
    if (status == ES_OK && memcmp(header, prefix, have < extent ? have : extent) != 0)
        status = es_fail_file(err, ES_E_IO, file->path, 0, "file.changed",
                              "wait until no other program writes to it",
                              "the file changed while it was read");
    if (status == ES_OK)
        status = es_npy_parse(header, extent, file->size, file->path, raw, out, err);
    es_mem_free(NULL, header);
    return status;
}

/* f4 and f8 are read in place and their bytes turned there if need be; f2 and integers become
 * something else, so they pass through a small buffer. */
static es_status read_numbers(const es_file *file, const es_npy_layout *layout, void *out,
                              es_error *err)
{
    if (layout->item != 2 && !layout->whole) {
        const size_t size = (size_t)layout->info.bytes;
        ES_TRY(es_file_read(file, layout->data_offset, out, size, err));
        if (layout->swap)
            es_npy_decode(layout, out, (size_t)layout->count, out);
        return ES_OK;
    }
    enum { NUMBERS = 1024 };
    const size_t item = layout->item, size = es_dtype_size(layout->info.dtype);
    unsigned char buffer[8 * NUMBERS];
    for (int64_t i = 0; i < layout->count; i += NUMBERS) {
        const int64_t left = layout->count - i;
        const size_t count = left < NUMBERS ? (size_t)left : NUMBERS;
        ES_TRY(es_file_read(file, layout->data_offset + item * (uint64_t)i, buffer, item * count,
                            err));
        es_npy_decode(layout, buffer, count, (char *)out + size * (size_t)i);
    }
    return ES_OK;
}

es_status es_npy_inspect(const char *path, es_npy_info *out, es_error *err)
{
    return es_npy_inspect_as(path, ES_NPY_RAW_REFUSED, out, err);
}

es_status es_npy_inspect_as(const char *path, es_npy_raw raw, es_npy_info *out, es_error *err)
{
    es_file file;
    es_npy_layout layout;
    *out = (es_npy_info){0};
    ES_TRY(es_file_open(path, &file, err));
    const es_status status = read_layout(&file, raw, &layout, err);
    es_file_close(&file);
    if (status == ES_OK)
        *out = layout.info;
    return status;
}

es_status es_npy_load(const char *path, es_mem_limit *budget, es_array *out, es_error *err)
{
    return es_npy_load_as(path, ES_NPY_RAW_REFUSED, budget, out, err);
}

es_status es_npy_load_as(const char *path, es_npy_raw raw, es_mem_limit *budget, es_array *out,
                         es_error *err)
{
    es_file file;
    es_npy_layout layout;
    *out = (es_array){.budget = budget};
    ES_TRY(es_file_open(path, &file, err));
    es_status status = read_layout(&file, raw, &layout, err);
    if (status == ES_OK)
        status = ES_MEM_BYTES(budget, out->data, (size_t)layout.info.bytes, path, err);
    if (status == ES_OK)
        status = read_numbers(&file, &layout, out->data, err);
    es_file_close(&file);
    if (status != ES_OK) {
        es_array_free(out);
        return status;
    }
    out->dtype = layout.info.dtype;
    out->rank = layout.info.rank;
    memcpy(out->shape, layout.info.shape, sizeof out->shape);
    return ES_OK;
}

/* ---- writing ---- */

/* Checks type, shape and size before anything is written. */
static es_status check_to_save(es_dtype dtype, int rank, const int64_t *shape, const void *data,
                               int64_t *bytes, es_error *err)
{
    if (!es_dtype_size(dtype))
        return es_fail(err, ES_E_ARGUMENT, "npy.dtype", "use ES_F32 or ES_F64", "unknown dtype %d",
                       (int)dtype);
    if (rank < 1 || rank > ES_ARRAY_RANK || !shape)
        return es_fail(err, ES_E_ARGUMENT, "npy.rank", "use 1 to 4 dimensions",
                       "an array of %d dimensions", rank);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0 || shape[i] > ES_MAX_ROWS)
            return es_fail(err, ES_E_SHAPE, "npy.shape", "dimensions go from 0 to 2^40",
                           "dimension %d is %lld", i, (long long)shape[i]);
    }
    if (!es_npy_bytes(dtype, rank, shape, bytes))
        return es_fail(err, ES_E_OVERFLOW, "npy.shape.overflow", "save less at a time",
                       "the size of the array overflows");
    if (*bytes && !data)
        return es_fail(err, ES_E_ARGUMENT, "npy.data", "pass the numbers", "no data to save");
    return ES_OK;
}

es_status es_npy_save(const char *path, es_dtype dtype, int rank, const int64_t *shape,
                      const void *data, bool overwrite, es_error *err)
{
    char header[ES_NPY_WRITTEN_MOST];
    int64_t bytes = 0;
    es_draft draft;
    ES_TRY(check_to_save(dtype, rank, shape, data, &bytes, err));
    ES_TRY(es_draft_open(path, overwrite, &draft, err));
    es_status status = es_draft_write(
        &draft, header, es_npy_header_write(es_dtype_size(dtype), rank, shape, header), err);
    if (status == ES_OK)
        status = es_draft_write(&draft, data, (size_t)bytes, err);
    if (status == ES_OK)
        return es_draft_publish(&draft, err);
    es_draft_discard(&draft);
    return status;
}

/* ---- arrays ---- */

void es_array_free(es_array *array)
{
    es_mem_free(array->budget, array->data);
    *array = (es_array){0};
}

int64_t es_array_slices(const es_array *array)
{
    int64_t slices = 1;
    for (int i = 0; i + 2 < array->rank; i++)
        slices *= array->shape[i];
    return slices;
}

es_status es_array_view(const es_array *array, int64_t index, es_view *out, es_error *err)
{
    *out = (es_view){0};
    if (!array->data || array->rank < 1 || array->rank > ES_ARRAY_RANK)
        return es_fail(err, ES_E_ARGUMENT, "array.empty", "load it first", "the array is empty");
    const int64_t slices = es_array_slices(array);
    if (index < 0 || index >= slices)
        return es_fail(err, ES_E_RANGE, "array.index", "count from 0",
                       "matrix %lld of an array of %lld", (long long)index, (long long)slices);
    const int64_t rows = array->rank == 1 ? 1 : array->shape[array->rank - 2];
    const int64_t cols = array->shape[array->rank - 1];
    const int64_t size = (int64_t)es_dtype_size(array->dtype);
    *out = (es_view){.data = (char *)array->data + index * rows * cols * size,
                     .dtype = array->dtype,
                     .rows = rows,
                     .cols = cols,
                     .row_stride = cols * size,
                     .col_stride = size};
    return ES_OK;
}
