/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c : tables: their columns, the memory of their rows, filling and reading cells.
 *
 * Rows are structs of spec->row bytes, described by offsets. Rows of a table that is filled by key
 * have one slot of 8 bytes for each column, so that both kinds are read by the same code. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "table/answer.h"
#include "table/table.h"

const char *es_key(char out[ES_KEY_SIZE], const char *a, const char *b)
{
    snprintf(out, ES_KEY_SIZE, "%s%s", a, b);
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

/* ---- unset cells ---- */

/* A quiet NaN with a payload of its own: NaN that a computation gives is not unset. */
static const uint64_t unset_bits = 0x7ff8e55c4e550001u;

double es_unset_real(void)
{
    double value;
    memcpy(&value, &unset_bits, sizeof value);
    return value;
}

bool es_is_unset(double value) { return memcmp(&value, &unset_bits, sizeof value) == 0; }

/* Bytes of one element of a cell's type. */
static size_t size_of_type(es_type type)
{
    switch (type) {
    case ES_TYPE_INT:
        return sizeof(int);
    case ES_TYPE_FLAG:
        return sizeof(bool);
    case ES_TYPE_NUMBERS:
        return sizeof(es_numbers);
    case ES_TYPE_MEASURED:
        return sizeof(es_measured);
    default:
        return 8;
    }
}

/* Writes an unset value of a type to `at`. */
static void write_unset(char *at, es_type type)
{
    const int64_t count = ES_UNSET_COUNT;
    const int whole = ES_UNSET_INT;
    if (type == ES_TYPE_COUNT)
        memcpy(at, &count, sizeof count);
    else if (type == ES_TYPE_INT)
        memcpy(at, &whole, sizeof whole);
    else if (type == ES_TYPE_REAL)
        memcpy(at, &unset_bits, sizeof unset_bits);
    else
        memset(at, 0, size_of_type(type));
}

/* ---- columns ---- */

/* Returns true if a table has a column of this key. */
static bool is_listed(const es_table_spec *spec, const char *key)
{
    for (const es_column *c = spec->columns; c->key; c++)
        if (strcmp(c->key, key) == 0)
            return true;
    return false;
}

/* Returns true for a column whose values have errors. */
static bool is_measured(const es_column *c)
{
    return c->type == ES_TYPE_MEASURED || c->type == ES_TYPE_MEASUREDS;
}

const char *es_column_error_key(const es_column *c, char buffer[ES_KEY_SIZE])
{
    return c->error || !is_measured(c) ? c->error : es_key(buffer, c->key, "_se");
}

/* The type of the cells of a column: elements of a list are of the list's element type. */
static es_type cell_type(const es_column *c)
{
    switch (c->type) {
    case ES_TYPE_NONE:
        return c->array                      ? ES_TYPE_NUMBERS
               : c->format == ES_FORMAT_TEXT ? ES_TYPE_TEXT
                                             : ES_TYPE_REAL;
    case ES_TYPE_MEASURED:
    case ES_TYPE_REALS:
    case ES_TYPE_MEASUREDS:
        return ES_TYPE_REAL;
    case ES_TYPE_TEXTS:
        return ES_TYPE_TEXT;
    default:
        return c->type;
    }
}

/* Where the cell of a column lies in a typed row; `index` is that of a label. */
static void place_column(column *to, const es_column *c, int64_t index)
{
    const size_t element = is_measured(c) ? sizeof(es_measured) : size_of_type(cell_type(c));
    const size_t error = to->about.is_error ? sizeof(double) : 0;
    to->indirect = c->each && !c->inline_count;
    to->within = to->indirect ? (size_t)index * element + error : 0;
    to->offset = c->offset + (to->indirect ? 0 : (size_t)index * element + error);
}

/* Adds a column to the table; a column of errors has its own format. */
static void add_column(es_table *t, const es_column *spec, const char *key, const char *name,
                       const char *title, int64_t index, bool is_error)
{
    es_answer *a = t->answer;
    if (!es_answer_grow(a, &t->columns, t->count, &t->columns_capacity, sizeof(column)))
        return;
    const es_type type = is_error ? ES_TYPE_REAL : cell_type(spec);
    column *c = &t->columns[t->count];
    *c = (column){.about = {.key = es_answer_keep(a, key),
                            .name = es_answer_keep(a, name),
                            .title = es_answer_keep(a, title),
                            .spec = spec,
                            .format = is_error ? ES_FORMAT_SHORT : spec->format,
                            .is_error = is_error,
                            .table = t,
                            .at = t->count},
                  .type = type};
    if (t->spec->row) {
        place_column(c, spec, index);
    } else { /* the next slot */
        c->offset = t->row_size;
        t->row_size += type == ES_TYPE_NUMBERS ? sizeof(es_numbers) : 8;
    }
    t->count++;
}

/* Adds the column, and behind it its standard error unless the spec lists that by itself. */
static void add_with_error(es_table *t, const es_column *c, const char *label, int64_t index)
{
    char error[ES_KEY_SIZE], key[ES_KEY_SIZE], name[ES_KEY_SIZE], title[ES_KEY_SIZE];
    const char *const keys[2] = {c->key, es_column_error_key(c, error)};
    for (int i = 0; i < 2 && keys[i]; i++) {
        const char *head = i ? "error of " : "";
        snprintf(key, sizeof key, label ? "%s.%lld" : "%s", keys[i], (long long)index);
        snprintf(name, sizeof name, label ? "%s_%s" : "%s", keys[i], label);
        snprintf(title, sizeof title, label ? "%s%s %s" : "%s%s", head, c->title, label);
        if (i && t->count)
            t->columns[t->count - 1].about.error = es_answer_keep(t->answer, key);
        /* the row of a number that is no es_measured has no member for an unlisted error */
        const bool has_place = !t->spec->row || is_measured(c);
        if (!i || (has_place && !is_listed(t->spec, keys[i])))
            add_column(t, c, key, name, title, index, i == 1);
    }
}

void es_table_each(es_table *table, const char *key, const char *const *labels, int64_t n)
{
    if (!table->spec || table->answer->status != ES_OK)
        return;
    for (const es_column *c = table->spec->columns; c->key; c++) {
        if (!c->each || strcmp(c->key, key) != 0)
            continue;
        if (c->inline_count && n > c->inline_count) {
            table->answer->status =
                es_fail(&table->answer->err, ES_E_ARGUMENT, "table.labels", "give fewer labels",
                        "column %s has %lld elements, not %lld", key, (long long)c->inline_count,
                        (long long)n);
            return;
        }
        for (int64_t i = 0; i < n; i++)
            add_with_error(table, c, labels[i], i);
    }
}

/* ---- tables of an answer ---- */

/* An empty table of a spec. */
static es_table *new_table(es_answer *a, const es_table_spec *spec)
{
    es_table *t = NULL;
    if (a->status == ES_OK)
        a->status = ES_ARENA_NEW(&a->arena, t, 1, "a table", &a->err);
    if (a->status != ES_OK ||
        !es_answer_grow(a, &a->tables, a->tables_count, &a->tables_capacity, sizeof(es_table *)))
        return &a->nowhere;
    *t = (es_table){.answer = a, .spec = spec, .row_size = spec->row};
    a->tables[a->tables_count++] = t;
    return t;
}

es_table *es_answer_table(es_answer *answer, const es_table_spec *spec)
{
    for (int64_t i = 0; i < answer->tables_count; i++)
        if (answer->tables[i]->spec == spec)
            return answer->tables[i];
    es_table *t = new_table(answer, spec);
    for (const es_column *c = spec->columns; t->spec && c->key; c++)
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

/* ---- rows ---- */

/* The row in which everything is unset; pointers to lists are set row by row. */
static void make_blank(es_table *t)
{
    es_answer *a = t->answer;
    a->status = ES_ARENA_NEW(&a->arena, t->blank, (int64_t)(t->row_size ? t->row_size : 1),
                             "a row of a table", &a->err);
    if (a->status != ES_OK)
        return;
    for (int64_t j = 0; j < t->count; j++)
        if (!t->columns[j].indirect)
            write_unset(t->blank + t->columns[j].offset, t->columns[j].type);
}

/* Space for twice the rows; what is there is copied. */
static bool more_rows(es_table *t)
{
    es_answer *a = t->answer;
    char *memory;
    const int64_t capacity = t->rows_capacity ? 2 * t->rows_capacity : 16;
    if (!t->blank)
        make_blank(t);
    if (a->status == ES_OK)
        a->status = ES_ARENA_NEW_2D(&a->arena, memory, capacity, (int64_t)t->row_size,
                                    "rows of a table", &a->err);
    if (a->status != ES_OK)
        return false;
    if (t->rows)
        memcpy(memory, t->data, (size_t)t->rows * t->row_size);
    t->data = memory;
    t->rows_capacity = capacity;
    return true;
}

/* Points the members of a new row that are lists, one element for each label, at unset elements. */
static void add_lists(es_table *t, char *row)
{
    es_answer *a = t->answer;
    for (int64_t j = 0; j < t->count && a->status == ES_OK; j++) {
        const column *c = &t->columns[j];
        if (!c->indirect)
            continue;
        char *list;
        memcpy(&list, row + c->offset, sizeof list);
        if (!list) { /* the first label: labels of a key follow each other */
            int64_t last = j;
            while (last + 1 < t->count && t->columns[last + 1].offset == c->offset)
                last++;
            a->status = ES_ARENA_NEW(&a->arena, list, (int64_t)t->columns[last].within + 8,
                                     "lists of a row", &a->err);
            if (a->status != ES_OK)
                return;
            memcpy(row + c->offset, &list, sizeof list);
        }
        write_unset(list + c->within, c->type);
    }
}

/* A new row, everything unset; NULL after a failure. */
static char *add_row(es_table *t)
{
    if (!t->spec || t->answer->status != ES_OK || (t->rows == t->rows_capacity && !more_rows(t)))
        return NULL;
    char *row = t->data + (size_t)t->rows * t->row_size;
    memcpy(row, t->blank, t->row_size);
    if (t->spec->row)
        add_lists(t, row);
    if (t->answer->status != ES_OK)
        return NULL;
    t->rows++;
    return row;
}

int64_t es_table_row(es_table *table) { return add_row(table) ? table->rows - 1 : 0; }

/* Returns whether the table's rows have this size; if not, records the failure in the answer. */
static bool is_row(const es_table *t, size_t size)
{
    es_answer *a = t->answer;
    if (t->spec && t->spec->row != size && a->status == ES_OK)
        a->status =
            es_fail(&a->err, ES_E_ARGUMENT, "table.row", "use the struct of the spec",
                    "rows of table %s have %zu bytes, not %zu", t->spec->key, t->spec->row, size);
    return t->spec && t->spec->row == size;
}

void *es_table_add_row(es_table *table, size_t size)
{
    return is_row(table, size) ? add_row(table) : NULL;
}

void *es_table_row_array(const es_table *table, size_t size)
{
    return is_row(table, size) ? table->data : NULL;
}

const char *es_table_format(es_table *table, const char *fmt, ...)
{
    es_answer *a = table->answer;
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    const int size = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (size >= 0 && a->status == ES_OK)
        a->status = ES_ARENA_NEW(&a->arena, text, size + (int64_t)1, "a text", &a->err);
    if (!text)
        return "";
    va_start(args, fmt);
    vsnprintf(text, (size_t)size + 1, fmt, args);
    va_end(args);
    return text;
}

es_numbers es_table_numbers(es_table *table, const double *values, int64_t rows, int64_t cols)
{
    es_answer *a = table->answer;
    double *memory = NULL;
    if (a->status == ES_OK)
        a->status = ES_ARENA_NEW_2D(&a->arena, memory, rows ? rows : 1, cols, "a list", &a->err);
    if (!memory)
        return (es_numbers){0};
    memcpy(memory, values, (size_t)((rows ? rows : 1) * cols) * sizeof *values);
    return (es_numbers){.values = memory, .rows = rows, .cols = cols};
}

/* ---- filling by key ---- */

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

/* The cell to fill; NULL, with the failure kept, for a key or kind that the spec does not have. */
static void *cell_for(es_table *t, int64_t row, const char *key, bool text, es_type *type)
{
    if (!t->spec || t->answer->status != ES_OK)
        return NULL;
    column *c = find_column(t, key);
    if (!c || row >= t->rows || (c->type == ES_TYPE_TEXT) != text) {
        fail_column(t, row, key, text);
        return NULL;
    }
    if (type)
        *type = c->type;
    c->used = c->used || c->type != ES_TYPE_NUMBERS;
    return es_cell(t, c, row);
}

void es_table_real(es_table *table, int64_t row, const char *key, double value)
{
    es_type type = ES_TYPE_NONE;
    void *cell = cell_for(table, row, key, false, &type);
    if (!cell)
        return;
    if (type == ES_TYPE_REAL)
        *(double *)cell = value;
    else if (type == ES_TYPE_COUNT)
        *(int64_t *)cell = (int64_t)value;
    else if (type == ES_TYPE_INT)
        *(int *)cell = (int)value;
    else if (type == ES_TYPE_FLAG)
        *(bool *)cell = value != 0.0;
}

void es_table_count(es_table *table, int64_t row, const char *key, int64_t value)
{
    es_table_real(table, row, key, (double)value);
}

void es_table_text(es_table *table, int64_t row, const char *key, const char *text)
{
    const char **cell = text ? cell_for(table, row, key, true, NULL) : NULL;
    if (cell)
        *cell = es_answer_keep(table->answer, text);
}

/* ---- reading ---- */

const es_table_spec *es_table_about(const es_table *table) { return table->spec; }

int64_t es_table_rows(const es_table *table) { return table->rows; }

void *es_cell(const es_table *t, const column *c, int64_t row)
{
    char *at = t->data + (size_t)row * t->row_size + c->offset, *list;
    if (!c->indirect)
        return at;
    memcpy(&list, at, sizeof list);
    return list + c->within;
}

/* The number of a cell; unset ones keep their payload. */
static double read_real(const es_table *t, const column *c, int64_t row)
{
    const void *cell = es_cell(t, c, row);
    if (c->type == ES_TYPE_COUNT)
        return *(const int64_t *)cell == ES_UNSET_COUNT ? es_unset_real()
                                                        : (double)*(const int64_t *)cell;
    if (c->type == ES_TYPE_INT)
        return *(const int *)cell == ES_UNSET_INT ? es_unset_real() : *(const int *)cell;
    if (c->type == ES_TYPE_FLAG)
        return *(const bool *)cell;
    return c->type == ES_TYPE_REAL ? *(const double *)cell : (double)NAN;
}

double es_cell_real(const es_table *t, const column *c, int64_t row)
{
    const double value = read_real(t, c, row);
    return isnan(value) ? (double)NAN : value;
}

const char *es_cell_text(const es_table *t, const column *c, int64_t row)
{
    return c->type == ES_TYPE_TEXT ? *(const char *const *)es_cell(t, c, row) : NULL;
}

const es_numbers *es_cell_numbers(const es_table *t, const column *c, int64_t row)
{
    const es_numbers *n = c->type == ES_TYPE_NUMBERS ? es_cell(t, c, row) : NULL;
    return n && n->values ? n : NULL;
}

double es_column_real(const es_table_column *c, int64_t row)
{
    return es_cell_real(c->table, &c->table->columns[c->at], row);
}

const char *es_column_text(const es_table_column *c, int64_t row)
{
    return es_cell_text(c->table, &c->table->columns[c->at], row);
}

void es_column_reals(const es_table_column *c, int64_t rows, double *out)
{
    for (int64_t i = 0; i < rows; i++)
        out[i] = es_column_real(c, i);
}

es_status es_column_gather(const es_table_column *c, es_arena *arena, double **out, es_error *err)
{
    ES_TRY(ES_ARENA_NEW(arena, *out, c->table->rows, "a column", err));
    es_column_reals(c, c->table->rows, *out);
    return ES_OK;
}

bool es_column_used(const es_table *t, int64_t j)
{
    column *c = &t->columns[j];
    for (; !c->used && c->type != ES_TYPE_NUMBERS && c->seen < t->rows; c->seen++)
        c->used = c->type == ES_TYPE_TEXT ? es_cell_text(t, c, c->seen) != NULL
                                          : !es_is_unset(read_real(t, c, c->seen));
    return c->used;
}

/* An empty table still has its header. */
bool es_column_shown(const es_table *t, int64_t j) { return es_column_used(t, j) || t->rows == 0; }

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
        if (strcmp(table->columns[j].about.key, key) == 0 && es_column_used(table, j)) {
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
        if (strcmp(c->about.key, key) == 0 && (c->type == ES_TYPE_TEXT) == text)
            return row >= 0 && row < t->rows ? c : NULL;
    }
    fail_column(t, row, key, text);
    return NULL;
}

double es_table_get(const es_table *table, int64_t row, const char *key)
{
    const column *c = column_read(table, row, key, false);
    return c ? es_cell_real(table, c, row) : (double)NAN;
}

const char *es_table_get_text(const es_table *table, int64_t row, const char *key)
{
    const column *c = column_read(table, row, key, true);
    const char *text = c ? es_cell_text(table, c, row) : NULL;
    return text ? text : "";
}
