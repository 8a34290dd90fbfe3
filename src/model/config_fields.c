/* SPDX-License-Identifier: Apache-2.0 */
/* config_fields.c : reads the keys of config.json that a table of fields describes. */
#include "model/config_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- values ---- */

bool es_word_among(const char *word, const char *list)
{
    for (const char *at = list; *word && *at; at += strcspn(at, "|"), at += *at == '|') {
        const size_t length = strcspn(at, "|");
        if (strlen(word) == length && memcmp(word, at, length) == 0)
            return true;
    }
    return false;
}

/* Fails with the value found and the range expected, so that the user can correct the file. */
static es_status bad_value(const es_json *j, size_t at, const es_config_field *f, const char *is)
{
    return es_fail_file(j->err, ES_E_FORMAT, j->file, (int64_t)at, "config.range",
                        "check that this config.json came with the weights",
                        "%s is %s; it should be a %snumber from %g to %g", f->key, is,
                        f->kind == ES_FIELD_WHOLE ? "whole " : "", f->min, f->max);
}

/* Reads a number in [min, max]. Sizes are bounded here so that no product of a few of them
 * overflows. */
static es_status take_number(es_json *j, const es_config_field *f, void *out)
{
    double value;
    const unsigned char first = es_json_kind(j);
    const size_t at = j->at;
    if (first == 'n' && (f->nullable || f->kind == ES_FIELD_CAP)) {
        if (f->kind == ES_FIELD_WHOLE) /* stated as nothing, whatever it is where not stated */
            *(int64_t *)out = 0;
        return es_json_skip(j);
    }
    if (first != '-' && (first < '0' || first > '9'))
        return bad_value(j, at, f,
                         first == '"'   ? "text"
                         : first == 'n' ? "null"
                         : first == 'N' ? "NaN"
                         : first == 'I' ? "Infinity"
                                        : "no number");
    ES_TRY(es_json_number(j, &value));
    const bool whole = f->kind != ES_FIELD_WHOLE ||
                       (value >= -9e15 && value <= 9e15 && (double)(int64_t)value == value);
    if (!(value >= f->min && value <= f->max) || !whole)
        return bad_value(j, at, f, value < 0 ? "negative" : value == 0 ? "0" : "out of range");
    if (f->kind == ES_FIELD_WHOLE)
        *(int64_t *)out = (int64_t)value;
    else
        *(double *)out = value;
    return ES_OK;
}

/* Reads a string, cut at 64 bytes: no word that is compared is longer, so a cut word equals none of
 * them. null leaves `out` as it is. */
static es_status take_word(es_json *j, char out[ES_CONFIG_WORD])
{
    es_json_text text;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_string(j, &text));
    es_json_copy(&text, out, ES_CONFIG_WORD);
    return ES_OK;
}

/* Reads the first string of an array. null leaves `out` as it is. */
static es_status take_first(es_json *j, char out[ES_CONFIG_WORD])
{
    es_json_list list;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_begin(j, '[', &list));
    for (bool first = true;; first = false) {
        ES_TRY(es_json_next(j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(first ? take_word(j, out) : es_json_skip(j));
    }
}

/* Returns the index that a key of id2label states in digits, -1 if it states none or one that is
 * too large. */
static int place_of_label(const es_json_text *key)
{
    char digits[4];
    es_json_copy(key, digits, sizeof digits);
    const size_t length = strspn(digits, "0123456789");
    const int at = atoi(digits);
    return length > 0 && !digits[length] && key->size == length && at < ES_MODEL_LABELS ? at : -1;
}

/* Reads names of labels: {"0": "NEGATIVE", "1": "POSITIVE"}. Entries that are no names count, too.
 */
static es_status take_labels(es_json *j, es_model_config *c)
{
    es_json_list list;
    es_json_text key;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_begin(j, '{', &list));
    for (c->labels = 0;; c->labels++) {
        ES_TRY(es_json_next(j, &list, &key));
        if (list.done)
            return ES_OK;
        const int at = es_json_kind(j) == '"' ? place_of_label(&key) : -1;
        ES_TRY(at >= 0 ? take_word(j, c->label[at]) : es_json_skip(j));
    }
}

/* Reads a value that must be empty: null, false, a number from min to 0, "", [] or {}. Any other
 * value is copied to `is`, for the message. */
static es_status take_none(es_json *j, double min, char is[ES_CONFIG_WORD])
{
    const unsigned char kind = es_json_kind(j);
    const size_t begin = j->at;
    double number = 1.0;
    if (kind == '-' || (kind >= '0' && kind <= '9'))
        ES_TRY(es_json_number(j, &number));
    else
        ES_TRY(es_json_skip(j));
    const size_t size = j->at - begin;
    const bool empty = strchr("\"[{", kind) && size == 2;
    if (kind == 'n' || kind == 'f' || (number >= min && number <= 0.0) || empty)
        return ES_OK;
    snprintf(is, ES_CONFIG_WORD, "%s", kind == '{' ? "an object" : kind == '[' ? "a list" : "");
    if (!*is)
        snprintf(is, ES_CONFIG_WORD, "%.*s", (int)(size < 40 ? size : 40),
                 (const char *)j->bytes + begin);
    return ES_OK;
}

/* Reads true or false. null leaves *out as it is. */
static es_status take_boolean(es_json *j, bool *out)
{
    return es_json_kind(j) == 'n' ? es_json_skip(j) : es_json_boolean(j, out);
}

/* Reads a value that must be true; else `is` is "false", for the message. */
static es_status take_true(es_json *j, char is[ES_CONFIG_WORD])
{
    bool value = true;
    ES_TRY(take_boolean(j, &value));
    snprintf(is, ES_CONFIG_WORD, "%s", value ? "" : "false");
    return ES_OK;
}

/* Reads which layers have the window: those that are sliding_attention. The first word that is
 * neither this nor full_attention is stored for the message. Layers beyond ES_MODEL_LAYERS are
 * counted and not stored. */
static es_status take_layers(es_json *j, es_layers_stated *out)
{
    es_json_list list;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_begin(j, '[', &list));
    for (out->types = 0;; out->types++) {
        char word[ES_CONFIG_WORD] = "null";
        ES_TRY(es_json_next(j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(take_word(j, word));
        const bool sliding = strcmp(word, "sliding_attention") == 0;
        if (!sliding && strcmp(word, "full_attention") != 0 && !*out->other)
            snprintf(out->other, sizeof out->other, "%s", *word ? word : "empty");
        if (out->types < ES_MODEL_LAYERS)
            out->sliding[out->types] = sliding;
    }
}

/* Reads which layers rotate queries and keys: 1 where they do, 0 where they do not. */
static es_status take_turns(es_json *j, const es_config_field *f, es_layers_stated *out)
{
    const es_config_field flag = {f->key, ES_FIELD_WHOLE, .min = 0, .max = 1};
    es_json_list list;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_begin(j, '[', &list));
    for (out->turns = 0;; out->turns++) {
        int64_t turns = 0;
        ES_TRY(es_json_next(j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(take_number(j, &flag, &turns));
        if (out->turns < ES_MODEL_LAYERS)
            out->turning[out->turns] = turns != 0;
    }
}

/* Reads the numbers of the layers without experts; numbers beyond the last layer have no effect. */
static es_status take_dense(es_json *j, const es_config_field *f, es_layers_stated *out)
{
    const es_config_field number = {f->key, ES_FIELD_WHOLE, .min = 0, .max = 1 << 20};
    es_json_list list;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_begin(j, '[', &list));
    for (;;) {
        int64_t layer = 0;
        ES_TRY(es_json_next(j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(take_number(j, &number, &layer));
        if (layer < ES_MODEL_LAYERS)
            out->dense[layer] = true;
    }
}

/* Reads the word quant_method of an object, or says that the object has none. */
static es_status take_method(es_json *j, char out[ES_CONFIG_WORD])
{
    es_json_list list;
    es_json_text key;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    snprintf(out, ES_CONFIG_WORD, "an object without quant_method");
    ES_TRY(es_json_begin(j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(j, &list, &key));
        if (list.done)
            return ES_OK;
        ES_TRY(es_json_same(&key, "quant_method") ? take_word(j, out) : es_json_skip(j));
    }
}

/* Reads a number, or a word such as "LLLG", L up to one last G, which stands for its length. */
static es_status take_period(es_json *j, const es_config_field *f, int64_t *out)
{
    const size_t at = j->at;
    char word[ES_CONFIG_WORD] = "";
    const es_config_field number = {f->key, ES_FIELD_WHOLE, .min = f->min, .max = f->max,
                                    .nullable = true};
    if (es_json_kind(j) != '"')
        return take_number(j, &number, out);
    ES_TRY(take_word(j, word));
    const size_t length = strlen(word);
    if (length < 1 || strspn(word, "L") != length - 1 || word[length - 1] != 'G')
        return bad_value(j, at, f, "text");
    *out = (int64_t)length;
    return ES_OK;
}

/* Reads the positive numbers that divide the frequencies. */
static es_status take_factors(es_json *j, const es_config_field *f, int64_t *count, double *out)
{
    const es_config_field factor = {f->key, ES_FIELD_REAL, .min = 1e-6, .max = 1e9};
    es_json_list list;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_begin(j, '[', &list));
    for (*count = 0;; ++*count) {
        double number = 0.0;
        ES_TRY(es_json_next(j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(take_number(j, &factor, &number));
        if (*count < ES_ROTARY_FACTORS)
            out[*count] = number;
    }
}

/* Stores where an object begins, and checks that it is JSON. */
static es_status take_object(es_config_reading *r, int which)
{
    if (es_json_kind(r->j) != 'n')
        r->object[which] = *r->j;
    return es_json_skip(r->j);
}

/* Reads a number, and notes a rope_theta that is stated outside of objects. */
static es_status take_real(es_config_reading *r, const es_config_field *f, void *out)
{
    ES_TRY(take_number(r->j, f, out));
    if (f->at == ES_CONFIG(rotary.theta))
        r->theta = r->draft->config.rotary.theta;
    return ES_OK;
}

/* Reads one value of config.json into the place and by the rule that its field names. Every
 * kind of field has its own function, so that a new architecture is a table and no code. */
static es_status take_field(es_config_reading *r, int which)
{
    const es_config_field *f = &r->fields[which];
    es_rotary *rotary = &r->draft->config.rotary;
    void *out = (char *)r->draft + f->at;
    switch (f->kind) {
    case ES_FIELD_WHOLE:
        return take_number(r->j, f, out);
    case ES_FIELD_REAL:
        return take_real(r, f, out);
    case ES_FIELD_WORD:
        return take_word(r->j, f->only ? r->word[which] : out);
    case ES_FIELD_BOOL:
        return take_boolean(r->j, out);
    case ES_FIELD_CAP:
        *(double *)out = 0.0;
        return take_number(r->j, f, out);
    case ES_FIELD_SKIP:
        return es_json_skip(r->j);
    case ES_FIELD_NONE:
        return take_none(r->j, f->min, r->word[which]);
    case ES_FIELD_TRUE:
        return take_true(r->j, r->word[which]);
    case ES_FIELD_FIRST:
        return take_first(r->j, out);
    case ES_FIELD_LAYERS:
        return take_layers(r->j, &r->draft->layers);
    case ES_FIELD_TURNS:
        return take_turns(r->j, f, &r->draft->layers);
    case ES_FIELD_DENSE:
        return take_dense(r->j, f, &r->draft->layers);
    case ES_FIELD_METHOD:
        return take_method(r->j, r->word[which]);
    case ES_FIELD_PERIOD:
        return take_period(r->j, f, out);
    case ES_FIELD_OBJECT:
        return take_object(r, which);
    case ES_FIELD_SHORT:
        return take_factors(r->j, f, &rotary->short_count, rotary->short_factor);
    case ES_FIELD_LONG:
        return take_factors(r->j, f, &rotary->long_count, rotary->long_factor);
    default:
        return take_labels(r->j, &r->draft->config);
    }
}

es_status es_config_take_fields(es_config_reading *r)
{
    es_json_list list;
    es_json_text key;
    ES_TRY(es_json_begin(r->j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(r->j, &list, &key));
        if (list.done)
            return ES_OK;
        int which = 0;
        while (r->fields[which].key && !es_json_same(&key, r->fields[which].key))
            which++;
        if (!r->fields[which].key) {
            ES_TRY(r->take_other ? r->take_other(r, &key) : es_json_skip(r->j));
            continue;
        }
        if (r->seen[which])
            return es_fail_file(r->j->err, ES_E_FORMAT, r->j->file, (int64_t)key.at,
                                "config.duplicate", "keep one of them", "duplicate key %s",
                                r->fields[which].key);
        r->seen[which] = true;
        ES_TRY(take_field(r, which));
    }
}

/* ---- checks ---- */

es_status es_config_check_values(const es_config_reading *r)
{
    for (int i = 0; r->fields[i].key; i++) {
        const es_config_field *f = &r->fields[i];
        if (!*r->word[i])
            continue;
        if (f->only && es_word_among(r->word[i], f->only)) {
            if (f->at)
                memcpy((char *)r->draft + f->at, r->word[i], ES_CONFIG_WORD);
            continue;
        }
        return es_fail_file(r->j->err, ES_E_UNSUPPORTED, r->j->file, -1,
                            f->rule ? f->rule : "config.function",
                            f->hint ? f->hint : "only models without it are supported",
                            f->only ? "%s is '%s'" : "%s is %s", f->key, r->word[i]);
    }
    return ES_OK;
}

es_status es_config_check_complete(const es_config_reading *r)
{
    for (int i = 0; r->fields[i].key; i++) {
        const bool null = r->fields[i].only && !*r->word[i];
        if (r->fields[i].required && (!r->seen[i] || null))
            return es_fail_file(r->j->err, ES_E_FORMAT, r->j->file, -1, "config.missing",
                                "check that this config.json came with the weights", "missing %s",
                                r->fields[i].key);
    }
    return ES_OK;
}
