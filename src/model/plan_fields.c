/* SPDX-License-Identifier: Apache-2.0 */
/* plan_fields.c : objects of plan files by tables of fields: which keys there are, what stands
 * there, and how large it may be. */
#include "model/plan_reading.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char es_plan_hint[] = "plan files are described in docs/FILES.md";
enum { FIELDS_MOST = 24 };

es_status es_plan_fail(es_plan_reading *r, int64_t at, const char *rule, const char *hint,
                       const char *fmt, ...)
{
    char what[sizeof r->j.err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return es_fail_file(r->j.err, ES_E_FORMAT, r->j.file, at, rule, hint, "%s", what);
}

/* Writes "layer 3, head 2: ", or as much of it as is known. */
const char *es_plan_where(const es_plan_reading *r, char out[ES_PLAN_WORD])
{
    out[0] = '\0';
    if (r->in_layer >= 0)
        snprintf(out, ES_PLAN_WORD, "layer %lld, %shead %lld: ", (long long)r->layers,
                 r->version == 3 ? "key-value " : "", (long long)r->in_layer);
    return out;
}

/* Returns whether a number need not be whole. */
static bool is_real(const es_plan_field *f)
{
    return f->kind == ES_PLAN_RISK || f->kind == ES_PLAN_REAL;
}

/* Fails because of a number out of range. */
static es_status bad_number(es_plan_reading *r, size_t at, const es_plan_field *f, const char *is)
{
    char place[ES_PLAN_WORD];
    return es_plan_fail(r, (int64_t)at, f->rule ? f->rule : "plan.range", es_plan_hint,
                        "%s%s is %s; it should be a %snumber from %.15g to %.15g",
                        es_plan_where(r, place), f->key, is, is_real(f) ? "" : "whole ", f->min,
                        f->max);
}

/* Reads a number of a plan. The risk of a head may be null: not known. */
static es_status take_number(es_plan_reading *r, const es_plan_field *f, double *out)
{
    const unsigned char first = es_json_kind(&r->j);
    const size_t at = r->j.at;
    if (first == 'n' && f->kind == ES_PLAN_RISK) {
        *out = NAN;
        return es_json_skip(&r->j);
    }
    if (first != '-' && (first < '0' || first > '9'))
        return bad_number(r, at, f, first == '"' ? "text" : first == 'n' ? "null" : "no number");
    ES_TRY(es_json_number(&r->j, out));
    const bool whole = is_real(f) || (fabs(*out) <= 9e15 && *out == floor(*out));
    if (!whole || !(*out >= f->min && *out <= f->max))
        return bad_number(r, at, f,
                          *out < 0    ? "negative"
                          : *out == 0 ? "0"
                          : !whole    ? "not whole"
                                      : "too large");
    return ES_OK;
}

/* Reads a string into char[f->max]. */
static es_status take_text(es_plan_reading *r, const es_plan_field *f, char *out)
{
    const size_t at = (es_json_kind(&r->j), r->j.at), size = (size_t)f->max;
    char place[ES_PLAN_WORD];
    es_json_text text;
    ES_TRY(es_json_string(&r->j, &text));
    es_json_copy(&text, out, size);
    if (f->rule && strlen(out) == size - 1)
        return es_plan_fail(r, (int64_t)at, f->rule, es_plan_hint, "%s%s has more than %zu bytes",
                            es_plan_where(r, place), f->key, size - 2);
    return ES_OK;
}

/* Reads one value by the kind of its field. */
static es_status take_value(es_plan_reading *r, const es_plan_field *f, void *into)
{
    void *out = (char *)into + f->at;
    double number;
    switch (f->kind) {
    case ES_PLAN_WHOLE:
        ES_TRY(take_number(r, f, &number));
        *(int64_t *)out = (int64_t)number;
        return ES_OK;
    case ES_PLAN_COUNT:
    case ES_PLAN_REAL:
    case ES_PLAN_RISK:
        return take_number(r, f, out);
    case ES_PLAN_CHARS:
        return take_text(r, f, out);
    case ES_PLAN_TRUTH:
        return es_json_boolean(&r->j, out);
    default:
        return f->take(r);
    }
}

/* Fails because of a key that is not known. */
static es_status unknown_key(es_plan_reading *r, const es_json_text *key)
{
    char word[ES_PLAN_WORD], place[ES_PLAN_WORD];
    es_json_copy(key, word, sizeof word);
    return es_plan_fail(r, (int64_t)key->at, "plan.unknown", es_plan_hint, "%sunknown key \"%s\"",
                        es_plan_where(r, place), word);
}

/* Reads one object by its table of fields. */
es_status es_plan_object(es_plan_reading *r, const es_plan_field *fields, void *into)
{
    es_json_list list;
    es_json_text key;
    bool seen[FIELDS_MOST] = {0};
    char place[ES_PLAN_WORD];
    const size_t begin = (es_json_kind(&r->j), r->j.at);
    ES_TRY(es_json_begin(&r->j, '{', &list));
    for (;;) {
        int which = 0;
        ES_TRY(es_json_next(&r->j, &list, &key));
        if (list.done)
            break;
        while (fields[which].key && !es_json_same(&key, fields[which].key))
            which++;
        if (!fields[which].key)
            return unknown_key(r, &key);
        if (seen[which])
            return es_plan_fail(r, (int64_t)key.at, "plan.duplicate", "keep one of them",
                                "%sduplicate key %s", es_plan_where(r, place), fields[which].key);
        seen[which] = true;
        ES_TRY(take_value(r, &fields[which], into));
    }
    for (int i = 0; fields[i].key; i++)
        if (!seen[i] && !fields[i].optional)
            return es_plan_fail(r, (int64_t)begin, "plan.missing", es_plan_hint, "%smissing %s",
                                es_plan_where(r, place), fields[i].key);
    return ES_OK;
}
