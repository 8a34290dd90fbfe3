/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_writer.h : GGUF files for tests, well formed and otherwise. */
#ifndef ES_TESTS_GGUF_WRITER_H
#define ES_TESTS_GGUF_WRITER_H

#include "folder.h"

#include "checkpoint/gguf_inside.h"

/* A file being written. Nothing is added up for the writer: counts and offsets are as said. */
typedef struct gguf_draft {
    unsigned char bytes[1 << 16];
    size_t size;
} gguf_draft;

static inline void put_bytes(gguf_draft *g, const void *bytes, size_t size)
{
    assert_at_most(size, sizeof g->bytes - g->size);
    memcpy(g->bytes + g->size, bytes, size);
    g->size += size;
}

static inline void put_number(gguf_draft *g, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)(value >> (8 * i));
        put_bytes(g, &byte, 1);
    }
}

static inline void put_text(gguf_draft *g, const char *text)
{
    put_number(g, strlen(text), 8);
    put_bytes(g, text, strlen(text));
}

static inline void put_begin(gguf_draft *g, uint32_t version, uint64_t tensors, uint64_t values)
{
    g->size = 0;
    put_bytes(g, "GGUF", 4);
    put_number(g, version, 4);
    put_number(g, tensors, 8);
    put_number(g, values, 8);
}

static inline void put_key(gguf_draft *g, const char *key, uint32_t type)
{
    put_text(g, key);
    put_number(g, type, 4);
}

static inline void put_u32(gguf_draft *g, const char *key, uint32_t value)
{
    put_key(g, key, ES_GGUF_U32);
    put_number(g, value, 4);
}

static inline void put_f32(gguf_draft *g, const char *key, float value)
{
    put_key(g, key, ES_GGUF_F32);
    put_bytes(g, &value, sizeof value);
}

static inline void put_flag(gguf_draft *g, const char *key, bool value)
{
    put_key(g, key, ES_GGUF_BOOL);
    put_number(g, value, 1);
}

static inline void put_string(gguf_draft *g, const char *key, const char *value)
{
    put_key(g, key, ES_GGUF_STRING);
    put_text(g, value);
}

static inline void put_array(gguf_draft *g, const char *key, uint32_t item, uint64_t count)
{
    put_key(g, key, ES_GGUF_ARRAY);
    put_number(g, item, 4);
    put_number(g, count, 8);
}

static inline void put_strings(gguf_draft *g, const char *key, const char *const *texts,
                               size_t count)
{
    put_array(g, key, ES_GGUF_STRING, count);
    for (size_t i = 0; i < count; i++)
        put_text(g, texts[i]);
}

/* A tensor of one or two dimensions, the contiguous one first. */
static inline void put_tensor(gguf_draft *g, const char *name, uint64_t cols, uint64_t rows,
                              uint32_t type, uint64_t offset)
{
    put_text(g, name);
    put_number(g, rows ? 2 : 1, 4);
    put_number(g, cols, 8);
    if (rows)
        put_number(g, rows, 8);
    put_number(g, type, 4);
    put_number(g, offset, 8);
}

static inline void put_padding(gguf_draft *g, size_t alignment)
{
    while (g->size % alignment)
        put_number(g, 0, 1);
}

static inline const char *save_gguf(const gguf_draft *g)
{
    return write_file("x.gguf", g->bytes, g->size);
}

/* Opening must fail as said, name the file, and leave no memory behind; offset -2: any. */
static inline void refuse_gguf_with(const gguf_draft *g, const es_st_opts *given, es_status status,
                                    const char *rule, int64_t offset)
{
    es_mem_limit budget = {0};
    es_st_opts opts = given ? *given : (es_st_opts){0};
    es_gguf *file;
    opts.budget = &budget;
    const es_status got = es_gguf_open(save_gguf(g), &opts, &file, &err);
    if (got != status || strcmp(err.rule, rule) != 0 || (offset != -2 && err.offset != offset))
        fail_msg("%s %s at %lld (%s), expected %s %s at %lld", es_status_name(got), err.rule,
                 (long long)err.offset, err.message, es_status_name(status), rule,
                 (long long)offset);
    assert_true(err.file[0] && err.message[0] && err.hint[0]);
    assert_null(file);
    assert_int_equal(budget.used, 0);
}

static inline void refuse_gguf(const gguf_draft *g, es_status status, const char *rule,
                               int64_t offset)
{
    refuse_gguf_with(g, NULL, status, rule, offset);
}

static inline es_gguf *open_gguf(const gguf_draft *g)
{
    es_gguf *file;
    assert_ok(es_gguf_open(save_gguf(g), NULL, &file, &err));
    return file;
}

#endif
