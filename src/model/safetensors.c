#include <esscher/safetensors.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/st_file.h"
#include "model/st_header.h"

static const es_st_opts strict = {0};

/* ---- opening ---- */

es_status es_st_files_new(int files, es_budget *budget, es_st **out, es_error *err)
{
    void *memory;
    *out = NULL;
    ES_TRY(es_mem_new(budget, sizeof **out, "a safetensors file", &memory, err));
    es_st *st = memory;
    st->budget = budget;
    const es_status status =
        es_mem_array(budget, files, 1, sizeof *st->files, "a list of files", &memory, err);
    if (status != ES_OK) {
        es_st_close(st);
        return status;
    }
    st->files = memory;
    for (int i = 0; i < files; i++)
        st->files[st->n_files++].file.fd = -1;
    *out = st;
    return ES_OK;
}

static es_status read_header(es_st_one *one, const es_st_opts *opts, es_error *err)
{
    unsigned char prefix[ES_ST_PREFIX] = {0};
    const es_file *file = &one->file;
    const size_t have = file->size < sizeof prefix ? (size_t)file->size : sizeof prefix;
    uint64_t extent;
    void *memory;
    ES_TRY(es_file_read(file, 0, prefix, have, err));
    ES_TRY(es_st_extent(prefix, have, file->size, file->path, opts, &extent, err));
    if (extent > SIZE_MAX)
        return es_fail_file(err, ES_E_LIMIT, file->path, 0, "safetensors.header.limit",
                            "use a 64-bit machine", "the header does not fit memory");
    ES_TRY(
        es_mem_new(opts->budget, (size_t)extent, "the header of a safetensors file", &memory, err));
    one->header = memory;
    one->header_end = (size_t)extent;
    ES_TRY(es_file_read(file, 0, one->header, one->header_end, err));
    if (memcmp(one->header, prefix, 8) != 0)
        return es_fail_file(err, ES_E_IO, file->path, 0, "file.changed",
                            "wait until nobody writes to it", "the file changed under our eyes");
    return ES_OK;
}

/* What stands under the name but is no file one may read, a folder, a FIFO, links in a circle, is a
 * wrong input like one with wrong contents; anything else, that it is not there for one, is a
 * failure to read. */
static es_status open_file(const char *path, es_file *out, es_error *err)
{
    struct stat st;
    const es_status status = es_file_open(path, out, err);
    if (status != ES_E_IO)
        return status;
    const bool found = stat(path, &st) == 0;
    if (found ? S_ISREG(st.st_mode) && access(path, R_OK) == 0 : errno != ELOOP)
        return status;
    if (err)
        err->code = ES_E_FORMAT;
    return ES_E_FORMAT;
}

es_status es_st_file_load(es_st *st, int index, const char *path, const es_st_opts *opts,
                          es_st_tensor **tensors, int64_t *count, es_error *err)
{
    es_st_one *one = &st->files[index];
    const size_t size = strlen(path) + 1;
    void *name;
    ES_TRY(es_st_host(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, path, err));
    ES_TRY(es_mem_new(st->budget, size, "a file name", &name, err));
    one->path = memcpy(name, path, size);
    ES_TRY(open_file(one->path, &one->file, err));
    ES_TRY(read_header(one, opts, err));
    ES_TRY(es_st_parse(one->header, one->header_end, one->file.size, one->path, opts, tensors,
                       count, err));
    for (int64_t i = 0; i < *count; i++)
        (*tensors)[i].file = index;
    return ES_OK;
}

es_status es_st_open(const char *path, const es_st_opts *opts, es_st **out, es_error *err)
{
    const es_st_opts *o = opts ? opts : &strict;
    es_st *st;
    *out = NULL;
    if (!path)
        return es_fail(err, ES_E_ARGUMENT, "file.path", "pass a file name", "no file name");
    ES_TRY(es_st_files_new(1, o->budget, &st, err));
    const es_status status = es_st_file_load(st, 0, path, o, &st->tensors, &st->count, err);
    if (status != ES_OK)
        es_st_close(st);
    else
        *out = st;
    return status;
}

void es_st_close(es_st *st)
{
    if (!st)
        return;
    for (int i = 0; i < st->n_files; i++) {
        es_file_close(&st->files[i].file);
        es_mem_free(st->budget, st->files[i].header);
        es_mem_free(st->budget, st->files[i].path);
    }
    es_mem_free(st->budget, st->files);
    es_mem_free(st->budget, st->tensors);
    es_mem_free(st->budget, st);
}

/* ---- what is there ---- */

int64_t es_st_count(const es_st *st) { return st->count; }

const es_st_tensor *es_st_at(const es_st *st, int64_t index)
{
    return index >= 0 && index < st->count ? &st->tensors[index] : NULL;
}

const char *es_st_file(const es_st *st, const es_st_tensor *tensor)
{
    return st->files[tensor->file].path;
}

static int name_against(const void *name, const void *tensor)
{
    return strcmp(name, ((const es_st_tensor *)tensor)->name);
}

const es_st_tensor *es_st_find(const es_st *st, const char *name)
{
    return bsearch(name, st->tensors, (size_t)st->count, sizeof *st->tensors, name_against);
}

/* ---- reading ---- */

static es_status check_readable(const es_st *st, const es_st_tensor *t, es_dtype dtype,
                                es_error *err)
{
    const es_st_kind *kind = es_st_kind_of(t->dtype);
    if (!es_dtype_size(dtype))
        return es_fail(err, ES_E_ARGUMENT, "safetensors.dtype", "use ES_F32 or ES_F64",
                       "unknown dtype %d", (int)dtype);
    if (kind && !kind->what && (kind->bits < 64 || dtype == ES_F64))
        return ES_OK;
    return es_fail_file(err, ES_E_UNSUPPORTED, es_st_file(st, t), (int64_t)t->offset,
                        "safetensors.dtype",
                        kind && !kind->what ? "ask for f64" : "save it as F32, F16 or BF16",
                        "tensor '%.100s' has dtype %s (%s), which is not read%s", t->name, t->dtype,
                        !kind        ? "unknown here"
                        : kind->what ? kind->what
                                     : "64-bit floats",
                        kind && !kind->what ? " as f32, because it would lose digits" : "");
}

es_status es_st_read(const es_st *st, const es_st_tensor *tensor, es_dtype dtype, void *out,
                     es_st_seen *seen, es_error *err)
{
    enum { PIECE = 4096 };
    unsigned char raw[8 * PIECE];
    es_st_seen odd = {.first = -1};
    ES_TRY(check_readable(st, tensor, dtype, err));
    const size_t item = (size_t)es_st_kind_of(tensor->dtype)->bits / 8;
    for (int64_t i = 0; i < tensor->count; i += PIECE) {
        const int64_t left = tensor->count - i, count = left < PIECE ? left : PIECE;
        ES_TRY(es_file_read(&st->files[tensor->file].file, tensor->offset + (uint64_t)i * item, raw,
                            (size_t)count * item, err));
        es_st_decode(tensor->dtype, raw, i, count, dtype,
                     (char *)out + (size_t)i * es_dtype_size(dtype), &odd);
    }
    if (seen)
        *seen = odd;
    return ES_OK;
}

/* ---- as arrays ---- */

es_status es_st_inspect(const es_st *st, const es_st_tensor *tensor, es_npy_info *info,
                        es_error *err)
{
    *info = (es_npy_info){.dtype = strcmp(tensor->dtype, "F64") == 0 ? ES_F64 : ES_F32,
                          .rank = tensor->rank};
    ES_TRY(check_readable(st, tensor, info->dtype, err));
    if (tensor->rank < 1 || tensor->rank > ES_ARRAY_RANK)
        return es_fail_file(err, ES_E_UNSUPPORTED, es_st_file(st, tensor), -1, "safetensors.array",
                            "save it with one to four", "the tensor has %d dimensions",
                            tensor->rank);
    for (int i = 0; i < ES_ARRAY_RANK; i++)
        info->shape[i] = tensor->shape[i];
    /* fits: the file has these numbers, and none takes four times its bytes */
    info->bytes = tensor->count * (int64_t)es_dtype_size(info->dtype);
    snprintf(info->descr, sizeof info->descr, "%.7s", tensor->dtype);
    return ES_OK;
}

es_status es_st_load(const es_st *st, const es_st_tensor *tensor, es_budget *budget, es_array *out,
                     es_error *err)
{
    es_npy_info info;
    *out = (es_array){.budget = budget};
    ES_TRY(es_st_inspect(st, tensor, &info, err));
    ES_TRY(es_mem_new(budget, (size_t)info.bytes, es_st_file(st, tensor), &out->data, err));
    const es_status status = es_st_read(st, tensor, info.dtype, out->data, NULL, err);
    if (status != ES_OK) {
        es_array_free(out);
        return status;
    }
    out->dtype = info.dtype;
    out->rank = info.rank;
    memcpy(out->shape, info.shape, sizeof out->shape);
    return ES_OK;
}
