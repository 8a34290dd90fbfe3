/* view_text.c : an answer for people: sentences, then tables, on a terminal or as Markdown. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "table/answer.h"

/* Columns of one view, and the text of every cell. */
typedef struct sheet {
    const es_table *table;
    const es_table_view *view;
    es_table_column *columns;
    int64_t count;
    int *widths;
    const char **cells; /* (rows, count) */
    es_arena arena;
    es_pen *pen;
    bool markdown, colour;
} sheet;

/* ---- cells ---- */

/* Columns a text takes on a terminal: its characters, not its bytes. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* The standard error of column c, if this view has a use for it. */
static bool error_of(const es_table *t, const es_table_column *c, es_table_column *out)
{
    char key[ES_KEY_ROOM];
    if (c->is_error || !c->spec->error)
        return false;
    const char *index = strlen(c->key) > strlen(c->spec->key) ? c->key + strlen(c->spec->key) : "";
    return es_table_find(t, es_key(key, c->spec->error, index), out);
}

static const char *text_cell(sheet *s, const char *text)
{
    void *room;
    const size_t size = 4 * strlen(text) + 5;
    if (es_arena_array(&s->arena, (int64_t)size, 1, 1, "a cell", &room, NULL) != ES_OK)
        return NULL;
    return es_escape(text, room, size);
}

/* The cells of column j; numbers in one form. */
static es_status make_column(sheet *s, int64_t j, es_error *err)
{
    const es_table_column *c = &s->columns[j];
    const int64_t rows = es_table_rows(s->table);
    char number[ES_FORMAT_ROOM];
    es_table_column error = {0};
    const double *errors = error_of(s->table, c, &error) ? error.reals : NULL;
    es_format_form form = {0};
    if (!c->texts)
        form = es_format_choose(c->format, c->reals, errors, rows);
    const int title = width_of(c->title), unit = width_of(c->spec->unit);
    s->widths[j] = title > unit ? title : unit;
    for (int64_t i = 0; i < rows; i++) {
        const char *text;
        if (c->texts) {
            text = text_cell(s, c->texts[i] ? c->texts[i] : s->markdown ? "" : "-");
        } else {
            es_format_put(form, c->reals[i], errors ? errors[i] : (double)NAN, number,
                          sizeof number);
            text = es_arena_text(&s->arena, number);
        }
        if (!text)
            return es_fail(err, ES_E_MEMORY, "memory.system", "", "no memory for the view");
        s->cells[i * s->count + j] = text;
        s->widths[j] = width_of(text) > s->widths[j] ? width_of(text) : s->widths[j];
    }
    return ES_OK;
}

/* ---- which columns ---- */

/* A view names keys of the spec; what stands for labels comes with its key, errors with what they
 * are the errors of. */
static bool is_shown(const es_table_view *view, const es_table_column *c)
{
    return !c->is_error && (!view->columns || es_words_at(view->columns, c->spec->key) >= 0);
}

/* Columns stand in the order in which the view names them. */
static int64_t place_of(const es_table_view *view, const es_table_column *c)
{
    return view->columns ? es_words_at(view->columns, c->spec->key) : 0;
}

static es_status make_sheet(sheet *s, es_error *err)
{
    void *memory;
    es_table_column c;
    const int64_t most = s->table->count, rows = es_table_rows(s->table);
    ES_TRY(es_arena_array(&s->arena, most, 1, sizeof c, "a view", &memory, err));
    s->columns = memory;
    for (int64_t j = 0; es_table_column_at(s->table, j, &c); j++) {
        if (!is_shown(s->view, &c))
            continue;
        int64_t at = s->count++;
        for (; at > 0 && place_of(s->view, &s->columns[at - 1]) > place_of(s->view, &c); at--)
            s->columns[at] = s->columns[at - 1];
        s->columns[at] = c;
    }
    ES_TRY(es_arena_array(&s->arena, s->count, 1, sizeof(int), "a view", &memory, err));
    s->widths = memory;
    ES_TRY(es_arena_array(&s->arena, rows, s->count, sizeof(char *), "a view", &memory, err));
    s->cells = memory;
    for (int64_t j = 0; j < s->count; j++)
        ES_TRY(make_column(s, j, err));
    return ES_OK;
}

/* ---- a terminal ---- */

static void put_aligned(es_pen *pen, const char *text, int width, bool left)
{
    const int gap = width - width_of(text);
    if (!left && gap > 0)
        es_pen_format(pen, "%*s", gap, "");
    es_pen_put(pen, text);
    if (left && gap > 0)
        es_pen_format(pen, "%*s", gap, "");
}

/* Cell j of a line of `count`; nothing follows the last one, so it is not padded. */
static void put_cell(const sheet *s, const char *text, int64_t j, int64_t count)
{
    const bool left = s->columns[j].texts != NULL;
    es_pen_put(s->pen, j ? "  " : "");
    put_aligned(s->pen, text, left && j + 1 == count ? 0 : s->widths[j], left);
}

static void put_units(const sheet *s)
{
    int64_t count = s->count;
    while (count > 0 && !*s->columns[count - 1].spec->unit)
        count--;
    for (int64_t j = 0; j < count; j++)
        put_cell(s, s->columns[j].spec->unit, j, count);
    es_pen_put(s->pen, count ? "\n" : "");
}

static void put_lines(const sheet *s)
{
    es_pen_put(s->pen, s->colour ? "\033[1m" : "");
    for (int64_t j = 0; j < s->count; j++)
        put_cell(s, s->columns[j].title, j, s->count);
    es_pen_put(s->pen, s->colour ? "\n\033[0m" : "\n");
    put_units(s);
    for (int64_t i = 0; i < es_table_rows(s->table); i++) {
        for (int64_t j = 0; j < s->count; j++)
            put_cell(s, s->cells[i * s->count + j], j, s->count);
        es_pen_put(s->pen, "\n");
    }
}

/* One line per column: for a single row. */
static void put_record(const sheet *s)
{
    int width = 0;
    for (int64_t j = 0; j < s->count; j++)
        width = width_of(s->columns[j].title) > width ? width_of(s->columns[j].title) : width;
    for (int64_t j = 0; j < s->count && es_table_rows(s->table); j++) {
        const char *unit = s->columns[j].spec->unit;
        es_pen_put(s->pen, "  ");
        put_aligned(s->pen, s->columns[j].title, width, true);
        es_pen_format(s->pen, "  ");
        es_pen_put(s->pen, s->cells[j]);
        es_pen_format(s->pen, "%s%s\n", *unit ? " " : "", unit);
    }
}

/* ---- Markdown ---- */

static void put_markdown(const sheet *s)
{
    const char *const ends[2] = {" |", "--:|"};
    for (int64_t j = 0; j < s->count; j++)
        es_pen_format(s->pen, "| %s%s%s%s%s ", s->columns[j].title,
                      *s->columns[j].spec->unit ? " (" : "", s->columns[j].spec->unit,
                      *s->columns[j].spec->unit ? ")" : "", "");
    es_pen_put(s->pen, "|\n|");
    for (int64_t j = 0; j < s->count; j++)
        es_pen_put(s->pen, s->columns[j].texts ? "---|" : ends[1]);
    es_pen_put(s->pen, "\n");
    for (int64_t i = 0; i < es_table_rows(s->table); i++) {
        for (int64_t j = 0; j < s->count; j++) {
            es_pen_put(s->pen, "| ");
            for (const char *c = s->cells[i * s->count + j]; *c; c++) {
                es_pen_put(s->pen, *c == '|' ? "\\" : "");
                es_pen_char(s->pen, *c);
            }
            es_pen_put(s->pen, " ");
        }
        es_pen_put(s->pen, "|\n");
    }
}

/* ---- all of it ---- */

static void put_foot(const sheet *s)
{
    const es_column *before = NULL;
    const char *head = s->markdown ? "- " : "  ";
    es_table_column error;
    bool errors = false;
    es_pen_put(s->pen, s->markdown ? "\n" : "");
    for (int64_t j = 0; j < s->count; j++) {
        const es_column *c = s->columns[j].spec;
        if ((c->definition || c->standing) && c != before) {
            es_pen_format(s->pen, "%s%s: ", head, c->title);
            es_pen_put(s->pen, c->definition ? c->definition : "");
            if (c->standing)
                es_pen_format(s->pen, "%s[%s]", c->definition ? " " : "",
                              es_standing_name(c->standing));
            es_pen_put(s->pen, "\n");
        }
        errors = errors || error_of(s->table, &s->columns[j], &error);
        before = c;
    }
    if (errors)
        es_pen_format(s->pen, "%s±: one standard error\n", head);
    if (s->view->note) {
        es_pen_put(s->pen, head);
        es_pen_put(s->pen, s->view->note);
        es_pen_put(s->pen, "\n");
    }
}

static es_status put_view(sheet *s, bool first, es_error *err)
{
    const es_status status = make_sheet(s, err);
    if (status == ES_OK && s->count > 0) {
        es_pen_put(s->pen, first ? "" : "\n");
        es_pen_put(s->pen, s->markdown ? "### " : s->colour ? "\033[1m" : "");
        es_pen_put(s->pen, s->view->title);
        es_pen_put(s->pen, s->markdown ? "\n\n" : s->colour ? "\033[0m\n" : "\n");
        if (s->markdown)
            put_markdown(s);
        else if (s->table->spec->record)
            put_record(s);
        else
            put_lines(s);
        put_foot(s);
    }
    es_arena_free(&s->arena);
    return status;
}

es_status es_answer_text_view(const es_answer *a, bool markdown, const es_answer_opts *opts,
                              es_pen *pen, es_error *err)
{
    bool first = true;
    for (int64_t i = 0; i < a->findings_count; i++, first = false) {
        es_pen_put(pen, a->findings[i]);
        es_pen_put(pen, markdown ? "\n\n" : "\n");
    }
    for (int64_t i = 0; i < a->tables_count; i++) {
        const es_table *t = a->tables[i];
        uint64_t bit = 1;
        for (const es_table_view *v = t->spec->views; v && v->title; v++, bit <<= 1) {
            if ((t->hidden & bit) || (v->more && !opts->full))
                continue;
            sheet s = {.table = t,
                       .view = v,
                       .pen = pen,
                       .markdown = markdown,
                       .colour = opts->colour && !markdown};
            ES_TRY(put_view(&s, first, err));
            first = false;
        }
    }
    return ES_OK;
}
