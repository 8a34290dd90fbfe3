/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.c : labelled lines and paragraphs, out of files that are distrusted. */
#include "model/tasks.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "store/file.h"

/* Where the reader stands. */
typedef struct reader {
    const char *text, *end, *at;
    const char *file;
    int64_t line; /* from 1 */
} reader;

/* Fails with the line number, which editors show, besides the byte. */
static es_status refuse(const reader *r, const char *at, const char *rule, const char *hint,
                        const char *what, es_error *err)
{
    const es_status status =
        es_fail_file(err, strcmp(rule, "tasks.rows") == 0 ? ES_E_EMPTY : ES_E_FORMAT, r->file,
                     at - r->text, rule, hint, "line %lld: %s", (long long)r->line, what);
    if (err)
        err->row = r->line;
    return status;
}

/* ---- lines ---- */

/* One line without its end; the reader moves behind it. */
typedef struct span {
    const char *from, *to;
} span;

/* Returns the next line without its end, whether LF or CRLF. */
static span next_line(reader *r)
{
    const size_t left = (size_t)(r->end - r->at);
    const char *newline = left ? memchr(r->at, '\n', left) : NULL;
    span line = {r->at, newline ? newline : r->end};
    r->at = newline ? newline + 1 : r->end;
    if (line.to > line.from && line.to[-1] == '\r')
        line.to--;
    return line;
}

/* Returns whether a character is white space within a line. */
static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Returns the span without spaces at both ends. */
static span trimmed(span s)
{
    while (s.from < s.to && is_space(*s.from))
        s.from++;
    while (s.to > s.from && is_space(s.to[-1]))
        s.to--;
    return s;
}

/* Returns whether a line has only white space. */
static bool is_blank(span s)
{
    s = trimmed(s);
    return s.from == s.to;
}

/* ---- labels ---- */

/* Returns whether the span consists of digits. */
static bool is_number(span s)
{
    if (s.from == s.to)
        return false;
    for (const char *p = s.from; p < s.to; p++)
        if (*p < '0' || *p > '9')
            return false;
    return true;
}

/* Returns an ASCII letter in lower case. */
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Returns whether the span is `name`, ignoring the case of ASCII letters. */
static bool same_name(span s, const char *name)
{
    const size_t length = strlen(name);
    if (!length || (size_t)(s.to - s.from) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (lower(s.from[i]) != lower(name[i]))
            return false;
    return true;
}

/* Digits as a number; nine of them are beyond any classifier. */
static int64_t number_of(span s)
{
    int64_t number = 0;
    for (const char *p = s.from; p < s.to && s.to - s.from <= 9; p++)
        number = 10 * number + (*p - '0');
    return s.to - s.from <= 9 ? number : INT64_MAX;
}

/* Returns the number of a label, -1 if the classifier does not have it. */
static int64_t label_of(span s, const es_model_config *c)
{
    if (is_number(s))
        return number_of(s) < c->labels ? number_of(s) : -1;
    for (int64_t i = 0; i < c->labels && i < ES_MODEL_LABELS; i++) {
        char plain[24];
        snprintf(plain, sizeof plain, "LABEL_%d", (int)i);
        if (same_name(s, c->label[i]) || same_name(s, plain))
            return i;
    }
    return -1;
}

/* Fails for a label that the classifier does not have; the hint lists what it accepts. */
static es_status refuse_label(const reader *r, span label, const es_model_config *c, es_error *err)
{
    char what[128], hint[96];
    snprintf(what, sizeof what, "\"%.*s\" is no label of this classifier",
             (int)(label.to - label.from < 40 ? label.to - label.from : 40), label.from);
    snprintf(hint, sizeof hint, "a number from 0 to %lld, or a name of id2label in config.json",
             (long long)c->labels - 1);
    return refuse(r, label.from, "tasks.label", hint,
                  label.from == label.to ? "missing label after the tab" : what, err);
}

/* ---- a labelled file ---- */

/* Appends a text with its label. */
static es_status add(es_tasks *out, span text, int64_t label, int64_t line, es_error *err)
{
    ES_TRY(ES_MEM_GROW(out->budget, out->at, &out->capacity, out->count + 1, "texts", err));
    out->at[out->count++] = (es_task){
        .text = text.from, .bytes = (size_t)(text.to - text.from), .label = label, .line = line};
    return ES_OK;
}

/* Reads one line: sentence, tab, label. The first line may be a header, which is recognised by
 * its label. */
static es_status read_line(const reader *r, span line, const es_model_config *config, bool first,
                           es_tasks *out, es_error *err)
{
    const char *tab = memchr(line.from, '\t', (size_t)(line.to - line.from));
    const char *hint = "sentence, tab, label";
    if (!tab)
        return refuse(r, line.from, "tasks.fields", hint, "missing tab and label", err);
    const char *more = memchr(tab + 1, '\t', (size_t)(line.to - tab - 1));
    if (more)
        return refuse(r, more, "tasks.fields", hint, "there is more than one tab", err);
    const span text = {line.from, tab}, label = trimmed((span){tab + 1, line.to});
    const int64_t number = label_of(label, config);
    if (number < 0 && first && !is_number(label) && label.from < label.to)
        return ES_OK; /* names of the columns */
    if (number < 0)
        return refuse_label(r, label, config, err);
    if (is_blank(text))
        return refuse(r, line.from, "tasks.text", hint, "missing sentence before the tab", err);
    return add(out, text, number, r->line, err);
}

/* Reads lines of label and text. Blank lines may follow the last text, but no text may follow
 * them. */
static es_status read_lines(reader *r, const es_model_config *config, es_tasks *out, es_error *err)
{
    bool blank = false;
    for (; r->at < r->end; r->line++) {
        const span line = next_line(r);
        const bool none = is_blank(line) && !memchr(line.from, '\t', (size_t)(line.to - line.from));
        if (!none && blank)
            return refuse(r, line.from, "tasks.blank", "remove the blank line",
                          "a text after a blank line", err);
        if (!none)
            ES_TRY(read_line(r, line, config, r->line == 1, out, err));
        blank = none;
    }
    if (!out->count)
        return refuse(r, r->at, "tasks.rows", "write one sentence, a tab and a label per line",
                      "the file has no labelled text", err);
    return ES_OK;
}

/* Starts a reader at the first byte, after checking that all bytes are text. */
static es_status begin(const char *text, size_t size, const char *file, reader *r, es_error *err)
{
    *r = (reader){.text = text, .end = text + size, .at = text, .file = file, .line = 1};
    const char *nul = size ? memchr(text, '\0', size) : NULL;
    const int64_t broken = size ? es_utf8_invalid(text, size) : -1;
    const char *wrong = broken >= 0 ? text + broken : nul;
    for (const char *p = text; wrong && p < wrong; p++)
        r->line += *p == '\n';
    if (broken >= 0)
        return refuse(r, wrong, "tasks.utf8", "convert the file to UTF-8", "this is not UTF-8",
                      err);
    if (nul)
        return refuse(r, nul, "tasks.nul", "check that this is a text file", "a zero byte", err);
    r->at += es_utf8_mark(text, size);
    return ES_OK;
}

es_status es_tasks_parse(const char *text, size_t size, const char *file,
                         const es_model_config *config, es_mem_limit *budget, es_tasks *out,
                         es_error *err)
{
    reader r;
    *out = (es_tasks){.budget = budget};
    es_status status = begin(text, size, file, &r, err);
    if (status == ES_OK)
        status = read_lines(&r, config, out, err);
    if (status != ES_OK)
        es_tasks_free(out);
    return status;
}

/* ---- paragraphs ---- */

/* Lines up to the next blank one are one text, line ends and all: they are white space to a
 * tokenizer. */
static es_status read_paragraphs(reader *r, es_tasks *out, es_error *err)
{
    span open = {NULL, NULL};
    int64_t first = 0;
    for (; r->at < r->end; r->line++) {
        const span line = next_line(r);
        if (is_blank(line) && open.from) {
            ES_TRY(add(out, open, -1, first, err));
            open.from = NULL;
        }
        if (is_blank(line))
            continue;
        first = open.from ? first : r->line;
        open.from = open.from ? open.from : line.from;
        open.to = line.to;
    }
    if (open.from)
        ES_TRY(add(out, open, -1, first, err));
    if (!out->count)
        return refuse(r, r->at, "tasks.rows", "check that this is the right file",
                      "the file has no text", err);
    return ES_OK;
}

/* ---- files ---- */

/* Reads the file and checks that its beginning is text in UTF-8. */
static es_status load_bytes(const char *path, es_mem_limit *budget, es_tasks *out, size_t *size,
                            es_error *err)
{
    uint64_t bytes;
    *out = (es_tasks){.budget = budget};
    ES_TRY(es_file_examine(path, &bytes, err));
    if (bytes > ES_TASKS_BYTES)
        return es_fail_file(err, ES_E_LIMIT, path, -1, "tasks.size", "a file has up to 64 MiB",
                            "the file has %llu bytes", (unsigned long long)bytes);
    ES_TRY(es_file_load(path, ES_TASKS_BYTES, budget, &out->file, size, err));
    return es_text_check(out->file, *size < 4096 ? *size : 4096, path, err);
}

/* Loads labelled texts, or paragraphs if `config` is NULL. */
static es_status load(const char *path, const es_model_config *config, es_mem_limit *budget,
                      es_tasks *out, es_error *err)
{
    reader r;
    size_t size;
    es_status status = load_bytes(path, budget, out, &size, err);
    if (status == ES_OK)
        status = begin(out->file, size, path, &r, err);
    if (status == ES_OK)
        status = config ? read_lines(&r, config, out, err) : read_paragraphs(&r, out, err);
    if (status != ES_OK)
        es_tasks_free(out);
    return status;
}

es_status es_tasks_load(const char *path, const es_model_config *config, es_mem_limit *budget,
                        es_tasks *out, es_error *err)
{
    return load(path, config, budget, out, err);
}

es_status es_tasks_paragraphs(const char *path, es_mem_limit *budget, es_tasks *out, es_error *err)
{
    return load(path, NULL, budget, out, err);
}

void es_tasks_free(es_tasks *tasks)
{
    es_mem_free(tasks->budget, tasks->at);
    es_mem_free(tasks->budget, tasks->file);
    *tasks = (es_tasks){0};
}
