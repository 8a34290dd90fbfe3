/* SPDX-License-Identifier: Apache-2.0 */
/* arch.c : the architectures that are known, and config.json read by their descriptions. */
#include "model/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/gguf_model.h"
#include "checkpoint/json.h"
#include "model/model_inside.h"
#include "base/unicode.h"
#include "store/file.h"

/* ---- the architectures ---- */

/* One line each here, and nothing about any of them anywhere else. */
extern const es_arch es_arch_bert, es_arch_distilbert, es_arch_llama, es_arch_mistral,
    es_arch_qwen2, es_arch_qwen3, es_arch_gpt2, es_arch_gpt_neox;
static const es_arch *const known[] = {&es_arch_bert,    &es_arch_distilbert, &es_arch_llama,
                                       &es_arch_mistral, &es_arch_qwen2,      &es_arch_qwen3,
                                       &es_arch_gpt2,    &es_arch_gpt_neox};
enum { KNOWN = sizeof known / sizeof known[0] };

/* Old checkpoints state no model_type; the class that wrote them is then all there is. A stated
 * type is not second-guessed: "roberta" with a Bert class computes something else. */
const es_arch *es_arch_find(const char *model_type, const char *architecture)
{
    for (int i = 0; i < KNOWN; i++) {
        const char *classes = known[i]->classes;
        if (*model_type ? strcmp(model_type, known[i]->model_type) == 0
                        : strncmp(architecture, classes, strlen(classes)) == 0)
            return known[i];
    }
    return NULL;
}

/* Builds the list of supported models from the table, so that it is never out of date. For any
 * other model the hint says what can still be done with it. */
static es_status unknown_model(const char *file, const es_model_config *c, es_error *err)
{
    char hint[sizeof err->hint] = "supported model_type:";
    for (int i = 0; i < KNOWN; i++) {
        const size_t used = strlen(hint);
        snprintf(hint + used, sizeof hint - used, "%s %s", i ? "," : "", known[i]->model_type);
    }
    const size_t used = strlen(hint);
    snprintf(hint + used, sizeof hint - used,
             "; for others dump q, k, v of a layer as .npy, then: esscher measure --q Q.npy --k "
             "K.npy --v V.npy");
    return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.model", hint,
                        "model_type is '%s', architecture '%s': not supported yet", c->model_type,
                        c->architecture);
}

/* ---- their parts ---- */

/* A part is of a layer if its name has the layer's number in it: nothing else has to say so. */
bool es_part_in_layer(const es_arch_part *part) { return strchr(part->name, '*') != NULL; }

bool es_part_stack_next(const es_arch *arch, const es_model_config *config, bool in_layer,
                        es_part_stack *stack)
{
    const es_arch_part *p = stack->part ? stack->part + stack->count : arch->parts;
    while (p->name && (p->role != ES_ROLE_BODY || es_part_in_layer(p) != in_layer))
        p++;
    *stack = (es_part_stack){.part = p};
    if (!p->name)
        return false;
    stack->cols = es_part_is_vector(p) ? 1 : es_config_size(config, p->cols);
    for (; p->name && p->at == stack->part->at && es_part_in_layer(p) == in_layer; p++) {
        stack->rows += es_config_size(config, p->rows);
        stack->count++;
    }
    return true;
}

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
    char word[ES_ARCH_FIELDS][WORD_MOST]; /* of NONE and TRUE: what it is instead; of LAYERS: what
                                             all layers are */
    es_model_config *config;
    es_status (*take_other)(reading *r, const es_json_text *key); /* NULL: other keys are skipped */
    const char *name;        /* of the object, where keys of it are refused */
    double theta[2];         /* that are stated: by a key of config.json, in an object; 0: none */
    es_rotary before;        /* rotary positions without the object */
    char section[WORD_MOST]; /* the layer type whose rotary positions have been read; "": none */
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
    if (first == 'n' && f->nullable) {
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

/* What all layers are; where they differ, two of them: "full_attention and sliding_attention". */
static es_status take_layers(es_json *j, char is[WORD_MOST])
{
    es_json_list list;
    char first[WORD_MOST] = "";
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_begin(j, '[', &list));
    for (;;) {
        char word[WORD_MOST] = "";
        ES_TRY(es_json_next(j, &list, NULL));
        if (list.done)
            return ES_OK;
        ES_TRY(take_word(j, word));
        if (!*first)
            snprintf(first, sizeof first, "%s", *word ? word : "null");
        if (!*is)
            memcpy(is, first, sizeof first);
        else if (strcmp(first, word) != 0)
            snprintf(is, WORD_MOST, "%.28s and %.28s", first, word);
    }
}

static es_status take_rotary(es_json *j, const char *name, es_model_config *config);

/* Theta may be stated twice, and then which of the two counts would depend on their order. */
static es_status take_object(reading *r, const es_config_field *f)
{
    double *theta = &r->config->rotary.theta;
    const double before = *theta;
    *theta = 0.0;
    ES_TRY(take_rotary(r->j, f->key, r->config));
    if (*theta != 0.0)
        r->theta[1] = *theta;
    else
        *theta = before;
    return ES_OK;
}

static es_status take_real(reading *r, const es_config_field *f, void *out)
{
    ES_TRY(take_number(r->j, f, out));
    if (f->at == ES_CONFIG(rotary.theta))
        r->theta[0] = r->config->rotary.theta;
    return ES_OK;
}

/* Reads one value of config.json into the place and by the rule that its field names. Every
 * kind of field has its own function, so that a new architecture is a table and no code. */
static es_status take_field(reading *r, int which)
{
    const es_config_field *f = &r->fields[which];
    void *out = (char *)r->config + f->at;
    switch (f->kind) {
    case ES_FIELD_WHOLE:
        return take_number(r->j, f, out);
    case ES_FIELD_REAL:
        return take_real(r, f, out);
    case ES_FIELD_WORD:
        return take_word(r->j, f->only ? r->word[which] : out);
    case ES_FIELD_BOOL:
        return take_boolean(r->j, out);
    case ES_FIELD_NONE:
        return take_none(r->j, f->min, r->word[which]);
    case ES_FIELD_TRUE:
        return take_true(r->j, r->word[which]);
    case ES_FIELD_FIRST:
        return take_first(r->j, out);
    case ES_FIELD_LAYERS:
        return take_layers(r->j, r->word[which]);
    case ES_FIELD_ROTARY:
        return take_object(r, f);
    default:
        return take_labels(r->j, r->config);
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

/* Layers decide whether there is a window, and sliding_window how wide it is. */
static bool layers_fit(const char *word, es_model_config *c)
{
    if (strcmp(word, "full_attention") == 0)
        c->window = 0;
    return strcmp(word, "full_attention") == 0 ||
           (strcmp(word, "sliding_attention") == 0 && c->window > 0);
}

/* Checks fields in the order of the table, not of the file: the most important problem is
 * reported first. */
static es_status check_values(const reading *r)
{
    for (int i = 0; r->fields[i].key; i++) {
        const es_config_field *f = &r->fields[i];
        if (!*r->word[i])
            continue;
        if (f->kind == ES_FIELD_WORD && es_word_among(r->word[i], f->only)) {
            if (f->at)
                memcpy((char *)r->config + f->at, r->word[i], WORD_MOST);
            continue;
        }
        if (f->kind == ES_FIELD_LAYERS && layers_fit(r->word[i], r->config))
            continue;
        return es_fail_file(
            r->j->err, ES_E_UNSUPPORTED, r->j->file, -1, f->rule ? f->rule : "config.function",
            f->hint ? f->hint : "only models without it are supported",
            f->kind == ES_FIELD_WORD || f->kind == ES_FIELD_LAYERS ? "%s is '%s'" : "%s is %s",
            f->key, r->word[i]);
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

/* A key that is not in the table. null says nothing, `finetuned` nothing about the function, and
 * two factors of YaRN's first program do nothing where they are 1. */
static es_status take_rotary_key(reading *r, const es_json_text *key)
{
    char name[WORD_MOST];
    double number = 0.0;
    const unsigned char kind = es_json_kind(r->j);
    es_json_copy(key, name, sizeof name);
    if (kind == 'n' || strcmp(name, "finetuned") == 0)
        return es_json_skip(r->j);
    if (es_word_among(name, "attn_factor|extrapolation_factor") && kind >= '0' && kind <= '9')
        ES_TRY(es_json_number(r->j, &number));
    return number == 1.0 ? ES_OK
                         : refuse_rotary(r->j, r->name, name, "is not a known key",
                                         "it may change the result");
}

/* Returns whether two sets of rotary parameters are equal. Models may state them once per type
 * of layer; only equal ones are supported. */
static bool same_rotary(const es_rotary *a, const es_rotary *b)
{
    return a->share == b->share && a->theta == b->theta && strcmp(a->type, b->type) == 0 &&
           a->factor == b->factor && a->original == b->original && a->low == b->low &&
           a->high == b->high && a->fast == b->fast && a->slow == b->slow &&
           a->attention == b->attention && a->mscale == b->mscale &&
           a->mscale_all == b->mscale_all && a->rounded == b->rounded;
}

static es_status take_rotary_keys(reading *r);

/* Newer files may have one object for each type of layers: {"full_attention": {...}, ...}. A model
 * here has one rotation, so all must say the same. */
static es_status take_rotary_section(reading *r, const es_json_text *key)
{
    char name[WORD_MOST];
    es_model_config config = *r->config;
    es_json_copy(key, name, sizeof name);
    if (es_json_kind(r->j) != '{' || !es_word_among(name, "full_attention|sliding_attention"))
        return take_rotary_key(r, key);
    config.rotary = r->before;
    reading section = {
        .j = r->j, .config = &config, .take_other = take_rotary_key, .name = r->name};
    ES_TRY(take_rotary_keys(&section));
    if (*r->section && !same_rotary(&config.rotary, &r->config->rotary))
        return refuse_rotary(
            r->j, r->name, name, "differs from the other type of layers",
            "only models whose layers all have the same rotary positions are supported");
    r->config->rotary = config.rotary;
    memcpy(r->section, name, sizeof name);
    return ES_OK;
}

/* The keys of one rotation. */
static es_status take_rotary_keys(reading *r)
{
    enum { OLD_TYPE = 1 }; /* its place in the table */
    static const es_config_field fields[] = {
        {"rope_type", ES_FIELD_WORD, .at = ES_CONFIG(rotary.type)},
        {"type", ES_FIELD_WORD, .only = "default|linear|dynamic|yarn|llama3",
         .rule = "config.rotary", .hint = "supported: default, linear, dynamic, yarn, llama3"},
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
        {"mrope_section", ES_FIELD_NONE, .rule = "config.rotary",
         .hint = "supported are models of text alone"},
        {0}};
    es_rotary *rotary = &r->config->rotary;
    r->fields = fields;
    ES_TRY(take_fields(r));
    ES_TRY(check_values(r));
    for (int i = 0; fields[i].key && *r->section; i++)
        if (r->seen[i])
            return refuse_rotary(r->j, r->name, fields[i].key, "stands beside types of layers",
                                 "state rotary positions once, or once for each type of layers");
    if (!*rotary->type) /* the older name of the key counts where the newer one is missing */
        memcpy(rotary->type, r->word[OLD_TYPE], WORD_MOST);
    return ES_OK;
}

static es_status check_theta(const reading *r)
{
    if (r->theta[0] == 0.0 || r->theta[1] == 0.0 || r->theta[0] == r->theta[1])
        return ES_OK;
    return es_fail_file(r->j->err, ES_E_FORMAT, r->j->file, -1, "config.rotary", "keep one of them",
                        "rope_theta is %g, but %g in rope_parameters", r->theta[0], r->theta[1]);
}

/* The object "rope_scaling", or "rope_parameters" of newer files, which holds theta, too. Every key
 * of it is about the function, so that one which is not known is refused. */
static es_status take_rotary(es_json *j, const char *name, es_model_config *config)
{
    reading r = {.j = j,
                 .config = config,
                 .take_other = take_rotary_section,
                 .name = name,
                 .before = config->rotary};
    return es_json_kind(j) == 'n' ? es_json_skip(j) : take_rotary_keys(&r);
}

/* What this architecture calls a member. */
static const char *key_of(const es_arch *arch, size_t member)
{
    const es_config_field *f = arch->fields;
    while (f->key && !(f->kind == ES_FIELD_WHOLE && f->at == member))
        f++;
    return f->key ? f->key : "a size";
}

/* One number of the file that is no multiple of another, named as the file has them. */
static es_status uneven(const es_arch *arch, const char *file, const es_model_config *c, size_t of,
                        size_t part, es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, file, -1, "config.heads",
                        "check that this config.json came with the weights",
                        "%s %lld is not a multiple of %s %lld", key_of(arch, of),
                        (long long)es_config_size(c, of), key_of(arch, part),
                        (long long)es_config_size(c, part));
}

/* What the file leaves out has the value that it has in the library that wrote it: heads share the
 * hidden width evenly and have keys of their own, and what follows them is four times as wide. */
es_status es_config_complete(const es_arch *arch, const char *file, es_model_config *c,
                             es_error *err)
{
    if (!c->head_dim && c->hidden % c->heads != 0)
        return uneven(arch, file, c, ES_CONFIG(hidden), ES_CONFIG(heads), err);
    if (!c->head_dim)
        c->head_dim = c->hidden / c->heads;
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (c->heads % c->kv_heads != 0)
        return uneven(arch, file, c, ES_CONFIG(heads), ES_CONFIG(kv_heads), err);
    if (!c->intermediate)
        c->intermediate = 4 * c->hidden;
    if (c->window < 0)
        c->window = 0;
    c->query_width = c->heads * c->head_dim;
    c->kv_width = c->kv_heads * c->head_dim;
    c->qkv_width = c->query_width + 2 * c->kv_width;
    return es_rotary_complete(c, file, err);
}

/* What every config.json says the same way. */
static const es_config_field identity[] = {
    {"model_type", ES_FIELD_WORD, .at = ES_CONFIG(model_type)},
    {"architectures", ES_FIELD_FIRST, .at = ES_CONFIG(architecture)},
    {"id2label", ES_FIELD_LABELS, .at = ES_CONFIG(labels)},
    {0}};

/* Walks through the text twice, because model_type, which may come last, decides which keys
 * count. A model_type that is not supported is reported before missing keys: in a file for
 * another kind of model everything may be missing. */
es_status es_config_parse(const unsigned char *bytes, size_t size, const char *file,
                          es_model_config *out, es_error *err)
{
    es_json j = {bytes, es_utf8_mark(bytes, size), size, file, "config", err, 0, true}, again = j;
    es_model_config c = {0}, about = {0};
    reading first = {.j = &j, .fields = identity, .config = &about};
    *out = c;
    ES_TRY(take_fields(&first));
    ES_TRY(es_json_end(&j));
    const es_arch *arch = es_arch_find(about.model_type, about.architecture);
    if (!arch)
        return unknown_model(file, &about, err);
    c = arch->defaults;
    reading second = {.j = &again, .fields = arch->fields, .config = &c};
    ES_TRY(take_fields(&second));
    ES_TRY(check_values(&second));
    ES_TRY(check_theta(&second));
    ES_TRY(check_complete(&second));
    ES_TRY(es_config_complete(arch, file, &c, err));
    c.labels = about.labels;
    memcpy(c.label, about.label, sizeof c.label);
    snprintf(c.model_type, sizeof c.model_type, "%s", arch->model_type);
    memcpy(c.architecture, about.architecture, sizeof c.architecture);
    *out = c;
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
