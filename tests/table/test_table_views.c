/* SPDX-License-Identifier: Apache-2.0 */
/* test_table_views.c : what people see of an answer: lines that fit, rows that were asked for, and
 * what was left out told. Expected texts are written by hand, widths are counted here. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <esscher/table.h>

#include "table/table.h"

enum { WIDE = 24, LONG = 100 };

typedef struct text {
    char bytes[1 << 17];
    size_t used;
} text;
static text page;

static bool collect(void *user, const char *bytes, size_t count)
{
    text *t = user;
    if (t->used + count >= sizeof t->bytes)
        return false;
    memcpy(t->bytes + t->used, bytes, count);
    t->bytes[t->used += count] = '\0';
    return true;
}

static const char *write_as(const es_answer *a, es_answer_form form, es_answer_opts opts)
{
    page.used = 0;
    page.bytes[0] = '\0';
    assert_ok(es_answer_write(a, form, &opts, collect, &page, &err));
    return page.bytes;
}

/* Columns of a line: characters, except that the two used here that are not one wide are counted
 * as they are drawn: U+0302, a mark over the letter before it, and U+8A9E, of two columns. */
static int columns_of(const char *line, size_t length)
{
    int width = 0;
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)line[i];
        width += (c & 0xc0) != 0x80;
        width -= c == 0xcc && (unsigned char)line[i + 1] == 0x82;
        width += c == 0xe8 && (unsigned char)line[i + 1] == 0xaa;
    }
    return width;
}

static int widest(const char *all)
{
    int most = 0;
    for (const char *line = all; *line;) {
        const size_t length = strcspn(line, "\n");
        const int width = columns_of(line, length);
        most = width > most ? width : most;
        line += length + (line[length] == '\n');
    }
    return most;
}

/* ---- a table of many columns and rows ---- */

static es_column wide_columns[WIDE + 3];
static char keys[WIDE][8], titles[WIDE][16];
static const es_table_view wide_views[] = {
    {"Numbers, each eight wide", NULL, "A note with ŷ̂ in it."}, {0}};
static const es_table_spec wide_table = {"wide", wide_columns, wide_views};

static es_answer *make_wide(void)
{
    es_answer *a;
    wide_columns[0] = (es_column){"row", "row", "", ES_FORMAT_COUNT};
    for (int j = 0; j < WIDE; j++) {
        snprintf(keys[j], sizeof keys[j], "c%02d", j);
        snprintf(titles[j], sizeof titles[j], "c%02d", j);
        wide_columns[j + 1] = (es_column){keys[j], titles[j], "", ES_FORMAT_COUNT,
                                          "what a column of this sort is about, in many words"};
    }
    assert_ok(es_answer_new(NULL, &a, &err));
    es_answer_add_finding(
        a,
        "A finding of many words, among them 語 and ŷ̂, that no terminal of sixty "
        "columns holds on one line: it goes on below, and %s",
        "aVeryLongWordWithoutAnySpaceInItWhichIsBrokenWhereverItMustBeBrokenSinceNoLine"
        "HoldsItAll.");
    es_table *t = es_answer_table(a, &wide_table);
    for (int64_t i = 0; i < LONG; i++) {
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "row", i);
        for (int j = 0; j < WIDE; j++)
            es_table_count(t, row, keys[j], 12345678);
    }
    return a;
}

static void no_line_is_wider_than_the_terminal(void **state)
{
    (void)state;
    es_answer *a = make_wide();
    for (int width = 60; width <= 200; width++) {
        const es_answer_opts opts = {.width = width, .most_rows = 40, .rest = "--full"};
        const char *all = write_as(a, ES_ANSWER_TEXT, opts);
        if (widest(all) > width)
            fail_msg("%d columns at width %d", widest(all), width);
        /* "row" takes 3 columns, any other two spaces and 8 */
        const int shown = (width - 3) / 10 < WIDE ? (width - 3) / 10 : WIDE;
        char line[64], title[8];
        snprintf(line, sizeof line, "\n  %d more columns and 60 more rows: --full\n", WIDE - shown);
        assert_non_null(strstr(all, line));
        for (int j = 0; j < WIDE; j++) { /* titles, and definitions of no other column */
            snprintf(title, sizeof title, " c%02d", j);
            assert_int_equal(strstr(all, title) != NULL, j < shown);
            snprintf(title, sizeof title, "c%02d:", j);
            assert_int_equal(strstr(all, title) != NULL, j < shown);
        }
    }
    /* what it is sorted by is never dropped */
    const char *all = write_as(a, ES_ANSWER_TEXT, (es_answer_opts){.width = 60, .sort = "c23"});
    assert_non_null(strstr(all, " c23"));
    assert_null(strstr(all, " c22"));
    all = write_as(a, ES_ANSWER_TEXT, (es_answer_opts){.full = true, .most_rows = 40});
    assert_null(strstr(all, "more row"));
    assert_non_null(strstr(all, " c23"));
    assert_non_null(strstr(all, "\n 99  12345678"));
    es_answer_free(a);
}

/* Without its line ends and indents a sentence is what it was. */
static void sentences_are_broken_at_spaces(void **state)
{
    (void)state;
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_answer_add_finding(a, "one two three four five six seven");
    es_answer_add_finding(a, "eight");
    assert_string_equal(write_as(a, ES_ANSWER_TEXT, (es_answer_opts){.width = 20}),
                        "one two three four\n  five six seven\neight\n");
    assert_string_equal(write_as(a, ES_ANSWER_TEXT, (es_answer_opts){0}),
                        "one two three four five six seven\neight\n");
    es_answer_free(a);
}

/* ---- titles and texts ---- */

static const es_column claim_columns[] = {
    {"id", "claim", "", ES_FORMAT_TEXT},
    {"size", "a title of words", "nats", ES_FORMAT_SHORT},
    {"says", "what | it says", "", ES_FORMAT_TEXT, "a <b>text</b> of *words*"},
    {"empty", "empty", "", ES_FORMAT_TEXT, "never told"},
    {0}};
static const es_table_view claim_views[] = {{"Claims"},
                                            {"Sizes", "id size", .only_with_full = true},
                                            {"Nothing", "never", .only_with_full = true},
                                            {0}};
static const es_table_spec claim_table = {"claims", claim_columns, claim_views};

static es_answer *make_claims(void)
{
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_table *t = es_answer_table(a, &claim_table);
    static const char *const says[] = {"a sentence of seven words stands here", "x | y \\ z"};
    for (int64_t i = 0; i < 2; i++) {
        const int64_t row = es_table_row(t);
        es_table_text(t, row, "id", i ? "b" : "a");
        es_table_real(t, row, "size", i ? 1000.0 : 0.5);
        es_table_text(t, row, "says", says[i]);
        es_table_text(t, row, "empty", "");
    }
    return a;
}

static void narrow_tables_break_titles_and_texts(void **state)
{
    (void)state;
    es_answer *a = make_claims();
    const char *all = write_as(a, ES_ANSWER_TEXT, (es_answer_opts){.width = 40, .rest = "--full"});
    assert_string_equal(all, "Claims\n"
                             "        a title\n"
                             "claim  of words  what | it says\n"
                             "           nats\n"
                             "a           0.5  a sentence of seven\n"
                             "                 words stands here\n"
                             "b          1000  x | y \\ z\n"
                             "  what | it says: a <b>text</b> of\n"
                             "    *words*\n"
                             "\n"
                             "1 more table (Sizes): --full\n");
    es_answer_free(a);
}

static void more_is_shown_on_request(void **state)
{
    (void)state;
    es_answer *a = make_claims();
    assert_null(strstr(write_as(a, ES_ANSWER_TEXT, (es_answer_opts){0}), "Sizes\n"));
    assert_null(strstr(write_as(a, ES_ANSWER_MARKDOWN, (es_answer_opts){0}), "### Sizes"));
    const es_answer_opts full = {.full = true};
    assert_non_null(
        strstr(write_as(a, ES_ANSWER_TEXT, full), "\nSizes\nclaim  a title of words\n"));
    assert_non_null(strstr(write_as(a, ES_ANSWER_MARKDOWN, full), "### Sizes"));
    assert_non_null(strstr(write_as(a, ES_ANSWER_CSV, (es_answer_opts){0}), "id,size,says,empty"));
    es_answer_free(a);
}

static void markdown_is_shown_as_it_is(void **state)
{
    (void)state;
    es_answer *a = make_claims();
    /* by the rules of CommonMark: emphasis, links, character references, headings, lists, quotes;
     * GitHub's strikethrough. What is none of them has no backslash. */
    static const char *const cases[][2] = {{"2*3 < 7", "2\\*3 \\< 7"},
                                           {"an _x_ and __y__", "an \\_x\\_ and \\_\\_y\\_\\_"},
                                           {"P_n of x_{d/2}", "P_n of x\\_{d/2}"},
                                           {"[a](b) and ![c][d]", "\\[a](b) and !\\[c]\\[d]"},
                                           {"&lt; &#35; a & b", "\\&lt; \\&#35; a & b"},
                                           {"~~a~~ ~ 1", "\\~\\~a\\~\\~ ~ 1"},
                                           {"# 1", "\\# 1"},
                                           {"## 2", "\\## 2"},
                                           {"#3 # 3", "#3 # 3"},
                                           {"- 4", "\\- 4"},
                                           {"+ 5", "\\+ 5"},
                                           {"-6 - 6", "-6 - 6"},
                                           {"> 7", "\\> 7"},
                                           {"8. 8. 8", "8\\. 8. 8"},
                                           {"19) 9", "19\\) 9"},
                                           {"0.5 of 1.", "0.5 of 1."}};
    enum { CASES = sizeof cases / sizeof cases[0] };
    for (int i = 0; i < CASES; i++)
        es_answer_add_finding(a, "%s", cases[i][0]);
    const char *all = write_as(a, ES_ANSWER_MARKDOWN, (es_answer_opts){.width = 40});
    for (int i = 0; i < CASES; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s%s\n", i ? "\n" : "", cases[i][1]);
        if (!strstr(all, line))
            fail_msg("\"%s\" is not \"%s\" in\n%s", cases[i][0], cases[i][1], all);
    }
    assert_non_null(strstr(all, "| claim | a title of words (nats) | what \\| it says |\n"));
    assert_non_null(strstr(all, "| b | 1000 | x \\| y \\\\ z |\n"));
    assert_non_null(strstr(all, "- what \\| it says: a \\<b>text\\</b> of \\*words\\*\n"));
    es_answer_free(a);
}

/* ---- rows ---- */

static const es_column head_columns[] = {{"layer", "layer", "", ES_FORMAT_COUNT},
                                         {"head", "head", "", ES_FORMAT_COUNT},
                                         {"name", "name", "", ES_FORMAT_TEXT},
                                         {"rate", "its rate", "", ES_FORMAT_SHORT},
                                         {0}};
static const es_table_view head_views[] = {{"Heads", "layer head name"}, {0}};
static const es_table_spec head_table = {"heads", head_columns, head_views};
static const es_column layer_columns[] = {{"layer", "layer", "", ES_FORMAT_COUNT}, {0}};
static const es_table_view layer_views[] = {{"Layers"}, {0}};
static const es_table_spec layer_table = {"layers", layer_columns, layer_views};

static es_answer *make_heads(void)
{
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_table *t = es_answer_table(a, &head_table), *l = es_answer_table(a, &layer_table);
    static const double rates[] = {0.5, (double)NAN, 2.5, 0.5, -1.5, 4.5};
    for (int64_t i = 0; i < 6; i++) {
        const int64_t row = es_table_row(t);
        es_table_count(t, row, "layer", i / 2);
        es_table_count(t, row, "head", i % 2);
        es_table_text(t, row, "name", (const char *[]){"f", "e", "d", "c", "b", "a"}[i]);
        es_table_real(t, row, "rate", rates[i]);
    }
    for (int64_t i = 0; i < 3; i++)
        es_table_count(l, es_table_row(l), "layer", i);
    return a;
}

/* Written by hand: what LaTeX would take for a command is none, numbers are set as mathematics, and
 * those of one column share a form. */
static void latex_is_set_as_it_is(void **state)
{
    (void)state;
    static const es_column columns[] = {
        {"law_name", "law_name", "", ES_FORMAT_TEXT},
        {"n", "n", "tokens", ES_FORMAT_COUNT},
        {"error", "|error|^2", "", ES_FORMAT_REAL, .error = "error_se"},
        {"p", "p", "", ES_FORMAT_SHORT},
        {0}};
    static const es_table_view views[] = {{"Rates, 95 %", "law_name n error p"}, {0}};
    static const es_table_spec spec = {"rates", columns, views};
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_answer_add_finding(a, "It falls by 50 %%.");
    es_table *t = es_answer_table(a, &spec);
    for (int i = 0; i < 2; i++) {
        const int64_t row = es_table_row(t);
        es_table_text(t, row, "law_name", i ? "a{b}\\ & c" : "x_1 ± 2");
        es_table_count(t, row, "n", i ? 2000 : 100);
        es_table_real(t, row, "error", i ? 0.0512 : 0.7);
        es_table_real(t, row, "error_se", i ? 0.0031 : 0.012);
        es_table_real(t, row, "p", i ? 3.36e-9 : (double)NAN);
    }
    assert_string_equal(write_as(a, ES_ANSWER_LATEX, (es_answer_opts){0}),
                        "% tables for a paper; in its preamble: \\usepackage{booktabs}\n"
                        "% It falls by 50 %.\n"
                        "\n"
                        "\\begin{table}\n"
                        "\\centering\n"
                        "\\caption{Rates, 95 \\%}\n"
                        "\\begin{tabular}{lrrr}\n"
                        "\\toprule\n"
                        "law\\_name & n (tokens) & $|$error$|$\\textasciicircum{}2 & p \\\\\n"
                        "\\midrule\n"
                        "x\\_1 $\\pm$ 2 & $100$ & $0.700 \\pm 0.012$ & -- \\\\\n"
                        "a\\{b\\}\\textbackslash{} \\& c & $2000$ & $0.0512 \\pm 0.0031$ & "
                        "$3.36 \\times 10^{-9}$ \\\\\n"
                        "\\bottomrule\n"
                        "\\end{tabular}\n"
                        "\\end{table}\n"
                        "% after the sign of plus or minus: one standard error\n");
    es_answer_free(a);
}

/* A value and an error that share no power of ten, a cell that would be an argument of the line's
 * end before it, and what theory says: told below. */
static void latex_powers_end_where_they_end(void **state)
{
    (void)state;
    static const es_column columns[] = {{"name", "name", "", ES_FORMAT_TEXT},
                                        {"x", "x", "", ES_FORMAT_REAL, "as predicted",
                                         .error = "x_se", .standing = ES_STANDING_PROVED},
                                        {0}};
    static const es_table_view views[] = {{"T", "name x"}, {0}};
    static const es_table_spec spec = {"t", columns, views};
    static const double x[3] = {1.23456e8, 2e-9, 5e-10}, se[3] = {0.0, 1e-20, (double)NAN};
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_table *t = es_answer_table(a, &spec);
    for (int i = 0; i < 3; i++) {
        const int64_t row = es_table_row(t);
        es_table_text(t, row, "name", "[SEP]");
        es_table_real(t, row, "x", x[i]);
        es_table_real(t, row, "x_se", se[i]);
    }
    const char *latex = write_as(a, ES_ANSWER_LATEX, (es_answer_opts){0});
    assert_non_null(strstr(latex, "{}[SEP] & $1.23456 \\times 10^{8} \\pm 0$ \\\\\n"));
    assert_non_null(strstr(latex, "$2.00000 \\times 10^{-9} \\pm 1.0 \\times 10^{-20}$"));
    assert_non_null(strstr(latex, "$5.00000 \\times 10^{-10}$"));
    assert_non_null(strstr(latex, "% x: as predicted [proved]\n"));
    es_answer_free(a);
}

/* Names that users chose stand in findings; none of them moves a cursor. */
/* The marks around formulas are for pages and Markdown. What people type stays as it is. */
static void formulas_are_marked_where_it_helps(void **state)
{
    (void)state;
    static const es_column columns[] = {{"rate", "rate", "", ES_FORMAT_REAL, "of `n^-rate`, |x|"},
                                        {"t", "t", "", ES_FORMAT_TEXT},
                                        {0}};
    static const es_table_view views[] = {{"Rates", NULL, "at `a_1 < 2`; a ` alone"}, {0}};
    static const es_table_spec spec = {"rows", columns, views};
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_table *t = es_answer_table(a, &spec);
    es_table_row(t);
    es_table_real(t, 0, "rate", 0.5);
    es_table_text(t, 0, "t", "my `file`");
    write_as(a, ES_ANSWER_TEXT, (es_answer_opts){0});
    assert_non_null(strstr(page.bytes, "  rate: of n^-rate, |x|\n"));
    assert_non_null(strstr(page.bytes, "  at a_1 < 2; a ` alone\n"));
    assert_non_null(strstr(page.bytes, "my `file`"));
    write_as(a, ES_ANSWER_MARKDOWN, (es_answer_opts){0});
    assert_non_null(strstr(page.bytes, "- rate: of `n^-rate`, \\|x\\|\n"));
    assert_non_null(strstr(page.bytes, "- at `a_1 < 2`; a \\` alone\n"));
    assert_non_null(strstr(page.bytes, "my \\`file\\`"));
    write_as(a, ES_ANSWER_LATEX, (es_answer_opts){0});
    assert_non_null(strstr(page.bytes, "% rate: of n^-rate, |x|\n"));
    es_answer_free(a);
}

static void findings_are_escaped(void **state)
{
    (void)state;
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_answer_add_finding(a, "%s is red", "a\033[31mb");
    assert_string_equal(write_as(a, ES_ANSWER_TEXT, (es_answer_opts){0}), "a\\x1b[31mb is red\n");
    assert_null(strchr(write_as(a, ES_ANSWER_MARKDOWN, (es_answer_opts){0}), '\033'));
    es_answer_free(a);
}

/* What a whole view is about is said in each of its sentences, a caution's word before it. */
static void findings_are_qualified(void **state)
{
    (void)state;
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_answer_add_finding(a, "It is %d.", 1);
    es_answer_qualify(a, "Content alone: ");
    es_answer_add_finding(a, "It is %d.", 2);
    es_answer_add_finding(a, "Caution: %s.", "few draws");
    es_answer_qualify(a, NULL);
    es_answer_add_finding(a, "It is %d.", 3);
    assert_string_equal(es_answer_finding(a, 0), "It is 1.");
    assert_string_equal(es_answer_finding(a, 1), "Content alone: It is 2.");
    assert_string_equal(es_answer_finding(a, 2), "Caution: Content alone: few draws.");
    assert_string_equal(es_answer_finding(a, 3), "It is 3.");
    es_answer_free(a);
}

/* Every experiment prints through this view: at most three findings stand before the first table,
 * no caution does, and nothing is lost. JSON has all in the order in which they were added. */
static void three_findings_lead(void **state)
{
    (void)state;
    static const es_column columns[] = {{"n", "n", "", ES_FORMAT_COUNT}, {0}};
    static const es_table_view views[] = {{"Table"}, {0}};
    static const es_table_spec spec = {"rows", columns, views};
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_answer_add_finding(a, "It is 1.");
    es_answer_add_finding(a, "Caution: few draws.");
    for (int i = 2; i <= 5; i++)
        es_answer_add_finding(a, "It is %d.", i);
    es_answer_add_finding(a, "Caution: short text.");
    assert_string_equal(write_as(a, ES_ANSWER_TEXT, (es_answer_opts){0}),
                        "It is 1.\nIt is 2.\nIt is 3.\nCaution: few draws.\nIt is 4.\nIt is 5.\n"
                        "Caution: short text.\n");
    es_table *t = es_answer_table(a, &spec);
    es_table_count(t, es_table_row(t), "n", 7);
    assert_string_equal(write_as(a, ES_ANSWER_TEXT, (es_answer_opts){0}),
                        "It is 1.\nIt is 2.\nIt is 3.\n\nTable\nn\n7\n\nCaution: few draws.\n"
                        "It is 4.\nIt is 5.\nCaution: short text.\n");
    const char *json = write_as(a, ES_ANSWER_JSON, (es_answer_opts){0});
    const char *at = strstr(json, "\"Caution: few draws.\"");
    assert_non_null(at);
    at = strstr(at, "\"It is 5.\"");
    assert_non_null(at);
    assert_non_null(strstr(at, "\"Caution: short text.\""));
    es_answer_free(a);

    /* a caution about the whole answer comes first and leads, as one of the three */
    assert_ok(es_answer_new(NULL, &a, &err));
    es_answer_add_finding(a, "Caution: unknown text.");
    for (int i = 1; i <= 3; i++)
        es_answer_add_finding(a, "It is %d.", i);
    t = es_answer_table(a, &spec);
    es_table_count(t, es_table_row(t), "n", 7);
    assert_string_equal(write_as(a, ES_ANSWER_TEXT, (es_answer_opts){0}),
                        "Caution: unknown text.\nIt is 1.\nIt is 2.\n\nTable\nn\n7\n\nIt is 3.\n");
    es_answer_free(a);
}

static void rows_are_picked_sorted_and_counted(void **state)
{
    (void)state;
    es_answer *a = make_heads();
    const int64_t layers[] = {0, 2}, one[] = {1};
    const es_row_pick both[] = {{"layer", layers, 2}, {"head", one, 1}, {0}};
    const char *head = "layer,head,name,rate\n";
    const struct {
        es_answer_opts opts;
        const char *rows;
    } cases[] = {
        {{.picks = both}, "0,1,e,\n2,1,a,4.5\n"},
        /* equal ones keep their order, what has no value is last either way */
        {{.sort = "rate"}, "2,0,b,-1.5\n0,0,f,0.5\n1,1,c,0.5\n1,0,d,2.5\n2,1,a,4.5\n0,1,e,\n"},
        {{.sort = "-rate"}, "2,1,a,4.5\n1,0,d,2.5\n0,0,f,0.5\n1,1,c,0.5\n2,0,b,-1.5\n0,1,e,\n"},
        {{.sort = "-its rate", .top = 2}, "2,1,a,4.5\n1,0,d,2.5\n"},
        {{.sort = "name", .top = 1}, "2,1,a,4.5\n"},
        {{.top = 1}, "0,0,f,0.5\n"},
        {{.picks = both, .sort = "name", .top = 1}, "2,1,a,4.5\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *all = write_as(a, ES_ANSWER_CSV, cases[i].opts);
        assert_memory_equal(all, head, strlen(head));
        assert_string_equal(all + strlen(head), cases[i].rows);
    }
    /* what it is sorted by is shown; a table without it keeps its order, and all its rows */
    assert_string_equal(write_as(a, ES_ANSWER_TEXT, (es_answer_opts){.sort = "-rate", .top = 2}),
                        "Heads\n"
                        "layer  head  name  its rate\n"
                        "    2     1  a          4.5\n"
                        "    1     0  d          2.5\n"
                        "\n"
                        "Layers\n"
                        "layer\n    0\n    1\n    2\n");
    assert_non_null(strstr(write_as(a, ES_ANSWER_MARKDOWN, (es_answer_opts){.picks = both}),
                           "|--:|--:|---|\n| 0 | 1 | e |\n| 2 | 1 | a |\n\n"));
    es_answer_free(a);
}

/* Of two tables that wait: the one that has layers and heads is what was asked for. One that is
 * shown anyway, but has no such head, is not in the way. */
static void what_was_picked_is_shown(void **state)
{
    (void)state;
    static const es_column columns[] = {
        {"layer", "layer", "", ES_FORMAT_COUNT}, {"head", "head", "", ES_FORMAT_COUNT}, {0}};
    static const es_column lone[] = {{"layer", "layer", "", ES_FORMAT_COUNT}, {0}};
    static const es_table_view shown[] = {{"Most"}, {0}},
                               waits[] = {{"All", .only_with_full = true}, {0}},
                               other[] = {{"Layers", "layer", .only_with_full = true}, {0}};
    static const es_table_spec most = {"most", columns, shown}, all = {"all", columns, waits},
                               by_layer = {"layers", lone, other};
    const int64_t one[] = {1};
    const es_row_pick both[] = {{"layer", one, 1}, {"head", one, 1}, {0}}, none[] = {{0}};
    es_answer *a;
    assert_ok(es_answer_new(NULL, &a, &err));
    es_table *t = es_answer_table(a, &most);
    es_table_row(t);
    es_table_count(t, 0, "layer", 0);
    es_table_count(t, 0, "head", 1);
    t = es_answer_table(a, &by_layer);
    es_table_row(t);
    es_table_count(t, 0, "layer", 1);
    t = es_answer_table(a, &all);
    for (int64_t i = 0; i < 4; i++) {
        es_table_row(t);
        es_table_count(t, i, "layer", i / 2);
        es_table_count(t, i, "head", i % 2);
    }
    const es_answer_opts picked = {.picks = both, .rest = "--full"};
    assert_string_equal(write_as(a, ES_ANSWER_TEXT, picked), "All\n"
                                                             "layer  head\n"
                                                             "    1     1\n"
                                                             "\n"
                                                             "1 more table (Layers): --full\n");
    const char *latex = write_as(a, ES_ANSWER_LATEX, picked);
    assert_non_null(strstr(latex, "\\caption{All}"));
    assert_null(strstr(latex, "\\caption{Most}"));
    assert_null(strstr(latex, "\\caption{Layers}"));
    const char *plain = write_as(a, ES_ANSWER_TEXT, (es_answer_opts){.picks = none});
    assert_non_null(strstr(plain, "Most\n"));
    assert_non_null(strstr(plain, "2 more tables (Layers; All)"));
    es_answer_free(a);
}

static void what_no_table_has_is_refused(void **state)
{
    (void)state;
    es_answer *a = make_heads();
    const int64_t seven[] = {7};
    const es_row_pick no_row[] = {{"head", seven, 1}, {0}}, no_column[] = {{"x", seven, 1}, {0}};
    const struct {
        es_answer_opts opts;
        const char *rule;
    } cases[] = {{{.sort = "-rat"}, "answer.sort"},
                 {{.picks = no_row}, "answer.rows"},
                 {{.picks = no_column}, "answer.rows"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        page.used = 0;
        assert_int_equal(es_answer_write(a, ES_ANSWER_TEXT, &cases[i].opts, collect, &page, &err),
                         ES_E_ARGUMENT);
        assert_string_equal(err.rule, cases[i].rule);
        assert_int_equal(page.used, 0);
    }
    /* of CSV, what the one table has that is printed */
    const es_answer_opts layers = {.table = "layers", .sort = "rate"};
    assert_int_equal(es_answer_write(a, ES_ANSWER_CSV, &layers, collect, &page, &err),
                     ES_E_ARGUMENT);
    assert_string_equal(err.rule, "answer.sort");
    es_answer_free(a);
}

TEST_FILE(table_views)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_is_wider_than_the_terminal),
        cmocka_unit_test(sentences_are_broken_at_spaces),
        cmocka_unit_test(narrow_tables_break_titles_and_texts),
        cmocka_unit_test(more_is_shown_on_request),
        cmocka_unit_test(markdown_is_shown_as_it_is),
        cmocka_unit_test(latex_is_set_as_it_is),
        cmocka_unit_test(latex_powers_end_where_they_end),
        cmocka_unit_test(formulas_are_marked_where_it_helps),
        cmocka_unit_test(findings_are_escaped),
        cmocka_unit_test(findings_are_qualified),
        cmocka_unit_test(three_findings_lead),
        cmocka_unit_test(rows_are_picked_sorted_and_counted),
        cmocka_unit_test(what_was_picked_is_shown),
        cmocka_unit_test(what_no_table_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
