/* SPDX-License-Identifier: Apache-2.0 */
/* page_claims.c : claims as a table to be read, in their groups: statement, prediction,
 * measurement, slack, verdict; and which texts of the papers were available. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "report/formula.h"
#include "report/page_table.h"
#include "table/answer.h"

bool es_page_claims_fit(const es_table *t)
{
    return es_page_run_has(t, "verdict") && es_page_run_has(t, "statement") &&
           es_page_run_has(t, "conclusion");
}

/* ---- numbers ---- */

/* Writes a number with its error, or a dash if there is none. */
static void put_measure(es_sink *s, const char *label, double value, double error)
{
    char text[ES_FORMAT_SIZE];
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
    char text[ES_FORMAT_SIZE];
    const char *sign = strcmp(relation, ">=") == 0   ? "≥ "
                       : strcmp(relation, "<=") == 0 ? "≤ "
                       : strcmp(relation, "~") == 0  ? "≈ "
                                                     : "= ";
    es_sink_put(s, "<td class=\"n\" role=\"cell\" data-label=\"predicted\">");
    es_sink_put(s, isfinite(predicted) ? sign : "–");
    if (isfinite(predicted))
        es_sink_put(s,
                    es_format_number(ES_FORMAT_SHORT, predicted, (double)NAN, text, sizeof text));
    es_sink_put(s, "</td>");
}

/* ---- sentences ---- */

/* A conclusion begins with the comparison that decides, "Confirmed in 3 of 3 comparisons; closest
 * to failing: ... (0.3 standard errors inside). ", whose numbers stand beside it; what follows is
 * the conclusion. */
static const char *after_comparison(const char *conclusion)
{
    const char *end = strstr(conclusion, "comparison") ? strstr(conclusion, "). ") : NULL;
    return end && end[3] ? end + 3 : conclusion;
}

/* Writes a labelled sentence, if there is one. */
static void put_line(es_sink *s, const es_table *t, const char *name, const char *text)
{
    if (!*text)
        return;
    es_sink_format(s, "<p><span class=\"quiet\">%s</span> ", name);
    es_formula_html(s, es_answer_marked(t->answer, text));
    es_sink_put(s, "</p>");
}

/* Writes the statement of a claim and, folded, what was compared, its source and its limits. */
static void put_sentences(es_sink *s, const es_table *t, int64_t row)
{
    char comparison[1024];
    const char *whole = es_page_run_text(t, "conclusion", row), *last = after_comparison(whole);
    snprintf(comparison, sizeof comparison, "%.*s", (int)(last - whole), whole);
    es_sink_put(s, "<p class=\"statement\">");
    es_formula_html(s, es_answer_marked(t->answer, es_page_run_text(t, "statement", row)));
    es_sink_put(s, "</p><details><summary>");
    es_formula_html(s, last);
    es_sink_put(s, "</summary>");
    put_line(s, t, "Nearest to refuting it:", comparison);
    put_line(s, t, "Source:", es_page_run_text(t, "source", row));
    put_line(s, t, "What this check cannot tell:", es_page_run_text(t, "limits", row));
    es_sink_put(s, "</details>");
}

/* "run-1-claim-ball-rate", if the name is one that may stand there. */
static void put_id(es_sink *s, const char *name, long long number, int64_t row)
{
    if (*name && strlen(name) < 64 &&
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name))
        es_sink_format(s, "run-%lld-claim-%s", number, name);
    else
        es_sink_format(s, "run-%lld-claim-%lld", number, (long long)row + 1);
}

/* Writes the row of one claim. */
static void put_claim(es_sink *s, const es_table *t, long long number, int64_t row)
{
    es_sink_put(s, "<tr role=\"row\" id=\"");
    put_id(s, es_page_run_text(t, "id", row), number, row);
    es_sink_put(s, "\"><td role=\"cell\" data-label=\"verdict\">");
    es_page_badge(s, t, row);
    es_sink_put(s, "</td><td role=\"cell\" class=\"said\">");
    put_sentences(s, t, row);
    es_sink_put(s, "</td>");
    put_relation(s, es_page_run_text(t, "relation", row), es_page_run_real(t, "predicted", row));
    put_measure(s, "measured", es_page_run_real(t, "measured", row),
                es_page_run_real(t, "measured_se", row));
    put_measure(s, "slack", es_page_run_real(t, "slack", row), (double)NAN);
    put_measure(s, "in se", es_page_run_real(t, "slack_se", row), (double)NAN);
    es_sink_put(s, "</tr>\n");
}

/* ---- groups ---- */

/* "14 consistent, 1 undecided": verdicts of rows from .. to - 1. */
static void put_tally(es_sink *s, const es_table *t, int64_t from, int64_t to)
{
    const char *comma = "";
    for (int64_t i = from; i < to; i++) {
        const char *verdict = es_page_run_text(t, "verdict", i);
        long long count = 0;
        for (int64_t j = from; j < to; j++)
            if (strcmp(es_page_run_text(t, "verdict", j), verdict) == 0) {
                if (j < i)
                    break; /* counted at its first row */
                count++;
            }
        if (!count)
            continue;
        es_sink_format(s, "%s%lld ", comma, count);
        es_sink_text(s, verdict);
        comma = ", ";
    }
}

/* The heading of a group, if one begins with row `from`. */
static void put_group(es_sink *s, const es_table *t, int64_t from)
{
    const char *group = es_page_run_text(t, "group", from);
    int64_t to = from;
    if (!*group || (from && strcmp(es_page_run_text(t, "group", from - 1), group) == 0))
        return;
    while (to < es_table_rows(t) && strcmp(es_page_run_text(t, "group", to), group) == 0)
        to++;
    es_sink_put(s, "<tr role=\"row\" class=\"group\"><th scope=\"rowgroup\" role=\"rowheader\" "
                   "colspan=\"6\">");
    es_sink_text(s, group);
    es_sink_put(s, ": <span class=\"quiet\">");
    put_tally(s, t, from, to);
    es_sink_put(s, "</span></th></tr>\n");
}

/* ---- papers ---- */

/* Writes the list of papers that claims are taken from. */
static void put_papers(es_sink *s, const es_page_run *page_run)
{
    for (int64_t i = 0; i < page_run->count; i++) {
        const es_table *t = page_run->views[i].table;
        if (!page_run->views[i].first || !es_page_run_has(t, "arxiv"))
            continue;
        es_sink_put(s, "<div class=\"note papers\"><p>Texts of the papers that were available: "
                       "statements are taken from these, in our words.</p>\n<ul>\n");
        for (int64_t row = 0; row < es_table_rows(t) && row < ES_PAGE_RUN_ROWS; row++) {
            es_sink_put(s, "<li>");
            es_sink_text(s, es_page_run_text(t, "title", row));
            es_sink_put(s, " (arXiv ");
            es_sink_text(s, es_page_run_text(t, "arxiv", row));
            es_sink_put(s, "): ");
            es_sink_text(s, es_page_run_text(t, "text", row));
            es_sink_put(s, "</li>\n");
        }
        es_sink_put(s, "</ul></div>\n");
    }
}

void es_page_claims_html(es_sink *s, const es_page_run *page_run, const es_table *t,
                         long long number, const char *id)
{
    static const char *const heads[] = {"predicted", "measured", "slack", "in se"};
    es_sink_format(s,
                   "<div class=\"claims\" id=\"%s\" data-table=\"claims\">\n<h3 "
                   "id=\"%s-title\">What was said, and what was found</h3>\n<table "
                   "class=\"verdicts\" role=\"table\" aria-labelledby=\"%s-title\">\n",
                   id, id, id);
    es_sink_put(s, "<thead role=\"rowgroup\"><tr role=\"row\">"
                   "<th scope=\"col\" role=\"columnheader\">verdict</th>"
                   "<th scope=\"col\" role=\"columnheader\">statement and conclusion</th>");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        es_sink_format(s, "<th scope=\"col\" role=\"columnheader\" class=\"n\">%s</th>", heads[i]);
    es_sink_put(s, "</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for (int64_t i = 0; i < es_table_rows(t) && i < ES_PAGE_RUN_ROWS; i++) {
        put_group(s, t, i);
        put_claim(s, t, number, i);
    }
    es_sink_put(s, "</tbody>\n</table>\n<p class=\"note\">Numbers are those of the piece of "
                   "evidence that is nearest to refuting the claim, ± one standard error. Slack is "
                   "how far it is inside what is claimed, in units of the prediction and in "
                   "standard errors; below 0 it is outside. All pieces of a claim together "
                   "refuse it wrongly with a probability of at most 0.2 %; it is undecided "
                   "where errors are too large to tell. Readings and habits are in no text of the "
                   "papers that was available; they are expected to fail.</p>\n");
    put_papers(s, page_run);
    es_sink_put(s, "</div>\n");
}
