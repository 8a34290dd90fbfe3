/* SPDX-License-Identifier: Apache-2.0 */
/* npy_header.c : parses the header of an .npy file, a Python dictionary, without trusting any
 * byte of it: every error names byte, rule and remedy. */
#include "store/npy_header.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "base/limits.h"

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* ---- magic and version ---- */

/* Fails for a file that is not .npy and says what it is, if its first bytes are known. */
static es_status bad_magic(const unsigned char *bytes, size_t have, const char *file, es_error *err)
{
    es_foreign other = es_foreign_of(bytes, have);
    /* safetensors: a 64-bit length, small enough to leave its upper bytes 0, and then a '{' */
    if (!other.name && have >= 9 && bytes[8] == '{' && bytes[5] == 0 && bytes[6] == 0 &&
        bytes[7] == 0)
        other = (es_foreign){"a safetensors file", "this reads one matrix from an .npy file"};
    if (other.name)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, 0, "npy.magic.other", other.hint,
                            "this is %s, not an .npy file", other.name);
    return es_fail_file(err, ES_E_FORMAT, file, 0, "npy.magic", "write it with np.save",
                        have ? "the file does not begin with \\x93NUMPY" : "the file is empty");
}

es_status es_npy_extent(const unsigned char *bytes, size_t have, uint64_t file_size,
                        const char *file, size_t *extent, es_error *err)
{
    if (have < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return bad_magic(bytes, have, file, err);
    if (have < 8)
        return es_fail_file(err, ES_E_FORMAT, file, (int64_t)have, "npy.truncated", "write it anew",
                            "the file ends before its version number");
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, 6, "npy.version", "write it with np.save",
                            "format version %d.%d; known are 1.0, 2.0 and 3.0", bytes[6], bytes[7]);
    const size_t text = bytes[6] == 1 ? 10 : 12; /* where the header text begins */
    if (have < text)
        return es_fail_file(err, ES_E_FORMAT, file, (int64_t)have, "npy.truncated", "write it anew",
                            "the file ends before the length of its header");
    uint64_t size = 0;
    for (size_t i = text; i > 8; i--)
        size = size << 8 | bytes[i - 1];
    if (size > file_size - text)
        return es_fail_file(err, ES_E_FORMAT, file, 8, "npy.header.size", "write it anew",
                            "the header claims %llu bytes, the file has %llu after it begins",
                            (unsigned long long)size, (unsigned long long)(file_size - text));
    if (size > ES_NPY_HEADER_MOST)
        return es_fail_file(err, ES_E_FORMAT, file, 8, "npy.header.size", "write it with np.save",
                            "the header claims %llu bytes; the most accepted is %d",
                            (unsigned long long)size, (int)ES_NPY_HEADER_MOST);
    *extent = text + (size_t)size;
    return ES_OK;
}

/* ---- the header text: a Python dictionary of three known keys ---- */

/* Where the parser of a header is, for offsets in errors. */
typedef struct cursor {
    const unsigned char *bytes;
    size_t at, end; /* offsets in the file */
    const char *file;
    es_error *err;
} cursor;

/* A string of the header: where it is and what it says. */
typedef struct word {
    size_t at;
    char text[32];
} word;

/* The contents of the dictionary, before they are checked for what is supported. */
typedef struct dictionary {
    word descr;
    bool fortran_order;
    size_t fortran_at, shape_at; /* offsets of the values; 0 while the key was not seen */
    int rank;
    int64_t shape[ES_NPY_RANK_MOST];
} dictionary;

/* Fails at the cursor: something else is where `expected` should be, or the header ends. */
static es_status broken(const cursor *c, const char *rule, const char *expected)
{
    if (c->at >= c->end)
        return es_fail_file(c->err, ES_E_FORMAT, c->file, (int64_t)c->at, rule,
                            "write it with np.save", "the header ends where %s should be",
                            expected);
    return es_fail_file(c->err, ES_E_FORMAT, c->file, (int64_t)c->at, rule, "write it with np.save",
                        "byte 0x%02x in the header where %s should be", c->bytes[c->at], expected);
}

/* Skips white space. */
static void skip_space(cursor *c)
{
    while (c->at < c->end && memchr(" \t\r\n", c->bytes[c->at], 4))
        c->at++;
}

/* Skips white space, then `byte`; returns false if another byte is next. */
static bool take(cursor *c, unsigned char byte)
{
    skip_space(c);
    if (c->at >= c->end || c->bytes[c->at] != byte)
        return false;
    c->at++;
    return true;
}

/* Returns true if the next byte is `byte`. */
static bool next_is(const cursor *c, unsigned char byte)
{
    return c->at < c->end && c->bytes[c->at] == byte;
}

/* A quoted string of plain characters. Escapes are not needed by any header we can use. */
static es_status take_word(cursor *c, const char *rule, const char *expected, word *out)
{
    skip_space(c);
    if (!next_is(c, '\'') && !next_is(c, '"'))
        return broken(c, rule, expected);
    const unsigned char quote = c->bytes[c->at++];
    size_t used = 0;
    for (out->at = c->at; !next_is(c, quote); c->at++) {
        if (c->at >= c->end || c->bytes[c->at] < 0x20 || c->bytes[c->at] > 0x7e ||
            c->bytes[c->at] == '\\' || used + 1 >= sizeof out->text)
            return broken(c, rule, "the end of a short plain string");
        out->text[used++] = (char)c->bytes[c->at];
    }
    out->text[used] = '\0';
    c->at++;
    return ES_OK;
}

/* Skips white space and a literal; false, and nothing is skipped, if it is not there. */
static bool take_literal(cursor *c, const char *literal)
{
    const size_t size = strlen(literal);
    skip_space(c);
    if (c->end - c->at < size || memcmp(c->bytes + c->at, literal, size) != 0)
        return false;
    c->at += size;
    return true;
}

/* One dimension: decimal digits, no sign, no leading zero; an L after them is Python 2. */
static es_status take_dimension(cursor *c, int64_t *out)
{
    static const char rule[] = "npy.header.shape";
    const size_t first = c->at;
    int64_t value = 0;
    for (; c->at < c->end && c->bytes[c->at] >= '0' && c->bytes[c->at] <= '9'; c->at++) {
        const int digit = c->bytes[c->at] - '0';
        if (c->at > first && value == 0)
            return broken(c, rule, "a number without leading zeros");
        value = value * 10 + digit;
        if (value > ES_MAX_ROWS)
            return broken(c, rule, "a dimension of at most 2^40");
    }
    if (c->at == first)
        return broken(c, rule, "a dimension");
    if (next_is(c, 'L'))
        c->at++;
    *out = value;
    return ES_OK;
}

/* (), (3,) or (3, 4) with or without a last comma. (3) is a number in Python, not a shape. */
static es_status take_shape(cursor *c, dictionary *d)
{
    static const char rule[] = "npy.header.shape";
    skip_space(c);
    d->shape_at = c->at;
    if (!take(c, '('))
        return broken(c, rule, "a tuple such as (3, 4)");
    bool comma = true;
    for (d->rank = 0; !take(c, ')'); d->rank++) {
        if (!comma)
            return broken(c, rule, "a comma or ')'");
        if (d->rank == ES_NPY_RANK_MOST)
            return broken(c, rule, "the end of a shape of at most 64 dimensions");
        ES_TRY(take_dimension(c, &d->shape[d->rank]));
        comma = take(c, ',');
    }
    if (d->rank == 1 && !comma) {
        c->at--;
        return broken(c, rule, "a comma after the only dimension");
    }
    return ES_OK;
}

/* Reads the dtype. A list means a structured dtype, which is refused. */
static es_status take_descr(cursor *c, dictionary *d)
{
    skip_space(c);
    if (next_is(c, '[') || next_is(c, '('))
        return es_fail_file(c->err, ES_E_UNSUPPORTED, c->file, (int64_t)c->at, "npy.dtype",
                            "save one field, e.g. np.save(name, x['field'].astype('float32'))",
                            "a structured dtype is not a matrix of numbers");
    return take_word(c, "npy.header.descr", "a quoted dtype such as '<f4'", &d->descr);
}

/* Reads True or False. */
static es_status take_fortran_order(cursor *c, dictionary *d)
{
    skip_space(c);
    d->fortran_at = c->at;
    d->fortran_order = take_literal(c, "True");
    return d->fortran_order || take_literal(c, "False")
               ? ES_OK
               : broken(c, "npy.header.fortran_order", "True or False");
}

/* Reads one key and its value; an unknown or repeated key is an error. */
static es_status take_entry(cursor *c, dictionary *d)
{
    static const struct {
        const char *name;
        es_status (*take)(cursor *, dictionary *);
    } keys[] = {
        {"descr", take_descr}, {"fortran_order", take_fortran_order}, {"shape", take_shape}};
    const size_t *seen[] = {&d->descr.at, &d->fortran_at, &d->shape_at};

    word key;
    ES_TRY(take_word(c, "npy.header.key", "a quoted key", &key));
    for (int i = 0; i < 3; i++) {
        if (strcmp(key.text, keys[i].name) != 0)
            continue;
        if (*seen[i])
            return es_fail_file(c->err, ES_E_FORMAT, c->file, (int64_t)key.at,
                                "npy.header.duplicate", "write it with np.save",
                                "key '%s' appears twice", key.text);
        if (!take(c, ':'))
            return broken(c, "npy.header.dict", "a colon");
        return keys[i].take(c, d);
    }
    return es_fail_file(c->err, ES_E_FORMAT, c->file, (int64_t)key.at, "npy.header.key",
                        "write it with np.save",
                        "unknown key '%s'; known are descr, fortran_order and shape", key.text);
}

/* Reads the whole dictionary, which NumPy writes as a Python literal. */
static es_status take_dictionary(cursor *c, dictionary *d)
{
    if (!take(c, '{'))
        return broken(c, "npy.header.dict", "a dictionary");
    bool comma = true;
    while (!take(c, '}')) {
        if (!comma)
            return broken(c, "npy.header.dict", "a comma or '}'");
        ES_TRY(take_entry(c, d));
        comma = take(c, ',');
    }
    const char *missing = !d->descr.at     ? "descr"
                          : !d->fortran_at ? "fortran_order"
                          : !d->shape_at   ? "shape"
                                           : NULL;
    if (missing)
        return es_fail_file(c->err, ES_E_FORMAT, c->file, (int64_t)c->at - 1, "npy.header.missing",
                            "write it with np.save", "the header has no key '%s'", missing);
    skip_space(c);
    return c->at == c->end ? ES_OK : broken(c, "npy.header.end", "padding");
}

/* ---- what the dictionary means ---- */

/* Names a kind of dtype for the error that refuses it. */
static const char *kind_name(char kind)
{
    static const struct {
        char kind;
        const char *name;
    } kinds[] = {{'i', "signed integers"},
                 {'u', "unsigned integers"},
                 {'b', "booleans"},
                 {'c', "complex numbers"},
                 {'S', "text"},
                 {'a', "text"},
                 {'U', "text"},
                 {'M', "dates"},
                 {'m', "time differences"},
                 {'V', "raw bytes"},
                 {'f', "floats of another size"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].kind == kind)
            return kinds[i].name;
    }
    return "of a kind unknown here";
}

/* '<' and '>' say the byte order, '=' and '|' leave it to the machine, as they do in NumPy. */
static es_status understand_dtype(const cursor *c, const word *descr, es_npy_raw raw,
                                  es_npy_layout *out)
{
    const char *text = descr->text;
    const bool ordered = *text && strchr("<>=|", *text);
    const char *kind = ordered ? text + 1 : text;
    if (*kind == 'O')
        return es_fail_file(c->err, ES_E_UNSUPPORTED, c->file, (int64_t)descr->at, "npy.pickle",
                            "a pickle runs code when it is read; save numbers with np.save(name, "
                            "x.astype('float32'))",
                            "dtype '%s' holds Python objects, stored as a pickle", text);
    out->swap = *text == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '>' : '<');
    out->bf16 = ordered && *kind && strchr("uiV", *kind) && strcmp(kind + 1, "2") == 0;
    if (out->bf16 && raw == ES_NPY_RAW_BF16) {
        out->item = 2;
        out->info.dtype = ES_F32;
        memcpy(out->info.descr, "BF16", 5);
        return ES_OK;
    }
    if (raw == ES_NPY_RAW_WHOLE && ordered && (*kind == 'i' || *kind == 'u') && kind[1] &&
        strchr("1248", kind[1]) && !kind[2]) {
        out->whole = *kind;
        out->bf16 = false;
        out->item = (size_t)(kind[1] - '0');
        out->info.dtype = ES_F64;
        memcpy(out->info.descr, text, 4);
        return ES_OK;
    }
    if (!ordered || *kind != 'f' || !strchr("248", kind[1]) || !kind[1] || kind[2])
        return es_fail_file(c->err, ES_E_UNSUPPORTED, c->file, (int64_t)descr->at, "npy.dtype",
                            out->bf16 ? "np.save(name, x.astype('float32')); measure --bf16 takes "
                                        "such items for bfloat16"
                                      : "np.save(name, x.astype('float32'))",
                            "dtype '%s' (%s) is not read; f2, f4 and f8 are", text,
                            kind_name(*kind));
    out->item = (size_t)(kind[1] - '0');
    out->info.dtype = out->item == 8 ? ES_F64 : ES_F32;
    memcpy(out->info.descr, text, 4); /* e.g. "<f4" and its terminator */
    return ES_OK;
}

bool es_npy_bytes(es_dtype dtype, int rank, const int64_t *shape, int64_t *bytes)
{
    int64_t product = (int64_t)es_dtype_size(dtype);
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        empty = empty || shape[i] == 0;
        if (shape[i] && !es_mul_i64(product, shape[i], &product))
            return false;
    }
    *bytes = empty ? 0 : product;
    return true;
}

/* Checks rank and size of the array; the product of the dimensions must not overflow. */
static es_status understand_shape(const cursor *c, const dictionary *d, es_npy_layout *out)
{
    const int64_t at = (int64_t)d->shape_at;
    if (d->rank < 1 || d->rank > ES_ARRAY_RANK)
        return es_fail_file(c->err, ES_E_UNSUPPORTED, c->file, at, "npy.rank",
                            "np.save(name, x.reshape(rows, columns))",
                            "the array has %d dimensions; 1 to %d are read", d->rank,
                            (int)ES_ARRAY_RANK);
    if (!es_npy_bytes(out->info.dtype, d->rank, d->shape, &out->info.bytes))
        return es_fail_file(c->err, ES_E_FORMAT, c->file, at, "npy.shape.overflow",
                            "write it with np.save", "the size of the array overflows 64 bits");
    out->info.rank = d->rank;
    for (int i = 0; i < ES_ARRAY_RANK; i++)
        out->info.shape[i] = i < d->rank ? d->shape[i] : 1;
    out->count = out->info.bytes / (int64_t)es_dtype_size(out->info.dtype);
    return ES_OK;
}

/* Compares the size that the shape needs with that of the file: less is truncated, more is
 * refused. */
static es_status check_data(const cursor *c, const es_npy_layout *out, uint64_t file_size)
{
    const uint64_t wanted = (uint64_t)out->count * out->item, have = file_size - out->data_offset;
    if (have < wanted)
        return es_fail_file(c->err, ES_E_FORMAT, c->file, (int64_t)file_size, "npy.data.short",
                            "the file was cut short: write or download it anew",
                            "the shape needs %llu bytes of data, the file has %llu",
                            (unsigned long long)wanted, (unsigned long long)have);
    if (have > wanted)
        return es_fail_file(c->err, ES_E_FORMAT, c->file, (int64_t)(out->data_offset + wanted),
                            "npy.data.trailing", "keep one array per file",
                            "%llu bytes follow the last number",
                            (unsigned long long)(have - wanted));
    return ES_OK;
}

es_status es_npy_parse(const unsigned char *bytes, size_t extent, uint64_t file_size,
                       const char *file, es_npy_raw raw, es_npy_layout *out, es_error *err)
{
    cursor c = {.bytes = bytes, .at = bytes[6] == 1 ? 10 : 12, .end = extent, file, err};
    dictionary d = {0};
    *out = (es_npy_layout){.data_offset = extent};
    ES_TRY(take_dictionary(&c, &d));
    ES_TRY(understand_dtype(&c, &d.descr, raw, out));
    if (d.fortran_order)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, (int64_t)d.fortran_at, "npy.fortran",
                            "np.save(name, np.ascontiguousarray(x))",
                            "the array is stored in Fortran order, column by column");
    ES_TRY(understand_shape(&c, &d, out));
    return check_data(&c, out, file_size);
}

/* ---- the numbers ---- */

/* An integer of `item` bytes in this machine's order. */
static double whole_of(const unsigned char *number, size_t item, bool negative)
{
    uint64_t bits = 0;
    for (size_t b = 0; b < item; b++) {
        const size_t at = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? item - 1 - b : b;
        bits = bits << 8 | number[at];
    }
    const uint64_t sign = (uint64_t)1 << (8 * item - 1);
    if (!negative || !(bits & sign))
        return (double)bits;
    return -(double)(((~bits) & (sign | (sign - 1))) + 1); /* two's complement */
}

void es_npy_decode(const es_npy_layout *layout, const unsigned char *raw, size_t count, void *out)
{
    const size_t item = layout->item;
    for (size_t i = 0; i < count; i++) {
        unsigned char number[8];
        for (size_t b = 0; b < item; b++)
            number[b] = raw[i * item + (layout->swap ? item - 1 - b : b)];
        if (layout->whole) {
            ((double *)out)[i] = whole_of(number, item, layout->whole == 'i');
        } else if (item == 2) {
            uint16_t half;
            memcpy(&half, number, sizeof half);
            ((float *)out)[i] = layout->bf16 ? es_bf16_to_float(half) : es_half_to_float(half);
        } else {
            memcpy((char *)out + i * item, number, item);
        }
    }
}

/* ---- writing ---- */

size_t es_npy_header_write(size_t item, int rank, const int64_t *shape,
                           char header[ES_NPY_WRITTEN_MOST])
{
    static const char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
    const size_t most = ES_NPY_WRITTEN_MOST;
    size_t used = 10;
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    used += (size_t)snprintf(header + used, most - used,
                             "{'descr': '%cf%zu', 'fortran_order': False, 'shape': (", order, item);
    for (int i = 0; i < rank; i++)
        used += (size_t)snprintf(header + used, most - used, i ? " %lld," : "%lld,",
                                 (long long)shape[i]);
    if (rank > 1)
        used--; /* (3, 4), but (3,) */
    used += (size_t)snprintf(header + used, most - used, "), }");
    const size_t size = (used + 64) / 64 * 64;
    memset(header + used, ' ', size - used);
    header[size - 1] = '\n';
    header[8] = (char)(size - 10); /* below 256, so the second byte of the length is 0 */
    header[9] = 0;
    return size;
}
