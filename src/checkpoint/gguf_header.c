/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_header.c : the header of a GGUF file: values by their keys, tensors by their names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/gguf_inside.h"
#include "checkpoint/safetensors_inside.h"

static const char anew[] = "write or download the file again";

/* ---- bytes ---- */

/* A walk through the header. Nothing is looked at that is not below `have` and `size`. */
typedef struct walk {
    const unsigned char *bytes;
    uint64_t at, have, size;
    uint64_t want; /* not 0: bytes up to here are needed, and ES_E_EMPTY was returned */
    const char *file;
    es_error *err;
} walk;

/* Fails at byte `at` of the file. */
static es_status fail(const walk *w, uint64_t at, const char *rule, const char *problem)
{
    return es_fail_file(w->err, ES_E_FORMAT, w->file, (int64_t)at, rule, anew, "%s", problem);
}

/* Checks that the next `count` bytes exist: fails if the file ends before them, and returns
 * ES_E_EMPTY with w->want set if they are not in memory yet. */
static es_status need(walk *w, uint64_t count)
{
    if (count > w->size - w->at)
        return es_fail_file(w->err, ES_E_FORMAT, w->file, (int64_t)w->size, "gguf.short", anew,
                            "the file ends in the middle of its header");
    if (w->at + count <= w->have)
        return ES_OK;
    if (w->at + count > ES_GGUF_HEADER_MOST)
        return es_fail_file(w->err, ES_E_LIMIT, w->file, (int64_t)w->at, "gguf.limit",
                            "check that this is a GGUF of a language model",
                            "the header is longer than the %llu bytes that are accepted",
                            (unsigned long long)ES_GGUF_HEADER_MOST);
    w->want = w->at + count;
    return ES_E_EMPTY;
}

/* Reads an unsigned little-endian integer of `bytes` bytes. */
static es_status take(walk *w, int bytes, uint64_t *out)
{
    ES_TRY(need(w, (uint64_t)bytes));
    *out = es_gguf_little(w->bytes + w->at, bytes);
    w->at += (uint64_t)bytes;
    return ES_OK;
}

/* Reads a length and a string of that length. Refuses a NUL in it, because C would read a shorter
 * string than other languages. */
static es_status take_text(walk *w, es_gguf_text *out)
{
    const uint64_t begin = w->at;
    uint64_t size;
    ES_TRY(take(w, 8, &size));
    if (size > w->size - w->at)
        return es_fail_file(w->err, ES_E_FORMAT, w->file, (int64_t)begin, "gguf.string", anew,
                            "a string of %llu bytes goes beyond the end of the file",
                            (unsigned long long)size);
    ES_TRY(need(w, size));
    *out = (es_gguf_text){(const char *)w->bytes + w->at, (size_t)size};
    if (memchr(out->at, '\0', out->size))
        return fail(w, begin, "gguf.string", "a string holds a NUL character");
    w->at += size;
    return ES_OK;
}

/* Reads a name of 1 to `most` bytes. */
static es_status take_name(walk *w, const char *what, size_t most, es_gguf_text *out)
{
    const uint64_t begin = w->at;
    ES_TRY(take_text(w, out));
    if (out->size == 0 || out->size > most)
        return es_fail_file(w->err, ES_E_FORMAT, w->file, (int64_t)begin, "gguf.name", anew,
                            "%s of %llu bytes; 1 to %zu are possible", what,
                            (unsigned long long)out->size, most);
    return ES_OK;
}

/* ---- values ---- */

/* Reads the type of a value. */
static es_status take_type(walk *w, es_gguf_value_type *out)
{
    const uint64_t at = w->at;
    uint64_t type;
    ES_TRY(take(w, 4, &type));
    if (type >= ES_GGUF_TYPES)
        return es_fail_file(w->err, ES_E_FORMAT, w->file, (int64_t)at, "gguf.type", anew,
                            "a value has the unknown type %llu", (unsigned long long)type);
    *out = (es_gguf_value_type)type;
    return ES_OK;
}

/* Skips `count` values of a type that is no array; those of fixed width at once. */
static es_status take_items(walk *w, es_gguf_value_type type, int64_t count)
{
    if (type == ES_GGUF_STRING) {
        es_gguf_text text;
        for (int64_t i = 0; i < count; i++)
            ES_TRY(take_text(w, &text));
        return ES_OK;
    }
    const uint64_t bytes =
        (uint64_t)count * (uint64_t)es_gguf_widths[type]; /* count is below the size */
    ES_TRY(need(w, bytes));
    for (int64_t i = 0; type == ES_GGUF_BOOL && i < count; i++)
        if (w->bytes[w->at + (uint64_t)i] > 1)
            return fail(w, w->at + (uint64_t)i, "gguf.flag", "a flag is neither 0 nor 1");
    w->at += bytes;
    return ES_OK;
}

/* Reads the head of an array and skips its items. An item has at least one byte, a string eight,
 * so a count that exceeds the rest of the file is refused before the items are walked. */
static es_status take_array(walk *w, es_gguf_value *v)
{
    const uint64_t begin = w->at;
    uint64_t count;
    ES_TRY(take_type(w, &v->item));
    if (v->item == ES_GGUF_ARRAY)
        return es_fail_file(w->err, ES_E_UNSUPPORTED, w->file, (int64_t)begin, "gguf.nested",
                            "no supported key has such a value", "an array of arrays");
    ES_TRY(take(w, 8, &count));
    const uint64_t least = v->item == ES_GGUF_STRING ? 8 : (uint64_t)es_gguf_widths[v->item];
    if (count > (w->size - w->at) / least)
        return es_fail_file(w->err, ES_E_FORMAT, w->file, (int64_t)begin, "gguf.array", anew,
                            "an array of %llu items goes beyond the end of the file",
                            (unsigned long long)count);
    v->count = (int64_t)count;
    v->at = (size_t)w->at;
    return take_items(w, v->item, v->count);
}

/* Reads one key with its value. Values stay in the bytes of the file; only their place and
 * number are stored. */
static es_status take_value(walk *w, es_gguf_value *v)
{
    ES_TRY(take_name(w, "a key", 65535, &v->key));
    ES_TRY(take_type(w, &v->type));
    if (v->type == ES_GGUF_ARRAY)
        return take_array(w, v);
    v->item = v->type;
    v->count = 1;
    v->at = (size_t)w->at;
    return take_items(w, v->type, 1);
}

/* ---- tensors ---- */

typedef struct entry {
    es_gguf_text name;
    es_st_tensor tensor; /* offset in the data, name not set */
} entry;

/* Fails because of the entry of one tensor, which the message names. */
static es_status bad_tensor(const walk *w, uint64_t at, const entry *e, const char *rule,
                            const char *problem)
{
    return es_fail_file(w->err, ES_E_FORMAT, w->file, (int64_t)at, rule, anew, "tensor '%.*s' %s",
                        (int)e->name.size, e->name.at, problem);
}

/* Reads the dimensions of a tensor. The file has the contiguous one first; here it is last. */
static es_status take_shape(walk *w, entry *e)
{
    const uint64_t begin = w->at;
    es_st_tensor *t = &e->tensor;
    uint64_t rank, size;
    ES_TRY(take(w, 4, &rank));
    if (rank < 1 || rank > 4)
        return es_fail_file(w->err, ES_E_FORMAT, w->file, (int64_t)begin, "gguf.dimensions", anew,
                            "tensor '%.*s' has %llu dimensions; 1 to 4 are possible",
                            (int)e->name.size, e->name.at, (unsigned long long)rank);
    t->rank = (int)rank;
    t->count = 1;
    for (int i = 0; i < ES_ST_RANK; i++)
        t->shape[i] = 1;
    for (int i = t->rank; i-- > 0;) {
        const uint64_t at = w->at;
        ES_TRY(take(w, 8, &size));
        if (size == 0)
            return bad_tensor(w, at, e, "gguf.dimensions", "has a dimension of 0");
        if (size > INT64_MAX || !es_mul_i64(t->count, (int64_t)size, &t->count))
            return bad_tensor(w, at, e, "gguf.overflow",
                              "has a shape whose product overflows 64 bits");
        t->shape[i] = (int64_t)size;
    }
    return ES_OK;
}

/* Reads the type of a tensor and computes its size in bytes. Quantised types store rows in
 * blocks, so that a row must be a multiple of the block. */
static es_status take_tensor_type(walk *w, entry *e)
{
    const uint64_t begin = w->at;
    es_st_tensor *t = &e->tensor;
    const int64_t row = t->shape[t->rank - 1];
    uint64_t id;
    int64_t bytes;
    ES_TRY(take(w, 4, &id));
    const es_gguf_type *type = es_gguf_type_at(id);
    if (!type) {
        char hint[ES_GGUF_HINT];
        return es_fail_file(w->err, ES_E_UNSUPPORTED, w->file, (int64_t)begin, "gguf.kind",
                            es_gguf_types_hint(hint),
                            "tensor '%.*s' has type %llu, which is not supported",
                            (int)e->name.size, e->name.at, (unsigned long long)id);
    }
    if (row % type->numbers != 0)
        return es_fail_file(w->err, ES_E_FORMAT, w->file, (int64_t)begin, "gguf.block", anew,
                            "tensor '%.*s' has rows of %lld numbers, %s has blocks of %d",
                            (int)e->name.size, e->name.at, (long long)row, type->name,
                            type->numbers);
    if (!es_mul_i64(t->count / type->numbers, type->bytes, &bytes))
        return bad_tensor(w, begin, e, "gguf.overflow", "has a size that overflows 64 bits");
    t->bytes = (uint64_t)bytes;
    snprintf(t->dtype, sizeof t->dtype, "%s", type->name);
    return ES_OK;
}

/* Reads the entry of one tensor: name, shape, type, offset. */
static es_status take_tensor(walk *w, entry *e)
{
    *e = (entry){0};
    ES_TRY(take_name(w, "a tensor's name", ES_GGUF_NAME_MOST, &e->name));
    ES_TRY(take_shape(w, e));
    ES_TRY(take_tensor_type(w, e));
    return take(w, 8, &e->tensor.offset);
}

/* ---- the header ---- */

/* Fails unless the version is supported. The low half of the version is 0 in big-endian files. */
static es_status check_version(const walk *w, uint64_t version)
{
    if (version == 2 || version == 3)
        return ES_OK;
    if (version && !(version & 0xffff))
        return es_fail_file(w->err, ES_E_UNSUPPORTED, w->file, 4, "gguf.endian",
                            "convert the model for little-endian machines",
                            "the file is a big-endian GGUF");
    return es_fail_file(w->err, ES_E_UNSUPPORTED, w->file, 4, "gguf.version",
                        version == 1 ? "convert the model again; versions 2 and 3 are supported"
                                     : "versions 2 and 3 are supported",
                        "the file is a GGUF of version %llu", (unsigned long long)version);
}

/* What a tensor, and a value, take at least: a name of one byte, one dimension, one byte. */
enum { TENSOR_LEAST = 8 + 1 + 4 + 8 + 4 + 8, VALUE_LEAST = 8 + 1 + 4 + 1 };

/* Reads magic, version and the two counts. A count that cannot fit into the file is refused
 * before memory is allocated for it. */
static es_status take_counts(walk *w, uint64_t *tensors, uint64_t *values)
{
    uint64_t magic, version;
    if (w->size < 4 || (w->have >= 4 && memcmp(w->bytes, "GGUF", 4) != 0))
        return fail(w, 0, "gguf.magic", "the file does not begin with GGUF");
    ES_TRY(take(w, 4, &magic));
    ES_TRY(take(w, 4, &version));
    ES_TRY(check_version(w, version));
    ES_TRY(take(w, 8, tensors));
    ES_TRY(take(w, 8, values));
    const uint64_t capacity = w->size - w->at;
    if (*tensors > capacity / TENSOR_LEAST)
        return es_fail_file(w->err, ES_E_FORMAT, w->file, 8, "gguf.counts", anew,
                            "%llu tensors do not fit a file of %llu bytes",
                            (unsigned long long)*tensors, (unsigned long long)w->size);
    if (*values > capacity / VALUE_LEAST)
        return es_fail_file(w->err, ES_E_FORMAT, w->file, 16, "gguf.counts", anew,
                            "%llu values do not fit a file of %llu bytes",
                            (unsigned long long)*values, (unsigned long long)w->size);
    return ES_OK;
}

/* Reads the header twice: once to check and count the bytes of names (h NULL), once to store.
 * Memory is allocated only after every value and tensor was found in the file. */
static es_status take_header(walk *w, es_gguf_header *h, uint64_t *tensors, uint64_t *values,
                             size_t *names)
{
    ES_TRY(take_counts(w, tensors, values));
    for (uint64_t i = 0; i < *values; i++) {
        es_gguf_value one = {0}, *v = h ? &h->values[i] : &one;
        ES_TRY(take_value(w, v));
    }
    *names = 0;
    for (uint64_t i = 0; i < *tensors; i++) {
        entry e;
        ES_TRY(take_tensor(w, &e));
        if (h) {
            memcpy(h->names + *names, e.name.at, e.name.size);
            h->tensors[i] = e.tensor;
            h->tensors[i].name = h->names + *names;
        }
        *names += e.name.size + 1;
    }
    return ES_OK;
}

/* Allocates the arrays of values and tensors, and the memory of all names. */
static es_status allocate(es_gguf_header *h, size_t names, es_error *err)
{
    ES_TRY(ES_MEM_NEW(h->budget, h->values, h->values_count, "the values of a GGUF", err));
    ES_TRY(ES_MEM_NEW(h->budget, h->tensors, h->count, "the list of tensors", err));
    ES_TRY(ES_MEM_BYTES(h->budget, h->names, names, "names of tensors", err));
    return ES_OK;
}

void es_gguf_header_free(es_gguf_header *h)
{
    es_mem_free(h->budget, h->values);
    es_mem_free(h->budget, h->tensors);
    es_mem_free(h->budget, h->names);
    *h = (es_gguf_header){0};
}

/* ---- all of it together ---- */

/* Compares values by key. Equal keys are ordered by offset, so that the message names the second.
 */
static int by_key(const void *a, const void *b)
{
    const es_gguf_value *s = a, *t = b;
    const int order = es_gguf_compare(s->key, t->key);
    return order ? order : s->at < t->at ? -1 : s->at > t->at;
}

/* Sorts the values by key, for es_gguf_find(), and refuses a key that occurs twice. */
static es_status check_keys(es_gguf_header *h, es_error *err)
{
    qsort(h->values, (size_t)h->values_count, sizeof *h->values, by_key);
    for (int64_t i = 1; i < h->values_count; i++) {
        const es_gguf_text key = h->values[i].key;
        if (es_gguf_compare(h->values[i - 1].key, key) == 0)
            return es_fail_file(err, ES_E_FORMAT, h->file, (const unsigned char *)key.at - h->bytes,
                                "gguf.duplicate", anew, "duplicate key '%.*s'",
                                key.size < 100 ? (int)key.size : 100, key.at);
    }
    return ES_OK;
}

/* Sorts the tensors by name and refuses a name that occurs twice. */
static es_status check_names(es_gguf_header *h, es_error *err)
{
    qsort(h->tensors, (size_t)h->count, sizeof *h->tensors, es_st_by_name);
    for (int64_t i = 1; i < h->count; i++)
        if (strcmp(h->tensors[i - 1].name, h->tensors[i].name) == 0)
            return es_fail_file(err, ES_E_FORMAT, h->file, 0, "gguf.duplicate", anew,
                                "duplicate tensor name '%.100s'", h->tensors[i].name);
    return ES_OK;
}

/* Offsets count in the data, which begins at the next multiple of the alignment. */
static es_status find_data(es_gguf_header *h, uint64_t size, uint64_t *alignment, es_error *err)
{
    const es_gguf_value *v = es_gguf_find(h, "general.alignment");
    int64_t value = 32;
    ES_TRY(es_gguf_whole(h, "general.alignment", (es_gguf_range){0, 1 << 30, false}, &value, err));
    if (value <= 0 || (value & (value - 1)))
        return es_fail_file(err, ES_E_FORMAT, h->file, v ? (int64_t)v->at : 0, "gguf.alignment",
                            anew, "general.alignment is %lld, which is not a power of two",
                            (long long)value);
    *alignment = (uint64_t)value;
    h->data = (h->end + *alignment - 1) / *alignment * *alignment;
    if (h->data <= size)
        return ES_OK;
    if (h->count)
        return es_fail_file(err, ES_E_FORMAT, h->file, (int64_t)size, "gguf.short", anew,
                            "the file ends before its data");
    h->data = size; /* no data, no padding */
    return ES_OK;
}

/* Checks that a tensor lies within the data and makes its offset that in the file. Afterwards
 * offset + bytes does not exceed the size of the file. */
static es_status check_range(const es_gguf_header *h, es_st_tensor *t, uint64_t alignment,
                             uint64_t size, es_error *err)
{
    const uint64_t capacity = size - h->data;
    if (t->offset % alignment != 0)
        return es_fail_file(
            err, ES_E_FORMAT, h->file, (int64_t)h->data, "gguf.offset", anew,
            "tensor '%.100s' begins at byte %llu of the data, which is not a multiple of %llu",
            t->name, (unsigned long long)t->offset, (unsigned long long)alignment);
    if (t->offset > capacity || t->bytes > capacity - t->offset)
        return es_fail_file(err, ES_E_FORMAT, h->file, (int64_t)size, "gguf.range",
                            "the file was cut short: download it again",
                            "tensor '%.100s' has %llu bytes from byte %llu of the data, which has "
                            "%llu",
                            t->name, (unsigned long long)t->bytes, (unsigned long long)t->offset,
                            (unsigned long long)capacity);
    t->offset += h->data;
    return ES_OK;
}

/* Compares pointers to tensors by offset. */
static int by_offset(const void *a, const void *b)
{
    const es_st_tensor *s = *(const es_st_tensor *const *)a, *t = *(const es_st_tensor *const *)b;
    return s->offset < t->offset ? -1 : s->offset > t->offset;
}

/* Checks that tensors do not overlap, and that less than `alignment` bytes of padding lie between
 * two. */
static es_status check_order(const es_gguf_header *h, const es_st_tensor *const *order,
                             uint64_t alignment, uint64_t *end, es_error *err)
{
    *end = h->data;
    for (int64_t i = 0; i < h->count; i++) {
        const es_st_tensor *t = order[i];
        if (t->offset < *end)
            return es_fail_file(err, ES_E_FORMAT, h->file, (int64_t)t->offset, "gguf.overlap", anew,
                                "tensors '%.80s' and '%.80s' overlap", order[i ? i - 1 : 0]->name,
                                t->name);
        if (t->offset - *end >= alignment)
            return es_fail_file(err, ES_E_FORMAT, h->file, (int64_t)*end, "gguf.hole", anew,
                                "%llu bytes before tensor '%.100s' belong to no tensor",
                                (unsigned long long)(t->offset - *end), t->name);
        *end = t->offset + t->bytes;
    }
    return ES_OK;
}

/* Checks the bytes after the last tensor: padding, or more if `allow`. */
static es_status check_rest(const es_gguf_header *h, uint64_t rest, uint64_t alignment, bool allow,
                            uint64_t end, es_error *err)
{
    if (rest < alignment)
        return ES_OK;
    if (!allow)
        return es_fail_file(err, ES_E_FORMAT, h->file, (int64_t)end, "gguf.trailing",
                            "download it again, or allow trailing bytes",
                            "%llu bytes follow the last tensor", (unsigned long long)rest);
    es_log(ES_LOG_WARN, "%s: %llu bytes follow the last tensor", h->file, (unsigned long long)rest);
    return ES_OK;
}

/* Checks that tensors lie within the data, do not overlap and leave no gaps but padding. This
 * finds cut and edited files. */
static es_status check_data(es_gguf_header *h, uint64_t size, bool allow_trailing, es_error *err)
{
    uint64_t alignment = 1, end = 0;
    const es_st_tensor **order;
    ES_TRY(find_data(h, size, &alignment, err));
    for (int64_t i = 0; i < h->count; i++)
        ES_TRY(check_range(h, &h->tensors[i], alignment, size, err));
    ES_TRY(ES_MEM_NEW(h->budget, order, h->count, "the order of tensors", err));
    for (int64_t i = 0; i < h->count; i++)
        order[i] = &h->tensors[i];
    qsort(order, (size_t)h->count, sizeof *order, by_offset);
    es_status status = check_order(h, order, alignment, &end, err);
    es_mem_free(h->budget, order);
    if (status == ES_OK)
        status = check_rest(h, size - end, alignment, allow_trailing, end, err);
    return status;
}

es_status es_gguf_parse(const unsigned char *bytes, size_t have, uint64_t size, const char *file,
                        const es_st_opts *opts, es_gguf_header *out, uint64_t *want, es_error *err)
{
    const walk begin = {.bytes = bytes, .have = have, .size = size, .file = file, .err = err};
    walk first = begin, second = begin;
    uint64_t tensors, values;
    size_t names;
    *out = (es_gguf_header){.bytes = bytes, .file = file, .budget = opts->budget};
    const es_status status = take_header(&first, NULL, &tensors, &values, &names);
    *want = first.want;
    if (status != ES_OK)
        return status;
    out->values_count = (int64_t)values;
    out->count = (int64_t)tensors;
    out->end = first.at;
    ES_TRY(allocate(out, names, err));
    ES_TRY(take_header(&second, out, &tensors, &values, &names));
    ES_TRY(check_keys(out, err));
    ES_TRY(check_names(out, err));
    return check_data(out, size, opts->allow_trailing, err);
}
