/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_header.c : the header of a safetensors file: its first bytes, its entries, and what
 * their dtypes mean. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/gguf_types.h"
#include "checkpoint/json.h"
#include "checkpoint/safetensors_inside.h"

static const char anew[] = "write or download the file again";

/* ---- the first bytes: is it one, and how long is its header? ---- */

/* Recognises other formats by their first bytes, for a message that names them. */
static es_status check_magic(const unsigned char *bytes, size_t have, const char *file,
                             es_error *err)
{
    const es_foreign other = es_foreign_of(bytes, have);
    return other.name ? es_fail_file(err, ES_E_UNSUPPORTED, file, 0, "safetensors.other",
                                     other.hint, "this is %s, not a safetensors file", other.name)
                      : ES_OK;
}

/* A parameter rather than #ifdef, so that the refusal can be tested where it never happens. */
es_status es_st_host(bool little_endian, const char *file, es_error *err)
{
    return little_endian ? ES_OK
                         : es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "safetensors.host",
                                        "use a little-endian machine",
                                        "safetensors are little-endian, this machine is not");
}

/* The order of the questions is that of what may be believed. Is it another format, whose first
 * bytes would be nonsense as a length? Does the length fit the file? Is it one that we are
 * ready to take memory for? Does an object begin there, as the format has it: no space before
 * the brace. */
es_status es_st_extent(const unsigned char *bytes, size_t have, uint64_t file_size,
                       const char *file, const es_st_opts *opts, uint64_t *extent, es_error *err)
{
    const uint64_t most = opts->header_most ? opts->header_most : ES_ST_HEADER_MOST;
    uint64_t size = 0;
    if (have < 9 || bytes[8] != '{')
        ES_TRY(check_magic(bytes, have, file, err));
    if (file_size < 8)
        return es_fail_file(err, ES_E_FORMAT, file, (int64_t)file_size, "safetensors.short", anew,
                            "the file has %d bytes; the length of its header takes 8",
                            (int)file_size);
    for (int i = 7; i >= 0; i--)
        size = size << 8 | bytes[i];
    if (size > file_size - 8) {
        ES_TRY(check_magic(bytes, have, file, err)); /* e.g. GGUF with 123 tensors: '{' is 123 */
        return es_fail_file(err, ES_E_FORMAT, file, 0, "safetensors.header.size", anew,
                            "the header claims %llu bytes, the file has %llu after its length",
                            (unsigned long long)size, (unsigned long long)(file_size - 8));
    }
    if (size > most)
        return es_fail_file(err, ES_E_FORMAT, file, 0, "safetensors.header.limit",
                            "raise the limit if you trust the file",
                            "the header has %llu bytes; the most accepted is %llu",
                            (unsigned long long)size, (unsigned long long)most);
    if (size < 2 || bytes[8] != '{')
        return es_fail_file(err, ES_E_FORMAT, file, 8, "safetensors.header.begin", anew,
                            size < 2 ? "the header has %d bytes; the shortest is {}"
                                     : "the header begins with byte 0x%02x, not with '{'",
                            size < 2 ? (int)size : bytes[8]);
    *extent = 8 + size;
    return ES_OK;
}

/* ---- dtypes ---- */

/* All dtypes of the format, readable or not: that the bytes of a tensor are as many as its
 * shape needs is checked for each of them, since a wrong one shifts all that follow. */
static const es_st_kind kinds[] = {
    {"F32", 32, NULL},
    {"F16", 16, NULL},
    {"BF16", 16, NULL},
    {"F64", 64, NULL},
    {"BOOL", 8, "booleans"},
    {"U8", 8, "integers"},
    {"I8", 8, "integers"},
    {"U16", 16, "integers"},
    {"I16", 16, "integers"},
    {"U32", 32, "integers"},
    {"I32", 32, "integers"},
    {"U64", 64, "integers"},
    {"I64", 64, "integers"},
    {"C64", 64, "complex numbers"},
    {"F8_E4M3", 8, "8-bit floats"},
    {"F8_E5M2", 8, "8-bit floats"},
    {"F8_E8M0", 8, "8-bit floats"},
    {"F6_E2M3", 6, "6-bit floats"},
    {"F6_E3M2", 6, "6-bit floats"},
    {"F4", 4, "4-bit floats"},
};

const es_st_kind *es_st_kind_of(const char *dtype)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, dtype) == 0)
            return &kinds[i];
    }
    return NULL;
}

/* ---- numbers ---- */

/* Decodes F64, which only f64 has digits for, and counts what is odd about the numbers. memcpy: the
 * data of a safetensors file may begin at any byte. */
static void decode_f64(const unsigned char *raw, int64_t first, int64_t count, double *out,
                       es_st_seen *seen)
{
    memcpy(out, raw, (size_t)count * sizeof *out);
    for (int64_t i = 0; seen && i < count; i++) {
        seen->nans += isnan(out[i]) != 0;
        seen->infinities += isinf(out[i]) != 0;
        seen->subnormals += out[i] != 0.0 && fabs(out[i]) < 0x1p-1022;
        if (!isfinite(out[i]) && seen->first < 0)
            seen->first = first + i;
    }
}

/* F32, F16 and BF16 have the same names and numbers in GGUF files. */
void es_st_decode(const char *from, const unsigned char *raw, int64_t first, int64_t count,
                  es_dtype dtype, void *out, es_st_seen *seen)
{
    if (strcmp(from, "F64") == 0)
        decode_f64(raw, first, count, out, seen);
    else
        es_gguf_decode(es_gguf_type_of(from), raw, first, count, dtype, out, seen);
}

/* ---- one entry ---- */

/* The header being read. Offsets in it are offsets in the file, since bytes[] begins with it. */
typedef struct reader {
    es_json j;
    uint64_t data_size;
    unsigned char *keep; /* the header, where names may be written; NULL on the first reading */
    char shown[104];     /* beginning of a name, for messages, on the first reading */
    int64_t extra_keys;  /* met in entries, for a remark */
} reader;

/* Fails because of one entry. Messages show at most 100 bytes of its name, which may have a
 * megabyte. */
static es_status bad_entry(reader *r, size_t at, const char *rule, const char *name,
                           const char *problem)
{
    return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, (int64_t)at, rule, anew,
                        "tensor '%.100s' %s", name, problem);
}

/* Reads the shape. A tensor has a fixed number of dimensions, 8, twice that of any known model:
 * files have up to a million tensors. */
static es_status take_shape(reader *r, es_st_tensor *t)
{
    es_json_list list;
    const size_t at = r->j.at;
    ES_TRY(es_json_begin(&r->j, '[', &list));
    for (;;) {
        uint64_t dimension;
        ES_TRY(es_json_next(&r->j, &list, NULL));
        if (list.done)
            return ES_OK;
        if (t->rank == ES_ST_RANK)
            return es_fail_file(r->j.err, ES_E_UNSUPPORTED, r->j.file, (int64_t)at,
                                "safetensors.rank", "reshape it to 8 dimensions or fewer",
                                "tensor '%.100s' has more than %d dimensions", t->name,
                                (int)ES_ST_RANK);
        ES_TRY(es_json_whole(&r->j, &dimension));
        t->shape[t->rank++] = (int64_t)dimension;
    }
}

/* Offsets count from the end of the header. They are compared with the file's real size before
 * anything is computed from them; from here on offset + bytes cannot overflow. */
static es_status take_offsets(reader *r, es_st_tensor *t)
{
    es_json_list list;
    uint64_t bound[2];
    int count = 0;
    const size_t at = r->j.at;
    ES_TRY(es_json_begin(&r->j, '[', &list));
    for (;;) {
        ES_TRY(es_json_next(&r->j, &list, NULL));
        if (list.done)
            break;
        if (count == 2)
            return bad_entry(r, at, "safetensors.offsets", t->name, "has more than two offsets");
        ES_TRY(es_json_whole(&r->j, &bound[count++]));
    }
    if (count != 2)
        return bad_entry(r, at, "safetensors.offsets", t->name, "has fewer than two offsets");
    if (bound[0] > bound[1])
        return bad_entry(r, at, "safetensors.offsets", t->name, "ends before it begins");
    if (bound[1] > r->data_size)
        return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, (int64_t)at, "safetensors.range",
                            "the file was cut short: download it again",
                            "tensor '%.100s' ends at byte %llu of the data, which has %llu",
                            t->name, (unsigned long long)bound[1],
                            (unsigned long long)r->data_size);
    t->offset = r->j.end + bound[0]; /* the data follows the header */
    t->bytes = bound[1] - bound[0];
    return ES_OK;
}

/* Fails unless the shape takes as many bytes as the range has. Dimensions of 0 are left out of the
 * overflow check's product: beside a 0, a shape that overflows would still make strides overflow.
 */
static es_status check_size(reader *r, size_t at, es_st_tensor *t)
{
    const es_st_kind *kind = es_st_kind_of(t->dtype);
    int64_t product = 1, bits;
    bool empty = false;
    for (int i = 0; i < t->rank; i++) {
        empty = empty || t->shape[i] == 0;
        if (t->shape[i] && !es_mul_i64(product, t->shape[i], &product))
            return bad_entry(r, at, "safetensors.shape.overflow", t->name,
                             "has a shape whose product overflows 64 bits");
    }
    if (!es_mul_i64(product, kind ? kind->bits : 1, &bits))
        return bad_entry(r, at, "safetensors.shape.overflow", t->name,
                         "has a size that overflows 64 bits");
    t->count = empty ? 0 : product;
    bits = empty ? 0 : bits;
    if (kind && (bits % 8 != 0 || (uint64_t)(bits / 8) != t->bytes))
        return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, (int64_t)at, "safetensors.size", anew,
                            "tensor '%.100s': %lld elements of %s are not the %llu bytes of its "
                            "range",
                            t->name, (long long)t->count, t->dtype, (unsigned long long)t->bytes);
    return ES_OK;
}

/* Reads the keys of an entry in any order and compares shape and range afterwards. Unknown keys
 * are skipped and counted for a warning: the format may grow. */
static es_status take_entry(reader *r, es_st_tensor *t)
{
    enum { DTYPE, SHAPE, OFFSETS, KEYS };
    static const char *const keys[KEYS] = {"dtype", "shape", "data_offsets"};
    bool seen[KEYS] = {false};
    es_json_list list;
    es_json_text key, dtype;
    es_json_kind(&r->j);
    const size_t at = r->j.at;
    for (int i = 0; i < ES_ST_RANK; i++)
        t->shape[i] = 1;
    ES_TRY(es_json_begin(&r->j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(&r->j, &list, &key));
        if (list.done)
            break;
        int which = 0;
        while (which < KEYS && !es_json_same(&key, keys[which]))
            which++;
        if (which < KEYS && seen[which])
            return bad_entry(r, key.at, "safetensors.duplicate", t->name, "has a duplicate key");
        if (which < KEYS)
            seen[which] = true;
        if (which == DTYPE) {
            ES_TRY(es_json_string(&r->j, &dtype));
            es_json_copy(&dtype, t->dtype, sizeof t->dtype);
        } else if (which == SHAPE) {
            ES_TRY(take_shape(r, t));
        } else if (which == OFFSETS) {
            ES_TRY(take_offsets(r, t));
        } else {
            r->extra_keys++;
            ES_TRY(es_json_skip(&r->j));
        }
    }
    for (int i = 0; i < KEYS; i++) {
        if (!seen[i])
            return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, (int64_t)at, "safetensors.entry",
                                anew, "tensor '%.100s' has no '%s'", t->name, keys[i]);
    }
    return check_size(r, at, t);
}

/* ---- the header ---- */

/* Reads "__metadata__", an object of strings, and checks it; it has no other use. */
static es_status take_metadata(reader *r)
{
    es_json_list list;
    es_json_text key, value;
    if (es_json_kind(&r->j) != '{')
        return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, (int64_t)r->j.at,
                            "safetensors.metadata", anew, "__metadata__ is not an object");
    ES_TRY(es_json_begin(&r->j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(&r->j, &list, &key));
        if (list.done)
            return ES_OK;
        if (es_json_kind(&r->j) != '"')
            return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, (int64_t)r->j.at,
                                "safetensors.metadata", anew,
                                "__metadata__ holds a value that is not a string");
        ES_TRY(es_json_string(&r->j, &value));
    }
}

/* Stores the name of a tensor in place: the terminator replaces its closing quote. The first pass
 * only copies it, for messages. */
static es_status take_name(reader *r, const es_json_text *key, es_st_tensor *t)
{
    if (!r->keep) {
        es_json_copy(key, r->shown, sizeof r->shown);
        t->name = r->shown;
        return ES_OK;
    }
    char *text = (char *)r->keep + key->at;
    const size_t size = es_json_decode(key, text);
    if (memchr(text, '\0', size))
        return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, (int64_t)key->at, "safetensors.name",
                            anew, "the name of a tensor holds a NUL character");
    text[size] = '\0';
    t->name = text;
    return ES_OK;
}

/* Reads the header twice. The first time (tensors NULL) every entry is checked and counted, so
 * that memory is allocated once and in proportion to the bytes of the file; the second time the
 * entries are stored. */
static es_status take_members(reader *r, es_st_tensor *tensors, int64_t *count)
{
    es_json_list list;
    es_json_text key;
    bool metadata = false;
    *count = 0;
    ES_TRY(es_json_begin(&r->j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(&r->j, &list, &key));
        if (list.done)
            return es_json_end(&r->j);
        if (!es_json_same(&key, "__metadata__")) {
            es_st_tensor checked = {0}, *t = tensors ? &tensors[*count] : &checked;
            ++*count;
            ES_TRY(take_name(r, &key, t));
            ES_TRY(take_entry(r, t));
            continue;
        }
        if (metadata)
            return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, (int64_t)key.at,
                                "safetensors.duplicate", anew, "duplicate key __metadata__");
        metadata = true;
        ES_TRY(take_metadata(r));
    }
}

/* ---- all tensors together ---- */

/* Compares two offsets; a - b would overflow. */
static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

/* Equal names are ordered by where they stand, so that the second of two is the one in the
 * message. */
int es_st_by_name(const void *a, const void *b)
{
    const es_st_tensor *s = a, *t = b;
    const int order = strcmp(s->name, t->name);
    return order ? order : compare((uintptr_t)s->name, (uintptr_t)t->name);
}

/* Tensors of no bytes come before the one that begins at the same place, else that would
 * overlap them. */
static int by_offset(const void *a, const void *b)
{
    const es_st_tensor *s = *(const es_st_tensor *const *)a, *t = *(const es_st_tensor *const *)b;
    const int order = compare(s->offset, t->offset);
    return order ? order : compare(s->bytes, t->bytes);
}

/* Refuses two tensors of the same name, escapes decoded. The tensors are sorted by name, so that n
 * - 1 comparisons suffice. */
static es_status check_names(const unsigned char *bytes, const es_st_tensor *tensors, int64_t count,
                             const char *file, es_error *err)
{
    for (int64_t i = 1; i < count; i++) {
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            return es_fail_file(
                err, ES_E_FORMAT, file, (int64_t)((const unsigned char *)tensors[i].name - bytes),
                "safetensors.duplicate", anew, "duplicate tensor name '%.100s'", tensors[i].name);
    }
    return ES_OK;
}

/* What check_ranges() needs to know besides the tensors. */
typedef struct data_range {
    uint64_t begin, end; /* of the data in the file */
    bool allow_trailing;
    const char *file;
} data_range;

/* Checks that each tensor, in order of offsets, begins where the previous one ends. */
static es_status check_ranges(const es_st_tensor *const *order, int64_t count,
                              const data_range *data, es_error *err)
{
    uint64_t at = data->begin;
    for (int64_t i = 0; i < count; i++) {
        const es_st_tensor *t = order[i];
        if (t->offset < at)
            return es_fail_file(err, ES_E_FORMAT, data->file, (int64_t)t->offset,
                                "safetensors.overlap", anew, "tensors '%.80s' and '%.80s' overlap",
                                order[i ? i - 1 : 0]->name, t->name);
        if (t->offset > at)
            return es_fail_file(err, ES_E_FORMAT, data->file, (int64_t)at, "safetensors.hole", anew,
                                "%llu bytes before tensor '%.100s' belong to no tensor",
                                (unsigned long long)(t->offset - at), t->name);
        at = t->offset + t->bytes;
    }
    const unsigned long long rest = data->end - at;
    if (rest && !data->allow_trailing)
        return es_fail_file(err, ES_E_FORMAT, data->file, (int64_t)at, "safetensors.trailing",
                            "download it again, or allow trailing bytes",
                            "%llu bytes follow the last tensor", rest);
    if (rest)
        es_log(ES_LOG_WARN, "%s: %llu bytes follow the last tensor", data->file, rest);
    return ES_OK;
}

/* Sorts pointers to the tensors by offset and checks the ranges; the tensors stay sorted by name.
 */
static es_status sort_and_check_ranges(const es_st_tensor *tensors, int64_t count,
                                       const data_range *data, es_mem_limit *budget, es_error *err)
{
    const es_st_tensor **order;
    ES_TRY(ES_MEM_NEW(budget, order, count, "the order of tensors", err));
    for (int64_t i = 0; i < count; i++)
        order[i] = &tensors[i];
    qsort(order, (size_t)count, sizeof *order, by_offset);
    const es_status status = check_ranges(order, count, data, err);
    es_mem_free(budget, order);
    return status;
}

/* Allocates memory after the first reading, when the header is known to be valid and its
 * entries are counted. The list of tensors takes at most a few times the bytes of the header. */
es_status es_st_parse(unsigned char *bytes, size_t header_end, uint64_t file_size, const char *file,
                      const es_st_opts *opts, es_st_tensor **tensors, int64_t *count, es_error *err)
{
    const es_json text = {bytes, 8, header_end, file, "safetensors", err, 0};
    const data_range data = {header_end, file_size, opts->allow_trailing, file};
    reader first = {.j = text, .data_size = file_size - header_end}, second = first;
    es_st_tensor *all;
    *tensors = NULL;
    ES_TRY(take_members(&first, NULL, count));
    ES_TRY(ES_MEM_NEW(opts->budget, all, *count, "the list of tensors", err));
    second.keep = bytes;
    es_status status = take_members(&second, all, count);
    if (status == ES_OK) {
        qsort(all, (size_t)*count, sizeof *all, es_st_by_name);
        status = check_names(bytes, all, *count, file, err);
    }
    if (status == ES_OK)
        status = sort_and_check_ranges(all, *count, &data, opts->budget, err);
    if (status != ES_OK) {
        es_mem_free(opts->budget, all);
        return status;
    }
    if (second.extra_keys)
        es_log(ES_LOG_WARN, "%s: ignored %lld unknown keys of tensors", file,
               (long long)second.extra_keys);
    *tensors = all;
    return ES_OK;
}
