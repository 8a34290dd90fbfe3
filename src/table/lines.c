#include "table/lines.h"

#include <string.h>

/* Ranges of characters, sorted. */
typedef struct range {
    uint32_t from, to;
} range;

static bool is_among(uint32_t code, const range *list, int count)
{
    for (int i = 0; i < count; i++)
        if (code >= list[i].from && code <= list[i].to)
            return true;
    return false;
}

/* Columns of a character: those of Unicode's East Asian Width that are wide or full, and the
 * combining marks that occur in texts and formulas. */
static int width_of(uint32_t code)
{
    static const range none[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},
                                 {0x610, 0x61a},   {0x64b, 0x65f},   {0x1ab0, 0x1aff},
                                 {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x20d0, 0x20ff},
                                 {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
    static const range wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0xa4cf},
                                 {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f},
                                 {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                                 {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
    if (code < 0x300)
        return 1;
    if (is_among(code, none, (int)(sizeof none / sizeof *none)))
        return 0;
    return is_among(code, wide, (int)(sizeof wide / sizeof *wide)) ? 2 : 1;
}

/* The character at `text`, and its bytes; a byte that begins none stands for itself. */
static uint32_t next_code(const char *text, size_t *bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    const size_t length = p[0] < 0xc0 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t code = length == 1 ? p[0] : p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            *bytes = 1;
            return p[0];
        }
        code = code << 6 | (p[i] & 0x3fu);
    }
    *bytes = length;
    return code;
}

int es_lines_width_of(const char *text, size_t count)
{
    size_t bytes;
    int width = 0;
    for (size_t i = 0; i < count; i += bytes)
        width += width_of(next_code(text + i, &bytes));
    return width;
}

int es_lines_width(const char *text) { return es_lines_width_of(text, strlen(text)); }

size_t es_lines_fit(const char *text, int width)
{
    size_t used = 0, bytes;
    while (text[used]) {
        width -= width_of(next_code(text + used, &bytes));
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
            (void)next_code(word, &part);
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
