#include "model/model_inside.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/json.h"
#include "store/file.h"

enum { CONFIG_MOST = 1 << 20 }; /* bytes; real ones have one or two thousand */

/* ---- the fields we read ---- */

/* Words are kept as they are until the whole file has been read: that something is missing is
 * better said after that it is no BERT. */
typedef struct words {
    char model_type[64], activation[64], positions[64];
    bool decoder;
} words;

typedef struct parsed {
    es_model_config config;
    words words;
} parsed;

typedef enum kind { WHOLE, REAL, WORD, FIRST_WORD, MEMBERS, FLAG } kind;

typedef struct field {
    const char *name;
    kind kind;
    size_t at; /* in parsed */
    bool required;
    double min, max;
} field;

#define AT(member) offsetof(parsed, member)

static const field fields[] = {
    {"hidden_size", WHOLE, AT(config.hidden), true, 1, 65536},
    {"num_hidden_layers", WHOLE, AT(config.layers), true, 1, 4096},
    {"num_attention_heads", WHOLE, AT(config.heads), true, 1, 65536},
    {"intermediate_size", WHOLE, AT(config.intermediate), true, 1, 1 << 20},
    {"vocab_size", WHOLE, AT(config.vocab), true, 1, 1 << 24},
    {"max_position_embeddings", WHOLE, AT(config.positions), true, 1, 1 << 24},
    {"type_vocab_size", WHOLE, AT(config.types), true, 1, 1 << 16},
    /* Below 1e-20 the square root of an f32 variance of 0 would overflow what it divides. */
    {"layer_norm_eps", REAL, AT(config.layer_norm_eps), true, 1e-20, 1e-2},
    {"hidden_act", WORD, AT(words.activation), true, 0, 0},
    {"model_type", WORD, AT(words.model_type), false, 0, 0},
    {"position_embedding_type", WORD, AT(words.positions), false, 0, 0},
    {"architectures", FIRST_WORD, AT(config.architecture), false, 0, 0},
    {"id2label", MEMBERS, AT(config.labels), false, 0, 0},
    {"is_decoder", FLAG, AT(words.decoder), false, 0, 0},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static es_status bad_value(const es_json *j, size_t at, const field *f, const char *is)
{
    return es_fail_file(j->err, ES_E_FORMAT, j->file, (int64_t)at, "config.range",
                        "is this the config.json that came with the weights?",
                        "%s is %s; it should be a %snumber from %g to %g", f->name, is,
                        f->kind == WHOLE ? "whole " : "", f->min, f->max);
}

/* A number in [min, max]; a whole one may be written 512.0, as some tools do. */
static es_status take_number(es_json *j, const field *f, void *out)
{
    double value;
    const unsigned char first = es_json_kind(j);
    const size_t at = j->at;
    if (first != '-' && (first < '0' || first > '9'))
        return bad_value(j, at, f, first == '"' ? "text" : first == 'n' ? "null" : "no number");
    ES_TRY(es_json_number(j, &value));
    const bool whole =
        f->kind != WHOLE || (value >= -9e15 && value <= 9e15 && (double)(int64_t)value == value);
    if (!(value >= f->min && value <= f->max) || !whole)
        return bad_value(j, at, f, value < 0 ? "negative" : value == 0 ? "0" : "out of range");
    if (f->kind == WHOLE)
        *(int64_t *)out = (int64_t)value;
    else
        *(double *)out = value;
    return ES_OK;
}

static es_status take_word(es_json *j, char *out)
{
    es_json_text text;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j); /* null: as if it were not there */
    ES_TRY(es_json_string(j, &text));
    es_json_copy(&text, out, 64);
    return ES_OK;
}

/* The first string of an array, or how many members an object has. */
static es_status take_list(es_json *j, const field *f, void *out)
{
    es_json_list list;
    es_json_text key;
    int64_t count = 0;
    if (es_json_kind(j) == 'n')
        return es_json_skip(j);
    ES_TRY(es_json_begin(j, f->kind == MEMBERS ? '{' : '[', &list));
    for (;; count++) {
        ES_TRY(es_json_next(j, &list, &key));
        if (list.done)
            break;
        ES_TRY(f->kind == FIRST_WORD && count == 0 ? take_word(j, out) : es_json_skip(j));
    }
    if (f->kind == MEMBERS)
        *(int64_t *)out = count;
    return ES_OK;
}

static es_status take_field(es_json *j, const field *f, parsed *p)
{
    void *out = (char *)p + f->at;
    switch (f->kind) {
    case WHOLE:
    case REAL:
        return take_number(j, f, out);
    case WORD:
        return take_word(j, out);
    case FLAG:
        return es_json_kind(j) == 'n' ? es_json_skip(j) : es_json_boolean(j, out);
    default:
        return take_list(j, f, out);
    }
}

static es_status take_fields(es_json *j, bool seen[FIELDS], parsed *p)
{
    es_json_list list;
    es_json_text key;
    ES_TRY(es_json_begin(j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(j, &list, &key));
        if (list.done)
            return es_json_end(j);
        int which = 0;
        while (which < FIELDS && !es_json_same(&key, fields[which].name))
            which++;
        if (which == FIELDS) {
            ES_TRY(es_json_skip(j));
            continue;
        }
        if (seen[which])
            return es_fail_file(j->err, ES_E_FORMAT, j->file, (int64_t)key.at, "config.duplicate",
                                "keep one of them", "duplicate key %s", fields[which].name);
        seen[which] = true;
        ES_TRY(take_field(j, &fields[which], p));
    }
}

/* ---- is it one of ours? ---- */

static es_status check_words(const char *file, const parsed *p, es_error *err)
{
    const char *type = p->words.model_type, *architecture = p->config.architecture;
    const bool bert = *type ? strcmp(type, "bert") == 0 : strncmp(architecture, "Bert", 4) == 0;
    if (!bert)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.model",
                            "supported are checkpoints with model_type bert: BERT, MiniLM, gte, "
                            "bge, e5 and classifiers made from them",
                            "model_type is '%s', architecture '%s': not BERT", type, architecture);
    if (p->words.decoder)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.decoder",
                            "use an encoder: is_decoder false", "is_decoder is true");
    if (*p->words.positions && strcmp(p->words.positions, "absolute") != 0)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.positions",
                            "supported is: absolute", "position_embedding_type is '%s'",
                            p->words.positions);
    if (*p->words.activation && strcmp(p->words.activation, "gelu") != 0)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.activation",
                            "supported is: gelu (the exact one, with erf)", "hidden_act is '%s'",
                            p->words.activation);
    return ES_OK;
}

es_status es_config_parse(const unsigned char *bytes, size_t size, const char *file,
                          es_model_config *out, es_error *err)
{
    es_json j = {bytes, 0, size, file, "config", err, 0};
    bool seen[FIELDS] = {false};
    parsed p = {0};
    *out = p.config;
    ES_TRY(take_fields(&j, seen, &p));
    ES_TRY(check_words(file, &p, err));
    for (int i = 0; i < FIELDS; i++) {
        const bool null = fields[i].kind == WORD && !*((const char *)&p + fields[i].at);
        if (fields[i].required && (!seen[i] || null))
            return es_fail_file(err, ES_E_FORMAT, file, -1, "config.missing",
                                "is this the config.json that came with the weights?",
                                "there is no %s", fields[i].name);
    }
    if (p.config.hidden % p.config.heads != 0)
        return es_fail_file(err, ES_E_FORMAT, file, -1, "config.heads",
                            "is this the config.json that came with the weights?",
                            "hidden_size %lld is not a multiple of num_attention_heads %lld",
                            (long long)p.config.hidden, (long long)p.config.heads);
    *out = p.config;
    return ES_OK;
}

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
