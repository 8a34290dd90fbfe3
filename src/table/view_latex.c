/* SPDX-License-Identifier: Apache-2.0 */
/* view_latex.c : an answer for a paper: findings as comments, tables with booktabs' rules. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "table/lines.h"
#include "table/sheet.h"

/* ---- text ---- */

/* Characters that are commands in LaTeX, or missing from its fonts, and their replacements. */
static const struct {
    const char *plain, *latex;
} letters[] = {{"\\", "\\textbackslash{}"},
               {"{", "\\{"},
               {"}", "\\}"},
               {"$", "\\$"},
               {"&", "\\&"},
               {"#", "\\#"},
               {"%", "\\%"},
               {"_", "\\_"},
               {"~", "$\\sim$"},
               {"^", "\\textasciicircum{}"},
               {"<", "$<$"},
               {">", "$>$"},
               {"|", "$|$"},
               {"±", "$\\pm$"},
               {"−", "$-$"},
               {"–", "--"},
               {"≤", "$\\le$"},
               {"≥", "$\\ge$"},
               {"≈", "$\\approx$"},
               {"∞", "$\\infty$"},
               {"×", "$\\times$"},
               {"√", "$\\surd$"},
               {"²", "$^2$"},
               {"½", "$\\frac12$"}};

/* Writes a text with the characters that LaTeX would misread replaced. */
static void put_text(es_pen *pen, const char *text)
{
    while (*text) {
        size_t length = 0;
        for (size_t i = 0; i < sizeof letters / sizeof letters[0] && !length; i++)
            if (strncmp(text, letters[i].plain, strlen(letters[i].plain)) == 0) {
                es_pen_put(pen, letters[i].latex);
                length = strlen(letters[i].plain);
            }
        if (!length) {
            es_pen_char(pen, *text);
            length = 1;
        }
        text += length;
    }
}

/* What follows the `e` of a number: "-09" as a power of ten. Returns where it ends. */
static const char *put_power(es_pen *pen, const char *p)
{
    es_pen_put(pen, " \\times 10^{");
    es_pen_put(pen, *p == '-' ? "-" : "");
    p += *p == '-' || *p == '+';
    while (*p == '0' && p[1] >= '0' && p[1] <= '9')
        p++;
    for (; *p >= '0' && *p <= '9'; p++)
        es_pen_char(pen, *p);
    es_pen_put(pen, "}");
    return p;
}

/* Writes "(3.36 ± 0.12)e-09" as $(3.36 \pm 0.12) \times 10^{-9}$; text that is no number as text.
 */
static void put_number(es_pen *pen, const char *text)
{
    static const char signs[] = "0123456789.()-+e ";
    for (const char *p = text; *p; p++)
        if (!strchr(signs, *p) && strncmp(p, "±", strlen("±")) != 0 &&
            ((unsigned char)*p & 0xc0) != 0x80) {
            put_text(pen, text);
            return;
        }
    if (!strpbrk(text, "0123456789")) { /* "-": there is none */
        put_text(pen, "–");
        return;
    }
    es_pen_put(pen, "$");
    for (const char *p = text; *p; p++) {
        if (strncmp(p, "±", strlen("±")) == 0) {
            es_pen_put(pen, "\\pm");
            p += strlen("±") - 1;
        } else if (*p == 'e') {
            p = put_power(pen, p + 1) - 1;
        } else {
            es_pen_char(pen, *p);
        }
    }
    es_pen_put(pen, "$");
}

/* ---- a table ---- */

/* Writes caption, columns and titles of a table. */
static void put_head(es_pen *pen, const es_sheet *s)
{
    es_pen_put(pen, "\\begin{table}\n\\centering\n\\caption{");
    put_text(pen, s->title);
    es_pen_put(pen, "}\n\\begin{tabular}{");
    for (int64_t j = 0; j < s->count; j++)
        es_pen_put(pen, s->columns[j].format == ES_FORMAT_TEXT ? "l" : "r");
    es_pen_put(pen, "}\n\\toprule\n");
    for (int64_t j = 0; j < s->count; j++) {
        const char *unit = s->units[j];
        es_pen_put(pen, j ? " & " : "");
        put_text(pen, s->columns[j].title);
        es_pen_put(pen, *unit ? " (" : "");
        put_text(pen, unit);
        es_pen_put(pen, *unit ? ")" : "");
    }
    es_pen_put(pen, " \\\\\n\\midrule\n");
}

/* Writes all rows. */
static void put_rows(es_pen *pen, const es_sheet *s)
{
    for (int64_t i = 0; i < s->rows.count; i++) {
        for (int64_t j = 0; j < s->count; j++) {
            const char *cell = es_sheet_cell(s, i, j);
            /* after the line before, [ and * would be arguments of its end */
            es_pen_put(pen, j ? " & " : *cell == '[' || *cell == '*' ? "{}" : "");
            if (s->columns[j].format == ES_FORMAT_TEXT)
                put_text(pen, cell);
            else
                put_number(pen, cell);
        }
        es_pen_put(pen, " \\\\\n");
    }
    es_pen_put(pen, "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

/* A comment ends with its line: no text has one inside, nor what a terminal would obey. */
static void put_comment(es_pen *pen, const char *text)
{
    for (; *text; text++)
        es_pen_char(pen, (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text);
}

/* Formulas lose their marks: who writes the caption sets them. */
static void put_definition(es_pen *pen, const char *text)
{
    const size_t size = strlen(text) + 1;
    char small[1024], *copy = size <= sizeof small ? small : malloc(size);
    if (copy)
        put_comment(pen, es_lines_unmarked(memcpy(copy, text, size)));
    if (copy != small)
        free(copy);
}

/* Writes the definitions of the columns as comments, for the caption. */
static void put_foot(es_pen *pen, const es_sheet *s)
{
    for (int64_t j = 0; j < s->count; j++) {
        const es_column *c = es_sheet_explained(s, j);
        if (!c)
            continue;
        es_pen_put(pen, "% ");
        put_comment(pen, c->title);
        es_pen_put(pen, ": ");
        put_definition(pen, c->definition ? c->definition : "");
        es_pen_format(pen, c->standing ? " [%s]\n" : "%s\n", es_standing_name(c->standing));
    }
    es_pen_put(pen, es_sheet_has_errors(s)
                        ? "% after the sign of plus or minus: one standard error\n"
                        : "");
}

/* Writes one view of a table. */
static es_status put_view(es_pen *pen, const es_table *t, const es_table_view *view,
                          const es_answer_opts *opts, es_error *err)
{
    es_sheet s = {.table = t, .view = view, .opts = opts, .markdown = true};
    const es_status status = es_sheet_make(&s, err);
    if (status == ES_OK && s.count > 0 && s.rows.count > 0) {
        es_pen_put(pen, "\n");
        put_head(pen, &s);
        put_rows(pen, &s);
        put_foot(pen, &s);
    }
    es_sheet_free(&s);
    return status;
}

es_status es_answer_latex_view(const es_answer *a, const es_answer_opts *opts, es_pen *pen,
                               es_error *err)
{
    es_pen_put(pen, "% tables for a paper; in its preamble: \\usepackage{booktabs}\n");
    for (int64_t i = 0; i < a->findings_count; i++) {
        es_pen_put(pen, "% ");
        put_comment(pen, a->findings[i]);
        es_pen_put(pen, "\n");
    }
    for (int64_t i = 0; i < a->tables_count; i++) {
        const es_table *t = a->tables[i];
        uint64_t bit = 1;
        for (const es_table_view *v = t->spec->views; v && v->title; v++, bit <<= 1)
            if (!(t->hidden & bit) && es_choice_shows(t, v, opts))
                ES_TRY(put_view(pen, t, v, opts, err));
    }
    return ES_OK;
}
