/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_values.c : values of a GGUF's header by their keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "checkpoint/gguf_inside.h"

static const char anew[] = "write or download the file again";

const int es_gguf_widths[ES_GGUF_TYPES] = {
    [ES_GGUF_U8] = 1,  [ES_GGUF_I8] = 1,  [ES_GGUF_U16] = 2, [ES_GGUF_I16] = 2,
    [ES_GGUF_U32] = 4, [ES_GGUF_I32] = 4, [ES_GGUF_F32] = 4, [ES_GGUF_BOOL] = 1,
    [ES_GGUF_U64] = 8, [ES_GGUF_I64] = 8, [ES_GGUF_F64] = 8,
};

int es_gguf_compare(es_gguf_text a, es_gguf_text b)
{
    const int order = memcmp(a.at, b.at, a.size < b.size ? a.size : b.size);
    return order ? order : a.size < b.size ? -1 : a.size > b.size;
}

bool es_gguf_text_is(es_gguf_text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.at, word, text.size) == 0;
}

/* Compares a key with that of a value, for bsearch(). */
static int key_against(const void *key, const void *value)
{
    return es_gguf_compare(*(const es_gguf_text *)key, ((const es_gguf_value *)value)->key);
}

const es_gguf_value *es_gguf_find(const es_gguf_header *h, const char *key)
{
    const es_gguf_text text = {key, strlen(key)};
    return bsearch(&text, h->values, (size_t)h->values_count, sizeof *h->values, key_against);
}

/* Fails because a required key is missing. */
static es_status missing(const es_gguf_header *h, const char *key, es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, h->file, -1, "gguf.missing",
                        "convert the model with a newer program", "missing key '%s'", key);
}

/* Fails because a value has another type, or is out of range. */
static es_status wrong(const es_gguf_header *h, const es_gguf_value *v, const char *wanted,
                       es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, h->file, (int64_t)v->at, "gguf.value", anew,
                        "'%.*s' is not %s", v->key.size < 100 ? (int)v->key.size : 100, v->key.at,
                        wanted);
}

/* Returns a number of any type as f64. This is exact below 2^53; no accepted range goes beyond. */
static double number_at(const es_gguf_header *h, es_gguf_value_type type, size_t at)
{
    const uint64_t bits = es_gguf_little(h->bytes + at, es_gguf_widths[type]);
    const uint32_t low = (uint32_t)bits;
    float single;
    double real;
    memcpy(&single, &low, sizeof single);
    memcpy(&real, &bits, sizeof real);
    switch (type) {
    case ES_GGUF_I8:
        return (double)(int8_t)bits;
    case ES_GGUF_I16:
        return (double)(int16_t)bits;
    case ES_GGUF_I32:
        return (double)(int32_t)bits;
    case ES_GGUF_I64:
        return (double)(int64_t)bits;
    case ES_GGUF_F32:
        return (double)single;
    case ES_GGUF_F64:
        return real;
    default:
        return (double)bits;
    }
}

/* Returns whether a type holds integers. */
static bool is_whole(es_gguf_value_type type)
{
    return type != ES_GGUF_F32 && type != ES_GGUF_F64 && type != ES_GGUF_BOOL &&
           type != ES_GGUF_STRING && type != ES_GGUF_ARRAY;
}

/* Finds a number in a range. *found is NULL if the key is missing and not required. */
static es_status find_number(const es_gguf_header *h, const char *key, es_gguf_range range,
                             bool whole, const es_gguf_value **found, double *out, es_error *err)
{
    const es_gguf_value *v = es_gguf_find(h, key);
    char wanted[80];
    *found = v;
    if (!v)
        return range.required ? missing(h, key, err) : ES_OK;
    snprintf(wanted, sizeof wanted, "a %snumber from %g to %g", whole ? "whole " : "", range.min,
             range.max);
    const bool real = v->type == ES_GGUF_F32 || v->type == ES_GGUF_F64;
    if (!is_whole(v->type) && (whole || !real))
        return wrong(h, v, wanted, err);
    *out = number_at(h, v->type, v->at);
    return *out >= range.min && *out <= range.max ? ES_OK : wrong(h, v, wanted, err);
}

es_status es_gguf_whole(const es_gguf_header *h, const char *key, es_gguf_range range, int64_t *out,
                        es_error *err)
{
    const es_gguf_value *v;
    double value = 0;
    ES_TRY(find_number(h, key, range, true, &v, &value, err));
    if (v)
        *out = (int64_t)value;
    return ES_OK;
}

es_status es_gguf_real(const es_gguf_header *h, const char *key, es_gguf_range range, double *out,
                       es_error *err)
{
    const es_gguf_value *v;
    double value = 0;
    ES_TRY(find_number(h, key, range, false, &v, &value, err));
    if (v)
        *out = value;
    return ES_OK;
}

es_status es_gguf_flag(const es_gguf_header *h, const char *key, bool *out, es_error *err)
{
    const es_gguf_value *v = es_gguf_find(h, key);
    if (v && v->type != ES_GGUF_BOOL)
        return wrong(h, v, "true or false", err);
    if (v)
        *out = h->bytes[v->at] != 0;
    return ES_OK;
}

es_gguf_text es_gguf_next(const es_gguf_header *h, size_t *at)
{
    const es_gguf_text text = {(const char *)h->bytes + *at + 8,
                               (size_t)es_gguf_little(h->bytes + *at, 8)};
    *at += 8 + text.size;
    return text;
}

es_status es_gguf_string(const es_gguf_header *h, const char *key, bool required, es_gguf_text *out,
                         es_error *err)
{
    const es_gguf_value *v = es_gguf_find(h, key);
    if (!v)
        return required ? missing(h, key, err) : ES_OK;
    if (v->type != ES_GGUF_STRING)
        return wrong(h, v, "a string", err);
    size_t at = v->at;
    *out = es_gguf_next(h, &at);
    return ES_OK;
}

es_status es_gguf_array(const es_gguf_header *h, const char *key, bool required,
                        es_gguf_value_type item, es_gguf_value_type other,
                        const es_gguf_value **out, es_error *err)
{
    const es_gguf_value *v = es_gguf_find(h, key);
    *out = v;
    if (!v)
        return required ? missing(h, key, err) : ES_OK;
    if (v->type == ES_GGUF_ARRAY && (v->item == item || v->item == other))
        return ES_OK;
    return wrong(h, v,
                 item == ES_GGUF_STRING ? "an array of strings" : "an array of numbers of its type",
                 err);
}

double es_gguf_number(const es_gguf_header *h, const es_gguf_value *array, int64_t i)
{
    return number_at(h, array->item, array->at + (size_t)i * (size_t)es_gguf_widths[array->item]);
}
