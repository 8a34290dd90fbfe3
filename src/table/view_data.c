/* SPDX-License-Identifier: Apache-2.0 */
/* view_data.c : an answer for programs: CSV with every column, JSON with everything. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table/sheet.h"
#include "table/table.h"

/* The number rises when a key of a command's JSON is renamed or removed or its meaning changes, not
 * when keys are added. 2: since 0.3.0, whose renamed keys are at the end of CHANGELOG.md. */
#define JSON_SCHEMA "esscher/2"

/* ---- CSV ---- */

/* Writes a field with quotes where CSV needs them (RFC 4180). */
static void csv_field(es_writer *writer, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        es_writer_put(writer, text);
        return;
    }
    es_writer_put(writer, "\"");
    for (; *text; text++)
        (*text == '"') ? es_writer_put(writer, "\"\"") : es_writer_char(writer, *text);
    es_writer_put(writer, "\"");
}

/* Bytes that are no UTF-8 would spoil the file for most readers; they are escaped as in every other
 * view, and only where there are any: a line end inside quotes is good CSV. */
static void csv_text(es_writer *writer, const char *text)
{
    const size_t size = 4 * strlen(text) + 5;
    char small[512], *escaped = size <= sizeof small ? small : malloc(size);
    if (escaped && !es_utf8(text))
        csv_field(writer, es_escape(text, escaped, size));
    else
        csv_field(writer, text);
    if (escaped != small)
        free(escaped);
}

/* Writes a cell with all digits. */
static void csv_cell(es_writer *writer, const es_table_column *c, int64_t row)
{
    const char *text = es_column_text(c, row);
    const double value = es_column_real(c, row);
    if (text)
        csv_text(writer, text);
    else if (isfinite(value) && c->format == ES_FORMAT_FLAG)
        es_writer_put(writer, value != 0.0 ? "true" : "false");
    else if (isfinite(value)) /* nothing at all for NaN and infinities */
        es_writer_format(writer, c->format == ES_FORMAT_COUNT ? "%.0f" : "%.17g", value);
}

static void json_list(const double *values, int64_t count, es_format format, es_writer *writer);

/* A list or a matrix is one field, written as in JSON: every reader of CSV can take it apart. */
static void csv_list(es_writer *writer, const es_numbers *list)
{
    const bool matrix = list->rows > 0;
    es_writer_put(writer, matrix ? "\"[" : "\"");
    for (int64_t i = 0; i < (matrix ? list->rows : 1); i++) {
        es_writer_put(writer, i ? ", " : "");
        json_list(list->values + i * list->cols, list->cols, ES_FORMAT_REAL, writer);
    }
    es_writer_put(writer, matrix ? "]\"" : "\"");
}

/* Lists are no columns of other views, but they are of a file that leaves nothing out. */
static bool in_csv(const es_table *t, int64_t j)
{
    for (int64_t i = 0; i < t->rows && t->columns[j].type == ES_TYPE_NUMBERS; i++)
        if (es_cell_numbers(t, &t->columns[j], i))
            return true;
    return es_column_shown(t, j);
}

/* Writes one row. */
static void csv_row(const es_table *t, int64_t row, es_writer *writer)
{
    const char *comma = "";
    for (int64_t j = 0; j < t->count; j++) {
        const column *c = &t->columns[j];
        if (!in_csv(t, j))
            continue;
        es_writer_put(writer, comma);
        comma = ",";
        const es_numbers *list = es_cell_numbers(t, c, row);
        if (list)
            csv_list(writer, list);
        else if (c->type != ES_TYPE_NUMBERS)
            csv_cell(writer, &c->about, row);
    }
    es_writer_put(writer, "\n");
}

/* Writes the names of the columns. */
static void csv_header(const es_table *t, es_writer *writer)
{
    const char *comma = "";
    for (int64_t j = 0; j < t->count; j++) {
        if (!in_csv(t, j))
            continue;
        es_writer_put(writer, comma);
        csv_text(writer, t->columns[j].about.name);
        comma = ",";
    }
    es_writer_put(writer, "\n");
}

es_status es_answer_csv_view(const es_table *t, const es_answer_opts *opts, es_writer *writer,
                             es_error *err)
{
    es_arena arena = {0};
    es_row_list rows;
    const es_status status = es_choice_rows(t, opts, &arena, &rows, err);
    if (status == ES_OK)
        csv_header(t, writer);
    for (int64_t i = 0; status == ES_OK && i < rows.count; i++)
        csv_row(t, rows.at[i], writer);
    es_arena_free(&arena);
    return status;
}

/* ---- JSON: values ---- */

/* Starts a new line at a depth of nesting. */
static void indent(es_writer *writer, int depth)
{
    es_writer_put(writer, "\n");
    for (int i = 0; i < depth; i++)
        es_writer_put(writer, "  ");
}

/* Writes a quoted text. Most fit a buffer on the stack. */
static void json_text(es_writer *writer, const char *text)
{
    const size_t size = 6 * strlen(text) + 16;
    char small[512], *buffer = size <= sizeof small ? small : malloc(size);
    es_writer_put(writer, buffer ? es_json_quote(text, buffer, size) : "\"\"");
    if (buffer != small)
        free(buffer);
}

/* Writes all digits; a point or an exponent distinguishes a real number from a count. */
static void json_number(es_writer *writer, es_format format, double value)
{
    char text[40];
    if (!isfinite(value)) {
        es_writer_put(writer, "null");
        return;
    }
    if (format == ES_FORMAT_FLAG) {
        es_writer_put(writer, value != 0.0 ? "true" : "false");
        return;
    }
    const bool whole = format == ES_FORMAT_COUNT || format == ES_FORMAT_BYTES;
    if (whole && value == floor(value) && fabs(value) < 0x1p63) {
        es_writer_format(writer, "%.0f", value);
        return;
    }
    snprintf(text, sizeof text, "%.17g", value);
    es_writer_put(writer, text);
    es_writer_put(writer, strpbrk(text, ".e") ? "" : ".0");
}

/* Writes a key, and the comma before it unless it is the first. */
static void json_key(es_writer *writer, const char *key, int depth, bool *first)
{
    es_writer_put(writer, *first ? "" : ",");
    *first = false;
    indent(writer, depth);
    json_text(writer, key);
    es_writer_put(writer, ": ");
}

/* ---- JSON: rows ---- */

/* Columns whose keys agree up to byte `from` are members of one object, or elements of one array
 * if what follows is a number. */
typedef struct branch {
    const es_table *table;
    int64_t row;
    size_t from; /* length of the path so far, with its dot */
    const char *path;
} branch;

/* Returns true if a column has values and lies below the path of a branch. */
static bool belongs(const branch *b, int64_t j)
{
    const column *c = &b->table->columns[j];
    return strncmp(c->about.key, b->path, b->from) == 0 &&
           (es_column_used(b->table, j) || c->type == ES_TYPE_NUMBERS);
}

/* Returns the length of the first word of a key: "a.b" nests b in a. */
static size_t word_length(const char *key) { return strcspn(key, "."); }

/* Returns whether an earlier column has the word at `from` of column j. The last word of a key is
 * in no other: keys are unique, and a row may have thousands of channels. */
static bool met_before(const branch *b, int64_t j)
{
    const char *word = b->table->columns[j].about.key + b->from;
    const size_t length = word_length(word);
    if (word[length] == '\0')
        return false;
    for (int64_t i = 0; i < j; i++) {
        const column *c = &b->table->columns[i];
        if (belongs(b, i) && word_length(c->about.key + b->from) == length &&
            strncmp(c->about.key + b->from, word, length) == 0)
            return true;
    }
    return false;
}

/* Returns true if the cell is not missing. */
static bool has_value(const es_table *t, const column *c, int64_t row)
{
    if (c->type == ES_TYPE_NUMBERS)
        return es_cell_numbers(t, c, row) != NULL;
    return c->about.format != ES_FORMAT_TEXT || es_column_text(&c->about, row);
}

static void json_matrix(const double *values, int64_t rows, int64_t cols, es_format format,
                        int depth, es_writer *writer);

/* Writes a list or a matrix of numbers. */
static void json_numbers(const es_numbers *n, int depth, es_writer *writer)
{
    if (n->rows)
        json_matrix(n->values, n->rows, n->cols, ES_FORMAT_REAL, depth, writer);
    else
        json_list(n->values, n->cols, ES_FORMAT_REAL, writer);
}

static void json_members(const branch *b, bool array, es_writer *writer, int depth, bool *first);

/* Writes a column as a member of a row, or the columns that share its first word as an object. */
static void json_member(const branch *b, int64_t j, bool array, es_writer *writer, int depth,
                        bool *first)
{
    const column *c = &b->table->columns[j];
    const char *word = c->about.key + b->from;
    const size_t length = word_length(word);
    char name[ES_KEY_SIZE];
    if (word[length] == '\0' && !has_value(b->table, c, b->row))
        return;
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    if (!array)
        json_key(writer, name, depth, first);
    else {
        es_writer_put(writer, *first ? "" : ", ");
        *first = false;
    }
    if (word[length] == '.') {
        const branch inside = {b->table, b->row, b->from + length + 1, c->about.key};
        const char next = word[length + 1];
        const bool list = next >= '0' && next <= '9';
        bool fresh = true;
        es_writer_put(writer, list ? "[" : "{");
        json_members(&inside, list, writer, depth + 1, &fresh);
        if (!list)
            indent(writer, depth);
        es_writer_put(writer, list ? "]" : "}");
    } else if (c->type == ES_TYPE_NUMBERS) {
        json_numbers(es_cell_numbers(b->table, c, b->row), depth, writer);
    } else if (c->about.format == ES_FORMAT_TEXT) {
        json_text(writer, es_column_text(&c->about, b->row));
    } else {
        json_number(writer, c->about.format, es_column_real(&c->about, b->row));
    }
}

/* Writes the members of a row or of an object inside it. */
static void json_members(const branch *b, bool array, es_writer *writer, int depth, bool *first)
{
    for (int64_t j = 0; j < b->table->count; j++)
        if (belongs(b, j) && !met_before(b, j))
            json_member(b, j, array, writer, depth, first);
}

/* ---- JSON: tables ---- */

/* Returns whether two rows agree in the columns that link their tables. */
static bool linked(const es_table *outer, int64_t at, const es_table *t, int64_t row)
{
    es_table_column a, b;
    for (int64_t j = 0; t->spec->link && es_table_column_at(t, j, &b); j++) {
        if (es_words_at(t->spec->link, b.key) < 0 || !es_table_find(outer, b.key, &a))
            continue;
        if (a.format == ES_FORMAT_TEXT
                ? strcmp(es_column_text(&a, at), es_column_text(&b, row)) != 0
                : es_column_real(&a, at) != es_column_real(&b, row))
            return false;
    }
    return true;
}

static void json_row(const es_answer *a, const es_table *t, int64_t row, es_writer *writer,
                     int depth);

/* Writes the rows of t, or only those linked to row `at` of `outer`. */
static void json_rows(const es_answer *a, const es_table *t, const es_table *outer, int64_t at,
                      es_writer *writer, int depth)
{
    bool first = true;
    es_writer_put(writer, "[");
    for (int64_t i = 0; i < t->rows; i++) {
        if (outer && !linked(outer, at, t, i))
            continue;
        es_writer_put(writer, first ? "" : ",");
        first = false;
        indent(writer, depth + 1);
        json_row(a, t, i, writer, depth + 1);
    }
    if (!first)
        indent(writer, depth);
    es_writer_put(writer, "]");
}

/* Writes one row as an object, with the tables that nest in it. */
static void json_row(const es_answer *a, const es_table *t, int64_t row, es_writer *writer,
                     int depth)
{
    const branch all = {t, row, 0, ""};
    bool first = true;
    es_writer_put(writer, "{");
    json_members(&all, false, writer, depth + 1, &first);
    for (int64_t i = 0; i < a->tables_count; i++) {
        const es_table *inner = a->tables[i];
        if (!inner->spec->inside || strcmp(inner->spec->inside, t->spec->key) != 0)
            continue;
        json_key(writer, inner->spec->nested ? inner->spec->nested : inner->spec->key, depth + 1,
                 &first);
        json_rows(a, inner, t, row, writer, depth + 1);
    }
    if (!first)
        indent(writer, depth);
    es_writer_put(writer, "}");
}

/* Writes a table as an array of objects; a record, which has one row, as an object. */
static void json_table(const es_answer *a, const es_table *t, es_writer *writer, bool *first)
{
    if (t->spec->only_inside || (t->spec->record && t->rows == 0))
        return;
    json_key(writer, t->spec->key, 1, first);
    if (t->spec->record)
        json_row(a, t, 0, writer, 1);
    else
        json_rows(a, t, NULL, 0, writer, 1);
}

/* ---- JSON: single values ---- */

/* Writes one row of an array. */
static void json_list(const double *values, int64_t count, es_format format, es_writer *writer)
{
    es_writer_put(writer, "[");
    for (int64_t i = 0; i < count; i++) {
        es_writer_put(writer, i ? ", " : "");
        json_number(writer, format, values[i]);
    }
    es_writer_put(writer, "]");
}

/* Writes a matrix, one row per line. */
static void json_matrix(const double *values, int64_t rows, int64_t cols, es_format format,
                        int depth, es_writer *writer)
{
    es_writer_put(writer, "[");
    for (int64_t i = 0; i < rows; i++) {
        es_writer_put(writer, i ? "," : "");
        indent(writer, depth + 1);
        json_list(values + i * cols, cols, format, writer);
    }
    es_writer_put(writer, "]");
}

/* Writes a value outside the tables. */
static void json_lone(const lone *l, int depth, es_writer *writer)
{
    static const es_format formats[] = {
        [LONE_REAL] = ES_FORMAT_REAL, [LONE_COUNT] = ES_FORMAT_COUNT, [LONE_FLAG] = ES_FORMAT_FLAG};
    if (l->kind == LONE_TEXT) {
        json_text(writer, l->text);
    } else if (l->kind == LONE_TEXTS) {
        es_writer_put(writer, "[");
        for (int64_t i = 0; i < l->rows; i++) {
            es_writer_put(writer, i ? ", " : "");
            json_text(writer, l->texts[i]);
        }
        es_writer_put(writer, "]");
    } else if (l->rank == 0) {
        json_number(writer, formats[l->kind], l->reals[0]);
    } else if (l->rank == 1) {
        json_list(l->reals, l->rows, formats[l->kind], writer);
    } else {
        json_matrix(l->reals, l->rows, l->cols, formats[l->kind], depth, writer);
    }
}

void es_json_lone(const lone *l, es_writer *writer) { json_lone(l, 0, writer); }

void es_json_provenance(const es_answer *a, es_writer *writer)
{
    bool first = true;
    es_writer_put(writer, "{");
    for (int64_t i = 0; i < a->facts.count; i++) {
        json_key(writer, a->facts.at[i].key, 2, &first);
        json_lone(&a->facts.at[i], 2, writer);
    }
    json_key(writer, "inputs", 2, &first);
    es_writer_put(writer, "[");
    for (int64_t i = 0; i < a->inputs_count; i++) {
        const input *in = &a->inputs[i];
        es_writer_put(writer, i ? "," : "");
        indent(writer, 3);
        es_writer_put(writer, "{\"role\": ");
        json_text(writer, in->role);
        es_writer_put(writer, ", \"path\": ");
        json_text(writer, in->path);
        es_writer_put(writer, ", \"shape\": [");
        for (int k = 0; k < in->rank; k++)
            es_writer_format(writer, "%s%lld", k ? ", " : "", (long long)in->shape[k]);
        es_writer_put(writer, "], \"dtype\": ");
        json_text(writer, in->dtype);
        es_writer_put(writer, "}");
    }
    es_writer_put(writer, "]");
    indent(writer, 1);
    es_writer_put(writer, "}");
}

/* Returns whether a row has a value in this column. */
static bool is_used(const es_table *t, const es_column *spec)
{
    for (int64_t j = 0; j < t->count; j++)
        if (t->columns[j].about.spec == spec && es_column_used(t, j))
            return true;
    return false;
}

/* Which columns are theory's, and how far to trust them: {"rows": {"slope_exact": "proved"}}. */
static void json_standings(const es_answer *a, es_writer *writer, bool *first)
{
    bool none = true;
    for (int64_t i = 0; i < a->tables_count; i++) {
        const es_table *t = a->tables[i];
        bool no_column = true;
        for (const es_column *c = t->spec->columns; c->key; c++) {
            if (!c->standing || !is_used(t, c))
                continue;
            if (none) {
                json_key(writer, "standing", 1, first);
                es_writer_put(writer, "{");
            }
            if (no_column) {
                json_key(writer, t->spec->key, 2, &none);
                es_writer_put(writer, "{");
            }
            json_key(writer, c->key, 3, &no_column);
            json_text(writer, es_standing_name(c->standing));
        }
        if (!no_column) {
            indent(writer, 2);
            es_writer_put(writer, "}");
        }
    }
    if (!none) {
        indent(writer, 1);
        es_writer_put(writer, "}");
    }
}

void es_answer_json_view(const es_answer *a, es_writer *writer)
{
    bool first = true;
    int64_t next = 0; /* of the results that stand alone, which keep their place among tables */
    es_writer_put(writer, "{");
    json_key(writer, "schema", 1, &first);
    es_writer_put(writer, "\"" JSON_SCHEMA "\"");
    json_key(writer, "command", 1, &first);
    json_text(writer, a->command);
    json_key(writer, "version", 1, &first);
    es_writer_put(writer, "\"" ES_VERSION_STRING "\"");
    json_key(writer, "seed", 1, &first);
    es_writer_format(writer, a->seed < 0 ? "null" : "%lld", (long long)a->seed);
    json_key(writer, "provenance", 1, &first);
    es_json_provenance(a, writer);
    for (int64_t i = 0; i <= a->tables_count; i++) {
        for (; next < a->results.count && a->results.at[next].after <= i; next++) {
            json_key(writer, a->results.at[next].key, 1, &first);
            json_lone(&a->results.at[next], 1, writer);
        }
        if (i < a->tables_count)
            json_table(a, a->tables[i], writer, &first);
    }
    json_standings(a, writer, &first);
    if (a->findings_count) {
        json_key(writer, "findings", 1, &first);
        es_writer_put(writer, "[");
        for (int64_t i = 0; i < a->findings_count; i++) {
            es_writer_put(writer, i ? "," : "");
            indent(writer, 2);
            json_text(writer, a->findings[i]);
        }
        indent(writer, 1);
        es_writer_put(writer, "]");
    }
    indent(writer, 0);
    es_writer_put(writer, "}\n");
}
