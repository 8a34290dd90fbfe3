/* SPDX-License-Identifier: Apache-2.0 */
/* config_json.c : config.json read by the descriptions of architectures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "checkpoint/json.h"
#include "model/arch.h"
#include "model/gguf_model.h"
#include "model/model_inside.h"
#include "store/file.h"

/* ---- values of config.json ---- */

enum {
    CONFIG_MOST = 1 << 20, /* bytes; real ones have one or two thousand */
    WORD_MOST = 64         /* bytes of a word that is kept, its NUL included */
};

/* A table of fields while a file is read. Words that may have one value only are kept until the
 * end: the caller decides in which order to complain. */
typedef struct reading reading;
struct reading {
    es_json *j;
    const es_config_field *fields;
    bool seen[ES_ARCH_FIELDS];
    char word[ES_ARCH_FIELDS][WORD_MOST]; /* of NONE and TRUE: what it is instead */
    es_json object[ES_ARCH_FIELDS];       /* of OBJECT: where it begins, unless it is null */
    es_config_draft *draft;
    es_status (*take_other)(reading *r, const es_json_text *key); /* NULL: other keys are skipped */
    const char *name; /* of the object, where keys of it are refused */
    double theta;     /* that a key outside of objects states; 0: none */
};

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

/* A number in [min, max]. Sizes are bounded here so that no product of a few of them overflows. */
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

/* Cut at 64 bytes: no word that is compared is longer, so a cut one is simply another word. */
static es_status take_word(es_json *j, char out[WORD_MOST])
{
    es_json_text text;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_string(j, &text));
    es_json_copy(&text, out, WORD_MOST);
    return ES_OK;
}

/* The first string of an array; null is as if it were not there. */
static es_status take_first(es_json *j, char out[WORD_MOST])
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

/* The place of a label whose key is its number in digits; -1: no such key, or no place. */
static int place_of_label(const es_json_text *key)
{
    char digits[4];
    es_json_copy(key, digits, sizeof digits);
    const size_t length = strspn(digits, "0123456789");
    const int at = atoi(digits);
    return length > 0 && !digits[length] && key->size == length && at < ES_MODEL_LABELS ? at : -1;
}

/* {"0": "NEGATIVE", "1": "POSITIVE"}; what is no name is counted all the same. */
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

/* Something that must be nothing: null, false, a number from min to 0, "", [] or {}. What it is
 * instead goes into `is`, for the message. */
static es_status take_none(es_json *j, double min, char is[WORD_MOST])
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
    snprintf(is, WORD_MOST, "%s", kind == '{' ? "an object" : kind == '[' ? "a list" : "");
    if (!*is)
        snprintf(is, WORD_MOST, "%.*s", (int)(size < 40 ? size : 40),
                 (const char *)j->bytes + begin);
    return ES_OK;
}

static es_status take_boolean(es_json *j, bool *out)
{
    return es_json_kind(j) == 'n' ? es_json_skip(j) : es_json_boolean(j, out);
}

/* Something that must be true. */
static es_status take_true(es_json *j, char is[WORD_MOST])
{
    bool value = true;
    ES_TRY(take_boolean(j, &value));
    snprintf(is, WORD_MOST, "%s", value ? "" : "false");
    return ES_OK;
}

/* Which layers have the window: those that are not full_attention. A word that is neither is kept
 * for the message. Layers beyond those that a model may have are counted and not stored. */
static es_status take_layers(es_json *j, es_layers_stated *out)
{
    es_json_list list;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_begin(j, '[', &list));
    for (out->types = 0;; out->types++) {
        char word[WORD_MOST] = "null";
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

/* Which layers turn: 1 where they do, 0 where they do not. */
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

/* Numbers of layers without experts; those beyond the last have no effect. */
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

/* The word quant_method of an object; the object itself stands for one that is missing. */
static es_status take_method(es_json *j, char out[WORD_MOST])
{
    es_json_list list;
    es_json_text key;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    snprintf(out, WORD_MOST, "an object without quant_method");
    ES_TRY(es_json_begin(j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(j, &list, &key));
        if (list.done)
            return ES_OK;
        ES_TRY(es_json_same(&key, "quant_method") ? take_word(j, out) : es_json_skip(j));
    }
}

/* A number, or a word such as "LLLG" whose last letter alone is G: its length. */
static es_status take_period(es_json *j, const es_config_field *f, int64_t *out)
{
    const size_t at = j->at;
    char word[WORD_MOST] = "";
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

/* Numbers above 0 by which frequencies are divided. */
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

/* Remembers where an object begins, and checks that it is JSON. */
static es_status take_object(reading *r, int which)
{
    if (es_json_kind(r->j) != 'n')
        r->object[which] = *r->j;
    return es_json_skip(r->j);
}

static es_status take_real(reading *r, const es_config_field *f, void *out)
{
    ES_TRY(take_number(r->j, f, out));
    if (f->at == ES_CONFIG(rotary.theta))
        r->theta = r->draft->config.rotary.theta;
    return ES_OK;
}

/* Reads one value of config.json into the place and by the rule that its field names. Every
 * kind of field has its own function, so that a new architecture is a table and no code. */
static es_status take_field(reading *r, int which)
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

/* Every key of the table into its place, all others skipped, unless the object is one of which
 * every key counts: a config.json holds much that has no bearing on the function, and more with
 * every release of the program that writes it. */
static es_status take_fields(reading *r)
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

/* ---- is it one of ours, and whole? ---- */

/* Checks fields in the order of the table, not of the file: the most important problem is
 * reported first. */
static es_status check_values(const reading *r)
{
    for (int i = 0; r->fields[i].key; i++) {
        const es_config_field *f = &r->fields[i];
        if (!*r->word[i])
            continue;
        if (f->only && es_word_among(r->word[i], f->only)) {
            if (f->at)
                memcpy((char *)r->draft + f->at, r->word[i], WORD_MOST);
            continue;
        }
        return es_fail_file(r->j->err, ES_E_UNSUPPORTED, r->j->file, -1,
                            f->rule ? f->rule : "config.function",
                            f->hint ? f->hint : "only models without it are supported",
                            f->only ? "%s is '%s'" : "%s is %s", f->key, r->word[i]);
    }
    return ES_OK;
}

/* A word that is null counts as missing; a number that is null has been refused as no number. */
static es_status check_complete(const reading *r)
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

/* ---- rotary positions ---- */

static es_status refuse_rotary(const es_json *j, const char *name, const char *key,
                               const char *what, const char *hint)
{
    return es_fail_file(j->err, ES_E_UNSUPPORTED, j->file, -1, "config.rotary", hint, "%s: %s %s",
                        name, key, what);
}

/* A key that is not in the table. null says nothing, `finetuned` nothing about the function,
 * max_position_embeddings is stated outside, and
 * two factors of YaRN's first program do nothing where they are 1. */
static es_status take_rotary_key(reading *r, const es_json_text *key)
{
    char name[WORD_MOST];
    double number = 0.0;
    const unsigned char kind = es_json_kind(r->j);
    es_json_copy(key, name, sizeof name);
    if (kind == 'n' || es_word_among(name, "finetuned|max_position_embeddings"))
        return es_json_skip(r->j);
    if (es_word_among(name, "attn_factor|extrapolation_factor") && kind >= '0' && kind <= '9')
        ES_TRY(es_json_number(r->j, &number));
    return number == 1.0 ? ES_OK
                         : refuse_rotary(r->j, r->name, name, "is not a known key",
                                         "it may change the result");
}

/* The keys of one rotation. */
static es_status take_rotary_keys(reading *r)
{
    enum { OLD_TYPE = 1 }; /* its place in the table */
    static const es_config_field fields[] = {
        {"rope_type", ES_FIELD_WORD, .at = ES_CONFIG(rotary.type)},
        {"type", ES_FIELD_WORD, .only = "default|linear|dynamic|yarn|llama3|longrope|su",
         .rule = "config.rotary",
         .hint = "supported: default, linear, dynamic, yarn, llama3, longrope"},
        {"rope_theta", ES_FIELD_REAL, .at = ES_CONFIG(rotary.theta), .min = 1.0001, .max = 1e15,
         .nullable = true},
        {"factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.factor), .min = 1e-3, .max = 1e6,
         .nullable = true},
        {"original_max_position_embeddings", ES_FIELD_REAL, .at = ES_CONFIG(rotary.original),
         .min = 1, .max = 1 << 24, .nullable = true},
        {"low_freq_factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.low), .min = 1e-6, .max = 1e6,
         .nullable = true},
        {"high_freq_factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.high), .min = 1e-6, .max = 1e6,
         .nullable = true},
        {"attention_factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.attention), .min = 1e-6,
         .max = 1e6, .nullable = true},
        {"beta_fast", ES_FIELD_REAL, .at = ES_CONFIG(rotary.fast), .min = 1e-6, .max = 1e6,
         .nullable = true},
        {"beta_slow", ES_FIELD_REAL, .at = ES_CONFIG(rotary.slow), .min = 1e-6, .max = 1e6,
         .nullable = true},
        {"mscale", ES_FIELD_REAL, .at = ES_CONFIG(rotary.mscale), .min = 0, .max = 1e6,
         .nullable = true},
        {"mscale_all_dim", ES_FIELD_REAL, .at = ES_CONFIG(rotary.mscale_all), .min = 0, .max = 1e6,
         .nullable = true},
        {"truncate", ES_FIELD_BOOL, .at = ES_CONFIG(rotary.rounded)},
        {"partial_rotary_factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.share), .min = 1e-3,
         .max = 1, .nullable = true},
        {"short_factor", ES_FIELD_SHORT},
        {"long_factor", ES_FIELD_LONG},
        {"llama_4_scaling_beta", ES_FIELD_REAL, .at = ES_CONFIG(rotary.query_beta), .min = 0,
         .max = 1e6, .nullable = true},
        {"mrope_section", ES_FIELD_NONE, .rule = "config.rotary",
         .hint = "supported are models of text alone"},
        {0}};
    es_rotary *rotary = &r->draft->config.rotary;
    r->fields = fields;
    ES_TRY(take_fields(r));
    ES_TRY(check_values(r));
    if (!*rotary->type) /* the older name of the key counts where the newer one is missing */
        memcpy(rotary->type, r->word[OLD_TYPE], WORD_MOST);
    return ES_OK;
}

/* One rotation that begins at `at`, over what *rotary has already. */
static es_status take_rotation(es_json at, const char *name, es_rotary *rotary)
{
    es_config_draft draft = {.config = {.rotary = *rotary}};
    reading r = {.j = &at, .draft = &draft, .take_other = take_rotary_key, .name = name};
    ES_TRY(take_rotary_keys(&r));
    *rotary = draft.config.rotary;
    return ES_OK;
}

/* Rotations of the two types of layers. */
typedef struct rotations {
    es_json at[2];    /* full, sliding; bytes NULL: null or missing */
    bool named[2];    /* the key is there */
    int other, count; /* keys that are no types of layers; all keys */
} rotations;

/* Looks for one object for each type of layers: {"full_attention": {...}, ...}. It is there if all
 * keys are names of types of layers. */
static es_status find_rotations(es_json at, rotations *out)
{
    static const char *const types[] = {"full_attention", "sliding_attention"};
    es_json_list list;
    es_json_text key;
    *out = (rotations){0};
    ES_TRY(es_json_begin(&at, '{', &list));
    for (;; out->count++) {
        ES_TRY(es_json_next(&at, &list, &key));
        if (list.done)
            return ES_OK;
        const int type = es_json_same(&key, types[0]) ? 0 : es_json_same(&key, types[1]) ? 1 : -1;
        if (type < 0)
            out->other++;
        else if (out->named[type])
            return es_fail_file(at.err, ES_E_FORMAT, at.file, (int64_t)key.at, "config.duplicate",
                                "keep one of them", "duplicate key %s", types[type]);
        else if (es_json_kind(&at) != 'n')
            out->at[type] = at;
        if (type >= 0)
            out->named[type] = true;
        ES_TRY(es_json_skip(&at));
    }
}

/* Returns whether two sets of rotary parameters are equal. */
static bool same_rotary(const es_rotary *a, const es_rotary *b)
{
    return a->share == b->share && a->theta == b->theta && strcmp(a->type, b->type) == 0 &&
           a->factor == b->factor && a->original == b->original && a->low == b->low &&
           a->high == b->high && a->fast == b->fast && a->slow == b->slow &&
           a->attention == b->attention && a->mscale == b->mscale &&
           a->mscale_all == b->mscale_all && a->rounded == b->rounded &&
           a->query_beta == b->query_beta && a->short_count == b->short_count &&
           a->long_count == b->long_count &&
           memcmp(a->short_factor, b->short_factor, sizeof a->short_factor) == 0 &&
           memcmp(a->long_factor, b->long_factor, sizeof a->long_factor) == 0;
}

/* Rotations by type of layer: full layers have config.rotary, sliding ones config.rotary_local
 * where it differs. A type whose rotation is null does not turn. */
static es_status take_sections(const rotations *found, const char *name, es_config_draft *d)
{
    es_model_config *c = &d->config;
    es_layers_stated *s = &d->layers;
    es_rotary local = c->rotary;
    if (c->rotary_local.theta > 0.0)
        local.theta = c->rotary_local.theta;
    const bool full = found->at[0].bytes != NULL, sliding = found->at[1].bytes != NULL;
    if (full)
        ES_TRY(take_rotation(found->at[0], name, &c->rotary));
    if (sliding)
        ES_TRY(take_rotation(found->at[1], name, &local));
    s->still_full = s->still_full || (found->named[0] && !full);
    s->still_sliding = found->named[1] && !sliding;
    s->local = full && sliding && !same_rotary(&local, &c->rotary);
    c->rotary_local = s->local ? local : (es_rotary){0};
    if (!full)
        c->rotary = sliding ? local : (es_rotary){0};
    return ES_OK;
}

/* The object "rope_scaling", or "rope_parameters" of newer files, which holds theta, too. Every key
 * of it is about the function, so that one which is not known is refused. */
static es_status take_rotary(reading *r, int which)
{
    es_config_draft *d = r->draft;
    es_model_config *c = &d->config;
    rotations found = {0};
    const char *name = which >= 0 ? r->fields[which].key : "";
    if (which >= 0)
        ES_TRY(find_rotations(r->object[which], &found));
    if (found.count && !found.other)
        return take_sections(&found, name, d);
    if (found.named[0] || found.named[1])
        return refuse_rotary(r->j, name, found.named[0] ? "full_attention" : "sliding_attention",
                             "stands beside other keys",
                             "state rotary positions once, or once for each type of layers");
    const double before = c->rotary.theta;
    c->rotary.theta = 0.0;
    if (which >= 0)
        ES_TRY(take_rotation(r->object[which], name, &c->rotary));
    if (c->rotary.theta != 0.0 && r->theta != 0.0 && c->rotary.theta != r->theta)
        return es_fail_file(r->j->err, ES_E_FORMAT, r->j->file, -1, "config.rotary",
                            "keep one of them", "rope_theta is %g, but %g in %s", r->theta,
                            c->rotary.theta, name);
    c->rotary.theta = c->rotary.theta != 0.0 ? c->rotary.theta : before;
    return ES_OK;
}

/* Reads the object that counts: rope_scaling unless it is null, else rope_parameters. */
static es_status take_rotaries(reading *r)
{
    int which = -1;
    for (int i = 0; r->fields[i].key; i++) {
        const bool there = r->fields[i].kind == ES_FIELD_OBJECT && r->object[i].bytes;
        if (there && (which < 0 || strcmp(r->fields[i].key, "rope_scaling") == 0))
            which = i;
    }
    r->draft->layers.rotary_stated = which >= 0 || r->theta != 0.0;
    return take_rotary(r, which);
}

/* What every config.json says the same way. */
static const es_config_field identity[] = {
    {"model_type", ES_FIELD_WORD, .at = ES_CONFIG(model_type)},
    {"architectures", ES_FIELD_FIRST, .at = ES_CONFIG(architecture)},
    {"id2label", ES_FIELD_LABELS, .at = ES_CONFIG(labels)},
    {"text_config", ES_FIELD_OBJECT},
    {0}};

/* Models of pictures and text that keep the model of text in `text_config`. What stands beside it
 * and counts for text: */
static const es_config_field beside[] = {
    {"tie_word_embeddings", ES_FIELD_BOOL, .at = ES_CONFIG(tied)}, ES_FIELDS_REFUSED, {0}};

static const struct {
    const char *model_type, *text_type; /* the model of text, if text_config does not name it */
} wrappers[] = {{"gemma3", "gemma3_text"}, {"mistral3", "mistral"}};

/* Returns the model_type of the text model of a wrapper that does not name it; NULL: no wrapper. */
static const char *wrapped_type(const char *model_type)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++)
        if (strcmp(model_type, wrappers[i].model_type) == 0)
            return wrappers[i].text_type;
    return NULL;
}

/* Reads model_type, class and labels. Of a wrapper the model_type is that of its text, and
 * *text is where that begins. */
static es_status identify(es_json *j, es_config_draft *about, es_json *text)
{
    enum { TEXT = 3 }; /* its place in the table */
    reading outer = {.j = j, .fields = identity, .draft = about};
    ES_TRY(take_fields(&outer));
    const char *usual = wrapped_type(about->config.model_type);
    *text = outer.object[TEXT];
    if (!usual || !text->bytes) {
        text->bytes = NULL;
        return ES_OK;
    }
    es_config_draft inside = {0};
    es_json at = *text;
    reading inner = {.j = &at, .fields = identity, .draft = &inside};
    ES_TRY(take_fields(&inner));
    const char *type = *inside.config.model_type ? inside.config.model_type : usual;
    snprintf(about->config.model_type, sizeof about->config.model_type, "%s", type);
    return ES_OK;
}

/* Reads the keys of one description. */
static es_status take_config(const es_arch *arch, es_json *j, es_config_draft *draft)
{
    reading r = {.j = j, .fields = arch->fields, .draft = draft};
    ES_TRY(take_fields(&r));
    ES_TRY(check_values(&r));
    ES_TRY(check_complete(&r));
    return take_rotaries(&r);
}

/* Walks through the text twice, because model_type, which may come last, decides which keys
 * count. A model_type that is not supported is reported before missing keys: in a file for
 * another kind of model everything may be missing. */
es_status es_config_parse(const unsigned char *bytes, size_t size, const char *file,
                          es_model_config *out, es_error *err)
{
    es_json j = {bytes, es_utf8_mark(bytes, size), size, file, "config", err, 0, true};
    es_json again = j, text;
    es_config_draft draft = {0}, about = {0};
    *out = draft.config;
    ES_TRY(identify(&j, &about, &text));
    ES_TRY(es_json_end(&j));
    const es_arch *arch = es_arch_find(about.config.model_type, about.config.architecture);
    if (!arch)
        return es_arch_unknown(file, &about.config, err);
    es_config_begin(arch, &draft);
    if (text.bytes) {
        reading outer = {.j = &again, .fields = beside, .draft = &draft};
        ES_TRY(take_fields(&outer));
        ES_TRY(check_values(&outer));
    }
    ES_TRY(take_config(arch, text.bytes ? &text : &again, &draft));
    ES_TRY(es_config_complete(arch, file, &draft, err));
    es_model_config *c = &draft.config;
    c->labels = about.config.labels;
    memcpy(c->label, about.config.label, sizeof c->label);
    snprintf(c->model_type, sizeof c->model_type, "%s", arch->model_type);
    memcpy(c->architecture, about.config.architecture, sizeof c->architecture);
    *out = *c;
    return ES_OK;
}

/* Capped before it is read: a config.json of a megabyte is something else under its name. */
static es_status load_json(const char *path, es_model_config *out, es_error *err)
{
    void *text;
    size_t size;
    ES_TRY(es_file_load(path, CONFIG_MOST, NULL, &text, &size, err));
    const es_status status = es_config_parse(text, size, path, out, err);
    es_mem_free(NULL, text);
    return status;
}

/* Reads the configuration from the header of a GGUF. Trailing bytes do not matter here, because
 * no weight is read. */
static es_status load_gguf(const char *path, es_model_config *out, es_error *err)
{
    const es_st_opts opts = {.allow_trailing = true};
    es_gguf *g;
    ES_TRY(es_gguf_open(path, &opts, &g, err));
    const es_status status = es_gguf_config(g, out, err);
    es_gguf_close(g);
    return status;
}

es_status es_model_config_load(const char *path, es_model_config *out, es_error *err)
{
    char file[4096];
    struct stat st;
    *out = (es_model_config){0};
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return es_gguf_is(path) ? load_gguf(path, out, err) : load_json(path, out, err);
    if ((size_t)snprintf(file, sizeof file, "%s/config.json", path) >= sizeof file)
        return es_fail(err, ES_E_ARGUMENT, "config.path", "use a shorter path",
                       "the path is too long");
    return load_json(file, out, err);
}
