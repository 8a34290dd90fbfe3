/* arch.c : the architectures that are known, and config.json read by their descriptions. */
#include "model/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/json.h"
#include "store/file.h"

/* ---- the architectures ---- */

/* One line each here, and nothing about any of them anywhere else. */
extern const es_arch es_arch_bert, es_arch_distilbert;
static const es_arch *const known[] = {&es_arch_bert, &es_arch_distilbert};
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

/* The list of what is supported is made from the table, so it is never out of date. Whoever comes
 * with another model is told what can be done with it all the same. */
static es_status unknown_model(const char *file, const es_model_config *c, es_error *err)
{
    char hint[sizeof err->hint] =
        "what works today: dump q, k, v of a layer as .npy, then: esscher "
        "measure --q Q.npy --k K.npy --v V.npy; supported model_type:";
    for (int i = 0; i < KNOWN; i++) {
        const size_t used = strlen(hint);
        snprintf(hint + used, sizeof hint - used, "%s %s (%s)", i ? "," : "", known[i]->model_type,
                 known[i]->relatives);
    }
    return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.model", hint,
                        "model_type is '%s', architecture '%s': not supported yet", c->model_type,
                        c->architecture);
}

/* ---- their parts ---- */

/* A part is of a layer if its name has the layer's number in it: nothing else has to say so. */
bool es_part_in_layer(const es_arch_part *part) { return strchr(part->name, '*') != NULL; }

bool es_stack_next(const es_arch *arch, const es_model_config *config, bool in_layer,
                   es_stack *stack)
{
    const es_arch_part *p = stack->part ? stack->part + stack->count : arch->parts;
    while (p->name && (p->role != ES_ROLE_BODY || es_part_in_layer(p) != in_layer))
        p++;
    *stack = (es_stack){.part = p};
    if (!p->name)
        return false;
    stack->cols = p->kind == ES_PART_NORM ? 1 : es_config_size(config, p->cols);
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
typedef struct reading {
    es_json j;
    const es_field *fields;
    bool seen[ES_ARCH_FIELDS], flag[ES_ARCH_FIELDS];
    char word[ES_ARCH_FIELDS][WORD_MOST];
    es_model_config *config;
} reading;

/* What the value is and what it should be; the file is somebody's, and they will want to mend
 * it. */
static es_status bad_value(const es_json *j, size_t at, const es_field *f, const char *is)
{
    return es_fail_file(j->err, ES_E_FORMAT, j->file, (int64_t)at, "config.range",
                        "is this the config.json that came with the weights?",
                        "%s is %s; it should be a %snumber from %g to %g", f->key, is,
                        f->kind == ES_FIELD_WHOLE ? "whole " : "", f->min, f->max);
}

/* A number in [min, max]. Sizes are bounded here so that no product of a few of them overflows. */
static es_status take_number(es_json *j, const es_field *f, void *out)
{
    double value;
    const unsigned char first = es_json_kind(j);
    const size_t at = j->at;
    if (first != '-' && (first < '0' || first > '9'))
        return bad_value(j, at, f, first == '"' ? "text" : first == 'n' ? "null" : "no number");
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

static es_status take_field(reading *r, int which)
{
    const es_field *f = &r->fields[which];
    void *out = (char *)r->config + f->at;
    switch (f->kind) {
    case ES_FIELD_WHOLE:
    case ES_FIELD_REAL:
        return take_number(&r->j, f, out);
    case ES_FIELD_WORD:
        return take_word(&r->j, f->only ? r->word[which] : out);
    case ES_FIELD_FLAG:
        return es_json_kind(&r->j) == 'n' ? es_json_skip(&r->j)
                                          : es_json_boolean(&r->j, &r->flag[which]);
    case ES_FIELD_FIRST:
        return take_first(&r->j, out);
    default:
        return take_labels(&r->j, r->config);
    }
}

/* Every key of the table into its place, all others skipped: a config.json holds much that has no
 * bearing on the function, and more with every release of the program that writes it. */
static es_status take_fields(reading *r)
{
    es_json_list list;
    es_json_text key;
    ES_TRY(es_json_begin(&r->j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(&r->j, &list, &key));
        if (list.done)
            return es_json_end(&r->j);
        int which = 0;
        while (r->fields[which].key && !es_json_same(&key, r->fields[which].key))
            which++;
        if (!r->fields[which].key) {
            ES_TRY(es_json_skip(&r->j));
            continue;
        }
        if (r->seen[which])
            return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, (int64_t)key.at,
                                "config.duplicate", "keep one of them", "duplicate key %s",
                                r->fields[which].key);
        r->seen[which] = true;
        ES_TRY(take_field(r, which));
    }
}

/* ---- is it one of ours, and whole? ---- */

/* In the order of the table, not of the file: what is said first is what matters most. */
static es_status check_values(const reading *r)
{
    for (int i = 0; r->fields[i].key; i++) {
        const es_field *f = &r->fields[i];
        if (f->only && *r->word[i] && strcmp(r->word[i], f->only) != 0)
            return es_fail_file(r->j.err, ES_E_UNSUPPORTED, r->j.file, -1, f->rule, f->hint,
                                "%s is '%s'", f->key, r->word[i]);
        if (r->flag[i])
            return es_fail_file(r->j.err, ES_E_UNSUPPORTED, r->j.file, -1, f->rule, f->hint,
                                "%s is true", f->key);
    }
    return ES_OK;
}

/* A word that is null counts as missing; a number that is null has been refused as no number. */
static es_status check_complete(const reading *r)
{
    for (int i = 0; r->fields[i].key; i++) {
        const bool null = r->fields[i].only && !*r->word[i];
        if (r->fields[i].required && (!r->seen[i] || null))
            return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, -1, "config.missing",
                                "is this the config.json that came with the weights?",
                                "there is no %s", r->fields[i].key);
    }
    return ES_OK;
}

/* What this architecture calls a member. */
static const char *key_of(const es_arch *arch, size_t member)
{
    const es_field *f = arch->fields;
    while (f->key && !(f->kind == ES_FIELD_WHOLE && f->at == member))
        f++;
    return f->key ? f->key : "a size";
}

/* Heads share the hidden width evenly; where they do not, the two keys are named as the file
 * has them. */
static es_status check_heads(const es_arch *arch, const char *file, const es_model_config *c,
                             es_error *err)
{
    if (c->hidden % c->heads == 0)
        return ES_OK;
    return es_fail_file(err, ES_E_FORMAT, file, -1, "config.heads",
                        "is this the config.json that came with the weights?",
                        "%s %lld is not a multiple of %s %lld", key_of(arch, ES_CONFIG(hidden)),
                        (long long)c->hidden, key_of(arch, ES_CONFIG(heads)), (long long)c->heads);
}

/* What every config.json says the same way. */
static const es_field identity[] = {
    {"model_type", ES_FIELD_WORD, .at = ES_CONFIG(model_type)},
    {"architectures", ES_FIELD_FIRST, .at = ES_CONFIG(architecture)},
    {"id2label", ES_FIELD_LABELS, .at = ES_CONFIG(labels)},
    {0}};

/* The text is walked twice, because which keys count is known only after model_type, which may come
 * last. That something is missing is said after that it is none of ours: of a file for another kind
 * of model, everything may be missing. */
es_status es_config_parse(const unsigned char *bytes, size_t size, const char *file,
                          es_model_config *out, es_error *err)
{
    const es_json j = {bytes, 0, size, file, "config", err, 0};
    es_model_config c = {0}, about = {0};
    reading first = {.j = j, .fields = identity, .config = &about};
    *out = c;
    ES_TRY(take_fields(&first));
    const es_arch *arch = es_arch_find(about.model_type, about.architecture);
    if (!arch)
        return unknown_model(file, &about, err);
    c = arch->defaults;
    reading second = {.j = j, .fields = arch->fields, .config = &c};
    ES_TRY(take_fields(&second));
    ES_TRY(check_values(&second));
    ES_TRY(check_complete(&second));
    ES_TRY(check_heads(arch, file, &c, err));
    c.labels = about.labels;
    memcpy(c.label, about.label, sizeof c.label);
    snprintf(c.model_type, sizeof c.model_type, "%s", arch->model_type);
    memcpy(c.architecture, about.architecture, sizeof c.architecture);
    *out = c;
    return ES_OK;
}

/* Capped before it is read: a config.json of a megabyte is something else under its name. */
es_status es_model_config_load(const char *path, es_model_config *out, es_error *err)
{
    void *text;
    size_t size;
    *out = (es_model_config){0};
    ES_TRY(es_file_load(path, CONFIG_MOST, NULL, &text, &size, err));
    const es_status status = es_config_parse(text, size, path, out, err);
    es_mem_free(NULL, text);
    return status;
}
