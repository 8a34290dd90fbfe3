/* SPDX-License-Identifier: Apache-2.0 */
#include "report/sink.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes ---- */

es_status es_sink_begin(es_sink *s, const char *path, bool overwrite, es_error *err)
{
    s->used = 0;
    s->written = 0;
    s->err = err;
    s->status = es_draft_open(path, overwrite, &s->draft, err);
    return s->status;
}

void es_sink_begin_open(es_sink *s, int fd, const char *name, es_error *err)
{
    s->used = 0;
    s->written = 0;
    s->err = err;
    s->status = ES_OK;
    s->draft = (es_draft){.path = name, .fd = fd};
}

/* Writes the buffer to the draft; after a failure it only counts. */
static void flush(es_sink *s)
{
    if (s->status == ES_OK && s->used > 0)
        s->status = es_draft_write(&s->draft, s->buffer, s->used, s->err);
    s->written += (int64_t)s->used;
    s->used = 0;
}

es_status es_sink_flush(es_sink *s)
{
    flush(s);
    return s->status;
}

es_status es_sink_give_up(es_sink *s, es_status status)
{
    if (s->status == ES_OK)
        s->status = status;
    return status;
}

es_status es_sink_end(es_sink *s)
{
    flush(s);
    if (s->status == ES_OK)
        s->status = es_draft_publish(&s->draft, s->err);
    es_draft_discard(&s->draft);
    return s->status;
}

void es_sink_bytes(es_sink *s, const void *bytes, size_t size)
{
    const char *from = bytes;
    while (size > 0) {
        if (s->used == sizeof s->buffer)
            flush(s);
        const size_t capacity = sizeof s->buffer - s->used,
                     part = size < capacity ? size : capacity;
        memcpy(s->buffer + s->used, from, part);
        s->used += part;
        from += part;
        size -= part;
    }
}

void es_sink_put(es_sink *s, const char *markup) { es_sink_bytes(s, markup, strlen(markup)); }

void es_sink_format(es_sink *s, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    const int length = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (length > 0)
        es_sink_bytes(s, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

/* ---- text from outside this program ---- */

enum { NO_CHARACTER = -1 };

/* The character at *p, which moves behind it; NO_CHARACTER for a byte that begins none, which *p
 * passes. Neither overlong forms nor surrogates are characters. */
static int32_t next_character(const unsigned char **p)
{
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = *(*p)++;
    if (first < 0x80)
        return first;
    if (first < 0xc2 || first > 0xf4)
        return NO_CHARACTER;
    const int length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    int32_t code = first & (0x7f >> length);
    for (int i = 0; i < length - 1; i++) {
        if (((*p)[i] & 0xc0) != 0x80)
            return NO_CHARACTER;
        code = code << 6 | ((*p)[i] & 0x3f);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return NO_CHARACTER;
    *p += length - 1;
    return code;
}

/* Returns true for invisible characters that change how text is shown, e.g. its direction. */
static bool is_treacherous(int32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0x061c || code == 0xfeff;
}

/* Write each character of `text` with `put`, and say where it was cut. */
static void each_character(es_sink *s, const char *text,
                           void (*put)(es_sink *, int32_t code, const unsigned char *at, size_t n))
{
    const unsigned char *p = (const unsigned char *)text, *end = p + ES_SINK_LONGEST;
    while (*p && p < end) {
        const unsigned char *at = p;
        const int32_t code = next_character(&p);
        put(s, code, at, (size_t)(p - at));
    }
    if (*p)
        es_sink_put(s, " … (cut)");
}

/* Writes one character of a text as HTML; invisible characters become visible escapes. */
static void put_html(es_sink *s, int32_t code, const unsigned char *at, size_t n)
{
    if (code == NO_CHARACTER)
        es_sink_format(s, "\\x%02x", at[0]);
    else if (code == '\n' || code == '\t')
        es_sink_put(s, " ");
    else if (is_treacherous(code))
        es_sink_format(s, "\\u%04x", (unsigned)code);
    else if (code == '<' || code == '>' || code == '&' || code == '"' || code == '\'')
        es_sink_format(s, "&#%d;", (int)code);
    else
        es_sink_bytes(s, at, n);
}

/* Writes one character of a text as JSON that is safe inside a script element. */
static void put_json(es_sink *s, int32_t code, const unsigned char *at, size_t n)
{
    if (code == NO_CHARACTER)
        es_sink_format(s, "\\\\x%02x", at[0]);
    else if (is_treacherous(code) || code == '<' || code == '>' || code == '&' || code == '"' ||
             code == '\\')
        es_sink_format(s, "\\u%04x", (unsigned)code);
    else
        es_sink_bytes(s, at, n);
}

void es_sink_text(es_sink *s, const char *text) { each_character(s, text, put_html); }

void es_sink_json_text(es_sink *s, const char *text)
{
    es_sink_put(s, "\"");
    each_character(s, text, put_json);
    es_sink_put(s, "\"");
}

void es_sink_json_real(es_sink *s, double value)
{
    char text[32];
    if (!isfinite(value)) {
        es_sink_put(s, "null");
        return;
    }
    const bool whole = fabs(value) < 1e15 && value == floor(value);
    snprintf(text, sizeof text, "%.*g", whole ? 15 : ES_SINK_DIGITS, value);
    char *comma = strchr(text, ','); /* of a host program's locale; JSON has none */
    if (comma)
        *comma = '.';
    es_sink_put(s, text);
}
