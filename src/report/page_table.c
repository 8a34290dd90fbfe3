/* SPDX-License-Identifier: Apache-2.0 */
/* page_table.c : a view of a table as HTML for people: folded, with its definitions, in bands of
 * columns that fit a page. Which columns, rows, cells and definitions there are is es_sheet's to
 * say, as for every other view. */
#include "report/page_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "base/memory.h"
#include "report/formula.h"
#include "table/lines.h"
#include "table/sheet.h"

/* ---- cells ---- */

/* Writes a verdict and its colour. An assumption that does not hold is no bad news: it is expected
 * to fail. */
void es_page_badge(es_sink *s, const es_table *t, int64_t row)
{
    static const struct {
        const char *verdict, *kind;
    } known[] = {{"consistent", "good"},
                 {"confirmed", "good"},
                 {"contradicted", "bad"},
                 {"not confirmed", "bad"},
                 {"does not hold", "known"}};
    const char *verdict = es_page_run_text(t, "verdict", row), *kind = "open";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(verdict, known[i].verdict) == 0)
            kind = known[i].kind;
    es_sink_format(s, "<span class=\"badge %s\">", kind);
    es_sink_text(s, verdict);
    es_sink_put(s, "</span>");
}

/* Returns true for a column of texts. */
static bool is_text(const es_sheet *t, int64_t j) { return t->columns[j].format == ES_FORMAT_TEXT; }

/* Writes one cell; verdicts are badges. */
static void put_cell(es_sink *s, const es_sheet *t, int64_t i, int64_t j)
{
    es_sink_put(s, is_text(t, j) ? "<td>" : "<td class=\"n\">");
    if (!is_text(t, j))
        es_sink_put(s, es_sheet_cell(t, i, j));
    else if (strcmp(t->columns[j].key, "verdict") == 0)
        es_page_badge(s, t->table, t->rows.at[i]);
    else
        es_formula_html(s, es_answer_marked(t->table->answer, es_sheet_cell(t, i, j)));
    es_sink_put(s, "</td>");
}

/* ---- bands ---- */

/* A page that scrolls sideways is not read. A table that is too wide is cut into bands of columns,
 * of which the first is shown and the others are folded; each begins with the columns that name a
 * row. */
enum { BAND = 132, KEYS = 3 };

/* Heads wrap between words: the longest counts. */
static int longest_word(const char *text)
{
    int most = 0;
    for (const char *at = text; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        const int width = es_lines_width_of(at, length);
        most = width > most ? width : most;
        at += length;
    }
    return most;
}

/* Returns the larger of two numbers. */
static int max_int(int a, int b) { return a > b ? a : b; }

/* Letters of a column as a page shows it: long texts wrap. */
static int width_of(const es_sheet *t, int64_t j)
{
    enum { WRAPPED = 34, PADDING = 2 };
    int width = max_int(longest_word(t->columns[j].title), longest_word(t->units[j]));
    for (int64_t i = 0; i < t->rows.count; i++)
        width = max_int(width, es_lines_width(es_sheet_cell(t, i, j)));
    return (width < WRAPPED ? width : WRAPPED) + PADDING;
}

/* Returns how many leading columns identify rows; they are repeated in every band. */
static int64_t key_columns(const es_sheet *t)
{
    int64_t keys = 1;
    while (keys < KEYS && keys < t->count &&
           (t->columns[keys].format == ES_FORMAT_COUNT || is_text(t, keys)))
        keys++;
    return keys < t->count ? keys : t->count;
}

/* Where the band that begins with column `from` ends: it has one column of its own at least. */
static int64_t end_of_band(const es_sheet *t, int64_t keys, int64_t from)
{
    int width = 0;
    int64_t end = from;
    for (int64_t j = 0; j < keys && from > 0; j++)
        width += width_of(t, j);
    while (end < t->count && (end == from || width + width_of(t, end) <= BAND))
        width += width_of(t, end++);
    return end;
}

/* Writes the head of a column with its unit. */
static void put_head(es_sink *s, const es_sheet *t, int64_t j)
{
    es_sink_put(s, is_text(t, j) ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"n\">");
    es_formula_html(s, t->columns[j].title);
    if (*t->units[j]) {
        es_sink_put(s, " <span class=\"unit\">");
        es_sink_text(s, t->units[j]);
        es_sink_put(s, "</span>");
    }
    es_sink_put(s, "</th>");
}

/* Writes a band of columns as a table of its own, with the key columns repeated. */
static void put_band(es_sink *s, const es_sheet *t, const int64_t from_to[2], int64_t keys,
                     const char *id)
{
    const int64_t repeated = from_to[0] > 0 ? keys : 0;
    es_sink_format(s,
                   "<div class=\"scroll\" tabindex=\"0\" role=\"group\" "
                   "aria-labelledby=\"%s-title\">\n<table aria-labelledby=\"%s-title\">\n"
                   "<thead><tr>",
                   id, id);
    for (int64_t j = 0; j < repeated; j++)
        put_head(s, t, j);
    for (int64_t j = from_to[0]; j < from_to[1]; j++)
        put_head(s, t, j);
    es_sink_put(s, "</tr></thead>\n<tbody>\n");
    for (int64_t i = 0; i < t->rows.count; i++) {
        es_sink_put(s, "<tr>");
        for (int64_t j = 0; j < repeated; j++)
            put_cell(s, t, i, j);
        for (int64_t j = from_to[0]; j < from_to[1]; j++)
            put_cell(s, t, i, j);
        es_sink_put(s, "</tr>\n");
    }
    es_sink_put(s, "</tbody>\n</table>\n</div>\n");
}

/* Writes a wide table in bands; those after the first are folded. */
static void put_bands(es_sink *s, const es_sheet *t, const char *id)
{
    const int64_t keys = key_columns(t);
    int64_t ends[2] = {0, end_of_band(t, keys, 0)};
    put_band(s, t, ends, keys, id);
    const int64_t more = t->count - ends[1];
    if (more > 0)
        es_sink_format(s, "<details class=\"more\"><summary>%lld more column%s</summary>\n",
                       (long long)more, more == 1 ? "" : "s");
    while (ends[1] < t->count) {
        ends[0] = ends[1];
        ends[1] = end_of_band(t, keys, ends[0]);
        put_band(s, t, ends, keys, id);
    }
    if (more > 0)
        es_sink_put(s, "</details>\n");
}

/* ---- foot ---- */

/* Writes the definition of a column and how far to trust it. */
static void put_definition(es_sink *s, const es_column *c)
{
    es_sink_put(s, "<div><dt>");
    es_formula_html(s, c->title);
    es_sink_put(s, "</dt><dd>");
    es_formula_html(s, c->definition ? c->definition : "");
    if (c->standing)
        es_sink_format(s, "%s[%s]", c->definition ? " " : "", es_standing_name(c->standing));
    es_sink_put(s, "</dd></div>\n");
}

/* Writes the definitions of all columns that have one. */
static void put_definitions(es_sink *s, const es_sheet *t)
{
    bool any = es_sheet_has_errors(t);
    for (int64_t j = 0; j < t->count; j++)
        any = any || es_sheet_explained(t, j);
    if (!any)
        return;
    es_sink_put(s, "<dl class=\"definitions\">");
    for (int64_t j = 0; j < t->count; j++)
        if (es_sheet_explained(t, j))
            put_definition(s, es_sheet_explained(t, j));
    if (es_sheet_has_errors(t))
        es_sink_put(s, "<div><dt>±</dt><dd>one standard error</dd></div>\n");
    es_sink_put(s, "</dl>\n");
}

/* Counts the values that are not finite, which figures leave out. */
static int64_t count_missing(const es_sheet *t)
{
    int64_t missing = 0;
    for (int64_t j = 0; j < t->count; j++)
        for (int64_t i = 0; !is_text(t, j) && i < es_table_rows(t->table); i++)
            missing += !isfinite(es_column_real(&t->columns[j], i));
    return missing;
}

/* Writes the notes below a table. */
static void put_notes(es_sink *s, const es_sheet *t)
{
    const int64_t missing = count_missing(t);
    if (t->view->note) {
        es_sink_put(s, "<p class=\"note\">");
        es_formula_html(s, t->view->note);
        es_sink_put(s, "</p>\n");
    }
    if (missing > 0)
        es_sink_format(s,
                       "<p class=\"note missing\">%lld value%s no finite number: – stands for NaN "
                       "or for what does not apply. Figures leave such points out.</p>\n",
                       (long long)missing, missing == 1 ? " is" : "s are");
}

/* ---- summary ---- */

/* Compares two numbers, for qsort(). */
static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Finite numbers of a column into `out`, in order of size; their count. */
static int64_t sorted(const es_table_column *c, int64_t rows, double *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        if (isfinite(es_column_real(c, i)))
            out[count++] = es_column_real(c, i);
    qsort(out, (size_t)count, sizeof *out, by_size);
    return count;
}

/* Writes a quantile, or a dash for a column without numbers. */
static void put_quantile(es_sink *s, es_format format, double value, int64_t count)
{
    char text[ES_FORMAT_SIZE];
    es_sink_format(s, "<td class=\"n\">%s</td>",
                   count ? es_format_number(format, value, (double)NAN, text, sizeof text) : "–");
}

/* Quantiles are order statistics, so that they are numbers of the table. */
static void put_summary_row(es_sink *s, const es_table_column *c, const double *values,
                            int64_t count)
{
    double mean = 0.0;
    for (int64_t i = 0; i < count; i++)
        mean += (values[i] - mean) / (double)(i + 1);
    es_sink_put(s, "<tr><th scope=\"row\">");
    es_formula_html(s, c->title);
    es_sink_format(s, "</th><td class=\"n\">%lld</td>", (long long)count);
    for (int q = 0; q <= 4; q++)
        put_quantile(s, c->format, count ? values[(count - 1) * q / 4] : 0.0, count);
    put_quantile(s, c->format, mean, count);
    es_sink_put(s, "</tr>\n");
}

/* Minimum, quartiles, maximum and mean of each column of numbers that people are shown, over every
 * row: what a table with a million rows says. O(rows log rows) for each. */
static es_status put_summary(es_sink *s, es_mem_limit *budget, const es_sheet *t, const char *id,
                             es_error *err)
{
    const int64_t rows = es_table_rows(t->table);
    double *numbers;
    ES_TRY(ES_MEM_NEW(budget, numbers, rows, "a sorted column", err));
    es_sink_format(s,
                   "<h4 id=\"%s-summary\">All %lld rows in summary</h4>\n"
                   "<div class=\"scroll\" tabindex=\"0\" role=\"group\" "
                   "aria-labelledby=\"%s-summary\"><table class=\"summary\">\n<thead><tr>"
                   "<th scope=\"col\">column</th><th scope=\"col\" class=\"n\">numbers</th>"
                   "<th scope=\"col\" class=\"n\">least</th><th scope=\"col\" "
                   "class=\"n\">quarter</th><th scope=\"col\" class=\"n\">median</th>",
                   id, (long long)rows, id);
    es_sink_put(s, "<th scope=\"col\" class=\"n\">three quarters</th><th scope=\"col\" "
                   "class=\"n\">largest</th><th scope=\"col\" class=\"n\">mean</th>"
                   "</tr></thead>\n<tbody>\n");
    for (int64_t j = 0; j < t->count; j++)
        if (!is_text(t, j))
            put_summary_row(s, &t->columns[j], numbers, sorted(&t->columns[j], rows, numbers));
    es_sink_put(s, "</tbody>\n</table></div>\n");
    es_mem_free(budget, numbers);
    return ES_OK;
}

/* ---- the table ---- */

/* Rows that are not shown, and where all of them are with every digit. */
static void put_rest(es_sink *s, const es_page_run *page_run, const es_sheet *t)
{
    const long long rows = (long long)es_table_rows(t->table);
    es_sink_put(s, "<p class=\"note rest\">");
    if (t->rows_left > 0)
        es_sink_format(s, "These are the first %lld of %lld rows. ", (long long)t->rows.count,
                       rows);
    const long long columns = es_table_columns(t->table);
    es_sink_format(s, "Every digit of %s%lld row%s and %lld column%s: <code>esscher export ",
                   rows > 1 ? "all " : "", rows, rows == 1 ? "" : "s", columns,
                   columns == 1 ? "" : "s");
    es_sink_text(s, page_run->path);
    es_sink_put(s, " --table ");
    es_sink_text(s, es_table_about(t->table)->key);
    es_sink_put(s, " --csv</code></p>\n");
}

/* Writes the line that opens a folded table. */
static void put_summary_line(es_sink *s, const es_sheet *t, const char *id)
{
    const long long rows = (long long)es_table_rows(t->table);
    es_sink_format(s, "<details class=\"table\" id=\"%s\" data-table=\"", id);
    es_sink_text(s, es_table_about(t->table)->key);
    es_sink_format(s, "\">\n<summary><span id=\"%s-title\">", id);
    es_sink_text(s, t->view->title);
    es_sink_format(s, "</span> <span class=\"count\">%lld row%s, %lld column%s</span></summary>\n",
                   rows, rows == 1 ? "" : "s", (long long)t->count, t->count == 1 ? "" : "s");
}

/* Writes a table: rows in bands, a summary of rows that are left out, definitions and notes. */
static es_status put_sheet(es_sink *s, const es_page_run *page_run, const es_sheet *t,
                           const char *id, es_error *err)
{
    put_summary_line(s, t, id);
    if (t->rows.count == 0)
        es_sink_put(s, "<p class=\"note empty\">This table has no rows.</p>\n");
    else
        put_bands(s, t, id);
    if (t->rows_left > 0)
        ES_TRY(put_summary(s, page_run->budget, t, id, err));
    put_definitions(s, t);
    put_notes(s, t);
    if (t->rows.count > 0)
        put_rest(s, page_run, t);
    es_sink_put(s, "</details>\n");
    return ES_OK;
}

es_status es_page_table_html(es_sink *s, const es_page_run *page_run, const es_page_run_view *v,
                             const char *id, es_error *err)
{
    const es_answer_opts opts = {.most_rows = ES_PAGE_RUN_ROWS};
    es_sheet sheet = {.table = v->table,
                      .view = &v->view,
                      .opts = &opts,
                      .page = true,
                      .arena = {.budget = page_run->budget}};
    es_status status = es_sheet_make(&sheet, err);
    if (status == ES_OK)
        status = put_sheet(s, page_run, &sheet, id, err);
    es_sheet_free(&sheet);
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
