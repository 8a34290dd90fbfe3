/* SPDX-License-Identifier: Apache-2.0 */
/* kv_type.c : the registry of cache number types; formats from text, and back. */
#include "cache/kv_type.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/limits.h"

/* ---- types ---- */

#define DECLARE(name) extern const es_kv_type es_kv_row_##name;
#define LIST(name)    &es_kv_row_##name,
ES_KV_TYPES(DECLARE, DECLARE)
static const es_kv_type *const types[] = {ES_KV_TYPES(LIST, LIST)};
static const int64_t count = sizeof types / sizeof *types;

const es_kv_type *es_kv_type_at(int64_t at) { return at >= 0 && at < count ? types[at] : NULL; }

const es_kv_type *es_kv_type_find(const char *name)
{
    for (int64_t i = 0; i < count; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

enum { HINT = 256 };

/* Writes a hint that lists all names, and returns it. */
static const char *types_hint(char hint[HINT])
{
    size_t used = (size_t)snprintf(hint, HINT, "use f32");
    for (int64_t i = 0; i < count && used < HINT; i++)
        used += (size_t)snprintf(hint + used, HINT - used, "%s %s", i == count - 1 ? " or" : ",",
                                 types[i]->name);
    if (used < HINT)
        snprintf(hint + used, HINT - used, "; +hadamard after a name rotates rows first");
    return hint;
}

/* ---- formats from text ---- */

enum { GROUP = 32, RESIDUAL = 128 }; /* default values of types with round_keys */

/* Reads a whole number from 1 on, for group and residual. */
static bool read_count(const char *text, int64_t *out)
{
    double number;
    if (strspn(text, "0123456789") != strlen(text) || !es_decimal_read(text, &number) ||
        !(number >= 1.0 && number <= (double)ES_MAX_ROWS))
        return false;
    *out = (int64_t)number;
    return true;
}

/* Reads the option of a type with one scale for all rows: "tensor" or a number. */
static es_status read_scale(const char *word, es_kv_format *out, es_error *err)
{
    static const char hint[] = "use fp8, fp8:tensor, or a scale above 0 as in fp8:0.5";
    out->scale_of_tensor = strcmp(word, "tensor") == 0;
    out->scale = 1.0;
    if (out->scale_of_tensor)
        return ES_OK;
    if (!es_decimal_read(word, &out->scale))
        return es_fail(err, ES_E_ARGUMENT, "kv_type.option", hint, "%s: unknown option \"%s\"",
                       out->type->name, word);
    if (!(out->scale >= (double)FLT_MIN && out->scale <= (double)FLT_MAX))
        return es_fail(err, ES_E_ARGUMENT, "kv_type.scale", hint,
                       "%s: the scale %s is not a positive number of f32", out->type->name, word);
    return ES_OK;
}

/* Reads an option of a type with round_keys: "group=G" or "residual=R". */
static es_status read_group(const char *word, es_kv_format *out, es_error *err)
{
    static const char hint[] = "use whole numbers from 1 on, as in kivi2:group=32:residual=128";
    const bool group = strncmp(word, "group=", 6) == 0;
    if (!group && strncmp(word, "residual=", 9) != 0)
        return es_fail(err, ES_E_ARGUMENT, "kv_type.option", hint, "%s: unknown option \"%s\"",
                       out->type->name, word);
    if (!read_count(strchr(word, '=') + 1, group ? &out->group : &out->residual))
        return es_fail(err, ES_E_ARGUMENT, group ? "kv_type.group" : "kv_type.residual", hint,
                       "%s: cannot use \"%s\"", out->type->name, word);
    return ES_OK;
}

/* Reads one option by the kind of its type. */
static es_status read_option(const char *word, es_kv_format *out, es_error *err)
{
    if (out->type && out->type->largest > 0.0f)
        return read_scale(word, out, err);
    if (es_kv_format_by_query(out))
        return read_group(word, out, err);
    return es_fail(err, ES_E_ARGUMENT, "kv_type.option", "leave the option out",
                   "%s takes no options, found \"%s\"", out->type ? out->type->name : "f32", word);
}

/* Sets the type called `name` and its default options. */
static es_status read_type(const char *name, es_kv_format *out, es_error *err)
{
    char hint[HINT];
    *out = (es_kv_format){.type = es_kv_type_find(name), .scale = 1.0};
    if (!out->type && strcmp(name, "f32") != 0)
        return es_fail(err, ES_E_ARGUMENT, "kv_type.name", types_hint(hint),
                       "unknown cache type \"%s\"", name);
    if (es_kv_format_by_query(out)) {
        out->group = GROUP;
        out->residual = RESIDUAL;
    }
    return ES_OK;
}

/* Cuts "+hadamard" or "+h" off the end of `text`; returns whether it was there. */
static bool cut_rotation(char *text)
{
    char *plus = strrchr(text, '+');
    const bool found = plus && (strcmp(plus, "+hadamard") == 0 || strcmp(plus, "+h") == 0);
    if (found)
        *plus = '\0';
    return found;
}

/* Checks what options mean together. */
static es_status check(const es_kv_format *f, es_error *err)
{
    if (f->hadamard && !f->type)
        return es_fail(err, ES_E_ARGUMENT, "kv_type.rotation", "use f32 alone",
                       "f32+hadamard: rows that are not rounded need no rotation");
    if (es_kv_format_by_query(f) && f->residual % f->group != 0)
        return es_fail(err, ES_E_ARGUMENT, "kv_type.residual",
                       "use a residual that is a multiple of the group",
                       "%s: residual %lld is not a multiple of group %lld", f->type->name,
                       (long long)f->residual, (long long)f->group);
    return ES_OK;
}

es_status es_kv_format_parse(const char *text, es_kv_format *out, es_error *err)
{
    char copy[ES_KV_NAME], hint[HINT];
    es_kv_format format;
    if (strlen(text) >= sizeof copy)
        return es_fail(err, ES_E_ARGUMENT, "kv_type.name", types_hint(hint),
                       "unknown cache type \"%.40s...\"", text);
    snprintf(copy, sizeof copy, "%s", text);
    const bool hadamard = cut_rotation(copy);
    char *next = strchr(copy, ':');
    if (next)
        *next++ = '\0';
    ES_TRY(read_type(copy, &format, err));
    format.hadamard = hadamard;
    while (next) {
        char *word = next;
        next = strchr(word, ':');
        if (next)
            *next++ = '\0';
        ES_TRY(read_option(word, &format, err));
    }
    ES_TRY(check(&format, err));
    *out = format;
    return ES_OK;
}

/* ---- formats to text ---- */

char *es_kv_format_name(const es_kv_format *format, char *out, size_t size)
{
    const es_kv_type *type = format->type;
    char number[ES_DECIMAL_SIZE], scale[40] = "", group[40] = "", residual[40] = "";
    if (type && type->largest > 0.0f && format->scale_of_tensor)
        snprintf(scale, sizeof scale, ":tensor");
    else if (type && type->largest > 0.0f && format->scale != 1.0)
        snprintf(scale, sizeof scale, ":%s", es_decimal_write(format->scale, number));
    if (es_kv_format_by_query(format) && format->group != GROUP)
        snprintf(group, sizeof group, ":group=%lld", (long long)format->group);
    if (es_kv_format_by_query(format) && format->residual != RESIDUAL)
        snprintf(residual, sizeof residual, ":residual=%lld", (long long)format->residual);
    snprintf(out, size, "%s%s%s%s%s", type ? type->name : "f32", scale, group, residual,
             type && format->hadamard ? "+hadamard" : "");
    return out;
}

/* ---- what a format costs ---- */

bool es_kv_format_by_query(const es_kv_format *format)
{
    return format->type && format->type->round_keys;
}

double es_kv_format_bits(const es_kv_format *format, es_kv_side side, int64_t head_dim)
{
    const es_kv_type *type = format->type;
    if (!type)
        return 32.0;
    if (side == ES_KV_KEYS && type->round_keys)
        return type->bits + (double)type->scale_bits / (double)format->group;
    const int64_t blocks = (head_dim + ES_KV_BLOCK - 1) / ES_KV_BLOCK;
    return type->bits + (double)(type->scale_bits * blocks) / (double)head_dim;
}
