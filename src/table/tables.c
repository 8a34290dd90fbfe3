/* tables.c : rows and columns: filling them, looking things up. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "table/answer.h"
#include "table/table.h"

const char *es_key(char out[ES_KEY_ROOM], const char *a, const char *b)
{
    snprintf(out, ES_KEY_ROOM, "%s%s", a, b);
    return out;
}

const char *es_standing_name(es_standing standing)
{
    static const char *const names[] = {"", "proved", "heuristic", "numerical", "cited"};
    const size_t at = (size_t)standing;
    return at < sizeof names / sizeof *names ? names[at] : "";
}

int64_t es_words_at(const char *list, const char *key)
{
    const size_t length = strlen(key);
    for (const char *at = list; length && (at = strstr(at, key)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return at - list;
    return -1;
}

/* ---- columns ---- */

static bool is_listed(const es_table_spec *spec, const char *key)
{
    for (const es_column *c = spec->columns; c->key; c++)
        if (strcmp(c->key, key) == 0)
            return true;
    return false;
}

static void add_column(es_table *t, const es_column *spec, const char *key, const char *name,
                       const char *title, bool is_error)
{
    es_answer *a = t->answer;
    if (!es_answer_grow(a, &t->columns, t->count, &t->columns_room, sizeof(column)))
        return;
    t->columns[t->count++] = (column){.about = {.key = es_answer_keep(a, key),
                                                .name = es_answer_keep(a, name),
                                                .title = es_answer_keep(a, title),
                                                .spec = spec,
                                                .format = is_error ? ES_FORMAT_SHORT : spec->format,
                                                .is_error = is_error}};
}

/* The column, and behind it its standard error unless the spec lists that by itself. */
static void add_with_error(es_table *t, const es_column *c, const char *label, int64_t index)
{
    char key[ES_KEY_ROOM], name[ES_KEY_ROOM], title[ES_KEY_ROOM];
    const char *const keys[2] = {c->key, c->error};
    for (int i = 0; i < 2; i++) {
        if (!keys[i] || (i && is_listed(t->spec, keys[i])))
            continue;
        const char *head = i ? "error of " : "";
        if (label) {
            snprintf(key, sizeof key, "%s.%lld", keys[i], (long long)index);
            snprintf(name, sizeof name, "%s_%s", keys[i], label);
            snprintf(title, sizeof title, "%s%s %s", head, c->title, label);
        } else {
            snprintf(title, sizeof title, "%s%s", head, c->title);
        }
        add_column(t, c, label ? key : keys[i], label ? name : keys[i], title, i == 1);
    }
}

void es_table_each(es_table *table, const char *key, const char *const *labels, int64_t n)
{
    if (!table->spec || table->answer->status != ES_OK)
        return;
    for (const es_column *c = table->spec->columns; c->key; c++)
        for (int64_t i = 0; c->each && strcmp(c->key, key) == 0 && i < n; i++)
            add_with_error(table, c, labels[i], i);
}

/* ---- tables of an answer ---- */

es_table *es_answer_table(es_answer *answer, const es_table_spec *spec)
{
    for (int64_t i = 0; i < answer->tables_count; i++)
        if (answer->tables[i]->spec == spec)
            return answer->tables[i];
    void *memory = NULL;
    if (answer->status == ES_OK)
        answer->status = es_arena_array(&answer->arena, 1, 1, sizeof(es_table), "a table", &memory,
                                        &answer->err);
    if (answer->status != ES_OK || !es_answer_grow(answer, &answer->tables, answer->tables_count,
                                                   &answer->tables_room, sizeof(es_table *)))
        return &answer->nowhere;
    es_table *t = memory;
    *t = (es_table){.answer = answer, .spec = spec};
    answer->tables[answer->tables_count++] = t;
    for (const es_column *c = spec->columns; c->key; c++)
        if (!c->each)
            add_with_error(t, c, NULL, 0);
    return t;
}

const es_table *es_answer_find(const es_answer *answer, const char *key)
{
    for (int64_t i = 0; i < answer->tables_count; i++)
        if (strcmp(answer->tables[i]->spec->key, key) == 0)
            return answer->tables[i];
    return NULL;
}

const es_table *es_answer_at(const es_answer *answer, int64_t at)
{
    return at >= 0 && at < answer->tables_count ? answer->tables[at] : NULL;
}

void es_table_show(es_table *table, const char *const *titles)
{
    table->hidden = 0;
    const es_table_view *view = table->spec ? table->spec->views : NULL;
    for (uint64_t bit = 1; view && view->title; view++, bit <<= 1) {
        bool wanted = false;
        for (const char *const *t = titles; t && *t; t++)
            wanted = wanted || strcmp(*t, view->title) == 0;
        table->hidden |= wanted ? 0 : bit;
    }
}

/* ---- filling ---- */

/* Room for so many rows of a column; cells that nobody fills are NaN, no text, no list. */
static es_status more_cells(es_table *t, column *c, int64_t room)
{
    es_answer *a = t->answer;
    const bool text = c->about.format == ES_FORMAT_TEXT, array = c->about.spec->array;
    void *memory = NULL;
    ES_TRY(es_arena_array(&a->arena, room, 1, text || array ? sizeof(void *) : sizeof(double),
                          "rows of a table", &memory, &a->err));
    const void *old = array ? (void *)c->arrays : text ? (void *)c->texts : c->reals;
    if (old)
        memcpy(memory, old, (size_t)t->rows * (text || array ? sizeof(void *) : sizeof(double)));
    if (array)
        c->arrays = memory;
    else if (text)
        c->texts = memory;
    else
        c->reals = memory;
    for (int64_t i = t->rows; c->reals && i < room; i++)
        c->reals[i] = (double)NAN;
    c->about.reals = c->reals;
    c->about.texts = c->texts;
    return ES_OK;
}

/* Twice the room for rows, in every column. */
static bool more_rows(es_table *t)
{
    es_answer *a = t->answer;
    const int64_t room = t->rows_room ? 2 * t->rows_room : 16;
    for (int64_t j = 0; j < t->count && a->status == ES_OK; j++)
        a->status = more_cells(t, &t->columns[j], room);
    if (a->status == ES_OK)
        t->rows_room = room;
    return a->status == ES_OK;
}

int64_t es_table_row(es_table *table)
{
    if (!table->spec || table->answer->status != ES_OK ||
        (table->rows == table->rows_room && !more_rows(table)))
        return 0;
    return table->rows++;
}

/* Columns are mostly filled in their order, so the search goes on where the last one ended. */
static column *find_column(es_table *t, const char *key)
{
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t j = (t->hint + i) % t->count;
        if (strcmp(t->columns[j].about.key, key) == 0) {
            t->hint = j + 1;
            return &t->columns[j];
        }
    }
    return NULL;
}

/* Keeps the failure that a misspelt key is, unless one is kept already. */
static void fail_column(const es_table *t, int64_t row, const char *key, bool text)
{
    es_answer *a = t->answer;
    if (t->spec && a->status == ES_OK)
        a->status = es_fail(&a->err, ES_E_ARGUMENT, "table.column", "add it to the table's columns",
                            "table %s has no %s column %s in row %lld", t->spec->key,
                            text ? "text" : "number", key, (long long)row);
}

/* The column to fill; NULL, with the failure kept, for a key or kind that the spec does not have.
 */
static column *column_for(es_table *t, int64_t row, const char *key, bool text)
{
    if (!t->spec || t->answer->status != ES_OK)
        return NULL;
    column *c = find_column(t, key);
    if (c && row < t->rows && (c->about.format == ES_FORMAT_TEXT) == text)
        return c;
    fail_column(t, row, key, text);
    return NULL;
}

void es_table_real(es_table *table, int64_t row, const char *key, double value)
{
    column *c = column_for(table, row, key, false);
    if (c && c->reals) {
        c->reals[row] = value;
        c->used = true;
    }
}

void es_table_count(es_table *table, int64_t row, const char *key, int64_t value)
{
    es_table_real(table, row, key, (double)value);
}

void es_table_text(es_table *table, int64_t row, const char *key, const char *text)
{
    column *c = text ? column_for(table, row, key, true) : NULL;
    if (c) {
        c->texts[row] = es_answer_keep(table->answer, text);
        c->used = true;
    }
}

void es_table_array(es_table *table, int64_t row, const char *key, const double *values,
                    int64_t rows, int64_t cols)
{
    column *c = column_for(table, row, key, false);
    if (c && c->arrays)
        c->arrays[row] = es_answer_numbers(table->answer, rows ? 2 : 1, values, rows ? rows : cols,
                                           rows ? cols : 1);
}

/* ---- reading ---- */

const es_table_spec *es_table_about(const es_table *table) { return table->spec; }

int64_t es_table_rows(const es_table *table) { return table->rows; }

double es_column_real(const es_table_column *c, int64_t row)
{
    return c->reals ? c->reals[row] : (double)NAN;
}

void es_column_reals(const es_table_column *c, int64_t rows, double *out)
{
    for (int64_t i = 0; i < rows; i++)
        out[i] = es_column_real(c, i);
}

const char *es_column_text(const es_table_column *c, int64_t row)
{
    return c->texts ? c->texts[row] : NULL;
}

/* An empty table still has its header. */
bool es_column_shown(const es_table *t, int64_t j) { return t->columns[j].used || t->rows == 0; }

bool es_table_column_at(const es_table *table, int64_t at, es_table_column *out)
{
    for (int64_t j = 0; at >= 0 && j < table->count; j++)
        if (es_column_shown(table, j) && at-- == 0) {
            *out = table->columns[j].about;
            return true;
        }
    return false;
}

int64_t es_table_columns(const es_table *table)
{
    int64_t count = 0;
    for (int64_t j = 0; j < table->count; j++)
        count += es_column_shown(table, j);
    return count;
}

bool es_table_find(const es_table *table, const char *key, es_table_column *out)
{
    for (int64_t j = 0; j < table->count; j++)
        if (table->columns[j].used && strcmp(table->columns[j].about.key, key) == 0) {
            *out = table->columns[j].about;
            return true;
        }
    return false;
}

/* The column to read, whether a row was given a value or not; NULL if the row is not there, and,
 * with the failure kept, for a key or kind that the table does not have. */
static const column *column_read(const es_table *t, int64_t row, const char *key, bool text)
{
    for (int64_t j = 0; j < t->count; j++) {
        const column *c = &t->columns[j];
        if (strcmp(c->about.key, key) == 0 && (c->about.format == ES_FORMAT_TEXT) == text)
            return row >= 0 && row < t->rows ? c : NULL;
    }
    fail_column(t, row, key, text);
    return NULL;
}

double es_table_get(const es_table *table, int64_t row, const char *key)
{
    const column *c = column_read(table, row, key, false);
    return c && c->reals ? c->reals[row] : (double)NAN;
}

const char *es_table_get_text(const es_table *table, int64_t row, const char *key)
{
    const column *c = column_read(table, row, key, true);
    return c && c->texts && c->texts[row] ? c->texts[row] : "";
}
