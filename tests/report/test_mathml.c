/* test_mathml.c : formulas of plain sentences as MathML: what is set, what stays text, that nothing
 * breaks. The sentences are those that studies write. */
#include "folder.h"

#include "experiments/claims/claims.h"
#include "report/mathml.h"

static char html[65536];

/* A text as it stands in a page. */
static const char *set(const char *text)
{
    es_sink *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_ok(es_sink_begin(s, in_folder("text.html"), true, &err));
    es_mathml_text(s, text);
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
        } else if (end[-1] != '/' && strcmp(name, "wbr") != 0) {
            assert_below(depth, 64);
            memcpy(open[depth++], name, sizeof name);
        }
    }
    assert_int_equal(depth, 0);
}

/* What is left of the text if formulas are taken out, in `rest`. */
static const char *without_formulas(const char *markup, char *rest, size_t size)
{
    size_t used = 0;
    for (const char *at = markup; *at && used + 1 < size;) {
        const char *end = strncmp(at, "<math>", 6) == 0 ? strstr(at, "</math>") : NULL;
        if (end)
            at = end + strlen("</math>");
        else
            rest[used++] = *at++;
    }
    rest[used] = '\0';
    return rest;
}

static void formulas_are_set(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"n^-0.5", "<msup><mi>n</mi><mrow><mo>−</mo><mn>0.5</mn></mrow></msup>"},
        {"P_n", "<msub><mi>P</mi><mrow><mi>n</mi></mrow></msub>"},
        {"gamma_c", "<msub><mi>γ</mi><mrow><mi>c</mi></mrow></msub>"},
        {"sqrt(2 ln n)", "<msqrt><mrow><mn>2</mn><mspace width=\"0.17em\"/><mi>ln</mi>"
                         "<mspace width=\"0.17em\"/><mi>n</mi></mrow></msqrt>"},
        {"|x| <= R", "<mrow><mo stretchy=\"false\">|</mo><mi>x</mi><mo stretchy=\"false\">|</mo>"
                     "</mrow><mo form=\"infix\">≤</mo><mi>R</mi>"},
        {"S^1/2", "<msup><mi>S</mi><mrow><mn>1</mn><mo lspace=\"0.05em\" rspace=\"0.05em\">/</mo>"
                  "<mn>2</mn></mrow></msup>"},
        {"x^2/2", "<msup><mi>x</mi><mrow><mn>2</mn></mrow></msup>"
                  "<mo lspace=\"0.05em\" rspace=\"0.05em\">/</mo><mn>2</mn>"},
        {"b'", "<mrow><mi>b</mi><mi>′</mi></mrow>"},
        {"rho^", "<mover><mi>ρ</mi><mo>^</mo></mover>"},
        {"Wk", "<msub><mi>W</mi><mi>k</mi></msub>"},
        {"2.5e-05", "<mn>2.5</mn><mo>·</mo><msup><mn>10</mn><mrow><mo>−</mo><mn>5</mn></mrow>"
                    "</msup>"},
        {"5 10^5", "<mn>5</mn><mo>·</mo><msup><mn>10</mn><mrow><mn>5</mn></mrow></msup>"},
        {"u > 1", "<mi>u</mi><mo form=\"infix\">&gt;</mo><mn>1</mn>"},
        {"n -> 3", "<mi>n</mi><mo form=\"infix\">→</mo><mn>3</mn>"}};
    char out[ES_MATHML_ROOM];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(es_mathml_parse(cases[i][0], out), strlen(cases[i][0]));
        assert_string_equal(out, cases[i][1]);
        assert_closed(out);
    }
}

/* Words, names of files, articles, ranges: text that only looks like a formula. */
static void words_stay_text(void **state)
{
    (void)state;
    static const char *const plain[] = {"a few keys of 50 dimensions",
                                        "A base 50 times as large",
                                        "finite-n prediction, p-value",
                                        "x.run and n-gram",
                                        "sum of squared weights",
                                        "log-density of the keys",
                                        "95 % of 1000 heads in 3 of 4 layers",
                                        "--json has one row",
                                        "f32 or f16",
                                        "layer 0, head 12"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        assert_string_equal(set(plain[i]), plain[i]);
    assert_string_equal(set("0.5 +- 0.1 for <= 1"), "0.5 ± 0.1 for ≤ 1");
    assert_string_equal(set("it is -0.25 there"), "it is −0.25 there");
    /* a comma goes with its formula, and an article is none */
    assert_string_equal(set("n, and a C"),
                        "<math><mrow><mi>n</mi><mtext>,</mtext></mrow></math> and "
                        "a <math><mrow><mi>C</mi></mrow></math>");
}

/* Nothing of a claim's statement is left as a terminal writes it. */
static void statements_of_claims_are_set(void **state)
{
    (void)state;
    int64_t formulas = 0;
    for (int64_t i = 0; i < es_claims_count(); i++) {
        char rest[8192];
        const char *markup = set(es_claim_at(i)->statement);
        assert_closed(markup);
        formulas += strstr(markup, "<math>") != NULL;
        without_formulas(markup, rest, sizeof rest);
        static const char *const left[] = {"^",     "_",     "~",   "+-",    "&#60;",
                                           "sqrt",  " beta", "rho", "gamma", "alpha",
                                           "Gamma", "Psi",   "|",   "="};
        for (size_t j = 0; j < sizeof left / sizeof *left; j++)
            if (strstr(rest, left[j]))
                fail_msg("%s is left of: %s", left[j], es_claim_at(i)->statement);
    }
    assert_at_least(formulas, 20);
}

static void RP01_hostile_texts_are_escaped_and_end(void **state)
{
    (void)state;
    assert_null(strstr(set("n^<script>alert(1)</script>"), "<script"));
    assert_null(strstr(set("E|<b onclick=x>|^2 C(<img src=x>)"), "<img"));
    char deep[3001]; /* brackets without end, and a power of a power of ... */
    memset(deep, '(', 3000);
    deep[3000] = '\0';
    assert_string_equal(set(deep), deep);
    for (int i = 0; i < 3000; i++)
        deep[i] = "x^"[i % 2];
    assert_closed(set(deep));
    for (int i = 0; i < 3000; i++)
        deep[i] = "C("[i % 2];
    assert_closed(set(deep));
    for (int i = 0; i < 3000; i++)
        deep[i] = "n "[i % 2];
    assert_closed(set(deep));
    assert_string_equal(set("\xff n\xe2\x80\xae"), "\\xff n\\u202e");
}

TEST_FILE(mathml)
{
#define T(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {T(formulas_are_set), T(words_stay_text),
                                       T(statements_of_claims_are_set),
                                       T(RP01_hostile_texts_are_escaped_and_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
