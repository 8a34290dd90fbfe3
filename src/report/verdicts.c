#include "report/verdicts.h"

#include <math.h>
#include <string.h>

bool es_verdicts_fit(const es_book_table *t)
{
    return es_book_column_of(&t->data, "verdict") && es_book_column_of(&t->data, "statement") &&
           es_book_column_of(&t->data, "conclusion");
}

void es_verdict_badge(es_sink *s, const es_run_table *t, int64_t row)
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

static void put_text(es_sink *s, const char *tag, const char *text)
{
    es_sink_format(s, "<p class=\"%s\">", tag);
    es_sink_text(s, text);
    es_sink_put(s, "</p>");
}

static void put_number(es_sink *s, const char *label, double value, double error)
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

static void put_claim(es_sink *s, const es_run_table *t, int64_t row)
{
    es_sink_put(s, "<tr role=\"row\"><td role=\"cell\" data-label=\"verdict\">");
    es_verdict_badge(s, t, row);
    es_sink_put(s, "</td><td role=\"cell\" class=\"said\">");
    put_text(s, "statement", es_book_text(t, "statement", row));
    put_text(s, "conclusion", es_book_text(t, "conclusion", row));
    put_text(s, "quiet", es_book_text(t, "source", row));
    es_sink_put(s, "</td>");
    put_number(s, "predicted", es_book_real(t, "predicted", row), (double)NAN);
    put_number(s, "measured", es_book_real(t, "measured", row),
               es_book_real(t, "measured_se", row));
    es_sink_put(s, "</tr>\n");
}

void es_verdicts_html(es_sink *s, const es_book_table *t, const char *id)
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
                   "</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for (int64_t i = 0; i < t->data.rows && i < ES_BOOK_ROWS; i++)
        put_claim(s, &t->data, i);
    es_sink_put(s, "</tbody>\n</table>\n<p class=\"note\">Numbers are those of the piece of "
                   "evidence that decides, ± one standard error. A claim does not hold where a "
                   "piece of evidence is off by more than 4 standard errors; it is not decided "
                   "where they are too large to tell.</p>\n</div>\n");
}
