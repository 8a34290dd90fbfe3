/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c : wraps text at a width, counting columns of a terminal rather than bytes. */
#include "table/lines.h"

#include <ctype.h>
#include <string.h>

#include <utf8proc.h>

/* Returns the columns and bytes of the character at `text`; an invalid byte counts as one column.
 */
static int width_at(const char *text, size_t *bytes)
{
    utf8proc_int32_t code;
    const utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code);
    *bytes = length > 0 ? (size_t)length : 1;
    return length > 0 ? utf8proc_charwidth(code) : 1;
}

int es_lines_width_of(const char *text, size_t count)
{
    size_t bytes;
    int width = 0;
    for (size_t i = 0; i < count; i += bytes)
        width += width_at(text + i, &bytes);
    return width;
}

int es_lines_width(const char *text) { return es_lines_width_of(text, strlen(text)); }

size_t es_lines_fit(const char *text, int width)
{
    size_t used = 0, bytes;
    while (text[used]) {
        width -= width_at(text + used, &bytes);
        if (width < 0)
            break;
        used += bytes;
    }
    return used;
}

/* ---- lines ---- */

void es_lines_bytes(es_writer *writer, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        es_writer_char(writer, text[i]);
}

/* Starts a new line with the given indentation. */
static void break_line(es_writer *writer, int indent)
{
    es_writer_format(writer, "\n%*s", indent, "");
}

/* A word longer than any line, from column `at` on. Returns the column it ends in. */
static int put_long(es_writer *writer, const char *word, size_t length, int width, int at,
                    int indent)
{
    while (length > 0) {
        size_t part = es_lines_fit(word, width - at);
        part = part < length ? part : length;
        if (part == 0) { /* not even one character: a line has one at least */
            if (at > indent) {
                break_line(writer, indent);
                at = indent;
                continue;
            }
            (void)width_at(word, &part);
        }
        es_lines_bytes(writer, word, part);
        at += es_lines_width_of(word, part);
        word += part;
        length -= part;
    }
    return at;
}

void es_lines_put(es_writer *writer, const char *text, int width, int used, int indent)
{
    int at = used;
    while (*text) {
        if (*text == '\n') {
            break_line(writer, indent);
            at = indent;
            text++;
            continue;
        }
        const size_t gap = strspn(text, " "), length = strcspn(text + gap, " \n");
        const int word = es_lines_width_of(text + gap, length);
        const bool fits = width == 0 || at + (int)gap + word <= width;
        if (fits) {
            es_lines_bytes(writer, text, gap + length);
            at += (int)gap + word;
        } else {
            if (at > indent) {
                break_line(writer, indent);
                at = indent;
            }
            at = put_long(writer, text + gap, length, width, at, indent);
        }
        text += gap + length;
    }
    es_writer_put(writer, "\n");
}

/* ---- Markdown ---- */

/* At the beginning of a text: a heading, an item of a list, a quotation. */
static bool begins_block(const char *text, const char *at)
{
    if (at == text)
        return *at == '>' || (*at == '#' && strchr("# ", at[1])) ||
               (strchr("+-", *at) && at[1] == ' ');
    return strchr(".)", *at) && at[1] == ' ' && strspn(text, "0123456789") == (size_t)(at - text);
}

/* Returns whether Markdown would read the character as markup. */
static bool is_mark(const char *text, const char *at)
{
    const int before = at > text ? (unsigned char)at[-1] : ' ', after = (unsigned char)at[1];
    switch (*at) {
    case '\\':
    case '`':
    case '*':
    case '<':
    case '|':
    case '[':
        return true;
    case '_': /* inside a word it is one: P_n */
        return !isalnum(before) || !isalnum(after);
    case '~':
        return before != ' ' || after != ' ';
    case '&':
        return isalnum(after) || after == '#';
    default:
        return begins_block(text, at);
    }
}

/* Writes text for Markdown, with its marks escaped. */
static void put_markdown(es_writer *writer, const char *text, size_t length)
{
    for (const char *at = text; at < text + length; at++) {
        if (is_mark(text, at))
            es_writer_char(writer, '\\');
        es_writer_char(writer, *at);
    }
}

void es_lines_markdown(es_writer *writer, const char *text)
{
    put_markdown(writer, text, strlen(text));
}

/* ---- marked formulas ---- */

/* The first pair of backquotes; false if there is none. */
static bool find_pair(const char *text, const char **open, const char **close)
{
    *open = strchr(text, '`');
    *close = *open ? strchr(*open + 1, '`') : NULL;
    return *close;
}

void es_lines_marked(es_writer *writer, const char *text)
{
    for (const char *open, *close; find_pair(text, &open, &close); text = close + 1) {
        put_markdown(writer, text, (size_t)(open - text));
        es_lines_bytes(writer, open, (size_t)(close - open) + 1);
    }
    es_lines_markdown(writer, text);
}

char *es_lines_unmarked(char *text)
{
    char *to = text;
    const char *from = text;
    for (const char *open, *close; find_pair(from, &open, &close); from = close + 1) {
        const size_t before = (size_t)(open - from), inside = (size_t)(close - open) - 1;
        memmove(to, from, before);
        memmove(to + before, open + 1, inside);
        to += before + inside;
    }
    memmove(to, from, strlen(from) + 1);
    return text;
}
