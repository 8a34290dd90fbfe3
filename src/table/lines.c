#include "table/lines.h"

#include <string.h>

#include <utf8proc.h>

/* Columns of the character at `text`, and its bytes; a byte that begins none stands for itself. */
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

void es_lines_bytes(es_pen *pen, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        es_pen_char(pen, text[i]);
}

static void break_line(es_pen *pen, int indent) { es_pen_format(pen, "\n%*s", indent, ""); }

/* A word longer than any line, from column `at` on. Returns the column it ends in. */
static int put_long(es_pen *pen, const char *word, size_t length, int width, int at, int indent)
{
    while (length > 0) {
        size_t part = es_lines_fit(word, width - at);
        part = part < length ? part : length;
        if (part == 0) { /* not even one character: a line has one at least */
            if (at > indent) {
                break_line(pen, indent);
                at = indent;
                continue;
            }
            (void)width_at(word, &part);
        }
        es_lines_bytes(pen, word, part);
        at += es_lines_width_of(word, part);
        word += part;
        length -= part;
    }
    return at;
}

void es_lines_put(es_pen *pen, const char *text, int width, int used, int indent)
{
    int at = used;
    while (*text) {
        if (*text == '\n') {
            break_line(pen, indent);
            at = indent;
            text++;
            continue;
        }
        const size_t gap = strspn(text, " "), length = strcspn(text + gap, " \n");
        const int word = es_lines_width_of(text + gap, length);
        const bool fits = width == 0 || at + (int)gap + word <= width;
        if (fits) {
            es_lines_bytes(pen, text, gap + length);
            at += (int)gap + word;
        } else {
            if (at > indent) {
                break_line(pen, indent);
                at = indent;
            }
            at = put_long(pen, text + gap, length, width, at, indent);
        }
        text += gap + length;
    }
    es_pen_put(pen, "\n");
}

void es_lines_markdown(es_pen *pen, const char *text)
{
    for (; *text; text++) {
        if (strchr("\\`*<|", *text))
            es_pen_char(pen, '\\');
        es_pen_char(pen, *text);
    }
}
