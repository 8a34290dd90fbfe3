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
static void put_text(es_writer *writer, const char *text)
{
    while (*text) {
        size_t length = 0;
        for (size_t i = 0; i < sizeof letters / sizeof letters[0] && !length; i++)
            if (strncmp(text, letters[i].plain, strlen(letters[i].plain)) == 0) {
                es_writer_put(writer, letters[i].latex);
                length = strlen(letters[i].plain);
            }
        if (!length) {
            es_writer_char(writer, *text);
            length = 1;
        }
        text += length;
    }
}

/* What follows the `e` of a number: "-09" as a power of ten. Returns where it ends. */
static const char *put_power(es_writer *writer, const char *p)
{
    es_writer_put(writer, " \\times 10^{");
    es_writer_put(writer, *p == '-' ? "-" : "");
    p += *p == '-' || *p == '+';
    while (*p == '0' && p[1] >= '0' && p[1] <= '9')
        p++;
    for (; *p >= '0' && *p <= '9'; p++)
        es_writer_char(writer, *p);
    es_writer_put(writer, "}");
    return p;
}

/* Writes "(3.36 ± 0.12)e-09" as $(3.36 \pm 0.12) \times 10^{-9}$; text that is no number as text.
 */
static void put_number(es_writer *writer, const char *text)
{
    static const char signs[] = "0123456789.()-+e ";
    for (const char *p = text; *p; p++)
        if (!strchr(signs, *p) && strncmp(p, "±", strlen("±")) != 0 &&
            ((unsigned char)*p & 0xc0) != 0x80) {
            put_text(writer, text);
            return;
        }
    if (!strpbrk(text, "0123456789")) { /* "-": there is none */
        put_text(writer, "–");
        return;
    }
    es_writer_put(writer, "$");
    for (const char *p = text; *p; p++) {
        if (strncmp(p, "±", strlen("±")) == 0) {
            es_writer_put(writer, "\\pm");
            p += strlen("±") - 1;
        } else if (*p == 'e') {
            p = put_power(writer, p + 1) - 1;
        } else {
            es_writer_char(writer, *p);
        }
    }
    es_writer_put(writer, "$");
}

/* ---- a table ---- */

/* Writes caption, columns and titles of a table. */
static void put_head(es_writer *writer, const es_sheet *s)
{
    es_writer_put(writer, "\\begin{table}\n\\centering\n\\caption{");
    put_text(writer, s->title);
    es_writer_put(writer, "}\n\\begin{tabular}{");
    for (int64_t j = 0; j < s->count; j++)
        es_writer_put(writer, s->columns[j].format == ES_FORMAT_TEXT ? "l" : "r");
    es_writer_put(writer, "}\n\\toprule\n");
    for (int64_t j = 0; j < s->count; j++) {
        const char *unit = s->units[j];
        es_writer_put(writer, j ? " & " : "");
        put_text(writer, s->columns[j].title);
        es_writer_put(writer, *unit ? " (" : "");
        put_text(writer, unit);
        es_writer_put(writer, *unit ? ")" : "");
    }
    es_writer_put(writer, " \\\\\n\\midrule\n");
}

/* Writes all rows. */
static void put_rows(es_writer *writer, const es_sheet *s)
{
    for (int64_t i = 0; i < s->rows.count; i++) {
        for (int64_t j = 0; j < s->count; j++) {
            const char *cell = es_sheet_cell(s, i, j);
            /* after the line before, [ and * would be arguments of its end */
            es_writer_put(writer, j ? " & " : *cell == '[' || *cell == '*' ? "{}" : "");
            if (s->columns[j].format == ES_FORMAT_TEXT)
                put_text(writer, cell);
            else
                put_number(writer, cell);
        }
        es_writer_put(writer, " \\\\\n");
    }
    es_writer_put(writer, "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

/* A comment ends with its line: no text has one inside, nor what a terminal would obey. */
static void put_comment(es_writer *writer, const char *text)
{
    for (; *text; text++)
        es_writer_char(writer, (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text);
}

/* Formulas lose their marks: the author of the caption sets them. */
static void put_definition(es_writer *writer, const char *text)
{
    const size_t size = strlen(text) + 1;
    char small[1024], *copy = size <= sizeof small ? small : malloc(size);
    if (copy)
        put_comment(writer, es_lines_unmarked(memcpy(copy, text, size)));
    if (copy != small)
        free(copy);
}

/* Writes the definitions of the columns as comments, for the caption. */
static void put_foot(es_writer *writer, const es_sheet *s)
{
    for (int64_t j = 0; j < s->count; j++) {
        const es_column *c = es_sheet_explained(s, j);
        if (!c)
            continue;
        es_writer_put(writer, "% ");
        put_comment(writer, c->title);
        es_writer_put(writer, ": ");
        put_definition(writer, c->definition ? c->definition : "");
        es_writer_format(writer, c->standing ? " [%s]\n" : "%s\n", es_standing_name(c->standing));
    }
    es_writer_put(writer, es_sheet_has_errors(s)
                              ? "% after the sign of plus or minus: one standard error\n"
                              : "");
}

/* Writes one view of a table. */
static es_status put_view(es_writer *writer, const es_table *t, const es_table_view *view,
                          const es_answer_opts *opts, es_error *err)
{
    es_sheet s = {.table = t, .view = view, .opts = opts, .markdown = true};
    const es_status status = es_sheet_make(&s, err);
    if (status == ES_OK && s.count > 0 && s.rows.count > 0) {
        es_writer_put(writer, "\n");
        put_head(writer, &s);
        put_rows(writer, &s);
        put_foot(writer, &s);
    }
    es_sheet_free(&s);
    return status;
}

es_status es_answer_latex_view(const es_answer *a, const es_answer_opts *opts, es_writer *writer,
                               es_error *err)
{
    es_writer_put(writer, "% tables for a paper; in its preamble: \\usepackage{booktabs}\n");
    for (int64_t i = 0; i < a->findings_count; i++) {
        es_writer_put(writer, "% ");
        put_comment(writer, a->findings[i]);
        es_writer_put(writer, "\n");
    }
    for (int64_t i = 0; i < a->tables_count; i++) {
        const es_table *t = a->tables[i];
        uint64_t bit = 1;
        for (const es_table_view *v = t->spec->views; v && v->title; v++, bit <<= 1)
            if (!(t->hidden & bit) && es_choice_shows(t, v, opts))
                ES_TRY(put_view(writer, t, v, opts, err));
    }
    return ES_OK;
}
