/* SPDX-License-Identifier: Apache-2.0 */
#include "report/formula.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 8 }; /* brackets that are raised inside each other; deeper ones stay in line */

/* `length` bytes of a text, escaped. */
static void put_plain(es_sink *s, const char *text, size_t length)
{
    char piece[ES_SINK_LONGEST + 1];
    if (length == 0)
        return;
    memcpy(piece, text, length);
    piece[length] = '\0';
    es_sink_text(s, piece);
}

/* ---- signs and names ---- */

/* A sign that terminals write with two characters: its bytes, 0 if there is none. */
static size_t sign_at(const char *at, const char **out)
{
    static const char *const signs[][2] = {{"+-", "±"}, {"<=", "≤"}, {">=", "≥"}, {"->", "→"}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strncmp(at, signs[i][0], 2) == 0) {
            *out = signs[i][1];
            return 2;
        }
    return 0;
}

/* What stands for a name of several letters; NULL: the name itself. */
static const char *symbol_of(const char *name, size_t length)
{
    static const char *const symbols[][2] = {
        {"alpha", "α"}, {"beta", "β"},   {"gamma", "γ"}, {"delta", "δ"}, {"epsilon", "ε"},
        {"eta", "η"},   {"theta", "θ"},  {"kappa", "κ"}, {"mu", "μ"},    {"nu", "ν"},
        {"xi", "ξ"},    {"pi", "π"},     {"rho", "ρ"},   {"tau", "τ"},   {"sigma", "σ"},
        {"phi", "φ"},   {"lambda", "λ"}, {"chi", "χ"},   {"psi", "ψ"},   {"omega", "ω"},
        {"Gamma", "Γ"}, {"Delta", "Δ"},  {"Sigma", "Σ"}, {"Phi", "Φ"},   {"Psi", "Ψ"},
        {"Omega", "Ω"}, {"sqrt", "√"},   {"sum", "∑"},   {"grad", "∇"}};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strlen(symbols[i][0]) == length && memcmp(symbols[i][0], name, length) == 0)
            return symbols[i][1];
    return NULL;
}

/* Returns the length of a name of letters. */
static size_t name_length(const char *at, size_t left)
{
    size_t length = 0;
    while (length < left && isalpha((unsigned char)at[length]))
        length++;
    return length;
}

/* A letter, a Greek letter, a function or a word; W_k and H_1 are written Wk and H1. Returns its
 * bytes. */
static size_t put_name(es_sink *s, const char *at, size_t left)
{
    const size_t length = name_length(at, left);
    const char *symbol = symbol_of(at, length);
    const bool index = length == 2 && *at == 'W' && strchr("kqvo", at[1]);
    const bool number = length == 1 && isupper((unsigned char)*at) && left > 1 &&
                        isdigit((unsigned char)at[1]) &&
                        !(left > 2 && isdigit((unsigned char)at[2]));
    if (symbol)
        es_sink_put(s, symbol);
    else if (index || number)
        es_sink_format(s, "<i>%c</i><sub>%c</sub>", at[0], at[1]);
    else if (length == 1)
        es_sink_format(s, "<i>%c</i>", *at);
    else
        put_plain(s, at, length);
    return index || number ? 2 : length;
}

/* ---- formulas ---- */

static void put_formula(es_sink *s, const char *at, size_t length, int depth);

/* Bytes up to the bracket that closes the one at `at`, both included; 0 if none does. */
static size_t bracket_length(const char *at, size_t left)
{
    const char open = *at, close = open == '(' ? ')' : '}';
    int depth = 0;
    for (size_t i = 0; i < left; i++) {
        depth += at[i] == open;
        depth -= at[i] == close;
        if (depth == 0)
            return i + 1;
    }
    return 0;
}

/* Bytes of what `^` or `_` raises or lowers: -a, 0.5, 1/2, rate; 0 if nothing follows. */
static size_t raised_length(const char *at, size_t left)
{
    const size_t minus = left > 0 && *at == '-';
    size_t end = minus;
    while (end < left &&
           (isdigit((unsigned char)at[end]) || (end > minus && at[end] == '.' && end + 1 < left &&
                                                isdigit((unsigned char)at[end + 1]))))
        end++;
    if (end > minus) /* of fractions only x^1/2 is one: x^2/2 is half of x^2 */
        return end - minus == 1 && left - end >= 2 && strncmp(at + minus, "1/2", 3) == 0 ? end + 2
                                                                                         : end;
    end += name_length(at + minus, left - minus);
    return end > minus ? end : 0;
}

/* What follows `^` or `_` at `at`, with its tag. Returns the bytes of all of it; 0: nothing does.
 */
static size_t put_raised(es_sink *s, const char *at, size_t left, int depth)
{
    const char *tag = *at == '^' ? "sup" : "sub";
    const bool bracket = left > 1 && (at[1] == '(' || at[1] == '{');
    const size_t length =
        bracket ? bracket_length(at + 1, left - 1) : raised_length(at + 1, left - 1);
    if (length == 0 || depth >= DEEPEST)
        return 0;
    es_sink_format(s, "<%s>", tag);
    put_formula(s, at + 1 + bracket, length - 2 * (size_t)bracket, depth + 1);
    es_sink_format(s, "</%s>", tag);
    return 1 + length;
}

/* Writes a formula as HTML: names, powers and indices, and signs. */
static void put_formula(es_sink *s, const char *at, size_t length, int depth)
{
    for (const char *end = at + length; at < end;) {
        const size_t left = (size_t)(end - at);
        const char *sign;
        size_t taken = 0;
        if (isalpha((unsigned char)*at)) {
            taken = put_name(s, at, left);
        } else if (*at == '^' || *at == '_') {
            taken = put_raised(s, at, left, depth);
        } else if (left > 1 && (taken = sign_at(at, &sign))) {
            es_sink_put(s, sign);
        } else if (*at == '-' || *at == '\'' || *at == '~') {
            es_sink_put(s, *at == '-' ? "−" : *at == '~' ? "∼" : "′");
            taken = 1;
        }
        if (!taken) { /* a number, a bracket, a letter of another alphabet */
            taken = 1;
            while (taken < left && ((unsigned char)at[taken] & 0xc0) == 0x80)
                taken++;
            put_plain(s, at, taken);
        }
        at += taken;
    }
}

/* Words and options, such as `esscher export --csv`: names of the program's, no formula. */
static bool is_code(const char *at, size_t length)
{
    bool word = false;
    for (size_t i = 0; i < length; i++) {
        if (!isalpha((unsigned char)at[i]) && at[i] != ' ' && at[i] != '-')
            return false;
        word =
            word || (i > 0 && isalpha((unsigned char)at[i]) && isalpha((unsigned char)at[i - 1]));
    }
    return word && !symbol_of(at, length);
}

/* Writes a marked part as code, if it is words alone, or as a formula. */
static void put_marked(es_sink *s, const char *at, size_t length)
{
    const bool code = is_code(at, length);
    es_sink_put(s, code ? "<code>" : "<span class=\"formula\">");
    if (code)
        put_plain(s, at, length);
    else
        put_formula(s, at, length, 0);
    es_sink_put(s, code ? "</code>" : "</span>");
}

/* ---- sentences ---- */

/* One sign for what a terminal writes with two, where it stands alone; and a minus before a
 * number. Returns the bytes it takes. */
static size_t put_sign(es_sink *s, const char *text, const char *at)
{
    const char *sign = NULL;
    const bool begins = at == text || at[-1] == ' ' || at[-1] == '(';
    const size_t length = begins ? sign_at(at, &sign) : 0;
    if (length && strchr(" ,;:)", at[length])) {
        es_sink_put(s, sign);
        return length;
    }
    if (begins && ((*at == '-' && isdigit((unsigned char)at[1])) || (*at == '~' && at[1] == ' '))) {
        es_sink_put(s, *at == '-' ? "−" : "≈");
        return 1;
    }
    return 0;
}

void es_formula_html(es_sink *s, const char *text)
{
    const char *from = text;
    if (strlen(text) > ES_SINK_LONGEST) {
        es_sink_text(s, text);
        return;
    }
    for (const char *at = text; *at;) {
        const char *end = *at == '`' ? strchr(at + 1, '`') : NULL;
        const bool starts = end || (strchr("+<>-~", *at) && (at == text || strchr(" (", at[-1])));
        if (!starts) {
            at++;
            continue;
        }
        put_plain(s, from, (size_t)(at - from));
        from = at;
        if (end) {
            put_marked(s, at + 1, (size_t)(end - at) - 1);
            from = at = end + 1;
        } else {
            const size_t taken = put_sign(s, text, at);
            at += taken ? taken : 1;
            from += taken;
        }
    }
    put_plain(s, from, strlen(from));
}
