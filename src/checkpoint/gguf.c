/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.c : GGUF files: opening them, and the numbers of their tensors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/gguf_inside.h"
#include "checkpoint/safetensors_inside.h"

/* ---- opening ---- */

bool es_gguf_is(const char *path)
{
    es_file file;
    char magic[4];
    if (!path || es_file_open(path, &file, NULL) != ES_OK)
        return false;
    const size_t length = strlen(path);
    const bool called = length > 5 && strcmp(path + length - 5, ".gguf") == 0;
    const bool is = called || (file.size >= sizeof magic &&
                               es_file_read(&file, 0, magic, sizeof magic, NULL) == ES_OK &&
                               memcmp(magic, "GGUF", sizeof magic) == 0);
    es_file_close(&file);
    return is;
}

/* Reads the header of a part. It does not say how long it is, so it is read in pieces that double,
 * each parsed from the beginning: twice the work, and never more memory than the file has bytes. */
static es_status read_header(es_gguf_part *part, const es_st_opts *opts, es_error *err)
{
    enum { FIRST = 1 << 16 };
    const uint64_t size = part->file.size;
    uint64_t have = 0, want = size < FIRST ? size : FIRST;
    int64_t capacity = 0;
    while (want) {
        const uint64_t more = want > 2 * have ? want : 2 * have;
        const uint64_t next = more < size ? more : size;
        ES_TRY(ES_MEM_GROW(opts->budget, part->bytes, &capacity, (int64_t)next,
                           "the header of a GGUF", err));
        ES_TRY(es_file_read(&part->file, have, part->bytes + have, (size_t)(next - have), err));
        have = next;
        es_gguf_header_free(&part->header);
        const es_status status = es_gguf_parse(part->bytes, (size_t)have, size, part->path, opts,
                                               &part->header, &want, err);
        if (!want)
            return status;
    }
    /* an empty file */
    return es_gguf_parse(NULL, 0, 0, part->path, opts, &part->header, &want, err);
}

/* Opens one file as part of a model. */
static es_status open_part(es_gguf_part *part, const char *path, const es_st_opts *opts,
                           es_error *err)
{
    ES_TRY(es_mem_text(opts->budget, path, "a file name", &part->path, err));
    ES_TRY(es_file_open(part->path, &part->file, err));
    return read_header(part, opts, err);
}

/* Opens part `number` of a split model beside the first, and checks that it is that part. */
static es_status open_other(es_gguf *g, const es_gguf_split *split, int64_t number,
                            const es_st_opts *opts, es_error *err)
{
    char path[4096];
    es_gguf_split own;
    es_gguf_part *part = &g->parts[number];
    ES_TRY(es_gguf_split_path(g->path, split, number, path, sizeof path, err));
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return es_fail_file(err, ES_E_FORMAT, g->path, -1, "gguf.split",
                            "download that file as well", "missing file '%.250s' of a split model",
                            path);
    ES_TRY(open_part(part, path, opts, err));
    ES_TRY(es_gguf_split_of(&part->header, &own, err));
    if (own.number == number && own.count == split->count)
        return ES_OK;
    return es_fail_file(
        err, ES_E_FORMAT, part->path, -1, "gguf.split", "download all files of the model again",
        "the file is part %lld of %lld, its name says %lld of %lld", (long long)own.number + 1,
        (long long)own.count, (long long)number + 1, (long long)split->count);
}

/* Opens the files of a split model after the first. */
static es_status load_others(es_gguf *g, const es_gguf_split *split, const es_st_opts *opts,
                             es_error *err)
{
    es_gguf_part *parts;
    ES_TRY(ES_MEM_NEW(g->budget, parts, split->count, "the files of a GGUF", err));
    parts[0] = g->parts[0];
    es_mem_free(g->budget, g->parts);
    g->parts = parts;
    for (; g->n_parts < split->count; g->n_parts++)
        parts[g->n_parts].file.fd = -1;
    for (int64_t i = 1; i < split->count; i++)
        ES_TRY(open_other(g, split, i, opts, err));
    return es_gguf_join(g, split->tensors, err);
}

/* Opens the first file, which says how many there are, and then the others. */
static es_status load(es_gguf *g, const char *path, const es_st_opts *opts, es_error *err)
{
    es_gguf_split split;
    ES_TRY(es_st_host(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, path, err));
    ES_TRY(ES_MEM_NEW(g->budget, g->parts, 1, "a GGUF file", err));
    g->parts[g->n_parts++].file.fd = -1;
    ES_TRY(open_part(&g->parts[0], path, opts, err));
    g->path = g->parts[0].path;
    ES_TRY(es_gguf_split_of(&g->parts[0].header, &split, err));
    if (split.count > 1)
        return load_others(g, &split, opts, err);
    g->header = g->parts[0].header;
    g->parts[0].header = (es_gguf_header){0};
    return ES_OK;
}

es_status es_gguf_open(const char *path, const es_st_opts *opts, es_gguf **out, es_error *err)
{
    static const es_st_opts strict = {0};
    const es_st_opts *o = opts ? opts : &strict;
    *out = NULL;
    es_gguf *g;
    ES_TRY(ES_MEM_NEW(o->budget, g, 1, "a GGUF file", err));
    g->budget = o->budget;
    const es_status status = load(g, path, o, err);
    if (status != ES_OK)
        es_gguf_close(g);
    else
        *out = g;
    return status;
}

void es_gguf_close(es_gguf *g)
{
    if (!g)
        return;
    es_gguf_header_free(&g->header);
    for (int64_t i = 0; i < g->n_parts; i++) {
        es_gguf_header_free(&g->parts[i].header);
        es_file_close(&g->parts[i].file);
        es_mem_free(g->budget, g->parts[i].bytes);
        es_mem_free(g->budget, g->parts[i].path);
    }
    es_mem_free(g->budget, g->parts);
    es_mem_free(g->budget, g->layouts);
    es_mem_free(g->budget, g);
}

/* ---- reading ---- */

/* Fails unless the tensor's type can be decoded into f32 or f64. */
static es_status check_type(const es_gguf *g, const es_st_tensor *t, es_dtype dtype, es_error *err)
{
    const es_gguf_type *type = es_gguf_type_of(t->dtype);
    if (!es_dtype_size(dtype))
        return es_fail(err, ES_E_ARGUMENT, "gguf.kind", "use ES_F32 or ES_F64", "unknown dtype %d",
                       (int)dtype);
    if (type && type->decode)
        return ES_OK;
    char hint[ES_GGUF_HINT];
    return es_fail_file(err, ES_E_UNSUPPORTED, g->parts[t->file].path, (int64_t)t->offset,
                        "gguf.kind", es_gguf_types_hint(hint),
                        "tensor '%.100s' has type %s, which is not supported", t->name, t->dtype);
}

/* Where numbers of a tensor are read to. */
typedef struct target {
    es_dtype dtype;
    char *out;
    es_st_seen *seen;
} target;

/* Reads `count` numbers from number `from` of a tensor, a piece at a time through the stack. They
 * become numbers `to` and following of the tensor, and *out begins with number `base`. */
static es_status read_run(const es_gguf *g, const es_st_tensor *t, int64_t from, int64_t count,
                          int64_t to, int64_t base, const target *into, es_error *err)
{
    enum { PIECE = 4096 };
    const es_gguf_type *type = es_gguf_type_of(t->dtype);
    unsigned char raw[4 * PIECE]; /* no type that is read has more than 4 bytes a number */
    for (int64_t i = 0; i < count; i += PIECE) {
        const int64_t left = count - i, n = left < PIECE ? left : PIECE;
        const int64_t at = (from + i) / type->numbers * type->bytes;
        ES_TRY(es_file_read(&g->parts[t->file].file, t->offset + (uint64_t)at, raw,
                            (size_t)(n / type->numbers * type->bytes), err));
        es_gguf_decode(type, raw, to + i, n, into->dtype,
                       into->out + (size_t)(to + i - base) * es_dtype_size(into->dtype),
                       into->seen);
    }
    return ES_OK;
}

/* Returns the row in the file of row s k/2 + j of a head of k rows: 2 j + s, where s says which of
 * pair j it is. */
static int64_t stored_row(int64_t row, int64_t rows, int64_t heads)
{
    const int64_t k = rows / heads, in_head = row % k;
    return row - in_head + in_head % (k / 2) * 2 + in_head / (k / 2);
}

/* Returns the rows of a tensor, of all matrices together; a vector is one row. */
static int64_t rows_of(const es_st_tensor *t)
{
    return t->rank > 1 ? t->count / t->shape[t->rank - 1] : 1;
}

/* Reads numbers base ... base + count - 1 of a tensor whose rows lie in another order in the file,
 * one row at a time. */
static es_status read_moved(const es_gguf *g, const es_st_tensor *t, const es_gguf_layout *l,
                            int64_t base, int64_t count, const target *into, es_error *err)
{
    const int64_t all = t->count / l->row;
    for (int64_t row = base / l->row; row < (base + count) / l->row; row++) {
        const es_st_tensor *from = l->in_turn && row % 2 ? &l->other : t;
        const int64_t stored = l->in_turn ? row / 2 : stored_row(row, all, l->heads);
        ES_TRY(read_run(g, from, stored * l->row, l->row, row * l->row, base, into, err));
    }
    return ES_OK;
}

/* Multiplies `count` numbers by `scale`, in their precision. */
static void scale_numbers(void *x, es_dtype dtype, int64_t count, double scale)
{
    for (int64_t i = 0; i < count; i++)
        if (dtype == ES_F32)
            ((float *)x)[i] *= (float)scale;
        else
            ((double *)x)[i] *= scale;
}

es_status es_gguf_read_rows(const es_gguf *g, const es_st_tensor *tensor, int64_t first,
                            int64_t rows, es_dtype dtype, void *out, es_st_seen *seen,
                            es_error *err)
{
    static const es_gguf_layout plain = {0};
    const es_gguf_layout *l = g->layouts ? &g->layouts[tensor - g->header.tensors] : &plain;
    const int64_t cols = tensor->count / rows_of(tensor), base = first * cols, count = rows * cols;
    const target into = {dtype, out, seen};
    ES_TRY(check_type(g, tensor, dtype, err));
    if (l->in_turn)
        ES_TRY(check_type(g, &l->other, dtype, err));
    if (l->heads || l->in_turn)
        ES_TRY(read_moved(g, tensor, l, base, count, &into, err));
    else
        ES_TRY(read_run(g, tensor, base, count, base, base, &into, err));
    if (l->scale != 0.0)
        scale_numbers(out, dtype, count, l->scale);
    return ES_OK;
}

es_status es_gguf_read(const es_gguf *g, const es_st_tensor *tensor, es_dtype dtype, void *out,
                       es_st_seen *seen, es_error *err)
{
    es_st_seen odd = {.first = -1};
    ES_TRY(es_gguf_read_rows(g, tensor, 0, rows_of(tensor), dtype, out, &odd, err));
    if (seen)
        *seen = odd;
    return ES_OK;
}
