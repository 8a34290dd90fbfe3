/* SPDX-License-Identifier: Apache-2.0 */
/* run_table.c : tables of an answer, read back from a run file.
 *
 * Descriptions are made again as es_column, es_table_view and es_table_spec in the answer's own
 * memory, and tables are filled by the same functions as those of a study. A table without a
 * description is read with all its columns under their own names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/run.h"
#include "table/run_reader.h"

enum { MOST_COLUMNS = 4096, MOST_VIEWS = 63 }; /* of a table; `hidden` has a bit for each view */

// clang-format off
static const char *const said_names[SAID_COUNT] = {
    "table", "title", "note", "key", "header", "unit", "format", "definition", "standing", "error",
    "hidden", "role", "more", "each", "label", "missing"};
// clang-format on

/* ---- tables of the file ---- */

es_status es_reader_fail(es_error *err, const char *what, const char *name)
{
    return es_fail(err, ES_E_FORMAT, "run.answer",
                   "was the file changed by another program? Copy it anew, or run the study again",
                   "%s of %.60s cannot be read", what, name);
}

/* Reads a table that may be absent: it is then empty. */
es_status es_reader_optional(const es_run_reader *r, const char *name, es_run_table *out,
                             es_error *err)
{
    const es_status status = es_run_get_table(r->run, name, r->budget, out, err);
    if (status == ES_E_EMPTY)
        *out = (es_run_table){0};
    return status == ES_E_EMPTY ? ES_OK : status;
}

const char *const *es_reader_texts(const es_run_table *t, const char *name)
{
    const es_run_column *c = es_run_column_of(t, name);
    return c && c->kind == ES_RUN_TEXT ? c->texts : NULL;
}

const double *es_reader_reals(const es_run_table *t, const char *name)
{
    const es_run_column *c = es_run_column_of(t, name);
    return c && c->kind == ES_RUN_REAL ? c->reals : NULL;
}

/* A text of row `row` of "_columns"; "" if the run does not say it. */
static const char *word(const es_run_reader *r, es_said what, int64_t row)
{
    return row >= 0 && row < r->columns.rows && r->said[what] ? r->said[what][row] : "";
}

/* Returns true if a column is described by this word. */
static bool is_word(const es_run_reader *r, es_said what, int64_t row, const char *text)
{
    return strcmp(word(r, what, row), text) == 0;
}

/* Returns true for a column that views leave out. */
static bool is_hidden(const es_run_reader *r, int64_t row)
{
    return is_word(r, SAID_HIDDEN, row, "yes");
}

/* A copy in the answer's memory; NULL of "". */
static const char *keep(const es_run_reader *r, const char *text)
{
    return *text ? es_answer_keep(r->answer, text) : NULL;
}

es_status es_reader_describe(es_run_reader *r, es_error *err)
{
    ES_TRY(es_reader_optional(r, "_columns", &r->columns, err));
    ES_TRY(es_reader_optional(r, "_tables", &r->tables, err));
    for (int i = 0; i < SAID_COUNT; i++)
        r->said[i] = es_reader_texts(&r->columns, said_names[i]);
    r->place = es_reader_reals(&r->columns, "place");
    return ES_OK;
}

/* ---- columns ---- */

/* A column of a table in the file. */
typedef struct found {
    const char *key;
    const es_run_column *data; /* NULL: the file has no rows of the table */
    int64_t row;               /* the first of "_columns" about it; -1: none */
    size_t base;               /* bytes of the spec's key, which "key.3" shares with "key.2" */
    int64_t number;            /* the 3; -1 if it stands alone */
    bool is_error;             /* the standard error of the column before it */
} found;

/* The columns of a table of the file. */
typedef struct found_list {
    found *at;
    int64_t count;
} found_list;

/* The number N if `key` is "base.N", else -1. */
static int64_t number_after(const char *key, const char *base)
{
    const size_t length = strlen(base);
    if (!length || strncmp(key, base, length) != 0 || key[length] != '.')
        return -1;
    const char *digits = key + length + 1;
    const size_t count = strspn(digits, "0123456789");
    if (!count || digits[count])
        return -1;
    return count > 9 ? INT64_MAX : strtoll(digits, NULL, 10);
}

/* The first row of "_columns" about a column. Files of version 0.1 describe "key.3" as "key". */
static int64_t row_about(const es_run_reader *r, const char *table, const char *key)
{
    int64_t of_all = -1;
    for (int64_t i = 0; i < r->columns.rows; i++) {
        if (!is_word(r, SAID_TABLE, i, table))
            continue;
        if (is_word(r, SAID_KEY, i, key))
            return i;
        if (of_all < 0 && number_after(key, word(r, SAID_KEY, i)) >= 0)
            of_all = i;
    }
    return of_all;
}

/* Adds a column of the file with its description. A column after a value that ends in _se is its
 * error. */
static void add_found(const es_run_reader *r, found_list *list, const char *table, const char *key,
                      const es_run_column *data)
{
    found *f = &list->at[list->count];
    *f = (found){.key = key, .data = data, .row = row_about(r, table, key), .number = -1};
    const int64_t number = number_after(key, word(r, SAID_EACH, f->row));
    f->base = strlen(key);
    if (number >= 0) {
        f->number = number;
        f->base = strlen(word(r, SAID_EACH, f->row));
    }
    const found *before = list->count ? f - 1 : NULL;
    f->is_error = before && !before->is_error && (!data || data->kind == ES_RUN_REAL) &&
                  is_word(r, SAID_ERROR, before->row, key) &&
                  (is_word(r, SAID_ROLE, f->row, "error") || !r->said[SAID_ROLE]);
    list->count++;
}

/* The columns of a table that has no rows in the file, in their order. */
static void find_described(const es_run_reader *r, const char *table, found_list *list)
{
    for (;;) { /* the next place */
        int64_t next = -1;
        for (int64_t i = 0; i < r->columns.rows; i++) {
            bool known = !is_word(r, SAID_TABLE, i, table);
            for (int64_t j = 0; j < list->count && !known; j++)
                known = is_word(r, SAID_KEY, i, list->at[j].key);
            if (!known && (next < 0 || (r->place && r->place[i] < r->place[next])))
                next = i;
        }
        if (next < 0 || list->count == MOST_COLUMNS)
            return;
        add_found(r, list, table, word(r, SAID_KEY, next), NULL);
    }
}

/* Lists the columns of a table, from its data or, if it has no rows, from the descriptions. */
static es_status find_columns(const es_run_reader *r, const char *table, const es_run_table *data,
                              found_list *list, es_error *err)
{
    const int64_t said = r->columns.rows < MOST_COLUMNS ? r->columns.rows : MOST_COLUMNS;
    *list = (found_list){0};
    ES_TRY(ES_READER_NEW(r, list->at, data ? data->cols : said, err));
    for (int64_t j = 0; data && j < data->cols; j++)
        add_found(r, list, table, data->columns[j].name, &data->columns[j]);
    if (!data)
        find_described(r, table, list);
    for (int64_t j = 0; j < list->count; j++)
        if (list->at[j].number >= MOST_COLUMNS)
            return es_reader_fail(err, "a column", list->at[j].key);
    return ES_OK;
}

/* Returns whether a column before column j has the same key. */
static bool is_repeated(const found_list *list, int64_t j)
{
    const found *f = &list->at[j];
    for (int64_t i = 0; i < j; i++)
        if (!list->at[i].is_error && list->at[i].base == f->base &&
            strncmp(list->at[i].key, f->key, f->base) == 0)
            return true;
    return false;
}

/* Returns the format of a column; files of other versions may describe none, and then data
 * decide. */
static es_format format_of(const es_run_reader *r, const found *f)
{
    es_format format;
    const bool known = es_format_parse(word(r, SAID_FORMAT, f->row), &format);
    if (f->data ? f->data->kind == ES_RUN_TEXT : known && format == ES_FORMAT_TEXT)
        return ES_FORMAT_TEXT;
    return known && format != ES_FORMAT_TEXT ? format : ES_FORMAT_REAL;
}

/* Returns how a theoretical value is marked: proved, heuristic, numerical or cited. */
static es_standing standing_of(const char *name)
{
    for (es_standing s = ES_STANDING_PROVED; s <= ES_STANDING_CITED; s++)
        if (strcmp(name, es_standing_name(s)) == 0)
            return s;
    return ES_STANDING_NONE;
}

/* `length` bytes of a text, in the answer's memory. */
static const char *keep_part(const es_run_reader *r, const char *text, size_t length)
{
    char *part;
    if (ES_READER_NEW(r, part, (int64_t)length + 1, NULL) != ES_OK)
        return es_answer_keep(r->answer, text);
    snprintf(part, length + 1, "%.*s", (int)length, text);
    return part;
}

/* The column as a spec has it. One of several has its label behind its title, and its number behind
 * its key and behind that of its error. */
static es_column column_of(const es_run_reader *r, const found *f)
{
    const char *title = *word(r, SAID_HEADER, f->row) ? word(r, SAID_HEADER, f->row) : f->key;
    const char *label = word(r, SAID_LABEL, f->row), *error = word(r, SAID_ERROR, f->row);
    const size_t suffix = strlen(f->key) - f->base, length = strlen(title), end = strlen(label);
    const bool each = f->number >= 0;
    size_t shown = length;
    if (each && length > end && strcmp(title + length - end, label) == 0)
        shown = length - end - (title[length - end - 1] == ' ');
    const size_t kept = strlen(error) > suffix ? strlen(error) - suffix : 0;
    return (es_column){
        .key = keep_part(r, f->key, f->base),
        .title = keep_part(r, title, shown),
        .unit = keep_part(r, word(r, SAID_UNIT, f->row), strlen(word(r, SAID_UNIT, f->row))),
        .format = format_of(r, f),
        .definition = keep(r, word(r, SAID_DEFINITION, f->row)),
        .error = kept ? keep_part(r, error, kept) : NULL,
        .each = each,
        .standing = standing_of(word(r, SAID_STANDING, f->row))};
}

/* Makes the columns of a table without those that belong to another one: errors, and later elements
 * of a list. */
static es_status make_columns(const es_run_reader *r, const found_list *list, es_column **out,
                              es_error *err)
{
    int64_t count = 0;
    ES_TRY(ES_READER_NEW(r, *out, list->count + 1, err));
    for (int64_t j = 0; j < list->count; j++)
        if (!list->at[j].is_error && !is_repeated(list, j))
            (*out)[count++] = column_of(r, &list->at[j]);
    return es_answer_status(r->answer, err);
}

/* ---- lists of keys, with a space between them ---- */

/* Keys with a space between them, as views name columns. */
typedef struct key_list {
    char *text;
    size_t used, capacity;
} key_list;

/* Allocates a list of keys with spaces between them. */
static es_status make_words(const es_run_reader *r, size_t capacity, key_list *out, es_error *err)
{
    *out = (key_list){.capacity = capacity + 1};
    return ES_READER_NEW(r, out->text, (int64_t)capacity + 1, err);
}

/* Adds a key unless it is there. */
static void add_word(key_list *w, const char *key, size_t length)
{
    char *end = w->text + w->used;
    const size_t space = w->used > 0;
    if (w->used + space + length >= w->capacity)
        return;
    snprintf(end, length + space + 1, "%s%.*s", space ? " " : "", (int)length, key);
    char *added = end + space;
    if (space) /* looked for among those before it */
        *end = '\0';
    if (space && es_words_at(w->text, added) >= 0)
        return;
    if (space)
        *end = ' ';
    w->used += length + space;
}

/* The keys of the columns that tell rows apart; NULL if there are none. */
static es_status make_keys(const es_run_reader *r, const found_list *list, const char **out,
                           es_error *err)
{
    size_t capacity = 0;
    key_list w;
    for (int64_t j = 0; j < list->count; j++)
        capacity += list->at[j].base + 1;
    ES_TRY(make_words(r, capacity, &w, err));
    for (int64_t j = 0; j < list->count; j++)
        if (is_word(r, SAID_ROLE, list->at[j].row, "key"))
            add_word(&w, list->at[j].key, list->at[j].base);
    *out = w.used ? w.text : NULL;
    return ES_OK;
}

/* ---- views ---- */

/* The columns of a view, in the order in which "_columns" has them. */
static es_status view_columns(const es_run_reader *r, const char *table, const char *title,
                              const char **out, es_error *err)
{
    size_t capacity = 0;
    key_list w = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < r->columns.rows; i++) {
            if (!is_word(r, SAID_TABLE, i, table) || !is_word(r, SAID_TITLE, i, title) ||
                is_hidden(r, i))
                continue;
            const char *each = word(r, SAID_EACH, i), *key = *each ? each : word(r, SAID_KEY, i);
            if (pass == 0)
                capacity += strlen(key) + 1;
            else
                add_word(&w, key, strlen(key));
        }
        if (pass == 0)
            ES_TRY(make_words(r, capacity, &w, err));
    }
    *out = w.text;
    return ES_OK;
}

/* Returns whether row i of "_columns" is the first under its title. A table without views has its
 * own name as its title, and all its columns hidden. */
static bool begins_view(const es_run_reader *r, const char *table, int64_t i)
{
    bool shown = strcmp(word(r, SAID_TITLE, i), table) != 0;
    for (int64_t k = 0; k < r->columns.rows; k++) {
        if (!is_word(r, SAID_TABLE, k, table) || !is_word(r, SAID_TITLE, k, word(r, SAID_TITLE, i)))
            continue;
        if (k < i)
            return false;
        shown = shown || !is_hidden(r, k);
    }
    return shown;
}

/* Views as the study had them; all of them are shown if this table was asked for by its name. */
static es_status make_views(const es_run_reader *r, const char *table, const es_table_view **out,
                            es_error *err)
{
    es_table_view *views;
    int count = 0;
    bool described = false;
    ES_TRY(ES_READER_NEW(r, views, MOST_VIEWS + 1, err));
    for (int64_t i = 0; i < r->columns.rows && count < MOST_VIEWS; i++) {
        if (!is_word(r, SAID_TABLE, i, table))
            continue;
        described = true;
        if (!begins_view(r, table, i))
            continue;
        es_table_view *v = &views[count++];
        *v = (es_table_view){.title = es_answer_keep(r->answer, word(r, SAID_TITLE, i)),
                             .note = keep(r, word(r, SAID_NOTE, i)),
                             .only_with_full = !r->only && is_word(r, SAID_MORE, i, "yes")};
        ES_TRY(view_columns(r, table, word(r, SAID_TITLE, i), &v->columns, err));
    }
    if (!count && (r->only || !described))
        views[count++] = (es_table_view){.title = es_answer_keep(r->answer, table)};
    *out = count ? views : NULL;
    return es_answer_status(r->answer, err);
}

/* Hides the views that were not shown when the run was made. */
static void hide_views(const es_run_reader *r, const es_table_spec *spec, es_table *t)
{
    const char *titles[MOST_VIEWS + 1];
    int shown = 0, count = 0;
    for (const es_table_view *v = spec->views; v && v->title; v++, count++) {
        bool never = false;
        for (int64_t i = 0; i < r->columns.rows; i++)
            never = never ||
                    (is_word(r, SAID_TABLE, i, spec->key) && is_word(r, SAID_TITLE, i, v->title) &&
                     !is_hidden(r, i) && is_word(r, SAID_MORE, i, "never"));
        if (!never)
            titles[shown++] = v->title;
    }
    titles[shown] = NULL;
    if (shown < count && !r->only)
        es_table_show(t, titles);
}

/* ---- a table ---- */

/* Returns what the file says about a table as a whole; "" for nothing. */
static const char *own_word(const es_run_reader *r, const char *table, const char *what)
{
    const char *const *names = es_reader_texts(&r->tables, "table"), *const *words =
                                                                         es_reader_texts(&r->tables,
                                                                                         what);
    for (int64_t i = 0; names && words && i < r->tables.rows; i++)
        if (strcmp(names[i], table) == 0)
            return words[i];
    return "";
}

/* Makes the description of a table that was read. */
static es_status make_spec(const es_run_reader *r, const char *table, const found_list *list,
                           const es_table_spec **out, es_error *err)
{
    es_table_spec *spec;
    es_column *columns;
    ES_TRY(ES_READER_NEW(r, spec, 1, err));
    *spec = (es_table_spec){.key = es_answer_keep(r->answer, table),
                            .record = strcmp(own_word(r, table, "record"), "yes") == 0,
                            .inside = keep(r, own_word(r, table, "inside")),
                            .link = keep(r, own_word(r, table, "link")),
                            .nested = keep(r, own_word(r, table, "nested")),
                            .only_inside = strcmp(own_word(r, table, "only_inside"), "yes") == 0};
    ES_TRY(make_columns(r, list, &columns, err));
    spec->columns = columns;
    ES_TRY(make_views(r, table, &spec->views, err));
    ES_TRY(make_keys(r, list, &spec->keys, err));
    *out = spec;
    return es_answer_status(r->answer, err);
}

/* Makes the columns of each list of columns, "key.0", "key.1", ...; some may be in no row. */
static es_status label_columns(const es_run_reader *r, const found_list *list, es_table *t,
                               es_error *err)
{
    for (int64_t j = 0; j < list->count; j++) {
        const found *f = &list->at[j];
        int64_t count = 0;
        const char **labels;
        if (f->number < 0 || f->is_error || is_repeated(list, j))
            continue;
        ES_TRY(ES_READER_NEW(r, labels, MOST_COLUMNS, err));
        for (int64_t i = j; i < list->count; i++) {
            const found *other = &list->at[i];
            if (other->number < 0 || other->is_error || other->base != f->base ||
                strncmp(other->key, f->key, f->base) != 0)
                continue;
            labels[other->number] = word(r, SAID_LABEL, other->row);
            count = other->number >= count ? other->number + 1 : count;
        }
        for (int64_t i = 0; i < count; i++)
            labels[i] = labels[i] ? labels[i] : "";
        es_table_each(t, keep_part(r, f->key, f->base), labels, count);
    }
    return ES_OK;
}

/* Fills a table from the columns of the file; an empty text may stand for a missing one. */
static void fill_table(const es_run_reader *r, const found_list *list, int64_t rows, es_table *t)
{
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = es_table_row(t);
        for (int64_t j = 0; j < list->count; j++) {
            const found *f = &list->at[j];
            if (f->data->kind == ES_RUN_REAL)
                es_table_real(t, row, f->key, f->data->reals[i]);
            else if (*f->data->texts[i] || !is_word(r, SAID_MISSING, f->row, "yes"))
                es_table_text(t, row, f->key, f->data->texts[i]);
        }
    }
}

/* Adds a table to the answer; `data` is NULL if the file has no rows of it. */
static es_status add_table(const es_run_reader *r, const char *name, const es_run_table *data,
                           es_error *err)
{
    const es_table_spec *spec;
    found_list list;
    ES_TRY(find_columns(r, name, data, &list, err));
    ES_TRY(make_spec(r, name, &list, &spec, err));
    es_table *t = es_answer_table(r->answer, spec);
    ES_TRY(label_columns(r, &list, t, err));
    hide_views(r, spec, t);
    if (data)
        fill_table(r, &list, data->rows, t);
    const es_status status = es_answer_status(r->answer, err);
    return status == ES_E_ARGUMENT ? es_reader_fail(err, "a column", name) : status;
}

es_status es_reader_table(const es_run_reader *r, const char *name, es_error *err)
{
    es_run_table data;
    const es_status got = es_run_get_table(r->run, name, r->budget, &data, err);
    if (got == ES_E_EMPTY && !r->only)
        return add_table(r, name, NULL, err);
    ES_TRY(got);
    const es_status status = add_table(r, name, &data, err);
    es_run_table_free(&data);
    return status;
}

/* ---- the list of tables ---- */

/* Returns true if a name is in the list. */
static bool is_listed(char (*names)[256], int64_t count, const char *name)
{
    for (int64_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Adds a name unless it is there, or a description that has neither rows nor an entry. */
static void add_name(char (*names)[256], int64_t *count, const char *name)
{
    if (name[0] != '_' && strlen(name) < 256 && !is_listed(names, *count, name))
        snprintf(names[(*count)++], 256, "%s", name);
}

/* The tables of the answer, in the order in which the study made them: that of "_tables", else of
 * "_columns", else of their names. */
es_status es_reader_list(const es_run_reader *r, char (**out)[256], int64_t *count, es_error *err)
{
    const char *const *specs = es_reader_texts(&r->tables, "table");
    int64_t stored;
    char(*files)[256];
    *count = 0;
    ES_TRY(es_run_tables_count(r->run, &stored, err));
    const int64_t known = specs ? r->tables.rows : 0;
    ES_TRY(ES_READER_NEW(r, files, stored, err));
    ES_TRY(ES_READER_NEW(r, *out, stored + known, err));
    for (int64_t i = 0; i < stored; i++)
        ES_TRY(es_run_table_name(r->run, i, files[i], err));
    for (int64_t i = 0; i < known; i++)
        add_name(*out, count, specs[i]);
    for (int64_t i = 0; i < r->columns.rows; i++)
        if (is_listed(files, stored, word(r, SAID_TABLE, i)))
            add_name(*out, count, word(r, SAID_TABLE, i));
    for (int64_t i = 0; i < stored; i++)
        add_name(*out, count, files[i]);
    for (int64_t i = 0; i < *count; i++)
        if (!es_utf8((*out)[i])) /* no other program could ask for it */
            return es_reader_fail(err, "the name", "a table");
    return ES_OK;
}
