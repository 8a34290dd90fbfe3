/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c : tensors in files, one or the shards that an index names. */
#include "checkpoint/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/gguf_inside.h"
#include "checkpoint/json.h"
#include "checkpoint/safetensors_inside.h"

/* What NULL means wherever options may be left out. */
static const es_st_opts strict = {0};

/* ---- opening ---- */

/* Allocates an object for `files` files, none open, without tensors. es_st_close() accepts it at
 * any stage. */
static es_status files_new(int files, es_mem_limit *budget, es_st **out, es_error *err)
{
    es_st *st;
    *out = NULL;
    ES_TRY(ES_MEM_NEW(budget, st, 1, "a safetensors file", err));
    st->budget = budget;
    const es_status status = ES_MEM_NEW(budget, st->files, files, "a list of files", err);
    if (status != ES_OK) {
        es_st_close(st);
        return status;
    }
    for (int i = 0; i < files; i++)
        st->files[st->n_files++].file.fd = -1;
    *out = st;
    return ES_OK;
}

/* Reads the length of the header first and allocates memory only then: a file of a terabyte
 * costs what its header costs, and a wrong length costs nothing. The length is read twice,
 * which detects a file that is being written. */
static es_status read_header(es_st_one *one, const es_st_opts *opts, es_error *err)
{
    unsigned char prefix[ES_ST_PREFIX] = {0};
    const es_file *file = &one->file;
    const size_t have = file->size < sizeof prefix ? (size_t)file->size : sizeof prefix;
    uint64_t extent;
    ES_TRY(es_file_read(file, 0, prefix, have, err));
    ES_TRY(es_st_extent(prefix, have, file->size, file->path, opts, &extent, err));
    if (extent > SIZE_MAX)
        return es_fail_file(err, ES_E_LIMIT, file->path, 0, "safetensors.header.limit",
                            "use a 64-bit machine", "the header does not fit memory");
    ES_TRY(ES_MEM_BYTES(opts->budget, one->header, (size_t)extent,
                        "the header of a safetensors file", err));
    one->header_end = (size_t)extent;
    ES_TRY(es_file_read(file, 0, one->header, one->header_end, err));
    if (memcmp(one->header, prefix, 8) != 0)
        return es_fail_file(err, ES_E_IO, file->path, 0, "file.changed",
                            "wait until no program writes to it",
                            "the file changed while it was read");
    return ES_OK;
}

/* Opens a file. A folder, a FIFO or a loop of links is wrong input (ES_E_FORMAT), like wrong
 * contents; any other reason, such as a missing file, is a failure to read (ES_E_IO). */
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

/* Opens `path` as file `index` of st and reads its header into *tensors, new memory of the budget.
 */
static es_status load_file(es_st *st, int index, const char *path, const es_st_opts *opts,
                           es_st_tensor **tensors, int64_t *count, es_error *err)
{
    es_st_one *one = &st->files[index];
    ES_TRY(es_st_host(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, path, err));
    ES_TRY(es_mem_text(st->budget, path, "a file name", &one->path, err));
    ES_TRY(open_file(one->path, &one->file, err));
    ES_TRY(read_header(one, opts, err));
    ES_TRY(es_st_parse(one->header, one->header_end, one->file.size, one->path, opts, tensors,
                       count, err));
    for (int64_t i = 0; i < *count; i++)
        (*tensors)[i].file = index;
    return ES_OK;
}

/* Fails without a trace: what was opened and allocated on the way is given back before it
 * returns. */
es_status es_st_open(const char *path, const es_st_opts *opts, es_st **out, es_error *err)
{
    const es_st_opts *o = opts ? opts : &strict;
    es_st *st;
    *out = NULL;
    if (!path)
        return es_fail(err, ES_E_ARGUMENT, "file.path", "pass a file name", "no file name");
    ES_TRY(files_new(1, o->budget, &st, err));
    const es_status status = load_file(st, 0, path, o, &st->tensors, &st->count, err);
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
    if (!st->gguf)
        es_mem_free(st->budget, st->tensors);
    es_gguf_close(st->gguf);
    es_mem_free(st->budget, st->files);
    es_mem_free(st->budget, st);
}

bool es_st_is_gguf(const es_st *st) { return st->gguf != NULL; }

/* Of `files` only the paths are in use, one for each file of the model. */
es_status es_st_of_gguf(es_gguf *gguf, es_st **out, es_error *err)
{
    es_st *st;
    es_status status = files_new((int)gguf->n_parts, gguf->budget, out, err);
    if (status != ES_OK) {
        es_gguf_close(gguf);
        return status;
    }
    st = *out;
    st->gguf = gguf;
    st->tensors = gguf->header.tensors;
    st->count = gguf->header.count;
    for (int i = 0; i < st->n_files && status == ES_OK; i++)
        status =
            es_mem_text(st->budget, gguf->parts[i].path, "a file name", &st->files[i].path, err);
    if (status != ES_OK) {
        es_st_close(st);
        *out = NULL;
    }
    return status;
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

/* Compares a name with that of a tensor, for bsearch(). */
static int name_against(const void *name, const void *tensor)
{
    return strcmp(name, ((const es_st_tensor *)tensor)->name);
}

/* Searches by bisection: a checkpoint of a thousand tensors is searched for each of them, one
 * of ten million for a few. */
const es_st_tensor *es_st_find(const es_st *st, const char *name)
{
    return bsearch(name, st->tensors, (size_t)st->count, sizeof *st->tensors, name_against);
}

/* ---- reading ---- */

/* Fails unless the conversion is exact: F16 and BF16 to f32 is, F64 to f32 is not. Integers are
 * refused, because the file does not say what they mean (they may be codes of a quantised matrix).
 */
static es_status check_readable(const es_st *st, const es_st_tensor *t, es_dtype dtype,
                                es_error *err)
{
    const es_st_kind *kind = es_st_kind_of(t->dtype);
    if (!es_dtype_size(dtype))
        return es_fail(err, ES_E_ARGUMENT, "safetensors.dtype", "use ES_F32 or ES_F64",
                       "unknown dtype %d", (int)dtype);
    if (kind && !kind->what && (kind->bits < 64 || dtype == ES_F64))
        return ES_OK;
    return es_fail_file(
        err, ES_E_UNSUPPORTED, es_st_file(st, t), (int64_t)t->offset, "safetensors.dtype",
        kind && !kind->what ? "ask for f64" : "save it as F32, F16 or BF16",
        "tensor '%.100s' has dtype %s (%s), which is not supported%s", t->name, t->dtype,
        !kind        ? "unknown here"
        : kind->what ? kind->what
                     : "64-bit floats",
        kind && !kind->what ? " as f32, because it would lose digits" : "");
}

/* A piece at a time through the stack: a tensor of gigabytes needs no second copy of itself,
 * and the conversion works on bytes that are still in the cache. */
es_status es_st_read_rows(const es_st *st, const es_st_tensor *tensor, int64_t first, int64_t rows,
                          es_dtype dtype, void *out, es_st_seen *seen, es_error *err)
{
    enum { PIECE = 4096 };
    unsigned char raw[8 * PIECE];
    if (st->gguf)
        return es_gguf_read_rows(st->gguf, tensor, first, rows, dtype, out, seen, err);
    ES_TRY(check_readable(st, tensor, dtype, err));
    const size_t item = (size_t)es_st_kind_of(tensor->dtype)->bits / 8;
    const int64_t cols = tensor->rank > 1 ? tensor->shape[tensor->rank - 1] : tensor->count;
    const int64_t from = first * cols, all = rows * cols;
    for (int64_t i = 0; i < all; i += PIECE) {
        const int64_t left = all - i, count = left < PIECE ? left : PIECE;
        ES_TRY(es_file_read(&st->files[tensor->file].file,
                            tensor->offset + (uint64_t)(from + i) * item, raw, (size_t)count * item,
                            err));
        es_st_decode(tensor->dtype, raw, from + i, count, dtype,
                     (char *)out + (size_t)i * es_dtype_size(dtype), seen);
    }
    return ES_OK;
}

es_status es_st_read(const es_st *st, const es_st_tensor *tensor, es_dtype dtype, void *out,
                     es_st_seen *seen, es_error *err)
{
    es_st_seen odd = {.first = -1};
    if (st->gguf)
        return es_gguf_read(st->gguf, tensor, dtype, out, seen, err);
    ES_TRY(check_readable(st, tensor, dtype, err));
    if (tensor->count)
        ES_TRY(es_st_read_rows(
            st, tensor, 0, tensor->rank > 1 ? tensor->count / tensor->shape[tensor->rank - 1] : 1,
            dtype, out, &odd, err));
    if (seen)
        *seen = odd;
    return ES_OK;
}

es_status es_st_read_bytes(const es_st *st, const es_st_tensor *tensor, int64_t first,
                           int64_t count, void *out, es_error *err)
{
    if (st->gguf)
        return es_fail_file(err, ES_E_UNSUPPORTED, es_st_file(st, tensor), -1, "safetensors.dtype",
                            "use a safetensors file", "bytes of a GGUF are not read as they are");
    return es_file_read(&st->files[tensor->file].file, tensor->offset + (uint64_t)first, out,
                        (size_t)count, err);
}

/* ---- as arrays ---- */

/* Describes the tensor as a .npy file would be, so that code that takes arrays takes tensors as
 * well. */
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

es_status es_st_load(const es_st *st, const es_st_tensor *tensor, es_mem_limit *budget,
                     es_array *out, es_error *err)
{
    es_npy_info info;
    *out = (es_array){.budget = budget};
    ES_TRY(es_st_inspect(st, tensor, &info, err));
    ES_TRY(ES_MEM_BYTES(budget, out->data, (size_t)info.bytes, es_st_file(st, tensor), err));
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

/* ---- the index ---- */

static const char anew[] = "download the index anew";

/* Makes a string of the index a C string in place. */
static es_status keep(const es_json *j, unsigned char *bytes, const es_json_text *text,
                      const char **out)
{
    char *at = (char *)bytes + text->at;
    const size_t size = es_json_decode(text, at);
    if (memchr(at, '\0', size))
        return es_fail_file(j->err, ES_E_FORMAT, j->file, (int64_t)text->at, "index.map", anew,
                            "a name holds a NUL character");
    at[size] = '\0';
    *out = at;
    return ES_OK;
}

/* Shards lie beside the index: a name that leads elsewhere is no mistake but an attack. */
static es_status check_shard(const es_json *j, size_t at, const char *shard)
{
    if (*shard && *shard != '.' && !strpbrk(shard, "/\\"))
        return ES_OK;
    return es_fail_file(j->err, ES_E_FORMAT, j->file, (int64_t)at, "index.shard", anew,
                        "shard '%.100s' is not a plain file name", shard);
}

/* Reads the members of "weight_map"; only counts them if places is NULL. */
static es_status take_map(es_json *j, unsigned char *bytes, es_st_place *places, int64_t *count)
{
    es_json_list list;
    es_json_text key, value;
    ES_TRY(es_json_begin(j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(j, &list, &key));
        if (list.done)
            return ES_OK;
        ES_TRY(es_json_string(j, &value));
        if (places) {
            es_st_place *place = &places[*count];
            ES_TRY(keep(j, bytes, &key, &place->tensor));
            ES_TRY(keep(j, bytes, &value, &place->shard));
            ES_TRY(check_shard(j, value.at, place->shard));
        }
        ++*count;
    }
}

/* Skips "metadata" and other keys of an index. Like a header, the index is read twice, counting
 * and storing, so that memory is allocated once. */
static es_status take_index(es_json j, unsigned char *bytes, es_st_place *places, int64_t *count)
{
    es_json_list list;
    es_json_text key;
    bool seen = false;
    *count = 0;
    ES_TRY(es_json_begin(&j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(&j, &list, &key));
        if (list.done)
            break;
        if (!es_json_same(&key, "weight_map")) {
            ES_TRY(es_json_skip(&j));
            continue;
        }
        if (seen)
            return es_fail_file(j.err, ES_E_FORMAT, j.file, (int64_t)key.at, "index.duplicate",
                                anew, "duplicate key weight_map");
        seen = true;
        ES_TRY(take_map(&j, bytes, places, count));
    }
    ES_TRY(es_json_end(&j));
    if (*count == 0)
        return es_fail_file(j.err, ES_E_FORMAT, j.file, 0, "index.map", anew,
                            "the index has no tensors in \"weight_map\"");
    return ES_OK;
}

/* Compares entries of the index by the name of the tensor. */
static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const es_st_place *)a)->tensor, ((const es_st_place *)b)->tensor);
}

/* Compares entries of the index by shard, then by tensor, so that each file is opened once. */
static int by_shard(const void *a, const void *b)
{
    const int order = strcmp(((const es_st_place *)a)->shard, ((const es_st_place *)b)->shard);
    return order ? order : by_tensor(a, b);
}

/* Refuses a tensor that is listed twice. The entries are sorted by name, with escapes decoded:
 * jansson would compare keys as they are spelt. */
static es_status check_tensors(const es_st_place *places, int64_t count, const char *file,
                               es_error *err)
{
    for (int64_t i = 1; i < count; i++) {
        if (strcmp(places[i - 1].tensor, places[i].tensor) == 0)
            return es_fail_file(err, ES_E_FORMAT, file, -1, "index.duplicate", anew,
                                "duplicate tensor name '%.100s'", places[i].tensor);
    }
    return ES_OK;
}

es_status es_st_index_parse(unsigned char *bytes, size_t size, const char *file,
                            es_mem_limit *budget, es_st_place **places, int64_t *count,
                            es_error *err)
{
    const es_json j = {bytes, 0, size, file, "index", err, 0};
    es_st_place *all;
    *places = NULL;
    ES_TRY(take_index(j, bytes, NULL, count)); /* a place costs eight bytes of text, or more */
    ES_TRY(ES_MEM_NEW(budget, all, *count, "a shard index", err));
    es_status status = take_index(j, bytes, all, count);
    if (status == ES_OK) {
        qsort(all, (size_t)*count, sizeof *all, by_tensor);
        status = check_tensors(all, *count, file, err);
    }
    if (status != ES_OK) {
        es_mem_free(budget, all);
        return status;
    }
    qsort(all, (size_t)*count, sizeof *all, by_shard);
    *places = all;
    return ES_OK;
}

/* ---- the shards ---- */

/* The shards of an index while they are opened. */
typedef struct shards {
    const char *index; /* path */
    const es_st_place *places;
    int64_t n_places;
    int count;
    struct {
        es_st_tensor *tensors;
        int64_t count;
    } * one; /* (count) */
} shards;

/* Returns the number of files that the sorted entries name. */
static int count_shards(const es_st_place *places, int64_t count)
{
    int shards_ = 1;
    for (int64_t i = 1; i < count; i++)
        shards_ += strcmp(places[i - 1].shard, places[i].shard) != 0;
    return shards_;
}

/* Writes the path of a shard, "FOLDER/shard", FOLDER being that of the index. */
static es_status shard_path(const shards *s, const char *shard, char *out, size_t size,
                            es_error *err)
{
    const char *slash = strrchr(s->index, '/');
    const int folder = slash ? (int)(slash - s->index) + 1 : 0;
    if ((size_t)snprintf(out, size, "%.*s%s", folder, s->index, shard) >= size)
        return es_fail_file(err, ES_E_FORMAT, s->index, -1, "index.shard", anew,
                            "the path of shard '%.100s' is too long", shard);
    return ES_OK;
}

/* Reports a missing shard as such and not as an unreadable file: usually a download stopped
 * half-way. */
static es_status load_shards(shards *s, es_st *st, const es_st_opts *opts, es_error *err)
{
    int shard = 0;
    for (int64_t i = 0; i < s->n_places; i++) {
        char path[4096];
        if (i > 0 && strcmp(s->places[i - 1].shard, s->places[i].shard) == 0)
            continue;
        ES_TRY(shard_path(s, s->places[i].shard, path, sizeof path, err));
        if (access(path, F_OK) != 0 && errno == ENOENT)
            return es_fail_file(err, ES_E_FORMAT, s->index, -1, "index.file",
                                "download that file as well", "missing shard '%.100s'",
                                s->places[i].shard);
        ES_TRY(load_file(st, shard, path, opts, &s->one[shard].tensors, &s->one[shard].count, err));
        shard++;
    }
    return ES_OK;
}

/* Merges the tensors of all shards into one sorted list; refuses a name that is in two shards. */
static es_status join_shards(const shards *s, es_st *st, es_error *err)
{
    int64_t total = 0;
    for (int i = 0; i < s->count; i++)
        total += s->one[i].count;
    ES_TRY(ES_MEM_NEW(st->budget, st->tensors, total, "the list of tensors", err));
    for (int i = 0; i < s->count; i++) {
        memcpy(st->tensors + st->count, s->one[i].tensors,
               (size_t)s->one[i].count * sizeof *st->tensors);
        st->count += s->one[i].count;
    }
    qsort(st->tensors, (size_t)st->count, sizeof *st->tensors, es_st_by_name);
    for (int64_t i = 1; i < st->count; i++) {
        const es_st_tensor *a = &st->tensors[i - 1], *b = &st->tensors[i];
        if (strcmp(a->name, b->name) == 0)
            return es_fail_file(err, ES_E_FORMAT, es_st_file(st, b), (int64_t)b->offset,
                                "index.twice", anew, "tensor '%.100s' is also in another shard",
                                a->name);
    }
    return ES_OK;
}

/* Checks that every tensor is in the file that the index names. Tensors that the index does not
 * list give a warning: they can be read, because the headers have them. */
static es_status check_places(const shards *s, const es_st *st, es_error *err)
{
    int shard = 0;
    for (int64_t i = 0; i < s->n_places; i++) {
        const es_st_place *place = &s->places[i];
        shard += i > 0 && strcmp(s->places[i - 1].shard, place->shard) != 0;
        const es_st_tensor *t = es_st_find(st, place->tensor);
        if (!t || t->file != shard)
            return es_fail_file(err, ES_E_FORMAT, s->index, -1, "index.missing", anew,
                                "tensor '%.100s' is not in shard '%.100s'", place->tensor,
                                place->shard);
    }
    if (st->count > s->n_places)
        es_log(ES_LOG_WARN, "%s: the shards hold %lld tensors that it does not list", s->index,
               (long long)(st->count - s->n_places));
    return ES_OK;
}

/* Opens all shards and merges their tensors. Frees the lists of single shards in any case. */
static es_status open_shards(shards *s, const es_st_opts *opts, es_st **out, es_error *err)
{
    es_st *st;
    ES_TRY(ES_MEM_NEW(opts->budget, s->one, s->count, "shards", err));
    es_status status = files_new(s->count, opts->budget, &st, err);
    if (status == ES_OK)
        status = load_shards(s, st, opts, err);
    if (status == ES_OK)
        status = join_shards(s, st, err);
    if (status == ES_OK)
        status = check_places(s, st, err);
    for (int i = 0; i < s->count; i++)
        es_mem_free(opts->budget, s->one[i].tensors);
    es_mem_free(opts->budget, s->one);
    if (status != ES_OK)
        es_st_close(st);
    else
        *out = st;
    return status;
}

/* Names in `places` stand in `text`, so both live until every shard is open. */
es_status es_st_open_index(const char *path, const es_st_opts *opts, es_st **out, es_error *err)
{
    const es_st_opts *o = opts ? opts : &strict;
    void *text;
    size_t size;
    es_st_place *places;
    shards s = {.index = path};
    *out = NULL;
    ES_TRY(es_file_load(path, o->header_most ? o->header_most : ES_ST_HEADER_MOST, o->budget, &text,
                        &size, err));
    es_status status = es_st_index_parse(text, size, path, o->budget, &places, &s.n_places, err);
    if (status == ES_OK) {
        s.places = places;
        s.count = count_shards(places, s.n_places);
        status = open_shards(&s, o, out, err);
    }
    es_mem_free(o->budget, places);
    es_mem_free(o->budget, text);
    return status;
}
