/* SPDX-License-Identifier: Apache-2.0 */
/* sheet.c : lays out one view of a table: which columns, how wide, where titles break, what is
 * left out. */
#include "table/sheet.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "table/lines.h"
#include "table/table.h"

enum { GAP = 2, LEAST_TEXT = 20, MOST_LINES = 2, MOST_KEYS = 4 };

void es_sheet_free(es_sheet *s) { es_arena_free(&s->arena); }

const char *es_sheet_cell(const es_sheet *s, int64_t i, int64_t j)
{
    return s->cells[i * (s->count + s->columns_left) + j];
}

bool es_sheet_error(const es_table *t, const es_table_column *c, es_table_column *out)
{
    return c->error && es_table_find(t, c->error, out);
}

const es_column *es_sheet_explained(const es_sheet *s, int64_t j)
{
    const es_column *c = s->columns[j].spec;
    const bool repeated = j > 0 && s->columns[j - 1].spec == c;
    return (c->definition || c->standing) && !repeated ? c : NULL;
}

bool es_sheet_has_errors(const es_sheet *s)
{
    es_table_column error;
    for (int64_t j = 0; j < s->count; j++)
        if (s->columns[j].format == ES_FORMAT_REAL && /* others do not show it */
            es_sheet_error(s->table, &s->columns[j], &error))
            return true;
    return false;
}

/* ---- which columns ---- */

/* Collects the columns of a view. A view names keys of the spec; labels come with their key,
 * errors with their value. */
static bool is_shown(const es_table_view *view, const es_table_column *c)
{
    return !c->is_error && (!view->columns || es_words_at(view->columns, c->spec->key) >= 0);
}

/* A column of texts none of which says anything is not shown. */
static bool is_empty(const es_table *t, const es_table_column *c)
{
    for (int64_t i = 0; i < t->rows; i++) {
        const char *text = es_column_text(c, i);
        if (c->format != ES_FORMAT_TEXT || (text && *text))
            return false;
    }
    return t->rows > 0;
}

/* Columns stand in the order in which the view names them. */
static int64_t place_of(const es_table_view *view, const es_table_column *c)
{
    return view->columns ? es_words_at(view->columns, c->spec->key) : 0;
}

/* Inserts a column at a place. */
static void insert_column(es_sheet *s, int64_t at, const es_table_column *c)
{
    for (int64_t j = s->count++; j > at; j--)
        s->columns[j] = s->columns[j - 1];
    s->columns[at] = *c;
}

/* Removes a column. */
static void remove_column(es_sheet *s, int64_t at)
{
    s->count--;
    for (int64_t j = at; j < s->count; j++)
        s->columns[j] = s->columns[j + 1];
}

/* Adds the column by which rows are sorted, behind the key columns, even if the view does not have
 * it: a sorted table must show its order. */
static void show_order(es_sheet *s)
{
    es_table_column by;
    int64_t keys = 0, at = 0;
    if (s->table->spec->record || !es_choice_sorted_by(s->table, s->opts, &by))
        return;
    while (
        keys < s->count && keys < MOST_KEYS &&
        (s->columns[keys].format == ES_FORMAT_COUNT || s->columns[keys].format == ES_FORMAT_TEXT))
        keys++;
    while (at < s->count && strcmp(s->columns[at].key, by.key) != 0)
        at++;
    if (at < keys)
        return;
    if (at < s->count)
        remove_column(s, at);
    insert_column(s, keys, &by);
}

/* Texts that no view shows are too long for a line of a terminal; a page has space for them. */
static void show_texts(es_sheet *s)
{
    es_table_column c;
    if (s->table->spec->views && strcmp(s->view->title, s->table->spec->views->title) != 0)
        return; /* they stand in the first view */
    for (int64_t j = 0; s->view->columns && es_table_column_at(s->table, j, &c); j++) {
        bool shown = c.format != ES_FORMAT_TEXT || is_empty(s->table, &c);
        for (const es_table_view *v = s->table->spec->views; v && v->title && !shown; v++)
            shown = is_shown(v, &c);
        if (!shown)
            insert_column(s, s->count, &c);
    }
}

/* Collects the columns that the view shows. */
static es_status choose_columns(es_sheet *s, es_error *err)
{
    es_table_column c;
    ES_TRY(ES_ARENA_NEW(&s->arena, s->columns, s->table->count + 1, "a view", err));
    for (int64_t j = 0; es_table_column_at(s->table, j, &c); j++) {
        if (!is_shown(s->view, &c) || is_empty(s->table, &c))
            continue;
        int64_t at = s->count;
        while (at > 0 && place_of(s->view, &s->columns[at - 1]) > place_of(s->view, &c))
            at--;
        insert_column(s, at, &c);
    }
    if (s->page)
        show_texts(s);
    if (s->count > 0)
        show_order(s);
    return ES_OK;
}

/* ---- cells ---- */

/* Returns a text as a cell: escaped, "-" for none. */
static const char *text_cell(es_sheet *s, const char *text)
{
    char *buffer;
    text = text ? text : s->markdown || s->page ? "" : "-";
    if (s->page)
        return text;
    const size_t size = 4 * strlen(text) + 5;
    if (ES_ARENA_NEW(&s->arena, buffer, (int64_t)size, "a cell", NULL) != ES_OK)
        return NULL;
    return es_escape(text, buffer, size);
}

/* Escapes what is said about the columns: a run file may hold anything. */
static es_status escape_words(es_sheet *s, es_error *err)
{
    ES_TRY(ES_ARENA_NEW(&s->arena, s->units, s->count, "a view", err));
    s->title = text_cell(s, s->view->title);
    bool good = s->title;
    for (int64_t j = 0; j < s->count; j++) {
        s->columns[j].title = text_cell(s, s->columns[j].title);
        s->units[j] = text_cell(s, s->columns[j].spec->unit);
        good = good && s->columns[j].title && s->units[j];
    }
    return good ? ES_OK : es_fail(err, ES_E_MEMORY, "memory.system", "", "no memory for the view");
}

/* A number as the column's form has it; a page has signs for what is none. */
static const char *number_cell(const es_sheet *s, es_format_form form, double value, double error,
                               char *out, size_t size)
{
    if (s->page && !isfinite(value))
        return isnan(value) ? "–" : value > 0.0 ? "∞" : "−∞";
    return es_format_put(form, value, error, out, size);
}

/* The cells of column j; its numbers have one form, that of all rows of the table, so that a choice
 * of rows does not change how they are written. */
static es_status make_column(es_sheet *s, int64_t j, es_error *err)
{
    const es_table_column *c = &s->columns[j];
    char number[ES_FORMAT_SIZE];
    es_table_column error = {0};
    const bool is_text = c->format == ES_FORMAT_TEXT;
    const bool has_error = !is_text && es_sheet_error(s->table, c, &error);
    es_format_form form = {0};
    if (!is_text) {
        double *values, *errors = NULL;
        ES_TRY(es_column_gather(c, &s->arena, &values, err));
        if (has_error)
            ES_TRY(es_column_gather(&error, &s->arena, &errors, err));
        form = es_format_choose(c->format, values, errors, s->table->rows);
    }
    for (int64_t i = 0; i < s->rows.count; i++) {
        const int64_t row = s->rows.at[i];
        const char *text;
        if (is_text) {
            text = text_cell(s, es_column_text(c, row));
        } else {
            const double se = has_error ? es_column_real(&error, row) : (double)NAN;
            text = es_arena_text(
                &s->arena, number_cell(s, form, es_column_real(c, row), se, number, sizeof number));
        }
        if (!text)
            return es_fail(err, ES_E_MEMORY, "memory.system", "", "out of memory for the view");
        s->cells[i * s->count + j] = text;
        const int width = es_lines_width(text);
        s->widths[j] = width > s->widths[j] ? width : s->widths[j];
    }
    return ES_OK;
}

/* ---- titles ---- */

/* Bytes of the first line of a title in a column: as many words as fit, one at least. */
static size_t title_line(const char *title, int width)
{
    size_t length = strcspn(title, " ");
    while (title[length]) {
        const size_t next = length + 1 + strcspn(title + length + 1, " ");
        if (es_lines_fit(title, width) < next)
            break;
        length = next;
    }
    return length;
}

/* Counts the lines of a title that is wrapped at `width`. */
static int lines_of(const char *title, int width)
{
    int lines = 0;
    for (; *title; lines++) {
        title += title_line(title, width);
        title += strspn(title, " ");
    }
    return lines;
}

/* Returns the width of the longest word of a title: no column can be narrower. */
static int longest_word(const char *title)
{
    int longest = 0;
    while (*title) {
        const size_t length = strcspn(title, " ");
        const int width = es_lines_width_of(title, length);
        longest = width > longest ? width : longest;
        title += length + strspn(title + length, " ");
    }
    return longest;
}

size_t es_sheet_title(const es_sheet *s, int64_t j, int at, const char **from)
{
    const char *title = s->columns[j].title;
    int skip = at - (s->lines - lines_of(title, s->widths[j]));
    if (skip < 0)
        return 0;
    for (; skip > 0; skip--) {
        title += title_line(title, s->widths[j]);
        title += strspn(title, " ");
    }
    *from = title;
    return title_line(title, s->widths[j]);
}

/* ---- what fits ---- */

/* Returns the larger of two numbers. */
static int larger(int a, int b) { return a > b ? a : b; }

/* Titles on one line each: what every column takes then; or, `narrow`, on as many as allowed. */
static void set_widths(es_sheet *s, const int *cells, bool narrow)
{
    s->lines = 1;
    for (int64_t j = 0; j < s->count; j++) {
        const char *title = s->columns[j].title;
        int width = larger(cells[j], es_lines_width(s->units[j]));
        width = larger(width, narrow ? longest_word(title) : es_lines_width(title));
        while (lines_of(title, width) > MOST_LINES)
            width++;
        s->widths[j] = width;
        s->lines = larger(s->lines, lines_of(title, width));
    }
}

/* Returns how many columns fit from the left; *left is the width that remains. */
static int64_t count_fitting(const es_sheet *s, int *left)
{
    int64_t count = 0;
    *left = s->opts->width;
    while (count < s->count && s->widths[count] + (count ? GAP : 0) <= *left) {
        *left -= s->widths[count] + (count ? GAP : 0);
        count++;
    }
    return count;
}

/* Drop what does not fit from the right; texts go on below instead where there is space for a few
 * words. */
static void fit_columns(es_sheet *s, const int *cells)
{
    int left;
    set_widths(s, cells, false);
    if (s->markdown || s->opts->full || s->opts->width <= 0 || s->table->spec->record)
        return;
    int64_t count = count_fitting(s, &left);
    if (count == s->count)
        return;
    set_widths(s, cells, true);
    count = count_fitting(s, &left);
    left -= count ? GAP : 0;
    if (count < s->count && s->columns[count].format == ES_FORMAT_TEXT &&
        (count == 0 || (left >= LEAST_TEXT && left >= longest_word(s->columns[count].title)))) {
        s->wrapped = true;
        s->widths[count++] = left;
    }
    count = count ? count : 1; /* a number is not broken, whatever the width */
    s->columns_left = s->count - count;
    s->count = count;
    s->lines = 1;
    for (int64_t j = 0; j < s->count; j++)
        s->lines = larger(s->lines, lines_of(s->columns[j].title, s->widths[j]));
}

es_status es_sheet_make(es_sheet *s, es_error *err)
{
    const es_answer_opts everything = {0};
    const bool record = s->table->spec->record;
    ES_TRY(choose_columns(s, err));
    ES_TRY(escape_words(s, err));
    ES_TRY(es_choice_rows(s->table, record ? &everything : s->opts, &s->arena, &s->rows, err));
    const int64_t most = s->markdown || s->opts->full || s->opts->top ? 0 : s->opts->most_rows;
    if (most > 0 && s->rows.count > most) {
        s->rows_left = s->rows.count - most;
        s->rows.count = most;
    }
    ES_TRY(ES_ARENA_NEW_2D(&s->arena, s->widths, s->count, 2, "a view", err));
    ES_TRY(ES_ARENA_NEW_2D(&s->arena, s->cells, s->rows.count, s->count, "a view", err));
    for (int64_t j = 0; j < s->count; j++)
        ES_TRY(make_column(s, j, err));
    int *const cells = s->widths + s->count;
    memcpy(cells, s->widths, (size_t)s->count * sizeof *cells);
    fit_columns(s, cells);
    return ES_OK;
}
