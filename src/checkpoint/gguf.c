/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.c : GGUF files: opening them, and the numbers of their tensors. */
#include <stdlib.h>
#include <string.h>

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

/* The header does not say how long it is, so it is read in parts that double, each walked from the
 * beginning: twice the work of one walk, and memory that bytes of the file have paid for. */
static es_status read_header(es_gguf *g, const es_st_opts *opts, es_error *err)
{
    enum { FIRST = 1 << 16 };
    const uint64_t size = g->file.size;
    uint64_t have = 0, want = size < FIRST ? size : FIRST;
    int64_t room = 0;
    while (want) {
        const uint64_t more = want > 2 * have ? want : 2 * have;
        const uint64_t next = more < size ? more : size;
        ES_TRY(ES_MEM_GROW(g->budget, g->bytes, &room, (int64_t)next, "the header of a GGUF", err));
        ES_TRY(es_file_read(&g->file, have, g->bytes + have, (size_t)(next - have), err));
        have = next;
        es_gguf_header_free(&g->header);
        const es_status status =
            es_gguf_parse(g->bytes, (size_t)have, size, g->path, opts, &g->header, &want, err);
        if (!want)
            return status;
    }
    return es_gguf_parse(NULL, 0, 0, g->path, opts, &g->header, &want, err); /* an empty file */
}

static es_status load(es_gguf *g, const char *path, const es_st_opts *opts, es_error *err)
{
    ES_TRY(es_st_host(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, path, err));
    ES_TRY(es_mem_text(g->budget, path, "a file name", &g->path, err));
    ES_TRY(es_file_open(g->path, &g->file, err));
    return read_header(g, opts, err);
}

es_status es_gguf_open(const char *path, const es_st_opts *opts, es_gguf **out, es_error *err)
{
    static const es_st_opts strict = {0};
    const es_st_opts *o = opts ? opts : &strict;
    *out = NULL;
    es_gguf *g;
    ES_TRY(ES_MEM_NEW(o->budget, g, 1, "a GGUF file", err));
    g->budget = o->budget;
    g->file.fd = -1;
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
    es_file_close(&g->file);
    es_gguf_header_free(&g->header);
    es_mem_free(g->budget, g->bytes);
    es_mem_free(g->budget, g->heads);
    es_mem_free(g->budget, g->path);
    es_mem_free(g->budget, g);
}

/* ---- reading ---- */

/* Fails unless the tensor's type can be decoded into f32 or f64. */
static es_status check_kind(const es_gguf *g, const es_st_tensor *t, es_dtype dtype, es_error *err)
{
    const es_gguf_kind *kind = es_gguf_kind_of(t->dtype);
    if (!es_dtype_size(dtype))
        return es_fail(err, ES_E_ARGUMENT, "gguf.kind", "use ES_F32 or ES_F64", "unknown dtype %d",
                       (int)dtype);
    if (kind && kind->read)
        return ES_OK;
    char hint[ES_GGUF_HINT];
    return es_fail_file(err, ES_E_UNSUPPORTED, g->path, (int64_t)t->offset, "gguf.kind",
                        es_gguf_kinds_hint(hint),
                        "tensor '%.100s' has type %s, which is not supported", t->name, t->dtype);
}

/* `count` numbers from number `from` of a tensor, a piece at a time through the stack, to number
 * `to` of the result. All three are multiples of the block. */
static es_status read_run(const es_gguf *g, const es_st_tensor *t, int64_t from, int64_t count,
                          int64_t to, es_dtype dtype, void *out, es_st_seen *seen, es_error *err)
{
    enum { PIECE = 4096 };
    const es_gguf_kind *kind = es_gguf_kind_of(t->dtype);
    unsigned char raw[4 * PIECE]; /* no kind that is read has more than 4 bytes a number */
    for (int64_t i = 0; i < count; i += PIECE) {
        const int64_t left = count - i, n = left < PIECE ? left : PIECE;
        const int64_t at = (from + i) / kind->block * kind->bytes;
        ES_TRY(es_file_read(&g->file, t->offset + (uint64_t)at, raw,
                            (size_t)(n / kind->block * kind->bytes), err));
        es_gguf_decode(kind, raw, to + i, n, dtype,
                       (char *)out + (size_t)(to + i) * es_dtype_size(dtype), seen);
    }
    return ES_OK;
}

/* Row 2 j + s of a head, in the file, is row s k/2 + j of it for us: s says which of pair j. */
static int64_t place_of_row(int64_t row, int64_t rows, int64_t heads)
{
    const int64_t k = rows / heads, in_head = row % k;
    return row - in_head + in_head % 2 * (k / 2) + in_head / 2;
}

es_status es_gguf_read(const es_gguf *g, const es_st_tensor *tensor, es_dtype dtype, void *out,
                       es_st_seen *seen, es_error *err)
{
    const int64_t heads = g->heads ? g->heads[tensor - g->header.tensors] : 0;
    const int64_t rows = heads ? tensor->shape[0] : 1, cols = tensor->count / rows;
    es_st_seen odd = {.first = -1};
    ES_TRY(check_kind(g, tensor, dtype, err));
    for (int64_t row = 0; row < rows; row++) {
        const int64_t to = heads ? place_of_row(row, rows, heads) : row;
        ES_TRY(read_run(g, tensor, row * cols, cols, to * cols, dtype, out, &odd, err));
    }
    if (seen)
        *seen = odd;
    return ES_OK;
}
