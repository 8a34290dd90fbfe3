/* page_table.c : a table of a run as HTML for people and as JSON for the figures. Claims have a
 * layout of their own; a table that is too long shows some of its rows and a summary of all. */
#include "report/page_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* ---- claims ---- */

bool es_page_claims_fit(const es_book_table *t)
{
    return es_book_column_of(&t->data, "verdict") && es_book_column_of(&t->data, "statement") &&
           es_book_column_of(&t->data, "conclusion");
}

/* Words first, colour second. What does not hold is bad news only where it was expected to. */
static void put_badge(es_sink *s, const es_run_table *t, int64_t row)
{
    const char *verdict = es_book_text(t, "verdict", row), *kind = "open";
    if (strcmp(verdict, "holds") == 0)
        kind = "good";
    else if (strcmp(verdict, "does not hold") == 0)
        kind = strcmp(es_book_text(t, "expected", row), verdict) == 0 ? "known" : "bad";
    es_sink_format(s, "<span class=\"badge %s\">", kind);
    es_sink_text(s, verdict);
    es_sink_put(s, "</span>");
    if (strcmp(kind, "known") == 0)
        es_sink_put(s, "<br><span class=\"quiet\">as we expect</span>");
}

static void put_paragraph(es_sink *s, const char *tag, const char *text)
{
    es_sink_format(s, "<p class=\"%s\">", tag);
    es_sink_text(s, text);
    es_sink_put(s, "</p>");
}

static void put_measure(es_sink *s, const char *label, double value, double error)
{
    char text[ES_FORMAT_ROOM];
    es_sink_format(s, "<td class=\"n\" role=\"cell\" data-label=\"%s\">", label);
    if (isfinite(value))
        es_sink_put(s, es_format_number(isfinite(error) ? ES_FORMAT_REAL : ES_FORMAT_SHORT, value,
                                        error, text, sizeof text));
    else
        es_sink_put(s, "–");
    es_sink_put(s, "</td>");
}

/* "≥ 0.25" */
static void put_relation(es_sink *s, const char *relation, double predicted)
{
    char text[ES_FORMAT_ROOM];
    const char *sign = strcmp(relation, ">=") == 0   ? "≥ "
                       : strcmp(relation, "<=") == 0 ? "≤ "
                       : strcmp(relation, "~") == 0  ? "≈ "
                                                     : "";
    es_sink_put(s, "<td class=\"n\" role=\"cell\" data-label=\"predicted\">");
    es_sink_put(s, isfinite(predicted) ? sign : "–");
    if (isfinite(predicted))
        es_sink_put(s,
                    es_format_number(ES_FORMAT_SHORT, predicted, (double)NAN, text, sizeof text));
    es_sink_put(s, "</td>");
}

static void put_claim(es_sink *s, const es_run_table *t, int64_t row)
{
    es_sink_put(s, "<tr role=\"row\"><td role=\"cell\" data-label=\"verdict\">");
    put_badge(s, t, row);
    es_sink_put(s, "</td><td role=\"cell\" class=\"said\">");
    put_paragraph(s, "statement", es_book_text(t, "statement", row));
    put_paragraph(s, "conclusion", es_book_text(t, "conclusion", row));
    put_paragraph(s, "quiet", es_book_text(t, "source", row));
    if (*es_book_text(t, "limits", row))
        put_paragraph(s, "quiet", es_book_text(t, "limits", row));
    es_sink_put(s, "</td>");
    put_relation(s, es_book_text(t, "relation", row), es_book_real(t, "predicted", row));
    put_measure(s, "measured", es_book_real(t, "measured", row),
                es_book_real(t, "measured_se", row));
    put_measure(s, "slack", es_book_real(t, "slack", row), (double)NAN);
    put_measure(s, "slack in standard errors", es_book_real(t, "slack_se", row), (double)NAN);
    put_measure(s, "tries", es_book_real(t, "tries", row), (double)NAN);
    es_sink_put(s, "</tr>\n");
}

void es_page_claims_html(es_sink *s, const es_book_table *t, const char *id)
{
    es_sink_format(s,
                   "<div class=\"table\" id=\"%s\">\n<h3 id=\"%s-title\">What was said, and what "
                   "was found</h3>\n<table class=\"prose verdicts\" role=\"table\" "
                   "aria-labelledby=\"%s-title\">\n",
                   id, id, id);
    es_sink_put(s, "<thead role=\"rowgroup\"><tr role=\"row\">"
                   "<th scope=\"col\" role=\"columnheader\">verdict</th>"
                   "<th scope=\"col\" role=\"columnheader\">statement, conclusion and source</th>"
                   "<th scope=\"col\" role=\"columnheader\" class=\"n\">predicted</th>"
                   "<th scope=\"col\" role=\"columnheader\" class=\"n\">measured</th>"
                   "<th scope=\"col\" role=\"columnheader\" class=\"n\">slack</th>"
                   "<th scope=\"col\" role=\"columnheader\" class=\"n\">in se</th>"
                   "<th scope=\"col\" role=\"columnheader\" class=\"n\">tries</th>"
                   "</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for (int64_t i = 0; i < t->data.rows && i < ES_BOOK_ROWS; i++)
        put_claim(s, &t->data, i);
    es_sink_put(s, "</tbody>\n</table>\n<p class=\"note\">Numbers are those of the piece of "
                   "evidence that is nearest to refuting the claim, ± one standard error. Slack is "
                   "how far it is inside what is claimed, in units of the prediction and in "
                   "standard errors; below 0 it is outside. All pieces of a claim together "
                   "refuse it wrongly with a probability of at most 0.2 %; it is not decided "
                   "where errors are too large to tell.</p>\n</div>\n");
}

/* ---- cells ---- */

static void number_cell(es_sink *s, const es_book_column *c, int64_t row)
{
    char text[ES_FORMAT_ROOM];
    const double value = c->value->reals[row];
    const double error = c->error ? c->error->reals[row] : (double)NAN;
    if (isnan(value))
        es_sink_put(s, "–");
    else if (isinf(value))
        es_sink_put(s, value > 0.0 ? "∞" : "−∞");
    else
        es_sink_put(s, es_format_number(c->format, value, error, text, sizeof text));
}

static void put_cell(es_sink *s, const es_book_table *t, int64_t column, int64_t row, bool prose)
{
    const es_book_column *c = &t->columns[column];
    const bool number = c->value->kind == ES_RUN_REAL;
    es_sink_put(s, number ? "<td class=\"n\"" : "<td");
    if (prose) { /* on a narrow screen each row becomes a card, whose lines need names */
        es_sink_put(s, " role=\"cell\" data-label=\"");
        es_sink_text(s, c->header);
        es_sink_put(s, "\"");
    }
    es_sink_put(s, ">");
    if (number)
        number_cell(s, c, row);
    else if (strcmp(c->value->name, "verdict") == 0)
        put_badge(s, &t->data, row);
    else
        es_sink_text(s, c->value->texts[row]);
    es_sink_put(s, "</td>");
}

/* ---- head and foot ---- */

static void put_head(es_sink *s, const es_book_table *t, bool prose)
{
    es_sink_put(s, prose ? "<thead role=\"rowgroup\"><tr role=\"row\">" : "<thead><tr>");
    for (int64_t j = 0; j < t->shown; j++) {
        const es_book_column *c = &t->columns[j];
        es_sink_put(s, prose ? "<th scope=\"col\" role=\"columnheader\"" : "<th scope=\"col\"");
        es_sink_put(s, c->value->kind == ES_RUN_REAL ? " class=\"n\">" : ">");
        es_sink_text(s, c->header);
        if (*c->unit) {
            es_sink_put(s, " <span class=\"unit\">");
            es_sink_text(s, c->unit);
            es_sink_put(s, "</span>");
        }
        es_sink_put(s, "</th>");
    }
    es_sink_put(s, "</tr></thead>\n");
}

static void put_definitions(es_sink *s, const es_book_table *t)
{
    bool any = false, errors = false;
    for (int64_t j = 0; j < t->shown; j++) {
        const es_book_column *c = &t->columns[j];
        errors = errors || c->error;
        if (!*c->definition && !*c->standing)
            continue;
        es_sink_put(s, any ? "<div><dt>" : "<dl class=\"definitions\"><div><dt>");
        es_sink_text(s, c->header);
        es_sink_put(s, "</dt><dd>");
        es_sink_text(s, c->definition);
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
        es_sink_text(s, t->note);
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
    es_sink_text(s, c->header);
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

/* Sentences need another layout than numbers. */
static bool is_prose(const es_book_table *t)
{
    enum { SENTENCE = 40 };
    for (int64_t j = 0; j < t->shown; j++)
        for (int64_t i = 0; t->columns[j].value->kind == ES_RUN_TEXT && i < t->data.rows; i++)
            if (strlen(t->columns[j].value->texts[i]) > SENTENCE)
                return true;
    return false;
}

static void put_body(es_sink *s, const es_book_table *t, const es_book_pick *pick, bool prose)
{
    es_sink_put(s, prose ? "<tbody role=\"rowgroup\">\n" : "<tbody>\n");
    for (int64_t i = 0; i < pick->count; i++) {
        es_sink_put(s, prose ? "<tr role=\"row\">" : "<tr>");
        for (int64_t j = 0; j < t->shown; j++)
            put_cell(s, t, j, es_book_row(pick, i), prose);
        es_sink_put(s, "</tr>\n");
    }
    es_sink_put(s, "</tbody>\n");
}

static void put_thinned(es_sink *s, const es_book *book, const es_book_table *t,
                        const es_book_pick *pick)
{
    es_sink_format(s,
                   "<p class=\"note thinned\">The table has %lld rows. Here are %lld of them, one "
                   "in %lld; the summary below is over all. Every row: <code>esscher export ",
                   (long long)t->data.rows, (long long)pick->count, (long long)pick->stride);
    es_sink_text(s, book->path);
    es_sink_put(s, " --table ");
    es_sink_text(s, t->data.name);
    es_sink_put(s, " --csv</code></p>\n");
}

es_status es_page_table_html(es_sink *s, const es_book *book, const es_book_table *t,
                             const char *id, es_error *err)
{
    const bool prose = is_prose(t);
    const es_book_pick pick = es_book_pick_rows(t->data.rows, ES_BOOK_ROWS);
    es_sink_format(s, "<div class=\"table\" id=\"%s\">\n<h3 id=\"%s-title\">", id, id);
    es_sink_text(s, t->title);
    es_sink_put(s, "</h3>\n");
    if (t->data.rows == 0)
        es_sink_put(s, "<p class=\"note empty\">This table has no rows.</p>\n");
    else
        es_sink_format(s,
                       "<div class=\"scroll\" tabindex=\"0\" role=\"group\" "
                       "aria-labelledby=\"%s-title\">\n<table%s aria-labelledby=\"%s-title\">\n",
                       id, prose ? " class=\"prose\" role=\"table\"" : "", id);
    if (t->data.rows > 0) {
        put_head(s, t, prose);
        put_body(s, t, &pick, prose);
        es_sink_put(s, "</table>\n</div>\n");
    }
    put_definitions(s, t);
    put_notes(s, t);
    es_status status = ES_OK;
    if (pick.stride > 1) {
        put_thinned(s, book, t, &pick);
        status = put_summary(s, book, t, id, err);
    }
    es_sink_put(s, "</div>\n");
    return status;
}

/* ---- JSON ---- */

void es_page_table_json(es_sink *s, const es_run_table *t, const char *id, int64_t most)
{
    const es_book_pick pick = es_book_pick_rows(t->rows, most);
    es_sink_format(s, "{\"id\":\"%s\",\"rows\":%lld,\"shown\":%lld,\"columns\":{", id,
                   (long long)t->rows, (long long)pick.count);
    for (int64_t j = 0; j < t->cols; j++) {
        const es_run_column *c = &t->columns[j];
        es_sink_put(s, j ? ",\n" : "");
        es_sink_json_text(s, c->name);
        es_sink_put(s, ":[");
        for (int64_t i = 0; i < pick.count; i++) {
            const int64_t row = es_book_row(&pick, i);
            es_sink_put(s, i ? "," : "");
            if (c->kind == ES_RUN_REAL)
                es_sink_json_real(s, c->reals[row]);
            else
                es_sink_json_text(s, c->texts[row]);
        }
        es_sink_put(s, "]");
    }
    es_sink_put(s, "}}");
}

void es_page_table_pair(es_sink *s, const char *key, const char *text)
{
    es_sink_put(s, "<tr><th scope=\"row\">");
    es_sink_text(s, key);
    es_sink_put(s, "</th><td>");
    es_sink_text(s, *text ? text : "–");
    es_sink_put(s, "</td></tr>\n");
}
