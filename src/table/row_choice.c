/* SPDX-License-Identifier: Apache-2.0 */
/* row_choice.c : selects and sorts the rows of a table (--layer, --head, --sort, --top). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "table/sheet.h"
#include "table/table.h"

/* Returns true if a column has this key, CSV name or title. */
static bool is_called(const es_table_column *c, const char *name)
{
    return strcmp(c->key, name) == 0 || strcmp(c->name, name) == 0 || strcmp(c->title, name) == 0;
}

/* Finds a column by key, CSV name or title. */
static bool find_called(const es_table *t, const char *name, es_table_column *out)
{
    for (int64_t j = 0; es_table_column_at(t, j, out); j++)
        if (is_called(out, name))
            return true;
    return false;
}

bool es_choice_sorted_by(const es_table *t, const es_answer_opts *opts, es_table_column *out)
{
    return opts->sort && find_called(t, opts->sort + (opts->sort[0] == '-'), out);
}

bool es_choice_shows(const es_table *t, const es_table_view *view, const es_answer_opts *opts)
{
    es_table_column c;
    if (!view->only_with_full || opts->full)
        return true;
    for (const es_row_pick *p = opts->picks; p && p->key; p++)
        if (!es_table_find(t, p->key, &c))
            return false;
    return opts->picks && opts->picks->key;
}

/* A row of a table without the column stays. */
static bool is_picked(const es_table *t, int64_t row, const es_row_pick *picks)
{
    es_table_column c;
    for (const es_row_pick *p = picks; p && p->key; p++) {
        if (!es_table_find(t, p->key, &c) || c.format == ES_FORMAT_TEXT)
            continue;
        bool found = false;
        for (int64_t i = 0; i < p->count; i++)
            found = found || es_column_real(&c, row) == (double)p->values[i];
        if (!found)
            return false;
    }
    return true;
}

/* ---- order ---- */

/* What a row is compared by; rows without a value come last, equal ones stay in their order. */
typedef struct place {
    int64_t row;
    double value;
    const char *text;
    int sign;
} place;

/* Compares two rows for qsort(). Missing values come last in either direction; equal ones keep
 * their order. */
static int compare(const void *left, const void *right)
{
    const place *a = left, *b = right;
    const bool no_a = !a->text && isnan(a->value), no_b = !b->text && isnan(b->value);
    int order = 0;
    if (no_a != no_b)
        return no_a ? 1 : -1;
    if (!no_a)
        order = a->text ? strcmp(a->text, b->text) : (a->value > b->value) - (a->value < b->value);
    return order ? a->sign * order : a->row < b->row ? -1 : 1;
}

/* Sorts rows by a column; sign -1: the largest first. */
static es_status sort_rows(const es_table_column *c, int sign, es_row_list *rows, es_arena *arena,
                           es_error *err)
{
    place *places;
    ES_TRY(ES_ARENA_NEW(arena, places, rows->count, "an order of rows", err));
    for (int64_t i = 0; i < rows->count; i++) {
        const int64_t row = rows->at[i];
        places[i] = (place){.row = row,
                            .value = es_column_real(c, row),
                            .text = es_column_text(c, row),
                            .sign = sign};
    }
    if (rows->count > 1)
        qsort(places, (size_t)rows->count, sizeof *places, compare);
    for (int64_t i = 0; i < rows->count; i++)
        rows->at[i] = places[i].row;
    return ES_OK;
}

/* ---- all of it ---- */

es_status es_choice_rows(const es_table *t, const es_answer_opts *opts, es_arena *arena,
                         es_row_list *out, es_error *err)
{
    es_table_column by;
    *out = (es_row_list){0};
    ES_TRY(ES_ARENA_NEW(arena, out->at, t->rows, "rows of a view", err));
    for (int64_t i = 0; i < t->rows; i++)
        if (is_picked(t, i, opts->picks))
            out->at[out->count++] = i;
    const bool sorted = es_choice_sorted_by(t, opts, &by);
    if (sorted)
        ES_TRY(sort_rows(&by, opts->sort[0] == '-' ? -1 : 1, out, arena, err));
    if (opts->top > 0 && out->count > opts->top && (sorted || !opts->sort))
        out->count = opts->top;
    return ES_OK;
}

/* Counts the visible rows that hold one of the values; -1: no table has the column. */
static int64_t count_picked(const es_answer *a, const es_table *only, const es_row_pick *pick)
{
    const es_row_pick alone[] = {*pick, {0}};
    es_table_column c;
    int64_t count = -1;
    for (int64_t i = 0; i < a->tables_count; i++) {
        const es_table *t = a->tables[i];
        if (only ? t != only : !t->spec->views)
            continue;
        if (!es_table_find(t, pick->key, &c))
            continue;
        count = count < 0 ? 0 : count;
        for (int64_t row = 0; row < t->rows; row++)
            count += is_picked(t, row, alone);
    }
    return count;
}

es_status es_choice_check(const es_answer *a, const es_table *only, const es_answer_opts *opts,
                          es_error *err)
{
    es_table_column c;
    const char *where = only ? "this table has no" : "no table here has a";
    bool sorted = !opts->sort;
    for (int64_t i = 0; i < a->tables_count && !sorted; i++)
        sorted = (!only || a->tables[i] == only) && es_choice_sorted_by(a->tables[i], opts, &c);
    if (!sorted)
        return es_fail(err, ES_E_ARGUMENT, "answer.sort", "", "%s column \"%s\"", where,
                       opts->sort + (opts->sort[0] == '-'));
    for (const es_row_pick *p = opts->picks; p && p->key; p++) {
        const int64_t count = count_picked(a, only, p);
        if (count < 0)
            return es_fail(err, ES_E_ARGUMENT, "answer.rows", "", "%s column %s", where, p->key);
        if (count == 0)
            return es_fail(err, ES_E_ARGUMENT, "answer.rows", "", "no row has %s %lld%s", p->key,
                           (long long)p->values[0],
                           p->count > 1 ? " or any other of the list" : "");
    }
    return ES_OK;
}
