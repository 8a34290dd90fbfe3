/* SPDX-License-Identifier: Apache-2.0 */
/* view_text.c : an answer as text: sentences, then tables, for a terminal or as Markdown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "table/lines.h"
#include "table/sheet.h"

/* The answer on its way out. */
typedef struct paper {
    es_writer *writer;
    const es_answer_opts *opts;
    bool markdown, colour, first; /* first: nothing has been written */
    int tables;                   /* views written so far */
    int width;                    /* 0: any */
} paper;

/* `text` with its control characters escaped, line by line, into out (4 strlen(text) + 5 bytes),
 * which also holds the lines while they are cut. Names that users chose stand in sentences. */
static char *shown(const char *text, char *line, char *out)
{
    char *end = out;
    for (; *text; text += *text == '\n') {
        const size_t length = strcspn(text, "\n");
        memcpy(line, text, length);
        line[length] = '\0';
        end += strlen(es_escape(line, end, 4 * length + 5));
        text += length;
        if (*text == '\n')
            *end++ = '\n';
    }
    *end = '\0';
    return out;
}

/* A sentence: wrapped on a terminal, one paragraph in Markdown. `marked`: its formulas stand
 * between backquotes, which a terminal does not need. */
static void put_text(const paper *p, const char *head, const char *text, int indent, bool marked)
{
    char none[] = "(no memory to show it)";
    const size_t length = strlen(text);
    char *buffer = malloc(5 * length + 8); /* the escaped text, then a line of it */
    char *safe = buffer ? shown(text, buffer + 4 * length + 5, buffer) : none;
    es_writer_put(p->writer, head);
    if (p->markdown) {
        (marked ? es_lines_marked : es_lines_markdown)(p->writer, safe);
        es_writer_put(p->writer, "\n");
    } else {
        es_lines_put(p->writer, marked ? es_lines_unmarked(safe) : safe, p->width,
                     es_lines_width(head), indent);
    }
    free(buffer);
}

/* Writes a sentence, whose backquotes are text. */
static void put_sentence(const paper *p, const char *head, const char *text, int indent)
{
    put_text(p, head, text, indent, false);
}

/* ---- a terminal ---- */

/* Writes blanks. */
static void put_spaces(es_writer *writer, int count)
{
    if (count > 0)
        es_writer_format(writer, "%*s", count, "");
}

/* `length` bytes of a text in cell j. Nothing follows the `last` cell of a line, so it is not
 * padded. */
static void put_cell(const paper *p, const es_sheet *s, const char *text, size_t length, int64_t j,
                     bool last)
{
    const bool left = s->columns[j].format == ES_FORMAT_TEXT;
    const int gap = s->widths[j] - es_lines_width_of(text, length);
    es_writer_put(p->writer, j ? "  " : "");
    put_spaces(p->writer, left ? 0 : gap);
    es_lines_bytes(p->writer, text, length);
    put_spaces(p->writer, left && !last ? gap : 0);
}

/* Writes the titles of the columns, on several lines if they are long. */
static void put_titles(const paper *p, const es_sheet *s)
{
    es_writer_put(p->writer, p->colour ? "\033[1m" : "");
    for (int line = 0; line < s->lines; line++) {
        int64_t count = s->count;
        const char *from = "";
        while (count > 1 && es_sheet_title(s, count - 1, line, &from) == 0)
            count--;
        for (int64_t j = 0; j < count; j++) {
            from = "";
            const size_t length = es_sheet_title(s, j, line, &from);
            put_cell(p, s, from, length, j, j + 1 == count);
        }
        es_writer_put(p->writer, "\n");
    }
    es_writer_put(p->writer, p->colour ? "\033[0m" : "");
}

/* Writes the units below the titles. */
static void put_units(const paper *p, const es_sheet *s)
{
    int64_t count = s->count;
    while (count > 0 && !*s->units[count - 1])
        count--;
    for (int64_t j = 0; j < count; j++) {
        const char *unit = s->units[j];
        put_cell(p, s, unit, strlen(unit), j, j + 1 == count);
    }
    es_writer_put(p->writer, count ? "\n" : "");
}

/* Writes one row; a last column of text is wrapped. */
static void put_row(const paper *p, const es_sheet *s, int64_t i)
{
    const int64_t plain = s->wrapped ? s->count - 1 : s->count;
    int used = 0;
    for (int64_t j = 0; j < plain; j++) {
        const char *cell = es_sheet_cell(s, i, j);
        put_cell(p, s, cell, strlen(cell), j, j + 1 == s->count);
        used += s->widths[j] + (j ? 2 : 0);
    }
    if (!s->wrapped) {
        es_writer_put(p->writer, "\n");
        return;
    }
    used += plain ? 2 : 0;
    es_writer_put(p->writer, plain ? "  " : "");
    es_lines_put(p->writer, es_sheet_cell(s, i, plain), p->width, used, used);
}

/* Writes titles, units and rows. */
static void put_lines(const paper *p, const es_sheet *s)
{
    put_titles(p, s);
    put_units(p, s);
    for (int64_t i = 0; i < s->rows.count; i++)
        put_row(p, s, i);
}

/* One line per column: for a single row. */
static void put_record(const paper *p, const es_sheet *s)
{
    int width = 0;
    for (int64_t j = 0; j < s->count; j++) {
        const int title = es_lines_width(s->columns[j].title);
        width = title > width ? title : width;
    }
    for (int64_t j = 0; j < s->count && s->rows.count; j++) {
        const char *unit = s->units[j], *cell = es_sheet_cell(s, 0, j);
        es_writer_format(p->writer, "  %s", s->columns[j].title);
        put_spaces(p->writer, width - es_lines_width(s->columns[j].title) + 2);
        if (*unit && s->columns[j].format != ES_FORMAT_TEXT)
            es_writer_format(p->writer, "%s %s\n", cell, unit);
        else
            es_lines_put(p->writer, cell, p->width, width + 4, width + 4);
    }
}

/* ---- Markdown ---- */

/* Writes a table of Markdown. */
static void put_markdown(const paper *p, const es_sheet *s)
{
    for (int64_t j = 0; j < s->count; j++) {
        const char *unit = s->units[j];
        es_writer_put(p->writer, "| ");
        es_lines_markdown(p->writer, s->columns[j].title);
        es_writer_put(p->writer, *unit ? " (" : "");
        es_lines_markdown(p->writer, unit);
        es_writer_put(p->writer, *unit ? ") " : " ");
    }
    es_writer_put(p->writer, "|\n|");
    for (int64_t j = 0; j < s->count; j++)
        es_writer_put(p->writer, s->columns[j].format == ES_FORMAT_TEXT ? "---|" : "--:|");
    es_writer_put(p->writer, "\n");
    for (int64_t i = 0; i < s->rows.count; i++) {
        for (int64_t j = 0; j < s->count; j++) {
            es_writer_put(p->writer, "| ");
            es_lines_markdown(p->writer, es_sheet_cell(s, i, j));
            es_writer_put(p->writer, " ");
        }
        es_writer_put(p->writer, "|\n");
    }
}

/* ---- below a table ---- */

/* "4 more columns and 62 more rows: --full" */
static void put_rest(const paper *p, const es_sheet *s)
{
    char text[256] = "";
    size_t used = 0;
    if (s->columns_left)
        used += (size_t)snprintf(text, sizeof text, "%lld more column%s",
                                 (long long)s->columns_left, s->columns_left == 1 ? "" : "s");
    if (s->rows_left)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld more row%s",
                                 used ? " and " : "", (long long)s->rows_left,
                                 s->rows_left == 1 ? "" : "s");
    if (used && p->opts->rest)
        snprintf(text + used, sizeof text - used, ": %s", p->opts->rest);
    if (used)
        put_sentence(p, p->markdown ? "- " : "  ", text, 4);
}

/* Writes the definition of a column. */
static void put_definition(const paper *p, const es_column *c)
{
    const char *head = p->markdown ? "- " : "  ";
    char text[2048];
    const char *definition = c->definition ? c->definition : "";
    snprintf(text, sizeof text, "%s: %s%s%s%s%s", c->title, definition,
             c->standing && c->definition ? " " : "", c->standing ? "[" : "",
             es_standing_name(c->standing), c->standing ? "]" : "");
    put_text(p, head, text, 4, true);
}

/* Writes the definitions below a table, and what was left out. */
static void put_foot(const paper *p, const es_sheet *s)
{
    const char *head = p->markdown ? "- " : "  ";
    es_writer_put(p->writer, p->markdown ? "\n" : "");
    for (int64_t j = 0; j < s->count; j++) {
        const es_column *c = es_sheet_explained(s, j);
        if (c)
            put_definition(p, c);
    }
    if (es_sheet_has_errors(s))
        put_sentence(p, head, "±: one standard error", 4);
    if (s->view->note)
        put_text(p, head, s->view->note, 2, true);
    put_rest(p, s);
}

/* ---- all of it ---- */

/* Writes the title of a view. */
static void put_title(const paper *p, const char *title)
{
    if (p->colour)
        es_writer_put(p->writer, "\033[1m");
    put_sentence(p, p->markdown ? "### " : "", title, 2);
    es_writer_put(p->writer, p->markdown ? "\n" : p->colour ? "\033[0m" : "");
}

/* Writes one view of a table, with title and definitions. */
static es_status put_view(paper *p, const es_table *t, const es_table_view *view, es_error *err)
{
    es_sheet s = {.table = t, .view = view, .opts = p->opts, .markdown = p->markdown};
    const es_status status = es_sheet_make(&s, err);
    /* a table none of whose rows was asked for says nothing */
    if (status == ES_OK && s.count > 0 && (s.rows.count > 0 || t->rows == 0)) {
        es_writer_put(p->writer, p->first ? "" : "\n");
        p->first = false;
        p->tables++;
        put_title(p, view->title);
        if (p->markdown)
            put_markdown(p, &s);
        else if (t->spec->record)
            put_record(p, &s);
        else
            put_lines(p, &s);
        put_foot(p, &s);
    }
    es_sheet_free(&s);
    return status;
}

/* Writes the findings that lead, before the first table, or the others, below it. */
static void put_findings(paper *p, const es_answer *a, bool lead)
{
    bool blank = p->tables > 0;
    for (int64_t i = 0; i < a->findings_count; i++) {
        if (es_answer_leads(a, i) != lead)
            continue;
        es_writer_put(p->writer, blank ? "\n" : "");
        put_sentence(p, "", a->findings[i], 2);
        es_writer_put(p->writer, p->markdown ? "\n" : "");
        p->first = blank = false;
    }
}

/* "2 more tables (Fits, Curves): --full" */
static void put_waiting(const paper *p, const char *titles, int count)
{
    char text[2048];
    if (count == 0)
        return;
    snprintf(text, sizeof text, "%d more table%s (%s)%s%s", count, count == 1 ? "" : "s", titles,
             p->opts->rest ? ": " : "", p->opts->rest ? p->opts->rest : "");
    es_writer_put(p->writer, p->first ? "" : "\n");
    put_sentence(p, "", text, 2);
}

/* Returns whether the view shows a column. */
static bool has_columns(const es_table *t, const es_table_view *view)
{
    es_table_column c;
    for (int64_t j = 0; t->rows && es_table_column_at(t, j, &c); j++)
        if (!c.is_error && (!view->columns || es_words_at(view->columns, c.spec->key) >= 0))
            return true;
    return false;
}

es_status es_answer_text_view(const es_answer *a, bool markdown, const es_answer_opts *opts,
                              es_writer *writer, es_error *err)
{
    paper p = {.writer = writer,
               .opts = opts,
               .markdown = markdown,
               .colour = opts->colour && !markdown,
               .first = true,
               .width = opts->width > 0 ? opts->width : 0};
    char waiting[1024] = "";
    int count = 0;
    put_findings(&p, a, true);
    for (int64_t i = 0; i < a->tables_count; i++) {
        const es_table *t = a->tables[i];
        uint64_t bit = 1;
        for (const es_table_view *v = t->spec->views; v && v->title; v++, bit <<= 1) {
            if (t->hidden & bit)
                continue;
            if (es_choice_shows(t, v, opts)) {
                const bool none = p.tables == 0;
                ES_TRY(put_view(&p, t, v, err));
                if (none && p.tables)
                    put_findings(&p, a, false);
            } else if (has_columns(t, v)) {
                const size_t used = strlen(waiting);
                snprintf(waiting + used, sizeof waiting - used, "%s%s", count ? "; " : "",
                         v->title);
                count++;
            }
        }
    }
    if (p.tables == 0)
        put_findings(&p, a, false);
    put_waiting(&p, waiting, count);
    return ES_OK;
}
