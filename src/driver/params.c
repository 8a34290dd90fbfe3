/* SPDX-License-Identifier: Apache-2.0 */
/* params.c : values that were given as text, in the struct that a list of parameters describes. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "driver/numbers.h"

enum { MOST = 128 };

struct es_params {
    const es_param *list;
    void *values;
    es_arena arena; /* copies of texts, and the struct */
    bool given[MOST];
};

/* ---- names ---- */

/* Returns the smaller of two numbers. */
static int least_of(int a, int b) { return a < b ? a : b; }

/* Edits that turn a into b: insertions, deletions, replacements, neighbours that changed places.
 * Names longer than the table are compared by their beginnings. */
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int rows[3][LONGEST + 1]; /* of the dynamic programme: row i is in rows[i % 3] */
    const int height = (int)strnlen(a, LONGEST), width = (int)strnlen(b, LONGEST);
    for (int i = 0; i <= height; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *higher = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= width; j++) {
            row[j] = i == 0 ? j
                            : least_of(above[j - 1] + (a[i - 1] != b[j - 1]),
                                       1 + least_of(above[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least_of(row[j], higher[j - 2] + 1);
        }
    }
    return rows[height % 3][width];
}

/* Returns the only name that begins with the typed text of three letters or more: "conv" is
 * converge. */
static const char *only_beginning(const char *text, const char *const *names, int count)
{
    const char *found = NULL;
    const size_t length = strlen(text);
    for (int i = 0; i < count && length >= 3; i++) {
        if (strncmp(names[i], text, length) != 0)
            continue;
        if (found)
            return NULL;
        found = names[i];
    }
    return found;
}

/* Returns how many typing errors are accepted: one in three letters of the longer of the two. */
static int slips_of(const char *text, const char *name)
{
    const int typed = (int)strnlen(text, 9), meant = (int)strnlen(name, 9);
    const int length = typed > meant ? typed : meant;
    return length < 6 ? 1 : length / 3;
}

const char *es_nearest(const char *text, const char *const *names, int count)
{
    const char *best = NULL;
    int least = INT_MAX;
    for (int i = 0; i < count; i++) {
        const int distance = edit_distance(text, names[i]);
        if (distance < least && distance <= slips_of(text, names[i]) &&
            distance < (int)strlen(names[i])) {
            best = names[i];
            least = distance;
        }
    }
    return best ? best : only_beginning(text, names, count);
}

const es_param *es_param_find(const es_param *list, const char *name)
{
    for (const es_param *p = list; p && p->name; p++)
        if (strcmp(p->name, name) == 0 || (p->alias && strcmp(p->alias, name) == 0))
            return p;
    return NULL;
}

/* ---- one value ---- */

/* "--n GRID: numbers of tokens": what the option is, up to the end of a sentence. */
static const char *hint_of(const es_param *p, char *out, size_t size)
{
    const int used = snprintf(out, size, "--%s%s%s: ", p->name, p->argument ? " " : "",
                              p->argument ? p->argument : "");
    const char *end = p->help;
    while (*end && !(strchr(".;", *end) && end[1] == ' ') && *end != '\n')
        end++;
    if (used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, "%.*s", (int)(end - p->help), p->help);
    return out;
}

/* Fails because of a value; the hint says what the option takes. */
static es_status fail_value(const es_param *p, const char *text, const char *why, es_error *err)
{
    char hint[sizeof err->hint];
    return es_fail(err, ES_E_ARGUMENT, "option.value", hint_of(p, hint, sizeof hint), "--%s %s: %s",
                   p->name, text, why);
}

/* Fails because a number is out of range. */
static es_status fail_bounds(const es_param *p, const char *text, es_error *err)
{
    char why[96];
    snprintf(why, sizeof why, "expected a number from %.10g to %.10g", p->min, p->max);
    return fail_value(p, text, why, err);
}

/* Returns the present word for a choice that had another name before version 0.3. */
static const char *present_word(const char *text)
{
    return strcmp(text, "house") == 0 ? "default" : text;
}

/* Stores the index of a word among the choices. The error lists them; its hint names the nearest,
 * or else describes the option, unless that would list them again. */
static es_status store_choice(const es_param *p, const char *text, int *out, es_error *err)
{
    char why[192] = "expected one of", hint[sizeof err->hint];
    int count = 0;
    for (int i = 0; p->choices[i]; i++) {
        if (strcmp(present_word(text), p->choices[i]) == 0) {
            *out = i;
            return ES_OK;
        }
        const size_t used = strlen(why);
        snprintf(why + used, sizeof why - used, "%s %s", i ? "," : "", p->choices[i]);
        count++;
    }
    const char *nearest = es_nearest(text, p->choices, count);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean --%s %s?", p->name, nearest);
    else if (strstr(hint_of(p, hint, sizeof hint), p->choices[count - 1]))
        snprintf(hint, sizeof hint, "--help says what they mean");
    return es_fail(err, ES_E_ARGUMENT, "option.value", hint, "--%s %s: %s", p->name, text, why);
}

/* Stores a grid and frees the one that was there, for example a default. */
static es_status store_grid(const es_param *p, const char *text, es_grid *out, es_error *err)
{
    char why[256], hint[sizeof err->hint];
    const es_grid_rule rule = {.min = p->min, .max = p->max, .increasing = p->increasing};
    es_grid grid;
    if (!es_grid_parse(text, p->kind == ES_PARAM_COUNTS, &rule, &grid, why, (int)sizeof why))
        return es_fail(err, ES_E_ARGUMENT, "option.grid",
                       strstr(why, ES_GRID_RANGE) ? hint_of(p, hint, sizeof hint)
                       : p->max == 1.0
                           ? "a share is 0.25, 1/4 or 25%; several: 1/8,1/4"
                           : "a grid is a number, a list 64,128,256 or LOW..HIGH*POINTS",
                       "--%s: %s", p->name, why);
    es_grid_free(out);
    *out = grid;
    return ES_OK;
}

/* Stores a whole number within the bounds of the parameter. */
static es_status store_whole(const es_param *p, const char *text, int64_t *out, es_error *err)
{
    const char *why = es_number_whole(text, out);
    if (!why && ((double)*out < p->min || (double)*out > p->max))
        return fail_bounds(p, text, err);
    return why ? fail_value(p, text, why, err) : ES_OK;
}

/* Stores a real number within the bounds of the parameter. */
static es_status store_number(const es_param *p, const char *text, double *out, es_error *err)
{
    const char *why = es_number_real(text, out);
    if (!why && (*out < p->min || *out > p->max))
        return fail_bounds(p, text, err);
    return why ? fail_value(p, text, why, err) : ES_OK;
}

/* Appends a text to a list; returns the reason if the list is full. */
static const char *store_text(es_texts *texts, const char *text)
{
    if (texts->count == ES_MOST_TEXTS)
        return "given too many times";
    texts->at[texts->count++] = text;
    return NULL;
}

/* Converts a text by the kind of the parameter and stores it in the struct. The text is copied,
 * so that the caller's may go away. */
static es_status store(es_params *params, const es_param *p, const char *text, es_error *err)
{
    void *to = (char *)params->values + p->field;
    const char *why = NULL;
    const char *copy = text ? es_arena_text(&params->arena, text) : "";
    if (!copy)
        return es_fail(err, ES_E_MEMORY, "memory.system", "", "out of memory for --%s", p->name);
    switch (p->kind) {
    case ES_PARAM_FLAG:
        *(bool *)to = !text || strcmp(text, "yes") == 0;
        return !text || strcmp(text, "yes") == 0 || strcmp(text, "no") == 0
                   ? ES_OK
                   : es_fail(err, ES_E_ARGUMENT, "option.value", "give it without a value",
                             "--%s takes no value", p->name);
    case ES_PARAM_WHOLE:
        return store_whole(p, copy, to, err);
    case ES_PARAM_NUMBER:
        return store_number(p, copy, to, err);
    case ES_PARAM_CHOICE:
        return store_choice(p, copy, to, err);
    case ES_PARAM_REALS:
    case ES_PARAM_COUNTS:
        return store_grid(p, copy, to, err);
    case ES_PARAM_SEED:
        why = es_number_seed(copy, to);
        break;
    case ES_PARAM_BYTES:
        why = es_number_bytes(copy, to);
        if (!why && *(int64_t *)to < 1)
            why = "expected at least one byte";
        break;
    case ES_PARAM_TEXTS:
    case ES_PARAM_FILES:
    case ES_PARAM_NAMED:
        why = *copy ? store_text(to, copy) : "the text is empty";
        break;
    case ES_PARAM_TEXT:
    case ES_PARAM_FILE:
    case ES_PARAM_MODEL:
    case ES_PARAM_OUTPUT:
        *(const char **)to = copy;
        why = *copy ? NULL : "the text is empty";
        break;
    }
    return why ? fail_value(p, copy, why, err) : ES_OK;
}

/* ---- all of them ---- */

/* What a field holds that was not given: nothing that could be taken for a value. */
static void set_neutral(const es_param *p, void *values)
{
    void *to = (char *)values + p->field;
    if (p->kind == ES_PARAM_NUMBER)
        *(double *)to = (double)NAN;
    if (p->kind == ES_PARAM_CHOICE)
        *(int *)to = -1;
}

es_status es_params_new(const es_param *list, size_t size, es_params **out, es_error *err)
{
    *out = NULL;
    es_params *params;
    ES_TRY(ES_MEM_NEW(NULL, params, 1, "parameters", err));
    params->list = list;
    es_status status = es_arena_array(&params->arena, (int64_t)(size ? size : 1), 1, 1,
                                      "parameters", &params->values, err);
    for (const es_param *p = list; status == ES_OK && p && p->name; p++) {
        set_neutral(p, params->values);
        if (p->default_value)
            status = store(params, p, p->default_value, err);
    }
    if (status == ES_OK)
        *out = params;
    else
        es_params_free(params);
    return status;
}

void es_params_free(es_params *params)
{
    if (!params)
        return;
    for (const es_param *p = params->list; params->values && p && p->name; p++)
        if (p->kind == ES_PARAM_REALS || p->kind == ES_PARAM_COUNTS)
            es_grid_free((es_grid *)(void *)((char *)params->values + p->field));
    es_arena_free(&params->arena);
    es_mem_free(NULL, params);
}

/* Returns true for parameters that may be given several times. */
static bool is_list(const es_param *p)
{
    return p->kind == ES_PARAM_TEXTS || p->kind == ES_PARAM_FILES || p->kind == ES_PARAM_NAMED;
}

/* Fails for a name that is not in the list: names the new spelling of an old one, or the nearest
 * name. */
static es_status fail_unknown(const es_param *list, const char *name, es_error *err)
{
    const char *names[MOST];
    int count = 0;
    for (const es_param *p = list; p && p->name && count < MOST; p++) {
        if (p->renamed_from && strcmp(p->renamed_from, name) == 0)
            return es_fail(err, ES_E_ARGUMENT, "option.renamed", "the option was renamed",
                           "--%s is now --%s", name, p->name);
        names[count++] = p->name;
    }
    const char *nearest = es_nearest(name, names, count);
    char hint[128] = "--help lists the options";
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean --%s?", nearest);
    return es_fail(err, ES_E_ARGUMENT, "option.unknown", hint, "unknown option --%s", name);
}

es_status es_params_set(es_params *params, const char *name, const char *text, es_error *err)
{
    const es_param *p = es_param_find(params->list, name);
    if (!p)
        return fail_unknown(params->list, name, err);
    bool *given = &params->given[(p - params->list) % MOST];
    if (*given && !is_list(p))
        return es_fail(err, ES_E_ARGUMENT, "option.repeated", "give it once", "--%s is given twice",
                       p->name);
    *given = true;
    return store(params, p, text, err);
}

void *es_params_values(es_params *params) { return params->values; }

bool es_params_given(const es_params *params, const char *name)
{
    const es_param *p = es_param_find(params->list, name);
    return p && params->given[(p - params->list) % MOST];
}
