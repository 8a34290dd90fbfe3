#include "report/table.h"

#include <math.h>
#include <string.h>

#include "report/verdicts.h"

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
        es_verdict_badge(s, &t->data, row);
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
        if (!*c->definition)
            continue;
        es_sink_put(s, any ? "<div><dt>" : "<dl class=\"definitions\"><div><dt>");
        es_sink_text(s, c->header);
        es_sink_put(s, "</dt><dd>");
        es_sink_text(s, c->definition);
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

es_status es_table_html(es_sink *s, const es_book *book, const es_book_table *t, const char *id,
                        es_error *err)
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
        status = es_table_summary(s, book, t, id, err);
    }
    es_sink_put(s, "</div>\n");
    return status;
}

/* ---- JSON ---- */

void es_table_json(es_sink *s, const es_run_table *t, const char *id, int64_t most)
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

void es_table_pair(es_sink *s, const char *key, const char *text)
{
    es_sink_put(s, "<tr><th scope=\"row\">");
    es_sink_text(s, key);
    es_sink_put(s, "</th><td>");
    es_sink_text(s, *text ? text : "–");
    es_sink_put(s, "</td></tr>\n");
}
