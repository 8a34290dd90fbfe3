/* SPDX-License-Identifier: Apache-2.0 */
#include "text/pattern.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/memory.h"

struct es_pattern {
    pcre2_code *code;
    bool streams;
    es_mem_limit *budget;
    size_t charged;
    char text[]; /* as the file has it, for messages */
};

struct es_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    es_mem_limit *budget;
    double
        work; /* bytes that were looked at more than once or from afar, and steps, of all matches */
    double done; /* bytes of text behind which all matches have been found */
};

/* ---- from Oniguruma's syntax to PCRE2's ---- */

/* A pattern while it is copied. Nothing grows by more than the longest replacement. */
typedef struct copier {
    const char *from;
    char *to;
    size_t used;
    int classes;    /* depth of [...] */
    bool streams;   /* nothing looks back */
    const char *no; /* what means another thing here, NULL: nothing */
} copier;

/* White_Space, which PCRE2 has by name only since 10.40. Its own \s has U+180E in addition, which
 * is let pass in the one place where there is no other way to write it: \S in a class. */
static const char white[] = "[\\t-\\r\\x{85}\\p{Z}]", no_white[] = "[^\\t-\\r\\x{85}\\p{Z}]";

/* Appends bytes to the translated pattern. */
static void put(copier *c, const char *text, size_t bytes)
{
    memcpy(c->to + c->used, text, bytes);
    c->used += bytes;
}

/* Copies an escape, the backslash and one character, or notes that it means something else here. */
static void copy_escape(copier *c)
{
    const char letter = c->from[1];
    if (letter == 's' && c->classes)
        put(c, white + 1, sizeof white - 3); /* without its brackets */
    else if (letter == 's')
        put(c, white, sizeof white - 1);
    else if (letter == 'S' && !c->classes)
        put(c, no_white, sizeof no_white - 1);
    else
        put(c, c->from, letter ? 2 : 1);
    if (letter == 'h' || letter == 'H')
        c->no = "\\h, a hexadecimal digit in Oniguruma and a blank in PCRE2";
    if (letter == 'K' || letter == 'C')
        c->no = letter == 'K' ? "\\K" : "\\C";
    if (letter && strchr("AZzGbB", letter) && !c->classes)
        c->streams = false;
    c->from += letter ? 2 : 1;
}

/* Copies one character that is no escape. */
static void copy_character(copier *c)
{
    const char here = *c->from, next = here ? c->from[1] : '\0';
    if (c->classes && here == '&' && next == '&')
        c->no = "&&, an intersection of classes";
    if (c->classes && here == '[' && next != ':')
        c->no = "a class in a class";
    if (!c->classes && (here == '^' || here == '$' || (here == '(' && next == '*')))
        c->streams = false;
    if (!c->classes && strncmp(c->from, "(?<", 3) == 0)
        c->streams = false;
    if (here == '[' && !c->classes) {
        c->classes = 1;
        /* a ']' that stands first in a class is a member of it */
        const size_t caret = next == '^' ? 2 : 1, opening = caret + (c->from[caret] == ']' ? 1 : 0);
        put(c, c->from, opening);
        c->from += opening;
        return;
    }
    if (here == '[' && next == ':') { /* [:alpha:] */
        const char *close = strstr(c->from, ":]");
        const size_t bytes = close ? (size_t)(close - c->from) + 2 : 1;
        put(c, c->from, bytes);
        c->from += bytes;
        return;
    }
    if (here == ']')
        c->classes = 0;
    put(c, c->from++, 1);
}

/* Rewrites a pattern of Hugging Face's regex crate for PCRE2. Fails for constructs that mean
 * different things in the two. */
static es_status translate(const char *text, const char *path, char *out, size_t *bytes,
                           bool *streams, es_error *err)
{
    copier c = {.from = text, .to = out, .streams = true};
    while (*c.from)
        *c.from == '\\' ? copy_escape(&c) : copy_character(&c);
    if (c.no)
        return es_fail_file(err, ES_E_UNSUPPORTED, path, -1, "tokenizer.pattern",
                            "write the pattern without it", "the pattern \"%.200s\" has %s", text,
                            c.no);
    *bytes = c.used;
    *streams = c.streams;
    return ES_OK;
}

/* ---- compiling ---- */

/* Compiles a pattern. PCRE2_MULTILINE gives ^ and $ the meaning they have in Ruby and, by default,
 * in Oniguruma. */
static es_status compile(es_pattern *p, const char *text, size_t bytes, bool literal,
                         const char *path, es_error *err)
{
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return es_fail(err, ES_E_MEMORY, "memory", "free some memory", "no memory for a pattern");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    p->code = pcre2_compile(
        (PCRE2_SPTR)text, bytes,
        PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_DOLLAR_ENDONLY),
        &code, &at, context);
    pcre2_compile_context_free(context);
    if (!p->code) {
        PCRE2_UCHAR said[160] = "";
        pcre2_get_error_message(code, said, sizeof said);
        return es_fail_file(err, ES_E_UNSUPPORTED, path, -1, "tokenizer.pattern",
                            "compare with a file that Hugging Face's tokenizers wrote",
                            "the pattern \"%.200s\" is not valid in PCRE2: %s", p->text,
                            (const char *)said);
    }
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD); /* or it is slower */
    return ES_OK;
}

/* PCRE2's own memory is bounded by the length of the pattern: at most 64 KiB of code, and machine
 * code of that. It is charged by a bound. */
enum { CHARGE_PER_BYTE = 64, CHARGE_ANYWAY = 16384 };

/* Charges the memory that PCRE2 will take, translates the pattern and compiles it. */
static es_status build(es_pattern *p, size_t bytes, bool literal, const char *path, es_error *err)
{
    const size_t most = bytes * sizeof no_white; /* \S is two bytes and becomes all of it */
    const size_t charge = CHARGE_ANYWAY + bytes * CHARGE_PER_BYTE;
    size_t used = bytes;
    char *copy;
    ES_TRY(es_mem_limit_charge(p->budget, charge, "pattern", err));
    p->charged = charge;
    if (literal)
        return compile(p, p->text, bytes, true, path, err);
    ES_TRY(ES_MEM_BYTES(p->budget, copy, most, "pattern", err));
    es_status status = translate(p->text, path, copy, &used, &p->streams, err);
    if (status == ES_OK)
        status = compile(p, copy, used, false, path, err);
    es_mem_free(p->budget, copy);
    return status;
}

es_status es_pattern_open(const char *text, bool literal, const char *path, es_mem_limit *budget,
                          es_pattern **out, es_error *err)
{
    const size_t bytes = strlen(text);
    es_pattern *p;
    *out = NULL;
    if (bytes == 0 || bytes > ES_PATTERN_MOST_BYTES)
        return es_fail_file(err, ES_E_UNSUPPORTED, path, -1, "tokenizer.pattern",
                            "shorten the pattern", "a pattern of %zu bytes; 1 to %d are possible",
                            bytes, ES_PATTERN_MOST_BYTES);
    ES_TRY(ES_MEM_BYTES(budget, p, sizeof *p + bytes + 1, "pattern", err));
    p->budget = budget;
    p->streams = true;
    memcpy(p->text, text, bytes);
    const es_status status = build(p, bytes, literal, path, err);
    if (status != ES_OK) {
        es_pattern_close(p);
        return status;
    }
    *out = p;
    return ES_OK;
}

void es_pattern_close(es_pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    es_mem_limit_release(p->budget, p->charged);
    es_mem_free(p->budget, p);
}

bool es_pattern_streams(const es_pattern *p) { return p->streams; }

/* ---- matching ---- */

/* A search looks at a window of the text, and at more of it only if it comes to its end; it may
 * take some steps, and more only if they do not suffice. So what a match costs is known, and that
 * of all matches together is bounded by the text: a pattern that looks to the end of the text from
 * every place of it (a*b|a), or takes its full number of steps everywhere, would else take hours
 * although no match of it takes long. Words of the first window, in the first steps, are not
 * counted. */
enum { FIRST_WINDOW = 256, FIRST_STEPS = 4096, MORE = 4 };
enum { WORK_ANYWAY = 1 << 22, WORK_PER_BYTE = 64 };

/* Backtracking into a run of n characters takes n steps, which is normal on a line of white
 * space; a pattern that explodes takes 2^n. A limit that grows with the text separates the two. */
enum { STEPS_ANYWAY = 1 << 16, STEPS_PER_BYTE = 8, MOST_DEPTH = 1 << 20, MOST_HEAP_KIB = 1 << 16 };

es_status es_matcher_open(es_mem_limit *budget, es_matcher **out, es_error *err)
{
    es_matcher *m;
    ES_TRY(ES_MEM_NEW(budget, m, 1, "pattern", err));
    *m = (es_matcher){.data = pcre2_match_data_create(1, NULL),
                      .context = pcre2_match_context_create(NULL),
                      .budget = budget};
    *out = m;
    if (!m->data || !m->context)
        return es_fail(err, ES_E_MEMORY, "memory", "free some memory", "no memory for a match");
    pcre2_set_depth_limit(m->context, MOST_DEPTH);
    pcre2_set_heap_limit(m->context, MOST_HEAP_KIB);
    return ES_OK;
}

void es_matcher_close(es_matcher *m)
{
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    es_mem_free(m->budget, m);
}

double es_matcher_work(const es_matcher *m) { return m->work; }

/* Fails because matching takes too long. */
static es_status fail_match(const es_pattern *p, const char *why, es_error *err)
{
    return es_fail(err, ES_E_LIMIT, "tokenizer.pattern", "simplify the pattern of tokenizer.json",
                   "the pattern \"%.200s\" takes too long on this text: %s", p->text, why);
}

/* Matches by machine code, and by the interpreter if the stack of the machine code does not
 * suffice. */
static int match(const es_pattern *p, es_matcher *m, const unsigned char *text, size_t bytes,
                 size_t from, uint32_t options, uint64_t steps)
{
    pcre2_set_match_limit(m->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    const int code = pcre2_match(p->code, text, bytes, from, options, m->data, m->context);
    return code == PCRE2_ERROR_JIT_STACKLIMIT
               ? pcre2_match(p->code, text, bytes, from, options | PCRE2_NO_JIT, m->data,
                             m->context)
               : code;
}

/* Returns the end of a window, moved to the end of a character. */
static size_t end_of_window(const unsigned char *text, size_t bytes, size_t from, size_t window)
{
    size_t end = bytes - from > window ? from + window : bytes;
    while (end < bytes && (text[end] & 0xc0) == 0x80)
        end++;
    return end;
}

/* Searches the text from `from` on, in windows that grow only as far as the match needs. *code is
 * the answer of PCRE2. */
static es_status search(const es_pattern *p, es_matcher *m, const unsigned char *text, size_t bytes,
                        size_t from, bool last, int *code, es_error *err)
{
    const uint64_t most = STEPS_ANYWAY + (uint64_t)STEPS_PER_BYTE * bytes;
    uint64_t steps = FIRST_STEPS;
    for (size_t window = FIRST_WINDOW;;) {
        const size_t end = end_of_window(text, bytes, from, window);
        const uint32_t partial = end < bytes || !last ? PCRE2_PARTIAL_HARD : 0;
        *code = match(p, m, text, end, from, PCRE2_NO_UTF_CHECK | partial, steps);
        m->work += (window > FIRST_WINDOW ? (double)(end - from) : 0.0) +
                   (steps > FIRST_STEPS ? (double)steps : 0.0);
        if (m->work > WORK_ANYWAY + WORK_PER_BYTE * (m->done + (double)bytes))
            return fail_match(p, "it backtracks too much", err);
        if (*code == PCRE2_ERROR_MATCHLIMIT && steps < most)
            steps = MORE * steps < most ? MORE * steps : most;
        else if (end < bytes && (*code == PCRE2_ERROR_PARTIAL || *code == PCRE2_ERROR_NOMATCH))
            window *= MORE;
        else
            return ES_OK;
    }
}

es_status es_pattern_find(const es_pattern *p, es_matcher *m, const unsigned char *text,
                          size_t bytes, size_t from, bool last, es_found *found, size_t *begin,
                          size_t *end, es_error *err)
{
    int code;
    ES_TRY(search(p, m, text, bytes, from, last, &code, err));
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(m->data);
    *found = code == PCRE2_ERROR_PARTIAL   ? ES_FOUND_WAIT
             : code == PCRE2_ERROR_NOMATCH ? ES_FOUND_NONE
                                           : ES_FOUND_MATCH;
    if (code < 0 && *found == ES_FOUND_MATCH) {
        PCRE2_UCHAR said[160] = "";
        pcre2_get_error_message(code, said, sizeof said);
        return fail_match(p, (const char *)said, err);
    }
    if (*found == ES_FOUND_MATCH) {
        *begin = range[0];
        *end = range[1] > range[0] ? range[1] : range[0];
        m->done += (double)(*end - from);
    }
    return ES_OK;
}
