/* SPDX-License-Identifier: Apache-2.0 */
/* st_writer.h : safetensors files for tests, well formed and otherwise, and how they are refused.
 */
#ifndef ES_TESTS_ST_WRITER_H
#define ES_TESTS_ST_WRITER_H

#include "folder.h"

#include "checkpoint/safetensors.h"

/* A file of the given header length, header text and `size` bytes of data (NULL: zeros). */
static inline const char *write_st_raw(const char *name, uint64_t length, const void *header,
                                       size_t header_size, const void *data, size_t size)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> (8 * i) & 255), file);
    assert_int_equal(fwrite(header, 1, header_size, file), header_size);
    for (size_t i = 0; i < size; i++)
        fputc(data ? ((const unsigned char *)data)[i] : 0, file);
    assert_int_equal(fclose(file), 0);
    return path_of_file;
}

static inline const char *write_st(const char *header, const void *data, size_t size)
{
    return write_st_raw("x.safetensors", strlen(header), header, strlen(header), data, size);
}

/* Opening must fail as said and leave no memory behind; offset -2: any. */
static inline void refuse_with(const char *path, const es_st_opts *given, es_status status,
                               const char *rule, int64_t offset)
{
    es_mem_limit budget = {0};
    es_st_opts opts = given ? *given : (es_st_opts){0};
    es_st *st;
    opts.budget = &budget;
    const es_status got = es_st_open(path, &opts, &st, &err);
    if (got != status || strcmp(err.rule, rule) != 0 || (offset != -2 && err.offset != offset))
        fail_msg("%s %s at %lld (%s), expected %s %s at %lld", es_status_name(got), err.rule,
                 (long long)err.offset, err.message, es_status_name(status), rule,
                 (long long)offset);
    assert_true(strncmp(err.file, path, sizeof err.file - 1) == 0 && err.message[0]);
    assert_null(st);
    assert_int_equal(budget.used, 0);
}

static inline void refuse(const char *path, es_status status, const char *rule, int64_t offset)
{
    refuse_with(path, NULL, status, rule, offset);
}

static inline void refuse_header(const char *header, size_t data, const char *rule)
{
    refuse(write_st(header, NULL, data), ES_E_FORMAT, rule, -2);
}

static inline es_st *open_ok(const char *path)
{
    es_st *st;
    assert_ok(es_st_open(path, NULL, &st, &err));
    return st;
}

#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{\"a\":" ENTRY(dtype, shape, offsets) "}"

#endif
