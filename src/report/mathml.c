#include "report/mathml.h"

#include <stdio.h>
#include <string.h>

/* ---- a parser that can go back ---- */

typedef struct parser {
    const char *at;
    const char *line; /* since when no line could end */
    char *out;
    size_t used;
    int depth;   /* of brackets */
    int worded;  /* how many of them may hold words */
    int nested;  /* calls inside each other */
    int steps;   /* calls so far: what is tried twice at each of many brackets would have no end */
    char close;  /* what ends the innermost bracket; 0 outside */
    bool strong; /* something of it is a formula beyond doubt */
    bool full;
} parser;

enum { DEEPEST = 24, STEPS = 500 };

static bool parse_relation(parser *p);
static bool parse_power(parser *p, bool spaced);

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void put(parser *p, const char *markup)
{
    const size_t length = strlen(markup);
    p->full = p->full || p->used + length >= ES_MATHML_ROOM;
    if (p->full)
        return;
    memcpy(p->out + p->used, markup, length + 1);
    p->used += length;
}

static void put_part(parser *p, const char *tag, const char *text, size_t length)
{
    char part[128];
    snprintf(part, sizeof part, "<%s>%.*s</%s>", tag, (int)(length < 64 ? length : 64), text, tag);
    put(p, part);
}

/* `markup` before what was written from `from` on. */
static void put_before(parser *p, size_t from, const char *markup)
{
    const size_t length = strlen(markup);
    p->full = p->full || p->used + length >= ES_MATHML_ROOM;
    if (p->full)
        return;
    memmove(p->out + from + length, p->out + from, p->used - from + 1);
    memcpy(p->out + from, markup, length);
    p->used += length;
}

static bool go_back(parser *p, const parser *to)
{
    const bool full = p->full;
    const int steps = p->steps;
    *p = *to;
    p->full = full;
    p->steps = steps;
    p->out[p->used] = '\0';
    return false;
}

static bool skip_spaces(parser *p)
{
    const char *from = p->at;
    p->at += strspn(p->at, " ");
    return p->at > from;
}

/* ---- numbers and names ---- */

/* 12, 0.5, 1e+06 */
static bool parse_number(parser *p)
{
    const char *from = p->at;
    if (!is_digit(*from))
        return false;
    p->at += strspn(p->at, "0123456789");
    if (*p->at == '.' && is_digit(p->at[1]))
        p->at += 1 + strspn(p->at + 1, "0123456789");
    const size_t length = (size_t)(p->at - from);
    const bool powered = *p->at == 'e';
    const char *e = powered ? p->at + 1 + (p->at[1] == '+' || p->at[1] == '-') : p->at;
    if (!powered || !is_digit(*e)) {
        put_part(p, "mn", from, length);
        return true;
    }
    const bool minus = p->at[1] == '-';
    p->at = e + strspn(e, "0123456789");
    while (*e == '0' && is_digit(e[1]))
        e++;
    if (length > 1 || *from != '1') {
        put_part(p, "mn", from, length);
        put(p, "<mo>·</mo>");
    }
    put(p, minus ? "<msup><mn>10</mn><mrow><mo>−</mo>" : "<msup><mn>10</mn><mrow>");
    put_part(p, "mn", e, (size_t)(p->at - e));
    put(p, "</mrow></msup>");
    p->strong = true;
    return true;
}

static const char *greek_of(const char *name, size_t length)
{
    static const char *const letters[][2] = {
        {"alpha", "α"}, {"beta", "β"},   {"gamma", "γ"}, {"delta", "δ"}, {"epsilon", "ε"},
        {"eta", "η"},   {"theta", "θ"},  {"kappa", "κ"}, {"mu", "μ"},    {"nu", "ν"},
        {"xi", "ξ"},    {"pi", "π"},     {"rho", "ρ"},   {"tau", "τ"},   {"sigma", "σ"},
        {"phi", "φ"},   {"lambda", "λ"}, {"chi", "χ"},   {"psi", "ψ"},   {"omega", "ω"},
        {"Gamma", "Γ"}, {"Delta", "Δ"},  {"Sigma", "Σ"}, {"Phi", "Φ"},   {"Psi", "Ψ"},
        {"Omega", "Ω"}};
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (strlen(letters[i][0]) == length && memcmp(letters[i][0], name, length) == 0)
            return letters[i][1];
    return NULL;
}

/* Names that stand before what they are applied to; as words of a sentence they do not. */
static const char *function_of(const char *name, size_t length)
{
    static const char *const functions[][2] = {
        {"ln", "<mi>ln</mi>"},   {"log", "<mi>log</mi>"}, {"exp", "<mi>exp</mi>"},
        {"max", "<mi>max</mi>"}, {"min", "<mi>min</mi>"}, {"sup", "<mi>sup</mi>"},
        {"cos", "<mi>cos</mi>"}, {"tr", "<mi>tr</mi>"},   {"sum", "<mo>∑</mo>"},
        {"grad", "<mo>∇</mo>"},  {"Var", "<mi>Var</mi>"}, {"Si", "<mi>Si</mi>"}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strlen(functions[i][0]) == length && memcmp(functions[i][0], name, length) == 0)
            return functions[i][1];
    return NULL;
}

/* ---- brackets ---- */

/* What is between the bracket at p->at and the one that closes it. `words`: it may hold some. */
static bool parse_inside(parser *p, char close, bool words)
{
    const parser old = *p;
    const char outer = p->close;
    p->at++;
    p->close = close;
    p->depth++;
    p->worded = words ? p->worded + 1 : 0;
    bool ok = parse_relation(p);
    while (ok && (skip_spaces(p), *p->at == ',')) {
        p->at++;
        put(p, "<mo>,</mo>");
        ok = parse_relation(p);
    }
    skip_spaces(p);
    if (!ok || *p->at != close)
        return go_back(p, &old);
    p->at++;
    p->close = outer;
    p->depth--;
    p->worded = old.worded;
    return true;
}

/* Of the size of the line: formulas stand in sentences. */
#define FENCE(sign) "<mo stretchy=\"false\">" sign "</mo>"
#define SLASH       "<mo lspace=\"0.05em\" rspace=\"0.05em\">/</mo>"

/* With its signs; `words` as above. Bars and angles, after a name or not, always may. */
static bool parse_bracket(parser *p, bool words)
{
    static const struct {
        char open, close;
        const char *left, *right;
    } kinds[] = {{'(', ')', FENCE("("), FENCE(")")},
                 {'|', '|', FENCE("|"), FENCE("|")},
                 {'<', '>', FENCE("⟨"), FENCE("⟩")}};
    const parser old = *p;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (*p->at != kinds[i].open || (*p->at == '|' && p->close == '|') || p->at[1] == ' ')
            continue;
        put(p, "<mrow>");
        put(p, kinds[i].left);
        if (!parse_inside(p, kinds[i].close, words || i > 0) ||
            (kinds[i].open == '<' && !memchr(old.at, ',', (size_t)(p->at - old.at)))) /* <q, k> */
            return go_back(p, &old);
        put(p, kinds[i].right);
        put(p, "</mrow>");
        p->strong = p->strong || i > 0;
        return true;
    }
    return false;
}

/* sqrt(x), sqrt x */
static bool parse_root(parser *p)
{
    const parser old = *p;
    p->at += strlen("sqrt");
    put(p, "<msqrt><mrow>");
    const bool ok =
        *p->at == '(' ? parse_inside(p, ')', true) : skip_spaces(p) && parse_power(p, false);
    if (!ok)
        return go_back(p, &old);
    put(p, "</mrow></msqrt>");
    p->strong = true;
    return true;
}

/* ---- atoms ---- */

static bool parse_function(parser *p, const char *markup, size_t length)
{
    const parser old = *p;
    p->at += length;
    put(p, markup);
    const parser bare = *p;
    if (parse_bracket(p, true))
        return p->strong = true;
    const bool spaced = skip_spaces(p);
    put(p, "<mspace width=\"0.17em\"/>");
    if (spaced && *p->at != '(' && parse_power(p, true))
        return true;
    go_back(p, &bare);
    return p->depth > 0 || go_back(p, &old); /* P(1 - cos <= t) */
}

/* "a few keys": a letter that is a word unless a sign follows it. */
static bool is_article(const parser *p, bool first)
{
    if (p->depth > 0 || !strchr(first ? "aAI" : "aI", *p->at))
        return false;
    const char *next = p->at + 1 + strspn(p->at + 1, " ");
    return !*next || !strchr("=<>+-/^_'~)", *next) || (*next == '<' && next[1] != '=');
}

static bool parse_words(parser *p)
{
    const char *from = p->at;
    const parser old = *p;
    while (is_letter(*p->at)) {
        p->at += strspn(p->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (!p->close || *p->at != ' ' || !is_letter(p->at[1]))
            break;
        p->at++;
    }
    if (p->at - from > 60)
        return go_back(p, &old);
    put_part(p, "mtext", from, (size_t)(p->at - from));
    return true;
}

static bool parse_letter(parser *p, bool first)
{
    const char *from = p->at;
    if (is_article(p, first))
        return false;
    p->strong = p->strong || !strchr("aAI", *from);
    p->at++;
    if (is_upper(*from) && is_digit(*p->at) && !is_digit(p->at[1])) { /* H1 */
        put(p, "<msub>");
        put_part(p, "mi", from, 1);
        put_part(p, "mn", p->at++, 1);
        put(p, "</msub>");
    } else {
        put_part(p, "mi", from, 1);
    }
    return true;
}

static bool parse_name(parser *p, bool first)
{
    const char *from = p->at;
    size_t length = 0;
    while (is_letter(from[length]))
        length++;
    const char *greek = greek_of(from, length), *function = function_of(from, length);
    if (length == 1)
        return parse_letter(p, first);
    if (length == 4 && memcmp(from, "sqrt", 4) == 0)
        return parse_root(p);
    if (function)
        return parse_function(p, function, length);
    if (greek) {
        p->at += length;
        put_part(p, "mi", greek, strlen(greek));
        return p->strong = true;
    }
    if (length == 2 && *from == 'W' && strchr("kqvo", from[1])) {
        p->at += 2;
        put(p, "<msub><mi>W</mi>");
        put_part(p, "mi", from + 1, 1);
        put(p, "</msub>");
        return p->strong = true;
    }
    return p->worded > 0 && length > 0 && parse_words(p);
}

/* ---- powers and indices ---- */

/* What stands above or below: (a+b), {d/2}, 2, -a, 1/2. */
static bool parse_raised(parser *p, bool above)
{
    put(p, "<mrow>");
    if (above && *p->at == '-') {
        p->at++;
        put(p, "<mo>−</mo>");
    }
    bool ok = true;
    if (*p->at == '(' || *p->at == '{') {
        ok = parse_inside(p, *p->at == '(' ? ')' : '}', true);
    } else if (above && strncmp(p->at, "1/2", 3) == 0 && !is_digit(p->at[3])) {
        p->at += 3;
        put(p, "<mn>1</mn>" SLASH "<mn>2</mn>");
    } else if (is_digit(*p->at)) {
        ok = parse_number(p);
    } else {
        p->depth++;  /* e^-a: no article */
        p->worded++; /* n^-rate */
        ok = is_letter(*p->at) && parse_name(p, false);
        p->depth--;
        p->worded--;
    }
    put(p, "</mrow>");
    return ok;
}

/* One ', ^ or _ behind what was written from `from` on. */
static bool parse_postfix(parser *p, size_t from)
{
    const parser old = *p;
    const char sign = *p->at;
    if (sign == '\'' && p->at[1] != 's') {
        p->at++;
        put_before(p, from, "<mrow>");
        put(p, "<mi>′</mi></mrow>");
        return true;
    }
    if (sign != '^' && sign != '_')
        return false;
    p->at++;
    if (parse_raised(p, sign == '^')) {
        p->strong = true;
        put_before(p, from, sign == '^' ? "<msup>" : "<msub>");
        put(p, sign == '^' ? "</msup>" : "</msub>");
        return true;
    }
    go_back(p, &old);
    if (sign == '_' || is_letter(p->at[1]) || is_digit(p->at[1]))
        return false;
    p->at++; /* rho^: with a hat */
    p->strong = true;
    put_before(p, from, "<mover>");
    put(p, "<mo>^</mo></mover>");
    return true;
}

/* `spaced`: it stands behind another with a space between them. */
static bool parse_power(parser *p, bool spaced)
{
    const parser old = *p;
    const size_t from = p->used;
    if (p->full || p->nested >= DEEPEST || p->steps++ >= STEPS)
        return false;
    p->nested++;
    const bool name = is_letter(*p->at);
    bool ok = is_digit(*p->at) ? parse_number(p)
              : name           ? parse_name(p, !spaced)
                               : parse_bracket(p, false);
    while (ok && parse_postfix(p, from))
        ;
    const parser call = *p;
    if (ok && name && (*p->at == '(' || *p->at == '|') && !parse_bracket(p, true)) /* C(R), E|x| */
        go_back(p, &call);
    else
        p->strong = p->strong || (ok && p->at != call.at);
    while (ok && p->at != call.at && parse_postfix(p, call.used))
        ;
    p->nested = old.nested;
    return ok || go_back(p, &old);
}

/* ---- products, sums, relations ---- */

/* What may follow without a sign: 2 ln n, b' Gamma(x), 2(1+H). */
static bool parse_factor(parser *p, char before)
{
    const bool spaced = skip_spaces(p);
    const bool digit = is_digit(*p->at), bracket = *p->at == '(' || *p->at == '<';
    if (*p->at == '/' && !spaced) {
        p->at++;
        put(p, SLASH);
        return parse_power(p, false);
    }
    if (*p->at == '|' && p->close == '|')
        return false;
    if (!spaced && is_letter(*p->at))
        return (before == ')' || before == '\'') && parse_power(p, true);
    if (digit && !(spaced && is_digit(before) && strncmp(p->at, "10^", 3) == 0))
        return false;
    if (bracket && spaced && (p->depth == 0 || *p->at == '<'))
        return false;
    put(p, digit ? "<mo>·</mo>" : spaced ? "<mspace width=\"0.17em\"/>" : "");
    return parse_power(p, true);
}

static bool parse_product(parser *p)
{
    const parser start = *p;
    if (*p->at == '-' && p->at[1] != '-') {
        p->at++;
        put(p, "<mo>−</mo>");
    }
    if (!parse_power(p, false))
        return go_back(p, &start);
    for (;;) {
        const parser old = *p;
        if (*p->at == ' ' && p->at[1] == '/' && p->at[2] == ' ') { /* a / b */
            p->at += 3;
            put(p, SLASH);
            if (!parse_power(p, false))
                return go_back(p, &old), true;
        } else if (!parse_factor(p, p->at[-1])) {
            return go_back(p, &old), true;
        }
    }
}

static const char *sign_of(parser *p)
{
    static const char *const signs[][2] = {{"<=", "≤"}, {">=", "≥"}, {"->", "→"}, {"+-", "±"},
                                           {"=", "="},  {"~", "∼"},  {"+", "+"},  {"-", "−"},
                                           {"<", "<"},  {">", ">"}};
    const bool spaced = skip_spaces(p);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const size_t length = strlen(signs[i][0]);
        if (strncmp(p->at, signs[i][0], length) != 0)
            continue;
        const bool loose = spaced && p->at[length] == ' ', single = i >= 8;
        if ((single && !loose) || (spaced && !loose)) /* n -x, <q, k> */
            return NULL;
        p->at += length;
        p->strong = p->strong || (i != 3 && i != 6 && i != 7);
        return single ? (i == 8 ? "&lt;" : "&gt;") : signs[i][1];
    }
    return NULL;
}

/* Browsers break no line inside a formula: a long one becomes two, behind a sign. */
static void end_line(parser *p)
{
    enum { LONG = 18 };
    if (p->depth > 0 || p->at - p->line < LONG)
        return;
    put(p, "</mrow></math><wbr><math><mrow>");
    p->line = p->at;
}

/* Sums and relations, in one go: precedence does not change how they are set. */
static bool parse_relation(parser *p)
{
    skip_spaces(p);
    if (p->nested >= DEEPEST || !parse_product(p))
        return false;
    for (;;) {
        const parser old = *p;
        const char *sign = sign_of(p);
        if (!sign)
            return go_back(p, &old), true;
        put(p, "<mo form=\"infix\">");
        put(p, sign);
        put(p, "</mo>");
        end_line(p);
        skip_spaces(p);
        if (!parse_product(p))
            return go_back(p, &old), true;
    }
}

/* Does a formula end here, or is it the beginning of a word, a number, a file's name? */
static bool is_end(const char *at)
{
    if (is_letter(*at) || is_digit(*at) || (unsigned char)*at >= 0x80 || strchr("_^(|/", *at))
        return *at == '\0';
    if (strchr("-.'=<>@:", *at) && *at)
        return !(is_letter(at[1]) || is_digit(at[1]) || at[1] == '/');
    return true;
}

size_t es_mathml_parse(const char *text, char out[ES_MATHML_ROOM])
{
    parser p = {.at = text, .line = text, .out = out};
    out[0] = '\0';
    if (!parse_relation(&p) || !p.strong || p.full || !is_end(p.at))
        return 0;
    return (size_t)(p.at - text);
}

/* ---- sentences ---- */

/* One sign for what a terminal writes with two, where it stands alone. */
static size_t put_sign(es_sink *s, const char *text, const char *at)
{
    static const char *const signs[][2] = {
        {"+-", "±"}, {"<=", "≤"}, {">=", "≥"}, {"->", "→"}, {"~", "≈"}};
    const bool begins = at == text || at[-1] == ' ' || at[-1] == '(';
    for (size_t i = 0; begins && i < sizeof signs / sizeof *signs; i++) {
        const size_t length = strlen(signs[i][0]);
        if (strncmp(at, signs[i][0], length) == 0 && strchr(" ,;:)", at[length])) {
            es_sink_put(s, signs[i][1]);
            return length;
        }
    }
    if (begins && *at == '-' && is_digit(at[1])) {
        es_sink_put(s, "−");
        return 1;
    }
    return 0;
}

/* Up to `at`, as it is. */
static void put_plain(es_sink *s, const char **from, const char *at)
{
    char piece[ES_SINK_LONGEST + 1];
    const size_t length = (size_t)(at - *from);
    memcpy(piece, *from, length);
    piece[length] = '\0';
    es_sink_text(s, piece);
    *from = at;
}

/* The comma behind a formula is set with it: a line must not begin with one. */
static size_t put_formula(es_sink *s, const char *formula, const char *at, size_t length)
{
    const size_t stops = strspn(at + length, ",.;:)");
    es_sink_put(s, "<math><mrow>");
    es_sink_put(s, formula);
    if (stops)
        es_sink_format(s, "<mtext>%.*s</mtext>", (int)stops, at + length);
    es_sink_put(s, "</mrow></math>");
    return length + stops;
}

void es_mathml_text(es_sink *s, const char *text)
{
    char formula[ES_MATHML_ROOM];
    const char *from = text;
    if (strlen(text) > ES_SINK_LONGEST) {
        es_sink_text(s, text);
        return;
    }
    for (const char *at = text; *at;) {
        const bool begins = at == text || at[-1] == ' ' || (at[-1] == '(' && at[0] != '(');
        const size_t length = begins ? es_mathml_parse(at, formula) : 0;
        if (begins)
            put_plain(s, &from, at);
        const size_t taken = length ? put_formula(s, formula, at, length) : put_sign(s, text, at);
        at += taken ? taken : 1;
        from = taken ? at : from;
    }
    put_plain(s, &from, from + strlen(from));
}
