/* SPDX-License-Identifier: Apache-2.0 */
/* test_formula.c : texts with marked formulas as HTML: what is set, what stays text, that nothing
 * breaks. */
#include "folder.h"

#include "report/formula.h"

static char html[65536];

/* A text as it stands in a page. */
static const char *set(const char *text)
{
    es_sink *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_ok(es_sink_begin(s, in_folder("text.html"), true, &err));
    es_formula_html(s, text);
    assert_ok(es_sink_end(s));
    free(s);
    FILE *file = fopen(in_folder("text.html"), "rb");
    assert_non_null(file);
    html[fread(html, 1, sizeof html - 1, file)] = '\0';
    fclose(file);
    return html;
}

/* Every element is closed by its own name, in order. */
static void assert_closed(const char *markup)
{
    char open[64][16];
    int depth = 0;
    for (const char *at = markup; (at = strchr(at, '<')); at++) {
        char name[16];
        const bool closing = at[1] == '/';
        const char *end = strchr(at, '>');
        assert_non_null(end);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1 + closing, " />"),
                 at + 1 + closing);
        if (closing) {
            assert_above(depth, 0);
            assert_string_equal(open[--depth], name);
        } else {
            assert_below(depth, 64);
            memcpy(open[depth++], name, sizeof name);
        }
    }
    assert_int_equal(depth, 0);
}

static void marked_formulas_are_set(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"n^-0.5", "<i>n</i><sup>−0.5</sup>"},
                                           {"n^-rate", "<i>n</i><sup>−rate</sup>"},
                                           {"P_n", "<i>P</i><sub><i>n</i></sub>"},
                                           {"gamma_c", "γ<sub><i>c</i></sub>"},
                                           {"sqrt(2 ln n)", "√(2 ln <i>n</i>)"},
                                           {"|x| <= R", "|<i>x</i>| ≤ <i>R</i>"},
                                           {"S^1/2 A", "<i>S</i><sup>1/2</sup> <i>A</i>"},
                                           {"x^2/2", "<i>x</i><sup>2</sup>/2"},
                                           {"e^(-(d+1)/4)", "<i>e</i><sup>−(<i>d</i>+1)/4</sup>"},
                                           {"V_{d/2}", "<i>V</i><sub><i>d</i>/2</sub>"},
                                           {"b'", "<i>b</i>′"},
                                           {"Wk'Wq", "<i>W</i><sub>k</sub>′<i>W</i><sub>q</sub>"},
                                           {"H1", "<i>H</i><sub>1</sub>"},
                                           {"u > 1", "<i>u</i> &#62; 1"},
                                           {"n -> 3", "<i>n</i> → 3"},
                                           {"rho^", "ρ^"}};
    char text[64], expected[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "so `%s`, and on", cases[i][0]);
        snprintf(expected, sizeof expected, "so <span class=\"formula\">%s</span>, and on",
                 cases[i][1]);
        assert_string_equal(set(text), expected);
        assert_closed(html);
    }
}

/* What is not marked is text, whatever it looks like; names of the program's are code. */
static void the_rest_stays_text(void **state)
{
    (void)state;
    static const char *const plain[] = {"a few keys of 50 dimensions", "falls like n^-0.5",
                                        "finite-n prediction, p-value", "--json has one row",
                                        "a ` that stands alone"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        assert_string_equal(set(plain[i]), plain[i]);
    assert_string_equal(set("0.5 +- 0.1 for <= 1"), "0.5 ± 0.1 for ≤ 1");
    assert_string_equal(set("it is -0.25 there"), "it is −0.25 there");
    assert_string_equal(set("ask `esscher export --csv`."),
                        "ask <code>esscher export --csv</code>.");
}

static void RP01_hostile_texts_are_escaped_and_end(void **state)
{
    (void)state;
    assert_null(strstr(set("`n^<script>alert(1)</script>`"), "<script"));
    assert_null(strstr(set("`E|<b onclick=x>|^2 C(<img src=x>)`"), "<img"));
    assert_null(strstr(set("`<b>` <b>"), "<b>"));
    char deep[3001]; /* brackets without end, a power of a power of ..., marks of nothing */
    memset(deep, '`', 3000);
    deep[3000] = '\0';
    assert_closed(set(deep));
    memset(deep + 1, '(', 2998);
    assert_closed(set(deep));
    for (int i = 0; i < 3000; i++)
        deep[i] = i % 2999 ? "x^"[i % 2] : '`';
    assert_closed(set(deep));
    for (int i = 0; i < 3000; i++)
        deep[i] = i % 2999 ? "^("[i % 2] : '`';
    assert_closed(set(deep));
    assert_string_equal(set("\xff n\xe2\x80\xae"), "\\xff n\\u202e");
}

TEST_FILE(formula)
{
#define T(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {T(marked_formulas_are_set), T(the_rest_stays_text),
                                       T(RP01_hostile_texts_are_escaped_and_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
