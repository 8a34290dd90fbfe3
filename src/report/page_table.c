/* page_table.c : a table of a run as HTML for people: folded, with its definitions, in bands of
 * columns that fit a page. */
#include "report/page_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "base/memory.h"
#include "report/mathml.h"

/* ---- cells ---- */

/* Words first, colour second. A reading that fails is no bad news: it is expected to. */
void es_page_badge(es_sink *s, const es_run_table *t, int64_t row)
{
    static const struct {
        const char *verdict, *kind;
    } known[] = {{"consistent", "good"},
                 {"confirmed", "good"},
                 {"contradicted", "bad"},
                 {"not confirmed", "bad"},
                 {"fails as a reading", "known"}};
    const char *verdict = es_book_text(t, "verdict", row), *kind = "open";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(verdict, known[i].verdict) == 0)
            kind = known[i].kind;
    es_sink_format(s, "<span class=\"badge %s\">", kind);
    es_sink_text(s, verdict);
    es_sink_put(s, "</span>");
}

/* A column with the form that its numbers share and how wide they are, in letters. */
typedef struct cells {
    const es_book_column *column;
    es_format_form form;
    int width;
} cells;

/* A number as people read it, into `text`. */
static const char *number_of(const cells *c, int64_t row, char *text, size_t size)
{
    const double value = c->column->value->reals[row];
    const double error = c->column->error ? c->column->error->reals[row] : (double)NAN;
    return isnan(value)   ? "–"
           : isinf(value) ? (value > 0.0 ? "∞" : "−∞")
                          : es_format_put(c->form, value, error, text, size);
}

/* Letters of a text: bytes that do not continue one. */
static int letters(const char *text, size_t length)
{
    int count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* Heads wrap between words: the longest counts. */
static int longest_word(const char *text)
{
    int most = 0;
    for (const char *at = text; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        const int width = letters(at, length);
        most = width > most ? width : most;
        at += length;
    }
    return most;
}

static int max_int(int a, int b) { return a > b ? a : b; }

/* Widest of the rows that are shown; texts wrap. */
static int width_of(const cells *c, int64_t rows)
{
    enum { WRAPPED = 34, PADDING = 2 };
    char text[ES_FORMAT_ROOM];
    int width = max_int(longest_word(c->column->header), longest_word(c->column->unit));
    for (int64_t i = 0; i < rows; i++) {
        const char *cell = c->column->value->kind == ES_RUN_REAL
                               ? number_of(c, i, text, sizeof text)
                               : c->column->value->texts[i];
        width = max_int(width, letters(cell, strlen(cell)));
    }
    return (width < WRAPPED ? width : WRAPPED) + PADDING;
}

static void prepare(const es_book_table *t, int64_t rows, cells *out)
{
    for (int64_t j = 0; j < t->shown; j++) {
        const es_book_column *c = &t->columns[j];
        out[j] = (cells){.column = c};
        if (c->value->kind == ES_RUN_REAL)
            out[j].form = es_format_choose(c->format, c->value->reals,
                                           c->error ? c->error->reals : NULL, t->data.rows);
        out[j].width = width_of(&out[j], rows);
    }
}

static void put_cell(es_sink *s, const es_book_table *t, const cells *c, int64_t row)
{
    char text[ES_FORMAT_ROOM];
    const bool number = c->column->value->kind == ES_RUN_REAL;
    es_sink_put(s, number ? "<td class=\"n\">" : "<td>");
    if (number)
        es_sink_put(s, number_of(c, row, text, sizeof text));
    else if (strcmp(c->column->value->name, "verdict") == 0)
        es_page_badge(s, &t->data, row);
    else
        es_mathml_text(s, c->column->value->texts[row]);
    es_sink_put(s, "</td>");
}

/* ---- bands ---- */

/* A page that scrolls sideways is not read. A table that is too wide is cut into bands of columns,
 * of which the first is shown and the others are folded; each begins with the columns that name a
 * row. */
enum { BAND = 132, KEYS = 3 };

static int64_t key_columns(const es_book_table *t)
{
    int64_t keys = 1;
    while (
        keys < KEYS && keys < t->shown &&
        (t->columns[keys].format == ES_FORMAT_COUNT || t->columns[keys].format == ES_FORMAT_TEXT))
        keys++;
    return keys < t->shown ? keys : t->shown;
}

/* Where the band that begins with column `from` ends: it has one column of its own at least. */
static int64_t end_of_band(const es_book_table *t, const cells *c, int64_t keys, int64_t from)
{
    int width = 0;
    int64_t end = from;
    for (int64_t j = 0; j < keys && from > 0; j++)
        width += c[j].width;
    while (end < t->shown && (end == from || width + c[end].width <= BAND))
        width += c[end++].width;
    return end;
}

static void put_head(es_sink *s, const cells *c)
{
    es_sink_put(s, c->column->value->kind == ES_RUN_REAL ? "<th scope=\"col\" class=\"n\">"
                                                         : "<th scope=\"col\">");
    es_mathml_text(s, c->column->header);
    if (*c->column->unit) {
        es_sink_put(s, " <span class=\"unit\">");
        es_sink_text(s, c->column->unit);
        es_sink_put(s, "</span>");
    }
    es_sink_put(s, "</th>");
}

static void put_band(es_sink *s, const es_book_table *t, const cells *c, const int64_t from_to[2],
                     int64_t keys, int64_t rows, const char *id)
{
    const int64_t repeated = from_to[0] > 0 ? keys : 0;
    es_sink_format(s,
                   "<div class=\"scroll\" tabindex=\"0\" role=\"group\" "
                   "aria-labelledby=\"%s-title\">\n<table aria-labelledby=\"%s-title\">\n"
                   "<thead><tr>",
                   id, id);
    for (int64_t j = 0; j < repeated; j++)
        put_head(s, &c[j]);
    for (int64_t j = from_to[0]; j < from_to[1]; j++)
        put_head(s, &c[j]);
    es_sink_put(s, "</tr></thead>\n<tbody>\n");
    for (int64_t i = 0; i < rows; i++) {
        es_sink_put(s, "<tr>");
        for (int64_t j = 0; j < repeated; j++)
            put_cell(s, t, &c[j], i);
        for (int64_t j = from_to[0]; j < from_to[1]; j++)
            put_cell(s, t, &c[j], i);
        es_sink_put(s, "</tr>\n");
    }
    es_sink_put(s, "</tbody>\n</table>\n</div>\n");
}

static void put_bands(es_sink *s, const es_book_table *t, const cells *c, int64_t rows,
                      const char *id)
{
    const int64_t keys = key_columns(t);
    int64_t ends[2] = {0, end_of_band(t, c, keys, 0)};
    put_band(s, t, c, ends, keys, rows, id);
    const int64_t more = t->shown - ends[1];
    if (more > 0)
        es_sink_format(s, "<details class=\"more\"><summary>%lld more column%s</summary>\n",
                       (long long)more, more == 1 ? "" : "s");
    while (ends[1] < t->shown) {
        ends[0] = ends[1];
        ends[1] = end_of_band(t, c, keys, ends[0]);
        put_band(s, t, c, ends, keys, rows, id);
    }
    if (more > 0)
        es_sink_put(s, "</details>\n");
}

/* ---- foot ---- */

static void put_definitions(es_sink *s, const es_book_table *t)
{
    bool any = false, errors = false;
    for (int64_t j = 0; j < t->shown; j++) {
        const es_book_column *c = &t->columns[j];
        errors = errors || c->error;
        if (!*c->definition && !*c->standing)
            continue;
        es_sink_put(s, any ? "<div><dt>" : "<dl class=\"definitions\"><div><dt>");
        es_mathml_text(s, c->header);
        es_sink_put(s, "</dt><dd>");
        es_mathml_text(s, c->definition);
        if (*c->standing) {
            es_sink_put(s, *c->definition ? " [" : "[");
            es_sink_text(s, c->standing);
            es_sink_put(s, "]");
        }
        es_sink_put(s, "</dd></div>\n");
        any = true;
    }
    if (errors)
        es_sink_format(s, "%s<div><dt>±</dt><dd>one standard error</dd></div>\n",
                       any ? "" : "<dl class=\"definitions\">");
    if (any || errors)
        es_sink_put(s, "</dl>\n");
}

static int64_t count_missing(const es_book_table *t)
{
    int64_t missing = 0;
    for (int64_t j = 0; j < t->shown; j++)
        for (int64_t i = 0; t->columns[j].value->kind == ES_RUN_REAL && i < t->data.rows; i++)
            missing += !isfinite(t->columns[j].value->reals[i]);
    return missing;
}

static void put_notes(es_sink *s, const es_book_table *t)
{
    const int64_t missing = count_missing(t);
    if (*t->note) {
        es_sink_put(s, "<p class=\"note\">");
        es_mathml_text(s, t->note);
        es_sink_put(s, "</p>\n");
    }
    if (missing > 0)
        es_sink_format(s,
                       "<p class=\"note missing\">%lld value%s no finite number: – stands for NaN "
                       "or for what does not apply. Figures leave such points out.</p>\n",
                       (long long)missing, missing == 1 ? " is" : "s are");
}

/* ---- summary ---- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Finite numbers of a column into `out`, in order of size; their count. */
static int64_t sorted(const es_run_column *c, int64_t rows, double *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        if (isfinite(c->reals[i]))
            out[count++] = c->reals[i];
    qsort(out, (size_t)count, sizeof *out, by_size);
    return count;
}

static void put_quantile(es_sink *s, const es_book_column *c, double value)
{
    char text[ES_FORMAT_ROOM];
    es_sink_format(s, "<td class=\"n\">%s</td>",
                   es_format_number(c->format, value, (double)NAN, text, sizeof text));
}

/* Quantiles are order statistics, so that they are numbers of the table. */
static void put_summary_row(es_sink *s, const es_book_column *c, const double *values,
                            int64_t count)
{
    double mean = 0.0;
    for (int64_t i = 0; i < count; i++)
        mean += (values[i] - mean) / (double)(i + 1);
    es_sink_put(s, "<tr><th scope=\"row\">");
    es_mathml_text(s, c->header);
    es_sink_format(s, "</th><td class=\"n\">%lld</td>", (long long)count);
    for (int q = 0; q <= 4 && count > 0; q++)
        put_quantile(s, c, values[(count - 1) * q / 4]);
    for (int q = 0; q <= 4 && count == 0; q++)
        es_sink_put(s, "<td class=\"n\">–</td>");
    if (count > 0)
        put_quantile(s, c, mean);
    else
        es_sink_put(s, "<td class=\"n\">–</td>");
    es_sink_put(s, "</tr>\n");
}

/* Minimum, quartiles, maximum and mean of each column of numbers that people are shown, over every
 * row: what a table with a million rows says. O(rows log rows) for each. */
static es_status put_summary(es_sink *s, const es_book *book, const es_book_table *t,
                             const char *id, es_error *err)
{
    void *memory;
    ES_TRY(es_mem_array(book->budget, t->data.rows, 1, sizeof(double), "a sorted column", &memory,
                        err));
    es_sink_format(s,
                   "<h4 id=\"%s-summary\">All %lld rows in summary</h4>\n"
                   "<div class=\"scroll\" tabindex=\"0\" role=\"group\" "
                   "aria-labelledby=\"%s-summary\"><table class=\"summary\">\n<thead><tr>"
                   "<th scope=\"col\">column</th><th scope=\"col\" class=\"n\">numbers</th>"
                   "<th scope=\"col\" class=\"n\">least</th><th scope=\"col\" "
                   "class=\"n\">quarter</th><th scope=\"col\" class=\"n\">median</th>",
                   id, (long long)t->data.rows, id);
    es_sink_put(s, "<th scope=\"col\" class=\"n\">three quarters</th><th scope=\"col\" "
                   "class=\"n\">largest</th><th scope=\"col\" class=\"n\">mean</th>"
                   "</tr></thead>\n<tbody>\n");
    for (int64_t j = 0; j < t->shown; j++) {
        const es_book_column *c = &t->columns[j];
        if (c->value->kind == ES_RUN_REAL)
            put_summary_row(s, c, memory, sorted(c->value, t->data.rows, memory));
    }
    es_sink_put(s, "</tbody>\n</table></div>\n");
    es_mem_free(book->budget, memory);
    return ES_OK;
}

/* ---- the table ---- */

/* Rows that are not shown, and where all of them are with every digit. */
static void put_rest(es_sink *s, const es_book *book, const es_book_table *t, int64_t rows)
{
    es_sink_put(s, "<p class=\"note rest\">");
    if (rows < t->data.rows)
        es_sink_format(s, "These are the first %lld of %lld rows. ", (long long)rows,
                       (long long)t->data.rows);
    es_sink_format(s, "All %lld rows and %lld columns with every digit: <code>esscher export ",
                   (long long)t->data.rows, (long long)t->data.cols);
    es_sink_text(s, book->path);
    es_sink_put(s, " --table ");
    es_sink_text(s, t->data.name);
    es_sink_put(s, " --csv</code></p>\n");
}

static void put_summary_line(es_sink *s, const es_book_table *t, const char *id)
{
    es_sink_format(s, "<details class=\"table\" id=\"%s\" data-table=\"", id);
    es_sink_text(s, t->data.name);
    es_sink_format(s, "\">\n<summary><span id=\"%s-title\">", id);
    es_sink_text(s, t->title);
    es_sink_format(s, "</span> <span class=\"count\">%lld row%s, %lld column%s</span></summary>\n",
                   (long long)t->data.rows, t->data.rows == 1 ? "" : "s", (long long)t->shown,
                   t->shown == 1 ? "" : "s");
}

static es_status put_inside(es_sink *s, const es_book *book, const es_book_table *t, const char *id,
                            es_error *err)
{
    const int64_t rows = t->data.rows < ES_BOOK_ROWS ? t->data.rows : ES_BOOK_ROWS;
    void *memory;
    ES_TRY(
        es_mem_array(book->budget, t->shown, 1, sizeof(cells), "columns of a table", &memory, err));
    prepare(t, rows, memory);
    put_bands(s, t, memory, rows, id);
    es_mem_free(book->budget, memory);
    return rows < t->data.rows ? put_summary(s, book, t, id, err) : ES_OK;
}

es_status es_page_table_html(es_sink *s, const es_book *book, const es_book_table *t,
                             const char *id, es_error *err)
{
    put_summary_line(s, t, id);
    es_status status = ES_OK;
    if (t->data.rows == 0)
        es_sink_put(s, "<p class=\"note empty\">This table has no rows.</p>\n");
    else
        status = put_inside(s, book, t, id, err);
    put_definitions(s, t);
    put_notes(s, t);
    if (t->data.rows > 0)
        put_rest(s, book, t, t->data.rows < ES_BOOK_ROWS ? t->data.rows : ES_BOOK_ROWS);
    es_sink_put(s, "</details>\n");
    return status;
}

void es_page_table_pair(es_sink *s, const char *key, const char *text)
{
    es_sink_put(s, "<tr><th scope=\"row\">");
    es_sink_text(s, key);
    es_sink_put(s, "</th><td>");
    es_sink_text(s, *text ? text : "–");
    es_sink_put(s, "</td></tr>\n");
}
